#include "generator/choose/spaces.h"
#include "base/data.h"
#include "generator/program/family.h"
#include <string.h>

struct Spaces {
  GPtrArray *heads; /* IrModule *, owned: a template each */
  GPtrArray *names; /* char *, owned: theirs */
};

static bool read_family(Spaces *spaces, const Family *family, GError **error)
{
  g_auto(GStrv) names = g_strsplit(family->templates, " ", -1);
  for (char **name = names; *name; name++) {
    g_autofree char *path = g_strdup_printf("templates/%s.ir", *name);
    g_autoptr(Source) source = data_load(path, error);
    IrModule *head = source ? ir_read_head(source, error) : NULL;
    if (!head) return false;
    g_ptr_array_add(spaces->heads, head);
    g_ptr_array_add(spaces->names, g_strdup(*name));
  }
  return true;
}

Spaces *spaces_read(bool measured, GError **error)
{
  g_autoptr(Spaces) spaces = g_new0(Spaces, 1);
  spaces->heads = g_ptr_array_new_with_free_func((GDestroyNotify)ir_module_free);
  spaces->names = g_ptr_array_new_with_free_func(g_free);
  for (unsigned i = 0; i < FAMILY_COUNT; i++)
    if ((family_at(i)->measured || !measured) && !read_family(spaces, family_at(i), error)) return NULL;
  return g_steal_pointer(&spaces);
}

void spaces_free(Spaces *spaces)
{
  if (!spaces) return;
  g_ptr_array_unref(spaces->heads);
  g_ptr_array_unref(spaces->names);
  g_free(spaces);
}

const IrModule *spaces_head(const Spaces *spaces, const char *template_name)
{
  for (unsigned i = 0; i < spaces->heads->len; i++)
    if (!strcmp(spaces->names->pdata[i], template_name)) return spaces->heads->pdata[i];
  g_assert_not_reached();
}

/* The declaration in the template of that number, or NULL. */
static const IrParameter *declared(const Spaces *spaces, unsigned i, const char *name)
{
  return ir_parameter_find(spaces->heads->pdata[i], name);
}

const IrParameter *spaces_find(const Spaces *spaces, const char *name)
{
  for (unsigned i = 0; i < spaces->heads->len; i++) {
    const IrParameter *parameter = declared(spaces, i, name);
    if (parameter) return parameter;
  }
  return NULL;
}

bool spaces_have(const Spaces *spaces, const char *name, int64_t value)
{
  for (unsigned i = 0; i < spaces->heads->len; i++) {
    const IrParameter *parameter = declared(spaces, i, name);
    if (parameter && !parameter->decided_by && ir_domain_has(parameter->domain, value)) return true;
  }
  return false;
}

char *spaces_domain_text(const Spaces *spaces, const char *name)
{
  g_autoptr(GPtrArray) texts = g_ptr_array_new_with_free_func(g_free);
  for (unsigned i = 0; i < spaces->heads->len; i++) {
    const IrParameter *parameter = declared(spaces, i, name);
    if (!parameter || !parameter->domain) continue;
    g_autofree char *text = ir_domain_text(parameter->domain);
    if (!g_ptr_array_find_with_equal_func(texts, text, g_str_equal, NULL))
      g_ptr_array_add(texts, g_steal_pointer(&text));
  }
  g_ptr_array_add(texts, NULL);
  return g_strjoinv(" or ", (char **)texts->pdata);
}

const char *spaces_nearest(const Spaces *spaces, const char *name)
{
  g_autoptr(GPtrArray) names = g_ptr_array_new();
  for (unsigned i = 0; i < spaces->heads->len; i++) {
    const IrModule *head = spaces->heads->pdata[i];
    for (unsigned j = 0; j < head->n_parameters; j++)
      if (!head->parameters[j].decided_by) g_ptr_array_add(names, (gpointer)head->parameters[j].name);
  }
  g_ptr_array_add(names, NULL);
  return nearest_name(name, (const char *const *)names->pdata);
}

bool spaces_alike(const Spaces *spaces, const char *name)
{
  for (unsigned i = 0; i < spaces->heads->len; i++) {
    const IrModule *head = spaces->heads->pdata[i];
    for (unsigned j = 0; j < head->n_alike; j++)
      if (!strcmp(head->alike[j], name)) return true;
  }
  return false;
}
