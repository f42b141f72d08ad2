/* Gradients of attention: of the tiles that a template says are tried the first that the passes, run dry, let be. A variant for operands that
 * TMA or whole vectors copy comes first, then one for any. */
#include "generator/program/attention_grad.h"
#include "generator/choose/attention.h"
#include "generator/choose/contest.h"
#include "generator/choose/verdict.h"
#include <math.h>

#define VECTOR_BYTES 16 /* of the widest copy, and what TMA's strides and addresses are multiples of */

#define FACTS            "generator/choose/attention_grad_facts.def"
#define FACT_NAMES       static const char *const facts
#define FACT_TRIED_NAMES static const char *const tried_facts
#define FACT_ARGUMENTS   const Problem *problem, bool any
#define FACT_LOCALS      const FusedAttentionGrad *grad = attention_grad_of(problem->op)
#include "generator/choose/fact_table.h"

static const char *template_of(const Problem *problem)
{
  const FusedAttentionGrad *grad = attention_grad_of(problem->op);
  return grad->of_changes ? "attention_grad_rows"
         : grad->of_rows  ? "attention_grad_queries"
                          : "attention_grad_keys";
}

const SpaceKind *space_kind_attention_grad(void)
{
  static const Axis axes[] = {{"rows", 1}, {"keys", 1}, {"stages", 1}, {"heads", 1}};
  static const SpaceKind kind =
      SPACE_KIND("attention_grad_keys attention_grad_queries attention_grad_rows", axes, NULL, true);
  return &kind;
}

/* ---- a tile ---- */

static void set_tile(const AttentionTrial *trial, const Candidate *tile)
{
  const Problem *problem = trial->problem;
  Choice *choice = trial->choice;
  const FusedAttentionGrad *grad = attention_grad_of(problem->op);
  choice->n_parameters = 0;
  choice_set_name(choice, "t", number_name(grad->type));
  candidate_carry(tile, choice, NULL, NULL);
  if (grad->of_changes) {
    attention_set_columns(choice, grad->type, grad->depth, grad->causal);
  } else {
    attention_set_heads(choice, grad->type, grad->depth, grad->width, 1, grad->causal);
    choice_set_int(choice, "window", attention_grad_lowest(grad) != NULL);
  }
  choice_set_float(choice, "factor", grad->factor);
  if (!grad->of_rows) {
    choice_set_int(choice, "shared", !symbolic_equals(grad->group, 1));
    choice_set_int(choice, "gives", !grad->gives_depth ? 2 : !grad->gives_width);
    choice_set_int(choice, "leaves", grad->gives_changes != G_MAXUINT);
  }
  choice->stages = (unsigned)candidate_int(tile, "stages");
  choice->tile_text = arena_printf(problem->arena, "%dx%d", (int)candidate_int(tile, "rows"),
                                   (int)candidate_int(tile, "keys"));
  choice->suffix = arena_printf(problem->arena, "%s%s%s", choice->tile_text, trial->variant ? "_any" : "",
                                candidate_words(tile, problem->arena));
}

/* ---- variants ---- */

static bool require_vectors(const Problem *problem, Choice *choice)
{
  const FusedOperator *op = problem->op;
  const FusedAttentionGrad *grad = attention_grad_of(op);
  for (unsigned i = 0; i < op->n_inputs; i++) {
    NumberType type = op->inputs[i].tensor->type;
    bool lies_along_rows = i == grad->sums || i == grad->delta || i == grad->changes, /* elements of rows */
        rows = fused_is_contracted(op, i) || lies_along_rows;
    for (unsigned d = 0; rows && d < GRAD_DEPTH; d++) {
      bool elements = lies_along_rows && d == GRAD_ROW;
      if (!elements && !choose_require_multiple(problem, choice, op->inputs[i].strides[d],
                                                number_elements(type, VECTOR_BYTES)))
        return false;
    }
    bool lies = choose_require_align(problem, choice, op->inputs[i].tensor, VECTOR_BYTES);
    if (!lies && rows) return false; /* what scores take besides is loaded as it lies */
  }
  for (unsigned i = 0; i < op->n_outputs; i++)
    if (!choose_require_align(problem, choice, op->outputs[i].tensor, VECTOR_BYTES)) return false;
  return true;
}

static bool add_variants(Chooser *chooser, const char **why)
{
  const Problem *problem = chooser->problem;
  for (unsigned any = 0; any < 2; any++) {
    Choice *choice = choose_open(chooser, template_of(problem));
    g_autofree int64_t *values = fact_values(problem, any);
    AttentionTrial trial = {problem, choice, any, set_tile, why, false};
    if (!any && !require_vectors(problem, choice)) continue;
    if (!attention_pick(&trial, template_of(problem), values)) continue;
    chooser->n++;
    if (!choice->guard) return true;
  }
  return false;
}

bool choose_attention_grad(Chooser *chooser)
{
  return attention_choose(chooser, add_variants, "attention's gradients");
}

/* ---- price ---- */

/* Products at the tensor cores' rate. */
static double product_clocks(const Problem *problem)
{
  const FusedAttentionGrad *grad = attention_grad_of(problem->op);
  const Gpu *gpu = problem->gpu;
  double peak = gpu_peak(gpu, grad->type),
         rate = peak > 0 ? peak / attention_clock(gpu) : gpu->model->default_product * gpu->sm_count;
  double depth = (double)choose_typical(problem, grad->depth),
         width = (double)choose_typical(problem, grad->width);
  double columns = grad->of_changes
                       ? depth
                       : depth + (grad->gives_depth ? depth + width : 0) + (grad->gives_width ? width : 0);
  double scores = (double)choose_typical(problem, grad->batches) *
                  (double)choose_typical(problem, grad->heads) *
                  (double)choose_typical(problem, grad->group) * (double)choose_typical(problem, grad->rows) *
                  (double)choose_typical(problem, grad->keys) / (grad->causal ? 2 : 1);
  return 2 * scores * columns / rate;
}

void judge_attention_grad(const Problem *problem, bool priced, ProgramVerdict *verdict)
{
  g_autofree Chooser *chooser = g_new0(Chooser, 1);
  const char *why = NULL;
  chooser->problem = problem;
  if (!add_variants(chooser, &why))
    verdict_refuse(verdict, why);
  else if (priced)
    verdict_price(verdict, product_clocks(problem), NULL);
}
