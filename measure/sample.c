/* Rows (and columns) of a case: the same graph with some dimensions cut down to a few of their places (cuts.c), for
 * the reference, which would take minutes for the whole. */
#include "generator/front/groups.h"
#include "measure/check.h"
#include <string.h>

void sample_clear(Sample *sample)
{
  for (unsigned i = 0; i < sample->n_cuts; i++)
    g_free(sample->cuts[i].places);
  g_free(sample->cut_of);
  graph_free(sample->graph);
  memset(sample, 0, sizeof *sample);
}

bool sample_make(Sample *sample, const BenchCase *c, const SampleSize *size, GError **error)
{
  memset(sample, 0, sizeof *sample);
  sample->graph = graph_read(c->source, c->bindings, c->n_bindings, error);
  if (!sample->graph) return false;
  sample_find_cuts(sample, size);
  sample_cut_graph(sample);
  return true;
}

static int64_t number(const Symbolic *expression)
{
  int64_t value = 0;
  symbolic_is_constant(expression, &value);
  return value;
}

double sample_flops(const Sample *sample)
{
  double flops = 0;
  for (unsigned i = 0; i < sample->graph->n_nodes; i++) {
    const GraphNode *node = sample->graph->nodes[i];
    if (node->op->class_ != OPERATOR_GEMM) continue;
    const GraphTensor *d = node->outputs[0];
    double all = 2 * graph_terms(node);
    for (unsigned j = 0; j < d->rank; j++)
      all *= (double)number(d->shape[j]);
    flops += all;
  }
  return flops;
}

double sample_elements(const Sample *sample)
{
  double elements = 0;
  for (unsigned i = 0; i < sample->graph->n_inputs; i++) {
    double all = 1;
    for (unsigned j = 0; j < sample->graph->inputs[i]->rank; j++)
      all *= (double)number(sample->graph->inputs[i]->shape[j]);
    elements += all;
  }
  return elements;
}

/* ---- gathering ---- */

typedef struct Gather {
  const Cut *cuts[GRAPH_MAX_RANK];
  int64_t shape[GRAPH_MAX_RANK], strides[GRAPH_MAX_RANK]; /* of the whole tensor */
  unsigned rank, size;
  int slow; /* the axis with the widest stride, if it is cut: only those slices are read; else -1 */
} Gather;

static void plan_gather(Gather *g, const Sample *sample, const GraphTensor *whole)
{
  int64_t widest = 0;
  g->rank = whole->rank;
  g->size = number_is_packed(whole->type) ? 0 : number_bytes(whole->type);
  g->slow = -1;
  for (unsigned i = 0; i < g->rank; i++) {
    g->cuts[i] = sample_cut(sample, whole, i);
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

/* The same of elements that share bytes: element `at` of all, element *n of what is left. */
static void gather_packed(const Gather *g, NumberType type, unsigned axis, int64_t at, const uint8_t *from,
                          uint8_t *to, uint64_t *n)
{
  if (axis == g->rank) {
    number_set_bits(type, number_get_bits(type, from, (uint64_t)at), to, (*n)++);
    return;
  }
  const Cut *cut = g->cuts[axis];
  int64_t extent = cut ? cut->n : g->shape[axis];
  for (int64_t i = 0; i < extent; i++)
    gather_packed(g, type, axis + 1, at + (cut ? cut->places[i] : i) * g->strides[axis], from, to, n);
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

/* The group of a row, -1: nobody's, by the ends of groups. */
static int32_t group_of(const GraphNode *node, const int32_t *ends, size_t n, int64_t row)
{
  int64_t align = graph_attribute(node, "align")->integer, begin = 0, end = 0;
  for (size_t g = 0; g < n; g++) {
    begin = (end + align - 1) / align * align;
    end = MAX(end, ends[g]);
    if (row >= begin && row < end) return (int32_t)g;
  }
  return -1;
}

static int32_t places_below(const Cut *rows, int64_t end)
{
  int32_t n = 0;
  while (n < (int32_t)rows->n && rows->places[n] < end)
    n++;
  return n;
}

/* Sizes of groups of which `rows` are kept, as list_groups() has them. */
static bool read_groups(const GraphNode *node, const Cut *rows, Device *device, uint64_t address, Tensor *to,
                        GError **error)
{
  const GraphTensor *sizes = node->inputs[2];
  size_t n = (size_t)number(sizes->shape[0]), step = (size_t)number(sizes->strides[0]);
  uint64_t bytes = bench_tensor_bytes(sizes);
  g_autofree int32_t *values = g_malloc(bytes + 1), *list = g_new(int32_t, n + 1);
  if (!device_read(device, values, address, bytes, error)) return false;
  for (size_t i = 0; i < n; i++)
    list[i] = values[i * step];
  for (size_t i = 0; i < to->n; i++) {
    GraphGroups kind = graph_groups(node);
    int32_t value = kind == GROUPS_COUNTS  ? places_below(rows, list[i])
                    : kind == GROUPS_INDEX ? list[rows->places[i]]
                                           : group_of(node, list, n, rows->places[i]);
    memcpy(to->data + i * sizeof value, &value, sizeof value);
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
  const GraphNode *grouped = graph_groups_reader(whole);
  const GraphTensor *rows = grouped && graph_groups(grouped) != GROUPS_DEPTHS ? grouped->outputs[0] : NULL;
  const Cut *cut = rows ? sample_cut(sample, rows, rows->rank - 2) : NULL;
  if (cut) return read_groups(grouped, cut, device, address, to, error) ? g_steal_pointer(&to) : NULL;
  plan_gather(&g, sample, whole);
  if (g.size && g.slow >= 0)
    return gather_slices(&g, device, address, to, error) ? g_steal_pointer(&to) : NULL;
  uint64_t bytes = bench_tensor_bytes(whole);
  g_autofree uint8_t *memory = g_malloc(bytes + 1);
  if (!device_read(device, memory, address, bytes, error)) return NULL;
  uint64_t gathered = 0;
  if (g.size)
    gather_axes(&g, 0, memory, to->data);
  else
    gather_packed(&g, whole->type, 0, 0, memory, to->data, &gathered);
  return g_steal_pointer(&to);
}
