/* Peers in shared libraries: what is refused, that a product goes through the interface with its sizes,
 * steps, batches and addresses, and a graph with its text and addresses. The stand-in for the driver keeps device memory on the host, so the fake
 * peers multiply there. argv[1] is their folder. */
#include "include/adlgen/peer.h"
#include "measure/gpu_private.h"
#include "measure/plugin.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const char *folder;

static char *path_of(const char *name)
{
  return g_strdup_printf("%s/%s.so", folder, name);
}

static BenchPlugin *open_peer(const char *name)
{
  GError *error = NULL;
  g_autofree char *path = path_of(name);
  BenchPlugin *plugin = bench_plugin_open(path, &error);
  if (!plugin) fail_msg("%s", error->message);
  return plugin;
}

/* ---- opening ---- */

static void expect_refusal(const char *name, int code, const char *what)
{
  GError *error = NULL;
  g_autofree char *path = path_of(name), *wanted = g_strdup_printf("plugin %s: %s", path, what);
  assert_null(bench_plugin_open(path, &error));
  assert_string_equal(error->message, wanted);
  assert_int_equal(error->code, code);
  g_error_free(error);
}

static void refuses_what_is_no_peer(void **state)
{
  expect_refusal("peer_without_entry", ERROR_INPUT, "it has no adlgen_peer_get");
  expect_refusal("peer_of_later_version", ERROR_INPUT,
                 "it is made for version 99 of adlgen/peer.h; this program knows version 2");
  expect_refusal("peer_without_launch", ERROR_INPUT, "`launch` of its table is empty");
  expect_refusal("peer_with_blank", ERROR_INPUT, "its name is to be of letters, digits, '-' and '_'");
  expect_refusal("peer_of_nothing", ERROR_INPUT,
                 "it takes neither products nor graphs: `count` and `graph_count` are empty");
  g_autofree char *path = path_of("missing");
  g_autofree char *what =
      g_strdup_printf("%s: cannot open shared object file: No such file or directory", path);
  expect_refusal("missing", ERROR_MISSING_TOOL, what);
}

static void knows_itself(void **state)
{
  g_autoptr(BenchPlugin) plugin = open_peer("peer");
  assert_string_equal(bench_plugin_name(plugin), "fake");
  assert_string_equal(bench_plugin_library(plugin), "made for tests 1.0");
  assert_true(g_str_has_suffix(bench_plugin_path(plugin), "/peer.so"));
}

/* ---- products ---- */

typedef struct World {
  BenchGpu gpu; /* only its device and count of SMs are used here */
  BenchCase *c;
  BenchTensors *tensors;
  BenchPlugin *plugin;
} World;

/* Two sets of tensors; element i of the inputs is a small integer of i, so that f32 sums are exact. */
static void make_world_of(World *w, const char *peer, const char *text, const char *const *dims)
{
  GError *error = NULL;
  g_autoptr(Source) source = source_new("test", text, strlen(text));
  memset(w, 0, sizeof *w);
  w->plugin = open_peer(peer);
  w->gpu.sms = 5;
  w->gpu.device = device_open(0, &error);
  w->c = w->gpu.device ? bench_case_new(source, NULL, dims, NULL, &error) : NULL;
  if (!w->c) fail_msg("%s", error->message);
  unsigned n = w->c->graph->n_tensors;
  w->tensors = g_new0(BenchTensors, 1);
  *w->tensors = (BenchTensors){&w->gpu, w->c, 2, g_new0(uint64_t, 2 * (size_t)n)};
  for (unsigned i = 0; i < 2 * n; i++) {
    uint64_t bytes = bench_tensor_bytes(w->c->graph->tensors[i % n]);
    float *data = (float *)(w->tensors->addresses[i] = device_allocate(w->gpu.device, bytes, NULL));
    for (uint64_t j = 0; j < bytes / sizeof *data; j++)
      data[j] = (float)((j * 7 + i) % 11) - 5;
  }
}

static void make_world(World *w, const char *text, const char *const *dims)
{
  make_world_of(w, "peer", text, dims);
}

