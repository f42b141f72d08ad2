/* Between api*.c only: what stands behind the public handles. */
#pragma once
#include "adl/gpu.h"
#include "generator/compile/compile.h"
#include "include/adlgen/adlgen.h"

struct adlgen_gpu {
  gatomicrefcount references;
  Gpu *gpu;
};

struct adlgen_result {
  CompileResult *result;
  Graph *graph;
  adlgen_gpu *gpu;       /* a reference */
  GPtrArray *assemblies; /* Assembly *, as the kernels; NULL if not assembled */
  char *plan, *warnings;
};

/* Takes the fault; always gives NULL, for `return api_fail(...)`. error may be NULL. */
void *api_fail(adlgen_error *error, GError *fault);
/* As api_fail, and gives the code. */
int api_fail_code(adlgen_error *error, GError *fault);
adlgen_gpu *api_gpu(Gpu *gpu); /* takes it */
/* Fields beyond what the caller's struct has keep their default. */
adlgen_options api_options(const adlgen_options *options);
/* What decides the code, measured choices aside. ERROR_USAGE "bad-accumulate". */
bool api_compile_options(const adlgen_options *options, CompileOptions *compile, GError **error);
