/* warpgroup MMAs: four warps multiply 64 rows by N columns straight from shared memory, asynchronously.
 *
 * A shared operand is named by two words: its start and the distance of its panels, the distance of its rows and
 * its swizzle. How they are encoded is the back end's business (operand_reach() ... operand_rows() in the text); here
 * it is known only that the start counts in units, so that a step along k or to the next rows is an addition of so
 * many. All but the start is constant, so the words are made once a slot. Waits, fences and commits stand in the text.
 */
#include "ir/lower/lower.h"
#include "ir/mechanism.h"
#include "ir/resources.h"

#define UNIT 16 /* bytes that an operand's start counts in */

typedef struct Operand {
  const LowerShared *shared;
  unsigned k_dim;
  bool mn_major;         /* contiguous along m or n */
  IrExpr *rows, *panels; /* the back end's words: distance of rows and swizzle, distance of panels */
  IrExpr *base;          /* u64: descriptor of coordinate (0, 0) of the warpgroup */
  unsigned swizzle;      /* bytes */
} Operand;

static int64_t offset_at(const Operand *operand, unsigned k, unsigned other)
{
  unsigned at[LAYOUT_MAX_DIMS] = {0};
  at[operand->k_dim] = k;
  at[1 - operand->k_dim] = other;
  return lower_shared_linear(operand->shared, at);
}

/* Strides: along 8 rows of a K-major tile; of an MN-major one from one 8-row atom to the next along k
 * (stride) and from one panel to the next along m or n (leading). */
static bool describe(Lower *lower, Operand *operand, const LowerShared *shared, unsigned k_dim,
                     NumberType type)
{
  *operand = (Operand){.shared = shared, .k_dim = k_dim, .swizzle = lower_swizzle_bytes(shared->layout)};
  operand->mn_major = lower_shared_inner(shared) != k_dim;
  unsigned other = shared->extent[1 - k_dim], k = shared->extent[k_dim];
  if (!operand->swizzle || (operand->mn_major && !number_has_bytes(type, 2))) {
    lower_fail(lower, ERROR_UNSUPPORTED, "mma", NULL,
               "a warpgroup MMA reads swizzled tiles, contiguous along k unless of 16 bits");
    return false;
  }
  int64_t start = offset_at(operand, 0, 0), stride, leading = 0;
  unsigned panel = number_elements(type, operand->swizzle);
  if (operand->mn_major) {
    stride = k > 8 ? offset_at(operand, 8, 0) - start : 8 * (int64_t)operand->swizzle;
    leading = other > panel ? offset_at(operand, 0, panel) - start : stride;
  } else {
    stride = other > 8 ? offset_at(operand, 0, 8) - start : 8 * (int64_t)operand->swizzle;
    leading = 16;
  }
  operand->rows = ir_call(lower->module, "operand_rows", 2, ir_int(lower->module, stride),
                          ir_int(lower->module, operand->swizzle));
  operand->panels = ir_call(lower->module, "operand_panels", 1, ir_int(lower->module, leading));
  return true;
}

/* What does not change with the slot comes first; the slot's part cannot carry out of the start's field, since the
 * whole ring lies within reach. */
static IrExpr *descriptor(Lower *lower, const Operand *operand, IrExpr *rows)
{
  const LowerShared *shared = operand->shared;
  IrExpr *address = lower_add(lower, NUMBER_U32, shared->fixed,
                              lower_int(lower, shared->offset + offset_at(operand, 0, 0)));
  if (rows) address = lower_add(lower, NUMBER_U32, address, rows);
  IrType word = ir_scalar(NUMBER_U32);
  IrExpr *field =
      lower_scalar(lower, OP_AND, word, "bits", 2, address, ir_call(lower->module, "operand_reach", 0));
  field = lower_scalar(lower, OP_SHR, word, "high", 2, field, ir_call(lower->module, "operand_unit", 0));
  field = lower_scalar(lower, OP_OR, word, "bits", 2, field, operand->panels);
  if (shared->slot)
    field = lower_add(lower, NUMBER_U32, field,
                      lower_mul(lower, NUMBER_S32, shared->slot, lower_int(lower, shared->stride / UNIT)));
  IrExpr *high = lower_scalar(lower, OP_MOVE, word, "strides", 1, operand->rows);
  return lower_scalar(lower, OP_PACK, ir_scalar(NUMBER_U64), "descriptor", 2, field, high);
}

