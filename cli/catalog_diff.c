#include "cli/catalog_diff.h"
#include "catalog/make.h"
#include <gio/gio.h>
#include <string.h>

/* One side: a manifest a GPU, and what ptxas said. */
typedef struct Side {
  GPtrArray *kernels;  /* CatalogKernel * */
  GHashTable *by_name; /* "gpu/name" -> CatalogKernel * */
  GHashTable *by_text; /* "gpu/sha256" -> CatalogKernel * */
  CatalogResources *resources;
} Side;

/* A kernel that is not the same on both sides. */
typedef struct Change {
  const CatalogKernel *from, *to; /* NULL: added, removed */
  char *gpus;                     /* all for which it is this change, joined by "-" */
} Change;

typedef struct Diff {
  const Catalog *catalog;
  const bool *selected;
  const char *folder, *revision;
  Side from, to;
  GHashTable *lines; /* file below generated/ -> "+12 -3" */
  GArray *changes;   /* Change */
  unsigned same;
} Diff;

/* ---- git ---- */

/* Standard output of a git command in the folder; NULL with *missing where it failed, ERROR_MISSING_TOOL
 * without git. */
static char *git(const char *folder, char **complaint, GError **error, ...) G_GNUC_NULL_TERMINATED;
static char *git(const char *folder, char **complaint, GError **error, ...)
{
  g_autoptr(GPtrArray) words = g_ptr_array_new();
  const char *const first[] = {"git", "-C", folder};
  for (unsigned i = 0; i < G_N_ELEMENTS(first); i++)
    g_ptr_array_add(words, (void *)first[i]);
  va_list more;
  va_start(more, error);
  for (char *word = va_arg(more, char *); word; word = va_arg(more, char *))
    g_ptr_array_add(words, word);
  va_end(more);
  g_ptr_array_add(words, NULL);
  g_autoptr(GError) system = NULL;
  g_autoptr(GSubprocess) process =
      g_subprocess_newv((const char *const *)words->pdata,
                        G_SUBPROCESS_FLAGS_STDOUT_PIPE | G_SUBPROCESS_FLAGS_STDERR_PIPE, &system);
  char *out = NULL;
  if (!process || !g_subprocess_communicate_utf8(process, NULL, NULL, &out, complaint, &system)) {
    error_set(error, ERROR_MISSING_TOOL, NULL, "no-git", NULL, "cannot run git: %s", system->message);
    return NULL;
  }
  if (g_subprocess_get_successful(process)) return out;
  g_free(out);
  return NULL;
}

/* A file below generated/ at the revision; NULL without an error where the revision has none. */
static char *git_file(const Diff *diff, const char *name, GError **error)
{
  g_autofree char *object = g_strdup_printf("%s:./%s", diff->revision, name), *complaint = NULL;
  return git(diff->folder, &complaint, error, "show", object, NULL);
}

static bool check_revision(const Diff *diff, GError **error)
{
  g_autofree char *commit = g_strdup_printf("%s^{commit}", diff->revision), *complaint = NULL;
  GError *missing = NULL;
  g_autofree char *name = git(diff->folder, &complaint, &missing, "rev-parse", "--verify", "--quiet",
                              "--end-of-options", commit, NULL);
  if (missing) g_propagate_error(error, missing);
  if (name || missing) return name != NULL;
  g_strchomp(complaint);
  error_set(error, ERROR_INPUT, NULL, "unknown-revision", *complaint ? complaint : NULL,
            "git knows no revision %s in %s", diff->revision, diff->folder);
  return false;
}

/* "added<TAB>removed<TAB>file" a line. */
static bool read_lines(Diff *diff, GError **error)
{
  g_autofree char *complaint = NULL;
  g_autofree char *text = git(diff->folder, &complaint, error, "diff", "--numstat", "--no-renames",
                              "--relative", diff->revision, "--", ".", NULL);
  diff->lines = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
  g_auto(GStrv) rows = g_strsplit(text ? text : "", "\n", -1);
  for (char **row = rows; *row; row++) {
    g_auto(GStrv) parts = g_strsplit(*row, "\t", 3);
    if (g_strv_length(parts) == 3)
      g_hash_table_insert(diff->lines, g_strdup(parts[2]), g_strdup_printf("+%s -%s", parts[0], parts[1]));
  }
  return text != NULL;
}

/* ---- the two sides ---- */

static char *key_of(unsigned gpu, const char *word)
{
  return g_strdup_printf("%u/%s", gpu, word);
}

static void side_index(Side *side)
{
  side->by_name = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  side->by_text = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  for (guint i = 0; i < side->kernels->len; i++) {
    CatalogKernel *kernel = side->kernels->pdata[i];
    g_hash_table_insert(side->by_name, key_of(kernel->gpu, kernel->name), kernel);
    g_hash_table_insert(side->by_text, key_of(kernel->gpu, kernel->sha256), kernel);
  }
}

