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
    {"limits.shared_carveouts", EQUAL, "limits.shared_per_sm", NULL, NULL, 0,
     "the largest is all the shared memory of an SM"},
    {"limits.warps_per_sm", MULTIPLE_OF, "limits.schedulers", NULL, NULL, 0,
     "each scheduler has as many warps"},
    {"limits.blocks_per_sm", AT_MOST, "limits.warps_per_sm", NULL, NULL, 0, "a block has a warp"},
    {"limits.cluster_portable", AT_MOST, "limits.cluster_max", NULL, NULL, 0,
     "the portable size is a safe one"},
    {"chip.clock_tensor", AT_MOST, "chip.clock_boost", NULL, NULL, 0, "boost is the highest clock"},
    {"measured.memory_read", AT_MOST, "chip.memory_bandwidth", NULL, NULL, 0.02,
     "nothing beats the specification"},
    {"measured.memory_copy", AT_MOST, "chip.memory_bandwidth", NULL, NULL, 0.02,
     "nothing beats the specification"},
    {"measured.memory_write", AT_MOST, "chip.memory_bandwidth", NULL, NULL, 0.02,
     "nothing beats the specification"},
    {"measured.memory_scale", AT_MOST, "chip.memory_bandwidth", NULL, NULL, 0.02,
     "nothing beats the specification"},
    {"measured.memory_triad", AT_MOST, "chip.memory_bandwidth", NULL, NULL, 0.02,
     "nothing beats the specification"},
    {"measured.memory_read", AT_MOST, "measured.l2_read", NULL, NULL, 0, "memory is read through L2"},
    {"chip.l2", AT_MOST, "chip.memory", NULL, NULL, 0, "L2 holds a part of the memory"},
    {"measured.clock_sustained", AT_MOST, "chip.clock_boost", NULL, NULL, 0, "boost is the highest clock"},
    {"register_reallocation.min", AT_MOST, "register_reallocation.max", NULL, NULL, 0, ""},
    {"register_reallocation.max", MULTIPLE_OF, "register_reallocation.step", NULL, NULL, 0, ""},
    {"tma.box_row_multiple", AT_MOST, "tma.shared_alignment", NULL, NULL, 0, ""},
    {"latency.l1_load", AT_MOST, "latency.l2_load", NULL, NULL, 0, "a farther memory is not nearer"},
    {"latency.l2_load", AT_MOST, "latency.l2_far_load", NULL, NULL, 0, "a farther memory is not nearer"},
    {"latency.l2_far_load", AT_MOST, "latency.global_load", NULL, NULL, 0, "a farther memory is not nearer"},
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

static void report_relation(Build *build, unsigned i, const Entry *const entries[3], double value)
{
  static const char *const words[] = {"is not", "is more than", "is not a multiple of"};
  const Entry *left = entries[0], *right = entries[1], *other = entries[2];
  bool is_product = relations[i].times != NULL;
  g_autofree char *value_text = quantity_text(value, is_product ? right->unit : left->unit);
  g_autofree char *right_text = quantity_text(right->number, right->unit);
  g_autofree char *name = other ? g_strdup_printf("%s %s %s", left->path, is_product ? "x" : "+", other->path)
                                : g_strdup(left->path);
  const Entry *shown = build_culprit(build, entries, 3);
  build_error(build, &shown->mark, "contradiction", *relations[i].why ? relations[i].why : NULL,
              "%s (%s) %s %s (%s)", name, value_text, words[relations[i].relation], right->path, right_text);
  build_given(build, shown == right ? left : right);
}

/* A number, or the largest of a list, which ascends. */
static double largest(const Entry *entry)
{
  return entry->numbers && entry->n ? entry->numbers[entry->n - 1] : entry->number;
}

static void check_relation(Build *build, unsigned i)
{
  const char *other_path = relations[i].times ? relations[i].times : relations[i].plus;
  const Entry *left = build_entry(build, relations[i].left), *right = build_entry(build, relations[i].right);
  const Entry *other = other_path ? build_entry(build, other_path) : NULL;
  if (!left || !right || left->unknown || right->unknown || (other_path && !other)) return;
  double value = largest(left);
  if (!fact_known(value)) return; /* an empty list */
  if (relations[i].times) value *= other->number;
  if (relations[i].plus) value += other->number;
  if (!holds(value, relations[i].relation, right->number, relations[i].slack))
    report_relation(build, i, (const Entry *const[]){left, right, other}, value);
}

/* ---- families ---- */

#define MOST_COUNTED 8 /* chip.clusters_of_8 */

static const struct {
  const char *family, *needs, *why;
} dependencies[] = {
    {"warpgroup_mma", "warp_mma", "types and shapes that it cannot take are left to warps"},
    {"tma", "mbarrier", "its loads complete on one"},
    {"register_reallocation", "warpgroup_mma", "registers move between the warpgroups that it serves"},
    {"matrix_store", "matrix_load", "it is the mirror of the other"},
};

/* Shows a family that is missing at the null that removed it, if that was written after the other side. */
static void report_missing(Build *build, const Entry *other, const char *family, const char *hint,
                           const char *message)
{
  const Value *removed = value_removed(build->families, family);
  bool here = removed && build_distance(build, &removed->key_mark) < build_distance(build, &other->mark);
  build_error(build, here ? &removed->key_mark : &other->mark, "contradiction", hint, "%s", message);
  if (here) build_given(build, other);
}

