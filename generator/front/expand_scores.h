/* Between the bodies of attention and of its gradients: scores [B, Hq, rows, keys], or [B, Hkv, G, rows, keys] where G heads of queries share
 * keys and values, so that nothing is repeated. */
#pragma once
#include "generator/front/expand.h"

typedef struct ExpandScores {
  Expansion *x;
  const Symbolic *batch, *q_heads, *kv_heads, *group, *rows, *keys;
  bool grouped;
} ExpandScores;

/* How many heads of queries share keys: `group` and `grouped` from the numbers of heads. `input`: where keys are given, for reports. */
void expand_scores_group(ExpandScores *at, unsigned input);
/* Windows beside the diagonal: -1, or a number of keys up to `most`. */
void expand_scores_windows(Expansion *x, int64_t most);
/* Does the mask broadcast? Else that is reported at the input. */
bool expand_scores_fit(const ExpandScores *at, unsigned input, const GraphTensor *mask);
/* Adds a mask, or hides what its truth values do not show. */
GraphTensor *expand_scores_masked(const ExpandScores *at, GraphTensor *scores, GraphTensor *mask);
/* What lies as [B, Hkv, rows, columns], beside such scores. */
GraphTensor *expand_scores_shared(const ExpandScores *at, const char *part, GraphTensor *tensor);
/* [B, Hq, rows, columns] split into groups, and the way back. */
GraphTensor *expand_scores_split(const ExpandScores *at, const char *part, GraphTensor *tensor,
                                 const Symbolic *columns);
GraphTensor *expand_scores_merge(const ExpandScores *at, const char *part, GraphTensor *tensor,
                                 const Symbolic *columns);
/* The last two dimensions in the other order. */
GraphTensor *expand_scores_turned(const ExpandScores *at, const char *part, GraphTensor *tensor);
/* Scores bent by a cap, which is above 0; *angle: the tanh. */
GraphTensor *expand_scores_capped(const ExpandScores *at, GraphTensor *scores, double cap,
                                  GraphTensor **angle);
