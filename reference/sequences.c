/* VarlenAttention: attention of sequences whose rows lie behind one another, sequence by sequence and head by head, from the
 * operators it is made of, so that errors are theirs. Rows of no sequence keep what was there, which is NaN here. */
#include "reference/parts.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum { Q, K, V, ENDS, KEY_ENDS, LENGTHS, TABLE, K_SCALE, V_SCALE, SLOPES, SINK, TREE };

static const Value *given(const ReferenceCall *call, unsigned input)
{
  return call->n_inputs > input ? call->inputs[input] : NULL;
}

typedef struct {
  Parts parts;
  Value *const *outputs;
  Errors *results;
  int64_t head, group; /* of queries; of keys */
  int64_t begin, rows; /* of the sequence's queries */
  int64_t sequence, first, keys;
} Attend;

/* ---- parts ---- */

enum { RANK = 4 }; /* of caches */

/* Where row i of keys or values, of the sequence and head, lies, as an index for each dimension. */
static void place_key(const Attend *at, const Value *x, int64_t i, int64_t *place)
{
  const Value *table = given(at->parts.call, TABLE);
  int64_t page = table ? table->integers[at->sequence * table->shape[1] + i / x->shape[1]] : at->sequence,
          row = table ? i % x->shape[1] : i;
  if (table && page < 0) page += x->shape[0];
  const int64_t cached[RANK] = {page, row, at->group, 0}, packed[] = {at->first + i, at->group, 0};
  memcpy(place, x->rank == RANK ? cached : packed, x->rank * sizeof *place);
}

/* REFERENCE_NOWHERE: in no page. */
static size_t key_row(const Attend *at, const Value *x, int64_t i)
{
  int64_t place[RANK];
  place_key(at, x, i, place);
  return reference_element(x, place);
}

/* Has each row of pages a scale of its own, which lies in pages like theirs? */
static bool is_scaled_by_pages(const ReferenceCall *call, const Value *scale, const Value *of)
{
  return given(call, TABLE) && scale->rank == of->rank && scale->shape[0] == of->shape[0] &&
         scale->shape[1] == of->shape[1];
}

/* Has each key of a cache a scale of its own? */
static bool is_scaled_by_keys(const Value *scale, const Value *of)
{
  return of->rank == RANK && scale->rank + 1 >= of->rank && scale->shape[scale->rank - 3] != 1;
}

/* What kernels hold keys or values in that their scales have multiplied: widened tiles are of the queries' type. A number, a head's scale, and
 * those of keys that lie in no pages multiply scores or the result, in f32. */
static NumberType held_scaled(const ReferenceCall *call, unsigned input)
{
  const Value *of = call->inputs[input], *scale = given(call, input == K ? K_SCALE : V_SCALE);
  bool tile = scale && (is_scaled_by_pages(call, scale, of) || (input == V && is_scaled_by_keys(scale, of)));
  return tile ? call->inputs[Q]->type : NUMBER_F32;
}

/* Keys or values by their scale, each of them by its own. */
static Part scaled(Attend *at, unsigned input, Part part, bool turned)
{
  const ReferenceCall *call = at->parts.call;
  const Value *x = call->inputs[input], *scale = given(call, input == K ? K_SCALE : V_SCALE);
  if (!scale || !at->parts.ok) return part;
  Part factors = {.value = value_new(NUMBER_F32, 2, (int64_t[]){turned ? 1 : at->keys, turned ? at->keys : 1},
                                     at->parts.error)};
  at->parts.ok = factors.value != NULL;
  for (int64_t i = 0; at->parts.ok && i < at->keys; i++) {
    int64_t place[RANK], of[RANK];
    place_key(at, x, i, place);
    for (unsigned d = 0; d < scale->rank; d++)
      of[d] = scale->shape[d] == 1 ? 0 : place[x->rank - scale->rank + d];
    size_t element = reference_element(scale, of);
    factors.value->floats[i] = element == REFERENCE_NOWHERE ? 0 : scale->floats[element];
  }
  return part_step(&at->parts, "Mul", part, factors, NULL, 0, held_scaled(call, input));
}

/* Rows of one of the operands, for a head: [rows, width], or [width, rows]. */
static Part take(Attend *at, unsigned input, bool turned)
{
  const Value *x = at->parts.call->inputs[input];
  int64_t rows = input == Q ? at->rows : at->keys, width = x->shape[x->rank - 1];
  Part part = {0};
  if (!at->parts.ok) return part;
  part.value = value_new(at->parts.call->inputs[Q]->type, 2,
                         (int64_t[]){turned ? width : rows, turned ? rows : width}, at->parts.error);
  const Errors *errors = at->parts.inputs && at->parts.inputs[input].each ? &at->parts.inputs[input] : NULL;
  at->parts.ok = part.value != NULL;
  if (at->parts.ok && errors) part.errors = (Errors){g_new0(double, part.value->n + 1), errors->shared, 0};
  for (int64_t i = 0; at->parts.ok && i < rows; i++) {
    size_t row =
        input == Q ? reference_element(x, (int64_t[]){at->begin + i, at->head, 0}) : key_row(at, x, i);
    for (int64_t j = 0; row != REFERENCE_NOWHERE && j < width; j++) {
      size_t to = (size_t)(turned ? j * rows + i : i * width + j);
      part.value->floats[to] = number_class(x->type) == NUMBER_FLOAT ? x->floats[row + (size_t)j]
                                                                     : (double)x->integers[row + (size_t)j];
      if (errors) part.errors.each[to] = errors->each[row + (size_t)j];
    }
  }
  return input == Q ? part : scaled(at, input, part, turned);
}

