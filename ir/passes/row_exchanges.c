/* Reductions of one phase that share an exchange: those of tiles of one shape, in a kernel that has several, become one of a
 * tuple, whose sub-kernel does what theirs do side by side. So warps, or blocks, meet once for all of them.
 *
 * Operations are sorted by phase for that, a phase's reductions last: what a reduction needs comes before, what needs it in
 * a later phase; and a variable is written behind what read it before. Where a tensor is both read and written the order is the
 * text's. */
#include "ir/facts.h"
#include "ir/passes/combiner.h"
#include "ir/passes/rows.h"
#include <string.h>

typedef struct {
  IrOp *op;
  unsigned phase;
  bool reduces;
} Step;

static bool reduces_row(const IrOp *op)
{
  if (op->code != OP_REDUCE || ir_attribute(op, ATTR_EVERY)) return false;
  const IrType *type = &op->results[0]->type;
  return ir_attribute_int(op, ATTR_DIM, -1) == (int64_t)type->rank - 1;
}

/* The variable that the operation writes; NULL: none. */
static const IrValue *updated(const IrOp *op)
{
  bool updates = ir_op_effects(op->code) & EFFECT_UPDATE && op->operands[0]->kind == EXPR_VALUE;
  return updates ? op->operands[0]->value : NULL;
}

static bool follows(IrOp *op, IrOp *before)
{
  const IrValue *now = updated(op), *then = updated(before);
  bool depends = (now && ir_op_uses(before, now)) || (then && ir_op_uses(op, then));
  for (unsigned r = 0; r < before->n_results && !depends; r++)
    depends = ir_op_uses(op, before->results[r]);
  return depends;
}

static GArray *steps_of(IrRegion *body)
{
  GArray *steps = g_array_new(false, false, sizeof(Step));
  for (IrOp *op = body->first; op; op = op->next) {
    Step step = {op, 0, reduces_row(op)};
    for (unsigned i = 0; i < steps->len; i++) {
      const Step *before = &g_array_index(steps, Step, i);
      if (follows(op, before->op)) step.phase = MAX(step.phase, before->phase + before->reduces);
    }
    g_array_append_val(steps, step);
  }
  return steps;
}

static bool widens(const IrOp *op)
{
  if (op->code != OP_CAST || op->operands[0]->kind != EXPR_VALUE || op->operands[0]->value->variable)
    return false;
  return number_bits(op->results[0]->type.element) > number_bits(op->operands[0]->value->type.element);
}

/* What takes more registers than what it is computed from waits for the first phase that uses it. */
static void delay_casts(GArray *steps)
{
  for (unsigned i = steps->len; i-- > 0;) {
    Step *step = &g_array_index(steps, Step, i);
    unsigned first = G_MAXUINT;
    if (!widens(step->op)) continue;
    for (unsigned j = i + 1; j < steps->len; j++) {
      const Step *user = &g_array_index(steps, Step, j);
      if (ir_op_uses(user->op, step->op->results[0])) first = MIN(first, user->phase);
    }
    if (first != G_MAXUINT) step->phase = first;
  }
}

/* ---- May they share one? ---- */

static bool alike(const IrFunction *kernel, const IrOp *a, const IrOp *b)
{
  IrType x = ir_expr_type(kernel, a->operands[0]), y = ir_expr_type(kernel, b->operands[0]);
  bool same =
      x.rank == y.rank && ir_expr_equal(ir_attribute_value(a, ATTR_DIM), ir_attribute_value(b, ATTR_DIM));
  for (unsigned d = 0; same && d < x.rank; d++)
    same = ir_expr_equal(x.dims[d], y.dims[d]);
  const IrExpr *scope = ir_attribute_value(a, ATTR_SCOPE), *other = ir_attribute_value(b, ATTR_SCOPE);
  same = same && (scope && other ? ir_expr_equal(scope, other) : !scope && !other);
  for (unsigned i = 0; same && i < a->n_results; i++)
    same = a->results[i]->type.element == NUMBER_F32;
  for (unsigned i = 0; same && i < b->n_results; i++)
    same = b->results[i]->type.element == NUMBER_F32;
  return same;
}

