/* combine_blocks: blocks of a cluster that share a tile add up what each has of it, and so do consumers of one block that have
 * a part of its k each.
 *
 * needs  STAGED with waits derived and instances split
 * gives  for each `combine`: a shared tile with room for one part from every other block; each block puts every part of
 *        its columns but its own into the block that owns them; each owner adds, where the sum is first used, what has come
 *        from all others, in a fixed order
 * breaks nothing; says only what is put where and what takes it from there: the barrier that counts the bytes, or at which
 *        consumers meet, and the cluster's start are derive_barriers'
 *
 * The blocks of the lowest ranks own parts, as many as the columns have parts: more blocks may share a tile
 * than its columns can be divided among. What uses the sum is then an `if` that the other ranks skip.
 *
 * The order of additions depends on nothing but ranks, so results are the same in every run. Parts never pass
 * through global memory, and lie in shared memory in the order of threads (layout_by_threads): a warp sends
 * and reads whole lines. A block's shared tile is written once: the kernel gives it one tile.
 *
 * With `reuse` the shared tile overlays the slots of the kernel's channel, whose steps are over by then: a
 * big tile that is shared would otherwise leave the ring too few of them. */
#include "ir/pass.h"
#include "ir/passes/division.h"

typedef struct {
  const IrPassContext *context;
  IrModule *module;
  IrFunction *kernel;
} Combination;

typedef struct {
  IrModule *module;
  IrOp *role, *op;
  int64_t rows; /* of an instance's operand */
  CombineShares shares;
  int64_t sharers, instances; /* instances: that a sharer is made of */
  IrExpr *rank;               /* which of the sharers one is */
  bool within;                /* the sharers are consumers of one block */
  bool reuse;                 /* the channel's slots take the parts */
  const char *exchange;
} Combine;

/* What blocks of the grid add up is combine_streams'. */
static void collect(IrOp *op, void *data)
{
  if (op->code == OP_COMBINE && !ir_attribute(op, ATTR_COUNT)) g_ptr_array_add(data, op);
}

/* Registers that a thread sends together. */
#define VECTOR 4

static const IrOp *first_channel(const IrFunction *kernel)
{
  for (const IrOp *op = kernel->body->first; op; op = op->next)
    if (op->code == OP_CHANNEL) return op;
  return NULL;
}

/* In the order of threads; sums of which several threads have a copy (reduce) are few: row by row. */
static const Layout *exchange_layout(const Combine *combine, const IrType *own, unsigned copies)
{
  Arena *arena = combine->module->arena;
  if (!own->layout) return NULL;
  const Layout *layout = layout_by_threads(arena, own->layout, VECTOR, copies);
  unsigned shape[2] = {(unsigned)combine->rows * copies, (unsigned)combine->shares.columns};
  bool copies_of_sums = false;
  for (unsigned i = 0; i < own->layout->n; i++)
    copies_of_sums |= own->layout->modes[i].dim == LAYOUT_REPLICATED;
  return copies_of_sums ? layout_shared(arena, 2, shape, 1, own->element, 0, 0) : layout;
}

static bool declare_exchange(Combine *combine, IrFunction *kernel, const IrType *own)
{
  IrModule *module = combine->module;
  const IrOp *channel = first_channel(kernel);
  combine->reuse &= channel != NULL;
  int64_t copies = combine->shares.parts * combine->instances;
  int64_t extent[2] = {combine->rows * copies, combine->shares.columns};
  IrType *tile = arena_new_object(module->arena, IrType);
  const Layout *layout = exchange_layout(combine, own, (unsigned)copies);
  if (!layout) return false;
  *tile = ir_tile(module, own->element, 2, extent, layout);
  IrBuilder builder = ir_builder_before(kernel->body->first);
  builder.mark = combine->op->mark;
  IrOp *shared = ir_emit(&builder, OP_SHARED, 0);
  shared->symbol = combine->exchange = ir_symbol_unique(kernel, "exchange");
  shared->declared = tile;
  if (combine->reuse) ir_attribute_set(shared, ATTR_OVERLAY, ir_name(module, channel->symbol));
  return true;
}

/* The rows of the exchange tile that belong to a place among the senders and this instance. */
static IrExpr *rows_of(const Combine *combine, IrExpr *place)
{
  IrModule *module = combine->module;
  IrExpr *low = division_begin(module, place, combine->rows * combine->instances);
  if (combine->instances > 1)
    low = ir_binary(module, OPERATOR_ADD, low,
                    division_begin(module, ir_call(module, "instance", 0), combine->rows));
  return division_part(module, ir_symbol(module, combine->exchange), &combine->op->results[0]->type, 0, low,
                       combine->rows);
}

/* The columns of the operand that a block owns. */
static IrExpr *columns_of(const Combine *combine, int64_t owner)
{
  IrExpr *low = ir_int(combine->module, owner * combine->shares.columns);
  return division_part(combine->module, combine->op->operands[0], &combine->op->operands[0]->value->type, 1,
                       low, combine->shares.columns);
}

