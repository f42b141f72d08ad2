/* Errors that the reference carries along: as large as what roundings do, and not much larger. */
#include "reference/errors.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define LIMIT_F16  1e-3
#define LIMIT_BF16 4e-3
#define LIMIT_F32  5e-6
#define WIDEST     0.06

static Value *make_value(NumberType type, unsigned rank, const int64_t *shape, const double *data)
{
  GError *error = NULL;
  Value *value = value_new(type, rank, shape, &error);
  assert_non_null(value);
  if (data) memcpy(value->floats, data, value->n * sizeof *data);
  return value;
}

static Value *random_value(GRand *random, NumberType type, unsigned rank, const int64_t *shape)
{
  Value *value = make_value(type, rank, shape, NULL);
  for (size_t i = 0; i < value->n; i++)
    value->floats[i] = g_rand_double_range(random, -2, 2);
  return value;
}

static double rounded(NumberType type, double x)
{
  uint8_t memory[8];
  number_from_double(type, x, false, memory);
  return number_to_double(type, memory);
}

static Tensor *tensor_of(const Value *value)
{
  GError *error = NULL;
  Tensor *tensor = value_to_tensor(value, "y", &error);
  assert_non_null(tensor);
  return tensor;
}

static void test_storing(void **state)
{
  assert_true(error_of_storing(NUMBER_F32, 1) == 0x1p-24);
  assert_true(error_of_storing(NUMBER_F32, -1.99) == 0x1p-24);
  assert_true(error_of_storing(NUMBER_BF16, 3) == 0x1p-7);
  assert_true(error_of_storing(NUMBER_F16, 1) == 0x1p-11);
  assert_true(error_of_storing(NUMBER_F16, 1e-6) == 0x1p-25); /* denormal */
  assert_true(error_of_storing(NUMBER_F16, 0) == 0x1p-25);
  assert_true(error_of_storing(NUMBER_E4M3, 1) == 0x1p-4);
  assert_true(error_of_storing(NUMBER_E5M2, 1) == 0x1p-3);
  assert_true(error_of_storing(NUMBER_S32, 7) == 0);
}

/* One operator whose first inputs were stored as bf16 by kernels before it. */
typedef struct Row {
  const char *op;
  unsigned rounded; /* inputs that were stored; bit i: input i */
  unsigned n_inputs;
  int64_t shapes[3][2];
  ReferenceAttribute attributes[4];
} Row;

static const int64_t first_axis[] = {0};

static const Row rows[] = {
    {"Add", 3, 2, {{8, 33}, {8, 33}}, {{NULL}}},
    {"Mul", 1, 2, {{8, 33}, {8, 33}}, {{NULL}}},
    {"Tanh", 1, 1, {{8, 33}}, {{NULL}}},
    {"Exp", 1, 1, {{8, 33}}, {{NULL}}},
    {"Max", 3, 2, {{8, 33}, {8, 1}}, {{NULL}}},
    {"Transpose", 1, 1, {{8, 33}}, {{.name = "perm"}}},
    {"MatMul", 1, 2, {{16, 200}, {200, 8}}, {{NULL}}},
    {"MatMul", 3, 2, {{16, 200}, {200, 8}}, {{NULL}}},
    {"Gemm",
     7,
     3,
     {{16, 40}, {40, 8}, {1, 8}},
     {{.name = "alpha", .number = -2},
      {.name = "beta", .number = 0.5},
      {.name = "transA"},
      {.name = "transB"}}},
    {"ReduceSum", 1, 1, {{8, 300}}, {{.name = "axes", .integers = first_axis, .n = 1}, {.name = "keepdims"}}},
    {"ReduceMean",
     1,
     1,
     {{300, 8}},
     {{.name = "axes", .integers = first_axis, .n = 1}, {.name = "keepdims"}}},
    {"ReduceMax", 1, 1, {{300, 8}}, {{.name = "axes", .integers = first_axis, .n = 1}, {.name = "keepdims"}}},
    {"Softmax", 1, 1, {{16, 50}}, {{.name = "axis", .integer = -1}}},
    {"LogSoftmax", 1, 1, {{16, 50}}, {{.name = "axis", .integer = -1}}},
    {"RMSNormalization",
     3,
     2,
     {{16, 50}, {1, 50}},
     {{.name = "axis", .integer = -1}, {.name = "epsilon", .number = 0.01}}},
    {"LayerNormalization",
     7,
     3,
     {{16, 50}, {1, 50}, {1, 50}},
     {{.name = "axis", .integer = -1}, {.name = "epsilon", .number = 0.01}}},
};

