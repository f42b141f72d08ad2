/* See launch_data.h. */
#include "simulator/launch_data.h"
#include <jansson.h>
#include <math.h>
#include <string.h>

static bool wrong(const Mark *mark, GError **error, const char *path, const char *format, ...)
    G_GNUC_PRINTF(4, 5);
static bool wrong(const Mark *mark, GError **error, const char *path, const char *format, ...)
{
  va_list list;
  va_start(list, format);
  g_autofree char *text = g_strdup_vprintf(format, list);
  va_end(list);
  error_set(error, ERROR_INPUT, mark, "data-file", NULL, "%s: %s", path, text);
  return false;
}

static const struct {
  NumberType type;
  const char *safetensors, *npy;
} spellings[] = {{NUMBER_F64, "F64", "<f8"},     {NUMBER_F32, "F32", "<f4"},  {NUMBER_TF32, "F32", "<f4"},
                 {NUMBER_F16, "F16", "<f2"},     {NUMBER_BF16, "BF16", NULL}, {NUMBER_E4M3, "F8_E4M3", NULL},
                 {NUMBER_E5M2, "F8_E5M2", NULL}, {NUMBER_S8, "I8", "|i1"},    {NUMBER_U8, "U8", "|u1"},
                 {NUMBER_S16, "I16", "<i2"},     {NUMBER_U16, "U16", "<u2"},  {NUMBER_S32, "I32", "<i4"},
                 {NUMBER_U32, "U32", "<u4"},     {NUMBER_S64, "I64", "<i8"},  {NUMBER_U64, "U64", "<u8"},
                 {NUMBER_BOOL, "BOOL", "|b1"},   {NUMBER_B16, "U16", "<u2"},  {NUMBER_B32, "U32", "<u4"},
                 {NUMBER_B64, "U64", "<u8"}};

static bool read_safetensors(const char *path, const char *text, size_t length, const char *tensor,
                             const char **at, size_t *n, const Mark *mark, GError **error)
{
  uint64_t header = 0;
  if (length >= 8) memcpy(&header, text, 8);
  if (length < 8 || header > length - 8) return wrong(mark, error, path, "this is no safetensors file");
  json_t *root = json_loadb(text + 8, header, 0, NULL);
  json_t *entry = root ? json_object_get(root, tensor) : NULL;
  if (root && !entry && json_object_size(root) - (json_object_get(root, "__metadata__") != NULL) == 1) {
    const char *key;
    json_t *value;
    json_object_foreach(root, key, value) if (strcmp(key, "__metadata__")) entry = value;
  }
  json_int_t begin = -1, end = -1;
  if (entry) json_unpack(entry, "{s:[I,I]}", "data_offsets", &begin, &end);
  json_decref(root);
  uint64_t space = length - 8 - header;
  if (begin < 0 || end < begin || (uint64_t)end > space)
    return wrong(mark, error, path, "there is no tensor '%s' in it", tensor);
  *at = text + 8 + header + begin;
  *n = (size_t)(end - begin);
  return true;
}

static bool read_npy(const char *path, const char *text, size_t length, const char **at, size_t *n,
                     const Mark *mark, GError **error)
{
  if (length < 12 || memcmp(text, "\x93NUMPY", 6)) return wrong(mark, error, path, "this is no .npy file");
  uint32_t header = (uint8_t)text[8] | (uint32_t)(uint8_t)text[9] << 8, start = 10;
  if (text[6] > 1) {
    memcpy(&header, text + 8, 4);
    start = 12;
  }
  if (header > length - start) return wrong(mark, error, path, "the .npy header is cut off");
  g_autofree char *dict = g_strndup(text + start, header);
  if (strstr(dict, "'fortran_order': True"))
    return wrong(mark, error, path, "Fortran order is not supported");
  *at = text + start + header;
  *n = length - start - header;
  return true;
}

bool launch_data_read(const char *path, const char *tensor, void *data, uint64_t bytes, const Mark *mark,
                      GError **error)
{
  g_autofree char *text = NULL;
  size_t length, n;
  GError *local = NULL;
  if (!g_file_get_contents(path, &text, &length, &local)) {
    wrong(mark, error, path, "%s", local->message);
    g_error_free(local);
    return false;
  }
  const char *at = text;
  n = length;
  if (g_str_has_suffix(path, ".safetensors") &&
      !read_safetensors(path, text, length, tensor, &at, &n, mark, error))
    return false;
  if (g_str_has_suffix(path, ".npy") && !read_npy(path, text, length, &at, &n, mark, error)) return false;
  if (n != bytes)
    return wrong(mark, error, path, "%zu bytes of data; the buffer has %llu", n, (unsigned long long)bytes);
  memcpy(data, at, n);
  return true;
}

