/* Reductions along one dimension: within a thread's registers, then across lanes, then across warps; and of
 * blocks of rows, one warp's, straight to memory.
 *
 * The order is fixed, so results are the same from run to run; after each stage all who took part have the
 * result. Registers are combined pairwise, which keeps both the error and the chain of dependent operations
 * short. */
#include "ir/lower/lower.h"
#include "ir/reducer.h"
#include <string.h>

#define MOST_PARTS    8 /* tiles that are combined together */
#define WORTH_LOOKING 8 /* registers among which an extremum is looked for only by threads that have one */

/* One tile is combined by name, or several by a sub-kernel: `n` values of each side in, `n` out. */
typedef struct Reduction {
  IrOp *op;
  const char *with;
  const IrFunction *combiner; /* NULL: by name */
  unsigned dim, n;
  LowerTile *from[MOST_PARTS], *to[MOST_PARTS];
} Reduction;

typedef struct {
  IrExpr *part[MOST_PARTS];
} Tuple;

static void bind_parameter(Lower *lower, const IrFunction *combiner, unsigned i, IrExpr *x)
{
  g_hash_table_insert(lower->scalars, combiner->parameters[i], x);
}

static void lower_step(Lower *lower, IrOp *op)
{
  switch (op->code) {
  case OP_RETURN: break;
  case OP_CAST:
  case OP_BITCAST: lower_cast(lower, op); break;
  case OP_LET: {
    NumberType type =
        op->results[0]->type.kind == TYPE_PREDICATE ? NUMBER_BOOL : op->results[0]->type.element;
    lower_scalar_bind(lower, op->results[0], lower_as(lower, lower_expr(lower, op->operands[0]), type));
    break;
  }
  default:
    if (lower_is_elementwise(op->code))
      lower_elementwise(lower, op);
    else
      lower_fail(lower, ERROR_UNSUPPORTED, "combiner", "a sub-kernel of elementwise operations",
                 "a sub-kernel that combines cannot `%s`", ir_op_info(op->code)->name);
  }
}

/* The sub-kernel's body once more, for these registers. */
static Tuple apply(Lower *lower, const Reduction *reduction, const Tuple *a, const Tuple *b)
{
  const IrFunction *combiner = reduction->combiner;
  Tuple out = {{NULL}};
  for (unsigned i = 0; i < reduction->n; i++) {
    bind_parameter(lower, combiner, i, a->part[i]);
    bind_parameter(lower, combiner, reduction->n + i, b->part[i]);
  }
  for (IrOp *op = combiner->body->first; op && !lower->failed; op = op->next)
    lower_step(lower, op);
  const IrOp *end = combiner->body->last;
  for (unsigned i = 0; i < reduction->n && !lower->failed; i++) {
    NumberType type = lower_register_type(reduction->from[i]->element);
    out.part[i] = lower_as(lower, lower_expr(lower, end->operands[i]), type);
  }
  return out;
}

static Tuple combine(Lower *lower, const Reduction *reduction, const Tuple *a, const Tuple *b)
{
  if (reduction->combiner) return apply(lower, reduction, a, b);
  return (Tuple){
      {lower_combine(lower, reduction->with, reduction->from[0]->element, a->part[0], b->part[0])}};
}

static bool is_fixed(const IrExpr *x)
{
  return x->kind != EXPR_VALUE || !x->value->variable;
}

/* a + b c, where the sum's second is a product in f32 of what nobody writes: what was multiplied for it alone is dead then. */
static void join_product(Lower *lower, const IrExpr *sum)
{
  IrOp *add = sum->kind == EXPR_VALUE ? sum->value->def : NULL;
  if (!add || add->code != OP_ADD || add->n_attributes || sum->value->type.element != NUMBER_F32) return;
  const IrExpr *second = add->operands[1];
  const IrOp *product = second->kind == EXPR_VALUE ? second->value->def : NULL;
  if (!product || product->code != OP_MUL || product->n_attributes) return;
  if (!is_fixed(product->operands[0]) || !is_fixed(product->operands[1])) return;
  IrExpr **operands = arena_new_array(lower->arena, IrExpr *, 3);
  operands[0] = product->operands[0];
  operands[1] = product->operands[1];
  operands[2] = add->operands[0];
  add->code = OP_FMA;
  add->operands = operands;
  add->n_operands = 3;
}

/* Pairwise: ((a b) (c d)) ... */
static Tuple combine_all(Lower *lower, const Reduction *reduction, Tuple *x, unsigned n)
{
  for (unsigned level = 0; n > 1 && !lower->failed; n = (n + 1) / 2, level++)
    for (unsigned i = 0; i < (n + 1) / 2; i++) {
      x[i] = 2 * i + 1 < n ? combine(lower, reduction, &x[2 * i], &x[2 * i + 1]) : x[2 * i];
      for (unsigned part = 0; !level && 2 * i + 1 < n && part < reduction->n && !lower->failed; part++)
        join_product(lower, x[i].part[part]);
    }
  return x[0];
}