static Value *run(const ReferenceCall *call, const Value *const *inputs)
{
  ReferenceCall other = *call;
  other.inputs = inputs;
  Value *out = NULL;
  GError *error = NULL;
  assert_true(reference_run(&other, &out, 1, &error));
  return out;
}

/* No element is further off than the factor that comparisons allow; and errors are not many times what
 * happens. */
static void check_row(const Row *row, guint32 seed)
{
  g_autoptr(GRand) random = g_rand_new_with_seed(seed);
  Value *exact[3] = {NULL}, *stored[3] = {NULL};
  Errors errors[3] = {{NULL}}, results[1];
  for (unsigned i = 0; i < row->n_inputs; i++) {
    exact[i] = random_value(random, NUMBER_F64, 2, row->shapes[i]);
    stored[i] = make_value(NUMBER_F64, 2, row->shapes[i], exact[i]->floats);
    if (!(row->rounded >> i & 1)) continue;
    errors[i] = (Errors){g_new(double, exact[i]->n), 1};
    for (size_t j = 0; j < exact[i]->n; j++) {
      errors[i].each[j] = error_of_storing(NUMBER_BF16, exact[i]->floats[j]);
      stored[i]->floats[j] = rounded(NUMBER_BF16, exact[i]->floats[j]);
    }
  }
  unsigned n_attributes = 0;
  while (n_attributes < G_N_ELEMENTS(row->attributes) && row->attributes[n_attributes].name)
    n_attributes++;
  const ReferenceCall call = {.op = row->op,
                              .opset = 18,
                              .inputs = (const Value *const *)exact,
                              .n_inputs = row->n_inputs,
                              .attributes = row->attributes,
                              .n_attributes = n_attributes,
                              .result = NUMBER_F64};
  g_autoptr(Value) right = run(&call, (const Value *const *)exact);
  g_autoptr(Value) seen = run(&call, (const Value *const *)stored);
  const ErrorModel model = {.product = 0};
  GError *error = NULL;
  Value *outputs[] = {right};
  assert_true(reference_errors(&call, errors, outputs, 1, &model, results, &error));
  double off = 0, expected = 0;
  for (size_t i = 0; i < right->n; i++) {
    double d = fabs(seen->floats[i] - right->floats[i]);
    if (d > 4 * results[0].each[i])
      fail_msg("%s: element %zu is off by %g, its error is %g", row->op, i, d, results[0].each[i]);
    off += d * d;
    expected += results[0].each[i] * results[0].each[i];
  }
  if (expected > 25 * off) fail_msg("%s: errors of %g for %g", row->op, sqrt(expected), sqrt(off));
  g_free(results[0].each);
  for (unsigned i = 0; i < row->n_inputs; i++) {
    value_free(exact[i]);
    value_free(stored[i]);
    g_free(errors[i].each);
  }
}

static void test_operators(void **state)
{
  for (unsigned i = 0; i < G_N_ELEMENTS(rows); i++)
    for (guint32 seed = 1; seed <= 5; seed++)
      check_row(&rows[i], seed);
}

