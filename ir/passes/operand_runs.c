/* A product is a sum over k in any order, as long as both operands have the same. Elements of 4 bits that a lane reads whole words
 * of come in a quarter of the loads, and by shifts alone to where they are widened, if lanes have runs of k (mma.a_runs); the
 * right operand's fragments are then read as such runs too. */
#include "ir/passes/operand_runs.h"
#include "ir/facts.h"

enum {
  LANES = 4,    /* of a row */
  RUN_MOST = 16 /* 8 bytes, and 32 of the right operand: its swizzled columns then meet in no bank */
};

/* Does an operand come from elements of 4 bits that a slot has along k, by arithmetic alone? A value is looked at once. */
static bool comes_packed(const IrFunction *kernel, const IrExpr *operand, GHashTable *seen)
{
  bool value = operand->kind == EXPR_VALUE && operand->value->type.kind == TYPE_TILE;
  const IrOp *def = value && g_hash_table_add(seen, operand->value) ? operand->value->def : NULL;
  if (def && def->code == OP_GET) {
    const IrOp *slot = ir_slot_of(kernel, def->operands[0], NULL);
    const Layout *layout = slot ? slot->declared->layout : NULL;
    return number_is_packed(def->results[0]->type.element) && layout && layout->n &&
           layout->modes[0].dim == 1;
  }
  bool packed = false;
  for (unsigned i = 0; def && ir_op_is_elementwise(def->code) && i < def->n_operands; i++)
    packed |= comes_packed(kernel, def->operands[i], seen);
  return packed;
}

/* How many elements of k each of the four lanes of a row has one behind the other, where the product may take them in any order;
 * 0: it takes them as they come. */
static unsigned run_of(const IrFunction *kernel, const IrOp *mma, unsigned k)
{
  const IrExpr *b = mma->operands[2];
  const IrOp *slot = ir_slot_of(kernel, b, NULL);
  const Layout *layout = slot ? slot->declared->layout : NULL;
  int inner = b->kind == EXPR_TRANSPOSED ? 1 : 0; /* where it lies along k */
  bool along =
      layout && layout->n && layout->modes[0].dim == inner && number_has_bytes(slot->declared->element, 2);
  g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL);
  if (!along || !comes_packed(kernel, mma->operands[1], seen)) return 0;
  for (unsigned run = RUN_MOST; run >= RUN_MOST / 2; run /= 2)
    if (k % (LANES * run) == 0) return run;
  return 0;
}

const Layout *operand_fragments(const IrFunction *kernel, const IrOp *mma, unsigned warps_m, unsigned warps_n)
{
  Arena *arena = kernel->module->arena;
  const IrType *type = &mma->operands[1]->value->type;
  unsigned m = (unsigned)ir_tile_extent(type, 0), k = (unsigned)ir_tile_extent(type, 1),
           run = run_of(kernel, mma, k);
  return run ? layout_mma_a_runs(arena, m, k, run, warps_m, warps_n)
             : layout_mma_a(arena, type->element, m, k, warps_m, warps_n);
}
