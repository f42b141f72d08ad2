/* Two products of one A: one kernel or two? */
#include "generator/choose/choose.h"
#include "generator/choose/gemm_candidate.h"
#include "generator/choose/gemm_rules.h"

/* The cheapest tile's clocks for m rows, or a negative number if there is none. */
static double best_clocks(const Problem *problem, bool group, int64_t m, bool bounded)
{
  g_autoptr(GArray) list = gemm_candidates(problem, group, m, bounded);
  double best = -1;
  for (unsigned i = 0; i < list->len; i++) {
    double total = g_array_index(list, PricedCandidate, i).cost.total;
    if (best < 0 || total < best) best = total;
  }
  return best;
}

/* true if one kernel is better; false too where no matrix product of the GPU takes the types. */
static bool dual_pays(const Problem *problem, const char **why)
{
  const FusedOperator *op = problem->op;
  bool group = gemm_group_possible(problem);
  if (!group && !gemm_warp_possible(problem)) {
    *why = "no matrix product that the description lists takes their types";
    return false;
  }
  Problem both = *problem;
  both.turned = fused_is_reduced(op) ? NULL : fused_gemm_transposed(problem->arena, op);
  int64_t m = MIN(choose_typical(problem, op->gemm.m), choose_maximum(problem, op->gemm.m));
  FusedOperator one_product = *op;
  one_product.gemm.dual = false;
  Problem single = *problem;
  single.op = &one_product;
  single.turned = fused_gemm_transposed(problem->arena, &one_product);
  bool bounded = choose_maximum(problem, op->gemm.m) <= m;
  double together = best_clocks(&both, group, m, bounded);
  double apart = 2 * best_clocks(&single, group, m, bounded) + problem->gpu->model->next_kernel;
  if (together < 0) {
    *why = "no tile holds a half of each";
    return false;
  }
  *why = arena_printf(problem->arena, "at M = %d about %.0f clocks, as two %.0f", (int)m, together, apart);
  /* Where the model saw a tie, one took 1 / 1.05 to 1 / 1.14 of the time of two. */
  return together <= apart * problem->gpu->model->worth_two;
}

typedef struct {
  const Graph *graph;
  const Gpu *gpu;
  const CompileOptions *options;
} Target;

/* The problem of an operator whose transpose nobody has asked for. */
static Problem as_it_lies(const FusedOperator *op, const Target *target, Arena *arena)
{
  return (Problem){
      .op = op, .graph = target->graph, .gpu = target->gpu, .options = target->options, .arena = arena};
}

/* FusionOptions.accept_dual */
static bool accept_dual(const FusedOperator *fused, Arena *arena, const char **why, void *data)
{
  const Target *target = data;
  const Problem problem = as_it_lies(fused, target, arena);
  return dual_pays(&problem, why);
}

/* FusionOptions.accept_copies */
static bool accept_copies(const FusedOperator *product, const FusedCopies *copies, Arena *arena,
                          const char **why, void *data)
{
  const Target *target = data;
  const Problem problem = as_it_lies(product, target, arena);
  return choose_copies_pay(&problem, copies, why);
}

/* FusionOptions.reads_across: 16-bit operands may lie as they like; of others warpgroup MMAs take one through
 * registers; warp MMAs gather what is no small float. */
static bool reads_across(NumberType a, NumberType b, NumberType result, unsigned across, void *data)
{
  const Gpu *gpu = ((const Target *)data)->gpu;
  if (number_bytes(a) == 2) return true;
  NumberType acc = number_class(a) == NUMBER_FLOAT ? NUMBER_F32 : NUMBER_S32;
  const GpuProduct *product = gpu_product(gpu, "warpgroup_mma", a, b, acc);
  if (product && product->a_from_registers && gpu_has(gpu, "tma") && gemm_passes_registers(gpu, a))
    return across != 3;
  return !number_is_small_float(a);
}

/* FusionOptions.has_row_blocks: products of 16 bits, by groups or warps; others may be of scalars, or have
 * rows elsewhere. */
static bool has_row_blocks(NumberType a, NumberType b, void *data)
{
  const Gpu *gpu = ((const Target *)data)->gpu;
  return number_bytes(a) == 2 && number_bytes(b) == 2 && gpu_product(gpu, "warp_mma", a, b, NUMBER_F32);
}

Fusion *choose_fusion(const Graph *graph, const Gpu *gpu, const CompileOptions *options, GError **error)
{
  Target target = {graph, gpu, options};
  FusionOptions fusion_options = {.accept_dual = accept_dual,
                                  .accept_copies = accept_copies,
                                  .reads_across = reads_across,
                                  .has_row_blocks = has_row_blocks,
                                  .data = &target};
  return fusion_build(graph, &fusion_options, error);
}
