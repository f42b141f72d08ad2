/* Einsum: operands are multiplied two by two, in their order: what only one of them has and nobody wants is added up first, what
 * both have and nobody else wants is what a matrix product runs along, what both have otherwise are its batches. Where nothing is
 * added up it is an elementwise product. Letters stand for dimensions; those of an ellipsis have letters of their own. */
#include "generator/front/expand_rows.h"
#include <string.h>

#define MOST_LABELS 64 /* 52 letters and those of an ellipsis */
#define ELLIPSIS    52 /* the first of an ellipsis's, the last one stands behind */
#define MOST_TERMS  EXPAND_AT_ONCE

/* A tensor whose dimensions have labels. */
typedef struct {
  GraphTensor *x;
  unsigned n;
  uint8_t label[GRAPH_MAX_RANK];
} Term;

typedef struct {
  Expansion *at;
  unsigned n_terms, n_result;
  Term term[MOST_TERMS];
  uint8_t result[GRAPH_MAX_RANK];
  unsigned ellipsis; /* dimensions of the longest one */
} Einsum;

static void refuse(Expansion *at, const char *hint, const char *what, const char *text)
{
  expand_refuse_attribute(at, ERROR_INPUT, "equation", hint, "%s: `%s`", what, text);
}

static int find_label(const uint8_t *labels, unsigned n, uint8_t label)
{
  for (unsigned i = 0; i < n; i++)
    if (labels[i] == label) return (int)i;
  return -1;
}

static uint64_t labels_of(const uint8_t *labels, unsigned n)
{
  uint64_t set = 0;
  for (unsigned i = 0; i < n; i++)
    set |= UINT64_C(1) << labels[i];
  return set;
}

static uint64_t labels_of_term(const Term *term)
{
  return labels_of(term->label, term->n);
}

/* ---- the equation ---- */

/* The letters of one term, of which `dots` dimensions are an ellipsis's; its number of dimensions, or -1: reported. */
static int read_labels(Einsum *e, const char *text, size_t length, unsigned dots, uint8_t *labels)
{
  const char *equation = graph_attribute(expand_written(e->at), "equation")->text;
  unsigned n = 0;
  bool seen = false;
  for (size_t i = 0; i < length; i++) {
    bool dotted = length - i >= 3 && !strncmp(text + i, "...", 3);
    unsigned more = dotted ? dots : 1;
    if (text[i] == ' ') continue;
    if ((!dotted && !g_ascii_isalpha(text[i])) || (dotted && seen)) {
      refuse(e->at, "letters, one `...`, `,` between operands, `->`", "this is no equation", equation);
      return -1;
    }
    if (n + more > GRAPH_MAX_RANK) {
      refuse(e->at, NULL, "a term has more than eight dimensions", equation);
      return -1;
    }
    for (unsigned d = 0; d < more; d++)
      labels[n++] = dotted                     ? (uint8_t)(ELLIPSIS + e->ellipsis - dots + d)
                    : g_ascii_islower(text[i]) ? (uint8_t)(text[i] - 'a' + 26)
                                               : (uint8_t)(text[i] - 'A');
    seen |= dotted;
    i += dotted ? 2 : 0;
  }
  return (int)n;
}

static unsigned count_letters(const char *text, size_t length)
{
  unsigned n = 0;
  for (size_t i = 0; i < length; i++)
    n += g_ascii_isalpha(text[i]) != 0;
  return n;
}

/* Dimensions of a term's ellipsis; a term without one has none. */
static unsigned dots_of(const Einsum *e, unsigned term, const char *text, size_t length)
{
  unsigned letters = count_letters(text, length), rank = expand_input(e->at, term)->rank;
  return g_strstr_len(text, (gssize)length, "...") && rank > letters ? rank - letters : 0;
}

static bool read_terms(Einsum *e, char **texts)
{
  Expansion *at = e->at;
  for (unsigned i = 0; i < e->n_terms; i++)
    e->ellipsis = MAX(e->ellipsis, dots_of(e, i, texts[i], strlen(texts[i])));
  for (unsigned i = 0; i < e->n_terms; i++) {
    Term *term = &e->term[i];
    term->x = expand_input(at, i);
    int n =
        read_labels(e, texts[i], strlen(texts[i]), dots_of(e, i, texts[i], strlen(texts[i])), term->label);
    if (n < 0) return false;
    term->n = (unsigned)n;
    if (term->n == term->x->rank) continue;
    expand_refuse(at, ERROR_INPUT, i, "rank", NULL, "`%s` has rank %u, its term `%s` %u dimensions",
                  term->x->name, term->x->rank, texts[i], term->n);
    return false;
  }
  return true;
}

