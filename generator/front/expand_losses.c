/* Functions of losses over classes, and gradients of row operators. Classes lie along dimension 1 of the scores; a class of
 * each row is a loaded index, so that the loss takes one element of a row beside the reduction over all of it. */
#include "generator/front/expand_rows.h"
#include <string.h>

/* ---- losses ---- */

typedef struct {
  GraphTensor *rows;    /* the class of each row, with a dimension of 1 for that of the classes; */
  GraphTensor *at;      /* and in s32 */
  GraphTensor *factor;  /* weight of each row, 0 of ignored ones; NULL: all count as 1 */
  GraphTensor *ignored; /* NULL: none is */
} Classes;

static bool same_rows(const GraphTensor *scores, const GraphTensor *labels)
{
  if (scores->rank < 2 || labels->rank + 1 != scores->rank) return false;
  for (unsigned d = 0; d < labels->rank; d++)
    if (!symbolic_same(labels->shape[d], scores->shape[d + (d > 0)])) return false;
  return true;
}

/* `labels`, `weights`: inputs. */
static bool check_classes(Expansion *at, unsigned scores, unsigned labels, unsigned weights)
{
  const GraphTensor *x = expand_input(at, scores), *t = expand_input(at, labels),
                    *w = expand_input(at, weights);
  if (t->type != NUMBER_S32 && t->type != NUMBER_S64) {
    expand_refuse(at, ERROR_INPUT, labels, "type", NULL, "classes are s32 or s64: `%s` is %s", t->name,
                  number_name(t->type));
    return false;
  }
  if (!same_rows(x, t)) {
    g_autofree char *have = graph_shape_text(t->shape, t->rank), *want = graph_shape_text(x->shape, x->rank);
    expand_refuse(at, ERROR_INPUT, labels, "shape", "scores are [N, C, ...], classes [N, ...]",
                  "`%s` of shape %s has no class for each row of `%s` of shape %s", t->name, have, x->name,
                  want);
    return false;
  }
  if (!w || (w->rank == 1 && symbolic_same(w->shape[0], x->shape[1]))) return true;
  g_autofree char *have = graph_shape_text(w->shape, w->rank);
  expand_refuse(at, ERROR_INPUT, weights, "shape", NULL, "`%s` of shape %s has no weight for each class",
                w->name, have);
  return false;
}

static Classes read_classes(Expansion *at, unsigned labels, unsigned weights)
{
  const GraphAttribute *ignore = graph_attribute(expand_written(at), "ignore_index");
  GraphTensor *w = expand_input(at, weights);
  Classes classes = {0};
  classes.rows = expand(at, ONNX_Unsqueeze, "rows", expand_input(at, labels),
                        expand_integers(at, "axes", (int64_t[]){1}, 1));
  if (w) classes.factor = expand_widened(at, expand(at, ONNX_Gather, "weight", w, classes.rows));
  if (!ignore->given) return classes;
  classes.at = expand_cast(at, "class", classes.rows, NUMBER_S32);
  GraphTensor *number = expand_number(at, "ignore", NUMBER_S32, (double)ignore->integer);
  classes.ignored = expand(at, ONNX_Equal, "ignored", classes.at, number);
  GraphTensor *one = classes.factor ? classes.factor : expand_number(at, "one", NUMBER_F32, 1);
  classes.factor = expand_where(at, "factor", classes.ignored, expand_number(at, "none", NUMBER_F32, 0), one);
  return classes;
}

static uint32_t all_axes(const GraphTensor *x)
{
  return (1u << x->rank) - 1;
}

static GraphTensor *sum_of(Expansion *at, OperatorId op, const char *part, GraphTensor *x)
{
  if (expand_failed(at)) return NULL;
  GraphTensor *axes = expand_axes(at, all_axes(x));
  return expand_node(at, &(ExpandNode){op, part, 2, {x, axes}, .attributes = {{"keepdims", 0}}});
}

