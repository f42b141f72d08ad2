/* Reader and printer: golden files read and print to themselves and name every operation; templates and paper
 * kernels are accepted; docs/ir.md ends with what the table says. */
#include "ir/document.h"
#include "ir/ir.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static char *source_path(const char *relative)
{
  return g_build_filename(g_getenv("ADLGEN_SOURCE_ROOT"), relative, NULL);
}

static IrModule *read_text(const char *name, const char *text)
{
  g_autoptr(Source) source = source_new(name, text, strlen(text));
  GError *error = NULL;
  IrModule *module = ir_read(source, &error);
  if (!module) {
    g_autofree char *message = error_to_text(error, false);
    fail_msg("%s", message);
  }
  if (!ir_verify(module, NULL, &error)) {
    g_autofree char *message = error_to_text(error, false);
    fail_msg("%s", message);
  }
  return module;
}

static void expect_same(const char *name, const char *a, const char *b)
{
  if (!strcmp(a, b)) return;
  unsigned line = 1;
  for (; *a && *a == *b; a++, b++)
    line += *a == '\n';
  fail_msg("%s:%u: `%.40s` instead of `%.40s`", name, line, b, a);
}

/* Text -> module -> text -> module -> text; and a copy of the module. */
static void check_file(const char *folder, const char *name, bool golden)
{
  g_autofree char *root = source_path(folder), *path = g_build_filename(root, name, NULL), *text = NULL;
  assert_true(g_file_get_contents(path, &text, NULL, NULL));
  g_autoptr(IrModule) module = read_text(path, text);
  g_autofree char *printed = ir_print(module);
  if (golden) expect_same(path, text, printed);
  g_autoptr(IrModule) again = read_text(path, printed);
  g_autofree char *twice = ir_print(again);
  expect_same(path, printed, twice);
  g_autoptr(IrModule) copy = ir_module_clone(module);
  g_autofree char *copied = ir_print(copy);
  expect_same(path, printed, copied);
}

static unsigned check_folder(const char *folder, bool golden)
{
  g_autofree char *path = source_path(folder);
  g_autoptr(GDir) open = g_dir_open(path, 0, NULL);
  const char *name;
  unsigned n = 0;
  while (open && (name = g_dir_read_name(open))) {
    if (!g_str_has_suffix(name, ".ir")) continue;
    check_file(folder, name, golden);
    n++;
  }
  return n;
}

static void test_golden(void **state)
{
  assert_int_equal(check_folder("tests/ir/roundtrip", true), 3);
}

static void test_templates(void **state)
{
  assert_true(check_folder("templates", false) > 0);
}

static void note_code(IrOp *op, void *data)
{
  ((bool *)data)[op->code] = true;
}

static void test_every_operation(void **state)
{
  static const char *const names[] = {"tile", "staged", "thread"};
  bool seen[IR_OPCODE_COUNT] = {false};
  for (unsigned i = 0; i < G_N_ELEMENTS(names); i++) {
    g_autofree char *relative = g_strdup_printf("tests/ir/roundtrip/%s.ir", names[i]);
    g_autofree char *path = source_path(relative), *text = NULL;
    assert_true(g_file_get_contents(path, &text, NULL, NULL));
    g_autoptr(IrModule) module = read_text(path, text);
    for (unsigned f = 0; f < module->n_functions; f++)
      ir_region_visit(module->functions[f]->body, note_code, seen);
  }
  for (unsigned i = 0; i < IR_OPCODE_COUNT; i++)
    if (!seen[i]) fail_msg("no golden file has `%s`", ir_op_info((IrOpcode)i)->name);
}

static void test_document(void **state)
{
  g_autofree char *path = source_path("docs/ir.md"), *page = NULL;
  assert_true(g_file_get_contents(path, &page, NULL, NULL));
  g_autofree char *lists = ir_opcode_document();
  const char *end = strstr(page, "## Opcodes\n");
  assert_non_null(end);
  expect_same("docs/ir.md (scripts/update-ir-docs writes it)", end, lists);
}

