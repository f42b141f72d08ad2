/* GEMM: which tiles, for which M, and which guards their fast copies need.
 *
 * What was measured decides (generator/choose/tuned.h), else every legal tile is priced by the cost model
 * (generator/choose/cost.c). Where M is known only at launch there are variants for ranges of M
 * (generator/choose/gemm_ranges.h). */
#include "generator/choose/dots.h"
#include "generator/choose/gemm_ranges.h"
#include "generator/choose/gemm_rules.h"
#include "generator/choose/gemm_space.h"
#include "generator/choose/gemm_times.h"
#include "generator/choose/gemm_variant.h"
#include "generator/choose/gemv.h"
#include "generator/choose/tuned_gemm.h"
#include <math.h>

/* Ranges of M that one measurement answers for: up to these, and beyond. */
static const int64_t measured_ranges[] = {8,   16,  32,   64,   128,  192,  256, 384,
                                          512, 768, 1024, 1536, 2048, 3072, 4096};

/* Of several products the epilogue's operands live beside all their sums, and what is not known to lie at whole vectors takes more: a
 * tile that the passes let be for the best case may have too few registers here. Variants behind it serve its rows. */
static bool is_refused(Chooser *chooser, const Choice *choice)
{
  const Problem *problem = chooser->problem;
  if (!problem->dry || !gemm_has_several(gemm_of(problem->op)) || choose_is_forced(problem)) return false;
  const DrySummary *summary = dry_run_registers(problem->dry, choice);
  bool refused = summary && !summary->legal;
  if (refused) choose_note(chooser, "variant of tile %s left out: %s", choice->tile_text, summary->why);
  return refused;
}

static void finish(Chooser *chooser, Choice *choice, GemmCandidate tile, bool fast, bool comes_back)
{
  gemm_variant(chooser->problem, choice, tile, fast, comes_back);
  if (!fast || !is_refused(chooser, choice)) chooser->n++;
}

static GemmCandidate pick(Chooser *chooser, bool warpgroups, int64_t m, bool bounded, bool *tuned)
{
  GemmCandidate candidate;
  *tuned = tuned_gemm_find(chooser, warpgroups, m, bounded, &candidate);
  return *tuned ? candidate : gemm_best_candidate(chooser, warpgroups, m, bounded);
}

void gemm_range(int64_t m, int64_t *least, int64_t *most)
{
  *least = 1;
  for (unsigned i = 0; i < G_N_ELEMENTS(measured_ranges); i++) {
    *most = measured_ranges[i];
    if (m <= *most) return;
    *least = *most + 1;
  }
  *least = MAX(*least, m - m / 8);
  *most = m + m / 8;
}

/* Ranges of M, each with the tile that is best there. */
static GArray *choose_ranges(Chooser *chooser, bool warpgroups, int64_t longest, unsigned most)
{
  const FusedGemm *gemm = gemm_of(chooser->problem->op);
  GemmRange whole = {.most = choose_typical(chooser->problem, gemm->m)};
  bool tuned;
  if (!symbolic_is_constant(gemm->m, NULL)) return gemm_ranges(chooser, warpgroups, longest, most);
  whole.tile = pick(chooser, warpgroups, whole.most, true, &tuned);
  GArray *ranges = g_array_new(FALSE, FALSE, sizeof whole);
  g_array_append_val(ranges, whole);
  return ranges;
}

static bool same_ranges(const GArray *a, const GArray *b)
{
  bool same = a->len == b->len;
  for (unsigned i = 0; same && i < a->len; i++) {
    const GemmRange *x = &g_array_index(a, GemmRange, i), *y = &g_array_index(b, GemmRange, i);
    same = x->most == y->most && x->tile.raster == y->tile.raster && gemm_candidate_same(&x->tile, &y->tile);
  }
  return same;
}

/* Numbers of batches, known at launch only, up to which there are variants of their own: a few batches leave
 * most SMs without one of the tiles that are best for many. And the number that their tiles are priced for.
 */
