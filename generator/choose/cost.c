/* The cost model of matrix products.
 *
 * A k step of a tile takes as long as the slowest of: the tensor cores on its products, shared memory on what
 * is written into it by copies and read by products, the copies on their way from the L2 cache, and
 * the latency that the stages in flight do not hide. All tiles of the busiest SM follow one another (waves);
 * against that stands the time in which device memory delivers every operand once. The two overlap
 * imperfectly, which the norm of fourth powers says. Constants (gpu->model) stand in adl/model/ with their
 * meaning and the runs in docs/performance-log.md that they were fitted to. */
#include "generator/choose/cost.h"
#include "ir/resources.h"
#include "ir/staging.h"
#include <math.h>

static double divide_up(int64_t x, int64_t by)
{
  return ceil((double)x / (double)by);
}

static double clock_hertz(const Gpu *gpu)
{
  return (gpu->clock_tensor_mhz > 0 ? gpu->clock_tensor_mhz : gpu->clock_boost_mhz) * 1e6;
}

/* FLOP a clock and SM. */
static double product_rate(const Gpu *gpu, NumberType type)
{
  double peak = gpu_peak(gpu, type);
  return peak > 0 ? peak / clock_hertz(gpu) / gpu->sm_count : gpu->model->default_product;
}

static double read_bandwidth(const Gpu *gpu)
{
  return gpu->memory_bandwidth_read > 0 ? gpu->memory_bandwidth_read
                                        : gpu->model->read_share * gpu->memory_bandwidth;
}

#define LINE           128 /* bytes, of L2 */
#define WIDEST_COPY    16  /* bytes, of a thread */
#define STORED_COLUMNS 8   /* that four lanes of a fragment's row store together */

/* Clocks in which device memory delivers the operands and takes the result. Where a tile (may be NULL) does
 * not begin and end with lines, those at its borders are written in two parts. */
static double memory_clocks(const Gpu *gpu, const CostGemm *gemm, const CostTile *tile)
{
  const CostModel *model = gpu->model;
  double m = (double)gemm->m, n = (double)gemm->n, k = (double)gemm->k;
  unsigned wide = !tile ? 0 : (tile->exchanged ? tile->bm : tile->bn) * gemm->out_bytes;
  int64_t row = (tile && tile->exchanged ? gemm->m : gemm->n) * gemm->out_bytes;
  bool whole = !wide || (wide % LINE == 0 && row % LINE == 0) || gemm->out_straddles; /* priced apart */
  double out = m * n * gemm->out_bytes * (whole ? 1 : 1 + model->split_line * LINE / wide);
  double bytes = (double)gemm->batches * (m * k * gemm->a_bytes + k * n * gemm->b_bytes + out);
  double bandwidth = read_bandwidth(gpu);
  return bandwidth > 0 ? bytes / bandwidth * clock_hertz(gpu) : 0;
}

#define SPREAD_STEPS 12 /* over which tiles of uneven groups are averaged */

/* Tiles along an extent; where that is what groups have on average, the average of what they need. */
static double tiles_along(const CostModel *model, int64_t extent, int64_t side, bool uneven)
{
  double sum = 0;
  if (!uneven) return divide_up(extent, side);
  for (int i = 0; i <= SPREAD_STEPS; i++) {
    double part = 1 + model->group_spread * (2.0 * i / SPREAD_STEPS - 1);
    sum += divide_up(MAX(1, (int64_t)((double)extent * part)), side);
  }
  return sum / (SPREAD_STEPS + 1);
}

/* Blocks of a cluster begin and end together, those outside of the result too. */
static double tile_count(const CostModel *model, const CostGemm *gemm, const CostTile *tile)
{
  int64_t down = MAX(1, tile->cluster_m), across = MAX(1, tile->cluster_n);
  return (double)gemm->batches * (double)(down * across) *
         tiles_along(model, gemm->m, tile->bm * down, gemm->uneven_m) *
         tiles_along(model, gemm->n, tile->bn * across, gemm->uneven_n);
}

CostReport cost_waves(const CostModel *model, const CostGemm *gemm, const CostTile *tile, unsigned parts,
                      unsigned resident)
{
  double tiles = tile_count(model, gemm, tile);
  return (CostReport){.tiles = tiles, .waves = ceil(tiles * parts / (gemm->sms * (double)resident))};
}

/* Clocks that an SM's TMA takes for a block's part of a step's copies. `busy`: the part of all SMs that
 * copy. */
static double issue_clocks(const CostModel *model, const CostGemm *gemm, const CostTile *tile, double rate,
                           double busy)
{
  double a = (double)tile->bm * tile->bk * gemm->a_bytes, b = (double)tile->bn * tile->bk * gemm->b_bytes;
  double slow = (tile->split_k > 1 ? fmax(LINE / rate, model->straddling_parts * busy)
                                   : fmax(model->straddling_few, model->straddling_copy * busy)) /
                LINE;
  a *= (gemm->a_straddles ? slow : 1 / rate) / MAX(1, tile->cluster_n);
  return a + b * (gemm->b_straddles ? slow : 1 / rate) / MAX(1, tile->cluster_m);
}

