/* Functions in 64 bits. NAME_f64 and NAME_s64 are what templates/math_wide.ir or operators.ir have by that name. What they lack is, of
 * operators.ir, whose functions are operations alone, NAME read in 64 bits: its copy takes the place of a text of its own. */
#include "generator/kernel/steps.h"
#include <string.h>

typedef struct Wide {
  const StepWriter *writer;
  const char *suffix;
  bool lacks;
} Wide;

static void widen_callee(IrOp *op, void *data)
{
  Wide *wide = data;
  if (op->code != OP_CALL || !g_str_has_suffix(op->operands[0]->name, wide->suffix)) return;
  const char *name = op->operands[0]->name;
  g_autofree char *plain = g_strndup(name, strlen(name) - strlen(wide->suffix));
  if (!step_wide_function(wide->writer, plain, wide->suffix)) wide->lacks = true;
}

const char *step_wide_function(const StepWriter *writer, const char *name, const char *suffix)
{
  IrModule *module = writer->builder->module;
  const char *form = arena_printf(module->arena, "%s%s", name, suffix);
  if (ir_function_find(module, form) || ir_function_find(writer->wide, form)) return form;
  const IrFunction *own = ir_function_find(writer->operators, form),
                   *plain = ir_function_find(writer->operators, name);
  if (!own && !plain) return NULL;
  if (!own && plain->n_parameters &&
      number_bits(plain->parameters[0]->type.element) > number_bits(NUMBER_F32))
    return name;
  IrFunction *made = own ? ir_function_copy(module, own) : ir_function_widen(module, plain, suffix);
  Wide wide = {writer, suffix, false};
  ir_region_visit(made->body, widen_callee, &wide);
  return wide.lacks ? NULL : form;
}
