/* Rewrite read_forms: what exporters write in place of attention's own nodes becomes these.
 *
 *   Reshape(Transpose(Reshape(x)))                          Transpose(Reshape(x)), if the last divides what the first made one:
 *                                                           K^T, or heads, of which batches are a part in between
 *   Div(e, ReduceSum(e)), e = Exp(Sub(x, ReduceMax(x)))     Softmax(x), between two products
 *   MatMul(Mul(Q, c), Mul(K^T, c))                          MatMul(Q, K^T) times c c
 *   Add(scores, mask), Where(mask, scores, -inf)            Mask(scores), if the mask is a band along the diagonal, as a
 *                                                           causal one is, and every row sees a key
 *
 * A mask that adds -1e4 (or what that is in 16 bits) or less hides: e^(it) is 0 beside what is seen. */
#include "generator/fusion/places.h"
#include <math.h>
#include <string.h>

#define HIDES     (-9e3) /* -1e4 in 16 bits */
#define MOST_DEEP 16     /* nodes between a product and the softmax of its result */

/* ---- softmax ---- */

static GraphNode *producer(const AttentionPattern *at, const GraphTensor *tensor, OperatorId op)
{
  GraphNode *node = tensor ? at->producers[tensor->index] : NULL;
  return node && node->op->id == op && node->outputs[0] == tensor ? node : NULL;
}

static bool reduces_rows(const GraphNode *node, const GraphTensor *of)
{
  return node && node->inputs[0] == of && of->rank && node->axes == 1u << (of->rank - 1) && node->keepdims;
}

/* What Div gives is the softmax of this; NULL: it is something else. */
static GraphTensor *softmax_operand(const AttentionPattern *at, const GraphNode *div)
{
  const GraphNode *exponential = producer(at, div->inputs[0], ONNX_Exp),
                  *sum = producer(at, div->inputs[1], ONNX_ReduceSum),
                  *below = exponential ? producer(at, exponential->inputs[0], ONNX_Sub) : NULL,
                  *largest = below ? producer(at, below->inputs[1], ONNX_ReduceMax) : NULL;
  bool same = largest && reduces_rows(largest, below->inputs[0]) && reduces_rows(sum, div->inputs[0]);
  return same ? below->inputs[0] : NULL;
}

static bool is_of_product(const AttentionPattern *at, const GraphTensor *tensor, unsigned deep)
{
  const GraphNode *node = tensor && deep ? at->producers[tensor->index] : NULL;
  if (!node || !graph_same_shape(node->outputs[0], tensor)) return false;
  if (node->op->class_ == OPERATOR_GEMM) return true;
  bool found = false;
  for (unsigned i = 0; node->op->class_ == OPERATOR_ELEMENTWISE && i < node->n_inputs && !found; i++)
    found = node->inputs[i] && graph_same_shape(node->inputs[i], tensor) &&
            is_of_product(at, node->inputs[i], deep - 1);
  return found;
}

static bool goes_to_product(const AttentionPattern *at, const GraphTensor *tensor, unsigned deep)
{
  const GPtrArray *readers = at->readers[tensor->index];
  bool found = false;
  for (unsigned i = 0; deep && i < readers->len && !found; i++) {
    const GraphNode *node = readers->pdata[i];
    found = node->op->class_ == OPERATOR_GEMM ||
            (node->op->class_ == OPERATOR_ELEMENTWISE && goes_to_product(at, node->outputs[0], deep - 1));
  }
  return found;
}

/* The node computes something else of one tensor, and of more inputs that are set later. */
static void become(AttentionPattern *at, GraphNode *node, OperatorId op, GraphTensor *x, unsigned n_inputs)
{
  Arena *arena = at->fuser->arena;
  node->op = operator_of(op);
  node->onnx = NULL;
  node->written = NULL;
  node->attributes = fuser_default_attributes(at->fuser, node->op);
  node->inputs = arena_new_array(arena, GraphTensor *, n_inputs);
  node->inputs[0] = x;
  node->n_inputs = n_inputs;
}

