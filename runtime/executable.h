/* A plan's kernels loaded into one CUDA context, and their launch.
 *
 * Loading turns everything that a launch needs into plain data: functions, expressions whose names are
 * positions, buffers for arguments. A launch takes one of a few slots, which remember the arguments last made
 * for a set of (tensors, dims, workspace): if the set is the same the kernels are queued at once, else the
 * slot is filled anew. A slot is taken by one atomic exchange, so a launch of a set that is
 * there neither locks nor allocates. Filling one may: a workspace not seen before gets flags (zeroed.c).
 * Thread-safe, except executable_free(). */
#pragma once
#include "generator/plan.h"
#include "runtime/context.h"

typedef struct Executable Executable;

/* Machine code of one kernel of the plan. */
typedef struct ExecutableKernel {
  const char *name, *entry; /* as in the plan's variants */
  GBytes *cubin;            /* NULL: not loaded; a launch that needs it fails with "not-loaded" */
} ExecutableKernel;

/* Takes context; takes plan too, on success. ERROR_VERIFY "load-refused" with the driver's words,
 * ERROR_UNSUPPORTED "shared-memory" if a kernel needs more of it than the GPU has. */
Executable *executable_new(Plan *plan, Context *context, const ExecutableKernel *kernels, unsigned n_kernels,
                           GError **error);
void executable_free(Executable *executable);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Executable, executable_free)

const Plan *executable_plan(const Executable *executable);
/* Tensors a caller passes: inputs, constants, outputs, in the plan's order within each. */
unsigned executable_tensor_count(const Executable *executable);
const PlanTensor *executable_tensor(const Executable *executable, unsigned i);
/* Copies a constant to the GPU, for launches that pass NULL for it. */
bool executable_set_constant(Executable *executable, unsigned i, const void *data, uint64_t bytes,
                             GError **error);

/* Bytes of the workspace. dims: as plan->symbols. ERROR_INPUT if a value is outside its range. */
bool executable_workspace(const Executable *executable, const int64_t *dims, uint64_t *bytes, GError **error);
/* Queues every kernel on a stream (CUstream). See adlgen_launch() in the public header, of which this is the
 * body. */
bool executable_launch(Executable *executable, void *stream, const void *const *tensors, const int64_t *dims,
                       void *workspace, uint64_t workspace_bytes, GError **error);
