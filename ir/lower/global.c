/* Tensors in global memory: addresses, bounds, and the ops that move tiles between them and registers.
 *
 * The address of an element is base + sum over dimensions of (corner + thread + register) * stride. The parts
 * are summed in the order in which they become known (kernel, tile, inner loop), so that an inner loop adds
 * only what it changes; the register's part is a constant where the stride is, else one multiply-add a row.
 */
#include "ir/facts.h"
#include "ir/lower/lower.h"
#include <stdlib.h>
#include <string.h>

/* ---- Corners ---- */

#define MAX_PARTS      32
#define DISPLACED_MOST (1 << 20) /* elements: accesses hold 24 bits of bytes */

typedef struct Part {
  unsigned dim, depth;
  IrExpr *x;
  NumberType type;
} Part;

typedef struct Parts {
  Part part[MAX_PARTS];
  unsigned n;
  int64_t constant[IR_MAX_RANK];
} Parts;

static void add_part(Lower *lower, Parts *parts, unsigned dim, IrExpr *x, NumberType type)
{
  int64_t constant;
  if (lower_is_int(x, &constant)) {
    parts->constant[dim] += constant;
    return;
  }
  g_assert(parts->n < MAX_PARTS);
  parts->part[parts->n++] = (Part){dim, lower_depth(lower, x), x, type};
}

/* Terms of a sum; a loop variable times a constant stays one term. */
static void split_sum(Lower *lower, Parts *parts, unsigned dim, const IrExpr *expr)
{
  if (expr->kind == EXPR_BINARY && expr->operator_ == OPERATOR_ADD && parts->n < MAX_PARTS / 2) {
    split_sum(lower, parts, dim, expr->items[0]);
    split_sum(lower, parts, dim, expr->items[1]);
    return;
  }
  if (expr->kind == EXPR_BINARY && expr->operator_ == OPERATOR_SUB && expr->items[1]->kind == EXPR_INT) {
    split_sum(lower, parts, dim, expr->items[0]);
    parts->constant[dim] -= expr->items[1]->integer;
    return;
  }
  LowerScalar value = lower_expr(lower, expr);
  add_part(lower, parts, dim, value.x, value.type);
}

static int compare_parts(const void *a, const void *b)
{
  const Part *x = a, *y = b;
  if (x->depth != y->depth) return x->depth < y->depth ? -1 : 1;
  return x->dim < y->dim ? -1 : x->dim > y->dim;
}

/* Terms of one dimension that become known together are added up first, in 32 bits. */
static void merge_parts(Lower *lower, Parts *parts)
{
  qsort(parts->part, parts->n, sizeof *parts->part, compare_parts);
  unsigned n = 0;
  for (unsigned i = 0; i < parts->n; i++) {
    Part *last = n ? &parts->part[n - 1] : NULL, *next = &parts->part[i];
    if (last && last->dim == next->dim && last->depth == next->depth && last->type == next->type)
      last->x = lower_add(lower, next->type, last->x, next->x);
    else
      parts->part[n++] = *next;
  }
  parts->n = n;
}

/* ---- Strides ---- */

/* Row-major unless the tensor says otherwise; products of extents are taken in 64 bits. */
static void tensor_strides(Lower *lower, const IrType *tensor, LowerAccess *access)
{
  LowerScalar product = {lower_int(lower, 1), NUMBER_S32};
  bool given = false;
  for (unsigned d = 0; d < tensor->rank; d++)
    given |= tensor->strides[d] != NULL;
  for (unsigned d = tensor->rank; d-- > 0;) {
    LowerScalar stride = given ? lower_expr(lower, tensor->strides[d]) : product;
    access->stride[d] = stride.x;
    access->stride_type[d] = stride.type;
    if (given || d == 0) continue;
    LowerScalar extent = lower_expr(lower, tensor->dims[d]);
    int64_t a, b;
    if (lower_is_int(product.x, &a) && (a == 1 || lower_is_int(extent.x, &b)))
      product = a == 1 ? extent : (LowerScalar){lower_int(lower, a * b), NUMBER_S32};
    else if (product.type != NUMBER_S64 && extent.type != NUMBER_S64)
      product = (LowerScalar){lower_mul_wide(lower, product.x, extent.x), NUMBER_S64};
    else
      product = (LowerScalar){lower_mul(lower, NUMBER_S64, lower_as(lower, product, NUMBER_S64),
                                        lower_as(lower, extent, NUMBER_S64)),
                              NUMBER_S64};
  }
}

