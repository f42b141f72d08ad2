/* choose_layouts: where every element of every tile lives.
 *
 * needs  TILE with mechanisms chosen
 * gives  a layout on each tile of a channel (rows as wide as the swizzle) and on each register tile; `warps` on warp MMAs; `vector` on loads,
 *        stores, gathers and scatters; the exchange tiles of reductions that cross warps; threads of the launch where a product decides them
 * breaks nothing
 *
 * Accumulators come first: their layout is the product instruction's (of one that keeps sums in memory of its own,
 * that of the registers in which they are read; the sum itself gets `cells`, and a `get` in front of each reader). A
 * value begins with the first of them that has its shape, a row or column vector with its slice; shapes that no product
 * fixes are spread over the block by vectors as wide as all their accesses allow. Where values of one shape want
 * different layouts, assign_layouts finds the cheapest for each and writes the conversions. Arithmetic reads what lies
 * in a slot by a `get` at the head of the `take`. */
#include "ir/counting.h"
#include "ir/facts.h"
#include "ir/mechanism.h"
#include "ir/pass.h"
#include "ir/passes/assign_layouts.h"
#include "ir/passes/crossed.h"
#include "ir/passes/every.h"
#include "ir/passes/operand_runs.h"
#include "ir/passes/place_exchanges.h"
#include "ir/passes/place_slots.h"
#include "ir/passes/place_sums.h"
#include "ir/passes/read_slots.h"
#include "ir/passes/role_graph.h"
#include "ir/passes/warp_split.h"
#include "ir/passes/whole_tiles.h"
#include "ir/resources.h"
#include "ir/sorting.h"

typedef struct {
  const IrPassContext *context;
  IrModule *module;
  IrFunction *kernel;
  GPtrArray *anchors; /* const Layout*: layouts of whole shapes */
  GPtrArray *ops;     /* IrOp*, all of the kernel in order */
  GHashTable *fixed;  /* IrValue* -> IrOp*: sums and what is cut from them, and what makes them */
  GHashTable *only;   /* IrValue*: accesses to these alone matter; NULL: all do */
  bool apart;         /* instances have whole tiles each: layouts are those of one */
  unsigned warps;     /* of warp MMAs; 0: there are none */
  TileRole part;      /* of the role at hand */
  bool whole_rows;    /* a warp has all columns of a sum: another product takes them from its registers */
  GError **error;
} Placement;

static void collect(IrOp *op, void *data)
{
  g_ptr_array_add(data, op);
}

static void extents_of(const IrType *type, unsigned *extent)
{
  for (unsigned d = 0; d < type->rank; d++)
    extent[d] = (unsigned)ir_tile_extent(type, d);
}

/* ---- Accumulators ---- */

static bool reads_registers(const IrOp *mma)
{
  return mma->operands[1]->kind == EXPR_VALUE && mma->operands[1]->value->type.kind == TYPE_TILE;
}

/* Warps of the kernel's warp MMAs. */
static void count_warps(Placement *placement)
{
  for (unsigned i = 0; i < placement->ops->len; i++) {
    const IrOp *op = placement->ops->pdata[i];
    if (op->code == OP_MMA && ir_mechanism_of(op)->accumulator == ACCUMULATOR_WARP)
      placement->whole_rows |= reads_registers(op);
  }
  placement->warps = product_warps_asked(placement->ops, placement->whole_rows);
}

static void set_threads(Placement *placement, unsigned threads)
{
  ir_launch_set(placement->kernel, ATTR_THREADS, ir_int(placement->module, threads));
}

/* Along a dimension, whose elements may be several threads'. */
static bool combines_rows(const IrOp *op)
{
  return op->code == OP_REDUCE || op->code == OP_SCAN || op->code == OP_SORT || op->code == OP_PICK ||
         op->code == OP_COUNT;
}

static unsigned operand_bytes(Placement *placement, const IrOp *mma)
{
  IrType type = ir_expr_type(placement->kernel, mma->operands[1]);
  return number_bytes(type.element);
}

