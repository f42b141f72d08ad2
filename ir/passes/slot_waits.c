#include "ir/passes/slot_waits.h"
#include "ir/facts.h"
#include "ir/mechanism.h"
#include "ir/passes/ring_barriers.h"
#include <string.h>

/* A role's cursor of a ring. */
typedef struct {
  IrOp *declared; /* CURSOR */
  bool reads, writes, steps;
} Cursor;

/* A ring whose slots a role reads. */
typedef struct {
  IrModule *module;
  const IrOp *ring;
  IrRegion *role;
  IrExpr *reader; /* the cursor of the slot at hand */
  IrExpr *free;   /* the one whose steps free slots: the reader, or what trails it */
  bool idle;      /* nothing is read: slots are only let go */
} Reading;

/* What reads a slot. */
typedef struct {
  const IrValue *cursor;
  bool loads, multiplies, steps;
} Uses;

/* ---- Which op does what ---- */

typedef struct {
  const IrValue *cursor;
  bool found;
} SlotUse;

static void find_slot(const IrExpr *expr, void *data)
{
  SlotUse *use = data;
  use->found |= expr->kind == EXPR_INDEX && expr->n > 1 && expr->items[0]->kind == EXPR_FIELD &&
                expr->items[1]->kind == EXPR_VALUE && expr->items[1]->value == use->cursor;
}

static bool names_slot(const IrExpr *operand, const IrValue *cursor)
{
  SlotUse use = {cursor, false};
  ir_expr_visit(operand, find_slot, &use);
  return use.found;
}

static bool writes_slot(const IrOp *op, const IrValue *cursor)
{
  return (op->code == OP_COPY || op->code == OP_PUT) && names_slot(op->operands[0], cursor);
}

static bool reads_slot(const IrOp *op, const IrValue *cursor)
{
  bool reads = false;
  if (op->code == OP_AWAIT) return false; /* names its barrier */
  if (op->code == OP_CLEAR) return false; /* waits by itself (clear_slots) */
  for (unsigned i = op->code == OP_COPY || op->code == OP_PUT; i < op->n_operands; i++)
    reads |= names_slot(op->operands[i], cursor);
  return reads;
}

/* Does a product of the region take from registers what an op loads? */
static bool feeds_product(const IrOp *get)
{
  for (const IrOp *op = get->next; get->code == OP_GET && op; op = op->next)
    if (ir_is_grouped_product(op) && op->operands[1]->kind == EXPR_VALUE &&
        op->operands[1]->value == get->results[0])
      return true;
  return false;
}

/* Do threads load what an op reads of slots, as they load a warp MMA's fragments? */
static bool loads_slots(const IrOp *op)
{
  return op->code == OP_MMA ? !ir_is_asynchronous_product(op) : op->code == OP_GET && !feeds_product(op);
}

static void note_use(IrOp *op, void *data)
{
  Uses *uses = data;
  uses->steps |= ir_steps_cursor(op, uses->cursor);
  if (!reads_slot(op, uses->cursor)) return;
  *(loads_slots(op) ? &uses->loads : &uses->multiplies) = true;
}

/* Of an op and what stands in it. */
static void note_uses(IrOp *op, Uses *uses)
{
  note_use(op, uses);
  for (unsigned i = 0; i < op->n_regions; i++)
    ir_region_visit(op->regions[i], note_use, uses);
}

/* ---- Waits and releases ---- */

/* Tiles that are declared for what reads the slot stand behind the wait; in a pipelined loop, where products are `late`, they
 * stand where their stage put them. */
static void await_slot(const Reading *reading, IrOp *first)
{
  while (!ir_attribute(first, ATTR_LATE) && first->previous && first->previous->code == OP_VAR)
    first = first->previous;
  IrBuilder builder = ir_builder_before(first);
  builder.mark = first->mark;
  IrOp *await =
      ir_emit(&builder, OP_AWAIT, 1, ring_barrier(reading->module, reading->ring, "full", reading->reader));
  ir_attribute_set(await, ATTR_PARITY, ir_field(reading->module, reading->reader, "phase"));
}

/* A loop over slots that are left as they are (skip_steps). */
static bool only_steps(const IrRegion *region)
{
  bool steps = region->owner && region->owner->code == OP_FOR && region->first;
  for (const IrOp *op = region->first; steps && op; op = op->next)
    steps = op->code == OP_ADVANCE || op->code == OP_CLEAR || op->code == OP_AWAIT || op->code == OP_ARRIVE;
  return steps;
}

