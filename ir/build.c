/* Operations: building, attributes, regions, moving, walking. */
#include "ir/format.h"
#include <string.h>

static void *append(Arena *arena, void *array, unsigned n, size_t size)
{
  if (n & (n - 1)) return array; /* room up to the next power of two */
  void *larger = arena_alloc(arena, size * (n ? 2 * (size_t)n : 1));
  if (n) memcpy(larger, array, size * n);
  return larger;
}

static Arena *arena_of(const IrOp *op)
{
  return op->parent->function->module->arena;
}

/* ---- Places ---- */

IrBuilder ir_builder_at_end(IrRegion *region)
{
  return (IrBuilder){region->function->module, region, NULL, {NULL, 0, 0}};
}

IrBuilder ir_builder_before(IrOp *op)
{
  return (IrBuilder){op->parent->function->module, op->parent, op, op->mark};
}

IrBuilder ir_builder_after(IrOp *op)
{
  return (IrBuilder){op->parent->function->module, op->parent, op->next, op->mark};
}

static void link_op(IrOp *op, IrRegion *region, IrOp *before)
{
  op->parent = region;
  op->next = before;
  op->previous = before ? before->previous : region->last;
  if (op->previous)
    op->previous->next = op;
  else
    region->first = op;
  if (before)
    before->previous = op;
  else
    region->last = op;
}

static void unlink_op(IrOp *op)
{
  if (op->previous)
    op->previous->next = op->next;
  else
    op->parent->first = op->next;
  if (op->next)
    op->next->previous = op->previous;
  else
    op->parent->last = op->previous;
}

/* The op's own next stays as it was, so that a visitor may remove the op it is given. */
void ir_op_remove(IrOp *op)
{
  unlink_op(op);
}

static void set_function(IrRegion *region, IrFunction *function)
{
  region->function = function;
  for (IrOp *op = region->first; op; op = op->next)
    for (unsigned i = 0; i < op->n_regions; i++)
      set_function(op->regions[i], function);
}

void ir_op_move(IrOp *op, IrRegion *region, IrOp *before)
{
  if (before == op) return;
  unlink_op(op);
  bool other = op->parent->function != region->function;
  link_op(op, region, before);
  if (!other) return;
  for (unsigned i = 0; i < op->n_regions; i++)
    set_function(op->regions[i], region->function);
}

/* ---- Ops ---- */

IrOp *ir_emit_array(IrBuilder *builder, IrOpcode code, unsigned n, IrExpr *const *operands)
{
  Arena *arena = builder->module->arena;
  IrOp *op = arena_new_object(arena, IrOp);
  op->code = code;
  op->mark = builder->mark;
  op->n_operands = n;
  op->operands = arena_new_array(arena, IrExpr *, n);
  if (n) memcpy(op->operands, operands, n * sizeof *operands);
  link_op(op, builder->region, builder->before);
  return op;
}

static IrOp *emit_list(IrBuilder *builder, IrOpcode code, unsigned n, va_list list)
{
  IrExpr *few[16] = {NULL}, **operands = n <= G_N_ELEMENTS(few) ? few : g_new(IrExpr *, n);
  for (unsigned i = 0; i < n; i++)
    operands[i] = va_arg(list, IrExpr *);
  IrOp *op = ir_emit_array(builder, code, n, operands);
  if (operands != few) g_free(operands);
  return op;
}

IrOp *ir_emit(IrBuilder *builder, IrOpcode code, unsigned n, ...)
{
  va_list list;
  va_start(list, n);
  IrOp *op = emit_list(builder, code, n, list);
  va_end(list);
  return op;
}

IrValue *ir_result(IrOp *op, const char *name_hint, IrType type)
{
  Arena *arena = arena_of(op);
  IrValue *value = arena_new_object(arena, IrValue);
  value->name = arena_strdup(arena, name_hint);
  value->type = type;
  value->def = op;
  value->variable = op->code == OP_VAR || op->code == OP_CURSOR;
  op->results = append(arena, op->results, op->n_results, sizeof *op->results);
  op->results[op->n_results++] = value;
  return value;
}

IrExpr *ir_emit_value(IrBuilder *builder, IrOpcode code, IrType type, const char *name_hint, unsigned n, ...)
{
  va_list list;
  va_start(list, n);
  IrOp *op = emit_list(builder, code, n, list);
  va_end(list);
  return ir_value(builder->module, ir_result(op, name_hint, type));
}

void ir_operand_append(IrOp *op, IrExpr *operand)
{
  IrExpr **operands = arena_new_array(arena_of(op), IrExpr *, op->n_operands + 1);
  memcpy(operands, op->operands, op->n_operands * sizeof *operands);
  operands[op->n_operands++] = operand;
  op->operands = operands;
}

/* ---- Attributes: kept in the table's order ---- */

void ir_attribute_set(IrOp *op, IrAttributeKey key, IrExpr *value)
{
  unsigned at = 0;
  while (at < op->n_attributes && op->attributes[at].key < key)
    at++;
  if (at < op->n_attributes && op->attributes[at].key == key) {
    op->attributes[at].value = value;
    return;
  }
  op->attributes = append(arena_of(op), op->attributes, op->n_attributes, sizeof *op->attributes);
  memmove(op->attributes + at + 1, op->attributes + at, (op->n_attributes - at) * sizeof *op->attributes);
  op->attributes[at] = (IrAttribute){key, value};
  op->n_attributes++;
}

void ir_attribute_remove(IrOp *op, IrAttributeKey key)
{
  for (unsigned i = 0; i < op->n_attributes; i++) {
    if (op->attributes[i].key != key) continue;
    memmove(op->attributes + i, op->attributes + i + 1, (op->n_attributes - i - 1) * sizeof *op->attributes);
    op->n_attributes--;
    return;
  }
}

