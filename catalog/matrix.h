/* The matrix of a catalogue's entry: variables with a list of values each, and texts that refer to them. A reference is
 * {variable} or {variable.field}; docs/catalog.md says what it stands for. */
#pragma once
#include "base/document.h"
#include <jansson.h>

#define MATRIX_MAX_VARIABLES 16

/* One combination: a value of each variable. */
typedef struct MatrixBinding {
  unsigned n;
  const char *names[MATRIX_MAX_VARIABLES];
  const Node *values[MATRIX_MAX_VARIABLES];
} MatrixBinding;

/* The text with its references replaced; NULL, with *error at the node, if one names no variable, or one whose value is no
 * text. g_free. */
char *matrix_expand_text(const MatrixBinding *binding, const Node *node, GError **error);
/* The same of a whole tree, as JSON; the caller owns it. */
json_t *matrix_expand(const MatrixBinding *binding, const Node *node, GError **error);