IrExpr *lower_halves_of(const IrExpr *low, const IrExpr *high, NumberType *type)
{
  const IrExpr *half[] = {low, high};
  const IrOp *unpack = NULL;
  for (unsigned i = 0; i < G_N_ELEMENTS(half); i++) {
    const IrOp *cast = half[i]->kind == EXPR_VALUE && !half[i]->value->variable ? half[i]->value->def : NULL;
    if (!cast || cast->code != OP_CAST || cast->n_attributes || cast->operands[0]->kind != EXPR_VALUE)
      return NULL;
    const IrValue *narrow = cast->operands[0]->value;
    const IrOp *def = narrow->def;
    if (!def || def->code != OP_UNPACK || def->n_results != 2 || def->results[i] != narrow) return NULL;
    if (i && def != unpack) return NULL;
    unpack = def;
    *type = narrow->type.element;
  }
  bool known = *type == NUMBER_F16 || *type == NUMBER_BF16;
  return known && is_fixed(unpack->operands[0]) ? unpack->operands[0] : NULL;
}

/* Two elements at once, before they are widened, where an extremum is taken of such alone: it is one of them. What is left of *n. */
static void combine_words(Lower *lower, const Reduction *reduction, Tuple *x, unsigned *n)
{
  bool max = !reduction->combiner && !strcmp(reduction->with, "max"),
       min = !reduction->combiner && !strcmp(reduction->with, "min");
  if ((!max && !min) || reduction->from[0]->element != NUMBER_F32) return;
  g_autofree IrExpr **words = g_new(IrExpr *, *n / 2 + 1);
  unsigned n_words = 0, left = 0;
  NumberType type = NUMBER_BF16;
  for (unsigned i = 0; i < *n; i++) {
    NumberType here = type;
    IrExpr *word = i + 1 < *n ? lower_halves_of(x[i].part[0], x[i + 1].part[0], &here) : NULL;
    if (!word || (n_words && here != type)) {
      x[left++] = x[i];
      continue;
    }
    type = here;
    words[n_words++] = word;
    i++;
  }
  for (unsigned n_now = n_words; n_now > 1; n_now = (n_now + 1) / 2)
    for (unsigned i = 0; i < n_now / 2; i++) {
      words[i] = lower_value(lower, max ? OP_MAX_PAIR : OP_MIN_PAIR, ir_scalar(NUMBER_B32), "both", 2,
                             words[2 * i], words[2 * i + 1]);
      ir_attribute_set(words[i]->value->def, ATTR_TYPE, ir_name(lower->module, number_name(type)));
      if (i + 1 == n_now / 2 && n_now % 2) words[i + 1] = words[n_now - 1];
    }
  IrOp *unpack = n_words ? lower_emit(lower, OP_UNPACK, 1, words[0]) : NULL;
  for (unsigned i = 0; unpack && i < 2; i++) {
    IrExpr *half = lower_result(lower, unpack, "half", ir_scalar(type));
    x[left++] = (Tuple){{lower_value(lower, OP_CAST, ir_scalar(NUMBER_F32), "half", 1, half)}};
  }
  *n = left;
}

/* A place that a condition chooses instead of a constant, or the other way round: base + `step`, and where a block of a cluster has
 * a part of the row, + `begin`. */
typedef struct {
  IrExpr *within, *condition, *base,
      *begin; /* within: NULL, or what else has to hold, where a row's end is masked */
  int64_t step, otherwise;
  bool first; /* of the two */
} ChosenPlace;

static const IrOp *definition(const IrExpr *x, IrOpcode code)
{
  const IrOp *def = x->kind == EXPR_VALUE && !x->value->variable ? x->value->def : NULL;
  bool plain = def && def->code == code && !def->n_attributes;
  for (unsigned i = 0; plain && i < def->n_operands; i++)
    plain = is_fixed(def->operands[i]);
  return plain ? def : NULL;
}

static bool is_chosen_place(const IrExpr *x, ChosenPlace *chosen)
{
  const IrOp *select = definition(x, OP_SELECT);
  int64_t outside;
  if (!select) return false;
  const IrOp *inner = definition(select->operands[1], OP_SELECT);
  if (inner && lower_is_int(select->operands[2], &outside) && outside == INT32_MAX) {
    chosen->within = select->operands[0];
    select = inner;
  }
  chosen->first = !lower_is_int(select->operands[1], &chosen->otherwise);
  if (!chosen->first == lower_is_int(select->operands[2], &chosen->otherwise)) return false;
  chosen->condition = select->operands[0];
  chosen->base = select->operands[chosen->first ? 1 : 2];
  return chosen->otherwise == INT32_MAX;
}