const IrAttribute *ir_attribute(const IrOp *op, IrAttributeKey key)
{
  for (unsigned i = 0; i < op->n_attributes; i++)
    if (op->attributes[i].key == key) return &op->attributes[i];
  return NULL;
}

IrExpr *ir_attribute_value(const IrOp *op, IrAttributeKey key)
{
  const IrAttribute *attribute = ir_attribute(op, key);
  return attribute ? attribute->value : NULL;
}

int64_t ir_attribute_int(const IrOp *op, IrAttributeKey key, int64_t otherwise)
{
  const IrExpr *value = ir_attribute_value(op, key);
  return value && value->kind == EXPR_INT ? value->integer : otherwise;
}

bool ir_attribute_is(const IrOp *op, IrAttributeKey key, const char *name)
{
  const IrExpr *value = ir_attribute_value(op, key);
  return value && value->kind == EXPR_NAME && !strcmp(value->name, name);
}

/* ---- Regions ---- */

IrRegion *ir_region_add(IrOp *op)
{
  Arena *arena = arena_of(op);
  IrRegion *region = arena_new_object(arena, IrRegion);
  region->owner = op;
  region->function = op->parent->function;
  op->regions = append(arena, op->regions, op->n_regions, sizeof *op->regions);
  op->regions[op->n_regions++] = region;
  return region;
}

IrValue *ir_argument_add(IrRegion *region, const char *name_hint, IrType type)
{
  Arena *arena = region->function->module->arena;
  IrValue *value = arena_new_object(arena, IrValue);
  value->name = arena_strdup(arena, name_hint);
  value->type = type;
  value->argument_of = region;
  region->arguments = append(arena, region->arguments, region->n_arguments, sizeof *region->arguments);
  region->arguments[region->n_arguments++] = value;
  return value;
}

void ir_region_visit(IrRegion *region, void (*visit)(IrOp *, void *), void *data)
{
  for (IrOp *op = region->first, *next; op; op = next) {
    next = op->next;
    visit(op, data);
    for (unsigned i = 0; i < op->n_regions; i++)
      ir_region_visit(op->regions[i], visit, data);
  }
}

typedef struct Use {
  const IrValue *value;
  bool found;
} Use;

static void find_use_in_expr(const IrExpr *expr, void *data)
{
  Use *use = data;
  use->found |= expr->kind == EXPR_VALUE && expr->value == use->value;
}

static void find_use(IrOp *op, void *data)
{
  for (unsigned i = 0; i < op->n_operands; i++)
    ir_expr_visit(op->operands[i], find_use_in_expr, data);
  for (unsigned i = 0; i < op->n_attributes; i++)
    if (op->attributes[i].value) ir_expr_visit(op->attributes[i].value, find_use_in_expr, data);
}

bool ir_region_uses(IrRegion *region, const IrValue *value)
{
  Use use = {value, false};
  ir_region_visit(region, find_use, &use);
  return use.found;
}

typedef struct {
  const IrValue *value;
  IrOp *user;
  unsigned uses;
} Uses;

static void count_use(IrOp *op, void *data)
{
  Uses *uses = data;
  if (op->n_regions || !ir_op_uses(op, uses->value)) return; /* those inside are visited too */
  uses->user = op;
  uses->uses++;
}

unsigned ir_region_count_uses(IrRegion *region, const IrValue *value, IrOp **user)
{
  Uses uses = {.value = value};
  ir_region_visit(region, count_use, &uses);
  if (user) *user = uses.user;
  return uses.uses;
}

bool ir_op_uses(IrOp *op, const IrValue *value)
{
  Use use = {value, false};
  find_use(op, &use);
  for (unsigned i = 0; i < op->n_regions && !use.found; i++)
    ir_region_visit(op->regions[i], find_use, &use);
  return use.found;
}

typedef struct Replacement {
  IrModule *module;
  const IrValue *value;
  IrExpr *with;
} Replacement;

static IrExpr *replace_leaf(const IrExpr *leaf, void *data)
{
  const Replacement *replacement = data;
  return leaf->kind == EXPR_VALUE && leaf->value == replacement->value ? replacement->with : NULL;
}

static void replace_in_op(IrOp *op, void *data)
{
  Replacement *replacement = data;
  for (unsigned i = 0; i < op->n_operands; i++)
    op->operands[i] = ir_expr_map(replacement->module, op->operands[i], replace_leaf, data);
  for (unsigned i = 0; i < op->n_attributes; i++)
    if (op->attributes[i].value)
      op->attributes[i].value = ir_expr_map(replacement->module, op->attributes[i].value, replace_leaf, data);
}

void ir_replace_uses(IrRegion *region, const IrValue *value, IrExpr *with)
{
  Replacement replacement = {region->function->module, value, with};
  ir_region_visit(region, replace_in_op, &replacement);
}

void ir_replace_uses_behind(const IrOp *op, const IrValue *value, IrExpr *with)
{
  Replacement replacement = {op->parent->function->module, value, with};
  for (IrOp *reader = op->next; reader; reader = reader->next) {
    replace_in_op(reader, &replacement);
    for (unsigned i = 0; i < reader->n_regions; i++)
      ir_region_visit(reader->regions[i], replace_in_op, &replacement);
  }
}

IrBuilder ir_before_first_use(IrOp *op)
{
  IrOp *use = op->next;
  while (use && !ir_op_uses(use, op->results[0]))
    use = use->next;
  bool around = use && use->code == OP_IF && use->n_regions == 1 && use->regions[0]->first &&
                ir_region_count_uses(use->regions[0], op->results[0], NULL) ==
                    ir_region_count_uses(op->parent, op->results[0], NULL);
  return ir_builder_before(around ? use->regions[0]->first : op);
}
