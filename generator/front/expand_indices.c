/* Functions whose results are made of indices: EyeLike, OneHot; and of random numbers that belong to indices: Dropout. */
#include "generator/front/expand_rows.h"

static GraphTensor *index_along(Expansion *at, GraphTensor *x, int64_t axis)
{
  return expand_node(at, &(ExpandNode){ONNX_IndexAlong, "place", 1, {x}, .attributes = {{"axis", axis}}});
}

static GraphTensor *whole_number(Expansion *at, int64_t value)
{
  return expand_number(at, "number", NUMBER_S32, (double)value);
}

static GraphTensor *spread_to(Expansion *at, const char *part, GraphTensor *x, const Symbolic *const *shape,
                              unsigned rank)
{
  g_autofree char *name = g_strdup_printf("%s_shape", part);
  return expand(at, ONNX_Expand, part, x, expand_known(at, name, shape, rank, 1));
}

/* ---- EyeLike ---- */

void expand_eye_like(Expansion *at)
{
  GraphTensor *x = expand_input(at, 0);
  const GraphAttribute *type = graph_attribute(expand_written(at), "dtype");
  if (x->rank != 2) {
    expand_refuse(at, ERROR_INPUT, 0, "rank", NULL, "EyeLike takes matrices: `%s` has rank %u", x->name,
                  x->rank);
    return;
  }
  GraphTensor *distance = expand(at, ONNX_Sub, "distance", index_along(at, x, 1), index_along(at, x, 0));
  GraphTensor *k = whole_number(at, graph_attribute(expand_written(at), "k")->integer);
  GraphTensor *one = expand(at, ONNX_Equal, "one", distance, k);
  NumberType to = type->integer == OPERATOR_NO_TYPE ? x->type : (NumberType)type->integer;
  expand_give(at, 0, expand_cast(at, "number", one, to));
}

/* ---- OneHot ---- */

/* Indices from 0 on, in s32; those outside become -1. */
static GraphTensor *classes_of(Expansion *at, int64_t depth)
{
  GraphTensor *given = expand_input(at, 0), *index = expand_cast(at, "index", given, NUMBER_S32);
  GraphTensor *below = expand(at, ONNX_Less, "below", index, whole_number(at, 0));
  GraphTensor *from_end = expand(at, ONNX_Add, "from_end", index, whole_number(at, depth));
  GraphTensor *class_ = expand_where(at, "class", below, from_end, index);
  if (!given || given->type != NUMBER_S64) return class_;
  GraphTensor *same =
      expand(at, ONNX_Equal, "same", expand_cast(at, "near", given, NUMBER_F32),
             expand_cast(at, "nearly", index, NUMBER_F32)); /* of more than 32 bits it is none */
  return expand_where(at, "inside", same, class_, whole_number(at, -1));
}

static GraphTensor *value_of(Expansion *at, const char *part, int64_t i)
{
  return expand_slice(at, part, expand_input(at, 2), 0, i, i + 1);
}

static bool read_depth(Expansion *at, int64_t *depth)
{
  double value;
  const GraphTensor *given = expand_input(at, 1), *values = expand_input(at, 2);
  if (values->rank != 1 || !symbolic_equals(values->shape[0], 2)) {
    expand_refuse(at, ERROR_INPUT, 2, "shape", "[off, on]", "the values of OneHot are two: `%s` is not",
                  values->name);
    return false;
  }
  if (!graph_scalar(given, &value)) {
    expand_refuse(at, ERROR_UNSUPPORTED, 1, "depth", "put it under `constants`, with `data`",
                  "OneHot of a depth that is not known while the graph is read is not supported: `%s`",
                  given->name);
    return false;
  }
  *depth = (int64_t)value;
  if (*depth >= 0 && *depth <= G_MAXINT32) return true;
  expand_refuse(at, ERROR_INPUT, 1, "depth", NULL, "there are no %" G_GINT64_FORMAT " classes", *depth);
  return false;
}