/* base + step of some of them, (base + step) + begin of others. */
static void take_apart(ChosenPlace *chosen)
{
  const IrOp *sum = definition(chosen->base, OP_ADD);
  const IrOp *inner = sum ? definition(sum->operands[0], OP_ADD) : NULL;
  if (!sum) return;
  if (lower_is_int(sum->operands[1], &chosen->step)) {
    chosen->base = sum->operands[0];
  } else if (inner && lower_is_int(inner->operands[1], &chosen->step)) {
    chosen->begin = sum->operands[1];
    chosen->base = inner->operands[0];
  }
}

/* The same of the one whose step is 0, like another one. */
static bool begins_like(const ChosenPlace *x, const ChosenPlace *other)
{
  const IrOp *sum = definition(x->base, OP_ADD);
  return other->begin && sum && sum->operands[0] == other->base && sum->operands[1] == other->begin;
}

/* ---- whether a thread has an extremum of its row at all ---- */

/* The largest, or the smallest, of a thread's registers, as a reduction came by it. */
typedef struct LowerExtreme {
  struct LowerExtreme *next;
  const IrExpr *first, *last; /* registers, of so many */
  unsigned n;
  bool max;
  const LowerScope *scope;
  IrExpr *extreme;
} LowerExtreme;

static void note_extreme(Lower *lower, const Reduction *reduction, LowerExtreme *extreme, IrExpr *value)
{
  bool max = !reduction->combiner && !strcmp(reduction->with, "max"),
       min = !reduction->combiner && !strcmp(reduction->with, "min");
  if ((!max && !min) || reduction->from[0]->element != NUMBER_F32) return;
  LowerExtreme *noted = arena_memdup(lower->arena, extreme, sizeof *extreme);
  noted->max = max;
  noted->scope = lower->scope;
  noted->extreme = value;
  noted->next = lower->extremes;
  lower->extremes = noted;
}

/* A place is chosen where x is beyond a bound, of all x the same one: `!(x <= bound)`, of smallest ones `!(x >= bound)`. Then nobody who has no extremum
 * beyond the bound looks for places. NULL: they are chosen otherwise. */
static IrExpr *has_beyond(Lower *lower, const ChosenPlace *chosen, unsigned n)
{
  const IrOp *first = NULL, *last = NULL;
  for (unsigned i = 0; i < n; i++) {
    last = definition(chosen[i].condition, OP_LE);
    if (!last) last = definition(chosen[i].condition, OP_GE);
    if (!first) first = last;
    if (chosen[i].first || !last || last->code != first->code ||
        !ir_expr_equal(last->operands[1], first->operands[1]))
      return NULL;
  }
  for (const LowerExtreme *noted = lower->extremes; noted; noted = noted->next) {
    bool same = noted->scope == lower->scope && noted->n == n && noted->max == (first->code == OP_LE) &&
                ir_expr_equal(noted->first, first->operands[0]) &&
                ir_expr_equal(noted->last, last->operands[0]);
    if (!same) continue;
    IrExpr *none =
        lower_value(lower, first->code, ir_predicate(), "none", 2, noted->extreme, first->operands[1]);
    return lower_value(lower, OP_NOT, ir_predicate(), "any", 1, none);
  }
  return NULL;
}

#define AGAIN_DEPTH 5 /* operations behind one another */

/* The value computed once more, here, from what is loaded or the same for all registers: there need be no register for it elsewhere. */
static IrExpr *again(Lower *lower, IrExpr *x, unsigned depth)
{
  const IrOp *def = x->kind == EXPR_VALUE && !x->value->variable ? x->value->def : NULL;
  if (!def || !depth) return x;
  if (def->code == OP_UNPACK && def->n_results == 2 && is_fixed(def->operands[0])) {
    IrOp *unpack = lower_emit(lower, OP_UNPACK, 1, def->operands[0]);
    IrExpr *half[2];
    for (unsigned i = 0; i < 2; i++)
      half[i] = lower_result(lower, unpack, "x", def->results[i]->type);
    return half[def->results[1] == x->value];
  }
  switch ((unsigned)def->code) {
  case OP_CAST:
  case OP_ADD:
  case OP_LT:
  case OP_LE:
  case OP_GE:
  case OP_AND:
  case OP_NOT: break;
  default: return x;
  }
  if (!definition(x, def->code)) return x;
  IrExpr *operands[2] = {NULL};
  for (unsigned i = 0; i < def->n_operands; i++)
    operands[i] = again(lower, def->operands[i], depth - 1);
  return lower_result(lower, lower_emit_array(lower, def->code, def->n_operands, operands), x->value->name,
                      x->value->type);
}

static int by_step(const void *a, const void *b)
{
  const ChosenPlace *x = a, *y = b;
  return (x->step > y->step) - (x->step < y->step);
}

