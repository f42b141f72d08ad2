/* Types and shapes of every computed tensor. What a faulty node gives has TYPE_UNKNOWN, and what reads that
 * is not reported again. */
#include "generator/front/expand.h"
#include "generator/front/infer_private.h"
#include <math.h>
#include <string.h>

bool infer_refuse(Inference *at, ErrorCode code, const Mark *mark, const char *id, const char *hint,
                  const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  g_autofree char *message = g_strdup_vprintf(format, arguments);
  va_end(arguments);
  error_add(at->error, code, SEVERITY_ERROR, mark, id, hint, "%s", message);
  return false;
}

/* ---- types ---- */

static char *type_list(TypeMask mask)
{
  GString *list = g_string_new(NULL);
  for (unsigned type = 0; type < NUMBER_TYPE_COUNT; type++)
    if (mask >> type & 1) g_string_append_printf(list, "%s%s", list->len ? ", " : "", number_name(type));
  return g_string_free(list, FALSE);
}

/* ONNX's definition admits a type at input i. */
static bool onnx_admits(const GraphNode *node, unsigned i, NumberType type)
{
  return node->onnx && onnx_input(node->onnx, i).types >> onnx_type_number(type) & 1;
}

/* ONNX's definition wants one type for inputs i and j, or nothing is known of it. */
static bool onnx_wants_one_type(const GraphNode *node, unsigned i, unsigned j)
{
  if (!node->onnx) return true;
  char variable = onnx_input(node->onnx, i).variable;
  return variable && variable == onnx_input(node->onnx, j).variable;
}

/* What scales of DequantizeLinear may be besides floats: powers of two. */
#define POWER_TYPES TYPE_BIT(E8M0)

bool infer_check_type(Inference *at, unsigned i, TypeMask mask)
{
  const GraphTensor *input = at->node->inputs[i];
  if (!input || mask >> input->type & 1) return true;
  g_autofree char *list = type_list(mask);
  g_autofree char *hint = g_strdup_printf("it takes %s", list);
  if (onnx_admits(at->node, i, input->type)) {
    at->node->lacks_type = true;
    return infer_refuse(at, ERROR_UNSUPPORTED, &at->node->input_marks[i], "unsupported-type", hint,
                        "%s of %s is not supported: `%s`", at->node->op->name, number_name(input->type),
                        input->name);
  }
  return infer_refuse(at, ERROR_INPUT, &at->node->input_marks[i], "type", hint,
                      "%s does not take %s: `%s` is %s", at->node->op->name, number_name(input->type),
                      input->name, number_name(input->type));
}

/* Elements that share bytes, and powers of two, are read, but no kernel writes them. */
static bool infer_cast_type(Inference *at, NumberType *type)
{
  *type = (NumberType)graph_attribute(at->node, "to")->integer;
  if (!infer_check_type(at, 0, at->node->op->types | OPERATOR_PACKED | POWER_TYPES)) return false;
  if (!((OPERATOR_PACKED | POWER_TYPES) >> *type & 1)) return true;
  return infer_refuse(at, ERROR_UNSUPPORTED, &at->node->mark, "unsupported-type", NULL,
                      "%s to %s is not supported", at->node->op->name, number_name(*type));
}

static bool infer_bit_cast_type(Inference *at, NumberType *type)
{
  const GraphNode *node = at->node;
  *type = (NumberType)graph_attribute(node, "to")->integer;
  if (number_bits(*type) != number_bits(node->inputs[0]->type))
    return infer_refuse(at, ERROR_INPUT, &node->mark, "type", NULL, "`%s` of %s has not as many bits as %s",
                        node->inputs[0]->name, number_name(node->inputs[0]->type), number_name(*type));
  if (!infer_check_type(at, 0, node->op->types)) return false;
  return (node->op->types >> *type & 1) ||
         infer_refuse(at, ERROR_UNSUPPORTED, &node->mark, "unsupported-type", NULL,
                      "%s to %s is not supported", node->op->name, number_name(*type));
}

bool infer_unify(NumberType a, NumberType b, NumberType *type)
{
  bool storage = (a == NUMBER_F32 && b == NUMBER_TF32) || (a == NUMBER_TF32 && b == NUMBER_F32);
  *type = storage ? NUMBER_F32 : a;
  return a == b || storage;
}

/* Inputs first .. have one type of the mask. */
static bool one_type(Inference *at, unsigned first, NumberType *type)
{
  GraphNode *node = at->node;
  const GraphTensor *leader = NULL;
  unsigned led = first;
  for (unsigned i = first; i < node->n_inputs; i++) {
    const GraphTensor *input = node->inputs[i];
    if (!input) continue;
    if (!infer_check_type(at, i, node->op->types)) return false;
    if (!leader) {
      leader = input;
      led = i;
      *type = input->type;
    } else if (!infer_unify(*type, input->type, type)) {
      ErrorCode code = onnx_wants_one_type(node, led, i) ? ERROR_INPUT : ERROR_UNSUPPORTED;
      return infer_refuse(at, code, &node->input_marks[i], "type", "insert a Cast",
                          "%s needs operands of one type: `%s` is %s, `%s` is %s", node->op->name,
                          leader->name, number_name(leader->type), input->name, number_name(input->type));
    }
  }
  return true;
}

