#include "catalog/catalog.h"
#include <string.h>

/* 2: `kept`; a file that is not kept is a name only. */
#define MANIFEST_VERSION 2

void catalog_kernel_free(void *memory)
{
  CatalogKernel *kernel = memory;
  g_free(kernel->graph);
  g_free(kernel->name);
  g_free(kernel->entry);
  g_free(kernel->target);
  g_free(kernel->about);
  g_free(kernel->guard);
  g_free(kernel->sha256);
  g_free(kernel->text);
  g_free(kernel->file);
  g_free(kernel);
}

char *catalog_checksum(const char *text)
{
  return g_compute_checksum_for_string(G_CHECKSUM_SHA256, text, -1);
}

/* ---- names of files ---- */

static int compare_kernels(const void *a, const void *b)
{
  const CatalogKernel *left = *(CatalogKernel *const *)a, *right = *(CatalogKernel *const *)b;
  int order = strcmp(left->name, right->name);
  return order ? order : (int)left->gpu - (int)right->gpu;
}

/* Name of the folder of those GPUs among kernels[from .. to) that have the same text as kernels[at]. */
static char *folder_of(const Catalog *catalog, const GPtrArray *kernels, guint from, guint to, guint at)
{
  GString *folder = g_string_new(NULL);
  const CatalogKernel *kernel = kernels->pdata[at];
  for (guint i = from; i < to; i++) {
    const CatalogKernel *other = kernels->pdata[i];
    if (strcmp(other->sha256, kernel->sha256)) continue;
    g_string_append_printf(folder, "%s%s", folder->len ? "-" : "", catalog->gpus[other->gpu]);
  }
  return g_string_free(folder, FALSE);
}

/* ---- which texts are kept ---- */

/* Place of a graph in catalog.json. */
static GHashTable *graph_places(const Catalog *catalog)
{
  GHashTable *places = g_hash_table_new(g_str_hash, g_str_equal);
  for (guint i = 0; i < catalog->graphs->len; i++) {
    const CatalogGraph *graph = catalog->graphs->pdata[i];
    g_hash_table_insert(places, graph->name, GUINT_TO_POINTER(i + 1));
  }
  return places;
}

static int compare_places(const void *a, const void *b, void *places)
{
  const CatalogKernel *left = *(CatalogKernel *const *)a, *right = *(CatalogKernel *const *)b;
  guint x = GPOINTER_TO_UINT(g_hash_table_lookup(places, left->graph)),
        y = GPOINTER_TO_UINT(g_hash_table_lookup(places, right->graph));
  if (x != y) return x < y ? -1 : 1;
  /* Variants in the order of their guards: "x.10" after "x.9". */
  size_t m = strlen(left->name), n = strlen(right->name);
  if (m != n) return m < n ? -1 : 1;
  return compare_kernels(a, b);
}

/* The word of `about` with this index: template, tile, mechanism, roles. */
static char *about_part(const CatalogKernel *kernel, guint part)
{
  g_auto(GStrv) parts = g_strsplit(kernel->about, ", ", -1);
  return g_strdup(part < g_strv_length(parts) ? parts[part] : "");
}

/* A kernel is kept under the first of its two keys that nobody had before. */
static void keep_first_of_each_kind(const Catalog *catalog, const GPtrArray *kernels)
{
  g_autoptr(GHashTable) places = graph_places(catalog);
  g_autoptr(GHashTable) kinds = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr(GHashTable) files = g_hash_table_new(g_str_hash, g_str_equal);
  g_autofree CatalogKernel **order = g_memdup2(kernels->pdata, kernels->len * sizeof *order);
  g_qsort_with_data(order, (int)kernels->len, sizeof *order, compare_places, places);
  for (guint i = 0; i < kernels->len; i++) {
    CatalogKernel *kernel = order[i];
    const CatalogGraph *graph = catalog_graph(catalog, kernel->graph);
    g_autofree char *template_name = about_part(kernel, 0), *mechanism = about_part(kernel, 2);
    g_autofree char *sets = graph ? g_strjoinv(",", graph->sets) : NULL;
    char *kind = g_strjoin("|", kernel->target, template_name, mechanism, sets ? sets : "",
                           graph ? graph->types : "", NULL);
    char *chain = g_strdup(graph ? graph->operators : "");
    bool is_new = g_hash_table_add(kinds, kind);
    is_new = g_hash_table_add(kinds, chain) || is_new;
    /* The same file of another GPU is the same text. */
    kernel->kept = is_new || g_hash_table_contains(files, kernel->file);
    if (kernel->kept) g_hash_table_add(files, kernel->file);
  }
}

