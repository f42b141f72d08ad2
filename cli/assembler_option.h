/* The assembler and the cache that a command's options ask for. */
#pragma once
#include "cli/cli.h"
#include "runtime/assembler.h"

/* Rows for a command's options. */
#define OPTION_ASSEMBLER                                                                                     \
  {                                                                                                          \
    .name = "assembler", .value = "NAME", .choices = assembler_choices,                                      \
    .doc = "ptxas (default), or nvjitlink: a library, which gives other code"                                \
  }
#define OPTION_NO_CACHE                                                                                      \
  {                                                                                                          \
    .name = "no-cache", .doc = "assembles anew what the cache has, and keeps nothing there"                  \
  }
extern const char *const assembler_choices[];

/* By --ptxas, --assembler and --no-cache. */
Assembler *assembler_of_options(const Cli *cli, const Arguments *arguments, GError **error);
/* Tells a person on standard error, once, why there is no cache. */
void assembler_report_cache(const Cli *cli, const Assembler *assembler);
