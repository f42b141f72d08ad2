/* adlgen catalog: the committed kernels, built anew or checked. */
#include "base/output.h"
#include "catalog/make.h"
#include "cli/catalog_diff.h"
#include "cli/catalog_show.h"
#include "cli/catalog_simulate.h"
#include "cli/report.h"
#include <glib/gstdio.h>
#include <string.h>

#define MAX_SHOWN 10 /* changed files of which the first difference is shown */

typedef struct CatalogRun {
  const Cli *cli;
  const Arguments *arguments;
  Catalog *catalog;
  bool *selected;     /* one a GPU */
  char *folder;       /* generated/ */
  GPtrArray *kernels; /* CatalogKernel *: the selected GPUs' generated, the others' as committed */
  Assembler *assembler;
  CatalogResources *resources, *committed;
  GHashTable *files;   /* name below generated/ -> text that should be there */
  GHashTable *known;   /* names of the kernels' texts, kept or not */
  GPtrArray *problems; /* char *: what makes a check fail */
  GPtrArray *remarks;  /* char *: what is only reported */
} CatalogRun;

static void note(GPtrArray *list, const char *format, ...) G_GNUC_PRINTF(2, 3);
static void note(GPtrArray *list, const char *format, ...)
{
  va_list values;
  va_start(values, format);
  g_ptr_array_add(list, g_strdup_vprintf(format, values));
  va_end(values);
}

/* ---- what should be there ---- */

static bool select_gpus(CatalogRun *run, GError **error)
{
  unsigned n = g_strv_length(run->catalog->gpus);
  const char *const *names = argument_values(run->arguments, "gpu");
  run->selected = g_new0(bool, n);
  for (unsigned i = 0; i < n; i++)
    run->selected[i] = !*names || g_strv_contains(names, run->catalog->gpus[i]);
  for (; *names; names++)
    if (!g_strv_contains((const char *const *)run->catalog->gpus, *names)) {
      g_autofree char *list = g_strjoinv(", ", run->catalog->gpus);
      g_autofree char *hint = g_strdup_printf("it has %s", list);
      error_set(error, ERROR_INPUT, NULL, "unknown-gpu", hint, "the catalogue has no GPU %s", *names);
      return false;
    }
  return true;
}

/* Other GPUs' kernels are taken as their manifests have them, but a text that was not committed before and is
 * to be now has to be generated. */
static bool make_kept_texts(CatalogRun *run, unsigned jobs, GError **error)
{
  g_autoptr(GPtrArray) lacking = g_ptr_array_new();
  for (guint i = 0; i < run->kernels->len; i++) {
    CatalogKernel *kernel = run->kernels->pdata[i];
    if (kernel->kept && !kernel->text) g_ptr_array_add(lacking, kernel);
  }
  if (!lacking->len) return true;
  if (!catalog_make_texts(run->catalog, lacking, jobs, report_progress_of(run->cli), error)) return false;
  for (guint i = 0; i < lacking->len; i++) {
    const CatalogKernel *kernel = lacking->pdata[i];
    g_autofree char *sum = catalog_checksum(kernel->text);
    if (!strcmp(sum, kernel->sha256)) continue;
    error_set(error, ERROR_VERIFY, NULL, "catalog", "build without --gpu, or for this GPU as well",
              "the text of %s for %s is needed, and the compiler emits another one than the committed now",
              kernel->name, run->catalog->gpus[kernel->gpu]);
    return false;
  }
  return true;
}

static bool make_kernels(CatalogRun *run, unsigned jobs, GError **error)
{
  run->kernels = catalog_generate(run->catalog, run->selected, jobs, report_progress_of(run->cli), error);
  if (!run->kernels) return false;
  for (unsigned i = 0; run->catalog->gpus[i]; i++)
    if (!run->selected[i] && !catalog_read_manifest(run->catalog, run->folder, i, run->kernels, error))
      return false;
  catalog_name_files(run->catalog, run->kernels);
  return make_kept_texts(run, jobs, error);
}

