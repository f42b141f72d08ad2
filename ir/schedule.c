#include "ir/schedule.h"

static IrExpr *let(IrBuilder *builder, const char *name, IrExpr *expr)
{
  if (expr->kind == EXPR_INT || expr->kind == EXPR_VALUE || expr->kind == EXPR_DIM) return expr;
  IrOp *op = ir_emit(builder, OP_LET, 1, expr);
  return ir_value(builder->module, ir_result(op, name, ir_scalar(NUMBER_S32)));
}

/* A tile's coordinate: with its extent known, nobody has to ask whether whole tiles lie inside the tensor. */
static IrExpr *coordinate(IrBuilder *builder, const char *name, IrExpr *expr, const IrExpr *extent)
{
  IrExpr *value = let(builder, name, expr);
  int64_t known;
  if (value != expr && ir_expr_is_int(extent, &known) && known > 0)
    ir_attribute_set(value->value->def, ATTR_BELOW, ir_int(builder->module, known));
  return value;
}

static IrExpr *binary(IrBuilder *builder, IrOperator op, IrExpr *a, IrExpr *b)
{
  return ir_binary(builder->module, op, a, b);
}

static bool is_int(const IrExpr *expr, int64_t wanted)
{
  int64_t value;
  return ir_expr_is_int(expr, &value) && value == wanted;
}

/* Rows of the band that begins at `first`: fewer than `group` in the last band only. A block divides by them
 * before it can fetch anything, so what is known of them counts. */
static IrExpr *band_height(IrBuilder *builder, IrExpr *rows, IrExpr *first, int64_t group)
{
  IrModule *module = builder->module;
  int64_t known;
  if (ir_expr_is_int(rows, &known) && known % group == 0) return ir_int(module, group);
  IrExpr *left = binary(builder, OPERATOR_SUB, rows, first);
  return let(builder, "height", ir_call(module, "min", 2, left, ir_int(module, group)));
}

#define MOST_RECIPROCALS 8 /* beyond, choosing among them takes as long as dividing */

/* 2^shift / height, rounded up, of low <= height <= high: chosen among constants. */
static IrExpr *reciprocal(IrModule *module, IrExpr *height, int64_t low, int64_t high, unsigned shift)
{
  if (low == high) return ir_int(module, (INT64_C(1) << shift) / low + 1);
  int64_t middle = (low + high) / 2;
  return ir_select(module, ir_binary(module, OPERATOR_LE, height, ir_int(module, middle)),
                   reciprocal(module, height, low, middle, shift),
                   reciprocal(module, height, middle + 1, high, shift));
}

/* within / height as a product and a shift, NULL where that is not known to be exact in 31 bits. A reciprocal
 * r is too large by at most 1, r height by at most height, so within r / 2^shift exceeds within / height by
 * less than 1 / height as long as within height < 2^shift. */
static IrExpr *divide_by_height(IrBuilder *builder, IrExpr *within, IrExpr *height, IrExpr *columns,
                                int64_t group)
{
  IrModule *module = builder->module;
  int64_t known;
  if (height->kind == EXPR_INT || group > MOST_RECIPROCALS || !ir_expr_is_int(columns, &known)) return NULL;
  if (known <= 0 || known > G_MAXINT32 / (group * group)) return NULL;
  int64_t most = group * known;
  unsigned shift = g_bit_storage((gulong)(most * group));
  if (most > G_MAXINT32 / ((INT64_C(1) << shift) + 1)) return NULL;
  IrExpr *scaled = binary(builder, OPERATOR_MUL, within, reciprocal(module, height, 1, group, shift));
  return coordinate(builder, "column", binary(builder, OPERATOR_SHR, scaled, ir_int(module, shift)), columns);
}

