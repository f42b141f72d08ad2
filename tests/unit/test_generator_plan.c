#include "plan/plan.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const Symbolic *parse(Plan *plan, const char *text)
{
  return symbolic_parse(plan->arena, text, NULL, NULL);
}

static Plan *example(void)
{
  Plan *plan = plan_new("mlp", "some-gpu", "some_target", "0123");
  plan_add_symbol(plan, "M", 1, 4096, 1);
  const Symbolic *shape[] = {parse(plan, "M"), parse(plan, "128")};
  PlanTensor *x = plan_add_tensor(plan, PLAN_INPUT, "x", NUMBER_BF16, 2, shape, NULL, 16);
  PlanTensor *y = plan_add_tensor(plan, PLAN_OUTPUT, "/y 1", NUMBER_BF16, 2, shape, NULL, 2);
  plan_add_tensor(plan, PLAN_WORKSPACE, "h", NUMBER_F32, 2, shape, NULL, 4);
  plan_add_tensor(plan, PLAN_WORKSPACE, "h2", NUMBER_BF16, 2, shape, NULL, 4);
  PlanLaunch *first = plan_add_launch(plan, "matmul");
  PlanVariant *variant = plan_add_variant(plan, first, "gemm_a", "gemm_a");
  variant->guard = parse(plan, "M % 8 == 0 && align(\"/y 1\") >= 16");
  variant->grid[0] = parse(plan, "ceil_div(M, 128)");
  variant->block[0] = 384;
  variant->cluster[0] = 2;
  variant->cubin = "gemm_a.cubin";
  plan_add_pointer(plan, variant, "A", x, parse(plan, "64*M"));
  plan_add_scalar(plan, variant, "M", NUMBER_S32, parse(plan, "M"));
  plan_add_number(plan, variant, "low", NUMBER_F32, -INFINITY);
  plan_add_number(plan, variant, "scale", NUMBER_F32, 0.1);
  plan_add_divisor(plan, variant, "by", parse(plan, "M"));
  PlanTensorMap *map = &plan_add_tensor_map(plan, variant, "map_A", x, NULL)->map;
  *map = (PlanTensorMap){.rank = 2,
                         .element = NUMBER_BF16,
                         .dims = {parse(plan, "128"), parse(plan, "M")},
                         .strides = {parse(plan, "256")},
                         .box = {parse(plan, "64"), parse(plan, "min(M, 128)")},
                         .swizzle = 128,
                         .l2_promotion = 256};
  plan_add_zero(plan, first, parse(plan, "0"), parse(plan, "512*M"));
  PlanVariant *other = plan_add_variant(plan, first, "gemm_b", "gemm_b");
  other->text = "gemm_b.ptx";
  PlanLaunch *second = plan_add_launch(plan, "softmax");
  PlanVariant *only = plan_add_variant(plan, second, "softmax", "softmax");
  only->cubin = "softmax.cubin";
  plan_add_pointer(plan, only, "Y", y, NULL);
  plan_add_dependency(plan, second, first, true);
  plan_place_workspace(plan);
  return plan;
}

static void test_round_trip(void **state)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(Plan) plan = example();
  if (!plan_check(plan, &error)) fail_msg("%s", error->message);
  g_autofree char *text = plan_text(plan);
  g_autoptr(Source) source = source_new("plan.json", text, strlen(text));
  g_autoptr(Plan) again = plan_read(source, &error);
  if (!again) fail_msg("%s", error->message);
  g_autofree char *second = plan_text(again);
  assert_string_equal(text, second);
}

static void test_evaluation(void **state)
{
  g_autoptr(Plan) plan = example();
  int64_t symbols[] = {16}, value;
  uint64_t addresses[] = {0x1000, 0x2010, 0, 0};
  PlanBindings bindings = {symbols, addresses};
  assert_true(plan_evaluate(plan, plan->workspace_bytes, &bindings, &value, NULL));
  assert_int_equal(value, 16 * 128 * 4 + 16 * 128 * 2);
  assert_string_equal(plan_choose(plan, plan->launches[0], &bindings, NULL)->kernel, "gemm_a");
  addresses[1] = 0x2008;
  assert_string_equal(plan_choose(plan, plan->launches[0], &bindings, NULL)->kernel, "gemm_b");
  assert_true(plan_check_bindings(plan, &bindings, NULL));
  symbols[0] = 5000;
  g_autoptr(GError) error = NULL;
  assert_false(plan_check_bindings(plan, &bindings, &error));
  assert_int_equal(error_exit_code(error), ERROR_INPUT);
}

