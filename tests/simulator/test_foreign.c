/* PTX of nvcc, Triton and rarely written forms (foreign/): results against those of foreign/expect.py, and no
 * false alarm. A test is NAME.ENTRY.launch.json for NAME.ptx with NAME.ENTRY.expect.json beside it:
 *   {"version": 1, "buffers": {name: [values]}, "printed": text, "faults": [kinds], "gpu": name} */
#include "simulator/simulator.h"
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
// clang-format on
#include <math.h>
#include <string.h>

static const SimBuffer *buffer(const SimLaunch *l, const char *name)
{
  for (unsigned i = 0; i < l->n_buffers; i++)
    if (strcmp(l->buffers[i].name, name) == 0) return &l->buffers[i];
  fail_msg("no buffer %s", name);
  return NULL;
}

/* The types of buffers are the launch file's; their widths and the values tell which they are. */
static double value_at(const SimBuffer *b, const char *type, size_t i)
{
  NumberType t;
  assert_true(number_parse(type, &t));
  return number_to_double(t, (const uint8_t *)b->data + i * number_bytes(t));
}

static unsigned compare(const SimLaunch *l, json_t *launch, json_t *expect)
{
  const char *name;
  json_t *values;
  unsigned wrong = 0;
  json_object_foreach(json_object_get(expect, "buffers"), name, values)
  {
    const SimBuffer *b = buffer(l, name);
    json_t *entry = json_object_get(json_object_get(launch, "buffers"), name);
    const char *type = json_string_value(json_object_get(entry, "type"));
    for (size_t i = 0; i < json_array_size(values); i++) {
      double got = value_at(b, type, i), want = json_number_value(json_array_get(values, i));
      if (got == want) continue;
      if (wrong++ < 3) print_message("  %s[%zu]: %.9g instead of %.9g\n", name, i, got, want);
    }
  }
  return wrong;
}

/* Exactly the faults that are named, findings aside. */
static unsigned compare_faults(const SimResult *r, json_t *expect)
{
  json_t *wanted = json_object_get(expect, "faults");
  unsigned wrong = r->n_errors != json_array_size(wanted);
  for (unsigned i = 0, k = 0; i < r->n_faults; i++) {
    const SimFault *f = &r->faults[i];
    if (f->finding) continue;
    const char *kind = json_string_value(json_array_get(wanted, k++));
    if (kind && strcmp(kind, sim_fault_name(f->kind)) == 0) continue;
    wrong++;
    print_message("  %s %u: %s\n", sim_fault_name(f->kind), f->line, f->message);
  }
  return wrong;
}

static json_t *load_json(const char *path)
{
  json_t *o = json_load_file(path, 0, NULL);
  if (!o) fail_msg("%s is missing or no JSON", path);
  return o;
}

static void run_one(const char *stem, unsigned schedules)
{
  g_autofree char *name = g_strndup(stem, strcspn(stem, "."));
  g_autofree char *text = g_strdup_printf(TEST_FOLDER "/foreign/%s.ptx", name);
  g_autofree char *launch_path = g_strdup_printf(TEST_FOLDER "/foreign/%s.launch.json", stem);
  g_autofree char *expect_path = g_strdup_printf(TEST_FOLDER "/foreign/%s.expect.json", stem);
  json_t *launch = load_json(launch_path), *expect = load_json(expect_path);
  GError *error = NULL;
  g_autoptr(Source) source = source_load(text, &error);
  g_autoptr(SimModule) module = source ? sim_module_parse(source, &error) : NULL;
  g_autoptr(SimLaunchFile) file = module ? sim_launch_file_load(launch_path, &error) : NULL;
  const char *gpu_name = json_string_value(json_object_get(expect, "gpu"));
  g_autoptr(Gpu) gpu = file && gpu_name ? gpu_load(gpu_name, &error) : NULL;
  SimOptions options;
  sim_options_default(&options);
  options.schedules = schedules;
  options.max_instructions = 2000000;
  SimResult result = {0};
  if (error || !file || !sim_launch_file_run(file, module, gpu, &options, &result, &error))
    fail_msg("%s: %s", stem, error->message);
  unsigned wrong = compare_faults(&result, expect) + compare(sim_launch_file_launch(file), launch, expect);
  const char *printed = json_string_value(json_object_get(expect, "printed"));
  wrong += g_strcmp0(printed, result.printed) != 0;
  if (wrong) fail_msg("%s with %u schedules: %u differences", stem, schedules, wrong);
  sim_result_clear(&result);
  json_decref(launch);
  json_decref(expect);
}

static void foreign_kernels(void **state)
{
  g_autoptr(GDir) folder = g_dir_open(TEST_FOLDER "/foreign", 0, NULL);
  assert_non_null(folder);
  unsigned count = 0;
  for (const char *entry; (entry = g_dir_read_name(folder));) {
    if (!g_str_has_suffix(entry, ".launch.json")) continue;
    g_autofree char *stem = g_strndup(entry, strlen(entry) - strlen(".launch.json"));
    run_one(stem, 1);
    run_one(stem, 3);
    count++;
  }
  assert_in_range(count, 20, 1000);
}

