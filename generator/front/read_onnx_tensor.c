/* Constants of an ONNX model: where their data lie, as bytes, as numbers one by one, or in a file beside the model. */
#include "generator/front/onnx.h"
#include "generator/front/read_onnx.h"
#include <errno.h>
#include <glib/gstdio.h>
#include <string.h>

#define DATA_EXTERNAL 1 /* TensorProto.DataLocation */
#define MAX_ALIGN     8

bool onnx_read_type(OnnxReader *reader, int64_t number, const Mark *mark, GraphTensorSpec *spec)
{
  if (onnx_type_ours(number, &spec->type)) return true;
  const char *name = onnx_type_name(number);
  spec->foreign = name ? (unsigned)number : 0;
  graph_builder_report(reader->builder, name ? ERROR_UNSUPPORTED : ERROR_INPUT, mark,
                       name ? "unsupported-type" : "unknown-type", NULL,
                       name ? "type %s (ONNX's number %" G_GINT64_FORMAT ") is not supported"
                            : "ONNX has no type `%s` of number %" G_GINT64_FORMAT,
                       name ? name : "", number);
  return false;
}

/* ---- data ---- */

/* A number as an element; false: it does not fit. */
static bool set_integer(NumberType type, int64_t value, uint8_t *element)
{
  unsigned bits = number_bits(type);
  NumberClass class = number_class(type);
  /* 16-bit and 8-bit floats are written as their bits */
  bool is_signed = class == NUMBER_SIGNED, whole = bits == 64;
  int64_t max = whole ? INT64_MAX : ((int64_t)1 << (bits - is_signed)) - 1, min = is_signed ? -max - 1 : 0;
  if (class == NUMBER_BOOLEAN) max = 1;
  if (!whole && (value < min || value > max)) return false;
  for (unsigned i = 0; i < bits / 8; i++)
    element[i] = (uint8_t)((uint64_t)value >> (8 * i));
  return true;
}

/* Numbers one by one, of the field that ONNX has for the type. */
static bool read_numbers(OnnxReader *reader, const OnnxMessage *message, OnnxField field, GraphTensor *tensor,
                         const Mark *mark)
{
  const bool is_float = field == ONNX_Tensor_float_data || field == ONNX_Tensor_double_data ||
                        field == ONNX_Attribute_f || field == ONNX_Attribute_floats;
  g_autoptr(Arena) arena = arena_new();
  const bool packed = number_is_packed(tensor->type); /* two elements a number */
  const NumberType type = packed ? NUMBER_U8 : tensor->type;
  const size_t wanted = packed ? number_bytes_of(tensor->type, tensor->n_elements) : tensor->n_elements;
  size_t n = 0, size = number_bytes(type);
  const double *numbers = is_float ? onnx_numbers(arena, message, field, &n) : NULL;
  const int64_t *integers = is_float ? NULL : onnx_integers(arena, message, field, &n);
  if (n != wanted) {
    graph_builder_report(reader->builder, ERROR_INPUT, mark, "shape", NULL,
                         "%zu values for constant `%s` of %zu elements", n, tensor->name, tensor->n_elements);
    return false;
  }
  uint8_t *bytes = arena_alloc(reader->arena, n * size);
  for (size_t i = 0; i < n; i++) {
    if (is_float)
      number_from_double(type, numbers[i], false, bytes + i * size);
    else if (!set_integer(type, integers[i], bytes + i * size)) {
      graph_builder_report(reader->builder, ERROR_INPUT, mark, "out-of-range", NULL,
                           "%" G_GINT64_FORMAT " does not fit into %s", integers[i],
                           number_name(tensor->type));
      return false;
    }
  }
  tensor->data = bytes;
  return true;
}

/* onnx.proto: which field holds the data of a type that does not stand in raw_data. */
static OnnxField field_of(NumberType type)
{
  if (type == NUMBER_F32 || type == NUMBER_TF32) return ONNX_Tensor_float_data;
  if (type == NUMBER_F64) return ONNX_Tensor_double_data;
  if (type == NUMBER_S64) return ONNX_Tensor_int64_data;
  return number_bits(type) == 64 || type == NUMBER_U32 ? ONNX_Tensor_uint64_data : ONNX_Tensor_int32_data;
}

