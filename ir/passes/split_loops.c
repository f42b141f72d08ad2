/* split_loops: a loop is split where a predicate that is affine in its index changes.
 *
 * needs  STAGED, pipelined loops written, waits derived
 * gives  in place of a loop whose body compares numbers of rows or columns with such of the iteration (`ge %row, %key`, whose
 *        operands are iotas plus multiples of the index), or whose `if` does, a loop for the iterations where that is known
 *        true, one for the boundary and one where it is known false, as far as there are such; where it is known, masks, selects
 *        and `where`s are gone and ifs decided. What the bounds of any loop decide, of a steady state for instance, is decided too
 * breaks nothing; loops without products, with a break, a step known at run time only or a predicate of another form stay
 *        as they are
 *
 * So the tiles under a causal mask's diagonal, or in front of a length, are computed without a mask. A ring's cursors and
 * what is in flight go on from one part to the next: the parts are the same iterations in the same order. */
#include "ir/affine.h"
#include "ir/facts.h"
#include "ir/pass.h"
#include <string.h>

#define MOST_SPLITS 2 /* predicates by which a loop is split: a mask's two edges */

typedef struct {
  const IrPassContext *context;
  IrModule *module;
  int64_t instances; /* of the role */
} Kernel;

typedef struct {
  const Kernel *kernel;
  IrOp *op;
  IrRegion *body;
  const IrValue *index;
  Affine low[3], high[3]; /* the index is no less than any of these, and less than any of those */
  unsigned n_low, n_high;
  bool first_is_low, first_is_high; /* the first of them is the bound itself, not a side of a minimum */
  bool apart;                       /* its bounds are other ones for each instance */
} Loop;

/* Values between base + low and base + high, for the elements of a tile and the instances of a role. */
typedef struct {
  Affine base;
  int64_t low, high;
} Range;

/* True where the range is not below 0, or, `equal`, where it is 0. */
typedef struct {
  Range range;
  bool equal, negated;
} Predicate;

typedef enum { STATE_FALSE, STATE_TRUE, STATE_UNKNOWN } State;

/* ---- Affine forms ---- */

static bool is_inside(const IrRegion *region, const IrRegion *body)
{
  for (; region; region = region->owner ? region->owner->parent : NULL)
    if (region == body) return true;
  return false;
}

/* The same for all threads of the role or instance; what varies between them is asked for by name. */
static bool is_uniform(const IrExpr *expr)
{
  static const char *const places[] = {"block",    "blocks",       "instance",     "min", "max",
                                       "ceil_div", "cluster_rank", "cluster_size", NULL};
  if (expr->kind == EXPR_CALL && !g_strv_contains(places, expr->name)) return false;
  const IrOp *def = expr->kind == EXPR_VALUE ? expr->value->def : NULL;
  if (def && def->code == OP_LET && !is_uniform(def->operands[0])) return false;
  for (unsigned i = 0; i < expr->n; i++)
    if (!is_uniform(expr->items[i])) return false;
  return true;
}

static bool names_instance(const IrExpr *expr)
{
  if (expr->kind == EXPR_CALL && g_str_equal(expr->name, "instance")) return true;
  const IrOp *def = expr->kind == EXPR_VALUE ? expr->value->def : NULL;
  if (def && def->code == OP_LET && names_instance(def->operands[0])) return true;
  for (unsigned i = 0; i < expr->n; i++)
    if (names_instance(expr->items[i])) return true;
  return false;
}

/* The same in all iterations too: numbers from outside of the loop, and what is computed of them. */
static bool is_invariant(const Loop *loop, const IrExpr *expr)
{
  switch (expr->kind) {
  case EXPR_INT:
  case EXPR_DIM: return true;
  case EXPR_VALUE: {
    const IrValue *value = expr->value;
    if (value->variable || value->type.kind != TYPE_SCALAR) return false;
    const IrRegion *region = value->def ? value->def->parent : value->argument_of;
    return region && !is_inside(region, loop->body);
  }
  case EXPR_CALL:
  case EXPR_BINARY: break;
  default: return false;
  }
  for (unsigned i = 0; i < expr->n; i++)
    if (!is_invariant(loop, expr->items[i])) return false;
  return true;
}

static bool is_unknown(const IrExpr *leaf, void *data)
{
  const Loop *loop = data;
  if (leaf->kind == EXPR_VALUE && leaf->value == loop->index) return true;
  return is_invariant(loop, leaf) && is_uniform(leaf);
}

