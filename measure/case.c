/* A case: its graph with every dimension bound, what it moves and computes. */
#include "generator/front/append.h"
#include "generator/front/gradient.h"
#include "generator/front/groups.h"
#include "generator/front/sequences.h"
#include "measure/bench.h"
#include <math.h>
#include <string.h>

#define MASK_REACH 8 /* nodes between an attention's products and its mask: scale, softcap, casts, softmax */

static GraphBinding *parse_bindings(BenchCase *c, const char *const *texts, unsigned *n, GError **error)
{
  unsigned count = texts ? g_strv_length((char **)texts) : 0;
  GraphBinding *bindings = arena_new_array(c->arena, GraphBinding, count);
  for (*n = 0; *n < count; (*n)++)
    if (!graph_binding_parse(c->arena, texts[*n], &bindings[*n], error)) return NULL;
  return bindings;
}

static bool pick_constants(BenchCase *c, const char *const *names, GError **error)
{
  c->constants = arena_new_array(c->arena, GraphBinding, c->n_bindings);
  for (; names && *names; names++) {
    unsigned i = 0;
    while (i < c->n_bindings && strcmp(c->bindings[i].name, *names))
      i++;
    if (i == c->n_bindings) {
      error_set(error, ERROR_INPUT, NULL, "unbound-symbol", NULL, "%s is to be a constant and has no value",
                *names);
      return false;
    }
    c->constants[c->n_constants++] = c->bindings[i];
  }
  return true;
}

static int64_t number(const Symbolic *expression)
{
  int64_t value = 0;
  symbolic_is_constant(expression, &value);
  return value;
}

static double elements(const GraphTensor *tensor)
{
  double n = 1;
  for (unsigned i = 0; i < tensor->rank; i++)
    n *= (double)number(tensor->shape[i]);
  return n;
}

static bool check_bound(const Graph *graph, GError **error)
{
  for (unsigned i = 0; i < graph->n_dims; i++) {
    const GraphDim *dim = &graph->dims[i];
    if (dim->bound || dim->min == dim->max) continue;
    g_autofree char *hint = g_strdup_printf("--dim %s=VALUE binds it", dim->name);
    error_set(error, ERROR_INPUT, &dim->mark, "unbound-symbol", hint, "dimension %s of %s has no value",
              dim->name, graph->name);
    return false;
  }
  return true;
}

/* ---- arithmetic ---- */

static const GraphNode *dequantizer(const GraphTensor *tensor)
{
  const GraphNode *node = tensor->producer;
  if (!node || strcmp(node->op->name, "DequantizeLinear") || (node->n_inputs > 2 && node->inputs[2]))
    return NULL;
  const GraphTensor *scale = node->inputs[1];
  return scale->type == NUMBER_F32 && scale->kind == TENSOR_INPUT && elements(scale) == 1 ? node : NULL;
}

/* ---- products of which only a part is needed ---- */

static const GraphTensor *input_of(const GraphNode *node, unsigned i)
{
  return i < node->n_inputs ? node->inputs[i] : NULL;
}

/* The share of columns that rows from `moved` on see, from row + first_column (where there is a lower bound) to row + last_column (an
 * upper one). */
static double share_within(int64_t rows, int64_t columns, int64_t moved, int64_t first_column, bool lower,
                           int64_t last_column, bool upper)
{
  double seen = 0;
  for (int64_t row = moved; row < rows + moved; row++) {
    int64_t first = lower ? CLAMP(row + first_column, 0, columns) : 0;
    int64_t end = upper ? CLAMP(row + last_column + 1, 0, columns) : columns;
    seen += (double)MAX(0, end - first);
  }
  return rows && columns ? seen / ((double)rows * (double)columns) : 1;
}

/* Of the scores that a Mask is given, the share that it lets be seen; bounds that are loaded hide nothing here. */
static double seen_share(const GraphNode *mask)
{
  const GraphTensor *scores = mask->inputs[0], *lower = input_of(mask, 1), *upper = input_of(mask, 2);
  int64_t rows = number(scores->shape[scores->rank - 2]), columns = number(scores->shape[scores->rank - 1]);
  int64_t moved = graph_attribute(mask, "diagonal")->text[0] == 'e' ? columns - rows : 0;
  bool known_lower = lower && lower->values, known_upper = upper && upper->values;
  return share_within(rows, columns, moved, known_lower ? number(lower->values[0]) : 0, known_lower,
                      known_upper ? number(upper->values[0]) : 0, known_upper);
}

