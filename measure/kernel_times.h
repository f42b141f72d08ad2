/* The launches of a profile ([{launch, kernel, us}]) by kernel. */
#pragma once
#include <glib.h>
#include <jansson.h>

typedef struct BenchKernelTime {
  const char *kernel; /* the launches' */
  unsigned launches;
  double amount; /* of all of them: us, or what `key` counts */
} BenchKernelTime;

/* BenchKernelTime *, the largest first; the caller's. */
GPtrArray *bench_profile_kernels(const json_t *launches, const char *key);
