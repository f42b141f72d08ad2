/* `adlgen bench report`: figures of bench/results as pages and charts. */
#pragma once
#include "base/diagnostic.h"
#include <jansson.h>

/* Reads every bench/results/NAME.json under root (NULL: the current folder), writes docs/performance.md and
 * docs/performance-NAME.svg, and appends their paths to the array `files`. */
bool bench_report(const char *root, json_t *files, GError **error);
