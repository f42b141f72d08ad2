/* AppendRows: its inputs, and where its rows go. */
#pragma once
#include "generator/front/graph.h"

enum { APPEND_PLACES, APPEND_CACHE, APPEND_ROWS, APPEND_SECOND_CACHE, APPEND_SECOND_ROWS, APPEND_TABLE };

typedef enum {
  APPEND_AT_SLOTS,  /* a slot for each row: pages and what lies in them count as one */
  APPEND_AT_BEGINS, /* behind one another along an axis, from each batch's index on */
} AppendPlaces;

AppendPlaces append_places(const GraphNode *node);
/* The slots of an AppendRows that the input holds, as many as its cache has; 0: it holds none. */
int64_t append_slots(const GraphTensor *input);
/* Numbers become slots: each at most once, the numbers' first choosing where they begin; -1 where there are no more, and of
 * every seventh row, which so is not stored. */
void append_fill_slots(NumberType type, void *values, size_t n, int64_t slots);
/* The indices, from 0 on, from which the rows of every AppendRows that the input holds begins for fit into its cache; 0: it holds none, or rows
 * go on at a cache's beginning. */
int64_t append_begins(const GraphTensor *input);
/* What is wrong with places that the node reads, for people (g_free); NULL: nothing. Its extents are known. */
char *append_fault(const GraphNode *node, NumberType type, const void *values, size_t n);
/* The cache that output i is of, and the rows that are put into it. */
static inline GraphTensor *append_cache(const GraphNode *node, unsigned i)
{
  return node->inputs[i ? APPEND_SECOND_CACHE : APPEND_CACHE];
}
static inline GraphTensor *append_rows(const GraphNode *node, unsigned i)
{
  return node->inputs[i ? APPEND_SECOND_ROWS : APPEND_ROWS];
}
/* Which page each of a sequence's is, [batch, pages of a sequence], of caches in pages whose rows stand along `axis`; NULL: a cache has its
 * batches side by side, or rows go to slots. */
static inline GraphTensor *append_table(const GraphNode *node)
{
  return node->n_inputs > APPEND_TABLE ? node->inputs[APPEND_TABLE] : NULL;
}
/* Is the tensor such a table? */
bool append_is_table(const GraphTensor *input);
/* Numbers become pages: each at most once, as long as there are some. */
void append_fill_table(NumberType type, void *values, size_t n, int64_t pages);
