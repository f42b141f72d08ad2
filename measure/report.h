/* `adlgen bench report`: figures of bench/results as pages and charts. */
#pragma once
#include "base/diagnostic.h"

/* Reads every bench/results/NAME.json under root (NULL: the current folder), writes docs/performance.md and
 * docs/performance-NAME.svg. */
bool bench_report(const char *root, GError **error);