static CatalogKernel *side_find(GHashTable *table, unsigned gpu, const char *word)
{
  g_autofree char *key = key_of(gpu, word);
  return g_hash_table_lookup(table, key);
}

/* Reads a side through `read`, which gives a file's text, NULL without an error where there is none. */
static bool side_read(const Diff *diff, Side *side, char *(*read)(const Diff *, const char *, GError **),
                      GError **error)
{
  GError *first = NULL;
  side->kernels = g_ptr_array_new_with_free_func(catalog_kernel_free);
  for (unsigned i = 0; diff->catalog->gpus[i] && !first; i++) {
    if (!diff->selected[i]) continue;
    g_autofree char *name = g_strconcat(diff->catalog->gpus[i], ".json", NULL);
    g_autofree char *text = read(diff, name, &first);
    if (text) catalog_parse_manifest(text, name, i, side->kernels, &first);
  }
  g_autofree char *text = first ? NULL : read(diff, "resources.json", &first);
  if (!first) side->resources = catalog_resources_parse(text, "resources.json", &first);
  side_index(side);
  if (first) g_propagate_error(error, first);
  return !first;
}

static char *read_file(const Diff *diff, const char *name, GError **error)
{
  g_autofree char *path = g_build_filename(diff->folder, name, NULL);
  char *text = NULL;
  return g_file_get_contents(path, &text, NULL, NULL) ? text : NULL;
}

static void side_clear(Side *side)
{
  if (side->kernels) g_ptr_array_unref(side->kernels);
  if (side->by_name) g_hash_table_unref(side->by_name);
  if (side->by_text) g_hash_table_unref(side->by_text);
  catalog_resources_free(side->resources);
}

/* ---- comparing ---- */

static bool is_same_text(const CatalogKernel *a, const CatalogKernel *b)
{
  return a == b || (a && b && !strcmp(a->sha256, b->sha256));
}

/* The same change of another GPU is the same row. */
static void add_change(Diff *diff, const CatalogKernel *from, const CatalogKernel *to)
{
  const char *gpu = diff->catalog->gpus[(to ? to : from)->gpu];
  for (guint i = 0; i < diff->changes->len; i++) {
    Change *known = &g_array_index(diff->changes, Change, i);
    const CatalogKernel *one = known->to ? known->to : known->from, *other = to ? to : from;
    if (strcmp(one->name, other->name) != 0 || !is_same_text(known->from, from) ||
        !is_same_text(known->to, to))
      continue;
    char *both = g_strconcat(known->gpus, "-", gpu, NULL);
    g_free(known->gpus);
    known->gpus = both;
    return;
  }
  Change change = {from, to, g_strdup(gpu)};
  g_array_append_val(diff->changes, change);
}

static void compare_sides(Diff *diff)
{
  for (guint i = 0; i < diff->to.kernels->len; i++) {
    const CatalogKernel *to = diff->to.kernels->pdata[i];
    const CatalogKernel *from = side_find(diff->from.by_name, to->gpu, to->name);
    if (!from) {
      /* The same text under a name that is gone: it got another name. */
      from = side_find(diff->from.by_text, to->gpu, to->sha256);
      if (from && side_find(diff->to.by_name, to->gpu, from->name)) from = NULL;
      add_change(diff, from, to);
    } else if (is_same_text(from, to))
      diff->same++;
    else
      add_change(diff, from, to);
  }
  for (guint i = 0; i < diff->from.kernels->len; i++) {
    const CatalogKernel *from = diff->from.kernels->pdata[i];
    const CatalogKernel *renamed = side_find(diff->to.by_text, from->gpu, from->sha256);
    if (side_find(diff->to.by_name, from->gpu, from->name)) continue;
    if (renamed && !side_find(diff->from.by_name, from->gpu, renamed->name)) continue;
    add_change(diff, from, NULL);
  }
}

/* ---- reporting ---- */

static const char *kind_of(const Change *change)
{
  if (!change->from) return "added";
  if (!change->to) return "removed";
  return strcmp(change->from->name, change->to->name) ? "renamed" : "changed";
}

static const CatalogResource *resource_of(const Side *side, const CatalogKernel *kernel)
{
  return kernel ? catalog_resource(side->resources, kernel->file) : NULL;
}

/* "96 -> 104", one number where both are equal or only one side has it. */
static char *both(bool has_from, uint64_t from, bool has_to, uint64_t to)
{
  if (!has_from && !has_to) return g_strdup("-");
  if (has_from && has_to && from != to)
    return g_strdup_printf("%" G_GUINT64_FORMAT " -> %" G_GUINT64_FORMAT, from, to);
  return g_strdup_printf("%" G_GUINT64_FORMAT, has_to ? to : from);
}

