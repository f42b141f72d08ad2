/* derive_waits: groups are closed, waited for and fenced where their results or sources are needed.
 *
 * needs  STAGED from split_roles: copies, puts, gets, products and steps of rings in program order, no commits or waits
 * gives  for each slot of a ring that the engine fills: an await until it is empty, the bytes announced, the barrier at which
 *        the copies count them, and a drain where peers release it; for one that a role fills with values: that await, and
 *        behind the last put an arrival of each warp, with a fence where products read the slot asynchronously; for one that a role
 *        reads: an await in front of the first reader, and an arrival in front of the step that frees it (slot_waits.c); turns of
 *        products `in_turn` (turns.c); commit and wait_group for asynchronous copies and products (or, where products arrive at a barrier when they
 *        are done, that barrier and its awaits), the fences of products and behind loads of their operands, slots
 *        released after the wait that covers their last reader; where several blocks take a product, a barrier at which
 *        they say that their slots are full
 * breaks nothing
 *
 * Async copies of a thread complete in order, so before iteration i reads its slot all groups but the last
 * (groups ahead - 1) must be done. A loop that chains products into one accumulator keeps one group in
 * flight: the slot of iteration i - 1 is released in iteration i, behind wait_group 1, by a cursor that
 * trails the reader's. Otherwise the slot is released right behind the wait. (Tried with ptxas: such a chain
 * over the back edge is not serialised; an accumulator that other instructions touch within the loop would
 * be, so then the group is drained in its own iteration.)
 *
 * Products of a pipelined loop (write_pipelines) are waited for late, where their sum or operand is touched next.
 *
 * A sum that starts at zero is not cleared: the loop's first product counts the old value as 0. Clearing
 * takes a warp an instruction for two registers, 64 to 96 of them, between a tile's results and the next
 * tile's products. For the same reason numbers that only the results need move behind the loop.
 */
#include "ir/facts.h"
#include "ir/mechanism.h"
#include "ir/pass.h"
#include "ir/passes/clear_slots.h"
#include "ir/passes/late_waits.h"
#include "ir/passes/product_phases.h"
#include "ir/passes/ring_barriers.h"
#include "ir/passes/slot_waits.h"
#include "ir/passes/trailing.h"
#include "ir/passes/turns.h"
#include <string.h>

typedef struct {
  IrModule *module;
  const CostModel *model;
  ProductPhases phases; /* of products that arrive at a barrier */
  GHashTable *
      filled; /* IrOp* -> IrExpr*: channels that the engine fills, and the cursors of who starts the copies */
  GHashTable *
      trailing; /* IrValue* -> IrExpr*: readers' cursors, and those one step behind that release their slots */
} Waits;

static IrOp *emit_group(Waits *waits, IrBuilder *builder, IrOpcode code, const char *kind, int pending)
{
  IrOp *op = ir_emit(builder, code, 1, ir_name(waits->module, kind));
  if (code == OP_WAIT_GROUP) ir_attribute_set(op, ATTR_PENDING, ir_int(waits->module, pending));
  return op;
}

/* ---- Async copies ---- */

/* An async copy, or a condition around some: a group may be empty. */
static bool copies(const IrOp *op)
{
  bool found = ir_is_grouped_copy(op);
  for (const IrOp *inner = op->code == OP_IF ? op->regions[0]->first : NULL; inner && !found;
       inner = inner->next)
    found = ir_is_grouped_copy(inner);
  return found;
}

/* Closes a group after each run of async copies; returns how many runs the region holds. */
static unsigned commit_copies(Waits *waits, IrRegion *region)
{
  unsigned runs = 0;
  for (IrOp *op = region->first; op; op = op->next) {
    if (!copies(op) || (op->next && copies(op->next))) continue;
    IrBuilder builder = ir_builder_after(op);
    builder.mark = op->mark;
    emit_group(waits, &builder, OP_COMMIT, "copies", 0);
    runs++;
  }
  return runs;
}

