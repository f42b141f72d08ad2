#include "generator/front/onnx.h"
#include "generator/front/operators.h"
#include "reference/operators.h"
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* ONNX has the operator in the row's first opset and in all later ones, with as many inputs and outputs; what we
 * add are the types, and these attributes. */
static bool is_ours(const char *attribute)
{
  static const char *const ours[] = {"accumulate",  "alpha",   "block_shape", "dims",
                                     "masked_rows", "weights", NULL};
  return g_strv_contains(ours, attribute);
}

static void check_against_onnx(const Operator *row)
{
  unsigned n;
  const Operator *rows = operator_table(&n), *newer = row;
  for (const Operator *other = rows; other < rows + n; other++)
    if (other->id == row->id && other->since > row->since) newer = other; /* the next one: newest first */
  unsigned end = newer == row ? onnx_opset() : newer->since - 1;
  for (unsigned opset = row->since; opset <= end; opset++) {
    const OnnxOperator *onnx = onnx_find(row->domain, row->name, opset);
    if (onnx && !onnx->inputs && opset > row->since) return; /* ONNX has it no more */
    if (!onnx || !onnx->inputs) fail_msg("ONNX has no %s in opset %u", row->name, opset);
    if (row->min_inputs != onnx->min_inputs || row->max_inputs != onnx->max_inputs ||
        row->min_outputs != onnx->min_outputs || row->max_outputs != onnx->max_outputs)
      fail_msg("%s of opset %u has other inputs or outputs", row->name, opset);
    for (unsigned j = 0; j < row->n_attributes; j++)
      if (!onnx_attribute_since(onnx, row->attributes[j].name) && !is_ours(row->attributes[j].name))
        fail_msg("no %s of ONNX has %s", row->name, row->attributes[j].name);
    char *list = onnx_attribute_list(onnx), *rest = list, *name;
    while ((name = strsep(&rest, ", ")))
      if (*name && operator_attribute_index(row, name) < 0)
        fail_msg("%s of opset %u has %s, ours has not", row->name, opset, name);
    g_free(list);
  }
}

/* What the comments of operators.h and operators.def promise of every row. */
static void test_rows(void **state)
{
  unsigned n;
  const Operator *rows = operator_table(&n);
  for (unsigned i = 0; i < n; i++) {
    const Operator *row = &rows[i];
    if (!*row->domain) {
      assert_true(operator_in_onnx(row->name));
      check_against_onnx(row);
    }
    /* a function's meaning is its body's; of a former version, which is a function of the newest, that has one */
    bool shared = !strcmp(row->domain, "com.microsoft"); /* ONNX may have the name too */
    OperatorClass class_ = operator_of(row->id)->class_;
    bool known =
        class_ != OPERATOR_FUNCTION && class_ != OPERATOR_LOOP; /* loops are walked through by who asks */
    assert_true(shared || reference_knows(row->name) == known);
    assert_true(row->since <= onnx_opset() && row->since >= OPERATOR_OPSET_MIN);
    assert_true(row->min_inputs >= 1 && row->min_inputs <= row->max_inputs);
    assert_true(row->max_inputs == UINT_MAX || row->max_inputs <= OPERATOR_MAX_INPUTS);
    assert_true(row->max_outputs >= 1 && row->min_outputs <= row->max_outputs);
    assert_true(row->max_outputs == UINT_MAX || row->max_outputs <= OPERATOR_MAX_OUTPUTS);
    assert_int_equal(row->generated & ~row->types, 0);
    assert_true(row->n_attributes <= OPERATOR_MAX_ATTRIBUTES);
    for (unsigned j = 1; j < row->n_attributes; j++)
      assert_true(strcmp(row->attributes[j - 1].name, row->attributes[j].name) < 0);
    if (i && rows[i - 1].id == row->id) assert_true(rows[i - 1].since > row->since);
  }
}