/* Clocks in which slices leave their sums and the last of them adds up, or several a share of the columns each. */
static double slices_clocks(const Gpu *gpu, const CostTile *tile, bool thin)
{
  const CostModel *model = gpu->model;
  unsigned owners = MAX(1, tile->reducers), parts = owners > 1 ? tile->split_k : tile->split_k - 1;
  unsigned further = (parts - 1) / gpu->warp_size;
  double outputs = (double)tile->bm * tile->bn;
  return model->slice_fix + (thin ? model->slice_thin : 0) + model->slice_flags * further +
         model->slice_output * outputs * tile->split_k / owners +
         (owners > 1 ? model->slice_left * outputs : 0);
}

/* Clocks for 128 bytes of rows that begin at multiples of so many, where `busy` of the SMs copy. */
static double line_clocks(const CostModel *model, const CostTile *tile, unsigned begins, double rate,
                          double busy, double waves)
{
  if (begins >= LINE || begins < LINE / 4) return LINE / rate; /* inside of sectors: priced apart */
  double clocks = (begins < LINE / 2 ? model->quarter_line : model->half_line) *
                  (tile->pingpong > 1 ? model->line_in_turn : 1);
  if (waves >= model->few_waves || tile->split_k > 1) clocks *= model->line_apart;
  return fmax(LINE / rate, busy * clocks);
}

/* The same where rows begin inside of lines. `busy`: the part of all SMs that copy. */
static double lines_clocks(const CostModel *model, const CostGemm *gemm, const CostTile *tile, double rate,
                           double busy, double waves)
{
  double a = (double)tile->bm * tile->bk * gemm->a_bytes / LINE,
         b = (double)tile->bn * tile->bk * gemm->b_bytes / LINE;
  double alone = a * line_clocks(model, tile, gemm->a_lines, rate, busy, waves) / MAX(1, tile->cluster_n) +
                 b * line_clocks(model, tile, gemm->b_lines, rate, busy, waves) / MAX(1, tile->cluster_m);
  bool cut = gemm->a_lines < LINE || gemm->b_lines < LINE;
  return MAX(1, tile->cluster_n) * MAX(1, tile->cluster_m) > 1 && cut
             ? fmax(alone, (a + b) * model->line_share * busy * (tile->split_k > 1 ? model->line_apart : 1))
             : alone;
}

/* Clocks in which a block's part of a step's copies arrives. */
static double copy_clocks(const CostModel *model, const CostGemm *gemm, const CostTile *tile, double rate,
                          double busy)
{
  double a = (double)tile->bm * tile->bk * gemm->a_bytes, b = (double)tile->bn * tile->bk * gemm->b_bytes;
  double whole = (a + b) / rate;
  unsigned sharers = MAX(1, tile->cluster_n) * MAX(1, tile->cluster_m);
  if (!gemm->a_straddles && !gemm->b_straddles) return whole;
  double share = tile->pingpong > 1 ? model->share_in_turn : model->straddling_share;
  if (sharers > 1) whole = fmax(whole, (a * gemm->a_straddles + b * gemm->b_straddles) * share / LINE);
  return fmax(whole, issue_clocks(model, gemm, tile, rate, busy));
}

/* Clocks that TMA takes for a tile's results, if they straddle. */
static double straddling_stores(const CostModel *model, const CostGemm *gemm, const CostTile *tile)
{
  double rows = tile->exchanged ? tile->bn : tile->bm, columns = tile->exchanged ? tile->bm : tile->bn;
  if (!gemm->out_straddles) return 0;
  return rows * ceil(columns * gemm->out_bytes / LINE) * model->straddling_store *
         (tile->bm > model->tall_rows ? model->tall_store : 1);
}

static double overlapped(double a, double b)
{
  double larger = fmax(a, b), ratio = larger > 0 ? fmin(a, b) / larger : 0;
  return larger * sqrt(sqrt(1 + ratio * ratio * ratio * ratio));
}

/* Products that need nearly all that the L2 cache delivers wait for it now and then. */
static double near_limit(double step, double copy)
{
  return step * pow(1 + pow(fmin(1, copy / step), 8), 0.125);
}

/* Parts in which results leave (stage_stores), narrow ones counted as the wide ones that take as long. */
static double store_parts(const CostModel *model, const CostTile *tile, unsigned bytes)
{
  unsigned rows = tile->bm * MAX(1, tile->pingpong), columns = tile->bn / MAX(1, tile->reducers);
  unsigned width = staging_width(&staging_usual, rows, columns, bytes, bytes);
  double parts = width ? divide_up(columns, width) : columns / (double)STORED_COLUMNS;
  return width * bytes < model->narrow_row ? model->narrow_part * parts : parts;
}

/* What the tiles that run at once read of both operands. */
static double wave_bytes(const CostModel *model, const CostGemm *gemm, const CostTile *tile)
{
  double rows = fmin(model->usual_raster, divide_up(gemm->m, tile->bm));
  double columns = fmin(ceil(gemm->sms / rows), divide_up(gemm->n, tile->bn));
  return (rows * tile->bm * gemm->a_bytes + columns * tile->bn * gemm->b_bytes) * (double)gemm->k;
}

/* Clocks of a step in which no product runs since sums are added. Warpgroups that share the tile add while
 * another multiplies; those that take turns have it to themselves. Where three sums fit a thread's registers,
 * all but every fourth step add while the next one is multiplied (pass overlap_sums). */
