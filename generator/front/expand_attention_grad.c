/* AttentionGrad: what changes a loss as attention's queries, keys and values do, of what changes it as its result does. With the
 * log-sum-exp L of each row's scores, which attention has left, the weights are computed again:
 *
 *   S     = scale Q K^T, capped and masked as attention does          [B, Hkv, G, rows, keys]
 *   P     = e^(S - L)                                                 rows that see nothing: 0
 *   delta = sum of dO O along each row                                = sum of dP P along its keys
 *   dP    = dO V^T           dS = P (dP - delta), times the slope of the cap
 *   dQ    = scale dS K       dK = scale sum over G of dS^T Q          dV = sum over G of P^T dO
 *
 * Heads that share keys and values are a dimension that these do not have, as in expand_attention.c. */
#include "generator/front/expand_scores.h"
#include <math.h>

enum { GRAD, Q, K, V, RESULT, SUMS, MASK };
enum { GRAD_Q, GRAD_K, GRAD_V };

typedef struct {
  Expansion *x;
  const GraphNode *node;
  ExpandScores of;
  const Symbolic *depth, *width;
  NumberType type, wide; /* of the operands, and what is computed in */
  double scale, cap;
} Gradient;

static const Symbolic *number(const Gradient *at, int64_t value)
{
  return symbolic_constant(expand_arena(at->x), value);
}

/* ---- shapes ---- */

static void expect(Gradient *at, unsigned input, const Symbolic *const *want, unsigned rank,
                   const char *shape)
{
  const GraphTensor *tensor = expand_input(at->x, input);
  if (expand_failed(at->x)) return;
  bool same = tensor->rank == rank;
  for (unsigned d = 0; same && d < rank; d++)
    same = expand_same(at->x, tensor->shape[d], want[d]);
  if (same) return;
  g_autofree char *have = graph_shape_text(tensor->shape, tensor->rank);
  g_autofree char *wanted = graph_shape_text(want, rank);
  expand_refuse(at->x, ERROR_INPUT, input, "shape", shape, "AttentionGrad needs `%s` of shape %s, not %s",
                tensor->name, wanted, have);
}

static void read_shapes(Gradient *at)
{
  const GraphTensor *q = expand_input(at->x, Q), *k = expand_input(at->x, K), *v = expand_input(at->x, V);
  for (unsigned i = Q; i <= V; i++)
    if (expand_input(at->x, i)->rank != 4) {
      expand_refuse(at->x, ERROR_INPUT, i, "rank", "[batch, heads, rows, size]",
                    "operands of AttentionGrad have 4 dimensions: `%s` has %u", expand_input(at->x, i)->name,
                    expand_input(at->x, i)->rank);
      return;
    }
  at->of.batch = q->shape[0], at->of.q_heads = q->shape[1], at->of.rows = q->shape[2],
  at->depth = q->shape[3];
  at->of.kv_heads = k->shape[1], at->of.keys = k->shape[2], at->width = v->shape[3];
  expect(at, K, (const Symbolic *[]){at->of.batch, at->of.kv_heads, at->of.keys, at->depth}, 4, NULL);
  expect(at, V, (const Symbolic *[]){at->of.batch, at->of.kv_heads, at->of.keys, at->width}, 4, NULL);
  for (unsigned i = GRAD; i <= RESULT; i += RESULT - GRAD)
    expect(at, i, (const Symbolic *[]){at->of.batch, at->of.q_heads, at->of.rows, at->width}, 4,
           "as attention's result");
  expect(at, SUMS, (const Symbolic *[]){at->of.batch, at->of.q_heads, at->of.rows}, 3,
         "as the fifth result of adlgen.Attention");
  expand_scores_group(&at->of, K);
}

static void read_types(Gradient *at)
{
  at->type = expand_input(at->x, Q)->type;
  at->wide = at->type == NUMBER_F64 ? NUMBER_F64 : NUMBER_F32;
  for (unsigned i = GRAD; i <= SUMS; i++) {
    const GraphTensor *tensor = expand_input(at->x, i);
    NumberType want = i == SUMS ? at->wide : at->type;
    if (tensor->type == want || expand_failed(at->x)) continue;
    expand_refuse(at->x, ERROR_INPUT, i, "type", "insert a Cast", "AttentionGrad needs `%s` as %s, not %s",
                  tensor->name, number_name(want), number_name(tensor->type));
  }
}

