#include "generator/choose/gemm_bound.h"
#include "generator/choose/gemm_rules.h"
#include "generator/kernel/steps.h"
#include "ir/mechanism.h"
#include "ir/resources.h"
#include "ir/staging.h"

unsigned gemm_consumer_warpgroups(const GemmCandidate *candidate)
{
  if (candidate->pingpong > 1) return candidate->pingpong;
  return MAX(warpgroups_of_rows(candidate->bm), candidate->warpgroups_n);
}

/* ---- Barriers ---- */

static unsigned fact(const Gpu *gpu, const char *path)
{
  double value = gpu_fact(gpu, path);
  return fact_known(value) ? (unsigned)value : G_MAXUINT;
}

/* Do mbarriers count the bytes of a slot and the arrivals that free it? */
static bool barriers_count(const Problem *problem, const GemmCandidate *candidate)
{
  const Gpu *gpu = problem->gpu;
  unsigned lines = MAX(1, candidate->cluster_m) + MAX(1, candidate->cluster_n) - 1;
  unsigned consumers = candidate->pingpong > 1 ? 1 : gemm_consumer_warpgroups(candidate);
  unsigned arrivals = lines > 1 ? consumers * lines : consumers * WARPGROUP_WARPS;
  return gemm_slot_bytes(problem, candidate) <= fact(gpu, "mbarrier.bytes_max") &&
         arrivals <= fact(gpu, "mbarrier.arrivals_max");
}

/* Are there named barriers for warpgroups that take turns, and, `staged`, for results in shared memory too? */
static bool named_barriers(const Gpu *gpu, const GemmCandidate *candidate, bool staged)
{
  unsigned turns = candidate->pingpong > 1 ? candidate->pingpong : 0;
  return NAMED_BARRIER_FIRST + turns +
             (staged ? gemm_consumer_warpgroups(candidate) + OVERLAY_BARRIERS : 0) <=
         gpu->named_barriers;
}

/* ---- Shared memory ---- */

/* Threads that gather 32-bit elements across k want padded rows. */
static unsigned padding_bytes(const FusedGemm *gemm, const GemmCandidate *candidate)
{
  bool gathers = !candidate->warpgroups && number_bytes(gemm->a_type) == 4;
  return gathers ? (gemm->a_m_major + gemm->b_n_major) * candidate->bk * 32 : 0;
}

unsigned gemm_slot_bytes(const Problem *problem, const GemmCandidate *candidate)
{
  const FusedGemm *gemm = gemm_of(gemm_candidate_operator(problem, candidate));
  unsigned alignment = candidate->warpgroups ? shared_alignment(problem->gpu, true) : 1;
  unsigned a = (unsigned)number_bytes_of(gemm_stored(gemm, false), (uint64_t)candidate->bm * candidate->bk),
           b = (unsigned)number_bytes_of(gemm_stored(gemm, true), (uint64_t)candidate->bn * candidate->bk);
  a = (a + alignment - 1) / alignment * alignment *
      (candidate->swapped ? gemm_products(problem) : 1); /* weights of each */
  b = (b + alignment - 1) / alignment * alignment;
  unsigned scales = gemm_scales_beside(problem, candidate);
  const FusedInput *scale = &gemm_candidate_operator(problem, candidate)->inputs[gemm->weights.scale];
  if (scales) b += (unsigned)number_bytes_of(scale->tensor->type, (uint64_t)candidate->bm * scales);
  return a + b + padding_bytes(gemm, candidate) + (gemm->scaled ? gemm_scale_bytes(problem, candidate) : 0);
}

unsigned gemm_exchange_bytes(const Problem *problem, const GemmCandidate *candidate)
{
  unsigned owners = gemm_candidate_owners(problem, candidate);
  if (candidate->k_parts > 1) return 0; /* what warps add up lies in the ring */
  if (candidate->split_k <= 1 || !owners) return 0;
  unsigned sums = candidate->swapped ? gemm_products(problem) : 1;
  return sums * candidate->bm * (candidate->split_k - 1) * (candidate->bn / owners) * 4;
}

static unsigned most_shared(const Gpu *gpu, const GemmCandidate *candidate)
{
  unsigned most = gpu->shared_per_block;
  return candidate->blocks > 1 ? MIN(most, gpu->shared_per_sm / candidate->blocks - gpu->shared_reserved)
                               : most;
}

