#include "generator/kernel/gemm_groups.h"
#include "generator/program/gemm.h"

/* Groups of rows, or of parts of k, whose sizes are loaded: which tile is whose. */

/* Groups of rows that are the product's columns: of an operator whose operands have changed places. */
static bool lie_across(const KernelBuild *build)
{
  return choice_int(build->choice, "swapped", 0) != 0;
}

void groups_schedule(KernelBuild *build, int64_t bm, int64_t bn)
{
  static const char *const schedulers[] = {[GEMM_ENDS] = "group_ends",
                                           [GEMM_INDEX] = "group_index",
                                           [GEMM_COUNTS] = "group_counts",
                                           [GEMM_DEPTHS] = "group_depths"};
  const FusedGemm *gemm = gemm_of(build->op);
  IrModule *module = build->module;
  const char *name = schedulers[gemm->groups];
  IrOp *tiles = kernel_tiles(build);
  bool across = lie_across(build);
  unsigned row = across ? 3 : 2, column = across ? 2 : 3; /* of what the template walks */
  bool deep = gemm->groups == GEMM_DEPTHS;
  IrExpr *rows = deep ? kernel_dim(build, gemm->k, "K", NUMBER_S32)
                      : kernel_dim(build, across ? gemm->n : gemm->m, across ? "N" : "M", NUMBER_S32),
         *last = gemm->groups == GEMM_INDEX ? kernel_dim(build, build->op->dims[0], "G", NUMBER_S32)
                                            : ir_int(module, gemm->align);
  IrExpr *const operands[] = {ir_symbol(module, name),
                              ir_value(module, build->inputs[gemm->sizes]),
                              rows,
                              tiles->operands[row],
                              tiles->operands[column],
                              ir_int(module, across ? bn : bm),
                              ir_attribute_value(tiles, ATTR_RASTER),
                              last,
                              ir_int(module, across)};
  tiles->operands = arena_memdup(module->arena, operands, sizeof operands);
  tiles->n_operands =
      G_N_ELEMENTS(operands) - (gemm->groups != GEMM_INDEX); /* sizes of others lie along the groups */
  ir_attribute_set(tiles, ATTR_RASTER, ir_int(module, 1));   /* the scheduler has its own */
}

IrExpr *groups_rows(IrBuilder *builder, const FusedOperator *op, IrExpr *sizes, IrExpr *group, IrExpr *row,
                    IrExpr *end, unsigned dim, int64_t rows)
{
  IrModule *module = builder->module;
  int64_t extent[2] = {1, 1};
  extent[dim] = rows;
  IrType numbers = ir_tile(module, NUMBER_S32, 2, extent, NULL),
         truths = ir_tile(module, NUMBER_BOOL, 2, extent, NULL);
  if (gemm_of(op)->groups == GEMM_INDEX) { /* rows say themselves whose they are */
    IrExpr *zero = ir_int(module, 0), *items[] = {zero, dim ? zero : row, dim ? row : zero};
    IrExpr *index =
        ir_emit_value(builder, OP_LOAD, numbers, "index", 1, ir_index_array(module, sizes, 3, items));
    return ir_emit_value(builder, OP_EQ, truths, "own", 2, index, group);
  }
  IrExpr *number = ir_emit_value(builder, OP_IOTA, numbers, "number", 0);
  ir_attribute_set(number->value->def, ATTR_DIM, ir_int(module, dim));
  return ir_emit_value(builder, OP_LT, truths, "own", 2, number, ir_binary(module, OPERATOR_SUB, end, row));
}
