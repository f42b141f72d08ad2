/* Errors that the reference carries along: as large as what roundings do, and not much larger. */
#include "reference/errors.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

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
  const double exact = 1e-5, off = 3e-7, error = 2e-7;
  g_autoptr(Value) reference = make_value(NUMBER_F32, 1, (int64_t[]){1}, &exact);
  g_autoptr(Tensor) out = tensor_of(reference);
  set_element(out, 0, exact + off);
  assert_false(compare_values(out, reference, LIMIT_F32).ok);
  Comparison c = compare_with_errors(out, reference, &error, LIMIT_F32, WIDEST, INFINITY);
  assert_true(c.ok);
  assert_true(c.limit > 0.03 && c.limit < 0.05);
  assert_false(compare_with_errors(out, reference, &error, LIMIT_F32, WIDEST, 1e-2).ok); /* --tolerance */
  set_element(out, 0, exact + 10 * error);
  assert_false(compare_with_errors(out, reference, &error, LIMIT_F32, WIDEST, INFINITY).ok);
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

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_storing),   cmocka_unit_test(test_operators),
      cmocka_unit_test(test_edges),     cmocka_unit_test(test_one_wrong_element),
      cmocka_unit_test(test_two_units), cmocka_unit_test(test_cancelled),
      cmocka_unit_test(test_unknown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
