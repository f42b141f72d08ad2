#include "ir/passes/scheduler.h"
#include "ir/facts.h"

const IrFunction *scheduler_of(const IrModule *module, const IrOp *tiles)
{
  const IrExpr *name = tiles->operands[0];
  return name->kind == EXPR_SYMBOL || name->kind == EXPR_NAME ? ir_function_find(module, name->name) : NULL;
}

typedef struct {
  const IrOp *tiles;
  const IrOp *writes;    /* an operation of the sub-kernel that writes */
  const IrOp *other;     /* one that computes no number */
  const IrExpr *changed; /* what the sub-kernel is given and the kernel writes */
} Writes;

/* Numbers, what they are computed from, and what decides. */
static bool is_number_op(const IrOp *op)
{
  for (unsigned i = 0; i < op->n_results; i++)
    if (op->results[i]->type.kind != TYPE_SCALAR) return false;
  switch (op->code) {
  case OP_LET:
  case OP_VAR:
  case OP_SET:
  case OP_LOAD:
  case OP_FOR:
  case OP_LOOP:
  case OP_IF:
  case OP_BREAK_IF:
  case OP_SCAN_LANES:
  case OP_COUNT_LANES:
  case OP_OF_LANE:
  case OP_RETURN: return true;
  default: return ir_op_is_elementwise(op->code);
  }
}

static void find_write(IrOp *op, void *data)
{
  Writes *found = data;
  if (!found->other && !is_number_op(op)) found->other = op;
  if (op->code != OP_SET && ir_op_effects(op->code) & EFFECT_WRITE) found->writes = op;
}

static void find_change(IrOp *op, void *data)
{
  Writes *found = data;
  if (!(ir_op_effects(op->code) & EFFECT_WRITE) || !op->n_operands) return;
  const IrExpr *base = ir_access_base(op->operands[0]);
  if (base->kind != EXPR_VALUE || base->value->type.kind != TYPE_TENSOR) return;
  for (unsigned i = 1; i < found->tiles->n_operands; i++)
    if (found->tiles->operands[i]->kind == EXPR_VALUE && found->tiles->operands[i]->value == base->value)
      found->changed = base;
}

static bool check_memory(const IrModule *module, const IrFunction *scheduler, const IrOp *tiles,
                         GError **error)
{
  Writes found = {.tiles = tiles};
  ir_region_visit(scheduler->body, find_write, &found);
  ir_region_visit(ir_kernel(module)->body, find_change, &found);
  if (found.writes)
    error_set(error, ERROR_INPUT, &found.writes->mark, "scheduler", "every role asks a copy of its own",
              "`@%s` orders tiles, and may write nothing", scheduler->name);
  else if (found.changed)
    error_set(error, ERROR_INPUT, &tiles->mark, "scheduler", "roles ask it at different times",
              "`@%s` reads `%s`, which the kernel writes", scheduler->name, found.changed->value->name);
  else if (found.other)
    error_set(error, ERROR_INPUT, &found.other->mark, "scheduler", "loads, arithmetic, loops and conditions",
              "`@%s` orders tiles by numbers, and has no use for `%s`", scheduler->name,
              ir_op_info(found.other->code)->name);
  return !found.writes && !found.changed && !found.other;
}

bool scheduler_check(const IrModule *module, const IrOp *tiles, GError **error)
{
  static const char *const known[] = {"linear", "raster", NULL};
  const char *name = tiles->operands[0]->name;
  const IrFunction *scheduler = scheduler_of(module, tiles);
  if (scheduler) return check_memory(module, scheduler, tiles, error);
  if (g_strv_contains(known, name)) return true;
  error_set(error, ERROR_INPUT, &tiles->mark, "scheduler",
            "raster(m, n), linear(n), or a sub-kernel of this file", "there is no tile scheduler `%s`", name);
  return false;
}

static void find_lanes(IrOp *op, void *data)
{
  *(bool *)data |= op->code == OP_SCAN_LANES || op->code == OP_COUNT_LANES || op->code == OP_OF_LANE;
}

bool scheduler_asks_lanes(const IrFunction *scheduler)
{
  bool found = false;
  if (scheduler) ir_region_visit(scheduler->body, find_lanes, &found);
  return found;
}

void scheduler_forget(IrModule *module, const IrOp *tiles)
{
  const IrFunction *scheduler = scheduler_of(module, tiles);
  unsigned kept = 0;
  for (unsigned i = 0; i < module->n_functions; i++)
    if (module->functions[i] != scheduler) module->functions[kept++] = module->functions[i];
  module->n_functions = kept;
}

