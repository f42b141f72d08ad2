#include "ir/passes/whole_tiles.h"
#include "ir/facts.h"
#include "ir/mechanism.h"
#include "ir/resources.h"

typedef struct {
  IrOp *tiles;
  bool gets, multiplies, warps, combines;
  const char *against;
} Walk;

static bool crosses_block(const IrOp *op)
{
  switch (op->code) {
  case OP_SYNC:
  case OP_PUT: return true;
  case OP_REDUCE:
  case OP_SCAN:
  case OP_SORT:
  case OP_PICK:
  case OP_COUNT: return ir_attribute_int(op, ATTR_DIM, 0) == 0; /* elements of several threads */
  default: return false;
  }
}

/* Such instances have rings of slots in common and meet nowhere else, so only tiles that a TMA fills and a group of warps
 * multiplies can be taken so, and nothing may cross the block. */
static Walk walk_of(const GPtrArray *ops)
{
  Walk walk = {0};
  for (unsigned i = 0; i < ops->len; i++) {
    IrOp *op = ops->pdata[i];
    if (op->code == OP_TILES) walk.tiles = op;
    if (op->code == OP_FILL && !ir_is_engine_copy(op)) walk.against = "threads copy";
    walk.warps |= op->code == OP_MMA && !ir_is_grouped_product(op);
    walk.combines |= op->code == OP_COMBINE;
    if (crosses_block(op)) walk.against = "the whole block works together on a tile";
    walk.gets |= op->code == OP_GET;
    walk.multiplies |= op->code == OP_MMA;
  }
  return walk;
}

static bool has_barriers(const IrPassContext *context, int64_t instances)
{
  return NAMED_BARRIER_FIRST + instances <= context->gpu->named_barriers;
}

static bool takes_turns(const IrPassContext *context, IrModule *module, const Walk *walk, TileRole role)
{
  const char *against =
      walk->gets || walk->combines ? "the whole block works together on a tile" : walk->against;
  int64_t turns = walk->tiles ? ir_attribute_int(walk->tiles, ATTR_PINGPONG, 1) : 1;
  if (turns <= 1) return false;
  if (walk->warps) against = "warps multiply";
  if (role != ROLE_ONLY) against = "a role of its own fills slots with values";
  if (!ir_attribute_int(walk->tiles, ATTR_PERSISTENT, 0)) against = "a block has one tile";
  if (!has_barriers(context, turns)) against = "a block has too few named barriers";
  if (!against) return true;
  ir_attribute_set(walk->tiles, ATTR_PINGPONG, ir_int(module, 1));
  ir_remark(context, "ping-pong rejected: %s", against);
  return false;
}

bool whole_tiles(const IrPassContext *context, IrModule *module, const GPtrArray *ops, TileRole role,
                 bool *whole, GError **error)
{
  Walk walk = walk_of(ops);
  int64_t consumers = walk.tiles ? ir_attribute_int(walk.tiles, ATTR_CONSUMERS, 1) : 1;
  const char *against = walk.against;
  *whole = false;
  if (consumers <= 1) *whole = takes_turns(context, module, &walk, role);
  if (consumers <= 1 || role == ROLE_FILLING) return true;
  *whole = true;
  if (!walk.multiplies) against = "it multiplies nothing";
  if (ir_attribute_int(walk.tiles, ATTR_PINGPONG, 1) > 1) against = "warpgroups take tiles in turn";
  if (!has_barriers(context, consumers)) against = "a block has too few named barriers";
  if (!against) return true;
  error_set(error, ERROR_UNSUPPORTED, &walk.tiles->mark, "consumers", "leave out `consumers`",
            "a tile has no several consumers: %s", against);
  return false;
}