typedef struct {
  GHashTable *read, *written;
} Tensors;

static void note_tensor(IrOp *op, void *data)
{
  Tensors *tensors = data;
  unsigned effects = ir_op_effects(op->code);
  const IrExpr *base = op->n_operands ? ir_access_base(op->operands[0]) : NULL;
  if (!base || base->kind != EXPR_VALUE || base->value->type.kind != TYPE_TENSOR) return;
  if (effects & EFFECT_READ) g_hash_table_add(tensors->read, base->value);
  if (effects & EFFECT_WRITE) g_hash_table_add(tensors->written, base->value);
}

/* Is the order of accesses free? */
static bool may_sort(IrRegion *body)
{
  g_autoptr(GHashTable) read = g_hash_table_new(NULL, NULL);
  g_autoptr(GHashTable) written = g_hash_table_new(NULL, NULL);
  Tensors tensors = {read, written};
  bool free = true;
  ir_region_visit(body, note_tensor, &tensors);
  GHashTableIter iterator;
  gpointer tensor;
  g_hash_table_iter_init(&iterator, read);
  while (g_hash_table_iter_next(&iterator, &tensor, NULL))
    free &= !g_hash_table_contains(written, tensor);
  for (const IrOp *op = body->first; op; op = op->next)
    free &= !op->n_regions;
  return free;
}

/* ---- One of a tuple ---- */

static const struct {
  const char *name;
  IrOpcode code;
} named[] = {{"sum", OP_ADD}, {"prod", OP_MUL}, {"max", OP_MAX}, {"min", OP_MIN}};

/* What a reduction does to elements `first` and so on of both sides. */
static void write_part(IrBuilder *builder, const IrFunction *all, const IrOp *reduce, unsigned first,
                       unsigned n, IrExpr **out)
{
  IrModule *module = builder->module;
  const IrExpr *with = ir_attribute_value(reduce, ATTR_WITH);
  const IrFunction *combiner = with->kind == EXPR_SYMBOL ? ir_function_find(module, with->name) : NULL;
  g_autoptr(GHashTable) map = g_hash_table_new(NULL, NULL);
  for (unsigned i = 0; combiner && i < reduce->n_results; i++) {
    g_hash_table_insert(map, combiner->parameters[i], ir_value(module, all->parameters[first + i]));
    g_hash_table_insert(map, combiner->parameters[reduce->n_results + i],
                        ir_value(module, all->parameters[n + first + i]));
  }
  for (const IrOp *op = combiner ? combiner->body->first : NULL; op && op->code != OP_RETURN; op = op->next)
    ir_op_clone(builder, op, map);
  for (unsigned i = 0; combiner && i < reduce->n_results; i++) {
    IrExpr *value = combiner->body->last->operands[i];
    out[first + i] = value->kind == EXPR_VALUE ? g_hash_table_lookup(map, value->value) : value;
  }
  for (unsigned i = 0; !combiner && i < G_N_ELEMENTS(named); i++) {
    if (strcmp(with->name, named[i].name)) continue;
    out[first] =
        ir_emit_value(builder, named[i].code, ir_scalar(NUMBER_F32), named[i].name, 2,
                      ir_value(module, all->parameters[first]), ir_value(module, all->parameters[n + first]));
    if (named[i].code == OP_MAX || named[i].code == OP_MIN)
      ir_attribute_set(out[first]->value->def, ATTR_NAN, NULL);
  }
}