/* address + x * stride * bytes */
static IrExpr *advance(Lower *lower, IrExpr *address, IrExpr *x, NumberType x_type, IrExpr *stride,
                       NumberType stride_type, unsigned bytes)
{
  int64_t constant, index;
  bool fixed = lower_is_int(stride, &constant);
  LowerScalar left = {x, x_type}, right = {stride, stride_type};
  if (lower_is_int(x, &index) && fixed)
    return lower_add(lower, NUMBER_U64, address, lower_int(lower, index * constant * bytes));
  if (lower_is_int(x, &index) && stride_type != NUMBER_S64 && index * bytes <= G_MAXINT32 &&
      index * bytes >= G_MININT32)
    return lower_mad_wide(lower, stride, lower_int(lower, index * bytes), address, NUMBER_U64);
  if (fixed && x_type != NUMBER_S64 && constant * bytes <= G_MAXINT32 && constant * bytes >= G_MININT32)
    return lower_mad_wide(lower, x, lower_int(lower, constant * bytes), address, NUMBER_U64);
  IrExpr *offset;
  if (x_type != NUMBER_S64 && stride_type != NUMBER_S64 && !fixed)
    offset = lower_mul_wide(lower, x, stride);
  else
    offset =
        lower_mul(lower, NUMBER_S64, lower_as(lower, left, NUMBER_S64), lower_as(lower, right, NUMBER_S64));
  offset = lower_mul(lower, NUMBER_S64, offset, lower_int(lower, bytes));
  return lower_add(lower, NUMBER_U64, address, offset);
}

/* ---- Bounds ---- */

/* bound, or min(bound, x)? */
static bool is_at_most(const IrExpr *expr, const IrExpr *bound)
{
  if (ir_expr_equal(expr, bound)) return true;
  bool least = expr->kind == EXPR_CALL && !strcmp(expr->name, "min") && expr->n == 2;
  return least && (ir_expr_equal(expr->items[0], bound) || ir_expr_equal(expr->items[1], bound));
}

/* `for %k in low .. high step s`, high = end - ahead with an end of at most the bound, or both constants: is
 * %k + constant + extent <= bound in every iteration? Between constants the last %k is known; otherwise s has
 * to divide low, ahead and the end. As elsewhere, an index is never negative. */
static bool ends_inside(Lower *lower, const IrOp *loop, int64_t constant, unsigned extent,
                        const IrExpr *bound)
{
  const IrExpr *low = loop->operands[0], *high = loop->operands[1];
  int64_t first = 0, step = 1, last, limit, ahead = 0;
  bool fixed = ir_expr_is_int(low, &first);
  if (first < 0 || constant < 0) return false;
  if (loop->n_operands > 2 && (!ir_expr_is_int(loop->operands[2], &step) || step < 1)) return false;
  if (fixed && ir_expr_is_int(high, &last) && ir_expr_is_int(bound, &limit))
    return last <= first || first + (last - 1 - first) / step * step + constant + extent <= limit;
  if (high->kind == EXPR_BINARY && high->operator_ == OPERATOR_SUB && ir_expr_is_int(high->items[1], &ahead))
    high = high->items[0];
  if (!is_at_most(high, bound) || ahead < 0 || step > 1024 || (step & (step - 1)) || ahead % step)
    return false;
  return ir_known_multiple(lower->kernel, low, (unsigned)step) % step == 0 &&
         ir_known_multiple(lower->kernel, high, (unsigned)step) % step == 0 &&
         constant + extent <= ahead + step;
}

/* min(x, bound - 1): as elsewhere, an index is never negative. Nobody reads where there is none at all. */
static bool is_clamped(const IrExpr *index, const IrExpr *bound)
{
  int64_t last, limit;
  if (index->kind != EXPR_CALL || strcmp(index->name, "min") || index->n != 2) return false;
  const IrExpr *most = index->items[1];
  if (ir_expr_is_int(most, &last)) return ir_expr_is_int(bound, &limit) && last >= 0 && last < limit;
  return most->kind == EXPR_BINARY && most->operator_ == OPERATOR_SUB &&
         ir_expr_is_int(most->items[1], &last) && last == 1 && ir_expr_equal(most->items[0], bound);
}

/* A coordinate of a tile times what the tile has, plus a constant. */
static bool is_whole_tile(const Lower *lower, const IrExpr *base, int64_t constant, unsigned extent,
                          const IrExpr *bound)
{
  int64_t step, limit;
  if (base->kind != EXPR_BINARY || base->operator_ != OPERATOR_MUL ||
      !ir_expr_is_int(base->items[1], &step) || step < 0 || !ir_expr_is_int(bound, &limit))
    return false;
  int64_t least, most;
  return lower_known_range(lower, base->items[0], &least, &most) && least >= 0 && most < INT32_MAX &&
         constant >= 0 && most * step + constant + extent <= limit;
}