void expand_one_hot(Expansion *at)
{
  const GraphTensor *given = expand_input(at, 0);
  int64_t depth, axis = graph_attribute(expand_written(at), "axis")->integer;
  const Symbolic *shape[GRAPH_MAX_RANK + 1];
  if (!read_depth(at, &depth)) return;
  if (axis < 0) axis += given->rank + 1;
  if (axis < 0 || axis > given->rank || given->rank == GRAPH_MAX_RANK) {
    expand_refuse_attribute(at, ERROR_INPUT, "axis", NULL, "there is no such axis of a result of rank %u",
                            given->rank + 1);
    return;
  }
  for (unsigned d = 0; d <= given->rank; d++)
    shape[d] = d == axis ? symbolic_constant(expand_arena(at), depth) : given->shape[d - (d > axis)];
  GraphTensor *apart =
      expand(at, ONNX_Unsqueeze, "apart", classes_of(at, depth), expand_integers(at, "axes", &axis, 1));
  GraphTensor *whole = spread_to(at, "whole", apart, shape, given->rank + 1);
  GraphTensor *hit = expand(at, ONNX_Equal, "hit", index_along(at, whole, axis), whole);
  expand_give(at, 0, expand_where(at, "one_hot", hit, value_of(at, "on", 1), value_of(at, "off", 0)));
}

/* ---- Dropout ---- */

typedef struct {
  GraphTensor *ratio, *training; /* NULL: the default, a constant that says no more than it */
  bool always;                   /* it trains, as is known */
  double share;                  /* of what is dropped, where `ratio` is NULL */
  GraphTensor *seed, *offset;    /* s64 */
} Dropout;

static GraphTensor *scalar_or(Expansion *at, unsigned input, const char *attribute)
{
  const GraphAttribute *given = attribute ? graph_attribute_find(expand_written(at), attribute) : NULL;
  GraphTensor *tensor = expand_input(at, input);
  return tensor ? tensor : expand_number(at, "number", NUMBER_S64, given ? (double)given->integer : 0);
}

static void read_dropout(Expansion *at, Dropout *dropout)
{
  double value = 0;
  *dropout = (Dropout){.ratio = expand_input(at, 1), .training = expand_input(at, 2), .share = 0.5};
  if (dropout->ratio && graph_scalar(dropout->ratio, &dropout->share)) dropout->ratio = NULL;
  if (dropout->training && graph_scalar(dropout->training, &value)) {
    dropout->always = value != 0;
    dropout->training = NULL;
  }
  dropout->seed = scalar_or(at, 3, "seed");
  dropout->offset = scalar_or(at, 4, NULL);
}

/* Elements of an index along each dimension; false: not all are known. */
static bool find_steps(const GraphTensor *x, int64_t *steps)
{
  int64_t step = 1, extent;
  for (unsigned d = x->rank; d-- > 0; step *= extent) {
    steps[d] = step;
    if (d && !symbolic_is_constant(x->shape[d], &extent)) return false;
    if (!d) break;
  }
  return x->rank > 0;
}

/* An element's number, which is its counter. */
static GraphTensor *numbers_of(Expansion *at, GraphTensor *x, const int64_t *steps)
{
  GraphTensor *sum = NULL;
  for (unsigned d = 0; d < x->rank; d++) {
    GraphTensor *part = index_along(at, x, d);
    if (steps[d] != 1) part = expand(at, ONNX_Mul, "part", part, whole_number(at, steps[d]));
    sum = sum ? expand(at, ONNX_Add, "number", sum, part) : part;
  }
  return expand_cast(at, "counter", sum, NUMBER_S64);
}

/* Elements one behind the other, where only that tells their numbers. */
static GraphTensor *in_line(Expansion *at, GraphTensor *x)
{
  return expand(at, ONNX_Reshape, "line", x, expand_integers(at, "shape", (int64_t[]){-1}, 1));
}

