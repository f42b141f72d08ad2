/* The reader of JSON against two others: what it accepts is what Jansson accepts, and the tree it gives is
 * libyaml's, with the same places. */
#include "base/document_private.h"
#include <jansson.h>
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

static Document *parse(const char *name, const char *text, GError **error)
{
  g_autoptr(Source) source = source_new(name, text, strlen(text));
  return document_parse(source, error);
}

/* The scalar at the end of `path`: numbers are places in lists or objects. */
static const Node *descend(const Node *node, const char *path)
{
  for (; *path; path++)
    node = node->items[*path - '0'];
  return node;
}

static void valid_json(void **state)
{
  g_autofree char *long_key = g_strnfill(5000, 'k');
  g_autofree char *long_text = g_strdup_printf("{\"%s\"\n\n:\t7}", long_key);
  const struct {
    const char *text, *path, *value;
    unsigned line, column;
  } cases[] = {
      {"{}", "", NULL, 1, 1},
      {"  [ ]\r\n", "", NULL, 1, 3},
      {"7", "", "7", 1, 1},
      {"\xef\xbb\xbf{\"a\": 1}", "0", "1", 1, 7},
      {"[-0, 1e5, 0.25E-7, 123456789012345678901234567890]", "3", "123456789012345678901234567890", 1, 20},
      {"[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"]", "0", "\"\\/\b\f\n\r\t", 1, 2},
      {"[\"\\u0041\\u00e9\\u20AC\\ud83d\\ude00 end\"]", "0", "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80 end", 1,
       2},
      {"[\"\xf0\x9f\x98\x80\", \"\xc3\xa9\",\t\"x\"]", "2", "x", 1, 12}, /* columns count characters */
      {"[\"\x7f\"]", "0", "\x7f", 1, 2},
      {"{\"a\":\n\t{\"\": [\n null]}}", "000", "null", 3, 2},
      {"[\"# no comment\", \"yes: no\", \"\"]", "1", "yes: no", 1, 18},
      {long_text, "0", "7", 3, 3},
  };
  for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(GError) error = NULL;
    g_autoptr(Document) document = parse("t.json", cases[i].text, &error);
    if (!document) fail_msg("%s: %s", cases[i].text, error->message);
    const Node *node = descend(document_root(document), cases[i].path);
    assert_int_equal(node->mark.line, cases[i].line);
    assert_int_equal(node->mark.column, cases[i].column);
    if (cases[i].value) assert_string_equal(node->text, cases[i].value);
  }
}

static void the_name_decides(void **state)
{
  static const struct {
    const char *name, *text;
    bool ok;
  } cases[] = {
      {"t.json", "{a: 1}", false},        {"t.yaml", "{a: 1}", true},
      {"t.yml", "{a: 1}", true},          {"<stdin>", "{a: 1}", true},
      {"<stdin>", "{ \"a\": 01}", false}, {"<stdin>", "\xef\xbb\xbf{\n\"a\": x}", false},
      {"<stdin>", "a: 1", true},          {"<stdin>", "{\"a\": [1,]}", false},
      {"<stdin>", "[a]", true},           {"t.json", "a: 1", false},
      {"t.yaml", "{\"a\": [1, ]}", true}, {"t.txt", "# a comment\n{a: 1}", true},
  };
  for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Document) document = parse(cases[i].name, cases[i].text, NULL);
    if ((document != NULL) != cases[i].ok) fail_msg("%s: %s", cases[i].name, cases[i].text);
  }
}

static void many_keys(void **state)
{
  g_autoptr(GString) text = g_string_new("{\"k0\": 0");
  for (unsigned i = 1; i < 3000; i++)
    g_string_append_printf(text, ",\n\"k%u\": %u", i, i);
  g_autofree char *twice = g_strdup_printf("%s,\n\"k777\": 1}", text->str);
  g_string_append_c(text, '}');
  g_autoptr(Document) document = parse("t.json", text->str, NULL);
  assert_string_equal(node_get(document_root(document), "k2999")->text, "2999");
  g_autoptr(GError) error = NULL;
  assert_null(parse("t.json", twice, &error));
  g_autofree char *message = error_to_text(error, false);
  assert_string_equal(message, "t.json:3001:1: error: duplicate key `k777`\n  \"k777\": 1}\n  ^\n"
                               "t.json:778:1: note: first given here\n  \"k777\": 777,\n  ^\n");
}