/* Is every index of the dimension inside without a test? */
static bool always_inside(Lower *lower, const IrExpr *index, unsigned extent, const IrExpr *bound)
{
  int64_t at, limit;
  if (ir_expr_is_int(index, &at) && ir_expr_is_int(bound, &limit)) return at >= 0 && at + extent <= limit;
  const IrExpr *base = index;
  int64_t constant = 0;
  if (index->kind == EXPR_BINARY && index->operator_ == OPERATOR_ADD &&
      ir_expr_is_int(index->items[1], &constant))
    base = index->items[0];
  if (base->kind == EXPR_VALUE && base->value->argument_of) {
    const IrOp *loop = base->value->argument_of->owner;
    if (loop && loop->code == OP_FOR && ends_inside(lower, loop, constant, extent, bound)) return true;
  }
  if (is_whole_tile(lower, base, constant, extent, bound)) return true;
  if (index->kind == EXPR_VALUE && index->value->def && index->value->def->code == OP_LET &&
      !index->value->variable)
    return always_inside(lower, index->value->def->operands[0], extent, bound);
  if (extent != 1) return false;
  if (is_clamped(index, bound)) return true;
  if (index->kind == EXPR_VALUE && index->value->argument_of) { /* for %i in 0 .. bound */
    const IrOp *loop = index->value->argument_of->owner;
    return loop && loop->code == OP_FOR && ir_is_non_negative(loop->operands[0]) &&
           ir_expr_equal(loop->operands[1], bound);
  }
  const IrExpr *grid = ir_launch_get(lower->kernel, ATTR_GRID);
  int64_t axis;
  if (index->kind == EXPR_CALL && !strcmp(index->name, "block") && index->n == 1 && grid &&
      grid->kind == EXPR_LIST && ir_expr_is_int(index->items[0], &axis) && axis >= 0 && axis < grid->n)
    return ir_expr_equal(grid->items[axis], bound);
  return false;
}

/* The coordinate that is compared with a dimension's extent, parts that become known first added first. */
static void set_bound(Lower *lower, LowerAccess *access, const Parts *parts, unsigned d)
{
  LowerScalar bound = lower_expr(lower, access->tensor->dims[d]);
  LowerScalar sum = {lower_int(lower, parts->constant[d]), NUMBER_S32};
  for (unsigned i = 0; i < parts->n; i++) {
    if (parts->part[i].dim != d) continue;
    LowerScalar term = {parts->part[i].x, parts->part[i].type};
    NumberType type = term.type == NUMBER_S64 || sum.type == NUMBER_S64 ? NUMBER_S64 : NUMBER_S32;
    sum =
        (LowerScalar){lower_add(lower, type, lower_as(lower, term, type), lower_as(lower, sum, type)), type};
  }
  NumberType type = bound.type == NUMBER_S64 ? NUMBER_S64 : sum.type;
  access->coordinate[d] = lower_as(lower, sum, type);
  access->bound[d] = lower_as(lower, bound, type);
}

/* Of an index of which something may be below 0, both ends of its coordinates: of the corner and of threads. */
static void set_range(Lower *lower, LowerAccess *access, const IrExpr *index, const LowerMap *map, unsigned d)
{
  int64_t least, most;
  unsigned lead = access->rank - access->tile_rank;
  access->from_below[d] = lower_from_below(lower, index);
  if (!access->from_below[d] || !lower_counted_range(lower, index, &least, &most)) return;
  access->ranged[d] = true;
  for (unsigned i = 0; map && d >= lead && i < map->n && most < INT64_MAX; i++)
    most += (int64_t)(map->digit[i].size - 1) * map->digit[i].step[d - lead];
  access->least[d] = least;
  access->most[d] = most;
}

/* What addresses are counted in: bytes of an element, or of 4 bits elements. */
static unsigned unit_bytes(const IrType *tensor)
{
  return number_is_packed(tensor->element) ? 1 : number_bytes(tensor->element);
}

/* Base plus the parts in the order in which they become known; constants stay apart where the stride is one.
 */
static void set_address(Lower *lower, LowerAccess *access, const IrExpr *base, const Parts *parts)
{
  unsigned bytes = unit_bytes(access->tensor);
  IrExpr *address =
      lower_scalar(lower, OP_ADDRESS, ir_scalar(NUMBER_U64), base->value->name, 1, (IrExpr *)base);
  if (number_is_packed(access->tensor->element)) {
    access->start = address;
    address = lower_int(lower, 0);
  }
  for (unsigned i = 0; i < parts->n; i++) {
    const Part *part = &parts->part[i];
    address = advance(lower, address, part->x, part->type, access->stride[part->dim],
                      access->stride_type[part->dim], bytes);
  }
  for (unsigned d = 0; d < access->rank; d++) {
    int64_t stride;
    if (!parts->constant[d]) continue;
    if (lower_is_int(access->stride[d], &stride))
      access->offset += parts->constant[d] * stride * bytes;
    else
      address = advance(lower, address, lower_int(lower, parts->constant[d]), NUMBER_S32, access->stride[d],
                        access->stride_type[d], bytes);
  }
  access->address = address;
}

