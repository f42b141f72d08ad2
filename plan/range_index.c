/* A range shares numbers with another one if it has the other's first number, or begins at a later one of the other's: the tree knows
 * the former (the ranges that have a number are those of the nodes above its leaf), a list for each number the latter. */
#include "plan/range_index.h"

void range_index_open(RangeIndex *index, unsigned n)
{
  *index = (RangeIndex){.size = 1};
  while (index->size < n)
    index->size *= 2;
  index->begins = g_new0(GArray *, index->size);
  index->covers = g_new0(GArray *, 2 * (gsize)index->size);
}

static void free_lists(GArray **lists, gsize n)
{
  for (gsize i = 0; i < n; i++)
    if (lists[i]) g_array_unref(lists[i]);
  g_free(lists);
}

void range_index_close(RangeIndex *index)
{
  free_lists(index->begins, index->size);
  free_lists(index->covers, 2 * (gsize)index->size);
}

static void append(GArray **list, unsigned id)
{
  if (!*list) *list = g_array_new(FALSE, FALSE, sizeof id);
  g_array_append_val(*list, id);
}

void range_index_add(RangeIndex *index, unsigned low, unsigned high, unsigned id)
{
  append(&index->begins[low], id);
  for (gsize l = (gsize)low + index->size, r = (gsize)high + index->size + 1; l < r; l /= 2, r /= 2) {
    if (l & 1) append(&index->covers[l++], id);
    if (r & 1) append(&index->covers[--r], id);
  }
}

static void append_all(GArray *ids, const GArray *list)
{
  if (list) g_array_append_vals(ids, list->data, list->len);
}

void range_index_find(const RangeIndex *index, unsigned low, unsigned high, GArray *ids)
{
  for (gsize node = (gsize)low + index->size; node; node /= 2)
    append_all(ids, index->covers[node]);
  for (unsigned i = low + 1; i <= high; i++)
    append_all(ids, index->begins[i]);
}
