/* Tiles in shared memory: what an operand names, and run-time addresses of its elements.
 *
 * A byte address is base + swizzle(offset of the thread + offset of the register). The swizzle is linear over
 * xor, so where the two offsets have no bit in common it is taken once for the thread and once, at compile
 * time, for the register: the bits that cannot meet become the constant of the address, the others one xor.
 */
#include "ir/facts.h"
#include "ir/lower/lower.h"
#include <string.h>

IrExpr *lower_address(Lower *lower, LowerAddress address)
{
  return ir_binary(lower->module, OPERATOR_ADD, address.base, lower_int(lower, address.offset));
}

IrExpr *lower_address_register(Lower *lower, LowerAddress address, NumberType type)
{
  return lower_add(lower, type, address.base, lower_int(lower, address.offset));
}

IrExpr *lower_shared_start(Lower *lower)
{
  return lower_scalar(lower, OP_ADDRESS, ir_scalar(NUMBER_U32), "shared", 1,
                      ir_name(lower->module, "shared"));
}

/* ---- Operands ---- */

unsigned lower_swizzle_bytes(const Layout *layout)
{
  return layout->swizzle_bits ? 16u << layout->swizzle_bits : 0;
}

static void describe(LowerShared *shared, const IrType *type)
{
  shared->layout = type->layout;
  shared->element = type->element;
  shared->slot = NULL;
  shared->stride = 0;
  shared->apart = false;
  shared->rank = type->layout ? type->layout->rank : 0;
  for (unsigned d = 0; d < shared->rank; d++) {
    shared->origin[d] = 0;
    shared->extent[d] = type->layout->extent[d];
  }
}

static bool slot_operand(Lower *lower, const IrExpr *expr, LowerShared *shared)
{
  const IrExpr *field = expr->items[0];
  const IrOp *channel = ir_symbol_find(lower->kernel, field->items[0]->name);
  const IrOp *slot = channel && channel->code == OP_CHANNEL ? ir_slot_find(channel, field->name) : NULL;
  if (!slot || !slot->declared || !slot->declared->layout) return false;
  describe(shared, slot->declared);
  unsigned alignment = shared->layout->swizzle_bits ? 1024 : 128;
  int64_t stride = (int64_t)layout_bytes(shared->layout, shared->element);
  stride = (stride + alignment - 1) / alignment * alignment;
  shared->offset = ir_attribute_int(slot, ATTR_AT, 0);
  IrExpr *number = lower_slot(lower, expr->items[1]);
  int64_t constant;
  shared->base = shared->fixed = lower_shared_start(lower);
  if (lower_is_int(number, &constant)) {
    shared->offset += constant * stride;
    return true;
  }
  shared->slot = number;
  shared->stride = stride;
  IrExpr *offset = lower_mul(lower, NUMBER_S32, number, lower_int(lower, stride));
  shared->base = lower_add(lower, NUMBER_U32, shared->fixed, offset);
  return true;
}

/* Is an expression a multiple of any number, such as the rows of one of several parts? Powers of two are known of values, too. */
static bool is_multiple(const Lower *lower, const IrExpr *expr, unsigned of)
{
  int64_t constant;
  if (ir_expr_is_int(expr, &constant)) return constant % of == 0;
  if (expr->kind == EXPR_BINARY) {
    bool a = is_multiple(lower, expr->items[0], of), b = is_multiple(lower, expr->items[1], of);
    if (expr->operator_ == OPERATOR_MUL && (a || b)) return true;
    if ((expr->operator_ == OPERATOR_ADD || expr->operator_ == OPERATOR_SUB) && a && b) return true;
  }
  return ir_known_multiple(lower->kernel, expr, of) % of == 0;
}

/* Bytes from the tile's start to a run-time coordinate along dim. Exact where the coordinate is a multiple of
 * what the swizzle repeats after (8 rows) or of a panel's width, which it has to be known to be; one element of a row without
 * swizzle stands anywhere. */
