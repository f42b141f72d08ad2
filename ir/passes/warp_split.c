/* Warps and the sums of their products. */
#include "ir/passes/warp_split.h"
#include "ir/mechanism.h"
#include "ir/resources.h"

const IrValue *ir_cut_tile(const IrExpr *operand)
{
  bool part = operand->kind == EXPR_INDEX && operand->n == 3 && operand->items[0]->kind == EXPR_VALUE &&
              operand->items[0]->value->type.kind == TYPE_TILE;
  return part ? operand->items[0]->value : NULL;
}

/* Columns that a part has, 0 where it does not begin at a multiple of them. */
static int64_t part_columns(const IrExpr *part, int64_t columns)
{
  const IrExpr *cut = part->items[2];
  int64_t from, to;
  bool known = cut->kind == EXPR_RANGE && ir_expr_is_int(cut->items[0], &from) &&
               ir_expr_is_int(cut->items[1], &to) && to > from;
  return known && columns % (to - from) == 0 && from % (to - from) == 0 ? to - from : 0;
}

static bool adds(const IrOp *op, const IrValue *sum)
{
  bool added = false;
  for (unsigned i = 0; op->code == OP_ADD && i < op->n_operands; i++)
    added |= op->operands[i]->kind == EXPR_VALUE && op->operands[i]->value == sum;
  return added;
}

/* Where the sum of one step of a product is added to those before: the variable that keeps them. `sum` itself if it is one of all steps. */
static const IrValue *kept_sum(const GPtrArray *ops, const IrValue *sum)
{
  const IrValue *both = NULL;
  for (unsigned i = 0; i < ops->len; i++) {
    const IrOp *op = ops->pdata[i];
    if (!both && adds(op, sum)) both = op->results[0];
    if (both && op->code == OP_SET && op->operands[0]->kind == EXPR_VALUE &&
        op->operands[1]->kind == EXPR_VALUE && op->operands[1]->value == both)
      return op->operands[0]->value;
  }
  return sum;
}

unsigned product_part(const GPtrArray *ops, const IrValue *sum)
{
  const IrValue *kept = kept_sum(ops, sum);
  int64_t columns = ir_tile_extent(&sum->type, 1), part = columns;
  for (unsigned i = 0; i < ops->len; i++) {
    const IrOp *op = ops->pdata[i];
    for (unsigned j = 0; j < op->n_operands; j++) {
      const IrValue *cut = ir_cut_tile(op->operands[j]);
      if (!cut || (cut != sum && cut != kept)) continue;
      int64_t own = part_columns(op->operands[j], columns);
      if (!own || (part != columns && part != own)) return 0;
      part = own;
    }
  }
  return (unsigned)part;
}

bool warp_split(const GPtrArray *ops, const IrOp *mma, bool whole_rows, unsigned warps, WarpSplit *split)
{
  const IrValue *sum = mma->operands[0]->value;
  unsigned m = (unsigned)ir_tile_extent(&sum->type, 0), n = (unsigned)ir_tile_extent(&sum->type, 1),
           cut = whole_rows ? 0 : product_part(ops, sum), best = G_MAXUINT;
  *split = (WarpSplit){1, 1, n};
  for (unsigned wm = 1; wm <= warps; wm++) {
    unsigned wn = warps / wm, part = wn > 1 ? cut : n;
    if (wm * wn != warps || m % (16 * wm) || !part || part % (8 * wn)) continue;
    unsigned cost =
        m / wm + n / wn + ((part / wn) % 16 ? 64 : 0); /* fragments of 8 columns are loaded two at a time */
    if (cost >= best) continue;
    best = cost;
    *split = (WarpSplit){wm, wn, part};
  }
  return best < G_MAXUINT;
}

/* How many warps a product asks for, 0 where it does not. */
static unsigned take_asked(IrOp *mma)
{
  const IrExpr *warps = ir_attribute_value(mma, ATTR_WARPS);
  int64_t asked = 0;
  if (!warps || warps->n > 1) return 0;
  ir_expr_is_int(warps->items[0], &asked);
  ir_attribute_remove(mma, ATTR_WARPS);
  return (unsigned)CLAMP(asked, 0, PRODUCT_WARPS_MOST);
}

static bool divides_all(const GPtrArray *ops, const GPtrArray *products, bool whole_rows, unsigned warps)
{
  WarpSplit split;
  for (unsigned i = 0; i < products->len; i++)
    if (!warp_split(ops, products->pdata[i], whole_rows, warps, &split)) return false;
  return true;
}

/* The number asked for, else the next above it, which a block may still have, for fewer warps hold more registers each; else the next
 * below. */
static unsigned dividing_warps(const GPtrArray *ops, const GPtrArray *products, bool whole_rows,
                               unsigned wanted)
{
  for (unsigned warps = wanted; warps <= PRODUCT_WARPS_MOST; warps++)
    if (divides_all(ops, products, whole_rows, warps)) return warps;
  while (wanted > 1 && !divides_all(ops, products, whole_rows, wanted))
    wanted--;
  return wanted;
}

unsigned product_warps_asked(const GPtrArray *ops, bool whole_rows)
{
  g_autoptr(GPtrArray) products = g_ptr_array_new();
  g_autoptr(GHashTable) sums = g_hash_table_new(NULL, NULL);
  int64_t outputs = 0;
  unsigned asked = 0;
  for (unsigned i = 0; i < ops->len; i++) {
    IrOp *op = ops->pdata[i];
    if (op->code != OP_MMA) continue;
    unsigned own = take_asked(op);
    asked = MAX(asked, own);
    if (ir_mechanism_of(op)->accumulator != ACCUMULATOR_WARP) continue;
    if (!g_hash_table_add(sums, op->operands[0]->value)) continue;
    g_ptr_array_add(products, op);
    outputs += ir_tile_elements(&op->operands[0]->value->type);
  }
  if (!asked) asked = product_warps((unsigned)outputs);
  return products->len ? dividing_warps(ops, products, whole_rows, asked) : 0;
}
