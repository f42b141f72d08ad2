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
  choice_set_int(choice, "parts", grad->parts);
  if (!grad->of_rows) {
    bool some = grad->parts > 1 && grad->divided == GRAD_GROUP; /* of the heads that share keys */
    choice_set_int(choice, "shared", !symbolic_equals(some ? problem->op->dims[GRAD_GROUP] : grad->group, 1));
    choice_set_int(choice, "rows_in_parts", grad->parts > 1 && grad->divided == GRAD_ROW);
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

typedef struct {
  double blocks, steps; /* all blocks, and the steps of the longest one's walk */
  double share;         /* of as many steps that blocks have on average */
  double clocks;        /* of a step: products, and exponentials, which they do not hide */
} Walks;

static double typical(const Problem *problem, const Symbolic *extent)
{
  return (double)choose_typical(problem, extent);
}

/* Keys that each row sees between both bounds; 0: there is one of them or none, or they are not known. *bounds: how many there are. */
static double band_of(const FusedAttentionGrad *grad, unsigned *bounds)
{
  int64_t first = G_MININT64, last = G_MAXINT64, number;
  if (grad->causal && symbolic_is_constant(grad->diagonal, &number)) last = number;
  for (unsigned i = 0; i < grad->n_bounds; i++) {
    const AttentionBound *bound = &grad->bounds[i];
    if (!bound->from_row || !symbolic_is_constant(bound->number, &number)) continue;
    if (bound->least)
      first = MAX(first, number);
    else
      last = MIN(last, number);
  }
  bool from = first != G_MININT64, to = last != G_MAXINT64;
  *bounds = from + to;
  return from && to ? (double)MAX(last - first + 1, 0) : 0;
}

/* Tiles of all sides, whole ones. Rows that see keys up to their own, or from there on, leave half of the walks. */
static Walks walks_of(const Problem *problem, const Choice *choice)
{
  const FusedAttentionGrad *grad = attention_grad_of(problem->op);
  const Gpu *gpu = problem->gpu;
  double peak = gpu_peak(gpu, grad->type), depth = typical(problem, grad->depth),
         rate = peak > 0 ? peak / attention_clock(gpu) / gpu->sm_count : gpu->model->default_product;
  double rows = (double)choice_int(choice, "rows", 1), keys = (double)choice_int(choice, "keys", 1),
         heads = typical(problem, grad->group), width = typical(problem, grad->width), parts = grad->parts,
         down = ceil(typical(problem, grad->rows) / rows), across = ceil(typical(problem, grad->keys) / keys),
         pairs = typical(problem, grad->batches) * typical(problem, grad->heads);
  double columns = grad->of_changes
                       ? depth
                       : depth + (grad->gives_depth ? depth + width : 0) + (grad->gives_width ? width : 0);
  double powers = grad->of_changes ? 0 : gpu_fact(gpu, "throughput.special");
  unsigned bounds;
  double band = band_of(grad, &bounds);
  Walks walks = {.share = bounds == 1 ? 0.5 : 1,
                 .clocks = rows * keys * (2 * columns / rate + (powers > 0 ? 1 / powers : 0))};
  if (band > 0) {
    down = fmin(down, ceil((keys + band) / rows));
    across = fmin(across, ceil((rows + band) / keys));
  }
  walks.blocks = pairs * parts *
                 (grad->of_rows ? heads * ceil(typical(problem, grad->rows) / rows)
                                : ceil(typical(problem, grad->keys) / keys));
  walks.steps = (grad->of_rows ? across : heads * down) / parts;
  return walks;
}

#define EVEN                                                                                                 \
  1.1 /* of as long as blocks would take that all SMs share to the end: what parts gain then their sums take */

/* Until the last block ends: alike ones go round by round, others begin with the longest. On all SMs, so that results are the same bits on
 * fewer (--sms): these have the same parts. */
static double product_clocks(const Problem *problem, const Choice *choice, bool *even)
{
  Walks walks = walks_of(problem, choice);
  double shared = walks.blocks / problem->gpu->sm_count * walks.share,
         longest = walks.share < 1 ? fmax(1, shared) : ceil(walks.blocks / problem->gpu->sm_count);
  *even = longest <= EVEN * shared;
  return walks.clocks * walks.steps * longest;
}

/* Sums of parts go through memory; whole ones are few beside what is read. */
static double sums_clocks(const Problem *problem)
{
  const FusedAttentionGrad *grad = attention_grad_of(problem->op);
  const Gpu *gpu = problem->gpu;
  double columns = (grad->gives_depth ? typical(problem, grad->depth) : 0) +
                   (grad->gives_width ? typical(problem, grad->width) : 0),
         of = grad->of_rows ? typical(problem, grad->group) * typical(problem, grad->rows)
                            : typical(problem, grad->keys);
  if (grad->parts == 1 || !(gpu->memory_bandwidth > 0)) return 0;
  double bytes = typical(problem, grad->batches) * typical(problem, grad->heads) * of * grad->parts *
                 columns * sizeof(float);
  return bytes / (gpu->model->copy_efficiency * gpu->memory_bandwidth) * attention_clock(gpu);
}

/* Parts of rows and keys begin with tiles; those of a window have few of the walks' steps, which are not known here. */
static const char *refuse_parts(const Problem *problem, const Choice *choice)
{
  const FusedAttentionGrad *grad = attention_grad_of(problem->op);
  int64_t each, tile = choice_int(choice, grad->of_rows ? "keys" : "rows", 1);
  if (grad->parts == 1 || grad->divided == GRAD_GROUP) return NULL;
  if (grad->n_bounds) return "rows or keys of a window are not divided";
  bool known = symbolic_is_constant(problem->op->dims[grad->divided], &each);
  bool whole = known && each % GRAD_ROWS_OF_PART == 0 && each % tile == 0;
  return whole ? NULL : "its parts do not begin with tiles of rows or keys";
}

void judge_attention_grad(const Problem *problem, bool priced, ProgramVerdict *verdict)
{
  g_autofree Chooser *chooser = g_new0(Chooser, 1);
  const char *why = NULL;
  chooser->problem = problem;
  if (!add_variants(chooser, &why))
    verdict_refuse(verdict, why);
  else if ((why = refuse_parts(problem, &chooser->variants[0])) != NULL)
    verdict_refuse(verdict, why);
  else if (priced)
    verdict_price(
        verdict, product_clocks(problem, &chooser->variants[0], &verdict->even) + sums_clocks(problem), NULL);
}
