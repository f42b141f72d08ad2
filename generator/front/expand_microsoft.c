/* Operators of ONNX Runtime's domain com.microsoft, as its optimiser writes them: activations with a bias, norms with a residual, and
 * positions. Each is a few nodes of ONNX's; what an attribute or input asks beyond that is refused by its name. */
#include "generator/front/expand_microsoft.h"

void expand_refuse_input(Expansion *at, unsigned input, const char *name)
{
  const GraphTensor *tensor = expand_input(at, input);
  if (tensor)
    expand_refuse(at, ERROR_UNSUPPORTED, input, "unsupported-input", NULL,
                  "the input `%s` of %s is not supported: `%s`", name, expand_written(at)->op->name,
                  tensor->name);
}

void expand_refuse_output(Expansion *at, unsigned output, const char *name)
{
  if (expand_wants(at, output))
    expand_refuse(at, ERROR_UNSUPPORTED, G_MAXUINT, "unsupported-output", NULL,
                  "the output `%s` of %s is not supported", name, expand_written(at)->op->name);
}

void expand_refuse_flag(Expansion *at, const char *attribute)
{
  int64_t value = graph_attribute(expand_written(at), attribute)->integer;
  if (value > 0)
    expand_refuse_attribute(at, ERROR_UNSUPPORTED, attribute, NULL, "`%s` %d of %s is not supported",
                            attribute, (int)value, expand_written(at)->op->name);
}

GraphTensor *expand_added(Expansion *at, const char *part, GraphTensor *x, GraphTensor *more)
{
  return more ? expand(at, ONNX_Add, part, x, more) : x;
}

/* ---- activations ---- */

static GraphTensor *gelu(Expansion *at, GraphTensor *x, const char *approximate)
{
  return expand_node(
      at, &(ExpandNode){ONNX_Gelu, "gelu", 1, {x}, .attributes = {{"approximate", .text = approximate}}});
}

void expand_bias_gelu(Expansion *at)
{
  expand_give(at, 0, gelu(at, expand_added(at, "biased", expand_input(at, 0), expand_input(at, 1)), "none"));
}

void expand_fast_gelu(Expansion *at)
{
  expand_give(at, 0, gelu(at, expand_added(at, "biased", expand_input(at, 0), expand_input(at, 1)), "tanh"));
}

void expand_quick_gelu(Expansion *at)
{
  double alpha = graph_attribute(expand_written(at), "alpha")->number;
  expand_give(at, 0,
              expand_node(at, &(ExpandNode){ONNX_Swish,
                                            "swish",
                                            1,
                                            {expand_input(at, 0)},
                                            .attributes = {{"alpha", .number = alpha}}}));
}

/* ---- products ---- */

static GraphTensor *turned(Expansion *at, unsigned input, const char *attribute)
{
  GraphTensor *x = expand_input(at, input);
  int64_t order[GRAPH_MAX_RANK];
  if (!graph_attribute(expand_written(at), attribute)->integer || x->rank < 2) return x;
  for (unsigned d = 0; d < x->rank; d++)
    order[d] = d + 2 < x->rank ? d : d + 1 == x->rank ? d - 1 : d + 1;
  return expand_transpose(at, "turned", x, order);
}

void expand_fused_matmul(Expansion *at)
{
  double alpha = graph_attribute(expand_written(at), "alpha")->number;
  expand_refuse_flag(at, "transBatchA");
  expand_refuse_flag(at, "transBatchB");
  GraphTensor *a = turned(at, 0, "transA"), *b = turned(at, 1, "transB");
  expand_give(
      at, 0,
      expand_node(
          at, &(ExpandNode){ONNX_MatMul, "product", 2, {a, b}, .attributes = {{"alpha", .number = alpha}}}));
}

/* ---- norms ---- */

enum { INPUT, SKIP, GAMMA };
enum { OUTPUT, MEAN, INVERSE, SUM };

static GraphTensor *residual(Expansion *at, unsigned bias)
{
  GraphTensor *sum = expand(at, ONNX_Add, "sum", expand_input(at, INPUT), expand_input(at, SKIP));
  return expand_added(at, "biased", sum, expand_input(at, bias));
}

