/* The few functions, types and constants of the driver that are needed are declared here, as its own header
 * has them, so that building needs no toolkit. Their values are part of its binary interface and never
 * change. */
#include "runtime/driver.h"
#include <dlfcn.h>
#include <string.h>

enum { DRIVER_SUCCESS = 0, DRIVER_NO_MEMORY = 2, DRIVER_NO_DEVICE = 100 };
enum { FUNCTION_MAX_DYNAMIC_SHARED = 8, FUNCTION_NON_PORTABLE_CLUSTER = 14 };
enum { DEVICE_CAPABILITY_MAJOR = 75, DEVICE_CAPABILITY_MINOR = 76 };
enum { LAUNCH_CLUSTER_DIMENSION = 4, LAUNCH_PROGRAMMATIC_SERIALIZATION = 6 };
enum { STREAM_NON_BLOCKING = 1, PORTABLE_CLUSTER = 8 };

typedef struct LaunchAttribute {
  int id, padding;
  union {
    unsigned cluster[3];
    int allowed;
    char bytes[64];
  } value;
} LaunchAttribute;

typedef struct LaunchConfig {
  unsigned grid[3], block[3], shared;
  void *stream;
  LaunchAttribute *attributes;
  unsigned n_attributes;
} LaunchConfig;

/* X(field, symbol, parameters) */
#define DRIVER_FUNCTIONS(X)                                                                                  \
  X(initialize, "cuInit", (unsigned flags))                                                                  \
  X(error_name, "cuGetErrorName", (int status, const char **text))                                           \
  X(error_text, "cuGetErrorString", (int status, const char **text))                                         \
  X(device_count, "cuDeviceGetCount", (int *n))                                                              \
  X(device_get, "cuDeviceGet", (int *device, int number))                                                    \
  X(device_name, "cuDeviceGetName", (char *name, int length, int device))                                    \
  X(device_attribute, "cuDeviceGetAttribute", (int *value, int attribute, int device))                       \
  X(context_retain, "cuDevicePrimaryCtxRetain", (void **context, int device))                                \
  X(context_release, "cuDevicePrimaryCtxRelease_v2", (int device))                                           \
  X(context_set, "cuCtxSetCurrent", (void *context))                                                         \
  X(stream_create, "cuStreamCreate", (void **stream, unsigned flags))                                        \
  X(stream_destroy, "cuStreamDestroy_v2", (void *stream))                                                    \
  X(stream_wait, "cuStreamSynchronize", (void *stream))                                                      \
  X(allocate, "cuMemAlloc_v2", (uint64_t * address, size_t bytes))                                           \
  X(release, "cuMemFree_v2", (uint64_t address))                                                             \
  X(write, "cuMemcpyHtoDAsync_v2", (uint64_t address, const void *data, size_t bytes, void *stream))         \
  X(read, "cuMemcpyDtoHAsync_v2", (void *data, uint64_t address, size_t bytes, void *stream))                \
  X(fill, "cuMemsetD8Async", (uint64_t address, unsigned char value, size_t bytes, void *stream))            \
  X(module_load, "cuModuleLoadData", (void **module, const void *image))                                     \
  X(module_unload, "cuModuleUnload", (void *module))                                                         \
  X(module_function, "cuModuleGetFunction", (void **function, void *module, const char *name))               \
  X(function_set, "cuFuncSetAttribute", (void *function, int attribute, int value))

/* Functions of newer drivers, looked for when a kernel needs them. */
typedef int (*EncodeTiled)(DeviceTensorMap *map, int type, uint32_t rank, void *address, const uint64_t *dims,
                           const uint64_t *strides, const uint32_t *box, const uint32_t *steps,
                           int interleave, int swizzle, int l2_promotion, int fill);
typedef int (*LaunchEx)(const LaunchConfig *config, void *function, void **arguments, void **extra);

typedef struct Driver {
  void *library;
#define X(field, symbol, parameters) int(*field) parameters;
  DRIVER_FUNCTIONS(X)
#undef X
  EncodeTiled encode;
  LaunchEx launch;
} Driver;

struct Device {
  Driver driver;
  int handle;
  void *context, *stream;
  char name[256];
  unsigned capability;
};

struct DeviceKernel {
  Device *device;
  void *module, *function;
  char *name;
};

/* ---- errors ---- */

