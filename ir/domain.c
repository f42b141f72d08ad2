/* What values a template's parameters can have. */
#include "ir/ir.h"
#include <string.h>

bool ir_domain_has(const IrDomain *domain, int64_t value)
{
  if (!domain) return true;
  if (!domain->values)
    return value >= domain->least && value <= domain->most && (value - domain->least) % domain->step == 0;
  for (unsigned i = 0; i < domain->n; i++)
    if (domain->values[i] == value) return true;
  return false;
}

char *ir_domain_text(const IrDomain *domain)
{
  g_autoptr(GString) text = g_string_new(NULL);
  for (unsigned i = 0; i < domain->n; i++)
    g_string_append_printf(text, "%s%" G_GINT64_FORMAT,
                           i               ? ", "
                           : domain->n > 1 ? "one of "
                                           : "",
                           domain->values[i]);
  if (!domain->values)
    g_string_printf(text, "from %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT, domain->least, domain->most);
  if (domain->step > 1) g_string_append_printf(text, " in steps of %" G_GINT64_FORMAT, domain->step);
  return g_string_free(g_steal_pointer(&text), FALSE);
}

void ir_parameter_refuse(const IrParameter *parameter, int64_t otherwise, int64_t value, GError **error)
{
  g_autoptr(IrModule) texts = ir_module_new(IR_TILE); /* the parameter's own module may be shared */
  error_set(error, ERROR_UNSUPPORTED, &parameter->mark, "parameter-condition", NULL,
            "parameter `%s` is %" G_GINT64_FORMAT " where `%s` does not hold, not %" G_GINT64_FORMAT,
            parameter->name, otherwise, ir_expr_text(texts, parameter->condition), value);
}

const IrParameter *ir_parameter_find(const IrModule *module, const char *name)
{
  for (unsigned i = 0; i < module->n_parameters; i++)
    if (!strcmp(module->parameters[i].name, name)) return &module->parameters[i];
  return NULL;
}
