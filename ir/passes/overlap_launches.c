/* overlap_launches: a kernel starts while the one before it on the stream still runs.
 *
 * needs  STAGED, roles and copies final; launch fact `overlap`, tensors marked `constant`
 * gives  dependent_launch first of all; dependent_wait in every role, in front of what it does to memory that
 *        another kernel may write or read; producers that fill their ring's constant tiles ahead of that wait, or
 *        rings of constant tiles until one is full; small loads of constant tensors ahead of it
 * breaks nothing; without the launch fact or the GPU's family the kernel stays as it is
 *
 * The kernel before may still run until dependent_wait has passed, and its results are visible behind it.
 * What other launches rely on, and check_protocol checks: each thread that touches a tensor that is not
 * constant has waited, or was released by a barrier whose producer has. Then a kernel that has ended tells
 * that all before it have, so that the wait for one predecessor orders also what lies two kernels apart
 * (memory that one reads and the next but one overwrites).
 *
 * dependent_launch stands at the start: the next kernel's blocks come only when all of ours run, into what
 * is free beside them, and then only set up barriers and fetch weights. A later trigger would only delay
 * that.
 *
 * A ring's slot holds tiles of weights and of activations. For the slots of the first turn the producer
 * announces the bytes and copies the constant tiles, then waits, then copies the others; a count says how
 * many steps have begun so.
 *
 * Where a tile that is not constant has a ring of its own (the queries of an attention beside keys and values), all
 * of its filling comes later instead: in front of the first await that would find its ring full. */
#include "ir/facts.h"
#include "ir/mechanism.h"
#include "ir/pass.h"

/* ---- What touches memory of other kernels ---- */

/* The tensor that an operand of an access names, or NULL. */
static const IrValue *tensor_of(const IrExpr *access)
{
  const IrExpr *base = ir_access_base(access);
  return base->kind == EXPR_VALUE && base->value->type.kind == TYPE_TENSOR ? base->value : NULL;
}

/* Does the op itself read a tensor that may be written meanwhile, or write any? */
static bool touches(const IrOp *op)
{
  if (op->code == OP_MAP || op->code == OP_PREFETCH_MAP) return false;
  if (op->code == OP_STORE_PARTIAL || op->code == OP_ADD_PARTIAL || op->code == OP_POST ||
      op->code == OP_AWAIT_POSTS || op->code == OP_POST_STEP || op->code == OP_AWAIT_STEP ||
      op->code == OP_CLAIM)
    return true; /* the kernel's parts, flags and counter */
  for (unsigned i = 0; i < op->n_operands; i++) {
    const IrValue *tensor = tensor_of(op->operands[i]);
    if (tensor && !tensor->type.constant) return true;
  }
  return false;
}

static void note_touch(IrOp *op, void *data)
{
  *(bool *)data |= touches(op);
}

static bool contains_touch(IrOp *op)
{
  bool found = touches(op);
  for (unsigned i = 0; i < op->n_regions; i++)
    ir_region_visit(op->regions[i], note_touch, &found);
  return found;
}

static IrOp *emit_before(IrOp *op, IrOpcode code)
{
  IrBuilder builder = ir_builder_before(op);
  builder.mark = op->mark;
  return ir_emit(&builder, code, 0);
}

/* ---- Producers ---- */

/* if elected() { cursor; for tile { lets; for k { await; expect; copies; advance } ... } } A block of one tile has no loop
 * over tiles: `tiles` is NULL, and lets and the loop over k stand beside the cursor. */
typedef struct {
  IrModule *module;
  IrOp *cursor, *tiles, *steps;
} Producer;

static bool is_constant_copy(const IrOp *op)
{
  return op->code == OP_COPY && !touches(op);
}

/* The loop over k fills one slot a step and does nothing else. */
static bool fills_slots(const Producer *producer)
{
  const IrValue *cursor = producer->cursor->results[0];
  bool waits = false, announces = false, moves = false, constant = false;
  for (const IrOp *op = producer->steps->regions[0]->first; op; op = op->next) {
    switch (op->code) {
    case OP_AWAIT: waits = !announces; break;
    case OP_EXPECT: announces = waits; break;
    case OP_COPY:
      if (!announces || !ir_is_engine_copy(op)) return false;
      constant |= is_constant_copy(op);
      break;
    case OP_ADVANCE:
      if (op->next || op->operands[0]->kind != EXPR_VALUE || op->operands[0]->value != cursor) return false;
      moves = true;
      break;
    default: return false;
    }
  }
  return moves && constant;
}

