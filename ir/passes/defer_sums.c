/* defer_sums: a row's sum that a loop carries stays apart in each lane until the loop is over.
 *
 * needs  STAGED, before the stages of loops are chosen: a loop with products that adds up a tile along its columns
 *        and adds what comes out to a variable, or to the variable times a factor of the row
 * gives  a variable with the columns that a group of lanes has side by side: the loop adds without shuffles, and one
 *        reduction stands behind it
 * breaks nothing; sums that anything else in the loop reads stay as they are
 *
 * Sums are linear, and the factor is the same for all lanes of a row; so only the order of additions changes. */
#include "ir/mechanism.h"
#include "ir/pass.h"

#define COLUMNS 8 /* of an accumulator, that its lanes have together */

typedef struct {
  IrModule *module;
  IrRegion *scope; /* the role's body */
  IrOp *loop, *reduce;
  IrOp *add, *set; /* what carries the sum */
  const IrValue *sum;
  IrType kept; /* of the variable */
} Sum;

static bool is_value(const IrExpr *expr, const IrValue *value)
{
  return expr->kind == EXPR_VALUE && expr->value == value;
}

static bool is_zero(const IrExpr *expr)
{
  int64_t integer;
  if (expr->kind == EXPR_FLOAT) return expr->number == 0 && !signbit(expr->number);
  return ir_expr_is_int(expr, &integer) && integer == 0;
}

/* %next = sum * factor + part, or sum + part, in either order of addends; sets `sum`. */
static bool match_addition(Sum *sum)
{
  const IrValue *part = sum->reduce->results[0];
  const IrOp *add = sum->add;
  const IrExpr *carried = NULL;
  if (add->code == OP_ADD && add->n_operands == 2)
    carried = is_value(add->operands[0], part) ? add->operands[1] : add->operands[0];
  if (add->code == OP_FMA && is_value(add->operands[2], part)) carried = add->operands[0];
  if (!carried || carried->kind != EXPR_VALUE || !carried->value->variable || carried->value == part)
    return false;
  sum->sum = carried->value;
  const IrExpr *factor = add->code == OP_FMA ? add->operands[1] : NULL;
  IrType type = factor ? ir_expr_type(sum->loop->parent->function, factor) : (IrType){0};
  return type.kind != TYPE_TILE || ir_tile_extent(&type, 1) == 1;
}

/* A layout whose lanes share rows, and its part of a few columns. */
static bool place(Sum *sum)
{
  const IrType *from = &sum->reduce->operands[0]->value->type;
  if (from->rank != 2 || from->element != NUMBER_F32 || !from->layout || ir_tile_extent(from, 1) % COLUMNS ||
      ir_tile_extent(from, 1) == COLUMNS)
    return false;
  int64_t extent[2] = {ir_tile_extent(from, 0), COLUMNS};
  unsigned part[2] = {(unsigned)extent[0], COLUMNS};
  const Layout *layout = layout_part(sum->module->arena, from->layout, part);
  if (!layout ||
      layout_registers(layout) * (ir_tile_extent(from, 1) / COLUMNS) != layout_registers(from->layout))
    return false;
  sum->kept = ir_tile(sum->module, from->element, 2, extent, layout);
  return true;
}

static bool match(Sum *sum)
{
  const IrOp *reduce = sum->reduce;
  IrRegion *body = sum->loop->regions[0];
  IrOp *set = NULL;
  if (reduce->parent != body || reduce->n_operands != 1 || !ir_attribute_is(reduce, ATTR_WITH, "sum") ||
      ir_attribute_int(reduce, ATTR_DIM, 0) != 1 || ir_attribute(reduce, ATTR_EXCHANGE) ||
      reduce->operands[0]->kind != EXPR_VALUE ||
      ir_region_count_uses(sum->scope, reduce->results[0], &sum->add) != 1 || sum->add->parent != body ||
      !match_addition(sum))
    return false;
  if (ir_region_count_uses(sum->scope, sum->add->results[0], &set) != 1 || set->code != OP_SET ||
      set->parent != body || !is_value(set->operands[0], sum->sum))
    return false;
  sum->set = set;
  const IrOp *declared = sum->sum->def;
  if (declared->code != OP_VAR || declared->parent != sum->loop->parent || !declared->n_operands ||
      !is_zero(declared->operands[0]) || ir_region_count_uses(body, sum->sum, NULL) != 2)
    return false;
  for (IrOp *op = declared->next; op != sum->loop; op = op->next)
    if (!op || ir_op_uses(op, sum->sum) || (op->n_regions && ir_region_uses(op->regions[0], sum->sum)))
      return false;
  return place(sum);
}

/* ---- The loop's sum ---- */