static void test_versions(void **state)
{
  const Operator *newer;
  assert_int_equal(operator_find("", "ReduceSum", 27, &newer)->max_inputs, 2);
  assert_int_equal(operator_find("", "ReduceSum", 12, &newer)->max_inputs, 1);
  assert_int_equal(operator_find("ai.onnx", "Softmax", 12, &newer)->attributes[0].integer, 1);
  assert_int_equal(operator_find("", "Softmax", 13, &newer)->attributes[0].integer, -1);
  assert_null(operator_find("", "Swish", 23, &newer));
  assert_int_equal(newer->since, 24);
  assert_null(operator_find("com.example", "Add", 27, &newer));
  assert_null(newer);
  assert_null(operator_find("", "Conv", 27, &newer));
  assert_true(operator_in_onnx("Conv"));
  assert_false(operator_in_onnx("Konv"));
}

static void test_aliases(void **state)
{
  unsigned n;
  const OperatorAlias *aliases = operator_aliases(&n);
  g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
  for (unsigned i = 0; i < n; i++) {
    const OperatorAlias *alias = &aliases[i];
    if (!g_hash_table_add(seen, (char *)alias->name)) fail_msg("%s stands twice", alias->name);
    for (const char *c = alias->name; *c; c++)
      assert_true(g_ascii_islower(*c) || g_ascii_isdigit(*c));
    if (alias->meant && !operator_in_onnx(alias->meant)) fail_msg("%s is no operator", alias->meant);
    assert_true(alias->meant || alias->note);
    /* one that differs in case from a supported operator would never be shown */
    for (const char *const *name = operator_names(); *name; name++)
      if (!g_ascii_strcasecmp(*name, alias->name)) fail_msg("%s is an operator", alias->name);
    g_autofree char *hint = operator_suggest(alias->name);
    if (!hint || (alias->meant && !strstr(hint, alias->meant))) fail_msg("%s: %s", alias->name, hint);
  }
}

static void test_names_are_told_by_case_first(void **state)
{
  for (const char *const *name = operator_onnx_names(); *name; name++) {
    g_autofree char *upper = g_ascii_strup(*name, -1), *lower = g_ascii_strdown(*name, -1);
    const char *const spellings[] = {upper, lower};
    for (unsigned i = 0; i < 2; i++) {
      g_autofree char *hint = operator_suggest(spellings[i]);
      g_autofree char *start = g_strdup_printf("did you mean `%s`", *name);
      if (!hint || !g_str_has_prefix(hint, start)) fail_msg("%s: %s", spellings[i], hint);
    }
  }
}

static void test_onnx(void **state)
{
  const OnnxOperator *cast = onnx_find("", "Cast", 27), *max = onnx_find("", "Max", 13);
  bool required;
  size_t length;
  assert_int_equal(onnx_attribute(cast, "to", &required), 'i');
  assert_true(required);
  assert_int_equal(onnx_attribute(cast, "round_mode", &required), 's');
  assert_false(required);
  assert_int_equal(onnx_attribute(cast, "t", NULL), 0);
  assert_int_equal(onnx_attribute(cast, "round", NULL), 0);
  assert_int_equal(onnx_attribute_since(cast, "saturate"), 19);
  assert_memory_equal(onnx_required(cast, 0, &length), "to", 2);
  assert_int_equal(length, 2);
  assert_null(onnx_required(cast, 1, &length));
  assert_int_equal(onnx_input(max, 0).types, onnx_input(max, 77).types);
  assert_true(onnx_input(max, 5).variable && onnx_input(max, 5).types >> 1 & 1);
  assert_false(onnx_input(max, 5).types >> 8 & 1); /* string */
  assert_true(onnx_input(onnx_find("", "Clip", 13), 2).optional);
  assert_null(onnx_find("", "Upsample", 10)->inputs);
  assert_null(onnx_find("", "Swish", 23));
  assert_int_equal(onnx_newer("", "Swish", 23)->since, 24);
  assert_true(onnx_has_domain("ai.onnx.ml") && onnx_has_domain("ai.onnx"));
  assert_false(onnx_has_domain("com.microsoft"));
  assert_int_equal(onnx_type_parse("u16"), 4);
  assert_int_equal(onnx_type_parse("FLOAT8E8M0"), 24);
  assert_int_equal(onnx_type_parse("u17"), 0);
  assert_null(onnx_type_name(0));
  assert_null(onnx_type_name(1000));
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_versions),
                                     cmocka_unit_test(test_onnx), cmocka_unit_test(test_aliases),
                                     cmocka_unit_test(test_names_are_told_by_case_first)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
