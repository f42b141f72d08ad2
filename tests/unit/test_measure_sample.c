/* Rows and columns cut out of a case's tensors for its check, on the stand-in for the driver, whose device
 * memory is host memory. Every element holds the number of its place. */
#include "measure/check.h"
#include "measure/gpu_private.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

typedef struct World {
  BenchGpu gpu; /* only its device is used here */
  BenchCase *c;
  BenchTensors tensors;
} World;

static int64_t number(const Symbolic *expression)
{
  int64_t value = 0;
  assert_true(symbolic_is_constant(expression, &value));
  return value;
}

/* Tensors of s32, element i of memory is i. */
static void make_world(World *w, const char *text, const char *const *dims)
{
  GError *error = NULL;
  g_autoptr(Source) source = source_new("test", text, strlen(text));
  memset(w, 0, sizeof *w);
  w->gpu.device = device_open(0, &error);
  w->c = w->gpu.device ? bench_case_new(source, NULL, dims, NULL, &error) : NULL;
  if (!w->c) fail_msg("%s", error->message);
  unsigned n = w->c->graph->n_tensors;
  w->tensors = (BenchTensors){&w->gpu, w->c, 1, g_new0(uint64_t, n)};
  for (unsigned i = 0; i < n; i++) {
    uint64_t bytes = bench_tensor_bytes(w->c->graph->tensors[i]);
    g_autofree int32_t *data = g_malloc(bytes);
    for (uint64_t j = 0; j < bytes / 4; j++)
      data[j] = (int32_t)j;
    w->tensors.addresses[i] = device_allocate(w->gpu.device, bytes, NULL);
    assert_true(device_write(w->gpu.device, w->tensors.addresses[i], data, bytes, NULL));
  }
}

static void clear_world(World *w)
{
  for (unsigned i = 0; i < w->c->graph->n_tensors; i++)
    device_release(w->gpu.device, w->tensors.addresses[i]);
  g_free(w->tensors.addresses);
  bench_case_free(w->c);
  device_close(w->gpu.device);
}

static const Cut *cut_of(const Sample *sample, const char *symbol)
{
  for (unsigned i = 0; i < sample->n_cuts; i++)
    if (!strcmp(sample->cuts[i].symbol, symbol)) return &sample->cuts[i];
  return NULL;
}

/* Element [row, column] of what was cut out of a matrix is the one at its places. */
static void check_matrix(const World *w, const Sample *sample, const char *name, const char *row,
                         const char *column)
{
  const GraphTensor *whole = graph_tensor(w->c->graph, name);
  g_autoptr(Tensor) out = sample_read(sample, &w->tensors, whole->index, NULL);
  const Cut *rows = cut_of(sample, row), *columns = cut_of(sample, column);
  int64_t n_rows = rows ? rows->n : number(whole->shape[0]),
          n_columns = columns ? columns->n : number(whole->shape[1]);
  assert_non_null(out);
  assert_true(out->shape[0] == n_rows && out->shape[1] == n_columns);
  for (int64_t i = 0; i < n_rows; i++)
    for (int64_t j = 0; j < n_columns; j++) {
      int64_t at = (rows ? rows->places[i] : i) * number(whole->strides[0]) +
                   (columns ? columns->places[j] : j) * number(whole->strides[1]);
      int32_t value;
      memcpy(&value, out->data + (i * n_columns + j) * 4, 4);
      assert_int_equal(value, at);
    }
}

static void cuts_products(void **state)
{
  static const char text[] =
      "{name: p, inputs: {A: {type: f32, shape: [M, K]}, B: {type: f32, shape: [K, N], strides: [1, "
      "K]}, C: {type: f32, shape: [K, N]}}, nodes: [{op: MatMul, inputs: [A, B], outputs: [D]}, {op: "
      "MatMul, inputs: [A, C], outputs: [E]}], outputs: [D, E]}";
  static const char *const dims[] = {"M=100", "N=70", "K=33", NULL};
  World w;
  Sample sample;
  make_world(&w, text, dims);
  assert_true(sample_make(&sample, w.c, 9, 5, 7, NULL));
  assert_int_equal(sample.n_cuts, 2);
  const Cut *rows = cut_of(&sample, "M");
  assert_true(rows && rows->n == 5 && rows->places[0] == 0 && rows->places[4] == 99);
  for (unsigned i = 1; i < rows->n; i++)
    assert_true(rows->places[i] > rows->places[i - 1]);
  check_matrix(&w, &sample, "A", "M", "K");
  check_matrix(&w, &sample, "B", "K", "N");
  check_matrix(&w, &sample, "C", "K", "N");
  check_matrix(&w, &sample, "D", "M", "N");
  sample_clear(&sample);
  clear_world(&w);
}