/* Warpgroups that share the tile, each with some of its rows, or, where `beside` says so, of its columns. */
static const Layout *place_warpgroups(Placement *placement, IrOp *mma, unsigned m, unsigned n)
{
  Arena *arena = placement->module->arena;
  unsigned warpgroups = placement->apart ? 1 : warpgroups_of_rows(m);
  unsigned beside = placement->apart ? 1 : (unsigned)ir_attribute_int(mma, ATTR_WARPGROUPS_N, 1);
  unsigned threads = ir_mechanism_of(mma)->warps * WARP_LANES;
  bool passes_registers = ir_passes_registers(placement->kernel, mma);
  ir_attribute_remove(mma, ATTR_WARPGROUPS_N);
  if (beside > 1 && warpgroups == 1 && !passes_registers) {
    set_threads(placement, beside * threads);
    return layout_group_d_beside(arena, m, n, beside);
  }
  set_threads(placement, warpgroups * threads);
  if (passes_registers) return layout_group_d_across(arena, operand_bytes(placement, mma), m, n, warpgroups);
  return layout_group_d(arena, m, n, warpgroups);
}

static const Layout *place_warps(Placement *placement, IrOp *mma, unsigned m, unsigned n)
{
  IrModule *module = placement->module;
  WarpSplit split;
  warp_split(placement->ops, mma, placement->whole_rows, placement->warps, &split);
  IrExpr *list[3] = {ir_int(module, split.m), ir_int(module, split.n), ir_int(module, split.part)};
  ir_attribute_set(mma, ATTR_WARPS, ir_list(module, split.part < n ? 3 : 2, list));
  set_threads(placement, split.m * split.n * WARP_LANES);
  return layout_mma_c_parts(module->arena, m, n, split.m, split.n, split.part);
}

#define SIDE_BY_SIDE 4 /* columns of a thread */

static const Layout *place_threads(Placement *placement, const IrOp *mma, unsigned m, unsigned n)
{
  unsigned tm = m >= 128 ? 8 : 4, tn = n >= 128 ? 8 : 4; /* 256 threads on 128 x 128 and on 64 x 64 */
  set_threads(placement, (m / tm) * (n / tn));
  /* neighbouring threads read neighbouring rows of k, or neighbouring vectors of columns: but where a sum's columns are cut, each
   * has some of every part */
  const IrOp *b = ir_slot_of(placement->kernel, mma->operands[2], NULL);
  bool along_k = b && b->declared->layout && b->declared->layout->modes[0].dim == 0;
  bool apart = along_k || (tn == SIDE_BY_SIDE && product_part(placement->ops, mma->operands[0]->value) != n);
  return layout_fma_c(placement->module->arena, m, n, tm, tn, apart ? 1 : SIDE_BY_SIDE, n / tn,
                      (m / tm) * (n / tn));
}

static const Layout *place_accumulator(Placement *placement, IrOp *mma)
{
  const Mechanism *mechanism = ir_mechanism_of(mma);
  const IrType *type = &mma->operands[0]->value->type;
  unsigned m = (unsigned)ir_tile_extent(type, 0), n = (unsigned)ir_tile_extent(type, 1);
  switch (mechanism->accumulator) {
  case ACCUMULATOR_WARPGROUP: return place_warpgroups(placement, mma, m, n);
  case ACCUMULATOR_WARP: return place_warps(placement, mma, m, n);
  case ACCUMULATOR_MEMORY:
    set_threads(placement, mechanism->warps * WARP_LANES);
    return layout_rows(placement->module->arena, m, n, mechanism->warps); /* as it is read: place_sums */
  case ACCUMULATOR_THREAD: return place_threads(placement, mma, m, n);
  default: return NULL;
  }
}

/* ---- Register tiles ---- */

#define MOST_PATCH 8 /* rows and columns of what a thread has of a tile that is read along both */

/* The slice of an anchor that fits a shape, or NULL: each extent is the anchor's or 1. */
static const Layout *layout_for(Placement *placement, const IrType *type)
{
  const Layout *layout = NULL;
  for (unsigned i = 0; i < placement->anchors->len && !layout; i++)
    layout = layout_beside(placement->module->arena, placement->anchors->pdata[i], type);
  return layout;
}

/* Elements one access of the op may move at once, from what is known of its tensor. */
static unsigned access_vector(Placement *placement, const IrOp *op)
{
  const IrType *tensor = NULL;
  const IrExpr *access = op->operands[0];
  const IrExpr *base = ir_access_base(access);
  if (base->kind == EXPR_VALUE && base->value->type.kind == TYPE_TENSOR) tensor = &base->value->type;
  if (!tensor) return 1;
  if (op->code == OP_GATHER || op->code == OP_SCATTER) {
    unsigned widest = number_elements(tensor->element, 16);
    return (unsigned)CLAMP(ir_attribute_int(op, ATTR_ALIGNED, 1), 1, widest);
  }
  int64_t aligned = ir_attribute_int(op, ATTR_ALIGNED, 0);
  if (aligned > 1) return (unsigned)MIN(aligned, number_elements(tensor->element, 16));
  IrExpr *corner[IR_MAX_RANK];
  for (unsigned d = 0; d + 1 < access->n && d < IR_MAX_RANK; d++)
    corner[d] = access->items[d + 1];
  if (ir_contiguous_dim(tensor) != (int)tensor->rank - 1) return 1;
  return ir_access_vector(placement->kernel, tensor, corner, 16);
}

