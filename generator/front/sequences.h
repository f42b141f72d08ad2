/* VarlenAttention: its inputs, and where its keys and values lie. */
#pragma once
#include "generator/front/graph.h"

enum {
  SEQUENCES_Q,
  SEQUENCES_K,
  SEQUENCES_V,
  SEQUENCES_ENDS,
  SEQUENCES_KEY_ENDS,
  SEQUENCES_LENGTHS,
  SEQUENCES_TABLE,
  SEQUENCES_K_SCALE, /* of keys and values of 8 bits */
  SEQUENCES_V_SCALE,
  SEQUENCES_SLOPES, /* of heads, times key - row */
  SEQUENCES_SINK,   /* of heads: a score without a value, which each row sees */
  SEQUENCES_TREE,   /* of rows: which of the last keys, as many as rows, each sees, as bits */
};

#define SEQUENCES_WORD 32 /* bits of a word of a tree */

typedef enum {
  KEYS_OWN,    /* as rows do */
  KEYS_PACKED, /* behind one another, by ends of their own */
  KEYS_CACHE,  /* each sequence's first ones */
  KEYS_PAGES,  /* in pages by a table */
} GraphKeys;

/* Elements of a cache that attention widens on the way to its products. */
static inline bool graph_is_narrow(NumberType type)
{
  return number_has_bytes(type, 1) && type != NUMBER_BOOL && type != NUMBER_E8M0;
}

static inline GraphKeys graph_keys(const GraphNode *node)
{
  bool lengths = node->n_inputs > SEQUENCES_LENGTHS && node->inputs[SEQUENCES_LENGTHS],
       table = node->n_inputs > SEQUENCES_TABLE && node->inputs[SEQUENCES_TABLE],
       ends = node->n_inputs > SEQUENCES_KEY_ENDS && node->inputs[SEQUENCES_KEY_ENDS];
  return table ? KEYS_PAGES : lengths ? KEYS_CACHE : ends ? KEYS_PACKED : KEYS_OWN;
}

/* Has each row of the pages a scale of its own, which lies in pages like theirs? */
static inline bool graph_scale_is_paged(const GraphNode *node, const GraphTensor *scale,
                                        const GraphTensor *of)
{
  return graph_keys(node) == KEYS_PAGES && scale->rank == of->rank &&
         symbolic_same(scale->shape[0], of->shape[0]) && symbolic_same(scale->shape[1], of->shape[1]);
}

/* The dimension of keys or values along which a scale of theirs (which broadcasts to them) varies and kernels do not follow it: elements of
 * a head; and rows, but where each sequence has its own first ones, or all of them have one in pages like theirs. -1: there is none. */
static inline int graph_scale_beyond(const GraphNode *node, const GraphTensor *scale, const GraphTensor *of)
{
  bool each = graph_keys(node) == KEYS_CACHE || graph_scale_is_paged(node, scale, of);
  for (unsigned d = 0; d < scale->rank; d++) {
    unsigned along = of->rank - scale->rank + d, head = of->rank - 2;
    if (symbolic_equals(scale->shape[d], 1) || along == head) continue;
    if (along > head || !each) return (int)along;
  }
  return -1;
}

/* The VarlenAttention that reads lists from the input, and which of its inputs that is; NULL: none. */
const GraphNode *sequences_reader(const GraphTensor *input, unsigned *list);
/* Does a VarlenAttention read bits of a tree from the input? */
bool sequences_read_tree(const GraphTensor *input);
/* Numbers from 0 on become a list that is right for the node, whose extents are known. */
void sequences_fill(const GraphNode *node, unsigned list, NumberType type, void *values, size_t n);
/* What is wrong with a list, for people (g_free); NULL: nothing. lengths: those of the node if they are known, else NULL. */
char *sequences_fault(const GraphNode *node, unsigned list, NumberType type, const void *values, size_t n,
                      const int32_t *lengths);