static void clear_world(World *w)
{
  bench_plugin_close(w->plugin);
  bench_tensors_free(w->tensors);
  bench_case_free(w->c);
  device_close(w->gpu.device);
}

static const float *data_of(const World *w, unsigned set, const GraphTensor *tensor)
{
  return (const float *)bench_tensor_address(w->tensors, set, tensor);
}

static void expect_product(const World *w, unsigned set)
{
  const BenchProduct *p = &w->c->product;
  const float *a = data_of(w, set, p->a), *b = data_of(w, set, p->b), *d = data_of(w, set, p->d);
  for (int64_t i = 0; i < p->batch; i++)
    for (int64_t r = 0; r < p->m; r++)
      for (int64_t c = 0; c < p->n; c++) {
        float sum = 0;
        for (int64_t k = 0; k < p->k; k++)
          sum += a[i * p->a_batch + r * p->a_step[0] + k * p->a_step[1]] *
                 b[i * p->b_batch + k * p->b_step[0] + c * p->b_step[1]];
        float out = d[i * p->d_batch + r * p->d_step[0] + c * p->d_step[1]];
        if (out != sum)
          fail_msg("set %u, product %d, row %d, column %d: %g instead of %g", set, (int)i, (int)r, (int)c,
                   (double)out, (double)sum);
      }
}

static void multiplies(const char *text, const char *const *dims)
{
  World w;
  GError *error = NULL;
  make_world(&w, text, dims);
  assert_int_equal(bench_plugin_count(w.plugin, &w.gpu, w.c, &error), 3);
  g_autoptr(BenchCandidate) candidate = bench_plugin_candidate(w.plugin, 0, w.tensors, &error);
  if (!candidate) fail_msg("%s", error->message);
  assert_string_equal(candidate->name, "fake:right");
  assert_string_equal(json_string_value(json_object_get(candidate->facts, "library")), "made for tests 1.0");
  for (unsigned set = 0; set < 2; set++) {
    assert_true(candidate->queue(candidate, set, &error));
    expect_product(&w, set);
  }
  bench_candidate_free(g_steal_pointer(&candidate));
  clear_world(&w);
}

static void passes_strides(void **state)
{
  static const char *const dims[] = {"M=5", "N=7", "K=11", NULL};
  multiplies(
      "{name: p, inputs: {A: {type: f32, shape: [M, K], strides: [16, 1]}, B: {type: f32, shape: [K, N], "
      "strides: [1, 13]}}, nodes: [{op: MatMul, inputs: [A, B], outputs: [D]}], outputs: [D]}",
      dims);
}

static void passes_batches(void **state)
{
  static const char *const dims[] = {"M=3", NULL};
  multiplies("{name: b, inputs: {A: {type: f32, shape: [2, 3, M, 4]}, B: {type: f32, shape: [2, 3, 4, 5]}}, "
             "nodes: [{op: MatMul, inputs: [A, B], outputs: [D]}], outputs: [D]}",
             dims);
}

static void tells_failures(void **state)
{
  static const char *const dims[] = {"M=2", "N=2", "K=2", NULL};
  static const char f32[] =
      "{name: p, inputs: {A: {type: f32, shape: [M, K]}, B: {type: f32, shape: [K, N]}}, "
      "nodes: [{op: MatMul, inputs: [A, B], outputs: [D]}], outputs: [D]}";
  World w;
  GError *error = NULL;
  make_world(&w, f32, dims);
  assert_null(bench_plugin_candidate(w.plugin, 1, w.tensors, &error));
  assert_string_equal(error->message, "fake: unprepared: no room for 5 SMs");
  g_clear_error(&error);
  BenchCandidate *candidate = bench_plugin_candidate(w.plugin, 2, w.tensors, &error);
  assert_non_null(candidate);
  assert_false(candidate->queue(candidate, 0, &error));
  assert_string_equal(error->message, "fake:unlaunched: status 7: out of order");
  g_clear_error(&error);
  bench_candidate_free(candidate);
  clear_world(&w);
}

