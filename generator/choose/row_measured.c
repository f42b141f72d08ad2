#include "generator/choose/row_measured.h"
#include "generator/choose/contest.h"
#include "generator/choose/row_lives.h"
#include "generator/choose/row_program.h"
#include "generator/kernel/row_program.h"
#include "generator/program/row.h"
#include "ir/resources.h"
#include <math.h>

#define WORD_BITS 32 /* of a register */

bool row_is_measured(const Problem *problem)
{
  const FusedOperator *op = problem->op;
  const FusedRow *row = row_of(op);
  bool streams = row->reduction && row_program_streams(op);
  if (streams || row->group || row->n_sums || op->rank != 2 || row_is_budgeted(problem)) return false;
  for (unsigned i = 0; i < op->n_outputs; i++)
    if (!row->output_phases[i]) return false;
  return row_count_kept(op) <= 1 && row_count_loaded(op) <= 1;
}

static bool is_narrow(const FusedOperator *op)
{
  return row_widest_bytes(op) * CHAR_BIT < WORD_BITS;
}

/* Registers of a thread that has so many elements of so wide rows. Exponentials that are summed up as they come take as many as an
 * operand. */
static unsigned registers_of(const Problem *problem, const RowFit *fit, unsigned elements, RowReach reach)
{
  const FusedOperator *op = problem->op;
  const CostModel *model = problem->gpu->model;
  bool powers = row_sums_powers(op) || (fit->again && row_may_raise_again(op)),
       light = fit->again || (is_narrow(op) && row_keeps_loaded(op)) || powers;
  unsigned kept = light ? elements * number_bits(op->inputs[0].tensor->type) / WORD_BITS : elements;
  return kept + model->row_own + row_count_operands(op) * (light ? model->row_light : model->row_operand) +
         (powers ? model->row_operand : 0) + row_reach_registers(problem, reach);
}

/* Rows of 16 bits without moments beside an operand want fewer elements a thread. */
static bool is_crowded(const FusedOperator *op, const CostModel *model, unsigned elements)
{
  return elements > model->row_few && is_narrow(op) && !row_has_moments(op) && row_count_operands(op);
}

/* Do blocks wait for scale and bias, from L2, behind two exchanges? */
static bool waits(const FusedOperator *op)
{
  return row_has_moments(op) && is_narrow(op);
}

/* Bytes of rows that an SM shall have under way: more where blocks wait for those of other SMs. */
static unsigned flight_of(const CostModel *model, const RowFit *fit)
{
  return fit->split_k > 1 ? model->row_shared_flight : model->row_flight;
}

/* Of a block of rows of so many columns: of those in chunks what one has on average. */
static uint64_t part_bytes(const Problem *problem, const RowFit *fit, int64_t columns)
{
  int64_t elements = fit->cols / fit->split_k;
  if (fit->chunk) elements = columns / ((columns + fit->chunk - 1) / fit->chunk);
  return (uint64_t)elements * row_widest_bytes(problem->op);
}

/* How well an SM is used: by the bytes that are under way, as far as so many are of use, beside a pause in which nobody loads, less what
 * blocks lose that load nothing while they reduce or wait for each other. */
static double use_of(const Problem *problem, const RowFit *fit, int64_t columns, double blocks)
{
  const CostModel *model = problem->gpu->model;
  double bytes = MIN((double)part_bytes(problem, fit, columns) * blocks, flight_of(model, fit));
  double use = bytes / (bytes + model->row_pause) * blocks / (blocks + model->row_alone);
  if (fit->again && fit->split_k == 1) use *= model->row_centred;
  if (is_crowded(problem->op, model, fit->cols / fit->split_k / fit->threads)) use *= model->row_many;
  return fit->split_k > 1 ? use * (model->row_meets - model->row_peer * sqrt(fit->split_k)) : use;
}

/* Threads between powers of two leave less beyond the end of a row, which counts where a thread has neither few elements nor, but beside
 * moments of 16 bits, many: softmax of 4097 columns by 192 threads takes 1.03 of the time of 128, RMSNorm of 33000 by 160 1.06 of that of 192. */
static bool takes_threads(const Problem *problem, unsigned threads, unsigned elements)
{
  const CostModel *model = problem->gpu->model;
  bool between = threads & (threads - 1);
  return !between || waits(problem->op) || (elements >= model->row_most / 2 && elements <= model->row_few);
}