/* An integer that follows from a float near an edge may be either of two; others may not. */
static void test_edges(void **state)
{
  const double data[] = {1.99999, 1.5};
  g_autoptr(Value) x = make_value(NUMBER_F32, 1, (int64_t[]){2}, data);
  const Value *inputs[] = {x};
  const ReferenceAttribute to[] = {{.name = "to", .integer = NUMBER_S32}, {.name = "saturate", .integer = 1}};
  const ReferenceCall call = {.op = "Cast",
                              .inputs = inputs,
                              .n_inputs = 1,
                              .attributes = to,
                              .n_attributes = 2,
                              .result = NUMBER_S32};
  g_autoptr(Value) y = run(&call, inputs);
  double moved[] = {1e-3, 1e-3};
  const Errors input = {moved, 1};
  Errors results[1];
  const ErrorModel model = {.product = 0};
  GError *error = NULL;
  assert_true(reference_errors(&call, &input, &y, 1, &model, results, &error));
  const double *errors = results[0].each;
  assert_true(errors[0] == 1 && errors[1] == 0);
  g_autoptr(Tensor) out = tensor_of(y);
  int32_t *elements = (int32_t *)(void *)out->data;
  elements[0] = 2;
  assert_true(compare_with_errors(out, y, errors, 0, WIDEST, INFINITY).ok);
  assert_false(compare_with_errors(out, y, NULL, 0, WIDEST, INFINITY).ok);
  elements[1] = 2;
  assert_false(compare_with_errors(out, y, errors, 0, WIDEST, INFINITY).ok);
  g_free(results[0].each);
}

/* ---- bounds ---- */

static Value *softmax_of(const Value *x, const char *op, ReferenceAttribute *axis, ReferenceCall *call,
                         const Value **inputs)
{
  *axis = (ReferenceAttribute){.name = "axis", .integer = -1};
  *call = (ReferenceCall){.op = op,
                          .opset = 18,
                          .inputs = inputs,
                          .n_inputs = 1,
                          .attributes = axis,
                          .n_attributes = 1,
                          .result = NUMBER_F64};
  inputs[0] = x;
  return run(call, inputs);
}

/* Errors of an operator's first output; g_free. */
static double *errors_of(const ReferenceCall *call, const Errors *inputs, Value *out)
{
  const ErrorModel model = {.product = 0};
  Errors results[1];
  GError *error = NULL;
  Value *outputs[] = {out};
  assert_true(reference_errors(call, inputs, outputs, 1, &model, results, &error));
  return results[0].each ? results[0].each : g_new0(double, out->n + 1);
}

#define SCORES  40
#define SAMPLES 200

/* Scores of any size with errors of any size: no result is further off than is allowed, none is taken to be
 * further off than it can be, and where errors are small they are those that happen. */
static void check_softmax(double scores, double off)
{
  g_autoptr(GRand) random = g_rand_new_with_seed(11);
  g_autoptr(Value) x = make_value(NUMBER_F64, 2, (int64_t[]){1, SCORES}, NULL);
  g_autoptr(Value) moved = make_value(NUMBER_F64, 2, (int64_t[]){1, SCORES}, NULL);
  double each[SCORES], seen[SCORES] = {0};
  for (unsigned i = 0; i < SCORES; i++) {
    x->floats[i] = g_rand_double_range(random, -scores, scores);
    each[i] = off;
  }
  ReferenceCall call;
  ReferenceAttribute axis;
  const Value *inputs[1];
  g_autoptr(Value) p = softmax_of(x, "Softmax", &axis, &call, inputs);
  g_autofree double *errors = errors_of(&call, &(Errors){.each = each, .shared = 1}, p);
  for (unsigned k = 0; k < SAMPLES; k++) {
    for (unsigned i = 0; i < SCORES; i++)
      moved->floats[i] = x->floats[i] + g_rand_double_range(random, -off, off);
    g_autoptr(Value) q = run(&call, (const Value *const[]){moved});
    for (unsigned i = 0; i < SCORES; i++) {
      double d = fabs(q->floats[i] - p->floats[i]);
      if (d > 4 * errors[i] + 1e-12)
        fail_msg("scores %g off by %g: %g off by %g, its error is %g", scores, off, p->floats[i], d,
                 errors[i]);
      seen[i] = fmax(seen[i], d);
    }
  }
  for (unsigned i = 0; i < SCORES; i++) {
    assert_true(errors[i] <= fmax(p->floats[i], 1 - p->floats[i]) + 1e-6);
    if (off <= 0.1) assert_true(errors[i] <= 3 * seen[i] + 1e-6);
  }
}

