#include "generator/choose/tuned.h"
#include "base/data.h"
#include "base/document.h"
#include "generator/choose/spaces.h"
#include "ir/former.h"
#include <string.h>

struct TunedFile {
  GStringChunk *strings;
  const char *gpu;
  unsigned sms, generation;
  GPtrArray *entries; /* TunedEntry *, owned */
};

struct TunedDatabase {
  GPtrArray *files; /* TunedFile *, owned */
  GPtrArray *notes; /* char *, owned; ends with NULL */
};

/* ---- one file ---- */

char *tuned_parameters_text(const TunedEntry *entry)
{
  GString *text = g_string_new(NULL);
  for (unsigned i = 0; i < entry->n_parameters; i++)
    g_string_append_printf(text, "%s%s=%" G_GINT64_FORMAT, i ? " " : "", entry->parameters[i].name,
                           entry->parameters[i].value);
  return g_string_free(text, FALSE);
}

static void entry_free(void *entry)
{
  g_free(((TunedEntry *)entry)->parameters);
  g_free(((TunedEntry *)entry)->extents);
  g_free(entry);
}

static TunedFile *file_new(const char *gpu, unsigned sms, unsigned generation)
{
  TunedFile *file = g_new0(TunedFile, 1);
  file->strings = g_string_chunk_new(1024);
  file->gpu = g_string_chunk_insert_const(file->strings, gpu);
  file->sms = sms;
  file->generation = generation;
  file->entries = g_ptr_array_new_with_free_func(entry_free);
  return file;
}

TunedFile *tuned_file_new(const Gpu *gpu)
{
  return file_new(gpu->name, gpu->sm_count, TUNED_GENERATION);
}

void tuned_file_free(TunedFile *file)
{
  if (!file) return;
  g_ptr_array_unref(file->entries);
  g_string_chunk_free(file->strings);
  g_free(file);
}

char *tuned_file_stale(const TunedFile *file, const Gpu *gpu)
{
  if (strcmp(file->gpu, gpu->name)) return g_strdup_printf("it is for %s", file->gpu);
  if (file->sms != gpu->sm_count)
    return g_strdup_printf("it was measured on %u SMs, %s is described with %u", file->sms, gpu->name,
                           gpu->sm_count);
  if (file->generation != TUNED_GENERATION)
    return g_strdup_printf("it was measured with kernels of generation %u, this program's are of %d",
                           file->generation, TUNED_GENERATION);
  return NULL;
}

unsigned tuned_file_count(const TunedFile *file)
{
  return file->entries->len;
}

const TunedEntry *tuned_file_entry(const TunedFile *file, unsigned index)
{
  return file->entries->pdata[index];
}

static int compare_numbers(int64_t a, int64_t b)
{
  return (a > b) - (a < b);
}

/* Apart from m. */
static int compare_products(const TunedEntry *a, const TunedEntry *b)
{
  int order = strcmp(a->product, b->product);
  if (!order) order = compare_numbers(a->sms, b->sms);
  if (!order) order = compare_numbers(a->batches, b->batches);
  if (!order) order = compare_numbers(a->n, b->n);
  return order ? order : compare_numbers(a->k, b->k);
}

static int compare_entries(const void *a, const void *b)
{
  const TunedEntry *x = *(const TunedEntry *const *)a, *y = *(const TunedEntry *const *)b;
  int order = compare_products(x, y);
  if (!order) order = compare_numbers(x->m, y->m);
  if (!order) order = compare_numbers(x->n_extents, y->n_extents);
  for (unsigned i = 0; !order && i < x->n_extents; i++)
    order = compare_numbers(x->extents[i], y->extents[i]);
  return order;
}

void tuned_file_put(TunedFile *file, const TunedEntry *entry)
{
  TunedEntry *copy = g_memdup2(entry, sizeof *entry);
  copy->product = g_string_chunk_insert_const(file->strings, entry->product);
  copy->parameters = g_memdup2(entry->parameters, entry->n_parameters * sizeof *entry->parameters);
  copy->extents = g_memdup2(entry->extents, entry->n_extents * sizeof *entry->extents);
  for (unsigned i = 0; i < copy->n_parameters; i++)
    copy->parameters[i].name = g_string_chunk_insert_const(file->strings, entry->parameters[i].name);
  for (unsigned i = 0; i < file->entries->len; i++) {
    if (compare_entries(&file->entries->pdata[i], &copy)) continue;
    entry_free(file->entries->pdata[i]);
    file->entries->pdata[i] = copy;
    return;
  }
  g_ptr_array_add(file->entries, copy);
}

