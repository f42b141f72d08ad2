/* clip_copies: at the edge of a tensor TMA fetches only the rows that exist.
 *
 * needs  STAGED, roles and copies final; `undefined D` on copies whose tile may hold anything where dimension
 *        D lies outside of the tensor
 * gives  a second tensor map for each such copy, whose box ends with the tensor, `edge` on the copy (where,
 *        which map); where D is contiguous, and boxes lie side by side along it, `boxes`: how many begin
 *        inside; the bytes that a slot then waits for; where blocks of a cluster take tiles of their own and
 *        share copies, corners of what would lie wholly outside within the tensor
 * breaks nothing; a copy whose tiles all lie inside stays, and so do boxes of rows that a cluster's blocks
 *        divide
 *
 * Rows outside of the tensor are zeros, but TMA still asks the L2 cache for them, as
 * often as for rows that exist, and such requests are not joined with the neighbours': a column of tiles of
 * which a fifth existed took 1.6 times as long as a whole one (docs/performance-log.md). Since the tensor's
 * size is known at launch, so is the height of its last tile: the map's box is an expression over the
 * dimensions. What the rest of the slot holds is left of an earlier step; products of it land in rows or
 * columns that no store writes.
 *
 * A cluster's blocks begin and end together, so some may have tiles wholly outside. What they fetch nobody
 * uses, but it passes through the L2 cache row by row as well. They fetch the tensor's last rows
 * instead, which a neighbour asks for at the same time (1 to 2 % of such kernels). */
#include "ir/facts.h"
#include "ir/pass.h"

/* Neighbouring columns of a result that are converted together: if one exists, both are made. */
#define PACKED 2

typedef struct {
  IrModule *module;
  IrFunction *kernel;
  GHashTable *edges; /* MAP IrOp* -> MAP IrOp* of the tensor's last tile */
  bool shares;       /* blocks of a cluster share copies, but not tiles, */
  bool in_line;      /* and lie below or beside one another: only what they do not share differs in place */
  unsigned clipped;
} Clip;

/* The dimension of a copy's tile that may hold anything outside of the tensor. */
typedef struct {
  const IrType *tile; /* the slot's */
  IrOp *map;
  unsigned d, dim; /* of the tile, of the tensor */
  int64_t extent;  /* what the copy brings of the tile, */
  int64_t side;    /* and a box of it */
  IrExpr *size;    /* of the tensor */
  IrExpr *corner;
  int64_t part; /* like extent, but of what a block copies for its cluster too; 0: nobody knows */
  bool regular; /* corners are multiples of the extent */
  bool contiguous;
} Free;

/* A copy at the edge: where that is, and what it then brings. */
typedef struct {
  IrOp *map;
  IrExpr *beyond, *rows; /* the tile ends outside; rows of it that exist */
} Edge;

static bool is_multiple(const IrExpr *expr, int64_t of)
{
  int64_t value;
  if (ir_expr_is_int(expr, &value)) return value % of == 0;
  if (expr->kind == EXPR_VALUE && expr->value->def && expr->value->def->code == OP_LET)
    return is_multiple(expr->value->def->operands[0], of);
  if (expr->kind != EXPR_BINARY) return false;
  bool left = is_multiple(expr->items[0], of), right = is_multiple(expr->items[1], of);
  if (expr->operator_ == OPERATOR_MUL) return left || right;
  return expr->operator_ == OPERATOR_ADD && left && right;
}

/* Do tiles of so many rows divide a dimension, whatever its value? */
static bool divides(const IrFunction *kernel, int64_t extent, const IrExpr *size)
{
  int64_t value;
  if (ir_expr_is_int(size, &value)) return value % extent == 0;
  unsigned power = (unsigned)(extent & -extent);
  return power == extent && ir_known_multiple(kernel, size, power) == power;
}

/* Rows that a copy brings along dimension d: the whole tile's, a constant part of them, or 0: a part that the
 * blocks of a cluster each take elsewhere. */
static int64_t rows_copied(const IrExpr *destination, unsigned d, int64_t whole)
{
  const IrExpr *inside = destination->kind == EXPR_INDEX ? destination->items[0] : NULL;
  if (!inside || inside->kind != EXPR_INDEX) return whole; /* @ab.a[cursor] */
  const IrExpr *range = d + 1 < destination->n ? destination->items[d + 1] : NULL;
  int64_t low, high;
  bool constant = range && range->kind == EXPR_RANGE && ir_expr_is_int(range->items[0], &low) &&
                  ir_expr_is_int(range->items[1], &high);
  return constant ? high - low : 0;
}

/* The same, and of such a part how many rows it has; 0: nobody knows. */
static int64_t rows_of_part(const IrExpr *destination, unsigned d, int64_t whole)
{
  int64_t rows = rows_copied(destination, d, whole);
  if (rows) return rows;
  const IrExpr *range = destination->items[d + 1], *high = range->kind == EXPR_RANGE ? range->items[1] : NULL;
  bool sum = high && high->kind == EXPR_BINARY && high->operator_ == OPERATOR_ADD &&
             ir_expr_equal(high->items[0], range->items[0]);
  return sum && ir_expr_is_int(high->items[1], &rows) ? rows : 0;
}