/* The Mask that stands in front of a softmax whose result the product takes (`behind`), or that takes its result; NULL. */
static const GraphNode *mask_around(const GraphNode *product, bool behind)
{
  const GraphTensor *tensor = behind ? product->inputs[0] : product->outputs[0];
  for (unsigned steps = 0; tensor && steps < MASK_REACH; steps++) {
    const GraphNode *next = behind                     ? tensor->producer
                            : tensor->n_consumers == 1 ? tensor->consumers[0]
                                                       : NULL;
    if (!next || next->op->class_ == OPERATOR_GEMM || !graph_same_shape(next->outputs[0], tensor))
      return NULL;
    if (next->op->id == ONNX_Mask) return next;
    tensor = behind ? next->inputs[0] : next->outputs[0];
  }
  return NULL;
}

static double needed_share(const GraphNode *product)
{
  const GraphNode *mask = mask_around(product, true);
  if (!mask) mask = mask_around(product, false);
  return mask ? seen_share(mask) : 1;
}

/* Products that a part of attention's gradients needs, and no other part of them: scores, and what changes with weights, are keys' (or
 * values', where these stand alone), though other kernels compute them again. */
static void add_gradient_flops(BenchCase *c, const GraphNode *node)
{
  const GraphTensor *q = node->inputs[GRADIENT_Q], *k = node->inputs[GRADIENT_K],
                    *v = node->inputs[GRADIENT_V];
  double depth = (double)number(q->shape[3]), width = (double)number(v->shape[3]), columns = depth;
  int64_t left = graph_attribute(node, "left_window_size")->integer,
          right = graph_attribute(node, "right_window_size")->integer;
  if (graph_attribute(node, "is_causal")->integer) right = 0;
  if (graph_gradient(node) == GRADIENT_OF_KEYS) columns = 2 * depth + width * (node->n_outputs > 1 ? 2 : 1);
  if (graph_gradient(node) == GRADIENT_OF_VALUES) columns = width;
  int64_t rows = number(q->shape[2]), keys = number(k->shape[2]);
  double share = share_within(rows, keys, 0, -left, left >= 0, right, right >= 0);
  if (c->flops == 0) c->operand = q->type;
  c->flops += 2.0 * (double)number(q->shape[0]) * (double)number(q->shape[1]) * (double)rows * (double)keys *
              share * columns;
}

static void add_flops(BenchCase *c, const GraphNode *node)
{
  if (node->op->id == ONNX_AttentionGradPart) add_gradient_flops(c, node);
  if (node->op->class_ != OPERATOR_GEMM) return;
  const GraphTensor *a = node->inputs[0];
  const GraphNode *from = dequantizer(a);
  if (c->flops == 0) c->operand = from ? from->inputs[0]->type : a->type;
  c->flops += 2.0 * elements(node->outputs[0]) * graph_terms(node) * needed_share(node);
}

/* A batch is one stride apart: the leading dimensions lie densely. */
static bool batch_of(const GraphTensor *tensor, int64_t *batch, int64_t *step)
{
  *batch = 1;
  *step = tensor->rank > 2 ? number(tensor->strides[tensor->rank - 3]) : 0;
  for (unsigned i = 0; i + 2 < tensor->rank; i++) {
    *batch *= number(tensor->shape[i]);
    if (i + 3 < tensor->rank &&
        number(tensor->strides[i]) != number(tensor->strides[i + 1]) * number(tensor->shape[i + 1]))
      return false;
  }
  return true;
}

static void steps_of(const GraphTensor *tensor, int64_t steps[2])
{
  steps[0] = number(tensor->strides[tensor->rank - 2]);
  steps[1] = number(tensor->strides[tensor->rank - 1]);
}

static bool is_op(const GraphNode *node, const char *name)
{
  return !strcmp(node->op->name, name);
}

/* Lies as D does, so that a library takes one layout for both. */
static bool lies_like(const GraphTensor *tensor, const GraphTensor *d)
{
  if (tensor->type != d->type || tensor->rank != d->rank) return false;
  for (unsigned i = 0; i < d->rank; i++)
    if (number(tensor->shape[i]) != number(d->shape[i]) ||
        number(tensor->strides[i]) != number(d->strides[i]))
      return false;
  return true;
}

static bool is_row_vector(const GraphTensor *tensor, const GraphTensor *d)
{
  unsigned last = tensor->rank - 1;
  return tensor->rank >= 1 && tensor->type == d->type && number(tensor->strides[last]) == 1 &&
         number(tensor->shape[last]) == number(d->shape[d->rank - 1]) &&
         elements(tensor) == number(tensor->shape[last]);
}

