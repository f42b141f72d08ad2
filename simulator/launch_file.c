/* LAUNCH.json: a launch with its data, read strictly (every unknown key is an error with its place). */
#include "base/document.h"
#include "simulator/launch_data.h"
#include "simulator/simulator.h"
#include <string.h>

#define MAX_BUFFER   (1ull << 34)
#define MAX_LAUNCHES 256u

typedef struct FileOutput {
  unsigned buffer;
  char *path;
} FileOutput;

/* One of the launches of a list; a file without a list has one. */
typedef struct FileLaunch {
  SimLaunch launch;
  const char *name;
  char *ptx; /* path, NULL: the text that the caller gives */
  SimEdge *after;
  unsigned n_after;
} FileLaunch;

struct SimLaunchFile {
  Document *document;
  char *folder;
  SimLaunch launch; /* buffers and tensor maps; its own launch if there is no list */
  FileLaunch *launches;
  unsigned n_launches;
  GHashTable *modules; /* path -> SimModule: of launches that name a file */
  BufferShape *shapes; /* per buffer: element type and shape, for output files */
  FileOutput *outputs;
  unsigned n_outputs;
};

static bool fail(Node *node, GError **error, const char *format, ...) G_GNUC_PRINTF(3, 4);
static bool fail(Node *node, GError **error, const char *format, ...)
{
  va_list list;
  va_start(list, format);
  g_autofree char *text = g_strdup_vprintf(format, list);
  va_end(list);
  error_set(error, ERROR_INPUT, &node->mark, "launch-file", NULL, "%s", text);
  return false;
}

static bool read_count(Node *node, int64_t least, int64_t most, int64_t *out, GError **error)
{
  if (!node_integer(node, out, error)) return false;
  if (*out < least || *out > most)
    return fail(node, error, "%lld is not between %lld and %lld", (long long)*out, (long long)least,
                (long long)most);
  return true;
}

static bool read_list(Node *node, unsigned most, int64_t limit, uint64_t *out, unsigned *n, GError **error)
{
  if (!node_kind_is(node, NODE_SEQUENCE, "a list", error)) return false;
  if (node->n > most) return fail(node, error, "more than %u entries", most);
  *n = node->n;
  for (unsigned i = 0; i < node->n; i++) {
    int64_t v;
    if (!read_count(node->items[i], 0, limit, &v, error)) return false;
    out[i] = (uint64_t)v;
  }
  return true;
}

static bool read_triple(Node *root, const char *key, bool required, unsigned out[3], GError **error)
{
  Node *node = required ? node_require(root, key, error) : node_get(root, key);
  uint64_t v[3] = {1, 1, 1};
  unsigned n = 0;
  if (!node && required) return false;
  if (node && !read_list(node, 3, 1ll << 31, v, &n, error)) return false;
  for (unsigned i = 0; i < 3; i++)
    out[i] = (unsigned)v[i];
  return true;
}

static char *path_of(const SimLaunchFile *f, const char *name)
{
  return g_path_is_absolute(name) ? g_strdup(name) : g_build_filename(f->folder, name, NULL);
}

static bool read_type(Node *node, NumberType *type, GError **error)
{
  const char *text;
  if (!node_string(node, &text, error)) return false;
  if (!number_parse(text, type)) return fail(node, error, "unknown type '%s'", text);
  return true;
}

static bool buffer_size(Node *node, SimBuffer *b, BufferShape *shape, GError **error)
{
  Node *type = node_get(node, "type"), *dims = node_get(node, "shape"), *bytes = node_get(node, "bytes");
  int64_t n;
  shape->type = NUMBER_U8;
  if (type && !read_type(type, &shape->type, error)) return false;
  if (dims) {
    if (!type) return fail(node, error, "a shape needs a type");
    if (!read_list(dims, 8, 1ll << 40, shape->dims, &shape->rank, error)) return false;
    uint64_t size = number_bytes(shape->type);
    for (unsigned i = 0; i < shape->rank; i++) {
      if (shape->dims[i] && size > MAX_BUFFER / shape->dims[i])
        return fail(dims, error, "the buffer is too large");
      size *= shape->dims[i];
    }
    b->bytes = size;
    if (bytes) return fail(bytes, error, "give 'shape' or 'bytes', not both");
    return true;
  }
  if (!bytes) return fail(node, error, "'shape' or 'bytes' is missing");
  if (!read_count(bytes, 0, (int64_t)MAX_BUFFER, &n, error)) return false;
  b->bytes = (uint64_t)n;
  shape->rank = 1;
  shape->dims[0] = b->bytes / number_bytes(shape->type);
  return true;
}

