/* The simulator against kernels written by hand: good ones with computed results, and faults planted in them
 * by one change of the text each (faults.txt), which must be reported at the changed line or at its partner.
 */
#include "simulator/simulator.h"
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
// clang-format on
#include <math.h>
#include <string.h>
#include <unistd.h>

#define FOLDER TEST_FOLDER "/"

static const void *buffer(const SimLaunch *l, const char *name)
{
  for (unsigned i = 0; i < l->n_buffers; i++)
    if (strcmp(l->buffers[i].name, name) == 0) return l->buffers[i].data;
  fail_msg("no buffer %s", name);
  return NULL;
}

static double bf16_at(const void *p, unsigned i)
{
  return number_to_double(NUMBER_BF16, (const uint16_t *)p + i);
}

static void near(double got, double want, double limit)
{
  if (!(fabs(got - want) <= limit)) fail_msg("%.9g instead of %.9g", got, want);
}

/* --- oracles --- */

static void expect_add(const SimLaunch *l)
{
  const float *a = buffer(l, "a"), *b = buffer(l, "b"), *c = buffer(l, "c");
  for (unsigned i = 0; i < 300; i++)
    assert_true(c[i] == fmaf(a[i], 2, b[i]));
}

static void expect_collatz(const SimLaunch *l)
{
  const uint32_t *a = buffer(l, "a"), *c = buffer(l, "c");
  for (unsigned i = 0; i < 96; i++) {
    uint32_t x = a[i] % 1000 + 1, n = 0;
    for (; x != 1; n++)
      x = x & 1 ? 3 * x + 1 : x / 2;
    assert_int_equal(c[i], 32000 + n);
  }
}

static void expect_reduce(const SimLaunch *l)
{
  const float *a = buffer(l, "a"), *c = buffer(l, "c");
  double sum = 0;
  for (unsigned i = 0; i < 256; i++)
    sum += a[i];
  near(c[0], sum, 1e-4);
}

static void expect_histogram(const SimLaunch *l)
{
  const uint32_t *a = buffer(l, "a"), *c = buffer(l, "c");
  uint32_t bins[16] = {0};
  for (unsigned i = 0; i < 320; i++)
    bins[a[i] & 15]++;
  assert_memory_equal(bins, c, sizeof bins);
}

static void expect_matrix(const SimLaunch *l, unsigned m, unsigned n, unsigned k)
{
  const void *a = buffer(l, "a"), *b = buffer(l, "b");
  const float *c = buffer(l, "c");
  for (unsigned i = 0; i < m; i++)
    for (unsigned j = 0; j < n; j++) {
      double sum = 0;
      for (unsigned x = 0; x < k; x++)
        sum += bf16_at(a, i * k + x) * bf16_at(b, j * k + x);
      near(c[i * n + j], sum, 1e-4);
    }
}

static void expect_product(const SimLaunch *l)
{
  expect_matrix(l, 16, 8, 32);
}

static void expect_group(const SimLaunch *l)
{
  expect_matrix(l, 50, 16, 320);
}

static void expect_cluster(const SimLaunch *l)
{
  const uint32_t *a = buffer(l, "a"), *c = buffer(l, "c");
  for (unsigned i = 0; i < 128; i++)
    assert_int_equal(c[i], a[i] + a[i ^ 32]);
}

static void expect_exchange(const SimLaunch *l)
{
  const uint32_t *a = buffer(l, "a"), *c = buffer(l, "c");
  for (unsigned i = 0; i < 32; i++)
    assert_int_equal(c[i], a[i ^ 1]);
}

static void expect_handoff(const SimLaunch *l)
{
  assert_memory_equal(buffer(l, "a"), buffer(l, "c"), 32 * sizeof(uint32_t));
}

static uint32_t mix(uint32_t x)
{
  return x & 1 ? x + 7 : x;
}

static void expect_call(const SimLaunch *l)
{
  const uint32_t *c = buffer(l, "c");
  for (uint32_t i = 0; i < 40; i++)
    assert_int_equal(c[i], mix(i) * 1000 + mix(i + 101));
}

static void expect_ticket(const SimLaunch *l)
{
  const float *a = buffer(l, "a"), *c = buffer(l, "c");
  double sum = 0;
  for (unsigned i = 0; i < 256; i++)
    sum += a[i];
  near(c[0], sum, 1e-4);
  assert_int_equal(*(const uint32_t *)buffer(l, "count"), 0);
}

