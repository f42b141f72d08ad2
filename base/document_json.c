/* JSON as RFC 8259 has it and no more, with the place of every value: Jansson gives none, and libyaml, which
 * takes four times as long, neither joins surrogate pairs nor looks further than 1,024 characters for a key's
 * colon. A plan of thirty kernels is most of what a start from the cache reads, so what is plain (ASCII
 * without escapes) is copied in one go. */
#include "base/document_private.h"
#include <string.h>

typedef struct Reader {
  Document *document;
  const char *at, *end;
  /* Where the line would begin if each of its characters so far had one byte: columns count characters. */
  const char *line_start;
  unsigned line, depth;
  GString *unescaped; /* of the string that is being read */
  GError **error;
} Reader;

static Node *read_value(Reader *reader);

/* ---- places and messages ---- */

static Mark mark_here(const Reader *reader)
{
  return (Mark){reader->document->source, reader->line, (unsigned)(reader->at - reader->line_start) + 1};
}

static bool refuse_at(Reader *reader, Mark mark, const char *hint, const char *format, ...)
    G_GNUC_PRINTF(4, 5);
static bool refuse_at(Reader *reader, Mark mark, const char *hint, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  g_autofree char *message = g_strdup_vprintf(format, arguments);
  va_end(arguments);
  error_add(reader->error, ERROR_INPUT, SEVERITY_ERROR, &mark, "syntax", hint, "%s", message);
  return false;
}