static void wait_before_sync(Waits *waits, IrOp *sync, int64_t pending)
{
  IrBuilder builder = ir_builder_before(sync);
  builder.mark = sync->mark;
  emit_group(waits, &builder, OP_WAIT_GROUP, "copies", (int)pending);
}

/* Does the region step over the slots that a copy of it fills? Then it runs ahead of those who read them. */
static bool runs_ahead(const IrRegion *region)
{
  for (const IrOp *op = region->first; op; op = op->next)
    for (const IrOp *copy = region->first; op->code == OP_ADVANCE && copy; copy = copy->next)
      if (ir_is_grouped_copy(copy) && ir_op_uses((IrOp *)copy, op->operands[0]->value)) return true;
  return false;
}

/* Is what is copied in the region read behind a barrier in it, nothing running ahead? */
static bool copies_meet(const IrRegion *region)
{
  bool copied = false;
  for (const IrOp *op = region->first; op; op = op->next) {
    if (copied && op->code == OP_SYNC) return !runs_ahead(region);
    copied |= ir_is_grouped_copy(op);
  }
  return false;
}

/* Closes the group of the last copy before another op, unless it has been. */
static bool commit_here(Waits *waits, IrOp *copy)
{
  if (!ir_is_grouped_copy(copy) ||
      (copy->next && (ir_is_grouped_copy(copy->next) || copy->next->code == OP_COMMIT)))
    return false;
  IrBuilder builder = ir_builder_after(copy);
  builder.mark = copy->mark;
  emit_group(waits, &builder, OP_COMMIT, "copies", 0);
  return true;
}

/* Does the region copy into a slot that it reads in the same iteration, beside copies that run ahead? */
static bool copies_at_hand(const IrRegion *region)
{
  for (const IrOp *op = region->first; op; op = op->next) {
    const IrExpr *cursor = ir_is_grouped_copy(op) ? ir_slot_cursor(op->operands[0]) : NULL;
    if (cursor && !ir_count_steps(region, cursor->value)) return true;
  }
  return false;
}

typedef struct {
  Waits *waits;
  int64_t pending; /* groups that run ahead, behind the barrier with which an iteration begins */
  const IrOp *all; /* that barrier, where the others are also what copies of the iteration itself wait for */
  bool meets;
} Meeting;

static void wait_at(IrOp *op, void *data)
{
  Meeting *meeting = data;
  if (op->code != OP_SYNC) return;
  wait_before_sync(meeting->waits, op, meeting->all && op != meeting->all ? 0 : meeting->pending);
  meeting->meets = true;
}

static void find_meeting(IrOp *op, void *data)
{
  bool *found = data; /* copies, barriers */
  found[0] |= ir_is_grouped_copy(op);
  found[1] |= op->code == OP_SYNC;
}

/* Does the block meet in the loop, and nothing there is copied whose wait would cover what has been copied before it? */
static bool meets_without_copies(IrOp *loop)
{
  bool found[2] = {false, false};
  ir_region_visit(loop->regions[0], find_meeting, found);
  return found[1] && !found[0];
}

/* Copies in front of a loop whose barriers they have to have come before: as the tile of rows that a loop reads in each
 * iteration, beside tiles that threads load and store. closed: their group is. */
static void wait_before_loop(Waits *waits, IrOp *loop, bool closed)
{
  IrBuilder builder = ir_builder_before(loop);
  builder.mark = loop->mark;
  if (!closed) emit_group(waits, &builder, OP_COMMIT, "copies", 0);
  emit_group(waits, &builder, OP_WAIT_GROUP, "copies", 0);
}

/* A loop that waits for what it copies need not run, and then nobody has come to what was copied in front of it, as rows whose
 * sequence has no keys: where tiles are walked, that has landed before the next tile's copies go there. */