static double promotion(const CostModel *model, const CostTile *tile)
{
  unsigned beside = MAX(1, tile->warpgroups_n),
           groups = tile->pingpong > 1 ? 1 : warpgroups_of_rows(tile->bm);
  double rows = (double)tile->bm / groups, sums = rows / WARPGROUP_ROWS * tile->bn / beside / 2;
  groups = MAX(groups, beside);
  double overlapped = sums <= model->overlapped_sums ? 1.0 / model->overlapped_steps : 1;
  return (model->promote + sums) * (groups > 1 ? 1 - model->promote_hidden : 1) * overlapped;
}

/* Clocks of a tile's end: the last one's, and what of the others the next tile's products do not hide. */
typedef struct {
  double last, turn;
} TileEnd;

/* `main`: clocks of a tile's products. */
static TileEnd tile_end(const CostModel *model, const CostGemm *gemm, const CostTile *tile, double main,
                        double parts, bool paced)
{
  double outputs = (double)tile->bm * tile->bn / MAX(1, tile->reducers);
  double stored = outputs / model->epilogue_speed,
         arithmetic = gemm->operations * outputs / model->scheduler_lanes;
  stored = fmax(stored, straddling_stores(model, gemm, tile) / MAX(1, tile->reducers));
  double turn = model->turn + model->store_part * parts;
  TileEnd end = {.last = stored + arithmetic * (paced ? model->paced_alone : 1)};
  end.turn = turn + stored * (tile->bm > WARPGROUP_ROWS ? model->exposed_two_groups : 1) + arithmetic;
  if (tile->pingpong <= 1) return end;
  /* one stores while another multiplies, unless storing takes longer */
  double busy = end.turn - arithmetic + stored + (paced ? model->paced : 1) * arithmetic;
  end.turn = fmax(model->turn_part * parts, (busy - main) / 2) + (paced ? 0 : model->stolen * arithmetic);
  return end;
}

bool cost_has_arithmetic(const CostModel *model, const CostGemm *gemm)
{
  return gemm->operations >= model->worth_a_pace;
}

/* The one multiplication by the scales of 8-bit floats gained 1 to 2 % by it, but where results are
 * transposed on their way lost as much; of other operands it was not measured (docs/performance-log.md). */
static bool may_pace(const CostModel *model, const CostGemm *gemm, const CostTile *tile)
{
  bool scaled = gemm->a_bytes == 1 && gemm->operations > 0 && !tile->exchanged;
  return tile->pingpong > 1 && (scaled || cost_has_arithmetic(model, gemm));
}

/* The faster of a tile's ends, computed together by few results at a time (*paced) or not. */
static TileEnd best_end(const CostModel *model, const CostGemm *gemm, const CostTile *tile, double waves,
                        double main, bool *paced)
{
  double parts = store_parts(model, tile, gemm->out_bytes);
  TileEnd plain = tile_end(model, gemm, tile, main, parts, false);
  *paced = false;
  if (!may_pace(model, gemm, tile)) return plain;
  TileEnd slow = tile_end(model, gemm, tile, main, parts, true);
  *paced = (waves - 1) * slow.turn + slow.last < (waves - 1) * plain.turn + plain.last;
  return *paced ? slow : plain;
}

bool cost_paces(const Gpu *gpu, const CostGemm *gemm, const CostTile *tile)
{
  const CostModel *model = gpu->model;
  CostReport cost = cost_warpgroup_gemm(gpu, gemm, tile);
  bool paced;
  best_end(model, gemm, tile, cost.waves, divide_up(gemm->k, tile->bk) * cost.step, &paced);
  return paced;
}

/* Bytes of both operands that come from device memory if bands of `band_rows` rows of tiles are walked one after
 * the other, column by column. Where a band of A stays in the cache, all of B passes once for each band;
 * where it does not, every wave of blocks brings what it reads. */
static double raster_traffic(const Gpu *gpu, const CostGemm *gemm, const CostTile *tile, unsigned band_rows)
{
  const CostModel *model = gpu->model;
  double rows = divide_up(gemm->m, tile->bm), columns = divide_up(gemm->n, tile->bn), k = (double)gemm->k;
  double high = fmin(band_rows, rows), room = model->operand_share * gpu->l2_bytes;
  double a = (double)gemm->m * k * gemm->a_bytes, b = (double)gemm->n * k * gemm->b_bytes;
  if (a + b <= room) return a + b;
  double wide = fmin(columns, ceil(gemm->sms / high));
  double wave = (high * tile->bm * gemm->a_bytes + wide * tile->bn * gemm->b_bytes) * k;
  double band = high * tile->bm * k * gemm->a_bytes, bands = ceil(rows / high);
  if (band <= room) return a + (b <= room ? 1 : bands) * b;
  return bands * ceil(high * columns / gemm->sms) * wave;
}

/* Bytes of both operands, a tile and element of k, that blocks of consecutive indices ask for, where `band_rows`
 * rows of tiles are walked together. */
static double neighbour_bytes(const CostModel *model, const CostGemm *gemm, const CostTile *tile,
                              unsigned band_rows)
{
  unsigned down = MAX(1, tile->cluster_m), across = MAX(1, tile->cluster_n), share = down * across;
  unsigned bands_high = MAX(1, band_rows / down);
  double rows = divide_up(gemm->m, tile->bm * down), columns = divide_up(gemm->n, tile->bn * across);
  double tiles = fmin(fmax(1, model->neighbours / share), rows * columns);
  double high = fmin(fmin(bands_high, rows), tiles);
  double bands = ceil(tiles / (high * columns)), wide = bands > 1 ? columns : ceil(tiles / high);
  double bytes =
      fmin(bands * high, rows) * tile->bm * down * gemm->a_bytes + wide * tile->bn * across * gemm->b_bytes;
  return bytes / (tiles * share);
}

