/* Sorting along one dimension, of as many elements as the result has: Batcher's bitonic network, 1968.
 *
 * Runs as long as the result are sorted; then, of two of them the one against the other backwards, the lesser of each pair are
 * the first of both, and half as much is left, until one run is. Which elements are compared follows from their places alone,
 * so that all rows take the same time. A place's bits are those of ir/sorting.h: its partner differs in some of them, and
 * is a register of the same thread, another lane's or another warp's. */
#include "ir/lower/sort.h"

#define NO_BIT (-1)

typedef struct Sort {
  Lower *lower;
  IrOp *op;
  unsigned dim;
  Sorting sorting;
  NumberType element;
  unsigned n;     /* registers of a row along the dimension: a number whose bits are those of the places' */
  uint32_t live;  /* bits of places that still tell elements apart */
  unsigned *rows; /* of each row of a thread its coordinate at lane 0 of warp 0 */
  IrExpr **x;     /* [row * n + register] */
} Sort;

/* ---- Registers ---- */

/* Those of `n` that exist: bits of registers that are gone are 0. */
static bool is_live(const Sort *sort, unsigned reg)
{
  for (unsigned i = 0; i < sort->sorting.n; i++)
    if (sort->sorting.bit[i].place == PLACE_REGISTER && !(sort->live >> i & 1) &&
        reg & sort->sorting.bit[i].mask)
      return false;
  return true;
}

static unsigned count_live(const Sort *sort, unsigned below)
{
  unsigned count = 0;
  for (unsigned reg = 0; reg < below; reg++)
    count += is_live(sort, reg);
  return count;
}

/* Bits of an index of registers, lanes or warps in which places differ that differ in `mask`. */
static unsigned moved(const Sort *sort, uint32_t mask, LayoutPlace place)
{
  unsigned bits = 0;
  for (unsigned i = 0; i < sort->sorting.n; i++)
    if (mask >> i & 1 && sort->sorting.bit[i].place == place) bits |= sort->sorting.bit[i].mask;
  return bits;
}

static unsigned row_of(Sort *sort, unsigned coordinate)
{
  unsigned row = 0;
  while (sort->rows[row] != coordinate && sort->rows[row] != G_MAXUINT)
    row++;
  sort->rows[row] = coordinate;
  return row;
}

/* Where a tile's register stands in `x`: of the operand by its column, of what is sorted by its place. */
static unsigned place_of(Sort *sort, const Layout *layout, unsigned reg, bool sorted)
{
  const unsigned *at = &lower_registers(sort->lower, layout)[(size_t)reg * LAYOUT_MAX_DIMS];
  unsigned index = 0;
  for (unsigned i = 0; i < sort->sorting.n; i++) {
    const SortingBit *bit = &sort->sorting.bit[i];
    if (bit->place == PLACE_REGISTER && at[sort->dim] & (sorted ? 1u << i : bit->column)) index |= bit->mask;
  }
  return row_of(sort, at[1 - sort->dim]) * sort->n + index;
}

static IrExpr **registers_new(const Sort *sort)
{
  return arena_new_array(sort->lower->arena, IrExpr *, (size_t)sort->sorting.rows_of_thread * sort->n);
}

static IrExpr **registers_of(Sort *sort, LowerTile *tile, bool sorted)
{
  IrExpr **x = registers_new(sort);
  for (unsigned r = 0; r < tile->n; r++)
    x[place_of(sort, tile->layout, r, sorted)] = tile->reg[r];
  return x;
}

/* ---- Partners ---- */

/* The bits of `mask` of an index, moved together. */
static IrExpr *gathered(Lower *lower, IrExpr *index, unsigned mask)
{
  IrExpr *sum = lower_int(lower, 0);
  for (unsigned low = 0, at = 0; mask >> low; low++) {
    unsigned run = 0;
    while (mask >> (low + run) & 1)
      run++;
    if (!run) continue;
    IrExpr *part = lower_shr(lower, NUMBER_S32, index, low);
    part = lower_bits(lower, OP_AND, NUMBER_S32, part, lower_int(lower, (1 << run) - 1));
    sum = lower_add(lower, NUMBER_S32, sum, lower_shl(lower, NUMBER_S32, part, at));
    low += run;
    at += run;
  }
  return sum;
}

