#include "cli/reproducer.h"
#include "base/version.h"
#include <string.h>

static void write_text(const char *folder, const char *name, const char *text)
{
  g_autofree char *path = g_build_filename(folder, name, NULL);
  g_file_set_contents(path, text, -1, NULL);
}

static void write_kernels(const char *folder, const Build *build)
{
  for (guint i = 0; i < build->kernels->len; i++) {
    const BuildKernel *kernel = build->kernels->pdata[i];
    g_autofree char *name =
        g_strdup_printf("%s.%s.%s", kernel->gpu->name, kernel->kernel->name, kernel->kernel->backend->suffix);
    write_text(folder, name, kernel->kernel->text);
  }
}

/* The command line, one word a line. */
static char *command_words(void)
{
  char *words = NULL;
  gsize size = 0;
  if (!g_file_get_contents("/proc/self/cmdline", &words, &size, NULL)) return g_strdup("");
  for (gsize i = 0; i < size; i++)
    if (!words[i]) words[i] = '\n';
  return words;
}

void reproducer_write(const Source *source, const Build *build, const Cli *cli, GError **error)
{
  g_autofree char *folder = g_dir_make_tmp("adlgen-reproducer-XXXXXX", NULL);
  if (!folder) return;
  g_autofree char *words = command_words(), *messages = error_to_text(*error, false);
  g_autofree char *summary =
      g_strdup_printf("adlgen %s\n\ncommand line:\n%s\nmessages:\n%s", ADLGEN_VERSION, words, messages);
  write_text(folder, "README.txt", summary);
  if (source) {
    g_autofree char *base = g_path_get_basename(source->name);
    g_autofree char *name =
        strcmp(source->name, "<stdin>") ? g_strconcat("input-", base, NULL) : g_strdup("input");
    write_text(folder, name, source->text);
  }
  if (build) write_kernels(folder, build);
  error_add(error, ERROR_INTERNAL, SEVERITY_NOTE, NULL, "reproducer", NULL,
            "this is a fault of adlgen; please report it with the files in %s", folder);
}