/* Bytes as they lie in the file; copied where elements would not be aligned. */
static void read_raw(OnnxReader *reader, const OnnxValue *raw, GraphTensor *tensor, const Mark *mark)
{
  size_t size = number_bytes_of(tensor->type, 1);
  if (raw->length != number_bytes_of(tensor->type, tensor->n_elements)) {
    graph_builder_report(reader->builder, ERROR_INPUT, mark, "shape", NULL,
                         "%zu bytes for constant `%s`, which has %zu elements of %u bits", raw->length,
                         tensor->name, tensor->n_elements, number_bits(tensor->type));
    return;
  }
  bool aligned = (uintptr_t)raw->at % MIN(size, MAX_ALIGN) == 0;
  tensor->data = aligned ? raw->at : arena_memdup(reader->arena, raw->at, raw->length);
}

/* ---- data in files beside the model ---- */

typedef struct {
  const char *location;
  int64_t offset, length; /* length -1: to the end */
} External;

static bool read_entries(const OnnxMessage *message, External *external)
{
  OnnxValues entries = onnx_values(message, ONNX_Tensor_external_data);
  *external = (External){.location = "", .length = -1};
  for (unsigned i = 0; i < entries.n; i++) {
    const char *key = onnx_text(entries.items[i].message, ONNX_Entry_key);
    const char *value = onnx_text(entries.items[i].message, ONNX_Entry_value);
    int64_t *number = !strcmp(key, "offset")   ? &external->offset
                      : !strcmp(key, "length") ? &external->length
                                               : NULL;
    guint64 parsed;
    if (!strcmp(key, "location")) external->location = value;
    if (!number) continue;
    if (!g_ascii_string_to_unsigned(value, 10, 0, G_MAXINT64, &parsed, NULL)) return false;
    *number = (int64_t)parsed;
  }
  return *external->location != 0;
}

/* A file of the model's folder, or below it: no other path, and no way out through links. What is wrong, or NULL. */
static const char *check_location(const char *location)
{
  g_auto(GStrv) parts = g_strsplit(location, "/", -1);
  if (g_path_is_absolute(location) || strchr(location, '\\')) return "is no path within the model's folder";
  for (char **part = parts; *part; part++)
    if (!strcmp(*part, "..")) return "leads out of the model's folder";
  return NULL;
}

/* Folders on the way are folders, no links: one to `..` would lead out as well. What is wrong, or NULL. */
static const char *check_file(GraphBuilder *builder, const char *location, GStatBuf *status)
{
  for (const char *end = location; end; end++) {
    end = strchr(end, '/');
    g_autofree char *part = end ? g_strndup(location, (gsize)(end - location)) : g_strdup(location);
    if (*part && g_lstat(graph_builder_path(builder, part), status)) return g_strerror(errno);
    if (!end) return S_ISREG(status->st_mode) ? NULL : "is no plain file";
    if (*part && !S_ISDIR(status->st_mode)) return "leads through what is no plain folder";
  }
  return NULL;
}

static void read_external(OnnxReader *reader, const OnnxMessage *message, GraphTensor *tensor,
                          const Mark *mark)
{
  External external;
  GStatBuf status;
  int64_t bytes = (int64_t)number_bytes_of(tensor->type, tensor->n_elements), size;
  if (!read_entries(message, &external)) {
    graph_builder_report(reader->builder, ERROR_INPUT, mark, "external-data", NULL,
                         "constant `%s`: location, offset or length of its data is missing or no number",
                         tensor->name);
    return;
  }
  const char *wrong = check_location(external.location), *path = NULL;
  if (!wrong) {
    path = graph_builder_path(reader->builder, external.location);
    wrong = check_file(reader->builder, external.location, &status);
  }
  if (wrong) {
    graph_builder_report(reader->builder, ERROR_INPUT, mark, "external-data", NULL,
                         "data of constant `%s`: `%s`: %s", tensor->name, external.location, wrong);
    return;
  }
  size = (int64_t)status.st_size;
  int64_t length = external.length < 0 ? bytes : external.length;
  if (length != bytes || external.offset > size || bytes > size - external.offset) {
    graph_builder_report(reader->builder, ERROR_INPUT, mark, "external-data", NULL,
                         "data of constant `%s`: %" G_GINT64_FORMAT " bytes at %" G_GINT64_FORMAT
                         " of `%s`, which has %" G_GINT64_FORMAT "; the constant has %" G_GINT64_FORMAT,
                         tensor->name, length, external.offset, external.location, size, bytes);
    return;
  }
  tensor->file = path;
  tensor->file_is_raw = true;
  tensor->file_offset = (uint64_t)external.offset;
}