static bool contains_loop(const IrOp *loop)
{
  for (const IrOp *op = loop->regions[0]->first; op; op = op->next)
    if (op->code == OP_FOR) return true;
  return false;
}

/* Lets, then the loop over k; what a tile has behind that stays as it is. */
static bool find_steps(Producer *producer, IrOp *first)
{
  for (IrOp *op = first; op && !producer->steps; op = op->next) {
    if (op->code == OP_FOR)
      producer->steps = op;
    else if (op->code != OP_LET)
      return false;
  }
  return producer->steps && fills_slots(producer);
}

static bool find_producer(IrOp *role, Producer *producer)
{
  IrOp *elected = NULL;
  for (IrOp *op = role->regions[0]->first; op; op = op->next)
    if (op->code == OP_IF && op->n_regions == 1) elected = op;
  if (!elected || role->regions[0]->first != elected) return false;
  for (IrOp *op = elected->regions[0]->first; op; op = op->next) {
    if (op->code == OP_CURSOR && !producer->cursor) {
      producer->cursor = op;
    } else if (op->code == OP_FOR) {
      if (!producer->cursor) return false;
      if (!contains_loop(op)) return find_steps(producer, op);
      producer->tiles = op;
      return find_steps(producer, op->regions[0]->first);
    } else if (op->code != OP_LET) {
      return false;
    }
  }
  return false;
}

/* The first tile's lets and its loop over k, if there is a tile, filling by `cursor`; returns the loop. */
static IrOp *emit_first_tile(Producer *producer, IrBuilder *builder, IrValue *cursor)
{
  IrModule *module = producer->module;
  const IrOp *tiles = producer->tiles;
  if (!tiles) { /* lets stand in front of the builder */
    g_autoptr(GHashTable) map = g_hash_table_new(NULL, NULL);
    g_hash_table_insert(map, producer->cursor->results[0], ir_value(module, cursor));
    return ir_op_clone(builder, producer->steps, map);
  }
  IrOp *any =
      ir_emit(builder, OP_IF, 1, ir_binary(module, OPERATOR_LT, tiles->operands[0], tiles->operands[1]));
  IrBuilder inside = ir_builder_at_end(ir_region_add(any));
  g_autoptr(GHashTable) map = g_hash_table_new(NULL, NULL);
  g_hash_table_insert(map, tiles->regions[0]->arguments[0], tiles->operands[0]);
  g_hash_table_insert(map, producer->cursor->results[0], ir_value(module, cursor));
  for (const IrOp *op = tiles->regions[0]->first;; op = op->next) {
    inside.mark = op->mark;
    IrOp *copy = ir_op_clone(&inside, op, map);
    if (op == producer->steps) return copy;
  }
}

/* Leaves the loop before its first op if the condition holds; counts at its end. */
static void end_steps(Producer *producer, IrOp *loop, IrExpr *condition, IrExpr *count, int by)
{
  IrModule *module = producer->module;
  IrBuilder first = ir_builder_before(loop->regions[0]->first);
  first.mark = loop->mark;
  ir_emit(&first, OP_BREAK_IF, 1, condition);
  IrBuilder last = ir_builder_at_end(loop->regions[0]);
  last.mark = loop->mark;
  ir_emit(&last, OP_SET, 2, count, ir_binary(module, OPERATOR_ADD, count, ir_int(module, by)));
}

/* Announces the bytes of the ring's first turn and copies what is constant. */
static void emit_early(Producer *producer, IrBuilder *builder, IrExpr *ahead)
{
  IrModule *module = producer->module;
  IrOp *cursor = ir_emit(builder, OP_CURSOR, 1, producer->cursor->operands[0]);
  IrValue *early = ir_result(cursor, "early", producer->cursor->results[0]->type);
  early->variable = true;
  IrOp *loop = emit_first_tile(producer, builder, early);
  for (IrOp *op = loop->regions[0]->first, *next; op; op = next) {
    next = op->next;
    if (op->code == OP_COPY && !is_constant_copy(op)) ir_op_remove(op);
  }
  IrExpr *turned = ir_field(module, ir_value(module, early), "phase");
  end_steps(producer, loop, ir_binary(module, OPERATOR_NE, turned, ir_int(module, 0)), ahead, 1);
}

