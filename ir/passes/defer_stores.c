/* defer_stores: a tile's results leave while the next tile's products run.
 *
 * needs  STAGED from stage_stores: a tile loop whose k loop keeps one group of products in flight, and behind
 *        it parts that go through shared memory to TMA
 * gives  the tile loop `pipelined`, behind: the parts are stage 1 and stand behind the first steps of the k loop, of which
 *        one is written out and the next few are in a loop of their own; everything else is stage 0
 * breaks nothing; tile loops of any other form stay as they are
 *
 * Between two tiles the tensor cores stood still until the last part had left: waits, barriers and matrix
 * stores, some 300 clocks a part. What they must wait for is only that results leave the accumulator's
 * registers. Rounded to 16 bits they take half of these, which a thread of a tile of 128 x 256 has: so the
 * last parts, as many as there are registers for, stay there while the first products of the next tile are in
 * flight. A step's products take longer than a part. Where instances take turns the other's products run
 * meanwhile, and nothing is deferred. */
#include "ir/facts.h"
#include "ir/mechanism.h"
#include "ir/pass.h"
#include "ir/passes/role_registers.h"
#include <math.h>
#include <string.h>

/* One part: put, copy, and the step of the ring. */
typedef struct {
  IrOp *put, *last;
} Part;

typedef struct {
  IrModule *module;
  IrOp *tiles, *steps;  /* the loop over tiles, and over k in it */
  int64_t step, trips;  /* of the k loop */
  GArray *parts;        /* Part: those that are deferred */
  unsigned accumulator; /* registers of a thread that products add to */
} Defer;

/* ---- Which loops, which parts ---- */

static bool is_wait(const IrOp *op, const char *what)
{
  const IrExpr *kind = op && op->code == OP_WAIT_GROUP ? op->operands[0] : NULL;
  return kind && kind->kind == EXPR_NAME && !strcmp(kind->name, what);
}

/* The part that begins with an op; false if none does. */
static bool match_part(IrOp *op, Part *part)
{
  const IrOp *copy = op->next;
  if (op->code != OP_PUT || !copy || copy->code != OP_COPY || !ir_is_engine_copy(copy)) return false;
  *part = (Part){op, copy->next};
  return part->last && part->last->code == OP_ADVANCE;
}

/* The k loop: known steps from 0, warpgroup MMAs of which one group stays in flight. */
static bool match_steps(Defer *defer, IrOp *loop)
{
  int64_t low, high;
  if (loop->n_operands < 3 || !ir_expr_is_int(loop->operands[0], &low) || low != 0 ||
      !ir_expr_is_int(loop->operands[1], &high) || !ir_expr_is_int(loop->operands[2], &defer->step) ||
      defer->step < 1)
    return false;
  defer->trips = (high + defer->step - 1) / defer->step;
  bool waits = false;
  for (IrOp *op = loop->regions[0]->first; op; op = op->next) {
    if (op->code == OP_FOR) return false;
    if (!is_wait(op, "products")) continue;
    if (waits || ir_attribute_int(op, ATTR_PENDING, 0) < 1) return false;
    waits = true;
  }
  return waits && defer->trips > 0;
}

static unsigned tile_registers(const IrValue *value)
{
  const IrType *type = &value->type;
  if (type->kind != TYPE_TILE || !type->layout) return 0;
  return (layout_registers(type->layout) * number_bits(type->element) + 31) / 32;
}

/* The tile loop: one k loop, a wait behind it, then parts; no turns. */
static bool match_tiles(Defer *defer, IrOp *tiles)
{
  bool drained = false;
  defer->tiles = tiles;
  if (tiles->n_operands < 3) return false;
  for (IrOp *op = tiles->regions[0]->first; op; op = op->next) {
    Part part;
    if (op->code == OP_TURN_WAIT || op->code == OP_TURN_PASS || op->code == OP_SKIP) return false;
    if (op->code == OP_VAR) defer->accumulator += tile_registers(op->results[0]);
    if (op->code == OP_FOR) {
      if (defer->steps || !match_steps(defer, op)) return false;
      defer->steps = op;
    }
    drained |= defer->steps && is_wait(op, "products") && ir_attribute_int(op, ATTR_PENDING, -1) == 0;
    if (!match_part(op, &part)) {
      if (op->code == OP_PUT) return false; /* parts keep their order: all of them, or none */
      continue;
    }
    if (!drained) return false;
    g_array_append_val(defer->parts, part);
    op = part.last;
  }
  return defer->steps && defer->parts->len > 0;
}

