#include "reference/operators.h"
#include <glib/gstdio.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Known answers of the authors of the generator. */
static void test_philox(void **state)
{
  uint32_t words[4];
  philox(0, 0, 0, words);
  assert_int_equal(words[0], 0x6627e8d5);
  assert_int_equal(words[1], 0xe169c58d);
  assert_int_equal(words[2], 0xbc57ac4c);
  assert_int_equal(words[3], 0x9b00dbd8);
}

static Tensor *make(NumberType type, unsigned rank, const int64_t *shape)
{
  Tensor *tensor = tensor_new("x", type, rank, shape, NULL);
  tensor_fill_random(tensor, 7, 3, 1);
  return tensor;
}

static void test_default_data(void **state)
{
  g_autoptr(Tensor) floats = make(NUMBER_F32, 1, (int64_t[]){100001});
  double sum = 0, squares = 0;
  for (size_t i = 0; i < floats->n; i++) {
    double x = number_to_double(NUMBER_F32, floats->data + 4 * i);
    sum += x;
    squares += x * x;
  }
  assert_true(fabs(sum / 100001) < 0.02 && fabs(squares / 100001 - 1) < 0.02);
  g_autoptr(Tensor) bytes = make(NUMBER_S8, 1, (int64_t[]){4096});
  int low = 0, high = 0;
  for (size_t i = 0; i < bytes->n; i++) {
    low = MIN(low, (int8_t)bytes->data[i]);
    high = MAX(high, (int8_t)bytes->data[i]);
  }
  assert_int_equal(low, -128);
  assert_int_equal(high, 127);
  g_autoptr(Tensor) again = make(NUMBER_F32, 1, (int64_t[]){100001});
  assert_memory_equal(floats->data, again->data, floats->bytes);
  tensor_fill_range(bytes, 1, 0, -2, 3);
  for (size_t i = 0; i < bytes->n; i++)
    assert_in_range((int8_t)bytes->data[i] + 2, 0, 4);
}

static void test_files(void **state)
{
  static const NumberType types[] = {NUMBER_F64,  NUMBER_F32,  NUMBER_F16, NUMBER_BF16,
                                     NUMBER_E4M3, NUMBER_E5M2, NUMBER_S8,  NUMBER_U8,
                                     NUMBER_S32,  NUMBER_S64,  NUMBER_BOOL};
  g_autofree char *folder = g_dir_make_tmp("tensors-XXXXXX", NULL);
  g_autofree char *path = g_build_filename(folder, "a.safetensors", NULL);
  g_autofree char *npy = g_build_filename(folder, "a.npy", NULL);
  g_autoptr(GPtrArray) tensors = g_ptr_array_new_with_free_func((GDestroyNotify)tensor_free);
  for (unsigned i = 0; i < G_N_ELEMENTS(types); i++) {
    Tensor *tensor = make(types[i], i % 4, (int64_t[]){3, 0, 5});
    g_free(tensor->name);
    tensor->name = g_strdup_printf("t%u", i);
    g_ptr_array_add(tensors, tensor);
  }
  assert_true(tensors_save(tensors, path, NULL));
  g_autoptr(GPtrArray) again = tensors_load(path, NULL);
  assert_int_equal(again->len, tensors->len);
  for (unsigned i = 0; i < again->len; i++) {
    const Tensor *have = again->pdata[i], *want = tensors->pdata[i];
    assert_string_equal(have->name, want->name);
    assert_int_equal(have->type, want->type);
    assert_int_equal(have->rank, want->rank);
    assert_int_equal(have->bytes, want->bytes);
    assert_memory_equal(have->data, want->data, want->bytes);
    g_autoptr(GError) error = NULL;
    bool written = tensor_save_npy(want, npy, &error);
    bool possible = want->type != NUMBER_BF16 && want->type != NUMBER_E4M3 && want->type != NUMBER_E5M2;
    assert_int_equal(written, possible);
    if (!written) continue;
    g_autoptr(Tensor) one = tensor_load(npy, NULL, NULL);
    assert_non_null(one);
    assert_int_equal(one->type, want->type);
    assert_int_equal(one->rank, want->rank);
    assert_memory_equal(one->data, want->data, want->bytes);
  }
  g_autofree char *named = g_strdup_printf("%s#t4", path);
  g_autoptr(Tensor) chosen = tensor_load(named, NULL, NULL);
  assert_string_equal(chosen->name, "t4");
  g_autoptr(GError) error = NULL;
  assert_null(tensor_load(path, NULL, &error));
  g_unlink(path);
  g_unlink(npy);
  g_rmdir(folder);
}

