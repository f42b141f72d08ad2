/* derive_barriers: what lies in shared memory is handed over: to the engine, to other threads, to other blocks.
 *
 * needs  STAGED whose operations stand where they are to be. Who fills what for whom is all that is said: `put` into a slot
 *        of a ring without mbarriers, `copy` or `get` out of it, `advance`, in one region
 * gives  for a copy by the engine: one thread waits until the slot has been read, the threads of the instance meet and put
 *        their part, each with a fence behind it, they meet again, one thread starts the copy and closes its group; at the
 *        end of the role that thread waits for all of them, since shared memory must live as long. For a `get` the
 *        barrier between it and the put. Where a ring lies in the slots of another, all threads of the role meet before
 *        they put anything there
 * breaks nothing; what has a barrier between put and copy, or get, is ordered already and stays as it is
 *
 * Every dependence is one of four (Midkiff, Padua, "Compiler algorithms for synchronization", IEEE Trans. Computers
 * C-36(12), 1987, which derives synchronisation from dependences and their distances, once statements have their places):
 *
 *   put -> copy             true    a fence by each writer, a barrier, one thread
 *   copy -> next put there  anti    the group of the copy has read, a barrier
 *   put -> get              true    a barrier
 *   get -> next put there   anti    with two slots the barrier at the slot between; else one
 *
 * A thread's groups complete in order, so waiting for one is to count those closed behind it. A slot is put again after as
 * many steps of the ring as it has slots; the engine takes at least `distance` groups from one step to the next: those between
 * two puts of the ring that follow one another, wherever they stand. Of slots x distance groups all but the last of a put's
 * slots may be in flight. A put that `claims` several slots waits for all of them, and the puts behind it need not. */
#include "ir/facts.h"
#include "ir/mechanism.h"
#include "ir/pass.h"

/* A slot that threads of a role fill, and what takes it. */
typedef struct {
  IrOp *put, *taker; /* the taker is a copy by the engine, or a get */
  const IrOp *ring;
} Handover;

typedef struct {
  IrModule *module;
  IrFunction *kernel;
  IrOp *role;
  GArray *handovers;     /* Handover: of the role, in the order of the text */
  unsigned next_barrier; /* the first named barrier that is free */
} Meetings;

/* ---- What is handed over ---- */

static bool by_engine(const Handover *handover)
{
  return handover->taker->code == OP_COPY;
}

/* The tile that the op takes from a slot, or NULL. */
static const IrExpr *taken_tile(const IrOp *op)
{
  if (op->code == OP_GET) return op->operands[0];
  bool stores =
      op->code == OP_COPY && ir_is_engine_copy(op) && ir_access_base(op->operands[0])->kind == EXPR_VALUE;
  return stores ? op->operands[1] : NULL;
}

/* What takes the slot that an op puts a tile into, nobody having met in between: then somebody has seen to it already. */
static IrOp *taker_of(const IrFunction *kernel, const IrOp *put)
{
  const IrOp *slot = ir_slot_of(kernel, put->operands[0], NULL);
  for (IrOp *op = put->next; op && op->code != OP_SYNC; op = op->next) {
    const IrExpr *tile = taken_tile(op);
    if (tile && ir_slot_of(kernel, tile, NULL) == slot) return op;
  }
  return NULL;
}

static void find_handover(IrOp *op, void *data)
{
  Meetings *meetings = data;
  IrOp *ring = NULL;
  if (op->code != OP_PUT || ir_attribute(op, ATTR_PEER) ||
      !ir_slot_of(meetings->kernel, op->operands[0], &ring) || ir_attribute(ring, ATTR_FULL_ARRIVALS))
    return;
  Handover handover = {op, taker_of(meetings->kernel, op), ring};
  if (handover.taker) g_array_append_val(meetings->handovers, handover);
}

/* ---- Groups between two puts of a ring ---- */

typedef struct {
  const Meetings *meetings;
  const IrValue *tensor;
  unsigned head,
      tail; /* groups in front of the first put of a run, and from the last one on: the fewest of any run */
  unsigned least; /* from one put to the next of a run */
} Distance;

static const Handover *find_put(const Meetings *meetings, const IrOp *op)
{
  for (unsigned i = 0; op->code == OP_PUT && i < meetings->handovers->len; i++) {
    const Handover *handover = &g_array_index(meetings->handovers, Handover, i);
    if (handover->put == op) return handover;
  }
  return NULL;
}