/* Factors of a product of integers, which kernels multiply as such. */
static bool check_whole_factors(Inference *at)
{
  static const char *const names[] = {"alpha", "beta"};
  for (unsigned i = 0; i < G_N_ELEMENTS(names); i++) {
    const GraphAttribute *factor = graph_attribute_find(at->node, names[i]);
    if (factor && (factor->number != rint(factor->number) || fabs(factor->number) > INT32_MAX))
      return infer_refuse(at, ERROR_UNSUPPORTED, &factor->mark, "unsupported-attribute",
                          "Cast the result and Mul it",
                          "`%s` of a product of integers that is no integer is not supported", names[i]);
  }
  return true;
}

static bool infer_product_type(Inference *at, NumberType *type)
{
  const NumberType a = at->node->inputs[0]->type, b = at->node->inputs[1]->type;
  for (unsigned i = 0; i < 2; i++)
    if (!infer_check_type(at, i, at->node->op->types)) return false;
  bool bytes = number_bits(a) == 8 && number_bits(b) == 8 && number_class(a) != NUMBER_FLOAT &&
               number_class(b) != NUMBER_FLOAT;
  bool floats = number_is_small_float(a) && number_is_small_float(b);
  if (!bytes && !floats && !infer_unify(a, b, type))
    return infer_refuse(at, ERROR_INPUT, &at->node->input_marks[1], "type", "insert a Cast",
                        "%s needs operands of one type: `%s` is %s, `%s` is %s", at->node->op->name,
                        at->node->inputs[0]->name, number_name(a), at->node->inputs[1]->name, number_name(b));
  if (bytes && !check_whole_factors(at)) return false;
  if (bytes) *type = NUMBER_S32;
  if (floats) *type = NUMBER_F32;
  /* Gemm's C has the result's type; MatMulInteger's zero points those of A and B. */
  for (unsigned i = 2; i < at->node->n_inputs && at->node->op->type_rule == TYPE_RULE_PRODUCT; i++) {
    const GraphTensor *input = at->node->inputs[i];
    bool zero_point = at->node->op->id == ONNX_MatMulInteger;
    NumberType wanted = zero_point ? at->node->inputs[i - 2]->type : *type, ignored;
    if (input && !infer_unify(input->type, wanted, &ignored))
      return infer_refuse(at, ERROR_INPUT, &at->node->input_marks[i], "type", "insert a Cast",
                          "`%s` must be %s, not %s", input->name, number_name(wanted),
                          number_name(input->type));
  }
  return true;
}

static NumberType output_type(const GraphNode *node, NumberType otherwise)
{
  const GraphAttribute *asked = graph_attribute_find(node, "output_dtype");
  return asked && asked->integer != OPERATOR_NO_TYPE ? (NumberType)asked->integer : otherwise;
}

static bool check_result(Inference *at, NumberType type, TypeMask mask)
{
  if (mask >> type & 1) return true;
  g_autofree char *list = type_list(mask);
  g_autofree char *hint = g_strdup_printf("it gives %s", list);
  if (number_is_packed(type)) /* ONNX has results of these */
    return infer_refuse(at, ERROR_UNSUPPORTED, &at->node->mark, "unsupported-type", hint,
                        "%s to %s is not supported", at->node->op->name, number_name(type));
  return infer_refuse(at, ERROR_INPUT, &at->node->mark, "type", hint, "%s does not give %s",
                      at->node->op->name, number_name(type));
}

#define SCALE_TYPES (TYPE_BIT(F32) | TYPE_BIT(F16) | TYPE_BIT(BF16))
#define BYTE_TYPES  (TYPE_BIT(S8) | TYPE_BIT(U8) | TYPE_BIT(E4M3) | TYPE_BIT(E5M2))

/* The zero point, where there is one, has the quantised type. */
static bool check_zero_point(Inference *at, NumberType wanted)
{
  const GraphTensor *zero = at->node->n_inputs > 2 ? at->node->inputs[2] : NULL;
  if (!zero || zero->type == wanted) return true;
  return infer_refuse(at, ERROR_INPUT, &at->node->input_marks[2], "type", NULL,
                      "the zero point `%s` must be %s, not %s", zero->name, number_name(wanted),
                      number_name(zero->type));
}

static bool infer_quantize_type(Inference *at, NumberType *type)
{
  GraphNode *node = at->node;
  const GraphTensor *zero = node->n_inputs > 2 ? node->inputs[2] : NULL;
  *type = output_type(node, zero ? zero->type : NUMBER_U8);
  return infer_check_type(at, 0, node->op->types) && infer_check_type(at, 1, SCALE_TYPES) &&
         check_result(at, *type, BYTE_TYPES) && check_zero_point(at, *type);
}

static bool infer_dequantize_type(Inference *at, NumberType *type)
{
  GraphNode *node = at->node;
  if (!infer_check_type(at, 0, node->op->types) || !infer_check_type(at, 1, SCALE_TYPES | POWER_TYPES))
    return false;
  *type = output_type(node, node->inputs[1]->type);
  return check_result(at, *type, SCALE_TYPES) && check_zero_point(at, node->inputs[0]->type);
}