static void read_softmax(AttentionPattern *at)
{
  const GPtrArray *live = at->fuser->live;
  for (unsigned i = 0; i < live->len; i++) {
    GraphNode *node = live->pdata[i];
    GraphTensor *x = node->op->id == ONNX_Div ? softmax_operand(at, node) : NULL;
    if (!x || !is_of_product(at, x, MOST_DEEP) || !goes_to_product(at, node->outputs[0], MOST_DEEP)) continue;
    become(at, node, ONNX_Softmax, x, 1);
    node->axes = 1u << (x->rank - 1);
    fuser_note(at->fuser, "`%s` is the softmax of `%s`", node->outputs[0]->name, x->name);
  }
}

/* ---- dimensions that are one between two Reshapes ---- */

/* How many dimensions of y, from `from` on, have as many elements together as the extent; 0: none. */
static unsigned pieces_of(Arena *arena, const Symbolic *extent, const GraphTensor *y, unsigned from)
{
  const Symbolic *product = NULL;
  for (unsigned d = from; d < y->rank; d++) {
    product = product ? symbolic_mul(arena, product, y->shape[d]) : y->shape[d];
    if (symbolic_same(product, extent)) return d + 1 - from;
  }
  return 0;
}

/* What the node, a Reshape, makes of a Transpose's dimensions: of each so many; false: it does not only divide them. */
static bool divides(Arena *arena, const GraphNode *node, unsigned *pieces)
{
  const GraphTensor *x = node->inputs[0], *y = node->outputs[0];
  unsigned at = 0;
  for (unsigned d = 0; d < x->rank; d++) {
    pieces[d] = pieces_of(arena, x->shape[d], y, at);
    if (!pieces[d]) return false;
    at += pieces[d];
  }
  return at == y->rank && y->rank > x->rank;
}

/* What the Transpose reads, with its dimensions apart, and the order in which the Reshape behind it has these. */
static unsigned lay_apart(const GraphNode *turn, const GraphTensor *y, const unsigned *pieces,
                          const Symbolic **shape, unsigned *order)
{
  unsigned first[GRAPH_MAX_RANK], n = turn->outputs[0]->rank, rank = 0;
  for (unsigned d = 0, at = 0; d < n; at += pieces[d++])
    first[turn->order[d]] = at;
  for (unsigned e = 0; e < n; e++) {
    unsigned d = 0;
    while (turn->order[d] != e)
      d++;
    for (unsigned i = 0; i < pieces[d]; i++, rank++) {
      shape[rank] = y->shape[first[e] + i];
      order[first[e] + i] = rank;
    }
  }
  return rank;
}

/* x in that shape, by a node in front of the reader. */
static GraphTensor *shown_apart(Fuser *fuser, GraphTensor *x, const Symbolic *const *shape, unsigned rank,
                                const GraphNode *reader)
{
  bool same = x->rank == rank;
  for (unsigned d = 0; d < rank && same; d++)
    same = symbolic_same(x->shape[d], shape[d]);
  if (same) return x;
  const char *name = arena_printf(fuser->arena, "%s.apart%u", reader->outputs[0]->name, fuser->tensors->len);
  GraphTensor *apart = fuser_new_tensor(fuser, name, x->type, reader->mark, shape, rank);
  GraphNode *reshape = fuser_copy_node(fuser, reader, x, apart);
  reshape->op = operator_of(ONNX_Reshape);
  reshape->attributes = fuser_default_attributes(fuser, reshape->op);
  reshape->loop = reader->loop;
  apart->producer = reshape;
  fuser_insert_before(fuser, reader, reshape);
  return apart;
}

/* Reshape(Transpose(Reshape(x))) where the last divides what the first made one: Transpose of x with these dimensions apart. */
static void read_divided(AttentionPattern *at, GraphNode *node, unsigned known)
{
  Fuser *fuser = at->fuser;
  const Symbolic *shape[GRAPH_MAX_RANK];
  unsigned pieces[GRAPH_MAX_RANK], order[GRAPH_MAX_RANK];
  const GraphNode *turn = producer(at, node->inputs[0], ONNX_Transpose);
  bool seen = turn && turn->inputs[0]->index < known; /* others were made here */
  const GraphNode *merge = seen ? producer(at, turn->inputs[0], ONNX_Reshape) : NULL;
  if (!merge || !divides(fuser->arena, node, pieces)) return;
  unsigned rank = lay_apart(turn, node->outputs[0], pieces, shape, order);
  GraphTensor *x = shown_apart(fuser, merge->inputs[0], shape, rank, node);
  become(at, node, ONNX_Transpose, x, 1);
  memcpy(node->order, order, rank * sizeof *order);
  fuser_note(fuser, "`%s` is `%s` in another order", node->outputs[0]->name, x->name);
}

