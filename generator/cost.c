/* The cost model of matrix products.
 *
 * A k step of a tile takes as long as the slowest of: the tensor cores on its products, shared memory on what
 * is written into it by copies and read by products, the copies on their way from the second-level cache, and
 * the latency that the stages in flight do not hide. All tiles of the busiest SM follow one another (waves);
 * against that stands the time in which device memory delivers every operand once. The two overlap
 * imperfectly, which the cubic norm says. Constants without a source in the description were fitted to the
 * runs in docs/performance-log.md. */
#include "generator/cost.h"
#include <math.h>

#define LEAST_STEP     180.0 /* clocks: barrier, four group products in flight one behind the other, release */
#define COPY_LATENCY   1000.0 /* clocks from a copy's issue to its barrier, from device memory */
#define FILL           1500.0 /* clocks: launch of the block, barriers, the first slots */
#define DEFAULT_COPY   64.0   /* bytes a clock an SM, where the description does not say */
#define EPILOGUE_SPEED 12.0   /* outputs a clock: registers to shared memory to the engine */
#define COMBINE_BLOCK  450.0  /* clocks for each block of a cluster that adds up a tile */
#define WARP_STEP      100.0  /* clocks: wait, block barrier, addresses of a k step of warp products */

static double divide_up(int64_t x, int64_t by)
{
  return (double)((x + by - 1) / by);
}

static double clock_hertz(const Gpu *gpu)
{
  return (gpu->clock_tensor_mhz > 0 ? gpu->clock_tensor_mhz : gpu->clock_boost_mhz) * 1e6;
}

/* FLOP a clock and SM. */
static double product_rate(const Gpu *gpu, NumberType type)
{
  double peak = gpu_peak(gpu, type);
  return peak > 0 ? peak / clock_hertz(gpu) / gpu->sm_count : 1024.0;
}

/* Clocks in which device memory delivers the operands and takes the result. */
static double memory_clocks(const Gpu *gpu, const CostGemm *gemm)
{
  double m = (double)gemm->m, n = (double)gemm->n, k = (double)gemm->k;
  double bytes =
      (double)gemm->batches * (m * k * gemm->a_bytes + k * n * gemm->b_bytes + m * n * gemm->out_bytes);
  double bandwidth =
      gpu->memory_bandwidth_read > 0 ? gpu->memory_bandwidth_read : 0.9 * gpu->memory_bandwidth;
  return bandwidth > 0 ? bytes / bandwidth * clock_hertz(gpu) : 0;
}

static double tile_count(const CostGemm *gemm, const CostTile *tile)
{
  return (double)gemm->batches * divide_up(gemm->m, tile->bm) * divide_up(gemm->n, tile->bn);
}

static double overlapped(double a, double b)
{
  return cbrt(a * a * a + b * b * b);
}

CostReport cost_group_gemm(const Gpu *gpu, const CostGemm *gemm, const CostTile *tile)
{
  CostReport cost = {0};
  double bm = tile->bm, bn = tile->bn, bk = tile->bk;
  double filled = (bm * gemm->a_bytes + bn * gemm->b_bytes) * bk;
  double read = bm / 64 * (64 * gemm->a_bytes + bn * gemm->b_bytes) * bk; /* each warpgroup reads all of B */
  double banks = (double)gpu->shared_banks * gpu->shared_bank_bytes;
  double rate = gpu_fact(gpu, "copy_tensor.throughput");
  if (!(rate > 0)) rate = DEFAULT_COPY;
  cost.tensor = 2 * bm * bn * bk / product_rate(gpu, gemm->type);
  cost.shared = (filled + read) / banks;
  cost.copy = filled / rate;
  cost.latency = COPY_LATENCY / fmax(1, (double)tile->stages - 1);
  cost.step = fmax(fmax(fmax(cost.tensor, cost.shared), fmax(cost.copy, cost.latency)), LEAST_STEP);
  unsigned split = tile->split > 1 ? tile->split : 1;
  cost.waves = ceil(tile_count(gemm, tile) * split / gemm->sms);
  cost.memory = memory_clocks(gpu, gemm);
  double steps = cost.waves * ceil(divide_up(gemm->k, tile->bk) / split);
  double combine = split > 1 ? COMBINE_BLOCK * split : 0;
  cost.total = FILL + overlapped(steps * cost.step, cost.memory) + bm * bn / split / EPILOGUE_SPEED + combine;
  return cost;
}

CostReport cost_warp_gemm(const Gpu *gpu, const CostGemm *gemm, const CostTile *tile)
{
  CostReport cost = {0};
  double bm = tile->bm, bn = tile->bn, bk = tile->bk;
  double filled = (bm * gemm->a_bytes + bn * gemm->b_bytes) * bk;
  double warps = fmax(4, bm * bn / 4096);
  double edge = sqrt(bm * bn / warps); /* a warp's part, taken as a square */
  double read = warps * edge * (gemm->a_bytes + gemm->b_bytes) * bk;
  cost.tensor = 2 * bm * bn * bk / product_rate(gpu, gemm->type);
  cost.shared = (filled + read) / ((double)gpu->shared_banks * gpu->shared_bank_bytes);
  cost.copy = filled / DEFAULT_COPY;
  cost.latency = COPY_LATENCY / fmax(1, (double)tile->stages - 1);
  cost.step = fmax(fmax(cost.tensor, cost.shared), cost.copy) + WARP_STEP;
  cost.waves = ceil(tile_count(gemm, tile) / gemm->sms);
  cost.memory = memory_clocks(gpu, gemm);
  double steps = cost.waves * divide_up(gemm->k, tile->bk);
  cost.total = FILL + overlapped(steps * cost.step, cost.memory) + bm * bn / EPILOGUE_SPEED;
  return cost;
}
