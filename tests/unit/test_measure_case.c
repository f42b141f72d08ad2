/* What bench takes for bytes, FLOP and products of a case, how it reads variants, and its figures. No GPU. */
#include "base/quantile.h"
#include "measure/session.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static BenchCase *make_case(const char *text, const char *const *dims, const char *const *constants)
{
  GError *error = NULL;
  g_autoptr(Source) source = source_new("test", text, strlen(text));
  BenchCase *c = bench_case_new(source, NULL, dims, constants, &error);
  if (!c) fail_msg("%s", error->message);
  return c;
}

static const char product[] =
    "{name: p, inputs: {A: {type: bf16, shape: [M, K]}, B: {type: bf16, shape: [K, N], "
    "strides: [1, K]}}, nodes: [{op: MatMul, inputs: [A, B], outputs: [D]}], outputs: [D]}";
static const char *const product_dims[] = {"M=5", "N=7", "K=11", NULL};

static void counts_bytes_and_flops(void **state)
{
  static const char *const constants[] = {"K", NULL};
  g_autoptr(BenchCase) c = make_case(product, product_dims, constants);
  assert_string_equal(c->name, "p M=5 N=7 K=11");
  assert_true(c->bytes == 2.0 * (5 * 11 + 11 * 7 + 5 * 7));
  assert_true(c->flops == 2.0 * 5 * 7 * 11);
  assert_int_equal(c->operand, NUMBER_BF16);
  assert_int_equal(c->n_constants, 1);
  assert_string_equal(c->constants[0].name, "K");
}

/* A table read at indices counts as so many of its rows as the draws meet: half of two rows meet with two draws three times
 * out of four; but not where all of it is read too. */
static void counts_what_gathers_touch(void **state)
{
  static const char *const dims[] = {"V=2", NULL};
#define TABLE                                                                                                \
  "inputs: {W: {type: f32, shape: [V, 8]}, I: {type: s32, shape: [2]}}, nodes: [{op: Gather, inputs: [W, "   \
  "I], "
  g_autoptr(BenchCase) c = make_case("{name: g, " TABLE "outputs: [Y]}], outputs: [Y]}", dims, NULL);
  assert_true(c->bytes == 4.0 * (16 * 0.75 + 2 + 16));
  assert_true(c->held == 4.0 * (16 + 2 + 16));
  g_autoptr(BenchCase) all =
      make_case("{name: g, " TABLE "outputs: [Y]}, {op: Relu, inputs: [W], outputs: [Z]}], outputs: [Y, Z]}",
                dims, NULL);
  assert_true(all->bytes == 4.0 * (16 + 2 + 16 + 16));
}

/* Of an attention's two products only what the mask lets be seen: three of four scores where two rows see one and two keys. */
static void counts_what_is_seen(void **state)
{
#define HEADS                                                                                                \
  "q: {type: bf16, shape: [1, 1, S, 8]}, k: {type: bf16, shape: [1, 1, S, 8]}, v: {type: bf16, shape: [1, "  \
  "1, S, 16]}"
  static const char *const dims[] = {"S=2", NULL};
  g_autoptr(BenchCase) c =
      make_case("{name: a, opset: 24, inputs: {" HEADS "}, nodes: [{op: Attention, inputs: [q, k, v], "
                "outputs: [y], attributes: {is_causal: 1}}], outputs: [y]}",
                dims, NULL);
  assert_true(c->flops == 2.0 * 3 * (8 + 16));
  g_autoptr(BenchCase) all =
      make_case("{name: a, opset: 24, inputs: {" HEADS "}, nodes: [{op: Attention, inputs: [q, k, v], "
                "outputs: [y]}], outputs: [y]}",
                dims, NULL);
  assert_true(all->flops == 2.0 * 4 * (8 + 16));
}

static void finds_products(void **state)
{
  g_autoptr(BenchCase) c = make_case(product, product_dims, NULL);
  assert_true(c->is_product);
  const BenchProduct *p = &c->product;
  assert_true(p->m == 5 && p->n == 7 && p->k == 11 && p->batch == 1);
  assert_true(p->a_step[0] == 11 && p->a_step[1] == 1 && p->b_step[0] == 1 && p->b_step[1] == 11);
  static const char batched[] =
      "{name: b, inputs: {A: {type: f16, shape: [3, 4, M, 16]}, B: {type: f16, shape: [3, 4, 16, "
      "8]}}, nodes: [{op: MatMul, inputs: [A, B], outputs: [D]}], outputs: [D]}";
  static const char *const dims[] = {"M=2", NULL};
  g_autoptr(BenchCase) b = make_case(batched, dims, NULL);
  assert_true(b->is_product && b->product.batch == 12 && b->product.a_batch == 32 &&
              b->product.d_batch == 16);
  assert_true(b->flops == 2.0 * 12 * 2 * 8 * 16);
  static const char relu[] =
      "{name: r, inputs: {A: {type: f32, shape: [R, 4]}}, nodes: [{op: Relu, inputs: [A], outputs: "
      "[D]}], outputs: [D]}";
  static const char *const rows[] = {"R=3", NULL};
  g_autoptr(BenchCase) r = make_case(relu, rows, NULL);
  assert_false(r->is_product);
  assert_true(r->flops == 0 && r->bytes == 96);
}

