/* Operators that a few others are, which no kernel of their own would make faster. */
#include "generator/front/expand.h"

void expand_swi_glu(Expansion *at)
{
  const GraphNode *node = expand_written(at);
  const ExpandNode gate = {ONNX_Swish,
                           "gate",
                           1,
                           {expand_input(at, 0)},
                           .attributes = {{"alpha", .number = graph_attribute(node, "alpha")->number}}};
  if (!graph_same_shape(expand_input(at, 0), expand_input(at, 1))) {
    expand_refuse(at, ERROR_INPUT, 1, "shape", NULL, "the operands of SwiGLU have one shape");
    return;
  }
  expand_give(at, 0, expand(at, ONNX_Mul, "gated", expand_node(at, &gate), expand_input(at, 1)));
}

/* (A - a_zero) (B - b_zero) in s32, scaled and rounded once: as exact as the f32 of the scales. */
void expand_q_linear_mat_mul(Expansion *at)
{
  const ExpandNode product = {
      ONNX_MatMulInteger,
      "product",
      4,
      {expand_input(at, 0), expand_input(at, 3), expand_input(at, 2), expand_input(at, 5)}};
  GraphTensor *sum = expand_cast(at, "sum", expand_node(at, &product), NUMBER_F32);
  GraphTensor *a_scale = expand_cast(at, "a_factor", expand_input(at, 1), NUMBER_F32),
              *b_scale = expand_cast(at, "b_factor", expand_input(at, 4), NUMBER_F32),
              *y_scale = expand_cast(at, "y_factor", expand_input(at, 6), NUMBER_F32);
  if (!graph_has_one_element(expand_input(at, 1)) || !graph_has_one_element(expand_input(at, 4)) ||
      !graph_has_one_element(expand_input(at, 6))) {
    expand_refuse(at, ERROR_UNSUPPORTED, 1, "shape", "use DequantizeLinear, MatMul and QuantizeLinear",
                  "QLinearMatMul with scales of rows or columns is not supported");
    return;
  }
  GraphTensor *scaled = expand(at, ONNX_Mul, "scaled", sum, expand(at, ONNX_Mul, "factor", a_scale, b_scale));
  expand_give(
      at, 0,
      expand_node(
          at, &(ExpandNode){ONNX_QuantizeLinear, "quantized", 3, {scaled, y_scale, expand_input(at, 7)}}));
}

/* ---- CenterCropPad ---- */

typedef struct {
  int64_t starts[GRAPH_MAX_RANK], ends[GRAPH_MAX_RANK]; /* of the crop */
  int64_t pads[2 * GRAPH_MAX_RANK];
  bool crops, pads_any;
} Centre;

static void centre(Centre *c, unsigned d, unsigned rank, int64_t have, int64_t want)
{
  int64_t less = (have - want) / 2, more = (want - have) / 2;
  c->starts[d] = have > want ? less : 0;
  c->ends[d] = have > want ? less + want : have;
  c->pads[d] = want > have ? more : 0;
  c->pads[rank + d] = want > have ? want - have - more : 0;
  c->crops = c->crops || have > want;
  c->pads_any = c->pads_any || want > have;
}

static bool read_centre(Expansion *at, Centre *c)
{
  GraphTensor *x = expand_input(at, 0), *shape = expand_input(at, 1);
  const GraphAttribute *axes = graph_attribute(expand_written(at), "axes");
  unsigned n = axes->given ? axes->n : x->rank;
  int64_t have[GRAPH_MAX_RANK], want;
  for (unsigned d = 0; d < x->rank; d++) {
    if (!symbolic_is_constant(x->shape[d], &have[d])) {
      expand_refuse(at, ERROR_UNSUPPORTED, 0, "shape", "bind the symbol: --dim",
                    "CenterCropPad of extents that are symbols is not supported: `%s`", x->name);
      return false;
    }
    centre(c, d, x->rank, have[d], have[d]);
  }
  for (unsigned i = 0; i < n; i++) {
    int64_t axis = axes->given ? axes->integers[i] : i;
    if (axis < 0) axis += x->rank;
    if (axis < 0 || axis >= x->rank || !shape->values || shape->n_elements != n ||
        !symbolic_is_constant(shape->values[i], &want) || want < 0) {
      expand_refuse(at, shape->values ? ERROR_INPUT : ERROR_UNSUPPORTED, 1, "shape",
                    "put it under `constants`, with `data`",
                    "`%s` is not the extents of %u axes of a tensor of rank %u that are known", shape->name,
                    n, x->rank);
      return false;
    }
    centre(c, (unsigned)axis, x->rank, have[axis], want);
  }
  return true;
}

void expand_center_crop_pad(Expansion *at)
{
  GraphTensor *x = expand_input(at, 0);
  Centre c = {0};
  unsigned rank = x->rank;
  if (!read_centre(at, &c)) return;
  if (c.crops)
    x = expand_node(at, &(ExpandNode){ONNX_Slice,
                                      "cropped",
                                      3,
                                      {x, expand_integers(at, "starts", c.starts, rank),
                                       expand_integers(at, "ends", c.ends, rank)}});
  if (c.pads_any)
    x = expand_node(at, &(ExpandNode){ONNX_Pad,
                                      "padded",
                                      2,
                                      {x, expand_integers(at, "pads", c.pads, 2 * rank)},
                                      .attributes = {{"mode", .text = "constant"}}});
  expand_give(at, 0, x);
}

/* ---- Compress: Gather at indices that are known ---- */

void expand_compress(Expansion *at)
{
  GraphTensor *x = expand_input(at, 0), *condition = expand_input(at, 1);
  const GraphAttribute *axis = graph_attribute(expand_written(at), "axis");
  if (!condition->values) {
    expand_refuse(at, ERROR_UNSUPPORTED, 1, "condition", "put it under `constants`, with `data`",
                  "a condition that is not a constant of the description is not supported: `%s`",
                  condition->name);
    return;
  }
  g_autofree int64_t *indices = g_new0(int64_t, condition->n_elements + 1);
  unsigned n = 0;
  int64_t truth;
  for (size_t i = 0; i < condition->n_elements; i++)
    if (symbolic_is_constant(condition->values[i], &truth) && truth) indices[n++] = (int64_t)i;
  if (!axis->given) {
    const Symbolic *all = symbolic_constant(expand_arena(at), 1);
    for (unsigned d = 0; d < x->rank; d++)
      all = symbolic_mul(expand_arena(at), all, x->shape[d]);
    x = expand_reshape(at, "flat", x, &all, 1);
  }
  const ExpandNode taken = {ONNX_Gather,
                            "taken",
                            2,
                            {x, expand_integers(at, "indices", indices, n)},
                            .attributes = {{"axis", axis->given ? axis->integer : 0}}};
  expand_give(at, 0, expand_node(at, &taken));
}