/* Index -> (row, column) in a raster of row groups: all columns of `group` rows before the next rows. */
static void raster(IrBuilder *builder, IrExpr *index, IrExpr *rows, IrExpr *columns, int64_t group,
                   IrExpr **out)
{
  IrModule *module = builder->module;
  if (is_int(rows, 1) || is_int(columns, 1)) {
    bool row = is_int(rows, 1);
    out[0] = row ? ir_int(module, 0) : index;
    out[1] = row ? index : ir_int(module, 0);
    return;
  }
  if (group <= 1) {
    out[0] = coordinate(builder, "row", binary(builder, OPERATOR_DIV, index, columns), rows);
    out[1] = coordinate(builder, "column", binary(builder, OPERATOR_MOD, index, columns), columns);
    return;
  }
  int64_t known;
  if (ir_expr_is_int(rows, &known) && known <= group) {
    out[0] = coordinate(builder, "row", binary(builder, OPERATOR_MOD, index, rows), rows);
    out[1] = coordinate(builder, "column", binary(builder, OPERATOR_DIV, index, rows), columns);
    return;
  }
  IrExpr *size = ir_int(module, group);
  IrExpr *band = let(builder, "band", binary(builder, OPERATOR_MUL, size, columns));
  IrExpr *first =
      let(builder, "first", binary(builder, OPERATOR_MUL, binary(builder, OPERATOR_DIV, index, band), size));
  IrExpr *height = band_height(builder, rows, first, group);
  IrExpr *within = let(builder, "within", binary(builder, OPERATOR_MOD, index, band));
  IrExpr *column = divide_by_height(builder, within, height, columns, group);
  if (column) {
    IrExpr *above = binary(builder, OPERATOR_SUB, within, binary(builder, OPERATOR_MUL, column, height));
    out[0] = coordinate(builder, "row", binary(builder, OPERATOR_ADD, first, above), rows);
    out[1] = column;
    return;
  }
  if (height->kind != EXPR_INT) /* seen to be positive, it is divided by without sign */
    height = let(builder, "height", ir_call(module, "max", 2, height, ir_int(module, 1)));
  IrExpr *row = binary(builder, OPERATOR_ADD, first, binary(builder, OPERATOR_MOD, within, height));
  out[0] = coordinate(builder, "row", row, rows);
  out[1] = coordinate(builder, "column", binary(builder, OPERATOR_DIV, within, height), columns);
}

IrExpr *schedule_in_clusters(IrModule *module, IrExpr *extent, int64_t cluster)
{
  return cluster > 1 ? ir_call(module, "ceil_div", 2, extent, ir_int(module, cluster)) : extent;
}

/* block(0) or blocks(0), in clusters. */
static IrExpr *in_clusters(IrModule *module, const char *what, int64_t cluster)
{
  IrExpr *blocks = ir_call(module, what, 1, ir_int(module, 0));
  return ir_binary(module, OPERATOR_DIV, blocks, ir_int(module, cluster));
}

/* Index -> coordinates: slow dimensions peel off, the last two are rastered. */
static void find_tile(IrBuilder *inner, IrExpr *index, IrExpr *const *extents, unsigned n, int64_t group,
                      IrExpr **coordinates)
{
  IrModule *module = inner->module;
  if (n == 1) {
    coordinates[0] = index;
    return;
  }
  for (unsigned d = 0; d + 2 < n; d++) {
    IrExpr *below = ir_int(module, 1);
    for (unsigned e = d + 1; e < n; e++)
      below = binary(inner, OPERATOR_MUL, below, extents[e]);
    int64_t one;
    if (ir_expr_is_int(extents[d], &one) && one == 1) {
      coordinates[d] = ir_int(module, 0);
      continue;
    }
    below = let(inner, "below", below);
    coordinates[d] = let(inner, "slow", binary(inner, OPERATOR_DIV, index, below));
    index = let(inner, "rest", binary(inner, OPERATOR_MOD, index, below));
  }
  IrExpr *columns = let(inner, "columns", extents[n - 1]); /* one after the other: arguments have no order */
  IrExpr *rows = let(inner, "rows", extents[n - 2]);
  raster(inner, index, rows, columns, group, coordinates + n - 2);
}

static IrExpr *count_tiles(IrBuilder *builder, IrExpr *const *extents, unsigned n)
{
  IrExpr *total = ir_int(builder->module, 1);
  for (unsigned i = 0; i < n; i++)
    total = binary(builder, OPERATOR_MUL, total, extents[i]);
  return let(builder, "tiles", total);
}

/* `for` in front of the builder's place; its body and its variable. */
static IrBuilder open_loop(IrBuilder *builder, IrExpr *from, IrExpr *to, IrExpr *step, const char *name,
                           IrExpr **index)
{
  IrOp *loop = ir_emit(builder, OP_FOR, 3, from, to, step);
  IrRegion *region = ir_region_add(loop);
  *index = ir_value(builder->module, ir_argument_add(region, name, ir_scalar(NUMBER_S32)));
  IrBuilder inner = ir_builder_at_end(region);
  inner.mark = builder->mark;
  return inner;
}

static IrBuilder walk(IrBuilder *builder, const Schedule *schedule, IrExpr *const *extents, unsigned n,
                      int64_t group, IrExpr **coordinates)
{
  IrModule *module = builder->module;
  int64_t blocks = schedule->cluster * schedule->across;
  IrExpr *index = in_clusters(module, "block", blocks);
  IrBuilder inner = *builder;
  if (schedule->persistent) {
    IrExpr *total = count_tiles(builder, extents, n);
    IrExpr *stride = in_clusters(module, "blocks", blocks);
    if (schedule->pingpong > 1) {
      index = binary(builder, OPERATOR_ADD, index,
                     binary(builder, OPERATOR_MUL, ir_call(module, "instance", 0), stride));
      stride = binary(builder, OPERATOR_MUL, stride, ir_int(module, schedule->pingpong));
    }
    inner = open_loop(builder, index, total, stride, "tile", &index);
  } else {
    index = let(&inner, "tile", index);
  }
  find_tile(&inner, index, extents, n, group, coordinates);
  return inner;
}