static bool form_of(const Loop *loop, const IrExpr *expr, Affine *form)
{
  return affine_of(expr, is_unknown, (void *)loop, form);
}

/* instance() is a number below the role's instances. Where each has iterations of its own it has splits of its own, too. */
static bool bound_instances(const Loop *loop, Range *range)
{
  if (loop->apart) return true;
  for (unsigned i = 0; i < range->base.n; i++) {
    const IrExpr *unknown = range->base.terms[i].unknown;
    int64_t span;
    if (unknown->kind != EXPR_CALL || !g_str_equal(unknown->name, "instance")) continue;
    if (__builtin_mul_overflow(range->base.terms[i].factor, loop->kernel->instances - 1, &span)) return false;
    *(span < 0 ? &range->low : &range->high) += span;
    range->base.terms[i] = range->base.terms[--range->base.n];
    return true;
  }
  return true;
}

static bool range_of(const Loop *loop, const IrExpr *expr, Range *range);

static bool add_range(Range *sum, const Range *other, int64_t factor)
{
  int64_t low, high;
  return affine_add(&sum->base, &other->base, factor) &&
         !__builtin_mul_overflow(factor < 0 ? other->high : other->low, factor, &low) &&
         !__builtin_mul_overflow(factor < 0 ? other->low : other->high, factor, &high) &&
         !__builtin_add_overflow(sum->low, low, &sum->low) &&
         !__builtin_add_overflow(sum->high, high, &sum->high);
}

/* Numbers that are known but for the element, and not below 0, divided by a known one; or what that leaves. */
static bool range_of_quotient(const Loop *loop, const IrOp *op, Range *range)
{
  int64_t by;
  if (!ir_expr_is_int(op->operands[1], &by) || by < 1 || !range_of(loop, op->operands[0], range))
    return false;
  int64_t low = range->low + range->base.constant, high = range->high + range->base.constant;
  if (range->base.n || low < 0) return false;
  range->base.constant = 0;
  range->low = op->code == OP_DIV ? low / by : 0;
  range->high = op->code == OP_DIV ? high / by : MIN(high, by - 1);
  return true;
}

/* What a tile of numbers is computed from. */
static bool range_of_op(const Loop *loop, const IrOp *op, Range *range)
{
  Range a, b;
  int64_t factor;
  *range = (Range){0};
  switch (op->code) {
  case OP_IOTA:
    range->high = ir_tile_extent(&op->results[0]->type, (unsigned)ir_attribute_int(op, ATTR_DIM, 0)) - 1;
    return true;
  case OP_SPLAT:
  case OP_CONVERT: return range_of(loop, op->operands[0], range);
  case OP_ADD:
  case OP_SUB:
    return range_of(loop, op->operands[0], &a) && range_of(loop, op->operands[1], &b) &&
           add_range(range, &a, 1) && add_range(range, &b, op->code == OP_ADD ? 1 : -1);
  case OP_MUL:
    if (ir_expr_is_int(op->operands[1], &factor))
      return range_of(loop, op->operands[0], &a) && add_range(range, &a, factor);
    if (ir_expr_is_int(op->operands[0], &factor))
      return range_of(loop, op->operands[1], &a) && add_range(range, &a, factor);
    return false;
  case OP_DIV:
  case OP_REM: return range_of_quotient(loop, op, range);
  default: return false;
  }
}

static bool range_of(const Loop *loop, const IrExpr *expr, Range *range)
{
  expr = ir_untransposed(expr);
  if (expr->kind == EXPR_VALUE && expr->value->type.kind == TYPE_TILE) {
    const IrValue *value = expr->value;
    return !value->variable && value->def && value->type.element == NUMBER_S32 &&
           range_of_op(loop, value->def, range);
  }
  *range = (Range){0};
  return form_of(loop, expr, &range->base) && bound_instances(loop, range);
}

/* ---- Predicates ---- */