static json_t *operator_json(const TunedEntry *entry, json_t *parameters)
{
  json_t *extents = json_array();
  for (unsigned i = 0; i < entry->n_extents; i++)
    json_array_append_new(extents, json_integer(entry->extents[i]));
  return json_pack("{s:s, s:i, s:o, s:o, s:f, s:f}", "operator", entry->product, "sms", (int)entry->sms,
                   "extents", extents, "parameters", parameters, "us", entry->us, "first_us",
                   entry->first_us);
}

static json_t *entry_json(const TunedEntry *entry)
{
  json_t *parameters = json_object();
  for (unsigned i = 0; i < entry->n_parameters; i++)
    json_object_set_new(parameters, entry->parameters[i].name, json_integer(entry->parameters[i].value));
  if (entry->n_extents) return operator_json(entry, parameters);
  return json_pack("{s:s, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:f, s:f}", "product", entry->product,
                   "sms", (int)entry->sms, "batches", (json_int_t)entry->batches, "n", (json_int_t)entry->n,
                   "k", (json_int_t)entry->k, "m", (json_int_t)entry->m, "from", (json_int_t)entry->least,
                   "to", (json_int_t)entry->most, "parameters", parameters, "us", entry->us, "first_us",
                   entry->first_us);
}

char *tuned_file_text(const TunedFile *file)
{
  g_autoptr(GPtrArray) sorted = g_ptr_array_new();
  g_ptr_array_extend(sorted, file->entries, NULL, NULL);
  g_ptr_array_sort(sorted, compare_entries);
  g_autoptr(GString) text = g_string_new(NULL);
  int version = 1;
  for (unsigned i = 0; i < sorted->len; i++)
    if (((const TunedEntry *)sorted->pdata[i])->n_extents) version = TUNED_VERSION;
  json_t *gpu = json_string(file->gpu);
  char *name = json_dumps(gpu, JSON_ENCODE_ANY);
  g_string_printf(text, "{\"version\": %d, \"gpu\": %s, \"sms\": %u, \"generation\": %u, \"entries\": [",
                  version, name, file->sms, file->generation);
  free(name);
  json_decref(gpu);
  for (unsigned i = 0; i < sorted->len; i++) {
    json_t *json = entry_json(sorted->pdata[i]);
    char *line = json_dumps(json, JSON_REAL_PRECISION(5));
    g_string_append_printf(text, "%s\n  %s", i ? "," : "", line);
    free(line);
    json_decref(json);
  }
  g_string_append(text, "]}\n");
  return g_string_free(g_steal_pointer(&text), FALSE);
}

/* ---- reading ---- */

static bool outside(const Node *node, const char *what, GError **error)
{
  error_add(error, ERROR_INPUT, SEVERITY_ERROR, &node->mark, "out-of-range",
            "docs/tune.md describes the file", "%s", what);
  return false;
}

