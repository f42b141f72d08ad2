#include "generator/gemm_candidate.h"
#include <math.h>

static const unsigned group_rows[] = {64, 128};
static const unsigned group_columns[] = {16, 32, 64, 96, 128, 160, 176, 192, 224, 256};
static const unsigned splits[] = {1, 2, 4, 8};
static const unsigned warp_tiles[][2] = {{64, 64}, {128, 64}, {64, 128}, {128, 128}};
#define MANY_WAVES 8

/* ---- Shared memory ---- */

/* A row of the widest swizzle along k; half of one where threads copy and more stages pay. */
static unsigned tile_depth(const FusedGemm *gemm, bool group)
{
  return (group ? 128 : 64) / number_bytes(gemm->a_type);
}

static unsigned out_bytes(const Chooser *chooser)
{
  const FusedOperator *op = chooser->op;
  return op->n_outputs ? number_bytes(op->outputs[0].tensor->type) : 0;
}

/* What stage_stores takes: two parts of the tile, as wide as a swizzle, for each output. */
static unsigned staging_bytes(const Chooser *chooser, const GemmCandidate *candidate)
{
  return 2 * candidate->bm * 128 * chooser->op->n_outputs;
}

static unsigned stage_bytes(const Chooser *chooser, const GemmCandidate *candidate)
{
  const FusedGemm *gemm = &chooser->op->gemm;
  return (candidate->bm * number_bytes(gemm->a_type) + candidate->bn * number_bytes(gemm->b_type)) *
         candidate->bk;
}

/* Where the blocks that share a tile exchange their parts (combine_blocks). */
static unsigned exchange_bytes(const GemmCandidate *candidate)
{
  return candidate->split > 1 ? candidate->bm * (candidate->bn * 4 + candidate->split * 32) : 0;
}

static unsigned stage_count(const Chooser *chooser, const GemmCandidate *candidate, bool fast)
{
  unsigned stage = stage_bytes(chooser, candidate);
  unsigned room = chooser->gpu->shared_per_block - 2048; /* barriers and alignment */
  if (!fast) return 2;
  if (!candidate->group) return CLAMP(room / stage, 2u, 4u);
  unsigned staging = staging_bytes(chooser, candidate);
  room -= exchange_bytes(candidate);
  /* without room for three stages results go straight from registers */
  if (room < staging + 3 * stage) staging = 0;
  return CLAMP((room - staging) / stage, 2u, 10u);
}

GemmCandidate gemm_candidate(const Chooser *chooser, GemmCandidate tile, bool fast)
{
  tile.bk = tile_depth(&chooser->op->gemm, tile.group);
  tile.stages = stage_count(chooser, &tile, fast);
  return tile;
}

/* ---- What is legal ---- */

bool gemm_group_possible(const Chooser *chooser)
{
  const FusedGemm *gemm = &chooser->op->gemm;
  const Gpu *gpu = chooser->gpu;
  if (!gpu_has(gpu, "copy_tensor") || !gpu_has(gpu, "product_group")) return false;
  const GpuProduct *product = gpu_product(gpu, "product_group", gemm->a_type, gemm->b_type, gemm->acc_type);
  if (!product) return false;
  return (!gemm->a_m_major || product->a_transposed) && (!gemm->b_n_major || product->b_transposed);
}

bool gemm_warp_possible(const Chooser *chooser)
{
  const FusedGemm *gemm = &chooser->op->gemm;
  return gpu_product(chooser->gpu, "product_warp", gemm->a_type, gemm->b_type, gemm->acc_type) != NULL;
}

/* Rows of an operand that does not lie along k are cut into panels as wide as a swizzle: whole ones of 128
 * bytes, or one narrower one. */
static bool is_panel(unsigned extent, NumberType type)
{
  unsigned bytes = extent * number_bytes(type);
  return bytes % 128 == 0 || bytes == 64 || bytes == 32;
}

/* Blocks may share a tile where all that share run at once, which N and the batches, if known, tell; each
 * then has whole pieces of the tile's columns. */
static bool split_legal(const Chooser *chooser, const GemmCandidate *candidate)
{
  const FusedGemm *gemm = &chooser->op->gemm;
  const Gpu *gpu = chooser->gpu;
  if (candidate->split <= 1) return true;
  unsigned columns = candidate->bn / candidate->split;
  bool known = symbolic_is_constant(gemm->n, NULL) && symbolic_is_constant(gemm->k, NULL);
  for (unsigned i = 0; i < gemm->n_batch; i++)
    known &= symbolic_is_constant(chooser->op->dims[i], NULL);
  return known && gpu_has(gpu, "cluster") && candidate->split <= gpu->cluster_portable && columns % 16 == 0 &&
         columns * out_bytes(chooser) % 32 == 0 &&
         exchange_bytes(candidate) + 3 * stage_bytes(chooser, candidate) < gpu->shared_per_block;
}

static bool group_tile_legal(const Chooser *chooser, const GemmCandidate *candidate)
{
  const FusedGemm *gemm = &chooser->op->gemm;
  const GpuProduct *product =
      gpu_product(chooser->gpu, "product_group", gemm->a_type, gemm->b_type, gemm->acc_type);
  bool legal = false;
  for (unsigned i = 0; product && i < product->n_count; i++)
    legal |= product->n[i] == candidate->bn;
  if (gemm->a_m_major && !is_panel(candidate->bm, gemm->a_type)) return false;
  return legal && (!gemm->b_n_major || is_panel(candidate->bn, gemm->b_type));
}

/* Narrow elements that do not lie along k are gathered one by one: their fragments pass through registers
 * unpacked. */