/* Without `->`: an ellipsis, then what stands once in the equation, as the alphabet has it. */
static void infer_result(Einsum *e)
{
  unsigned count[MOST_LABELS] = {0};
  for (unsigned i = 0; i < e->n_terms; i++)
    for (unsigned d = 0; d < e->term[i].n; d++)
      count[e->term[i].label[d]]++;
  for (unsigned d = 0; d < e->ellipsis; d++)
    e->result[e->n_result++] = (uint8_t)(ELLIPSIS + d);
  for (uint8_t label = 0; label < ELLIPSIS && e->n_result < GRAPH_MAX_RANK; label++)
    if (count[label] == 1) e->result[e->n_result++] = label;
}

static bool read_result(Einsum *e, const char *text)
{
  uint64_t have = 0;
  int n = read_labels(e, text, strlen(text), e->ellipsis, e->result);
  if (n < 0) return false;
  e->n_result = (unsigned)n;
  for (unsigned i = 0; i < e->n_terms; i++)
    have |= labels_of_term(&e->term[i]);
  uint64_t want = labels_of(e->result, e->n_result);
  if (!(want & ~have) && (unsigned)__builtin_popcountll(want) == e->n_result) return true;
  refuse(e->at, "each of its letters once, of those of the operands", "this is no result of the equation",
         text);
  return false;
}

static bool read_equation(Einsum *e)
{
  const char *equation = graph_attribute(expand_written(e->at), "equation")->text;
  g_auto(GStrv) sides = g_strsplit(equation, "->", 2);
  g_auto(GStrv) texts = g_strsplit(sides[0] ? sides[0] : "", ",", -1);
  unsigned n = MAX(1, g_strv_length(texts));
  e->n_terms = expand_written(e->at)->n_inputs;
  if (n != e->n_terms) {
    expand_refuse_attribute(e->at, ERROR_INPUT, "equation", NULL,
                            "the equation has %u terms, the node %u inputs", n, e->n_terms);
    return false;
  }
  if (n > MOST_TERMS) {
    expand_refuse_attribute(e->at, ERROR_UNSUPPORTED, "equation", "write several nodes",
                            "Einsum of more than %d operands is not supported", MOST_TERMS);
    return false;
  }
  static char *nothing[] = {(char *)"", NULL}; /* of "" there are no terms, and yet one */
  if (!read_terms(e, texts[0] ? texts : nothing)) return false;
  if (sides[0] && sides[1]) return read_result(e, sides[1]);
  infer_result(e);
  return true;
}

/* ---- terms ---- */

static void take_away(Term *term, unsigned d)
{
  memmove(&term->label[d], &term->label[d + 1], term->n - d - 1);
  term->n--;
}

/* Labels become the term's, in this order. */
static void reorder(Expansion *at, Term *term, const uint8_t *order)
{
  int64_t perm[GRAPH_MAX_RANK];
  bool moved = false;
  for (unsigned d = 0; d < term->n; d++) {
    perm[d] = find_label(term->label, term->n, order[d]);
    moved |= perm[d] != d;
  }
  if (moved) term->x = expand_transpose(at, "ordered", term->x, perm);
  memcpy(term->label, order, term->n);
}