/* The slot of what is left of a group along k. */
static unsigned tail_bytes(const Problem *problem, const GemmCandidate *candidate)
{
  return gemm_of(problem->op)->groups == GEMM_DEPTHS ? (candidate->bm + candidate->bn) * GEMM_TAIL : 0;
}

/* The slot of a product that leads narrow weights' own. */
static unsigned lead_bytes(const Problem *problem, const GemmCandidate *candidate)
{
  const FusedGemm *gemm = gemm_of(problem->op);
  unsigned step = (unsigned)gemm_lead_step(gemm);
  return (unsigned)number_bytes_of(gemm->a_type, (uint64_t)(candidate->bm + candidate->bn) * step);
}

/* The ring in which the producer tells which tile of which group is next. */
static unsigned walk_bytes(const Problem *problem)
{
  GemmGroups groups = gemm_of(problem->op)->groups;
  bool told = groups == GEMM_ENDS || groups == GEMM_COUNTS;
  return told && gpu_has(problem->gpu, "tma")
             ? WALK_SLOTS * WALK_NUMBERS * shared_alignment(problem->gpu, false)
             : 0;
}

unsigned gemm_room(const Problem *problem, const GemmCandidate *candidate)
{
  unsigned most = most_shared(problem->gpu, candidate),
           other = reserved_shared_bytes(problem->gpu) + tail_bytes(problem, candidate) +
                   lead_bytes(problem, candidate) + walk_bytes(problem);
  return most - MIN(most, other);
}

unsigned gemm_staging_bytes(const Problem *problem, const GemmCandidate *candidate)
{
  const FusedOperator *op = problem->op;
  unsigned beside = MAX(1, candidate->warpgroups_n);
  unsigned bytes = 0, rows = candidate->bm * candidate->pingpong * beside;
  StagingRules rules = staging_rules(problem->gpu);
  unsigned columns =
      candidate->bn / MAX(1, gemm_candidate_owners(problem, candidate)) / gemm_products(problem) / beside;
  if (!named_barriers(problem->gpu, candidate, true)) return 0;
  if (fused_is_reduced(op)) columns = REDUCED_COLUMNS; /* as the epilogue's parts */
  for (unsigned i = 0; i < op->n_outputs; i++)
    if (!op->outputs[i].reduced)
      bytes += (candidate->swapped ? staging_bytes_across : staging_bytes)(
          &rules, rows, columns, number_bytes(op->outputs[i].tensor->type));
  return bytes;
}

/* Does TMA write the output, whose address is a multiple of 16 bytes? */
static bool engine_stores(const Problem *problem, const FusedOutput *output)
{
  const FusedOperator *op = problem->op;
  const SymbolicFacts *facts = &problem->graph->facts;
  unsigned column = op->rank - 1, piece = 16 / number_bytes(output->tensor->type);
  if (!output->strides[column] || !symbolic_equals(output->strides[column], 1)) return false;
  for (unsigned d = 0; d < column; d++)
    if (!symbolic_divisible(output->strides[d], piece, facts)) return false;
  return symbolic_divisible(op->dims[column], piece, facts);
}

/* Does the epilogue read another tile of the result's size? */
static bool reads_a_tile(const FusedOperator *op)
{
  for (unsigned i = 0; i < op->n_inputs; i++) {
    const Symbolic *const *strides = op->inputs[i].strides + op->rank - 2;
    bool operand = i == gemm_of(op)->a || i == gemm_of(op)->b;
    if (!operand && !symbolic_equals(strides[0], 0) && !symbolic_equals(strides[1], 0)) return true;
  }
  return false;
}

/* Can results leave through narrow parts, one at a time, while the other warpgroup's products hide how long
 * that takes? Measured at K = 1536 and 4096 (docs/performance-log.md). Epilogues with arithmetic or another
 * tile to read take longer. */
