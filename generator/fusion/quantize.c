/* Rewrite take_scales: quantised operands: DequantizeLinear in front of a matrix product goes into it.
 *
 * sum over k of (a[m, k] s[m]) (b[k, n] t[n]) is s[m] t[n] times the sum of a b: scales that do not vary
 * along k multiply the result, so the product is taken of what was quantised. That needs both operands
 * dequantised, without zero points, from types that multiply each other.
 *
 * Weights of 8 bits or 4 beside activations of 16 are taken as they are, with their scales, of blocks of k too, and zero points: a
 * family's kernels widen them on the way to the product, where that takes less than a kernel that does so through memory.
 *
 * Scales of blocks of k go into the product too: each block's sum is multiplied by them as it is added. A family has to
 * have kernels for the blocks; where none has, the operands stay dequantised.
 *
 * In front of keys and values of VarlenAttention it goes into that, as Cast does, where scales are the same for all elements of a head. */
#include "generator/front/groups.h"
#include "generator/front/sequences.h"
#include "generator/fusion/private.h"
#include <string.h>

/* The same elements under other extents. Kernels know tensors by their index and name, which stay. */
static GraphTensor *view_of(Fuser *fuser, const GraphTensor *tensor, unsigned rank)
{
  GraphTensor *view = arena_memdup(fuser->arena, tensor, sizeof *tensor);
  view->rank = rank;
  for (unsigned d = 0; d < rank; d++) {
    view->shape[d] = symbolic_constant(fuser->arena, 1);
    view->strides[d] = symbolic_constant(fuser->arena, 0);
  }
  return view;
}

/* What a tensor is a cast of that only memory has: elements that share bytes, powers of two. Who reads it may read that. */
static GraphTensor *as_stored(GraphTensor *tensor)
{
  const GraphNode *cast = tensor ? tensor->producer : NULL;
  if (!cast || cast->op->id != ONNX_Cast) return tensor;
  GraphTensor *stored = cast->inputs[0];
  return number_is_packed(stored->type) || stored->type == NUMBER_E8M0 ? stored : tensor;
}

/* A vector that the graph computes, by a node in front of the reader: groups know what they compute by the tensor itself, not by a view of it. */
static GraphTensor *shown_along(Fuser *fuser, GraphTensor *vector, const GraphNode *reader, unsigned rank)
{
  const Symbolic *shape[GRAPH_MAX_RANK] = {vector->shape[0]};
  for (unsigned d = 1; d < rank; d++)
    shape[d] = symbolic_constant(fuser->arena, 1);
  const char *name = arena_printf(fuser->arena, "%s.along%u", vector->name, fuser->tensors->len);
  GraphTensor *shown = fuser_new_tensor(fuser, name, vector->type, reader->mark, shape, rank);
  GraphNode *reshape = fuser_copy_node(fuser, reader, vector, shown);
  reshape->op = operator_of(ONNX_Reshape);
  reshape->attributes = arena_new_array(fuser->arena, GraphAttribute, reshape->op->n_attributes + 1);
  reshape->loop = reader->loop;
  shown->producer = reshape;
  g_ptr_array_add(fuser->live, reshape);
  return shown;
}

void fuser_place_scales(Fuser *fuser, GraphNode *node)
{
  unsigned rank = node->inputs[0]->rank, axis = node->axes ? (unsigned)__builtin_ctz(node->axes) : rank - 1;
  if (!node->axes || axis + 1 == rank) return;
  for (unsigned i = 1; i < node->n_inputs; i++) {
    GraphTensor *vector = as_stored(node->inputs[i]);
    if (!vector || vector->rank != 1 || graph_has_one_element(vector)) continue;
    if (vector->producer) {
      node->inputs[i] = shown_along(fuser, vector, node, rank - axis);
      continue;
    }
    GraphTensor *view = view_of(fuser, vector, rank - axis);
    view->shape[0] = vector->shape[0];
    view->strides[0] = vector->strides[0];
    node->inputs[i] = view;
  }
}

/* ---- into products ---- */

typedef struct {
  Fuser *fuser;
  GPtrArray *nodes;
  GraphNode **producers; /* by tensor index */
} Taking;

