/* Rewrite stack_products: products of one tensor with several constants become one product with the constants side by side, as a
 * layer's queries, keys and values do:
 *
 *   q = x Wq [+ bq]   k = x Wk [+ bk]   v = x Wv [+ bv]        becomes        q, k, v = Split(x (Wq Wk Wv) [+ (bq bk bv)])
 *
 * A bias is an Add's or Gemm's own; constants of a Gemm with transB stand one below the other.
 *
 * whose readers read their columns where they lie. The constants are stacked where the program is loaded, once (FusionStack). Only
 * what views read is stacked: what other nodes read joins the product's kernel instead, as the two products of a gate do, and
 * what the graph gives, or a Concat, would be copied. */
#include "generator/fusion/private.h"
#include <string.h>

#define MOST_STACKED 8  /* a layer has three */
#define ROW_BYTES    16 /* columns of each begin at a multiple of these, as vectors and tensor maps ask */

/* One of the products. */
typedef struct {
  GraphNode *product, *sum;         /* sum: the Add of a bias; NULL: there is none */
  GraphTensor *weight, *bias, *end; /* bias: the Add's, or Gemm's own; NULL: there is none */
  unsigned columns;                 /* the dimension of the weight that is the result's last */
} Stacked;

typedef struct {
  Fuser *fuser;
  GHashTable *readers; /* of each tensor that live nodes read: GPtrArray of these, one entry a use */
} Stacking;

static GHashTable *find_readers(const GPtrArray *live)
{
  GHashTable *readers = g_hash_table_new_full(NULL, NULL, NULL, (GDestroyNotify)g_ptr_array_unref);
  for (unsigned i = 0; i < live->len; i++) {
    GraphNode *node = live->pdata[i];
    for (unsigned j = 0; j < node->n_inputs; j++) {
      if (!node->inputs[j]) continue;
      GPtrArray *list = g_hash_table_lookup(readers, node->inputs[j]);
      if (!list) g_hash_table_insert(readers, node->inputs[j], list = g_ptr_array_new());
      g_ptr_array_add(list, node);
    }
  }
  return readers;
}

/* ---- what may be stacked ---- */

/* Dense, and not one that is known while the graph is read alone; `columns`: the dimension that is the result's last. */
static bool is_weight(const GraphTensor *tensor, unsigned rank, unsigned columns, NumberType type)
{
  if (tensor->kind != TENSOR_CONSTANT || tensor->rank != rank || tensor->type != type || tensor->begins)
    return false;
  int64_t step = 1, extent, stride, n = 1;
  for (unsigned d = rank; d-- > 0; step *= extent) {
    if (!symbolic_is_constant(tensor->shape[d], &extent) || extent < 1 ||
        !symbolic_is_constant(tensor->strides[d], &stride) || (extent > 1 && stride != step))
      return false;
    if (d == columns) n = extent;
  }
  return (tensor->data || tensor->file) && n * (int64_t)number_bytes_of(type, 1) % ROW_BYTES == 0;
}

static bool only_views_read(const Stacking *at, const GraphTensor *tensor)
{
  const GPtrArray *readers = g_hash_table_lookup(at->readers, tensor);
  if (!readers || tensor->is_output) return false;
  for (unsigned i = 0; i < readers->len; i++) {
    const GraphNode *reader = readers->pdata[i];
    if (reader->op->class_ != OPERATOR_VIEW || reader->op->id == ONNX_Concat || reader->inputs[0] != tensor)
      return false;
  }
  return true;
}

static bool is_bias(const GraphTensor *bias, const GraphTensor *value)
{
  return is_weight(bias, 1, 0, value->type) && symbolic_same(bias->shape[0], value->shape[value->rank - 1]);
}

/* The one node that reads the product adds a bias: that. */
static void take_sum(const Stacking *at, Stacked *stacked)
{
  GraphTensor *value = stacked->product->outputs[0];
  const GPtrArray *readers = g_hash_table_lookup(at->readers, value);
  GraphNode *sum = readers && readers->len == 1 && !value->is_output ? readers->pdata[0] : NULL;
  if (!sum || sum->op->id != ONNX_Add) return;
  GraphTensor *bias = sum->inputs[sum->inputs[0] == value];
  if (!is_bias(bias, value) || !graph_same_shape(sum->outputs[0], value)) return;
  stacked->sum = sum;
  stacked->bias = bias;
  stacked->end = sum->outputs[0];
}

