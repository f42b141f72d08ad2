/* warp MMAs: fragments of A and B are loaded from shared memory (or are registers already), then one
 * instruction a 16 x 8 piece of the accumulator and step of k. The fragments of step k + 1 are loaded before
 * the products of step k. */
#include "ir/lower/lower.h"

typedef struct Fragment {
  IrExpr *reg[4];
} Fragment;

enum { HALVES = 2 }; /* of a fragment of 8 bits, which instructions of 16 take one after the other */

/* Which k the registers have that an instruction takes: by steps of it, of their halves the first element (lane 0). */
typedef struct Order {
  unsigned *first;
  unsigned apart; /* a register's elements from each other */
  unsigned lanes; /* k from a lane to the next */
} Order;

enum { RUN = 2 * LOWER_RUN_WORDS }; /* elements that are loaded at once where lanes have runs of k */

/* What has been loaded of a column's run, from k = `from` on. */
typedef struct Run {
  unsigned from;
  IrExpr *word[LOWER_RUN_WORDS];
} Run;

typedef struct Warp {
  const LowerProduct *product;
  unsigned bytes;         /* of an operand's element */
  unsigned per;           /* elements in a 32-bit register */
  unsigned k;             /* of one instruction */
  unsigned rows, columns; /* pieces of the warp along m and n */
  unsigned *row, *column; /* their offsets */
  LowerMap a_map, b_map;  /* warps' part of the coordinates in A and B */
  bool round;             /* f32 operands rounded to tf32 */
  const GpuProduct *shape;
  Order order; /* of k */
  Run *runs;   /* of B's columns */
} Warp;

/* The accumulator's warps, seen from an operand: digits along k do not exist, along the other dimension they
 * stay. */
static LowerMap operand_map(const Layout *acc, unsigned acc_dim, unsigned dim)
{
  LowerMap all = lower_map_of_warps(acc), map = {0};
  for (unsigned i = 0; i < all.n; i++) {
    LowerDigit digit = all.digit[i];
    unsigned step = digit.step[acc_dim];
    if (!step) continue;
    digit.step[0] = digit.step[1] = 0;
    digit.step[dim] = step;
    map.digit[map.n++] = digit;
  }
  return map;
}

/* Products of tf32 cut what a 10-bit mantissa does not hold. One multiplication beforehand turns that into
 * rounding: of a mantissa m in [1, 2) it adds m * 11/32 units of the last place kept, half a unit on average.
 * What tf32 holds exactly stays (11/16 of a unit at most is added), so do NaN and infinity; the error is at
 * most 0.69 units, and its root mean square 1.06 times that of rounding to nearest. That (`cast`) is a
 * comparison and an addition under its predicate, one after the other for want of predicates: half the speed
 * of the products (docs/performance-log.md). */
#define ROUND_BY (1.0 + 11.0 / 32768)

static IrExpr *rounded(Lower *lower, const Warp *warp, IrExpr *x)
{
  if (!warp->round) return x;
  IrExpr *y = x;
  if (x->kind != EXPR_VALUE || x->value->type.element != NUMBER_F32)
    y = lower_value(lower, OP_BITCAST, ir_scalar(NUMBER_F32), "x", 1, x);
  y = lower_value(lower, OP_MUL, ir_scalar(NUMBER_F32), "x", 2, y, ir_float(lower->module, ROUND_BY));
  return lower_value(lower, OP_BITCAST, ir_scalar(NUMBER_B32), "x", 1, y);
}

/* ---- Fragments ---- */

