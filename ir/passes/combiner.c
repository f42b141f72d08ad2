#include "ir/passes/combiner.h"
#include "ir/reducer.h"
#include <string.h>

static const struct {
  const char *name;
  IrOpcode code;
} named[] = {{"sum", OP_ADD}, {"prod", OP_MUL}, {"max", OP_MAX}, {"min", OP_MIN}};

static bool refuse(const IrOp *reduce, const IrOp *op, GError **error)
{
  error_set(error, ERROR_UNSUPPORTED, &op->mark, "combiner", "a sub-kernel of elementwise operations",
            "`%s` cannot be applied to what the blocks of a cluster have reduced (%s)",
            op->code == OP_REDUCE ? "reduce" : ir_op_info(op->code)->name,
            ir_expr_text(op->parent->function->module, ir_attribute_value(reduce, ATTR_WITH)));
  return false;
}

static bool apply_named(IrBuilder *builder, const IrOp *reduce, const IrType *shape, const char *name,
                        IrExpr **sum, IrExpr *const *part, GError **error)
{
  IrType type = *shape;
  type.element = reduce->results[0]->type.element;
  for (unsigned i = 0; i < G_N_ELEMENTS(named); i++) {
    if (strcmp(name, named[i].name)) continue;
    sum[0] = ir_emit_value(builder, named[i].code, type, name, 2, sum[0], part[0]);
    bool extremum = named[i].code == OP_MAX || named[i].code == OP_MIN;
    if (extremum && number_class(type.element) == NUMBER_FLOAT)
      ir_attribute_set(sum[0]->value->def, ATTR_NAN, NULL);
    return true;
  }
  return refuse(reduce, reduce, error);
}

bool combiner_apply(IrBuilder *builder, const IrOp *reduce, const IrType *shape, bool behind, IrExpr **sum,
                    IrExpr *const *part, GError **error)
{
  const IrExpr *with = ir_attribute_value(reduce, ATTR_WITH);
  if (with->kind == EXPR_NAME) return apply_named(builder, reduce, shape, with->name, sum, part, error);
  const IrFunction *in_order = behind ? ir_reducer_part(builder->module, with->name, REDUCER_BEHIND) : NULL,
                   *combiner = in_order ? in_order : ir_function_find(builder->module, with->name);
  unsigned n = reduce->n_results;
  IrExpr *arguments[2 * COMBINER_MAX], *results[COMBINER_MAX];
  for (unsigned i = 0; i < n; i++) {
    arguments[i] = sum[i];
    arguments[n + i] = part[i];
  }
  const IrOp *wrong = ir_reducer_apply(builder, combiner, shape, arguments, results);
  for (unsigned i = 0; i < n && !wrong; i++) {
    if (results[i]->kind != EXPR_VALUE) wrong = combiner->body->last;
    sum[i] = results[i];
  }
  return !wrong || refuse(reduce, wrong, error);
}
