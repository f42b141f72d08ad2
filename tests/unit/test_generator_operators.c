#include "generator/operators.h"
#include "reference/operators.h"
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* What the comments of operators.h and operators.def promise of every row. */
static void test_rows(void **state)
{
  unsigned n;
  const Operator *rows = operator_table(&n);
  for (unsigned i = 0; i < n; i++) {
    const Operator *row = &rows[i];
    assert_true(operator_in_onnx(row->name));
    assert_true(reference_knows(row->name));
    assert_true(row->since <= OPERATOR_OPSET_DEFAULT && row->since >= OPERATOR_OPSET_MIN);
    assert_true(row->min_inputs >= 1 && row->min_inputs <= row->max_inputs);
    assert_true(row->max_inputs == UINT_MAX || row->max_inputs <= OPERATOR_MAX_INPUTS);
    assert_int_equal(row->min_outputs, 1);
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

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_versions)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