static bool one_index_type(Inference *at)
{
  GraphNode *node = at->node;
  for (unsigned i = 2; i < node->n_inputs; i++)
    if (node->inputs[i] && node->inputs[i]->type != node->inputs[1]->type)
      return infer_refuse(at, ERROR_INPUT, &node->input_marks[i], "type", NULL,
                          "the indices of %s have one type: `%s` is %s, `%s` is %s", node->op->name,
                          node->inputs[1]->name, number_name(node->inputs[1]->type), node->inputs[i]->name,
                          number_name(node->inputs[i]->type));
  return true;
}

/* Indices at one input; the others have one type, which is the result's. */
static bool infer_type(Inference *at, NumberType *type)
{
  GraphNode *node = at->node;
  *type = NUMBER_F32;
  switch (node->op->type_rule) {
  case TYPE_RULE_SAME: return one_type(at, 0, type);
  case TYPE_RULE_COMPARE: {
    bool ok = one_type(at, 0, type);
    *type = NUMBER_BOOL;
    return ok;
  }
  case TYPE_RULE_FIRST:
    *type = node->inputs[0]->type;
    for (unsigned i = 0; i < node->n_inputs; i++)
      if (!infer_check_type(at, i, i ? node->op->types | OPERATOR_INTEGERS : node->op->types)) return false;
    return true;
  case TYPE_RULE_SELECT: return infer_check_type(at, 0, TYPE_BIT(BOOL)) && one_type(at, 1, type);
  case TYPE_RULE_CAST: return infer_cast_type(at, type);
  case TYPE_RULE_BIT_CAST: return infer_bit_cast_type(at, type);
  case TYPE_RULE_PRODUCT: return infer_product_type(at, type);
  case TYPE_RULE_GROUPED: return infer_product_type(at, type) && infer_check_type(at, 2, TYPE_BIT(S32));
  case TYPE_RULE_GRADIENT: return infer_gradient_type(at, type);
  case TYPE_RULE_SEQUENCES: return infer_sequences_type(at, type);
  case TYPE_RULE_NORM: return one_type(at, 0, type);
  case TYPE_RULE_QUANTIZE: return infer_quantize_type(at, type);
  case TYPE_RULE_DEQUANTIZE: return infer_dequantize_type(at, type);
  case TYPE_RULE_REDUCE:
    *type = node->inputs[0]->type;
    return infer_check_type(at, 0,
                            operator_keeps_order(node->op) ? node->op->types | OPERATOR_PACKED | POWER_TYPES
                                                           : node->op->types) &&
           (node->n_inputs < 2 || infer_check_type(at, 1, TYPE_BIT(S64)));
  case TYPE_RULE_PLACE: *type = NUMBER_S32; return infer_check_type(at, 0, node->op->types);
  case TYPE_RULE_ARG: *type = NUMBER_S64; return infer_check_type(at, 0, node->op->types);
  case TYPE_RULE_PAD:
    *type = node->inputs[0]->type;
    if (node->n_inputs > 1 && !infer_check_type(at, 1, TYPE_BIT(S64))) return false;
    if (node->n_inputs > 3 && !infer_check_type(at, 3, TYPE_BIT(S32) | TYPE_BIT(S64))) return false;
    return infer_check_type(at, 0, node->op->types);
  case TYPE_RULE_SLICE:
    *type = node->inputs[0]->type;
    for (unsigned i = 1; i < node->n_inputs; i++)
      if (!infer_check_type(at, i, TYPE_BIT(S32) | TYPE_BIT(S64))) return false;
    return infer_check_type(at, 0, node->op->types) && one_index_type(at);
  case TYPE_RULE_SCATTER: return infer_scatter_type(at, 1, type);
  case TYPE_RULE_SEGMENTS: return infer_segments_type(at, type);
  case TYPE_RULE_INSERT: return infer_scatter_type(at, 2, type);
  case TYPE_RULE_APPEND: return infer_append_type(at, type);
  case TYPE_RULE_RESAMPLE:
    *type = infer_is_weighted(node) ? NUMBER_F32 : node->inputs[0]->type;
    for (unsigned i = 1; i < node->n_inputs; i++)
      if (!infer_check_type(at, i, i % 2 ? TYPE_BIT(S32) : TYPE_BIT(F32))) return false;
    return infer_check_type(at, 0, node->op->types);
  case TYPE_RULE_LIST: *type = NUMBER_S64; return infer_check_type(at, 0, node->op->types);
  case TYPE_RULE_FUNCTION:
    return builder_check_node_types(at->builder, node) &&
           (!node->n_inputs || !node->inputs[0] || infer_check_type(at, 0, node->op->types));
  }
  return false;
}

/* ---- shapes ---- */

Shape infer_shape_of(const GraphTensor *tensor)
{
  Shape shape = {.rank = tensor->rank};
  memcpy(shape.dims, tensor->shape, sizeof shape.dims);
  return shape;
}

/* Which of two extents broadcasting gives; NULL if they do not fit, or not provably. */
static const Symbolic *broadcast_extent(Inference *at, const Symbolic *a, const Symbolic *b)
{
  if (symbolic_equals(a, 1)) return b;
  if (symbolic_equals(b, 1) || symbolic_same(a, b) || infer_one(at, b)) return a;
  return infer_one(at, a) ? b : infer_same(at, a, b) ? a : NULL;
}

static const char *fit_hint(const Symbolic *a, const Symbolic *b)
{
  bool numbers = symbolic_is_constant(a, NULL) && symbolic_is_constant(b, NULL);
  return numbers ? "dimensions must be equal or 1, counted from the last"
                 : "symbols must be equal for every value: use one symbol for both";
}