void catalog_name_files(const Catalog *catalog, GPtrArray *kernels)
{
  if (!kernels->len) return;
  qsort(kernels->pdata, kernels->len, sizeof(void *), compare_kernels);
  for (guint from = 0, to = 0; from < kernels->len; from = to) {
    const CatalogKernel *first = kernels->pdata[from];
    while (to < kernels->len && !strcmp(((CatalogKernel *)kernels->pdata[to])->name, first->name))
      to++;
    for (guint i = from; i < to; i++) {
      CatalogKernel *kernel = kernels->pdata[i];
      g_autofree char *folder = folder_of(catalog, kernels, from, to, i);
      g_free(kernel->file);
      kernel->file = g_strdup_printf("%s/%s.ptx", folder, kernel->name);
    }
  }
  keep_first_of_each_kind(catalog, kernels);
}

/* ---- manifests ---- */

char *catalog_manifest(const Catalog *catalog, const GPtrArray *kernels, unsigned gpu)
{
  GString *text = g_string_new(NULL);
  const char *separator = "";
  g_string_append_printf(text, "{\"version\": %d, \"gpu\": \"%s\", \"kernels\": [", MANIFEST_VERSION,
                         catalog->gpus[gpu]);
  for (guint i = 0; i < kernels->len; i++) {
    const CatalogKernel *kernel = kernels->pdata[i];
    if (kernel->gpu != gpu) continue;
    json_t *row = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:s?, s:s}", "kernel", kernel->name, "graph",
                            kernel->graph, "entry", kernel->entry, "target", kernel->target, "about",
                            kernel->about, "file", kernel->file, "kept", kernel->kept, "guard", kernel->guard,
                            "sha256", kernel->sha256);
    /* One kernel a line, so that a change shows as one. */
    char *line = json_dumps(row, 0);
    g_string_append_printf(text, "%s\n  %s", separator, line);
    separator = ",";
    free(line);
    json_decref(row);
  }
  g_string_append(text, "\n]}\n");
  return g_string_free(text, FALSE);
}

static char *string_member(const json_t *object, const char *key)
{
  return g_strdup(json_string_value(json_object_get(object, key)));
}

static CatalogKernel *read_kernel(unsigned gpu, const json_t *row)
{
  CatalogKernel *kernel = g_new0(CatalogKernel, 1);
  const json_t *kept = json_object_get(row, "kept");
  kernel->gpu = gpu;
  kernel->graph = string_member(row, "graph");
  kernel->name = string_member(row, "kernel");
  kernel->entry = string_member(row, "entry");
  kernel->target = string_member(row, "target");
  kernel->about = string_member(row, "about");
  kernel->guard = string_member(row, "guard");
  kernel->sha256 = string_member(row, "sha256");
  kernel->file = string_member(row, "file");
  kernel->kept = !kept || json_is_true(kept); /* version 1 kept every text */
  if (kernel->name && kernel->graph && kernel->entry && kernel->target && kernel->about && kernel->sha256 &&
      kernel->file)
    return kernel;
  catalog_kernel_free(kernel);
  return NULL;
}

bool catalog_parse_manifest(const char *text, const char *path, unsigned gpu, GPtrArray *kernels,
                            GError **error)
{
  json_error_t where;
  json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &where);
  bool ok = root != NULL;
  if (!ok) error_set(error, ERROR_INPUT, NULL, "catalog", NULL, "%s:%d: %s", path, where.line, where.text);
  size_t i = 0;
  json_t *row = NULL;
  json_array_foreach(json_object_get(root, "kernels"), i, row)
  {
    CatalogKernel *kernel = read_kernel(gpu, row);
    ok = kernel != NULL;
    if (!ok) {
      error_set(error, ERROR_INPUT, NULL, "catalog", NULL, "%s: kernel %zu of the manifest is not complete",
                path, i + 1);
      break;
    }
    g_ptr_array_add(kernels, kernel);
  }
  json_decref(root);
  return ok;
}

static bool read_text(const char *path, char **text, GError **error)
{
  g_autoptr(GError) system = NULL;
  if (g_file_get_contents(path, text, NULL, &system)) return true;
  error_set(error, ERROR_INPUT, NULL, "catalog", NULL, "%s: %s", path, system->message);
  return false;
}

bool catalog_read_rows(const Catalog *catalog, const char *folder, unsigned gpu, GPtrArray *kernels,
                       GError **error)
{
  g_autofree char *name = g_strconcat(catalog->gpus[gpu], ".json", NULL);
  g_autofree char *path = g_build_filename(folder, name, NULL), *text = NULL;
  return read_text(path, &text, error) && catalog_parse_manifest(text, path, gpu, kernels, error);
}

bool catalog_read_manifest(const Catalog *catalog, const char *folder, unsigned gpu, GPtrArray *kernels,
                           GError **error)
{
  guint first = kernels->len;
  if (!catalog_read_rows(catalog, folder, gpu, kernels, error)) return false;
  for (guint i = first; i < kernels->len; i++) {
    CatalogKernel *kernel = kernels->pdata[i];
    g_autofree char *file = g_build_filename(folder, kernel->file, NULL);
    if (kernel->kept && !read_text(file, &kernel->text, error)) return false;
  }
  return true;
}
