#include "symbolic/symbolic.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const Symbolic *parse(Arena *arena, const char *text)
{
  g_autoptr(GError) error = NULL;
  const Symbolic *expression = symbolic_parse(arena, text, NULL, &error);
  if (error) fail_msg("%s", error->message);
  return expression;
}

static void test_normal_form(void **state)
{
  static const char *const cases[][2] = {
      {"2*M", "2*M"},
      {"M*2", "2*M"},
      {"M + M", "2*M"},
      {"(M + 1)*(M - 1)", "M*M - 1"},
      {"M - M", "0"},
      {"3 - M", "-1*M + 3"},
      {"4*M / 2", "2*M"},
      {"M*N - N*M + 5", "5"},
      {"8*M % 4", "0"},
      {"K % 8 == 0 && align(A) >= 16", "K % 8 == 0 && align(A) >= 16"},
      {"ceil_div(M, 128)", "ceil_div(M, 128)"},
      {"ceil_div(256*M, 128)", "2*M"},
      {"ceil_div(7, 2) + 7 / 2 + -7 / 2 + -7 % 4", "1"},
      {"min(M, M + 1)", "M"},
      {"max(M, M + 1)", "M + 1"},
      {"max(N, M)", "max(M, N)"},
      {"M < M + 1", "1"},
      {"1 && M < 3", "M < 3"},
      {"0 || !(M == N)", "!(M == N)"},
      {"M / 2 / 3 * 2", "2*(M / 2 / 3)"},
      {"(M + 1) / (N + 1)", "(M + 1) / (N + 1)"},
      {"(M / 2) * N", "N*(M / 2)"},
      {"2 - 3*N", "-3*N + 2"},
      {"N % (M % 3)", "N % (M % 3)"},
      {"align(\"/model/x.1 y\") >= 16", "align(\"/model/x.1 y\") >= 16"},
      {"(1 < M) == (N < 2)", "(1 < M) == (N < 2)"},
      {"M - 2*N - 3", "M - 2*N - 3"},
      {"-9223372036854775808", "-9223372036854775808"},
  };
  g_autoptr(Arena) arena = arena_new();
  for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = symbolic_text(parse(arena, cases[i][0]));
    assert_string_equal(text, cases[i][1]);
    g_autofree char *again = symbolic_text(parse(arena, text));
    assert_string_equal(again, text);
  }
}

static void test_refused(void **state)
{
  static const char *const texts[] = {
      "",         "M +",       "(M", "M)", "foo(M)", "1 2",           "min(M)",
      "align(3)", "M < N < K", "2M", "\"", "M $ N",  "ceil_div(M, 2", "99999999999999999999"};
  g_autoptr(Arena) arena = arena_new();
  for (unsigned i = 0; i < G_N_ELEMENTS(texts); i++) {
    g_autoptr(GError) error = NULL;
    assert_null(symbolic_parse(arena, texts[i], NULL, &error));
    assert_int_equal(error_exit_code(error), ERROR_INPUT);
  }
  g_autofree char *deep = g_strnfill(900, '(');
  g_autoptr(GError) error = NULL;
  assert_null(symbolic_parse(arena, deep, NULL, &error));
}

/* An expression whose printed form nests deeper than its text is read as long as that form can be read too. */
static void test_nesting(void **state)
{
  static const struct {
    const char *start, *step;
  } growing[] = {{"a", " / b*2"}, {"a", " % b*-3"}, {"a", " / b + 1 < c"}};
  g_autoptr(Arena) arena = arena_new();
  for (unsigned i = 0; i < G_N_ELEMENTS(growing); i++) {
    g_autoptr(GString) text = g_string_new(growing[i].start);
    unsigned accepted = 0, refused = 0;
    for (unsigned n = 0; n < 150; n++) {
      const Symbolic *expression = symbolic_parse(arena, text->str, NULL, NULL);
      if (expression) {
        g_autofree char *printed = symbolic_text(expression);
        assert_true(symbolic_same(parse(arena, printed), expression));
      }
      *(expression ? &accepted : &refused) += 1;
      g_string_append(text, growing[i].step);
      if (strchr(growing[i].step, '<')) {
        g_string_prepend_c(text, '(');
        g_string_append_c(text, ')');
      }
    }
    assert_true(accepted > 60 && refused > 20);
  }
  static const char *const signs[] = {"--!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!-a - b",
                                      "!-!-!-!-!-!-!-!-!-!-!-!-!-!-!-!-!-!-!-!-!-!-!-!-!-!-!-!-!-!-!-!-a"};
  for (unsigned i = 0; i < G_N_ELEMENTS(signs); i++) {
    const Symbolic *expression = symbolic_parse(arena, signs[i], NULL, NULL);
    g_autofree char *printed = expression ? symbolic_text(expression) : NULL;
    assert_true(!expression || symbolic_same(parse(arena, printed), expression));
  }
}

