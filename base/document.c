#include "base/document_private.h"
#include "base/foreign.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#define MAX_UNKNOWN_KEYS   50 /* reported of one mapping */
#define MAX_DOCUMENT_BYTES ((size_t)64 * 1024 * 1024)

/* ---- building the tree from parser events ---- */

typedef struct {
  Document *document;
  yaml_parser_t parser;
  yaml_event_t event; /* the current one */
  bool has_event;
  unsigned depth;
} Reader;

static Mark mark_at(Reader *reader, yaml_mark_t at)
{
  return (Mark){reader->document->source, (unsigned)at.line + 1, (unsigned)at.column + 1};
}

/* The place of a byte; columns count bytes, since what goes before may be no text. */
static Mark mark_of(Source *source, size_t offset)
{
  Mark mark = {source, 1, 1};
  for (size_t i = 0; i < offset && i < source->length; i++) {
    mark.column = source->text[i] == '\n' ? 1 : mark.column + 1;
    mark.line += source->text[i] == '\n';
  }
  return mark;
}

static bool report_parser(Reader *reader, GError **error)
{
  yaml_parser_t *parser = &reader->parser;
  const char *problem = parser->problem ? parser->problem : "not readable";
  Mark mark = mark_at(reader, parser->problem_mark);
  /* Encoding errors carry a byte offset instead of a mark. */
  if (parser->error == YAML_READER_ERROR) mark = mark_of(reader->document->source, parser->problem_offset);
  if (parser->context)
    error_add(error, ERROR_INPUT, SEVERITY_ERROR, &mark, "syntax", NULL, "%s, %s", parser->context, problem);
  else
    error_add(error, ERROR_INPUT, SEVERITY_ERROR, &mark, "syntax", NULL, "%s", problem);
  return false;
}

static bool next_event(Reader *reader, GError **error)
{
  if (reader->has_event) yaml_event_delete(&reader->event);
  reader->has_event = false;
  if (!yaml_parser_parse(&reader->parser, &reader->event)) return report_parser(reader, error);
  reader->has_event = true;
  return true;
}

static bool refuse(Reader *reader, const char *code, const char *what, const char *hint, GError **error)
{
  Mark mark = mark_at(reader, reader->event.start_mark);
  error_add(error, ERROR_INPUT, SEVERITY_ERROR, &mark, code, hint, "%s", what);
  return false;
}

static bool refuse_decoration(Reader *reader, const yaml_char_t *anchor, const yaml_char_t *tag,
                              GError **error)
{
  if (anchor) return refuse(reader, "syntax", "anchors are not allowed", "write the value out", error);
  if (tag) return refuse(reader, "syntax", "tags are not allowed", "remove the tag", error);
  return true;
}

static Node *read_node(Reader *reader, GError **error);

static Node *new_node(Reader *reader, NodeKind kind)
{
  Node *node = arena_new_object(reader->document->arena, Node);
  node->kind = kind;
  node->mark = mark_at(reader, reader->event.start_mark);
  return node;
}

static Node *read_scalar(Reader *reader, GError **error)
{
  yaml_event_t *event = &reader->event;
  if (!refuse_decoration(reader, event->data.scalar.anchor, event->data.scalar.tag, error)) return NULL;
  const char *text = (const char *)event->data.scalar.value;
  if (memchr(text, 0, event->data.scalar.length)) {
    refuse(reader, "syntax", "a NUL character is not allowed", NULL, error);
    return NULL;
  }
  Node *node = new_node(reader, NODE_SCALAR);
  node->text = arena_strndup(reader->document->arena, text, event->data.scalar.length);
  node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
  return node;
}

static Node *read_sequence(Reader *reader, GError **error)
{
  yaml_event_t *event = &reader->event;
  if (!refuse_decoration(reader, event->data.sequence_start.anchor, event->data.sequence_start.tag, error))
    return NULL;
  Node *node = new_node(reader, NODE_SEQUENCE);
  g_autoptr(GPtrArray) items = g_ptr_array_new();
  for (;;) {
    if (!next_event(reader, error)) return NULL;
    if (reader->event.type == YAML_SEQUENCE_END_EVENT) break;
    Node *item = read_node(reader, error);
    if (!item) return NULL;
    g_ptr_array_add(items, item);
  }
  node->n = items->len;
  node->items = arena_memdup(reader->document->arena, items->pdata, items->len * sizeof(Node *));
  return node;
}

void document_refuse_duplicate(const Node *key, const Node *earlier, GError **error)
{
  error_add(error, ERROR_INPUT, SEVERITY_ERROR, &key->mark, "duplicate-key", NULL, "duplicate key `%.80s`",
            key->text);
  error_add(error, ERROR_INPUT, SEVERITY_NOTE, &earlier->mark, "duplicate-key", NULL, "first given here");
}