static void depth_is_bounded(void **state)
{
  for (unsigned depth = 63; depth <= 100000; depth += depth == 63 ? 1 : depth == 64 ? 1 : 99935) {
    g_autofree char *open = g_strnfill(depth, '['), *close = g_strnfill(depth, ']');
    g_autofree char *text = g_strconcat(open, close, NULL);
    g_autoptr(GError) error = NULL;
    g_autoptr(Document) document = parse("t.json", text, &error);
    assert_int_equal(document != NULL, depth <= 64);
    if (!document) assert_string_equal(error->message, "nested deeper than 64 levels");
  }
}

/* ---- against others ---- */

static bool jansson_takes(const char *text)
{
  json_error_t fault;
  json_t *root = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &fault);
  json_decref(root);
  return root != NULL;
}

/* To YAML a name that ends its line is no key. */
static bool yaml_reads_keys(const char *text)
{
  bool line = false;
  for (; *text; text++) {
    if (*text == ':' && line) return false;
    line = *text == '\n' || (line && *text == ' ');
  }
  return true;
}

/* true if the text is JSON; whether it is, and what it means, others must say too. */
static bool agree(const char *text)
{
  g_autoptr(Source) source = source_new("t.json", text, strlen(text));
  g_autoptr(Document) ours = document_read_json(source, NULL);
  if (jansson_takes(text) != (ours != NULL)) fail_msg("%s: %s", ours ? "taken" : "refused", text);
  if (!ours) return false;
  if (!yaml_reads_keys(text)) return true;
  g_autoptr(Document) yaml = document_read_yaml(source, NULL);
  if (!yaml || !same(document_root(ours), document_root(yaml))) fail_msg("another tree: %s", text);
  return true;
}

static void add_random(GString *text, GRand *random, unsigned depth)
{
  static const char *const scalars[] = {
      "1",         "-7",       "2.5",         "1e9",         "true",         "null",    "\"\"",
      "\"M * 2\"", "\"a: b\"", "\"# no\"",    "\"{x}\"",     "007",          "1.",      "-0",
      "1e",        "1-2",      "\"\\n\"",     "\"\\u00e9\"", "\"\xc3\xa9\"", "\"\\x\"", "+1",
      "'a'",       "\"\xff\"", "\"\\ud800\"", "\"a\tb\"",    "1 2",          "NaN",     "-",
      ".5",        "0x10",     "tru",         "1e+",         "-01"};
  static const char *const blanks[] = {"", "", " ", "\n", "\n    "};
  int kind = depth > 4 ? 2 : g_rand_int_range(random, 0, 3);
  unsigned n = (unsigned)g_rand_int_range(random, 0, 4);
  g_string_append(text, blanks[g_rand_int_range(random, 0, 5)]);
  if (kind == 2) { /* the first ones of the list are right, and mostly taken */
    int last = g_rand_int_range(random, 0, 8) ? 11 : G_N_ELEMENTS(scalars);
    g_string_append(text, scalars[g_rand_int_range(random, 0, last)]);
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
#define LEAST     200 /* of the texts, untouched or changed, that must have been taken, and refused */
#define CHARACTER "{}[]:,\" \n-#&*!|>'%@`?ax0\\.eu1\x01\x80"

static void agrees_on_random_texts(void **state)
{
  g_autoptr(GRand) random = g_rand_new_with_seed(20261121);
  unsigned taken = 0, changed_taken = 0, refused = 0;
  for (unsigned i = 0; i < TEXTS; i++) {
    g_autoptr(GString) text = g_string_new("[");
    add_random(text, random, 0);
    g_string_append_c(text, ']');
    taken += agree(text->str);
    for (unsigned j = 0; j < 2; j++) {
      gsize at = (gsize)g_rand_int_range(random, 0, (int)text->len);
      text->str[at] = CHARACTER[g_rand_int_range(random, 0, sizeof CHARACTER - 1)];
      bool ok = agree(text->str);
      changed_taken += ok;
      refused += !ok;
    }
  }
  assert_true(taken >= LEAST && changed_taken >= LEAST && refused >= LEAST);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(valid_json),
      cmocka_unit_test(the_name_decides),
      cmocka_unit_test(many_keys),
      cmocka_unit_test(depth_is_bounded),
      cmocka_unit_test(agrees_on_random_texts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
