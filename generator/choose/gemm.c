/* GEMM: which tiles, for which M, and which guards their fast copies need.
 *
 * What was measured decides (generator/choose/tuned.h), else every legal tile is priced by the cost model
 * (generator/choose/cost.c). Where M is known only at launch there are variants for ranges of M
 * (generator/choose/gemm_ranges.h). */
#include "generator/choose/dots.h"
#include "generator/choose/gemm_ranges.h"
#include "generator/choose/gemm_rules.h"
#include "generator/choose/gemm_space.h"
#include "generator/choose/tuned_gemm.h"
#include <math.h>
#include <string.h>

/* Ranges of M that one measurement answers for: up to these, and beyond. */
static const int64_t measured_ranges[] = {8,   16,  32,   64,   128,  192,  256, 384,
                                          512, 768, 1024, 1536, 2048, 3072, 4096};

static const char *template_of(const FusedGemm *gemm)
{
  return gemm->dual ? "gemm_dual" : "gemm";
}

#define WIDEST_COPY 16 /* bytes, of a thread */

static bool require_operand(const Problem *problem, Choice *choice, const GraphTensor *tensor,
                            const Symbolic *leading, const Symbolic *const *batches, const Symbolic *inner,
                            unsigned multiple)
{
  unsigned vector = multiple / number_bytes(tensor->type);
  if (!choose_require_multiple(problem, choice, leading, vector)) return false;
  for (unsigned i = 0; i < gemm_of(problem->op)->n_batch; i++)
    if (!choose_require_multiple(problem, choice, batches[i], vector)) return false;
  return !inner || choose_require_multiple(problem, choice, inner, vector);
}

/* One element for all of the result. */
static bool is_single(const FusedInput *input, unsigned rank)
{
  for (unsigned d = 0; d < rank; d++)
    if (!symbolic_equals(input->strides[d], 0)) return false;
  return true;
}

/* Wide copies of both operands; thread copies also need contiguous extents of whole vectors, TMA copies
 * some K. */
static bool require_fast(const Problem *problem, Choice *choice, bool group)
{
  const FusedOperator *op = problem->op;
  const FusedGemm *gemm = gemm_of(op);
  unsigned multiple = group ? MAX(WIDEST_COPY, gemm_map_multiple(problem->gpu)) : WIDEST_COPY;
  if (!require_operand(problem, choice, op->inputs[gemm->a].tensor, gemm->a_m_major ? gemm->a_k : gemm->a_m,
                       gemm->a_batch,
                       group             ? NULL
                       : gemm->a_m_major ? gemm->m
                                         : gemm->k,
                       multiple))
    return false;
  if (!require_operand(problem, choice, op->inputs[gemm->b].tensor, gemm->b_n_major ? gemm->b_k : gemm->b_n,
                       gemm->b_batch,
                       group             ? NULL
                       : gemm->b_n_major ? gemm->n
                                         : gemm->k,
                       multiple))
    return false;
  /* what the epilogue loads and stores goes in pairs; a column too, where operands are exchanged */
  for (unsigned i = 0; i < op->n_inputs; i++) {
    bool single = i != gemm->a && i != gemm->b && is_single(&op->inputs[i], op->rank);
    if (!single && !choose_require_align(problem, choice, op->inputs[i].tensor,
                                         i == gemm->a || i == gemm->b ? multiple : WIDEST_COPY))
      return false;
  }
  for (unsigned i = 0; i < op->n_outputs; i++)
    if (!choose_require_align(problem, choice, op->outputs[i].tensor, 16)) return false;
  return !group || choose_require_at_least(problem, choice, gemm->k, 1);
}

/* Few rows meet all of B, which streams through L2 once, and are read again for every column of tiles: they
 * are kept. Measured at M = 16 to 256: 0 to 2 % (docs/performance-log.md). Where both operands are read
 * often, no policy gains; asking to drop B first gains as often as it loses. */
static bool keeps_rows(const Problem *problem, const Choice *choice, const GemmCandidate *tile)
{
  const FusedGemm *gemm = gemm_of(problem->op);
  int64_t rows = gemm_most_rows(problem, choice);
  double bytes = (double)rows * (double)choose_typical(problem, gemm->k) * number_bytes(gemm->a_type);
  bool again = choose_typical(problem, gemm->n) > (int64_t)tile->bn, once = rows <= 2 * (int64_t)tile->bm;
  bool fits = bytes <= problem->gpu->model->kept_share * problem->gpu->l2_bytes;
  return tile->group && again && once && fits;
}

