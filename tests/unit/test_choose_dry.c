/* Finalists are shown to the passes: what these refuse is not chosen, what they take with fewer slots is priced so, each
 * candidate is shown once, and so many at most. The passes are stand-ins here; tests/unit/test_catalog_bounds.c has the
 * real ones. */
#include "generator/choose/choose.h"
#include "generator/choose/gemm_space.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

typedef struct {
  unsigned wide, most_stages; /* refused: tiles at least so wide; crowded: more stages */
  unsigned runs;
} Passes;

static void judge(const FusedOperator *op, const Graph *graph, const Choice *choice, DrySummary *summary,
                  void *data)
{
  Passes *passes = data;
  bool wide = choice_int(choice, "bn", 0) >= passes->wide,
       crowded = choice_int(choice, "stages", 0) > passes->most_stages;
  passes->runs++;
  *summary = (DrySummary){.legal = !wide && !crowded,
                          .crowded = !wide && crowded,
                          .why = wide || crowded ? g_strdup("so it is") : NULL,
                          .pingpong = (unsigned)choice_int(choice, "pingpong", 1),
                          .registers = G_MAXUINT};
}

typedef struct {
  GemmCandidate tile;
  double clocks;
  unsigned runs;
  char *explain;
} Chosen;

static const char text[] = "{name: p, inputs: {A: {type: bf16, shape: [4096, 4096], align: 16}, B: {type: "
                           "bf16, shape: [4096, 4096], "
                           "align: 16}}, nodes: [{op: MatMul, inputs: [A, B], outputs: [D]}], outputs: [D]}";

/* passes: NULL, nobody can be asked. */
static Chosen choose(Passes *passes)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(Source) source = source_new("p", text, strlen(text));
  g_autoptr(Graph) graph = graph_read(source, NULL, 0, &error);
  g_autoptr(Spaces) spaces = choose_spaces(&error);
  Gpu *gpu = gpu_load("h100", &error);
  assert_non_null(graph);
  assert_true(gpu && spaces);
  g_autoptr(Fusion) fusion = choose_fusion(graph, gpu, NULL, NULL, &error);
  Arena *arena = arena_new();
  Problem problem = problem_of(fusion->operators[0], graph, gpu, NULL, arena);
  g_autoptr(DryRuns) dry = passes ? dry_runs_new(problem.op, graph, judge, passes) : NULL;
  g_autoptr(GString) explain = g_string_new(NULL);
  problem.spaces = spaces;
  problem.dry = dry;
  g_autofree Chooser *chooser = g_new0(Chooser, 1);
  *chooser = (Chooser){.problem = &problem, .error = &error, .explain = explain};
  Chosen chosen = {.tile = gemm_best_candidate(chooser, true, 4096, true)};
  chosen.clocks = gemm_candidate_cost_within(&problem, &chosen.tile, 4096).total;
  chosen.runs = dry ? dry_runs_count(dry) : 0;
  chosen.explain = g_strdup(explain->str);
  arena_free(arena);
  gpu_free(gpu);
  return chosen;
}

static void test_taken(void **state)
{
  Passes passes = {.wide = G_MAXUINT, .most_stages = G_MAXUINT};
  Chosen bound = choose(NULL), judged = choose(&passes);
  assert_true(gemm_candidate_same(&bound.tile, &judged.tile));
  assert_int_equal(bound.tile.stages, judged.tile.stages);
  assert_int_equal(passes.runs, 1);
  assert_null(strstr(judged.explain, "left out"));
  g_free(bound.explain);
  g_free(judged.explain);
}

static void test_refused(void **state)
{
  Passes passes = {.wide = 128, .most_stages = G_MAXUINT};
  Chosen bound = choose(NULL), judged = choose(&passes);
  assert_true(bound.tile.bn >= 128 && judged.tile.bn < 128);
  assert_true(judged.clocks > bound.clocks);
  assert_int_equal(passes.runs, judged.runs);
  assert_non_null(strstr(judged.explain, "left out: so it is"));
  g_free(bound.explain);
  g_free(judged.explain);
}

static void test_crowded(void **state)
{
  Passes passes = {.wide = G_MAXUINT, .most_stages = 3};
  Chosen bound = choose(NULL), judged = choose(&passes);
  assert_true(bound.tile.stages > 3);
  assert_in_range(judged.tile.stages, 2, 3);
  assert_true(judged.clocks >= bound.clocks);
  g_free(bound.explain);
  g_free(judged.explain);
}

/* Who refuses everything is asked so often and no more; then the simplest tile is taken, whatever was not shown. */
static void test_limit(void **state)
{
  Passes passes = {.wide = 0, .most_stages = G_MAXUINT};
  Chosen judged = choose(&passes);
  assert_int_equal(passes.runs, DRY_RUNS_MOST);
  assert_int_equal(judged.runs, DRY_RUNS_MOST);
  assert_int_equal(judged.tile.bm, 64);
  assert_int_equal(judged.tile.bn, 64);
  assert_true(judged.tile.split_k <= 1 && judged.tile.slices <= 1 && judged.tile.stream_k <= 1);
  g_free(judged.explain);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_taken), cmocka_unit_test(test_refused),
                                     cmocka_unit_test(test_crowded), cmocka_unit_test(test_limit)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