/* Of a tensor that is contiguous along the tile's rows: what a thread has side by side there. */
static unsigned column_vector(Placement *placement, const IrOp *op, const IrType *tile)
{
  const IrExpr *access = op->operands[0];
  const IrExpr *base = ir_access_base(access);
  if ((op->code != OP_LOAD && op->code != OP_STORE) || tile->rank != 2 || ir_attribute(op, ATTR_WHERE) ||
      base->kind != EXPR_VALUE || base->value->type.kind != TYPE_TENSOR)
    return 1;
  const IrType *tensor = &base->value->type;
  unsigned side = layout_side_by_side(tile->layout, 0);
  if (side == 1 || ir_contiguous_dim(tensor) != (int)tensor->rank - 2 || access->n != tensor->rank + 1)
    return 1;
  return MIN(side, ir_access_vector(placement->kernel, tensor, access->items + 1, side));
}

static const IrValue *accessed_value(const IrOp *op)
{
  switch (op->code) {
  case OP_LOAD:
  case OP_GATHER: return op->results[0];
  case OP_STORE_REDUCED:
  case OP_STORE: return op->operands[1]->kind == EXPR_VALUE ? op->operands[1]->value : NULL;
  case OP_SCATTER: return op->operands[2]->kind == EXPR_VALUE ? op->operands[2]->value : NULL;
  default: return NULL;
  }
}

static const IrType *accessed_tile(const IrOp *op)
{
  const IrValue *value = accessed_value(op);
  return value ? &value->type : NULL;
}

/* The same, if the tile is one of those whose accesses matter at the moment. */
static const IrType *accessed_here(const Placement *placement, const IrOp *op)
{
  const IrValue *value = accessed_value(op);
  bool here = value && (!placement->only || g_hash_table_contains(placement->only, value));
  return here ? &value->type : NULL;
}

/* Do its elements go one by one, whoever has them? Because it says so (`aligned 1`), is put together of vectors that are not the tile's, or
 * its mask differs from element to element. */
static bool goes_singly(const IrOp *op, const IrType *tile)
{
  const IrExpr *where = ir_attribute_value(op, ATTR_WHERE);
  if (ir_attribute_int(op, ATTR_ALIGNED, 0) == 1 || ir_attribute(op, ATTR_LEAD)) return true;
  if (op->code != OP_GATHER && op->code != OP_SCATTER) return false;
  if (!where || where->kind != EXPR_VALUE) return false;
  const IrType *mask = &where->value->type;
  return mask->kind == TYPE_TILE && mask->rank == tile->rank &&
         ir_tile_extent(mask, mask->rank - 1) == ir_tile_extent(tile, tile->rank - 1);
}

/* Vector width that all accesses to tiles of a shape allow. */
static unsigned shape_vector(Placement *placement, const IrType *shape)
{
  unsigned columns = (unsigned)ir_tile_extent(shape, shape->rank - 1), vector = 32; /* above any access */
  for (unsigned i = 0; i < placement->ops->len; i++) {
    const IrOp *op = placement->ops->pdata[i];
    const IrType *tile = accessed_here(placement, op);
    if (!tile || tile->rank != shape->rank || ir_tile_extent(tile, tile->rank - 1) != columns) continue;
    if (columns > 1 && goes_singly(op, tile)) continue;
    vector = MIN(vector, access_vector(placement, op));
  }
  if (vector >= 16 && columns >= 16) /* no access limits it, or there is none */
    vector = vector == 16 ? 4 : MAX(4u, every_vector(placement->ops, shape));
  while (vector > 1 && columns % vector)
    vector /= 2;
  return vector;
}

/* Elements of a vector of 16 bytes, at most MOST_PATCH, of the widest type among accesses to tiles of a
 * shape.
 * `*along`: bit 0: some of them go along the tile's rows, bit 1: along its columns. */