/* Reads a key; the earlier pair of the same name, if there is one, makes it an error. */
static Node *read_key(Reader *reader, GHashTable *seen, GError **error)
{
  if (reader->event.type != YAML_SCALAR_EVENT) {
    refuse(reader, "syntax", "a key must be a plain name", NULL, error);
    return NULL;
  }
  Node *key = read_scalar(reader, error);
  if (!key) return NULL;
  Node *earlier = g_hash_table_lookup(seen, key->text);
  if (earlier) {
    document_refuse_duplicate(key, earlier, error);
    return NULL;
  }
  g_hash_table_insert(seen, (void *)key->text, key);
  return key;
}

void node_set_pairs(Arena *arena, Node *node, const GPtrArray *keys, const GPtrArray *values)
{
  node->n = keys->len;
  node->items = arena_memdup(arena, values->pdata, values->len * sizeof(Node *));
  node->keys = arena_new_array(arena, const char *, node->n);
  node->key_marks = arena_new_array(arena, Mark, node->n);
  node->taken = arena_new_array(arena, bool, node->n);
  for (unsigned i = 0; i < node->n; i++) {
    node->keys[i] = ((Node *)keys->pdata[i])->text;
    node->key_marks[i] = ((Node *)keys->pdata[i])->mark;
  }
}

static Node *read_mapping(Reader *reader, GError **error)
{
  yaml_event_t *event = &reader->event;
  if (!refuse_decoration(reader, event->data.mapping_start.anchor, event->data.mapping_start.tag, error))
    return NULL;
  Arena *arena = reader->document->arena;
  Node *node = new_node(reader, NODE_MAPPING);
  g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
  g_autoptr(GPtrArray) keys = g_ptr_array_new();
  g_autoptr(GPtrArray) values = g_ptr_array_new();
  for (;;) {
    if (!next_event(reader, error)) return NULL;
    if (reader->event.type == YAML_MAPPING_END_EVENT) break;
    Node *key = read_key(reader, seen, error);
    if (!key || !next_event(reader, error)) return NULL;
    Node *value = read_node(reader, error);
    if (!value) return NULL;
    g_ptr_array_add(keys, key);
    g_ptr_array_add(values, value);
  }
  node_set_pairs(arena, node, keys, values);
  return node;
}

/* The value that begins at the current event; leaves its last event current. */
static Node *read_node(Reader *reader, GError **error)
{
  if (reader->depth >= DOCUMENT_MAX_DEPTH) {
    refuse(reader, "too-deep", "nested deeper than 64 levels", NULL, error);
    return NULL;
  }
  Node *node = NULL;
  reader->depth++;
  switch (reader->event.type) {
  case YAML_SCALAR_EVENT: node = read_scalar(reader, error); break;
  case YAML_SEQUENCE_START_EVENT: node = read_sequence(reader, error); break;
  case YAML_MAPPING_START_EVENT: node = read_mapping(reader, error); break;
  case YAML_ALIAS_EVENT:
    refuse(reader, "syntax", "aliases are not allowed", "write the value out", error);
    break;
  default: refuse(reader, "syntax", "a value is expected here", NULL, error); break;
  }
  reader->depth--;
  return node;
}

static bool read_document(Reader *reader, GError **error)
{
  if (!next_event(reader, error)) return false; /* stream start */
  if (!next_event(reader, error)) return false;
  if (reader->event.type == YAML_STREAM_END_EVENT)
    return refuse(reader, "empty", "the file holds no document", NULL, error);
  if (!next_event(reader, error)) return false;
  if (!(reader->document->root = read_node(reader, error))) return false;
  if (!next_event(reader, error)) return false; /* document end */
  if (!next_event(reader, error)) return false;
  if (reader->event.type != YAML_STREAM_END_EVENT)
    return refuse(reader, "syntax", "a second document begins here", "one document per file", error);
  return true;
}

Document *document_read_yaml(Source *source, GError **error)
{
  g_autoptr(Document) document = g_new0(Document, 1);
  document->arena = arena_new();
  document->source = source_ref(source);
  Reader reader = {.document = document};
  if (!yaml_parser_initialize(&reader.parser)) g_error("libyaml: out of memory");
  yaml_parser_set_input_string(&reader.parser, (const unsigned char *)source->text, source->length);
  bool ok = read_document(&reader, error);
  if (reader.has_event) yaml_event_delete(&reader.event);
  yaml_parser_delete(&reader.parser);
  return ok ? g_steal_pointer(&document) : NULL;
}

