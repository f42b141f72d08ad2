/* Slots that are filled with what the kernel computes.
 *
 * A role that fills them puts its values there and steps on; what it waits for and tells is derive_waits', and where one role does
 * everything meetings_derive's. */
#include "ir/facts.h"
#include "ir/mechanism.h"
#include "ir/passes/split_roles.h"

typedef struct {
  const IrFunction *kernel;
  const IrOp *channel;
  bool found;
} Values;

static void find_put(IrOp *op, void *data)
{
  Values *values = data;
  IrOp *channel = NULL;
  values->found |= role_fills_slot(values->kernel, op, &channel) && channel == values->channel;
}

bool role_has_values(const Split *split, const IrOp *channel)
{
  Values values = {split->kernel, channel, false};
  ir_region_visit(split->kernel->body, find_put, &values);
  return values.found;
}

/* ---- Arrivals ---- */

int64_t role_full_arrivals(const Split *split, const IrOp *channel)
{
  int64_t arrivals =
      role_copied_bytes(split->kernel, channel) > 0; /* the producer's, which announces bytes */
  for (unsigned i = 0; i < split->graph.n; i++)
    if (g_ptr_array_find(split->graph.nodes[i].fills, channel, NULL)) arrivals += split->warps[i];
  return arrivals;
}

int64_t role_empty_arrivals(const Split *split, const IrOp *channel)
{
  int64_t arrivals = 0;
  for (unsigned i = 0; i < split->graph.n; i++)
    if (g_hash_table_contains(split->graph.nodes[i].takes, channel)) arrivals += split->warps[i];
  return arrivals;
}

/* ---- Filling ---- */

void role_write_cursors(Role *role, IrBuilder *builder, const GPtrArray *channels)
{
  Split *split = role->split;
  for (unsigned i = 0; i < channels->len; i++) {
    const IrOp *channel = channels->pdata[i];
    bool alone = role->kind == ROLE_ALL && role_has_values(split, channel) &&
                 !role_copied_bytes(split->kernel, channel);
    if (!alone && !(role->node && g_ptr_array_find(role->node->fills, channel, NULL))) continue;
    g_hash_table_insert(role->writes, (gpointer)channel->symbol,
                        role_cursor_new(split, builder, channel->symbol, "write"));
    if (alone)
      g_hash_table_insert(role->cursors, (gpointer)channel->symbol,
                          role_cursor_new(split, builder, channel->symbol, "read"));
  }
}

/* Of the ops of its region that put values into one slot. */
typedef struct {
  bool last;
  unsigned tiles; /* so many, the last included */
} Place;

static bool names_tile(const GPtrArray *tiles, const IrExpr *tile)
{
  for (unsigned i = 0; i < tiles->len; i++)
    if (ir_expr_equal(tiles->pdata[i], tile)) return true;
  return false;
}

static const IrOp *next_put(const IrFunction *kernel, const IrOp *op, const IrOp *channel)
{
  IrOp *filled = NULL;
  while (op && !(role_fills_slot(kernel, op, &filled) && filled == channel))
    op = op->next;
  return op;
}

/* Another slot begins where a tile is filled again. */
static Place place_of(const Split *split, const IrOp *put, const IrOp *channel)
{
  g_autoptr(GPtrArray) tiles = g_ptr_array_new();
  Place place = {0};
  const IrOp *op = next_put(split->kernel, put->parent->first, channel), *next;
  for (; op; op = next) {
    bool again = names_tile(tiles, op->operands[0]);
    if (again) g_ptr_array_set_size(tiles, 0);
    g_ptr_array_add(tiles, op->operands[0]);
    next = next_put(split->kernel, op->next, channel);
    if (op != put) continue;
    place.last = !next || names_tile(tiles, next->operands[0]);
    place.tiles = tiles->len;
    break;
  }
  return place;
}

static void find_value_slot(IrOp *op, void *data)
{
  GPtrArray *tiles = ((gpointer *)data)[1];
  IrOp *channel = NULL;
  if (role_fills_slot(op->parent->function, op, &channel) && channel == ((gpointer *)data)[0] &&
      !names_tile(tiles, op->operands[0]))
    g_ptr_array_add(tiles, op->operands[0]);
}