static void list_files(CatalogRun *run)
{
  run->files = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
  run->known = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  for (guint i = 0; i < run->kernels->len; i++) {
    const CatalogKernel *kernel = run->kernels->pdata[i];
    g_hash_table_add(run->known, g_strdup(kernel->file));
    if (kernel->kept) g_hash_table_insert(run->files, g_strdup(kernel->file), g_strdup(kernel->text));
  }
  for (unsigned i = 0; run->catalog->gpus[i]; i++)
    g_hash_table_insert(run->files, g_strconcat(run->catalog->gpus[i], ".json", NULL),
                        catalog_manifest(run->catalog, run->kernels, i));
}

/* Rows of GPUs that were not assembled this time stay as they were committed. */
static void keep_other_resources(CatalogRun *run)
{
  for (guint i = 0; i < run->committed->resources->len; i++) {
    const CatalogResource *row = run->committed->resources->pdata[i];
    if (catalog_resource(run->resources, row->file) || !g_hash_table_contains(run->known, row->file))
      continue;
    CatalogResource *copy = g_memdup2(row, sizeof *row);
    copy->file = g_strdup(row->file);
    guint at = 0;
    while (at < run->resources->resources->len &&
           strcmp(((CatalogResource *)run->resources->resources->pdata[at])->file, row->file) < 0)
      at++;
    g_ptr_array_insert(run->resources->resources, (int)at, copy);
  }
}

/* ---- comparing ---- */

static void list_folder(const char *folder, const char *below, GPtrArray *names)
{
  g_autofree char *path = g_build_filename(folder, below, NULL);
  g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
  const char *name = NULL;
  while (dir && (name = g_dir_read_name(dir))) {
    g_autofree char *child = *below ? g_build_filename(below, name, NULL) : g_strdup(name);
    g_autofree char *full = g_build_filename(folder, child, NULL);
    if (g_file_test(full, G_FILE_TEST_IS_DIR))
      list_folder(folder, child, names);
    else
      g_ptr_array_add(names, g_steal_pointer(&child));
  }
}

