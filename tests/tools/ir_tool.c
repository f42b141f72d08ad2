/* ir-tool: the IR core from the command line, for tests and for people who work on it.
 *
 *   ir-tool print FILE                          read and print
 *   ir-tool verify FILE                         read and verify
 *   ir-tool instantiate FILE [NAME=VALUE | LIBRARY.ir]...   link, bind parameters, inline, verify, print
 *   ir-tool passes FILE GPU [PASS]              run the passes, up to PASS, print
 *   ir-tool pass PASS FILE GPU                  run one pass, print
 *   ir-tool opcodes                             the opcode lists of docs/ir.md
 *
 * FILE may be -. A VALUE is a number, a keyword or number type, or @function. */
#include "ir/document.h"
#include "ir/pass.h"
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

static int print(const IrModule *module)
{
  g_autofree char *text = ir_print(module);
  fputs(text, stdout);
  return 0;
}

static IrExpr *parse_value(IrModule *module, const char *text)
{
  char *end;
  if (*text == '@') return ir_symbol(module, text + 1);
  gint64 integer = g_ascii_strtoll(text, &end, 0);
  if (*text && !*end) return ir_int(module, integer);
  double number = g_ascii_strtod(text, &end);
  if (*text && !*end) return ir_float(module, number);
  return ir_name(module, text);
}

static bool link_library(IrModule *module, const char *path, GError **error)
{
  g_autoptr(IrModule) library = load(path, error);
  return library && ir_link(module, library, error);
}

static bool instantiate(IrModule *module, char **arguments, GError **error)
{
  g_autoptr(GHashTable) bindings = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  for (; *arguments; arguments++) {
    const char *equals = strchr(*arguments, '=');
    if (!equals) {
      if (!link_library(module, *arguments, error)) return false;
      continue;
    }
    g_hash_table_insert(bindings, g_strndup(*arguments, (gsize)(equals - *arguments)),
                        parse_value(module, equals + 1));
  }
  return ir_instantiate(module, bindings, error) && ir_verify(module, NULL, error);
}

static const char *pass_before(const char *name)
{
  unsigned n;
  const IrPass *passes = ir_pass_list(&n);
  for (unsigned i = 1; i < n; i++)
    if (!strcmp(passes[i].name, name)) return passes[i - 1].name;
  return NULL;
}

static int run(IrModule *module, const char *gpu_name, const char *start, const char *stop, GError **error)
{
  g_autoptr(Gpu) gpu = gpu_load(gpu_name, error);
  if (!gpu) return report(*error);
  IrPassContext context = {.gpu = gpu};
  IrRunOptions options = {.start_after = start, .stop_after = stop};
  if (!ir_run_passes(module, &context, &options, error)) return report(*error);
  return print(module);
}

static int usage(void)
{
  fputs("usage: ir-tool print|verify FILE\n"
        "       ir-tool instantiate FILE [NAME=VALUE | LIBRARY.ir]...\n"
        "       ir-tool passes FILE GPU [PASS]\n"
        "       ir-tool pass PASS FILE GPU\n"
        "       ir-tool opcodes\n",
        stderr);
  return 2;
}

int main(int argc, char **argv)
{
  GError *error = NULL;
  const char *command = argc > 1 ? argv[1] : "";
  if (argc == 2 && !strcmp(command, "opcodes")) {
    g_autofree char *text = ir_opcode_document();
    fputs(text, stdout);
    return 0;
  }
  bool single = !strcmp(command, "pass");
  if (argc < (single ? 5 : 3)) return usage();
  g_autoptr(IrModule) module = load(argv[single ? 3 : 2], &error);
  if (!module) return report(error);
  if (!strcmp(command, "print")) return print(module);
  if (!strcmp(command, "verify")) return ir_verify(module, NULL, &error) ? 0 : report(error);
  if (!strcmp(command, "instantiate"))
    return instantiate(module, argv + 3, &error) ? print(module) : report(error);
  if (single) return run(module, argv[4], pass_before(argv[2]), argv[2], &error);
  if (!strcmp(command, "passes") && argc > 3)
    return run(module, argv[3], NULL, argc > 4 ? argv[4] : NULL, &error);
  return usage();
}
