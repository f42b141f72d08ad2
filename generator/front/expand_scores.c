#include "generator/front/expand_scores.h"
#include <math.h>

void expand_scores_group(ExpandScores *at, unsigned input)
{
  int64_t q, kv;
  bool known = symbolic_is_constant(at->q_heads, &q) && symbolic_is_constant(at->kv_heads, &kv);
  at->group = symbolic_constant(expand_arena(at->x), 1);
  at->grouped = !symbolic_same(at->q_heads, at->kv_heads);
  if (!at->grouped || expand_failed(at->x)) return;
  if (known && kv > 0 && q % kv == 0) {
    at->group = symbolic_constant(expand_arena(at->x), q / kv);
    return;
  }
  g_autofree char *q_text = symbolic_text(at->q_heads), *kv_text = symbolic_text(at->kv_heads);
  expand_refuse(at->x, known ? ERROR_INPUT : ERROR_UNSUPPORTED, input, "shape",
                known ? "each head of keys and values serves as many heads of queries"
                      : "bind the symbol: --dim",
                "%s heads of queries %s %s heads of keys and values", q_text,
                known ? "do not divide by" : "are not known to divide by", kv_text);
}

void expand_scores_windows(Expansion *x, int64_t most)
{
  static const char *const windows[] = {"left_window_size", "right_window_size"};
  for (unsigned i = 0; i < 2; i++) {
    const GraphAttribute *size = graph_attribute_find(expand_written(x), windows[i]);
    if (size && (size->integer < -1 || size->integer > most))
      expand_refuse_attribute(x, ERROR_INPUT, windows[i], "-1: without end",
                              "`%s` is a number of keys, or -1", windows[i]);
  }
}

/* ---- masks ---- */

bool expand_scores_fit(const ExpandScores *at, unsigned input, const GraphTensor *mask)
{
  const Symbolic *const wanted[] = {at->batch, at->q_heads, at->rows, at->keys};
  if (expand_failed(at->x)) return false;
  bool fits = mask->rank >= 1 && mask->rank <= 4;
  for (unsigned i = 0; fits && i < mask->rank; i++) {
    const Symbolic *extent = mask->shape[mask->rank - 1 - i];
    fits = symbolic_equals(extent, 1) || expand_same(at->x, extent, wanted[3 - i]);
  }
  if (fits) return true;
  g_autofree char *have = graph_shape_text(mask->shape, mask->rank), *want = graph_shape_text(wanted, 4);
  expand_refuse(at->x, ERROR_INPUT, input, "shape", "dimensions must be equal or 1, counted from the last",
                "the mask `%s` of shape %s does not broadcast to the scores' %s",
                expand_input(at->x, input)->name, have, want);
  return false;
}

/* A mask of heads beside scores that have a dimension for groups. */
static GraphTensor *of_groups(const ExpandScores *at, GraphTensor *mask)
{
  const Symbolic *shape[5], *one = symbolic_constant(expand_arena(at->x), 1);
  unsigned n = 0;
  if (!at->grouped || mask->rank < 3) return mask;
  bool each = !symbolic_equals(mask->shape[mask->rank - 3], 1);
  for (unsigned d = 0; d < mask->rank; d++) {
    bool heads = d + 3 == mask->rank;
    shape[n++] = heads && each ? at->kv_heads : mask->shape[d];
    if (heads) shape[n++] = each ? at->group : one;
  }
  return expand_reshape(at->x, "mask", mask, shape, n);
}

GraphTensor *expand_scores_masked(const ExpandScores *at, GraphTensor *scores, GraphTensor *mask)
{
  if (!expand_failed(at->x)) mask = of_groups(at, mask);
  if (expand_failed(at->x)) return NULL;
  if (mask->type != NUMBER_BOOL)
    return expand(at->x, ONNX_Add, "biased", scores, expand_cast(at->x, "bias", mask, scores->type));
  GraphTensor *hidden = expand_number(at->x, "hidden", scores->type, -INFINITY);
  return expand_where(at->x, "seen", mask, scores, hidden);
}

/* ---- operands ---- */

GraphTensor *expand_scores_shared(const ExpandScores *at, const char *part, GraphTensor *tensor)
{
  if (!at->grouped) return tensor;
  return expand(at->x, ONNX_Unsqueeze, part, tensor, expand_integers(at->x, "axes", (int64_t[]){2}, 1));
}

GraphTensor *expand_scores_split(const ExpandScores *at, const char *part, GraphTensor *tensor,
                                 const Symbolic *columns)
{
  if (!at->grouped) return tensor;
  return expand_reshape(at->x, part, tensor,
                        (const Symbolic *[]){at->batch, at->kv_heads, at->group, at->rows, columns}, 5);
}

GraphTensor *expand_scores_merge(const ExpandScores *at, const char *part, GraphTensor *tensor,
                                 const Symbolic *columns)
{
  if (!at->grouped) return tensor;
  return expand_reshape(at->x, part, tensor, (const Symbolic *[]){at->batch, at->q_heads, at->rows, columns},
                        4);
}

GraphTensor *expand_scores_turned(const ExpandScores *at, const char *part, GraphTensor *tensor)
{
  return expand_transpose(at->x, part, tensor,
                          at->grouped ? (int64_t[]){0, 1, 2, 4, 3} : (int64_t[]){0, 1, 3, 2});
}

GraphTensor *expand_scores_capped(const ExpandScores *at, GraphTensor *scores, double cap,
                                  GraphTensor **angle)
{
  if (expand_failed(at->x)) return NULL;
  GraphTensor *most = expand_number(at->x, "cap", scores->type, cap);
  *angle = expand(at->x, ONNX_Tanh, "tanh", expand(at->x, ONNX_Div, "share", scores, most), NULL);
  return expand(at->x, ONNX_Mul, "capped", *angle, most);
}