static bool take_sum(BenchProduct *p, const GraphTensor *other)
{
  if (other->kind != TENSOR_INPUT || p->activation) return false;
  if (!p->added && lies_like(other, p->d))
    p->added = other;
  else if (!p->bias && is_row_vector(other, p->d))
    p->bias = other;
  else
    return false;
  p->fused = true;
  return true;
}

/* One node behind the sums, which `value` reaches. */
static bool take_step(BenchProduct *p, const GraphNode *node, const GraphTensor *value)
{
  if (is_op(node, "Cast")) return true;
  bool two = node->n_inputs == 2 && node->inputs[0] != node->inputs[1];
  const GraphTensor *other = two ? node->inputs[node->inputs[0] == value] : NULL;
  if (other && is_op(node, "Add")) return take_sum(p, other);
  if (p->activation) return false;
  if (other && is_op(node, "Mul")) {
    if (p->factor != 1 || p->added || p->bias) return false;
    p->fused = true;
    return graph_scalar(other, &p->factor);
  }
  if (is_op(node, "Relu")) p->activation = BENCH_RELU;
  if (is_op(node, "Gelu") && !strcmp(graph_attribute(node, "approximate")->text, "tanh"))
    p->activation = BENCH_GELU_TANH;
  if (p->activation) p->fused = true;
  return p->activation != BENCH_NO_ACTIVATION;
}

/* The nodes that multiply: the product, what dequantises its operands, what a library fuses to it; no others.
 */
static const GraphNode *find_nodes(const Graph *graph, BenchProduct *p)
{
  const GraphNode *product = NULL;
  for (unsigned i = 0; i < graph->n_nodes && !product; i++)
    if (is_op(graph->nodes[i], "MatMul") || is_op(graph->nodes[i], "MatMulInteger"))
      product = graph->nodes[i];
  if (!product || graph->n_outputs != 1) return NULL;
  unsigned n = 1;
  const GraphTensor **operands[2] = {&p->a, &p->b};
  for (unsigned i = 0; i < 2; i++) {
    const GraphNode *from = dequantizer(product->inputs[i]);
    *operands[i] = from ? from->inputs[0] : product->inputs[i];
    p->scale[i] = from ? from->inputs[1] : NULL;
    n += from != NULL;
  }
  p->d = graph->outputs[0];
  p->factor = 1;
  for (const GraphTensor *value = product->outputs[0]; value != p->d; n++) {
    const GraphNode *next = value->n_consumers == 1 ? value->consumers[0] : NULL;
    if (!next || !take_step(p, next, value)) return NULL;
    value = next->outputs[0];
  }
  return n == graph->n_nodes ? product : NULL;
}

static bool find_product(const Graph *graph, BenchProduct *p)
{
  const GraphNode *node = find_nodes(graph, p);
  if (!node) return false;
  for (unsigned i = 2; i < node->n_inputs; i++)
    if (node->inputs[i]) return false;
  bool scaled = p->scale[0] || p->scale[1];
  if ((scaled || p->fused) && number_class(p->a->type) != NUMBER_FLOAT) return false;
  const GraphAttribute *accumulate = graph_attribute_find(node, "accumulate");
  p->accumulate = accumulate ? accumulate_parse(accumulate->text) : ACCUMULATE_DEFAULT;
  int64_t batch_a, batch_b, batch_d;
  if (p->a->rank < 2 || p->b->rank < 2 || p->d->rank < 2 || !batch_of(p->a, &batch_a, &p->a_batch) ||
      !batch_of(p->b, &batch_b, &p->b_batch) || !batch_of(p->d, &batch_d, &p->d_batch))
    return false;
  p->m = number(p->d->shape[p->d->rank - 2]);
  p->n = number(p->d->shape[p->d->rank - 1]);
  p->k = number(p->a->shape[p->a->rank - 1]);
  p->batch = batch_d;
  if (batch_a != batch_d || (batch_b != batch_d && batch_b != 1)) return false;
  steps_of(p->a, p->a_step);
  steps_of(p->b, p->b_step);
  steps_of(p->d, p->d_step);
  return true;
}

static bool gathers_from(const GraphNode *node, const GraphTensor *tensor)
{
  return (is_op(node, "Gather") || is_op(node, "GatherElements")) && node->inputs[0] == tensor;
}

/* Of a cache that gets new rows in place: of the result these, of what lies there before all if somebody reads the result. */
static bool appended(const GraphTensor *tensor, double *touched)
{
  if (tensor->memory)
    tensor = tensor->memory;
  else if (tensor->kind == TENSOR_COMPUTED)
    return false;
  for (unsigned i = 0; i < tensor->n_consumers; i++) {
    const GraphNode *node = tensor->consumers[i];
    for (unsigned j = 0; node->op->id == ONNX_AppendRows && j < node->n_outputs; j++) {
      if (!node->outputs[j] || append_cache(node, j) != tensor) continue;
      touched[0] = node->outputs[j]->n_consumers ? elements(tensor) : 0;
      touched[1] = elements(append_rows(node, j));
      return true;
    }
  }
  return false;
}