/* Each block has one tile: nothing follows that its results could leave beside. */
static bool has_one_tile(const IrFunction *kernel, const IrOp *tiles)
{
  int64_t blocks;
  const IrExpr *grid = ir_launch_get(kernel, ATTR_GRID);
  if (!grid || !grid->n || !ir_expr_is_int(grid->items[0], &blocks)) return false;
  return ir_known_maximum(kernel, tiles->operands[1]) <= blocks;
}

/* Leaves the last parts that a thread has registers for; the others stay where they are. */
static void keep_what_fits(Defer *defer, const CostModel *model, unsigned registers)
{
  unsigned used = defer->accumulator + model->defer_registers, first = defer->parts->len;
  while (first > 0) {
    const IrExpr *value = g_array_index(defer->parts, Part, first - 1).put->operands[1];
    if (value->kind != EXPR_VALUE) break;
    used += tile_registers(value->value);
    if (used > registers) break;
    first--;
  }
  if (first > 0) g_array_remove_range(defer->parts, 0, first);
}

/* ---- The parts, elsewhere ---- */

/* Parts that leave behind step `index` of the first `steps`: spread evenly, from `*from` to the result. */
static unsigned parts_of(const Defer *defer, unsigned index, unsigned steps, unsigned *from)
{
  *from = defer->parts->len * index / steps;
  return defer->parts->len * (index + 1) / steps;
}

/* Parts `from` .. `to` go in front of `before`, or to the region's end. */
static void move_parts(const Defer *defer, unsigned from, unsigned to, IrRegion *region, IrOp *before)
{
  for (unsigned i = from; i < to; i++) {
    const Part *part = &g_array_index(defer->parts, Part, i);
    for (IrOp *op = part->put, *next, *end = part->last->next; op != end; op = next) {
      next = op->next;
      ir_op_move(op, region, before);
    }
  }
}

static void set_stage(IrOp *op, IrModule *module, int stage)
{
  ir_attribute_set(op, ATTR_STAGE, ir_int(module, stage));
}

/* The k loop's body at `k`. */
static void emit_step(const Defer *defer, IrBuilder *builder, IrExpr *k)
{
  const IrRegion *body = defer->steps->regions[0];
  g_autoptr(GHashTable) map = g_hash_table_new(NULL, NULL);
  g_hash_table_insert(map, body->arguments[0], k);
  for (const IrOp *op = body->first; op; op = op->next) {
    builder->mark = op->mark;
    ir_op_clone(builder, op, map);
  }
}

/* The first step, in front of the k loop, and parts behind it. By then no copy waits for its slot. */
static void write_first(const Defer *defer, unsigned steps)
{
  unsigned from, to = parts_of(defer, 0, steps, &from);
  IrBuilder builder = ir_builder_before(defer->steps);
  emit_step(defer, &builder, ir_int(defer->module, 0));
  move_parts(defer, from, to, defer->steps->parent, defer->steps);
}

/* A loop of the further steps that have parts behind them. One body with the parts as branches: written out,
 * sixteen steps took the assembler five times as long as all of the rest. */
static IrOp *write_further(const Defer *defer, unsigned steps)
{
  IrModule *module = defer->module;
  IrBuilder builder = ir_builder_before(defer->steps);
  builder.mark = defer->steps->mark;
  const IrValue *old = defer->steps->regions[0]->arguments[0];
  IrOp *loop = ir_emit(&builder, OP_FOR, 3, ir_int(module, defer->step), ir_int(module, steps * defer->step),
                       ir_int(module, defer->step));
  IrRegion *body = ir_region_add(loop);
  IrExpr *k = ir_value(module, ir_argument_add(body, old->name, old->type));
  builder = ir_builder_at_end(body);
  emit_step(defer, &builder, k);
  for (IrOp *op = body->first; op; op = op->next)
    set_stage(op, module, 0);
  for (unsigned s = 1; s < steps; s++) {
    unsigned from, to = parts_of(defer, s, steps, &from);
    if (from == to) continue;
    IrOp *at =
        ir_emit(&builder, OP_IF, 1, ir_binary(module, OPERATOR_EQ, k, ir_int(module, s * defer->step)));
    set_stage(at, module, 1);
    move_parts(defer, from, to, ir_region_add(at), NULL);
  }
  return loop;
}

