#include "generator/choose/gemm_slices.h"

/* ---- Streams ---- */

static const unsigned streams[] = {2, 3, 4}; /* ascending */

/* Tiles whose k is divided evenly among blocks that are no cluster: where all blocks run at once, so that
 * those of one portion walk k in step (docs/gemm.md, "Streams"). */
void gemm_append_streams(const Problem *problem, GArray *list, bool group, unsigned bm, unsigned bn,
                         int64_t m)
{
  const FusedGemm *gemm = gemm_of(problem->op);
  int64_t columns, depth;
  bool plain = !gemm->dual && !gemm->n_batch;
  if (!plain || !symbolic_is_constant(gemm->n, &columns) || !symbolic_is_constant(gemm->k, &depth)) return;
  int64_t tiles = ((m + bm - 1) / bm) * ((columns + bn - 1) / bn), sms = gemm_candidate_sms(problem);
  if (tiles * streams[0] > sms) return;
  GemmCandidate tile = {
      .group = group, .bm = bm, .bn = bn, .pingpong = 1, .cluster_m = 1, .cluster_n = 1, .split_k = 1};
  tile = gemm_candidate(problem, tile, true);
  for (unsigned i = 0; i < G_N_ELEMENTS(streams) && tiles * streams[i] <= sms; i++) {
    tile.stream_k = streams[i];
    tile.stream_steps =
        (unsigned)((depth + (int64_t)tile.bk * streams[i] - 1) / ((int64_t)tile.bk * streams[i]));
    gemm_candidate_append(problem, list, tile, m);
  }
}

/* Tiles that follow one another, of which the last wave and what is beyond it are divided evenly: threads
 * that copy do not mind where their neighbours stand in k. */
void gemm_append_even(const Problem *problem, GArray *list, unsigned bm, unsigned bn, int64_t m)
{
  const CostModel *model = problem->gpu->model;
  const FusedGemm *gemm = gemm_of(problem->op);
  int64_t columns, depth;
  bool plain = !gemm->dual && !gemm->n_batch && !fused_is_reduced(problem->op);
  plain &= gemm->b_n_major; /* measured: rows along k are fetched a line at a time, and lose out of step */
  if (!plain || !symbolic_is_constant(gemm->n, &columns) || !symbolic_is_constant(gemm->k, &depth)) return;
  GemmCandidate tile = {
      .bm = bm, .bn = bn, .pingpong = 1, .cluster_m = 1, .cluster_n = 1, .split_k = 1, .blocks = 1};
  tile = gemm_candidate(problem, tile, true);
  int64_t tiles = ((m + bm - 1) / bm) * ((columns + bn - 1) / bn), steps = (depth + tile.bk - 1) / tile.bk;
  tile.stream_k = 2;
  tile.stream_steps = model->even_grain;
  if (tiles * tile.stream_k > gemm_candidate_sms(problem) && steps >= 2 * model->even_grain)
    gemm_candidate_append(problem, list, tile, m);
}

/* ---- Slices ---- */

/* A ladder, so that ranges of rows may share a kernel; a warp has 32 lanes to wait for parts. */
static const unsigned numbers[] = {2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12,
                                   13, 14, 16, 18, 20, 22, 26, 32, 33, 44, 66};
/* Tiles, (rows, columns, clusters below one another, beside one another) */
static const unsigned rows[] = {64, 128, 192, 256}, thin_columns[] = {8, 16, 32};
static const unsigned clusters[][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}};
#define COLUMNS_STEP 16
#define COLUMNS_MOST 256
#define THIN_ROWS    64

/* Are all tiles of one product, of which it is known how many there are? Under a budget of SMs all blocks
 * walk, and none waits for another one's slice. */
static bool may_slice(const Problem *problem)
{
  const FusedGemm *gemm = gemm_of(problem->op);
  bool budget = problem->options && problem->options->sm_budget;
  return !budget && !gemm->dual && !gemm->n_batch && !fused_is_reduced(problem->op) &&
         symbolic_is_constant(gemm->n, NULL) && symbolic_is_constant(gemm->k, NULL);
}

static void append_numbers(const Problem *problem, GArray *list, GemmCandidate tile, int64_t m)
{
  const CostModel *model = problem->gpu->model;
  bool thin = gemm_candidate_is_thin(&tile);
  unsigned tried = 0, least = thin ? model->slices_least_thin : model->slices_least;
  if (tile.bm * tile.bn >= model->sliced_area && problem->op->n_inputs > 2) return;
  double tiles = gemm_candidate_tiles(problem, &tile, m);
  if (tiles * least > problem->gpu->sm_count) return;
  int64_t steps = choose_typical(problem, gemm_of(problem->op)->k) / gemm_candidate(problem, tile, true).bk;
  for (unsigned i = G_N_ELEMENTS(numbers); i-- > 0 && tried < model->slices_tried;) {
    tile.slices = numbers[i];
    if (tile.slices < least) return;
    if (tiles * tile.slices > problem->gpu->sm_count) continue;
    if (steps < (int64_t)(thin ? model->slice_steps_thin : model->slice_steps) * tile.slices) continue;
    tried++;
    gemm_candidate_append(problem, list, tile, m);
  }
}

/* Blocks that are at the same k may share copies. */
static void append_clusters(const Problem *problem, GArray *list, GemmCandidate tile, int64_t m)
{
  int64_t columns = choose_typical(problem, gemm_of(problem->op)->n);
  for (unsigned i = 0; i < G_N_ELEMENTS(clusters); i++) {
    tile.cluster_m = clusters[i][0];
    tile.cluster_n = clusters[i][1];
    bool several =
        m > (int64_t)tile.bm * (tile.cluster_m - 1) && columns > (int64_t)tile.bn * (tile.cluster_n - 1);
    if (several) append_numbers(problem, list, tile, m);
  }
}

void gemm_append_slices(const Problem *problem, GArray *list, int64_t m)
{
  GemmCandidate tile = {.group = true, .pingpong = 1, .cluster_m = 1, .cluster_n = 1, .split_k = 1};
  if (!may_slice(problem)) return;
  for (unsigned r = 0; r < G_N_ELEMENTS(rows); r++)
    for (unsigned bn = COLUMNS_STEP; bn <= COLUMNS_MOST; bn += COLUMNS_STEP) {
      tile.bm = rows[r];
      tile.bn = bn;
      append_clusters(problem, list, tile, m);
    }
  tile.swapped = 1;
  tile.bm = THIN_ROWS;
  tile.blocks = 1;
  for (unsigned c = 0; problem->turned && c < G_N_ELEMENTS(thin_columns); c++) {
    tile.bn = thin_columns[c];
    if (m <= thin_columns[c]) append_numbers(problem, list, tile, m);
  }
}
