/* What `adlgen tune` measures: for each operator of a graph the ways to compute it: of products by tiles in the order of the cost
 * model, of others in that of their templates' `try` lines. Thread-safe. */
#pragma once
#include "generator/choose/propose.h"
#include "generator/front/graph.h"
#include "generator/options.h"

typedef struct Proposals {
  Arena *arena;        /* of the texts */
  GPtrArray *products; /* ProductProposals *, of the same key once; and of operators that have a second way */
} Proposals;

/* Every dimension of the graph must be bound. options: the budget of SMs counts, no measured choice does. Of what is no
 * product by tiles the passes, run dry, have let every proposal be. */
Proposals *generator_propose(const Graph *graph, const Gpu *gpu, const CompileOptions *options,
                             GError **error);
void proposals_free(Proposals *proposals);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Proposals, proposals_free)