/* `a CODE b`, where CODE is an opcode of a comparison. */
static bool compare(const Loop *loop, IrOpcode code, const IrExpr *a, const IrExpr *b, Predicate *predicate)
{
  Range left, right;
  *predicate = (Predicate){.equal = code == OP_EQ || code == OP_NE, .negated = code == OP_NE};
  bool exchanged = code == OP_LE || code == OP_LT, strict = code == OP_GT || code == OP_LT;
  bool compares = predicate->equal || exchanged || strict || code == OP_GE;
  if (!compares || !range_of(loop, exchanged ? b : a, &left) || !range_of(loop, exchanged ? a : b, &right))
    return false;
  predicate->range.base.constant = strict ? -1 : 0;
  return add_range(&predicate->range, &left, 1) && add_range(&predicate->range, &right, -1);
}

static bool predicate_of_expr(const Loop *loop, const IrExpr *expr, Predicate *predicate)
{
  if (expr->kind != EXPR_BINARY) return false;
  switch (expr->operator_) {
  case OPERATOR_GE: return compare(loop, OP_GE, expr->items[0], expr->items[1], predicate);
  case OPERATOR_GT: return compare(loop, OP_GT, expr->items[0], expr->items[1], predicate);
  case OPERATOR_LE: return compare(loop, OP_LE, expr->items[0], expr->items[1], predicate);
  case OPERATOR_LT: return compare(loop, OP_LT, expr->items[0], expr->items[1], predicate);
  case OPERATOR_EQ: return compare(loop, OP_EQ, expr->items[0], expr->items[1], predicate);
  case OPERATOR_NE: return compare(loop, OP_NE, expr->items[0], expr->items[1], predicate);
  default: return false;
  }
}

/* A comparison of tiles; its operands' elements need not be known one by one. */
static bool predicate_of(const Loop *loop, const IrOp *op, Predicate *predicate)
{
  return op->n_results == 1 && op->results[0]->type.kind == TYPE_TILE && op->n_operands == 2 &&
         compare(loop, op->code, op->operands[0], op->operands[1], predicate);
}

/* Is sign * base + more >= 0 in all iterations? */
static bool is_never_negative(const Loop *loop, const Affine *base, int64_t sign, int64_t more)
{
  Affine rest = {.constant = more};
  if (!affine_add(&rest, base, sign)) return false;
  int64_t factor = affine_take(&rest, loop->index);
  if (!factor) return affine_is_non_negative(&rest);
  const Affine *bounds = factor > 0 ? loop->low : loop->high;
  for (unsigned i = 0; i < (factor > 0 ? loop->n_low : loop->n_high); i++) {
    Affine least = rest;
    Affine last = bounds[i];
    if (factor < 0) last.constant--;
    if (affine_add(&least, &last, factor) && affine_is_non_negative(&least)) return true;
  }
  return false;
}

static State negate(State state, bool negated)
{
  if (state == STATE_UNKNOWN || !negated) return state;
  return state == STATE_TRUE ? STATE_FALSE : STATE_TRUE;
}

/* What all iterations have in common. */
static State decide(const Loop *loop, const Predicate *predicate)
{
  const Range *range = &predicate->range;
  bool above = is_never_negative(loop, &range->base, 1, range->low);
  bool below = is_never_negative(loop, &range->base, -1, -range->high - 1);
  State state = below ? STATE_FALSE : STATE_UNKNOWN;
  if (!predicate->equal && above) state = STATE_TRUE;
  if (predicate->equal && is_never_negative(loop, &range->base, 1, range->low - 1)) state = STATE_FALSE;
  if (predicate->equal && above && is_never_negative(loop, &range->base, -1, -range->high))
    state = STATE_TRUE;
  return negate(state, predicate->negated);
}

static State decide_expr(const Loop *loop, const IrExpr *expr)
{
  Predicate predicate;
  return predicate_of_expr(loop, expr, &predicate) ? decide(loop, &predicate) : STATE_UNKNOWN;
}

/* ---- What is known is put in place ---- */

/* min(a, b), of which one is never the greater. */
static IrExpr *decide_minimum(const Loop *loop, IrExpr *expr)
{
  Affine a, b;
  if (expr->kind != EXPR_CALL || expr->n != 2 || !g_str_equal(expr->name, "min") ||
      !form_of(loop, expr->items[0], &a) || !form_of(loop, expr->items[1], &b) || !affine_add(&a, &b, -1))
    return expr;
  if (is_never_negative(loop, &a, 1, 0)) return expr->items[1];
  return is_never_negative(loop, &a, -1, 0) ? expr->items[0] : expr;
}

