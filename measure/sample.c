/* Rows (and columns) of a case: the same graph with some dimensions cut down to a few of their places, for
 * the reference, which would take minutes for the whole. Only dimensions along which nothing is summed can be
 * cut. */
#include "measure/check.h"
#include <string.h>

/* ---- which dimensions ---- */

static const char *symbol_of(const Symbolic *expression)
{
  return expression->kind == SYMBOLIC_SYMBOL ? expression->name : NULL;
}

static bool has_symbol(const GraphTensor *tensor, unsigned axis, const char *name)
{
  const char *symbol = symbol_of(tensor->shape[axis]);
  return symbol && !strcmp(symbol, name);
}

/* What a node sums over: the last axis of a product's first operand and the axis of the second that meets it,
 * what a row operator reduces, what is taken by an index. */
static bool node_sums(const GraphNode *node, const char *name)
{
  const GraphTensor *a = node->inputs[0];
  if (node->op->class_ == OPERATOR_GEMM)
    return has_symbol(a, a->rank - 1, name) || (!strcmp(node->op->name, "Gemm") && has_symbol(a, 0, name));
  for (unsigned i = 0; i < a->rank && node->op->id == ONNX_Trilu; i++)
    if (i + 2 >= a->rank && has_symbol(a, i, name)) return true; /* where a diagonal lies */
  for (unsigned i = 0; i < a->rank; i++)
    if ((node->axes >> i & 1) && has_symbol(a, i, name)) return true;
  return false;
}

/* A symbol inside an expression (2*M, a stride) cannot be cut, nor one that is summed over. */
static bool can_cut(const Graph *graph, const char *name)
{
  for (unsigned i = 0; i < graph->n_nodes; i++)
    if (node_sums(graph->nodes[i], name)) return false;
  for (unsigned i = 0; i < graph->n_tensors; i++)
    for (unsigned j = 0; j < graph->tensors[i]->rank; j++) {
      g_autofree char *text = symbolic_text(graph->tensors[i]->shape[j]);
      if (graph->tensors[i]->shape[j]->kind != SYMBOLIC_SYMBOL && strstr(text, name)) return false;
    }
  return true;
}

static const GraphBinding *binding_of(const BenchCase *c, const char *name)
{
  for (unsigned i = 0; i < c->n_bindings; i++)
    if (!strcmp(c->bindings[i].name, name)) return &c->bindings[i];
  return NULL;
}

/* First, last and places spread over the rest at odd distances, so that every part of a tile comes up. */
static void pick_places(Cut *cut, int64_t extent, unsigned n)
{
  cut->n = (unsigned)MIN((int64_t)n, extent);
  cut->places = g_new0(int64_t, cut->n + 1);
  for (unsigned i = 0; i < cut->n; i++) {
    int64_t step = extent / cut->n, jitter = step > 1 ? (int64_t)(i * 37 + 11) % step : 0;
    cut->places[i] = i + 1 == cut->n ? extent - 1 : i == 0 ? 0 : i * step + jitter;
  }
}

static void add_cut(Sample *sample, const BenchCase *c, const Graph *graph, const Symbolic *expression,
                    unsigned n)
{
  const char *name = symbol_of(expression);
  const GraphBinding *binding = name ? binding_of(c, name) : NULL;
  if (!binding || binding->value <= n || !can_cut(graph, name)) return;
  for (unsigned i = 0; i < sample->n_cuts; i++)
    if (!strcmp(sample->cuts[i].symbol, name)) return;
  Cut *cut = &sample->cuts[sample->n_cuts++];
  cut->symbol = arena_strdup(c->arena, name);
  pick_places(cut, binding->value, n);
}

void sample_clear(Sample *sample)
{
  for (unsigned i = 0; i < sample->n_cuts; i++)
    g_free(sample->cuts[i].places);
  graph_free(sample->graph);
  graph_free(sample->plain);
  memset(sample, 0, sizeof *sample);
}

bool sample_make(Sample *sample, const BenchCase *c, unsigned batches, unsigned rows, unsigned columns,
                 GError **error)
{
  memset(sample, 0, sizeof *sample);
  sample->plain = graph_read(c->source, NULL, 0, error);
  if (!sample->plain) return false;
  const GraphTensor *output = sample->plain->outputs[0];
  for (unsigned i = 0; i + 2 < output->rank && sample->n_cuts + 2 < G_N_ELEMENTS(sample->cuts); i++)
    add_cut(sample, c, sample->plain, output->shape[i], batches);
  if (output->rank >= 2) add_cut(sample, c, sample->plain, output->shape[output->rank - 2], rows);
  if (output->rank >= 1) add_cut(sample, c, sample->plain, output->shape[output->rank - 1], columns);
  g_autofree GraphBinding *bindings = g_memdup2(c->bindings, c->n_bindings * sizeof *bindings);
  for (unsigned i = 0; i < c->n_bindings; i++)
    for (unsigned j = 0; j < sample->n_cuts; j++)
      if (!strcmp(bindings[i].name, sample->cuts[j].symbol)) bindings[i].value = sample->cuts[j].n;
  sample->graph = graph_read(c->source, bindings, c->n_bindings, NULL);
  /* The small sizes may be outside what the description allows; its limits are not the reference's. */
  return true;
}

