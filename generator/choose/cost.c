/* The cost model of matrix products.
 *
 * A k step of a tile takes as long as the slowest of: the tensor cores on its products, shared memory on what
 * is written into it by copies and read by products, the copies on their way from the second-level cache, and
 * the latency that the stages in flight do not hide. All tiles of the busiest SM follow one another (waves);
 * against that stands the time in which device memory delivers every operand once. The two overlap
 * imperfectly, which the norm of fourth powers says. Constants without a source in the description were
 * fitted to the runs in docs/performance-log.md. */
#include "generator/choose/cost.h"
#include "ir/resources.h"
#include "ir/staging.h"
#include <math.h>

/* Clocks of a step of 128 bytes of k at least: barrier, group products behind one another, release. */
#define LEAST_STEP 180.0
#define COPY_LATENCY                                                                                         \
  2200.0 /* clocks from a copy's issue to its barrier, with all SMs copying from memory                      \
          */
#define FILL            1500.0 /* clocks: launch of the block, barriers, the first slots */
#define FILL_PAIR       600.0  /* more where blocks of a cluster wait for one another */
#define PAIR_MEMORY     1.06   /* and what that costs where device memory decides, */
#define ACROSS_WAVES    1.07   /* and beside one another where tiles follow one another */
#define TWO_WAYS        120.0  /* of a step, where they share copies both below and beside one another */
#define DEFAULT_COPY    64.0   /* bytes a clock an SM, where the description does not say */
#define ALL_COPY_MISSES 55.4   /* where a wave reads more than the second-level cache holds */
#define ALL_COPY        71.0   /* bytes a clock an SM, where all SMs copy at once */
#define PAIR_COPY       62.0   /* where two neighbouring SMs copy */
/* Clocks of an SM's copy engine for 128 bytes that begin inside of a sector, and so touch five sectors of two
 * lines (docs/performance-log.md). */
#define STRADDLING_COPY  4.99
#define STRADDLING_FEW   3.8 /* where few SMs copy */
#define STRADDLING_PARTS 4.2 /* where blocks that share tiles are at different k */
/* And for an SM to receive them, whoever of its cluster asked. */
#define STRADDLING_SHARE 2.23
#define SHARE_IN_TURN    2.6 /* where they take turns */
/* The same of 128 bytes that begin at whole sectors but inside of a line: neighbours' requests are joined less
 * often. Half lines, then quarters (docs/performance-log.md). */
#define HALF_LINE      2.1
#define QUARTER_LINE   2.6
#define LINE_APART     1.3   /* times as long where tiles follow one another, or blocks are at different k, */
#define LINE_IN_TURN   1.2   /* times as long for tiles in turn, whose blocks drift apart */
#define LINE_SHARE     2.4   /* for each block of a cluster to receive them */
#define EPILOGUE_SPEED 12.0  /* outputs a clock: registers to shared memory to the engine */
#define TURN           696.0 /* clocks between the last product of a tile and the first of the next, */
#define STORE_PART     85.0  /* for each part of the result that goes through shared memory, */
#define COMBINE        1920.0 /* clocks for a cluster to meet and add up a tile, */
#define COMBINE_OUTPUT 0.54   /* and for each output of the tile, */
#define COMBINE_PART   156.0  /* and for each block that shares it, */
#define COMBINE_BESIDE 700.0  /* and where another cluster's block is on the SM */
/* For blocks that are no cluster to leave and find a tile's parts in device memory: */
#define STREAM_FIX        4030.0
#define STREAM_FIX_PART   600.0 /* and for each further part, */
#define STREAM_FIX_OUTPUT 0.35  /* and each of its outputs */
/* For those of slices, whose parts arrive together: to leave and find them, and for each output of each. */
#define SLICE_FIX    3900.0
#define SLICE_OUTPUT 0.081
#define SLICE_THIN   1040.0 /* more where the tile has few columns */
#define SLICE_FLAGS  850.0  /* and for each further set of flags that a warp's lanes wait for */
#define WARP_LANES   32
/* And each step where more rows of tiles than these would ask for the same columns of B together. */
#define STREAM_APART 1.08
#define STREAM_ROWS  4
/* Clocks a step for each row of a box that lies outside of the tensor and each block that copies: such rows
 * pass through the second-level cache one by one, not joined with the neighbours'. */
#define OUTSIDE_ROW 0.0715
/* Bytes a clock that pass from the second-level cache to all SMs, what neighbours share once. */
#define L2_RATE 5670.0
/* Batches that memory decides, where the last tile of a row is partly outside: 64 of 512 x 512 x 512 and 32
 * of 2048 x 2048 x 128 on 192 columns. */
#define PARTLY_OUTSIDE 1.025
#define SPLIT_LINE     0.531 /* of a line that two tiles write, what it costs more */
/* Clocks of an SM's copy engine for 128 bytes of results that begin inside of a sector. Tiles of few steps
 * have no copies on their way meanwhile: 478 x 29824 x 112 with 192 columns in turn took 16.3 us, 478 x 29832
 * x 112 20.0; 4730 x 17976 x 104, whose operands straddle too, 122 in pairs, 104 in eights.
 */
