/* Sums that blocks leave for each other in the workspace (store_partial, add_partial), and what they post.
 *
 * What must hold, whatever the schedule: a block leaves one part at most, in one row or several, and finds room for
 * it; it waits only for blocks of lower index, and only after it has left its own part, so that blocks which start
 * in order can never wait for each other; each part is added once, or its flag would be found set by the next
 * launch. All of that shows when the blocks run one after the other: a part that is not there when a later block
 * wants it would never come. Where the launch says that all blocks run at once (`together`), a block may wait for
 * any: since each leaves its part before it waits, what matters is that somebody leaves it at all. */
#include "ir/protocol/protocol.h"
#include <string.h>

#define MOST_PLACES 1024 /* that blocks post, of a grid that is run */

static bool runs_together(const Program *program)
{
  int64_t together = 0;
  const IrExpr *said = ir_launch_get(program->kernel, ATTR_TOGETHER);
  return said && ir_expr_is_int(said, &together) && together > 0;
}

bool program_has_partials(const Program *program)
{
  for (unsigned i = 0; i < program->steps->len; i++) {
    const Step *step = program_step(program, i);
    if (step->kind == STEP_OP && (step->op->code == OP_STORE_PARTIAL || step->op->code == OP_POST))
      return true;
  }
  return false;
}

static bool has_posts(const Program *program)
{
  for (unsigned i = 0; i < program->steps->len; i++) {
    const Step *step = program_step(program, i);
    if (step->kind == STEP_OP && step->op->code == OP_POST) return true;
  }
  return false;
}

/* Barriers are waited for, or copies started, in the loop's own body; loops around others are none. Nor are
 * those of constant bounds: so many slots are filled ahead of the first turn. */
bool program_is_inner_loop(const Step *step)
{
  if (step->scalar[0]->kind == SCALAR_INT && step->scalar[1]->kind == SCALAR_INT) return false;
  bool found = false;
  for (const IrOp *op = step->op->regions[0]->first; op; op = op->next) {
    if (op->code == OP_FOR || op->code == OP_LOOP) return false;
    found |= op->code == OP_AWAIT || op->code == OP_COPY;
  }
  return found;
}

/* Place of what the agent leaves or takes in a row; -1 and a fault if the row is none of the grid's. */
static int place_of(Machine *m, Agent *agent, const Step *step, int64_t row)
{
  const Partials *partials = m->scenario->partials;
  unsigned of_block = agent->index % (m->n_agents / m->blocks);
  if (row >= 0 && row < partials->rows) return (int)(row * partials->agents + of_block);
  machine_fault(m, agent, step, "partial-row", NULL,
                "row %" G_GINT64_FORMAT " of the workspace is no block's: the grid has %u", row,
                partials->blocks);
  return -1;
}

static void leave_part(Machine *m, Agent *agent, const Step *step, int64_t row)
{
  Partials *partials = m->scenario->partials;
  int at = place_of(m, agent, step, row);
  if (at < 0) return;
  unsigned block = m->scenario->first + agent->block;
  if (partials->left[at])
    machine_fault(m, agent, step, "partial-overwritten", "a block may leave one part",
                  "block %u leaves a second part in row %d", block, (int)row);
  if (partials->waited[block * partials->agents + agent->index])
    machine_fault(m, agent, step, "partial-order", "leave the part before waiting",
                  "block %u leaves its part after it has waited for another block: two such could wait for "
                  "each other",
                  block);
  partials->left[at] = true;
  partials->step[at] = (int)step->index;
}

void partial_store(Machine *m, Agent *agent, const Step *step)
{
  if (!m->scenario->partials) return;
  int64_t row = evaluate_uniform(m, agent, step->scalar[0], -1);
  int64_t shares = step->scalar[1] ? evaluate_uniform(m, agent, step->scalar[1], 1) : 1;
  for (int64_t i = 0; i < shares; i++)
    leave_part(m, agent, step, row + i);
}

