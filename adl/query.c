/* Questions to a loaded description. */
#include "adl/build.h"
#include <string.h>

static const Entry *find(const Gpu *gpu, const char *path)
{
  return g_hash_table_lookup(gpu_private(gpu)->by_path, path);
}

bool gpu_has(const Gpu *gpu, const char *family)
{
  const Section *section = schema_section(family);
  g_autofree char *path = g_strconcat(family, ".scope", NULL);
  return section && section->is_family && find(gpu, path);
}

bool gpu_converts_float8(const Gpu *gpu)
{
  for (unsigned i = 0; i < gpu->n_products; i++)
    if (gpu->products[i].a == NUMBER_E4M3 && !gpu->products[i].widened) return true;
  return false;
}

double gpu_fact(const Gpu *gpu, const char *path)
{
  const Entry *entry = find(gpu, path);
  /* A family's latency is its own property; latency classes name it like the others. */
  if (!entry && g_str_has_prefix(path, "latency.")) {
    g_autofree char *own = g_strconcat(path + strlen("latency."), ".latency", NULL);
    entry = find(gpu, own);
  }
  return entry ? entry->number : FACT_UNKNOWN;
}

const char *gpu_text(const Gpu *gpu, const char *path)
{
  const Entry *entry = find(gpu, path);
  return entry ? entry->text : NULL;
}

const double *gpu_numbers(const Gpu *gpu, const char *path, unsigned *n)
{
  const Entry *entry = find(gpu, path);
  *n = entry && entry->numbers ? entry->n : 0;
  return entry ? entry->numbers : NULL;
}

bool gpu_lists(const Gpu *gpu, const char *path, const char *item)
{
  const Entry *entry = find(gpu, path);
  return entry && entry->texts && g_strv_contains(entry->texts, item);
}

const GpuProduct *gpu_product(const Gpu *gpu, const char *family, NumberType a, NumberType b, NumberType acc)
{
  for (unsigned i = 0; i < gpu->n_products; i++) {
    const GpuProduct *product = &gpu->products[i];
    if (product->a == a && product->b == b && product->acc == acc && !strcmp(product->family, family))
      return product;
  }
  return NULL;
}

static double find_peak(const Gpu *gpu, NumberType type)
{
  bool is_float = number_class(type) == NUMBER_FLOAT;
  double rate = FACT_UNKNOWN, clock = gpu->clock_tensor_mhz;
  for (unsigned i = 0; i < gpu->n_products; i++) {
    const GpuProduct *product = &gpu->products[i];
    if (product->widened || product->a != type || product->acc != (is_float ? NUMBER_F32 : NUMBER_S32))
      continue;
    if (!(product->flop_per_clock_per_sm <= rate)) rate = product->flop_per_clock_per_sm;
  }
  if (!fact_known(rate)) {
    g_autofree char *path = g_strdup_printf("throughput.fma_%s", number_name(type));
    rate = 2 * gpu_fact(gpu, path);
    clock = gpu->clock_boost_mhz;
  }
  /* A peak with a clock of its own is what that product reaches. */
  g_autofree char *stated = g_strdup_printf("peaks.%s", number_name(type));
  const Entry *peak = find(gpu, stated);
  if (peak && fact_known(peak->clock)) clock = peak->clock;
  return rate * gpu->sm_count * clock * 1e6;
}

void build_answers(Build *build)
{
  for (unsigned i = 0; i < NUMBER_TYPE_COUNT; i++)
    build->private->peaks[i] = find_peak(build->gpu, (NumberType)i);
}

double gpu_peak(const Gpu *gpu, NumberType type)
{
  return gpu_private(gpu)->peaks[type];
}