static void read_turned(AttentionPattern *at)
{
  g_autoptr(GPtrArray) nodes = g_ptr_array_copy(at->fuser->live, NULL, NULL);
  unsigned known = at->fuser->tensors->len;
  for (unsigned i = 0; i < nodes->len; i++) {
    GraphNode *node = nodes->pdata[i];
    if (node->op->id == ONNX_Reshape) read_divided(at, node, known);
  }
}

/* ---- factors in front of the product ---- */

static bool is_alone(const AttentionPattern *at, const GraphTensor *tensor)
{
  return !tensor->is_output && at->readers[tensor->index]->len == 1;
}

/* x of Mul(x, number), Mul(number, x) or Div(x, number); NULL: the node is nothing of these. */
static GraphTensor *scaled(const GraphNode *node, double *factor)
{
  bool mul = node->op->id == ONNX_Mul, div = node->op->id == ONNX_Div;
  for (unsigned i = div ? 1 : 0; (mul || div) && i < 2; i++) {
    GraphTensor *x = node->inputs[1 - i];
    bool same = graph_scalar(node->inputs[i], factor) && graph_same_shape(x, node->outputs[0]);
    if (div) *factor = 1 / *factor;
    if (same && x->type == node->outputs[0]->type && *factor > 0 && isfinite(*factor)) return x;
  }
  return NULL;
}

static bool only_moves(const GraphNode *node)
{
  return node->op->id == ONNX_Transpose || node->op->id == ONNX_Reshape || node->op->id == ONNX_Unsqueeze ||
         node->op->id == ONNX_Squeeze || node->op->id == ONNX_Expand || node->op->id == ONNX_Identity;
}

/* Takes a factor off what the reader multiplies by; it may stand in front of nodes that only move elements. */
static void take_factor(AttentionPattern *at, GraphNode *reader, unsigned input, double *all)
{
  for (unsigned deep = 0; deep < MOST_DEEP; deep++) {
    GraphTensor *tensor = reader->inputs[input], *x;
    GraphNode *node = at->producers[tensor->index];
    double factor;
    if (!node || node->outputs[0] != tensor) return;
    if ((x = scaled(node, &factor))) {
      reader->inputs[input] = x;
      *all *= factor;
      fuser_note(at->fuser, "the factor of `%s` goes behind its product", tensor->name);
    } else if (only_moves(node) && is_alone(at, tensor)) {
      reader = node;
      input = 0;
    } else {
      return;
    }
  }
}

static void read_factors(AttentionPattern *at)
{
  double all = 1;
  int place = operator_attribute_index(at->first->op, "alpha");
  bool floats = number_class(at->first->inputs[0]->type) == NUMBER_FLOAT;
  if (place < 0 || !floats || at->first->inputs[0] == at->first->inputs[1]) return;
  if (at->first->n_inputs > 2 && at->first->inputs[2]) return; /* Gemm's alpha is not its beta */
  take_factor(at, at->first, 0, &all);
  take_factor(at, at->first, 1, &all);
  if (all == 1) return;
  at->first->attributes = arena_memdup(at->fuser->arena, at->first->attributes,
                                       at->first->op->n_attributes * sizeof(GraphAttribute));
  at->first->attributes[place].number *= all;
}

/* ---- masks ---- */

