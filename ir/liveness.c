/* Liveness by one backward walk over the regions; loops are walked until nothing more is live at their head.
 */
#include "ir/liveness.h"

/* Registers are numbered: a value's first, arrays one each. Live sets are bit sets. */
typedef struct Live {
  GHashTable *first; /* IrValue* -> number of its first register + 1 */
  GArray *units;     /* unsigned char: what each register costs */
  unsigned words;    /* of a bit set */
  GArray *pressures; /* IrPressure */
  GArray *exits;     /* uint64_t*: live sets where break_if goes to, innermost last */
  bool measuring;    /* false while a loop is still being iterated */
} Live;

#define FREE      0 /* what a register costs: nothing */
#define PREDICATE 255

/* Arguments of the kernel lie in constant memory, which instructions read as they read registers. */
static unsigned char cost_of(const IrValue *value)
{
  if (value->type.kind == TYPE_PREDICATE || value->type.element == NUMBER_BOOL) return PREDICATE;
  if (value->def != NULL && (value->def->code == OP_PARAMETER || value->def->code == OP_ADDRESS)) return FREE;
  return number_bits(value->type.element) == 64 ? 2 : 1;
}

static void number_value(Live *live, const IrValue *value)
{
  unsigned n = MAX(value->type.count, 1);
  unsigned char units = cost_of(value);
  g_hash_table_insert(live->first, (gpointer)value, GUINT_TO_POINTER(live->units->len + 1));
  for (unsigned i = 0; i < n; i++)
    g_array_append_val(live->units, units);
}

static void number_region(Live *live, const IrRegion *region)
{
  for (unsigned i = 0; i < region->n_arguments; i++)
    number_value(live, region->arguments[i]);
  bool role = region->owner == NULL; /* what the kernel itself hands over is no role's */
  for (const IrOp *op = region->first; op != NULL; op = op->next) {
    for (unsigned i = 0; i < op->n_results; i++)
      number_value(live, op->results[i]);
    if (op->code == OP_REGISTERS && !role) {
      IrPressure part = {.role = op};
      ir_expr_is_int(op->operands[0], &part.granted);
      g_array_append_val(live->pressures, part);
      role = true;
    }
    for (unsigned i = 0; i < op->n_regions; i++)
      number_region(live, op->regions[i]);
  }
}

static uint64_t *set_new(const Live *live, const uint64_t *copy)
{
  uint64_t *set = g_new0(uint64_t, live->words);
  for (unsigned i = 0; copy != NULL && i < live->words; i++)
    set[i] = copy[i];
  return set;
}

static bool set_join(const Live *live, uint64_t *into, const uint64_t *other)
{
  bool grown = false;
  for (unsigned i = 0; i < live->words; i++) {
    uint64_t more = other[i] & ~into[i];
    into[i] |= more;
    grown |= more != 0;
  }
  return grown;
}

/* ---- Uses and definitions
 * ------------------------------------------------------------------------------------ */

static void mark(uint64_t *set, unsigned first, unsigned n, bool alive)
{
  for (unsigned i = first; i < first + n; i++) {
    if (alive)
      set[i / 64] |= 1ull << (i % 64);
    else
      set[i / 64] &= ~(1ull << (i % 64));
  }
}

/* Registers of a value, or of a constant part of an array; false if the expression is none. */
static bool registers_of(const Live *live, const IrExpr *expr, unsigned *first, unsigned *n)
{
  int64_t low, high;
  const IrExpr *base = expr->kind == EXPR_INDEX ? expr->items[0] : expr;
  if (base->kind != EXPR_VALUE) return false;
  unsigned number = GPOINTER_TO_UINT(g_hash_table_lookup(live->first, base->value));
  if (number == 0) return false; /* a tensor */
  *first = number - 1;
  *n = MAX(base->value->type.count, 1);
  if (expr->kind != EXPR_INDEX || expr->n != 2) return true;
  const IrExpr *index = expr->items[1];
  bool range = index->kind == EXPR_RANGE;
  if (!ir_expr_is_int(range ? index->items[0] : index, &low)) return true;
  high = low + 1;
  if (range && !ir_expr_is_int(index->items[1], &high)) return true;
  if (low < 0 || high <= low || high > *n) return true;
  *first += (unsigned)low;
  *n = (unsigned)(high - low);
  return true;
}

static void use(const Live *live, const IrExpr *expr, uint64_t *set, bool alive)
{
  unsigned first, n;
  if (registers_of(live, expr, &first, &n)) {
    mark(set, first, n, alive);
    return;
  }
  for (unsigned i = 0; i < expr->n; i++)
    use(live, expr->items[i], set, alive);
}

static unsigned pressure_of(const Live *live, const uint64_t *set, unsigned *predicates)
{
  unsigned units = 0;
  *predicates = 0;
  for (unsigned w = 0; w < live->words; w++)
    for (uint64_t bits = set[w]; bits != 0; bits &= bits - 1) {
      unsigned char one = g_array_index(live->units, unsigned char, w * 64 + (unsigned)__builtin_ctzll(bits));
      units += one == PREDICATE ? 0 : one;
      *predicates += one == PREDICATE;
    }
  return units;
}

/* ---- The walk
 * ------------------------------------------------------------------------------------------------ */

static void walk_region(Live *live, const IrRegion *region, uint64_t *set, unsigned part);

/* An op that writes operand 0 without reading it: `set`, and a product that starts from zero. */
static bool overwrites(const IrOp *op)
{
  int64_t keep;
  const IrExpr *accumulate = ir_attribute_value(op, ATTR_ACCUMULATE);
  return op->code == OP_SET || (accumulate != NULL && ir_expr_is_int(accumulate, &keep) && keep == 0);
}