static bool gathers_elements(const Chooser *chooser)
{
  const FusedGemm *gemm = &chooser->op->gemm;
  return number_bytes(gemm->a_type) != 2 && (gemm->a_m_major || gemm->b_n_major);
}

bool gemm_candidate_legal(const Chooser *chooser, const GemmCandidate *candidate)
{
  if (candidate->group) return group_tile_legal(chooser, candidate) && split_legal(chooser, candidate);
  return !gathers_elements(chooser) || (candidate->bm == 64 && candidate->bn == 64);
}

/* ---- What it costs ---- */

static unsigned sm_budget(const Chooser *chooser)
{
  unsigned budget = chooser->options ? chooser->options->sm_budget : 0;
  return budget ? budget : chooser->gpu->sm_count;
}

CostReport gemm_candidate_cost(const Chooser *chooser, const GemmCandidate *candidate, int64_t m)
{
  const FusedGemm *gemm = &chooser->op->gemm;
  CostGemm shape = {.batches = 1,
                    .m = MAX(1, m),
                    .n = MAX(1, choose_typical(chooser, gemm->n)),
                    .k = MAX(1, choose_typical(chooser, gemm->k)),
                    .a_bytes = number_bytes(gemm->a_type),
                    .b_bytes = number_bytes(gemm->b_type),
                    .out_bytes = out_bytes(chooser),
                    .type = gemm->a_type,
                    .sms = sm_budget(chooser)};
  for (unsigned i = 0; i < gemm->n_batch; i++)
    shape.batches *= MAX(1, choose_typical(chooser, chooser->op->dims[i]));
  CostTile tile = {candidate->bm, candidate->bn, candidate->bk, candidate->stages, candidate->split};
  return candidate->group ? cost_group_gemm(chooser->gpu, &shape, &tile)
                          : cost_warp_gemm(chooser->gpu, &shape, &tile);
}

/* Blocks in clusters of `size` that run at once, one an SM. */
static double resident_blocks(const Chooser *chooser, unsigned size)
{
  char path[32];
  g_snprintf(path, sizeof path, "chip.clusters_of_%u", size);
  double clusters = gpu_fact(chooser->gpu, path), most = floor((double)sm_budget(chooser) / size);
  /* not every SM has partners: where the description does not say how many clusters fit, a tenth is left out
   */
  return size * (clusters > 0 ? fmin(clusters, most) : floor(0.9 * most));
}

/* ---- Enumeration ---- */

static void append(const Chooser *chooser, GArray *list, GemmCandidate tile, int64_t m)
{
  PricedCandidate priced = {.candidate = gemm_candidate(chooser, tile, true)};
  if (!gemm_candidate_legal(chooser, &priced.candidate)) return;
  priced.cost = gemm_candidate_cost(chooser, &priced.candidate, m);
  /* a split kernel starts anew for each wave */
  if (tile.split > 1 && priced.cost.tiles * tile.split > resident_blocks(chooser, tile.split)) return;
  g_array_append_val(list, priced);
}

GArray *gemm_candidates(const Chooser *chooser, bool group, int64_t m, bool bounded)
{
  GArray *list = g_array_new(FALSE, FALSE, sizeof(PricedCandidate));
  for (unsigned i = 0; !group && i < G_N_ELEMENTS(warp_tiles); i++)
    append(chooser, list,
           (GemmCandidate){.bm = warp_tiles[i][0], .bn = warp_tiles[i][1], .cluster = 1, .split = 1}, m);
  for (unsigned s = 0; group && s < (bounded ? G_N_ELEMENTS(splits) : 1); s++)
    for (unsigned r = 0; r < G_N_ELEMENTS(group_rows); r++)
      for (unsigned c = 0; c < G_N_ELEMENTS(group_columns); c++)
        append(
            chooser, list,
            (GemmCandidate){
                .group = true, .bm = group_rows[r], .bn = group_columns[c], .cluster = 1, .split = splits[s]},
            m);
  return list;
}

static void note_cost(Chooser *chooser, const PricedCandidate *priced, int64_t m)
{
  const GemmCandidate *candidate = &priced->candidate;
  const CostReport *cost = &priced->cost;
  choose_note(
      chooser,
      "M = %-6d tile %3ux%-3u split %u  step %5.0f (tensor %5.0f shared %5.0f copy %5.0f)  waves %3.0f"
      "  memory %8.0f  total %8.0f clocks",
      (int)m, candidate->bm, candidate->bn, candidate->split, cost->step, cost->tensor, cost->shared,
      cost->copy, cost->waves, cost->memory, cost->total);
}

/* Of equal ones the larger, which comes later: over many waves it reads less, which the model does not see,
 * so it may look a little worse. */
static bool is_better(const CostReport *cost, const CostReport *best)
{
  double worse = fmin(cost->waves, best->waves) >= MANY_WAVES ? 1.03 : 1.001;
  return cost->total <= best->total * worse;
}

GemmCandidate gemm_best_candidate(Chooser *chooser, bool group, int64_t m, bool bounded)
{
  g_autoptr(GArray) list = gemm_candidates(chooser, group, m, bounded);
  const PricedCandidate *best = NULL;
  for (unsigned i = 0; i < list->len; i++) {
    const PricedCandidate *priced = &g_array_index(list, PricedCandidate, i);
    if (best && !is_better(&priced->cost, &best->cost)) continue;
    best = priced;
    note_cost(chooser, priced, m);
  }
  if (best) return best->candidate;
  return gemm_candidate(chooser,
                        (GemmCandidate){.group = group, .bm = 64, .bn = 64, .cluster = 1, .split = 1}, true);
}