#define STRADDLING_STORE 6.5
#define FEW_STEPS        8
#define TALL_STORE       1.15 /* tiles of more than 128 rows */
/* A tile that streams one operand past few columns of the other: */
#define STREAM_OUTPUT          0.44 /* clocks for each result, straight from registers, */
#define FEW_COLUMNS            32 /* and a block an SM: straddling rows cost half of what they do elsewhere */
#define STREAM_TURN            600.0  /* between the blocks of an SM that follow one another, */
#define STREAM_STEP            80.0   /* clocks of a step at least, */
#define STREAM_DEPTH           95.0   /* for each 128 bytes of k, */
#define STREAM_COLUMN          0.65   /* and for each column of these; */
#define STREAM_THREADS         200.0  /* of a step where threads copy, */
#define STREAM_THREADS_OUTPUT  0.3    /* results and */
#define STREAM_THREADS_LATENCY 1250.0 /* copies there, */
#define STREAM_THREADS_COPY    58.0   /* bytes a clock, */
#define STREAM_ROW             2.3    /* and for each row and 128 bytes of k, */
#define STREAM_LATENCY         1560.0 /* from a copy's issue to its barrier: what memory adds is in its own term, */
#define STREAM_COMBINE         920.0 /* for a cluster to meet and add up a tile */
/* Where threads copy and warps multiply: */
#define WARP_COPY       44.0 /* bytes a clock that the threads of an SM copy, however many blocks they are, */
#define WARP_LATENCY    1500.0 /* clocks from a copy's issue to the barrier behind it, */
#define WARP_STEP       40.0   /* of a k step: wait, block barrier, addresses, */
#define WARP_START      2000.0 /* of a tile until its first products, */
#define WARP_STARTED    500.0  /* less of them where its copies began under the tile before, */
#define WARP_OUTPUTS    9.8    /* outputs a clock, straight from registers; */
#define WARP_HIDDEN     0.8    /* of both where another block multiplies meanwhile; */
#define WARP_EFFICIENCY 0.92   /* of the products' rate with two blocks, */
/* with one, which waits as a whole, and for what shared memory has to do besides: */
#define WARP_ONE_BLOCK 0.8885
#define WARP_SPARED    0.1224 /* more of it for the part of a step that shared memory has nothing to do; */
#define WARP_TALL_PART                                                                                       \
  1.06 /* a step where a warp has more than 80 rows, whose fragments take its registers; */
/* for blocks to leave and find a tile's parts in device memory: */
#define WARP_FIX        3000.0
#define WARP_FIX_PART   600.0 /* and for each further part, */
#define WARP_FIX_OUTPUT 0.15  /* and each of its outputs */
#define WARP_EVEN       1.025 /* blocks that divide the last of many tiles stand apart in k ever after */
/* Clocks of a k step at least where threads copy fewer bytes at a time, which other blocks of the SM hide: A,
 * then B, element by element through registers, or asynchronously. */
#define WARP_ELEMENTS 3700.0
#define WARP_BYTES_4  2500.0
#define WARP_BYTES_8  2100.0
/* Bytes that a k step moves through shared memory, over what its banks would deliver in the measured time:
 * one warpgroup's products hide some of what they read, two get into each other's way. */
/* Clocks from a copy's issue to its barrier when copies do not queue; a slot is free one step after its
 * products were issued, so two slots are not in flight. */
#define QUIET_LATENCY 980.0
/* Tiles of more than 128 rows took so much longer than the rest of the model says. */
#define TALL_TILE          1.03
#define SHARED_ONE_GROUP   1.33
#define SHARED_TWO_GROUPS  1.08
#define TURN_PART          79.8 /* clocks a part of the result that warpgroups which take turns do not hide */
#define EXPOSED_TWO_GROUPS 0.271 /* of an epilogue, where the other warpgroup goes on multiplying */
/* Clocks between a step's products and the next one's where each step's sum is added apart, beside the
 * additions: waits and fences. Two warpgroups hide each other's but for a part. */
#define PROMOTE          175.0
#define PROMOTE_HIDDEN   0.85
#define OVERLAPPED_SUMS  64 /* registers of a thread for each of three */
#define OVERLAPPED_STEPS 4
/* Clocks from a step's last product to the next one's first where A passes through registers in between:
 * wait, barrier, the first fragments. Two warpgroups hide most of each other's. */
#define LOAD        150.0
#define LOAD_HIDDEN 0.8
/* An epilogue's arithmetic: operations that a scheduler issues a clock; where warpgroups take turns, clocks
 * of the other's products that each costs, or, paced, clocks that it takes beside them, and behind the last
 * product (docs/performance-log.md, "why epilogues in turn are not free"). */
#define SCHEDULER_LANES   128.0 /* of the SM: one operation of a warp on each of its schedulers */
#define STOLEN            0.85
#define PACED             4.5
#define PACED_ALONE       2.2
#define WORTH_A_PACE      6    /* operations an output: shorter chains have nothing that is interleaved */
#define TENSOR_EFFICIENCY 0.93 /* of the peak, in a loop that only waits for full slots */

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
  return peak > 0 ? peak / clock_hertz(gpu) / gpu->sm_count : 1024.0;
}

static double read_bandwidth(const Gpu *gpu)
{
  return gpu->memory_bandwidth_read > 0 ? gpu->memory_bandwidth_read : 0.9 * gpu->memory_bandwidth;
}

#define LINE      128 /* bytes */
#define FEW_WAVES 3

/* Clocks in which device memory delivers the operands and takes the result. Where a tile (may be NULL) does
 * not begin and end with lines, those at its borders are written in two parts. */
static double memory_clocks(const Gpu *gpu, const CostGemm *gemm, const CostTile *tile)
{
  double m = (double)gemm->m, n = (double)gemm->n, k = (double)gemm->k;
  unsigned wide = !tile ? 0 : (tile->exchanged ? tile->bm : tile->bn) * gemm->out_bytes;
  int64_t row = (tile && tile->exchanged ? gemm->m : gemm->n) * gemm->out_bytes;
  bool whole = !wide || (wide % LINE == 0 && row % LINE == 0) || gemm->out_straddles; /* priced apart */
  double out = m * n * gemm->out_bytes * (whole ? 1 : 1 + SPLIT_LINE * LINE / wide);
  double bytes = (double)gemm->batches * (m * k * gemm->a_bytes + k * n * gemm->b_bytes + out);
  double bandwidth = read_bandwidth(gpu);
  return bandwidth > 0 ? bytes / bandwidth * clock_hertz(gpu) : 0;
}