void expand_skip_layer_norm(Expansion *at)
{
  GraphTensor *sum = residual(at, 4), *further[2] = {NULL, NULL};
  double epsilon = graph_attribute(expand_written(at), "epsilon")->number;
  bool statistics = expand_wants(at, MEAN) || expand_wants(at, INVERSE);
  GraphTensor *norm =
      expand_node(at, &(ExpandNode){ONNX_LayerNormalization,
                                    "norm",
                                    3,
                                    {sum, expand_input(at, GAMMA), expand_input(at, 3)},
                                    .attributes = {{"axis", -1}, {"epsilon", .number = epsilon}},
                                    .further = further,
                                    .n_further = statistics ? 2 : 0});
  expand_give(at, MEAN, further[0]);
  expand_give(at, INVERSE, further[1]);
  expand_give(at, SUM, sum);
  expand_give(at, OUTPUT, norm);
}

void expand_skip_rms_norm(Expansion *at)
{
  GraphTensor *sum = residual(at, 3);
  double epsilon = graph_attribute(expand_written(at), "epsilon")->number;
  expand_refuse_output(at, MEAN, "mean");
  expand_refuse_output(at, INVERSE, "inv_std_var");
  GraphTensor *norm =
      expand_node(at, &(ExpandNode){ONNX_RMSNormalization,
                                    "norm",
                                    2,
                                    {sum, expand_input(at, GAMMA)},
                                    .attributes = {{"axis", -1}, {"epsilon", .number = epsilon}}});
  expand_give(at, SUM, sum);
  expand_give(at, OUTPUT, norm);
}

/* ---- positions ---- */

GraphTensor *expand_positions(Expansion *at, GraphTensor *x)
{
  if (expand_failed(at)) return NULL;
  const int64_t others[] = {x->rank - 1, 1}, zeros[] = {0, 0}, ones[] = {1, 1}; /* elements, and heads */
  unsigned n = x->rank == 4 ? 2 : 1;
  GraphTensor *axes = expand_integers(at, "axes", others, n);
  GraphTensor *first = expand_node(at, &(ExpandNode){ONNX_Slice,
                                                     "places",
                                                     4,
                                                     {x, expand_integers(at, "starts", zeros, n),
                                                      expand_integers(at, "ends", ones, n), axes}});
  GraphTensor *flat = expand(at, ONNX_Squeeze, "places", first, axes);
  GraphTensor *places =
      expand_node(at, &(ExpandNode){ONNX_IndexAlong, "places", 1, {flat}, .attributes = {{"axis", -1}}});
  return places;
}

void expand_microsoft_rotary(Expansion *at)
{
  const GraphNode *node = expand_written(at);
  GraphTensor *x = expand_input(at, 0), *positions = expand_input(at, 1);
  int64_t heads = graph_attribute(node, "num_heads")->integer, width, pairs;
  bool flat = x->rank == 3;
  if (graph_attribute(node, "scale")->number != 1)
    expand_refuse_attribute(at, ERROR_UNSUPPORTED, "scale", NULL,
                            "`scale` of RotaryEmbedding is not supported");
  expand_refuse_flag(at, "is_packed_batching");
  if (!heads && flat && symbolic_is_constant(x->shape[2], &width) &&
      symbolic_is_constant(expand_input(at, 2)->shape[1], &pairs) && pairs > 0)
    heads = width / (2 * pairs);
  if (!expand_failed(at) && positions->rank < 2) /* one number: where the first row stands */
    positions = expand(at, ONNX_Add, "positions", expand_cast(at, "first", positions, NUMBER_S32),
                       expand_positions(at, x));
  GraphTensor *angles[2];
  for (unsigned i = 0; i < 2; i++)
    angles[i] = expand(at, ONNX_Gather, "angles", expand_input(at, 2 + i), positions);
  int64_t interleaved = graph_attribute(node, "interleaved")->integer,
          dim = graph_attribute(node, "rotary_embedding_dim")->integer;
  expand_give(at, 0,
              expand_node(at, &(ExpandNode){ONNX_RotaryEmbedding,
                                            "turned",
                                            3,
                                            {x, angles[0], angles[1]},
                                            .attributes = {{"interleaved", interleaved},
                                                           {"num_heads", flat ? heads : 0},
                                                           {"rotary_embedding_dim", dim}}}));
}
