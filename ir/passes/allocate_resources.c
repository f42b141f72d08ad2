/* allocate_resources: one map of shared memory.
 *
 * needs  STAGED
 * gives  `at` on every shared tile, slot and barrier, `shared_bytes` of the launch, a remark with the map
 * breaks nothing; refuses a kernel that needs more than a block may have, and says by how much
 *
 * Tiles start where every mechanism of the GPU that reads or writes shared memory wants them: swizzled ones at
 * the repetition of the widest pattern at least, from which descriptors and TMA count. The slots of one tile follow one another. A tile that overlays a channel
 * starts where its slots do (check_protocol sees to it that these are empty by then). Barriers, 8 bytes each,
 * come last.
 */
#include "ir/mechanism.h"
#include "ir/pass.h"
#include "ir/resources.h"

#define BARRIER_BYTES 8

typedef struct {
  const IrPassContext *context;
  IrModule *module;
  GPtrArray *ops;
  uint64_t plain, swizzled; /* bytes to which tiles are aligned */
  uint64_t used;
} Allocation;

static void collect(IrOp *op, void *data)
{
  if (op->code == OP_CHANNEL || op->code == OP_SHARED || op->code == OP_BARRIER)
    g_ptr_array_add(((Allocation *)data)->ops, op);
}

static uint64_t align_up(uint64_t value, uint64_t alignment)
{
  return (value + alignment - 1) / alignment * alignment;
}

static uint64_t alignment_of(const Allocation *allocation, const IrType *tile)
{
  return tile->layout && tile->layout->swizzle_bits ? allocation->swizzled : allocation->plain;
}

static uint64_t tile_bytes(const Allocation *allocation, const IrType *tile)
{
  uint64_t bytes = tile->layout ? layout_bytes(tile->layout, tile->element)
                                : number_bytes_of(tile->element, (uint64_t)ir_tile_elements(tile));
  return align_up(bytes, alignment_of(allocation, tile));
}

static void place(Allocation *allocation, IrOp *op, const IrType *tile, int64_t copies)
{
  allocation->used = align_up(allocation->used, alignment_of(allocation, tile));
  ir_attribute_set(op, ATTR_AT, ir_int(allocation->module, (int64_t)allocation->used));
  ir_remark(allocation->context,
            "shared memory: %8" G_GUINT64_FORMAT " %-12s %" G_GUINT64_FORMAT " bytes x %d", allocation->used,
            op->symbol, tile_bytes(allocation, tile), (int)copies);
  allocation->used += tile_bytes(allocation, tile) * (uint64_t)copies;
}

static int64_t place_barriers(Allocation *allocation, int64_t count)
{
  allocation->used = align_up(allocation->used, BARRIER_BYTES);
  int64_t at = (int64_t)allocation->used;
  allocation->used += (uint64_t)count * BARRIER_BYTES;
  return at;
}

static bool overlays(const IrOp *op, const IrOp *channel)
{
  const IrExpr *name = ir_attribute_value(op, ATTR_OVERLAY);
  return name && !strcmp(name->name, channel->symbol);
}

/* The tiles of a ring. */
static void place_slots(Allocation *allocation, const IrOp *channel)
{
  for (IrOp *slot = channel->regions[0]->first; slot; slot = slot->next)
    place(allocation, slot, slot->declared, ir_attribute_int(channel, ATTR_SLOTS, 1));
}

static void place_tiles(Allocation *allocation, IrOp *op)
{
  if (op->code == OP_SHARED && !ir_attribute(op, ATTR_OVERLAY)) place(allocation, op, op->declared, 1);
  if (op->code != OP_CHANNEL || ir_attribute(op, ATTR_OVERLAY)) return;
  allocation->used = align_up(allocation->used, allocation->swizzled);
  uint64_t start = allocation->used;
  place_slots(allocation, op);
  uint64_t end = allocation->used, rings = start;
  for (unsigned i = 0; i < allocation->ops->len; i++) {
    IrOp *over = allocation->ops->pdata[i];
    if (!overlays(over, op)) continue;
    /* tiles are there one after the other, rings side by side */
    allocation->used = over->code == OP_CHANNEL ? rings : start;
    if (over->code == OP_CHANNEL)
      place_slots(allocation, over);
    else
      place(allocation, over, over->declared, 1);
    if (over->code == OP_CHANNEL) rings = allocation->used;
    end = MAX(end, allocation->used);
  }
  allocation->used = end;
}

static void place_op_barriers(Allocation *allocation, IrOp *op)
{
  if (op->code == OP_BARRIER)
    ir_attribute_set(
        op, ATTR_AT,
        ir_int(allocation->module, place_barriers(allocation, ir_attribute_int(op, ATTR_COUNT, 1))));
  if (op->code != OP_CHANNEL || !ir_attribute(op, ATTR_FULL_ARRIVALS)) return;
  int64_t slots = ir_attribute_int(op, ATTR_SLOTS, 1);
  ir_attribute_set(op, ATTR_FULL_AT, ir_int(allocation->module, place_barriers(allocation, slots)));
  ir_attribute_set(op, ATTR_EMPTY_AT, ir_int(allocation->module, place_barriers(allocation, slots)));
}

