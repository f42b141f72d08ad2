/* Layouts of values.
 *
 * A product fixes the layout of its sum, and the fragments of an operand in registers; a tile that nothing ties to a
 * product may have the one its accesses like. Between these, arithmetic wants its operands as its result lies, and a
 * reduction gives a slice of what it reads. Each such tie has a price, what a conversion there would take: nothing where
 * every thread keeps what it has, else two trips through shared memory, weighed by the loops around it. Values start as
 * their shape lies; then, one after the other, each takes the layout of a neighbour that makes its ties cheapest, until
 * none gains (iterated conditional modes: Besag, "On the statistical analysis of dirty pictures", 1986). A conversion
 * stands where layouts still differ. */
#include "ir/passes/assign_layouts.h"
#include "ir/mechanism.h"
#include "ir/passes/every.h"
#include <math.h>
#include <string.h>

#define LOOP_WEIGHT  4   /* of what a loop repeats, beside what stands in front of it */
#define LOOPS_MOST   4   /* that are weighed */
#define RENAMED      0.5 /* price of other names for the same registers: less than a word */
#define SWEEPS       4   /* at most */
#define IMPOSSIBLE   INFINITY
#define LAST_RESORT  1e6       /* a word's price: conditions are rather computed where they are used */
#define MASK_OPERAND G_MAXUINT /* the attribute `where` in place of an operand */

/* Of two tiles of registers that an op ties together. */
typedef struct {
  IrOp *op;
  unsigned operand;     /* the one that reads `from` */
  IrValue *from, *to;   /* to NULL: `wanted` */
  const Layout *wanted; /* fragments of a product, what a store likes */
  bool transposed;      /* `from^T` is read */
  bool result;          /* `to` is a reduction's result: it begins as the slice of what is read */
  double weight;
} Tie;

typedef struct {
  LayoutAssignment *assignment;
  Arena *arena;
  GArray *ties;      /* Tie */
  GHashTable *of;    /* IrValue* -> GArray of unsigned: its ties */
  GPtrArray *values; /* IrValue*, tiles of registers in order */
} Graph;

/* ---- Shapes ---- */

const Layout *layout_beside(Arena *arena, const Layout *layout, const IrType *type)
{
  if (!layout || layout->rank != type->rank) return NULL;
  bool narrow[LAYOUT_MAX_DIMS] = {false};
  for (unsigned d = 0; d < type->rank; d++) {
    int64_t extent = ir_tile_extent(type, d);
    narrow[d] = extent != layout->extent[d];
    if (narrow[d] && extent != 1) return NULL;
  }
  for (unsigned d = 0; d < type->rank && layout; d++) /* dropping dimension d keeps the other one */
    if (narrow[d]) layout = layout_slice(arena, layout, 1 - d);
  return layout;
}

static bool same_extents(const Layout *layout, const IrType *type)
{
  bool same = layout->rank == type->rank;
  for (unsigned d = 0; same && d < type->rank; d++)
    same = layout->extent[d] == ir_tile_extent(type, d);
  return same;
}

/* ---- Prices ---- */

static double words(const Layout *layout, NumberType element)
{
  return (double)layout_registers(layout) * number_bits(element) / number_bits(NUMBER_B32);
}

/* Per thread, of bringing a tile from one layout to another; conditions pass as integers. */
static double conversion(const Layout *from, const Layout *to, NumberType element)
{
  if (from == to || layout_equal(from, to)) return 0;
  if (layout_same_threads(from, to)) return RENAMED;
  if (element == NUMBER_BOOL && from->rank == to->rank)
    return LAST_RESORT * (words(from, NUMBER_S32) + words(to, NUMBER_S32));
  if (number_bits(element) < CHAR_BIT || from->rank != to->rank) return IMPOSSIBLE;
  return words(from, element) + words(to, element);
}

/* What the tie's reader gets, and what it needs, where its ends have these layouts. The need is NULL where the shapes
 * have nothing in common: then the op takes what there is. */
static void ends_of(const Graph *graph, const Tie *tie, const Layout *from, const Layout *to,
                    const Layout **given, const Layout **needed)
{
  const IrType *source = &tie->from->type;
  if (tie->result) {
    *given = layout_beside(graph->arena, from, &tie->to->type);
    *needed = *given ? to : NULL;
    return;
  }
  Every every;
  *given = from;
  *needed = tie->to ? to : tie->wanted;
  if (*needed && tie->op->code == OP_SPREAD && every_of(tie->op, &every)) {
    *needed = layout_every(graph->arena, *needed, every.dim, every.n);
    return;
  }
  if (*needed && tie->transposed) *needed = layout_transposed(graph->arena, *needed);
  *needed = *needed ? layout_beside(graph->arena, *needed, source) : NULL;
}

