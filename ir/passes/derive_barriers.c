/* derive_barriers: what lies in shared memory is handed over: to the engine, to other threads, to other blocks.
 *
 * needs  STAGED whose operations stand where they are to be. Who fills what for whom is all that is said: `put` into a slot
 *        of a ring without mbarriers, `copy` or `get` out of it, `advance`, in one region; `put ... peer` into a ring, or a shared
 *        tile, that each block of a cluster has, and `get` out of one's own
 * gives  for a copy by the engine: one thread waits until the slot has been read, the threads of the instance meet and put
 *        their part, each with a fence behind it, they meet again, one thread starts the copy and closes its group; at the
 *        end of the role that thread waits for all of them, since shared memory must live as long. For a `get` the
 *        barrier between it and the put. Where a ring lies in the slots of another, all threads of the role meet before
 *        they put anything there.
 *        What consumers of one block put into a tile they have in common all of them take once they have met behind it.
 *        For what peers put: mbarriers that count its bytes, which one thread of the receiver announces (the peers' may come
 *        before that), and an await in front of the first `get`. A ring whose slots are filled again has empty barriers too: the
 *        receivers' warps arrive at those of all senders, and the role ends by waiting for these: no block leaves before its
 *        peers have read. What is filled once needs none: all that is sent to a block has come before it leaves. Where a tile
 *        lies in the slots of a ring the cluster meets first: nobody writes where a peer still multiplies.
 *        At the kernel's start one thread initialises its barriers, and the block, or the cluster, meets.
 *        The wait for the cluster's start goes in front of the first thing that a block sends, where nothing else reaches peers:
 *        copies begin before all blocks have started
 * breaks nothing; what has a barrier between put and copy, or get, is ordered already and stays as it is
 *
 * Every dependence is one of four (Midkiff, Padua, "Compiler algorithms for synchronization", IEEE Trans. Computers
 * C-36(12), 1987, which derives synchronisation from dependences and their distances, once statements have their places):
 *
 *   put -> copy             true    a fence by each writer, a barrier, one thread
 *   copy -> next put there  anti    the group of the copy has read, a barrier
 *   put -> get              true    a barrier; of a peer's put: an mbarrier that counts bytes
 *   get -> next put there   anti    with two slots the barrier at the slot between, else one; of a peer's put: an mbarrier
 *
 * A thread's groups complete in order, so waiting for one is to count those closed behind it. A slot is put again after as
 * many steps of the ring as it has slots; the engine takes at least `distance` groups from one step to the next: those between
 * two puts of the ring that follow one another, wherever they stand. Of slots x distance groups all but the last of a put's
 * slots may be in flight. A put that `claims` several slots waits for all of them, and the puts behind it need not. */
#include "ir/facts.h"
#include "ir/mechanism.h"
#include "ir/pass.h"
#include "ir/passes/ring_barriers.h"

/* A slot that threads of a role fill, and what takes it. */
typedef struct {
  IrOp *put, *taker; /* the taker is a copy by the engine, or a get */
  const IrOp *ring;
} Handover;

/* A ring or a shared tile that each block of a cluster has, and into which its peers put. */
typedef struct {
  IrOp *memory, *put, *get; /* a channel or a shared tile; the first of each in the role */
  int64_t peers;            /* blocks 0 .. peers are put to */
  bool ordered;             /* somebody has seen to it already */
} Mailbox;