/* Losses of rows by the attribute `reduction`. */
static void give_loss(Expansion *at, GraphTensor *loss, const Classes *classes)
{
  const char *reduction = graph_attribute(expand_written(at), "reduction")->text;
  if (!strcmp(reduction, "none")) {
    if (expand_failed(at)) return;
    loss = expand_cast(at, "narrow", loss,
                       expand_input(at, 0)->type); /* first: a view of what a kernel stores */
    expand_give(at, 0,
                expand(at, ONNX_Squeeze, "loss", loss, expand_integers(at, "axes", (int64_t[]){1}, 1)));
    return;
  }
  bool mean = !strcmp(reduction, "mean");
  GraphTensor *sum = sum_of(at, mean && !classes->factor ? ONNX_ReduceMean : ONNX_ReduceSum, "sum", loss);
  if (mean && classes->factor)
    sum = expand(at, ONNX_Div, "mean", sum, sum_of(at, ONNX_ReduceSum, "total", classes->factor));
  expand_give_narrowed(at, 0, sum);
}

static GraphTensor *weighted(Expansion *at, GraphTensor *loss, const Classes *classes)
{
  if (classes->factor) loss = expand(at, ONNX_Mul, "weighted", loss, classes->factor);
  if (!classes->ignored) return loss;
  return expand_where(at, "counted", classes->ignored, expand_number(at, "none", NUMBER_F32, 0), loss);
}

/* An element of each row. */
static GraphTensor *picked(Expansion *at, GraphTensor *x, GraphTensor *classes)
{
  return expand_widened(
      at, expand_node(at, &(ExpandNode){
                              ONNX_GatherElements, "picked", 2, {x, classes}, .attributes = {{"axis", 1}}}));
}

/* ln sum e^x of each row */
static GraphTensor *log_sum(Expansion *at, GraphTensor *x)
{
  return expand_reduce(at, ONNX_ReduceLogSumExp, "log_sum", x, 2);
}

void expand_softmax_cross_entropy_loss(Expansion *at)
{
  if (!check_classes(at, 0, 1, 2)) return;
  GraphTensor *x = expand_input(at, 0), *wide = expand_widened(at, x), *all = log_sum(at, wide);
  Classes classes = read_classes(at, 1, 2);
  GraphTensor *loss = expand(at, ONNX_Sub, "row", all, picked(at, x, classes.rows));
  give_loss(at, weighted(at, loss, &classes), &classes);
  if (expand_wants(at, 1)) expand_give_narrowed(at, 1, expand(at, ONNX_Sub, "log", wide, all));
}

void expand_negative_log_likelihood_loss(Expansion *at)
{
  if (!check_classes(at, 0, 1, 2)) return;
  Classes classes = read_classes(at, 1, 2);
  GraphTensor *loss = expand(at, ONNX_Neg, "row", picked(at, expand_input(at, 0), classes.rows), NULL);
  give_loss(at, weighted(at, loss, &classes), &classes);
}

/* The loss's gradient for each row: what was given, of a mean its share. */
static GraphTensor *gradient_of_rows(Expansion *at, const Classes *classes)
{
  const char *reduction = graph_attribute(expand_written(at), "reduction")->text;
  GraphTensor *given = expand_input(at, 0);
  if (!strcmp(reduction, "none"))
    given = expand(at, ONNX_Unsqueeze, "rows_given", given, expand_integers(at, "axes", (int64_t[]){1}, 1));
  given = expand_widened(at, given);
  if (!strcmp(reduction, "mean") && classes->factor)
    given = expand(at, ONNX_Div, "share", given, sum_of(at, ONNX_ReduceSum, "total", classes->factor));
  if (!strcmp(reduction, "mean") && !classes->factor) {
    double n = 1;
    const GraphTensor *labels = expand_input(at, 2);
    for (unsigned d = 0; d < labels->rank; d++) {
      int64_t extent;
      if (!symbolic_is_constant(labels->shape[d], &extent)) {
        expand_refuse_attribute(at, ERROR_UNSUPPORTED, "reduction", "take `sum`, and divide its gradient",
                                "the mean of a number of rows that is not known is not supported");
        return NULL;
      }
      n *= (double)extent;
    }
    given = expand(at, ONNX_Div, "share", given, expand_number(at, "rows_n", NUMBER_F32, n));
  }
  return classes->factor ? expand(at, ONNX_Mul, "scaled", given, classes->factor) : given;
}