/* Blocks that start as SMs become free lie where chance puts them. That loses where blocks share tiles of
 * both operands, which neighbours then no longer ask for together: 3 to 20 % of a kernel; one row of tiles
 * gains 0 to 10 % of a plan, on few SMs too (measured at up to 256 rows, docs/performance-log.md). A block of
 * streams may have no step at all, and then must not have begun to copy. */
static bool starts_alone(const Problem *problem, const Choice *choice, const GemmCandidate *tile)
{
  if (tile->stream_k > 1 || tile->slices > 1) return true;
  int64_t along = tile->swapped ? tile->bn : tile->bm;
  return gemm_most_rows(problem, choice) > along;
}

/* A parameter that is set to more than 1, by hand. */
static bool forces_several(const Problem *problem, const char *name)
{
  unsigned value = 1;
  return choose_forced(problem, name, &value) && value > 1;
}

/* Blocks share tiles in one way: what is set by hand takes the place of what the plan chose, which would only
 * contradict it. Both set by hand stay, and are refused by name. A stream is for the tile it was chosen for.
 */
static void drop_other_sharing(const Problem *problem, GemmCandidate *tile)
{
  unsigned bm = tile->bm, bn = tile->bn;
  choose_forced(problem, "bm", &bm);
  choose_forced(problem, "bn", &bn);
  if (bm != tile->bm || bn != tile->bn) tile->stream_k = tile->slices = 1;
  bool split = forces_several(problem, "split_k"), stream = forces_several(problem, "stream_k");
  bool own_tiles = forces_several(problem, "cluster_m") || forces_several(problem, "pingpong");
  bool slices = forces_several(problem, "slices");
  if (split || slices || own_tiles) tile->stream_k = 1;
  if (stream || slices || own_tiles) tile->split_k = 1;
  if (split || stream || own_tiles) tile->slices = 1;
  if (split || stream || slices) tile->cluster_m = tile->cluster_n = tile->pingpong = 1;
}

/* What --set says of the key. Operands change places above. */
static void take_forced(const Problem *problem, GemmCandidate *tile)
{
  unsigned n;
  const GemmAxis *axes = gemm_key_axes(&n);
  for (unsigned i = 0; i < n; i++) {
    unsigned value = gemm_axis_value(tile, &axes[i]);
    if (axes[i].carried != GEMM_TURNED && choose_forced(problem, axes[i].name, &value))
      gemm_axis_set(tile, &axes[i], value);
  }
}

/* --set names a part of a tile: what follows from it, such as the stages there is room for, is to fit that
 * tile. Whoever gives rows or columns and does not ask for swapped operands (swap-AB) means the tile as it stands. */
static GemmCandidate with_forced(const Problem *problem, GemmCandidate tile)
{
  bool asked = choose_forced(problem, "bm", NULL) || choose_forced(problem, "bn", NULL);
  unsigned swapped = tile.swapped && !asked;
  choose_forced(problem, "swapped", &swapped);
  if (problem->turned && tile.swapped != (swapped != 0))
    tile = (GemmCandidate){.group = tile.group,
                           .swapped = swapped != 0,
                           .bm = 64,
                           .bn = swapped ? 8 : 64,
                           .pingpong = 1,
                           .cluster_m = 1,
                           .cluster_n = 1,
                           .split_k = tile.split_k};
  drop_other_sharing(problem, &tile);
  take_forced(problem, &tile);
  /* blocks that have one tile take no turns, and results of two tiles need other shared memory than of one */
  unsigned walks = 1;
  choose_forced(problem, "persistent", &walks);
  if (!walks && !choose_forced(problem, "pingpong", NULL)) tile.pingpong = 1;
  /* a tile set by hand may be too large for the turns, or the blocks, that the plan wanted for another */
  GemmCandidate whole = gemm_candidate(problem, tile, true);
  if (asked && tile.pingpong > 1 && !choose_forced(problem, "pingpong", NULL) &&
      !gemm_candidate_legal(problem, &whole)) {
    tile.pingpong = 1;
    whole = gemm_candidate(problem, tile, true);
  }
  if (asked && tile.split_k > 1 && !choose_forced(problem, "split_k", NULL) &&
      !gemm_candidate_legal(problem, &whole))
    tile.split_k = 1;
  return tile;
}

