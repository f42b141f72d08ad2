#include "adl/gpu.h"
#include <glib/gstdio.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static Gpu *parse(const char *text, GError **error)
{
  g_autoptr(Source) source = source_new("test.yaml", text, strlen(text));
  return gpu_parse(source, error);
}

static Gpu *load(const char *name)
{
  g_autoptr(GError) error = NULL;
  Gpu *gpu = gpu_load(name, &error);
  if (error) error_print(error, stderr, false);
  assert_non_null(gpu);
  return gpu;
}

static void test_every_known_gpu_loads(void **state)
{
  g_auto(GStrv) names = gpu_names();
  assert_true(g_strv_length(names) >= 11);
  for (char **name = names; *name; name++) {
    g_autoptr(Gpu) gpu = load(*name);
    assert_string_equal(gpu->name, *name);
    assert_int_equal(strlen(gpu->hash), 64);
    assert_non_null(gpu->arch);
    assert_true(gpu->sm_count > 0 && gpu->warp_size == 32);
    assert_true(fact_known(gpu_peak(gpu, NUMBER_BF16)));
    for (unsigned i = 0; i < gpu->n_facts; i++)
      assert_true(!fact_known(gpu->facts[i].value) || gpu->facts[i].unit);
  }
}

static void test_limits_and_facts(void **state)
{
  g_autoptr(Gpu) gpu = load("h100");
  assert_string_equal(gpu->target, "sm_90a");
  assert_string_equal(gpu->arch, "sm_90a");
  assert_int_equal(gpu->shared_per_block, 232448);
  assert_int_equal(gpu->sm_count, 132);
  assert_int_equal(gpu->cluster_max, 16);
  assert_true(gpu->l2_bytes == 50.0 * 1024 * 1024);
  assert_true(gpu->memory_bandwidth == 3.35e12);
  assert_true(gpu_fact(gpu, "limits.shared_per_block") == 232448);
  assert_true(gpu_fact(gpu, "latency.shared_load") == 29);
  assert_true(gpu_fact(gpu, "latency.tma") == gpu_fact(gpu, "tma.latency"));
  assert_true(gpu_fact(gpu, "copy_async.alignment") == 16);
  assert_true(gpu_fact(gpu, "peaks.bf16") == 989.4e12);
  assert_false(fact_known(gpu_fact(gpu, "latency.vote")));
  assert_false(fact_known(gpu_fact(gpu, "no.such.fact")));
  assert_string_equal(gpu_text(gpu, "copy_async.completion"), "thread_group");
  assert_true(gpu_lists(gpu, "cache_hint.policies", "evict_first"));
  assert_false(gpu_lists(gpu, "cache_hint.policies", "evict_second"));
  unsigned n;
  const double *swizzles = gpu_numbers(gpu, "tma.swizzles", &n);
  assert_int_equal(n, 3);
  assert_true(swizzles[2] == 128);
}

static void test_families(void **state)
{
  g_autoptr(Gpu) older = load("a100");
  g_autoptr(Gpu) newer = load("h800");
  static const char *const both[] = {"copy_plain",  "copy_async",  "thread_fma", "warp_mma",
                                     "matrix_load", "lane_reduce", "cache_hint"};
  static const char *const only_newer[] = {
      "tma",     "warpgroup_mma", "matrix_store",          "mbarrier",
      "cluster", "elect",         "register_reallocation", "dependent_launch"};
  for (unsigned i = 0; i < G_N_ELEMENTS(both); i++)
    assert_true(gpu_has(older, both[i]) && gpu_has(newer, both[i]));
  for (unsigned i = 0; i < G_N_ELEMENTS(only_newer); i++)
    assert_true(!gpu_has(older, only_newer[i]) && gpu_has(newer, only_newer[i]));
  assert_true(gpu_fact(newer, "matrix_load.uniform_offset") == 1);
  assert_false(fact_known(gpu_fact(older, "matrix_load.uniform_offset")));
  assert_false(gpu_has(newer, "limits"));
  assert_false(gpu_has(newer, "tensor_memory"));
}

static void test_products(void **state)
{
  g_autoptr(Gpu) gpu = load("h100");
  const GpuProduct *product = gpu_product(gpu, "warpgroup_mma", NUMBER_BF16, NUMBER_BF16, NUMBER_F32);
  assert_int_equal(product->m, 64);
  assert_int_equal(product->k, 16);
  assert_int_equal(product->n_count, 32);
  assert_int_equal(product->n[0], 8);
  assert_int_equal(product->n[31], 256);
  assert_true(product->a_from_registers && product->a_from_shared && product->b_from_shared);
  assert_false(product->b_from_registers);
  assert_true(product->a_transposed && product->b_transposed);
  assert_string_equal(product->layout_acc, "group.d");
  assert_true(product->flop_per_clock_per_sm == 4096);
  product = gpu_product(gpu, "warpgroup_mma", NUMBER_S8, NUMBER_S8, NUMBER_S32);
  assert_int_equal(product->n_count, 3 + 15);
  assert_int_equal(product->n[3], 32);
  assert_int_equal(product->n[4], 48);
  assert_false(product->a_transposed);
  assert_non_null(gpu_product(gpu, "warpgroup_mma", NUMBER_E4M3, NUMBER_E5M2, NUMBER_F32));
  assert_null(gpu_product(gpu, "warpgroup_mma", NUMBER_S8, NUMBER_U8, NUMBER_S32));
  assert_null(gpu_product(gpu, "warp_mma", NUMBER_E4M3, NUMBER_E4M3, NUMBER_F32));
  assert_true(gpu_converts_float8(gpu));
  product = gpu_product(gpu, "warp_mma", NUMBER_BF16, NUMBER_BF16, NUMBER_F32);
  assert_true(product->a_from_registers && !product->a_from_shared);
  assert_true(product->accumulator_bits == 25);
  assert_string_equal(product->accumulator_rounding, "truncate");
}

