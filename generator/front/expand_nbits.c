/* MatMulNBits of com.microsoft: Y = A B' + bias, where rows of B are numbers of 8, 4 or 2 bits, less a zero point and times a scale
 * of each block along k.
 *
 *   B           [N, blocks, bytes of a block]: numbers side by side, the lowest bits first
 *   scales      [N, blocks] or [N * blocks]
 *   zero_points [N, bytes], packed as B is and each row from a whole byte on; absent: half of what the bits can tell
 *
 * Of 8 bits B lies as DequantizeLinear wants it. Others are taken apart to bytes by kernels in front; but of 8 and 4 bits a product
 * reads B, scales and zero points where they lie (GraphPacked). With g_idx each number along k has the scale and zero point of a
 * block of its own. */
#include "generator/front/expand_microsoft.h"

enum { A, B, SCALES, ZEROS, GROUPS, BIAS };

typedef struct {
  Expansion *x;
  int64_t bits, rows, depth, size, blocks; /* N, K, and of k: elements of a block, blocks */
} Weights;

static int64_t integer(Expansion *x, const char *name)
{
  return graph_attribute(expand_written(x), name)->integer;
}

static bool is_count(Expansion *x, const char *name)
{
  int64_t value = integer(x, name);
  if (value >= 1 && value <= INT32_MAX) return true;
  expand_refuse_attribute(x, ERROR_INPUT, name, NULL,
                          "`%s` of MatMulNBits is from 1 on, not %" G_GINT64_FORMAT, name, value);
  return false;
}

static bool read_weights(Weights *w)
{
  Expansion *x = w->x;
  if (!is_count(x, "N") || !is_count(x, "K")) return false;
  *w = (Weights){x, integer(x, "bits"), integer(x, "N"), integer(x, "K"), integer(x, "block_size"), 0};
  if (w->bits != 2 && w->bits != 4 && w->bits != 8)
    expand_refuse_attribute(x, ERROR_UNSUPPORTED, "bits", "2, 4 or 8",
                            "MatMulNBits of %d bits is not supported", (int)w->bits);
  else if (w->size < 16 || w->size > INT32_MAX || (w->size & (w->size - 1)))
    expand_refuse_attribute(x, ERROR_INPUT, "block_size", NULL,
                            "blocks of MatMulNBits have a power of two of elements, 16 at least, not %d",
                            (int)w->size);
  else
    w->blocks = (w->depth + w->size - 1) / w->size;
  return w->blocks > 0;
}

/* Has the input so many elements of the type? */
static bool fits(const Weights *w, unsigned input, const char *name, NumberType type, int64_t count)
{
  const GraphTensor *tensor = expand_input(w->x, input);
  int64_t extent, all = 1;
  bool known = true;
  for (unsigned d = 0; d < tensor->rank; d++) {
    known = known && symbolic_is_constant(tensor->shape[d], &extent);
    all = known ? all * extent : 0;
  }
  if (tensor->type != type)
    expand_refuse(w->x, ERROR_UNSUPPORTED, input, "unsupported-type", NULL,
                  "`%s` of MatMulNBits as %s is not supported here, only as %s: `%s`", name,
                  number_name(tensor->type), number_name(type), tensor->name);
  else if (!known || all != count)
    expand_refuse(w->x, ERROR_INPUT, input, "shape", NULL,
                  "`%s` of MatMulNBits has %" G_GINT64_FORMAT " elements by its attributes: `%s` has not",
                  name, count, tensor->name);
  return !expand_failed(w->x);
}

/* Numbers of a row of bytes: [N, bytes] -> [N, width], where rows are of whole bytes. */
static GraphTensor *taken_apart(const Weights *w, GraphTensor *bytes, int64_t count, int64_t width)
{
  Expansion *x = w->x;
  Arena *arena = expand_arena(x);
  unsigned each = 8 / (unsigned)w->bits;
  const Symbolic *const column[] = {symbolic_constant(arena, w->rows), symbolic_constant(arena, count),
                                    symbolic_constant(arena, 1)};
  const Symbolic *const whole[] = {column[0], symbolic_constant(arena, count * each)};
  ExpandNode together = {ONNX_Concat, "numbers", each, {NULL}, .attributes = {{"axis", 2}}};
  for (unsigned i = 0; i < each; i++) {
    GraphTensor *part = bytes;
    if (i)
      part = expand_node(x, &(ExpandNode){ONNX_BitShift,
                                          "shifted",
                                          2,
                                          {bytes, expand_number(x, "by", NUMBER_U8, (double)(i * w->bits))},
                                          .attributes = {{"direction", .text = "RIGHT"}}});
    if (i + 1 < each)
      part = expand(x, ONNX_BitwiseAnd, "number", part,
                    expand_number(x, "mask", NUMBER_U8, (double)((1u << w->bits) - 1)));
    together.inputs[i] = expand_reshape(x, "number", part, column, 3);
  }
  GraphTensor *numbers =
      expand_reshape(x, "numbers", each > 1 ? expand_node(x, &together) : together.inputs[0], whole, 2);
  if (width == count * each) return numbers;
  return expand_slice(x, "numbers", numbers, 1, 0, width);
}

