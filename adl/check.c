/* Values against one another: what a single key cannot show. Needs: all sections read without a fault. */
#include "adl/build.h"
#include "adl/quantity.h"
#include <math.h>
#include <string.h>

/* ---- relations between two facts ---- */

typedef enum { EQUAL, AT_MOST, MULTIPLE_OF } Relation;

static const struct {
  const char *left;
  Relation relation;
  const char *right;
  const char *times, *plus; /* left is multiplied by, or added to, another fact; NULL = not */
  double slack;             /* relative */
  const char *why;
} relations[] = {
    {"limits.warps_per_sm", EQUAL, "limits.threads_per_sm", "limits.warp_size", NULL, 0,
     "threads_per_sm = warps_per_sm x warp_size"},
    {"limits.threads_per_block", MULTIPLE_OF, "limits.warp_size", NULL, NULL, 0,
     "a block is made of whole warps"},
    {"limits.threads_per_block", AT_MOST, "limits.threads_per_sm", NULL, NULL, 0, "a block runs on one SM"},
    {"limits.shared_per_block", AT_MOST, "limits.shared_per_sm", NULL, "limits.shared_reserved", 0,
     "shared memory of a block, and what is reserved of it, come from its SM"},
    {"limits.shared_default", AT_MOST, "limits.shared_per_block", NULL, NULL, 0, "opting in only adds"},
    {"limits.shared_per_sm", AT_MOST, "limits.l1_and_shared", NULL, NULL, 0, "shared memory is part of both"},
    {"limits.registers_per_thread", AT_MOST, "limits.registers_per_sm", "limits.warp_size", NULL, 0,
     "one warp must fit"},
    {"limits.registers_per_sm", MULTIPLE_OF, "limits.register_unit", NULL, NULL, 0,
     "registers are allocated in units"},
    {"limits.cluster_portable", AT_MOST, "limits.cluster_max", NULL, NULL, 0,
     "the portable size is a safe one"},
    {"chip.clock_tensor", AT_MOST, "chip.clock_boost", NULL, NULL, 0, "boost is the highest clock"},
    {"measured.memory_read", AT_MOST, "chip.memory_bandwidth", NULL, NULL, 0.02,
     "nothing beats the specification"},
    {"measured.memory_copy", AT_MOST, "chip.memory_bandwidth", NULL, NULL, 0.02,
     "nothing beats the specification"},
    {"measured.memory_write", AT_MOST, "chip.memory_bandwidth", NULL, NULL, 0.02,
     "nothing beats the specification"},
    {"measured.clock_sustained", AT_MOST, "chip.clock_boost", NULL, NULL, 0, "boost is the highest clock"},
    {"register_handover.min", AT_MOST, "register_handover.max", NULL, NULL, 0, ""},
    {"register_handover.max", MULTIPLE_OF, "register_handover.step", NULL, NULL, 0, ""},
    {"copy_tensor.box_row_multiple", AT_MOST, "copy_tensor.shared_alignment", NULL, NULL, 0, ""},
    {"latency.l1_load", AT_MOST, "latency.l2_load", NULL, NULL, 0, "a farther memory is not nearer"},
    {"latency.l2_load", AT_MOST, "latency.global_load", NULL, NULL, 0, "a farther memory is not nearer"},
};

static bool holds(double left, Relation relation, double right, double slack)
{
  switch (relation) {
  case EQUAL: return fabs(left - right) <= slack * right;
  case AT_MOST: return left <= right * (1 + slack);
  case MULTIPLE_OF: return right > 0 && fmod(left, right) == 0;
  }
  g_assert_not_reached();
}

/* The entry to show as the culprit: one from the file that was named, if any takes part. */
static const Entry *culprit(const Build *build, const Entry *const *entries, unsigned n)
{
  for (unsigned i = 0; i < n; i++)
    if (entries[i] && entries[i]->mark.source == build->end.source) return entries[i];
  return entries[0];
}

static void report_relation(Build *build, unsigned i, const Entry *const entries[3], double value)
{
  static const char *const words[] = {"is not", "is more than", "is not a multiple of"};
  const Entry *left = entries[0], *right = entries[1], *other = entries[2];
  bool is_product = relations[i].times != NULL;
  g_autofree char *value_text = quantity_text(value, is_product ? right->unit : left->unit);
  g_autofree char *right_text = quantity_text(right->number, right->unit);
  g_autofree char *name = other ? g_strdup_printf("%s %s %s", left->path, is_product ? "x" : "+", other->path)
                                : g_strdup(left->path);
  const Entry *shown = culprit(build, entries, 3);
  build_error(build, &shown->mark, "contradiction", *relations[i].why ? relations[i].why : NULL,
              "%s (%s) %s %s (%s)", name, value_text, words[relations[i].relation], right->path, right_text);
  const Entry *against = shown == right ? left : right;
  build_note(build, &against->mark, "contradiction", "%s is given here", against->path);
}

static void check_relation(Build *build, unsigned i)
{
  const char *other_path = relations[i].times ? relations[i].times : relations[i].plus;
  const Entry *left = build_entry(build, relations[i].left), *right = build_entry(build, relations[i].right);
  const Entry *other = other_path ? build_entry(build, other_path) : NULL;
  if (!left || !right || left->unknown || right->unknown || (other_path && !other)) return;
  double value = left->number;
  if (relations[i].times) value *= other->number;
  if (relations[i].plus) value += other->number;
  if (!holds(value, relations[i].relation, right->number, relations[i].slack))
    report_relation(build, i, (const Entry *const[]){left, right, other}, value);
}

