/* clip_copies: at the edge of a tensor the copy engine fetches only the rows that exist.
 *
 * needs  STAGED, roles and copies final; `undefined D` on copies whose tile may hold anything where dimension
 *        D lies outside of the tensor
 * gives  a second tensor map for each such copy, whose box ends with the tensor, `edge` on the copy (where,
 *        which map); where D is contiguous, and boxes lie side by side along it, `boxes`: how many begin
 *        inside; the bytes that a slot then waits for
 * breaks nothing; a copy whose tiles all lie inside, or whose rows the blocks of a cluster divide, stays
 *
 * Rows outside of the tensor are zeros, but the copy engine still asks the second-level cache for them, as
 * often as for rows that exist, and such requests are not joined with the neighbours': a column of tiles of
 * which a fifth existed took 1.6 times as long as a whole one (docs/performance-log.md). Since the tensor's
 * size is known at launch, so is the height of its last tile: the map's box is an expression over the
 * dimensions. What the rest of the slot holds is left of an earlier step; products of it land in rows or
 * columns that no store writes. */
#include "ir/facts.h"
#include "ir/pass.h"

#define PACKED                                                                                               \
  2 /* neighbouring columns of a result that are converted together: if one exists, both are made */

typedef struct {
  IrModule *module;
  IrFunction *kernel;
  GHashTable *edges; /* MAP IrOp* -> MAP IrOp* of the tensor's last tile */
  unsigned clipped;
} Clip;

