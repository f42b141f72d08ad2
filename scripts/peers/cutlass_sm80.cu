// CUTLASS's kernels for the generation before: mma.sync and cp.async, bf16 in and out, f32 sums.
#include "peer.hpp"
#include <cutlass/cutlass.h>
#include <cutlass/gemm/device/gemm_universal.h>
#include <cutlass/version.h>
#include <type_traits>

#define STRING(x) #x
#define TEXT(x) STRING(x)

namespace peers {

const char *const name = "cutlass-sm80";
const char *const library =
    "CUTLASS " TEXT(CUTLASS_MAJOR) "." TEXT(CUTLASS_MINOR) "." TEXT(CUTLASS_PATCH) ", kernels for sm_80";

namespace {

using Element = cutlass::bfloat16_t;
constexpr int ALIGNMENT = 8; // elements: 16 bytes

template <int M, int N, int K, int WARP_M, int WARP_N, int STAGES, bool B_BY_COLUMNS> struct Tile {
  using LayoutB = std::conditional_t<B_BY_COLUMNS, cutlass::layout::ColumnMajor, cutlass::layout::RowMajor>;
  using Gemm = cutlass::gemm::device::GemmUniversal<
      Element, cutlass::layout::RowMajor, Element, LayoutB, Element, cutlass::layout::RowMajor, float,
      cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80, cutlass::gemm::GemmShape<M, N, K>,
      cutlass::gemm::GemmShape<WARP_M, WARP_N, K>, cutlass::gemm::GemmShape<16, 8, 16>,
      cutlass::epilogue::thread::LinearCombination<Element, ALIGNMENT, float, float>,
      cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<8>, STAGES, ALIGNMENT, ALIGNMENT>;

  // A split of k counts arrivals in device memory: cleared once, and left clear by every launch. It is the
  // variant's own, since others write what bench lends to all.
  struct Ready : Prepared {
    Gemm gemm;
    void *counters = nullptr;
    ~Ready() override { cudaFree(counters); }
    std::string launch(cudaStream_t stream) override
    {
      cutlass::Status status = gemm.run(stream);
      return status == cutlass::Status::kSuccess ? "" : cutlassGetStatusString(status);
    }
  };

  // A split of k pays only where the tiles alone do not fill the GPU.
  static bool takes(const Problem &p, int split)
  {
    if (!is_plain(p, ADLGEN_PEER_BF16, ADLGEN_PEER_BF16, B_BY_COLUMNS, ALIGNMENT)) return false;
    int64_t tiles = (p.m + M - 1) / M * ((p.n + N - 1) / N);
    return split == 1 || (tiles * split <= 2 * p.sms && p.k / split >= 4 * K);
  }

  static std::unique_ptr<Prepared> prepare(const Problem &p, const Operands &o, int split,
                                           std::string &message)
  {
    typename Gemm::Arguments arguments(cutlass::gemm::GemmUniversalMode::kGemm, {int(p.m), int(p.n), int(p.k)},
                                       split, {1.0f, 0.0f}, o.a, o.b, o.d, o.d, 0, 0, 0, 0, leading(p.a),
                                       leading(p.b), leading(p.d), leading(p.d));
    auto ready = std::make_unique<Ready>();
    size_t bytes = Gemm::get_workspace_size(arguments);
    cutlass::Status status = bytes && cudaMalloc(&ready->counters, bytes) ? cutlass::Status::kErrorMemoryAllocation
                                                                          : Gemm::can_implement(arguments);
    if (status == cutlass::Status::kSuccess) status = ready->gemm.initialize(arguments, ready->counters);
    if (status == cutlass::Status::kSuccess && cudaDeviceSynchronize()) status = cutlass::Status::kErrorInternal;
    if (status == cutlass::Status::kSuccess) return ready;
    message = cutlassGetStatusString(status);
    return nullptr;
  }

  static void add(std::vector<Variant> &list)
  {
    for (int split : {1, 2, 4, 8}) {
      std::string name = std::to_string(M) + "x" + std::to_string(N) + "x" + std::to_string(K) + "_s" +
                         std::to_string(STAGES);
      if (split > 1) name += "_split" + std::to_string(split);
      list.push_back({name, takes, prepare, split});
    }
  }
};

template <bool B_BY_COLUMNS> void add_all(std::vector<Variant> &list)
{
  Tile<128, 256, 64, 64, 64, 3, B_BY_COLUMNS>::add(list);
  Tile<256, 128, 64, 64, 64, 3, B_BY_COLUMNS>::add(list);
  Tile<128, 128, 64, 64, 64, 4, B_BY_COLUMNS>::add(list);
  Tile<64, 128, 64, 32, 64, 5, B_BY_COLUMNS>::add(list);
}

} // namespace

std::vector<Variant> variants_of(const Problem &)
{
  std::vector<Variant> list;
  add_all<true>(list);
  add_all<false>(list);
  return list;
}

} // namespace peers
