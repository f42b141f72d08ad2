/* combine_blocks: blocks of a cluster that share a tile add up what each has of it.
 *
 * needs  STAGED with waits derived and instances split
 * gives  for each `combine`: a shared tile with room for one part from every block; each block puts every
 *        part of its columns into the block that owns them, all meet at the cluster's barrier, and each owner
 *        adds what it was sent, in the order of ranks, where the sum is first used
 * breaks nothing
 *
 * The blocks of the lowest ranks own parts, as many as the columns have parts: more blocks may share a tile
 * than its columns can be divided among. What uses the sum is then an `if` that the other ranks skip.
 *
 * The order of additions depends on nothing but the number of blocks, so results are the same in every run.
 * The parts never pass through global memory. A block's shared tile is written once: the kernel gives it one
 * tile.
 *
 * Blocks that signal nobody else's barriers need their cluster only when they put parts: then the wait for
 * the cluster's start moves from the front of the kernel to the first put, and copies begin before all
 * blocks have started. Warps that put nothing wait where they end. */
#include "ir/pass.h"
#include "ir/staging.h"

typedef struct {
  const IrPassContext *context;
  IrModule *module;
  IrFunction *kernel;
} Combination;

typedef struct {
  IrModule *module;
  IrOp *role, *op;
  int64_t rows, columns; /* of an instance's operand; of one owner's part */
  int64_t blocks, owners, instances;
  const char *exchange;
} Combine;

static void collect(IrOp *op, void *data)
{
  if (op->code == OP_COMBINE) g_ptr_array_add(data, op);
}

static void declare_exchange(Combine *combine, IrFunction *kernel, NumberType element)
{
  IrModule *module = combine->module;
  int64_t extent[2] = {combine->rows * combine->instances * combine->blocks, combine->columns};
  unsigned shape[2] = {(unsigned)extent[0], (unsigned)extent[1]};
  IrType *tile = arena_new_object(module->arena, IrType);
  const Layout *layout =
      layout_shared(module->arena, 2, shape, 1, element, 0, EXCHANGE_PADDING / number_bytes(element));
  *tile = ir_tile(module, element, 2, extent, layout);
  IrBuilder builder = ir_builder_before(kernel->body->first);
  builder.mark = combine->op->mark;
  IrOp *shared = ir_emit(&builder, OP_SHARED, 0);
  shared->symbol = ir_symbol_unique(kernel, "exchange");
  shared->declared = tile;
  combine->exchange = shared->symbol;
}

/* The rows of the exchange tile that belong to a sending block and this instance. */
static IrExpr *rows_of(const Combine *combine, IrExpr *sender)
{
  IrModule *module = combine->module;
  IrExpr *low = ir_binary(module, OPERATOR_MUL, sender, ir_int(module, combine->rows * combine->instances));
  if (combine->instances > 1)
    low = ir_binary(
        module, OPERATOR_ADD, low,
        ir_binary(module, OPERATOR_MUL, ir_call(module, "instance", 0), ir_int(module, combine->rows)));
  IrExpr *rows = ir_range(module, low, ir_binary(module, OPERATOR_ADD, low, ir_int(module, combine->rows)));
  return ir_index(module, ir_symbol(module, combine->exchange), 2, rows,
                  ir_range(module, ir_int(module, 0), ir_int(module, combine->columns)));
}

static void send_parts(const Combine *combine, IrBuilder *builder)
{
  IrModule *module = combine->module;
  for (int64_t owner = 0; owner < combine->owners; owner++) {
    IrExpr *part = ir_index(module, combine->op->operands[0], 2,
                            ir_range(module, ir_int(module, 0), ir_int(module, combine->rows)),
                            ir_range(module, ir_int(module, owner * combine->columns),
                                     ir_int(module, (owner + 1) * combine->columns)));
    IrOp *put = ir_emit(builder, OP_PUT, 2, rows_of(combine, ir_call(module, "cluster_rank", 0)), part);
    ir_attribute_set(put, ATTR_PEER, ir_int(module, owner));
  }
}

static IrExpr *add_parts(const Combine *combine, IrBuilder *builder, const IrType *type)
{
  IrExpr *sum = NULL;
  for (int64_t sender = 0; sender < combine->blocks; sender++) {
    IrExpr *part =
        ir_emit_value(builder, OP_GET, *type, "part", 1, rows_of(combine, ir_int(combine->module, sender)));
    sum = sum ? ir_emit_value(builder, OP_ADD, *type, "sum", 2, sum, part) : part;
  }
  return sum;
}

static bool mentions(const IrExpr *expr, const IrValue *value)
{
  if (expr->kind == EXPR_VALUE) return expr->value == value;
  for (unsigned i = 0; i < expr->n; i++)
    if (mentions(expr->items[i], value)) return true;
  return false;
}

typedef struct {
  const IrValue *value;
  bool found;
} Use;

static void note_use(IrOp *op, void *data)
{
  Use *use = data;
  for (unsigned i = 0; i < op->n_operands; i++)
    use->found |= mentions(op->operands[i], use->value);
}

/* Where the first use of the op's result stands: behind the op, or at the start of the `if` around all uses.
 */
static IrBuilder before_first_use(IrOp *op)
{
  for (IrOp *next = op->next; next; next = next->next) {
    Use direct = {op->results[0], false}, within = direct;
    note_use(next, &direct);
    if (direct.found) break;
    for (unsigned i = 0; i < next->n_regions; i++)
      ir_region_visit(next->regions[i], note_use, &within);
    if (!within.found) continue;
    if (next->code == OP_IF && next->n_regions == 1 && next->regions[0]->first)
      return ir_builder_before(next->regions[0]->first);
    break;
  }
  return ir_builder_before(op);
}

