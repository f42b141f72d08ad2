/* check_protocol: runs the tokens of every role before any PTX exists.
 *
 * needs  STAGED, all waits, counts and places written
 * gives  nothing: it refuses or lets pass
 * breaks nothing
 *
 * The kernel runs with small dims, chosen so that every ring turns more than three times over several tiles,
 * in a few orders of its roles, with TMA copies that land at once and as late as can be; then with the
 * smallest dims, where loops run once or not at all. Kernels whose blocks leave sums for each other run as
 * whole grids too, block by block. See docs/protocol.md. */
#include "ir/pass.h"
#include "ir/protocol/protocol.h"

#define STEP_LIMIT    20000
#define MOST_CLUSTERS 4096

typedef struct {
  const Program *program;
  int64_t *dims;
} Dims;

static bool dim_value(const IrExpr *leaf, int64_t *value, void *data)
{
  const Dims *dims = data;
  if (leaf->kind != EXPR_DIM) return false;
  for (unsigned i = 0; i < dims->program->kernel->n_dims; i++)
    if (!strcmp(dims->program->kernel->dims[i].name, leaf->name)) {
      *value = dims->dims[i];
      return true;
    }
  return false;
}

/* Each dim `tiles` tiles long, bounds of inner loops `turns`, the last tile not full (turns 0: nothing);
 * those that the launcher computes follow. */
static void choose_dims(const Program *program, int64_t tiles, int64_t turns, int64_t *dims)
{
  const IrFunction *kernel = program->kernel;
  for (unsigned i = 0; i < kernel->n_dims; i++) {
    const IrDim *dim = &kernel->dims[i];
    int64_t granule = MAX(1, program->granule[i]), multiple = MAX(1, dim->multiple);
    dims[i] = granule * ((program->inner[i] ? MAX(turns, 1) : tiles) - 1) + 1;
    dims[i] = (dims[i] + multiple - 1) / multiple * multiple;
    if (!turns && program->inner[i]) dims[i] = 0;
    if (dim->maximum > 0 && dims[i] > dim->maximum) dims[i] = dim->maximum / multiple * multiple;
  }
  Dims known = {program, dims};
  for (unsigned i = 0; i < kernel->n_dims; i++)
    if (kernel->dims[i].launch) ir_expr_evaluate(kernel->dims[i].launch, dim_value, &known, &dims[i]);
}

/* Has every ring turned often enough? Barriers that nothing completes belong to no ring in use. */
static bool turned_enough(const Program *program, const unsigned *phases)
{
  for (unsigned i = 0; i < program->families->len; i++) {
    const Family *family = program->families->pdata[i];
    if (family->op->code != OP_CHANNEL || !phases[family->first]) continue;
    if (phases[family->first] < (3 * family->count + 1) * program->blocks) return false;
  }
  return true;
}

static unsigned most_slots(const Program *program)
{
  unsigned most = 1;
  for (unsigned i = 0; i < program->tiles->len; i++)
    most = MAX(most, ((const Tile *)program->tiles->pdata[i])->slots);
  return MIN(most, 12);
}

/* Tiles that a cluster walks, so that its longest ring turns three times where a tile fills `turns` slots,
 * and what of long loops is not cut; a ring of two that each tile fills once does too. */
static unsigned enough_tiles(const Program *program, int64_t turns)
{
  int64_t slots = most_slots(program), each = MAX(turns, 1) + program->long_kept;
  return (unsigned)MAX(8, (3 * slots + each) / each);
}

/* A persistent grid that walks too many tiles gets more clusters, so that they are enough for each; one of
 * them runs. What does not end even so (data may decide that) is run for a while. Slices of a tile are not in
 * one cluster. */
static bool run(Program *program, const int64_t *dims, int64_t turns, Order order, bool late,
                unsigned *phases, GError **error)
{
  Scenario scenario = {.dims = dims,
                       .order = order,
                       .late = late,
                       .step_limit = STEP_LIMIT,
                       .clusters = program_slices(program),
                       .turns = turns};
  unsigned enough = enough_tiles(program, turns);
  scenario.tiles = 2 * enough;
  for (Ending ending = {0}; !ending.ended && scenario.clusters <= MOST_CLUSTERS;) {
    if (!machine_run(program, &scenario, phases, &ending, error)) return false;
    scenario.clusters *= ending.walked ? (unsigned)MIN(ending.walked / enough, MOST_CLUSTERS) : 8;
  }
  return true;
}

bool pass_check_protocol(IrModule *module, const IrPassContext *context, GError **error)
{
  if (!ir_kernel(module)) return true;
  if (!check_launches(ir_kernel(module), error)) return false;
  g_autoptr(Program) program = program_new(module, error);
  if (!program) return false;
  int64_t *dims = arena_new_array(program->arena, int64_t, program->kernel->n_dims + 1);
  unsigned *phases = arena_new_array(program->arena, unsigned, program->n_barriers + 1);
  int64_t slots = most_slots(program);
  for (int64_t tiles = 2; tiles <= 12; tiles += tiles / 2 + 1) { /* a ring turns within one tile */
    choose_dims(program, tiles, MAX(slots + 2, tiles), dims);
    if (!run(program, dims, MAX(slots + 2, tiles), ORDER_PRODUCER_FIRST, true, phases, error)) return false;
    if (turned_enough(program, phases)) break;
  }
  choose_dims(program, 3, 2, dims); /* a ring spans tiles */
  if (!run(program, dims, 2, ORDER_CONSUMER_FIRST, false, phases, error)) return false;
  choose_dims(program, 1, 1, dims);
  if (!run(program, dims, 1, ORDER_ROUND_ROBIN, true, phases, error)) return false;
  for (int64_t tiles = 1; tiles <= 7; tiles += 3) {
    choose_dims(program, tiles, MAX(slots + 2, tiles), dims);
    if (!partials_check(program, dims, phases, STEP_LIMIT, error)) return false;
  }
  choose_dims(program, 2, 0, dims);
  return run(program, dims, 1, ORDER_ROUND_ROBIN, false, phases, error);
}
