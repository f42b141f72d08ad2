/* Errors of elementwise operators, views, quantisation, reductions and products. */
#include "reference/errors.h"
#include "reference/private.h"
#include <math.h>
#include <string.h>

/* Units of the last place that computing a result may cost before it is stored (docs/numerics.md has
 * functions of 7; a result near zero between larger ones may be off by more and has no weight). */
#define COMPUTING 8

/* Tensor cores cut sums off: 1.2e-9 and 1.6e-9 of each term on random data, with 25 and 24 bits. */
#define CUT_OFF 2.5e-9
/* Both operands of a product rounded to 11 bits, each by up to 0.69 units of the last place. */
#define TF32_OPERANDS (1.4 * 0x1p-11)

double error_sum(double a, double b)
{
  double sum = hypot(a, b);
  return isnan(sum) ? INFINITY : sum;
}

double error_growth(const Errors *errors, double n)
{
  return errors->each ? fmax(1, fmin(errors->shared, n)) : 1;
}

double error_of_storing(NumberType type, double x)
{
  static const struct {
    int bits, least; /* of the fraction, with the leading one; exponent of the smallest step */
  } formats[] = {
      [NUMBER_F64] = {53, -1074}, [NUMBER_F32] = {24, -149}, [NUMBER_TF32] = {11, -136},
      [NUMBER_F16] = {11, -24},   [NUMBER_BF16] = {8, -133}, [NUMBER_E4M3] = {4, -9},
      [NUMBER_E5M2] = {3, -16},
  };
  if (number_class(type) != NUMBER_FLOAT || !isfinite(x)) return 0;
  int exponent;
  frexp(x, &exponent);
  int step = x == 0 ? formats[type].least : MAX(exponent - formats[type].bits, formats[type].least);
  return ldexp(0.5, step);
}

/* Unit of the arithmetic that kernels of a type compute in. */
static double unit_of(NumberType type)
{
  return type == NUMBER_F64 ? 0x1p-53 : 0x1p-24;
}

/* ---- one input moved ---- */

static double difference(const Value *a, const Value *b, size_t i)
{
  if (!a->floats) return fabs((double)a->integers[i] - (double)b->integers[i]);
  double x = a->floats[i], y = b->floats[i];
  if (x == y || (isnan(x) && isnan(y))) return 0;
  double d = fabs(x - y);
  return isnan(d) ? INFINITY : d;
}

static Value *moved_value(const Value *value, const double *by, int sign, GError **error)
{
  Value *moved = value_new(value->type, value->rank, value->shape, error);
  for (size_t i = 0; moved && i < value->n; i++) {
    double step = isinf(by[i]) ? 0 : by[i];
    if (moved->floats)
      moved->floats[i] = value->floats[i] + sign * step;
    else if (value->type == NUMBER_BOOL)
      moved->integers[i] = step >= 0.5 ? !value->integers[i] : value->integers[i];
    else
      moved->integers[i] = value->integers[i] + sign * (int64_t)fmin(ceil(step), 0x1p62);
  }
  return moved;
}

/* Nothing can be said of what comes of an element of which nothing can be said. */
static bool any_infinite(const double *errors, size_t n)
{
  for (size_t i = 0; i < n; i++)
    if (isinf(errors[i])) return true;
  return false;
}

/* Other values for elements of which nothing can be said: NaN; of integers that of the unknown element before it, or with
 * `flipped` 0 (1 where it is 0): both within what an index may be. */
static Value *unknown_value(const Value *value, const double *by, bool flipped, GError **error)
{
  Value *moved = moved_value(value, by, 0, error);
  int64_t before = 0;
  for (size_t i = 0; moved && i < value->n; i++) {
    if (!isinf(by[i])) continue;
    if (moved->floats)
      moved->floats[i] = NAN;
    else
      moved->integers[i] = flipped ? !value->integers[i] : before;
    before = moved->floats ? 0 : value->integers[i];
  }
  return moved;
}

