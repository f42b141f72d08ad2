/* Values: description files as one tree with provenance, so that files can be laid over one another.
 *
 * Each leaf knows its own place, its source and whether it is a guess; a mapping's `source:` and `guess:`
 * hold for everything below it in the same file. A leaf may be written long, `{value: 132, source: ...,
 * guess: true}`. */
#pragma once
#include "base/arena.h"
#include "base/document.h"

/* VALUE_REMOVED: a null; it stays in the tree, where only value_removed() sees it. */
typedef enum { VALUE_LEAF, VALUE_MAP, VALUE_REMOVED } ValueKind;

typedef struct Value Value;
struct Value {
  ValueKind kind;
  const char *key;
  Mark key_mark, mark;
  Node *node;         /* leaf: the scalar or sequence */
  Node *clock;        /* leaf, long form: `clock:`, else NULL */
  const char *source; /* leaf: full text, NULL = none given */
  bool guess;
  bool taken;          /* a consumer knew this key */
  Value *first, *next; /* map: children in order of appearance */
};

/* Tree of a document root without the keys listed in skip. sources: name -> text, for `source: NAME`. Faults
 * are added to *error; the tree is complete but for what they concern. */
Value *value_build(Arena *arena, Node *root, const char *const *skip, GHashTable *sources, GError **error);
/* Lays `over` upon `base`: mappings merge key by key, null removes, anything else replaces. Returns base. */
Value *value_merge(Value *base, Value *over, GError **error);
Value *value_child(const Value *map, const char *key);
/* The null that removed a key of a base; NULL if none did. */
const Value *value_removed(const Value *map, const char *key);
/* Every child nobody took is an "unknown-key". */
void value_finish(const Value *map, const char *const *known_keys, const char *what, GError **error);
/* The text of a node's `source`: looks a single word up among the names. NULL and an error if it is not
 * there. */
const char *source_text(Node *node, GHashTable *sources, GError **error);