/* ---- families ---- */

static const struct {
  const char *family, *needs, *why;
} dependencies[] = {
    {"copy_tensor", "memory_barrier", "its loads complete on one"},
    {"register_handover", "product_group", "registers move between the warpgroups that it serves"},
    {"matrix_store", "matrix_load", "it is the mirror of the other"},
};

static const Entry *family_entry(const Build *build, const char *family)
{
  g_autofree char *path = g_strconcat(family, ".scope", NULL);
  return build_entry(build, path);
}

static void check_families(Build *build)
{
  for (unsigned i = 0; i < G_N_ELEMENTS(dependencies); i++) {
    const Entry *family = family_entry(build, dependencies[i].family);
    if (family && !family_entry(build, dependencies[i].needs))
      build_error(build, &family->mark, "contradiction", dependencies[i].why,
                  "family `%s` needs family `%s`, which is not listed", dependencies[i].family,
                  dependencies[i].needs);
  }
  const Entry *cluster = family_entry(build, "cluster"), *size = build_entry(build, "limits.cluster_max");
  if (cluster && size && size->number < 2)
    build_error(build, &size->mark, "contradiction", NULL,
                "limits.cluster_max is 1, but the family `cluster` is listed");
  if (!cluster && size && size->number > 1)
    build_error(build, &size->mark, "contradiction", "1 = no clusters",
                "limits.cluster_max is %g, but the family `cluster` is not listed", size->number);
}

/* The text that is emitted carries one version, which must cover every family. */
static void check_versions(Build *build)
{
  const Entry *text = build_entry(build, "ptx"), *highest = text;
  for (guint i = 0; text && i < build->private->entries->len; i++) {
    const Entry *entry = build->private->entries->pdata[i];
    if (entry->kind == RULE_VERSION && entry->number > highest->number) highest = entry;
  }
  if (highest == text) return;
  const Entry *shown = culprit(build, (const Entry *const[]){text, highest}, 2);
  build_error(build, &shown->mark, "contradiction", "`ptx` covers every family and shape",
              "ptx %.1f is below %s (%.1f)", text->number / 10, highest->path, highest->number / 10);
}

/* ---- peaks ---- */

/* FLOP/clk/SM behind a stated peak; FACT_UNKNOWN if the description does not say. key: TYPE or
 * TYPE_ACCUMULATOR. */
static double peak_rate(const Build *build, const char *key, bool *is_matrix)
{
  g_auto(GStrv) parts = g_strsplit(key, "_", 2);
  g_autofree char *scalar = g_strconcat("throughput.fma_", parts[0], NULL);
  NumberType type, acc = NUMBER_F32;
  gboolean known = number_parse(parts[0], &type);
  g_assert(known);
  if (number_class(type) != NUMBER_FLOAT) acc = NUMBER_S32;
  if (parts[1]) known = number_parse(parts[1], &acc);
  double best = FACT_UNKNOWN;
  for (unsigned i = 0; i < build->gpu->n_products; i++) {
    const GpuProduct *product = &build->gpu->products[i];
    if (product->a != type || product->acc != acc || !fact_known(product->flop_per_clock_per_sm)) continue;
    if (!(product->flop_per_clock_per_sm <= best)) best = product->flop_per_clock_per_sm;
  }
  *is_matrix = fact_known(best);
  if (*is_matrix) return best;
  const Entry *entry = build_entry(build, scalar);
  return entry ? 2 * entry->number : FACT_UNKNOWN; /* a multiply-add is two operations */
}

static void check_peak(Build *build, const Entry *peak)
{
  bool is_matrix;
  double rate = peak_rate(build, peak->path + strlen("peaks."), &is_matrix);
  const Gpu *gpu = build->gpu;
  if (peak->unknown) return;
  if (!fact_known(rate)) {
    build_error(build, &peak->mark, "contradiction",
                "no product shape and no scalar throughput has a known rate",
                "nothing in the description could reach %s", peak->path);
    return;
  }
  double clock = fact_known(peak->clock) ? peak->clock
                 : is_matrix             ? gpu->clock_tensor_mhz
                                         : gpu->clock_boost_mhz;
  double derived = rate * gpu->sm_count * clock * 1e6;
  if (fabs(derived - peak->number) <= 0.02 * derived) return;
  bool inherited = peak->mark.source != build->end.source;
  g_autofree char *hint =
      g_strdup_printf("%g FLOP/clk/SM x %u SMs x %g MHz = %.4g TFLOP/s%s", rate, gpu->sm_count, clock,
                      derived / 1e12, inherited ? "; `peaks: null` drops what the base states" : "");
  build_error(build, &peak->mark, "contradiction", hint,
              "%s = %.4g TFLOP/s is not what the description derives", peak->path, peak->number / 1e12);
}

void build_checks(Build *build)
{
  for (unsigned i = 0; i < G_N_ELEMENTS(relations); i++)
    check_relation(build, i);
  check_families(build);
  check_versions(build);
  for (guint i = 0; i < build->private->entries->len; i++) {
    const Entry *entry = build->private->entries->pdata[i];
    if (g_str_has_prefix(entry->path, "peaks.")) check_peak(build, entry);
  }
}
