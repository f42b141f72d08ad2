/* Products over several blocks: which clusters they need, and what each block has of their operands. */
#include "ir/passes/divide_operands.h"
#include "ir/facts.h"
#include "ir/passes/cluster.h"
#include "ir/passes/division.h"
#include "ir/passes/scheduler.h"

/* Do the plan's clusters have their blocks beside one another? */
static bool lie_beside(const OperandParts *parts)
{
  return parts->tiles && ir_attribute_int(parts->tiles, ATTR_CLUSTER_N, 1) > 1;
}

unsigned operand_divided(const OperandParts *parts, const Mechanism *product)
{
  if (mechanism_blocks(product) <= 1) return 0;
  bool a = product->a & IN_PEER_SHARED, b = product->b & IN_PEER_SHARED;
  return a && (!b || lie_beside(parts)) ? 1 : b ? 2 : 0;
}

unsigned operand_divided_dim(const IrOp *mma, unsigned operand)
{
  bool transposed = mma->operands[operand]->kind == EXPR_TRANSPOSED;
  return (operand == 2) ^ transposed;
}

/* The fill of the operand's slot, and what else names the slot. */
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

static SlotUses uses_of(const OperandParts *parts, const IrOp *mma, unsigned operand)
{
  SlotUses uses = {
      .kernel = parts->kernel, .slot = ir_slot_of(parts->kernel, mma->operands[operand], NULL), .mma = mma};
  if (uses.slot) ir_region_visit(parts->kernel->body, count_use, &uses);
  return uses;
}

static const char *slot_refusal(const OperandParts *parts, const IrOp *mma, unsigned operand, unsigned count)
{
  Arena *arena = parts->kernel->module->arena;
  const char *name = operand == 1 ? "A" : "B";
  SlotUses uses = uses_of(parts, mma, operand);
  if (!uses.slot) return arena_printf(arena, "%s lies in registers, which no peer reads", name);
  if (uses.fills != 1 || uses.fill->operands[0]->kind == EXPR_INDEX)
    return arena_printf(arena, "%s is filled in several pieces", name);
  if (uses.others) return "other operations read what each block would have a part of";
  if (ir_tile_extent(uses.slot->declared, operand_divided_dim(mma, operand)) % count)
    return arena_printf(arena, "the %s of %s are no multiple of the blocks",
                        operand == 1 ? "rows" : "columns", name);
  return NULL;
}

const char *divided_refusal(const OperandParts *parts, const IrOp *mma, const Mechanism *product)
{
  unsigned blocks = mechanism_blocks(product), divided = operand_divided(parts, product);
  const IrOp *tiles = parts->tiles;
  if (blocks <= 1) return NULL;
  unsigned rows = divided == 1 ? 1 : blocks, columns = blocks / rows;
  if (!tiles || ir_attribute_int(tiles, ATTR_CLUSTER_M, 1) != rows ||
      ir_attribute_int(tiles, ATTR_CLUSTER_N, 1) != columns)
    return arena_printf(
        parts->kernel->module->arena,
        "they take %u blocks %s one another, the plan's clusters (cluster_m, cluster_n) are others", blocks,
        divided == 1 ? "beside" : "below");
  if (ir_attribute_int(tiles, ATTR_SPLIT_K, 1) > 1 || ir_attribute_int(tiles, ATTR_STREAM_K, 1) > 1 ||
      ir_attribute_int(tiles, ATTR_PINGPONG, 1) > 1 || scheduler_of(parts->kernel->module, tiles))
    return "blocks that divide k, or take tiles in an order of their own, go through no products together";
  const char *against = cluster_refusal(parts->context, tiles, rows, columns);
  if (against) return against;
  if (blocks > parts->context->gpu->cluster_portable) return "clusters have fewer blocks";
  return divided ? slot_refusal(parts, mma, divided, blocks) : NULL;
}

static void divide_operand(const OperandParts *parts, IrOp *mma, const Mechanism *product)
{
  IrModule *module = parts->kernel->module;
  unsigned blocks = mechanism_blocks(product), divided = operand_divided(parts, product);
  if (blocks <= 1 || ir_attribute(mma, ATTR_BLOCKS)) return;
  ir_attribute_set(mma, ATTR_BLOCKS, ir_int(module, blocks));
  if (!divided) return;
  SlotUses uses = uses_of(parts, mma, divided);
  IrOp *slot = ir_slot_of(parts->kernel, mma->operands[divided], NULL);
  unsigned dim = operand_divided_dim(mma, divided);
  int64_t part = ir_tile_extent(slot->declared, dim) / blocks;
  slot->declared = division_type(module, slot->declared, dim, part);
  IrExpr *begin = division_begin(module, ir_call(module, "cluster_rank", 0), part);
  uses.fill->operands[1] = division_corner(module, uses.fill->operands[1], 2, dim, begin);
}

void divide_operands(const OperandParts *parts, const GPtrArray *products)
{
  for (unsigned i = 0; i < products->len; i++)
    divide_operand(parts, products->pdata[i], ir_mechanism_of(products->pdata[i]));
}