static void test_softmax(void **state)
{
  static const double scores[] = {0.5, 3, 20, 300}, off[] = {1e-3, 0.1, 1, 10, 1000};
  for (unsigned i = 0; i < G_N_ELEMENTS(scores); i++)
    for (unsigned j = 0; j < G_N_ELEMENTS(off); j++)
      check_softmax(scores[i], off[j]);
}

/* One score far above the others: what they are off changes nothing, however much a first-order bound of each
 * would add up to. */
static void test_one_hot(void **state)
{
  const double scores[] = {100, 0, -50, 60};
  double each[] = {2, 2, 2, 2};
  g_autoptr(Value) x = make_value(NUMBER_F64, 2, (int64_t[]){1, 4}, scores);
  ReferenceCall call;
  ReferenceAttribute axis;
  const Value *inputs[1];
  g_autoptr(Value) p = softmax_of(x, "Softmax", &axis, &call, inputs);
  g_autofree double *errors = errors_of(&call, &(Errors){.each = each, .shared = 4}, p);
  for (unsigned i = 0; i < 4; i++)
    assert_true(errors[i] < 1e-6);
  g_autoptr(Value) l = softmax_of(x, "LogSoftmax", &axis, &call, inputs);
  g_autofree double *of_logarithm = errors_of(&call, &(Errors){.each = each, .shared = 4}, l);
  assert_true(of_logarithm[0] < 1e-4 && of_logarithm[1] > 1 && of_logarithm[1] < 10);
}

/* Scores that a mask hides by a type's lowest number have errors above all others, and weights of 0 for certain; where all of a row are
 * hidden nothing is certain. */
static void test_hidden(void **state)
{
  static const double lowest = -3.3895313892515355e38;
  const double scores[] = {1, lowest, -INFINITY, 2, lowest, lowest, lowest, lowest};
  double each[] = {0.01, 6e35, 0, 0.01, 6e35, 6e35, 6e35, 6e35};
  g_autoptr(Value) x = make_value(NUMBER_F64, 2, (int64_t[]){2, 4}, scores);
  ReferenceCall call;
  ReferenceAttribute axis;
  const Value *inputs[1];
  g_autoptr(Value) p = softmax_of(x, "Softmax", &axis, &call, inputs);
  g_autofree double *errors = errors_of(&call, &(Errors){.each = each, .shared = 1}, p);
  assert_true(errors[1] == 0 && errors[2] == 0);
  assert_true(errors[0] > 1e-4 && errors[0] < 0.01 && errors[3] > 1e-4 && errors[3] < 0.01);
  for (unsigned i = 4; i < 8; i++)
    assert_true(errors[i] > 0.5);
  g_autoptr(Value) l = softmax_of(x, "LogSoftmax", &axis, &call, inputs);
  g_autofree double *of_logarithm = errors_of(&call, &(Errors){.each = each, .shared = 1}, l);
  assert_true(of_logarithm[1] > 1e35);
}