static int compare_names(const void *a, const void *b)
{
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static GPtrArray *sorted(GPtrArray *names)
{
  if (names->len) qsort(names->pdata, names->len, sizeof(char *), compare_names);
  return names;
}

/* Files under generated/ that nothing accounts for. */
static GPtrArray *stale_files(const CatalogRun *run)
{
  g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
  list_folder(run->folder, "", names);
  GPtrArray *stale = g_ptr_array_new_with_free_func(g_free);
  for (guint i = 0; i < names->len; i++) {
    const char *name = names->pdata[i];
    if (g_hash_table_contains(run->files, name) || !strcmp(name, "resources.json")) continue;
    g_ptr_array_add(stale, g_strdup(name));
  }
  return sorted(stale);
}

/* The first line that differs, both ways. */
static char *first_difference(const char *committed, const char *generated)
{
  g_auto(GStrv) old = g_strsplit(committed, "\n", -1), new = g_strsplit(generated, "\n", -1);
  unsigned i = 0;
  while (old[i] && new[i] && !strcmp(old[i], new[i]))
    i++;
  return g_strdup_printf("line %u:\n    - %.120s\n    + %.120s", i + 1, old[i] ? old[i] : "(end of file)",
                         new[i] ? new[i] : "(end of file)");
}

static void compare_file(CatalogRun *run, const char *name, unsigned *changed)
{
  g_autofree char *path = g_build_filename(run->folder, name, NULL), *text = NULL;
  const char *expected = g_hash_table_lookup(run->files, name);
  if (!g_file_get_contents(path, &text, NULL, NULL)) {
    note(run->problems, "%s is missing", name);
    return;
  }
  if (!strcmp(text, expected)) return;
  g_autofree char *difference = first_difference(text, expected);
  if (++*changed <= MAX_SHOWN)
    note(run->problems, "%s differs from %s", name, difference);
  else
    note(run->problems, "%s differs", name);
}

/* Kernels whose text is not committed: their checksums are compared, so that each is named. */
static void compare_checksums(CatalogRun *run)
{
  g_autoptr(GHashTable) committed = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr(GPtrArray) rows = g_ptr_array_new_with_free_func(catalog_kernel_free);
  for (unsigned i = 0; run->catalog->gpus[i]; i++)
    catalog_read_rows(run->catalog, run->folder, i, rows,
                      NULL); /* compare_file() reports what is missing or damaged */
  for (guint i = 0; i < rows->len; i++) {
    const CatalogKernel *row = rows->pdata[i];
    g_hash_table_insert(committed, g_strdup_printf("%u/%s", row->gpu, row->name), (void *)row);
  }
  g_autoptr(GHashTable) told = g_hash_table_new(g_str_hash, g_str_equal);
  for (guint i = 0; i < run->kernels->len; i++) {
    const CatalogKernel *kernel = run->kernels->pdata[i];
    g_autofree char *key = g_strdup_printf("%u/%s", kernel->gpu, kernel->name);
    const CatalogKernel *before = g_hash_table_lookup(committed, key);
    if (kernel->kept || !before || !strcmp(before->sha256, kernel->sha256)) continue;
    if (g_hash_table_add(told, kernel->file))
      note(run->problems, "%s has another checksum; adlgen catalog show %s --gpu %s prints its text",
           kernel->file, kernel->name, run->catalog->gpus[kernel->gpu]);
  }
}

static void compare_files(CatalogRun *run)
{
  g_autoptr(GPtrArray) names = g_ptr_array_new();
  GHashTableIter iterator;
  void *name = NULL;
  g_hash_table_iter_init(&iterator, run->files);
  while (g_hash_table_iter_next(&iterator, &name, NULL))
    g_ptr_array_add(names, name);
  unsigned changed = 0;
  compare_checksums(run);
  for (guint i = 0; i < sorted(names)->len; i++)
    compare_file(run, names->pdata[i], &changed);
  g_autoptr(GPtrArray) stale = stale_files(run);
  for (guint i = 0; i < stale->len; i++)
    note(run->problems, "%s belongs to no kernel of the catalogue", (char *)stale->pdata[i]);
}

/* Budgets hold for the assembler they were taken with; under another they are only reported. */
static void compare_resources_with_budget(CatalogRun *run)
{
  bool same_tool = g_strcmp0(run->committed->assembler, run->resources->assembler) == 0;
  GPtrArray *list = same_tool ? run->problems : run->remarks;
  for (guint i = 0; i < run->resources->findings->len; i++)
    note(list, "costly: %s", (char *)run->resources->findings->pdata[i]);
  if (!same_tool)
    note(run->remarks, "this is ptxas %s; resources.json was taken with %s", run->resources->assembler,
         run->committed->assembler ? run->committed->assembler : "none");
  for (guint i = 0; i < run->resources->resources->len; i++) {
    const CatalogResource *now = run->resources->resources->pdata[i];
    const CatalogResource *before = catalog_resource(run->committed, now->file);
    g_autofree char *rise = before ? catalog_resource_rise(before, now) : NULL;
    g_autofree char *fall = before ? catalog_resource_rise(now, before) : NULL;
    if (rise) note(list, "%s uses more than its budget: %s", now->file, rise);
    if (!rise && fall) note(run->remarks, "%s uses less than its budget: catalog build lowers it", now->file);
  }
}

/* ---- reporting ---- */

static json_t *string_list(const GPtrArray *list)
{
  json_t *array = json_array();
  for (guint i = 0; i < list->len; i++)
    json_array_append_new(array, json_string(list->pdata[i]));
  return array;
}

static unsigned count_kernels(const CatalogRun *run, unsigned gpu)
{
  unsigned n = 0;
  for (guint i = 0; i < run->kernels->len; i++)
    n += ((const CatalogKernel *)run->kernels->pdata[i])->gpu == gpu;
  return n;
}

/* The files are the texts and a manifest a GPU. */
static unsigned count_texts(const CatalogRun *run)
{
  return g_hash_table_size(run->files) - g_strv_length(run->catalog->gpus);
}

static void print_json(const CatalogRun *run)
{
  json_t *gpus = json_array();
  for (unsigned i = 0; run->catalog->gpus[i]; i++)
    if (run->selected[i])
      json_array_append_new(
          gpus, json_pack("{s:s, s:i}", "gpu", run->catalog->gpus[i], "kernels", (int)count_kernels(run, i)));
  cli_print_json(json_pack("{s:i, s:b, s:s, s:i, s:i, s:o, s:o, s:o}", "version", 1, "ok",
                           run->problems->len == 0, "ptxas", run->resources->assembler, "kernels",
                           (int)g_hash_table_size(run->known), "texts", (int)count_texts(run), "gpus", gpus,
                           "problems", string_list(run->problems), "remarks", string_list(run->remarks)));
}

static void print_text(const CatalogRun *run, const char *done)
{
  for (guint i = 0; i < run->remarks->len; i++)
    printf("note: %s\n", (char *)run->remarks->pdata[i]);
  for (guint i = 0; i < run->problems->len; i++)
    printf("%s\n", (char *)run->problems->pdata[i]);
  for (unsigned i = 0; run->catalog->gpus[i]; i++)
    if (run->selected[i]) printf("%s: %u kernels\n", run->catalog->gpus[i], count_kernels(run, i));
  printf("%s: %u kernels, %u of them as text, %u assembled with ptxas %s", done,
         g_hash_table_size(run->known), count_texts(run), run->resources->resources->len,
         run->resources->assembler);
  printf(run->problems->len ? ", %u problems\n" : "\n", run->problems->len);
}

static void report(const CatalogRun *run, const char *done)
{
  if (run->cli->json)
    print_json(run);
  else
    print_text(run, done);
  if (run->problems->len) *run->cli->exit_code = ERROR_VERIFY;
}

/* ---- build and check ---- */

static bool write_files(CatalogRun *run, GError **error)
{
  g_autoptr(Output) output = output_new(run->folder, error);
  if (!output) return false;
  GHashTableIter iterator;
  void *name = NULL, *text = NULL;
  g_hash_table_iter_init(&iterator, run->files);
  while (g_hash_table_iter_next(&iterator, &name, &text))
    if (!output_write_text(output, name, text, error)) return false;
  g_autofree char *resources = catalog_resources_text(run->resources);
  if (!output_write_text(output, "resources.json", resources, error) || !output_commit(output, error))
    return false;
  g_autoptr(GPtrArray) stale = stale_files(run);
  for (guint i = 0; i < stale->len; i++) {
    g_autofree char *path = g_build_filename(run->folder, stale->pdata[i], NULL);
    g_autofree char *folder = g_path_get_dirname(path);
    g_unlink(path);
    g_rmdir(folder); /* if it was the last one there */
  }
  return true;
}

static bool build(CatalogRun *run, GError **error)
{
  if (run->problems->len && !argument_flag(run->arguments, "accept")) {
    report(run, "not built");
    if (!run->cli->json) puts("--accept builds nevertheless");
    return true;
  }
  for (guint i = 0; i < run->problems->len; i++)
    note(run->remarks, "accepted: %s", (char *)run->problems->pdata[i]);
  g_ptr_array_set_size(run->problems, 0);
  keep_other_resources(run);
  if (!write_files(run, error)) return false;
  report(run, "built");
  return true;
}

/* What every action needs. */
static bool read_catalog(CatalogRun *run, GError **error)
{
  const char *root = argument_value(run->arguments, "root");
  g_autofree char *path = g_build_filename(root ? root : ".", "catalog.json", NULL);
  run->folder = g_build_filename(root ? root : ".", "generated", NULL);
  const char *action = argument_action(run->arguments);
  unsigned most = !strcmp(action, "show") || !strcmp(action, "diff");
  if (argument_count(run->arguments) > most) {
    error_set(error, ERROR_USAGE, NULL, "unexpected-argument", NULL,
              "adlgen catalog %s: unexpected argument %s", action, argument_at(run->arguments, most));
    return false;
  }
  if (argument_count(run->arguments) < most) {
    error_set(error, ERROR_USAGE, NULL, "missing-argument", NULL, "adlgen catalog %s: %s is missing", action,
              !strcmp(action, "show") ? "the kernel's name" : "the revision");
    return false;
  }
  return (run->catalog = catalog_read(path, error)) && select_gpus(run, error);
}

static bool simulate(CatalogRun *run, GError **error)
{
  CatalogSimulation simulation = {.catalog = run->catalog,
                                  .folder = run->folder,
                                  .selected = run->selected,
                                  .only = argument_values(run->arguments, "kernel"),
                                  .dims = argument_values(run->arguments, "dim"),
                                  .list = argument_flag(run->arguments, "list"),
                                  .edited = argument_flag(run->arguments, "edited"),
                                  .has_skew = argument_flag(run->arguments, "skew")};
  unsigned seed = 0, timeout = 60;
  sim_options_default(&simulation.options);
  simulation.options.schedules = CATALOG_SCHEDULES;
  if (!argument_positive(run->arguments, "jobs", &simulation.jobs, error) ||
      !argument_unsigned(run->arguments, "skew", &simulation.skew, error) ||
      !argument_positive(run->arguments, "cases", &simulation.cases, error) ||
      !argument_positive(run->arguments, "schedules", &simulation.options.schedules, error) ||
      !argument_unsigned(run->arguments, "timeout", &timeout, error) ||
      !argument_unsigned(run->arguments, "seed", &seed, error))
    return false;
  simulation.options.timeout = timeout;
  simulation.options.counts = argument_flag(run->arguments, "counts");
  simulation.options.seed = seed;
  return catalog_simulate(&simulation, run->cli, error);
}

static bool prepare(CatalogRun *run, GError **error)
{
  unsigned jobs = 0;
  g_autofree char *resources = g_build_filename(run->folder, "resources.json", NULL);
  if (!argument_positive(run->arguments, "jobs", &jobs, error)) return false;
  run->assembler = assembler_find(argument_value(run->arguments, "ptxas"), run->cli->program_folder, error);
  if (!run->assembler || !(run->committed = catalog_resources_read(resources, error))) return false;
  if (!make_kernels(run, jobs, error)) return false;
  list_files(run);
  run->resources = catalog_assemble(run->kernels, run->selected, run->assembler, jobs,
                                    report_progress_of(run->cli), error);
  return run->resources != NULL;
}

static void run_free(CatalogRun *run)
{
  catalog_free(run->catalog);
  g_free(run->selected);
  g_free(run->folder);
  if (run->kernels) g_ptr_array_unref(run->kernels);
  assembler_free(run->assembler);
  catalog_resources_free(run->resources);
  catalog_resources_free(run->committed);
  if (run->files) g_hash_table_unref(run->files);
  if (run->known) g_hash_table_unref(run->known);
  g_ptr_array_unref(run->problems);
  g_ptr_array_unref(run->remarks);
}

static bool build_or_check(CatalogRun *run, GError **error)
{
  if (!prepare(run, error)) return false;
  compare_resources_with_budget(run);
  if (!strcmp(argument_action(run->arguments), "build")) return build(run, error);
  compare_files(run);
  report(run, "checked");
  return true;
}

static bool show(CatalogRun *run, GError **error)
{
  return catalog_show(run->catalog, run->folder, run->selected, argument_at(run->arguments, 0), run->cli,
                      error);
}

static bool diff(CatalogRun *run, GError **error)
{
  return catalog_diff(run->catalog, run->folder, run->selected, argument_at(run->arguments, 0), run->cli,
                      error);
}

bool command_catalog(const Cli *cli, const Arguments *arguments, GError **error)
{
  static const struct {
    const char *name;
    bool (*run)(CatalogRun *run, GError **error);
  } actions[] = {{"build", build_or_check},
                 {"check", build_or_check},
                 {"simulate", simulate},
                 {"show", show},
                 {"diff", diff}};
  CatalogRun run = {.cli = cli, .arguments = arguments};
  run.problems = g_ptr_array_new_with_free_func(g_free);
  run.remarks = g_ptr_array_new_with_free_func(g_free);
  bool ok = read_catalog(&run, error);
  for (unsigned i = 0; ok && i < G_N_ELEMENTS(actions); i++)
    if (!strcmp(argument_action(arguments), actions[i].name)) {
      ok = actions[i].run(&run, error);
      break;
    }
  run_free(&run);
  return ok;
}