static IrExpr *runtime_offset(Lower *lower, const LowerShared *shared, unsigned dim, const IrExpr *low,
                              int64_t extent)
{
  unsigned unit[LAYOUT_MAX_DIMS] = {0}, zero[LAYOUT_MAX_DIMS] = {0}, step = 1;
  for (unsigned i = 0; i < shared->layout->n; i++)
    if (shared->layout->modes[i].dim == (int)dim) step = MAX(step, shared->layout->modes[i].step);
  bool single = extent == 1 && !shared->layout->swizzle_bits;
  bool rows = step == 1 && (single || dim != lower_shared_inner(shared));
  unsigned multiple = rows ? (shared->layout->swizzle_bits ? 8 : 1) : step;
  if ((!rows && step == 1) || !is_multiple(lower, low, multiple)) {
    lower_fail(lower, ERROR_INPUT, "sub-tile", NULL, "a sub-tile must start at a multiple of %u here",
               MAX(multiple, 2));
    return lower_int(lower, 0);
  }
  unit[dim] = step;
  int64_t weight = lower_shared_linear(shared, unit) - lower_shared_linear(shared, zero);
  const IrExpr *steps =
      step == 1 ? low : ir_binary(lower->module, OPERATOR_DIV, (IrExpr *)low, lower_int(lower, step));
  return lower_mul(lower, NUMBER_S32, lower_s32(lower, steps), lower_int(lower, weight));
}

/* What of a sum is known at run time only; `constant`: the rest. */
static const IrExpr *runtime_part(const IrExpr *low, int64_t *constant)
{
  *constant = 0;
  bool sum = low->kind == EXPR_BINARY && low->operator_ == OPERATOR_ADD;
  for (unsigned i = 0; sum && i < 2; i++)
    if (ir_expr_is_int(low->items[i], constant) && *constant >= 0) return low->items[1 - i];
  *constant = 0;
  return low;
}

static bool sub_tile(Lower *lower, const IrExpr *expr, LowerShared *shared)
{
  if (!lower_shared_operand(lower, expr->items[0], shared)) return false;
  for (unsigned d = 0; d + 1 < expr->n && d < shared->rank; d++) {
    const IrExpr *range = expr->items[d + 1];
    int64_t low, extent;
    if (range->kind != EXPR_RANGE || !ir_range_extent(range, &extent) || extent <= 0 ||
        extent > shared->extent[d]) {
      lower_fail(lower, ERROR_INPUT, "sub-tile", NULL,
                 "a sub-tile of shared memory takes ranges of constant extent");
      return false;
    }
    if (!ir_expr_is_int(range->items[0], &low)) {
      IrExpr *offset = runtime_offset(lower, shared, d, runtime_part(range->items[0], &low), extent);
      shared->origin[d] += (unsigned)low;
      shared->base = lower_add(lower, NUMBER_U32, shared->base, offset);
      shared->fixed = lower_add(lower, NUMBER_U32, shared->fixed, offset);
    } else if (low >= 0 && low + extent <= shared->extent[d]) {
      shared->origin[d] += (unsigned)low;
    } else {
      lower_fail(lower, ERROR_INPUT, "sub-tile", NULL, "a sub-tile lies outside its tile");
      return false;
    }
    shared->extent[d] = (unsigned)extent;
  }
  return true;
}

static bool transposed(Lower *lower, const IrExpr *expr, LowerShared *shared)
{
  if (!lower_shared_operand(lower, expr->items[0], shared) || shared->rank != 2) return false;
  shared->layout = layout_transposed(lower->arena, shared->layout);
  unsigned origin = shared->origin[0], extent = shared->extent[0];
  shared->origin[0] = shared->origin[1];
  shared->extent[0] = shared->extent[1];
  shared->origin[1] = origin;
  shared->extent[1] = extent;
  return true;
}