typedef struct {
  int64_t most, priced;
} FewBatches;
#define MOST_FEW_BATCHES 2

static void few_batches(const CostModel *model, FewBatches few[MOST_FEW_BATCHES])
{
  few[0] = (FewBatches){model->few_batches, model->few_batches_priced};
  few[1] = (FewBatches){model->more_batches, model->more_batches_priced};
}

/* Of the product, NULL if it is known, or there are none. */
static const Symbolic *open_batches(const Problem *problem)
{
  const FusedGemm *gemm = gemm_of(problem->op);
  const Symbolic *all = NULL;
  for (unsigned i = 0; i < gemm->n_batch; i++)
    all = all ? symbolic_mul(problem->arena, all, problem->op->dims[i]) : problem->op->dims[i];
  return all && !symbolic_is_constant(all, NULL) ? all : NULL;
}

typedef struct {
  const GArray *ranges;
  const Symbolic *batches; /* NULL: any number of them, */
  int64_t most;            /* else at most so many */
  int64_t taken;           /* rows that variants before these serve */
} RangeVariants;

/* Is the tile of a range that of another one, too? */
static bool tile_comes_back(const GArray *ranges, unsigned i)
{
  const GemmRange *range = &g_array_index(ranges, GemmRange, i);
  bool again = false;
  for (unsigned j = 0; j < ranges->len; j++)
    again |= j != i && gemm_candidate_same(&range->tile, &g_array_index(ranges, GemmRange, j).tile);
  return again;
}

/* Variants for ranges of M; if for any number of batches, all but the last range's. */
static void add_ranges(Chooser *chooser, bool warpgroups, const RangeVariants *wanted)
{
  const FusedGemm *gemm = gemm_of(chooser->problem->op);
  for (unsigned i = 0; i + (wanted->batches ? 0 : 1) < wanted->ranges->len; i++) {
    const GemmRange *range = &g_array_index(wanted->ranges, GemmRange, i);
    bool last = i + 1 == wanted->ranges->len;
    if (!last && range->most <= wanted->taken) continue;
    Choice *choice = choose_open(chooser, gemm_variant_template(gemm));
    bool fits = gemm_require_fast(chooser->problem, choice, warpgroups, true);
    if (wanted->batches)
      fits = fits && choose_require_at_most(chooser->problem, choice, wanted->batches, wanted->most);
    if (!last) fits = fits && choose_require_at_most(chooser->problem, choice, gemm->m, range->most);
    if (fits) finish(chooser, choice, range->tile, true, tile_comes_back(wanted->ranges, i));
  }
}

/* All variants with wide copies but the last, whose tile is returned. */
static GemmCandidate choose_tiles(Chooser *chooser, bool warpgroups, int64_t longest)
{
  const CostModel *model = chooser->problem->gpu->model;
  const Symbolic *batches = open_batches(chooser->problem);
  int64_t most = batches ? choose_maximum(chooser->problem, batches) : 0;
  unsigned n = 0, room = PLAN_MAX_VARIANTS - 2 - chooser->n; /* behind them come two for more addresses */
  GArray *few[MOST_FEW_BATCHES];
  const Problem *typical = chooser->problem;
  Problem scenario[MOST_FEW_BATCHES];
  FewBatches numbers[MOST_FEW_BATCHES];
  few_batches(model, numbers);
  for (unsigned i = 0; i < MOST_FEW_BATCHES; i++) {
    scenario[i] = *typical;
    scenario[i].batches = numbers[i].priced;
  }
  while (n < MOST_FEW_BATCHES && numbers[n].most < most) {
    chooser->problem = &scenario[n];
    few[n++] = choose_ranges(chooser, warpgroups, longest, model->few_batches_ranges);
  }
  chooser->problem = typical;
  g_autoptr(GArray) ranges =
      choose_ranges(chooser, warpgroups, longest, room - n * model->few_batches_ranges);
  RangeVariants any = {.ranges = ranges};
  any.taken = gemm_rows_taken(chooser);
  for (unsigned i = 0; i < n; i++) {
    RangeVariants own = {few[i], batches, numbers[i].most, any.taken};
    chooser->problem = &scenario[i];
    if (!same_ranges(few[i], i + 1 < n ? few[i + 1] : ranges)) add_ranges(chooser, warpgroups, &own);
  }
  chooser->problem = typical;
  for (unsigned i = 0; i < n; i++)
    g_array_unref(few[i]);
  add_ranges(chooser, warpgroups, &any);
  return g_array_index(ranges, GemmRange, ranges->len - 1).tile;
}

