/* A graph's compiled kernels and plan in the cache, so that a program that writes them does not compile again. */
#pragma once
#include "generator/compile/compile.h"
#include "runtime/cache.h"
#include <jansson.h>

/* What was kept under the key, made of the same files; NULL: nothing, or it cannot be read. */
CompileResult *result_recall(Cache *cache, const char *key);
/* files: program_files() of the graph, as they were when it was read. */
void result_keep(Cache *cache, const char *key, const CompileResult *result, const json_t *files);
