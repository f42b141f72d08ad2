/* The first elements of a row by a bound: few elements of a long row are put in order.
 *
 * An upper bound of the last element that is wanted comes from minima of groups (ir/sorting.h). The elements below the bound
 * are counted and moved together in shared memory, one warp puts them in order, and all warps of the row read what it found.
 * Whatever is missing behind the elements below the bound is equal to the bound: so many elements are known to be at most it.
 * Where more lie below it than there is room for, the bound is halved towards the wanted element until they fit: at the
 * latest when it is that element, since fewer than are wanted lie below that one. Equal elements do no harm.
 *
 * needs: a row is a warp's, or the whole block's (sorting_bound_of); an exchange tile of sorting_bound_exchanged elements:
 *        survivors, then a bound and a count of each warp */
#include "ir/lower/sort.h"

#define FULL (SORTING_LANES - 1)

typedef struct Bounded {
  Lower *lower;
  IrOp *op;
  const SortingBound *bound;
  NumberType element;
  unsigned keep;
  int64_t bytes; /* of an element */
  IrExpr **x;
  IrExpr *region; /* address of the row's survivors */
  int64_t offset;
  IrExpr *limit, *start,
      *total; /* variables: the bound, elements below it of the threads in front, and of all */
} Bounded;

static IrType key(const Bounded *sort)
{
  return ir_scalar(lower_register_type(sort->element));
}

static IrExpr *variable(const Bounded *sort, const char *name, IrType type, IrExpr *initial)
{
  return ir_value(sort->lower->module, lower_variable(sort->lower, name, type, initial));
}

static IrExpr *shuffled(const Bounded *sort, IrExpr *x, IrType type, const char *mode, unsigned lane)
{
  Lower *lower = sort->lower;
  IrExpr *other = lower_value(lower, OP_SHUFFLE, type, "other", 2, x, lower_int(lower, lane));
  ir_attribute_set(other->value->def, ATTR_MODE, ir_name(lower->module, mode));
  return other;
}

static IrExpr *either(const Bounded *sort, IrType type, IrExpr *taken, IrExpr *a, IrExpr *b)
{
  return lower_value(sort->lower, OP_SELECT, type, "either", 3, taken, a, b);
}

static IrExpr *sum(const Bounded *sort, IrExpr *a, IrExpr *b)
{
  return lower_value(sort->lower, OP_ADD, ir_scalar(NUMBER_S32), "sum", 2, a, b);
}

static IrExpr *test(const Bounded *sort, IrOpcode code, IrExpr *a, IrExpr *b)
{
  return lower_value(sort->lower, code, ir_predicate(), "test", 2, a, b);
}

/* Those who share the row meet. */
static void meet(const Bounded *sort)
{
  if (sort->bound->warps > 1)
    lower_block_barrier(sort->lower, sort->op);
  else
    lower_emit(sort->lower, OP_SYNC_WARP, 0);
}

/* ---- Shared memory ---- */

static void leave(const Bounded *sort, NumberType element, LowerAddress at, IrExpr *x, IrExpr *when)
{
  LowerTile part = {.element = element, .n = 1, .reg = &x};
  unsigned zero = 0;
  lower_store_vector(sort->lower, OP_STORE_SHARED, at, &part, &zero, 1, when, NULL);
}

static IrExpr *read(const Bounded *sort, NumberType element, LowerAddress at)
{
  IrExpr *x = NULL;
  LowerTile part = {.element = element, .n = 1, .reg = &x};
  unsigned zero = 0;
  lower_load_vector(sort->lower, OP_LOAD_SHARED, at, &part, &zero, 1, NULL, NULL, NULL);
  return x;
}

/* Of survivors, or of the numbers behind them. */
static LowerAddress place(const Bounded *sort, IrExpr *index, unsigned further)
{
  Lower *lower = sort->lower;
  IrExpr *bytes = lower_mul(lower, NUMBER_S32, index, lower_int(lower, sort->bytes));
  return (LowerAddress){lower_add(lower, NUMBER_U32, sort->region, bytes),
                        sort->offset + further * sort->bytes};
}

/* One number of each warp of the row, which `lane` of it has, known to all of them. */
static IrExpr **exchanged(const Bounded *sort, NumberType element, IrExpr *mine, unsigned lane,
                          unsigned further)
{
  Lower *lower = sort->lower;
  IrExpr **all = arena_new_array(lower->arena, IrExpr *, sort->bound->warps);
  leave(sort, element, place(sort, lower_source(lower, SOURCE_WARP), further), mine,
        lower_compare(lower, OP_EQ, lower->lane, lower_int(lower, lane)));
  meet(sort);
  for (unsigned w = 0; w < sort->bound->warps; w++)
    all[w] = read(sort, element, place(sort, lower_int(lower, w), further));
  return all;
}

