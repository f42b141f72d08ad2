/* divide_reductions: a tile that is reduced by a cluster is divided among the cluster's blocks.
 *
 * needs  TILE
 * gives  where a `reduce` has the scope of a cluster: `split_k` on the tile loop, so many blocks to a tile; of every
 *        tile with the reduced extent each block has its part, which its loads, stores and iotas begin at; other
 *        reductions along that extent cross the cluster too, and what is no part is stored by the first block alone
 * breaks nothing; where the GPU has no clusters, or no mbarriers by which their blocks wait for each other, or one block
 *        suffices, the scope becomes the block's
 *
 * As many blocks as leave a thread few elements of a tile (the model's shared_row, or what its registers hold): a
 * row stays in registers from its load to its store, so it is read once. `split_k` in the text says how many instead. What crosses the blocks is reduce_clusters'. */
#include "ir/facts.h"
#include "ir/mechanism.h"
#include "ir/pass.h"
#include "ir/passes/division.h"
#include "ir/resources.h"

#define LIVE_TILES 4 /* of a row that are live beside one another */

typedef struct {
  const IrPassContext *context;
  IrModule *module;
  IrFunction *kernel;
  IrOp *tiles, *reduce; /* the first reduction by a cluster */
  unsigned dim;
  int64_t extent, blocks;
  GError **error;
  bool failed;
} Division;

static void find(IrOp *op, void *data)
{
  Division *division = data;
  if (op->code == OP_TILES) division->tiles = op;
  if (op->code == OP_REDUCE && ir_attribute_is(op, ATTR_SCOPE, "cluster") && !division->reduce)
    division->reduce = op;
}

static bool refuse(Division *division, const IrOp *op, const char *hint, const char *what)
{
  if (!division->failed)
    error_set(division->error, ERROR_UNSUPPORTED, &op->mark, "cluster-reduction", hint,
              "a reduction by a cluster cannot be divided among its blocks: %s", what);
  division->failed = true;
  return false;
}

static bool is_divided(const Division *division, const IrType *type)
{
  return type->kind == TYPE_TILE && type->rank > division->dim &&
         ir_tile_extent(type, division->dim) == division->extent;
}

static bool is_known_op(IrOpcode code)
{
  switch (code) {
  case OP_LOAD:
  case OP_STORE:
  case OP_FILL:
  case OP_GET:
  case OP_REDUCE:
  case OP_SPLAT:
  case OP_IOTA:
  case OP_VAR:
  case OP_SET:
  case OP_CAST:
  case OP_BITCAST: return true;
  default: return ir_op_is_elementwise(code);
  }
}

/* The tile of a slot, which is divided with what comes through it. */
static bool is_slot(const IrOp *op, unsigned operand)
{
  return operand == 0 && (op->code == OP_FILL || op->code == OP_GET) && op->operands[0]->kind == EXPR_FIELD;
}

static void check_op(IrOp *op, void *data)
{
  Division *division = data;
  bool divided = false;
  for (unsigned i = 0; i < op->n_results; i++)
    divided |= is_divided(division, &op->results[i]->type);
  for (unsigned i = 0; i < op->n_operands; i++) {
    IrType type = ir_expr_type(division->kernel, op->operands[i]);
    bool part = op->operands[i]->kind == EXPR_VALUE && is_divided(division, &type);
    if (type.kind == TYPE_TILE && op->operands[i]->kind != EXPR_VALUE && !is_slot(op, i))
      refuse(division, op, NULL, "only whole tiles of registers are");
    divided |= part;
  }
  bool along = ir_attribute_int(op, ATTR_DIM, -1) == division->dim;
  if (op->code == OP_REDUCE && ir_attribute_is(op, ATTR_SCOPE, "cluster") && !(divided && along))
    refuse(division, op, NULL, "another one has another extent");
  if (divided && !is_known_op(op->code)) refuse(division, op, NULL, "one of its tiles is used otherwise");
}

/* ---- How many blocks ---- */

static bool divides(const Division *division, int64_t blocks)
{
  return division->extent % (blocks * WARP_LANES) == 0;
}

/* Elements of a tile that a thread may have: four such tiles of 32 bits stay in the registers it enters with. */
static int64_t few_elements(const Division *division, int64_t threads)
{
  const Gpu *gpu = division->context->gpu;
  int64_t blocks = 1; /* of an SM at once */
  const IrExpr *least = ir_launch_get(division->kernel, ATTR_MIN_BLOCKS);
  if (least) ir_expr_is_int(least, &blocks);
  int64_t held = entry_registers(gpu, (unsigned)threads, (unsigned)MAX(1, blocks)) / LIVE_TILES;
  return MAX(1, MIN(gpu->model->shared_row, held));
}

/* Blocks that leave a thread few elements; fewer, where the extent cannot be divided further. */
static int64_t wanted_blocks(const Division *division)
{
  int64_t threads = ir_launch_threads(division->kernel), blocks = 1,
          elements = ir_tile_elements(&division->reduce->operands[0]->value->type);
  if (!threads) threads = (int64_t)WARPGROUP_WARPS * WARP_LANES;
  const Gpu *gpu = division->context->gpu;
  int64_t most = exchanging_blocks(gpu), few = few_elements(division, threads);
  while (blocks * 2 <= most && elements > few * threads * blocks && divides(division, blocks * 2))
    blocks *= 2;
  return blocks;
}