static void wait_behind_loop(Waits *waits, IrOp *loop)
{
  int64_t first, last;
  bool runs =
      ir_expr_is_int(loop->operands[0], &first) && ir_expr_is_int(loop->operands[1], &last) && first < last;
  const IrOp *around = loop->parent->owner;
  if (runs || !around || (around->code != OP_LOOP && around->code != OP_FOR)) return;
  IrBuilder builder = ir_builder_after(loop);
  builder.mark = loop->mark;
  emit_group(waits, &builder, OP_COMMIT, "copies", 0);
  emit_group(waits, &builder, OP_WAIT_GROUP, "copies", 0);
}

/* prologue loop (n groups ahead); in front of the steady loop perhaps the barrier behind which its first slot is read; the
 * steady loop, each of whose barriers stands in front of a slot's reads; and the barrier behind it; or copies, and the
 * barrier behind which they are read, in the region or in a loop behind them.
 */
static void wait_copies(Waits *waits, IrRegion *region)
{
  int64_t ahead = 0; /* groups */
  unsigned each = 1; /* of them of one slot: more than one where other copies stand between async ones */
  bool draining = false, meet = copies_meet(region), open = false;
  for (IrOp *op = region->first; op; op = op->next) {
    open |= ir_is_grouped_copy(op);
    if (op->code == OP_SYNC && draining) {
      wait_before_sync(waits, op, 0);
      draining = false;
      open &= !meet;
    } else if (op->code == OP_SYNC && ahead) {
      wait_before_sync(waits, op, MAX(0, ahead - each));
    }
    draining |= meet && commit_here(waits, op);
    if (op->code != OP_FOR) continue;
    if (open && meets_without_copies(op)) {
      wait_before_loop(waits, op, meet);
      open = false;
      draining &= !meet;
    }
    IrRegion *body = op->regions[0];
    if (body->first && body->first->code != OP_SYNC && copies_meet(body)) { /* seen to by itself */
      if (open && !draining) wait_behind_loop(waits, op);
      continue;
    }
    unsigned runs = commit_copies(waits, body);
    if (!runs) continue;
    each = runs;
    Meeting meeting = {waits, MAX(0, ahead - each), copies_at_hand(body) ? body->first : NULL, false};
    ir_region_visit(body, wait_at, &meeting);
    if (!meeting.meets) {
      ahead += ir_trip_count(op) * runs;
      continue;
    }
    draining = true;
    ahead = 0;
  }
}

/* May copies be left behind the region that no op of `code` - a commit, or a wait for all - has come to, if they are, or are
 * not, in front of it? Loops and conditions need not run. */
static bool leaves_copies(const IrRegion *region, IrOpcode code, bool before)
{
  bool left = before;
  int64_t pending = 0;
  for (const IrOp *op = region->first; op; op = op->next) {
    left |= ir_is_grouped_copy(op);
    if (op->code == code && op->operands[0]->kind == EXPR_NAME && !strcmp(op->operands[0]->name, "copies") &&
        (code == OP_COMMIT || ir_expr_is_int(ir_attribute_value(op, ATTR_PENDING), &pending)) && pending == 0)
      left = false;
    for (unsigned i = 0; i < op->n_regions; i++)
      left |= leaves_copies(op->regions[i], code, left);
  }
  return left;
}

/* Shared memory lives as long as what is copied there: copies that nobody has come to read are waited for, too. */
static void drain_copies(Waits *waits, IrOp *role)
{
  if (!leaves_copies(role->regions[0], OP_WAIT_GROUP, false)) return;
  IrBuilder builder = ir_builder_at_end(role->regions[0]);
  builder.mark = role->mark;
  if (leaves_copies(role->regions[0], OP_COMMIT, false)) emit_group(waits, &builder, OP_COMMIT, "copies", 0);
  emit_group(waits, &builder, OP_WAIT_GROUP, "copies", 0);
}

/* ---- warpgroup MMAs ---- */

static bool mentions(const IrExpr *expr, const IrValue *value)
{
  if (expr->kind == EXPR_VALUE) return expr->value == value;
  for (unsigned i = 0; i < expr->n; i++)
    if (mentions(expr->items[i], value)) return true;
  return false;
}

