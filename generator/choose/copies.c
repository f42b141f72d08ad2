/* Operands whose rows start at no multiples of 16 bytes: read where they lie, or copied to padded rows first?
 *
 * Read where they lie, threads copy a few bytes at a time and warps multiply; copied, TMA and
 * warpgroup MMAs work as usual, behind a kernel that reads and writes the operand once. Very few rows are a
 * third case: sums along k read B once, as it lies, each lane a few bytes and enough of them on their way.
 * Where the number of rows is known at launch only they are variants in front of those that take the copies,
 * and the copies have one in front that launches nothing. */
#include "generator/choose/dots.h"
#include "generator/choose/gemm_candidate.h"
#include <math.h>

/* The cheapest tile's clocks for m rows, `bounded`: known to be no more; or a negative number if there is
 * none. In place, tiles are as those of a variant that assumes nothing. */
static double best_clocks(const Problem *problem, bool in_place, int64_t m, bool bounded)
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

/* Clocks of the kernels that copy, A of m rows. */
static double copy_clocks(const Problem *problem, const FusedCopies *copies, int64_t m)
{
  const FusedGemm *gemm = &problem->op->gemm;
  const Gpu *gpu = problem->gpu;
  const CostModel *model = gpu->model;
  double clock = (gpu->clock_tensor_mhz > 0 ? gpu->clock_tensor_mhz : gpu->clock_boost_mhz) * 1e6, sum = 0;
  const unsigned operands[] = {gemm->a, gemm->b};
  const bool copied[] = {copies->a, copies->b};
  for (unsigned i = 0; i < 2; i++) {
    const GraphTensor *tensor = problem->op->inputs[operands[i]].tensor;
    if (!copied[i]) continue;
    double bytes = 2 * elements(problem, tensor) * number_bytes(tensor->type);
    if (i == 0) bytes *= (double)m / (double)MAX(1, choose_typical(problem, gemm->m));
    sum += model->next_kernel + bytes / (model->copy_efficiency * gpu->memory_bandwidth) * clock;
  }
  return sum;
}

/* ---- Very few rows ---- */

#define SUMS_WARPS  8 /* of a block; each has rows of B of its own */
#define SUMS_BLOCKS 2 /* that must fit an SM: bounds the loads that the assembler keeps in registers */
#define MOST_SUMS   8
static const unsigned sums_rows[] = {1, 4, MOST_SUMS}; /* rows of A that there are kernels for */
#define MOST_SHARE 4                                   /* rows of B a warp */

/* What an inserted copy is a copy of; NULL if the tensor is no such copy. */
static const GraphTensor *source_of(const Problem *problem, const GraphTensor *tensor)
{
  const GraphNode *node = tensor->producer;
  bool inserted = tensor->index >= problem->graph->n_tensors && node && node->op->id == ONNX_Identity;
  return inserted && node->inputs[0]->rank == tensor->rank ? node->inputs[0] : NULL;
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
  *odd |= symbolic_is_constant(*leading, &distance) && distance * number_bytes(input->tensor->type) % 16 != 0;
  return true;
}

bool choose_tile_forced(const Problem *problem)
{
  static const char *const names[] = {"bm",       "bn",     "bk",        "stages",    "swapped", "split_k",
                                      "stream_k", "slices", "cluster_m", "cluster_n", "pingpong"};
  bool forced = false, sums = choose_forced(problem, "deep", NULL);
  for (unsigned i = 0; i < G_N_ELEMENTS(names); i++)
    forced |= choose_forced(problem, names[i], NULL);
  return forced && !sums;
}

/* Can sums along k be taken of the operands where they lie? A budget of SMs is kept by walks, which these
 * kernels have not. */
static bool direct_possible(const Problem *problem)
{
  const FusedOperator *op = problem->op;
  const FusedGemm *gemm = &op->gemm;
  if ((problem->options && problem->options->sm_budget) || choose_tile_forced(problem)) return false;
  bool small = number_bytes(gemm->a_type) == 2 && number_bytes(gemm->b_type) == 2 &&
               number_class(gemm->a_type) == NUMBER_FLOAT;
  return small && !gemm->dual && !gemm->n_batch && !fused_is_reduced(op) && gemm->a != gemm->b;
}

static bool sums_possible(const Problem *problem)
{
  const FusedGemm *gemm = &problem->op->gemm;
  return direct_possible(problem) && !gemm->a_m_major && !gemm->b_n_major;
}

