#include "generator/program/times.h"
#include "generator/program/gemm.h"
#include <string.h>

const GraphTime *graph_time_of(const GraphTimes *times, const GraphTensor *tensor)
{
  for (unsigned i = 0; i < times->n; i++)
    if (!strcmp(times->of[i].tensor, tensor->name)) return &times->of[i];
  return NULL;
}

const Symbolic *fused_time_extent(Arena *arena, const FusedOperator *op, const GraphTensor *tensor)
{
  const GraphTime *time = graph_time_of(op->times, tensor);
  bool placed = time && (time->kind == GRAPH_TIME_STATE || time->kind == GRAPH_TIME_NEXT);
  return placed ? symbolic_constant(arena, 2) : op->dims[0];
}

static const Symbolic *stride_of(Arena *arena, const GraphTimes *times, const GraphTensor *tensor)
{
  const GraphTime *time = graph_time_of(times, tensor);
  return time ? time->stride : symbolic_constant(arena, 0);
}

static void lead(const Symbolic **strides, unsigned rank, const Symbolic *first)
{
  memmove(strides + 1, strides, rank * sizeof *strides);
  strides[0] = first;
}

static bool is_kind(const GraphTimes *times, const GraphTensor *tensor, GraphTimeKind kind)
{
  const GraphTime *time = graph_time_of(times, tensor);
  return time && time->kind == kind;
}

/* A state that the epilogue reads is what the same threads have written the time before: it lies as that does. */
static bool reads_own(const FusedOperator *op, const GraphTimes *times, const FusedInput *input)
{
  const char *state = graph_time_of(times, input->tensor)->state;
  for (unsigned i = 0; i < op->n_outputs; i++) {
    const FusedOutput *output = &op->outputs[i];
    const GraphTime *next = graph_time_of(times, output->tensor);
    bool same = next && next->kind == GRAPH_TIME_NEXT && !strcmp(next->state, state);
    for (unsigned d = 0; d < op->rank; d++)
      same = same && symbolic_same(input->strides[d], output->strides[d]);
    if (same) return true;
  }
  return false;
}

static const char *refusal(const FusedOperator *op, const GraphTimes *times)
{
  const FusedGemm *gemm = gemm_of(op);
  if (gemm->groups || gemm->narrow || gemm->scaled || gemm->lead || fused_is_reduced(op))
    return "it is no plain product";
  if (gemm->n_batch) return "it has batches";
  if (!is_kind(times, op->inputs[gemm->a].tensor, GRAPH_TIME_STATE))
    return "its left operand is not what the time before has left";
  for (unsigned i = 0; i < op->n_inputs; i++) {
    const FusedInput *input = &op->inputs[i];
    if (i == gemm->a) continue;
    if (gemm_reads(gemm, i) && graph_time_of(times, input->tensor))
      return "its right operand is another at each time";
    if (!gemm_reads(gemm, i) && is_kind(times, input->tensor, GRAPH_TIME_STATE) &&
        !reads_own(op, times, input))
      return "a thread reads a state that others have written";
  }
  for (unsigned i = 0; i < op->n_outputs; i++)
    if (!graph_time_of(times, op->outputs[i].tensor)) return "a result is the same tensor at all times";
  return NULL;
}

const FusedOperator *gemm_in_times(Arena *arena, const FusedOperator *op, const GraphTimes *times,
                                   const char **why)
{
  *why = refusal(op, times);
  if (*why) return NULL;
  FusedGemm *gemm;
  FusedOperator *all = gemm_copy(arena, op, &gemm);
  all->times = times;
  lead(all->dims, all->rank, times->count);
  all->inputs = arena_memdup(arena, op->inputs, op->n_inputs * sizeof *op->inputs);
  all->outputs = arena_memdup(arena, op->outputs, op->n_outputs * sizeof *op->outputs);
  for (unsigned i = 0; i < op->n_inputs; i++)
    lead(all->inputs[i].strides, op->rank, stride_of(arena, times, op->inputs[i].tensor));
  for (unsigned i = 0; i < op->n_outputs; i++)
    lead(all->outputs[i].strides, op->rank, stride_of(arena, times, op->outputs[i].tensor));
  all->rank++;
  gemm->n_batch = 1;
  gemm->a_batch[0] = stride_of(arena, times, op->inputs[gemm->a].tensor);
  gemm->b_batch[0] = symbolic_constant(arena, 0);
  return all;
}
