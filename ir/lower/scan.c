/* Scans along one dimension: of each element what it and all before it combine to, and of all of them.
 *
 * A thread's elements of a row lie in blocks: one element, so many side by side in registers, so many of these in the lanes of
 * a warp, in its warps, in registers again, as the layout's modes of that dimension say, the least step first. At each level
 * a block gets what the blocks before it in the same larger one combine to; a larger block's own value is that of the last.
 * From the largest down these are combined, once for each element. The order is fixed, as a reduction's is. */
#include "ir/lower/lower.h"
#include <string.h>

#define MOST_LEVELS LAYOUT_MAX_MODES

typedef struct {
  LayoutMode mode;
  unsigned divisor; /* of its digit in the lane or warp */
} Level;

typedef struct Scan {
  Lower *lower;
  IrOp *op;
  const char *with;
  unsigned dim;
  bool exclusive, reverse;
  LowerTile *from, *to, *all;
  NumberType element;
  Level levels[MOST_LEVELS];
  unsigned n_levels;
} Scan;

/* What a row begins with. */
static IrExpr *nothing(const Scan *scan)
{
  NumberType element = scan->element;
  unsigned bits = number_bits(element);
  bool least = !strcmp(scan->with, "max");
  if (!strcmp(scan->with, "sum")) return lower_constant(scan->lower, element, 0);
  if (!strcmp(scan->with, "prod")) return lower_constant(scan->lower, element, 1);
  switch (number_class(element)) {
  case NUMBER_FLOAT: return lower_constant(scan->lower, element, least ? -INFINITY : INFINITY);
  case NUMBER_SIGNED:
    if (bits <= 32)
      return lower_constant(scan->lower, element,
                            least ? -ldexp(1, (int)bits - 1) : ldexp(1, (int)bits - 1) - 1);
    break;
  case NUMBER_UNSIGNED:
    if (bits <= 32) return lower_constant(scan->lower, element, least ? 0 : ldexp(1, (int)bits) - 1);
    break;
  default: break;
  }
  return lower_fail(scan->lower, ERROR_UNSUPPORTED, "scan", NULL, "scan with %s of %s is not supported",
                    scan->with, number_name(element));
}

/* a stands in front of b; NULL: nothing. */
static IrExpr *combine(const Scan *scan, IrExpr *a, IrExpr *b)
{
  if (!a || !b) return a ? a : b;
  return lower_combine(scan->lower, scan->with, scan->element, a, b);
}

/* ---- Levels ---- */

static int compare_levels(const void *a, const void *b)
{
  const Level *x = a, *y = b;
  return (x->mode.step > y->mode.step) - (x->mode.step < y->mode.step);
}

static void find_levels(Scan *scan)
{
  const Layout *layout = scan->from->layout;
  unsigned next[PLACE_COUNT];
  for (unsigned i = 0; i < PLACE_COUNT; i++)
    next[i] = 1;
  for (unsigned i = 0; i < layout->n; i++) {
    const LayoutMode *mode = &layout->modes[i];
    if (mode->dim == (int)scan->dim && mode->size > 1)
      scan->levels[scan->n_levels++] = (Level){*mode, next[mode->place]};
    next[mode->place] *= mode->size;
  }
  qsort(scan->levels, scan->n_levels, sizeof *scan->levels, compare_levels);
}

static IrExpr *digit_of(const Scan *scan, const Level *level)
{
  LowerMap map = {0};
  LowerSource source = level->mode.place == PLACE_LANE ? SOURCE_LANE : SOURCE_WARP;
  lower_map_add(&map, source, level->divisor, level->mode.size, G_MAXUINT, 0, 1);
  return lower_map_coordinate(scan->lower, &map, 0);
}

/* The same counted in the order of the scan. */
static IrExpr *place_in_order(const Scan *scan, const Level *level)
{
  IrExpr *digit = digit_of(scan, level);
  if (!scan->reverse) return digit;
  return lower_sub(scan->lower, NUMBER_S32, lower_int(scan->lower, level->mode.size - 1), digit);
}

