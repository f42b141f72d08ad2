/* Mechanisms as rows: what a description fills in, and some that only this test has. Two warps take the first one's
 * products from shared memory, each arrives at a barrier when a product is done, and sums lie in a memory of their own;
 * the others are the same over two blocks of a cluster, each of which has a half of B, or of A. No pass knows of them; they
 * reach STAGED, verified, and the protocol checker finds them in order and finds what is broken in them. What they
 * become stands in tests/ir/mechanisms/NAME.ir; ADLGEN_UPDATE=1 writes what comes out into it. */
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

/* The same by the warps of two blocks, each of which has a half of B in its shared memory and reads the other's. */
static Mechanism two_blocks(void)
{
  Mechanism row = pair;
  row.name = "two";
  row.label = "products of two blocks";
  row.blocks = 2;
  row.b = IN_SHARED | IN_PEER_SHARED;
  return row;
}

/* The same of blocks beside one another, each of which has a half of A. */
static Mechanism two_beside(void)
{
  Mechanism row = two_blocks();
  row.name = "beside";
  row.a = IN_SHARED | IN_PEER_SHARED;
  row.b = IN_SHARED;
  return row;
}

/* The same of two blocks below one another, of which the first issues the product for both. */
static Mechanism two_led(void)
{
  Mechanism row = two_blocks();
  row.name = "led";
  row.issue = ISSUE_CLUSTER;
  return row;
}

/* The rows of the GPU with the test's in front, which is best. */
static Mechanism *rows_with(const Gpu *gpu, Mechanism row)
{
  Mechanism *rows = g_new0(Mechanism, MECHANISM_COUNT + 1);
  rows[0] = row;
  mechanisms_read(gpu, rows + 1);
  return rows;
}

static Mechanism *rows_with_pair(const Gpu *gpu)
{
  return rows_with(gpu, pair);
}

/* The test's text, whose plan gives such clusters. */
static char *text_with(const char *cluster)
{
  g_autoptr(GString) text = g_string_new(tile_text);
  g_autofree char *walk = g_strdup_printf("persistent 1 %s {", cluster);
  assert_int_equal(g_string_replace(text, "persistent 1 {", walk, 1), 1);
  return g_string_free(g_steal_pointer(&text), FALSE);
}

static char *clustered_text(void)
{
  return text_with("cluster_m 2");
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

static char *staged_of(const char *tiles, const Gpu *gpu, const Mechanism *rows, const char *remark)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GString) remarks = g_string_new(NULL);
  g_autoptr(IrModule) module = read_text(tiles);
  if (!run_to(module, gpu, rows, "budget_registers", remarks, &error)) {
    g_autofree char *message = error_to_text(error, false), *now = ir_print(module);
    fail_msg("%s\n%s", message, now);
  }
  assert_int_equal(module->level, IR_STAGED);
  assert_has(remarks->str, remark);
  return ir_print(module);
}

static char *staged_text(const Gpu *gpu, const Mechanism *rows)
{
  return staged_of(tile_text, gpu, rows, "products: pair, from shared memory filled by TMA copies");
}

static char *staged_two(const Gpu *gpu, const Mechanism *rows)
{
  g_autofree char *text = clustered_text();
  return staged_of(text, gpu, rows, "products: two, from shared memory filled by TMA copies");
}

/* The kernel is what the file holds; what stands in front of it names the description. */
static void assert_golden(const char *name, const char *text)
{
  const char *root = g_getenv("ADLGEN_SOURCE_ROOT"), *kernel = strstr(text, "kernel ");
  g_autofree char *path =
      g_build_filename(root != NULL ? root : ".", "tests", "ir", "mechanisms", name, NULL);
  g_autofree char *golden = NULL;
  assert_non_null(kernel);
  if (g_getenv("ADLGEN_UPDATE")) assert_true(g_file_set_contents(path, kernel, -1, NULL));
  assert_true(g_file_get_contents(path, &golden, NULL, NULL));
  assert_string_equal(kernel, golden);
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
  assert_golden("pair.ir", text);
}

