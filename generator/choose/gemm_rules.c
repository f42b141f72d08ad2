#include "generator/choose/gemm_rules.h"
#include "ir/mechanism.h"

#define PRODUCT_RANK 3 /* batch, rows and columns: of every template's operands */

static unsigned fact(const Gpu *gpu, const char *path, unsigned otherwise)
{
  double value = gpu_fact(gpu, path);
  return fact_known(value) ? (unsigned)value : otherwise;
}

unsigned gemm_map_multiple(const Gpu *gpu)
{
  return MAX(fact(gpu, "tma.stride_multiple", 1), fact(gpu, "tma.alignment", 1));
}

unsigned gemm_box_side(const Gpu *gpu)
{
  return fact(gpu, "tma.box_max", G_MAXUINT);
}

static unsigned listed(const Gpu *gpu, const char *path)
{
  unsigned n, sum = 0;
  const double *items = gpu_numbers(gpu, path, &n);
  for (unsigned i = 0; i < n; i++)
    sum |= (unsigned)items[i];
  return sum;
}

/* Swizzles that boxes of elements of a type may have. */
static unsigned swizzles(const Gpu *gpu, NumberType type)
{
  unsigned both = listed(gpu, "tma.swizzles") & listed(gpu, "warpgroup_mma.swizzles"), some = 0;
  unsigned most = gemm_box_side(gpu), row = fact(gpu, "tma.box_row_multiple", 1);
  for (unsigned width = 32; width <= 128; width *= 2)
    if (both & width && number_elements(type, width) <= most && width % row == 0) some |= width;
  return some;
}

/* What every GPU asks for is found out by the variant's guard; more than that only where it is known. */
static bool may_be_multiple(const Symbolic *stride, NumberType type, unsigned bytes)
{
  int64_t known;
  return bytes <= 16 || !symbolic_is_constant(stride, &known) || known * number_bits(type) % (8 * bytes) == 0;
}

/* Do a group's boxes of an operand begin at whole pieces of its rows, where groups lie along these? It is `align` alone that says where. */
static bool groups_begin_at_pieces(const Gpu *gpu, const FusedGemm *gemm, bool of_b)
{
  NumberType type = gemm_stored(gemm, of_b);
  const Symbolic *apart = gemm->n_batch ? (of_b ? gemm->b_batch : gemm->a_batch)[0] : NULL;
  bool shared = apart && symbolic_equals(apart, 0), /* by all groups: its rows (B's columns) are theirs */
      across = of_b ? gemm->b_n_major : gemm->a_m_major;
  bool within = gemm->groups == GEMM_DEPTHS ? !across : gemm_groups_rows(gemm) && shared && across;
  return !within || number_bytes_of(type, gemm->align) % fact(gpu, "tma.box_row_multiple", 1) == 0;
}

bool gemm_engine_brings(const Problem *problem, const FusedGemm *gemm)
{
  const Gpu *gpu = problem->gpu;
  NumberType a = gemm_stored(gemm, false), b = gemm_stored(gemm, true);
  unsigned multiple = gemm_map_multiple(gpu);
  if (!swizzles(gpu, a) || !swizzles(gpu, b)) return false;
  if (PRODUCT_RANK > fact(gpu, "tma.rank_max", G_MAXUINT)) return false;
  if (!groups_begin_at_pieces(gpu, gemm, false) || !groups_begin_at_pieces(gpu, gemm, true)) return false;
  bool multiples = may_be_multiple(gemm->a_m_major ? gemm->a_k : gemm->a_m, a, multiple) &&
                   may_be_multiple(gemm->b_n_major ? gemm->b_k : gemm->b_n, b, multiple);
  if (gemm->summed)
    multiples &= may_be_multiple(gemm->a_summed, a, multiple) && may_be_multiple(gemm->b_summed, b, multiple);
  for (unsigned i = 0; i < gemm->n_batch; i++)
    multiples &=
        may_be_multiple(gemm->a_batch[i], a, multiple) && may_be_multiple(gemm->b_batch[i], b, multiple);
  return multiples;
}

bool gemm_passes_registers(const Gpu *gpu, NumberType type)
{
  bool matrices = gpu_fact(gpu, "matrix_load.transpose") == 1 && listed(gpu, "matrix_load.matrices") & 4;
  return number_bits(type) == 32 || (number_bits(type) == 8 && matrices);
}

bool gemm_is_panel(const Gpu *gpu, unsigned extent, NumberType type)
{
  unsigned some = swizzles(gpu, type), bytes = (unsigned)number_bytes_of(type, extent);
  unsigned widest = swizzle_widest(some, 128);
  return widest && (bytes % widest == 0 || (bytes < widest && some & bytes));
}

bool gemm_shares_copies(const Gpu *gpu)
{
  return gpu_has(gpu, "cluster") && gpu_fact(gpu, "tma.multicast") == 1;
}
