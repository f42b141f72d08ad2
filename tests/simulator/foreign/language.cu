// What CUDA C++ makes of functions: recursion, function pointers, virtual functions, alloca, printf, assert.
// nvcc -ptx -arch=sm_80 -std=c++17 -o language.ptx language.cu       (13.0)
#include <cassert>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cstdio>
namespace cg = cooperative_groups;

__device__ __noinline__ int paths(int rows, int columns, int *deepest)
{
  int here[2] = {rows, columns};
  if (*deepest < rows + columns) *deepest = rows + columns;
  if (!rows || !columns) return 1;
  int down = paths(rows - 1, columns, deepest);
  return down + paths(here[0], here[1] - 1, deepest);
}

extern "C" __global__ void recursion(int *out)
{
  int deepest = 0;
  int n = paths(threadIdx.x % 4, threadIdx.x % 5, &deepest);
  out[threadIdx.x] = n * 100 + deepest;
}

__device__ int twice(int x) { return 2 * x; }
__device__ int square(int x) { return x * x; }
__device__ int negative(int x) { return -x; }
__device__ int (*const table[3])(int) = {twice, square, negative};

extern "C" __global__ void pointers(int *out, int shift)
{
  out[threadIdx.x] = table[(threadIdx.x + shift) % 3](threadIdx.x);
}

struct Shape {
  __device__ virtual int area() const = 0;
};
struct Square : Shape {
  int side;
  __device__ Square(int s) : side(s) {}
  __device__ int area() const override { return side * side; }
};
struct Strip : Shape {
  int length;
  __device__ Strip(int l) : length(l) {}
  __device__ int area() const override { return 3 * length; }
};

extern "C" __global__ void virtuals(int *out)
{
  Square square(threadIdx.x);
  Strip strip(threadIdx.x);
  const Shape *shape = threadIdx.x & 1 ? static_cast<const Shape *>(&square) : &strip;
  out[threadIdx.x] = shape->area();
}

extern "C" __global__ void stack(int *out, int n)
{
  int *p = static_cast<int *>(alloca((n + threadIdx.x) * sizeof(int)));
  for (int i = 0; i < n; i++)
    p[i] = i * threadIdx.x;
  int sum = 0;
  for (int i = n; i--;)
    sum += p[i];
  out[threadIdx.x] = sum;
}

__device__ const char *const words[3] = {"one", "three", "five"};

extern "C" __global__ void prints(int *out)
{
  int t = threadIdx.x;
  printf("%d %s %5.2f %c %lld %x%%\n", t, words[t], t + 0.5, 'a' + t, -5000000000ll, 255);
  out[t] = words[t][t];
}

extern "C" __global__ void asserts(int *out, int limit)
{
  assert(static_cast<int>(threadIdx.x) < limit);
  out[threadIdx.x] = 1;
}

extern "C" __global__ void heap(int *out)
{
  int *p = new int[threadIdx.x + 1];
  p[threadIdx.x] = 7 * threadIdx.x;
  out[threadIdx.x] = p[threadIdx.x];
  delete[] p;
}

// Tiles of 8 lanes: each names its own members in the same instruction.
extern "C" __global__ void tiles(int *out)
{
  auto tile = cg::tiled_partition<8>(cg::this_thread_block());
  int sum = cg::reduce(tile, static_cast<int>(threadIdx.x), cg::plus<int>());
  if (threadIdx.x % 3 == 0) sum += 1000 * cg::coalesced_threads().size();
  out[threadIdx.x] = sum;
}

extern "C" __global__ void gridsync(int *out, int n)
{
  auto grid = cg::this_grid();
  int i = grid.thread_rank();
  out[i] = i * i;
  grid.sync();
  int other = out[(i + n / 2) % n];
  grid.sync();
  out[i] = other;
}