static bool read_count(Node *mapping, const char *key, int64_t least, int64_t most, int64_t *value,
                       GError **error)
{
  Node *node = node_require(mapping, key, error);
  if (!node || !node_integer(node, value, error)) return false;
  if (*value >= least && *value <= most) return true;
  g_autofree char *what =
      g_strdup_printf("`%s` must be from %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT, key, least, most);
  return outside(node, what, error);
}

static bool read_time(Node *mapping, const char *key, double *value, GError **error)
{
  Node *node = node_require(mapping, key, error);
  if (!node || !node_number(node, value, error)) return false;
  if (*value > 0 && isfinite(*value)) return true;
  g_autofree char *what = g_strdup_printf("`%s` must be a time above 0, in microseconds", key);
  return outside(node, what, error);
}

/* Is it a parameter that templates declare, and a value that it may have there? */
static bool check_parameter(const Spaces *spaces, const TunedParameter *parameter, const Mark *key,
                            const Mark *value, GError **error)
{
  const IrParameter *declared = spaces_find(spaces, parameter->name);
  if (declared && spaces_have(spaces, parameter->name, parameter->value)) return true;
  if (!declared || declared->decided_by) {
    const char *nearest = spaces_nearest(spaces, parameter->name);
    g_autofree char *hint = nearest ? g_strdup_printf("did you mean `%s`?", nearest) : NULL;
    error_add(error, ERROR_INPUT, SEVERITY_ERROR, key, "unknown-parameter", hint,
              declared ? "`%s` follows from other things: nobody chooses it"
                       : "no template has a parameter `%s`",
              parameter->name);
    return false;
  }
  g_autofree char *domain = spaces_domain_text(spaces, parameter->name);
  error_add(error, ERROR_INPUT, SEVERITY_ERROR, value, "out-of-range", NULL, "`%s` is %s", parameter->name,
            domain);
  return false;
}

/* `spaces`: NULL where the entry is of other kernels than this program's, whose parameters nobody knows. */
static bool read_parameters(TunedEntry *entry, Node *mapping, const Spaces *spaces,
                            TunedParameter *parameters, GError **error)
{
  Node *node = node_require(mapping, "parameters", error);
  if (!node || !node_kind_is(node, NODE_MAPPING, "template parameters", error)) return false;
  if (node->n > TUNED_MAX_PARAMETERS)
    return outside(node, "more than " G_STRINGIFY(TUNED_MAX_PARAMETERS) " parameters", error);
  entry->parameters = parameters;
  for (unsigned i = 0; i < node->n; i++) {
    TunedParameter *parameter = &parameters[entry->n_parameters++];
    node->taken[i] = true;
    const char *today = ir_former_name(node->keys[i]);
    parameter->name = today ? today : node->keys[i];
    if (!node_integer(node->items[i], &parameter->value, error)) return false;
    if (spaces && !check_parameter(spaces, parameter, &node->key_marks[i], &node->items[i]->mark, error))
      return false;
  }
  return true;
}

static bool read_product(TunedEntry *entry, Node *node, GError **error)
{
  Node *product = node_require(node, "product", error);
  return product && node_string(product, &entry->product, error) &&
         read_count(node, "batches", 1, G_MAXINT32, &entry->batches, error) &&
         read_count(node, "n", 1, G_MAXINT32, &entry->n, error) &&
         read_count(node, "k", 1, G_MAXINT32, &entry->k, error) &&
         read_count(node, "m", 1, G_MAXINT32, &entry->m, error) &&
         read_count(node, "from", 1, entry->m, &entry->least, error) &&
         read_count(node, "to", entry->m, G_MAXINT32, &entry->most, error);
}

/* `extents` has room for TUNED_MAX_EXTENTS. */
static bool read_operator(TunedEntry *entry, Node *node, int64_t *extents, GError **error)
{
  Node *operator_ = node_require(node, "operator", error), *list = node_require(node, "extents", error);
  if (!operator_ || !list || !node_string(operator_, &entry->product, error) ||
      !node_kind_is(list, NODE_SEQUENCE, "a list of extents", error))
    return false;
  if (!list->n || list->n > TUNED_MAX_EXTENTS)
    return outside(list, "`extents` has from 1 to " G_STRINGIFY(TUNED_MAX_EXTENTS) " numbers", error);
  entry->extents = extents;
  entry->n_extents = list->n;
  for (unsigned i = 0; i < list->n; i++) {
    if (!node_integer(list->items[i], &extents[i], error)) return false;
    if (extents[i] < 1) return outside(list->items[i], "an extent is at least 1", error);
  }
  return true;
}

/* false: what is wrong, or an entry before it has the same key. */
static bool read_entry(TunedFile *file, Node *node, int64_t version, const Spaces *spaces, GError **error)
{
  static const char *const keys[] = {"product", "sms", "batches",    "n",  "k",        "m",
                                     "from",    "to",  "parameters", "us", "first_us", NULL};
  static const char *const operator_keys[] = {"operator", "sms",      "extents", "parameters",
                                              "us",       "first_us", NULL};
  TunedParameter parameters[TUNED_MAX_PARAMETERS];
  int64_t extents[TUNED_MAX_EXTENTS], sms = 0;
  TunedEntry entry = {0};
  if (!node_kind_is(node, NODE_MAPPING, "an entry", error)) return false;
  bool product = version < 2 || !node_get(node, "operator");
  if (!read_count(node, "sms", 1, G_MAXINT32, &sms, error) ||
      !(product ? read_product(&entry, node, error) : read_operator(&entry, node, extents, error)) ||
      !read_parameters(&entry, node, spaces, parameters, error) || !read_time(node, "us", &entry.us, error) ||
      !read_time(node, "first_us", &entry.first_us, error) ||
      !node_finish(node, product ? keys : operator_keys, error))
    return false;
  entry.sms = (unsigned)sms;
  unsigned n = file->entries->len;
  tuned_file_put(file, &entry);
  if (file->entries->len > n) return true;
  error_add(error, ERROR_INPUT, SEVERITY_ERROR, &node->mark, "duplicate-entry", NULL,
            product ? "an earlier entry has the same product, sms, batches, n, k and m"
                    : "an earlier entry has the same operator, sms and extents");
  return false;
}

static TunedFile *read_root(Node *root, GError **error)
{
  static const char *const keys[] = {"version", "gpu", "sms", "generation", "entries", NULL};
  const char *name = NULL;
  int64_t version = 0, sms = 0, generation = 0;
  if (!node_kind_is(root, NODE_MAPPING, "a file of measured choices", error) ||
      !read_count(root, "version", 1, TUNED_VERSION, &version, error))
    return NULL;
  Node *gpu = node_require(root, "gpu", error), *entries = node_require(root, "entries", error);
  if (!gpu || !entries || !node_string(gpu, &name, error) ||
      !read_count(root, "sms", 1, G_MAXINT32, &sms, error) ||
      !read_count(root, "generation", 1, G_MAXINT32, &generation, error) ||
      !node_kind_is(entries, NODE_SEQUENCE, "a list of entries", error) || !node_finish(root, keys, error))
    return NULL;
  g_autoptr(TunedFile) file = file_new(name, (unsigned)sms, (unsigned)generation);
  bool own = generation == TUNED_GENERATION, ok = true;
  g_autoptr(Spaces) spaces = own && entries->n ? spaces_read(error) : NULL;
  if (own && entries->n && !spaces) return NULL;
  for (unsigned i = 0; i < entries->n; i++)
    ok &= read_entry(file, entries->items[i], version, spaces, error);
  return ok ? g_steal_pointer(&file) : NULL;
}

TunedFile *tuned_file_read(Source *source, GError **error)
{
  g_autoptr(Document) document = document_parse(source, error);
  return document ? read_root(document_root(document), error) : NULL;
}

/* ---- databases ---- */

TunedDatabase *tuned_database_new(void)
{
  TunedDatabase *database = g_new0(TunedDatabase, 1);
  database->files = g_ptr_array_new_with_free_func((GDestroyNotify)tuned_file_free);
  database->notes = g_ptr_array_new_with_free_func(g_free);
  g_ptr_array_add(database->notes, NULL);
  return database;
}

void tuned_database_free(TunedDatabase *database)
{
  if (!database) return;
  g_ptr_array_unref(database->files);
  g_ptr_array_unref(database->notes);
  g_free(database);
}

void tuned_database_add(TunedDatabase *database, TunedFile *file, const char *name, const Gpu *gpu)
{
  g_autofree char *stale = tuned_file_stale(file, gpu);
  if (!stale) {
    g_ptr_array_add(database->files, file);
    return;
  }
  g_ptr_array_insert(database->notes, (int)database->notes->len - 1,
                     g_strdup_printf("tuned: %s is left out: %s", name, stale));
  tuned_file_free(file);
}

const char *const *tuned_database_notes(const TunedDatabase *database)
{
  return (const char *const *)database->notes->pdata;
}

/* How far apart two numbers of rows are, as a factor. */
static double distance(int64_t a, int64_t b)
{
  return a > b ? (double)a / (double)b : (double)b / (double)a;
}

const TunedEntry *tuned_database_find(const TunedDatabase *database, const TunedEntry *wanted)
{
  for (unsigned i = 0; i < database->files->len; i++) {
    const TunedFile *file = database->files->pdata[i];
    const TunedEntry *best = NULL;
    for (unsigned j = 0; j < file->entries->len; j++) {
      const TunedEntry *entry = file->entries->pdata[j];
      if (wanted->m < entry->least || wanted->m > entry->most || compare_products(entry, wanted)) continue;
      if (!best || distance(entry->m, wanted->m) < distance(best->m, wanted->m)) best = entry;
    }
    if (best) return best;
  }
  return NULL;
}

/* How far apart the extents are; 0: those that must be the same are not. */
static double extents_apart(const TunedEntry *entry, const TunedEntry *wanted, const bool *open)
{
  double apart = 1;
  if (entry->n_extents != wanted->n_extents) return 0;
  for (unsigned i = 0; i < wanted->n_extents; i++) {
    if (!open[i] && entry->extents[i] != wanted->extents[i]) return 0;
    apart *= distance(entry->extents[i], wanted->extents[i]);
  }
  return apart;
}

const TunedEntry *tuned_database_find_operator(const TunedDatabase *database, const TunedEntry *wanted,
                                               const bool *open)
{
  for (unsigned i = 0; i < database->files->len; i++) {
    const TunedFile *file = database->files->pdata[i];
    const TunedEntry *best = NULL;
    for (unsigned j = 0; j < file->entries->len; j++) {
      const TunedEntry *entry = file->entries->pdata[j];
      double apart = entry->sms == wanted->sms && !strcmp(entry->product, wanted->product)
                         ? extents_apart(entry, wanted, open)
                         : 0;
      if (apart > 0 && (!best || apart < extents_apart(best, wanted, open))) best = entry;
    }
    if (best) return best;
  }
  return NULL;
}

char *tuned_user_path(const char *gpu)
{
  const char *xdg = g_getenv("XDG_DATA_HOME");
  g_autofree char *file = g_strconcat(gpu, ".json", NULL);
  return xdg && *xdg ? g_build_filename(xdg, "adlgen", "tuned", file, NULL)
                     : g_build_filename(g_get_home_dir(), ".local", "share", "adlgen", "tuned", file, NULL);
}

/* Sources of the files for a GPU, in the order in which they answer. */
static GPtrArray *sources_of(const char *gpu, const char *const *files, GError **error)
{
  g_autoptr(GPtrArray) sources = g_ptr_array_new_with_free_func((GDestroyNotify)source_unref);
  g_autoptr(GPtrArray) paths = g_ptr_array_new_with_free_func(g_free);
  for (; files && *files; files++)
    g_ptr_array_add(paths, g_strdup(*files));
  const char *variable = g_getenv("ADLGEN_TUNED");
  g_auto(GStrv) more = g_strsplit(variable ? variable : "", G_SEARCHPATH_SEPARATOR_S, -1);
  for (char **path = more; *path; path++)
    if (**path) g_ptr_array_add(paths, g_strdup(*path));
  g_autofree char *own = tuned_user_path(gpu);
  if (g_file_test(own, G_FILE_TEST_EXISTS)) g_ptr_array_add(paths, g_steal_pointer(&own));
  for (unsigned i = 0; i < paths->len; i++) {
    Source *source = source_load(paths->pdata[i], error);
    if (!source) return NULL;
    g_ptr_array_add(sources, source);
  }
  g_autofree char *shipped = g_strdup_printf("bench/tuned/%s.json", gpu);
  if (!data_exists(shipped)) return g_steal_pointer(&sources);
  Source *source = data_load(shipped, error);
  if (!source) return NULL;
  g_ptr_array_add(sources, source);
  return g_steal_pointer(&sources);
}

TunedDatabase *tuned_database_open(const Gpu *gpu, const char *const *files, GError **error)
{
  g_autoptr(TunedDatabase) database = tuned_database_new();
  g_autoptr(GPtrArray) sources = sources_of(gpu->name, files, error);
  if (!sources) return NULL;
  for (unsigned i = 0; i < sources->len; i++) {
    Source *source = sources->pdata[i];
    TunedFile *file = tuned_file_read(source, error);
    if (!file) return NULL;
    tuned_database_add(database, file, source->name, gpu);
  }
  return g_steal_pointer(&database);
}

bool tuned_database_digest(const char *gpu, const char *const *files, GString *digest)
{
  g_autoptr(GPtrArray) sources = sources_of(gpu, files, NULL);
  for (unsigned i = 0; sources && i < sources->len; i++) {
    const Source *source = sources->pdata[i];
    g_autofree char *sum =
        g_compute_checksum_for_data(G_CHECKSUM_SHA256, (const guchar *)source->text, source->length);
    g_string_append_printf(digest, "tuned %s\n", sum);
  }
  return sources != NULL;
}
