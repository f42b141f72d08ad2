#include "generator/front/census.h"
#include <string.h>

static void row_free(void *memory)
{
  GraphCensusRow *row = memory;
  g_free((char *)row->domain);
  g_free((char *)row->op);
  g_free(row);
}

GraphCensus *graph_census_new(void)
{
  GraphCensus *census = g_new0(GraphCensus, 1);
  census->rows = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, row_free);
  return census;
}

void graph_census_free(GraphCensus *census)
{
  if (!census) return;
  g_hash_table_unref(census->rows);
  g_free(census);
}

void graph_census_count(GraphCensus *census, const char *domain, const char *op, bool supported)
{
  g_autofree char *key = g_strjoin("\n", domain, op, NULL);
  GraphCensusRow *row = g_hash_table_lookup(census->rows, key);
  if (!row) {
    row = g_new0(GraphCensusRow, 1);
    *row = (GraphCensusRow){g_strdup(domain), g_strdup(op), 0, supported};
    g_hash_table_insert(census->rows, g_steal_pointer(&key), row);
  }
  row->nodes++;
}

static int by_support(const void *a, const void *b)
{
  const GraphCensusRow *x = *(GraphCensusRow *const *)a, *y = *(GraphCensusRow *const *)b;
  if (x->supported != y->supported) return x->supported ? 1 : -1;
  if (x->nodes != y->nodes) return x->nodes < y->nodes ? 1 : -1;
  int order = strcmp(x->domain, y->domain);
  return order ? order : strcmp(x->op, y->op);
}

GPtrArray *graph_census_sorted(const GraphCensus *census)
{
  GPtrArray *list = g_ptr_array_new();
  GHashTableIter iterator;
  void *row;
  g_hash_table_iter_init(&iterator, census->rows);
  while (g_hash_table_iter_next(&iterator, NULL, &row))
    g_ptr_array_add(list, row);
  g_ptr_array_sort(list, by_support);
  return list;
}
