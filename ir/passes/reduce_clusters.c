/* reduce_clusters: what the blocks of a cluster have reduced, each its part, they tell each other.
 *
 * needs  STAGED
 * gives  for each `reduce` with the scope of a cluster one with the scope of the block, and a channel whose slots have
 *        room for the results of all blocks: each block puts its own into the slot of all blocks, and all combine what has
 *        come in the order of ranks. Two slots, so that a fast block may be one row ahead; a block that has one row needs one
 * breaks nothing; says only what is put where and what takes it from there: barriers, and when a block may leave, are
 *        derive_barriers'
 *
 * The order is the same in all blocks and all runs, so all have the same result. What is sent needs no answer before the
 * row is stored: a peer is waited for once in a reduction. */
#include "ir/facts.h"
#include "ir/mechanism.h"
#include "ir/pass.h"
#include "ir/passes/combiner.h"

#define SLOTS 2

typedef struct {
  const IrPassContext *context;
  IrModule *module;
  IrFunction *kernel;
  int64_t blocks;
  unsigned channels;
  GError **error;
} Clusters;

typedef struct {
  Clusters *clusters;
  IrOp *role, *reduce;
  const char *channel;
  IrExpr *cursor;
  bool once; /* a block reduces one row: its slot is filled once */
} Meeting;

static const char *slot_name(const Meeting *meeting, unsigned part)
{
  return arena_printf(meeting->clusters->module->arena, "part%u", part);
}

static IrExpr *slot(const Meeting *meeting, unsigned part)
{
  IrModule *module = meeting->clusters->module;
  return ir_index(module, ir_field(module, ir_symbol(module, meeting->channel), slot_name(meeting, part)), 1,
                  meeting->cursor);
}

/* Elements of one block's result, and rows of it: those of all blocks lie below one another. */
static IrType *room_for(const Meeting *meeting, const IrType *result)
{
  const Clusters *clusters = meeting->clusters;
  Arena *arena = clusters->module->arena;
  int64_t extent[2] = {ir_tile_extent(result, 0) * clusters->blocks, ir_tile_extent(result, 1)};
  unsigned shape[2] = {(unsigned)extent[0], (unsigned)extent[1]};
  NumberType element = result->element == NUMBER_TF32 ? NUMBER_F32 : result->element;
  IrType *tile = arena_new_object(arena, IrType);
  *tile = ir_tile(clusters->module, element, 2, extent, layout_shared(arena, 2, shape, 1, element, 0, 0));
  return tile;
}

static void declare_channel(Meeting *meeting)
{
  Clusters *clusters = meeting->clusters;
  IrModule *module = clusters->module;
  IrBuilder builder = ir_builder_before(clusters->kernel->body->first);
  builder.mark = meeting->reduce->mark;
  IrOp *channel = ir_emit(&builder, OP_CHANNEL, 0);
  channel->symbol = meeting->channel = ir_symbol_unique(clusters->kernel, "shares");
  ir_attribute_set(channel, ATTR_SLOTS, ir_int(module, meeting->once ? 1 : SLOTS));
  IrBuilder inner = ir_builder_at_end(ir_region_add(channel));
  inner.mark = builder.mark;
  for (unsigned i = 0; i < meeting->reduce->n_results; i++) {
    IrOp *part = ir_emit(&inner, OP_SLOT, 0);
    part->symbol = slot_name(meeting, i);
    part->declared = room_for(meeting, &meeting->reduce->results[i]->type);
  }
}

static void open_cursor(Meeting *meeting)
{
  IrModule *module = meeting->clusters->module;
  IrBuilder builder = ir_builder_before(meeting->role->regions[0]->first);
  builder.mark = meeting->reduce->mark;
  IrOp *cursor = ir_emit(&builder, OP_CURSOR, 1, ir_symbol(module, meeting->channel));
  IrType type = {.kind = TYPE_CURSOR, .count = 1};
  IrValue *value = ir_result(cursor, "share", type);
  value->variable = true;
  meeting->cursor = ir_value(module, value);
}

/* The rows of a block in a part of the slot. */
static IrExpr *share_of(const Meeting *meeting, unsigned part, IrExpr *rank)
{
  IrModule *module = meeting->clusters->module;
  const IrType *type = &meeting->reduce->results[part]->type;
  IrExpr *rows = ir_int(module, ir_tile_extent(type, 0)),
         *first = ir_binary(module, OPERATOR_MUL, rank, rows);
  IrExpr *range[2] = {ir_range(module, first, ir_binary(module, OPERATOR_ADD, first, rows)),
                      ir_range(module, ir_int(module, 0), ir_int(module, ir_tile_extent(type, 1)))};
  return ir_index_array(module, slot(meeting, part), 2, range);
}

