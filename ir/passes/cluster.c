/* What the blocks of a cluster have in common, and copies that serve several of them. */
#include "ir/passes/cluster.h"
#include "ir/facts.h"
#include "ir/mechanism.h"
#include "ir/passes/division.h"
#include <string.h>

static bool is_origin(const IrExpr *leaf, const void *value)
{
  if (leaf->kind == EXPR_VALUE) return leaf->value == value || leaf->value->variable;
  return !value && leaf->kind == EXPR_CALL && !strcmp(leaf->name, "cluster_rank");
}

/* Does the expression follow from the value, or (value: NULL) from the block's place in the cluster? What a variable holds may. */
static bool depends_on(const IrExpr *expr, const IrValue *value)
{
  return ir_follows(expr, is_origin, value);
}

typedef struct {
  const IrValue *value;
  bool found;
} Leaving;

static bool enters_by(const IrOp *op, const IrValue *value);

/* An op that leaves a loop, and what decides that it is come to. */
static void find_leaving(IrOp *op, void *data)
{
  Leaving *leaving = data;
  if (op->code == OP_BREAK_IF) leaving->found = leaving->found || enters_by(op, leaving->value);
}

static bool operands_depend(const IrOp *op, const IrValue *value)
{
  for (unsigned i = 0; i < op->n_operands; i++)
    if (depends_on(op->operands[i], value)) return true;
  return false;
}

/* Does it follow from the value whether a break_if leaves: by its own condition or those around it in the loop? */
static bool enters_by(const IrOp *op, const IrValue *value)
{
  for (; op && (op->code == OP_BREAK_IF || op->code == OP_IF); op = op->parent->owner)
    if (operands_depend(op, value)) return true;
  return false;
}

/* Does it follow from the value how often the fill runs: by the loops and conditions around it? */
static bool runs_by(const IrOp *fill, const IrValue *value)
{
  Leaving leaving = {value, false};
  for (const IrOp *op = fill->parent->owner; op && op->code != OP_TILES; op = op->parent->owner) {
    bool loop = op->code == OP_FOR || op->code == OP_LOOP;
    if ((loop || op->code == OP_IF) && operands_depend(op, value)) return true;
    if (loop) ir_region_visit(op->regions[0], find_leaving, &leaving);
  }
  return leaving.found;
}

static bool fills_by(const IrOp *fill, const IrValue *value)
{
  return depends_on(fill->operands[1], value) || runs_by(fill, value);
}

bool cluster_copies_reach(const GPtrArray *fills)
{
  bool reach = true;
  for (unsigned i = 0; i < fills->len; i++)
    reach &= ir_mechanism_of(fills->pdata[i])->multicasts;
  return reach;
}

bool cluster_shares_slots(const Cluster *cluster)
{
  return cluster->blocks > 1 && !cluster->shared_tile;
}

bool cluster_in_two_dimensions(const Cluster *cluster)
{
  return cluster->across > 1 && cluster->blocks > cluster->across;
}

bool cluster_beyond_tiles(const IrOp *tiles, int64_t rows, int64_t columns)
{
  int64_t known;
  unsigned n = tiles->n_operands;
  return n >= 2 && ((ir_expr_is_int(tiles->operands[n - 2], &known) && known < rows) ||
                    (ir_expr_is_int(tiles->operands[n - 1], &known) && known < columns));
}

const char *cluster_refusal(const IrPassContext *context, const IrOp *tiles, int64_t rows, int64_t columns)
{
  unsigned arguments = MIN(tiles->n_operands - 1, tiles->regions[0]->n_arguments);
  if (context->sm_budget && context->sm_budget < rows * columns)
    return "more blocks than SMs that may be used";
  if (cluster_beyond_tiles(tiles, rows, columns)) return "more rows or columns of tiles than there are";
  if (!gpu_has(context->gpu, "cluster")) return "the description lists none";
  return arguments < 2 ? "tiles have one coordinate" : NULL;
}