bool document_is_foreign(Source *source, ErrorCode code, GError **error)
{
  const ForeignFormat *format = foreign_format(source->text, source->length, true);
  Mark mark = {source, 0, 0};
  if (!format) return false;
  error_set(error, code ? code : format->code, &mark, "foreign-format", format->hint,
            "this is %s, not JSON or YAML", format->name);
  return true;
}

/* A text, and of a size that one reads. */
static bool check_text(Source *source, GError **error)
{
  Mark start = {source, 1, 1};
  if (document_is_foreign(source, ERROR_INPUT, error)) return false;
  if (source->length > MAX_DOCUMENT_BYTES) {
    error_add(error, ERROR_INPUT, SEVERITY_ERROR, &start, "too-large", NULL, "larger than %zu MiB",
              MAX_DOCUMENT_BYTES >> 20);
    return false;
  }
  const char *nul = memchr(source->text, 0, source->length);
  if (!nul) return true;
  Mark mark = mark_of(source, (size_t)(nul - source->text));
  error_add(error, ERROR_INPUT, SEVERITY_ERROR, &mark, "syntax", NULL, "a NUL byte: this is not a text file");
  return false;
}

Document *document_parse_json(Source *source, GError **error)
{
  return check_text(source, error) ? document_read_json(source, error) : NULL;
}

Document *document_parse(Source *source, GError **error)
{
  if (!check_text(source, error)) return NULL;
  return document_is_json(source) ? document_read_json(source, error) : document_read_yaml(source, error);
}

Node *document_root(const Document *document)
{
  return document->root;
}

void document_free(Document *document)
{
  if (!document) return;
  arena_free(document->arena);
  source_unref(document->source);
  g_free(document);
}

/* ---- taking keys ---- */

Node *node_get(Node *mapping, const char *key)
{
  if (!mapping || mapping->kind != NODE_MAPPING) return NULL;
  for (unsigned i = 0; i < mapping->n; i++)
    if (!strcmp(mapping->keys[i], key)) {
      mapping->taken[i] = true;
      return mapping->items[i];
    }
  return NULL;
}

Node *node_require(Node *mapping, const char *key, GError **error)
{
  Node *value = node_get(mapping, key);
  if (!value)
    error_add(error, ERROR_INPUT, SEVERITY_ERROR, &mapping->mark, "missing-key", NULL, "missing key `%s`",
              key);
  return value;
}

bool node_finish(Node *mapping, const char *const *known_keys, GError **error)
{
  unsigned unknown = 0;
  if (!mapping || mapping->kind != NODE_MAPPING) return true;
  for (unsigned i = 0; i < mapping->n && unknown < MAX_UNKNOWN_KEYS; i++) {
    if (mapping->taken[i]) continue;
    unknown++;
    const char *near = nearest_name(mapping->keys[i], known_keys);
    g_autofree char *known = g_strjoinv(", ", (char **)known_keys);
    g_autofree char *hint = near ? g_strdup_printf("did you mean `%s`? Known keys: %s", near, known)
                                 : g_strdup_printf("known keys: %s", known);
    error_add(error, ERROR_INPUT, SEVERITY_ERROR, &mapping->key_marks[i], "unknown-key", hint,
              "unknown key `%.80s`", mapping->keys[i]);
  }
  return !unknown;
}

/* ---- typed reads ---- */

static const char *const kind_names[] = {"a single value", "a list", "a mapping"};

static bool wrong_type(Node *node, const char *expected, const char *hint, GError **error)
{
  if (node->kind != NODE_SCALAR)
    error_add(error, ERROR_INPUT, SEVERITY_ERROR, &node->mark, "wrong-type", hint, "expected %s, found %s",
              expected, kind_names[node->kind]);
  else if (!node->quoted && !*node->text)
    error_add(error, ERROR_INPUT, SEVERITY_ERROR, &node->mark, "wrong-type", hint,
              "expected %s, found nothing", expected);
  else
    error_add(error, ERROR_INPUT, SEVERITY_ERROR, &node->mark, "wrong-type", hint,
              node->quoted ? "expected %s, found the string \"%.60s\"" : "expected %s, found `%.60s`",
              expected, node->text);
  return false;
}

bool node_kind_is(Node *node, NodeKind kind, const char *what, GError **error)
{
  if (node->kind == kind) return true;
  g_autofree char *expected =
      what ? g_strdup_printf("%s (%s)", kind_names[kind], what) : g_strdup(kind_names[kind]);
  return wrong_type(node, expected, NULL, error);
}

