/* A dynamic walk: blocks of a persistent grid that take the next tile when they are free for it. One of split_roles' files.
 *
 * The producer begins a tile by claiming the next one (`claim`), so that the answer is there when it has copied all of
 * its own, and then tells it to the other roles through a slot of @walk; it goes on with the next tile's copies while
 * they compute and store. Every tile claims once, so behind the last claim of a launch the counter is zero again, as the
 * next launch wants it. Where a scheduler knows on the device alone how many tiles there are, it says so when it has none left, and each
 * block claims once more as it ends: by then all tiles are claimed, so these numbers are nobody's, and the last of them is that of
 * tiles and blocks. Which block has which tile does not matter to what is computed.
 *
 * A scheduler that the lanes of a warp ask together is the producer's alone, too: it tells all coordinates of a tile, and the others
 * ask nobody. Tiles go by a fixed order then. */
#include "ir/facts.h"
#include "ir/pass.h"
#include "ir/passes/scheduler.h"
#include "ir/passes/split_roles.h"
#include "ir/resources.h"

#define COUNTER_WORDS 32 /* a line of 128 bytes: nothing else is in it */
#define WALK_TILE     "tile"
#define WALK_COUNTER  "walk_counter"

/* Sums that blocks leave for each other, and steps that they count, have all flags; what blocks post leaves the last row of them. */
static void note_sum(IrOp *op, void *data)
{
  *(bool *)data |= op->code == OP_COMBINE || op->code == OP_STORE_PARTIAL || op->code == OP_ADD_PARTIAL ||
                   op->code == OP_POST_STEP;
}

static const char *walk_number(const IrModule *module, unsigned i)
{
  return i ? arena_printf(module->arena, "at%u", i) : WALK_TILE;
}

/* Why tiles go by a fixed order all the same, or NULL. */
static const char *refusal(const Split *split, const IrOp *tiles, bool engine)
{
  bool sums = false;
  ir_region_visit(tiles->regions[0], note_sum, &sums);
  if (!engine) return "threads copy, and no role of its own does";
  if (split->cluster.blocks > 1) return "the blocks of a cluster walk together";
  if (split->pingpong > 1 || tiles_are_streamed(tiles)) return "warpgroups or blocks share tiles";
  if (sums) return "the kernel has flags of its own";
  if (split->by_lanes) return "the lanes of a warp look for tiles together";
  return NULL;
}

static void declare_counter(IrFunction *kernel)
{
  if (ir_launch_get(kernel, ATTR_FLAGS)) return; /* its last row */
  IrModule *module = kernel->module;
  IrType type = {.kind = TYPE_TENSOR, .count = 1, .element = NUMBER_U32, .rank = 2, .align = 256};
  type.dims[0] = type.strides[1] = ir_int(module, 1);
  type.dims[1] = type.strides[0] = ir_int(module, COUNTER_WORDS);
  ir_parameter_new(kernel, WALK_COUNTER, type);
  ir_launch_set(kernel, ATTR_FLAGS, ir_name(module, WALK_COUNTER));
}

/* Warps that are told. */
static int64_t listeners(const Split *split)
{
  int64_t warps = 0;
  for (unsigned i = 0; i < split->graph.n; i++)
    warps += split->warps[i];
  return split->graph.n ? warps : split->consumer_warps;
}

/* A ring in which the producer tells so many numbers of a tile. */
static const char *declare_walk(Split *split, IrBuilder *builder, const IrOp *tiles, unsigned n)
{
  IrModule *module = split->module;
  builder->mark = tiles->mark;
  IrOp *channel = ir_emit(builder, OP_CHANNEL, 0);
  channel->symbol = ir_symbol_unique(split->kernel, "walk");
  ir_attribute_set(channel, ATTR_SLOTS, ir_int(module, WALK_SLOTS));
  ir_attribute_set(channel, ATTR_FULL_ARRIVALS, ir_int(module, 1));
  ir_attribute_set(channel, ATTR_EMPTY_ARRIVALS, ir_int(module, listeners(split)));
  IrBuilder inner = ir_builder_at_end(ir_region_add(channel));
  inner.mark = tiles->mark;
  for (unsigned i = 0; i < n; i++) {
    IrOp *slot = ir_emit(&inner, OP_SLOT, 0);
    static const int64_t extent[] = {1, 1};
    static const unsigned shape[] = {1, 1};
    slot->symbol = walk_number(module, i);
    slot->declared = arena_new_object(module->arena, IrType);
    *slot->declared =
        ir_tile(module, NUMBER_S32, 2, extent, layout_shared(module->arena, 2, shape, 1, NUMBER_S32, 0, 0));
  }
  return channel->symbol;
}

/* Does anybody ask for that coordinate of a tile? */
static bool is_asked_for(const IrOp *tiles, unsigned i)
{
  return ir_region_count_uses(tiles->regions[0], tiles->regions[0]->arguments[i], NULL) > 0;
}

static unsigned numbers_of_tile(const IrOp *tiles)
{
  unsigned n = 1;
  for (unsigned i = 0; i < tiles->regions[0]->n_arguments; i++)
    n += is_asked_for(tiles, i);
  return n;
}