/* Merges input i into *shape, which is what the inputs before it gave. */
static bool broadcast_input(Inference *at, unsigned i, Shape *shape)
{
  const GraphTensor *input = at->node->inputs[i];
  Shape wide = {.rank = MAX(shape->rank, input->rank)};
  for (unsigned d = 1; d <= wide.rank; d++) {
    const Symbolic *a = d <= shape->rank ? shape->dims[shape->rank - d] : NULL;
    const Symbolic *b = d <= input->rank ? input->shape[input->rank - d] : NULL;
    const Symbolic *extent = !a ? b : !b ? a : broadcast_extent(at, a, b);
    if (!extent) {
      g_autofree char *left = graph_shape_text(shape->dims, shape->rank);
      g_autofree char *right = graph_shape_text(input->shape, input->rank);
      return infer_refuse(at, ERROR_INPUT, &at->node->input_marks[i], "shape", fit_hint(a, b),
                          "`%s` of shape %s does not broadcast with %s", input->name, right, left);
    }
    wide.dims[wide.rank - d] = extent;
  }
  *shape = wide;
  return true;
}

static bool infer_broadcast(Inference *at, Shape *shape)
{
  *shape = (Shape){0};
  for (unsigned i = 0; i < at->node->n_inputs; i++)
    if (at->node->inputs[i] && !broadcast_input(at, i, shape)) return false;
  return true;
}

/* Input i broadcasts to `shape`, which stays. */
static bool fits(Inference *at, unsigned i, const Shape *shape)
{
  const GraphTensor *input = at->node->inputs[i];
  if (!input) return true;
  bool ok = input->rank <= shape->rank;
  const char *hint = "its rank is too high";
  for (unsigned d = 1; ok && d <= input->rank; d++) {
    const Symbolic *have = input->shape[input->rank - d], *want = shape->dims[shape->rank - d];
    ok = symbolic_equals(have, 1) || infer_same(at, have, want);
    hint = fit_hint(have, want);
  }
  if (ok) return true;
  g_autofree char *have = graph_shape_text(input->shape, input->rank);
  g_autofree char *want = graph_shape_text(shape->dims, shape->rank);
  return infer_refuse(at, ERROR_INPUT, &at->node->input_marks[i], "shape", hint,
                      "`%s` of shape %s does not broadcast to %s", input->name, have, want);
}

static bool infer_clip(Inference *at, Shape *shape)
{
  *shape = infer_shape_of(at->node->inputs[0]);
  for (unsigned i = 1; i < at->node->n_inputs; i++) {
    const GraphTensor *bound = at->node->inputs[i];
    if (!bound || !bound->rank || (bound->rank == 1 && symbolic_equals(bound->shape[0], 1))) continue;
    g_autofree char *text = graph_shape_text(bound->shape, bound->rank);
    return infer_refuse(at, ERROR_INPUT, &at->node->input_marks[i], "shape", NULL,
                        "a bound of Clip is a scalar: `%s` has shape %s", bound->name, text);
  }
  return true;
}

static bool refuse_inner(Inference *at, const Symbolic *a, const Symbolic *b)
{
  const GraphTensor *x = at->node->inputs[0], *y = at->node->inputs[1];
  g_autofree char *x_text = graph_shape_text(x->shape, x->rank),
                  *y_text = graph_shape_text(y->shape, y->rank);
  g_autofree char *a_text = symbolic_text(a), *b_text = symbolic_text(b);
  return infer_refuse(at, ERROR_INPUT, &at->node->input_marks[1], "shape", NULL,
                      "the inner dimensions differ, %s and %s: `%s` is %s, `%s` is %s", a_text, b_text,
                      x->name, x_text, y->name, y_text);
}

/* MatMulInteger: one number, or one for each of the operand's rows (A) or columns (B): a vector, or a matrix
 * of one column (A) or row (B). */
static bool infer_zero_point(Inference *at, unsigned input, const Symbolic *extent)
{
  bool asked = at->node->op->id == ONNX_MatMulInteger && input < at->node->n_inputs;
  const GraphTensor *zero = asked ? at->node->inputs[input] : NULL;
  bool matrices = at->node->inputs[0]->rank > 1 && at->node->inputs[1]->rank > 1;
  bool fits_here = !zero || zero->rank <= 1u + matrices, one = fits_here;
  for (unsigned i = 0; zero && i < zero->rank && fits_here; i++) {
    bool single = symbolic_equals(zero->shape[i], 1), along = zero->rank == 1 || (input == 2) == (i == 0);
    one = one && single;
    fits_here = single || (along && extent && symbolic_same(zero->shape[i], extent));
  }
  if (!fits_here) {
    g_autofree char *text = graph_shape_text(zero->shape, zero->rank);
    return infer_refuse(at, ERROR_INPUT, &at->node->input_marks[input], "shape", NULL,
                        "the zero point `%s` is %s; it may be one number, or one for each %s", zero->name,
                        text, input == 2 ? "row of the left operand" : "column of the right operand");
  }
  if (zero && !one && zero->producer && input == 2)
    return infer_refuse(at, ERROR_UNSUPPORTED, &at->node->input_marks[input], "unsupported-input",
                        "make it an input or constant",
                        "zero points of rows that the graph computes are not supported");
  return true;
}

