/* Which tile for which rows.
 *
 * Rows fall into cells. In a cell every tile that is the best somewhere has a loss: the logarithm of its cost
 * over that of the cell's best, times the logarithm of the cell's width, as if rows were spread evenly over
 * their logarithms. A tile costs one more kernel to assemble, however many ranges it serves: how tiles fill
 * the SMs changes with every few rows, so that tiles come back. Which tiles get a kernel is the problem of
 * uncapacitated facility location; tiles are added and dropped while that gains (Cornuejols, Fisher,
 * Nemhauser, "Location of Bank Accounts to Optimize Float", Management Science 23, 1977). */
#include "generator/choose/gemm_ranges.h"
#include "base/parallel.h"
#include "generator/choose/gemm_memo.h"
#include "generator/choose/gemm_variant.h"
#include "generator/choose/tuned_gemm.h"
#include <math.h>
#include <string.h>

/* Cells end at these rows: what few rows take depends on each of them, what many take on how their tiles fill
 * the SMs. */
static const int64_t warpgroup_ends[] = {
    8,    16,   32,   64,   96,   128,  160,  192,  224,  256,  288,  320,  352,  384,  416,  448,  480,
    512,  576,  640,  704,  768,  832,  896,  960,  1024, 1152, 1280, 1408, 1536, 1664, 1792, 1920, 2048,
    2176, 2304, 2432, 2560, 2688, 2816, 2944, 3072, 3200, 3328, 3456, 3584, 3712, 3840, 3968, 4096, 4352,
    4608, 4864, 5120, 5376, 5632, 5888, 6144, 6400, 6656, 6912, 7168, 7424, 7680, 7936};
/* Of large products also those of few rows more than multiples of a tile, which the tile of the whole cell may waste:
 * they are known to lie between the others. */
static const int64_t above_tiles[] = {544,  672,  800,  928,  1056, 1184, 1312,
                                      1440, 1568, 1696, 1824, 1952, 2080};
static const int64_t warp_ends[] = {8, 16, 32, 64, 128, 256, 384, 512, 1024, 2048, 4096};
#define OPEN_WARP_ENDS 8 /* where N or K is open, nobody knows how many tiles there are */
#define MOST_CELLS     (G_N_ELEMENTS(warpgroup_ends) + G_N_ELEMENTS(above_tiles) + 1)
#define THIN_ROWS      64
#define NO_TILE        1e9
#define MOST_BEST      (2 * MOST_CELLS)

typedef struct Cell {
  int64_t before;  /* the last rows of the cell in front */
  int64_t rows;    /* the last of its own */
  double weight;   /* octaves */
  bool bounded;    /* rows are the most that there can be */
  GArray *list;    /* PricedCandidate */
  double best;     /* clocks */
  unsigned own;    /* of the tiles: the best */
  bool tuned;      /* measured, not priced */
  unsigned raster; /* of what was measured: the walk */
} Cell;

typedef struct Ranges {
  Chooser *chooser;
  bool warpgroups;
  Cell cells[MOST_CELLS];
  unsigned n_cells;
  GemmCandidate tiles[MOST_BEST]; /* each the best in some cell */
  unsigned first[MOST_BEST];      /* cell whose best it is */
  unsigned n_tiles;
  double large; /* the weights over those from which on a product is large */
} Ranges;

/* ---- cells ---- */

static const PricedCandidate *find(const GArray *list, const GemmCandidate *tile)
{
  for (unsigned i = 0; i < list->len; i++) {
    const PricedCandidate *priced = &g_array_index(list, PricedCandidate, i);
    if (gemm_candidate_same(&priced->candidate, tile)) return priced;
  }
  return NULL;
}

static unsigned tile_index(Ranges *ranges, const GemmCandidate *tile)
{
  for (unsigned i = 0; i < ranges->n_tiles; i++)
    if (gemm_candidate_same(&ranges->tiles[i], tile)) return i;
  ranges->tiles[ranges->n_tiles] = *tile;
  ranges->first[ranges->n_tiles] = ranges->n_cells;
  return ranges->n_tiles++;
}

