/* Rewrite halve_products: one product with the weights of gate and up side by side, as models are exported:
 *
 *   P = x W   [+ bias]      gate, up = Split(P, last axis)      y = silu(gate) * up
 *
 * becomes two products with the halves of W, which stay where they are (fuser_part_of): their results meet in
 * one kernel (pair.c), and P is never written. What stands between product and Split is computed for
 * each half. Two Slices of P that are its halves are such a Split. */
#include "generator/fusion/private.h"
#include <string.h>

#define HALVES 2

typedef struct {
  Fuser *fuser;
  GPtrArray *live;
  GraphNode *split;
  GPtrArray *chain; /* the product, then what follows it elementwise, up to the Split's input */
  const Symbolic *firsts[HALVES], *extent;
} Halving;

/* ---- what may be halved ---- */

/* Who makes a tensor that only one node reads, once. */
static GraphNode *private_producer(const Halving *at, const GraphTensor *tensor, const GraphNode *reader)
{
  GraphNode *producer = NULL;
  if (tensor->is_output || fuser_is_view(tensor)) return NULL;
  for (unsigned i = 0; i < at->live->len; i++) {
    GraphNode *node = at->live->pdata[i];
    unsigned uses = 0;
    for (unsigned j = 0; j < node->n_inputs; j++)
      uses += node->inputs[j] && node->inputs[j]->index == tensor->index; /* views too */
    if (uses > (node == reader)) return NULL;
    for (unsigned j = 0; j < node->n_outputs; j++)
      if (node->outputs[j] == tensor) producer = node;
  }
  return producer;
}

/* The input that continues the chain: as large as the result, and made for this node alone. */
static GraphNode *before(const Halving *at, const GraphNode *node)
{
  for (unsigned i = 0; i < node->n_inputs; i++) {
    const GraphTensor *input = node->inputs[i];
    if (!input || !graph_same_shape(input, node->outputs[0])) continue;
    GraphNode *producer = private_producer(at, input, node);
    bool plain =
        producer &&
        (producer->op->class_ == OPERATOR_GEMM ||
         (producer->op->class_ == OPERATOR_ELEMENTWISE && producer->op->shape_rule == SHAPE_RULE_BROADCAST));
    if (plain) return producer;
  }
  return NULL;
}

static bool find_chain(Halving *at)
{
  GraphNode *node = private_producer(at, at->split->inputs[0], at->split);
  while (node && node->op->class_ == OPERATOR_ELEMENTWISE && node->op->shape_rule == SHAPE_RULE_BROADCAST &&
         at->chain->len < at->fuser->max_steps) {
    g_ptr_array_insert(at->chain, 0, node);
    node = before(at, node);
  }
  bool product = node && node->op->class_ == OPERATOR_GEMM && node->op->id != ONNX_GroupedMatMul;
  if (!product || node->inputs[1]->rank < 2 || node->blocks[0] || node->blocks[1]) return false;
  g_ptr_array_insert(at->chain, 0, node);
  return true;
}

/* Bits of the halves that the node's value depends on, element by element. */
static unsigned halves_in(const Halving *at, const GraphNode *node, const unsigned *known)
{
  unsigned found = 0;
  for (unsigned i = 0; i < node->n_inputs; i++) {
    const GraphTensor *input = node->inputs[i];
    for (unsigned h = 0; input && h < HALVES; h++)
      if (input == at->split->outputs[h]) found |= 1u << h;
    for (unsigned j = 0; input && j < at->live->len; j++)
      if (known[j] && ((GraphNode *)at->live->pdata[j])->outputs[0] == input) found |= known[j];
  }
  return found;
}

