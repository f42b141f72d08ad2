/* What tests set and see of the stand-in for the CUDA driver. */
#pragma once
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { FAKE_LAUNCHES = 64 };

typedef struct FakeLaunch {
  unsigned words[11]; /* grid, block, cluster, shared bytes, programmatic serialisation */
  void *stream, *context;
  uint64_t first[1]; /* the first argument's first bytes */
} FakeLaunch;

typedef struct FakeMap { /* a tensor map of at least two dimensions */
  uint64_t rows;         /* of its tensor */
  uint32_t box;          /* rows that a copy takes */
} FakeMap;

typedef struct Fake {
  /* set by the test */
  int devices, sm_count, capability, shared;
  size_t memory;
  int refuse; /* status that launches give */
  /* seen */
  atomic_uint launches, encodes, replaces, fills, pushes;
  atomic_int allocations, modules, retained; /* alive */
  FakeLaunch launched[FAKE_LAUNCHES];        /* the last ones */
  FakeMap encoded[FAKE_LAUNCHES];            /* the last ones */
} Fake;

extern Fake fake;
/* A context of a device: its primary one, or one that the caller made. */
void *fake_context(int device, int own);