/* true if nothing but the product itself touches the accumulator in the loop's body. */
static bool chains(const IrRegion *body, const IrOp *product)
{
  const IrValue *acc = product->operands[0]->value;
  for (const IrOp *op = body->first; op; op = op->next) {
    if (op == product) continue;
    if (op->n_regions) return false;
    for (unsigned i = 0; i < op->n_operands; i++)
      if (mentions(op->operands[i], acc)) return false;
  }
  return true;
}

/* An arrival that frees a slot, not one that tells that it is full. */
static bool releases(const IrOp *op)
{
  if (op->code != OP_ARRIVE) return false;
  const IrExpr *barrier = op->operands[0]->kind == EXPR_INDEX ? op->operands[0]->items[0] : op->operands[0];
  return barrier->kind != EXPR_FIELD || strcmp(barrier->name, "full");
}

static IrOp *release_after(IrOp *product)
{
  for (IrOp *op = product->next; op; op = op->next)
    if (releases(op)) return op;
  return NULL;
}

/* Where one release has been found, that of the other slot that the product reads, or NULL. */
static IrOp *next_release(const IrOp *product, const IrOp *release)
{
  for (IrOp *op = release ? release->next : NULL; op && !ir_is_grouped_product(op); op = op->next) {
    bool frees =
        releases(op) && op->operands[0]->kind == EXPR_INDEX && op->operands[0]->items[1]->kind == EXPR_VALUE;
    for (unsigned i = 1; frees && i < product->n_operands; i++)
      if (mentions(product->operands[i], op->operands[0]->items[1]->value)) return op;
  }
  return NULL;
}

static void copy_attributes(IrOp *to, const IrOp *from)
{
  for (unsigned i = 0; i < from->n_attributes; i++)
    ir_attribute_set(to, from->attributes[i].key, from->attributes[i].value);
}

/* Loops that take slots of one ring in turn release them by one cursor, which goes on where the loop before left it. */
static IrExpr *trailing_of(Waits *waits, const IrExpr *reader)
{
  IrExpr *trailing = g_hash_table_lookup(waits->trailing, reader->value);
  if (trailing) return trailing;
  trailing = trailing_cursor(waits->module, reader);
  g_hash_table_insert(waits->trailing, reader->value, trailing);
  return trailing;
}

/* The release moves behind the wait of the next iteration; the last one behind the loop. */
static void release_late(Waits *waits, IrOp *loop, IrOp *release)
{
  IrModule *module = waits->module;
  IrExpr *reader = release->operands[0]->items[1];
  IrExpr *trailing = trailing_of(waits, reader);
  IrExpr *barrier = ir_index(module, release->operands[0]->items[0], 1, trailing);
  IrBuilder builder = ir_builder_before(release);
  builder.mark = release->mark;
  IrOp *later = ir_emit(
      &builder, OP_IF, 1,
      ir_binary(module, OPERATOR_GT, ir_value(module, loop->regions[0]->arguments[0]), loop->operands[0]));
  IrBuilder inner = ir_builder_at_end(ir_region_add(later));
  inner.mark = release->mark;
  IrOp *arrive = ir_emit(&inner, OP_ARRIVE, 1, barrier);
  copy_attributes(arrive, release);
  ir_emit(&inner, OP_ADVANCE, 1, trailing);
  ir_op_remove(release);

  IrBuilder after = trailing_place(loop);
  IrOp *any = ir_emit(&after, OP_IF, 1, ir_binary(module, OPERATOR_GT, loop->operands[1], loop->operands[0]));
  inner = ir_builder_at_end(ir_region_add(any));
  inner.mark = loop->mark;
  arrive = ir_emit(&inner, OP_ARRIVE, 1, barrier);
  copy_attributes(arrive, release);
  ir_emit(&inner, OP_ADVANCE, 1, trailing);
  /* The assembler would compute all of the epilogue first, while the producer waits for the slot. */
  ir_emit(&after, OP_FENCE, 1, ir_name(module, "schedule"));
}

