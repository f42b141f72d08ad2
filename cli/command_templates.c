/* The data files that are built into the program, as text: templates, and for `gpus text` descriptions. Messages point
 * into them as <embedded>/..., and that spelling is taken here too. */
#include "base/data.h"
#include "cli/cli.h"
#include "ir/ir.h"
#include <string.h>

#define EMBEDDED  "<embedded>/"
#define TEMPLATES "templates/"

static char *template_path(const char *name)
{
  return g_strconcat(TEMPLATES, name, ".ir", NULL);
}

/* Names of the templates, sorted. */
static char **template_names(void)
{
  g_auto(GStrv) files = data_list("templates");
  GPtrArray *names = g_ptr_array_new();
  for (char **file = files; *file; file++)
    if (g_str_has_suffix(*file, ".ir"))
      g_ptr_array_add(names, g_strndup(*file, strlen(*file) - strlen(".ir")));
  g_ptr_array_add(names, NULL);
  return (char **)g_ptr_array_free(names, FALSE);
}

/* The first sentence of the comment that a template opens with. */
static char *about(const char *text)
{
  const char *comment = strstr(text, "\n; ");
  if (!comment) return g_strdup("");
  comment += strlen("\n; ");
  g_autoptr(GString) words = g_string_new(NULL);
  for (const char *p = comment; *p && !(p[0] == '.' && g_ascii_isspace(p[1])); p++) {
    bool next_line = g_str_has_prefix(p, "\n; ");
    if (*p == '\n' && !next_line) break;
    g_string_append_c(words, next_line ? ' ' : *p);
    if (next_line) p += strlen("; ");
  }
  return g_string_free(g_steal_pointer(&words), FALSE);
}

static bool list_templates(const Cli *cli, GError **error)
{
  g_auto(GStrv) names = template_names();
  g_autoptr(Table) table = table_new((const char *[]){"template", "about", NULL});
  json_t *list = json_array();
  for (char **name = names; *name; name++) {
    g_autofree char *path = template_path(*name);
    g_autoptr(Source) source = data_load(path, error);
    if (!source) {
      json_decref(list);
      return false;
    }
    g_autofree char *what = about(source->text);
    table_row(table, *name, what, NULL);
    json_array_append_new(list,
                          json_pack("{s:s, s:s, s:s}", "name", *name, "file", source->name, "about", what));
  }
  if (cli->json)
    cli_print_json(json_pack("{s:i, s:o}", "version", 1, "templates", list));
  else {
    table_print(table, cli);
    json_decref(list);
  }
  return true;
}

bool cli_show_data(const Cli *cli, const char *path, const char *name, GError **error)
{
  g_autoptr(Source) source = data_load(path, error);
  if (!source) return false;
  if (cli->json)
    cli_print_json(json_pack("{s:i, s:s, s:s, s:s}", "version", 1, "name", name, "file", source->name, "text",
                             source->text));
  else
    fputs(source->text, stdout);
  return true;
}

/* "<embedded>/templates/NAME.ir", "NAME.ir" or "NAME" -> "NAME" */
char *cli_data_name(const char *word, const char *folder, const char *suffix)
{
  if (g_str_has_prefix(word, EMBEDDED)) word += strlen(EMBEDDED);
  if (g_str_has_prefix(word, folder)) word += strlen(folder);
  size_t length = strlen(word);
  return g_strndup(word, g_str_has_suffix(word, suffix) ? length - strlen(suffix) : length);
}

static bool is_among(const char *const *names, unsigned n, const char *name)
{
  for (unsigned i = 0; i < n; i++)
    if (!strcmp(names[i], name)) return true;
  return false;
}

static json_t *domain_json(const IrDomain *domain)
{
  if (!domain->values)
    return json_pack("{s:I, s:I, s:I}", "least", (json_int_t)domain->least, "most", (json_int_t)domain->most,
                     "step", (json_int_t)domain->step);
  json_t *values = json_array();
  for (unsigned i = 0; i < domain->n; i++)
    json_array_append_new(values, json_integer(domain->values[i]));
  return json_pack("{s:o}", "values", values);
}

