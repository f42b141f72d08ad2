/* Between matchers of attention and of its gradients: what is computed of scores by where they lie. */
#pragma once
#include "generator/program/attention.h"
#include "generator/program/bind.h"

typedef struct ScoreAxes {
  const Program *program;
  int row, key;
  const Symbolic *row_place, *key_place; /* where that is more than the axis; NULL */
} ScoreAxes;

/* Is the value what an elementwise operator of that kind gives? */
bool scores_are(const Program *program, ProgramValue value, OperatorId op);
/* Without what gives rows that see nothing, whose weights are no numbers, weights of 0: the templates do so themselves. `softmax` reduces the
 * scores. */
ProgramValue scores_unguarded(const Program *program, unsigned softmax, ProgramValue value);
/* Mul or Div by a positive number. */
bool scores_are_scaled(const Program *program, ProgramValue value, ProgramValue *scores, double *factor);
/* Where(comparison of key - row or of the key, scores, -infinity), or the same turned around. *scores: what is masked;
 * *limit: what is loaded of the bound. */
bool scores_are_masked(const ScoreAxes *at, ProgramValue value, ProgramValue *scores, AttentionBound *bound,
                       ProgramValue *limit);