/* Dimensions a and b of a term, one label: the elements whose indices are alike lie so many apart. */
static bool take_diagonal(Expansion *at, Term *term, unsigned a, unsigned b, unsigned input)
{
  int64_t perm[GRAPH_MAX_RANK], extent;
  unsigned n = 0;
  if (!expand_same(at, term->x->shape[a], term->x->shape[b])) return false;
  if (!symbolic_is_constant(term->x->shape[a], &extent)) {
    expand_refuse(at, ERROR_UNSUPPORTED, input, "shape", "bind the symbol: --dim",
                  "a diagonal of `%s`, whose extent depends on symbols, is not supported", term->x->name);
    return false;
  }
  for (unsigned d = 0; d < term->n; d++)
    if (d != a && d != b) perm[n++] = d;
  perm[n] = a;
  perm[n + 1] = b;
  const Symbolic *shape[GRAPH_MAX_RANK];
  for (unsigned d = 0; d < n; d++)
    shape[d] = term->x->shape[perm[d]];
  shape[n] = symbolic_constant(expand_arena(at), extent * extent);
  GraphTensor *line = expand_reshape(at, "line", expand_transpose(at, "square", term->x, perm), shape, n + 1);
  int64_t from = 0, to = extent * extent, axis = n, step = extent + 1;
  term->x = expand_node(
      at, &(ExpandNode){ONNX_Slice,
                        "diagonal",
                        5,
                        {line, expand_integers(at, "from", &from, 1), expand_integers(at, "to", &to, 1),
                         expand_integers(at, "axis", &axis, 1), expand_integers(at, "step", &step, 1)}});
  uint8_t label = term->label[a];
  take_away(term, b);
  take_away(term, a);
  term->label[term->n++] = label;
  return !expand_failed(at);
}

static bool take_diagonals(Expansion *at, Term *term, unsigned input)
{
  for (unsigned a = 0; a < term->n; a++)
    for (unsigned b = a + 1; b < term->n; b++)
      if (term->label[a] == term->label[b]) {
        if (!take_diagonal(at, term, a, b, input)) return false;
        a = 0;
        b = 0;
      }
  return true;
}

/* What of the term is in none of `wanted` is added up. */
static void add_up(Expansion *at, Term *term, uint64_t wanted)
{
  uint32_t axes = 0;
  for (unsigned d = 0; d < term->n; d++)
    if (!(wanted >> term->label[d] & 1)) axes |= 1u << d;
  if (!axes) return;
  term->x = expand_reduce_away(at, ONNX_ReduceSum, "sum", term->x, axes);
  for (unsigned d = term->n; d-- > 0;)
    if (axes >> d & 1) take_away(term, d);
}

/* A dimension of 1 beside one of more is that of nobody. */
static void drop_ones(Expansion *at, Term *a, const Term *b)
{
  for (unsigned d = a->n; d-- > 0;) {
    int other = find_label(b->label, b->n, a->label[d]);
    if (other < 0 || !symbolic_equals(a->x->shape[d], 1) || symbolic_equals(b->x->shape[other], 1)) continue;
    a->x = expand(at, ONNX_Squeeze, "one", a->x, expand_integers(at, "axes", (int64_t[]){d}, 1));
    if (expand_failed(at)) return;
    take_away(a, d);
  }
}

static bool extents_agree(Expansion *at, const Term *a, const Term *b, unsigned input)
{
  for (unsigned d = 0; d < a->n; d++) {
    int other = find_label(b->label, b->n, a->label[d]);
    if (other < 0 || expand_same(at, a->x->shape[d], b->x->shape[other])) continue;
    g_autofree char *x = graph_shape_text(&a->x->shape[d], 1), *y = graph_shape_text(&b->x->shape[other], 1);
    expand_refuse(at, ERROR_INPUT, input, "shape", NULL, "one letter stands for dimensions of %s and %s", x,
                  y);
    return false;
  }
  return true;
}

/* ---- two terms ---- */

/* The labels of a set, in the order in which they stand in a term; how many. */
static unsigned pick(const Term *term, uint64_t set, uint8_t *labels)
{
  unsigned n = 0;
  for (unsigned d = 0; d < term->n; d++)
    if (set >> term->label[d] & 1) labels[n++] = term->label[d];
  return n;
}

/* Without a sum: both with dimensions of 1 where they have none. */
static Term multiply_elements(Expansion *at, Term *a, Term *b)
{
  Term result = *a;
  result.n += pick(b, labels_of_term(b) & ~labels_of_term(a), &result.label[result.n]);
  for (unsigned i = 0; i < 2; i++) {
    Term *term = i ? b : a;
    uint8_t order[GRAPH_MAX_RANK];
    int64_t axes[GRAPH_MAX_RANK];
    unsigned n = 0, missing = 0;
    for (unsigned d = 0; d < result.n; d++)
      if (find_label(term->label, term->n, result.label[d]) >= 0)
        order[n++] = result.label[d];
      else
        axes[missing++] = d;
    reorder(at, term, order);
    if (missing)
      term->x = expand(at, ONNX_Unsqueeze, "spread", term->x, expand_integers(at, "axes", axes, missing));
  }
  result.x = expand(at, ONNX_Mul, "product", a->x, b->x);
  return result;
}

