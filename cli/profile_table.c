#include "cli/profile_table.h"
#include "measure/kernel_times.h"

const ProfileMeasure profile_times = {"us", "us", 2};
const ProfileMeasure profile_instructions = {"warp_instructions", "warp-instructions", 0};

double profile_sum(const json_t *launches, const ProfileMeasure *measure)
{
  double sum = 0;
  size_t i;
  json_t *launch;
  json_array_foreach(launches, i, launch) sum += json_number_value(json_object_get(launch, measure->key));
  return sum;
}

static char *share_of(double amount, double sum)
{
  return g_strdup_printf("%.1f %%", sum > 0 ? 100 * amount / sum : 0);
}

void profile_print_kernels(const Cli *cli, const json_t *launches, const ProfileMeasure *measure)
{
  g_autofree char *all = g_strconcat(">", measure->name, NULL), *mean = g_strconcat(all, " each", NULL);
  const char *const headers[] = {"kernel", ">launches", all, mean, ">share", NULL};
  g_autoptr(GPtrArray) kernels = bench_profile_kernels(launches, measure->key);
  g_autoptr(Table) table = table_new(headers);
  double sum = profile_sum(launches, measure);
  for (unsigned i = 0; i < kernels->len; i++) {
    const BenchKernelTime *kernel = kernels->pdata[i];
    g_autofree char *n = g_strdup_printf("%u", kernel->launches),
                    *amount = g_strdup_printf("%.*f", measure->digits, kernel->amount),
                    *each = g_strdup_printf("%.*f", measure->digits, kernel->amount / kernel->launches),
                    *share = share_of(kernel->amount, sum);
    table_row(table, kernel->kernel, n, amount, each, share, NULL);
  }
  table_print(table, cli);
}

void profile_print_launches(const Cli *cli, const json_t *launches, const ProfileMeasure *measure)
{
  g_autofree char *header = g_strconcat(">", measure->name, NULL);
  const char *const headers[] = {"launch", "kernel", ">grid", header, ">share", NULL};
  g_autoptr(Table) table = table_new(headers);
  double sum = profile_sum(launches, measure);
  size_t i;
  json_t *launch;
  json_array_foreach(launches, i, launch)
  {
    const json_t *sides = json_object_get(launch, "grid");
    double amount = json_number_value(json_object_get(launch, measure->key));
    g_autofree char *grid = g_strdup_printf("%d x %d x %d", (int)json_integer_value(json_array_get(sides, 0)),
                                            (int)json_integer_value(json_array_get(sides, 1)),
                                            (int)json_integer_value(json_array_get(sides, 2))),
                    *text = g_strdup_printf("%.*f", measure->digits, amount), *share = share_of(amount, sum);
    table_row(table, json_string_value(json_object_get(launch, "launch")),
              json_string_value(json_object_get(launch, "kernel")), grid, text, share, NULL);
  }
  table_print(table, cli);
}