static void read_attributes(Gradient *at)
{
  const GraphAttribute *scale = graph_attribute(at->node, "scale");
  int64_t depth = 1;
  expand_scores_windows(at->x, G_MAXINT32 / 2);
  at->cap = graph_attribute(at->node, "softcap")->number;
  if (!(at->cap >= 0))
    expand_refuse_attribute(at->x, ERROR_INPUT, "softcap", "0: none", "`softcap` is not negative");
  at->scale = scale->number;
  if (!(at->scale >= 0))
    expand_refuse_attribute(at->x, ERROR_UNSUPPORTED, "scale", "0: 1 / sqrt(d)",
                            "a scale that is not positive is not supported");
  if (at->scale > 0 || expand_failed(at->x)) return;
  if (symbolic_is_constant(at->depth, &depth))
    at->scale = 1 / sqrt((double)MAX(depth, 1));
  else
    expand_refuse(at->x, ERROR_UNSUPPORTED, Q, "shape", "bind the symbol: --dim, or set `scale`",
                  "the size of heads is not known, which the scale follows from");
}

/* ---- operands ---- */

static GraphTensor *product(Gradient *at, const char *part, GraphTensor *a, GraphTensor *b)
{
  return expand_cast(at->x, part, expand(at->x, ONNX_MatMul, part, a, b), at->wide);
}

static GraphTensor *column(Gradient *at, const char *part, GraphTensor *rows)
{
  return expand_scores_split(
      &at->of, part,
      expand(at->x, ONNX_Unsqueeze, part, rows, expand_integers(at->x, "last", (int64_t[]){-1}, 1)),
      number(at, 1));
}

/* ---- scores ---- */

static void check_mask(Gradient *at)
{
  const GraphTensor *mask = expand_input(at->x, MASK);
  if (mask && !expand_failed(at->x)) expand_scores_fit(&at->of, MASK, mask);
}

static GraphTensor *masked(Gradient *at, GraphTensor *scores)
{
  GraphTensor *mask = expand_input(at->x, MASK);
  return mask && !expand_failed(at->x) ? expand_scores_masked(&at->of, scores, mask) : scores;
}

/* A number of keys beside the diagonal, or nothing. */
static GraphTensor *bound(Gradient *at, const char *part, bool binds, int64_t distance)
{
  const Symbolic *value = number(at, distance);
  return binds && !expand_failed(at->x) ? expand_known(at->x, part, &value, 1, 0) : NULL;
}

static GraphTensor *banded(Gradient *at, GraphTensor *scores)
{
  int64_t left = graph_attribute(at->node, "left_window_size")->integer,
          right = graph_attribute(at->node, "right_window_size")->integer;
  if (graph_attribute(at->node, "is_causal")->integer) right = 0;
  if (left < 0 && right < 0) return scores;
  GraphTensor *lower = bound(at, "first_key", left >= 0, -left),
              *upper = bound(at, "last_key", right >= 0, right);
  return expand_node(
      at->x,
      &(ExpandNode){
          ONNX_Mask, "banded", 3, {scores, lower, upper}, .attributes = {{"diagonal", .text = "begin"}}});
}

/* Scores, and where a cap bends them its slope (else NULL): 1 - tanh^2. */
static GraphTensor *scores_of(Gradient *at, GraphTensor *q, GraphTensor *k, GraphTensor **slope)
{
  GraphTensor *scores =
      expand(at->x, ONNX_Mul, "scaled", product(at, "product", q, expand_scores_turned(&at->of, "k", k)),
             expand_number(at->x, "scale", at->wide, at->scale));
  *slope = NULL;
  if (at->cap > 0) {
    GraphTensor *angle;
    scores = expand_scores_capped(&at->of, scores, at->cap, &angle);
    *slope = expand(at->x, ONNX_Sub, "slope", expand_number(at->x, "one", at->wide, 1),
                    expand(at->x, ONNX_Mul, "square", angle, angle));
  }
  return banded(at, masked(at, scores));
}

/* Sums of rows that see nothing are -infinity: nothing is subtracted from that. */
static GraphTensor *finite_sums(Gradient *at, GraphTensor *sums)
{
  GraphTensor *none =
      expand(at->x, ONNX_Equal, "none", sums, expand_number(at->x, "nothing", at->wide, -INFINITY));
  return expand_where(at->x, "sums", none, expand_number(at->x, "all", at->wide, INFINITY), sums);
}

