/* A GPU's own figures against descriptions. */
#include "runtime/context.h"
#include <math.h>
#include <string.h>

/* A GPU reports somewhat less than its product's memory or L2, for part of either is kept back. */
#define KEPT_BACK 0.03

static void warn_smaller(GPtrArray *warnings, const char *what, const char *unit, double scale,
                         double described, double there, double slack, const Gpu *gpu,
                         const DeviceFigures *figures)
{
  if (!fact_known(described) || there <= 0 || there >= described * (1 - slack)) return;
  g_ptr_array_add(warnings,
                  g_strdup_printf("%s describes %.0f %s of %s, this %s has %.0f %s", gpu->name,
                                  described / scale, unit, what, figures->name, there / scale, unit));
}

void figures_compare(const DeviceFigures *figures, const Gpu *gpu, const char *target, GPtrArray *warnings)
{
  if (strcmp(target, gpu->target))
    g_ptr_array_add(warnings, g_strdup_printf("kernels for %s (%s) are assembled for %s to run on %s",
                                              gpu->name, gpu->target, target, figures->name));
  if (figures->sm_count && figures->sm_count != gpu->sm_count)
    g_ptr_array_add(warnings, g_strdup_printf("%s describes %u SMs, this %s has %u", gpu->name, gpu->sm_count,
                                              figures->name, figures->sm_count));
  warn_smaller(warnings, "memory", "MiB", 1 << 20, gpu->memory_bytes, (double)figures->memory_bytes,
               KEPT_BACK, gpu, figures);
  warn_smaller(warnings, "L2", "KiB", 1 << 10, gpu->l2_bytes, (double)figures->l2_bytes, KEPT_BACK, gpu,
               figures);
  warn_smaller(warnings, "shared memory per block", "bytes", 1, gpu->shared_per_block,
               figures->shared_per_block, 0, gpu, figures);
}

/* ---- the nearest description ---- */

/* How far a description is from the figures, most important first; smaller is nearer. */
typedef struct Distance {
  double parts[4];
} Distance;

/* Words of the product's name that the driver's name has too. */
static unsigned common_words(const char *product, const char *device)
{
  g_auto(GStrv) ours = g_strsplit(product, " ", -1), theirs = g_strsplit(device, " ", -1);
  unsigned n = 0;
  for (char **word = ours; *word; word++)
    n += g_strv_contains((const char *const *)theirs, *word);
  return n;
}

static Distance distance_of(const DeviceFigures *figures, const Gpu *gpu)
{
  unsigned capability =
      (unsigned)g_ascii_strtoull(gpu->target + strcspn(gpu->target, "0123456789"), NULL, 10);
  double memory = fact_known(gpu->memory_bytes) ? gpu->memory_bytes : 0;
  return (Distance){{(double)figures->capability - capability,
                     fabs((double)figures->sm_count - gpu->sm_count),
                     /* in steps of an eighth, so that what is kept back does not outweigh the name */
                     round(8 * fabs((double)figures->memory_bytes - memory) / (memory + 1)),
                     -(double)common_words(gpu->product, figures->name)}};
}

static bool is_nearer(const Distance *a, const Distance *b)
{
  for (unsigned i = 0; i < G_N_ELEMENTS(a->parts); i++)
    if (a->parts[i] != b->parts[i]) return a->parts[i] < b->parts[i];
  return false;
}

Gpu *figures_find_gpu(const DeviceFigures *figures, GError **error)
{
  g_auto(GStrv) names = gpu_names();
  Gpu *best = NULL;
  Distance nearest = {{0}};
  for (char **name = names; *name; name++) {
    Gpu *gpu = gpu_load(*name, NULL); /* one that cannot be read is none to choose */
    g_autofree char *target = gpu ? figures_target(figures, gpu->target, NULL) : NULL;
    Distance distance = target ? distance_of(figures, gpu) : nearest;
    if (target && (!best || is_nearer(&distance, &nearest))) {
      gpu_free(best);
      best = g_steal_pointer(&gpu);
      nearest = distance;
    }
    gpu_free(gpu);
  }
  if (!best)
    error_set(error, ERROR_UNSUPPORTED, NULL, "no-description", "docs/new-gpu.md: how to describe one",
              "no description fits %s of compute capability %u.%u", figures->name, figures->capability / 10,
              figures->capability % 10);
  return best;
}
