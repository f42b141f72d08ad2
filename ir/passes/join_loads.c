/* join_loads: loads of neighbouring elements become one, and those of one element one of them.
 *
 * needs  THREAD, constants folded
 * gives  loads of global memory of 4, 8 or 16 bytes for those of single elements that lie side by side, are known to begin at a multiple
 *        of as much, and happen under the same condition; of one element that is loaded twice the first load is left
 * breaks nothing; what addresses and conditions were computed from stays for remove_dead_code
 *
 * Windows of pooling share their elements, and where results lie side by side those of a row of windows lie so too: a thread of four
 * results loads nine neighbours in two accesses for twelve of one element each (docs/performance-log.md). Steps of loops that were written out
 * compute addresses and conditions anew: they are compared by what they are computed from. Bounds are compared with coordinates
 * that are multiples of something, so that all elements of an access have the same ones. */
#include "ir/facts.h"
#include "ir/passes/thread.h"
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES    16
#define MOST_MULTIPLE 4096
#define MOST_BOUND    (1 << 30) /* bounds that may be rounded up within 32 bits */
#define FEWEST        2         /* elements that are worth a look */

typedef struct {
  const IrPassContext *context;
  IrModule *module;
  IrFunction *kernel;
  GHashTable *same;      /* IrValue* -> IrValue*: the first of those that are computed alike */
  GHashTable *first;     /* text of how it is computed -> IrValue* */
  GHashTable *multiples; /* IrValue* -> its known multiple */
  GHashTable *groups;    /* text of an address without its constant, and of the rest -> GArray of Load */
  unsigned joined;
} Join;

typedef struct {
  IrOp *op;
  int64_t offset; /* bytes */
  unsigned order;
} Load;

/* ---- multiples ---- */

static int64_t multiple_of(Join *join, const IrExpr *expr);

static int64_t low_bit(int64_t value)
{
  return value ? MIN(value & -value, MOST_MULTIPLE) : MOST_MULTIPLE;
}

static int64_t tensor_multiple(const IrExpr *expr)
{
  if (expr->kind != EXPR_VALUE || expr->value->type.kind != TYPE_TENSOR) return 1;
  const IrType *tensor = &expr->value->type;
  return low_bit(tensor->align ? tensor->align : number_bytes_of(tensor->element, 1));
}

static int64_t multiple_of_op(Join *join, const IrOp *op)
{
  int64_t shift;
  IrExpr *const *x = op->operands;
  switch (op->code) {
  case OP_MOVE: return multiple_of(join, x[0]);
  case OP_CAST:
    return number_class(op->results[0]->type.element) == NUMBER_FLOAT ? 1 : multiple_of(join, x[0]);
  case OP_ADD:
  case OP_SUB: return MIN(multiple_of(join, x[0]), multiple_of(join, x[1]));
  case OP_MUL:
  case OP_MUL_WIDE: return MIN(multiple_of(join, x[0]) * multiple_of(join, x[1]), MOST_MULTIPLE);
  case OP_MAD_WIDE: return MIN(multiple_of(join, x[0]) * multiple_of(join, x[1]), multiple_of(join, x[2]));
  case OP_SHL:
    if (!ir_expr_is_int(x[1], &shift) || shift < 0 || shift > 12) return 1;
    return MIN(multiple_of(join, x[0]) << shift, MOST_MULTIPLE);
  case OP_ADDRESS: return tensor_multiple(x[0]);
  case OP_PARAMETER: return ir_known_multiple(join->kernel, x[0], MOST_MULTIPLE);
  default: return 1;
  }
}

static bool is_float(const IrType *type)
{
  return type->kind != TYPE_SCALAR || number_class(type->element) == NUMBER_FLOAT;
}

static int64_t multiple_of(Join *join, const IrExpr *expr)
{
  if (expr->kind == EXPR_INT) return low_bit(expr->integer);
  if (expr->kind == EXPR_DIM) return ir_known_multiple(join->kernel, expr, MOST_MULTIPLE);
  const IrValue *value = expr->kind == EXPR_VALUE ? expr->value : NULL;
  bool opaque = !value || value->variable || !value->def || is_float(&value->type) ||
                ir_attribute(value->def, ATTR_WHEN);
  if (opaque) return 1;
  gpointer known = g_hash_table_lookup(join->multiples, value);
  if (known) return GPOINTER_TO_SIZE(known);
  int64_t multiple = multiple_of_op(join, value->def);
  g_hash_table_insert(join->multiples, (gpointer)value, GSIZE_TO_POINTER((gsize)multiple));
  return multiple;
}