/* An operand of one row or column lies along k if its elements are neighbours, whatever that was taken for. */
static void lay_along(const Symbolic *extent, const Symbolic *along_k, const Symbolic **leading, bool *across)
{
  if (!*across || !symbolic_equals(extent, 1) || !symbolic_equals(along_k, 1)) return;
  *across = false;
  *leading = along_k; /* there is no other row */
}

const FusedOperator *choose_direct(const Problem *problem, bool *odd)
{
  const FusedOperator *op = problem->op;
  if (!direct_possible(problem)) return NULL;
  FusedOperator *direct = arena_memdup(problem->arena, op, sizeof *op);
  direct->inputs = arena_memdup(problem->arena, op->inputs, op->n_inputs * sizeof *op->inputs);
  FusedGemm *gemm = &direct->gemm;
  const Symbolic **a = gemm->a_m_major ? &gemm->a_k : &gemm->a_m;
  const Symbolic **b = gemm->b_n_major ? &gemm->b_k : &gemm->b_n;
  bool known = take_source(problem, &direct->inputs[gemm->a], a, odd) &&
               take_source(problem, &direct->inputs[gemm->b], b, odd);
  lay_along(gemm->m, gemm->a_k, &gemm->a_m, &gemm->a_m_major);
  lay_along(gemm->n, gemm->b_k, &gemm->b_n, &gemm->b_n_major);
  return known ? direct : NULL;
}

