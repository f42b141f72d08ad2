/* split_instances: each warpgroup of a role that multiplies becomes an instance with rows of its own, or, of
 * 64 rows, columns.
 *
 * needs  STAGED from split_roles, layouts chosen
 * gives  `instances` on roles whose warpgroup MMAs several warpgroups share; their tiles have the rows (or
 *        columns) of one instance, and what they read and write of tensors and slots starts at the instance's
 *        first one
 * breaks nothing; a role with a tile or an op that is not cut so stays as it is
 *
 * Instances meet nobody but the producer, so one may store its rows while the other already multiplies for
 * the next tile: the ring of slots lets them drift apart, and the tensor cores stay busy. Named barriers
 * behind it need the threads of one warpgroup, not of all. */
#include "ir/facts.h"
#include "ir/mechanism.h"
#include "ir/pass.h"
#include "ir/passes/division.h"

typedef struct {
  IrModule *module;
  IrOp *role, *product;
  int64_t m, n;          /* the accumulator's extents */
  int64_t rows, columns; /* of an instance */
  unsigned cut;          /* the dimension that is divided: rows (0) or columns (1) */
  unsigned instances;
  const Layout *layout; /* accumulator of one instance */
  bool possible;
} Instances;

static void find_product(IrOp *op, void *data)
{
  Instances *split = data;
  if (ir_is_grouped_product(op) && !split->product) split->product = op;
}

/* Does a tile lie as the sum of all instances does, in a part of its columns or in a slice of it? */
static bool lies_as_sum(const Instances *split, const IrType *type)
{
  Arena *arena = split->module->arena;
  const Layout *whole = split->product->operands[0]->value->type.layout;
  unsigned rows = (unsigned)ir_tile_extent(type, 0), columns = (unsigned)ir_tile_extent(type, 1);
  unsigned part[2] = {(unsigned)split->m, columns};
  if (whole && columns != split->n && columns != 1) whole = layout_part(arena, whole, part);
  if (!whole || !type->layout) return true;
  if (rows == 1 && split->m != 1) whole = layout_slice(arena, whole, 1);
  if (columns == 1 && split->n != 1) whole = layout_slice(arena, whole, 0);
  return layout_same_threads(type->layout, whole);
}

/* Tiles may be the accumulator's shape, some columns of it where rows are divided, or a row, a column or one
 * element of these. */
static bool can_be_cut(const Instances *split, const IrType *type)
{
  if (type->rank != 2 || !lies_as_sum(split, type)) return false;
  int64_t rows = ir_tile_extent(type, 0), columns = ir_tile_extent(type, 1);
  if (split->cut) return (rows == split->m || rows == 1) && (columns == split->n || columns == 1);
  unsigned part[2] = {(unsigned)split->rows, (unsigned)columns};
  return (rows == split->m || rows == 1) &&
         (columns == 1 || layout_part(split->module->arena, split->layout, part));
}

static bool has_corner(const IrExpr *access)
{
  return access->kind == EXPR_INDEX && access->n >= 3;
}

static bool is_part(const IrExpr *operand)
{
  return operand->kind == EXPR_INDEX && operand->n == 3 && operand->items[0]->kind == EXPR_VALUE &&
         operand->items[0]->value->type.kind == TYPE_TILE;
}

/* The product's operand in registers, to which a tile of the accumulator's rows is converted. */
static const Layout *operand_layout(const Instances *split, const IrType *type, int64_t rows,
                                    unsigned warpgroups)
{
  Arena *arena = split->module->arena;
  unsigned k = (unsigned)ir_tile_extent(type, 1);
  if (layout_is_paired_operand(type->layout))
    return layout_group_a_paired(arena, type->element, (unsigned)rows, k, warpgroups);
  return layout_group_a(arena, type->element, (unsigned)rows, k, warpgroups);
}

static bool is_operand(const Instances *split, const IrOp *convert)
{
  const IrType *type = &convert->results[0]->type;
  if (type->rank != 2 || ir_tile_extent(type, 0) != split->m || !type->layout) return false;
  const Layout *layout = operand_layout(split, type, split->m, split->instances);
  return layout && layout_equal(layout, type->layout);
}