/* Walking row by row pays where neighbours then ask for clearly fewer bytes. */
static bool walks_row_by_row(const Gpu *gpu, const CostGemm *gemm, const CostTile *tile)
{
  const CostModel *model = gpu->model;
  if (tile->cluster_m > 1 || tile->cluster_n > 1 || tile->split_k > 1 || gemm->batches > 1) return false;
  return neighbour_bytes(model, gemm, tile, 1) <=
             model->worth_one_row * neighbour_bytes(model, gemm, tile, model->usual_raster) &&
         raster_traffic(gpu, gemm, tile, 1) <= raster_traffic(gpu, gemm, tile, model->usual_raster);
}

/* Clocks in which the L2 cache delivers what all SMs ask for in a step. */
static double l2_clocks(const Gpu *gpu, const CostGemm *gemm, const CostTile *tile, double busy)
{
  const CostModel *model = gpu->model;
  unsigned band_rows = walks_row_by_row(gpu, gemm, tile) ? 1 : model->usual_raster;
  return neighbour_bytes(model, gemm, tile, band_rows) * tile->bk * busy / model->l2_rate;
}

/* Many tiles of batches with few steps each, where device memory takes much longer than the products last and
 * most of what it takes are results: in turn on 128x128 they are faster with few slots, by this part of
 * memory's time. Measured with six slots and three: 32 of 2048 x 2048 x 128 (docs/performance-log.md). Where
 * operands are most of it other tiles are faster than this one with few slots (512 of 512 x 512 x 512). */
static bool wants_few_slots(const CostModel *model, const CostGemm *gemm, const CostTile *tile,
                            const CostReport *cost)
{
  double m = (double)gemm->m, n = (double)gemm->n, k = (double)gemm->k, steps = ceil(k / tile->bk);
  bool turns = tile->pingpong > 1 && tile->cluster_m * tile->cluster_n <= 1;
  bool fills = tile->bm * tile->bn == model->few_slots_area && m >= tile->bm && n >= tile->bn;
  bool results =
      m * n * gemm->out_bytes >= model->mostly_results * (m * k * gemm->a_bytes + k * n * gemm->b_bytes);
  return turns && fills && results && gemm->batches > 1 && steps >= model->few_slots_least &&
         steps <= model->few_slots_most && cost->waves >= model->few_slots_waves &&
         cost->memory > model->waits_for_memory * cost->waves * steps * cost->step;
}

/* Blocks that walk many tiles of batches drift apart, since some SMs get more of the memory than others: what
 * neighbours would have shared comes from device memory again (ncu, 512 of 512 x 512 x 512 on 128x128 in
 * turn: 802 MB read for 537). So a tile as wide as the result, which reads A once, is better; tiles that
 * warpgroups share lose more than those in turn (1024 and 512 cubed, 2048 x 2048 x 128); and of those in turn
 * a ring that is less deep keeps blocks together: 357 us with six slots, 280 with five
 * (docs/performance-log.md). */
static bool drifts(const CostGemm *gemm, const CostTile *tile, double work)
{
  double results = (double)gemm->batches * (double)gemm->m * (double)gemm->n / gemm->sms;
  return gemm->batches > 1 && results >= work && gemm->n > tile->bn;
}

static bool drifts_far(const CostModel *model, const CostGemm *gemm, const CostTile *tile,
                       const CostReport *cost)
{
  double busy = cost->waves * ceil((double)gemm->k / tile->bk) * cost->step;
  return drifts(gemm, tile, model->far_apart_work) && tile->pingpong > 1 &&
         tile->cluster_m * tile->cluster_n <= 1 && tile->bm * tile->bn == model->few_slots_area &&
         cost->memory > model->waits_for_memory * busy;
}

/* As long a step takes where clusters that are at different k fetch operands which L2 does not keep for all. */
static double apart_in_k(const Gpu *gpu, const CostGemm *gemm)
{
  const CostModel *model = gpu->model;
  double bytes = ((double)gemm->m * gemm->a_bytes + (double)gemm->n * gemm->b_bytes) * (double)gemm->k;
  double part = bytes / (double)gpu->l2_bytes, width = fmax(model->split_far - model->split_near, 0.01);
  return 1 + model->split_apart * fmax(0, fmin(1, (part - model->split_near) / width));
}

/* As long DRAM takes where slices, which stand apart in k, read operands that L2 does not hold. */
static double slices_memory(const Gpu *gpu, const CostGemm *gemm)
{
  double bytes = ((double)gemm->m * gemm->a_bytes + (double)gemm->n * gemm->b_bytes) * (double)gemm->k;
  return 1 + (gpu->model->slice_memory - 1) * fmax(0, fmin(1, bytes / (double)gpu->l2_bytes - 1));
}

/* Of a k step: warpgroups widen their rows beside one another, and products wait for that, unless warps have parts of k. */
static double widening(const CostModel *model, const CostGemm *gemm, const CostTile *tile)
{
  if (!tile->widens || tile->k_parts > 1) return 0; /* while others' products run */
  /* by elements: of 4 bits a thread loads whole words */
  bool nibbles = gemm->a_bytes < 1;
  double lines = (double)tile->bk / LINE;
  double narrow = tile->by_warps ? model->widen_warps : model->widen_nibbles;
  if (nibbles && !tile->promote && tile->bm > WARPGROUP_ROWS) narrow *= 1 - model->widen_hidden;
  return lines * (nibbles ? narrow : model->widen_line) * (tile->widens_across ? model->widen_across : 1);
}