/* A copy at the edge: where it is, and what it then brings. */
typedef struct {
  IrOp *map;
  IrExpr *beyond, *rows; /* the tile ends outside; rows of it that exist */
  int64_t bytes;         /* of a row in the whole slot */
  int64_t extent;
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

/* The edge of what a copy brings, if tiles can lie across it. */
static bool find_edge(Clip *clip, const IrOp *copy, Edge *edge)
{
  IrModule *module = clip->module;
  int64_t free_dim = ir_attribute_int(copy, ATTR_UNDEFINED, -1), side;
  const IrExpr *name = ir_attribute_value(copy, ATTR_MAP), *access = copy->operands[1];
  const IrOp *slot = ir_slot_of(clip->kernel, slot_access(copy->operands[0]), NULL);
  IrOp *map = name && name->kind == EXPR_SYMBOL ? ir_symbol_find(clip->kernel, name->name) : NULL;
  if (free_dim < 0 || !slot || !map || slot->declared->rank != 2 || free_dim > 1) return false;
  unsigned d = (unsigned)free_dim;
  const IrType *tensor = &ir_access_base(access)->value->type;
  unsigned dim = tensor->rank - 2 + d;
  int64_t extent = rows_copied(copy->operands[0], d, ir_tile_extent(slot->declared, d));
  const IrExpr *box = ir_attribute_value(map, ATTR_BOX);
  IrExpr *size = tensor->dims[dim], *corner = access->items[dim + 1];
  /* one box holds all rows, and along the contiguous dimension swizzled panels stay whole */
  if (ir_contiguous_dim(tensor) == (int)dim || !ir_expr_is_int(box->items[dim], &side) || side != extent)
    return false;
  if (!is_multiple(corner, extent) || divides(clip->kernel, extent, size)) return false;
  edge->rows = rows_of_last(module, size, extent, d == 1 ? PACKED : 1);
  int64_t rows;
  if (ir_expr_is_int(edge->rows, &rows) && rows == extent) return false; /* all but one that is packed */
  edge->beyond =
      ir_binary(module, OPERATOR_GT, ir_binary(module, OPERATOR_ADD, corner, ir_int(module, extent)), size);
  edge->map = edge_map(clip, map, dim, edge->rows);
  edge->extent = extent;
  edge->bytes = ir_tile_extent(slot->declared, 1 - d) * number_bytes(slot->declared->element);
  return true;
}

/* Boxes side by side along the tensor's contiguous dimension: those that begin outside are left out. Returns
 * the bytes that a slot then lacks, or NULL. */
static IrExpr *leave_out_boxes(Clip *clip, IrOp *copy)
{
  IrModule *module = clip->module;
  int64_t free_dim = ir_attribute_int(copy, ATTR_UNDEFINED, -1), side;
  const IrExpr *name = ir_attribute_value(copy, ATTR_MAP), *access = copy->operands[1];
  const IrOp *slot = ir_slot_of(clip->kernel, slot_access(copy->operands[0]), NULL);
  IrOp *map = name && name->kind == EXPR_SYMBOL ? ir_symbol_find(clip->kernel, name->name) : NULL;
  if (free_dim < 0 || free_dim > 1 || !slot || !map || slot->declared->rank != 2) return NULL;
  unsigned d = (unsigned)free_dim;
  const IrType *tensor = &ir_access_base(access)->value->type;
  unsigned dim = tensor->rank - 2 + d;
  int64_t extent = rows_copied(copy->operands[0], d, ir_tile_extent(slot->declared, d));
  if (ir_contiguous_dim(tensor) != (int)dim ||
      !ir_expr_is_int(ir_attribute_value(map, ATTR_BOX)->items[dim], &side))
    return NULL;
  if (extent <= side || extent % side || divides(clip->kernel, extent, tensor->dims[dim])) return NULL;
  IrExpr *left =
      ir_call(module, "max", 2, ir_int(module, 1), /* a tile outside, in a cluster, takes one too */
              ir_binary(module, OPERATOR_SUB, tensor->dims[dim], access->items[dim + 1]));
  IrExpr *all = ir_int(module, extent / side);
  IrExpr *count = ir_call(module, "min", 2, all, ir_call(module, "ceil_div", 2, left, ir_int(module, side)));
  IrExpr *items[2] = {ir_int(module, free_dim), count};
  ir_attribute_set(copy, ATTR_BOXES, ir_list(module, 2, items));
  int64_t bytes = side * ir_tile_extent(slot->declared, 1 - d) * number_bytes(slot->declared->element);
  return ir_binary(module, OPERATOR_MUL, ir_binary(module, OPERATOR_SUB, all, count), ir_int(module, bytes));
}

/* The copies behind an announcement, up to the ring's next step. */
static void clip_slot(Clip *clip, IrOp *expect)
{
  IrModule *module = clip->module;
  IrExpr *bytes = ir_attribute_value(expect, ATTR_BYTES);
  for (IrOp *op = expect->next; op && op->code == OP_COPY; op = op->next) {
    Edge edge;
    IrExpr *lacking = leave_out_boxes(clip, op);
    if (lacking) {
      bytes = ir_binary(module, OPERATOR_SUB, bytes, lacking);
      clip->clipped++;
    }
    if (!find_edge(clip, op, &edge)) continue;
    IrExpr *items[2] = {edge.beyond, ir_symbol(module, edge.map->symbol)};
    ir_attribute_set(op, ATTR_EDGE, ir_list(module, 2, items));
    IrExpr *missing = ir_binary(module, OPERATOR_MUL,
                                ir_binary(module, OPERATOR_SUB, ir_int(module, edge.extent), edge.rows),
                                ir_int(module, edge.bytes));
    bytes =
        ir_binary(module, OPERATOR_SUB, bytes, ir_select(module, edge.beyond, missing, ir_int(module, 0)));
    clip->clipped++;
  }
  ir_attribute_set(expect, ATTR_BYTES, bytes);
}

static void clip_op(IrOp *op, void *data)
{
  if (op->code == OP_EXPECT) clip_slot(data, op);
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
  ir_region_visit(kernel->body, clip_op, &clip);
  ir_region_visit(kernel->body, forget_undefined, NULL);
  if (clip.clipped) ir_remark(context, "clip_copies: %u copies end with their tensor", clip.clipped);
  return true;
}