static unsigned gathered_constant(unsigned index, unsigned mask)
{
  unsigned sum = 0;
  for (unsigned bit = 0, at = 0; mask >> bit; bit++)
    if (mask >> bit & 1) sum |= (index >> bit & 1) << at++;
  return sum;
}

static int64_t bytes_of_warp(const Sort *sort)
{
  unsigned lanes = 1u << __builtin_popcount(sorting_lanes(&sort->sorting, sort->live));
  return (int64_t)sort->sorting.rows_of_thread * count_live(sort, sort->n) * lanes *
         (int64_t)number_bytes_of(sort->element, 1);
}

/* Bytes from a lane's first element to its register's: registers lie one behind the other, of all lanes. */
static int64_t bytes_before(const Sort *sort, unsigned row, unsigned reg)
{
  unsigned lanes = 1u << __builtin_popcount(sorting_lanes(&sort->sorting, sort->live));
  return ((int64_t)row * count_live(sort, sort->n) + count_live(sort, reg)) * lanes *
         (int64_t)number_bytes_of(sort->element, 1);
}

static IrExpr *address_of(const Sort *sort, const LowerShared *tile, IrExpr *warp, IrExpr *lane)
{
  Lower *lower = sort->lower;
  IrExpr *start = lower_add(lower, NUMBER_U32, tile->base,
                            lower_mul(lower, NUMBER_S32, warp, lower_int(lower, bytes_of_warp(sort))));
  return lower_add(
      lower, NUMBER_U32, start,
      lower_mul(lower, NUMBER_S32, lane, lower_int(lower, (int64_t)number_bytes_of(sort->element, 1))));
}

static void meet(const Sort *sort, IrExpr **x, uint32_t mask, IrExpr **partner)
{
  Lower *lower = sort->lower;
  const IrExpr *symbol = ir_attribute_value(sort->op, ATTR_EXCHANGE);
  LowerShared tile;
  if (!symbol || !lower_shared_operand(lower, symbol, &tile) ||
      (uint64_t)bytes_of_warp(sort) * sort->sorting.warps > layout_bytes(tile.layout, tile.element)) {
    lower_fail(lower, ERROR_INPUT, "exchange", NULL,
               "a sort across warps needs an exchange tile of its size");
    return;
  }
  unsigned lanes = sorting_lanes(&sort->sorting, sort->live), zero = 0;
  IrExpr *lane = gathered(lower, lower->lane, lanes), *warp = lower_source(lower, SOURCE_WARP);
  unsigned other_lane = gathered_constant(moved(sort, mask, PLACE_LANE), lanes);
  IrExpr *mine = address_of(sort, &tile, warp, lane);
  IrExpr *other =
      address_of(sort, &tile,
                 lower_bits(lower, OP_XOR, NUMBER_S32, warp, lower_int(lower, moved(sort, mask, PLACE_WARP))),
                 lower_bits(lower, OP_XOR, NUMBER_S32, lane, lower_int(lower, other_lane)));
  IrExpr *same =
      lower_bits(lower, OP_AND, NUMBER_S32, lower->lane, lower_int(lower, (WARP_LANES - 1) & ~lanes));
  IrExpr *owner = lanes == WARP_LANES - 1 ? NULL : lower_compare(lower, OP_EQ, same, lower_int(lower, 0));
  lower_block_barrier(lower, sort->op); /* readers of the exchange before are done */
  for (unsigned pass = 0; pass < 2; pass++) {
    for (unsigned i = 0; i < sort->sorting.rows_of_thread * sort->n && !lower->failed; i++) {
      unsigned row = i / sort->n, reg = i % sort->n, from = reg ^ moved(sort, mask, PLACE_REGISTER);
      if (!is_live(sort, reg)) continue;
      LowerTile part = {.element = sort->element, .n = 1, .reg = pass ? &partner[i] : &x[i]};
      LowerAddress at = {pass ? other : mine, tile.offset + bytes_before(sort, row, pass ? from : reg)};
      if (pass)
        lower_load_vector(lower, OP_LOAD_SHARED, at, &part, &zero, 1, NULL, NULL, NULL);
      else
        lower_store_vector(lower, OP_STORE_SHARED, at, &part, &zero, 1, owner, NULL);
    }
    if (!pass) lower_block_barrier(lower, sort->op);
  }
}