/* The halves are operands of one elementwise computation. */
static bool halves_meet(const Halving *at)
{
  g_autofree unsigned *known = g_new0(unsigned, at->live->len + 1);
  for (unsigned i = 0; i < at->live->len; i++) {
    const GraphNode *node = at->live->pdata[i];
    if (node->op->class_ != OPERATOR_ELEMENTWISE) continue;
    known[i] = halves_in(at, node, known);
    if (known[i] == (1u << HALVES) - 1) return true;
  }
  return false;
}

/* Two equal halves of the last axis. */
static bool is_halved(const GraphNode *split)
{
  const GraphTensor *input = split->inputs[0];
  return split->n_outputs == HALVES && split->outputs[0] && split->outputs[1] &&
         split->axes == 1u << (input->rank - 1) && symbolic_same(split->sizes[0], split->sizes[1]);
}

/* ---- halving ---- */

/* A half of what broadcasts to the result, along its last axis. */
static GraphTensor *half_of(const Halving *at, GraphTensor *tensor, unsigned half)
{
  if (!tensor || !tensor->rank || symbolic_equals(tensor->shape[tensor->rank - 1], 1)) return tensor;
  return fuser_part_of(at->fuser, tensor, tensor->rank - 1, at->firsts[half], at->extent);
}

static GraphTensor *half_result(const Halving *at, const GraphTensor *whole, unsigned half)
{
  Arena *arena = at->fuser->arena;
  GraphTensor *tensor = arena_memdup(arena, whole, sizeof *whole);
  tensor->name = arena_printf(arena, "%s.half%u", whole->name, half);
  tensor->index = at->fuser->tensors->len;
  tensor->shape[tensor->rank - 1] = at->extent;
  const Symbolic *stride = symbolic_constant(arena, 1);
  for (unsigned i = tensor->rank; i-- > 0;) {
    tensor->strides[i] = stride;
    stride = symbolic_mul(arena, stride, tensor->shape[i]);
  }
  g_ptr_array_add(at->fuser->tensors, tensor);
  return tensor;
}

/* The product's right operand and what is added or multiplied to its columns. */
static void halve_product(const Halving *at, GraphNode *node, unsigned half)
{
  GraphTensor *b = node->inputs[1];
  bool turned = graph_is_transposed(node, 1);
  node->inputs[1] = fuser_part_of(at->fuser, b, b->rank - (turned ? 2 : 1), at->firsts[half], at->extent);
  for (unsigned i = 2; i < node->n_inputs; i++)
    node->inputs[i] = half_of(at, node->inputs[i], half);
}

/* The chain for one half: `made` gets its nodes. */
static void make_half(const Halving *at, unsigned half, GPtrArray *made)
{
  Arena *arena = at->fuser->arena;
  const GraphTensor *whole = NULL;
  GraphTensor *part = NULL;
  for (unsigned i = 0; i < at->chain->len; i++) {
    GraphNode *node = arena_memdup(arena, at->chain->pdata[i], sizeof *node);
    node->inputs = arena_memdup(arena, node->inputs, node->n_inputs * sizeof(GraphTensor *));
    for (unsigned j = 0; i && j < node->n_inputs; j++)
      node->inputs[j] = node->inputs[j] == whole ? part : half_of(at, node->inputs[j], half);
    if (!i) halve_product(at, node, half);
    whole = node->outputs[0];
    part = i + 1 < at->chain->len ? half_result(at, whole, half)
                                  : fuser_own_tensor(at->fuser, at->split->outputs[half]);
    node->outputs = arena_memdup(arena, &part, sizeof part);
    part->producer = node;
    g_ptr_array_add(made, node);
  }
}

/* The nodes of both halves stand where the Split was. */
static void put_halves(const Halving *at)
{
  g_autoptr(GPtrArray) made = g_ptr_array_new();
  for (unsigned half = 0; half < HALVES; half++)
    make_half(at, half, made);
  for (unsigned i = 0; i < at->chain->len; i++)
    g_ptr_array_remove(at->live, at->chain->pdata[i]);
  guint place = 0;
  g_ptr_array_find(at->live, at->split, &place);
  g_ptr_array_remove_index(at->live, place);
  for (unsigned i = 0; i < made->len; i++)
    g_ptr_array_insert(at->live, (gint)(place + i), made->pdata[i]);
}

