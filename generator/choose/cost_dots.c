/* What a few results of a long k cost, each a sum to which all threads of the blocks of a cluster add. Fitted
 * to twelve products, 1 x 1 to 64 x 1 and 1 x 256, K from 8192 to 262144, odd K too, in 17 shapes each
 * (docs/performance-log.md). */
#include "generator/choose/cost.h"
#include <math.h>

#define START      1700.0 /* clocks: launch, warps that meet, a result that leaves */
#define CLUSTER    250.0  /* for the blocks of a cluster to meet */
#define BLOCK      150.0  /* for each further block of an SM */
#define LATENCY    1040.0 /* from a group of loads to their sums, beside: */
#define SM_BYTES   131.0  /* that an SM's loads bring a clock */
#define LOAD       3.0    /* clocks of a warp's load at least */
#define L2_BYTES   5000.0 /* that the second-level cache delivers a clock */
#define MEMORY     0.85   /* of the speed of device memory */
#define TOGETHER   1.1    /* what keeps both waiting for each other */
#define REGISTERS  64     /* of loads that a thread has on their way, about */
#define MOST_DEEP  16
#define SM_THREADS 2048
#define LANES      32
#define SECTOR     32 /* bytes */

static unsigned load_registers(const CostDots *dots)
{
  return MAX(1, dots->vector * dots->bytes / 4) * (dots->bm + 1);
}

/* As many as registers hold, in groups of one size. */
unsigned cost_dots_deep(const CostDots *dots)
{
  double steps = ceil((double)dots->k / ((double)dots->threads * dots->vector * dots->split));
  double most = CLAMP(REGISTERS / load_registers(dots), 1u, MOST_DEEP);
  return (unsigned)fmax(1, ceil(steps / ceil(steps / most)));
}

/* Bytes that a warp's load touches: of an operand that lies across k, what its other rows have there too. */
static double touched(const CostDots *dots, bool across, int64_t rows)
{
  double own = (double)LANES * dots->vector * dots->bytes;
  return across ? own * fmin((double)rows, SECTOR / (double)dots->bytes) : own;
}

double cost_dots(const Gpu *gpu, const CostDots *dots)
{
  unsigned deep = cost_dots_deep(dots);
  double group = (double)dots->threads * dots->vector * deep, k = (double)dots->k;
  double groups = ceil(ceil(k / group) / dots->split);
  double blocks = ceil((double)dots->rows / dots->bm) * (double)dots->columns * dots->split;
  double each = ceil(blocks / gpu->sm_count); /* of the busiest SM */
  double resident = fmax(1, floor(SM_THREADS / (double)dots->threads));
  double down = touched(dots, dots->rows_across, dots->rows),
         one = touched(dots, dots->columns_across, dots->columns);
  double loads = each * groups * deep * dots->threads / LANES;
  double loaded = blocks * k / dots->split / (LANES * dots->vector) * (dots->bm * down + one);
  double busy = ceil(each / resident) * groups * LATENCY +
                loads * (dots->bm * fmax(LOAD, down / SM_BYTES) + fmax(LOAD, one / SM_BYTES));
  double memory = (double)(dots->rows + dots->columns) * k * dots->bytes, read = gpu->memory_bandwidth_read;
  double hertz = (gpu->clock_tensor_mhz > 0 ? gpu->clock_tensor_mhz : gpu->clock_boost_mhz) * 1e6;
  if (!(read > 0)) read = 0.9 * gpu->memory_bandwidth;
  double moved = read > 0 ? memory / read / MEMORY * hertz : 0;
  busy = fmax(busy, loaded / L2_BYTES);
  return START + TOGETHER * sqrt(busy * busy + moved * moved) + (each - 1) * BLOCK +
         (dots->split > 1 ? CLUSTER : 0);
}
