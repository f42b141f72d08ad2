// Asynchronous copies of CUDA C++: barriers, pipelines, bulk TMA copies, clusters; tensor maps made by the kernel.
// nvcc -ptx -arch=sm_90a -std=c++17 -o copies.ptx copies.cu       (13.0)
#include <cooperative_groups.h>
#include <cuda.h>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/ptx>
namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;

extern "C" __global__ void pipeline(const int *in, int *out, int n)
{
  __shared__ alignas(16) int stage[2][64];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto block = cg::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);
  int sum = 0;
  for (int next = 0, i = 0; i < n; i++) {
    for (; next < n && next < i + 2; next++) {
      pipe.producer_acquire();
      cuda::memcpy_async(block, stage[next % 2], in + next * 64, cuda::aligned_size_t<16>(256), pipe);
      pipe.producer_commit();
    }
    pipe.consumer_wait();
    sum += stage[i % 2][63 - threadIdx.x];
    pipe.consumer_release();
  }
  out[threadIdx.x] = sum;
}

// Each block adds its lanes to the sums of the other one, and waits for the bytes of the other's additions.
extern "C" __global__ void __cluster_dims__(2, 1, 1) remote(unsigned *out)
{
  __shared__ unsigned sums[4];
  __shared__ uint64_t bar;
  auto cluster = cg::this_cluster();
  if (threadIdx.x < 4) sums[threadIdx.x] = 100 * cluster.block_rank();
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&bar, 1);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cluster, ptx::space_shared, &bar, 32 * 4);
  }
  cluster.sync();
  unsigned peer = cluster.block_rank() ^ 1;
  unsigned *there = cluster.map_shared_rank(&sums[threadIdx.x % 4], peer);
  ptx::red_async(ptx::op_add, there, threadIdx.x, cluster.map_shared_rank(&bar, peer));
  while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &bar, 0))
    ;
  if (threadIdx.x < 4) out[4 * blockIdx.x + threadIdx.x] = sums[threadIdx.x];
  cluster.sync();
}

// The map is given for a tensor of 64 x 32; the kernel narrows it to `rows` rows and reads it back through its copy in
// global memory: rows outside are zeros.
extern "C" __global__ void tensormap(CUtensorMap *map, const __grid_constant__ CUtensorMap given, int *base, int rows,
                                     int *out)
{
  __shared__ alignas(128) CUtensorMap mine;
  __shared__ alignas(128) int tile[8][32];
  __shared__ uint64_t bar;
  if (threadIdx.x == 0) {
    mine = given;
    ptx::tensormap_replace_global_address(ptx::space_shared, &mine, base);
    ptx::tensormap_replace_global_dim(ptx::space_shared, &mine, ptx::n32_t<1>(), rows);
    ptx::mbarrier_init(&bar, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  __syncwarp();
  ptx::tensormap_cp_fenceproxy(ptx::sem_release, ptx::scope_gpu, map, &mine, ptx::n32_t<128>());
  ptx::fence_proxy_tensormap_generic(ptx::sem_acquire, ptx::scope_gpu, map, ptx::n32_t<128>());
  if (threadIdx.x == 0) {
    int at[2] = {0, 4};
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, sizeof tile);
    ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, tile, map, at, &bar);
  }
  while (!ptx::mbarrier_try_wait_parity(&bar, 0))
    ;
  for (int i = 0; i < 8; i++)
    out[32 * i + threadIdx.x] = tile[i][threadIdx.x];
}
