/* AttentionGradPart: gradients of attention's queries, keys or values, each part a kernel. */
#include "generator/front/gradient.h"
#include "generator/front/infer_private.h"

static bool refuse(Inference *at, unsigned input, const char *id, const char *what)
{
  const GraphTensor *tensor = at->node->inputs[input];
  g_autofree char *text = graph_shape_text(tensor->shape, tensor->rank);
  return infer_refuse(at, ERROR_INPUT, &at->node->input_marks[input], id, NULL,
                      "`%s` of AttentionGradPart is %s %s; %s", tensor->name, number_name(tensor->type), text,
                      what);
}

bool infer_gradient_type(Inference *at, NumberType *type)
{
  const GraphNode *node = at->node;
  *type = node->inputs[GRADIENT_GRAD]->type;
  if (!(node->op->types >> *type & 1)) return refuse(at, GRADIENT_GRAD, "type", "it is of 16-bit floats");
  for (unsigned i = GRADIENT_Q; i <= GRADIENT_DELTA; i++) {
    NumberType want = i <= GRADIENT_V ? *type : NUMBER_F32;
    if (node->inputs[i]->type != want)
      return refuse(at, i, "type", i <= GRADIENT_V ? "operands are of one type" : "sums of rows are f32");
  }
  if (graph_gradient_of_changes(node) && node->inputs[GRADIENT_CHANGES]->type != *type)
    return refuse(at, GRADIENT_CHANGES, "type", "operands are of one type");
  return true;
}

static bool check(Inference *at, unsigned input, const Symbolic *const *want, unsigned rank)
{
  const GraphTensor *tensor = at->node->inputs[input];
  bool same = tensor->rank == rank;
  for (unsigned d = 0; same && d < rank; d++)
    same = infer_same(at, tensor->shape[d], want[d]);
  if (same) return true;
  g_autofree char *wanted = graph_shape_text(want, rank);
  g_autofree char *message = g_strdup_printf("it is to be %s", wanted);
  return refuse(at, input, "shape", message);
}

/* Dimensions are those of [batch, heads, rows, keys], or 1, counted from the last. */
static bool check_mask(Inference *at, const Symbolic *const *scores)
{
  const GraphNode *node = at->node;
  const GraphTensor *mask = node->n_inputs > GRADIENT_MASK ? node->inputs[GRADIENT_MASK] : NULL;
  if (!mask) return true;
  bool fits = mask->rank <= 4;
  for (unsigned d = 0; fits && d < mask->rank; d++)
    fits = symbolic_equals(mask->shape[d], 1) || infer_same(at, mask->shape[d], scores[4 - mask->rank + d]);
  return fits || refuse(at, GRADIENT_MASK, "shape", "it does not broadcast to [batch, heads, rows, keys]");
}

bool infer_gradient(Inference *at, Shape *shape)
{
  const GraphNode *node = at->node;
  const GraphTensor *q = node->inputs[GRADIENT_Q], *k = node->inputs[GRADIENT_K],
                    *v = node->inputs[GRADIENT_V];
  static const unsigned outputs[] = {GRADIENT_Q, GRADIENT_K, GRADIENT_V};
  for (unsigned i = GRADIENT_GRAD; i <= GRADIENT_V; i++)
    if (node->inputs[i]->rank != 4) return refuse(at, i, "rank", "it is to be [batch, heads, rows, size]");
  const Symbolic *const scores[] = {q->shape[0], q->shape[1], q->shape[2], k->shape[2]};
  const Symbolic *const grad[] = {q->shape[0], q->shape[1], q->shape[2], v->shape[3]};
  const Symbolic *const keys[] = {q->shape[0], k->shape[1], k->shape[2], q->shape[3]};
  const Symbolic *const values[] = {q->shape[0], k->shape[1], k->shape[2], v->shape[3]};
  if (!check(at, GRADIENT_GRAD, grad, 4) || !check(at, GRADIENT_K, keys, 4) ||
      !check(at, GRADIENT_V, values, 4) || !check(at, GRADIENT_SUMS, scores, 3) ||
      !check(at, GRADIENT_DELTA, scores, 3) || !check_mask(at, scores))
    return false;
  int64_t heads, own;
  bool known = symbolic_is_constant(q->shape[1], &heads) && symbolic_is_constant(k->shape[1], &own);
  if (!symbolic_same(q->shape[1], k->shape[1]) && (!known || own < 1 || heads % own))
    return refuse(at, GRADIENT_Q, "shape", "its heads are a known number, a multiple of those of the keys");
  if (node->n_outputs > 1 && graph_gradient(node) != GRADIENT_OF_KEYS)
    return infer_refuse(at, ERROR_INPUT, &node->mark, "outputs", NULL,
                        "AttentionGradPart has a second output where `of` is keys");
  if (graph_gradient_of_changes(node) && graph_gradient(node) != GRADIENT_OF_QUERIES)
    return refuse(at, GRADIENT_CHANGES, "input", "`of` is to be queries");
  if (graph_gradient_of_changes(node)) {
    const Symbolic *const changes[] = {q->shape[0], q->shape[1], k->shape[2], q->shape[2]};
    if (!check(at, GRADIENT_CHANGES, changes, 4)) return false;
  }
  *shape = infer_shape_of(node->inputs[outputs[graph_gradient(node)]]);
  return true;
}

void infer_gradient_further(Inference *at, unsigned output, NumberType *type, Shape *shape)
{
  const GraphTensor *q = at->node->inputs[GRADIENT_Q], *v = at->node->inputs[GRADIENT_V];
  *type = v->type;
  *shape = infer_shape_of(output == 1 ? v : q);
  if (output == 1) return;
  shape->dims[2] = v->shape[2];
  shape->dims[3] = q->shape[2];
}
