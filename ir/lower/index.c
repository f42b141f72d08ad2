/* Layouts as index arithmetic: a thread's coordinates from digits of its lane and warp, a register's as
 * constants.
 *
 * Every layout is a sum of digit * step, so coordinates split into a part of the thread (computed once) and a
 * part of the register (a constant). Digits of power-of-two size are kept as single bits, which merge again
 * where neighbours move the coordinate alike. */
#include "ir/lower/lower.h"
#include <string.h>

static bool is_power_of_two(unsigned value)
{
  return value && !(value & (value - 1));
}

void lower_map_add(LowerMap *map, LowerSource source, unsigned divisor, unsigned size, unsigned limit,
                   unsigned dim, unsigned step)
{
  bool split = is_power_of_two(size) && is_power_of_two(divisor);
  for (unsigned part = split ? 2 : size; part <= size && size > 1; part *= 2) {
    g_assert(map->n < LOWER_MAX_DIGITS);
    LowerDigit *digit = &map->digit[map->n++];
    *digit = (LowerDigit){.source = source, .divisor = divisor, .size = split ? 2 : size, .limit = limit};
    digit->step[dim] = step;
    if (!split) break;
    divisor *= 2;
    step *= 2;
  }
}

static void add_place(LowerMap *map, const Layout *layout, LayoutPlace place, LowerSource source)
{
  unsigned divisor = 1, limit = layout_size(layout, place);
  for (unsigned i = 0; i < layout->n; i++) {
    const LayoutMode *mode = &layout->modes[i];
    if (mode->place != place) continue;
    if (mode->dim != LAYOUT_REPLICATED)
      lower_map_add(map, source, divisor, mode->size, limit, (unsigned)mode->dim, mode->step);
    divisor *= mode->size;
  }
}

LowerMap lower_map_of(const Layout *layout)
{
  LowerMap map = {0};
  add_place(&map, layout, PLACE_LANE, SOURCE_LANE);
  add_place(&map, layout, PLACE_WARP, SOURCE_WARP);
  return map;
}

LowerMap lower_map_of_warps(const Layout *layout)
{
  LowerMap map = {0};
  add_place(&map, layout, PLACE_WARP, SOURCE_WARP);
  return map;
}

IrExpr *lower_source(Lower *lower, LowerSource source)
{
  switch (source) {
  case SOURCE_LANE: return lower->lane;
  case SOURCE_WARP: return lower->role->warp;
  case SOURCE_LANE_CROSSED:
    return lower_bits(lower, OP_XOR, NUMBER_S32, lower_shr(lower, NUMBER_S32, lower->lane, 3),
                      lower_shr(lower, NUMBER_S32, lower->lane, 2));
  default: return lower->role->thread;
  }
}

/* (index / divisor % size) * weight */
static IrExpr *weighted_digit(Lower *lower, const LowerDigit *digit, unsigned weight)
{
  IrExpr *x = lower_source(lower, digit->source);
  bool top = digit->divisor * digit->size >= digit->limit;
  if (digit->source == SOURCE_WARP)
    top &= digit->limit >= lower->role->instance_warps; /* else warps repeat */
  if (is_power_of_two(digit->divisor) && is_power_of_two(digit->size)) {
    unsigned low = g_bit_storage(digit->divisor) - 1;
    if (is_power_of_two(weight) && !(top && low == 0)) { /* mask in place, then one shift */
      unsigned high = g_bit_storage(weight) - 1;
      if (top && high <= low) {
        x = lower_shr(lower, NUMBER_S32, x, low);
        return lower_shl(lower, NUMBER_S32, x, high);
      }
      x = lower_bits(lower, OP_AND, NUMBER_S32, x, lower_int(lower, (int64_t)(digit->size - 1) << low));
      return high >= low ? lower_shl(lower, NUMBER_S32, x, high - low)
                         : lower_shr(lower, NUMBER_S32, x, low - high);
    }
    x = lower_shr(lower, NUMBER_S32, x, low);
    if (!top) x = lower_bits(lower, OP_AND, NUMBER_S32, x, lower_int(lower, digit->size - 1));
    return lower_mul(lower, NUMBER_S32, x, lower_int(lower, weight));
  }
  if (digit->divisor > 1)
    x = lower_scalar(lower, OP_DIV, ir_scalar(NUMBER_S32), "digit", 2, x, lower_int(lower, digit->divisor));
  if (!top)
    x = lower_scalar(lower, OP_REM, ir_scalar(NUMBER_S32), "digit", 2, x, lower_int(lower, digit->size));
  return lower_mul(lower, NUMBER_S32, x, lower_int(lower, weight));
}