static void measure(Live *live, const IrOp *op, const uint64_t *set, unsigned part)
{
  unsigned predicates, units = pressure_of(live, set, &predicates);
  IrPressure *pressure = &g_array_index(live->pressures, IrPressure, part);
  if (units > pressure->peak || pressure->at == NULL) {
    pressure->peak = units;
    pressure->at = op;
  }
  pressure->predicates = MAX(pressure->predicates, predicates);
}

/* A region that hands registers over is a role: a part of its own. */
static unsigned part_of_region(const Live *live, const IrRegion *region, unsigned part)
{
  for (unsigned i = 1; i < live->pressures->len; i++)
    if (g_array_index(live->pressures, IrPressure, i).role->parent == region) return i;
  return part;
}

static void walk_loop(Live *live, const IrOp *op, uint64_t *set, unsigned part)
{
  bool measuring = live->measuring;
  g_autofree uint64_t *after = set_new(live, set);
  g_autofree uint64_t *head = set_new(live, set);
  if (op->code == OP_LOOP) { /* left by break_if only */
    for (unsigned i = 0; i < live->words; i++)
      head[i] = 0;
  }
  for (unsigned i = op->code == OP_FOR; i < op->n_operands; i++) /* bound and step are read every iteration */
    use(live, op->operands[i], head, true);
  for (unsigned i = 0; i < op->regions[0]->n_arguments; i++) {
    unsigned first = GPOINTER_TO_UINT(g_hash_table_lookup(live->first, op->regions[0]->arguments[i])) - 1;
    mark(head, first, 1, true);
  }
  g_array_append_val(live->exits, after);
  live->measuring = false;
  for (bool again = true; again;) {
    g_autofree uint64_t *body = set_new(live, head);
    walk_region(live, op->regions[0], body, part);
    again = set_join(live, head, body);
  }
  live->measuring = measuring;
  g_autofree uint64_t *body = set_new(live, head);
  walk_region(live, op->regions[0], body, part);
  g_array_set_size(live->exits, live->exits->len - 1);
  set_join(live, set, head);
  for (unsigned i = 0; i < op->regions[0]->n_arguments; i++) {
    unsigned first = GPOINTER_TO_UINT(g_hash_table_lookup(live->first, op->regions[0]->arguments[i])) - 1;
    mark(set, first, 1, false);
  }
  for (unsigned i = 0; i < op->n_operands; i++)
    use(live, op->operands[i], set, true);
}

static void walk_if(Live *live, const IrOp *op, uint64_t *set, unsigned part)
{
  g_autofree uint64_t *after = set_new(live, set);
  walk_region(live, op->regions[0], set, part);
  if (op->n_regions > 1) walk_region(live, op->regions[1], after, part);
  set_join(live, set, after);
  use(live, op->operands[0], set, true);
}

static void walk_op(Live *live, const IrOp *op, uint64_t *set, unsigned part)
{
  if (op->code == OP_FOR || op->code == OP_LOOP) {
    walk_loop(live, op, set, part);
    return;
  }
  if (op->code == OP_IF) {
    walk_if(live, op, set, part);
    return;
  }
  bool conditional = ir_attribute(op, ATTR_WHEN) != NULL;
  if (op->code == OP_BREAK_IF && live->exits->len > 0)
    set_join(live, set, g_array_index(live->exits, uint64_t *, live->exits->len - 1));
  if (op->code == OP_EXIT && !conditional)
    for (unsigned i = 0; i < live->words; i++)
      set[i] = 0;
  unsigned first, n;
  for (unsigned i = 0; i < op->n_results; i++) { /* a result occupies its register even if nothing reads it */
    first = GPOINTER_TO_UINT(g_hash_table_lookup(live->first, op->results[i])) - 1;
    if (op->code != OP_VAR || op->n_operands > 0) mark(set, first, MAX(op->results[i]->type.count, 1), true);
  }
  bool writes = overwrites(op) && registers_of(live, op->operands[0], &first, &n);
  if (writes) mark(set, first, n, true);
  if (live->measuring) measure(live, op, set, part);
  if (writes && !conditional) mark(set, first, n, false);
  for (unsigned i = 0; i < op->n_results; i++) {
    first = GPOINTER_TO_UINT(g_hash_table_lookup(live->first, op->results[i])) - 1;
    mark(set, first, MAX(op->results[i]->type.count, 1), false);
  }
  for (unsigned i = overwrites(op); i < op->n_operands; i++)
    use(live, op->operands[i], set, true);
  for (unsigned i = 0; i < op->n_attributes; i++)
    if (op->attributes[i].value != NULL) use(live, op->attributes[i].value, set, true);
  if (live->measuring) measure(live, op, set, part);
}

static void walk_region(Live *live, const IrRegion *region, uint64_t *set, unsigned part)
{
  part = part_of_region(live, region, part);
  for (const IrOp *op = region->last; op != NULL; op = op->previous)
    walk_op(live, op, set, part);
}

IrPressure *ir_pressure(const IrFunction *kernel, unsigned *n)
{
  IrPressure whole = {0};
  Live live = {.first = g_hash_table_new(NULL, NULL), .measuring = true};
  live.units = g_array_new(false, false, 1);
  live.pressures = g_array_new(false, true, sizeof(IrPressure));
  live.exits = g_array_new(false, false, sizeof(uint64_t *));
  g_array_append_val(live.pressures, whole);
  number_region(&live, kernel->body);
  live.words = live.units->len / 64 + 1;
  g_autofree uint64_t *set = set_new(&live, NULL);
  walk_region(&live, kernel->body, set, 0);
  *n = live.pressures->len;
  g_hash_table_unref(live.first);
  g_array_unref(live.units);
  g_array_unref(live.exits);
  return (IrPressure *)(void *)g_array_free(live.pressures, false);
}