static const IrValue *stored_tensor(const Handover *handover)
{
  return by_engine(handover) ? ir_access_base(handover->taker->operands[0])->value : NULL;
}

/* Of a region's own operations up to one that may leave it: they run together. Groups of regions within are no more than
 * counted on. */
static IrOp *measure_run(Distance *distance, IrOp *op)
{
  unsigned groups = 0, last = 0;
  bool any = false;
  for (; op && op->code != OP_BREAK_IF; op = op->next) {
    const Handover *handover = find_put(distance->meetings, op);
    if (!handover || !by_engine(handover)) continue;
    if (stored_tensor(handover) == distance->tensor) {
      distance->least = any ? MIN(distance->least, groups - last) : distance->least;
      distance->head = any ? distance->head : MIN(distance->head, groups);
      last = groups;
      any = true;
    }
    groups++;
  }
  if (any) distance->tail = MIN(distance->tail, groups - last);
  return op ? op->next : NULL;
}

static void measure_region(Distance *distance, const IrRegion *region)
{
  for (IrOp *op = region->first; op;)
    op = measure_run(distance, op);
  for (const IrOp *op = region->first; op; op = op->next)
    for (unsigned i = 0; i < op->n_regions; i++)
      measure_region(distance, op->regions[i]);
}

/* Rings of one tensor count alike: that of a narrower last part could leave more in flight, which would hide nothing. */
static unsigned distance_of(const Meetings *meetings, const Handover *handover)
{
  Distance distance = {meetings, stored_tensor(handover), G_MAXUINT / 2, G_MAXUINT / 2, G_MAXUINT};
  measure_region(&distance, meetings->role->regions[0]);
  return MIN(distance.least, distance.head + distance.tail);
}

/* ---- What it takes ---- */

static int64_t instances_of(const IrOp *role)
{
  return ir_attribute_int(role, ATTR_INSTANCES, 1);
}

static void meet(const Meetings *meetings, IrBuilder *builder, IrExpr *id, int64_t threads)
{
  IrOp *sync = ir_emit(builder, OP_SYNC, 0);
  ir_attribute_set(sync, ATTR_ID, id);
  ir_attribute_set(sync, ATTR_THREADS, ir_int(meetings->module, threads));
}

/* All threads of the instance. */
static void meet_instance(const Meetings *meetings, IrBuilder *builder)
{
  IrModule *module = meetings->module;
  int64_t instances = instances_of(meetings->role);
  IrExpr *id = ir_int(module, meetings->next_barrier);
  if (instances > 1) id = ir_binary(module, OPERATOR_ADD, ir_call(module, "instance", 0), id);
  meet(meetings, builder, id, (int64_t)ir_role_warps(meetings->role) * WARP_LANES / instances);
}

static IrBuilder one_thread(const Meetings *meetings, IrBuilder *builder)
{
  IrOp *one = ir_emit(builder, OP_IF, 1, ir_call(meetings->module, "elected", 0));
  IrBuilder inner = ir_builder_at_end(ir_region_add(one));
  inner.mark = builder->mark;
  return inner;
}

/* Until all stores but the last `pending` have read what they move. */
static void wait_stores(const Meetings *meetings, IrBuilder *builder, int64_t pending)
{
  IrBuilder inner = one_thread(meetings, builder);
  IrOp *wait = ir_emit(&inner, OP_WAIT_GROUP, 1, ir_name(meetings->module, "stores"));
  ir_attribute_set(wait, ATTR_PENDING, ir_int(meetings->module, pending));
  ir_attribute_set(wait, ATTR_READ, NULL);
}

static void hand_to_engine(const Meetings *meetings, const Handover *handover)
{
  IrModule *module = meetings->module;
  int64_t claims = ir_attribute_int(handover->put, ATTR_CLAIMS, 1),
          slots = ir_attribute_int(handover->ring, ATTR_SLOTS, 1);
  IrBuilder builder = ir_builder_before(handover->put);
  builder.mark = handover->put->mark;
  if (claims) {
    wait_stores(meetings, &builder, MAX(0, slots * distance_of(meetings, handover) - claims));
    meet_instance(meetings, &builder);
  }
  builder = ir_builder_after(handover->put);
  builder.mark = handover->put->mark;
  ir_emit(&builder, OP_FENCE, 1, ir_name(module, "async_shared"));
  builder = ir_builder_before(handover->taker);
  builder.mark = handover->taker->mark;
  meet_instance(meetings, &builder);
  IrBuilder inner = one_thread(meetings, &builder);
  ir_op_move(handover->taker, inner.region, NULL);
  inner = ir_builder_after(handover->taker);
  inner.mark = handover->taker->mark;
  ir_emit(&inner, OP_COMMIT, 1, ir_name(module, "stores"));
}