static GraphTensor *weights(Gradient *at, GraphTensor *scores)
{
  GraphTensor *sums = column(at, "sums", finite_sums(at, expand_input(at->x, SUMS)));
  return expand(at->x, ONNX_Exp, "weights", expand(at->x, ONNX_Sub, "below", scores, sums), NULL);
}

/* ---- results ---- */

static GraphTensor *delta(Gradient *at)
{
  GraphTensor *grad = expand_cast(at->x, "grad", expand_input(at->x, GRAD), at->wide),
              *result = expand_cast(at->x, "result", expand_input(at->x, RESULT), at->wide);
  return expand_node(at->x, &(ExpandNode){ONNX_ReduceSum,
                                          "delta",
                                          2,
                                          {expand(at->x, ONNX_Mul, "parts", grad, result),
                                           expand_integers(at->x, "last", (int64_t[]){-1}, 1)},
                                          .attributes = {{"keepdims", .integer = 0}}});
}

/* Of keys or values: summed over the heads that share them. */
static GraphTensor *summed(Gradient *at, const char *part, GraphTensor *left, GraphTensor *right,
                           double factor)
{
  GraphTensor *sum = product(at, part, expand_scores_turned(&at->of, part, left), right);
  if (at->of.grouped)
    sum = expand_node(at->x, &(ExpandNode){ONNX_ReduceSum,
                                           part,
                                           2,
                                           {sum, expand_integers(at->x, "group", (int64_t[]){2}, 1)},
                                           .attributes = {{"keepdims", .integer = 0}}});
  if (factor != 1) sum = expand(at->x, ONNX_Mul, part, sum, expand_number(at->x, "scale", at->wide, factor));
  return expand_cast(at->x, part, sum, at->type);
}

static void give_parts(Gradient *at)
{
  Expansion *x = at->x;
  GraphTensor *q = expand_scores_split(&at->of, "q", expand_input(x, Q), at->depth),
              *k = expand_scores_shared(&at->of, "k", expand_input(x, K)),
              *v = expand_scores_shared(&at->of, "v", expand_input(x, V)),
              *grad = expand_scores_split(&at->of, "grad", expand_input(x, GRAD), at->width), *slope;
  GraphTensor *p = weights(at, scores_of(at, q, k, &slope));
  if (expand_wants(x, GRAD_V))
    expand_give(x, GRAD_V, summed(at, "grad_v", expand_cast(x, "weights", p, at->type), grad, 1));
  if (!expand_wants(x, GRAD_Q) && !expand_wants(x, GRAD_K)) return;
  GraphTensor *of_weights = product(at, "grad_weights", grad, expand_scores_turned(&at->of, "v", v)),
              *above = expand(x, ONNX_Sub, "above", of_weights, column(at, "delta", delta(at))),
              *of_scores = expand(x, ONNX_Mul, "grad_scores", p, above);
  if (slope) of_scores = expand(x, ONNX_Mul, "grad_product", of_scores, slope);
  of_scores = expand_cast(x, "grad_scores", of_scores, at->type);
  if (expand_wants(x, GRAD_K)) expand_give(x, GRAD_K, summed(at, "grad_k", of_scores, q, at->scale));
  if (!expand_wants(x, GRAD_Q)) return;
  GraphTensor *of_rows = expand(x, ONNX_Mul, "grad_q", product(at, "grad_q", of_scores, k),
                                expand_number(x, "scale", at->wide, at->scale));
  of_rows = expand_cast(x, "grad_q", of_rows, at->type);
  of_rows = expand_scores_merge(&at->of, "grad_q", of_rows, at->depth);
  expand_give(x, GRAD_Q, of_rows);
}

/* ---- kernels of their own ---- */

#define MOST_SIZE   256 /* elements of a head whose sums a warpgroup's registers hold */
#define MOST_SHARED 128 /* where those of keys and values are held, each as many as the wider one has */

/* Is there a kernel for each part? *both: gradients of keys and values come out of one. */
static bool has_kernels(const Gradient *at, bool *both)
{
  int64_t depth, width;
  const GraphTensor *mask = expand_input(at->x, MASK);
  bool known = symbolic_is_constant(at->depth, &depth) && symbolic_is_constant(at->width, &width);
  if (!known || (at->type != NUMBER_F16 && at->type != NUMBER_BF16)) return false;
  *both = MAX(depth, width) <= MOST_SHARED;
  bool taken = !mask || mask->type == NUMBER_BOOL || mask->type == NUMBER_F32 || mask->type == at->type;
  return taken && depth > 0 && depth <= MOST_SIZE && depth % 8 == 0 && width > 0 && width <= MOST_SIZE &&
         width % 8 == 0;
}

