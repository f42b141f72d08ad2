/* Reducers: what `reduce ... with @name` combines by. `@name` itself merges two states; beside it a module may have
 *
 *   @name_identity() -> state             what merges with any state into that one
 *   @name_lift(elements) -> state         the state of one element; then `reduce` takes elements, not states
 *   @name_stay(tiles[, count]) -> state   the same from rows that stay, by reductions of their own; count, an f32: how
 *                                         many elements are reduced
 *   @name_behind(states) -> state         merges as `@name` does, where the last of a state's values is a place, and those of the
 *                                         second side stand behind all of the first one's. Of a row that it merges into nothing a state may
 *   @name_settled(state) -> state         be that of nothing still: what it is of a row whose places begin at 0
 *
 *   @name_raise(state, x) -> state, base  and
 *   @name_share(element, base) -> value   of a state of an extremum and a sum: what it is where the extremum is that of x too, and what an
 *                                         element then adds to the sum. Many elements change a state once so
 *
 * templates/reducers.ir has those that the generator uses. */
#pragma once
#include "ir/ir.h"

typedef enum {
  REDUCER_IDENTITY,
  REDUCER_LIFT,
  REDUCER_STAY,
  REDUCER_BEHIND,
  REDUCER_SETTLED,
  REDUCER_RAISE,
  REDUCER_SHARE,
  REDUCER_PARTS
} ReducerPart;

#define REDUCER_MOST 8 /* values of a state */

/* A part of a reducer, or NULL. */
const IrFunction *ir_reducer_part(const IrModule *module, const char *name, ReducerPart part);
/* Its name, in the arena. */
const char *ir_reducer_part_name(IrModule *module, const char *name, ReducerPart part);
/* Does the reduction take elements that a reducer lifts into states? Then it may have other operands than results. */
bool ir_reduction_lifts(const IrOp *reduce);
/* Does it give the same bits when its sides are exchanged? Sums, products and extremes of both sides side by side do. */
bool ir_reducer_commutes(const IrFunction *merge);
/* What a reduction by one of the names merges with into the same: 0, 1, the largest, the least number. NULL: no such name. */
IrExpr *ir_reduction_identity(IrModule *module, const char *with, NumberType element);
/* Applies a sub-kernel of scalars to the elements of tiles, which broadcast: emits its operations and leaves what it returns
 * in `results`, tiles of that shape, or literals where it returns one. The op that cannot be applied so, or NULL. */
const IrOp *ir_reducer_apply(IrBuilder *builder, const IrFunction *function, const IrType *shape,
                             IrExpr *const *arguments, IrExpr **results);