bool lower_access_open(Lower *lower, const IrExpr *expr, const LowerMap *map, unsigned tile_rank,
                       const unsigned *extent, LowerAccess *access)
{
  const IrExpr *base = expr->kind == EXPR_INDEX ? expr->items[0] : expr;
  unsigned indices = expr->kind == EXPR_INDEX ? expr->n - 1 : 0;
  if (base->kind != EXPR_VALUE || base->value->type.kind != TYPE_TENSOR ||
      indices != base->value->type.rank || tile_rank > indices) {
    lower_fail(lower, ERROR_INPUT, "tensor-access", NULL, "'%s' is no tensor at a corner",
               ir_expr_text(lower->module, expr));
    return false;
  }
  const IrType *tensor = &base->value->type;
  *access = (LowerAccess){.tensor = tensor, .rank = tensor->rank, .tile_rank = tile_rank};
  tensor_strides(lower, tensor, access);
  Parts parts = {0};
  unsigned lead = tensor->rank - tile_rank;
  for (unsigned d = 0; d < tensor->rank; d++) {
    split_sum(lower, &parts, d, expr->items[d + 1]);
    if (map && d >= lead) add_part(lower, &parts, d, lower_map_coordinate(lower, map, d - lead), NUMBER_S32);
  }
  merge_parts(lower, &parts);
  set_address(lower, access, base, &parts);
  for (unsigned d = 0; d < tensor->rank; d++) {
    if (always_inside(lower, expr->items[d + 1], d >= lead ? extent[d - lead] : 1, tensor->dims[d])) continue;
    set_bound(lower, access, &parts, d);
    set_range(lower, access, expr->items[d + 1], map, d);
  }
  return true;
}

static LowerAddress units_at(Lower *lower, const LowerAccess *access, const unsigned *constant)
{
  LowerAddress address = {access->address, access->offset};
  unsigned lead = access->rank - access->tile_rank, bytes = unit_bytes(access->tensor);
  for (unsigned d = 0; d < access->tile_rank; d++) {
    int64_t stride;
    if (!constant[d]) continue;
    if (lower_is_int(access->stride[lead + d], &stride)) {
      address.offset += (int64_t)constant[d] * stride * bytes;
      continue;
    }
    address.base = advance(lower, address.base, lower_int(lower, constant[d]), NUMBER_S32,
                           access->stride[lead + d], access->stride_type[lead + d], bytes);
  }
  if (ABS(address.offset) > G_MAXINT32 / 4) { /* beyond what an address may carry */
    address.base = lower_add(lower, NUMBER_U64, address.base, lower_int(lower, address.offset));
    address.offset = 0;
  }
  return address;
}

/* Elements before one, but for whole bytes that are constant. */
static IrExpr *elements_before(Lower *lower, const LowerAddress *units)
{
  return units->offset % 2 ? lower_add(lower, NUMBER_S64, units->base, lower_int(lower, 1)) : units->base;
}

LowerAddress lower_access_at(Lower *lower, const LowerAccess *access, const unsigned *constant)
{
  LowerAddress units = units_at(lower, access, constant);
  if (!access->start) return units;
  IrExpr *bytes = lower_shr(lower, NUMBER_S64, elements_before(lower, &units), 1);
  return (LowerAddress){lower_add(lower, NUMBER_U64, access->start, bytes), units.offset / 2};
}

/* Where in its byte an element begins that so many lie before. */
static IrExpr *bit_of(Lower *lower, NumberType type, IrExpr *before)
{
  LowerScalar odd = {lower_bits(lower, OP_AND, type, before, lower_int(lower, 1)), type};
  return lower_shl(lower, NUMBER_S32, lower_as(lower, odd, NUMBER_S32), 2);
}

IrExpr *lower_access_bit(Lower *lower, const LowerAccess *access, const unsigned *constant)
{
  LowerAddress units = units_at(lower, access, constant);
  return bit_of(lower, NUMBER_S64, elements_before(lower, &units));
}

/* Do `n` elements from so many behind a dimension's coordinate on lie below its bound? NULL: always. */
static IrExpr *lies_below(Lower *lower, const LowerAccess *access, unsigned d, int64_t c, int64_t n)
{
  IrExpr *bound = access->bound[d];
  NumberType type = bound->kind == EXPR_VALUE ? bound->value->type.element : NUMBER_S32;
  int64_t known;
  if (access->ranged[d] && lower_is_int(bound, &known) && access->most[d] + c + n <= known) return NULL;
  IrExpr *limit = lower_sub(lower, type, bound, lower_int(lower, c + n - 1)); /* the same for all threads */
  return lower_compare(lower, OP_LT, access->coordinate[d], limit);
}

/* Do they begin at 0 or behind? */
static IrExpr *begins(Lower *lower, const LowerAccess *access, unsigned d, int64_t c)
{
  if (!access->from_below[d] || (access->ranged[d] && access->least[d] + c >= 0)) return NULL;
  return lower_compare(lower, OP_GE, access->coordinate[d], lower_int(lower, -c));
}

static IrExpr *inside_dims(Lower *lower, const LowerAccess *access, const unsigned *constant, unsigned dims)
{
  IrExpr *inside = NULL;
  unsigned lead = access->rank - access->tile_rank;
  for (unsigned d = 0; d < dims; d++) {
    if (!access->coordinate[d]) continue;
    int64_t c = d >= lead ? constant[d - lead] : 0;
    inside = lower_and(lower, inside, lies_below(lower, access, d, c, 1));
    inside = lower_and(lower, inside, begins(lower, access, d, c));
  }
  return inside;
}

IrExpr *lower_access_inside(Lower *lower, const LowerAccess *access, const unsigned *constant)
{
  return inside_dims(lower, access, constant, access->rank);
}

