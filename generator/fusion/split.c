/* Rewrite part_products: one product with the weights of gate and up side by side, as models are exported:
 *
 *   P = x W   [+ bias]      gate, up = Split(P, last axis)      y = silu(gate) * up
 *
 * becomes two products with the halves of W, which stay where they are (fuser_part_of): their results meet in
 * one kernel (pair.c), and P is never written. What stands between product and Split is computed for
 * each half. Slices of P that are its equal parts, as of the gates of a recurrent cell, are such a Split; of more than
 * two the judge is asked first whether one kernel of all is wanted. */
#include "generator/fusion/private.h"
#include "generator/program/gemm.h"
#include <string.h>

typedef struct {
  Fuser *fuser;
  GPtrArray *live;
  GraphNode *split;
  GPtrArray *chain; /* the product, then what follows it elementwise, up to the Split's input */
  const Symbolic *firsts[GEMM_MOST_PRODUCTS], *extent;
  unsigned n;
} Parting;

/* ---- what may be parted ---- */

/* Who makes a tensor that only one node reads, once. */
static GraphNode *private_producer(const Parting *at, const GraphTensor *tensor, const GraphNode *reader)
{
  GraphNode *producer = NULL;
  /* What is written in parts nobody makes alone: said here, since looking at all nodes for each Split of a long chain would be quadratic. */
  if (tensor->is_output || tensor->n_parts || fuser_is_view(tensor)) return NULL;
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
static GraphNode *before(const Parting *at, const GraphNode *node)
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

static bool find_chain(Parting *at)
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

/* Bits of the parts that the node's value depends on, element by element. */
static unsigned parts_in(const Parting *at, const GraphNode *node, const unsigned *known)
{
  unsigned found = 0;
  for (unsigned i = 0; i < node->n_inputs; i++) {
    const GraphTensor *input = node->inputs[i];
    for (unsigned h = 0; input && h < at->n; h++)
      if (input == at->split->outputs[h]) found |= 1u << h;
    for (unsigned j = 0; input && j < at->live->len; j++)
      if (known[j] && ((GraphNode *)at->live->pdata[j])->outputs[0] == input) found |= known[j];
  }
  return found;
}

/* The parts are operands of one elementwise computation. */
static bool parts_meet(const Parting *at)
{
  g_autofree unsigned *known = g_new0(unsigned, at->live->len + 1);
  for (unsigned i = 0; i < at->live->len; i++) {
    const GraphNode *node = at->live->pdata[i];
    if (node->op->class_ != OPERATOR_ELEMENTWISE) continue;
    known[i] = parts_in(at, node, known);
    if (known[i] == (1u << at->n) - 1) return true;
  }
  return false;
}

/* Equal parts of the last axis. */
static bool is_parted(const GraphNode *split)
{
  const GraphTensor *input = split->inputs[0];
  bool equal = split->n_outputs >= 2 && split->n_outputs <= GEMM_MOST_PRODUCTS &&
               split->axes == 1u << (input->rank - 1);
  for (unsigned i = 0; equal && i < split->n_outputs; i++)
    equal = split->outputs[i] && symbolic_same(split->sizes[i], split->sizes[0]);
  return equal;
}

/* ---- parting ---- */

/* A part of what broadcasts to the result, along its last axis. */
static GraphTensor *part_of(const Parting *at, GraphTensor *tensor, unsigned part)
{
  if (!tensor || !tensor->rank || symbolic_equals(tensor->shape[tensor->rank - 1], 1)) return tensor;
  return fuser_part_of(at->fuser, tensor, tensor->rank - 1, at->firsts[part], at->extent);
}

static GraphTensor *part_result(const Parting *at, const GraphTensor *whole, unsigned part)
{
  Arena *arena = at->fuser->arena;
  GraphTensor *tensor = arena_memdup(arena, whole, sizeof *whole);
  tensor->name = arena_printf(arena, "%s.%s%u", whole->name, at->n == 2 ? "half" : "part", part);
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
static void part_product(const Parting *at, GraphNode *node, unsigned part)
{
  GraphTensor *b = node->inputs[1];
  bool turned = graph_is_transposed(node, 1);
  node->inputs[1] = fuser_part_of(at->fuser, b, b->rank - (turned ? 2 : 1), at->firsts[part], at->extent);
  for (unsigned i = 2; i < node->n_inputs; i++)
    node->inputs[i] = part_of(at, node->inputs[i], part);
}

/* The chain for one part: `made` gets its nodes. */
static void make_part(const Parting *at, unsigned part, GPtrArray *made)
{
  Arena *arena = at->fuser->arena;
  const GraphTensor *whole = NULL;
  GraphTensor *result = NULL;
  for (unsigned i = 0; i < at->chain->len; i++) {
    GraphNode *node = arena_memdup(arena, at->chain->pdata[i], sizeof *node);
    node->inputs = arena_memdup(arena, node->inputs, node->n_inputs * sizeof(GraphTensor *));
    for (unsigned j = 0; i && j < node->n_inputs; j++)
      node->inputs[j] = node->inputs[j] == whole ? result : part_of(at, node->inputs[j], part);
    if (!i) part_product(at, node, part);
    whole = node->outputs[0];
    result = i + 1 < at->chain->len ? part_result(at, whole, part)
                                    : fuser_own_tensor(at->fuser, at->split->outputs[part]);
    node->outputs = arena_memdup(arena, &result, sizeof result);
    result->producer = node;
    g_ptr_array_add(made, node);
  }
}

/* The nodes of all parts stand where the Split was. */
static void put_parts(const Parting *at)
{
  g_autoptr(GPtrArray) made = g_ptr_array_new();
  for (unsigned part = 0; part < at->n; part++)
    make_part(at, part, made);
  for (unsigned i = 0; i < at->chain->len; i++)
    g_ptr_array_remove(at->live, at->chain->pdata[i]);
  guint place = 0;
  g_ptr_array_find(at->live, at->split, &place);
  g_ptr_array_remove_index(at->live, place);
  for (unsigned i = 0; i < made->len; i++)
    g_ptr_array_insert(at->live, (gint)(place + i), made->pdata[i]);
}

/* ---- is one kernel of all wanted? ---- */

/* A node of the trial, of two inputs, with a result like the parts. */
static GraphNode *try_node(const Parting *at, const GraphNode *like, GraphTensor *left, GraphTensor *right)
{
  Arena *arena = at->fuser->arena;
  GraphNode *node = arena_memdup(arena, like, sizeof *like);
  GraphTensor *result = arena_memdup(arena, at->split->outputs[0], sizeof *result);
  node->inputs = arena_memdup(arena, like->inputs, MAX(2, like->n_inputs) * sizeof(GraphTensor *));
  node->inputs[0] = left;
  node->inputs[1] = right;
  result->is_output = false;
  result->producer = node;
  node->outputs = arena_memdup(arena, &result, sizeof result);
  return node;
}

/* The judge on the parts' products, whose results are added up in place of all that is computed of them. */
static bool is_wanted(const Parting *at)
{
  Fuser *fuser = at->fuser;
  const GraphNode *product = at->chain->pdata[0];
  GraphNode sum = {
      .op = operator_of(ONNX_Add), .name = "", .n_inputs = 2, .n_outputs = 1, .mark = product->mark};
  sum.inputs = product->inputs;
  g_autoptr(GPtrArray) nodes = g_ptr_array_new(), sums = g_ptr_array_new();
  GraphTensor *result = NULL;
  if (at->n == 2) return true;
  for (unsigned i = 0; i < at->n; i++) {
    GraphNode *node = try_node(at, product, product->inputs[0], product->inputs[1]);
    part_product(at, node, i);
    g_ptr_array_add(nodes, node);
    if (i) g_ptr_array_add(sums, try_node(at, &sum, result, node->outputs[0]));
    result = i ? ((GraphNode *)sums->pdata[i - 1])->outputs[0] : node->outputs[0];
  }
  g_ptr_array_extend(nodes, sums, NULL, NULL);
  Group group = {.anchor = nodes->pdata[0], .nodes = nodes};
  ProgramVerdict verdict = fuser_judge(fuser, &group, result, true);
  if (!verdict.taken)
    fuser_note(fuser, "the product with `%s` stays one: %s", product->inputs[1]->name, verdict.why);
  return verdict.taken;
}

/* ---- parts that are sliced ---- */

/* Into how many equal parts of its input's last axis the node slices, taking nothing else away, and which it is; 0: none. */
static unsigned sliced_parts(Arena *arena, const GraphNode *node, unsigned *part)
{
  if (node->op->id != ONNX_Slice || !node->inputs[0]->rank) return 0;
  const GraphTensor *input = node->inputs[0], *output = node->outputs[0];
  unsigned last = input->rank - 1, n = 0;
  const Symbolic *extent = output->shape[last], *first = symbolic_constant(arena, 0);
  bool plain = node->steps[last] == 1;
  for (unsigned d = 0; d < last; d++)
    plain = plain && node->steps[d] == 1 && symbolic_same(output->shape[d], input->shape[d]);
  *part = GEMM_MOST_PRODUCTS;
  for (n = 0; plain && n < GEMM_MOST_PRODUCTS && !symbolic_same(first, input->shape[last]); n++) {
    if (symbolic_same(node->firsts[last], first)) *part = n;
    first = symbolic_add(arena, first, extent);
  }
  return plain && n >= 2 && *part < n && symbolic_same(first, input->shape[last]) ? n : 0;
}

static GraphNode *split_of(Arena *arena, GraphNode *const *slices, unsigned n)
{
  const GraphTensor *input = slices[0]->inputs[0];
  GraphNode *split = arena_new_object(arena, GraphNode);
  *split = (GraphNode){.op = operator_of(ONNX_Split),
                       .name = "",
                       .n_inputs = 1,
                       .n_outputs = n,
                       .inputs = arena_memdup(arena, slices[0]->inputs, sizeof *slices[0]->inputs),
                       .outputs = arena_new_array(arena, GraphTensor *, n),
                       .sizes = arena_new_array(arena, const Symbolic *, n),
                       .axes = 1u << (input->rank - 1),
                       .mark = slices[0]->mark};
  for (unsigned i = 0; i < n; i++) {
    split->outputs[i] = slices[i]->outputs[0];
    split->sizes[i] = slices[i]->outputs[0]->shape[input->rank - 1];
  }
  return split;
}

static bool split_product(Fuser *fuser, GPtrArray *live, GraphNode *split)
{
  if (split->op->id != ONNX_Split || !is_parted(split)) return false;
  g_autoptr(GPtrArray) chain = g_ptr_array_new();
  Parting at = {.fuser = fuser,
                .live = live,
                .split = split,
                .chain = chain,
                .extent = split->sizes[0],
                .n = split->n_outputs};
  at.firsts[0] = symbolic_constant(fuser->arena, 0);
  for (unsigned i = 1; i < at.n; i++)
    at.firsts[i] = symbolic_add(fuser->arena, at.firsts[i - 1], at.extent);
  if (!find_chain(&at) || !parts_meet(&at) || !is_wanted(&at)) return false;
  const GraphNode *product = chain->pdata[0];
  fuser_note(fuser, "`%s` is not made: its %s are products with the %s of `%s`", split->inputs[0]->name,
             at.n == 2 ? "halves" : "parts", at.n == 2 ? "halves" : "parts", product->inputs[1]->name);
  put_parts(&at);
  return true;
}

/* ---- the whole ---- */

/* The slices of all parts, of which the first in `live` stands at `place`; their number, or 0. */
static unsigned find_slices(const Fuser *fuser, const GPtrArray *live, unsigned place, GraphNode **slices)
{
  const GraphNode *node = live->pdata[place];
  unsigned part, found = 0, n = sliced_parts(fuser->arena, node, &part);
  for (unsigned i = place; n && i < live->len; i++) {
    GraphNode *other = live->pdata[i];
    if (other->op->id != ONNX_Slice || other->inputs[0] != node->inputs[0] ||
        sliced_parts(fuser->arena, other, &part) != n || slices[part])
      continue;
    slices[part] = other;
    found++;
  }
  return found == n ? n : 0;
}

static bool slice_product(Fuser *fuser, GPtrArray *live, unsigned place)
{
  GraphNode *slices[GEMM_MOST_PRODUCTS] = {NULL};
  unsigned n = find_slices(fuser, live, place, slices);
  if (!n) return false;
  g_autoptr(GPtrArray) before = g_ptr_array_copy(live, NULL, NULL);
  for (unsigned i = 0; i < n; i++)
    if (slices[i] != before->pdata[place]) g_ptr_array_remove(live, slices[i]);
  live->pdata[place] = split_of(fuser->arena, slices, n);
  if (split_product(fuser, live, live->pdata[place])) return true;
  g_ptr_array_set_size(live, 0);
  g_ptr_array_extend(live, before, NULL, NULL);
  return false;
}

bool fusion_part_products(Fuser *fuser, unsigned place)
{
  bool done = split_product(fuser, fuser->live, fuser->live->pdata[place]) ||
              slice_product(fuser, fuser->live, place);
  if (done) fuser_forget_readers(fuser);
  return done;
}
