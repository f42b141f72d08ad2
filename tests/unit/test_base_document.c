#include "base/document.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static Document *parse_bytes(const char *text, size_t length, GError **error)
{
  g_autoptr(Source) source = source_new("t.yaml", text, length);
  return document_parse(source, error);
}

static Document *parse(const char *text, GError **error)
{
  return parse_bytes(text, strlen(text), error);
}

static void test_yaml_and_json_give_the_same_tree(void **state)
{
  static const char *const texts[] = {"a: 1\nb: [x, {c: 2.5}]\n", "{\"a\":1,\"b\":[\"x\",{\"c\":2.5}]}",
                                      "{\n\t\"a\": 1,\n\t\"b\": [\"x\", {\"c\": 2.5}]\n}\n"};
  for (unsigned i = 0; i < G_N_ELEMENTS(texts); i++) {
    g_autoptr(GError) error = NULL;
    g_autoptr(Document) document = parse(texts[i], &error);
    assert_null(error);
    Node *root = document_root(document);
    assert_int_equal(root->kind, NODE_MAPPING);
    int64_t a;
    double c;
    const char *x;
    assert_true(node_integer(node_require(root, "a", &error), &a, &error));
    Node *b = node_get(root, "b");
    assert_int_equal(b->n, 2);
    assert_true(node_string(b->items[0], &x, &error));
    assert_true(node_number(node_get(b->items[1], "c"), &c, &error));
    assert_int_equal(a, 1);
    assert_string_equal(x, "x");
    assert_true(c == 2.5);
    assert_true(node_finish(root, (const char *const[]){"a", "b", NULL}, &error));
  }
}

static void test_marks(void **state)
{
  g_autoptr(Document) document = parse("a: 1\nb:\n  - x\n  - y\n", NULL);
  Node *y = node_get(document_root(document), "b")->items[1];
  assert_int_equal(y->mark.line, 4);
  assert_int_equal(y->mark.column, 5);
  assert_int_equal(document_root(document)->key_marks[1].line, 2);
}

static void test_refused_texts(void **state)
{
  g_autofree char *deep = g_strnfill(100, '[');
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"", "t.yaml:1:1: error: the file holds no document\n"},
      {"a: 1\na: 2\n", "t.yaml:2:1: error: duplicate key `a`\n  a: 2\n  ^\n"
                       "t.yaml:1:1: note: first given here\n  a: 1\n  ^\n"},
      {"a: &x 1\n",
       "t.yaml:1:4: error: anchors are not allowed\n  a: &x 1\n     ^\nhint: write the value out\n"},
      {"a: *x\n", "t.yaml:1:4: error: aliases are not allowed\n  a: *x\n     ^\nhint: write the value out\n"},
      {"a: !!int 1\n",
       "t.yaml:1:4: error: tags are not allowed\n  a: !!int 1\n     ^\nhint: remove the tag\n"},
      {"a: 1\n---\nb: 2\n",
       "t.yaml:2:1: error: a second document begins here\n  ---\n  ^\nhint: one document per file\n"},
      {"? [a]\n: 1\n", "t.yaml:1:3: error: a key must be a plain name\n  ? [a]\n    ^\n"},
      {"a: \"\\0\"\n", "t.yaml:1:4: error: a NUL character is not allowed\n  a: \"\\0\"\n     ^\n"},
      {"a: [1, 2\n", NULL},
      {"a: \xff\n", NULL},
      {"{\"a\": 1", NULL},
  };
  for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(GError) error = NULL;
    assert_null(parse(cases[i].text, &error));
    assert_int_equal(error_exit_code(error), ERROR_INPUT);
    g_autofree char *text = error_to_text(error, false);
    if (cases[i].message) assert_string_equal(text, cases[i].message);
  }
  g_autoptr(GError) error = NULL;
  assert_null(parse(deep, &error));
  assert_string_equal(error->message, "nested deeper than 64 levels");
  g_clear_error(&error);
  assert_null(parse_bytes("a\0b", 3, &error));
  assert_string_equal(error->message, "a NUL byte: this is not a text file");
}

static void test_unknown_and_missing_keys(void **state)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(Document) document = parse("sm_conut: 1\nzebra: 2\n", NULL);
  Node *root = document_root(document);
  assert_null(node_require(root, "sm_count", &error));
  assert_false(node_finish(root, (const char *const[]){"sm_count", "target", NULL}, &error));
  g_autofree char *text = error_to_text(error, false);
  assert_string_equal(text, "t.yaml:1:1: error: missing key `sm_count`\n  sm_conut: 1\n  ^\n"
                            "t.yaml:1:1: error: unknown key `sm_conut`\n"
                            "hint: did you mean `sm_count`? Known keys: sm_count, target\n"
                            "t.yaml:2:1: error: unknown key `zebra`\n  zebra: 2\n  ^\n"
                            "hint: known keys: sm_count, target\n");
}

static void test_scalars(void **state)
{
  static const struct {
    const char *text;
    bool is_string, is_integer, is_number, is_boolean, is_null;
  } cases[] = {
      {"abc", true},
      {"\"7\"", true},
      {"'null'", true},
      {"sm_80", true},
      {"7", false, true, true},
      {"-12", false, true, true},
      {"0x1f", false, true, true},
      {"1.5", false, false, true},
      {"1e3", false, false, true},
      {"1e999", false},
      {"99999999999999999999", false, false, true},
      {"true", false, false, false, true},
      {"null", false, false, false, false, true},
      {"~", false, false, false, false, true},
      {".inf", true},
      {"1.2.3", true},
      {"[1]", false},
  };
  for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = g_strdup_printf("k: %s\n", cases[i].text);
    g_autoptr(Document) document = parse(text, NULL);
    Node *node = node_get(document_root(document), "k");
    const char *string;
    int64_t integer;
    double number;
    bool boolean;
    assert_int_equal(node_string(node, &string, NULL), cases[i].is_string);
    assert_int_equal(node_integer(node, &integer, NULL), cases[i].is_integer);
    assert_int_equal(node_number(node, &number, NULL), cases[i].is_number);
    assert_int_equal(node_boolean(node, &boolean, NULL), cases[i].is_boolean);
    assert_int_equal(node_is_null(node), cases[i].is_null);
  }
}

static void test_wrong_type_messages(void **state)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(Document) document = parse("a: x\nb: [1]\nc: 5\nd:\n", NULL);
  Node *root = document_root(document);
  int64_t integer;
  const char *string;
  assert_false(node_integer(node_get(root, "a"), &integer, &error));
  assert_false(node_integer(node_get(root, "b"), &integer, &error));
  assert_false(node_string(node_get(root, "c"), &string, &error));
  assert_false(node_string(node_get(root, "d"), &string, &error));
  assert_false(node_kind_is(node_get(root, "a"), NODE_MAPPING, "limits", &error));
  static const char *const expected[] = {
      "expected an integer, found `x`", "expected an integer, found a list", "expected a string, found `5`",
      "expected a string, found nothing", "expected a mapping (limits), found `x`"};
  const GPtrArray *diagnostics = error_diagnostics(error);
  assert_int_equal(diagnostics->len, G_N_ELEMENTS(expected));
  for (unsigned i = 0; i < diagnostics->len; i++)
    assert_string_equal(((Diagnostic *)diagnostics->pdata[i])->message, expected[i]);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_yaml_and_json_give_the_same_tree),
      cmocka_unit_test(test_marks),
      cmocka_unit_test(test_refused_texts),
      cmocka_unit_test(test_unknown_and_missing_keys),
      cmocka_unit_test(test_scalars),
      cmocka_unit_test(test_wrong_type_messages),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