static double price(const Graph *graph, const Tie *tie, const Layout *from, const Layout *to)
{
  const Layout *given, *needed;
  ends_of(graph, tie, from, to, &given, &needed);
  if (!given || !needed) return 0;
  return tie->weight * conversion(given, needed, tie->from->type.element);
}

/* Of all ties of a value, if it had this layout. */
static double price_of(const Graph *graph, const IrValue *value, const Layout *layout)
{
  const GArray *of = g_hash_table_lookup(graph->of, value);
  double sum = 0;
  for (unsigned i = 0; of && i < of->len; i++) {
    const Tie *tie = &g_array_index(graph->ties, Tie, g_array_index(of, unsigned, i));
    const Layout *from = tie->from == value ? layout : tie->from->type.layout;
    const Layout *to = !tie->to ? NULL : tie->to == value ? layout : tie->to->type.layout;
    sum += price(graph, tie, from, to);
  }
  return sum;
}

/* ---- Ties ---- */

static double weight_of(const IrOp *op)
{
  double weight = 1;
  unsigned loops = 0;
  for (const IrOp *owner = op->parent->owner; owner; owner = owner->parent->owner)
    if ((owner->code == OP_FOR || owner->code == OP_LOOP) && loops++ < LOOPS_MOST) weight *= LOOP_WEIGHT;
  return weight;
}

static void note_end(Graph *graph, IrValue *value, unsigned tie)
{
  GArray *of = g_hash_table_lookup(graph->of, value);
  if (!of) {
    of = g_array_new(false, false, sizeof(unsigned));
    g_hash_table_insert(graph->of, value, of);
  }
  g_array_append_val(of, tie);
}

static bool is_tile(const IrExpr *expr)
{
  return expr && expr->kind == EXPR_VALUE && expr->value->type.kind == TYPE_TILE && expr->value->type.layout;
}

static IrExpr **operand_of(IrOp *op, unsigned operand)
{
  if (operand != MASK_OPERAND) return &op->operands[operand];
  for (unsigned i = 0; i < op->n_attributes; i++)
    if (op->attributes[i].key == ATTR_WHERE) return &op->attributes[i].value;
  return NULL;
}

static void tie(Graph *graph, Tie tie)
{
  unsigned index = graph->ties->len;
  tie.weight = weight_of(tie.op);
  g_array_append_val(graph->ties, tie);
  note_end(graph, tie.from, index);
  if (tie.to && tie.to != tie.from) note_end(graph, tie.to, index);
}

/* The op reads an operand beside `to`. */
static void tie_operand(Graph *graph, IrOp *op, unsigned operand, IrValue *to, const Layout *wanted)
{
  IrExpr **place = operand_of(op, operand);
  const IrExpr *expr = place ? *place : NULL;
  bool transposed = expr && expr->kind == EXPR_TRANSPOSED;
  if (transposed) expr = expr->items[0];
  if (!is_tile(expr) || (to && to->type.kind != TYPE_TILE)) return;
  tie(graph, (Tie){.op = op,
                   .operand = operand,
                   .from = expr->value,
                   .to = to,
                   .wanted = wanted,
                   .transposed = transposed});
}

static void tie_reduction(Graph *graph, IrOp *op)
{
  if (!op->n_operands || !is_tile(op->operands[0])) return;
  IrValue *first = op->operands[0]->value;
  for (unsigned i = 1; i < op->n_operands; i++)
    tie_operand(graph, op, i, first, NULL);
  for (unsigned i = 0; i < op->n_results; i++)
    tie(graph, (Tie){.op = op, .from = first, .to = op->results[i], .result = true});
}

static void tie_scan(Graph *graph, IrOp *op)
{
  tie_operand(graph, op, 0, op->results[0], NULL);
  if (is_tile(op->operands[0]))
    tie(graph, (Tie){.op = op, .from = op->results[0], .to = op->results[1], .result = true});
}

/* What joins a sort lies as its result. */
static void tie_sort(Graph *graph, IrOp *op)
{
  if (op->n_operands > 1) tie_operand(graph, op, 1, op->results[0], NULL);
}

/* Results lie as operands do. */
static void tie_count(Graph *graph, IrOp *op)
{
  for (unsigned i = 0; i < op->n_operands; i++)
    tie_operand(graph, op, i, op->results[i], NULL);
}

