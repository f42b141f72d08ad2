/* induce_addresses: addresses that a loop recomputes become registers that step.
 *
 * needs  THREAD; factors that are constants, as the lowering leaves them
 * gives  within a `for`, an address that is affine in the loop variable with a factor that is constant in
 *        the loop is a variable, set before the loop and stepped at its end; pure arithmetic that does
 *        not change in a loop stands before it
 * breaks nothing; what the addresses were computed from stays for remove_dead_code
 *
 * Strength reduction in the manner of Cocke and Kennedy, "An algorithm for reduction of operator strength"
 * (1977), on structured loops. 32-bit signed arithmetic is taken not to overflow where it is widened;
 * coordinates are 32-bit by contract. An address whose chain in the loop is a single instruction is left
 * alone: a 64-bit step costs two. */
#include "ir/passes/thread.h"

typedef enum { CHANGES, INVARIANT, AFFINE } Kind;

typedef struct Form { /* how a value depends on the loop variable */
  Kind kind;
  bool known; /* AFFINE: the factor is a constant */
  int64_t factor;
  unsigned cost; /* AFFINE: ops of the chain inside the loop */
} Form;

typedef struct Loop {
  IrModule *module;
  IrOp *op;
  IrValue *index;
  GHashTable *inside;  /* IrOp*: ops of the body, nested ones too */
  GHashTable *written; /* variables written in the body */
  GHashTable *forms;   /* IrValue* -> Form* */
  GHashTable *induced; /* IrValue*: a variable stands for it */
  unsigned count;
  unsigned most; /* address registers that the loop may get: each costs two */
} Loop;

static Form form_of_value(Loop *loop, const IrValue *value);

static Form form_of(Loop *loop, const IrExpr *expr)
{
  if (expr->kind == EXPR_INT || expr->kind == EXPR_FLOAT || expr->kind == EXPR_DIM ||
      expr->kind == EXPR_NAME || expr->kind == EXPR_SYMBOL || expr->kind == EXPR_CALL)
    return (Form){.kind = INVARIANT};
  if (expr->kind == EXPR_VALUE) return form_of_value(loop, expr->value);
  return (Form){.kind = CHANGES};
}

/* The form of a product or a shift: affine times a constant of the loop. */
static Form form_scaled(Form affine, Form other, const IrExpr *by, bool shift)
{
  int64_t constant;
  Form form = {.kind = other.kind == INVARIANT ? AFFINE : CHANGES, .cost = affine.cost + 1};
  form.known = affine.known && ir_expr_is_int(by, &constant) && (!shift || (constant >= 0 && constant < 63));
  if (form.known)
    form.factor = shift ? (int64_t)((uint64_t)affine.factor << constant) : affine.factor * constant;
  return form;
}

static Form form_sum(Form a, Form b, int sign)
{
  if (a.kind == CHANGES || b.kind == CHANGES) return (Form){.kind = CHANGES};
  Form form = {.kind = AFFINE, .cost = a.cost + b.cost + 1};
  form.known = (a.kind == INVARIANT || a.known) && (b.kind == INVARIANT || b.known);
  form.factor = (a.kind == AFFINE ? a.factor : 0) + sign * (b.kind == AFFINE ? b.factor : 0);
  return form;
}

static Form form_product(const IrOp *op, Form a, Form b)
{
  if (a.kind == AFFINE) return form_scaled(a, b, op->operands[1], op->code == OP_SHL);
  if (b.kind == AFFINE && op->code != OP_SHL) return form_scaled(b, a, op->operands[0], false);
  return (Form){.kind = a.kind == INVARIANT && b.kind == INVARIANT ? INVARIANT : CHANGES};
}

/* Widening keeps an affine form only if the narrow sum does not wrap: signed coordinates. */
static bool widens_signed(const IrExpr *expr)
{
  return expr->kind != EXPR_VALUE || expr->value->type.element == NUMBER_S32;
}

static bool is_wide_safe(const IrOp *op)
{
  bool wide = op->code == OP_MUL_WIDE || op->code == OP_MAD_WIDE;
  return !wide || (widens_signed(op->operands[0]) && widens_signed(op->operands[1]));
}

static Form form_of_op(Loop *loop, const IrOp *op)
{
  Form f[3] = {{0}};
  Kind least = INVARIANT;
  if (op->n_operands > 3 || op->n_operands == 0) return (Form){.kind = CHANGES};
  for (unsigned i = 0; i < op->n_operands; i++) {
    f[i] = form_of(loop, op->operands[i]);
    if (f[i].kind == CHANGES) return (Form){.kind = CHANGES};
    if (f[i].kind == AFFINE) least = AFFINE;
  }
  if (least == INVARIANT) return (Form){.kind = INVARIANT};
  if (number_class(op->results[0]->type.element) == NUMBER_FLOAT || !is_wide_safe(op))
    return (Form){.kind = CHANGES};
  switch (op->code) {
  case OP_ADD: return form_sum(f[0], f[1], 1);
  case OP_SUB: return form_sum(f[0], f[1], -1);
  case OP_MUL:
  case OP_SHL:
  case OP_MUL_WIDE: return form_product(op, f[0], f[1]);
  case OP_FMA:
  case OP_MAD_WIDE: {
    Form product = form_product(op, f[0], f[1]);
    if (product.kind == CHANGES) return product;
    if (product.kind == AFFINE) product.cost--; /* one instruction with the sum */
    return form_sum(product, f[2], 1);
  }
  case OP_CAST:
    if (op->n_attributes > 0 || number_bits(op->results[0]->type.element) != 64 ||
        !widens_signed(op->operands[0]))
      return (Form){.kind = CHANGES};
    f[0].cost++;
    return f[0];
  case OP_MOVE:
  case OP_LET: return f[0];
  default: return (Form){.kind = CHANGES};
  }
}