/* The least of places that conditions choose, each of them a constant behind the same one: the first that is chosen. Constants are
 * written from the last on where their conditions hold: a predicated move each, no minimum. What is left of *n. */
static void combine_places(Lower *lower, const Reduction *reduction, Tuple *x, unsigned *n)
{
  if (reduction->combiner || strcmp(reduction->with, "min") || reduction->from[0]->element != NUMBER_S32 ||
      *n < 2)
    return;
  IrType type = ir_scalar(NUMBER_S32);
  g_autofree ChosenPlace *chosen = g_new0(ChosenPlace, *n);
  for (unsigned i = *n; i-- > 0;) {
    if (!is_chosen_place(x[i].part[0], &chosen[i])) return;
    const ChosenPlace *last = &chosen[*n - 1];
    if (begins_like(&chosen[i], last)) continue;
    if (i + 1 == *n || chosen[i].base != last->base) take_apart(&chosen[i]);
    if (chosen[i].base != last->base || chosen[i].begin != last->begin) return;
  }
  const ChosenPlace *like = &chosen[*n - 1];
  IrExpr *base = like->base, *begin = like->begin;
  IrExpr *any = *n >= WORTH_LOOKING ? has_beyond(lower, chosen, *n) : NULL;
  qsort(chosen, *n, sizeof *chosen, by_step);
  IrExpr *step = ir_value(lower->module, lower_variable(lower, "step", type, lower_int(lower, INT32_MAX)));
  if (any) {
    IrOp *branch = lower_emit(lower, OP_IF, 1, any);
    lower_scope_open(lower, branch, ir_region_add(branch), false);
  }
  for (unsigned i = *n; i-- > 0;) {
    IrExpr *when = chosen[i].condition;
    if (any) when = again(lower, when, AGAIN_DEPTH);
    if (any && chosen[i].within) chosen[i].within = again(lower, chosen[i].within, AGAIN_DEPTH);
    if (!chosen[i].first) when = lower_value(lower, OP_NOT, ir_predicate(), "not", 1, when);
    if (chosen[i].within) when = lower_and(lower, chosen[i].within, when);
    lower_when(lower_emit(lower, OP_SET, 2, step, lower_int(lower, chosen[i].step)), when);
  }
  if (any) lower_scope_close(lower);
  IrExpr *none = lower_value(lower, OP_EQ, ir_predicate(), "none", 2, step, lower_int(lower, INT32_MAX));
  IrExpr *place = lower_value(lower, OP_ADD, type, "place", 2, base, step);
  if (begin) place = lower_value(lower, OP_ADD, type, "place", 2, place, begin);
  x[0].part[0] = lower_value(lower, OP_SELECT, type, "place", 3, none, lower_int(lower, INT32_MAX), place);
  *n = 1;
}

static bool is_literal(const IrExpr *x)
{
  return x->kind == EXPR_INT || x->kind == EXPR_FLOAT;
}

static Tuple registers_of(LowerTile *const *tiles, unsigned n, unsigned reg)
{
  Tuple tuple = {{NULL}};
  for (unsigned i = 0; i < n; i++)
    tuple.part[i] = tiles[i]->reg[reg];
  return tuple;
}

static void keep(const Reduction *reduction, unsigned reg, const Tuple *tuple)
{
  for (unsigned i = 0; i < reduction->n; i++)
    reduction->to[i]->reg[reg] = tuple->part[i];
}

static void within_thread(Lower *lower, const Reduction *reduction)
{
  LowerTile *from = reduction->from[0], *to = reduction->to[0];
  const unsigned *map = lower_correspondence(lower, to->layout, from->layout);
  if (!map) {
    lower_fail(lower, ERROR_INPUT, "layouts-disagree", NULL,
               "the result of reduce must have the slice of its operand's layout");
    return;
  }
  g_autofree Tuple *x = g_new(Tuple, from->n);
  for (unsigned r = 0; r < to->n; r++) {
    unsigned n = 0;
    for (unsigned i = 0; i < from->n; i++)
      if (map[i] == r) x[n++] = registers_of(reduction->from, reduction->n, i);
    for (unsigned i = 0; n == 1 && i < reduction->n; i++) {
      IrType type = ir_scalar(lower_register_type(reduction->from[i]->element));
      if (is_literal(x[0].part[i]))
        x[0].part[i] = lower_value(lower, OP_MOVE, type, "constant", 1, x[0].part[i]);
    }
    LowerExtreme extreme = {.first = x[0].part[0], .last = x[n - 1].part[0], .n = n};
    combine_words(lower, reduction, x, &n);
    combine_places(lower, reduction, x, &n);
    Tuple all = combine_all(lower, reduction, x, n);
    note_extreme(lower, reduction, &extreme, all.part[0]);
    keep(reduction, r, &all);
  }
}

