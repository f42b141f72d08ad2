/* What bench runs beside the kernels it measures: random data, cache flush, ceilings, the check's projections.
 *
 * support.ptx is made from this file by scripts/update-bench-kernels, for the oldest target; the driver assembles it
 * for the device when it is loaded. Types are numbered as in bench/support.c: 0 f32, 1 f16, 2 bf16, 3 e4m3, 4 e5m2, 5 s8,
 * 6 u8, 7 s32, 8 bool, 9 tf32 (storage f32). */
#include <stdint.h>

typedef unsigned long long u64;
enum { F32, F16, BF16, E4M3, E5M2, S8, U8, S32, BOOL, TF32 };

/* ---- numbers ---- */

static __device__ uint32_t mix(u64 x)
{
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdull;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ull;
  x ^= x >> 33;
  return (uint32_t)x;
}

/* Box and Muller, by the approximate instructions: the data need only look normal. */
static __device__ float normal(u64 counter)
{
  float u = ((float)(mix(2 * counter) >> 8) + 1.0f) * (1.0f / 16777216.0f);
  float v = ((float)(mix(2 * counter + 1) >> 8) - 8388608.0f) * (6.2831853f / 16777216.0f), log2, root, wave;
  asm("lg2.approx.f32 %0, %1;" : "=f"(log2) : "f"(u));
  asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(-1.3862944f * log2));
  asm("cos.approx.f32 %0, %1;" : "=f"(wave) : "f"(v));
  return root * wave;
}

static __device__ float power_of_two(int exponent)
{
  return __uint_as_float((uint32_t)(127 + exponent) << 23);
}

/* To 8 bits with `mantissa` bits and the bias of the format; |x| is far below the largest. */
static __device__ uint8_t small_float(float x, int mantissa, int bias)
{
  uint32_t bits = __float_as_uint(fabsf(x)), sign = __float_as_uint(x) >> 31 << 7;
  int exponent = (int)(bits >> 23) - 127 + bias, drop = 23 - mantissa;
  if (exponent <= 0) return (uint8_t)(sign | (uint32_t)__float2int_rn(fabsf(x) * power_of_two(bias - 1 + mantissa)));
  bits += (1u << (drop - 1)) - 1 + (bits >> drop & 1);
  return (uint8_t)(sign | (((bits >> 23) - 127 + bias) << mantissa | (bits >> drop & ((1u << mantissa) - 1))));
}

static __device__ double wide_float(uint8_t code, int mantissa, int bias)
{
  int exponent = (code & 0x7f) >> mantissa, fraction = code & ((1 << mantissa) - 1);
  float value = exponent ? (float)(fraction + (1 << mantissa)) * power_of_two(exponent - bias - mantissa)
                         : (float)fraction * power_of_two(1 - bias - mantissa);
  return code & 0x80 ? -value : value;
}

static __device__ void put(void *memory, int type, u64 i, u64 counter)
{
  float x = type == S8 || type == U8 || type == S32 || type == BOOL ? 0 : normal(counter);
  uint16_t half;
  switch (type) {
  case TF32: ((uint32_t *)memory)[i] = (__float_as_uint(x) + 0xfff + (__float_as_uint(x) >> 13 & 1)) & ~0x1fffu; break;
  case F32: ((float *)memory)[i] = x; break;
  case F16:
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
    ((uint16_t *)memory)[i] = half;
    break;
  case BF16:
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(half) : "f"(x));
    ((uint16_t *)memory)[i] = half;
    break;
  case E4M3: ((uint8_t *)memory)[i] = small_float(x, 3, 7); break;
  case E5M2: ((uint8_t *)memory)[i] = small_float(x, 2, 15); break;
  case S32: ((uint32_t *)memory)[i] = mix(counter); break;
  case BOOL: ((uint8_t *)memory)[i] = mix(counter) & 1; break;
  default: ((uint8_t *)memory)[i] = (uint8_t)mix(counter); break;
  }
}

static __device__ double get(const void *memory, int type, u64 i)
{
  float x;
  switch (type) {
  case F32:
  case TF32: return ((const float *)memory)[i];
  case F16: asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(((const uint16_t *)memory)[i])); return x;
  case BF16: return __uint_as_float((uint32_t)((const uint16_t *)memory)[i] << 16);
  case E4M3: return wide_float(((const uint8_t *)memory)[i], 3, 7);
  case E5M2: return wide_float(((const uint8_t *)memory)[i], 2, 15);
  case S8: return ((const int8_t *)memory)[i];
  case S32: return ((const int32_t *)memory)[i];
  default: return ((const uint8_t *)memory)[i];
  }
}

/* N(0, 1) rounded to the type; integers over their range. */
extern "C" __global__ void fill_random(void *memory, u64 n, int type, uint32_t seed)
{
  for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x)
    put(memory, type, i, i + ((u64)seed << 40));
}

/* ---- flush and ceilings ---- */

/* Reads n 16-byte words; sink is written only if they sum up to one value in four thousand million. */
extern "C" __global__ void __launch_bounds__(512) read_words(const uint4 *memory, u64 n, uint32_t *sink)
{
  uint32_t sum = 0;
  u64 step = (u64)gridDim.x * blockDim.x, i = blockIdx.x * (u64)blockDim.x + threadIdx.x;
  for (; i + 7 * step < n; i += 8 * step) {
    uint4 words[8];
#pragma unroll
    for (int j = 0; j < 8; j++)
      words[j] = memory[i + j * step];
#pragma unroll
    for (int j = 0; j < 8; j++)
      sum += words[j].x ^ words[j].y ^ words[j].z ^ words[j].w;
  }
  for (; i < n; i += step)
    sum += memory[i].x ^ memory[i].y ^ memory[i].z ^ memory[i].w;
  if (sum == 0x9e3779b9u) *sink = sum;
}

extern "C" __global__ void empty()
{
}

/* ---- the check ---- */

/* +1 or -1 for each element: what products are projected on. */
extern "C" __global__ void fill_signs(double *x, u64 n, uint32_t seed)
{
  for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x)
    x[i] = mix(i + ((u64)seed << 40)) & 1 ? 1.0 : -1.0;
}

/* y[row] = sum over columns of memory[row * row_step + column * column_step] * x[column]. One block a row: right for
 * column_step 1. */
extern "C" __global__ void __launch_bounds__(256)
    project_rows(const void *memory, int type, u64 row_step, u64 column_step, u64 columns, const double *x, double *y)
{
  __shared__ double partial[256];
  double sum = 0;
  for (u64 i = threadIdx.x; i < columns; i += blockDim.x)
    sum += get(memory, type, blockIdx.x * row_step + i * column_step) * x[i];
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = partial[0];
}

/* The same with 32 rows a block, one a lane, and the columns shared out over 8 warps: right for row_step 1. */
extern "C" __global__ void __launch_bounds__(256)
    project_columns(const void *memory, int type, u64 rows, u64 row_step, u64 column_step, u64 columns, const double *x,
                    double *y)
{
  __shared__ double partial[8][32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  u64 row = blockIdx.x * 32ull + lane;
  double sum = 0;
  for (u64 i = warp; row < rows && i < columns; i += 8)
    sum += get(memory, type, row * row_step + i * column_step) * x[i];
  partial[warp][lane] = sum;
  __syncthreads();
  if (warp) return;
  for (int i = 1; i < 8; i++)
    sum += partial[i][lane];
  if (row < rows) y[row] = sum;
}