static unsigned patch_vector(Placement *placement, const IrType *shape, unsigned *along_dims)
{
  unsigned vector = MOST_PATCH;
  *along_dims = 0;
  for (unsigned i = 0; i < placement->ops->len; i++) {
    const IrOp *op = placement->ops->pdata[i];
    const IrType *tile = op->code == OP_LOAD || op->code == OP_STORE ? accessed_here(placement, op) : NULL;
    const IrExpr *base = tile ? ir_access_base(op->operands[0]) : NULL;
    if (!tile || tile->kind != TYPE_TILE || tile->rank != 2 || base->kind != EXPR_VALUE ||
        ir_tile_extent(tile, 0) != ir_tile_extent(shape, 0) ||
        ir_tile_extent(tile, 1) != ir_tile_extent(shape, 1))
      continue;
    int along = ir_contiguous_dim(&base->value->type) - ((int)base->value->type.rank - 2);
    if (along >= 0) *along_dims |= 1u << along;
    vector = MIN(vector, number_elements(tile->element, 16));
  }
  return vector;
}

/* Rows of such a tile that are scanned: each lane has rows of its own, in which nothing crosses lanes. NULL: there are too few. */
static const Layout *place_scanned(Placement *placement, const IrType *type, unsigned vector, unsigned warps)
{
  const unsigned rows = (unsigned)ir_tile_extent(type, 0), columns = (unsigned)ir_tile_extent(type, 1);
  bool scanned = false;
  for (unsigned i = 0; i < placement->ops->len; i++) {
    const IrOp *op = placement->ops->pdata[i];
    scanned |= op->code == OP_SCAN && ir_attribute_int(op, ATTR_DIM, 0) == 1 &&
               every_same_extents(&op->results[0]->type, type);
  }
  while (scanned && vector > 1 && vector * WARP_LANES > rows)
    vector /= 2;
  return scanned ? layout_upright(placement->module->arena, rows, columns, vector, warps) : NULL;
}

/* A tile all of whose accesses go along its rows, spread as its transpose would be: rows of a sector are worth lanes of
 * their own. NULL: it is no such tile. */
static const Layout *place_along_rows(Placement *placement, const IrType *type, unsigned vector,
                                      unsigned warps)
{
  Arena *arena = placement->module->arena;
  unsigned turned[2] = {(unsigned)ir_tile_extent(type, 1), (unsigned)ir_tile_extent(type, 0)};
  if (number_bytes_of(type->element, turned[1]) < placement->context->gpu->global_sector) return NULL;
  const Layout *upright = place_scanned(placement, type, vector, warps);
  for (; vector && !upright; vector /= 2) {
    if (turned[1] % vector) continue;
    const Layout *layout = crossed_spread(arena, 2, turned, turned[0], turned[1], vector, warps, 1);
    if (layout) return layout_transposed(arena, layout);
  }
  return upright;
}

static const Layout *place_blocked(Placement *placement, const IrType *type)
{
  int64_t threads = 0;
  IrExpr *launch = ir_launch_get(placement->kernel, ATTR_THREADS);
  if (!launch || !ir_expr_is_int(launch, &threads) || threads < WARP_LANES)
    threads = WARPGROUP_WARPS * WARP_LANES;
  set_threads(placement, (unsigned)threads);
  unsigned extent[LAYOUT_MAX_DIMS], warps = (unsigned)threads / WARP_LANES;
  extents_of(type, extent);
  unsigned along = 0, patch = type->rank == 2 ? patch_vector(placement, type, &along) : 0;
  const Layout *other = NULL;
  if (along == 3) other = layout_patches(placement->module->arena, extent[0], extent[1], patch, warps);
  if (along == 1) other = place_along_rows(placement, type, patch, warps);
  if (other) return other;
  unsigned rows = type->rank == 2 ? extent[0] : 1, columns = extent[type->rank - 1];
  unsigned every = every_most(placement->ops, type);
  for (unsigned vector = shape_vector(placement, type); vector;
       vector /= 2) { /* narrower ones spread wider */
    const Layout *layout =
        crossed_spread(placement->module->arena, type->rank, extent, rows, columns, vector, warps, every);
    if (layout) return layout;
  }
  const Layout *repeated = layout_replicated(placement->module->arena, type->rank, extent, warps);
  bool fits = repeated && layout_registers(repeated) <= placement->context->gpu->registers_per_thread;
  return fits ? repeated : NULL;
}

