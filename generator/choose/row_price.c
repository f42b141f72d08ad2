#include "generator/choose/row_price.h"
#include "ir/resources.h"
#include <math.h>

static double bytes_of(const Problem *problem, const GraphTensor *tensor, const Symbolic *const *strides)
{
  double n = (double)number_bits(tensor->type) / CHAR_BIT;
  for (unsigned d = 0; d < problem->op->rank; d++)
    if (!symbolic_equals(strides[d], 0)) n *= (double)choose_typical(problem, problem->op->dims[d]);
  return n;
}

/* Bytes of what a block loads together and waits for: rows and columns are the last two dims. */
static double tile_bytes(const FusedOperator *op, const Choice *choice)
{
  double sides[] = {(double)choice_int(choice, "rows", 0), (double)choice_int(choice, "cols", 0)}, bytes = 0;
  for (unsigned i = 0; i < op->n_inputs; i++) {
    double n = (double)number_bits(op->inputs[i].tensor->type) / CHAR_BIT;
    for (unsigned side = 0; side < 2; side++)
      if (!symbolic_equals(op->inputs[i].strides[op->rank - 2 + side], 0)) n *= sides[side];
    bytes += n;
  }
  return bytes;
}

double row_resident(const Gpu *gpu, const Choice *choice)
{
  unsigned most = MAX(1, resident_blocks(gpu, (unsigned)choice_int(choice, "threads", 1)));
  return choice_int(choice, "ahead", 1) > 1 ? MIN(most, (unsigned)choice_int(choice, "blocks", 1)) : most;
}

double row_clocks(const Problem *problem, const Choice *choice, double blocks, double results)
{
  const FusedOperator *op = problem->op;
  const Gpu *gpu = problem->gpu;
  const CostModel *model = gpu->model;
  double clock = (gpu->clock_tensor_mhz > 0 ? gpu->clock_tensor_mhz : gpu->clock_boost_mhz) * 1e6, bytes = 0;
  double threads = (double)choice_int(choice, "threads", 0), tile = tile_bytes(op, choice);
  if (threads <= 0 || tile <= 0 || !(gpu->memory_bandwidth > 0)) return -1;
  for (unsigned i = 0; i < op->n_inputs; i++)
    bytes += bytes_of(problem, op->inputs[i].tensor, op->inputs[i].strides);
  for (unsigned i = 0; i < op->n_outputs; i++)
    bytes += results * number_bits(op->outputs[i].tensor->type) / CHAR_BIT;
  double shares = (double)choice_int(choice, "split_k", 1); /* blocks that a row has, and which meet */
  blocks *= shares;
  tile = fmin(tile * (double)choice_int(choice, "ahead", 1), model->element_bytes);
  double resident = row_resident(gpu, choice);
  double turns = ceil(blocks / (resident * gpu->sm_count)) * ceil(bytes / blocks / tile);
  double alone = (shares > 1 ? 3 : 2) * model->quiet_latency + fmax(0, turns - 1) * model->copy_latency;
  return fmax(alone, bytes / (model->copy_efficiency * gpu->memory_bandwidth) * clock);
}