static const IrExpr *slot_access(const IrExpr *destination)
{
  bool part = destination->kind == EXPR_INDEX && destination->items[0]->kind == EXPR_INDEX;
  return part ? destination->items[0] : destination;
}

/* The map's twin whose box has `rows` along a dimension of the tensor. */
static IrOp *edge_map(Clip *clip, IrOp *map, unsigned dim, IrExpr *rows)
{
  IrOp *edge = g_hash_table_lookup(clip->edges, map);
  if (edge) return edge;
  IrBuilder builder = ir_builder_before(map->next);
  builder.mark = map->mark;
  edge = ir_emit(&builder, OP_MAP, 1, map->operands[0]);
  edge->symbol = arena_printf(clip->module->arena, "%s_edge", map->symbol);
  const IrExpr *box = ir_attribute_value(map, ATTR_BOX);
  IrExpr *sides[IR_MAX_RANK];
  for (unsigned d = 0; d < box->n; d++)
    sides[d] = d == dim ? rows : box->items[d];
  ir_attribute_set(edge, ATTR_BOX, ir_list(clip->module, box->n, sides));
  ir_attribute_set(edge, ATTR_SWIZZLE, ir_attribute_value(map, ATTR_SWIZZLE));
  if (ir_attribute(map, ATTR_MODE)) ir_attribute_set(edge, ATTR_MODE, ir_attribute_value(map, ATTR_MODE));
  g_hash_table_insert(clip->edges, map, edge);
  return edge;
}

/* What a tile at the end of a dimension has of it, 1 to extent (also of an empty dimension), and then so many
 * more that `together` divides it. */
static IrExpr *rows_of_last(IrModule *module, IrExpr *size, int64_t extent, int64_t together)
{
  IrExpr *last =
      ir_binary(module, OPERATOR_MOD, ir_binary(module, OPERATOR_ADD, size, ir_int(module, extent - 1)),
                ir_int(module, extent));
  if (together == 1) return ir_binary(module, OPERATOR_ADD, last, ir_int(module, 1));
  IrExpr *groups = ir_binary(module, OPERATOR_DIV, last, ir_int(module, together));
  return ir_binary(module, OPERATOR_ADD, ir_binary(module, OPERATOR_MUL, groups, ir_int(module, together)),
                   ir_int(module, together));
}

/* False where nothing is undefined. */
static bool find_free(const Clip *clip, const IrOp *copy, Free *found)
{
  int64_t d = ir_attribute_int(copy, ATTR_UNDEFINED, -1);
  const IrExpr *name = ir_attribute_value(copy, ATTR_MAP), *access = copy->operands[1];
  const IrOp *slot = ir_slot_of(clip->kernel, slot_access(copy->operands[0]), NULL);
  found->map = name && name->kind == EXPR_SYMBOL ? ir_symbol_find(clip->kernel, name->name) : NULL;
  if (d < 0 || d > 1 || !slot || slot->declared->rank != 2 || !found->map) return false;
  const IrType *tensor = &ir_access_base(access)->value->type;
  found->tile = slot->declared;
  found->d = (unsigned)d;
  found->dim = tensor->rank - 2 + found->d;
  found->extent = rows_copied(copy->operands[0], found->d, ir_tile_extent(found->tile, found->d));
  found->size = tensor->dims[found->dim];
  found->corner = access->items[found->dim + 1];
  found->part = rows_of_part(copy->operands[0], found->d, ir_tile_extent(found->tile, found->d));
  found->regular = found->extent > 0 && is_multiple(found->corner, found->extent);
  found->contiguous = ir_contiguous_dim(tensor) == (int)found->dim;
  const IrExpr *box = ir_attribute_value(found->map, ATTR_BOX);
  return ir_expr_is_int(box->items[found->dim], &found->side);
}

/* Is all brought at once, and may a tile end outside? */
static bool may_end_outside(const Clip *clip, const Free *found)
{
  return found->extent > 0 && !divides(clip->kernel, found->extent, found->size);
}

/* Rows wholly outside, of a tile or of the part of one that a block copies for its cluster, become the
 * tensor's last ones, as far as the copy goes. */
static void stay_inside(const Clip *clip, IrOp *copy, Free *found)
{
  IrModule *module = clip->module;
  const IrExpr *access = copy->operands[1];
  IrExpr *sides[IR_MAX_RANK];
  if (!found->part || !is_multiple(found->corner, found->part)) return;
  IrExpr *parts = ir_call(module, "ceil_div", 2, found->size, ir_int(module, found->part));
  IrExpr *last = ir_binary(module, OPERATOR_MUL, ir_binary(module, OPERATOR_SUB, parts, ir_int(module, 1)),
                           ir_int(module, found->part));
  found->corner = ir_call(module, "min", 2, found->corner, last);
  for (unsigned i = 1; i < access->n; i++)
    sides[i - 1] = i == found->dim + 1 ? found->corner : access->items[i];
  copy->operands[1] = ir_index_array(module, access->items[0], access->n - 1, sides);
}

