/* GroupedMatMul: what its third input may hold. */
#include "generator/front/groups.h"
#include <string.h>

GraphGroups graph_groups(const GraphNode *node)
{
  const char *kind = graph_attribute(node, "groups")->text;
  if (!strcmp(kind, "ends")) return node->inputs[1]->rank == 2 ? GROUPS_DEPTHS : GROUPS_ENDS;
  return !strcmp(kind, "index") ? GROUPS_INDEX : GROUPS_COUNTS;
}

const GraphTensor *graph_choices(const GraphNode *node)
{
  bool ends = node->op->id == ONNX_GroupedMatMul && graph_groups(node) == GROUPS_ENDS;
  const GraphNode *keys = ends ? node->inputs[2]->producer : NULL;
  return keys && keys->op->id == ONNX_PlaceKeys ? keys->inputs[0] : NULL;
}

static int64_t extent(const GraphTensor *tensor, unsigned d)
{
  int64_t value = 0;
  symbolic_is_constant(tensor->shape[d], &value);
  return value;
}

double graph_terms(const GraphNode *node)
{
  const GraphTensor *a = node->inputs[0];
  bool turned = node->op->id == ONNX_Gemm && graph_attribute(node, "transA")->integer;
  double k = (double)extent(a, turned ? 0 : a->rank - 1);
  bool parts = node->op->id == ONNX_GroupedMatMul && graph_groups(node) == GROUPS_DEPTHS;
  return parts ? k / (double)MAX(1, extent(node->outputs[0], 0)) : k;
}

GHashTable *graph_staying(const Graph *graph)
{
  GHashTable *staying = g_hash_table_new(NULL, NULL);
  for (unsigned i = 0; i < graph->n_nodes; i++) {
    const GraphNode *node = graph->nodes[i];
    bool stays = node->op->id == ONNX_VarlenAttention ||
                 (node->op->id == ONNX_GroupedMatMul && graph_groups(node) != GROUPS_DEPTHS &&
                  !graph_attribute(node, "clear")->integer);
    for (unsigned j = 0; j < node->n_inputs && !stays; j++)
      stays = node->inputs[j] && g_hash_table_contains(staying, node->inputs[j]);
    for (unsigned j = 0; stays && j < node->n_outputs; j++)
      if (node->outputs[j]) g_hash_table_add(staying, node->outputs[j]);
  }
  return staying;
}

/* ---- values ---- */

const GraphNode *graph_groups_reader(const GraphTensor *input)
{
  for (unsigned i = 0; i < input->n_consumers; i++) {
    const GraphNode *node = input->consumers[i];
    if (node->op->id == ONNX_GroupedMatMul && node->inputs[2] == input) return node;
  }
  return NULL;
}

static int compare(const void *a, const void *b)
{
  int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

/* Rows of a group: of all that there may be, or about as many as are expected. */
static int32_t rows_from(const GraphNode *node, int32_t drawn, int64_t most, int64_t expected)
{
  const GraphAttribute *asked = graph_attribute(node, "expected");
  if (asked->integer > 0) expected = asked->integer;
  int64_t least = expected * 7 / 10, span = expected * 13 / 10 - least + 1;
  return (int32_t)MIN(most, least + drawn % span);
}

/* Ends of groups of about M / G rows each, as far as there are rows. */
static void even_ends(const GraphNode *node, int32_t *ends, size_t n, int64_t m, int64_t align)
{
  int64_t end = 0;
  for (size_t i = 0; i < n; i++) {
    int64_t begin = (end + align - 1) / align * align;
    end = MAX(end, MIN(m, begin + rows_from(node, ends[i], m, m / (int64_t)n)));
    ends[i] = (int32_t)end;
  }
}

/* The group of each block of `align` rows, ascending; of a group's last block a part of the rows, by what was drawn for the
 * block's second row. */
static void index_rows(int32_t *rows, size_t n, int64_t align, int64_t groups)
{
  size_t step = (size_t)align, blocks = (n + step - 1) / step;
  g_autofree int32_t *group = g_new(int32_t, blocks + 1), *part = g_new(int32_t, blocks + 1);
  for (size_t i = 0; i < blocks; i++) {
    group[i] = (int32_t)(rows[i * step] % groups);
    part[i] = rows[MIN(i * step + 1, n - 1)];
  }
  qsort(group, blocks, sizeof *group, compare);
  for (size_t i = 0; i < n; i++) {
    size_t block = i / step;
    bool last = block + 1 == blocks || group[block + 1] != group[block];
    int64_t taken = last ? part[block] % align + 1 : align;
    rows[i] = (int64_t)(i % step) < taken ? group[block] : -1;
  }
}

void graph_fill_groups(const GraphNode *node, int32_t *values, size_t n, bool even)
{
  const GraphTensor *a = node->inputs[0];
  GraphGroups kind = graph_groups(node);
  int64_t rows = extent(a, a->rank - (kind == GROUPS_DEPTHS ? 1 : 2)),
          align = graph_attribute(node, "align")->integer;
  switch (kind) {
  case GROUPS_COUNTS:
    for (size_t i = 0; i < n; i++)
      values[i] = even ? rows_from(node, values[i], rows, rows) : (int32_t)(values[i] % (rows + 1));
    return;
  case GROUPS_ENDS:
  case GROUPS_DEPTHS:
    for (size_t i = 0; i < n && !even; i++)
      values[i] = (int32_t)(values[i] % (rows + 1));
    if (even)
      even_ends(node, values, n, rows, align);
    else if (n)
      qsort(values, n, sizeof *values, compare);
    return;
  case GROUPS_INDEX: break;
  }
  if (n) index_rows(values, n, align, MAX(1, extent(node->inputs[1], 0)));
}
