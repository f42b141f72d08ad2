#include "generator/choose/gemm_candidate.h"
#include "generator/choose/gemm_bound.h"
#include "generator/choose/gemm_rules.h"
#include "generator/choose/gemm_space.h"
#include "generator/kernel/steps.h"
#include "ir/mechanism.h"
#include "ir/resources.h"

/* Are steps of `depth` no waste at the end of k, where copies are a few bytes each? */
static bool wants_whole_rows(const Problem *problem, int64_t depth)
{
  int64_t k, half = depth / 2;
  if (!symbolic_is_constant(gemm_of(problem->op)->k, &k)) return false;
  int64_t whole = (k + depth - 1) / depth * depth, halves = (k + half - 1) / half * half;
  return (double)whole <= problem->gpu->model->deep_waste * (double)halves;
}

/* A row of the widest swizzle along k; two where the tile has few outputs, so that a step is worth its
 * barriers; half of one where threads copy and that leaves too few stages, or nothing is known of the
 * alignment. */
static unsigned tile_depth(const Problem *problem, GemmCandidate tile, bool fast)
{
  const CostModel *model = problem->gpu->model;
  unsigned bytes = number_bytes(gemm_of(gemm_candidate_operator(problem, &tile))->a_type), row = 128;
  bool thin = gemm_candidate_is_thin(&tile);
  if (thin && !tile.promote) return 2 * row / bytes;
  if (tile.warpgroups) return row / bytes;
  if (!fast && tile.askew && wants_whole_rows(problem, row / bytes)) return row / bytes;
  if (!fast || thin || !gemm_warp_possible(problem)) return row / 2 / bytes;
  if (tile.bm * tile.bn <= model->deep_area && !tile.promote)
    row *= 2; /* sums kept apart: 128 of k at most */
  /* sixteen copies a thread, and fragments that are rounded: registers are short */
  if (bytes == 4 && tile.bm * tile.bn == model->shared_area) row /= 2;
  for (;; row /= 2) {
    tile.bk = row / bytes;
    if (row <= 64 || 3 * gemm_slot_bytes(problem, &tile) <= gemm_room(problem, &tile)) return tile.bk;
  }
}

/* A step of k lies in one block of both operands' scales. */
static unsigned within_blocks(const FusedGemm *gemm, unsigned depth)
{
  while (depth > 1 && (gemm->a_depth % depth || gemm->b_depth % depth))
    depth /= 2;
  return depth;
}

/* Elements of k: a line of weights of 8 bits, or of 4 beside few columns, or half of one, in one box; half of one for each of those
 * who share a step. Whole blocks of narrow weights' scales, or a part of one. */
static unsigned widened_depth(const Gpu *gpu, const GemmWeights *weights, const GemmCandidate *tile,
                              bool fast)
{
  bool alone = tile->by_warps || (tile->warpgroups && tile->split_k <= 1);
  bool deep =
      alone && number_is_packed(weights->type) && tile->bn <= gpu->model->deep_columns && tile->k_parts <= 1;
  unsigned depth = (fast ? 128 : 64) << (fast && deep), most = gemm_box_side(gpu);
  while (depth > most)
    depth /= 2;
  while (weights->depth && depth % weights->depth && weights->depth % depth)
    depth /= 2;
  return depth * MAX(1, tile->k_parts);
}

/* Slots of a ring whose copies are a few bytes each, which take long. */
static unsigned askew_slots(const Problem *problem, const GemmCandidate *candidate)
{
  int64_t k = choose_typical(problem, gemm_of(problem->op)->k),
          steps = (k + candidate->bk - 1) / candidate->bk;
  return (unsigned)CLAMP(steps, 2, 1 + problem->gpu->model->askew_depth / candidate->bk);
}

static unsigned stage_count(const Problem *problem, const GemmCandidate *candidate, bool fast)
{
  const CostModel *model = problem->gpu->model;
  unsigned stage = gemm_slot_bytes(problem, candidate), room = gemm_room(problem, candidate);
  if (!fast) return candidate->askew ? askew_slots(problem, candidate) : 2;
  if (!candidate->warpgroups && !candidate->by_warps)
    return CLAMP(room / stage, 2u,
                 gemm_candidate_is_thin(candidate) ? model->thin_warp_slots : model->warp_slots);
  if (!candidate->reuse) room -= gemm_exchange_bytes(problem, candidate);
  unsigned staging = candidate->once ? 0 : gemm_least_staging(problem, candidate);
  /* without room for three stages results go straight from registers */
  if (room < staging + 3 * stage) staging = 0;
  return CLAMP((room - staging) / stage, 2u,
               gemm_candidate_is_thin(candidate) ? model->thin_slots : model->most_slots);
}

