#include "base/foreign.h"
#include <string.h>

/* ---- formats that begin with bytes of their own ---- */

#define AS_CONSTANT "a graph names such a file as `file` of a constant: docs/graph.md"
#define UNPACK      "unpack it first"
#define WRITE_GRAPH "write the graph as JSON or YAML (docs/graph.md)"

typedef struct Magic {
  const char *bytes;
  unsigned length, offset;
  ForeignFormat format;
} Magic;

/* MAGIC(offset, bytes, name, hint): of a string's bytes, without its NUL. */
#define MAGIC(offset, bytes, name, hint)                                                                     \
  {                                                                                                          \
    bytes, sizeof(bytes) - 1, offset,                                                                        \
    {                                                                                                        \
      name, hint, ERROR_INPUT                                                                                \
    }                                                                                                        \
  }

static const Magic magics[] = {
    MAGIC(0, "PK\3\4", "a zip archive, as .pt files of PyTorch and .npz files of NumPy are", WRITE_GRAPH),
    MAGIC(0, "PK\5\6", "an empty zip archive", NULL),
    MAGIC(0, "\x93NUMPY", "a NumPy array (.npy)", AS_CONSTANT),
    MAGIC(0, "\x1f\x8b", "packed by gzip", UNPACK),
    MAGIC(0, "\x28\xb5\x2f\xfd", "packed by zstd", UNPACK),
    MAGIC(0, "\xfd\x37zXZ", "packed by xz", UNPACK),
    MAGIC(4, "1AY&SY", "packed by bzip2", UNPACK),
    MAGIC(0, "\x04\x22\x4d\x18", "packed by lz4", UNPACK),
    MAGIC(0, "\x7f\x45LF", "an ELF file, as programs, libraries and cubins are", NULL),
    MAGIC(0, "\x50\xed\x55\xba", "a fat binary of CUDA", NULL),
    MAGIC(0, "BC\xc0\xde", "LLVM bitcode", NULL),
    MAGIC(0, "ML\xefR", "MLIR bytecode", WRITE_GRAPH),
    MAGIC(0, "GGUF", "a GGUF model", WRITE_GRAPH),
    MAGIC(4, "TFL3", "a TensorFlow Lite model", WRITE_GRAPH),
    MAGIC(4, "ORTM", "an ONNX Runtime model (.ort)", WRITE_GRAPH),
    MAGIC(0, "\x89HDF\r\n", "an HDF5 file, as .h5 files of Keras are", WRITE_GRAPH),
    MAGIC(0, "\x89PNG\r\n", "a PNG picture", NULL),
    MAGIC(0, "%PDF-", "a PDF file", NULL),
    MAGIC(0, "SQLite format 3", "an SQLite database", NULL),
    MAGIC(0, "\xff\xfe", "text in UTF-16", "save it as UTF-8"),
    MAGIC(0, "\xfe\xff", "text in UTF-16", "save it as UTF-8"),
    MAGIC(0, "adlgen-ir", "pseudo-assembly of adlgen", "adlgen compile takes it"),
};

static const ForeignFormat *by_magic(const char *bytes, size_t length)
{
  for (unsigned i = 0; i < G_N_ELEMENTS(magics); i++) {
    const Magic *magic = &magics[i];
    if (length >= magic->offset + magic->length &&
        !memcmp(bytes + magic->offset, magic->bytes, magic->length))
      return &magic->format;
  }
  return NULL;
}

/* ---- formats that must be looked into ---- */

static bool is_pickle(const unsigned char *bytes, size_t length)
{
  /* the protocol's number, then a frame, a dictionary, a class ...; the last byte is STOP */
  return length > 3 && bytes[0] == 0x80 && bytes[1] >= 2 && bytes[1] <= 5 &&
         memchr("\x95}](c\x8a\x8c", bytes[2], 7);
}

/* The header's length in 64 bits, then the header, which is JSON. */
static bool is_safetensors(const unsigned char *bytes, size_t length, bool whole)
{
  guint64 header = 0;
  if (length < 10 || bytes[8] != '{') return false;
  for (unsigned i = 0; i < 8; i++)
    header |= (guint64)bytes[i] << (8 * i);
  return header >= 2 && (whole ? header <= length - 8 : header < (guint64)1 << 32);
}

