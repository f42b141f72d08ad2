/* The head of a template: its parameters with what values they can have, and which of them name its kernels. */
#include "ir/reader.h"
#include <string.h>

#define MOST_VALUES 64 /* of a domain that lists them */

/* NAME: KIND [= VALUE] */
static bool read_declaration(Reader *reader, const IrParameter *list, unsigned n, IrParameter *parameter)
{
  static const char *const kinds[] = {"int", "float", "type", "name", "function", NULL};
  *parameter = (IrParameter){.mark = reader->lexer.token.mark};
  if (reader->lexer.token.kind != TOKEN_WORD) return read_expected(reader, "a parameter's name");
  parameter->name = read_text(reader);
  for (unsigned i = 0; i < n; i++)
    if (!strcmp(list[i].name, parameter->name))
      return read_fail(reader, &parameter->mark, "redefined", NULL, "parameter `%s` is defined already",
                       parameter->name);
  read_next(reader);
  if (!read_expect(reader, ":")) return false;
  const Token *token = &reader->lexer.token;
  if (token->kind != TOKEN_WORD) return read_expected(reader, "int, float, type, name or function");
  parameter->kind = read_text(reader);
  if (!g_strv_contains(kinds, parameter->kind)) {
    g_autofree char *hint = read_nearest(parameter->kind, kinds);
    return read_fail(reader, &token->mark, "unknown-kind",
                     hint ? hint : "one of: int float type name function", "`%s` is not a kind of parameter",
                     parameter->kind);
  }
  read_next(reader);
  if (read_accept(reader, "=")) {
    reader->nodes = 0;
    reader->words_allowed = true;
    parameter->value = read_expr(reader);
    reader->words_allowed = false;
    if (!parameter->value) return false;
  }
  return true;
}

static void append(Reader *reader, IrParameter **list, unsigned *n, const IrParameter *parameter)
{
  if (!(*n & (*n - 1))) { /* room up to the next power of two */
    IrParameter *larger = arena_new_array(reader->module->arena, IrParameter, *n ? 2 * (size_t)*n : 1);
    if (*n) memcpy(larger, *list, *n * sizeof **list);
    *list = larger;
  }
  (*list)[(*n)++] = *parameter;
}

bool read_bound_parameter(Reader *reader)
{
  IrModule *module = reader->module;
  IrParameter parameter;
  if (!read_declaration(reader, module->bound, module->n_bound, &parameter)) return false;
  append(reader, &module->bound, &module->n_bound, &parameter);
  return true;
}

/* ---- what values it can have ---- */

static bool domain_int(Reader *reader, const IrExpr *expr, int64_t *value)
{
  if (ir_expr_is_int(expr, value)) return true;
  return read_fail(reader, &expr->mark, "domain", NULL, "a domain is of whole numbers");
}

static bool read_values(Reader *reader, IrDomain *domain)
{
  IrExpr *list = read_list(reader);
  if (!list) return false;
  if (!list->n || list->n > MOST_VALUES)
    return read_fail(reader, &list->mark, "domain", NULL, "a domain has 1 to %d values, this one %u",
                     MOST_VALUES, list->n);
  int64_t *values = arena_new_array(reader->module->arena, int64_t, list->n);
  for (unsigned i = 0; i < list->n; i++) {
    if (!domain_int(reader, list->items[i], &values[i])) return false;
    if (i && values[i] <= values[i - 1])
      return read_fail(reader, &list->items[i]->mark, "domain", NULL, "the values of a domain rise");
  }
  *domain = (IrDomain){values[0], values[list->n - 1], 1, values, list->n};
  return true;
}

static bool read_steps(Reader *reader, IrDomain *domain)
{
  IrExpr *range = read_range(reader);
  if (!range || !domain_int(reader, range->items[0], &domain->least) ||
      !domain_int(reader, range->items[1], &domain->most))
    return false;
  Mark mark = range->mark;
  domain->step = 1;
  if (read_accept(reader, "step")) {
    mark = reader->lexer.token.mark;
    IrExpr *step = read_expr(reader);
    if (!step || !domain_int(reader, step, &domain->step)) return false;
  }
  if (domain->step >= 1 && domain->most >= domain->least) return true;
  return read_fail(reader, &mark, "domain", NULL, "no number is in this domain");
}