/* Registers of a thread where so many blocks share an SM, whose schedulers divide them: warps of threads between powers of two are not as many
 * of each. Of rows that begin anywhere the counts are high enough as it is: LayerNorm of 50257 columns fits the 72 of five blocks of 160. */
static unsigned shared_registers(const Gpu *gpu, const RowFit *fit, unsigned blocks, RowReach reach)
{
  unsigned each = (unsigned)gpu_fact(gpu, "limits.schedulers") * gpu->warp_size, all = fit->threads * blocks;
  if (reach == ROW_BY_ENDS) return entry_registers(gpu, fit->threads, blocks);
  return entry_registers(gpu, (all + each - 1) / each * each, 1);
}

/* The fit with so many threads and blocks a row, as many of them an SM as registers allow; `raises`: its exponentials are computed twice. false:
 * there is none. */
static bool fit_measured(const Problem *problem, const RowReached *row, bool raises, RowFit *fit)
{
  const int64_t columns = row->columns, vector = row->vector;
  const RowReach reach = row->reach;
  const Gpu *gpu = problem->gpu;
  const CostModel *model = gpu->model;
  int64_t whole = (int64_t)fit->threads * fit->split_k * vector, cols = (columns + whole - 1) / whole * whole;
  unsigned elements = (unsigned)(cols / (fit->threads * fit->split_k));
  fit->cols = (unsigned)cols;
  const FusedOperator *op = problem->op;
  if (elements > model->row_most || !takes_threads(problem, fit->threads, elements)) return false;
  fit->again = raises || (reach != ROW_BY_ELEMENTS && elements > model->row_most / 2 && waits(op));
  unsigned registers = registers_of(problem, fit, elements, reach);
  fit->blocks = MIN(model->row_together, resident_blocks(gpu, fit->threads));
  while (fit->blocks && shared_registers(gpu, fit, fit->blocks, reach) < registers)
    fit->blocks--;
  while (waits(op) && fit->blocks > 1 &&
         (fit->blocks - 1) * part_bytes(problem, fit, columns) >= flight_of(model, fit))
    fit->blocks--; /* which have more registers to load scale and bias ahead */
  if (!fit->blocks) return false;
  /* Where the row's elements fill them, what else is asked for early spills: cross-entropy of 100352 columns takes 1.03 of the time. What
   * exponentials take that are computed twice is free then. */
  fit->late = !raises && registers + row_count_places(op) > shared_registers(gpu, fit, fit->blocks, reach);
  uint64_t bytes = fit->blocks * part_bytes(problem, fit, columns);
  /* more blocks than always start, where several share an SM: no more SMs than clusters of those may need */
  if (fit->split_k > exchanging_blocks(gpu) && (fit->blocks < 2 || (row_count_operands(op) && !waits(op))))
    return false;
  return (!row_count_operands(op) || bytes <= model->row_most_flight);
}

typedef struct Asked {
  const Problem *problem;
  const RowReached *row;
  int64_t rows; /* 0: as many as come */
} Asked;

static bool price(Candidate *candidate, double *price, void *data)
{
  const Asked *asked = data;
  RowFit *tile = (RowFit *)(void *)candidate, fit = *tile;
  const Problem *problem = asked->problem;
  const RowReached *row = asked->row;
  bool found = false;
  for (unsigned raises = 0; raises <= row_may_raise_again(problem->op); raises++) {
    if (!fit_measured(problem, row, raises, &fit)) continue;
    double use = use_of(problem, &fit, row->columns, fit.blocks) * (double)row->columns / fit.cols;
    if (found && use <= -*price) continue;
    *tile = fit;
    *price = -use;
    found = true;
  }
  return found;
}

bool row_fit_best(const Problem *problem, const RowReached *row, unsigned peers, RowFit *fit)
{
  const RowTried tried = {.peers = peers};
  g_autofree int64_t *values = row_fact_values(problem, &tried);
  Asked asked = {problem, row};
  const Trial trial = {.template_name = "row", .facts = values, .price = price, .data = &asked};
  return trial_winner(problem, &trial, &fit->of);
}