static bool read_written(Node *node, SimWritten *written, GError **error)
{
  const char *how;
  if (!node) return true;
  if (!node_string(node, &how, error)) return false;
  if (strcmp(how, "whole") && strcmp(how, "part"))
    return fail(node, error, "'%s' is not known; known: whole, part", how);
  *written = *how == 'w' ? SIM_WRITTEN_WHOLE : SIM_WRITTEN_PART;
  return true;
}

static bool read_buffer(SimLaunchFile *f, Node *node, unsigned index, GError **error)
{
  static const char *const known[] = {"type", "shape",  "bytes",     "file",    "tensor", "fill",
                                      "seed", "offset", "addresses", "written", NULL};
  SimBuffer *b = &f->launch.buffers[index];
  if (!node_kind_is(node, NODE_MAPPING, "a buffer", error) || !buffer_size(node, b, &f->shapes[index], error))
    return false;
  Node *file = node_get(node, "file"), *fill = node_get(node, "fill"), *seed = node_get(node, "seed");
  Node *offset = node_get(node, "offset"), *tensor = node_get(node, "tensor");
  int64_t value = 0;
  node_get(node, "addresses"); /* read_references() */
  if (!read_written(node_get(node, "written"), &b->written, error)) return false;
  if (offset && !read_count(offset, 0, 1 << 20, &value, error)) return false;
  b->offset = (uint64_t)value;
  b->data = g_try_malloc0(b->bytes + 16);
  if (!b->data) return fail(node, error, "there is no memory for %llu bytes", (unsigned long long)b->bytes);
  int64_t seed_value = 0;
  if (seed && !node_integer(seed, &seed_value, error)) return false;
  if (file && fill) return fail(fill, error, "give 'file' or 'fill', not both");
  if (file) {
    const char *name, *key = b->name;
    if (!node_string(file, &name, error) || (tensor && !node_string(tensor, &key, error))) return false;
    g_autofree char *path = path_of(f, name);
    if (!launch_data_read(path, key, b->data, b->bytes, &file->mark, error)) return false;
  } else {
    const char *how = "none";
    if (fill && !node_string(fill, &how, error)) return false;
    if (strcmp(how, "random") == 0)
      launch_data_random(f->shapes[index].type, b->data, b->bytes, (uint64_t)seed_value, index);
    else if (strcmp(how, "none") == 0)
      b->undefined = true;
    else if (strcmp(how, "zero"))
      return fail(fill, error, "unknown fill '%s'; known: zero, random, none", how);
  }
  return node_finish(node, known, error);
}

static int find_buffer(const SimLaunchFile *f, const char *name)
{
  for (unsigned i = 0; i < f->launch.n_buffers; i++)
    if (strcmp(f->launch.buffers[i].name, name) == 0) return (int)i;
  return -1;
}

