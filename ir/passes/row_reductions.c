/* Reductions along rows: elements that become states, forms for rows that stay, and what lies beyond a row. */
#include "ir/passes/rows.h"
#include "ir/reducer.h"
#include <math.h>
#include <string.h>

static void collect(IrOp *op, void *data)
{
  if (op->code == OP_REDUCE) g_ptr_array_add(data, op);
}

static bool refuse(const Rows *rows, const IrOp *reduce, const IrOp *step, ReducerPart part)
{
  const IrExpr *with = ir_attribute_value(reduce, ATTR_WITH);
  error_set(rows->error, ERROR_UNSUPPORTED, step ? &step->mark : &reduce->mark, "reducer",
            "a sub-kernel of elementwise operations", "`@%s` cannot be applied to tiles",
            ir_reducer_part_name(rows->module, with->name, part));
  return false;
}

/* ---- Elements become states ---- */

static IrExpr *as_tile(IrBuilder *builder, IrExpr *value, const IrType *type)
{
  if (value->kind == EXPR_VALUE && value->value->type.kind == TYPE_TILE) return value;
  return ir_emit_value(builder, OP_SPLAT, *type, "state", 1, value);
}

static bool lift(const Rows *rows, IrOp *reduce)
{
  const IrExpr *with = ir_attribute_value(reduce, ATTR_WITH);
  const IrFunction *function = ir_reducer_part(rows->module, with->name, REDUCER_LIFT);
  IrBuilder builder = ir_builder_before(reduce);
  builder.mark = reduce->mark;
  IrType shape = ir_expr_type(rows->kernel, reduce->operands[0]);
  IrExpr *state[REDUCER_MOST];
  if (function->n_results > REDUCER_MOST) return refuse(rows, reduce, NULL, REDUCER_LIFT);
  const IrOp *wrong = ir_reducer_apply(&builder, function, &shape, reduce->operands, state);
  if (wrong) return refuse(rows, reduce, wrong, REDUCER_LIFT);
  IrExpr **operands = arena_new_array(rows->module->arena, IrExpr *, function->n_results);
  for (unsigned i = 0; i < function->n_results; i++) {
    IrType type = shape;
    type.element = function->results[i].element;
    operands[i] = as_tile(&builder, state[i], &type);
  }
  reduce->operands = operands;
  reduce->n_operands = function->n_results;
  return true;
}

/* ---- Rows that stay ---- */

/* Extents that the signature names, and what they are here. */
static IrExpr *map_extent(const IrExpr *leaf, void *data)
{
  return leaf->kind == EXPR_DIM ? g_hash_table_lookup(data, leaf->name) : NULL;
}

static void set_types(const Rows *rows, const IrOp *op, GHashTable *dims)
{
  for (unsigned r = 0; r < op->n_results; r++) {
    IrType *type = &op->results[r]->type;
    for (unsigned d = 0; d < type->rank; d++)
      type->dims[d] = ir_expr_map(rows->module, type->dims[d], map_extent, dims);
  }
}

static IrExpr *count_of(const Rows *rows, IrBuilder *builder)
{
  if (rows->width) return ir_float(rows->module, (double)rows->width);
  return ir_emit_value(builder, OP_CAST, ir_scalar(NUMBER_F32), "count", 1, rows->columns);
}

/* The sub-kernel in place of the reduction; its tiles have the extents of what it is given. */
static bool stay(const Rows *rows, IrOp *reduce, const IrFunction *function)
{
  g_autoptr(GHashTable) map = g_hash_table_new(NULL, NULL);
  g_autoptr(GHashTable) dims = g_hash_table_new(g_str_hash, g_str_equal);
  IrBuilder builder = ir_builder_before(reduce);
  builder.mark = reduce->mark;
  for (unsigned i = 0; i < function->n_parameters; i++) {
    bool element = i < reduce->n_operands;
    IrExpr *value = element ? reduce->operands[i] : count_of(rows, &builder);
    IrType type = element ? ir_expr_type(rows->kernel, value) : (IrType){0};
    g_hash_table_insert(map, function->parameters[i], value);
    for (unsigned d = 0; d < type.rank; d++) {
      const IrExpr *name = function->parameters[i]->type.dims[d];
      if (name->kind == EXPR_DIM) g_hash_table_insert(dims, (gpointer)name->name, type.dims[d]);
    }
  }
  for (const IrOp *op = function->body->first; op && op->code != OP_RETURN; op = op->next)
    set_types(rows, ir_op_clone(&builder, op, map), dims);
  for (unsigned i = 0; i < reduce->n_results; i++) {
    IrExpr *value = function->body->last->operands[i];
    if (value->kind == EXPR_VALUE) value = g_hash_table_lookup(map, value->value);
    value = as_tile(&builder, value, &reduce->results[i]->type);
    ir_replace_uses(rows->kernel->body, reduce->results[i], value);
    if (value->value->def) value->value->name = reduce->results[i]->name;
  }
  ir_op_remove(reduce);
  return true;
}

