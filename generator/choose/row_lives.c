#include "generator/choose/row_lives.h"
#include "generator/kernel/row_program.h"
#include "generator/program/row.h"

#define WORD_BITS 32 /* of a register */

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

/* Places of an extremum are looked for among the same elements once it is known. */
static bool looks_again(const FusedReduction *reduction)
{
  return reduction->reduction == REDUCTION_ARG_MAX || reduction->reduction == REDUCTION_ARG_MIN;
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
    for (unsigned twice = 0; twice <= looks_again(&row->reductions[i]); twice++)
      want(lives, &row->reductions[i].source, row->reductions[i].phase + twice);
}

/* How many reductions compute f32 of an input on their way that later phases go on from. */
static unsigned count_widened(const Lives *lives, unsigned input)
{
  const FusedRow *row = row_of(lives->op);
  unsigned n = 0;
  for (unsigned i = 0; i < row->n_reductions; i++) {
    const FusedReduction *reduction = &row->reductions[i];
    bool keeps = reduction->reduction == REDUCTION_MOMENTS || reduction->reduction == REDUCTION_MAX_SUM ||
                 looks_again(reduction);
    n += keeps && reduction->source.kind == OPERAND_INPUT && reduction->source.index == input;
  }
  return n;
}

static bool lies_along(const Lives *lives, unsigned input)
{
  const FusedInput *read = &lives->op->inputs[input];
  return !read->every && !symbolic_equals(read->strides[lives->op->rank - 1], 0);
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
    if (!row_step_is_narrow(op, &op->steps[i]) && row_of(op)->step_phases[i] <= phase &&
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

unsigned row_most_bits(const FusedOperator *op, bool lean)
{
  g_autofree unsigned *first = g_new0(unsigned, op->n_inputs + op->n_steps + 1);
  g_autofree unsigned *last = g_new0(unsigned, op->n_inputs + op->n_steps + 1);
  Lives lives = {op, first, last};
  unsigned most = WORD_BITS;
  find_lives(&lives);
  for (unsigned phase = 0; phase < row_of(op)->n_phases; phase++)
    most = MAX(most, bits_alive(&lives, phase, lean));
  return most + row_of(op)->n_sums * WORD_BITS;
}

/* Of each element, over the end of the phase where most do: steps' values, or inputs as they were loaded. */
static unsigned count_staying(const FusedOperator *op, bool inputs)
{
  const FusedRow *row = row_of(op);
  g_autofree unsigned *first = g_new0(unsigned, op->n_inputs + op->n_steps + 1);
  g_autofree unsigned *last = g_new0(unsigned, op->n_inputs + op->n_steps + 1);
  Lives lives = {op, first, last};
  unsigned most = 0;
  find_lives(&lives);
  for (unsigned phase = 0; phase + 1 < row->n_phases; phase++) {
    unsigned n = 0;
    for (unsigned i = 0; i < op->n_inputs && inputs; i++)
      n += lies_along(&lives, i) && first[i] <= phase && last[i] > phase;
    for (unsigned i = 0; i < op->n_steps && !inputs; i++)
      n += !row_step_is_narrow(op, &op->steps[i]) && row->step_phases[i] <= phase &&
           last[op->n_inputs + i] > phase;
    most = MAX(most, n);
  }
  return most;
}

unsigned row_count_kept(const FusedOperator *op)
{
  return count_staying(op, false);
}

unsigned row_count_loaded(const FusedOperator *op)
{
  return count_staying(op, true);
}

/* ---- what there is of a row ---- */

bool row_has_moments(const FusedOperator *op)
{
  for (unsigned i = 0; i < row_of(op)->n_reductions; i++)
    if (row_of(op)->reductions[i].reduction == REDUCTION_MOMENTS) return true;
  return false;
}

bool row_may_keep_more(const FusedOperator *op)
{
  const FusedRow *row = row_of(op);
  bool places = false;
  for (unsigned i = 0; i < row->n_reductions; i++)
    places |= row->reductions[i].reduction == REDUCTION_ARG_MAX ||
              row->reductions[i].reduction == REDUCTION_ARG_MIN;
  return places || row->n_reductions > 1 || op->n_outputs > 1;
}

unsigned row_count_operands(const FusedOperator *op)
{
  unsigned operands = 0;
  for (unsigned i = 0; i < op->n_inputs; i++)
    operands += symbolic_equals(op->inputs[i].strides[0], 0);
  return operands;
}

unsigned row_count_places(const FusedOperator *op)
{
  const Elementwise *points = row_of(op)->points;
  unsigned places = 0;
  for (unsigned i = 0; points && i < op->n_inputs; i++)
    places += points->places[i].n && symbolic_equals(op->inputs[i].strides[op->rank - 1], 0);
  return places;
}

bool row_keeps_loaded(const FusedOperator *op)
{
  const FusedRow *row = row_of(op);
  if (op->n_inputs != row_count_operands(op) + 1 || row_count_kept(op)) return false;
  for (unsigned i = 0; i < row->n_reductions; i++)
    if (row->reductions[i].reduction != REDUCTION_MEAN && row->reductions[i].reduction != REDUCTION_SUM)
      return false;
  return true;
}

bool row_sums_powers(const FusedOperator *op)
{
  const FusedRow *row = row_of(op);
  if (row->n_reductions != 1 || row->reductions[0].reduction != REDUCTION_MAX_SUM) return false;
  const FusedOperand *source = &row->reductions[0].source;
  if (source->kind != OPERAND_INPUT || number_bits(op->inputs[source->index].tensor->type) >= WORD_BITS)
    return false;
  return !row_count_loaded(op) && !row_count_kept(op);
}

bool row_may_raise_again(const FusedOperator *op)
{
  const FusedRow *row = row_of(op);
  bool some = false;
  for (unsigned i = 0; i < row->n_reductions; i++) {
    const FusedReduction *reduction = &row->reductions[i];
    if (reduction->reduction != REDUCTION_MAX_SUM) continue;
    if (reduction->source.kind != OPERAND_INPUT || row_power_precision(op, reduction) == STEP_FULL)
      return false;
    if (number_bits(op->inputs[reduction->source.index].tensor->type) >= WORD_BITS) return false;
    some = true;
  }
  return some && !row_sums_powers(op);
}

unsigned row_widest_bytes(const FusedOperator *op)
{
  unsigned bytes = 1;
  for (unsigned i = 0; i < op->n_inputs; i++)
    if (!op->inputs[i].every && !symbolic_equals(op->inputs[i].strides[op->rank - 1], 0))
      bytes = MAX(bytes, (unsigned)number_bytes_of(op->inputs[i].tensor->type, 1));
  return bytes;
}

int64_t row_fresh_bytes(const FusedOperator *op, int64_t elements)
{
  int64_t bytes = 0;
  for (unsigned i = 0; i < op->n_inputs; i++) {
    bool fresh = !op->inputs[i].every;
    for (unsigned d = 0; d < op->rank; d++)
      fresh &= !symbolic_equals(op->inputs[i].strides[d], 0) || symbolic_equals(op->dims[d], 1);
    if (fresh) bytes += number_bytes_of(op->inputs[i].tensor->type, elements);
  }
  return bytes;
}
