/* What choosing believes of a tile before there is a kernel is a bound of what the real passes make of it, and the
 * finalists that the passes judge include the best: every candidate of every product of the catalogue is run dry, and
 * every tile that bounds rule out. */
#include "catalog/catalog.h"
#include "generator/choose/choose.h"
#include "generator/choose/gemm_bound.h"
#include "generator/choose/gemm_memo.h"
#include "generator/choose/gemm_space.h"
#include "generator/choose/gemm_variant.h"
#include "generator/compile/dry_run.h"
#include "generator/program/family.h"
#include "generator/program/gemm.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const int64_t open_rows[] = {24, 300, 3000}; /* where they are known at launch only: one in turn */

typedef struct {
  const Gpu *gpu;
  const Graph *graph;
  Spaces *spaces;
  KernelLibraries *libraries;
  const char *name;
  unsigned products, seen, runs, refused, fewer, ruled_out;
} Trial;

/* The passes' word, without a limit on how often they may be asked. */
static DrySummary ask(const Trial *trial, const Problem *problem, const GemmCandidate *candidate)
{
  DrySummary summary = {0};
  Choice choice;
  DryRunner runner = {trial->gpu, NULL, trial->libraries, NULL};
  assert_true(gemm_variant_dry(problem, &choice, candidate));
  compile_dry_run(problem->op, trial->graph, &choice, &summary, &runner);
  return summary;
}

static void check_bounds(const Trial *trial, const Problem *problem, const GemmCandidate *candidate,
                         const DrySummary *summary)
{
  unsigned least = gemm_least_shared(problem, candidate), staging = gemm_least_staging(problem, candidate);
  bool staged = candidate->warpgroups && !candidate->once && !summary->direct_stores && candidate->stages > 2;
  if (!staged) staging = 0; /* results lie in the ring's slots, or go straight from registers */
  unsigned sums = candidate->warpgroups ? gemm_least_sums(problem, candidate) : 0,
           registers = candidate->warpgroups ? gemm_most_registers(trial->gpu, candidate) : G_MAXUINT;
  if (least + staging <= summary->shared_bytes && sums <= summary->sums && registers >= summary->registers)
    return;
  fail_msg(
      "%s: %ux%ux%u, %u slots: %u + %u bytes of shared memory are no bound of %u, or sums %u of %u, or %u "
      "registers of %u",
      trial->name, candidate->bm, candidate->bn, candidate->bk, candidate->stages, least, staging,
      summary->shared_bytes, sums, summary->sums, registers, summary->registers);
}

/* What a candidate costs once the passes have had their say; negative: they refuse it. */
static double judged_clocks(Trial *trial, const Problem *problem, const PricedCandidate *priced, int64_t m)
{
  GemmCandidate within = gemm_candidate_within(problem, priced->candidate, m);
  for (;; within.stages--) {
    DrySummary summary = ask(trial, problem, &within);
    bool again = summary.crowded && within.stages > 2;
    bool taken = !gemm_refusal(problem, &within, &summary);
    trial->runs++;
    trial->refused += !taken;
    trial->fewer += again;
    g_free(summary.why);
    if (taken) check_bounds(trial, problem, &within, &summary);
    if (!again) return taken ? gemm_candidate_cost_within(problem, &within, m).total : -1;
  }
}

/* Tiles beyond what is tried, with the least slots: what bounds rule out the passes must. */
static void check_ruled_out(Trial *trial, const Problem *problem)
{
  static const unsigned rows[] = {64, 128, 192, 256, 384};
  for (unsigned i = 0; i < G_N_ELEMENTS(rows); i++)
    for (unsigned bn = 32; bn <= 256; bn += 32)
      for (unsigned more = 0; more < 4; more++) {
        GemmCandidate tile = {.warpgroups = true,
                              .bm = rows[i],
                              .bn = bn,
                              .pingpong = 1,
                              .cluster_m = 1,
                              .cluster_n = 1,
                              .split_k = 1};
        if (more == 1) tile.pingpong = 2;
        if (more > 1) tile.split_k = 2 * more;
        tile = gemm_candidate(problem, tile, true);
        tile.stages = 2;
        if (gemm_candidate_fits(problem, &tile) && gemm_bound_admits(problem, &tile)) continue;
        DrySummary summary = ask(trial, problem, &tile);
        trial->ruled_out++;
        if (!gemm_refusal(problem, &tile, &summary))
          fail_msg("%s: %ux%u, turns %u, split_k %u is ruled out, but the passes take it: %u bytes",
                   trial->name, tile.bm, tile.bn, tile.pingpong, tile.split_k, summary.shared_bytes);
        g_free(summary.why);
      }
}