/* Rows of this warpgroup within A: bytes, as far as they differ between warpgroups. */
static IrExpr *warpgroup_rows(Lower *lower, const LowerProduct *product, const Operand *a)
{
  LowerMap all = lower_map_of_warps(product->acc->layout);
  LowerMap groups = {0};
  unsigned weight[LOWER_MAX_DIGITS];
  for (unsigned i = 0; i < all.n; i++) {
    LowerDigit digit = all.digit[i];
    if (digit.divisor < 4) continue; /* the four warps of a group share its descriptor */
    weight[groups.n] = (unsigned)(offset_at(a, 0, digit.step[0]) - offset_at(a, 0, 0));
    groups.digit[groups.n++] = digit;
  }
  if (!groups.n) return NULL;
  return lower_weighted_sum(lower, &groups, weight);
}

static IrExpr *step_to(Lower *lower, const Operand *operand, unsigned k, unsigned other)
{
  int64_t offset = offset_at(operand, k, other) - offset_at(operand, 0, 0);
  return lower_add(lower, NUMBER_U64, operand->base, lower_int(lower, offset / UNIT));
}

/* ---- A in registers ---- */

/* From a row of the accumulator to the other that the same thread has of 16: 8, or, where A lies across k, 1.
 */
static unsigned second_row(const LowerProduct *product)
{
  return product->acc_at[2 * LAYOUT_MAX_DIMS] - product->acc_at[0];
}

/* The k that the instruction finds in B at a place along it: rows of a slot may have it in another order. */
static unsigned k_of_place(const LowerShared *b, unsigned place)
{
  unsigned k = 0;
  for (unsigned i = 0; i < b->layout->n; i++) {
    const LayoutMode *digit = &b->layout->modes[i];
    if (digit->dim != 0) continue;
    k += place % digit->size * digit->step;
    place /= digit->size;
  }
  return k;
}

static IrExpr *register_a(Lower *lower, const LowerProduct *product, unsigned row, unsigned k)
{
  unsigned per = number_elements(product->a_type, 4), place[4] = {0};
  IrExpr *word[4];
  for (unsigned w = 0; w < 4; w++) {
    unsigned at[2] = {row + w % 2 * second_row(product), 0};
    for (unsigned i = 0; i < per; i++)
      place[i] = k_of_place(&product->b, k + w / 2 * 4 * per + i);
    word[w] = lower_word_of(lower, product->a_tile, per, 1, at, place);
  }
  return ir_list(lower->module, 4, word);
}

/* ---- Products ---- */

static void set_kind(Lower *lower, IrOp *op, const LowerProduct *product, unsigned n, unsigned k)
{
  IrModule *module = lower->module;
  bool tf32 = number_has_bytes(product->a_type, 4);
  NumberType types[3] = {tf32 ? NUMBER_TF32 : product->a_type, tf32 ? NUMBER_TF32 : product->b_type,
                         product->acc_type};
  unsigned shape[3] = {64, n, k};
  IrExpr *names[3], *numbers[3];
  for (unsigned i = 0; i < 3; i++) {
    names[i] = ir_name(module, number_name(types[i]));
    numbers[i] = ir_int(module, shape[i]);
  }
  ir_attribute_set(op, ATTR_SHAPE, ir_list(module, 3, numbers));
  ir_attribute_set(op, ATTR_TYPES, ir_list(module, 3, names));
}

