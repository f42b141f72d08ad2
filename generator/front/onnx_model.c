#include "generator/front/onnx_model.h"
#include <string.h>

#define MAX_DEPTH  64
#define MAX_VALUES (8u << 20) /* of all messages: packed numbers and weights count as one */

typedef enum { FIELD_INTEGER, FIELD_FLOAT, FIELD_DOUBLE, FIELD_TEXT, FIELD_BYTES, FIELD_MESSAGE } FieldKind;

typedef enum { WIRE_VARINT, WIRE_FIXED64, WIRE_BYTES, WIRE_FIXED32 = 5 } Wire;

static const struct {
  const char *name;
  unsigned number;
  FieldKind kind;
  OnnxMessageKind of;
} fields[] = {
#define ONNX_MESSAGE(name, word)
#define ONNX_FIELD(message, field, number, kind, of) {#field, number, FIELD_##kind, ONNX_MESSAGE_##of},
#include "generator/front/onnx_fields.def"
#undef ONNX_MESSAGE
#undef ONNX_FIELD
};

static const struct {
  const char *name;
  const char *word;
  unsigned first;
} messages[] = {
#define ONNX_MESSAGE(name, word) {#name "Proto", word, ONNX_FIRST_##name},
#define ONNX_FIELD(...)
#include "generator/front/onnx_fields.def"
#undef ONNX_MESSAGE
#undef ONNX_FIELD
    {"", NULL, ONNX_FIELD_COUNT},
};

typedef struct {
  Arena *arena;
  Source *source;
  unsigned n_values;
  GError **error;
} Reader;

/* A field as the wire has it. */
typedef struct {
  uint64_t number;
  Wire wire;
  const uint8_t *at, *end; /* of its value; of BYTES without their length */
} Field;

/* ---- the wire ---- */

static bool take_varint(const uint8_t **at, const uint8_t *end, uint64_t *value)
{
  *value = 0;
  for (unsigned shift = 0; shift < 64 && *at < end; shift += 7) {
    uint8_t byte = *(*at)++;
    *value |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) return true;
  }
  return false;
}

/* What is wrong, or NULL; *at goes behind the field. */
static const char *take_field(const uint8_t **at, const uint8_t *end, Field *field)
{
  uint64_t tag, value;
  if (!take_varint(at, end, &tag)) return "a field's number ends too early";
  *field = (Field){.number = tag >> 3, .wire = (Wire)(tag & 7), .at = *at};
  size_t size = field->wire == WIRE_FIXED64 ? 8 : 4;
  switch ((int)field->wire) {
  case WIRE_VARINT:
    if (!take_varint(at, end, &value)) return "a number ends too early";
    field->end = *at;
    return NULL;
  case WIRE_BYTES:
    if (!take_varint(at, end, &value)) return "a length ends too early";
    if (value > (uint64_t)(end - *at)) return "a field goes beyond the end of what it is in";
    field->at = *at;
    size = (size_t)value;
    break;
  case WIRE_FIXED64:
  case WIRE_FIXED32:
    if (size > (size_t)(end - *at)) return "a number goes beyond the end of what it is in";
    break;
  default: return "a field is of a kind that protocol buffers do not have";
  }
  *at += size;
  field->end = *at;
  return field->number ? NULL : "a field has the number 0";
}

/* The field of the table, -1: none that is read. */
static int find_field(OnnxMessageKind kind, uint64_t number)
{
  for (unsigned i = messages[kind].first; i < messages[kind + 1].first; i++)
    if (fields[i].number == number) return (int)i;
  return -1;
}

static bool wire_fits(FieldKind kind, Wire wire)
{
  switch (kind) {
  case FIELD_INTEGER: return wire == WIRE_VARINT || wire == WIRE_BYTES;
  case FIELD_FLOAT: return wire == WIRE_FIXED32 || wire == WIRE_BYTES;
  case FIELD_DOUBLE: return wire == WIRE_FIXED64 || wire == WIRE_BYTES;
  case FIELD_TEXT:
  case FIELD_BYTES:
  case FIELD_MESSAGE: return wire == WIRE_BYTES;
  }
  return false;
}

/* ---- messages ---- */

static bool fault(Reader *r, const uint8_t *at, OnnxMessageKind kind, const char *field, const char *what)
{
  Mark mark = onnx_mark(r->source, at);
  error_set(r->error, ERROR_INPUT, &mark, "onnx", "the file is damaged, or no ONNX model", "%s%s%s: %s",
            messages[kind].name, field ? "." : "", field ? field : "", what);
  return false;
}

