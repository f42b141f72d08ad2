/* What a compiler's result depends on, as a key of the cache: the program's build, the description of the GPU, the graph's text, the
 * options, the templates, measured choices, and the files that hold constants of the graph. */
#pragma once
#include "generator/compile/compile.h"
#include "runtime/cache.h"
#include <jansson.h>

typedef struct ProgramInput {
  const Source *source; /* of the graph */
  const Gpu *gpu;
  const CompileOptions *compile;
  const char *const *dims;  /* NULL-terminated, or NULL */
  const char *const *tuned; /* files of measured choices, as of tuned_database_open() */
  bool no_tuned;            /* no measured choice counts */
} ProgramInput;

/* kind: what is kept under the key. false: what the result depends on is not known, so nothing is kept. */
bool program_key(const char *kind, const ProgramInput *input, char key[CACHE_KEY_LENGTH + 1]);

/* Files from which the graph takes constants, each as it is now: the text of a graph names them, and the compiler looks into small
 * ones. NULL: one cannot be asked. */
json_t *program_files(const Graph *graph);
/* They are as they were. */
bool program_files_same(const json_t *files);

/* Adds names and hashes of the user's own files of a folder of data; what the program has inside, its build covers. false: one
 * cannot be read. */
bool program_add_texts(GString *text, const char *folder);
