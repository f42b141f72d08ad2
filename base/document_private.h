/* What the readers that build documents share. Private to base/ and its tests. */
#pragma once
#include "base/arena.h"
#include "base/document.h"

#define DOCUMENT_MAX_DEPTH 64

struct Document {
  Arena *arena;
  Source *source;
  Node *root;
};

/* What a mapping holds: its keys (scalars) and, as many, their values. */
void node_set_pairs(Arena *arena, Node *node, const GPtrArray *keys, const GPtrArray *values);
/* "duplicate key", with a note where the first one stands. */
void document_refuse_duplicate(const Node *key, const Node *earlier, GError **error);

#define DOCUMENT_BOM "\xef\xbb\xbf" /* byte order mark that some editors put in front of UTF-8 */
/* Is the source JSON? By its name (.json, .yaml, .yml); else it is if it begins with a brace and
 * a quote: `{a: 1}` can only be YAML. */
bool document_is_json(const Source *source);
/* Neither reader takes NUL bytes: they end the text. */
Document *document_read_json(Source *source, GError **error);
Document *document_read_yaml(Source *source, GError **error);