/* Behind the wait: the other copies into these slots. The loop itself goes on with the step after them. */
static void emit_rest(Producer *producer, IrBuilder *builder, IrExpr *ahead)
{
  IrModule *module = producer->module;
  IrOp *steps = producer->steps;
  IrExpr *next_step = ir_emit_value(builder, OP_VAR, ir_scalar(NUMBER_S32), "next", 1, ir_int(module, 0));
  next_step->value->variable = true;
  IrOp *loop = emit_first_tile(producer, builder, producer->cursor->results[0]);
  IrBuilder before = ir_builder_before(loop);
  before.mark = loop->mark;
  ir_emit(&before, OP_SET, 2, next_step, loop->operands[0]);
  for (IrOp *op = loop->regions[0]->first, *next; op; op = next) {
    next = op->next;
    if (op->code == OP_AWAIT || op->code == OP_EXPECT || is_constant_copy(op)) ir_op_remove(op);
  }
  end_steps(producer, loop, ir_binary(module, OPERATOR_EQ, ahead, ir_int(module, 0)), ahead, -1);
  IrBuilder last = ir_builder_at_end(loop->regions[0]);
  last.mark = loop->mark;
  IrExpr *step = loop->n_operands > 2 ? loop->operands[2] : ir_int(module, 1);
  ir_emit(&last, OP_SET, 2, next_step,
          ir_binary(module, OPERATOR_ADD, ir_value(module, loop->regions[0]->arguments[0]), step));
  const IrOp *tiles = producer->tiles;
  if (!tiles) {
    steps->operands[0] = next_step;
    return;
  }
  IrExpr *first =
      ir_binary(module, OPERATOR_EQ, ir_value(module, tiles->regions[0]->arguments[0]), tiles->operands[0]);
  steps->operands[0] = ir_select(module, first, next_step, steps->operands[0]);
}

static bool fill_early(IrModule *module, IrOp *role)
{
  Producer producer = {.module = module};
  if (!find_producer(role, &producer)) return false;
  IrBuilder builder = ir_builder_before(producer.tiles ? producer.tiles : producer.steps);
  builder.mark = producer.steps->mark;
  IrExpr *ahead = ir_emit_value(&builder, OP_VAR, ir_scalar(NUMBER_S32), "ahead", 1, ir_int(module, 0));
  ahead->value->variable = true;
  emit_early(&producer, &builder, ahead);
  ir_emit(&builder, OP_DEPENDENT_WAIT, 0);
  emit_rest(&producer, &builder, ahead);
  return true;
}

/* ---- Producers with a ring of their own for what is not constant ---- */

/* The only ops that touch: await, expect, copies, advance of one ring, side by side. */
typedef struct {
  IrModule *module;
  IrOp *first, *last;    /* await .. advance */
  const IrValue *cursor; /* of that ring */
  IrExpr *given;         /* 1: the first tile's copies have been issued */
  unsigned touches, awaits;
  bool constant; /* copies of constant tiles are among the rest */
} Held;

static bool is_await_of_ring(const IrOp *op, const IrExpr **cursor)
{
  *cursor = op->code == OP_AWAIT && ir_attribute(op, ATTR_PARITY) ? ir_slot_cursor(op->operands[0]) : NULL;
  return *cursor && (*cursor)->kind == EXPR_VALUE;
}

/* await; expect; copies; advance, of which the copies touch: whether the op begins such a run. */
static bool begins_fill(IrOp *op, Held *held)
{
  const IrExpr *cursor = NULL;
  if (!is_await_of_ring(op, &cursor) || !op->next || op->next->code != OP_EXPECT) return false;
  unsigned touched = 0;
  IrOp *end = op->next->next;
  for (; end && end->code == OP_COPY; end = end->next) {
    if (!ir_is_engine_copy(end)) return false;
    touched += touches(end);
  }
  if (!touched || !end || !ir_steps_cursor(end, cursor->value)) return false;
  held->first = op;
  held->last = end;
  held->cursor = cursor->value;
  held->touches = touched;
  return true;
}

