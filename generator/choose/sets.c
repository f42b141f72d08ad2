/* --set NAME=VALUE: which template parameters may be forced, and to what.
 *
 * A value outside of what a parameter can mean would reach the templates as a tile of no rows or a cluster of
 * no blocks, and be reported as a fault of ours. What a parameter's neighbours or the graph decide cannot be
 * forced at all: a kernel told that all rows are one tile computes one tile. What is legal together is
 * checked where it is used: by the passes, with how much is missing. */
#include "generator/choose/choose.h"
#include "ir/former.h"
#include <string.h>

#define MOST 65535 /* choose_forced's range */

static const struct {
  const char *name;
  int64_t least, most;
} ranges[] = {
    {"bm", 1, MOST},           {"bn", 1, MOST},    {"bk", 1, MOST},        {"stages", 2, 64},
    {"raster", 1, 1024},       {"pingpong", 1, 8}, {"warpgroups_n", 1, 2}, {"cluster_m", 1, 16},
    {"cluster_n", 1, 16},      {"split_k", 1, 16}, {"reducers", 1, 16},    {"stream_k", 1, MOST},
    {"stream_steps", 1, MOST}, {"blocks", 1, 32},  {"pace", 0, MOST},      {"persistent", 0, 1},
    {"reuse", 0, 1},           {"swapped", 0, 1},  {"threads", 32, 1024},  {"rows", 1, MOST},
    {"cols", 1, MOST},         {"block", 1, MOST}, {"vector", 1, 64},      {"deep", 1, MOST},
    {"slices", 1, MOST},
};

static const struct {
  const char *name, *decided_by, *hint;
} derived[] = {
    {"ta", "the graph's types", NULL},
    {"tb", "the graph's types", NULL},
    {"tc", "the graph's types", NULL},
    {"epilogue", "the operators behind the product", NULL},
    {"one_row", "the rows that the variant's guard admits", "--dim fixes a dimension"},
    {"one_column", "the rows that the variant's guard admits", "--dim fixes a dimension"},
    {"promote", "how products of 8-bit floats add up", "--accumulate exact or fast"},
    {"identity", "the operator", NULL},
    {"mean", "the operator", NULL},
    {"log", "the operator", NULL},
};

/* The parameter that NAME=VALUE sets, by today's name; g_free. */
static char *name_of(const char *set)
{
  char *name = g_strndup(set, strcspn(set, "="));
  const char *today = ir_former_name(name);
  if (!today) return name;
  g_free(name);
  return g_strdup(today);
}

static bool check_set(const char *set, GError **error)
{
  const char *equals = strchr(set, '=');
  g_autofree char *name = name_of(set);
  for (unsigned i = 0; i < G_N_ELEMENTS(derived); i++) {
    if (strcmp(derived[i].name, name)) continue;
    error_set(error, ERROR_INPUT, NULL, "derived-parameter", derived[i].hint,
              "--set %s: %s follows from %s and cannot be set", set, name, derived[i].decided_by);
    return false;
  }
  int64_t value;
  if (!equals || !g_ascii_string_to_signed(equals + 1, 10, G_MININT64, G_MAXINT64, &value, NULL)) {
    error_set(error, ERROR_INPUT, NULL, "parameter-value", "such as --set bm=128",
              "--set %s: a parameter's name, = and a whole number are wanted", set);
    return false;
  }
  for (unsigned i = 0; i < G_N_ELEMENTS(ranges); i++) {
    if (strcmp(ranges[i].name, name) || (value >= ranges[i].least && value <= ranges[i].most)) continue;
    error_set(error, ERROR_INPUT, NULL, "parameter-value", NULL,
              "--set %s: %s is from %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT, set, name, ranges[i].least,
              ranges[i].most);
    return false;
  }
  return true;
}

/* Who asks for two values at once would get one of them here and the other there. */
static bool check_once(const char *const *sets, const char *const *set, GError **error)
{
  g_autofree char *name = name_of(*set);
  for (; sets < set; sets++) {
    g_autofree char *other = name_of(*sets);
    if (strcmp(other, name)) continue;
    error_set(error, ERROR_INPUT, NULL, "parameter-twice", NULL, "--set %s: %s is set already, by --set %s",
              *set, name, *sets);
    return false;
  }
  return true;
}

GStrv choose_sets_today(const CompileOptions *options)
{
  GStrvBuilder *builder = g_strv_builder_new();
  for (const char *const *set = options ? options->sets : NULL; set && *set; set++) {
    g_autofree char *name = name_of(*set), *today = g_strconcat(name, *set + strcspn(*set, "="), NULL);
    g_strv_builder_add(builder, today);
  }
  GStrv sets = g_strv_builder_end(builder);
  g_strv_builder_unref(builder);
  return sets;
}

bool choose_check_sets(const CompileOptions *options, GError **error)
{
  const char *const *sets = options ? options->sets : NULL;
  for (const char *const *set = sets; set && *set; set++)
    if (!check_set(*set, error) || !check_once(sets, set, error)) return false;
  return true;
}
