/* What operators of com.microsoft that attend have in common: operands that lie behind one another are parted, biases added, queries and keys
 * turned. */
#include "generator/front/expand_microsoft.h"

int64_t expand_heads_attribute(Expansion *at, const char *name)
{
  int64_t heads = graph_attribute(expand_written(at), name)->integer;
  if (heads < 1)
    expand_refuse_attribute(at, ERROR_INPUT, name, NULL, "`%s` is a number of heads, not %d", name,
                            (int)heads);
  return heads;
}

void expand_split(Expansion *at, GraphTensor *x, int64_t axis, const int64_t *sizes, unsigned n,
                  GraphTensor **parts)
{
  parts[0] = expand_node(at, &(ExpandNode){ONNX_Split,
                                           "part",
                                           2,
                                           {x, expand_integers(at, "sizes", sizes, n)},
                                           .attributes = {{"axis", axis}},
                                           .further = parts + 1,
                                           .n_further = n - 1});
}

static bool turns(const Expansion *at)
{
  return graph_attribute(expand_written(at), "do_rotary")->integer != 0;
}

void expand_heads_unpack(Expansion *at, ExpandHeads *of)
{
  GraphTensor *parts[3] = {NULL, NULL, NULL};
  int64_t width = 0, all = of->heads + 2 * of->kv_heads;
  unsigned last = of->rank - 1;
  if (expand_failed(at) || (of->k && of->v)) return;
  bool known = of->q->rank == of->rank && symbolic_is_constant(of->q->shape[last], &width);
  if (!known || width % all || of->k || of->v) {
    expand_refuse(at, ERROR_INPUT, 0, "shape", "keys and values, or a query with both behind it",
                  "`%s` does not hold %d heads of queries, keys and values", of->q->name, (int)all);
    return;
  }
  int64_t d = width / all, q = of->heads * d, kv = of->kv_heads * d;
  if (turns(at)) {
    expand_split(at, of->q, last, (int64_t[]){q + kv, kv}, 2, parts);
    of->joint = parts[0];
    of->v = parts[1];
    return;
  }
  expand_split(at, of->q, last, (int64_t[]){q, kv, kv}, 3, parts);
  of->q = parts[0];
  of->k = parts[1];
  of->v = parts[2];
}

void expand_heads_bias(Expansion *at, ExpandHeads *of, unsigned input)
{
  GraphTensor *bias = expand_input(at, input), *parts[3] = {NULL, NULL, NULL};
  GraphTensor **const operands[] = {&of->q, &of->k, &of->v};
  int64_t sizes[3] = {0, 0, 0};
  if (!bias || expand_failed(at)) return;
  for (unsigned i = 0; i < 3; i++) {
    const GraphTensor *x = *operands[i];
    if (x->rank == of->rank && symbolic_is_constant(x->shape[of->rank - 1], &sizes[i])) continue;
    expand_refuse(at, ERROR_UNSUPPORTED, input, "shape", "bind the symbol: --dim",
                  "a bias of operands that are not rows of a known size is not supported");
    return;
  }
  expand_split(at, bias, 0, sizes, 3, parts);
  for (unsigned i = 0; i < 3; i++)
    *operands[i] = expand_added(at, "biased", *operands[i], parts[i]);
}

bool expand_heads_turn(Expansion *at, unsigned cosine, unsigned sine)
{
  if (!turns(at) || expand_failed(at)) return false;
  if (expand_input(at, cosine) && expand_input(at, sine)) return true;
  expand_refuse(at, ERROR_INPUT, G_MAXUINT, "missing-input", NULL,
                "`do_rotary` of %s needs cos_cache and sin_cache", expand_written(at)->op->name);
  return false;
}

GraphTensor *expand_heads_turned(Expansion *at, const char *part, GraphTensor *x, int64_t heads,
                                 GraphTensor *const *angles)
{
  int64_t interleaved = graph_attribute(expand_written(at), "rotary_interleaved")->integer, pairs = 0,
          width = 0;
  if (expand_failed(at)) return NULL;
  bool known = symbolic_is_constant(angles[0]->shape[angles[0]->rank - 1], &pairs) &&
               symbolic_is_constant(x->shape[x->rank - 1], &width);
  int64_t dim = known && 2 * pairs != width / heads ? 2 * pairs : 0;
  return expand_node(at, &(ExpandNode){ONNX_RotaryEmbedding,
                                       part,
                                       3,
                                       {x, angles[0], angles[1]},
                                       .attributes = {{"interleaved", interleaved},
                                                      {"num_heads", heads},
                                                      {"rotary_embedding_dim", dim}}});
}

void expand_heads_part(Expansion *at, ExpandHeads *of, GraphTensor *joint)
{
  GraphTensor *parts[2] = {NULL, NULL};
  int64_t width = 0;
  if (!expand_failed(at)) symbolic_is_constant(joint->shape[of->rank - 1], &width);
  width /= of->heads + of->kv_heads;
  expand_split(at, joint, of->rank - 1, (int64_t[]){of->heads * width, of->kv_heads * width}, 2, parts);
  of->q = parts[0];
  of->k = parts[1];
}
