/* Suites: files that name the work of a run. docs/bench.md describes the format. */
#pragma once
#include "measure/bench.h"

/* Cases (BenchCase *) of a suite: a path, or the name of one that is built in. only: a regular expression
 * that a case's name must match somewhere; NULL: all. ERROR_INPUT with the place of what is wrong. */
GPtrArray *bench_suite_load(const char *name_or_path, const char *only, GError **error);
