#include "ir/passes/combiner.h"
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

static bool apply_named(IrBuilder *builder, const IrOp *reduce, const char *name, IrExpr **sum,
                        IrExpr *const *part, GError **error)
{
  IrType type = reduce->results[0]->type;
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

/* Elementwise operations on single values and constants; infix arithmetic has no form for tiles. */
static bool is_applicable(const IrOp *op)
{
  if (op->n_results != 1 || op->n_regions || !(ir_op_is_elementwise(op->code) || op->code == OP_CAST))
    return false;
  for (unsigned i = 0; i < op->n_operands; i++)
    if (op->operands[i]->n && op->operands[i]->kind != EXPR_UNARY) return false;
  return true;
}

bool combiner_apply(IrBuilder *builder, const IrOp *reduce, IrExpr **sum, IrExpr *const *part, GError **error)
{
  const IrExpr *with = ir_attribute_value(reduce, ATTR_WITH);
  if (with->kind == EXPR_NAME) return apply_named(builder, reduce, with->name, sum, part, error);
  const IrFunction *combiner = ir_function_find(builder->module, with->name);
  unsigned n = reduce->n_results;
  g_autoptr(GHashTable) map = g_hash_table_new(NULL, NULL);
  for (unsigned i = 0; i < n; i++) {
    g_hash_table_insert(map, combiner->parameters[i], sum[i]);
    g_hash_table_insert(map, combiner->parameters[n + i], part[i]);
  }
  for (const IrOp *op = combiner->body->first; op && op->code != OP_RETURN; op = op->next) {
    if (!is_applicable(op)) return refuse(reduce, op, error);
    IrOp *copy = ir_op_clone(builder, op, map);
    NumberType element =
        op->results[0]->type.kind == TYPE_PREDICATE ? NUMBER_BOOL : op->results[0]->type.element;
    copy->results[0]->type = reduce->results[0]->type;
    copy->results[0]->type.element = element;
  }
  const IrOp *end = combiner->body->last;
  for (unsigned i = 0; i < n; i++) {
    sum[i] = end->operands[i]->kind == EXPR_VALUE ? g_hash_table_lookup(map, end->operands[i]->value) : NULL;
    if (!sum[i]) return refuse(reduce, end, error);
  }
  return true;
}