static bool failed(const Device *device, int status, ErrorCode code, const char *code_id, const char *what,
                   GError **error)
{
  const char *name = NULL, *text = NULL;
  device->driver.error_name(status, &name);
  device->driver.error_text(status, &text);
  error_set(error, code, NULL, code_id, NULL, "%s: %s (%s, %d)", what, text ? text : "unknown error",
            name ? name : "unknown", status);
  return false;
}

static bool check(const Device *device, int status, const char *what, GError **error)
{
  if (status == DRIVER_SUCCESS) return true;
  return failed(device, status, ERROR_MISSING_TOOL, "driver-failed", what, error);
}

/* ---- loading ---- */

static const char *const library_names[] = {"libcuda.so.1", "libcuda.so"};
/* Where containers and other systems put it, should the loader's own path not have it. */
static const char *const library_folders[] = {"", "/usr/local/nvidia/lib64/", "/usr/lib/wsl/lib/"};

static void *open_library(GError **error)
{
  g_autoptr(GString) tried = g_string_new(NULL);
  for (unsigned i = 0; i < G_N_ELEMENTS(library_folders); i++)
    for (unsigned j = 0; j < G_N_ELEMENTS(library_names); j++) {
      g_autofree char *path = g_strconcat(library_folders[i], library_names[j], NULL);
      void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
      if (library) return library;
      g_string_append_printf(tried, "%s%s", tried->len ? ", " : "", path);
    }
  const char *search = g_getenv("LD_LIBRARY_PATH");
  error_set(error, ERROR_MISSING_TOOL, NULL, "no-driver", "it comes with the driver of an NVIDIA GPU",
            "the CUDA driver was not found; looked for %s by the system's loader (LD_LIBRARY_PATH: %s)",
            tried->str, search && *search ? search : "not set");
  return NULL;
}

static bool load_functions(Driver *driver, GError **error)
{
  const char *missing = NULL;
#define X(field, symbol, parameters)                                                                         \
  *(void **)&driver->field = dlsym(driver->library, symbol);                                                 \
  if (!driver->field) missing = symbol;
  DRIVER_FUNCTIONS(X)
#undef X
  *(void **)&driver->encode = dlsym(driver->library, "cuTensorMapEncodeTiled");
  *(void **)&driver->launch = dlsym(driver->library, "cuLaunchKernelEx");
  if (!driver->launch) missing = "cuLaunchKernelEx";
  if (!missing) return true;
  error_set(error, ERROR_MISSING_TOOL, NULL, "no-driver", "a driver of CUDA 12 or newer is needed",
            "the CUDA driver has no %s", missing);
  return false;
}

static bool open_device(Device *device, unsigned number, GError **error)
{
  Driver *driver = &device->driver;
  int n = 0, status = driver->initialize(0), major = 0, minor = 0;
  if (status && status != DRIVER_NO_DEVICE)
    return failed(device, status, ERROR_MISSING_TOOL, "no-driver", "the CUDA driver does not start", error);
  if (!status) driver->device_count(&n);
  if (number >= (unsigned)n) {
    error_set(error, ERROR_MISSING_TOOL, NULL, "no-gpu", NULL,
              "there is no GPU %u: the CUDA driver knows of %d", number, n);
    return false;
  }
  if (!check(device, driver->device_get(&device->handle, (int)number), "cannot open the GPU", error) ||
      !check(device, driver->context_retain(&device->context, device->handle),
             "cannot make a context on the GPU", error) ||
      !check(device, driver->context_set(device->context), "cannot use the GPU's context", error) ||
      !check(device, driver->stream_create(&device->stream, STREAM_NON_BLOCKING), "cannot make a stream",
             error))
    return false;
  driver->device_name(device->name, sizeof device->name, device->handle);
  driver->device_attribute(&major, DEVICE_CAPABILITY_MAJOR, device->handle);
  driver->device_attribute(&minor, DEVICE_CAPABILITY_MINOR, device->handle);
  device->capability = (unsigned)(major * 10 + minor);
  return true;
}

Device *device_open(unsigned number, GError **error)
{
  g_autoptr(Device) device = g_new0(Device, 1);
  device->driver.library = open_library(error);
  if (!device->driver.library || !load_functions(&device->driver, error) ||
      !open_device(device, number, error))
    return NULL;
  return g_steal_pointer(&device);
}