/* And back; at most one extent depends on symbols. */
static GraphTensor *as_before(Expansion *at, const char *part, GraphTensor *line, const GraphTensor *x)
{
  int64_t shape[GRAPH_MAX_RANK];
  for (unsigned d = 0; d < x->rank; d++)
    if (!symbolic_is_constant(x->shape[d], &shape[d])) shape[d] = -1;
  return expand(at, ONNX_Reshape, part, line, expand_integers(at, "shape", shape, x->rank));
}

static bool check_extents(Expansion *at, const GraphTensor *x)
{
  unsigned open = 0;
  bool empty = false;
  for (unsigned d = 0; d < x->rank; d++) {
    open += !symbolic_is_constant(x->shape[d], NULL);
    empty |= symbolic_equals(x->shape[d], 0);
  }
  if (open < 2 && !(open && empty)) return true;
  expand_refuse(at, ERROR_UNSUPPORTED, 0, "shape", "write all but one extent as numbers",
                "Dropout of a tensor of which several extents depend on symbols is not supported: `%s`",
                x->name);
  return false;
}

/* A random number of 32 bits for each element, below 1: it is kept from `ratio` on. */
static GraphTensor *kept_elements(Expansion *at, const Dropout *dropout, GraphTensor *number,
                                  GraphTensor *ratio)
{
  GraphTensor *bits =
      expand_node(at, &(ExpandNode){ONNX_Philox, "bits", 3, {number, dropout->seed, dropout->offset}});
  GraphTensor *uniform = expand(at, ONNX_Mul, "uniform", expand_cast(at, "random", bits, NUMBER_F32),
                                expand_number(at, "unit", NUMBER_F32, 0x1p-32));
  GraphTensor *kept = expand(at, ONNX_GreaterOrEqual, "kept", uniform, ratio);
  if (dropout->always) return kept;
  GraphTensor *off = expand(at, ONNX_Not, "off", dropout->training, NULL);
  return expand(at, ONNX_Or, "stays", kept, off);
}

/* What stays is scaled up by 1 / (1 - ratio). */
static GraphTensor *scale_of(Expansion *at, const Dropout *dropout, GraphTensor *ratio)
{
  if (!dropout->ratio && dropout->always)
    return expand_number(at, "scale", NUMBER_F32, (float)(1 / (1 - dropout->share)));
  GraphTensor *one = expand_number(at, "one", NUMBER_F32, 1);
  GraphTensor *scale = expand(at, ONNX_Reciprocal, "scale", expand(at, ONNX_Sub, "rest", one, ratio), NULL);
  return dropout->always ? scale : expand_where(at, "factor", dropout->training, scale, one);
}

#define MASKS_ARE_TRUTH 10 /* opset */

/* Nothing is dropped. */
static void give_all(Expansion *at, GraphTensor *x)
{
  expand_give(at, 0, x);
  if (!expand_wants(at, 1)) return;
  NumberType type = expand_opset(at) < MASKS_ARE_TRUTH ? x->type : NUMBER_BOOL;
  expand_give(
      at, 1,
      spread_to(at, "mask", expand_number(at, "kept", type, 1), (const Symbolic *const *)x->shape, x->rank));
}

void expand_dropout(Expansion *at)
{
  GraphTensor *x = expand_input(at, 0);
  Dropout dropout;
  read_dropout(at, &dropout);
  if (!dropout.always && !dropout.training) {
    give_all(at, x);
    return;
  }
  int64_t steps[GRAPH_MAX_RANK];
  bool known = find_steps(x, steps);
  if (!known && !check_extents(at, x)) return;
  GraphTensor *line = known ? x : in_line(at, x);
  GraphTensor *ratio = dropout.ratio ? expand_cast(at, "share", dropout.ratio, NUMBER_F32)
                                     : expand_number(at, "share", NUMBER_F32, (float)dropout.share);
  GraphTensor *kept = kept_elements(
      at, &dropout, known ? numbers_of(at, x, steps) : numbers_of(at, line, (int64_t[]){1}), ratio);
  GraphTensor *scaled =
      expand(at, ONNX_Mul, "scaled", expand_widened(at, line), scale_of(at, &dropout, ratio));
  GraphTensor *y = expand_where(at, "left", kept, scaled, expand_number(at, "none", NUMBER_F32, 0));
  if (expand_failed(at)) return;
  y = expand_cast(at, "narrow", y, x->type);
  expand_give(at, 0, known ? y : as_before(at, "dropped", y, x));
  if (expand_wants(at, 1)) expand_give(at, 1, known ? kept : as_before(at, "mask", kept, x));
}