static const Symbolic *extent_of(Expansion *at, const Term *term, const uint8_t *labels, unsigned n)
{
  const Symbolic *all = symbolic_constant(expand_arena(at), 1);
  for (unsigned i = 0; i < n; i++)
    all = symbolic_mul(expand_arena(at), all, term->x->shape[find_label(term->label, term->n, labels[i])]);
  return all;
}

/* Labels of batches, rows, columns and what is added up, and how many. */
typedef struct {
  uint8_t batch[GRAPH_MAX_RANK], own[2][GRAPH_MAX_RANK], along[GRAPH_MAX_RANK];
  unsigned n_batch, n_own[2], n_along;
} Product;

/* [batches.., own, along], or along and own the other way round: each of the latter one dimension. */
static GraphTensor *operand(Expansion *at, const Product *p, Term *term, unsigned side)
{
  uint8_t order[GRAPH_MAX_RANK];
  unsigned n = 0;
  const uint8_t *parts[] = {p->batch, side ? p->along : p->own[0], side ? p->own[1] : p->along};
  const unsigned sizes[] = {p->n_batch, side ? p->n_along : p->n_own[0], side ? p->n_own[1] : p->n_along};
  const Symbolic *shape[GRAPH_MAX_RANK + 1];
  for (unsigned i = 0; i < 3; i++)
    for (unsigned d = 0; d < sizes[i]; d++)
      order[n++] = parts[i][d];
  reorder(at, term, order);
  if (expand_failed(at) || (sizes[1] == 1 && sizes[2] == 1)) return term->x;
  for (unsigned d = 0; d < p->n_batch; d++)
    shape[d] = term->x->shape[d];
  for (unsigned i = 1; i < 3; i++)
    shape[p->n_batch + i - 1] = extent_of(at, term, parts[i], sizes[i]);
  return expand_reshape(at, "operand", term->x, shape, p->n_batch + 2);
}

#define LEAST_DEPTH 64 /* of k in each batch: less would leave most of a tile's step empty */

/* Do the term's two labels lie as one dimension, the first the outer one? */
static bool lies_as_one(Expansion *at, const Term *term, const uint8_t *labels)
{
  int outer = find_label(term->label, term->n, labels[0]),
      inner = find_label(term->label, term->n, labels[1]);
  const Symbolic *step = symbolic_mul(expand_arena(at), term->x->shape[inner], term->x->strides[inner]);
  return symbolic_same(term->x->strides[outer], step);
}

/* Are the elements of the label neighbours? */
static bool lies_along(const Term *term, uint8_t label)
{
  return symbolic_equals(term->x->strides[find_label(term->label, term->n, label)], 1);
}

static bool is_deep(const Term *term, uint8_t label)
{
  int64_t extent;
  const Symbolic *shape = term->x->shape[find_label(term->label, term->n, label)];
  return !symbolic_is_constant(shape, &extent) || extent >= LEAST_DEPTH;
}

static bool is_one(const Term *term, uint8_t label)
{
  return symbolic_equals(term->x->shape[find_label(term->label, term->n, label)], 1);
}

/* Two labels that matrices are multiplied along and that do not lie as one: products along the inner one, the second now, are batches that are
 * added up, which costs no copies where fusion's sum_products makes one product of them. It does not of one row or column: there each
 * batch's product would be rounded to the result's type on its own, and two of f16 that overflow add up to NaN. */
static bool sums_batches(Expansion *at, Product *p, const Term *a, const Term *b)
{
  if (p->n_along != 2 || p->n_batch || p->n_own[0] != 1 || p->n_own[1] != 1) return false;
  if (is_one(a, p->own[0][0]) || is_one(b, p->own[1][0])) return false;
  if (lies_as_one(at, a, p->along) && lies_as_one(at, b, p->along)) return false;
  bool first = lies_along(a, p->along[0]) || lies_along(b, p->along[0]),
       second = lies_along(a, p->along[1]) || lies_along(b, p->along[1]);
  unsigned inner = first && !second ? 0 : 1;
  const uint8_t labels[] = {p->along[1 - inner], p->along[inner]};
  if (!is_deep(a, labels[1])) return false;
  memcpy(p->along, labels, sizeof labels);
  return true;
}

