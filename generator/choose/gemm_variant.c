/* A variant for a tile of a product: the guard that its copies need, and what its template declares of the tile. */
#include "generator/choose/gemm_variant.h"
#include "generator/choose/choose.h"
#include "generator/choose/gemm_bound.h"
#include "generator/choose/gemm_rules.h"
#include "generator/choose/gemm_space.h"
#include <string.h>

const char *gemm_variant_template(const FusedGemm *gemm)
{
  return gemm->scaled             ? "gemm_blocks"
         : gemm->narrow           ? "gemm_narrow"
         : gemm_has_several(gemm) ? "gemm_dual"
                                  : "gemm";
}

#define WIDEST_COPY 16 /* bytes, of a thread */

unsigned gemm_wide_copy(const Problem *problem, bool warpgroups)
{
  return warpgroups ? MAX(WIDEST_COPY, gemm_map_multiple(problem->gpu)) : WIDEST_COPY;
}

static bool require_operand(const Problem *problem, Choice *choice, const GraphTensor *tensor,
                            const Symbolic *leading, const Symbolic *const *batches, const Symbolic *inner,
                            unsigned multiple)
{
  unsigned vector = number_elements(tensor->type, multiple);
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

/* The same of operands of a leading product. */
static bool require_lead(const Problem *problem, Choice *choice, bool warpgroups, unsigned multiple)
{
  const FusedOperator *op = problem->op;
  const FusedGemm *gemm = gemm_of(op);
  const GemmLead *lead = gemm->lead;
  const GraphTensor *a = op->inputs[lead->a].tensor, *b = op->inputs[lead->b].tensor;
  bool rows = !symbolic_equals(lead->a_k, 1), columns = !symbolic_equals(lead->b_k, 1);
  return require_operand(problem, choice, a, rows ? lead->a_k : lead->a_m, lead->a_batch,
                         warpgroups ? NULL
                         : rows     ? gemm->m
                                    : lead->k,
                         multiple) &&
         require_operand(problem, choice, b, columns ? lead->b_k : lead->b_n, lead->b_batch,
                         warpgroups ? NULL
                         : columns  ? gemm->n
                                    : lead->k,
                         multiple) &&
         choose_require_align(problem, choice, a, multiple) &&
         choose_require_align(problem, choice, b, multiple) &&
         (!warpgroups || choose_require_at_least(problem, choice, lead->k, 1));
}

/* Which multiples an input is to lie at: what is copied, or what the epilogue loads in pairs (a column too, where operands are
 * exchanged), each tensor as it lies; 1: it is read one by one. */
static unsigned input_multiple(const Problem *problem, unsigned i, bool warpgroups)
{
  const FusedOperator *op = problem->op;
  const FusedGemm *gemm = gemm_of(op);
  const GemmWeights *weights = &gemm->weights;
  bool scale = gemm->scaled && (i == gemm->a_scale || i == gemm->b_scale);
  if (gemm_reads(gemm, i)) return gemm_wide_copy(problem, warpgroups);
  if (scale) return warpgroups && gemm_scales_in_ring(problem, i == gemm->b_scale) ? WIDEST_COPY : 1;
  if (gemm->groups && i == gemm->sizes) return 1;
  if (gemm->narrow && (i == weights->scale || i == weights->zero)) return 1;
  return is_single(&op->inputs[i], op->rank) ? 1 : WIDEST_COPY;
}

/* Is the input read by the epilogue alone? */
static bool is_beside(const FusedOperator *op, unsigned i)
{
  const FusedGemm *gemm = gemm_of(op);
  return !gemm_reads(gemm, i) && !(gemm->scaled && (i == gemm->a_scale || i == gemm->b_scale));
}

bool gemm_require_operands(const Problem *problem, Choice *choice, bool warpgroups, bool beside)
{
  const FusedOperator *op = problem->op;
  const FusedGemm *gemm = gemm_of(op);
  unsigned multiple = gemm_wide_copy(problem, warpgroups);
  if (!require_operand(problem, choice, op->inputs[gemm->a].tensor, gemm->a_m_major ? gemm->a_k : gemm->a_m,
                       gemm->a_batch,
                       warpgroups        ? NULL
                       : gemm->a_m_major ? gemm->m
                                         : gemm->k,
                       multiple))
    return false;
  if (!require_operand(problem, choice, op->inputs[gemm->b].tensor, gemm->b_n_major ? gemm->b_k : gemm->b_n,
                       gemm->b_batch,
                       warpgroups        ? NULL
                       : gemm->b_n_major ? gemm->n
                                         : gemm->k,
                       multiple))
    return false;
  const GraphTensor *operands[] = {op->inputs[gemm->a].tensor, op->inputs[gemm->b].tensor};
  const Symbolic *const apart[] = {gemm->a_summed, gemm->b_summed};
  for (unsigned i = 0; i < 2 && gemm->summed; i++)
    if (!choose_require_multiple(problem, choice, apart[i], number_elements(operands[i]->type, multiple)))
      return false;
  if (gemm->lead && !require_lead(problem, choice, warpgroups, multiple)) return false;
  for (unsigned i = 0; i < op->n_inputs; i++) {
    unsigned align = input_multiple(problem, i, warpgroups);
    const GraphTensor *tensor = op->inputs[i].tensor;
    bool placed = tensor->kind != TENSOR_INPUT; /* by the plan: it lies well */
    if (align == 1 || (is_beside(op, i) && !beside && !placed)) continue;
    if (!choose_require_align(problem, choice, tensor, align) && !is_beside(op, i)) return false;
  }
  return true;
}

bool gemm_require_fast(const Problem *problem, Choice *choice, bool warpgroups, bool beside)
{
  const FusedOperator *op = problem->op;
  if (!gemm_require_operands(problem, choice, warpgroups, beside)) return false;
  for (unsigned i = 0; i < op->n_outputs; i++)
    if (!choose_require_align(problem, choice, op->outputs[i].tensor, 16)) return false;
  return !warpgroups || choose_require_at_least(problem, choice, gemm_of(op)->k, 1);
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
  return tile->warpgroups && again && once && fits;
}

/* Blocks that start as SMs become free lie where chance puts them. That loses where blocks share tiles of
 * both operands, which neighbours then no longer ask for together: 3 to 20 % of a kernel; one row of tiles
 * gains 0 to 10 % of a plan, on few SMs too (measured at up to 256 rows, docs/performance-log.md). Where L2
 * has the right operand, who asks later finds it there: 4 to 17 % of a plan are gained. A block of
 * streams may have no step at all, and then must not have begun to copy. */
static bool starts_alone(const Problem *problem, const Choice *choice, const GemmCandidate *tile)
{
  if (tile->stream_k > 1 || tile->slices > 1) return true;
  int64_t along = tile->swapped ? tile->bn : tile->bm;
  const FusedGemm *gemm = gemm_of(problem->op);
  double bytes = gemm_right_elements(problem) * number_bits(gemm_stored(gemm, true)) / CHAR_BIT;
  bool kept = bytes <= problem->gpu->model->early_share * problem->gpu->l2_bytes;
  return !kept && gemm_most_rows(problem, choice) > along;
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

/* --set names a part of a tile: what follows from it, such as the stages there is room for, is to fit that
 * tile. Whoever gives rows or columns and does not ask for swapped operands (swap-AB) means the tile as it stands. */
static GemmCandidate with_forced(const Problem *problem, GemmCandidate tile)
{
  bool asked = choose_forced(problem, "bm", NULL) || choose_forced(problem, "bn", NULL);
  unsigned swapped = tile.swapped && !asked;
  choose_forced(problem, "swapped", &swapped);
  if (gemm_of(problem->op)->narrow) swapped = 1;
  if (problem->turned && tile.swapped != (swapped != 0))
    tile = (GemmCandidate){.warpgroups = tile.warpgroups,
                           .by_warps = tile.by_warps,
                           .swapped = swapped != 0,
                           .bm = 64,
                           .bn = swapped ? 8 : 64,
                           .pingpong = 1,
                           .cluster_m = 1,
                           .cluster_n = 1,
                           .split_k = tile.split_k};
  drop_other_sharing(problem, &tile);
  tile.space = spaces_of(problem->spaces, gemm_candidate_template(problem, &tile));
  swapped = tile.swapped;                      /* operands have changed places above */
  bool fed = tile.warpgroups || tile.by_warps; /* by the engine: warpgroup MMAs, or warps by themselves */
  if (tile.space) candidate_force(problem, &tile.of);
  tile.warpgroups = fed && !tile.by_warps;
  tile.swapped = swapped;
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

typedef struct Carrying {
  const Problem *problem;
  const GemmCandidate *tile;
  bool fast;
} Carrying;

/* Does a variant have the parameter, if its template declares it? */
static bool is_carried(const Candidate *candidate, unsigned slot, const void *data)
{
  const Carrying *at = data;
  const SpaceKind *kind = candidate->space->kind;
  bool pair = gemm_has_several(gemm_of(at->problem->op)) && at->tile->swapped;
  if (slot >= kind->n_axes) return true;
  switch ((GemmCarried)kind->axes[slot].carried) {
  case GEMM_ALWAYS: return true;
  case GEMM_TURNED: return at->problem->turned != NULL;
  case GEMM_FAST: return at->fast;
  case GEMM_FAST_OR_PAIR: return at->fast || pair;
  case GEMM_TMA: return at->tile->warpgroups && at->fast;
  case GEMM_TMA_OR_PAIR: return ((at->tile->warpgroups || at->tile->by_warps) && at->fast) || pair;
  case GEMM_NEEDED: return candidate->values[slot] > kind->axes[slot].absent;
  }
  return false;
}

/* Gives the variant what its template declares of the tile, and of a kernel for it. */
static void carry(const Problem *problem, Choice *choice, GemmCandidate tile, bool fast)
{
  tile.space = spaces_of(problem->spaces, choice->template_name);
  tile.persistent = fast ? gemm_candidate_walks(problem, &tile) && !tile.once : tile.warpgroups;
  if (gemm_of(problem->op)->groups)
    tile.persistent = 1; /* how many tiles there are is known on the device only */
  if (!tile.raster) tile.raster = (unsigned)problem->gpu->model->usual_raster;
  /* blocks of warp MMAs fit in pairs by what the ring and the tile take: a bound on registers would only
   * hold for the chosen tile, not for one that is set by hand */
  tile.blocks = tile.warpgroups || tile.swapped ? tile.blocks : 1;
  tile.pace = gemm_candidate_pace(problem, &tile, gemm_most_rows(problem, choice));
  tile.reducers = 1;
  const Carrying at = {problem, &tile, fast};
  candidate_carry(&tile.of, choice, is_carried, &at);
}

static void set_types(Choice *choice, const FusedOperator *op)
{
  const FusedGemm *gemm = gemm_of(op);
  choice_set_name(choice, "ta", number_name(gemm_stored(gemm, false)));
  choice_set_name(choice, "tb", number_name(gemm_stored(gemm, true)));
  choice_set_name(choice, "tc", number_name(gemm->acc_type));
  if (!gemm->narrow) return;
  const GemmWeights *weights = &gemm->weights;
  choice_set_name(choice, "tw", number_name(gemm->b_type));
  choice_set_name(choice, "ts", number_name(op->inputs[weights->scale].tensor->type));
  choice_set_name(choice, "tz", number_name(op->inputs[weights->zero].tensor->type));
  choice_set_int(choice, "depth", weights->depth);
  choice_set_int(choice, "zero", weights->has_zero);
  choice_set_int(choice, "number", weights->number);
}

/* What the template of operands with scales of blocks is told of these; `ring`: warpgroup MMAs of what TMA copies. */
static void set_scales(const Problem *problem, Choice *choice, bool ring)
{
  const FusedGemm *gemm = gemm_of(problem->op);
  if (!gemm->scaled) return;
  choice_set_name(choice, "tsa", number_name(problem->op->inputs[gemm->a_scale].tensor->type));
  choice_set_name(choice, "tsb", number_name(problem->op->inputs[gemm->b_scale].tensor->type));
  choice_set_int(choice, "a_depth", gemm->a_depth);
  choice_set_int(choice, "b_depth", gemm->b_depth);
  choice_set_int(choice, "b_width", gemm->b_width);
  choice_set_int(choice, "ring", ring && gemm_scales_in_ring(problem, false));
  choice_set_int(choice, "ring_b", ring && gemm->b_width > 1 && gemm_scales_in_ring(problem, true));
}

/* Whether weights of a step are widened while the step before is multiplied (overlap_widening), and as fourths: where
 * products take as long as widening does, of more than 32 columns, or nothing else runs beside them, since an SM has one part
 * of a tile. Elsewhere other warpgroups do, and what it takes (registers, the sums' last product) made it slower, or was not
 * timed; sums of more than 128 columns leave no registers. */
static bool widens_early(const Problem *problem, const GemmCandidate *tile, bool fast)
{
  const FusedGemm *gemm = gemm_of(problem->op);
  if (!fast || !tile->warpgroups || !tile->swapped || gemm->groups) return false;
  unsigned few = problem->gpu->model->warps_columns;
  if (tile->bn > 2 * few) return tile->bn <= 8 * few;
  int64_t tiles = (choose_typical(problem, gemm->n) + tile->bm - 1) / tile->bm;
  return tile->bn > few && tile->split_k == 2 && !gemm->n_batch && symbolic_is_constant(gemm->n, NULL) &&
         2 * tiles <= gemm_candidate_sms(problem);
}

static void set_rounding(const Problem *problem, Choice *choice, const GemmCandidate *tile, bool fast)
{
  const FusedOperator *op = gemm_candidate_operator(problem, tile);
  const FusedGemm *gemm = gemm_of(op);
  const GemmWeights *weights = &gemm->weights;
  if (!gemm->narrow) return;
  choice_set_int(choice, "rounded", gemm_rounds_weights(problem, tile));
  bool early = widens_early(problem, tile, fast);
  choice_set_int(choice, "early", early);
  bool quarters = early && (weights->type == NUMBER_S4 || weights->type == NUMBER_U4) &&
                  gemm->b_type == NUMBER_BF16 && !gemm->a_m_major && weights->has_zero != GEMM_ZERO_TENSOR &&
                  !gemm->lead;
  choice_set_int(choice, "quarters", quarters);
  choice_set_float(choice, "less", (double)weights->number / 4);
  choice_set_int(choice, "scales", fast ? gemm_scales_beside(problem, tile) : 0);
}

/* Of narrow weights what a kernel's name says of them beside their type. */
static const char *weights_text(const Problem *problem, const FusedGemm *gemm)
{
  static const char *const zeros[] = {"", "_zeros", "_zero"};
  const GemmWeights *weights = &gemm->weights;
  const char *zero = zeros[weights->has_zero];
  if (weights->has_zero == GEMM_ZERO_NUMBER)
    zero = arena_printf(problem->arena, "%s%s%d", zero, weights->number < 0 ? "m" : "",
                        ABS((int)weights->number));
  if (gemm_scales_columns(weights)) return arena_printf(problem->arena, "_columns%s", zero);
  return weights->depth ? arena_printf(problem->arena, "_blocks%d%s", (int)weights->depth, zero) : zero;
}

/* Of operands with scales of blocks: these, and the scales' types where they are not f32. */
static const char *scales_text(const Problem *problem, const FusedGemm *gemm)
{
  const unsigned scales[] = {gemm->a_scale, gemm->b_scale};
  const char *types[2];
  for (unsigned i = 0; i < 2; i++) {
    NumberType type = problem->op->inputs[scales[i]].tensor->type;
    types[i] = type == NUMBER_F32 ? "" : number_name(type);
  }
  return arena_printf(problem->arena, "_scales1x%d%s_%dx%d%s", (int)gemm->a_depth, types[0],
                      (int)gemm->b_width, (int)gemm->b_depth, types[1]);
}

void gemm_variant(const Problem *problem, Choice *choice, GemmCandidate tile, bool fast, bool comes_back)
{
  /* two products have another template where operands change places, with warpgroup and with warp MMAs */
  if (fast && (tile.warpgroups || tile.by_warps || gemm_has_several(gemm_of(problem->op))))
    tile = with_forced(problem, tile);
  const FusedGemm *gemm = gemm_of(gemm_candidate_operator(problem, &tile));
  tile = gemm_candidate(problem, tile, fast);
  /* operands may be aligned although results are not: then warpgroup MMAs add up here too */
  if (!fast)
    tile.promote = gemm_promotes(problem, &tile, tile.warpgroups || gemm_warpgroups_possible(problem));
  if (fast && !comes_back) tile = gemm_candidate_within(problem, tile, gemm_most_rows(problem, choice));
  if (fast) tile.stages = gemm_candidate_slots(problem, &tile, gemm_most_rows(problem, choice));
  choice->template_name = gemm_candidate_template(problem, &tile);
  set_types(choice, gemm_candidate_operator(problem, &tile));
  set_rounding(problem, choice, &tile, fast);
  set_scales(problem, choice, fast && tile.warpgroups);
  carry(problem, choice, tile, fast);
  choice->warpgroups = tile.warpgroups;
  choice->alone = starts_alone(problem, choice, &tile);
  choice->keep_a = fast && !tile.swapped && !gemm->groups && keeps_rows(problem, choice, &tile);
  choice->stages = tile.stages;
  static const char *const kinds[] = {"", "_ends", "_index", "_counts", "_depths"};
  /* rows and columns of D, whichever side of the product they are */
  choice->tile_text = arena_printf(problem->arena, "%ux%ux%u", tile.swapped ? tile.bn : tile.bm,
                                   tile.swapped ? tile.bm : tile.bn, tile.bk);
  const char *scales = gemm->narrow   ? weights_text(problem, gemm)
                       : gemm->scaled ? scales_text(problem, gemm)
                                      : "";
  choice->suffix =
      arena_printf(problem->arena, "%s%s%s%s%s%s", choice->tile_text, scales, kinds[gemm->groups],
                   tile.swapped ? "_swapped" : "",
                   tile.space ? candidate_words(&tile.of, problem->arena) : "", fast ? "" : "_any");
}

static void replace_int(const Problem *problem, Choice *choice, const char *name, int64_t value)
{
  ChoiceParameter *parameter = (ChoiceParameter *)choice_parameter(choice, name);
  if (parameter && !choose_forced(problem, name, NULL)) parameter->integer = value;
}

/* Blocks that share a tile do not walk, each part of every tile has its block: under a budget there may be no more of them
 * than SMs, and slices, which wait for each other, must all run at once. What else excludes slices the template says
 * (`param slices ... if`). */
static bool keep_blocks(Chooser *chooser, const Choice *choice, const GemmCandidate *tile)
{
  const Problem *problem = chooser->problem;
  const GraphNode *node = problem->op->anchor ? problem->op->anchor : problem->op->nodes[0];
  bool sliced = tile->slices > 1, budgeted = problem->options && problem->options->sm_budget;
  if (!sliced && ((tile->split_k <= 1 && tile->k_parts <= 1) || !budgeted)) return true;
  unsigned parts = sliced ? tile->slices : tile->split_k, sms = gemm_candidate_sms(problem);
  int64_t rows = gemm_most_rows(problem, choice);
  double blocks = gemm_candidate_tiles(problem, tile, rows) * parts;
  if (blocks <= sms) return true;
  error_set(
      chooser->error, ERROR_UNSUPPORTED, &node->mark, sliced ? "slices" : "sms",
      sliced ? "fewer slices, larger tiles, or fix the number of rows (--dim)"
             : "leave out split_k, or fix the number of rows (--dim) so that fewer blocks are needed",
      "%u %s of each tile of up to %" G_GINT64_FORMAT " rows are up to %.0f blocks, more than the %u %s",
      parts, sliced ? "slices" : "blocks", rows, blocks, sms, budgeted ? "SMs of --sms" : "that run at once");
  return false;
}

void gemm_variant_follow(const Problem *problem, Choice *choice)
{
  int64_t least, most = gemm_most_rows(problem, choice);
  symbolic_range(gemm_of(problem->op)->m, &problem->graph->facts, &least, &(int64_t){0});
  const GemmCandidate tile = gemm_candidate_of(problem, choice);
  replace_int(problem, choice, "reducers", MAX(1, gemm_candidate_owners(problem, &tile)));
  /* no rows at all are no tile */
  replace_int(problem, choice, "one_row", !tile.swapped && least >= 1 && most <= tile.bm);
  replace_int(problem, choice, "one_column", tile.swapped && least >= 1 && most <= tile.bn);
}

/* A scheduler that reads sizes gives each block whole tiles, each of one group; what else it excludes the template says
 * (`param ... if !grouped`). */
static bool keep_groups(Chooser *chooser, const GemmCandidate *tile)
{
  const Problem *problem = chooser->problem;
  const FusedGemm *gemm = gemm_of(problem->op);
  const GraphNode *node = problem->op->anchor ? problem->op->anchor : problem->op->nodes[0];
  unsigned rows = tile->swapped ? tile->bn : tile->bm;
  if (gemm->groups != GEMM_INDEX || gemm->align % rows == 0) return true;
  error_set(chooser->error, ERROR_UNSUPPORTED, &node->mark, "groups", "bm that divides `align`",
            "%s %u: groups that begin at multiples of %d rows would share a tile",
            tile->swapped ? "bn" : "bm", rows, (int)gemm->align);
  return false;
}

/* Columns that share a scale of B along a step of k: a tile has one such, or two (gemm_scales_fit). */
static bool keep_scales(Chooser *chooser, const GemmCandidate *tile)
{
  const FusedOperator *op = chooser->problem->op;
  const FusedGemm *gemm = gemm_of(op);
  const GraphNode *node = op->anchor ? op->anchor : op->nodes[0];
  int64_t rows;
  if (tile->parts_m > 1 && symbolic_is_constant(tile->swapped ? gemm->n : gemm->m, &rows) &&
      rows <= tile->bm / tile->parts_m) {
    error_set(chooser->error, ERROR_UNSUPPORTED, &node->mark, "parts", "parts_m 1",
              "parts_m %u: %d rows are no more than one part has", tile->parts_m, (int)rows);
    return false;
  }
  if (tile->k_parts > 1 && !gemm_scales_beside(chooser->problem, tile)) {
    error_set(
        chooser->error, ERROR_UNSUPPORTED, &node->mark, "scales", "k_parts 1",
        "k_parts %u: the scales of a step lie at no multiples of %u bytes, where TMA copies could bring them",
        tile->k_parts, gemm_map_multiple(chooser->problem->gpu));
    return false;
  }
  if (gemm_scales_fit(gemm, tile)) return true;
  error_set(chooser->error, ERROR_UNSUPPORTED, &node->mark, "scales", "bn that divides the block",
            "bn %u: columns of the right operand share a scale, %d each, and a tile would have more than two",
            tile->bn, (int)gemm->b_width);
  return false;
}

bool choose_gemm_complete(Chooser *chooser, Choice *choice)
{
  gemm_fit_forced(chooser, choice);
  gemm_variant_follow(chooser->problem, choice);
  const GemmCandidate tile = gemm_candidate_of(chooser->problem, choice);
  return (!tile.space || candidate_keeps(&tile.of, chooser->problem, chooser->error)) &&
         keep_groups(chooser, &tile) && keep_scales(chooser, &tile) && keep_blocks(chooser, choice, &tile);
}

/* ---- The passes as judge ---- */

bool gemm_variant_dry(const Problem *problem, Choice *choice, const GemmCandidate *candidate)
{
  *choice = (Choice){.template_name = gemm_variant_template(gemm_of(problem->op))};
  if (!gemm_require_fast(problem, choice, candidate->warpgroups, true)) return false;
  choice->template_name = gemm_candidate_template(problem, candidate);
  set_types(choice, gemm_candidate_operator(problem, candidate));
  set_rounding(problem, choice, candidate, true);
  set_scales(problem, choice, candidate->warpgroups);
  carry(problem, choice, *candidate, true);
  choice->warpgroups = candidate->warpgroups;
  gemm_variant_follow(problem, choice);
  return true;
}

const char *gemm_refusal(const Problem *problem, const GemmCandidate *candidate, const DrySummary *summary)
{
  if (!summary->legal) return summary->why;
  if (!candidate->warpgroups) return NULL;
  if (summary->waits) return "warpgroup MMAs do not take its products";
  if (summary->pingpong != candidate->pingpong) return "its warpgroups cannot take turns";
  bool suffice = gemm_registers_suffice(problem, candidate, summary->sums, summary->registers);
  return suffice ? NULL : "its sums leave a thread too few registers";
}

bool gemm_settle(Chooser *chooser, GemmCandidate *candidate)
{
  Problem scratch = *chooser->problem;
  if (!scratch.dry || choose_is_forced(&scratch)) return true;
  Choice choice;
  bool taken = true;
  scratch.arena = arena_new();
  if (gemm_variant_dry(&scratch, &choice, candidate)) {
    bool several =
        gemm_has_several(gemm_of(scratch.op)); /* epilogues that take all of them keep more beside the sums */
    const DrySummary *summary = dry_run(scratch.dry, &choice);
    while (summary && summary->crowded && candidate->stages > LEAST_STAGES) {
      replace_int(&scratch, &choice, "stages", --candidate->stages);
      summary = dry_run(scratch.dry, &choice);
    }
    if (several) summary = dry_run_registers(scratch.dry, &choice);
    const char *why =
        summary ? gemm_refusal(&scratch, candidate, summary) : "as many as may be were shown to the passes";
    taken = !why;
    if (why)
      choose_note(chooser, "tile %ux%ux%u left out: %s", candidate->bm, candidate->bn, candidate->bk, why);
  }
  arena_free(scratch.arena);
  return taken;
}
