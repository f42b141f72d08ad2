/* Launches of the support kernels, and the loops that measure what the matrix units can do. */
#include "measure/gpu_private.h"
#include <string.h>

struct BenchLoop {
  BenchGpu *gpu;
  DeviceKernel *kernel;
  unsigned threads;
};

/* As bench/kernels/support.cu numbers them. */
static int type_code(NumberType type)
{
  switch (type) {
  case NUMBER_F32: return 0;
  case NUMBER_F16: return 1;
  case NUMBER_BF16: return 2;
  case NUMBER_E4M3: return 3;
  case NUMBER_E5M2: return 4;
  case NUMBER_S8: return 5;
  case NUMBER_U8: return 6;
  case NUMBER_S32: return 7;
  case NUMBER_BOOL: return 8;
  case NUMBER_TF32: return 9;
  default: return -1;
  }
}

bool bench_gpu_draws(NumberType type)
{
  return type_code(type) >= 0;
}

static bool check_type(NumberType type, GError **error)
{
  if (bench_gpu_draws(type)) return true;
  error_set(error, ERROR_UNSUPPORTED, NULL, "bench-type", NULL, "bench has no random data of type %s",
            number_name(type));
  return false;
}

static bool launch(BenchGpu *gpu, SupportKernel kernel, uint64_t blocks, unsigned threads, void **arguments,
                   GError **error)
{
  DeviceLaunch launch = {.grid = {(unsigned)CLAMP(blocks, 1, G_MAXINT32), 1, 1},
                         .block = {threads, 1, 1},
                         .cluster = {1, 1, 1},
                         .arguments = arguments};
  return device_launch(gpu->device, gpu->support[kernel], &launch, error);
}

bool bench_gpu_fill(BenchGpu *gpu, uint64_t address, NumberType type, uint64_t elements, uint32_t seed,
                    GError **error)
{
  int code = type_code(type);
  void *arguments[] = {&address, &elements, &code, &seed};
  if (!check_type(type, error)) return false;
  return !elements || launch(gpu, SUPPORT_FILL, 16ul * gpu->sms, 256, arguments, error);
}

bool bench_gpu_read(BenchGpu *gpu, uint64_t address, uint64_t bytes, unsigned blocks_per_sm, GError **error)
{
  uint64_t words = bytes / 16;
  void *arguments[] = {&address, &words, &gpu->sink};
  return launch(gpu, SUPPORT_READ, (uint64_t)blocks_per_sm * gpu->sms, 512, arguments, error);
}

bool bench_gpu_flush(BenchGpu *gpu, GError **error)
{
  return device_fill(gpu->device, gpu->flush + gpu->flush_bytes, 2, gpu->flush_bytes, error) &&
         bench_gpu_read(gpu, gpu->flush, gpu->flush_bytes, 4, error);
}

bool bench_gpu_overwrite(BenchGpu *gpu, GError **error)
{
  const uint64_t bytes = UINT64_C(8000000000);
  if (!gpu->overwritten) gpu->overwritten = device_allocate(gpu->device, bytes, error);
  return gpu->overwritten && device_fill(gpu->device, gpu->overwritten, 0, bytes, error);
}

bool bench_gpu_copy(BenchGpu *gpu, uint64_t to, uint64_t from, uint64_t bytes, GError **error)
{
  int status = gpu->driver.copy(to, from, bytes, device_stream(gpu->device));
  return bench_driver_check(gpu, status, "cannot copy on the GPU", error);
}

bool bench_gpu_empty(BenchGpu *gpu, const unsigned grid[3], const unsigned block[3],
                     const unsigned cluster[3], unsigned shared, GError **error)
{
  DeviceLaunch launch = {.shared = shared};
  memcpy(launch.grid, grid, sizeof launch.grid);
  memcpy(launch.block, block, sizeof launch.block);
  memcpy(launch.cluster, cluster, sizeof launch.cluster);
  return device_launch(gpu->device, gpu->support[SUPPORT_EMPTY], &launch, error);
}

bool bench_gpu_signs(BenchGpu *gpu, uint64_t address, uint64_t n, uint32_t seed, GError **error)
{
  void *arguments[] = {&address, &n, &seed};
  return launch(gpu, SUPPORT_SIGNS, 4ul * gpu->sms, 256, arguments, error);
}

bool bench_gpu_project(BenchGpu *gpu, uint64_t matrix, NumberType type, const int64_t steps[2], uint64_t rows,
                       uint64_t columns, uint64_t x, uint64_t y, GError **error)
{
  uint64_t row_step = (uint64_t)steps[0], column_step = (uint64_t)steps[1];
  int code = type_code(type);
  void *by_row[] = {&matrix, &code, &row_step, &column_step, &columns, &x, &y};
  void *by_column[] = {&matrix, &code, &rows, &row_step, &column_step, &columns, &x, &y};
  if (!check_type(type, error)) return false;
  if (!rows) return true;
  if (column_step == 1 || row_step != 1) return launch(gpu, SUPPORT_PROJECT_ROWS, rows, 256, by_row, error);
  return launch(gpu, SUPPORT_PROJECT_COLUMNS, (rows + 31) / 32, 256, by_column, error);
}

/* ---- loops ---- */

BenchLoop *bench_loop_new(BenchGpu *gpu, const char *file, const char *entry, unsigned threads,
                          GError **error)
{
  DeviceKernel *kernel = bench_support_load(gpu, file, entry, 0, error);
  if (!kernel) return NULL;
  BenchLoop *loop = g_new0(BenchLoop, 1);
  loop->gpu = gpu;
  loop->kernel = kernel;
  loop->threads = threads;
  return loop;
}

bool bench_loop_queue(BenchLoop *loop, unsigned blocks, unsigned iterations, GError **error)
{
  uint32_t seed = 1;
  void *arguments[] = {&iterations, &seed, &loop->gpu->sink};
  DeviceLaunch launch = {
      .grid = {blocks, 1, 1}, .block = {loop->threads, 1, 1}, .cluster = {1, 1, 1}, .arguments = arguments};
  return device_launch(loop->gpu->device, loop->kernel, &launch, error);
}

void bench_loop_free(BenchLoop *loop)
{
  if (!loop) return;
  device_unload(loop->kernel);
  g_free(loop);
}