/* Exponentials vanish below e^-87: weights that are less may be 0, others not; logarithms and f64 know of none. */
static void test_flushed(void **state)
{
  const double scores[] = {0, -80, -87.5, -90, -200, -INFINITY};
  g_autoptr(Value) x = make_value(NUMBER_F32, 2, (int64_t[]){1, 6}, scores);
  g_autoptr(Value) x64 = make_value(NUMBER_F64, 2, (int64_t[]){1, 6}, scores);
  ReferenceCall call;
  ReferenceAttribute axis;
  const Value *inputs[1];
  g_autoptr(Value) wide = softmax_of(x64, "Softmax", &axis, &call, inputs);
  g_autofree double *of_wide = errors_of(&call, &(Errors){NULL}, wide);
  assert_true(of_wide[3] < 1e-3 * wide->floats[3]);
  g_autoptr(Value) p = softmax_of(x, "Softmax", &axis, &call, inputs);
  g_autofree double *errors = errors_of(&call, &(Errors){NULL}, p);
  assert_true(errors[1] < 1e-2 * p->floats[1]);
  for (unsigned i = 2; i < 5; i++)
    assert_true(errors[i] >= p->floats[i] && errors[i] < 2e-38);
  assert_true(errors[5] == 0);
}

/* A row whose variance is far below its errors: results stay what a normalised row can hold. */
static void test_flat_row(void **state)
{
  const double row[] = {1, 1.0001, 0.9999, 1}, ones[] = {1, 1, 1, 1};
  double each[] = {1, 1, 1, 1};
  g_autoptr(Value) x = make_value(NUMBER_F64, 2, (int64_t[]){1, 4}, row);
  g_autoptr(Value) weight = make_value(NUMBER_F64, 1, (int64_t[]){4}, ones);
  const ReferenceAttribute attributes[] = {{.name = "axis", .integer = -1}, {.name = "epsilon", .number = 0}};
  const Value *inputs[] = {x, weight};
  const ReferenceCall call = {.op = "LayerNormalization",
                              .opset = 18,
                              .inputs = inputs,
                              .n_inputs = 2,
                              .attributes = attributes,
                              .n_attributes = 2,
                              .result = NUMBER_F64};
  g_autoptr(Value) y = run(&call, inputs);
  const Errors errors[] = {{.each = each, .shared = 1}, {NULL}};
  g_autofree double *results = errors_of(&call, errors, y);
  for (unsigned i = 0; i < 4; i++)
    assert_true(results[i] > 0.1 && results[i] <= fabs(y->floats[i]) + sqrt(3) + 1e-6);
}

/* Beside a pole nothing is known; away from it what is known is kept. */
static void test_poles(void **state)
{
  const double one[] = {1, 1, 1}, by[] = {0.001, 2, -0.001};
  double each[] = {0.002, 0.002, 0.002};
  g_autoptr(Value) a = make_value(NUMBER_F64, 1, (int64_t[]){3}, one);
  g_autoptr(Value) b = make_value(NUMBER_F64, 1, (int64_t[]){3}, by);
  const Value *inputs[] = {a, b};
  const ReferenceCall call = {
      .op = "Div", .opset = 18, .inputs = inputs, .n_inputs = 2, .result = NUMBER_F64};
  g_autoptr(Value) y = run(&call, inputs);
  const Errors errors[] = {{NULL}, {.each = each, .shared = 1}};
  g_autofree double *results = errors_of(&call, errors, y);
  assert_true(isinf(results[0]) && isinf(results[2]));
  assert_true(results[1] > 4e-4 && results[1] < 6e-4);
}

/* x - x of a tensor that is off is exact; so is what a type can hold. */
static void test_exact(void **state)
{
  const double data[] = {0.3, -7.7, 100.5};
  double each[] = {1, 1, 1};
  g_autoptr(Value) x = make_value(NUMBER_F32, 1, (int64_t[]){3}, data);
  const Value *inputs[] = {x, x};
  ReferenceCall call = {.op = "Sub", .opset = 18, .inputs = inputs, .n_inputs = 2, .result = NUMBER_F32};
  g_autoptr(Value) zero = run(&call, inputs);
  const Errors errors[] = {{.each = each, .shared = 1}, {.each = each, .shared = 1}};
  g_autofree double *of_zero = errors_of(&call, errors, zero);
  assert_true(of_zero[0] == 0 && of_zero[1] == 0 && of_zero[2] == 0);
  call = (ReferenceCall){.op = "Neg", .opset = 18, .inputs = inputs, .n_inputs = 1, .result = NUMBER_BF16};
  g_autoptr(Value) negative = run(&call, inputs);
  g_autofree double *of_negative = errors_of(&call, (const Errors[]){{NULL}}, negative);
  assert_true(of_negative[0] >= error_of_storing(NUMBER_BF16, 0.3));  /* rounded */
  assert_true(of_negative[2] < error_of_storing(NUMBER_BF16, 100.5)); /* 100.5 is a bf16 */
}

