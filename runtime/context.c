#include "runtime/context_private.h"

static bool open_primary(Context *context, unsigned number, GError **error)
{
  const Driver *driver = &context->driver;
  if (!driver_device(driver, number, &context->device, error) ||
      !driver_check(driver, driver->context_retain(&context->handle, context->device),
                    "cannot make a context on the GPU", error))
    return false;
  context->retained = true;
  return true;
}

Context *context_open(unsigned device, GError **error)
{
  g_autoptr(Context) context = g_new0(Context, 1);
  const Driver *driver = &context->driver;
  if (!driver_open(&context->driver, error)) return NULL;
  if (!device && driver->context_get(&context->handle) == DRIVER_SUCCESS && context->handle) {
    if (!driver_check(driver, driver->context_device(&context->device), "cannot ask for the context's GPU",
                      error))
      return NULL;
  } else if (!open_primary(context, device ? device - 1 : 0, error))
    return NULL;
  driver_figures(driver, context->device, &context->figures);
  return g_steal_pointer(&context);
}

void context_close(Context *context)
{
  if (!context) return;
  if (context->retained) context->driver.context_release(context->device);
  g_free(context);
}

const DeviceFigures *context_figures(const Context *context)
{
  return &context->figures;
}

bool context_enter(const Context *context, bool *pushed, GError **error)
{
  const Driver *driver = &context->driver;
  void *current = NULL;
  *pushed = false;
  if (driver->context_get(&current) == DRIVER_SUCCESS && current == context->handle) return true;
  if (!driver_check(driver, driver->context_push(context->handle), "cannot use the context", error))
    return false;
  *pushed = true;
  return true;
}

void context_leave(const Context *context, bool pushed)
{
  void *popped = NULL;
  if (pushed) context->driver.context_pop(&popped);
}

bool figures_of_device(unsigned number, DeviceFigures *figures, GError **error)
{
  Driver driver;
  int handle = 0;
  if (!driver_open(&driver, error) || !driver_device(&driver, number, &handle, error)) return false;
  driver_figures(&driver, handle, figures);
  return true;
}

int figures_device_count(GError **error)
{
  Driver driver;
  return driver_open(&driver, error) ? driver_device_count(&driver) : -1;
}