/* Its first line that is neither empty nor a comment is the directive .version. */
static bool is_ptx(const char *text)
{
  for (;;) {
    text += strspn(text, " \t\r\n");
    if (g_str_has_prefix(text, "/*")) {
      text = strstr(text, "*/");
      if (!text) return false;
      text += 2;
    } else if (g_str_has_prefix(text, "//")) {
      text = strchr(text, '\n');
      if (!text) return false;
    } else {
      return g_str_has_prefix(text, ".version");
    }
  }
}

/* A number of a protocol buffer; false: there is none, or it goes beyond the end. */
static bool take_varint(const unsigned char **at, const unsigned char *end, guint64 *value)
{
  *value = 0;
  for (unsigned shift = 0; shift < 64 && *at < end; shift += 7) {
    unsigned char byte = *(*at)++;
    *value |= (guint64)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) return true;
  }
  return false;
}

/* Fields of ModelProto, from onnx.proto: ir_version, graph and producer_name; none there is beyond the last.
 */
#define ONNX_IR_VERSION 1
#define ONNX_GRAPH      7
#define ONNX_PRODUCER   2 /* a number in TensorProto, which begins alike */
#define ONNX_LAST_FIELD 100

typedef enum { ONNX_NOT, ONNX_MODEL, ONNX_CUT } OnnxKind;

/* Walks the outermost fields: an ONNX model is a protocol buffer that begins with its version, in practice,
 * and has a graph. */
static OnnxKind is_onnx(const unsigned char *at, size_t length)
{
  enum { VARINT, FIXED64, BYTES, FIXED32 = 5 };
  const unsigned char *end = at + length;
  guint64 tag, value;
  bool version = false, graph = false;
  while (at < end) {
    if (!take_varint(&at, end, &tag)) return graph ? ONNX_CUT : ONNX_NOT;
    unsigned wire = tag & 7;
    guint64 field = tag >> 3, size = wire == FIXED64 ? 8 : wire == FIXED32 ? 4 : 0;
    if (!field || field > ONNX_LAST_FIELD) return ONNX_NOT;
    if (field == ONNX_PRODUCER && wire != BYTES) return ONNX_NOT;
    if (!version && (field != ONNX_IR_VERSION || wire != VARINT)) return ONNX_NOT;
    version = true;
    graph = graph || (field == ONNX_GRAPH && wire == BYTES);
    if (wire == VARINT || wire == BYTES) {
      if (!take_varint(&at, end, &value)) return graph ? ONNX_CUT : ONNX_NOT;
      if (wire == BYTES) size = value;
    } else if (!size) {
      return ONNX_NOT;
    }
    if (size > (guint64)(end - at)) return graph ? ONNX_CUT : ONNX_NOT;
    at += size;
  }
  return graph ? ONNX_MODEL : ONNX_NOT;
}

/* ---- the whole ---- */

static const ForeignFormat pickle = {"a Python pickle, as old .pt files of PyTorch are", WRITE_GRAPH,
                                     ERROR_INPUT};
static const ForeignFormat safetensors = {"a safetensors file", AS_CONSTANT, ERROR_INPUT};
static const ForeignFormat ptx = {"PTX", "adlgen sim KERNEL.ptx runs it", ERROR_INPUT};
static const ForeignFormat onnx = {"an ONNX model", "commands that take a graph read it", ERROR_INPUT};
static const ForeignFormat onnx_cut = {"an ONNX model that ends too early", NULL, ERROR_INPUT};

const ForeignFormat *foreign_format(const char *bytes, size_t length, bool whole)
{
  const unsigned char *at = (const unsigned char *)bytes;
  const ForeignFormat *format = by_magic(bytes, length);
  if (format) return format;
  if (is_pickle(at, length)) return &pickle;
  if (is_safetensors(at, length, whole)) return &safetensors;
  if (is_ptx(bytes)) return &ptx;
  OnnxKind kind = is_onnx(at, length);
  if (kind == ONNX_NOT) return NULL;
  return kind == ONNX_MODEL || !whole ? &onnx : &onnx_cut;
}

bool foreign_is_onnx(const char *bytes, size_t length)
{
  return !by_magic(bytes, length) && is_onnx((const unsigned char *)bytes, length) != ONNX_NOT;
}