/* Of the slot's tile, for each element along the free dimension. */
static int64_t row_bytes(const Free *found)
{
  return (int64_t)number_bytes_of(found->tile->element, (uint64_t)ir_tile_extent(found->tile, 1 - found->d));
}

/* The edge of what a copy brings in one box, as along all but the contiguous dimension, whose panels stay
 * whole. Returns the bytes that a slot then lacks, or NULL. */
static IrExpr *end_with_tensor(Clip *clip, IrOp *copy, const Free *found)
{
  IrModule *module = clip->module;
  int64_t rows;
  if (found->contiguous || found->side != found->extent || !found->regular) return NULL;
  IrExpr *extent = ir_int(module, found->extent);
  Edge edge = {.rows = rows_of_last(module, found->size, found->extent, found->d == 1 ? PACKED : 1)};
  if (ir_expr_is_int(edge.rows, &rows) && rows == found->extent) return NULL; /* all but one that is packed */
  edge.beyond =
      ir_binary(module, OPERATOR_GT, ir_binary(module, OPERATOR_ADD, found->corner, extent), found->size);
  edge.map = edge_map(clip, found->map, found->dim, edge.rows);
  IrExpr *items[2] = {edge.beyond, ir_symbol(module, edge.map->symbol)};
  ir_attribute_set(copy, ATTR_EDGE, ir_list(module, 2, items));
  IrExpr *missing = ir_binary(module, OPERATOR_MUL, ir_binary(module, OPERATOR_SUB, extent, edge.rows),
                              ir_int(module, row_bytes(found)));
  return ir_select(module, edge.beyond, missing, ir_int(module, 0));
}

/* Boxes side by side along the contiguous dimension: those that begin outside are left out. Returns the bytes
 * that a slot then lacks, or NULL. */
static IrExpr *leave_out_boxes(Clip *clip, IrOp *copy, const Free *found)
{
  IrModule *module = clip->module;
  int64_t side = found->side;
  if (!found->contiguous || found->extent <= side || found->extent % side) return NULL;
  IrExpr *left =
      ir_call(module, "max", 2, ir_int(module, 1), /* a tile outside, in a cluster, takes one too */
              ir_binary(module, OPERATOR_SUB, found->size, found->corner));
  IrExpr *all = ir_int(module, found->extent / side);
  IrExpr *count = ir_call(module, "min", 2, all, ir_call(module, "ceil_div", 2, left, ir_int(module, side)));
  IrExpr *items[2] = {ir_int(module, found->d), count};
  ir_attribute_set(copy, ATTR_BOXES, ir_list(module, 2, items));
  return ir_binary(module, OPERATOR_MUL, ir_binary(module, OPERATOR_SUB, all, count),
                   ir_int(module, side * row_bytes(found)));
}

/* The copies behind an announcement, up to the ring's next step. */
static void clip_slot(Clip *clip, IrOp *expect)
{
  IrExpr *bytes = ir_attribute_value(expect, ATTR_BYTES);
  for (IrOp *op = expect->next; op && op->code == OP_COPY; op = op->next) {
    Free found;
    if (!find_free(clip, op, &found)) continue;
    int64_t whole = ir_tile_extent(found.tile, found.d);
    bool same_tile = clip->in_line && ir_attribute(op, ATTR_MULTICAST);
    bool inside = same_tile && divides(clip->kernel, whole, found.size);
    if (clip->shares && !inside) stay_inside(clip, op, &found);
    if (!may_end_outside(clip, &found)) continue;
    IrExpr *lacking =
        found.contiguous ? leave_out_boxes(clip, op, &found) : end_with_tensor(clip, op, &found);
    if (!lacking) continue;
    bytes = ir_binary(clip->module, OPERATOR_SUB, bytes, lacking);
    clip->clipped++;
  }
  ir_attribute_set(expect, ATTR_BYTES, bytes);
}

static void clip_op(IrOp *op, void *data)
{
  if (op->code == OP_EXPECT) clip_slot(data, op);
}

static void look_for_sharers(IrOp *op, void *data)
{
  Clip *clip = data;
  if (op->code != OP_COPY || !ir_attribute(op, ATTR_UNDEFINED)) return;
  bool shared = ir_attribute(op, ATTR_MULTICAST);
  clip->shares |= shared;
  clip->in_line |= !shared;
}

static void forget_undefined(IrOp *op, void *data)
{
  (void)data;
  if (op->code == OP_COPY) ir_attribute_remove(op, ATTR_UNDEFINED);
}

bool pass_clip_copies(IrModule *module, const IrPassContext *context, GError **error)
{
  (void)error;
  IrFunction *kernel = ir_kernel(module);
  if (!kernel) return true;
  g_autoptr(GHashTable) edges = g_hash_table_new(NULL, NULL);
  Clip clip = {.module = module, .kernel = kernel, .edges = edges};
  ir_region_visit(kernel->body, look_for_sharers, &clip);
  ir_region_visit(kernel->body, clip_op, &clip);
  ir_region_visit(kernel->body, forget_undefined, NULL);
  if (clip.clipped) ir_remark(context, "clip_copies: %u copies end with their tensor", clip.clipped);
  return true;
}
