/* What a product and its tiles are, before anything is said of what is legal or what it costs. */
#include "generator/choose/gemm_candidate.h"
#include "generator/choose/gemm_rules.h"
#include "generator/choose/gemm_straddle.h"
#include "generator/front/groups.h"
#include "generator/kernel/steps.h"
#include "ir/resources.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

#define SCALES_TOGETHER 4 /* f32: 16 bytes */

const FusedOperator *gemm_candidate_operator(const Problem *problem, const GemmCandidate *candidate)
{
  return candidate->swapped ? problem->turned : problem->op;
}

const char *gemm_candidate_template(const Problem *problem, const GemmCandidate *candidate)
{
  const FusedGemm *gemm = gemm_of(problem->op);
  if (!gemm_has_several(gemm)) return gemm->scaled ? "gemm_blocks" : gemm->narrow ? "gemm_narrow" : "gemm";
  return candidate->swapped ? "gemm_dual_swapped" : "gemm_dual"; /* a tile of each, which blocks may share */
}

/* What differs most is looked at first; the key's values stand together. */
bool gemm_candidate_same(const GemmCandidate *a, const GemmCandidate *b)
{
  const size_t keys = offsetof(GemmCandidate, bk) - offsetof(GemmCandidate, bm);
  return a->bm == b->bm && a->bn == b->bn && a->warpgroups == b->warpgroups &&
         !memcmp(&a->bm, &b->bm, keys) && !memcmp(a->extra, b->extra, sizeof a->extra);
}

bool gemm_candidate_is_thin(const GemmCandidate *candidate)
{
  return candidate->swapped && candidate->bn <= MOST_THIN;
}

/* TMA copies want neighbours along rows of A or columns of B, steps of whole 16 bytes, and rows that begin at such. */
static bool lies_in_vectors(const Problem *problem, bool of_b)
{
  const FusedGemm *gemm = gemm_of(problem->op);
  const SymbolicFacts *facts = &problem->graph->facts;
  const FusedInput *scale = &problem->op->inputs[of_b ? gemm->b_scale : gemm->a_scale];
  if (scale->tensor->type != NUMBER_F32) return false;
  if (!of_b && gemm->groups == GEMM_ENDS && gemm->align % SCALES_TOGETHER) return false;
  bool whole = symbolic_equals(scale->strides[gemm->n_batch + of_b], 1) &&
               symbolic_divisible(of_b ? gemm->b_scale_k : gemm->a_scale_k, SCALES_TOGETHER, facts);
  for (unsigned i = 0; i < gemm->n_batch; i++)
    whole &= symbolic_divisible(scale->strides[i], SCALES_TOGETHER, facts);
  return whole;
}

/* Scales that columns share lie one behind the other along k, of each block of columns at a multiple of 16 bytes. */
static bool lies_along_k(const Problem *problem)
{
  const FusedGemm *gemm = gemm_of(problem->op);
  const FusedInput *scale = &problem->op->inputs[gemm->b_scale];
  bool whole = scale->tensor->type == NUMBER_F32 && symbolic_equals(gemm->b_scale_k, 1);
  for (unsigned i = 0; i <= gemm->n_batch + 1; i++)
    whole &=
        i == gemm->n_batch || symbolic_divisible(scale->strides[i], SCALES_TOGETHER, &problem->graph->facts);
  return whole;
}

bool gemm_scales_in_ring(const Problem *problem, bool of_b)
{
  const FusedGemm *gemm = gemm_of(problem->op);
  if (!gemm->scaled || !lies_in_vectors(problem, false)) return false;
  if (gemm->b_width > 1) return !of_b || lies_along_k(problem);
  return lies_in_vectors(problem, true);
}

unsigned gemm_scales_beside(const Problem *problem, const GemmCandidate *candidate)
{
  const FusedOperator *op = gemm_candidate_operator(problem, candidate);
  const FusedGemm *gemm = gemm_of(op);
  const GemmWeights *weights = &gemm->weights;
  if (!gemm->narrow || !weights->depth || candidate->k_parts <= 1 || gemm->groups) return 0;
  const GraphTensor *tensor = op->inputs[weights->scale].tensor;
  unsigned bytes = gemm_map_multiple(problem->gpu), least = MAX(1, number_elements(tensor->type, bytes));
  const SymbolicFacts *facts = &problem->graph->facts;
  bool placed = tensor->kind != TENSOR_INPUT || tensor->align >= bytes; /* by the plan, or the caller */
  bool rows = placed && !tensor->begins && symbolic_equals(weights->scale_k, 1) &&
              symbolic_divisible(weights->scale_row, least, facts);
  for (unsigned i = 0; i < gemm->n_batch && rows; i++)
    rows = symbolic_divisible(op->inputs[weights->scale].strides[i], least, facts);
  unsigned depth = (unsigned)weights->depth, scales = MAX(least, candidate->bk / depth);
  bool whole =
      scales % least == 0 && (uint64_t)scales * depth % candidate->bk == 0; /* steps end where these do */
  return rows && whole ? scales : 0;
}

