#include "ir/passes/meetings.h"
#include "ir/facts.h"

/* A walk of the role notes which slots have been written and read since the block last met, and where it lacks a barrier.
 *
 * Two accesses of a tile of a ring meet in one slot unless the distance of their cursors is known to be none of so many slots.
 * A cursor is at a number of steps from an origin: where a loop begins it is at one that nobody knows, the same for all that go
 * on by as many steps an iteration. Loops are walked twice, so that an iteration finds what the one before it has left, and a
 * third time, distances unknown, where the block does not meet in them. Of loops known to be short each iteration is walked; those
 * within many others once, as if an iteration before had left all of its accesses.
 * What a slot holds is read before it is written again, so writes only meet reads; but a loop that reads it need not run: an op that
 * fills a whole slot meets what it has written itself, in an iteration before. (Dependences and their distances: Midkiff,
 * Padua, "Compiler algorithms for synchronization", IEEE Trans. Computers C-36(12), 1987.) */

#define NESTED_MOST 4  /* loops within one another that are walked several times each */
#define SHORT_LOOP  16 /* iterations that are walked one by one: fills that run ahead */

enum { UNKNOWN, BEGINNING }; /* origins; further ones are numbered as loops begin */

typedef struct {
  const IrOp *op, *channel, *slot;
  bool writes, whole; /* whole: it writes all of the slot */
  unsigned origin;
  int64_t steps;
} Access;

typedef struct {
  const IrValue *cursor;
  unsigned origin;
  int64_t steps;
} Position;

typedef struct {
  const IrFunction *kernel;
  GArray *pending;         /* Access: since the block has met */
  GArray *positions;       /* Position */
  unsigned origins, depth; /* depth: of loops */
  bool met;
  IrOp *lacking; /* the op in front of which the block has to meet, or NULL */
} Walk;

static void walk_region(Walk *walk, const IrRegion *region);

static bool in_region(const IrOp *op, const IrRegion *region)
{
  while (op && op->parent != region)
    op = op->parent->owner;
  return op != NULL;
}

/* The op around `later`, or it itself, in the innermost region that has `earlier` too. */
static IrOp *beside(const IrOp *earlier, IrOp *later)
{
  while (!in_region(earlier, later->parent))
    later = later->parent->owner;
  return later;
}

static Position *position_of(const Walk *walk, const IrValue *cursor)
{
  for (unsigned i = 0; i < walk->positions->len; i++) {
    Position *position = &g_array_index(walk->positions, Position, i);
    if (position->cursor == cursor) return position;
  }
  return NULL;
}

static bool may_meet(const Access *a, const Access *b)
{
  int64_t slots = ir_attribute_int(a->channel, ATTR_SLOTS, 1);
  if (a->slot != b->slot || (a->writes == b->writes && (a->op != b->op || !a->whole))) return false;
  return a->origin != b->origin || a->origin == UNKNOWN || (a->steps - b->steps) % slots == 0;
}

static bool is_noted(const Walk *walk, const Access *access)
{
  for (unsigned i = 0; i < walk->pending->len; i++) {
    const Access *other = &g_array_index(walk->pending, Access, i);
    if (other->op == access->op && other->slot == access->slot && other->writes == access->writes &&
        other->origin == access->origin && other->steps == access->steps)
      return true;
  }
  return false;
}

/* What the op does to a slot that an operand names; false: it names none. */
static bool access_of(const Walk *walk, const IrOp *op, unsigned operand, Access *access)
{
  const IrExpr *expr = ir_untransposed(op->operands[operand]);
  IrOp *channel = NULL;
  const IrOp *slot = ir_slot_of(walk->kernel, expr, &channel);
  const IrExpr *cursor = slot ? ir_slot_cursor(expr) : NULL;
  const Position *position = cursor ? position_of(walk, cursor->value) : NULL;
  bool writes = operand == 0 && (op->code == OP_COPY || op->code == OP_PUT);
  IrType part = {0};
  if (slot && writes) part = ir_expr_type(walk->kernel, expr);
  *access = (Access){.op = op,
                     .channel = channel,
                     .slot = slot,
                     .writes = writes,
                     .whole = slot && writes && part.kind == TYPE_TILE &&
                              ir_tile_elements(&part) == ir_tile_elements(slot->declared),
                     .origin = position ? position->origin : UNKNOWN,
                     .steps = position ? position->steps : 0};
  return slot != NULL;
}