bool gemm_candidate_may_be_askew(const Problem *problem)
{
  const FusedGemm *gemm = gemm_of(problem->op);
  return gemm->n_batch && !gemm_has_several(gemm) && !gemm->lead && !gemm->narrow &&
         number_has_bytes(gemm->a_type, 2);
}

/* Two warpgroups beside one another, where one could not hold 64 rows of both sums; while one adds, the other
 * multiplies. */
static unsigned warpgroups_beside(const Problem *problem, const GemmCandidate *tile)
{
  bool shared = gemm_of(problem->op)->scaled || tile->pingpong > 1 || tile->split_k > 1 ||
                tile->stream_k > 1 || tile->slices > 1 || tile->bm != WARPGROUP_ROWS;
  bool plain = !gemm_has_several(gemm_of(problem->op)) && !fused_is_reduced(problem->op) &&
               !gemm_through_registers(problem, tile);
  unsigned asked = tile->bn >= problem->gpu->model->beside_columns ? 2 : 1;
  choose_forced(problem, "warpgroups_n", &asked);
  bool halves = asked == 2 && tile->bn % 16 == 0;
  return tile->warpgroups && tile->promote && plain && !shared && halves ? 2 : 1;
}

/* With no more slots than the passes leave it. */
static GemmCandidate as_settled(GemmCandidate tile)
{
  if (tile.most_stages) tile.stages = MIN(tile.stages, tile.most_stages);
  return tile;
}

/* May what blocks of a split tile send come to lie in the ring's slots? */
static bool may_reuse(const GemmCandidate *tile)
{
  return tile->warpgroups && tile->split_k > 1 && space_declares(tile->space, "reuse");
}

GemmCandidate gemm_candidate(const Problem *problem, GemmCandidate tile, bool fast)
{
  tile.space = spaces_of(problem->spaces, gemm_candidate_template(problem, &tile));
  tile.promote = gemm_promotes(problem, &tile, tile.warpgroups);
  tile.warpgroups_n = warpgroups_beside(problem, &tile);
  tile.bk = tile_depth(problem, tile, fast);
  if (gemm_of(problem->op)->scaled) tile.bk = within_blocks(gemm_of(problem->op), tile.bk);
  if (gemm_of(problem->op)->narrow)
    tile.bk = widened_depth(problem->gpu, &gemm_of(problem->op)->weights, &tile, fast);
  tile.reuse = tile.once = 0;
  tile.stages = stage_count(problem, &tile, fast);
  if (fast && tile.stages < problem->gpu->model->enough_slots && may_reuse(&tile)) {
    GemmCandidate reusing = tile;
    reusing.reuse = 1;
    reusing.stages = stage_count(problem, &reusing, fast);
    bool fits = reusing.stages * gemm_slot_bytes(problem, &tile) >= gemm_exchange_bytes(problem, &tile);
    if (fits && reusing.stages > tile.stages) tile = reusing;
  }
  return as_settled(tile);
}

/* Has each block one tile of so many rows? Then it need not walk, unless it is told to. */
static bool has_one_tile(const Problem *problem, const GemmCandidate *candidate, int64_t rows)
{
  unsigned walks = 0; /* set by hand: blocks walk */
  choose_forced(problem, "persistent", &walks);
  bool budget = problem->options && problem->options->sm_budget; /* then all blocks walk */
  bool possible = !walks && !budget && candidate->warpgroups && candidate->pingpong <= 1 &&
                  candidate->stream_k <= 1 && !fused_is_reduced(problem->op);
  bool sliced = candidate->slices > 1 && !gemm_candidate_is_thin(candidate);
  if (!possible || (!sliced && !gemm_candidate_walks(problem, candidate))) return false;
  unsigned blocks = MAX(1, candidate->cluster_m) * MAX(1, candidate->cluster_n), sms = problem->gpu->sm_count;
  if (blocks > 1) sms = blocks * resident_clusters(problem->gpu, blocks, sms);
  return gemm_candidate_tiles(problem, candidate, rows) <= sms;
}

GemmCandidate gemm_candidate_within(const Problem *problem, GemmCandidate candidate, int64_t rows)
{
  if (!has_one_tile(problem, &candidate, rows)) return candidate;
  GemmCandidate once = candidate;
  once.once = 1;
  once.stages = stage_count(problem, &once, true);
  bool staged = once.stages * gemm_slot_bytes(problem, &once) >= gemm_staging_bytes(problem, &once);
  return as_settled(staged && once.stages > candidate.stages ? once : candidate);
}

