/* The numbers of operations that the cost model has for functions of epilogues, against the templates' text.
 */
#include "generator/kernel/steps.h"
#include "ir/ir.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

static IrModule *read_file(const char *name)
{
  g_autofree char *path = g_strdup_printf("%s/templates/%s.ir", g_getenv("ADLGEN_SOURCE_ROOT"), name),
                  *text = NULL;
  assert_true(g_file_get_contents(path, &text, NULL, NULL));
  g_autoptr(GError) error = NULL;
  g_autoptr(Source) source = source_new(path, text, strlen(text));
  IrModule *module = ir_read(source, &error);
  if (!module) fail_msg("%s", error->message);
  return module;
}

typedef struct {
  const IrModule *const *modules; /* NULL ends the list */
  unsigned n;
} Count;

static unsigned count(const IrModule *const *modules, const char *name);

static void count_op(IrOp *op, void *data)
{
  Count *sum = data;
  switch (op->code) {
  case OP_BITCAST:
  case OP_NEG:
  case OP_ABS:
  case OP_LET:
  case OP_RETURN: return;
  case OP_CALL: sum->n += count(sum->modules, op->operands[0]->name); return;
  default: sum->n++;
  }
}

static const IrFunction *find(const IrModule *const *modules, const char *name)
{
  for (; *modules; modules++)
    if (ir_function_find(*modules, name)) return ir_function_find(*modules, name);
  return NULL;
}

static unsigned count(const IrModule *const *modules, const char *name)
{
  const IrFunction *function = find(modules, name);
  if (!function) fail_msg("no template has %s", name);
  Count sum = {modules, 0};
  ir_region_visit(function->body, count_op, &sum);
  return sum.n;
}

static unsigned count_form(const IrModule *const *modules, const char *name, StepPrecision precision)
{
  static const char *const forms[STEP_PRECISIONS] = {"_brief", "_narrow", ""};
  unsigned operations = 0;
  for (unsigned j = STEP_PRECISIONS;
       j-- > precision;) { /* what has no shorter form has the one for more bits */
    g_autofree char *form = g_strconcat(name, forms[j], NULL);
    if (find(modules, form)) operations = count(modules, form);
  }
  return operations;
}

/* "HardSwish": "hard_swish", as the templates call it. */
static char *function_name(const char *operator_name)
{
  GString *name = g_string_new(NULL);
  for (const char *p = operator_name; *p; p++) {
    if (g_ascii_isupper(*p) && p > operator_name) g_string_append_c(name, '_');
    g_string_append_c(name, g_ascii_tolower(*p));
  }
  return g_string_free(name, FALSE);
}

/* A function of several operations that the table lacks would count as one. */
static void test_complete(void **state)
{
  static const char *const suffixes[] = {"", "_integer"};
  IrModule *modules[] = {read_file("math"), read_file("math_narrow"), read_file("operators"), NULL};
  const IrModule *const *list = (const IrModule *const *)modules;
  unsigned n, n_operators, missing = 0;
  const StepOperations *table = steps_operations_table(&n);
  const Operator *operators = operator_table(&n_operators);
  for (unsigned i = 0; i < n_operators; i++)
    for (unsigned k = 0; k < G_N_ELEMENTS(suffixes); k++) {
      g_autofree char *plain = function_name(operators[i].name),
                      *name = g_strconcat(plain, suffixes[k], NULL);
      if (operators[i].class_ != OPERATOR_ELEMENTWISE || !find(list, name) || count(list, name) < 2) continue;
      bool known = false;
      for (unsigned j = 0; j < n; j++)
        known |= table[j].id == operators[i].id && !strcmp(table[j].name, name);
      if (known) continue;
      print_error("the table lacks {ONNX_%s, \"%s\", {%u, %u, %u}}\n", operators[i].name, name,
                  count_form(list, name, STEP_BRIEF), count_form(list, name, STEP_NARROW),
                  count_form(list, name, STEP_FULL));
      missing++;
    }
  assert_int_equal(missing, 0);
  for (unsigned i = 0; modules[i]; i++)
    ir_module_free(modules[i]);
}

static void test_counts(void **state)
{
  IrModule *modules[] = {read_file("math"), read_file("math_narrow"), read_file("operators"), NULL};
  const IrModule *const *list = (const IrModule *const *)modules;
  unsigned n;
  const StepOperations *table = steps_operations_table(&n);
  assert_true(n > 20);
  for (unsigned i = 0; i < n; i++) {
    for (unsigned j = STEP_PRECISIONS; j--;) {
      unsigned operations = count_form(list, table[i].name, j);
      if (operations != table[i].n[j])
        fail_msg("%s, precision %u: the templates have %u operations, the table %u", table[i].name, j,
                 operations, table[i].n[j]);
    }
  }
  for (unsigned i = 0; modules[i]; i++)
    ir_module_free(modules[i]);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_counts), cmocka_unit_test(test_complete)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