unsigned choose_direct_vector(const Problem *problem, const FusedOperator *direct)
{
  const FusedGemm *gemm = &direct->gemm;
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

/* Rows of B a warp: more share what is loaded of A, as long as there are blocks enough for all SMs to take
 * about as many. Measured: one row of A with 2 a warp takes 0.94 of the time of 1, with 4 a fifth more; four
 * rows of A with 2, which are 2.1 blocks an SM, 0.93 of that of 4, which are 1.05; eight rows as long with
 * either. */
static unsigned sums_share(const Problem *problem, int64_t m)
{
  int64_t n = choose_typical(problem, problem->op->gemm.n);
  unsigned share = m > 1 ? MOST_SHARE : 2;
  double blocks = m > 4 ? 1 : problem->gpu->model->sums_one_row; /* an SM */
  while (share > 1 && (double)n < blocks * share * SUMS_WARPS * problem->gpu->sm_count)
    share /= 2;
  return share;
}

static double sums_clocks(const Problem *problem, int64_t m, unsigned vector)
{
  const FusedGemm *gemm = &problem->op->gemm;
  CostGemm shape = {.batches = 1,
                    .m = m,
                    .n = MAX(1, choose_typical(problem, gemm->n)),
                    .k = MAX(1, choose_typical(problem, gemm->k)),
                    .a_bytes = number_bytes(gemm->a_type),
                    .b_bytes = number_bytes(gemm->b_type),
                    .out_bytes = number_bytes(problem->op->outputs[0].tensor->type),
                    .type = gemm->a_type,
                    .sms = problem->gpu->sm_count};
  unsigned share = sums_share(problem, m);
  return cost_sums(problem->gpu, &shape, vector, SUMS_WARPS * share, share);
}

static void add_sums(Chooser *chooser, const FusedOperator *direct, unsigned rows)
{
  const FusedGemm *gemm = &direct->gemm;
  Choice *choice = choose_open(chooser, "gemv_few");
  if (!choose_require_at_most(chooser->problem, choice, gemm->m, rows)) return;
  unsigned share = sums_share(chooser->problem, rows);
  unsigned vector = choose_direct_vector(chooser->problem, direct), columns = SUMS_WARPS * share,
           depth = 32 * vector;
  choice->direct = direct;
  choice_set_name(choice, "ta", number_name(gemm->b_type));
  choice_set_name(choice, "tb", number_name(gemm->a_type));
  choice_set_name(choice, "tc", number_name(gemm->acc_type));
  choice_set_int(choice, "bm", columns);
  choice_set_int(choice, "bn", 1);
  choice_set_int(choice, "bk", depth);
  choice_set_int(choice, "rows", rows);
  choice_set_int(choice, "deep", cost_sums_deep(chooser->problem->gpu->model, vector, share, rows));
  choice_set_int(choice, "threads", SUMS_WARPS * 32);
  choice_set_own(choice, "swapped", 1);
  choice_set_own(choice, "blocks", SUMS_BLOCKS);
  choice->alone = true;
  choice->stages = 1;
  choice->tile_text = arena_printf(chooser->problem->arena, "%ux%ux%u", rows, columns, depth);
  choice->suffix = arena_printf(chooser->problem->arena, "%s_sums", choice->tile_text);
  chooser->n++;
}

double choose_sums_clocks(const Problem *problem, const FusedOperator *direct, int64_t m)
{
  const FusedGemm *gemm = &direct->gemm;
  if (gemm->a_m_major || gemm->b_n_major || m > MOST_SUMS) return -1;
  return sums_clocks(problem, m, choose_direct_vector(problem, direct));
}

/* The product of operands as they lie, read by so many bytes: without wide copies nothing changes places. */
static Problem read_in_place(const Problem *problem, unsigned bytes)
{
  Problem in_place = *problem;
  in_place.turned = NULL;
  in_place.copy_bytes = bytes;
  return in_place;
}

double choose_others_clocks(const Problem *problem, int64_t m, bool odd, unsigned bytes)
{
  const FusedGemm *gemm = &problem->op->gemm;
  FusedCopies copies = {.a = source_of(problem, problem->op->inputs[gemm->a].tensor),
                        .b = source_of(problem, problem->op->inputs[gemm->b].tensor)};
  if (copies.a || copies.b) return best_clocks(problem, false, m, true) + copy_clocks(problem, &copies, m);
  if (!odd && gemm_group_possible(problem)) return best_clocks(problem, false, m, true);
  const Problem in_place = read_in_place(problem, bytes);
  return best_clocks(&in_place, true, m, true);
}

void choose_few_rows(Chooser *chooser)
{
  bool odd = false;
  const FusedOperator *direct = choose_direct(chooser->problem, &odd);
  if (!direct || !odd || direct->gemm.a_m_major || direct->gemm.b_n_major) return;
  int64_t most = choose_maximum(chooser->problem, direct->gemm.m);
  unsigned vector = choose_direct_vector(chooser->problem, direct),
           element = number_bytes(direct->gemm.a_type);
  for (unsigned i = 0; i < G_N_ELEMENTS(sums_rows); i++) {
    int64_t rows = MIN(most, sums_rows[i]);
    if (symbolic_is_constant(direct->gemm.m, NULL) && rows < most) continue;
    if (rows <= choose_rows_taken(chooser)) continue;
    double sums = sums_clocks(chooser->problem, rows, vector),
           others = choose_others_clocks(chooser->problem, rows, odd, vector * element);
    choose_note(chooser, "M = %-6d sums along k of operands as they lie: %.0f clocks, else %.0f", (int)rows,
                sums, others);
    if (others >= 0 && others < sums) return;
    add_sums(chooser, direct, sums_rows[i]);
    if (rows == most) return;
  }
}

/* ---- Copy or not ---- */

bool choose_copies_pay(const Problem *problem, const FusedCopies *copies, const char **why)
{
  const FusedGemm *gemm = &problem->op->gemm;
  const Problem in_place = read_in_place(problem, copies->bytes);
  Problem wide = *problem;
  wide.turned = fused_gemm_transposed(problem->arena, problem->op);
  if (!gemm_group_possible(&wide) || !(problem->gpu->memory_bandwidth > 0)) return false;
  int64_t most = choose_maximum(problem, gemm->m), m = MIN(choose_typical(problem, gemm->m), most);
  double group = best_clocks(&wide, false, m, m == most), made = copy_clocks(&wide, copies, m);
  double direct = best_clocks(&in_place, true, m, m == most);
  if (m == most && m <= MOST_SUMS && sums_possible(&in_place)) {
    double sums = sums_clocks(&in_place, m, MAX(1, copies->bytes / number_bytes(gemm->a_type)));
    if (direct < 0 || sums < direct) direct = sums;
  }
  if (m == most && direct_possible(&in_place)) {
    double dots = choose_dots_clocks(&in_place, m, MAX(1, copies->bytes / number_bytes(gemm->a_type)));
    if (dots >= 0 && (direct < 0 || dots < direct)) direct = dots;
  }
  if (group < 0) return false;
  *why = arena_printf(problem->arena,
                      "at M = %d copied about %.0f clocks (%.0f of them to copy), read in place %.0f", (int)m,
                      group + made, made, direct);
  return direct < 0 || group + made < direct;
}
