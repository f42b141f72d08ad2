/* Functions of rows: reductions with steps in front of and behind their sums, and normalisations. Sums are made of f32, and
 * so are steps behind them: fusion makes one kernel of all, or of a part where rows do not allow it. */
#include "generator/front/expand_rows.h"
#include <math.h>

/* ---- what bodies share ---- */

GraphTensor *expand_widened(Expansion *at, GraphTensor *x)
{
  bool narrow = x && number_class(x->type) == NUMBER_FLOAT && number_bits(x->type) < number_bits(NUMBER_F32);
  return narrow ? expand_cast(at, "wide", x, NUMBER_F32) : x;
}

void expand_give_narrowed(Expansion *at, unsigned output, GraphTensor *value)
{
  expand_give(at, output, expand_cast(at, "narrow", value, expand_input(at, 0)->type));
}

GraphTensor *expand_axes(Expansion *at, uint32_t axes)
{
  int64_t items[GRAPH_MAX_RANK];
  unsigned n = 0;
  for (unsigned d = 0; d < GRAPH_MAX_RANK; d++)
    if (axes >> d & 1) items[n++] = d;
  return expand_integers(at, "axes", items, n);
}

static GraphTensor *reduce(Expansion *at, OperatorId op, const char *part, GraphTensor *x, uint32_t axes,
                           bool stay)
{
  return expand_node(
      at, &(ExpandNode){op, part, 2, {x, expand_axes(at, axes)}, .attributes = {{"keepdims", stay}}});
}

GraphTensor *expand_reduce(Expansion *at, OperatorId op, const char *part, GraphTensor *x, uint32_t axes)
{
  return reduce(at, op, part, x, axes, true);
}

GraphTensor *expand_reduce_away(Expansion *at, OperatorId op, const char *part, GraphTensor *x, uint32_t axes)
{
  return reduce(at, op, part, x, axes, false);
}

bool expand_read_axis(Expansion *at, unsigned *axis)
{
  const GraphNode *node = expand_written(at);
  unsigned rank = expand_input(at, 0)->rank;
  int64_t value = graph_attribute(node, "axis")->integer;
  if (value < -(int64_t)rank || value >= (int64_t)rank) {
    expand_refuse(at, ERROR_INPUT, 0, "axis", NULL, "axis %d of a tensor of rank %u", (int)value, rank);
    return false;
  }
  *axis = (unsigned)(value < 0 ? value + rank : value);
  return true;
}

/* Beside what is computed of the first input. */
static GraphTensor *number(Expansion *at, double value)
{
  const GraphTensor *x = expand_input(at, 0);
  return expand_number(at, "number", x && x->type == NUMBER_F64 ? NUMBER_F64 : NUMBER_F32, value);
}

/* ---- reductions ---- */

static bool is_mean_of_integers(const GraphNode *node)
{
  return node->op->id == ONNX_ReduceMean && number_class(node->inputs[0]->type) != NUMBER_FLOAT;
}

bool expand_reduces_number(const GraphNode *node)
{
  return node->op->class_ == OPERATOR_ROW && node->op->shape_rule == SHAPE_RULE_REDUCE &&
         (!node->inputs[0]->rank || is_mean_of_integers(node));
}

/* Over the axes and with the attributes that are written. */
static GraphTensor *reduce_as_written(Expansion *at, OperatorId op, const char *part, GraphTensor *x)
{
  const GraphNode *node = expand_written(at);
  const GraphAttribute *list = graph_attribute_find(node, "axes"),
                       *noop = graph_attribute_find(node, "noop_with_empty_axes");
  GraphTensor *axes = expand_input(at, 1);
  if (list && list->given) axes = expand_integers(at, "axes", list->integers, list->n);
  return expand_node(at,
                     &(ExpandNode){op,
                                   part,
                                   axes ? 2 : 1,
                                   {x, axes},
                                   .attributes = {{"keepdims", graph_attribute(node, "keepdims")->integer},
                                                  {"noop_with_empty_axes", noop ? noop->integer : 0}}});
}

