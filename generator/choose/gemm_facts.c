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
  return gemm->n_batch && !gemm->dual && symbolic_is_constant(gemm->k, &k) && k <= most;
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

#define MODEL_CYCLES(name)
#define MODEL_RATE(name)
#define MODEL_TIMES(name)
#define MODEL_PART(name)

static const char *const names[] = {
#define GEMM_FACT(name, meaning, value) #name,
#include "generator/choose/gemm_facts.def"
#define MODEL(kind, name, unit) MODEL_##kind(name)
#define MODEL_COUNT(name)       "model." #name,
#include "adl/model.def"
#undef MODEL
#undef MODEL_COUNT
    NULL};

const char *const *gemm_fact_names(void)
{
  return names;
}

int64_t *gemm_facts(const GemmAsked *asked)
{
  const Problem *problem = asked->problem;
  const FusedGemm *gemm = gemm_of(problem->op);
  const CostModel *model = problem->gpu->model;
  const int64_t values[] = {
#define GEMM_FACT(name, meaning, value) (int64_t)(value),
#include "generator/choose/gemm_facts.def"
#define MODEL(kind, name, unit) MODEL_##kind(name)
#define MODEL_COUNT(name)       model->name,
#include "adl/model.def"
#undef MODEL
#undef MODEL_COUNT
  };
  G_STATIC_ASSERT(G_N_ELEMENTS(values) + 1 == G_N_ELEMENTS(names));
  return g_memdup2(values, sizeof values);
}