/* own: may it be the block's own? Then blocks name places as they like, and what a block of lower index has left is there. */
static void take_part(Machine *m, Agent *agent, const Step *step, int64_t row, bool own)
{
  Partials *partials = m->scenario->partials;
  int at = place_of(m, agent, step, row);
  if (at < 0) return;
  unsigned block = m->scenario->first + agent->block;
  partials->waited[block * partials->agents + agent->index] = true;
  if (partials->together && !partials->left[at] && !partials->taken[at])
    partials->step[at] = (int)step->index;
  else if (!partials->together && row >= (int64_t)block + own && !(own && partials->left[at]))
    machine_fault(m, agent, step, "partial-order", "wait for blocks of lower index only",
                  "block %u waits for block %d, which need not have started", block, (int)row);
  else if (!partials->together && !partials->left[at])
    machine_fault(m, agent, step, "deadlock", NULL,
                  "deadlock: block %u waits for a part that block %d never leaves", block, (int)row);
  else if (partials->taken[at])
    machine_fault(m, agent, step, "partial-twice", NULL,
                  "block %u waits for the part of %s %d, which was added before and whose flag is cleared",
                  block, partials->together ? "row" : "block", (int)row);
  partials->taken[at] = true;
}

void partial_add(Machine *m, Agent *agent, const Step *step)
{
  if (!m->scenario->partials) return;
  int64_t row = evaluate_uniform(m, agent, step->scalar[0], -1);
  int64_t apart = evaluate_uniform(m, agent, step->scalar[1], 1);
  int64_t count = step->scalar[2] ? evaluate_uniform(m, agent, step->scalar[2], 1) : 1;
  for (int64_t i = 0; i < count; i++)
    take_part(m, agent, step, row + i * apart, false);
}

void partial_post(Machine *m, Agent *agent, const Step *step)
{
  if (m->scenario->partials) leave_part(m, agent, step, evaluate_uniform(m, agent, step->scalar[0], -1));
}

void partial_await(Machine *m, Agent *agent, const Step *step)
{
  if (!m->scenario->partials) return;
  int64_t first = evaluate_uniform(m, agent, step->scalar[0], -1);
  int64_t end = evaluate_uniform(m, agent, step->scalar[1], first);
  for (int64_t place = first; place < end; place++)
    take_part(m, agent, step, place, true);
}

static bool check_taken(Program *program, const Partials *partials, GError **error)
{
  unsigned shares = MAX(1, partials->rows / partials->blocks);
  for (unsigned row = 0; row < partials->rows; row++)
    for (unsigned agent = 0; agent < partials->agents; agent++) {
      unsigned at = row * partials->agents + agent;
      if (partials->left[at] == partials->taken[at]) continue;
      const Mark *mark = &program_step(program, (unsigned)partials->step[at])->op->mark;
      if (partials->left[at])
        error_add(error, ERROR_INPUT, SEVERITY_ERROR, mark, "partial-lost", NULL,
                  "in a grid of %u blocks, nobody adds the part that block %u leaves", partials->blocks,
                  row / shares);
      else
        error_add(error, ERROR_INPUT, SEVERITY_ERROR, mark, "deadlock", NULL,
                  "deadlock: a block waits for a part in row %u that block %u never leaves", row,
                  row / shares);
      return false;
    }
  return true;
}

/* Rows of the workspace for each block: shares of what it leaves. */
static unsigned most_shares(const Program *program)
{
  unsigned most = 1;
  for (unsigned i = 0; i < program->steps->len; i++) {
    const Step *step = program_step(program, i);
    if (step->kind == STEP_OP && step->op->code == OP_STORE_PARTIAL)
      most = MAX(most, (unsigned)MAX(0, ir_attribute_int(step->op, ATTR_COUNT, 1)));
  }
  return most;
}

/* Places that there are posts of: rows of the flags. */
static unsigned posting_places(const Program *program)
{
  const IrExpr *flags = ir_launch_get(program->kernel, ATTR_FLAGS);
  int64_t places = 0;
  for (unsigned i = 0; flags && flags->name && i < program->kernel->n_parameters; i++) {
    const IrValue *tensor = program->kernel->parameters[i];
    if (!strcmp(tensor->name, flags->name)) ir_expr_is_int(tensor->type.dims[0], &places);
  }
  return (unsigned)CLAMP(places, 0, MOST_PLACES);
}

