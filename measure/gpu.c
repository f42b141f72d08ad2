#include "base/data.h"
#include "measure/gpu_private.h"
#include <string.h>

/* Of CUdevice_attribute. */
enum { ATTRIBUTE_CLOCK_KHZ = 13, ATTRIBUTE_SMS = 16, ATTRIBUTE_L2_BYTES = 38 };
/* Flushed: at least this many times the L2 cache. */
#define FLUSH_FACTOR 2

bool bench_driver_check(const BenchGpu *gpu, int status, const char *what, GError **error)
{
  if (!status) return true;
  const char *name = NULL;
  gpu->driver.error_name(status, &name);
  error_set(error, ERROR_MISSING_TOOL, NULL, "driver-failed", NULL, "%s: %s (%d)", what,
            name ? name : "unknown error", status);
  return false;
}

static bool load_functions(BenchGpu *gpu, GError **error)
{
  const char *missing = NULL;
#define X(field, symbol, parameters)                                                                         \
  *(void **)&gpu->driver.field = device_symbol(gpu->device, symbol);                                         \
  if (!gpu->driver.field) missing = symbol;
  BENCH_DRIVER_FUNCTIONS(X)
#undef X
  if (!missing) return true;
  error_set(error, ERROR_MISSING_TOOL, NULL, "no-driver", "a driver of CUDA 12 or newer is needed",
            "the CUDA driver has no %s", missing);
  return false;
}

/* The driver takes text too, and assembles it for the device. */
DeviceKernel *bench_support_load(BenchGpu *gpu, const char *file, const char *entry, unsigned shared,
                                 GError **error)
{
  g_autofree char *path = g_strdup_printf("bench/kernels/%s", file);
  g_autoptr(Source) source = data_load(path, error);
  if (!source) return NULL;
  g_autoptr(GBytes) text = g_bytes_new(source->text, source->length + 1);
  return device_load(gpu->device, entry, text, entry, shared, error);
}

static bool load_support(BenchGpu *gpu, GError **error)
{
  static const char *const entries[SUPPORT_COUNT] = {[SUPPORT_FILL] = "fill_random",
                                                     [SUPPORT_READ] = "read_words",
                                                     [SUPPORT_EMPTY] = "empty",
                                                     [SUPPORT_SIGNS] = "fill_signs",
                                                     [SUPPORT_PROJECT_ROWS] = "project_rows",
                                                     [SUPPORT_PROJECT_COLUMNS] = "project_columns"};
  enum { ATTRIBUTE_SHARED_OPT_IN = 97 };
  unsigned most = (unsigned)device_attribute(gpu->device, ATTRIBUTE_SHARED_OPT_IN);
  for (unsigned i = 0; i < SUPPORT_COUNT; i++) {
    gpu->support[i] =
        bench_support_load(gpu, "support.ptx", entries[i], i == SUPPORT_EMPTY ? most : 0, error);
    if (!gpu->support[i]) return false;
  }
  return true;
}

static bool read_figures(BenchGpu *gpu, GError **error)
{
  size_t available = 0, total = 0;
  int version = 0;
  if (!bench_driver_check(gpu, gpu->driver.memory_info(&available, &total), "cannot read the GPU's memory",
                          error) ||
      !bench_driver_check(gpu, gpu->driver.driver_version(&version), "cannot read the driver's version",
                          error) ||
      !bench_driver_check(gpu, gpu->driver.bus_id(gpu->bus_id, sizeof gpu->bus_id, (int)gpu->number),
                          "cannot read the GPU's address", error))
    return false;
  gpu->memory_bytes = total;
  gpu->driver_version = (unsigned)version;
  gpu->sms = (unsigned)device_attribute(gpu->device, ATTRIBUTE_SMS);
  gpu->l2_bytes = (uint64_t)device_attribute(gpu->device, ATTRIBUTE_L2_BYTES);
  gpu->clock_mhz = (unsigned)device_attribute(gpu->device, ATTRIBUTE_CLOCK_KHZ) / 1000;
  gpu->flush_bytes = MAX(FLUSH_FACTOR * gpu->l2_bytes, 32u << 20) / 4096 * 4096;
  /* What is written first and what is read afterwards are different lines, so nothing dirty can stay. */
  gpu->flush = device_allocate(gpu->device, 2 * gpu->flush_bytes, error);
  gpu->sink = gpu->flush ? device_allocate(gpu->device, 256, error) : 0;
  return gpu->sink && device_fill(gpu->device, gpu->flush, 1, 2 * gpu->flush_bytes, error) &&
         device_wait(gpu->device, error);
}

BenchGpu *bench_gpu_open(unsigned number, GError **error)
{
  g_autoptr(BenchGpu) gpu = g_new0(BenchGpu, 1);
  gpu->number = number;
  gpu->device = device_open(number, error);
  gpu->recorder = gpu->device ? device_recorder_new(gpu->device, error) : NULL;
  if (!gpu->recorder || !load_functions(gpu, error) || !load_support(gpu, error) || !read_figures(gpu, error))
    return NULL;
  return g_steal_pointer(&gpu);
}

void bench_gpu_close(BenchGpu *gpu)
{
  if (!gpu) return;
  for (unsigned i = 0; i < SUPPORT_COUNT; i++)
    device_unload(gpu->support[i]);
  if (gpu->device) {
    device_release(gpu->device, gpu->flush);
    device_release(gpu->device, gpu->sink);
    device_release(gpu->device, gpu->overwritten);
  }
  device_recorder_free(gpu->recorder);
  device_close(gpu->device);
  g_free(gpu);
}

Device *bench_gpu_device(BenchGpu *gpu)
{
  return gpu->device;
}

DeviceRecorder *bench_gpu_recorder(BenchGpu *gpu)
{
  return gpu->recorder;
}

unsigned bench_gpu_sms(const BenchGpu *gpu)
{
  return gpu->sms;
}

uint64_t bench_gpu_l2(const BenchGpu *gpu)
{
  return gpu->l2_bytes;
}

uint64_t bench_gpu_free_memory(const BenchGpu *gpu)
{
  size_t available = 0, total = 0;
  return gpu->driver.memory_info(&available, &total) ? 0 : available;
}

/* The version of the kernel module stands in a file of the system where there is one. */
static char *module_version(void)
{
  g_autofree char *text = NULL;
  if (!g_file_get_contents("/proc/driver/nvidia/version", &text, NULL, NULL)) return NULL;
  g_autoptr(GMatchInfo) match = NULL;
  g_autoptr(GRegex) pattern = g_regex_new("[0-9]+\\.[0-9]+(\\.[0-9]+)?", 0, 0, NULL);
  return g_regex_match(pattern, text, 0, &match) ? g_match_info_fetch(match, 0) : NULL;
}

json_t *bench_gpu_to_json(const BenchGpu *gpu)
{
  g_autofree char *module = module_version();
  unsigned capability = device_capability(gpu->device);
  g_autofree char *cuda =
      g_strdup_printf("%u.%u", gpu->driver_version / 1000, gpu->driver_version % 1000 / 10);
  g_autofree char *capability_text = g_strdup_printf("%u.%u", capability / 10, capability % 10);
  return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:s, s:s?}", "name", device_name(gpu->device),
                   "capability", capability_text, "sms", (json_int_t)gpu->sms, "l2_bytes",
                   (json_int_t)gpu->l2_bytes, "memory_bytes", (json_int_t)gpu->memory_bytes, "clock_mhz",
                   (json_int_t)gpu->clock_mhz, "cuda", cuda, "driver", module);
}