unsigned gemm_scale_bytes(const Problem *problem, const GemmCandidate *candidate)
{
  unsigned alignment = shared_alignment(problem->gpu, true), bytes = 0;
  bool together = gemm_of(problem->op)->b_width > 1;
  for (unsigned i = 0; i < 2 && candidate->warpgroups; i++)
    if (gemm_scales_in_ring(problem, i))
      bytes += ((!i         ? candidate->bm
                 : together ? 2 * SCALES_TOGETHER
                            : candidate->bn) *
                    (unsigned)sizeof(float) +
                alignment - 1) /
               alignment * alignment;
  return bytes;
}

unsigned gemm_out_bytes(const FusedOperator *op)
{
  return op->n_outputs ? number_bytes(op->outputs[0].tensor->type) : 0;
}

unsigned gemm_products(const Problem *problem)
{
  return gemm_of(problem->op)->products;
}

const GpuProduct *gemm_warpgroup_product(const Gpu *gpu, const FusedGemm *gemm)
{
  return gpu_product(gpu, "warpgroup_mma", gemm->a_type, gemm->b_type, gemm->acc_type);
}

bool gemm_through_registers(const Problem *problem, const GemmCandidate *candidate)
{
  const FusedGemm *gemm = gemm_of(gemm_candidate_operator(problem, candidate));
  if (gemm->narrow && candidate->warpgroups) return true;
  if (!gemm->a_m_major || !candidate->warpgroups) return false;
  const GpuProduct *product = gemm_warpgroup_product(problem->gpu, gemm);
  return product && !product->a_transposed;
}

unsigned gemm_candidate_owners(const Problem *problem, const GemmCandidate *candidate)
{
  for (unsigned owners = MAX(1, MAX(candidate->split_k, candidate->slices)); owners >= 1; owners--) {
    unsigned columns = candidate->bn / owners;
    bool pieces =
        candidate->swapped
            ? columns % 8 == 0
            : columns % 16 == 0 && columns * gemm_out_bytes(problem->op) % problem->gpu->global_sector == 0;
    if (candidate->bn % owners == 0 && pieces) return owners;
  }
  return 0;
}

double gemm_candidate_tiles(const Problem *problem, const GemmCandidate *candidate, int64_t rows)
{
  const FusedGemm *gemm = gemm_of(problem->op);
  double down = MAX(1, candidate->cluster_m),
         across = MAX(1, candidate->cluster_n); /* clusters begin whole */
  double columns = (double)choose_maximum(problem, gemm->n),
         high = candidate->swapped ? columns : (double)rows,
         wide = candidate->swapped ? (double)rows : columns;
  double tiles = down * across * ceil(high / (candidate->bm * down)) * ceil(wide / (candidate->bn * across));
  for (unsigned i = 0; i < gemm->n_batch; i++)
    tiles *= (double)choose_maximum(problem, problem->op->dims[i]);
  return tiles;
}

unsigned gemm_candidate_sms(const Problem *problem)
{
  unsigned budget = problem->options ? problem->options->sm_budget : 0;
  return budget ? budget : problem->gpu->sm_count;
}

#define ROWS_OF_OPEN_GROUPS 256 /* where neither they nor their number are known */

/* Rows of all groups, but those of nobody: Permute has one for each choice, and more for groups to begin at multiples. */
static int64_t rows_of_groups(const Problem *problem)
{
  const FusedOperator *op = problem->op;
  int64_t rows = choose_typical(problem, gemm_of(op)->m);
  const GraphTensor *choices = op->anchor ? graph_choices(op->anchor) : NULL;
  if (!choices) return rows;
  return MIN(rows,
             MAX(1, choose_typical(problem, choices->shape[0]) * choose_typical(problem, choices->shape[1])));
}

int64_t gemm_rows_of_group(const Problem *problem)
{
  const FusedOperator *op = problem->op;
  if (gemm_of(op)->groups == GEMM_DEPTHS) return choose_typical(problem, gemm_of(op)->m);
  const GraphAttribute *expected = op->anchor ? graph_attribute_find(op->anchor, "expected") : NULL;
  int64_t rows = rows_of_groups(problem), groups = MAX(1, choose_typical(problem, op->dims[0]));
  if (expected && expected->integer > 0) return MIN(expected->integer, MAX(1, rows));
  if (!symbolic_is_constant(op->dims[0], NULL)) return MIN(rows, ROWS_OF_OPEN_GROUPS);
  return gemm_of(op)->groups == GEMM_COUNTS ? rows : MAX(1, (rows + groups - 1) / groups);
}