/* Can the op be taken by instances? */
static void check_op(IrOp *op, void *data)
{
  Instances *split = data;
  for (unsigned i = 0; i < op->n_results; i++)
    if (op->results[i]->type.kind == TYPE_TILE && !can_be_cut(split, &op->results[i]->type))
      split->possible = false;
  for (unsigned i = 0; split->cut && i < op->n_operands; i++)
    if (is_part(op->operands[i])) split->possible = false;
  switch (op->code) {
  case OP_MMA:
    if (!ir_is_grouped_product(op) || op->operands[0]->kind != EXPR_VALUE ||
        !can_be_cut(split, &op->operands[0]->value->type))
      split->possible = false;
    break;
  case OP_STORE_REDUCED:                     /* of all columns */
    if (split->cut) split->possible = false; /* fall through */
  case OP_LOAD:
  case OP_STORE: /* a number is the same for all instances */
    if (op->n_results && op->results[0]->type.kind == TYPE_SCALAR) break;
    if (!has_corner(op->operands[0])) split->possible = false;
    break;
  case OP_CONVERT:
    if (split->cut || !is_operand(split, op)) split->possible = false;
    break;
  case OP_REDUCE:
  case OP_SCAN:
  case OP_SORT:
  case OP_PICK:
  case OP_COUNT:
    if (ir_attribute_int(op, ATTR_DIM, 0) == split->cut) split->possible = false;
    break;
  case OP_GATHER: /* by places, which are tiles that are cut themselves */
  case OP_SCATTER:
    if (split->cut && !(op->n_results && op->results[0]->type.kind == TYPE_SCALAR)) split->possible = false;
    break;
  case OP_SPREAD:
    if (op->results[0]->type.kind != TYPE_SCALAR) split->possible = false;
    break;
  case OP_GET: /* a number, and a row of all columns, are told to all */
    if (op->results[0]->type.kind != TYPE_SCALAR &&
        (split->cut || split->m == 1 || ir_tile_extent(&op->results[0]->type, 0) != 1))
      split->possible = false;
    break;
  case OP_PUT:
  case OP_SYNC:
  case OP_COPY: split->possible = false; break;
  default: break;
  }
}

static IrExpr *first_own(Instances *split)
{
  return division_begin(split->module, ir_call(split->module, "instance", 0),
                        split->cut ? split->columns : split->rows);
}

/* The instance's part of a product's operand: rows of the first, columns of the second. */
static IrExpr *own_operand(Instances *split, const IrExpr *access)
{
  IrModule *module = split->module;
  bool transposed = access->kind == EXPR_TRANSPOSED;
  IrExpr *slot = (IrExpr *)(transposed ? access->items[0] : access);
  IrType type = ir_expr_type(split->role->regions[0]->function, slot);
  unsigned own = split->cut ^ transposed; /* the slot's dimension that is divided; the other lies along k */
  IrExpr *part =
      division_part(module, slot, &type, own, first_own(split), split->cut ? split->columns : split->rows);
  return transposed ? ir_transposed(module, part) : part;
}

/* The corner of a tensor, moved to the instance's first row or column. */
static IrExpr *own_corner(Instances *split, const IrExpr *access)
{
  return division_corner(split->module, access, 2, split->cut, first_own(split));
}

static const IrType *accessed_tile(const IrOp *op)
{
  if (op->code == OP_LOAD) return &op->results[0]->type;
  return op->operands[1]->kind == EXPR_VALUE ? &op->operands[1]->value->type : NULL;
}

/* A part of a register tile's columns has the instance's rows. */
static IrExpr *own_part(Instances *split, const IrExpr *operand)
{
  IrModule *module = split->module;
  int64_t rows;
  bool part = is_part(operand) && ir_range_extent(operand->items[1], &rows) && rows == split->m;
  if (!part) return (IrExpr *)operand;
  return ir_index(module, operand->items[0], 2,
                  ir_range(module, ir_int(module, 0), ir_int(module, split->rows)), operand->items[2]);
}

/* Corners and operands, while the tiles still have all rows. */
static void move_access(IrOp *op, void *data)
{
  Instances *split = data;
  for (unsigned i = 0; i < op->n_operands; i++)
    op->operands[i] = own_part(split, op->operands[i]);
  unsigned operand = 1 + split->cut;
  if (op->code == OP_MMA && op->operands[operand]->kind != EXPR_VALUE)
    op->operands[operand] = own_operand(split, op->operands[operand]);
  if (op->code != OP_LOAD && op->code != OP_STORE && op->code != OP_STORE_REDUCED) return;
  const IrType *tile = accessed_tile(op);
  int64_t whole = split->cut ? split->n : split->m;
  if (tile && tile->kind == TYPE_TILE && ir_tile_extent(tile, split->cut) == whole)
    op->operands[0] = own_corner(split, op->operands[0]);
}

static void cut_iotas(IrRegion *region, Instances *split)
{
  for (IrOp *op = region->first; op; op = op->next) {
    for (unsigned i = 0; i < op->n_regions; i++)
      cut_iotas(op->regions[i], split);
    int64_t whole = split->cut ? split->n : split->m;
    bool along = op->code == OP_IOTA && ir_attribute_int(op, ATTR_DIM, 0) == split->cut;
    if (along && ir_tile_extent(&op->results[0]->type, split->cut) == whole)
      division_count(split->role->regions[0], op, &op->results[0]->type, first_own(split));
  }
}