static void note_accesses(Walk *walk, IrOp *op)
{
  Access access;
  for (unsigned i = 0; i < op->n_operands; i++) {
    if (!access_of(walk, op, i, &access)) continue;
    for (unsigned j = 0; j < walk->pending->len && !walk->lacking; j++) {
      const Access *other = &g_array_index(walk->pending, Access, j);
      if (may_meet(other, &access)) walk->lacking = beside(other->op, op);
    }
  }
  for (unsigned i = 0; i < op->n_operands; i++)
    if (access_of(walk, op, i, &access) && !is_noted(walk, &access))
      g_array_append_val(walk->pending, access);
}

/* ---- Loops and conditions ---- */

/* Those of regions within, too. */
static unsigned steps_within(const IrRegion *region, const IrValue *cursor)
{
  unsigned steps = ir_count_steps(region, cursor);
  for (const IrOp *op = region->first; op; op = op->next)
    for (unsigned i = 0; i < op->n_regions; i++)
      steps += steps_within(op->regions[i], cursor);
  return steps;
}

/* Cursors that a loop moves are anywhere: those that move alike from one origin stay as far apart as they are. */
static void begin_loop(Walk *walk, const IrRegion *body)
{
  unsigned n = walk->positions->len;
  const Position *before = (const Position *)(const void *)walk->positions->data;
  g_autofree Position *old = g_memdup2(before, MAX(1, n) * sizeof *old);
  for (unsigned i = 0; i < n; i++) {
    Position *position = &g_array_index(walk->positions, Position, i);
    unsigned steps = ir_count_steps(body, old[i].cursor), all = steps_within(body, old[i].cursor), j = 0;
    if (!all) continue;
    while (j < i &&
           (steps != all || old[j].origin != old[i].origin || ir_count_steps(body, old[j].cursor) != steps ||
            steps_within(body, old[j].cursor) != all))
      j++;
    position->origin = j < i ? g_array_index(walk->positions, Position, j).origin : ++walk->origins;
  }
}

/* What an iteration moves in a way of its own is anywhere in the next one. */
static void end_iteration(Walk *walk, const IrRegion *body)
{
  for (unsigned i = 0; i < walk->positions->len; i++) {
    Position *position = &g_array_index(walk->positions, Position, i);
    if (steps_within(body, position->cursor) != ir_count_steps(body, position->cursor))
      position->origin = ++walk->origins;
  }
}

static void forget_distances(const Walk *walk)
{
  for (unsigned i = 0; i < walk->pending->len; i++)
    g_array_index(walk->pending, Access, i).origin = UNKNOWN;
}

/* What was pending on another path is pending behind both. */
static void join(Walk *walk, const GArray *other)
{
  for (unsigned i = 0; i < other->len; i++) {
    const Access *access = &g_array_index(other, Access, i);
    if (!is_noted(walk, access)) g_array_append_val(walk->pending, *access);
  }
}

static bool has_loop(const IrRegion *region)
{
  for (const IrOp *op = region->first; op; op = op->next) {
    if (op->code == OP_FOR || op->code == OP_LOOP) return true;
    for (unsigned i = 0; i < op->n_regions; i++)
      if (has_loop(op->regions[i])) return true;
  }
  return false;
}

/* All that the op does is pending, at distances that nobody knows. */
static void note_anywhere(IrOp *op, void *data)
{
  Walk *walk = data;
  Access access;
  for (unsigned i = 0; i < op->n_operands; i++) {
    if (!access_of(walk, op, i, &access)) continue;
    access.origin = UNKNOWN;
    if (!is_noted(walk, &access)) g_array_append_val(walk->pending, access);
  }
}

static void walk_inner(Walk *walk, const IrRegion *body)
{
  begin_loop(walk, body);
  ir_region_visit((IrRegion *)body, note_anywhere, walk);
  walk_region(walk, body);
  end_iteration(walk, body);
}

static void walk_iterations(Walk *walk, const IrRegion *body)
{
  begin_loop(walk, body);
  for (unsigned pass = 0; pass < 3 && !walk->lacking; pass++) {
    if (pass == 2) forget_distances(walk);
    walk->met = false;
    walk_region(walk, body);
    end_iteration(walk, body);
    if (pass == 1 && walk->met) break;
  }
}