static void await_slots(const Reading *reading, IrRegion *region)
{
  bool waited = false, left = reading->idle || only_steps(region);
  for (IrOp *op = region->first; op; op = op->next) {
    Uses uses = {.cursor = reading->reader->value};
    note_uses(op, &uses);
    if (uses.steps && op->n_regions) {
      for (unsigned i = 0; i < op->n_regions; i++)
        await_slots(reading, op->regions[i]);
      waited = false;
    } else if (uses.steps) {
      if (left) await_slot(reading, op);
      waited = false;
    } else if ((uses.loads || uses.multiplies) && !waited) {
      await_slot(reading, op);
      waited = true;
    }
  }
}

/* `loaded`: threads have. */
static void free_slot(const Reading *reading, IrOp *step, bool loaded)
{
  const IrOp *ring = reading->ring;
  IrBuilder builder = ir_builder_before(step);
  builder.mark = step->mark;
  if (loaded) ir_emit(&builder, OP_SYNC_WARP, 0); /* one lane tells what all have read */
  IrOp *arrive = ir_emit(&builder, OP_ARRIVE, 1, ring_barrier(reading->module, ring, "empty", reading->free));
  IrExpr *by = ir_attribute_value(ring, ATTR_BY);
  ir_attribute_set(arrive, ATTR_BY, by ? by : ir_name(reading->module, mechanism_issue_name(ISSUE_WARP)));
  const IrAttributeKey told[] = {ATTR_PEER, ATTR_CLUSTER_N, ATTR_RELAXED};
  for (unsigned i = 0; i < G_N_ELEMENTS(told); i++)
    if (ir_attribute(ring, told[i])) ir_attribute_set(arrive, told[i], ir_attribute_value(ring, told[i]));
}

static void free_slots(const Reading *reading, IrRegion *region, const Uses *all)
{
  Uses uses = {.cursor = reading->reader->value};
  for (IrOp *op = region->first; op; op = op->next) {
    note_uses(op, &uses);
    for (unsigned i = 0; i < op->n_regions; i++)
      free_slots(reading, op->regions[i], all);
    if (!ir_steps_cursor(op, reading->free->value)) continue;
    const Uses *here = uses.loads || uses.multiplies ? &uses : all;
    free_slot(reading, op, here->loads);
    uses.loads = uses.multiplies = false;
  }
}

/* ---- Loads of what the engine has filled ---- */

static void fence_behind(IrOp *op)
{
  IrBuilder after = ir_builder_after(op);
  after.mark = op->mark;
  ir_emit(&after, OP_FENCE, 1, ir_name(op->parent->function->module, "async_shared"));
}

static bool is_filled_by_engine(const IrFunction *kernel, const IrExpr *access)
{
  IrOp *ring = NULL;
  return ir_slot_of(kernel, access, &ring) && ir_attribute(ring, ATTR_FULL_BYTES);
}

void slot_fence_operands(IrRegion *region)
{
  for (IrOp *op = region->first; op; op = op->next) {
    if (!feeds_product(op) || !op->operands[0]->n ||
        !is_filled_by_engine(region->function, op->operands[0]->items[0]))
      continue;
    const IrOp *later = op->next;
    while (later &&
           !(feeds_product(later) && ir_expr_equal(later->operands[0]->items[0], op->operands[0]->items[0])))
      later = later->next;
    if (!later) fence_behind(op);
  }
}

/* ---- Which rings ---- */

static void sign(const Reading *reading)
{
  Uses all = {.cursor = reading->reader->value};
  ir_region_visit(reading->role, note_use, &all);
  await_slots(reading, reading->role);
  free_slots(reading, reading->role, &all);
}

typedef struct {
  const IrOp *ring;
  GArray *cursors; /* Cursor */
  bool is_signed;  /* the text waits or arrives itself */
} Ring;

static bool is_barrier_of(const IrExpr *barrier, const IrOp *ring)
{
  while (barrier->n)
    barrier = barrier->items[0];
  return barrier->kind == EXPR_SYMBOL && g_str_equal(barrier->name, ring->symbol);
}

