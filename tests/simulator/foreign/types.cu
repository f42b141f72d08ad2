// Narrow types: wmma of 4-bit and single-bit elements, saturation, halves, fp8, packed bytes, atomics.
// nvcc -ptx -arch=sm_89 -std=c++17 -o types.ptx types.cu       (13.0)
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

// Row r of A is all r - 4, column c of B all c; the sum over 32 elements is 32 (r - 4) c, saturated to s32.
extern "C" __global__ void nibbles(int *out)
{
  __shared__ alignas(32) unsigned a[8][4], b[8][4];
  unsigned r = threadIdx.x / 4, q = threadIdx.x % 4;
  a[r][q] = ((r - 4) & 15) * 0x11111111u;
  b[r][q] = (r & 7) * 0x11111111u;
  __syncwarp();
  wmma::fragment<wmma::matrix_a, 8, 8, 32, wmma::experimental::precision::s4, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 8, 8, 32, wmma::experimental::precision::s4, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 8, 8, 32, int> fc;
  wmma::fill_fragment(fc, 0x7fffffff - 100);
  wmma::load_matrix_sync(fa, a, 32);
  wmma::load_matrix_sync(fb, b, 32);
  wmma::mma_sync(fc, fa, fb, fc, true);
  wmma::store_matrix_sync(out, fc, 8, wmma::mem_row_major);
}

// Row r of A has its first r words set, column c of B its first c: how many bits differ, and how many are in both.
extern "C" __global__ void bits(int *out)
{
  __shared__ alignas(32) unsigned a[8][4], b[8][4];
  unsigned r = threadIdx.x / 4, q = threadIdx.x % 4;
  a[r][q] = 2 * q < r ? 0xffff : 0;
  b[r][q] = q < r ? 0xff : 0;
  __syncwarp();
  wmma::fragment<wmma::matrix_a, 8, 8, 128, wmma::experimental::precision::b1, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 8, 8, 128, wmma::experimental::precision::b1, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 8, 8, 128, int> fc;
  wmma::fill_fragment(fc, 0);
  wmma::load_matrix_sync(fa, a, 128);
  wmma::load_matrix_sync(fb, b, 128);
  wmma::bmma_sync(fc, fa, fb, fc, wmma::experimental::bmmaBitOpXOR);
  for (int i = 0; i < fc.num_elements; i++)
    fc.x[i] *= 1000;
  wmma::bmma_sync(fc, fa, fb, fc, wmma::experimental::bmmaBitOpAND);
  wmma::store_matrix_sync(out, fc, 8, wmma::mem_row_major);
}

extern "C" __global__ void floats(float *out)
{
  float x = (static_cast<int>(threadIdx.x) - 16) * 0.3f;
  __half2 h = __floats2half2_rn(x, 1 - x);
  h = __hfma2_relu(h, h, __float2half2_rn(-1));
  __nv_bfloat162 b = __hmax2(__floats2bfloat162_rn(x, -x), __float2bfloat162_rn(0.25f));
  __nv_fp8_e4m3 e(x);
  __nv_fp8_e5m2 f(x);
  out[4 * threadIdx.x] = __low2float(h) + __high2float(h);
  out[4 * threadIdx.x + 1] = __low2float(b) * __high2float(b);
  out[4 * threadIdx.x + 2] = static_cast<float>(e);
  out[4 * threadIdx.x + 3] = static_cast<float>(f);
}

extern "C" __global__ void bytes(unsigned *out)
{
  unsigned a = 0x01020304u * threadIdx.x, b = 0x7f80ff10u;
  out[threadIdx.x] = __vadd4(a, b) ^ __vabsdiffu4(a, b) ^ __vmaxs2(a, b) ^ __vavgu4(a, b) ^ __vcmpgts4(a, b) ^
                     __dp4a(a, b, 5u) ^ __byte_perm(a, b, 0x5410) ^ __funnelshift_l(a, b, 9);
}

extern "C" __global__ void atomics(unsigned *out, __nv_bfloat162 *pairs, float *single)
{
  unsigned t = threadIdx.x + blockIdx.x * blockDim.x;
  atomicAdd(out, t);
  atomicInc(out + 1, 6);
  atomicXor(out + 2, t << 3);
  atomicMax(out + 3, t * 5);
  atomicAdd(pairs, __floats2bfloat162_rn(1, 0.5f)); // a loop of compare-and-swap for this target
  atomicAdd(single, static_cast<float>(t));
}