static void test_two_blocks_reach_staged(void **state)
{
  (void)state;
  g_autoptr(Gpu) gpu = gpu_load(GPU, NULL);
  g_autofree Mechanism *rows = rows_with(gpu, two_blocks());
  g_autofree char *text = staged_two(gpu, rows);
  assert_has(text, "cluster 2");
  assert_has(text, "tile @b: tile<bf16>[64, 64] in"); /* a half of what the text says */
  assert_has(text, "mma %acc += @ab.a[%read] * @ab.b[%read] via two blocks 2");
  assert_has(text, "full_bytes 16384 empty_arrivals 4"); /* two warps of each of two blocks */
  assert_has(text, "arrive @ab_peers[%read] by role peer all");
  assert_has(text, "await @ab_peers[%read] parity %read.phase");
  assert_has(text, "arrive @ab.empty[%read] by warp peer all");
  assert_null(strstr(text, "multicast"));
  assert_golden("two.ir", text);
}

/* B lies across: then its rows are what a block has a half of. */
static void test_two_blocks_across(void **state)
{
  (void)state;
  g_autoptr(Gpu) gpu = gpu_load(GPU, NULL);
  g_autofree Mechanism *rows = rows_with(gpu, two_blocks());
  g_autofree char *clustered = clustered_text();
  g_autoptr(GString) text = g_string_new(clustered);
  assert_int_equal(g_string_replace(text, "B: tensor<bf16>[K, N]", "B: tensor<bf16>[N, K]", 1), 1);
  assert_int_equal(g_string_replace(text, "tile<bf16>[64, 128]", "tile<bf16>[128, 64]", 1), 1);
  assert_int_equal(g_string_replace(text, "B[%k, %n * 128]", "B[%n * 128, %k]", 1), 1);
  assert_int_equal(g_string_replace(text, "* @ab.b", "* @ab.b^T", 1), 1);
  g_autofree char *staged = staged_of(text->str, gpu, rows, "products: two");
  assert_has(staged, "tile @b: tile<bf16>[64, 64] in");
  assert_has(staged, " * 128 + cluster_rank() * 64, %k]");
}

static char *staged_beside(const Gpu *gpu, const Mechanism *rows, const char *remark)
{
  g_autofree char *text = text_with("cluster_n 2");
  return staged_of(text, gpu, rows, remark);
}

/* Each block has the columns of its own sum, all of its B, and a half of A's rows. */
static void test_blocks_beside_divide_a(void **state)
{
  (void)state;
  g_autoptr(Gpu) gpu = gpu_load(GPU, NULL);
  g_autofree Mechanism *rows = rows_with(gpu, two_beside());
  g_autofree char *text = staged_beside(gpu, rows, "products: beside, from shared memory");
  assert_has(text, "tile @a: tile<bf16>[32, 64] in");
  assert_has(text, "tile @b: tile<bf16>[64, 128] in");
  assert_has(text, " * 64 + cluster_rank() * 32, %k]");
  assert_has(text, "mma %acc += @ab.a[%read] * @ab.b[%read] via beside blocks 2");
  assert_has(text, "full_bytes 20480 empty_arrivals 4");
  assert_has(text, "arrive @ab_peers[%read] by role peer all");
  assert_null(strstr(text, "multicast"));
  assert_golden("beside.ir", text);
}

/* A lies across, and then its columns are what a block has a half of. */
static void test_blocks_beside_across(void **state)
{
  (void)state;
  g_autoptr(Gpu) gpu = gpu_load(GPU, NULL);
  GpuProduct shape = pair_shape;
  Mechanism row = two_beside();
  shape.a_transposed = true;
  row.shapes = &shape;
  g_autofree Mechanism *rows = rows_with(gpu, row);
  g_autofree char *clustered = text_with("cluster_n 2");
  g_autoptr(GString) text = g_string_new(clustered);
  assert_int_equal(g_string_replace(text, "A: tensor<bf16>[M, K]", "A: tensor<bf16>[K, M]", 1), 1);
  assert_int_equal(g_string_replace(text, "M: s32,", "M: s32 multiple 8,", 1), 1);
  assert_int_equal(g_string_replace(text, "A[%m * 64, %k]", "A[%k, %m * 64]", 1), 1);
  assert_int_equal(g_string_replace(text, "+= @ab.a *", "+= @ab.a^T *", 1), 1);
  g_autofree char *staged = staged_of(text->str, gpu, rows, "products: beside");
  assert_has(staged, "tile @a: tile<bf16>[64, 32] in");
  assert_has(staged, "A[%k, %row * 64 + cluster_rank() * 32]");
}

