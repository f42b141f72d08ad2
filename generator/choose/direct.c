/* Products whose operands are read where they lie, without copies that were inserted: the operator, and the clocks of
 * the ways to compute it and of what would run instead. */
#include "generator/choose/direct.h"
#include "generator/choose/gemm_space.h"
#include "generator/fusion/operator_key.h"
#include <math.h>

double direct_tile_clocks(const Problem *problem, bool in_place, int64_t m, bool bounded)
{
  g_autoptr(GArray) list = gemm_candidates(problem, !in_place, m, bounded);
  double best = -1;
  for (unsigned i = 0; i < list->len; i++) {
    PricedCandidate *priced = &g_array_index(list, PricedCandidate, i);
    if (in_place) {
      priced->candidate.askew = gemm_candidate_may_be_askew(problem);
      priced->candidate = gemm_candidate(problem, priced->candidate, false);
      priced->cost = gemm_candidate_cost(problem, &priced->candidate, m);
    }
    if (best < 0 || priced->cost.total < best) best = priced->cost.total;
  }
  return best;
}

static double elements(const Problem *problem, const GraphTensor *tensor)
{
  double n = 1;
  for (unsigned i = 0; i < tensor->rank; i++)
    n *= (double)choose_typical(problem, tensor->shape[i]);
  return n;
}

double direct_bytes_clocks(const Problem *problem, double bytes)
{
  const Gpu *gpu = problem->gpu;
  const CostModel *model = gpu->model;
  double clock = (gpu->clock_tensor_mhz > 0 ? gpu->clock_tensor_mhz : gpu->clock_boost_mhz) * 1e6;
  return model->next_kernel + bytes / (model->copy_efficiency * gpu->memory_bandwidth) * clock;
}

double direct_copy_clocks(const Problem *problem, const bool *copied, int64_t m)
{
  const FusedGemm *gemm = gemm_of(problem->op);
  double sum = 0;
  const unsigned operands[] = {gemm->a, gemm->b};
  for (unsigned i = 0; i < 2; i++) {
    const GraphTensor *tensor = problem->op->inputs[operands[i]].tensor;
    if (!copied[i]) continue;
    double bytes = 2 * elements(problem, tensor) * number_bits(tensor->type) / CHAR_BIT;
    if (i == 0) bytes *= (double)m / (double)MAX(1, choose_typical(problem, gemm->m));
    sum += direct_bytes_clocks(problem, bytes);
  }
  return sum;
}

static const GraphTensor *source_of(const Problem *problem, const GraphTensor *tensor)
{
  const GraphTensor *copied = operator_copied(problem->graph, tensor);
  return copied && copied->rank == tensor->rank ? copied : NULL;
}

/* The operand with its copy, if it is one, replaced by what that is a copy of. `leading`: its rows' distance.
 * false: it is no matrix of one such distance. `odd`: that is known to be no multiple of 16 bytes. */
static bool take_source(const Problem *problem, FusedInput *input, const Symbolic **leading, bool *odd)
{
  const GraphTensor *tensor = input->tensor, *source = source_of(problem, tensor);
  if (source && tensor->rank != 2) return false;
  if (source) {
    unsigned outer = symbolic_equals(tensor->strides[1], 1) ? 0 : 1;
    if (!symbolic_equals(source->strides[1 - outer], 1) || !symbolic_same(tensor->strides[outer], *leading))
      return false;
    *leading = source->strides[outer];
    input->tensor = source;
  }
  int64_t distance;
  *odd |= symbolic_is_constant(*leading, &distance) &&
          distance * number_bits(input->tensor->type) % (CHAR_BIT * 16) != 0;
  return true;
}

bool direct_possible(const Problem *problem)
{
  const FusedOperator *op = problem->op;
  const FusedGemm *gemm = gemm_of(op);
  if ((problem->options && problem->options->sm_budget) || gemm_tile_forced(problem)) return false;
  bool small = number_has_bytes(gemm->a_type, 2) && number_has_bytes(gemm->b_type, 2) &&
               number_class(gemm->a_type) == NUMBER_FLOAT;
  bool whole = gemm->a_type == NUMBER_F32 && gemm->b_type == NUMBER_F32;
  return (small || whole) && !gemm_has_several(gemm) && !gemm->lead && !gemm->n_batch && !gemm->summed &&
         !fused_is_reduced(op);
}

bool direct_sums_take(const FusedGemm *gemm)
{
  return number_has_bytes(gemm->a_type, 2) && !gemm->a_m_major && !gemm->b_n_major;
}

bool direct_sums_possible(const Problem *problem)
{
  return direct_possible(problem) && direct_sums_take(gemm_of(problem->op));
}

/* An operand of one row or column lies along k if its elements are neighbours, whatever that was taken for. */
static void lay_along(const Symbolic *extent, const Symbolic *along_k, const Symbolic **leading, bool *across)
{
  if (!*across || !symbolic_equals(extent, 1) || !symbolic_equals(along_k, 1)) return;
  *across = false;
  *leading = along_k; /* there is no other row */
}

