/* The adlgen program: a thin face over the library.
 *
 * A command is one row of cli/commands.c: its name, options, actions and function. Parsing, --help, the man
 * page and the completion all derive from these rows. A command's function prints its result and returns
 * true, or sets an error; main() prints that and turns it into the exit code. */
#pragma once
#include "base/diagnostic.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct Option {
  const char *name;  /* without the dashes */
  const char *value; /* what --help calls its value; NULL: a flag */
  const char *const
      *choices;    /* the values it can take (a comma list of them if `list`), NULL-terminated; or NULL */
  bool repeated;   /* may be given several times */
  bool list;       /* takes a comma list */
  const char *doc; /* one line */
} Option;

typedef struct Action { /* the word after the command: `gpus show`, `catalog build` */
  const char *name, *arguments, *doc;
} Action;

typedef struct Cli Cli;
typedef struct Arguments Arguments;

typedef struct Command {
  const char *name;
  const char *arguments; /* positional arguments as --help shows them, "" if none */
  const char *doc;       /* one line */
  const char *details;   /* paragraphs for --help and the man page; may be NULL */
  const char *examples;  /* lines shown as they stand, each ended by \n; may be NULL */
  const Action *actions; /* ended by a NULL name; NULL if the command has none */
  bool action_required;
  unsigned least, most;  /* positional arguments, without the action; ignored if there are actions */
  const Option *options; /* ended by a NULL name; --json and --help come by themselves */
  bool (*run)(const Cli *cli, const Arguments *arguments, GError **error);
} Command;

extern const Command commands[]; /* ended by a NULL name */
const Command *command_find(const char *name);

/* What a command may know of its surroundings. */
struct Cli {
  const char *program_folder;        /* folder of the running program, or NULL */
  bool json;                         /* --json: one object on standard output */
  bool colour, terminal;             /* standard output takes colour, is a terminal */
  bool error_colour, error_terminal; /* the same of standard error */
  int *exit_code; /* set by a command that has printed its result and yet did not succeed */
};

/* ---- arguments ---- */

/* Parses the words after the command's name. ERROR_USAGE with a did-you-mean. */
Arguments *arguments_parse(const Command *command, int n, char **words, GError **error);
void arguments_free(Arguments *arguments);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Arguments, arguments_free)

const char *argument_action(const Arguments *arguments); /* NULL if none was given */
unsigned argument_count(const Arguments *arguments);     /* positional ones, without the action */
const char *argument_at(const Arguments *arguments, unsigned i);
bool argument_flag(const Arguments *arguments, const char *option);
const char *argument_value(const Arguments *arguments, const char *option); /* the last one given, or NULL */
/* Every value of a repeated option or comma list, in order; NULL-terminated, never NULL; owned by the
 * arguments. */
const char *const *argument_values(const Arguments *arguments, const char *option);
/* A whole number of an option; false with ERROR_USAGE if it is none. *value is left alone if the option is
 * absent. */
bool argument_unsigned(const Arguments *arguments, const char *option, unsigned *value, GError **error);
/* The same for what there must be one of at least. */
bool argument_positive(const Arguments *arguments, const char *option, unsigned *value, GError **error);
bool argument_wants_help(const Arguments *arguments);
/* Splits NAME=VALUE of an option; ERROR_USAGE if there is no `=` or no name. */
bool argument_split(const char *option, const char *text, char **name, char **value, GError **error);

/* ---- texts derived from the rows ---- */

char *help_program(void);
char *help_command(const Command *command);
char *help_man_page(const char *version);
char *completion_bash(void);
char *completion_zsh(void);
char *completion_fish(void);

/* ---- output ---- */

/* Prints an object, version first, and a line's end; takes the reference. */
void cli_print_json(json_t *object);
/* Warnings (NULL: none) go to standard error, or, with --json, as `errors` into the object that the command
 * prints. */
void cli_warn(const Cli *cli, const GError *warnings);
void cli_add_warnings(json_t *object, const GError *warnings);

/* An error on standard error, and how the built-in files that it points into can be read. */
void cli_print_error(const Cli *cli, const GError *error);
/* Prints a data file by its path, such as "templates/NAME.ir". */
bool cli_show_data(const Cli *cli, const char *path, const char *name, GError **error);
/* The name of a data file of a folder ("templates/"), from the name or from the path that messages give. Caller
 * frees. */
char *cli_data_name(const char *word, const char *folder, const char *suffix);

/* A table with aligned columns. A header that starts with '>' aligns its column to the right. */
typedef struct Table Table;
Table *table_new(const char *const *headers); /* NULL-terminated */
void table_free(Table *table);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Table, table_free)
void table_row(Table *table, ...) G_GNUC_NULL_TERMINATED; /* one string a column, then NULL */
char *table_text(const Table *table, bool colour);
void table_print(const Table *table, const Cli *cli);

/* ---- the commands ---- */

bool command_gpus(const Cli *cli, const Arguments *arguments, GError **error);
bool command_templates(const Cli *cli, const Arguments *arguments, GError **error);
bool command_ops(const Cli *cli, const Arguments *arguments, GError **error);
bool command_import(const Cli *cli, const Arguments *arguments, GError **error);
bool command_doctor(const Cli *cli, const Arguments *arguments, GError **error);
bool command_compile(const Cli *cli, const Arguments *arguments, GError **error);
bool command_sim(const Cli *cli, const Arguments *arguments, GError **error);
extern const Option sim_options[];
bool command_run(const Cli *cli, const Arguments *arguments, GError **error);
extern const Option run_options[];
bool command_bench(const Cli *cli, const Arguments *arguments, GError **error);
extern const Option bench_options[];
bool command_tune(const Cli *cli, const Arguments *arguments, GError **error);
extern const Option tune_options[];
bool command_cache(const Cli *cli, const Arguments *arguments, GError **error);
bool command_catalog(const Cli *cli, const Arguments *arguments, GError **error);
