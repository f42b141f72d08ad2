/* Instantiation: templates in tests/ir/instantiate/ give the text beside them; linking; bindings that are
 * wrong. */
#include "ir/ir.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static IrModule *read_text(const char *name, const char *text)
{
  g_autoptr(Source) source = source_new(name, text, strlen(text));
  GError *error = NULL;
  IrModule *module = ir_read(source, &error);
  if (!module) {
    g_autofree char *message = error_to_text(error, false);
    fail_msg("%s", message);
  }
  return module;
}

static void expect_ok(bool ok, GError *error)
{
  if (ok) return;
  g_autofree char *message = error_to_text(error, false);
  fail_msg("%s", message);
}

static void no_templates_left(IrOp *op, void *data)
{
  assert_true(op->code != OP_WHEN && op->code != OP_CALL && op->code != OP_REPEAT);
}

static void test_files(void **state)
{
  g_autofree char *root = g_build_filename(g_getenv("ADLGEN_SOURCE_ROOT"), "tests/ir/instantiate", NULL);
  g_autoptr(GDir) folder = g_dir_open(root, 0, NULL);
  const char *name;
  unsigned n = 0;
  while (folder && (name = g_dir_read_name(folder))) {
    if (!g_str_has_suffix(name, ".ir")) continue;
    g_autofree char *path = g_build_filename(root, name, NULL), *text = NULL, *expected = NULL;
    g_autofree char *beside = g_strdup_printf("%.*s.expected", (int)strlen(path) - 3, path);
    assert_true(g_file_get_contents(path, &text, NULL, NULL));
    assert_true(g_file_get_contents(beside, &expected, NULL, NULL));
    g_autoptr(IrModule) module = read_text(path, text);
    GError *error = NULL;
    expect_ok(ir_instantiate(module, NULL, &error), error);
    expect_ok(ir_verify(module, NULL, &error), error);
    g_autofree char *printed = ir_print(module);
    assert_string_equal(printed, expected);
    for (unsigned i = 0; i < module->n_functions; i++)
      ir_region_visit(module->functions[i]->body, no_templates_left, NULL);
    /* Done once, it has nothing more to do. */
    expect_ok(ir_instantiate(module, NULL, &error), error);
    g_autofree char *again = ir_print(module);
    assert_string_equal(again, expected);
    n++;
  }
  assert_true(n >= 4);
}

static const char *const caller = "adlgen-ir 1 tile\n"
                                  "param f: function = @outer\n"
                                  "kernel k(A: tensor<f32>[M, N]) dims M: s32, N: s32 {\n"
                                  "  %x: tile<f32>[64, 64] = load A[0, 0]\n"
                                  "  %y: tile<f32>[64, 64] = call $f(%x)\n"
                                  "  store A[0, 0] <- %y\n"
                                  "}\n";

static const char *const library =
    "adlgen-ir 1 tile\n"
    "func inner(%x: f32) -> f32 {\n  return %x * 2.0\n}\n"
    "func unused(%x: f32) -> f32 {\n  return %x\n}\n"
    "func outer(%x: f32) -> f32 {\n  %r: f32 = call @inner(%x)\n  return %r + 1.0\n}\n";

static void test_link(void **state)
{
  g_autoptr(IrModule) module = read_text("caller.ir", caller);
  GError *error = NULL;
  {
    /* The library may go: the module keeps what it needs of it. */
    g_autoptr(IrModule) functions = read_text("library.ir", library);
    expect_ok(ir_link(module, functions, &error), error);
  }
  assert_non_null(ir_function_find(module, "outer"));
  assert_non_null(ir_function_find(module, "inner"));
  assert_null(ir_function_find(module, "unused"));
  expect_ok(ir_instantiate(module, NULL, &error), error);
  expect_ok(ir_verify(module, NULL, &error), error);
  g_autofree char *text = ir_print(module);
  assert_non_null(
      strstr(text, "  %r: tile<f32>[64, 64] = mul %x, 2.0\n  %y: tile<f32>[64, 64] = add %r, 1.0\n"));
}

static void expect_refused(const char *name, IrExpr *(*value)(IrModule *), const char *message)
{
  g_autoptr(IrModule) module = read_text("caller.ir", caller);
  g_autoptr(IrModule) functions = read_text("library.ir", library);
  assert_true(ir_link(module, functions, NULL));
  g_autoptr(GHashTable) bindings = g_hash_table_new(g_str_hash, g_str_equal);
  g_hash_table_insert(bindings, (gpointer)name, value(module));
  g_autoptr(GError) error = NULL;
  assert_false(ir_instantiate(module, bindings, &error));
  assert_string_equal(error->message, message);
}

static IrExpr *some_number(IrModule *module)
{
  return ir_int(module, 3);
}

static IrExpr *no_function(IrModule *module)
{
  return ir_symbol(module, "nothing");
}

static void test_refused(void **state)
{
  expect_refused("f", some_number, "parameter `f` is of kind function; `3` is not");
  expect_refused("f", no_function, "parameter `f` is bound to `@nothing`, which the module lacks");
  expect_refused("g", some_number, "the template has no parameter `g`");
}

/* What goes wrong in a library is reported there, with the way that led to it. */
static void test_notes(void **state)
{
  g_autoptr(IrModule) module = read_text("caller.ir", caller);
  g_autoptr(IrModule) functions = read_text(
      "library.ir", "adlgen-ir 1 tile\nfunc outer(%x: f32) -> f32 {\n  call @missing(%x)\n  return %x\n}\n");
  GError *error = NULL;
  expect_ok(ir_link(module, functions, &error), error);
  assert_false(ir_instantiate(module, NULL, &error));
  const GPtrArray *list = error_diagnostics(error);
  assert_int_equal(list->len, 3);
  const Diagnostic *first = list->pdata[0], *call = list->pdata[1], *kernel = list->pdata[2];
  assert_string_equal(first->source->name, "library.ir");
  assert_int_equal(first->line, 3);
  assert_string_equal(call->source->name, "caller.ir");
  assert_int_equal(call->line, 5);
  assert_string_equal(kernel->message, "in the instantiation of kernel `k` with f = @outer");
  g_error_free(error);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_files),
      cmocka_unit_test(test_link),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_notes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
