/* Row programs: rows stay in the registers of a block, rounded up to whole vectors of its threads. How many threads a
 * row has is what they keep in flight and hold of what its phases have alive at once. */
#include "generator/choose/row_program.h"
#include "generator/program/row.h"
#include "ir/resources.h"

#define VECTOR_BYTES 16 /* of a thread's widest access */
#define WORD_BITS    32 /* of a register */

static const FusedOperator *program_of(const Problem *problem)
{
  const FusedOperator *op = problem->op;
  return row_of(op)->whole ? row_of(op)->whole : op;
}

/* ---- what is alive at once ---- */

typedef struct {
  const FusedOperator *op;
  unsigned *first, *last; /* by input, then by step: phases in which it is wanted */
} Lives;

static void want(Lives *lives, const FusedOperand *operand, unsigned phase)
{
  bool input = operand->kind == OPERAND_INPUT;
  if (!input && operand->kind != OPERAND_STEP) return;
  unsigned i = operand->index + (input ? 0 : lives->op->n_inputs);
  lives->first[i] = MIN(lives->first[i], phase);
  lives->last[i] = MAX(lives->last[i], phase);
}

static void find_lives(Lives *lives)
{
  const FusedOperator *op = lives->op;
  const FusedRow *row = row_of(op);
  for (unsigned i = 0; i < op->n_inputs + op->n_steps; i++)
    lives->first[i] = G_MAXUINT;
  for (unsigned i = 0; i < op->n_steps; i++) {
    lives->first[op->n_inputs + i] = row->step_phases[i];
    for (unsigned j = 0; j < op->steps[i].n_operands; j++)
      want(lives, &op->steps[i].operands[j], row->step_phases[i]);
  }
  for (unsigned i = 0; i < op->n_outputs; i++)
    want(lives, &op->outputs[i].value, row->output_phases[i]);
  for (unsigned i = 0; i < row->n_reductions; i++)
    want(lives, &row->reductions[i].source, row->reductions[i].phase);
}

/* How many reductions compute f32 of an input on their way that later phases go on from. */
static unsigned count_widened(const Lives *lives, unsigned input)
{
  const FusedRow *row = row_of(lives->op);
  unsigned n = 0;
  for (unsigned i = 0; i < row->n_reductions; i++) {
    const FusedReduction *reduction = &row->reductions[i];
    bool keeps = reduction->reduction == REDUCTION_MOMENTS || reduction->reduction == REDUCTION_MAX_SUM;
    n += keeps && reduction->source.kind == OPERAND_INPUT && reduction->source.index == input;
  }
  return n;
}

static bool lies_along(const Lives *lives, unsigned input)
{
  return !symbolic_equals(lives->op->inputs[input].strides[lives->op->rank - 1], 0);
}

/* Bits of each element that stay over the end of a phase. */
static unsigned bits_kept(const Lives *lives, unsigned phase)
{
  const FusedOperator *op = lives->op;
  unsigned bits = 0;
  for (unsigned i = 0; i < op->n_inputs; i++)
    if (lies_along(lives, i) && lives->first[i] <= phase && lives->last[i] > phase)
      bits += MAX(count_widened(lives, i) * WORD_BITS, number_bits(op->inputs[i].tensor->type));
  for (unsigned i = 0; i < op->n_steps; i++)
    if (!row_step_is_per_row(op, &op->steps[i]) && row_of(op)->step_phases[i] <= phase &&
        lives->last[op->n_inputs + i] > phase)
      bits += MAX(WORD_BITS, number_bits(op->steps[i].compute));
  return bits;
}

/* Bits of each element that a phase loads at once: all of the first's tensors; later ones use one after the other, and
 * where `lean` a vector at a time. */
static unsigned bits_loaded(const Lives *lives, unsigned phase, bool lean)
{
  unsigned sum = 0, most = 0;
  if (lean && phase) return 0;
  for (unsigned i = 0; i < lives->op->n_inputs; i++) {
    if (!lies_along(lives, i) || lives->first[i] != phase) continue;
    unsigned bits = number_bits(lives->op->inputs[i].tensor->type);
    sum += bits;
    most = MAX(most, bits);
  }
  return phase ? most : sum;
}

static unsigned bits_alive(const Lives *lives, unsigned phase, bool lean)
{
  unsigned before = phase ? MAX(WORD_BITS, bits_kept(lives, phase - 1)) : 0;
  return MAX(before + bits_loaded(lives, phase, lean), bits_kept(lives, phase));
}

static unsigned most_bits(const FusedOperator *op, bool lean)
{
  g_autofree unsigned *first = g_new0(unsigned, op->n_inputs + op->n_steps + 1);
  g_autofree unsigned *last = g_new0(unsigned, op->n_inputs + op->n_steps + 1);
  Lives lives = {op, first, last};
  unsigned most = WORD_BITS;
  find_lives(&lives);
  for (unsigned phase = 0; phase < row_of(op)->n_phases; phase++)
    most = MAX(most, bits_alive(&lives, phase, lean));
  return most;
}