static bool move_once(const ReferenceCall *call, unsigned input, const Value *moved, bool unknown,
                      Value *const *outputs, unsigned n_outputs, double **steps, GError **error)
{
  g_autofree const Value **inputs = g_memdup2(call->inputs, call->n_inputs * sizeof *inputs);
  g_autofree Value **results = g_new0(Value *, n_outputs + 1);
  for (unsigned i = 0; i < call->n_inputs; i++) /* x - x is 0 whatever x is */
    if (call->inputs[i] == call->inputs[input]) inputs[i] = moved;
  ReferenceCall other = *call;
  other.inputs = inputs;
  if (!reference_run(&other, results, n_outputs, error)) return false;
  for (unsigned k = 0; k < n_outputs; k++) {
    for (size_t i = 0; outputs[k] && i < outputs[k]->n; i++) {
      double step = difference(results[k], outputs[k], i);
      steps[k][i] = fmax(steps[k][i], unknown && step > 0 ? INFINITY : step);
    }
    value_free(results[k]);
  }
  return true;
}

static void free_lists(double **lists, unsigned n)
{
  for (unsigned k = 0; k < n; k++)
    g_free(lists[k]);
  g_free(lists);
}

bool errors_by_moving(const ReferenceCall *call, unsigned input, const double *input_error,
                      Value *const *outputs, unsigned n_outputs, Errors *results, GError **error)
{
  const Value *value = call->inputs[input];
  double **steps = g_new0(double *, n_outputs + 1);
  bool ok = true, unknown = any_infinite(input_error, value->n);
  for (unsigned k = 0; k < n_outputs; k++)
    steps[k] = outputs[k] ? g_new0(double, outputs[k]->n + 1) : NULL;
  for (int sign = -1; ok && sign <= 1; sign += 2) {
    g_autoptr(Value) moved = moved_value(value, input_error, sign, error);
    ok = moved && move_once(call, input, moved, false, outputs, n_outputs, steps, error);
  }
  /* Whatever changes with an element of unknown value is unknown too. */
  for (int flipped = 0; ok && unknown && flipped <= !value->floats; flipped++) {
    g_autoptr(Value) moved = unknown_value(value, input_error, flipped, error);
    ok = moved && move_once(call, input, moved, true, outputs, n_outputs, steps, error);
  }
  for (unsigned k = 0; ok && k < n_outputs; k++)
    for (size_t i = 0; outputs[k] && i < outputs[k]->n; i++)
      results[k].each[i] = error_sum(results[k].each[i], steps[k][i]);
  free_lists(steps, n_outputs);
  return ok;
}

/* A quotient or a rounding may fall on the other side of a tie in f32 than in double. */
static double *with_ties(const Value *x, const double *errors)
{
  double *list = g_new(double, x->n + 1);
  for (size_t i = 0; i < x->n; i++)
    list[i] = error_sum(errors ? errors[i] : 0, 4 * unit_of(x->type) * (x->floats ? fabs(x->floats[i]) : 0));
  return list;
}

/* Elements come out as they go in. */
static bool moves_elements(const char *op)
{
  return reference_is_view(op) || reference_is_reshape(op) || reference_is_index(op);
}

/* The reference rounds a cast as kernels do. */
bool reference_rounds(const ReferenceCall *call, const Value *out)
{
  return out->floats && !moves_elements(call->op) && strcmp(call->op, "Cast") != 0 &&
         strcmp(call->op, "BitCast") != 0;
}

NumberType reference_rounds_to(const ReferenceCall *call, const Value *out)
{
  const ReferenceAttribute *weights = reference_attribute(call, "weights");
  if (reference_is_sequences(call->op)) return reference_sequences_round_to(call, out);
  bool eight = !strcmp(call->op, "Softmax") && weights && !strcmp(weights->text, "e4m3");
  return eight ? NUMBER_E4M3 : out->type;
}

