#include "ir/passes/division.h"

IrExpr *division_begin(IrModule *module, IrExpr *place, int64_t part)
{
  return ir_binary(module, OPERATOR_MUL, place, ir_int(module, part));
}

IrExpr *division_corner(IrModule *module, const IrExpr *access, unsigned rank, unsigned dim, IrExpr *by)
{
  unsigned n = access->n - 1, at = n - rank + dim;
  IrExpr **corner = arena_memdup(module->arena, access->items + 1, n * sizeof *corner);
  corner[at] = ir_binary(module, OPERATOR_ADD, corner[at], by);
  return ir_index_array(module, access->items[0], n, corner);
}

IrExpr *division_part(IrModule *module, IrExpr *tile, const IrType *type, unsigned dim, IrExpr *begin,
                      int64_t part)
{
  IrExpr *range[2];
  range[dim] = ir_range(module, begin, ir_binary(module, OPERATOR_ADD, begin, ir_int(module, part)));
  range[1 - dim] = ir_range(module, ir_int(module, 0), ir_int(module, ir_tile_extent(type, 1 - dim)));
  return ir_index_array(module, tile, 2, range);
}

IrType *division_type(IrModule *module, const IrType *whole, unsigned dim, int64_t part)
{
  IrType *type = arena_memdup(module->arena, whole, sizeof *type);
  type->dims[dim] = ir_int(module, part);
  return type;
}

bool division_shares(const IrOp *combine, int64_t sharers, CombineShares *shares)
{
  if (combine->operands[0]->kind != EXPR_VALUE) return false;
  const IrType *all = &combine->operands[0]->value->type, *own = &combine->results[0]->type;
  int64_t columns = ir_tile_extent(own, 1);
  *shares = (CombineShares){columns, columns > 0 ? ir_tile_extent(all, 1) / columns : 0, sharers - 1};
  return shares->owners > 0 && shares->owners * columns == ir_tile_extent(all, 1) &&
         shares->owners <= sharers;
}

/* What follows adds a number to the places, and nothing else reads them. */
static bool moves_on(IrRegion *region, IrOp *iota)
{
  IrOp *next = iota->next;
  const IrValue *place = iota->results[0];
  bool adds = next && next->code == OP_ADD && !next->n_attributes && next->operands[0]->kind == EXPR_VALUE &&
              next->operands[0]->value == place;
  IrType type = adds ? ir_expr_type(region->function, next->operands[1]) : (IrType){0};
  if (!adds || type.kind != TYPE_SCALAR) return false;
  IrExpr *operand = next->operands[0];
  next->operands[0] = ir_int(region->function->module, 0);
  bool other = ir_region_uses(region, place);
  next->operands[0] = operand;
  return !other;
}

void division_count(IrRegion *region, IrOp *iota, const IrType *type, IrExpr *begin)
{
  IrModule *module = region->function->module;
  if (moves_on(region, iota)) {
    iota->next->operands[1] = ir_binary(module, OPERATOR_ADD, iota->next->operands[1], begin);
    return;
  }
  IrBuilder builder = ir_builder_after(iota);
  builder.mark = iota->mark;
  IrValue *whole = iota->results[0];
  IrExpr *own = ir_emit_value(&builder, OP_ADD, *type, whole->name, 2, ir_int(module, 0), begin);
  ir_replace_uses(region, whole, own);
  own->value->def->operands[0] = ir_value(module, whole);
}