static void test_damaged_files(void **state)
{
  static const struct {
    const char *header;
    unsigned data;
  } cases[] = {{"{", 0},
               {"[]", 0},
               {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 8},
               {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 4},
               {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8},
               {"{\"a\":{\"dtype\":\"F33\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8},
               {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,8]}}", 8},
               {"{\"a\":3}", 8}};
  g_autofree char *folder = g_dir_make_tmp("tensors-XXXXXX", NULL);
  g_autofree char *path = g_build_filename(folder, "a.safetensors", NULL);
  for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(GString) file = g_string_new(NULL);
    uint64_t length = strlen(cases[i].header);
    g_string_append_len(file, (const char *)&length, 8);
    g_string_append(file, cases[i].header);
    for (unsigned j = 0; j < cases[i].data; j++)
      g_string_append_c(file, 'x');
    assert_true(g_file_set_contents(path, file->str, (gssize)file->len, NULL));
    g_autoptr(GError) error = NULL;
    assert_null(tensor_load(path, NULL, &error));
    assert_non_null(error);
  }
  g_unlink(path);
  g_rmdir(folder);
}

/* A comparison of `out` written as f32 against a reference. */
static Comparison compare(const double *out, const double *reference, unsigned n)
{
  g_autoptr(Tensor) tensor = tensor_new("y", NUMBER_F32, 1, (int64_t[]){n}, NULL);
  g_autoptr(Value) value = value_new(NUMBER_F32, 1, (int64_t[]){n}, NULL);
  for (unsigned i = 0; i < n; i++) {
    number_from_double(NUMBER_F32, out[i], false, tensor->data + 4 * i);
    value->floats[i] = reference[i];
  }
  return compare_values(tensor, value, comparison_limit(NUMBER_F32, false, false, 0));
}

static void test_comparison(void **state)
{
  assert_true(compare((double[]){1, 2, 3}, (double[]){1, 2, 3}, 3).ok);
  assert_true(compare((double[]){1, 2, 3}, (double[]){1, 2, 3.000001}, 3).ok);
  Comparison off = compare((double[]){1, 2, 3}, (double[]){1, 2.1, 3}, 3);
  assert_false(off.ok);
  assert_int_equal(off.worst, 1);
  assert_true(compare((double[]){NAN, INFINITY, 1}, (double[]){NAN, INFINITY, 1}, 3).ok);
  assert_false(compare((double[]){NAN, 1, 1}, (double[]){1, 1, 1}, 3).ok);
  assert_false(compare((double[]){1, 1, 1}, (double[]){1, NAN, 1}, 3).ok);
  assert_false(compare((double[]){INFINITY, 1, 1}, (double[]){-INFINITY, 1, 1}, 3).ok);
  assert_true(compare((double[]){INFINITY, 1, 1}, (double[]){1e39, 1, 1}, 3).ok);
  assert_true(compare((double[]){0, 0, 0}, (double[]){0, 0, 0}, 3).ok);
  assert_false(compare((double[]){0, 1e-3, 0}, (double[]){0, 0, 0}, 3).ok);
}

/* Sums of tensor cores are cut off: long ones may be further off, of f32 results only. */
static void test_limits(void **state)
{
  double plain = comparison_limit(NUMBER_F32, false, false, 0);
  assert_true(comparison_limit(NUMBER_F32, false, false, 1024) == plain);
  assert_true(comparison_limit(NUMBER_F32, false, false, 65536) > 1e-4);
  assert_true(comparison_limit(NUMBER_F32, false, false, 65536) < 2e-4);
  assert_true(comparison_limit(NUMBER_BF16, false, false, 65536) ==
              comparison_limit(NUMBER_BF16, false, false, 0));
  assert_true(comparison_limit(NUMBER_F32, true, false, 16) > 1e-4);
}

static void test_every_operator_is_known(void **state)
{
  static const char *const some[] = {"Add",    "Gelu",    "Where",     "Cast",
                                     "MatMul", "Softmax", "ReduceMax", "BitShift"};
  for (unsigned i = 0; i < G_N_ELEMENTS(some); i++)
    assert_true(reference_knows(some[i]));
  assert_false(reference_knows("Conv"));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_philox),
      cmocka_unit_test(test_default_data),
      cmocka_unit_test(test_files),
      cmocka_unit_test(test_damaged_files),
      cmocka_unit_test(test_comparison),
      cmocka_unit_test(test_limits),
      cmocka_unit_test(test_every_operator_is_known),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
