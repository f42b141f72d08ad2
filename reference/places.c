/* TallyKeys and PlaceKeys: keys one after the other. The same of floats, whose keys are bits of their magnitudes. */
#include "reference/private.h"
#include <math.h>
#include <string.h>

bool reference_is_places(const char *op)
{
  return !strcmp(op, "TallyKeys") || !strcmp(op, "PlaceKeys") || !strcmp(op, "TallyMagnitudes") ||
         !strcmp(op, "PlaceMagnitudes");
}

/* The key of element i. */
static int64_t key_of(const ReferenceCall *call, size_t i)
{
  const Value *x = call->inputs[0];
  if (number_class(x->type) != NUMBER_FLOAT) return x->integers[i];
  float size = fabsf(isnan(x->floats[i]) ? INFINITY : (float)x->floats[i]);
  int32_t bits;
  memcpy(&bits, &size, sizeof bits);
  int64_t base = call->n_inputs > 1 && call->inputs[1] ? call->inputs[1]->integers[0] : 0;
  return (bits >> reference_integer(call, "shift")) - MAX(base, 0);
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
  bool above = !strcmp(call->op, "TallyMagnitudes") && reference_integer(call, "above");
  for (size_t i = 0; result && i < x->n; i++) {
    int64_t key = key_of(call, i);
    if (above) key = MIN(key, keys - 1);
    if (is_key(key, keys)) result->integers[(int64_t)i / part * keys + key]++;
  }
  return result;
}

static bool take(const ReferenceCall *call, Value **outputs, unsigned n_outputs, GError **error)
{
  const Value *x = call->inputs[0];
  int64_t count = reference_integer(call, "count"), room = call->inputs[3]->integers[0], place = 0;
  for (unsigned i = 0; i < n_outputs; i++) {
    outputs[i] = i ? value_new(NUMBER_S32, 1, &count, error) : value_new(NUMBER_S32, 2, x->shape, error);
    if (!outputs[i]) return false;
  }
  for (int64_t i = 0; n_outputs > 1 && i < count; i++)
    outputs[1]->integers[i] = 0;
  for (size_t i = 0; i < x->n; i++) {
    int64_t key = key_of(call, i);
    bool taken = key > 0 || (!key && room-- > 0);
    if (taken && n_outputs > 1 && place < count) outputs[1]->integers[place] = (int64_t)i;
    outputs[0]->integers[i] = taken ? place++ : -1;
  }
  return true;
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
  if (!strcmp(call->op, "PlaceMagnitudes")) return take(call, outputs, n_outputs, error);
  outputs[0] = tally(call, error);
  return outputs[0] != NULL;
}
