/* Products that a loop carries out as one launch of all its times (templates/gemm_times.ir): which tiles, and when.
 *
 * All tiles of a time have a block each, which run at once, and keep the right operand's columns in shared memory. The narrower a
 * tile is, the more blocks share the work; the deeper a step of k, the fewer waits there are. Measured in docs/performance-log.md. */
#include "generator/choose/gemm_times.h"
#include "generator/choose/gemm_variant.h"
#include "generator/program/gemm.h"
#include "ir/resources.h"

#define ROWS        64        /* of a tile: a warpgroup's */
#define COLUMN_STEP 8         /* of the GPU's products */
#define MOST_WIDTH  256       /* columns that a product has */
#define SLOT_BYTES  128       /* of a row: as wide as a swizzle; a slot has up to */
#define MOST_PANELS 4         /* of these */
#define LEAST_SLOTS 2         /* of the left operand, to be on their way together */
#define BARRIERS    16        /* bytes of a slot's two */
#define MOST_TIMES  (1 << 21) /* posts of all blocks are counted in 32 bits */

typedef struct {
  int64_t columns, depth, steps,
      stages; /* columns of each product; elements of a step of k, steps, and slots */
} Tile;

/* Rows of tiles whose blocks run at once. */
static int64_t rows_of_tiles(const Problem *problem, int64_t columns)
{
  int64_t n = 0;
  symbolic_is_constant(gemm_of(problem->op)->n, &n);
  return n < 1 ? 0 : gemm_candidate_sms(problem) / ((n + columns - 1) / columns);
}

static bool fits(const Problem *problem, Tile *tile)
{
  const FusedGemm *gemm = gemm_of(problem->op);
  const Gpu *gpu = problem->gpu;
  int64_t depth = (int64_t)number_bytes_of(gemm->a_type, (uint64_t)tile->depth),
          right = tile->steps * depth * tile->columns * gemm->products, left = ROWS * depth + BARRIERS,
          room = (int64_t)gpu->shared_per_block - reserved_shared_bytes(gpu) - right - BARRIERS;
  tile->stages = MIN(MAX(tile->steps, LEAST_SLOTS), room / left);
  return tile->stages >= LEAST_SLOTS;
}

/* The deepest steps that fit, of the narrowest tiles that all run at once. */
static bool find_columns(const Problem *problem, int64_t k, Tile *tile)
{
  const FusedGemm *gemm = gemm_of(problem->op);
  int64_t panel = number_elements(gemm->a_type, SLOT_BYTES), least, most;
  symbolic_range(gemm->m, &problem->graph->facts, &least, &most);
  for (tile->columns = COLUMN_STEP; tile->columns * gemm->products <= MOST_WIDTH;
       tile->columns += COLUMN_STEP) {
    int64_t rows = ROWS * rows_of_tiles(problem, tile->columns);
    if (rows < 1 || (least == most && most > rows)) continue;
    for (int64_t panels = MOST_PANELS; panels >= 1; panels /= 2) {
      tile->depth = panels * panel;
      tile->steps = (k + tile->depth - 1) / tile->depth;
      if ((panels == 1 || k >= tile->depth) && fits(problem, tile)) return true;
    }
  }
  return false;
}

static const char *find_tile(const Problem *problem, Tile *tile)
{
  const FusedGemm *gemm = gemm_of(problem->op);
  int64_t k;
  if (choose_is_forced(problem)) return "--set asks for a tile";
  if (!gemm_warpgroups_read(problem, gemm) || !gemm_warpgroups_possible(problem))
    return "it has no products of warpgroups";
  if (!symbolic_is_constant(gemm->k, &k) || k < 1) return "k is not known";
  return find_columns(problem, k, tile) ? NULL : "its tiles are more than run at once with all of k";
}

bool choose_gemm_times(Chooser *chooser)
{
  const Problem *problem = chooser->problem;
  const FusedOperator *op = problem->op;
  const FusedGemm *gemm = gemm_of(op);
  Tile tile;
  const char *why = find_tile(problem, &tile);
  Choice *choice = choose_open(chooser, "gemm_times");
  if (!why && !gemm_require_operands(problem, choice, true, true))
    why = "strides are no multiples of 16 bytes";
  if (!why &&
      (!choose_require_at_most(problem, choice, gemm->m, ROWS * rows_of_tiles(problem, tile.columns)) ||
       !choose_require_at_most(problem, choice, op->times->count, MOST_TIMES)))
    why = "there are too many rows, or times";
  if (why) {
    choose_note(chooser, "all times of the loop in one launch: no, %s", why);
    return false;
  }
  choice_set_name(choice, "ta", number_name(gemm->a_type));
  choice_set_name(choice, "tb", number_name(gemm->b_type));
  choice_set_name(choice, "tc", number_name(gemm->acc_type));
  choice_set_int(choice, "bm", ROWS);
  choice_set_int(choice, "bn", tile.columns * gemm->products);
  choice_set_int(choice, "bk", tile.depth);
  choice_set_int(choice, "stages", tile.stages);
  choice_set_int(choice, "steps", tile.steps);
  choice->warpgroups = true;
  choice->alone = true; /* its blocks are to run at once */
  choice->stages = (unsigned)tile.stages;
  choice->tile_text =
      arena_printf(problem->arena, "%dx%dx%d", ROWS, (int)(tile.columns * gemm->products), (int)tile.depth);
  choice->suffix = arena_printf(problem->arena, "%s_times", choice->tile_text);
  choice->kernel_of = 0;
  const DrySummary *summary = problem->dry ? dry_run_registers(problem->dry, choice) : NULL;
  if (summary && !summary->legal) {
    choose_note(chooser, "all times of the loop in one launch: no, %s", summary->why);
    return false;
  }
  chooser->n = 1;
  choose_note(chooser, "all times of the loop in one launch: tile %s", choice->tile_text);
  return true;
}
