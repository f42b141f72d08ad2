/* What tells one way to compute a matrix product from another: the one list that comparing candidates,
 * writing and reading measured choices go by. Depth, stages, `reuse` and `promote` follow from these and the
 * operator, `raster` is how tiles are walked. */
#include "generator/choose/gemm_candidate.h"
#include "generator/choose/tuned.h"
#include <stddef.h>

static const struct {
  const char *name;
  size_t offset;
  unsigned absent;
} fields[] = {
    {"bm", offsetof(GemmCandidate, bm), 0},
    {"bn", offsetof(GemmCandidate, bn), 0},
    {"pingpong", offsetof(GemmCandidate, pingpong), 1},
    {"cluster_m", offsetof(GemmCandidate, cluster_m), 1},
    {"cluster_n", offsetof(GemmCandidate, cluster_n), 1},
    {"split_k", offsetof(GemmCandidate, split_k), 1},
    {"swapped", offsetof(GemmCandidate, swapped), 0},
    {"blocks", offsetof(GemmCandidate, blocks), 0},
    {"stream_k", offsetof(GemmCandidate, stream_k), 0},
    {"stream_steps", offsetof(GemmCandidate, stream_steps), 0},
    {"slices", offsetof(GemmCandidate, slices), 0},
};
G_STATIC_ASSERT(G_N_ELEMENTS(fields) <= TUNED_MAX_PARAMETERS); /* an entry names them all */

unsigned gemm_fields(void)
{
  return G_N_ELEMENTS(fields);
}

const char *gemm_field_name(unsigned field)
{
  return fields[field].name;
}

unsigned gemm_field_absent(unsigned field)
{
  return fields[field].absent;
}

unsigned gemm_field_value(const GemmCandidate *candidate, unsigned field)
{
  return *(const unsigned *)(const void *)((const char *)candidate + fields[field].offset);
}

void gemm_field_set(GemmCandidate *candidate, unsigned field, unsigned value)
{
  *(unsigned *)(void *)((char *)candidate + fields[field].offset) = value;
}

bool gemm_candidate_same(const GemmCandidate *a, const GemmCandidate *b)
{
  if (a->group != b->group) return false;
  for (unsigned i = 0; i < G_N_ELEMENTS(fields); i++)
    if (gemm_field_value(a, i) != gemm_field_value(b, i)) return false;
  return true;
}
