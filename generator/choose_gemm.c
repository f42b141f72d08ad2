/* GEMM: which tiles, for which M, and which guards their fast copies need.
 *
 * Every legal tile is priced by the cost model (generator/cost.c). Where M is known only at launch there is a
 * variant for each range of M whose best tile is clearly better than the next larger range's. */
#include "generator/choose.h"
#include "generator/cost.h"
#include <math.h>
#include <string.h>

typedef struct {
  unsigned bm, bn;
  unsigned split; /* blocks of a cluster that share it; 1: none */
} Tile;

static const unsigned group_rows[] = {64, 128};
static const unsigned group_columns[] = {16, 32, 64, 96, 128, 160, 176, 192, 224, 256};
static const unsigned splits[] = {1, 2, 4, 8};
static const Tile warp_tiles[] = {{128, 128, 1}, {64, 128, 1}, {128, 64, 1}, {64, 64, 1}};
/* Ranges of M that may have a variant of their own: up to these, and beyond. */
static const int64_t group_ranges[] = {32, 64, 128, 256, 512, 1024, 2048};
/* Blocks of warp products share SMs, so beyond one wave the model tells their tiles too badly apart. */
static const int64_t warp_ranges[] = {64, 128};
#define FEW_ROWS   8 /* what the first range is priced for: a batch of tokens being decoded */
#define MANY_WAVES 8
/* A range keeps its own tile if the next range's would take this much longer. */
#define WORTH_A_VARIANT 1.05

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

static unsigned sm_budget(const Chooser *chooser)
{
  unsigned budget = chooser->options ? chooser->options->sm_budget : 0;
  return budget ? budget : chooser->gpu->sm_count;
}

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

/* Shared memory that stage_stores takes: two parts of the tile, as wide as a swizzle, for each output. */
static unsigned staging_bytes(const Chooser *chooser, Tile tile)
{
  return 2 * tile.bm * 128 * chooser->op->n_outputs;
}

static unsigned stage_bytes(const Chooser *chooser, Tile tile, bool group)
{
  const FusedGemm *gemm = &chooser->op->gemm;
  return (tile.bm * number_bytes(gemm->a_type) + tile.bn * number_bytes(gemm->b_type)) *
         tile_depth(gemm, group);
}

/* Shared memory in which the blocks that share a tile exchange their parts (combine_blocks). */
static unsigned exchange_bytes(Tile tile)
{
  return tile.split > 1 ? tile.bm * (tile.bn * 4 + tile.split * 32) : 0;
}

