#include "runtime/cuda.h"
#include "plan/tensor_map.h"
#include <dlfcn.h>
#include <string.h>

/* ---- errors ---- */

bool driver_failed(const Driver *driver, int status, ErrorCode code, const char *code_id, const char *what,
                   GError **error)
{
  const char *name = NULL, *text = NULL;
  driver->error_name(status, &name);
  driver->error_text(status, &text);
  error_set(error, code, NULL, code_id, NULL, "%s: %s (%s, %d)", what, text ? text : "unknown error",
            name ? name : "unknown", status);
  return false;
}

bool driver_check(const Driver *driver, int status, const char *what, GError **error)
{
  if (status == DRIVER_SUCCESS) return true;
  return driver_failed(driver, status, ERROR_MISSING_TOOL, "driver-failed", what, error);
}

/* ---- loading ---- */

static const char *const library_names[] = {"libcuda.so.1", "libcuda.so"};
/* Where containers and other systems put it, should the loader's own path not have it. */
static const char *const library_folders[] = {"", "/usr/local/nvidia/lib64/", "/usr/lib/wsl/lib/"};

static void *open_library(GError **error)
{
  const char *named = g_getenv("ADLGEN_CUDA_LIBRARY");
  if (named && *named) {
    void *library = dlopen(named, RTLD_NOW | RTLD_LOCAL);
    if (!library)
      error_set(error, ERROR_MISSING_TOOL, NULL, "no-driver", NULL, "ADLGEN_CUDA_LIBRARY names %s: %s", named,
                dlerror());
    return library;
  }
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
  *(void **)&driver->replace_address = dlsym(driver->library, "cuTensorMapReplaceAddress");
  *(void **)&driver->launch = dlsym(driver->library, "cuLaunchKernelEx");
  if (!driver->launch) missing = "cuLaunchKernelEx";
  if (!missing) return true;
  error_set(error, ERROR_MISSING_TOOL, NULL, "no-driver", "a driver of CUDA 12 or newer is needed",
            "the CUDA driver has no %s", missing);
  return false;
}

bool driver_open(Driver *driver, GError **error)
{
  driver->library = open_library(error);
  if (!driver->library || !load_functions(driver, error)) return false;
  int status = driver->initialize(0);
  if (!status || status == DRIVER_NO_DEVICE) return true;
  return driver_failed(driver, status, ERROR_MISSING_TOOL, "no-driver", "the CUDA driver does not start",
                       error);
}

/* ---- devices ---- */

int driver_device_count(const Driver *driver)
{
  int n = 0;
  return driver->device_count(&n) == DRIVER_SUCCESS ? n : 0;
}

bool driver_device(const Driver *driver, unsigned number, int *handle, GError **error)
{
  int n = driver_device_count(driver);
  if (number < (unsigned)n)
    return driver_check(driver, driver->device_get(handle, (int)number), "cannot open the GPU", error);
  error_set(error, ERROR_MISSING_TOOL, NULL, "no-gpu", NULL,
            "there is no GPU %u: the CUDA driver knows of %d", number, n);
  return false;
}

static unsigned attribute_of(const Driver *driver, int attribute, int handle)
{
  int value = 0;
  return driver->device_attribute(&value, attribute, handle) == DRIVER_SUCCESS ? (unsigned)value : 0;
}

void driver_figures(const Driver *driver, int handle, DeviceFigures *figures)
{
  size_t memory = 0;
  *figures = (DeviceFigures){0};
  driver->device_name(figures->name, sizeof figures->name - 1, handle);
  figures->capability = attribute_of(driver, DEVICE_CAPABILITY_MAJOR, handle) * 10 +
                        attribute_of(driver, DEVICE_CAPABILITY_MINOR, handle);
  figures->sm_count = attribute_of(driver, DEVICE_SM_COUNT, handle);
  figures->shared_per_block = attribute_of(driver, DEVICE_SHARED_PER_BLOCK, handle);
  figures->l2_bytes = attribute_of(driver, DEVICE_L2_BYTES, handle);
  if (driver->device_memory(&memory, handle) == DRIVER_SUCCESS) figures->memory_bytes = memory;
}

char *figures_target(const DeviceFigures *figures, const char *target, GError **error)
{
  const char *digits = target + strcspn(target, "0123456789");
  char *suffix = NULL;
  unsigned capability = (unsigned)g_ascii_strtoull(digits, &suffix, 10);
  if (capability == figures->capability) return g_strdup(target);
  if (capability < figures->capability && !*suffix)
    return g_strdup_printf("%.*s%u", (int)(digits - target), target, figures->capability);
  error_set(error, ERROR_UNSUPPORTED, NULL, "wrong-device", "--on sim runs it on the CPU",
            "kernels for %s cannot run on this %s, which is of compute capability %u.%u", target,
            figures->name, figures->capability / 10, figures->capability % 10);
  return NULL;
}

/* ---- launches ---- */

bool driver_encode(const Driver *driver, const char *name, const DeviceBox *box, DeviceTensorMap *map,
                   GError **error)
{
  uint32_t steps[5];
  for (unsigned i = 0; i < 5; i++)
    steps[i] = MAX(box->element_strides[i], 1);
  if (!driver->encode) {
    error_set(error, ERROR_MISSING_TOOL, NULL, "no-driver", "a driver of CUDA 12 or newer is needed",
              "the CUDA driver has no cuTensorMapEncodeTiled");
    return false;
  }
  int status =
      driver->encode(map, plan_map_type(box->element), box->rank, (void *)(uintptr_t)box->address, box->dims,
                     box->strides, box->box, steps, plan_map_code(box->interleave, 16),
                     plan_map_code(box->swizzle, 32), plan_map_code(box->l2_promotion, 64), box->fill_nan);
  if (status == DRIVER_SUCCESS) return true;
  g_autoptr(GString) text = g_string_new(NULL);
  g_string_append_printf(text, "the driver refuses tensor map %s: %s, address %#" G_GINT64_MODIFIER "x", name,
                         number_name(box->element), box->address);
  for (unsigned i = 0; i < box->rank; i++)
    g_string_append_printf(text, "; size %" G_GUINT64_FORMAT ", box %u, stride %" G_GUINT64_FORMAT,
                           box->dims[i], box->box[i], i ? box->strides[i - 1] : number_bytes(box->element));
  g_string_append_printf(text, "; swizzle %u, interleave %u", box->swizzle, box->interleave);
  return driver_failed(driver, status, ERROR_INTERNAL, "tensor-map", text->str, error);
}

void launch_add_attribute(LaunchConfig *config, int id, const void *value, size_t bytes)
{
  LaunchAttribute *attribute = &config->attributes[config->n_attributes++];
  *attribute = (LaunchAttribute){.id = id};
  memcpy(&attribute->value, value, bytes);
}