/* ---- attention ---- */

/* Behind how many keys the sequence's first row stands. */
static int64_t stands(const Attend *at)
{
  bool ending = !strcmp(reference_attribute(at->parts.call, "diagonal")->text, "end");
  return ending ? at->keys - at->rows : 0;
}

/* Kernels add (column of the tile) slope to an element's score and (first key of the tile - row) slope to the row's maximum, where one sum of
 * both would be small: both are rounded relative to a tile's extent times the slope, and the slope itself once for each. */
#define LEANT_KEYS 128

static void lean_coarsely(Part *leant, double slope, int64_t keys)
{
  for (size_t i = 0; leant->errors.each && i < leant->value->n; i++)
    leant->errors.each[i] =
        error_sum(leant->errors.each[i], 0x1p-24 * fabs(slope) * (double)MIN(keys, LEANT_KEYS));
}

/* Scores that lean by head. */
static Part leant(Attend *at, Part scores)
{
  const Value *slopes = given(at->parts.call, SLOPES);
  if (!slopes || !at->parts.ok) return scores;
  double slope = slopes->floats[slopes->n > 1 ? at->head : 0];
  Part bias = {.value = value_new(NUMBER_F32, 2, (int64_t[]){at->rows, at->keys}, at->parts.error)};
  at->parts.ok = bias.value != NULL;
  for (int64_t i = 0; at->parts.ok && i < at->rows; i++)
    for (int64_t j = 0; j < at->keys; j++)
      bias.value->floats[i * at->keys + j] = slope * (double)(j - i - stands(at));
  scores = part_of(&at->parts, "Add", scores, bias);
  if (at->parts.ok) lean_coarsely(&scores, slope, at->keys);
  return scores;
}

enum { WORD = 32 }; /* bits */

/* Does the tree let row i see key j? */
static bool is_named(const Attend *at, int64_t i, int64_t j)
{
  const Value *tree = given(at->parts.call, TREE);
  int64_t own = j - (at->keys - at->rows), word = own / WORD;
  if (!tree || own < 0) return true;
  return word < tree->shape[1] &&
         (uint32_t)tree->integers[(at->begin + i) * tree->shape[1] + word] >> own % WORD & 1;
}

/* Hides keys that a row does not see. */
static void mask(const Attend *at, Part *scores)
{
  PartWindow seen = part_window(at->parts.call);
  int64_t shift = stands(at);
  for (int64_t i = 0; at->parts.ok && i < at->rows; i++)
    for (int64_t j = 0; j < at->keys; j++) {
      int64_t distance = j - i - shift;
      if (distance >= seen.least && distance <= seen.most && is_named(at, i, j)) continue;
      scores->value->floats[i * at->keys + j] = -INFINITY;
      if (scores->errors.each) scores->errors.each[i * at->keys + j] = 0;
    }
}

static Part scores_of(Attend *at)
{
  Part queries = take(at, Q, false), keys = take(at, K, true);
  Part scores =
      part_scores(&at->parts, part_of(&at->parts, "MatMul", queries, keys), at->parts.call->inputs[Q], NULL);
  scores = leant(at, scores);
  mask(at, &scores);
  return scores;
}

static void give(const Attend *at, unsigned output, const Part *part)
{
  Value *y = at->outputs[output];
  int64_t heads = at->parts.call->inputs[Q]->shape[1], width = output ? 1 : y->shape[2];
  for (int64_t i = 0; i < at->rows; i++)
    for (int64_t j = 0; j < width; j++) {
      size_t to = (size_t)(((at->begin + i) * heads + at->head) * width + j), from = (size_t)(i * width + j);
      if (!at->parts.inputs) y->floats[to] = part->value->floats[from];
      if (at->parts.inputs) at->results[output].each[to] = part->errors.each ? part->errors.each[from] : 0;
    }
}

static const int64_t last_axis = -1;

/* What the sink leaves of each row's result, and of the sums with it. A sink of -infinity is none. */
static Part sunk(Attend *at, const Part *sums, Part *with)
{
  Parts *parts = &at->parts;
  const Value *sinks = given(parts->call, SINK);
  double sink = sinks->floats[sinks->n > 1 ? at->head : 0];
  Part above = part_of(parts, "Sub", part_copy(parts, sums), part_number(parts, MAX(sink, -FLT_MAX)));
  Part apart = part_of(parts, "Neg", part_of(parts, "Abs", part_copy(parts, &above), (Part){0}), (Part){0}),
       most = part_of(parts, "Max", part_copy(parts, sums), part_number(parts, sink));
  *with = part_of(parts, "Add", most, part_of(parts, "Softplus", apart, (Part){0}));
  return part_of(parts, "Sigmoid", above, (Part){0});
}