/* What is in flight when a chain ends is done before the last release and whoever reads the accumulator. */
static void wait_behind(Waits *waits, IrOp *loop)
{
  IrBuilder after = trailing_place(loop);
  emit_group(waits, &after, OP_WAIT_GROUP, "products", 0);
}

/* The slot is free as soon as the product that read it is done: what stands between and does not touch the
 * slot, a sum of partial sums say, need not hold up the producer. */
static void release_early(IrOp *wait, IrOp *release)
{
  const IrValue *reader = release->operands[0]->items[1]->value;
  for (const IrOp *op = wait->next; op && op != release; op = op->next) {
    if (op->n_regions) return;
    for (unsigned i = 0; i < op->n_operands; i++)
      if (mentions(op->operands[i], reader)) return;
  }
  ir_op_move(release, wait->parent, wait->next);
}

static void find_variable(const IrExpr *expr, void *data)
{
  *(bool *)data |= expr->kind == EXPR_VALUE && expr->value->variable;
}

/* A number that is the same behind the loop, where alone it is used. */
static bool waits_for_loop(IrOp *op, const IrOp *loop)
{
  bool varies = false;
  if (op->code != OP_LET) return false;
  ir_expr_visit(op->operands[0], find_variable, &varies);
  for (IrOp *next = op->next; !varies && next; next = next->next) {
    varies = ir_op_uses(next, op->results[0]);
    if (next == loop) break;
  }
  return !varies;
}

/* Where a tile lies is computed while its last products run, not in front of its first: where blocks take
 * several tiles, and the products are long enough to hide it. */
static void compute_behind(const CostModel *model, IrOp *loop, const IrOp *product)
{
  const IrOp *tiles = loop->parent->owner;
  bool repeats = tiles && tiles->code == OP_FOR;
  if (!repeats || ir_tile_elements(&product->operands[0]->value->type) < model->long_product) return;
  for (IrOp *op = loop->previous, *previous; op; op = previous) {
    previous = op->previous;
    if (!waits_for_loop(op, loop)) continue;
    const IrOp *last = loop->next && loop->next->code == OP_TURN_PASS ? loop->next : loop;
    ir_op_move(op, loop->parent, last->next);
  }
}

/* What products read is in registers before them. */
static void fence_products(Waits *waits, IrOp *product)
{
  IrBuilder before = ir_builder_before(product);
  before.mark = product->mark;
  ir_emit(&before, OP_FENCE, 1, ir_name(waits->module, "products"));
}

static bool is_zero(const IrExpr *expr)
{
  int64_t integer;
  if (expr->kind == EXPR_FLOAT) return expr->number == 0 && !signbit(expr->number);
  return ir_expr_is_int(expr, &integer) && integer == 0;
}

/* The sum's declaration, if it is zero there and nobody reads or writes it between that and the loop. */
static IrOp *cleared_before(const IrOp *loop, const IrOp *product)
{
  const IrValue *acc = product->operands[0]->value;
  IrOp *declaration = acc->def;
  if (declaration->code != OP_VAR || declaration->parent != loop->parent || !declaration->n_operands ||
      !is_zero(declaration->operands[0]))
    return NULL;
  for (const IrOp *op = declaration->next; op != loop; op = op->next) {
    if (!op || op->n_regions) return NULL;
    for (unsigned i = 0; i < op->n_operands; i++)
      if (mentions(op->operands[i], acc)) return NULL;
  }
  return declaration;
}

/* A sum that is never cleared keeps its registers from tile to tile, so an epilogue that needs many, such as
 * Gelu's or another tensor's tile, cannot have those of results that have left: 128x192 in turn spilled.
 * (Found with ptxas; narrower sums do not, but where that tile is of f32.) */