/* The scale of an operand as a factor of the product's result; NULL: it varies along k, or cannot be told. */
static GraphTensor *result_scale(Taking *at, const GraphNode *product, unsigned operand,
                                 const GraphTensor *matrix, GraphTensor *scale)
{
  if (graph_has_one_element(scale)) return scale->producer ? scale : view_of(at->fuser, scale, 0);
  bool transposed = graph_is_transposed(product, operand);
  if (matrix->rank < 2 || product->inputs[!operand]->rank < 2) return NULL;
  unsigned k_from_last = (operand == 0) == transposed ? 2 : 1; /* the operand's dimension along k */
  if (scale->rank >= k_from_last && !symbolic_equals(scale->shape[scale->rank - k_from_last], 1)) return NULL;
  if (!transposed || program_varies_by_group(product, operand, scale)) return scale;
  if (scale->producer || scale->rank > 2) return NULL;
  GraphTensor *turned = view_of(at->fuser, scale, 2);
  for (unsigned d = 0; d < scale->rank; d++) {
    unsigned to = 1 - (2 - scale->rank + d);
    turned->shape[to] = scale->shape[d];
    turned->strides[to] = scale->strides[d];
  }
  return turned;
}

static const GraphNode *dequantizing(const Taking *at, const GraphTensor *tensor)
{
  const GraphNode *node = at->producers[tensor->index];
  return node && node->op->id == ONNX_DequantizeLinear ? node : NULL;
}

/* The same, if nothing is subtracted. */
static const GraphNode *dequantizer(const Taking *at, const GraphTensor *tensor)
{
  const GraphNode *node = dequantizing(at, tensor);
  if (!node) return NULL;
  bool zero = node->n_inputs > 2 && node->inputs[2];
  return zero && number_class(node->inputs[0]->type) != NUMBER_FLOAT ? NULL : node;
}

static bool multiply_each_other(NumberType a, NumberType b)
{
  bool floats = number_class(a) == NUMBER_FLOAT && number_class(b) == NUMBER_FLOAT;
  return number_bits(a) == 8 && number_bits(b) == 8 && (floats || a == b);
}

/* Inputs of the product behind its own: the operands' scales; `zero`: of narrow weights, or NULL. */
static void set_inputs(Taking *at, GraphNode *product, GraphTensor *const quantised[2],
                       GraphTensor *const scale[2], GraphTensor *zero)
{
  GraphTensor **inputs = arena_new_array(at->fuser->arena, GraphTensor *, PRODUCT_ZERO + 1);
  memcpy(inputs, product->inputs, MIN(product->n_inputs, PRODUCT_SCALES) * sizeof *inputs);
  for (unsigned i = 0; i < 2; i++) {
    inputs[i] = quantised[i];
    inputs[PRODUCT_SCALES + i] = scale[i];
  }
  inputs[PRODUCT_ZERO] = zero;
  product->inputs = inputs;
  product->n_inputs = PRODUCT_SCALES + (zero ? 3 : 2);
}

static bool is_row_major(const Arena *arena, const GraphTensor *tensor)
{
  const Symbolic *stride = symbolic_constant((Arena *)arena, 1);
  for (unsigned d = tensor->rank; d-- > 0;) {
    if (!symbolic_same(tensor->strides[d], stride)) return false;
    stride = symbolic_mul((Arena *)arena, stride, tensor->shape[d]);
  }
  return true;
}

/* A tensor of the graph's inputs or constants in another shape is a view of that. */
static GraphTensor *unreshaped(const Taking *at, GraphTensor *tensor)
{
  const GraphTensor *source = tensor;
  while (source && source->producer && operator_keeps_order(source->producer->op))
    source = source->producer->inputs[0];
  if (source == tensor || source->producer || !is_row_major(at->fuser->arena, source)) return tensor;
  GraphTensor *view = view_of(at->fuser, source, tensor->rank);
  memcpy(view->shape, tensor->shape, tensor->rank * sizeof *tensor->shape);
  memcpy(view->strides, tensor->strides, tensor->rank * sizeof *tensor->strides);
  return view;
}

/* The tensor where it lies in another, or else itself. */
static GraphTensor *read_in(const Taking *at, GraphTensor *tensor, const GraphPacked *in)
{
  if (!in->of || in->of->producer || !is_row_major(at->fuser->arena, in->of)) return unreshaped(at, tensor);
  GraphTensor *view = view_of(at->fuser, in->of, 2);
  view->type = in->type;
  memcpy(view->shape, tensor->shape, 2 * sizeof *tensor->shape);
  view->strides[0] = symbolic_constant(at->fuser->arena, in->row);
  view->strides[1] = symbolic_constant(at->fuser->arena, 1);
  return view;
}

