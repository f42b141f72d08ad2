/* The workspace by lifetimes: tensors that may hold something at one time lie apart, whatever the symbols are. */
#include "plan/launch_set.h"
#include "plan/range_index.h"
#include "plan/resolve.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define LAUNCHES 40

/* A plan of launches that read what earlier ones wrote and wait for just those. Every launch writes one tensor;
 * sizes are of three kinds of expressions. */
static Plan *random_plan(GRand *random, bool chain)
{
  static const char *const shapes[][2] = {
      {"M", "64"}, {"M", "N"}, {"48", "1000"}, {"2*M + 1", "8"}, {"N", "3"}};
  Plan *plan = plan_new("random", "some-gpu", "some_target", "0123");
  plan_add_symbol(plan, "M", 1, 100000, 1);
  plan_add_symbol(plan, "N", 0, 8192, 8);
  PlanTensor *tensors[LAUNCHES];
  for (unsigned i = 0; i < LAUNCHES; i++) {
    const char *const *texts = shapes[g_rand_int_range(random, 0, G_N_ELEMENTS(shapes))];
    const Symbolic *shape[] = {symbolic_parse(plan->arena, texts[0], NULL, NULL),
                               symbolic_parse(plan->arena, texts[1], NULL, NULL)};
    g_autofree char *name = g_strdup_printf("t%u", i);
    tensors[i] = plan_add_tensor(plan, PLAN_WORKSPACE, name, NUMBER_F32, 2, shape, NULL, 4);
    PlanLaunch *launch = plan_add_launch(plan, name);
    PlanVariant *variant = plan_add_variant(plan, launch, name, name);
    plan_add_pointer(plan, variant, "out", tensors[i], NULL);
    for (unsigned in = 0; i && in < 2; in++) {
      unsigned from = chain ? i - 1 : (unsigned)g_rand_int_range(random, 0, (gint32)i);
      plan_add_pointer(plan, variant, "in", tensors[from], NULL);
      plan_add_dependency(plan, launch, plan->launches[from], false);
    }
  }
  tensors[LAUNCHES / 2]->zero = true;
  plan_place_workspace(plan);
  return plan;
}

static bool comes_before(const Plan *plan, unsigned first, unsigned launch)
{
  for (unsigned i = 0; i < plan->launches[launch]->n_depends; i++) {
    unsigned on = plan->launches[launch]->depends_on[i].launch;
    if (on == first || (on > first && comes_before(plan, first, on))) return true;
  }
  return false;
}

static bool is_given(const PlanLaunch *launch, const PlanTensor *tensor)
{
  for (unsigned i = 0; i < launch->variants[0]->n_arguments; i++)
    if (launch->variants[0]->arguments[i].tensor == tensor) return true;
  return false;
}

/* All launches that are given `first` come before all that are given `second`. */
static bool dies_before(const Plan *plan, const PlanTensor *first, const PlanTensor *second)
{
  for (unsigned i = 0; i < plan->n_launches; i++)
    for (unsigned j = 0; j < plan->n_launches; j++)
      if (is_given(plan->launches[i], first) && is_given(plan->launches[j], second) &&
          !comes_before(plan, i, j))
        return false;
  return true;
}

static ResolvedTensor resolve(const Plan *plan, const PlanTensor *tensor, const int64_t *symbols)
{
  const PlanBindings bindings = {symbols, NULL};
  ResolvedTensor resolved;
  assert_true(plan_resolve_tensor(plan, tensor, &bindings, &resolved, NULL));
  assert_int_equal(resolved.offset % 256, 0);
  return resolved;
}

/* Those that meet lie apart, and all within the workspace. Returns how many pairs share memory. */
static unsigned check_places(const Plan *plan, bool (*meet)[LAUNCHES], const int64_t *symbols)
{
  const PlanBindings bindings = {symbols, NULL};
  uint64_t whole;
  unsigned n_shared = 0;
  assert_true(plan_resolve_workspace(plan, &bindings, &whole, NULL));
  for (unsigned i = 0; i < plan->n_tensors; i++) {
    const ResolvedTensor a = resolve(plan, plan->tensors[i], symbols);
    assert_true(a.offset + a.bytes <= whole);
    for (unsigned j = 0; j < i; j++) {
      const ResolvedTensor b = resolve(plan, plan->tensors[j], symbols);
      bool shared = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
      if (shared && meet[i][j])
        fail_msg("M=%d N=%d: %s and %s overlap", (int)symbols[0], (int)symbols[1], plan->tensors[i]->name,
                 plan->tensors[j]->name);
      n_shared += shared;
    }
  }
  return n_shared;
}

