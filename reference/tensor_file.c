/* safetensors and .npy, both little-endian. */
#include "reference/tensor.h"
#include <jansson.h>
#include <string.h>

static bool refuse(const char *path, GError **error, const char *format, ...) G_GNUC_PRINTF(3, 4);

static bool refuse(const char *path, GError **error, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  g_autofree char *message = g_strdup_vprintf(format, arguments);
  va_end(arguments);
  error_set(error, ERROR_INPUT, NULL, "tensor-file", NULL, "%s: %s", path, message);
  return false;
}

/* Names of a type in both formats; NULL: the format has none. */
static const struct {
  NumberType type;
  const char *safetensors, *npy;
} spellings[] = {
    {NUMBER_F64, "F64", "<f8"},  {NUMBER_F32, "F32", "<f4"},     {NUMBER_F16, "F16", "<f2"},
    {NUMBER_BF16, "BF16", NULL}, {NUMBER_E4M3, "F8_E4M3", NULL}, {NUMBER_E5M2, "F8_E5M2", NULL},
    {NUMBER_S8, "I8", "|i1"},    {NUMBER_U8, "U8", "|u1"},       {NUMBER_S32, "I32", "<i4"},
    {NUMBER_S64, "I64", "<i8"},  {NUMBER_BOOL, "BOOL", "|b1"},   {NUMBER_S4, "I4", NULL},
    {NUMBER_U4, "U4", NULL},     {NUMBER_E2M1, "F4", NULL},      {NUMBER_E8M0, "F8_E8M0", NULL},
};

static const char *spelling(NumberType type, bool npy)
{
  if (type == NUMBER_TF32) type = NUMBER_F32;
  for (unsigned i = 0; i < G_N_ELEMENTS(spellings); i++)
    if (spellings[i].type == type) return npy ? spellings[i].npy : spellings[i].safetensors;
  return NULL;
}

static bool type_of(const char *text, bool npy, NumberType *type)
{
  for (unsigned i = 0; i < G_N_ELEMENTS(spellings); i++) {
    const char *own = npy ? spellings[i].npy : spellings[i].safetensors;
    /* Byte order does not matter for single bytes. */
    if (own && (!strcmp(own, text) || (npy && own[0] == '|' && !strcmp(own + 1, text + 1)))) {
      *type = spellings[i].type;
      return true;
    }
  }
  return false;
}

/* ---- safetensors: length of the header in 8 bytes, the header as JSON, the data ---- */

static Tensor *read_entry(const char *path, const char *name, json_t *entry, const uint8_t *data, size_t size,
                          GError **error)
{
  const char *dtype = json_string_value(json_object_get(entry, "dtype"));
  json_t *shape = json_object_get(entry, "shape"), *offsets = json_object_get(entry, "data_offsets");
  int64_t extents[TENSOR_MAX_RANK];
  NumberType type;
  size_t rank = json_array_size(shape);
  if (!dtype || !json_is_array(shape) || rank > TENSOR_MAX_RANK || json_array_size(offsets) != 2) {
    refuse(path, error, "tensor `%s` is malformed", name);
    return NULL;
  }
  if (!type_of(dtype, false, &type)) {
    error_set(error, ERROR_UNSUPPORTED, NULL, "unsupported-type", NULL,
              "%s: type %s of tensor `%s` is not supported", path, dtype, name);
    return NULL;
  }
  for (size_t i = 0; i < rank; i++) {
    json_t *extent = json_array_get(shape, i);
    extents[i] = json_is_integer(extent) ? json_integer_value(extent) : -1;
  }
  json_int_t from = json_integer_value(json_array_get(offsets, 0));
  json_int_t to = json_integer_value(json_array_get(offsets, 1));
  Tensor *tensor = tensor_new(name, type, (unsigned)rank, extents, error);
  if (!tensor) return NULL;
  if (from < 0 || to < from || (size_t)to > size || (size_t)(to - from) != tensor->bytes) {
    refuse(path, error, "the data of tensor `%s` lie outside the file or have the wrong size", name);
    tensor_free(tensor);
    return NULL;
  }
  if (tensor->bytes) memcpy(tensor->data, data + from, tensor->bytes);
  return tensor;
}

static json_t *read_header(const char *path, const uint8_t *bytes, size_t size, size_t *data, GError **error)
{
  uint64_t length = 0;
  if (size >= 8) memcpy(&length, bytes, 8);
  length = GUINT64_FROM_LE(length);
  if (size < 8 || length > size - 8) {
    refuse(path, error, "this is not a safetensors file");
    return NULL;
  }
  json_error_t problem;
  json_t *header = json_loadb((const char *)bytes + 8, (size_t)length, JSON_REJECT_DUPLICATES, &problem);
  if (!json_is_object(header)) {
    refuse(path, error, "the header is not readable: %s", header ? "not an object" : problem.text);
    json_decref(header);
    return NULL;
  }
  *data = 8 + (size_t)length;
  return header;
}

