/* MergeStates: what attention has computed of two parts of the keys, apart, as if it had been of all of them at once.
 *
 *   top = max(L, L2)   w = e^(L - top)   w2 = e^(L2 - top)
 *   O   = (w O + w2 O2) / (w + w2)       L = top + ln(w + w2)
 *
 * Rows that see nothing in either part stay 0 and -infinity: nothing is subtracted from -infinity, nor divided by 0. */
#include "generator/front/expand.h"

enum { RESULT, SUM, OTHER_RESULT, OTHER_SUM };

#define LEAST (-3.4028234663852886e38) /* of f32 */

static GraphTensor *input(Expansion *x, unsigned i, NumberType type)
{
  return expand_cast(x, i == SUM || i == OTHER_SUM ? "sum" : "wide", expand_input(x, i), type);
}

static void check_shapes(Expansion *x)
{
  const GraphTensor *result = expand_input(x, RESULT), *other = expand_input(x, OTHER_RESULT);
  bool alike = result->rank && other->rank == result->rank && other->type == result->type;
  for (unsigned i = SUM; i <= OTHER_SUM; i += OTHER_SUM - SUM)
    alike = alike && expand_input(x, i)->rank + 1 == result->rank;
  for (unsigned d = 0; alike && d < result->rank; d++) {
    alike = symbolic_same(result->shape[d], other->shape[d]);
    for (unsigned i = SUM; d + 1 < result->rank && i <= OTHER_SUM; i += OTHER_SUM - SUM)
      alike = alike && symbolic_same(expand_input(x, i)->shape[d], result->shape[d]);
  }
  if (!alike)
    expand_refuse(x, ERROR_INPUT, RESULT, "shape",
                  "[batch, heads, rows, size] and [batch, heads, rows], of both parts",
                  "MergeStates takes two results of one shape and type, each with its log-sum-exps, which "
                  "lack the last dimension");
}

/* e^(sum - top), and the result multiplied by it. */
static GraphTensor *weighted(Expansion *x, GraphTensor *result, GraphTensor *sum, GraphTensor *top,
                             GraphTensor **weight)
{
  int64_t last = -1;
  *weight = expand(x, ONNX_Exp, "weight", expand(x, ONNX_Sub, "below", sum, top), NULL);
  GraphTensor *column = expand(x, ONNX_Unsqueeze, "column", *weight, expand_integers(x, "last", &last, 1));
  return expand(x, ONNX_Mul, "weighted", result, column);
}

void expand_merge_states(Expansion *x)
{
  int64_t last = -1;
  check_shapes(x);
  if (expand_failed(x)) return;
  NumberType type = expand_input(x, RESULT)->type, wide = type == NUMBER_F64 ? NUMBER_F64 : NUMBER_F32,
             held = expand_input(x, SUM)->type;
  GraphTensor *sum = input(x, SUM, wide), *other = input(x, OTHER_SUM, wide), *weight = NULL, *weight2 = NULL;
  GraphTensor *top = expand(x, ONNX_Max, "top", expand(x, ONNX_Max, "larger", sum, other),
                            expand_number(x, "least", wide, LEAST));
  GraphTensor *part = weighted(x, input(x, RESULT, wide), sum, top, &weight),
              *part2 = weighted(x, input(x, OTHER_RESULT, wide), other, top, &weight2),
              *total = expand(x, ONNX_Add, "total", weight, weight2);
  /* one of the weights is 1, but where no key was seen */
  GraphTensor *divisor = expand(x, ONNX_Unsqueeze, "divisor",
                                expand(x, ONNX_Max, "divisor", total, expand_number(x, "half", wide, 0.5)),
                                expand_integers(x, "last", &last, 1));
  GraphTensor *y = expand(x, ONNX_Div, "merged", expand(x, ONNX_Add, "sum", part, part2), divisor);
  if (expand_wants(x, 1))
    expand_give(
        x, 1,
        expand_cast(x, "sums",
                    expand(x, ONNX_Add, "log_sum_exp", top, expand(x, ONNX_Log, "logarithm", total, NULL)),
                    held));
  expand_give(x, 0, expand_cast(x, "merged", y, type));
}