/* Blocks of a cluster begin and end together, those outside of the result too. */
static double tile_count(const CostGemm *gemm, const CostTile *tile)
{
  int64_t down = MAX(1, tile->cluster), across = MAX(1, tile->across);
  return (double)gemm->batches * (double)(down * across) * divide_up(gemm->m, tile->bm * down) *
         divide_up(gemm->n, tile->bn * across);
}

CostReport cost_waves(const CostGemm *gemm, const CostTile *tile, unsigned parts, unsigned resident)
{
  double tiles = tile_count(gemm, tile);
  return (CostReport){.tiles = tiles, .waves = ceil(tiles * parts / (gemm->sms * (double)resident))};
}

/* Clocks that an SM's copy engine takes for a block's part of a step's copies. `busy`: the part of all SMs that
 * copy. */
static double issue_clocks(const CostGemm *gemm, const CostTile *tile, double rate, double busy)
{
  double a = (double)tile->bm * tile->bk * gemm->a_bytes, b = (double)tile->bn * tile->bk * gemm->b_bytes;
  double slow = (tile->split > 1 ? fmax(128 / rate, STRADDLING_PARTS * busy)
                                 : fmax(STRADDLING_FEW, STRADDLING_COPY * busy)) /
                128;
  a *= (gemm->a_straddles ? slow : 1 / rate) / MAX(1, tile->across);
  return a + b * (gemm->b_straddles ? slow : 1 / rate) / MAX(1, tile->cluster);
}

/* Clocks in which slices leave their sums and the last of them adds up. */
static double slices_clocks(const CostTile *tile, bool thin)
{
  unsigned further = (tile->split - 2) / WARP_LANES;
  return SLICE_FIX + (thin ? SLICE_THIN : 0) + SLICE_FLAGS * further +
         SLICE_OUTPUT * tile->bm * tile->bn * tile->split;
}

/* Clocks for 128 bytes of rows that begin at multiples of so many, where `busy` of the SMs copy. */
static double line_clocks(const CostTile *tile, unsigned begins, double rate, double busy, double waves)
{
  if (begins >= LINE || begins < LINE / 4) return LINE / rate; /* inside of sectors: priced apart */
  double clocks = (begins < LINE / 2 ? QUARTER_LINE : HALF_LINE) * (tile->alternate > 1 ? LINE_IN_TURN : 1);
  if (waves >= FEW_WAVES || tile->split > 1) clocks *= LINE_APART;
  return fmax(LINE / rate, busy * clocks);
}

/* The same where rows begin inside of lines. `busy`: the part of all SMs that copy. */
static double lines_clocks(const CostGemm *gemm, const CostTile *tile, double rate, double busy, double waves)
{
  double a = (double)tile->bm * tile->bk * gemm->a_bytes / LINE,
         b = (double)tile->bn * tile->bk * gemm->b_bytes / LINE;
  double alone = a * line_clocks(tile, gemm->a_lines, rate, busy, waves) / MAX(1, tile->across) +
                 b * line_clocks(tile, gemm->b_lines, rate, busy, waves) / MAX(1, tile->cluster);
  bool cut = gemm->a_lines < LINE || gemm->b_lines < LINE;
  return MAX(1, tile->across) * MAX(1, tile->cluster) > 1 && cut
             ? fmax(alone, (a + b) * LINE_SHARE * busy * (tile->split > 1 ? LINE_APART : 1))
             : alone;
}

/* Clocks in which a block's part of a step's copies arrives. */
static double copy_clocks(const CostGemm *gemm, const CostTile *tile, double rate, double busy)
{
  double a = (double)tile->bm * tile->bk * gemm->a_bytes, b = (double)tile->bn * tile->bk * gemm->b_bytes;
  double whole = (a + b) / rate;
  unsigned sharers = MAX(1, tile->across) * MAX(1, tile->cluster);
  if (!gemm->a_straddles && !gemm->b_straddles) return whole;
  double share = tile->alternate > 1 ? SHARE_IN_TURN : STRADDLING_SHARE;
  if (sharers > 1) whole = fmax(whole, (a * gemm->a_straddles + b * gemm->b_straddles) * share / 128);
  return fmax(whole, issue_clocks(gemm, tile, rate, busy));
}

/* Clocks that the copy engine takes for a tile's results, if they straddle. */
static double straddling_stores(const CostGemm *gemm, const CostTile *tile)
{
  double rows = tile->exchanged ? tile->bn : tile->bm, columns = tile->exchanged ? tile->bm : tile->bn;
  if (!gemm->out_straddles) return 0;
  return rows * ceil(columns * gemm->out_bytes / LINE) * STRADDLING_STORE * (tile->bm > 128 ? TALL_STORE : 1);
}

static double overlapped(double a, double b)
{
  double larger = fmax(a, b), ratio = larger > 0 ? fmin(a, b) / larger : 0;
  return larger * sqrt(sqrt(1 + ratio * ratio * ratio * ratio));
}

/* Products that need nearly all that the second-level cache delivers wait for it now and then. */
static double near_limit(double step, double copy)
{
  return step * pow(1 + pow(fmin(1, copy / step), 8), 0.125);
}

