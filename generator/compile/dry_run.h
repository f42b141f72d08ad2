/* The real passes as the judge of what is chosen (generator/choose/dry_run.h). */
#pragma once
#include "adl/gpu.h"
#include "generator/choose/dry_run.h"
#include "generator/options.h"

typedef struct DryRunner {
  const Gpu *gpu;
  const CompileOptions *options; /* may be NULL */
  KernelLibraries *libraries;
  const struct Mechanism *mechanisms; /* of the GPU; NULL: to be read */
} DryRunner;

/* DryRunFunction, of a DryRunner: writes the kernel and runs the passes up to where shared memory and registers are
 * divided. Thread-safe: the runner is only read. */
void compile_dry_run(const FusedOperator *op, const Graph *graph, const Choice *choice, DrySummary *summary,
                     void *runner);