static void walk_loop(Walk *walk, const IrOp *loop)
{
  const IrRegion *body = loop->regions[0];
  int64_t trips = loop->code == OP_FOR ? ir_trip_count(loop) : 0; /* 0: nobody knows */
  if (trips > 0 && trips <= SHORT_LOOP && !has_loop(body)) {
    while (trips--)
      walk_region(walk, body);
    return;
  }
  g_autoptr(GArray) around = g_array_copy(walk->pending);
  walk->depth++;
  if (walk->depth > NESTED_MOST)
    walk_inner(walk, body);
  else
    walk_iterations(walk, body);
  walk->depth--;
  join(walk, around);
}

static void walk_condition(Walk *walk, const IrOp *op)
{
  g_autoptr(GArray) before = g_array_copy(walk->pending), there = g_array_copy(walk->positions);
  bool met = walk->met;
  walk_region(walk, op->regions[0]);
  if (op->n_regions > 1) {
    g_autoptr(GArray) first = g_array_copy(walk->pending);
    g_array_set_size(walk->pending, 0);
    g_array_append_vals(walk->pending, before->data, before->len);
    walk_region(walk, op->regions[1]);
    join(walk, first);
  } else {
    join(walk, before);
  }
  walk->met = met;
  for (unsigned i = 0; i < there->len; i++)
    if (g_array_index(there, Position, i).steps != g_array_index(walk->positions, Position, i).steps)
      g_array_index(walk->positions, Position, i).origin = ++walk->origins;
}

/* ---- The walk ---- */

static void walk_op(Walk *walk, IrOp *op)
{
  Position *position = op->code == OP_ADVANCE  ? position_of(walk, op->operands[0]->value)
                       : op->code == OP_CURSOR ? position_of(walk, op->results[0])
                                               : NULL;
  Position begins = {.cursor = op->n_results ? op->results[0] : NULL, .origin = BEGINNING};
  switch (op->code) {
  case OP_SYNC:
    g_array_set_size(walk->pending, 0);
    walk->met = true;
    break;
  case OP_CURSOR:
    if (position)
      *position = begins;
    else
      g_array_append_val(walk->positions, begins);
    break;
  case OP_ADVANCE:
    if (position) position->steps++;
    break;
  case OP_FOR:
  case OP_LOOP: walk_loop(walk, op); break;
  case OP_IF: walk_condition(walk, op); break;
  default: note_accesses(walk, op);
  }
}

static void walk_region(Walk *walk, const IrRegion *region)
{
  for (IrOp *op = region->first; op && !walk->lacking; op = op->next)
    walk_op(walk, op);
}

/* Where the role lacks a barrier, or NULL. */
static IrOp *find_lacking(const IrFunction *kernel, const IrRegion *body)
{
  g_autoptr(GArray) pending = g_array_new(false, false, sizeof(Access));
  g_autoptr(GArray) positions = g_array_new(false, false, sizeof(Position));
  Walk walk = {.kernel = kernel, .pending = pending, .positions = positions, .origins = BEGINNING};
  walk_region(&walk, body);
  return walk.lacking;
}

/* Is a barrier one too many, now that others have been found? Then it goes. */
static void drop_if_needless(const IrFunction *kernel, IrRegion *body, IrOp *sync)
{
  IrOp *next = sync->next;
  ir_op_remove(sync);
  if (!find_lacking(kernel, body)) return;
  IrBuilder builder = ir_builder_before(next);
  builder.mark = sync->mark;
  ir_emit(&builder, OP_SYNC, 0);
}

void meetings_derive(const IrFunction *kernel, IrRegion *body)
{
  g_autoptr(GPtrArray) syncs = g_ptr_array_new();
  for (IrOp *op; (op = find_lacking(kernel, body));) {
    IrBuilder builder = ir_builder_before(op);
    builder.mark = op->mark;
    g_ptr_array_add(syncs, ir_emit(&builder, OP_SYNC, 0));
  }
  for (unsigned i = 0; i < syncs->len; i++)
    drop_if_needless(kernel, body, syncs->pdata[i]);
}
