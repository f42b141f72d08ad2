/* --set NAME=VALUE: which template parameters may be forced, and to what.
 *
 * A value outside of what a parameter can mean would reach the templates as a tile of no rows or a cluster of
 * no blocks, and be reported as a fault of ours: each is held against the domain that the templates declare. What a
 * parameter's neighbours or the graph decide cannot be
 * forced at all: a kernel told that all rows are one tile computes one tile. What is legal together is
 * checked where it is used: by the passes, with how much is missing. */
#include "generator/choose/choose.h"
#include "generator/choose/spaces.h"
#include "ir/former.h"
#include <string.h>

/* What decides parameters that nobody can set, by the word behind their `by`. */
static const struct {
  const char *word, *decided_by, *hint;
} deciders[] = {
    {"types", "the graph's types", NULL},
    {"fusion", "the operators that are fused", NULL},
    {"guard", "the rows that the variant's guard admits", "--dim fixes a dimension"},
    {"accumulate", "how products of 8-bit floats add up", "--accumulate exact or fast"},
    {"operator", "the operator", NULL},
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

/* Parameters whose values are words, and those. */
static const struct {
  const char *name, *values;
} words[] = {{"form", "registers, shared, cluster, passes"}};

/* The words that a parameter may have; NULL: it has numbers. */
static const char *words_of(const char *name)
{
  for (unsigned i = 0; i < G_N_ELEMENTS(words); i++)
    if (!strcmp(words[i].name, name)) return words[i].values;
  return NULL;
}

static bool check_word(const char *set, const char *values, GError **error)
{
  g_auto(GStrv) list = g_strsplit(values, ", ", -1);
  const char *equals = strchr(set, '=');
  if (equals && g_strv_contains((const char *const *)list, equals + 1)) return true;
  error_set(error, ERROR_INPUT, NULL, "parameter-value", NULL, "--set %s: one of %s is wanted", set, values);
  return false;
}

static bool refuse_derived(const char *set, const IrParameter *parameter, GError **error)
{
  const char *decided_by = parameter->decided_by, *hint = NULL;
  for (unsigned i = 0; i < G_N_ELEMENTS(deciders); i++) {
    if (strcmp(deciders[i].word, parameter->decided_by)) continue;
    decided_by = deciders[i].decided_by;
    hint = deciders[i].hint;
  }
  error_set(error, ERROR_INPUT, NULL, "derived-parameter", hint,
            "--set %s: %s follows from %s and cannot be set", set, parameter->name, decided_by);
  return false;
}

static bool check_set(const Spaces *spaces, const char *set, GError **error)
{
  const char *equals = strchr(set, '=');
  g_autofree char *name = name_of(set);
  const IrParameter *parameter = spaces_find(spaces, name);
  if (parameter && parameter->decided_by) return refuse_derived(set, parameter, error);
  const char *values = words_of(name);
  if (values) return check_word(set, values, error);
  int64_t value;
  if (!equals || !g_ascii_string_to_signed(equals + 1, 10, G_MININT64, G_MAXINT64, &value, NULL)) {
    error_set(error, ERROR_INPUT, NULL, "parameter-value", "such as --set bm=128",
              "--set %s: a parameter's name, = and a whole number are wanted", set);
    return false;
  }
  if (!parameter || spaces_have(spaces, name, value)) return true;
  g_autofree char *domain = spaces_domain_text(spaces, name);
  error_set(error, ERROR_INPUT, NULL, "parameter-value", NULL, "--set %s: %s is %s", set, name, domain);
  return false;
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

/* Does some message name it already? */
static bool names_set(const GError *error, const char *name)
{
  g_autofree char *text = g_strdup_printf("--set %s=", name);
  const GPtrArray *diagnostics = error_diagnostics(error);
  for (guint i = 0; diagnostics && i < diagnostics->len; i++) {
    const Diagnostic *diagnostic = diagnostics->pdata[i];
    if (strstr(diagnostic->message, text)) return true;
  }
  return false;
}

void choose_name_sets(const CompileOptions *options, const Choice *choice, GError *error)
{
  if (!error) return;
  g_autoptr(GString) asked = g_string_new(NULL);
  for (const char *const *set = options ? options->sets : NULL; set && *set; set++) {
    g_autofree char *name = name_of(*set);
    if ((!choice || choice_parameter(choice, name)) && !names_set(error, name))
      g_string_append_printf(asked, "%s--set %s", asked->len ? " " : "asked for: ", *set);
  }
  if (asked->len) error_hint(error, asked->str);
}

bool choose_check_sets(const CompileOptions *options, GError **error)
{
  const char *const *sets = options ? options->sets : NULL;
  if (!sets || !*sets) return true;
  g_autoptr(Spaces) spaces = spaces_read(error);
  if (!spaces) return false;
  for (const char *const *set = sets; *set; set++)
    if (!check_set(spaces, *set, error) || !check_once(sets, set, error)) return false;
  return true;
}
