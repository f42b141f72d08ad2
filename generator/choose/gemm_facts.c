#include "generator/choose/gemm_facts.h"
#include "generator/choose/gemm_memo.h"
#include "generator/choose/gemm_rules.h"
#include "generator/choose/gemm_straddle.h"

/* Batches whose tiles end after a step or two: a block copies little while it starts and ends, so that of two
 * an SM hardly one has copies on their way. */
static bool is_short(const Problem *problem)
{
  const FusedGemm *gemm = gemm_of(problem->op);
  int64_t k, most = problem->gpu->model->short_steps * 2 * number_elements(gemm->a_type, 128);
  return gemm->n_batch && !gemm_has_several(gemm) && symbolic_is_constant(gemm->k, &k) && k <= most;
}

/* Would a tile with swap-AB write whole lines, and read nothing else that lies along D's rows? */
static bool stores_across(const Problem *problem)
{
  const FusedOperator *op = problem->turned;
  unsigned column = op->rank - 1, row = op->rank - 2;
  for (unsigned i = 0; i < op->n_inputs; i++)
    if (!symbolic_equals(op->inputs[i].strides[row], 0) && !symbolic_equals(op->inputs[i].strides[column], 0))
      return false;
  for (unsigned i = 0; i < op->n_outputs; i++) {
    unsigned bytes = number_bytes(op->outputs[i].tensor->type);
    if (!op->outputs[i].strides[row]) return false; /* an operator that is weighed before it is fused */
    bool whole = symbolic_multiple(op->dims[row], &problem->graph->facts) * bytes % 16 == 0;
    if (op->outputs[i].reduced || !symbolic_equals(op->outputs[i].strides[row], 1) || bytes < 2 || !whole)
      return false;
  }
  return true;
}

#define FACTS            "generator/choose/gemm_facts.def"
#define FACT_NAMES       const char *const gemm_fact_names
#define FACT_ARGUMENTS   const Problem *problem, const GemmAsked *asked
#define FACT_LOCALS      const FusedGemm *gemm = gemm_of(problem->op)
#define FACT_TRIED_NAMES const char *const gemm_facts_tried
#include "generator/choose/fact_table.h"

int64_t *gemm_facts(const GemmAsked *asked)
{
  return fact_values(asked->problem, asked);
}

int64_t gemm_problem_fact(const Problem *problem, unsigned index)
{
  return problem_fact(problem, index);
}
