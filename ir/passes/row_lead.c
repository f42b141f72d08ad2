/* Rows that begin anywhere: tiles begin in front of them, where the address is that of a whole vector.
 *
 * A row of 50257 elements of 16 bits begins at any of eight places within 16 bytes. Its tile begins `lead` elements before it, so that
 * all threads have whole vectors of the row but those that hold its ends; in front of the row nothing is accessed. What tensors of
 * one stride have of a row is shifted alike, of any types. Of others, which have one row for all (a scale, a bias), vectors are put
 * together of two that begin where theirs do, or elements go one by one where nothing is known of their addresses. */
#include "ir/facts.h"
#include "ir/mechanism.h"
#include "ir/passes/rows.h"
#include "ir/resources.h"

typedef struct {
  Rows *rows;
  IrOp *first;       /* of those that have or read tiles as wide as the row */
  GPtrArray *shared; /* IrOp*: accesses of tensors that have a row for each of the program's */
  GPtrArray *others; /* loads of tensors whose rows begin elsewhere, or that have one for all */
  GPtrArray *counts; /* the row's columns */
  int64_t vector;    /* elements of whole vectors of them all */
  bool fits;
} Lead;

/* What an access reads or writes of a row. */
static bool is_row_access(const IrOp *op)
{
  return op->code == OP_LOAD || op->code == OP_STORE;
}

static IrExpr *stride_of(const IrType *tensor, unsigned d)
{
  if (tensor->strides[d]) return tensor->strides[d];
  return d + 2 == tensor->rank ? tensor->dims[d + 1] : NULL;
}

static bool is_zero(const IrExpr *expr)
{
  int64_t known;
  return ir_expr_is_int(expr, &known) && !known;
}

/* Does the index move rows by anything but whole vectors? */
static bool moves(const Lead *lead, const IrType *tensor, const IrOp *op, unsigned d)
{
  const IrExpr *stride = stride_of(tensor, d);
  int64_t known;
  if (is_zero(op->operands[0]->items[d + 1])) return false;
  return !stride || !ir_expr_is_int(stride, &known) || known % lead->vector;
}

static const IrType *tensor_of(const IrOp *op)
{
  const IrExpr *access = op->operands[0];
  bool whole = access->kind == EXPR_INDEX && access->items[0]->kind == EXPR_VALUE &&
               access->items[0]->value->type.kind == TYPE_TENSOR;
  return whole && access->n == access->items[0]->value->type.rank + 1 ? &access->items[0]->value->type : NULL;
}

static bool has_rows(const IrOp *op, const IrType *tensor)
{
  for (unsigned d = 0; d + 1 < tensor->rank; d++)
    if (!is_zero(op->operands[0]->items[d + 1])) return true;
  return false;
}

static void note_access(Lead *lead, IrOp *op, const IrType *tile)
{
  const IrType *tensor = tensor_of(op);
  int64_t height = 1;
  if (tile->rank > 1 && !ir_expr_is_int(tile->dims[tile->rank - 2], &height)) height = 0;
  lead->fits &= tensor && height == 1 && !ir_attribute(op, ATTR_WHERE) &&
                ir_contiguous_dim(tensor) == (int)tensor->rank - 1 &&
                is_zero(op->operands[0]->items[tensor->rank]) && number_bits(tensor->element) >= CHAR_BIT;
  if (!lead->fits) return;
  if (!has_rows(op, tensor)) {
    lead->fits &= op->code == OP_LOAD;
    g_ptr_array_add(lead->others, op);
    return;
  }
  g_ptr_array_insert(lead->shared, op->code == OP_STORE ? 0 : -1, op); /* results say where tiles begin */
  lead->fits &= tensor->align >= MECHANISM_SIZES_MOST;
  lead->vector = MIN(lead->vector, (int64_t)number_elements(tensor->element, MECHANISM_SIZES_MOST));
}

