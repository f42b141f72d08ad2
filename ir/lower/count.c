/* Counters that elements raise in turn: of each element the counter of its bin as the elements before it left it.
 *
 * A warp has elements that follow one another, and counters of its own: in each round its lanes find those of the same bin, the
 * first of them adds how many they are, and each gets how many were there and how many of its own round stand before it. Then
 * each bin's counter is carried from warp to warp, from where it starts, and each element adds where its warp begins. No two
 * threads race, so the order is the elements'.
 *
 * Where nobody asks what counters were, all threads raise the block's own: sums of integers do not depend on their order. */
#include "ir/counting.h"
#include "ir/lower/lower.h"

typedef struct {
  Lower *lower;
  IrOp *op;
  LowerTile *bins, *start, *before, *after;
  LowerShared counters; /* [warps + 1, number of bins]: the last row starts as the block does */
  unsigned warps, n_bins, dim;
  bool places;               /* somebody asks what counters were */
  int64_t stride;            /* bytes of a warp's counters */
  IrExpr *own;               /* address of the warp's */
  IrExpr **valid, **counter; /* of each register: is there such a bin, and where its warp's counter is */
} Count;

static unsigned bytes_of(const Count *count)
{
  return (unsigned)number_bytes_of(NUMBER_S32, 1);
}

static IrExpr *load(const Count *count, LowerAddress address)
{
  IrExpr *value = NULL;
  LowerTile part = {.element = NUMBER_S32, .n = 1, .reg = &value};
  unsigned zero = 0;
  lower_load_vector(count->lower, OP_LOAD_SHARED, address, &part, &zero, 1, NULL, NULL, NULL);
  return value;
}

static void store(const Count *count, LowerAddress address, IrExpr *value, IrExpr *when)
{
  LowerTile part = {.element = NUMBER_S32, .n = 1, .reg = &value};
  unsigned zero = 0;
  lower_store_vector(count->lower, OP_STORE_SHARED, address, &part, &zero, 1, when, NULL);
}

static bool open_count(Count *count)
{
  Lower *lower = count->lower;
  IrOp *op = count->op;
  const IrExpr *symbol = ir_attribute_value(op, ATTR_EXCHANGE);
  count->bins = lower_tile(lower, op->operands[0]);
  count->start = lower_tile(lower, op->operands[1]);
  if (!count->bins || !count->start) return false;
  const Layout *layout = count->bins->layout;
  count->warps = layout_size(layout, PLACE_WARP);
  count->n_bins = count->start->layout->extent[count->dim];
  bool shared = symbol && lower_shared_operand(lower, symbol, &count->counters);
  count->places = shared && count->counters.layout->extent[0] > 1;
  const Layout *wanted = counting_layout(lower->arena, layout->extent, count->dim, count->warps);
  if (count->places && !wanted) {
    lower_fail(lower, ERROR_INPUT, "count", "fewer threads, or more elements at a time",
               "%u elements are counted, which is no multiple of the %u threads that count them",
               layout->extent[count->dim], count->warps * WARP_LANES);
    return false;
  }
  if ((count->places && !layout_equal(layout, wanted)) ||
      !layout_equal(op->results[0]->type.layout, layout) ||
      !layout_equal(op->results[1]->type.layout, count->start->layout)) {
    lower_fail(lower, ERROR_INPUT, "layouts-disagree", "whole warps of elements for each warp of the block",
               "elements that are counted follow one another in each warp, and results lie as operands do");
    return false;
  }
  if (!shared ||
      layout_bytes(count->counters.layout, count->counters.element) <
          number_bytes_of(NUMBER_S32, (uint64_t)(count->places ? count->warps + 1 : 1) * count->n_bins)) {
    lower_fail(lower, ERROR_INPUT, "exchange", NULL, "counters of %u bins need an exchange tile for %u warps",
               count->n_bins, count->warps);
    return false;
  }
  count->stride = (int64_t)count->n_bins * bytes_of(count);
  IrExpr *warp =
      lower_mul(lower, NUMBER_S32, lower_source(lower, SOURCE_WARP), lower_int(lower, count->stride));
  count->own = lower_add(lower, NUMBER_U32, count->counters.base, warp);
  count->before = lower_tile_new(lower, NUMBER_S32, layout);
  count->after = lower_tile_new(lower, NUMBER_S32, count->start->layout);
  count->valid = arena_new_array(lower->arena, IrExpr *, count->bins->n);
  count->counter = arena_new_array(lower->arena, IrExpr *, count->bins->n);
  return true;
}