/* Varints must end with their field; the numbers of a field of floats must be whole. */
static bool check_packed(Reader *r, OnnxMessageKind kind, unsigned f, const Field *field)
{
  uint64_t value;
  size_t length = (size_t)(field->end - field->at);
  if (fields[f].kind == FIELD_FLOAT && length % 4)
    return fault(r, field->at, kind, fields[f].name, "not a whole number of 4 bytes each");
  if (fields[f].kind == FIELD_DOUBLE && length % 8)
    return fault(r, field->at, kind, fields[f].name, "not a whole number of 8 bytes each");
  for (const uint8_t *at = field->at; fields[f].kind == FIELD_INTEGER && at < field->end;)
    if (!take_varint(&at, field->end, &value))
      return fault(r, at, kind, fields[f].name, "a number ends too early");
  return true;
}

/* Counts the values of each field. */
static bool count_values(Reader *r, const uint8_t *at, const uint8_t *end, OnnxMessageKind kind,
                         unsigned *counts)
{
  while (at < end) {
    const uint8_t *begin = at;
    Field field;
    const char *what = take_field(&at, end, &field);
    if (what) return fault(r, begin, kind, NULL, what);
    int f = find_field(kind, field.number);
    if (f < 0) continue;
    if (!wire_fits(fields[f].kind, field.wire))
      return fault(r, begin, kind, fields[f].name, "of another type");
    if (!check_packed(r, kind, (unsigned)f, &field)) return false;
    counts[(unsigned)f - messages[kind].first]++;
    if (++r->n_values <= MAX_VALUES) continue;
    Mark mark = onnx_mark(r->source, begin);
    error_set(r->error, ERROR_UNSUPPORTED, &mark, "too-large", NULL, "a model of more than %u values",
              MAX_VALUES);
    return false;
  }
  return true;
}

static const OnnxMessage *read_message(Reader *r, const uint8_t *at, const uint8_t *end, OnnxMessageKind kind,
                                       unsigned depth);

static bool take_text(Reader *r, OnnxMessageKind kind, unsigned f, OnnxValue *value)
{
  if (memchr(value->at, 0, value->length) ||
      !g_utf8_validate((const char *)value->at, (gssize)value->length, NULL))
    return fault(r, value->at, kind, fields[f].name, "not a text in UTF-8");
  char *text = arena_alloc(r->arena, value->length + 1);
  memcpy(text, value->at, value->length);
  text[value->length] = 0;
  value->text = text;
  return true;
}

static bool take_value(Reader *r, OnnxMessageKind kind, unsigned f, const Field *field, unsigned depth,
                       OnnxValue *value)
{
  *value = (OnnxValue){.at = field->at, .length = (size_t)(field->end - field->at)};
  if (fields[f].kind == FIELD_TEXT) return take_text(r, kind, f, value);
  if (fields[f].kind != FIELD_MESSAGE) return true;
  value->message = read_message(r, field->at, field->end, fields[f].of, depth + 1);
  return value->message != NULL;
}

/* Two walks: how many values there are, then the values. */
static const OnnxMessage *read_message(Reader *r, const uint8_t *at, const uint8_t *end, OnnxMessageKind kind,
                                       unsigned depth)
{
  unsigned first = messages[kind].first, n = messages[kind + 1].first - first;
  unsigned counts[ONNX_FIELD_COUNT] = {0};
  if (depth > MAX_DEPTH) {
    fault(r, at, kind, NULL, "messages within messages are too deep");
    return NULL;
  }
  if (!count_values(r, at, end, kind, counts)) return NULL;
  OnnxMessage *message = arena_new_object(r->arena, OnnxMessage);
  OnnxValues *values = arena_new_array(r->arena, OnnxValues, n);
  OnnxValue *items[ONNX_FIELD_COUNT];
  *message = (OnnxMessage){kind, at, values};
  for (unsigned i = 0; i < n; i++) {
    items[i] = arena_new_array(r->arena, OnnxValue, counts[i]);
    values[i] = (OnnxValues){items[i], counts[i]};
  }
  while (at < end) {
    Field field;
    take_field(&at, end, &field);
    int f = find_field(kind, field.number);
    if (f >= 0 && !take_value(r, kind, (unsigned)f, &field, depth, items[(unsigned)f - first]++)) return NULL;
  }
  return message;
}

const OnnxMessage *onnx_message_read(Arena *arena, Source *source, OnnxMessageKind kind, GError **error)
{
  Reader r = {.arena = arena, .source = source, .error = error};
  const uint8_t *bytes = (const uint8_t *)source->text;
  return read_message(&r, bytes, bytes + source->length, kind, 0);
}

/* ---- values ---- */

OnnxValues onnx_values(const OnnxMessage *message, OnnxField field)
{
  return message->values[(unsigned)field - messages[message->kind].first];
}

bool onnx_has(const OnnxMessage *message, OnnxField field)
{
  return onnx_values(message, field).n > 0;
}

static const OnnxValue *last_value(const OnnxMessage *message, OnnxField field)
{
  OnnxValues values = onnx_values(message, field);
  return values.n ? &values.items[values.n - 1] : NULL;
}

const char *onnx_text(const OnnxMessage *message, OnnxField field)
{
  const OnnxValue *value = last_value(message, field);
  return value ? value->text : "";
}