static void survey(IrOp *op, void *data)
{
  Held *held = data;
  const IrExpr *cursor = NULL;
  if (touches(op)) held->touches--;
  held->constant |= is_constant_copy(op);
  held->awaits += is_await_of_ring(op, &cursor) && cursor->value != held->cursor;
}

static bool find_held(IrOp *role, Held *held)
{
  IrOp *elected = role->regions[0]->first;
  if (!elected || elected->next || elected->code != OP_IF || elected->n_regions != 1) return false;
  for (IrOp *op = elected->regions[0]->first; op && !held->first; op = op->next) {
    if (op->code != OP_CURSOR && op->code != OP_LET && !begins_fill(op, held)) return false;
  }
  if (!held->first) return false;
  ir_region_visit(elected->regions[0], survey, held);
  return !held->touches && held->constant && held->awaits;
}

/* Waits, and issues the copies that were held back. */
static void emit_held(const Held *held, IrBuilder *builder, IrExpr *condition)
{
  IrOp *late = ir_emit(builder, OP_IF, 1, condition);
  IrBuilder inside = ir_builder_at_end(ir_region_add(late));
  inside.mark = builder->mark;
  ir_emit(&inside, OP_DEPENDENT_WAIT, 0);
  g_autoptr(GHashTable) map = g_hash_table_new(NULL, NULL);
  for (const IrOp *op = held->first;; op = op->next) {
    ir_op_clone(&inside, op, map);
    if (op == held->last) break;
  }
  ir_emit(&inside, OP_SET, 2, held->given, ir_int(held->module, 1));
}

static void collect_awaits(IrOp *op, void *data)
{
  const IrExpr *cursor = NULL;
  if (is_await_of_ring(op, &cursor)) g_ptr_array_add(data, op);
}

/* Who takes the rings waits for what is held back, so that an await of a ring that has turned would wait for ever. */
static bool hold_back(IrModule *module, IrOp *role)
{
  Held held = {.module = module};
  if (!find_held(role, &held)) return false;
  IrRegion *region = held.first->parent;
  g_autoptr(GPtrArray) awaits = g_ptr_array_new();
  ir_region_visit(region, collect_awaits, awaits);
  IrBuilder builder = ir_builder_before(held.first);
  builder.mark = held.first->mark;
  held.given = ir_emit_value(&builder, OP_VAR, ir_scalar(NUMBER_S32), "given", 1, ir_int(module, 0));
  held.given->value->variable = true;
  for (unsigned i = 0; i < awaits->len; i++) {
    IrOp *await = awaits->pdata[i];
    IrExpr *cursor = ir_slot_cursor(await->operands[0]);
    if (cursor->value == held.cursor) continue;
    IrBuilder before = ir_builder_before(await);
    before.mark = held.first->mark;
    emit_held(&held, &before, ir_binary(module, OPERATOR_LT, held.given, ir_field(module, cursor, "phase")));
  }
  IrBuilder last = ir_builder_at_end(region);
  last.mark = held.first->mark;
  emit_held(&held, &last, ir_binary(module, OPERATOR_EQ, held.given, ir_int(module, 0)));
  for (IrOp *op = held.first, *next;; op = next) {
    next = op->next;
    ir_op_remove(op);
    if (op == held.last) break;
  }
  return true;
}

/* ---- Loads in front of the wait ---- */

typedef struct {
  const IrOp *wait;
  GPtrArray *moved; /* users behind what they use */
  bool possible;
} Front;

static bool stands_behind(const IrOp *op, const IrOp *wait)
{
  if (op->parent != wait->parent) return false;
  while (op && op != wait)
    op = op->previous;
  return op == wait;
}

static void gather_front(IrOp *op, Front *front);