static void cuts_batches(void **state)
{
  static const char text[] = "{name: b, inputs: {A: {type: f32, shape: [G, M, K]}, B: {type: f32, shape: [G, "
                             "K, N], strides: [K*N, 1, "
                             "K]}}, nodes: [{op: MatMul, inputs: [A, B], outputs: [D]}], outputs: [D]}";
  static const char *const dims[] = {"G=10", "M=20", "N=9", "K=5", NULL};
  static const char *const names[] = {"A", "B", "D"};
  World w;
  Sample sample;
  make_world(&w, text, dims);
  assert_true(sample_make(&sample, w.c, 3, 4, 2, NULL));
  assert_int_equal(sample.n_cuts, 3);
  for (unsigned t = 0; t < 3; t++) {
    const GraphTensor *whole = graph_tensor(w.c->graph, names[t]);
    g_autoptr(Tensor) out = sample_read(&sample, &w.tensors, whole->index, NULL);
    const Cut *cuts[] = {cut_of(&sample, "G"), t == 1 ? NULL : cut_of(&sample, "M"),
                         t ? cut_of(&sample, "N") : NULL};
    assert_int_equal(out->shape[0], 3);
    assert_int_equal(out->shape[1], t == 1 ? 5 : 4);
    assert_int_equal(out->shape[2], t ? 2 : 5);
    for (int64_t i = 0; i < (int64_t)out->n; i++) {
      int64_t rest = i, at = 0;
      for (unsigned d = 3; d-- > 0; rest /= out->shape[d]) {
        int64_t place = rest % out->shape[d];
        at += (cuts[d] ? cuts[d]->places[place] : place) * number(whole->strides[d]);
      }
      int32_t value;
      memcpy(&value, out->data + i * 4, 4);
      assert_int_equal(value, at);
    }
  }
  sample_clear(&sample);
  clear_world(&w);
}

static void cuts_rows_alone(void **state)
{
  static const char text[] =
      "{name: s, inputs: {X: {type: f32, shape: [R, C]}}, nodes: [{op: Softmax, inputs: [X], outputs: "
      "[Y], attributes: {axis: -1}}], outputs: [Y]}";
  static const char *const dims[] = {"R=64", "C=48", NULL};
  World w;
  Sample sample;
  make_world(&w, text, dims);
  assert_true(sample_make(&sample, w.c, 9, 6, 4, NULL));
  assert_int_equal(sample.n_cuts, 1); /* C is summed over */
  check_matrix(&w, &sample, "X", "R", "C");
  sample_clear(&sample);
  clear_world(&w);
}

static void keeps_what_cannot_be_cut(void **state)
{
  static const char square[] =
      "{name: q, inputs: {A: {type: f32, shape: [S, S]}, B: {type: f32, shape: [S, S]}}, nodes: [{op: "
      "MatMul, inputs: [A, B], outputs: [D]}], outputs: [D]}";
  static const char few[] =
      "{name: f, inputs: {X: {type: f32, shape: [R, C]}}, nodes: [{op: Relu, inputs: [X], outputs: [Y]}], "
      "outputs: [Y]}";
  static const char *const s[] = {"S=64", NULL}, *const small[] = {"R=3", "C=4", NULL};
  World w;
  Sample sample;
  make_world(&w, square, s);
  assert_true(sample_make(&sample, w.c, 9, 6, 4, NULL));
  assert_int_equal(sample.n_cuts, 0);
  sample_clear(&sample);
  clear_world(&w);
  make_world(&w, few, small);
  assert_true(sample_make(&sample, w.c, 9, 6, 4, NULL));
  assert_int_equal(sample.n_cuts, 0);
  check_matrix(&w, &sample, "X", "R", "C");
  sample_clear(&sample);
  clear_world(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(cuts_products),
      cmocka_unit_test(cuts_batches),
      cmocka_unit_test(cuts_rows_alone),
      cmocka_unit_test(keeps_what_cannot_be_cut),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