/* Clocks of a k step in which as many blocks of an SM keep each other from widening. */
static double widening_busy(const CostModel *model, const CostGemm *gemm, const CostTile *tile,
                            double together)
{
  if (!tile->widens || gemm->a_bytes >= 1) return 0;
  if (tile->k_parts > 1)
    return together * (double)tile->bm / WARPGROUP_ROWS * (double)tile->bk / LINE * model->widen_parts;
  double groups = ceil((double)tile->bm / WARPGROUP_ROWS);
  return together * groups * (double)tile->bk / LINE *
         (tile->by_warps ? model->widen_warps_busy : model->widen_nibbles_busy);
}

/* Of a k step: fragments of both operands that warps widen, each for itself. A warp's part is taken as a square. */
static double widening_fragments(const CostModel *model, const CostGemm *gemm, const CostTile *tile)
{
  if (gemm->through == gemm->type) return 0;
  double outputs = (double)tile->bm * tile->bn, warps = product_warps(tile->bm * tile->bn);
  return warps * sqrt(outputs / warps) * (gemm->a_bytes + gemm->b_bytes) * tile->bk / model->widen_fragments;
}

/* What TMA brings an SM in a clock while `busy` of them copy. */
static double copy_rate(const Gpu *gpu, const CostGemm *gemm, const CostTile *tile, double waves, double busy)
{
  const CostModel *model = gpu->model;
  double rate = gpu_fact(gpu, "tma.throughput");
  if (!(rate > 0)) rate = model->default_copy;
  double all = waves >= model->few_waves && wave_bytes(model, gemm, tile) > model->l2_full * gpu->l2_bytes
                   ? model->all_copy_misses
                   : model->all_copy;
  if (2 * busy > gpu->sm_count) rate = fmin(rate, model->pair_copy);
  return fmin(rate, all * gpu->sm_count / busy);
}

/* The parts of a k step, each alone, and the slowest; `engine`: clocks that TMA's instructions take in it, those of the results
 * (`stores`) shared out over the `deep` steps. */
static void cost_step(const Gpu *gpu, const CostGemm *gemm, const CostTile *tile, double busy, double stores,
                      double deep, CostReport *cost, double *engine)
{
  const CostModel *model = gpu->model;
  double bm = tile->bm, bn = tile->bn, bk = tile->bk;
  double filled = (bm * gemm->a_bytes + bn * gemm->b_bytes) * bk;
  unsigned beside = MAX(1, tile->warpgroups_n);
  /* each warpgroup reads all of B, those beside one another all of A */
  double read = bm / WARPGROUP_ROWS * (WARPGROUP_ROWS * gemm->a_bytes * beside + bn * gemm->b_bytes) * bk;
  double banks = (double)gpu->shared_banks * gpu->shared_bank_bytes;
  double rate = copy_rate(gpu, gemm, tile, cost->waves, busy);
  cost->tensor = 2 * bm * bn * bk / product_rate(gpu, gemm->type) / model->tensor_efficiency;
  if (tile->promote) cost->tensor += promotion(model, tile);
  if (tile->promote && tile->two_scales)
    cost->tensor += model->two_scales + (tile->short_chunks ? model->short_chunks : 0);
  cost->tensor = fmax(cost->tensor + widening(model, gemm, tile), widening_busy(model, gemm, tile, 1));
  if (tile->through_registers)
    cost->tensor += model->load_a * (tile->bm > WARPGROUP_ROWS ? 1 - model->load_a_hidden : 1);
  cost->shared = (filled + read) / banks /
                 (tile->bm > WARPGROUP_ROWS ? model->shared_two_groups : model->shared_one_group);
  double part = busy / gpu->sm_count;
  *engine = issue_clocks(model, gemm, tile, rate, part) + stores / deep;
  double copies = fmax(copy_clocks(model, gemm, tile, rate, part),
                       lines_clocks(model, gemm, tile, rate, part, cost->waves));
  cost->copy = overlapped(copies, l2_clocks(gpu, gemm, tile, busy));
  if (stores > 0) cost->copy = fmax(cost->copy, *engine);
  cost->latency = model->copy_latency / fmax(1, (double)tile->stages - 1);
  cost->step =
      fmax(fmax(fmax(cost->tensor, cost->shared), fmax(cost->copy, cost->latency)), model->least_step);
}

/* A k step beside others: copies of what lies outside of the tensors, blocks that drift apart, parts that are about as slow as the
 * slowest. */