/* Elements that are cut off at one value are all off by the same: their sum by as much as there are. */
static void test_cut_off(void **state)
{
  enum { N = 1024 };
  g_autoptr(GRand) random = g_rand_new_with_seed(3);
  g_autoptr(Value) x = random_value(random, NUMBER_F64, 2, (int64_t[]){1, N});
  double each[N], size = 0;
  for (unsigned i = 0; i < N; i++) {
    x->floats[i] = fmax(x->floats[i], -0.3);
    each[i] = error_of_storing(NUMBER_BF16, x->floats[i]);
    size += x->floats[i] <= -0.3 ? fabs(rounded(NUMBER_BF16, x->floats[i]) - x->floats[i]) : 0;
  }
  const ReferenceAttribute attributes[] = {{.name = "axes", .integers = (int64_t[]){1}, .n = 1},
                                           {.name = "keepdims"}};
  const Value *inputs[] = {x};
  const ReferenceCall call = {.op = "ReduceSum",
                              .opset = 11,
                              .inputs = inputs,
                              .n_inputs = 1,
                              .attributes = attributes,
                              .n_attributes = 2,
                              .result = NUMBER_F64};
  g_autoptr(Value) sum = run(&call, inputs);
  g_autofree double *alike = errors_of(&call, &(Errors){.each = each, .shared = 1}, sum);
  assert_true(alike[0] >= size && alike[0] < N * each[0]);
  for (unsigned i = 0; i < N; i++) /* of as many values apart errors are as if independent */
    x->floats[i] += 1e-9 * i;
  g_autofree double *apart = errors_of(&call, &(Errors){.each = each, .shared = 1}, sum);
  assert_true(apart[0] < alike[0] / 4);
}

/* ---- comparisons ---- */

#define MANY 10000

static Value *reference_of(guint32 seed, double *errors)
{
  g_autoptr(GRand) random = g_rand_new_with_seed(seed);
  Value *value = random_value(random, NUMBER_BF16, 1, (int64_t[]){MANY});
  for (unsigned i = 0; i < MANY; i++)
    errors[i] = error_of_storing(NUMBER_BF16, value->floats[i]);
  return value;
}

static void set_element(Tensor *tensor, size_t i, double x)
{
  number_from_double(tensor->type, x, false, tensor->data + i * number_bytes(tensor->type));
}

static void test_one_wrong_element(void **state)
{
  double errors[MANY];
  g_autoptr(Value) reference = reference_of(3, errors);
  g_autoptr(Tensor) out = tensor_of(reference);
  assert_true(compare_with_errors(out, reference, errors, LIMIT_BF16, WIDEST, INFINITY).ok);
  assert_int_equal(compare_values(out, reference, LIMIT_BF16).outliers, 0);
  set_element(out, 77, reference->floats[77] + 0.1);
  Comparison c = compare_values(out, reference, LIMIT_BF16);
  assert_true(c.ok); /* one of ten thousand is lost in the norm */
  assert_int_equal(c.outliers, 1);
  c = compare_with_errors(out, reference, errors, LIMIT_BF16, WIDEST, INFINITY);
  assert_false(c.ok);
  assert_int_equal(c.worst, 77);
}

/* All of it two units off, where storing is all that happens: wrong, whatever is known of errors. */
static void test_two_units(void **state)
{
  double errors[MANY];
  g_autoptr(Value) reference = reference_of(4, errors);
  g_autoptr(Tensor) out = tensor_of(reference);
  for (unsigned i = 0; i < MANY; i++)
    set_element(out, i, rounded(NUMBER_BF16, reference->floats[i]) + 4 * errors[i]);
  assert_false(compare_with_errors(out, reference, errors, LIMIT_BF16, WIDEST, INFINITY).ok);
}