static IrExpr *columns_of(const Sum *sum, IrExpr *tile, int64_t rows, int64_t low, int64_t high)
{
  IrModule *module = sum->module;
  return ir_index(module, tile, 2, ir_range(module, ir_int(module, 0), ir_int(module, rows)),
                  ir_range(module, ir_int(module, low), ir_int(module, high)));
}

/* Halves as long as they are whole groups of columns, then group by group. */
static IrExpr *add_columns(const Sum *sum, IrBuilder *builder, IrExpr *tile)
{
  const IrType *from = &sum->reduce->operands[0]->value->type;
  int64_t rows = ir_tile_extent(from, 0), columns = ir_tile_extent(from, 1);
  while (columns > COLUMNS) {
    int64_t half = columns % (2 * COLUMNS) ? COLUMNS : columns / 2, extent[2] = {rows, half};
    unsigned part[2] = {(unsigned)rows, (unsigned)half};
    IrType type =
        ir_tile(sum->module, from->element, 2, extent, layout_part(sum->module->arena, from->layout, part));
    IrExpr *both = columns_of(sum, tile, rows, 0, half);
    for (int64_t low = half; low < columns; low += half)
      both = ir_emit_value(builder, OP_ADD, type, "columns", 2, both,
                           columns_of(sum, tile, rows, low, low + half));
    tile = both;
    columns = half;
  }
  return tile;
}

static void note_set(IrOp *op, void *data)
{
  const IrValue **variable = data;
  if (*variable && op->code == OP_SET && is_value(op->operands[0], *variable)) *variable = NULL;
}

/* The whole sum behind the loop: a variable, if it is set once more there. */
static IrExpr *whole_sum(const Sum *sum, IrBuilder *builder, const IrOp *whole)
{
  IrExpr *value = ir_value(sum->module, whole->results[0]);
  const IrValue *variable = sum->sum;
  ir_region_visit(sum->scope, note_set, &variable);
  if (variable) return value;
  value = ir_emit_value(builder, OP_VAR, sum->sum->type, sum->sum->name, 1, value);
  value->value->variable = true;
  return value;
}

static void defer(const Sum *sum)
{
  IrModule *module = sum->module;
  IrOp *declared = sum->sum->def, *add = sum->add;
  IrBuilder builder = ir_builder_before(sum->loop);
  builder.mark = declared->mark;
  IrOp *variable = ir_emit(&builder, OP_VAR, 1, declared->operands[0]);
  IrValue *kept = ir_result(variable, sum->sum->name, sum->kept);
  kept->variable = true;
  builder = ir_builder_before(add);
  builder.mark = add->mark;
  IrExpr *part = add_columns(sum, &builder, sum->reduce->operands[0]), *carried = ir_value(module, kept);
  IrExpr *next = add->code == OP_FMA
                     ? ir_emit_value(&builder, OP_FMA, sum->kept, add->results[0]->name, 3, carried,
                                     add->operands[1], part)
                     : ir_emit_value(&builder, OP_ADD, sum->kept, add->results[0]->name, 2, carried, part);
  sum->set->operands[0] = carried;
  sum->set->operands[1] = next;
  ir_op_remove(add);
  builder = ir_builder_after(sum->loop);
  builder.mark = sum->reduce->mark;
  g_autoptr(GHashTable) map = g_hash_table_new(NULL, NULL);
  IrOp *whole = ir_op_clone(&builder, sum->reduce, map);
  whole->operands[0] = carried;
  ir_op_remove(sum->reduce);
  ir_replace_uses(sum->scope, sum->sum, whole_sum(sum, &builder, whole));
  ir_op_remove(declared);
}

static void find_product(IrOp *op, void *data)
{
  *(bool *)data |= op->code == OP_MMA;
}

static void collect(IrOp *op, void *data)
{
  if (op->code == OP_REDUCE) g_ptr_array_add(data, op);
}

static void visit_role(IrModule *module, const IrPassContext *context, IrRegion *scope)
{
  g_autoptr(GPtrArray) reductions = g_ptr_array_new();
  ir_region_visit(scope, collect, reductions);
  for (unsigned i = 0; i < reductions->len; i++) {
    IrOp *reduce = reductions->pdata[i], *loop = reduce->parent->owner;
    bool multiplies = false;
    if (loop && loop->code == OP_FOR) ir_region_visit(loop->regions[0], find_product, &multiplies);
    Sum sum = {.module = module, .scope = scope, .loop = loop, .reduce = reduce};
    if (!multiplies || !match(&sum)) continue;
    defer(&sum);
    ir_remark(context, "sums of rows: each lane has its own until the loop is over");
  }
}

bool pass_defer_sums(IrModule *module, const IrPassContext *context, GError **error)
{
  (void)error;
  IrFunction *kernel = ir_kernel(module);
  for (IrOp *role = kernel ? kernel->body->first : NULL; role; role = role->next)
    if (role->code == OP_ROLE) visit_role(module, context, role->regions[0]);
  return true;
}