/* The tile whose elements an access moves, one for one. */
static IrValue *moved_tile(const IrOp *op)
{
  const IrExpr *stored = NULL;
  if (op->code == OP_LOAD || op->code == OP_GATHER)
    return op->results[0]->type.kind == TYPE_TILE ? op->results[0] : NULL;
  if (op->code == OP_STORE || op->code == OP_STORE_REDUCED) stored = op->operands[1];
  if (op->code == OP_SCATTER) stored = op->operands[2];
  return stored && is_tile(stored) ? stored->value : NULL;
}

static void tie_op(Graph *graph, IrOp *op)
{
  IrValue *moved = moved_tile(op);
  if (moved) tie_operand(graph, op, MASK_OPERAND, moved, NULL);
  if (moved && (op->code == OP_GATHER || op->code == OP_SCATTER)) tie_operand(graph, op, 1, moved, NULL);
  if (op->code == OP_REDUCE) tie_reduction(graph, op);
  if (op->code == OP_SCAN) tie_scan(graph, op);
  if (op->code == OP_SORT) tie_sort(graph, op);
  if (op->code == OP_COUNT) tie_count(graph, op);
  if (op->code == OP_SET && is_tile(op->operands[0])) tie_operand(graph, op, 1, op->operands[0]->value, NULL);
  if (op->code == OP_VAR && op->n_operands) tie_operand(graph, op, 0, op->results[0], NULL);
  const Layout *wanted = g_hash_table_lookup(graph->assignment->wanted, op);
  if (wanted) tie_operand(graph, op, 1, NULL, wanted);
  if (op->code == OP_CONVERT || op->code == OP_SPREAD) tie_operand(graph, op, 0, op->results[0], NULL);
  for (unsigned i = 0; ir_op_is_elementwise(op->code) && i < op->n_operands; i++)
    tie_operand(graph, op, i, op->results[0], NULL);
}

static void collect(Graph *graph)
{
  for (unsigned i = 0; i < graph->assignment->ops->len; i++) {
    IrOp *op = graph->assignment->ops->pdata[i];
    for (unsigned r = 0; r < op->n_results; r++)
      if (op->results[r]->type.kind == TYPE_TILE && op->results[r]->type.layout)
        g_ptr_array_add(graph->values, op->results[r]);
    tie_op(graph, op);
  }
}

/* ---- Values that nothing ties to a product ---- */

/* A product's sum or operand, or what counters gave: its layout is theirs. */
static bool is_fixed(const Graph *graph, const IrValue *value)
{
  return g_hash_table_contains(graph->assignment->fixed, value) ||
         (value->def && value->def->code == OP_COUNT);
}

/* All that ties lead to from a value; false: one whose layout is fixed is among it. */
static bool reach(const Graph *graph, IrValue *value, GHashTable *reached)
{
  bool alone = !is_fixed(graph, value);
  if (!alone || !g_hash_table_add(reached, value)) return alone;
  const GArray *of = g_hash_table_lookup(graph->of, value);
  for (unsigned i = 0; of && i < of->len; i++) {
    const Tie *tie = &g_array_index(graph->ties, Tie, g_array_index(of, unsigned, i));
    IrValue *other = tie->from == value ? tie->to : tie->from;
    alone = (other ? reach(graph, other, reached) : false) && alone;
  }
  return alone;
}

static const Layout *beside_one_of(const Graph *graph, const GPtrArray *layouts, const IrType *type)
{
  const Layout *layout = NULL;
  for (unsigned i = 0; i < layouts->len && !layout; i++)
    layout = layout_beside(graph->arena, layouts->pdata[i], type);
  return layout;
}

/* Largest first, as their accesses like it. */
static void place_alone(Graph *graph, GHashTable *values)
{
  LayoutAssignment *assignment = graph->assignment;
  g_autoptr(GPtrArray) layouts = g_ptr_array_new();
  for (const Layout *layout = NULL;; g_ptr_array_add(layouts, (gpointer)layout)) {
    const IrType *largest = NULL;
    for (unsigned i = 0; i < graph->values->len; i++) {
      const IrValue *value = graph->values->pdata[i];
      if (!g_hash_table_contains(values, value) || beside_one_of(graph, layouts, &value->type)) continue;
      if (!largest || ir_tile_elements(&value->type) > ir_tile_elements(largest)) largest = &value->type;
    }
    if (!largest) break;
    layout = assignment->alone(assignment->data, values, largest);
    if (!layout) return; /* they stay as their shape lies */
  }
  for (unsigned i = 0; i < graph->values->len; i++) {
    IrValue *value = graph->values->pdata[i];
    if (g_hash_table_contains(values, value))
      value->type.layout = beside_one_of(graph, layouts, &value->type);
  }
}

