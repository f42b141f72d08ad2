#include "ir/passes/fills.h"
#include "ir/facts.h"
#include "ir/mechanism.h"
#include "ir/passes/left_loops.h"
#include <string.h>

static void find_fill(IrOp *op, void *data)
{
  if (op->code == OP_FILL) *(bool *)data = true;
}

bool contains_fill(const IrOp *op)
{
  bool found = false;
  for (unsigned i = 0; i < op->n_regions; i++)
    ir_region_visit(op->regions[i], find_fill, &found);
  return found;
}

bool takes_slots(const IrOp *loop)
{
  for (const IrOp *op = loop->regions[0]->first; op; op = op->next)
    if (op->code == OP_TAKE) return true;
  return false;
}

/* Does the op leave a loop that copies into slots? */
static bool ends_fills(const IrOp *op)
{
  const IrOp *loop = op->code == OP_BREAK_IF ? loop_around(op) : NULL;
  return loop && contains_fill(loop);
}

static void find_end(IrOp *op, void *data)
{
  *(bool *)data |= ends_fills(op);
}

bool producer_enters(const IrOp *op)
{
  bool found = contains_fill(op);
  for (unsigned i = 0; !found && i < op->n_regions; i++)
    ir_region_visit(op->regions[i], find_end, &found);
  return found;
}

/* ---- what copying needs ---- */

static void need_leaf(const IrExpr *expr, void *needed)
{
  if (expr->kind == EXPR_VALUE) g_hash_table_add(needed, expr->value);
}

static void need_operands(const IrOp *op, GHashTable *needed)
{
  for (unsigned i = 0; i < op->n_operands; i++)
    ir_expr_visit(op->operands[i], need_leaf, needed);
}

static bool gives_needed(const IrOp *op, GHashTable *needed)
{
  if (op->code == OP_SET)
    return op->operands[0]->kind == EXPR_VALUE && g_hash_table_contains(needed, op->operands[0]->value);
  for (unsigned i = 0; i < op->n_results; i++)
    if (g_hash_table_contains(needed, op->results[i])) return true;
  return false;
}

/* From the last operation to the first: what is defined stands in front of its uses. true: the region holds a fill, or
 * leaves a loop around one. */
static bool need_region(const IrRegion *region, GHashTable *needed)
{
  bool fills = false;
  for (const IrOp *op = region->last; op; op = op->previous) {
    bool inside = op->code == OP_FILL || ends_fills(op);
    for (unsigned i = op->n_regions; i-- > 0;)
      inside = need_region(op->regions[i], needed) || inside;
    if (inside || gives_needed(op, needed)) need_operands(op, needed);
    fills = fills || inside;
  }
  return fills;
}

/* Twice, since a variable that a loop sets behind its use is needed from the second time on; until nothing is added. */
GHashTable *values_needed_by_fills(IrRegion *region)
{
  GHashTable *needed = g_hash_table_new(NULL, NULL);
  guint before;
  do {
    before = g_hash_table_size(needed);
    need_region(region, needed);
  } while (g_hash_table_size(needed) > before);
  return needed;
}

static bool is_scalar_only(const IrOp *op)
{
  for (unsigned i = 0; i < op->n_results; i++)
    if (op->results[i]->type.kind != TYPE_SCALAR) return false;
  return op->n_results > 0 && !(ir_op_effects(op->code) & (EFFECT_READ | EFFECT_WRITE | EFFECT_SYNC));
}

/* Setting a variable, or loading a number, for such a value. */
static bool serves_fills(const IrOp *op, GHashTable *needed)
{
  if (op->code == OP_SET) return op->operands[0]->value->type.kind == TYPE_SCALAR && gives_needed(op, needed);
  return op->code == OP_LOAD && op->results[0]->type.kind == TYPE_SCALAR && gives_needed(op, needed);
}

typedef struct {
  GHashTable *needed;
  bool lacks;
} LoadSearch;

static bool lacks_load(const IrOp *op, GHashTable *needed);

static void find_source(const IrExpr *expr, void *data)
{
  LoadSearch *source = data;
  const IrOp *op = expr->kind == EXPR_VALUE ? expr->value->def : NULL;
  if (op && !source->lacks) source->lacks = lacks_load(op, source->needed);
}