static bool infer_matmul(Inference *at, Shape *shape)
{
  const GraphTensor *a = at->node->inputs[0], *b = at->node->inputs[1];
  for (unsigned i = 0; i < 2; i++)
    if (!at->node->inputs[i]->rank)
      return infer_refuse(at, ERROR_INPUT, &at->node->input_marks[i], "rank", NULL,
                          "%s does not take scalars: `%s`", at->node->op->name, at->node->inputs[i]->name);
  unsigned row = b->rank > 1 ? b->rank - 2 : 0;
  if (!infer_same(at, a->shape[a->rank - 1], b->shape[row]))
    return refuse_inner(at, a->shape[a->rank - 1], b->shape[row]);
  /* Batches broadcast as if M, N and K were not there. */
  unsigned a_batch = a->rank > 2 ? a->rank - 2 : 0, b_batch = b->rank > 2 ? b->rank - 2 : 0;
  *shape = (Shape){.rank = MAX(a_batch, b_batch)};
  for (unsigned d = 1; d <= shape->rank; d++) {
    const Symbolic *x = d <= a_batch ? a->shape[a_batch - d] : NULL;
    const Symbolic *y = d <= b_batch ? b->shape[b_batch - d] : NULL;
    const Symbolic *extent = !x ? y : !y ? x : broadcast_extent(at, x, y);
    if (!extent) {
      g_autofree char *a_text = graph_shape_text(a->shape, a->rank),
                      *b_text = graph_shape_text(b->shape, b->rank);
      return infer_refuse(at, ERROR_INPUT, &at->node->input_marks[1], "shape", fit_hint(x, y),
                          "the batch dimensions do not broadcast: `%s` is %s, `%s` is %s", a->name, a_text,
                          b->name, b_text);
    }
    shape->dims[shape->rank - d] = extent;
  }
  if (a->rank > 1) shape->dims[shape->rank++] = a->shape[a->rank - 2];
  if (b->rank > 1) shape->dims[shape->rank++] = b->shape[b->rank - 1];
  return infer_zero_point(at, 2, a->rank > 1 ? a->shape[a->rank - 2] : NULL) &&
         infer_zero_point(at, 3, b->rank > 1 ? b->shape[b->rank - 1] : NULL);
}

static bool infer_gemm(Inference *at, Shape *shape)
{
  const GraphTensor *inputs[2] = {at->node->inputs[0], at->node->inputs[1]};
  const bool transposed[2] = {graph_attribute(at->node, "transA")->integer != 0,
                              graph_attribute(at->node, "transB")->integer != 0};
  for (unsigned i = 0; i < 2; i++)
    if (inputs[i]->rank != 2)
      return infer_refuse(at, ERROR_INPUT, &at->node->input_marks[i], "rank", "MatMul takes batches",
                          "Gemm takes matrices: `%s` has rank %u", inputs[i]->name, inputs[i]->rank);
  const Symbolic *k = inputs[0]->shape[!transposed[0]], *b_k = inputs[1]->shape[transposed[1]];
  if (!infer_same(at, k, b_k)) return refuse_inner(at, k, b_k);
  *shape = (Shape){2, {inputs[0]->shape[transposed[0]], inputs[1]->shape[!transposed[1]]}};
  return at->node->n_inputs < 3 || fits(at, 2, shape);
}

/* ---- rows ---- */

bool infer_axis(Inference *at, int64_t axis, unsigned rank, const Mark *mark, unsigned *result)
{
  if (axis < -(int64_t)rank || axis >= (int64_t)rank)
    return infer_refuse(at, ERROR_INPUT, mark, "axis", NULL, "axis %d of a tensor of rank %u", (int)axis,
                        rank);
  *result = (unsigned)(axis < 0 ? axis + rank : axis);
  return true;
}

static uint32_t axes_from(unsigned axis, unsigned rank)
{
  return (1u << rank) - (1u << axis);
}

static bool infer_softmax(Inference *at, Shape *shape)
{
  GraphNode *node = at->node;
  const GraphAttribute *attribute = graph_attribute(node, "axis");
  unsigned axis = 0;
  *shape = infer_shape_of(node->inputs[0]);
  const Mark *mark = attribute->given ? &attribute->mark : &node->input_marks[0];
  if (!infer_axis(at, attribute->integer, shape->rank, mark, &axis)) return false;
  node->axes = node->op->since >= 13 ? 1u << axis : axes_from(axis, shape->rank);
  return true;
}

static bool infer_norm(Inference *at, Shape *shape)
{
  GraphNode *node = at->node;
  const GraphAttribute *attribute = graph_attribute(node, "axis");
  const GraphAttribute *stash = graph_attribute(node, "stash_type");
  unsigned axis = 0;
  *shape = infer_shape_of(node->inputs[0]);
  const Mark *mark = attribute->given ? &attribute->mark : &node->input_marks[0];
  if (!infer_axis(at, attribute->integer, shape->rank, mark, &axis)) return false;
  node->axes = axes_from(axis, shape->rank);
  if (stash->integer != 1)
    return infer_refuse(at, ERROR_UNSUPPORTED, &stash->mark, "unsupported-attribute", "1 is f32",
                        "stash_type %d is not supported", (int)stash->integer);
  for (unsigned i = 1; i < node->n_inputs; i++)
    if (!fits(at, i, shape)) return false;
  return true;
}