static unsigned bounds_at(const Bounded *sort)
{
  return sort->bound->survivors;
}

static unsigned counts_at(const Bounded *sort)
{
  return sort->bound->survivors + sort->bound->warps;
}

/* ---- The bound ---- */

/* The last of `keep` elements in order of so many registers of each lane. */
static IrExpr *last_of(const Bounded *sort, IrExpr **x, unsigned registers, unsigned keep)
{
  unsigned reg = MIN(registers, keep) - 1, lane = (keep - 1) / registers;
  return shuffled(sort, x[reg], key(sort), "index", lane);
}

static IrExpr *find_bound(const Bounded *sort, IrExpr **more)
{
  Lower *lower = sort->lower;
  const SortingBound *bound = sort->bound;
  unsigned each = bound->registers / bound->groups;
  IrExpr **least = arena_new_array(lower->arena, IrExpr *, bound->groups);
  for (unsigned r = 0; r < bound->registers; r++)
    least[r / each] =
        r % each ? lower_combine(lower, "min", sort->element, least[r / each], sort->x[r]) : sort->x[r];
  least = lower_sort_warp(lower, sort->op, sort->element, least, bound->groups, bound->share, NULL);
  IrExpr *limit = last_of(sort, least, bound->groups, bound->share);
  meet(sort); /* readers of the exchange before are done */
  if (bound->warps > 1) {
    IrExpr **all = exchanged(sort, sort->element, limit, 0, bounds_at(sort));
    limit = all[0];
    for (unsigned w = 1; w < bound->warps; w++)
      limit = lower_combine(lower, "max", sort->element, limit, all[w]);
  }
  if (!more) return limit;
  IrExpr *found = last_of(sort, more, bound->survivors / SORTING_LANES, sort->keep);
  return lower_combine(lower, "min", sort->element, limit, found);
}

/* ---- Counts ---- */

/* A predicated addition each: the assembler takes two instructions for a select and a sum. */
static IrExpr *count_of_thread(const Bounded *sort, IrOpcode code, IrExpr *limit)
{
  Lower *lower = sort->lower;
  IrExpr *count = variable(sort, "count", ir_scalar(NUMBER_S32), lower_int(lower, 0));
  for (unsigned r = 0; r < sort->bound->registers; r++) {
    IrExpr *one = test(sort, code, sort->x[r], limit);
    lower_when(lower_emit(lower, OP_SET, 2, count, sum(sort, count, lower_int(lower, 1))), one);
  }
  return count;
}

/* Sets `start` and `total`. */
static void find_places(const Bounded *sort)
{
  Lower *lower = sort->lower;
  IrType number = ir_scalar(NUMBER_S32);
  IrExpr *mine = count_of_thread(sort, OP_LT, sort->limit), *all = mine;
  for (unsigned lanes = 1; lanes < SORTING_LANES; lanes *= 2) {
    IrExpr *below = shuffled(sort, all, number, "up", lanes);
    IrExpr *exists = lower_compare(lower, OP_GE, lower->lane, lower_int(lower, lanes));
    all = sum(sort, all, either(sort, number, exists, below, lower_int(lower, 0)));
  }
  IrExpr *before = lower_value(lower, OP_SUB, number, "before", 2, all, mine);
  if (sort->bound->warps > 1) {
    IrExpr **counts = exchanged(sort, NUMBER_S32, all, FULL, counts_at(sort)),
           *warp = lower_source(lower, SOURCE_WARP);
    all = counts[0];
    for (unsigned w = 0; w < sort->bound->warps; w++) {
      IrExpr *behind = lower_compare(lower, OP_GT, warp, lower_int(lower, w));
      if (w) all = sum(sort, all, counts[w]);
      before = sum(sort, before, either(sort, number, behind, counts[w], lower_int(lower, 0)));
    }
  } else {
    all = shuffled(sort, all, number, "index", FULL);
  }
  lower_set(lower, sort->start, before);
  lower_set(lower, sort->total, all);
}

