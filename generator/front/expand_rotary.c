/* RotaryEmbedding: pairs of a head's elements are turned by the angles of their position. Both results of a pair are
 * computed where its elements have been read, and stored where the result has them. */
#include "generator/front/expand_rows.h"

typedef struct {
  unsigned heads;               /* dimension of the heads */
  int64_t head, rotated, pairs; /* elements of a head, and of them */
} Rotary;

static bool read_extents(Expansion *at, const GraphTensor *x, Rotary *rotary)
{
  const GraphNode *node = expand_written(at);
  const GraphAttribute *dim = graph_attribute(node, "rotary_embedding_dim");
  if (!symbolic_is_constant(x->shape[x->rank - 1], &rotary->head)) {
    expand_refuse(at, ERROR_UNSUPPORTED, 0, "shape", "write it as a number",
                  "heads of a size that is not known are not supported");
    return false;
  }
  rotary->rotated = dim->integer ? dim->integer : rotary->head;
  rotary->pairs = rotary->rotated / 2;
  if (rotary->rotated >= 2 && rotary->rotated % 2 == 0 && rotary->rotated <= rotary->head) return true;
  expand_refuse_attribute(at, ERROR_INPUT, "rotary_embedding_dim", "an even number, at most the head's size",
                          "%d of %d elements of a head cannot be rotated", (int)rotary->rotated,
                          (int)rotary->head);
  return false;
}

/* [B, S, hidden] has heads by an attribute: [B, S, H, head]; else it is [B, H, S, head]. */
static GraphTensor *with_heads(Expansion *at, Rotary *rotary)
{
  GraphTensor *x = expand_input(at, 0);
  const GraphAttribute *heads = graph_attribute(expand_written(at), "num_heads");
  rotary->heads = x->rank == 4 ? 1 : 2;
  if (x->rank == 4) return x;
  if (x->rank != 3 || heads->integer <= 0) {
    expand_refuse(at, ERROR_INPUT, 0, "rank", "[B, heads, S, head], or [B, S, hidden] with `num_heads`",
                  "RotaryEmbedding does not take `%s` of rank %u so", x->name, x->rank);
    return NULL;
  }
  return expand(at, ONNX_Reshape, "heads", x,
                expand_integers(at, "shape", (int64_t[]){0, 0, heads->integer, -1}, 4));
}

/* Of each position and pair, with a dimension of 1 for the heads: f32. */
static GraphTensor *angles(Expansion *at, const Rotary *rotary, unsigned input, const char *part,
                           bool interleaved)
{
  GraphTensor *cache = expand_input(at, input), *positions = expand_input(at, 3);
  GraphTensor *axes = expand_integers(at, "axes", (int64_t[]){rotary->heads}, 1);
  GraphTensor *angle = positions ? expand(at, ONNX_Gather, part, cache,
                                          expand(at, ONNX_Unsqueeze, "positions", positions, axes))
                                 : expand(at, ONNX_Unsqueeze, part, cache, axes);
  if (interleaved) /* a pair lies along a dimension of its own */
    angle = expand(at, ONNX_Unsqueeze, part, angle, expand_integers(at, "axes", (int64_t[]){-1}, 1));
  return expand_widened(at, angle);
}

static GraphTensor *turned(Expansion *at, OperatorId op, const char *part, GraphTensor *a, GraphTensor *by,
                           GraphTensor *b, GraphTensor *other)
{
  GraphTensor *first = expand(at, ONNX_Mul, "by", a, by), *second = expand(at, ONNX_Mul, "other", b, other);
  return expand_cast(at, part, expand(at, op, "turned", first, second), expand_input(at, 0)->type);
}

/* Pairs of neighbours have a dimension of their own. */
static GraphTensor *parted(Expansion *at, GraphTensor *x, int64_t pairs)
{
  return expand(at, ONNX_Reshape, "pairs", x,
                expand_integers(at, "shape", (int64_t[]){0, 0, 0, pairs, 2}, 5));
}

void expand_rotary_embedding(Expansion *at)
{
  Rotary rotary;
  GraphTensor *x = with_heads(at, &rotary);
  if (expand_failed(at) || !read_extents(at, x, &rotary)) return;
  bool interleaved = graph_attribute(expand_written(at), "interleaved")->integer != 0,
       rest = rotary.rotated < rotary.head;
  GraphTensor *cosine = angles(at, &rotary, 1, "cosine", interleaved),
              *sine = angles(at, &rotary, 2, "sine", interleaved);
  GraphTensor *parts[2] = {NULL, NULL}, *behind = NULL, *front = x;
  int64_t sizes[3] = {rotary.pairs, rotary.pairs, rotary.head - rotary.rotated};
  if (interleaved) {
    if (rest) {
      int64_t two[2] = {rotary.rotated, sizes[2]};
      front = expand_node(at, &(ExpandNode){ONNX_Split,
                                            "front",
                                            2,
                                            {x, expand_integers(at, "sizes", two, 2)},
                                            .attributes = {{"axis", -1}},
                                            .further = &behind,
                                            .n_further = 1});
    }
    GraphTensor *pairs = parted(at, front, rotary.pairs);
    GraphTensor *second = NULL;
    GraphTensor *first =
        expand_node(at, &(ExpandNode){ONNX_Split,
                                      "even",
                                      2,
                                      {pairs, expand_integers(at, "sizes", (int64_t[]){1, 1}, 2)},
                                      .attributes = {{"axis", -1}},
                                      .further = &second,
                                      .n_further = 1});
    parts[0] = first;
    parts[1] = second;
  } else {
    GraphTensor *further[2] = {NULL, NULL};
    parts[0] = expand_node(at, &(ExpandNode){ONNX_Split,
                                             "first",
                                             2,
                                             {x, expand_integers(at, "sizes", sizes, rest ? 3 : 2)},
                                             .attributes = {{"axis", -1}},
                                             .further = further,
                                             .n_further = rest ? 2 : 1});
    parts[1] = further[0];
    behind = further[1];
  }
  GraphTensor *a = expand_widened(at, parts[0]), *b = expand_widened(at, parts[1]);
  GraphTensor *real = turned(at, ONNX_Sub, "real", a, cosine, b, sine);
  GraphTensor *imaginary = turned(at, ONNX_Add, "imaginary", a, sine, b, cosine);
  GraphTensor *result;
  if (interleaved) {
    result = expand_node(
        at, &(ExpandNode){ONNX_Concat, "joined", 2, {real, imaginary}, .attributes = {{"axis", -1}}});
    result = expand(at, ONNX_Reshape, "merged", result,
                    expand_integers(at, "shape", (int64_t[]){0, 0, 0, rotary.rotated}, 4));
    if (rest)
      result = expand_node(
          at, &(ExpandNode){ONNX_Concat, "all", 2, {result, behind}, .attributes = {{"axis", -1}}});
  } else {
    result = expand_node(
        at, &(ExpandNode){
                ONNX_Concat, "all", rest ? 3 : 2, {real, imaginary, behind}, .attributes = {{"axis", -1}}});
  }
  if (expand_input(at, 0)->rank == 3)
    result =
        expand(at, ONNX_Reshape, "hidden", result, expand_integers(at, "shape", (int64_t[]){0, 0, -1}, 3));
  expand_give(at, 0, result);
}