/* Numbers of a list; where `open` is NULL, all must be: else it is the first that depends on symbols, or n. */
static const int64_t *numbers_of(Inference *at, const Symbolic *const *values, unsigned n, unsigned *open)
{
  int64_t *items = arena_new_array(at->graph->arena, int64_t, n);
  *open = n;
  for (unsigned i = n; i-- > 0;)
    if (!symbolic_is_constant(values[i], &items[i])) *open = i;
  return items;
}

static bool refuse_list(Inference *at, const ListArgument *argument, const GraphTensor *input,
                        const Symbolic *open)
{
  const Mark *mark = &at->node->input_marks[argument->input];
  if (!open)
    return infer_refuse(
        at, ERROR_UNSUPPORTED, mark, argument->what, "put them under `constants`, with `data`",
        "%s that are not a constant of the description are not supported: `%s`", argument->what, input->name);
  g_autofree char *text = symbolic_text(open);
  return infer_refuse(at, ERROR_UNSUPPORTED, mark, argument->what, "bind the symbol: --dim",
                      "%s that depend on symbols are not supported: `%s` holds %s", argument->what,
                      input->name, text);
}

bool infer_list(Inference *at, const ListArgument *argument, List *list)
{
  GraphNode *node = at->node;
  *list = (List){.mark = node->mark};
  if (operator_attribute_index(node->op, argument->name) >= 0) {
    const GraphAttribute *attribute = graph_attribute(node, argument->name);
    *list = (List){attribute->given, attribute->integers, NULL, attribute->n, attribute->mark};
    return true;
  }
  GraphTensor *input = node->n_inputs > argument->input ? node->inputs[argument->input] : NULL;
  if (!input) return true;
  const Mark *mark = &node->input_marks[argument->input];
  if (!input->values) return refuse_list(at, argument, input, NULL);
  bool number = at->builder->trusting && !strcmp(argument->name, "axes") && !input->rank; /* in models */
  if (input->rank != 1 && !number)
    return infer_refuse(at, ERROR_INPUT, mark, "rank", NULL, "%s are a list: `%s` has rank %u",
                        argument->what, input->name, input->rank);
  unsigned n = (unsigned)input->n_elements, open;
  *list = (List){true, numbers_of(at, input->values, n, &open), input->values, n, *mark};
  if (open < n && !argument->symbolic) return refuse_list(at, argument, input, input->values[open]);
  return true;
}

/* The shape of input 0 without the node's axes, or with 1 there. */
static void give_reduced(Inference *at, Shape *shape)
{
  const GraphNode *node = at->node;
  const GraphTensor *input = node->inputs[0];
  *shape = (Shape){0};
  for (unsigned d = 0; d < input->rank; d++) {
    bool reduced = node->axes >> d & 1;
    if (reduced && !node->keepdims) continue;
    shape->dims[shape->rank++] = reduced ? symbolic_constant(at->graph->arena, 1) : input->shape[d];
  }
}

static bool infer_reduce(Inference *at, Shape *shape)
{
  GraphNode *node = at->node;
  const GraphTensor *input = node->inputs[0];
  unsigned axis = 0;
  List axes;
  if (!infer_list(at, &(ListArgument){"axes", 1, "axes"}, &axes)) return false;
  bool has_noop = operator_attribute_index(node->op, "noop_with_empty_axes") >= 0;
  bool noop = has_noop && graph_attribute(node, "noop_with_empty_axes")->integer;
  node->axes = axes.n || noop ? 0 : axes_from(0, input->rank);
  node->keepdims = graph_attribute(node, "keepdims")->integer != 0;
  for (unsigned i = 0; i < axes.n; i++) {
    if (!infer_axis(at, axes.items[i], input->rank, &axes.mark, &axis)) return false;
    if (node->axes >> axis & 1)
      return infer_refuse(at, ERROR_INPUT, &axes.mark, "axis", NULL, "axis %u is named twice", axis);
    node->axes |= 1u << axis;
  }
  give_reduced(at, shape);
  return true;
}

static bool read_one_axis(Inference *at)
{
  GraphNode *node = at->node;
  const GraphAttribute *attribute = graph_attribute(node, "axis");
  unsigned axis = 0;
  const Mark *mark = attribute->given ? &attribute->mark : &node->input_marks[0];
  if (!infer_axis(at, attribute->integer, node->inputs[0]->rank, mark, &axis)) return false;
  node->axes = 1u << axis;
  return true;
}

/* `dims` dimensions from `axis` on, as one. */
static bool read_joined_axes(Inference *at)
{
  GraphNode *node = at->node;
  const GraphAttribute *dims = graph_attribute_find(node, "dims");
  if (!read_one_axis(at)) return false;
  unsigned axis = (unsigned)__builtin_ctz(node->axes), rank = node->inputs[0]->rank;
  if (dims && (dims->integer < 1 || dims->integer > (int64_t)(rank - axis)))
    return infer_refuse(at, ERROR_INPUT, &dims->mark, "dims", NULL,
                        "`dims` is 1 to %u of `%s`, which has rank %u, not %" G_GINT64_FORMAT, rank - axis,
                        node->inputs[0]->name, rank, dims->integer);
  if (dims) node->axes = ((1u << dims->integer) - 1) << axis;
  return true;
}

static bool infer_place(Inference *at, Shape *shape)
{
  *shape = infer_shape_of(at->node->inputs[0]);
  return read_joined_axes(at);
}

