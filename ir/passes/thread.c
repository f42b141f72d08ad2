/* What the THREAD passes share: addresses and written variables. */
#include "ir/passes/thread.h"

IrValue *ir_address_base(const IrExpr *expr, int64_t *offset)
{
  int64_t sum = 0, constant;
  while (expr->kind == EXPR_BINARY && (expr->operator_ == OPERATOR_ADD || expr->operator_ == OPERATOR_SUB)) {
    bool first = expr->operator_ == OPERATOR_ADD && ir_expr_is_int(expr->items[0], &constant);
    if (!first && !ir_expr_is_int(expr->items[1], &constant)) return NULL;
    sum += expr->operator_ == OPERATOR_ADD ? constant : -constant;
    expr = expr->items[first ? 1 : 0];
  }
  if (expr->kind != EXPR_VALUE || expr->value->type.kind != TYPE_SCALAR) return NULL;
  *offset = sum;
  return expr->value;
}

bool ir_operand_is_address(const IrOp *op, unsigned i)
{
  switch (op->code) {
  case OP_LOAD_GLOBAL:
  case OP_STORE_GLOBAL:
  case OP_LOAD_SHARED:
  case OP_STORE_SHARED:
  case OP_RAISE_SHARED:
  case OP_LOAD_PEER:
  case OP_STORE_PEER:
  case OP_LOAD_MATRIX:
  case OP_STORE_MATRIX:
  case OP_BARRIER_INIT:
  case OP_BARRIER_ARRIVE:
  case OP_BARRIER_EXPECT:
  case OP_BARRIER_WAIT:
  case OP_NEXT_GLOBAL:
  case OP_FLAG_RELEASE:
  case OP_FLAG_ACQUIRE:
  case OP_COPY_TENSOR_LOAD: return i == 0;
  case OP_COPY_ASYNC:
  case OP_COPY_BULK_LOAD: return i <= 1;
  case OP_COPY_TENSOR_STORE: return i + 1 == op->n_operands;
  default: return false;
  }
}

IrValue *ir_written_variable(const IrOp *op)
{
  if ((ir_op_effects(op->code) & EFFECT_UPDATE) == 0 || op->n_operands == 0) return NULL;
  const IrExpr *target = op->operands[0];
  while (target->kind == EXPR_INDEX)
    target = target->items[0];
  return target->kind == EXPR_VALUE ? target->value : NULL;
}

/* A list of registers as accumulator writes several variables. */
static void add_written(const IrOp *op, GHashTable *set)
{
  IrValue *one = ir_written_variable(op);
  if (one != NULL) g_hash_table_add(set, one);
  if ((ir_op_effects(op->code) & EFFECT_UPDATE) == 0 || op->operands[0]->kind != EXPR_LIST) return;
  for (unsigned i = 0; i < op->operands[0]->n; i++) {
    const IrExpr *target = op->operands[0]->items[i];
    while (target->kind == EXPR_INDEX)
      target = target->items[0];
    if (target->kind == EXPR_VALUE) g_hash_table_add(set, target->value);
  }
}

static void collect_written(const IrRegion *region, GHashTable *set)
{
  for (const IrOp *op = region->first; op != NULL; op = op->next) {
    add_written(op, set);
    for (unsigned i = 0; i < op->n_regions; i++)
      collect_written(op->regions[i], set);
  }
}

GHashTable *ir_written_variables(const IrRegion *region)
{
  GHashTable *set = g_hash_table_new(NULL, NULL);
  collect_written(region, set);
  return set;
}
