/* Of fuse_exponents: what all scores of a row have in common is taken out of them. */
#pragma once
#include "ir/ir.h"

/* Scores are times * core + more; more is a number a row, or NULL: none. */
typedef struct LiftedScores {
  IrExpr *core;
  double times;
  IrExpr *more;
} LiftedScores;

/* Of scores that `difference` subtracts a row's value from, and that only a maximum of rows reads beside it: that becomes one of core, times and
 * more behind it. Others stay as they are. */
LiftedScores ir_lift_scores(IrRegion *scope, IrOp *difference);