static void add_row(const Diff *diff, const Change *change, Table *table)
{
  const CatalogKernel *shown = change->to ? change->to : change->from;
  const CatalogResource *a = resource_of(&diff->from, change->from), *b = resource_of(&diff->to, change->to);
  const CatalogResource none = {0}, *from = a ? a : &none, *to = b ? b : &none;
  g_autofree char *registers = both(a, from->registers, b, to->registers);
  g_autofree char *spills = both(a, from->spill_bytes, b, to->spill_bytes);
  g_autofree char *bytes = both(a, from->cubin_bytes, b, to->cubin_bytes);
  const char *lines = g_hash_table_lookup(diff->lines, shown->file);
  bool is_renamed = !strcmp(kind_of(change), "renamed");
  g_autofree char *name =
      is_renamed ? g_strdup_printf("%s -> %s", change->from->name, shown->name) : g_strdup(shown->name);
  table_row(table, change->gpus, name, kind_of(change), registers, spills, bytes,
            lines ? lines : (shown->kept ? "text" : "checksum"), NULL);
}

static void count_kinds(const Diff *diff, unsigned counts[4])
{
  static const char *const kinds[] = {"changed", "added", "removed", "renamed"};
  for (guint i = 0; i < diff->changes->len; i++)
    for (unsigned k = 0; k < G_N_ELEMENTS(kinds); k++)
      counts[k] += !strcmp(kind_of(&g_array_index(diff->changes, Change, i)), kinds[k]);
}

static void print_text(const Diff *diff, const Cli *cli)
{
  static const char *const headers[] = {"GPUs",         "kernel",       "change", ">registers",
                                        ">spill bytes", ">cubin bytes", ">text",  NULL};
  unsigned counts[4] = {0};
  g_autoptr(Table) table = table_new(headers);
  for (guint i = 0; i < diff->changes->len; i++)
    add_row(diff, &g_array_index(diff->changes, Change, i), table);
  if (diff->changes->len) table_print(table, cli);
  count_kinds(diff, counts);
  printf("since %s: %u changed, %u added, %u removed, %u renamed; %u as before\n", diff->revision, counts[0],
         counts[1], counts[2], counts[3], diff->same);
}

static json_t *side_json(const Side *side, const CatalogKernel *kernel)
{
  const CatalogResource *resource = resource_of(side, kernel);
  if (!kernel) return json_null();
  json_t *object = json_pack("{s:s, s:s, s:s, s:b, s:s}", "kernel", kernel->name, "about", kernel->about,
                             "file", kernel->file, "kept", kernel->kept, "sha256", kernel->sha256);
  if (resource)
    json_object_set_new(object, "resources",
                        json_pack("{s:i, s:I, s:I}", "registers", (int)resource->registers, "spill_bytes",
                                  (json_int_t)resource->spill_bytes, "cubin_bytes",
                                  (json_int_t)resource->cubin_bytes));
  return object;
}

static void print_json(const Diff *diff)
{
  json_t *changes = json_array();
  for (guint i = 0; i < diff->changes->len; i++) {
    const Change *change = &g_array_index(diff->changes, Change, i);
    json_array_append_new(changes, json_pack("{s:s, s:s, s:o, s:o}", "gpus", change->gpus, "change",
                                             kind_of(change), "from", side_json(&diff->from, change->from),
                                             "to", side_json(&diff->to, change->to)));
  }
  cli_print_json(json_pack("{s:i, s:s, s:i, s:o}", "version", 1, "revision", diff->revision, "same",
                           (int)diff->same, "changes", changes));
}

static void change_clear(void *memory)
{
  Change *change = memory;
  g_free(change->gpus);
}

bool catalog_diff(const Catalog *catalog, const char *folder, const bool *selected, const char *revision,
                  const Cli *cli, GError **error)
{
  Diff diff = {.catalog = catalog, .selected = selected, .folder = folder, .revision = revision};
  diff.changes = g_array_new(FALSE, FALSE, sizeof(Change));
  g_array_set_clear_func(diff.changes, change_clear);
  bool ok = check_revision(&diff, error) && side_read(&diff, &diff.from, git_file, error) &&
            side_read(&diff, &diff.to, read_file, error) && read_lines(&diff, error);
  if (ok) compare_sides(&diff);
  if (ok && cli->json)
    print_json(&diff);
  else if (ok)
    print_text(&diff, cli);
  side_clear(&diff.from);
  side_clear(&diff.to);
  if (diff.lines) g_hash_table_unref(diff.lines);
  g_array_free(diff.changes, TRUE);
  return ok;
}
