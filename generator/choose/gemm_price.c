/* What a candidate costs: the product and its tile as the cost model sees them. */
#include "generator/choose/gemm_candidate.h"
#include "generator/choose/gemm_memo.h"

#define SCALE_CHUNK 64 /* columns that have one scale of two (templates/gemm_blocks.ir, chunk) */

/* The candidate and its product as the cost model sees them. */
typedef struct Priced {
  CostGemm shape;
  CostTile tile;
} Priced;

/* Do an operand's copies end with the tensor? clip_copies leaves alone what lies across k where the blocks of
 * a cluster divide it, and (gemm.ir) tiles whose sums blocks leave in memory; of rows that blocks divide,
 * less than a block's part then lies outside. */
static bool clips(const GemmCandidate *candidate, bool across_k, unsigned sharers)
{
  return candidate->warpgroups && candidate->stream_k <= 1 && (!across_k || sharers <= 1);
}

/* With so many rows, and the SMs that find partners for the candidate's clusters: not every one has so many. */
static CostGemm shape_for(const Problem *problem, const GemmCandidate *candidate, int64_t m)
{
  CostGemm shape = gemm_memo_shape(problem, candidate->swapped);
  *(candidate->swapped ? &shape.n : &shape.m) = MAX(1, m);
  unsigned blocks = MAX(1, candidate->cluster_m) * MAX(1, candidate->cluster_n);
  if (blocks > 1) shape.sms = MAX(1, blocks * gemm_memo_clusters(problem, blocks));
  return shape;
}

/* Columns of a tile's A: of the weights of each product where these are exchanged. */
static unsigned priced_rows(const Problem *problem, const GemmCandidate *candidate)
{
  return candidate->bm * (candidate->swapped ? gemm_products(problem) : 1);
}

/* Blocks that take parts of one tile's k, in whichever way. */
static unsigned sharers(const GemmCandidate *candidate)
{
  return MAX(MAX(candidate->split_k, candidate->stream_k), candidate->slices);
}

static Priced priced_shape(const Problem *problem, const GemmCandidate *candidate, int64_t m)
{
  const FusedGemm *gemm = gemm_of(gemm_candidate_operator(problem, candidate));
  Priced priced = {.shape = shape_for(problem, candidate, m),
                   .tile = {.bm = priced_rows(problem, candidate),
                            .bn = candidate->bn,
                            .bk = candidate->bk,
                            .stages = candidate->stages,
                            .pingpong = candidate->pingpong,
                            .split_k = sharers(candidate),
                            .reducers = gemm_candidate_owners(problem, candidate),
                            .streamed = candidate->stream_k > 1,
                            .sliced = candidate->slices > 1,
                            .stream_steps = candidate->stream_steps,
                            .cluster_m = candidate->cluster_m,
                            .cluster_n = candidate->cluster_n,
                            .blocks = candidate->blocks,
                            .walks = gemm_candidate_walks(problem, candidate),
                            .threads_copy = !candidate->warpgroups && !candidate->by_warps,
                            .by_warps = candidate->by_warps,
                            .k_parts = candidate->k_parts,
                            .copy_bytes = problem->copy_bytes,
                            .widens = gemm->narrow,
                            .widens_across = gemm->narrow && gemm->a_m_major,
                            .promote = candidate->promote,
                            .two_scales = gemm->scaled && gemm->b_width > 1 && gemm->b_width % candidate->bn,
                            .short_chunks = candidate->bn % SCALE_CHUNK != 0,
                            .parts_m = candidate->parts_m,
                            .warpgroups_n = candidate->warpgroups_n,
                            .exchanged = candidate->swapped,
                            .clips_rows = clips(candidate, gemm->a_m_major, candidate->cluster_n),
                            .clips_columns = clips(candidate, gemm->b_n_major, candidate->cluster_m),
                            .through_registers = gemm_through_registers(problem, candidate)}};
  return priced;
}

static CostReport price(const Problem *problem, const GemmCandidate *candidate, const Priced *priced)
{
  if (gemm_candidate_is_thin(candidate)) return cost_stream_gemm(problem->gpu, &priced->shape, &priced->tile);
  CostReport cost = candidate->warpgroups ? cost_warpgroup_gemm(problem->gpu, &priced->shape, &priced->tile)
                                          : cost_warp_gemm(problem->gpu, &priced->shape, &priced->tile);
  bool beside = candidate->cluster_n > 1 && candidate->cluster_m <= 1 && cost.waves <= 1;
  const CostModel *model = problem->gpu->model;
  if (candidate->swapped) cost.total *= beside ? model->exchanged_across : model->exchanged;
  return cost;
}

CostReport gemm_candidate_cost_within(const Problem *problem, const GemmCandidate *within, int64_t m)
{
  Priced priced = priced_shape(problem, within, m);
  return price(problem, within, &priced);
}