/* Does a variant have the parameter, if its template declares it? */
static bool is_carried(const Problem *problem, const GemmAxis *axis, const GemmCandidate *tile, bool fast)
{
  bool pair = gemm_of(problem->op)->dual && tile->swapped;
  switch (axis->carried) {
  case GEMM_ALWAYS: return true;
  case GEMM_TURNED: return problem->turned != NULL;
  case GEMM_FAST: return fast;
  case GEMM_FAST_OR_PAIR: return fast || pair;
  case GEMM_TMA: return tile->group && fast;
  case GEMM_TMA_OR_PAIR: return (tile->group && fast) || pair;
  case GEMM_NEEDED: return gemm_axis_value(tile, axis) > axis->absent;
  }
  return false;
}

/* Gives the variant what its template declares of the tile, and of a kernel for it. */
static void carry(Chooser *chooser, Choice *choice, GemmCandidate tile, bool fast)
{
  const Problem *problem = chooser->problem;
  const GemmSpace *space = gemm_space(problem, choice->template_name);
  unsigned n;
  const GemmAxis *axes = gemm_axes(&n);
  tile.persistent = fast ? gemm_candidate_walks(problem, &tile) && !tile.once : tile.group;
  if (!tile.raster) tile.raster = (unsigned)problem->gpu->model->usual_raster;
  /* blocks of warp MMAs fit in pairs by what the ring and the tile take: a bound on registers would only
   * hold for the chosen tile, not for one that is set by hand */
  tile.blocks = tile.group || tile.swapped ? tile.blocks : 1;
  tile.pace = gemm_candidate_pace(problem, &tile, gemm_most_rows(problem, choice));
  tile.reducers = 1;
  for (unsigned i = 0; i < n; i++) {
    const IrParameter *declared = space->axes[i];
    if (!declared || !is_carried(problem, &axes[i], &tile, fast)) continue;
    int64_t value = MAX(gemm_axis_value(&tile, &axes[i]), declared->domain ? declared->domain->least : 0);
    (declared->outside ? choice_set_own : choice_set_int)(choice, axes[i].name, value);
  }
  for (unsigned i = 0; i < space->n_extra; i++)
    (space->extra[i]->outside ? choice_set_own : choice_set_int)(
        choice, space->extra[i]->name, gemm_extra_default(space, i) + tile.extra[i]);
}

/* How blocks or warpgroups share tiles, in names of kernels. */
static const char *sharing_word(Arena *arena, const GemmCandidate *tile)
{
  unsigned n;
  const GemmAxis *axes = gemm_key_axes(&n);
  for (unsigned i = n; i-- > 0;) {
    unsigned value = gemm_axis_value(tile, &axes[i]);
    if (!*axes[i].word || value <= 1) continue;
    g_auto(GStrv) word = g_strsplit(axes[i].word, "%u", 2);
    return word[1] ? arena_printf(arena, "_%s%u", word[0], value) : arena_printf(arena, "_%s", word[0]);
  }
  return "";
}

/* `tile` completed for the variant: without guards (`fast`) it has fewer stages. `comes_back`: other variants
 * have it too, for more rows, and are to share its kernel, whose blocks walk then. */