static bool is_pure_scalar(const IrOp *op)
{
  return op->n_results == 1 && op->n_regions == 0 && ir_op_effects(op->code) == EFFECT_NONE &&
         op->code != OP_VAR && ir_attribute(op, ATTR_WHEN) == NULL && op->results[0]->type.count <= 1 &&
         !op->results[0]->variable;
}

static Form form_of_value(Loop *loop, const IrValue *value)
{
  if (value == loop->index) return (Form){.kind = AFFINE, .known = true, .factor = 1};
  const Form *known = g_hash_table_lookup(loop->forms, value);
  if (known != NULL) return *known;
  Form form = {.kind = CHANGES};
  if (value->variable) {
    if (!g_hash_table_contains(loop->written, value) && !g_hash_table_contains(loop->inside, value->def))
      form.kind = INVARIANT;
  } else if (value->def == NULL) { /* another loop's variable, or a parameter */
    bool inner = value->argument_of != NULL && g_hash_table_contains(loop->inside, value->argument_of->owner);
    form.kind = inner ? CHANGES : INVARIANT;
  } else if (!g_hash_table_contains(loop->inside, value->def)) {
    form.kind = INVARIANT;
  } else if (is_pure_scalar(value->def) && value->def->code != OP_SPECIAL) {
    form = form_of_op(loop, value->def);
  }
  Form *kept = arena_new_object(loop->module->arena, Form);
  *kept = form;
  g_hash_table_insert(loop->forms, (gpointer)value, kept);
  return form;
}

/* ---- Hoisting ---- */

static bool is_integer_arithmetic(const IrOp *op)
{
  if (!is_pure_scalar(op)) return false;
  if (op->code == OP_SPECIAL || op->code == OP_ADDRESS || op->code == OP_PARAMETER) return false;
  return number_class(op->results[0]->type.element) != NUMBER_FLOAT;
}

/* What it is computed from stands before the loop: floats do not change there either, but stay. */
static bool has_operands(const Loop *loop, const IrOp *op)
{
  for (unsigned i = 0; i < op->n_operands; i++) {
    const IrExpr *operand = op->operands[i];
    if (operand->kind == EXPR_VALUE && operand->value->def &&
        g_hash_table_contains(loop->inside, operand->value->def))
      return false;
  }
  return true;
}

/* Ops that always run in an iteration and do not change move before the loop; order is kept. Divisions that a
 * guard may protect give some value on the hardware and never trap, so that moving them is safe. */
static void hoist(Loop *loop, IrRegion *region)
{
  for (IrOp *op = region->first, *next; op != NULL; op = next) {
    next = op->next;
    if (!is_integer_arithmetic(op) || form_of_value(loop, op->results[0]).kind != INVARIANT) continue;
    if (!has_operands(loop, op)) continue;
    ir_op_move(op, loop->op->parent, loop->op);
    g_hash_table_remove(loop->inside, op);
  }
}

/* ---- Induction ---- */

/* The chain that computes a value, copied before the loop with the index as given. */
static IrExpr *copy_chain(Loop *loop, IrBuilder *builder, IrValue *value, GHashTable *map)
{
  IrExpr *done = g_hash_table_lookup(map, value);
  if (done != NULL) return done;
  if (value->def == NULL || value->variable || !g_hash_table_contains(loop->inside, value->def))
    return ir_value(loop->module, value);
  for (unsigned i = 0; i < value->def->n_operands; i++) {
    const IrExpr *operand = value->def->operands[i];
    if (operand->kind == EXPR_VALUE)
      g_hash_table_insert(map, operand->value, copy_chain(loop, builder, operand->value, map));
  }
  ir_op_clone(builder, value->def, map);
  return g_hash_table_lookup(map, value);
}

static IrExpr *chain_at(Loop *loop, IrBuilder *builder, IrValue *value, IrExpr *index)
{
  g_autoptr(GHashTable) map = g_hash_table_new(NULL, NULL);
  g_hash_table_insert(map, loop->index, index);
  return copy_chain(loop, builder, value, map);
}

static IrExpr *loop_step(const Loop *loop)
{
  return loop->op->n_operands > 2 ? loop->op->operands[2] : ir_int(loop->module, 1);
}

/* What the address gains an iteration: a constant if the factor and the step are, else computed before the
 * loop. */
