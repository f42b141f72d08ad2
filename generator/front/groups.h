/* GroupedMatMul: how its third input tells which rows, or which part of k, are whose. */
#pragma once
#include "generator/front/graph.h"

typedef enum {
  GROUPS_ENDS,   /* the end of each group along the rows */
  GROUPS_INDEX,  /* the group of each row */
  GROUPS_COUNTS, /* rows that are valid, of each group's own */
  GROUPS_DEPTHS, /* the end of each group along k, of which each has a result of its own */
} GraphGroups;

GraphGroups graph_groups(const GraphNode *grouped);
/* The choices [tokens, of each] of which Permute tells the ends of groups: each is a row, and there are rows of nobody beside these. NULL:
 * rows come from elsewhere, or the node is no GroupedMatMul. */
const GraphTensor *graph_choices(const GraphNode *node);
/* Of a product whose extents are known: how many terms an element of its result sums, of groups along k on average. */
double graph_terms(const GraphNode *product);
/* The GroupedMatMul whose groups the input tells; NULL: none. */
const GraphNode *graph_groups_reader(const GraphTensor *input);
/* Numbers 0 .. 2^31 - 1 become sizes that are right for the node, whose extents are known: any, or (`even`) of groups of 0.7 to
 * 1.3 of the rows that are expected. */
void graph_fill_groups(const GraphNode *grouped, int32_t *values, size_t n, bool even);
/* Tensors some of whose elements may be what was there before, as rows of no group are, and what is computed from them. A set;
 * unreferenced by the caller. */
GHashTable *graph_staying(const Graph *graph);
