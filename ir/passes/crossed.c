/* Transposed tiles whose rows begin anywhere.
 *
 * Where vectors are possible along both dimensions a thread has a patch, and nothing meets in shared memory. Of rows that begin
 * anywhere a thread would move single elements, a patch apart from its neighbour's: eight lanes for a sector each. So neighbouring
 * lanes get neighbouring elements at every access, along rows or along columns, and the tile changes its layout in between. */
#include "ir/passes/crossed.h"
#include "ir/facts.h"
#include "ir/mechanism.h"
#include "ir/resources.h"

const Layout *crossed_spread(Arena *arena, unsigned rank, const unsigned *extent, unsigned rows,
                             unsigned columns, unsigned vector, unsigned warps, unsigned whole)
{
  unsigned row_lanes = 1;
  while (row_lanes < WARP_LANES && row_lanes * 2 * vector <= columns)
    row_lanes *= 2;
  unsigned rows_of_warp = WARP_LANES / row_lanes;
  unsigned warps_for_rows = CLAMP(rows / MAX(1, rows_of_warp), 1u, warps);
  bool even = rows % rows_of_warp == 0;
  while (warps % warps_for_rows || (even && rows % (rows_of_warp * warps_for_rows)))
    warps_for_rows--;
  unsigned row_warps = warps / warps_for_rows;
  if (whole > row_lanes * vector && rank == 2)
    return layout_blocked_whole(arena, extent, vector, row_lanes, whole, row_warps, warps);
  while (row_warps > 1 && columns % (row_warps * row_lanes * vector))
    row_warps /= 2;
  return layout_blocked(arena, rank, extent, vector, row_lanes, row_warps, warps);
}

typedef struct {
  IrOp *op;
  IrValue *tile;
  unsigned along; /* dimension of the tile whose elements lie side by side */
  unsigned vector;
} Access;

/* false: no access of a whole tile of two dimensions, or of a tensor whose elements are not side by side along one of these. */
static bool read_access(const IrFunction *kernel, IrOp *op, Access *access)
{
  const IrExpr *stored = op->code == OP_STORE ? op->operands[1] : NULL;
  if ((op->code != OP_LOAD && !stored) || ir_attribute(op, ATTR_WHERE)) return false;
  if (stored && stored->kind != EXPR_VALUE) return false;
  const IrExpr *at = op->operands[0], *base = ir_access_base(at);
  *access = (Access){.op = op, .tile = stored ? stored->value : op->results[0]};
  if (access->tile->type.kind != TYPE_TILE || access->tile->type.rank != 2 || base->kind != EXPR_VALUE)
    return false;
  const IrType *tensor = &base->value->type;
  int along = tensor->kind == TYPE_TENSOR ? ir_contiguous_dim(tensor) - ((int)tensor->rank - 2) : -1;
  if (along < 0 || at->n != tensor->rank + 1) return false;
  access->along = (unsigned)along;
  access->vector = ir_access_vector(kernel, tensor, at->items + 1, MECHANISM_SIZES_MOST);
  return true;
}

static bool same_shape(const Access *a, const Access *b)
{
  return ir_tile_extent(&a->tile->type, 0) == ir_tile_extent(&b->tile->type, 0) &&
         ir_tile_extent(&a->tile->type, 1) == ir_tile_extent(&b->tile->type, 1);
}

/* Are there accesses along either dimension, and some that move a bank's bytes at most? Of more patches fill sectors well enough. */
static bool are_crossed(const GArray *accesses, const Access *of, unsigned bank)
{
  unsigned along = 0;
  bool narrow = false;
  for (unsigned i = 0; i < accesses->len; i++) {
    const Access *access = &g_array_index(accesses, Access, i);
    if (!same_shape(access, of)) continue;
    along |= 1u << access->along;
    narrow |= number_bytes_of(access->tile->type.element, access->vector) <= bank;
  }
  return along == 3 && narrow;
}

static const Layout *liked_by(Arena *arena, const Access *access, unsigned warps)
{
  unsigned extent[2];
  for (unsigned d = 0; d < 2; d++)
    extent[d] = (unsigned)ir_tile_extent(&access->tile->type, access->along ? d : 1 - d);
  for (unsigned vector = access->vector; vector; vector /= 2) {
    const Layout *layout = crossed_spread(arena, 2, extent, extent[0], extent[1], vector, warps, 1);
    if (layout) return access->along ? layout : layout_transposed(arena, layout);
  }
  return NULL;
}

/* Only where nothing else asks for a layout: no product, and no row or column is combined. */
static bool are_points(const GPtrArray *ops)
{
  for (unsigned i = 0; i < ops->len; i++) {
    const IrOpcode code = ((const IrOp *)ops->pdata[i])->code;
    if (code == OP_MMA || code == OP_REDUCE || code == OP_SCAN || code == OP_SORT || code == OP_PICK ||
        code == OP_COUNT)
      return false;
  }
  return true;
}

void crossed_place(IrFunction *kernel, const GPtrArray *ops, unsigned bank, GHashTable *fixed,
                   GHashTable *wanted)
{
  g_autoptr(GArray) accesses = g_array_new(false, false, sizeof(Access));
  Access access;
  unsigned warps = ir_launch_threads(kernel) / WARP_LANES;
  if (!are_points(ops)) return;
  for (unsigned i = 0; i < ops->len; i++)
    if (read_access(kernel, ops->pdata[i], &access)) g_array_append_val(accesses, access);
  for (unsigned i = 0; i < accesses->len; i++) {
    const Access *here = &g_array_index(accesses, Access, i);
    const Layout *layout =
        are_crossed(accesses, here, bank) ? liked_by(kernel->module->arena, here, warps) : NULL;
    if (!layout) continue;
    if (here->op->code == OP_STORE) {
      g_hash_table_insert(wanted, here->op, (gpointer)layout);
      continue;
    }
    here->tile->type.layout = layout;
    g_hash_table_insert(fixed, here->tile, here->op);
  }
}