static void place_untied(Graph *graph)
{
  if (!g_hash_table_size(graph->assignment->fixed))
    return; /* shapes have been laid out for accesses already */
  g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL);
  for (unsigned i = 0; i < graph->values->len; i++) {
    IrValue *value = graph->values->pdata[i];
    if (g_hash_table_contains(seen, value)) continue;
    g_autoptr(GHashTable) reached = g_hash_table_new(NULL, NULL);
    if (reach(graph, value, reached)) place_alone(graph, reached);
    GHashTableIter iterator;
    gpointer key;
    g_hash_table_iter_init(&iterator, reached);
    while (g_hash_table_iter_next(&iterator, &key, NULL))
      g_hash_table_add(seen, key);
  }
}

/* ---- Cheapest layouts ---- */

/* What a value would have so that one of its ties takes nothing; NULL: its shape does not tell. */
static const Layout *proposal(const Graph *graph, const Tie *tie, const IrValue *value)
{
  const Layout *given, *needed;
  if (tie->from == value) {
    if (tie->result) return NULL;
    ends_of(graph, tie, value->type.layout, tie->to ? tie->to->type.layout : NULL, &given, &needed);
    return needed;
  }
  const Layout *from = tie->from->type.layout;
  if (tie->transposed) from = layout_transposed(graph->arena, from);
  if (tie->result) return layout_beside(graph->arena, from, &value->type);
  return same_extents(from, &value->type) ? from : NULL;
}

static bool settle(const Graph *graph, IrValue *value)
{
  const GArray *of = g_hash_table_lookup(graph->of, value);
  double least = of ? price_of(graph, value, value->type.layout) : 0;
  bool changed = false;
  for (unsigned i = 0; least > 0 && i < of->len; i++) {
    const Tie *tie = &g_array_index(graph->ties, Tie, g_array_index(of, unsigned, i));
    const Layout *layout = proposal(graph, tie, value);
    if (!layout || layout_equal(layout, value->type.layout)) continue;
    double here = price_of(graph, value, layout);
    if (here >= least) continue;
    least = here;
    value->type.layout = layout;
    changed = true;
  }
  return changed;
}

static void settle_all(const Graph *graph)
{
  bool changed = true;
  for (unsigned sweep = 0; changed && sweep < SWEEPS; sweep++) {
    changed = false;
    for (unsigned i = 0; i < graph->values->len; i++)
      if (!is_fixed(graph, graph->values->pdata[i])) changed |= settle(graph, graph->values->pdata[i]);
  }
}

/* ---- Operands that are computed from slots ---- */

/* What has been looked at of an operand: a value may be read many times. */
typedef struct Operand {
  const Layout *layout;
  GHashTable *seen; /* IrValue; what is in `seen` and was not refused comes from slots */
} Operand;

/* Is a product's operand computed, element by element, from slots alone, and rows or columns of what is loaded? */
static bool comes_from_slots(const Operand *at, const IrValue *value)
{
  const IrOp *def = value->def;
  bool whole = same_extents(at->layout, &value->type);
  if (!g_hash_table_add(at->seen, (void *)value)) return true;
  if (!def || (!whole && def->code == OP_LOAD) || (whole && def->code == OP_GET)) return def != NULL;
  bool from = ir_op_is_elementwise(def->code);
  for (unsigned i = 0; from && i < def->n_operands; i++)
    if (is_tile(def->operands[i])) from = comes_from_slots(at, def->operands[i]->value);
  return from;
}

/* Such an operand begins as fragments all the way: where its parts are equally wide, none would gain by going first. */
static void begin_as_fragments(const Graph *graph)
{
  for (unsigned i = 0; i < graph->ties->len; i++) {
    const Tie *tie = &g_array_index(graph->ties, Tie, i);
    if (!tie->wanted || tie->transposed) continue;
    g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL);
    if (!comes_from_slots(&(Operand){tie->wanted, seen}, tie->from)) continue;
    GHashTableIter each;
    gpointer value;
    for (g_hash_table_iter_init(&each, seen); g_hash_table_iter_next(&each, &value, NULL);) {
      IrType *type = &((IrValue *)value)->type;
      const Layout *own = layout_beside(graph->arena, tie->wanted, type);
      if (own) type->layout = own;
    }
  }
}