/* A tile of `type` lies as it does within the whole tile. */
static void place_part(Placement *placement, const IrType *type, const IrValue *of)
{
  unsigned extent[LAYOUT_MAX_DIMS];
  const Layout *whole = of->type.layout ? of->type.layout : layout_for(placement, &of->type);
  if (type->kind != TYPE_TILE || layout_for(placement, type) || type->rank != 2 || !whole) return;
  extents_of(type, extent);
  const Layout *part = layout_part(placement->module->arena, whole, extent);
  if (part) g_ptr_array_add(placement->anchors, (gpointer)part);
}

/* What a block keeps of a tile that a cluster adds up, and parts that ops take of a tile. */
static void place_parts(Placement *placement, IrOp *op)
{
  if (op->code == OP_COMBINE) place_part(placement, &op->results[0]->type, op->operands[0]->value);
  bool cuts = op->code == OP_COMBINE;
  for (unsigned i = 0; i < op->n_operands; i++) {
    const IrValue *whole = ir_cut_tile(op->operands[i]);
    IrType type = whole ? ir_expr_type(placement->kernel, op->operands[i]) : (IrType){0};
    if (whole) place_part(placement, &type, whole);
    cuts |= whole != NULL;
  }
  for (unsigned r = 0; cuts && r < op->n_results; r++)
    g_hash_table_insert(placement->fixed, op->results[r], op);
}

/* The largest tile shape that no anchor covers. */
static const IrType *largest_unplaced(Placement *placement)
{
  const IrType *largest = NULL;
  for (unsigned i = 0; i < placement->ops->len; i++) {
    IrOp *op = placement->ops->pdata[i];
    for (unsigned r = 0; r < op->n_results; r++) {
      const IrType *type = &op->results[r]->type;
      if (type->kind != TYPE_TILE || type->layout || layout_for(placement, type)) continue;
      if (!largest || ir_tile_elements(type) > ir_tile_elements(largest)) largest = type;
    }
  }
  return largest;
}

/* A tile that has one element for so many of another lies as that one does. NULL: it is none, or that one is spread
 * otherwise. */
static const Layout *place_every(Placement *placement, const IrType *type)
{
  Every every;
  const Layout *layout = NULL;
  for (unsigned i = 0; i < placement->ops->len && !layout; i++) {
    if (!every_of(placement->ops->pdata[i], &every) || !every_same_extents(every.narrow, type)) continue;
    const Layout *whole = layout_for(placement, every.wide);
    if (whole) layout = layout_every(placement->module->arena, whole, every.dim, every.n);
  }
  return layout;
}

/* The first elements of sorted rows, and places of what is picked, lie as these operations leave them. */
static const Layout *place_sorted(Placement *placement, const IrType *type)
{
  const Layout *layout = NULL;
  for (unsigned i = 0; i < placement->ops->len && !layout; i++) {
    const IrOp *op = placement->ops->pdata[i];
    if ((op->code != OP_SORT && op->code != OP_PICK) || !every_same_extents(&op->results[0]->type, type))
      continue;
    const Layout *whole = layout_for(placement, &op->operands[0]->value->type);
    unsigned dim = (unsigned)ir_attribute_int(op, ATTR_DIM, 0);
    if (whole && op->code == OP_PICK)
      layout = sorting_picked(placement->module->arena, whole, dim, (unsigned)ir_tile_extent(type, dim));
    else if (whole)
      layout = sorting_result(placement->module->arena, whole, dim, (unsigned)ir_tile_extent(type, dim),
                              (unsigned)ir_attribute_int(op, ATTR_SURVIVORS, 0));
  }
  return layout;
}

/* What names bins, each warp's elements behind one another; where nobody asks what counters were, as their accesses like it. */
static const Layout *place_counted(Placement *placement, const IrOp *op, const IrType *type)
{
  unsigned extent[LAYOUT_MAX_DIMS], warps = ir_launch_threads(placement->kernel) / WARP_LANES;
  bool asked = op->code == OP_COUNT && ir_region_uses(placement->kernel->body, op->results[0]);
  if (!asked || !every_same_extents(&op->results[0]->type, type)) return NULL;
  extents_of(type, extent);
  return counting_layout(placement->module->arena, extent, (unsigned)ir_attribute_int(op, ATTR_DIM, 0),
                         warps);
}