static bool leaves_registers(const CostModel *model, const IrOp *loop, const IrOp *product)
{
  const IrType *sum = &product->operands[0]->value->type;
  bool wide = !sum->layout || layout_registers(sum->layout) > model->uncleared_sums;
  int64_t sums = ir_tile_elements(sum);
  unsigned steps = 0;
  for (const IrOp *op = loop->next; op; op = op->next) {
    if (op->n_results != 1 || op->results[0]->type.kind != TYPE_TILE) continue;
    const IrType *tile = &op->results[0]->type;
    bool whole = op->code == OP_LOAD && ir_tile_elements(tile) == sums;
    if (whole && (wide || number_bytes_of(tile->element, 1) >= 4)) return false;
    steps++;
  }
  return steps <= (wide ? model->uncleared_few_steps : model->uncleared_steps);
}

/* Only of a loop that surely runs: else the sum is what it was. */
static void start_at_zero(Waits *waits, IrOp *loop, IrOp *product)
{
  IrOp *declaration = cleared_before(loop, product);
  if (!declaration || !leaves_registers(waits->model, loop, product) || ir_trip_count(loop) == 0 ||
      ir_attribute(product, ATTR_FIRST))
    return;
  ir_attribute_set(product, ATTR_FIRST,
                   ir_binary(waits->module, OPERATOR_EQ,
                             ir_value(waits->module, loop->regions[0]->arguments[0]), loop->operands[0]));
  declaration->n_operands = 0;
}

/* The product behind this one, or behind the load of its own operand (load_operands), or NULL. */
static IrOp *next_product(const IrOp *product)
{
  IrOp *next = product->next;
  bool loads = next && next->code == OP_GET;
  while (loads && next && (next->code == OP_GET || next->code == OP_FENCE))
    next = next->next;
  return next && ir_is_grouped_product(next) ? next : NULL;
}

/* Does the product read an operand from registers, which the next iteration loads anew? */
static bool reads_registers(const IrOp *product)
{
  return product->operands[1]->kind == EXPR_VALUE;
}

/* May a slot stay taken while the next one is read? Not the only one of its ring: nobody could fill it. */
static bool has_slots_beside(const IrOp *product)
{
  IrOp *ring = NULL;
  for (unsigned i = 1; i < product->n_operands; i++)
    if (ir_slot_of(product->parent->function, product->operands[i], &ring) &&
        ir_attribute_int(ring, ATTR_SLOTS, 2) < 2)
      return false;
  return true;
}

/* Is one slot of each ring that the product reads let go in an iteration? What trails the reader by a slot then trails it by an
 * iteration. */
static bool steps_once(const IrOp *product)
{
  for (unsigned i = 1; i < product->n_operands; i++) {
    const IrExpr *cursor = ir_slot_cursor(ir_untransposed(product->operands[i]));
    if (cursor && ir_count_steps(product->parent, cursor->value) > 1) return false;
  }
  return true;
}

static void wait_products(Waits *waits, IrRegion *region)
{
  for (IrOp *op = region->first; op; op = op->next) {
    if (!ir_is_grouped_product(op)) continue;
    IrOp *loop = region->owner && region->owner->code == OP_FOR ? region->owner : NULL;
    fence_products(waits, op);
    IrOp *last = op;
    for (IrOp *next; (next = next_product(last)); last = next)
      if (next != last->next) fence_products(waits, next);
    IrBuilder after = ir_builder_after(last);
    after.mark = op->mark;
    emit_group(waits, &after, OP_COMMIT, "products", 0);
    bool chained = loop && last == op && chains(region, op) && !reads_registers(op) && has_slots_beside(op) &&
                   steps_once(op);
    IrOp *wait = emit_group(waits, &after, OP_WAIT_GROUP, "products", chained ? 1 : 0),
         *release = release_after(last);
    while (release) {
      IrOp *other = next_release(last, release);
      if (chained) release_late(waits, loop, release);
      if (!chained && release->parent == region) release_early(wait, release);
      release = other;
    }
    if (chained) wait_behind(waits, loop);
    if (chained) start_at_zero(waits, loop, op);
    if (chained) compute_behind(waits->model, loop, op);
    op = last;
  }
}