/* For each register what stands at the place that differs in the bits of `mask`. */
static IrExpr **partners(const Sort *sort, IrExpr **x, uint32_t mask)
{
  Lower *lower = sort->lower;
  IrExpr **partner = registers_new(sort);
  unsigned lanes = moved(sort, mask, PLACE_LANE), registers = moved(sort, mask, PLACE_REGISTER);
  if (moved(sort, mask, PLACE_WARP)) {
    meet(sort, x, mask, partner);
    return partner;
  }
  for (unsigned i = 0; i < sort->sorting.rows_of_thread * sort->n; i++) {
    if (!is_live(sort, i % sort->n)) continue;
    partner[i] = x[i / sort->n * sort->n + (i % sort->n ^ registers)];
    if (!lanes) continue;
    IrType type = ir_scalar(lower_register_type(sort->element));
    partner[i] = lower_value(lower, OP_SHUFFLE, type, "other", 2, partner[i], lower_int(lower, lanes));
    ir_attribute_set(partner[i]->value->def, ATTR_MODE, ir_name(lower->module, "xor"));
  }
  return partner;
}

/* ---- The network ---- */

/* Is this thread the one of two whose place has the bit? */
static IrExpr *has_bit(const Sort *sort, const SortingBit *bit)
{
  Lower *lower = sort->lower;
  IrExpr *index = lower_source(lower, bit->place == PLACE_LANE ? SOURCE_LANE : SOURCE_WARP);
  return lower_compare(lower, OP_NE,
                       lower_bits(lower, OP_AND, NUMBER_S32, index, lower_int(lower, bit->mask)),
                       lower_int(lower, 0));
}

/* The places without bit `top` take the lesser of themselves and their partner, the others the larger; NO_BIT: all the
 * lesser. */
static void compare(Sort *sort, uint32_t mask, int top)
{
  Lower *lower = sort->lower;
  IrExpr **other = partners(sort, sort->x, mask), **x = registers_new(sort);
  const SortingBit *bit = top == NO_BIT ? NULL : &sort->sorting.bit[top];
  bool apart = bit && bit->place != PLACE_REGISTER; /* the two are different threads */
  IrExpr *upper = apart ? has_bit(sort, bit) : NULL;
  IrType type = ir_scalar(lower_register_type(sort->element));
  for (unsigned i = 0; i < sort->sorting.rows_of_thread * sort->n && !lower->failed; i++) {
    if (!is_live(sort, i % sort->n)) continue;
    if (apart) {
      IrExpr *less = lower_value(lower, OP_LT, ir_predicate(), "less", 2, other[i], sort->x[i]);
      IrExpr *taken = lower_value(lower, OP_XOR, ir_predicate(), "taken", 2, less, upper);
      x[i] = lower_value(lower, OP_SELECT, type, "x", 3, taken, other[i], sort->x[i]);
    } else {
      bool larger = bit && i % sort->n & bit->mask;
      x[i] = lower_combine(lower, larger ? "max" : "min", sort->element, sort->x[i], other[i]);
    }
  }
  sort->x = x;
}

/* Runs of 2^bits that rise and then fall, or fall and then rise, are sorted. */
static void merge(Sort *sort, unsigned bits)
{
  for (unsigned bit = bits; bit-- > 0 && !sort->lower->failed;)
    compare(sort, 1u << bit, (int)bit);
}

static void sort_runs(Sort *sort)
{
  for (unsigned bit = 0; bit < sort->sorting.kept && !sort->lower->failed; bit++) {
    compare(sort, (2u << bit) - 1, (int)bit);
    merge(sort, bit);
  }
}

