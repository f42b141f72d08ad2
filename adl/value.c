#include "adl/value.h"
#include <string.h>

/* No mapping of a description comes near it; what does is not one, and may not cost time that grows with its
 * square. */
#define MAX_KEYS 500

#define FROM_MEMORY "from memory, not verified"

typedef struct {
  const char *source;
  bool guess;
} Provenance;

typedef struct {
  Arena *arena;
  GHashTable *sources;
  GError **error;
} Builder;

const char *source_text(Node *node, GHashTable *sources, GError **error)
{
  const char *text;
  if (!node_string(node, &text, error)) return NULL;
  if (strchr(text, ' ')) return text; /* several words are the source itself */
  const char *named = g_hash_table_lookup(sources, text);
  if (named) return named;
  g_autofree char **names = (char **)g_hash_table_get_keys_as_array(sources, NULL);
  const char *near = nearest_name(text, (const char *const *)names);
  g_autofree char *hint =
      near ? g_strdup_printf("did you mean `%s`?", near)
           : g_strdup("one word names an entry of `sources:`; several words are taken as the source itself");
  error_add(error, ERROR_INPUT, SEVERITY_ERROR, &node->mark, "unknown-source", hint, "unknown source `%s`",
            text);
  return NULL;
}

/* `source:` and `guess:` of a mapping; what it does not say holds on from outside. */
static Provenance provenance_of(Builder *builder, Node *mapping, Provenance outer)
{
  Provenance own = outer;
  Node *source = node_get(mapping, "source"), *guess = node_get(mapping, "guess");
  if (source) {
    own = (Provenance){source_text(source, builder->sources, builder->error), false};
    if (!own.source) own.source = "?"; /* reported once is enough */
  }
  if (guess && node_boolean(guess, &own.guess, builder->error) && own.guess && !source)
    own.source = FROM_MEMORY;
  return own;
}

static Value *build(Builder *builder, Node *node, Provenance provenance, const char *const *skip);

static void build_long_form(Builder *builder, Value *leaf, Node *mapping, Provenance provenance)
{
  static const char *const known[] = {"value", "source", "guess", "clock", NULL};
  provenance = provenance_of(builder, mapping, provenance);
  leaf->node = node_get(mapping, "value");
  leaf->clock = node_get(mapping, "clock");
  leaf->mark = leaf->node->mark;
  leaf->source = provenance.source;
  leaf->guess = provenance.guess;
  node_finish(mapping, known, builder->error);
}

static void build_children(Builder *builder, Value *map, Node *mapping, Provenance provenance,
                           const char *const *skip)
{
  if (mapping->n > MAX_KEYS) {
    error_add(builder->error, ERROR_INPUT, SEVERITY_ERROR, &mapping->mark, "too-large", NULL,
              "more than %d keys in one mapping", MAX_KEYS);
    return;
  }
  provenance = provenance_of(builder, mapping, provenance);
  Value **link = &map->first;
  for (unsigned i = 0; i < mapping->n; i++) {
    const char *key = mapping->keys[i];
    if (!strcmp(key, "source") || !strcmp(key, "guess") || (skip && g_strv_contains(skip, key))) continue;
    Value *child = build(builder, mapping->items[i], provenance, NULL);
    child->key = key;
    child->key_mark = mapping->key_marks[i];
    *link = child;
    link = &child->next;
  }
}

static Value *build(Builder *builder, Node *node, Provenance provenance, const char *const *skip)
{
  Value *value = arena_new_object(builder->arena, Value);
  value->mark = node->mark;
  if (node->kind == NODE_MAPPING && !skip && node_get(node, "value")) {
    build_long_form(builder, value, node, provenance);
  } else if (node->kind == NODE_MAPPING) {
    value->kind = VALUE_MAP;
    build_children(builder, value, node, provenance, skip);
  } else if (node_is_null(node)) {
    value->kind = VALUE_REMOVED;
  } else {
    value->node = node;
    value->source = provenance.source;
    value->guess = provenance.guess;
  }
  return value;
}