static bool read_map(SimLaunchFile *f, Node *node, SimTensorMap *m, GError **error)
{
  static const char *const known[] = {"buffer",  "type",       "dims", "strides", "box", "element_strides",
                                      "swizzle", "interleave", "oob",  "offset",  "ftz", NULL};
  const char *name, *oob = "zero";
  uint64_t box[5], strides[5] = {1, 1, 1, 1, 1};
  unsigned n_dims, n_strides, n_box, n_element = 0;
  if (!node_kind_is(node, NODE_MAPPING, "a tensor map", error)) return false;
  Node *buffer = node_require(node, "buffer", error);
  Node *type = buffer ? node_require(node, "type", error) : NULL;
  Node *dims = type ? node_require(node, "dims", error) : NULL;
  Node *stride = dims ? node_require(node, "strides", error) : NULL;
  Node *box_node = stride ? node_require(node, "box", error) : NULL;
  if (!box_node || !node_string(buffer, &name, error) || !read_type(type, &m->type, error)) return false;
  int index = find_buffer(f, name);
  if (index < 0) return fail(buffer, error, "there is no buffer '%s'", name);
  m->buffer = (unsigned)index;
  if (!read_list(dims, 5, 1ll << 32, m->dims, &n_dims, error) ||
      !read_list(stride, 4, 1ll << 40, m->strides, &n_strides, error) ||
      !read_list(box_node, 5, 256, box, &n_box, error))
    return false;
  Node *element = node_get(node, "element_strides");
  if (element && !read_list(element, 5, 8, strides, &n_element, error)) return false;
  if (!n_dims || n_box != n_dims || n_strides + 1 != n_dims || (element && n_element != n_dims))
    return fail(node, error, "%u dims need as many box entries and one stride less", n_dims);
  m->rank = n_dims;
  for (unsigned i = 0; i < n_dims; i++) {
    m->box[i] = (uint32_t)box[i];
    m->element_strides[i] = (uint32_t)strides[i];
  }
  Node *swizzle = node_get(node, "swizzle"), *interleave = node_get(node, "interleave");
  Node *oob_node = node_get(node, "oob"), *offset = node_get(node, "offset");
  int64_t value = 0;
  if (swizzle && !node_is_null(swizzle) && strcmp(swizzle->text ? swizzle->text : "", "none") &&
      !read_count(swizzle, 0, 128, &value, error))
    return false;
  m->swizzle = (unsigned)value;
  value = 0;
  if (offset && !read_count(offset, 0, 1ll << 40, &value, error)) return false;
  m->buffer_offset = (uint64_t)value;
  if (oob_node && !node_string(oob_node, &oob, error)) return false;
  m->fill_nan = strcmp(oob, "nan") == 0;
  if (strcmp(oob, "nan") && strcmp(oob, "zero")) return fail(oob_node, error, "oob is zero or nan");
  Node *ftz = node_get(node, "ftz");
  if (ftz && !node_boolean(ftz, &m->ftz, error)) return false;
  if (m->ftz && m->type != NUMBER_F32 && m->type != NUMBER_TF32)
    return fail(ftz, error, "only tensor maps of f32 and tf32 have ftz");
  if (interleave && strcmp(interleave->text ? interleave->text : "", "none") &&
      strcmp(interleave->text ? interleave->text : "", "0"))
    return fail(interleave, error, "interleaved layouts are not supported");
  return node_finish(node, known, error);
}

static bool read_scalar(Node *node, const char *type, SimArgument *a, GError **error)
{
  NumberType t;
  a->kind = SIM_ARG_BYTES;
  if (strcmp(type, "bytes") == 0) {
    if (!node_kind_is(node, NODE_SEQUENCE, "a list of bytes", error)) return false;
    if (node->n > sizeof a->bytes) return fail(node, error, "more than %zu bytes", sizeof a->bytes);
    for (unsigned i = 0; i < node->n; i++) {
      int64_t v;
      if (!read_count(node->items[i], 0, 255, &v, error)) return false;
      a->bytes[i] = (uint8_t)v;
    }
    a->n_bytes = node->n;
    return true;
  }
  if (!number_parse(type, &t)) return fail(node, error, "unknown argument kind '%s'", type);
  a->n_bytes = number_bytes(t);
  if (number_class(t) == NUMBER_FLOAT) {
    double v;
    if (!node_number(node, &v, error)) return false;
    number_from_double(t, v, true, a->bytes);
    return true;
  }
  int64_t v;
  if (!node_integer(node, &v, error)) return false;
  /* Either sign is taken: 0xffffffff and -1 are the same bits. */
  unsigned bits = 8 * (unsigned)MIN(a->n_bytes, 8);
  if (bits < 64 && (v >= 1ll << bits || v < -(1ll << (bits - 1))))
    return fail(node, error, "%lld does not fit %s", (long long)v, type);
  memcpy(a->bytes, &v, MIN(a->n_bytes, 8));
  return true;
}

static bool read_argument(SimLaunchFile *f, Node *node, Node *maps, SimArgument *a, GError **error)
{
  if (!node_kind_is(node, NODE_MAPPING, "an argument", error)) return false;
  Node *offset = node->n == 2 && node_get(node, "buffer") ? node_get(node, "offset") : NULL;
  if (node->n != 1 && !offset)
    return fail(node, error, "an argument has one key: buffer, tensormap or a type");
  const char *kind = offset ? "buffer" : node->keys[0], *name;
  Node *value = node_get(node, kind);
  if (strcmp(kind, "buffer") && strcmp(kind, "tensormap")) return read_scalar(value, kind, a, error);
  if (!node_string(value, &name, error)) return false;
  if (strcmp(kind, "buffer") == 0) {
    int index = find_buffer(f, name);
    if (index < 0) return fail(value, error, "there is no buffer '%s'", name);
    int64_t bytes = 0;
    if (offset && !read_count(offset, 0, 1ll << 40, &bytes, error)) return false;
    *a = (SimArgument){.kind = SIM_ARG_BUFFER, .index = (unsigned)index, .offset = (uint64_t)bytes};
    return true;
  }
  for (unsigned i = 0; maps && i < maps->n; i++)
    if (strcmp(maps->keys[i], name) == 0) {
      *a = (SimArgument){.kind = SIM_ARG_TENSORMAP, .index = i};
      return true;
    }
  return fail(value, error, "there is no tensor map '%s'", name);
}