/* The sum, which wraps as the type does, divided without what is behind the point; of nothing 0. */
static GraphTensor *mean_of_integers(Expansion *at)
{
  const GraphTensor *x = expand_input(at, 0);
  Arena *arena = expand_arena(at);
  const Symbolic *one = symbolic_constant(arena, 1), *count = one;
  GraphTensor *sum = reduce_as_written(at, ONNX_ReduceSum, "sum", expand_input(at, 0));
  for (unsigned d = 0; d < x->rank; d++)
    if (expand_written(at)->axes >> d & 1) count = symbolic_mul(arena, count, x->shape[d]);
  count = infer_larger(expand_graph(at), count, one);
  GraphTensor *terms = expand_cast(at, "terms", expand_known(at, "count", &count, 1, 0), x->type);
  return expand(at, ONNX_Div, "mean", sum, terms);
}

/* Of one element: itself. */
void expand_reduce_number(Expansion *at)
{
  bool one = !expand_input(at, 0)->rank;
  expand_give(at, 0,
              one ? expand(at, ONNX_Identity, "same", expand_input(at, 0), NULL) : mean_of_integers(at));
}

static GraphTensor *squared(Expansion *at, GraphTensor *x)
{
  return expand(at, ONNX_Mul, "square", x, x);
}

void expand_reduce_l1(Expansion *at)
{
  GraphTensor *size = expand(at, ONNX_Abs, "size", expand_widened(at, expand_input(at, 0)), NULL);
  expand_give_narrowed(at, 0, reduce_as_written(at, ONNX_ReduceSum, "sum", size));
}

void expand_reduce_sum_square(Expansion *at)
{
  GraphTensor *square = squared(at, expand_widened(at, expand_input(at, 0)));
  expand_give_narrowed(at, 0, reduce_as_written(at, ONNX_ReduceSum, "sum", square));
}

void expand_reduce_l2(Expansion *at)
{
  GraphTensor *square = squared(at, expand_widened(at, expand_input(at, 0)));
  GraphTensor *sum = reduce_as_written(at, ONNX_ReduceSum, "sum", square);
  expand_give_narrowed(at, 0, expand(at, ONNX_Sqrt, "root", sum, NULL));
}

void expand_reduce_log_sum(Expansion *at)
{
  GraphTensor *sum = reduce_as_written(at, ONNX_ReduceSum, "sum", expand_widened(at, expand_input(at, 0)));
  expand_give_narrowed(at, 0, expand(at, ONNX_Log, "log", sum, NULL));
}

/* ---- normalisations ---- */

/* Of norms of 0 the result is 0. */
void expand_lp_normalization(Expansion *at)
{
  unsigned axis;
  int64_t p = graph_attribute(expand_written(at), "p")->integer;
  if (p != 1 && p != 2) {
    expand_refuse_attribute(at, ERROR_INPUT, "p", "1 or 2", "there is no norm %d", (int)p);
    return;
  }
  if (!expand_read_axis(at, &axis)) return;
  GraphTensor *x = expand_widened(at, expand_input(at, 0));
  GraphTensor *term = p == 1 ? expand(at, ONNX_Abs, "size", x, NULL) : squared(at, x);
  GraphTensor *norm = expand_reduce(at, ONNX_ReduceSum, "sum", term, 1u << axis);
  if (p == 2) norm = expand(at, ONNX_Sqrt, "norm", norm, NULL);
  if (expand_failed(at)) return;
  GraphTensor *zero = expand(at, ONNX_Equal, "zero", norm, expand_number(at, "number", norm->type, 0));
  GraphTensor *divisor = expand_where(at, "divisor", zero, expand_number(at, "one", norm->type, 1), norm);
  expand_give_narrowed(at, 0, expand(at, ONNX_Div, "share", x, divisor));
}

typedef struct {
  GraphTensor *centred, *mean, *variance; /* of all elements along some axes */
} Moments;

/* Rows of kernels lie side by side: of axes that others part the last are taken first. */
static GraphTensor *mean_of(Expansion *at, const char *part, GraphTensor *x, uint32_t axes)
{
  uint32_t rest = axes;
  for (unsigned d = expand_input(at, 0)->rank; d-- > 0 && rest;) {
    uint32_t run = 0;
    for (; rest >> d & 1; d--) {
      run |= 1u << d;
      if (!d) break;
    }
    if (run) x = expand_reduce(at, ONNX_ReduceMean, part, x, run);
    rest &= ~run;
  }
  return x;
}

static Moments moments_of(Expansion *at, GraphTensor *x, uint32_t axes)
{
  Moments moments;
  moments.mean = mean_of(at, "mean", x, axes);
  moments.centred = expand(at, ONNX_Sub, "centred", x, moments.mean);
  moments.variance = mean_of(at, "variance", squared(at, moments.centred), axes);
  return moments;
}