static void finish(Chooser *chooser, Choice *choice, GemmCandidate tile, bool fast, bool comes_back)
{
  /* two products have another template where operands change places, with group and with warp MMAs */
  if (fast && (tile.group || gemm_of(chooser->problem->op)->dual)) tile = with_forced(chooser->problem, tile);
  const FusedGemm *gemm = gemm_of(gemm_candidate_operator(chooser->problem, &tile));
  tile = gemm_candidate(chooser->problem, tile, fast);
  /* operands may be aligned although results are not: then warpgroup MMAs add up here too */
  if (!fast)
    tile.promote = gemm_promotes(chooser->problem, tile.group || gemm_group_possible(chooser->problem));
  if (fast && !comes_back)
    tile = gemm_candidate_within(chooser->problem, tile, gemm_most_rows(chooser->problem, choice));
  if (fast)
    tile.stages = gemm_candidate_slots(chooser->problem, &tile, gemm_most_rows(chooser->problem, choice));
  choice->template_name = gemm_candidate_template(chooser->problem, &tile);
  choice_set_name(choice, "ta", number_name(gemm->a_type));
  choice_set_name(choice, "tb", number_name(gemm->b_type));
  choice_set_name(choice, "tc", number_name(gemm->acc_type));
  carry(chooser, choice, tile, fast);
  choice->group = tile.group;
  choice->alone = starts_alone(chooser->problem, choice, &tile);
  choice->keep_a = fast && !tile.swapped && keeps_rows(chooser->problem, choice, &tile);
  choice->stages = tile.stages;
  /* rows and columns of D, whichever side of the product they are */
  choice->tile_text = arena_printf(chooser->problem->arena, "%ux%ux%u", tile.swapped ? tile.bn : tile.bm,
                                   tile.swapped ? tile.bm : tile.bn, tile.bk);
  choice->suffix = arena_printf(
      chooser->problem->arena, "%s%s%s%s%s", choice->tile_text, tile.swapped ? "_swapped" : "",
      sharing_word(chooser->problem->arena, &tile),
      gemm_extra_suffix(gemm_candidate_space(chooser->problem, &tile), &tile, chooser->problem->arena),
      fast ? "" : "_any");
  chooser->n++;
}

static void replace_int(const Problem *problem, Choice *choice, const char *name, int64_t value)
{
  ChoiceParameter *parameter = (ChoiceParameter *)choice_parameter(choice, name);
  if (parameter && !choose_forced(problem, name, NULL)) parameter->integer = value;
}

/* Blocks that share a tile do not walk: each part of every tile has its block. */
static bool keep_budget(Chooser *chooser, const Choice *choice, const GemmCandidate *tile)
{
  int64_t budget = chooser->problem->options ? chooser->problem->options->sm_budget : 0,
          rows = gemm_most_rows(chooser->problem, choice);
  if (!budget || tile->split_k <= 1) return true;
  double blocks = gemm_candidate_tiles(chooser->problem, tile, rows) * tile->split_k;
  if (blocks <= (double)budget) return true;
  const GraphNode *node =
      chooser->problem->op->anchor ? chooser->problem->op->anchor : chooser->problem->op->nodes[0];
  error_set(chooser->error, ERROR_UNSUPPORTED, &node->mark, "sms",
            "leave out split_k, or fix the number of rows (--dim) so that fewer blocks are needed",
            "%u blocks for each tile of up to %" G_GINT64_FORMAT " rows are up to %.0f blocks at once, more "
            "than the %" G_GINT64_FORMAT " SMs of --sms",
            tile->split_k, rows, blocks, budget);
  return false;
}

/* Slices leave their sums in places of the workspace, one for each block that runs at once. */
static bool keep_slices(Chooser *chooser, const Choice *choice, const GemmCandidate *tile)
{
  static const char *const others[] = {"split_k", "stream_k", "pingpong"};
  const GraphNode *node =
      chooser->problem->op->anchor ? chooser->problem->op->anchor : chooser->problem->op->nodes[0];
  unsigned budget = chooser->problem->options ? chooser->problem->options->sm_budget : 0,
           sms = chooser->problem->gpu->sm_count;
  if (tile->slices <= 1) return true;
  for (unsigned i = 0; i < G_N_ELEMENTS(others); i++) {
    if (choice_int(choice, others[i], 1) <= 1) continue;
    error_set(chooser->error, ERROR_UNSUPPORTED, &node->mark, "slices", NULL,
              "blocks share a tile in one way: slices %u and %s %d exclude each other", tile->slices,
              others[i], (int)choice_int(choice, others[i], 1));
    return false;
  }
  if (gemm_of(chooser->problem->op)->n_batch) {
    error_set(chooser->error, ERROR_UNSUPPORTED, &node->mark, "slices", "leave out slices",
              "tiles of several batches are not cut into slices");
    return false;
  }
  double blocks =
      gemm_candidate_tiles(chooser->problem, tile, gemm_most_rows(chooser->problem, choice)) * tile->slices;
  if (budget && budget < sms) sms = budget;
  if (blocks <= sms) return true;
  error_set(chooser->error, ERROR_UNSUPPORTED, &node->mark, "slices",
            "fewer slices, larger tiles, or fix the number of rows (--dim)",
            "%u slices of each tile are up to %.0f blocks, more than the %u that run at once", tile->slices,
            blocks, sms);
  return false;
}

