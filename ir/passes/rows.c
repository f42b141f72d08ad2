/* Which tiles are as wide as a row, or have a number for each so many of its elements. */
#include "ir/passes/rows.h"
#include "ir/facts.h"

bool rows_part(const Rows *rows, const IrType *type, int64_t *every)
{
  int64_t extent;
  *every = 1;
  if (type->kind != TYPE_TILE || !type->rank) return false;
  const IrExpr *last = type->dims[type->rank - 1];
  if (rows->row->kind == EXPR_DIM) return ir_row_extent(last, rows->row, every);
  if (!ir_expr_is_int(last, &extent)) return false;
  if (extent == rows->width) return true;
  for (unsigned i = 0; i < rows->every->len; i++) {
    *every = g_array_index(rows->every, int64_t, i);
    if (extent > 1 && extent == rows->width / *every) return true;
  }
  return false;
}

bool rows_reduces(const Rows *rows, const IrOp *op)
{
  int64_t every;
  if (op->code != OP_REDUCE || ir_attribute(op, ATTR_EVERY)) return false;
  IrType type = ir_expr_type(rows->kernel, op->operands[0]);
  return rows_part(rows, &type, &every) && ir_attribute_int(op, ATTR_DIM, -1) == (int64_t)type.rank - 1;
}

IrExpr *rows_columns(const Rows *rows, int64_t every)
{
  if (every == 1) return rows->columns;
  return ir_call(rows->module, "ceil_div", 2, rows->columns, ir_int(rows->module, every));
}

void rows_set_extents(const Rows *rows, const GPtrArray *ops)
{
  int64_t every;
  for (unsigned i = 0; i < ops->len; i++) {
    IrOp *op = ops->pdata[i];
    for (unsigned r = 0; r < op->n_results; r++) {
      IrType *type = &op->results[r]->type;
      if (rows_part(rows, type, &every))
        type->dims[type->rank - 1] = ir_int(rows->module, rows->extent / every);
    }
  }
}