static double step_beside_others(const CostModel *model, const CostGemm *gemm, const CostTile *tile,
                                 const CostReport *cost, double busy, unsigned split)
{
  double step = cost->step;
  double tall = divide_up(gemm->m, tile->bm), outside = tall * tile->bm - (double)gemm->m;
  /* those that share a tile read other k, those beside one another in a cluster copy once */
  if (!tile->clips_rows) step += model->outside_row * outside * busy / tall / split / MAX(1, tile->cluster_n);
  double wide = divide_up(gemm->n, tile->bn), beyond = wide * tile->bn - (double)gemm->n;
  if (!tile->clips_columns) step += model->outside_row * beyond * busy / wide / split / cost->waves;
  if (tile->streamed && tall > model->stream_rows) step *= model->stream_apart;
  bool parts = tile->parts_m > 1; /* whose products are those of 128 rows */
  if (tile->cluster_n > 1 && cost->waves > 1 && !parts) step *= model->across_waves;
  if (tile->cluster_n > 1 && tile->cluster_m > 1 && !tile->sliced) step += model->two_ways;
  if (cost->waves > 1 || tile->stages <= model->few_stages) {
    double quiet = model->quiet_latency / fmax(0.5, (double)tile->stages - 2);
    double work =
        fmax(cost->tensor, cost->shared); /* copies that take longer wait for nothing but themselves */
    step = near_limit(near_limit(step, fmin(cost->copy, work)), quiet) *
           (tile->bm > model->tall_rows && !parts ? model->tall_tile : 1);
  }
  return step;
}

/* Until blocks that share a tile have added up what they have. */
static double combine_clocks(const Gpu *gpu, const CostTile *tile, unsigned split)
{
  const CostModel *model = gpu->model;
  double bm = tile->bm, bn = tile->bn;
  if (tile->streamed)
    return model->stream_fix + (model->stream_fix_part + model->stream_fix_output * bm * bn) * (split - 1);
  if (tile->sliced) return slices_clocks(gpu, tile, false);
  return split > 1 ? model->combine + model->combine_output * bm * bn + model->combine_part * split : 0;
}

CostReport cost_warpgroup_gemm(const Gpu *gpu, const CostGemm *gemm, const CostTile *tile)
{
  const CostModel *model = gpu->model;
  unsigned split = tile->split_k > 1 ? tile->split_k : 1;
  CostReport cost = cost_waves(gpu->model, gemm, tile, split, 1);
  double busy = fmin(cost.tiles * split, gemm->sms), stores = straddling_stores(model, gemm, tile);
  double deep = ceil(divide_up(gemm->k, tile->bk) / split), engine;
  cost_step(gpu, gemm, tile, busy, stores, deep, &cost, &engine);
  cost.step = step_beside_others(model, gemm, tile, &cost, busy, split);
  double beyond = divide_up(gemm->n, tile->bn) * tile->bn - (double)gemm->n;
  cost.memory =
      memory_clocks(gpu, gemm, tile) * (gemm->batches > 1 && beyond > 0 ? model->partly_outside : 1);
  if ((tile->cluster_m > 1 || tile->cluster_n > 1) && tile->parts_m <= 1) cost.memory *= model->pair_memory;
  if (tile->sliced) cost.memory *= slices_memory(gpu, gemm);
  bool apart = drifts(gemm, tile, model->drifting_work);
  if (apart) cost.memory *= model->read_again;
  if (split > 1 && !tile->sliced && !tile->streamed) cost.step *= apart_in_k(gpu, gemm);
  double steps = cost.waves * deep;
  if (stores > 0 && deep <= model->few_steps) cost.memory += steps * engine;
  double main = steps / cost.waves * cost.step;
  bool paced;
  TileEnd end = best_end(model, gemm, tile, cost.waves, main, &paced);
  double exposed = (cost.waves - 1) * end.turn;
  /* the more blocks a cluster has, the longer until all have started */
  double fill = model->fill + model->fill_pair * (MAX(1, tile->cluster_m) * MAX(1, tile->cluster_n) - 1.0);
  cost.total = fill + overlapped(steps * cost.step + exposed, cost.memory) + end.last +
               combine_clocks(gpu, tile, split);
  if (wants_few_slots(model, gemm, tile, &cost)) cost.total -= model->few_slots_gain * cost.memory;
  if (apart && tile->pingpong <= 1 && gemm->m > tile->bm) cost.total *= model->drift_shared;
  if (apart && beyond > 0) cost.total *= model->partly_outside;
  return cost;
}

unsigned cost_slots(const Gpu *gpu, const CostGemm *gemm, const CostTile *tile)
{
  const CostModel *model = gpu->model;
  CostReport cost = cost_warpgroup_gemm(gpu, gemm, tile);
  if (wants_few_slots(model, gemm, tile, &cost)) return model->few_slots;
  return drifts_far(model, gemm, tile, &cost) ? model->together_slots : G_MAXUINT;
}