/* People take powers of two: a cell that ends with one counts as if it were wider. */
static double octaves(const CostModel *model, int64_t before, int64_t rows)
{
  bool whole = rows > THIN_ROWS && (rows & (rows - 1)) == 0;
  return fmax(0, log2((double)rows / (double)before)) + (whole ? model->round_rows : 0);
}

static void add_cell(Ranges *ranges, int64_t before, int64_t rows, bool bounded)
{
  ranges->cells[ranges->n_cells++] =
      (Cell){.before = before,
             .rows = rows,
             .weight = octaves(ranges->chooser->problem->gpu->model, before, rows),
             .bounded = bounded};
}

/* What fills its tiles with a cell's last rows may leave the last ones nearly empty with its first: what may be
 * the best is priced for both. */
static void price_first_rows(const Problem *problem, const Cell *cell)
{
  const CostModel *model = problem->gpu->model;
  int64_t first = cell->before + (cell->rows - cell->before) / model->first_part;
  double least = INFINITY;
  if (!cell->bounded || cell->before < THIN_ROWS || first == cell->before) return;
  for (unsigned i = 0; i < cell->list->len; i++)
    least = fmin(least, g_array_index(cell->list, PricedCandidate, i).cost.total);
  for (unsigned i = 0; i < cell->list->len; i++) {
    PricedCandidate *priced = &g_array_index(cell->list, PricedCandidate, i);
    if (priced->cost.total > model->may_be_best * least) continue;
    priced->cost.total =
        (priced->cost.total + gemm_candidate_cost(problem, &priced->candidate, first).total) / 2;
  }
}

/* On any thread: pricing only reads the problem. */
static void price_cell(unsigned i, void *data)
{
  Ranges *ranges = data;
  Cell *cell = &ranges->cells[i];
  cell->list = gemm_candidates(ranges->chooser->problem, ranges->warpgroups, cell->rows, cell->bounded);
  if (ranges->warpgroups) price_first_rows(ranges->chooser->problem, cell);
}

/* What was measured for the cell, or the cheapest of its list; notes which. */
static void choose_tile(Ranges *ranges, unsigned i)
{
  Chooser *chooser = ranges->chooser;
  Cell *cell = &ranges->cells[i];
  GemmCandidate tile;
  const GemmCandidate cheapest = gemm_cheapest(chooser, ranges->warpgroups, cell->list, cell->rows);
  const PricedCandidate *priced = find(cell->list, &cheapest);
  cell->best =
      priced ? priced->cost.total : gemm_candidate_cost(chooser->problem, &cheapest, cell->rows).total;
  cell->tuned = tuned_gemm_find(chooser, ranges->warpgroups, cell->rows, cell->bounded, &tile);
  if (cell->tuned)
    cell->raster = tile.raster;
  else
    tile = cheapest;
  cell->own = tile_index(ranges, &tile);
  ranges->first[cell->own] = MIN(ranges->first[cell->own], i);
}

static double weights_over_large(const Problem *problem)
{
  const FusedGemm *gemm = gemm_of(problem->op);
  int64_t n, k;
  bool known = symbolic_is_constant(gemm->n, &n) && symbolic_is_constant(gemm->k, &k) && !gemm->n_batch;
  return known ? (double)n * (double)k / problem->gpu->model->large_weights : 0;
}

static void add_cells(Ranges *ranges, int64_t longest)
{
  bool warpgroups = ranges->warpgroups;
  const Problem *problem = ranges->chooser->problem;
  const int64_t *ends = warpgroups ? warpgroup_ends : warp_ends;
  const FusedGemm *gemm = gemm_of(problem->op);
  bool known = symbolic_is_constant(gemm->n, NULL) && symbolic_is_constant(gemm->k, NULL);
  unsigned n = warpgroups ? G_N_ELEMENTS(warpgroup_ends) : known ? G_N_ELEMENTS(warp_ends) : OPEN_WARP_ENDS;
  unsigned above = 0, n_above = warpgroups && ranges->large > 1 ? G_N_ELEMENTS(above_tiles) : 0;
  int64_t before = ends[0] / 2;
  for (unsigned i = 0; i < n && ends[i] < longest; before = ends[i++]) {
    for (; above < n_above && above_tiles[above] < ends[i]; before = above_tiles[above++])
      add_cell(ranges, before, above_tiles[above], true);
    add_cell(ranges, before, ends[i], true);
  }
  int64_t typical = choose_typical(problem, gemm_of(problem->op)->m);
  int64_t rows =
      MIN(longest, (warpgroups || known) && before == ends[n - 1] ? (int64_t)problem->gpu->model->many_rows
                                                                  : MAX(typical, before + 1));
  add_cell(ranges, before, rows, longest <= rows);
}