static IrExpr *decided(const Loop *loop, IrExpr *expr)
{
  IrModule *module = loop->kernel->module;
  if (expr->kind != EXPR_BINARY && expr->kind != EXPR_CALL && expr->kind != EXPR_SELECT) return expr;
  State state = decide_expr(loop, expr);
  if (state != STATE_UNKNOWN) return ir_int(module, state == STATE_TRUE);
  IrExpr *items[3]; /* of a choice; calls that compare numbers have two */
  bool changed = false;
  if (expr->n > G_N_ELEMENTS(items)) return expr;
  for (unsigned i = 0; i < expr->n; i++) {
    items[i] = decided(loop, expr->items[i]);
    changed |= items[i] != expr->items[i];
  }
  if (changed && expr->kind == EXPR_BINARY) return ir_binary(module, expr->operator_, items[0], items[1]);
  if (changed && expr->kind == EXPR_SELECT) return ir_select(module, items[0], items[1], items[2]);
  if (changed) expr = ir_call_array(module, expr->name, expr->n, items);
  return decide_minimum(loop, expr);
}

/* Does anything behind an operation write a variable? */
static bool is_written_behind(const IrOp *op, const IrValue *variable)
{
  for (IrOp *next = op->next; variable->variable && next; next = next->next) {
    bool writes = (ir_op_effects(next->code) & EFFECT_UPDATE) && next->operands[0]->kind == EXPR_VALUE &&
                  next->operands[0]->value == variable;
    for (unsigned i = 0; i < next->n_regions; i++)
      writes |= ir_region_uses(next->regions[i], variable);
    if (writes) return true;
  }
  return false;
}

static State state_of(GHashTable *known, const IrExpr *expr)
{
  int64_t constant;
  gpointer state;
  if (ir_expr_is_int(expr, &constant)) return constant ? STATE_TRUE : STATE_FALSE;
  if (expr->kind == EXPR_VALUE && g_hash_table_lookup_extended(known, expr->value, NULL, &state))
    return (State)GPOINTER_TO_INT(state);
  return STATE_UNKNOWN;
}

static void know(GHashTable *known, const IrOp *op, State state)
{
  g_hash_table_insert(known, op->results[0], GINT_TO_POINTER((int)state));
}

/* The result of an op is another tile from here on, as long as that has the same type. */
static void stand_for(IrRegion *body, IrOp *op, IrExpr *tile)
{
  IrType type = ir_expr_type(body->function, tile);
  bool same = tile->kind == EXPR_VALUE && ir_type_equal(&type, &op->results[0]->type) &&
              !is_written_behind(op, tile->value);
  if (same) {
    ir_replace_uses(body, op->results[0], tile);
    ir_op_remove(op);
  }
}

/* `and` and `or`: one side may decide, or leave it to the other. */
static void fold_logic(const Loop *loop, GHashTable *known, IrOp *op)
{
  State decides = op->code == OP_OR ? STATE_TRUE : STATE_FALSE;
  State a = state_of(known, op->operands[0]), b = state_of(known, op->operands[1]);
  if (op->results[0]->type.element != NUMBER_BOOL) return;
  if (a == decides || b == decides || (a == b && a != STATE_UNKNOWN))
    know(known, op, a == decides || b == decides ? decides : a);
  else if (a != STATE_UNKNOWN || b != STATE_UNKNOWN)
    stand_for(loop->body, op, op->operands[a != STATE_UNKNOWN ? 1 : 0]);
}

static void fold_select(const Loop *loop, GHashTable *known, IrOp *op)
{
  State state = state_of(known, op->operands[0]);
  if (state == STATE_UNKNOWN) return;
  IrExpr *chosen = op->operands[state == STATE_TRUE ? 1 : 2];
  IrType type = ir_expr_type(op->parent->function, chosen);
  if (type.kind == TYPE_TILE) {
    stand_for(loop->body, op, chosen);
    return;
  }
  IrBuilder builder = ir_builder_before(op);
  builder.mark = op->mark;
  IrValue *result = op->results[0];
  IrExpr *all = ir_emit_value(&builder, OP_SPLAT, result->type, result->name, 1, chosen);
  ir_replace_uses(loop->body, result, all);
  ir_op_remove(op);
}

/* The chosen region stands where its `if` stood. */
static void open_if(IrOp *op, bool taken)
{
  IrRegion *region = taken ? op->regions[0] : op->n_regions > 1 ? op->regions[1] : NULL;
  for (IrOp *inner = region ? region->first : NULL, *next; inner; inner = next) {
    next = inner->next;
    ir_op_move(inner, op->parent, op);
  }
  ir_op_remove(op);
}

