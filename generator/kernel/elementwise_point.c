/* Elementwise kernels: arithmetic on groups of elements, and where a group lies in a tensor. */
#include "generator/kernel/elementwise.h"

static bool is_zero(const IrExpr *expr)
{
  int64_t value;
  return ir_expr_is_int(expr, &value) && value == 0;
}

static bool is_one(const IrExpr *expr)
{
  int64_t value;
  return ir_expr_is_int(expr, &value) && value == 1;
}

IrExpr *element_tile(StepScope *scope, IrOpcode code, NumberType element, const char *name, IrExpr *a,
                     IrExpr *b)
{
  const ElementPoint *place = scope->data;
  int64_t extent[2] = {place->groups, 1};
  IrType type = ir_tile(scope->build->module, element, 2, extent, NULL);
  return b ? ir_emit_value(&scope->builder, code, type, name, 2, a, b)
           : ir_emit_value(&scope->builder, code, type, name, 1, a);
}

/* Points lie behind one another, in their order. */
static bool is_in_order(const StepScope *scope, const Symbolic *const *strides)
{
  const FusedOperator *op = scope->build->op;
  Arena *arena = scope->build->expressions;
  const Symbolic *below = symbolic_constant(arena, 1);
  for (unsigned d = op->rank; d-- > 0; below = symbolic_mul(arena, below, op->dims[d]))
    if (!symbolic_same(strides[d], below)) return false;
  return true;
}

IrExpr *element_offset(StepScope *scope, const FlatStrides *flat, const Symbolic *const *strides)
{
  const ElementPoint *place = scope->data;
  const unsigned rank = scope->build->op->rank;
  const NumberType type = place->arithmetic;
  IrExpr *sum = NULL;
  if (place->linear && type == NUMBER_S64 && is_in_order(scope, strides)) return place->linear;
  for (unsigned d = 0; d < rank; d++) {
    if (is_zero(flat->strides[d])) continue;
    IrExpr *term = type == NUMBER_S32 ? place->shorts[d] : place->coordinates[d];
    if (!is_one(flat->strides[d])) term = element_tile(scope, OP_MUL, type, "step", term, flat->strides[d]);
    sum = sum ? element_tile(scope, OP_ADD, type, "offset", sum, term) : term;
  }
  if (sum) return sum;
  return element_tile(scope, OP_SPLAT, type, "origin", ir_int(scope->build->module, 0), NULL);
}
