/* ir-tool: the IR core from the command line, for tests and for people who work on it.
 *
 *   ir-tool print FILE                    read and print
 *   ir-tool verify FILE                   read and verify
 *   ir-tool instantiate FILE [k=v ...] [--link LIBRARY.ir ...]   bind parameters, inline, print
 *   ir-tool pass NAME FILE --gpu GPU      run one pass and print
 */
#include "ir/ir.h"
#include <stdio.h>
#include <string.h>

static int report(GError *error)
{
  error_print(error, stderr, false);
  int code = error_exit_code(error);
  g_error_free(error);
  return code;
}

static IrModule *load(const char *path, GError **error)
{
  g_autoptr(Source) source = source_load(path, error);
  return source ? ir_read(source, error) : NULL;
}

static void print(const IrModule *module)
{
  g_autofree char *text = ir_print(module);
  fputs(text, stdout);
}

int main(int argc, char **argv)
{
  if (argc < 3) {
    fputs("usage: ir-tool print|verify FILE\n", stderr);
    return 2;
  }
  GError *error = NULL;
  g_autoptr(IrModule) module = load(argv[2], &error);
  if (!module) return report(error);
  if (!strcmp(argv[1], "print")) {
    print(module);
    return 0;
  }
  if (!strcmp(argv[1], "verify")) return ir_verify(module, NULL, &error) ? 0 : report(error);
  return 2;
}