/* Tiles of a slot, or parts of them, that are filled with values anywhere. */
static unsigned value_tiles(const Split *split, const IrOp *channel)
{
  g_autoptr(GPtrArray) tiles = g_ptr_array_new();
  gpointer data[2] = {(gpointer)channel, tiles};
  ir_region_visit(split->kernel->body, find_value_slot, data);
  return tiles->len;
}

/* What fills one slot fills all of them. */
static void check_whole(Split *split, const IrOp *put, const IrOp *channel, const Place *place)
{
  unsigned all = value_tiles(split, channel);
  if (place->tiles == all || split->failed) return;
  split->failed = true;
  error_set(split->error, ERROR_INPUT, &put->mark, "unfilled",
            "fill the tiles of a slot in one region, each once",
            "a slot of `@%s` is filled with %u of its %u values", channel->symbol, place->tiles, all);
}

void role_put(Role *role, IrBuilder *builder, const IrOp *put)
{
  Split *split = role->split;
  const IrOp *channel = role_channel_of(split, put->operands[0]);
  IrExpr *cursor = g_hash_table_lookup(role->writes, channel->symbol);
  if (!cursor)
    cursor = g_hash_table_lookup(role->cursors, channel->symbol); /* beside what threads copy ahead */
  Place place = place_of(split, put, channel);
  builder->mark = put->mark;
  if (!cursor) {
    if (!split->failed)
      error_set(split->error, ERROR_UNSUPPORTED, &put->mark, "threads-copy",
                "give what is computed a channel of its own",
                "threads copy other tiles of this slot, and not in the loop that fills it with a value");
    split->failed = true;
    return;
  }
  const IrExpr *target = put->operands[0], *part = target->kind == EXPR_INDEX ? target : NULL;
  IrExpr *slot = ir_index(split->module, part ? part->items[0] : (IrExpr *)target, 1, cursor);
  if (part) slot = ir_index_array(split->module, slot, part->n - 1, part->items + 1);
  IrOp *copy = ir_emit(builder, OP_PUT, 2, slot, role_rewrite(role, put->operands[1]));
  ir_attribute_set(copy, ATTR_VIA, ir_attribute_value(put, ATTR_VIA));
  if (!place.last) return;
  check_whole(split, put, channel, &place);
  if (g_hash_table_contains(role->writes, channel->symbol)) ir_emit(builder, OP_ADVANCE, 1, cursor);
}

/* ---- Where one role does everything ---- */

void role_take_values(Role *role, IrBuilder *builder, const IrOp *take)
{
  Split *split = role->split;
  const IrOp *channel = role_channel_of(split, take->operands[0]);
  if (role_copied_bytes(split->kernel, channel)) {
    role_take_filled(role, builder, take);
    return;
  }
  for (const IrOp *op = take->regions[0]->first; op; op = op->next)
    op = role->copy(role, builder, op);
  builder->mark = take->mark;
  ir_emit(builder, OP_ADVANCE, 1, g_hash_table_lookup(role->cursors, channel->symbol));
}

/* ---- What roles of values leave out ---- */

static void find_values(IrOp *op, void *data)
{
  if (role_fills_slot(op->parent->function, op, NULL)) *(bool *)data = true;
}

bool role_check_values(const Split *split, const IrOp *tiles, GError **error)
{
  bool values = false;
  ir_region_visit(split->kernel->body, find_values, &values);
  int64_t shared = tiles ? ir_attribute_int(tiles, ATTR_SPLIT_K, 1) : 1,
          streamed = tiles ? ir_attribute_int(tiles, ATTR_STREAM_K, 1) : 1;
  if (!values || (shared <= 1 && streamed <= 1 && !split->spans)) return true;
  error_set(error, ERROR_UNSUPPORTED, &tiles->mark, "roles",
            "split_k 1 and stream_k 1, no products of two blocks",
            "several blocks would share a tile, but slots are filled with values");
  return false;
}