static bool place_registers(Placement *placement)
{
  place_turned(placement->kernel, placement->ops);
  for (const IrType *type; (type = largest_unplaced(placement));) {
    const Layout *layout = type->rank <= 2 ? place_every(placement, type) : NULL;
    if (!layout) layout = place_sorted(placement, type);
    for (unsigned i = 0; !layout && type->rank == 2 && i < placement->ops->len; i++)
      layout = place_counted(placement, placement->ops->pdata[i], type);
    if (!layout && type->rank <= 2) layout = place_blocked(placement, type);
    if (!layout) {
      error_set(placement->error, ERROR_UNSUPPORTED, &placement->kernel->mark, "tile-layout",
                "choose extents that are powers of two times the vector width",
                "a tile of kernel '%s' cannot be spread over its threads", placement->kernel->name);
      return false;
    }
    g_ptr_array_add(placement->anchors, (gpointer)layout);
  }
  for (unsigned i = 0; i < placement->ops->len; i++) {
    IrOp *op = placement->ops->pdata[i];
    for (unsigned r = 0; r < op->n_results; r++) {
      IrType *type = &op->results[r]->type;
      if (type->kind != TYPE_TILE || type->layout) continue;
      type->layout = place_counted(placement, op, type);
      if (!type->layout) type->layout = layout_for(placement, type);
    }
  }
  return true;
}

/* Does a tile lie as a product's sum does, or a part of one? */
static bool lies_as_sum(Placement *placement, const IrType *tile)
{
  GHashTableIter iterator;
  gpointer sum;
  unsigned extent[LAYOUT_MAX_DIMS];
  extents_of(tile, extent);
  g_hash_table_iter_init(&iterator, placement->fixed);
  while (g_hash_table_iter_next(&iterator, &sum, NULL)) {
    const Layout *whole = ((IrValue *)sum)->type.layout;
    const Layout *part =
        whole && whole->rank == tile->rank ? layout_part(placement->module->arena, whole, extent) : NULL;
    if (part && layout_equal(part, tile->layout)) return true;
  }
  return false;
}

static void place_accesses(Placement *placement)
{
  for (unsigned i = 0; i < placement->ops->len; i++) {
    IrOp *op = placement->ops->pdata[i];
    const IrType *tile = accessed_tile(op);
    if (!tile || !tile->layout) continue;
    if (op->code == OP_STORE && ir_attribute(op, ATTR_VIA) && !lies_as_sum(placement, tile)) {
      ir_attribute_remove(op, ATTR_VIA); /* its rows leave in wide vectors as they are */
      ir_attribute_remove(op, ATTR_OVERLAY);
    }
    unsigned vector = MIN(access_vector(placement, op), layout_vector(tile->layout, tile->rank - 1));
    vector = MAX(vector, column_vector(placement, op, tile));
    ir_attribute_set(op, ATTR_VECTOR, ir_int(placement->module, vector));
  }
}

/* A product's shape may ask for more threads than a block has. */
static bool check_threads(Placement *placement, const IrOp *mma)
{
  int64_t threads = 0;
  unsigned most = placement->context->gpu->threads_per_block;
  ir_expr_is_int(ir_launch_get(placement->kernel, ATTR_THREADS), &threads);
  if (threads <= most) return true;
  error_set(placement->error, ERROR_UNSUPPORTED, &mma->mark, "threads", "a smaller tile",
            "this product is spread over %d threads, %d more than the %u a block of %s may have",
            (int)threads, (int)threads - (int)most, most, placement->context->gpu->name);
  return false;
}

/* Fragments of a product's operand that stays in registers: 16-bit numbers that come from a sum of the same rows are there. */
static const Layout *fragments_of(Placement *placement, const IrOp *mma)
{
  const IrType *type = &mma->operands[1]->value->type;
  unsigned m = (unsigned)ir_tile_extent(type, 0);
  WarpSplit split;
  if (ir_mechanism_of(mma)->accumulator == ACCUMULATOR_WARPGROUP)
    return place_left_operand(placement->kernel, mma, warpgroups_of_rows(m));
  warp_split(placement->ops, mma, placement->whole_rows, placement->warps, &split);
  return operand_fragments(placement->kernel, mma, split.m, split.n);
}

/* ---- The kernel ---- */