static bool is_slot(const IrExpr *expr)
{
  return expr->kind == EXPR_INDEX && expr->n == 2 && expr->items[0]->kind == EXPR_FIELD &&
         expr->items[0]->items[0]->kind == EXPR_SYMBOL && expr->items[1]->kind != EXPR_RANGE;
}

bool lower_is_shared(Lower *lower, const IrExpr *expr)
{
  while (expr->kind == EXPR_TRANSPOSED || (expr->kind == EXPR_INDEX && !is_slot(expr)))
    expr = expr->items[0];
  if (is_slot(expr)) return true;
  return expr->kind == EXPR_SYMBOL && ir_symbol_find(lower->kernel, expr->name);
}

bool lower_shared_operand(Lower *lower, const IrExpr *expr, LowerShared *shared)
{
  if (expr->kind == EXPR_TRANSPOSED) return transposed(lower, expr, shared);
  if (is_slot(expr)) return slot_operand(lower, expr, shared);
  if (expr->kind == EXPR_INDEX) return sub_tile(lower, expr, shared);
  if (expr->kind != EXPR_SYMBOL) return false;
  const IrOp *op = ir_symbol_find(lower->kernel, expr->name);
  if (!op || op->code != OP_SHARED || !op->declared || !op->declared->layout) return false;
  describe(shared, op->declared);
  shared->base = shared->fixed = lower_shared_start(lower);
  shared->offset = ir_attribute_int(op, ATTR_AT, 0);
  return true;
}

/* ---- Offsets at compile time ---- */

int64_t lower_shared_offset(const LowerShared *shared, const unsigned *coordinate)
{
  unsigned at[LAYOUT_MAX_DIMS] = {0};
  for (unsigned d = 0; d < shared->rank; d++)
    at[d] = shared->origin[d] + coordinate[d];
  return (int64_t)layout_byte_offset(shared->layout, shared->element, at);
}

int64_t lower_shared_linear(const LowerShared *shared, const unsigned *coordinate)
{
  LowerShared plain = *shared;
  Layout layout = *shared->layout;
  layout.swizzle_bits = 0;
  plain.layout = &layout;
  return lower_shared_offset(&plain, coordinate);
}

/* The first mode of a shared layout is the contiguous one. */
unsigned lower_shared_inner(const LowerShared *shared)
{
  return shared->layout->n ? (unsigned)shared->layout->modes[0].dim : shared->rank - 1;
}

unsigned lower_shared_vector(const LowerShared *shared, unsigned dim)
{
  /* elements that share a byte go together */
  unsigned least = number_is_packed(shared->element) ? number_elements(shared->element, 1) : 1;
  unsigned at[LAYOUT_MAX_DIMS] = {0};
  for (unsigned v = number_elements(shared->element, 16); v > least; v /= 2) {
    const int64_t bytes = (int64_t)number_bytes_of(shared->element, v);
    bool good = shared->extent[dim] % v == 0;
    at[dim] = 0;
    int64_t start = lower_shared_offset(shared, at);
    good &= start % bytes == 0;
    for (unsigned i = least; good && i < v; i += least) {
      at[dim] = i;
      good = lower_shared_offset(shared, at) == start + (int64_t)number_bytes_of(shared->element, i);
    }
    for (unsigned d = 0; good && d < shared->rank; d++) { /* every row starts aligned */
      unsigned next[LAYOUT_MAX_DIMS] = {0};
      next[d] = d == dim ? v : 1;
      if (next[d] < shared->extent[d]) good = lower_shared_linear(shared, next) % bytes == 0;
    }
    if (good) return v;
  }
  return least;
}

/* ---- Addresses at run time ---- */

typedef struct ThreadOffsets {
  unsigned weight[LOWER_MAX_DIGITS]; /* bytes that each digit moves the address, before the swizzle */
  int64_t start;                     /* of coordinate 0 */
  uint64_t bits;                     /* that the thread's part may set */
  bool additive;                     /* offsets of digits and register add up */
} ThreadOffsets;