/* A form for rows that stay has the elements as tiles, and perhaps their number. */
static const IrFunction *staying(const Rows *rows, const IrOp *reduce)
{
  const IrFunction *function =
      ir_reducer_part(rows->module, ir_attribute_value(reduce, ATTR_WITH)->name, REDUCER_STAY);
  bool fits =
      function &&
      (function->n_parameters == reduce->n_operands || function->n_parameters == reduce->n_operands + 1) &&
      function->n_results == reduce->n_results && rows_reduces(rows, reduce);
  return fits ? function : NULL;
}

bool rows_write_reducers(Rows *rows, bool stays)
{
  g_autoptr(GPtrArray) reductions = g_ptr_array_new();
  ir_region_visit(rows->kernel->body, collect, reductions);
  for (unsigned i = 0; i < reductions->len; i++) {
    IrOp *reduce = reductions->pdata[i];
    if (!ir_reduction_lifts(reduce)) continue;
    const IrFunction *function = stays ? staying(rows, reduce) : NULL;
    if (function ? !stay(rows, reduce, function) : !lift(rows, reduce)) return false;
  }
  return true;
}

/* ---- Beyond the row ---- */

IrExpr *rows_identity(const Rows *rows, const IrOp *reduce, unsigned i)
{
  IrModule *module = rows->module;
  const IrExpr *with = ir_attribute_value(reduce, ATTR_WITH);
  if (with->kind == EXPR_NAME)
    return ir_reduction_identity(module, with->name, reduce->results[i]->type.element);
  const IrFunction *function = ir_reducer_part(module, with->name, REDUCER_IDENTITY);
  const IrOp *end = function ? function->body->last : NULL;
  if (function && !function->n_parameters && function->n_results == reduce->n_results &&
      end == function->body->first)
    return end->operands[i];
  g_autofree char *hint = g_strdup_printf("func %s() -> ... { return ... }, of constants",
                                          ir_reducer_part_name(module, with->name, REDUCER_IDENTITY));
  error_set(rows->error, ERROR_INPUT, &reduce->mark, "reducer", hint,
            "what lies beyond a row counts as the identity of `@%s`, which has none", with->name);
  return NULL;
}

/* The tile's columns, counted. */
static IrExpr *count_columns(const Rows *rows, IrBuilder *builder, const IrType *type, const char *name)
{
  IrType counts = *type;
  for (unsigned d = 0; d + 1 < type->rank; d++)
    counts.dims[d] = ir_int(rows->module, 1);
  counts.element = NUMBER_S32;
  IrExpr *column = ir_emit_value(builder, OP_IOTA, counts, name, 0);
  ir_attribute_set(column->value->def, ATTR_DIM, ir_int(rows->module, type->rank - 1));
  return column;
}

/* Which of the tile's columns lie in the row: of one for each `every` elements. */
static IrExpr *inside(const Rows *rows, IrBuilder *builder, const IrType *type, int64_t every, IrExpr *first)
{
  IrModule *module = rows->module;
  IrExpr *column = count_columns(rows, builder, type, "column");
  IrType counts = column->value->type;
  counts.element = NUMBER_BOOL;
  IrExpr *left = ir_binary(module, OPERATOR_SUB, rows_columns(rows, every), first);
  return ir_emit_value(builder, OP_LT, counts, "inside", 2, column, left);
}

/* Of tiles that begin `first` columns behind one in front of the row: comparisons of the few elements at the row's ends, each time they
 * are wanted, for that they need not be kept. */