/* Is it computed from a number that is loaded, but not for the fills? */
static bool lacks_load(const IrOp *op, GHashTable *needed)
{
  LoadSearch source = {needed, false};
  if (gives_needed(op, needed)) return false;
  if (op->code == OP_LOAD) return op->results[0]->type.kind == TYPE_SCALAR;
  for (unsigned i = 0; is_scalar_only(op) && i < op->n_operands; i++)
    ir_expr_visit(op->operands[i], find_source, &source);
  return source.lacks;
}

bool producer_has(const IrOp *op, GHashTable *needed)
{
  return (is_scalar_only(op) && !lacks_load(op, needed)) || serves_fills(op, needed) || ends_fills(op);
}

/* ---- what they bring ---- */

typedef struct {
  const IrFunction *kernel;
  const IrOp *tiles; /* or NULL */
} Walk;

/* The largest value of a coordinate, as far as it is known: of a block's rank in its cluster too. */
static int64_t largest(const Walk *walk, const IrExpr *index)
{
  int64_t value;
  if (ir_expr_is_int(index, &value)) return value;
  if (index->kind == EXPR_CALL && !strcmp(index->name, "cluster_rank") && walk->tiles)
    return ir_attribute_int(walk->tiles, ATTR_SPLIT_K, 1) - 1;
  if (index->kind != EXPR_BINARY) return ir_known_maximum(walk->kernel, index);
  int64_t a = largest(walk, index->items[0]), b = largest(walk, index->items[1]);
  if (a < 0 || b < 0 || a > G_MAXINT32 || b > G_MAXINT32) return G_MAXINT64;
  if (index->operator_ == OPERATOR_ADD) return a + b;
  return index->operator_ == OPERATOR_MUL ? a * b : G_MAXINT64;
}

/* Does a tile of so many elements that begins at `index` end inside of the dimension? Of the coordinate of a tile where
 * the walk has so many tiles, and none is cut. */
static bool ends_inside(const Walk *walk, const IrExpr *index, int64_t extent, const IrExpr *bound)
{
  int64_t limit, end = largest(walk, index);
  if (ir_expr_is_int(bound, &limit) && end < G_MAXINT32 && end + extent <= limit) return true;
  const IrExpr *coordinate = index;
  if (extent > 1) {
    int64_t step;
    bool scaled = index->kind == EXPR_BINARY && index->operator_ == OPERATOR_MUL &&
                  ir_expr_is_int(index->items[1], &step) && step == extent;
    if (!scaled || (extent & (extent - 1)) ||
        ir_known_multiple(walk->kernel, bound, (unsigned)extent) < extent)
      return false;
    coordinate = index->items[0];
  }
  const IrRegion *region = coordinate->kind == EXPR_VALUE ? coordinate->value->argument_of : NULL;
  if (!region || region->owner != walk->tiles) return false;
  for (unsigned i = 0; i < region->n_arguments && i + 1 < walk->tiles->n_operands; i++) {
    const IrExpr *tiles = walk->tiles->operands[i + 1];
    if (region->arguments[i] != coordinate->value) continue;
    bool divided = tiles->kind == EXPR_CALL && !strcmp(tiles->name, "ceil_div") && tiles->n == 2;
    int64_t each = 1;
    if (divided && !ir_expr_is_int(tiles->items[1], &each)) return false;
    return each == extent && ir_expr_equal(divided ? tiles->items[0] : tiles, bound);
  }
  return false;
}

static bool lies_inside(const IrFunction *kernel, const IrOp *tiles, const IrOp *fill)
{
  const Walk walk = {kernel, tiles};
  const IrExpr *access = fill->operands[1];
  const IrType *tensor = &ir_access_base(access)->value->type;
  IrType tile = ir_expr_type(kernel, fill->operands[0]);
  unsigned lead = tensor->rank - tile.rank;
  for (unsigned d = 0; d < tensor->rank; d++)
    if (!ends_inside(&walk, access->items[d + 1], d < lead ? 1 : ir_tile_extent(&tile, d - lead),
                     tensor->dims[d]))
      return false;
  return true;
}