/* ---- gathering ---- */

static const Cut *cut_of(const Sample *sample, const GraphTensor *plain, unsigned axis)
{
  for (unsigned i = 0; i < sample->n_cuts; i++)
    if (has_symbol(plain, axis, sample->cuts[i].symbol)) return &sample->cuts[i];
  return NULL;
}

typedef struct Gather {
  const Cut *cuts[GRAPH_MAX_RANK];
  int64_t shape[GRAPH_MAX_RANK], strides[GRAPH_MAX_RANK]; /* of the whole tensor */
  unsigned rank, size;
  int slow; /* the axis with the widest stride, if it is cut: only those slices are read; else -1 */
} Gather;

static int64_t number(const Symbolic *expression)
{
  int64_t value = 0;
  symbolic_is_constant(expression, &value);
  return value;
}

static void plan_gather(Gather *g, const Sample *sample, const GraphTensor *plain, const GraphTensor *whole)
{
  int64_t widest = 0;
  g->rank = whole->rank;
  g->size = number_bytes(whole->type);
  g->slow = -1;
  for (unsigned i = 0; i < g->rank; i++) {
    g->cuts[i] = cut_of(sample, plain, i);
    g->shape[i] = number(whole->shape[i]);
    g->strides[i] = number(whole->strides[i]);
    if (g->strides[i] < widest) continue;
    widest = g->strides[i];
    g->slow = g->cuts[i] ? (int)i : -1;
  }
}

/* Walks the cut tensor's elements in row-major order along the axes that are left; the slow one is fixed by
 * the caller.
 */
static uint8_t *gather_axes(const Gather *g, unsigned axis, const uint8_t *from, uint8_t *to)
{
  if (axis == g->rank) {
    memcpy(to, from, g->size);
    return to + g->size;
  }
  const Cut *cut = g->cuts[axis];
  int64_t n = cut ? cut->n : g->shape[axis];
  for (int64_t i = 0; i < n; i++)
    to = gather_axes(g, axis + 1, from + (cut ? cut->places[i] : i) * g->strides[axis] * g->size, to);
  return to;
}

/* The slow axis comes first in a tensor whose rows lie one behind the other; one that lies the other way
 * round (a transposed matrix) is gathered slice by slice and put in place. */
static bool gather_slices(Gather *g, Device *device, uint64_t address, Tensor *to, GError **error)
{
  unsigned axis = (unsigned)g->slow;
  uint64_t slice = (uint64_t)(g->strides[axis]) * g->size, elements = to->n / g->cuts[axis]->n;
  uint64_t last = 0;
  for (unsigned i = 0; i < g->rank; i++)
    if (i != axis) last += (uint64_t)((g->shape[i] - 1) * g->strides[i]);
  g_autofree uint8_t *memory = g_malloc(MAX(slice, (last + 1) * g->size));
  g_autofree uint8_t *part = g_malloc(elements * g->size + 1);
  const Cut *cut = g->cuts[axis];
  uint64_t inner = 1; /* elements behind the axis in the dense result */
  for (unsigned i = axis + 1; i < g->rank; i++)
    inner *= (uint64_t)to->shape[i];
  Gather rest = *g;
  const Cut first = {.n = 1, .places = (int64_t[]){0}};
  rest.cuts[axis] = &first;
  for (unsigned i = 0; i < cut->n; i++) {
    if (!device_read(device, memory, address + (uint64_t)cut->places[i] * slice, (last + 1) * g->size, error))
      return false;
    gather_axes(&rest, 0, memory, part);
    for (uint64_t outer = 0; outer < elements / inner; outer++)
      memcpy(to->data + (outer * cut->n + i) * inner * g->size, part + outer * inner * g->size,
             inner * g->size);
  }
  return true;
}

Tensor *sample_read(const Sample *sample, const BenchTensors *tensors, unsigned index, GError **error)
{
  const GraphTensor *whole = tensors->c->graph->tensors[index], *small = sample->graph->tensors[index];
  Device *device = bench_gpu_device(tensors->gpu);
  uint64_t address = bench_tensor_address(tensors, 0, whole);
  int64_t shape[GRAPH_MAX_RANK];
  for (unsigned i = 0; i < small->rank; i++)
    shape[i] = number(small->shape[i]);
  g_autoptr(Tensor) to = tensor_new(whole->name, whole->type, whole->rank, shape, error);
  Gather g;
  if (!to) return NULL;
  if (!to->n) return g_steal_pointer(&to);
  plan_gather(&g, sample, sample->plain->tensors[index], whole);
  if (g.slow >= 0) return gather_slices(&g, device, address, to, error) ? g_steal_pointer(&to) : NULL;
  uint64_t bytes = bench_tensor_bytes(whole);
  g_autofree uint8_t *memory = g_malloc(bytes + 1);
  if (!device_read(device, memory, address, bytes, error)) return NULL;
  gather_axes(&g, 0, memory, to->data);
  return g_steal_pointer(&to);
}