/* ---- Who fills a slot ---- */

/* The ring that an op fills, by a copy of the engine's or a put, and whose barriers nobody has seen to yet, or NULL. */
static IrOp *filled_ring(const IrOp *op, IrOpcode code)
{
  IrOp *ring = NULL;
  if (op->code != code || ir_attribute(op, ATTR_BARRIER) || ir_attribute(op, ATTR_PEER) ||
      (code == OP_COPY && !ir_is_engine_copy(op)) ||
      !ir_slot_of(op->parent->function, op->operands[0], &ring) || !ir_slot_cursor(op->operands[0]) ||
      !ir_attribute(ring, code == OP_COPY ? ATTR_FULL_BYTES : ATTR_FULL_ARRIVALS))
    return NULL;
  return ring;
}

/* Copies that follow one another into a ring fill one slot. */
static void sign_copies(Waits *waits, IrRegion *region)
{
  IrModule *module = waits->module;
  for (IrOp *op = region->first; op; op = op->next) {
    IrOp *ring = filled_ring(op, OP_COPY);
    if (!ring) continue;
    IrExpr *cursor = ir_slot_cursor(op->operands[0]);
    IrBuilder builder = ir_builder_before(op);
    builder.mark = op->mark;
    ring_await_empty(module, &builder, ring, cursor);
    IrOp *expect = ir_emit(&builder, OP_EXPECT, 1, ring_barrier(module, ring, "full", cursor));
    ir_attribute_set(expect, ATTR_BYTES, ir_attribute_value(ring, ATTR_FULL_BYTES));
    g_hash_table_insert(waits->filled, ring, cursor);
    ir_attribute_set(op, ATTR_BARRIER, ring_barrier(module, ring, "full", cursor));
    for (; op->next && filled_ring(op->next, OP_COPY) == ring; op = op->next)
      ir_attribute_set(op->next, ATTR_BARRIER, ring_barrier(module, ring, "full", cursor));
  }
}

typedef struct {
  const IrOp *ring;
  bool found;
} RingUse;

/* Does a product read the ring's slots while its threads go on? */
static void find_asynchronous(IrOp *op, void *data)
{
  RingUse *use = data;
  IrOp *channel = NULL;
  for (unsigned i = 1; ir_is_asynchronous_product(op) && i < op->n_operands; i++)
    use->found |= ir_slot_of(op->parent->function, op->operands[i], &channel) && channel == use->ring;
}

/* The puts of one slot, up to the step of the ring. */
typedef struct {
  IrOp *last, *end; /* the last put; the step, or the last op of the region */
  bool is_signed;   /* the text arrives itself */
} Puts;

static Puts puts_from(IrOp *first, const IrOp *ring)
{
  IrExpr *cursor = ir_slot_cursor(first->operands[0]);
  const IrExpr *full = ring_barrier(first->parent->function->module, ring, "full", cursor);
  Puts puts = {first, first, false};
  for (IrOp *op = first; op; op = op->next) {
    puts.end = op;
    if (op->code == OP_ADVANCE && ir_expr_equal(op->operands[0], cursor)) break;
    if (filled_ring(op, OP_PUT) == ring) puts.last = op;
    puts.is_signed |= op->code == OP_ARRIVE && ir_expr_equal(op->operands[0], full);
  }
  return puts;
}

/* A number is put by one thread. */
static bool puts_number(const IrOp *put)
{
  const IrExpr *value = put->operands[1];
  return value->kind == EXPR_VALUE && value->value->type.kind == TYPE_SCALAR;
}