/* ---- What is legal ---- */

bool gemm_warpgroups_read(const Problem *problem, const FusedGemm *gemm)
{
  const GpuProduct *product = gemm_warpgroup_product(problem->gpu, gemm);
  if (product && gemm->narrow) /* the weights are the operand that registers hold, however they lie */
    return gemm->weights.left && product->a_from_registers && (!gemm->b_n_major || product->b_transposed) &&
           gemm_engine_brings(problem, gemm);
  return product &&
         (!gemm->a_m_major || product->a_transposed ||
          (product->a_from_registers && gemm_passes_registers(problem->gpu, gemm->a_type))) &&
         (!gemm->b_n_major || product->b_transposed) && gemm_engine_brings(problem, gemm);
}

bool gemm_warpgroups_possible(const Problem *problem)
{
  const Gpu *gpu = problem->gpu;
  if (!gpu_has(gpu, "tma") || !gpu_has(gpu, "warpgroup_mma")) return false;
  bool either_way =
      problem->turned && !gemm_has_several(gemm_of(problem->op)); /* two products: few rows only */
  return gemm_warpgroups_read(problem, gemm_of(problem->op)) ||
         (either_way && gemm_warpgroups_read(problem, gemm_of(problem->turned)));
}

bool gemm_warp_possible(const Problem *problem)
{
  const FusedGemm *gemm = gemm_of(problem->op);
  return gpu_product(problem->gpu, "warp_mma", gemm->a_type, gemm->b_type, gemm->acc_type) != NULL;
}

/* Blocks may share a tile where all that share run at once, which N and the batches, if known, tell. */
static bool split_legal(const Problem *problem, const GemmCandidate *candidate)
{
  const FusedGemm *gemm = gemm_of(problem->op);
  const Gpu *gpu = problem->gpu;
  if (candidate->split_k <= 1) return true;
  bool pieces = gemm_candidate_owners(problem, candidate) > 0;
  bool known = symbolic_is_constant(gemm->n, NULL) && symbolic_is_constant(gemm->k, NULL);
  for (unsigned i = 0; i < gemm->n_batch; i++)
    known &= symbolic_is_constant(problem->op->dims[i], NULL);
  double counted = gpu_fact(gpu, "mbarrier.bytes_max");
  return known && pieces && candidate->split_k <= exchanging_blocks(gpu) &&
         !(gemm_exchange_bytes(problem, candidate) > counted) &&
         MAX(gemm_exchange_bytes(problem, candidate), 3 * gemm_slot_bytes(problem, candidate)) <
             gemm_room(problem, candidate);
}

/* Do threads that copy go on from one tile to the next? That pays where a ring runs on under the end of a
 * tile (overlap_tiles), which takes whole slots of a known number, and registers. */
static bool ring_runs_on(const Problem *problem, const GemmCandidate *candidate)
{
  const CostModel *model = problem->gpu->model;
  const FusedGemm *gemm = gemm_of(problem->op);
  int64_t depth;
  bool alone =
      candidate->blocks <= 1 && candidate->split_k <= 1 && candidate->stream_k <= 1 && !candidate->swapped;
  if (!alone || gemm_has_several(gemm) || gemm->lead || gemm->summed || fused_is_reduced(problem->op))
    return false;
  if (candidate->bm * candidate->bn != model->walked_area || !symbolic_is_constant(gemm->k, &depth))
    return false;
  int64_t steps = depth / candidate->bk;
  return depth % candidate->bk == 0 && steps >= candidate->stages;
}

bool gemm_candidate_walks(const Problem *problem, const GemmCandidate *candidate)
{
  bool turns = candidate->pingpong > 1; /* warpgroups of one tile would have nobody to take turns with */
  if (candidate->slices > 1) return false;
  if (candidate->warpgroups) return candidate->split_k == 1 && (turns || !gemm_candidate_is_thin(candidate));
  return ring_runs_on(problem, candidate);
}

/* Does an epilogue read another tensor's tile, and not a row or a column of it only? */
static bool reads_tile(const FusedOperator *op)
{
  for (unsigned i = 0; op->rank >= 2 && i < op->n_inputs; i++)
    if (i != gemm_of(op)->a && i != gemm_of(op)->b &&
        !symbolic_equals(op->inputs[i].strides[op->rank - 1], 0) &&
        !symbolic_equals(op->inputs[i].strides[op->rank - 2], 0))
      return true;
  return false;
}