static void hand_to_threads(const Meetings *meetings, const Handover *handover)
{
  IrBuilder builder = ir_builder_before(handover->put);
  builder.mark = handover->put->mark;
  if (ir_attribute_int(handover->ring, ATTR_SLOTS, 1) < 2) meet_instance(meetings, &builder);
  builder = ir_builder_before(handover->taker);
  builder.mark = handover->put->mark;
  meet_instance(meetings, &builder);
}

/* Does an op compute what is put, part by part? */
static bool computes_part(const IrOp *op)
{
  return op->n_results == 1 && op->results[0]->type.kind == TYPE_TILE &&
         (ir_op_is_elementwise(op->code) || op->code == OP_LOAD);
}

/* Slots of another ring are written: every instance must have taken its last step. (They are filled no more:
 * choose_mechanisms asks for this only where a block has one tile.) What the first part is computed from is computed behind
 * the meeting, when registers of the steps are free. */
static void meet_before_overlay(Meetings *meetings)
{
  for (unsigned i = 0; i < meetings->handovers->len; i++) {
    const Handover *handover = &g_array_index(meetings->handovers, Handover, i);
    if (!ir_attribute(handover->ring, ATTR_OVERLAY)) continue;
    IrOp *first = handover->put;
    while (first->previous && computes_part(first->previous))
      first = first->previous;
    IrBuilder builder = ir_builder_before(first);
    builder.mark = handover->put->mark;
    meet(meetings, &builder, ir_int(meetings->module, meetings->next_barrier++),
         (int64_t)ir_role_warps(meetings->role) * WARP_LANES);
    return;
  }
}

/* ---- The kernel ---- */

static void note_barrier(IrOp *op, void *data)
{
  Meetings *meetings = data;
  const IrExpr *ids = ir_attribute_value(op, ATTR_IDS);
  int64_t last = -1;
  for (unsigned i = 0; op->code == OP_TURN && ids && i < ids->n; i++)
    if (ir_expr_is_int(ids->items[i], &last)) meetings->next_barrier = MAX(meetings->next_barrier, last + 1);
  if (ir_attribute(op, ATTR_ID) && ir_expr_is_int(ir_attribute_value(op, ATTR_ID), &last))
    meetings->next_barrier = MAX(meetings->next_barrier, last + 1);
}

static void visit_role(Meetings *meetings, IrOp *role)
{
  g_autoptr(GArray) handovers = g_array_new(FALSE, FALSE, sizeof(Handover));
  bool engine = false;
  meetings->role = role;
  meetings->handovers = handovers;
  ir_region_visit(role->regions[0], find_handover, meetings);
  if (!handovers->len) return;
  meet_before_overlay(meetings);
  for (unsigned i = 0; i < handovers->len; i++) {
    const Handover *handover = &g_array_index(handovers, Handover, i);
    if (by_engine(handover))
      hand_to_engine(meetings, handover);
    else
      hand_to_threads(meetings, handover);
    engine |= by_engine(handover);
  }
  for (unsigned i = 0; i < handovers->len; i++)
    ir_attribute_remove(g_array_index(handovers, Handover, i).put, ATTR_CLAIMS);
  IrBuilder end = ir_builder_at_end(role->regions[0]);
  end.mark = role->mark;
  if (engine) wait_stores(meetings, &end, 0);
  meetings->next_barrier += (unsigned)instances_of(role);
}

bool pass_derive_barriers(IrModule *module, const IrPassContext *context, GError **error)
{
  IrFunction *kernel = ir_kernel(module);
  if (!kernel) return true;
  Meetings meetings = {.module = module, .kernel = kernel, .next_barrier = NAMED_BARRIER_FIRST};
  ir_region_visit(kernel->body, note_barrier, &meetings);
  for (IrOp *op = kernel->body->first; op; op = op->next)
    if (op->code == OP_ROLE) visit_role(&meetings, op);
  return true;
}