/* Very few rows of types that no product instruction takes. */
static bool choose_vector(Chooser *chooser)
{
  unsigned most = chooser->problem->gpu->model->vector_rows;
  const FusedGemm *gemm = gemm_of(chooser->problem->op);
  bool rows = !gemm->b_n_major; /* B's columns are what a block takes rows of */
  if (rows && gemm->a_m_major) return true;
  Choice *choice = choose_open(chooser, rows ? "gemv_rows" : "gemv_columns");
  if (!gemm_require_fast(chooser->problem, choice, false, true) ||
      !choose_require_at_most(chooser->problem, choice, gemm->m, most))
    return true;
  choose_note(chooser, "M <= %u: sums along k, since no product instruction takes the types", most);
  return gemv_choose(chooser, choice, gemm, (GemvAsked){.m = most}, rows);
}

/* Operands that threads copy a few bytes at a time: of few columns small tiles, which several blocks of an SM hide
 * from each other, are better than the model says, and no wider than the result; what reduces columns takes them in
 * whole parts. */
static GemmCandidate askew_tile(const Problem *problem, GemmCandidate tile)
{
  const CostModel *model = problem->gpu->model;
  int64_t columns = MAX(1, choose_maximum(problem, gemm_of(problem->op)->n)), step = model->askew_columns;
  if (fused_is_reduced(problem->op)) step = (step + REDUCED_COLUMNS - 1) / REDUCED_COLUMNS * REDUCED_COLUMNS;
  if (columns <= model->askew_side) {
    tile.bm = model->askew_rows;
    tile.bn = (unsigned)((columns + step - 1) / step * step);
  }
  tile.bm = MIN(tile.bm, model->askew_side);
  tile.bn = MIN(tile.bn, model->askew_side);
  return tile;
}

/* A tile that nobody priced, with as many slots as the passes leave it. */
static GemmCandidate settled(Chooser *chooser, GemmCandidate tile)
{
  GemmCandidate whole = gemm_candidate(chooser->problem, tile, true);
  unsigned slots = whole.stages;
  if (gemm_settle(chooser, &whole) && whole.stages < slots) tile.most_stages = whole.stages;
  return tile;
}

/* At most so many columns, of which each product has as many: whole rows of fragments. */
static unsigned whole_parts(const FusedGemm *gemm, unsigned columns)
{
  unsigned parts = 8 * gemm->products;
  return columns / parts * parts;
}

/* The last variant with wide copies, which asks for whole vectors of what the epilogue loads as well; and one for where these
 * tensors alone lie elsewhere. false: it is known that copies are not wide. */
static bool add_last(Chooser *chooser, GemmCandidate tile, bool warpgroups, bool priced)
{
  const FusedGemm *gemm = gemm_of(chooser->problem->op);
  bool comes_back = gemm->groups != GEMM_WHOLE;
  Choice *choice = choose_open(chooser, gemm_variant_template(gemm));
  if (!gemm_require_fast(chooser->problem, choice, warpgroups, true)) return false;
  const Symbolic *all = choice->guard;
  if (!priced) tile = settled(chooser, tile);
  finish(chooser, choice, tile, true, comes_back);
  if (!all) return true;
  unsigned before = chooser->n;
  do {
    choice = choose_open(chooser, gemm_variant_template(gemm));
    gemm_require_fast(chooser->problem, choice, warpgroups, false);
    if (choice->guard && symbolic_same(choice->guard, all)) break;
    finish(chooser, choice, tile, true, comes_back);
    tile.bn /= 2; /* if refused: half of the sums leave registers */
  } while (chooser->n == before && tile.bn && tile.bn == whole_parts(gemm, tile.bn));
  return true;
}

