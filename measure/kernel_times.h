/* A profile ({us, launches: [{launch, kernel, us}]}) by kernel. */
#pragma once
#include <glib.h>
#include <jansson.h>

typedef struct BenchKernelTime {
  const char *kernel; /* the profile's */
  unsigned launches;
  double us; /* of all of them */
} BenchKernelTime;

/* BenchKernelTime *, the longest first; the caller's. */
GPtrArray *bench_profile_kernels(const json_t *profile);