static int find_map(const SimLaunchFile *f, const char *name)
{
  for (unsigned i = 0; i < f->launch.n_tensormaps; i++)
    if (strcmp(f->launch.tensormaps[i].name, name) == 0) return (int)i;
  return -1;
}

/* {"buffer": "a", "offset": 64, "at": 8} or {"tensormap": "ta", "at": 128} */
static bool read_reference(SimLaunchFile *f, Node *node, unsigned position, const SimBuffer *b,
                           SimReference *r, GError **error)
{
  static const char *const known[] = {"at", "buffer", "offset", NULL}, *const known_map[] = {
                                                                           "at", "tensormap", NULL};
  const char *name;
  if (!node_kind_is(node, NODE_MAPPING, "an address", error)) return false;
  Node *map = node_get(node, "tensormap"), *at = node_get(node, "at"), *offset = node_get(node, "offset");
  Node *target = map ? map : node_require(node, "buffer", error);
  int64_t bytes = 0, place = (int64_t)position * (map ? 128 : 8);
  if (!target || !node_string(target, &name, error)) return false;
  int index = map ? find_map(f, name) : find_buffer(f, name);
  if (index < 0) return fail(target, error, "there is no %s '%s'", map ? "tensor map" : "buffer", name);
  if (offset && !read_count(offset, 0, 1ll << 40, &bytes, error)) return false;
  if (at && !read_count(at, 0, (int64_t)MAX_BUFFER, &place, error)) return false;
  if ((uint64_t)place + (map ? 128 : 8) > b->bytes)
    return fail(at ? at : node, error, "%u bytes at byte %lld are not within the buffer's %llu",
                map ? 128 : 8, (long long)place, (unsigned long long)b->bytes);
  *r = (SimReference){(uint64_t)place, map != NULL, (unsigned)index, (uint64_t)bytes};
  return node_finish(node, map ? known_map : known, error);
}

/* Addresses that buffers hold: when all names are known. */
static bool read_references(SimLaunchFile *f, Node *buffers, GError **error)
{
  for (unsigned i = 0; i < f->launch.n_buffers; i++) {
    SimBuffer *b = &f->launch.buffers[i];
    Node *list = node_get(buffers->items[i], "addresses");
    if (!list) continue;
    if (!node_kind_is(list, NODE_SEQUENCE, "a list of addresses", error)) return false;
    b->references = g_new0(SimReference, list->n + 1);
    for (; b->n_references < list->n; b->n_references++) {
      unsigned k = b->n_references;
      if (!read_reference(f, list->items[k], k, b, &b->references[k], error)) return false;
    }
  }
  return true;
}

static bool read_outputs(SimLaunchFile *f, Node *node, GError **error)
{
  if (!node) return true;
  if (!node_kind_is(node, NODE_MAPPING, "outputs", error)) return false;
  f->outputs = g_new0(FileOutput, node->n);
  for (unsigned i = 0; i < node->n; i++) {
    const char *name;
    int index = find_buffer(f, node->keys[i]);
    if (index < 0) return fail(node->items[i], error, "there is no buffer '%s'", node->keys[i]);
    if (!node_string(node->items[i], &name, error)) return false;
    f->launch.buffers[index].output = true;
    f->outputs[f->n_outputs++] = (FileOutput){(unsigned)index, path_of(f, name)};
    node->taken[i] = true;
  }
  return true;
}

static bool read_data(SimLaunchFile *f, Node *root, GError **error)
{
  SimLaunch *l = &f->launch;
  Node *buffers = node_get(root, "buffers"), *maps = node_get(root, "tensormaps");
  if (buffers && !node_kind_is(buffers, NODE_MAPPING, "buffers", error)) return false;
  if (maps && !node_kind_is(maps, NODE_MAPPING, "tensormaps", error)) return false;
  l->n_buffers = buffers ? buffers->n : 0;
  l->buffers = g_new0(SimBuffer, l->n_buffers + 1);
  f->shapes = g_new0(BufferShape, l->n_buffers + 1);
  for (unsigned i = 0; i < l->n_buffers; i++) {
    l->buffers[i].name = buffers->keys[i];
    buffers->taken[i] = true;
    if (!read_buffer(f, buffers->items[i], i, error)) return false;
  }
  l->n_tensormaps = maps ? maps->n : 0;
  l->tensormaps = g_new0(SimTensorMap, l->n_tensormaps + 1);
  for (unsigned i = 0; i < l->n_tensormaps; i++) {
    l->tensormaps[i].name = maps->keys[i];
    maps->taken[i] = true;
    if (!read_map(f, maps->items[i], &l->tensormaps[i], error)) return false;
  }
  return read_references(f, buffers, error) && read_outputs(f, node_get(root, "outputs"), error);
}