static void add_own(const ReferenceCall *call, const Value *out, double *errors)
{
  if (!reference_rounds(call, out)) return;
  for (size_t i = 0; i < out->n; i++) {
    double own = COMPUTING * unit_of(out->type) * fabs(out->floats[i]);
    if (isfinite(own)) errors[i] = error_sum(errors[i], own);
  }
}

static bool may_reach_pole(const char *op, unsigned input, double x, double error)
{
  if ((!strcmp(op, "Div") && input == 1) || !strcmp(op, "Reciprocal")) return fabs(x) <= error;
  return !strcmp(op, "Tan") && floor((x - error) / M_PI + 0.5) != floor((x + error) / M_PI + 0.5);
}

/* Nothing can be said of what comes out beside a pole, within two errors of it: moving may step over it. */
static void mark_poles(const ReferenceCall *call, unsigned input, double *errors)
{
  const Value *x = call->inputs[input];
  for (size_t i = 0; x->floats && i < x->n; i++)
    if (errors[i] > 0 && may_reach_pole(call->op, input, x->floats[i], 2 * errors[i])) errors[i] = INFINITY;
}

/* Beyond a part of their period moving says little of sine and cosine: anything in [-1, 1] may come out. */
static void widen_periodic(const ReferenceCall *call, const double *input_error, const Value *out,
                           double *errors)
{
  bool periodic = !strcmp(call->op, "Sin") || !strcmp(call->op, "Cos");
  for (size_t i = 0; periodic && input_error && i < out->n; i++)
    if (input_error[i] >= 1) errors[i] = 1 + fabs(out->floats[i]);
}

static bool is_repeated(const ReferenceCall *call, unsigned input)
{
  for (unsigned i = 0; i < input; i++)
    if (call->inputs[i] == call->inputs[input]) return true;
  return false;
}

static bool of_moved_inputs(const ReferenceCall *call, const Errors *inputs, Value *const *outputs,
                            unsigned n_outputs, Errors *results, GError **error)
{
  for (unsigned i = 0; i < call->n_inputs; i++) {
    if (!call->inputs[i] || is_repeated(call, i)) continue;
    bool ties = i == 0 && !strcmp(call->op, "QuantizeLinear");
    size_t bytes = call->inputs[i]->n * sizeof(double);
    g_autofree double *by =
        ties ? with_ties(call->inputs[0], inputs[0].each) : g_memdup2(inputs[i].each, bytes);
    if (by) mark_poles(call, i, by);
    if (by && !errors_by_moving(call, i, by, outputs, n_outputs, results, error)) return false;
  }
  widen_periodic(call, inputs[0].each, outputs[0], results[0].each);
  for (unsigned k = 0; k < n_outputs; k++)
    if (outputs[k]) add_own(call, outputs[k], results[k].each);
  return true;
}

/* ---- sums ---- */

static Value *floats_like(const Value *value, GError **error)
{
  return value_new(NUMBER_F64, value->rank, value->shape, error);
}

static double magnitude(const Value *value, size_t i)
{
  return fabs(value->floats ? value->floats[i] : (double)value->integers[i]);
}

/* The operator itself, of other values. */
static Value *run_with(const ReferenceCall *call, const Value *a, const Value *b, GError **error)
{
  g_autofree const Value **inputs = g_memdup2(call->inputs, call->n_inputs * sizeof *inputs);
  inputs[0] = a;
  if (b) inputs[1] = b;
  ReferenceCall other = *call;
  other.inputs = inputs;
  other.result = NUMBER_F64;
  Value *result = NULL;
  return reference_run(&other, &result, 1, error) ? result : NULL;
}

/* Terms of a sum at most. */
static double terms_of_sum(const ReferenceCall *call, const Value *y)
{
  const Value *x = call->inputs[0];
  if (strcmp(call->op, "CumSum")) return y->n ? (double)x->n / (double)y->n : 1;
  int64_t axis = call->inputs[1]->integers[0];
  return (double)x->shape[axis < 0 ? axis + x->rank : axis];
}