static void expect_lookback(const SimLaunch *l)
{
  const uint32_t *a = buffer(l, "a"), *c = buffer(l, "c");
  uint32_t sum = 0;
  for (unsigned i = 0; i < 256; i++)
    assert_int_equal(c[i], sum += a[i]);
}

/* In round r (0, 500, 1000) x[i] = i + r; the last round's is not read. */
static void expect_gridbar(const SimLaunch *l)
{
  const uint32_t *c = buffer(l, "c");
  for (unsigned i = 0; i < 384; i++) {
    uint32_t next = (i + 64) % 384;
    assert_int_equal(c[i], next * 3 + next + 500);
  }
}

static void expect_splitk(const SimLaunch *l)
{
  const float *a = buffer(l, "a"), *c = buffer(l, "c");
  for (unsigned i = 0; i < 128; i++) {
    float sum = 0;
    for (unsigned k = 0; k < 4; k++)
      sum += a[k * 128 + i];
    assert_true(c[i] == sum);
  }
}

static void expect_ring(const SimLaunch *l)
{
  const uint32_t *a = buffer(l, "a"), *c = buffer(l, "c");
  uint32_t sum = 0;
  for (unsigned i = 0; i < 7; i++)
    sum += a[i];
  assert_int_equal(c[0], sum);
}

static void expect_lock(const SimLaunch *l)
{
  assert_int_equal(*(const uint32_t *)buffer(l, "c"), 36);
}

static void expect_dependent(const SimLaunch *l)
{
  const uint32_t *a = buffer(l, "a"), *b = buffer(l, "b"), *w = buffer(l, "w"), *c = buffer(l, "c");
  for (unsigned i = 0; i < 192; i++) {
    assert_int_equal(a[i], 0);
    assert_int_equal(b[i] & 1, 1);
    assert_int_equal(c[i], b[i] + w[i]);
  }
}

static void expect_peers(const SimLaunch *l)
{
  const uint32_t *a = buffer(l, "a"), *c = buffer(l, "c");
  for (unsigned i = 0; i < 256; i++)
    assert_int_equal(c[i], a[i ^ 32] + a[i ^ 64]);
}

static void expect_bounce(const SimLaunch *l)
{
  const uint32_t *a = buffer(l, "a"), *c = buffer(l, "c");
  for (unsigned i = 0; i < 192; i++)
    assert_int_equal(c[i], a[i] + 7);
}

static void expect_inbox(const SimLaunch *l)
{
  const uint32_t *a = buffer(l, "a");
  assert_int_equal(*(const uint32_t *)buffer(l, "c"), (uint32_t)(a[0] + a[1]));
}

static void expect_bytes(const SimLaunch *l)
{
  const uint8_t *a = buffer(l, "a"), *c = buffer(l, "c");
  for (unsigned i = 0; i < 15; i++) {
    unsigned other = i / 5 * 5 + MIN((i % 5) ^ 1, 4);
    assert_int_equal(c[i], (uint8_t)(a[i] + a[other] + 2));
  }
}

/* The sums and votes of the lanes that had not left. */
static void expect_leavers(const SimLaunch *l)
{
  const uint32_t *c = buffer(l, "c");
  for (unsigned i = 0; i < 64; i++) {
    const uint32_t *of = c + (size_t)i * 6;
    unsigned lane = i % 32;
    assert_int_equal(of[0], lane < 12 ? 0 : 0xfffffffe);
    assert_int_equal(of[1], lane < 12 ? 0 : MIN(lane + 1, 31));
    assert_int_equal(of[2], lane < 12 ? 0 : 28);
    assert_int_equal(of[3], lane < 12 ? 0 : 0xffffffe0);
    assert_int_equal(of[4], lane < 12 ? 0 : 48);
    assert_int_equal(of[5], lane < 12 ? 0 : 9);
  }
}

static void expect_meetings(const SimLaunch *l)
{
  const uint32_t *a = buffer(l, "a"), *c = buffer(l, "c");
  for (unsigned i = 0; i < 32; i++)
    assert_int_equal(c[i], a[i ^ 16] + a[i ^ 1]);
}

/* Variables by name, in instructions without a state space. */
static void expect_spaces(const SimLaunch *l)
{
  const uint32_t *c = buffer(l, "c");
  const uint32_t want[] = {7, 9, 11, 12, 13, 0};
  assert_memory_equal(c, want, sizeof want);
}