/* The least of many sums that nearly cancel: right results are beyond the type's limit, and it is known why.
 */
static void test_cancelled(void **state)
{
  const double exact = 1e-5, off = 2.5e-7, error = 2e-7;
  g_autoptr(Value) reference = make_value(NUMBER_F32, 1, (int64_t[]){1}, &exact);
  g_autoptr(Tensor) out = tensor_of(reference);
  set_element(out, 0, exact + off);
  assert_false(compare_values(out, reference, LIMIT_F32).ok);
  Comparison c = compare_with_errors(out, reference, &error, LIMIT_F32, WIDEST, INFINITY);
  assert_true(c.ok);
  assert_true(c.limit > 0.025 && c.limit < 0.035);
  assert_false(compare_with_errors(out, reference, &error, LIMIT_F32, WIDEST, 1e-2).ok); /* --tolerance */
  set_element(out, 0, exact + 10 * error);
  assert_false(compare_with_errors(out, reference, &error, LIMIT_F32, WIDEST, INFINITY).ok);
}

/* Among numbers whose step is wide, that next to the right one is as near as rounding comes. */
static void test_wide_steps(void **state)
{
  enum { LARGE = 64, ALL = 128 };
  double numbers[ALL];
  for (unsigned i = 0; i < ALL; i++)
    numbers[i] = i < LARGE ? 1 : 26 * 0x1p-24;
  g_autoptr(Value) reference = make_value(NUMBER_F16, 1, (int64_t[]){ALL}, numbers);
  g_autoptr(Tensor) out = tensor_of(reference);
  set_element(out, 100, 27 * 0x1p-24);
  assert_int_equal(compare_values(out, reference, LIMIT_F16).outliers, 0);
  set_element(out, 100, 28 * 0x1p-24);
  assert_int_equal(compare_values(out, reference, LIMIT_F16).outliers, 1);
}

/* Of an element that nothing is known of anything may come; its neighbours are compared all the same. */
static void test_unknown(void **state)
{
  const double data[] = {1, 1e6}, errors[] = {1e-7, INFINITY};
  g_autoptr(Value) reference = make_value(NUMBER_F32, 1, (int64_t[]){2}, data);
  g_autoptr(Tensor) out = tensor_of(reference);
  set_element(out, 1, -3);
  assert_true(compare_with_errors(out, reference, errors, LIMIT_F32, WIDEST, INFINITY).ok);
  set_element(out, 0, 1.001);
  assert_false(compare_with_errors(out, reference, errors, LIMIT_F32, WIDEST, INFINITY).ok);
}

/* One row of a thousand, off by a twentieth; and one tile. */
static void test_one_wrong_row(void **state)
{
  enum { ROWS = 1000, COLUMNS = 128 };
  g_autoptr(GRand) random = g_rand_new_with_seed(5);
  g_autoptr(Value) reference = random_value(random, NUMBER_BF16, 2, (int64_t[]){ROWS, COLUMNS});
  for (unsigned i = 0; i < COLUMNS; i++)
    reference->floats[700 * COLUMNS + i] *= 1e-2; /* of little weight in the norm */
  g_autofree double *errors = g_new(double, reference->n);
  for (size_t i = 0; i < reference->n; i++)
    errors[i] = error_of_storing(NUMBER_BF16, reference->floats[i]);
  g_autoptr(Tensor) out = tensor_of(reference);
  assert_true(compare_with_errors(out, reference, errors, LIMIT_BF16, WIDEST, INFINITY).ok);
  for (size_t i = 700 * COLUMNS; i < 701 * COLUMNS; i++)
    set_element(out, i, 1.05 * reference->floats[i]);
  assert_int_equal(compare_values(out, reference, LIMIT_BF16).wrong_blocks, COLUMNS / 64);
  Comparison c = compare_with_errors(out, reference, errors, LIMIT_BF16, WIDEST, INFINITY);
  assert_false(c.ok);
  assert_true(c.error < LIMIT_BF16 && c.wrong_blocks == COLUMNS / 64);
}