/* ---- halves that are sliced ---- */

/* Bit h: the node takes the h-th half of its input's last axis and nothing else away. */
static unsigned sliced_half(Arena *arena, const GraphNode *node)
{
  if (node->op->id != ONNX_Slice || !node->inputs[0]->rank) return 0;
  const GraphTensor *input = node->inputs[0], *output = node->outputs[0];
  unsigned last = input->rank - 1;
  const Symbolic *extent = output->shape[last], *first = node->firsts[last];
  bool half =
      node->steps[last] == 1 && symbolic_same(symbolic_add(arena, extent, extent), input->shape[last]);
  for (unsigned d = 0; d < last; d++)
    half = half && node->steps[d] == 1 && symbolic_same(output->shape[d], input->shape[d]);
  return !half ? 0 : symbolic_equals(first, 0) ? 1 : symbolic_same(first, extent) ? 2 : 0;
}

static GraphNode *split_of(Arena *arena, const GraphNode *left, const GraphNode *right)
{
  const GraphTensor *input = left->inputs[0];
  GraphNode *split = arena_new_object(arena, GraphNode);
  *split = (GraphNode){.op = operator_of(ONNX_Split),
                       .name = "",
                       .n_inputs = 1,
                       .n_outputs = HALVES,
                       .inputs = arena_memdup(arena, left->inputs, sizeof *left->inputs),
                       .outputs = arena_new_array(arena, GraphTensor *, HALVES),
                       .sizes = arena_new_array(arena, const Symbolic *, HALVES),
                       .axes = 1u << (input->rank - 1),
                       .mark = left->mark};
  split->outputs[0] = left->outputs[0];
  split->outputs[1] = right->outputs[0];
  split->sizes[0] = split->sizes[1] = left->outputs[0]->shape[input->rank - 1];
  return split;
}

static bool split_product(Fuser *fuser, GPtrArray *live, GraphNode *split)
{
  if (split->op->id != ONNX_Split || !is_halved(split)) return false;
  g_autoptr(GPtrArray) chain = g_ptr_array_new();
  Halving at = {.fuser = fuser, .live = live, .split = split, .chain = chain, .extent = split->sizes[0]};
  at.firsts[0] = symbolic_constant(fuser->arena, 0);
  at.firsts[1] = split->sizes[0];
  if (!find_chain(&at) || !halves_meet(&at)) return false;
  const GraphNode *product = chain->pdata[0];
  fuser_note(fuser, "`%s` is not made: its halves are products with the halves of `%s`",
             split->inputs[0]->name, product->inputs[1]->name);
  put_halves(&at);
  return true;
}

/* ---- the whole ---- */

static bool slice_product(Fuser *fuser, GPtrArray *live, unsigned place)
{
  GraphNode *node = live->pdata[place];
  unsigned half = sliced_half(fuser->arena, node);
  for (unsigned i = place + 1; half && i < live->len; i++) {
    GraphNode *other = live->pdata[i];
    if (other->op->id != ONNX_Slice || other->inputs[0] != node->inputs[0] ||
        (half | sliced_half(fuser->arena, other)) != 3)
      continue;
    live->pdata[place] = split_of(fuser->arena, half == 1 ? node : other, half == 1 ? other : node);
    g_ptr_array_remove_index(live, i);
    if (split_product(fuser, live, live->pdata[place])) return true;
    live->pdata[place] = node;
    g_ptr_array_insert(live, (gint)i, other);
    return false;
  }
  return false;
}

bool fusion_halve_products(Fuser *fuser, unsigned place)
{
  return split_product(fuser, fuser->live, fuser->live->pdata[place]) ||
         slice_product(fuser, fuser->live, place);
}
