/* overlap_launches: a kernel starts while the one before it on the stream still runs.
 *
 * needs  STAGED, roles and copies final; launch fact `overlap`, tensors marked `constant`
 * gives  dependent_launch first of all; dependent_wait in every role, in front of what it does to memory that
 *        another kernel may write or read; producers that fill their ring's constant tiles ahead of that wait
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
 * many steps have begun so. */
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
      op->code == OP_AWAIT_POSTS || op->code == OP_CLAIM)
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

static void emit_before(IrOp *op, IrOpcode code)
{
  IrBuilder builder = ir_builder_before(op);
  builder.mark = op->mark;
  ir_emit(&builder, code, 0);
}

/* ---- Producers ---- */

/* if elected() { cursor; for tile { lets; for k { await; expect; copies; advance } ... } } */
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

static bool find_producer(IrOp *role, Producer *producer)
{
  IrOp *elected = NULL;
  for (IrOp *op = role->regions[0]->first; op; op = op->next)
    if (op->code == OP_IF && op->n_regions == 1) elected = op;
  if (!elected || role->regions[0]->first != elected) return false;
  for (IrOp *op = elected->regions[0]->first; op; op = op->next) {
    if (op->code == OP_CURSOR && !producer->cursor)
      producer->cursor = op;
    else if (op->code == OP_FOR && !producer->tiles)
      producer->tiles = op;
    else if (op->code != OP_LET)
      return false;
  }
  for (IrOp *op = producer->tiles ? producer->tiles->regions[0]->first : NULL; op; op = op->next) {
    if (op->code == OP_FOR && !producer->steps)
      producer->steps = op;
    else if (op->code != OP_LET)
      return false;
  }
  return producer->cursor && producer->steps && fills_slots(producer);
}

/* The first tile's lets and its loop over k, if there is a tile, filling by `cursor`; returns the loop. */
static IrOp *emit_first_tile(Producer *producer, IrBuilder *builder, IrValue *cursor)
{
  IrModule *module = producer->module;
  const IrOp *tiles = producer->tiles;
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
  IrExpr *first =
      ir_binary(module, OPERATOR_EQ, ir_value(module, tiles->regions[0]->arguments[0]), tiles->operands[0]);
  steps->operands[0] = ir_select(module, first, next_step, steps->operands[0]);
}

static bool fill_early(IrModule *module, IrOp *role)
{
  Producer producer = {.module = module};
  if (!find_producer(role, &producer)) return false;
  IrBuilder builder = ir_builder_before(producer.tiles);
  builder.mark = producer.tiles->mark;
  IrExpr *ahead = ir_emit_value(&builder, OP_VAR, ir_scalar(NUMBER_S32), "ahead", 1, ir_int(module, 0));
  ahead->value->variable = true;
  emit_early(&producer, &builder, ahead);
  ir_emit(&builder, OP_DEPENDENT_WAIT, 0);
  emit_rest(&producer, &builder, ahead);
  return true;
}

/* ---- The kernel ---- */

/* In front of the first op of the region that touches memory of others. */
static bool wait_in(IrRegion *region)
{
  for (IrOp *op = region->first; op; op = op->next) {
    if (!contains_touch(op)) continue;
    emit_before(op, OP_DEPENDENT_WAIT);
    return true;
  }
  return false;
}

static void wait_in_roles(IrModule *module, IrFunction *kernel, const IrPassContext *context)
{
  for (IrOp *op = kernel->body->first; op; op = op->next) {
    if (!contains_touch(op)) continue;
    if (op->code != OP_ROLE) { /* what all threads do, roles behind it included */
      emit_before(op, OP_DEPENDENT_WAIT);
      return;
    }
    if (fill_early(module, op))
      ir_remark(context, "overlap: role %s begins with tiles that no kernel writes", op->symbol);
    else
      wait_in(op->regions[0]);
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
