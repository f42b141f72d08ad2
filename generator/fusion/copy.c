/* Copies of tensors, which nodes of operator Identity make: below all that inserts some. */
#include "generator/fusion/private.h"
#include <string.h>

GraphTensor *fuser_make_copy(Fuser *fuser, const GraphNode *reader, const GraphTensor *source,
                             const Symbolic *const *shape, unsigned rank, unsigned inner, unsigned multiple)
{
  Arena *arena = fuser->arena;
  GraphTensor *copy = arena_new_object(arena, GraphTensor);
  /* what is stored as tf32 is rounded to it; rows are computed in f32 */
  bool widens = source->type == NUMBER_TF32 && reader->op->class_ == OPERATOR_ROW;
  *copy = (GraphTensor){.name = arena_printf(arena, "%s.copy%u", source->name, fuser->tensors->len),
                        .kind = TENSOR_COMPUTED,
                        .index = fuser->tensors->len,
                        .type = widens ? NUMBER_F32 : source->type,
                        .rank = rank,
                        .align = number_bytes(source->type),
                        .mark = reader->mark};
  memcpy(copy->shape, shape, rank * sizeof *shape);
  const Symbolic *stride = rank ? shape[inner] : NULL, *step = symbolic_constant(arena, multiple);
  if (multiple > 1) {
    stride = symbolic_mul(arena, step, symbolic_ceil_div(arena, stride, step));
    copy->align = multiple * number_bytes(source->type);
  }
  if (rank) copy->strides[inner] = symbolic_constant(arena, 1);
  for (unsigned i = rank; i-- > 0;) {
    if (i == inner) continue;
    copy->strides[i] = stride;
    stride = symbolic_mul(arena, stride, shape[i]);
  }
  return copy;
}

GraphTensor *fuser_new_tensor(Fuser *fuser, const char *name, NumberType type, Mark mark,
                              const Symbolic *const *shape, unsigned rank)
{
  GraphTensor *tensor = arena_new_object(fuser->arena, GraphTensor);
  const Symbolic *stride = symbolic_constant(fuser->arena, 1);
  *tensor = (GraphTensor){.name = name,
                          .kind = TENSOR_COMPUTED,
                          .index = fuser->tensors->len,
                          .type = type,
                          .rank = rank,
                          .align = (unsigned)number_bytes_of(type, 1),
                          .n_consumers = 2, /* who counts them asks for one */
                          .mark = mark};
  for (unsigned d = rank; d-- > 0;) {
    tensor->shape[d] = shape[d];
    tensor->strides[d] = stride;
    stride = symbolic_mul(fuser->arena, stride, shape[d]);
  }
  g_ptr_array_add(fuser->tensors, tensor);
  return tensor;
}

GraphTensor *fuser_new_number(Fuser *fuser, NumberType type, double value)
{
  void *data = arena_alloc(fuser->arena, (unsigned)number_bytes_of(type, 1));
  GraphTensor *tensor = arena_new_object(fuser->arena, GraphTensor);
  number_from_double(type, value, false, data);
  *tensor = (GraphTensor){.name = "count",
                          .kind = TENSOR_CONSTANT,
                          .index = fuser->tensors->len,
                          .type = type,
                          .align = (unsigned)number_bytes_of(type, 1),
                          .data = data,
                          .n_elements = 1};
  g_ptr_array_add(fuser->tensors, tensor);
  return tensor;
}

GraphAttribute *fuser_default_attributes(Fuser *fuser, const Operator *op)
{
  GraphAttribute *attributes = arena_new_array(fuser->arena, GraphAttribute, op->n_attributes + 1);
  for (unsigned i = 0; i < op->n_attributes; i++)
    attributes[i] = (GraphAttribute){.integer = op->attributes[i].integer,
                                     .number = op->attributes[i].number,
                                     .text = op->attributes[i].text};
  return attributes;
}

void fuser_insert_before(Fuser *fuser, const GraphNode *next, GraphNode *node)
{
  guint place = 0;
  g_ptr_array_find(fuser->live, next, &place);
  g_ptr_array_insert(fuser->live, (gint)place, node);
}

GraphNode *fuser_copy_node(Fuser *fuser, const GraphNode *for_, GraphTensor *from, GraphTensor *to)
{
  Arena *arena = fuser->arena;
  GraphNode *copy = arena_new_object(arena, GraphNode);
  *copy = (GraphNode){
      .op = operator_of(ONNX_Identity), .name = "", .n_inputs = 1, .n_outputs = 1, .mark = for_->mark};
  copy->inputs = arena_memdup(arena, &from, sizeof from);
  copy->outputs = arena_memdup(arena, &to, sizeof to);
  return copy;
}

void fuser_insert_copy(Fuser *fuser, const GraphNode *reader, GraphTensor *source, GraphTensor *copy,
                       const char *why)
{
  /* both operands of a product may be views of one tensor, and both were made before one was inserted */
  for (unsigned i = 0; i < fuser->tensors->len; i++)
    if (!strcmp(((const GraphTensor *)fuser->tensors->pdata[i])->name, copy->name))
      copy->name = arena_printf(fuser->arena, "%s.copy%u", source->name, fuser->tensors->len);
  g_ptr_array_add(fuser->tensors, copy);
  GraphNode *node = fuser_copy_node(fuser, reader, source, copy);
  copy->producer = node;
  node->index = fuser->nodes->len;
  g_ptr_array_add(fuser->nodes, node);
  fuser_note(fuser, "`%s` is copied for %s: %s", source->name, reader->op->name, why);
}