void lower_access_edge(Lower *lower, LowerEdge *edge)
{
  const LowerAccess *access = edge->access;
  unsigned last = access->rank - 1;
  int64_t c = edge->at[access->tile_rank - 1], n = edge->count;
  IrExpr *rows = inside_dims(lower, access, edge->at, last), *low = NULL, *high = NULL;
  edge->whole = rows;
  if (access->coordinate[last]) {
    low = begins(lower, access, last, c);
    high = lies_below(lower, access, last, c, n);
  }
  if (!low && !high) return;
  IrExpr *whole = lower_and(lower, low, high), *some = low;
  if (low && !edge->even) some = begins(lower, access, last, c + n - 1);
  if (high) some = lower_and(lower, some, lies_below(lower, access, last, c, 1));
  edge->whole = lower_and(lower, rows, whole);
  if (high || !edge->even)
    edge->part = lower_and(lower, rows, lower_and(lower, some, lower_not(lower, whole)));
}

IrExpr *lower_edge_inside(Lower *lower, const LowerEdge *edge, unsigned element)
{
  const LowerAccess *access = edge->access;
  unsigned last = access->rank - 1;
  int64_t c = (int64_t)edge->at[access->tile_rank - 1] + element;
  return lower_and(lower, begins(lower, access, last, c), lies_below(lower, access, last, c, 1));
}

/* ---- Tiles ---- */

/* A run of registers that are one access. */
typedef struct Group {
  const unsigned *reg;
  const unsigned *at; /* coordinates of the first */
} Group;

typedef struct Groups {
  Group *group;
  unsigned n, width;
} Groups;

/* The same along the rows, of registers that need not follow one another. */
static Groups make_column_groups(Lower *lower, const Layout *layout, NumberType element, unsigned width)
{
  unsigned n = layout_registers(layout), count = 0;
  width = MIN(width, MIN(layout_side_by_side(layout, 0), number_elements(element, 16)));
  unsigned *reg = arena_new_array(lower->arena, unsigned, n);
  Groups groups = {arena_new_array(lower->arena, Group, n / width), n / width, width};
  const unsigned *at = lower_registers(lower, layout);
  for (unsigned r = 0; r < n; r++) {
    const unsigned *here = at + (size_t)r * LAYOUT_MAX_DIMS;
    if (here[0] % width) continue;
    for (unsigned i = 0; i < width; i++)
      reg[(size_t)count * width + i] = lower_register_at(lower, layout, here[0] + i, here[1]);
    groups.group[count] = (Group){reg + (size_t)count * width, here};
    count++;
  }
  groups.n = count;
  return groups;
}

/* Splits registers into accesses of `width` elements contiguous along the last dimension, or, `columns`,
 * along the one before it; at most 16 bytes. */
static Groups make_groups(Lower *lower, const Layout *layout, NumberType element, unsigned width,
                          bool columns)
{
  if (columns && width > 1) return make_column_groups(lower, layout, element, width);
  unsigned n = layout_registers(layout), last = layout->rank ? layout->rank - 1 : 0;
  width = MIN(width, MIN(layout_vector(layout, last), number_elements(element, 16)));
  while (n % width)
    width /= 2;
  unsigned *reg = arena_new_array(lower->arena, unsigned, n);
  Groups groups = {arena_new_array(lower->arena, Group, n / width), n / width, width};
  const unsigned *at = lower_registers(lower, layout);
  for (unsigned r = 0; r < n; r++)
    reg[r] = r;
  for (unsigned g = 0; g < groups.n; g++)
    groups.group[g] = (Group){reg + (size_t)g * width, at + (size_t)g * width * LAYOUT_MAX_DIMS};
  return groups;
}

/* `where` spread over the registers, or NULL; accesses shrink to single elements if it differs within one. */
static IrExpr **spread_mask(Lower *lower, const IrOp *op, const Layout *layout, unsigned *width)
{
  const IrExpr *where = ir_attribute_value(op, ATTR_WHERE);
  if (!where) return NULL;
  IrExpr **mask = lower_spread(lower, where, layout, NUMBER_BOOL);
  unsigned n = layout_registers(layout);
  for (unsigned r = 0; r < n; r++)
    if (*width > 1 && mask[r] != mask[r - r % *width] && !ir_expr_equal(mask[r], mask[r - r % *width]))
      *width = 1;
  return mask;
}

static bool is_never(IrExpr *predicate)
{
  int64_t constant;
  return predicate && lower_is_int(predicate, &constant) && !constant;
}

static const unsigned *extents_of(const Layout *layout)
{
  return layout->extent;
}

static bool has_unit_stride(const LowerAccess *access, unsigned dim)
{
  int64_t stride = 0;
  return lower_is_int(access->stride[dim], &stride) && stride == 1;
}