/* Types that no instruction takes are widened where a shape says so, and only there. */
static void test_widened_products(void **state)
{
  g_autoptr(Gpu) a100 = load("a100");
  g_autoptr(Gpu) geforce = load("rtx4090");
  const GpuProduct *product = gpu_product(a100, "warp_mma", NUMBER_E4M3, NUMBER_E5M2, NUMBER_F32);
  assert_true(product && product->widened && product->through == NUMBER_F16 && product->k == 32);
  assert_false(gpu_converts_float8(a100));
  product = gpu_product(a100, "warp_mma", NUMBER_BF16, NUMBER_BF16, NUMBER_F32);
  assert_true(product && !product->widened && product->through == NUMBER_BF16);
  product = gpu_product(geforce, "warp_mma", NUMBER_E4M3, NUMBER_E5M2, NUMBER_F32);
  assert_true(product && !product->widened && product->through == NUMBER_E4M3);
}

static void near(double value, double expected)
{
  assert_true(fabs(value - expected) < 0.02 * expected);
}

static void test_peaks(void **state)
{
  g_autoptr(Gpu) a100 = load("a100");
  g_autoptr(Gpu) h800 = load("h800");
  g_autoptr(Gpu) geforce = load("rtx4090");
  near(gpu_peak(a100, NUMBER_BF16), 312e12);
  near(gpu_peak(a100, NUMBER_F64), 9.7e12);
  assert_false(fact_known(gpu_peak(a100, NUMBER_E4M3)));
  near(gpu_peak(h800, NUMBER_BF16), 989e12);
  near(gpu_peak(h800, NUMBER_F64), 1.045e12); /* cut in the product, not in the architecture */
  near(gpu_peak(geforce, NUMBER_BF16), 165e12);
  near(gpu_peak(geforce, NUMBER_S8), 661e12);
}

/* A kernel for older families, planned for the device's number of SMs: the overlay of performance
 * measurements. */
static void test_overlay(void **state)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(Gpu) gpu =
      parse("adl: 1\nname: older\nextends: h100\nsource: \"a test\"\ntarget: sm_80\n"
            "limits: {cluster_max: 1, cluster_portable: 1}\npeaks: null\n"
            "chip: {sm_count: 100, clusters_of_2: null, clusters_of_3: null, clusters_of_4: null,\n"
            "       clusters_of_5: null, clusters_of_6: null, clusters_of_7: null, clusters_of_8: null}\n"
            "families: {warpgroup_mma: null, tma: null, register_reallocation: null,\n"
            "           cluster: null, mbarrier: null, matrix_store: null, elect: null,\n"
            "           dependent_launch: null}\n",
            &error);
  assert_null(error);
  assert_int_equal(gpu->sm_count, 100);
  assert_false(gpu_has(gpu, "warpgroup_mma"));
  assert_true(gpu_has(gpu, "warp_mma"));
  assert_string_equal(gpu->product, "H100 SXM5 80 GB"); /* unless it says otherwise */
  assert_null(gpu_product(gpu, "warpgroup_mma", NUMBER_BF16, NUMBER_BF16, NUMBER_F32));
}

/* The hash is over what is so: not over sources, comments, the order of keys or the name. */
static void test_hash(void **state)
{
  static const char *const same[] = {
      "adl: 1\nname: a\nextends: a100\nsource: \"one source\"\nchip: {power: 300 W, l2: 40 MiB}\n",
      "adl: 1\nname: b\nextends: a100 # comment\nsource: \"another source\"\nchip: {l2: 40960 KiB, power: "
      "300 W}\n",
  };
  g_autoptr(Gpu) a = parse(same[0], NULL);
  g_autoptr(Gpu) b = parse(same[1], NULL);
  g_autoptr(Gpu) other =
      parse("adl: 1\nname: a\nextends: a100\nsource: \"one source\"\nchip: {power: 301 W}\n", NULL);
  assert_string_equal(a->hash, b->hash);
  assert_string_not_equal(a->hash, other->hash);
}

