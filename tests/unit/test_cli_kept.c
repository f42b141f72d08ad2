/* Compiled graphs in the cache: what finds them, what does not any more. */
#include "execute/build.h"
#include "execute/keep_result.h"
#include "execute/program_key.h"
#include <glib/gstdio.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char *folder; /* new for each test */

static int set_up(void **state)
{
  folder = g_dir_make_tmp("adlgen-kept-XXXXXX", NULL);
  return folder ? 0 : -1;
}

static int tear_down(void **state)
{
  g_autofree char *command = g_strdup_printf("rm -r %s", folder);
  g_spawn_command_line_sync(command, NULL, NULL, NULL, NULL);
  g_free(folder);
  return 0;
}

typedef char Key[CACHE_KEY_LENGTH + 1];

static void find_key(const char *name, const void *text, size_t length, const Gpu *gpu,
                     const CompileOptions *options, const char *const *dims, Key key)
{
  g_autoptr(Source) source = source_new(name, text, length);
  const ProgramInput input = {source, gpu, options, dims, NULL, true};
  assert_true(program_key("test", &input, key));
}

static void test_key(void **state)
{
  g_autoptr(Gpu) h100 = gpu_load("h100", NULL), a100 = gpu_load("a100", NULL);
  const CompileOptions plain = {.threads = 1}, fast = {.fast_math = true};
  static const char *const dims[] = {"N=4", NULL};
  static const char first[] = "\010\011\000a", other[] = "\010\011\000b"; /* models have zeros in them */
  Key key, again, unlike[5];
  find_key("m.onnx", first, sizeof first, h100, &plain, NULL, key);
  find_key("m.onnx", first, sizeof first, h100, &plain, NULL, again);
  assert_string_equal(key, again);
  find_key("m.onnx", other, sizeof other, h100, &plain, NULL, unlike[0]);
  find_key("a/m.onnx", first, sizeof first, h100, &plain, NULL, unlike[1]);
  find_key("m.onnx", first, sizeof first, a100, &plain, NULL, unlike[2]);
  find_key("m.onnx", first, sizeof first, h100, &fast, NULL, unlike[3]);
  find_key("m.onnx", first, sizeof first, h100, &plain, dims, unlike[4]);
  for (unsigned i = 0; i < G_N_ELEMENTS(unlike); i++)
    assert_string_not_equal(key, unlike[i]);
  static const char *const skip[] = {"hoist_loads", NULL};
  const CompileOptions skips = {.skip = skip};
  g_autoptr(Source) source = source_new("m.onnx", first, sizeof first);
  const ProgramInput input = {source, h100, &skips, NULL, NULL, true};
  assert_false(program_key("test", &input, key));
}

static void check_kernel(const CompiledKernel *a, const CompiledKernel *b)
{
  assert_string_equal(a->name, b->name);
  assert_string_equal(a->entry, b->entry);
  assert_string_equal(a->text, b->text);
  assert_string_equal(a->ir, b->ir);
  assert_ptr_equal(a->backend, b->backend);
  assert_int_equal(g_strcmp0(a->template_name, b->template_name), 0);
  assert_int_equal(g_strcmp0(a->tile_text, b->tile_text), 0);
  assert_int_equal(g_strcmp0(a->mechanism, b->mechanism), 0);
  assert_int_equal(g_strcmp0(a->roles, b->roles), 0);
  assert_int_equal(a->stages, b->stages);
  assert_int_equal(a->threads, b->threads);
  assert_int_equal(a->cluster, b->cluster);
  assert_int_equal(a->shared_bytes, b->shared_bytes);
  assert_int_equal(a->predicted_registers, b->predicted_registers);
  assert_int_equal(a->waits, b->waits);
  assert_int_equal(a->together, b->together);
}

static void test_result(void **state)
{
  g_autofree char *text =
      g_strdup_printf("{name: scaled, inputs: {x: {type: f32, shape: [M, 64]}}, constants: {s: {type: f32, "
                      "shape: [64], file: s.safetensors}}, nodes: [{op: Mul, inputs: [x, s], outputs: [y]}, "
                      "{op: Softmax, inputs: [y], outputs: [z]}], outputs: [z]}");
  g_autofree char *name = g_build_filename(folder, "graph.yaml", NULL);
  g_autofree char *file = g_build_filename(folder, "s.safetensors", NULL);
  assert_true(g_file_set_contents(file, "one", -1, NULL));
  g_autoptr(Source) source = source_new(name, text, strlen(text));
  g_autoptr(Gpu) gpu = gpu_load("h100", NULL);
  Graph *graph = build_graph(source, NULL, NULL);
  assert_non_null(graph);
  json_t *files = program_files(graph);
  assert_int_equal(json_array_size(files), 1);
  const CompileOptions options = {.threads = 1};
  g_autoptr(CompileResult) made = generator_compile(graph, gpu, &options, NULL);
  assert_non_null(made);
  g_autoptr(Cache) cache = cache_open(folder, 0);
  Key key;
  cache_key(key, "test", "result", NULL);
  assert_null(result_recall(cache, key));
  result_keep(cache, key, made, files);
  g_autoptr(CompileResult) kept = result_recall(cache, key);
  assert_non_null(kept);
  g_autofree char *plan = plan_text(made->plan), *again = plan_text(kept->plan);
  assert_string_equal(plan, again);
  assert_string_equal(made->explain, kept->explain);
  assert_int_equal(made->kernels->len, kept->kernels->len);
  for (guint i = 0; i < made->kernels->len; i++)
    check_kernel(made->kernels->pdata[i], kept->kernels->pdata[i]);

  /* A file that has changed, one that is gone. */
  assert_true(g_file_set_contents(file, "two", -1, NULL));
  assert_null(result_recall(cache, key));
  g_unlink(file);
  assert_null(result_recall(cache, key));
  assert_null(program_files(graph));
  json_decref(files);
  graph_free(graph);
}

/* An entry that says more than it holds, as one of another program might, is none. */
static void test_damage(void **state)
{
  static const char *const entries[] = {
      "",
      "\n",
      "[]\n",
      "{}\n",
      "{\"plan\": 5, \"explain\": -1, \"kernels\": [], \"files\": []}\n{}",
      "{\"plan\": 2, \"explain\": 9223372036854775807, \"kernels\": [], \"files\": []}\n{}",
      "{\"plan\": -1, \"explain\": -1, \"kernels\": [], \"files\": []}\n",
      "{\"plan\": 2, \"explain\": -1, \"kernels\": [[1]], \"files\": []}\n{}",
      "{\"plan\": 2, \"explain\": -1, \"kernels\": [], \"files\": [[\"/none\"]]}\n{}"};
  g_autoptr(Cache) cache = cache_open(folder, 0);
  Key key;
  cache_key(key, "test", "damage", NULL);
  for (unsigned i = 0; i < G_N_ELEMENTS(entries); i++) {
    g_autoptr(GBytes) content = g_bytes_new_static(entries[i], strlen(entries[i]));
    cache_put(cache, key, content);
    assert_null(result_recall(cache, key));
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_key),
                                     cmocka_unit_test_setup_teardown(test_result, set_up, tear_down),
                                     cmocka_unit_test_setup_teardown(test_damage, set_up, tear_down)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