/* What is reshaped has become a view where it is read; those who only know what a tensor is made of do not know of it. */
static bool is_reshaped(const GraphTensor *tensor)
{
  return tensor && tensor->producer && tensor->producer->op->class_ == OPERATOR_VIEW;
}

/* But where the graph computes it, as a QuantizeLinear of blocks does: then the view is made of what computes it, later. */
static bool is_given_reshaped(const GraphTensor *tensor)
{
  const GraphTensor *source = tensor;
  while (is_reshaped(source))
    source = source->producer->inputs[0];
  return is_reshaped(tensor) && !source->producer;
}

static bool are_reshaped(const GraphBlocks *blocks)
{
  return is_given_reshaped(blocks->x) || is_given_reshaped(blocks->scale) || is_reshaped(blocks->zero);
}

/* The tensor as nodes have it by now. */
static GraphTensor *at_hand(const Taking *at, GraphTensor *tensor)
{
  GraphTensor *now = at->fuser->tensors->pdata[tensor->index];
  return now ? now : tensor;
}

/* ---- weights of 8 bits or 4, activations of 16 ---- */

typedef struct {
  GraphTensor *x, *scale, *zero; /* zero: NULL where nothing is subtracted */
  const GraphBlocks *blocks;     /* NULL: they are the same along k */
} Weights;

static bool is_half(NumberType type)
{
  return type == NUMBER_F16 || type == NUMBER_BF16;
}

/* false: with `*why` if something is against them; without, they are none. */
static bool find_weights(Taking *at, const GraphNode *product, Weights *weights, const char **why)
{
  const GraphTensor *operand = product->inputs[1];
  const GraphNode *node = dequantizing(at, operand);
  *weights = (Weights){.blocks = operand->blocks};
  if (!is_half(product->inputs[0]->type) || (!weights->blocks && !node)) return false;
  const GraphBlocks *blocks = weights->blocks;
  weights->x = as_stored(blocks ? blocks->x : node->inputs[0]);
  if (blocks) weights->x = read_in(at, weights->x, &blocks->x_in);
  if (number_bits(weights->x->type) > 8 || weights->x->type == NUMBER_BOOL) return false;
  bool floats = number_class(weights->x->type) == NUMBER_FLOAT;
  if (blocks) {
    weights->scale = read_in(at, as_stored(blocks->scale), &blocks->scale_in);
    weights->zero = floats || !blocks->zero ? NULL : read_in(at, as_stored(blocks->zero), &blocks->zero_in);
    if (!is_reshaped(weights->x) && !is_reshaped(weights->scale) && !is_reshaped(weights->zero)) return true;
    *why = "they, or their scales or zero points, are reshaped";
    return false;
  }
  double none;
  GraphTensor *zero = node->n_inputs > 2 ? as_stored(node->inputs[2]) : NULL;
  if (zero && ((graph_scalar(zero, &none) && none == 0) || floats)) zero = NULL;
  weights->scale = result_scale(at, product, 1, weights->x, as_stored(node->inputs[1]));
  weights->zero = zero ? result_scale(at, product, 1, weights->x, zero) : NULL;
  if (weights->scale && (!zero || weights->zero)) return true;
  *why = "the scale or zero point varies along k";
  return false;
}

/* true: the product has such weights, taken or not. */
static bool take_weights(Taking *at, GraphNode *product)
{
  Weights weights;
  const char *why = NULL, *name = product->outputs[0]->name;
  bool found = find_weights(at, product, &weights, &why);
  if (found) {
    GraphNode before = *product;
    set_inputs(at, product, (GraphTensor *[]){product->inputs[0], weights.x},
               (GraphTensor *[]){NULL, weights.scale}, weights.zero);
    product->blocks[1] = weights.blocks;
    const Program *program = fuser_program(at->fuser, product, product->outputs[0]);
    ProgramVerdict verdict = fuser_judge_all(at->fuser, &program, 1, true);
    if (verdict.taken) {
      fuser_note(at->fuser, "`%s` multiplies weights of %s, which its kernel widens", name,
                 number_name(weights.x->type));
      return true;
    }
    *product = before;
    why = verdict.why;
  }
  if (why) fuser_note(at->fuser, "`%s` multiplies dequantised weights: %s", name, why);
  return why != NULL;
}