/* ---- constants ---- */

static bool set_shape(OnnxReader *reader, const OnnxMessage *message, GraphTensorSpec *spec)
{
  size_t n;
  const int64_t *dims = onnx_integers(reader->arena, message, ONNX_Tensor_dims, &n);
  if (n > GRAPH_MAX_RANK) {
    graph_builder_report(reader->builder, ERROR_UNSUPPORTED, &spec->mark, "rank", NULL,
                         "rank %zu is not supported: the most is %d", n, GRAPH_MAX_RANK);
    return false;
  }
  for (size_t i = 0; i < n; i++) {
    spec->extent_marks[i] = spec->mark;
    if (dims[i] < 0 || dims[i] > SYMBOLIC_DIMENSION_MAX) {
      graph_builder_report(reader->builder, dims[i] < 0 ? ERROR_INPUT : ERROR_UNSUPPORTED, &spec->mark,
                           dims[i] < 0 ? "out-of-range" : "too-large", NULL,
                           "an extent of %" G_GINT64_FORMAT " is not supported", dims[i]);
      return false;
    }
    spec->shape[i] = symbolic_constant(reader->arena, dims[i]);
  }
  spec->rank = (unsigned)n;
  return true;
}

void onnx_read_tensor(OnnxReader *reader, const char *name, const OnnxMessage *message)
{
  Mark mark = onnx_mark(reader->source, message->at);
  GraphTensorSpec spec = {.name = name,
                          .mark = mark,
                          .shape_mark = mark,
                          .rank = GRAPH_RANK_UNKNOWN,
                          .n_strides = GRAPH_RANK_UNKNOWN};
  OnnxValues raw = onnx_values(message, ONNX_Tensor_raw_data);
  spec.has_type = onnx_read_type(reader, onnx_integer(message, ONNX_Tensor_data_type), &mark, &spec);
  set_shape(reader, message, &spec);
  if (onnx_has(message, ONNX_Tensor_segment))
    graph_builder_report(reader->builder, ERROR_UNSUPPORTED, &mark, "segment", NULL,
                         "constant `%s` is a segment of a tensor, which is not supported", name);
  GraphTensor *tensor = graph_builder_constant(reader->builder, &spec);
  if (!tensor) return;
  if (onnx_integer(message, ONNX_Tensor_data_location) == DATA_EXTERNAL)
    read_external(reader, message, tensor, &mark);
  else if (raw.n)
    read_raw(reader, &raw.items[raw.n - 1], tensor, &mark);
  else
    read_numbers(reader, message, field_of(tensor->type), tensor, &mark);
}

void onnx_read_zero(OnnxReader *reader, const char *name, const Mark *mark)
{
  static const float zero = 0;
  GraphTensor *tensor =
      graph_builder_constant(reader->builder, &(GraphTensorSpec){.name = name,
                                                                 .mark = *mark,
                                                                 .shape_mark = *mark,
                                                                 .has_type = true,
                                                                 .type = NUMBER_F32,
                                                                 .n_strides = GRAPH_RANK_UNKNOWN});
  if (tensor) tensor->data = &zero;
}

void onnx_read_numbers(OnnxReader *reader, const char *name, const OnnxMessage *attribute, OnnxField field)
{
  Mark mark = onnx_mark(reader->source, attribute->at);
  const bool list = field == ONNX_Attribute_ints || field == ONNX_Attribute_floats;
  const bool is_float = field == ONNX_Attribute_f || field == ONNX_Attribute_floats;
  size_t n = 1;
  if (list && is_float) onnx_numbers(reader->arena, attribute, field, &n);
  if (list && !is_float) onnx_integers(reader->arena, attribute, field, &n);
  GraphTensorSpec spec = {.name = name,
                          .mark = mark,
                          .shape_mark = mark,
                          .has_type = true,
                          .type = is_float ? NUMBER_F32 : NUMBER_S64,
                          .rank = list,
                          .n_strides = GRAPH_RANK_UNKNOWN};
  spec.shape[0] = symbolic_constant(reader->arena, (int64_t)n);
  spec.extent_marks[0] = mark;
  GraphTensor *tensor = graph_builder_constant(reader->builder, &spec);
  if (tensor) read_numbers(reader, attribute, field, tensor, &mark);
}
