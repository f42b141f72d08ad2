/* The sizes at which a kernel of the catalogue is tried on the simulator.
 *
 * A kernel's tile says where things can go wrong: one element less than a tile, a tile, one more, a prime, 1,
 * and along k more steps than twice around the ring of stages. What the graph allows (minimum, maximum,
 * multiple) and what the kernel's guard admits is honoured: a case is only made if the plan launches this
 * kernel for it. */
#pragma once
#include "generator/compile/compile.h"

typedef struct CatalogCase {
  int64_t *symbols; /* as plan->symbols */
  unsigned skew;    /* bytes every tensor is moved off an aligned address: see catalog_tensor_skew() */
} CatalogCase;

/* Cases for a kernel of the plan, smallest first; in the arena. NULL with *n 0 if no size was found at which
 * the plan launches it. */
CatalogCase *catalog_cases(const Plan *plan, const CompiledKernel *kernel, Arena *arena, unsigned *n);
/* Whether the plan launches the kernel in this case; false also for sizes that the graph does not allow. */
bool catalog_case_launches(const Plan *plan, const CompiledKernel *kernel, const CatalogCase *c);
/* Bytes a tensor is moved in a case: at least its alignment and its element. */
unsigned catalog_tensor_skew(const PlanTensor *tensor, unsigned skew);
/* "M=129 N=16 K=64 skew=2"; g_free. */
char *catalog_case_text(const Plan *plan, const CatalogCase *c);