/* Entry, sizes and arguments, which stand in the root or in an item of the list. */
static bool read_launch(SimLaunchFile *f, Node *node, Node *maps, SimLaunch *l, GError **error)
{
  int64_t value = 0;
  Node *entry = node_get(node, "entry"), *shared = node_get(node, "shared"),
       *registers = node_get(node, "registers");
  if (entry && !node_string(entry, &l->entry, error)) return false;
  if (!read_triple(node, "grid", true, l->grid, error) ||
      !read_triple(node, "block", true, l->block, error) ||
      !read_triple(node, "cluster", false, l->cluster, error))
    return false;
  if (shared && !read_count(shared, 0, 1 << 20, &value, error)) return false;
  l->shared = (uint64_t)value;
  value = 0;
  if (registers && !read_count(registers, 1, 255, &value, error)) return false;
  l->registers = (unsigned)value;
  Node *arguments = node_require(node, "args", error);
  if (!arguments || !node_kind_is(arguments, NODE_SEQUENCE, "a list of arguments", error)) return false;
  l->n_arguments = arguments->n;
  l->arguments = g_new0(SimArgument, l->n_arguments + 1);
  for (unsigned i = 0; i < l->n_arguments; i++)
    if (!read_argument(f, arguments->items[i], maps, &l->arguments[i], error)) return false;
  return true;
}

/* Without the key a launch follows the one before it, as in one stream. */
static bool read_edges(Node *node, FileLaunch *l, unsigned index, GError **error)
{
  static const char *const known[] = {"launch", "dependent", NULL};
  Node *list = node_get(node, "depends_on");
  l->n_after = list ? list->n : index > 0;
  l->after = g_new0(SimEdge, l->n_after + 1);
  if (!list && index) l->after[0].launch = index - 1;
  if (list && !node_kind_is(list, NODE_SEQUENCE, "a list of edges", error)) return false;
  for (unsigned i = 0; list && i < list->n; i++) {
    Node *edge = list->items[i];
    int64_t launch;
    if (!node_kind_is(edge, NODE_MAPPING, "an edge", error)) return false;
    Node *target = node_require(edge, "launch", error), *dependent = node_get(edge, "dependent");
    if (!target || !node_integer(target, &launch, error)) return false;
    if (launch < 0 || launch >= index)
      return fail(target, error, "launch %lld is not an earlier one of the list", (long long)launch);
    if (dependent && !node_boolean(dependent, &l->after[i].dependent, error)) return false;
    l->after[i].launch = (unsigned)launch;
    if (!node_finish(edge, known, error)) return false;
  }
  return true;
}

static bool read_launches(SimLaunchFile *f, Node *root, Node *list, GError **error)
{
  static const char *const known[] = {"name",   "ptx",       "entry", "grid",       "block", "cluster",
                                      "shared", "registers", "args",  "depends_on", NULL};
  if (!node_kind_is(list, NODE_SEQUENCE, "a list of launches", error)) return false;
  if (!list->n || list->n > MAX_LAUNCHES)
    return fail(list, error, "%u launches; 1 to %u are possible", list->n, MAX_LAUNCHES);
  f->n_launches = list->n;
  f->launches = g_new0(FileLaunch, list->n);
  for (unsigned i = 0; i < list->n; i++) {
    FileLaunch *l = &f->launches[i];
    Node *item = list->items[i];
    l->launch = f->launch;
    if (!node_kind_is(item, NODE_MAPPING, "a launch", error)) return false;
    Node *name = node_get(item, "name"), *ptx = node_get(item, "ptx");
    const char *path;
    if (name && !node_string(name, &l->name, error)) return false;
    if (ptx && !node_string(ptx, &path, error)) return false;
    if (ptx) l->ptx = path_of(f, path);
    if (!read_launch(f, item, node_get(root, "tensormaps"), &l->launch, error) ||
        !read_edges(item, l, i, error) || !node_finish(item, known, error))
      return false;
    if (!l->name) l->name = l->launch.entry ? l->launch.entry : "unnamed";
  }
  return true;
}