static void expect_none(const char *peer, const char *text, const char *const *dims, const char *message)
{
  World w;
  GError *error = NULL;
  make_world_of(&w, peer, text, dims);
  assert_int_equal(bench_plugin_count(w.plugin, &w.gpu, w.c, &error), 0);
  assert_string_equal(error->message, message);
  g_error_free(error);
  clear_world(&w);
}

static void tells_what_it_has_not(void **state)
{
  static const char *const dims[] = {"M=2", NULL};
  g_autofree char *message = g_strdup_printf("fake: only f32, not type %d", ADLGEN_PEER_BF16);
  expect_none("peer",
              "{name: p, inputs: {A: {type: bf16, shape: [M, 4]}, B: {type: bf16, shape: [4, 4]}}, nodes: "
              "[{op: MatMul, inputs: [A, B], outputs: [D]}], outputs: [D]}",
              dims, message);
  expect_none("peer_of_products",
              "{name: r, inputs: {A: {type: f32, shape: [M, 4]}}, nodes: [{op: Relu, inputs: [A], outputs: "
              "[D]}], outputs: [D]}",
              dims, "fake: r M=2 is not one matrix product");
  expect_none("peer",
              "{name: r, inputs: {A: {type: bf16, shape: [M, 4]}}, nodes: [{op: Transpose, inputs: [A], "
              "outputs: [D], attributes: {perm: [1, 0]}}], outputs: [D]}",
              dims,
              "fake: r M=2: only Relu, not {\"name\":\"r\",\"tensors\":{\"A\":{\"type\":\"bf16\",\"kind\":"
              "\"input\",\"output\":false,\"shape\":[2,4],\"strides\":[4,1]},\"D\":{\"type\":\"bf16\","
              "\"kind\":\"computed\",\"output\":true,\"shape\":[4,2],\"strides\":[2,1]}},\"nodes\":[{\"op\":"
              "\"Transpose\",\"domain\":\"\",\"since\":7,\"inputs\":[\"A\"],\"outputs\":[\"D\"],"
              "\"attributes\":{\"perm\":[1,0]}}],\"outputs\":[\"D\"]}");
}

/* ---- graphs ---- */

static void takes_graphs(void **state)
{
  static const char *const dims[] = {"M=40", NULL};
  World w;
  GError *error = NULL;
  make_world(
      &w,
      "{name: r, inputs: {A: {type: f32, shape: [M]}}, nodes: [{op: Relu, inputs: [A], outputs: [D]}], "
      "outputs: [D]}",
      dims);
  assert_int_equal(bench_plugin_count(w.plugin, &w.gpu, w.c, &error), 1);
  g_autoptr(BenchCandidate) candidate = bench_plugin_candidate(w.plugin, 0, w.tensors, &error);
  if (!candidate) fail_msg("%s", error->message);
  assert_string_equal(candidate->name, "fake:relu");
  for (unsigned set = 0; set < 2; set++) {
    const float *x = data_of(&w, set, w.c->graph->inputs[0]), *y = data_of(&w, set, w.c->graph->outputs[0]);
    float before = y[7];
    assert_true(candidate->queue(candidate, set, &error));
    assert_true(before == y[7]);
    assert_true(candidate->deliver(candidate, set, &error));
    for (unsigned i = 0; i < 40; i++)
      assert_true(y[i] == (x[i] > 0 ? x[i] : 0));
  }
  bench_candidate_free(g_steal_pointer(&candidate));
  clear_world(&w);
}

int main(int n, char **arguments)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(refuses_what_is_no_peer),
      cmocka_unit_test(knows_itself),
      cmocka_unit_test(passes_strides),
      cmocka_unit_test(passes_batches),
      cmocka_unit_test(tells_failures),
      cmocka_unit_test(tells_what_it_has_not),
      cmocka_unit_test(takes_graphs),
  };
  folder = n > 1 ? arguments[1] : ".";
  return cmocka_run_group_tests(tests, NULL, NULL);
}