static void test_divisors(void **state)
{
  static const uint32_t numbers[] = {0,   1,    2,     3,        6,          7,         99,
                                     100, 4095, 65537, 1u << 30, 2147483646, 2147483647};
  static const uint32_t divisors[] = {1,   2,     3,     5,        7,          64,        100,
                                      641, 65535, 65536, 1u << 30, 2147483646, 2147483647};
  for (unsigned i = 0; i < G_N_ELEMENTS(divisors); i++) {
    uint32_t multiplier, shift;
    plan_divisor(divisors[i], &multiplier, &shift);
    for (unsigned j = 0; j < G_N_ELEMENTS(numbers); j++) {
      uint32_t high = (uint32_t)((uint64_t)numbers[j] * multiplier >> 32);
      assert_int_equal((high + numbers[j]) >> shift, numbers[j] / divisors[i]);
    }
  }
}

/* Each change makes the text wrong; the message says where. */
static void test_refused(void **state)
{
  static const char *const changes[][3] = {
      {"\"version\": 1", "\"version\": 5", "version 5"},
      {"\"kernel\": \"gemm_b\"", "\"kernle\": \"gemm_b\"", "missing key `kernel`"},
      {"\"tensor\": \"x\"", "\"tensor\": \"z\"", "tensor `z` is not defined"},
      {"\"ceil_div(M, 128)\"", "\"ceil_div(Q, 128)\"", "symbol `Q` is not declared"},
      {"\"ceil_div(M, 128)\"", "\"ceil_div(M 128)\"", "`,` is missing"},
      {"M % 8 == 0", "M % 8 == 0 && align(z) > 3", "unknown tensor `z`"},
      {"\"launch\": 0", "\"launch\": 1", "does not come earlier"},
      {"\"swizzle\": 128", "\"swizzle\": 48", "a swizzle of 48"},
      {"\"kind\": \"workspace\"", "\"kind\": \"workshop\"", "`workshop` is not a value"},
      {"\"type\": \"bf16\"", "\"type\": \"bf17\"", "unknown type"},
      {"\"align\": 256\n", "\"align\": 255\n", "between 256 and 256"},
  };
  g_autoptr(Plan) plan = example();
  g_autofree char *text = plan_text(plan);
  for (unsigned i = 0; i < G_N_ELEMENTS(changes); i++) {
    g_auto(GStrv) parts = g_strsplit(text, changes[i][0], 2);
    assert_non_null(parts[1]);
    g_autofree char *changed = g_strjoin(changes[i][1], parts[0], parts[1], NULL);
    g_autoptr(Source) source = source_new("plan.json", changed, strlen(changed));
    g_autoptr(GError) error = NULL;
    assert_null(plan_read(source, &error));
    g_autofree char *message = error_to_text(error, false);
    if (!strstr(message, changes[i][2])) fail_msg("%s: %s", changes[i][2], message);
  }
}

/* The example with its first launch a second time, for other tensors. */
static Plan *example_twice(void)
{
  Plan *plan = example();
  const PlanTensor *x = plan_tensor(plan, "h2"), *y = plan_tensor(plan, "h");
  PlanLaunch *first = plan->launches[0], *third = plan_add_launch(plan, "matmul_1");
  for (unsigned i = 0; i < first->n_variants; i++) {
    PlanVariant *variant = plan_add_variant(plan, third, "", "");
    *variant = *first->variants[i];
    variant->arguments =
        arena_memdup(plan->arena, variant->arguments, variant->n_arguments * sizeof *variant->arguments);
    for (unsigned j = 0; j < variant->n_arguments; j++)
      if (variant->arguments[j].tensor) variant->arguments[j].tensor = x;
  }
  third->variants[0]->guard = parse(plan, "M % 8 == 0 && align(h) >= 16");
  plan_add_dependency(plan, third, plan->launches[1], false);
  assert_non_null(y);
  return plan;
}