static bool lookup(const Symbolic *leaf, int64_t *value, void *data)
{
  if (leaf->kind == SYMBOLIC_ALIGN) {
    *value = 32;
    return true;
  }
  *value = leaf->name[0] == 'M' ? 100 : 7;
  return leaf->name[0] != 'U';
}

static void test_evaluation(void **state)
{
  static const struct {
    const char *text;
    int64_t value;
  } cases[] = {
      {"M*N + 3", 703}, {"ceil_div(M, 8)", 13}, {"M % 8 == 4 && align(A) >= 16", 1},
      {"0 && U", 0},    {"1 || U", 1},          {"min(M, N) - max(M, N)", -93},
      {"!M", 0},        {"M / N", 14},          {"N < M", 1},
  };
  g_autoptr(Arena) arena = arena_new();
  for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
    int64_t value = -1;
    assert_true(symbolic_evaluate(parse(arena, cases[i].text), lookup, NULL, &value, NULL));
    assert_int_equal(value, cases[i].value);
  }
  static const char *const wrong[] = {"U + 1", "M / (N - 7)", "M % (N - 7)", "M*9223372036854775807",
                                      "9223372036854775807 + M"};
  for (unsigned i = 0; i < G_N_ELEMENTS(wrong); i++) {
    g_autoptr(GError) error = NULL;
    int64_t value;
    assert_false(symbolic_evaluate(parse(arena, wrong[i]), lookup, NULL, &value, &error));
    assert_int_equal(error_exit_code(error), ERROR_INPUT);
  }
}

static void test_facts(void **state)
{
  static const SymbolicFact list[] = {
      {"M", false, 1, 4096, 1}, {"K", false, 8, 8192, 8}, {"N", false, 16, 16, 1}, {"A", true, 0, 0, 16}};
  static const SymbolicFacts facts = {list, G_N_ELEMENTS(list)};
  static const struct {
    const char *text;
    SymbolicTruth truth;
  } cases[] = {
      {"K % 8 == 0", SYMBOLIC_TRUE},
      {"K % 16 == 0", SYMBOLIC_UNDECIDED},
      {"N % 16 == 0", SYMBOLIC_TRUE},
      {"M <= 4096", SYMBOLIC_TRUE},
      {"M > 4096", SYMBOLIC_FALSE},
      {"M <= 16", SYMBOLIC_UNDECIDED},
      {"align(A) >= 16", SYMBOLIC_TRUE},
      {"align(A) >= 32", SYMBOLIC_UNDECIDED},
      {"align(B) >= 1", SYMBOLIC_TRUE},
      {"align(B) >= 2", SYMBOLIC_UNDECIDED},
      {"M*K % 8 == 0", SYMBOLIC_TRUE},
      {"M*K < 33554433", SYMBOLIC_TRUE},
      {"ceil_div(M, 128) <= 32", SYMBOLIC_TRUE},
      {"ceil_div(M, 128) >= 1", SYMBOLIC_TRUE},
      {"M + K >= 9", SYMBOLIC_TRUE},
      {"K / 8 >= 1", SYMBOLIC_TRUE},
      {"K % 8 == 0 && M == 0", SYMBOLIC_FALSE},
      {"M == 0 || K >= 8", SYMBOLIC_TRUE},
      {"!(M == 0)", SYMBOLIC_TRUE},
      {"K != 4", SYMBOLIC_TRUE},
      {"Q >= 0", SYMBOLIC_TRUE},
      {"Q - M < 2147483647", SYMBOLIC_TRUE},
  };
  g_autoptr(Arena) arena = arena_new();
  for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++)
    if (symbolic_decide(parse(arena, cases[i].text), &facts) != cases[i].truth)
      fail_msg("%s: %d", cases[i].text, symbolic_decide(parse(arena, cases[i].text), &facts));
  assert_int_equal(symbolic_multiple(parse(arena, "2*K + 48"), &facts), 16);
  assert_true(symbolic_divisible(parse(arena, "K*N / 4"), 32, &facts));
}