/* Rows of a part of less than two sectors: the engine stores them so many times slower than wide ones. */
#define NARROW_ROW  64
#define NARROW_PART 3

/* Parts in which results leave (stage_stores). */
static double store_parts(const CostTile *tile, unsigned bytes)
{
  unsigned rows = tile->bm * MAX(1, tile->alternate), columns = tile->bn / MAX(1, tile->owners);
  unsigned width = staging_width(&staging_usual, rows, columns, bytes, bytes);
  double parts = width ? divide_up(columns, width) : columns / 8.0;
  return width * bytes < NARROW_ROW ? NARROW_PART * parts : parts;
}

#define FEW_STAGES 3 /* leave one copy in flight while a slot is multiplied and another becomes free */

/* What the tiles that run at once read of both operands. */
static double wave_bytes(const CostGemm *gemm, const CostTile *tile)
{
  double rows = fmin(USUAL_RASTER, divide_up(gemm->m, tile->bm));
  double columns = fmin(ceil(gemm->sms / rows), divide_up(gemm->n, tile->bn));
  return (rows * tile->bm * gemm->a_bytes + columns * tile->bn * gemm->b_bytes) * (double)gemm->k;
}

/* Clocks of a step in which no product runs since sums are added. Warpgroups that share the tile add while
 * another multiplies; those that take turns have it to themselves. Where three sums fit a thread's registers,
 * all but every fourth step add while the next one is multiplied (pass overlap_sums). */
static double promotion(const CostTile *tile)
{
  unsigned beside = MAX(1, tile->beside), groups = tile->alternate > 1 ? 1 : warpgroups_of_rows(tile->bm);
  double rows = (double)tile->bm / groups, sums = rows / 64 * tile->bn / beside / 2;
  groups = MAX(groups, beside);
  double overlapped = sums <= OVERLAPPED_SUMS ? 1.0 / OVERLAPPED_STEPS : 1;
  return (PROMOTE + sums) * (groups > 1 ? 1 - PROMOTE_HIDDEN : 1) * overlapped;
}

/* Clocks of a tile's end: the last one's, and what of the others the next tile's products do not hide. */
typedef struct {
  double last, turn;
} TileEnd;

/* `main`: clocks of a tile's products. */
static TileEnd tile_end(const CostGemm *gemm, const CostTile *tile, double main, bool paced)
{
  double outputs = (double)tile->bm * tile->bn / MAX(1, tile->owners);
  double stored = outputs / EPILOGUE_SPEED, arithmetic = gemm->operations * outputs / SCHEDULER_LANES;
  stored = fmax(stored, straddling_stores(gemm, tile) / MAX(1, tile->owners));
  double parts = store_parts(tile, gemm->out_bytes), turn = TURN + STORE_PART * parts;
  TileEnd end = {.last = stored + arithmetic * (paced ? PACED_ALONE : 1)};
  end.turn = turn + stored * (tile->bm > 64 ? EXPOSED_TWO_GROUPS : 1) + arithmetic;
  if (tile->alternate <= 1) return end;
  /* one stores while another multiplies, unless storing takes longer */
  double busy = end.turn - arithmetic + stored + (paced ? PACED : 1) * arithmetic;
  end.turn = fmax(TURN_PART * parts, (busy - main) / 2) + (paced ? 0 : STOLEN * arithmetic);
  return end;
}

static double ends(const CostGemm *gemm, const CostTile *tile, double waves, double main, bool paced)
{
  TileEnd end = tile_end(gemm, tile, main, paced);
  return (waves - 1) * end.turn + end.last;
}

bool cost_has_arithmetic(const CostGemm *gemm)
{
  return gemm->operations >= WORTH_A_PACE;
}

/* The one multiplication by the scales of 8-bit floats gained 1 to 2 % by it, but where results are
 * transposed on their way lost as much; of other operands it was not measured (docs/performance-log.md). */
static bool may_pace(const CostGemm *gemm, const CostTile *tile)
{
  bool scaled = gemm->a_bytes == 1 && gemm->operations > 0 && !tile->exchanged;
  return tile->alternate > 1 && (scaled || cost_has_arithmetic(gemm));
}

static bool paces(const CostGemm *gemm, const CostTile *tile, double waves, double main)
{
  return may_pace(gemm, tile) && ends(gemm, tile, waves, main, true) < ends(gemm, tile, waves, main, false);
}

bool cost_paces(const Gpu *gpu, const CostGemm *gemm, const CostTile *tile)
{
  CostReport cost = cost_group_gemm(gpu, gemm, tile);
  return paces(gemm, tile, cost.waves, divide_up(gemm->k, tile->bk) * cost.step);
}

/* Part of the second-level cache that operands keep while results pass through it. */
#define OPERAND_SHARE 0.3

/* Bytes of both operands that come from device memory if bands of `group` rows of tiles are walked one after
 * the other, column by column. Where a band of A stays in the cache, all of B passes once for each band;
 * where it does not, every wave of blocks brings what it reads. */
static double raster_traffic(const Gpu *gpu, const CostGemm *gemm, const CostTile *tile, unsigned group)
{
  double rows = divide_up(gemm->m, tile->bm), columns = divide_up(gemm->n, tile->bn), k = (double)gemm->k;
  double high = fmin(group, rows), room = OPERAND_SHARE * gpu->l2_bytes;
  double a = (double)gemm->m * k * gemm->a_bytes, b = (double)gemm->n * k * gemm->b_bytes;
  if (a + b <= room) return a + b;
  double wide = fmin(columns, ceil(gemm->sms / high));
  double wave = (high * tile->bm * gemm->a_bytes + wide * tile->bn * gemm->b_bytes) * k;
  double band = high * tile->bm * k * gemm->a_bytes, bands = ceil(rows / high);
  if (band <= room) return a + (b <= room ? 1 : bands) * b;
  return bands * ceil(high * columns / gemm->sms) * wave;
}