/* Elements of an access; `columns`: they lie along the rows of the tile. */
static unsigned access_width(const IrOp *op, const LowerAccess *access, bool *columns)
{
  *columns = false;
  if (access->rank && !has_unit_stride(access, access->rank - 1)) {
    *columns =
        access->tile_rank == 2 && !ir_attribute(op, ATTR_WHERE) && has_unit_stride(access, access->rank - 2);
    if (!*columns) return 1;
  }
  return (unsigned)MAX(1, ir_attribute_int(op, ATTR_VECTOR, 1));
}

IrExpr *lower_fill_of(Lower *lower, const IrOp *op)
{
  IrExpr *fill = ir_attribute_value(op, ATTR_FILL);
  if (fill && fill->kind == EXPR_UNARY && fill->operator_ == OPERATOR_NEG)
    fill = fill->items[0]->kind == EXPR_INT ? lower_int(lower, -fill->items[0]->integer)
                                            : ir_float(lower->module, -fill->items[0]->number);
  if (fill && fill->kind != EXPR_INT && fill->kind != EXPR_FLOAT)
    lower_fail(lower, ERROR_UNSUPPORTED, "fill", NULL, "fill takes a constant");
  return fill;
}

/* One element of 4 bits, of which the byte was loaded. */
static void pick_quarter(Lower *lower, const LowerAccess *access, const unsigned *constant, LowerTile *tile,
                         unsigned reg)
{
  if (!access->start || !tile->reg[reg] || tile->reg[reg]->kind == EXPR_INT) return;
  tile->reg[reg] =
      lower_quarter(lower, tile->reg[reg], tile->element, lower_access_bit(lower, access, constant));
}

static void load_scalar(Lower *lower, IrOp *op)
{
  static const unsigned none[LAYOUT_MAX_DIMS] = {0};
  LowerAccess access;
  NumberType element = op->results[0]->type.element;
  if (!lower_access_open(lower, op->operands[0], NULL, 0, none, &access)) return;
  LowerTile tile = {.element = element, .n = 1, .reg = arena_new_array(lower->arena, IrExpr *, 1)};
  unsigned reg = 0;
  lower_load_vector(lower, OP_LOAD_GLOBAL, lower_access_at(lower, &access, none), &tile, &reg, 1,
                    lower_access_inside(lower, &access, none), lower_fill_of(lower, op),
                    ir_attribute_value(op, ATTR_CACHE));
  pick_quarter(lower, &access, none, &tile, 0);
  g_hash_table_insert(lower->scalars, op->results[0], tile.reg[0]);
}

/* Rows that begin and end within vectors: these are whole but for the first and the last ones. */
static bool has_edges(const IrOp *op)
{
  return ir_attribute_int(op, ATTR_ALIGNED, 1) > 1;
}

static LowerEdge *make_edges(Lower *lower, const LowerAccess *access, const Groups *groups, bool even)
{
  LowerEdge *edges = arena_new_array(lower->arena, LowerEdge, groups->n);
  for (unsigned g = 0; g < groups->n; g++) {
    const Group *group = &groups->group[g];
    edges[g] = (LowerEdge){
        .access = access, .at = group->at, .reg = group->reg, .count = groups->width, .even = even};
    edges[g].address = lower_access_at(lower, access, group->at);
    lower_access_edge(lower, &edges[g]);
  }
  return edges;
}

/* false: threads have no vectors of it, or others than those that are put together. */
static bool load_edges(Lower *lower, IrOp *op, LowerAccess *access, const Groups *groups, LowerTile *tile)
{
  LowerAccess pair[2];
  LowerEdge *edges[2], *own = groups->width > 1 ? make_edges(lower, access, groups, false) : NULL;
  if (own && !ir_attribute(op, ATTR_LEAD)) lower_load_edges(lower, op, tile, groups->n, own);
  if (!own || !ir_attribute(op, ATTR_LEAD)) return own != NULL;
  if (groups->width != (unsigned)ir_attribute_int(op, ATTR_ALIGNED, 1)) return false;
  for (unsigned i = 0; i < 2 && !lower->failed; i++) {
    IrExpr *corner = lower_slid_corner(lower, op, i * groups->width);
    LowerMap map = lower_map_of(tile->layout);
    if (!lower_access_open(lower, corner, &map, access->tile_rank, extents_of(tile->layout), &pair[i]))
      return true;
    edges[i] = make_edges(lower, &pair[i], groups, lower_slides_one_row(op));
  }
  lower_load_slid(lower, op, tile, groups->n, edges, own);
  return true;
}