const char *fill_pieces_refusal(const IrFunction *kernel, const IrOp *tiles, const IrOp *fill,
                                const Mechanism *engine)
{
  const IrExpr *access = fill->operands[1];
  const IrType *tensor = &ir_access_base(access)->value->type;
  IrType tile = ir_expr_type(kernel, fill->operands[0]);
  unsigned row = (unsigned)ir_tile_extent(&tile, tile.rank - 1);
  if (number_is_packed(tensor->element)) return "its elements share bytes";
  unsigned bytes = number_bytes(tensor->element);
  if (fill->operands[0]->kind == EXPR_INDEX) return "it fills a part of a tile";
  if (ir_contiguous_dim(tensor) != (int)tensor->rank - 1) return "rows of the tile do not lie in one piece";
  IrExpr *corner[IR_MAX_RANK];
  for (unsigned d = 0; d < tensor->rank; d++)
    corner[d] = access->items[d + 1];
  if (ir_access_vector(kernel, tensor, corner, row) * bytes < engine->address_multiple)
    return "rows are not known to begin at multiples of its pieces";
  if (row * bytes % engine->run_multiple) return "rows are no multiples of its pieces";
  return lies_inside(kernel, tiles, fill) ? NULL : "the tile is not known to lie inside of the tensor";
}

bool slot_is_filled(const IrFunction *kernel, const GPtrArray *ops, const IrOp *slot)
{
  for (unsigned i = 0; i < ops->len; i++)
    if (ir_slot_of(kernel, ((IrOp *)ops->pdata[i])->operands[0], NULL) == slot) return true;
  return false;
}

bool slots_check_filled(const IrFunction *kernel, const GPtrArray *channels, const GPtrArray *fills,
                        const GPtrArray *puts, GError **error)
{
  for (unsigned i = 0; i < channels->len; i++) {
    const IrOp *channel = channels->pdata[i];
    for (IrOp *slot = channel->regions[0]->first; slot; slot = slot->next) {
      bool filled = slot_is_filled(kernel, fills, slot), computed = slot_is_filled(kernel, puts, slot);
      if (filled != computed) continue;
      if (filled)
        error_set(error, ERROR_INPUT, &slot->mark, "filled-twice", "fill one of them from the other",
                  "`@%s.%s` is filled from a tensor and with a value", channel->symbol, slot->symbol);
      else
        error_set(error, ERROR_INPUT, &slot->mark, "unfilled", NULL, "nothing fills `@%s.%s`",
                  channel->symbol, slot->symbol);
      return false;
    }
  }
  return true;
}

/* The region that runs as often as the op: sections and `take`s around it run once. */
static const IrRegion *region_of(const IrOp *op)
{
  const IrRegion *region = op->parent;
  while (region->owner && (region->owner->code == OP_TAKE || region->owner->code == OP_TURN))
    region = region->owner->parent;
  return region;
}

/* How often a channel is filled and taken where one region does both. */
typedef struct {
  const IrFunction *kernel;
  const IrOp *channel, *last; /* last: the `take` that comes last */
  const IrRegion *region;
  unsigned fills, takes;
  bool apart; /* in several regions, or part by part: only running it tells */
} Turnover;

static void note_region(Turnover *turnover, const IrOp *op)
{
  const IrRegion *region = region_of(op);
  turnover->apart |= turnover->region && turnover->region != region;
  turnover->region = region;
}

static void find_turnover(IrOp *op, void *data)
{
  Turnover *turnover = data;
  IrOp *channel = NULL;
  bool fills = op->code == OP_FILL || op->code == OP_PUT;
  if (op->code == OP_TAKE && ir_symbol_find(turnover->kernel, op->operands[0]->name) == turnover->channel) {
    turnover->takes++;
    turnover->last = op;
    note_region(turnover, op);
  }
  const IrOp *slot = fills ? ir_slot_of(turnover->kernel, op->operands[0], &channel) : NULL;
  if (!slot || channel != turnover->channel) return;
  turnover->fills += slot == channel->regions[0]->first;
  turnover->apart |= op->operands[0]->kind == EXPR_INDEX;
  note_region(turnover, op);
}

bool slots_check_taken(const IrFunction *kernel, const GPtrArray *channels, GError **error)
{
  for (unsigned i = 0; i < channels->len; i++) {
    const IrOp *channel = channels->pdata[i];
    Turnover turnover = {.kernel = kernel, .channel = channel};
    ir_region_visit(kernel->body, find_turnover, &turnover);
    if (turnover.apart || !turnover.takes || turnover.takes == turnover.fills) continue;
    error_set(error, ERROR_INPUT, &turnover.last->mark, "taken",
              "each `take` is the next slot: read what one slot holds in one `take`",
              "`@%s` is filled %u time%s here and taken %u time%s", channel->symbol, turnover.fills,
              turnover.fills == 1 ? "" : "s", turnover.takes, turnover.takes == 1 ? "" : "s");
    return false;
  }
  return true;
}