/* Blocks that start one after the other ask for the same bytes at nearly the same time, and what so many of
 * them ask for together passes from the second-level cache once (docs/performance-log.md). */
#define NEIGHBOURS 12.4

/* Bytes of both operands, a tile and element of k, that blocks of consecutive indices ask for, where `group`
 * rows of tiles are walked together. */
static double neighbour_bytes(const CostGemm *gemm, const CostTile *tile, unsigned group)
{
  unsigned down = MAX(1, tile->cluster), across = MAX(1, tile->across), share = down * across;
  unsigned bands_high = MAX(1, group / down);
  double rows = divide_up(gemm->m, tile->bm * down), columns = divide_up(gemm->n, tile->bn * across);
  double tiles = fmin(fmax(1, NEIGHBOURS / share), rows * columns);
  double high = fmin(fmin(bands_high, rows), tiles);
  double bands = ceil(tiles / (high * columns)), wide = bands > 1 ? columns : ceil(tiles / high);
  double bytes =
      fmin(bands * high, rows) * tile->bm * down * gemm->a_bytes + wide * tile->bn * across * gemm->b_bytes;
  return bytes / (tiles * share);
}

/* Walking row by row pays where neighbours then ask for this part of the bytes at most. */
#define WORTH_ONE_ROW 0.95

static bool walks_row_by_row(const Gpu *gpu, const CostGemm *gemm, const CostTile *tile)
{
  if (tile->cluster > 1 || tile->across > 1 || tile->split > 1 || gemm->batches > 1) return false;
  return neighbour_bytes(gemm, tile, 1) <= WORTH_ONE_ROW * neighbour_bytes(gemm, tile, USUAL_RASTER) &&
         raster_traffic(gpu, gemm, tile, 1) <= raster_traffic(gpu, gemm, tile, USUAL_RASTER);
}

/* Clocks in which the second-level cache delivers what all SMs ask for in a step. */
static double l2_clocks(const Gpu *gpu, const CostGemm *gemm, const CostTile *tile, double busy)
{
  unsigned group = walks_row_by_row(gpu, gemm, tile) ? 1 : USUAL_RASTER;
  return neighbour_bytes(gemm, tile, group) * tile->bk * busy / L2_RATE;
}

/* Many tiles of batches with few steps each, where device memory takes much longer than the products last and
 * most of what it takes are results: in turn on 128x128 they are faster with few slots, by this part of
 * memory's time. Measured with six slots and three: 32 of 2048 x 2048 x 128 (docs/performance-log.md). Where
 * operands are most of it other tiles are faster than this one with few slots (512 of 512 x 512 x 512). */
#define WAITS_FOR_MEMORY 1.4
#define MOSTLY_RESULTS   2
#define FEW_SLOTS        3
#define FEW_SLOTS_GAIN   0.07
#define FEW_SLOTS_AREA   (128 * 128)
#define FEW_SLOTS_WAVES  10
#define LEAST_STEPS      2
#define MOST_STEPS       4

static bool wants_few_slots(const CostGemm *gemm, const CostTile *tile, const CostReport *cost)
{
  double m = (double)gemm->m, n = (double)gemm->n, k = (double)gemm->k, steps = ceil(k / tile->bk);
  bool turns = tile->alternate > 1 && tile->cluster * tile->across <= 1;
  bool fills = tile->bm * tile->bn == FEW_SLOTS_AREA && m >= tile->bm && n >= tile->bn;
  bool results = m * n * gemm->out_bytes >= MOSTLY_RESULTS * (m * k * gemm->a_bytes + k * n * gemm->b_bytes);
  return turns && fills && results && gemm->batches > 1 && steps >= LEAST_STEPS && steps <= MOST_STEPS &&
         cost->waves >= FEW_SLOTS_WAVES && cost->memory > WAITS_FOR_MEMORY * cost->waves * steps * cost->step;
}

/* Blocks that walk many tiles of batches drift apart, since some SMs get more of the memory than others: what
 * neighbours would have shared comes from device memory again (ncu, 512 of 512 x 512 x 512 on 128x128 in
 * turn: 802 MB read for 537). So a tile as wide as the result, which reads A once, is better; tiles that
 * warpgroups share lose more than those in turn (1024 and 512 cubed, 2048 x 2048 x 128); and of those in turn
 * a ring that is less deep keeps blocks together: 357 us with six slots, 280 with five
 * (docs/performance-log.md). */
#define DRIFTING_WORK  (7 * 128 * 256) /* results of an SM from which on they do, */
#define FAR_APART_WORK (15 * 128 * 256)
#define READ_AGAIN     1.05
#define DRIFT_SHARED   1.08
#define TOGETHER_SLOTS 5

static bool drifts(const CostGemm *gemm, const CostTile *tile, double work)
{
  double results = (double)gemm->batches * (double)gemm->m * (double)gemm->n / gemm->sms;
  return gemm->batches > 1 && results >= work && gemm->n > tile->bn;
}

static bool drifts_far(const CostGemm *gemm, const CostTile *tile, const CostReport *cost)
{
  double busy = cost->waves * ceil((double)gemm->k / tile->bk) * cost->step;
  return drifts(gemm, tile, FAR_APART_WORK) && tile->alternate > 1 && tile->cluster * tile->across <= 1 &&
         tile->bm * tile->bn == FEW_SLOTS_AREA && cost->memory > WAITS_FOR_MEMORY * busy;
}