/* ---- One row of a thread ---- */

/* Blocks of the thread at a level, in the order of the scan: the values of all their elements, and what stands before each in the
 * larger block. */
typedef struct {
  unsigned n;
  IrExpr **all, **before;
} Blocks;

static Blocks blocks_new(const Scan *scan, unsigned n)
{
  return (Blocks){n, arena_new_array(scan->lower->arena, IrExpr *, n + 1),
                  arena_new_array(scan->lower->arena, IrExpr *, n + 1)};
}

static void across_registers(const Scan *scan, const Level *level, const Blocks *blocks, Blocks *larger)
{
  unsigned size = level->mode.size;
  for (unsigned b = 0; b < blocks->n; b++) {
    unsigned group = b / size;
    blocks->before[b] = b % size ? larger->all[group] : NULL;
    larger->all[group] = combine(scan, blocks->before[b], blocks->all[b]);
  }
}

/* x of another lane. */
static IrExpr *from_lane(const Scan *scan, IrExpr *x, IrExpr *lane)
{
  Lower *lower = scan->lower;
  IrExpr *other =
      lower_value(lower, OP_SHUFFLE, ir_scalar(lower_register_type(scan->element)), "other", 2, x, lane);
  ir_attribute_set(other->value->def, ATTR_MODE, ir_name(lower->module, "index"));
  return other;
}

static IrExpr *lane_before(const Scan *scan, const Level *level, unsigned distance)
{
  Lower *lower = scan->lower;
  int64_t step = (int64_t)distance * level->divisor;
  IrExpr *lane = lower_add(lower, NUMBER_S32, lower_source(lower, SOURCE_LANE),
                           lower_int(lower, scan->reverse ? step : -step));
  return lower_bits(lower, OP_AND, NUMBER_U32, lane, lower_int(lower, WARP_LANES - 1));
}

static IrExpr *either(const Scan *scan, IrExpr *condition, IrExpr *a, IrExpr *b)
{
  return lower_value(scan->lower, OP_SELECT, ir_scalar(lower_register_type(scan->element)), "x", 3, condition,
                     a, b);
}

/* Hillis and Steele's scan over the digit's lanes: each takes what lies 1, 2, 4 ... before it. */
static void across_lanes(const Scan *scan, const Level *level, const Blocks *blocks, Blocks *larger)
{
  Lower *lower = scan->lower;
  unsigned size = level->mode.size;
  IrExpr *digit = place_in_order(scan, level);
  IrExpr *to_last = lower_sub(lower, NUMBER_S32, lower_int(lower, size - 1), digit);
  to_last = lower_mul(lower, NUMBER_S32, to_last, lower_int(lower, level->divisor));
  IrExpr *lane = lower_source(lower, SOURCE_LANE);
  IrExpr *last = scan->reverse ? lower_sub(lower, NUMBER_S32, lane, to_last)
                               : lower_add(lower, NUMBER_S32, lane, to_last);
  IrExpr *before = lane_before(scan, level, 1);
  for (unsigned b = 0; b < blocks->n && !lower->failed; b++) {
    IrExpr *sum = blocks->all[b];
    for (unsigned distance = 1; distance < size; distance *= 2) {
      IrExpr *other = from_lane(scan, sum, distance == 1 ? before : lane_before(scan, level, distance));
      IrExpr *inside = lower_compare(lower, OP_GE, digit, lower_int(lower, distance));
      sum = either(scan, inside, combine(scan, other, sum), sum);
    }
    IrExpr *inside = lower_compare(lower, OP_GE, digit, lower_int(lower, 1));
    blocks->before[b] = either(scan, inside, from_lane(scan, sum, before), nothing(scan));
    larger->all[b] = from_lane(scan, sum, last);
  }
}

