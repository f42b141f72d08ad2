#include "cli/catalog_show.h"
#include "catalog/make.h"
#include "cli/report.h"
#include <string.h>

static void unknown_kernel(const GPtrArray *rows, const char *name, GError **error)
{
  g_autoptr(GPtrArray) names = g_ptr_array_new();
  for (guint i = 0; i < rows->len; i++)
    g_ptr_array_add(names, ((CatalogKernel *)rows->pdata[i])->name);
  g_ptr_array_add(names, NULL);
  const char *near = nearest_name(name, (const char *const *)names->pdata);
  g_autofree char *hint =
      near ? g_strdup_printf("did you mean %s?", near) : g_strdup("the manifests generated/*.json list them");
  error_set(error, ERROR_INPUT, NULL, "unknown-kernel", hint, "the catalogue has no kernel %s", name);
}

/* GPUs whose kernel of this name is another one, joined by ", "; NULL if there is none. */
static char *others(const Catalog *catalog, const GPtrArray *rows, const CatalogKernel *shown)
{
  GString *text = g_string_new(NULL);
  for (guint i = 0; i < rows->len; i++) {
    const CatalogKernel *row = rows->pdata[i];
    if (!strcmp(row->name, shown->name) && strcmp(row->sha256, shown->sha256) != 0)
      g_string_append_printf(text, "%s%s", text->len ? ", " : "", catalog->gpus[row->gpu]);
  }
  return g_string_free(text, !text->len);
}

static json_t *kernel_json(const Catalog *catalog, const CatalogKernel *kernel, bool committed)
{
  return json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:s?, s:s, s:b, s:s, s:b, s:s}", "version", 1, "gpu",
                   catalog->gpus[kernel->gpu], "kernel", kernel->name, "graph", kernel->graph, "entry",
                   kernel->entry, "target", kernel->target, "about", kernel->about, "guard", kernel->guard,
                   "file", kernel->file, "kept", kernel->kept, "sha256", kernel->sha256, "committed",
                   committed, "ptx", kernel->text);
}

bool catalog_show(const Catalog *catalog, const char *folder, const bool *selected, const char *name,
                  const Cli *cli, GError **error)
{
  g_autoptr(GPtrArray) rows = g_ptr_array_new_with_free_func(catalog_kernel_free);
  for (unsigned i = 0; catalog->gpus[i]; i++)
    if (selected[i] && !catalog_read_rows(catalog, folder, i, rows, error)) return false;
  g_autoptr(GPtrArray) wanted = g_ptr_array_new();
  for (guint i = 0; i < rows->len && !wanted->len; i++)
    if (!strcmp(((CatalogKernel *)rows->pdata[i])->name, name)) g_ptr_array_add(wanted, rows->pdata[i]);
  if (!wanted->len) {
    unknown_kernel(rows, name, error);
    return false;
  }
  if (!catalog_make_texts(catalog, wanted, 1, report_progress_of(cli), error)) return false;
  const CatalogKernel *kernel = wanted->pdata[0];
  g_autofree char *sum = catalog_checksum(kernel->text), *other = others(catalog, rows, kernel);
  bool committed = !strcmp(sum, kernel->sha256);
  if (cli->json) {
    cli_print_json(kernel_json(catalog, kernel, committed));
    return true;
  }
  fputs(kernel->text, stdout);
  if (other)
    fprintf(stderr, "note: this is the kernel of %s; %s: another text\n", catalog->gpus[kernel->gpu], other);
  if (!committed)
    fputs("note: the committed checksum is another one: the compiler emits this text now\n", stderr);
  return true;
}
