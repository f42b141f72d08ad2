/* ptx-tool GPU FILE.ir [PASS...] [print]: a module, through the named passes, as PTX on stdout, or with
 * `print` as text. For tests and for looking at code. */
#include "backends/ptx/ptx.h"
#include "ir/pass.h"
#include <stdio.h>
#include <string.h>

static bool run_pass(IrModule *module, const IrPassContext *context, const char *name, GError **error)
{
  unsigned n;
  const IrPass *passes = ir_pass_list(&n);
  for (unsigned i = 0; i < n; i++)
    if (strcmp(passes[i].name, name) == 0)
      return passes[i].run(module, context, error) && ir_verify(module, name, error);
  error_set(error, ERROR_USAGE, NULL, "unknown-pass", NULL, "no such pass: %s", name);
  return false;
}

static char *work(int argc, char **argv, GError **error)
{
  bool print = argc > 3 && strcmp(argv[argc - 1], "print") == 0;
  g_autoptr(Gpu) gpu = gpu_load(argv[1], error);
  g_autoptr(Source) source = gpu != NULL ? source_load(argv[2], error) : NULL;
  g_autoptr(IrModule) module = source != NULL ? ir_read(source, error) : NULL;
  if (module == NULL || !ir_verify(module, NULL, error)) return NULL;
  IrPassContext context = {.gpu = gpu};
  for (int i = 3; i < argc - print; i++)
    if (!run_pass(module, &context, argv[i], error)) return NULL;
  for (unsigned i = 0; i < module->n_functions; i++)
    ir_name_values(module->functions[i]);
  return print ? ir_print(module) : ptx_emit(module, gpu, error);
}

int main(int argc, char **argv)
{
  g_autoptr(GError) error = NULL;
  if (argc < 3) {
    fprintf(stderr, "usage: ptx-tool GPU FILE.ir [PASS...] [print]\n");
    return ERROR_USAGE;
  }
  g_autofree char *text = work(argc, argv, &error);
  if (text == NULL) {
    error_print(error, stderr, false);
    return error_exit_code(error);
  }
  fputs(text, stdout);
  return 0;
}