static json_t *parameter_json(IrModule *module, const IrParameter *parameter)
{
  json_t *object =
      json_pack("{s:s, s:s, s:b, s:b, s:b}", "name", parameter->name, "kind", parameter->kind, "outside",
                parameter->outside, "key", is_among(module->key, module->n_key, parameter->name), "alike",
                is_among(module->alike, module->n_alike, parameter->name));
  if (parameter->value)
    json_object_set_new(object, "default", json_string(ir_expr_text(module, parameter->value)));
  if (parameter->domain) json_object_set_new(object, "domain", domain_json(parameter->domain));
  if (parameter->condition)
    json_object_set_new(object, "condition", json_string(ir_expr_text(module, parameter->condition)));
  if (parameter->decided_by) json_object_set_new(object, "decided_by", json_string(parameter->decided_by));
  return object;
}

/* Blocks, each a list of its lines: those that are tried always, or by those who measure. */
static json_t *tries_json(const IrModule *module, bool measured)
{
  json_t *tries = json_array();
  for (unsigned i = 0; i < module->n_tries; i++) {
    if (module->tries[i].measured != measured) continue;
    json_t *lines = json_array();
    for (unsigned j = 0; j < module->tries[i].n; j++) {
      g_autofree char *line = ir_try_line_text(&module->tries[i].lines[j]);
      json_array_append_new(lines, json_string(line));
    }
    json_array_append_new(tries, lines);
  }
  return tries;
}

/* The text, and the head once more as data: a template's space. */
static bool show_template_json(const char *path, const char *name, GError **error)
{
  g_autoptr(Source) source = data_load(path, error);
  g_autoptr(IrModule) module = source ? ir_read(source, error) : NULL;
  if (!module) return false;
  json_t *parameters = json_array();
  for (unsigned i = 0; i < module->n_parameters; i++)
    json_array_append_new(parameters, parameter_json(module, &module->parameters[i]));
  cli_print_json(json_pack("{s:i, s:s, s:s, s:s, s:o, s:o, s:o}", "version", 1, "name", name, "file",
                           source->name, "text", source->text, "parameters", parameters, "tries",
                           tries_json(module, false), "tries_measured", tries_json(module, true)));
  return true;
}

static bool show_template(const Cli *cli, const Arguments *arguments, GError **error)
{
  if (argument_count(arguments) != 1) {
    error_set(error, ERROR_USAGE, NULL, "missing-argument", "adlgen templates lists the names",
              "adlgen templates show needs one NAME");
    return false;
  }
  g_autofree char *name = cli_data_name(argument_at(arguments, 0), TEMPLATES, ".ir");
  g_autofree char *path = template_path(name);
  if (data_exists(path))
    return cli->json ? show_template_json(path, name, error) : cli_show_data(cli, path, name, error);
  g_auto(GStrv) names = template_names();
  const char *near = nearest_name(name, (const char *const *)names);
  g_autofree char *hint =
      near ? g_strdup_printf("did you mean `%s`?", near) : g_strdup("adlgen templates lists the names");
  error_set(error, ERROR_INPUT, NULL, "unknown-template", hint, "unknown template `%.80s`", name);
  return false;
}

bool command_templates(const Cli *cli, const Arguments *arguments, GError **error)
{
  return argument_action(arguments) ? show_template(cli, arguments, error) : list_templates(cli, error);
}

/* Adds how a file that a message points into can be read, once for each. */
static void add_way(GString *ways, const char *file)
{
  bool is_template = g_str_has_prefix(file, EMBEDDED TEMPLATES);
  if (!is_template && !g_str_has_prefix(file, EMBEDDED "adl/")) return;
  g_autofree char *name = is_template ? cli_data_name(file, TEMPLATES, ".ir") : g_path_get_basename(file);
  if (!is_template && g_str_has_suffix(name, ".yaml")) name[strlen(name) - strlen(".yaml")] = 0;
  g_autofree char *way = g_strdup_printf("%s: `adlgen %s %s` prints it\n", file,
                                         is_template ? "templates show" : "gpus text", name);
  if (!strstr(ways->str, way)) g_string_append(ways, way);
}

void cli_print_error(const Cli *cli, const GError *error)
{
  error_print(error, stderr, cli->error_colour);
  const GPtrArray *diagnostics = error_diagnostics(error);
  g_autoptr(GString) ways = g_string_new(NULL);
  for (guint i = 0; diagnostics && i < diagnostics->len; i++) {
    const Diagnostic *diagnostic = diagnostics->pdata[i];
    if (diagnostic->source) add_way(ways, diagnostic->source->name);
  }
  fputs(ways->str, stderr);
}