/* The other block says that its slots are full, and waits for the product's end at a barrier of its own, behind which it frees
 * them for itself. */
static void test_one_block_issues(void **state)
{
  (void)state;
  g_autoptr(Gpu) gpu = gpu_load(GPU, NULL);
  g_autofree Mechanism *rows = rows_with(gpu, two_led());
  g_autofree char *clustered = clustered_text(),
                  *text = staged_of(clustered, gpu, rows, "products: led, from shared memory");
  assert_has(text, "tile @b: tile<bf16>[64, 64] in");
  assert_has(text, "arrive @ab_peers[%read] by warp peer 0");
  assert_has(text, "if cluster_rank() == 0 {\n          await @ab_peers[%read] parity %read.phase\n"
                   "          mma %acc += @ab.a[%read] * @ab.b[%read] via led blocks 2\n"
                   "          commit products barrier @products[0] by warp peer all\n        }\n"
                   "        await @products[0] parity %phase\n");
  assert_has(text, "arrive @ab.empty[%read] by warp\n");
  assert_has(text, "full_bytes 16384 empty_arrivals 2");
  assert_golden("led.ir", text);
}

/* One that reads either from a peer takes what the plan's clusters divide. */
static void test_either_operand(void **state)
{
  (void)state;
  g_autoptr(Gpu) gpu = gpu_load(GPU, NULL);
  Mechanism either = two_blocks();
  either.a |= IN_PEER_SHARED;
  g_autofree Mechanism *rows = rows_with(gpu, either);
  g_autofree char *below = staged_two(gpu, rows), *beside = staged_beside(gpu, rows, "products: two");
  assert_has(below, "tile @a: tile<bf16>[64, 64] in");
  assert_has(below, "tile @b: tile<bf16>[64, 64] in");
  assert_has(beside, "tile @a: tile<bf16>[32, 64] in");
  assert_has(beside, "tile @b: tile<bf16>[64, 128] in");
}

/* A part of the staged text that a careless pass would leave out, and what the checker says of it. */
typedef struct {
  const char *line, *instead, *says;
} Broken;

static void check_broken(const char *text, const Gpu *gpu, const Mechanism *rows, const Broken *fault)
{
  g_autoptr(GString) broken = g_string_new(text);
  assert_has(text, fault->line);
  assert_int_equal(g_string_replace(broken, fault->line, fault->instead, 1), 1);
  g_autoptr(IrModule) module = read_text(broken->str);
  module->mechanisms = rows;
  module->n_mechanisms = MECHANISM_COUNT + 1;
  g_autoptr(GError) error = NULL;
  IrPassContext context = {.gpu = gpu};
  if (pass_check_protocol(module, &context, &error)) fail_msg("passes without `%s`", fault->line);
  g_autofree char *message = error_to_text(error, false);
  if (!strstr(message, fault->says)) fail_msg("no `%s` in %s", fault->says, message);
  module->mechanisms = NULL;
}

static void test_checker_knows_it(void **state)
{
  (void)state;
  static const Broken faults[] = {{"        await @products[0] parity %phase\n", "", "product"},
                                  {"        commit products barrier @products[0] by warp\n", "", "deadlock"}};
  g_autoptr(Gpu) gpu = gpu_load(GPU, NULL);
  g_autofree Mechanism *rows = rows_with_pair(gpu);
  g_autofree char *text = staged_text(gpu, rows);
  for (unsigned i = 0; i < G_N_ELEMENTS(faults); i++)
    check_broken(text, gpu, rows, &faults[i]);
}

