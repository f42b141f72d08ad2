/* --set gives parts of a tile; the plan's values of the others were chosen for another tile, and may not fit. Then
 * these are searched: the depth of a step and the number of slots first, turns, at last the side of the tile that was
 * left open. If nothing fits, the least stays, so that the message says by how much even that is too large. */
#include "generator/choose/gemm_space.h"
#include "ir/resources.h"

#define LEAST_STEP_BYTES 32 /* of k: one product instruction's, whatever the type */
#define LEAST_SIDE       32

typedef struct {
  Chooser *chooser;
  GemmCandidate plan; /* with what is set */
  bool bm, bn, bk, stages, pingpong;
} Forced;

static bool is_forced(const Problem *problem, const char *name)
{
  return choose_forced(problem, name, NULL);
}

/* Where a side is left open the tile must also be one that the plan would take, and leave each block its registers. */
static bool works(const Forced *at, const GemmCandidate *tile)
{
  if (!gemm_candidate_fits(at->chooser->problem, tile)) return false;
  if (at->bm && at->bn) return true;
  bool planned = !at->bm && !at->bn && tile->bm == at->plan.bm && tile->bn == at->plan.bn;
  unsigned most = at->chooser->problem->gpu->registers_per_sm / 2 / MAX(1, tile->blocks);
  bool small = (planned && tile->blocks <= 1) || tile->bm * tile->bn <= most;
  return small && gemm_candidate_legal(at->chooser->problem, tile);
}

/* Slots for a step of this depth, at least so many. */
static bool take_slots(const Forced *at, GemmCandidate *tile, unsigned least)
{
  if (at->stages) return works(at, tile);
  unsigned shallower = at->plan.bk / MAX(1, tile->bk);
  for (tile->stages = MAX(
           least, MIN(at->plan.stages * MAX(1, shallower), at->chooser->problem->gpu->model->forced_slots));
       tile->stages >= least; tile->stages--)
    if (works(at, tile)) return true;
  tile->stages = least;
  return false;
}

static unsigned least_depth(const Forced *at)
{
  unsigned bytes = number_bytes(gemm_of(gemm_candidate_operator(at->chooser->problem, &at->plan))->a_type);
  return MAX(1, LEAST_STEP_BYTES / bytes);
}

/* Three slots of some depth, else two: with two, copies wait for products. */
static bool take_depth(const Forced *at, GemmCandidate *tile)
{
  unsigned depth = at->bk ? tile->bk : MIN(least_depth(at), tile->bk), deepest = tile->bk;
  for (unsigned least = 3; least >= 2; least--)
    for (tile->bk = deepest; tile->bk >= depth; tile->bk /= 2)
      if (take_slots(at, tile, least)) return true;
  tile->bk = depth;
  return false;
}

/* A side, and the powers of two below it. */
static unsigned lessened(unsigned side, unsigned times)
{
  for (; times > 0 && side > 1; times--)
    side = 1u << (31 - __builtin_clz(side - 1));
  return side;
}

/* The largest tile: its open sides are lessened as often as must be. */
static bool take_sides(const Forced *at, GemmCandidate *tile)
{
  const GemmCandidate whole = *tile;
  for (unsigned times = 0; times < 8; times++)
    for (unsigned of_columns = 0; of_columns <= times; of_columns++) {
      unsigned of_rows = times - of_columns;
      if ((at->bn && of_columns) || (at->bm && of_rows)) continue;
      *tile = whole;
      if ((of_columns && whole.bn <= LEAST_SIDE) || (of_rows && whole.bm <= LEAST_SIDE)) continue;
      tile->bn = lessened(whole.bn, of_columns);
      tile->bm = lessened(whole.bm, of_rows);
      if (MIN(tile->bn, tile->bm) < MIN(LEAST_SIDE, MIN(whole.bn, whole.bm))) continue;
      if (take_depth(at, tile)) return true;
    }
  return false;
}

static void put(const Forced *at, Choice *choice, const char *name, unsigned value)
{
  ChoiceParameter *parameter = (ChoiceParameter *)choice_parameter(choice, name);
  if (!parameter || parameter->integer == value || is_forced(at->chooser->problem, name)) return;
  parameter->integer = value;
  choose_note(at->chooser, "%s = %u, to fit what --set asks for", name, value);
}

static Forced forced(Chooser *chooser, const Choice *choice)
{
  return (Forced){.chooser = chooser,
                  .plan = gemm_candidate_of(chooser->problem, choice),
                  .bm = is_forced(chooser->problem, "bm"),
                  .bn = is_forced(chooser->problem, "bn"),
                  .bk = is_forced(chooser->problem, "bk"),
                  .stages = is_forced(chooser->problem, "stages"),
                  .pingpong = is_forced(chooser->problem, "pingpong")};
}

void gemm_fit_forced(Chooser *chooser, Choice *choice)
{
  bool blocks = is_forced(chooser->problem, "blocks");
  if (!(blocks || gemm_tile_forced(chooser->problem)) || !choice_parameter(choice, "stages")) return;
  Forced at = forced(chooser, choice);
  if (!at.plan.bm || !at.plan.bn || !at.plan.bk || !at.plan.stages || works(&at, &at.plan)) return;
  if (!blocks) at.plan.blocks = 1; /* more were wanted for another tile */
  GemmCandidate tile = at.plan;
  bool found = works(&at, &tile) || take_sides(&at, &tile);
  if (!found && at.plan.pingpong > 1 && !at.pingpong) {
    tile = at.plan;
    tile.pingpong = 1;
    found = take_sides(&at, &tile);
  }
  if (!found) {
    unsigned least = at.plan.warpgroups ? WARPGROUP_ROWS : LEAST_SIDE;
    tile = at.plan;
    if (!at.bm) tile.bm = MIN(tile.bm, least);
    if (!at.bn) tile.bn = MIN(tile.bn, least);
    take_depth(&at, &tile);
  }
  put(&at, choice, "bm", tile.bm);
  put(&at, choice, "bn", tile.bn);
  put(&at, choice, "bk", tile.bk);
  put(&at, choice, "stages", tile.stages);
  put(&at, choice, "pingpong", tile.pingpong);
  put(&at, choice, "blocks", tile.blocks);
}
