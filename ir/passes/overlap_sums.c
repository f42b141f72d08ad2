/* overlap_sums: a step's sum is added while the next one is multiplied.
 *
 * needs  STAGED with waits derived: a k loop of known length whose warpgroup MMA goes to a tile of its own,
 *        is waited for, releases its slot and is added by ordinary instructions
 * gives  two such tiles in turn: the next step's product is issued before this one's is waited for, and the
 *        slot is released by a cursor that trails the reader's
 * breaks nothing; loops of any other form stay as they are, as do tiles of which three sums do not fit a
 *        thread's registers
 *
 * Without this a warpgroup multiplies, waits, adds and asks for the next slot, one after the other; only
 * other warpgroups' products fill the tensor cores meanwhile. Registers cannot be indexed, so the loop is
 * unrolled by two: between two iterations the first tile's product is always in flight. */
#include "ir/facts.h"
#include "ir/mechanism.h"
#include "ir/pass.h"
#include "ir/passes/role_registers.h"
#include "ir/passes/trailing.h"

/* Steps of which the last one's product is waited for before the loop goes round: ptxas does not follow what
 * is in flight from one iteration to the next, and then serialises all products (C7514). */
#define RUN 4

typedef struct {
  IrModule *module;
  const IrPassContext *context;
  const IrFunction *kernel;
  IrOp *role;
  IrOp *loop;
  IrOp *part;             /* declares the tile that a step's sum goes to */
  IrOp *commit, *wait;    /* what is in front of the commit issues the product */
  IrOp *release, *behind; /* of the slot; the reader's advance, which ends the body */
  IrExpr *free;           /* the cursor that trails */
} Sums;

/* ---- Which loops ---- */

static bool is_products(const IrOp *op, IrOpcode code)
{
  return op->code == code && op->operands[0]->kind == EXPR_NAME && !strcmp(op->operands[0]->name, "products");
}

/* Takes note of an op of the body; false: it is not of the form. */
static bool take(Sums *sums, IrOp *op, unsigned *products)
{
  if (op->n_regions || sums->behind) return false;
  bool issued = sums->commit != NULL;
  if (op->code == OP_VAR && !issued && !sums->part && !op->n_operands)
    sums->part = op;
  else if (!issued && ir_is_grouped_product(op))
    (*products)++;
  else if (is_products(op, OP_COMMIT) && !issued)
    sums->commit = op;
  else if (is_products(op, OP_WAIT_GROUP) && issued && !sums->wait)
    sums->wait = op;
  else if (op->code == OP_ARRIVE && sums->wait && !sums->release)
    sums->release = op;
  else if (op->code == OP_ADVANCE && sums->release)
    sums->behind = op;
  else if (issued)
    return sums->wait && (op->code == OP_ADD || op->code == OP_SET);
  else
    return op->code == OP_AWAIT || op->code == OP_FENCE;
  return true;
}

static bool match(Sums *sums)
{
  IrRegion *body = sums->loop->regions[0];
  unsigned products = 0;
  if (ir_trip_count(sums->loop) < 2 || ir_region_uses(body, body->arguments[0])) return false;
  for (IrOp *op = body->first; op; op = op->next)
    if (!take(sums, op, &products)) return false;
  const IrExpr *slot = sums->release ? sums->release->operands[0] : NULL;
  return products == 1 && sums->part && sums->behind && slot->kind == EXPR_INDEX && slot->n == 2 &&
         slot->items[1]->kind == EXPR_VALUE && slot->items[1]->value == sums->behind->operands[0]->value;
}

static bool registers_fit(const Sums *sums)
{
  const IrType *tile = &sums->part->results[0]->type;
  return tile->layout && 3 * layout_registers(tile->layout) + sums->context->gpu->model->overlap_registers <=
                             role_registers(sums->kernel, sums->context->gpu, sums->role);
}

/* ---- Two tiles in turn ---- */

static void clone_with(IrBuilder *builder, const IrOp *op, const IrValue *part, IrExpr *now, GHashTable *map)
{
  g_hash_table_insert(map, (gpointer)part, now);
  ir_op_clone(builder, op, map);
}

/* The product of a step, into `part`. */
static void issue(const Sums *sums, IrBuilder *builder, IrExpr *part)
{
  g_autoptr(GHashTable) map = g_hash_table_new(NULL, NULL);
  for (const IrOp *op = sums->loop->regions[0]->first; op != sums->commit->next; op = op->next)
    if (op != sums->part) clone_with(builder, op, sums->part->results[0], part, map);
}