static void note_ring_use(IrOp *op, void *data)
{
  Ring *ring = data;
  ring->is_signed |=
      (op->code == OP_AWAIT || op->code == OP_ARRIVE) && is_barrier_of(op->operands[0], ring->ring);
  for (unsigned i = 0; i < ring->cursors->len; i++) {
    Cursor *cursor = &g_array_index(ring->cursors, Cursor, i);
    const IrValue *value = cursor->declared->results[0];
    cursor->reads |= reads_slot(op, value);
    cursor->writes |= writes_slot(op, value);
    cursor->steps |= ir_steps_cursor(op, value);
  }
  if (op->code != OP_CURSOR || !is_barrier_of(op->operands[0], ring->ring)) return;
  Cursor cursor = {.declared = op};
  g_array_append_val(ring->cursors, cursor);
}

/* The only cursor of a kind, or NULL: those that read, or those that only step. */
static const Cursor *only_cursor(const Ring *ring, bool reads)
{
  const Cursor *only = NULL;
  for (unsigned i = 0; i < ring->cursors->len; i++) {
    const Cursor *cursor = &g_array_index(ring->cursors, Cursor, i);
    if (cursor->writes || !cursor->steps || cursor->reads != reads) continue;
    if (only) return NULL;
    only = cursor;
  }
  return only;
}

static void sign_ring(IrFunction *kernel, IrRegion *role, const IrOp *channel, GArray *readers)
{
  IrModule *module = kernel->module;
  g_autoptr(GArray) cursors = g_array_new(false, false, sizeof(Cursor));
  Ring ring = {channel, cursors, false};
  ir_region_visit(role, note_ring_use, &ring);
  const Cursor *reader = only_cursor(&ring, true), *free = only_cursor(&ring, false);
  if (ring.is_signed || (!reader && !free)) return;
  bool idle = !reader;
  if (idle) reader = free;
  Reading reading = {.module = module,
                     .ring = channel,
                     .role = role,
                     .idle = idle,
                     .reader = ir_value(module, reader->declared->results[0])};
  reading.free = free ? ir_value(module, free->declared->results[0]) : reading.reader;
  sign(&reading);
  SlotReader signed_here = {role, channel};
  g_array_append_val(readers, signed_here);
}

void slot_waits(IrFunction *kernel, GArray *readers)
{
  for (IrOp *role = kernel->body->first; role; role = role->next)
    for (const IrOp *ring = kernel->body->first; role->code == OP_ROLE && ring; ring = ring->next)
      if (ring->code == OP_CHANNEL && ir_attribute(ring, ATTR_EMPTY_ARRIVALS))
        sign_ring(kernel, role->regions[0], ring, readers);
}

/* ---- Fences of what threads have loaded ---- */

typedef struct {
  const SlotReader *reader;
  bool loads;
} Loaded;

static void note_loaded(IrOp *op, void *data)
{
  Loaded *loaded = data;
  const IrFunction *kernel = op->parent->function;
  for (unsigned i = 0; loads_slots(op) && i < op->n_operands; i++) {
    IrOp *ring = NULL;
    bool reads = ir_slot_of(kernel, op->operands[i], &ring) && ring == loaded->reader->ring;
    loaded->loads |= reads && is_filled_by_engine(kernel, op->operands[i]);
  }
}

static bool names_empty(const IrExpr *barrier)
{
  while (barrier->kind == EXPR_INDEX)
    barrier = barrier->items[0];
  return barrier->kind == EXPR_FIELD && g_str_equal(barrier->name, "empty");
}

static void fence_release(IrOp *op, void *data)
{
  const SlotReader *reader = data;
  if (op->code != OP_ARRIVE || !names_empty(op->operands[0]) || !is_barrier_of(op->operands[0], reader->ring))
    return;
  IrOp *first = op->previous && op->previous->code == OP_SYNC_WARP ? op->previous : op;
  const IrOp *issued =
      first->previous && first->previous->code == OP_WAIT_GROUP ? first->previous->previous : NULL;
  if (issued && issued->code == OP_COMMIT)
    first = first->previous; /* while the product runs it costs nothing */
  IrBuilder before = ir_builder_before(first);
  before.mark = op->mark;
  ir_emit(&before, OP_FENCE, 1, ir_name(op->parent->function->module, "async_shared"));
}

void slot_fence_releases(const GArray *readers)
{
  for (unsigned i = 0; i < readers->len; i++) {
    Loaded loaded = {&g_array_index(readers, SlotReader, i), false};
    ir_region_visit(loaded.reader->role, note_loaded, &loaded);
    if (loaded.loads) ir_region_visit(loaded.reader->role, fence_release, (void *)loaded.reader);
  }
}