static void clear_own(const Count *count)
{
  Lower *lower = count->lower;
  IrExpr *lane = lower_source(lower, SOURCE_LANE);
  IrExpr *address = lower_add(lower, NUMBER_U32, count->own,
                              lower_mul(lower, NUMBER_S32, lane, lower_int(lower, bytes_of(count))));
  for (unsigned first = 0; first < count->n_bins; first += WARP_LANES) {
    unsigned left = count->n_bins - first;
    IrExpr *when = left < WARP_LANES ? lower_compare(lower, OP_LT, lane, lower_int(lower, left)) : NULL;
    store(count, (LowerAddress){address, count->counters.offset + (int64_t)first * bytes_of(count)},
          lower_int(lower, 0), when);
  }
  lower_emit(lower, OP_SYNC_WARP, 0);
}

static IrExpr *in_place(const Count *count, IrOpcode code, const char *hint, IrExpr *a, IrExpr *b)
{
  IrType type = ir_scalar(NUMBER_S32);
  return b ? lower_value(count->lower, code, type, hint, 2, a, b)
           : lower_value(count->lower, code, type, hint, 1, a);
}

static IrExpr *is_bin(const Count *count, IrExpr *bin)
{
  Lower *lower = count->lower;
  return lower_and(lower, lower_compare(lower, OP_GE, bin, lower_int(lower, 0)),
                   lower_compare(lower, OP_LT, bin, lower_int(lower, count->n_bins)));
}

static void count_round(const Count *count, unsigned reg, IrExpr *below)
{
  Lower *lower = count->lower;
  IrExpr *bin = count->bins->reg[reg];
  IrExpr *valid = is_bin(count, bin);
  IrExpr *alike = in_place(count, OP_SAME_LANES, "alike", bin, NULL);
  IrExpr *first =
      in_place(count, OP_POPULATION, "first", in_place(count, OP_AND, "lower", alike, below), NULL);
  IrExpr *all = in_place(count, OP_POPULATION, "all", alike, NULL);
  IrExpr *some =
      lower_value(lower, OP_SELECT, ir_scalar(NUMBER_S32), "bin", 3, valid, bin, lower_int(lower, 0));
  IrExpr *address = lower_add(lower, NUMBER_U32, count->own,
                              lower_mul(lower, NUMBER_S32, some, lower_int(lower, bytes_of(count))));
  LowerAddress counter = {address, count->counters.offset};
  IrExpr *old = load(count, counter);
  lower_emit(lower, OP_SYNC_WARP, 0);
  IrExpr *leads = lower_and(lower, valid, lower_compare(lower, OP_EQ, first, lower_int(lower, 0)));
  store(count, counter, in_place(count, OP_ADD, "raised", old, all), leads);
  lower_emit(lower, OP_SYNC_WARP, 0);
  count->before->reg[reg] = in_place(count, OP_ADD, "before", old, first);
  count->valid[reg] = valid;
  count->counter[reg] = address;
}

/* Where each thread finds the counters of its elements' bins in the last row: behind the warps', if they have some. */
static LowerAddress last_row(const Count *count, IrExpr *base, unsigned reg)
{
  const unsigned *at = lower_registers(count->lower, count->start->layout);
  int64_t bin = at[(size_t)reg * LAYOUT_MAX_DIMS + count->dim],
          row = count->places ? count->warps * count->stride : 0;
  return (LowerAddress){base, count->counters.offset + row + bin * bytes_of(count)};
}

static IrExpr *base_of_bins(const Count *count)
{
  Lower *lower = count->lower;
  LowerMap map = lower_map_of(count->start->layout);
  IrExpr *first = lower_mul(lower, NUMBER_S32, lower_map_coordinate(lower, &map, count->dim),
                            lower_int(lower, bytes_of(count)));
  return lower_add(lower, NUMBER_U32, count->counters.base, first);
}

/* The counters of `threads` bins, or of those that are left, become where each warp begins, and in the last row what they are
 * behind all. Threads without a bin read the last one's before its own writes it. */