static bool place_products(Placement *placement)
{
  GError **error = placement->error;
  for (unsigned i = 0; i < placement->ops->len; i++) {
    IrOp *op = placement->ops->pdata[i];
    if (op->code != OP_MMA) continue;
    IrValue *sum = op->operands[0]->value;
    const IrOp *other = g_hash_table_lookup(placement->fixed, sum);
    if (other && ir_mechanism_of(other) == ir_mechanism_of(op)) continue;
    const Layout *layout = other ? NULL : place_accumulator(placement, op);
    if (!layout) {
      if (other)
        error_set(error, ERROR_UNSUPPORTED, &op->mark, "tile-layout", NULL,
                  "products of two kinds add to this sum: %s and %s", ir_mechanism_of(other)->label,
                  ir_mechanism_of(op)->label);
      else
        error_set(error, ERROR_UNSUPPORTED, &op->mark, "tile-layout",
                  "extents that are powers of two; `align 16` and `multiple` of the tensors, where they "
                  "hold, let other "
                  "mechanisms take the product",
                  "the threads of %s cannot share a sum of %d x %d", ir_mechanism_of(op)->label,
                  (int)ir_tile_extent(&sum->type, 0), (int)ir_tile_extent(&sum->type, 1));
      return false;
    }
    if (!check_threads(placement, op)) return false;
    for (unsigned j = 0; j < placement->anchors->len; j++)
      if (layout_equal(placement->anchors->pdata[j], layout)) layout = placement->anchors->pdata[j];
    sum->type.layout = layout;
    g_hash_table_insert(placement->fixed, sum, op);
    g_ptr_array_add(placement->anchors, (gpointer)layout);
  }
  return true;
}

/* All products have the whole block, or the role, to themselves. */
static bool check_warps(Placement *placement)
{
  unsigned warps = ir_launch_threads(placement->kernel) / WARP_LANES;
  for (unsigned i = 0; i < placement->ops->len; i++) {
    const IrOp *op = placement->ops->pdata[i];
    const Layout *layout = op->code == OP_MMA ? op->operands[0]->value->type.layout : NULL;
    if (!layout || layout_size(layout, PLACE_WARP) == warps) continue;
    error_set(placement->error, ERROR_UNSUPPORTED, &op->mark, "tile-layout", "tiles of as many rows",
              "this product is spread over %u warps, another one of the kernel over %u",
              layout_size(layout, PLACE_WARP), warps);
    return false;
  }
  return true;
}

static const Layout *place_alone(void *data, GHashTable *values, const IrType *type)
{
  Placement *placement = data;
  placement->only = values;
  const Layout *layout = type->rank <= 2 ? place_blocked(placement, type) : NULL;
  placement->only = NULL;
  return layout;
}

/* Each value its own layout, where that of its shape is not the cheapest. */
static bool place_values(Placement *placement)
{
  g_autoptr(GHashTable) wanted = g_hash_table_new(NULL, NULL);
  for (unsigned i = 0; i < placement->ops->len; i++) {
    IrOp *op = placement->ops->pdata[i];
    const Layout *layout = op->code == OP_MMA && reads_registers(op) ? fragments_of(placement, op) : NULL;
    if (layout) g_hash_table_insert(wanted, op, (gpointer)layout);
  }
  crossed_place(placement->kernel, placement->ops, placement->context->gpu->shared_bank_bytes,
                placement->fixed, wanted);
  LayoutAssignment assignment = {.module = placement->module,
                                 .kernel = placement->kernel,
                                 .ops = placement->ops,
                                 .fixed = placement->fixed,
                                 .wanted = wanted,
                                 .bank = placement->context->gpu->shared_bank_bytes,
                                 .alone = place_alone,
                                 .data = placement,
                                 .error = placement->error};
  return assign_layouts(&assignment);
}

/* Instances that have whole tiles each meet nowhere. */
static bool check_meetings(Placement *placement)
{
  for (unsigned i = 0; placement->apart && i < placement->ops->len; i++) {
    const IrOp *op = placement->ops->pdata[i];
    if (op->code != OP_CONVERT || !ir_attribute(op, ATTR_EXCHANGE)) continue;
    error_set(placement->error, ERROR_UNSUPPORTED, &op->mark, "convert", "leave out `pingpong`",
              "instances with whole tiles: one changes its layout through shared memory, where the whole "
              "block meets");
    return false;
  }
  return true;
}

static void collect_all(Placement *placement)
{
  g_ptr_array_set_size(placement->ops, 0);
  ir_region_visit(placement->kernel->body, collect, placement->ops);
}

/* A layout that the text gives a tile of registers at this level is no wish. */
static void forget_layouts(Placement *placement)
{
  for (unsigned i = 0; i < placement->ops->len; i++) {
    IrOp *op = placement->ops->pdata[i];
    for (unsigned r = 0; r < op->n_results; r++)
      if (op->results[r]->type.kind == TYPE_TILE) op->results[r]->type.layout = NULL;
  }
}