static unsigned stage_count(const Chooser *chooser, Tile tile, bool group, bool fast)
{
  unsigned stage = stage_bytes(chooser, tile, group);
  unsigned room = chooser->gpu->shared_per_block - 2048; /* barriers and alignment */
  if (!fast) return 2;
  if (!group) return CLAMP(room / stage, 2u, 4u);
  unsigned staging = staging_bytes(chooser, tile);
  room -= exchange_bytes(tile);
  /* without room for three stages results go straight from registers */
  if (room < staging + 3 * stage) staging = 0;
  return CLAMP((room - staging) / stage, 2u, 10u);
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
static bool split_legal(const Chooser *chooser, Tile tile)
{
  const FusedGemm *gemm = &chooser->op->gemm;
  const Gpu *gpu = chooser->gpu;
  if (tile.split <= 1) return true;
  unsigned columns = tile.bn / tile.split;
  bool known = symbolic_is_constant(gemm->n, NULL) && symbolic_is_constant(gemm->k, NULL);
  for (unsigned i = 0; i < gemm->n_batch; i++)
    known &= symbolic_is_constant(chooser->op->dims[i], NULL);
  return known && gpu_has(gpu, "cluster") && tile.split <= gpu->cluster_portable && columns % 16 == 0 &&
         columns * out_bytes(chooser) % 32 == 0 &&
         exchange_bytes(tile) + 3 * stage_bytes(chooser, tile, true) < gpu->shared_per_block;
}

static bool group_tile_legal(const Chooser *chooser, Tile tile)
{
  const FusedGemm *gemm = &chooser->op->gemm;
  const GpuProduct *product =
      gpu_product(chooser->gpu, "product_group", gemm->a_type, gemm->b_type, gemm->acc_type);
  bool legal = false;
  for (unsigned i = 0; product && i < product->n_count; i++)
    legal |= product->n[i] == tile.bn;
  if (!split_legal(chooser, tile)) return false;
  if (gemm->a_m_major && !is_panel(tile.bm, gemm->a_type)) return false;
  return legal && (!gemm->b_n_major || is_panel(tile.bn, gemm->b_type));
}

static CostReport tile_cost(const Chooser *chooser, Tile tile, int64_t m, bool group)
{
  const FusedGemm *gemm = &chooser->op->gemm;
  Chooser *typical = (Chooser *)chooser;
  CostGemm shape = {.batches = 1,
                    .m = MAX(1, m),
                    .n = MAX(1, choose_typical(typical, gemm->n)),
                    .k = MAX(1, choose_typical(typical, gemm->k)),
                    .a_bytes = number_bytes(gemm->a_type),
                    .b_bytes = number_bytes(gemm->b_type),
                    .out_bytes = out_bytes(chooser),
                    .type = gemm->a_type,
                    .sms = sm_budget(chooser)};
  for (unsigned i = 0; i < gemm->n_batch; i++)
    shape.batches *= MAX(1, choose_typical(typical, chooser->op->dims[i]));
  CostTile priced = {tile.bm, tile.bn, tile_depth(gemm, group), stage_count(chooser, tile, group, true),
                     tile.split};
  return group ? cost_group_gemm(chooser->gpu, &shape, &priced)
               : cost_warp_gemm(chooser->gpu, &shape, &priced);
}

/* Narrow elements that do not lie along k are gathered one by one: their fragments pass through registers
 * unpacked. */
static bool gathers_elements(Chooser *chooser)
{
  const FusedGemm *gemm = &chooser->op->gemm;
  return number_bytes(gemm->a_type) != 2 && (gemm->a_m_major || gemm->b_n_major);
}

static void note_cost(Chooser *chooser, Tile tile, int64_t m, const CostReport *cost)
{
  choose_note(
      chooser,
      "M = %-6d tile %3ux%-3u split %u  step %5.0f (tensor %5.0f shared %5.0f copy %5.0f)  waves %3.0f"
      "  memory %8.0f  total %8.0f clocks",
      (int)m, tile.bm, tile.bn, tile.split, cost->step, cost->tensor, cost->shared, cost->copy, cost->waves,
      cost->memory, cost->total);
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

typedef struct {
  Tile tile;
  double total, waves;
} Best;

static void consider(Chooser *chooser, Best *best, Tile tile, int64_t m, bool group)
{
  if (group && !group_tile_legal(chooser, tile)) return;
  CostReport cost = tile_cost(chooser, tile, m, group);
  /* a split kernel starts anew for each wave */
  if (tile.split > 1 && cost.tiles * tile.split > resident_blocks(chooser, tile.split)) return;
  /* over many waves a larger tile reads less, which the model does not see: it may look a little worse */
  double worse = fmin(cost.waves, best->waves) >= MANY_WAVES ? 1.03 : 1.001;
  if (best->tile.bm && cost.total > best->total * worse) return;
  *best = (Best){tile, cost.total, cost.waves};
  note_cost(chooser, tile, m, &cost);
}

/* The cheapest tile for M rows; of equal ones the larger, which comes later. `bounded`: M cannot be more. */
static Tile best_tile(Chooser *chooser, int64_t m, bool group, bool bounded)
{
  static const Tile small = {64, 64, 1};
  if (!group && gathers_elements(chooser)) return small;
  Best best = {0};
  for (unsigned i = G_N_ELEMENTS(warp_tiles); !group && i-- > 0;)
    consider(chooser, &best, warp_tiles[i], m, false);
  for (unsigned s = 0; group && s < (bounded ? G_N_ELEMENTS(splits) : 1); s++)
    for (unsigned r = 0; r < G_N_ELEMENTS(group_rows); r++)
      for (unsigned c = 0; c < G_N_ELEMENTS(group_columns); c++)
        consider(chooser, &best, (Tile){group_rows[r], group_columns[c], splits[s]}, m, true);
  return best.tile.bm ? best.tile : small;
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
  unsigned bk = tile_depth(gemm, group), stages = stage_count(chooser, tile, group, fast);
  choice_set_name(choice, "ta", number_name(gemm->a_type));
  choice_set_name(choice, "tb", number_name(gemm->b_type));
  choice_set_name(choice, "tc", number_name(gemm->acc_type));
  choice_set_int(choice, "bm", tile.bm);
  choice_set_int(choice, "bn", tile.bn);
  choice_set_int(choice, "bk", bk);
  choice_set_int(choice, "stages", stages);
  choice_set_int(choice, "persistent", group && tile.split == 1);
  choice_set_int(choice, "group", 8);
  if (group && fast) {
    choice_set_int(choice, "cluster", 1);
    choice_set_int(choice, "split", tile.split);
  }
  choice->stages = stages;
  choice->tile_text = arena_printf(chooser->arena, "%ux%ux%u", tile.bm, tile.bn, bk);
  const char *shared = tile.split > 1 ? arena_printf(chooser->arena, "_split%u", tile.split) : "";
  choice->suffix =
      arena_printf(chooser->arena, "%ux%ux%u%s%s", tile.bm, tile.bn, bk, shared, fast ? "" : "_any");
  chooser->n++;
}

/* Variants for small M, each with the tile that is best there; returns the tile for all larger ones. */
static Tile choose_ranges(Chooser *chooser, bool group, int64_t longest)
{
  const FusedGemm *gemm = &chooser->op->gemm;
  int64_t typical = choose_typical(chooser, gemm->m);
  const int64_t *ranges = group ? group_ranges : warp_ranges;
  unsigned n = 0, most = group ? G_N_ELEMENTS(group_ranges) : G_N_ELEMENTS(warp_ranges);
  Tile tiles[G_N_ELEMENTS(group_ranges) + 1];
  for (; n < most && ranges[n] < longest; n++)
    tiles[n] = best_tile(chooser, n ? ranges[n] : FEW_ROWS, group, true);
  bool bounded = longest <= typical;
  tiles[n] = best_tile(chooser, MIN(MAX(typical, n ? ranges[n - 1] + 1 : 1), longest), group, bounded);
  for (unsigned i = n; i-- > 0;) { /* from the largest range down: does it need a tile of its own? */
    int64_t rows = i ? ranges[i] : FEW_ROWS;
    double own = tile_cost(chooser, tiles[i], rows, group).total,
           next = tile_cost(chooser, tiles[i + 1], rows, group).total;
    if (next < own * WORTH_A_VARIANT) tiles[i] = tiles[i + 1];
  }
  for (unsigned i = 0; i < n; i++) {
    if (!memcmp(&tiles[i], &tiles[i + 1], sizeof tiles[i])) continue;
    Choice *choice = choose_open(chooser, "gemm");
    if (require_fast(chooser, choice, group) && choose_require_at_most(chooser, choice, gemm->m, ranges[i]))
      finish(chooser, choice, tiles[i], group, true);
  }
  return tiles[n];
}

bool choose_gemm(Chooser *chooser)
{
  const FusedGemm *gemm = &chooser->op->gemm;
  bool group = group_possible(chooser), warp = warp_possible(chooser), priced = group || warp;
  int64_t longest = choose_maximum(chooser, gemm->m), typical = choose_typical(chooser, gemm->m);
  Tile scalar = {64, 64, 1}, tile = scalar;
  if (priced)
    tile = symbolic_is_constant(gemm->m, NULL) ? best_tile(chooser, typical, group, true)
                                               : choose_ranges(chooser, group, longest);
  Choice *choice = choose_open(chooser, "gemm");
  if (require_fast(chooser, choice, group))
    finish(chooser, choice, tile, group, true);
  else
    choose_note(chooser, "wide copies rejected: strides are no multiples of 16 bytes");
  if (chooser->n && !chooser->variants[chooser->n - 1].guard) return true;
  bool bytes = number_bytes(gemm->a_type) ==
               1; /* copied one by one: the 128 x 128 tile's copies alone fill the registers */
  tile = warp && !bytes ? best_tile(chooser, MIN(typical, longest), false, false) : scalar;
  finish(chooser, choose_open(chooser, "gemm"), tile, false, false);
  return true;
}
