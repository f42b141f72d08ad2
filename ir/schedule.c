#include "ir/schedule.h"

static IrExpr *let(IrBuilder *builder, const char *name, IrExpr *expr)
{
  if (expr->kind == EXPR_INT || expr->kind == EXPR_VALUE || expr->kind == EXPR_DIM) return expr;
  IrOp *op = ir_emit(builder, OP_LET, 1, expr);
  return ir_value(builder->module, ir_result(op, name, ir_scalar(NUMBER_S32)));
}

static IrExpr *binary(IrBuilder *builder, IrOperator op, IrExpr *a, IrExpr *b)
{
  return ir_binary(builder->module, op, a, b);
}

/* Index -> (row, column) in a raster of row groups: all columns of `group` rows before the next rows. */
static void raster(IrBuilder *builder, IrExpr *index, IrExpr *rows, IrExpr *columns, int64_t group,
                   IrExpr **out)
{
  IrModule *module = builder->module;
  if (group <= 1) {
    out[0] = let(builder, "row", binary(builder, OPERATOR_DIV, index, columns));
    out[1] = let(builder, "column", binary(builder, OPERATOR_MOD, index, columns));
    return;
  }
  IrExpr *size = ir_int(module, group);
  IrExpr *band = let(builder, "band", binary(builder, OPERATOR_MUL, size, columns));
  IrExpr *first =
      let(builder, "first", binary(builder, OPERATOR_MUL, binary(builder, OPERATOR_DIV, index, band), size));
  IrExpr *height =
      let(builder, "height", ir_call(module, "min", 2, binary(builder, OPERATOR_SUB, rows, first), size));
  IrExpr *within = let(builder, "within", binary(builder, OPERATOR_MOD, index, band));
  out[0] = let(builder, "row",
               binary(builder, OPERATOR_ADD, first, binary(builder, OPERATOR_MOD, within, height)));
  out[1] = let(builder, "column", binary(builder, OPERATOR_DIV, within, height));
}

IrExpr *schedule_cluster_rows(IrModule *module, IrExpr *rows, int64_t cluster)
{
  return cluster > 1 ? ir_call(module, "ceil_div", 2, rows, ir_int(module, cluster)) : rows;
}

/* block(0) or blocks(0), in clusters. */
static IrExpr *in_clusters(IrModule *module, const char *what, int64_t cluster)
{
  IrExpr *blocks = ir_call(module, what, 1, ir_int(module, 0));
  return ir_binary(module, OPERATOR_DIV, blocks, ir_int(module, cluster));
}

static IrBuilder walk(IrBuilder *builder, const Schedule *schedule, IrExpr *const *extents, unsigned n,
                      int64_t group, IrExpr **coordinates)
{
  IrModule *module = builder->module;
  IrExpr *index = in_clusters(module, "block", schedule->cluster);
  IrBuilder inner = *builder;
  if (schedule->persistent) {
    IrExpr *total = ir_int(module, 1);
    for (unsigned i = 0; i < n; i++)
      total = binary(builder, OPERATOR_MUL, total, extents[i]);
    total = let(builder, "tiles", total);
    IrExpr *stride = in_clusters(module, "blocks", schedule->cluster);
    if (schedule->alternate > 1) {
      index = binary(builder, OPERATOR_ADD, index,
                     binary(builder, OPERATOR_MUL, ir_call(module, "instance", 0), stride));
      stride = binary(builder, OPERATOR_MUL, stride, ir_int(module, schedule->alternate));
    }
    IrOp *loop = ir_emit(builder, OP_FOR, 3, index, total, stride);
    IrRegion *region = ir_region_add(loop);
    index = ir_value(module, ir_argument_add(region, "tile", ir_scalar(NUMBER_S32)));
    inner = ir_builder_at_end(region);
    inner.mark = builder->mark;
  } else {
    index = let(&inner, "tile", index);
  }
  if (n == 1) {
    coordinates[0] = index;
    return inner;
  }
  for (unsigned d = 0; d + 2 < n; d++) { /* slow dimensions peel off the index */
    IrExpr *below = ir_int(module, 1);
    for (unsigned e = d + 1; e < n; e++)
      below = binary(&inner, OPERATOR_MUL, below, extents[e]);
    int64_t one;
    if (ir_expr_is_int(extents[d], &one) && one == 1) {
      coordinates[d] = ir_int(module, 0);
      continue;
    }
    below = let(&inner, "below", below);
    coordinates[d] = let(&inner, "slow", binary(&inner, OPERATOR_DIV, index, below));
    index = let(&inner, "rest", binary(&inner, OPERATOR_MOD, index, below));
  }
  IrExpr *columns = let(&inner, "columns", extents[n - 1]); /* one after the other: arguments have no order */
  IrExpr *rows = let(&inner, "rows", extents[n - 2]);
  raster(&inner, index, rows, columns, group, coordinates + n - 2);
  return inner;
}

IrBuilder schedule_open(IrBuilder *builder, const Schedule *schedule, IrExpr *const *extents, unsigned n,
                        IrExpr **coordinates)
{
  IrModule *module = builder->module;
  int64_t cluster = schedule->cluster;
  if (cluster <= 1 || n < 2 || schedule->shared)
    return walk(builder, schedule, extents, n, schedule->group, coordinates);
  IrExpr *walked[SCHEDULE_MAX_DIMS];
  for (unsigned d = 0; d < n; d++)
    walked[d] = d + 2 == n ? schedule_cluster_rows(module, extents[d], cluster) : extents[d];
  IrBuilder inner = walk(builder, schedule, walked, n, MAX(1, schedule->group / cluster), coordinates);
  IrExpr *first = binary(&inner, OPERATOR_MUL, coordinates[n - 2], ir_int(module, cluster));
  IrExpr *own = binary(&inner, OPERATOR_ADD, first, ir_call(module, "cluster_rank", 0));
  coordinates[n - 2] = let(&inner, "own_row", own);
  return inner;
}
