// DeepGEMM's bf16 kernels for sm_90, each shape with the kernel that its own heuristics choose
// (deepgemm.py), launched as its host code launches them. A row-major, B by columns, D row-major.
#include "deepgemm_kernels.hpp"
#include "peer.hpp"
#include <cuda.h>
#include <cutlass/bfloat16.h>
#include <deep_gemm/impls/sm90_bf16_gemm.cuh>

namespace peers {

const char *const name = "deepgemm";
const char *const library = "DeepGEMM " DEEPGEMM_VERSION;

namespace {

constexpr int LOADING_THREADS = 128, BLOCK_K = 64, BARRIERS = 16 * 2 * 8;
using Kernel = void (*)(int *, uint32_t, uint32_t, uint32_t, CUtensorMap, CUtensorMap, CUtensorMap);

struct Config {
  int n, k, block_m, block_n, swizzle, stages, threads, cluster;
  Kernel kernel;
};

template <int N, int K, int BLOCK_M, int BLOCK_N, int SWIZZLE, int STAGES, int THREADS, int CLUSTER, bool ALONG_N>
constexpr Config config()
{
  return {N,        K,       BLOCK_M, BLOCK_N, SWIZZLE, STAGES, THREADS, CLUSTER,
          deep_gemm::sm90_bf16_gemm_impl<cute::UMMA::Major::K, cute::UMMA::Major::K, 0, N, K, 1, BLOCK_M, BLOCK_N,
                                         BLOCK_K, 128, 128, SWIZZLE, STAGES, LOADING_THREADS, THREADS, CLUSTER,
                                         ALONG_N, PEER_SMS, deep_gemm::GemmType::Normal, false,
                                         cutlass::bfloat16_t>};
}

#define CONFIG(...) config<__VA_ARGS__>(),
const Config configs[] = {DEEPGEMM_KERNELS(CONFIG)};

const struct {
  int64_t m, n, k;
  int config;
} shapes[] = {
#define SHAPE(m, n, k, config) {m, n, k, config},
    DEEPGEMM_SHAPES(SHAPE)};

using Encode = CUresult (*)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                            const cuuint64_t *, const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave,
                            CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

Encode encoder()
{
  void *function = nullptr;
  cudaDriverEntryPointQueryResult result;
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &result);
  return reinterpret_cast<Encode>(function);
}

// A row-major bf16 matrix, in boxes of `swizzle` bytes by box_rows.
bool make_map(CUtensorMap *map, const void *data, int64_t rows, int64_t columns, int64_t row_step, int box_rows,
              int swizzle)
{
  static const Encode encode = encoder();
  const cuuint64_t size[2] = {cuuint64_t(columns), cuuint64_t(rows)}, steps[1] = {cuuint64_t(row_step) * 2};
  const cuuint32_t box[2] = {cuuint32_t(swizzle / 2), cuuint32_t(box_rows)}, ones[2] = {1, 1};
  CUtensorMapSwizzle mode = swizzle == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
                            : swizzle == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                            : swizzle == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                                            : CU_TENSOR_MAP_SWIZZLE_NONE;
  return encode && !encode(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<void *>(data), size, steps, box,
                           ones, CU_TENSOR_MAP_INTERLEAVE_NONE, mode, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                           CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

struct Ready : Prepared {
  const Config *config;
  uint32_t m;
  size_t shared;
  CUtensorMap a, b, d;

  std::string launch(cudaStream_t stream) override
  {
    cudaLaunchAttribute cluster{};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {unsigned(config->cluster), 1, 1};
    cudaLaunchConfig_t launch{};
    launch.gridDim = dim3(PEER_SMS);
    launch.blockDim = dim3(LOADING_THREADS + config->threads);
    launch.dynamicSmemBytes = shared;
    launch.stream = stream;
    launch.attrs = &cluster;
    launch.numAttrs = config->cluster > 1;
    cudaError_t status = cudaLaunchKernelEx(&launch, config->kernel, static_cast<int *>(nullptr), m,
                                            uint32_t(config->n), uint32_t(config->k), a, b, d);
    return status ? cudaGetErrorString(status) : "";
  }
};

const Config *find(const Problem &p)
{
  for (const auto &shape : shapes)
    if (shape.m == p.m && shape.n == p.n && shape.k == p.k) return &configs[shape.config];
  return nullptr;
}

bool takes(const Problem &p, int)
{
  return p.sms == PEER_SMS && is_plain(p, ADLGEN_PEER_BF16, ADLGEN_PEER_BF16, true, 8) && find(p);
}

std::unique_ptr<Prepared> prepare(const Problem &p, const Operands &o, int, std::string &message)
{
  auto ready = std::make_unique<Ready>();
  const Config &c = *(ready->config = find(p));
  ready->m = uint32_t(p.m);
  ready->shared = (size_t(c.block_m) * c.block_n * 2 + 1023) / 1024 * 1024 + BARRIERS +
                  size_t(c.stages) * (c.block_m + c.block_n) * BLOCK_K * 2;
  if (!make_map(&ready->a, o.a, p.m, p.k, leading(p.a), c.block_m, 128) ||
      !make_map(&ready->b, o.b, p.n, p.k, leading(p.b), c.block_n, 128) ||
      !make_map(&ready->d, o.d, p.m, p.n, leading(p.d), c.block_m, c.swizzle)) {
    message = "the driver refuses its tensor maps";
    return nullptr;
  }
  cudaError_t status = cudaFuncSetAttribute(reinterpret_cast<const void *>(c.kernel),
                                            cudaFuncAttributeMaxDynamicSharedMemorySize, int(ready->shared));
  if (!status) return ready;
  message = cudaGetErrorString(status);
  return nullptr;
}

} // namespace

std::vector<Variant> variants_of(const Problem &p)
{
  const Config *c = find(p);
  if (!c) return {};
  std::string name = std::to_string(c->block_m) + "x" + std::to_string(c->block_n) + "_s" +
                     std::to_string(c->stages) + (c->cluster > 1 ? "_c2" : "");
  return {{name, takes, prepare, 0}};
}

} // namespace peers
