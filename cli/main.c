/* The program's entry: picks the command, prints errors, gives the exit code. */
#include "base/version.h"
#include "cli/cli.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

const Command *command_find(const char *name)
{
  for (const Command *command = commands; command->name; command++)
    if (!strcmp(command->name, name)) return command;
  return NULL;
}

static bool wants_colour(FILE *stream)
{
  const char *no_colour = g_getenv("NO_COLOR"), *term = g_getenv("TERM");
  return isatty(fileno(stream)) && !(no_colour && *no_colour) && g_strcmp0(term, "dumb") != 0;
}

static int report(const Cli *cli, GError *error)
{
  int code = error_exit_code(error);
  if (cli->json)
    cli_print_json(error_to_json(error));
  else
    cli_print_error(cli, error);
  g_error_free(error);
  return code;
}

static bool unknown_command(const char *name, GError **error)
{
  g_autoptr(GPtrArray) known = g_ptr_array_new();
  for (const Command *command = commands; command->name; command++)
    g_ptr_array_add(known, (char *)command->name);
  g_ptr_array_add(known, NULL);
  const char *near = nearest_name(name, (const char *const *)known->pdata);
  g_autofree char *hint =
      near ? g_strdup_printf("did you mean %s?", near) : g_strdup("adlgen --help lists them");
  if (name[0] == '-')
    error_set(error, ERROR_USAGE, NULL, "unknown-option", "adlgen --help lists commands and options",
              "unknown option %s", name);
  else
    error_set(error, ERROR_USAGE, NULL, "unknown-command", hint, "unknown command %s", name);
  return false;
}

static bool run_command(const Cli *cli, int n, char **words, GError **error)
{
  const Command *command = command_find(words[0]);
  if (!command) return unknown_command(words[0], error);
  g_autoptr(Arguments) arguments = arguments_parse(command, n - 1, words + 1, error);
  if (!arguments) return false;
  if (argument_wants_help(arguments)) {
    g_autofree char *text = help_command(command);
    fputs(text, stdout);
    return true;
  }
  return command->run(cli, arguments, error);
}

static bool is_one_of(const char *word, const char *a, const char *b)
{
  return !strcmp(word, a) || !strcmp(word, b);
}

/* A full disk or a closed pipe must not look like success. */
static int finish(const Cli *cli, int code)
{
  if (!fflush(stdout) && !ferror(stdout)) return code;
  if (errno == EPIPE) return code;
  GError *error = NULL;
  error_set(&error, ERROR_INPUT, NULL, "unwritable", NULL, "cannot write to standard output: %s",
            g_strerror(errno));
  error_print(error, stderr, false);
  g_error_free(error);
  return code ? code : ERROR_INPUT;
}

static int run(Cli *cli, int n, char **words)
{
  GError *error = NULL;
  if (n == 0) {
    g_autofree char *text = help_program();
    fputs(text, stderr);
    return ERROR_USAGE;
  }
  if (is_one_of(words[0], "--help", "-h")) {
    g_autofree char *text = help_program();
    fputs(text, stdout);
    return 0;
  }
  if (is_one_of(words[0], "--version", "-V")) {
    if (cli->json)
      cli_print_json(json_pack("{s:i, s:s}", "version", 1, "adlgen", ADLGEN_VERSION));
    else
      puts("adlgen " ADLGEN_VERSION);
    return 0;
  }
  return run_command(cli, n, words, &error) ? *cli->exit_code : report(cli, error);
}

/* What one kernel or run has freed the next one takes: given back to the system it comes as fresh pages, whose faults
 * took a fifth of the time of a batch on the simulator. */
static void keep_freed_memory(void)
{
#ifdef M_TRIM_THRESHOLD
  mallopt(M_TRIM_THRESHOLD, 256 << 20); /* more than blocks that run beside each other hold */
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  /* the most that malloc takes */
#endif
}

int main(int argc, char **argv)
{
  keep_freed_memory();
  g_autofree char *program = g_file_read_link("/proc/self/exe", NULL);
  g_autofree char *folder = program ? g_path_get_dirname(program) : NULL;
  int exit_code = 0;
  Cli cli = {.program_folder = folder, .exit_code = &exit_code};
  cli.colour = wants_colour(stdout);
  cli.error_colour = wants_colour(stderr);
  cli.terminal = isatty(fileno(stdout));
  cli.error_terminal = isatty(fileno(stderr));
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--")) break;
    cli.json |= !strcmp(argv[i], "--json");
  }
  return finish(&cli, run(&cli, argc - 1, argv + 1));
}