static void cut_tiles(IrOp *op, void *data)
{
  Instances *split = data;
  Arena *arena = split->module->arena;
  if (op->code == OP_CONVERT) {
    IrType *type = &op->results[0]->type;
    const Layout *own = operand_layout(split, type, split->rows, 1);
    int64_t part[2] = {split->rows, ir_tile_extent(type, 1)};
    *type = ir_tile(split->module, type->element, 2, part, own);
    return;
  }
  for (unsigned i = 0; i < op->n_results; i++) {
    IrType *type = &op->results[i]->type;
    if (type->kind != TYPE_TILE) continue;
    int64_t extent[2] = {ir_tile_extent(type, 0), ir_tile_extent(type, 1)};
    const Layout *layout = split->layout;
    if (split->cut && extent[1] == split->n) extent[1] = split->columns;
    unsigned part[2] = {(unsigned)split->rows, (unsigned)extent[1]};
    if (extent[1] != 1) layout = layout_part(arena, layout, part);
    if (extent[0] != split->m) layout = layout_slice(arena, layout, 1);
    if (extent[1] == 1) layout = layout_slice(arena, layout, 0);
    if (extent[0] == split->m) extent[0] = split->rows;
    *type = ir_tile(split->module, type->element, 2, extent, layout);
  }
}

/* The accumulator of one warpgroup, whose rows lie as those of the whole do. */
static const Layout *instance_layout(const Instances *split, const IrType *acc)
{
  Arena *arena = split->module->arena;
  unsigned rows = (unsigned)split->rows, columns = (unsigned)split->columns;
  if (!ir_passes_registers(split->role->parent->function, split->product))
    return layout_group_d(arena, rows, columns, 1);
  IrType a = ir_expr_type(split->role->parent->function, split->product->operands[1]);
  return layout_group_d_across(arena, number_bytes(a.element), rows, columns, 1);
}

/* Rows of one instruction: warpgroups that share no more have columns of their own. */
static int64_t product_rows(const Instances *split)
{
  const IrFunction *kernel = split->role->parent->function;
  IrType a = ir_expr_type(kernel, split->product->operands[1]),
         b = ir_expr_type(kernel, split->product->operands[2]);
  const GpuProduct *shape = mechanism_product(ir_mechanism_of(split->product), a.element, b.element,
                                              split->product->operands[0]->value->type.element);
  return shape ? shape->m : WARPGROUP_WARPS * FRAGMENT_ROWS;
}

static void split_role(IrModule *module, const IrPassContext *context, IrOp *role)
{
  Instances split = {.module = module, .role = role, .possible = true};
  ir_region_visit(role->regions[0], find_product, &split);
  unsigned warps = ir_role_warps(role);
  if (!split.product || ir_attribute(role, ATTR_INSTANCES) || warps < 2 * WARPGROUP_WARPS ||
      warps % WARPGROUP_WARPS)
    return;
  const IrType *acc = &split.product->operands[0]->value->type;
  split.m = ir_tile_extent(acc, 0);
  split.n = ir_tile_extent(acc, 1);
  split.instances = warps / WARPGROUP_WARPS;
  split.cut = split.m == product_rows(&split);
  split.rows = split.cut ? split.m : split.m / split.instances;
  split.columns = split.cut ? split.n / split.instances : split.n;
  split.layout = instance_layout(&split, acc);
  if (!split.layout || (split.cut ? split.n : split.m) % split.instances) return;
  ir_region_visit(role->regions[0], check_op, &split);
  if (!split.possible) {
    ir_remark(context, "instances: role %s stays whole: one of its ops is not cut by %s", role->symbol,
              split.cut ? "columns" : "rows");
    return;
  }
  ir_region_visit(role->regions[0], move_access, &split);
  cut_iotas(role->regions[0], &split);
  ir_region_visit(role->regions[0], cut_tiles, &split);
  ir_attribute_set(role, ATTR_INSTANCES, ir_int(module, split.instances));
  ir_remark(context, "instances: role %s is %u warpgroups with %d %s each", role->symbol, split.instances,
            (int)(split.cut ? split.columns : split.rows), split.cut ? "columns" : "rows");
}

bool pass_split_instances(IrModule *module, const IrPassContext *context, GError **error)
{
  IrFunction *kernel = ir_kernel(module);
  if (!kernel) return true;
  for (IrOp *op = kernel->body->first; op; op = op->next)
    if (op->code == OP_ROLE) split_role(module, context, op);
  return true;
}