/* Inputs of kernels, in AttentionGradPart's order: GRAD to V, values of rows, a mask, and dS. */
enum { PART_SUMS = V + 1, PART_DELTA, PART_MASK, PART_CHANGES, PART_INPUTS };

typedef struct {
  GraphTensor *of[PART_INPUTS]; /* NULL: there is none */
} Operands;

/* dQ, dK or dV, or dK and what is *further: dV, dS. */
static GraphTensor *part(Gradient *at, const char *of, const char *name, const Operands *operands,
                         GraphTensor **further, unsigned n_further)
{
  Expansion *x = at->x;
  ExpandNode node = {
      ONNX_AttentionGradPart,
      name,
      operands->of[PART_CHANGES] ? PART_INPUTS
      : operands->of[PART_MASK]  ? PART_MASK + 1
                                 : PART_MASK,
      .attributes = {{"is_causal", .integer = graph_attribute(at->node, "is_causal")->integer},
                     {"left_window_size", .integer = graph_attribute(at->node, "left_window_size")->integer},
                     {"of", .text = of},
                     {"right_window_size",
                      .integer = graph_attribute(at->node, "right_window_size")->integer},
                     {"scale", .number = at->scale},
                     {"softcap", .number = at->cap}},
      .further = further,
      .n_further = n_further};
  for (unsigned i = 0; i < node.n_inputs; i++)
    node.inputs[i] = operands->of[i];
  return expand_node(x, &node);
}

#define ROWS_OF_COPY                                                                                         \
  4 /* values of rows, f32, that the engine copies: its strides are multiples of 16 bytes */

/* Values of rows, those of each head from a multiple of as many on as the engine copies. */
static GraphTensor *spaced(Gradient *at, const char *name, GraphTensor *values)
{
  Expansion *x = at->x;
  int64_t rows, none = 0, last = 2;
  if (!symbolic_is_constant(at->of.rows, &rows) || rows % ROWS_OF_COPY == 0) return values;
  const int64_t pads[] = {0, 0, 0, 0, 0, ROWS_OF_COPY - rows % ROWS_OF_COPY};
  GraphTensor *padded =
      expand_node(x, &(ExpandNode){ONNX_Pad,
                                   name,
                                   2,
                                   {values, expand_integers(x, "pads", pads, G_N_ELEMENTS(pads))},
                                   .attributes = {{"mode", .text = "constant"}}});
  return expand_slice(x, name, padded, last, none, rows);
}

/* ---- dS in memory ----
 * The kernel of keys leaves what changes with products, in 16 bits, and dQ is a product of it: five products in all where two would be computed
 * once more, for a value of each score that is written and read. Heads, or batches, are so many at a time that this is bounded. */

#define MOST_BYTES  (INT64_C(1) << 31) /* of dS at a time */
#define MOST_SHARES 8                  /* of batches or heads, behind one another */
#define LEAST_COLUMNS                                                                                        \
  224 /* of keys and values together: of 128 memory took longer than two products, of 256 less */
#define ROWS_OF_CHANGES 8 /* values of 16 bits, of which the engine copies whole 16 bytes */

typedef struct {
  int64_t dim, extent, each; /* along which operands are divided, how long it is, how much of it at a time */
} Shares;

static bool has_windows(const Gradient *at)
{
  return graph_attribute(at->node, "left_window_size")->integer >= 0 ||
         (graph_attribute(at->node, "right_window_size")->integer >= 0 &&
          !graph_attribute(at->node, "is_causal")->integer);
}

/* Can dS be left in memory, and in which shares? */
static bool leaves_changes(const Gradient *at, Shares *shares)
{
  int64_t batch, q_heads, heads, rows, keys, depth, width;
  const Symbolic *const extents[] = {at->of.batch, at->of.q_heads, at->of.kv_heads, at->of.rows,
                                     at->of.keys,  at->depth,      at->width};
  int64_t *const numbers[] = {&batch, &q_heads, &heads, &rows, &keys, &depth, &width};
  for (unsigned i = 0; i < G_N_ELEMENTS(extents); i++)
    if (!symbolic_is_constant(extents[i], numbers[i]) || *numbers[i] < 1) return false;
  if (depth + width < LEAST_COLUMNS || rows % ROWS_OF_CHANGES || has_windows(at)) return false;
  if (rows > MOST_BYTES / keys || q_heads > MOST_BYTES) return false;
  int64_t group = q_heads / heads;
  double head = (double)group * (double)rows * (double)keys * number_bits(at->type) / 8,
         whole = head * (double)(heads * batch), most = (double)MOST_BYTES;
  bool batches = whole > most && head * (double)heads <= most;
  *shares = batches ? (Shares){0, batch, (int64_t)(most / (head * (double)heads))}
                    : (Shares){1, heads, MIN(heads, (int64_t)(most / (head * (double)batch)))};
  bool divides = shares->each > 0 && (shares->extent + shares->each - 1) / shares->each <= MOST_SHARES;
  return divides && (shares->each == shares->extent || !expand_input(at->x, MASK));
}