IrBuilder schedule_open_dynamic(IrBuilder *builder, const Schedule *schedule, IrExpr *const *extents,
                                unsigned n, IrExpr **coordinates, IrExpr **index, IrExpr **total)
{
  IrModule *module = builder->module;
  *total = count_tiles(builder, extents, n);
  *index = ir_emit_value(builder, OP_VAR, ir_scalar(NUMBER_S32), "next", 1,
                         ir_call(module, "block", 1, ir_int(module, 0)));
  (*index)->value->variable = true;
  IrBuilder inner = ir_builder_at_end(ir_region_add(ir_emit(builder, OP_LOOP, 0)));
  inner.mark = builder->mark;
  ir_emit(&inner, OP_BREAK_IF, 1, binary(&inner, OPERATOR_GE, *index, *total));
  IrExpr *tile = ir_emit_value(&inner, OP_LET, ir_scalar(NUMBER_S32), "tile", 1, *index);
  find_tile(&inner, tile, extents, n, schedule->raster, coordinates);
  return inner;
}

/* ---- Streamed ---- */

typedef struct {
  IrExpr *block, *blocks, *steps; /* steps of a tile */
  IrExpr *streamed;               /* tiles that are divided; the first ones */
  IrExpr *share, *extra;          /* steps of a block; the first `extra` blocks have one more */
  IrExpr *low, *high;             /* the block's */
  IrExpr *parts;                  /* tiles they touch */
} Stream;

/* Tiles beyond the last full wave but one; none if full waves are all there is. */
static IrExpr *streamed_tiles(IrBuilder *builder, IrExpr *tiles, IrExpr *blocks)
{
  IrModule *module = builder->module;
  IrExpr *rest = let(builder, "beyond", binary(builder, OPERATOR_MOD, tiles, blocks));
  IrExpr *some = ir_call(module, "min", 2, tiles, binary(builder, OPERATOR_ADD, rest, blocks));
  IrExpr *even = binary(builder, OPERATOR_EQ, rest, ir_int(module, 0));
  return let(builder, "streamed", ir_select(module, even, ir_int(module, 0), some));
}

static Stream divide(IrBuilder *builder, IrExpr *tiles, IrExpr *steps)
{
  IrModule *module = builder->module;
  IrExpr *zero = ir_int(module, 0), *one = ir_int(module, 1);
  Stream s = {.block = let(builder, "own", ir_call(module, "block", 1, zero)),
              .blocks = let(builder, "blocks", ir_call(module, "blocks", 1, zero)),
              .steps = let(builder, "steps", steps)};
  s.streamed = streamed_tiles(builder, tiles, s.blocks);
  IrExpr *total = let(builder, "total", binary(builder, OPERATOR_MUL, s.streamed, s.steps));
  s.share = let(builder, "share", binary(builder, OPERATOR_DIV, total, s.blocks));
  s.extra = let(builder, "extra", binary(builder, OPERATOR_MOD, total, s.blocks));
  IrExpr *before = binary(builder, OPERATOR_MUL, s.block, s.share);
  s.low =
      let(builder, "low", binary(builder, OPERATOR_ADD, before, ir_call(module, "min", 2, s.block, s.extra)));
  IrExpr *more = ir_select(module, binary(builder, OPERATOR_LT, s.block, s.extra), one, zero);
  s.high = let(builder, "high",
               binary(builder, OPERATOR_ADD, binary(builder, OPERATOR_ADD, s.low, s.share), more));
  IrExpr *last = binary(builder, OPERATOR_DIV, binary(builder, OPERATOR_SUB, s.high, one), s.steps);
  IrExpr *first = binary(builder, OPERATOR_DIV, s.low, s.steps);
  IrExpr *touched = binary(builder, OPERATOR_ADD, binary(builder, OPERATOR_SUB, last, first), one);
  IrExpr *any = binary(builder, OPERATOR_GT, s.high, s.low);
  s.parts = let(builder, "parts", ir_select(module, any, touched, zero));
  return s;
}