/* So many sums that a thread has no registers for another tensor's tile beside them, unless warpgroups take turns and
 * results leave in narrow parts: a residual behind 256x192 spilled 20 bytes. */
static bool sums_fill_threads(const Problem *problem, const GemmCandidate *candidate)
{
  unsigned threads = gemm_consumer_warpgroups(candidate) * WARPGROUP_WARPS * problem->gpu->warp_size;
  return candidate->pingpong <= 1 && !candidate->swapped && reads_tile(problem->op) &&
         candidate->bm * candidate->bn / threads >= problem->gpu->model->narrow_registers;
}

/* Registers have not been handed over yet when the first sums begin. */
static bool starts_within_registers(const Gpu *gpu, const GemmCandidate *candidate)
{
  unsigned threads = WARPGROUP_WARPS * gpu->warp_size * (1 + gemm_consumer_warpgroups(candidate));
  unsigned columns = candidate->bn / MAX(1, candidate->warpgroups_n);
  return columns / 2 + gpu->model->start_registers <= entry_registers(gpu, threads, 1);
}

/* Each product's columns are whole panels, or rows of a swizzle's pattern in shared memory; of two of them also whole rows of the
 * result that some swizzle fits (stage_stores): parts of more are as narrow as can be, so that few columns have blocks enough. */
static bool parts_are_whole(const FusedGemm *gemm, const GemmCandidate *candidate)
{
  unsigned part = candidate->bn / gemm->products, whole = gemm->products > 2 ? 8 : 16;
  if (gemm->b_n_major) whole = (unsigned)number_elements(gemm->b_type, 128);
  return candidate->bn % gemm->products == 0 && part % whole == 0;
}

static bool warpgroup_tile_legal(const Problem *problem, const GemmCandidate *candidate)
{
  const CostModel *model = problem->gpu->model;
  const FusedGemm *gemm = gemm_of(gemm_candidate_operator(problem, candidate));
  const GpuProduct *product = gemm_warpgroup_product(problem->gpu, gemm);
  bool legal = false, loads = gemm_through_registers(problem, candidate);
  if (!gemm_warpgroups_read(problem, gemm)) return false;
  /* what passes through registers is loaded between products: nobody else's would hide that in turn */
  if (loads && (candidate->pingpong > 1 || candidate->cluster_m > 1 || candidate->cluster_n > 1))
    return false;
  for (unsigned i = 0; product && i < product->n_count; i++)
    legal |= product->n[i] == candidate->bn;
  legal &= starts_within_registers(problem->gpu, candidate);
  if (sums_fill_threads(problem, candidate) && !choose_is_forced(problem)) return false;
  /* two accumulators of 192 columns leave no room to store 32-bit results (found with ptxas) */
  if (candidate->promote && candidate->warpgroups_n <= 1 && candidate->bn > model->promoted_columns &&
      gemm_out_bytes(problem->op) > 2)
    return false;
  unsigned together = MAX(1, candidate->cluster_m) * MAX(1, candidate->cluster_n);
  bool shares = gemm_shares_copies(problem->gpu) && together <= problem->gpu->cluster_portable;
  if (together > 1 && !shares && !choose_is_forced(problem)) return false;
  /* of what passes through registers a warpgroup has rows of its own: whole panels */
  unsigned rows = loads ? candidate->bm / warpgroups_of_rows(candidate->bm) : candidate->bm;
  if (gemm->a_m_major && !gemm_is_panel(problem->gpu, rows, gemm_stored(gemm, false))) return false;
  if (!legal || (gemm->b_n_major && !gemm_is_panel(problem->gpu, candidate->bn, gemm->b_type))) return false;
  if (candidate->swapped) return true;
  return !gemm_has_several(gemm) || parts_are_whole(gemm, candidate);
}

/* Bytes that do not lie along k are gathered one by one: their fragments pass through registers unpacked. */
static bool gathers_elements(const Problem *problem)
{
  const FusedGemm *gemm = gemm_of(problem->op);
  return number_has_bytes(gemm->a_type, 1) && (gemm->a_m_major || gemm->b_n_major);
}

/* Each product's columns are whole parts. A warp then has all of a part, so a wider tile of warp MMAs
 * would have more rows of fragments than registers hold. */