/* ---- Across warps ---- */

/* A shared tile: for each warp of a row its blocks, for each of these the rows. */
typedef struct {
  LowerShared tile;
  unsigned warps, rows, bytes;
  int64_t stride; /* of a warp, in bytes */
  IrExpr *column; /* address of the thread's first row in the first warp's, and in its own */
  IrExpr *mine;
  IrExpr *number; /* of this warp among those of its row, in the order of the scan */
  IrExpr *owner;  /* one of the threads that hold the same */
  const unsigned *at;
} Exchange;

static IrExpr *owner_of(const Scan *scan)
{
  Lower *lower = scan->lower;
  IrExpr *owner = lower_map_owner(lower, scan->from->layout);
  for (unsigned i = 0; i < scan->n_levels; i++)
    if (scan->levels[i].mode.place == PLACE_LANE)
      owner = lower_and(lower, owner,
                        lower_compare(lower, OP_EQ, digit_of(scan, &scan->levels[i]), lower_int(lower, 0)));
  return owner;
}

static bool open_exchange(const Scan *scan, const Level *level, unsigned blocks, Exchange *exchange)
{
  Lower *lower = scan->lower;
  const Layout *layout = scan->from->layout;
  const IrExpr *symbol = ir_attribute_value(scan->op, ATTR_EXCHANGE);
  *exchange = (Exchange){.warps = level->mode.size};
  if (!symbol || !lower_shared_operand(lower, symbol, &exchange->tile)) {
    lower_fail(lower, ERROR_INPUT, "exchange", NULL, "a scan across warps needs an exchange tile");
    return false;
  }
  exchange->rows = layout->rank == 2 ? layout->extent[1 - scan->dim] : 1;
  exchange->bytes = (unsigned)number_bytes_of(exchange->tile.element, 1);
  uint64_t elements = (uint64_t)level->mode.size * blocks * exchange->rows;
  if (number_bits(exchange->tile.element) < number_bits(scan->element) ||
      number_bytes_of(exchange->tile.element, elements) >
          layout_bytes(exchange->tile.layout, exchange->tile.element)) {
    lower_fail(lower, ERROR_INPUT, "exchange", NULL, "the exchange tile is smaller than %u warps x %u values",
               level->mode.size, blocks * exchange->rows);
    return false;
  }
  LowerMap map = lower_map_of(scan->all->layout);
  IrExpr *row = layout->rank == 2 ? lower_map_coordinate(lower, &map, 1 - scan->dim) : lower_int(lower, 0);
  exchange->column = lower_add(lower, NUMBER_U32, exchange->tile.base,
                               lower_mul(lower, NUMBER_S32, row, lower_int(lower, exchange->bytes)));
  exchange->stride = (int64_t)blocks * exchange->rows * exchange->bytes;
  exchange->number = place_in_order(scan, level);
  exchange->mine =
      lower_add(lower, NUMBER_U32, exchange->column,
                lower_mul(lower, NUMBER_S32, exchange->number, lower_int(lower, exchange->stride)));
  exchange->at = lower_registers(lower, scan->all->layout);
  exchange->owner = owner_of(scan);
  return true;
}

/* Bytes from a warp's column to a block's value of a row. */
static int64_t offset_of(const Scan *scan, const Exchange *exchange, unsigned block, unsigned reg)
{
  unsigned first =
      scan->from->layout->rank == 2 ? exchange->at[(size_t)reg * LAYOUT_MAX_DIMS + 1 - scan->dim] : 0;
  return exchange->tile.offset + ((int64_t)block * exchange->rows + first) * exchange->bytes;
}

static void leave_blocks(const Scan *scan, const Exchange *exchange, const Blocks *blocks, unsigned reg)
{
  for (unsigned b = 0; b < blocks->n; b++) {
    LowerTile part = {.element = scan->element, .n = 1, .reg = &blocks->all[b]};
    LowerAddress address = {exchange->mine, offset_of(scan, exchange, b, reg)};
    unsigned zero = 0;
    lower_store_vector(scan->lower, OP_STORE_SHARED, address, &part, &zero, 1, exchange->owner, NULL);
  }
}

