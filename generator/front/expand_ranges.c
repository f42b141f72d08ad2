/* Operators whose result counts along a dimension: ranges, windows and grids. Each element follows from its index, so that
 * nothing is read. */
#include "generator/front/expand.h"
#include <math.h>

/* The index of each element along an axis, in f32, of a shape. */
static GraphTensor *index_along(Expansion *at, const Symbolic *const *shape, unsigned rank, unsigned axis,
                                NumberType type)
{
  return expand_cast(at, "count", expand_index(at, "index", shape, rank, axis), type);
}

static bool fail(Expansion *at, unsigned input, const char *what)
{
  expand_refuse(at, ERROR_UNSUPPORTED, input, "range", "put it under `constants`, with `data`",
                "%s that is not a constant of the description is not supported: `%s`", what,
                expand_input(at, input)->name);
  return false;
}

/* The input as one expression, or (values NULL) one number. */
static bool one_number(Expansion *at, unsigned input, const char *what, const Symbolic **whole,
                       double *number)
{
  const GraphTensor *tensor = expand_input(at, input);
  *whole = NULL;
  if (tensor->n_elements != 1) return fail(at, input, what);
  if (tensor->values)
    *whole = tensor->values[0];
  else if (!graph_scalar(tensor, number))
    return fail(at, input, what);
  return true;
}

/* ---- Range ---- */

static void give_whole_range(Expansion *at, const Symbolic *start, const Symbolic *limit, int64_t delta)
{
  Arena *arena = expand_arena(at);
  NumberType type = expand_input(at, 0)->type;
  const Symbolic *span = delta > 0 ? symbolic_sub(arena, limit, start) : symbolic_sub(arena, start, limit);
  const Symbolic *extent =
      symbolic_binary(arena, SYMBOLIC_CEIL_DIV, span, symbolic_constant(arena, ABS(delta)));
  extent = infer_larger(expand_graph(at), extent, symbolic_constant(arena, 0));
  int64_t n, first;
  if (symbolic_is_constant(extent, &n) && n <= KNOWN_INTEGERS_MAX && symbolic_is_constant(start, &first)) {
    g_autofree int64_t *items = g_new0(int64_t, (size_t)n + 1);
    for (int64_t i = 0; i < n; i++)
      items[i] = first + i * delta;
    expand_give(at, 0, expand_cast(at, "typed", expand_integers(at, "range", items, (unsigned)n), type));
    return;
  }
  GraphTensor *index = index_along(at, &extent, 1, 0, NUMBER_S32);
  GraphTensor *begin = expand_cast(at, "begin", expand_known(at, "start", &start, 1, 0), NUMBER_S32);
  GraphTensor *scaled =
      expand(at, ONNX_Mul, "scaled", index, expand_number(at, "delta", NUMBER_S32, (double)delta));
  expand_give(at, 0, expand_cast(at, "typed", expand(at, ONNX_Add, "range", scaled, begin), type));
}

static void give_range(Expansion *at, double start, double limit, double delta)
{
  NumberType type = expand_input(at, 0)->type;
  double count = fmax(0, ceil((limit - start) / delta));
  if (!(count <= SYMBOLIC_DIMENSION_MAX)) {
    expand_refuse(at, ERROR_INPUT, 1, "range", NULL, "a range of %g elements", count);
    return;
  }
  const Symbolic *extent = symbolic_constant(expand_arena(at), (int64_t)count);
  GraphTensor *index = index_along(at, &extent, 1, 0, NUMBER_F32);
  GraphTensor *scaled = expand(at, ONNX_Mul, "scaled", index, expand_number(at, "delta", NUMBER_F32, delta));
  GraphTensor *range = expand(at, ONNX_Add, "range", scaled, expand_number(at, "start", NUMBER_F32, start));
  expand_give(at, 0, expand_cast(at, "typed", range, type));
}

void expand_range(Expansion *at)
{
  const Symbolic *start, *limit, *delta;
  double from = 0, to = 0, by = 0;
  int64_t step = 0;
  if (!one_number(at, 0, "a start", &start, &from) || !one_number(at, 1, "a limit", &limit, &to) ||
      !one_number(at, 2, "a step", &delta, &by))
    return;
  bool whole = start && limit && delta;
  if (whole ? symbolic_is_constant(delta, &step) && !step : by == 0) {
    expand_refuse(at, ERROR_INPUT, 2, "range", NULL, "a range in steps of 0");
    return;
  }
  if (!whole)
    give_range(at, from, to, by);
  else if (step)
    give_whole_range(at, start, limit, step);
  else
    fail(at, 2, "a step");
}

/* ---- windows: sums of cosines over a period of the size, or of one less ---- */

