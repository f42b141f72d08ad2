/* The GPU as bench uses it: the support kernels of bench/kernels, the L2 flush and the clock.
 */
#pragma once
#include "adl/gpu.h"
#include "runtime/record.h"
#include <jansson.h>

typedef struct BenchGpu BenchGpu;

/* Opens the device and loads the support kernels. */
BenchGpu *bench_gpu_open(unsigned number, GError **error);
void bench_gpu_close(BenchGpu *gpu);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BenchGpu, bench_gpu_close)

Device *bench_gpu_device(BenchGpu *gpu);
DeviceRecorder *bench_gpu_recorder(BenchGpu *gpu);
unsigned bench_gpu_sms(const BenchGpu *gpu);
uint64_t bench_gpu_l2(const BenchGpu *gpu); /* bytes */
uint64_t bench_gpu_free_memory(const BenchGpu *gpu);
/* Name, driver and CUDA version, SMs, L2, memory, highest clock: what a result names its machine by. */
json_t *bench_gpu_to_json(const BenchGpu *gpu);

/* ---- queueing: all on the device's stream ---- */

/* Does the device draw data of the type? Others are few, and drawn by the host. */
bool bench_gpu_draws(NumberType type);
/* Random data of such a type over `elements`: N(0, 1), integers over their range. */
bool bench_gpu_fill(BenchGpu *gpu, uint64_t address, NumberType type, uint64_t elements, uint32_t seed,
                    GError **error);
/* Leaves L2 full of clean lines of a buffer nobody else uses. */
bool bench_gpu_flush(BenchGpu *gpu, GError **error);
/* Leaves L2 full of lines that are still to be written: a memset of 8 GB. The buffer is made by the first
 * call, which must not be inside a recording. */
bool bench_gpu_overwrite(BenchGpu *gpu, GError **error);
bool bench_gpu_copy(BenchGpu *gpu, uint64_t to, uint64_t from, uint64_t bytes, GError **error);
/* Reads bytes (a multiple of 16) with `blocks_per_sm` blocks of 512 threads. */
bool bench_gpu_read(BenchGpu *gpu, uint64_t address, uint64_t bytes, unsigned blocks_per_sm, GError **error);
/* An empty kernel; shared up to what the device allows. */
bool bench_gpu_empty(BenchGpu *gpu, const unsigned grid[3], const unsigned block[3],
                     const unsigned cluster[3], unsigned shared, GError **error);
/* Signs +1, -1 as f64. */
bool bench_gpu_signs(BenchGpu *gpu, uint64_t address, uint64_t n, uint32_t seed, GError **error);
/* y[row] = sum over columns of matrix[row, column] * x[column], all in f64; steps in elements. */
bool bench_gpu_project(BenchGpu *gpu, uint64_t matrix, NumberType type, const int64_t steps[2], uint64_t rows,
                       uint64_t columns, uint64_t x, uint64_t y, GError **error);
/* One launch of a kernel of a support module: `iterations` of its loop. */
typedef struct BenchLoop BenchLoop;
BenchLoop *bench_loop_new(BenchGpu *gpu, const char *file, const char *entry, unsigned threads,
                          GError **error);
bool bench_loop_queue(BenchLoop *loop, unsigned blocks, unsigned iterations, GError **error);
void bench_loop_free(BenchLoop *loop);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BenchLoop, bench_loop_free)

/* ---- clock and power, from the management library where there is one ---- */

typedef struct BenchClock {
  double median_mhz, low_mhz, watts; /* NAN: not known */
} BenchClock;

/* Samples in a thread of its own until stopped. NULL if the library is missing. */
typedef struct BenchSampler BenchSampler;
BenchSampler *bench_sampler_start(BenchGpu *gpu);
/* What was seen since the start; NULL gives NANs. */
BenchClock bench_sampler_stop(BenchSampler *sampler);