/* ---- threads ---- */

/* Do threads keep so many elements each, where so many blocks share an SM? */
static bool holds(const Problem *problem, unsigned bits, const RowFit *fit, unsigned blocks)
{
  unsigned elements = MAX(1, fit->rows * fit->cols / fit->threads);
  return elements * bits / WORD_BITS + problem->gpu->model->row_registers <=
         entry_registers(problem->gpu, fit->threads, blocks);
}

static unsigned power_of_two(int64_t at_least, unsigned low, unsigned high)
{
  unsigned value = low;
  while (value < high && value < at_least)
    value *= 2;
  return value;
}

/* Several short rows share a block, a warp or several have each. */
static bool fit_short(const Problem *problem, unsigned bits, int64_t longest, RowFit *fit)
{
  const CostModel *model = problem->gpu->model;
  unsigned more = problem->options && problem->options->sm_budget ? model->lone_rows : 1;
  unsigned lanes = problem->gpu->warp_size, width = power_of_two(longest, lanes, model->short_row);
  *fit = (RowFit){more * MAX(model->row_warps, model->short_row / width), width,
                  more * model->row_warps * lanes, 1};
  while (fit->rows > 1 && !holds(problem, bits, fit, 1))
    fit->rows /= 2;
  return holds(problem, bits, fit, 1);
}

/* Bytes of an element of the widest input that is read along rows. */
static unsigned widest_bytes(const FusedOperator *op)
{
  unsigned bytes = 1;
  for (unsigned i = 0; i < op->n_inputs; i++)
    if (!symbolic_equals(op->inputs[i].strides[op->rank - 1], 0))
      bytes = MAX(bytes, (unsigned)number_bytes_of(op->inputs[i].tensor->type, 1));
  return bytes;
}

/* As few threads as keep row_bytes each or less, or else as many as there can be; then as many blocks as an SM has
 * registers for, row_blocks at most: while one reduces, others load. */
static bool fit_long(const Problem *problem, unsigned bits, int64_t longest, unsigned vector, RowFit *fit)
{
  const CostModel *model = problem->gpu->model;
  unsigned bytes = widest_bytes(program_of(problem));
  bool found = false;
  for (unsigned threads = model->row_least; threads <= problem->gpu->threads_per_block; threads *= 2) {
    int64_t whole = (int64_t)threads * vector, cols = (longest + whole - 1) / whole * whole;
    RowFit next = {1, (unsigned)cols, threads, 1};
    if (!holds(problem, bits, &next, 1)) continue;
    *fit = next;
    found = true;
    if (cols / threads * bytes <= model->row_bytes) break;
  }
  while (found && fit->blocks < model->row_blocks && holds(problem, bits, fit, fit->blocks + 1))
    fit->blocks++;
  return found;
}

/* The same with vectors of so many elements, or fewer where that rounds a row up less. Rows that do not fit so leave
 * what later phases load to come a vector at a time. */
static bool fit_longest(const Problem *problem, int64_t longest, unsigned vector, RowFit *fit)
{
  const FusedOperator *op = program_of(problem);
  bool found = false;
  bool widens = false; /* moments and the like hold elements twice already */
  for (unsigned i = 0; i < row_of(op)->n_reductions; i++)
    widens = widens || row_of(op)->reductions[i].reduction == REDUCTION_MOMENTS ||
             row_of(op)->reductions[i].reduction == REDUCTION_MAX_SUM;
  for (unsigned lean = 0; lean < (widens ? 1 : 2) && !found; lean++)
    for (unsigned elements = vector; elements; elements /= 2) {
      RowFit next;
      if (elements < vector && elements * widest_bytes(op) < VECTOR_BYTES) break;
      if (!fit_long(problem, most_bits(op, lean), longest, elements, &next)) continue;
      if (!found || next.cols < fit->cols) *fit = next;
      found = true;
    }
  return found;
}

/* Elements of a row lie apart: threads would load sectors for one element each. */
static bool lies_apart(const FusedOperator *op)
{
  for (unsigned i = 0; i < op->n_inputs; i++) {
    const Symbolic *stride = op->inputs[i].strides[op->rank - 1];
    if (!symbolic_equals(stride, 0) && !symbolic_equals(stride, 1)) return true;
  }
  return false;
}

const char *row_program_fit(const Problem *problem, int64_t longest, unsigned vector, RowFit *fit)
{
  const CostModel *model = problem->gpu->model;
  const FusedOperator *op = program_of(problem);
  if (longest > model->longest_row) return "its rows may be longer than a block's registers";
  unsigned bits = most_bits(op, false);
  bool fits = longest <= model->short_row ? fit_short(problem, bits, longest, fit)
                                          : fit_longest(problem, longest, vector, fit);
  return fits ? NULL
              : arena_printf(problem->arena,
                             "of each element %u bits are alive at once, for which a block has no registers",
                             bits);
}