#define SAMPLES    256 /* elements looked at for a value that many have */
#define OFTEN      16  /* of them that have it: a sixteenth of all */
#define MOST_OFTEN (SAMPLES / OFTEN)

/* Values that many elements have, such as where Max cuts them off: they are rounded alike. */
static unsigned frequent_values(const double *x, size_t n_values, double *frequent)
{
  double sample[SAMPLES];
  unsigned n = 0, found = 0;
  for (unsigned i = 0; i < SAMPLES && n_values >= SAMPLES; i++) {
    double value = x[(size_t)((double)n_values * i / SAMPLES)];
    if (isfinite(value)) sample[n++] = value;
  }
  for (unsigned i = 0; i < n; i++) {
    unsigned before = 0, here = 0;
    for (unsigned j = 0; j < n; j++)
      *(j < i ? &before : &here) += sample[j] == sample[i];
    if (!before && here >= OFTEN) frequent[found++] = sample[i];
  }
  return found;
}

typedef struct {
  const ReferenceCall *call;
  Value *squares, *common;
} Terms;

/* What elements of one key add to the square of a sum's error: all are off by the same (`by`, of those of another key 0), so
 * their errors add up. It leaves `squares`, which are of what is off each for itself. */
static bool add_alike(const Terms *terms, const double *keys, const double *by, GError **error)
{
  const Value *x = terms->call->inputs[0];
  double frequent[MOST_OFTEN];
  unsigned n = frequent_values(keys, x->n, frequent);
  for (unsigned k = 0; k < n; k++) {
    g_autoptr(Value) alike = floats_like(x, error);
    for (size_t i = 0; alike && i < x->n; i++)
      if (keys[i] == frequent[k]) {
        alike->floats[i] = by[i];
        terms->squares->floats[i] = fmax(0, terms->squares->floats[i] - by[i] * by[i]);
      }
    g_autoptr(Value) sum = alike ? run_with(terms->call, alike, NULL, error) : NULL;
    if (!sum) return false;
    for (size_t i = 0; i < terms->common->n; i++)
      terms->common->floats[i] += sum->floats[i] * sum->floats[i];
  }
  return true;
}

/* Elements are off alike that have the same value, and those that their type's rounding moves as far: a coarse grid
 * moved by a number has few such distances, none of which the others need make up for. */
static bool add_common_terms(const Terms *terms, const Errors *input, GError **error)
{
  const Value *x = terms->call->inputs[0];
  if (!input->each || !x->floats) return true;
  if (!add_alike(terms, x->floats, input->each, error)) return false;
  g_autofree double *moved = g_new(double, x->n + 1), *by = g_new(double, x->n + 1);
  uint8_t memory[8];
  for (size_t i = 0; i < x->n; i++) {
    number_from_double(x->type, x->floats[i], false, memory);
    moved[i] = number_to_double(x->type, memory) - x->floats[i];
    by[i] = fmin(fabs(moved[i]), sqrt(terms->squares->floats[i]));
  }
  return add_alike(terms, moved, by, error);
}

/* Whole numbers, whose sums are exact as long as the type holds them. */
static bool are_whole(const Value *x)
{
  for (size_t i = 0; x->floats && i < x->n; i++)
    if (!(floor(x->floats[i]) == x->floats[i])) return false;
  return true;
}

/* ReduceSum, ReduceMean and CumSum: errors of the terms, and of sums in an order that nobody knows: a unit of all
 * that is added. */
