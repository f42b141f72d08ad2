/* Description to loaded kernels: the compiler, the assembler, the cache and the runtime in one call. Body of
 * adlgen_jit_*() and adlgen_load(), and of `adlgen run --on gpu`. */
#pragma once
#include "generator/compile.h"
#include "runtime/assembler.h"
#include "runtime/executable.h"

typedef struct JitOptions {
  CompileOptions compile;
  const char *const *dims;  /* NULL-terminated, or NULL */
  const char *const *tuned; /* files of measured choices, as of tuned_database_open() */
  bool no_tuned;            /* no measured choice counts */
  const char *ptxas;        /* NULL: searched for */
  const char *near;         /* as of assembler_find() */
  const char *cache_dir;    /* as of cache_open() */
  bool nvjitlink;           /* instead of ptxas */
  unsigned jobs;            /* threads that assemble; 0: one per processor */
  unsigned device;          /* as of context_open() */
} JitOptions;

typedef struct Loaded {
  Executable *executable;
  char *gpu;           /* name of the description */
  GPtrArray *warnings; /* char * */
  unsigned assembled;  /* kernels the assembler was run for */
} Loaded;

void loaded_free(Loaded *loaded);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Loaded, loaded_free)

/* Compiles a graph for a GPU (NULL: the description nearest to the device) and loads it, or finds all of it
 * in the cache. */
Loaded *jit_source(Source *source, const Gpu *gpu, const JitOptions *options, GError **error);
/* Loads what was compiled from the graph. */
Loaded *jit_result(const CompileResult *result, const Graph *graph, const Gpu *gpu, const JitOptions *options,
                   GError **error);

typedef struct JitScope {
  const bool *wanted; /* kernels to load, as result->kernels; NULL: all */
  unsigned jobs;      /* threads that assemble; 0: one per processor */
} JitScope;
/* The step in the middle: assembles for a target and loads. Takes the context. The caller passes addresses of
 * constants to each launch. *assembled grows by the number of kernels the assembler was run for. */
Executable *jit_kernels(const CompileResult *result, Context *context, const Assembler *assembler,
                        const char *target, const JitScope *scope, unsigned *assembled, GError **error);