CostReport cost_stream_gemm(const Gpu *gpu, const CostGemm *gemm, const CostTile *tile)
{
  const CostModel *model = gpu->model;
  unsigned split = tile->split_k > 1 ? tile->split_k : 1, resident = tile->blocks > 1 ? tile->blocks : 1;
  CostReport cost = cost_waves(model, gemm, tile, split, resident);
  double bm = tile->bm, bn = tile->bn, bk = tile->bk, deep = bk * gemm->a_bytes / LINE;
  double filled = (bm * gemm->a_bytes + bn * gemm->b_bytes) * bk;
  double blocks = cost.tiles * split, busy = fmin(blocks, gemm->sms);
  double together = fmin(resident, ceil(blocks / gemm->sms)); /* blocks of the busiest SM that run at once */
  double rate = gpu_fact(gpu, "tma.throughput");
  if (!(rate > 0)) rate = model->default_copy;
  double all = tile->threads_copy ? model->thin_threads_copy : model->all_copy;
  rate = fmin(rate, all * gpu->sm_count / busy);
  cost.tensor = 2 * bm * bn * bk / product_rate(gpu, tile->threads_copy ? gemm->through : gemm->type) /
                    model->tensor_efficiency +
                widening(model, gemm, tile) +
                (tile->threads_copy ? widening_fragments(model, gemm, tile) : 0);
  cost.tensor = fmax(cost.tensor, widening_busy(model, gemm, tile, together));
  double whole = filled / rate, copies = tile->threads_copy ? whole : copy_clocks(model, gemm, tile, rate, 1);
  if (!tile->threads_copy &&
      gemm->n > tile->bn) { /* then A does not stream past once: it is a tile as others */
    double lines = lines_clocks(model, gemm, tile, rate, busy / gpu->sm_count, cost.waves);
    copies = overlapped(fmax(copies, lines), l2_clocks(gpu, gemm, tile, busy));
  }
  cost.copy =
      together * (bn <= model->thin_few_columns && blocks <= gemm->sms ? (whole + copies) / 2 : copies);
  double latency = tile->threads_copy ? model->thin_threads_latency : model->thin_latency;
  double output = tile->threads_copy ? model->thin_threads_output : model->thin_output;
  cost.latency = latency / fmax(1, (double)tile->stages - 1);
  double least = tile->threads_copy ? model->thin_threads_step + model->thin_threads_row * bm * deep
                                    : model->thin_step + (model->thin_depth + model->thin_column * bn) * deep;
  cost.step = fmax(fmax(cost.tensor, cost.latency), fmax(cost.copy, least));
  if (split > 1 && !tile->sliced && gemm->n > tile->bn) cost.step *= apart_in_k(gpu, gemm);
  double wide = divide_up(gemm->n, tile->bn), outside = bn - (double)gemm->n / wide;
  if (!tile->clips_columns) cost.step += model->outside_row * outside * busy / split * deep;
  cost.memory = memory_clocks(gpu, gemm, NULL);
  double outputs = bm * bn / MAX(1, tile->reducers), deep_steps = ceil(divide_up(gemm->k, tile->bk) / split);
  /* blocks that follow one another on an SM: their products, or their results, whatever takes longer */
  double wave = fmax(deep_steps * cost.step, cost.waves > 1 ? together * output * outputs : 0);
  double combine =
      split > 1 ? model->thin_combine + model->combine_output * bm * bn + model->combine_part * split : 0;
  if (split > 1 && resident > 1) combine += model->combine_beside;
  if (tile->sliced) combine = slices_clocks(gpu, tile, true);
  /* a block beside another hides its start and its end */
  double exposed = resident > 1 ? 0 : (cost.waves - 1) * model->thin_turn;
  double arithmetic = gemm->operations * outputs / model->scheduler_lanes;
  cost.total = model->fill + overlapped(cost.waves * wave, cost.memory) + output * outputs + arithmetic +
               exposed + combine;
  return cost;
}

/* FLOP a clock and SM of warp MMAs: stated for 16-bit operands, others by their width, which is that of what they are widened to. */
static double warp_rate(const Gpu *gpu, const CostGemm *gemm)
{
  double rate = gpu_fact(gpu, "warp_mma.throughput");
  return rate > 0 ? rate * number_bits(NUMBER_BF16) / number_bits(gemm->through)
                  : product_rate(gpu, gemm->type);
}

#define WARP_ROWS 2 /* of warps, where a block has eight */

/* Clocks of a k step of so many blocks of an SM together. */
static double warp_step(const CostModel *model, const CostReport *cost, const CostTile *tile, double together)
{
  double spared = model->warp_spared * fmax(0, 1 - cost->shared / cost->tensor);
  double efficiency = together > 1 ? model->warp_efficiency : model->warp_one_block + spared;
  double tensor = together > 1 ? together * cost->tensor : cost->tensor + cost->alone;
  double busy = overlapped(tensor / efficiency, together * cost->copy);
  double step = fmax(fmax(busy, together * cost->shared), cost->latency) + model->warp_step;
  return tile->bm > model->warp_tall_rows * WARP_ROWS && tile->bn > model->warp_tall_columns
             ? model->warp_tall_part * step
             : step;
}

/* Clocks from a copy's issue to its barrier that a k step waits for. */
static double warp_latency(const CostModel *model, const CostTile *tile)
{
  if (tile->copy_bytes == 0 || tile->copy_bytes >= WIDEST_COPY)
    return model->warp_latency / fmax(1, (double)tile->stages - 1);
  double each = tile->copy_bytes >= 8   ? model->warp_bytes_8
                : tile->copy_bytes >= 4 ? model->warp_bytes_4
                                        : model->warp_elements;
  return tile->stages > 2 ? each / ((double)tile->stages - 1) : each;
}

/* What a warp MMA's tile costs beside its k steps, of which the next one's begin sooner. */
typedef struct WarpTurn {
  double whole; /* clocks from nothing to its first products, and from its last to its results */
  double next;  /* of a tile behind another */
} WarpTurn;

static WarpTurn warp_turn(const CostModel *model, const CostGemm *gemm, const CostTile *tile)
{
  double outputs = (double)tile->bm * tile->bn;
  double whole =
      model->warp_start + outputs / model->warp_outputs + gemm->operations * outputs / model->scheduler_lanes;
  return (WarpTurn){whole, whole - (tile->walks ? model->warp_started : 0)};
}