static void gather_value(const IrExpr *expr, void *data)
{
  Front *front = data;
  IrOp *def = expr->kind == EXPR_VALUE ? expr->value->def : NULL;
  if (!def) return;
  bool plain = def->code == OP_LET || def->code == OP_IOTA || ir_op_is_elementwise(def->code);
  if (!stands_behind(def, front->wait))
    front->possible &= def->code != OP_VAR && def->code != OP_CURSOR;
  else if (plain)
    gather_front(def, front);
  else
    front->possible = false;
}

/* What the op needs of what stands behind the wait: places and conditions, which are computed of no memory. */
static void gather_front(IrOp *op, Front *front)
{
  if (g_ptr_array_find(front->moved, op, NULL)) return;
  for (unsigned i = 0; i < op->n_operands; i++)
    ir_expr_visit(op->operands[i], gather_value, front);
  for (unsigned i = 0; i < op->n_attributes; i++)
    if (op->attributes[i].value) ir_expr_visit(op->attributes[i].value, gather_value, front);
  g_ptr_array_add(front->moved, op);
}

static unsigned loaded_registers(const IrOp *load)
{
  const IrType *tile = &load->results[0]->type;
  if (tile->kind != TYPE_TILE) return 1;
  return tile->layout ? ir_tile_registers(tile, ir_attribute_int(load, ATTR_VECTOR, 1)) : UINT_MAX;
}

/* What the kernel reads of constant tensors behind the wait does not depend on it: it arrives while others run. */
static unsigned load_early(IrOp *wait, const IrPassContext *context)
{
  unsigned early = 0, left = context->gpu->model->early_registers;
  for (IrOp *op = wait->next, *next; op; op = next) {
    next = op->next;
    if ((op->code != OP_LOAD && op->code != OP_GATHER) || touches(op)) continue;
    unsigned registers = loaded_registers(op);
    g_autoptr(GPtrArray) moved = g_ptr_array_new();
    Front front = {.wait = wait, .moved = moved, .possible = true};
    gather_front(op, &front);
    if (!front.possible || registers > left) continue;
    left -= registers;
    early++;
    for (unsigned i = 0; i < moved->len; i++)
      ir_op_move(moved->pdata[i], wait->parent, wait);
  }
  return early;
}

/* ---- The kernel ---- */

/* In front of the first op of the region that touches memory of others. */
static IrOp *wait_in(IrRegion *region)
{
  for (IrOp *op = region->first; op; op = op->next)
    if (contains_touch(op)) return emit_before(op, OP_DEPENDENT_WAIT);
  return NULL;
}

static void wait_in_role(IrModule *module, IrOp *role, bool alone, const IrPassContext *context)
{
  if (fill_early(module, role)) {
    ir_remark(context, "overlap: role %s begins with tiles that no kernel writes", role->symbol);
    return;
  }
  if (hold_back(module, role)) {
    ir_remark(context, "overlap: role %s fills rings of tiles that no kernel writes first", role->symbol);
    return;
  }
  IrOp *wait = wait_in(role->regions[0]);
  unsigned early = wait && alone ? load_early(wait, context) : 0;
  if (early) ir_remark(context, "overlap: %u loads of what no kernel writes come before the wait", early);
}

static void wait_in_roles(IrModule *module, IrFunction *kernel, const IrPassContext *context)
{
  unsigned roles = 0;
  for (const IrOp *op = kernel->body->first; op; op = op->next)
    roles += op->code == OP_ROLE;
  for (IrOp *op = kernel->body->first; op; op = op->next) {
    if (!contains_touch(op)) continue;
    if (op->code != OP_ROLE) { /* what all threads do, roles behind it included */
      emit_before(op, OP_DEPENDENT_WAIT);
      return;
    }
    wait_in_role(module, op, roles == 1, context);
  }
}

bool pass_overlap_launches(IrModule *module, const IrPassContext *context, GError **error)
{
  IrFunction *kernel = ir_kernel(module);
  int64_t overlap = 0;
  IrExpr *launch = kernel ? ir_launch_get(kernel, ATTR_OVERLAP) : NULL;
  if (!launch || !ir_expr_is_int(launch, &overlap) || !overlap || !kernel->body->first) return true;
  if (!gpu_has(context->gpu, "dependent_launch")) return true;
  wait_in_roles(module, kernel, context);
  emit_before(kernel->body->first, OP_DEPENDENT_LAUNCH);
  return true;
}
