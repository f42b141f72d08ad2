#include "ir/passes/every.h"

bool every_of(const IrOp *op, Every *every)
{
  bool reduces = op->code == OP_REDUCE && ir_attribute(op, ATTR_EVERY);
  if (!reduces && op->code != OP_SPREAD) return false;
  const IrType *operand = &op->operands[0]->value->type, *result = &op->results[0]->type;
  *every = (Every){.wide = reduces ? operand : result,
                   .narrow = reduces ? result : operand,
                   .dim = (unsigned)ir_attribute_int(op, ATTR_DIM, 0),
                   .n = (unsigned)ir_attribute_int(op, ATTR_EVERY, 1)};
  return true;
}

bool every_same_extents(const IrType *a, const IrType *b)
{
  bool same = a->kind == TYPE_TILE && b->kind == TYPE_TILE && a->rank == b->rank;
  for (unsigned d = 0; same && d < a->rank; d++)
    same = ir_tile_extent(a, d) == ir_tile_extent(b, d);
  return same;
}

unsigned every_most(const GPtrArray *ops, const IrType *shape)
{
  unsigned most = 1;
  Every every;
  for (unsigned i = 0; i < ops->len; i++)
    if (shape->rank == 2 && every_of(ops->pdata[i], &every) && every.dim == 1 && every.wide->rank == 2 &&
        ir_tile_extent(every.wide, 1) == ir_tile_extent(shape, 1))
      most = MAX(most, every.n);
  return most;
}

unsigned every_vector(const GPtrArray *ops, const IrType *shape)
{
  unsigned vector = 16;
  for (unsigned i = 0; i < ops->len; i++) {
    const IrOp *op = ops->pdata[i];
    for (unsigned r = 0; r < op->n_results; r++) {
      const IrType *tile = &op->results[r]->type;
      if (every_same_extents(tile, shape)) vector = MIN(vector, number_elements(tile->element, 16));
    }
  }
  return vector;
}