static void carry_some(const Count *count, unsigned first, unsigned threads, IrExpr **own)
{
  Lower *lower = count->lower;
  unsigned left = count->n_bins - first;
  IrExpr *thread = lower_source(lower, SOURCE_THREAD), *when = NULL, *bin = thread;
  if (left < threads) {
    when = lower_compare(lower, OP_LT, thread, lower_int(lower, left));
    bin = lower_scalar(lower, OP_MIN, ir_scalar(NUMBER_S32), "bin", 2, thread, lower_int(lower, left - 1));
  }
  IrExpr *base = lower_add(lower, NUMBER_U32, count->counters.base,
                           lower_mul(lower, NUMBER_S32, bin, lower_int(lower, bytes_of(count))));
  int64_t offset = count->counters.offset + (int64_t)first * bytes_of(count);
  for (unsigned w = 0; w <= count->warps; w++)
    own[w] = load(count, (LowerAddress){base, offset + w * count->stride});
  if (when) lower_block_barrier(lower, count->op);
  IrExpr *sum = own[count->warps];
  for (unsigned w = 0; w < count->warps; w++) {
    store(count, (LowerAddress){base, offset + w * count->stride}, sum, when);
    sum = in_place(count, OP_ADD, "sum", sum, own[w]);
  }
  store(count, (LowerAddress){base, offset + count->warps * count->stride}, sum, when);
}

static void carry(const Count *count)
{
  unsigned threads = count->warps * WARP_LANES;
  IrExpr **own = arena_new_array(count->lower->arena, IrExpr *, count->warps + 1);
  for (unsigned first = 0; first < count->n_bins && !count->lower->failed; first += threads)
    carry_some(count, first, threads, own);
}

static void raise_all(const Count *count)
{
  Lower *lower = count->lower;
  IrExpr *owner = lower_map_owner(lower, count->bins->layout);
  for (unsigned r = 0; r < count->bins->n && !lower->failed; r++) {
    IrExpr *bin = count->bins->reg[r], *valid = is_bin(count, bin);
    IrExpr *address = lower_add(lower, NUMBER_U32, count->counters.base,
                                lower_mul(lower, NUMBER_S32, bin, lower_int(lower, bytes_of(count))));
    lower_when(lower_emit(lower, OP_RAISE_SHARED, 2,
                          lower_address(lower, (LowerAddress){address, count->counters.offset}),
                          lower_int(lower, 1)),
               owner ? lower_and(lower, valid, owner) : valid);
  }
}

/* What counters were: where each warp begins, and how many of the bin it had in front of the element. */
static void place_all(const Count *count)
{
  Lower *lower = count->lower;
  clear_own(count);
  IrExpr *below = in_place(count, OP_SHL, "bit", lower_int(lower, 1), lower_source(lower, SOURCE_LANE));
  below = in_place(count, OP_SUB, "below", below, lower_int(lower, 1));
  for (unsigned r = 0; r < count->bins->n && !lower->failed; r++)
    count_round(count, r, below);
  lower_block_barrier(lower, count->op);
  carry(count);
}

void lower_count(Lower *lower, IrOp *op)
{
  Count count = {.lower = lower, .op = op, .dim = (unsigned)ir_attribute_int(op, ATTR_DIM, 0)};
  if (!open_count(&count)) return;
  IrExpr *bins = base_of_bins(&count), *owner = lower_map_owner(lower, count.start->layout);
  lower_block_barrier(lower, op); /* readers of the exchange before are done */
  for (unsigned r = 0; r < count.start->n; r++)
    store(&count, last_row(&count, bins, r), count.start->reg[r], owner);
  if (!count.places) lower_block_barrier(lower, op);
  (count.places ? place_all : raise_all)(&count);
  lower_block_barrier(lower, op);
  for (unsigned r = 0; r < count.bins->n && count.places && !lower->failed; r++) {
    IrExpr *begin = load(&count, (LowerAddress){count.counter[r], count.counters.offset});
    IrExpr *sum = in_place(&count, OP_ADD, "counter", begin, count.before->reg[r]);
    count.before->reg[r] = lower_value(lower, OP_SELECT, ir_scalar(NUMBER_S32), "counter", 3, count.valid[r],
                                       sum, lower_int(lower, -1));
  }
  for (unsigned r = 0; r < count.start->n && !lower->failed; r++)
    count.after->reg[r] = load(&count, last_row(&count, bins, r));
  if (lower->failed) return;
  if (count.places) lower_tile_bind(lower, op->results[0], count.before);
  lower_tile_bind(lower, op->results[1], count.after);
}