static const Symbolic *bind_m(const Symbolic *leaf, void *arena)
{
  return leaf->name[0] == 'M' ? symbolic_constant(arena, 64) : NULL;
}

static void test_substitution(void **state)
{
  g_autoptr(Arena) arena = arena_new();
  const Symbolic *bound = symbolic_substitute(arena, parse(arena, "ceil_div(M, 128)*N + M"), bind_m, arena);
  g_autofree char *text = symbolic_text(bound);
  assert_string_equal(text, "N + 64");
  assert_true(symbolic_same(parse(arena, "(M + N)*K"), parse(arena, "K*N + M*K")));
}

/* Any expression reads back as it is printed, also where its coefficients leave 64 bits or its terms are too many to
 * be multiplied out, so that an operation stays as it was built. */
static const Symbolic *random_expression(Arena *arena, GRand *random, unsigned depth)
{
  static const int64_t numbers[] = {
      0, 1, -1, 2, -3, 128, INT64_MAX, INT64_MIN, INT64_MIN + 1, (int64_t)1 << 62};
  static const char *const names[] = {"K", "M", "N", "a b"};
  if (!depth || !g_rand_int_range(random, 0, 6)) {
    int which = g_rand_int_range(random, 0, 8);
    if (which < 4) return symbolic_symbol(arena, names[which]);
    if (which == 4) return symbolic_align(arena, names[g_rand_int_range(random, 0, 4)]);
    return symbolic_constant(arena, numbers[g_rand_int_range(random, 0, G_N_ELEMENTS(numbers))]);
  }
  const Symbolic *a = random_expression(arena, random, depth - 1);
  /* sums and products more often than the other kinds */
  int kind = g_rand_int_range(random, SYMBOLIC_ADD, SYMBOLIC_NOT + 12);
  if (kind == SYMBOLIC_NOT) return symbolic_not(arena, a);
  const Symbolic *b = random_expression(arena, random, depth - 1);
  return symbolic_binary(arena, kind < SYMBOLIC_NOT ? kind : SYMBOLIC_ADD + kind % 3, a, b);
}

static void test_reads_back(void **state)
{
  g_autoptr(GRand) random = g_rand_new_with_seed(20261123);
  unsigned compared = 0;
  for (unsigned i = 0; i < 20000; i++) {
    g_autoptr(Arena) arena = arena_new();
    g_autofree char *text = symbolic_text(random_expression(arena, random, 1 + i % 6));
    if (strlen(text) > 1024) continue; /* the reader's limit */
    g_autofree char *again = symbolic_text(parse(arena, text));
    assert_string_equal(again, text);
    compared++;
  }
  assert_true(compared > 15000);
}

static bool may_be_negative(const Symbolic *factor, void *data)
{
  int64_t least, most;
  symbolic_range(factor, data, &least, &most);
  return least < 0;
}

/* Nowhere below either; NULL where a product may be negative. */
static void test_above(void **state)
{
  static const SymbolicFact list[] = {
      {"M", false, 1, 4096, 1}, {"N", false, 0, 100, 1}, {"D", false, -5, 5, 1}};
  static const SymbolicFacts facts = {list, G_N_ELEMENTS(list)};
  static const char *const cases[][3] = {
      {"3*M + 4*N", "5*M + N + 7", "5*M + 4*N + 7"},
      {"2*M - 3", "M", "2*M"},
      {"-4*M", "-2*M - 1", "-2*M"},
      {"M*N", "8*ceil_div(M, 3)", "M*N + 8*ceil_div(M, 3)"},
      {"D + M", "M", NULL},
  };
  g_autoptr(Arena) arena = arena_new();
  for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
    const Symbolic *a = symbolic_parse(arena, cases[i][0], NULL, NULL),
                   *b = symbolic_parse(arena, cases[i][1], NULL, NULL);
    const Symbolic *above = symbolic_above(arena, a, b, may_be_negative, (void *)&facts);
    const Symbolic *wanted = cases[i][2] ? symbolic_parse(arena, cases[i][2], NULL, NULL) : NULL;
    if (!above != !wanted || (above && !symbolic_same(above, wanted)))
      fail_msg("%s, %s", cases[i][0], cases[i][1]);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_normal_form),  cmocka_unit_test(test_refused),    cmocka_unit_test(test_nesting),
      cmocka_unit_test(test_evaluation),   cmocka_unit_test(test_facts),      cmocka_unit_test(test_above),
      cmocka_unit_test(test_substitution), cmocka_unit_test(test_reads_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