/* Errors that explain a tenth of the result prove nothing, unless a tolerance that does is met. */
static void test_wide(void **state)
{
  double errors[MANY];
  g_autoptr(Value) reference = reference_of(6, errors);
  g_autoptr(Tensor) out = tensor_of(reference);
  for (unsigned i = 0; i < MANY; i++)
    errors[i] = 0.1;
  Comparison c = compare_with_errors(out, reference, errors, LIMIT_BF16, WIDEST, INFINITY);
  assert_true(c.ok && c.wide && c.limit > WIDEST);
  assert_true(comparison_width(reference, errors, LIMIT_BF16, WIDEST) > 1);
  c = compare_with_errors(out, reference, errors, LIMIT_BF16, WIDEST, 0.01);
  assert_true(c.ok && !c.wide);
  for (unsigned i = 0; i < MANY; i++)
    errors[i] = 1e-3;
  assert_false(compare_with_errors(out, reference, errors, LIMIT_BF16, WIDEST, INFINITY).wide);
  assert_true(comparison_width(reference, errors, LIMIT_BF16, WIDEST) < 1);
}

/* A few elements that could be anything leave the others proved: these alone make the limit. */
static void test_few_undetermined(void **state)
{
  double errors[MANY];
  g_autoptr(Value) reference = reference_of(7, errors);
  g_autoptr(Tensor) out = tensor_of(reference);
  for (unsigned i = 0; i < MANY; i += 100) {
    errors[i] = 5;
    set_element(out, i, reference->floats[i] + 7);
  }
  Comparison c = compare_with_errors(out, reference, errors, LIMIT_BF16, WIDEST, INFINITY);
  assert_true(c.ok && !c.wide && c.undetermined == MANY / 100 && c.limit < 2 * LIMIT_BF16);
  set_element(out, 100, reference->floats[100] + 21); /* beyond even its own error */
  assert_false(compare_with_errors(out, reference, errors, LIMIT_BF16, WIDEST, INFINITY).ok);
}

/* The limits of integers that follow from floats: few that may differ prove the others; many do not. */
static void test_wide_integers(void **state)
{
  g_autoptr(Value) reference = make_value(NUMBER_S32, 1, (int64_t[]){100}, NULL);
  double errors[100] = {0};
  for (unsigned i = 0; i < 100; i++)
    reference->integers[i] = i % 7;
  g_autoptr(Tensor) out = tensor_of(reference);
  errors[3] = errors[50] = 1000;
  assert_false(compare_with_errors(out, reference, errors, 0, WIDEST, INFINITY).wide);
  for (unsigned i = 0; i < 100; i++)
    errors[i] = 1;
  assert_true(compare_with_errors(out, reference, errors, 0, WIDEST, INFINITY).wide);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_storing),       cmocka_unit_test(test_operators),
      cmocka_unit_test(test_edges),         cmocka_unit_test(test_one_wrong_element),
      cmocka_unit_test(test_two_units),     cmocka_unit_test(test_cancelled),
      cmocka_unit_test(test_wide_steps),    cmocka_unit_test(test_unknown),
      cmocka_unit_test(test_softmax),       cmocka_unit_test(test_one_hot),
      cmocka_unit_test(test_flushed),       cmocka_unit_test(test_flat_row),
      cmocka_unit_test(test_poles),         cmocka_unit_test(test_exact),
      cmocka_unit_test(test_cut_off),       cmocka_unit_test(test_one_wrong_row),
      cmocka_unit_test(test_wide),          cmocka_unit_test(test_few_undetermined),
      cmocka_unit_test(test_wide_integers), cmocka_unit_test(test_hidden),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