static Tuple shuffled(Lower *lower, const Reduction *reduction, unsigned reg, const char *mode, IrExpr *lane)
{
  Tuple other = {{NULL}};
  for (unsigned i = 0; i < reduction->n; i++) {
    LowerTile *to = reduction->to[i];
    IrType type = ir_scalar(lower_register_type(to->element));
    other.part[i] = lower_value(lower, OP_SHUFFLE, type, "other", 2, to->reg[reg], lane);
    ir_attribute_set(other.part[i]->value->def, ATTR_MODE, ir_name(lower->module, mode));
  }
  return other;
}

/* Butterfly over the lane bits that move along the reduced dimension by less than `limit`. */
static void across_lanes(Lower *lower, const Reduction *reduction, unsigned limit)
{
  const Layout *layout = reduction->from[0]->layout;
  unsigned divisor = 1;
  for (unsigned i = 0; i < layout->n; i++) {
    const LayoutMode *mode = &layout->modes[i];
    if (mode->place != PLACE_LANE) continue;
    bool along = mode->dim == (int)reduction->dim && mode->step < limit;
    for (unsigned bit = 1; along && bit < mode->size && mode->step * bit < limit; bit *= 2)
      for (unsigned r = 0; r < reduction->to[0]->n && !lower->failed; r++) {
        Tuple mine = registers_of(reduction->to, reduction->n, r);
        Tuple other = shuffled(lower, reduction, r, "xor", lower_int(lower, (int64_t)divisor * bit));
        mine = combine(lower, reduction, &mine, &other);
        keep(reduction, r, &mine);
      }
    divisor *= mode->size;
  }
}

/* Digits of lane or warp that move along the reduced dimension are `along`, the others stay. */
static LowerMap split_map(const Layout *layout, unsigned dim, bool along, LayoutPlace place)
{
  LowerMap all = lower_map_of(layout), map = {0};
  LowerSource source = place == PLACE_LANE ? SOURCE_LANE : SOURCE_WARP;
  for (unsigned i = 0; i < all.n; i++)
    if (all.digit[i].source == source && (all.digit[i].step[dim] != 0) == along)
      map.digit[map.n++] = all.digit[i];
  return map;
}

static unsigned warps_along(const Layout *layout, unsigned dim)
{
  unsigned warps = 1;
  for (unsigned i = 0; i < layout->n; i++)
    if (layout->modes[i].place == PLACE_WARP && layout->modes[i].dim == (int)dim)
      warps *= layout->modes[i].size;
  return warps;
}

/* Number of this warp among those it shares rows with. */
static IrExpr *warp_number(Lower *lower, const Layout *layout, unsigned dim)
{
  LowerMap map = split_map(layout, dim, true, PLACE_WARP);
  unsigned weight[LOWER_MAX_DIGITS], next = 1;
  for (unsigned i = 0; i < map.n; i++) {
    weight[i] = next;
    next *= map.digit[i].size;
  }
  return lower_weighted_sum(lower, &map, weight);
}

/* The lanes that differ only along the reduced dimension hold the same by now: one of each writes. */
static IrExpr *lane_owner(Lower *lower, const Layout *layout, unsigned dim)
{
  IrExpr *owner = lower_map_owner(lower, layout);
  LowerMap map = split_map(layout, dim, true, PLACE_LANE);
  unsigned weight[LOWER_MAX_DIGITS];
  for (unsigned i = 0; i < map.n; i++)
    weight[i] = map.digit[i].divisor; /* the lane's bits in place: 0 where all digits are */
  if (!map.n) return owner;
  return lower_and(lower, owner,
                   lower_compare(lower, OP_EQ, lower_weighted_sum(lower, &map, weight), lower_int(lower, 0)));
}

/* A sub-kernel may round otherwise when its sides are exchanged, as they are in the other lane of a butterfly: all
 * take what the first of them has. */
static void agree(Lower *lower, const Reduction *reduction)
{
  LowerMap map = split_map(reduction->from[0]->layout, reduction->dim, true, PLACE_LANE);
  unsigned weight[LOWER_MAX_DIGITS], lanes = 1;
  for (unsigned i = 0; i < map.n; i++) {
    weight[i] = map.digit[i].divisor;
    lanes *= map.digit[i].size;
  }
  if (!reduction->combiner || lanes == 1 || ir_reducer_commutes(reduction->combiner)) return;
  IrExpr *first = lanes == WARP_LANES
                      ? lower_int(lower, 0)
                      : lower_sub(lower, NUMBER_S32, lower->lane, lower_weighted_sum(lower, &map, weight));
  for (unsigned r = 0; r < reduction->to[0]->n && !lower->failed; r++) {
    Tuple same = shuffled(lower, reduction, r, "index", first);
    keep(reduction, r, &same);
  }
}