static bool run_grid(Program *program, const int64_t *dims, unsigned blocks, unsigned *phases,
                     unsigned step_limit, GError **error)
{
  bool posts = has_posts(program);
  unsigned agents = 4 * PROTOCOL_MAX_THREADS / 32,
           rows = posts ? posting_places(program) : blocks * most_shares(program), n = rows * agents;
  Partials partials = {.blocks = blocks,
                       .agents = agents,
                       .rows = rows,
                       .together = runs_together(program),
                       .left = arena_new_array(program->arena, bool, n),
                       .taken = arena_new_array(program->arena, bool, n),
                       .step = arena_new_array(program->arena, int, n),
                       .waited = arena_new_array(program->arena, bool, blocks *agents)};
  Scenario scenario = {.dims = dims,
                       .order = ORDER_PRODUCER_FIRST,
                       .step_limit = step_limit,
                       .clusters = blocks / program->blocks,
                       .turns = 2,
                       .partials = &partials};
  for (; scenario.first < blocks; scenario.first += program->blocks) {
    Ending ending;
    if (!machine_run(program, &scenario, phases, &ending, error)) return false;
    if (!ending.ended) return true; /* more tiles than can be looked at */
  }
  return check_taken(program, &partials, error);
}

unsigned program_slices(const Program *program)
{
  unsigned most = 1, own = runs_together(program) ? 0 : 1; /* its own part is added from memory too */
  for (unsigned i = 0; i < program->steps->len; i++) {
    const Step *step = program_step(program, i);
    if (step->kind == STEP_OP && step->op->code == OP_ADD_PARTIAL)
      most = MAX(most, (unsigned)MAX(0, ir_attribute_int(step->op, ATTR_COUNT, 0)) + own);
  }
  return most;
}

typedef struct {
  const Program *program;
  const int64_t *dims;
} Dims;

static bool dim_of(const IrExpr *leaf, int64_t *value, void *data)
{
  const Dims *dims = data;
  const IrFunction *kernel = dims->program->kernel;
  for (unsigned i = 0; leaf->kind == EXPR_DIM && i < kernel->n_dims; i++)
    if (!strcmp(kernel->dims[i].name, leaf->name)) {
      *value = dims->dims[i];
      return true;
    }
  return false;
}

#define MOST_POSTING 64 /* blocks of a grid that is run whole */

/* Blocks of the launch: who posts for whom follows from the dims. 0: too many, more than have a place, or not known. */
static unsigned grid_of(const Program *program, const int64_t *dims)
{
  const IrExpr *grid = ir_launch_get(program->kernel, ATTR_GRID);
  Dims known = {program, dims};
  int64_t blocks = 0;
  bool found = grid && grid->n && ir_expr_evaluate(grid->items[0], dim_of, &known, &blocks);
  return found && blocks > 0 && blocks <= MIN(MOST_POSTING, posting_places(program)) ? (unsigned)blocks : 0;
}

bool partials_check(Program *program, const int64_t *dims, unsigned *phases, unsigned step_limit,
                    GError **error)
{
  static const unsigned grids[] = {2, 5, 13}, tiles[] = {1, 3};
  if (!program_has_partials(program)) return true;
  if (has_posts(program)) { /* of blocks that walk the grid does not tell how many tiles there are */
    unsigned blocks = runs_together(program) ? 0 : grid_of(program, dims);
    return !blocks || run_grid(program, dims, blocks, phases, step_limit, error);
  }
  unsigned sliced = program_slices(program), n = sliced > 1 ? G_N_ELEMENTS(tiles) : G_N_ELEMENTS(grids);
  for (unsigned i = 0; i < n; i++)
    if (!run_grid(program, dims, sliced > 1 ? sliced * tiles[i] * program->blocks : grids[i], phases,
                  step_limit, error))
      return false;
  return true;
}
