/* Warp products: fragments of A and B are loaded from shared memory (or are registers already), then one
 * instruction a 16 x 8 piece of the accumulator and step of k. The fragments of step k + 1 are loaded before
 * the products of step k.
 *
 * Shared operands come by 8x8 matrices of 16-bit cells: rows of 16 bytes. A K-contiguous operand of any
 * element size fits as it is; a 16-bit one that is contiguous along m or n is transposed on the way; others
 * are read element by element. */
#include "ir/lower/lower.h"

typedef struct Fragment {
  IrExpr *reg[4];
} Fragment;

typedef struct Warp {
  const LowerProduct *product;
  unsigned bytes;         /* of an operand's element */
  unsigned per;           /* elements in a 32-bit register */
  unsigned k;             /* of one instruction */
  unsigned rows, columns; /* pieces of the warp along m and n */
  unsigned *row, *column; /* their offsets */
  LowerMap a_map, b_map;  /* warps' part of the coordinates in A and B */
  bool round;             /* f32 operands rounded to tf32 */
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

static bool is_matrix_loadable(Lower *lower, const Warp *warp, const LowerShared *shared, unsigned k_dim)
{
  unsigned inner = lower_shared_inner(shared);
  if (!gpu_has(lower->context->gpu, "matrix_load")) return false;
  if (inner != k_dim && warp->bytes != 2) return false;
  return lower_shared_vector(shared, inner) * warp->bytes >= 16;
}

static IrExpr *rounded(Lower *lower, const Warp *warp, IrExpr *x)
{
  if (!warp->round) return x;
  IrExpr *y = lower_value(lower, OP_BITCAST, ir_scalar(NUMBER_F32), "x", 1, x);
  return lower_value(lower, OP_CAST, ir_scalar(NUMBER_TF32), "x", 1, y);
}

/* `matrices` 8x8 matrices; `at` is the coordinate of the first. Lanes 8 i .. 8 i + 7 give the rows of matrix
 * i: it lies `k_first` ? (i & 1) : (i >> 1) steps along k and the other bit along m or n. */
static void load_matrices(Lower *lower, const Warp *warp, const LowerShared *shared, const LowerMap *warps,
                          unsigned k_dim, bool k_first, unsigned matrices, const unsigned *at, IrExpr **out)
{
  unsigned other = 1 - k_dim, inner = lower_shared_inner(shared), k_step = 4 * warp->per;
  LowerMap map = *warps;
  bool transposed = inner != k_dim;
  lower_map_add(&map, SOURCE_LANE, 1, 8, 32, transposed ? k_dim : other, 1);
  lower_map_add(&map, SOURCE_LANE, 8, 2, 32, k_first ? k_dim : other, k_first ? k_step : 8);
  if (matrices == 4)
    lower_map_add(&map, SOURCE_LANE, 16, 2, 32, k_first ? other : k_dim, k_first ? 8 : k_step);
  LowerAddress address = lower_shared_at(lower, shared, &map, at);
  IrOp *load = lower_emit(lower, OP_LOAD_MATRIX, 1, lower_address(lower, address));
  for (unsigned i = 0; i < matrices; i++)
    out[i] = lower_result(lower, load, "x", ir_scalar(NUMBER_B32));
  if (transposed) ir_attribute_set(load, ATTR_TRANSPOSED, NULL);
  for (unsigned i = 0; i < matrices; i++)
    out[i] = rounded(lower, warp, out[i]);
}

/* One 32-bit register of a fragment, element by element: rows (columns of B) lane / 4, k from per * (lane %
 * 4). */
static IrExpr *load_elements(Lower *lower, const Warp *warp, const LowerShared *shared, const LowerMap *warps,
                             unsigned k_dim, const unsigned *at)
{
  LowerMap map = *warps;
  lower_map_add(&map, SOURCE_LANE, 1, 4, 32, k_dim, warp->per);
  lower_map_add(&map, SOURCE_LANE, 4, 8, 32, 1 - k_dim, 1);
  LowerTile tile = {.element = shared->element, .n = warp->per};
  unsigned reg[4] = {0, 1, 2, 3};
  tile.reg = arena_new_array(lower->arena, IrExpr *, 4);
  for (unsigned i = 0; i < warp->per; i++) {
    unsigned here[LAYOUT_MAX_DIMS] = {at[0], at[1]};
    here[k_dim] += i;
    lower_load_vector(lower, OP_LOAD_SHARED, lower_shared_at(lower, shared, &map, here), &tile, &reg[i], 1,
                      NULL, NULL, NULL);
  }
  if (warp->per == 1) return rounded(lower, warp, tile.reg[0]);
  return warp->per == 2 ? lower_pair(lower, &tile, 0, 1) : lower_byte_quad(lower, &tile, reg);
}

/* ---- Operands that are registers ---- */

static unsigned tile_register(Lower *lower, LowerTile *tile, unsigned row, unsigned column)
{
  const unsigned *at = lower_registers(lower, tile->layout);
  for (unsigned r = 0; r < tile->n; r++)
    if (at[(size_t)r * LAYOUT_MAX_DIMS] == row && at[(size_t)r * LAYOUT_MAX_DIMS + 1] == column) return r;
  lower_fail(lower, ERROR_INPUT, "mma", NULL, "a register operand of mma is not in the fragment's layout");
  return 0;
}

static IrExpr *register_word(Lower *lower, const Warp *warp, LowerTile *tile, unsigned k_dim,
                             const unsigned *at)
{
  unsigned reg[4];
  for (unsigned i = 0; i < warp->per; i++) {
    unsigned here[2] = {at[0], at[1]};
    here[k_dim] += i;
    reg[i] = tile_register(lower, tile, here[0], here[1]);
  }
  if (warp->per == 1) return rounded(lower, warp, tile->reg[reg[0]]);
  return warp->per == 2 ? lower_pair(lower, tile, reg[0], reg[1]) : lower_byte_quad(lower, tile, reg);
}

/* ---- Fragments ---- */

/* A: registers are rows 0, 8 at k, then rows 0, 8 at k + half. */
static void load_a(Lower *lower, const Warp *warp, unsigned k, Fragment *a)
{
  const LowerProduct *product = warp->product;
  bool matrices = product->a_shared && is_matrix_loadable(lower, warp, &product->a, 1);
  for (unsigned i = 0; i < warp->rows && !lower->failed; i++) {
    unsigned at[LAYOUT_MAX_DIMS] = {warp->row[i], k};
    if (matrices) {
      load_matrices(lower, warp, &product->a, &warp->a_map, 1, false, 4, at, a[i].reg);
      continue;
    }
    for (unsigned r = 0; r < 4; r++) {
      unsigned here[LAYOUT_MAX_DIMS] = {at[0] + r % 2 * 8, at[1] + r / 2 * 4 * warp->per};
      a[i].reg[r] = product->a_shared ? load_elements(lower, warp, &product->a, &warp->a_map, 1, here)
                                      : register_word(lower, warp, product->a_tile, 1, here);
    }
  }
}

/* B: registers are k and k + half; one load of four matrices serves two neighbouring pieces. */
static void load_b(Lower *lower, const Warp *warp, unsigned k, Fragment *b)
{
  const LowerProduct *product = warp->product;
  bool matrices = product->b_shared && is_matrix_loadable(lower, warp, &product->b, 0);
  for (unsigned j = 0; j < warp->columns && !lower->failed; j++) {
    unsigned at[LAYOUT_MAX_DIMS] = {k, warp->column[j]};
    if (matrices) {
      bool two = j + 1 < warp->columns && warp->column[j + 1] == warp->column[j] + 8;
      IrExpr *x[4];
      load_matrices(lower, warp, &product->b, &warp->b_map, 0, true, two ? 4 : 2, at, x);
      b[j] = (Fragment){{x[0], x[1]}};
      if (two) b[++j] = (Fragment){{x[2], x[3]}};
      continue;
    }
    for (unsigned r = 0; r < 2; r++) {
      unsigned here[LAYOUT_MAX_DIMS] = {at[0] + r * 4 * warp->per, at[1]};
      b[j].reg[r] = product->b_shared ? load_elements(lower, warp, &product->b, &warp->b_map, 0, here)
                                      : register_word(lower, warp, product->b_tile, 0, here);
    }
  }
}

/* ---- Products ---- */

static void set_kind(Lower *lower, IrOp *op, const Warp *warp)
{
  const LowerProduct *product = warp->product;
  IrModule *module = lower->module;
  bool tf32 = warp->bytes == 4;
  NumberType types[3] = {tf32 ? NUMBER_TF32 : product->a_type, tf32 ? NUMBER_TF32 : product->b_type,
                         product->acc_type};
  unsigned shape[3] = {16, 8, warp->k};
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

static void multiply(Lower *lower, const Warp *warp, Fragment *a, Fragment *b)
{
  for (unsigned i = 0; i < warp->rows; i++)
    for (unsigned jj = 0; jj < warp->columns && !lower->failed; jj++) {
      unsigned j =
          i % 2 ? warp->columns - 1 - jj : jj; /* back and forth: the fragment of the turn is used twice */
      IrOp *op =
          lower_emit(lower, OP_PRODUCT_WARP, 3, accumulator(lower, warp, warp->row[i], warp->column[j]),
                     ir_list(lower->module, 4, a[i].reg), ir_list(lower->module, 2, b[j].reg));
      set_kind(lower, op, warp);
    }
}

static bool takes_types(Lower *lower, const Warp *warp)
{
  const LowerProduct *product = warp->product;
  NumberType a = warp->bytes == 4 ? NUMBER_TF32 : product->a_type,
             b = warp->bytes == 4 ? NUMBER_TF32 : product->b_type;
  return gpu_product(lower->context->gpu, "product_warp", a, b, product->acc_type) != NULL;
}

/* `first`: the accumulator starts from zero, by writing zeros. */
static void clear_if_first(Lower *lower, const LowerProduct *product)
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

void lower_mma_warp(Lower *lower, const LowerProduct *product)
{
  Warp warp = {.product = product, .bytes = number_bytes(product->a_type)};
  if (warp.bytes > 4 || number_bytes(product->b_type) != warp.bytes || product->k % (32 / warp.bytes)) {
    lower_fail(lower, ERROR_UNSUPPORTED, "mma", NULL, "no warp product of %s and %s over k = %u",
               number_name(product->a_type), number_name(product->b_type), product->k);
    return;
  }
  warp.per = 4 / warp.bytes;
  warp.k = 8 * warp.per;
  if (!takes_types(lower, &warp)) {
    lower_fail(lower, ERROR_UNSUPPORTED, "mma", NULL, "the GPU has no warp product of %s and %s into %s",
               number_name(product->a_type), number_name(product->b_type), number_name(product->acc_type));
    return;
  }
  warp.round = warp.bytes == 4 && !ir_attribute_is(product->op, ATTR_MATH_TYPE, "raw");
  warp.row = lower_acc_offsets(lower, product, 0, 16, &warp.rows);
  warp.column = lower_acc_offsets(lower, product, 1, 8, &warp.columns);
  warp.a_map = operand_map(product->acc->layout, 0, 0);
  warp.b_map = operand_map(product->acc->layout, 1, 1);
  clear_if_first(lower, product);
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
      load_a(lower, &warp, (s + 1) * warp.k, a[(s + 1) % 2]);
      load_b(lower, &warp, (s + 1) * warp.k, b[(s + 1) % 2]);
    }
    multiply(lower, &warp, a[s % 2], b[s % 2]);
  }
}