/* What the warps of a row exchange: a row of the tile a warp, in it the rows of one part after those of the other. */
typedef struct {
  LowerShared tile;
  unsigned warps, rows, bytes;
  IrExpr *column; /* address of the thread's first row in the first warp's */
  const unsigned *at;
  bool tall; /* parts have rows */
} Exchange;

static bool open_exchange(Lower *lower, const Reduction *reduction, Exchange *exchange)
{
  const Layout *layout = reduction->from[0]->layout;
  unsigned keep = 1 - reduction->dim;
  const IrExpr *symbol = ir_attribute_value(reduction->op, ATTR_EXCHANGE);
  if (!symbol || !lower_shared_operand(lower, symbol, &exchange->tile)) {
    lower_fail(lower, ERROR_INPUT, "exchange", NULL, "a reduction across warps needs an exchange tile");
    return false;
  }
  exchange->tall = layout->rank == 2;
  exchange->rows = exchange->tall ? layout->extent[keep] : 1;
  exchange->bytes = number_bytes(exchange->tile.element);
  uint64_t all = (uint64_t)exchange->warps * exchange->rows * reduction->n * exchange->bytes;
  bool narrow = false;
  for (unsigned i = 0; i < reduction->n; i++)
    narrow |= number_bytes(reduction->to[i]->element) > exchange->bytes;
  if (narrow || all > layout_bytes(exchange->tile.layout, exchange->tile.element)) {
    lower_fail(lower, ERROR_INPUT, "exchange", NULL, "the exchange tile is smaller than %u warps x %u rows",
               exchange->warps, exchange->rows * reduction->n);
    return false;
  }
  LowerMap map = lower_map_of(reduction->to[0]->layout);
  IrExpr *row = exchange->tall ? lower_map_coordinate(lower, &map, keep) : lower_int(lower, 0);
  exchange->column = lower_add(lower, NUMBER_U32, exchange->tile.base,
                               lower_mul(lower, NUMBER_S32, row, lower_int(lower, exchange->bytes)));
  exchange->at = lower_registers(lower, reduction->to[0]->layout);
  return true;
}

/* Bytes from `column` to a register of a part, in the first warp's row. */
static int64_t offset_of(const Reduction *reduction, const Exchange *exchange, unsigned reg, unsigned part)
{
  unsigned row = exchange->tall ? exchange->at[(size_t)reg * LAYOUT_MAX_DIMS + 1 - reduction->dim] : 0;
  return exchange->tile.offset + (int64_t)(row + part * exchange->rows) * exchange->bytes;
}

static Tuple read_warp(Lower *lower, const Reduction *reduction, const Exchange *exchange, unsigned reg,
                       unsigned warp)
{
  Tuple tuple = {{NULL}};
  int64_t stride = (int64_t)exchange->rows * reduction->n * exchange->bytes;
  for (unsigned i = 0; i < reduction->n; i++) {
    LowerTile part = {.element = reduction->to[i]->element, .n = 1, .reg = &tuple.part[i]};
    unsigned zero = 0;
    LowerAddress address = {exchange->column, offset_of(reduction, exchange, reg, i) + warp * stride};
    lower_load_vector(lower, OP_LOAD_SHARED, address, &part, &zero, 1, NULL, NULL, NULL);
  }
  return tuple;
}

/* Each warp writes its row of partial results, all read all and combine in order. */
static void across_warps(Lower *lower, const Reduction *reduction)
{
  const Layout *layout = reduction->from[0]->layout;
  Exchange exchange = {.warps = warps_along(layout, reduction->dim)};
  if (exchange.warps == 1 || !open_exchange(lower, reduction, &exchange)) return;
  IrExpr *number = warp_number(lower, layout, reduction->dim);
  int64_t stride = (int64_t)exchange.rows * reduction->n * exchange.bytes;
  IrExpr *mine = lower_add(lower, NUMBER_U32, exchange.column,
                           lower_mul(lower, NUMBER_S32, number, lower_int(lower, stride)));
  IrExpr *owner = lane_owner(lower, layout, reduction->dim);
  unsigned n = reduction->to[0]->n;
  lower_block_barrier(lower, reduction->op); /* readers of the previous exchange are done */
  for (unsigned r = 0; r < n; r++)
    for (unsigned i = 0; i < reduction->n; i++)
      lower_store_vector(lower, OP_STORE_SHARED, (LowerAddress){mine, offset_of(reduction, &exchange, r, i)},
                         reduction->to[i], &r, 1, owner, NULL);
  lower_block_barrier(lower, reduction->op);
  g_autofree Tuple *x = g_new(Tuple, exchange.warps);
  for (unsigned r = 0; r < n && !lower->failed; r++) {
    for (unsigned w = 0; w < exchange.warps; w++)
      x[w] = read_warp(lower, reduction, &exchange, r, w);
    Tuple all = combine_all(lower, reduction, x, exchange.warps);
    keep(reduction, r, &all);
  }
}