/* To every other sharer its columns. Among an owner's senders the next one in the order of ranks is first. */
static void send_parts(const Combine *combine, IrBuilder *builder)
{
  IrModule *module = combine->module;
  int64_t sharers = combine->sharers;
  IrExpr *rank = combine->rank;
  for (int64_t owner = 0; owner < combine->shares.owners; owner++) {
    IrExpr *other = ir_binary(module, OPERATOR_NE, rank, ir_int(module, owner));
    IrBuilder inner = ir_builder_at_end(ir_region_add(ir_emit(builder, OP_IF, 1, other)));
    inner.mark = builder->mark;
    IrExpr *distance = ir_binary(module, OPERATOR_ADD, rank, ir_int(module, sharers - 1 - owner));
    IrExpr *place =
        sharers == 2 ? ir_int(module, 0) : ir_binary(module, OPERATOR_MOD, distance, ir_int(module, sharers));
    IrOp *put = ir_emit(&inner, OP_PUT, 2, rows_of(combine, place), columns_of(combine, owner));
    if (!combine->within) ir_attribute_set(put, ATTR_PEER, ir_int(module, owner));
  }
}

/* Which columns are the block's own is known at run time only, registers at compile time. */
static IrExpr *own_columns(const Combine *combine, IrBuilder *builder, const IrType *type)
{
  IrModule *module = combine->module;
  IrExpr *own = columns_of(combine, 0);
  for (int64_t owner = 1; owner < combine->shares.owners; owner++) {
    IrExpr *is = ir_binary(module, OPERATOR_EQ, combine->rank, ir_int(module, owner));
    own = ir_emit_value(builder, OP_SELECT, *type, "own", 3, is, columns_of(combine, owner), own);
  }
  return own;
}

static IrExpr *add_parts(const Combine *combine, IrBuilder *builder, IrExpr *sum, const IrType *type)
{
  for (int64_t place = 0; place < combine->shares.parts; place++) {
    IrExpr *part =
        ir_emit_value(builder, OP_GET, *type, "part", 1, rows_of(combine, ir_int(combine->module, place)));
    sum = ir_emit_value(builder, OP_ADD, *type, "sum", 2, sum, part);
  }
  return sum;
}

static bool expand(Combination *combination, IrOp *role, IrOp *op, GError **error)
{
  IrModule *module = combination->module;
  const IrType *from = &op->operands[0]->value->type, *to = &op->results[0]->type;
  int64_t blocks = 1, instances = ir_attribute_int(role, ATTR_INSTANCES, 1);
  const IrExpr *cluster = ir_launch_get(combination->kernel, ATTR_CLUSTER);
  if (cluster) ir_expr_is_int(cluster, &blocks);
  bool within = ir_attribute_int(op, ATTR_CONSUMERS, 1) > 1;
  Combine combine = {.module = module,
                     .role = role,
                     .op = op,
                     .rows = ir_tile_extent(from, 0),
                     .sharers = within ? instances : blocks,
                     .instances = within ? 1 : instances,
                     .rank = ir_call(module, within ? "instance" : "cluster_rank", 0),
                     .within = within,
                     .reuse = ir_attribute_int(op, ATTR_REUSE, 0) > 0};
  const char *who = within ? "consumers of a block" : "blocks of a cluster";
  if (!division_shares(op, combine.sharers, &combine.shares)) {
    error_set(error, ERROR_INPUT, &op->mark, "combine", NULL,
              "%d %s combine a tile of %d columns into parts of %d", (int)combine.sharers, who,
              (int)ir_tile_extent(from, 1), (int)combine.shares.columns);
    return false;
  }
  if (!declare_exchange(&combine, combination->kernel, to)) {
    error_set(error, ERROR_UNSUPPORTED, &op->mark, "combine", "split_k 1",
              "threads hold no vectors of %d elements of a part of %d columns", VECTOR,
              (int)combine.shares.columns);
    return false;
  }
  IrBuilder builder = ir_builder_before(op);
  builder.mark = op->mark;
  send_parts(&combine, &builder);
  IrBuilder reader = ir_before_first_use(op);
  reader.mark = op->mark;
  IrExpr *own = own_columns(&combine, &reader, to);
  IrExpr *sum = add_parts(&combine, &reader, own, to);
  ir_replace_uses(role->regions[0], op->results[0], sum);
  ir_op_remove(op);
  const char *sharers = within ? "consumers" : "blocks";
  if (combine.shares.owners == combine.sharers)
    ir_remark(combination->context, "%d %s share a tile: each adds up %d of its columns",
              (int)combine.sharers, sharers, (int)combine.shares.columns);
  else
    ir_remark(combination->context, "%d %s share a tile: parts of %d columns are added up in %d of them",
              (int)combine.sharers, sharers, (int)combine.shares.columns, (int)combine.shares.owners);
  return true;
}

bool pass_combine_blocks(IrModule *module, const IrPassContext *context, GError **error)
{
  IrFunction *kernel = ir_kernel(module);
  if (!kernel) return true;
  Combination combination = {.context = context, .module = module, .kernel = kernel};
  for (IrOp *role = kernel->body->first, *next; role; role = next) {
    next = role->next;
    if (role->code != OP_ROLE) continue;
    g_autoptr(GPtrArray) ops = g_ptr_array_new();
    ir_region_visit(role->regions[0], collect, ops);
    for (unsigned i = 0; i < ops->len; i++)
      if (!expand(&combination, role, ops->pdata[i], error)) return false;
  }
  return true;
}