Value *value_build(Arena *arena, Node *root, const char *const *skip, GHashTable *sources, GError **error)
{
  Builder builder = {arena, sources, error};
  return build(&builder, root, (Provenance){NULL, false}, skip);
}

Value *value_child(const Value *map, const char *key)
{
  for (Value *child = map ? map->first : NULL; child; child = child->next)
    if (!strcmp(child->key, key) && child->kind != VALUE_REMOVED) return child;
  return NULL;
}

const Value *value_removed(const Value *map, const char *key)
{
  for (const Value *child = map ? map->first : NULL; child; child = child->next)
    if (!strcmp(child->key, key) && child->kind == VALUE_REMOVED) return child;
  return NULL;
}

/* NULL-terminated keys of a mapping; caller frees the array. */
static const char **child_keys(const Value *map)
{
  GPtrArray *keys = g_ptr_array_new();
  for (const Value *child = map->first; child; child = child->next)
    if (child->kind != VALUE_REMOVED) g_ptr_array_add(keys, (void *)child->key);
  g_ptr_array_add(keys, NULL);
  return (const char **)g_ptr_array_free(keys, FALSE);
}

static void nothing_to_remove(const Value *base, const Value *over, GError **error)
{
  g_autofree const char **keys = child_keys(base);
  const char *near = nearest_name(over->key, keys);
  g_autofree char *list = g_strjoinv(", ", (char **)keys);
  g_autofree char *hint = near    ? g_strdup_printf("did you mean `%s`?", near)
                          : *keys ? g_strdup_printf("null removes a key of the base, which has %s", list)
                                  : g_strdup("null removes a key of the base, and here the base has none");
  error_add(error, ERROR_INPUT, SEVERITY_ERROR, &over->key_mark, "nothing-to-remove", hint,
            "there is no `%.80s` to remove", over->key);
}

Value *value_merge(Value *base, Value *over, GError **error)
{
  for (Value *child = over->first, *next; child; child = next) {
    next = child->next;
    Value **link = &base->first;
    while (*link && strcmp((*link)->key, child->key))
      link = &(*link)->next;
    Value *old = *link;
    if (child->kind == VALUE_REMOVED) {
      if (!old || old->kind == VALUE_REMOVED) {
        nothing_to_remove(base, child, error);
      } else {
        child->next = old->next;
        *link = child;
      }
    } else if (old && old->kind == VALUE_MAP && child->kind == VALUE_MAP) {
      /* Faults that concern the whole mapping are shown where it was touched last. */
      old->key_mark = child->key_mark;
      old->mark = child->mark;
      value_merge(old, child, error);
    } else if (child->kind == VALUE_MAP) {
      /* Through an empty mapping, so that a null below it is noticed. */
      Value *rest = child->first;
      child->first = NULL;
      Value holder = {.kind = VALUE_MAP, .first = rest};
      value_merge(child, &holder, error);
      child->next = old ? old->next : NULL;
      *link = child;
    } else {
      child->next = old ? old->next : NULL;
      *link = child;
    }
  }
  return base;
}

void value_finish(const Value *map, const char *const *known_keys, const char *what, GError **error)
{
  for (const Value *child = map->first; child; child = child->next) {
    if (child->taken || child->kind == VALUE_REMOVED) continue;
    const char *near = nearest_name(child->key, known_keys);
    g_autofree char *list = g_strjoinv(", ", (char **)known_keys);
    g_autofree char *hint = near ? g_strdup_printf("did you mean `%s`? Known: %s", near, list)
                                 : g_strdup_printf("known: %s", list);
    error_add(error, ERROR_INPUT, SEVERITY_ERROR, &child->key_mark, "unknown-key", hint, "unknown %s `%.80s`",
              what, child->key);
  }
}