static void check_families(Build *build)
{
  for (unsigned i = 0; i < G_N_ELEMENTS(dependencies); i++) {
    const Entry *family = build_family_entry(build, dependencies[i].family);
    if (!family || build_family_entry(build, dependencies[i].needs)) continue;
    g_autofree char *message = g_strdup_printf("family `%s` needs family `%s`, which is not listed",
                                               dependencies[i].family, dependencies[i].needs);
    report_missing(build, family, dependencies[i].needs, dependencies[i].why, message);
  }
}

/* chip.clusters_of_N; NULL if it is not known. */
static const Entry *clusters_of(const Build *build, unsigned n)
{
  g_autofree char *path = g_strdup_printf("chip.clusters_of_%u", n);
  const Entry *entry = build_entry(build, path);
  return entry && !entry->unknown ? entry : NULL;
}

/* Clusters that run at once have SMs of their own: one fault for all counts that a base gave. */
static void check_cluster_counts(Build *build)
{
  if (!build_family_entry(build, "cluster")) return;
  const Entry *sms = build_entry(build, "chip.sm_count"), *inherited = NULL;
  g_autoptr(GString) counts = g_string_new(NULL), nulls = g_string_new(NULL);
  for (unsigned n = 2; sms && n <= MOST_COUNTED; n++) {
    const Entry *clusters = clusters_of(build, n);
    if (!clusters || n * clusters->number <= sms->number) continue;
    if (build_distance(build, &clusters->mark) <= build_distance(build, &sms->mark)) {
      build_error(build, &clusters->mark, "contradiction", "a block of each fills an SM",
                  "%s (%g) is too many for chip.sm_count (%g)", clusters->path, clusters->number,
                  sms->number);
      build_given(build, sms);
      continue;
    }
    g_string_append_printf(counts, "%s%s (%g)", counts->len ? ", " : "", clusters->path, clusters->number);
    g_string_append_printf(nulls, "%sclusters_of_%u: null", nulls->len ? ", " : "", n);
    inherited = inherited ? inherited : clusters;
  }
  if (!inherited) return;
  g_autofree char *hint = g_strdup_printf("a block of each fills an SM; `chip: {%s}` drops them", nulls->str);
  build_error(build, &sms->mark, "contradiction", hint, "chip.sm_count (%g) is too few for %s", sms->number,
              counts->str);
  build_given(build, inherited);
}

static void check_clusters(Build *build)
{
  const Entry *cluster = build_family_entry(build, "cluster"),
              *size = build_entry(build, "limits.cluster_max");
  if (cluster && size && size->number < 2) {
    const Entry *shown = build_culprit(build, (const Entry *const[]){size, cluster}, 2);
    build_error(build, &shown->mark, "contradiction", NULL,
                "limits.cluster_max is 1, but the family `cluster` is listed");
    build_given(build, shown == size ? cluster : size);
  }
  if (cluster || !size) return;
  if (size->number > 1) {
    g_autofree char *message =
        g_strdup_printf("limits.cluster_max is %g, but the family `cluster` is not listed", size->number);
    report_missing(build, size, "cluster", "`limits: {cluster_portable: 1, cluster_max: 1}` says so",
                   message);
  }
  const Entry *clusters = NULL;
  for (unsigned n = 2; n <= MOST_COUNTED && !clusters; n++)
    clusters = clusters_of(build, n);
  if (!clusters) return;
  g_autofree char *message =
      g_strconcat(clusters->path, " is given, but the family `cluster` is not listed", NULL);
  report_missing(build, clusters, "cluster", "no chip.clusters_of_N, then", message);
}

/* What a family sustains is what one of its shapes sustains. */
static void check_family_rate(Build *build, const char *family)
{
  g_autofree char *path = g_strconcat(family, ".throughput", NULL),
                  *shapes = g_strconcat(family, ".shapes.", NULL);
  const Entry *own = build_entry(build, path), *rate = NULL;
  if (!own || own->unknown) return;
  for (guint i = 0; i < build->private->entries->len; i++) {
    const Entry *entry = build->private->entries->pdata[i];
    if (!g_str_has_prefix(entry->path, shapes) || strcmp(entry->rule->key, "rate") || entry->unknown)
      continue;
    if (entry->number == own->number) return;
    if (!rate) rate = entry;
  }
  if (!rate) return;
  const Entry *shown = build_culprit(build, (const Entry *const[]){own, rate}, 2);
  g_autofree char *text = quantity_text(own->number, own->unit);
  build_error(build, &shown->mark, "contradiction",
              "it is the rate of the shape that the family is known for",
              "%s (%s) is the rate of no shape of the family", path, text);
  build_given(build, shown == own ? rate : own);
}

void build_checks(Build *build)
{
  for (unsigned i = 0; i < G_N_ELEMENTS(relations); i++)
    check_relation(build, i);
  check_families(build);
  check_clusters(build);
  check_cluster_counts(build);
  check_family_rate(build, "warp_mma");
  check_family_rate(build, "warpgroup_mma");
  build_peaks(build);
}