void dynamic_declare(Split *split, IrBuilder *builder, const IrOp *tiles, bool engine)
{
  if (split->by_lanes && engine) split->told = declare_walk(split, builder, tiles, numbers_of_tile(tiles));
  if (!ir_attribute_int(tiles, ATTR_DYNAMIC, 0)) return;
  const char *against = refusal(split, tiles, engine);
  if (against) {
    ir_remark(split->context, "dynamic walk rejected: %s", against);
    return;
  }
  split->walk = declare_walk(split, builder, tiles, 1);
  declare_counter(split->kernel);
  ir_remark(split->context, "dynamic walk: the producer claims tiles, and tells %d warps",
            (int)listeners(split));
}

void dynamic_begin(Role *role, IrBuilder *builder)
{
  role->walk =
      role_cursor_new(role->split, builder, role->split->walk ? role->split->walk : role->split->told,
                      role->kind == ROLE_PRODUCER ? "tell" : "told");
}

bool dynamic_claims(const Role *role)
{
  return role->split->walk && role->kind == ROLE_PRODUCER;
}

IrExpr *dynamic_claim(const Role *role, IrBuilder *builder, IrExpr *total)
{
  if (!dynamic_claims(role)) return NULL;
  if (!total) total = ir_int(role->split->module, G_MAXINT32);
  return ir_emit_value(builder, OP_CLAIM, ir_scalar(NUMBER_S32), "claimed", 1, total);
}

void dynamic_next(const Role *role, IrBuilder *builder, IrExpr *index, IrExpr *claimed)
{
  IrModule *module = role->split->module;
  IrExpr *slot =
      ir_index(module, ir_field(module, ir_symbol(module, role->split->walk), WALK_TILE), 1, role->walk);
  IrExpr *next;
  if (claimed) { /* the first tiles of the launch are the blocks' own */
    IrExpr *blocks = ir_call(module, "blocks", 1, ir_int(module, 0));
    next = ir_emit_value(builder, OP_LET, ir_scalar(NUMBER_S32), "then", 1,
                         ir_binary(module, OPERATOR_ADD, claimed, blocks));
    ir_emit(builder, OP_PUT, 2, slot, next);
  } else {
    next = ir_emit_value(builder, OP_GET, ir_scalar(NUMBER_S32), "then", 1, slot);
  }
  ir_emit(builder, OP_ADVANCE, 1, role->walk);
  ir_emit(builder, OP_SET, 2, index, next);
}

void dynamic_close(const Role *role, IrBuilder *inner, IrBuilder *behind, IrExpr *index, IrExpr *claimed,
                   IrExpr *total)
{
  IrModule *module = role->split->module;
  inner->mark = behind->mark;
  if (!role->split->walk) {
    scheduler_close(inner, index);
    return;
  }
  dynamic_next(role, inner, index, claimed);
  if (!total) return;
  IrExpr *blocks = ir_call(module, "blocks", 1, ir_int(module, 0));
  ir_emit_value(behind, OP_CLAIM, ir_scalar(NUMBER_S32), "last", 1,
                ir_binary(module, OPERATOR_ADD, total, blocks));
}

/* ---- Tiles that one warp finds, and tells the others ---- */

static IrExpr *told_place(const Role *role, unsigned i)
{
  IrModule *module = role->split->module;
  IrExpr *slot = ir_field(module, ir_symbol(module, role->split->told), walk_number(module, i));
  return ir_index(module, slot, 1, role->walk);
}

void told_tell(const Role *role, IrBuilder *builder, const IrOp *tiles, IrExpr *const *coordinates)
{
  const IrRegion *body = tiles->regions[0];
  IrExpr *is = ir_emit_value(builder, OP_LET, ir_scalar(NUMBER_S32), "is", 1,
                             ir_int(role->split->module, coordinates != NULL));
  ir_emit(builder, OP_PUT, 2, told_place(role, 0), is);
  for (unsigned i = 0, n = 0; i < body->n_arguments; i++)
    if (is_asked_for(tiles, i))
      ir_emit(builder, OP_PUT, 2, told_place(role, ++n), coordinates ? coordinates[i] : is);
  ir_emit(builder, OP_ADVANCE, 1, role->walk);
}

IrBuilder told_open(const Role *role, IrBuilder *builder, const IrOp *tiles, IrExpr **coordinates)
{
  IrModule *module = role->split->module;
  const IrRegion *body = tiles->regions[0];
  IrBuilder inner = ir_builder_at_end(ir_region_add(ir_emit(builder, OP_LOOP, 0)));
  inner.mark = builder->mark;
  IrExpr *is = ir_emit_value(&inner, OP_GET, ir_scalar(NUMBER_S32), "is", 1, told_place(role, 0));
  for (unsigned i = 0, n = 0; i < body->n_arguments; i++)
    coordinates[i] = is_asked_for(tiles, i) ? ir_emit_value(&inner, OP_GET, ir_scalar(NUMBER_S32), "at", 1,
                                                            told_place(role, ++n))
                                            : ir_int(module, 0);
  ir_emit(&inner, OP_ADVANCE, 1, role->walk);
  ir_emit(&inner, OP_BREAK_IF, 1, ir_binary(module, OPERATOR_LT, is, ir_int(module, 1)));
  return inner;
}
