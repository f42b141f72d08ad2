/* What products are refused for, and what they take. Several products of one operand are taken only where they are no
 * cheaper apart. */
#include "generator/choose/direct.h"
#include "generator/choose/dots.h"
#include "generator/choose/gemm_candidate.h"
#include "generator/choose/gemm_rules.h"
#include "generator/choose/verdict.h"
#include "generator/program/gemm.h"
#include "generator/program/odd_rows.h"
#include <string.h>

/* B's elements lie side by side along columns alone: of one column, along k too. */
static bool lies_across_k(const FusedGemm *gemm)
{
  return gemm->b_n_major && !symbolic_equals(gemm->b_k, 1);
}

/* Does some kernel read the operands as they lie? 16-bit operands may lie as they like; of others warpgroup MMAs take
 * one through registers; warp MMAs gather what is no small float. */
static bool reads_operands(const Gpu *gpu, const FusedGemm *gemm)
{
  NumberType type = gemm->a_type;
  bool along = symbolic_equals(gemm->k, 1) || (!gemm->a_m_major && !lies_across_k(gemm));
  if (along || number_has_bytes(type, 2)) return true;
  NumberType acc = number_class(type) == NUMBER_FLOAT ? NUMBER_F32 : NUMBER_S32;
  const GpuProduct *product = gpu_product(gpu, "warpgroup_mma", type, gemm->b_type, acc);
  if (product && product->a_from_registers && gpu_has(gpu, "tma") && gemm_passes_registers(gpu, type))
    return !gemm->a_m_major || !lies_across_k(gemm);
  return !number_is_small_float(type);
}

/* Have all kernels for the product fragments whose rows come in blocks of REDUCED_ROWS, each one warp's? Those of 16
 * bits, by warpgroups or warps; others may be of scalars, or have rows elsewhere. */
static bool has_row_blocks(const Gpu *gpu, const FusedGemm *gemm)
{
  return !gemm_has_several(gemm) && number_has_bytes(gemm->a_type, 2) && number_has_bytes(gemm->b_type, 2) &&
         gpu_product(gpu, "warp_mma", gemm->a_type, gemm->b_type, NUMBER_F32);
}

#define TWO_PRODUCTS 2 /* whose parts the tile of scalars has room for (parts_legal) */

/* Parts of a product's result, which its kernel reduces. */
static const char *refuse_parts(const Gpu *gpu, const FusedOperator *op)
{
  const FusedGemm *gemm = gemm_of(op);
  if (!fused_is_reduced(op)) return NULL;
  if (number_is_small_float(gemm->b_type) && lies_across_k(gemm))
    return "floats of 8 bits that lie across k have no other kernel than one that swaps rows and columns";
  if (gemm_has_several(gemm) && !number_has_bytes(gemm->b_type, 2))
    return "the narrowest tile of two products has room for whole parts of 16-bit operands only";
  if (gemm->products > TWO_PRODUCTS)
    return "no tile of all kernels has room for whole parts of more than two products";
  for (unsigned i = 0; i < op->n_outputs; i++)
    if (op->outputs[i].reduced && op->outputs[i].by_rows && !has_row_blocks(gpu, gemm))
      return "not all kernels of the product have blocks of rows in one warp";
  return NULL;
}

static const char *refuse_gemm(const Problem *problem)
{
  const FusedGemm *gemm = gemm_of(problem->op);
  if (!reads_operands(problem->gpu, gemm))
    return arena_printf(problem->arena, "no kernel reads %s across k", number_name(gemm->a_type));
  bool needs_product = gemm->scaled || gemm->narrow || number_is_small_float(gemm->a_type);
  if (needs_product && !gemm_warpgroups_possible(problem) && !gemm_warp_possible(problem))
    return arena_printf(problem->arena, "no matrix product that the description lists takes %s and %s",
                        number_name(gemm->a_type), number_name(gemm->b_type));
  return refuse_parts(problem->gpu, problem->op);
}