static void expect_halves(const SimLaunch *l)
{
  for (unsigned i = 0; i < 32; i++)
    assert_true(bf16_at(buffer(l, "c"), i) == 2 * bf16_at(buffer(l, "a"), i));
}

static void expect_grouped(const SimLaunch *l)
{
  const uint32_t *a = buffer(l, "a"), *c = buffer(l, "c");
  for (unsigned i = 0; i < 128; i++) {
    unsigned in = i < 64 ? i : i - 32, n = i < 64 ? i : i - 64;
    assert_int_equal(c[i], n < (i < 64 ? 30 : 40) ? (uint32_t)(a[in] + a[in]) : 0);
  }
}

static void expect_partial(const SimLaunch *l)
{
  const float *a = buffer(l, "a"), *c = buffer(l, "c");
  for (unsigned i = 0; i < 4; i++)
    assert_true(c[i] == a[i ^ 2]);
}

static const struct {
  const char *name;
  void (*expect)(const SimLaunch *l);
} kernels[] = {{"add", expect_add},
               {"collatz", expect_collatz},
               {"reduce", expect_reduce},
               {"histogram", expect_histogram},
               {"product", expect_product},
               {"group", expect_group},
               {"cluster", expect_cluster},
               {"call", expect_call},
               {"exchange", expect_exchange},
               {"handoff", expect_handoff},
               {"ticket", expect_ticket},
               {"lookback", expect_lookback},
               {"gridbar", expect_gridbar},
               {"splitk", expect_splitk},
               {"ring", expect_ring},
               {"lock", expect_lock},
               {"dependent", expect_dependent},
               {"peers", expect_peers},
               {"bounce", expect_bounce},
               {"bytes", expect_bytes},
               {"inbox", expect_inbox},
               {"partial", expect_partial},
               {"leavers", expect_leavers},
               {"meetings", expect_meetings},
               {"spaces", expect_spaces},
               {"halves", expect_halves},
               {"grouped", expect_grouped}};

/* --- running --- */

static bool run_text(const char *name, const char *text, unsigned schedules, SimResult *result,
                     void (*expect)(const SimLaunch *l), GError **error)
{
  g_autofree char *path = g_strdup_printf(FOLDER "%s.launch.json", name);
  g_autofree char *file = g_strdup_printf("%s.ptx", name);
  g_autoptr(Source) source = source_new(file, text, strlen(text));
  g_autoptr(SimModule) module = sim_module_parse(source, error);
  if (!module) return false;
  g_autoptr(SimLaunchFile) launch = sim_launch_file_load(path, error);
  if (!launch) return false;
  SimOptions options;
  sim_options_default(&options);
  options.schedules = schedules;
  options.max_instructions = 200000;
  options.timeout = 60;
  if (!sim_launch_file_run(launch, module, NULL, &options, result, error)) return false;
  if (expect) expect(sim_launch_file_launch(launch));
  return true;
}

static char *load(const char *name)
{
  g_autofree char *path = g_strdup_printf(FOLDER "%s.ptx", name);
  char *text = NULL;
  assert_true(g_file_get_contents(path, &text, NULL, NULL));
  return text;
}

static void print_faults(const SimResult *r)
{
  for (unsigned i = 0; i < r->n_faults; i++)
    print_message("  %s %u (other %u): %s\n", sim_fault_name(r->faults[i].kind), r->faults[i].line,
                  r->faults[i].other_line, r->faults[i].message);
}

static void good_kernels(void **state)
{
  for (unsigned i = 0; i < G_N_ELEMENTS(kernels); i++)
    for (unsigned schedules = 1; schedules <= 9; schedules++) {
      g_autofree char *text = load(kernels[i].name);
      SimResult result = {0};
      GError *error = NULL;
      if (!run_text(kernels[i].name, text, schedules, &result, kernels[i].expect, &error))
        fail_msg("%s: %s", kernels[i].name, error->message);
      if (result.n_faults) print_faults(&result);
      assert_int_equal(result.n_faults, 0);
      sim_result_clear(&result);
    }
}

/* The text of a line (1-based); g_free. */
static char *line_of(const char *text, unsigned line)
{
  for (unsigned i = 1; i < line; i++) {
    text = strchr(text, '\n');
    if (!text) return g_strdup("");
    text++;
  }
  return g_strndup(text, strcspn(text, "\n"));
}

