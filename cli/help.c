/* Texts that derive from the rows of cli/commands.c. */
#include "cli/cli.h"
#include <string.h>

static const char program_doc[] = "generates GPU kernels from a description of operators and one of a GPU";

/* Options that every command has. */
static const Option common_options[] = {
    {.name = "json", .doc = "prints one JSON object on standard output; errors too"},
    {.name = "help", .doc = "shows this text"},
    {.name = NULL},
};

typedef struct ExitCode {
  int code;
  const char *doc;
} ExitCode;

static const ExitCode exit_codes[] = {
    {0, "success"},
    {1, "something that was named or written is wrong or unreadable"},
    {2, "the command line itself"},
    {3, "valid, but not supported"},
    {4, "a tool, driver or GPU is missing"},
    {5, "verification failed"},
    {70, "an internal error"},
};

typedef struct Variable {
  const char *name, *doc;
} Variable;

static const Variable variables[] = {
    {"ADLGEN_DATA_DIR", "folder with adl/ and templates/ that come before those built in"},
    {"ADLGEN_PTXAS", "the assembler to use"},
    {"CUDA_HOME, CUDA_PATH", "toolkits whose bin/ is searched for the assembler"},
    {"NO_COLOR", "if set, no colour is used"},
    {"TMPDIR", "where temporary folders are made"},
};

/* ---- --help ---- */

#define DOC_COLUMN 26

static void append_row(GString *text, const char *left, const char *doc)
{
  g_string_append_printf(text, "  %-*s", DOC_COLUMN - 2, left);
  if (strlen(left) > DOC_COLUMN - 4) g_string_append_printf(text, "\n%*s", DOC_COLUMN, "");
  g_string_append_printf(text, "%s\n", doc);
}

static char *option_left(const Option *option)
{
  return option->value ? g_strdup_printf("--%s %s%s", option->name, option->value, option->list ? ",..." : "")
                       : g_strdup_printf("--%s", option->name);
}

static char *option_doc(const Option *option)
{
  if (!option->choices) return g_strdup(option->doc);
  g_autofree char *choices = g_strjoinv(" | ", (char **)option->choices);
  return g_strdup_printf("%s (%s)", option->doc, choices);
}

static void append_options(GString *text, const Option *options)
{
  for (const Option *option = options; option && option->name; option++) {
    g_autofree char *left = option_left(option), *doc = option_doc(option);
    append_row(text, left, doc);
  }
}

static void append_wrapped(GString *text, const char *paragraph)
{
  g_auto(GStrv) words = g_strsplit(paragraph, " ", -1);
  size_t column = 0;
  for (char **word = words; *word; word++) {
    size_t length = strlen(*word);
    bool fits = column + 1 + length <= 100;
    g_string_append_printf(text, "%s%s", !column ? "" : fits ? " " : "\n", *word);
    column = column && fits ? column + 1 + length : length;
  }
  g_string_append_c(text, '\n');
}

char *help_program(void)
{
  GString *text = g_string_new("usage: adlgen COMMAND [OPTION]... [ARGUMENT]...\n\n");
  g_string_append_printf(text, "adlgen %s.\n\ncommands:\n", program_doc);
  for (const Command *command = commands; command->name; command++)
    append_row(text, command->name, command->doc);
  g_string_append(text, "\noptions:\n");
  append_row(text, "--version", "prints the version");
  append_row(text, "--help", "shows this text; adlgen COMMAND --help that of a command");
  g_string_append(text, "\nexit codes:\n");
  for (unsigned i = 0; i < G_N_ELEMENTS(exit_codes); i++)
    g_string_append_printf(text, "  %-*d%s\n", DOC_COLUMN - 2, exit_codes[i].code, exit_codes[i].doc);
  return g_string_free(text, FALSE);
}

char *help_command(const Command *command)
{
  GString *text = g_string_new(NULL);
  g_string_append_printf(text, "usage: adlgen %s%s%s [OPTION]...\n\n", command->name,
                         *command->arguments ? " " : "", command->arguments);
  g_string_append_printf(text, "adlgen %s %s.\n", command->name, command->doc);
  if (command->details) {
    g_string_append_c(text, '\n');
    append_wrapped(text, command->details);
  }
  if (command->actions) g_string_append(text, "\nactions:\n");
  for (const Action *action = command->actions; action && action->name; action++) {
    g_autofree char *left = g_strdup_printf("%s %s", action->name, action->arguments);
    append_row(text, g_strchomp(left), action->doc);
  }
  g_string_append(text, "\noptions:\n");
  append_options(text, command->options);
  append_options(text, common_options);
  if (command->examples) g_string_append_printf(text, "\nexamples:\n%s", command->examples);
  return g_string_free(text, FALSE);
}

/* ---- the man page ---- */

static void append_roff(GString *page, const char *text)
{
  for (const char *c = text; *c; c++) {
    if (*c == '\\' || *c == '-') g_string_append_c(page, '\\');
    g_string_append(page, *c == '\\' ? "e" : (const char[]){*c, 0});
  }
}

static void append_item(GString *page, const char *tag, const char *doc)
{
  g_string_append(page, ".TP\n.B ");
  append_roff(page, tag);
  g_string_append_c(page, '\n');
  append_roff(page, doc);
  g_string_append(page, ".\n");
}

static void append_man_options(GString *page, const Option *options)
{
  for (const Option *option = options; option && option->name; option++) {
    g_autofree char *left = option_left(option), *doc = option_doc(option);
    append_item(page, left, doc);
  }
}

static void append_man_command(GString *page, const Command *command)
{
  g_string_append_printf(page, ".SS adlgen %s ", command->name);
  append_roff(page, command->arguments);
  g_string_append_c(page, '\n');
  append_roff(page, command->doc);
  g_string_append(page, ".\n");
  if (command->details) {
    g_string_append(page, ".PP\n");
    append_roff(page, command->details);
    g_string_append_c(page, '\n');
  }
  for (const Action *action = command->actions; action && action->name; action++) {
    g_autofree char *left = g_strdup_printf("%s %s", action->name, action->arguments);
    append_item(page, g_strchomp(left), action->doc);
  }
  append_man_options(page, command->options);
  if (!command->examples) return;
  g_string_append(page, ".PP\nExamples:\n.PP\n.nf\n");
  append_roff(page, command->examples);
  g_string_append(page, ".fi\n");
}

char *help_man_page(const char *version)
{
  GString *page = g_string_new(NULL);
  g_string_append_printf(page, ".TH ADLGEN 1 \"\" \"adlgen %s\" \"User Commands\"\n.SH NAME\nadlgen \\- %s\n",
                         version, program_doc);
  g_string_append(
      page, ".SH SYNOPSIS\n.B adlgen\n.I COMMAND\n[\\fIOPTION\\fR]... [\\fIARGUMENT\\fR]...\n.SH COMMANDS\n");
  for (const Command *command = commands; command->name; command++)
    append_man_command(page, command);
  g_string_append(page, ".SH OPTIONS OF EVERY COMMAND\n");
  append_man_options(page, common_options);
  g_string_append(page, ".SH EXIT STATUS\n");
  for (unsigned i = 0; i < G_N_ELEMENTS(exit_codes); i++) {
    g_autofree char *tag = g_strdup_printf("%d", exit_codes[i].code);
    append_item(page, tag, exit_codes[i].doc);
  }
  g_string_append(page, ".SH ENVIRONMENT\n");
  for (unsigned i = 0; i < G_N_ELEMENTS(variables); i++)
    append_item(page, variables[i].name, variables[i].doc);
  return g_string_free(page, FALSE);
}
