/* Which ways to compute a matrix product are tried, in the order in which of equal ones the later is taken. */
#include "generator/choose/gemm_candidate.h"
#include "generator/choose/gemm_rules.h"
#include "generator/choose/gemm_slices.h"
#include "generator/choose/gemm_straddle.h"

static const unsigned group_rows[] = {64, 128, 192, 256};
#define COLUMNS_STEP 16
#define COLUMNS_MOST 256
static const unsigned splits[] = {1, 2, 3, 4, 5, 6, 7, 8};
/* D's columns by its rows, where the operands change places; so many blocks may share an SM. */
static const unsigned swapped_columns[] = {8, 16, 32, 64};
static const unsigned resident[] = {2, 1};
static const unsigned swapped_warp_rows[] = {32, 64};
static const unsigned warp_tiles[][2] = {{64, 32},   {64, 64},   {128, 64},  {64, 128},  {64, 256},
                                         {128, 128}, {256, 128}, {128, 256}, {192, 192}, {160, 256}};

/* Batches whose tiles end after a step or two: a block copies little while it starts and ends, so that of two
 * an SM hardly one has copies on their way. */
static bool is_short(const Problem *problem, const GemmCandidate *tile)
{
  const FusedGemm *gemm = gemm_of(problem->op);
  int64_t k, most = problem->gpu->model->short_steps * 2 * number_elements(gemm->a_type, 128);
  return tile->group && tile->split_k == 1 && gemm->n_batch && !gemm->dual &&
         symbolic_is_constant(gemm->k, &k) && k <= most;
}

/* What is asked of the operator and the GPU once, not for each tile of an enumeration; of warpgroup MMAs. */
typedef struct Space {
  bool reads;        /* they read the operands as they lie (gemm_group_reads) */
  bool across;       /* results can leave with operands swapped (swap-AB) (stores_across) */
  unsigned clusters; /* shapes of clusters that are tried (clusters_tried) */
} Space;

/* For few rows, known to be no more, all in one tile: the other operand passes once. Where operands have to
 * change places anyway also in several tiles: they spread the work over more blocks. */
static void append_swapped(const Problem *problem, GArray *list, const Space *space, GemmCandidate tile,
                           int64_t m)
{
  const CostModel *model = problem->gpu->model;
  unsigned most = tile.group && !space->reads ? model->thin_tiles : 1;
  tile.swapped = 1;
  for (unsigned c = 0; c < G_N_ELEMENTS(swapped_columns); c++)
    for (unsigned b = 0; b < G_N_ELEMENTS(resident) && m <= most * swapped_columns[c]; b++) {
      tile.bn = swapped_columns[c];
      tile.blocks = resident[b] > 1 && is_short(problem, &tile) ? model->short_blocks : resident[b];
      gemm_candidate_append(problem, list, tile, m);
    }
}

static void append_all_swapped(const Problem *problem, GArray *list, const Space *space, bool group,
                               int64_t m)
{
  GemmCandidate tile = {.group = group, .bm = SWAPPED_ROWS, .pingpong = 1, .cluster_m = 1, .cluster_n = 1};
  for (unsigned s = 0; group && s < G_N_ELEMENTS(splits); s++) {
    tile.split_k = splits[s];
    append_swapped(problem, list, space, tile, m);
  }
  for (unsigned r = 0; !group && r < G_N_ELEMENTS(swapped_warp_rows); r++) {
    tile.split_k = 1;
    tile.bm = swapped_warp_rows[r];
    append_swapped(problem, list, space, tile, m);
  }
}

static void append_walks(const Problem *problem, GArray *list, GemmCandidate candidate, int64_t m)
{
  gemm_candidate_append(problem, list, candidate, m);
  candidate.pingpong = 2;
  if (gemm_candidate_is_thin(&candidate)) return; /* its blocks have one tile each */
  if (candidate.split_k == 1 && candidate.bm <= 128 && !gemm_of(problem->op)->dual)
    gemm_candidate_append(problem, list, candidate, m);
}