/* Sum of digit * weight; digits of one source that follow one another and weigh alike become one. */
IrExpr *lower_weighted_sum(Lower *lower, const LowerMap *map, const unsigned *weight)
{
  IrExpr *sum = lower_int(lower, 0);
  for (unsigned i = 0; i < map->n; i++) {
    if (!weight[i]) continue;
    LowerDigit digit = map->digit[i];
    unsigned last = i;
    while (last + 1 < map->n && map->digit[last + 1].source == digit.source &&
           map->digit[last + 1].divisor == digit.divisor * digit.size &&
           weight[last + 1] == weight[i] * digit.size)
      digit.size *= map->digit[++last].size;
    sum = lower_add(lower, NUMBER_S32, weighted_digit(lower, &digit, weight[i]), sum);
    i = last;
  }
  return sum;
}

IrExpr *lower_map_coordinate(Lower *lower, const LowerMap *map, unsigned dim)
{
  unsigned weight[LOWER_MAX_DIGITS];
  for (unsigned i = 0; i < map->n; i++)
    weight[i] = map->digit[i].step[dim];
  return lower_weighted_sum(lower, map, weight);
}

const unsigned *lower_registers(Lower *lower, const Layout *layout)
{
  unsigned *at = g_hash_table_lookup(lower->registers, layout);
  if (at) return at;
  unsigned n = layout_registers(layout);
  at = arena_new_array(lower->arena, unsigned, (size_t)n *LAYOUT_MAX_DIMS);
  for (unsigned r = 0; r < n; r++)
    layout_at(layout, 0, 0, 0, r, at + (size_t)r * LAYOUT_MAX_DIMS);
  g_hash_table_insert(lower->registers, (gpointer)layout, at);
  return at;
}

unsigned lower_register_at(Lower *lower, const Layout *layout, unsigned row, unsigned column)
{
  const unsigned *at = lower_registers(lower, layout);
  unsigned n = layout_registers(layout);
  for (unsigned r = 0; r < n; r++)
    if (at[(size_t)r * LAYOUT_MAX_DIMS] == row && at[(size_t)r * LAYOUT_MAX_DIMS + 1] == column) return r;
  return n;
}

IrExpr *lower_map_owner(Lower *lower, const Layout *layout)
{
  IrExpr *owner = NULL;
  for (LayoutPlace place = PLACE_LANE; place <= PLACE_WARP; place++) {
    LowerSource source = place == PLACE_LANE ? SOURCE_LANE : SOURCE_WARP;
    unsigned divisor = 1, limit = layout_size(layout, place);
    for (unsigned i = 0; i < layout->n; i++) {
      const LayoutMode *mode = &layout->modes[i];
      if (mode->place != place) continue;
      if (mode->dim == LAYOUT_REPLICATED && mode->size > 1) {
        LowerDigit digit = {.source = source, .divisor = divisor, .size = mode->size, .limit = limit};
        IrExpr *x = weighted_digit(lower, &digit, 1);
        owner = lower_and(lower, owner, lower_compare(lower, OP_EQ, x, lower_int(lower, 0)));
      }
      divisor *= mode->size;
    }
  }
  return owner;
}

/* ---- Correspondence ---- */

/* Coordinates as `from` sees them: where it has extent 1, all are 0. */
static uint64_t coordinate_key(const Layout *from, const unsigned *at, unsigned rank)
{
  uint64_t key = 0;
  for (unsigned d = 0; d < rank; d++)
    key = key << 16 | (from->extent[d] == 1 ? 0 : at[d]);
  return key;
}

/* Do all threads hold corresponding elements? Layouts are sums of digits, so one register and each lane of
 * warp 0 and lane 0 of each warp suffice. */