/* Each wait and each release that was derived, left out or kept to the own block. */
static void test_checker_follows_peers(void **state)
{
  (void)state;
  static const Broken faults[] = {
      {"        await @ab.full[%read] parity %read.phase\n", "", "is known to have filled it"},
      {"        arrive @ab_peers[%read] by role peer all\n", "", "deadlock"},
      {"@ab_peers[%read] by role peer all\n", "@ab_peers[%read] by role\n", "1 of 2 arrivals are missing"},
      {"        await @ab_peers[%read] parity %read.phase\n", "",
       "@consumer of block 0 reads @ab.b[0] of block 1"},
      {"        commit products barrier @products[0] by warp\n", "", "deadlock"},
      {"        await @products[0] parity %phase\n", "", "while a product of @consumer of block"},
      {"        arrive @ab.empty[%read] by warp peer all relaxed\n", "", "deadlock"},
      {"by warp peer all relaxed\n", "by warp relaxed\n", "2 of 4 arrivals are missing"},
      {"empty_arrivals 4", "empty_arrivals 2", "while a product of @consumer of block"},
      {"          await @ab.empty[%write] parity %write.phase ^ 1\n          expect", "          expect",
       "lacks only 0 of 1 arrivals"},
      {"        await @ab.empty[%write] parity %write.phase ^ 1\n        advance", "        advance",
       "may have exited before @consumer of block 1"},
      {"  cluster_wait\n", "", "before its initialisation is known"},
  };
  static const Broken
      own = {"by warp peer all relaxed\n", "by warp relaxed\n", ""},
      counted = {"empty_arrivals 4", "empty_arrivals 2",
                 "overwrites @ab.b[0] of block 1 in iteration 3 while a product of @consumer of block 0"};
  g_autoptr(Gpu) gpu = gpu_load(GPU, NULL);
  g_autofree Mechanism *rows = rows_with(gpu, two_blocks());
  g_autofree char *text = staged_two(gpu, rows);
  for (unsigned i = 0; i < G_N_ELEMENTS(faults); i++)
    check_broken(text, gpu, rows, &faults[i]);
  g_autoptr(GString) freed = g_string_new(text); /* each block frees its own slots, and counts no others */
  assert_int_equal(g_string_replace(freed, own.line, own.instead, 1), 1);
  check_broken(freed->str, gpu, rows, &counted);
}

static void test_checker_follows_peers_of_a(void **state)
{
  (void)state;
  static const Broken faults[] = {
      {"        await @ab_peers[%read] parity %read.phase\n", "",
       "@consumer of block 0 reads @ab.a[0] of block 1"},
      {"by warp peer all relaxed\n", "by warp relaxed\n", "2 of 4 arrivals are missing"},
      {"        await @products[0] parity %phase\n", "", "while a product of @consumer of block"},
  };
  g_autoptr(Gpu) gpu = gpu_load(GPU, NULL);
  g_autofree Mechanism *rows = rows_with(gpu, two_beside());
  g_autofree char *text = staged_beside(gpu, rows, "products: beside");
  for (unsigned i = 0; i < G_N_ELEMENTS(faults); i++)
    check_broken(text, gpu, rows, &faults[i]);
}