/* The loss's gradient is one number, or one for each row. */
static bool check_given(Expansion *at)
{
  const GraphTensor *given = expand_input(at, 0), *labels = expand_input(at, 2);
  bool each = !strcmp(graph_attribute(expand_written(at), "reduction")->text, "none");
  if (each ? graph_same_shape(given, labels) : graph_has_one_element(given) && given->rank == 0) return true;
  g_autofree char *have = graph_shape_text(given->shape, given->rank),
                  *want = graph_shape_text(labels->shape, each ? labels->rank : 0);
  expand_refuse(at, ERROR_INPUT, 0, "shape", "the shape of the loss, by `reduction`",
                "`%s` has shape %s, not %s", given->name, have, want);
  return false;
}

/* (softmax(x) - 1 at the class) times the gradient of the row's loss */
void expand_softmax_cross_entropy_loss_gradient(Expansion *at)
{
  if (!check_classes(at, 1, 2, 3) || !check_given(at)) return;
  GraphTensor *x = expand_input(at, 1), *wide = expand_widened(at, x);
  Classes classes = read_classes(at, 2, 3);
  GraphTensor *share =
      expand_node(at, &(ExpandNode){ONNX_Softmax, "share_of", 1, {wide}, .attributes = {{"axis", 1}}});
  GraphTensor *place =
      expand_node(at, &(ExpandNode){ONNX_IndexAlong, "place", 1, {x}, .attributes = {{"axis", 1}}});
  GraphTensor *hit = expand(at, ONNX_Equal, "hit", place,
                            classes.at ? classes.at : expand_cast(at, "class", classes.rows, NUMBER_S32));
  GraphTensor *one = expand_node(at, &(ExpandNode){ONNX_Where,
                                                   "one",
                                                   3,
                                                   {hit, expand_number(at, "n1", NUMBER_F32, 1),
                                                    expand_number(at, "n0", NUMBER_F32, 0)}});
  GraphTensor *off = expand(at, ONNX_Sub, "off", share, one);
  GraphTensor *result = expand(at, ONNX_Mul, "gradient", off, gradient_of_rows(at, &classes));
  if (!expand_failed(at)) expand_give(at, 0, expand_cast(at, "narrow", result, x->type));
}

/* ---- gradients ---- */

static void give_as(Expansion *at, unsigned output, GraphTensor *value, const GraphTensor *like)
{
  if (expand_wants(at, output)) expand_give(at, output, expand_cast(at, "narrow", value, like->type));
}

/* Inputs: the result's gradient, and the result. */
void expand_softmax_gradient(Expansion *at)
{
  unsigned axis;
  if (!expand_read_axis(at, &axis)) return;
  GraphTensor *dy = expand_widened(at, expand_input(at, 0)), *y = expand_widened(at, expand_input(at, 1));
  GraphTensor *product = expand(at, ONNX_Mul, "product", dy, y);
  GraphTensor *sum = expand_reduce(at, ONNX_ReduceSum, "sum", product, 1u << axis);
  give_as(at, 0, expand(at, ONNX_Mul, "gradient", expand(at, ONNX_Sub, "off", dy, sum), y),
          expand_input(at, 1));
}

void expand_log_softmax_gradient(Expansion *at)
{
  unsigned axis;
  if (!expand_read_axis(at, &axis)) return;
  GraphTensor *dy = expand_widened(at, expand_input(at, 0)), *y = expand_widened(at, expand_input(at, 1));
  GraphTensor *sum = expand_reduce(at, ONNX_ReduceSum, "sum", dy, 1u << axis);
  GraphTensor *shared = expand(at, ONNX_Mul, "shared", expand(at, ONNX_Exp, "share", y, NULL), sum);
  give_as(at, 0, expand(at, ONNX_Sub, "gradient", dy, shared), expand_input(at, 1));
}