static bool infer_arg(Inference *at, Shape *shape)
{
  GraphNode *node = at->node;
  if (!read_joined_axes(at)) return false;
  node->keepdims = graph_attribute(node, "keepdims")->integer != 0;
  give_reduced(at, shape);
  return true;
}

/* Scale and zero point: one element; a vector along `axis`; or (our extension) of the operand's rank,
 * broadcast to it. node->axes has the axis of vectors. */
static bool infer_quantize(Inference *at, Shape *shape)
{
  GraphNode *node = at->node;
  *shape = infer_shape_of(node->inputs[0]);
  const GraphAttribute *named = graph_attribute_find(node, "axis");
  for (unsigned i = 1; i < node->n_inputs; i++) {
    const GraphTensor *scale = node->inputs[i];
    unsigned axis = 0;
    if (!scale || graph_has_one_element(scale) || scale->rank != 1 || !named) {
      if (!fits(at, i, shape)) return false;
      continue;
    }
    if (!infer_axis(at, named->integer, shape->rank, &named->mark, &axis)) return false;
    if (!symbolic_same(scale->shape[0], shape->dims[axis])) {
      g_autofree char *have = symbolic_text(scale->shape[0]), *want = symbolic_text(shape->dims[axis]);
      return infer_refuse(at, ERROR_INPUT, &node->input_marks[i], "shape",
                          "attribute `axis` names the dimension",
                          "`%s` has %s elements, dimension %u of `%s` %s", scale->name, have, axis,
                          node->inputs[0]->name, want);
    }
    node->axes = 1u << axis;
  }
  return true;
}

static bool infer_shape(Inference *at, Shape *shape)
{
  switch (at->node->op->shape_rule) {
  case SHAPE_RULE_BROADCAST: return infer_broadcast(at, shape);
  case SHAPE_RULE_UNIDIRECTIONAL: *shape = infer_shape_of(at->node->inputs[0]); return fits(at, 1, shape);
  case SHAPE_RULE_CLIP: return infer_clip(at, shape);
  case SHAPE_RULE_MATMUL: return infer_matmul(at, shape);
  case SHAPE_RULE_GEMM: return infer_gemm(at, shape);
  case SHAPE_RULE_GROUPED: return infer_grouped(at, shape);
  case SHAPE_RULE_GRADIENT: return infer_gradient(at, shape);
  case SHAPE_RULE_SEQUENCES: return infer_sequences(at, shape);
  case SHAPE_RULE_SAME: return infer_softmax(at, shape);
  case SHAPE_RULE_NORM: return infer_norm(at, shape);
  case SHAPE_RULE_REDUCE: return infer_reduce(at, shape);
  case SHAPE_RULE_PLACE: return infer_place(at, shape);
  case SHAPE_RULE_ARG: return infer_arg(at, shape);
  case SHAPE_RULE_QUANTIZE: return infer_quantize(at, shape);
  case SHAPE_RULE_SPLIT: return infer_split(at, shape);
  case SHAPE_RULE_TRANSPOSE: return infer_transpose(at, shape);
  case SHAPE_RULE_SLICE: return infer_slice(at, shape);
  case SHAPE_RULE_CONCAT: return infer_concat(at, shape);
  case SHAPE_RULE_RESHAPE: return infer_reshape(at, shape);
  case SHAPE_RULE_FLATTEN: return infer_flatten(at, shape);
  case SHAPE_RULE_SQUEEZE: return infer_squeeze(at, shape);
  case SHAPE_RULE_UNSQUEEZE: return infer_unsqueeze(at, shape);
  case SHAPE_RULE_EXPAND: return infer_expand(at, shape);
  case SHAPE_RULE_GATHER: return infer_gather(at, shape);
  case SHAPE_RULE_GATHER_ELEMENTS: return infer_gather_elements(at, shape);
  case SHAPE_RULE_PAD: return infer_pad(at, shape);
  case SHAPE_RULE_TILE: return infer_tile(at, shape);
  case SHAPE_RULE_SCAN: return infer_scan(at, shape);
  case SHAPE_RULE_TOP: return infer_top(at, shape);
  case SHAPE_RULE_TALLIES: return infer_tallies(at, shape);
  case SHAPE_RULE_PLACES: return infer_places(at, shape);
  case SHAPE_RULE_TAKEN: return infer_taken(at, shape);
  case SHAPE_RULE_TRILU: return infer_trilu(at, shape);
  case SHAPE_RULE_MASK: return infer_mask(at, shape);
  case SHAPE_RULE_SCATTER_ELEMENTS: return infer_scatter_elements(at, shape);
  case SHAPE_RULE_SCATTER_ND: return infer_scatter_nd(at, shape);
  case SHAPE_RULE_SEGMENTS: return infer_segments(at, shape);
  case SHAPE_RULE_GATHER_ND: return infer_gather_nd(at, shape);
  case SHAPE_RULE_INSERT: return infer_tensor_scatter(at, shape);
  case SHAPE_RULE_APPEND: return infer_append(at, shape);
  case SHAPE_RULE_REVERSE: return infer_reverse_sequence(at, shape);
  case SHAPE_RULE_WINDOW: return infer_window(at, shape);
  case SHAPE_RULE_RESAMPLE: return infer_resample(at, shape);
  case SHAPE_RULE_SHAPE: return infer_shape_list(at, shape);
  case SHAPE_RULE_SIZE: *shape = (Shape){0}; return true;
  case SHAPE_RULE_LOOP: return infer_loop(at, shape);
  case SHAPE_RULE_FUNCTION: break;
  }
  return false;
}