void lower_load(Lower *lower, IrOp *op)
{
  IrValue *result = op->results[0];
  if (result->type.kind != TYPE_TILE) {
    load_scalar(lower, op);
    return;
  }
  LowerTile *tile = lower_tile_new(lower, result->type.element, result->type.layout);
  LowerMap map = lower_map_of(tile->layout);
  LowerAccess access;
  if (!lower_access_open(lower, op->operands[0], &map, tile->layout->rank, extents_of(tile->layout), &access))
    return;
  bool columns;
  unsigned width = access_width(op, &access, &columns);
  IrExpr **mask = spread_mask(lower, op, tile->layout, &width);
  IrExpr *fill = lower_fill_of(lower, op);
  Groups groups = make_groups(lower, tile->layout, tile->element, width, columns);
  if (has_edges(op) && load_edges(lower, op, &access, &groups, tile)) {
    lower_tile_bind(lower, result, tile);
    return;
  }
  if (has_edges(op)) groups = make_groups(lower, tile->layout, tile->element, 1, false);
  for (unsigned g = 0; g < groups.n && !lower->failed; g++) {
    const Group *group = &groups.group[g];
    IrExpr *inside = lower_access_inside(lower, &access, group->at);
    if (mask) inside = lower_and(lower, inside, mask[group->reg[0]]);
    LowerAddress address = lower_access_at(lower, &access, group->at);
    lower_load_vector(lower, OP_LOAD_GLOBAL, address, tile, group->reg, groups.width, inside, fill,
                      ir_attribute_value(op, ATTR_CACHE));
    if (groups.width == 1) pick_quarter(lower, &access, group->at, tile, group->reg[0]);
  }
  lower_tile_bind(lower, result, tile);
}

void lower_store_tile(Lower *lower, IrOp *op, const IrExpr *corner, LowerTile *tile)
{
  LowerMap map = lower_map_of(tile->layout);
  LowerAccess access;
  if (!lower_access_open(lower, corner, &map, tile->layout->rank, extents_of(tile->layout), &access)) return;
  bool columns;
  unsigned width = access_width(op, &access, &columns);
  IrExpr **mask = spread_mask(lower, op, tile->layout, &width);
  IrExpr *owner = lower_map_owner(lower, tile->layout);
  Groups groups = make_groups(lower, tile->layout, tile->element, width, columns);
  if (has_edges(op) && groups.width > 1) {
    lower_store_edges(lower, op, tile, groups.n, make_edges(lower, &access, &groups, false), owner);
    return;
  }
  for (unsigned g = 0; g < groups.n && !lower->failed; g++) {
    const Group *group = &groups.group[g];
    IrExpr *inside = lower_and(lower, owner, lower_access_inside(lower, &access, group->at));
    if (mask) inside = lower_and(lower, inside, mask[group->reg[0]]);
    if (is_never(inside)) continue;
    LowerAddress address = lower_access_at(lower, &access, group->at);
    lower_store_vector(lower, OP_STORE_GLOBAL, address, tile, group->reg, groups.width, inside,
                       ir_attribute_value(op, ATTR_CACHE));
  }
}

void lower_store(Lower *lower, IrOp *op)
{
  LowerTile *tile = lower_tile(lower, op->operands[1]);
  if (tile) lower_store_tile(lower, op, op->operands[0], tile);
}

/* ---- Gather and scatter ---- */

typedef struct Scattered {
  const IrType *tensor;
  IrExpr *base;    /* tensor + the thread's column */
  IrExpr **offset; /* for each register: elements */
  NumberType offset_type;
  IrExpr *column; /* of elements of 4 bits, which `base` leaves out; else NULL */
} Scattered;

static bool open_scattered(Lower *lower, const IrExpr *tensor, const IrExpr *offset, const Layout *layout,
                           Scattered *scattered)
{
  const IrExpr *base = tensor->kind == EXPR_INDEX ? tensor->items[0] : tensor;
  if (base->kind != EXPR_VALUE || base->value->type.kind != TYPE_TENSOR) {
    lower_fail(lower, ERROR_INPUT, "tensor-access", NULL, "'%s' is no tensor",
               ir_expr_text(lower->module, tensor));
    return false;
  }
  IrType type = ir_expr_type(lower->kernel, offset);
  scattered->tensor = &base->value->type;
  scattered->offset_type = type.kind == TYPE_TILE ? type.element : lower_expr(lower, offset).type;
  scattered->offset = lower_spread(lower, offset, layout, scattered->offset_type);
  LowerMap map = lower_map_of(layout);
  IrExpr *column = lower_map_coordinate(lower, &map, layout->rank - 1);
  IrExpr *address =
      lower_scalar(lower, OP_ADDRESS, ir_scalar(NUMBER_U64), base->value->name, 1, (IrExpr *)base);
  const bool packed = number_is_packed(scattered->tensor->element);
  scattered->column = packed ? column : NULL;
  scattered->base = packed ? address
                           : lower_mad_wide(lower, column, lower_int(lower, unit_bytes(scattered->tensor)),
                                            address, NUMBER_U64);
  return true;
}

/* Elements of 4 bits before one, but for whole bytes that are constant. */
static IrExpr *scattered_before(Lower *lower, const Scattered *scattered, unsigned reg, unsigned column)
{
  LowerScalar own = {scattered->column, NUMBER_S32};
  IrExpr *before = lower_as(lower, own, scattered->offset_type);
  before = lower_add(lower, scattered->offset_type, scattered->offset[reg], before);
  return lower_add(lower, scattered->offset_type, before, lower_int(lower, column % 2));
}