/* What the blocks owe each other where one issues for both. */
static void test_checker_follows_leader(void **state)
{
  (void)state;
  static const Broken faults[] = {
      {"        if cluster_rank() == 0 {\n          await @ab_peers[%read] parity %read.phase\n",
       "        if cluster_rank() == 1 {\n", "issues a product that the first of 2 blocks issues for all"},
      {"          await @ab_peers[%read] parity %read.phase\n", "",
       "adds to `%acc` of block 1, which may still use it"},
      {"        arrive @ab_peers[%read] by warp peer 0\n", "", "deadlock"},
      {"        await @ab.full[%read] parity %read.phase\n", "", "is known to have filled it"},
      {"by warp peer all\n", "by warp\n", "deadlock"},
      {"        await @products[0] parity %phase\n", "", "while a product of @consumer of block 0"},
      {"        await @products[0] parity %phase\n",
       "        if cluster_rank() == 0 {\n          await @products[0] parity %phase\n        }\n",
       "overwrites @ab.a[0] of block 1 in iteration 3 while a product of @consumer of block 0"},
      {"        arrive @ab.empty[%read] by warp\n", "", "deadlock"},
      {"  cluster_wait\n", "", "before its initialisation is known"},
  };
  g_autoptr(Gpu) gpu = gpu_load(GPU, NULL);
  g_autofree Mechanism *rows = rows_with(gpu, two_led());
  g_autofree char *clustered = clustered_text(), *text = staged_of(clustered, gpu, rows, "products: led");
  for (unsigned i = 0; i < G_N_ELEMENTS(faults); i++)
    check_broken(text, gpu, rows, &faults[i]);
}

/* Operands lie where the text says, and that is where the mechanism reads them. */
static void test_verifier_knows_places(void **state)
{
  (void)state;
  static const Broken faults[] = {
      {" cluster 2 ", " cluster 3 ", "reads peers' shared memory, a cluster has 3 blocks"},
      {" via two blocks 2", " via two", "takes a product by 2 blocks, not by 1"},
      {" via two blocks 2", " via warpgroup blocks 2", "takes a product by 1 blocks, not by 2"},
      {" via two blocks 2", " via two blocks 4", "takes a product by 2 blocks, not by 4"},
      {"in cells(2) = var 0", "in {register 128:1.1 | lane 32:0.1 | warp 2:0.32} = var 0",
       "does not keep its sum where this one lies"},
      {"tile @b: tile<bf16>[64, 64]", "tile @b: tile<bf16>[64, 128]", "shapes do not multiply"},
  };
  g_autoptr(Gpu) gpu = gpu_load(GPU, NULL);
  g_autofree Mechanism *rows = rows_with(gpu, two_blocks());
  g_autofree char *text = staged_two(gpu, rows);
  for (unsigned i = 0; i < G_N_ELEMENTS(faults); i++) {
    g_autoptr(GString) broken = g_string_new(text);
    assert_int_equal(g_string_replace(broken, faults[i].line, faults[i].instead, 1), 1);
    g_autoptr(IrModule) module = read_text(broken->str);
    module->mechanisms = rows;
    module->n_mechanisms = MECHANISM_COUNT + 1;
    g_autoptr(GError) error = NULL;
    if (ir_verify(module, "a careless pass", &error)) fail_msg("passes with `%s`", faults[i].instead);
    g_autofree char *message = error_to_text(error, false);
    assert_has(message, faults[i].says);
    module->mechanisms = NULL;
  }
}

/* A plan without such clusters, or a kernel that needs all of B in a block, takes the next mechanism. */
static void test_two_blocks_refused(void **state)
{
  (void)state;
  static const Broken texts[] = {
      {" cluster_m 2 {", " {", "they take 2 blocks below one another"},
      {" cluster_m 2 {", " cluster_m 4 {", "they take 2 blocks below one another"},
      {" cluster_m 2 {", " cluster_m 2 cluster_n 2 {", "they take 2 blocks below one another"},
      {"persistent 1 cluster_m 2 {", "cluster_m 2 pingpong 2 {", "in an order of their own"},
      {"raster(ceil_div(M, 64)", "raster(1", "more rows or columns of tiles than there are"},
  };
  g_autoptr(Gpu) gpu = gpu_load(GPU, NULL);
  g_autofree Mechanism *rows = rows_with(gpu, two_blocks());
  g_autofree char *text = clustered_text();
  for (unsigned i = 0; i < G_N_ELEMENTS(texts); i++) {
    g_autoptr(GString) other = g_string_new(text);
    g_autoptr(GString) remarks = g_string_new(NULL);
    g_autoptr(GError) error = NULL;
    assert_int_equal(g_string_replace(other, texts[i].line, texts[i].instead, 1), 1);
    g_autoptr(IrModule) module = read_text(other->str);
    assert_true(run_to(module, gpu, rows, "choose_mechanisms", remarks, &error));
    assert_has(remarks->str, texts[i].says);
    assert_has(remarks->str, "products: warpgroup, from shared memory"); /* the next row */
  }
}