/* A scale has the shape of the normalised dimensions. */
static bool check_scale(Expansion *at, unsigned axis)
{
  const GraphTensor *x = expand_input(at, 1), *scale = expand_input(at, 2);
  bool same = scale->rank == x->rank - axis;
  for (unsigned d = 0; same && d < scale->rank; d++)
    same = symbolic_same(scale->shape[d], x->shape[axis + d]);
  if (same) return true;
  g_autofree char *have = graph_shape_text(scale->shape, scale->rank),
                  *want = graph_shape_text(x->shape + axis, x->rank - axis);
  expand_refuse(at, ERROR_INPUT, 2, "shape", NULL, "`%s` has shape %s, not %s", scale->name, have, want);
  return false;
}

/* Over the dimensions in front of the normalised ones, which go. */
static GraphTensor *sum_of_rows(Expansion *at, const char *part, GraphTensor *x, unsigned axis)
{
  if (!axis || expand_failed(at)) return x;
  return expand_reduce_away(at, ONNX_ReduceSum, part, x, (1u << axis) - 1);
}

/* Inputs: the result's gradient, x, scale. With n = (x - mean) / deviation and g = dy scale: (g - mean(g) - n mean(g n)) / deviation;
 * without the mean of g where nothing was taken off. The mean of g n is that of g (x - mean), over the deviation: so it does not
 * wait for the deviation, and warps meet once for both. What is divided is divided first, by rows where it can be: two products
 * with something added are left for each element. */
static void norm_gradient(Expansion *at, bool centred)
{
  unsigned axis;
  if (!expand_read_axis(at, &axis) || !check_scale(at, axis)) return;
  const GraphTensor *given = expand_input(at, 1);
  uint32_t axes = all_axes(given) & ~((1u << axis) - 1);
  GraphTensor *dy = expand_widened(at, expand_input(at, 0)), *x = expand_widened(at, expand_input(at, 1));
  GraphTensor *from_mean = x;
  if (centred)
    from_mean = expand(at, ONNX_Sub, "centred", x, expand_reduce(at, ONNX_ReduceMean, "mean", x, axes));
  GraphTensor *square = expand(at, ONNX_Mul, "square", from_mean, from_mean);
  GraphTensor *inverse = expand_inverse(at, expand_reduce(at, ONNX_ReduceMean, "variance", square, axes));
  GraphTensor *normal = expand(at, ONNX_Mul, "normal", from_mean, inverse);
  GraphTensor *g = expand(at, ONNX_Mul, "g", dy, expand_widened(at, expand_input(at, 2)));
  GraphTensor *along = expand(at, ONNX_Mul, "along", g, from_mean);
  GraphTensor *slope =
      expand(at, ONNX_Mul, "slope", expand_reduce(at, ONNX_ReduceMean, "covariance", along, axes),
             expand(at, ONNX_Mul, "inverse_square", inverse, inverse));
  GraphTensor *rest = expand(at, ONNX_Mul, "share", g, inverse);
  if (centred) {
    GraphTensor *level = expand_reduce(at, ONNX_ReduceMean, "level", g, axes);
    rest = expand(at, ONNX_Sub, "even", rest, expand(at, ONNX_Mul, "level_share", level, inverse));
  }
  GraphTensor *gradient = expand(at, ONNX_Sub, "gradient", rest, expand(at, ONNX_Mul, "tilt", normal, slope));
  give_as(at, 0, gradient, given);
  if (expand_wants(at, 1)) /* the normalised x once more: rather than to store the first */
    give_as(at, 1,
            sum_of_rows(at, "of_scale",
                        expand(at, ONNX_Mul, "scaled", dy,
                               expand(at, ONNX_Mul, "normal2",
                                      centred ? expand(at, ONNX_Sub, "centred2", x,
                                                       expand_reduce(at, ONNX_ReduceMean, "mean2", x, axes))
                                              : x,
                                      inverse)),
                        axis),
            expand_input(at, 2));
  if (expand_wants(at, 2)) give_as(at, 2, sum_of_rows(at, "of_bias", dy, axis), expand_input(at, 2));
}

void expand_layer_normalization_gradient(Expansion *at)
{
  norm_gradient(at, true);
}

void expand_rms_normalization_gradient(Expansion *at)
{
  norm_gradient(at, false);
}
