/* Elementwise: a variant of 16-byte accesses where shapes and addresses allow it, and one of single elements.
 */
#include "generator/choose.h"

#define BLOCK_THREADS    256
#define VECTORS_A_THREAD 2 /* in flight at once: enough loads to cover memory latency at full occupancy */

static unsigned widest_element(const FusedOperator *op)
{
  unsigned bytes = 1;
  for (unsigned i = 0; i < op->n_inputs; i++)
    if (!symbolic_equals(op->inputs[i].strides[op->rank - 1], 0))
      bytes = MAX(bytes, number_bytes(op->inputs[i].tensor->type));
  for (unsigned i = 0; i < op->n_outputs; i++)
    bytes = MAX(bytes, number_bytes(op->outputs[i].tensor->type));
  return bytes;
}

static bool require_operand(Chooser *chooser, Choice *choice, const GraphTensor *tensor,
                            const Symbolic *const *strides, unsigned vector)
{
  unsigned rank = chooser->op->rank;
  if (symbolic_equals(strides[rank - 1], 0)) return true;
  if (!symbolic_equals(strides[rank - 1], 1)) return false;
  for (unsigned d = 0; d + 1 < rank; d++)
    if (!choose_require_multiple(chooser, choice, strides[d], vector)) return false;
  choose_require_align(chooser, choice, tensor, 16);
  return true;
}

static bool require_vectors(Chooser *chooser, Choice *choice, unsigned vector)
{
  const FusedOperator *op = chooser->op;
  if (!choose_require_multiple(chooser, choice, op->dims[op->rank - 1], vector)) return false;
  for (unsigned i = 0; i < op->n_inputs; i++)
    if (!require_operand(chooser, choice, op->inputs[i].tensor, op->inputs[i].strides, vector)) return false;
  for (unsigned i = 0; i < op->n_outputs; i++)
    if (!require_operand(chooser, choice, op->outputs[i].tensor, op->outputs[i].strides, vector))
      return false;
  return true;
}

/* Under a budget of SMs each has one block, which must keep enough loads in flight alone. */
#define LONE_BLOCK_THREADS 512

static void finish(Chooser *chooser, Choice *choice, unsigned vector)
{
  bool alone = chooser->options && chooser->options->sm_budget;
  unsigned threads = alone ? LONE_BLOCK_THREADS : BLOCK_THREADS, block = threads * VECTORS_A_THREAD * vector;
  choice->vector = vector;
  choice_set_int(choice, "block", block);
  choice_set_int(choice, "vector", vector);
  choice_set_int(choice, "threads", threads);
  choice->tile_text = arena_printf(chooser->arena, "%u", block);
  choice->suffix = arena_printf(chooser->arena, "v%u", vector);
  choice->stages = 1;
  chooser->n++;
}

void choose_elementwise(Chooser *chooser)
{
  unsigned vector = 16 / widest_element(chooser->op);
  Choice *choice = choose_open(chooser, "elementwise");
  if (vector > 1 && require_vectors(chooser, choice, vector))
    finish(chooser, choice, vector);
  else
    choose_note(chooser, "vectors of 16 bytes rejected: an extent or stride is no multiple of %u", vector);
  if (chooser->n && !chooser->variants[0].guard) return;
  finish(chooser, choose_open(chooser, "elementwise"), 1);
}
