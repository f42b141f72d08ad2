/* What a few results of a long k cost, each a sum to which all threads of the blocks of a cluster add. Fitted
 * to twelve products, 1 x 1 to 64 x 1 and 1 x 256, K from 8192 to 262144, odd K too, in 17 shapes each. */
#include "generator/choose/cost.h"
#include "ir/resources.h"
#include <math.h>

static unsigned load_registers(const CostDots *dots)
{
  return MAX(1, dots->vector * dots->bytes / 4) * (dots->bm + 1);
}

/* As many as registers hold, in groups of one size. */
unsigned cost_dots_deep(const CostModel *model, const CostDots *dots)
{
  double steps = ceil((double)dots->k / ((double)dots->threads * dots->vector * dots->split_k));
  double most = CLAMP(model->dots_registers / load_registers(dots), 1u, model->dots_deep);
  return (unsigned)fmax(1, ceil(steps / ceil(steps / most)));
}

/* Bytes that a warp's load touches: of an operand that lies across k, what its other rows have there too. */
static double touched(const Gpu *gpu, const CostDots *dots, bool across, int64_t rows)
{
  double own = (double)gpu->warp_size * dots->vector * dots->bytes;
  return across ? own * fmin((double)rows, gpu->global_sector / (double)dots->bytes) : own;
}

double cost_dots(const Gpu *gpu, const CostDots *dots)
{
  const CostModel *model = gpu->model;
  unsigned deep = cost_dots_deep(model, dots);
  double step = (double)dots->threads * dots->vector * deep, k = (double)dots->k;
  double steps = ceil(ceil(k / step) / dots->split_k);
  double blocks = ceil((double)dots->rows / dots->bm) * (double)dots->columns * dots->split_k;
  double each = ceil(blocks / gpu->sm_count); /* of the busiest SM */
  double resident = MAX(1, resident_blocks(gpu, dots->threads));
  double down = touched(gpu, dots, dots->rows_across, dots->rows),
         one = touched(gpu, dots, dots->columns_across, dots->columns);
  double loads = each * steps * deep * dots->threads / gpu->warp_size;
  double loaded = blocks * k / dots->split_k / (gpu->warp_size * dots->vector) * (dots->bm * down + one);
  double busy = ceil(each / resident) * steps * model->dots_latency +
                loads * (dots->bm * fmax(model->dots_load, down / model->dots_copy) +
                         fmax(model->dots_load, one / model->dots_copy));
  double memory = (double)(dots->rows + dots->columns) * k * dots->bytes, read = gpu->memory_bandwidth_read;
  double hertz = (gpu->clock_tensor_mhz > 0 ? gpu->clock_tensor_mhz : gpu->clock_boost_mhz) * 1e6;
  if (!(read > 0)) read = model->read_share * gpu->memory_bandwidth;
  double moved = read > 0 ? memory / read / model->dots_memory * hertz : 0;
  busy = fmax(busy, loaded / model->dots_l2);
  return model->dots_start + model->dots_together * sqrt(busy * busy + moved * moved) +
         (each - 1) * model->dots_block + (dots->split_k > 1 ? model->dots_cluster : 0);
}