/* ---- both of 8 bits ---- */

/* Do groups along k begin inside of a block of the operand? */
static bool cuts_blocks(const GraphNode *product, unsigned operand, const GraphBlocks *blocks)
{
  if (product->op->id != ONNX_GroupedMatMul || graph_groups(product) != GROUPS_DEPTHS) return false;
  int64_t size = blocks->sizes[(operand == 0) == graph_is_transposed(product, operand) ? 0 : 1];
  return graph_attribute(product, "align")->integer % MAX(1, size) != 0;
}

/* Has the product operands with scales of blocks? They are taken if a family has kernels for them. */
static bool take_blocks(Taking *at, GraphNode *product)
{
  const GraphBlocks *blocks[2] = {product->inputs[0]->blocks, product->inputs[1]->blocks};
  if (!blocks[0] && !blocks[1]) return false;
  const char *name = product->outputs[0]->name;
  if ((blocks[0] && are_reshaped(blocks[0])) || (blocks[1] && are_reshaped(blocks[1]))) {
    fuser_note(at->fuser, "`%s` multiplies dequantised operands: one of them, or its scales, is reshaped",
               name);
    return true;
  }
  if (!blocks[0] || !blocks[1] || blocks[0]->zero || blocks[1]->zero) {
    fuser_note(at->fuser, "`%s` multiplies `%s`, which is no tensor with scales of blocks", name,
               product->inputs[blocks[0] ? 1 : 0]->name);
    return true;
  }
  if (cuts_blocks(product, 0, blocks[0]) || cuts_blocks(product, 1, blocks[1])) {
    fuser_note(at->fuser, "`%s` multiplies dequantised operands: groups begin inside of blocks of scales",
               name);
    return true;
  }
  GraphNode before = *product;
  set_inputs(
      at, product, (GraphTensor *[]){at_hand(at, blocks[0]->x), at_hand(at, blocks[1]->x)},
      (GraphTensor *[]){at_hand(at, as_stored(blocks[0]->scale)), at_hand(at, as_stored(blocks[1]->scale))},
      NULL);
  product->blocks[0] = blocks[0];
  product->blocks[1] = blocks[1];
  const Program *program = fuser_program(at->fuser, product, product->outputs[0]);
  ProgramVerdict verdict = fuser_judge_all(at->fuser, &program, 1, false);
  if (verdict.taken) {
    fuser_note(at->fuser, "`%s` multiplies quantised operands, and each block's sum by its scales", name);
    return true;
  }
  fuser_note(at->fuser, "`%s` multiplies dequantised operands: %s", name, verdict.why);
  *product = before;
  return true;
}

static void take_scales(Taking *at, GraphNode *product)
{
  if (take_weights(at, product) || take_blocks(at, product)) return;
  const GraphNode *from[2];
  GraphTensor *scale[2];
  for (unsigned i = 0; i < 2; i++) {
    from[i] = dequantizer(at, product->inputs[i]);
    if (!from[i]) return;
    scale[i] = result_scale(at, product, i, from[i]->inputs[0], from[i]->inputs[1]);
  }
  const char *name = product->outputs[0]->name;
  if (!multiply_each_other(from[0]->inputs[0]->type, from[1]->inputs[0]->type)) {
    fuser_note(at->fuser, "`%s` multiplies dequantised operands: no product takes %s and %s", name,
               number_name(from[0]->inputs[0]->type), number_name(from[1]->inputs[0]->type));
    return;
  }
  if (!scale[0] || !scale[1]) {
    fuser_note(at->fuser, "`%s` multiplies dequantised operands: the scale `%s` varies along k", name,
               from[scale[0] != NULL]->inputs[1]->name);
    return;
  }
  GraphNode before = *product;
  set_inputs(at, product, (GraphTensor *[]){from[0]->inputs[0], from[1]->inputs[0]}, scale, NULL);
  const Program *program = fuser_program(at->fuser, product, product->outputs[0]);
  ProgramVerdict verdict = fuser_judge_all(at->fuser, &program, 1, false);
  if (verdict.taken) {
    fuser_note(at->fuser, "`%s` multiplies quantised operands, then scales", name);
    return;
  }
  fuser_note(at->fuser, "`%s` multiplies dequantised operands: %s", name, verdict.why);
  *product = before;
}