/* `further`: the loop that has operations of both stages, or NULL. The parts of the first of so many steps stand by themselves. */
static void set_stages(const Defer *defer, const IrOp *further, unsigned steps)
{
  IrModule *module = defer->module;
  for (IrOp *op = defer->tiles->regions[0]->first; op; op = op->next)
    if (op != further) set_stage(op, module, 0);
  unsigned from, to = parts_of(defer, 0, steps, &from);
  for (unsigned i = from; i < to; i++) {
    const Part *part = &g_array_index(defer->parts, Part, i);
    for (IrOp *op = part->put; op != part->last->next; op = op->next)
      set_stage(op, module, 1);
  }
  ir_attribute_set(defer->tiles, ATTR_PIPELINED, ir_int(module, 1));
  ir_attribute_set(defer->tiles, ATTR_BEHIND, NULL);
}

static bool is_zero(const IrExpr *expr)
{
  int64_t integer;
  if (expr->kind == EXPR_FLOAT) return expr->number == 0 && !signbit(expr->number);
  return ir_expr_is_int(expr, &integer) && integer == 0;
}

/* A sum that is cleared at the tile's start is not: its first product, which now stands by itself, counts the
 * old one as zero, and the old one's registers are free as soon as it is rounded. */
static void start_at_zero(const Defer *defer, IrOp *product)
{
  IrOp *clears = product->operands[0]->value->def;
  bool alone = clears->code == OP_VAR && clears->parent == defer->tiles->regions[0] && clears->n_operands &&
               is_zero(clears->operands[0]) && !ir_attribute(product, ATTR_FIRST);
  for (IrOp *op = clears->next; alone && op != defer->steps; op = op->next)
    alone = op && !ir_op_uses(op, product->operands[0]->value);
  if (!alone) return;
  clears->n_operands = 0;
  const IrValue *k = defer->steps->regions[0]->arguments[0];
  ir_attribute_set(
      product, ATTR_FIRST,
      ir_binary(defer->module, OPERATOR_EQ, ir_value(defer->module, (IrValue *)k), ir_int(defer->module, 0)));
}

/* `spread`: k steps for a part. */
static void defer_parts(const Defer *defer, unsigned spread)
{
  for (IrOp *op = defer->steps->regions[0]->first; op; op = op->next)
    if (op->code == OP_MMA) start_at_zero(defer, op);
  unsigned steps = (unsigned)MIN(defer->trips, (int64_t)defer->parts->len * spread);
  write_first(defer, steps);
  for (IrOp *op = defer->steps->regions[0]->first; op; op = op->next)
    ir_attribute_remove(op, ATTR_FIRST); /* the first product stands by itself now */
  set_stages(defer, steps > 1 ? write_further(defer, steps) : NULL, steps);
  defer->steps->operands[0] = ir_int(defer->module, steps * defer->step);
}

/* ---- The kernel ---- */

static void visit_role(IrFunction *kernel, const IrPassContext *context, IrOp *role)
{
  for (IrOp *op = role->regions[0]->first; op; op = op->next) {
    if (op->code != OP_FOR) continue;
    g_autoptr(GArray) parts = g_array_new(FALSE, FALSE, sizeof(Part));
    Defer defer = {.module = kernel->module, .parts = parts};
    if (!match_tiles(&defer, op) || has_one_tile(kernel, op)) continue;
    unsigned all = parts->len;
    keep_what_fits(&defer, context->gpu->model, role_registers(kernel, context->gpu, role));
    if (!parts->len) continue;
    ir_remark(context, "stores: %u of %u parts leave beside the next tile's first products", parts->len, all);
    defer_parts(&defer, context->gpu->model->defer_steps);
  }
}

bool pass_defer_stores(IrModule *module, const IrPassContext *context, GError **error)
{
  IrFunction *kernel = ir_kernel(module);
  for (IrOp *op = kernel ? kernel->body->first : NULL; op; op = op->next)
    if (op->code == OP_ROLE) visit_role(kernel, context, op);
  return true;
}
