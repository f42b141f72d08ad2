/* Ways to compute an operator, for those who measure; and those of products by tiles, in the order of the cost model. */
#pragma once
#include "generator/choose/problem.h"
#include "generator/choose/tuned.h"

typedef struct Proposal {
  TunedParameter parameters[TUNED_MAX_PARAMETERS]; /* names live as long as the list */
  unsigned n_parameters;
  double
      clocks; /* that the cost model says; of one order with the others of its product, no more. 0: it prices only products' */
} Proposal;

typedef struct ProductProposals {
  const char *name; /* of the fused operator */
  TunedEntry
      key; /* product, batches, n, k, sms, m, least and most, or operator, sms and extents; the rest is empty */
  GArray *proposals; /* Proposal: first the model's choice, then the others, cheapest first */
} ProductProposals;

/* What a product by tiles is filed under; false: it is none. */
bool propose_product_key(const Problem *problem, TunedEntry *key);
/* Its proposals, Proposal; the caller owns the array. */
GArray *propose_product(const Problem *problem, const TunedEntry *key);
