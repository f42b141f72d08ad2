/* GEMM: which tile, and which guards its fast copies need.
 *
 * Tile: of the candidates, the one with the lowest estimate of
 *     waves(tiles / SMs) x tile work / shared-memory efficiency
 * at a typical M. The efficiency compares what a tile's products and copies read and write in shared memory
 * per clock with what an SM delivers: a group product of m64 reads 64 + 4096/N bytes a clock, filling (bm +
 * bn) x bk. A tile of a small M is a variant of its own. */
#include "generator/choose.h"

typedef struct {
  unsigned bm, bn;
} Tile;

static const Tile group_tiles[] = {{128, 256}, {128, 192}, {128, 128}, {64, 256},
                                   {64, 128},  {64, 64},   {128, 64}};
static const Tile warp_tiles[] = {{128, 128}, {64, 128}, {128, 64}, {64, 64}};

/* true if the GPU's group product can take the operands as they lie. */
static bool group_possible(Chooser *chooser)
{
  const FusedGemm *gemm = &chooser->op->gemm;
  const Gpu *gpu = chooser->gpu;
  if (!gpu_has(gpu, "copy_tensor") || !gpu_has(gpu, "product_group")) return false;
  const GpuProduct *product = gpu_product(gpu, "product_group", gemm->a_type, gemm->b_type, gemm->acc_type);
  if (!product) return false;
  return (!gemm->a_m_major || product->a_transposed) && (!gemm->b_n_major || product->b_transposed);
}

static bool warp_possible(Chooser *chooser)
{
  const FusedGemm *gemm = &chooser->op->gemm;
  return gpu_product(chooser->gpu, "product_warp", gemm->a_type, gemm->b_type, gemm->acc_type) != NULL;
}

static double tile_cost(Chooser *chooser, const Tile *tile, int64_t m, int64_t n, bool group)
{
  int64_t rows = (m + tile->bm - 1) / tile->bm, columns = (n + tile->bn - 1) / tile->bn;
  double tiles = (double)rows * (double)columns;
  double sms =
      chooser->options && chooser->options->sm_budget ? chooser->options->sm_budget : chooser->gpu->sm_count;
  double waves = (double)(int64_t)((tiles + sms - 1) / sms);
  double work = (double)tile->bm * tile->bn;
  double delivered = (double)chooser->gpu->shared_banks * chooser->gpu->shared_bank_bytes;
  /* bytes a clock: both fall with the tile; a warp tile of 64 x 64 reads its operands once for each warp row
   * and column */
  double wanted = 4096.0 * (tile->bm + tile->bn) / work + (group ? 64 + 4096.0 / tile->bn : 96);
  return waves * work * MAX(1.0, wanted / delivered) +
         waves * 2048; /* each wave fills and drains its pipeline */
}

/* Narrow elements that do not lie along k are gathered one by one: their fragments pass through registers
 * unpacked. */
static bool gathers_elements(Chooser *chooser)
{
  const FusedGemm *gemm = &chooser->op->gemm;
  return number_bytes(gemm->a_type) != 2 && (gemm->a_m_major || gemm->b_n_major);
}

static Tile best_tile(Chooser *chooser, int64_t m, int64_t n, bool group)
{
  static const Tile small = {64, 64};
  if (!group && gathers_elements(chooser)) return small;
  const Tile *tiles = group ? group_tiles : warp_tiles;
  unsigned count = group ? G_N_ELEMENTS(group_tiles) : G_N_ELEMENTS(warp_tiles);
  const Tile *best = &tiles[0];
  for (unsigned i = 0; i < count; i++) {
    double cost = tile_cost(chooser, &tiles[i], m, n, group);
    choose_note(chooser, "tile %3ux%-3u at M = %d: cost %.0f", tiles[i].bm, tiles[i].bn, (int)m, cost);
    if (cost < tile_cost(chooser, best, m, n, group)) best = &tiles[i];
  }
  return *best;
}

static bool require_operand(Chooser *chooser, Choice *choice, const GraphTensor *tensor,
                            const Symbolic *leading, const Symbolic *const *batches, const Symbolic *inner)
{
  unsigned vector = 16 / number_bytes(tensor->type);
  if (!choose_require_multiple(chooser, choice, leading, vector)) return false;
  for (unsigned i = 0; i < chooser->op->gemm.n_batch; i++)
    if (!choose_require_multiple(chooser, choice, batches[i], vector)) return false;
  return !inner || choose_require_multiple(chooser, choice, inner, vector);
}