const FusedOperator *direct_operator(const Problem *problem, bool *odd)
{
  const FusedOperator *op = problem->op;
  if (!direct_possible(problem)) return NULL;
  FusedGemm *gemm;
  FusedOperator *direct = gemm_copy(problem->arena, op, &gemm);
  direct->inputs = arena_memdup(problem->arena, op->inputs, op->n_inputs * sizeof *op->inputs);
  const Symbolic **a = gemm->a_m_major ? &gemm->a_k : &gemm->a_m;
  const Symbolic **b = gemm->b_n_major ? &gemm->b_k : &gemm->b_n;
  bool known = take_source(problem, &direct->inputs[gemm->a], a, odd) &&
               take_source(problem, &direct->inputs[gemm->b], b, odd);
  lay_along(gemm->m, gemm->a_k, &gemm->a_m, &gemm->a_m_major);
  lay_along(gemm->n, gemm->b_k, &gemm->b_n, &gemm->b_n_major);
  return known ? direct : NULL;
}

unsigned direct_vector(const Problem *problem, const FusedOperator *direct)
{
  const FusedGemm *gemm = gemm_of(direct);
  const GraphTensor *a = direct->inputs[gemm->a].tensor, *b = direct->inputs[gemm->b].tensor;
  const Symbolic *const distances[] = {symbolic_equals(gemm->m, 1) ? gemm->k : gemm->a_m,
                                       symbolic_equals(gemm->n, 1) ? gemm->k : gemm->b_n, gemm->k};
  unsigned element = number_bytes(a->type), vector = CLAMP(MIN(a->align, b->align), element, 16) / element;
  if (gemm->a_m_major || gemm->b_n_major) return 1;
  for (unsigned i = 0; i < G_N_ELEMENTS(distances); i++)
    while (vector > 1 && !symbolic_divisible(distances[i], vector, &problem->graph->facts))
      vector /= 2;
  return vector;
}

/* More rows share what is loaded of A, as long as there are blocks enough for all SMs to take about as many.
 * Measured: one row of A with 2 a warp takes 0.94 of the time of 1, with 4 a fifth more; four
 * rows of A with 2, which are 2.1 blocks an SM, 0.93 of that of 4, which are 1.05; eight rows as long with
 * either. */
unsigned direct_sums_share(const Problem *problem, int64_t m)
{
  const CostModel *model = problem->gpu->model;
  int64_t n = choose_typical(problem, gemm_of(problem->op)->n);
  unsigned share = m > 1 ? model->sums_share : 2;
  double blocks = m > 4 ? 1 : model->sums_one_row; /* an SM */
  while (share > 1 && (double)n < blocks * share * model->sums_warps * problem->gpu->sm_count)
    share /= 2;
  return share;
}

double direct_sums_clocks(const Problem *problem, int64_t m, unsigned vector)
{
  const FusedGemm *gemm = gemm_of(problem->op);
  CostGemm shape = {.batches = 1,
                    .m = m,
                    .n = MAX(1, choose_typical(problem, gemm->n)),
                    .k = MAX(1, choose_typical(problem, gemm->k)),
                    .a_bytes = number_bytes(gemm->a_type),
                    .b_bytes = number_bytes(gemm->b_type),
                    .out_bytes = number_bytes(problem->op->outputs[0].tensor->type),
                    .type = gemm->a_type,
                    .sms = problem->gpu->sm_count};
  unsigned share = direct_sums_share(problem, m);
  return cost_sums(problem->gpu, &shape, vector, problem->gpu->model->sums_warps * share, share);
}

double direct_sums_clocks_of(const Problem *problem, const FusedOperator *direct, int64_t m)
{
  const FusedGemm *gemm = gemm_of(direct);
  if (!direct_sums_take(gemm) || m > MOST_SUMS) return -1;
  return direct_sums_clocks(problem, m, direct_vector(problem, direct));
}

Problem direct_in_place(const Problem *problem, unsigned bytes)
{
  Problem in_place = *problem;
  in_place.turned = NULL;
  in_place.copy_bytes = bytes;
  return in_place;
}

double direct_others_clocks(const Problem *problem, int64_t m, bool odd, unsigned bytes)
{
  const FusedGemm *gemm = gemm_of(problem->op);
  bool copied[] = {source_of(problem, problem->op->inputs[gemm->a].tensor) != NULL,
                   source_of(problem, problem->op->inputs[gemm->b].tensor) != NULL};
  if (copied[0] || copied[1])
    return direct_tile_clocks(problem, false, m, true) + direct_copy_clocks(problem, copied, m);
  if (!odd && gemm_warpgroups_possible(problem)) return direct_tile_clocks(problem, false, m, true);
  const Problem in_place = direct_in_place(problem, bytes);
  return direct_tile_clocks(&in_place, true, m, true);
}