/* The order in which registers hold a row's elements is that in which instructions take them. */
static Order order_of(Lower *lower, const Warp *warp)
{
  const LowerTile *tile = warp->product->a_shared ? NULL : warp->product->a_tile;
  unsigned half = 4 * warp->per, n = warp->product->k / half, count = 0;
  Order order = {arena_new_array(lower->arena, unsigned, n), 1, warp->per};
  for (unsigned i = 0; i < n && !tile; i++)
    order.first[i] = i * half;
  if (!tile) return order;
  const unsigned *at = lower_registers(lower, tile->layout);
  for (unsigned r = 0; r + 1 < tile->n && count < n; r += warp->per)
    if (at[(size_t)r * LAYOUT_MAX_DIMS] == at[0]) order.first[count++] = at[(size_t)r * LAYOUT_MAX_DIMS + 1];
  if (warp->per > 1) order.apart = at[LAYOUT_MAX_DIMS + 1] - at[1];
  for (unsigned i = 0; i < tile->layout->n; i++) {
    const LayoutMode *mode = &tile->layout->modes[i];
    if (mode->place == PLACE_LANE && mode->dim == 1) order.lanes = mode->step;
  }
  if (count < n)
    lower_fail(lower, ERROR_INPUT, "mma", NULL, "a register operand of mma is not in the fragment's layout");
  return order;
}

/* A: registers are rows 0, 8 of the step's first half of k, then of its second. */
static void load_a(Lower *lower, const Warp *warp, unsigned step, Fragment *a)
{
  const LowerProduct *product = warp->product;
  const Order *order = &warp->order;
  for (unsigned i = 0; i < warp->rows && !lower->failed; i++) {
    if (product->a_shared)
      lower_fragment_a(lower, &product->a, &warp->a_map, warp->row[i], step * warp->k, a[i].reg);
    for (unsigned r = 0; r < 4; r++) {
      unsigned here[2] = {warp->row[i] + r % 2 * 8, order->first[2 * step + r / 2]};
      if (!product->a_shared)
        a[i].reg[r] = lower_operand_word(lower, product->a_tile, warp->per, 1, order->apart, here);
    }
  }
}

/* Of a run the two elements that a register takes. */
static IrExpr *pair_of_run(Lower *lower, const Run *run, unsigned low, unsigned high)
{
  IrExpr *a = run->word[low / 2], *b = run->word[high / 2];
  if (a == b && low % 2 == 0) return a;
  unsigned selector = (low % 2 ? 0x32 : 0x10) | (high % 2 ? 0x7600 : 0x5400);
  return lower_value(lower, OP_PERMUTE, ir_scalar(NUMBER_B32), "pair", 3, a, b, lower_int(lower, selector));
}

/* B where lanes have runs of k: what one load brings serves two steps. */
static void load_runs(Lower *lower, const Warp *warp, unsigned step, Fragment *b)
{
  for (unsigned j = 0; j < warp->columns && !lower->failed; j++) {
    Run *run = &warp->runs[j];
    for (unsigned r = 0; r < 2 && !lower->failed; r++) {
      unsigned low = warp->order.first[2 * step + r], from = low / RUN * RUN;
      if (!run->word[0] || run->from != from)
        lower_fragment_run(lower, &warp->product->b, &warp->b_map, warp->order.lanes, from, warp->column[j],
                           run->word);
      run->from = from;
      if (!lower->failed) b[j].reg[r] = pair_of_run(lower, run, low - from, low - from + warp->order.apart);
    }
  }
}

/* B: registers are the step's two halves of k; two neighbouring pieces are loaded together. */
static void load_b(Lower *lower, const Warp *warp, unsigned step, Fragment *b)
{
  const LowerProduct *product = warp->product;
  bool runs = warp->order.lanes != warp->per;
  if (runs && product->b_shared) {
    load_runs(lower, warp, step, b);
    return;
  }
  for (unsigned j = 0; j < warp->columns && !lower->failed; j++) {
    if (!product->b_shared) {
      for (unsigned r = 0; r < 2; r++)
        b[j].reg[r] = lower_operand_word(lower, product->b_tile, warp->per, 0, warp->order.apart,
                                         (unsigned[2]){warp->order.first[2 * step + r], warp->column[j]});
      continue;
    }
    IrExpr *x[4];
    bool two = j + 1 < warp->columns && warp->column[j + 1] == warp->column[j] + 8;
    lower_fragment_b(lower, &product->b, &warp->b_map, step * warp->k, warp->column[j], two ? 2 : 1, x);
    b[j] = (Fragment){{x[0], x[1]}};
    if (two) b[++j] = (Fragment){{x[2], x[3]}};
  }
}