static void note(IrOp *op, void *data)
{
  Lead *lead = data;
  int64_t every;
  IrType tile = {0};
  bool wide = false;
  for (unsigned i = 0; i < op->n_operands; i++) {
    IrType type = ir_expr_type(lead->rows->kernel, op->operands[i]);
    if (rows_part(lead->rows, &type, &every)) tile = type, wide = true;
  }
  for (unsigned i = 0; i < op->n_results; i++)
    if (rows_part(lead->rows, &op->results[i]->type, &every)) tile = op->results[i]->type, wide = true;
  if (!wide) return;
  if (!lead->first) lead->first = op;
  if (is_row_access(op)) {
    note_access(lead, op, &tile);
  } else if (op->code == OP_IOTA) {
    lead->fits &= tile.element == NUMBER_S32 && !op->n_regions && !ir_attribute(op, ATTR_SCOPE);
    if (ir_attribute_int(op, ATTR_DIM, -1) == (int64_t)tile.rank - 1) g_ptr_array_add(lead->counts, op);
  } else {
    lead->fits &= op->code == OP_REDUCE || op->code == OP_SPLAT || ir_op_is_elementwise(op->code);
  }
}

/* Do rows of both begin at the same place within a vector? */
static bool begin_alike(const Lead *lead, const IrOp *a, const IrOp *b)
{
  const IrType *x = tensor_of(a), *y = tensor_of(b);
  if (x->rank != y->rank) return false;
  for (unsigned d = 0; d + 1 < x->rank; d++) {
    bool moved = moves(lead, x, a, d);
    const IrExpr *left = stride_of(x, d), *right = stride_of(y, d);
    int64_t s, t;
    if (moved != moves(lead, y, b, d)) return false;
    if (!moved) continue;
    bool same = ir_expr_equal(left, right) || (ir_expr_is_int(left, &s) && ir_expr_is_int(right, &t) &&
                                               s % lead->vector == t % lead->vector);
    if (!same || !ir_expr_equal(a->operands[0]->items[d + 1], b->operands[0]->items[d + 1])) return false;
  }
  return true;
}

static IrExpr *rest_of(IrModule *module, IrExpr *expr, int64_t vector)
{
  int64_t known;
  if (ir_expr_is_int(expr, &known)) return ir_int(module, known % vector);
  return ir_binary(module, OPERATOR_MOD, expr, ir_int(module, vector));
}

/* Is what an index is made of there in front of the op? */
static void note_late(const IrExpr *expr, void *data)
{
  Lead *lead = data;
  const IrOp *def = expr->kind == EXPR_VALUE && !expr->value->variable ? expr->value->def : NULL;
  if (expr->kind == EXPR_VALUE && expr->value->variable) lead->fits = false;
  for (const IrOp *op = lead->first; op && def; op = op->next)
    lead->fits &= op != def;
}

/* Elements between the vector's begin and the row's; NULL: a stride is not known. */
static IrExpr *sum_rests(Lead *lead, const IrOp *op)
{
  IrModule *module = lead->rows->module;
  const IrType *tensor = tensor_of(op);
  IrExpr *sum = NULL;
  for (unsigned d = 0; d + 1 < tensor->rank; d++) {
    if (!moves(lead, tensor, op, d)) continue;
    IrExpr *index = op->operands[0]->items[d + 1], *stride = stride_of(tensor, d);
    if (!stride) return NULL;
    ir_expr_visit(index, note_late, lead);
    ir_expr_visit(stride, note_late, lead);
    IrExpr *rest = ir_binary(module, OPERATOR_MUL, rest_of(module, index, lead->vector),
                             rest_of(module, stride, lead->vector));
    sum = sum ? ir_binary(module, OPERATOR_ADD, sum, rest) : rest;
  }
  return sum ? rest_of(module, sum, lead->vector) : ir_int(module, 0);
}

static void shift(const Lead *lead, IrOp *op, IrExpr *begin, int64_t vector)
{
  IrModule *module = lead->rows->module;
  IrExpr *access = op->operands[0];
  unsigned rank = access->n - 1;
  IrExpr **corner = arena_memdup(module->arena, access->items + 1, rank * sizeof *corner);
  corner[rank - 1] = begin;
  op->operands[0] = ir_index_array(module, access->items[0], rank, corner);
  ir_attribute_set(op, ATTR_ALIGNED, ir_int(module, vector));
}

/* Vectors of a tensor whose rows begin `own` elements behind one: so many elements in front of the tile's. Of words that all rows share few
 * enough lie in a vector to go one by one. */
