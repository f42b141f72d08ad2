/* Products that are added to something, or taken off it, become one operation with that, of rows that a block takes one after the
 * other beside sums of their columns: what it computes of them takes as long as memory. One rounding less. */
#include "ir/facts.h"
#include "ir/passes/rows.h"

/* Operations of the body that use the value. */
static unsigned count_users(const Rows *rows, const IrValue *value)
{
  unsigned n = 0;
  for (IrOp *op = rows->body->first; op; op = op->next)
    n += ir_op_uses(op, value);
  return n;
}

static bool is_kept(const IrExpr *operand)
{
  return operand->kind != EXPR_VALUE || !operand->value->variable; /* which may have been written since */
}

/* The product that an operand is, of the shape of the operation's result and for it alone; NULL: it is none. */
static IrOp *product_of(const Rows *rows, const IrOp *op, unsigned i)
{
  const IrExpr *operand = op->operands[i];
  IrOp *def = operand->kind == EXPR_VALUE ? operand->value->def : NULL;
  if (!def || def->code != OP_MUL || def->parent != op->parent || def->n_attributes) return NULL;
  const IrType *type = &op->results[0]->type, *product = &def->results[0]->type;
  bool same = type->kind == TYPE_TILE && type->element == NUMBER_F32 && product->element == NUMBER_F32 &&
              type->rank == product->rank;
  for (unsigned d = 0; same && d < type->rank; d++)
    same = ir_expr_equal(type->dims[d], product->dims[d]);
  return same && count_users(rows, def->results[0]) == 1 && is_kept(def->operands[0]) &&
                 is_kept(def->operands[1])
             ? def
             : NULL;
}

/* A value of each element, not one of the row. */
static bool is_wide(const Rows *rows, const IrExpr *value)
{
  int64_t every;
  return value->kind == EXPR_VALUE && rows_part(rows, &value->value->type, &every);
}

static IrExpr *negated(IrBuilder *builder, IrExpr *value)
{
  return ir_emit_value(builder, OP_NEG, value->value->type, "minus", 1, value);
}

static void join(const Rows *rows, IrOp *op, unsigned i, IrOp *product)
{
  IrExpr *a = product->operands[0], *b = product->operands[1], *c = op->operands[1 - i];
  IrBuilder builder = ir_builder_before(op);
  builder.mark = op->mark;
  if (op->code == OP_SUB && i) { /* of the factors rather that of the row: it has fewer elements */
    IrExpr **factor = is_wide(rows, a) && b->kind == EXPR_VALUE ? &b : &a;
    *factor = negated(&builder, *factor);
  }
  if (op->code == OP_SUB && !i) c = negated(&builder, c);
  IrExpr *joined = ir_emit_value(&builder, OP_FMA, op->results[0]->type, op->results[0]->name, 3, a, b, c);
  ir_replace_uses(rows->kernel->body, op->results[0], joined);
  ir_op_remove(op);
  ir_op_remove(product);
}

/* What changes its sign: of a difference, where it is a value. */
static bool may_join(const IrOp *op, unsigned i, const IrOp *product)
{
  const IrExpr *changes = i ? product->operands[0] : op->operands[1];
  bool twice = ir_expr_equal(op->operands[0], op->operands[1]);
  return !twice && (op->code == OP_ADD || changes->kind == EXPR_VALUE);
}

void rows_join_products(Rows *rows)
{
  for (IrOp *op = rows->body->first, *next; op; op = next) {
    next = op->next;
    if ((op->code != OP_ADD && op->code != OP_SUB) || op->n_attributes) continue;
    for (unsigned i = 0; i < 2; i++) {
      IrOp *product = product_of(rows, op, i);
      if (!product || !may_join(op, i, product)) continue;
      join(rows, op, i, product);
      break;
    }
  }
}