/* ---- the walk ---- */

/* A dimension of the sub-kernel is an extent of the tensor that it is called with. */
typedef struct {
  const IrFunction *scheduler;
  IrExpr *const *arguments;
} Binding;

static IrExpr *bind_dim(const IrExpr *leaf, void *data)
{
  const Binding *binding = data;
  if (leaf->kind != EXPR_DIM) return NULL;
  for (unsigned i = 1; i < binding->scheduler->n_parameters; i++) {
    const IrType *type = &binding->scheduler->parameters[i]->type;
    const IrExpr *given = binding->arguments[i - 1];
    if (type->kind != TYPE_TENSOR || given->kind != EXPR_VALUE) continue;
    for (unsigned d = 0; d < type->rank; d++)
      if (type->dims[d]->kind == EXPR_DIM && !strcmp(type->dims[d]->name, leaf->name))
        return given->value->type.dims[d];
  }
  return NULL;
}

static void bind_op(IrOp *op, void *data)
{
  const void *const *context = data;
  IrModule *module = (IrModule *)context[0];
  void *binding = (void *)context[1];
  for (unsigned i = 0; i < op->n_operands; i++)
    op->operands[i] = ir_expr_map(module, op->operands[i], bind_dim, binding);
  for (unsigned i = 0; i < op->n_attributes; i++)
    if (op->attributes[i].value)
      op->attributes[i].value = ir_expr_map(module, op->attributes[i].value, bind_dim, binding);
}

/* What the sub-kernel keeps from tile to tile starts in front of the walk. */
static void keep_variables(IrRegion *body)
{
  for (IrOp *op = body->first, *next; op; op = next) {
    next = op->next;
    if (op->code != OP_VAR || !ir_attribute(op, ATTR_KEPT)) continue;
    ir_attribute_remove(op, ATTR_KEPT);
    ir_op_move(op, body->owner->parent, body->owner);
  }
}

IrBuilder scheduler_open(IrBuilder *builder, const IrFunction *scheduler, IrExpr *const *arguments,
                         IrExpr **coordinates, IrExpr **index, IrExpr **total)
{
  IrModule *module = builder->module;
  IrExpr *first = ir_call(module, "block", 1, ir_int(module, 0));
  *index = ir_emit_value(builder, OP_VAR, ir_scalar(NUMBER_S32), "tile", 1, first);
  (*index)->value->variable = true;
  if (total) {
    *total = ir_emit_value(builder, OP_VAR, ir_scalar(NUMBER_S32), "tiles", 1, ir_int(module, 0));
    (*total)->value->variable = true;
  }
  IrRegion *body = ir_region_add(ir_emit(builder, OP_LOOP, 0));
  IrBuilder inner = ir_builder_at_end(body);
  inner.mark = builder->mark;
  g_autoptr(GHashTable) map = g_hash_table_new(NULL, NULL);
  g_hash_table_insert(map, scheduler->parameters[0], *index);
  for (unsigned i = 1; i < scheduler->n_parameters; i++)
    g_hash_table_insert(map, scheduler->parameters[i], arguments[i - 1]);
  ir_region_clone_into(&inner, scheduler->body, map);
  keep_variables(body);
  Binding binding = {scheduler, arguments};
  ir_region_visit(body, bind_op, (const void *[]){module, &binding});
  IrOp *found = body->last; /* its `return` */
  inner.mark = found->mark;
  IrExpr *const *given = found->operands;
  unsigned n = found->n_operands;
  ir_op_remove(found);
  inner = ir_builder_at_end(body);
  inner.mark = builder->mark;
  if (total) ir_emit(&inner, OP_SET, 2, *total, given[n - 1]);
  ir_emit(&inner, OP_BREAK_IF, 1, ir_unary(module, OPERATOR_NOT, given[0]));
  /* variables of the sub-kernel go on changing: the tile has what they are now */
  for (unsigned i = 1; i < n; i++)
    coordinates[i - 1] = ir_emit_value(&inner, OP_LET, ir_scalar(NUMBER_S32), "at", 1, given[i]);
  return inner;
}

void scheduler_close(IrBuilder *inner, IrExpr *index)
{
  IrModule *module = inner->module;
  IrExpr *blocks = ir_call(module, "blocks", 1, ir_int(module, 0));
  ir_emit(inner, OP_SET, 2, index, ir_binary(module, OPERATOR_ADD, index, blocks));
}
