/* Between context.c and executable*.c only. */
#pragma once
#include "runtime/context.h"
#include "runtime/cuda.h"

struct Context {
  Driver driver;
  void *handle; /* CUcontext */
  int device;   /* CUdevice */
  bool retained;
  DeviceFigures figures;
};

/* Makes the context current on this thread; *pushed says whether context_leave() has to put another back. */
bool context_enter(const Context *context, bool *pushed, GError **error);
void context_leave(const Context *context, bool pushed);
