/* adlgen run --batch: many runs in one process, so that what they share (the GPU's context, a compiled graph)
 * is made once. docs/cli.md describes the lines. */
#pragma once
#include "cli/cli.h"

/* Reads a file (or - ) with a JSON object a line, runs each with --check on the place of --on, and prints a
 * JSON object a line. *n_failed counts those that did not pass. Stops behind a fault of a kernel that takes
 * the GPU's context with it; that line says "context": "lost", and the rest is the caller's to start again.
 */
bool run_batch(const Cli *cli, const Arguments *arguments, unsigned *n_failed, GError **error);