CostReport cost_group_gemm(const Gpu *gpu, const CostGemm *gemm, const CostTile *tile)
{
  unsigned split = tile->split > 1 ? tile->split : 1;
  CostReport cost = cost_waves(gemm, tile, split, 1);
  double bm = tile->bm, bn = tile->bn, bk = tile->bk;
  double filled = (bm * gemm->a_bytes + bn * gemm->b_bytes) * bk;
  unsigned beside = MAX(1, tile->beside);
  /* each warpgroup reads all of B, those beside one another all of A */
  double read = bm / 64 * (64 * gemm->a_bytes * beside + bn * gemm->b_bytes) * bk;
  double banks = (double)gpu->shared_banks * gpu->shared_bank_bytes;
  double rate = gpu_fact(gpu, "copy_tensor.throughput");
  if (!(rate > 0)) rate = DEFAULT_COPY;
  double busy = fmin(cost.tiles * split, gemm->sms);
  double all =
      cost.waves >= FEW_WAVES && wave_bytes(gemm, tile) > 0.9 * gpu->l2_bytes ? ALL_COPY_MISSES : ALL_COPY;
  if (2 * busy > gpu->sm_count) rate = fmin(rate, PAIR_COPY);
  rate = fmin(rate, all * gpu->sm_count / busy);
  cost.tensor = 2 * bm * bn * bk / product_rate(gpu, gemm->type) / TENSOR_EFFICIENCY;
  if (tile->promote) cost.tensor += promotion(tile);
  if (tile->through_registers) cost.tensor += LOAD * (tile->bm > 64 ? 1 - LOAD_HIDDEN : 1);
  cost.shared = (filled + read) / banks / (tile->bm > 64 ? SHARED_TWO_GROUPS : SHARED_ONE_GROUP);
  double deep = ceil(divide_up(gemm->k, tile->bk) / split), stores = straddling_stores(gemm, tile);
  double part = busy / gpu->sm_count;
  double engine = issue_clocks(gemm, tile, rate, part) + stores / deep; /* a step */
  double copies = fmax(copy_clocks(gemm, tile, rate, part), lines_clocks(gemm, tile, rate, part, cost.waves));
  cost.copy = overlapped(copies, l2_clocks(gpu, gemm, tile, busy));
  if (stores > 0) cost.copy = fmax(cost.copy, engine);
  cost.latency = COPY_LATENCY / fmax(1, (double)tile->stages - 1);
  cost.step = fmax(fmax(fmax(cost.tensor, cost.shared), fmax(cost.copy, cost.latency)), LEAST_STEP);
  double tall = divide_up(gemm->m, tile->bm), outside = tall * bm - (double)gemm->m;
  /* those that share a tile read other k, those beside one another in a cluster copy once */
  if (!tile->clips_rows) cost.step += OUTSIDE_ROW * outside * busy / tall / split / MAX(1, tile->across);
  double wide = divide_up(gemm->n, tile->bn), beyond = wide * bn - (double)gemm->n;
  if (!tile->clips_columns) cost.step += OUTSIDE_ROW * beyond * busy / wide / split / cost.waves;
  if (tile->streamed && tall > STREAM_ROWS) cost.step *= STREAM_APART;
  if (tile->across > 1 && cost.waves > 1) cost.step *= ACROSS_WAVES;
  if (tile->across > 1 && tile->cluster > 1) cost.step += TWO_WAYS;
  if (cost.waves > 1 || tile->stages <= FEW_STAGES) {
    double quiet = QUIET_LATENCY / fmax(0.5, (double)tile->stages - 2);
    cost.step = near_limit(near_limit(cost.step, cost.copy), quiet) * (tile->bm > 128 ? TALL_TILE : 1);
  }
  cost.memory = memory_clocks(gpu, gemm, tile) * (gemm->batches > 1 && beyond > 0 ? PARTLY_OUTSIDE : 1);
  if (tile->cluster > 1 || tile->across > 1) cost.memory *= PAIR_MEMORY;
  bool apart = drifts(gemm, tile, DRIFTING_WORK);
  if (apart) cost.memory *= READ_AGAIN;
  double steps = cost.waves * deep;
  if (stores > 0 && deep <= FEW_STEPS) cost.memory += steps * engine;
  double combine = split > 1 ? COMBINE + COMBINE_OUTPUT * bm * bn + COMBINE_PART * split : 0;
  if (tile->sliced) combine = slices_clocks(tile, false);
  if (tile->streamed) combine = STREAM_FIX + (STREAM_FIX_PART + STREAM_FIX_OUTPUT * bm * bn) * (split - 1);
  double main = steps / cost.waves * cost.step;
  TileEnd end = tile_end(gemm, tile, main, paces(gemm, tile, cost.waves, main));
  double exposed = (cost.waves - 1) * end.turn;
  double fill = FILL + (tile->cluster > 1 || tile->across > 1 ? FILL_PAIR : 0);
  cost.total = fill + overlapped(steps * cost.step + exposed, cost.memory) + end.last + combine;
  if (wants_few_slots(gemm, tile, &cost)) cost.total -= FEW_SLOTS_GAIN * cost.memory;
  if (apart && tile->alternate <= 1 && gemm->m > tile->bm) cost.total *= DRIFT_SHARED;
  if (apart && beyond > 0) cost.total *= PARTLY_OUTSIDE;
  return cost;
}

unsigned cost_slots(const Gpu *gpu, const CostGemm *gemm, const CostTile *tile)
{
  CostReport cost = cost_group_gemm(gpu, gemm, tile);
  if (wants_few_slots(gemm, tile, &cost)) return FEW_SLOTS;
  return drifts_far(gemm, tile, &cost) ? TOGETHER_SLOTS : G_MAXUINT;
}