/* Gemm's third input; NULL: it has none. */
static GraphTensor *own_bias(const GraphNode *node)
{
  return node->n_inputs > 2 ? node->inputs[2] : NULL;
}

static bool may_stack(const Stacking *at, GraphNode *node, Stacked *stacked)
{
  bool gemm = node->op->id == ONNX_Gemm;
  if ((!gemm && node->op->id != ONNX_MatMul) || node->n_inputs < 2 || node->blocks[0] || node->blocks[1])
    return false;
  const GraphTensor *x = node->inputs[0];
  GraphTensor *value = node->outputs[0], *bias = own_bias(node);
  unsigned columns = gemm && graph_attribute(node, "transB")->integer ? 0 : 1;
  if (x->rank < 2 || x->kind == TENSOR_CONSTANT || x->begins || value->type != x->type ||
      !is_weight(node->inputs[1], 2, columns, x->type) || (bias && !is_bias(bias, value)))
    return false;
  *stacked =
      (Stacked){.product = node, .weight = node->inputs[1], .bias = bias, .end = value, .columns = columns};
  if (!bias) take_sum(at, stacked);
  return only_views_read(at, stacked->end);
}

/* The products of what the node multiplies that are like it, itself first. */
static unsigned find_stack(const Stacking *at, GraphNode *node, Stacked *list)
{
  const GPtrArray *readers = g_hash_table_lookup(at->readers, node->inputs[0]);
  unsigned n = 1;
  if (!may_stack(at, node, &list[0])) return 0;
  for (unsigned i = 0; i < readers->len && n < MOST_STACKED; i++) {
    GraphNode *other = readers->pdata[i];
    if (other == node || other->op != node->op || !fuser_same_attributes(node, other) ||
        !may_stack(at, other, &list[n]) || !list[0].sum != !list[n].sum || !list[0].bias != !list[n].bias)
      continue;
    n++;
  }
  return n;
}

/* ---- the stack ---- */

static GraphTensor *known_stack(const Fuser *fuser, const GraphTensor *const *parts, unsigned n,
                                unsigned along)
{
  for (unsigned i = 0; i < fuser->stacks->len; i++) {
    const FusionStack *stack = fuser->stacks->pdata[i];
    if (stack->n == n && stack->along == along && !memcmp(stack->parts, parts, n * sizeof(void *)))
      return (GraphTensor *)stack->tensor;
  }
  return NULL;
}

/* The constants side by side along a dimension, each so once. */
static GraphTensor *stack_constants(Fuser *fuser, const GraphTensor *const *parts, unsigned n, unsigned along)
{
  Arena *arena = fuser->arena;
  GraphTensor *tensor = known_stack(fuser, parts, n, along);
  if (tensor) return tensor;
  g_autoptr(GString) name = g_string_new(parts[0]->name);
  tensor = arena_memdup(arena, parts[0], sizeof *tensor);
  tensor->data = tensor->file = NULL;
  tensor->index = fuser->tensors->len;
  for (unsigned i = 1; i < n; i++) {
    g_string_append_printf(name, "+%s", parts[i]->name);
    tensor->shape[along] = symbolic_add(arena, tensor->shape[along], parts[i]->shape[along]);
    tensor->align = MIN(tensor->align, parts[i]->align);
  }
  if (along) tensor->strides[0] = tensor->shape[along];
  tensor->name = arena_strdup(arena, name->str);
  g_ptr_array_add(fuser->tensors, tensor);
  FusionStack *stack = arena_new_object(arena, FusionStack);
  *stack = (FusionStack){tensor, arena_memdup(arena, parts, n * sizeof *parts), n, along};
  g_ptr_array_add(fuser->stacks, stack);
  return tensor;
}

static GraphTensor *wide_tensor(Fuser *fuser, const GraphTensor *like, const Symbolic *columns, Mark mark)
{
  const Symbolic *shape[GRAPH_MAX_RANK];
  memcpy(shape, like->shape, sizeof shape);
  shape[like->rank - 1] = columns;
  const char *name = arena_printf(fuser->arena, "%s.beside%u", like->name, fuser->tensors->len);
  GraphTensor *tensor = fuser_new_tensor(fuser, name, like->type, mark, shape, like->rank);
  tensor->n_consumers = 1;
  return tensor;
}

