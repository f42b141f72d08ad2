#include "generator/front/sequences.h"
#include <string.h>

const GraphNode *sequences_reader(const GraphTensor *input, unsigned *list)
{
  for (unsigned i = 0; i < input->n_consumers; i++) {
    const GraphNode *node = input->consumers[i];
    if (node->op->id != ONNX_VarlenAttention) continue;
    for (unsigned j = SEQUENCES_ENDS; j <= SEQUENCES_TABLE && j < node->n_inputs; j++)
      if (node->inputs[j] == input) {
        *list = j;
        return node;
      }
  }
  return NULL;
}

bool sequences_read_tree(const GraphTensor *input)
{
  for (unsigned i = 0; i < input->n_consumers; i++) {
    const GraphNode *node = input->consumers[i];
    if (node->op->id == ONNX_VarlenAttention && node->n_inputs > SEQUENCES_TREE &&
        node->inputs[SEQUENCES_TREE] == input)
      return true;
  }
  return false;
}

static int64_t extent(const GraphTensor *tensor, unsigned d)
{
  int64_t value = 0;
  symbolic_is_constant(tensor->shape[d], &value);
  return value;
}

/* What numbers of a list are at most: rows or keys; of a table the number of pages, which is none of them. */
static int64_t most(const GraphNode *node, unsigned list)
{
  const GraphTensor *k = node->inputs[SEQUENCES_K];
  if (list == SEQUENCES_ENDS) return extent(node->inputs[SEQUENCES_Q], 0);
  if (list == SEQUENCES_KEY_ENDS || list == SEQUENCES_TABLE) return extent(k, 0);
  return graph_keys(node) == KEYS_PAGES ? extent(node->inputs[SEQUENCES_TABLE], 1) * extent(k, 1)
                                        : extent(k, 1);
}

static int64_t number_at(NumberType type, const void *values, size_t i)
{
  return type == NUMBER_S64 ? ((const int64_t *)values)[i] : ((const int32_t *)values)[i];
}

static void put(NumberType type, void *values, size_t i, int64_t value)
{
  if (type == NUMBER_S64)
    ((int64_t *)values)[i] = value;
  else
    ((int32_t *)values)[i] = (int32_t)value;
}

static int compare(const void *a, const void *b)
{
  int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

/* ---- default data ---- */

void sequences_fill(const GraphNode *node, unsigned list, NumberType type, void *values, size_t n)
{
  bool ends = list == SEQUENCES_ENDS || list == SEQUENCES_KEY_ENDS;
  int64_t end = most(node, list), span = list == SEQUENCES_TABLE ? MAX(end, 1) : end + 1;
  for (size_t i = 0; i < n; i++)
    put(type, values, i, number_at(type, values, i) % span);
  if (!ends || !n) return;
  qsort(values, n, sizeof(int32_t), compare);
  put(type, values, n - 1, end);
  put(type, values, 0, 0);
}

/* ---- what is wrong ---- */

static char *fault_of_ends(const char *name, const GraphNode *node, unsigned list, const int32_t *ends,
                           size_t n)
{
  int64_t end = most(node, list);
  for (size_t i = 0; i < n; i++) {
    if (list == SEQUENCES_ENDS && !i && ends[i])
      return g_strdup_printf("element 0 of `%s`, where sequences end, is %d; they begin at 0", name, ends[i]);
    if (i && ends[i] < ends[i - 1])
      return g_strdup_printf("element %zu of `%s`, where sequences end, is %d, below the one in front, %d", i,
                             name, ends[i], ends[i - 1]);
    if (ends[i] < 0 || ends[i] > end)
      return g_strdup_printf("element %zu of `%s`, where sequences end, is %d; there are %" G_GINT64_FORMAT
                             " rows",
                             i, name, ends[i], end);
  }
  return NULL;
}

static char *fault_of_lengths(const char *name, const GraphNode *node, const int32_t *lengths, size_t n)
{
  int64_t capacity = most(node, SEQUENCES_LENGTHS);
  for (size_t i = 0; i < n; i++)
    if (lengths[i] < 0 || lengths[i] > capacity)
      return g_strdup_printf("element %zu of `%s`, how many keys a sequence has, is %d; there is room for "
                             "%" G_GINT64_FORMAT,
                             i, name, lengths[i], capacity);
  return NULL;
}

/* Pages behind a sequence's last key are not read: whose number of keys is not known may have any. */
static char *fault_of_table(const char *name, const GraphNode *node, NumberType type, const void *table,
                            size_t n, const int32_t *lengths)
{
  int64_t pages = most(node, SEQUENCES_TABLE), rows = extent(node->inputs[SEQUENCES_K], 1),
          columns = extent(node->inputs[SEQUENCES_TABLE], 1);
  for (size_t i = 0; lengths && i < n; i++) {
    int64_t page = number_at(type, table, i), first = (int64_t)i % columns * rows;
    if (first < lengths[i / (size_t)columns] && (page < -pages || page >= pages))
      return g_strdup_printf("element %zu of `%s`, a table of pages, is %" G_GINT64_FORMAT
                             "; the cache has %" G_GINT64_FORMAT " pages",
                             i, name, page, pages);
  }
  return NULL;
}

char *sequences_fault(const GraphNode *node, unsigned list, NumberType type, const void *values, size_t n,
                      const int32_t *lengths)
{
  const char *name = node->inputs[list]->name;
  switch (list) {
  case SEQUENCES_ENDS:
  case SEQUENCES_KEY_ENDS: return fault_of_ends(name, node, list, values, n);
  case SEQUENCES_LENGTHS: return fault_of_lengths(name, node, values, n);
  default: return fault_of_table(name, node, type, values, n, lengths);
  }
}