/* ---- So many elements that become one ---- */

/* No warp waits for another: the elements of a value have to be of one warp, as the blocks of 16 of products are. */
static bool is_of_one_warp(const Layout *layout, unsigned dim, unsigned every)
{
  for (unsigned i = 0; i < layout->n; i++)
    if (layout->modes[i].place == PLACE_WARP && layout->modes[i].dim == (int)dim &&
        layout->modes[i].step < every)
      return false;
  return true;
}

/* Every so many elements along the dimension become one. */
static bool combine_every(Lower *lower, const Reduction *reduction, unsigned every)
{
  LowerTile *from = reduction->from[0], *to = reduction->to[0];
  const unsigned *at = lower_registers(lower, from->layout);
  g_autofree Tuple *x = g_new(Tuple, from->n);
  unsigned *target = arena_new_array(lower->arena, unsigned, from->n);
  for (unsigned i = 0; i < from->n; i++) {
    const unsigned *here = at + (size_t)i * LAYOUT_MAX_DIMS;
    unsigned row = reduction->dim == 0 ? here[0] / every : here[0],
             column = reduction->dim == 1 ? here[1] / every : here[1];
    target[i] = lower_register_at(lower, to->layout, row, column);
    if (target[i] >= to->n) return false;
  }
  for (unsigned r = 0; r < to->n; r++) {
    unsigned n = 0;
    for (unsigned i = 0; i < from->n; i++)
      if (target[i] == r) x[n++] = registers_of(reduction->from, 1, i);
    if (!n) return false;
    to->reg[r] = combine_all(lower, reduction, x, n).part[0];
  }
  across_lanes(lower, reduction, every);
  return true;
}

static void reduce_every(Lower *lower, IrOp *op, Reduction *reduction)
{
  unsigned every = (unsigned)ir_attribute_int(op, ATTR_EVERY, 1);
  const Layout *from = reduction->from[0]->layout, *to = reduction->to[0]->layout;
  const Layout *wanted = from->rank == 2 ? layout_every(lower->arena, from, reduction->dim, every) : NULL;
  bool fits =
      wanted && layout_equal(wanted, to) && is_of_one_warp(from, reduction->dim, every) && reduction->n == 1;
  if (!fits || reduction->combiner || !combine_every(lower, reduction, every))
    lower_fail(lower, ERROR_UNSUPPORTED, "reduction",
               "a power of two that divides what a warp has side by side",
               "every %u elements of this tile become one: they are not one warp's, or no name combines them",
               every);
}

void lower_spread_every(Lower *lower, IrOp *op)
{
  unsigned every = (unsigned)ir_attribute_int(op, ATTR_EVERY, 1),
           dim = (unsigned)ir_attribute_int(op, ATTR_DIM, 0);
  LowerTile *from = lower_tile(lower, op->operands[0]);
  if (!from) return;
  LowerTile *tile = lower_tile_new(lower, from->element, op->results[0]->type.layout);
  const Layout *wanted =
      tile->layout->rank == 2 ? layout_every(lower->arena, tile->layout, dim, every) : NULL;
  if (!wanted || !layout_equal(wanted, from->layout)) {
    lower_fail(lower, ERROR_UNSUPPORTED, "spread", NULL,
               "each element %u times: they are not the same thread's", every);
    return;
  }
  const unsigned *at = lower_registers(lower, tile->layout);
  for (unsigned r = 0; r < tile->n; r++) {
    const unsigned *here = at + (size_t)r * LAYOUT_MAX_DIMS;
    unsigned row = dim == 0 ? here[0] / every : here[0], column = dim == 1 ? here[1] / every : here[1];
    tile->reg[r] = from->reg[lower_register_at(lower, from->layout, row, column)];
  }
  lower_tile_bind(lower, op->results[0], tile);
}

/* Tiles of one layout, and what combines them. */
static bool open_reduction(Lower *lower, Reduction *reduction)
{
  const IrOp *op = reduction->op;
  const IrExpr *with = ir_attribute_value(op, ATTR_WITH);
  if (with->kind == EXPR_SYMBOL) reduction->combiner = ir_function_find(lower->module, with->name);
  if (op->n_operands > MOST_PARTS ||
      (!reduction->combiner && (with->kind != EXPR_NAME || op->n_operands > 1))) {
    lower_fail(lower, ERROR_UNSUPPORTED, "reduce", NULL, "%u tiles cannot be combined with %s",
               op->n_operands, ir_expr_text(lower->module, with));
    return false;
  }
  reduction->with = with->name;
  reduction->n = op->n_operands;
  for (unsigned i = 0; i < reduction->n; i++) {
    const IrType *type = &op->results[i]->type;
    reduction->from[i] = lower_tile(lower, op->operands[i]);
    if (!reduction->from[i]) return false;
    reduction->to[i] = lower_tile_new(lower, type->element, type->layout);
    if (layout_equal(reduction->from[i]->layout, reduction->from[0]->layout)) continue;
    lower_fail(lower, ERROR_INPUT, "layouts-disagree", "insert a convert",
               "tiles that are combined together have the same layout");
    return false;
  }
  return true;
}