static bool refused(const char *text, const char *message, unsigned line)
{
  GError *error = NULL;
  g_autoptr(Source) source = source_new("bad.ptx", text, strlen(text));
  g_autoptr(SimModule) module = sim_module_parse(source, &error);
  bool ok = module && sim_module_check(module, NULL, &error);
  if (ok || !error) return false;
  const Diagnostic *x = error_diagnostics(error)->pdata[0];
  bool same = strcmp(x->message, message) == 0 && x->line == line;
  if (!same) print_message("  %u: %s\n", x->line, x->message);
  g_error_free(error);
  return same;
}

#define HEAD ".version 8.1\n.target sm_90a\n.address_size 64\n"
#define BODY HEAD ".entry k()\n{\n.reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .pred %p<2>;\n"

/* Wrong input of the forms that are new here is told with its place. */
static void wrong_text(void **state)
{
  assert_true(refused(HEAD ".global .u64 x = {nowhere};\n", "'nowhere' is not declared", 4));
  assert_true(refused(HEAD ".global .u64 x = {0(x)};\n", "a mask of 0", 4));
  assert_true(refused(HEAD ".func f();\n.alias f, g;\n", "'g' is no function with a body", 5));
  assert_true(
      refused(BODY "L: .branchtargets A, B;\nbrx.idx %r1, L;\nA: ret;\n}\n", "'B' is not declared", 7));
  assert_true(
      refused(BODY ".branchtargets A;\nA: ret;\n}\n", "a list of targets needs a label before it", 7));
  assert_true(refused(BODY "A: brx.idx %r1, A;\n}\n",
                      "instruction 'brx.idx': the label of a .branchtargets list is needed", 7));
  assert_true(refused(BODY "add.u32 %r1.b0, %r2, %r3;\n}\n",
                      "instruction 'add.u32': a register is needed as destination", 7));
  assert_true(
      refused(BODY "add.u32 %r1, %r2.h1, %r3;\n}\n", "instruction 'add.u32': '.h1' behind a register", 7));
  assert_true(refused(BODY "vadd.u32.u32.u32 %r1, %r2.b4, %r3;\n}\n",
                      "instruction 'vadd.u32.u32.u32': these parts of registers", 7));
  assert_true(
      refused(BODY "alloca.u64 %rd1, %rd2, 3;\n}\n", "instruction 'alloca.u64': an alignment of 3", 7));
  assert_true(refused(BODY "multimem.st.relaxed.sys.global.f32 [%rd1], %r1;\n}\n",
                      "instruction 'multimem.st.relaxed.sys.global.f32': unknown instruction", 7));
  assert_true(refused(HEAD ".func lost();\n.entry k()\n{\ncall lost;\n}\n",
                      "instruction 'call': function 'lost' has no body", 7));
}

static void wrong_calls(void **state)
{
  /* an address where no function is, and recursion without end */
  static const struct {
    const char *text;
    SimFaultKind kind;
  } cases[] = {
      {BODY "mov.u64 %rd1, 64;\nP: .callprototype _ ();\ncall %rd1, P;\nret;\n}\n", SIM_FAULT_OPERAND},
      {HEAD ".func f()\n{\ncall f;\nret;\n}\n.entry k()\n{\ncall f;\nret;\n}\n", SIM_FAULT_LIMIT}};
  for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
    GError *error = NULL;
    g_autoptr(Source) source = source_new("calls.ptx", cases[i].text, strlen(cases[i].text));
    g_autoptr(SimModule) module = sim_module_parse(source, &error);
    SimLaunch launch = {.grid = {1, 1, 1}, .block = {32, 1, 1}};
    SimOptions options;
    sim_options_default(&options);
    SimResult result = {0};
    if (!module || !sim_run(module, &launch, NULL, &options, &result, &error)) fail_msg("%s", error->message);
    assert_int_equal(result.n_errors, 1);
    assert_int_equal(result.faults[0].kind, cases[i].kind);
    sim_result_clear(&result);
  }
}

/* The limit is told also when it is reached between blocks that end at once. */
static void huge_grid(void **state)
{
  static const char text[] = HEAD ".entry k()\n{\nret;\n}\n";
  GError *error = NULL;
  g_autoptr(Source) source = source_new("grid.ptx", text, strlen(text));
  g_autoptr(SimModule) module = sim_module_parse(source, &error);
  SimLaunch launch = {.grid = {1u << 31, 1, 1}, .block = {32, 1, 1}};
  SimOptions options;
  sim_options_default(&options);
  options.max_instructions = 1000;
  SimResult result = {0};
  if (!module || !sim_run(module, &launch, NULL, &options, &result, &error)) fail_msg("%s", error->message);
  assert_int_equal(result.n_errors, 1);
  assert_int_equal(result.faults[0].kind, SIM_FAULT_LIMIT);
  sim_result_clear(&result);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(foreign_kernels), cmocka_unit_test(wrong_text),
                                     cmocka_unit_test(wrong_calls), cmocka_unit_test(huge_grid)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