static void fold_op(const Loop *loop, GHashTable *known, IrOp *op)
{
  Predicate predicate;
  for (unsigned i = 0; i < op->n_operands; i++)
    op->operands[i] = decided(loop, op->operands[i]);
  const IrExpr *where = ir_attribute_value(op, ATTR_WHERE);
  if (where && state_of(known, where) == STATE_TRUE) ir_attribute_remove(op, ATTR_WHERE);
  if (op->code == OP_OR || op->code == OP_AND) fold_logic(loop, known, op);
  if (op->code == OP_SELECT && op->results[0]->type.kind == TYPE_TILE) fold_select(loop, known, op);
  if (!predicate_of(loop, op, &predicate) || g_hash_table_contains(known, op->results[0])) return;
  State state = decide(loop, &predicate);
  if (state != STATE_UNKNOWN) know(known, op, state);
}

static void fold_region(const Loop *loop, GHashTable *known, IrRegion *region)
{
  for (IrOp *op = region->first, *next; op; op = next) {
    next = op->next;
    fold_op(loop, known, op);
    for (unsigned i = 0; i < op->n_regions; i++)
      fold_region(loop, known, op->regions[i]);
    State state = op->code == OP_IF ? state_of(known, op->operands[0]) : STATE_UNKNOWN;
    if (state != STATE_UNKNOWN) open_if(op, state == STATE_TRUE);
  }
}

/* Comparisons that nobody asks for any more, and the numbers that they compared. */
static void drop_unused(const Loop *loop, IrRegion *region)
{
  for (IrOp *op = region->last, *previous; op; op = previous) {
    previous = op->previous;
    for (unsigned i = 0; i < op->n_regions; i++)
      drop_unused(loop, op->regions[i]);
    const IrValue *value = op->n_results == 1 ? op->results[0] : NULL;
    bool compared = value && value->type.kind == TYPE_TILE && !value->variable && !ir_op_effects(op->code) &&
                    !op->n_regions &&
                    (value->type.element == NUMBER_BOOL || value->type.element == NUMBER_S32);
    if (compared && !ir_region_uses(loop->body, value)) ir_op_remove(op);
  }
}

/* `known`: IrValue* -> State of those that are known already. */
static void fold_loop(const Loop *loop, GHashTable *known)
{
  fold_region(loop, known, loop->body);
  if (g_hash_table_size(known)) drop_unused(loop, loop->body);
}

/* ---- Where a predicate changes ---- */

/* A first iteration: a number, and as far as it is one its form. */
typedef struct {
  IrExpr *expr;
  Affine form;
  bool exact;
} Place;

typedef struct {
  Place from; /* but of the first one: that is the loop's low */
  State state;
} Part;

typedef struct {
  Part parts[3];
  unsigned n;
} Parts;

static int64_t floor_of(int64_t a, int64_t b)
{
  return a / b - (a % b < 0);
}

/* ceil(form / by), in form and as an expression; `natural`: what is below 0 is not asked for. */
static bool divide(const Loop *loop, const Affine *form, int64_t by, bool natural, Place *place)
{
  IrModule *module = loop->kernel->module;
  Affine whole = *form;
  whole.constant = -floor_of(-form->constant, by) * by;
  place->exact = affine_is_multiple(&whole, by);
  if (!place->exact && !natural) return false;
  if (place->exact) {
    place->form = (Affine){.constant = whole.constant / by, .n = whole.n};
    for (unsigned i = 0; i < whole.n; i++) {
      place->form.terms[i] = whole.terms[i];
      place->form.terms[i].factor /= by;
    }
    place->expr = affine_expr(module, &place->form, 1);
  } else {
    place->expr = ir_call(module, "ceil_div", 2, affine_expr(module, form, 1), ir_int(module, by));
  }
  return true;
}