static void test_blocks_beside_refused(void **state)
{
  (void)state;
  static const Broken texts[] = {
      {"cluster_n 2 {", "cluster_m 2 {", "they take 2 blocks beside one another"},
      {"take @ab {\n        mma %acc += @ab.a",
       "take @ab {\n        %a: tile<bf16>[64, 64] = get @ab.a\n        mma %acc += %a",
       "A lies in registers, which no peer reads"},
      {"      fill @ab.a <- A[%m * 64, %k]\n",
       "      fill @ab.a[0 .. 64, 0 .. 32] <- A[%m * 64, %k]\n      fill @ab.a[0 .. 64, 32 .. 64] <- A[%m * "
       "64, %k + 32]\n",
       "A is filled in several pieces"},
  };
  g_autoptr(Gpu) gpu = gpu_load(GPU, NULL);
  GpuProduct shape = pair_shape;
  Mechanism row = two_beside();
  shape.a_from_registers = true;
  row.shapes = &shape;
  g_autofree Mechanism *rows = rows_with(gpu, row);
  g_autofree char *text = text_with("cluster_n 2");
  for (unsigned i = 0; i < G_N_ELEMENTS(texts); i++) {
    g_autoptr(GString) other = g_string_new(text);
    g_autoptr(GString) remarks = g_string_new(NULL);
    g_autoptr(GError) error = NULL;
    assert_int_equal(g_string_replace(other, texts[i].line, texts[i].instead, 1), 1);
    g_autoptr(IrModule) module = read_text(other->str);
    if (!run_to(module, gpu, rows, "choose_mechanisms", remarks, &error)) fail_msg("%s", error->message);
    assert_has(remarks->str, texts[i].says);
  }
}

/* The back end of a GPU that has such products says how they are written: until there is one they end by name. */
static void test_no_lowering(void **state)
{
  (void)state;
  g_autoptr(Gpu) gpu = gpu_load(GPU, NULL);
  const Mechanism tried[] = {pair, two_blocks(), two_led()};
  for (unsigned i = 0; i < G_N_ELEMENTS(tried); i++) {
    g_autofree Mechanism *rows = rows_with(gpu, tried[i]);
    g_autofree char *text = i ? clustered_text() : g_strdup(tile_text);
    g_autoptr(GError) error = NULL;
    g_autoptr(IrModule) module = read_text(text);
    assert_false(run_to(module, gpu, rows, "lower", NULL, &error));
    g_autofree char *message = error_to_text(error, false);
    assert_has(message, "have no lowering");
    assert_int_equal(error->code, ERROR_UNSUPPORTED);
  }
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
                                     cmocka_unit_test(test_two_blocks_reach_staged),
                                     cmocka_unit_test(test_two_blocks_across),
                                     cmocka_unit_test(test_blocks_beside_divide_a),
                                     cmocka_unit_test(test_blocks_beside_across),
                                     cmocka_unit_test(test_either_operand),
                                     cmocka_unit_test(test_no_lowering),
                                     cmocka_unit_test(test_one_block_issues),
                                     cmocka_unit_test(test_checker_follows_leader),
                                     cmocka_unit_test(test_blocks_beside_refused),
                                     cmocka_unit_test(test_checker_follows_peers_of_a),
                                     cmocka_unit_test(test_checker_knows_it),
                                     cmocka_unit_test(test_checker_follows_peers),
                                     cmocka_unit_test(test_verifier_knows_places),
                                     cmocka_unit_test(test_two_blocks_refused),
                                     cmocka_unit_test(test_refusals),
                                     cmocka_unit_test(test_description_fills_rows),
                                     cmocka_unit_test(test_questions)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