#define EPILOGUE(nodes, output)                                                                              \
  "{name: e, inputs: {A: {type: bf16, shape: [M, K]}, B: {type: bf16, shape: [K, N]}, R: {type: bf16, "      \
  "shape: [M, N]}, T: {type: bf16, shape: [M, N], strides: [1, M]}, bias: {type: bf16, shape: [N]}, "        \
  "column: {type: bf16, shape: [M, 1]}}, constants: {s: {type: bf16, shape: [], data: 0.5}}, nodes: [{op: "  \
  "MatMul, inputs: [A, B], outputs: [d]}, " nodes "], outputs: [" output "]}"
#define SCALED "{op: Mul, inputs: [d, s], outputs: [p]}"
#define ADDED  "{op: Add, inputs: [R, p], outputs: [q]}"
#define BIASED "{op: Add, inputs: [q, bias], outputs: [r]}"

static void finds_what_follows_a_product(void **state)
{
  g_autoptr(BenchCase) all = make_case(EPILOGUE(SCALED "," ADDED "," BIASED ","
                                                       "{op: Gelu, inputs: [r], outputs: [y], attributes: "
                                                       "{approximate: tanh}}",
                                                "y"),
                                       product_dims, NULL);
  const BenchProduct *p = &all->product;
  assert_true(all->is_product && p->fused && p->factor == 0.5 && p->activation == BENCH_GELU_TANH);
  assert_string_equal(p->added->name, "R");
  assert_string_equal(p->bias->name, "bias");
  assert_string_equal(p->d->name, "y");
  static const char *const others[] = {
      EPILOGUE("{op: Gelu, inputs: [d], outputs: [y]}", "y"), /* the exact one */
      EPILOGUE("{op: Tanh, inputs: [d], outputs: [y]}", "y"),
      EPILOGUE("{op: Add, inputs: [d, T], outputs: [y]}", "y"),
      EPILOGUE("{op: Add, inputs: [d, column], outputs: [y]}", "y"),
      EPILOGUE("{op: Mul, inputs: [d, bias], outputs: [y]}", "y"),
      EPILOGUE("{op: Relu, inputs: [d], outputs: [p]}, {op: Add, inputs: [p, R], outputs: [y]}", "y"),
      EPILOGUE("{op: Relu, inputs: [d], outputs: [y]}", "y, d")};
  for (unsigned i = 0; i < G_N_ELEMENTS(others); i++) {
    g_autoptr(BenchCase) c = make_case(others[i], product_dims, NULL);
    if (c->is_product) fail_msg("%s", others[i]);
  }
}

static void takes_the_product_alone(void **state)
{
  static const char *const constants[] = {"K", NULL};
  g_autoptr(BenchCase) c =
      make_case(EPILOGUE("{op: Tanh, inputs: [d], outputs: [p]}," ADDED, "q"), product_dims, constants);
  GError *error = NULL;
  g_autoptr(BenchCase) alone = bench_case_product(c, &error);
  assert_non_null(alone);
  assert_true(alone->is_product && !alone->product.fused && alone->flops == c->flops);
  assert_true(alone->bytes == 2.0 * (5 * 11 + 11 * 7 + 5 * 7));
  assert_string_equal(alone->name, "product M=5 N=7 K=11");
  assert_int_equal(alone->n_constants, 1);
  assert_string_equal(alone->product.d->name, "d");
  g_autoptr(BenchCase) none = bench_case_product(alone, &error);
  assert_null(none);
  assert_string_equal(error->message,
                      "product M=5 N=7 K=11: it is not one matrix product with something behind it");
  g_clear_error(&error);
}

static void refuses_open_dimensions(void **state)
{
  GError *error = NULL;
  static const char *const dims[] = {"M=5", "N=7", NULL}, *const unknown[] = {"Q", NULL};
  g_autoptr(Source) source = source_new("test", product, strlen(product));
  assert_null(bench_case_new(source, NULL, dims, NULL, &error));
  assert_string_equal(error->message, "dimension K of p has no value");
  g_clear_error(&error);
  assert_null(bench_case_new(source, NULL, product_dims, unknown, &error));
  assert_string_equal(error->message, "Q is to be a constant and has no value");
  g_clear_error(&error);
}