static void give_window(Expansion *at, double constant, double once, double twice)
{
  const GraphNode *node = expand_written(at);
  const GraphAttribute *asked = graph_attribute(node, "output_datatype");
  NumberType type = asked->integer == OPERATOR_NO_TYPE ? NUMBER_F32 : (NumberType)asked->integer;
  const Symbolic *size;
  double unused;
  int64_t n;
  if (!one_number(at, 0, "a size", &size, &unused)) return;
  if (!symbolic_is_constant(size, &n) || n < 0) {
    fail(at, 0, "a size");
    return;
  }
  double turn = 2 * G_PI / (double)(graph_attribute(node, "periodic")->integer ? n : n - 1);
  GraphTensor *index = index_along(at, &size, 1, 0, NUMBER_F32);
  GraphTensor *angle = expand(at, ONNX_Mul, "angle", index, expand_number(at, "turn", NUMBER_F32, turn));
  GraphTensor *wave = expand(at, ONNX_Mul, "wave", expand(at, ONNX_Cos, "cosine", angle, NULL),
                             expand_number(at, "once", NUMBER_F32, once));
  GraphTensor *sum = expand(at, ONNX_Add, "sum", wave, expand_number(at, "constant", NUMBER_F32, constant));
  if (twice != 0) {
    GraphTensor *angles = expand(at, ONNX_Add, "angles", angle, angle);
    GraphTensor *waves = expand(at, ONNX_Mul, "waves", expand(at, ONNX_Cos, "cosines", angles, NULL),
                                expand_number(at, "twice", NUMBER_F32, twice));
    sum = expand(at, ONNX_Add, "window", sum, waves);
  }
  expand_give(at, 0, expand_cast(at, "typed", sum, type));
}

void expand_hann_window(Expansion *at)
{
  give_window(at, 0.5, -0.5, 0);
}

void expand_hamming_window(Expansion *at)
{
  give_window(at, 25.0 / 46.0, 25.0 / 46.0 - 1, 0);
}

void expand_blackman_window(Expansion *at)
{
  give_window(at, 0.42, -0.5, 0.08);
}

/* ---- AffineGrid: places of a picture's elements from -1 to 1, turned ---- */

/* Of the shape [extents, 1]: coordinates along an axis. */
static GraphTensor *coordinates(Expansion *at, const Symbolic *const *shape, unsigned rank, unsigned axis,
                                int64_t n, bool corners)
{
  double step = corners ? (n > 1 ? 2.0 / (double)(n - 1) : 0) : 2.0 / (double)n,
         start = corners ? -1 : step / 2 - 1;
  GraphTensor *index = index_along(at, shape, rank, axis, NUMBER_F32);
  GraphTensor *scaled = expand(at, ONNX_Mul, "scaled", index, expand_number(at, "step", NUMBER_F32, step));
  return expand(at, ONNX_Add, "place", scaled, expand_number(at, "start", NUMBER_F32, start));
}

void expand_affine_grid(Expansion *at)
{
  Arena *arena = expand_arena(at);
  GraphTensor *theta = expand_input(at, 0), *size = expand_input(at, 1);
  unsigned dims = size->n_elements == 5 ? 3 : 2; /* of the picture */
  bool corners = graph_attribute(expand_written(at), "align_corners")->integer != 0;
  int64_t extents[GRAPH_MAX_RANK];
  for (unsigned i = 0; i < dims + 2; i++)
    if (!size->values || size->n_elements != dims + 2 ||
        !symbolic_is_constant(size->values[i], &extents[i])) {
      fail(at, 1, "a size");
      return;
    }
  if (theta->rank != 3 || !symbolic_equals(theta->shape[1], dims) ||
      !symbolic_equals(theta->shape[2], dims + 1)) {
    expand_refuse(at, ERROR_INPUT, 0, "shape", NULL, "theta of AffineGrid is [N, %u, %u]", dims, dims + 1);
    return;
  }
  const Symbolic *shape[GRAPH_MAX_RANK], *rows = symbolic_constant(arena, 1);
  ExpandNode concat = {ONNX_Concat, "homogeneous", dims + 1, .attributes = {{"axis", (int64_t)dims}}};
  for (unsigned d = 0; d < dims; d++) {
    shape[d] = size->values[d + 2];
    rows = symbolic_mul(arena, rows, shape[d]);
  }
  shape[dims] = symbolic_constant(arena, 1);
  for (unsigned d = 0; d < dims; d++) /* x, which runs along the last dimension, comes first */
    concat.inputs[dims - 1 - d] = coordinates(at, shape, dims + 1, d, extents[d + 2], corners);
  concat.inputs[dims] = expand(at, ONNX_Expand, "ones", expand_number(at, "one", NUMBER_F32, 1),
                               expand_known(at, "ones_shape", shape, dims + 1, 1));
  const Symbolic *const flat[] = {rows, symbolic_constant(arena, dims + 1)};
  GraphTensor *places = expand_reshape(at, "places", expand_node(at, &concat), flat, 2);
  GraphTensor *turned =
      expand_transpose(at, "turned", expand_cast(at, "wide", theta, NUMBER_F32), (int64_t[]){0, 2, 1});
  const Symbolic *result[GRAPH_MAX_RANK] = {size->values[0]};
  for (unsigned d = 0; d < dims; d++)
    result[d + 1] = shape[d];
  result[dims + 1] = symbolic_constant(arena, dims);
  GraphTensor *product = expand(at, ONNX_MatMul, "product", places, turned);
  GraphTensor *grid = expand_reshape(at, "grid", product, result, dims + 2);
  expand_give(at, 0, expand_cast(at, "typed", grid, theta->type));
}