bool choose_gemm_complete(Chooser *chooser, Choice *choice)
{
  gemm_fit_forced(chooser, choice);
  int64_t least, most = gemm_most_rows(chooser->problem, choice);
  symbolic_range(gemm_of(chooser->problem->op)->m, &chooser->problem->graph->facts, &least, &(int64_t){0});
  const GemmCandidate tile = gemm_candidate_of(choice);
  replace_int(chooser->problem, choice, "reducers", MAX(1, gemm_candidate_owners(chooser->problem, &tile)));
  /* no rows at all are no tile */
  replace_int(chooser->problem, choice, "one_row", !tile.swapped && least >= 1 && most <= tile.bm);
  replace_int(chooser->problem, choice, "one_column", tile.swapped && least >= 1 && most <= tile.bn);
  return keep_slices(chooser, choice, &tile) && keep_budget(chooser, choice, &tile);
}

static GemmCandidate pick(Chooser *chooser, bool group, int64_t m, bool bounded, bool *tuned)
{
  GemmCandidate candidate;
  *tuned = tuned_gemm_find(chooser, group, m, bounded, &candidate);
  return *tuned ? candidate : gemm_best_candidate(chooser, group, m, bounded);
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
static GArray *choose_ranges(Chooser *chooser, bool group, int64_t longest, unsigned most)
{
  const FusedGemm *gemm = gemm_of(chooser->problem->op);
  GemmRange whole = {.most = choose_typical(chooser->problem, gemm->m)};
  bool tuned;
  if (!symbolic_is_constant(gemm->m, NULL)) return gemm_ranges(chooser, group, longest, most);
  whole.tile = pick(chooser, group, whole.most, true, &tuned);
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
static void add_ranges(Chooser *chooser, bool group, const RangeVariants *wanted)
{
  const FusedGemm *gemm = gemm_of(chooser->problem->op);
  for (unsigned i = 0; i + (wanted->batches ? 0 : 1) < wanted->ranges->len; i++) {
    const GemmRange *range = &g_array_index(wanted->ranges, GemmRange, i);
    bool last = i + 1 == wanted->ranges->len;
    if (!last && range->most <= wanted->taken) continue;
    Choice *choice = choose_open(chooser, template_of(gemm));
    bool fits = require_fast(chooser->problem, choice, group);
    if (wanted->batches)
      fits = fits && choose_require_at_most(chooser->problem, choice, wanted->batches, wanted->most);
    if (!last) fits = fits && choose_require_at_most(chooser->problem, choice, gemm->m, range->most);
    if (fits) finish(chooser, choice, range->tile, true, tile_comes_back(wanted->ranges, i));
  }
}

/* All variants with wide copies but the last, whose tile is returned. */
static GemmCandidate choose_tiles(Chooser *chooser, bool group, int64_t longest)
{
  const CostModel *model = chooser->problem->gpu->model;
  const Symbolic *batches = open_batches(chooser->problem);
  int64_t most = batches ? choose_maximum(chooser->problem, batches) : 0;
  unsigned n = 0, room = PLAN_MAX_VARIANTS - 1 - chooser->n; /* behind them comes one for every address */
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
    few[n++] = choose_ranges(chooser, group, longest, model->few_batches_ranges);
  }
  chooser->problem = typical;
  g_autoptr(GArray) ranges = choose_ranges(chooser, group, longest, room - n * model->few_batches_ranges);
  RangeVariants any = {.ranges = ranges};
  any.taken = gemm_rows_taken(chooser);
  for (unsigned i = 0; i < n; i++) {
    RangeVariants own = {few[i], batches, numbers[i].most, any.taken};
    chooser->problem = &scenario[i];
    if (!same_ranges(few[i], i + 1 < n ? few[i + 1] : ranges)) add_ranges(chooser, group, &own);
  }
  chooser->problem = typical;
  for (unsigned i = 0; i < n; i++)
    g_array_unref(few[i]);
  add_ranges(chooser, group, &any);
  return g_array_index(ranges, GemmRange, ranges->len - 1).tile;
}

/* Very few rows of types that no product instruction takes. */
static void choose_vector(Chooser *chooser)
{
  const CostModel *model = chooser->problem->gpu->model;
  const FusedGemm *gemm = gemm_of(chooser->problem->op);
  bool rows = !gemm->b_n_major; /* B's columns are what a block takes rows of */
  unsigned bytes = number_bytes(gemm->b_type);
  if (rows && gemm->a_m_major) return;
  Choice *choice = choose_open(chooser, rows ? "gemv_rows" : "gemv_columns");
  if (!require_fast(chooser->problem, choice, false) ||
      !choose_require_at_most(chooser->problem, choice, gemm->m, model->vector_rows))
    return;
  unsigned columns = rows ? model->vector_columns : 128 / bytes,
           depth = rows ? model->vector_depth : model->vector_depth_across;
  const FusedGemm *read = rows ? gemm_of(chooser->problem->turned) : gemm;
  choice_set_name(choice, "ta", number_name(read->a_type));
  choice_set_name(choice, "tb", number_name(read->b_type));
  choice_set_name(choice, "tc", number_name(gemm->acc_type));
  choice_set_int(choice, "bm", rows ? columns : 1);
  choice_set_int(choice, "bn", rows ? 1 : columns);
  choice_set_int(choice, "bk", depth);
  choice_set_int(choice, "threads", model->vector_threads);
  choice_set_own(choice, "swapped", rows);
  choice->tile_text = arena_printf(chooser->problem->arena, "1x%ux%u", columns, depth);
  choice->suffix = arena_printf(chooser->problem->arena, "%s_sums", choice->tile_text);
  choose_note(chooser, "M <= %u: sums along k, since no product instruction takes the types",
              model->vector_rows);
  chooser->n++;
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

static void choose_products(Chooser *chooser)
{
  const CostModel *model = chooser->problem->gpu->model;
  const FusedGemm *gemm = gemm_of(chooser->problem->op);
  bool group = gemm_group_possible(chooser->problem), warp = gemm_warp_possible(chooser->problem),
       priced = group || warp;
  int64_t longest = choose_maximum(chooser->problem, gemm->m),
          typical = choose_typical(chooser->problem, gemm->m);
  bool reduced = fused_is_reduced(chooser->problem->op),
       wide = gemm->dual && reduced; /* each has whole parts */
  GemmCandidate scalar = {.bm = 64,
                          .bn = wide ? 128 : 64,
                          .pingpong = 1,
                          .cluster_m = 1,
                          .cluster_n = 1,
                          .split_k = 1},
                tile = scalar;
  if (priced || gemm->a_type == NUMBER_F32) choose_dots(chooser);
  if (chooser->n && !chooser->variants[chooser->n - 1].guard) return;
  bool summed = gemm_rows_taken(chooser) >= chooser->problem->gpu->model->vector_rows;
  if (!priced && !summed && !gemm->dual && !reduced && !gemm_tile_forced(chooser->problem))
    choose_vector(chooser);
  if (priced) choose_few_rows(chooser);
  if (chooser->n && !chooser->variants[chooser->n - 1].guard) return;
  if (priced) tile = choose_tiles(chooser, group, longest);
  Choice *choice = choose_open(chooser, template_of(gemm));
  bool aligned = require_fast(chooser->problem, choice, group);
  if (aligned)
    finish(chooser, choice, tile, true, false);
  else
    choose_note(chooser, "wide copies rejected: strides are no multiples of %u bytes",
                group ? MAX(WIDEST_COPY, gemm_map_multiple(chooser->problem->gpu)) : WIDEST_COPY);
  if (chooser->n && !chooser->variants[chooser->n - 1].guard) return;
  /* bytes are copied one by one: the 128 x 128 tile's copies alone fill the registers */
  bool bytes = number_bytes(gemm->a_type) == 1;
  tile = warp && !bytes ? gemm_best_candidate(chooser, false, MIN(typical, longest), false) : scalar;
  if (tile.bm * tile.bn > model->guarded_area)
    tile.bm = tile.bn = model->guarded_side; /* guards take registers */
  tile.askew = warp && !aligned && gemm_candidate_may_be_askew(chooser->problem);
  if (tile.askew) tile = askew_tile(chooser->problem, tile);
  finish(chooser, choose_open(chooser, template_of(gemm)), tile, false, false);
}

bool choose_gemm(Chooser *chooser)
{
  choose_products(chooser);
  chooser->complete = choose_gemm_complete;
  /* two products have a template of their own for swapped operands (swap-AB) */
  bool apart = gemm_of(chooser->problem->op)->dual;
  for (unsigned i = 0; i < chooser->n; i++)
    chooser->variants[i].apart = apart ? "swapped" : NULL;
  return true;
}
