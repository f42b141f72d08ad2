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
  unsigned at,
      n; /* the variable at hand of those that consumers of a role combine together; n below 2: alone */
  const char *tiles; /* the shared tile of these, or NULL so far */
  IrOp *behind;      /* what follows where they put what they have, or NULL so far */
} Combination;

typedef struct {
  IrModule *module;
  IrOp *role, *op;
  int64_t rows; /* of an instance's operand */
  CombineShares shares;
  int64_t sharers, instances; /* instances: that a sharer is made of */
  IrExpr *rank;               /* which of the sharers one is */
  bool within;                /* the sharers are consumers of one block */
  int64_t at, n;              /* which one of so many such tiles, whose parts lie in one shared tile */
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
  int64_t copies = combine->shares.parts * combine->instances * combine->n;
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
  if (combine->at)
    low = ir_binary(module, OPERATOR_ADD, low,
                    ir_int(module, combine->at * combine->shares.parts * combine->rows));
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

/* Consumers are told apart from the one on that has the sum. */
static IrExpr *consumer_rank(IrModule *module, const IrOp *op, int64_t consumers)
{
  int64_t owner = ir_attribute_int(op, ATTR_OWNER, 0) % consumers;
  IrExpr *rank = ir_call(module, "instance", 0);
  if (!owner) return rank;
  rank = ir_binary(module, OPERATOR_ADD, rank, ir_int(module, consumers - owner));
  return ir_binary(module, OPERATOR_MOD, rank, ir_int(module, consumers));
}

static bool expand(Combination *combination, IrOp *role, IrOp *op, GError **error)
{
  IrModule *module = combination->module;
  const IrType *from = &op->operands[0]->value->type, *to = &op->results[0]->type;
  int64_t blocks = 1, instances = ir_attribute_int(role, ATTR_INSTANCES, 1);
  const IrExpr *cluster = ir_launch_get(combination->kernel, ATTR_CLUSTER);
  if (cluster) ir_expr_is_int(cluster, &blocks);
  bool within = ir_attribute_int(op, ATTR_CONSUMERS, 1) > 1, together = within && combination->n > 1;
  Combine combine = {.module = module,
                     .role = role,
                     .op = op,
                     .rows = ir_tile_extent(from, 0),
                     .sharers = within ? instances : blocks,
                     .instances = within ? 1 : instances,
                     .rank =
                         within ? consumer_rank(module, op, instances) : ir_call(module, "cluster_rank", 0),
                     .within = within,
                     .at = together ? combination->at++ : 0,
                     .n = together ? combination->n : 1,
                     .exchange = together ? combination->tiles : NULL,
                     .reuse = ir_attribute_int(op, ATTR_REUSE, 0) > 0};
  const char *who = within ? "consumers of a block" : "blocks of a cluster";
  if (!division_shares(op, combine.sharers, &combine.shares)) {
    error_set(error, ERROR_INPUT, &op->mark, "combine", NULL,
              "%d %s combine a tile of %d columns into parts of %d", (int)combine.sharers, who,
              (int)ir_tile_extent(from, 1), (int)combine.shares.columns);
    return false;
  }
  if (!combine.exchange && !declare_exchange(&combine, combination->kernel, to)) {
    error_set(error, ERROR_UNSUPPORTED, &op->mark, "combine", "split_k 1",
              "threads hold no vectors of %d elements of a part of %d columns", VECTOR,
              (int)combine.shares.columns);
    return false;
  }
  if (together) combination->tiles = combine.exchange;
  IrBuilder builder = ir_builder_before(together && combination->behind ? combination->behind : op);
  builder.mark = op->mark;
  send_parts(&combine, &builder);
  IrBuilder reader = ir_before_first_use(op);
  reader.mark = op->mark;
  IrExpr *own = own_columns(&combine, &reader, to);
  IrExpr *sum = add_parts(&combine, &reader, own, to);
  ir_replace_uses(role->regions[0], op->results[0], sum);
  if (together && (!combination->behind || combination->behind == op)) combination->behind = op->next;
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

static void note_set(IrOp *op, void *data)
{
  IrValue **variable = data;
  if (op->code == OP_SET && op->operands[0]->kind == EXPR_VALUE && op->operands[0]->value == *variable)
    *variable = NULL;
}

/* Can what consumers have of a variable be put where `first` is combined? It has the same shape, and its value by then. */
static bool goes_with(const IrOp *first, const IrOp *op)
{
  const IrExpr *of = op->operands[0];
  const IrType *type = &op->results[0]->type, *other = &first->results[0]->type;
  if (of->kind != EXPR_VALUE || !of->value->variable || op->parent != first->parent ||
      type->element != other->element || ir_tile_extent(type, 0) != ir_tile_extent(other, 0) ||
      ir_tile_extent(type, 1) != ir_tile_extent(other, 1))
    return false;
  IrValue *variable = of->value;
  for (IrOp *between = first->next; between && between != op && variable; between = between->next) {
    note_set(between, &variable);
    for (unsigned i = 0; i < between->n_regions; i++)
      ir_region_visit(between->regions[i], note_set, &variable);
  }
  return variable;
}

/* Consumers of a role that combine several variables put what they have of all, and then meet once. */
static void note_together(Combination *combination, const GPtrArray *ops)
{
  const IrOp *first = NULL;
  bool together = true;
  combination->at = combination->n = 0;
  combination->tiles = NULL;
  combination->behind = NULL;
  for (unsigned i = 0; i < ops->len; i++) {
    const IrOp *op = ops->pdata[i];
    if (ir_attribute_int(op, ATTR_CONSUMERS, 1) <= 1) continue;
    if (!first) first = op;
    together &= goes_with(first, op);
    combination->n++;
  }
  if (!together) combination->n = 0;
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
    note_together(&combination, ops);
    for (unsigned i = 0; i < ops->len; i++)
      if (!expand(&combination, role, ops->pdata[i], error)) return false;
  }
  return true;
}
