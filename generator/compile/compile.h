/* Description in, kernels and plan out: the one door through which programs and the command line generate
 * code.
 *
 * generator_compile() groups the graph's nodes into fused operators, chooses template, variant and tile for
 * each by the cost model, instantiates the template, runs the passes and emits PTX. Nothing is written to
 * disk and no tool is run: assembling is runtime/assembler's. Thread-safe: everything is in the arguments and
 * the result. */
#pragma once
#include "adl/gpu.h"
#include "backends/backend.h"
#include "generator/front/graph.h"
#include "generator/options.h"
#include "plan/plan.h"

typedef struct CompiledKernel {
  char *name;             /* unique in the plan; also its file name */
  char *entry;            /* entry point in the text */
  char *ir;               /* final THREAD text; NULL if it was not wanted */
  char *tile;             /* TILE text after instantiation, if kept */
  const Backend *backend; /* that wrote the text */
  char *text;
  char *text_hash;     /* by which the cache has what the assembler makes of it; NULL: not known yet */
  char *template_name; /* "gemm", "elementwise", "softmax", ... */
  char *tile_text;     /* "128x128x64" */
  char *mechanism;     /* "tensor+group", "async+warp", "plain" ... */
  char *roles;         /* "1 producer + 8 consumer warps" ... */
  unsigned stages, threads, cluster;
  unsigned shared_bytes;
  unsigned predicted_registers; /* what the assembler is expected to need; with roles: of the largest role */
  size_t arena_bytes;           /* memory the kernel's IR took */
  bool waits;                   /* for the launch before it: it may start early */
  bool together;                /* all blocks run at once */
} CompiledKernel;

typedef struct CompileResult {
  Plan *plan;         /* owned */
  GPtrArray *kernels; /* CompiledKernel*, owned; one kernel may serve several launches */
  char *explain;      /* what was chosen, what was rejected and why */
  unsigned in_times;  /* of a loop's body: so many launches, the first ones, do all of its times */
} CompileResult;

CompileResult *generator_compile(const Graph *graph, const Gpu *gpu, const CompileOptions *options,
                                 GError **error);
void compile_result_free(CompileResult *result);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CompileResult, compile_result_free)

/* Takes a module of any level (compile FILE.ir --start-after PASS) to PTX. The kernel is freed by the caller
 * with compiled_kernel_free. */
CompiledKernel *generator_compile_ir(Source *source, const Gpu *gpu, const char *start_after,
                                     const CompileOptions *options, GError **error);
void compiled_kernel_free(CompiledKernel *kernel);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CompiledKernel, compiled_kernel_free)