static ClusterSharers sharers_of(const Cluster *cluster, const IrOp *fill)
{
  IrModule *module = cluster->module;
  IrExpr *rank = ir_call(module, "cluster_rank", 0);
  int64_t blocks = cluster->blocks, columns = cluster->across, rows = blocks / columns;
  bool by_row = fills_by(fill, cluster->tile_row), by_column = fills_by(fill, cluster->tile_column);
  ClusterSharers all = {blocks, rank, ir_int(module, (1 << blocks) - 1)};
  if (fills_by(fill, NULL) || (by_row && by_column) || (by_row && columns == 1) || (by_column && rows == 1))
    return (ClusterSharers){1};
  if ((!by_row && !by_column) || rows == 1 || columns == 1) return all;
  IrExpr *across = ir_int(module, columns), *row = ir_binary(module, OPERATOR_DIV, rank, across),
         *column = ir_binary(module, OPERATOR_MOD, rank, across);
  if (by_row) { /* the row's blocks follow one another */
    IrExpr *first = ir_binary(module, OPERATOR_MUL, row, across);
    return (ClusterSharers){columns, column,
                            ir_binary(module, OPERATOR_SHL, ir_int(module, (1 << columns) - 1), first)};
  }
  int64_t below = 0;
  for (int64_t i = 0; i < rows; i++)
    below |= 1 << i * columns;
  return (ClusterSharers){rows, row, ir_binary(module, OPERATOR_SHL, ir_int(module, below), column)};
}

int cluster_shared_dim(const Cluster *cluster, const IrOp *fill, ClusterSharers *sharers)
{
  if (!cluster_shares_slots(cluster)) return -1;
  *sharers = sharers_of(cluster, fill);
  if (sharers->count <= 1) return -1;
  if (fill->operands[0]->kind == EXPR_INDEX) return -1; /* a part of a tile is not divided further */
  const IrOp *slot = ir_slot_of(cluster->kernel, fill->operands[0], NULL);
  const IrType *tensor = &ir_access_base(fill->operands[1])->value->type;
  int inner = ir_contiguous_dim(tensor) - (int)(tensor->rank - slot->declared->rank);
  if (inner < 0 || slot->declared->rank != 2 || !slot->declared->layout->swizzle_bits) return -1;
  int64_t panel = number_elements(tensor->element, 16u << slot->declared->layout->swizzle_bits);
  if (ir_tile_extent(slot->declared, (unsigned)inner) % (panel * sharers->count) == 0) return inner;
  if (ir_tile_extent(slot->declared, (unsigned)(1 - inner)) % (8 * sharers->count) == 0) return 1 - inner;
  return -1;
}

void cluster_share_copy(const Cluster *cluster, IrOp *copy, const IrOp *slot, unsigned dim,
                        const ClusterSharers *sharers)
{
  IrModule *module = cluster->module;
  int64_t part = ir_tile_extent(slot->declared, dim) / sharers->count;
  IrExpr *low = division_begin(module, sharers->place, part);
  copy->operands[0] = division_part(module, copy->operands[0], slot->declared, dim, low, part);
  copy->operands[1] = division_corner(module, copy->operands[1], 2, dim, low);
  ir_attribute_set(copy, ATTR_MULTICAST, sharers->mask);
}

/* The first store that all blocks of a cluster do alike. */
static void find_repeated(IrOp *op, void *data)
{
  const IrOp **repeated = data;
  const IrExpr *where = ir_attribute_value(op, ATTR_WHERE);
  bool stores = op->code == OP_STORE || op->code == OP_SCATTER || op->code == OP_STORE_REDUCED;
  bool apart = stores && (depends_on(op->operands[0], NULL) || runs_by(op, NULL) ||
                          (where && depends_on(where, NULL)) ||
                          (op->code == OP_SCATTER && depends_on(op->operands[1], NULL)));
  if (stores && !apart && !*repeated) *repeated = op;
}

bool cluster_check_stores(const IrFunction *kernel, const IrOp *tiles, GError **error)
{
  int64_t blocks = ir_attribute_int(tiles, ATTR_SPLIT_K, 1);
  const IrOp *store = NULL;
  if (blocks > 1) ir_region_visit(kernel->body, find_repeated, &store);
  if (!store) return true;
  error_set(
      error, ERROR_INPUT, &store->mark, "split",
      "`combine` what the blocks have, and let `cluster_rank()` say which part each stores, or which stores",
      "%d blocks share each tile, and all of them store it to `%s`", (int)blocks,
      ir_access_base(store->operands[0])->value->name);
  return false;
}