/* ---- what is computed alike ---- */

static const IrValue *same_as(const Join *join, const IrValue *value)
{
  const IrValue *same = g_hash_table_lookup(join->same, value);
  return same ? same : value;
}

static bool put_operand(const Join *join, GString *text, const IrExpr *expr)
{
  switch (expr->kind) {
  case EXPR_INT: g_string_append_printf(text, " %" G_GINT64_FORMAT, expr->integer); return true;
  case EXPR_FLOAT: g_string_append_printf(text, " %a", expr->number); return true;
  case EXPR_DIM:
  case EXPR_NAME:
  case EXPR_SYMBOL: g_string_append_printf(text, " %s", expr->name); return true;
  case EXPR_VALUE:
    if (expr->value->variable || expr->value->type.count > 1) return false;
    g_string_append_printf(text, " %p", (const void *)same_as(join, expr->value));
    return true;
  default: return false;
  }
}

/* x < c and x >= c where x is a multiple of so much: c may as well be the next multiple. */
static bool put_bound(Join *join, GString *text, const IrOp *op)
{
  int64_t bound;
  if ((op->code != OP_LT && op->code != OP_GE) || !ir_expr_is_int(op->operands[1], &bound) ||
      ABS(bound) > MOST_BOUND)
    return false;
  const IrExpr *x = op->operands[0];
  bool whole = x->kind == EXPR_VALUE && x->value->type.kind == TYPE_SCALAR && !is_float(&x->value->type) &&
               number_class(x->value->type.element) == NUMBER_SIGNED && put_operand(join, text, x);
  if (!whole) return false;
  int64_t multiple = multiple_of(join, x);
  g_string_append_printf(text, " %" G_GINT64_FORMAT, (bound + multiple - 1) & -multiple);
  return true;
}

static bool is_pure(const IrOp *op)
{
  return op->n_results == 1 && !op->n_regions && op->code != OP_VAR && !ir_op_effects(op->code) &&
         !ir_attribute(op, ATTR_WHEN) && op->results[0]->type.count <= 1 && !op->results[0]->variable;
}

static void note_value(Join *join, const IrOp *op)
{
  const IrType *type = &op->results[0]->type;
  g_autoptr(GString) text = g_string_new(NULL);
  g_string_append_printf(text, "%d %d %d", op->code, type->kind,
                         type->kind == TYPE_SCALAR ? (int)type->element : 0);
  if (!put_bound(join, text, op)) {
    for (unsigned i = 0; i < op->n_operands; i++)
      if (!put_operand(join, text, op->operands[i])) return;
    for (unsigned i = 0; i < op->n_attributes; i++) {
      g_string_append_printf(text, " %d", op->attributes[i].key);
      if (op->attributes[i].value && !put_operand(join, text, op->attributes[i].value)) return;
    }
  }
  IrValue *first = g_hash_table_lookup(join->first, text->str);
  if (first)
    g_hash_table_insert(join->same, op->results[0], first);
  else
    g_hash_table_insert(join->first, g_strdup(text->str), op->results[0]);
}

/* ---- loads ---- */

/* One element of 2 or 4 bytes, in its own type. */
static bool is_single(const IrOp *op)
{
  if (op->code != OP_LOAD_GLOBAL || op->n_results != 1 || ir_attribute(op, ATTR_TYPE)) return false;
  const IrType *type = &op->results[0]->type;
  if (type->kind != TYPE_SCALAR || type->count > 1 || op->results[0]->variable) return false;
  switch ((unsigned)type->element) {
  case NUMBER_F16:
  case NUMBER_BF16:
  case NUMBER_F32:
  case NUMBER_S32: return true;
  default: return false;
  }
}

static unsigned bytes_of(const IrOp *op)
{
  return (unsigned)number_bytes_of(op->results[0]->type.element, 1);
}

