/* Plain JSON, read four times as fast as libyaml does, which asks of every character what JSON cannot be: a
 * plan of thirty kernels is most of what a start from the cache reads. Only what needs no thought is read
 * here; the first character that does hands the whole source over to libyaml, so that there is one place for
 * messages and one meaning of a file. */
#include "base/document_private.h"
#include <string.h>

/* libyaml looks for a key's colon so far only, and on the key's line. */
#define MAX_KEY 1000

typedef struct Reader {
  Document *document;
  const char *at, *line_start;
  unsigned line, depth;
} Reader;

static Node *read_value(Reader *reader);

static Mark mark_here(const Reader *reader)
{
  return (Mark){reader->document->source, reader->line, (unsigned)(reader->at - reader->line_start) + 1};
}

static Node *new_node(Reader *reader, NodeKind kind)
{
  Node *node = arena_new_object(reader->document->arena, Node);
  node->kind = kind;
  node->mark = mark_here(reader);
  return node;
}

static void skip_blanks(Reader *reader)
{
  for (;; reader->at++) {
    if (*reader->at == '\n') {
      reader->line++;
      reader->line_start = reader->at + 1;
    } else if (*reader->at != ' ') {
      return;
    }
  }
}

/* Takes the character if it is next, and the blanks behind it. */
static bool take(Reader *reader, char character)
{
  if (*reader->at != character) return false;
  reader->at++;
  skip_blanks(reader);
  return true;
}

/* Behind a value, too: `1 2` is one text to libyaml. */
static bool ends_value(const Reader *reader)
{
  return *reader->at == ',' || *reader->at == ']' || *reader->at == '}' || *reader->at == ':' || !*reader->at;
}

static Node *read_string(Reader *reader)
{
  Node *node = new_node(reader, NODE_SCALAR);
  const char *start = ++reader->at;
  while (*reader->at >= ' ' && *reader->at < 0x7f && *reader->at != '"' && *reader->at != '\\')
    reader->at++;
  if (*reader->at != '"') return NULL;
  node->quoted = true;
  node->text = arena_strndup(reader->document->arena, start, (size_t)(reader->at - start));
  reader->at++;
  skip_blanks(reader);
  return ends_value(reader) ? node : NULL;
}

static bool is_word(const char *text, size_t length)
{
  static const char *const words[] = {"true", "false", "null"};
  for (unsigned i = 0; i < G_N_ELEMENTS(words); i++)
    if (strlen(words[i]) == length && !memcmp(words[i], text, length)) return true;
  return false;
}

static Node *read_plain(Reader *reader)
{
  Node *node = new_node(reader, NODE_SCALAR);
  const char *start = reader->at;
  size_t length = strspn(start, "-+.0123456789eE");
  /* a lone sign or two of them mean other things in YAML */
  bool number = length && (g_ascii_isdigit(*start) || (*start == '-' && g_ascii_isdigit(start[1])));
  if (!number) {
    length = strspn(start, "abcdefghijklmnopqrstuvwxyz");
    if (!is_word(start, length)) return NULL;
  }
  node->text = arena_strndup(reader->document->arena, start, length);
  reader->at += length;
  skip_blanks(reader);
  return ends_value(reader) && *reader->at != ':' ? node : NULL;
}

static Node *read_array(Reader *reader)
{
  Node *node = new_node(reader, NODE_SEQUENCE);
  take(reader, '[');
  g_autoptr(GPtrArray) items = g_ptr_array_new();
  while (*reader->at != ']') {
    Node *item = read_value(reader);
    if (!item) return NULL;
    g_ptr_array_add(items, item);
    if (!take(reader, ',')) break;
    if (*reader->at == ']') return NULL;
  }
  if (!take(reader, ']')) return NULL;
  node->n = items->len;
  node->items = arena_memdup(reader->document->arena, items->pdata, items->len * sizeof(Node *));
  return node;
}

/* Few keys are compared one by one: a table would take longer to make. */
static bool is_new(const GPtrArray *keys, const char *text)
{
  for (guint i = 0; i < keys->len; i++)
    if (!strcmp(((const Node *)keys->pdata[i])->text, text)) return false;
  return true;
}

#define MANY_KEYS 64

static bool read_pairs(Reader *reader, GPtrArray *keys, GPtrArray *values)
{
  while (*reader->at != '}') {
    const char *start = reader->at;
    unsigned line = reader->line;
    Node *key = *start == '"' && keys->len < MANY_KEYS ? read_string(reader) : NULL;
    if (!key || reader->line != line || reader->at - start > MAX_KEY) return false;
    if (!is_new(keys, key->text) || !take(reader, ':')) return false;
    Node *value = read_value(reader);
    if (!value) return false;
    g_ptr_array_add(keys, key);
    g_ptr_array_add(values, value);
    if (!take(reader, ',')) break;
    if (*reader->at == '}') return false;
  }
  return take(reader, '}');
}

static Node *read_object(Reader *reader)
{
  Arena *arena = reader->document->arena;
  Node *node = new_node(reader, NODE_MAPPING);
  g_autoptr(GPtrArray) keys = g_ptr_array_new(), values = g_ptr_array_new();
  take(reader, '{');
  if (!read_pairs(reader, keys, values)) return NULL;
  node_set_pairs(arena, node, keys, values);
  return node;
}

static Node *read_value(Reader *reader)
{
  if (reader->depth >= DOCUMENT_MAX_DEPTH) return NULL;
  reader->depth++;
  Node *node = NULL;
  switch (*reader->at) {
  case '{': node = read_object(reader); break;
  case '[': node = read_array(reader); break;
  case '"': node = read_string(reader); break;
  default: node = read_plain(reader); break;
  }
  reader->depth--;
  return node;
}

Document *document_read_json(Source *source)
{
  if (*source->text != '{' && *source->text != '[') return NULL;
  g_autoptr(Document) document = g_new0(Document, 1);
  document->arena = arena_new();
  document->source = source_ref(source);
  Reader reader = {.document = document, .at = source->text, .line_start = source->text, .line = 1};
  document->root = read_value(&reader);
  return document->root && reader.at == source->text + source->length ? g_steal_pointer(&document) : NULL;
}
