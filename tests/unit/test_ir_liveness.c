/* Register pressure of small kernels, counted by hand. */
#include "ir/liveness.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

static IrPressure *pressure(const char *body, unsigned *n, IrModule **module)
{
  g_autoptr(GError) error = NULL;
  g_autofree char *text = g_strdup_printf(
      "adlgen-ir 1 thread\nkernel k(X: tensor<f32>[N]) dims N: s32 launch threads 128 {\n%s}\n", body);
  g_autoptr(Source) source = source_new("test.ir", text, strlen(text));
  *module = ir_read(source, &error);
  if (*module == NULL || !ir_verify(*module, NULL, &error)) {
    g_autofree char *message = error_to_text(error, false);
    fail_msg("%s", message);
  }
  return ir_pressure(ir_kernel(*module), n);
}

static void expect(const char *body, unsigned peak, unsigned predicates)
{
  unsigned n;
  g_autoptr(IrModule) module = NULL;
  g_autofree IrPressure *parts = pressure(body, &n, &module);
  assert_int_equal(n, 1);
  assert_int_equal(parts[0].peak, peak);
  assert_int_equal(parts[0].predicates, predicates);
}

static void test_straight_line(void **state)
{
  /* %x is an argument and free; at the sum %a, %b die as %c is born; before it both are live. */
  expect("%x: u64 = address X\n"
         "%a: f32 = load_global %x\n"
         "%b: f32 = load_global %x + 4\n"
         "%c: f32 = add %a, %b\n"
         "store_global %x <- %c\n",
         2, 0);
  /* 64 bits are two registers, 16 bits one, predicates none. */
  expect("%x: u64 = address X\n"
         "%n: s32 = parameter N\n"
         "%p: u64 = mad_wide %n, 4, %x\n"
         "%h: bf16 = load_global %p\n"
         "%yes: predicate = gt %n, 3\n"
         "store_global %p <- %h when %yes\n",
         3, 1);
}

static void test_arrays(void **state)
{
  /* The array is written part by part: 1, 2, 3, 4 live; the last use of each ends it. */
  expect("%x: u64 = address X\n"
         "%acc: f32[4] = var\n"
         "set %acc[0] <- 0.0\n"
         "set %acc[1] <- 0.0\n"
         "store_global %x <- %acc[0]\n"
         "set %acc[2] <- 0.0\n"
         "store_global %x <- %acc[1], %acc[2]\n",
         2, 0);
}

static void test_loops(void **state)
{
  /* %sum lives around the loop beside %i; %v comes on top; the bound is an argument. */
  expect("%x: u64 = address X\n"
         "%n: s32 = parameter N\n"
         "%kept: f32 = load_global %x + 8\n"
         "%sum: f32 = var 0.0\n"
         "for %i in 0 .. %n {\n"
         "  %v: f32 = load_global %x\n"
         "  %next: f32 = add %sum, %v\n"
         "  set %sum <- %next\n"
         "}\n"
         "store_global %x <- %sum, %kept\n",
         4, 0);
  /* What a product overwrites is not live before it. */
  expect("%x: u64 = address X\n"
         "%n: s32 = parameter N\n"
         "%d: u64 = move 7\n"
         "%s: f32[32] = var\n"
         "for %i in 0 .. %n {\n"
         "  %v: f32 = load_global %x\n"
         "  store_global %x + 4 <- %v\n"
         "  warpgroup_mma %s += %d * %d shape [64, 64, 16] types [bf16, bf16, f32] accumulate 0\n"
         "  store_global %x <- %s[31]\n"
         "}\n",
         35, 0);
}

/* What the assembler makes of a kernel: a line, exact for none, near for all but chains (docs/registers.md).
 */
static void test_expected(void **state)
{
  assert_int_equal(ir_pressure_registers(&(IrPressure){.peak = 0}), 10);
  assert_int_equal(ir_pressure_registers(&(IrPressure){.peak = 9}), 19);
  assert_int_equal(ir_pressure_registers(&(IrPressure){.peak = 212}), 203);
  for (unsigned peak = 1; peak < 1000; peak++)
    assert_true(ir_pressure_registers(&(IrPressure){.peak = peak}) >=
                ir_pressure_registers(&(IrPressure){.peak = peak - 1}));
}

static void test_roles(void **state)
{
  unsigned n;
  g_autoptr(IrModule) module = NULL;
  g_autofree IrPressure *parts = pressure("%x: u64 = address X\n"
                                          "%t: s32 = special thread_x\n"
                                          "%first: predicate = lt %t, 128\n"
                                          "if %first {\n"
                                          "  registers 40 mode down\n"
                                          "  store_global %x <- %t\n"
                                          "} else {\n"
                                          "  registers 232 mode up\n"
                                          "  %a, %b, %c, %d: f32 = load_global %x\n"
                                          "  store_global %x <- %a, %b, %c, %d\n"
                                          "}\n",
                                          &n, &module);
  assert_int_equal(n, 3);
  assert_null(parts[0].role);
  assert_int_equal(parts[0].peak, 1);
  assert_int_equal(parts[1].granted, 40);
  assert_int_equal(parts[1].peak, 1);
  assert_int_equal(parts[2].granted, 232);
  assert_int_equal(parts[2].peak, 4);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_straight_line), cmocka_unit_test(test_arrays),
                                     cmocka_unit_test(test_loops), cmocka_unit_test(test_expected),
                                     cmocka_unit_test(test_roles)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