static char *header_safetensors(const char *tensor, const char *type, const BufferShape *shape,
                                uint64_t bytes, size_t *length)
{
  json_t *dims = json_array();
  for (unsigned i = 0; i < shape->rank; i++)
    json_array_append_new(dims, json_integer((json_int_t)shape->dims[i]));
  json_t *root = json_pack("{s:{s:s, s:o, s:[i,I]}}", tensor, "dtype", type, "shape", dims, "data_offsets", 0,
                           (json_int_t)bytes);
  char *text = json_dumps(root, JSON_COMPACT);
  json_decref(root);
  uint64_t n = (strlen(text) + 7) / 8 * 8;
  char *out = g_malloc(n + 8);
  memset(out, ' ', n + 8);
  memcpy(out, &n, 8);
  memcpy(out + 8, text, strlen(text));
  free(text);
  *length = n + 8;
  return out;
}

static char *header_npy(const char *type, const BufferShape *shape, size_t *length)
{
  g_autoptr(GString) s = g_string_new(NULL);
  g_string_append_printf(s, "{'descr': '%s', 'fortran_order': False, 'shape': (", type);
  for (unsigned i = 0; i < shape->rank; i++)
    g_string_append_printf(s, "%llu,%s", (unsigned long long)shape->dims[i], i + 1 < shape->rank ? " " : "");
  g_string_append(s, "), }");
  while ((10 + s->len + 1) % 64)
    g_string_append_c(s, ' ');
  g_string_append_c(s, '\n');
  char *out = g_malloc(10 + s->len);
  memcpy(out, "\x93NUMPY\x01\x00", 8);
  out[8] = (char)(s->len & 255);
  out[9] = (char)(s->len >> 8);
  memcpy(out + 10, s->str, s->len);
  *length = 10 + s->len;
  return out;
}

bool launch_data_write(const char *path, const char *tensor, const void *data, uint64_t bytes,
                       const BufferShape *shape, GError **error)
{
  const char *safetensors = NULL, *npy = NULL;
  for (unsigned i = 0; i < G_N_ELEMENTS(spellings); i++)
    if (spellings[i].type == shape->type) {
      safetensors = spellings[i].safetensors;
      npy = spellings[i].npy;
    }
  g_autofree char *header = NULL;
  size_t n = 0;
  if (g_str_has_suffix(path, ".safetensors")) {
    header = header_safetensors(tensor, safetensors ? safetensors : "U8", shape, bytes, &n);
  } else if (g_str_has_suffix(path, ".npy")) {
    if (!npy) return wrong(NULL, error, path, ".npy has no type '%s'", number_name(shape->type));
    header = header_npy(npy, shape, &n);
  }
  g_autofree char *all = g_malloc(n + bytes + 1);
  if (n) memcpy(all, header, n);
  memcpy(all + n, data, bytes);
  GError *local = NULL;
  if (g_file_set_contents(path, all, (gssize)(n + bytes), &local)) return true;
  wrong(NULL, error, path, "%s", local->message);
  g_error_free(local);
  return false;
}

static void philox(uint64_t counter, uint32_t stream, uint64_t seed, uint32_t out[4])
{
  uint32_t c[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), stream, 0},
           k[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  for (unsigned i = 0; i < 10; i++) {
    uint64_t a = (uint64_t)0xd2511f53u * c[0], b = (uint64_t)0xcd9e8d57u * c[2];
    uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k[0], (uint32_t)b, (uint32_t)(a >> 32) ^ c[3] ^ k[1],
                        (uint32_t)a};
    memcpy(c, next, sizeof c);
    k[0] += 0x9e3779b9u;
    k[1] += 0xbb67ae85u;
  }
  memcpy(out, c, sizeof c);
}

void launch_data_random(NumberType type, void *data, uint64_t bytes, uint64_t seed, unsigned index)
{
  unsigned size = number_bytes(type);
  uint64_t n = bytes / size;
  bool is_float = number_class(type) == NUMBER_FLOAT;
  uint8_t *at = data;
  for (uint64_t i = 0; i < n; i += 2) {
    uint32_t r[4];
    philox(i / 2, index, seed, r);
    double u = (r[0] + 1.0) / 4294967297.0, v = r[1] / 4294967296.0, radius = sqrt(-2 * log(u));
    double x[2] = {radius * cos(2 * M_PI * v), radius * sin(2 * M_PI * v)};
    uint64_t bits[2] = {r[0] | (uint64_t)r[2] << 32, r[1] | (uint64_t)r[3] << 32};
    for (unsigned k = 0; k < 2 && i + k < n; k++) {
      if (is_float)
        number_from_double(type, x[k], true, at + (i + k) * size);
      else if (number_class(type) == NUMBER_BOOLEAN)
        at[i + k] = bits[k] & 1;
      else
        memcpy(at + (i + k) * size, &bits[k], size);
    }
  }
}
