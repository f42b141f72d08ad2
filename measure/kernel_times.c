#include "measure/kernel_times.h"
#include <string.h>

static int by_time(const void *a, const void *b)
{
  const BenchKernelTime *x = *(BenchKernelTime *const *)a, *y = *(BenchKernelTime *const *)b;
  return x->amount != y->amount ? (x->amount < y->amount ? 1 : -1) : strcmp(x->kernel, y->kernel);
}

GPtrArray *bench_profile_kernels(const json_t *launches, const char *key)
{
  g_autoptr(GHashTable) known = g_hash_table_new(g_str_hash, g_str_equal);
  GPtrArray *list = g_ptr_array_new_with_free_func(g_free);
  size_t i;
  json_t *launch;
  json_array_foreach(launches, i, launch)
  {
    const char *name = json_string_value(json_object_get(launch, "kernel"));
    BenchKernelTime *kernel = g_hash_table_lookup(known, name);
    if (!kernel) {
      kernel = g_new0(BenchKernelTime, 1);
      kernel->kernel = name;
      g_hash_table_insert(known, (char *)name, kernel);
      g_ptr_array_add(list, kernel);
    }
    kernel->launches++;
    kernel->amount += json_number_value(json_object_get(launch, key));
  }
  g_ptr_array_sort(list, by_time);
  return list;
}