/* ---- Conversions ---- */

IrExpr *exchange_declare(IrFunction *kernel, const Mark *mark, NumberType element, unsigned rank,
                         const unsigned *extents, unsigned pad)
{
  IrModule *module = kernel->module;
  int64_t extent[LAYOUT_MAX_DIMS];
  for (unsigned d = 0; d < rank; d++)
    extent[d] = extents[d];
  IrType *tile = arena_new_object(module->arena, IrType);
  *tile = ir_tile(module, element, rank, extent,
                  layout_shared(module->arena, rank, extents, rank - 1, element, 0, pad));
  IrBuilder builder =
      kernel->body->first ? ir_builder_before(kernel->body->first) : ir_builder_at_end(kernel->body);
  builder.mark = *mark;
  IrOp *shared = ir_emit(&builder, OP_SHARED, 0);
  for (unsigned number = 0; !shared->symbol; number++) {
    const char *name = arena_printf(module->arena, "exchange%u", number);
    if (!ir_symbol_find(kernel, name)) shared->symbol = name;
  }
  shared->declared = tile;
  return ir_symbol(module, shared->symbol);
}

/* Elements between two rows of an exchange: a vector's, but where single elements go in and out, one bank's: neighbours in a column
 * are in neighbouring banks then. */
static unsigned row_pad(const Graph *graph, const Layout *from, const IrType *to)
{
  unsigned vector = MAX(layout_vector(from, 1), layout_vector(to->layout, 1));
  bool single = number_bytes_of(to->element, vector) <= graph->assignment->bank;
  return number_elements(to->element, single ? graph->assignment->bank : MECHANISM_SIZES_MOST);
}

/* How the op gets there: the same registers, or through shared memory, where rows start behind the banks of the row
 * before. */
static void complete(const Graph *graph, IrOp *convert, const Layout *from)
{
  IrModule *module = graph->assignment->module;
  const IrType *type = &convert->results[0]->type;
  if (layout_same_threads(from, type->layout)) {
    ir_mechanism_set(convert, ir_mechanism_issued(module, MECHANISM_CONVERT, ISSUE_THREAD));
    return;
  }
  ir_mechanism_set(convert, ir_mechanism_issued(module, MECHANISM_CONVERT, ISSUE_BLOCK));
  unsigned pad = type->layout->rank == 2 ? row_pad(graph, from, type) : 0;
  ir_attribute_set(convert, ATTR_EXCHANGE,
                   exchange_declare(graph->assignment->kernel, &convert->mark, type->element,
                                    type->layout->rank, type->layout->extent, pad));
}

static bool refuse(const Graph *graph, const Tie *tie)
{
  error_set(graph->assignment->error, ERROR_UNSUPPORTED, &tie->op->mark, "convert", NULL,
            "`%%%s` lies in other threads than `%s` needs it in, and tiles of %s are not exchanged",
            tie->from->name, ir_op_info(tie->op->code)->name, number_name(tie->from->type.element));
  return false;
}

/* The value of a reduction is made where its threads are, then brought to where it is wanted. */
static bool convert_result(Graph *graph, const Tie *tie, const Layout *given)
{
  IrModule *module = graph->assignment->module;
  IrOp *op = tie->op;
  if (conversion(given, tie->to->type.layout, tie->to->type.element) >= IMPOSSIBLE) return refuse(graph, tie);
  for (unsigned r = 0; r < op->n_results; r++) {
    if (op->results[r] != tie->to) continue;
    IrType type = tie->to->type;
    type.layout = given;
    IrBuilder builder = ir_builder_after(op);
    builder.mark = op->mark;
    IrOp *convert = ir_emit(&builder, OP_CONVERT, 1, ir_int(module, 0));
    IrValue *made = ir_result(convert, tie->to->name, type);
    op->results[r] = made;
    made->def = op;
    convert->results[0] = tie->to;
    tie->to->def = convert;
    convert->operands[0] = ir_value(module, made);
    complete(graph, convert, given);
  }
  return true;
}

/* A conversion of the same value to the same layout that stands in front of the op already. */
static IrExpr *converted_before(const IrOp *op, const IrExpr *operand, const Layout *layout)
{
  const IrExpr *base = operand->kind == EXPR_TRANSPOSED ? operand->items[0] : operand;
  if (base->value->variable) return NULL;
  for (const IrOp *before = op->previous; before; before = before->previous)
    if (before->code == OP_CONVERT && ir_expr_equal(before->operands[0], operand) &&
        layout_equal(before->results[0]->type.layout, layout))
      return ir_value(op->parent->function->module, before->results[0]);
  return NULL;
}