/* The next iteration of the loop at or behind a place. */
static bool align(const Loop *loop, int64_t step, Place *place)
{
  IrModule *module = loop->kernel->module;
  IrExpr *low = loop->op->operands[0];
  Affine distance = place->form;
  const IrFunction *function = loop->body->function;
  bool meets = step <= UINT16_MAX && (step & (step - 1)) == 0 &&
               ir_known_multiple(function, low, (unsigned)step) == step &&
               ir_known_multiple(function, place->expr, (unsigned)step) == step;
  if (step == 1 || meets) return true;
  if (place->exact && loop->first_is_low && affine_add(&distance, &loop->low[0], -1)) {
    Place steps;
    if (divide(loop, &distance, step, false, &steps) && steps.exact) {
      Affine from = loop->low[0];
      if (!affine_add(&from, &steps.form, step)) return false;
      *place = (Place){affine_expr(module, &from, 1), from, true};
      return true;
    }
  }
  IrExpr *steps =
      ir_call(module, "ceil_div", 2, ir_binary(module, OPERATOR_SUB, place->expr, low), ir_int(module, step));
  *place = (Place){.expr = ir_binary(module, OPERATOR_ADD, low,
                                     ir_binary(module, OPERATOR_MUL, steps, ir_int(module, step)))};
  return true;
}

/* The first iteration where base + more is not negative (its factor is positive), or negative (it is not). */
static bool place_where(const Loop *loop, const Range *range, int64_t more, int64_t step, Place *place)
{
  Affine rest = range->base;
  int64_t factor = affine_take(&rest, loop->index);
  rest.constant += more;
  Affine bound = {.constant = factor > 0 ? 0 : 1};
  bool natural = ir_is_non_negative(loop->op->operands[0]);
  return affine_add(&bound, &rest, factor > 0 ? -1 : 1) && factor > INT32_MIN && factor <= INT32_MAX &&
         divide(loop, &bound, factor > 0 ? factor : -factor, natural, place) && align(loop, step, place);
}

/* What the predicate is from iteration to iteration, in order. */
static bool find_parts(const Loop *loop, const Predicate *predicate, int64_t step, Parts *parts)
{
  const Range *range = &predicate->range;
  Affine base = range->base;
  int64_t factor = affine_take(&base, loop->index);
  if (!factor) return false;
  bool up = factor > 0;
  State middle = predicate->equal && range->low == range->high ? STATE_TRUE : STATE_UNKNOWN;
  State first = predicate->equal || up ? STATE_FALSE : STATE_TRUE;
  State last = predicate->equal || !up ? STATE_FALSE : STATE_TRUE;
  *parts = (Parts){.n = 3};
  parts->parts[0].state = negate(first, predicate->negated);
  parts->parts[1].state = negate(middle, predicate->negated);
  parts->parts[2].state = negate(last, predicate->negated);
  int64_t strict = predicate->equal ? 1 : 0;
  int64_t enter = up ? range->high : range->low - strict, leave = up ? range->low - strict : range->high;
  return place_where(loop, range, enter, step, &parts->parts[1].from) &&
         place_where(loop, range, leave, step, &parts->parts[2].from);
}

static bool is_at_most(const Affine *a, const Affine *b)
{
  Affine difference = *b;
  return affine_add(&difference, a, -1) && affine_is_non_negative(&difference);
}

static bool is_behind(const Loop *loop, const Place *place)
{
  for (unsigned i = 0; place->exact && i < loop->n_high; i++)
    if (is_at_most(&loop->high[i], &place->form)) return true;
  return false;
}

static bool is_in_front(const Loop *loop, const Place *place)
{
  for (unsigned i = 0; place->exact && i < loop->n_low; i++)
    if (is_at_most(&place->form, &loop->low[i])) return true;
  return false;
}

/* Without the parts that have no iteration for sure. */
static void drop_parts(const Loop *loop, Parts *parts)
{
  while (parts->n > 1 && is_behind(loop, &parts->parts[parts->n - 1].from))
    parts->n--;
  for (unsigned i = 1; i + 1 < parts->n; i++) {
    const Place *from = &parts->parts[i].from, *to = &parts->parts[i + 1].from;
    bool none =
        from->exact && to->exact ? is_at_most(&to->form, &from->form) : ir_expr_equal(from->expr, to->expr);
    if (!none) continue;
    memmove(&parts->parts[i], &parts->parts[i + 1], (parts->n - i - 1) * sizeof *parts->parts);
    parts->n--;
  }
  while (parts->n > 1 && is_in_front(loop, &parts->parts[1].from)) {
    memmove(parts->parts, parts->parts + 1, (parts->n - 1) * sizeof *parts->parts);
    parts->n--;
  }
}

/* ---- The parts, written ---- */

