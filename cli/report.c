#include "cli/report.h"
#include <string.h>

void report_progress(unsigned done, unsigned n, void *data)
{
  fprintf(stderr, "\r%s %u of %u%s", (const char *)data, done, n, done == n ? "\r\033[K" : "");
  fflush(stderr);
}

void (*report_progress_of(const Cli *cli))(unsigned, unsigned, void *)
{
  return cli->error_terminal && !cli->json ? report_progress : NULL;
}

/* The entry the kernel is launched by; a kernel has one entry. */
static const AssembledEntry *entry_of(const BuildKernel *kernel)
{
  return kernel->assembly ? assembly_entry(kernel->assembly, kernel->kernel->entry) : NULL;
}

static char *whole(bool known, uint64_t value)
{
  return known ? g_strdup_printf("%" G_GUINT64_FORMAT, value) : g_strdup("-");
}

static const char *or_dash(const char *text)
{
  return text && *text ? text : "-";
}

static void kernel_row(Table *table, const BuildKernel *built)
{
  const CompiledKernel *kernel = built->kernel;
  const AssembledEntry *entry = entry_of(built);
  g_autofree char *stages = whole(kernel->stages, kernel->stages), *threads = whole(true, kernel->threads);
  g_autofree char *registers = whole(entry, entry ? entry->registers : 0);
  g_autofree char *shared = whole(true, kernel->shared_bytes + (entry ? entry->shared : 0));
  g_autofree char *spills = whole(entry, entry ? entry->spill_stores + entry->spill_loads : 0);
  g_autofree char *size =
      whole(built->assembly, built->assembly ? g_bytes_get_size(built->assembly->cubin) : 0);
  table_row(table, kernel->name, built->gpu->name, or_dash(kernel->template_name), or_dash(kernel->tile_text),
            stages, or_dash(kernel->roles), threads, registers, shared, spills, size, NULL);
}

static void print_findings(const Build *build)
{
  for (guint i = 0; i < build->kernels->len; i++) {
    const BuildKernel *kernel = build->kernels->pdata[i];
    for (guint j = 0; kernel->assembly && j < kernel->assembly->findings->len; j++)
      fprintf(stderr, "warning: %s for %s: ptxas says: %s\n", kernel->kernel->name, kernel->gpu->name,
              (const char *)kernel->assembly->findings->pdata[j]);
  }
}

void report_print(const Build *build, const Cli *cli, const char *folder, bool explain)
{
  g_autoptr(Table) table =
      table_new((const char *[]){"kernel", "GPU", "template", "tile", ">stages", "roles", ">threads",
                                 ">registers", ">shared", ">spills", ">size", NULL});
  for (guint i = 0; i < build->kernels->len; i++)
    kernel_row(table, build->kernels->pdata[i]);
  table_print(table, cli);
  print_findings(build);
  printf("\nfiles are under %s:", folder);
  for (guint i = 0; i < build->gpus->len; i++)
    printf(" %s/", ((const Gpu *)build->gpus->pdata[i])->name);
  putchar('\n');
  for (guint i = 0; explain && i < build->results->len; i++) {
    const CompileResult *result = build->results->pdata[i];
    printf("\n%s:\n%s", ((const Gpu *)build->gpus->pdata[i])->name, result->explain);
  }
}

/* ---- JSON ---- */

static json_t *string_or_null(const char *text)
{
  return text && *text ? json_string(text) : json_null();
}

static json_t *assembly_json(const BuildKernel *kernel)
{
  const AssembledEntry *entry = entry_of(kernel);
  if (!entry) return json_null();
  json_t *findings = json_array();
  for (guint i = 0; i < kernel->assembly->findings->len; i++)
    json_array_append_new(findings, json_string(kernel->assembly->findings->pdata[i]));
  return json_pack("{s:i, s:i, s:I, s:I, s:I, s:I, s:o}", "registers", (int)entry->registers, "barriers",
                   (int)entry->barriers, "stack", (json_int_t)entry->stack, "spill_bytes",
                   (json_int_t)(entry->spill_stores + entry->spill_loads), "static_shared",
                   (json_int_t)entry->shared, "cubin_bytes",
                   (json_int_t)g_bytes_get_size(kernel->assembly->cubin), "findings", findings);
}

static json_t *kernel_json(const BuildKernel *built)
{
  const CompiledKernel *kernel = built->kernel;
  json_t *object =
      json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "kernel", kernel->name, "entry", kernel->entry, "template",
                string_or_null(kernel->template_name), "tile", string_or_null(kernel->tile_text), "mechanism",
                string_or_null(kernel->mechanism), "roles", string_or_null(kernel->roles));
  json_object_update_new(
      object, json_pack("{s:i, s:i, s:i, s:i, s:i, s:I, s:o}", "stages", (int)kernel->stages, "threads",
                        (int)kernel->threads, "cluster", (int)kernel->cluster, "shared",
                        (int)kernel->shared_bytes, "predicted_registers", (int)kernel->predicted_registers,
                        "arena_bytes", (json_int_t)kernel->arena_bytes, "assembly", assembly_json(built)));
  return object;
}

static json_t *gpu_json(const Build *build, guint i, bool explain)
{
  const Gpu *gpu = build->gpus->pdata[i];
  json_t *kernels = json_array();
  for (guint j = 0; j < build->kernels->len; j++) {
    const BuildKernel *kernel = build->kernels->pdata[j];
    if (kernel->gpu == gpu) json_array_append_new(kernels, kernel_json(kernel));
  }
  json_t *object = json_pack("{s:s, s:s, s:s, s:o}", "gpu", gpu->name, "target", gpu->target, "hash",
                             gpu->hash, "kernels", kernels);
  if (explain && i < build->results->len) {
    const CompileResult *result = build->results->pdata[i];
    json_object_set_new(object, "explain", json_string(result->explain));
  }
  return object;
}

json_t *report_json(const Build *build, const char *folder, bool explain)
{
  json_t *gpus = json_array();
  for (guint i = 0; i < build->gpus->len; i++)
    json_array_append_new(gpus, gpu_json(build, i, explain));
  return json_pack("{s:i, s:s, s:o}", "version", 1, "out", folder, "gpus", gpus);
}
