/* Attention in a graph, for the rewrites that look for it: attention.c finds it. */
#pragma once
#include "generator/fusion/private.h"

typedef struct AttentionPattern {
  Fuser *fuser;
  GraphNode **producers; /* by tensor index, of live nodes */
  GPtrArray **readers;   /* by tensor index, of live nodes; of views of it too */
  GHashTable *inside;    /* nodes of the pattern */
  GraphNode *softmax, *first, *second;
  GraphNode *sum; /* the log-sum-exp of the same scores, which anybody may read; NULL: nobody asks for it */
  bool widened;   /* keys and values are widened from 8 bits inside */
  GraphNode *
      narrow; /* who widens queries that are multiplied in 8 bits, as keys, weights and values then are; or NULL */
  bool numbers;    /* numbers of batches and heads are computed inside */
  const char *why; /* what keeps it from being one kernel */
  void (*visit)(struct AttentionPattern *at);
} AttentionPattern;

/* Calls `visit` once, with nothing but producers and readers. */
void attention_visit_nodes(Fuser *fuser, void (*visit)(AttentionPattern *));

/* Visits each softmax along rows of the live nodes, of which nothing else is known yet. */
void attention_visit(Fuser *fuser, void (*visit)(AttentionPattern *));
/* Finds the products around the softmax and all nodes between; false: it is no attention. */
bool attention_collect(AttentionPattern *at);

/* Do only the last two dimensions of what the Transpose reads change places? */
bool attention_turns_matrix(const GraphNode *node);
/* The Transpose exchanges these of its first input. */
void attention_turn_matrix(GraphNode *node);