static const char *write_combiner(IrModule *module, IrOp *const *reductions, unsigned n_reductions,
                                  unsigned n)
{
  const char *name = "together";
  for (unsigned number = 1; ir_function_find(module, name); number++)
    name = arena_printf(module->arena, "together%u", number);
  IrFunction *function = ir_function_new(module, name, false);
  function->mark = reductions[0]->mark;
  for (unsigned i = 0; i < 2 * n; i++)
    ir_parameter_new(function, i < n ? "a" : "b", ir_scalar(NUMBER_F32));
  function->n_results = n;
  function->results = arena_new_array(module->arena, IrType, n);
  IrExpr *out[COMBINER_MAX];
  IrBuilder builder = ir_builder_at_end(function->body);
  for (unsigned i = 0, first = 0; i < n_reductions; first += reductions[i++]->n_results) {
    builder.mark = reductions[i]->mark;
    write_part(&builder, function, reductions[i], first, n, out);
  }
  for (unsigned i = 0; i < n; i++)
    function->results[i] = ir_scalar(NUMBER_F32);
  ir_emit_array(&builder, OP_RETURN, n, out);
  ir_name_values(function);
  return name;
}

/* The last of them becomes all. */
static void merge(IrModule *module, IrOp *const *reductions, unsigned n_reductions, unsigned n)
{
  IrOp *last = reductions[n_reductions - 1];
  const char *name = write_combiner(module, reductions, n_reductions, n);
  IrExpr **operands = arena_new_array(module->arena, IrExpr *, n);
  IrValue **results = arena_new_array(module->arena, IrValue *, n);
  for (unsigned i = 0, at = 0; i < n_reductions; i++)
    for (unsigned j = 0; j < reductions[i]->n_results; j++, at++) {
      operands[at] = reductions[i]->operands[j];
      results[at] = reductions[i]->results[j];
    }
  for (unsigned i = 0; i + 1 < n_reductions; i++)
    ir_op_remove(reductions[i]);
  for (unsigned i = 0; i < n; i++)
    results[i]->def = last;
  last->operands = operands;
  last->results = results;
  last->n_operands = last->n_results = n;
  ir_attribute_set(last, ATTR_WITH, ir_symbol(module, name));
}

/* The reductions of a phase that are like one of them, it first; how many values they combine. Those that stand behind one
 * another, unless operations may be sorted. */
static unsigned gather(const Rows *rows, const GArray *steps, unsigned at, bool sorted, GPtrArray *group)
{
  const Step *first = &g_array_index(steps, Step, at);
  unsigned n = 0;
  for (unsigned i = at; i < steps->len; i++) {
    const Step *step = &g_array_index(steps, Step, i);
    if (!step->reduces && !sorted) break;
    if (!step->reduces || step->phase != first->phase || !alike(rows->kernel, first->op, step->op)) continue;
    if (n + step->op->n_results > COMBINER_MAX) break;
    n += step->op->n_results;
    g_ptr_array_add(group, step->op);
  }
  return n;
}

static void sort(IrRegion *body, GArray *steps)
{
  unsigned phases = 0;
  delay_casts(steps);
  for (unsigned i = 0; i < steps->len; i++)
    phases = MAX(phases, g_array_index(steps, Step, i).phase + 1);
  for (unsigned p = 0; p < phases; p++)
    for (unsigned reduces = 0; reduces < 2; reduces++)
      for (unsigned i = 0; i < steps->len; i++) {
        const Step *step = &g_array_index(steps, Step, i);
        if (step->phase == p && step->reduces == (reduces == 1)) ir_op_move(step->op, body, NULL);
      }
}

void rows_share_exchanges(Rows *rows)
{
  IrRegion *body = rows->body;
  g_autoptr(GArray) steps = steps_of(body);
  g_autoptr(GHashTable) merged = g_hash_table_new(NULL, NULL);
  bool free = may_sort(body), sorted = !free;
  for (unsigned i = 0; i < steps->len; i++) {
    const Step *step = &g_array_index(steps, Step, i);
    g_autoptr(GPtrArray) group = g_ptr_array_new();
    if (!step->reduces || g_hash_table_contains(merged, step->op)) continue;
    unsigned n = gather(rows, steps, i, free, group);
    if (group->len < 2) continue;
    if (!sorted) sort(body, steps);
    sorted = true;
    for (unsigned j = 0; j < group->len; j++)
      g_hash_table_add(merged, group->pdata[j]);
    merge(rows->module, (IrOp *const *)group->pdata, group->len, n);
    ir_remark(rows->context, "%u reductions of a phase share one exchange", group->len);
  }
}