/* Wide copies of both operands; thread copies also need contiguous extents of whole vectors, tensor copies
 * some K. */
static bool require_fast(Chooser *chooser, Choice *choice, bool group)
{
  const FusedOperator *op = chooser->op;
  const FusedGemm *gemm = &op->gemm;
  if (!require_operand(chooser, choice, op->inputs[gemm->a].tensor, gemm->a_m_major ? gemm->a_k : gemm->a_m,
                       gemm->a_batch,
                       group             ? NULL
                       : gemm->a_m_major ? gemm->m
                                         : gemm->k))
    return false;
  if (!require_operand(chooser, choice, op->inputs[gemm->b].tensor, gemm->b_n_major ? gemm->b_k : gemm->b_n,
                       gemm->b_batch,
                       group             ? NULL
                       : gemm->b_n_major ? gemm->n
                                         : gemm->k))
    return false;
  /* what the epilogue loads and stores goes in pairs */
  for (unsigned i = 0; i < op->n_inputs; i++)
    choose_require_align(chooser, choice, op->inputs[i].tensor, 16);
  for (unsigned i = 0; i < op->n_outputs; i++)
    choose_require_align(chooser, choice, op->outputs[i].tensor, 16);
  return !group || choose_require_at_least(chooser, choice, gemm->k, 1);
}

static void finish(Chooser *chooser, Choice *choice, Tile tile, bool group, bool fast)
{
  const FusedGemm *gemm = &chooser->op->gemm;
  unsigned bytes = number_bytes(gemm->a_type);
  unsigned bk =
      (group ? 128 : 64) / bytes; /* a row of the widest swizzle, or half one where more stages pay */
  unsigned stage = (tile.bm * number_bytes(gemm->a_type) + tile.bn * number_bytes(gemm->b_type)) * bk;
  unsigned room = chooser->gpu->shared_per_block - 2048; /* barriers and alignment */
  unsigned stages = fast ? CLAMP(room / stage, 2u, group ? 6u : 4u) : 2;
  choice_set_name(choice, "ta", number_name(gemm->a_type));
  choice_set_name(choice, "tb", number_name(gemm->b_type));
  choice_set_name(choice, "tc", number_name(gemm->acc_type));
  choice_set_int(choice, "bm", tile.bm);
  choice_set_int(choice, "bn", tile.bn);
  choice_set_int(choice, "bk", bk);
  choice_set_int(choice, "stages", stages);
  choice_set_int(choice, "persistent", group);
  choice->stages = stages;
  choice->tile_text = arena_printf(chooser->arena, "%ux%ux%u", tile.bm, tile.bn, bk);
  choice->suffix = arena_printf(chooser->arena, "%ux%ux%u%s", tile.bm, tile.bn, bk, fast ? "" : "_any");
  chooser->n++;
}

bool choose_gemm(Chooser *chooser)
{
  const FusedGemm *gemm = &chooser->op->gemm;
  bool group = group_possible(chooser), warp = warp_possible(chooser);
  int64_t n = choose_typical(chooser, gemm->n), longest = choose_maximum(chooser, gemm->m);
  Tile scalar = {64, 64};
  Choice *choice = choose_open(chooser, "gemm");
  if (longest > 64 && !symbolic_is_constant(gemm->m, NULL)) { /* few rows: a tile of its own */
    if (require_fast(chooser, choice, group) && choose_require_at_most(chooser, choice, gemm->m, 64))
      finish(chooser, choice, group || warp ? best_tile(chooser, 64, n, group) : scalar, group, true);
    choice = choose_open(chooser, "gemm");
  }
  int64_t typical = choose_typical(chooser, gemm->m);
  Tile tile = group || warp ? best_tile(chooser, MIN(typical, longest), n, group) : scalar;
  if (require_fast(chooser, choice, group))
    finish(chooser, choice, tile, group, true);
  else
    choose_note(chooser, "wide copies rejected: strides are no multiples of 16 bytes");
  if (chooser->n && !chooser->variants[chooser->n - 1].guard) return true;
  bool bytes = number_bytes(gemm->a_type) ==
               1; /* copied one by one: the 128 x 128 tile's copies alone fill the registers */
  tile = warp && !bytes ? best_tile(chooser, MIN(typical, longest), n, false) : scalar;
  finish(chooser, choose_open(chooser, "gemm"), tile, false, false);
  return true;
}
