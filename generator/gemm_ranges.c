/* Which tile for which rows.
 *
 * Rows fall into cells. In a cell every tile that is the best somewhere has a loss: the logarithm of its cost
 * over that of the cell's best, times the logarithm of the cell's width, as if rows were spread evenly over
 * their logarithms. A range of cells with one tile costs one variant, that is one more kernel to assemble.
 * The cheapest division is the shortest path from the first cell to the last. */
#include "generator/gemm_ranges.h"
#include "base/parallel.h"
#include "generator/tuned_gemm.h"
#include <math.h>

/* Cells end at these rows: what few rows take depends on each of them, what many take on how their tiles fill
 * the SMs. */
static const int64_t group_ends[] = {8,    16,   32,   64,   96,   128,  160,  192,  256,  320,
                                     384,  448,  512,  640,  768,  896,  1024, 1152, 1280, 1408,
                                     1536, 1664, 1792, 1920, 2048, 2304, 2560, 2816, 3072, 3328,
                                     3584, 3840, 4096, 4608, 5120, 5632, 6144, 6656, 7168, 7680};
static const int64_t warp_ends[] = {8, 16, 32, 64, 128, 256, 384, 512, 1024, 2048, 4096};
#define OPEN_WARP_ENDS 8 /* where N or K is open, nobody knows how many tiles there are */
#define MOST_CELLS     (G_N_ELEMENTS(group_ends) + 1)
#define MANY_ROWS      8192 /* what is beyond the cells is priced for so many, unless M is known to be less */
/* A variant pays where it takes so much of the time over an octave of rows: half that of few rows, which
 * decoding meets in every step. */
#define WORTH_A_VARIANT 0.02
#define WORTH_A_THIN    0.005
#define THIN_ROWS       64
/* Where memory decides, the model sees less of what rows outside of a tensor cost than was measured: a tile
 * of exchanged operands is left only for another. */
#define NOT_THIN 0.2
/* What a tile loses at least where another was measured to be the best, whatever the cell's width: more than
 * the two variants that a range of its own may cost. */
#define UNTUNED 0.05
#define NO_TILE 1e9
/* People take powers of two: a cell that ends with one counts as if it were wider by so many octaves. */
#define ROUND_ROWS 0.5
#define MOST_BEST  (2 * MOST_CELLS)

typedef struct Cell {
  int64_t rows;    /* the last of them, which it is priced for */
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
  bool group;
  Cell cells[MOST_CELLS];
  unsigned n_cells;
  GemmCandidate tiles[MOST_BEST]; /* each the best in some cell */
  unsigned last[MOST_BEST];       /* the last cell it is known to be legal in */
  unsigned n_tiles;
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
  return ranges->n_tiles++;
}

static void add_cell(Ranges *ranges, int64_t rows, double weight, bool bounded)
{
  ranges->cells[ranges->n_cells++] = (Cell){.rows = rows, .weight = weight, .bounded = bounded};
}

/* On any thread: pricing only reads the chooser. */
static void price_cell(unsigned i, void *data)
{
  Ranges *ranges = data;
  Cell *cell = &ranges->cells[i];
  cell->list = gemm_candidates(ranges->chooser, ranges->group, cell->rows, cell->bounded);
}

/* What was measured for the cell, or the cheapest of its list; notes which. */
static void choose_tile(Ranges *ranges, unsigned i)
{
  Chooser *chooser = ranges->chooser;
  Cell *cell = &ranges->cells[i];
  GemmCandidate tile;
  const GemmCandidate cheapest = gemm_cheapest(chooser, ranges->group, cell->list, cell->rows);
  cell->best = gemm_candidate_cost(chooser, &cheapest, cell->rows).total;
  cell->tuned = tuned_gemm_find(chooser, ranges->group, cell->rows, cell->bounded, &tile);
  if (cell->tuned)
    cell->raster = tile.raster;
  else
    tile = cheapest;
  cell->own = tile_index(ranges, &tile);
  ranges->last[cell->own] = i;
}

static double octaves(int64_t before, int64_t rows)
{
  bool whole = rows > THIN_ROWS && (rows & (rows - 1)) == 0;
  return fmax(0, log2((double)rows / (double)before)) + (whole ? ROUND_ROWS : 0);
}

