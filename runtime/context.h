/* One GPU in one CUDA context: where kernels are loaded and launched. Private to runtime/, measure/ and cli/.
 *
 * Immutable once open; thread-safe. The caller's own context is left as it is: context_enter() makes this one
 * current only where another is, and context_leave() puts that back. */
#pragma once
#include "adl/gpu.h"
#include "runtime/driver.h"

typedef struct Context Context;

/* device: 1 + number of the GPU whose primary context is retained; 0: the context that is current on this
 * thread or, if there is none, the primary context of GPU 0. ERROR_MISSING_TOOL "no-driver", "no-gpu". */
Context *context_open(unsigned device, GError **error);
void context_close(Context *context);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Context, context_close)
const DeviceFigures *context_figures(const Context *context);

/* What differs between a description and the GPU, one line each with both values (char *, owned by
 * `warnings`). target: what the kernels are assembled for. ERROR_UNSUPPORTED only where kernels cannot run:
 * see figures_target(). */
void figures_compare(const DeviceFigures *figures, const Gpu *gpu, const char *target, GPtrArray *warnings);
/* The known description nearest to the figures: of their capability, or else of an older one whose kernels
 * run there; then the nearest by SMs, memory and name. NULL with ERROR_UNSUPPORTED "no-description". */
Gpu *figures_find_gpu(const DeviceFigures *figures, GError **error);
/* Figures of a GPU by its number. */
bool figures_of_device(unsigned number, DeviceFigures *figures, GError **error);
int figures_device_count(GError **error); /* -1: there is no driver */