/* The accumulator registers of 64 rows and so many columns: one run, in the instruction's order. */
static IrExpr *accumulator(Lower *lower, const LowerProduct *product, unsigned row, unsigned column,
                           unsigned columns)
{
  IrModule *module = lower->module;
  unsigned n = columns / 2, first = lower_acc_register(lower, product, row, column);
  for (unsigned i = 0; i < n; i++) {
    const unsigned *at = product->acc_at + (size_t)(first + i) * LAYOUT_MAX_DIMS;
    if (first + i >= product->acc->n || at[0] != row + (i / 2 % 2) * second_row(product) ||
        at[1] != column + i / 4 * 8 + i % 2)
      return lower_fail(lower, ERROR_INPUT, "mma", NULL,
                        "the accumulator of a warpgroup MMA must be in group.d");
  }
  IrExpr *array = ir_value(module, product->acc->array);
  if (n == product->acc->n) return array;
  return ir_index(module, array, 1, ir_range(module, ir_int(module, first), ir_int(module, first + n)));
}

static IrExpr *keep_condition(Lower *lower, const LowerProduct *product)
{
  const IrExpr *first = ir_attribute_value(product->op, ATTR_FIRST);
  return first ? lower_not(lower, lower_condition(lower, first)) : NULL;
}

static bool check(Lower *lower, const LowerProduct *product)
{
  const GpuProduct *found = NULL;
  bool tf32 = number_has_bytes(product->a_type, 4);
  NumberType a = tf32 ? NUMBER_TF32 : product->a_type, b = tf32 ? NUMBER_TF32 : product->b_type;
  found = gpu_product(lower->context->gpu, "warpgroup_mma", a, b, product->acc_type);
  if (found && product->k % found->k == 0 && product->b_shared) return true;
  lower_fail(lower, ERROR_UNSUPPORTED, "mma", NULL, "no warpgroup MMA of %s and %s into %s over k = %u",
             number_name(a), number_name(b), number_name(product->acc_type), product->k);
  return false;
}

/* Columns of one instruction: all of the sum's, or as large a part of them as the assembler has registers for: those that a thread has at
 * entry, whatever its role gets later. Of an operand whose columns lie side by side a part is whole rows of the swizzle. */
static unsigned columns_of(const Lower *lower, const LowerProduct *product, const Operand *b)
{
  const IrExpr *launch = ir_launch_get(lower->kernel, ATTR_ENTRY_REGISTERS);
  int64_t entry = lower->context->gpu->registers_per_thread;
  unsigned threads = WARPGROUP_WARPS * WARP_LANES,
           whole = b->mn_major ? number_elements(product->b_type, b->swizzle) : 16;
  if (launch) ir_expr_is_int(launch, &entry);
  for (unsigned columns = product->n; columns >= whole; columns -= 8)
    if (product->n % columns == 0 && (columns == product->n || columns % whole == 0) &&
        columns * WARPGROUP_ROWS / threads < entry)
      return columns;
  return product->n;
}

void lower_mma_group(Lower *lower, const LowerProduct *product)
{
  Operand a = {0}, b;
  unsigned rows, k_step = number_elements(product->a_type, 32);
  if (!check(lower, product) || !describe(lower, &b, &product->b, 0, product->b_type)) return;
  if (product->a_shared) {
    if (!describe(lower, &a, &product->a, 1, product->a_type)) return;
    a.base = descriptor(lower, &a, warpgroup_rows(lower, product, &a));
  }
  b.base = descriptor(lower, &b, NULL);
  unsigned *row = lower_acc_offsets(lower, product, 0, 64, &rows), columns = columns_of(lower, product, &b);
  IrExpr *keep = keep_condition(lower, product);
  for (unsigned k = 0; k < product->k && !lower->failed; k += k_step)
    for (unsigned i = 0; i < rows * (product->n / columns) && !lower->failed; i++) {
      unsigned here = row[i % rows], column = i / rows * columns;
      IrExpr *left = product->a_shared ? step_to(lower, &a, k, here) : register_a(lower, product, here, k);
      IrOp *op = lower_emit(lower, OP_PRODUCT_GROUP, 3, accumulator(lower, product, here, column, columns),
                            left, step_to(lower, &b, k, column));
      set_kind(lower, op, product, columns, k_step);
      if (keep && k == 0) ir_attribute_set(op, ATTR_ACCUMULATE, keep);
      if (product->a_shared && a.mn_major) ir_attribute_set(op, ATTR_TRANSPOSE_A, NULL);
      if (b.mn_major) ir_attribute_set(op, ATTR_TRANSPOSE_B, NULL);
    }
}