/* Would a tile with swap-AB write whole lines, and read nothing else that lies along D's rows? */
static bool stores_across(const Problem *problem)
{
  const FusedOperator *op = problem->turned;
  unsigned column = op->rank - 1, row = op->rank - 2;
  for (unsigned i = 0; i < op->n_inputs; i++)
    if (!symbolic_equals(op->inputs[i].strides[row], 0) && !symbolic_equals(op->inputs[i].strides[column], 0))
      return false;
  for (unsigned i = 0; i < op->n_outputs; i++) {
    unsigned bytes = number_bytes(op->outputs[i].tensor->type);
    if (!op->outputs[i].strides[row]) return false; /* an operator that is weighed before it is fused */
    bool whole = symbolic_multiple(op->dims[row], &problem->graph->facts) * bytes % 16 == 0;
    if (op->outputs[i].reduced || !symbolic_equals(op->outputs[i].strides[row], 1) || bytes < 2 || !whole)
      return false;
  }
  return true;
}

/* Few columns of D and many of its rows: B reads less of shared memory than A, which each 64 rows of a
 * product read anew, so the longer side of a tile had better be columns, whichever of D's sides it is. */
static void append_exchanged(const Problem *problem, GArray *list, GemmCandidate candidate, int64_t m)
{
  candidate.swapped = 1;
  bool tall = candidate.bm > 128 && candidate.bn > MOST_THIN;
  if (tall || (candidate.bn >= candidate.bm && candidate.bm <= 128))
    append_walks(problem, list, candidate, m);
}

/* Clusters of so many blocks below and beside one another, where rows begin inside of sectors; where they begin
 * inside of lines only, the first ones. */
static const unsigned clusters[][2] = {{2, 1}, {1, 2}, {4, 1}, {1, 4}, {2, 2}, {4, 2}, {2, 4}};
#define LINE_CLUSTERS 2
#define SWIZZLE_ROWS  8 /* that a pattern of the widest swizzle has */

/* Are a block's parts of the copies whole patterns of the swizzle, and are there so many tiles? */
static bool suits_cluster(const Problem *problem, const GemmCandidate *candidate, int64_t m)
{
  int64_t n = choose_typical(problem, gemm_of(problem->op)->n);
  int64_t rows = candidate->swapped ? n : m, columns = candidate->swapped ? m : n;
  bool whole = candidate->bn % (SWIZZLE_ROWS * candidate->cluster_m) == 0 &&
               candidate->bm % (SWIZZLE_ROWS * candidate->cluster_n) == 0;
  return whole && rows > (int64_t)candidate->bm * (candidate->cluster_m - 1) &&
         columns > (int64_t)candidate->bn * (candidate->cluster_n - 1);
}

/* Do rows begin inside of sectors, so that an SM's copies take longer than their bytes? */
static bool straddles(const Gpu *gpu, const FusedGemm *gemm)
{
  return gemm_a_straddles(gpu, gemm) || gemm_b_straddles(gpu, gemm);
}

/* The first of `clusters` that none is tried of. */
static unsigned clusters_tried(const Problem *problem)
{
  const FusedGemm *gemm = gemm_of(problem->op);
  if (!gemm_shares_copies(problem->gpu)) return 0;
  if (straddles(problem->gpu, gemm)) return G_N_ELEMENTS(clusters);
  bool lines = gemm_a_lines(gemm) < WHOLE_LINES || gemm_b_lines(gemm) < WHOLE_LINES;
  return lines ? LINE_CLUSTERS : 0;
}

/* Blocks in clusters, which share copies, where copies are what the kernel waits for; elsewhere they gain
 * nothing, and exchanged ones neither where rows begin inside of lines only, nor tiles of few columns
 * (docs/performance-log.md). Operands change places where only so their layout suits the product, and may where
 * results can leave `across` (stores_across). */