static bool of_sum(const ReferenceCall *call, const Errors *inputs, Value *const *outputs, Errors *results,
                   GError **error)
{
  const Value *x = call->inputs[0], *y = outputs[0];
  g_autoptr(Value) sizes = floats_like(x, error), squares = sizes ? floats_like(x, error) : NULL,
                   common = squares ? floats_like(y, error) : NULL;
  if (!common) return false;
  for (size_t i = 0; i < x->n; i++) {
    sizes->floats[i] = magnitude(x, i);
    squares->floats[i] = inputs[0].each ? inputs[0].each[i] * inputs[0].each[i] : 0;
  }
  const Terms terms = {call, squares, common};
  if (!add_common_terms(&terms, &inputs[0], error)) return false;
  g_autoptr(Value) all = run_with(call, sizes, NULL, error),
                   sum = all ? run_with(call, squares, NULL, error) : NULL;
  if (!sum) return false;
  double n = terms_of_sum(call, y), grown = error_growth(&inputs[0], n);
  /* a mean of squares becomes the square of a mean */
  double scale = strcmp(call->op, "ReduceMean") ? grown : grown / fmax(n, 1);
  bool whole = strcmp(call->op, "ReduceMean") && are_whole(x);
  for (size_t i = 0; i < y->n; i++) {
    double adding = y->floats ? 2 * unit_of(y->type) * all->floats[i] : 0;
    if (whole && adding < 1) adding = 0;
    results[0].each[i] =
        error_sum(sqrt(sum->floats[i] * scale + common->floats[i]), isfinite(adding) ? adding : 0);
  }
  return true;
}

/* ---- products ---- */

/* Terms of each of a product's sums. */
static double terms_of(const ReferenceCall *call, const Value *out)
{
  const Value *a = call->inputs[0];
  if (strcmp(call->op, "Gemm")) return (double)a->shape[a->rank - 1];
  return out->shape[0] ? (double)a->n / (double)out->shape[0] : 1;
}

static double largest(const Value *value)
{
  double most = 0;
  for (size_t i = 0; value && i < value->n; i++)
    most = fmax(most, magnitude(value, i));
  return most;
}

/* Squares of an operand's elements (of what they are at most, where a zero point is taken off), or of its
 * errors; infinities and NaN have no weight: what they reach is not finite in the reference either. */
static Value *squares_of(const Value *value, const double *errors, double zero, GError **error)
{
  Value *squares = floats_like(value, error);
  for (size_t i = 0; squares && i < value->n; i++) {
    double x = errors ? errors[i] : magnitude(value, i) + zero;
    squares->floats[i] = isnan(x) || (!errors && isinf(x)) ? 0 : x * x;
  }
  return squares;
}

static Value *product_of_squares(const ReferenceCall *call, const Value *a, const Value *b, GError **error)
{
  const ReferenceAttribute *given = reference_attribute(call, "alpha");
  double alpha = given ? given->number : 1;
  g_autofree ReferenceAttribute *attributes =
      g_memdup2(call->attributes, call->n_attributes * sizeof *attributes);
  for (unsigned i = 0; i < call->n_attributes; i++)
    if (!strcmp(attributes[i].name, "alpha")) attributes[i].number = alpha * alpha;
  ReferenceCall other = *call;
  bool grouped = !strcmp(call->op, "GroupedMatMul");
  other.op = grouped ? call->op : strcmp(call->op, "Gemm") ? "MatMul" : "Gemm";
  other.attributes = attributes;
  other.n_inputs = grouped ? 3 : 2;
  return run_with(&other, a, b, error);
}

static bool add_term(const ReferenceCall *call, const Value *a, const Value *b, double factor,
                     const Value *out, double *errors, GError **error)
{
  g_autoptr(Value) term = a && b ? product_of_squares(call, a, b, error) : NULL;
  for (size_t i = 0; term && i < out->n; i++)
    errors[i] = error_sum(errors[i], factor * sqrt(term->floats[i]));
  return term != NULL;
}

/* Of a sum, in units of the root of the sum of the squares of its terms: random roundings of sums that grow
 * with the root of their number, or one cut off in every step. */
