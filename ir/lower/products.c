/* mma: what its three lowerings share. */
#include "ir/lower/lower.h"
#include <stdlib.h>

static bool take_operand(Lower *lower, const IrExpr *expr, bool *in_shared, LowerShared *shared,
                         LowerTile **tile, NumberType *type, unsigned *extent)
{
  *in_shared = lower_is_shared(lower, expr);
  if (*in_shared) {
    if (!lower_shared_operand(lower, expr, shared) || shared->rank != 2) {
      lower_fail(lower, ERROR_INPUT, "mma", NULL, "'%s' is no tile of shared memory",
                 ir_expr_text(lower->module, expr));
      return false;
    }
    *type = shared->element;
    extent[0] = shared->extent[0];
    extent[1] = shared->extent[1];
    return true;
  }
  *tile = lower_tile_as_kept(lower, expr);
  if (!*tile) return false;
  *type = (*tile)->element;
  extent[0] = (*tile)->layout->extent[0];
  extent[1] = (*tile)->layout->extent[1];
  return true;
}

unsigned lower_acc_register(Lower *lower, const LowerProduct *product, unsigned row, unsigned column)
{
  for (unsigned r = 0; r < product->acc->n; r++)
    if (product->acc_at[(size_t)r * LAYOUT_MAX_DIMS] == row &&
        product->acc_at[(size_t)r * LAYOUT_MAX_DIMS + 1] == column)
      return r;
  lower_fail(lower, ERROR_INPUT, "mma", NULL,
             "the accumulator's layout is not made of this product's fragments");
  return 0;
}

IrExpr *lower_operand_word(Lower *lower, LowerTile *tile, unsigned per, unsigned k_dim, unsigned apart,
                           const unsigned *at)
{
  unsigned k[4] = {0};
  for (unsigned i = 0; i < per; i++)
    k[i] = at[k_dim] + i * apart;
  return lower_word_of(lower, tile, per, k_dim, at, k);
}

IrExpr *lower_word_of(Lower *lower, LowerTile *tile, unsigned per, unsigned k_dim, const unsigned *at,
                      const unsigned *k)
{
  unsigned reg[4] = {0};
  bool word = tile->packed;
  for (unsigned i = 0; i < per; i++) {
    unsigned here[2] = {at[0], at[1]};
    here[k_dim] = k[i];
    reg[i] = lower_register_at(lower, tile->layout, here[0], here[1]);
    word &= reg[i] == reg[0] + i;
    if (reg[i] < tile->n) continue;
    return lower_fail(lower, ERROR_INPUT, "mma", NULL,
                      "a register operand of mma is not in the fragment's layout");
  }
  if (word && reg[0] % per == 0) return tile->pair[reg[0] / per];
  tile = lower_tile_read(lower, tile);
  if (per == 1) return tile->reg[reg[0]];
  return per == 2 ? lower_pair(lower, tile, reg[0], reg[1]) : lower_byte_quad(lower, tile, reg);
}

static int ascending(const void *a, const void *b)
{
  unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
  return x < y ? -1 : x > y;
}

unsigned *lower_acc_offsets(Lower *lower, const LowerProduct *product, unsigned dim, unsigned step,
                            unsigned *n)
{
  unsigned *offset = arena_new_array(lower->arena, unsigned, product->acc->n), count = 0;
  for (unsigned r = 0; r < product->acc->n; r++) {
    unsigned at = product->acc_at[(size_t)r * LAYOUT_MAX_DIMS + dim];
    if (at % step == 0) offset[count++] = at;
  }
  qsort(offset, count, sizeof *offset, ascending);
  *n = 0;
  for (unsigned i = 0; i < count; i++)
    if (!*n || offset[*n - 1] != offset[i]) offset[(*n)++] = offset[i];
  return offset;
}

void lower_clear_if_first(Lower *lower, const LowerProduct *product)
{
  const IrExpr *first = ir_attribute_value(product->op, ATTR_FIRST);
  if (!first) return;
  IrExpr *condition = lower_condition(lower, first);
  int64_t constant;
  if (lower_is_int(condition, &constant) && !constant) return;
  for (unsigned r = 0; r < product->acc->n; r++) {
    IrExpr *zero = lower_constant(lower, product->acc_type, 0);
    if (!lower_is_int(condition, &constant))
      zero = lower_value(lower, OP_SELECT, ir_scalar(lower_register_type(product->acc_type)), "x", 3,
                         condition, zero, product->acc->reg[r]);
    lower_set(lower, product->acc->reg[r], zero);
  }
}

/* One whose sum lies in registers, of one block. */
static bool has_lowering(const Mechanism *mechanism)
{
  return !mechanism || (mechanism->accumulator != ACCUMULATOR_NONE &&
                        mechanism->accumulator != ACCUMULATOR_MEMORY && mechanism_blocks(mechanism) == 1);
}

void lower_mma(Lower *lower, IrOp *op)
{
  const Mechanism *mechanism = ir_mechanism_of(op);
  if (!has_lowering(mechanism)) {
    lower_fail(lower, ERROR_UNSUPPORTED, "mma", NULL, "products `via %s` have no lowering", mechanism->name);
    return;
  }
  LowerProduct product = {.op = op, .acc = lower_tile(lower, op->operands[0])};
  unsigned a[2], b[2];
  if (!product.acc) return;
  if (!product.acc->array) {
    lower_fail(lower, ERROR_INPUT, "mma", NULL, "the accumulator of mma must be a variable");
    return;
  }
  if (!take_operand(lower, op->operands[1], &product.a_shared, &product.a, &product.a_tile, &product.a_type,
                    a) ||
      !take_operand(lower, op->operands[2], &product.b_shared, &product.b, &product.b_tile, &product.b_type,
                    b))
    return;
  product.m = product.acc->layout->extent[0];
  product.n = product.acc->layout->extent[1];
  product.k = a[1];
  product.acc_type = product.acc->element;
  product.acc_at = lower_registers(lower, product.acc->layout);
  if (a[0] != product.m || b[1] != product.n || a[1] != b[0]) {
    lower_fail(lower, ERROR_INPUT, "shapes-disagree", NULL, "mma of [%u, %u] and [%u, %u] into [%u, %u]",
               a[0], a[1], b[0], b[1], product.m, product.n);
    return;
  }
  switch (mechanism ? mechanism->accumulator : ACCUMULATOR_THREAD) {
  case ACCUMULATOR_WARP: lower_mma_warp(lower, &product); break;
  case ACCUMULATOR_WARPGROUP: lower_mma_group(lower, &product); break;
  case ACCUMULATOR_NONE:
  case ACCUMULATOR_MEMORY: break; /* refused above */
  case ACCUMULATOR_THREAD:
    product.a_tile = lower_tile_read(lower, product.a_tile);
    product.b_tile = lower_tile_read(lower, product.b_tile);
    lower_mma_fma(lower, &product);
    break;
  }
}