static void test_apart(void **state)
{
  static const int64_t symbols[][2] = {{1, 0}, {1, 8192}, {77, 8}, {4096, 4096}, {100000, 8}, {99999, 8184}};
  for (unsigned seed = 0; seed < 12; seed++) {
    g_autoptr(GRand) random = g_rand_new_with_seed(seed);
    g_autoptr(Plan) plan = random_plan(random, seed % 3 == 0);
    bool meet[LAUNCHES][LAUNCHES];
    unsigned n_shared = 0;
    for (unsigned i = 0; i < LAUNCHES; i++)
      for (unsigned j = 0; j < i; j++) {
        const PlanTensor *a = plan->tensors[i], *b = plan->tensors[j];
        meet[i][j] = a->zero || b->zero || (!dies_before(plan, a, b) && !dies_before(plan, b, a));
      }
    for (unsigned i = 0; i < G_N_ELEMENTS(symbols); i++)
      n_shared += check_places(plan, meet, symbols[i]);
    assert_true(n_shared > 0);
  }
}

/* Layers of a network one after the other, all on one stream: residual, normed, wide, and so on. */
static void test_layers(void **state)
{
  static const unsigned widths[] = {1, 3, 1, 1, 4, 1};
  enum { LAYERS = 32, STEPS = G_N_ELEMENTS(widths) };
  Plan *plan = plan_new("layers", "some-gpu", "some_target", "0123");
  plan_add_symbol(plan, "M", 1, 100000, 1);
  PlanTensor *last = NULL, *residual = NULL;
  for (unsigned i = 0; i < LAYERS * STEPS; i++) {
    const Symbolic *shape[] = {symbolic_symbol(plan->arena, "M"),
                               symbolic_constant(plan->arena, 1024 * widths[i % STEPS])};
    g_autofree char *name = g_strdup_printf("t%u", i);
    PlanTensor *out = plan_add_tensor(plan, PLAN_WORKSPACE, name, NUMBER_BF16, 2, shape, NULL, 2);
    PlanLaunch *launch = plan_add_launch(plan, name);
    PlanVariant *variant = plan_add_variant(plan, launch, name, name);
    if (last) plan_add_pointer(plan, variant, "in", last, NULL);
    if (residual && i % STEPS == STEPS - 1) plan_add_pointer(plan, variant, "residual", residual, NULL);
    plan_add_pointer(plan, variant, "out", out, NULL);
    if (i) plan_add_dependency(plan, launch, plan->launches[i - 1], true);
    if (i % STEPS == 0) residual = out;
    last = out;
  }
  plan_place_workspace(plan);
  int64_t symbols[] = {1000};
  const PlanBindings bindings = {symbols, NULL};
  uint64_t whole;
  assert_true(plan_resolve_workspace(plan, &bindings, &whole, NULL));
  /* live at most: the residual, the wide one, what it was made of or what is made of it */
  const uint64_t live = (1 + 1 + 4) * 1024 * 2 * 1000;
  if (whole > live + live / 10) fail_msg("%d bytes where %d are live", (int)whole, (int)live);
  g_autofree char *text = plan_text(plan);
  if (strlen(text) > 200 * 1024) fail_msg("the plan's text has %zu characters", strlen(text));
  plan_free(plan);
}

static PlanTensor *step(Plan *plan, const char *kind, unsigned layer, const char *extent,
                        PlanTensor *const *in)
{
  g_autofree char *name = g_strdup_printf("%s%u", kind, layer);
  const Symbolic *shape[] = {symbolic_parse(plan->arena, extent, NULL, NULL)};
  PlanTensor *out = plan_add_tensor(plan, PLAN_WORKSPACE, name, NUMBER_BF16, 1, shape, NULL, 2);
  PlanLaunch *launch = plan_add_launch(plan, name);
  PlanVariant *variant = plan_add_variant(plan, launch, kind, kind);
  for (; *in; in++)
    plan_add_pointer(plan, variant, "in", *in, NULL);
  plan_add_pointer(plan, variant, "out", out, NULL);
  if (launch->index) plan_add_dependency(plan, launch, plan->launches[launch->index - 1], true);
  return out;
}

/* Layers with a cache whose length is open beside that of the input: which of two that meet is the larger nobody knows. Places
 * are of as few sums, whatever the number of layers. */