static void attend(Attend *at, unsigned n_outputs)
{
  static const ReferenceAttribute softmax[] = {{.name = "axis", .integer = -1},
                                               {.name = "masked_rows", .text = "zero"}};
  const ReferenceAttribute sum[] = {{.name = "axes", .integers = &last_axis, .n = 1},
                                    {.name = "keepdims", .integer = 1},
                                    {.name = "noop_with_empty_axes", .integer = 0}};
  bool sinks = given(at->parts.call, SINK), sums = n_outputs > 1 && at->outputs[1];
  Part scores = scores_of(at), total = {0}, share = {0};
  if (at->parts.ok && (sums || sinks))
    total = part_step(&at->parts, "ReduceLogSumExp", part_copy(&at->parts, &scores), (Part){0}, sum,
                      G_N_ELEMENTS(sum), NUMBER_F32);
  if (at->parts.ok && sinks) {
    Part with;
    share = sunk(at, &total, &with);
    part_clear(&total);
    total = with;
  }
  if (at->parts.ok && sums) give(at, 1, &total);
  part_clear(&total);
  /* kernels multiply weights in the operands' type */
  Part weights = part_step(&at->parts, "Softmax", scores, (Part){0}, softmax, G_N_ELEMENTS(softmax),
                           at->parts.call->inputs[Q]->type);
  Part result = part_of(&at->parts, "MatMul", weights, take(at, V, false));
  if (sinks) result = part_of(&at->parts, "Mul", result, share);
  if (at->parts.ok) give(at, 0, &result);
  part_clear(&result);
}

/* Of each sequence and head. */
static bool walk(Attend *at, unsigned n_outputs)
{
  const Value *q = at->parts.call->inputs[Q], *k = at->parts.call->inputs[K],
              *ends = at->parts.call->inputs[ENDS], *key_ends = given(at->parts.call, KEY_ENDS),
              *lengths = given(at->parts.call, LENGTHS), *table = given(at->parts.call, TABLE);
  int64_t heads = q->shape[1], own = k->shape[k->rank - 2], behind = 0;
  int64_t all = k->rank == 3 ? k->shape[0] : table ? table->shape[1] * k->shape[1] : k->shape[1];
  for (int64_t b = 0; at->parts.ok && b + 1 < (int64_t)ends->n; b++) {
    at->sequence = b;
    at->begin = behind;
    behind = MAX(behind, MIN(ends->integers[b + 1], q->shape[0]));
    at->rows = behind - at->begin;
    at->first = lengths ? 0 : key_ends ? CLAMP(key_ends->integers[b], 0, all) : at->begin;
    at->keys = lengths    ? CLAMP(lengths->integers[b], 0, all)
               : key_ends ? MAX(CLAMP(key_ends->integers[b + 1], 0, all) - at->first, 0)
                          : at->rows;
    for (at->head = 0; at->parts.ok && at->rows && at->head < heads; at->head++) {
      at->group = at->head / (heads / own);
      attend(at, n_outputs);
    }
  }
  return at->parts.ok;
}

bool reference_is_sequences(const char *op)
{
  return !strcmp(op, "VarlenAttention");
}

NumberType reference_sequences_round_to(const ReferenceCall *call, const Value *out)
{
  NumberType keys = held_scaled(call, K);
  return keys == NUMBER_F32 ? out->type : keys;
}

bool reference_sequences(const ReferenceCall *call, Value **outputs, unsigned n_outputs, GError **error)
{
  const Value *q = call->inputs[Q], *v = call->inputs[V];
  if (q->rank != 3 || v->rank < 3) return reference_refuse(error, call, "the shapes do not fit");
  const int64_t shape[] = {q->shape[0], q->shape[1], v->shape[v->rank - 1]};
  Attend at = {.parts = {.call = call, .error = error, .ok = true}, .outputs = outputs};
  for (unsigned i = 0; at.parts.ok && i < n_outputs; i++) {
    outputs[i] = value_new(i ? NUMBER_F32 : call->result, i ? 2 : 3, shape, error);
    at.parts.ok = outputs[i] != NULL;
    for (size_t j = 0; at.parts.ok && j < outputs[i]->n; j++)
      outputs[i]->floats[j] = NAN;
  }
  return at.parts.ok && walk(&at, n_outputs);
}

bool errors_of_sequences(const ReferenceCall *call, const Errors *inputs, Value *const *outputs,
                         unsigned n_outputs, const ErrorModel *model, Errors *results, GError **error)
{
  Attend at = {.parts = {call, inputs, model, error, true}, .outputs = outputs, .results = results};
  return walk(&at, n_outputs);
}
