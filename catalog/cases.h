/* The sizes at which a kernel of the catalogue is tried on the simulator.
 *
 * A kernel's tile says where things can go wrong: one element less than a tile, a tile, one more, a prime, 1,
 * and along k more steps than twice around the ring of stages. What the graph allows (minimum, maximum,
 * multiple) and what the kernel's guard admits is honoured: a case is only made if the plan launches this
 * kernel for it. */
#pragma once
#include "generator/compile/compile.h"

/* What a case adds to the others. */
typedef enum {
  CATALOG_SEVERAL, /* several tiles in every dimension, more steps along k than the ring has stages; the largest */
  CATALOG_COMBINED, /* an edge in every dimension */
  CATALOG_SINGLE,   /* one dimension beside its smallest size, addresses, all sizes odd */
} CatalogAdds;

typedef struct CatalogCase {
  int64_t *symbols; /* as plan->symbols */
  unsigned skew;    /* bytes every tensor is moved off an aligned address: see catalog_tensor_skew() */
  CatalogAdds adds;
} CatalogCase;

/* Cases for a kernel of the plan, smallest first; in the arena. NULL with *n 0 if no size was found at which
 * the plan launches it. */
CatalogCase *catalog_cases(const Plan *plan, const CompiledKernel *kernel, Arena *arena, unsigned *n);
/* Keeps at most so many of the kernel's n cases, in their order, and returns how many: the one of several tiles first, then
 * combined ones, then single ones from a place that the kernel's text decides, so that kernels of one kind try different
 * edges. Once the cases move more memory than a sample is meant to, two are enough. */
unsigned catalog_sample(const Plan *plan, const CompiledKernel *kernel, CatalogCase *cases, unsigned n,
                        unsigned most);
/* Whether the plan launches the kernel in this case; false also for sizes that the graph does not allow. */
bool catalog_case_launches(const Plan *plan, const CompiledKernel *kernel, const CatalogCase *c);
/* Bytes a tensor is moved in a case: at least its alignment and its element. */
unsigned catalog_tensor_skew(const PlanTensor *tensor, unsigned skew);
/* "M=129 N=16 K=64 skew=2"; g_free. */
char *catalog_case_text(const Plan *plan, const CatalogCase *c);
