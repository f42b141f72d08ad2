#include "cli/assembler_option.h"
#include <string.h>

const char *const assembler_choices[] = {"ptxas", "nvjitlink", NULL};

Assembler *assembler_of_options(const Cli *cli, const Arguments *arguments, GError **error)
{
  Cache *cache = cache_open(argument_flag(arguments, "no-cache") ? "" : NULL, 0);
  const char *name = argument_value(arguments, "assembler");
  if (name && !strcmp(name, "nvjitlink")) return assembler_load_nvjitlink(cache, error);
  return assembler_find_cached(argument_value(arguments, "ptxas"), cli->program_folder, cache, error);
}

void assembler_report_cache(const Cli *cli, const Assembler *assembler)
{
  const char *warning = assembler && assembler->cache ? cache_warning(assembler->cache) : NULL;
  if (warning && !cli->json) fprintf(stderr, "warning: %s\n", warning);
}
