/* The messages of a .onnx file, by the table onnx_fields.def: a protocol buffer (https://protobuf.dev/programming-guides/encoding/)
 * that is walked where it lies. Values point into the file's bytes, which must live as long; weights are not copied.
 * Whatever the bytes are, the reader ends with messages or an error that has the byte's offset. */
#pragma once
#include "base/arena.h"
#include "base/diagnostic.h"
#include <stdbool.h>
#include <stdint.h>

typedef enum {
#define ONNX_MESSAGE(name, word) ONNX_MESSAGE_##name,
#define ONNX_FIELD(...)
#include "generator/front/onnx_fields.def"
#undef ONNX_MESSAGE
#undef ONNX_FIELD
  ONNX_MESSAGE_COUNT
} OnnxMessageKind;

/* ONNX_Node_name and so on. The first field of a message has the number ONNX_FIRST_Node. */
typedef enum {
#define ONNX_MESSAGE(name, word)                     ONNX_FIRST_##name, ONNX_BEFORE_##name = ONNX_FIRST_##name - 1,
#define ONNX_FIELD(message, field, number, kind, of) ONNX_##message##_##field,
#include "generator/front/onnx_fields.def"
#undef ONNX_MESSAGE
#undef ONNX_FIELD
  ONNX_FIELD_COUNT
} OnnxField;

/* ONNX_NUMBER_Node_name and so on: the number in the format, for who writes models. */
typedef enum {
#define ONNX_MESSAGE(...)
#define ONNX_FIELD(message, field, number, kind, of) ONNX_NUMBER_##message##_##field = (number),
#include "generator/front/onnx_fields.def"
#undef ONNX_MESSAGE
#undef ONNX_FIELD
} OnnxNumber;

typedef struct OnnxMessage OnnxMessage;

typedef struct OnnxValue {
  const uint8_t *at; /* TEXT, BYTES: the bytes; numbers: packed ones, or the one */
  size_t length;
  const char *text;           /* TEXT: NUL-terminated */
  const OnnxMessage *message; /* MESSAGE */
} OnnxValue;

typedef struct OnnxValues {
  const OnnxValue *items;
  unsigned n;
} OnnxValues;

struct OnnxMessage {
  OnnxMessageKind kind;
  const uint8_t *at;
  const OnnxValues *values;
};

/* ERROR_INPUT "onnx" with the byte; ERROR_UNSUPPORTED "too-large" beyond some millions of values. */
const OnnxMessage *onnx_message_read(Arena *arena, Source *source, OnnxMessageKind kind, GError **error);

/* Values of a field; the message must be of its kind. */
OnnxValues onnx_values(const OnnxMessage *message, OnnxField field);
bool onnx_has(const OnnxMessage *message, OnnxField field);
/* The last value, as protocol buffers have it; without one "" or NULL or 0. */
const char *onnx_text(const OnnxMessage *message, OnnxField field);
const OnnxMessage *onnx_message(const OnnxMessage *message, OnnxField field);
int64_t onnx_integer(const OnnxMessage *message, OnnxField field);
double onnx_number(const OnnxMessage *message, OnnxField field); /* FLOAT, DOUBLE */
/* All numbers of a field, packed or not, in the arena; varints as 64 bits. */
const int64_t *onnx_integers(Arena *arena, const OnnxMessage *message, OnnxField field, size_t *n);
const double *onnx_numbers(Arena *arena, const OnnxMessage *message, OnnxField field, size_t *n);

/* The place of bytes: a mark without a line, whose column is the offset + 1. */
Mark onnx_mark(Source *source, const void *at);
/* Of what node, input or constant the byte is: "in attribute `axis` of node `n0` (Softmax)", NULL if of none; g_free. */
char *onnx_describe(const Source *source, size_t offset);
