#include "ir/facts.h"
#include "ir/passes/split_roles.h"

IrExpr *role_rewrite(Role *role, const IrExpr *expr)
{
  IrModule *module = role->split->module;
  if (expr->kind == EXPR_VALUE) {
    IrExpr *with = g_hash_table_lookup(role->map, expr->value);
    return with ? with : (IrExpr *)expr;
  }
  if (expr->n == 0) return (IrExpr *)expr;
  IrExpr *copy = arena_memdup(module->arena, expr, sizeof *expr);
  copy->items = arena_new_array(module->arena, IrExpr *, expr->n);
  for (unsigned i = 0; i < expr->n; i++)
    copy->items[i] = role_rewrite(role, expr->items[i]);
  if (copy->kind == EXPR_BINARY) return ir_binary(module, copy->operator_, copy->items[0], copy->items[1]);
  if (copy->kind == EXPR_FIELD && copy->items[0]->kind == EXPR_SYMBOL && role->cursors) {
    IrExpr *cursor = g_hash_table_lookup(role->cursors, copy->items[0]->name);
    if (cursor) return ir_index(module, copy, 1, cursor);
  }
  return copy;
}

IrOp *role_copy_op(Role *role, IrBuilder *builder, const IrOp *op)
{
  IrModule *module = role->split->module;
  builder->mark = op->mark;
  IrExpr **operands = arena_new_array(module->arena, IrExpr *, MAX(1, op->n_operands));
  for (unsigned i = 0; i < op->n_operands; i++)
    operands[i] = role_rewrite(role, op->operands[i]);
  IrOp *copy = ir_emit_array(builder, op->code, op->n_operands, operands);
  for (unsigned i = 0; i < op->n_attributes; i++)
    ir_attribute_set(copy, op->attributes[i].key,
                     op->attributes[i].value ? role_rewrite(role, op->attributes[i].value) : NULL);
  copy->symbol = op->symbol;
  copy->declared = op->declared;
  for (unsigned i = 0; i < op->n_results; i++) {
    IrValue *value = ir_result(copy, op->results[i]->name, op->results[i]->type);
    value->variable = op->results[i]->variable;
    g_hash_table_insert(role->map, op->results[i], ir_value(module, value));
  }
  return copy;
}

IrOp *role_channel_of(Split *split, const IrExpr *access)
{
  IrOp *channel = NULL;
  if (access->kind == EXPR_SYMBOL)
    channel = ir_symbol_find(split->kernel, access->name);
  else
    ir_slot_of(split->kernel, access, &channel);
  return channel;
}

IrExpr *role_cursor_new(Split *split, IrBuilder *builder, const char *channel, const char *name)
{
  IrOp *op = ir_emit(builder, OP_CURSOR, 1, ir_symbol(split->module, channel));
  IrType type = {.kind = TYPE_CURSOR, .count = 1};
  IrValue *value = ir_result(op, name, type);
  value->variable = true;
  return ir_value(split->module, value);
}

IrOp *role_emit_copy(Role *role, IrBuilder *builder, const IrOp *fill, IrExpr *cursor)
{
  Split *split = role->split;
  builder->mark = fill->mark;
  const IrExpr *part = fill->operands[0]->kind == EXPR_INDEX ? fill->operands[0] : NULL;
  IrExpr *destination = ir_index(split->module, part ? part->items[0] : fill->operands[0], 1, cursor);
  if (part) destination = ir_index_array(split->module, destination, part->n - 1, part->items + 1);
  IrOp *copy = ir_emit(builder, OP_COPY, 2, destination, role_rewrite(role, fill->operands[1]));
  ir_attribute_set(copy, ATTR_VIA, ir_attribute_value(fill, ATTR_VIA));
  if (ir_attribute(fill, ATTR_SIZE)) ir_attribute_set(copy, ATTR_SIZE, ir_attribute_value(fill, ATTR_SIZE));
  if (ir_attribute(fill, ATTR_CACHE))
    ir_attribute_set(copy, ATTR_CACHE, ir_attribute_value(fill, ATTR_CACHE));
  if (ir_attribute_int(fill, ATTR_UNDEFINED, -1) >= 0)
    ir_attribute_set(copy, ATTR_UNDEFINED, ir_attribute_value(fill, ATTR_UNDEFINED));
  return copy;
}