/* Rows that products are priced for, of groups those of one. `bounded`: there can be no more. */
static int64_t priced_rows(const Problem *problem, bool *bounded)
{
  *bounded = false;
  if (gemm_of(problem->op)->groups) return gemm_rows_of_group(problem);
  int64_t most = choose_maximum(problem, gemm_of(problem->op)->m);
  int64_t m = MIN(choose_typical(problem, gemm_of(problem->op)->m), most);
  *bounded = m == most;
  return m;
}

/* The cheapest tile's clocks for m rows, or a negative number if there is none. `warpgroups`: by warpgroup MMAs. */
static double tiles_clocks(const Problem *problem, bool warpgroups, int64_t m, bool bounded)
{
  g_autoptr(GArray) list = gemm_candidates(problem, warpgroups, m, bounded);
  double best = -1;
  for (unsigned i = 0; i < list->len; i++) {
    double total = g_array_index(list, PricedCandidate, i).cost.total;
    if (best < 0 || total < best) best = total;
  }
  return best;
}

/* The cheapest kernel's where operands have odd rows, which threads copy by so many bytes. */
static double odd_clocks(const Problem *problem, int64_t m, bool bounded, unsigned bytes)
{
  unsigned vector = MAX(1, bytes / number_bytes(gemm_of(problem->op)->a_type));
  const Problem in_place = direct_in_place(problem, bytes);
  double direct = direct_tile_clocks(&in_place, true, m, bounded);
  if (bounded && m <= MOST_SUMS && direct_sums_possible(&in_place)) {
    double sums = direct_sums_clocks(&in_place, m, vector);
    if (direct < 0 || sums < direct) direct = sums;
  }
  if (bounded && direct_possible(&in_place)) {
    double dots = choose_dots_clocks(&in_place, m, vector);
    if (dots >= 0 && (direct < 0 || dots < direct)) direct = dots;
  }
  return direct;
}

/* What else the kernels in its place would compute: one of several products, or one of weights that are wide
 * already; of so many times the columns. */
static Problem plain_product(const Problem *problem, unsigned wider)
{
  Problem plain = *problem;
  FusedGemm *gemm;
  plain.op = gemm_copy(problem->arena, problem->op, &gemm);
  gemm->products = 1;
  gemm->narrow = false;
  gemm->n = symbolic_mul(problem->arena, gemm->n, symbolic_constant(problem->arena, wider));
  plain.turned = gemm->groups ? NULL : gemm_transposed(problem->arena, plain.op);
  return plain;
}

/* Several products: one kernel or two? Two of them have one each; of more all are one product, whose result another kernel
 * reads. */
static void judge_several(const Problem *problem, ProgramVerdict *verdict)
{
  const CostModel *model = problem->gpu->model;
  bool bounded, warpgroups = gemm_warpgroups_possible(problem);
  int64_t m = priced_rows(problem, &bounded);
  if (!warpgroups && !gemm_warp_possible(problem)) {
    verdict_refuse(verdict, "no matrix product that the description lists takes their types");
    return;
  }
  unsigned products = gemm_of(problem->op)->products, kernels = products == 2 ? 2 : 1;
  const Problem single = plain_product(problem, products / kernels);
  double together = tiles_clocks(problem, warpgroups, m, bounded);
  double apart = kernels * tiles_clocks(&single, warpgroups, m, bounded) + model->next_kernel;
  if (together < 0) {
    verdict_refuse(verdict, "no tile holds a part of each");
    return;
  }
  const char *why =
      arena_printf(problem->arena, "at M = %d about %.0f clocks, as two %.0f", (int)m, together, apart);
  /* Where the model saw a tie, one took 1 / 1.05 to 1 / 1.14 of the time of two. */
  if (together <= apart * model->worth_two)
    verdict_price(verdict, together, why);
  else
    verdict_refuse(verdict, why);
}

/* Two products whose results are added: neither is stored, and one kernel is less, so that any tile will do. */
static void judge_lead(const Problem *problem, ProgramVerdict *verdict)
{
  bool bounded, warpgroups = gemm_warpgroups_possible(problem);
  int64_t m = priced_rows(problem, &bounded);
  double clocks = tiles_clocks(problem, warpgroups, m, bounded);
  if (clocks < 0)
    verdict_refuse(verdict, "no tile fits");
  else
    verdict_price(verdict, clocks, arena_printf(problem->arena, "at M = %d", (int)m));
}

