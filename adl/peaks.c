/* Stated peaks against what the description derives: rate x SMs x clock. Needs: all sections read without a
 * fault. */
#include "adl/build.h"
#include <math.h>
#include <string.h>

#define SLACK 0.02 /* data sheets round */

/* A peak that does not follow, and what it should follow from. */
typedef struct {
  const Entry *peak, *rate, *clock; /* clock: NULL = the peak's own */
  double flop_per_clock, mhz, derived;
} Peak;

/* The rate of the fastest shape for the types; NULL if none is known. */
static const Entry *matrix_rate(const Build *build, const char *type, const char *acc)
{
  const Entry *best = NULL;
  const GPtrArray *entries = build->private->entries;
  for (guint i = 0; i < entries->len; i++) {
    const Entry *rate = entries->pdata[i];
    if (strcmp(rate->rule->section, "shape") || strcmp(rate->rule->key, "rate") || rate->unknown) continue;
    g_autofree char *shape = g_strndup(rate->path, strlen(rate->path) - strlen(".rate"));
    g_autofree char *a_path = g_strconcat(shape, ".a", NULL), *acc_path = g_strconcat(shape, ".acc", NULL);
    const Entry *a = build_entry(build, a_path), *own = build_entry(build, acc_path);
    if (!a || !own || !g_strv_contains(a->texts, type) || strcmp(own->text, acc)) continue;
    if (!best || rate->number > best->number) best = rate;
  }
  return best;
}

/* Fills what a stated peak follows from. false: the description does not say. Its key is TYPE or
 * TYPE_ACCUMULATOR. */
static bool peak_follows(const Build *build, Peak *peak)
{
  g_auto(GStrv) parts = g_strsplit(peak->peak->path + strlen("peaks."), "_", 2);
  g_autofree char *scalar = g_strconcat("throughput.fma_", parts[0], NULL);
  NumberType type = NUMBER_F32;
  gboolean known = number_parse(parts[0], &type);
  g_assert(known);
  const char *acc =
      parts[1] ? parts[1] : number_name(number_class(type) == NUMBER_FLOAT ? NUMBER_F32 : NUMBER_S32);
  peak->rate = matrix_rate(build, parts[0], acc);
  peak->clock = build_entry(build, peak->rate ? "chip.clock_tensor" : "chip.clock_boost");
  unsigned operations = peak->rate ? 1 : 2; /* a multiply-add is two */
  if (!peak->rate) peak->rate = build_entry(build, scalar);
  if (!peak->rate || peak->rate->unknown || !peak->clock) return false;
  peak->flop_per_clock = operations * peak->rate->number;
  peak->mhz = peak->clock->number;
  if (fact_known(peak->peak->clock)) {
    peak->mhz = peak->peak->clock;
    peak->clock = NULL;
  }
  peak->derived = peak->flop_per_clock * build->gpu->sm_count * peak->mhz * 1e6;
  return true;
}

/* What was written last of all that the peak follows from. */
static const Entry *culprit_of(const Build *build, const Peak *peak)
{
  const Entry *taking_part[] = {peak->peak, build_entry(build, "chip.sm_count"), peak->rate, peak->clock};
  return build_culprit(build, taking_part, G_N_ELEMENTS(taking_part));
}

static void check_clock(Build *build, const Entry *peak)
{
  const Entry *boost = build_entry(build, "chip.clock_boost");
  if (!boost || !(peak->clock > boost->number)) return;
  const Entry *shown = build_culprit(build, (const Entry *const[]){peak, boost}, 2);
  build_error(build, &shown->mark, "contradiction", "boost is the highest clock",
              "%s is stated at %g MHz, above chip.clock_boost (%g MHz)", peak->path, peak->clock,
              boost->number);
  build_given(build, shown == peak ? boost : peak);
}

/* "4096 FLOP/clk/SM x 100 SMs x 1830 MHz = 749.6 TFLOP/s", or the results of several. */
static char *derivation(const Build *build, const GPtrArray *peaks)
{
  const Peak *first = peaks->pdata[0];
  if (peaks->len == 1)
    return g_strdup_printf("%g FLOP/clk/SM x %u SMs x %g MHz = %.4g TFLOP/s", first->flop_per_clock,
                           build->gpu->sm_count, first->mhz, first->derived / 1e12);
  GString *text = g_string_new("rate x SMs x clock gives ");
  for (guint i = 0; i < peaks->len; i++)
    g_string_append_printf(text, "%s%.4g", i ? ", " : "", ((const Peak *)peaks->pdata[i])->derived / 1e12);
  g_string_append(text, " TFLOP/s");
  return g_string_free(text, FALSE);
}

/* All peaks that do not follow for the same reason are one fault. */
static void report(Build *build, const GArray *wrong, const Entry *shown)
{
  g_autoptr(GPtrArray) peaks = g_ptr_array_new();
  g_autoptr(GString) message = g_string_new(NULL);
  for (guint i = 0; i < wrong->len; i++) {
    Peak *peak = &g_array_index(wrong, Peak, i);
    if (culprit_of(build, peak) != shown) continue;
    g_string_append_printf(message, "%s%s = %.4g TFLOP/s", peaks->len ? ", " : "", peak->peak->path,
                           peak->peak->number / 1e12);
    g_ptr_array_add(peaks, peak);
  }
  const Entry *first = ((const Peak *)peaks->pdata[0])->peak;
  bool inherited = build_distance(build, &first->mark) > 0;
  g_autofree char *sum = derivation(build, peaks);
  g_autofree char *hint =
      g_strconcat(sum, inherited ? "; `peaks: null` drops what the base states" : "", NULL);
  build_error(build, &shown->mark, "contradiction", hint, "%s %s not what the description derives",
              message->str, peaks->len > 1 ? "are" : "is");
  if (shown != first) build_given(build, first);
}

void build_peaks(Build *build)
{
  g_autoptr(GArray) wrong = g_array_new(FALSE, FALSE, sizeof(Peak));
  for (guint i = 0; i < build->private->entries->len; i++) {
    Peak peak = {.peak = build->private->entries->pdata[i]};
    if (strcmp(peak.peak->rule->section, "peaks") || peak.peak->unknown) continue;
    check_clock(build, peak.peak);
    if (!peak_follows(build, &peak))
      build_error(build, &peak.peak->mark, "contradiction",
                  "no product shape and no scalar throughput has a known rate",
                  "nothing in the description could reach %s", peak.peak->path);
    else if (!(fabs(peak.derived - peak.peak->number) <= SLACK * peak.derived))
      g_array_append_val(wrong, peak);
  }
  g_autoptr(GHashTable) shown = g_hash_table_new(NULL, NULL);
  for (guint i = 0; i < wrong->len; i++) {
    const Entry *entry = culprit_of(build, &g_array_index(wrong, Peak, i));
    if (g_hash_table_add(shown, (void *)entry)) report(build, wrong, entry);
  }
}