/* What a register is known to hold. */
static bool holds_constant(const IrExpr *x, int64_t *value)
{
  int64_t a, b = 0;
  if (ir_expr_is_int(x, value)) return true;
  const IrOp *def = x->kind == EXPR_VALUE && !x->value->variable ? x->value->def : NULL;
  if (!def || !def->n_operands || ir_attribute(def, ATTR_WHEN)) return false;
  if (number_class(x->value->type.element) == NUMBER_FLOAT || !holds_constant(def->operands[0], &a))
    return false;
  if (def->n_operands > 1 && !holds_constant(def->operands[1], &b)) return false;
  switch ((unsigned)def->code) {
  case OP_MOVE:
  case OP_CAST: *value = a; return true;
  case OP_ADD: *value = a + b; return true;
  case OP_MUL: return !__builtin_mul_overflow(a, b, value);
  default: return false;
  }
}

/* Constants that were added to an offset, which is taken not to overflow where it is widened, are the access's: *elements. What is
 * left is shared by all accesses that differ by them. */
static IrExpr *without_constants(IrExpr *offset, int64_t *elements)
{
  int64_t more;
  *elements = 0;
  for (;;) {
    const IrOp *def = offset->kind == EXPR_VALUE && !offset->value->variable ? offset->value->def : NULL;
    bool adds = def && def->code == OP_ADD && !ir_attribute(def, ATTR_WHEN);
    if (!adds || !holds_constant(def->operands[1], &more) || ABS(*elements + more) > DISPLACED_MOST)
      return offset;
    *elements += more;
    offset = def->operands[0];
  }
}

/* Offsets are register values, not coordinates: their arithmetic stays in place and is shared by equal
 * offsets. */
static LowerAddress scattered_at(Lower *lower, const Scattered *scattered, unsigned reg, unsigned column)
{
  unsigned bytes = unit_bytes(scattered->tensor);
  if (scattered->column) {
    IrExpr *byte =
        lower_shr(lower, scattered->offset_type, scattered_before(lower, scattered, reg, column), 1);
    return (LowerAddress){
        advance(lower, scattered->base, byte, scattered->offset_type, lower_int(lower, 1), NUMBER_S32, 1),
        column / 2};
  }
  int64_t displaced = 0;
  IrExpr *offset = scattered->offset[reg];
  offset = without_constants(offset, &displaced);
  IrExpr *address =
      advance(lower, scattered->base, offset, scattered->offset_type, lower_int(lower, 1), NUMBER_S32, bytes);
  return (LowerAddress){address, (column + displaced) * bytes};
}

void lower_gather(Lower *lower, IrOp *op)
{
  IrValue *result = op->results[0];
  LowerTile *tile = lower_tile_new(lower, result->type.element, result->type.layout);
  Scattered scattered;
  if (!open_scattered(lower, op->operands[0], op->operands[1], tile->layout, &scattered)) return;
  unsigned width = (unsigned)MAX(1, ir_attribute_int(op, ATTR_VECTOR, 1)), last = tile->layout->rank - 1;
  IrExpr **mask = spread_mask(lower, op, tile->layout, &width);
  IrExpr *fill = lower_fill_of(lower, op);
  Groups groups = make_groups(lower, tile->layout, tile->element, width, false);
  for (unsigned g = 0; g < groups.n && !lower->failed; g++) {
    const Group *group = &groups.group[g];
    LowerAddress address = scattered_at(lower, &scattered, group->reg[0], group->at[last]);
    lower_load_vector(lower, OP_LOAD_GLOBAL, address, tile, group->reg, groups.width,
                      mask ? mask[group->reg[0]] : NULL, fill, ir_attribute_value(op, ATTR_CACHE));
    if (!scattered.column || groups.width > 1) continue;
    IrExpr *before = scattered_before(lower, &scattered, group->reg[0], group->at[last]);
    IrExpr **one = &tile->reg[group->reg[0]];
    *one = lower_quarter(lower, *one, tile->element, bit_of(lower, scattered.offset_type, before));
  }
  lower_tile_bind(lower, result, tile);
}

void lower_scatter(Lower *lower, IrOp *op)
{
  LowerTile *tile = lower_tile(lower, op->operands[2]);
  Scattered scattered;
  if (!tile || !open_scattered(lower, op->operands[0], op->operands[1], tile->layout, &scattered)) return;
  unsigned width = (unsigned)MAX(1, ir_attribute_int(op, ATTR_VECTOR, 1)), last = tile->layout->rank - 1;
  IrExpr **mask = spread_mask(lower, op, tile->layout, &width);
  IrExpr *owner = lower_map_owner(lower, tile->layout);
  Groups groups = make_groups(lower, tile->layout, tile->element, width, false);
  for (unsigned g = 0; g < groups.n && !lower->failed; g++) {
    const Group *group = &groups.group[g];
    IrExpr *inside = mask ? lower_and(lower, owner, mask[group->reg[0]]) : owner;
    if (is_never(inside)) continue;
    LowerAddress address = scattered_at(lower, &scattered, group->reg[0], group->at[last]);
    lower_store_vector(lower, OP_STORE_GLOBAL, address, tile, group->reg, groups.width, inside,
                       ir_attribute_value(op, ATTR_CACHE));
  }
}