static GraphTensor *number_tensor(Fuser *fuser, const Symbolic *number, const GraphNode *of, const char *what)
{
  if (!number) return NULL;
  GraphTensor *tensor = arena_new_object(fuser->arena, GraphTensor);
  const Symbolic **values = arena_new_array(fuser->arena, const Symbolic *, 1);
  values[0] = number;
  *tensor = (GraphTensor){
      .name = arena_printf(fuser->arena, "%s.%s%u", of->outputs[0]->name, what, fuser->tensors->len),
      .kind = TENSOR_CONSTANT,
      .index = fuser->tensors->len,
      .type = NUMBER_S64,
      .align = number_bytes_of(NUMBER_S64, 1),
      .n_elements = 1,
      .values = values,
      .mark = of->mark};
  g_ptr_array_add(fuser->tensors, tensor);
  return tensor;
}

/* Does every row see a key? The diagonal is seen, and there are as many rows as keys or all keys in front are seen too. */
static bool sees_keys(const AttentionPattern *at, const Places *places, const GraphTensor *scores)
{
  const SymbolicFacts *facts = &at->fuser->graph->facts;
  Arena *arena = at->fuser->arena;
  int64_t least, most;
  if (places->upper) {
    symbolic_range(places->upper, facts, &least, &most);
    if (least < 0) return false;
  }
  if (!places->lower) return true;
  const Symbolic *rows = scores->shape[scores->rank - 2], *keys = scores->shape[scores->rank - 1];
  symbolic_range(symbolic_add(arena, symbolic_sub(arena, rows, keys), places->lower), facts, &least, &most);
  return most <= 0;
}

/* Is the value one that lets scores be, in this node? */
static bool lets_be(const GraphNode *node, unsigned scores, double value)
{
  return node->op->id == ONNX_Add ? value == 0 : (value != 0) == (scores == 1);
}

static bool hides(const GraphNode *node, unsigned scores, double value)
{
  return node->op->id == ONNX_Add ? value <= HIDES : !lets_be(node, scores, value);
}

/* Which input is the scores, which the mask; false: the node masks nothing. */
static bool find_mask(const GraphNode *node, unsigned i, unsigned *mask)
{
  double fill;
  bool alike = node->inputs[i] && graph_same_shape(node->inputs[i], node->outputs[0]) &&
               node->inputs[i]->type == node->outputs[0]->type;
  if (node->op->id == ONNX_Add) {
    *mask = 1 - i;
    return alike && i < 2;
  }
  *mask = 0;
  bool where = node->op->id == ONNX_Where && i >= 1;
  return where && alike && graph_scalar(node->inputs[3 - i], &fill) && fill <= HIDES;
}

static bool read_mask(AttentionPattern *at, GraphNode *node, unsigned i)
{
  unsigned mask;
  if (!find_mask(node, i, &mask) || !node->inputs[mask]) return false;
  GraphTensor *scores = node->inputs[i];
  const GraphTensor *of = node->inputs[mask];
  Places places = fusion_places_of(at, of, scores);
  if (places.kind != PLACES_BAND) return false;
  if (!lets_be(node, i, places.inside) && !fusion_turn_places(at->fuser->arena, &places)) return false;
  if (!lets_be(node, i, places.inside) || !hides(node, i, places.outside) || !sees_keys(at, &places, scores))
    return false;
  become(at, node, ONNX_Mask, scores, 3);
  node->inputs[1] = number_tensor(at->fuser, places.lower, node, "lower");
  node->inputs[2] = number_tensor(at->fuser, places.upper, node, "upper");
  fuser_note(at->fuser, "`%s` hides keys by their place: it is not read", of->name);
  return true;
}

static void read_pattern(AttentionPattern *at)
{
  if (!attention_collect(at)) return;
  read_factors(at);
  g_autoptr(GPtrArray) nodes = g_ptr_array_copy(at->fuser->live, NULL, NULL);
  for (unsigned i = 0; i < nodes->len; i++) {
    GraphNode *node = nodes->pdata[i];
    if (!g_hash_table_contains(at->inside, node) || node == at->first || node == at->second) continue;
    if (node->outputs[0]->rank < 2) continue;
    for (unsigned j = 0; j < node->n_inputs; j++)
      if (read_mask(at, node, j)) break;
  }
}

void fusion_read_forms(Fuser *fuser)
{
  attention_visit_nodes(fuser, read_turned);
  attention_visit_nodes(fuser, read_softmax);
  attention_visit(fuser, read_pattern);
  fusion_drop_unread(fuser);
}