/* The block that has a step of the streamed tiles. */
static IrExpr *block_of(IrBuilder *builder, const Stream *s, IrExpr *step)
{
  IrModule *module = builder->module;
  IrExpr *one = ir_int(module, 1);
  IrExpr *longer = binary(builder, OPERATOR_ADD, s->share, one);
  IrExpr *border = let(builder, "border", binary(builder, OPERATOR_MUL, s->extra, longer));
  IrExpr *among_longer = binary(builder, OPERATOR_DIV, step, longer);
  IrExpr *among_others = binary(builder, OPERATOR_DIV, binary(builder, OPERATOR_SUB, step, border),
                                ir_call(module, "max", 2, s->share, one));
  return ir_select(module, binary(builder, OPERATOR_LT, step, border), among_longer,
                   binary(builder, OPERATOR_ADD, s->extra, among_others));
}

IrBuilder schedule_open_streamed(IrBuilder *builder, const Schedule *schedule, IrExpr *const *extents,
                                 unsigned n, IrExpr *steps, IrExpr **coordinates, IrExpr **range)
{
  IrModule *module = builder->module;
  IrExpr *zero = ir_int(module, 0), *one = ir_int(module, 1), *unit;
  IrExpr *tiles = count_tiles(builder, extents, n);
  Stream s = divide(builder, tiles, steps);
  IrExpr *waves = binary(builder, OPERATOR_DIV, binary(builder, OPERATOR_SUB, tiles, s.streamed), s.blocks);
  IrExpr *units = let(builder, "units", binary(builder, OPERATOR_ADD, s.parts, waves));
  IrBuilder inner = open_loop(builder, zero, units, one, "unit", &unit);
  IrExpr *whole = binary(&inner, OPERATOR_GE, unit, s.parts);
  IrExpr *last =
      binary(&inner, OPERATOR_DIV, binary(&inner, OPERATOR_SUB, s.high, one), s.steps); /* goes backwards */
  IrExpr *wave = binary(&inner, OPERATOR_MUL, binary(&inner, OPERATOR_SUB, unit, s.parts), s.blocks);
  IrExpr *own = binary(&inner, OPERATOR_ADD, binary(&inner, OPERATOR_ADD, s.streamed, s.block), wave);
  IrExpr *tile = let(&inner, "tile", ir_select(module, whole, own, binary(&inner, OPERATOR_SUB, last, unit)));
  IrExpr *begin = let(&inner, "begin", binary(&inner, OPERATOR_MUL, tile, s.steps));
  IrExpr *from = ir_call(module, "max", 2, binary(&inner, OPERATOR_SUB, s.low, begin), zero);
  IrExpr *to = ir_call(module, "min", 2, binary(&inner, OPERATOR_SUB, s.high, begin), s.steps);
  range[0] = let(&inner, "from", ir_select(module, whole, zero, from));
  range[1] = let(&inner, "to", ir_select(module, whole, s.steps, to));
  IrExpr *all = binary(&inner, OPERATOR_EQ, range[0], zero);
  range[2] = let(&inner, "begun", ir_select(module, all, s.block, block_of(&inner, &s, begin)));
  find_tile(&inner, tile, extents, n, schedule->raster, coordinates);
  return inner;
}

/* A coordinate of a cluster's first tile becomes that of the block's own, `place` further on. */
static IrExpr *own_coordinate(IrBuilder *inner, IrExpr *coordinate, int64_t cluster, IrExpr *place,
                              const char *name)
{
  if (cluster <= 1) return coordinate;
  IrExpr *first = binary(inner, OPERATOR_MUL, coordinate, ir_int(inner->module, cluster));
  return let(inner, name, binary(inner, OPERATOR_ADD, first, place));
}

IrBuilder schedule_open(IrBuilder *builder, const Schedule *schedule, IrExpr *const *extents, unsigned n,
                        IrExpr **coordinates)
{
  IrModule *module = builder->module;
  int64_t rows = schedule->cluster, columns = schedule->across;
  if (rows * columns <= 1 || n < 2 || schedule->shared)
    return walk(builder, schedule, extents, n, schedule->raster, coordinates);
  IrExpr *walked[SCHEDULE_MAX_DIMS];
  for (unsigned d = 0; d < n; d++)
    walked[d] = schedule_in_clusters(module, extents[d], d + 2 == n ? rows : d + 1 == n ? columns : 1);
  IrBuilder inner = walk(builder, schedule, walked, n, MAX(1, schedule->raster / rows), coordinates);
  IrExpr *rank = ir_call(module, "cluster_rank", 0), *across = ir_int(module, columns);
  IrExpr *row = columns > 1 ? binary(&inner, OPERATOR_DIV, rank, across) : rank;
  IrExpr *column = rows > 1 ? binary(&inner, OPERATOR_MOD, rank, across) : rank;
  coordinates[n - 2] = own_coordinate(&inner, coordinates[n - 2], rows, row, "own_row");
  coordinates[n - 1] = own_coordinate(&inner, coordinates[n - 1], columns, column, "own_column");
  return inner;
}