static void append_group(const Problem *problem, GArray *list, const Space *space, unsigned bm, unsigned bn,
                         unsigned split, int64_t m)
{
  GemmCandidate candidate = {
      .group = true, .bm = bm, .bn = bn, .pingpong = 1, .cluster_m = 1, .cluster_n = 1, .split_k = split};
  candidate.swapped = problem->turned && !space->reads;
  if (gemm_candidate_is_thin(&candidate)) return; /* those are enumerated apart */
  append_walks(problem, list, candidate, m);
  bool exchanges = split == 1 && !candidate.swapped && space->across;
  if (exchanges) append_exchanged(problem, list, candidate, m);
  exchanges &= bn > MOST_THIN && straddles(problem->gpu, gemm_of(problem->op));
  if (split > 1 || candidate.swapped) return;
  for (unsigned i = 0; i < space->clusters; i++) {
    candidate.cluster_m = clusters[i][0];
    candidate.cluster_n = clusters[i][1];
    candidate.swapped = 0;
    if (suits_cluster(problem, &candidate, m)) append_walks(problem, list, candidate, m);
    candidate.swapped = 1;
    if (exchanges && suits_cluster(problem, &candidate, m)) append_exchanged(problem, list, candidate, m);
  }
}

/* In pairs on their SMs where they fit, since one multiplies while the other starts or ends; and alone. */
static void append_warp_tiles(const Problem *problem, GArray *list, int64_t m)
{
  const CostModel *model = problem->gpu->model;
  for (unsigned i = 0; i < G_N_ELEMENTS(warp_tiles); i++)
    for (unsigned blocks = 2; blocks >= 1; blocks--) {
      GemmCandidate tile = {.bm = warp_tiles[i][0],
                            .bn = warp_tiles[i][1],
                            .pingpong = 1,
                            .cluster_m = 1,
                            .cluster_n = 1,
                            .split_k = 1};
      tile.blocks = blocks;
      if (blocks == 1 || tile.bm * tile.bn <= model->shared_area)
        gemm_candidate_append(problem, list, tile, m);
    }
}

GArray *gemm_candidates(const Problem *problem, bool group, int64_t m, bool bounded)
{
  const CostModel *model = problem->gpu->model;
  GArray *list = g_array_new(FALSE, FALSE, sizeof(PricedCandidate));
  Space space = {0};
  if (group)
    space = (Space){.reads = gemm_group_reads(problem, gemm_of(problem->op)),
                    .across = problem->turned && stores_across(problem),
                    .clusters = clusters_tried(problem)};
  if (!group) append_warp_tiles(problem, list, m);
  for (unsigned s = 0; group && s < (bounded ? G_N_ELEMENTS(splits) : 1); s++)
    for (unsigned r = 0; r < G_N_ELEMENTS(group_rows); r++)
      for (unsigned bn = COLUMNS_STEP; bn <= COLUMNS_MOST; bn += COLUMNS_STEP)
        append_group(problem, list, &space, group_rows[r], bn, splits[s], m);
  for (unsigned r = 0; group && bounded && r < G_N_ELEMENTS(group_rows); r++)
    for (unsigned bn = COLUMNS_STEP; bn <= COLUMNS_MOST; bn += COLUMNS_STEP)
      gemm_append_streams(problem, list, true, group_rows[r], bn, m);
  /* fragments that are rounded take registers of their own */
  unsigned streamed =
      number_bytes_of(gemm_of(problem->op)->a_type, 1) > 2 ? model->streamed_area / 2 : model->streamed_area;
  for (unsigned i = 0; !group && bounded && i < G_N_ELEMENTS(warp_tiles); i++)
    if (warp_tiles[i][0] * warp_tiles[i][1] <= streamed && warp_tiles[i][1] <= model->streamed_columns)
      gemm_append_streams(problem, list, false, warp_tiles[i][0], warp_tiles[i][1], m);
  for (unsigned i = 0; !group && i < G_N_ELEMENTS(warp_tiles); i++)
    if (warp_tiles[i][0] * warp_tiles[i][1] > model->walked_area && warp_tiles[i][0] < warp_tiles[i][1])
      gemm_append_even(problem, list, warp_tiles[i][0], warp_tiles[i][1], m);
  if (bounded && problem->turned) append_all_swapped(problem, list, &space, group, m);
  if (bounded && group) gemm_append_slices(problem, list, m);
  return list;
}