/* Of the row's elements those that are at most `limit`. */
static IrExpr *count_of_row(const Bounded *sort, IrExpr *limit)
{
  IrExpr *count = count_of_thread(sort, OP_LE, limit);
  for (unsigned lanes = 1; lanes < SORTING_LANES; lanes *= 2)
    count = sum(sort, count, shuffled(sort, count, ir_scalar(NUMBER_S32), "xor", lanes));
  if (sort->bound->warps == 1) return count;
  meet(sort);
  IrExpr **counts = exchanged(sort, NUMBER_S32, count, 0, counts_at(sort));
  count = counts[0];
  for (unsigned w = 1; w < sort->bound->warps; w++)
    count = sum(sort, count, counts[w]);
  return count;
}

/* ---- Too many below the bound ---- */

/* Halves what lies between the least integer and the bound, with the wanted element in it. */
static void search(const Bounded *sort)
{
  Lower *lower = sort->lower;
  IrType type = key(sort);
  int64_t least = number_bits(sort->element) > 32 ? INT64_MIN : INT32_MIN;
  IrExpr *low = variable(sort, "low", type, lower_int(lower, least));
  IrOp *loop = lower_emit(lower, OP_LOOP, 0);
  lower_scope_open(lower, loop, ir_region_add(loop), false);
  IrExpr *both = lower_value(lower, OP_AND, type, "both", 2, low, sort->limit);
  IrExpr *apart = lower_value(lower, OP_XOR, type, "apart", 2, low, sort->limit);
  IrExpr *half = lower_value(lower, OP_SHR, type, "half", 2, apart, lower_int(lower, 1));
  IrExpr *middle = lower_value(lower, OP_ADD, type, "middle", 2, both, half);
  IrExpr *above = lower_value(lower, OP_ADD, type, "above", 2, middle, lower_int(lower, 1));
  IrExpr *count = count_of_row(sort, middle);
  IrExpr *enough = test(sort, OP_GE, count, lower_int(lower, sort->keep));
  lower_set(lower, low, either(sort, type, enough, low, above));
  lower_set(lower, sort->limit, either(sort, type, enough, middle, sort->limit));
  IrExpr *few = test(sort, OP_LE, count, lower_int(lower, sort->bound->survivors));
  IrExpr *fit = lower_value(lower, OP_AND, ir_predicate(), "fit", 2, enough, few);
  IrExpr *found = test(sort, OP_GE, low, sort->limit);
  lower_emit(lower, OP_BREAK_IF, 1, lower_value(lower, OP_OR, ir_predicate(), "done", 2, fit, found));
  lower_scope_close(lower);
}

static void tighten(const Bounded *sort)
{
  Lower *lower = sort->lower;
  IrOp *branch =
      lower_emit(lower, OP_IF, 1, test(sort, OP_GT, sort->total, lower_int(lower, sort->bound->survivors)));
  lower_scope_open(lower, branch, ir_region_add(branch), false);
  search(sort);
  meet(sort); /* readers of counts before are done */
  find_places(sort);
  lower_scope_close(lower);
}

/* ---- What is left ---- */

static IrExpr *one_of_row(const Bounded *sort)
{
  Lower *lower = sort->lower;
  IrExpr *lane = lower_compare(lower, OP_EQ, lower->lane, lower_int(lower, 0));
  if (sort->bound->warps == 1) return lane;
  return lower_and(lower, lane,
                   lower_compare(lower, OP_EQ, lower_source(lower, SOURCE_WARP), lower_int(lower, 0)));
}

/* The elements below the bound, and behind them, where there is room, the bound. */
static void leave_survivors(const Bounded *sort)
{
  Lower *lower = sort->lower;
  IrType type = ir_scalar(NUMBER_U32);
  LowerAddress first = place(sort, sort->start, 0);
  IrExpr *room = test(sort, OP_LT, sort->total, lower_int(lower, sort->bound->survivors));
  IrExpr *at = first.base;
  for (unsigned r = 0; r < sort->bound->registers && !lower->failed; r++) {
    IrExpr *below = test(sort, OP_LT, sort->x[r], sort->limit);
    leave(sort, sort->element, (LowerAddress){at, first.offset}, sort->x[r], below);
    IrExpr *next = lower_value(lower, OP_ADD, type, "next", 2, at, lower_int(lower, sort->bytes));
    at = either(sort, type, below, next, at);
  }
  LowerAddress behind = place(sort, sort->total, 0);
  leave(sort, sort->element, behind, sort->limit, lower_and(lower, one_of_row(sort), room));
  meet(sort);
}