/* The node with wide constants for its operands, and a wide result; third: NULL, or Gemm's bias. */
static GraphNode *widened(Fuser *fuser, const GraphNode *node, GraphTensor *first, GraphTensor *second,
                          GraphTensor *third, const Symbolic *columns)
{
  GraphNode *wide = arena_memdup(fuser->arena, node, sizeof *node);
  GraphTensor *inputs[] = {first, second, third};
  GraphTensor *out = wide_tensor(fuser, node->outputs[0], columns, node->mark);
  wide->inputs = arena_memdup(fuser->arena, inputs, sizeof inputs);
  wide->n_inputs = third ? 3 : 2;
  wide->outputs = arena_memdup(fuser->arena, &out, sizeof out);
  out->producer = wide;
  return wide;
}

static GraphNode *split_of(Fuser *fuser, GraphTensor *wide, const Stacked *list, unsigned n)
{
  Arena *arena = fuser->arena;
  GraphNode *split = arena_new_object(arena, GraphNode);
  *split = (GraphNode){.op = operator_of(ONNX_Split),
                       .name = "",
                       .n_inputs = 1,
                       .n_outputs = n,
                       .inputs = arena_memdup(arena, &wide, sizeof wide),
                       .outputs = arena_new_array(arena, GraphTensor *, n),
                       .sizes = arena_new_array(arena, const Symbolic *, n),
                       .axes = 1u << (wide->rank - 1),
                       .mark = list[0].product->mark};
  split->attributes = arena_new_array(arena, GraphAttribute, split->op->n_attributes + 1);
  for (unsigned i = 0; i < n; i++) {
    split->outputs[i] = fuser_own_tensor(fuser, list[i].end);
    split->outputs[i]->producer = split;
    split->sizes[i] = list[i].end->shape[wide->rank - 1];
  }
  return split;
}

/* Product, sum and Split at the place of the first product; what they stand for goes. */
static void put_stack(Fuser *fuser, const Stacked *list, unsigned n)
{
  const GraphTensor *weights[MOST_STACKED], *biases[MOST_STACKED];
  GPtrArray *live = fuser->live;
  guint place = live->len;
  g_autoptr(GString) names = g_string_new(NULL);
  for (unsigned i = 0; i < n; i++) {
    guint at = 0;
    weights[i] = list[i].weight;
    biases[i] = list[i].bias;
    g_ptr_array_find(live, list[i].product, &at);
    place = MIN(place, at);
    g_string_append_printf(names, "%s`%s`", i ? ", " : "", list[i].end->name);
  }
  GraphTensor *weight = stack_constants(fuser, weights, n, list[0].columns),
              *bias = list[0].bias ? stack_constants(fuser, biases, n, 0) : NULL;
  const Symbolic *columns = weight->shape[list[0].columns];
  GraphNode *product =
      widened(fuser, list[0].product, list[0].product->inputs[0], weight, list[0].sum ? NULL : bias, columns);
  GraphNode *last = product;
  if (list[0].sum) last = widened(fuser, list[0].sum, product->outputs[0], bias, NULL, columns);
  GraphNode *split = split_of(fuser, last->outputs[0], list, n);
  for (unsigned i = 0; i < n; i++) {
    g_ptr_array_remove(live, list[i].product);
    if (list[i].sum) g_ptr_array_remove(live, list[i].sum);
  }
  g_ptr_array_insert(live, (gint)place, split);
  if (last != product) g_ptr_array_insert(live, (gint)place, last);
  g_ptr_array_insert(live, (gint)place, product);
  fuser_note(fuser, "%s are columns of one product: `%s` is multiplied with %u constants side by side",
             names->str, product->inputs[0]->name, n);
}

void fusion_stack_products(Fuser *fuser)
{
  Stacked list[MOST_STACKED];
  g_autoptr(GHashTable) readers = find_readers(fuser->live);
  g_autoptr(GHashTable) done = g_hash_table_new(NULL, NULL);
  g_autoptr(GPtrArray) all = g_ptr_array_copy(fuser->live, NULL, NULL);
  const Stacking at = {fuser, readers};
  for (unsigned i = 0; i < all->len; i++) {
    GraphNode *node = all->pdata[i];
    unsigned n = g_hash_table_contains(done, node) ? 0 : find_stack(&at, node, list);
    for (unsigned j = 0; j < n; j++)
      g_hash_table_add(done, list[j].product);
    if (n > 1) put_stack(fuser, list, n);
  }
}
