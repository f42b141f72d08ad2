// CUTLASS's kernels for sm_90: warp-specialised, TMA and wgmma, through its collective builder. A row-major,
// B by columns, D row-major; f32 sums. -DPEER_FP8 builds e4m3 operands with fast accumulation and bf16
// results, else all is bf16.
#include "peer.hpp"
#include <cute/tensor.hpp>
#include <cutlass/cutlass.h>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/device/gemm_universal_adapter.h>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
#include <cutlass/util/packed_stride.hpp>
#include <cutlass/version.h>
#include <type_traits>

#define STRING(x) #x
#define TEXT(x) STRING(x)

namespace peers {

#ifdef PEER_FP8
const char *const name = "cutlass-fp8";
#else
const char *const name = "cutlass";
#endif
const char *const library = "CUTLASS " TEXT(CUTLASS_MAJOR) "." TEXT(CUTLASS_MINOR) "." TEXT(CUTLASS_PATCH);

namespace {

#ifdef PEER_FP8
using Element = cutlass::float_e4m3_t;
constexpr int TYPE = ADLGEN_PEER_E4M3, BLOCK_K = 128;
using Cooperative = cutlass::gemm::KernelTmaWarpSpecializedCooperativeFP8FastAccum;
using PingPong = cutlass::gemm::KernelTmaWarpSpecializedPingpongFP8FastAccum;
#else
using Element = cutlass::bfloat16_t;
constexpr int TYPE = ADLGEN_PEER_BF16, BLOCK_K = 64;
using Cooperative = cutlass::gemm::KernelTmaWarpSpecializedCooperative;
using PingPong = cutlass::gemm::KernelTmaWarpSpecializedPingpong;
#endif
using Result = cutlass::bfloat16_t;
constexpr int ALIGNMENT = 16 / sizeof(Element), ALIGNMENT_D = 16 / sizeof(Result);

using Persistent = cutlass::gemm::PersistentScheduler;
using StreamK = cutlass::gemm::StreamKScheduler;

template <int M, int N, int CLUSTER_M, int CLUSTER_N, class Schedule, class Scheduler = Persistent> struct Tile {
  static constexpr bool COOPERATIVE = std::is_same_v<Schedule, Cooperative>;
  static constexpr bool STREAMED = std::is_same_v<Scheduler, StreamK>;
  using TileShape = cute::Shape<cute::Int<M>, cute::Int<N>, cute::Int<BLOCK_K>>;
  using ClusterShape = cute::Shape<cute::Int<CLUSTER_M>, cute::Int<CLUSTER_N>, cute::_1>;
  using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, TileShape, ClusterShape,
      cutlass::epilogue::collective::EpilogueTileAuto, float, float, void, cutlass::layout::RowMajor, ALIGNMENT_D,
      Result, cutlass::layout::RowMajor, ALIGNMENT_D,
      std::conditional_t<COOPERATIVE, cutlass::epilogue::TmaWarpSpecializedCooperative,
                         cutlass::epilogue::TmaWarpSpecialized>>::CollectiveOp;
  using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Element, cutlass::layout::RowMajor, ALIGNMENT, Element,
      cutlass::layout::ColumnMajor, ALIGNMENT, float, TileShape, ClusterShape,
      cutlass::gemm::collective::StageCountAutoCarveout<int(sizeof(typename Epilogue::SharedStorage))>,
      Schedule>::CollectiveOp;
  using Kernel =
      cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Mainloop, Epilogue, Scheduler>;
  using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;

  // A stream-K kernel counts arrivals in memory of its own and leaves its counts there, so they are cleared
  // before every launch, as CUTLASS itself does where it is called afresh each time.
  struct Ready : Prepared {
    Gemm gemm;
    typename Gemm::Arguments arguments;
    void *memory = nullptr;
    ~Ready() override { cudaFree(memory); }
    std::string launch(cudaStream_t stream) override
    {
      cutlass::Status status = cutlass::Status::kSuccess;
      if (STREAMED) status = Kernel::initialize_workspace(arguments, memory, stream);
      if (status == cutlass::Status::kSuccess) status = gemm.run(stream);
      return status == cutlass::Status::kSuccess ? "" : cutlassGetStatusString(status);
    }
  };

  // Wide walks and tall tiles are for products of many rows, divided k for those of few tiles.
  static bool takes(const Problem &p, int swizzle)
  {
    if (!is_plain(p, TYPE, ADLGEN_PEER_BF16, true, ALIGNMENT) || p.scaled) return false;
    int64_t tiles = (p.m + M - 1) / M * ((p.n + N - 1) / N);
    if (STREAMED) return tiles < 4 * p.sms;
    return (swizzle == 1 || tiles > 2 * p.sms) && (M == 64 || p.m > 64);
  }

  static std::unique_ptr<Prepared> prepare(const Problem &p, const Operands &o, int swizzle,
                                           std::string &message)
  {
    using namespace cutlass;
    int m = int(p.m), n = int(p.n), k = int(p.k);
    auto step = [](int64_t rows_apart) {
      return cute::make_stride(rows_apart, cute::Int<1>{}, int64_t(0));
    };
    typename Gemm::Arguments arguments{
        gemm::GemmUniversalMode::kGemm,
        {m, n, k, 1},
        {static_cast<const Element *>(o.a), step(leading(p.a)), static_cast<const Element *>(o.b), step(leading(p.b))},
        {{1.0f, 0.0f}, nullptr, step(leading(p.d)), static_cast<Result *>(o.d), step(leading(p.d))},
        KernelHardwareInfo::make_kernel_hardware_info<Kernel>(p.device)};
    arguments.scheduler.max_swizzle_size = swizzle;
    auto ready = std::make_unique<Ready>();
    ready->arguments = arguments;
    size_t bytes = Gemm::get_workspace_size(arguments);
    Status status = bytes && cudaMalloc(&ready->memory, bytes) ? Status::kErrorMemoryAllocation
                                                               : Gemm::can_implement(arguments);
    if (status == Status::kSuccess) status = ready->gemm.initialize(arguments, ready->memory);
    if (status == Status::kSuccess && cudaDeviceSynchronize()) status = Status::kErrorInternal;
    if (status == Status::kSuccess) return ready;
    message = cutlassGetStatusString(status);
    return nullptr;
  }

  static void add(std::vector<Variant> &list)
  {
    for (int swizzle : {1, 8}) {
      std::string name = std::to_string(M) + "x" + std::to_string(N) + "_c" + std::to_string(CLUSTER_M) +
                         std::to_string(CLUSTER_N) + (COOPERATIVE ? "_cooperative" : "_pingpong");
      if (STREAMED) name += "_streamk";
      if (swizzle > 1) name += "_w" + std::to_string(swizzle);
      list.push_back({name, takes, prepare, swizzle});
      if (STREAMED) break;
    }
  }
};

} // namespace

std::vector<Variant> variants_of(const Problem &)
{
  std::vector<Variant> list;
  Tile<128, 256, 2, 1, Cooperative>::add(list);
  Tile<128, 128, 2, 1, PingPong>::add(list);
  Tile<64, 128, 1, 1, PingPong>::add(list);
#ifndef PEER_FP8
  Tile<128, 256, 1, 2, Cooperative>::add(list);
  Tile<256, 128, 2, 1, Cooperative>::add(list);
  Tile<256, 128, 1, 2, Cooperative>::add(list);
  Tile<64, 256, 2, 1, PingPong>::add(list);
  Tile<64, 64, 1, 1, PingPong>::add(list);
  Tile<128, 128, 1, 1, Cooperative, StreamK>::add(list);
#endif
  return list;
}

} // namespace peers
