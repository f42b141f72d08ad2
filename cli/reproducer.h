/* After an internal error: a folder with all that is needed to see it again. */
#pragma once
#include "cli/cli.h"
#include "execute/build.h"

/* Writes the input, the GPU descriptions, the kernels made so far and the messages into a new temporary
 * folder and adds a note with its name to *error. source and build may be NULL. */
void reproducer_write(const Source *source, const Build *build, const Cli *cli, GError **error);
