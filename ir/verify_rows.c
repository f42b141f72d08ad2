/* The verifier's rules for `tiles` that hold rows: what the row is, how it stays, what may be done to tiles of its extent. */
#include "ir/facts.h"
#include "ir/verifier.h"
#include <string.h>

static const char *const belongs_to[IR_ATTRIBUTE_COUNT] = {[ATTR_CHUNK] = "passes", [ATTR_SLOTS] = "shared"};

/* Attributes of one way to hold rows. */
static void check_forms(Verifier *verifier, const IrOp *tiles)
{
  const char *form =
      ir_attribute_value(tiles, ATTR_HOLD) ? ir_attribute_value(tiles, ATTR_HOLD)->name : "registers";
  bool row = ir_attribute(tiles, ATTR_ROW);
  if (!row && ir_attribute(tiles, ATTR_HOLD))
    verify_fault(verifier, &tiles->mark, "row", "`row C` says how wide rows are", "`hold` without `row`");
  if (row && !strcmp(form, "cluster") && ir_attribute_int(tiles, ATTR_SPLIT_K, 0) < 2)
    verify_fault(verifier, &tiles->mark, "row", "`split_k 4`",
                 "`hold cluster` needs `split_k`, how many blocks share a row");
  for (unsigned key = 0; key < IR_ATTRIBUTE_COUNT; key++) {
    if (!belongs_to[key]) continue;
    bool given = ir_attribute(tiles, key), wanted = row && !strcmp(form, belongs_to[key]);
    if (given && !wanted)
      verify_fault(verifier, &tiles->mark, "row", NULL, "`%s` belongs to `hold %s`", ir_attribute_name(key),
                   belongs_to[key]);
    else if (wanted && (!given || ir_attribute_int(tiles, key, 1) < 1))
      verify_fault(verifier, &tiles->mark, "row", NULL, "`hold %s` needs `%s`, a positive constant", form,
                   ir_attribute_name(key));
  }
}

/* The row is a dim of the kernel, or a constant; what stays on the chip needs a largest one. */
static void check_width(Verifier *verifier, const IrOp *tiles)
{
  const IrExpr *row = ir_attribute_value(tiles, ATTR_ROW);
  const IrDim *dim = row->kind == EXPR_DIM ? ir_dim_find(verifier->function, row->name) : NULL;
  int64_t extent;
  if (row->kind == EXPR_PARAMETER && verifier->templated) return;
  if (!dim && !ir_expr_is_int(row, &extent))
    verify_fault(verifier, &row->mark, "row", NULL, "`row` takes a dim of the kernel or a constant");
  else if (!dim && extent < 2)
    verify_fault(
        verifier, &row->mark, "row", "a dim, with `maximum 1`",
        "a constant `row` has two elements or more: tiles of one column are what rows are reduced to");
  else if (dim && !dim->maximum && !ir_attribute_is(tiles, ATTR_HOLD, "passes"))
    verify_fault(verifier, &row->mark, "row", "`maximum` behind the dim, or `hold passes`",
                 "`%s` has no maximum, so nobody knows whether its rows fit", row->name);
}

/* The dimension of a tile that is the row's, or -1. */
static int row_dim(const IrExpr *row, const IrType *type)
{
  unsigned first =
      row->kind == EXPR_DIM ? 0 : type->rank - 1; /* of a constant, others may be equal by chance */
  for (unsigned d = first; type->kind == TYPE_TILE && d < type->rank; d++)
    if (ir_row_extent(type->dims[d], row, NULL)) return (int)d;
  return -1;
}

/* Passes over a row put each phase's tiles by where it is: none of them says where a store goes. */
static void check_place(Verifier *verifier, const IrOp *op, const IrExpr *row)
{
  const IrExpr *access = op->code == OP_STORE ? op->operands[0] : NULL;
  for (unsigned i = 1; access && access->kind == EXPR_INDEX && i < access->n; i++) {
    const IrExpr *at = access->items[i];
    if (at->kind == EXPR_VALUE && row_dim(row, &at->value->type) >= 0)
      verify_fault(verifier, &op->mark, "row", "a number, or a tile of one element",
                   "`%%%s`, a tile of the row, says where a store of it goes", at->value->name);
  }
}

static void check_op(Verifier *verifier, const IrOp *op, const IrExpr *row)
{
  check_place(verifier, op, row);
  for (unsigned i = 0; i < op->n_results; i++) {
    const IrType *type = &op->results[i]->type;
    int dim = row_dim(row, type);
    if (dim >= 0 && dim != (int)type->rank - 1)
      verify_fault(verifier, &op->mark, "row", NULL,
                   "a row lies along the last dimension of `%%%s`, not along %d", op->results[i]->name, dim);
  }
  if (op->code != OP_REDUCE && op->code != OP_SPREAD) return;
  for (unsigned i = 0; i < op->n_operands; i++) {
    IrType type = ir_expr_type(verifier->function, op->operands[i]);
    int dim = row_dim(row, &type);
    if (dim >= 0 && dim != ir_attribute_int(op, ATTR_DIM, dim))
      verify_fault(verifier, &op->mark, "row", "`dim 1`",
                   "tiles of rows are reduced along the row, not across rows");
  }
}

static void check_region(Verifier *verifier, const IrRegion *region, const IrExpr *row)
{
  for (const IrOp *op = region->first; op; op = op->next) {
    check_op(verifier, op, row);
    for (unsigned i = 0; i < op->n_regions; i++)
      check_region(verifier, op->regions[i], row);
  }
}

void verify_rows(Verifier *verifier, const IrOp *tiles)
{
  unsigned before = verifier->faults;
  check_forms(verifier, tiles);
  if (!ir_attribute(tiles, ATTR_ROW)) return;
  check_width(verifier, tiles);
  if (verifier->faults == before)
    check_region(verifier, tiles->regions[0], ir_attribute_value(tiles, ATTR_ROW));
}