static void test_alias_and_provenance(void **state)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(Gpu) gpu =
      parse("adl: 1\nname: x\narch: ampere\nguess: true\nchip: {sm_count: 1, clock_boost: 1 GHz,\n"
            "  clock_tensor: {value: 1 GHz, source: \"read off a label\"}, l2: unknown,\n"
            "  memory: unknown, memory_kind: unknown, memory_bandwidth: unknown,\n"
            "  nvlink_bandwidth: unknown, power: unknown}\n",
            &error);
  assert_null(error);
  assert_string_equal(gpu->arch, "sm_80");
  unsigned seen = 0;
  for (unsigned i = 0; i < gpu->n_facts; i++) {
    const GpuFact *fact = &gpu->facts[i];
    if (!strcmp(fact->path, "chip.sm_count")) seen += fact->guess && fact->value == 1;
    if (!strcmp(fact->path, "chip.clock_tensor"))
      seen += !fact->guess && !strcmp(fact->source, "read off a label");
    if (!strcmp(fact->path, "chip.l2")) seen += !fact_known(fact->value);
  }
  assert_int_equal(seen, 3);
}

static void test_names(void **state)
{
  g_autoptr(GError) error = NULL;
  assert_null(gpu_load("h10", &error));
  assert_int_equal(error_exit_code(error), ERROR_INPUT);
  g_autofree char *text = error_to_text(error, false);
  assert_string_equal(text, "error: unknown GPU `h10`\nhint: did you mean `h100`?\n");
  g_clear_error(&error);
  assert_null(gpu_load("sm_80", &error)); /* an architecture */
  g_clear_error(&error);
  assert_null(gpu_load("/does/not/exist.yaml", &error));
  assert_int_equal(error_exit_code(error), ERROR_INPUT);
  g_clear_error(&error);
  assert_null(parse("adl: 1\nname: x\nextends: /dev/null.yaml\n", &error));
  assert_string_equal(error->message, "a text in memory cannot extend a file");
  g_clear_error(&error);
  assert_true(gpu_check("sm_90a", &error));
  assert_false(gpu_check("not-there.yaml", &error));
}

static void test_files_extend_neighbours(void **state)
{
  g_autofree char *folder = g_dir_make_tmp("adlXXXXXX", NULL);
  g_autofree char *base = g_build_filename(folder, "sm_86.yaml", NULL);
  g_autofree char *product = g_build_filename(folder, "mine.yaml", NULL);
  assert_true(
      g_file_set_contents(base, "adl: 1\narchitecture: sm_86\nextends: sm_80\ntarget: sm_86\n", -1, NULL));
  assert_true(
      g_file_set_contents(product,
                          "adl: 1\nname: mine\nextends: ./sm_86.yaml\nguess: true\n"
                          "chip: {sm_count: 82, clock_boost: 1695 MHz, clock_tensor: 1695 MHz, l2: 6 MiB,\n"
                          "  memory: 24 GB, memory_kind: GDDR6X, memory_bandwidth: 936 GB/s,\n"
                          "  nvlink_bandwidth: 0 B/s, power: 350 W}\n",
                          -1, NULL));
  g_autoptr(Gpu) gpu = load(product);
  assert_string_equal(gpu->arch, "sm_86");
  assert_string_equal(gpu->target, "sm_86");
  assert_string_equal(gpu->file, product);
  g_unlink(base);
  g_unlink(product);
  g_rmdir(folder);
}

static void test_json(void **state)
{
  g_autoptr(GError) error = NULL;
  json_t *gpus = gpus_to_json(&error);
  assert_null(error);
  size_t i;
  json_t *gpu;
  json_array_foreach(json_object_get(gpus, "gpus"), i, gpu)
  {
    static const char *const keys[] = {"name", "arch", "target", "file", "sms"};
    for (unsigned j = 0; j < G_N_ELEMENTS(keys); j++)
      assert_non_null(json_object_get(gpu, keys[j]));
  }
  json_decref(gpus);
  g_autoptr(Gpu) h100 = load("h100");
  json_t *show = gpu_to_json(h100), *fact;
  assert_int_equal(json_integer_value(json_object_get(show, "version")), 1);
  json_array_foreach(json_object_get(show, "facts"), i, fact)
  {
    bool is_number = json_is_number(json_object_get(fact, "value"));
    const char *unit = json_string_value(json_object_get(fact, "unit"));
    if (is_number && strcmp(unit, "version")) assert_true(json_is_string(json_object_get(fact, "source")));
  }
  json_decref(show);
  g_autofree char *text = gpu_to_text(h100);
  assert_non_null(strstr(text, "\n  limits.shared_per_block"));
  assert_null(strstr(text, " \n"));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_known_gpu_loads),
      cmocka_unit_test(test_limits_and_facts),
      cmocka_unit_test(test_families),
      cmocka_unit_test(test_products),
      cmocka_unit_test(test_widened_products),
      cmocka_unit_test(test_peaks),
      cmocka_unit_test(test_overlay),
      cmocka_unit_test(test_hash),
      cmocka_unit_test(test_alias_and_provenance),
      cmocka_unit_test(test_names),
      cmocka_unit_test(test_files_extend_neighbours),
      cmocka_unit_test(test_json),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
