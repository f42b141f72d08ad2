/* pipeline_fragments: operands of warp MMAs are loaded a step of k ahead of their product.
 *
 * needs  STAGED from derive_waits: a loop that waits for its slot, meets, copies ahead and multiplies
 * gives  the loop turned round: fragments are `get`s of their own, those of step k + 1 in front of the
 *        products of step k; the wait and the barrier for the next slot stand in front of the last step's
 *        products, and behind them the next slot's first fragments are loaded. Loops that plain copies
 *        fill, or with other ops in them, stay as they are
 * breaks nothing
 *
 * So products always have something to do while fragments arrive, also across the barrier. A slot is filled
 * again behind the barrier of the iteration after the one that read it, as before: all its fragments have
 * been loaded in front of that barrier. Behind the last iteration the first fragments of one more slot are
 * loaded and not used; it holds zeros. (Software pipelining: Lam, "Software pipelining: an effective
 * scheduling technique for VLIW machines", PLDI 1988.) */
#include "ir/facts.h"
#include "ir/mechanism.h"
#include "ir/pass.h"

typedef struct Pipeline {
  const IrPassContext *context;
  IrModule *module;
  IrOp *loop;
  IrOp *wait, *sync, *product,
      *advance;                      /* of the body; `advance` moves the cursor that the product reads by */
  GPtrArray *copies;                 /* IrOp*: what fills the slot ahead: copies, commit, advance */
  int64_t m, n, depth, step;         /* extents of the product; k of one instruction */
  const Layout *a_layout, *b_layout; /* of the fragments of one step */
  IrExpr *a, *b;                     /* variables: the first fragments of the next slot */
} Pipeline;

/* ---- Which loops ---- */

static bool is_slot(const IrExpr *access)
{
  return access->kind == EXPR_INDEX && access->n == 2 && access->items[0]->kind == EXPR_FIELD;
}

static bool same_cursor(const IrExpr *a, const IrExpr *b)
{
  return a->kind == EXPR_VALUE && b->kind == EXPR_VALUE && a->value == b->value;
}

/* A product that a warp takes from fragments in its registers and has when the next instruction runs. */
static bool takes_fragments(const IrOp *product)
{
  const Mechanism *mechanism = ir_mechanism_of(product);
  return mechanism && mechanism->accumulator == ACCUMULATOR_WARP && !mechanism_is_asynchronous(mechanism);
}

/* wait, sync, { copy | commit | advance of another cursor }, mma, advance: nothing else. */
static bool match_body(Pipeline *pipeline)
{
  IrOp *op = pipeline->loop->regions[0]->first;
  if (!op || op->code != OP_WAIT_GROUP || !op->next || op->next->code != OP_SYNC) return false;
  pipeline->wait = op;
  pipeline->sync = op->next;
  for (op = op->next->next; op && op->code != OP_MMA; op = op->next) {
    bool copy = ir_is_grouped_copy(op);
    if (!copy && op->code != OP_COMMIT && op->code != OP_ADVANCE) return false;
    g_ptr_array_add(pipeline->copies, op);
  }
  if (!op || !takes_fragments(op) || ir_attribute(op, ATTR_FIRST) || !is_slot(op->operands[1]) ||
      !is_slot(op->operands[2]))
    return false;
  pipeline->product = op;
  pipeline->advance = op->next;
  const IrExpr *cursor = op->operands[1]->items[1];
  return op->next && op->next->code == OP_ADVANCE && !op->next->next &&
         same_cursor(op->next->operands[0], cursor) && same_cursor(op->operands[2]->items[1], cursor);
}

static bool find_fragments(Pipeline *pipeline)
{
  const IrFunction *kernel = pipeline->loop->parent->function;
  IrOp *product = pipeline->product;
  const IrType *acc = &product->operands[0]->value->type;
  IrType a = ir_expr_type(kernel, product->operands[1]), b = ir_expr_type(kernel, product->operands[2]);
  const IrExpr *warps = ir_attribute_value(product, ATTR_WARPS);
  int64_t wm, wn;
  if (a.kind != TYPE_TILE || b.kind != TYPE_TILE || number_bytes(a.element) != number_bytes(b.element) ||
      number_bytes(a.element) > 4 || !warps || !ir_expr_is_int(warps->items[0], &wm) ||
      !ir_expr_is_int(warps->items[1], &wn))
    return false;
  pipeline->m = ir_tile_extent(acc, 0);
  pipeline->n = ir_tile_extent(acc, 1);
  pipeline->depth = ir_tile_extent(&a, 1);
  pipeline->step = number_elements(a.element, 32);
  if (pipeline->depth % pipeline->step || pipeline->depth < 2 * pipeline->step) return false;
  Arena *arena = pipeline->module->arena;
  pipeline->a_layout = layout_mma_a(arena, a.element, (unsigned)pipeline->m, (unsigned)pipeline->step,
                                    (unsigned)wm, (unsigned)wn);
  pipeline->b_layout = layout_mma_b(arena, b.element, (unsigned)pipeline->step, (unsigned)pipeline->n,
                                    (unsigned)wm, (unsigned)wn);
  return pipeline->a_layout && pipeline->b_layout;
}

