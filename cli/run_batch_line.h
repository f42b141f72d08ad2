/* A line of `adlgen run --batch`, read: docs/cli.md has a table of its keys. What is wrong in it is told with its place in
 * the file of lines. */
#pragma once
#include "base/document.h"
#include "generator/front/graph.h"
#include "generator/options.h"

typedef struct BatchLine {
  Document *document; /* what follows points into it */
  Node *words;
  const char *label, *gpu;              /* label: NULL if there is none */
  Node *graph;                          /* an object, or the name of a file */
  Node *dims, *set, *offset, *in_place; /* a mapping and three lists of texts; NULL: there is none */
  GraphBinding *bindings;               /* of dims */
  unsigned n_bindings, n_constants;     /* constants: bound before compiling: all with "fixed", else none */
  unsigned sms, skew;
  uint64_t seed;
  Accumulate accumulate;
  bool admit_wide;
  const char *checkers; /* of the simulator; NULL: all */
} BatchLine;

/* Reads line `number`, counted from 1, of the file; false: *error has what is wrong, and label is read all the same if it
 * can be. Free with batch_line_clear() in either case. */
bool batch_line_read(BatchLine *line, const Source *file, const char *text, unsigned number, GError **error);
void batch_line_clear(BatchLine *line);
/* What decides the kernels: lines with the same key compile alike. g_free. */
char *batch_line_key(const BatchLine *line);
/* Text of the line's graph, with places in the file of lines, or of the file that it names. */
Source *batch_line_graph(const BatchLine *line, GError **error);
/* Gives what *error has without a place that of a node, or of the whole line if the node is NULL. Returns false. */
bool batch_line_place(const BatchLine *line, const Node *node, GError **error);