static void check_product(Trial *trial, const Problem *problem, int64_t m, bool bounded)
{
  GError *error = NULL;
  bool group = gemm_warpgroups_possible(problem);
  Choice fast = {0};
  if (!gemm_require_fast(problem, &fast, group, true)) return;
  g_autoptr(GArray) list = gemm_candidates(problem, group, m, bounded);
  double best = INFINITY;
  for (unsigned i = 0; i < list->len; i++) {
    double clocks = judged_clocks(trial, problem, &g_array_index(list, PricedCandidate, i), m);
    if (clocks >= 0 && clocks < best) best = clocks;
  }
  DryRunner runner = {trial->gpu, NULL, trial->libraries, NULL};
  g_autoptr(DryRuns) dry = dry_runs_new(problem->op, trial->graph, compile_dry_run, &runner);
  Problem judged = *problem;
  judged.dry = dry;
  Chooser *chooser = g_new0(Chooser, 1);
  *chooser = (Chooser){.problem = &judged, .error = &error};
  GemmCandidate chosen = gemm_cheapest(chooser, group, list, m);
  GemmCandidate within = gemm_candidate_within(problem, chosen, m);
  within.stages = MIN(within.stages, MAX(chosen.stages, within.once ? within.stages : 0));
  double clocks = gemm_candidate_cost_within(problem, &within, m).total;
  unsigned asked = dry_runs_count(dry);
  g_free(chooser);
  if (list->len && clocks > best * 1.0011)
    fail_msg("%s: %ux%u with %.0f clocks was chosen, the passes take one of %.0f", trial->name, chosen.bm,
             chosen.bn, clocks, best);
  assert_true(asked <= DRY_RUNS_MOST);
  if (group && gemm_warpgroups_read(problem, gemm_of(problem->op)) && gemm_of(problem->op)->products == 1)
    check_ruled_out(trial, problem);
  trial->products++;
}

static void check_operator(Trial *trial, const FusedOperator *op)
{
  Arena *arena = arena_new();
  Problem problem = problem_of(op, trial->graph, trial->gpu, NULL, arena);
  problem.spaces = trial->spaces;
  int64_t m, open = open_rows[trial->seen++ % G_N_ELEMENTS(open_rows)];
  bool known = symbolic_is_constant(gemm_of(op)->m, &m);
  if (!known) m = MIN(open, choose_maximum(&problem, gemm_of(op)->m));
  problem.memo = gemm_memo_new(&problem);
  if (m > 0 && (gemm_warpgroups_possible(&problem) || gemm_warp_possible(&problem)))
    check_product(trial, &problem, m, true);
  gemm_memo_free(problem.memo);
  arena_free(arena);
}

static void check_graph(Trial *trial, const CatalogGraph *described)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(Source) source = source_new(described->name, described->text, strlen(described->text));
  g_autoptr(Graph) graph = graph_read(source, NULL, 0, &error);
  if (!graph) fail_msg("%s: %s", described->name, error->message);
  g_autoptr(Fusion) fusion = choose_fusion(graph, trial->gpu, NULL, NULL, &error);
  trial->graph = graph;
  trial->name = described->name;
  for (unsigned i = 0; fusion && i < fusion->n; i++)
    if (fusion->operators[i]->family->ranges) check_operator(trial, fusion->operators[i]);
}

static void test_catalog(void **state)
{
  g_autoptr(GError) error = NULL;
  g_autofree char *path = g_build_filename(getenv("ADLGEN_SOURCE_ROOT"), "catalog.json", NULL);
  g_autoptr(Catalog) catalog = catalog_read(path, &error);
  if (!catalog) fail_msg("%s", error->message);
  Trial trial = {.spaces = choose_spaces(&error), .libraries = kernel_libraries_read(false, &error)};
  assert_true(trial.spaces && trial.libraries);
  for (unsigned g = 0; catalog->gpus[g]; g++) {
    Gpu *gpu = gpu_load(catalog->gpus[g], &error);
    assert_non_null(gpu);
    trial.gpu = gpu;
    for (unsigned i = 0; i < catalog->graphs->len; i++) {
      const CatalogGraph *graph = catalog->graphs->pdata[i];
      if (graph->gpus >> g & 1 && !(graph->sets && *graph->sets)) check_graph(&trial, graph);
    }
    gpu_free(gpu);
  }
  spaces_free(trial.spaces);
  kernel_libraries_free(trial.libraries);
  print_message(
      "%u products of %u, %u candidates run dry: %u refused, %u with fewer slots; %u tiles ruled out\n",
      trial.products, trial.seen, trial.runs, trial.refused, trial.fewer, trial.ruled_out);
  assert_true(trial.products > 100 && trial.ruled_out > 100);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_catalog)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