/* ---- nodes ---- */

static void give(Inference *at, GraphTensor *tensor, NumberType type, const Shape *shape)
{
  if (!tensor) return;
  tensor->type = type;
  tensor->rank = shape->rank;
  memcpy(tensor->shape, shape->dims, sizeof shape->dims);
  tensor->align = (unsigned)number_bytes_of(type, 1);
  graph_row_major(at->graph->arena, tensor);
}

/* Mean and inverse standard deviation: the normalised axes become 1, in f32. */
static Shape statistics_shape(Inference *at, const Shape *shape)
{
  Shape result = *shape;
  for (unsigned d = 0; d < shape->rank; d++)
    if (at->node->axes >> d & 1) result.dims[d] = symbolic_constant(at->graph->arena, 1);
  return result;
}

/* The node has all its inputs and their types are known; where not, a fault was reported. */
static bool is_complete(const GraphNode *node)
{
  for (unsigned i = 0; i < node->n_inputs; i++)
    if (node->inputs[i] && node->inputs[i]->type == TYPE_UNKNOWN) return false;
  for (unsigned i = 0; i < node->op->min_inputs; i++)
    if (!node->inputs[i] && builder_requires(node, i)) return false;
  return true;
}

/* A scale for each block of elements along an axis, elements that share bytes, scales that are powers of two: expanded as functions
 * are. */
static bool has_blocks(const GraphNode *node)
{
  if (node->op->shape_rule != SHAPE_RULE_QUANTIZE) return false;
  if (number_is_packed(node->inputs[0]->type) || node->inputs[1]->type == NUMBER_E8M0) return true;
  const GraphAttribute *blocks = graph_attribute_find(node, "block_size");
  const GraphAttribute *shape = graph_attribute_find(node, "block_shape");
  return (blocks && blocks->integer) || (shape && shape->given);
}

static NumberType index_type(const GraphNode *node)
{
  return graph_attribute(node, "wide")->integer ? NUMBER_S64 : NUMBER_S32;
}

bool infer_node(Inference *at)
{
  GraphNode *node = at->node;
  NumberType type;
  Shape shape = {0};
  if (!is_complete(node)) return true;
  infer_read_known(at, node->op->class_ == OPERATOR_VIEW || node->op->id == ONNX_Mask ||
                           node->op->id == ONNX_Tile);
  if (!infer_type(at, &type)) return false;
  if (node->op->class_ == OPERATOR_FUNCTION || has_blocks(node)) return expand_function(at);
  if (!infer_shape(at, &shape)) return false;
  const SymbolicFacts *facts = &at->graph->facts;
  if (expand_scatters_parts(node, facts) || expand_scatters_elements(node, facts) ||
      expand_inserts_in_place(node) || expand_clears_rows(node) || expand_reduces_number(node))
    return expand_function(at);
  if (shape.rank > GRAPH_MAX_RANK)
    return infer_refuse(at, ERROR_UNSUPPORTED, &node->mark, "rank", NULL, "rank %u is not supported",
                        shape.rank);
  give(at, node->outputs[0], type, &shape);
  bool parts = node->op->shape_rule == SHAPE_RULE_SPLIT, windows = node->op->shape_rule == SHAPE_RULE_WINDOW,
       places = node->op->shape_rule == SHAPE_RULE_TOP, caches = node->op->shape_rule == SHAPE_RULE_APPEND;
  NumberType further = parts || caches ? type : windows ? NUMBER_S64 : places ? index_type(node) : NUMBER_F32;
  Shape other = parts || windows || places || caches ? shape : statistics_shape(at, &shape);
  if (node->op->shape_rule == SHAPE_RULE_SEQUENCES) other.rank--; /* one value of each row and head */
  bool ordered = node->op->shape_rule == SHAPE_RULE_PLACES || node->op->shape_rule == SHAPE_RULE_TAKEN,
       gradient = node->op->shape_rule == SHAPE_RULE_GRADIENT;
  for (unsigned i = 1; i < node->n_outputs; i++) {
    if (ordered) infer_places_further(at, i, &other);
    if (ordered) further = NUMBER_S32;
    if (gradient) infer_gradient_further(at, i, &further, &other);
    if (parts) other.dims[__builtin_ctz(node->axes)] = node->sizes[i];
    give(at, node->outputs[i], further, &other);
  }
  infer_known(at);
  g_ptr_array_add(at->builder->expanded, node);
  return true;
}

bool builder_infer(GraphBuilder *b)
{
  bool ok = true;
  b->n_written = b->constants->len;
  for (unsigned i = 0; i < b->constants->len; i++)
    graph_know_integers(b->graph->arena, b->constants->pdata[i]);
  builder_take_constants(b);
  infer_take_offers(b);
  for (unsigned i = 0; i < b->nodes->len; i++) {
    Inference at = {b->graph, b->nodes->pdata[i], b->error, b};
    if (!infer_node(&at)) ok = false;
  }
  ok = ok && infer_settle_memory(b);
  if (ok) infer_known_outputs(b);
  return ok;
}