static GMappedFile *map_file(const char *path, GError **error)
{
  GError *local = NULL;
  GMappedFile *file = g_mapped_file_new(path, FALSE, &local);
  if (file) return file;
  error_set(error, ERROR_INPUT, NULL, "unreadable", NULL, "cannot read %s: %s", path, local->message);
  g_error_free(local);
  return NULL;
}

/* Reads one tensor, or all (only NULL). */
static GPtrArray *load_safetensors(const char *path, const char *only, GError **error)
{
  g_autoptr(GMappedFile) file = map_file(path, error);
  if (!file) return NULL;
  const uint8_t *bytes = (const uint8_t *)g_mapped_file_get_contents(file);
  size_t size = g_mapped_file_get_length(file), at;
  json_t *header = read_header(path, bytes, size, &at, error);
  if (!header) return NULL;
  g_autoptr(GPtrArray) tensors = g_ptr_array_new_with_free_func((GDestroyNotify)tensor_free);
  const char *name;
  json_t *entry;
  bool ok = true;
  json_object_foreach(header, name, entry)
  {
    if (!strcmp(name, "__metadata__") || (only && strcmp(name, only))) continue;
    Tensor *tensor = read_entry(path, name, entry, bytes + at, size - at, error);
    if (!(ok = tensor != NULL)) break;
    g_ptr_array_add(tensors, tensor);
  }
  json_decref(header);
  return ok ? g_steal_pointer(&tensors) : NULL;
}

GPtrArray *tensors_load(const char *path, GError **error)
{
  return load_safetensors(path, NULL, error);
}

static json_t *entry_json(const Tensor *tensor, const char *dtype, size_t at)
{
  json_t *shape = json_array();
  for (unsigned i = 0; i < tensor->rank; i++)
    json_array_append_new(shape, json_integer(tensor->shape[i]));
  return json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype, "shape", shape, "data_offsets", (json_int_t)at,
                   (json_int_t)(at + tensor->bytes));
}

static bool write_aside(const char *path, const GString *head, GPtrArray *tensors, GError **error)
{
  GString *all = g_string_new_len(head->str, (gssize)head->len);
  for (unsigned i = 0; i < tensors->len; i++) {
    const Tensor *tensor = tensors->pdata[i];
    g_string_append_len(all, (const char *)tensor->data, (gssize)tensor->bytes);
  }
  GError *local = NULL;
  bool ok = g_file_set_contents_full(path, all->str, (gssize)all->len, G_FILE_SET_CONTENTS_CONSISTENT, 0644,
                                     &local);
  g_string_free(all, TRUE);
  if (ok) return true;
  error_set(error, ERROR_INPUT, NULL, "unwritable", NULL, "cannot write %s: %s", path, local->message);
  g_error_free(local);
  return false;
}

bool tensors_save(GPtrArray *tensors, const char *path, GError **error)
{
  json_t *header = json_object();
  size_t at = 0;
  for (unsigned i = 0; i < tensors->len; i++) {
    const Tensor *tensor = tensors->pdata[i];
    const char *dtype = spelling(tensor->type, false);
    if (!dtype) {
      json_decref(header);
      return refuse(path, error, "safetensors has no type for %s", number_name(tensor->type));
    }
    json_object_set_new(header, tensor->name, entry_json(tensor, dtype, at));
    at += tensor->bytes;
  }
  char *text = json_dumps(header, JSON_COMPACT | JSON_PRESERVE_ORDER);
  json_decref(header);
  g_autoptr(GString) head = g_string_new(NULL);
  /* Blanks behind the header keep the data aligned to 8 bytes. */
  uint64_t length = (strlen(text) + 7) / 8 * 8, little = GUINT64_TO_LE(length);
  g_string_append_len(head, (const char *)&little, 8);
  g_string_append_printf(head, "%-*s", (int)length, text);
  free(text);
  return write_aside(path, head, tensors, error);
}

/* ---- .npy: magic, version, length of the header, the header as a Python dictionary, the data ---- */

static const char magic[] = "\x93NUMPY";

/* Text behind 'key': in the header, or NULL. */
static const char *value_of(const char *header, const char *key)
{
  g_autofree char *quoted = g_strdup_printf("'%s':", key);
  const char *at = strstr(header, quoted);
  return at ? at + strlen(quoted) + strspn(at + strlen(quoted), " ") : NULL;
}

static bool read_npy_shape(const char *text, unsigned *rank, int64_t *shape)
{
  if (!text || *text++ != '(') return false;
  for (*rank = 0;; ++*rank) {
    text += strspn(text, " ,");
    if (*text == ')') return true;
    char *end;
    if (!g_ascii_isdigit(*text) || *rank == TENSOR_MAX_RANK) return false;
    shape[*rank] = g_ascii_strtoll(text, &end, 10);
    text = end;
  }
}

