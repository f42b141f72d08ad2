/* combine_streams: where blocks leave and find the sums of parts of a tile.
 *
 * needs  STAGED with layouts and roles
 * gives  for each `combine` of blocks of the grid (count): each leaves what it has of the tile in shares of its
 *        columns, and adds up its own share where the sum is first used; two tensors of the workspace, named by
 *        the launch (`parts`, `flags`): a row of sums and a row of flags for each block of the grid and each
 *        share; `together` where blocks wait for one another; an error for blocks in clusters and for
 *        accumulators whose elements are not 32 bits
 * breaks nothing
 *
 * A block leaves at most one part (ir/schedule.h), so a row each, or one for each share, is enough. The flags are
 * zero before the kernel; who adds a part clears its flags, so they are zero after it too and nobody has to clear
 * them between launches.
 *
 * One block that adds up reads all parts at the speed of one SM; with shares every block reads as much as it has
 * left. It finds its own share there too: its registers are free then, and which of them are its own share would be
 * known at run time only. Blocks of lower index then wait for those of higher, which is sound where all blocks run
 * at once (`together`): each leaves its part before it waits. */
#include "ir/facts.h"
#include "ir/pass.h"
#include "ir/passes/division.h"

#define FLAGS_A_BLOCK 32 /* one for each warp that a block may have; a line of 128 bytes */

typedef struct {
  GPtrArray *ops;
  int64_t elements; /* of the largest row of a block */
  int64_t shares;   /* rows of a block */
  NumberType type;
  const IrOp *unfit; /* an op whose tile cannot be left */
  bool sliced;       /* every tile is, evenly: blocks of a cluster are at the same k */
} Streams;

static void collect(IrOp *op, void *data)
{
  Streams *streams = data;
  if (op->code != OP_STORE_PARTIAL && op->code != OP_ADD_PARTIAL) return;
  const IrType *tile = &op->operands[0]->value->type;
  g_ptr_array_add(streams->ops, op);
  bool store = op->code == OP_STORE_PARTIAL;
  streams->sliced |= !store && ir_attribute(op, ATTR_COUNT);
  if (store) streams->shares = MAX(streams->shares, ir_attribute_int(op, ATTR_COUNT, 1));
  streams->type = tile->element;
  if (number_bits(tile->element) != 32) streams->unfit = op;
}

/* Elements of all instances of a role together. */
static int64_t block_elements(const IrOp *role, const Streams *streams)
{
  int64_t most = 0;
  for (unsigned i = 0; i < streams->ops->len; i++) {
    const IrOp *op = streams->ops->pdata[i];
    int64_t registers = layout_registers(op->operands[0]->value->type.layout);
    if (op->code == OP_STORE_PARTIAL) registers /= ir_attribute_int(op, ATTR_COUNT, 1);
    most = MAX(most, registers * ir_role_warps(role) * 32);
  }
  return most;
}

static void add_tensor(IrFunction *kernel, const char *name, NumberType element, int64_t rows,
                       int64_t columns)
{
  IrModule *module = kernel->module;
  IrType type = {.kind = TYPE_TENSOR, .count = 1, .element = element, .rank = 2, .align = 256};
  type.dims[0] = ir_int(module, rows);
  type.dims[1] = ir_int(module, columns);
  type.strides[0] = ir_int(module, columns);
  type.strides[1] = ir_int(module, 1);
  ir_parameter_new(kernel, name, type);
}

/* Of the grid: slices of all tiles are no more than SMs; streams have as many on each as the kernel asks for. */
static int64_t most_blocks(const IrFunction *kernel, const Streams *streams, const IrPassContext *context)
{
  unsigned sms = context->sm_budget ? context->sm_budget : context->gpu->sm_count;
  const IrExpr *each = streams->sliced ? NULL : ir_launch_get(kernel, ATTR_MIN_BLOCKS);
  int64_t blocks = 1;
  if (each) ir_expr_is_int(each, &blocks);
  return sms * blocks;
}

/* ---- Tiles that slices add up ---- */

static void collect_combinations(IrOp *op, void *data)
{
  if (op->code == OP_COMBINE && ir_attribute(op, ATTR_COUNT)) g_ptr_array_add(data, op);
}

static IrExpr *quotient(IrModule *module, IrExpr *x, IrExpr *by)
{
  return ir_binary(module, OPERATOR_DIV, x, by);
}

