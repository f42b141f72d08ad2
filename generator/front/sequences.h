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
};

typedef enum {
  KEYS_OWN,    /* as rows do */
  KEYS_PACKED, /* behind one another, by ends of their own */
  KEYS_CACHE,  /* each sequence's first ones */
  KEYS_PAGES,  /* in pages by a table */
} GraphKeys;

static inline GraphKeys graph_keys(const GraphNode *node)
{
  bool lengths = node->n_inputs > SEQUENCES_LENGTHS && node->inputs[SEQUENCES_LENGTHS],
       table = node->n_inputs > SEQUENCES_TABLE && node->inputs[SEQUENCES_TABLE],
       ends = node->n_inputs > SEQUENCES_KEY_ENDS && node->inputs[SEQUENCES_KEY_ENDS];
  return table ? KEYS_PAGES : lengths ? KEYS_CACHE : ends ? KEYS_PACKED : KEYS_OWN;
}
