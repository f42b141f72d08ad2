/* What the machine can do at most, measured in the same run. */
#include "base/data.h"
#include "measure/bench.h"
#include <string.h>

#define READ_BYTES     (UINT64_C(1) << 30)
#define CEILING_ROUNDS 7
/* Sum of the time to start a kernel and that of its last loads, which no kernel escapes
 * (docs/performance.md). */
#define ROOF_OVERHEAD_US 3.0

typedef struct Stream {
  BenchGpu *gpu;
  uint64_t from, to;
  unsigned blocks_per_sm;
} Stream;

static bool queue_read(BenchCandidate *candidate, unsigned set, GError **error)
{
  Stream *s = candidate->data;
  return bench_gpu_read(s->gpu, s->from, READ_BYTES, s->blocks_per_sm, error);
}

static bool queue_copy(BenchCandidate *candidate, unsigned set, GError **error)
{
  Stream *s = candidate->data;
  return bench_gpu_copy(s->gpu, s->to, s->from, READ_BYTES / 2, error);
}

static bool measure_streams(BenchGpu *gpu, Stream *streams, BenchCeilings *ceilings, GError **error)
{
  BenchCandidate list[4] = {{.queue = queue_copy}};
  BenchCandidate *candidates[4];
  for (unsigned i = 0; i < G_N_ELEMENTS(list); i++) {
    if (i) list[i].queue = queue_read;
    list[i].data = &streams[i];
    candidates[i] = &list[i];
  }
  const BenchTimingOptions options = {.rounds = CEILING_ROUNDS, .short_us = 0};
  g_autoptr(BenchTimings) timings = bench_time(gpu, candidates, 4, 1, BENCH_COLD, &options, error);
  if (!timings) return false;
  double fastest = INFINITY;
  for (unsigned i = 1; i < 4; i++)
    fastest = MIN(fastest, timings->of[i].median);
  ceilings->copy = (double)READ_BYTES / timings->of[0].median * 1e6;
  ceilings->read = (double)READ_BYTES / fastest * 1e6;
  return true;
}

static bool measure_memory(BenchGpu *gpu, BenchCeilings *ceilings, GError **error)
{
  Device *device = bench_gpu_device(gpu);
  uint64_t from = device_allocate(device, READ_BYTES, error);
  uint64_t to = from ? device_allocate(device, READ_BYTES / 2, error) : 0;
  Stream streams[4];
  for (unsigned i = 0; i < 4; i++)
    streams[i] = (Stream){gpu, from, to, 1u << i};
  bool ok = to && bench_gpu_fill(gpu, from, NUMBER_F32, READ_BYTES / 4, 1, error) &&
            measure_streams(gpu, streams, ceilings, error);
  device_release(device, from);
  device_release(device, to);
  return ok;
}

/* ---- matrix units ---- */

typedef struct ProductLoop {
  BenchLoop *loop;
  unsigned blocks, iterations;
} ProductLoop;

static bool queue_loop(BenchCandidate *candidate, unsigned set, GError **error)
{
  ProductLoop *p = candidate->data;
  return bench_loop_queue(p->loop, p->blocks, p->iterations, error);
}

typedef struct LoopShape {
  const char *file, *family;
  unsigned threads, blocks_per_sm;
  double bytes_k; /* FLOP of one iteration of a block for each element of 32 bytes of k */
} LoopShape;

/* As scripts/update-bench-kernels writes them; k is 32 bytes of elements. */
static const LoopShape loop_shapes[] = {
    {"warp_mma.ptx", "warp_mma", 512, 2, 16 * 8 * 2.0 * 16 * 8},
    {"warpgroup_mma.ptx", "warpgroup_mma", 256, 1, 8 * 2.0 * 64 * 256},
};

bool bench_ceilings_have_kernels(GError **error)
{
  for (unsigned i = 0; i < G_N_ELEMENTS(loop_shapes); i++) {
    g_autofree char *path = g_build_filename("bench", "kernels", loop_shapes[i].file, NULL);
    g_autoptr(Source) source = data_load(path, error);
    if (!source) return false;
  }
  return true;
}

static bool measure_loop(BenchGpu *gpu, const LoopShape *shape, NumberType type, double seconds, double *rate,
                         GError **error)
{
  g_autofree char *entry = g_strdup_printf("product_%s", number_name(type));
  g_autoptr(BenchLoop) loop = bench_loop_new(gpu, shape->file, entry, shape->threads, error);
  if (!loop) return false;
  unsigned blocks = bench_gpu_sms(gpu) * shape->blocks_per_sm, k = number_elements(type, 32);
  ProductLoop data = {loop, blocks, 20000};
  BenchCandidate candidate = {.queue = queue_loop, .data = &data};
  BenchCandidate *list[] = {&candidate};
  const BenchTimingOptions options = {.rounds = 1, .seconds = seconds};
  g_autoptr(BenchTimings) timings = bench_time(gpu, list, 1, 1, BENCH_SUSTAINED, &options, error);
  if (!timings) return false;
  *rate = shape->bytes_k * k * data.iterations * blocks / timings->of[0].median * 1e6;
  return true;
}

bool bench_ceilings(BenchGpu *gpu, const Gpu *description, uint64_t types, double seconds,
                    BenchCeilings *ceilings, GError **error)
{
  memset(ceilings, 0, sizeof *ceilings);
  if (!measure_memory(gpu, ceilings, error)) return false;
  for (unsigned type = 0; type < NUMBER_TYPE_COUNT; type++)
    for (unsigned i = 0; (types >> type & 1) && i < G_N_ELEMENTS(loop_shapes); i++) {
      double *rate = i ? &ceilings->warpgroup_mma[type] : &ceilings->warp_mma[type];
      NumberType sum = number_class(type) == NUMBER_FLOAT ? NUMBER_F32 : NUMBER_S32;
      const GpuProduct *product = gpu_product(description, loop_shapes[i].family, type, type, sum);
      if (product && !measure_loop(gpu, &loop_shapes[i], product->through, seconds, rate, error))
        return false;
    }
  return true;
}

double bench_roof(const BenchCeilings *ceilings, const BenchCase *c)
{
  double peak = MAX(ceilings->warp_mma[c->operand], ceilings->warpgroup_mma[c->operand]);
  double memory = c->bytes / ceilings->read, compute = c->flops > 0 && peak > 0 ? c->flops / peak : 0;
  return MAX(memory, compute) * 1e6 + ROOF_OVERHEAD_US;
}