/* ---- Products ---- */

static void set_kind(Lower *lower, IrOp *op, const Warp *warp)
{
  IrModule *module = lower->module;
  const GpuProduct *product = warp->shape;
  NumberType types[3] = {product->through, product->widened ? product->through : product->b, product->acc};
  unsigned shape[3] = {16, 8, warp->k / (product->widened ? HALVES : 1)};
  IrExpr *names[3], *numbers[3];
  for (unsigned i = 0; i < 3; i++) {
    names[i] = ir_name(module, number_name(types[i]));
    numbers[i] = ir_int(module, shape[i]);
  }
  ir_attribute_set(op, ATTR_SHAPE, ir_list(module, 3, numbers));
  ir_attribute_set(op, ATTR_TYPES, ir_list(module, 3, names));
}

static IrExpr *accumulator(Lower *lower, const Warp *warp, unsigned row, unsigned column)
{
  const LowerProduct *product = warp->product;
  IrModule *module = lower->module;
  unsigned reg[4];
  bool run = true;
  for (unsigned i = 0; i < 4; i++) {
    reg[i] = lower_acc_register(lower, product, row + i / 2 * 8, column + i % 2);
    run &= reg[i] == reg[0] + i;
  }
  IrExpr *array = ir_value(module, product->acc->array);
  if (run)
    return ir_index(module, array, 1, ir_range(module, ir_int(module, reg[0]), ir_int(module, reg[0] + 4)));
  IrExpr *items[4];
  for (unsigned i = 0; i < 4; i++)
    items[i] = product->acc->reg[reg[i]];
  return ir_list(module, 4, items);
}

/* A register of four elements as two of two: neighbours where instructions convert these, else those that lie as far apart as they will. */
static void widen(Lower *lower, const Warp *warp, NumberType from, IrExpr *word, IrExpr **low, IrExpr **high)
{
  IrOp *op = lower_emit(lower, OP_WIDEN_QUAD, 1, word);
  lower_set_widening(lower, op, from, warp->shape->through);
  if (!gpu_converts_float8(lower->context->gpu)) ir_attribute_set(op, ATTR_CROSSED, NULL);
  *low = lower_result(lower, op, "pair", ir_scalar(NUMBER_B32));
  *high = lower_result(lower, op, "pair", ir_scalar(NUMBER_B32));
}

/* A half of fragments of 8 bits, as fragments of 16: a lane's four elements of a row are two of an instruction's first half of k
 * and two of its second. Which k these are is the same for A and B, and a sum has no order. */
static void widen_half(Lower *lower, const Warp *warp, unsigned half, const Fragment *from, Fragment *to,
                       unsigned n, bool of_a)
{
  NumberType type = of_a ? warp->shape->a : warp->shape->b;
  for (unsigned i = 0; i < n && !lower->failed; i++)
    if (of_a)
      for (unsigned r = 0; r < 2; r++)
        widen(lower, warp, type, from[i].reg[2 * half + r], &to[i].reg[r], &to[i].reg[2 + r]);
    else
      widen(lower, warp, type, from[i].reg[half], &to[i].reg[0], &to[i].reg[1]);
}

/* Down a column of pieces and up the next: the fragment of B stays, that of A at the turn is used twice.
 * Words are rounded right before their first use. */