static void reads_variants(void **state)
{
  g_autoptr(BenchVariant) v = bench_variant_parse("wide:bm=128,sms=100,bn=256,fixed=1,gpu=a/b.yaml", NULL);
  assert_string_equal(v->name, "wide");
  assert_string_equal(v->gpu, "a/b.yaml");
  assert_true(v->sms == 100 && v->fixed && !v->plan);
  assert_string_equal(v->sets[0], "bm=128");
  assert_string_equal(v->sets[1], "bn=256");
  assert_null(v->sets[2]);
  g_autoptr(BenchVariant) model = bench_variant_parse("skip=stage_stores,tuned=0", NULL);
  assert_true(model->untuned && !v->untuned);
  g_autoptr(BenchVariant) plan = bench_variant_parse("plan=out/x:y", NULL);
  assert_string_equal(plan->name, "plan=out/x:y");
  assert_string_equal(plan->plan, "out/x:y");
  static const char *const wrong[] = {"bm", ":bm=1", "a:=1", "sms=x", "plan=p,bm=1", "a:bm=", NULL};
  for (unsigned i = 0; wrong[i]; i++) {
    GError *error = NULL;
    assert_null(bench_variant_parse(wrong[i], &error));
    assert_int_equal(error->code, ERROR_USAGE);
    g_error_free(error);
  }
}

static void takes_medians_and_ratios(void **state)
{
  const double odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2};
  assert_true(median(odd, 3) == 2 && median(even, 4) == 2.5 && isnan(median(odd, 0)));
  double a[] = {1, 2, 4}, b[] = {2, 2, 2};
  BenchTiming timing[] = {{.rounds = a}, {.rounds = b}};
  const BenchTimings timings = {.n = 2, .n_rounds = 3, .of = timing};
  assert_true(bench_ratio(&timings, 0, 1) == 1 && bench_ratio(&timings, 0, 0) == 1);
}

static void finds_roofs(void **state)
{
  g_autoptr(BenchCase) c = make_case(product, product_dims, NULL);
  BenchCeilings ceilings = {.read = 334e6}; /* its 334 bytes take a microsecond */
  assert_true(fabs(bench_roof(&ceilings, c) - 4) < 1e-9);
  ceilings.warp_mma[NUMBER_BF16] = 770e6;
  assert_true(fabs(bench_roof(&ceilings, c) - 4) < 1e-9);
  ceilings.warp_mma[NUMBER_BF16] = 77e6;
  assert_true(fabs(bench_roof(&ceilings, c) - 13) < 1e-9);
  ceilings.warpgroup_mma[NUMBER_BF16] = 154e6;
  assert_true(fabs(bench_roof(&ceilings, c) - 8) < 1e-9);
}

#define TIMES(ours, peer, other)                                                                             \
  "{\"cold\": {\"times\": [{\"candidate\": \"adlgen\", \"ratio\": 1, \"roof_fraction\": " ours               \
  "}, {\"candidate\": \"cublaslt#0\", \"ratio\": " peer                                                      \
  "}, {\"candidate\": \"cublaslt#1\", \"ratio\": " other "}, {\"candidate\": \"copy\", \"ratio\": 0.1}]}}"
#define CASE(name, times)                                                                                    \
  "{\"name\": \"" name "\", \"class\": \"c\", \"modes\": " times                                             \
  ", \"candidates\": [{\"name\": \"adlgen\", \"kind\": \"adlgen\"}, {\"name\": \"cublaslt#0\", \"kind\": "   \
  "\"cublaslt\"}, {\"name\": \"cublaslt#1\", \"kind\": \"cublaslt\"}, {\"name\": \"copy\", \"kind\": "       \
  "\"floor\"}]}"

static void judges_classes(void **state)
{
  json_t *cases = json_loads(
      "[" CASE("one", TIMES("0.5", "2.0", "1.0")) "," CASE("two", TIMES("0.125", "0.25", "0.3")) "]", 0,
      NULL);
  assert_non_null(cases);
  json_t *classes = bench_classes(cases), *c = json_array_get(classes, 0);
  assert_int_equal(json_array_size(classes), 1);
  assert_int_equal(json_integer_value(json_object_get(c, "cases")), 2);
  assert_true(fabs(json_number_value(json_object_get(c, "roof_fraction")) - 0.25) < 1e-9);
  /* The best peer is the one with the lowest ratio: 1.0 and 0.25. */
  assert_true(fabs(json_number_value(json_object_get(c, "peer_ratio")) - 0.5) < 1e-9);
  assert_true(fabs(json_number_value(json_object_get(c, "worst_ratio")) - 0.25) < 1e-9);
  assert_string_equal(json_string_value(json_object_get(c, "worst_case")), "two");
  json_decref(classes);
  json_decref(cases);
}

static void has_ceilings(void **state)
{
  GError *error = NULL;
  if (!bench_ceilings_have_kernels(&error)) fail_msg("%s", error->message);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counts_bytes_and_flops),
      cmocka_unit_test(counts_what_is_seen),
      cmocka_unit_test(counts_what_gathers_touch),
      cmocka_unit_test(finds_products),
      cmocka_unit_test(finds_what_follows_a_product),
      cmocka_unit_test(takes_the_product_alone),
      cmocka_unit_test(refuses_open_dimensions),
      cmocka_unit_test(reads_variants),
      cmocka_unit_test(takes_medians_and_ratios),
      cmocka_unit_test(finds_roofs),
      cmocka_unit_test(judges_classes),
      cmocka_unit_test(has_ceilings),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
