/* Ranges of rows that have a tile of their own: each tile is legal where it serves, few ranges suffice, and
 * the common numbers of rows have nearly the best tile of the cost model. */
#include "generator/choose/choose.h"
#include "generator/choose/gemm_ranges.h"
#include "generator/choose/gemm_space.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

typedef struct Product {
  Gpu *gpu;
  Graph *graph;
  Fusion *fusion;
  Spaces *spaces;
  Arena *arena;
  Chooser *chooser;
} Product;

/* y = A B^T in bf16 with open M, at most `longest`. */
static Product product(int64_t longest, unsigned n, unsigned k)
{
  GError *error = NULL;
  g_autofree char *text = g_strdup_printf("{name: p, dims: {M: {min: 1, max: %d}}, inputs: {A: {type: bf16, "
                                          "shape: [M, %u], align: 16}, B: {type: bf16, "
                                          "shape: [%u, %u], strides: [1, %u], align: 16}}, nodes: [{op: "
                                          "MatMul, inputs: [A, B], outputs: [D]}], outputs: [D]}",
                                          (int)longest, k, k, n, k);
  g_autoptr(Source) source = source_new("p", text, strlen(text));
  Product p = {.gpu = gpu_load("h100", &error), .arena = arena_new(), .chooser = g_new0(Chooser, 1)};
  assert_non_null(p.gpu);
  p.graph = graph_read(source, NULL, 0, &error);
  if (!p.graph) fail_msg("%s", error->message);
  p.fusion = choose_fusion(p.graph, p.gpu, NULL, &p.spaces, &error);
  if (!p.fusion) fail_msg("%s", error->message);
  Problem problem = problem_of(p.fusion->operators[0], p.graph, p.gpu, NULL, p.arena);
  problem.spaces = p.spaces;
  *p.chooser = (Chooser){.problem = arena_memdup(p.arena, &problem, sizeof problem), .error = &error};
  return p;
}

static void product_clear(Product *p)
{
  g_free(p->chooser);
  arena_free(p->arena);
  fusion_free(p->fusion);
  spaces_free(p->spaces);
  graph_free(p->graph);
  gpu_free(p->gpu);
}

static const GemmRange *range_of(const GArray *ranges, int64_t rows)
{
  for (unsigned i = 0; i + 1 < ranges->len; i++)
    if (rows <= g_array_index(ranges, GemmRange, i).most) return &g_array_index(ranges, GemmRange, i);
  return &g_array_index(ranges, GemmRange, ranges->len - 1);
}

static bool is_listed(const Product *p, const GemmCandidate *tile, int64_t rows, bool bounded)
{
  g_autoptr(GArray) list = gemm_candidates(p->chooser->problem, true, rows, bounded);
  for (unsigned i = 0; i < list->len; i++)
    if (gemm_candidate_same(&g_array_index(list, PricedCandidate, i).candidate, tile)) return true;
  return false;
}

static void check_ranges(const Product *p, const GArray *ranges, unsigned most)
{
  assert_in_range(ranges->len, 1, most);
  for (unsigned i = 0; i < ranges->len; i++) {
    const GemmRange *range = &g_array_index(ranges, GemmRange, i);
    if (i) assert_true(range->most > range[-1].most);
    if (i) assert_false(gemm_candidate_same(&range->tile, &range[-1].tile));
    if (!is_listed(p, &range->tile, range->most, i + 1 < ranges->len))
      fail_msg("range %u: %ux%u is not legal for %d rows", i, range->tile.bm, range->tile.bn,
               (int)range->most);
  }
}

static double loss(const Product *p, const GArray *ranges, int64_t rows)
{
  const GemmCandidate best = gemm_best_candidate(p->chooser, true, rows, true);
  return gemm_candidate_cost(p->chooser->problem, &range_of(ranges, rows)->tile, rows).total /
         gemm_candidate_cost(p->chooser->problem, &best, rows).total;
}

static unsigned kernels(const GArray *ranges)
{
  unsigned n = 0;
  for (unsigned i = 0; i < ranges->len; i++) {
    bool seen = false;
    for (unsigned j = 0; j < i; j++)
      seen |= gemm_candidate_same(&g_array_index(ranges, GemmRange, i).tile,
                                  &g_array_index(ranges, GemmRange, j).tile);
    n += !seen;
  }
  return n;
}

/* Time over that of the best tile: of powers of two each, of other rows on average. */
static void check_near(const Product *p, const GArray *ranges, double average)
{
  for (int64_t rows = 64; rows <= 8192; rows *= 2)
    if (loss(p, ranges, rows) > 1.08)
      fail_msg("%d rows take %.3f of the best tile's time", (int)rows, loss(p, ranges, rows));
  double sum = 0;
  unsigned n = 0;
  for (int64_t rows = 70; rows < 8000; rows += rows / 5 + 3, n++)
    sum += loss(p, ranges, rows);
  if (sum / n > average) fail_msg("%.3f of the best on average", sum / n);
}

static void test_near_the_best(void **state)
{
  static const unsigned shapes[][2] = {{4096, 4096}, {576, 7168},  {24576, 1536},
                                       {328, 1680},  {7168, 1208}, {3568, 5728}};
  for (unsigned i = 0; i < G_N_ELEMENTS(shapes); i++) {
    Product p = product(65536, shapes[i][0], shapes[i][1]);
    g_autoptr(GArray) few = gemm_ranges(p.chooser, true, 65536, 18);
    g_autoptr(GArray) many = gemm_ranges(p.chooser, true, 65536, 39);
    check_ranges(&p, few, 18);
    check_ranges(&p, many, 39);
    assert_in_range(kernels(many), 1, 19); /* ranges share them */
    check_near(&p, few, 1.13);
    check_near(&p, many, 1.05);
    product_clear(&p);
  }
}

static void test_few(void **state)
{
  for (unsigned most = 1; most <= 4; most++) {
    Product p = product(65536, 576, 7168);
    g_autoptr(GArray) ranges = gemm_ranges(p.chooser, true, 65536, most);
    check_ranges(&p, ranges, most);
    product_clear(&p);
  }
}

/* Where M cannot be more, the last range may have a tile that takes that for granted. */
static void test_bounded(void **state)
{
  Product p = product(100, 576, 7168);
  g_autoptr(GArray) ranges = gemm_ranges(p.chooser, true, 100, 18);
  const GemmRange *last = range_of(ranges, 100);
  assert_int_equal(last->most, 100);
  assert_true(last->tile.split_k > 1 || last->tile.stream_k > 1);
  product_clear(&p);
}

/* Few rows keep swapped operands (swap-AB), which read the large one once. */
static void test_few_rows(void **state)
{
  Product p = product(65536, 4096, 4096);
  g_autoptr(GArray) ranges = gemm_ranges(p.chooser, true, 65536, 18);
  for (int64_t rows = 1; rows <= 32; rows++) {
    const GemmCandidate *tile = &range_of(ranges, rows)->tile;
    assert_true(tile->swapped);
    assert_true(tile->bn >= rows);
  }
  product_clear(&p);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_near_the_best), cmocka_unit_test(test_few),
                                     cmocka_unit_test(test_bounded), cmocka_unit_test(test_few_rows)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