GraphTensor *expand_inverse(Expansion *at, GraphTensor *variance)
{
  double epsilon = graph_attribute(expand_written(at), "epsilon")->number;
  GraphTensor *sum = expand(at, ONNX_Add, "safe", variance, number(at, epsilon));
  return expand(at, ONNX_Reciprocal, "inverse", expand(at, ONNX_Sqrt, "deviation", sum, NULL), NULL);
}

/* (x - mean) / (deviation + 1e-9) */
void expand_mean_variance_normalization(Expansion *at)
{
  static const int64_t by_default[] = {0, 2, 3};
  const GraphAttribute *list = graph_attribute(expand_written(at), "axes");
  const int64_t *items = list->given ? list->integers : by_default;
  unsigned n = list->given ? list->n : G_N_ELEMENTS(by_default), rank = expand_input(at, 0)->rank;
  uint32_t axes = 0;
  for (unsigned i = 0; i < n; i++) {
    int64_t axis = items[i] < 0 ? items[i] + rank : items[i];
    if (axis < 0 || axis >= rank) {
      expand_refuse_attribute(at, ERROR_INPUT, "axes", "without `axes` a tensor of [N, C, H, W] is meant",
                              "axis %d of a tensor of rank %u", (int)items[i], rank);
      return;
    }
    axes |= 1u << axis;
  }
  Moments moments = moments_of(at, expand_widened(at, expand_input(at, 0)), axes);
  GraphTensor *deviation = expand(at, ONNX_Sqrt, "deviation", moments.variance, NULL);
  GraphTensor *divisor = expand(at, ONNX_Add, "divisor", deviation, number(at, 1e-9));
  expand_give_narrowed(at, 0, expand(at, ONNX_Div, "normal", moments.centred, divisor));
}

/* A vector along dimension 1 of x, in f32: [C, 1, ..]. */
static GraphTensor *along_channels(Expansion *at, const char *part, GraphTensor *vector)
{
  int64_t axes[GRAPH_MAX_RANK];
  unsigned n = 0;
  for (unsigned d = 2; d < expand_input(at, 0)->rank; d++)
    axes[n++] = d - 1;
  if (n) vector = expand(at, ONNX_Unsqueeze, part, vector, expand_integers(at, "axes", axes, n));
  return expand_widened(at, vector);
}

/* Inputs from `first` on have an element for each channel, which is dimension 1 of input 0. */
static bool check_channels(Expansion *at, unsigned first)
{
  const GraphTensor *x = expand_input(at, 0);
  if (x->rank < 2) {
    expand_refuse(at, ERROR_INPUT, 0, "rank", NULL, "%s takes [N, C, ...]: `%s` has rank %u",
                  expand_written(at)->op->name, x->name, x->rank);
    return false;
  }
  for (unsigned i = first; i < expand_written(at)->n_inputs; i++) {
    const GraphTensor *vector = expand_input(at, i);
    if (vector->rank == 1 && symbolic_same(vector->shape[0], x->shape[1])) continue;
    g_autofree char *have = graph_shape_text(vector->shape, vector->rank),
                    *want = graph_shape_text(&x->shape[1], 1);
    expand_refuse(at, ERROR_INPUT, i, "shape", NULL, "`%s` has shape %s, not %s", vector->name, have, want);
    return false;
  }
  return true;
}

static uint32_t axes_behind(const GraphTensor *x, unsigned first)
{
  return (1u << x->rank) - (1u << first);
}

void expand_instance_normalization(Expansion *at)
{
  if (!check_channels(at, 1)) return;
  GraphTensor *x = expand_input(at, 0);
  Moments moments = moments_of(at, expand_widened(at, x), axes_behind(x, 2));
  GraphTensor *normal = expand(at, ONNX_Mul, "normal", moments.centred, expand_inverse(at, moments.variance));
  GraphTensor *scaled =
      expand(at, ONNX_Mul, "scaled", normal, along_channels(at, "scale", expand_input(at, 1)));
  expand_give_narrowed(
      at, 0, expand(at, ONNX_Add, "moved", scaled, along_channels(at, "bias", expand_input(at, 2))));
}

/* ---- GroupNormalization ---- */

