/* Linking: copies of the library's sub-kernels that a module calls and lacks. */
#include "ir/reducer.h"
#include <string.h>

typedef struct Link {
  IrModule *module;
  const IrModule *library;
} Link;

static void link_name(Link *link, const char *name)
{
  if (ir_function_find(link->module, name)) return;
  const IrFunction *function = ir_function_find(link->library, name);
  if (!function || function->is_kernel) return;
  ir_function_copy(link->module, function);
}

static void link_expr(const IrExpr *expr, void *data)
{
  if (expr->kind == EXPR_SYMBOL) link_name(data, expr->name);
}

static void link_op(IrOp *op, void *data)
{
  if (op->code == OP_CALL || op->code == OP_TILES) {
    const IrExpr *callee = op->operands[0];
    if (callee->kind == EXPR_SYMBOL || callee->kind == EXPR_NAME) link_name(data, callee->name);
  }
  const IrExpr *with = ir_attribute_value(op, ATTR_WITH);
  if (with) ir_expr_visit(with, link_expr, data);
  for (ReducerPart part = 0; with && with->kind == EXPR_SYMBOL && part < REDUCER_PARTS; part++)
    link_name(data, ir_reducer_part_name(((Link *)data)->module, with->name, part));
}

static bool has_parameter(const IrModule *module, const char *name)
{
  for (unsigned i = 0; i < module->n_parameters; i++)
    if (!strcmp(module->parameters[i].name, name)) return true;
  return false;
}

bool ir_link(IrModule *module, const IrModule *library, GError **error)
{
  if (library->n_parameters && !has_parameter(module, library->parameters[0].name)) {
    error_set(error, ERROR_INPUT, &library->parameters[0].mark, "library",
              "give its functions arguments instead", "a library has no template parameters of its own");
    return false;
  }
  Link link = {module, library};
  for (unsigned i = 0; i < module->n_parameters; i++)
    if (module->parameters[i].value) ir_expr_visit(module->parameters[i].value, link_expr, &link);
  for (unsigned i = 0; i < module->n_functions; i++) /* grows as functions are copied */
    ir_region_visit(module->functions[i]->body, link_op, &link);
  return true;
}