/* ---- QuantizeLinear and DequantizeLinear of blocks ---- */

/* Each index of the scale along the axis is for so many of x's: both with a dimension for the blocks and one within them. */
static GraphTensor *apart(Expansion *at, const char *part, GraphTensor *x, unsigned axis,
                          const Symbolic *blocks, const Symbolic *within)
{
  const Symbolic *shape[GRAPH_MAX_RANK + 1];
  const GraphNode *cast = x->producer;
  if (cast && cast->op->id == ONNX_Cast &&
      number_is_packed(cast->inputs[0]->type)) /* one kernel reads and casts */
    return expand_cast(at, part, apart(at, part, cast->inputs[0], axis, blocks, within), x->type);
  for (unsigned d = 0; d <= x->rank; d++)
    shape[d] = d < axis ? x->shape[d] : d == axis ? blocks : d == axis + 1 ? within : x->shape[d - 1];
  return expand_reshape(at, part, x, shape, x->rank + 1);
}

/* Whole blocks, or less than one behind them. */
static bool are_blocks(Arena *arena, const Symbolic *blocks, const Symbolic *extent, int64_t size)
{
  const Symbolic *number = symbolic_constant(arena, size);
  return symbolic_same(blocks, symbolic_ceil_div(arena, extent, number)) ||
         symbolic_same(symbolic_mul(arena, blocks, number), extent);
}

static bool check_blocks(Expansion *at, unsigned input, unsigned axis, int64_t block, bool *whole)
{
  const GraphTensor *x = expand_input(at, 0), *scale = expand_input(at, input);
  bool fits = scale->rank == x->rank;
  for (unsigned d = 0; fits && d < x->rank; d++)
    fits = d == axis || symbolic_same(scale->shape[d], x->shape[d]);
  fits = fits && are_blocks(expand_arena(at), scale->shape[axis], x->shape[axis], block);
  if (!fits) {
    g_autofree char *have = graph_shape_text(scale->shape, scale->rank),
                    *of = graph_shape_text(x->shape, x->rank);
    expand_refuse(at, ERROR_INPUT, input, "shape", NULL,
                  "`%s` has shape %s, which are no blocks of %d along dimension %u of %s", scale->name, have,
                  (int)block, axis, of);
    return false;
  }
  const Symbolic *product =
      symbolic_mul(expand_arena(at), scale->shape[axis], symbolic_constant(expand_arena(at), block));
  int64_t columns;
  *whole = symbolic_is_constant(x->shape[axis], &columns) ? columns % block == 0
                                                          : symbolic_same(product, x->shape[axis]);
  return true;
}

/* The scale as if each element of x had one, along dimensions whose blocks have several. */
static GraphTensor *spread_blocks(Expansion *at, unsigned input, const int64_t *sizes)
{
  static const char *const steps[][3] = {{"places", "block", "spread"},
                                         {"zero_places", "zero_block", "zero_spread"}};
  const char *const *part = steps[input > 1];
  Arena *arena = expand_arena(at);
  GraphTensor *x = expand_input(at, 0), *scale = expand_input(at, input);
  for (unsigned d = 0; d < x->rank; d++) {
    if (sizes[d] == 1) continue;
    GraphTensor *all = expand_index(at, arena_printf(arena, "%s%u", part[0], d), &x->shape[d], 1, 0);
    GraphTensor *block = expand(at, ONNX_Div, arena_printf(arena, "%s%u", part[1], d), all,
                                expand_number(at, "size", NUMBER_S32, (double)sizes[d]));
    scale = expand_node(at, &(ExpandNode){ONNX_Gather,
                                          arena_printf(arena, "%s%u", part[2], d),
                                          2,
                                          {scale, block},
                                          .attributes = {{"axis", d}}});
  }
  return scale;
}