/* 1 where the condition holds. */
static IrExpr *as_integers(IrBuilder *builder, IrExpr *condition, const IrType *type)
{
  IrModule *module = builder->module;
  IrOp *op = ir_emit(builder, OP_SELECT, 3, condition, ir_int(module, 1), ir_int(module, 0));
  return ir_value(module, ir_result(op, "holds", *type));
}

/* A conversion in front of the tie's op. A condition has no bytes: integers go in its place. */
static IrExpr *emit_convert(const Graph *graph, const Tie *tie, IrExpr *value, const Layout *from,
                            const IrType *type)
{
  IrModule *module = graph->assignment->module;
  const char *name = tie->to ? tie->from->name : "fragments";
  bool condition = type->element == NUMBER_BOOL && !layout_same_threads(from, type->layout);
  IrType moved = *type;
  IrBuilder builder = ir_builder_before(tie->op);
  builder.mark = tie->op->mark;
  if (condition) {
    bool transposed = value->kind == EXPR_TRANSPOSED;
    IrType whole = transposed ? tie->from->type : ir_expr_type(graph->assignment->kernel, value);
    whole.element = moved.element = NUMBER_S32;
    value = as_integers(&builder, transposed ? value->items[0] : value, &whole);
    if (transposed) value = ir_transposed(module, value);
  }
  IrOp *convert = ir_emit(&builder, OP_CONVERT, 1, value);
  IrExpr *made = ir_value(module, ir_result(convert, name, moved));
  complete(graph, convert, from);
  if (!condition) return made;
  return ir_value(module, ir_result(ir_emit(&builder, OP_NE, 2, made, ir_int(module, 0)), name, *type));
}

static bool convert_operand(Graph *graph, const Tie *tie, const Layout *given, const Layout *needed)
{
  if (conversion(given, needed, tie->from->type.element) >= IMPOSSIBLE) return refuse(graph, tie);
  IrExpr **place = operand_of(tie->op, tie->operand);
  const Layout *from = tie->transposed ? layout_transposed(graph->arena, given) : given;
  if (tie->op->code == OP_CONVERT) { /* the text's own */
    complete(graph, tie->op, from);
    return true;
  }
  IrType type = ir_expr_type(graph->assignment->kernel, *place);
  type.layout = needed;
  if (tie->transposed) /* what is needed of `from`, seen from the reader */
    type.layout = layout_beside(graph->arena, tie->to ? tie->to->type.layout : tie->wanted, &type);
  IrExpr *made = converted_before(tie->op, *place, type.layout);
  *place = made ? made : emit_convert(graph, tie, *place, from, &type);
  return true;
}

/* Does the op take the operand as it lies? Of a row or a column it needs only that threads hold what they use. */
static bool takes(const Tie *tie, const Layout *given, const Layout *needed)
{
  if (tie->transposed) return false;
  if (!tie->to && given->name && needed->name && strcmp(given->name, needed->name))
    return false; /* said in the text */
  if (layout_equal(given, needed)) return true;
  bool whole = tie->result ? false : !tie->to || same_extents(given, &tie->to->type);
  return !whole && layout_same_threads(given, needed);
}

static bool convert(Graph *graph)
{
  for (unsigned i = 0; i < graph->ties->len; i++) {
    const Tie *tie = &g_array_index(graph->ties, Tie, i);
    const Layout *given, *needed;
    ends_of(graph, tie, tie->from->type.layout, tie->to ? tie->to->type.layout : NULL, &given, &needed);
    if (!given || !needed || (tie->op->code != OP_CONVERT && takes(tie, given, needed))) continue;
    bool done = tie->result ? convert_result(graph, tie, given) : convert_operand(graph, tie, given, needed);
    if (!done) return false;
  }
  return true;
}

static void free_ties(gpointer of)
{
  g_array_unref(of);
}

bool assign_layouts(LayoutAssignment *assignment)
{
  g_autoptr(GArray) ties = g_array_new(false, false, sizeof(Tie));
  g_autoptr(GHashTable) of = g_hash_table_new_full(NULL, NULL, NULL, free_ties);
  g_autoptr(GPtrArray) values = g_ptr_array_new();
  Graph graph = {assignment, assignment->module->arena, ties, of, values};
  collect(&graph);
  place_untied(&graph);
  begin_as_fragments(&graph);
  settle_all(&graph);
  return convert(&graph);
}
