/* GroupedMatMul: rows of A, each times the matrix of its group, or the parts of k of each group. Rows of no group keep what was there, which is NaN here: outputs
 * are filled with it before a run, so that whatever is written there shows. */
#include "reference/private.h"
#include <math.h>
#include <string.h>

/* Rows of a group, one behind the other in A and in the result. */
typedef struct {
  int64_t group, begin, end;
} Rows;

/* Groups that begin at multiples of `align`, behind the end of the one before. */
static void rows_by_ends(const Value *ends, int64_t m, int64_t align, Rows *rows)
{
  int64_t last = 0;
  for (size_t g = 0; g < ends->n; g++) {
    int64_t begin = (last + align - 1) / align * align;
    last = MAX(last, MIN(ends->integers[g], m));
    rows[g] = (Rows){(int64_t)g, begin, MAX(begin, last)};
  }
}

static void rows_by_counts(const Value *counts, int64_t r, Rows *rows)
{
  for (size_t g = 0; g < counts->n; g++)
    rows[g] = (Rows){(int64_t)g, (int64_t)g * r, (int64_t)g * r + CLAMP(counts->integers[g], 0, r)};
}

static bool rows_by_index(const ReferenceCall *call, const Value *index, int64_t groups, int64_t align,
                          Rows *rows, GError **error)
{
  int64_t last = -1;
  for (int64_t g = 0; g < groups; g++)
    rows[g] = (Rows){g, 0, 0};
  for (int64_t i = 0; i < (int64_t)index->n; i++) {
    int64_t g = index->integers[i];
    if (g == -1) continue;
    bool first = g != last;
    const char *fault = g < -1 || g >= groups        ? "is no group"
                        : g < last                   ? "comes behind a later group"
                        : first && i % align         ? "begins at no multiple of `align`"
                        : !first && rows[g].end != i ? "goes on behind rows of nobody"
                                                     : NULL;
    if (fault) {
      error_set(error, ERROR_INPUT, NULL, "groups", NULL,
                "%s: row %" G_GINT64_FORMAT ": group %" G_GINT64_FORMAT " %s", call->op, i, g, fault);
      return false;
    }
    if (first) rows[g].begin = i;
    rows[g].end = i + 1;
    last = g;
  }
  return true;
}

/* A part of a value as a matrix of its own. */
static Value *part_of(const Value *value, size_t first, int64_t rows, int64_t columns, bool turned,
                      GError **error)
{
  Value *part = value_new(value->type, 2, (int64_t[]){rows, columns}, error);
  for (int64_t i = 0; part && i < rows; i++)
    for (int64_t j = 0; j < columns; j++)
      part->floats[i * columns + j] =
          value->floats[first + (size_t)(turned ? j * rows + i : i * columns + j)];
  return part;
}

static bool multiply_rows(const ReferenceCall *call, const Rows *rows, bool turned, Value *out,
                          GError **error)
{
  const Value *a = call->inputs[0], *b = call->inputs[1];
  int64_t k = a->shape[a->rank - 1], n = out->shape[out->rank - 1];
  if (rows->end <= rows->begin) return true;
  g_autoptr(Value) left = part_of(a, (size_t)(rows->begin * k), rows->end - rows->begin, k, false, error),
                   right = left ? part_of(b, (size_t)(rows->group * k * n), k, n, turned, error) : NULL;
  if (!right) return false;
  const Value *inputs[] = {left, right};
  const ReferenceCall product = {.op = "MatMul", .inputs = inputs, .n_inputs = 2, .result = call->result};
  g_autoptr(Value) y = reference_product(&product, error);
  if (!y) return false;
  memcpy(out->floats + rows->begin * n, y->floats, y->n * sizeof *y->floats);
  return true;
}

