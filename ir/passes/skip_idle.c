/* skip_idle: instances of a role whose rows nobody needs compute nothing, and keep step alone.
 *
 * needs  STAGED, pipelined loops written, barriers derived
 * gives  where a product says when its instance's rows count (`mma ... where`), an `if` of that around the loop or `if` that it stands in, at the
 *        place of what the condition follows from. The other branch has what other roles and instances wait for: waits for slots, their
 *        release, turns, cursors, and rows of slots that all clear together
 * breaks nothing; a product that stands in nothing else, and one beside which something is stored or loaded for a tile, is left as it is
 *
 * So of two warpgroups that share a tile of rows the second leaves the tensor cores to the first where a sequence ends in front of its own.
 * What such an instance has of its sums is what they began with. */
#include "ir/facts.h"
#include "ir/pass.h"

static bool has_tile(const IrOp *op)
{
  for (unsigned i = 0; i < op->n_results; i++)
    if (op->results[i]->type.kind == TYPE_TILE || op->results[i]->type.kind == TYPE_PREDICATE) return true;
  return false;
}

/* Somebody waits for it, or it follows whom somebody waits for. */
static bool keeps_step(const IrOp *op)
{
  static const IrOpcode codes[] = {OP_AWAIT,     OP_ARRIVE, OP_ADVANCE, OP_SKIP,       OP_TURN_WAIT,
                                   OP_TURN_PASS, OP_CLEAR,  OP_SYNC,    OP_SYNC_ARRIVE};
  for (unsigned i = 0; i < G_N_ELEMENTS(codes); i++)
    if (op->code == codes[i]) return true;
  return false;
}

/* Numbers of the role, which loops' ends and places of slots follow from. */
static bool is_number(const IrOp *op)
{
  bool code = op->code == OP_LET || op->code == OP_LOAD || op->code == OP_VAR;
  return code && op->n_results == 1 && op->results[0]->type.kind == TYPE_SCALAR;
}

/* Of sums, weights and what belongs to their products: gone where nobody needs the rows. */
static bool is_of_tiles(const IrOp *op)
{
  switch (op->code) {
  case OP_MMA:
  case OP_FENCE:
  case OP_COMMIT:
  case OP_WAIT_GROUP: return true;
  case OP_SET: return op->operands[0]->kind == EXPR_VALUE && op->operands[0]->value->type.kind == TYPE_TILE;
  default:
    return has_tile(op) && !(ir_op_effects(op->code) & (EFFECT_WRITE | EFFECT_SYNC)) && op->code != OP_LOAD;
  }
}

/* A condition that does not follow from tiles. */
static bool is_known(const IrExpr *condition)
{
  if (condition->kind == EXPR_VALUE && condition->value->type.kind != TYPE_SCALAR) return false;
  for (unsigned i = 0; i < condition->n; i++)
    if (!is_known(condition->items[i])) return false;
  return true;
}

/* Leaves what keeps step, and counts it; *possible: nothing else is there that has an effect. */
static unsigned keep_steps(IrRegion *region, bool *possible)
{
  unsigned kept = 0;
  for (IrOp *op = region->first, *next; op; op = next) {
    unsigned inside = 0;
    next = op->next;
    for (unsigned i = 0; i < op->n_regions; i++)
      inside += keep_steps(op->regions[i], possible);
    bool holds = (op->code == OP_FOR || op->code == OP_IF) && inside > 0;
    if (holds && op->code == OP_IF && !is_known(op->operands[0])) *possible = false;
    kept += holds || keeps_step(op);
    if (holds || keeps_step(op) || is_number(op)) continue;
    if (op->code != OP_FOR && op->code != OP_IF && !is_of_tiles(op)) *possible = false;
    ir_op_remove(op);
  }
  return kept;
}

/* Products that say when their rows count. */
static void note_marked(IrOp *op, void *data)
{
  if (op->code == OP_MMA && ir_attribute_value(op, ATTR_WHERE)) g_ptr_array_add(data, op);
}

/* What the condition follows from, if that is not known. */
static const IrOp *source_of(const IrExpr *condition)
{
  const IrOp *source = condition->kind == EXPR_VALUE ? condition->value->def : NULL;
  int64_t always;
  bool known = source && source->code == OP_LET && ir_expr_is_int(source->operands[0], &always);
  return known ? NULL : source;
}

/* The op around the product that stands where the condition is known, or NULL. */
static IrOp *whole_of(IrOp *product, const IrExpr *condition)
{
  const IrOp *known = source_of(condition);
  IrOp *op = product;
  while (known && op && op->code != OP_ROLE && op->parent != known->parent)
    op = op->parent->owner;
  return known && op && op != product && (op->code == OP_IF || op->code == OP_FOR) ? op : NULL;
}

/* false: it stays as it is. */
static bool guard(IrOp *whole, IrExpr *condition)
{
  bool possible = true;
  g_autoptr(GHashTable) map = g_hash_table_new(NULL, NULL);
  IrBuilder builder = ir_builder_before(whole);
  builder.mark = whole->mark;
  IrOp *branch = ir_emit(&builder, OP_IF, 1, condition);
  IrRegion *busy = ir_region_add(branch), *idle = ir_region_add(branch);
  IrBuilder inner = ir_builder_at_end(idle);
  inner.mark = whole->mark;
  ir_op_clone(&inner, whole, map);
  keep_steps(idle, &possible);
  if (!possible) {
    ir_op_remove(branch);
    return false;
  }
  ir_op_move(whole, busy, NULL);
  return true;
}

typedef struct {
  IrOp *whole;
  IrExpr *condition;
} Guarded;

static void skip_in(const IrPassContext *context, IrOp *role)
{
  g_autoptr(GPtrArray) products = g_ptr_array_new();
  g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL);
  ir_region_visit(role->regions[0], note_marked, products);
  g_autofree Guarded *found = g_new0(Guarded, products->len + 1);
  unsigned n = 0, guarded = 0;
  for (unsigned i = 0; i < products->len && ir_attribute_int(role, ATTR_INSTANCES, 1) > 1; i++) {
    IrExpr *condition = ir_attribute_value(products->pdata[i], ATTR_WHERE);
    IrOp *whole = whole_of(products->pdata[i], condition);
    if (whole && g_hash_table_add(seen, whole)) found[n++] = (Guarded){whole, condition};
  }
  for (unsigned i = 0; i < n; i++)
    guarded += guard(found[i].whole, found[i].condition);
  if (guarded)
    ir_remark(context, "instances: one of role %s none of whose rows counts keeps step alone", role->symbol);
}

static void forget(IrOp *op, void *data)
{
  (void)data;
  if (op->code == OP_MMA) ir_attribute_remove(op, ATTR_WHERE);
}

bool pass_skip_idle(IrModule *module, const IrPassContext *context, GError **error)
{
  (void)error;
  IrFunction *kernel = ir_kernel(module);
  if (!kernel) return true;
  for (IrOp *op = kernel->body->first; op; op = op->next)
    if (op->code == OP_ROLE) skip_in(context, op);
  ir_region_visit(kernel->body, forget, NULL);
  return true;
}
