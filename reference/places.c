/* TallyKeys and PlaceKeys: keys one after the other. */
#include "reference/private.h"
#include <string.h>

bool reference_is_places(const char *op)
{
  return !strcmp(op, "TallyKeys") || !strcmp(op, "PlaceKeys");
}

static bool is_key(int64_t key, int64_t keys)
{
  return key >= 0 && key < keys;
}

static Value *tally(const ReferenceCall *call, GError **error)
{
  const Value *x = call->inputs[0];
  int64_t keys = reference_integer(call, "experts"), part = reference_integer(call, "part");
  int64_t parts = MAX(1, ((int64_t)x->n + part - 1) / part);
  Value *result = value_new(NUMBER_S32, 2, (int64_t[]){parts, keys}, error);
  for (size_t i = 0; result && i < (size_t)(keys * parts); i++)
    result->integers[i] = 0;
  for (size_t i = 0; result && i < x->n; i++)
    if (is_key(x->integers[i], keys)) result->integers[(int64_t)i / part * keys + x->integers[i]]++;
  return result;
}

/* Where rows of each key begin and end. */
static void find_rows(const Value *x, int64_t keys, int64_t align, int64_t *begin, int64_t *end)
{
  for (size_t i = 0; i < x->n; i++)
    if (is_key(x->integers[i], keys)) end[x->integers[i]]++;
  for (int64_t key = 0, last = 0; key < keys; key++) {
    begin[key] = (last + align - 1) / align * align;
    last = end[key] += begin[key];
  }
}

static bool place(const ReferenceCall *call, Value **outputs, unsigned n_outputs, GError **error)
{
  const Value *x = call->inputs[0];
  int64_t keys = reference_integer(call, "experts"), align = reference_integer(call, "align"),
          n = (int64_t)x->n, rows = align == 1 ? n : (n + keys * (align - 1) + align - 1) / align * align;
  const int64_t each = x->shape[1], shapes[] = {keys, rows};
  g_autofree int64_t *begin = g_new0(int64_t, keys), *end = g_new0(int64_t, keys);
  find_rows(x, keys, align, begin, end);
  for (unsigned i = 0; i < n_outputs; i++) {
    outputs[i] =
        i ? value_new(NUMBER_S32, 1, &shapes[i - 1], error) : value_new(NUMBER_S32, 2, x->shape, error);
    if (!outputs[i]) return false;
  }
  for (int64_t key = 0; n_outputs > 1 && key < keys; key++)
    outputs[1]->integers[key] = end[key];
  for (int64_t row = 0; n_outputs > 2 && row < rows; row++)
    outputs[2]->integers[row] = -1;
  for (int64_t i = 0; i < n; i++) {
    int64_t key = x->integers[i], row = is_key(key, keys) ? begin[key]++ : -1;
    outputs[0]->integers[i] = row;
    if (n_outputs > 2 && row >= 0) outputs[2]->integers[row] = i / each;
  }
  return true;
}

bool reference_places(const ReferenceCall *call, Value **outputs, unsigned n_outputs, GError **error)
{
  if (!strcmp(call->op, "PlaceKeys")) return place(call, outputs, n_outputs, error);
  outputs[0] = tally(call, error);
  return outputs[0] != NULL;
}