static IrExpr *value_of_warp(const Scan *scan, const Exchange *exchange, unsigned warp, unsigned block,
                             unsigned reg)
{
  IrExpr *value = NULL;
  LowerTile part = {.element = scan->element, .n = 1, .reg = &value};
  LowerAddress address = {exchange->column, offset_of(scan, exchange, block, reg) + warp * exchange->stride};
  unsigned zero = 0;
  lower_load_vector(scan->lower, OP_LOAD_SHARED, address, &part, &zero, 1, NULL, NULL, NULL);
  return value;
}

static void take_blocks(const Scan *scan, const Exchange *exchange, const Blocks *blocks, Blocks *larger,
                        unsigned reg)
{
  Lower *lower = scan->lower;
  for (unsigned b = 0; b < blocks->n && !lower->failed; b++) {
    IrExpr *before = nothing(scan), *all = NULL;
    for (unsigned warp = 0; warp < exchange->warps && !lower->failed; warp++) {
      IrExpr *mine = lower_compare(lower, OP_EQ, exchange->number, lower_int(lower, warp));
      if (warp) before = either(scan, mine, all, before);
      all = combine(scan, all, value_of_warp(scan, exchange, warp, b, reg));
    }
    blocks->before[b] = before;
    larger->all[b] = all;
  }
}

/* ---- All rows ---- */

typedef struct {
  unsigned n; /* registers of the row */
  unsigned *reg;
  Blocks levels[MOST_LEVELS + 1];
} Row;

static int compare_along(const void *a, const void *b, void *data)
{
  const unsigned *at = ((void **)data)[0], dim = *(const unsigned *)((void **)data)[1];
  unsigned x = at[(size_t) * (const unsigned *)a * LAYOUT_MAX_DIMS + dim],
           y = at[(size_t) * (const unsigned *)b * LAYOUT_MAX_DIMS + dim];
  return (x > y) - (x < y);
}

/* The thread's registers of each row, in the order of the scan. */
static Row *find_rows(const Scan *scan, const unsigned *map)
{
  Lower *lower = scan->lower;
  Row *rows = arena_new_array(lower->arena, Row, scan->all->n);
  unsigned dim = scan->dim;
  void *order[] = {(void *)lower_registers(lower, scan->from->layout), &dim};
  for (unsigned r = 0; r < scan->all->n; r++) {
    Row *row = &rows[r];
    row->reg = arena_new_array(lower->arena, unsigned, scan->from->n);
    for (unsigned i = 0; i < scan->from->n; i++)
      if (map[i] == r) row->reg[row->n++] = i;
    g_qsort_with_data(row->reg, (gint)row->n, sizeof *row->reg, compare_along, order);
    for (unsigned i = 0; scan->reverse && i < row->n / 2; i++) {
      unsigned other = row->reg[row->n - 1 - i];
      row->reg[row->n - 1 - i] = row->reg[i];
      row->reg[i] = other;
    }
    row->levels[0] = blocks_new(scan, row->n);
    for (unsigned i = 0; i < row->n; i++)
      row->levels[0].all[i] = scan->from->reg[row->reg[i]];
  }
  return rows;
}