/* One lane of a warp tells what all have written; products and the engine see shared memory in another way than threads. */
static void sign_puts(Waits *waits, IrRegion *region)
{
  IrModule *module = waits->module;
  for (IrOp *op = region->first; op; op = op->next) {
    IrOp *ring = filled_ring(op, OP_PUT);
    if (!ring) continue;
    IrExpr *cursor = ir_slot_cursor(op->operands[0]);
    Puts puts = puts_from(op, ring);
    if (!puts.is_signed) {
      IrBuilder builder = ir_builder_before(op);
      builder.mark = op->mark;
      ring_await_empty(module, &builder, ring, cursor);
      RingUse use = {ring, false};
      ir_region_visit(region->function->body, find_asynchronous, &use);
      builder = ir_builder_after(puts.last);
      builder.mark = puts.last->mark;
      if (use.found) ir_emit(&builder, OP_FENCE, 1, ir_name(module, "async_shared"));
      bool alone = puts_number(puts.last);
      if (!alone) ir_emit(&builder, OP_SYNC_WARP, 0);
      IrOp *arrive = ir_emit(&builder, OP_ARRIVE, 1, ring_barrier(module, ring, "full", cursor));
      if (!alone) ir_attribute_set(arrive, ATTR_BY, ir_name(module, mechanism_issue_name(ISSUE_WARP)));
    }
    op = puts.end;
  }
}

static void find_peers(IrOp *op, void *data)
{
  RingUse *use = data;
  if (op->code != OP_ARRIVE || !ir_attribute(op, ATTR_PEER) || op->operands[0]->kind != EXPR_INDEX) return;
  const IrExpr *barrier = op->operands[0]->items[0];
  use->found |= barrier->kind == EXPR_FIELD && !strcmp(barrier->name, "empty") &&
                barrier->items[0]->kind == EXPR_SYMBOL && !strcmp(barrier->items[0]->name, use->ring->symbol);
}

/* Peers' consumers still arrive at this block's barriers: who fills the ring leaves only when they all have. */
static void drain_rings(Waits *waits, IrFunction *kernel)
{
  IrModule *module = waits->module;
  for (const IrOp *ring = kernel->body->first; ring; ring = ring->next) {
    IrExpr *cursor = g_hash_table_lookup(waits->filled, ring);
    RingUse use = {ring, false};
    if (cursor) ir_region_visit(kernel->body, find_peers, &use);
    if (use.found) ring_drain(module, cursor->value->def->parent, ring, cursor, ring->mark);
  }
}

static void visit_regions(Waits *waits, IrRegion *region)
{
  sign_copies(waits, region);
  sign_puts(waits, region);
  wait_copies(waits, region);
  slot_fence_operands(region);
  products_meet(waits->module, region);
  if (has_late_products(region))
    wait_late(waits->module, region);
  else
    wait_products(waits, region);
  products_wait(waits->module, region, &waits->phases);
  for (IrOp *op = region->first; op; op = op->next) {
    if (op->code == OP_ROLE) waits->phases = (ProductPhases){NULL}; /* its own */
    for (unsigned i = 0; i < op->n_regions; i++)
      visit_regions(waits, op->regions[i]);
  }
}

bool pass_derive_waits(IrModule *module, const IrPassContext *context, GError **error)
{
  IrFunction *kernel = ir_kernel(module);
  if (!kernel) return true;
  g_autoptr(GHashTable) filled = g_hash_table_new(NULL, NULL);
  g_autoptr(GHashTable) trailing = g_hash_table_new(NULL, NULL);
  Waits waits = {.module = module, .model = context->gpu->model, .filled = filled, .trailing = trailing};
  g_autoptr(GArray) readers = g_array_new(false, false, sizeof(SlotReader));
  slot_waits(kernel, readers);
  turns_of_products(kernel, context);
  visit_regions(&waits, kernel->body);
  for (IrOp *op = kernel->body->first; op; op = op->next)
    if (op->code == OP_ROLE) drain_copies(&waits, op);
  slot_fence_releases(readers);
  drain_rings(&waits, kernel);
  clear_slots(kernel);
  return true;
}
