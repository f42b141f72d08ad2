/* skip_rescales: a sum that is multiplied by a number a row is left alone where all of a warp's numbers are 1.
 *
 * needs  STAGED, waits derived, loops split
 * gives  in roles, and in kernels without roles: where a sum of products is multiplied by a value of each row in a loop, and nothing else reads
 *        what that gives, the multiplication stands in an `if` of whether any of the warp's rows has another value than 1
 * breaks nothing: a product with 1 is what it was
 *
 * An online softmax's maxima move in a loop's first iterations, and hardly ever later where templates let them rise by some
 * powers of two before they follow (Zadouri et al., FlashAttention-4, 2026). */
#include "ir/mechanism.h"
#include "ir/pass.h"

typedef struct {
  IrRegion *scope;
  GHashTable *sums;      /* IrValue* that products are added to */
  GPtrArray *rescalings; /* IrOp* */
} Role;

static bool is_value_of_tile(const IrExpr *operand)
{
  return operand->kind == EXPR_VALUE && operand->value->type.kind == TYPE_TILE;
}

static void note_sum(IrOp *op, void *data)
{
  Role *role = data;
  if (op->code == OP_MMA && op->operands[0]->kind == EXPR_VALUE)
    g_hash_table_add(role->sums, op->operands[0]->value);
}

static bool is_in_loop(const IrOp *op)
{
  for (const IrOp *owner = op->parent->owner; owner && owner->code != OP_ROLE; owner = owner->parent->owner)
    if (owner->code == OP_FOR || owner->code == OP_LOOP) return true;
  return false;
}

/* It stands in an `if` of skip_maxima already, in which some row's number is another than 1. */
static bool is_guarded(const IrOp *op)
{
  const IrOp *owner = op->parent->owner;
  const IrExpr *condition = owner->code == OP_IF ? owner->operands[0] : NULL;
  return condition && condition->kind == EXPR_VALUE && condition->value->def &&
         condition->value->def->code == OP_SOME;
}

/* sum * row, which goes back to the sum and nowhere else. */
static void note_rescaling(IrOp *op, void *data)
{
  Role *role = data;
  if (op->code != OP_MUL || op->results[0]->type.kind != TYPE_TILE || !is_in_loop(op) || is_guarded(op))
    return;
  if (!is_value_of_tile(op->operands[0]) || !is_value_of_tile(op->operands[1])) return;
  const IrValue *sum = op->operands[0]->value, *row = op->operands[1]->value;
  if (!g_hash_table_contains(role->sums, sum) || ir_tile_elements(&row->type) >= ir_tile_elements(&sum->type))
    return;
  IrOp *set;
  if (ir_region_count_uses(role->scope, op->results[0], &set) != 1 || set->code != OP_SET ||
      set->parent != op->parent || set->operands[0]->kind != EXPR_VALUE || set->operands[0]->value != sum)
    return;
  g_ptr_array_add(role->rescalings, op);
}

static void guard(IrModule *module, IrRegion *scope, IrOp *rescaling)
{
  IrOp *set;
  ir_region_count_uses(scope, rescaling->results[0], &set);
  IrBuilder builder = ir_builder_before(set);
  builder.mark = rescaling->mark;
  IrType truth = rescaling->operands[1]->value->type;
  truth.element = NUMBER_BOOL;
  IrExpr *moved =
      ir_emit_value(&builder, OP_NE, truth, "moved", 2, rescaling->operands[1], ir_float(module, 1.0));
  IrExpr *any = ir_emit_value(&builder, OP_SOME, ir_predicate(), "any", 1, moved);
  IrRegion *inside = ir_region_add(ir_emit(&builder, OP_IF, 1, any));
  ir_op_move(rescaling, inside, NULL);
  ir_op_move(set, inside, NULL);
}

static void skip_in(IrModule *module, IrRegion *scope)
{
  g_autoptr(GHashTable) sums = g_hash_table_new(NULL, NULL);
  g_autoptr(GPtrArray) rescalings = g_ptr_array_new();
  Role role = {scope, sums, rescalings};
  ir_region_visit(role.scope, note_sum, &role);
  ir_region_visit(role.scope, note_rescaling, &role);
  for (unsigned i = 0; i < rescalings->len; i++)
    guard(module, role.scope, rescalings->pdata[i]);
}

bool pass_skip_rescales(IrModule *module, const IrPassContext *context, GError **error)
{
  (void)context, (void)error;
  IrFunction *kernel = ir_kernel(module);
  bool roles = false;
  for (IrOp *op = kernel ? kernel->body->first : NULL; op; op = op->next) {
    roles |= op->code == OP_ROLE;
    if (op->code == OP_ROLE) skip_in(module, op->regions[0]);
  }
  if (kernel && !roles) skip_in(module, kernel->body);
  return true;
}