/* What is at hand: a role's ops, or, where no roles are asked of the text, all of the kernel. */
static bool collect_role(Placement *placement, unsigned role)
{
  g_auto(RoleGraph) graph = {0};
  collect_all(placement);
  if (!role_graph_read(placement->kernel, &graph, placement->error)) return false;
  for (unsigned i = 0; graph.n && i < placement->ops->len;) {
    if (g_hash_table_contains(graph.nodes[role].does, placement->ops->pdata[i]))
      i++;
    else
      g_ptr_array_remove_index(placement->ops, i);
  }
  return true;
}

static bool place_role(Placement *placement, unsigned role)
{
  GPtrArray *ops = placement->ops;
  if (!collect_role(placement, role)) return false;
  g_ptr_array_set_size(placement->anchors, 0);
  g_hash_table_remove_all(placement->fixed);
  placement->warps = 0;
  placement->whole_rows = false;
  if (!whole_tiles(placement->context, placement->module, ops, placement->part, &placement->apart,
                   placement->error))
    return false;
  count_warps(placement);
  if (!place_products(placement) || !check_warps(placement)) return false;
  for (unsigned i = 0; i < ops->len; i++)
    place_parts(placement, ops->pdata[i]);
  if (!place_registers(placement) || !place_values(placement)) return false;
  if (!collect_role(placement, role)) return false;
  if (!check_meetings(placement)) return false;
  place_sums(placement->module, ops);
  place_accesses(placement);
  for (unsigned i = 0; i < ops->len; i++)
    if (combines_rows(ops->pdata[i])) place_exchange(placement->kernel, ops->pdata[i]);
  return true;
}

/* Threads of a role that computes for others: as many as its products take, else as the first channel that it fills
 * asks for, else one warpgroup. split_roles finds them at that channel. */
static bool place_filling_role(Placement *placement, const RoleNode *node, unsigned role)
{
  IrOp *channel = node->fills->pdata[0];
  int64_t asked = ir_attribute_int(channel, ATTR_THREADS, 0);
  set_threads(placement, asked ? (unsigned)asked : WARPGROUP_WARPS * WARP_LANES);
  if (!place_role(placement, role)) return false;
  unsigned threads = ir_launch_threads(placement->kernel);
  if (asked && asked != threads)
    ir_remark(placement->context, "role %s: %u threads, which its products take, not %d", channel->symbol,
              threads, (int)asked);
  ir_attribute_set(channel, ATTR_THREADS, ir_int(placement->module, threads));
  return true;
}

/* The consumer comes last: the launch's threads are its own until split_roles adds the others'. */
static bool place_roles(Placement *placement)
{
  g_auto(RoleGraph) graph = {0};
  IrExpr *threads = ir_launch_get(placement->kernel, ATTR_THREADS);
  if (!role_graph_read(placement->kernel, &graph, placement->error)) return false;
  role_graph_part(placement->kernel, &graph);
  placement->part = ROLE_FILLING;
  for (unsigned i = 0; i + 1 < graph.n; i++)
    if (!place_filling_role(placement, &graph.nodes[i], i)) return false;
  if (graph.n)
    ir_launch_set(placement->kernel, ATTR_THREADS,
                  threads ? threads : ir_int(placement->module, WARPGROUP_WARPS * WARP_LANES));
  placement->part = graph.n ? ROLE_STORING : ROLE_ONLY;
  return place_role(placement, graph.n ? graph.n - 1 : 0);
}

bool pass_choose_layouts(IrModule *module, const IrPassContext *context, GError **error)
{
  g_autoptr(GPtrArray) anchors = g_ptr_array_new();
  g_autoptr(GPtrArray) ops = g_ptr_array_new();
  g_autoptr(GHashTable) fixed = g_hash_table_new(NULL, NULL);
  Placement placement = {.context = context,
                         .module = module,
                         .kernel = ir_kernel(module),
                         .anchors = anchors,
                         .ops = ops,
                         .fixed = fixed,
                         .error = error};
  if (!placement.kernel) return true;
  collect_all(&placement);
  forget_layouts(&placement);
  if (!read_slots(placement.kernel, ops, error)) return false;
  collect_all(&placement);
  place_slots(placement.kernel, ops);
  return place_roles(&placement);
}
