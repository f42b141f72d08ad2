/* combine_streams: where blocks leave and find the sums of parts of a tile.
 *
 * needs  STAGED with layouts and roles
 * gives  two tensors of the workspace, named by the launch (`parts`, `flags`): a row of sums and a row of
 *        flags for each block of the grid; an error for blocks in clusters and for accumulators whose
 *        elements are not 32 bits
 * breaks nothing
 *
 * A block leaves at most one part (ir/schedule.h), so a row each is enough. The flags are zero before the
 * kernel; who adds a part clears its flags, so they are zero after it too and nobody has to clear them
 * between launches. */
#include "ir/facts.h"
#include "ir/pass.h"

#define FLAGS_A_BLOCK 32 /* one for each warp that a block may have; a line of 128 bytes */

typedef struct {
  GPtrArray *ops;
  int64_t elements; /* of the largest tile of a block */
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
  streams->sliced |= ir_attribute(op, ATTR_COUNT) != NULL;
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

static unsigned most_blocks(const IrPassContext *context)
{
  return context->sm_budget ? context->sm_budget : context->gpu->sm_count;
}

bool pass_combine_streams(IrModule *module, const IrPassContext *context, GError **error)
{
  IrFunction *kernel = ir_kernel(module);
  g_autoptr(GPtrArray) ops = g_ptr_array_new();
  Streams streams = {.ops = ops};
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
  unsigned blocks = most_blocks(context);
  add_tensor(kernel, "stream_parts", streams.type, blocks, streams.elements);
  add_tensor(kernel, "stream_flags", NUMBER_U32, blocks, FLAGS_A_BLOCK);
  ir_launch_set(kernel, ATTR_PARTS, ir_name(module, "stream_parts"));
  ir_launch_set(kernel, ATTR_FLAGS, ir_name(module, "stream_flags"));
  ir_remark(context, "%s; workspace: %u x %d bytes",
            streams.sliced ? "blocks of several parts of k share each tile"
                           : "the last tiles are divided among all blocks by k steps",
            blocks, (int)streams.elements * 4);
  return true;
}