/* ---- caches of 8 bits ---- */

/* The operand as it is before a node widens it, and its scale; NULL: nobody does, or kernels cannot. */
static GraphTensor *narrow_operand(const Taking *at, GraphTensor *operand, GraphTensor **scale)
{
  const GraphNode *node = at->producers[operand->index];
  *scale = NULL;
  if (!node || operand != node->outputs[0]) return NULL;
  if (node->op->id == ONNX_DequantizeLinear) {
    double none;
    GraphTensor *zero = node->n_inputs > 2 ? node->inputs[2] : NULL;
    if (zero && number_class(zero->type) != NUMBER_FLOAT && !(graph_scalar(zero, &none) && none == 0))
      return NULL;
    *scale = node->inputs[1];
  } else if (node->op->id != ONNX_Cast) {
    return NULL;
  }
  return graph_is_narrow(node->inputs[0]->type) ? node->inputs[0] : NULL;
}

/* VarlenAttention: DequantizeLinear or Cast in front of both keys and values goes into its kernel. */
static void take_caches(Taking *at, GraphNode *node)
{
  const char *name = node->outputs[0]->name;
  GraphTensor *narrow[2], *scales[2];
  for (unsigned i = 0; i < 2; i++) {
    narrow[i] = narrow_operand(at, node->inputs[SEQUENCES_K + i], &scales[i]);
    if (!narrow[i]) return;
    if (scales[i] && graph_scale_beyond(node, scales[i], narrow[i]) >= 0) {
      fuser_note(at->fuser,
                 "keys and values of `%s` are widened first: scale `%s` varies along its dimension %d", name,
                 scales[i]->name, graph_scale_beyond(node, scales[i], narrow[i]));
      return;
    }
  }
  if (narrow[0]->type != narrow[1]->type) return;
  unsigned n = MAX(node->n_inputs, SEQUENCES_V_SCALE + 1);
  GraphTensor **inputs = arena_new_array(at->fuser->arena, GraphTensor *, n);
  memcpy(inputs, node->inputs, node->n_inputs * sizeof *inputs);
  for (unsigned i = 0; i < 2; i++) {
    inputs[SEQUENCES_K + i] = narrow[i];
    inputs[SEQUENCES_K_SCALE + i] = scales[i];
  }
  node->inputs = inputs;
  node->n_inputs = n;
  fuser_note(at->fuser, "keys and values of `%s` are widened in its kernel", name);
}

/* What nobody reads any more goes, from the last node to the first. */
static void drop_unread(Taking *at)
{
  g_autofree unsigned *readers = g_new0(unsigned, at->fuser->tensors->len + 1);
  for (unsigned i = 0; i < at->nodes->len; i++) {
    const GraphNode *node = at->nodes->pdata[i];
    for (unsigned j = 0; j < node->n_inputs; j++)
      if (node->inputs[j]) readers[node->inputs[j]->index]++;
  }
  for (unsigned i = at->nodes->len; i-- > 0;) {
    const GraphNode *node = at->nodes->pdata[i];
    bool needed = false;
    for (unsigned j = 0; j < node->n_outputs && !needed; j++)
      needed = node->outputs[j] && (node->outputs[j]->is_output || readers[node->outputs[j]->index]);
    if (needed) continue;
    for (unsigned j = 0; j < node->n_inputs; j++)
      if (node->inputs[j]) readers[node->inputs[j]->index]--;
    g_ptr_array_remove_index(at->nodes, i);
  }
}

void fusion_take_scales(Fuser *fuser)
{
  GPtrArray *nodes = fuser->live;
  g_autofree GraphNode **producers = g_new0(GraphNode *, fuser->tensors->len + 1);
  Taking at = {fuser, nodes, producers};
  for (unsigned i = 0; i < nodes->len; i++) {
    GraphNode *node = nodes->pdata[i];
    for (unsigned j = 0; j < node->n_outputs; j++)
      if (node->outputs[j]) producers[node->outputs[j]->index] = node;
    if (node->op->id == ONNX_MatMul || node->op->id == ONNX_Gemm || node->op->id == ONNX_GroupedMatMul)
      take_scales(&at, node);
    if (node->op->id == ONNX_VarlenAttention) take_caches(&at, node);
  }
  drop_unread(&at);
}