static bool refuse(Reader *reader, const char *hint, const char *message)
{
  return refuse_at(reader, mark_here(reader), hint, "%s", message);
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
    } else if (*reader->at != ' ' && *reader->at != '\t' && *reader->at != '\r') {
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

/* ---- strings ---- */

/* Four hexadecimal digits; -1: they are not. */
static int read_unit(const char *at)
{
  int unit = 0;
  for (unsigned i = 0; i < 4; i++) {
    int digit = g_ascii_xdigit_value(at[i]);
    if (digit < 0) return -1;
    unit = unit * 16 + digit;
  }
  return unit;
}

/* \uXXXX, or two of them for a character beyond 16 bits. */
static bool read_unicode_escape(Reader *reader)
{
  const char *at = reader->at;
  int unit = read_unit(at + 2), low;
  unsigned length = 6;
  if (unit < 0) return refuse(reader, NULL, "`\\u` needs four hexadecimal digits");
  if (!unit) return refuse(reader, NULL, "a NUL character is not allowed");
  gunichar character = (gunichar)unit;
  if (unit >= 0xd800 && unit <= 0xdfff) {
    low = unit < 0xdc00 && at[6] == '\\' && at[7] == 'u' ? read_unit(at + 8) : -1;
    if (low < 0xdc00 || low > 0xdfff)
      return refuse_at(reader, mark_here(reader), NULL, "`%.6s` is half of a surrogate pair", at);
    character = 0x10000 + (((gunichar)unit - 0xd800) << 10) + ((gunichar)low - 0xdc00);
    length = 12;
  }
  g_string_append_unichar(reader->unescaped, character);
  reader->at += length;
  return true;
}

static bool read_escape(Reader *reader)
{
  static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
  char letter = reader->at[1];
  if (letter == 'u') return read_unicode_escape(reader);
  const char *found = letter ? strchr(letters, letter) : NULL;
  if (!found) {
    bool shown = g_ascii_isgraph(letter);
    return refuse_at(reader, mark_here(reader), "a backslash itself is written `\\\\`",
                     shown ? "`\\%c` is no escape in JSON" : "a backslash with no letter behind it", letter);
  }
  g_string_append_c(reader->unescaped, meanings[found - letters]);
  reader->at += 2;
  return true;
}

static bool refuse_control(Reader *reader, Mark start)
{
  unsigned char c = (unsigned char)*reader->at;
  if (c == '\t') return refuse(reader, "write it as \\t", "a tab stands in a string");
  if (c && c != '\n' && c != '\r') {
    g_autofree char *hint = g_strdup_printf("write it as \\u%04x", c);
    return refuse_at(reader, mark_here(reader), hint, "a control character stands in a string");
  }
  return refuse_at(reader, start, c ? "write a new line as \\n" : NULL,
                   c ? "the string does not end on its line" : "the string does not end");
}

/* One character of several bytes. */
static bool read_wide(Reader *reader)
{
  gunichar character = g_utf8_get_char_validated(reader->at, reader->end - reader->at);
  if (character >= (gunichar)-2)
    return refuse_at(reader, mark_here(reader), "save the file as UTF-8", "a byte that is not UTF-8: 0x%02x",
                     (unsigned char)*reader->at);
  size_t length = (size_t)(g_utf8_next_char(reader->at) - reader->at);
  reader->at += length;
  reader->line_start += length - 1;
  return true;
}

/* The rest of a string from its first escape on; `from`: where what is not in reader->unescaped begins. */
static bool read_escaped(Reader *reader, const char *from, Mark start)
{
  g_string_truncate(reader->unescaped, 0);
  while (*reader->at != '"') {
    unsigned char c = (unsigned char)*reader->at;
    if (c == '\\') {
      g_string_append_len(reader->unescaped, from, reader->at - from);
      if (!read_escape(reader)) return false;
      from = reader->at;
    } else if (c < ' ') {
      return refuse_control(reader, start);
    } else if (c < 0x80) {
      reader->at++;
    } else if (!read_wide(reader)) {
      return false;
    }
  }
  g_string_append_len(reader->unescaped, from, reader->at - from);
  return true;
}

static Node *read_string(Reader *reader)
{
  Node *node = new_node(reader, NODE_SCALAR);
  Arena *arena = reader->document->arena;
  const char *start = ++reader->at;
  node->quoted = true;
  while ((unsigned char)*reader->at >= ' ' && *reader->at != '"' && *reader->at != '\\')
    if (!(*reader->at & 0x80))
      reader->at++;
    else if (!read_wide(reader))
      return NULL;
  if (*reader->at == '"') {
    node->text = arena_strndup(arena, start, (size_t)(reader->at - start));
  } else {
    if (!read_escaped(reader, start, node->mark)) return NULL;
    node->text = arena_strndup(arena, reader->unescaped->str, reader->unescaped->len);
  }
  reader->at++;
  skip_blanks(reader);
  return node;
}

/* ---- numbers and words ---- */

#define TOKEN_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789."

static bool refuse_number(Reader *reader, const char *why)
{
  return refuse_at(reader, mark_here(reader), why, "`%.*s` is no number in JSON",
                   (int)MIN(1 + strspn(reader->at + 1, TOKEN_LETTERS "+-"), 60), reader->at);
}

/* The end of the number that starts here; NULL: reported. */
static const char *number_end(Reader *reader)
{
  static const char digits[] = "0123456789";
  const char *at = reader->at + (*reader->at == '-');
  size_t n = strspn(at, digits);
  const char *why = NULL;
  if (!n)
    why = *at == '.' ? "a digit stands before the point" : "digits are missing";
  else if (*at == '0' && (at[1] == 'x' || at[1] == 'X'))
    why = "hexadecimal numbers are YAML's";
  else if (*at == '0' && n > 1)
    why = "a number has no leading zero";
  at += n;
  if (!why && *at == '.') {
    n = strspn(++at, digits);
    if (!n) why = "a digit stands behind the point";
    at += n;
  }
  if (!why && (*at == 'e' || *at == 'E')) {
    at += 1 + (at[1] == '-' || at[1] == '+');
    n = strspn(at, digits);
    if (!n) why = "the exponent is missing";
    at += n;
  }
  if (!why && (g_ascii_isalnum(*at) || *at == '.')) why = "something stands behind it";
  if (!why) return at;
  refuse_number(reader, why);
  return NULL;
}

static bool is_one_of(const char *word, size_t length, const char *const *words)
{
  for (; *words; words++)
    if (strlen(*words) == length && !g_ascii_strncasecmp(*words, word, length)) return true;
  return false;
}

/* What stands where a value should. */
static bool refuse_value(Reader *reader)
{
  static const char *const specials[] = {"nan",       "inf",  "infinity",  "-inf",
                                         "-infinity", "+inf", "+infinity", NULL};
  static const char *const constants[] = {"true", "false", "null", NULL}, *const nones[] = {"none", NULL};
  const char *at = reader->at;
  size_t length = (*at == '-' || *at == '+') + strspn(at + (*at == '-' || *at == '+'), TOKEN_LETTERS);
  if (is_one_of(at, length, specials))
    return refuse_at(reader, mark_here(reader),
                     "a constant's data take \"nan\", \"inf\" and \"-inf\", in quotes",
                     "`%.*s` is no value in JSON", (int)length, at);
  if (is_one_of(at, length, constants))
    return refuse_at(reader, mark_here(reader), "true, false and null are written small",
                     "`%.*s` is no value in JSON", (int)length, at);
  if (is_one_of(at, length, nones)) return refuse(reader, "write null", "`None` is no value in JSON");
  if (g_ascii_isalpha(*at) || *at == '_')
    return refuse_at(reader, mark_here(reader), "put text in double quotes", "`%.*s` is no value in JSON",
                     (int)MIN(length, 60), at);
  if (*at == '+' || *at == '.')
    return refuse_number(reader,
                         *at == '+' ? "a number has no plus sign" : "a digit stands before the point");
  if (*at == '\'') return refuse(reader, "strings stand in double quotes", "a value is expected here");
  if (*at == '#' || *at == '/')
    return refuse(reader, "JSON has no comments; YAML does, in a file that is named .yaml",
                  "a value is expected here");
  if (!*at) return refuse(reader, NULL, "the file ends where a value is expected");
  return refuse(reader, NULL, "a value is expected here");
}

static Node *read_plain(Reader *reader)
{
  static const char *const words[] = {"true", "false", "null"};
  Node *node = new_node(reader, NODE_SCALAR);
  const char *start = reader->at, *end = NULL;
  if (g_ascii_isdigit(*start) || (*start == '-' && !g_ascii_isalpha(start[1]))) {
    end = number_end(reader);
    if (!end) return NULL;
  }
  for (unsigned i = 0; !end && i < G_N_ELEMENTS(words); i++) {
    size_t length = strlen(words[i]);
    if (!strncmp(start, words[i], length) && !g_ascii_isalnum(start[length])) end = start + length;
  }
  if (!end) {
    refuse_value(reader);
    return NULL;
  }
  node->text = arena_strndup(reader->document->arena, start, (size_t)(end - start));
  reader->at = end;
  skip_blanks(reader);
  return node;
}

/* ---- lists and objects ---- */

/* Behind an item: true if another one follows. `list`: where the list or object begins. */
static bool expect_more(Reader *reader, char closing, const Node *list, bool *ok)
{
  Mark comma = mark_here(reader);
  *ok = true;
  if (take(reader, ',')) {
    if (*reader->at != closing) return true;
    *ok = refuse_at(reader, comma, "JSON has no comma behind the last one", "a comma before `%c`", closing);
    return false;
  }
  if (take(reader, closing)) return false;
  bool object = closing == '}';
  if (*reader->at) {
    const char *hint = *reader->at == '#' || *reader->at == '/'
                           ? "JSON has no comments; YAML does, in a file that is named .yaml"
                           : NULL;
    *ok = refuse_at(reader, mark_here(reader), hint, "`,` or `%c` is expected here", closing);
  } else {
    *ok = refuse_at(reader, mark_here(reader), NULL, "the file ends inside of %s",
                    object ? "an object" : "a list");
    error_add(reader->error, ERROR_INPUT, SEVERITY_NOTE, &list->mark, "syntax", NULL, "it begins here");
  }
  return false;
}

static Node *read_array(Reader *reader)
{
  Node *node = new_node(reader, NODE_SEQUENCE);
  bool ok = true;
  take(reader, '[');
  if (take(reader, ']')) return node;
  g_autoptr(GPtrArray) items = g_ptr_array_new();
  do {
    Node *item = read_value(reader);
    if (!item) return NULL;
    g_ptr_array_add(items, item);
  } while (expect_more(reader, ']', node, &ok));
  if (!ok) return NULL;
  node->n = items->len;
  node->items = arena_memdup(reader->document->arena, items->pdata, items->len * sizeof(Node *));
  return node;
}

#define FEW_KEYS 16

/* Few keys are compared one by one: a table would take longer to make. */
static Node *find_key(const GPtrArray *keys, GHashTable **table, const char *text)
{
  if (!*table && keys->len < FEW_KEYS) {
    for (guint i = 0; i < keys->len; i++)
      if (!strcmp(((const Node *)keys->pdata[i])->text, text)) return keys->pdata[i];
    return NULL;
  }
  if (!*table) {
    *table = g_hash_table_new(g_str_hash, g_str_equal);
    for (guint i = 0; i < keys->len; i++)
      g_hash_table_insert(*table, (void *)((const Node *)keys->pdata[i])->text, keys->pdata[i]);
  }
  return g_hash_table_lookup(*table, text);
}

static Node *read_key(Reader *reader)
{
  if (*reader->at == '"') return read_string(reader);
  if (!*reader->at)
    refuse(reader, NULL, "the file ends where a key is expected");
  else if (*reader->at == '#' || *reader->at == '/')
    refuse(reader, "JSON has no comments; YAML does, in a file that is named .yaml",
           "a key is expected here");
  else
    refuse(reader, "keys stand in double quotes", "a key is expected here");
  return NULL;
}

static bool read_pairs(Reader *reader, const Node *node, GPtrArray *keys, GPtrArray *values)
{
  g_autoptr(GHashTable) table = NULL;
  bool ok = true;
  do {
    Node *key = read_key(reader);
    if (!key) return false;
    Node *earlier = find_key(keys, &table, key->text);
    if (earlier) {
      document_refuse_duplicate(key, earlier, reader->error);
      return false;
    }
    if (!take(reader, ':')) return refuse(reader, NULL, "`:` is expected behind a key");
    Node *value = read_value(reader);
    if (!value) return false;
    g_ptr_array_add(keys, key);
    g_ptr_array_add(values, value);
    if (table) g_hash_table_insert(table, (void *)key->text, key);
  } while (expect_more(reader, '}', node, &ok));
  return ok;
}

static Node *read_object(Reader *reader)
{
  Node *node = new_node(reader, NODE_MAPPING);
  take(reader, '{');
  if (take(reader, '}')) return node;
  g_autoptr(GPtrArray) keys = g_ptr_array_new(), values = g_ptr_array_new();
  if (!read_pairs(reader, node, keys, values)) return NULL;
  node_set_pairs(reader->document->arena, node, keys, values);
  return node;
}

static Node *read_value(Reader *reader)
{
  if (reader->depth >= DOCUMENT_MAX_DEPTH) {
    Mark mark = mark_here(reader);
    error_add(reader->error, ERROR_INPUT, SEVERITY_ERROR, &mark, "too-deep", NULL,
              "nested deeper than %d levels", DOCUMENT_MAX_DEPTH);
    return NULL;
  }
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

/* ---- the whole ---- */

static const char *text_of(const Source *source)
{
  return source->text + (g_str_has_prefix(source->text, DOCUMENT_BOM) ? strlen(DOCUMENT_BOM) : 0);
}

bool document_is_json(const Source *source)
{
  if (g_str_has_suffix(source->name, ".yaml") || g_str_has_suffix(source->name, ".yml")) return false;
  if (g_str_has_suffix(source->name, ".json")) return true;
  const char *text = text_of(source);
  text += strspn(text, " \t\r\n");
  if (*text++ != '{') return false;
  text += strspn(text, " \t\r\n");
  return *text == '"' || *text == '}';
}

static bool read_document(Reader *reader)
{
  skip_blanks(reader);
  if (reader->at == reader->end) {
    Mark mark = {reader->document->source, 1, 1};
    error_add(reader->error, ERROR_INPUT, SEVERITY_ERROR, &mark, "empty", NULL, "the file holds no document");
    return false;
  }
  const char *word = reader->at;
  if (g_ascii_isalpha(*word) && word[strspn(word, TOKEN_LETTERS)] == ':')
    return refuse(reader, "name the file .yaml if it is YAML", "this is not JSON");
  reader->document->root = read_value(reader);
  if (!reader->document->root) return false;
  if (reader->at == reader->end) return true;
  return refuse(reader, "one document per file", "more stands behind the document");
}

Document *document_read_json(Source *source, GError **error)
{
  g_autoptr(Document) document = g_new0(Document, 1);
  g_autoptr(GString) unescaped = g_string_new(NULL);
  document->arena = arena_new();
  document->source = source_ref(source);
  Reader reader = {.document = document,
                   .at = text_of(source),
                   .end = source->text + source->length,
                   .line_start = text_of(source),
                   .line = 1,
                   .unescaped = unescaped,
                   .error = error};
  return read_document(&reader) ? g_steal_pointer(&document) : NULL;
}
