/* Scalar products: each thread multiplies a column of A by a row of B, element by element, for its rectangle
 * of the accumulator. Elements come from shared memory in vectors along whatever dimension is contiguous. */
#include "ir/lower/lower.h"

typedef struct Side {
  const LowerShared *shared;
  unsigned k_dim;
  LowerMap map; /* the thread's part */
  unsigned n;   /* elements of the thread along the dimension that is not k */
  unsigned *offset;
  unsigned k_block; /* steps of k that one load brings */
  unsigned run;     /* elements along the other dimension that one load brings */
} Side;

static Side side_of(Lower *lower, const LowerProduct *product, const LowerShared *shared, unsigned acc_dim)
{
  Side side = {.shared = shared, .k_dim = 1 - acc_dim};
  LowerMap all = lower_map_of(product->acc->layout);
  for (unsigned i = 0; i < all.n; i++) {
    LowerDigit digit = all.digit[i];
    unsigned step = digit.step[acc_dim];
    if (!step) continue;
    digit.step[0] = digit.step[1] = 0;
    digit.step[acc_dim] = step;
    side.map.digit[side.map.n++] = digit;
  }
  side.offset = lower_acc_offsets(lower, product, acc_dim, 1, &side.n);
  unsigned inner = lower_shared_inner(shared), vector = lower_shared_vector(shared, inner);
  side.k_block = side.run = 1;
  if (inner == side.k_dim) {
    side.k_block = MIN(vector, 4);
    return side;
  }
  for (unsigned run = vector; run > 1; run /= 2) { /* the thread's elements must come in such runs */
    bool good = side.n % run == 0;
    for (unsigned i = 0; good && i < side.n; i++)
      good = side.offset[i] == side.offset[i / run * run] + i % run && side.offset[i / run * run] % run == 0;
    for (unsigned i = 0; good && i < side.map.n; i++)
      good = side.map.digit[i].step[acc_dim] % run == 0;
    if (!good) continue;
    side.run = run;
    break;
  }
  return side;
}

/* Elements [k, k + block) for all offsets, in the accumulator's type: out[offset * block + step]. */
static IrExpr **load_side(Lower *lower, const Side *side, NumberType element, NumberType to, unsigned k,
                          unsigned block)
{
  IrExpr **out = arena_new_array(lower->arena, IrExpr *, (size_t)side->n * block);
  LowerTile tile = {.element = element, .n = 16};
  tile.reg = arena_new_array(lower->arena, IrExpr *, 16);
  unsigned reg[16];
  for (unsigned i = 0; i < 16; i++)
    reg[i] = i;
  for (unsigned i = 0; i < side->n && !lower->failed; i += side->run)
    for (unsigned s = 0; s < block; s += side->k_block) {
      unsigned at[LAYOUT_MAX_DIMS] = {0}, count = side->run * side->k_block;
      at[side->k_dim] = k + s;
      at[1 - side->k_dim] = side->offset[i];
      tile.pair = NULL;
      lower_load_vector(lower, OP_LOAD_SHARED, lower_shared_at(lower, side->shared, &side->map, at), &tile,
                        reg, count, NULL, NULL, NULL);
      for (unsigned e = 0; e < count; e++) {
        unsigned row = i + (side->run > 1 ? e : 0), step = s + (side->k_block > 1 ? e : 0);
        out[row * block + step] = lower_cast_register(lower, tile.reg[e], element, to, NULL);
      }
    }
  return out;
}

void lower_mma_fma(Lower *lower, const LowerProduct *product)
{
  if (!product->a_shared || !product->b_shared) {
    lower_fail(lower, ERROR_UNSUPPORTED, "mma", NULL,
               "scalar products read both operands from shared memory");
    return;
  }
  Side a = side_of(lower, product, &product->a, 0), b = side_of(lower, product, &product->b, 1);
  unsigned block = MAX(a.k_block, b.k_block);
  while (product->k % block)
    block /= 2;
  a.k_block = MIN(a.k_block, block);
  b.k_block = MIN(b.k_block, block);
  IrType type = ir_scalar(lower_register_type(product->acc_type));
  lower_clear_if_first(lower, product);
  for (unsigned k = 0; k < product->k && !lower->failed; k += block) {
    IrExpr **x = load_side(lower, &a, product->a_type, product->acc_type, k, block);
    IrExpr **y = load_side(lower, &b, product->b_type, product->acc_type, k, block);
    for (unsigned s = 0; s < block && !lower->failed; s++)
      for (unsigned i = 0; i < a.n; i++)
        for (unsigned j = 0; j < b.n && !lower->failed; j++) {
          unsigned reg = lower_acc_register(lower, product, a.offset[i], b.offset[j]);
          IrExpr *acc = product->acc->reg[reg];
          lower_set(lower, acc,
                    lower_value(lower, OP_FMA, type, "sum", 3, x[i * block + s], y[j * block + s], acc));
        }
  }
}
