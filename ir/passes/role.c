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
