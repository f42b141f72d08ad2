/* Axes of candidates by name: the one list that comparing candidates, --set, variants and measured choices go by. */
#include "generator/choose/gemm_space.h"
#include <stddef.h>
#include <string.h>

static const GemmAxis axes[] = {
#define GEMM_AXIS(name, absent, carried, tile, word)                                                         \
  {#name, offsetof(GemmCandidate, name), absent, GEMM_##carried, tile, word},
#include "generator/choose/gemm_axes.def"
};

enum { /* how many rows are the key's */
#define GEMM_KEYS_ONLY
#define GEMM_AXIS(name, ...) KEY_##name,
#include "generator/choose/gemm_axes.def"
       KEYS
};
G_STATIC_ASSERT(KEYS + GEMM_EXTRAS < TUNED_MAX_PARAMETERS); /* an entry names them all, and the walk */

const GemmAxis *gemm_axes(unsigned *n)
{
  *n = G_N_ELEMENTS(axes);
  return axes;
}

const GemmAxis *gemm_key_axes(unsigned *n)
{
  *n = KEYS;
  return axes;
}

const GemmAxis *gemm_axis_find(const char *name)
{
  for (unsigned i = 0; i < G_N_ELEMENTS(axes); i++)
    if (!strcmp(axes[i].name, name)) return &axes[i];
  return NULL;
}

unsigned gemm_axis_value(const GemmCandidate *candidate, const GemmAxis *axis)
{
  return *(const unsigned *)(const void *)((const char *)candidate + axis->offset);
}

GemmCandidate gemm_candidate_absent(bool group)
{
  GemmCandidate candidate = {.group = group};
  for (unsigned i = 0; i < G_N_ELEMENTS(axes); i++)
    gemm_axis_set(&candidate, &axes[i], axes[i].absent);
  return candidate;
}

GemmCandidate gemm_candidate_of(const Choice *choice)
{
  GemmCandidate candidate = gemm_candidate_absent(choice->group);
  for (unsigned i = 0; i < G_N_ELEMENTS(axes); i++)
    gemm_axis_set(&candidate, &axes[i], (unsigned)choice_int(choice, axes[i].name, axes[i].absent));
  return candidate;
}

/* The fields of the key stand together; what differs most is looked at first. */
bool gemm_candidate_same(const GemmCandidate *a, const GemmCandidate *b)
{
  G_STATIC_ASSERT(offsetof(GemmCandidate, bk) - offsetof(GemmCandidate, bm) == KEYS * sizeof(unsigned));
  return a->bm == b->bm && a->bn == b->bn && a->group == b->group &&
         !memcmp(&a->bm, &b->bm, KEYS * sizeof(unsigned)) && !memcmp(a->extra, b->extra, sizeof a->extra);
}