static bool choose_blocks(Division *division)
{
  const Gpu *gpu = division->context->gpu;
  const IrOp *tiles = division->tiles;
  division->blocks =
      ir_attribute(tiles, ATTR_SPLIT_K) ? ir_attribute_int(tiles, ATTR_SPLIT_K, 1) : wanted_blocks(division);
  unsigned most =
      gpu->cluster_max; /* where the text asks for them: these may not fit every GPU of the kind */
  if (division->blocks > 1 && exchanging_blocks(gpu) <= 1) {
    ir_remark(division->context, "one block reduces what %d would share: %s has no clusters, or no mbarriers",
              (int)division->blocks, gpu->name);
    division->blocks = 1;
  }
  if (division->blocks > most) {
    error_set(division->error, ERROR_UNSUPPORTED, &tiles->mark, "cluster", "fewer with `split_k`",
              "a cluster of %d blocks, but %s has at most %u", (int)division->blocks, gpu->name, most);
    return false;
  }
  if (division->blocks < 1 || !divides(division, division->blocks))
    return refuse(division, tiles, "a `split_k` that divides it",
                  "its extent is no multiple of their threads");
  return true;
}

/* ---- The parts ---- */

static IrExpr *first_own(const Division *division)
{
  IrModule *module = division->module;
  return division_begin(module, ir_call(module, "cluster_rank", 0), division->extent / division->blocks);
}

/* The corner of a tensor, an operand, moved to the block's part. */
static void move_corner(Division *division, IrOp *op, unsigned operand, const IrType *tile)
{
  const IrExpr *access = op->operands[operand];
  if (access->kind != EXPR_INDEX || access->n <= tile->rank) {
    refuse(division, op, NULL, "an access names no corner");
    return;
  }
  op->operands[operand] =
      division_corner(division->module, access, tile->rank, division->dim, first_own(division));
}

/* The same value in all blocks is stored by one. */
static void store_once(Division *division, IrOp *store)
{
  IrModule *module = division->module;
  IrBuilder builder = ir_builder_before(store);
  builder.mark = store->mark;
  IrExpr *first = ir_binary(module, OPERATOR_EQ, ir_call(module, "cluster_rank", 0), ir_int(module, 0));
  IrOp *once = ir_emit(&builder, OP_IF, 1, first);
  ir_op_move(store, ir_region_add(once), NULL);
}

static void collect(IrOp *op, void *data)
{
  g_ptr_array_add(data, op);
}

static void divide_op(Division *division, IrOp *op)
{
  if (op->code == OP_LOAD && is_divided(division, &op->results[0]->type))
    move_corner(division, op, 0, &op->results[0]->type);
  if (op->code == OP_FILL) {
    IrType filled = ir_expr_type(division->kernel, op->operands[0]);
    if (is_divided(division, &filled)) move_corner(division, op, 1, &filled);
  }
  if (op->code == OP_STORE) {
    IrType stored = ir_expr_type(division->kernel, op->operands[1]);
    if (is_divided(division, &stored))
      move_corner(division, op, 0, &stored);
    else
      store_once(division, op);
  }
  bool along = ir_attribute_int(op, ATTR_DIM, -1) == division->dim;
  if (op->code == OP_IOTA && along && is_divided(division, &op->results[0]->type))
    division_count(division->kernel->body, op,
                   division_type(division->module, &op->results[0]->type, division->dim,
                                 division->extent / division->blocks),
                   first_own(division));
  if (op->code == OP_REDUCE && along && is_divided(division, &op->operands[0]->value->type))
    ir_attribute_set(op, ATTR_SCOPE, ir_name(division->module, "cluster"));
}

static void divide(Division *division)
{
  g_autoptr(GPtrArray) ops = g_ptr_array_new();
  ir_region_visit(division->kernel->body, collect, ops);
  for (unsigned i = 0; i < ops->len && !division->failed; i++)
    divide_op(division, ops->pdata[i]);
  for (unsigned i = 0; i < ops->len; i++) {
    IrOp *op = ops->pdata[i];
    if (op->code == OP_SLOT && is_divided(division, op->declared))
      op->declared =
          division_type(division->module, op->declared, division->dim, division->extent / division->blocks);
    for (unsigned r = 0; r < op->n_results; r++)
      if (is_divided(division, &op->results[r]->type))
        op->results[r]->type.dims[division->dim] =
            ir_int(division->module, division->extent / division->blocks);
  }
  ir_attribute_set(division->tiles, ATTR_SPLIT_K, ir_int(division->module, division->blocks));
}

static void reduce_in_block(IrOp *op, void *data)
{
  (void)data;
  if (op->code == OP_REDUCE && ir_attribute_is(op, ATTR_SCOPE, "cluster"))
    ir_attribute_remove(op, ATTR_SCOPE);
}

bool pass_divide_reductions(IrModule *module, const IrPassContext *context, GError **error)
{
  Division division = {.context = context, .module = module, .kernel = ir_kernel(module), .error = error};
  if (!division.kernel) return true;
  ir_region_visit(division.kernel->body, find, &division);
  if (!division.reduce) return true;
  if (!division.tiles)
    return refuse(&division, division.reduce, "`tiles %i in linear(n)`", "it stands in no loop over tiles");
  const IrExpr *reduced = division.reduce->operands[0];
  if (reduced->kind != EXPR_VALUE)
    return refuse(&division, division.reduce, NULL, "only whole tiles of registers are");
  division.dim = (unsigned)ir_attribute_int(division.reduce, ATTR_DIM, 0);
  division.extent = ir_tile_extent(&reduced->value->type, division.dim);
  if (!choose_blocks(&division)) return false;
  if (division.blocks == 1) {
    ir_attribute_remove(division.tiles, ATTR_SPLIT_K);
    ir_region_visit(division.kernel->body, reduce_in_block, NULL);
    return true;
  }
  ir_region_visit(division.kernel->body, check_op, &division);
  if (!division.failed) divide(&division);
  if (division.failed) return false;
  ir_remark(context, "%d blocks share a row: each reduces %d of its %d elements", (int)division.blocks,
            (int)(division.extent / division.blocks), (int)division.extent);
  return true;
}