/* Tiles that follow one another on each SM, the last of them divided so that all have as many portions. */
static double warp_even(const CostModel *model, CostReport *cost, const CostGemm *gemm, const CostTile *tile)
{
  WarpTurn turn = warp_turn(model, gemm, tile);
  double deep = divide_up(gemm->k, tile->bk), outputs = (double)tile->bm * tile->bn;
  double most = ceil(cost->tiles * ceil(deep / tile->stream_steps) / gemm->sms) * tile->stream_steps;
  cost->waves = most / deep;
  cost->step = warp_step(model, cost, tile, 1);
  double busy = most * cost->step + floor(cost->waves) * turn.next;
  return model->warp_even * overlapped(busy, cost->memory) + turn.whole + model->warp_fix +
         model->warp_fix_output * outputs;
}

CostReport cost_warp_gemm(const Gpu *gpu, const CostGemm *gemm, const CostTile *tile)
{
  const CostModel *model = gpu->model;
  unsigned parts = tile->streamed ? tile->split_k : 1;
  CostReport cost = cost_waves(model, gemm, tile, parts, 1);
  double bm = tile->bm, bn = tile->bn, bk = tile->bk, resident = tile->blocks > 1 ? tile->blocks : 1;
  double filled = (bm * gemm->a_bytes + bn * gemm->b_bytes) * bk;
  double warps = product_warps(tile->bm * tile->bn);
  double edge = sqrt(bm * bn / warps); /* a warp's part, taken as a square */
  double read = warps * edge * (gemm->a_bytes + gemm->b_bytes) * bk;
  double widened = widening_fragments(model, gemm, tile);
  cost.alone = model->widen_alone * widened;
  cost.tensor = 2 * bm * bn * bk / warp_rate(gpu, gemm) + widening(model, gemm, tile) + widened;
  cost.shared = filled / model->warp_shared + read / model->warp_fragments;
  cost.copy = filled / model->warp_copy;
  cost.latency = warp_latency(model, tile);
  cost.memory = memory_clocks(gpu, gemm, NULL);
  if (tile->streamed && cost.waves > 1 && tile->stream_steps) {
    cost.total = model->fill + warp_even(model, &cost, gemm, tile);
    return cost;
  }
  /* the busiest SM's tiles: as many at once as it holds, and what is left */
  double rounds = floor(cost.waves / resident), left = cost.waves - rounds * resident;
  cost.step = warp_step(model, &cost, tile, fmin(resident, cost.waves));
  double rest = left > 0 ? warp_step(model, &cost, tile, left) : 0,
         hidden = resident > 1 ? model->warp_hidden : 1;
  WarpTurn turn = warp_turn(model, gemm, tile);
  double steps = ceil(divide_up(gemm->k, tile->bk) / parts);
  double busy = steps * (rounds * cost.step + rest) + (cost.waves - 1) * turn.next * hidden;
  double fix = parts > 1
                   ? model->warp_fix + (model->warp_fix_part + model->warp_fix_output * bm * bn) * (parts - 1)
                   : 0;
  cost.total = model->fill + overlapped(busy, cost.memory) + turn.whole + fix;
  return cost;
}

unsigned cost_sums_deep(const CostModel *model, unsigned vector, unsigned rows, unsigned m)
{
  unsigned deep = model->sums_deep;
  while (deep > 1 && deep * (rows + m) * vector > model->sums_loads)
    deep /= 2;
  return deep;
}

double cost_sums(const Gpu *gpu, const CostGemm *gemm, unsigned vector, unsigned columns, unsigned rows)
{
  const CostModel *model = gpu->model;
  double busy = fmin(divide_up(gemm->n, columns), gemm->sms),
         steps = divide_up(gemm->k, gpu->warp_size * vector);
  double warps = (double)gemm->n / rows; /* of B's rows a warp, which share the loads of A's */
  double loads = warps * steps * (rows + (double)gemm->m) / busy * model->sums_load;
  double groups = ceil(steps / cost_sums_deep(model, vector, rows, (unsigned)gemm->m));
  double work = fmax(loads, groups * model->sums_latency);
  return model->fill + model->sums_end +
         overlapped(work, memory_clocks(gpu, gemm, NULL) / model->sums_memory);
}

/* Walking more rows together than usual slows kernels for which device memory is no limit: it pays where it
 * saves a good part of the kernel's time. */
unsigned cost_raster(const Gpu *gpu, const CostGemm *gemm, const CostTile *tile)
{
  const CostModel *model = gpu->model;
  static const unsigned groups[] = {16, 32, 64};
  double usual = raster_traffic(gpu, gemm, tile, model->usual_raster), least = usual;
  unsigned best = model->usual_raster;
  for (unsigned i = 0; i < G_N_ELEMENTS(groups); i++) {
    double traffic = raster_traffic(gpu, gemm, tile, groups[i]);
    if (traffic > model->worth_more_rows * least) continue;
    least = traffic;
    best = groups[i];
  }
  double bandwidth = read_bandwidth(gpu);
  if (!(bandwidth > 0)) return model->usual_raster;
  double saved = (usual - least) / bandwidth * clock_hertz(gpu);
  if (saved > model->worth_a_raster * cost_warpgroup_gemm(gpu, gemm, tile).total) return best;
  return walks_row_by_row(gpu, gemm, tile) ? 1 : model->usual_raster;
}