static bool all_placed(const Allocation *allocation, GError **error)
{
  for (unsigned i = 0; i < allocation->ops->len; i++) {
    const IrOp *op = allocation->ops->pdata[i];
    const IrExpr *name = ir_attribute_value(op, ATTR_OVERLAY);
    const IrOp *tile = op->code == OP_CHANNEL ? op->regions[0]->first : op;
    if (!name || ir_attribute(tile, ATTR_AT)) continue;
    error_set(error, ERROR_INPUT, &op->mark, "unknown-name", NULL,
              "@%s overlays a channel `%s`, which the kernel does not have", op->symbol, name->name);
    return false;
  }
  return true;
}

/* ---- What barriers can count ---- */

typedef struct {
  double arrivals, bytes, named; /* what there may be at most */
  const IrOp *op;                /* the first that asks for too much, or NULL */
  const char *what;
  double asked, most;
} Limits;

static void limit(Limits *limits, const IrOp *op, const char *what, double asked, double most)
{
  if (limits->op || !(asked > most)) return; /* what the description does not say is no limit */
  limits->op = op;
  limits->what = what;
  limits->asked = asked;
  limits->most = most;
}

/* The highest number that `7` or `instance() + 7` is. */
static int64_t highest_id(const IrExpr *id, const IrOp *op)
{
  int64_t number = 0, instances = 1;
  if (ir_expr_is_int(id, &number)) return number;
  for (; op && op->code != OP_ROLE; op = op->parent->owner)
    ;
  if (op) instances = ir_attribute_int(op, ATTR_INSTANCES, 1);
  for (unsigned i = 0; id->kind == EXPR_BINARY && i < id->n; i++)
    ir_expr_is_int(id->items[i], &number);
  return number + instances - 1;
}

static void check_limits(IrOp *op, void *data)
{
  Limits *limits = data;
  double arrivals = limits->arrivals, bytes = limits->bytes, named = limits->named;
  const IrExpr *id = ir_attribute_value(op, ATTR_ID), *ids = ir_attribute_value(op, ATTR_IDS);
  limit(limits, op, "arrivals on an mbarrier", (double)ir_attribute_int(op, ATTR_FULL_ARRIVALS, 0), arrivals);
  limit(limits, op, "arrivals on an mbarrier", (double)ir_attribute_int(op, ATTR_EMPTY_ARRIVALS, 0),
        arrivals);
  limit(limits, op, "arrivals on an mbarrier", (double)ir_attribute_int(op, ATTR_ARRIVALS, 0), arrivals);
  limit(limits, op, "bytes on an mbarrier", (double)ir_attribute_int(op, ATTR_FULL_BYTES, 0), bytes);
  if (id) limit(limits, op, "named barriers", (double)highest_id(id, op) + 1, named);
  for (unsigned i = 0; ids && i < ids->n; i++)
    limit(limits, op, "named barriers", (double)highest_id(ids->items[i], op) + 1, named);
}

static bool within_limits(IrFunction *kernel, const Gpu *gpu, GError **error)
{
  Limits limits = {.arrivals = gpu_fact(gpu, "mbarrier.arrivals_max"),
                   .bytes = gpu_fact(gpu, "mbarrier.bytes_max"),
                   .named = gpu->named_barriers};
  ir_region_visit(kernel->body, check_limits, &limits);
  if (!limits.op) return true;
  error_set(error, ERROR_UNSUPPORTED, &limits.op->mark, "limits", "a smaller tile, or fewer warpgroups",
            "kernel '%s' needs %.0f %s, more than the %.0f of %s", kernel->name, limits.asked, limits.what,
            limits.most, gpu->name);
  return false;
}

/* What a kernel that needs too much is blamed on: the first that takes bytes of its own. */
static const Mark *first_mark(const Allocation *allocation)
{
  for (unsigned i = 0; i < allocation->ops->len; i++) {
    const IrOp *op = allocation->ops->pdata[i];
    if (!ir_attribute(op, ATTR_OVERLAY)) return &op->mark;
  }
  return NULL;
}

bool pass_allocate_resources(IrModule *module, const IrPassContext *context, GError **error)
{
  IrFunction *kernel = ir_kernel(module);
  if (!kernel) return true;
  g_autoptr(GPtrArray) ops = g_ptr_array_new();
  Allocation allocation = {.context = context,
                           .module = module,
                           .ops = ops,
                           .plain = shared_alignment(context->gpu, false),
                           .swizzled = shared_alignment(context->gpu, true)};
  ir_region_visit(kernel->body, collect, &allocation);
  for (unsigned i = 0; i < ops->len; i++)
    place_tiles(&allocation, ops->pdata[i]);
  if (!all_placed(&allocation, error)) return false;
  for (unsigned i = 0; i < ops->len; i++)
    place_op_barriers(&allocation, ops->pdata[i]);
  if (!within_limits(kernel, context->gpu, error)) return false;
  uint64_t limit = context->gpu->shared_per_block;
  if (allocation.used > limit) {
    error_set(error, ERROR_UNSUPPORTED, first_mark(&allocation), "shared-memory",
              "fewer stages or a smaller tile",
              "kernel '%s' needs %" G_GUINT64_FORMAT " bytes of shared memory, %" G_GUINT64_FORMAT
              " more than the %" G_GUINT64_FORMAT " a block of %s may have",
              kernel->name, allocation.used, allocation.used - limit, limit, context->gpu->name);
    return false;
  }
  ir_launch_set(kernel, ATTR_SHARED_BYTES, ir_int(module, (int64_t)allocation.used));
  return true;
}