static IrExpr *gain(Loop *loop, IrBuilder *before, IrValue *value, Form form, IrExpr *start)
{
  int64_t step;
  IrModule *module = loop->module;
  if (form.known && ir_expr_is_int(loop_step(loop), &step)) return ir_int(module, form.factor * step);
  IrExpr *second =
      ir_emit_value(before, OP_ADD, loop->index->type, "second", 2, loop->op->operands[0], loop_step(loop));
  IrExpr *next = chain_at(loop, before, value, second);
  return ir_emit_value(before, OP_SUB, value->type, "gain", 2, next, start);
}

static void induce(Loop *loop, IrValue *value, Form form)
{
  IrModule *module = loop->module;
  IrBuilder before = ir_builder_before(loop->op), end = ir_builder_at_end(loop->op->regions[0]);
  before.mark = end.mark = value->def->mark;
  IrExpr *start = chain_at(loop, &before, value, loop->op->operands[0]);
  IrExpr *by = gain(loop, &before, value, form, start);
  IrOp *declare = ir_emit(&before, OP_VAR, 1, start);
  IrValue *variable = ir_result(declare, value->name, value->type);
  variable->variable = true;
  IrExpr *stepped = ir_emit_value(&end, OP_ADD, value->type, "next", 2, ir_value(module, variable), by);
  ir_emit(&end, OP_SET, 2, ir_value(module, variable), stepped);
  ir_replace_uses(loop->op->regions[0], value, ir_value(module, variable));
  /* What is made from the variable now changes by itself: earlier findings about it no longer hold. */
  g_hash_table_add(loop->written, variable);
  g_hash_table_remove_all(loop->forms);
  loop->count++;
}

static bool adds_invariant(Loop *loop, const IrOp *op, unsigned affine)
{
  for (unsigned i = 0; i < op->n_operands; i++)
    if (form_of(loop, op->operands[i]).kind != (i == affine ? AFFINE : INVARIANT)) return false;
  return true;
}

/* Addresses often differ by what does not change: base + i * row. One instruction each makes them from a
 * common base, so that only the base is induced: the last sum that is affine for another reason than its
 * affine addend. */
static IrValue *common_base(Loop *loop, IrValue *value)
{
  for (;;) {
    const IrOp *op = value->def;
    unsigned affine = UINT_MAX;
    if (op == NULL || !g_hash_table_contains(loop->inside, op)) return value;
    if (op->code == OP_ADD)
      affine = adds_invariant(loop, op, 0) ? 0 : adds_invariant(loop, op, 1) ? 1 : UINT_MAX;
    if (op->code == OP_MAD_WIDE || op->code == OP_FMA) affine = adds_invariant(loop, op, 2) ? 2 : UINT_MAX;
    if (affine == UINT_MAX || op->operands[affine]->kind != EXPR_VALUE) return value;
    value = op->operands[affine]->value;
  }
}

static void induce_address(Loop *loop, const IrExpr *expr)
{
  int64_t offset;
  IrValue *base = ir_address_base(expr, &offset);
  if (base == NULL || base->variable || form_of_value(loop, base).kind != AFFINE) return;
  base = common_base(loop, base);
  Form form = form_of_value(loop, base);
  if (base == loop->index || form.cost < 2 || loop->count == loop->most) return;
  if (g_hash_table_add(loop->induced, base)) induce(loop, base, form);
}

static void induce_op(IrOp *op, void *data)
{
  for (unsigned i = 0; i < op->n_operands; i++)
    if (ir_operand_is_address(op, i)) induce_address(data, op->operands[i]);
}

static void collect_inside(IrOp *op, void *data)
{
  g_hash_table_add(data, op);
}

static void do_loop(IrModule *module, IrOp *op, unsigned most)
{
  g_autoptr(GHashTable) inside = g_hash_table_new(NULL, NULL);
  g_autoptr(GHashTable) written = ir_written_variables(op->regions[0]);
  g_autoptr(GHashTable) forms = g_hash_table_new(NULL, NULL);
  g_autoptr(GHashTable) induced = g_hash_table_new(NULL, NULL);
  ir_region_visit(op->regions[0], collect_inside, inside);
  Loop loop = {.module = module,
               .op = op,
               .inside = inside,
               .written = written,
               .forms = forms,
               .induced = induced,
               .most = most};
  loop.index = op->code == OP_FOR ? op->regions[0]->arguments[0] : NULL;
  hoist(&loop, op->regions[0]);
  g_hash_table_remove_all(forms);
  if (op->code == OP_FOR) ir_region_visit(op->regions[0], induce_op, &loop);
}

/* Inner loops first, so that what they leave in front of themselves can leave the outer loop too. */
static void do_region(IrModule *module, IrRegion *region, unsigned most)
{
  for (IrOp *op = region->first; op != NULL; op = op->next) {
    for (unsigned i = 0; i < op->n_regions; i++)
      do_region(module, op->regions[i], most);
    if (op->code == OP_FOR || op->code == OP_LOOP) do_loop(module, op, most);
  }
}

bool pass_induce_addresses(IrModule *module, const IrPassContext *context, GError **error)
{
  for (unsigned i = 0; i < module->n_functions; i++)
    do_region(module, module->functions[i]->body, context->gpu->model->induced_addresses);
  return true;
}