static bool expand(Combination *combination, IrOp *role, IrOp *op, GError **error)
{
  IrModule *module = combination->module;
  const IrType *from = &op->operands[0]->value->type, *to = &op->results[0]->type;
  int64_t blocks = 1;
  const IrExpr *cluster = ir_launch_get(combination->kernel, ATTR_CLUSTER);
  if (cluster) ir_expr_is_int(cluster, &blocks);
  Combine combine = {.module = module,
                     .role = role,
                     .op = op,
                     .rows = ir_tile_extent(from, 0),
                     .columns = ir_tile_extent(to, 1),
                     .blocks = blocks,
                     .instances = ir_attribute_int(role, ATTR_INSTANCES, 1)};
  combine.owners = ir_tile_extent(from, 1) / combine.columns;
  if (combine.columns * combine.owners != ir_tile_extent(from, 1) || combine.owners > blocks) {
    error_set(error, ERROR_INPUT, &op->mark, "combine", NULL,
              "%d blocks of a cluster combine a tile of %d columns into parts of %d", (int)blocks,
              (int)ir_tile_extent(from, 1), (int)combine.columns);
    return false;
  }
  declare_exchange(&combine, combination->kernel, from->element);
  IrBuilder builder = ir_builder_before(op);
  builder.mark = op->mark;
  send_parts(&combine, &builder);
  ir_emit(&builder, OP_CLUSTER_ARRIVE, 0);
  ir_emit(&builder, OP_CLUSTER_WAIT, 0);
  IrBuilder reader = before_first_use(op);
  reader.mark = op->mark;
  IrExpr *sum = add_parts(&combine, &reader, to);
  ir_replace_uses(role->regions[0], op->results[0], sum);
  ir_op_remove(op);
  if (combine.owners == blocks)
    ir_remark(combination->context, "%d blocks share a tile: each adds up %d of its columns", (int)blocks,
              (int)combine.columns);
  else
    ir_remark(combination->context, "%d blocks share a tile: parts of %d columns are added up in %d of them",
              (int)blocks, (int)combine.columns, (int)combine.owners);
  return true;
}

/* ---- The cluster's start ---- */

typedef struct {
  const IrOp *wait; /* at the start of the kernel */
  IrOp *put;        /* the first that a peer gets */
  bool signals;     /* does anything else reach a peer? */
} Peers;

static void survey_peers(IrOp *op, void *data)
{
  Peers *peers = data;
  bool reaches = ir_attribute(op, ATTR_PEER) || ir_attribute(op, ATTR_MULTICAST);
  if (op->code == OP_PUT && reaches) {
    if (!peers->put) peers->put = op;
  } else {
    peers->signals |= reaches || (op->code == OP_CLUSTER_WAIT && op != peers->wait && !peers->put);
  }
}

/* The wait for the cluster's start, whose arrival stands in front of it. */
static IrOp *start_wait(const IrFunction *kernel)
{
  for (IrOp *op = kernel->body->first; op && op->code != OP_ROLE; op = op->next)
    if (op->code == OP_CLUSTER_ARRIVE && op->next && op->next->code == OP_CLUSTER_WAIT) return op->next;
  return NULL;
}

/* One role puts parts, the others wait at their end: every thread that arrived also waits. */
static void delay_start(IrFunction *kernel)
{
  IrOp *wait = start_wait(kernel);
  if (!wait) return;
  Peers peers = {.wait = wait};
  unsigned puts = 0;
  for (IrOp *role = kernel->body->first; role; role = role->next) {
    if (role->code != OP_ROLE) continue;
    peers.put = NULL;
    ir_region_visit(role->regions[0], survey_peers, &peers);
    puts += peers.put != NULL && peers.put->parent == role->regions[0];
  }
  if (peers.signals || puts != 1) return;
  for (IrOp *role = kernel->body->first; role; role = role->next) {
    if (role->code != OP_ROLE) continue;
    peers.put = NULL;
    ir_region_visit(role->regions[0], survey_peers, &peers);
    IrBuilder builder = peers.put ? ir_builder_before(peers.put) : ir_builder_at_end(role->regions[0]);
    builder.mark = wait->mark;
    ir_emit(&builder, OP_CLUSTER_WAIT, 0);
  }
  IrBuilder builder = ir_builder_before(wait);
  builder.mark = wait->mark;
  ir_emit(&builder, OP_SYNC, 0);
  ir_op_remove(wait);
}

bool pass_combine_blocks(IrModule *module, const IrPassContext *context, GError **error)
{
  IrFunction *kernel = ir_kernel(module);
  if (!kernel) return true;
  bool expanded = false;
  Combination combination = {.context = context, .module = module, .kernel = kernel};
  for (IrOp *role = kernel->body->first, *next; role; role = next) {
    next = role->next;
    if (role->code != OP_ROLE) continue;
    g_autoptr(GPtrArray) ops = g_ptr_array_new();
    ir_region_visit(role->regions[0], collect, ops);
    for (unsigned i = 0; i < ops->len; i++)
      if (!expand(&combination, role, ops->pdata[i], error)) return false;
    expanded |= ops->len > 0;
  }
  if (expanded) delay_start(kernel);
  return true;
}
