/* Carrying out a compiled graph: its tensors in memory, its launches on the simulator or on a GPU. */
#pragma once
#include "base/output.h"
#include "generator/compile/compile.h"
#include "plan/resolve.h"
#include "runtime/assembler.h"
#include "runtime/driver.h"
#include "simulator/simulator.h"

/* Where buffers of the simulator lie, as far as guards can tell: aligned to more than align() counts. */
#define EXECUTION_SIMULATED_BASE (UINT64_C(1) << 20)

typedef struct ExecutionTensor {
  ResolvedTensor resolved;
  uint8_t *data; /* resolved.bytes, element [0, ..., 0] first; NULL for the workspace's; owned */
  unsigned skew; /* bytes its address is off one that is aligned to 256 */
  unsigned
      place; /* the tensor whose memory it lies in: its own index, or that of an input (execution_share) */
} ExecutionTensor;

typedef struct Execution {
  const CompileResult *compiled;
  const Plan *plan;
  const Gpu *gpu;
  int64_t *symbols;         /* as plan->symbols */
  ExecutionTensor *tensors; /* as plan->tensors */
  uint64_t workspace_bytes;
  Arena *arena;
  Output *keep; /* gets each simulated launch as files, keep_launch(); NULL: none; the caller's */
  bool profile; /* the launches on a GPU are timed, behind the run whose outputs count */
} Execution;

/* Binds every symbol of the plan and makes room for the tensors, filled with 0xff: whatever a kernel forgets
 * to write shows. compiled and gpu must outlive the execution. ERROR_INPUT "unbound-symbol". */
Execution *execution_new(const CompileResult *compiled, const Gpu *gpu, const GraphBinding *bindings,
                         unsigned n_bindings, GError **error);
void execution_free(Execution *execution);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Execution, execution_free)
ExecutionTensor *execution_tensor(const Execution *execution, const char *name); /* NULL if there is none */
/* Puts an output into the memory of an input of the same type, shape and strides, as in C += A B. ERROR_INPUT
 * "in-place" if it has another form, or is no output. Before inputs are put there. */
bool execution_share(Execution *execution, const char *output, const char *input, GError **error);
/* Between a tensor's memory and its elements in row-major order without gaps (elements * size bytes). */
void execution_scatter(const ExecutionTensor *tensor, const void *elements);
void execution_gather(const ExecutionTensor *tensor, void *elements);
/* The compiled kernel of a variant. */
const CompiledKernel *execution_kernel(const Execution *execution, const PlanVariant *variant);

/* What a run found besides its outputs. */
typedef struct ExecutionFaults {
  json_t *list;           /* objects for --json */
  GString *text;          /* lines for people */
  unsigned n_errors;      /* faults that are no mere findings */
  json_t *breaks, *stops; /* as SimResult's, with the launch in each stop */
  json_t *counts;         /* with counting: one object a launch */
  GString *tables;        /* the same for people */
  GString *notes;         /* what a person may want to know: device, target, kernels */
  uint64_t instructions;  /* warp-instructions, on the simulator */
  json_t *launches;       /* those that are not empty, in order: {launch, kernel, grid}, on the simulator with
                             warp_instructions, with `profile` on a GPU with us */
  double us;              /* with `profile` on a GPU: of all launches in one graph; else 0 */
} ExecutionFaults;

ExecutionFaults *execution_faults_new(void);
void execution_faults_free(ExecutionFaults *faults);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ExecutionFaults, execution_faults_free)
/* A fault that is none of an instruction's. */
void execution_add_fault(ExecutionFaults *faults, const char *kind, const char *text);
/* One more of `launches`; theirs. */
json_t *execution_add_launch(ExecutionFaults *faults, const ResolvedLaunch *launch);

/* Runs every launch in the plan's order; outputs are in the tensors afterwards. */
bool execution_simulate(Execution *execution, const SimOptions *options, ExecutionFaults *faults,
                        GError **error);
bool execution_run(Execution *execution, Device *device, const Assembler *assembler, ExecutionFaults *faults,
                   GError **error);