void device_close(Device *device)
{
  if (!device) return;
  if (device->stream) device->driver.stream_destroy(device->stream);
  if (device->context) device->driver.context_release(device->handle);
  /* The library stays loaded: it does not bear being unloaded while its threads run. */
  g_free(device);
}

const char *device_name(const Device *device)
{
  return device->name;
}

unsigned device_capability(const Device *device)
{
  return device->capability;
}

void *device_stream(const Device *device)
{
  return device->stream;
}

void *device_symbol(const Device *device, const char *name)
{
  return dlsym(device->driver.library, name);
}

int device_attribute(const Device *device, int attribute)
{
  int value = 0;
  return device->driver.device_attribute(&value, attribute, device->handle) == DRIVER_SUCCESS ? value : 0;
}

char *device_target(const Device *device, const char *target, GError **error)
{
  const char *digits = target + strcspn(target, "0123456789");
  char *suffix = NULL;
  unsigned capability = (unsigned)g_ascii_strtoull(digits, &suffix, 10);
  if (capability == device->capability) return g_strdup(target);
  if (capability < device->capability && !*suffix)
    return g_strdup_printf("%.*s%u", (int)(digits - target), target, device->capability);
  error_set(error, ERROR_UNSUPPORTED, NULL, "wrong-device", "--on sim runs it on the CPU",
            "kernels for %s cannot run on this %s, which is of compute capability %u.%u", target,
            device->name, device->capability / 10, device->capability % 10);
  return NULL;
}

/* ---- memory ---- */

uint64_t device_allocate(Device *device, uint64_t bytes, GError **error)
{
  uint64_t address = 0;
  int status = device->driver.allocate(&address, MAX(bytes, 256));
  if (status == DRIVER_SUCCESS) return address;
  g_autofree char *what = g_strdup_printf("cannot allocate %" G_GUINT64_FORMAT " bytes on the GPU", bytes);
  failed(device, status, status == DRIVER_NO_MEMORY ? ERROR_UNSUPPORTED : ERROR_MISSING_TOOL, "no-memory",
         what, error);
  return 0;
}

void device_release(Device *device, uint64_t address)
{
  if (address) device->driver.release(address);
}

bool device_write(Device *device, uint64_t address, const void *data, uint64_t bytes, GError **error)
{
  if (!bytes) return true;
  return check(device, device->driver.write(address, data, bytes, device->stream), "copy to the GPU",
               error) &&
         device_wait(device, error);
}

bool device_read(Device *device, void *data, uint64_t address, uint64_t bytes, GError **error)
{
  if (!bytes) return true;
  return check(device, device->driver.read(data, address, bytes, device->stream), "copy from the GPU",
               error) &&
         device_wait(device, error);
}

bool device_fill(Device *device, uint64_t address, uint8_t value, uint64_t bytes, GError **error)
{
  return !bytes ||
         check(device, device->driver.fill(address, value, bytes, device->stream), "fill on the GPU", error);
}

/* ---- kernels ---- */

DeviceKernel *device_load(Device *device, const char *name, GBytes *cubin, const char *entry, unsigned shared,
                          GError **error)
{
  g_autoptr(DeviceKernel) kernel = g_new0(DeviceKernel, 1);
  const Driver *driver = &device->driver;
  kernel->device = device;
  kernel->name = g_strdup(name);
  int status = driver->module_load(&kernel->module, g_bytes_get_data(cubin, NULL));
  if (!status) status = driver->module_function(&kernel->function, kernel->module, entry);
  if (!status) status = driver->function_set(kernel->function, FUNCTION_MAX_DYNAMIC_SHARED, (int)shared);
  if (status == DRIVER_SUCCESS) return g_steal_pointer(&kernel);
  g_autofree char *what = g_strdup_printf("cannot load %s with %u bytes of shared memory", name, shared);
  failed(device, status, ERROR_VERIFY, "load-refused", what, error);
  return NULL;
}

void device_unload(DeviceKernel *kernel)
{
  if (!kernel) return;
  if (kernel->module) kernel->device->driver.module_unload(kernel->module);
  g_free(kernel->name);
  g_free(kernel);
}