/* ---- The loop, turned round ---- */

/* Step `s` of operand `which` (1: A, 2: B), loaded from the slot under the cursor. */
static IrExpr *load(const Pipeline *pipeline, IrBuilder *builder, unsigned which, int64_t s)
{
  IrModule *module = pipeline->module;
  IrExpr *slot = pipeline->product->operands[which];
  IrType whole = ir_expr_type(pipeline->loop->parent->function, slot);
  bool is_a = which == 1;
  IrExpr *all = ir_range(module, ir_int(module, 0), ir_int(module, is_a ? pipeline->m : pipeline->n));
  IrExpr *k = ir_range(module, ir_int(module, s * pipeline->step), ir_int(module, (s + 1) * pipeline->step));
  int64_t extent[2] = {is_a ? pipeline->m : pipeline->step, is_a ? pipeline->step : pipeline->n};
  IrType type = ir_tile(module, whole.element, 2, extent, is_a ? pipeline->a_layout : pipeline->b_layout);
  IrExpr *part = ir_index(module, slot, 2, is_a ? all : k, is_a ? k : all);
  IrOp *get = ir_emit(builder, OP_GET, 1, part);
  ir_mechanism_set(get, ir_mechanism_first(module, MECHANISM_GET));
  return ir_value(module, ir_result(get, is_a ? "a" : "b", type));
}

static IrExpr *declare(const Pipeline *pipeline, IrBuilder *builder, IrExpr *start)
{
  IrOp *op = ir_emit(builder, OP_VAR, 1, start);
  IrValue *value = ir_result(op, start->value->name, start->value->type);
  value->variable = true;
  return ir_value(pipeline->module, value);
}

/* The slot at hand is filled and everyone has left the one before it. */
static void await_slot(const Pipeline *pipeline, IrBuilder *builder)
{
  IrModule *module = pipeline->module;
  IrOp *wait = ir_emit(builder, OP_WAIT_GROUP, 1, pipeline->wait->operands[0]);
  ir_attribute_set(wait, ATTR_PENDING, ir_int(module, ir_attribute_int(pipeline->wait, ATTR_PENDING, 0)));
  ir_emit(builder, OP_SYNC, 0);
}

static void multiply(const Pipeline *pipeline, IrBuilder *builder, IrExpr *a, IrExpr *b)
{
  const IrOp *product = pipeline->product;
  IrOp *op = ir_emit(builder, OP_MMA, 3, product->operands[0], a, b);
  for (unsigned i = 0; i < product->n_attributes; i++)
    ir_attribute_set(op, product->attributes[i].key, product->attributes[i].value);
}

/* What fills the slot ahead; without copies only the group is closed, so that the waits count alike. */
static void copy_ahead(const Pipeline *pipeline, IrBuilder *builder, IrExpr *index, bool copies)
{
  g_autoptr(GHashTable) map = g_hash_table_new(NULL, NULL);
  g_hash_table_insert(map, pipeline->loop->regions[0]->arguments[0], index);
  for (unsigned i = 0; i < pipeline->copies->len; i++) {
    const IrOp *op = pipeline->copies->pdata[i];
    if (copies || op->code == OP_COMMIT) ir_op_clone(builder, op, map);
  }
}

/* The next slot's first fragments, into the variables; where no copies run ahead only if there is a next
 * slot. */
static void load_next(const Pipeline *pipeline, IrBuilder *builder, IrExpr *index, bool copies)
{
  IrModule *module = pipeline->module;
  const IrExpr *step = pipeline->loop->operands[2];
  IrExpr *next = ir_binary(module, OPERATOR_ADD, index, (IrExpr *)step);
  IrBuilder inner = *builder;
  if (!copies) {
    IrOp *more =
        ir_emit(builder, OP_IF, 1, ir_binary(module, OPERATOR_LT, next, pipeline->loop->operands[1]));
    inner = ir_builder_at_end(ir_region_add(more));
    inner.mark = builder->mark;
  }
  ir_emit(&inner, OP_ADVANCE, 1, pipeline->advance->operands[0]);
  await_slot(pipeline, &inner);
  IrExpr *a = load(pipeline, &inner, 1, 0), *b = load(pipeline, &inner, 2, 0);
  ir_emit(&inner, OP_SET, 2, pipeline->a, a);
  ir_emit(&inner, OP_SET, 2, pipeline->b, b);
  if (copies) *builder = inner;
}