/* Elements of a tensor that the case touches. Of a table that is only read at indices these are as many as so many draws of
 * one of its places meet, each place once: indices are drawn so. */
static double touched(const GraphTensor *tensor)
{
  double whole = elements(tensor), missed = 1, parts[2];
  if (appended(tensor, parts)) return parts[tensor->memory != NULL];
  if (tensor->kind == TENSOR_COMPUTED || !tensor->n_consumers) return whole;
  for (unsigned i = 0; i < tensor->n_consumers; i++) {
    const GraphNode *node = tensor->consumers[i];
    if (!gathers_from(node, tensor)) return whole;
    double places = (double)number(tensor->shape[__builtin_ctz(node->axes)]);
    double draws = elements(node->outputs[0]) / (whole / places);
    if (whole > 0) missed *= pow(1 - 1 / places, draws);
  }
  return whole * (1 - missed);
}

static void measure_graph(BenchCase *c)
{
  const Graph *graph = c->graph;
  for (unsigned i = 0; i < graph->n_tensors; i++) {
    const GraphTensor *tensor = graph->tensors[i];
    if (tensor->kind == TENSOR_COMPUTED && !tensor->is_output) continue;
    double bytes = (double)number_bits(tensor->type) / CHAR_BIT;
    c->bytes += touched(tensor) * bytes;
    c->held += tensor->memory ? 0 : elements(tensor) * bytes;
  }
  for (unsigned i = 0; i < graph->n_nodes; i++)
    add_flops(c, graph->nodes[i]);
  c->is_product = find_product(graph, &c->product);
}

static char *name_of(const BenchCase *c)
{
  GString *name = g_string_new(c->graph->name);
  for (unsigned i = 0; i < c->n_bindings; i++)
    g_string_append_printf(name, " %s=%" G_GINT64_FORMAT, c->bindings[i].name, c->bindings[i].value);
  return g_string_free(name, FALSE);
}

BenchCase *bench_case_new(Source *source, const char *class_, const char *const *bindings,
                          const char *const *constants, GError **error)
{
  g_autoptr(BenchCase) c = g_new0(BenchCase, 1);
  c->arena = arena_new();
  c->source = source_ref(source);
  c->bindings = parse_bindings(c, bindings, &c->n_bindings, error);
  if (!c->bindings || !pick_constants(c, constants, error)) return NULL;
  c->graph = graph_read(source, c->bindings, c->n_bindings, error);
  if (!c->graph || !check_bound(c->graph, error)) return NULL;
  c->name = name_of(c);
  c->class_ = g_strdup(class_ ? class_ : c->graph->name);
  measure_graph(c);
  return g_steal_pointer(&c);
}

void bench_case_free(BenchCase *c)
{
  if (!c) return;
  graph_free(c->graph);
  source_unref(c->source);
  arena_free(c->arena);
  g_free(c->name);
  g_free(c->class_);
  g_free(c);
}

/* ---- tensors ---- */

uint64_t bench_tensor_bytes(const GraphTensor *tensor)
{
  uint64_t last = 0;
  for (unsigned i = 0; i < tensor->rank; i++) {
    if (number(tensor->shape[i]) == 0) return 0;
    last += (uint64_t)((number(tensor->shape[i]) - 1) * number(tensor->strides[i]));
  }
  return number_bytes_of(tensor->type, last + 1);
}

bool bench_tensor_is_external(const GraphTensor *tensor)
{
  return tensor->kind != TENSOR_COMPUTED || tensor->is_output;
}

/* For what is drawn here, in a row. */
static Tensor *tensor_to_draw(const GraphTensor *tensor, GError **error)
{
  int64_t extent = (int64_t)(bench_tensor_bytes(tensor) / number_bytes(tensor->type));
  return tensor_new(tensor->name, tensor->type, 1, &extent, error);
}

