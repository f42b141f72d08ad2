/* Mechanisms as rows: what a description fills in, and one that only this test has. Two warps take its products from
 * shared memory, each arrives at a barrier when a product is done, and sums lie in a memory of their own. No pass
 * knows of it; it reaches STAGED, verified, and the protocol checker finds it in order and finds what is broken in it. */
#include "ir/mechanism.h"
#include "ir/pass.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#define GPU "h100"

static const unsigned columns[] = {64, 128};
static const GpuProduct pair_shape = {.family = "product_pair",
                                      .a = NUMBER_BF16,
                                      .b = NUMBER_BF16,
                                      .acc = NUMBER_F32,
                                      .m = 64,
                                      .k = 16,
                                      .n = columns,
                                      .n_count = G_N_ELEMENTS(columns),
                                      .a_from_shared = true,
                                      .b_from_shared = true,
                                      .b_transposed = true};
static const Mechanism pair = {.name = "pair",
                               .family = "product_pair",
                               .label = "pair products",
                               .kind = MECHANISM_PRODUCT,
                               .issue = ISSUE_WARP,
                               .warps = 2,
                               .completion = COMPLETES_BARRIER_PHASE,
                               .a = IN_SHARED,
                               .b = IN_SHARED,
                               .acc = IN_ACCUMULATORS,
                               .accumulator = ACCUMULATOR_MEMORY,
                               .shapes = &pair_shape,
                               .n_shapes = 1,
                               .swizzles = 64,
                               .alignment = 16,
                               .swizzle_alignment = 1024};

static const char tile_text[] = "adlgen-ir 1 tile\n"
                                "kernel gemm(A: tensor<bf16>[M, K] align 16, B: tensor<bf16>[K, N] align 16, "
                                "D: tensor<f32>[M, N] align 16)\n"
                                "    dims M: s32, N: s32 multiple 8, K: s32 multiple 8\n"
                                "{\n"
                                "  tiles %m, %n in raster(ceil_div(M, 64), ceil_div(N, 128)) persistent 1 {\n"
                                "    %acc: tile<f32>[64, 128] = var 0\n"
                                "    channel @ab slots 3 {\n"
                                "      tile @a: tile<bf16>[64, 64]\n"
                                "      tile @b: tile<bf16>[64, 128]\n"
                                "    }\n"
                                "    for %k in 0 .. K step 64 {\n"
                                "      fill @ab.a <- A[%m * 64, %k]\n"
                                "      fill @ab.b <- B[%k, %n * 128]\n"
                                "      take @ab {\n"
                                "        mma %acc += @ab.a * @ab.b\n"
                                "      }\n"
                                "    }\n"
                                "    %twice: tile<f32>[64, 128] = mul %acc, 2.0\n"
                                "    store D[%m * 64, %n * 128] <- %twice\n"
                                "  }\n"
                                "}\n";

/* The rows of the GPU with the test's in front, which is best. */
static Mechanism *rows_with_pair(const Gpu *gpu)
{
  Mechanism *rows = g_new0(Mechanism, MECHANISM_COUNT + 1);
  rows[0] = pair;
  mechanisms_read(gpu, rows + 1);
  return rows;
}

static IrModule *read_text(const char *text)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(Source) source = source_new("test.ir", text, strlen(text));
  IrModule *module = ir_read(source, &error);
  if (!module) fail_msg("%s", error->message);
  return module;
}

/* Up to and with a pass. */
static bool run_to(IrModule *module, const Gpu *gpu, const Mechanism *rows, const char *pass,
                   GString *remarks, GError **error)
{
  IrPassContext context = {
      .gpu = gpu, .mechanisms = rows, .n_mechanisms = MECHANISM_COUNT + 1, .remarks = remarks};
  IrRunOptions options = {.stop_after = pass};
  return ir_run_passes(module, &context, &options, error);
}

static void assert_has(const char *text, const char *part)
{
  if (!strstr(text, part)) fail_msg("no `%s` in\n%s", part, text);
}

static char *staged_text(const Gpu *gpu, const Mechanism *rows)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GString) remarks = g_string_new(NULL);
  g_autoptr(IrModule) module = read_text(tile_text);
  if (!run_to(module, gpu, rows, "budget_registers", remarks, &error)) {
    g_autofree char *message = error_to_text(error, false), *now = ir_print(module);
    fail_msg("%s\n%s", message, now);
  }
  assert_int_equal(module->level, IR_STAGED);
  assert_has(remarks->str, "products: pair, from shared memory filled by TMA copies");
  return ir_print(module);
}

static void test_reaches_staged(void **state)
{
  (void)state;
  g_autoptr(Gpu) gpu = gpu_load(GPU, NULL);
  g_autofree Mechanism *rows = rows_with_pair(gpu);
  g_autofree char *text = staged_text(gpu, rows);
  assert_has(text, "mma %acc += @ab.a[%read] * @ab.b[%read] via pair");
  assert_has(text, "%acc: tile<f32>[64, 128] in cells(2) = var 0");
  assert_has(text, "barrier @products at ");
  assert_has(text, "count 1 arrivals 2");
  assert_has(text, "commit products barrier @products[0] by warp");
  assert_has(text, "await @products[0] parity %phase");
  assert_has(text, "= get %acc");
  assert_has(text, "role @producer warps 0 .. 1");
  assert_has(text, "role @consumer warps 1 .. 3");
  assert_has(text, "swizzle 64"); /* the widest that the engine and the product both have */
  assert_null(strstr(text, "wait_group products"));
}