CostReport cost_stream_gemm(const Gpu *gpu, const CostGemm *gemm, const CostTile *tile)
{
  unsigned split = tile->split > 1 ? tile->split : 1, resident = tile->blocks > 1 ? tile->blocks : 1;
  CostReport cost = cost_waves(gemm, tile, split, resident);
  double bm = tile->bm, bn = tile->bn, bk = tile->bk, deep = bk * gemm->a_bytes / 128;
  double filled = (bm * gemm->a_bytes + bn * gemm->b_bytes) * bk;
  double blocks = cost.tiles * split, busy = fmin(blocks, gemm->sms);
  double together = fmin(resident, ceil(blocks / gemm->sms)); /* blocks of the busiest SM that run at once */
  double rate = gpu_fact(gpu, "copy_tensor.throughput");
  if (!(rate > 0)) rate = DEFAULT_COPY;
  double all = tile->threads_copy ? STREAM_THREADS_COPY : ALL_COPY;
  rate = fmin(rate, all * gpu->sm_count / busy);
  cost.tensor = 2 * bm * bn * bk / product_rate(gpu, gemm->type) / TENSOR_EFFICIENCY;
  double whole = filled / rate, copies = tile->threads_copy ? whole : copy_clocks(gemm, tile, rate, 1);
  cost.copy = together * (bn <= FEW_COLUMNS && blocks <= gemm->sms ? (whole + copies) / 2 : copies);
  double latency = tile->threads_copy ? STREAM_THREADS_LATENCY : STREAM_LATENCY;
  double output = tile->threads_copy ? STREAM_THREADS_OUTPUT : STREAM_OUTPUT;
  cost.latency = latency / fmax(1, (double)tile->stages - 1);
  double least = tile->threads_copy ? STREAM_THREADS + STREAM_ROW * bm * deep
                                    : STREAM_STEP + (STREAM_DEPTH + STREAM_COLUMN * bn) * deep;
  cost.step = fmax(fmax(cost.tensor, cost.latency), fmax(cost.copy, least));
  double wide = divide_up(gemm->n, tile->bn), outside = bn - (double)gemm->n / wide;
  if (!tile->clips_columns) cost.step += OUTSIDE_ROW * outside * busy / split * deep;
  cost.memory = memory_clocks(gpu, gemm, NULL);
  double outputs = bm * bn / MAX(1, tile->owners), deep_steps = ceil(divide_up(gemm->k, tile->bk) / split);
  /* blocks that follow one another on an SM: their products, or their results, whatever takes longer */
  double wave = fmax(deep_steps * cost.step, cost.waves > 1 ? together * output * outputs : 0);
  double combine = split > 1 ? STREAM_COMBINE + COMBINE_OUTPUT * bm * bn + COMBINE_PART * split : 0;
  if (split > 1 && resident > 1) combine += COMBINE_BESIDE;
  if (tile->sliced) combine = slices_clocks(tile, true);
  /* a block beside another hides its start and its end */
  double exposed = resident > 1 ? 0 : (cost.waves - 1) * STREAM_TURN;
  double arithmetic = gemm->operations * outputs / SCHEDULER_LANES;
  cost.total =
      FILL + overlapped(cost.waves * wave, cost.memory) + output * outputs + arithmetic + exposed + combine;
  return cost;
}

/* FLOP a clock and SM of warp products: stated for 16-bit operands, others by their width. */
static double warp_rate(const Gpu *gpu, const CostGemm *gemm)
{
  double rate = gpu_fact(gpu, "product_warp.throughput");
  return rate > 0 ? rate * 2 / gemm->a_bytes : product_rate(gpu, gemm->type);
}

#define WARP_ROWS 2 /* of warps, where a block has eight */

/* Clocks of a k step of so many blocks of an SM together. */
static double warp_step(const CostReport *cost, const CostTile *tile, double together)
{
  double spared = WARP_SPARED * fmax(0, 1 - cost->shared / cost->tensor);
  double efficiency = together > 1 ? WARP_EFFICIENCY : WARP_ONE_BLOCK + spared;
  double busy = overlapped(together * cost->tensor / efficiency, together * cost->copy);
  double step = fmax(fmax(busy, together * cost->shared), cost->latency) + WARP_STEP;
  return tile->bm > 80 * WARP_ROWS && tile->bn > 128 ? WARP_TALL_PART * step : step;
}

/* Clocks from a copy's issue to its barrier that a k step waits for. */
static double warp_latency(const CostTile *tile)
{
  if (tile->copy_bytes == 0 || tile->copy_bytes >= 16)
    return WARP_LATENCY / fmax(1, (double)tile->stages - 1);
  double each = tile->copy_bytes >= 8 ? WARP_BYTES_8 : tile->copy_bytes >= 4 ? WARP_BYTES_4 : WARP_ELEMENTS;
  return tile->stages > 2 ? each / ((double)tile->stages - 1) : each;
}

/* What a warp product's tile costs beside its k steps, of which the next one's begin sooner. */
typedef struct WarpTurn {
  double whole; /* clocks from nothing to its first products, and from its last to its results */
  double next;  /* of a tile behind another */
} WarpTurn;

static WarpTurn warp_turn(const CostGemm *gemm, const CostTile *tile)
{
  double outputs = (double)tile->bm * tile->bn;
  double whole = WARP_START + outputs / WARP_OUTPUTS + gemm->operations * outputs / SCHEDULER_LANES;
  return (WarpTurn){whole, whole - (tile->walks ? WARP_STARTED : 0)};
}