/* The operands' share from one index on. */
static Operands share_of(Gradient *at, const Operands *whole, const Shares *shares, int64_t from)
{
  Operands share = *whole;
  int64_t to = MIN(shares->extent, from + shares->each), q_heads = 1;
  if (shares->each == shares->extent) return share;
  symbolic_is_constant(at->of.q_heads, &q_heads);
  for (unsigned i = GRAD; i <= PART_DELTA; i++) {
    int64_t times = shares->dim && i != K && i != V ? q_heads / shares->extent : 1;
    share.of[i] = expand_slice(at->x, "share", whole->of[i], shares->dim, from * times, to * times);
  }
  return share;
}

static void give_left(Gradient *at, const Operands *whole, const Shares *shares)
{
  static const char *const names[] = {[GRAD_Q] = "grad_q", [GRAD_K] = "grad_k", [GRAD_V] = "grad_v"};
  ExpandNode joined[G_N_ELEMENTS(names)];
  unsigned n = 0;
  for (unsigned i = 0; i < G_N_ELEMENTS(names); i++)
    joined[i] = (ExpandNode){ONNX_Concat, names[i], .attributes = {{"axis", shares->dim}}};
  for (int64_t from = 0; from < shares->extent; from += shares->each, n++) {
    Operands share = share_of(at, whole, shares, from);
    GraphTensor *further[2] = {NULL};
    joined[GRAD_K].inputs[n] = part(at, "keys", "grad_k", &share, further, G_N_ELEMENTS(further));
    joined[GRAD_V].inputs[n] = further[0];
    share.of[PART_MASK] = NULL;
    share.of[PART_CHANGES] = further[1];
    joined[GRAD_Q].inputs[n] = part(at, "queries", "grad_q", &share, NULL, 0);
  }
  for (unsigned i = 0; i < G_N_ELEMENTS(names); i++) {
    joined[i].n_inputs = n;
    expand_give(at->x, i, n > 1 ? expand_node(at->x, &joined[i]) : joined[i].inputs[0]);
  }
}

static void give_kernels(Gradient *at, bool both)
{
  Expansion *x = at->x;
  GraphTensor *grad_v = NULL;
  Operands operands = {{expand_input(x, GRAD), expand_input(x, Q), expand_input(x, K), expand_input(x, V),
                        spaced(at, "sums", finite_sums(at, expand_input(x, SUMS))),
                        spaced(at, "delta", delta(at)), expand_input(x, MASK)}};
  bool queries = expand_wants(x, GRAD_Q), keys = expand_wants(x, GRAD_K), values = expand_wants(x, GRAD_V);
  Shares shares;
  if (expand_failed(x)) return;
  if (both && queries && keys && values && leaves_changes(at, &shares)) {
    give_left(at, &operands, &shares);
    return;
  }
  if (queries) expand_give(x, GRAD_Q, part(at, "queries", "grad_q", &operands, NULL, 0));
  if (keys) expand_give(x, GRAD_K, part(at, "keys", "grad_k", &operands, &grad_v, both && values ? 1 : 0));
  if (values && !grad_v) grad_v = part(at, "values", "grad_v", &operands, NULL, 0);
  if (values) expand_give(x, GRAD_V, grad_v);
}

void expand_attention_grad(Expansion *x)
{
  Gradient at = {.x = x, .of = {.x = x}, .node = expand_written(x)};
  read_types(&at);
  if (!expand_failed(x)) read_shapes(&at);
  if (!expand_failed(x)) read_attributes(&at);
  check_mask(&at);
  bool both = false;
  if (expand_failed(x)) return;
  if (has_kernels(&at, &both))
    give_kernels(&at, both);
  else
    give_parts(&at);
}