static void scan_level(const Scan *scan, unsigned number, Row *rows)
{
  Lower *lower = scan->lower;
  const Level *level = &scan->levels[number];
  bool warps = level->mode.place == PLACE_WARP;
  Exchange exchange;
  if (warps && !open_exchange(scan, level, rows[0].levels[number].n, &exchange)) return;
  if (warps) lower_block_barrier(lower, scan->op); /* readers of the exchange before are done */
  for (unsigned r = 0; r < scan->all->n && !lower->failed; r++) {
    const Blocks *blocks = &rows[r].levels[number];
    bool registers = level->mode.place == PLACE_REGISTER;
    rows[r].levels[number + 1] = blocks_new(scan, registers ? blocks->n / level->mode.size : blocks->n);
    if (registers) across_registers(scan, level, blocks, &rows[r].levels[number + 1]);
    if (level->mode.place == PLACE_LANE) across_lanes(scan, level, blocks, &rows[r].levels[number + 1]);
    if (warps) leave_blocks(scan, &exchange, blocks, r);
  }
  if (warps) lower_block_barrier(lower, scan->op);
  for (unsigned r = 0; warps && r < scan->all->n && !lower->failed; r++)
    take_blocks(scan, &exchange, &rows[r].levels[number], &rows[r].levels[number + 1], r);
}

/* From the largest blocks down; the result of an element. */
static void bind_row(const Scan *scan, Row *row)
{
  IrExpr **outer = NULL; /* what stands before each block one level up, of the whole row */
  for (unsigned number = scan->n_levels; number-- > 0;) {
    const Blocks *blocks = &row->levels[number];
    unsigned size = scan->levels[number].mode.place == PLACE_REGISTER ? scan->levels[number].mode.size : 1;
    for (unsigned b = 0; b < blocks->n; b++)
      blocks->before[b] = combine(scan, outer ? outer[b / size] : NULL, blocks->before[b]);
    outer = blocks->before;
  }
  for (unsigned i = 0; i < row->n; i++) {
    IrExpr *before = outer ? outer[i] : NULL, *x = row->levels[0].all[i];
    scan->to->reg[row->reg[i]] = !scan->exclusive ? combine(scan, before, x)
                                 : before         ? before
                                                  : nothing(scan);
  }
}

static bool open_scan(Scan *scan)
{
  Lower *lower = scan->lower;
  IrOp *op = scan->op;
  const IrExpr *with = ir_attribute_value(op, ATTR_WITH);
  if (with->kind != EXPR_NAME) {
    lower_fail(lower, ERROR_UNSUPPORTED, "scan", "sum, prod, max or min", "a scan with %s is not supported",
               ir_expr_text(lower->module, with));
    return false;
  }
  scan->with = with->name;
  scan->from = lower_tile(lower, op->operands[0]);
  if (!scan->from) return false;
  scan->element = scan->from->element;
  scan->to = lower_tile_new(lower, scan->element, op->results[0]->type.layout);
  scan->all = lower_tile_new(lower, scan->element, op->results[1]->type.layout);
  return true;
}

void lower_scan(Lower *lower, IrOp *op)
{
  Scan scan = {.lower = lower,
               .op = op,
               .dim = (unsigned)ir_attribute_int(op, ATTR_DIM, 0),
               .exclusive = ir_attribute_int(op, ATTR_EXCLUSIVE, 0) != 0,
               .reverse = ir_attribute_int(op, ATTR_REVERSE, 0) != 0};
  if (!open_scan(&scan)) return;
  const unsigned *map = lower_correspondence(lower, scan.all->layout, scan.from->layout);
  if (!map || !layout_equal(scan.to->layout, scan.from->layout)) {
    lower_fail(lower, ERROR_INPUT, "layouts-disagree", NULL,
               "the results of scan must have its operand's layout and the slice of it");
    return;
  }
  find_levels(&scan);
  Row *rows = find_rows(&scan, map);
  for (unsigned i = 0; i < scan.n_levels && !lower->failed; i++)
    scan_level(&scan, i, rows);
  for (unsigned r = 0; r < scan.all->n && !lower->failed; r++) {
    bind_row(&scan, &rows[r]);
    scan.all->reg[r] = rows[r].levels[scan.n_levels].all[0];
  }
  if (lower->failed) return;
  lower_tile_bind(lower, op->results[0], scan.to);
  lower_tile_bind(lower, op->results[1], scan.all);
}