static IrExpr **in_order(const Bounded *sort, IrExpr **more)
{
  Lower *lower = sort->lower;
  unsigned n = sort->bound->survivors / SORTING_LANES;
  IrExpr **x = arena_new_array(lower->arena, IrExpr *, n);
  for (unsigned r = 0; r < n; r++) {
    IrExpr *index = lower_add(lower, NUMBER_S32, lower->lane, lower_int(lower, r * SORTING_LANES));
    index = lower_value(lower, OP_MIN, ir_scalar(NUMBER_S32), "index", 2, index, sort->total);
    x[r] = read(sort, sort->element, place(sort, index, 0));
  }
  return lower_sort_warp(lower, sort->op, sort->element, x, n, sort->keep, more);
}

/* The first warp leaves what it found where the survivors were; all others read it there. */
static void give_all(const Bounded *sort, IrExpr **more, LowerTile *to)
{
  Lower *lower = sort->lower;
  unsigned lanes = MAX(1, sort->keep / to->n);
  IrExpr *first = lower_compare(lower, OP_EQ, lower_source(lower, SOURCE_WARP), lower_int(lower, 0));
  IrExpr *part = lower_bits(lower, OP_AND, NUMBER_S32, lower->lane, lower_int(lower, lanes - 1));
  IrExpr *index = lower_mul(lower, NUMBER_S32, part, lower_int(lower, to->n));
  IrOp *branch = lower_emit(lower, OP_IF, 1, first);
  lower_scope_open(lower, branch, ir_region_add(branch), false);
  IrExpr **x = in_order(sort, more);
  IrExpr *owner =
      lanes == SORTING_LANES ? NULL : lower_compare(lower, OP_LT, lower->lane, lower_int(lower, lanes));
  lower_emit(lower, OP_SYNC_WARP, 0); /* its lanes have read the survivors */
  for (unsigned r = 0; r < to->n && !lower->failed; r++)
    leave(sort, sort->element, place(sort, index, r), x[r], owner);
  lower_scope_close(lower);
  meet(sort);
  for (unsigned r = 0; r < to->n && !lower->failed; r++)
    to->reg[r] = read(sort, sort->element, place(sort, index, r));
}

static bool open_region(Bounded *sort)
{
  Lower *lower = sort->lower;
  const IrExpr *symbol = ir_attribute_value(sort->op, ATTR_EXCHANGE);
  LowerShared tile;
  uint64_t elements = sort->bound->survivors + (sort->bound->warps > 1 ? 2 * sort->bound->warps : 0);
  if (!symbol || !lower_shared_operand(lower, symbol, &tile) ||
      number_bytes_of(sort->element, elements) > layout_bytes(tile.layout, tile.element)) {
    lower_fail(lower, ERROR_INPUT, "exchange", NULL, "a sort by a bound needs an exchange tile of its size");
    return false;
  }
  sort->region = tile.base;
  sort->offset = tile.offset;
  if (sort->bound->warps > 1) return true;
  IrExpr *before =
      lower_mul(lower, NUMBER_S32, lower_source(lower, SOURCE_WARP),
                lower_int(lower, (int64_t)number_bytes_of(sort->element, sort->bound->survivors)));
  sort->region = lower_add(lower, NUMBER_U32, tile.base, before);
  return true;
}

void lower_sort_bounded(Lower *lower, IrOp *op, const SortingBound *bound, LowerTile *from, LowerTile *more)
{
  const IrType *type = &op->results[0]->type;
  IrType number = ir_scalar(NUMBER_S32);
  Bounded sort = {.lower = lower, .op = op, .bound = bound, .element = from->element, .x = from->reg};
  sort.keep = type->layout->extent[ir_attribute_int(op, ATTR_DIM, 0)];
  sort.bytes = (int64_t)number_bytes_of(sort.element, 1);
  if (!open_region(&sort)) return;
  LowerTile *to = lower_tile_new(lower, sort.element, type->layout);
  IrExpr **before = more ? more->reg : NULL;
  sort.limit = variable(&sort, "limit", key(&sort), find_bound(&sort, before));
  sort.start = variable(&sort, "start", number, lower_int(lower, 0));
  sort.total = variable(&sort, "total", number, lower_int(lower, 0));
  find_places(&sort);
  tighten(&sort);
  leave_survivors(&sort);
  if (bound->warps > 1) {
    give_all(&sort, before, to);
  } else {
    IrExpr **x = in_order(&sort, before);
    for (unsigned r = 0; r < to->n; r++)
      to->reg[r] = x[r];
  }
  if (!lower->failed) lower_tile_bind(lower, op->results[0], to);
}