/* Tiles that follow one another on each SM, the last of them divided so that all have as many portions. */
static double warp_even(CostReport *cost, const CostGemm *gemm, const CostTile *tile)
{
  WarpTurn turn = warp_turn(gemm, tile);
  double deep = divide_up(gemm->k, tile->bk), outputs = (double)tile->bm * tile->bn;
  double most = ceil(cost->tiles * ceil(deep / tile->grain) / gemm->sms) * tile->grain;
  cost->waves = most / deep;
  cost->step = warp_step(cost, tile, 1);
  double busy = most * cost->step + floor(cost->waves) * turn.next;
  return WARP_EVEN * overlapped(busy, cost->memory) + turn.whole + WARP_FIX + WARP_FIX_OUTPUT * outputs;
}

CostReport cost_warp_gemm(const Gpu *gpu, const CostGemm *gemm, const CostTile *tile)
{
  unsigned parts = tile->streamed ? tile->split : 1;
  CostReport cost = cost_waves(gemm, tile, parts, 1);
  double bm = tile->bm, bn = tile->bn, bk = tile->bk, resident = tile->blocks > 1 ? tile->blocks : 1;
  double filled = (bm * gemm->a_bytes + bn * gemm->b_bytes) * bk;
  double warps = fmin(8, fmax(4, bm * bn / 4096));
  double edge = sqrt(bm * bn / warps); /* a warp's part, taken as a square */
  double read = warps * edge * (gemm->a_bytes + gemm->b_bytes) * bk;
  cost.tensor = 2 * bm * bn * bk / warp_rate(gpu, gemm);
  cost.shared = (filled + read) / ((double)gpu->shared_banks * gpu->shared_bank_bytes);
  cost.copy = filled / WARP_COPY;
  cost.latency = warp_latency(tile);
  cost.memory = memory_clocks(gpu, gemm, NULL);
  if (tile->streamed && cost.waves > 1 && tile->grain) {
    cost.total = FILL + warp_even(&cost, gemm, tile);
    return cost;
  }
  /* the busiest SM's tiles: as many at once as it holds, and what is left */
  double rounds = floor(cost.waves / resident), left = cost.waves - rounds * resident;
  cost.step = warp_step(&cost, tile, fmin(resident, cost.waves));
  double rest = left > 0 ? warp_step(&cost, tile, left) : 0, hidden = resident > 1 ? WARP_HIDDEN : 1;
  WarpTurn turn = warp_turn(gemm, tile);
  double steps = ceil(divide_up(gemm->k, tile->bk) / parts);
  double busy = steps * (rounds * cost.step + rest) + (cost.waves - 1) * turn.next * hidden;
  double fix = parts > 1 ? WARP_FIX + (WARP_FIX_PART + WARP_FIX_OUTPUT * bm * bn) * (parts - 1) : 0;
  cost.total = FILL + overlapped(busy, cost.memory) + turn.whole + fix;
  return cost;
}

/* Fitted to 1 x 4095 x 4097, 4 x 4427 x 7479 and 8 x 5000 x 4999, elements of two bytes: clocks of
 * an SM for a warp's load of a few bytes a lane; from a group of loads to their sums; for adding up across
 * lanes and storing. */
#define SUMS_LOAD    5.0
#define SUMS_LATENCY 1500.0
#define SUMS_END     1000.0
#define SUMS_MEMORY  0.85 /* of the speed of device memory */
#define SUMS_LOADS   64   /* elements of both operands that a lane has on their way, about */

unsigned cost_sums_deep(unsigned vector, unsigned rows, unsigned m)
{
  unsigned deep = 16;
  while (deep > 1 && deep * (rows + m) * vector > SUMS_LOADS)
    deep /= 2;
  return deep;
}

double cost_sums(const Gpu *gpu, const CostGemm *gemm, unsigned vector, unsigned columns, unsigned rows)
{
  double busy = fmin(divide_up(gemm->n, columns), gemm->sms), steps = divide_up(gemm->k, 32 * vector);
  double warps = (double)gemm->n / rows; /* of B's rows a warp, which share the loads of A's */
  double loads = warps * steps * (rows + (double)gemm->m) / busy * SUMS_LOAD;
  double groups = ceil(steps / cost_sums_deep(vector, rows, (unsigned)gemm->m));
  double work = fmax(loads, groups * SUMS_LATENCY);
  return FILL + SUMS_END + overlapped(work, memory_clocks(gpu, gemm, NULL) / SUMS_MEMORY);
}

/* Walking more rows together than usual slows kernels for which device memory is no limit: it pays where it
 * saves this part of the kernel's time. */
#define WORTH_A_RASTER 0.15

unsigned cost_raster_group(const Gpu *gpu, const CostGemm *gemm, const CostTile *tile)
{
  static const unsigned groups[] = {16, 32, 64};
  double usual = raster_traffic(gpu, gemm, tile, USUAL_RASTER), least = usual;
  unsigned best = USUAL_RASTER;
  for (unsigned i = 0; i < G_N_ELEMENTS(groups); i++) {
    double traffic = raster_traffic(gpu, gemm, tile, groups[i]);
    if (traffic > 0.9 * least) continue;
    least = traffic;
    best = groups[i];
  }
  double bandwidth = read_bandwidth(gpu);
  if (!(bandwidth > 0)) return USUAL_RASTER;
  double saved = (usual - least) / bandwidth * clock_hertz(gpu);
  if (saved > WORTH_A_RASTER * cost_group_gemm(gpu, gemm, tile).total) return best;
  return walks_row_by_row(gpu, gemm, tile) ? 1 : USUAL_RASTER;
}