static void multiply(Lower *lower, const Warp *warp, Fragment *a, Fragment *b)
{
  for (unsigned j = 0; j < warp->columns; j++)
    for (unsigned ii = 0; ii < warp->rows && !lower->failed; ii++) {
      unsigned i = j % 2 ? warp->rows - 1 - ii : ii;
      for (unsigned r = 0; r < 2 && ii == 0; r++)
        b[j].reg[r] = rounded(lower, warp, b[j].reg[r]);
      for (unsigned r = 0; r < 4 && j == 0; r++)
        a[i].reg[r] = rounded(lower, warp, a[i].reg[r]);
      IrOp *op =
          lower_emit(lower, OP_PRODUCT_WARP, 3, accumulator(lower, warp, warp->row[i], warp->column[j]),
                     ir_list(lower->module, 4, a[i].reg), ir_list(lower->module, 2, b[j].reg));
      set_kind(lower, op, warp);
    }
}

static void multiply_widened(Lower *lower, const Warp *warp, const Fragment *a, const Fragment *b)
{
  Fragment *wide_a = arena_new_array(lower->arena, Fragment, warp->rows),
           *wide_b = arena_new_array(lower->arena, Fragment, warp->columns);
  for (unsigned half = 0; half < HALVES && !lower->failed; half++) {
    widen_half(lower, warp, half, a, wide_a, warp->rows, true);
    widen_half(lower, warp, half, b, wide_b, warp->columns, false);
    if (!lower->failed) multiply(lower, warp, wide_a, wide_b);
  }
}

static const GpuProduct *shape_of(Lower *lower, const Warp *warp)
{
  const LowerProduct *product = warp->product;
  NumberType a = warp->bytes == 4 ? NUMBER_TF32 : product->a_type,
             b = warp->bytes == 4 ? NUMBER_TF32 : product->b_type;
  return gpu_product(lower->context->gpu, "warp_mma", a, b, product->acc_type);
}

void lower_mma_warp(Lower *lower, const LowerProduct *product)
{
  Warp warp = {.product = product, .bytes = number_bytes(product->a_type)};
  if (warp.bytes > 4 || number_bytes(product->b_type) != warp.bytes || product->k % (32 / warp.bytes)) {
    lower_fail(lower, ERROR_UNSUPPORTED, "mma", NULL, "no warp MMA of %s and %s over k = %u",
               number_name(product->a_type), number_name(product->b_type), product->k);
    return;
  }
  warp.per = 4 / warp.bytes;
  warp.k = 8 * warp.per;
  warp.shape = shape_of(lower, &warp);
  if (!warp.shape) {
    lower_fail(lower, ERROR_UNSUPPORTED, "mma", NULL,
               "the description of the GPU lists no warp MMA of %s and %s into %s",
               number_name(product->a_type), number_name(product->b_type), number_name(product->acc_type));
    return;
  }
  warp.round = warp.bytes == 4 && !ir_attribute_is(product->op, ATTR_MATH_TYPE, "raw");
  warp.row = lower_acc_offsets(lower, product, 0, 16, &warp.rows);
  warp.column = lower_acc_offsets(lower, product, 1, 8, &warp.columns);
  warp.a_map = operand_map(product->acc->layout, 0, 0);
  warp.b_map = operand_map(product->acc->layout, 1, 1);
  warp.order = order_of(lower, &warp);
  warp.runs = arena_new_array(lower->arena, Run, warp.columns);
  if (lower->failed) return;
  lower_clear_if_first(lower, product);
  unsigned steps = product->k / warp.k;
  Fragment *a[2], *b[2];
  for (unsigned i = 0; i < 2; i++) {
    a[i] = arena_new_array(lower->arena, Fragment, warp.rows);
    b[i] = arena_new_array(lower->arena, Fragment, warp.columns);
  }
  load_a(lower, &warp, 0, a[0]);
  load_b(lower, &warp, 0, b[0]);
  for (unsigned s = 0; s < steps && !lower->failed; s++) {
    if (s + 1 < steps) {
      load_a(lower, &warp, s + 1, a[(s + 1) % 2]);
      load_b(lower, &warp, s + 1, b[(s + 1) % 2]);
    }
    if (warp.shape->widened)
      multiply_widened(lower, &warp, a[s % 2], b[s % 2]);
    else
      multiply(lower, &warp, a[s % 2], b[s % 2]);
  }
}
