/* Products over several blocks: which clusters they need, and what each block has of their operands. */
#include "ir/passes/divide_operands.h"
#include "ir/facts.h"
#include "ir/passes/cluster.h"
#include "ir/passes/division.h"
#include "ir/passes/scheduler.h"

unsigned operand_parts(const Mechanism *product)
{
  return product->b & IN_PEER_SHARED ? mechanism_blocks(product) : 1;
}

unsigned operand_divided_dim(const IrExpr *b)
{
  return b->kind == EXPR_TRANSPOSED ? 0 : 1;
}

/* The fill of B's slot, and what else names the slot. */
typedef struct {
  const IrFunction *kernel;
  const IrOp *slot, *mma;
  IrOp *fill;
  unsigned fills, others;
} SlotUses;

typedef struct {
  SlotUses *uses;
  bool found;
} Mention;

static void find_slot(const IrExpr *expr, void *data)
{
  Mention *mention = data;
  if (expr->kind == EXPR_FIELD)
    mention->found |= ir_slot_of(mention->uses->kernel, expr, NULL) == mention->uses->slot;
}

static void count_use(IrOp *op, void *data)
{
  SlotUses *uses = data;
  Mention mention = {.uses = uses};
  for (unsigned i = 0; i < op->n_operands; i++)
    ir_expr_visit(op->operands[i], find_slot, &mention);
  if (!mention.found || op == uses->mma) return;
  if (op->code != OP_FILL) {
    uses->others++;
    return;
  }
  uses->fill = op;
  uses->fills++;
}

static SlotUses uses_of(const OperandParts *parts, const IrOp *mma)
{
  SlotUses uses = {
      .kernel = parts->kernel, .slot = ir_slot_of(parts->kernel, mma->operands[2], NULL), .mma = mma};
  if (uses.slot) ir_region_visit(parts->kernel->body, count_use, &uses);
  return uses;
}

static const char *slot_refusal(const OperandParts *parts, const IrOp *mma, unsigned count)
{
  SlotUses uses = uses_of(parts, mma);
  if (!uses.slot || uses.fills != 1 || uses.fill->operands[0]->kind == EXPR_INDEX)
    return "B is filled in several pieces";
  if (uses.others) return "other operations read what each block would have a part of";
  if (ir_tile_extent(uses.slot->declared, operand_divided_dim(mma->operands[2])) % count)
    return "the columns of B are no multiple of the blocks";
  return NULL;
}

const char *divided_refusal(const OperandParts *parts, const IrOp *mma, const Mechanism *product)
{
  unsigned blocks = mechanism_blocks(product);
  const IrOp *tiles = parts->tiles;
  if (blocks <= 1) return NULL;
  if (product->a & IN_PEER_SHARED) return "no pass divides A among blocks";
  if (!tiles || ir_attribute_int(tiles, ATTR_CLUSTER_M, 1) != blocks ||
      ir_attribute_int(tiles, ATTR_CLUSTER_N, 1) != 1)
    return arena_printf(
        parts->kernel->module->arena,
        "they take %u blocks below one another, the plan's clusters (cluster_m, cluster_n) are others",
        blocks);
  if (ir_attribute_int(tiles, ATTR_SPLIT_K, 1) > 1 || ir_attribute_int(tiles, ATTR_STREAM_K, 1) > 1 ||
      ir_attribute_int(tiles, ATTR_PINGPONG, 1) > 1 || scheduler_of(parts->kernel->module, tiles))
    return "blocks that divide k, or take tiles in an order of their own, go through no products together";
  const char *against = cluster_refusal(parts->context, tiles, blocks, 1);
  if (against) return against;
  if (blocks > parts->context->gpu->cluster_portable) return "clusters have fewer blocks";
  return operand_parts(product) > 1 ? slot_refusal(parts, mma, blocks) : NULL;
}

static void divide_operand(const OperandParts *parts, IrOp *mma, const Mechanism *product)
{
  IrModule *module = parts->kernel->module;
  unsigned blocks = mechanism_blocks(product);
  if (blocks <= 1 || ir_attribute(mma, ATTR_BLOCKS)) return;
  ir_attribute_set(mma, ATTR_BLOCKS, ir_int(module, blocks));
  if (operand_parts(product) <= 1) return;
  IrOp *slot = ir_slot_of(parts->kernel, mma->operands[2], NULL), *fill = uses_of(parts, mma).fill;
  unsigned dim = operand_divided_dim(mma->operands[2]);
  int64_t part = ir_tile_extent(slot->declared, dim) / blocks;
  slot->declared = division_type(module, slot->declared, dim, part);
  IrExpr *begin = division_begin(module, ir_call(module, "cluster_rank", 0), part);
  fill->operands[1] = division_corner(module, fill->operands[1], 2, dim, begin);
}

void divide_operands(const OperandParts *parts, const GPtrArray *products)
{
  for (unsigned i = 0; i < products->len; i++)
    divide_operand(parts, products->pdata[i], ir_mechanism_of(products->pdata[i]));
}