const char *row_program_refuse(const Problem *problem)
{
  return lies_apart(program_of(problem)) ? "elements of its rows lie apart" : NULL;
}

bool row_program_stays(const Problem *problem)
{
  RowFit fit;
  const FusedOperator *op = program_of(problem);
  return !row_program_refuse(problem) &&
         !row_program_fit(problem, choose_maximum(problem, row_of(op)->columns), 1, &fit);
}

/* ---- variants ---- */

/* Accesses of VECTOR_BYTES: rows start aligned, and a vector never straddles a row's end. *vector: elements of one of
 * the narrowest type. */
static bool require_vectors(const Problem *problem, Choice *choice, unsigned *vector)
{
  const FusedOperator *op = program_of(problem);
  *vector = 1;
  for (unsigned i = 0; i < op->n_inputs + op->n_outputs; i++) {
    bool input = i < op->n_inputs;
    const GraphTensor *tensor = input ? op->inputs[i].tensor : op->outputs[i - op->n_inputs].tensor;
    const Symbolic *const *strides =
        input ? (const Symbolic *const *)op->inputs[i].strides : op->outputs[i - op->n_inputs].strides;
    if (symbolic_equals(strides[op->rank - 1], 0)) continue;
    if (!symbolic_equals(strides[op->rank - 1], 1)) return false;
    unsigned elements = number_elements(tensor->type, VECTOR_BYTES);
    *vector = MAX(*vector, elements);
    for (unsigned d = 0; d + 1 < op->rank; d++)
      if (!choose_require_multiple(problem, choice, strides[d], elements)) return false;
    if (!choose_require_align(problem, choice, tensor, VECTOR_BYTES)) return false;
  }
  return choose_require_multiple(problem, choice, row_of(op)->columns, *vector);
}

static void finish(Chooser *chooser, Choice *choice, const RowFit *fit)
{
  choice_set_int(choice, "rows", fit->rows);
  choice_set_int(choice, "cols", fit->cols);
  choice_set_int(choice, "threads", fit->threads);
  choice_set_int(choice, "blocks", fit->blocks);
  choice->suffix = choice->tile_text;
  choice->stages = 1;
  chooser->n++;
}

static bool is_complete(const Chooser *chooser)
{
  return chooser->n == PLAN_MAX_VARIANTS || (chooser->n && !chooser->variants[chooser->n - 1].guard);
}

/* Rows of so many columns at most. */
static void add_registers(Chooser *chooser, int64_t most, bool aligned)
{
  const Problem *problem = chooser->problem;
  const FusedOperator *op = program_of(problem);
  if (is_complete(chooser)) return;
  Choice *choice = choose_open(chooser, "row");
  int64_t longest = MIN(most, choose_maximum(problem, row_of(op)->columns));
  unsigned vector = 1;
  RowFit fit;
  if (aligned && !require_vectors(problem, choice, &vector)) return;
  if (!choose_require_at_most(problem, choice, row_of(op)->columns, longest)) return;
  if (row_program_fit(problem, longest, vector, &fit)) return;
  choice->tile_text = arena_printf(problem->arena, "%ux%u", fit.rows, fit.cols);
  finish(chooser, choice, &fit);
}

/* Rows of any length, a chunk at a time in each phase. */
static void add_passes(Chooser *chooser, bool aligned)
{
  const Problem *problem = chooser->problem;
  const FusedOperator *op = program_of(problem);
  const CostModel *model = problem->gpu->model;
  if (is_complete(chooser)) return;
  Choice *choice = choose_open(chooser, "row");
  unsigned vector = 1;
  int64_t known;
  if (aligned && !require_vectors(problem, choice, &vector)) return;
  unsigned chunk = model->online_chunk;
  bool constant = symbolic_is_constant(row_of(op)->columns, &known);
  RowFit fit = {1, constant ? (unsigned)known : chunk, model->online_most, 1};
  choice->tile_text = arena_printf(problem->arena, "passes%u", chunk);
  choice_set_own(choice, "chunk", chunk);
  finish(chooser, choice, &fit);
}

void choose_row_program(Chooser *chooser)
{
  const Problem *problem = chooser->problem;
  const CostModel *model = problem->gpu->model;
  const int64_t widths[] = {model->short_row, model->long_row, model->longest_row};
  bool stays = row_program_stays(problem);
  for (unsigned i = stays ? G_N_ELEMENTS(widths) - 1 : 0; i < G_N_ELEMENTS(widths) - !stays; i++) {
    add_registers(chooser, widths[i], true);
    add_registers(chooser, widths[i], false);
  }
  add_passes(chooser, true);
  add_passes(chooser, false);
}
