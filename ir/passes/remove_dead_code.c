/* remove_dead_code: ops whose results nothing reads.
 *
 * needs  THREAD
 * gives  no op without effect whose results are unused, no write to a variable that nothing reads, no
 *        empty `if` or `for`
 * breaks nothing
 *
 * Uses are counted once; then one walk backwards removes ops and takes back the uses of what it removes, so
 * that whole chains go. A variable that only feeds itself around a loop stays. */
#include "ir/passes/thread.h"

typedef struct Dead { /* both by value id */
  int *uses;          /* reads */
  bool *written;      /* met a write that stays */
} Dead;

static void count(Dead *dead, const IrExpr *expr, int by);

typedef struct CountBy {
  Dead *dead;
  int by;
} CountBy;

static void count_leaf(const IrExpr *expr, void *data)
{
  CountBy *c = data;
  if (expr->kind != EXPR_VALUE) return;
  c->dead->uses[expr->value->id] += c->by;
}

static void count(Dead *dead, const IrExpr *expr, int by)
{
  CountBy c = {dead, by};
  if (expr != NULL) ir_expr_visit(expr, count_leaf, &c);
}

/* `set` only writes its target; other updates also read it. */
static void count_op(Dead *dead, const IrOp *op, int by)
{
  for (unsigned i = op->code == OP_SET; i < op->n_operands; i++)
    count(dead, op->operands[i], by);
  for (unsigned i = 0; i < op->n_attributes; i++)
    count(dead, op->attributes[i].value, by);
}

static void count_region(Dead *dead, const IrRegion *region)
{
  for (const IrOp *op = region->first; op != NULL; op = op->next) {
    count_op(dead, op, 1);
    for (unsigned i = 0; i < op->n_regions; i++)
      count_region(dead, op->regions[i]);
  }
}

static bool is_used(const Dead *dead, const IrValue *value)
{
  return dead->uses[value->id] > 0;
}

static bool is_dead(const Dead *dead, const IrOp *op)
{
  if (op->code == OP_IF || op->code == OP_FOR) {
    for (unsigned i = 0; i < op->n_regions; i++)
      if (op->regions[i]->first != NULL) return false;
    return true;
  }
  if (op->code == OP_SET) {
    const IrValue *target = ir_written_variable(op);
    return target != NULL && !is_used(dead, target);
  }
  if ((ir_op_effects(op->code) & ~(unsigned)EFFECT_READ) != 0 && op->code != OP_ELECT) return false;
  if (op->n_results == 0) return false; /* a fetch ahead, say */
  for (unsigned i = 0; i < op->n_results; i++)
    if (is_used(dead, op->results[i])) return false;
  return true;
}

/* A `var` goes only when the writes after it have gone: they are met first. */
static bool still_written(const Dead *dead, const IrOp *op)
{
  return op->code == OP_VAR && dead->written[op->results[0]->id];
}

static void remove_region(Dead *dead, IrRegion *region)
{
  for (IrOp *op = region->last, *previous; op != NULL; op = previous) {
    previous = op->previous;
    for (unsigned i = op->n_regions; i > 0; i--)
      remove_region(dead, op->regions[i - 1]);
    if (is_dead(dead, op) && !still_written(dead, op)) {
      count_op(dead, op, -1);
      ir_op_remove(op);
    } else {
      const IrValue *target = ir_written_variable(op);
      if (target != NULL) dead->written[target->id] = true;
    }
  }
}

bool pass_remove_dead_code(IrModule *module, const IrPassContext *context, GError **error)
{
  for (unsigned i = 0; i < module->n_functions; i++) {
    unsigned n = ir_give_ids(module->functions[i]);
    g_autofree int *uses = g_new0(int, n);
    g_autofree bool *written = g_new0(bool, n);
    Dead dead = {uses, written};
    count_region(&dead, module->functions[i]->body);
    remove_region(&dead, module->functions[i]->body);
  }
  return true;
}
