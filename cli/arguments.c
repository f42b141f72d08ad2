#include "cli/cli.h"
#include <errno.h>
#include <string.h>

struct Arguments {
  const Command *command;
  const char *action;
  GPtrArray *positional; /* const char *, of argv */
  GHashTable *values;    /* option name -> GPtrArray of char *, NULL-terminated when read */
  bool help;
};

static const Option *find_option(const Command *command, const char *name)
{
  for (const Option *option = command->options; option && option->name; option++)
    if (!strcmp(option->name, name)) return option;
  return NULL;
}

/* ---- messages ---- */

static bool unknown_option(const Command *command, const char *dashes, const char *name, GError **error)
{
  g_autoptr(GPtrArray) known = g_ptr_array_new();
  for (const Option *option = command->options; option && option->name; option++)
    g_ptr_array_add(known, (char *)option->name);
  g_ptr_array_add(known, "json");
  g_ptr_array_add(known, "help");
  g_ptr_array_add(known, NULL);
  const char *near = nearest_name(name, (const char *const *)known->pdata);
  g_autofree char *hint = near ? g_strdup_printf("did you mean --%s?", near)
                               : g_strdup_printf("adlgen %s --help lists its options", command->name);
  error_set(error, ERROR_USAGE, NULL, "unknown-option", hint, "adlgen %s: unknown option %s%s", command->name,
            dashes, name);
  return false;
}

static bool unknown_action(const Command *command, const char *name, GError **error)
{
  g_autoptr(GPtrArray) known = g_ptr_array_new();
  g_autoptr(GString) list = g_string_new(NULL);
  for (const Action *action = command->actions; action->name; action++) {
    g_ptr_array_add(known, (char *)action->name);
    g_string_append_printf(list, "%s%s", list->len ? ", " : "", action->name);
  }
  g_ptr_array_add(known, NULL);
  const char *near = name ? nearest_name(name, (const char *const *)known->pdata) : NULL;
  g_autofree char *hint =
      near ? g_strdup_printf("did you mean %s?", near) : g_strdup_printf("one of: %s", list->str);
  if (name)
    error_set(error, ERROR_USAGE, NULL, "unknown-action", hint, "adlgen %s: unknown action %s", command->name,
              name);
  else
    error_set(error, ERROR_USAGE, NULL, "missing-argument", hint, "adlgen %s needs an action", command->name);
  return false;
}

/* ---- values ---- */

static bool check_choice(const Command *command, const Option *option, const char *value, GError **error)
{
  if (!option->choices || g_strv_contains(option->choices, value)) return true;
  const char *near = nearest_name(value, option->choices);
  g_autofree char *list = g_strjoinv(", ", (char **)option->choices);
  g_autofree char *hint =
      near ? g_strdup_printf("did you mean %s?", near) : g_strdup_printf("one of: %s", list);
  error_set(error, ERROR_USAGE, NULL, "wrong-value", hint, "adlgen %s: --%s cannot be \"%s\"", command->name,
            option->name, value);
  return false;
}

static GPtrArray *values_of(Arguments *arguments, const char *name)
{
  GPtrArray *values = g_hash_table_lookup(arguments->values, name);
  if (!values) {
    values = g_ptr_array_new_with_free_func(g_free);
    g_hash_table_insert(arguments->values, (char *)name, values);
  }
  return values;
}

static bool add_value(Arguments *arguments, const Option *option, const char *value, GError **error)
{
  GPtrArray *values = values_of(arguments, option->name);
  if (values->len && !option->repeated && !option->list) {
    error_set(error, ERROR_USAGE, NULL, "repeated-option", NULL, "adlgen %s: --%s is given twice",
              arguments->command->name, option->name);
    return false;
  }
  if (!*value) {
    error_set(error, ERROR_USAGE, NULL, "missing-value", NULL, "adlgen %s: --%s needs a value",
              arguments->command->name, option->name);
    return false;
  }
  g_auto(GStrv) parts =
      option->list ? g_strsplit(value, ",", -1) : g_strdupv((char *[]){(char *)value, NULL});
  for (char **part = parts; *part; part++) {
    if (!check_choice(arguments->command, option, *part, error)) return false;
    g_ptr_array_add(values, g_strdup(*part));
  }
  return true;
}

/* One word that starts with two dashes; *i moves on if the next word is its value. */
static bool parse_long(Arguments *arguments, int n, char **words, int *i, GError **error)
{
  const char *word = words[*i] + 2, *equals = strchr(word, '=');
  g_autofree char *name = equals ? g_strndup(word, (gsize)(equals - word)) : g_strdup(word);
  bool is_flag = !strcmp(name, "json") || !strcmp(name, "help");
  const Option *option = find_option(arguments->command, name);
  if (!option && !is_flag) return unknown_option(arguments->command, "--", name, error);
  if (is_flag || !option->value) {
    if (equals) {
      error_set(error, ERROR_USAGE, NULL, "unexpected-value", NULL, "adlgen %s: --%s takes no value",
                arguments->command->name, name);
      return false;
    }
    if (!strcmp(name, "help"))
      arguments->help = true;
    else
      values_of(arguments, option ? option->name : "json");
    return true;
  }
  const char *value = equals ? equals + 1 : NULL;
  if (!equals && *i + 1 < n) value = words[++*i];
  if (!value) {
    error_set(error, ERROR_USAGE, NULL, "missing-value", NULL, "adlgen %s: --%s needs %s",
              arguments->command->name, name, option->value);
    return false;
  }
  return add_value(arguments, option, value, error);
}

