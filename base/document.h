/* Document: one positioned tree for YAML and JSON input: every node has file:line:col. Built from libyaml
 * events, or by a reader of JSON (document_json.c), which takes what RFC 8259 says and nothing else. A file
 * named .json is JSON, one named .yaml or .yml YAML; any other text (standard input) is JSON if it begins
 * as its objects do, `{"`. Refuses duplicate keys, anchors/aliases/tags, several documents in one file, NUL
 * characters, nesting deeper than 64, files above 64 MiB, and files that are of another format (foreign.h).
 * Strict by construction: consumers take keys with the document_* helpers and call document_finish(), which
 * reports every key nobody asked for. A document is immutable but for the "asked for" flags, so one thread at
 * a time. */
#pragma once
#include "base/diagnostic.h"
#include <stdbool.h>
#include <stdint.h>

typedef enum { NODE_SCALAR, NODE_SEQUENCE, NODE_MAPPING } NodeKind;

typedef struct Node Node;
struct Node {
  NodeKind kind;
  bool quoted;       /* scalar written in quotes: a string whatever it looks like */
  const char *text;  /* scalar: its text */
  unsigned n;        /* sequence: items; mapping: pairs */
  Node **items;      /* sequence: items; mapping: values */
  const char **keys; /* mapping only */
  Mark *key_marks;   /* mapping only */
  bool *taken;       /* mapping only: asked for by a consumer */
  Mark mark;
};

typedef struct Document Document;
/* Is the source of a format of foreign.h? Then that is an error, of the format's code or, with `code`, another
 * one (0: the format's). document_parse() asks too. */
bool document_is_foreign(Source *source, ErrorCode code, GError **error);
Document *document_parse(Source *source, GError **error); /* takes its own reference on source */
/* The same of JSON, however the source is called. */
Document *document_parse_json(Source *source, GError **error);
Node *document_root(const Document *document);
void document_free(Document *document);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Document, document_free)

/* Value of a key, or NULL; marks the key as taken. */
Node *node_get(Node *mapping, const char *key);
/* Same, but a missing key is an error ("missing-key") that names the mapping's place. */
Node *node_require(Node *mapping, const char *key, GError **error);
/* Every key of the mapping that nobody took is an error "unknown-key", listing the known ones (those in
 * known_keys, NULL-terminated) with a did-you-mean. */
bool node_finish(Node *mapping, const char *const *known_keys, GError **error);

/* Typed reads. Each reports "wrong-type" at the node. "unknown" handling is the consumer's. */
bool node_kind_is(Node *node, NodeKind kind, const char *what, GError **error);
bool node_string(Node *node, const char **value, GError **error);
bool node_integer(Node *node, int64_t *value, GError **error); /* decimal or 0x; no floats */
bool node_number(Node *node, double *value, GError **error);
bool node_boolean(Node *node, bool *value, GError **error); /* true / false only */
bool node_is_null(const Node *node);                        /* unquoted null or ~ */
/* An object of JSON inside of another text, as a source of its own in which everything keeps its line and column: what
 * stands around it is blank. NULL for a node that is written without braces. */
Source *node_object_source(const Node *node);