/* A statistic of each group, [N, G, 1], for each channel: [N, C, 1, ..]. */
static GraphTensor *of_channels(Expansion *at, const char *part, GraphTensor *statistic, int64_t groups,
                                int64_t channels)
{
  int64_t axes[GRAPH_MAX_RANK];
  unsigned n = 0;
  for (unsigned d = 2; d < expand_input(at, 0)->rank; d++)
    axes[n++] = d;
  GraphTensor *each = expand_integers(at, "shape", (int64_t[]){1, groups, channels / groups}, 3);
  GraphTensor *spread = expand(at, ONNX_Expand, part, statistic, each);
  GraphTensor *flat =
      expand(at, ONNX_Reshape, part, spread, expand_integers(at, "shape", (int64_t[]){0, channels}, 2));
  return n ? expand(at, ONNX_Unsqueeze, part, flat, expand_integers(at, "axes", axes, n)) : flat;
}

void expand_group_normalization(Expansion *at)
{
  GraphTensor *x = expand_input(at, 0);
  int64_t channels, groups = graph_attribute(expand_written(at), "num_groups")->integer;
  if (!check_channels(at, 1)) return;
  if (!symbolic_is_constant(x->shape[1], &channels)) {
    expand_refuse(at, ERROR_UNSUPPORTED, 0, "shape", "write it as a number",
                  "a number of channels that is not known is not supported");
    return;
  }
  if (groups < 1 || channels % groups) {
    expand_refuse_attribute(at, ERROR_INPUT, "num_groups", NULL, "%d channels are not %d groups",
                            (int)channels, (int)groups);
    return;
  }
  GraphTensor *wide = expand_widened(at, x);
  GraphTensor *grouped =
      expand(at, ONNX_Reshape, "groups", x, expand_integers(at, "shape", (int64_t[]){0, groups, -1}, 3));
  Moments moments = moments_of(at, expand_widened(at, grouped), 1u << 2);
  GraphTensor *inverse = expand_inverse(at, moments.variance);
  GraphTensor *centred =
      expand(at, ONNX_Sub, "off", wide, of_channels(at, "mean_c", moments.mean, groups, channels));
  GraphTensor *normal =
      expand(at, ONNX_Mul, "normal", centred, of_channels(at, "inverse_c", inverse, groups, channels));
  GraphTensor *scaled =
      expand(at, ONNX_Mul, "scaled", normal, along_channels(at, "scale", expand_input(at, 1)));
  expand_give_narrowed(
      at, 0, expand(at, ONNX_Add, "moved", scaled, along_channels(at, "bias", expand_input(at, 2))));
}

/* ---- BatchNormalization ---- */

/* What is kept of a running statistic, and the rest of this batch's. */
static GraphTensor *running(Expansion *at, GraphTensor *before, GraphTensor *now)
{
  double momentum = graph_attribute(expand_written(at), "momentum")->number;
  GraphTensor *kept = expand(at, ONNX_Mul, "kept", expand_widened(at, before), number(at, momentum));
  GraphTensor *added = expand(at, ONNX_Mul, "added", now, number(at, 1 - momentum));
  return expand_cast(at, "narrow", expand(at, ONNX_Add, "running", kept, added), before->type);
}

#define IMAGE_LEAST 64 /* elements, beside which two f32 of each are little */

/* Statistics over the first axis and those behind the second. Images are looked at one by one, while they stay on the chip, and
 * then their statistics: x is read once, and not again for what differs from the mean. */
static Moments moments_of_batch(Expansion *at, GraphTensor *x)
{
  const uint32_t images = axes_behind(expand_input(at, 0), 2), batch = 1u << 0;
  int64_t all = 1, extent;
  for (unsigned d = 2; d < x->rank; d++)
    all = symbolic_is_constant(x->shape[d], &extent) ? MIN(all * extent, INT32_MAX) : IMAGE_LEAST;
  if (!images || all < IMAGE_LEAST || symbolic_equals(x->shape[0], 1))
    return moments_of(at, x, images | batch);
  const Moments each = moments_of(at, x, images);
  const Moments means = moments_of(at, each.mean, batch);
  GraphTensor *within = mean_of(at, "within", each.variance, batch);
  return (Moments){.mean = means.mean, .variance = expand(at, ONNX_Add, "variance", within, means.variance)};
}