/* ---- the path ---- */

static double loss(const Ranges *ranges, unsigned c, unsigned t)
{
  const CostModel *model = ranges->chooser->problem->gpu->model;
  const Cell *cell = &ranges->cells[c];
  const GemmCandidate *tile = &ranges->tiles[t], *own = &ranges->tiles[cell->own];
  if (t == cell->own) return 0;
  const PricedCandidate *priced = find(cell->list, tile);
  if (!priced) return NO_TILE;
  double worse = fmax(0, log(priced->cost.total / cell->best));
  if (gemm_candidate_is_thin(own) && !gemm_candidate_is_thin(tile)) worse += model->not_thin;
  return fmax(cell->weight * worse, cell->tuned ? model->untuned : 0);
}

/* What the cells lose if each takes the best of the tiles that are in. */
static double total_loss(const Ranges *ranges, const double *losses, const bool *in)
{
  double total = 0;
  for (unsigned c = 0; c < ranges->n_cells; c++) {
    double least = NO_TILE;
    for (unsigned t = 0; t < ranges->n_tiles; t++)
      if (in[t]) least = fmin(least, losses[c * ranges->n_tiles + t]);
    total += least;
  }
  return total;
}

/* What a kernel for the tile has to be worth: the same part of a large product's time is more time. */
static double price(const Ranges *ranges, unsigned t, double worth)
{
  const CostModel *model = ranges->chooser->problem->gpu->model;
  bool few = ranges->cells[ranges->first[t]].rows <= THIN_ROWS;
  return worth * (few ? model->worth_a_thin : model->worth_a_kernel / fmax(1, ranges->large));
}

/* Takes in or leaves out the tile that gains most by it; false if none gains. */
static bool improve(const Ranges *ranges, const double *losses, double worth, bool *in)
{
  double now = total_loss(ranges, losses, in), gain = 0;
  unsigned best = 0;
  for (unsigned t = 0; t < ranges->n_tiles; t++) {
    in[t] = !in[t];
    double gained = now - total_loss(ranges, losses, in) + (in[t] ? -1 : 1) * price(ranges, t, worth);
    in[t] = !in[t];
    if (gained <= gain) continue;
    gain = gained;
    best = t;
  }
  if (gain > 0) in[best] = !in[best];
  return gain > 0;
}

/* The tiles that get a kernel, where one costs `worth` times its price. Returns their number. Each step
 * gains, so it ends. */
static unsigned choose_kernels(const Ranges *ranges, const double *losses, double worth, bool *in)
{
  unsigned count = 0;
  memset(in, 0, ranges->n_tiles * sizeof *in);
  while (improve(ranges, losses, worth, in)) {
  }
  for (unsigned t = 0; t < ranges->n_tiles; t++)
    count += in[t];
  return count;
}

typedef struct Step {
  double loss;   /* of the cells so far */
  unsigned from; /* tile of the cell before */
} Step;

/* The tile of each cell, of those with a kernel, where a further range costs `price`: the shortest path from
 * the first cell to the last. Returns the number of ranges. */