static bool leaves_narrowly(const Problem *problem, const GemmCandidate *candidate)
{
  const CostModel *model = problem->gpu->model;
  const FusedOperator *op = problem->op;
  int64_t k = 0;
  if (candidate->pingpong <= 1 || candidate->swapped || gemm_has_several(gemm_of(op))) return false;
  return op->n_outputs == 1 && !op->outputs[0].reduced && gemm_out_bytes(op) <= 2 && !reads_a_tile(op) &&
         steps_operations(op) <= model->hiding_operations && symbolic_is_constant(gemm_of(op)->k, &k) &&
         k * number_bytes(gemm_of(op)->a_type) >= model->hiding_bytes &&
         engine_stores(problem, &op->outputs[0]);
}

unsigned gemm_least_staging(const Problem *problem, const GemmCandidate *candidate)
{
  unsigned staging = gemm_staging_bytes(problem, candidate);
  const CostModel *model = problem->gpu->model;
  unsigned stage = gemm_slot_bytes(problem, candidate), room = gemm_room(problem, candidate);
  if (!leaves_narrowly(problem, candidate) || room < staging ||
      (room - staging) / stage >= model->enough_in_turn)
    return staging;
  StagingRules rules = staging_rules(problem->gpu);
  unsigned least = staging_bytes_least(&rules, candidate->bm * candidate->pingpong, candidate->bn,
                                       gemm_out_bytes(problem->op));
  return least && (room - least) / stage > (room - staging) / stage ? least : staging;
}

unsigned gemm_least_shared(const Problem *problem, const GemmCandidate *candidate)
{
  unsigned exchange = candidate->reuse ? 0 : gemm_exchange_bytes(problem, candidate);
  return candidate->stages * gemm_slot_bytes(problem, candidate) + exchange;
}

bool gemm_candidate_fits(const Problem *problem, const GemmCandidate *candidate)
{
  return gemm_least_shared(problem, candidate) <= most_shared(problem->gpu, candidate);
}

/* ---- Registers ---- */

unsigned gemm_least_sums(const Problem *problem, const GemmCandidate *candidate)
{
  unsigned consumers = gemm_consumer_warpgroups(candidate), beside = MAX(1, candidate->warpgroups_n);
  unsigned rows = candidate->pingpong > 1 ? candidate->bm : candidate->bm * beside / consumers;
  unsigned accumulators = candidate->swapped ? gemm_products(problem) : 1,
           sums = (rows / WARPGROUP_ROWS) * (candidate->bn / beside) / 2;
  unsigned apart =
      candidate->promote ? sums / MAX(1, candidate->parts_m) : 0; /* a step's, of a part of the rows */
  return accumulators * (sums + apart);
}

unsigned gemm_most_registers(const Gpu *gpu, const GemmCandidate *candidate)
{
  unsigned warpgroup = WARPGROUP_WARPS * gpu->warp_size,
           consumers = gemm_consumer_warpgroups(candidate) * warpgroup;
  return granted_registers(gpu, consumers + warpgroup, consumers, 1);
}

bool gemm_registers_suffice(const Problem *problem, const GemmCandidate *candidate, unsigned sums,
                            unsigned registers)
{
  const CostModel *model = problem->gpu->model;
  if (gemm_through_registers(problem, candidate)) {
    unsigned rows = candidate->bm * MAX(1, candidate->warpgroups_n) / gemm_consumer_warpgroups(candidate);
    unsigned loaded = (rows / WARPGROUP_ROWS - 1) * model->loaded_registers + handover_step(problem->gpu);
    registers -= MIN(registers, loaded);
  }
  return sums + model->epilogue_registers <= registers;
}

/* Takes an SM so many blocks at once? */
static bool blocks_fit(const Gpu *gpu, const GemmCandidate *candidate)
{
  unsigned warps = candidate->warpgroups ? WARPGROUP_WARPS * (1 + gemm_consumer_warpgroups(candidate))
                                         : product_warps(candidate->bm * candidate->bn);
  return candidate->blocks <= 1 || candidate->blocks <= resident_blocks(gpu, warps * gpu->warp_size);
}

bool gemm_bound_admits(const Problem *problem, const GemmCandidate *candidate)
{
  const Gpu *gpu = problem->gpu;
  if (!blocks_fit(gpu, candidate)) return false;
  if (!candidate->warpgroups) return true;
  return barriers_count(problem, candidate) && named_barriers(gpu, candidate, false) &&
         gemm_registers_suffice(problem, candidate, gemm_least_sums(problem, candidate),
                                gemm_most_registers(gpu, candidate));
}
