/* Rows and columns cut out of a case's tensors for its check, on the stand-in for the driver, whose device
 * memory is host memory. Every element holds the number of its place. */
#include "execute/data.h"
#include "measure/check.h"
#include "measure/gpu_private.h"
#include <math.h>
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

static const Cut *cut_of(const World *w, const Sample *sample, const char *name, unsigned d)
{
  return sample_cut(sample, graph_tensor(w->c->graph, name), d);
}

/* Every element of what was cut out of a tensor is the one at its places. */
static void check_places(const World *w, const Sample *sample, const char *name)
{
  const GraphTensor *whole = graph_tensor(w->c->graph, name);
  g_autoptr(Tensor) out = sample_read(sample, &w->tensors, whole->index, NULL);
  assert_non_null(out);
  for (unsigned d = 0; d < whole->rank; d++) {
    const Cut *cut = sample_cut(sample, whole, d);
    assert_int_equal(out->shape[d], cut ? cut->n : number(whole->shape[d]));
  }
  for (int64_t i = 0; i < (int64_t)out->n; i++) {
    int64_t rest = i, at = 0;
    for (unsigned d = whole->rank; d-- > 0; rest /= out->shape[d]) {
      int64_t place = rest % out->shape[d];
      const Cut *cut = sample_cut(sample, whole, d);
      at += (cut ? cut->places[place] : place) * number(whole->strides[d]);
    }
    int32_t value;
    memcpy(&value, out->data + i * 4, 4);
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
  assert_true(sample_make(&sample, w.c, &(SampleSize){7, 5, 9, 0}, NULL));
  assert_int_equal(sample.n_cuts, 2);
  const Cut *rows = cut_of(&w, &sample, "A", 0);
  assert_true(rows && rows->n == 5 && rows->places[0] == 0 && rows->places[4] == 99);
  for (unsigned i = 1; i < rows->n; i++)
    assert_true(rows->places[i] > rows->places[i - 1]);
  check_places(&w, &sample, "A");
  check_places(&w, &sample, "B");
  check_places(&w, &sample, "C");
  check_places(&w, &sample, "D");
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
  assert_true(sample_make(&sample, w.c, &(SampleSize){2, 4, 3, 0}, NULL));
  assert_int_equal(sample.n_cuts, 3);
  assert_null(cut_of(&w, &sample, "B", 1));
  for (unsigned t = 0; t < 3; t++)
    check_places(&w, &sample, names[t]);
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
  assert_true(sample_make(&sample, w.c, &(SampleSize){4, 6, 9, 0}, NULL));
  assert_int_equal(sample.n_cuts, 1); /* C is summed over */
  check_places(&w, &sample, "X");
  sample_clear(&sample);
  clear_world(&w);
}

static void keeps_what_cannot_be_cut(void **state)
{
  static const char square[] =
      "{name: q, inputs: {A: {type: f32, shape: [S, S]}}, nodes: [{op: Transpose, inputs: [A], outputs: "
      "[B]}, {op: MatMul, inputs: [A, B], outputs: [D]}, {op: Softmax, inputs: [D], outputs: [E]}, {op: "
      "Softmax, "
      "inputs: [E], outputs: [F], attributes: {axis: 0}}], outputs: [F]}";
  static const char few[] =
      "{name: f, inputs: {X: {type: f32, shape: [R, C]}}, nodes: [{op: Relu, inputs: [X], outputs: [Y]}], "
      "outputs: [Y]}";
  static const char *const s[] = {"S=64", NULL}, *const small[] = {"R=3", "C=4", NULL};
  World w;
  Sample sample;
  make_world(&w, square, s);
  assert_true(sample_make(&sample, w.c, &(SampleSize){4, 6, 9, 0}, NULL));
  assert_int_equal(sample.n_cuts, 0);
  sample_clear(&sample);
  clear_world(&w);
  make_world(&w, few, small);
  assert_true(sample_make(&sample, w.c, &(SampleSize){4, 6, 9, 0}, NULL));
  assert_int_equal(sample.n_cuts, 0);
  check_places(&w, &sample, "X");
  sample_clear(&sample);
  clear_world(&w);
}

/* ---- the sample's graph ---- */

/* Inputs of the whole case, as they lie in device memory, become the default ones. */
static Tensor **fill_inputs(World *w)
{
  const Graph *graph = w->c->graph;
  Tensor **inputs = g_new0(Tensor *, graph->n_inputs + 1);
  for (unsigned i = 0; i < graph->n_inputs; i++) {
    inputs[i] = evaluate_default_input(graph, i, 1, 5, NULL);
    assert_true(device_write(w->gpu.device, w->tensors.addresses[graph->inputs[i]->index], inputs[i]->data,
                             inputs[i]->bytes, NULL));
  }
  return inputs;
}

static void compare_output(const Sample *sample, const GraphTensor *tensor, const Value *whole,
                           const Value *cut)
{
  for (size_t i = 0; i < cut->n; i++) {
    size_t rest = i, at = 0, stride = 1;
    for (unsigned d = cut->rank; d-- > 0; rest /= (size_t)cut->shape[d]) {
      const Cut *places = sample_cut(sample, tensor, d);
      int64_t place = (int64_t)(rest % (size_t)cut->shape[d]);
      at += (size_t)(places ? places->places[place] : place) * stride;
      stride *= (size_t)whole->shape[d];
    }
    if (!whole->floats)
      assert_int_equal(whole->integers[at], cut->integers[i]);
    else if (isnan(whole->floats[at]))
      assert_true(isnan(cut->floats[i]));
    else
      assert_float_equal(whole->floats[at], cut->floats[i], 1e-12);
  }
}

/* What the reference makes of the sample is what it makes of the whole. */
static void check_agreement(const char *text, const char *const *dims, unsigned n_cuts)
{
  World w;
  make_world(&w, text, dims);
  const Graph *graph = w.c->graph;
  Tensor **inputs = fill_inputs(&w);
  g_autoptr(GPtrArray) whole = evaluate_graph(graph, inputs, NULL);
  SampleSize size = {5, 8, 2, 0};
  for (unsigned n = 1; size.block < n; size.block++) {
    Sample sample;
    GError *error = NULL;
    assert_true(sample_make(&sample, w.c, &size, NULL));
    n = sample.n_blocks;
    assert_int_equal(sample.n_cuts, n_cuts);
    Tensor *few[8];
    for (unsigned i = 0; i < graph->n_inputs; i++)
      few[i] = sample_read(&sample, &w.tensors, graph->inputs[i]->index, NULL);
    g_autoptr(GPtrArray) cut = evaluate_graph(sample.graph, few, &error);
    if (!cut) fail_msg("%s", error->message);
    for (unsigned i = 0; i < graph->n_outputs; i++)
      compare_output(&sample, graph->outputs[i], whole->pdata[i], cut->pdata[i]);
    for (unsigned i = 0; i < graph->n_inputs; i++)
      tensor_free(few[i]);
    sample_clear(&sample);
  }
  for (unsigned i = 0; i < graph->n_inputs; i++)
    tensor_free(inputs[i]);
  g_free(inputs);
  clear_world(&w);
}

#define ATTENTION(shapes, inputs, outputs, attributes)                                                       \
  "{name: a, opset: 25, inputs: {" shapes "}, nodes: [{op: Attention, inputs: [" inputs                      \
  "], outputs: [" outputs "], attributes: {" attributes "}}], outputs: [" outputs "]}"

/* Rows of a causal mask follow one another; keys are not cut. */
static void cuts_rows_of_attention(void **state)
{
  static const char *const dims[] = {"S=37", NULL}, *const two[] = {"M=21", "N=30", NULL};
  check_agreement(ATTENTION("q: {type: f32, shape: [3, 4, S, 8]}, k: {type: f32, shape: [3, 4, S, 8]}, v: "
                            "{type: f32, shape: [3, 4, S, 7]}",
                            "q, k, v", "y", "is_causal: 1"),
                  dims, 4);
  check_agreement(ATTENTION("q: {type: f32, shape: [3, S, 32]}, k: {type: f32, shape: [3, S, 16]}, v: "
                            "{type: f32, shape: [3, S, 16]}, m: {type: bool, shape: [S, S]}",
                            "q, k, v, m", "y",
                            "q_num_heads: 4, kv_num_heads: 2, left_window_size: 9, right_window_size: 2"),
                  dims, 2);
  check_agreement(ATTENTION("q: {type: f32, shape: [2, 4, M, 8]}, k: {type: f32, shape: [2, 4, N, 8]}, v: "
                            "{type: f32, shape: [2, 4, N, 8]}, l: {type: s64, shape: [2]}",
                            "q, k, v, '', '', '', l", "y", "is_causal: 1"),
                  two, 3);
  check_agreement(
      ATTENTION("q: {type: f32, shape: [1, 4, M, 8]}, k: {type: f32, shape: [1, 2, N, 8]}, v: {type: f32, "
                "shape: [1, 2, N, 8]}, m: {type: f32, shape: [1, 4, M, N]}",
                "q, k, v, m", "y", "softcap: 3.0"),
      two, 2);
}

/* Scales of blocks, that divide what they scale or do not; the index of what is cut is that of its places. */
static void cuts_blocks_of_scales(void **state)
{
  static const char text[] =
      "{name: s, opset: 25, inputs: {A: {type: e4m3, shape: [M, K]}, R: {type: f32, shape: [M, 'ceil_div(K, "
      "16)']}, B: "
      "{type: e4m3, shape: [N, K]}, S: {type: f32, shape: ['ceil_div(N, 16)', 'ceil_div(K, 16)']}}, nodes: ["
      "{op: DequantizeLinear, inputs: [A, R], outputs: [a], attributes: {axis: 1, block_size: 16}}, "
      "{op: DequantizeLinear, inputs: [B, S], outputs: [b], attributes: {block_shape: [16, 16]}}, "
      "{op: Gemm, inputs: [a, b], outputs: [D], attributes: {transB: 1}}], outputs: [D]}";
  static const char quantise[] = "{name: q, opset: 25, inputs: {X: {type: f32, shape: [M, K]}, R: {type: "
                                 "f32, shape: [M, K / 16]}}, nodes: [{op: "
                                 "QuantizeLinear, inputs: [X, R], outputs: [Y], attributes: {axis: 1, "
                                 "block_size: 16, output_dtype: e4m3}}], "
                                 "outputs: [Y]}";
  static const char *const whole[] = {"M=37", "N=48", "K=64", NULL},
                           *const part[] = {"M=37", "N=41", "K=50", NULL},
                           *const rows[] = {"M=37", "K=64", NULL},
                           *const wide[] = {"M=9", "N=1100", "K=16", NULL}; /* indices that are computed */
  check_agreement(text, whole, 2);
  check_agreement(text, part, 2);
  check_agreement(text, wide, 2);
  check_agreement(quantise, rows, 1);
}

static void cuts_images(void **state)
{
  static const char text[] = "{name: r, opset: 19, inputs: {X: {type: f32, shape: [A, B, 5, 7]}}, constants: "
                             "{s: {type: f32, shape: [4], data: [1, "
                             "1, 2, 1.5]}}, nodes: [{op: Resize, inputs: [X, '', s], outputs: [Y], "
                             "attributes: {mode: linear}}], outputs: [Y]}";
  static const char *const dims[] = {"A=9", "B=11", NULL};
  check_agreement(text, dims, 2);
}

/* Rows keep their groups, and nobody's rows stay nobody's. */
static void cuts_rows_of_groups(void **state)
{
#define GROUPED(shapes, attributes)                                                                          \
  "{name: g, inputs: {" shapes                                                                               \
  "}, nodes: [{op: GroupedMatMul, domain: adlgen, inputs: [A, B, E], outputs: [D], "                         \
  "attributes: {" attributes "}}], outputs: [D]}"
  static const char *const dims[] = {"G=3", "M=390", "N=20", "K=6", NULL};
  check_agreement(
      GROUPED("A: {type: f16, shape: [M, K]}, B: {type: f16, shape: [G, K, N]}, E: {type: s32, shape: [G]}",
              "groups: ends, align: 8"),
      dims, 2);
  check_agreement(
      GROUPED("A: {type: f16, shape: [M, K]}, B: {type: f16, shape: [G, N, K]}, E: {type: s32, shape: [M]}",
              "groups: index, align: 64, transB: 1"),
      dims, 2);
  check_agreement(
      GROUPED(
          "A: {type: f16, shape: [G, M, K]}, B: {type: f16, shape: [G, K, N]}, E: {type: s32, shape: [G]}",
          "groups: counts"),
      dims, 2);
}

/* Experts of tokens, of the best groups of experts: rows stay whole. */
static void cuts_tokens(void **state)
{
  static const char text[] = "{name: r, inputs: {l: {type: f32, shape: [T, 32]}, b: {type: f32, shape: "
                             "[32]}}, nodes: [{op: Route, domain: adlgen, inputs: [l, b], outputs: [e, "
                             "w], attributes: {k: 4, scoring: sigmoid, n_group: 8, topk_group: 3, "
                             "group_score: top2, normalize: 1}}], outputs: [e, w]}";
  static const char *const dims[] = {"T=37", NULL};
  check_agreement(text, dims, 1);
}

#define ROWS    256
#define COLUMNS 4

/* Of each row the second of the sums is the larger, of the first row by so little: is it right to choose that of it? */
static bool admits(const Graph *graph, float more, int64_t chosen)
{
  GError *error = NULL;
  const int64_t shape[] = {ROWS, COLUMNS};
  g_autoptr(Tensor) x = tensor_new("x", NUMBER_F32, 2, shape, NULL);
  g_autoptr(Tensor) y = tensor_new("y", NUMBER_F32, 2, shape, NULL);
  g_autoptr(Tensor) out = tensor_new("i", NUMBER_S64, 1, shape, NULL);
  for (unsigned i = 0; i < ROWS; i++) {
    float *of = (float *)x->data + i * COLUMNS;
    of[0] = of[1] = 1;
    ((float *)y->data)[i * COLUMNS + 1] = i ? 1 : more;
    ((int64_t *)out->data)[i] = i ? 1 : chosen;
  }
  Comparison c = {0};
  if (!run_compare(graph, (Tensor *[]){x, y}, (Tensor *[]){out}, false, &c, &error))
    fail_msg("%s", error->message);
  return c.ok;
}

/* Which of two sums is the larger is told where their difference is no rounding of either. */
static void admits_what_roundings_decide(void **state)
{
  static const char text[] = "{name: t, opset: 20, inputs: {x: {type: f32, shape: [256, 4]}, y: {type: f32, "
                             "shape: [256, 4]}}, nodes: [{op: Add, inputs: [x, y], "
                             "outputs: [s]}, {op: ArgMax, inputs: [s], outputs: [i], attributes: {axis: 1, "
                             "keepdims: 0}}], outputs: [i]}";
  World w;
  make_world(&w, text, (const char *const[]){NULL});
  assert_true(admits(w.c->graph, 1e-9f, 0)); /* equal in f32, of which the first counts */
  assert_true(admits(w.c->graph, 1e-9f, 1));
  assert_true(admits(w.c->graph, 1e-3f, 1));
  assert_false(admits(w.c->graph, 1e-3f, 0));
  assert_false(admits(w.c->graph, 1e-9f, 3)); /* the row has no such */
  clear_world(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(cuts_products),
      cmocka_unit_test(cuts_batches),
      cmocka_unit_test(cuts_rows_alone),
      cmocka_unit_test(keeps_what_cannot_be_cut),
      cmocka_unit_test(cuts_rows_of_attention),
      cmocka_unit_test(cuts_blocks_of_scales),
      cmocka_unit_test(cuts_images),
      cmocka_unit_test(cuts_rows_of_groups),
      cmocka_unit_test(cuts_tokens),
      cmocka_unit_test(admits_what_roundings_decide),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