static unsigned give_tiles(const Ranges *ranges, const double *losses, const bool *in, double price_of_range,
                           unsigned *path)
{
  unsigned n = ranges->n_tiles, last = ranges->n_cells - 1, count = 1, best = 0;
  g_autofree Step *steps = g_new0(Step, ranges->n_cells * n);
  for (unsigned c = 0; c <= last; c++)
    for (unsigned t = 0; t < n; t++) {
      const Step *before = c ? &steps[(c - 1) * n] : NULL;
      Step step = {.loss = c ? before[t].loss : 0, .from = t};
      for (unsigned f = 0; before && f < n; f++)
        if (before[f].loss + price_of_range < step.loss) step = (Step){before[f].loss + price_of_range, f};
      step.loss += in[t] ? losses[c * n + t] : 2 * NO_TILE;
      steps[c * n + t] = step;
    }
  for (unsigned t = 1; t < n; t++)
    if (steps[last * n + t].loss < steps[last * n + best].loss) best = t;
  path[last] = best;
  for (unsigned c = last; c > 0; c--) {
    path[c - 1] = steps[c * n + path[c]].from;
    count += path[c - 1] != path[c];
  }
  return count;
}

/* Rows of the last cell of a tile: all ranges for which no walk was measured take the one that is best for so
 * many, so that they share a kernel. */
static int64_t most_of(const Ranges *ranges, const unsigned *path, unsigned tile)
{
  int64_t most = 0;
  for (unsigned c = 0; c < ranges->n_cells; c++)
    if (path[c] == tile) most = ranges->cells[c].rows;
  return most;
}

static GArray *ranges_of(const Ranges *ranges, const unsigned *path)
{
  GArray *list = g_array_new(FALSE, FALSE, sizeof(GemmRange));
  unsigned measured = 0; /* the walk that was measured last in the range */
  for (unsigned c = 0; c < ranges->n_cells; c++) {
    const Cell *cell = &ranges->cells[c];
    GemmRange range = {.most = cell->rows, .tile = ranges->tiles[path[c]]};
    if (cell->tuned && cell->own == path[c]) measured = cell->raster;
    if (c + 1 < ranges->n_cells && path[c] == path[c + 1]) continue;
    range.tile.raster = measured ? measured
                                 : gemm_candidate_raster(ranges->chooser->problem, &range.tile,
                                                         most_of(ranges, path, path[c]));
    measured = 0;
    g_array_append_val(list, range);
  }
  return list;
}

/* The passes about the cells' best, on several threads. */
static void ask_ahead(Ranges *ranges)
{
  GArray *lists[MOST_CELLS];
  int64_t rows[MOST_CELLS];
  for (unsigned i = 0; i < ranges->n_cells; i++) {
    lists[i] = ranges->cells[i].list;
    rows[i] = ranges->cells[i].rows;
  }
  gemm_settle_ahead(ranges->chooser, lists, rows, ranges->n_cells);
}

GArray *gemm_ranges(Chooser *chooser, bool warpgroups, int64_t longest, unsigned most)
{
  g_autofree Ranges *ranges = g_new0(Ranges, 1);
  unsigned path[MOST_CELLS];
  const CompileOptions *options = chooser->problem->options;
  const Problem *problem = chooser->problem;
  const CostModel *model = problem->gpu->model;
  Problem remembering = *problem;
  remembering.memo = gemm_memo_new(problem);
  chooser->problem = &remembering;
  ranges->chooser = chooser;
  ranges->warpgroups = warpgroups;
  ranges->large = weights_over_large(problem);
  add_cells(ranges, longest);
  parallel_for(ranges->n_cells, options ? options->threads : 0, price_cell, ranges);
  ask_ahead(ranges);
  for (unsigned i = 0; i < ranges->n_cells; i++)
    choose_tile(ranges, i);
  g_autofree double *losses = g_new(double, ranges->n_cells * ranges->n_tiles);
  for (unsigned t = 0; t < ranges->n_tiles; t++)
    for (unsigned c = 0; c < ranges->n_cells; c++)
      losses[c * ranges->n_tiles + t] = loss(ranges, c, t);
  g_autofree bool *in = g_new0(bool, ranges->n_tiles);
  double worth = 1, range = model->worth_a_range;
  while (choose_kernels(ranges, losses, worth, in) > MIN(most, model->most_kernels))
    worth *= 1.25;
  while (give_tiles(ranges, losses, in, range, path) > most)
    range *= 1.5;
  for (unsigned c = 0; c < ranges->n_cells; c++)
    g_array_unref(ranges->cells[c].list);
  chooser->problem = problem;
  gemm_memo_free(remembering.memo);
  return ranges_of(ranges, path);
}