static void shift_other(const Lead *lead, IrBuilder *builder, IrOp *op, IrExpr *begin, IrExpr *own)
{
  IrModule *module = lead->rows->module;
  const IrType *tensor = tensor_of(op);
  int64_t vector = MIN(lead->vector, (int64_t)number_elements(tensor->element, MECHANISM_SIZES_MOST));
  bool words = !has_rows(op, tensor) && number_bits(tensor->element) >= CHAR_BIT * sizeof(uint32_t);
  bool aligned = tensor->align >= MECHANISM_SIZES_MOST && !words && vector > 1;
  shift(lead, op, begin, aligned ? vector : 1);
  if (!aligned || (is_zero(begin) && is_zero(own))) return;
  IrExpr *ahead = ir_binary(module, OPERATOR_ADD, own,
                            ir_binary(module, OPERATOR_ADD, begin, ir_int(module, lead->vector)));
  IrExpr *before = ir_binary(module, OPERATOR_MOD, ahead, ir_int(module, vector));
  IrExpr *value = ir_emit_value(builder, OP_LET, ir_scalar(NUMBER_S32), "before", 1, before);
  ir_attribute_set(value->value->def, ATTR_BELOW, ir_int(module, vector));
  ir_attribute_set(op, ATTR_LEAD, value);
}

static void count_from(const Lead *lead, IrOp *iota, IrExpr *begin)
{
  IrBuilder builder = ir_builder_after(iota);
  builder.mark = iota->mark;
  IrValue *whole = iota->results[0];
  IrExpr *column =
      ir_emit_value(&builder, OP_ADD, whole->type, whole->name, 2, ir_int(lead->rows->module, 0), begin);
  ir_replace_uses(lead->rows->kernel->body, whole, column);
  column->value->def->operands[0] = ir_value(lead->rows->module, whole);
}

static void write(Lead *lead, IrExpr *sum)
{
  Rows *rows = lead->rows;
  IrModule *module = rows->module;
  IrBuilder builder = ir_builder_before(lead->first);
  builder.mark = lead->first->mark;
  IrExpr *begin = ir_int(module, 0);
  if (!is_zero(sum)) {
    IrExpr *ahead = ir_emit_value(&builder, OP_LET, ir_scalar(NUMBER_S32), "lead", 1, sum);
    ir_attribute_set(ahead->value->def, ATTR_BELOW, ir_int(module, lead->vector));
    begin = ir_emit_value(&builder, OP_LET, ir_scalar(NUMBER_S32), "begin", 1,
                          ir_binary(module, OPERATOR_SUB, ir_int(module, 0), ahead));
  }
  for (unsigned i = 0; i < lead->shared->len; i++)
    shift(lead, lead->shared->pdata[i], begin, lead->vector);
  for (unsigned i = 0; i < lead->others->len; i++)
    shift_other(lead, &builder, lead->others->pdata[i], begin, sum_rests(lead, lead->others->pdata[i]));
  for (unsigned i = 0; i < lead->counts->len && !is_zero(begin); i++)
    count_from(lead, lead->counts->pdata[i], begin);
  rows->begin = begin;
  rows->lead = lead->vector;
}

void rows_find_lead(Rows *rows, int64_t vector)
{
  g_autoptr(GPtrArray) shared = g_ptr_array_new(), others = g_ptr_array_new(), counts = g_ptr_array_new();
  Lead lead = {rows, NULL, shared, others, counts, MECHANISM_SIZES_MOST, true};
  if (rows->every->len || rows->body != rows->tiles->regions[0]) return;
  ir_region_visit(rows->body, note, &lead);
  if (!lead.fits || !shared->len || lead.vector <= vector || lead.first->parent != rows->body) return;
  for (unsigned i = shared->len; i-- > 1;) {
    IrOp *op = shared->pdata[i];
    if (begin_alike(&lead, shared->pdata[0], op)) continue;
    if (op->code != OP_LOAD || !sum_rests(&lead, op)) return;
    g_ptr_array_add(others, g_ptr_array_remove_index(shared, i));
  }
  IrExpr *sum = sum_rests(&lead, shared->pdata[0]);
  if (!sum || !lead.fits) return;
  write(&lead, sum);
  ir_remark(rows->context,
            "rows begin anywhere: tiles begin with the vector of %d elements in which a row does",
            (int)lead.vector);
}
