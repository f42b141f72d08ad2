/* Rewrite read_rotation: positions as exporters write them, where a head's halves are exchanged in memory,
 *
 *   Add(Mul(x, c), Mul(Concat(Neg(x2), x1), s))     x1, x2: halves of x along its last dimension
 *
 * become what is computed of two elements that are read once, and stored where the result has them:
 *
 *   Concat(x1 c1 - x2 s1, x2 c2 + x1 s2)
 *
 * and where only a part of a head is turned, so that a Concat with the rest follows, parts of that Concat. */
#include "generator/fusion/attention.h"

typedef struct {
  AttentionPattern *at;
  GraphNode *add;
  GraphTensor *x, *first, *second, *cosine, *sine;
  const Symbolic *half;
  guint place; /* of the next node */
} Rotation;

static GraphNode *producer(const AttentionPattern *at, const GraphTensor *tensor, OperatorId op)
{
  GraphNode *node = tensor ? at->producers[tensor->index] : NULL;
  return node && node->op->id == op ? node : NULL;
}

static bool is_alone(const AttentionPattern *at, const GraphTensor *tensor)
{
  return !tensor->is_output && at->readers[tensor->index]->len == 1;
}

/* ---- what is written ---- */

/* Is the tensor a half of `x`, from its first element on or behind that? */
static bool is_half(const Rotation *r, const GraphTensor *tensor, bool behind)
{
  const GraphNode *slice = producer(r->at, tensor, ONNX_Slice), *split = producer(r->at, tensor, ONNX_Split);
  unsigned last = r->x->rank - 1;
  if (tensor->rank != r->x->rank || !symbolic_same(tensor->shape[last], r->half)) return false;
  if (split)
    return split->inputs[0] == r->x && split->axes == 1u << last && split->n_outputs == 2 &&
           split->outputs[behind] == tensor;
  if (!slice || slice->inputs[0] != r->x || slice->steps[last] != 1) return false;
  for (unsigned d = 0; d < last; d++)
    if (slice->steps[d] != 1 || !symbolic_same(tensor->shape[d], r->x->shape[d])) return false;
  return behind ? symbolic_same(slice->firsts[last], r->half) : symbolic_equals(slice->firsts[last], 0);
}

/* Concat(Neg(x2), x1) of r->x. */
static bool is_turned(Rotation *r, const GraphTensor *tensor)
{
  const GraphNode *concat = producer(r->at, tensor, ONNX_Concat);
  unsigned last = r->x->rank - 1;
  if (!concat || concat->n_inputs != 2 || concat->axes != 1u << last || !is_alone(r->at, tensor))
    return false;
  const GraphNode *negative = producer(r->at, concat->inputs[0], ONNX_Neg);
  if (!negative || !is_alone(r->at, concat->inputs[0])) return false;
  r->second = negative->inputs[0];
  r->first = concat->inputs[1];
  return is_half(r, r->second, true) && is_half(r, r->first, false);
}

/* The factor of the angles: as long as x in its last dimension. */
static bool is_angle(const Rotation *r, const GraphTensor *tensor)
{
  unsigned rank = tensor->rank;
  return rank && rank <= r->x->rank && tensor->type == r->x->type && !tensor->n_parts &&
         symbolic_same(tensor->shape[rank - 1], r->x->shape[r->x->rank - 1]);
}

static bool read_sides(Rotation *r, const GraphNode *plain, const GraphNode *turned)
{
  for (unsigned i = 0; i < 4; i++) {
    r->x = plain->inputs[i & 1];
    r->cosine = plain->inputs[1 - (i & 1)];
    r->sine = turned->inputs[1 - (i >> 1)];
    int64_t extent;
    if (!r->x->rank || !graph_same_shape(r->x, r->add->outputs[0]) ||
        r->x->type != r->add->outputs[0]->type ||
        !symbolic_is_constant(r->x->shape[r->x->rank - 1], &extent) || extent % 2)
      continue;
    r->half = symbolic_constant(r->at->fuser->arena, extent / 2);
    if (is_angle(r, r->cosine) && is_angle(r, r->sine) && is_turned(r, turned->inputs[i >> 1])) return true;
  }
  return false;
}

static bool find_rotation(Rotation *r)
{
  for (unsigned i = 0; i < 2; i++) {
    const GraphNode *plain = producer(r->at, r->add->inputs[i], ONNX_Mul),
                    *turned = producer(r->at, r->add->inputs[1 - i], ONNX_Mul);
    if (plain && turned && plain != turned && is_alone(r->at, r->add->inputs[i]) &&
        is_alone(r->at, r->add->inputs[1 - i]) && read_sides(r, plain, turned))
      return true;
  }
  return false;
}

/* ---- what is computed ---- */

/* A half of a tensor, or of what has the shape of one. */
static GraphTensor *half_of(Rotation *r, const GraphTensor *like)
{
  Fuser *fuser = r->at->fuser;
  GraphTensor *tensor = arena_new_object(fuser->arena, GraphTensor);
  const Symbolic *stride = symbolic_constant(fuser->arena, 1);
  *tensor = (GraphTensor){
      .name = arena_printf(fuser->arena, "%s.half%u", r->add->outputs[0]->name, fuser->tensors->len),
      .kind = TENSOR_COMPUTED,
      .index = fuser->tensors->len,
      .type = like->type,
      .rank = like->rank,
      .align = (unsigned)number_bytes_of(like->type, 1),
      .n_consumers = 1,
      .mark = r->add->mark};
  for (unsigned d = like->rank; d-- > 0;) {
    tensor->shape[d] = d + 1 == like->rank ? r->half : like->shape[d];
    tensor->strides[d] = stride;
    stride = symbolic_mul(fuser->arena, stride, tensor->shape[d]);
  }
  g_ptr_array_add(fuser->tensors, tensor);
  return tensor;
}