static GraphTensor *as_matrix(const Weights *w, const char *part, GraphTensor *tensor, int64_t columns)
{
  Arena *arena = expand_arena(w->x);
  if (tensor->rank == 2 && symbolic_equals(tensor->shape[0], w->rows) &&
      symbolic_equals(tensor->shape[1], columns))
    return tensor;
  return expand_reshape(
      w->x, part, tensor,
      (const Symbolic *const[]){symbolic_constant(arena, w->rows), symbolic_constant(arena, columns)}, 2);
}

static GraphTensor *zeros(const Weights *w)
{
  int64_t bytes = (w->blocks * w->bits + 7) / 8;
  GraphTensor *given = expand_input(w->x, ZEROS);
  if (given)
    return fits(w, ZEROS, "zero_points", NUMBER_U8, w->rows * bytes)
               ? taken_apart(w, as_matrix(w, "zeros", given, bytes), bytes, w->blocks)
               : NULL;
  const int64_t shape[] = {w->rows, w->blocks};
  return expand(w->x, ONNX_Expand, "middle",
                expand_number(w->x, "middle", NUMBER_U8, (double)(1u << (w->bits - 1))),
                expand_integers(w->x, "shape", shape, 2));
}

/* A B' with the rows of all batches behind one another. */
static GraphTensor *product(const Weights *w, GraphTensor *a, GraphTensor *b)
{
  Expansion *x = w->x;
  Arena *arena = expand_arena(x);
  GraphTensor *bias = expand_input(x, BIAS);
  const Symbolic *shape[GRAPH_MAX_RANK], *rows = symbolic_constant(arena, 1);
  for (unsigned d = 0; d + 1 < a->rank; d++)
    rows = symbolic_mul(arena, rows, shape[d] = a->shape[d]);
  shape[a->rank - 1] = symbolic_constant(arena, w->rows);
  GraphTensor *flat =
      a->rank == 2 ? a
                   : expand_reshape(x, "rows", a, (const Symbolic *const[]){rows, a->shape[a->rank - 1]}, 2);
  GraphTensor *y = expand_node(
      x, &(ExpandNode){ONNX_Gemm, "product", bias ? 3 : 2, {flat, b, bias}, .attributes = {{"transB", 1}}});
  return a->rank == 2 ? y : expand_reshape(x, "product", y, shape, a->rank);
}

/* What a product may read in place of what is taken apart. */
static void note_packed(const Weights *w, GraphTensor *weights)
{
  GraphTensor *given = expand_input(w->x, ZEROS);
  if (expand_failed(w->x) || !weights->blocks || w->bits == 2) return;
  const NumberType type = w->bits == 4 ? NUMBER_U4 : NUMBER_U8;
  GraphBlocks *blocks = arena_memdup(expand_arena(w->x), weights->blocks, sizeof *weights->blocks);
  blocks->x_in = (GraphPacked){expand_input(w->x, B), type, w->blocks * w->size};
  blocks->scale_in = (GraphPacked){expand_input(w->x, SCALES), expand_input(w->x, SCALES)->type, w->blocks};
  int64_t each = 8 / w->bits, bytes = (w->blocks + each - 1) / each;
  if (given)
    blocks->zero_in = (GraphPacked){given, type, bytes * each};
  else
    blocks->zero = expand_number(w->x, "middle", type, (double)(1u << (w->bits - 1)));
  weights->blocks = blocks;
}

/* The scale or zero point of each number along k, by the block that it names. */
static GraphTensor *by_groups(const Weights *w, const char *part, GraphTensor *of_blocks)
{
  return expand_node(
      w->x, &(ExpandNode){
                ONNX_Gather, part, 2, {of_blocks, expand_input(w->x, GROUPS)}, .attributes = {{"axis", 1}}});
}

void expand_matmul_nbits(Expansion *x)
{
  Weights w = {.x = x};
  GraphTensor *a = expand_input(x, A);
  expand_refuse_flag(x, "weight_prepacked");
  if (!a->rank)
    expand_refuse(x, ERROR_INPUT, A, "rank", NULL, "MatMulNBits takes rows of K elements: `%s` has none",
                  a->name);
  if (expand_failed(x) || !read_weights(&w)) return;
  int64_t bytes = w.blocks * (w.size * w.bits / 8);
  if (!fits(&w, B, "B", NUMBER_U8, w.rows * bytes) || !fits(&w, SCALES, "scales", a->type, w.rows * w.blocks))
    return;
  GraphTensor *numbers = taken_apart(&w, as_matrix(&w, "bytes", expand_input(x, B), bytes), bytes, w.depth);
  GraphTensor *scales = as_matrix(&w, "scales", expand_input(x, SCALES), w.blocks), *zero = zeros(&w);
  if (expand_failed(x)) return;
  if (a->type == NUMBER_TF32) scales = expand_cast(x, "scales", scales, NUMBER_F32);
  const bool groups = expand_input(x, GROUPS);
  if (groups && !fits(&w, GROUPS, "g_idx", NUMBER_S32, w.depth)) return;
  if (groups) {
    scales = by_groups(&w, "group_scales", scales);
    zero = by_groups(&w, "group_zeros", zero);
    if (expand_failed(x)) return;
  }
  GraphTensor *b =
      expand_node(x, &(ExpandNode){ONNX_DequantizeLinear,
                                   "weights",
                                   3,
                                   {numbers, scales, zero},
                                   .attributes = {{groups ? NULL : "axis", 1}, {"block_size", w.size}}});
  if (!groups) note_packed(&w, b);
  expand_give(x, 0, product(&w, a, expand_cast(x, "weights", b, a->type)));
}