/* Without the dimensions of 1 around that of the channels. */
static GraphTensor *as_vector(Expansion *at, GraphTensor *statistic)
{
  uint32_t others = axes_behind(expand_input(at, 0), 0) & ~2u;
  return expand(at, ONNX_Squeeze, "vector", statistic, expand_axes(at, others));
}

/* Statistics of the batch are results of training only, and not those that opsets before 14 had. */
static bool check_statistics(Expansion *at, bool training)
{
  const GraphNode *node = expand_written(at);
  for (unsigned i = 1; i < node->n_outputs; i++) {
    if (!node->outputs[i] || (training && i < 3)) continue;
    expand_refuse(at, training || node->op->since < 14 ? ERROR_UNSUPPORTED : ERROR_INPUT, G_MAXUINT, "output",
                  "opset 14 or newer, with `training_mode` 1, gives the running mean and variance",
                  "result %u of BatchNormalization, `%s`, is not given here", i + 1, node->outputs[i]->name);
    return false;
  }
  return true;
}

void expand_batch_normalization(Expansion *at)
{
  const GraphAttribute *training = graph_attribute_find(expand_written(at), "training_mode");
  const GraphAttribute *spatial = graph_attribute_find(expand_written(at), "spatial");
  if (spatial && !spatial->integer) {
    expand_refuse_attribute(at, ERROR_UNSUPPORTED, "spatial", NULL,
                            "BatchNormalization by element is not supported");
    return;
  }
  if (!check_channels(at, 1) || !check_statistics(at, training && training->integer)) return;
  GraphTensor *x = expand_widened(at, expand_input(at, 0)), *mean = expand_input(at, 3),
              *variance = expand_input(at, 4);
  GraphTensor *scale = along_channels(at, "scale", expand_input(at, 1)),
              *bias = along_channels(at, "bias", expand_input(at, 2)), *centred;
  if (training && training->integer) {
    Moments moments = moments_of_batch(at, x);
    if (expand_wants(at, 1)) expand_give(at, 1, running(at, mean, as_vector(at, moments.mean)));
    if (expand_wants(at, 2)) expand_give(at, 2, running(at, variance, as_vector(at, moments.variance)));
    centred = expand(at, ONNX_Sub, "centred", x, moments.mean); /* rather than to store the first */
    variance = moments.variance;
  } else {
    centred = expand(at, ONNX_Sub, "centred", x, along_channels(at, "mean", mean));
    variance = along_channels(at, "variance", variance);
  }
  GraphTensor *factor = expand(at, ONNX_Mul, "factor", expand_inverse(at, variance), scale);
  GraphTensor *scaled = expand(at, ONNX_Mul, "scaled", centred, factor);
  expand_give_narrowed(at, 0, expand(at, ONNX_Add, "moved", scaled, bias));
}

/* ---- DynamicQuantizeLinear ---- */

void expand_dynamic_quantize_linear(Expansion *at)
{
  GraphTensor *x = expand_input(at, 0);
  uint32_t all = axes_behind(x, 0);
  GraphTensor *axes = expand_axes(at, all);
  double byte = (double)((1u << number_bits(NUMBER_U8)) - 1);
  const ExpandNode largest = {ONNX_ReduceMax, "largest", 2, {x, axes}, .attributes = {{"keepdims", 0}}},
                   smallest = {ONNX_ReduceMin, "smallest", 2, {x, axes}, .attributes = {{"keepdims", 0}}};
  GraphTensor *most = expand(at, ONNX_Max, "most", expand_node(at, &largest), number(at, 0));
  GraphTensor *least = expand(at, ONNX_Min, "least", expand_node(at, &smallest), number(at, 0));
  GraphTensor *range = expand(at, ONNX_Sub, "range", most, least);
  GraphTensor *scale = expand(at, ONNX_Div, "scale", range, number(at, byte));
  GraphTensor *below = expand(at, ONNX_Div, "below", expand(at, ONNX_Neg, "off", least, NULL), scale);
  const ExpandNode clip = {ONNX_Clip, "inside", 3, {below, number(at, 0), number(at, byte)}};
  GraphTensor *rounded = expand(at, ONNX_Round, "rounded", expand_node(at, &clip), NULL);
  GraphTensor *zero = expand_cast(at, "zero", rounded, NUMBER_U8);
  expand_give(at, 0, expand_node(at, &(ExpandNode){ONNX_QuantizeLinear, "quantized", 3, {x, scale, zero}}));
  expand_give(at, 1, scale);
  expand_give(at, 2, zero);
}