/* `block_shape`: one number for each dimension; false: it was refused. */
static bool read_block_shape(Expansion *at, const GraphAttribute *shape, int64_t *sizes)
{
  const GraphTensor *x = expand_input(at, 0), *scale = expand_input(at, 1);
  bool fits = shape->n == x->rank && x->rank && scale->rank == x->rank;
  for (unsigned d = 0; d < shape->n && fits; d++) {
    sizes[d] = shape->integers[d];
    fits = sizes[d] >= 1 && are_blocks(expand_arena(at), scale->shape[d], x->shape[d], sizes[d]);
  }
  if (fits) return true;
  g_autofree char *have = graph_shape_text(scale->shape, scale->rank),
                  *of = graph_shape_text(x->shape, x->rank);
  expand_refuse_attribute(at, ERROR_INPUT, "block_shape",
                          "one number of at least 1 for each dimension, and a scale for each block",
                          "these are no blocks of %s whose scales have shape %s", of, have);
  return false;
}

/* Blocks along several dimensions, or that end with less than a whole one: each element reads its block's scale. */
static void dequantize_spread(Expansion *at, const int64_t *sizes)
{
  const GraphNode *node = expand_written(at);
  const GraphAttribute *type = graph_attribute_find(node, "output_dtype");
  GraphTensor *zero = node->n_inputs > 2 ? expand_input(at, 2) : NULL;
  if (zero) zero = spread_blocks(at, 2, sizes);
  GraphTensor *y = expand_node(at, &(ExpandNode){ONNX_DequantizeLinear,
                                                 "elements",
                                                 zero ? 3 : 2,
                                                 {expand_input(at, 0), spread_blocks(at, 1, sizes), zero},
                                                 .attributes = {{"output_dtype", type ? type->integer : 0}}});
  if (!expand_failed(at)) expand_give(at, 0, y);
}

/* What fusion may know of the node's result. */
static void note_blocks(Expansion *at, const int64_t *sizes)
{
  GraphTensor *x = expand_input(at, 0), *result = expand_written(at)->outputs[0];
  if (expand_failed(at)) return;
  GraphBlocks *blocks = arena_new_object(expand_arena(at), GraphBlocks);
  *blocks = (GraphBlocks){.x = x, .scale = expand_input(at, 1)};
  if (expand_written(at)->n_inputs > 2) blocks->zero = expand_input(at, 2);
  memcpy(blocks->sizes, sizes, x->rank * sizeof *sizes);
  if (result) result->blocks = blocks;
}

static void quantize_blocks(Expansion *at, OperatorId op)
{
  const GraphNode *node = expand_written(at);
  const GraphAttribute *saturate = graph_attribute_find(node, "saturate"),
                       *type = graph_attribute(node, "output_dtype");
  GraphTensor *x = expand_input(at, 0), *operands[3] = {NULL};
  int64_t block = graph_attribute(node, "block_size")->integer;
  const Symbolic *one = symbolic_constant(expand_arena(at), 1);
  unsigned axis;
  bool whole = true;
  if (!expand_read_axis(at, &axis)) return;
  if (block < 1 || x->rank == GRAPH_MAX_RANK) {
    expand_refuse_attribute(at, block < 1 ? ERROR_INPUT : ERROR_UNSUPPORTED, "block_size", NULL,
                            "blocks of %d elements of a tensor of rank %u", (int)block, x->rank);
    return;
  }
  for (unsigned i = 1; i < node->n_inputs; i++) {
    if (!expand_input(at, i)) continue;
    if (!check_blocks(at, i, axis, block, &whole)) return;
    if (!whole && op != ONNX_DequantizeLinear) {
      expand_refuse(at, ERROR_UNSUPPORTED, i, "shape", NULL,
                    "blocks that do not divide dimension %u of `%s` are not supported", axis, x->name);
      return;
    }
    if (!whole) continue;
    const Symbolic *blocks = expand_input(at, i)->shape[axis];
    operands[0] = apart(at, "blocks", x, axis, blocks, symbolic_constant(expand_arena(at), block));
    operands[i] = apart(at, i == 1 ? "scales" : "zeros", expand_input(at, i), axis, blocks, one);
  }
  if (op == ONNX_DequantizeLinear) {
    int64_t sizes[GRAPH_MAX_RANK];
    for (unsigned d = 0; d < x->rank; d++)
      sizes[d] = d == axis ? block : 1;
    note_blocks(at, sizes);
    if (!whole) {
      dequantize_spread(at, sizes);
      return;
    }
  }
  ExpandNode spec = {op,
                     "quantized",
                     node->n_inputs,
                     {operands[0], operands[1], operands[2]},
                     .attributes = {{"output_dtype", type->integer},
                                    {saturate ? "saturate" : NULL, saturate ? saturate->integer : 0}}};
  GraphTensor *y = expand_node(at, &spec);
  if (expand_failed(at)) return;
  expand_give(at, 0, expand_reshape(at, "whole", y, (const Symbolic *const *)x->shape, x->rank));
}