static bool names(const SimFault *f, const char *text, const char *what)
{
  g_autofree char *own = line_of(text, f->line),
                  *other = line_of(text, f->other_line ? f->other_line : f->line);
  return strstr(own, what) || strstr(other, what);
}

static bool planted(const char *kernel, const char *from, const char *to, const char *kind, const char *where,
                    unsigned schedules)
{
  g_autofree char *text = load(kernel);
  g_autofree char *pattern = g_strcompress(from), *replacement = g_strcompress(to);
  char *at = strstr(text, pattern);
  if (!at) {
    print_message("%s: '%s' is not in the kernel\n", kernel, from);
    return false;
  }
  g_autofree char *changed =
      g_strdup_printf("%.*s%s%s", (int)(at - text), text, replacement, at + strlen(pattern));
  SimResult result = {0};
  GError *error = NULL;
  if (!run_text(kernel, changed, schedules, &result, NULL, &error)) {
    print_message("%s: '%s': %s\n", kernel, from, error->message);
    g_error_free(error);
    return false;
  }
  bool caught = strcmp(kind, "none") == 0 && !result.n_errors;
  for (unsigned i = 0; i < result.n_faults && !caught; i++) {
    const SimFault *f = &result.faults[i];
    caught = strcmp(sim_fault_name(f->kind), kind) == 0 && names(f, changed, where);
  }
  if (!caught) {
    print_message("%s: '%s' -> '%s': no '%s' at '%s'; found:\n", kernel, from, to, kind, where);
    print_faults(&result);
  }
  sim_result_clear(&result);
  return caught;
}

static void planted_in(const char *file, unsigned schedules)
{
  g_autofree char *text = NULL;
  assert_true(g_file_get_contents(file, &text, NULL, NULL));
  g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
  unsigned missed = 0, total = 0;
  for (unsigned i = 0; lines[i]; i++) {
    if (!*lines[i] || *lines[i] == '#') continue;
    g_auto(GStrv) fields = g_strsplit(lines[i], " | ", -1);
    assert_int_equal(g_strv_length(fields), 5);
    total++;
    missed += !planted(fields[0], fields[1], fields[2], fields[3], fields[4], schedules);
  }
  print_message("%u of %u planted faults reported\n", total - missed, total);
  assert_int_equal(missed, 0);
}

static void planted_faults(void **state)
{
  planted_in(FOLDER "faults.txt", 2);
}

static void planted_order(void **state)
{
  planted_in(FOLDER "faults-order.txt", 2);
}

/* --- residency: a barrier of the grid needs all its blocks on the GPU at once --- */

static unsigned deadlocks(unsigned blocks, unsigned registers, unsigned shared, const char *what)
{
  g_autofree char *text = load("gridbar"), *path = g_strdup(FOLDER "gridbar.launch.json");
  g_autoptr(Source) source = source_new("gridbar.ptx", text, strlen(text));
  g_autoptr(SimModule) module = sim_module_parse(source, NULL);
  g_autoptr(SimLaunchFile) file = sim_launch_file_load(path, NULL);
  g_autoptr(Gpu) gpu = gpu_load("h100", NULL);
  assert_true(module && file && gpu);
  SimLaunch launch = *sim_launch_file_launch(file);
  launch.grid[0] = blocks;
  launch.block[0] = 1;
  launch.registers = registers;
  launch.shared = shared;
  SimOptions options;
  sim_options_default(&options);
  options.max_instructions = 2000000;
  SimResult result;
  GError *error = NULL;
  if (!sim_run(module, &launch, gpu, &options, &result, &error)) fail_msg("%s", error->message);
  unsigned n = 0;
  for (unsigned i = 0; i < result.n_faults; i++)
    n += result.faults[i].kind == SIM_FAULT_DEADLOCK && strstr(result.faults[i].message, what) != NULL;
  if (result.n_errors != n) print_faults(&result);
  assert_int_equal(result.n_errors, n);
  sim_result_clear(&result);
  return n;
}

