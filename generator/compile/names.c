#include "generator/compile/names.h"

/* Adds a type unless it is the one before. */
static void put_type(GString *name, NumberType type, NumberType *last)
{
  if (type == *last) return;
  g_string_append_printf(name, "_%s", number_name(type));
  *last = type;
}

/* Of what the operator reads first, both operands of a product, and of its first result. */
static void put_types(GString *name, const FusedOperator *op)
{
  NumberType last = NUMBER_TYPE_COUNT;
  switch (op->kind) {
  case FUSED_GEMM:
    put_type(name, op->gemm.a_type, &last);
    put_type(name, op->gemm.b_type, &last);
    break;
  case FUSED_ROW:
  case FUSED_ELEMENTWISE:
    if (op->n_inputs) put_type(name, op->inputs[0].tensor->type, &last);
    break;
  case FUSED_KIND_COUNT: break;
  }
  if (op->n_outputs) put_type(name, op->outputs[0].tensor->type, &last);
}

/* An extent that the kernel does not take as an argument. */
static void put_extent(GString *name, const char *letter, const Symbolic *extent)
{
  int64_t size;
  if (symbolic_is_constant(extent, &size)) g_string_append_printf(name, "%s%" G_GINT64_FORMAT, letter, size);
}

static void put_extents(GString *name, const FusedOperator *op)
{
  g_autoptr(GString) extents = g_string_new(NULL);
  switch (op->kind) {
  case FUSED_GEMM:
    for (unsigned d = 0; d < op->gemm.n_batch; d++)
      put_extent(extents, "b", op->dims[d]);
    put_extent(extents, "m", op->gemm.m);
    put_extent(extents, "n", op->gemm.n);
    put_extent(extents, "k", op->gemm.k);
    break;
  case FUSED_ROW:
    put_extent(extents, "r", op->row.rows);
    put_extent(extents, "c", op->row.columns);
    break;
  case FUSED_ELEMENTWISE:
    for (unsigned d = 0; d < op->rank; d++)
      put_extent(extents, extents->len ? "x" : "n", op->dims[d]);
    break;
  case FUSED_KIND_COUNT: break;
  }
  if (extents->len) g_string_append_printf(name, "_%s", extents->str);
}

char *compile_kernel_name(const FusedOperator *op, const Choice *choice)
{
  GString *name = g_string_new(op->chain);
  put_types(name, op);
  put_extents(name, op);
  g_string_append_printf(name, "_%s", choice->suffix);
  return g_string_free(name, FALSE);
}