/* A group's part of k of both operands, multiplied. */
static bool multiply_depths(const ReferenceCall *call, const Rows *part, bool turned, Value *out,
                            GError **error)
{
  const Value *a = call->inputs[0], *b = call->inputs[1];
  int64_t m = out->shape[1], n = out->shape[2], k = a->shape[1], depth = part->end - part->begin;
  g_autoptr(Value) left = value_new(a->type, 2, (int64_t[]){m, depth}, error),
                   right = left ? value_new(b->type, 2, (int64_t[]){depth, n}, error) : NULL;
  if (!right) return false;
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < depth; j++)
      left->floats[i * depth + j] = a->floats[i * k + part->begin + j];
  for (int64_t i = 0; i < depth; i++)
    for (int64_t j = 0; j < n; j++)
      right->floats[i * n + j] = b->floats[turned ? j * k + part->begin + i : (part->begin + i) * n + j];
  const Value *inputs[] = {left, right};
  const ReferenceCall product = {.op = "MatMul", .inputs = inputs, .n_inputs = 2, .result = call->result};
  g_autoptr(Value) y = reference_product(&product, error);
  if (!y) return false;
  memcpy(out->floats + part->group * m * n, y->floats, y->n * sizeof *y->floats);
  return true;
}

static Value *reference_depths(const ReferenceCall *call, GError **error)
{
  const Value *a = call->inputs[0], *b = call->inputs[1], *sizes = call->inputs[2];
  bool turned = reference_integer(call, "transB") != 0;
  if (a->rank != 2 || sizes->rank != 1 || a->shape[1] != b->shape[turned ? 1 : 0]) {
    reference_refuse(error, call, "the shapes do not fit");
    return NULL;
  }
  const int64_t shape[] = {(int64_t)sizes->n, a->shape[0], b->shape[turned ? 0 : 1]};
  g_autoptr(Value) out = value_new(call->result, 3, shape, error);
  g_autofree Rows *parts = g_new0(Rows, sizes->n + 1);
  if (!out) return NULL;
  rows_by_ends(sizes, a->shape[1], reference_integer(call, "align"), parts);
  for (size_t g = 0; g < sizes->n; g++)
    if (!multiply_depths(call, &parts[g], turned, out, error)) return NULL;
  return g_steal_pointer(&out);
}

Value *reference_grouped(const ReferenceCall *call, GError **error)
{
  const Value *a = call->inputs[0], *b = call->inputs[1], *sizes = call->inputs[2];
  const char *kind = reference_attribute(call, "groups")->text;
  if (!strcmp(kind, "ends") && b->rank == 2) return reference_depths(call, error);
  bool counts = !strcmp(kind, "counts"), turned = reference_integer(call, "transB") != 0;
  int64_t align = reference_integer(call, "align"), shape[TENSOR_MAX_RANK];
  if (a->rank != 2u + counts || b->rank != 3 || sizes->rank != 1 ||
      a->shape[a->rank - 1] != b->shape[turned ? 2 : 1]) {
    reference_refuse(error, call, "the shapes do not fit");
    return NULL;
  }
  memcpy(shape, a->shape, sizeof shape);
  shape[a->rank - 1] = b->shape[turned ? 1 : 2];
  g_autoptr(Value) out = value_new(call->result, a->rank, shape, error);
  g_autofree Rows *rows = g_new0(Rows, b->shape[0] + 1);
  if (!out) return NULL;
  for (size_t i = 0; !reference_integer(call, "clear") && i < out->n; i++)
    out->floats[i] = NAN;
  if (counts)
    rows_by_counts(sizes, a->shape[1], rows);
  else if (!strcmp(kind, "ends"))
    rows_by_ends(sizes, a->shape[0], align, rows);
  else if (!rows_by_index(call, sizes, b->shape[0], align, rows, error))
    return NULL;
  for (int64_t g = 0; g < b->shape[0]; g++)
    if (!multiply_rows(call, &rows[g], turned, out, error)) return NULL;
  return g_steal_pointer(&out);
}