/* Indices of n elements, drawn here: they are few beside what they gather. */
static bool fill_indices(BenchTensors *t, const GraphTensor *tensor, uint64_t address, unsigned set,
                         int64_t n, GError **error)
{
  g_autoptr(Tensor) indices = tensor_to_draw(tensor, error);
  if (!indices) return false;
  unsigned list;
  const GraphNode *grouped = graph_groups_reader(tensor), *sequences = sequences_reader(tensor, &list);
  int64_t begins = append_begins(tensor), most = begins ? MIN(begins, n) : n;
  tensor_fill_range(indices, set, tensor->index, 0, grouped || sequences ? G_MAXINT32 : most);
  if (sequences) sequences_fill(sequences, list, tensor->type, indices->data, indices->n);
  if (append_slots(tensor)) append_fill_slots(tensor->type, indices->data, indices->n, n);
  if (append_is_table(tensor)) append_fill_table(tensor->type, indices->data, indices->n, n);
  if (grouped) graph_fill_groups(grouped, (int32_t *)indices->data, indices->n, true);
  return device_write(bench_gpu_device(t->gpu), address, indices->data, indices->bytes, error);
}

/* Values that the device does not draw: of scales of blocks any byte would be any power of two, and integers and numbers of 64
 * bits are few where kernels read them. */
static bool fill_here(BenchTensors *t, const GraphTensor *tensor, uint64_t address, unsigned set,
                      GError **error)
{
  g_autoptr(Tensor) drawn = tensor_to_draw(tensor, error);
  if (!drawn) return false;
  tensor_fill_random(drawn, set, tensor->index, 1);
  return device_write(bench_gpu_device(t->gpu), address, drawn->data, drawn->bytes, error);
}

static bool fill_tensor(BenchTensors *t, const GraphTensor *tensor, uint64_t address, unsigned set,
                        GError **error)
{
  Device *device = bench_gpu_device(t->gpu);
  uint64_t bytes = bench_tensor_bytes(tensor);
  if (tensor->kind == TENSOR_CONSTANT && tensor->data)
    return device_write(device, address, tensor->data, bytes, error);
  if (tensor->kind == TENSOR_COMPUTED) return device_fill(device, address, 0xff, bytes, error);
  int64_t slots = append_slots(tensor);
  int64_t n = slots ? slots : number_class(tensor->type) == NUMBER_FLOAT ? 0 : graph_indexed_elements(tensor);
  unsigned list;
  if (n || graph_groups_reader(tensor) || sequences_reader(tensor, &list))
    return fill_indices(t, tensor, address, set, n, error);
  NumberType type =
      number_is_packed(tensor->type) ? NUMBER_U8 : tensor->type; /* every byte is two elements */
  if (!bench_gpu_draws(type)) return fill_here(t, tensor, address, set, error);
  return bench_gpu_fill(t->gpu, address, type, bytes / number_bytes(type),
                        set * t->c->graph->n_tensors + tensor->index + 1, error);
}

BenchTensors *bench_tensors_new(BenchGpu *gpu, const BenchCase *c, unsigned n_sets, GError **error)
{
  g_autoptr(BenchTensors) t = g_new0(BenchTensors, 1);
  const Graph *graph = c->graph;
  t->gpu = gpu;
  t->c = c;
  t->n_sets = n_sets;
  t->addresses = g_new0(uint64_t, (size_t)n_sets * graph->n_tensors + 1);
  for (unsigned set = 0; set < n_sets; set++)
    for (unsigned i = 0; i < graph->n_tensors; i++) {
      const GraphTensor *tensor = graph->tensors[i];
      uint64_t *address = &t->addresses[set * graph->n_tensors + i];
      if (!bench_tensor_is_external(tensor) || tensor->memory) continue;
      *address = device_allocate(bench_gpu_device(gpu), bench_tensor_bytes(tensor), error);
      if (!*address || !fill_tensor(t, tensor, *address, set, error)) return NULL;
    }
  return device_wait(bench_gpu_device(gpu), error) ? g_steal_pointer(&t) : NULL;
}

void bench_tensors_free(BenchTensors *t)
{
  if (!t) return;
  for (size_t i = 0; t->addresses && i < (size_t)t->n_sets * t->c->graph->n_tensors; i++)
    device_release(bench_gpu_device(t->gpu), t->addresses[i]);
  g_free(t->addresses);
  g_free(t);
}

uint64_t bench_tensor_address(const BenchTensors *t, unsigned set, const GraphTensor *tensor)
{
  unsigned index = tensor->memory ? tensor->memory->index : tensor->index;
  return t->addresses[set * t->c->graph->n_tensors + index];
}

bool bench_poison(const BenchTensors *t, unsigned set, GError **error)
{
  for (unsigned i = 0; i < t->c->graph->n_outputs; i++) {
    const GraphTensor *output = t->c->graph->outputs[i];
    if (output->memory) continue; /* what is not written over is wanted */
    if (!device_fill(bench_gpu_device(t->gpu), bench_tensor_address(t, set, output), 0xff,
                     bench_tensor_bytes(output), error))
      return false;
  }
  return true;
}
