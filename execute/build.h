/* What compile, catalog and the C API share: a graph to kernels for one GPU, and those kernels to machine
 * code. */
#pragma once
#include "generator/compile/compile.h"
#include "generator/front/census.h"
#include "runtime/assembler.h"

/* Reads a graph, with bindings of the form NAME=VALUE (NULL-terminated, or NULL). */
Graph *build_graph(Source *source, const char *const *dims, GError **error);
/* The same; `reading` may have a report (generator/front/census.h). */
Graph *build_graph_with(Source *source, const char *const *dims, const GraphReading *reading, GError **error);

/* One kernel of one GPU on its way to machine code. */
typedef struct BuildKernel {
  const Gpu *gpu;
  const CompiledKernel *kernel;
  Assembly *assembly; /* NULL until assembled; owned by the build */
} BuildKernel;

/* All kernels of a command, over its GPUs. */
typedef struct Build {
  GPtrArray *gpus;    /* Gpu *, owned */
  GPtrArray *results; /* CompileResult *, owned; as gpus; an IR file has none */
  GPtrArray *loose;   /* CompiledKernel *, owned: those of an IR file, one a GPU */
  GPtrArray *kernels; /* BuildKernel *, owned: by GPU, then in the plan's order */
} Build;

Build *build_new(void);
void build_free(Build *build);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Build, build_free)
/* Takes the GPU and the result, or the kernel of an IR file. */
void build_add_result(Build *build, Gpu *gpu, CompileResult *result);
void build_add_kernel(Build *build, Gpu *gpu, CompiledKernel *kernel);
/* Assembles every kernel; equal texts for one target are assembled once. All faults are reported. */
bool build_assemble(Build *build, const Assembler *assembler, unsigned jobs,
                    void (*progress)(unsigned done, unsigned n, void *data), void *data, GError **error);
/* A parameter that no kernel has is a mistake, not a wish. `used`: CompileOptions.set_used of all
 * compilations. */
bool build_check_sets(const char *const *sets, const bool *used, GError **error);
/* The kernel of a GPU with this name, or NULL. */
const BuildKernel *build_kernel(const Build *build, const Gpu *gpu, const char *name);