/* The variables are free from the second step on: they hold what the first one multiplies. */
static void emit_loop(const Pipeline *pipeline, IrBuilder *builder, IrExpr *low, IrExpr *high, bool copies)
{
  IrModule *module = pipeline->module;
  int64_t steps = pipeline->depth / pipeline->step;
  IrOp *loop = ir_emit(builder, OP_FOR, 3, low, high, pipeline->loop->operands[2]);
  IrRegion *body = ir_region_add(loop);
  const IrValue *old = pipeline->loop->regions[0]->arguments[0];
  IrExpr *index = ir_value(module, ir_argument_add(body, old->name, old->type));
  IrExpr *a = pipeline->a, *b = pipeline->b;
  IrBuilder inner = ir_builder_at_end(body);
  for (int64_t s = 0; s < steps; s++) {
    IrExpr *next_a = NULL, *next_b = NULL;
    inner.mark = pipeline->product->mark;
    if (s + 1 == steps) {
      load_next(pipeline, &inner, index, copies);
    } else {
      next_a = load(pipeline, &inner, 1, s + 1);
      next_b = load(pipeline, &inner, 2, s + 1);
    }
    if (s == 0) copy_ahead(pipeline, &inner, index, copies);
    inner.mark = pipeline->product->mark;
    multiply(pipeline, &inner, a, b);
    a = next_a;
    b = next_b;
  }
}

/* How far ahead copies run, in elements of k: `%k + AHEAD` in the tensors' corners; 0 if it does not show. */
static int64_t distance_ahead(const Pipeline *pipeline)
{
  const IrValue *index = pipeline->loop->regions[0]->arguments[0];
  int64_t ahead = 0, here;
  for (unsigned i = 0; i < pipeline->copies->len; i++) {
    const IrOp *op = pipeline->copies->pdata[i];
    for (unsigned d = 1; op->code == OP_COPY && d < op->operands[1]->n; d++) {
      const IrExpr *at = op->operands[1]->items[d];
      bool sum = at->kind == EXPR_BINARY && at->operator_ == OPERATOR_ADD &&
                 at->items[0]->kind == EXPR_VALUE && at->items[0]->value == index &&
                 ir_expr_is_int(at->items[1], &here);
      if (sum && (!ahead || ahead == here)) ahead = here;
    }
  }
  return ahead;
}

/* Where the copies stop: behind it they would lie beyond the end. NULL if the loop is not known to go over
 * whole slots: then the last copies have to be cut, chunk by chunk. */
static IrExpr *end_of_copies(const Pipeline *pipeline)
{
  const IrOp *loop = pipeline->loop;
  const IrFunction *kernel = loop->parent->function;
  IrModule *module = pipeline->module;
  int64_t low, high, step, ahead = distance_ahead(pipeline);
  if (!ahead || loop->n_operands < 3 || !ir_expr_is_int(loop->operands[2], &step) || step < 1 ||
      step > 1024 || (step & (step - 1)) ||
      ir_known_multiple(kernel, loop->operands[0], (unsigned)step) % step ||
      ir_known_multiple(kernel, loop->operands[1], (unsigned)step) % step)
    return NULL;
  if (ir_expr_is_int(loop->operands[0], &low) && ir_expr_is_int(loop->operands[1], &high))
    return ir_int(module, MAX(low, high - ahead));
  return ir_binary(module, OPERATOR_SUB, loop->operands[1], ir_int(module, ahead));
}

static void turn_round(Pipeline *pipeline)
{
  IrModule *module = pipeline->module;
  IrOp *loop = pipeline->loop;
  IrBuilder builder = ir_builder_before(loop);
  builder.mark = loop->mark;
  await_slot(pipeline, &builder);
  pipeline->a = declare(pipeline, &builder, load(pipeline, &builder, 1, 0));
  pipeline->b = declare(pipeline, &builder, load(pipeline, &builder, 2, 0));
  IrExpr *end = end_of_copies(pipeline), *low = loop->operands[0];
  int64_t constant;
  if (!end) {
    emit_loop(pipeline, &builder, low, loop->operands[1], true);
  } else {
    emit_loop(pipeline, &builder, low, end, true);
    builder.mark = loop->mark;
    if (!ir_expr_is_int(end, &constant)) end = ir_call(module, "max", 2, end, low);
    emit_loop(pipeline, &builder, end, loop->operands[1], false);
  }
  ir_op_remove(loop);
  ir_remark(pipeline->context, "fragments: loaded a step of %d ahead of their products%s",
            (int)pipeline->step, end ? "; the last slots in a loop without copies" : "");
}

static void visit_region(IrModule *module, const IrPassContext *context, IrRegion *region)
{
  for (IrOp *op = region->first, *next; op; op = next) {
    next = op->next;
    for (unsigned i = 0; i < op->n_regions; i++)
      visit_region(module, context, op->regions[i]);
    if (op->code != OP_FOR) continue;
    g_autoptr(GPtrArray) copies = g_ptr_array_new();
    Pipeline pipeline = {.context = context, .module = module, .loop = op, .copies = copies};
    if (match_body(&pipeline) && find_fragments(&pipeline)) turn_round(&pipeline);
  }
}

bool pass_pipeline_fragments(IrModule *module, const IrPassContext *context, GError **error)
{
  IrFunction *kernel = ir_kernel(module);
  if (kernel) visit_region(module, context, kernel->body);
  return true;
}