CostReport gemm_candidate_cost(const Problem *problem, const GemmCandidate *candidate, int64_t m)
{
  GemmCandidate within = gemm_candidate_within(problem, *candidate, m);
  return gemm_candidate_cost_within(problem, &within, m);
}

unsigned gemm_candidate_slots(const Problem *problem, const GemmCandidate *candidate, int64_t m)
{
  if (!candidate->warpgroups || gemm_candidate_is_thin(candidate)) return candidate->stages;
  Priced priced = priced_shape(problem, candidate, MIN(m, (int64_t)problem->gpu->model->many_rows));
  return MIN(candidate->stages, cost_slots(problem->gpu, &priced.shape, &priced.tile));
}

unsigned gemm_candidate_pace(const Problem *problem, const GemmCandidate *candidate, int64_t m)
{
  const CostModel *model = problem->gpu->model;
  Priced priced = priced_shape(problem, candidate, m);
  bool turns = candidate->warpgroups && candidate->pingpong > 1;
  if (!turns) return 0;
  if (cost_paces(problem->gpu, &priced.shape, &priced.tile)) return model->pace_turns;
  return cost_has_arithmetic(problem->gpu->model, &priced.shape) ? model->pace_bound : 0;
}

unsigned gemm_candidate_raster(const Problem *problem, const GemmCandidate *candidate, int64_t m)
{
  const CostModel *model = problem->gpu->model;
  Priced priced = priced_shape(problem, candidate, m);
  if (candidate->warpgroups) return cost_raster(problem->gpu, &priced.shape, &priced.tile);
  /* half of a square of tiles twice as wide as high; gains 0.4 % of 8192 rows (docs/performance-log.md) */
  unsigned usual = model->usual_raster;
  bool wide = candidate->bn > candidate->bm, many = m >= (int64_t)model->many_bands * usual * candidate->bm;
  return wide && many ? 2 * usual : usual;
}

/* Does how often a tile comes rule it out, whatever its stages are and its price? */
static bool comes_too_often(const Problem *problem, const GemmCandidate *tile, int64_t m)
{
  const CostGemm shape = shape_for(problem, tile, m);
  const CostTile counted = {.bm = priced_rows(problem, tile),
                            .bn = tile->bn,
                            .cluster_m = tile->cluster_m,
                            .cluster_n = tile->cluster_n};
  bool thin = gemm_candidate_is_thin(tile), shared = tile->warpgroups || thin || tile->stream_k > 1;
  CostReport count = cost_waves(problem->gpu->model, &shape, &counted, shared ? MAX(1, sharers(tile)) : 1,
                                thin ? MAX(1, tile->blocks) : 1);
  if (tile->pingpong > 1 && count.waves <= 1) return true; /* nobody to take turns with */
  /* measured: blocks beside one another gain where all run at once, and lose where tiles follow one another, but for those of
   * parts of rows, which gain 2 % */
  bool parts = tile->parts_m > 1;
  if (tile->cluster_n > 1 && !parts && count.waves > 1 && !(shape.a_straddles || shape.b_straddles))
    return true;
  /* of four also where few tiles follow one another */
  if (tile->cluster_m > 2 && count.waves > problem->gpu->model->cluster_waves) return true;
  /* a split kernel starts anew for each wave */
  return tile->split_k > 1 &&
         count.tiles > (double)gemm_memo_clusters(problem, tile->split_k) * MAX(1, tile->blocks);
}

void gemm_candidate_append(const Problem *problem, GArray *list, GemmCandidate tile, int64_t m)
{
  PricedCandidate priced = {0};
  if (comes_too_often(problem, &tile, m)) return;
  if (!gemm_memo_complete(problem, tile, &priced.candidate)) return;
  if (priced.candidate.warpgroups_n > 1)
    return; /* for those who measure: nothing is known of its price yet */
  /* a budget of SMs is kept by launching no more blocks than that */
  if (tile.blocks > 1 && problem->options && problem->options->sm_budget) return;
  GemmCandidate within = gemm_candidate_within(problem, priced.candidate, m);
  priced.cost = gemm_candidate_cost_within(problem, &within, m);
  g_array_append_val(list, priced);
}

bool gemm_candidate_listed(const GArray *list, const GemmCandidate *candidate)
{
  for (unsigned i = 0; i < list->len; i++)
    if (gemm_candidate_same(&g_array_index(list, PricedCandidate, i).candidate, candidate)) return true;
  return false;
}

void gemm_candidate_append_measured(const Problem *problem, GArray *list, GemmCandidate tile, int64_t m)
{
  PricedCandidate priced = {.candidate = gemm_candidate(problem, tile, true)};
  if (!gemm_candidate_legal(problem, &priced.candidate)) return;
  priced.cost = gemm_candidate_cost(problem, &priced.candidate, m);
  if (gemm_candidate_is_thin(&tile)) priced.cost.total *= problem->gpu->model->thin_handicap;
  if (!gemm_candidate_listed(list, &priced.candidate)) g_array_append_val(list, priced);
}
