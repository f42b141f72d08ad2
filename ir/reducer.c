/* Parts of reducers, found by name and applied to tiles. */
#include "ir/reducer.h"
#include <math.h>
#include <string.h>

static const char *const suffix[REDUCER_PARTS] = {"identity", "lift",  "stay", "behind",
                                                  "settled",  "raise", "share"};

const IrFunction *ir_reducer_part(const IrModule *module, const char *name, ReducerPart part)
{
  g_autofree char *full = g_strconcat(name, "_", suffix[part], NULL);
  return ir_function_find(module, full);
}

const char *ir_reducer_part_name(IrModule *module, const char *name, ReducerPart part)
{
  return arena_printf(module->arena, "%s_%s", name, suffix[part]);
}

bool ir_reduction_lifts(const IrOp *reduce)
{
  const IrExpr *with = ir_attribute_value(reduce, ATTR_WITH);
  const IrModule *module = reduce->parent->function->module;
  const IrFunction *merge = with && with->kind == EXPR_SYMBOL ? ir_function_find(module, with->name) : NULL;
  const IrFunction *lift = merge ? ir_reducer_part(module, with->name, REDUCER_LIFT) : NULL;
  return lift && lift->n_parameters == reduce->n_operands && lift->n_results == reduce->n_results &&
         merge->n_parameters == 2 * reduce->n_results;
}

bool ir_reducer_commutes(const IrFunction *merge)
{
  unsigned n = merge->n_results;
  for (const IrOp *op = merge->body->first; op && op->code != OP_RETURN; op = op->next) {
    bool exchanges = op->code == OP_ADD || op->code == OP_MUL || op->code == OP_MIN || op->code == OP_MAX,
         sides = false;
    for (unsigned i = 0; exchanges && i < n && op->n_operands == 2; i++)
      sides |= op->operands[0]->kind == EXPR_VALUE && op->operands[0]->value == merge->parameters[i] &&
               op->operands[1]->kind == EXPR_VALUE && op->operands[1]->value == merge->parameters[n + i];
    if (!sides) return false;
  }
  return true;
}

IrExpr *ir_reduction_identity(IrModule *module, const char *with, NumberType element)
{
  bool real = number_class(element) == NUMBER_FLOAT, sign = number_class(element) == NUMBER_SIGNED;
  unsigned bits = MIN(number_bits(element) - (sign ? 1 : 0), 63u);
  int64_t most = (int64_t)(((uint64_t)1 << bits) - 1);
  if (!strcmp(with, "sum")) return real ? ir_float(module, 0.0) : ir_int(module, 0);
  if (!strcmp(with, "prod")) return real ? ir_float(module, 1.0) : ir_int(module, 1);
  if (!strcmp(with, "max")) return real ? ir_float(module, -INFINITY) : ir_int(module, sign ? -most - 1 : 0);
  if (!strcmp(with, "min")) return real ? ir_float(module, INFINITY) : ir_int(module, most);
  return NULL;
}

/* Elementwise operations on values and constants; infix arithmetic has no form for tiles. */
static bool is_applicable(const IrOp *op)
{
  if (op->n_results != 1 || op->n_regions || !ir_op_is_elementwise(op->code)) return false;
  for (unsigned i = 0; i < op->n_operands; i++)
    if (op->operands[i]->n && op->operands[i]->kind != EXPR_UNARY) return false;
  return true;
}

const IrOp *ir_reducer_apply(IrBuilder *builder, const IrFunction *function, const IrType *shape,
                             IrExpr *const *arguments, IrExpr **results)
{
  g_autoptr(GHashTable) map = g_hash_table_new(NULL, NULL);
  for (unsigned i = 0; i < function->n_parameters; i++)
    g_hash_table_insert(map, function->parameters[i], arguments[i]);
  const IrOp *end = function->body->last;
  for (const IrOp *op = function->body->first; op && op != end; op = op->next) {
    if (!is_applicable(op)) return op;
    IrOp *copy = ir_op_clone(builder, op, map);
    const IrType *type = &op->results[0]->type;
    NumberType element = type->kind == TYPE_PREDICATE ? NUMBER_BOOL : type->element;
    copy->results[0]->type = *shape;
    copy->results[0]->type.element = element;
  }
  for (unsigned i = 0; i < function->n_results; i++) {
    IrExpr *value = end->operands[i];
    bool literal = !value->n || (value->kind == EXPR_UNARY && !value->items[0]->n);
    results[i] = value->kind == EXPR_VALUE ? g_hash_table_lookup(map, value->value) : literal ? value : NULL;
    if (!results[i]) return end;
  }
  return NULL;
}