static IrExpr *inside_lead(const Rows *rows, IrBuilder *builder, const IrType *type, IrExpr *first)
{
  IrModule *module = rows->module;
  IrExpr *place = count_columns(rows, builder, type, "place");
  IrType counts = place->value->type;
  IrExpr *begin = first ? ir_binary(module, OPERATOR_ADD, first, rows->begin) : rows->begin;
  IrExpr *column = ir_emit_value(builder, OP_ADD, counts, "column", 2, place, begin);
  counts.element = NUMBER_BOOL;
  IrExpr *begun = ir_emit_value(builder, OP_GE, counts, "begun", 2, column, ir_int(module, 0));
  IrExpr *left = ir_emit_value(builder, OP_LT, counts, "left", 2, column, rows->columns);
  return ir_emit_value(builder, OP_AND, counts, "inside", 2, begun, left);
}

/* The same for all tiles that begin with the row: computed once, in front of them. */
static IrExpr *inside_whole(const Rows *rows, const IrType *type, int64_t every)
{
  IrExpr *in = g_hash_table_lookup(rows->inside, GINT_TO_POINTER((int)every));
  if (in) return in;
  IrBuilder builder = ir_builder_before(rows->tiles->regions[0]->first);
  builder.mark = rows->tiles->mark;
  in = inside(rows, &builder, type, every, ir_int(rows->module, 0));
  g_hash_table_insert(rows->inside, GINT_TO_POINTER((int)every), in);
  return in;
}

/* Whole rows as they were loaded, or widened then: what lies beyond them is loaded as the identity of an extremum or a sum, which widens
 * to itself. For whoever else reads them it is as good as any other number, which no one takes without a mask of his own. */
static bool fills_beyond(const Rows *rows, const IrExpr *operand, IrExpr *identity)
{
  IrOp *load = operand->kind == EXPR_VALUE && !operand->value->variable ? operand->value->def : NULL;
  if (load && load->code == OP_CAST && !load->n_attributes && load->operands[0]->kind == EXPR_VALUE)
    load = load->operands[0]->value->def;
  if (!load || load->code != OP_LOAD || ir_attribute(load, ATTR_WHERE) || ir_attribute(load, ATTR_LEAD))
    return false;
  if (identity->kind != EXPR_FLOAT) return false;
  if (!isinf(identity->number) && identity->number != 0) return false;
  const IrExpr *access = load->operands[0], *fill = ir_attribute_value(load, ATTR_FILL);
  const IrType *tensor = access->kind == EXPR_INDEX ? &access->items[0]->value->type : NULL;
  NumberType element = load->results[0]->type.element;
  bool wide = element == NUMBER_F32 || element == NUMBER_F16 || element == NUMBER_BF16;
  if (!tensor || !tensor->rank || !wide || !ir_expr_equal(tensor->dims[tensor->rank - 1], rows->columns))
    return false;
  if (fill) return ir_expr_equal(fill, identity);
  ir_attribute_set(load, ATTR_FILL, identity);
  return true;
}

/* No elements as they were loaded, or widened, which take fewer registers until they are wanted. */
static bool is_computed(const IrExpr *operand)
{
  const IrOp *def = operand->kind == EXPR_VALUE && !operand->value->variable ? operand->value->def : NULL;
  return def && def->code != OP_LOAD && def->code != OP_CAST;
}

bool rows_mask(const Rows *rows, IrOp *reduce, IrExpr *first)
{
  IrBuilder builder = ir_builder_before(reduce);
  builder.mark = reduce->mark;
  IrType type = ir_expr_type(rows->kernel, reduce->operands[0]);
  int64_t every;
  rows_part(rows, &type, &every);
  bool led = rows->begin && rows->begin->kind == EXPR_VALUE;
  IrExpr *in = led     ? NULL
               : first ? inside(rows, &builder, &type, every, first)
                       : inside_whole(rows, &type, every);
  for (unsigned i = 0; i < reduce->n_operands; i++) {
    IrExpr *identity = rows_identity(rows, reduce, i);
    if (!identity) return false;
    if ((!first || led) && fills_beyond(rows, reduce->operands[i], identity)) continue;
    IrExpr *operand = reduce->operands[i];
    if (!in) in = inside_lead(rows, &builder, &type, first);
    type = ir_expr_type(rows->kernel, operand);
    reduce->operands[i] = ir_emit_value(&builder, OP_SELECT, type, "within", 3, in, operand, identity);
    /* Who reads the value behind the reduction reads what it takes: it is the same inside of the row, and two need not be kept. */
    if (!first && is_computed(operand)) ir_replace_uses_behind(reduce, operand->value, reduce->operands[i]);
  }
  return true;
}