static void residency(void **state)
{
  /* 132 SMs; 227 KB of 228 KB: one block each */
  assert_int_equal(deadlocks(132, 32, 227 * 1024, ""), 0);
  assert_int_equal(deadlocks(133, 32, 227 * 1024, "0 blocks of 133 have ended, 132 fit on the GPU at once"),
                   1);
  assert_int_equal(deadlocks(264, 32, 113 * 1024, ""), 0);
  assert_int_equal(deadlocks(265, 32, 113 * 1024, "264 fit on the GPU at once"), 1);
}

/* --- bad input --- */

static void refused_launch(const char *from, const char *to, unsigned line, const char *what)
{
  g_autofree char *text = NULL;
  assert_true(g_file_get_contents(FOLDER "dependent.launch.json", &text, NULL, NULL));
  char *at = strstr(text, from);
  assert_non_null(at);
  g_autofree char *changed = g_strdup_printf("%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
  g_autofree char *path = NULL;
  GError *error = NULL;
  int fd = g_file_open_tmp("launch-XXXXXX.json", &path, NULL);
  assert_true(fd >= 0 && close(fd) == 0 && g_file_set_contents(path, changed, -1, NULL));
  SimLaunchFile *file = sim_launch_file_load(path, &error);
  remove(path);
  assert_null(file);
  const Diagnostic *d = error_diagnostics(error)->pdata[0];
  if (d->line != line || strcmp(d->message, what))
    fail_msg("%u: '%s' instead of '%s' at line %u", d->line, d->message, what, line);
  g_error_free(error);
}

static void bad_lists(void **state)
{
  refused_launch("\"launch\": 0", "\"launch\": 1", 6, "launch 1 is not an earlier one of the list");
  refused_launch("\"launch\": 0", "\"launch\": -1", 6, "launch -1 is not an earlier one of the list");
  refused_launch("\"dependent\": true", "\"dependant\": true", 6, "unknown key `dependant`");
  const char *before = "\"a\": {", *list = "\"a\": {\"addresses\": [";
  static const struct {
    const char *text, *what;
  } addresses[] = {
      {"{\"buffer\": \"x\"}], ", "there is no buffer 'x'"},
      {"{\"tensormap\": \"x\"}], ", "there is no tensor map 'x'"},
      {"{\"at\": 8}], ", "missing key `buffer`"},
      {"{\"buffer\": \"b\", \"at\": 761}], ", "8 bytes at byte 761 are not within the buffer's 768"},
      {"{\"buffer\": \"b\", \"to\": 0}], ", "unknown key `to`"},
      {"5], ", "expected a mapping (an address), found `5`"},
  };
  for (unsigned i = 0; i < G_N_ELEMENTS(addresses); i++) {
    g_autofree char *text = g_strconcat(list, addresses[i].text, NULL), *from = g_strdup(before);
    refused_launch(from, text, 7, addresses[i].what);
  }
  refused_launch("\"grid\": [3], ", "", 3, "missing key `grid`");
  refused_launch("{\"version\": 1,", "{\"version\": 1, \"grid\": [1],", 1, "unknown key `grid`");
}

static void refused(const char *text, ErrorCode code, unsigned line, const char *what)
{
  g_autofree char *whole = g_strdup_printf(".version 8.0\n.target sm_90a\n.address_size 64\n%s", text);
  g_autoptr(Source) source = source_new("bad.ptx", whole, strlen(whole));
  GError *error = NULL;
  g_autoptr(SimModule) module = sim_module_parse(source, &error);
  if (module) assert_false(sim_module_check(module, NULL, &error));
  assert_non_null(error);
  const Diagnostic *d = error_diagnostics(error)->pdata[0];
  if (error->code != (int)code || d->line != line || !strstr(d->message, what))
    fail_msg("%u: '%s' instead of '%s' at line %u", d->line, d->message, what, line);
  g_error_free(error);
}

/* What ptxas refuses is wrong, what it takes and the simulator does not is unsupported. */
static const struct {
  const char *text;
  ErrorCode code;
  const char *what;
} wrong_lines[] = {
    {"frobnicate.b32 %r0, %r1;", ERROR_INPUT, "PTX has no instruction 'frobnicate'"},
    {"add.fancy.u32 %r0, %r1, 1;", ERROR_INPUT, "PTX has no modifier '.fancy'"},
    {"ld.global.nc.L1::frob.u32 %r1, [%rd1];", ERROR_INPUT, "PTX has no modifier '.L1::frob'"},
    {"add.u64 %r0, %r1, 1;", ERROR_INPUT, "has 32 bits, not 64"},
    {"add.u32 %r0, %r1;", ERROR_INPUT, "takes 3 to 3 operands, not 2"},
    {"add %r0, %r1, 1;", ERROR_INPUT, "PTX has no instruction `add`"},
    {"sub.rn.f16x2 %r0, %r1, 5;", ERROR_INPUT, "`sub.rn.f16x2` takes registers, no constants"},
    {"fma.rn.bf16x2 %r0, %r1, 0xBF80BF80, %r1;", ERROR_INPUT,
     "`fma.rn.bf16x2` takes registers, no constants"},
    {"mul.u32 %r0, %r1, 1;", ERROR_INPUT, "PTX has no instruction `mul.u32`"},
    {"and.u32 %r0, %r1, 1;", ERROR_INPUT, "PTX has no instruction `and.u32`"},
    {"cvt.f32.u32 %r0, %r1;", ERROR_INPUT, "PTX has no instruction `cvt.f32.u32`"},
    {"fma.f32 %r0, %r1, %r1, %r1;", ERROR_INPUT, "PTX has no instruction `fma.f32`"},
    {"bra 5;", ERROR_INPUT, "a label is needed"},
    {"mov.u32 5, %r1;", ERROR_INPUT, "a register is needed as destination"},
    {"ld.global.u32 %r1, %rd1;", ERROR_INPUT, "an address in brackets is needed"},
    {"setp.lt.u32 %r1, %r0, 1;", ERROR_INPUT, "is not a predicate"},
    {"ld.global.v4.u32 {%r0,%r1}, [%rd1];", ERROR_INPUT, "2 registers for .v4"},
    {"st.global.u64 [%rd1], %r1;", ERROR_INPUT, "narrower than 64 bits"},
    {"cp.async.ca.shared.global [%r1], [%rd1], 3;", ERROR_INPUT, "a size of 3 bytes"},
    {"mbarrier.frob.b64 [%rd1];", ERROR_INPUT, "PTX has no modifier '.frob'"},
    {"ld.shared.u32 %r1, [g];", ERROR_INPUT, "'g' is in another state space"},
    {"ld.global.u32 %r1, [s];", ERROR_INPUT, "'s' is in another state space"},
    {"ld.u32 %r1, [c];", ERROR_INPUT, "'c' is in another state space"},
    {".reg .v4 .f32 %v;", ERROR_UNSUPPORTED, "vector registers are not supported"},
    {"suld.b.1d.b32.trap {%r1}, [%rd1, {%r0}];", ERROR_UNSUPPORTED, "unknown instruction"},
    {"tex.1d.v4.u32.s32 {%r0,%r0,%r0,%r0}, [%rd1, {%r1}];", ERROR_UNSUPPORTED, "unknown instruction"},
};

static void bad_input(void **state)
{
  for (unsigned i = 0; i < G_N_ELEMENTS(wrong_lines); i++) {
    g_autofree char *text = g_strdup_printf(
        ".global .u32 g;\n.visible .entry k(.param .u64 c)\n{\n  .reg .b32 %%r<2>; .reg .pred "
        "%%p<2>; .reg .b64 %%rd<2>; .shared .u32 s;\n  %s\n}\n",
        wrong_lines[i].text);
    refused(text, wrong_lines[i].code, 8, wrong_lines[i].what);
  }
  refused(".visible .entry k()\n{\n  mov.u32 %r0, 1;\n}\n", ERROR_INPUT, 6, "%r0");
  refused(".visible .entry k()\n{\n  bra NOWHERE;\n}\n", ERROR_INPUT, 6, "NOWHERE");
  refused(".visible .entry k()\n{\n  ret\n}\n", ERROR_INPUT, 7, "expected");
  refused(".visible .entry k()\n{\n  ret;\n", ERROR_INPUT, 7, "ends");
  refused(".global .texref t;\n", ERROR_UNSUPPORTED, 4, "textures");
  refused(".shared .align 3 .b8 x[4];\n", ERROR_INPUT, 4, "alignment");
  refused(".visible .entry k()\n{\n  .reg .b32 %r<99999999999>;\n}\n", ERROR_INPUT, 6, "absurd");
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(good_kernels),  cmocka_unit_test(planted_faults),
                                     cmocka_unit_test(planted_order), cmocka_unit_test(residency),
                                     cmocka_unit_test(bad_lists),     cmocka_unit_test(bad_input)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