/* Names depend on the program alone: the first keeps its name, the next gets a number. */
static void test_names(void **state)
{
  g_autoptr(IrModule) module = ir_module_new(IR_THREAD);
  IrFunction *kernel = ir_function_new(module, "k", true);
  IrBuilder builder = ir_builder_at_end(kernel->body);
  for (unsigned i = 0; i < 3; i++)
    ir_emit_value(&builder, OP_MOVE, ir_scalar(NUMBER_S32), "x", 1, ir_int(module, i));
  ir_emit_value(&builder, OP_MOVE, ir_scalar(NUMBER_S32), "x1", 1, ir_int(module, 3));
  g_autofree char *text = ir_print(module);
  assert_string_equal(text, "adlgen-ir 1 thread\n\nkernel k() {\n  %x: s32 = move 0\n  %x1: s32 = move 1\n"
                            "  %x2: s32 = move 2\n  %x3: s32 = move 3\n}\n");
  ir_op_remove(kernel->body->first);
  g_autofree char *shorter = ir_print(module);
  g_autoptr(IrModule) again = read_text("names", shorter);
  g_autofree char *twice = ir_print(again);
  assert_string_equal(shorter, twice);
}

static void expect_folded(const char *written, const char *folded)
{
  g_autofree char *text = g_strdup_printf(
      "adlgen-ir 1 tile\nkernel k() dims M: s32, N: s32 launch shared_bytes %s {\n}\n", written);
  g_autoptr(IrModule) module = read_text(written, text);
  assert_string_equal(ir_expr_text(module, ir_launch_get(ir_kernel(module), ATTR_SHARED_BYTES)), folded);
}

static void test_folding(void **state)
{
  static const char *const pairs[][2] = {
      {"2 + 3", "5"},
      {"M + 0", "M"},
      {"1 * M", "M"},
      {"M / 1", "M"},
      {"(2 - 5) / 2", "-1"},
      {"-7 % 3", "-1"},
      {"ceil_div(7, 2)", "4"},
      {"min(3, max(1, 2))", "2"},
      {"ceil_div(M, 1)", "M"},
      {"1 < 2 ? M : N", "M"},
      {"0 && M", "0"},
      {"1 && M > 3", "M > 3"},
      {"M > 3 || 1", "1"},
      {"0x7fffffffffffffff + 1", "9223372036854775807 + 1"},
      {"9223372036854775807 * 2", "9223372036854775807 * 2"},
      {"bytes(bf16) * 8", "16"},
      {"bits(e4m3)", "8"},
      {"((M)) + ((N * 2))", "M + N * 2"},
      {"(M + N) * 2", "(M + N) * 2"},
      {"M - (N - 1)", "M - (N - 1)"},
      {"M - N - 1", "M - N - 1"},
      {"-M * -N", "-M * -N"},
      {"-(M * N)", "-(M * N)"},
      {"~(~M)", "M"},
      {"!(!M)", "!(!M)"},
      {"(M < N) == (N < M)", "M < N == N < M"},
      {"M << 2 + 1", "M << 3"},
      {"(M & 3) == 0", "(M & 3) == 0"},
      {"(M > 1 ? M : N) > 2 ? 3 : M > 4 ? 5 : 6", "(M > 1 ? M : N) > 2 ? 3 : M > 4 ? 5 : 6"},
      {"0.5", "0.5"},
      {"-1e-3", "-0.001"},
      {"1e300", "1e+300"},
      {"-inf", "-inf"},
      {"nan", "nan"},
      {"3.0", "3.0"},
      {"0.1", "0.1"},
      {"1.4426950408889634", "1.4426950408889634"},
  };
  for (unsigned i = 0; i < G_N_ELEMENTS(pairs); i++)
    expect_folded(pairs[i][0], pairs[i][1]);
}

static void test_attributes(void **state)
{
  g_autoptr(IrModule) module = ir_module_new(IR_STAGED);
  IrFunction *kernel = ir_function_new(module, "k", true);
  IrBuilder builder = ir_builder_at_end(kernel->body);
  IrOp *op = ir_emit(&builder, OP_SYNC, 0);
  for (unsigned round = 0; round < 3; round++) {
    for (unsigned key = 0; key < 20; key++)
      ir_attribute_set(op, (IrAttributeKey)((key * 7) % 20), ir_int(module, key));
    assert_int_equal(op->n_attributes, 20);
    for (unsigned i = 1; i < op->n_attributes; i++)
      assert_true(op->attributes[i - 1].key < op->attributes[i].key);
    for (unsigned key = 0; key < 20; key++) {
      assert_int_equal(ir_attribute_int(op, (IrAttributeKey)((key * 7) % 20), -1), key);
      ir_attribute_remove(op, (IrAttributeKey)((key * 7) % 20));
      assert_null(ir_attribute(op, (IrAttributeKey)((key * 7) % 20)));
    }
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_golden),          cmocka_unit_test(test_templates),
      cmocka_unit_test(test_every_operation), cmocka_unit_test(test_document),
      cmocka_unit_test(test_names),           cmocka_unit_test(test_folding),
      cmocka_unit_test(test_attributes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
