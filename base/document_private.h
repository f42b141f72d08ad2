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
/* The tree of a source that is plain JSON: ASCII, no escapes in strings, no tabs. NULL: it is not, or not
 * right; libyaml reads it then, or says what is wrong. What this accepts, libyaml reads as the same tree. */
Document *document_read_json(Source *source);
/* The way of all other sources. */
Document *document_read_yaml(Source *source, GError **error);