/* The outer label along which products run becomes a batch. */
static GraphTensor *sum_of_batches(Expansion *at, const Product *p, Term *a, Term *b)
{
  Product each = *p;
  each.batch[0] = p->along[0];
  each.n_batch = 1;
  each.along[0] = p->along[1];
  each.n_along = 1;
  GraphTensor *left = operand(at, &each, a, 0), *right = operand(at, &each, b, 1);
  return expand_reduce_away(at, ONNX_ReduceSum, "sum", expand(at, ONNX_MatMul, "product", left, right), 1);
}

static Term contract(Expansion *at, Term *a, Term *b, uint64_t along)
{
  uint64_t of_a = labels_of_term(a), of_b = labels_of_term(b);
  Product p;
  Term result = {.n = 0};
  const Symbolic *shape[2 * GRAPH_MAX_RANK];
  p.n_batch = pick(a, of_a & of_b & ~along, p.batch);
  p.n_along = pick(a, along, p.along);
  p.n_own[0] = pick(a, of_a & ~of_b, p.own[0]);
  p.n_own[1] = pick(b, of_b & ~of_a, p.own[1]);
  if (p.n_batch + MAX(2, p.n_own[0] + p.n_own[1]) > GRAPH_MAX_RANK) {
    expand_refuse_attribute(at, ERROR_UNSUPPORTED, "equation", "in another order of operands it has fewer",
                            "a product on the way has more than eight dimensions");
    return result;
  }
  for (unsigned d = 0; d < p.n_batch; d++)
    result.label[result.n] = p.batch[d], shape[result.n++] = extent_of(at, a, &p.batch[d], 1);
  for (unsigned side = 0; side < 2; side++)
    for (unsigned d = 0; d < p.n_own[side]; d++)
      result.label[result.n] = p.own[side][d],
      shape[result.n++] = extent_of(at, side ? b : a, &p.own[side][d], 1);
  if (sums_batches(at, &p, a, b)) {
    result.x = sum_of_batches(at, &p, a, b);
    return result;
  }
  GraphTensor *left = operand(at, &p, a, 0), *right = operand(at, &p, b, 1);
  result.x = expand(at, ONNX_MatMul, "product", left, right);
  if (p.n_own[0] != 1 || p.n_own[1] != 1) result.x = expand_reshape(at, "apart", result.x, shape, result.n);
  return result;
}

static Term multiply(Expansion *at, Term *a, Term *b, uint64_t wanted, unsigned input)
{
  Term none = {.n = 0};
  drop_ones(at, a, b);
  drop_ones(at, b, a);
  if (expand_failed(at) || !extents_agree(at, a, b, input)) return none;
  uint64_t both = labels_of_term(a) & labels_of_term(b);
  add_up(at, a, wanted | both);
  add_up(at, b, wanted | both);
  if (expand_failed(at)) return none;
  if (both & ~wanted) return contract(at, a, b, both & ~wanted);
  if ((unsigned)__builtin_popcountll(labels_of_term(a) | labels_of_term(b)) <= GRAPH_MAX_RANK)
    return multiply_elements(at, a, b);
  expand_refuse_attribute(at, ERROR_UNSUPPORTED, "equation", "in another order of operands it has fewer",
                          "a product on the way has more than eight dimensions");
  return none;
}

void expand_einsum(Expansion *at)
{
  Einsum e = {.at = at};
  if (!read_equation(&e)) return;
  for (unsigned i = 0; i < e.n_terms; i++)
    if (!take_diagonals(at, &e.term[i], i)) return;
  Term product = e.term[0];
  uint64_t result = labels_of(e.result, e.n_result);
  for (unsigned i = 1; i < e.n_terms && !expand_failed(at); i++) {
    uint64_t wanted = result;
    for (unsigned j = i + 1; j < e.n_terms; j++)
      wanted |= labels_of_term(&e.term[j]);
    product = multiply(at, &product, &e.term[i], wanted, i);
  }
  if (expand_failed(at)) return;
  add_up(at, &product, result);
  if (!expand_failed(at)) reorder(at, &product, e.result);
  if (!expand_failed(at)) expand_give(at, 0, product.x);
}