/* The driver's code of an element type; what has none of its own is moved as bits of its size. */
static int map_type(NumberType type)
{
  switch (type) {
  case NUMBER_F64: return 8;
  case NUMBER_F32: return 7;
  case NUMBER_TF32: return 11;
  case NUMBER_F16: return 6;
  case NUMBER_BF16: return 9;
  case NUMBER_S32: return 3;
  case NUMBER_S64: return 5;
  default: break;
  }
  switch (number_bits(type)) {
  case 8: return 0;
  case 16: return 1;
  case 32: return 2;
  default: return 4;
  }
}

/* Position among the powers of two that a field of the map takes: 0 for none. */
static int map_code(unsigned bytes, unsigned first)
{
  int code = 0;
  for (; bytes >= first; bytes /= 2)
    code++;
  return code;
}

bool device_encode(Device *device, const char *name, const DeviceBox *box, DeviceTensorMap *map,
                   GError **error)
{
  uint32_t steps[5];
  for (unsigned i = 0; i < 5; i++)
    steps[i] = MAX(box->element_strides[i], 1);
  if (!device->driver.encode) {
    error_set(error, ERROR_MISSING_TOOL, NULL, "no-driver", "a driver of CUDA 12 or newer is needed",
              "the CUDA driver has no cuTensorMapEncodeTiled");
    return false;
  }
  int status =
      device->driver.encode(map, map_type(box->element), box->rank, (void *)(uintptr_t)box->address,
                            box->dims, box->strides, box->box, steps, map_code(box->interleave, 16),
                            map_code(box->swizzle, 32), map_code(box->l2_promotion, 64), box->fill_nan);
  if (status == DRIVER_SUCCESS) return true;
  g_autoptr(GString) text = g_string_new(NULL);
  g_string_append_printf(text, "the driver refuses tensor map %s: %s, address %#" G_GINT64_MODIFIER "x", name,
                         number_name(box->element), box->address);
  for (unsigned i = 0; i < box->rank; i++)
    g_string_append_printf(text, "; size %" G_GUINT64_FORMAT ", box %u, stride %" G_GUINT64_FORMAT,
                           box->dims[i], box->box[i], i ? box->strides[i - 1] : number_bytes(box->element));
  g_string_append_printf(text, "; swizzle %u, interleave %u", box->swizzle, box->interleave);
  return failed(device, status, ERROR_INTERNAL, "tensor-map", text->str, error);
}

static void add_attribute(LaunchConfig *config, int id, const void *value, size_t bytes)
{
  LaunchAttribute *attribute = &config->attributes[config->n_attributes++];
  attribute->id = id;
  memcpy(&attribute->value, value, bytes);
}

bool device_launch(Device *device, const DeviceKernel *kernel, const DeviceLaunch *launch, GError **error)
{
  LaunchAttribute attributes[2] = {{0}};
  LaunchConfig config = {.shared = launch->shared, .stream = device->stream, .attributes = attributes};
  memcpy(config.grid, launch->grid, sizeof config.grid);
  memcpy(config.block, launch->block, sizeof config.block);
  unsigned blocks = launch->cluster[0] * launch->cluster[1] * launch->cluster[2];
  const int allowed = 1;
  g_autofree char *what = g_strdup_printf(
      "cannot launch %s: grid %u x %u x %u, block %u x %u x %u, cluster of %u, %u bytes of shared memory",
      kernel->name, launch->grid[0], launch->grid[1], launch->grid[2], launch->block[0], launch->block[1],
      launch->block[2], blocks, launch->shared);
  if (blocks > PORTABLE_CLUSTER &&
      !check(device, device->driver.function_set(kernel->function, FUNCTION_NON_PORTABLE_CLUSTER, 1), what,
             error))
    return false;
  if (blocks > 1) add_attribute(&config, LAUNCH_CLUSTER_DIMENSION, launch->cluster, sizeof launch->cluster);
  if (launch->dependent) add_attribute(&config, LAUNCH_PROGRAMMATIC_SERIALIZATION, &allowed, sizeof allowed);
  int status = device->driver.launch(&config, kernel->function, launch->arguments, NULL);
  if (status == DRIVER_SUCCESS) return true;
  return failed(device, status, ERROR_VERIFY, "launch-refused", what, error);
}

bool device_wait(Device *device, GError **error)
{
  int status = device->driver.stream_wait(device->stream);
  if (status == DRIVER_SUCCESS) return true;
  return failed(device, status, ERROR_VERIFY, "kernel-fault", "the GPU reports a fault of a kernel", error);
}