bool node_is_null(const Node *node)
{
  return node->kind == NODE_SCALAR && !node->quoted &&
         (!strcmp(node->text, "null") || !strcmp(node->text, "~"));
}

/* Where the brace at p is closed; the text has been read as JSON. */
static const char *end_of_object(const char *p)
{
  unsigned depth = 0;
  bool quoted = false;
  for (; *p; p++) {
    if (quoted && *p == '\\' && p[1])
      p++;
    else if (*p == '"')
      quoted = !quoted;
    else if (!quoted && *p == '{')
      depth++;
    else if (!quoted && *p == '}' && !--depth)
      return p + 1;
  }
  return p;
}

Source *node_object_source(const Node *node)
{
  const Source *whole = node->mark.source;
  const char *start = whole->text;
  for (unsigned line = 1; line < node->mark.line; line++) {
    const char *end = strchr(start, '\n');
    if (!end) return NULL;
    start = end + 1;
  }
  for (unsigned column = 1; column < node->mark.column && *start; column++)
    start = g_utf8_next_char(start);
  if (node->kind != NODE_MAPPING || *start != '{') return NULL;
  GString *text = g_string_sized_new(whole->length);
  for (const char *p = whole->text; p < start; p = g_utf8_next_char(p))
    g_string_append_c(text, *p == '\n' ? '\n' : ' ');
  g_string_append_len(text, start, end_of_object(start) - start);
  Source *source = source_new(whole->name, text->str, text->len);
  g_string_free(text, TRUE);
  return source;
}

/* true if the unquoted text is one decimal number as JSON and YAML write it; *is_integer if it has no point.
 */
static bool looks_like_number(const char *text, bool *is_integer)
{
  const char *at = text;
  *is_integer = true;
  if (*at == '-' || *at == '+') at++;
  if (at[0] == '0' && (at[1] == 'x' || at[1] == 'X')) {
    size_t digits = strspn(at + 2, "0123456789abcdefABCDEF");
    return digits > 0 && !at[2 + digits];
  }
  size_t whole = strspn(at, "0123456789"), fraction = 0;
  at += whole;
  if (*at == '.') {
    *is_integer = false;
    fraction = strspn(at + 1, "0123456789");
    at += 1 + fraction;
  }
  if (!whole && !fraction) return false;
  if (*at == 'e' || *at == 'E') {
    *is_integer = false;
    at++;
    if (*at == '-' || *at == '+') at++;
    size_t exponent = strspn(at, "0123456789");
    if (!exponent) return false;
    at += exponent;
  }
  return !*at;
}

bool node_string(Node *node, const char **value, GError **error)
{
  bool is_integer;
  if (node->kind != NODE_SCALAR) return wrong_type(node, "a string", NULL, error);
  if (!node->quoted && !*node->text) return wrong_type(node, "a string", NULL, error);
  if (!node->quoted && (looks_like_number(node->text, &is_integer) || node_is_null(node) ||
                        !strcmp(node->text, "true") || !strcmp(node->text, "false")))
    return wrong_type(node, "a string", "put it in quotes if it is meant as text", error);
  *value = node->text;
  return true;
}

bool node_integer(Node *node, int64_t *value, GError **error)
{
  bool is_integer;
  if (node->kind != NODE_SCALAR || node->quoted || !looks_like_number(node->text, &is_integer) || !is_integer)
    return wrong_type(node, "an integer", NULL, error);
  const char *digits = node->text + (*node->text == '-' || *node->text == '+');
  bool hexadecimal = digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
  errno = 0;
  *value = g_ascii_strtoll(node->text, NULL, hexadecimal ? 16 : 10);
  if (errno != ERANGE) return true;
  error_add(error, ERROR_INPUT, SEVERITY_ERROR, &node->mark, "out-of-range", NULL,
            "`%.60s` does not fit into 64 bits", node->text);
  return false;
}

bool node_number(Node *node, double *value, GError **error)
{
  bool is_integer;
  if (node->kind != NODE_SCALAR || node->quoted || !looks_like_number(node->text, &is_integer))
    return wrong_type(node, "a number", NULL, error);
  *value = g_ascii_strtod(node->text, NULL);
  if (isfinite(*value)) return true;
  error_add(error, ERROR_INPUT, SEVERITY_ERROR, &node->mark, "out-of-range", NULL, "`%.60s` is too large",
            node->text);
  return false;
}

bool node_boolean(Node *node, bool *value, GError **error)
{
  if (node->kind == NODE_SCALAR && !node->quoted) {
    *value = !strcmp(node->text, "true");
    if (*value || !strcmp(node->text, "false")) return true;
  }
  return wrong_type(node, "true or false", NULL, error);
}