static void add_cells(Ranges *ranges, int64_t longest)
{
  bool group = ranges->group;
  const Chooser *chooser = ranges->chooser;
  const int64_t *ends = group ? group_ends : warp_ends;
  const FusedGemm *gemm = &chooser->op->gemm;
  bool known = symbolic_is_constant(gemm->n, NULL) && symbolic_is_constant(gemm->k, NULL);
  unsigned n = group ? G_N_ELEMENTS(group_ends) : known ? G_N_ELEMENTS(warp_ends) : OPEN_WARP_ENDS;
  int64_t before = ends[0] / 2;
  for (unsigned i = 0; i < n && ends[i] < longest; before = ends[i++])
    add_cell(ranges, ends[i], octaves(before, ends[i]), true);
  int64_t typical = choose_typical(chooser, chooser->op->gemm.m);
  int64_t rows =
      MIN(longest, (group || known) && before == ends[n - 1] ? MANY_ROWS : MAX(typical, before + 1));
  add_cell(ranges, rows, octaves(before, rows), longest <= rows);
}

/* ---- the path ---- */

static double loss(Ranges *ranges, unsigned c, unsigned t)
{
  const Cell *cell = &ranges->cells[c];
  const GemmCandidate *tile = &ranges->tiles[t], *own = &ranges->tiles[cell->own];
  if (t == cell->own) return 0;
  if (c > ranges->last[t]) { /* what serves more rows is legal for fewer */
    if (!find(cell->list, tile)) return NO_TILE;
    ranges->last[t] = c;
  }
  double worse = fmax(0, log(gemm_candidate_cost(ranges->chooser, tile, cell->rows).total / cell->best));
  if (gemm_candidate_is_thin(own) && !gemm_candidate_is_thin(tile)) worse += NOT_THIN;
  return fmax(cell->weight * worse, cell->tuned ? UNTUNED : 0);
}

typedef struct Step {
  double loss;   /* of the cells so far */
  unsigned from; /* tile of the cell before */
} Step;

/* The tile of each cell, where a change of tiles costs `worth` times that of a variant. Returns the number of
 * ranges. */
static unsigned find_path(const Ranges *ranges, const double *losses, double worth, unsigned *path)
{
  unsigned n = ranges->n_tiles, last = ranges->n_cells - 1, count = 1, best = 0;
  g_autofree Step *steps = g_new0(Step, ranges->n_cells * n);
  for (unsigned c = 0; c <= last; c++) {
    double price = worth * (c && ranges->cells[c - 1].rows <= THIN_ROWS ? WORTH_A_THIN : WORTH_A_VARIANT);
    for (unsigned t = 0; t < n; t++) {
      const Step *before = c ? &steps[(c - 1) * n] : NULL;
      Step step = {.loss = c ? before[t].loss : 0, .from = t};
      for (unsigned f = 0; before && f < n; f++)
        if (before[f].loss + price < step.loss) step = (Step){before[f].loss + price, f};
      step.loss += losses[c * n + t];
      steps[c * n + t] = step;
    }
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

static GArray *ranges_of(const Ranges *ranges, const unsigned *path)
{
  GArray *list = g_array_new(FALSE, FALSE, sizeof(GemmRange));
  unsigned measured = 0; /* the walk that was measured last in the range */
  for (unsigned c = 0; c < ranges->n_cells; c++) {
    const Cell *cell = &ranges->cells[c];
    GemmRange range = {.most = cell->rows, .tile = ranges->tiles[path[c]]};
    if (cell->tuned && cell->own == path[c]) measured = cell->raster;
    if (c + 1 < ranges->n_cells && path[c] == path[c + 1]) continue;
    range.tile.raster = measured ? measured : gemm_candidate_raster(ranges->chooser, &range.tile, range.most);
    measured = 0;
    g_array_append_val(list, range);
  }
  return list;
}

GArray *gemm_ranges(Chooser *chooser, bool group, int64_t longest, unsigned most)
{
  g_autofree Ranges *ranges = g_new0(Ranges, 1);
  unsigned path[MOST_CELLS];
  const CompileOptions *options = chooser->options;
  ranges->chooser = chooser;
  ranges->group = group;
  add_cells(ranges, longest);
  parallel_for(ranges->n_cells, options ? options->threads : 0, price_cell, ranges);
  for (unsigned i = 0; i < ranges->n_cells; i++)
    choose_tile(ranges, i);
  g_autofree double *losses = g_new(double, ranges->n_cells * ranges->n_tiles);
  for (unsigned t = 0; t < ranges->n_tiles; t++)
    for (unsigned c = 0; c < ranges->n_cells; c++)
      losses[c * ranges->n_tiles + t] = loss(ranges, c, t);
  double worth = 1;
  while (find_path(ranges, losses, worth, path) > most)
    worth *= 1.25;
  for (unsigned c = 0; c < ranges->n_cells; c++)
    g_array_unref(ranges->cells[c].list);
  return ranges_of(ranges, path);
}
