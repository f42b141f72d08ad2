#include "cli/completion_sets.h"
#include "base/data.h"
#include "ir/ir.h"
#include <string.h>

#define MOST_VALUES 32 /* of a parameter that are offered: more are for counting, not for choosing */

static void words_free(void *memory)
{
  SetWords *words = memory;
  g_free(words->name);
  g_array_unref(words->values);
  g_free(words);
}

static SetWords *words_of(GPtrArray *list, const char *name)
{
  for (guint i = 0; i < list->len; i++)
    if (!strcmp(((SetWords *)list->pdata[i])->name, name)) return list->pdata[i];
  SetWords *words = g_new0(SetWords, 1);
  words->name = g_strdup(name);
  words->values = g_array_new(FALSE, FALSE, sizeof(int64_t));
  g_ptr_array_add(list, words);
  return words;
}

static void add_value(GArray *values, int64_t value)
{
  guint at = 0;
  while (at < values->len && g_array_index(values, int64_t, at) < value)
    at++;
  if (at == values->len || g_array_index(values, int64_t, at) != value) g_array_insert_val(values, at, value);
}

static void add_domain(GArray *values, const IrDomain *domain)
{
  if (!domain->values && (domain->most - domain->least) / domain->step >= MOST_VALUES) return;
  for (unsigned i = 0; domain->values && i < domain->n; i++)
    add_value(values, domain->values[i]);
  for (int64_t value = domain->least; !domain->values && value <= domain->most; value += domain->step)
    add_value(values, value);
}

static gint by_name(gconstpointer a, gconstpointer b)
{
  return strcmp((*(SetWords *const *)a)->name, (*(SetWords *const *)b)->name);
}

GPtrArray *completion_sets(void)
{
  GPtrArray *list = g_ptr_array_new_with_free_func(words_free);
  g_auto(GStrv) files = data_list("templates");
  for (char **file = files; *file; file++) {
    g_autofree char *path = g_strconcat("templates/", *file, NULL);
    g_autoptr(Source) source = g_str_has_suffix(*file, ".ir") ? data_load(path, NULL) : NULL;
    g_autoptr(IrModule) module = source ? ir_read(source, NULL) : NULL;
    for (unsigned i = 0; module && i < module->n_parameters; i++) {
      const IrParameter *parameter = &module->parameters[i];
      if (parameter->decided_by || strcmp(parameter->kind, "int") != 0) continue;
      SetWords *words = words_of(list, parameter->name);
      if (parameter->domain) add_domain(words->values, parameter->domain);
    }
  }
  g_ptr_array_sort(list, by_name);
  return list;
}

char *completion_set_values(const SetWords *words)
{
  GString *text = g_string_new(NULL);
  for (guint i = 0; i < words->values->len; i++)
    g_string_append_printf(text, "%s%" G_GINT64_FORMAT, i ? " " : "",
                           g_array_index(words->values, int64_t, i));
  return g_string_free(text, FALSE);
}
