/* Of fuse_exponents: what all scores of a row have in common is taken out of them. */
#pragma once
#include "ir/ir.h"

/* Scores are times * core + beside + more; more is a number a row, beside one of each thread, the same for all columns that it has; or NULL:
 * none. */
typedef struct LiftedScores {
  IrExpr *core;
  double times;
  IrExpr *more, *beside;
} LiftedScores;

/* Of scores that `difference` subtracts a row's value from, and that only a maximum of rows reads beside it: that becomes one of core, times and
 * more behind it. Others stay as they are.
 * apart: what a thread's columns have in common of slopes is kept beside. */
LiftedScores ir_lift_scores(IrRegion *scope, IrOp *difference, bool apart);
