/* What `adlgen tune` measures: for each product of a graph the ways to compute it, ordered by the cost model.
 * Thread-safe. */
#pragma once
#include "generator/choose/tuned.h"
#include "generator/front/graph.h"
#include "generator/options.h"

typedef struct Proposal {
  TunedParameter parameters[TUNED_MAX_PARAMETERS]; /* names are static */
  unsigned n_parameters;
  double clocks; /* that the cost model says; of one order with the others of its product, no more */
} Proposal;

typedef struct ProductProposals {
  const char *name;  /* of the fused operator */
  TunedEntry key;    /* product, batches, n, k, sms, m, least and most; the rest is empty */
  GArray *proposals; /* Proposal: first the model's choice, then the others, cheapest first */
} ProductProposals;

typedef struct Proposals {
  Arena *arena;        /* of the texts */
  GPtrArray *products; /* ProductProposals *, products of the same key once */
} Proposals;

/* Every dimension of the graph must be bound. options: the budget of SMs counts, no measured choice does. A
 * graph without a product gives an empty list. */
Proposals *generator_propose(const Graph *graph, const Gpu *gpu, const CompileOptions *options,
                             GError **error);
void proposals_free(Proposals *proposals);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Proposals, proposals_free)