static bool read_root(SimLaunchFile *f, Node *root, GError **error)
{
  static const char *const known[] = {"version",   "entry", "grid",    "block",      "cluster", "shared",
                                      "registers", "args",  "buffers", "tensormaps", "outputs", NULL};
  static const char *const known_list[] = {"version", "launches", "buffers", "tensormaps", "outputs", NULL};
  int64_t value = 0;
  if (!node_kind_is(root, NODE_MAPPING, "a launch", error)) return false;
  Node *version = node_require(root, "version", error), *list = node_get(root, "launches");
  if (!version || !read_count(version, 1, 1, &value, error)) return false;
  if (!read_data(f, root, error)) return false;
  if (list) return read_launches(f, root, list, error) && node_finish(root, known_list, error);
  return read_launch(f, root, node_get(root, "tensormaps"), &f->launch, error) &&
         node_finish(root, known, error);
}

SimLaunchFile *sim_launch_file_load(const char *path, GError **error)
{
  g_autoptr(Source) source = source_load(path, error);
  return source ? sim_launch_file_read(source, error) : NULL;
}

SimLaunchFile *sim_launch_file_read(Source *source, GError **error)
{
  g_autoptr(SimLaunchFile) f = g_new0(SimLaunchFile, 1);
  f->folder = g_path_get_dirname(source->name);
  f->document = document_parse(source, error);
  if (!f->document || !read_root(f, document_root(f->document), error)) return NULL;
  return g_steal_pointer(&f);
}

SimLaunch *sim_launch_file_launch(SimLaunchFile *file)
{
  return &file->launch;
}

/* Each file is read once: launches of one module share its variables. */
static const SimModule *module_of(SimLaunchFile *f, const char *path, GError **error)
{
  SimModule *known = g_hash_table_lookup(f->modules, path);
  if (known) return known;
  g_autoptr(Source) source = source_load(path, error);
  SimModule *module = source ? sim_module_parse(source, error) : NULL;
  if (module) g_hash_table_insert(f->modules, (char *)path, module);
  return module;
}

bool sim_launch_file_run(SimLaunchFile *file, const SimModule *module, const Gpu *gpu,
                         const SimOptions *options, SimResult *result, GError **error)
{
  if (!file->n_launches) return sim_run(module, &file->launch, gpu, options, result, error);
  g_autofree SimStep *steps = g_new0(SimStep, file->n_launches);
  if (!file->modules)
    file->modules = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, (GDestroyNotify)sim_module_free);
  for (unsigned i = 0; i < file->n_launches; i++) {
    const FileLaunch *l = &file->launches[i];
    steps[i] = (SimStep){.name = l->name,
                         .module = l->ptx ? module_of(file, l->ptx, error) : module,
                         .launch = &l->launch,
                         .after = l->after,
                         .n_after = l->n_after};
    if (!steps[i].module) return false;
  }
  return sim_run_steps(steps, file->n_launches, gpu, options, result, error);
}

bool sim_launch_file_write_outputs(const SimLaunchFile *file, GError **error)
{
  for (unsigned i = 0; i < file->n_outputs; i++) {
    const FileOutput *o = &file->outputs[i];
    const SimBuffer *b = &file->launch.buffers[o->buffer];
    if (!launch_data_write(o->path, b->name, b->data, b->bytes, &file->shapes[o->buffer], error))
      return false;
  }
  return true;
}

void sim_launch_file_free(SimLaunchFile *file)
{
  if (!file) return;
  for (unsigned i = 0; i < file->launch.n_buffers && file->launch.buffers; i++) {
    g_free(file->launch.buffers[i].data);
    g_free(file->launch.buffers[i].references);
  }
  for (unsigned i = 0; i < file->n_outputs; i++)
    g_free(file->outputs[i].path);
  if (file->modules) g_hash_table_destroy(file->modules);
  for (unsigned i = 0; i < file->n_launches; i++) {
    g_free(file->launches[i].launch.arguments);
    g_free(file->launches[i].ptx);
    g_free(file->launches[i].after);
  }
  g_free(file->launches);
  g_free(file->launch.buffers);
  g_free(file->launch.tensormaps);
  g_free(file->launch.arguments);
  g_free(file->outputs);
  g_free(file->shapes);
  g_free(file->folder);
  document_free(file->document);
  g_free(file);
}