static void test_open_cache(void **state)
{
  static const int64_t symbols[][2] = {{1, 4096}, {4096, 0}, {512, 512}, {33, 77}};
  for (unsigned layers = 2; layers <= 32; layers *= 4) {
    Plan *plan = plan_new("cache", "some-gpu", "some_target", "0123");
    plan_add_symbol(plan, "S", 1, 100000, 1);
    plan_add_symbol(plan, "P", 0, 100000, 1);
    PlanTensor *none[] = {NULL}, *x = step(plan, "x", 0, "4096*S", none);
    for (unsigned i = 0; i < layers; i++) {
      PlanTensor *qkv = step(plan, "qkv", i, "6144*S", (PlanTensor *[]){x, NULL});
      PlanTensor *k = step(plan, "k", i, "1024*S + 1024*P", (PlanTensor *[]){qkv, NULL});
      PlanTensor *v = step(plan, "v", i, "1024*S + 1024*P", (PlanTensor *[]){qkv, NULL});
      PlanTensor *y = step(plan, "y", i, "4096*S", (PlanTensor *[]){qkv, k, v, NULL});
      PlanTensor *h = step(plan, "h", i, "4096*S", (PlanTensor *[]){x, y, NULL});
      PlanTensor *wide = step(plan, "wide", i, "14336*S", (PlanTensor *[]){h, NULL});
      x = step(plan, "x", i + 1, "4096*S", (PlanTensor *[]){h, wide, NULL});
    }
    plan_place_workspace(plan);
    for (unsigned i = 0; i < plan->n_tensors; i++) {
      g_autofree char *text = symbolic_text(plan->tensors[i]->offset);
      if (strlen(text) > 150) fail_msg("%u layers: %s", layers, text);
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(symbols); i++) {
      const PlanBindings bindings = {symbols[i], NULL};
      uint64_t whole, s = (uint64_t)symbols[i][0], p = (uint64_t)symbols[i][1];
      assert_true(plan_resolve_workspace(plan, &bindings, &whole, NULL));
      uint64_t attention = 2 * ((4096 + 6144 + 2048 + 4096) * s + 2048 * p),
               mlp = 2 * (4096 + 14336 + 4096) * s;
      uint64_t live = MAX(attention, mlp);
      if (whole > live + live / 10 + 2048) fail_msg("%d bytes where %d are live", (int)whole, (int)live);
    }
    plan_free(plan);
  }
}

#define SETS 6

/* Sets of launches beside lists of what is in them. */
static void test_sets(void **state)
{
  (void)state;
  g_autoptr(GRand) random = g_rand_new_with_seed(7);
  LaunchSet sets[SETS] = {{0}};
  bool in[SETS][LAUNCHES] = {{false}};
  for (unsigned step = 0; step < 20000; step++) {
    unsigned a = (unsigned)g_rand_int_range(random, 0, SETS), b = (unsigned)g_rand_int_range(random, 0, SETS),
             launch = (unsigned)g_rand_int_range(random, 0, LAUNCHES);
    gint32 what = g_rand_int_range(random, 0, 12);
    if (what == 0) {
      launch_set_clear(&sets[a]);
      memset(in[a], 0, sizeof in[a]);
    } else if (what == 1) { /* all up to a launch */
      launch_set_clear(&sets[a]);
      sets[a].full = launch;
      for (unsigned i = 0; i < LAUNCHES; i++)
        in[a][i] = i < launch;
    } else if (what == 2) {
      launch_set_unite(&sets[a], &sets[b]);
      for (unsigned i = 0; i < LAUNCHES; i++)
        in[a][i] |= in[b][i];
    } else if (what == 3) {
      launch_set_intersect(&sets[a], &sets[b]);
      for (unsigned i = 0; i < LAUNCHES; i++)
        in[a][i] &= in[b][i];
    } else {
      launch_set_add(&sets[a], launch);
      in[a][launch] = true;
    }
    unsigned full = 0;
    while (full < LAUNCHES && in[a][full])
      full++;
    assert_int_equal(sets[a].full, full);
    for (unsigned i = 0; i < LAUNCHES; i++)
      if (launch_set_has(&sets[a], i) != in[a][i]) fail_msg("step %u: launch %u of set %u", step, i, a);
  }
  for (unsigned i = 0; i < SETS; i++)
    launch_set_clear(&sets[i]);
}

#define NUMBERS 50
#define RANGES  200

/* Ranges that share a number with another are found, each once, and no others. */
static void test_ranges(void **state)
{
  g_autoptr(GRand) random = g_rand_new_with_seed(3);
  unsigned low[RANGES], high[RANGES];
  RangeIndex index;
  range_index_open(&index, NUMBERS);
  for (unsigned i = 0; i < RANGES; i++) {
    g_autoptr(GArray) found = g_array_new(FALSE, FALSE, sizeof(unsigned));
    unsigned times[RANGES] = {0};
    low[i] = (unsigned)g_rand_int_range(random, 0, NUMBERS);
    high[i] = (unsigned)g_rand_int_range(random, (gint32)low[i], NUMBERS);
    range_index_find(&index, low[i], high[i], found);
    for (unsigned j = 0; j < found->len; j++)
      times[g_array_index(found, unsigned, j)]++;
    for (unsigned j = 0; j < RANGES; j++)
      assert_int_equal(times[j], j < i && low[j] <= high[i] && low[i] <= high[j]);
    range_index_add(&index, low[i], high[i], i);
  }
  range_index_close(&index);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sets),   cmocka_unit_test(test_ranges),     cmocka_unit_test(test_apart),
      cmocka_unit_test(test_layers), cmocka_unit_test(test_open_cache),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