/* Each element is sent by one of the threads that have it. */
static void send(const Meeting *meeting, IrBuilder *builder, const IrOp *local)
{
  IrModule *module = meeting->clusters->module;
  for (int64_t peer = 0; peer < meeting->clusters->blocks; peer++)
    for (unsigned i = 0; i < local->n_results; i++) {
      IrOp *put = ir_emit(builder, OP_PUT, 2, share_of(meeting, i, ir_call(module, "cluster_rank", 0)),
                          ir_value(module, local->results[i]));
      ir_attribute_set(put, ATTR_PEER, ir_int(module, peer));
    }
}

/* What all blocks have sent, in the order of ranks; false: the sub-kernel cannot be applied to tiles. */
static bool gather(const Meeting *meeting, IrBuilder *builder, IrExpr **sum)
{
  Clusters *clusters = meeting->clusters;
  const IrOp *reduce = meeting->reduce;
  for (int64_t peer = 0; peer < clusters->blocks; peer++) {
    IrExpr *part[COMBINER_MAX];
    for (unsigned i = 0; i < reduce->n_results; i++)
      part[i] = ir_emit_value(builder, OP_GET, reduce->results[i]->type, "peer", 1,
                              share_of(meeting, i, ir_int(clusters->module, peer)));
    if (peer &&
        !combiner_apply(builder, reduce, &reduce->results[0]->type, false, sum, part, clusters->error))
      return false;
    for (unsigned i = 0; !peer && i < reduce->n_results; i++)
      sum[i] = part[i];
  }
  if (!meeting->once) ir_emit(builder, OP_ADVANCE, 1, meeting->cursor);
  return true;
}

static bool check(const Meeting *meeting)
{
  const IrOp *reduce = meeting->reduce;
  bool fits = reduce->n_results <= COMBINER_MAX && meeting->clusters->blocks > 1;
  for (unsigned i = 0; i < reduce->n_results; i++)
    fits &= reduce->results[i]->type.rank == 2;
  if (fits) return true;
  error_set(meeting->clusters->error, ERROR_UNSUPPORTED, &reduce->mark, "cluster-reduction",
            "at most " G_STRINGIFY(COMBINER_MAX) " tiles of two dimensions, `launch cluster`",
            "this reduction cannot cross a cluster of %d blocks", (int)meeting->clusters->blocks);
  return false;
}

static bool runs_once(const IrOp *reduce)
{
  const IrOp *owner = reduce->parent->owner;
  while (owner->code == OP_IF)
    owner = owner->parent->owner;
  return owner->code == OP_ROLE;
}

static bool expand(Clusters *clusters, IrOp *role, IrOp *reduce)
{
  Meeting meeting = {.clusters = clusters, .role = role, .reduce = reduce, .once = runs_once(reduce)};
  if (!check(&meeting)) return false;
  declare_channel(&meeting);
  open_cursor(&meeting);
  IrBuilder builder = ir_builder_before(reduce);
  builder.mark = reduce->mark;
  g_autoptr(GHashTable) map = g_hash_table_new(NULL, NULL);
  IrOp *local = ir_op_clone(&builder, reduce, map);
  ir_attribute_set(local, ATTR_SCOPE, ir_name(clusters->module, "block"));
  send(&meeting, &builder, local);
  IrExpr *sum[COMBINER_MAX];
  if (!gather(&meeting, &builder, sum)) return false;
  for (unsigned i = 0; i < reduce->n_results; i++)
    ir_replace_uses(clusters->kernel->body, reduce->results[i], sum[i]);
  ir_op_remove(reduce);
  clusters->channels++;
  return true;
}

static void collect(IrOp *op, void *data)
{
  if (op->code == OP_REDUCE && ir_attribute_is(op, ATTR_SCOPE, "cluster")) g_ptr_array_add(data, op);
}

bool pass_reduce_clusters(IrModule *module, const IrPassContext *context, GError **error)
{
  Clusters clusters = {
      .context = context, .module = module, .kernel = ir_kernel(module), .blocks = 1, .error = error};
  if (!clusters.kernel) return true;
  const IrExpr *cluster = ir_launch_get(clusters.kernel, ATTR_CLUSTER);
  if (cluster) ir_expr_is_int(cluster, &clusters.blocks);
  for (IrOp *role = clusters.kernel->body->first; role; role = role->next) {
    if (role->code != OP_ROLE) continue;
    g_autoptr(GPtrArray) found = g_ptr_array_new();
    ir_region_visit(role->regions[0], collect, found);
    for (unsigned i = 0; i < found->len; i++)
      if (!expand(&clusters, role, found->pdata[i])) return false;
  }
  if (clusters.channels)
    ir_remark(context, "%u reductions cross the %d blocks of a cluster", clusters.channels,
              (int)clusters.blocks);
  return true;
}