static bool choose_products(Chooser *chooser)
{
  const CostModel *model = chooser->problem->gpu->model;
  const FusedGemm *gemm = gemm_of(chooser->problem->op);
  bool warpgroups = gemm_warpgroups_possible(chooser->problem), warp = gemm_warp_possible(chooser->problem),
       priced = warpgroups || warp;
  int64_t longest = choose_maximum(chooser->problem, gemm->m),
          typical =
              gemm->groups ? gemm_rows_of_group(chooser->problem) : choose_typical(chooser->problem, gemm->m);
  bool reduced = fused_is_reduced(chooser->problem->op),
       wide = gemm_has_several(gemm) && reduced; /* each has whole parts */
  GemmCandidate scalar = {.bm = 64,
                          .bn = whole_parts(gemm, wide ? 128 : 64),
                          .pingpong = 1,
                          .cluster_m = 1,
                          .cluster_n = 1,
                          .split_k = 1,
                          .swapped = gemm->narrow},
                tile = scalar;
  bool plain = !gemm->groups && !gemm->narrow && !gemm->lead && !gemm->summed;
  if (plain && (priced || gemm->a_type == NUMBER_F32)) choose_dots(chooser);
  if (chooser->n && !chooser->variants[chooser->n - 1].guard) return true;
  bool summed = gemm_rows_taken(chooser) >= chooser->problem->gpu->model->vector_rows;
  if (!priced && !summed && !gemm_has_several(gemm) && plain && !reduced &&
      !gemm_tile_forced(chooser->problem) && !choose_vector(chooser))
    return false;
  if (priced && plain && !choose_few_rows(chooser)) return false;
  if (chooser->n && !chooser->variants[chooser->n - 1].guard) return true;
  if (priced)
    tile = gemm->groups ? gemm_best_candidate(chooser, warpgroups, typical, false)
                        : choose_tiles(chooser, warpgroups, longest);
  bool aligned = add_last(chooser, tile, warpgroups, priced);
  if (!aligned)
    choose_note(chooser, "wide copies rejected: strides are no multiples of %u bytes",
                gemm_wide_copy(chooser->problem, warpgroups));
  if (chooser->n && !chooser->variants[chooser->n - 1].guard) return true;
  /* bytes are copied one by one: the 128 x 128 tile's copies alone fill the registers */
  bool bytes = number_has_bytes(gemm->a_type, 1) || gemm->narrow;
  tile = warp && !bytes ? gemm_best_candidate(chooser, false, MIN(typical, longest), false) : scalar;
  if (tile.bm * tile.bn > model->guarded_area) { /* guards take registers */
    tile.bm = model->guarded_side;
    tile.bn = whole_parts(gemm, tile.bm);
  }
  tile.askew = warp && !aligned && gemm_candidate_may_be_askew(chooser->problem);
  if (tile.askew) tile = askew_tile(chooser->problem, tile);
  if (gemm->scaled && gemm->b_width > 1 && gemm->b_width % tile.bn)
    tile.bn = (unsigned)(gemm->b_width & -gemm->b_width);
  if (gemm->groups == GEMM_INDEX && gemm->align % tile.bm) tile.bm = scalar.bm; /* a tile has one group */
  finish(chooser, choose_open(chooser, gemm_variant_template(gemm)), tile, false, false);
  return true;
}

bool choose_gemm(Chooser *chooser)
{
  if (chooser->problem->op->times) return choose_gemm_times(chooser);
  if (!choose_products(chooser)) return false;
  chooser->complete = choose_gemm_complete;
  /* two products have a template of their own for swapped operands (swap-AB) */
  bool apart = gemm_has_several(gemm_of(chooser->problem->op));
  for (unsigned i = 0; i < chooser->n; i++)
    chooser->variants[i].apart = apart ? "swapped" : NULL;
  return true;
}
