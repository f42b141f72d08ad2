/* The verifier's rules for `sort` and `count`. */
#include "ir/verifier.h"

static bool is_whole_number(NumberType type)
{
  NumberClass class_ = number_class(type);
  return (class_ == NUMBER_SIGNED || class_ == NUMBER_UNSIGNED) &&
         number_bits(type) >= number_bits(NUMBER_S32);
}

/* Whole warps put survivors in order, and more of them than are wanted. */
static void verify_survivors(Verifier *verifier, const IrOp *op, int64_t kept)
{
  int64_t survivors = ir_attribute_int(op, ATTR_SURVIVORS, 0);
  if (!survivors) return;
  if (survivors < WARP_LANES || survivors > 1 << 16 || (survivors & (survivors - 1)) || survivors <= kept)
    verify_fault(verifier, &op->mark, "survivors", NULL,
                 "%" G_GINT64_FORMAT " elements below a bound, of which %" G_GINT64_FORMAT
                 " are wanted: at least 32, a power of two, and more than are wanted",
                 survivors, kept);
}

/* Extents are powers of two, and as many elements of a row stay as the result has. */
void verify_sort(Verifier *verifier, const IrOp *op)
{
  IrType result = op->results[0]->type;
  int64_t dim = ir_attribute_int(op, ATTR_DIM, -1), from, to;
  if (!op->n_operands || op->n_operands > 2 || result.kind != TYPE_TILE) {
    verify_fault(verifier, &op->mark, "shape", NULL, "`sort` takes a tile, or two, and gives one");
    return;
  }
  IrType x = ir_expr_type(verifier->function, op->operands[0]);
  if (op->operands[0]->kind != EXPR_VALUE || x.kind != TYPE_TILE || x.rank != 2 || x.rank != result.rank) {
    verify_fault(verifier, &op->mark, "shape", NULL,
                 "`sort` takes a tile of two dimensions, and gives one like it");
    return;
  }
  if (dim < 0 || dim >= x.rank) {
    verify_fault(verifier, &op->mark, "dim", NULL, "dimension %" G_GINT64_FORMAT " of a tile of rank %u", dim,
                 x.rank);
    return;
  }
  if (!x.element_parameter && !is_whole_number(x.element))
    verify_fault(verifier, &op->mark, "element-type", NULL, "`sort` takes integers of 32 or 64 bits, not %s",
                 number_name(x.element));
  bool known = ir_expr_is_int(x.dims[dim], &from) && ir_expr_is_int(result.dims[dim], &to);
  if (known && (to < 1 || to > from || (from & (from - 1)) || (to & (to - 1))))
    verify_fault(verifier, &op->mark, "shape", NULL,
                 "rows of %" G_GINT64_FORMAT " elements are not sorted to %" G_GINT64_FORMAT
                 ": both are powers of two, the second is not larger",
                 from, to);
  if (known) verify_survivors(verifier, op, to);
  if (op->n_operands > 1) {
    IrType more = ir_expr_type(verifier->function, op->operands[1]);
    if (more.kind != TYPE_TILE || op->operands[1]->kind != EXPR_VALUE)
      verify_fault(verifier, &op->mark, "shape", NULL, "what joins a sort is a tile like its result");
    verify_same_tile(verifier, op, &more, &result);
  }
  x.dims[dim] = result.dims[dim];
  verify_same_tile(verifier, op, &x, &result);
}

/* Rows of f32 along the last dimension, as many places as whole warps have. */
void verify_pick(Verifier *verifier, const IrOp *op)
{
  IrType result = op->results[0]->type, x = ir_expr_type(verifier->function, op->operands[0]);
  int64_t from, to, count;
  if (op->operands[0]->kind != EXPR_VALUE || x.kind != TYPE_TILE || x.rank != 2 || result.kind != TYPE_TILE ||
      result.rank != 2 || ir_attribute_int(op, ATTR_DIM, -1) != 1) {
    verify_fault(verifier, &op->mark, "shape", NULL,
                 "`pick` takes a tile of two dimensions, along the last, and gives one like it");
    return;
  }
  if ((!x.element_parameter && x.element != NUMBER_F32) || result.element != NUMBER_S32)
    verify_fault(verifier, &op->mark, "element-type", NULL,
                 "`pick` takes numbers of f32 and gives places of s32");
  if (!ir_expr_is_int(x.dims[1], &from) || !ir_expr_is_int(result.dims[1], &to) ||
      !ir_expr_is_int(ir_attribute_value(op, ATTR_COUNT), &count))
    return;
  if (count < 1 || count > to || to < WARP_LANES || to > 1 << 16 || (to & (to - 1)) || (from & (from - 1)))
    verify_fault(verifier, &op->mark, "shape", NULL,
                 "of %" G_GINT64_FORMAT " elements %" G_GINT64_FORMAT
                 " places, among them the %" G_GINT64_FORMAT
                 " largest elements': powers of two, as many as a warp has lanes at least, and as are wanted",
                 from, to, count);
  x.element = NUMBER_S32;
  x.dims[1] = result.dims[1];
  verify_same_tile(verifier, op, &x, &result);
}

/* A tile of s32 that has several elements along the dimension alone. */
static bool is_column(const IrType *type, int64_t dim)
{
  int64_t other;
  bool fits = type->kind == TYPE_TILE && type->rank == 2 && dim >= 0 && dim < 2 &&
              (type->element_parameter || type->element == NUMBER_S32);
  return fits && (!ir_expr_is_int(type->dims[1 - dim], &other) || other == 1);
}

void verify_count(Verifier *verifier, const IrOp *op)
{
  int64_t dim = ir_attribute_int(op, ATTR_DIM, -1);
  for (unsigned i = 0; i < 2; i++) {
    IrType x = ir_expr_type(verifier->function, op->operands[i]);
    if (op->operands[i]->kind != EXPR_VALUE || !is_column(&x, dim)) {
      verify_fault(verifier, &op->mark, "shape", NULL,
                   "`count` takes bins of elements along a dimension and where counters start, both tiles of "
                   "s32 whose "
                   "other extent is 1");
      return;
    }
    verify_same_tile(verifier, op, &x, &op->results[i]->type);
  }
}