/* Of two runs the first half. */
static void halve(Sort *sort, unsigned bit)
{
  uint32_t backwards = (1u << sort->sorting.kept) - 1;
  if (sort->sorting.bit[bit].place == PLACE_REGISTER) sort->live &= ~(1u << bit);
  compare(sort, backwards | 1u << bit, NO_BIT);
  sort->live &= ~(1u << bit);
  merge(sort, sort->sorting.kept);
}

static void take_in(Sort *sort, IrExpr **more)
{
  Lower *lower = sort->lower;
  IrExpr **before = partners(sort, more, (1u << sort->sorting.kept) - 1);
  for (unsigned i = 0; i < sort->sorting.rows_of_thread * sort->n && !lower->failed; i++)
    if (is_live(sort, i % sort->n))
      sort->x[i] = lower_combine(lower, "min", sort->element, sort->x[i], before[i]);
  merge(sort, sort->sorting.kept);
}

static void sort_all(Sort *sort)
{
  sort->n = 1u << sort->sorting.registers;
  sort->live = (uint32_t)((1ull << sort->sorting.n) - 1);
  sort_runs(sort);
  for (unsigned bit = sort->sorting.kept; bit < sort->sorting.n && !sort->lower->failed; bit++)
    halve(sort, bit);
}

IrExpr **lower_sort_warp(Lower *lower, IrOp *op, NumberType element, IrExpr **x, unsigned registers,
                         unsigned keep, IrExpr **more)
{
  Sort sort = {.lower = lower, .op = op, .dim = 1, .element = element, .x = x};
  if (!sorting_of(sorting_warp(lower->arena, sort.dim, registers), sort.dim, keep, &sort.sorting)) {
    lower_fail(lower, ERROR_UNSUPPORTED, "sort", "extents that are powers of two",
               "%u of a warp's %u elements", keep, registers * SORTING_LANES);
    return x;
  }
  sort_all(&sort);
  if (more && !lower->failed) take_in(&sort, more);
  return sort.x;
}

void lower_sort(Lower *lower, IrOp *op)
{
  Sort sort = {.lower = lower, .op = op, .dim = (unsigned)ir_attribute_int(op, ATTR_DIM, 0)};
  const IrType *type = &op->results[0]->type;
  LowerTile *from = lower_tile(lower, op->operands[0]);
  LowerTile *more = op->n_operands > 1 ? lower_tile(lower, op->operands[1]) : NULL;
  if (!from || lower->failed) return;
  unsigned survivors = (unsigned)ir_attribute_int(op, ATTR_SURVIVORS, 0);
  const Layout *wanted =
      sorting_result(lower->arena, from->layout, sort.dim, type->layout->extent[sort.dim], survivors);
  SortingBound bound;
  if (!wanted || !sorting_of(from->layout, sort.dim, type->layout->extent[sort.dim], &sort.sorting) ||
      !layout_equal(wanted, type->layout) || (more && !layout_equal(more->layout, type->layout))) {
    lower_fail(lower, ERROR_UNSUPPORTED, "sort", "extents that are powers of two",
               "this tile is not spread over threads as a sort needs it");
    return;
  }
  if (sorting_bound_of(from->layout, sort.dim, type->layout->extent[sort.dim], survivors, &bound)) {
    lower_sort_bounded(lower, op, &bound, from, more);
    return;
  }
  sort.element = from->element;
  sort.n = 1u << sort.sorting.registers;
  sort.rows = arena_new_array(lower->arena, unsigned, sort.sorting.rows_of_thread + 1);
  for (unsigned i = 0; i <= sort.sorting.rows_of_thread; i++)
    sort.rows[i] = G_MAXUINT;
  sort.x = registers_of(&sort, from, false);
  sort_all(&sort);
  if (more && !lower->failed) take_in(&sort, registers_of(&sort, more, true));
  LowerTile *to = lower_tile_new(lower, sort.element, type->layout);
  for (unsigned r = 0; r < to->n && !lower->failed; r++)
    to->reg[r] = sort.x[place_of(&sort, to->layout, r, true)];
  if (!lower->failed) lower_tile_bind(lower, op->results[0], to);
}
