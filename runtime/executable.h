/* A plan's kernels loaded into one CUDA context, and their launch.
 *
 * Making one turns everything that a launch needs into plain data: expressions whose names are positions,
 * buffers for arguments. A kernel is loaded when a launch first needs it: plans have variants for every range
 * of rows, of which most programs launch few. A launch takes one of a few slots, which remember the arguments
 * last made for a set of (tensors, dims, workspace): if the set is the same the kernels are queued at once,
 * else the slot is filled anew. A slot is taken by one atomic exchange, so a launch of a set that is there
 * neither locks nor allocates. Filling one may: a kernel is loaded, for which others that load one wait; a
 * workspace not seen before gets flags (zeroed.c). Thread-safe, except executable_free(). */
#pragma once
#include "plan/plan.h"
#include "runtime/context.h"

typedef struct Executable Executable;

/* Where machine code comes from. Both functions may be called from any thread. `kernel` counts the plan's
 * kernels as they are given to executable_new(). */
typedef struct KernelSource {
  /* The kernel will soon be taken: begins with it. NULL: there is nothing to begin with. */
  void (*want)(void *data, unsigned kernel);
  /* Machine code, of which the caller gets a reference; may take long. NULL with *error. */
  GBytes *(*take)(void *data, unsigned kernel, GError **error);
  void *data; /* must outlive the executable */
} KernelSource;

/* One kernel of the plan, as its variants name it. */
typedef struct ExecutableKernel {
  const char *name, *entry;
} ExecutableKernel;

/* Takes context; takes plan too, on success. ERROR_UNSUPPORTED "shared-memory" if a kernel needs more of it
 * than the GPU has. */
Executable *executable_new(Plan *plan, Context *context, const ExecutableKernel *kernels, unsigned n_kernels,
                           const KernelSource *source, GError **error);
void executable_free(Executable *executable);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Executable, executable_free)

const Plan *executable_plan(const Executable *executable);
/* Tensors a caller passes: inputs, constants, outputs, in the plan's order within each. */
unsigned executable_tensor_count(const Executable *executable);
const PlanTensor *executable_tensor(const Executable *executable, unsigned i);
/* Copies a constant to the GPU, for launches that pass NULL for it. */
bool executable_set_constant(Executable *executable, unsigned i, const void *data, uint64_t bytes,
                             GError **error);

bool executable_has_constant(const Executable *executable, unsigned i);
/* The same without a copy, where another executable of the context has a constant of this name, type and shape: both then have one
 * memory, which lives as long as one of them. false: it has none. */
bool executable_share_constant(Executable *executable, unsigned i, const Executable *from);
/* Other values for a constant of the graph, alone or as a part of one that the plan stacks, for all who share it. Not while launches
 * run. ERROR_INPUT "unknown-constant", "wrong-size". */
bool executable_replace_constant(Executable *executable, const char *name, const void *data, uint64_t bytes,
                                 GError **error);

/* Bytes of the workspace. dims: as plan->symbols. ERROR_INPUT if a value is outside its range. */
bool executable_workspace(const Executable *executable, const int64_t *dims, uint64_t *bytes, GError **error);
/* Loads the kernels, as they were given to executable_new(), that are wanted (NULL: all) and not loaded yet.
 * ERROR_VERIFY "load-refused" with the driver's words, or what the source says. */
bool executable_load(Executable *executable, const bool *wanted, GError **error);
/* Queues every kernel on a stream (CUstream). See adlgen_launch() in the public header, of which this is the
 * body. */
bool executable_launch(Executable *executable, void *stream, const void *const *tensors, const int64_t *dims,
                       void *workspace, uint64_t workspace_bytes, GError **error);
/* The same, for who measures: `before` is called in front of each launch that is not empty, by its place in the plan, and may queue
 * something; false ends it. No launch then overlaps with the one before it. */
typedef struct ExecutableObserver {
  bool (*before)(unsigned launch, void *data, GError **error);
  void *data;
} ExecutableObserver;
bool executable_launch_observed(Executable *executable, void *stream, const void *const *tensors,
                                const int64_t *dims, void *workspace, uint64_t workspace_bytes,
                                const ExecutableObserver *observer, GError **error);