static Tensor *read_npy_data(const char *path, const char *header, const uint8_t *data, size_t size,
                             GError **error)
{
  const char *descr = value_of(header, "descr"), *order = value_of(header, "fortran_order");
  const char *end = descr && *descr == '\'' ? strchr(descr + 1, '\'') : NULL;
  int64_t shape[TENSOR_MAX_RANK];
  unsigned rank;
  if (!end || !order || !read_npy_shape(value_of(header, "shape"), &rank, shape)) {
    refuse(path, error, "the header is malformed");
    return NULL;
  }
  g_autofree char *dtype = g_strndup(descr + 1, (gsize)(end - descr - 1));
  NumberType type;
  bool known = type_of(dtype, true, &type);
  if (!known || !g_str_has_prefix(order, "False")) {
    error_set(error, ERROR_UNSUPPORTED, NULL, "unsupported-type", NULL, "%s: %s%s is not supported", path,
              known ? "column-major order" : "type ", known ? "" : dtype);
    return NULL;
  }
  g_autofree char *name = g_path_get_basename(path);
  Tensor *tensor = tensor_new(name, type, rank, shape, error);
  if (!tensor) return NULL;
  if (tensor->bytes == size) {
    if (size) memcpy(tensor->data, data, size);
    return tensor;
  }
  refuse(path, error, "%zu bytes of data, but the shape needs %zu", size, tensor->bytes);
  tensor_free(tensor);
  return NULL;
}

static Tensor *load_npy(const char *path, GError **error)
{
  g_autoptr(GMappedFile) file = map_file(path, error);
  if (!file) return NULL;
  const uint8_t *bytes = (const uint8_t *)g_mapped_file_get_contents(file);
  size_t size = g_mapped_file_get_length(file);
  bool wide = size >= 12 && bytes[6] >= 2; /* version 2 and 3 have four bytes of length */
  size_t at = wide ? 12 : 10, length = 0;
  if (size < 12 || memcmp(bytes, magic, 6)) {
    refuse(path, error, "this is not a .npy file");
    return NULL;
  }
  for (size_t i = 8; i < at; i++)
    length |= (size_t)bytes[i] << (8 * (i - 8));
  if (length > size - at) {
    refuse(path, error, "the header is longer than the file");
    return NULL;
  }
  g_autofree char *header = g_strndup((const char *)bytes + at, length);
  return read_npy_data(path, header, bytes + at + length, size - at - length, error);
}

bool tensor_save_npy(const Tensor *tensor, const char *path, GError **error)
{
  const char *dtype = spelling(tensor->type, true);
  if (!dtype)
    return refuse(path, error, ".npy has no type for %s; use .safetensors", number_name(tensor->type));
  g_autoptr(GString) text = g_string_new(NULL);
  g_string_append_printf(text, "{'descr': '%s', 'fortran_order': False, 'shape': (", dtype);
  for (unsigned i = 0; i < tensor->rank; i++)
    g_string_append_printf(text, "%" G_GINT64_FORMAT ", ", tensor->shape[i]);
  g_string_append(text, "), }");
  /* The data begin at a multiple of 64. */
  while ((10 + text->len + 1) % 64)
    g_string_append_c(text, ' ');
  g_string_append_c(text, '\n');
  g_autoptr(GString) head = g_string_new(NULL);
  g_string_append_len(head, magic, 6);
  const char rest[] = {1, 0, (char)(text->len & 0xff), (char)(text->len >> 8)};
  g_string_append_len(head, rest, sizeof rest);
  g_string_append_len(head, text->str, (gssize)text->len);
  g_autoptr(GPtrArray) one = g_ptr_array_new();
  g_ptr_array_add(one, (void *)tensor);
  return write_aside(path, head, one, error);
}

/* ---- any ---- */

Tensor *tensor_load_raw(const char *path, uint64_t offset, const char *name, NumberType type, unsigned rank,
                        const int64_t *shape, GError **error)
{
  g_autoptr(GMappedFile) file = map_file(path, error);
  if (!file) return NULL;
  g_autoptr(Tensor) tensor = tensor_new(name, type, rank, shape, error);
  size_t size = g_mapped_file_get_length(file);
  if (!tensor) return NULL;
  if (offset > size || tensor->bytes > size - offset) {
    refuse(path, error, "%zu bytes, but %s needs %zu at %zu", size, name, tensor->bytes, (size_t)offset);
    return NULL;
  }
  if (tensor->bytes) memcpy(tensor->data, g_mapped_file_get_contents(file) + offset, tensor->bytes);
  return g_steal_pointer(&tensor);
}

Tensor *tensor_load(const char *path, const char *name, GError **error)
{
  if (g_str_has_suffix(path, ".npy")) return load_npy(path, error);
  g_auto(GStrv) parts = g_strsplit(path, "#", 2);
  if (parts[0] && parts[1]) name = parts[1];
  if (!parts[0] || !g_str_has_suffix(parts[0], ".safetensors")) {
    refuse(path, error, "only .safetensors and .npy are read");
    return NULL;
  }
  g_autoptr(GPtrArray) tensors = load_safetensors(parts[0], name, error);
  if (!tensors) return NULL;
  if (tensors->len == 1) return g_ptr_array_steal_index(tensors, 0);
  if (tensors->len)
    refuse(path, error, "it holds %u tensors: write FILE#NAME", tensors->len);
  else
    refuse(path, error, "it holds no tensor%s%s", name ? " " : "", name ? name : "");
  return NULL;
}
