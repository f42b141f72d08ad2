/* What elementwise kernels take. */
#include "generator/choose/verdict.h"

static double elements(const Problem *problem, const GraphTensor *tensor)
{
  double n = 1;
  for (unsigned i = 0; i < tensor->rank; i++)
    n *= (double)choose_typical(problem, tensor->shape[i]);
  return n;
}

/* What is read and written goes through memory once. */
void judge_elementwise(const Problem *problem, bool priced, ProgramVerdict *verdict)
{
  const FusedOperator *op = problem->op;
  const Gpu *gpu = problem->gpu;
  double clock = (gpu->clock_tensor_mhz > 0 ? gpu->clock_tensor_mhz : gpu->clock_boost_mhz) * 1e6, bytes = 0;
  if (!priced || !(gpu->memory_bandwidth > 0)) return;
  for (unsigned i = 0; i < op->n_inputs + op->n_outputs; i++) {
    const GraphTensor *tensor =
        i < op->n_inputs ? op->inputs[i].tensor : op->outputs[i - op->n_inputs].tensor;
    bytes += elements(problem, tensor) * number_bits(tensor->type) / CHAR_BIT;
  }
  verdict_price(verdict, bytes / (gpu->model->copy_efficiency * gpu->memory_bandwidth) * clock, NULL);
}

void judge_walk(const Problem *problem, bool priced, ProgramVerdict *verdict)
{
  judge_elementwise(problem, priced, verdict);
}
