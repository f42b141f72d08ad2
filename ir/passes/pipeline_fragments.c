/* pipeline_fragments: operands of warp MMAs are loaded a step of k ahead of their product.
 *
 * needs  STAGED without waits: a loop that meets, copies ahead and multiplies
 * gives  the loop `pipelined`, ahead: fragments are `get`s of their own, those of step k + 1 in front of the products of
 *        step k; the barrier and the first step's fragments are stage 0, everything else stage 1, so that they stand in
 *        front of the last products of the iteration before; copies, where it is known when they end, in an `if` by which
 *        split_loops gives the last slots a loop without them. Loops that plain copies fill, or with other ops in them,
 *        stay as they are
 * breaks nothing
 *
 * So products always have something to do while fragments arrive, also across the barrier. A slot is filled
 * again behind the barrier of the iteration after the one that read it, as before: all its fragments have
 * been loaded in front of that barrier. Where copies do not end behind the last iteration the first fragments of one more
 * slot are loaded and not used; it holds zeros. (Software pipelining: Lam, "Software pipelining: an effective
 * scheduling technique for VLIW machines", PLDI 1988.) */
#include "ir/facts.h"
#include "ir/mechanism.h"
#include "ir/pass.h"

typedef struct Pipeline {
  const IrPassContext *context;
  IrModule *module;
  IrOp *loop;
  IrOp *sync, *product, *advance;    /* of the body; `advance` moves the cursor that the product reads by */
  GPtrArray *copies;                 /* IrOp*: what fills the slot ahead: copies, advance */
  int64_t m, n, depth, step;         /* extents of the product; k of one instruction */
  const Layout *a_layout, *b_layout; /* of the fragments of one step */
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

/* sync, { copy | advance of another cursor }, mma, advance: nothing else. */
static bool match_body(Pipeline *pipeline)
{
  IrOp *op = pipeline->loop->regions[0]->first;
  if (!op || op->code != OP_SYNC || ir_attribute(op, ATTR_ID)) return false;
  pipeline->sync = op;
  for (op = op->next; op && op->code != OP_MMA; op = op->next) {
    if (!ir_is_grouped_copy(op) && op->code != OP_ADVANCE) return false;
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
  int64_t wm, wn, part = ir_tile_extent(acc, 1);
  if (a.kind != TYPE_TILE || b.kind != TYPE_TILE || number_bits(a.element) != number_bits(b.element) ||
      number_bytes_of(a.element, 1) > 4 || !warps || warps->n < 2 || !ir_expr_is_int(warps->items[0], &wm) ||
      !ir_expr_is_int(warps->items[1], &wn) || (warps->n > 2 && !ir_expr_is_int(warps->items[2], &part)))
    return false;
  pipeline->m = ir_tile_extent(acc, 0);
  pipeline->n = ir_tile_extent(acc, 1);
  pipeline->depth = ir_tile_extent(&a, 1);
  pipeline->step = number_elements(a.element, 32);
  if (pipeline->depth % pipeline->step || pipeline->depth < 2 * pipeline->step) return false;
  Arena *arena = pipeline->module->arena;
  pipeline->a_layout = layout_mma_a(arena, a.element, (unsigned)pipeline->m, (unsigned)pipeline->step,
                                    (unsigned)wm, (unsigned)wn);
  pipeline->b_layout = layout_mma_b_parts(arena, b.element, (unsigned)pipeline->step, (unsigned)pipeline->n,
                                          (unsigned)wm, (unsigned)wn, (unsigned)part);
  return pipeline->a_layout && pipeline->b_layout;
}

/* ---- The loop, with stages ---- */

static void set_stage(IrOp *op, IrModule *module, int stage)
{
  ir_attribute_set(op, ATTR_STAGE, ir_int(module, stage));
}

/* Step `s` of operand `which` (1: A, 2: B), loaded from the slot under the cursor. */
static IrExpr *load(const Pipeline *pipeline, unsigned which, int64_t s)
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
  IrBuilder builder = ir_builder_before(pipeline->product);
  builder.mark = pipeline->product->mark;
  IrOp *get = ir_emit(&builder, OP_GET, 1, part);
  ir_mechanism_set(get, ir_mechanism_first(module, MECHANISM_GET));
  set_stage(get, module, s ? 1 : 0);
  return ir_value(module, ir_result(get, s ? "fragments" : is_a ? "a" : "b", type));
}

static IrOp *multiply(const Pipeline *pipeline)
{
  IrOp *product = pipeline->product;
  IrBuilder builder = ir_builder_before(product);
  builder.mark = product->mark;
  IrOp *op = ir_emit(&builder, OP_MMA, 3, product->operands[0], product->operands[1], product->operands[2]);
  for (unsigned i = 0; i < product->n_attributes; i++)
    ir_attribute_set(op, product->attributes[i].key, product->attributes[i].value);
  set_stage(op, pipeline->module, 1);
  return op;
}

/* What fills the slot ahead; where copies are known to end, as long as they last. */
static void copy_ahead(const Pipeline *pipeline, IrExpr *end)
{
  IrModule *module = pipeline->module;
  const IrValue *index = pipeline->loop->regions[0]->arguments[0];
  IrOp *lasts = NULL;
  for (unsigned i = 0; i < pipeline->copies->len; i++) {
    IrOp *op = pipeline->copies->pdata[i];
    if (end && (!lasts || (lasts->regions[0]->last->code == OP_COPY) != (op->code == OP_COPY))) {
      IrBuilder builder = ir_builder_before(pipeline->product);
      builder.mark = op->mark;
      lasts = ir_emit(&builder, OP_IF, 1,
                      ir_binary(module, OPERATOR_LT, ir_value(module, (IrValue *)index), end));
      ir_attribute_set(lasts, ATTR_SPLIT, NULL);
      set_stage(lasts, module, 1);
      ir_region_add(lasts);
    }
    if (!end) set_stage(op, module, 1);
    ir_op_move(op, end ? lasts->regions[0] : pipeline->product->parent, end ? NULL : pipeline->product);
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

/* Each step's fragments stand in front of the product of the step before it; the first ones, behind the barrier, in front of
 * the product that ends the iteration before. */
static void set_stages(Pipeline *pipeline)
{
  IrModule *module = pipeline->module;
  IrOp *loop = pipeline->loop, *product = pipeline->product, *first = NULL, *last = NULL;
  int64_t steps = pipeline->depth / pipeline->step;
  IrExpr *end = end_of_copies(pipeline), *a = NULL, *b = NULL;
  for (int64_t s = 0; s < steps; s++) {
    IrExpr *next_a = NULL, *next_b = NULL;
    if (s + 1 < steps) {
      next_a = load(pipeline, 1, s + 1);
      next_b = load(pipeline, 2, s + 1);
    } else {
      set_stage(pipeline->advance, module, 1);
      set_stage(pipeline->sync, module, 0);
      ir_op_move(pipeline->advance, product->parent, product);
      ir_op_move(pipeline->sync, product->parent, product);
      first->operands[1] = load(pipeline, 1, 0);
      first->operands[2] = load(pipeline, 2, 0);
    }
    if (s == 0) copy_ahead(pipeline, end);
    last = multiply(pipeline);
    if (s == 0) first = last;
    if (s) last->operands[1] = a;
    if (s) last->operands[2] = b;
    a = next_a;
    b = next_b;
  }
  ir_op_remove(product);
  ir_attribute_set(loop, ATTR_PIPELINED, ir_int(module, 1));
  ir_attribute_set(loop, ATTR_AHEAD, ir_name(module, end ? "guarded" : "always"));
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
    if (match_body(&pipeline) && find_fragments(&pipeline)) set_stages(&pipeline);
  }
}

bool pass_pipeline_fragments(IrModule *module, const IrPassContext *context, GError **error)
{
  IrFunction *kernel = ir_kernel(module);
  if (kernel) visit_region(module, context, kernel->body);
  return true;
}