/* A line of the staged text that a careless pass would leave out, and what the checker says of it. */
static void check_broken(const char *line, const char *code)
{
  g_autoptr(Gpu) gpu = gpu_load(GPU, NULL);
  g_autofree Mechanism *rows = rows_with_pair(gpu);
  g_autofree char *text = staged_text(gpu, rows);
  g_autoptr(GString) broken = g_string_new(text);
  assert_has(text, line);
  assert_int_equal(g_string_replace(broken, line, "", 1), 1);
  g_autoptr(IrModule) module = read_text(broken->str);
  module->mechanisms = rows;
  module->n_mechanisms = MECHANISM_COUNT + 1;
  g_autoptr(GError) error = NULL;
  IrPassContext context = {.gpu = gpu};
  assert_false(pass_check_protocol(module, &context, &error));
  g_autofree char *message = error_to_text(error, false);
  if (!strstr(message, code)) fail_msg("no `%s` in %s", code, message);
  module->mechanisms = NULL;
}

static void test_checker_knows_it(void **state)
{
  (void)state;
  check_broken("        await @products[0] parity %phase\n", "product");
  check_broken("        commit products barrier @products[0] by warp\n", "deadlock");
}

/* What the row says is honoured like what a description says. */
static void test_refusals(void **state)
{
  (void)state;
  g_autoptr(Gpu) gpu = gpu_load(GPU, NULL);
  g_autofree Mechanism *rows = rows_with_pair(gpu);
  static const char *const expected[] = {"TMA copies and pair products have no swizzle in common",
                                         "the description lists no pair products",
                                         "need B contiguous along k", "no pair product takes these types"};
  GpuProduct other = pair_shape;
  for (unsigned i = 0; i < G_N_ELEMENTS(expected); i++) {
    rows[0] = pair;
    other = pair_shape;
    rows[0].shapes = &other;
    if (i == 0) rows[0].swizzles = 0;
    if (i == 1) rows[0].missing = MECHANISM_NOT_LISTED;
    if (i == 2) other.b_transposed = false;
    if (i == 3) other.a = NUMBER_F16;
    g_autoptr(GError) error = NULL;
    g_autoptr(GString) remarks = g_string_new(NULL);
    g_autoptr(IrModule) module = read_text(tile_text);
    assert_true(run_to(module, gpu, rows, "choose_mechanisms", remarks, &error));
    assert_has(remarks->str, expected[i]);
    assert_has(remarks->str, "products: warpgroup, from shared memory"); /* the next row */
  }
}

static void test_description_fills_rows(void **state)
{
  (void)state;
  g_autoptr(Gpu) gpu = gpu_load(GPU, NULL), older = gpu_load("a100", NULL);
  Mechanism rows[MECHANISM_COUNT];
  mechanisms_read(gpu, rows);
  assert_null(rows[MECHANISM_PRODUCT_GROUP].missing);
  assert_int_equal(rows[MECHANISM_PRODUCT_GROUP].warps, 4);
  assert_int_equal(rows[MECHANISM_PRODUCT_GROUP].b, IN_SHARED);
  assert_int_equal(rows[MECHANISM_PRODUCT_GROUP].swizzle_alignment,
                   gpu_fact(gpu, "warpgroup_mma.swizzle_alignment"));
  assert_int_equal(rows[MECHANISM_FILL_TENSOR].box_max, gpu_fact(gpu, "tma.box_max"));
  assert_int_equal(rows[MECHANISM_FILL_ASYNC].sizes, 4 | 8 | 16);
  assert_int_equal(mechanism_size(&rows[MECHANISM_FILL_ASYNC], 2), 0);
  mechanisms_read(older, rows);
  assert_string_equal(rows[MECHANISM_PRODUCT_GROUP].missing, MECHANISM_NOT_LISTED);
  assert_string_equal(rows[MECHANISM_FILL_TENSOR].missing, MECHANISM_NOT_LISTED);
  assert_null(rows[MECHANISM_PRODUCT_WARP].missing);
}

static void test_questions(void **state)
{
  (void)state;
  assert_int_equal(swizzle_widest(SWIZZLES_ALL, 192), 64);
  assert_int_equal(swizzle_widest(32 | 128, 192), 32);
  assert_int_equal(swizzle_widest(128, 192), 0);
  assert_int_equal(tensor_box_side(192, 256), 192);
  assert_int_equal(tensor_box_side(192, 100), 96);
  assert_int_equal(tensor_box_side(192, 7), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_reaches_staged),
                                     cmocka_unit_test(test_checker_knows_it), cmocka_unit_test(test_refusals),
                                     cmocka_unit_test(test_description_fills_rows),
                                     cmocka_unit_test(test_questions)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
