/* How the kernels of a command are shown. */
#pragma once
#include "cli/cli.h"
#include "execute/build.h"

/* The table of kernels, their costly findings, and where the files are; with the explanation if asked for. */
void report_print(const Build *build, const Cli *cli, const char *folder, bool explain);
/* The same as an object (docs/schemas/compile.schema.json); caller owns. */
json_t *report_json(const Build *build, const char *folder, bool explain);
/* A line on standard error that is overwritten; data is the word for what is done. For terminals. */
void report_progress(unsigned done, unsigned n, void *data);
/* report_progress where a person watches, else NULL. */
void (*report_progress_of(const Cli *cli))(unsigned done, unsigned n, void *data);