/* A launch that differs in its tensors only is written as `like`, and read back whole. */
static void test_like(void **state)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(Plan) plan = example_twice();
  g_autofree char *text = plan_text(plan);
  assert_non_null(strstr(text, "\"version\": 2"));
  assert_non_null(strstr(text, "\"like\": 0"));
  g_autoptr(Source) source = source_new("plan.json", text, strlen(text));
  g_autoptr(Plan) again = plan_read(source, &error);
  if (!again) fail_msg("%s", error->message);
  g_autofree char *second = plan_text(again);
  assert_string_equal(text, second);
  const PlanVariant *variant = again->launches[2]->variants[0];
  assert_int_equal(again->launches[2]->n_variants, 2);
  assert_string_equal(variant->arguments[0].tensor->name, "h2");
  g_autofree char *guard = symbolic_text(variant->guard);
  assert_string_equal(guard, "M % 8 == 0 && align(h) >= 16");
  assert_string_equal(again->launches[0]->variants[0]->arguments[0].tensor->name, "x");
}

/* Whatever else differs is written whole. */
static void test_unlike(void **state)
{
  for (unsigned change = 0; change < 4; change++) {
    g_autoptr(Plan) plan = example_twice();
    PlanVariant *variant = plan->launches[2]->variants[0];
    if (change == 0) variant->grid[1] = parse(plan, "2");
    if (change == 1) variant->arguments[3].number = 0.2;
    if (change == 2) variant->arguments[5].map.dims[1] = parse(plan, "M + 1");
    if (change == 3) variant->arguments[5].tensor = plan_tensor(plan, "h"); /* x is h2 elsewhere */
    g_autofree char *text = plan_text(plan);
    if (strstr(text, "like")) fail_msg("change %u", change);
    assert_non_null(strstr(text, "\"version\": 1"));
  }
}

static void test_like_refused(void **state)
{
  static const char *const changes[][3] = {
      {"\"like\": 0", "\"like\": 2", "launch 2 does not come earlier"},
      {"\"x\": \"h2\"", "\"x\": \"h3\"", "tensor `h3` is not defined"},
      {"\"x\": \"h2\"", "\"z\": \"h2\"", "tensor `z` is not defined"},
      {"\"tensors\": {", "\"tensor\": {", "missing key `tensors`"},
      {"\"version\": 2", "\"version\": 1", "`like` is of version 2 of the format, not 1"},
  };
  g_autoptr(Plan) plan = example_twice();
  g_autofree char *text = plan_text(plan);
  for (unsigned i = 0; i < G_N_ELEMENTS(changes); i++) {
    g_auto(GStrv) parts = g_strsplit(text, changes[i][0], 2);
    assert_non_null(parts[1]);
    g_autofree char *changed = g_strjoin(changes[i][1], parts[0], parts[1], NULL);
    g_autoptr(Source) source = source_new("plan.json", changed, strlen(changed));
    g_autoptr(GError) error = NULL;
    assert_null(plan_read(source, &error));
    g_autofree char *message = error_to_text(error, false);
    if (!strstr(message, changes[i][2])) fail_msg("%s: %s", changes[i][2], message);
  }
}

/* An output in an input's memory: version 3, which alone has the key. */
static void test_in_place(void **state)
{
  static const char *const older[] = {"\"version\": 1", "\"version\": 2"};
  g_autoptr(GError) error = NULL;
  g_autoptr(Plan) plan = example();
  ((PlanTensor *)plan_tensor(plan, "/y 1"))->memory = plan_tensor(plan, "x");
  g_autofree char *text = plan_text(plan);
  g_autoptr(Source) source = source_new("plan.json", text, strlen(text));
  g_autoptr(Plan) again = plan_read(source, &error);
  if (!again) fail_msg("%s", error->message);
  assert_ptr_equal(plan_tensor(again, "/y 1")->memory, plan_tensor(again, "x"));
  g_auto(GStrv) parts = g_strsplit(text, "\"version\": 3", 2);
  assert_non_null(parts[1]);
  for (unsigned i = 0; i < G_N_ELEMENTS(older); i++) {
    g_autofree char *changed = g_strjoin(older[i], parts[0], parts[1], NULL);
    g_autoptr(Source) old = source_new("plan.json", changed, strlen(changed));
    g_autoptr(GError) refused = NULL;
    assert_null(plan_read(old, &refused));
    g_autofree char *message = error_to_text(refused, false);
    assert_non_null(strstr(message, "`in_place` is of version 3 of the format"));
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip),   cmocka_unit_test(test_evaluation), cmocka_unit_test(test_divisors),
      cmocka_unit_test(test_refused),      cmocka_unit_test(test_like),       cmocka_unit_test(test_unlike),
      cmocka_unit_test(test_like_refused), cmocka_unit_test(test_in_place),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