static int64_t offset_of_digits(const LowerShared *shared, const LowerMap *map, const unsigned *digit,
                                const unsigned *constant)
{
  unsigned at[LAYOUT_MAX_DIMS] = {0};
  for (unsigned d = 0; d < shared->rank; d++) {
    at[d] = constant ? constant[d] : 0;
    for (unsigned i = 0; i < map->n; i++)
      at[d] += digit[i] * map->digit[i].step[d];
  }
  return lower_shared_linear(shared, at);
}

static ThreadOffsets thread_offsets(const LowerShared *shared, const LowerMap *map, const unsigned *constant)
{
  ThreadOffsets offsets = {.additive = true};
  unsigned digit[LOWER_MAX_DIGITS] = {0}, zero[LAYOUT_MAX_DIMS] = {0};
  offsets.start = lower_shared_linear(shared, zero);
  int64_t here = lower_shared_linear(shared, constant), total = 0;
  for (unsigned i = 0; i < map->n; i++) {
    digit[i] = 1;
    int64_t one = offset_of_digits(shared, map, digit, NULL) - offsets.start;
    unsigned top = map->digit[i].size - 1;
    digit[i] = top;
    int64_t all = offset_of_digits(shared, map, digit, NULL) - offsets.start;
    offsets.additive &= all == one * top && offset_of_digits(shared, map, digit, constant) == here + all;
    digit[i] = 0;
    offsets.weight[i] = (unsigned)one;
    bool single = map->digit[i].size == 2 && one > 0 && !(one & (one - 1)) && !(offsets.bits & (uint64_t)one);
    if (single)
      offsets.bits |= (uint64_t)one;
    else if (one)
      offsets.bits |= ~(uint64_t)0 << g_bit_nth_lsf((gulong)one, -1);
    total += all;
  }
  for (unsigned i = 0; i < map->n; i++)
    digit[i] = map->digit[i].size - 1;
  offsets.additive &= offset_of_digits(shared, map, digit, constant) == here + total;
  return offsets;
}

static uint64_t swizzle_of(const Layout *layout, uint64_t x)
{
  uint64_t mask = (1u << layout->swizzle_bits) - 1;
  return (x >> (layout->swizzle_base + layout->swizzle_shift) & mask) << layout->swizzle_base;
}

/* x ^ (bits of x that say which row of the atom it is) */
static IrExpr *emit_swizzle(Lower *lower, const Layout *layout, IrExpr *x)
{
  unsigned low = layout->swizzle_base + layout->swizzle_shift;
  int64_t mask = ((1 << layout->swizzle_bits) - 1) << low;
  IrExpr *row = lower_bits(lower, OP_AND, NUMBER_S32, x, lower_int(lower, mask));
  row = lower_shr(lower, NUMBER_S32, row, layout->swizzle_shift);
  return lower_bits(lower, OP_XOR, NUMBER_S32, x, row);
}

/* Any layout: digits of the coordinates themselves, taken at run time. */
static LowerAddress general_address(Lower *lower, const LowerShared *shared, const LowerMap *map,
                                    const unsigned *constant)
{
  IrExpr *sum = lower_int(lower, 0);
  for (unsigned d = 0; d < shared->rank; d++) {
    IrExpr *at = lower_add(lower, NUMBER_S32, lower_map_coordinate(lower, map, d),
                           lower_int(lower, shared->origin[d] + constant[d]));
    unsigned top = 0;
    for (unsigned i = 0; i < shared->layout->n; i++)
      if (shared->layout->modes[i].dim == (int)d) top = MAX(top, shared->layout->modes[i].step);
    for (unsigned i = 0; i < shared->layout->n; i++) {
      const LayoutMode *mode = &shared->layout->modes[i];
      if (mode->dim != (int)d || mode->size == 1) continue;
      unsigned unit[LAYOUT_MAX_DIMS] = {0};
      unit[d] = mode->step;
      LowerShared whole = *shared;
      memset(whole.origin, 0, sizeof whole.origin);
      int64_t weight = lower_shared_linear(&whole, unit);
      IrExpr *digit = at;
      if (mode->step > 1)
        digit =
            lower_scalar(lower, OP_DIV, ir_scalar(NUMBER_S32), "digit", 2, at, lower_int(lower, mode->step));
      if (mode->step < top)
        digit = lower_scalar(lower, OP_REM, ir_scalar(NUMBER_S32), "digit", 2, digit,
                             lower_int(lower, mode->size));
      sum = lower_add(lower, NUMBER_S32, lower_mul(lower, NUMBER_S32, digit, lower_int(lower, weight)), sum);
    }
  }
  if (shared->layout->swizzle_bits) sum = emit_swizzle(lower, shared->layout, sum);
  return (LowerAddress){lower_add(lower, NUMBER_U32, shared->base, sum), shared->offset};
}