/* All but `pending` products are done: `part` is added, and what it was made from is free. */
static void finish(const Sums *sums, IrBuilder *builder, IrExpr *part, int pending)
{
  IrModule *module = sums->module;
  g_autoptr(GHashTable) map = g_hash_table_new(NULL, NULL);
  IrOp *wait = ir_op_clone(builder, sums->wait, map);
  ir_attribute_set(wait, ATTR_PENDING, ir_int(module, pending));
  IrOp *release = ir_op_clone(builder, sums->release, map);
  release->operands[0] = ir_index(module, sums->release->operands[0]->items[0], 1, sums->free);
  ir_emit(builder, OP_ADVANCE, 1, sums->free);
  for (const IrOp *op = sums->wait->next; op != sums->behind; op = op->next)
    if (op != sums->release) clone_with(builder, op, sums->part->results[0], part, map);
}

static void advance(const Sums *sums, IrBuilder *builder)
{
  ir_emit(builder, OP_ADVANCE, 1, sums->behind->operands[0]);
}

/* A step whose product runs beside the addition of the one before. */
static void step(const Sums *sums, IrBuilder *builder, IrExpr *part, IrExpr *before)
{
  issue(sums, builder, part);
  finish(sums, builder, before, 1);
  advance(sums, builder);
}

/* Steps one behind the other: nothing is in flight before the first, the last one's product behind them,
 * whose tile is returned. */
static IrExpr *run(const Sums *sums, IrBuilder *builder, IrExpr *const parts[2], int64_t steps)
{
  issue(sums, builder, parts[0]);
  advance(sums, builder);
  for (int64_t i = 1; i < steps; i++)
    step(sums, builder, parts[i % 2], parts[(i - 1) % 2]);
  return parts[(steps - 1) % 2];
}

/* Runs of RUN steps, and the last one behind them. */
static void unroll(Sums *sums)
{
  IrModule *module = sums->module;
  IrOp *loop = sums->loop;
  int64_t steps = ir_trip_count(loop), low, stride = 1, runs = (steps - 1) / RUN;
  ir_expr_is_int(loop->operands[0], &low);
  if (loop->n_operands > 2) ir_expr_is_int(loop->operands[2], &stride);
  sums->free = trailing_cursor(module, sums->behind->operands[0]);
  IrBuilder builder = ir_builder_before(loop);
  builder.mark = loop->mark;
  IrExpr *parts[2];
  for (unsigned i = 0; i < 2; i++) {
    g_autoptr(GHashTable) map = g_hash_table_new(NULL, NULL);
    parts[i] = ir_value(module, ir_op_clone(&builder, sums->part, map)->results[0]);
  }
  if (runs) {
    IrOp *all = ir_emit(&builder, OP_FOR, 3, ir_int(module, low), ir_int(module, low + RUN * stride * runs),
                        ir_int(module, RUN * stride));
    IrBuilder inner = ir_builder_at_end(ir_region_add(all));
    inner.mark = loop->mark;
    const IrValue *k = loop->regions[0]->arguments[0];
    ir_argument_add(all->regions[0], k->name, k->type);
    finish(sums, &inner, run(sums, &inner, parts, RUN), 0);
  }
  IrExpr *last = run(sums, &builder, parts, steps - RUN * runs);
  IrBuilder after = trailing_place(loop);
  finish(sums, &after, last, 0);
  ir_op_remove(loop);
}

static void visit_region(const Sums *kernel, IrRegion *region)
{
  for (IrOp *op = region->first, *next; op; op = next) {
    next = op->next;
    Sums sums = *kernel;
    if (op->code == OP_ROLE) sums.role = op;
    for (unsigned i = 0; i < op->n_regions; i++)
      visit_region(&sums, op->regions[i]);
    sums.loop = op;
    if (op->code != OP_FOR || !sums.role || !match(&sums) || !registers_fit(&sums)) continue;
    unroll(&sums);
    ir_remark(sums.context, "sums: a step's is added while the next one is multiplied");
  }
}

bool pass_overlap_sums(IrModule *module, const IrPassContext *context, GError **error)
{
  IrFunction *kernel = ir_kernel(module);
  Sums sums = {.module = module, .context = context, .kernel = kernel};
  if (kernel) visit_region(&sums, kernel->body);
  return true;
}