const OnnxMessage *onnx_message(const OnnxMessage *message, OnnxField field)
{
  const OnnxValue *value = last_value(message, field);
  return value ? value->message : NULL;
}

int64_t onnx_integer(const OnnxMessage *message, OnnxField field)
{
  const OnnxValue *value = last_value(message, field);
  const uint8_t *at = value ? value->at : NULL;
  uint64_t integer = 0;
  if (value) take_varint(&at, value->at + value->length, &integer);
  return (int64_t)integer;
}

static double take_float(const uint8_t *at, size_t size)
{
  float f;
  double d;
  if (size == sizeof d) {
    memcpy(&d, at, sizeof d);
    return d;
  }
  memcpy(&f, at, sizeof f);
  return (double)f;
}

static size_t float_size(OnnxField field)
{
  return fields[field].kind == FIELD_FLOAT ? sizeof(float) : sizeof(double);
}

double onnx_number(const OnnxMessage *message, OnnxField field)
{
  const OnnxValue *value = last_value(message, field);
  return value && value->length >= float_size(field) ? take_float(value->at, float_size(field)) : 0;
}

const int64_t *onnx_integers(Arena *arena, const OnnxMessage *message, OnnxField field, size_t *n)
{
  OnnxValues values = onnx_values(message, field);
  size_t most = 0;
  for (unsigned i = 0; i < values.n; i++)
    most += values.items[i].length; /* a byte each, at least */
  int64_t *integers = arena_new_array(arena, int64_t, most);
  *n = 0;
  for (unsigned i = 0; i < values.n; i++) {
    const uint8_t *at = values.items[i].at, *end = at + values.items[i].length;
    uint64_t integer;
    while (at < end && take_varint(&at, end, &integer))
      integers[(*n)++] = (int64_t)integer;
  }
  return integers;
}

const double *onnx_numbers(Arena *arena, const OnnxMessage *message, OnnxField field, size_t *n)
{
  OnnxValues values = onnx_values(message, field);
  size_t size = float_size(field), most = 0;
  for (unsigned i = 0; i < values.n; i++)
    most += values.items[i].length / size;
  double *numbers = arena_new_array(arena, double, most);
  *n = 0;
  for (unsigned i = 0; i < values.n; i++)
    for (size_t at = 0; at + size <= values.items[i].length; at += size)
      numbers[(*n)++] = take_float(values.items[i].at + at, size);
  return numbers;
}

/* ---- places ---- */

Mark onnx_mark(Source *source, const void *at)
{
  return (Mark){source, 0, (unsigned)MIN((size_t)((const char *)at - source->text) + 1, G_MAXUINT)};
}

/* The value of a text field of the message, or NULL; g_free. */
static char *find_text(OnnxMessageKind kind, const char *name, const uint8_t *at, const uint8_t *end)
{
  Field field;
  while (at < end && !take_field(&at, end, &field)) {
    int f = find_field(kind, field.number);
    if (f >= 0 && field.wire == WIRE_BYTES && !strcmp(fields[f].name, name)) {
      g_autofree char *text = g_strndup((const char *)field.at, (gsize)(field.end - field.at));
      return g_utf8_make_valid(text, -1);
    }
  }
  return NULL;
}

static void describe_message(GString *text, OnnxMessageKind kind, const uint8_t *at, const uint8_t *end)
{
  const char *word = messages[kind].word;
  if (!word) return;
  g_autofree char *name = find_text(kind, "name", at, end), *op = find_text(kind, "op_type", at, end);
  g_autoptr(GString) all = g_string_new(NULL);
  if (name && *name)
    g_string_append_printf(all, "%s `%s`", word, name);
  else
    g_string_append_printf(all, "%s %s", strchr("aeiou", *word) ? "an" : "a", word);
  if (op) g_string_append_printf(all, " (%s)", op);
  if (text->len) g_string_append(all, "\n");
  g_string_prepend(text, all->str);
}

char *onnx_describe(const Source *source, size_t offset)
{
  const uint8_t *bytes = (const uint8_t *)source->text, *at = bytes, *end = bytes + source->length;
  OnnxMessageKind kind = ONNX_MESSAGE_Model;
  g_autoptr(GString) text = g_string_new(NULL);
  Field field;
  while (at < end && !take_field(&at, end, &field)) {
    int f = find_field(kind, field.number);
    if (at <= bytes + offset || f < 0 || fields[f].kind != FIELD_MESSAGE || field.wire != WIRE_BYTES)
      continue;
    if (field.at > bytes + offset) break;
    kind = fields[f].of;
    at = field.at;
    end = field.end;
    describe_message(text, kind, at, end);
  }
  if (!text->len) return NULL;
  g_auto(GStrv) parts = g_strsplit(text->str, "\n", -1);
  g_autofree char *joined = g_strjoinv(" of ", parts);
  return g_strdup_printf("in %s", joined);
}