unsigned row_short_blocks(const Problem *problem, const RowFit *fit, RowReach reach)
{
  const Gpu *gpu = problem->gpu;
  const CostModel *model = gpu->model;
  unsigned tile = fit->rows * fit->cols, bytes = tile * row_widest_bytes(problem->op),
           registers = registers_of(problem, fit, tile / fit->threads, reach), blocks = fit->blocks;
  unsigned most = MIN(model->row_together, resident_blocks(gpu, fit->threads));
  if (!waits(problem->op)) return blocks;
  while (blocks < most && blocks * bytes < flight_of(model, fit) &&
         registers <= entry_registers(gpu, fit->threads, blocks + 1))
    blocks++;
  return blocks;
}

/* ---- sums of exponentials, of which nothing stays: rows in chunks ---- */

/* So many rows, a block each, in turns of as many as the SMs have at once, in the last of which an SM has fewer blocks: these wait for what each of them
 * loads. */
static double use_of_rows(const Problem *problem, const RowFit *fit, int64_t columns, double rows)
{
  double each = rows / problem->gpu->sm_count, full = floor(each / fit->blocks) * fit->blocks,
         last = each - full, time = full / use_of(problem, fit, columns, fit->blocks);
  if (last > 0) {
    double blocks = fmax(last, 1), under_way = blocks * (double)part_bytes(problem, fit, columns);
    time += blocks / fmin(use_of(problem, fit, columns, blocks), under_way / problem->gpu->model->row_quiet);
  }
  return each / time;
}

/* Elements of a chunk are widened while it changes a state. */
static bool fit_chunk(const Problem *problem, const RowReached *row, RowFit *fit)
{
  const Gpu *gpu = problem->gpu;
  const CostModel *model = gpu->model;
  unsigned elements = fit->cols / fit->threads;
  if (row->columns <= fit->cols || elements > model->row_most) return false;
  if (fit->cols % (fit->threads * row->vector)) return false;
  unsigned registers = (unsigned)ceil(elements * model->row_widened) + model->row_own;
  fit->blocks = resident_blocks(gpu, fit->threads);
  while (fit->blocks && entry_registers(gpu, fit->threads, fit->blocks) < registers)
    fit->blocks--;
  return fit->blocks;
}

int64_t row_turn(const Problem *problem, const RowFit *fit)
{
  return (int64_t)fit->blocks * problem->gpu->sm_count;
}

/* Where only the launch knows how many rows there are the last turn may leave an SM one block. */
static bool price_chunk(Candidate *candidate, double *price, void *data)
{
  const Asked *asked = data;
  RowFit *tile = (RowFit *)(void *)candidate;
  const Problem *problem = asked->problem;
  if (!fit_chunk(problem, asked->row, tile)) return false;
  int64_t rows = asked->rows, turn = row_turn(problem, tile);
  if (!rows) rows = choose_typical(problem, row_of(problem->op)->rows) / turn * turn + problem->gpu->sm_count;
  *price = -use_of_rows(problem, tile, asked->row->columns, (double)rows);
  return true;
}

/* By exact exponentials schedulers would have no slots left; without vectors each element would change a state. */
static bool may_stream(const FusedOperator *op, const RowReached *row)
{
  return row_sums_powers(op) && row->vector > 1 &&
         row_power_precision(op, &row_of(op)->reductions[0]) != STEP_FULL;
}

bool row_fit_chunks(const Problem *problem, const RowReached *row, int64_t rows, RowFit *fit)
{
  const RowTried tried = {.peers = 1, .passes = true, .joint = true};
  g_autofree int64_t *values = row_fact_values(problem, &tried);
  Asked asked = {problem, row, rows};
  const Trial trial = {.template_name = "row", .facts = values, .price = price_chunk, .data = &asked};
  return may_stream(problem->op, row) && trial_winner(problem, &trial, &fit->of);
}

int64_t row_least_chunks(const Problem *problem, const RowReached *row, unsigned peers, const RowFit *fit)
{
  RowFit whole;
  if (!row_fit_best(problem, row, peers, &whole)) return 1;
  double wanted = use_of(problem, &whole, row->columns, whole.blocks) * (double)row->columns / whole.cols;
  for (unsigned blocks = 1; blocks <= fit->blocks; blocks++) {
    int64_t rows = (int64_t)blocks * problem->gpu->sm_count;
    if (use_of_rows(problem, fit, row->columns, (double)rows) > wanted) return rows;
  }
  return 0;
}