static bool add_positional(Arguments *arguments, const char *word, GError **error)
{
  const Command *command = arguments->command;
  if (!command->actions || arguments->action) {
    g_ptr_array_add(arguments->positional, (char *)word);
    return true;
  }
  for (const Action *action = command->actions; action->name; action++) {
    if (strcmp(action->name, word)) continue;
    arguments->action = action->name;
    return true;
  }
  return unknown_action(command, word, error);
}

static bool check_count(const Arguments *arguments, GError **error)
{
  const Command *command = arguments->command;
  unsigned n = arguments->positional->len;
  if (command->actions)
    return arguments->action || !command->action_required || unknown_action(command, NULL, error);
  if (n < command->least) {
    error_set(error, ERROR_USAGE, NULL, "missing-argument", NULL, "adlgen %s needs %s", command->name,
              command->arguments);
    return false;
  }
  if (n > command->most) {
    error_set(error, ERROR_USAGE, NULL, "unexpected-argument", NULL, "adlgen %s: unexpected argument %s",
              command->name, argument_at(arguments, command->most));
    return false;
  }
  return true;
}

static bool parse_words(Arguments *arguments, int n, char **words, GError **error)
{
  bool only_positional = false;
  for (int i = 0; i < n; i++) {
    const char *word = words[i];
    bool ok = true;
    if (only_positional || word[0] != '-' || !word[1])
      ok = add_positional(arguments, word, error);
    else if (!strcmp(word, "--"))
      only_positional = true;
    else if (word[1] == '-')
      ok = parse_long(arguments, n, words, &i, error);
    else if (!strcmp(word, "-h"))
      arguments->help = true;
    else
      ok = unknown_option(arguments->command, "-", word + 1, error);
    if (!ok) return false;
  }
  return arguments->help || check_count(arguments, error);
}

static void values_free(void *values)
{
  g_ptr_array_unref(values);
}

Arguments *arguments_parse(const Command *command, int n, char **words, GError **error)
{
  g_autoptr(Arguments) arguments = g_new0(Arguments, 1);
  arguments->command = command;
  arguments->positional = g_ptr_array_new();
  arguments->values = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, values_free);
  if (!parse_words(arguments, n, words, error)) return NULL;
  GHashTableIter iterator;
  void *values = NULL;
  g_hash_table_iter_init(&iterator, arguments->values);
  while (g_hash_table_iter_next(&iterator, NULL, &values))
    g_ptr_array_add(values, NULL);
  return g_steal_pointer(&arguments);
}

void arguments_free(Arguments *arguments)
{
  if (!arguments) return;
  g_ptr_array_unref(arguments->positional);
  g_hash_table_unref(arguments->values);
  g_free(arguments);
}

/* ---- reading them ---- */

const char *argument_action(const Arguments *arguments)
{
  return arguments->action;
}

unsigned argument_count(const Arguments *arguments)
{
  return arguments->positional->len;
}

const char *argument_at(const Arguments *arguments, unsigned i)
{
  return i < arguments->positional->len ? arguments->positional->pdata[i] : NULL;
}

bool argument_flag(const Arguments *arguments, const char *option)
{
  return g_hash_table_contains(arguments->values, option);
}

const char *const *argument_values(const Arguments *arguments, const char *option)
{
  static const char *const none[] = {NULL};
  const GPtrArray *values = g_hash_table_lookup(arguments->values, option);
  return values ? (const char *const *)values->pdata : none;
}

const char *argument_value(const Arguments *arguments, const char *option)
{
  const char *const *values = argument_values(arguments, option);
  guint n = g_strv_length((char **)values);
  return n ? values[n - 1] : NULL;
}

bool argument_unsigned(const Arguments *arguments, const char *option, unsigned *value, GError **error)
{
  const char *text = argument_value(arguments, option);
  if (!text) return true;
  guint64 number = 0;
  if (!g_ascii_string_to_unsigned(text, 10, 0, UINT32_MAX, &number, NULL)) {
    error_set(error, ERROR_USAGE, NULL, "wrong-value", NULL,
              "adlgen %s: --%s needs a whole number, not \"%s\"", arguments->command->name, option, text);
    return false;
  }
  *value = (unsigned)number;
  return true;
}

bool argument_positive(const Arguments *arguments, const char *option, unsigned *value, GError **error)
{
  unsigned count = 1;
  if (!argument_unsigned(arguments, option, &count, error)) return false;
  if (!argument_value(arguments, option)) return true;
  if (!count) {
    error_set(error, ERROR_USAGE, NULL, "wrong-value", NULL,
              "adlgen %s: --%s needs a whole number of at least 1", arguments->command->name, option);
    return false;
  }
  *value = count;
  return true;
}

bool argument_wants_help(const Arguments *arguments)
{
  return arguments->help;
}

bool argument_split(const char *option, const char *text, char **name, char **value, GError **error)
{
  const char *equals = strchr(text, '=');
  if (!equals || equals == text || !equals[1]) {
    error_set(error, ERROR_USAGE, NULL, "wrong-value", NULL, "--%s needs NAME=VALUE, not \"%s\"", option,
              text);
    return false;
  }
  *name = g_strndup(text, (gsize)(equals - text));
  *value = g_strdup(equals + 1);
  return true;
}