static LowerAddress add_thread(Lower *lower, const LowerShared *shared, IrExpr *thread, int64_t constant)
{
  return (LowerAddress){lower_add(lower, NUMBER_U32, shared->base, thread), shared->offset + constant};
}

int64_t lower_shared_step(const LowerShared *shared, const LowerMap *map)
{
  unsigned zero[LAYOUT_MAX_DIMS] = {0};
  ThreadOffsets offsets = thread_offsets(shared, map, zero);
  int64_t step = 1 << 16;
  for (unsigned i = 0; i < map->n; i++)
    step |= offsets.weight[i];
  for (unsigned d = 0; d < shared->rank; d++) { /* parts of the tile begin at multiples of these */
    unsigned unit[LAYOUT_MAX_DIMS] = {0};
    for (unsigned i = 0; i < shared->layout->n; i++)
      if (shared->layout->modes[i].dim == (int)d) unit[d] = MAX(unit[d], shared->layout->modes[i].step);
    step |= lower_shared_linear(shared, unit) - lower_shared_linear(shared, zero);
  }
  return offsets.additive ? step & -step : 1;
}

LowerAddress lower_shared_at(Lower *lower, const LowerShared *shared, const LowerMap *map,
                             const unsigned *constant)
{
  const Layout *layout = shared->layout;
  ThreadOffsets offsets = thread_offsets(shared, map, constant);
  if (!offsets.additive) return general_address(lower, shared, map, constant);
  IrExpr *thread = lower_weighted_sum(lower, map, offsets.weight);
  uint64_t here = (uint64_t)lower_shared_linear(shared, constant);
  if (!layout->swizzle_bits) return add_thread(lower, shared, thread, (int64_t)here);
  uint64_t atom = (uint64_t)1 << (layout->swizzle_base + layout->swizzle_shift + layout->swizzle_bits);
  uint64_t low = here & (atom - 1), high = here - low;
  if (low & offsets.bits) { /* carries: no way around doing it at run time */
    thread = lower_add(lower, NUMBER_S32, thread, lower_int(lower, (int64_t)here));
    return add_thread(lower, shared, emit_swizzle(lower, layout, thread), 0);
  }
  uint64_t thread_bits = offsets.bits | swizzle_of(layout, offsets.bits);
  uint64_t moved = low ^ swizzle_of(layout, low);
  uint64_t meets = moved & thread_bits;
  bool apart = shared->apart && shared->slot;
  thread = emit_swizzle(lower, layout, thread);
  /* The tile starts on an atom's boundary, so the xor may be taken of the thread's part or of the whole
   * address. Of the part it is computed once for all slots, and the assembler adds a slot's start, which is
   * the same for a warp, for nothing; it costs a register for each. */
  if (meets && apart)
    thread = lower_bits(lower, OP_XOR, NUMBER_S32, thread, lower_int(lower, (int64_t)meets));
  LowerAddress address = add_thread(lower, shared, thread, (int64_t)high);
  address.offset += (int64_t)(moved & ~thread_bits);
  if (meets && !apart)
    address.base = lower_bits(lower, OP_XOR, NUMBER_U32, address.base, lower_int(lower, (int64_t)meets));
  return address;
}