void expand_quantize_blocks(Expansion *at)
{
  quantize_blocks(at, ONNX_QuantizeLinear);
}

/* Elements of 4 bits as those of 8, and scales that are powers of two as f32, all of them the same numbers: what is left is known of
 * these. */
static void dequantize_widened(Expansion *at)
{
  const GraphNode *node = expand_written(at);
  const GraphAttribute *axis = graph_attribute_find(node, "axis"),
                       *size = graph_attribute_find(node, "block_size"),
                       *shape = graph_attribute_find(node, "block_shape"),
                       *asked = graph_attribute_find(node, "output_dtype");
  GraphTensor *x = expand_input(at, 0), *scale = expand_input(at, 1),
              *zero = node->n_inputs > 2 ? expand_input(at, 2) : NULL;
  const NumberType wide = x->type == NUMBER_S4 ? NUMBER_S8 : x->type == NUMBER_U4 ? NUMBER_U8 : NUMBER_E4M3;
  const int64_t type = asked && asked->integer != OPERATOR_NO_TYPE ? asked->integer : scale->type;
  if (number_is_packed(x->type)) {
    x = expand_cast(at, "wide", x, wide);
    zero = zero ? expand_cast(at, "wide_zeros", zero, wide) : NULL;
  }
  if (scale->type == NUMBER_E8M0) scale = expand_cast(at, "powers", scale, NUMBER_F32);
  if (expand_failed(at)) return;
  ExpandNode spec = {ONNX_DequantizeLinear,
                     "elements",
                     zero ? 3 : 2,
                     {x, scale, zero},
                     .attributes = {{"output_dtype", type},
                                    {axis ? "axis" : NULL, axis ? axis->integer : 0},
                                    {size ? "block_size" : NULL, size ? size->integer : 0}}};
  if (shape && shape->given)
    spec.attributes[3] = (ExpandAttribute){"block_shape", .integers = shape->integers, .n = shape->n};
  GraphTensor *y = expand_node(at, &spec);
  if (!expand_failed(at)) expand_give(at, 0, y);
}

void expand_dequantize_blocks(Expansion *at)
{
  const bool packed = number_is_packed(expand_input(at, 0)->type);
  if (packed || expand_input(at, 1)->type == NUMBER_E8M0) {
    dequantize_widened(at);
    return;
  }
  const GraphAttribute *shape = graph_attribute_find(expand_written(at), "block_shape");
  int64_t sizes[GRAPH_MAX_RANK];
  if (shape && shape->given) {
    if (graph_attribute(expand_written(at), "block_size")->integer) {
      expand_refuse_attribute(at, ERROR_INPUT, "block_shape", "leave out one of them",
                              "`block_size` and `block_shape` are both given");
      return;
    }
    if (!read_block_shape(at, shape, sizes)) return;
    note_blocks(at, sizes);
    dequantize_spread(at, sizes);
    return;
  }
  quantize_blocks(at, ONNX_DequantizeLinear);
}