static double accumulation(const ErrorModel *model, NumberType type, double terms)
{
  if (type == NUMBER_F64) return 1e-13;
  double operands = type == NUMBER_TF32 ? TF32_OPERANDS : model->product;
  return fmax(operands, fmax(0x1p-24 * (1 + sqrt(terms)), CUT_OFF * terms));
}

/* Signs that have nothing to do with the other operand's make sums that reach twice the root of the sum of the
 * squares now and then, which is no sign of errors in common; those that are exceed it by far. */
#define COMMON_PART 0.5

/* What an operand's errors make of the product if they have one sign, or that of the elements: as where
 * several elements have one error in common. */
static bool add_common(const ReferenceCall *call, unsigned operand, const Errors *errors, bool by_sign,
                       double *common, GError **error)
{
  const Value *x = call->inputs[operand], *other = call->inputs[1 - operand];
  g_autoptr(Value) moved = floats_like(x, error), factor = moved ? floats_like(other, error) : NULL;
  if (!factor) return false;
  for (size_t i = 0; i < x->n; i++) {
    double e = isfinite(errors->each[i]) ? errors->each[i] : 0;
    moved->floats[i] = by_sign && x->floats[i] < 0 ? -e : e;
  }
  for (size_t i = 0; i < other->n; i++)
    factor->floats[i] = isfinite(other->floats[i]) ? other->floats[i] : 0;
  ReferenceCall two = *call;
  two.n_inputs = strcmp(call->op, "GroupedMatMul") ? 2 : 3;
  g_autoptr(Value) product = run_with(&two, operand ? factor : moved, operand ? moved : factor, error);
  for (size_t i = 0; product && i < product->n; i++)
    common[i] = fmax(common[i], COMMON_PART * fabs(product->floats[i]));
  return product != NULL;
}

/* Errors of an operand: as if independent, or as if all had them in common, whichever is more. Those along a
 * row of a softmax have nothing in common, as they sum to nothing. */
static bool add_operand(const ReferenceCall *call, unsigned operand, const Errors *errors,
                        const Value *other2, const Value *out, double *each, GError **error)
{
  bool first = operand == 0;
  double most = first && !strcmp(call->op, "MatMul") ? errors->total * largest(call->inputs[1]) : 0;
  g_autofree double *term = g_new0(double, out->n + 1);
  g_autoptr(Value) moved = squares_of(call->inputs[operand], errors->each, 0, error);
  if (!moved || !add_term(call, first ? moved : other2, first ? other2 : moved, 1, out, term, error))
    return false;
  for (unsigned sign = 0; errors->shared > 1 && errors->total == 0 && sign < 2; sign++)
    if (!add_common(call, operand, errors, sign, term, error)) return false;
  for (size_t i = 0; i < out->n; i++)
    each[i] = error_sum(each[i], most > 0 ? fmin(term[i], most) : term[i]);
  return true;
}

static bool of_product(const ReferenceCall *call, const Errors *inputs, Value *const *outputs,
                       const ErrorModel *model, Errors *results, GError **error)
{
  const Value *a = call->inputs[0], *b = call->inputs[1], *out = outputs[0];
  bool zeros = !strcmp(call->op, "MatMulInteger");
  double a_zero = zeros && call->n_inputs > 2 ? largest(call->inputs[2]) : 0;
  double b_zero = zeros && call->n_inputs > 3 ? largest(call->inputs[3]) : 0;
  double accumulator = out->floats ? accumulation(model, a->type, terms_of(call, out)) : 0;
  g_autoptr(Value) a2 = squares_of(a, NULL, a_zero, error),
                   b2 = a2 ? squares_of(b, NULL, b_zero, error) : NULL;
  if (!b2 || (accumulator > 0 && !add_term(call, a2, b2, accumulator, out, results[0].each, error)))
    return false;
  for (unsigned i = 0; i < 2; i++)
    if (inputs[i].each && !add_operand(call, i, &inputs[i], i ? a2 : b2, out, results[0].each, error))
      return false;
  for (unsigned i = 2; i < call->n_inputs; i++)
    if (call->inputs[i] && inputs[i].each &&
        !errors_by_moving(call, i, inputs[i].each, outputs, 1, results, error))
      return false;
  return true;
}

