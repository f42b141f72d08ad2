/* The verifier's rules for THREAD: what an instruction takes. */
#include "ir/calls.h"
#include "ir/verifier.h"

/* A register, a constant, a list or range of registers; `register + constant` where an address stands. */
static bool is_thread_operand(const IrExpr *expr, bool address)
{
  switch (expr->kind) {
  case EXPR_INT:
  case EXPR_FLOAT:
  case EXPR_VALUE:
  case EXPR_NAME:
  case EXPR_SYMBOL:
  case EXPR_DIM: return true;
  case EXPR_INDEX: return expr->items[0]->kind == EXPR_VALUE;
  case EXPR_LIST:
    for (unsigned i = 0; i < expr->n; i++)
      if (!is_thread_operand(expr->items[i], false)) return false;
    return true;
  case EXPR_CALL: {
    const IrCallInfo *info = ir_call_info(expr->name);
    return info && info->encoded;
  }
  case EXPR_UNARY: return expr->operator_ == OPERATOR_LNOT && is_thread_operand(expr->items[0], false);
  case EXPR_BINARY:
    return address && (expr->operator_ == OPERATOR_ADD || expr->operator_ == OPERATOR_SUB) &&
           is_thread_operand(expr->items[0], false) && expr->items[1]->kind == EXPR_INT;
  default: return false;
  }
}

void verify_thread(Verifier *verifier, const IrOp *op)
{
  unsigned effects = ir_op_effects(op->code);
  bool address = effects & (EFFECT_READ | EFFECT_WRITE | EFFECT_SYNC);
  for (unsigned i = 0; i < op->n_operands; i++)
    if (!is_thread_operand(op->operands[i], address))
      verify_fault(verifier, &op->mark, "thread-operand", NULL,
                   "operand %u is neither a register nor a constant%s", i,
                   address ? " nor register + constant" : "");
  const IrExpr *when = ir_attribute_value(op, ATTR_WHEN);
  if (when && !is_thread_operand(when, false))
    verify_fault(verifier, &op->mark, "thread-operand", NULL, "`when` takes a predicate or its negation");
}

void verify_role_threads(Verifier *verifier, const IrOp *op)
{
  int64_t threads = ir_attribute_int(op, ATTR_THREADS, WARPGROUP_WARPS * WARP_LANES);
  if (threads < (op->code == OP_CHANNEL) || threads % (WARPGROUP_WARPS * WARP_LANES))
    verify_fault(verifier, &op->mark, "threads", NULL,
                 "a role has whole warpgroups of %d threads, not %" G_GINT64_FORMAT,
                 WARPGROUP_WARPS * WARP_LANES, threads);
}