/* The forms of a bound, and of both sides where it is a minimum or a maximum; is the first the bound's own? */
static bool take_bounds(const Loop *loop, const IrExpr *expr, const char *call, Affine *forms, unsigned *n)
{
  bool whole = form_of(loop, expr, &forms[*n]);
  bool both = expr->kind == EXPR_CALL && expr->n == 2 && g_str_equal(expr->name, call);
  if (whole) ++*n;
  for (unsigned i = 0; both && i < 2; i++)
    if (form_of(loop, expr->items[i], &forms[*n])) ++*n;
  return whole;
}

static Loop loop_of(const Kernel *kernel, IrOp *op)
{
  Loop loop = {.kernel = kernel, .op = op, .body = op->regions[0], .index = op->regions[0]->arguments[0]};
  loop.apart = names_instance(op->operands[0]) || names_instance(op->operands[1]);
  loop.first_is_low = take_bounds(&loop, op->operands[0], "max", loop.low, &loop.n_low);
  loop.first_is_high = take_bounds(&loop, op->operands[1], "min", loop.high, &loop.n_high);
  return loop;
}

typedef struct {
  bool breaks, multiplies;
} Contents;

static void find_contents(IrOp *op, void *data)
{
  Contents *contents = data;
  contents->breaks |= op->code == OP_BREAK_IF;
  contents->multiplies |= op->code == OP_MMA;
}

/* Only loops with products: others wait for memory, and a mask takes none of their time. */
static bool can_be_split(const Loop *loop, int64_t *step)
{
  Contents contents = {0};
  *step = 1;
  ir_region_visit(loop->body, find_contents, &contents);
  return contents.multiplies && !contents.breaks && !ir_attribute(loop->op, ATTR_UNROLL) &&
         !ir_attribute(loop->op, ATTR_PIPELINED) &&
         (loop->op->n_operands < 3 || ir_expr_is_int(loop->op->operands[2], step)) && *step >= 1;
}

typedef struct {
  bool tiles, meets;
} Inside;

static void find_inside(IrOp *op, void *data)
{
  Inside *inside = data;
  for (unsigned i = 0; i < op->n_results; i++)
    inside->tiles |= op->results[i]->type.kind == TYPE_TILE;
  inside->meets |= (ir_op_effects(op->code) & EFFECT_SYNC) != 0;
}

/* Tiles that are computed with, meeting nobody, or what a pass asks for. */
static bool holds_tiles(const IrOp *op)
{
  Inside inside = {0};
  for (unsigned i = 0; i < op->n_regions; i++)
    ir_region_visit(op->regions[i], find_inside, &inside);
  return (inside.tiles && !inside.meets) || ir_attribute(op, ATTR_SPLIT);
}

/* Where a predicate stands: an op that compares tiles, or an operand of one that masks a tile or of an `if` around
 * arithmetic of tiles. What else is asked takes a clock or two, and is not worth a loop. */
typedef struct {
  IrOp *op;
  int operand; /* -1: the op itself */
} Site;

static bool stands_at(const Loop *loop, const Site *site, Predicate *predicate)
{
  const IrOp *op = site->op;
  if (site->operand < 0) return predicate_of(loop, op, predicate);
  bool masks = (op->code == OP_OR || op->code == OP_AND || op->code == OP_SELECT) && op->n_results == 1 &&
               op->results[0]->type.kind == TYPE_TILE;
  return (masks || (op->code == OP_IF && holds_tiles(op))) &&
         predicate_of_expr(loop, op->operands[site->operand], predicate);
}

static bool find_site(const Loop *loop, IrRegion *region, int64_t step, Parts *parts, Site *site)
{
  Predicate predicate;
  for (IrOp *op = region->first; op; op = op->next) {
    *site = (Site){op, -1};
    for (; site->operand < (int)op->n_operands; site->operand++) {
      if (!stands_at(loop, site, &predicate) || !find_parts(loop, &predicate, step, parts)) continue;
      drop_parts(loop, parts);
      if (parts->n > 1 || parts->parts[0].state != STATE_UNKNOWN) return true;
    }
    for (unsigned i = 0; op->code == OP_IF && i < op->n_regions; i++)
      if (find_site(loop, op->regions[i], step, parts, site)) return true;
  }
  return false;
}

