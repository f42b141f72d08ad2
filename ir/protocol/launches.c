/* Launches that overlap: what a kernel does to global memory before it has waited for the kernel before it.
 *
 * A kernel that waits or triggers may be launched while its predecessor runs. Each thread that touches a
 * tensor which is not `constant` must then have executed dependent_wait on every way to that access; a wait
 * in a loop or in one branch does not count behind it. So a kernel that has ended has waited, and whoever
 * waits for its end knows that all before it have ended too. */
#include "ir/facts.h"
#include "ir/protocol/protocol.h"

static void note_dependency(IrOp *op, void *data)
{
  *(bool *)data |= op->code == OP_DEPENDENT_WAIT || op->code == OP_DEPENDENT_LAUNCH;
}

#define WAIT_HINT "the kernel before may still read or write it"

static bool fault(const IrOp *op, const char *code, const char *hint, const char *what, const char *tensor,
                  GError **error)
{
  error_set(error, ERROR_INPUT, &op->mark, code, hint, "%s %s tensor %s%s", ir_op_info(op->code)->name, what,
            tensor, g_str_equal(code, "constant") ? ", which is constant" : " before dependent_wait");
  return false;
}

/* Sums that blocks leave for each other, and what they claim, lie in tensors of the launch, which kernels share. */
static bool check_partial(const IrFunction *kernel, const IrOp *op, bool waited, GError **error)
{
  const IrExpr *parts = ir_launch_get(kernel, op->code == OP_CLAIM ? ATTR_FLAGS : ATTR_PARTS);
  if (waited) return true;
  return fault(op, "dependent-wait", WAIT_HINT, op->code == OP_ADD_PARTIAL ? "reads" : "writes",
               parts && parts->name ? parts->name : "parts", error);
}

static bool writes_operand(const IrOp *op, unsigned operand)
{
  return operand == 0 && (op->code == OP_STORE || op->code == OP_STORE_REDUCED || op->code == OP_SCATTER ||
                          op->code == OP_COPY);
}

static bool check_op(const IrFunction *kernel, const IrOp *op, bool waited, GError **error)
{
  if (op->code == OP_MAP || op->code == OP_PREFETCH_MAP) return true;
  if (op->code == OP_STORE_PARTIAL || op->code == OP_ADD_PARTIAL || op->code == OP_POST ||
      op->code == OP_AWAIT_POSTS || op->code == OP_POST_STEP || op->code == OP_AWAIT_STEP ||
      op->code == OP_CLAIM)
    return check_partial(kernel, op, waited, error);
  for (unsigned i = 0; i < op->n_operands; i++) {
    const IrExpr *base = ir_access_base(op->operands[i]);
    if (base->kind != EXPR_VALUE || base->value->type.kind != TYPE_TENSOR) continue;
    const IrValue *tensor = base->value;
    if (tensor->type.constant && writes_operand(op, i))
      return fault(op, "constant", NULL, "writes", tensor->name, error);
    if (!tensor->type.constant && !waited)
      return fault(op, "dependent-wait", WAIT_HINT, writes_operand(op, i) ? "writes" : "reads", tensor->name,
                   error);
  }
  return true;
}

/* *waited: on the way in and, updated, behind the region. */
static bool check_region(const IrFunction *kernel, const IrRegion *region, bool *waited, GError **error)
{
  for (const IrOp *op = region->first; op; op = op->next) {
    if (op->code == OP_DEPENDENT_WAIT) *waited = true;
    if (!check_op(kernel, op, *waited, error)) return false;
    bool all = op->code == OP_IF && op->n_regions == 2;
    for (unsigned i = 0; i < op->n_regions; i++) {
      bool within = *waited;
      if (!check_region(kernel, op->regions[i], &within, error)) return false;
      all = all && within;
    }
    *waited = *waited || all;
  }
  return true;
}

bool check_launches(const IrFunction *kernel, GError **error)
{
  bool depends = false, waited = false;
  ir_region_visit(kernel->body, note_dependency, &depends);
  return !depends || check_region(kernel, kernel->body, &waited, error);
}
