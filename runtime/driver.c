#include "runtime/cuda.h"
#include <dlfcn.h>
#include <string.h>

struct Device {
  Driver driver;
  int handle;
  void *context, *stream;
  DeviceFigures figures;
};

struct DeviceKernel {
  Device *device;
  void *module, *function;
  char *name;
};

static bool check(const Device *device, int status, const char *what, GError **error)
{
  return driver_check(&device->driver, status, what, error);
}

static bool open_device(Device *device, unsigned number, GError **error)
{
  Driver *driver = &device->driver;
  if (!driver_open(driver, error) || !driver_device(driver, number, &device->handle, error) ||
      !check(device, driver->context_retain(&device->context, device->handle),
             "cannot make a context on the GPU", error) ||
      !check(device, driver->context_set(device->context), "cannot use the GPU's context", error) ||
      !check(device, driver->stream_create(&device->stream, STREAM_NON_BLOCKING), "cannot make a stream",
             error))
    return false;
  driver_figures(driver, device->handle, &device->figures);
  return true;
}

Device *device_open(unsigned number, GError **error)
{
  g_autoptr(Device) device = g_new0(Device, 1);
  return open_device(device, number, error) ? g_steal_pointer(&device) : NULL;
}

void device_close(Device *device)
{
  if (!device) return;
  if (device->stream) device->driver.stream_destroy(device->stream);
  if (device->context) device->driver.context_release(device->handle);
  g_free(device);
}

const char *device_name(const Device *device)
{
  return device->figures.name;
}

unsigned device_capability(const Device *device)
{
  return device->figures.capability;
}

void *device_stream(const Device *device)
{
  return device->stream;
}

void *device_symbol(const Device *device, const char *name)
{
  return dlsym(device->driver.library, name);
}

bool device_check(const Device *device, int status, const char *what, GError **error)
{
  return check(device, status, what, error);
}

int device_attribute(const Device *device, int attribute)
{
  int value = 0;
  return device->driver.device_attribute(&value, attribute, device->handle) == DRIVER_SUCCESS ? value : 0;
}

char *device_target(const Device *device, const char *target, GError **error)
{
  return figures_target(&device->figures, target, error);
}

/* ---- memory ---- */

uint64_t device_allocate(Device *device, uint64_t bytes, GError **error)
{
  uint64_t address = 0;
  int status = device->driver.allocate(&address, MAX(bytes, 256));
  if (status == DRIVER_SUCCESS) return address;
  g_autofree char *what = g_strdup_printf("cannot allocate %" G_GUINT64_FORMAT " bytes on the GPU", bytes);
  driver_failed(&device->driver, status, status == DRIVER_NO_MEMORY ? ERROR_UNSUPPORTED : ERROR_MISSING_TOOL,
                "no-memory", what, error);
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
  driver_failed(&device->driver, status, ERROR_VERIFY, "load-refused", what, error);
  return NULL;
}

void device_unload(DeviceKernel *kernel)
{
  if (!kernel) return;
  if (kernel->module) kernel->device->driver.module_unload(kernel->module);
  g_free(kernel->name);
  g_free(kernel);
}

bool device_encode(Device *device, const char *name, const DeviceBox *box, DeviceTensorMap *map,
                   GError **error)
{
  return driver_encode(&device->driver, name, box, map, error);
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
  if (blocks > 1)
    launch_add_attribute(&config, LAUNCH_CLUSTER_DIMENSION, launch->cluster, sizeof launch->cluster);
  if (launch->dependent)
    launch_add_attribute(&config, LAUNCH_PROGRAMMATIC_SERIALIZATION, &allowed, sizeof allowed);
  int status = device->driver.launch(&config, kernel->function, launch->arguments, NULL);
  if (status == DRIVER_SUCCESS) return true;
  return driver_failed(&device->driver, status, ERROR_VERIFY, "launch-refused", what, error);
}

bool device_wait(Device *device, GError **error)
{
  int status = device->driver.stream_wait(device->stream);
  if (status == DRIVER_SUCCESS) return true;
  return driver_failed(&device->driver, status, ERROR_VERIFY, "kernel-fault",
                       "the GPU reports a fault of a kernel", error);
}
