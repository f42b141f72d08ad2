/* The quick reader of plain JSON against libyaml: what it accepts must be the same tree there, with the same
 * places; what it does not is libyaml's. */
#include "base/document_private.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static bool same_mark(Mark a, Mark b)
{
  return a.line == b.line && a.column == b.column;
}

static bool same(const Node *a, const Node *b)
{
  if (a->kind != b->kind || !same_mark(a->mark, b->mark)) return false;
  if (a->kind == NODE_SCALAR) return a->quoted == b->quoted && !strcmp(a->text, b->text);
  bool equal = a->n == b->n;
  for (unsigned i = 0; equal && i < a->n; i++) {
    equal = same(a->items[i], b->items[i]);
    if (equal && a->kind == NODE_MAPPING)
      equal = !strcmp(a->keys[i], b->keys[i]) && same_mark(a->key_marks[i], b->key_marks[i]);
  }
  return equal;
}

/* true if the quick reader took the text. */
static bool agree(const char *text)
{
  g_autoptr(Source) source = source_new("t.json", text, strlen(text));
  g_autoptr(Document) quick = document_read_json(source);
  if (!quick) return false;
  g_autoptr(GError) error = NULL;
  g_autoptr(Document) slow = document_read_yaml(source, &error);
  if (!slow || !same(document_root(quick), document_root(slow))) fail_msg("another tree: %s", text);
  return true;
}

static void takes_what_is_plain(void **state)
{
  static const char *const texts[] = {
      "{}", "[]", "{\"a\":1,\"b\":[\"x\",{\"c\":-2.5e-3}]}\n",
      "{\n  \"a\": [true, false, null, 0],\n  \"long key\": \"~!@#$%^&*()\"\n}\n"};
  for (unsigned i = 0; i < G_N_ELEMENTS(texts); i++)
    assert_true(agree(texts[i]));
}

static void leaves_the_rest(void **state)
{
  g_autofree char *deep = g_strnfill(100, '['), *key = g_strnfill(2000, 'k');
  g_autofree char *long_key = g_strdup_printf("{\"%s\": 1}", key);
  const char *const texts[] = {"",
                               " {}",
                               "{a: 1}",
                               "{\"a\": 1,}",
                               "[1,]",
                               "[1 2]",
                               "[\"a\" \"b\"]",
                               "{\"a\":1,\"a\":2}",
                               "{\"a\\n\": 1}",
                               "[\"\\u0041\"]",
                               "[\t1]",
                               "[1] [2]",
                               "{\"a\": 1} # why",
                               "[yes]",
                               "[0x10]",
                               "[-]",
                               "[--1]",
                               "[\"\xc3\xa9\"]",
                               "[\"a\nb\"]",
                               "[",
                               "{\"a\"}",
                               "{\"a\":}",
                               "[{\"a\":1:2}]",
                               "{1: 2}",
                               deep,
                               long_key};
  for (unsigned i = 0; i < G_N_ELEMENTS(texts); i++)
    if (agree(texts[i])) fail_msg("taken: %s", texts[i]);
}

static void add_random(GString *text, GRand *random, unsigned depth)
{
  static const char *const scalars[] = {"1",    "-7",        "2.5",      "1e9",      "true",    "null",
                                        "\"\"", "\"M * 2\"", "\"a: b\"", "\"# no\"", "\"{x}\"", "007",
                                        "1.",   "-0",        "1e",       "1-2"};
  static const char *const blanks[] = {"", "", " ", "\n", "\n    "};
  int kind = depth > 4 ? 2 : g_rand_int_range(random, 0, 3);
  unsigned n = (unsigned)g_rand_int_range(random, 0, 4);
  g_string_append(text, blanks[g_rand_int_range(random, 0, 5)]);
  if (kind == 2) {
    g_string_append(text, scalars[g_rand_int_range(random, 0, G_N_ELEMENTS(scalars))]);
  } else {
    g_string_append_c(text, kind ? '{' : '[');
    for (unsigned i = 0; i < n; i++) {
      if (i) g_string_append_c(text, ',');
      if (kind)
        g_string_append_printf(text, "%s\"k%u\"%s:", blanks[g_rand_int_range(random, 0, 5)], i,
                               blanks[g_rand_int_range(random, 0, 3)]);
      add_random(text, random, depth + 1);
    }
    g_string_append_c(text, kind ? '}' : ']');
  }
  g_string_append(text, blanks[g_rand_int_range(random, 0, 5)]);
}

#define TEXTS     3000
#define LEAST     200 /* of the texts, untouched or changed, that must have been taken */
#define CHARACTER "{}[]:,\" \n-#&*!|>'%@`?ax0\\"

static void agrees_on_random_texts(void **state)
{
  g_autoptr(GRand) random = g_rand_new_with_seed(20261121);
  unsigned taken = 0, changed_taken = 0;
  for (unsigned i = 0; i < TEXTS; i++) {
    g_autoptr(GString) text = g_string_new("[");
    add_random(text, random, 0);
    g_string_append_c(text, ']');
    taken += agree(text->str);
    for (unsigned j = 0; j < 2; j++) {
      gsize at = (gsize)g_rand_int_range(random, 0, (int)text->len);
      text->str[at] = CHARACTER[g_rand_int_range(random, 0, sizeof CHARACTER - 1)];
      changed_taken += agree(text->str);
    }
  }
  assert_true(taken >= LEAST && changed_taken >= LEAST);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(takes_what_is_plain), cmocka_unit_test(leaves_the_rest),
                                     cmocka_unit_test(agrees_on_random_texts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