typedef struct {
  IrModule *module;
  IrFunction *kernel;
  IrOp *role;
  GArray *handovers;     /* Handover: of the role, in the order of the text */
  GArray *mailboxes;     /* Mailbox: the same */
  int64_t blocks;        /* of a cluster */
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

/* ---- What peers put ---- */

/* The channel or shared tile that an access names, or NULL. */
static IrOp *memory_of(const IrFunction *kernel, const IrExpr *access)
{
  IrOp *channel = NULL;
  if (ir_slot_of(kernel, access, &channel)) return channel;
  while (access->kind == EXPR_INDEX)
    access = access->items[0];
  IrOp *tile = access->kind == EXPR_SYMBOL ? ir_symbol_find(kernel, access->name) : NULL;
  return tile && tile->code == OP_SHARED ? tile : NULL;
}

static bool waits_at_barrier(const IrOp *op)
{
  const IrExpr *barrier = op->code == OP_AWAIT ? op->operands[0] : NULL;
  return op->code == OP_CLUSTER_WAIT ||
         (barrier && barrier->kind == EXPR_INDEX && barrier->items[0]->kind == EXPR_SYMBOL);
}

static Mailbox *mailbox_of(const Meetings *meetings, const IrOp *memory)
{
  for (unsigned i = 0; i < meetings->mailboxes->len; i++) {
    Mailbox *mailbox = &g_array_index(meetings->mailboxes, Mailbox, i);
    if (mailbox->memory == memory) return mailbox;
  }
  return NULL;
}

static void note_put(Meetings *meetings, IrOp *put, IrOp *memory)
{
  int64_t peer;
  Mailbox *mailbox = mailbox_of(meetings, memory);
  if (!mailbox) {
    Mailbox fresh = {.memory = memory, .put = put};
    fresh.ordered = ir_attribute(memory, ATTR_FULL_ARRIVALS) != NULL;
    g_array_append_val(meetings->mailboxes, fresh);
    mailbox = mailbox_of(meetings, memory);
  }
  mailbox->ordered |= ir_attribute(put, ATTR_BARRIER) || ir_attribute_is(put, ATTR_PEER, "all") ||
                      !ir_expr_is_int(ir_attribute_value(put, ATTR_PEER), &peer);
  if (!mailbox->ordered) mailbox->peers = MAX(mailbox->peers, peer + 1);
}

static void find_mail(IrOp *op, void *data)
{
  Meetings *meetings = data;
  bool put = op->code == OP_PUT && ir_attribute(op, ATTR_PEER),
       get = op->code == OP_GET && !ir_attribute(op, ATTR_PEER);
  for (unsigned i = 0; waits_at_barrier(op) && i < meetings->mailboxes->len; i++) {
    Mailbox *mailbox = &g_array_index(meetings->mailboxes, Mailbox, i);
    mailbox->ordered |= !mailbox->get;
  }
  IrOp *memory = put || get ? memory_of(meetings->kernel, op->operands[0]) : NULL;
  if (memory && put) note_put(meetings, op, memory);
  Mailbox *mailbox = memory && get ? mailbox_of(meetings, memory) : NULL;
  if (mailbox && !mailbox->get) mailbox->get = op;
}

/* The `if` around all `if`s that a put stands in, or the put. */
static IrOp *outermost(IrOp *put)
{
  IrOp *op = put;
  while (op->parent->owner && op->parent->owner->code == OP_IF)
    op = op->parent->owner;
  return op;
}

static void await(IrBuilder *builder, IrExpr *barrier, IrExpr *parity)
{
  ir_attribute_set(ir_emit(builder, OP_AWAIT, 1, barrier), ATTR_PARITY, parity);
}

/* `who`: one thread of the blocks that something comes to. */
static void announce(const Meetings *meetings, IrBuilder *builder, IrExpr *who, IrExpr *barrier,
                     int64_t bytes)
{
  IrBuilder inner = ir_builder_at_end(ir_region_add(ir_emit(builder, OP_IF, 1, who)));
  inner.mark = builder->mark;
  ir_attribute_set(ir_emit(&inner, OP_EXPECT, 1, barrier), ATTR_BYTES, ir_int(meetings->module, bytes));
}

/* ---- Into a ring ---- */

typedef struct {
  const Meetings *meetings;
  const Mailbox *mailbox;
  IrExpr *cursor;
  bool again; /* slots are filled again */
} Ring;

static IrExpr *barrier_of(const Ring *ring, const char *which)
{
  return ring_barrier(ring->meetings->module, ring->mailbox->memory, which, ring->cursor);
}

/* A block that has read its slot says so to all, each of which fills it in all. */
static void answer(const Ring *ring, IrBuilder *builder)
{
  IrModule *module = ring->meetings->module;
  IrOp *arrive = ir_emit(builder, OP_ARRIVE, 1, barrier_of(ring, "empty"));
  ir_attribute_set(arrive, ATTR_PEER, ir_name(module, "all"));
  ir_attribute_set(arrive, ATTR_BY, ir_name(module, mechanism_issue_name(ISSUE_WARP)));
}

static bool is_at(const Ring *ring, const IrOp *op, IrOpcode code)
{
  if (op->code != code) return false;
  if (code == OP_ADVANCE) return ir_expr_equal(op->operands[0], ring->cursor);
  return memory_of(ring->meetings->kernel, op->operands[0]) == ring->mailbox->memory;
}

/* Each step of the ring in a region: puts, gets, `advance`. */
static void sign_steps(const Ring *ring, IrRegion *region)
{
  IrModule *module = ring->meetings->module;
  bool filled = false, taken = false;
  for (IrOp *op = region->first; op; op = op->next) {
    IrBuilder builder = ir_builder_before(op);
    builder.mark = ring->mailbox->put->mark;
    if (is_at(ring, op, OP_PUT)) {
      if (!filled && ring->again) ring_await_empty(module, &builder, ring->mailbox->memory, ring->cursor);
      if (!filled)
        announce(ring->meetings, &builder, ir_call(module, "elected", 0), barrier_of(ring, "full"),
                 ir_slot_bytes(ring->mailbox->memory));
      ir_attribute_set(op, ATTR_BARRIER, barrier_of(ring, "full"));
      filled = true;
    } else if (is_at(ring, op, OP_GET) && filled && !taken) {
      await(&builder, barrier_of(ring, "full"), ir_field(module, ring->cursor, "phase"));
      taken = true;
    } else if (is_at(ring, op, OP_ADVANCE) && filled) {
      answer(ring, &builder);
      filled = taken = false;
    }
    for (unsigned i = 0; i < op->n_regions; i++)
      sign_steps(ring, op->regions[i]);
  }
}

static void find_step(IrOp *op, void *data)
{
  Ring *ring = data;
  ring->again |= is_at(ring, op, OP_ADVANCE);
}

static void receive_in_ring(const Meetings *meetings, const Mailbox *mailbox)
{
  IrModule *module = meetings->module;
  IrOp *channel = mailbox->memory;
  Ring ring = {meetings, mailbox, ir_slot_cursor(mailbox->put->operands[0]), false};
  if (!ring.cursor) return;
  ir_region_visit(meetings->role->regions[0], find_step, &ring);
  ir_attribute_set(channel, ATTR_FULL_ARRIVALS, ir_int(module, 1));
  ir_attribute_set(channel, ATTR_FULL_BYTES, ir_int(module, ir_slot_bytes(channel)));
  if (ring.again)
    ir_attribute_set(channel, ATTR_EMPTY_ARRIVALS,
                     ir_int(module, meetings->blocks * ir_role_warps(meetings->role)));
  sign_steps(&ring, meetings->role->regions[0]);
  if (ring.again) /* no block leaves before its peers have arrived at its barriers */
    ring_drain(module, meetings->role->regions[0], channel, ring.cursor, mailbox->put->mark);
}

/* ---- Into a tile, once ---- */

/* A barrier for each instance; one arrival, of the thread that announces. */
static IrExpr *declare_arrived(const Meetings *meetings, const Mailbox *mailbox)
{
  IrModule *module = meetings->module;
  int64_t instances = instances_of(meetings->role);
  IrBuilder builder = ir_builder_after(mailbox->memory);
  builder.mark = mailbox->put->mark;
  IrOp *barrier = ir_emit(&builder, OP_BARRIER, 0);
  barrier->symbol = ir_symbol_unique(meetings->kernel, "arrived");
  ir_attribute_set(barrier, ATTR_COUNT, ir_int(module, instances));
  ir_attribute_set(barrier, ATTR_ARRIVALS, ir_int(module, 1));
  IrExpr *number = instances > 1 ? ir_call(module, "instance", 0) : ir_int(module, 0);
  return ir_index(module, ir_symbol(module, barrier->symbol), 1, number);
}

typedef struct {
  const Meetings *meetings;
  const Mailbox *mailbox;
  IrExpr *barrier;
} Arrival;

static void count_at(IrOp *op, void *data)
{
  const Arrival *arrival = data;
  if (op->code == OP_PUT && memory_of(arrival->meetings->kernel, op->operands[0]) == arrival->mailbox->memory)
    ir_attribute_set(op, ATTR_BARRIER, arrival->barrier);
}

/* All of the tile comes, each instance's rows to its barrier. */
static void receive_in_tile(const Meetings *meetings, const Mailbox *mailbox)
{
  IrModule *module = meetings->module;
  const IrType *tile = mailbox->memory->declared;
  Arrival arrival = {meetings, mailbox, declare_arrived(meetings, mailbox)};
  int64_t bytes = (int64_t)number_bytes_of(tile->element,
                                           (uint64_t)(ir_tile_elements(tile) / instances_of(meetings->role)));
  IrExpr *who = ir_call(module, "elected", 0);
  if (mailbox->peers < meetings->blocks)
    who = ir_binary(
        module, OPERATOR_AND, who,
        ir_binary(module, OPERATOR_LT, ir_call(module, "cluster_rank", 0), ir_int(module, mailbox->peers)));
  IrBuilder builder = ir_builder_before(outermost(mailbox->put));
  builder.mark = mailbox->put->mark;
  if (ir_attribute(mailbox->memory, ATTR_OVERLAY)) ir_emit(&builder, OP_CLUSTER_ARRIVE, 0);
  announce(meetings, &builder, who, arrival.barrier, bytes);
  ir_region_visit(meetings->role->regions[0], count_at, &arrival);
  builder = ir_builder_before(mailbox->get);
  builder.mark = mailbox->put->mark;
  await(&builder, arrival.barrier, ir_int(module, 0));
}

/* ---- The cluster's start ---- */

typedef struct {
  const IrOp *wait; /* at the start of the kernel */
  IrOp *put;        /* the first that a peer gets */
  bool signals;     /* does anything else reach a peer? */
} Peers;

static void survey_peers(IrOp *op, void *data)
{
  Peers *peers = data;
  bool reaches = ir_attribute(op, ATTR_PEER) || ir_attribute(op, ATTR_MULTICAST);
  if (op->code == OP_PUT && reaches) {
    if (!peers->put) peers->put = outermost(op);
  } else {
    peers->signals |= reaches || (op->code == OP_CLUSTER_WAIT && op != peers->wait && !peers->put);
  }
}

/* The arrival at the cluster's start, behind which the wait for it stands. */
static IrOp *start_arrive(const IrFunction *kernel)
{
  for (IrOp *op = kernel->body->first; op && op->code != OP_ROLE; op = op->next)
    if (op->code == OP_CLUSTER_ARRIVE && op->next && op->next->code == OP_CLUSTER_WAIT) return op;
  return NULL;
}

/* Where one role alone sends to peers, and does so once: the wait for the cluster's start moves from the start of the
 * kernel to the first thing sent, so that what comes before it needs no peer. The other roles wait at their end: every
 * thread that arrived also waits. `reuse`: the role that sends has arrived behind its steps: the one meeting serves both.
 * false: it stays. */
static bool delay_start(IrFunction *kernel, bool reuse)
{
  IrOp *arrive = start_arrive(kernel), *wait = arrive ? arrive->next : NULL;
  if (!wait) return false;
  Peers peers = {.wait = wait};
  unsigned puts = 0;
  for (IrOp *role = kernel->body->first; role; role = role->next) {
    if (role->code != OP_ROLE) continue;
    peers.put = NULL;
    ir_region_visit(role->regions[0], survey_peers, &peers);
    puts += peers.put != NULL && peers.put->parent == role->regions[0];
  }
  if (peers.signals || puts != 1) return false;
  for (IrOp *role = kernel->body->first; role; role = role->next) {
    if (role->code != OP_ROLE) continue;
    peers.put = NULL;
    ir_region_visit(role->regions[0], survey_peers, &peers);
    IrBuilder builder = peers.put ? ir_builder_before(peers.put) : ir_builder_at_end(role->regions[0]);
    builder.mark = wait->mark;
    if (reuse && !peers.put) ir_emit(&builder, OP_CLUSTER_ARRIVE, 0);
    ir_emit(&builder, OP_CLUSTER_WAIT, 0);
  }
  IrBuilder builder = ir_builder_before(wait);
  builder.mark = wait->mark;
  ir_emit(&builder, OP_SYNC, 0);
  if (reuse) ir_op_remove(arrive);
  ir_op_remove(wait);
  return true;
}

static void find_barriers(IrOp *op, void *data)
{
  bool *found = data; /* that there are some; that somebody has seen to them */
  found[0] |= op->code == OP_BARRIER || (op->code == OP_CHANNEL && ir_attribute(op, ATTR_FULL_ARRIVALS));
  found[1] |= op->code == OP_INIT_BARRIERS;
}

/* Barriers exist before anybody arrives there; those of peers too, which only the cluster's own barrier can tell. */
static void start_barriers(const Meetings *meetings)
{
  bool found[2] = {false, false}, several = meetings->blocks > 1;
  IrOp *role = meetings->kernel->body->first;
  while (role && role->code != OP_ROLE)
    role = role->next;
  ir_region_visit(meetings->kernel->body, find_barriers, found);
  if (!role || !found[0] || found[1]) return;
  IrBuilder builder = ir_builder_before(role);
  builder.mark = meetings->kernel->mark;
  ir_emit(&builder, OP_INIT_BARRIERS, 0);
  IrOp *meeting = ir_emit(&builder, several ? OP_CLUSTER_ARRIVE : OP_SYNC, 0);
  if (!several) return;
  ir_attribute_set(meeting, ATTR_RELAXED, NULL);
  ir_emit(&builder, OP_CLUSTER_WAIT, 0);
}

static bool loops_around(const IrOp *op)
{
  const IrOp *owner = op->parent->owner;
  while (owner && owner->code == OP_IF)
    owner = owner->parent->owner;
  return owner && owner->code != OP_ROLE;
}

static bool receive(Meetings *meetings, GError **error)
{
  bool received = false, reuse = false;
  for (IrOp *role = meetings->kernel->body->first; role; role = role->next) {
    if (role->code != OP_ROLE) continue;
    g_autoptr(GArray) mailboxes = g_array_new(FALSE, FALSE, sizeof(Mailbox));
    meetings->role = role;
    meetings->mailboxes = mailboxes;
    ir_region_visit(role->regions[0], find_mail, meetings);
    for (unsigned i = 0; i < mailboxes->len; i++) {
      const Mailbox *mailbox = &g_array_index(mailboxes, Mailbox, i);
      bool tile = mailbox->memory->code == OP_SHARED;
      if (mailbox->ordered || !mailbox->get || (tile && loops_around(mailbox->put))) continue;
      (tile ? receive_in_tile : receive_in_ring)(meetings, mailbox);
      reuse |= tile && ir_attribute(mailbox->memory, ATTR_OVERLAY);
      received = true;
    }
  }
  start_barriers(meetings);
  if (!received || delay_start(meetings->kernel, reuse) || !reuse) return true;
  error_set(error, ERROR_UNSUPPORTED, &meetings->kernel->mark, "combine", "reuse 0",
            "blocks that signal each other before they combine cannot reuse the slots of their channel");
  return false;
}

/* ---- What consumers put ---- */

typedef struct {
  const Meetings *meetings;
  GPtrArray *tiles;        /* what consumers put into */
  GPtrArray *first, *last; /* put into each, of any consumer's and all's */
} Common;

static void find_common(IrOp *op, void *data)
{
  Common *common = data;
  const IrFunction *kernel = common->meetings->kernel;
  if (op->code != OP_PUT || ir_attribute(op, ATTR_PEER)) return;
  IrOp *memory = memory_of(kernel, op->operands[0]);
  guint at;
  if (!memory || memory->code != OP_SHARED) return;
  if (g_ptr_array_find(common->tiles, memory, &at)) {
    common->last->pdata[at] = op;
    return;
  }
  g_ptr_array_add(common->tiles, memory);
  g_ptr_array_add(common->first, op);
  g_ptr_array_add(common->last, op);
}

/* Consumers that add up what each has of a tile: all of them have put it before one takes it, and have read what lies where the
 * tile does before one puts it. They meet one after the other, so one barrier does for all tiles. */
static void meet_consumers(Meetings *meetings, IrOp *role)
{
  g_autoptr(GPtrArray) tiles = g_ptr_array_new();
  g_autoptr(GPtrArray) first = g_ptr_array_new();
  g_autoptr(GPtrArray) last = g_ptr_array_new();
  Common common = {meetings, tiles, first, last};
  meetings->role = role;
  if (instances_of(role) < 2) return;
  ir_region_visit(role->regions[0], find_common, &common);
  if (!last->len) return;
  IrExpr *barrier = ir_int(meetings->module, meetings->next_barrier++);
  int64_t threads = (int64_t)ir_role_warps(role) * WARP_LANES;
  for (unsigned i = 0; i < last->len; i++) {
    IrBuilder before = ir_builder_before(outermost(first->pdata[i]));
    IrBuilder after = ir_builder_after(outermost(last->pdata[i]));
    before.mark = after.mark = ((IrOp *)last->pdata[i])->mark;
    if (ir_attribute(tiles->pdata[i], ATTR_OVERLAY)) meet(meetings, &before, barrier, threads);
    meet(meetings, &after, barrier, threads);
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

static void hand_over(Meetings *meetings, IrOp *role)
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

typedef struct {
  double most; /* bytes that an mbarrier counts */
  const IrOp *beyond;
} Announced;

static void note_announced(IrOp *op, void *data)
{
  Announced *announced = data;
  if (op->code == OP_EXPECT && (double)ir_attribute_int(op, ATTR_BYTES, 0) > announced->most)
    announced->beyond = op;
}

/* What fills a slot choose_mechanisms has checked; what blocks send each other nobody has. */
static bool check_announced(const IrFunction *kernel, const Gpu *gpu, GError **error)
{
  Announced announced = {.most = gpu_fact(gpu, "mbarrier.bytes_max")};
  ir_region_visit(kernel->body, note_announced, &announced);
  if (!announced.beyond) return true;
  error_set(error, ERROR_UNSUPPORTED, &announced.beyond->mark, "barrier-bytes",
            "fewer blocks that share a tile, or a smaller tile",
            "what blocks send each other is %" G_GINT64_FORMAT
            " bytes, more than the %.0f that an mbarrier counts",
            ir_attribute_int(announced.beyond, ATTR_BYTES, 0), announced.most);
  return false;
}

bool pass_derive_barriers(IrModule *module, const IrPassContext *context, GError **error)
{
  IrFunction *kernel = ir_kernel(module);
  if (!kernel) return true;
  Meetings meetings = {.module = module, .kernel = kernel, .blocks = 1, .next_barrier = NAMED_BARRIER_FIRST};
  const IrExpr *cluster = ir_launch_get(kernel, ATTR_CLUSTER);
  if (cluster) ir_expr_is_int(cluster, &meetings.blocks);
  if (!receive(&meetings, error)) return false;
  ir_region_visit(kernel->body, note_barrier, &meetings);
  for (IrOp *op = kernel->body->first; op; op = op->next)
    if (op->code == OP_ROLE) {
      meet_consumers(&meetings, op);
      hand_over(&meetings, op);
    }
  return check_announced(kernel, context->gpu, error);
}