static bool threads_agree(const Layout *from, const Layout *to)
{
  unsigned warps = MAX(layout_size(to, PLACE_WARP), layout_size(from, PLACE_WARP));
  unsigned from_warps = layout_size(from, PLACE_WARP), to_warps = layout_size(to, PLACE_WARP);
  for (unsigned i = 0; i < 32 + warps; i++) {
    unsigned lane = i < 32 ? i : 0, warp = i < 32 ? 0 : i - 32;
    unsigned a[LAYOUT_MAX_DIMS] = {0}, b[LAYOUT_MAX_DIMS] = {0};
    layout_at(from, 0, warp % from_warps, lane % MAX(1, layout_size(from, PLACE_LANE)), 0, a);
    layout_at(to, 0, warp % to_warps, lane % MAX(1, layout_size(to, PLACE_LANE)), 0, b);
    if (coordinate_key(from, a, from->rank) != coordinate_key(from, b, from->rank)) return false;
  }
  return true;
}

static const unsigned *find_part(Lower *lower, const Layout *from, const Layout *to, const unsigned *corner)
{
  unsigned n = layout_registers(to), n_from = layout_registers(from);
  unsigned *map = arena_new_array(lower->arena, unsigned, n);
  const unsigned *at = lower_registers(lower, to), *from_at = lower_registers(lower, from);
  g_autoptr(GHashTable) places = g_hash_table_new(g_int64_hash, g_int64_equal);
  uint64_t *keys = arena_new_array(lower->arena, uint64_t, n_from);
  for (unsigned r = n_from; r-- > 0;) { /* downwards: the first of equal ones wins */
    keys[r] = coordinate_key(from, from_at + (size_t)r * LAYOUT_MAX_DIMS, from->rank);
    g_hash_table_replace(places, &keys[r], GUINT_TO_POINTER(r + 1));
  }
  for (unsigned r = 0; r < n; r++) {
    unsigned here[LAYOUT_MAX_DIMS] = {0};
    for (unsigned d = 0; d < to->rank; d++)
      here[d] = at[(size_t)r * LAYOUT_MAX_DIMS + d] + corner[d];
    uint64_t key = coordinate_key(from, here, to->rank);
    unsigned found = GPOINTER_TO_UINT(g_hash_table_lookup(places, &key));
    if (!found) return NULL;
    map[r] = found - 1;
  }
  return map;
}

/* A chain of operations on a tile asks for the same again and again. */
struct LowerPart {
  LowerPart *next;
  const Layout *from, *to;
  unsigned corner[LAYOUT_MAX_DIMS];
  const unsigned *map;
};

const unsigned *lower_part_of(Lower *lower, const Layout *from, const Layout *to, const unsigned *corner)
{
  size_t bytes = from->rank * sizeof *corner;
  if (from->rank != to->rank) return NULL;
  for (const LowerPart *part = lower->parts; part; part = part->next)
    if (!memcmp(part->corner, corner, bytes) && layout_equal(part->from, from) && layout_equal(part->to, to))
      return part->map;
  const unsigned *map = threads_agree(from, to) ? find_part(lower, from, to, corner) : NULL;
  if (!map) return NULL;
  LowerPart *part = arena_new_object(lower->arena, LowerPart);
  *part = (LowerPart){.next = lower->parts, .from = from, .to = to, .map = map};
  memcpy(part->corner, corner, bytes);
  lower->parts = part;
  return map;
}

const unsigned *lower_correspondence(Lower *lower, const Layout *from, const Layout *to)
{
  static const unsigned zero[LAYOUT_MAX_DIMS] = {0};
  if (from != to) return lower_part_of(lower, from, to, zero);
  unsigned n = layout_registers(to);
  unsigned *map = arena_new_array(lower->arena, unsigned, n);
  for (unsigned r = 0; r < n; r++)
    map[r] = r;
  return map;
}

/* Where a thread is. The warp's index comes from lane 0, so that the assembler knows it is the same for the
 * warp. */
void lower_place_thread(Lower *lower)
{
  IrModule *module = lower->module;
  IrType type = ir_scalar(NUMBER_S32);
  lower->thread = lower_scalar(lower, OP_SPECIAL, type, "thread", 1, ir_name(module, "thread_x"));
  lower->lane = lower_bits(lower, OP_AND, NUMBER_S32, lower->thread, lower_int(lower, 31));
  lower->lane->value->name = "lane";
  if (lower->block_warps == 1) {
    lower->warp = lower_int(lower, 0);
    return;
  }
  IrExpr *own = lower_shr(lower, NUMBER_S32, lower->thread, 5);
  own->value->name = "own_warp";
  lower->warp = lower_value(lower, OP_SHUFFLE, type, "warp", 2, own, lower_int(lower, 0));
  ir_attribute_set(lower->warp->value->def, ATTR_MODE, ir_name(module, "index"));
}
