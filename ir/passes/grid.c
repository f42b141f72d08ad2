/* Blocks of a kernel's launch, and which of them have to run at once. */
#include "ir/passes/scheduler.h"
#include "ir/passes/split_roles.h"
#include "ir/resources.h"
#include "ir/schedule.h"

bool split_walks(const Split *split, const IrOp *tiles)
{
  if (split->steps || (split->combines && (split->cluster.shared_tile || split->consumers > 1))) return false;
  return tiles_are_streamed(tiles) || split->context->sm_budget ||
         ir_attribute_int(tiles, ATTR_PERSISTENT, 0);
}

static void note_await(IrOp *op, void *data)
{
  *(bool *)data |= op->code == OP_AWAIT_POSTS;
}

/* Blocks that walk find what they wait for in walks of others, which then have to run, too; steps are those of all blocks. Where tiles are
 * claimed each block has its first one by its number, so that a block which never started would have it for ever. */
static void keep_together(const Split *split, const IrOp *tiles)
{
  bool waits = split->steps;
  if (split_walks(split, tiles)) ir_region_visit(tiles->regions[0], note_await, &waits);
  if (waits) ir_launch_set(split->kernel, ATTR_TOGETHER, ir_int(split->module, 1));
}

unsigned split_least_blocks(const Split *split)
{
  const IrExpr *least = ir_launch_get(split->kernel, ATTR_MIN_BLOCKS);
  int64_t blocks = 1;
  if (least) ir_expr_is_int(least, &blocks);
  return (unsigned)MAX(1, blocks);
}

/* Blocks that walk steps have a tile each, and all run at once. Of how many there are where that is not known, the plan takes care. */
static void check_steps(Split *split, const IrOp *tiles, const IrExpr *blocks, unsigned sms)
{
  int64_t needed;
  if (!split->steps || !ir_expr_is_int(blocks, &needed) || needed <= sms) return;
  error_set(split->error, ERROR_UNSUPPORTED, &tiles->mark, "steps", "larger tiles",
            "blocks that walk steps together all run at once: %d of them are more than %u", (int)needed, sms);
  split->failed = true;
}

void split_set_grid(Split *split, const GPtrArray *tiles)
{
  IrModule *module = split->module;
  IrExpr *blocks = ir_int(module, 1);
  bool scheduled = tiles->len && scheduler_of(module, tiles->pdata[0]);
  if (tiles->len) {
    const IrOp *op = tiles->pdata[0];
    for (unsigned i = 1; !scheduled && i < op->n_operands; i++) {
      int64_t together = split->cluster.shared_tile ? 1
                         : i + 2 == op->n_operands  ? split->cluster.blocks / split->cluster.across
                         : i + 1 == op->n_operands  ? split->cluster.across
                                                    : 1;
      blocks =
          ir_binary(module, OPERATOR_MUL, blocks, schedule_in_clusters(module, op->operands[i], together));
    }
    blocks = ir_binary(module, OPERATOR_MUL, blocks, ir_int(module, split->cluster.blocks));
    unsigned sms = split->context->sm_budget ? split->context->sm_budget : split->context->gpu->sm_count;
    sms = resident_clusters(split->context->gpu, (unsigned)split->cluster.blocks, sms) *
          (unsigned)split->cluster.blocks * (split->context->sm_budget ? 1 : split_least_blocks(split));
    check_steps(split, op, blocks, sms);
    if (tiles_are_streamed(op)) /* a tile has few parts: adding them up takes time */
      blocks = ir_binary(module, OPERATOR_MUL, blocks, ir_attribute_value(op, ATTR_STREAM_K));
    if (scheduled) /* how many tiles there are is known on the device only */
      blocks = ir_int(module, sms);
    else if (split_walks(split, op))
      blocks = ir_call(module, "min", 2, blocks, ir_int(module, sms));
    keep_together(split, op);
  }
  IrExpr *grid[3] = {blocks, ir_int(module, 1), ir_int(module, 1)};
  ir_launch_set(split->kernel, ATTR_GRID, ir_list(module, 3, grid));
}