/* max(place, low) and min(high, place), as far as nobody knows which. */
static IrExpr *from_place(const Loop *loop, const Place *place)
{
  if (place->exact && loop->first_is_low && is_at_most(&loop->low[0], &place->form)) return place->expr;
  return ir_call(loop->kernel->module, "max", 2, place->expr, loop->op->operands[0]);
}

static IrExpr *to_place(const Loop *loop, const Place *place)
{
  if (place->exact && loop->first_is_high && is_at_most(&place->form, &loop->high[0])) return place->expr;
  return ir_call(loop->kernel->module, "min", 2, loop->op->operands[1], place->expr);
}

static void visit_loop(const Kernel *kernel, IrOp *op, unsigned splits, GHashTable *known);

/* The ops inside of a loop by their order: a clone's has the same. */
static void collect_op(IrOp *op, void *data)
{
  g_ptr_array_add(data, op);
}

/* In the clone of a loop the predicate is known, wherever it stands. */
static void assume(const Loop *loop, const Site *site, IrOp *clone, State state, GHashTable *known)
{
  g_autoptr(GPtrArray) from = g_ptr_array_new();
  g_autoptr(GPtrArray) to = g_ptr_array_new();
  ir_region_visit(loop->body, collect_op, from);
  ir_region_visit(clone->regions[0], collect_op, to);
  for (unsigned i = 0; i < from->len; i++) {
    IrOp *op = from->pdata[i], *copy = to->pdata[i];
    if (op == site->op && site->operand < 0) know(known, copy, state);
    for (unsigned j = 0; site->operand >= 0 && j < op->n_operands; j++)
      if (ir_expr_equal(op->operands[j], site->op->operands[site->operand]))
        copy->operands[j] = ir_int(loop->kernel->module, state == STATE_TRUE);
  }
}

static void write_part(const Loop *loop, const Site *site, const Parts *parts, unsigned i, unsigned splits)
{
  IrBuilder builder = ir_builder_before(loop->op);
  builder.mark = loop->op->mark;
  g_autoptr(GHashTable) map = g_hash_table_new(NULL, NULL);
  g_autoptr(GHashTable) known = g_hash_table_new(NULL, NULL);
  IrOp *part = ir_op_clone(&builder, loop->op, map);
  const Place *from = &parts->parts[i].from, *to = i + 1 < parts->n ? &parts->parts[i + 1].from : NULL;
  if (i) part->operands[0] = from_place(loop, from);
  if (to) part->operands[1] = to_place(loop, to);
  State state = parts->parts[i].state;
  if (state != STATE_UNKNOWN) assume(loop, site, part, state, known);
  visit_loop(loop->kernel, part, state == STATE_UNKNOWN ? MOST_SPLITS : splits + 1, known);
}

/* A loop whose nested ones have been seen to. */
static void visit_loop(const Kernel *kernel, IrOp *op, unsigned splits, GHashTable *known)
{
  Loop loop = loop_of(kernel, op);
  int64_t step;
  Parts parts;
  fold_loop(&loop, known);
  if (!loop.body->first) { /* all of it was one `if` that never holds */
    ir_op_remove(op);
    return;
  }
  if (splits >= MOST_SPLITS || !can_be_split(&loop, &step)) return;
  Site site;
  if (!find_site(&loop, loop.body, step, &parts, &site)) return;
  if (!splits) ir_remark(kernel->context, "loops: split where a mask over tiles changes");
  for (unsigned i = 0; i < parts.n; i++)
    write_part(&loop, &site, &parts, i, splits);
  ir_op_remove(op);
}

static void visit_region(const Kernel *outer, IrRegion *region)
{
  for (IrOp *op = region->first, *next; op; op = next) {
    next = op->next;
    Kernel kernel = *outer;
    if (op->code == OP_ROLE) kernel.instances = ir_attribute_int(op, ATTR_INSTANCES, 1);
    for (unsigned i = 0; i < op->n_regions; i++)
      visit_region(&kernel, op->regions[i]);
    g_autoptr(GHashTable) known = g_hash_table_new(NULL, NULL);
    if (op->code == OP_FOR) visit_loop(&kernel, op, 0, known);
  }
}

bool pass_split_loops(IrModule *module, const IrPassContext *context, GError **error)
{
  (void)error;
  IrFunction *kernel = ir_kernel(module);
  Kernel all = {context, module, 1};
  if (kernel) visit_region(&all, kernel->body);
  return true;
}
