#include "base/version.h"
#include "cli/cli.h"
#include "runtime/assembler.h"
#include <dlfcn.h>

/* The driver is only needed to run kernels here; its version is asked for without starting a GPU. */
static bool find_driver(int *driver_version)
{
  void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (!library) return false;
  int (*get_version)(int *) = NULL;
  *(void **)&get_version = dlsym(library, "cuDriverGetVersion");
  bool found = get_version && get_version(driver_version) == 0;
  dlclose(library);
  return found;
}

static json_t *assembler_json(const Assembler *assembler)
{
  json_t *tried = json_array();
  for (guint i = 0; i < assembler->tried->len; i++) {
    const AssemblerPlace *place = assembler->tried->pdata[i];
    json_array_append_new(tried, json_pack("{s:s, s:s, s:b}", "origin", place->origin, "path", place->path,
                                           "found", place->found));
  }
  json_t *targets = json_array();
  for (char **target = assembler->targets; target && *target; target++)
    json_array_append_new(targets, json_string(*target));
  return json_pack("{s:s?, s:s?, s:s?, s:s?, s:o, s:o}", "path", assembler->path, "origin", assembler->origin,
                   "version", assembler->version, "newest_target", assembler_newest_target(assembler),
                   "targets", targets, "tried", tried);
}

static void print_report(const Cli *cli, const Assembler *assembler, const GError *fault, bool driver,
                         int driver_version)
{
  printf("adlgen %s\n", ADLGEN_VERSION);
  if (assembler->path)
    printf("ptxas  %s, newest target %s: %s (from %s)\n", assembler->version,
           assembler_newest_target(assembler), assembler->path, assembler->origin);
  else
    printf("ptxas  missing: %s\n", fault->message);
  if (driver)
    printf("driver CUDA %d.%d\n", driver_version / 1000, driver_version % 1000 / 10);
  else
    printf("driver missing: no libcuda.so.1 (only needed to run kernels on this machine)\n");
  puts("\nplaces tried for ptxas, in order:");
  g_autoptr(Table) table = table_new((const char *[]){"", "from", "path", NULL});
  for (guint i = 0; i < assembler->tried->len; i++) {
    const AssemblerPlace *place = assembler->tried->pdata[i];
    table_row(table, place->found ? "found" : "-", place->origin, place->path, NULL);
  }
  table_print(table, cli);
}

bool command_doctor(const Cli *cli, const Arguments *arguments, GError **error)
{
  g_autoptr(GError) fault = NULL;
  g_autoptr(Assembler) assembler =
      assembler_search(argument_value(arguments, "ptxas"), cli->program_folder, &fault);
  int driver_version = 0;
  bool driver = find_driver(&driver_version);
  if (cli->json) {
    json_t *driver_json =
        driver ? json_pack("{s:i, s:i}", "major", driver_version / 1000, "minor", driver_version % 1000 / 10)
               : json_null();
    cli_print_json(json_pack("{s:i, s:s, s:b, s:o, s:o}", "version", 1, "adlgen", ADLGEN_VERSION, "ok",
                             assembler->path != NULL, "assembler", assembler_json(assembler), "driver",
                             driver_json));
  } else
    print_report(cli, assembler, fault, driver, driver_version);
  if (!assembler->path) *cli->exit_code = error_exit_code(fault);
  return true;
}