/* ---- the door ---- */

static bool compute(const ReferenceCall *call, const Errors *inputs, Value *const *outputs,
                    unsigned n_outputs, const ErrorModel *model, Errors *results, GError **error)
{
  bool sum = !strcmp(call->op, "ReduceSum") || !strcmp(call->op, "ReduceMean") || !strcmp(call->op, "CumSum");
  bool extreme = !strcmp(call->op, "ReduceMax") || !strcmp(call->op, "ReduceMin");
  bool row = !strcmp(call->op, "Softmax") || !strcmp(call->op, "LogSoftmax") ||
             g_str_has_suffix(call->op, "Normalization");
  if (reference_is_sequences(call->op))
    return errors_of_sequences(call, inputs, outputs, n_outputs, model, results, error);
  if (reference_is_gradient(call->op))
    return errors_of_gradient(call, inputs, outputs, n_outputs, model, results, error);
  if (reference_is_product(call->op)) return of_product(call, inputs, outputs, model, results, error);
  if (row) return errors_of_rows(call, inputs, outputs, n_outputs, results, error);
  if (reference_is_row(call->op) && !sum && !extreme)
    return errors_of_reductions(call, &inputs[0], outputs, results, error);
  if (sum) return of_sum(call, inputs, outputs, results, error);
  return of_moved_inputs(call, inputs, outputs, n_outputs, results, error);
}

/* Elements of an output that an error may reach: each of an input reaches as many as there are outputs for
 * it, of a product's operand one for each column, or row. */
static double shared_by(const ReferenceCall *call, const Errors *inputs, const Value *out)
{
  double most = 1, n = (double)out->n;
  for (unsigned i = 0; i < call->n_inputs; i++) {
    const Value *input = call->inputs[i];
    if (!input || !inputs[i].each || !input->n) continue;
    bool operand = reference_is_product(call->op) && i < 2;
    double reached = (operand ? terms_of(call, out) : 1) * n / (double)input->n;
    most = fmax(most, inputs[i].shared * fmax(reached, 1));
  }
  return fmin(most, fmax(n, 1));
}

/* A number of the type comes out of rounding as it went in, with whatever error is less than what it takes to
 * reach its neighbour. */
static void store(const Value *out, double *each)
{
  uint8_t memory[8];
  for (size_t i = 0; i < out->n; i++) {
    double x = out->floats[i], half = error_of_storing(out->type, x);
    number_from_double(out->type, x, false, memory);
    if (each[i] >= half || number_to_double(out->type, memory) != x) each[i] = error_sum(each[i], half);
  }
}

static bool is_exact(const double *each, size_t n)
{
  for (size_t i = 0; i < n; i++)
    if (each[i] != 0) return false;
  return true;
}

bool reference_errors(const ReferenceCall *call, const Errors *inputs, Value *const *outputs,
                      unsigned n_outputs, const ErrorModel *model, Errors *results, GError **error)
{
  for (unsigned k = 0; k < n_outputs; k++)
    results[k] = (Errors){.each = outputs[k] ? g_new0(double, outputs[k]->n + 1) : NULL,
                          .shared = outputs[k] ? shared_by(call, inputs, outputs[k]) : 1};
  bool ok = compute(call, inputs, outputs, n_outputs, model, results, error);
  for (unsigned k = 0; k < n_outputs; k++) {
    if (ok && outputs[k] && reference_rounds(call, outputs[k])) store(outputs[k], results[k].each);
    if (!ok || !outputs[k] || is_exact(results[k].each, outputs[k]->n))
      g_clear_pointer(&results[k].each, g_free);
  }
  return ok;
}