static bool parts_legal(const Problem *problem, const GemmCandidate *candidate)
{
  unsigned columns = candidate->bn / gemm_products(problem);
  if (candidate->split_k > 1 || candidate->swapped || candidate->stream_k > 1 || candidate->slices > 1)
    return false;
  if (candidate->warpgroups) return columns % REDUCED_COLUMNS == 0;
  return columns == REDUCED_COLUMNS && candidate->bm * gemm_products(problem) <= 128;
}

/* Tiles whose accumulators leave a warp so few registers that addresses must be simple, copies wide and the
 * result narrow (found with ptxas). */
static bool large_tile_legal(const Problem *problem, const GemmCandidate *candidate)
{
  const CostModel *model = problem->gpu->model;
  const FusedGemm *gemm = gemm_of(problem->op);
  bool known = symbolic_is_constant(gemm->n, NULL) && symbolic_is_constant(gemm->k, NULL) && !gemm->n_batch;
  bool simple =
      known && !gemm->a_m_major && !gemm_has_several(gemm) && !gemm->lead && !fused_is_reduced(problem->op);
  int64_t columns, depth;
  bool whole = symbolic_is_constant(gemm->n, &columns) && columns % candidate->bn == 0; /* no predicates */
  if (gemm->b_n_major && candidate->bn > model->predicated_columns && !whole) return false;
  if (symbolic_is_constant(gemm->k, &depth) && depth < model->large_steps * (int64_t)candidate->bk)
    return false;
  return simple && number_has_bytes(gemm->a_type, 2) && gemm_out_bytes(problem->op) == 2 &&
         problem->op->n_outputs == 1;
}

/* Beside so many sums a warp's threads have no registers for the addresses of several Bs whose strides are arguments (found with
 * ptxas), nor for words of 32 bits that are rounded. */
static bool parts_fit_threads(const Problem *problem)
{
  const FusedGemm *gemm = gemm_of(problem->op);
  return symbolic_is_constant(gemm->n, NULL) && symbolic_is_constant(gemm->k, NULL) && !gemm->n_batch &&
         number_has_bytes(gemm->a_type, 2);
}

/* Two products share a tile's columns, or, of few rows with swap-AB, each has an accumulator, and
 * blocks may take parts of k of both. */
static bool pair_legal(const GemmCandidate *candidate)
{
  bool alone = candidate->cluster_m <= 1 && candidate->cluster_n <= 1 && candidate->stream_k <= 1 &&
               candidate->slices <= 1;
  if (!alone || candidate->pingpong > 1) return false;
  if (!candidate->swapped) return candidate->split_k <= 1;
  return gemm_candidate_is_thin(candidate) && (!candidate->warpgroups || candidate->bm == SWAPPED_ROWS);
}

bool gemm_scales_fit(const FusedGemm *gemm, const GemmCandidate *candidate)
{
  int64_t share = gemm->scaled ? gemm->b_width : 1;
  if (share <= 1 || share % candidate->bn == 0) return true;
  int64_t both = share | candidate->bn,
          chunk = both & -both; /* tiles begin at multiples of it within a block */
  return chunk >= 16 && candidate->bn <= share + chunk;
}

bool gemm_candidate_legal(const Problem *problem, const GemmCandidate *candidate)
{
  const CostModel *model = problem->gpu->model;
  if (!choose_is_forced(problem) && !gemm_candidate_fits(problem, candidate)) return false;
  if (!gemm_bound_admits(problem, candidate)) return false;
  if (candidate->space && !candidate_has(&candidate->of, problem)) return false;
  if (gemm_has_several(gemm_of(problem->op)) && !pair_legal(candidate)) return false;
  if (gemm_of(problem->op)->narrow && !candidate->swapped) return false; /* weights are the left operand */
  if (!gemm_scales_fit(gemm_of(problem->op), candidate)) return false;
  if (fused_is_reduced(problem->op) && !parts_legal(problem, candidate)) return false;
  if (candidate->warpgroups)
    return warpgroup_tile_legal(problem, candidate) && split_legal(problem, candidate);
  if (candidate->by_warps && !split_legal(problem, candidate)) return false;
  if (candidate->k_parts > 1 && !gemm_scales_beside(problem, candidate)) return false;
  unsigned area = candidate->bm * candidate->bn;
  if (area > model->walked_area && !large_tile_legal(problem, candidate)) return false;
  if (area == model->walked_area && gemm_has_several(gemm_of(problem->op)) && !parts_fit_threads(problem))
    return false;
  unsigned side = model->gathered_side;
  return !gathers_elements(problem) ||
         (!candidate->swapped && candidate->bm == side && candidate->bn == side);
}