static bool is_load(const IrOp *op)
{
  bool plain = op->code == OP_LOAD_GLOBAL && op->n_results > 0;
  for (unsigned i = 0; i < op->n_results; i++)
    plain &= op->results[i]->type.kind == TYPE_SCALAR && op->results[i]->type.count <= 1 &&
             !op->results[i]->variable;
  return plain;
}

static void note_load(Join *join, IrOp *op)
{
  Load load = {.op = op};
  const IrValue *base = ir_address_base(op->operands[0], &load.offset);
  if (!base || base->variable || (is_single(op) && load.offset % bytes_of(op))) return;
  g_autoptr(GString) text = g_string_new(NULL);
  g_string_append_printf(text, "%u %d %p", op->n_results, op->results[0]->type.element,
                         (const void *)same_as(join, base));
  for (unsigned i = 0; i < op->n_attributes; i++) {
    g_string_append_printf(text, " %d", op->attributes[i].key);
    if (op->attributes[i].value && !put_operand(join, text, op->attributes[i].value)) return;
  }
  GArray *loads = g_hash_table_lookup(join->groups, text->str);
  if (!loads) {
    loads = g_array_new(false, false, sizeof(Load));
    g_hash_table_insert(join->groups, g_strdup(text->str), loads);
  }
  load.order = loads->len;
  g_array_append_val(loads, load);
}

static int compare_loads(const void *a, const void *b)
{
  const Load *x = a, *y = b;
  if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
  return x->order < y->order ? -1 : x->order > y->order;
}

static void replace(Join *join, IrOp *op, IrExpr *const *with)
{
  for (unsigned i = 0; i < op->n_results; i++)
    ir_replace_uses(join->kernel->body, op->results[i], with[i]);
  ir_op_remove(op);
}

static void leave_out(Join *join, IrOp *op, const IrOp *like)
{
  IrExpr *with[MOST_BYTES / 4];
  g_assert(op->n_results <= G_N_ELEMENTS(with));
  for (unsigned i = 0; i < op->n_results; i++)
    with[i] = ir_value(join->module, like->results[i]);
  replace(join, op, with);
  join->joined++;
}

/* Of loads of one element the first one is left: how many there are then, in the order of their places. */
static unsigned leave_first(Join *join, GArray *loads)
{
  unsigned n = 0;
  qsort(loads->data, loads->len, sizeof(Load), compare_loads);
  for (unsigned i = 0; i < loads->len; i++) {
    Load *load = &g_array_index(loads, Load, i), *last = n ? &g_array_index(loads, Load, n - 1) : NULL;
    if (last && last->offset == load->offset) {
      leave_out(join, load->op, last->op);
    } else
      g_array_index(loads, Load, n++) = *load;
  }
  return n;
}

/* How many of the loads from here on one access takes: as many as lie side by side, from a multiple of all their bytes on. */
static unsigned count_side_by_side(Join *join, const Load *load, unsigned n)
{
  int64_t offset;
  const unsigned bytes = bytes_of(load->op);
  const IrValue *base = ir_address_base(load->op->operands[0], &offset);
  int64_t multiple = MIN(multiple_of(join, ir_value(join->module, (IrValue *)base)), low_bit(load->offset));
  unsigned most = (unsigned)MIN(multiple, MOST_BYTES) / bytes, side = 1;
  while (side < n && load[side].offset == load->offset + (int64_t)side * bytes)
    side++;
  while (most > side)
    most /= 2;
  return MAX(most, 1);
}

/* Bits of a word of which each element is what is loaded where the condition does not hold. */
static IrExpr *fill_pair(const Join *join, const IrOp *op)
{
  const IrExpr *fill = ir_attribute_value(op, ATTR_FILL);
  double number = !fill ? 0 : fill->kind == EXPR_FLOAT ? fill->number : (double)fill->integer;
  uint64_t bits = 0;
  number_from_double(op->results[0]->type.element, number, true, &bits);
  return ir_int(join->module, (int64_t)(bits | bits << number_bits(op->results[0]->type.element)));
}

