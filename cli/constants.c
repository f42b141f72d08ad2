#include "cli/constants.h"
#include <string.h>

/* Element types as safetensors spells them. */
static const char *spelling(NumberType type)
{
  switch (type) {
  case NUMBER_F64: return "F64";
  case NUMBER_F32:
  case NUMBER_TF32: return "F32";
  case NUMBER_F16: return "F16";
  case NUMBER_BF16: return "BF16";
  case NUMBER_E4M3: return "F8_E4M3";
  case NUMBER_E5M2: return "F8_E5M2";
  case NUMBER_S8: return "I8";
  case NUMBER_U8: return "U8";
  case NUMBER_S16: return "I16";
  case NUMBER_U16: return "U16";
  case NUMBER_S32: return "I32";
  case NUMBER_U32: return "U32";
  case NUMBER_S64: return "I64";
  case NUMBER_U64: return "U64";
  case NUMBER_BOOL: return "BOOL";
  default: return NULL;
  }
}

static json_t *shape_of(const GraphTensor *tensor)
{
  json_t *shape = json_array();
  for (unsigned i = 0; i < tensor->rank; i++) {
    int64_t extent = 0;
    symbolic_is_constant(tensor->shape[i], &extent);
    json_array_append_new(shape, json_integer(extent));
  }
  return shape;
}

/* The file is the header's length in 8 bytes, the header as JSON, then the data without gaps. */
static GBytes *assemble_file(const json_t *header, const GByteArray *data)
{
  char *text = json_dumps(header, JSON_COMPACT);
  /* Blanks after the header keep the data aligned to 8 bytes. */
  size_t length = strlen(text), padded = (length + 7) / 8 * 8;
  GByteArray *file = g_byte_array_new();
  guint64 size = GUINT64_TO_LE((guint64)padded);
  g_byte_array_append(file, (const guint8 *)&size, sizeof size);
  g_byte_array_append(file, (const guint8 *)text, (guint)length);
  for (size_t i = length; i < padded; i++)
    g_byte_array_append(file, (const guint8 *)" ", 1);
  g_byte_array_append(file, data->data, data->len);
  free(text);
  return g_byte_array_free_to_bytes(file);
}

GBytes *constants_gather(const Graph *graph, Plan *plan)
{
  json_t *header = json_object();
  g_autoptr(GByteArray) data = g_byte_array_new();
  for (unsigned i = 0; i < plan->n_tensors; i++) {
    PlanTensor *constant = plan->tensors[i];
    const GraphTensor *tensor = constant->kind == PLAN_CONSTANT ? graph_tensor(graph, constant->name) : NULL;
    const char *dtype = tensor && tensor->data ? spelling(tensor->type) : NULL;
    if (!dtype) continue;
    size_t size = tensor->n_elements * number_bytes(tensor->type), from = data->len;
    g_byte_array_append(data, tensor->data, (guint)size);
    json_object_set_new(header, constant->name,
                        json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype, "shape", shape_of(tensor),
                                  "data_offsets", (json_int_t)from, (json_int_t)(from + size)));
    constant->file = CONSTANTS_FILE;
  }
  GBytes *file = json_object_size(header) ? assemble_file(header, data) : NULL;
  json_decref(header);
  return file;
}