static bool read_domain(Reader *reader, IrParameter *parameter)
{
  IrDomain domain = {0};
  Mark mark = reader->lexer.token.mark;
  if (strcmp(parameter->kind, "int"))
    return read_fail(reader, &mark, "domain", NULL, "parameter `%s` is no int: only those have a domain",
                     parameter->name);
  reader->nodes = 0;
  if (!(read_at(reader, "[") ? read_values : read_steps)(reader, &domain)) return false;
  parameter->domain = arena_memdup(reader->module->arena, &domain, sizeof domain);
  int64_t value;
  if (!parameter->value || !ir_expr_is_int(parameter->value, &value) || ir_domain_has(&domain, value))
    return true;
  g_autofree char *text = ir_domain_text(&domain);
  return read_fail(reader, &parameter->value->mark, "domain", NULL, "the default of `%s` is not %s",
                   parameter->name, text);
}

bool read_template_parameter(Reader *reader, bool outside)
{
  IrModule *module = reader->module;
  IrParameter parameter;
  if (!read_declaration(reader, module->parameters, module->n_parameters, &parameter)) return false;
  parameter.outside = outside;
  if (read_accept(reader, "in") && !read_domain(reader, &parameter)) return false;
  Mark mark = reader->lexer.token.mark;
  if (read_accept(reader, "if")) {
    if (!parameter.value || strcmp(parameter.kind, "int"))
      return read_fail(reader, &mark, "condition", NULL,
                       "a parameter with a condition is an int and has a default: `%s` is not",
                       parameter.name);
    reader->nodes = 0;
    reader->facts_allowed = true; /* of what is chosen for: who fills the template in knows them */
    parameter.condition = read_expr(reader);
    reader->facts_allowed = false;
    if (!parameter.condition) return false;
  }
  if (read_accept(reader, "by")) {
    if (reader->lexer.token.kind != TOKEN_WORD) return read_expected(reader, "a word for what decides it");
    parameter.decided_by = read_text(reader);
    read_next(reader);
  }
  append(reader, &module->parameters, &module->n_parameters, &parameter);
  return true;
}

/* ---- key, alike ---- */

static bool check_name(Reader *reader, const char *const *names, unsigned n, const char *name)
{
  const IrModule *module = reader->module;
  const Mark *mark = &reader->lexer.token.mark;
  const IrParameter *parameter = ir_parameter_find(module, name);
  if (!parameter) {
    g_autofree const char **all = g_new0(const char *, module->n_parameters + 1);
    for (unsigned i = 0; i < module->n_parameters; i++)
      all[i] = module->parameters[i].name;
    g_autofree char *hint = read_nearest(name, all);
    return read_fail(reader, mark, "undefined", hint, "no parameter above is called `%s`", name);
  }
  if (strcmp(parameter->kind, "int") || !parameter->value)
    return read_fail(reader, mark, "key", NULL, "`%s` is no int with a default", name);
  for (unsigned i = 0; i < n; i++)
    if (!strcmp(names[i], name))
      return read_fail(reader, mark, "redefined", NULL, "`%s` stands here already", name);
  return true;
}

bool read_parameter_names(Reader *reader, const char ***names, unsigned *n)
{
  if (*n)
    return read_fail(reader, &reader->lexer.token.mark, "redefined", NULL, "a template has one such line");
  g_autoptr(GPtrArray) list = g_ptr_array_new();
  while (reader->lexer.token.kind == TOKEN_WORD) {
    const char *name = read_text(reader);
    if (!check_name(reader, (const char *const *)list->pdata, list->len, name)) return false;
    g_ptr_array_add(list, (gpointer)name);
    read_next(reader);
  }
  if (!list->len) return read_expected(reader, "names of parameters");
  *n = list->len;
  *names = arena_memdup(reader->module->arena, list->pdata, list->len * sizeof *list->pdata);
  return true;
}