static void take_together(Join *join, const Load *loads, unsigned n)
{
  const Load *first = loads;
  for (unsigned i = 1; i < n; i++)
    if (loads[i].order < first->order) first = &loads[i];
  IrOp *op = first->op;
  const IrType element = op->results[0]->type;
  const bool halves = bytes_of(op) == 2;
  int64_t offset;
  IrExpr *at = ir_value(join->module, ir_address_base(op->operands[0], &offset));
  if (loads->offset) at = ir_binary(join->module, OPERATOR_ADD, at, ir_int(join->module, loads->offset));
  IrBuilder builder = ir_builder_before(op);
  builder.mark = op->mark;
  IrOp *load = ir_emit(&builder, OP_LOAD_GLOBAL, 1, at);
  IrExpr *words[MOST_BYTES / 4], *values[MOST_BYTES / 2];
  for (unsigned i = 0; i < (halves ? n / 2 : n); i++)
    words[i] = ir_value(join->module, ir_result(load, loads[i].op->results[0]->name,
                                                halves ? ir_scalar(NUMBER_B32) : element));
  for (unsigned i = 0; i < op->n_attributes; i++)
    ir_attribute_set(load, op->attributes[i].key, op->attributes[i].value);
  if (halves && ir_attribute(op, ATTR_FILL)) ir_attribute_set(load, ATTR_FILL, fill_pair(join, op));
  for (unsigned i = 0; i < n; i += 2) {
    if (!halves) break;
    IrOp *unpack = ir_emit(&builder, OP_UNPACK, 1, words[i / 2]);
    for (unsigned j = i; j < i + 2; j++)
      values[j] = ir_value(join->module, ir_result(unpack, loads[j].op->results[0]->name, element));
  }
  for (unsigned i = 0; i < n; i++) /* the first one too, where they stand */
    replace(join, loads[i].op, halves ? &values[i] : &words[i]);
  join->joined += n - 1;
}

static void join_group(Join *join, GArray *loads)
{
  if (loads->len < FEWEST) return;
  unsigned n = leave_first(join, loads);
  if (!is_single(g_array_index(loads, Load, 0).op)) return;
  for (unsigned i = 0, side; i < n; i += side) {
    const Load *load = &g_array_index(loads, Load, i);
    side = count_side_by_side(join, load, n - i);
    if (side > 1) take_together(join, load, side);
  }
}

/* Here memory may change, or control. */
static void close_groups(Join *join)
{
  GHashTableIter iterator;
  gpointer loads;
  g_hash_table_iter_init(&iterator, join->groups);
  while (g_hash_table_iter_next(&iterator, NULL, &loads))
    join_group(join, loads);
  g_hash_table_remove_all(join->groups);
}

static void open_tables(Join *join)
{
  join->same = g_hash_table_new(NULL, NULL);
  join->first = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  join->groups = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, (GDestroyNotify)g_array_unref);
}

static void close_tables(Join *join)
{
  g_hash_table_destroy(join->same);
  g_hash_table_destroy(join->first);
  g_hash_table_destroy(join->groups);
}

static unsigned count_loads(const IrRegion *region)
{
  unsigned n = 0;
  for (const IrOp *op = region->first; op; op = op->next)
    n += is_load(op);
  return n;
}

static void join_region(Join *outside, const IrRegion *region)
{
  Join join = *outside;
  const bool any = count_loads(region) >= FEWEST;
  open_tables(&join);
  for (IrOp *op = region->first, *next; op; op = next) {
    next = op->next;
    for (unsigned i = 0; i < op->n_regions; i++)
      join_region(&join, op->regions[i]);
    if (!any) continue;
    if (is_load(op))
      note_load(&join, op);
    else if (ir_op_effects(op->code) & (EFFECT_WRITE | EFFECT_SYNC | EFFECT_CONTROL))
      close_groups(&join);
    else if (is_pure(op))
      note_value(&join, op);
  }
  close_groups(&join);
  outside->joined = join.joined;
  close_tables(&join);
}

bool pass_join_loads(IrModule *module, const IrPassContext *context, GError **error)
{
  Join join = {.context = context, .module = module, .kernel = ir_kernel(module)};
  join.multiples = g_hash_table_new(NULL, NULL);
  join_region(&join, join.kernel->body);
  g_hash_table_destroy(join.multiples);
  if (join.joined) ir_remark(context, "%u loads are part of others", join.joined);
  return true;
}
