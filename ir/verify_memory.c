/* The verifier's rules for memory at TILE, where nothing says in what order threads, roles and engines of a kernel reach it:
 * what a kernel stores it does not read again, but for what blocks leave for one another and await. */
#include "ir/facts.h"
#include "ir/verifier.h"

typedef struct {
  const IrFunction *kernel;
  GHashTable *stored; /* IrValue* of tensors that the text down to the op at hand stores to */
  Verifier *verifier;
} Reads;

static const IrValue *tensor_at(const IrOp *op, unsigned operand)
{
  const IrExpr *base = op->n_operands > operand ? ir_access_base(op->operands[operand]) : NULL;
  return base && base->kind == EXPR_VALUE && base->value->type.kind == TYPE_TENSOR ? base->value : NULL;
}

static const IrValue *written(const IrOp *op)
{
  return ir_op_effects(op->code) & EFFECT_WRITE && op->code != OP_FILL ? tensor_at(op, 0) : NULL;
}

static const IrValue *read(const IrOp *op)
{
  if (op->code == OP_FILL) return tensor_at(op, 1);
  return op->code == OP_LOAD || op->code == OP_GATHER ? tensor_at(op, 0) : NULL;
}

/* `post` and `await_posts` order these. */
static bool is_left_for_blocks(const Reads *reads, const IrValue *tensor)
{
  const IrExpr *parts = ir_launch_get(reads->kernel, ATTR_PARTS);
  return parts && parts->name && g_str_equal(parts->name, tensor->name);
}

/* In the order of the text: what is read in front of a store is another place, or what the store replaces. */
static void check_memory(IrOp *op, void *data)
{
  const Reads *reads = data;
  const IrValue *tensor = read(op);
  if (written(op)) g_hash_table_add(reads->stored, (gpointer)written(op));
  if (!tensor || !g_hash_table_contains(reads->stored, tensor) || is_left_for_blocks(reads, tensor)) return;
  verify_fault(reads->verifier, &op->mark, "read-back",
               op->code == OP_FILL ? "fill the slot with the value, or take two kernels"
                                   : "keep the tile, or load it in front of the store",
               "`%s` is read behind a store to it: other threads may not have stored yet", tensor->name);
}

void verify_memory(Verifier *verifier, const IrFunction *kernel)
{
  g_autoptr(GHashTable) stored = g_hash_table_new(NULL, NULL);
  Reads reads = {kernel, stored, verifier};
  ir_region_visit(kernel->body, check_memory, &reads);
}