void lower_reduce(Lower *lower, IrOp *op)
{
  Reduction reduction = {.op = op, .dim = (unsigned)ir_attribute_int(op, ATTR_DIM, 0)};
  if (ir_attribute_is(op, ATTR_SCOPE, "cluster")) {
    lower_fail(lower, ERROR_UNSUPPORTED, "reduce", "reduce_clusters writes these out",
               "reduce across a cluster is not supported here");
    return;
  }
  if (!open_reduction(lower, &reduction)) return;
  if (ir_attribute(op, ATTR_EVERY)) {
    reduce_every(lower, op, &reduction);
    if (!lower->failed) lower_tile_bind(lower, op->results[0], reduction.to[0]);
    return;
  }
  within_thread(lower, &reduction);
  if (!lower->failed) across_lanes(lower, &reduction, G_MAXUINT);
  if (!lower->failed) agree(lower, &reduction);
  if (!lower->failed) across_warps(lower, &reduction);
  for (unsigned i = 0; i < reduction.n && !lower->failed; i++)
    lower_tile_bind(lower, op->results[i], reduction.to[i]);
}

/* ---- Rows that become one and are stored ---- */

/* The registers of `from`, those in rows from `rows` on replaced by what such rows count as. The thread's
 * rows are few: each is compared once. */
static void replace_outside(Lower *lower, const IrOp *op, const IrExpr *corner, LowerTile *from)
{
  const IrExpr *rows = ir_attribute_value(op, ATTR_ROWS);
  IrExpr *fill = lower_fill_of(lower, op);
  if (!rows || !fill) return;
  LowerMap map = lower_map_of(from->layout);
  IrExpr *first =
      lower_add(lower, NUMBER_S32, lower_map_coordinate(lower, &map, 0), lower_s32(lower, corner));
  IrExpr *bound = lower_s32(lower, rows), *count_as = lower_literal(lower, fill, from->element);
  const unsigned *at = lower_registers(lower, from->layout);
  IrType type = ir_scalar(lower_register_type(from->element));
  for (unsigned r = 0; r < from->n; r++) {
    IrExpr *limit = lower_sub(lower, NUMBER_S32, bound, lower_int(lower, at[(size_t)r * LAYOUT_MAX_DIMS]));
    IrExpr *inside = lower_compare(lower, OP_LT, first, limit);
    from->reg[r] = lower_value(lower, OP_SELECT, type, "x", 3, inside, from->reg[r], count_as);
  }
}

void lower_store_reduced(Lower *lower, IrOp *op)
{
  const IrExpr *with = ir_attribute_value(op, ATTR_WITH), *corner = op->operands[0];
  unsigned every = (unsigned)ir_attribute_int(op, ATTR_EVERY, 1);
  LowerTile *tile = lower_tile(lower, op->operands[1]);
  if (!tile) return;
  const Layout *layout = is_of_one_warp(tile->layout, 0, every) && with->kind == EXPR_NAME
                             ? layout_every(lower->arena, tile->layout, 0, every)
                             : NULL;
  if (!layout || corner->kind != EXPR_INDEX || corner->n < 3) {
    lower_fail(lower, ERROR_UNSUPPORTED, "reduction", NULL,
               "store_reduced: %u rows of this tile are not one warp's", every);
    return;
  }
  LowerTile *from = lower_tile_new(lower, tile->element, tile->layout);
  memcpy(from->reg, tile->reg, tile->n * sizeof *tile->reg);
  Reduction reduction = {.op = op, .with = with->name, .n = 1, .from = {from}};
  reduction.to[0] = lower_tile_new(lower, tile->element, layout);
  IrExpr *moved = arena_memdup(lower->arena, corner, sizeof *corner);
  moved->items = arena_memdup(lower->arena, corner->items, corner->n * sizeof *corner->items);
  IrExpr **row = &moved->items[corner->n - 2];
  replace_outside(lower, op, *row, from);
  *row = ir_binary(lower->module, OPERATOR_DIV, *row, ir_int(lower->module, every));
  if (!lower->failed && combine_every(lower, &reduction, every))
    lower_store_tile(lower, op, moved, reduction.to[0]);
  else if (!lower->failed)
    lower_fail(lower, ERROR_INTERNAL, "reduction", NULL, "store_reduced: registers without a place");
}