static GraphNode *add_node(Rotation *r, OperatorId op, GraphTensor *a, GraphTensor *b, GraphTensor *first,
                           GraphTensor *second)
{
  Arena *arena = r->at->fuser->arena;
  GraphNode *node = arena_new_object(arena, GraphNode);
  GraphTensor *const inputs[] = {a, b}, *const outputs[] = {first, second};
  *node = (GraphNode){.op = operator_of(op),
                      .name = "",
                      .n_inputs = b ? 2 : 1,
                      .n_outputs = second ? 2 : 1,
                      .inputs = arena_memdup(arena, inputs, sizeof inputs),
                      .outputs = arena_memdup(arena, outputs, sizeof outputs),
                      .mark = r->add->mark};
  node->attributes = arena_new_array(arena, GraphAttribute, node->op->n_attributes + 1);
  for (unsigned i = 0; i < node->n_outputs; i++)
    node->outputs[i]->producer = node;
  g_ptr_array_insert(r->at->fuser->live, (gint)r->place++, node);
  return node;
}

static void split_angle(Rotation *r, GraphTensor *angle, GraphTensor **halves)
{
  halves[0] = half_of(r, angle);
  halves[1] = half_of(r, angle);
  GraphNode *split = add_node(r, ONNX_Split, angle, NULL, halves[0], halves[1]);
  const Symbolic *const sizes[] = {r->half, r->half};
  split->axes = 1u << (angle->rank - 1);
  split->sizes = arena_memdup(r->at->fuser->arena, sizes, sizeof sizes);
}

/* a x + b y, or a x - b y. */
static GraphTensor *combined(Rotation *r, OperatorId op, GraphTensor *a, GraphTensor *x, GraphTensor *b,
                             GraphTensor *y)
{
  GraphTensor *left = half_of(r, r->x), *right = half_of(r, r->x), *result = half_of(r, r->x);
  add_node(r, ONNX_Mul, a, x, left, NULL);
  add_node(r, ONNX_Mul, b, y, right, NULL);
  add_node(r, op, left, right, result, NULL);
  return result;
}

/* The Concat along the same dimension that alone reads what is turned; NULL: it is otherwise. */
static GraphNode *joined_with_rest(const Rotation *r)
{
  const GraphTensor *turned = r->add->outputs[0];
  if (!is_alone(r->at, turned)) return NULL;
  GraphNode *reader = r->at->readers[turned->index]->pdata[0];
  return reader->op->id == ONNX_Concat && reader->axes == 1u << (turned->rank - 1) ? reader : NULL;
}

static void give_halves(Rotation *r, GraphNode *concat, GraphTensor *real, GraphTensor *imaginary)
{
  GraphTensor **inputs = arena_new_array(r->at->fuser->arena, GraphTensor *, 2 * concat->n_inputs);
  unsigned n = 0;
  for (unsigned i = 0; i < concat->n_inputs; i++) {
    bool both = concat->inputs[i] == r->add->outputs[0];
    inputs[n++] = both ? real : concat->inputs[i];
    if (both) inputs[n++] = imaginary;
  }
  concat->inputs = inputs;
  concat->n_inputs = n;
}

static void rotate(Rotation *r)
{
  GraphTensor *cosines[2], *sines[2];
  g_ptr_array_find(r->at->fuser->live, r->add, &r->place);
  split_angle(r, r->cosine, cosines);
  split_angle(r, r->sine, sines);
  GraphTensor *real = combined(r, ONNX_Sub, r->first, cosines[0], r->second, sines[0]),
              *imaginary = combined(r, ONNX_Add, r->second, cosines[1], r->first, sines[1]);
  GraphNode *concat = joined_with_rest(r);
  if (concat) {
    give_halves(r, concat, real, imaginary);
  } else {
    GraphTensor *turned = fuser_own_tensor(r->at->fuser, r->add->outputs[0]);
    concat = add_node(r, ONNX_Concat, real, imaginary, turned, NULL);
    concat->axes = 1u << (r->x->rank - 1);
  }
  g_ptr_array_remove(r->at->fuser->live, r->add);
  fuser_note(r->at->fuser, "`%s` is `%s` with its halves turned", r->add->outputs[0]->name, r->x->name);
}

static void read_rotations(AttentionPattern *at)
{
  g_autoptr(GPtrArray) nodes = g_ptr_array_copy(at->fuser->live, NULL, NULL);
  for (unsigned i = 0; i < nodes->len; i++) {
    Rotation r = {.at = at, .add = nodes->pdata[i]};
    if (r.add->op->id == ONNX_Add && r.add->n_inputs == 2 && find_rotation(&r)) rotate(&r);
  }
}

void fusion_read_rotation(Fuser *fuser)
{
  attention_visit_nodes(fuser, read_rotations);
  fusion_drop_unread(fuser);
}