/* Narrow weights: widened on the way to the product, or by a kernel in front of one of wide ones? Where rows are open, few
 * are what counts: bytes of weights decide then, and one takes 2 to 4 times as long as the other; of many it is less. */
static void judge_narrow(const Problem *problem, ProgramVerdict *verdict)
{
  const FusedGemm *of = gemm_of(problem->op);
  bool bounded, warpgroups = gemm_warpgroups_possible(problem);
  int64_t m = priced_rows(problem, &bounded);
  if (!of->groups && !symbolic_is_constant(of->m, NULL)) m = MIN(m, MOST_THIN);
  double together = tiles_clocks(problem, warpgroups, m, bounded);
  if (together < 0) {
    verdict_refuse(verdict, "no tile fits");
    return;
  }
  if (problem->gpu->memory_bandwidth <= 0) return;
  const Problem wide = plain_product(problem, 1);
  double weights = gemm_right_elements(problem);
  uint64_t bits = number_bits(of->weights.type) + number_bits(of->b_type);
  double apart = tiles_clocks(&wide, gemm_warpgroups_possible(&wide), m, bounded);
  if (apart >= 0) apart += direct_bytes_clocks(problem, weights * (double)bits / CHAR_BIT);
  const char *why = arena_printf(problem->arena, "at M = %d about %.0f clocks, widened first %.0f", (int)m,
                                 together, apart);
  if (apart < 0 || together <= apart)
    verdict_price(verdict, together, why);
  else
    verdict_refuse(verdict, why);
}

/* The operator as if its intermediate results lay anywhere: fusion may still give them padded rows. */
static const FusedOperator *without_places(Arena *arena, const FusedOperator *op)
{
  FusedOperator *copy = arena_memdup(arena, op, sizeof *op);
  copy->outputs = arena_memdup(arena, op->outputs, op->n_outputs * sizeof *op->outputs);
  for (unsigned i = 0; i < copy->n_outputs; i++)
    if (!copy->outputs[i].tensor->is_output)
      memset(copy->outputs[i].strides, 0, sizeof copy->outputs[i].strides);
  return copy;
}

static void judge_product(const Problem *problem, ProgramVerdict *verdict)
{
  const FusedOperator *op = problem->op;
  const GraphTensor *const operands[] = {op->inputs[gemm_of(op)->a].tensor,
                                         op->inputs[gemm_of(op)->b].tensor};
  bool bounded, odd = false;
  int64_t m = priced_rows(problem, &bounded);
  unsigned bytes = WIDE_BYTES;
  for (unsigned i = 0; i < G_N_ELEMENTS(operands); i++)
    if (tensor_has_odd_rows(operands[i])) {
      odd = true;
      bytes = MIN(bytes, tensor_row_bytes(operands[i], &problem->graph->facts));
    }
  Problem alone = *problem;
  alone.op = without_places(problem->arena, op);
  alone.turned = gemm_of(op)->scaled ? NULL : gemm_transposed(problem->arena, alone.op);
  /* what copies gain where warps multiply was never measured: no price, so that nobody copies for it */
  bool known = odd || (gemm_warpgroups_possible(&alone) && problem->gpu->memory_bandwidth > 0);
  if (!known) return;
  double clocks = odd ? odd_clocks(&alone, m, bounded, bytes) : tiles_clocks(&alone, true, m, bounded);
  if (clocks < 0)
    verdict_refuse(verdict, "no tile fits");
  else
    verdict_price(verdict, clocks, arena_printf(problem->arena, "at M = %d", (int)m));
}

void judge_gemm(const Problem *problem, bool priced, ProgramVerdict *verdict)
{
  const char *why = refuse_gemm(problem);
  if (why)
    verdict_refuse(verdict, why);
  else if (priced)
    (gemm_has_several(gemm_of(problem->op)) ? judge_several
     : gemm_of(problem->op)->lead           ? judge_lead
     : gemm_of(problem->op)->narrow         ? judge_narrow
                                            : judge_product)(problem, verdict);
}