#define REDUCED_OPERATIONS 3 /* of an output whose parts are reduced: combined, exchanged, combined */

static double epilogue_operations(const FusedOperator *op)
{
  double operations = steps_operations(op);
  for (unsigned i = 0; i < op->n_outputs; i++)
    if (op->outputs[i].reduced) operations += REDUCED_OPERATIONS;
  return operations;
}

/* Of k what a group has on average, or as it is expected to. */
static int64_t priced_depth(const Problem *problem, const FusedGemm *gemm)
{
  int64_t k = MAX(1, choose_typical(problem, gemm->k));
  if (gemm->summed) return k * MAX(1, choose_typical(problem, gemm->summed));
  if (gemm->groups != GEMM_DEPTHS)
    return k + (gemm->lead && !gemm->narrow ? choose_typical(problem, gemm->lead->k) : 0);
  const GraphNode *node = problem->op->anchor;
  const GraphAttribute *expected = node ? graph_attribute_find(node, "expected") : NULL;
  if (expected && expected->integer > 0) return MIN(k, expected->integer);
  return MAX(1, k / MAX(1, choose_typical(problem, problem->op->dims[0])));
}

/* Batches of a dim; of groups of rows that lie behind one another as many as can have any. */
static int64_t priced_batches(const Problem *problem, const FusedGemm *gemm, unsigned dim)
{
  int64_t batches = MAX(1, choose_typical(problem, problem->op->dims[dim]));
  bool shared = gemm->groups == GEMM_ENDS || gemm->groups == GEMM_INDEX;
  return shared ? MIN(batches, MAX(1, rows_of_groups(problem))) : batches;
}

static NumberType through_type(const Problem *problem, const FusedGemm *gemm)
{
  const GpuProduct *product =
      gpu_product(problem->gpu, "warp_mma", gemm->a_type, gemm->b_type, gemm->acc_type);
  return product ? product->through : gemm->a_type;
}

CostGemm gemm_operator_shape(const Problem *problem, bool swapped)
{
  const FusedOperator *op = swapped ? problem->turned : problem->op;
  const FusedGemm *gemm = gemm_of(op);
  int64_t columns = MAX(1, choose_typical(problem, gemm_of(problem->op)->n)) * gemm_products(problem);
  CostGemm shape = {.batches = MAX(1, problem->batches),
                    .k = priced_depth(problem, gemm),
                    .a_bytes = (double)number_bits(gemm_stored(gemm, false)) / CHAR_BIT,
                    .b_bytes = (double)number_bits(gemm_stored(gemm, true)) / CHAR_BIT,
                    .out_bytes = MAX(1, gemm_out_bytes(op) / gemm_products(problem)),
                    .type = gemm->a_type,
                    .through = through_type(problem, gemm),
                    .sms = gemm_candidate_sms(problem),
                    .a_straddles = gemm_a_straddles(problem->gpu, gemm),
                    .b_straddles = gemm_b_straddles(problem->gpu, gemm),
                    .out_straddles = gemm_out_straddles(problem->gpu, problem->op),
                    .a_lines = gemm_a_lines(gemm),
                    .b_lines = gemm_b_lines(gemm),
                    .operations = epilogue_operations(op) / gemm_products(problem)};
  *(swapped ? &shape.m : &shape.n) = columns;
  *(swapped ? &shape.uneven_n : &shape.uneven_m) = gemm_groups_rows(gemm);
  for (unsigned i = 0; i < gemm->n_batch && !problem->batches; i++)
    shape.batches *= priced_batches(problem, gemm, i);
  return shape;
}

double gemm_right_elements(const Problem *problem)
{
  const FusedGemm *gemm = gemm_of(problem->op);
  double n = (double)choose_typical(problem, gemm->n) * (double)choose_typical(problem, gemm->k);
  for (unsigned i = 0; i < gemm->n_batch; i++)
    if (!symbolic_equals(gemm->b_batch[i], 0)) n *= (double)choose_typical(problem, problem->op->dims[i]);
  return n * gemm_products(problem);
}

int64_t gemm_most_rows(const Problem *problem, const Choice *choice)
{
  const FusedGemm *gemm = gemm_of(problem->op);
  int64_t most = choose_maximum(problem, gemm->m);
  for (unsigned i = 0; i < choice->n_assumptions; i++) {
    const Assumption *assumption = &choice->assumptions[i];
    if (assumption->maximum > 0 && symbolic_same(assumption->expression, gemm->m))
      most = MIN(most, assumption->maximum);
  }
  return most;
}

int64_t gemm_rows_taken(const Chooser *chooser)
{
  return chooser->n ? gemm_most_rows(chooser->problem, &chooser->variants[chooser->n - 1]) : 0;
}