/* The blocks of a slice are all of the tiles', in their order; slice after slice. */
static bool expand(IrModule *module, IrOp *role, IrOp *op, const IrPassContext *context, GError **error)
{
  const IrType *from = &op->operands[0]->value->type, *to = &op->results[0]->type;
  int64_t slices = ir_attribute_int(op, ATTR_COUNT, 0);
  CombineShares shares;
  if (!division_shares(op, slices, &shares) || shares.owners > FLAGS_A_BLOCK) {
    error_set(error, ERROR_INPUT, &op->mark, "combine", NULL,
              "%d slices combine a tile of %d columns into shares of %d", (int)slices,
              (int)ir_tile_extent(from, 1), (int)shares.columns);
    return false;
  }
  IrExpr *block = ir_call(module, "block", 1, ir_int(module, 0)), *n = ir_int(module, shares.owners);
  IrExpr *tiles = quotient(module, ir_call(module, "blocks", 1, ir_int(module, 0)), ir_int(module, slices));
  IrBuilder builder = ir_builder_before(op);
  builder.mark = op->mark;
  IrOp *store =
      ir_emit(&builder, OP_STORE_PARTIAL, 2, op->operands[0], ir_binary(module, OPERATOR_MUL, block, n));
  ir_attribute_set(store, ATTR_COUNT, n);
  IrBuilder reader = ir_before_first_use(op);
  reader.mark = op->mark;
  IrExpr *first = ir_binary(module, OPERATOR_ADD,
                            ir_binary(module, OPERATOR_MUL, ir_binary(module, OPERATOR_MOD, block, tiles), n),
                            quotient(module, block, tiles));
  IrOp *variable = ir_emit(&reader, OP_VAR, 1, ir_int(module, 0));
  IrExpr *sum = ir_value(module, ir_result(variable, "share", *to));
  IrOp *add = ir_emit(&reader, OP_ADD_PARTIAL, 3, sum, first, ir_binary(module, OPERATOR_MUL, tiles, n));
  ir_attribute_set(add, ATTR_COUNT, ir_int(module, slices));
  ir_replace_uses(role->regions[0], op->results[0], sum);
  ir_op_remove(op);
  ir_launch_set(ir_kernel(module), ATTR_TOGETHER, ir_int(module, 1));
  ir_remark(context, "%d slices of each tile: each of %d adds up %d columns", (int)slices, (int)shares.owners,
            (int)shares.columns);
  return true;
}

static bool expand_all(IrModule *module, IrFunction *kernel, const IrPassContext *context, GError **error)
{
  for (IrOp *role = kernel->body->first; role; role = role->next) {
    if (role->code != OP_ROLE) continue;
    g_autoptr(GPtrArray) combinations = g_ptr_array_new();
    ir_region_visit(role->regions[0], collect_combinations, combinations);
    for (unsigned i = 0; i < combinations->len; i++)
      if (!expand(module, role, combinations->pdata[i], context, error)) return false;
  }
  return true;
}

bool pass_combine_streams(IrModule *module, const IrPassContext *context, GError **error)
{
  IrFunction *kernel = ir_kernel(module);
  g_autoptr(GPtrArray) ops = g_ptr_array_new();
  Streams streams = {.ops = ops, .shares = 1};
  if (kernel && !expand_all(module, kernel, context, error)) return false;
  for (IrOp *role = kernel ? kernel->body->first : NULL; role; role = role->next) {
    if (role->code != OP_ROLE) continue;
    ir_region_visit(role->regions[0], collect, &streams);
    if (ops->len && !streams.elements) streams.elements = block_elements(role, &streams);
  }
  if (!ops->len || ir_launch_get(kernel, ATTR_PARTS)) return true;
  if (streams.unfit || (ir_launch_get(kernel, ATTR_CLUSTER) && !streams.sliced)) {
    const IrOp *op = streams.unfit ? streams.unfit : ops->pdata[0];
    error_set(error, ERROR_UNSUPPORTED, &op->mark, "stream", "stream_k 1",
              streams.unfit ? "only sums of 32 bits are left for other blocks"
                            : "blocks of a cluster do not divide tiles by k steps");
    return false;
  }
  int64_t rows = most_blocks(kernel, &streams, context) * streams.shares;
  add_tensor(kernel, "stream_parts", streams.type, rows, streams.elements);
  add_tensor(kernel, "stream_flags", NUMBER_U32, rows, FLAGS_A_BLOCK);
  ir_launch_set(kernel, ATTR_PARTS, ir_name(module, "stream_parts"));
  ir_launch_set(kernel, ATTR_FLAGS, ir_name(module, "stream_flags"));
  ir_remark(context, "%s; workspace: %d x %d bytes",
            streams.sliced ? "blocks of several parts of k share each tile"
                           : "the last tiles are divided among all blocks by k steps",
            (int)rows, (int)streams.elements * 4);
  return true;
}
