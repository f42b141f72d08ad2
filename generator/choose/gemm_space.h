/* The space of products: axes of gemm_axes.def, and what a template declares of them. Immutable once read; thread-safe. */
#pragma once
#include "generator/choose/gemm_candidate.h"
#include "generator/choose/spaces.h"
#include "generator/choose/tries.h"
#include "generator/choose/tuned.h"

typedef enum GemmCarried { /* variants that have a parameter, if their template declares it */
                           GEMM_ALWAYS,
                           GEMM_TURNED,       /* where operands could change places */
                           GEMM_FAST,         /* with wide copies */
                           GEMM_FAST_OR_PAIR, /* and two products of few rows */
                           GEMM_TMA,          /* with TMA copies */
                           GEMM_TMA_OR_PAIR,
                           GEMM_NEEDED, /* where its value is not the absent one */
} GemmCarried;

typedef struct GemmAxis {
  const char *name;
  unsigned offset; /* in GemmCandidate */
  unsigned absent;
  GemmCarried carried;
  bool tile;
  const char *word;
} GemmAxis;

/* All axes, or those of the key, which come first. */
const GemmAxis *gemm_axes(unsigned *n);
const GemmAxis *gemm_key_axes(unsigned *n);
const GemmAxis *gemm_axis_find(const char *name); /* NULL: none */
unsigned gemm_axis_value(const GemmCandidate *candidate, const GemmAxis *axis);
static inline void gemm_axis_set(GemmCandidate *candidate, const GemmAxis *axis, unsigned value)
{
  *(unsigned *)(void *)((char *)candidate + axis->offset) = value;
}
/* A candidate of which nothing is said. */
GemmCandidate gemm_candidate_absent(bool group);
/* What a variant carries of a candidate. */
GemmCandidate gemm_candidate_of(const Choice *choice);

typedef struct GemmSpace { /* of one template */
  const char *template_name;
  const IrParameter **axes; /* by gemm_axes(); NULL: it declares none of the name */
  const IrParameter *extra[GEMM_EXTRAS];
  unsigned n_extra;
  bool dual;                /* it computes two products */
  const GemmAxis **axis_of; /* by the head's parameters; NULL: none of gemm_axes() */
  const IrModule *head;
  Tries *tries;
} GemmSpace;

#define GEMM_TEMPLATES 3

struct GemmSpaces {
  Spaces *spaces;
  GemmSpace of[GEMM_TEMPLATES]; /* in the order in which their candidates are tried */
};

/* NULL and *error: a template cannot be read, or its key has too many axes of its own. */
GemmSpaces *gemm_spaces_read(GError **error);
void gemm_spaces_free(GemmSpaces *spaces);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(GemmSpaces, gemm_spaces_free)
/* What the template declares; NULL: the problem has no spaces. */
const GemmSpace *gemm_space(const Problem *problem, const char *template_name);
const GemmSpace *gemm_candidate_space(const Problem *problem, const GemmCandidate *candidate);
/* Gives the candidate a value of a further axis, by its place among the parameters of the template's head. */
void gemm_extra_set(const GemmSpace *space, GemmCandidate *candidate, unsigned parameter, int64_t value);
/* Are the values of the key ones that the template declares, its conditions heeded? */
bool gemm_space_has(const GemmSpace *space, const GemmCandidate *candidate);
/* Do its template's conditions hold (`param NAME ... if`)? Else *error says which does not. */
bool gemm_space_keeps(const GemmSpace *space, const GemmCandidate *candidate, GError **error);
int64_t gemm_extra_default(const GemmSpace *space, unsigned extra);
/* "_late1" for each further axis that has not its default; in the arena. */
const char *gemm_extra_suffix(const GemmSpace *space, const GemmCandidate *candidate, Arena *arena);
/* Does --set name what tiles of products have, and kernels that sum along k have not, or mean otherwise? */
bool gemm_tile_forced(const Problem *problem);
