/* Description to loaded kernels: the compiler, the assembler, the cache and the runtime in one call. Body of
 * adlgen_jit_*() and adlgen_load(), and of `adlgen run --on gpu`. */
#pragma once
#include "generator/compile/compile.h"
#include "runtime/assembly_queue.h"
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
  const Executable *share;  /* whose constants are not copied again; NULL: nobody's */
} JitOptions;

typedef struct Loaded {
  Executable *executable;
  AssemblyQueue *queue; /* that the executable's machine code comes from */
  Assembler *assembler; /* of the queue, with the cache; NULL: the caller's */
  char *gpu;            /* name of the description */
  GPtrArray *warnings;  /* char * */
} Loaded;

void loaded_free(Loaded *loaded);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Loaded, loaded_free)

/* Line i of what a person may want to know; NULL behind the last. It lives as long as `loaded`. What is found
 * wrong with the cache later is added at the end. */
const char *loaded_warning(const Loaded *loaded, size_t i);

/* Compiles a graph for a GPU (NULL: the description nearest to the device), or finds all of it in the cache.
 * Kernels are assembled behind the caller's back, those of a launch first; executable_load() waits for all.
 */
Loaded *jit_source(Source *source, const Gpu *gpu, const JitOptions *options, GError **error);
/* The same for what was compiled from the graph. */
Loaded *jit_result(const CompileResult *result, const Graph *graph, const Gpu *gpu, const JitOptions *options,
                   GError **error);
/* The step in the middle, for a program that launches once: nothing is assembled that no launch needs. Takes
 * the context; the assembler must outlive what it gives. Constants are not loaded: the caller passes their
 * addresses to each launch. */
Loaded *jit_kernels(const CompileResult *result, Context *context, const Assembler *assembler,
                    const char *target, GError **error);
