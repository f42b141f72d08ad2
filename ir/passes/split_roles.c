/* split_roles: tile loops become schedules, channels become rings, and who does what becomes explicit.
 *
 * needs  TILE with mechanisms and layouts chosen
 * gives  STAGED: roles, cursors, tensor maps, the grid of the launch
 * breaks nothing; who fills or reads a slot says only that (copies, puts, gets or products, and the step of the ring behind
 *        them): its barriers, waits for groups and fences are derive_waits', the start of barriers derive_barriers', offsets allocate_resources'
 *
 * A channel that TMA fills splits the kernel: a producer role that keeps the loops around the
 * fills and nothing else, and a consumer role that keeps everything but the fills. A channel that threads
 * fill becomes a software pipeline in one role (thread_copies.c): the fill runs slots - 1 iterations ahead of the
 * take, and one block barrier an iteration orders both. (Warp specialisation: Bauer, Cook, Khailany, "CudaDMA", SC 2011.)
 */
#include "ir/passes/split_roles.h"
#include "ir/facts.h"
#include "ir/mechanism.h"
#include "ir/pass.h"
#include "ir/passes/cluster.h"
#include "ir/passes/fills.h"
#include "ir/passes/left_loops.h"
#include "ir/passes/meetings.h"
#include "ir/passes/scheduler.h"
#include "ir/resources.h"
#include "ir/schedule.h"

static void copy_region(Role *role, IrBuilder *builder, const IrRegion *region);

/* ---- Expressions and plain ops ---- */

static void copy_control(Role *role, IrBuilder *builder, const IrOp *op)
{
  IrOp *copy = role_copy_op(role, builder, op);
  for (unsigned i = 0; i < op->n_regions; i++) {
    IrRegion *region = ir_region_add(copy);
    for (unsigned a = 0; a < op->regions[i]->n_arguments; a++) {
      IrValue *argument = op->regions[i]->arguments[a];
      IrValue *fresh = ir_argument_add(region, argument->name, argument->type);
      g_hash_table_insert(role->map, argument, ir_value(role->split->module, fresh));
    }
    IrBuilder inner = ir_builder_at_end(region);
    copy_region(role, &inner, op->regions[i]);
  }
}

/* ---- Channels ---- */

static bool fills_channel(Split *split, const IrOp *op, const IrOp *channel)
{
  return (op->code == OP_FILL || op->code == OP_PUT) && role_channel_of(split, op->operands[0]) == channel;
}

/* The producer's turn of the ring: fills that follow one another for one channel fill one slot. */
static const IrOp *produce(Role *role, IrBuilder *builder, const IrOp *fill)
{
  Split *split = role->split;
  IrModule *module = split->module;
  IrOp *channel = role_channel_of(split, fill->operands[0]);
  IrExpr *cursor = g_hash_table_lookup(role->cursors, channel->symbol);
  builder->mark = fill->mark;
  const IrOp *last = fill;
  for (const IrOp *op = fill; op && fills_channel(split, op, channel); op = op->next) {
    if (op->code == OP_PUT) continue; /* another role's */
    /* emit_copy indexes by itself: the cursors of takes must not apply */
    IrOp *copy = role_emit_copy(role, builder, op, cursor);
    const char *map = g_hash_table_lookup(split->maps, op);
    if (!ir_mechanism_of(op)->run_multiple) ir_attribute_set(copy, ATTR_MAP, ir_symbol(module, map));
    ClusterSharers sharers;
    int dim = cluster_shared_dim(&split->cluster, op, &sharers);
    const IrOp *slot = ir_slot_of(split->kernel, op->operands[0], NULL);
    if (dim >= 0) cluster_share_copy(&split->cluster, copy, slot, (unsigned)dim, &sharers);
    last = op;
  }
  ir_emit(builder, OP_ADVANCE, 1, cursor);
  return last;
}

typedef struct {
  const IrFunction *kernel;
  const IrOp *channel;
  bool found;
} Loading;

static void find_loading(IrOp *op, void *data)
{
  Loading *loading = data;
  if (op->code == OP_MMA || op->code == OP_TAKE || op->code == OP_CLEAR) return;
  for (unsigned i = op->code == OP_FILL ? 1 : 0; i < op->n_operands; i++) {
    IrOp *channel = NULL;
    if (ir_slot_of(loading->kernel, op->operands[i], &channel)) loading->found |= channel == loading->channel;
  }
}

/* Do threads load from the channel's slots, beside products that read them or alone? */
static bool threads_load(const Split *split, const IrOp *channel)
{
  Loading loading = {split->kernel, channel, split->loads};
  ir_region_visit(split->kernel->body, find_loading, &loading);
  return loading.found;
}

typedef struct {
  const Split *split;
  const IrOp *channel;
  bool found;
} Sharing;

static void find_sharing(IrOp *op, void *data)
{
  Sharing *sharing = data;
  ClusterSharers sharers;
  if (op->code == OP_FILL && role_channel_of((Split *)sharing->split, op->operands[0]) == sharing->channel)
    sharing->found |= cluster_shared_dim(&sharing->split->cluster, op, &sharers) >= 0;
}

/* Do several blocks of the cluster bring what fills the channel's slots, or read it? */
static bool is_shared(const Split *split, const IrOp *channel)
{
  Sharing sharing = {split, channel, false};
  if (!cluster_shares_slots(&split->cluster)) return false;
  if (split->spans && !split->led) return true; /* products of several blocks */
  ir_region_visit(split->kernel->body, find_sharing, &sharing);
  return sharing.found;
}

/* Arrivals in other blocks cost more than those at home: one a warpgroup there, whose four warps have waited
 * for one product together; where they have loaded from the slot themselves each answers for its own. */
static bool frees_together(const Split *split, const IrOp *channel)
{
  return is_shared(split, channel) && !split->apart && !threads_load(split, channel);
}

typedef struct {
  const Role *role;
  const IrOp *channel;
  bool reads, multiplies;
} SlotReads;

static void find_reads(IrOp *op, void *data)
{
  SlotReads *find = data;
  const Role *role = find->role;
  if (op->code == OP_CLEAR || (role->node && !g_hash_table_contains(role->node->does, op))) return;
  for (unsigned i = op->code == OP_PUT; i < op->n_operands; i++) {
    IrOp *channel = NULL;
    if (!ir_slot_of(role->split->kernel, op->operands[i], &channel) || channel != find->channel) continue;
    find->reads = true;
    find->multiplies |= op->code != OP_GET;
  }
}

/* A slot is free as soon as what lies there has been loaded: behind the last op of the `take` that reads it. NULL:
 * products read it, which derive_waits sees to, or ops that stand deeper. */
static const IrOp *last_read(const Role *role, const IrOp *take)
{
  const IrOp *last = NULL;
  for (IrOp *op = take->regions[0]->first; op; op = op->next) {
    SlotReads find = {.role = role, .channel = role_channel_of(role->split, take->operands[0])};
    find_reads(op, &find);
    bool here = find.reads;
    for (unsigned i = 0; i < op->n_regions; i++)
      ir_region_visit(op->regions[i], find_reads, &find);
    if (find.multiplies || (find.reads && !here)) return NULL;
    if (here) last = op;
  }
  return last;
}

/* The consumer's: use the slot, go on. Who waits for it and frees it is derive_waits' to say. */
static void consume(Role *role, IrBuilder *builder, const IrOp *take)
{
  IrExpr *cursor = g_hash_table_lookup(role->cursors, take->operands[0]->name);
  const IrOp *last = last_read(role, take);
  for (const IrOp *op = take->regions[0]->first; op; op = op->next) {
    op = role->copy(role, builder, op);
    if (op == last) ir_emit(builder, OP_ADVANCE, 1, cursor);
  }
  builder->mark = take->mark;
  if (!last) ir_emit(builder, OP_ADVANCE, 1, cursor);
}

/* ---- Regions ---- */

static IrBuilder condition(const Split *split, IrBuilder *builder, IrExpr *holds)
{
  IrBuilder inner = ir_builder_at_end(ir_region_add(ir_emit(builder, OP_IF, 1, holds)));
  inner.mark = split->kernel->mark;
  return inner;
}

/* One thread does all of it: a warp that only waited, and arrived nowhere, could sleep through two phases. */
static IrBuilder one_thread(const Split *split, IrBuilder *builder)
{
  return condition(split, builder, ir_call(split->module, "elected", 0));
}

/* The lanes of one warp look for tiles together; what is done with them is one thread's. */
static IrBuilder one_warp(const Split *split, IrBuilder *builder)
{
  IrExpr *first =
      ir_binary(split->module, OPERATOR_LT, ir_call(split->module, "role_warp", 0), ir_int(split->module, 1));
  return condition(split, builder, first);
}

static void copy_tile(Role *role, IrBuilder *builder, const IrRegion *body, IrExpr *const *coordinates)
{
  for (unsigned i = 0; i < body->n_arguments; i++)
    g_hash_table_insert(role->map, body->arguments[i], coordinates[i]);
  copy_region(role, builder, body);
}

/* In the order that a sub-kernel gives, which every role has for itself: it reads nothing that the kernel writes. */
static void copy_scheduled_tiles(Role *role, IrBuilder *builder, const IrOp *tiles,
                                 const IrFunction *scheduler)
{
  IrExpr *coordinates[SCHEDULE_MAX_DIMS], *index, *total = NULL;
  const IrRegion *body = tiles->regions[0];
  bool tells = role->split->told && role->kind == ROLE_PRODUCER;
  if (role->split->told && !tells) {
    IrBuilder told = told_open(role, builder, tiles, coordinates);
    copy_tile(role, &told, body, coordinates);
    return;
  }
  IrExpr **arguments = arena_new_array(role->split->module->arena, IrExpr *, tiles->n_operands);
  for (unsigned i = 1; i < tiles->n_operands; i++)
    arguments[i - 1] = role_rewrite(role, tiles->operands[i]);
  IrBuilder inner = scheduler_open(builder, scheduler, arguments, coordinates, &index,
                                   dynamic_claims(role) ? &total : NULL);
  IrBuilder within = tells ? one_thread(role->split, &inner) : inner;
  if (tells) told_tell(role, &within, tiles, coordinates);
  IrExpr *claimed = dynamic_claim(role, &within, NULL);
  copy_tile(role, &within, body, coordinates);
  dynamic_close(role, tells ? &inner : &within, builder, index, claimed, total);
  if (!tells) return;
  within = one_thread(role->split, builder);
  told_tell(role, &within, tiles, NULL);
}

static void copy_tiles(Role *role, IrBuilder *builder, const IrOp *tiles)
{
  builder->mark = tiles->mark;
  const IrFunction *scheduler = scheduler_of(role->split->module, tiles);
  if (scheduler) {
    copy_scheduled_tiles(role, builder, tiles, scheduler);
    return;
  }
  IrExpr *extents[SCHEDULE_MAX_DIMS], *coordinates[SCHEDULE_MAX_DIMS];
  unsigned n = 0;
  for (unsigned i = 1; i < tiles->n_operands && n < SCHEDULE_MAX_DIMS;
       i++) /* operand 0 names the scheduler */
    extents[n++] = role_rewrite(role, tiles->operands[i]);
  const Split *split = role->split;
  Schedule schedule = {.raster = ir_attribute_int(tiles, ATTR_RASTER, 1),
                       .persistent = split_walks(split, tiles),
                       .cluster = split->cluster.blocks / split->cluster.across,
                       .across = split->cluster.across,
                       .shared = split->cluster.shared_tile,
                       .pingpong = role->kind == ROLE_CONSUMER ? split->pingpong : 1};
  IrExpr *steps = ir_attribute_value(tiles, ATTR_STEPS);
  IrExpr *range[3] = {ir_int(split->module, 0), steps ? role_rewrite(role, steps) : NULL,
                      ir_call(split->module, "block", 1, ir_int(split->module, 0))};
  IrExpr *next, *total;
  IrBuilder inner = split->walk
                        ? schedule_open_dynamic(builder, &schedule, extents, n, coordinates, &next, &total)
                    : tiles_are_streamed(tiles)
                        ? schedule_open_streamed(builder, &schedule, extents, n, range[1], coordinates, range)
                        : schedule_open(builder, &schedule, extents, n, coordinates);
  for (unsigned i = 0; i < tiles->regions[0]->n_arguments && i < n; i++)
    g_hash_table_insert(role->map, tiles->regions[0]->arguments[i], coordinates[i]);
  for (unsigned i = 0; steps && i < 3 && n + i < tiles->regions[0]->n_arguments; i++)
    g_hash_table_insert(role->map, tiles->regions[0]->arguments[n + i], range[i]);
  IrExpr *claimed = dynamic_claim(role, &inner, total);
  copy_region(role, &inner, tiles->regions[0]);
  inner.mark = tiles->mark;
  if (split->walk) dynamic_next(role, &inner, next, claimed);
}

static bool does(const Role *role, const IrOp *op)
{
  return !role->node || g_hash_table_contains(role->node->does, op);
}

/* Does the role do what stands in front of the op, or behind it, in its region? */
static bool works_around(const Role *role, const IrOp *op)
{
  bool works = does(role, op);
  for (const IrOp *other = op->parent->first; other && !works; other = other->next)
    works = other != op && other->code != OP_ORDER && does(role, other);
  return works;
}

/* Does the role read slots of the channel that is taken? */
static bool takes(const Role *role, const IrOp *take)
{
  return !role->node ||
         g_hash_table_contains(role->node->takes, role_channel_of(role->split, take->operands[0]));
}

static const IrOp *copy_one(Role *role, IrBuilder *builder, const IrOp *op)
{
  bool producer = role->kind == ROLE_PRODUCER;
  switch (op->code) {
  case OP_CHANNEL:
  case OP_SHARED: break; /* declared once, in front of the roles */
  case OP_ORDER:
    if (!producer && works_around(role, op)) {
      builder->mark = op->mark;
      ir_emit(builder, OP_FENCE, 1, ir_name(role->split->module, "order"));
    }
    break;
  case OP_PUT:
    if (role_fills_slot(role->split->kernel, op, NULL)) {
      if (!producer && !(role->node && !does(role, op))) role_put(role, builder, op);
      break;
    }
    if (!producer && does(role, op)) role_copy_op(role, builder, op);
    break;
  case OP_AWAIT_STEP: /* whoever copies */
    if (producer || role->kind == ROLE_ALL) role_copy_op(role, builder, op);
    break;
  case OP_POST_STEP: /* whoever stores */
    if (!producer && does(role, op)) role_copy_op(role, builder, op);
    break;
  case OP_TILES:
    if (producer ? contains_fill(op) : does(role, op)) copy_tiles(role, builder, op);
    break;
  case OP_FILL:
    if (role->kind == ROLE_ALL) return role_fill_here(role, builder, op);
    return producer ? produce(role, builder, op) : op;
  case OP_TAKE:
    if (producer && contains_fill(op)) copy_region(role, builder, op->regions[0]);
    if (role->kind == ROLE_ALL && role_has_values(role->split, role_channel_of(role->split, op->operands[0])))
      role_take_values(role, builder, op);
    else if (role->kind == ROLE_ALL)
      role_take_filled(role, builder, op);
    if (role->kind == ROLE_CONSUMER && takes(role, op))
      consume(role, builder, op);
    else if (role->kind == ROLE_CONSUMER && does(role, op))
      copy_region(role, builder, op->regions[0]);
    break;
  case OP_FOR:
    if (role->kind == ROLE_ALL && role_copy_filling_loop(role, builder, op)) break;
    if (role->kind == ROLE_CONSUMER && role->split->pingpong > 1 && takes_slots(op)) {
      turn_enter(role, builder, op);
      copy_control(role, builder, op);
      turn_leave(role, builder, op);
      break;
    }
    G_GNUC_FALLTHROUGH;
  case OP_IF:
  case OP_LOOP:
    if (producer ? producer_enters(op) : does(role, op)) copy_control(role, builder, op);
    break;
  default:
    if (producer ? producer_has(op, role->needed) : does(role, op)) role_copy_op(role, builder, op);
  }
  return op;
}

static void copy_region(Role *role, IrBuilder *builder, const IrRegion *region)
{
  for (const IrOp *op = region->first; op; op = op->next)
    op = copy_one(role, builder, op);
}

/* ---- The kernel ---- */

typedef struct {
  GPtrArray *channels, *fills, *shared, *tiles;
  const IrOp *taking; /* the last loop that takes slots */
} Survey;

/* Loads of products' operands, and sums over blocks. */
static void find_load(IrOp *op, void *data)
{
  Split *split = data;
  split->combines |= op->code == OP_COMBINE;
  split->steps |= op->code == OP_AWAIT_STEP;
  if (op->code != OP_MMA) return;
  const Mechanism *mechanism = ir_mechanism_of(op);
  split->loads |= ir_passes_registers(split->kernel, op);
  split->apart |= mechanism && mechanism->issue != ISSUE_WARPGROUP;
  split->spans |= ir_product_blocks(op) > 1;
  split->led |= ir_product_is_led(op);
}

static void survey_op(IrOp *op, void *data)
{
  Survey *survey = data;
  if (op->code == OP_CHANNEL) g_ptr_array_add(survey->channels, op);
  if (op->code == OP_FILL) g_ptr_array_add(survey->fills, op);
  if (op->code == OP_SHARED) g_ptr_array_add(survey->shared, op);
  if (op->code == OP_TILES) g_ptr_array_add(survey->tiles, op);
  if ((op->code == OP_FOR || op->code == OP_LOOP) && takes_slots(op)) survey->taking = op;
}

/* Who tells whom that a slot is free, where several blocks share what fills it. `text`: the channel as it was written. */
static void declare_release(const Split *split, const IrOp *text, IrOp *channel)
{
  IrModule *module = split->module;
  if (!is_shared(split, text)) return;
  if (frees_together(split, text))
    ir_attribute_set(channel, ATTR_BY, ir_name(module, mechanism_issue_name(ISSUE_WARPGROUP)));
  ir_attribute_set(channel, ATTR_PEER, ir_name(module, "all"));
  if (cluster_in_two_dimensions(&split->cluster))
    ir_attribute_set(channel, ATTR_CLUSTER_N, ir_int(module, split->cluster.across));
  /* Where copies alone fill the slot, what threads have loaded of it has arrived at the fence that stands between their loads and the next
   * copy. A release over the cluster would wait for all that is in flight, of other loads too: a step of 600 clocks takes 1200. */
  if (threads_load(split, text) && role_has_values(split, text)) return;
  ir_attribute_set(channel, ATTR_RELAXED, NULL);
}

/* Arrivals that free a slot. */
static int64_t empty_arrivals(const Split *split, const IrOp *channel)
{
  if (split->graph.n) return role_empty_arrivals(split, channel);
  if (!is_shared(split, channel)) return split->consumer_warps;
  int64_t columns = split->cluster.across, rows = split->cluster.blocks / columns;
  return split->consumer_warps / (frees_together(split, channel) ? WARPGROUP_WARPS : 1) *
         (rows + columns - 1);
}

static void declare_channel(Split *split, IrBuilder *builder, const IrOp *channel, bool barriers)
{
  IrModule *module = split->module;
  builder->mark = channel->mark;
  IrOp *copy = ir_emit(builder, OP_CHANNEL, 0);
  copy->symbol = channel->symbol;
  ir_attribute_set(copy, ATTR_SLOTS, ir_attribute_value(channel, ATTR_SLOTS));
  if (barriers) {
    int64_t bytes = role_copied_bytes(split->kernel, channel);
    ir_attribute_set(copy, ATTR_FULL_ARRIVALS, ir_int(module, role_full_arrivals(split, channel)));
    if (bytes) ir_attribute_set(copy, ATTR_FULL_BYTES, ir_int(module, bytes));
    ir_attribute_set(copy, ATTR_EMPTY_ARRIVALS, ir_int(module, empty_arrivals(split, channel)));
    declare_release(split, channel, copy);
  }
  IrBuilder inner = ir_builder_at_end(ir_region_add(copy));
  for (const IrOp *slot = channel->regions[0]->first; slot; slot = slot->next) {
    inner.mark = slot->mark;
    IrOp *tile = ir_emit(&inner, OP_SLOT, 0);
    tile->symbol = slot->symbol;
    tile->declared = slot->declared;
  }
}

typedef struct {
  IrModule *module;
  int64_t id;
} Meeting;

/* Warps of a role that is not the whole block meet at a barrier of their own. */
static void name_meeting(IrOp *op, void *data)
{
  const Meeting *meeting = data;
  if (ir_attribute(op, ATTR_EXCHANGE) || op->code == OP_POST_STEP)
    ir_attribute_set(op, ATTR_ID, ir_int(meeting->module, meeting->id));
}

/* Does the role fill or read slots of the channel? */
static bool needs_cursor(const Role *role, const IrOp *channel)
{
  const Split *split = role->split;
  if (!split->graph.n) return true;
  return role->node ? g_hash_table_contains(role->node->takes, channel)
                    : role_copied_bytes(split->kernel, channel) > 0;
}

static void find_instance(const IrExpr *expr, void *data)
{
  *(bool *)data |= expr->kind == EXPR_CALL && g_str_equal(expr->name, "instance");
  const IrOp *def = expr->kind == EXPR_VALUE ? expr->value->def : NULL;
  for (unsigned i = 0; def && def->code == OP_LET && i < def->n_operands; i++)
    ir_expr_visit(def->operands[i], find_instance, data);
}

/* Numbers that nothing asks for stay, too, until they are found to be dead. */
static void note_instance(IrOp *op, void *data)
{
  for (unsigned i = 0; op->code != OP_LET && i < op->n_operands; i++)
    ir_expr_visit(op->operands[i], find_instance, data);
}

/* Slots are filled once for consumers. */
static void check_filled_once(Split *split, IrRegion *producer)
{
  bool tells = false;
  if (split->consumers > 1) ir_region_visit(producer, note_instance, &tells);
  if (!tells) return;
  error_set(split->error, ERROR_UNSUPPORTED, &split->kernel->mark, "consumers", "fill what all of them read",
            "a slot is filled once for all consumers, but where it is filled "
            "from asks for instance()");
  split->failed = true;
}

static void write_role(Split *split, IrBuilder *builder, RoleKind kind, const RoleNode *node,
                       const char *name, unsigned first, unsigned last, const IrRegion *body,
                       const Survey *survey)
{
  const GPtrArray *channels = survey->channels;
  IrModule *module = split->module;
  g_autoptr(GHashTable) map = g_hash_table_new(NULL, NULL);
  g_autoptr(GHashTable) cursors = g_hash_table_new(g_str_hash, g_str_equal);
  g_autoptr(GHashTable) writes = g_hash_table_new(g_str_hash, g_str_equal);
  g_autoptr(GHashTable) filled = g_hash_table_new(g_str_hash, g_str_equal);
  g_autoptr(GHashTable) needed = values_needed_by_fills((IrRegion *)body);
  Role role = {.split = split,
               .kind = kind,
               .node = node,
               .map = map,
               .cursors = cursors,
               .writes = writes,
               .filled = filled,
               .needed = needed,
               .copy = copy_one};
  builder->mark = split->kernel->mark;
  IrOp *op = ir_emit(builder, OP_ROLE, 0);
  op->symbol = name;
  ir_attribute_set(op, ATTR_WARPS, ir_range(module, ir_int(module, first), ir_int(module, last)));
  IrBuilder inner = ir_builder_at_end(ir_region_add(op));
  inner.mark = split->kernel->mark;
  if (kind == ROLE_PRODUCER) inner = split->told ? one_warp(split, &inner) : one_thread(split, &inner);
  for (unsigned i = 0; kind != ROLE_ALL && i < channels->len; i++) {
    const IrOp *channel = channels->pdata[i];
    if (!needs_cursor(&role, channel)) continue;
    g_hash_table_insert(
        cursors, (gpointer)channel->symbol,
        role_cursor_new(split, &inner, channel->symbol, kind == ROLE_PRODUCER ? "write" : "read"));
  }
  if (split->walk || (split->told && kind != ROLE_ALL)) dynamic_begin(&role, &inner);
  if (kind != ROLE_PRODUCER) role_write_cursors(&role, &inner, channels);
  bool stores = kind == ROLE_CONSUMER && (!node || node + 1 == split->graph.nodes + split->graph.n);
  if (stores && split->pingpong * split->consumers > 1)
    ir_attribute_set(op, ATTR_INSTANCES, ir_int(module, split->pingpong * split->consumers));
  if (kind == ROLE_CONSUMER && split->pingpong > 1)
    role_skip_tiles(&role, &inner, survey->taking, ir_call(module, "instance", 0));
  copy_region(&role, &inner, body);
  if (kind == ROLE_PRODUCER) check_filled_once(split, op->regions[0]);
  if (kind == ROLE_ALL) meetings_derive(split->kernel, op->regions[0]);
  Meeting meeting = {module, NAMED_BARRIER_FIRST + (node ? node - split->graph.nodes : 0)};
  if (kind == ROLE_CONSUMER) ir_region_visit(op->regions[0], name_meeting, &meeting);
}

/* In two dimensions blocks signal each other along lines whose blocks share a fill: each fill must be. */
static bool fills_shared(const Split *split, const Survey *survey)
{
  ClusterSharers sharers;
  unsigned shared = 0;
  for (unsigned i = 0; i < survey->fills->len; i++)
    shared += cluster_shared_dim(&split->cluster, survey->fills->pdata[i], &sharers) >= 0;
  return cluster_in_two_dimensions(&split->cluster) ? shared == survey->fills->len : shared > 0;
}

/* No GPU is asked for more blocks of a cluster than it always starts. */
static bool check_cluster(Split *split, const IrOp *tiles, int64_t blocks, bool engine)
{
  const Gpu *gpu = split->context->gpu;
  if (!engine || !gpu_has(gpu, "cluster") || blocks <= gpu->cluster_portable) return true;
  error_set(split->error, ERROR_UNSUPPORTED, &tiles->mark, "cluster",
            "fewer of split_k, cluster_m or cluster_n", "a cluster of %d blocks, but %s has at most %u",
            (int)blocks, gpu->name, gpu->cluster_portable);
  split->failed = true;
  return false;
}

/* Clusters pay where the blocks have a fill in common and TMA can give it to all of them. */
static void form_clusters(Split *split, const Survey *survey, bool engine)
{
  split->cluster = (Cluster){.module = split->module, .kernel = split->kernel, .blocks = 1, .across = 1};
  if (!survey->tiles->len) return;
  const IrOp *tiles = survey->tiles->pdata[0];
  int64_t rows = tiles_are_streamed(tiles) ? 1 : ir_attribute_int(tiles, ATTR_CLUSTER_M, 1);
  int64_t columns = tiles_are_streamed(tiles) ? 1 : ir_attribute_int(tiles, ATTR_CLUSTER_N, 1);
  /* coordinates; what of k the block takes may follow them */
  unsigned arguments = MIN(tiles->n_operands - 1, tiles->regions[0]->n_arguments);
  int64_t sharing = ir_attribute_int(tiles, ATTR_SPLIT_K, 1);
  if (!check_cluster(split, tiles, sharing > 1 ? sharing : rows * columns, engine)) return;
  if (sharing > 1) {
    if (rows * columns > 1)
      ir_remark(split->context, "clusters of several tiles rejected: the blocks of a cluster share one tile");
    split->cluster.shared_tile = true;
    split->cluster.blocks = sharing;
    ir_launch_set(split->kernel, ATTR_CLUSTER, ir_int(split->module, sharing));
    return;
  }
  if (rows * columns <= 1) return;
  const char *against = engine ? cluster_refusal(split->context, tiles, rows, columns)
                               : "threads copy, so blocks share nothing";
  if (!against && !split->spans && !cluster_copies_reach(survey->fills))
    against = "no copy reaches several blocks";
  if (!against && split->graph.n) against = "a role of its own fills slots with values";
  if (against) {
    ir_remark(split->context, "clusters rejected: %s", against);
    return;
  }
  split->cluster.blocks = rows * columns;
  split->cluster.across = columns;
  split->cluster.tile_row = tiles->regions[0]->arguments[arguments - 2];
  split->cluster.tile_column = tiles->regions[0]->arguments[arguments - 1];
  if (!split->spans && !fills_shared(split, survey)) {
    ir_remark(split->context, "clusters of %d rejected: %s", (int)split->cluster.blocks,
              cluster_in_two_dimensions(&split->cluster) ? "not every tile of a step can be copied in parts"
                                                         : "no fill is the same for several blocks");
    split->cluster.blocks = split->cluster.across = 1;
    return;
  }
  ir_remark(split->context, "clusters of %d blocks: %d x %d tiles", (int)split->cluster.blocks, (int)rows,
            (int)columns);
  ir_launch_set(split->kernel, ATTR_CLUSTER, ir_int(split->module, split->cluster.blocks));
}

/* Does TMA fill a channel? */
static bool engine_fills(const Survey *survey)
{
  bool engine = false;
  for (unsigned i = 0; i < survey->fills->len; i++)
    engine |= ir_is_engine_copy(survey->fills->pdata[i]);
  return engine;
}

static void find_product(IrOp *op, void *data)
{
  if (ir_is_grouped_product(op)) *(bool *)data = true;
}

/* One thread of the producer issues. It has a warpgroup where registers are handed over, which warpgroups do; where
 * the consumer's warps are no whole warpgroups, or several blocks without products of warpgroups shall share an SM,
 * nothing is, and a warp suffices. */
static unsigned producer_warps(const Split *split, IrRegion *body)
{
  bool products = false;
  ir_region_visit(body, find_product, &products);
  return split->consumer_warps % WARPGROUP_WARPS || (split_least_blocks(split) > 1 && !products)
             ? 1
             : WARPGROUP_WARPS;
}

/* Roles beside one another may be more threads than a block has. */
static bool check_threads(Split *split, unsigned warps)
{
  const Gpu *gpu = split->context->gpu;
  unsigned threads = warps * WARP_LANES;
  if (threads <= gpu->threads_per_block) return true;
  error_set(split->error, ERROR_UNSUPPORTED, &split->kernel->mark, "threads",
            "fewer turns (pingpong), or a smaller tile",
            "the roles have %u threads, %u more than the %u a block of %s may have", threads,
            threads - gpu->threads_per_block, gpu->threads_per_block, gpu->name);
  split->failed = true;
  return false;
}

static void split_kernel(Split *split, const Survey *survey)
{
  IrModule *module = split->module;
  IrRegion *old = split->kernel->body;
  IrRegion *body = arena_new_object(module->arena, IrRegion);
  body->function = split->kernel;
  unsigned warps = ir_launch_threads(split->kernel) / WARP_LANES;
  bool engine = engine_fills(survey);
  split->consumers = survey->tiles->len ? ir_attribute_int(survey->tiles->pdata[0], ATTR_CONSUMERS, 1) : 1;
  warps *= (unsigned)split->consumers;
  split->consumer_warps = warps;
  for (unsigned i = 0; i + 1 < split->graph.n; i++) /* choose_layouts has counted their threads */
    split->warps[i] =
        (unsigned)ir_attribute_int(split->graph.nodes[i].fills->pdata[0], ATTR_THREADS, 0) / WARP_LANES;
  if (split->graph.n) split->warps[split->graph.n - 1] = warps;
  form_clusters(split, survey, engine);
  IrBuilder builder = ir_builder_at_end(body);
  if (engine) role_declare_maps(split, &builder, survey->fills);
  for (unsigned i = 0; i < survey->channels->len; i++)
    declare_channel(split, &builder, survey->channels->pdata[i], engine);
  declare_turn(split, survey->tiles->len ? survey->tiles->pdata[0] : NULL, survey->taking, &builder);
  turn_sections(split, &builder, engine);
  if (survey->tiles->len) dynamic_declare(split, &builder, survey->tiles->pdata[0], engine);
  g_autoptr(GHashTable) none = g_hash_table_new(NULL, NULL);
  Role declarations = {.split = split, .map = none};
  for (unsigned i = 0; i < survey->shared->len; i++)
    role_copy_op(&declarations, &builder, survey->shared->pdata[i]);
  split_set_grid(split, survey->tiles);
  if (engine) {
    warps *= (unsigned)split->pingpong;
    unsigned first = producer_warps(split, old);
    write_role(split, &builder, ROLE_PRODUCER, NULL, "producer", 0, first, old, survey);
    ir_remark(split->context, "roles: producer of %u warps (one issues), consumer of %u warps", first, warps);
    const RoleNode *node = split->graph.nodes;
    for (unsigned i = 0; i + 1 < split->graph.n; i++, node++) {
      write_role(split, &builder, ROLE_CONSUMER, node, node->name, first, first + split->warps[i], old,
                 survey);
      ir_remark(split->context, "roles: `%s` of %u warps fills slots with values", node->name,
                split->warps[i]);
      first += split->warps[i];
    }
    write_role(split, &builder, ROLE_CONSUMER, split->graph.n ? node : NULL, "consumer", first, first + warps,
               old, survey);
    if (check_threads(split, first + warps))
      ir_launch_set(split->kernel, ATTR_THREADS, ir_int(module, (first + warps) * WARP_LANES));
  } else {
    write_role(split, &builder, ROLE_ALL, NULL, "all", 0, warps, old, survey);
  }
  split->kernel->body = body;
}

/* Blocks that share a tile send each other columns of what a warpgroup MMA leaves in registers, or sums of
 * threads, and count them on barriers: what threads copy and warps multiply has neither. */
static bool check_sharing(const Survey *survey, const Gpu *gpu, GError **error)
{
  const IrOp *tiles = survey->tiles->len ? survey->tiles->pdata[0] : NULL;
  int64_t sharing = tiles ? ir_attribute_int(tiles, ATTR_SPLIT_K, 1) : 1;
  bool sums = !survey->fills->len;
  if (sharing <= 1 || engine_fills(survey) ||
      (sums && exchanging_blocks(gpu) > 1 && sharing <= gpu->cluster_max))
    return true;
  error_set(error, ERROR_UNSUPPORTED, &tiles->mark, "split",
            "split_k 1, or a tile and operands that TMA copies and warpgroup MMAs take: --explain says what "
            "was rejected, --set swapped=1 swaps the operands",
            "%d blocks would share a tile, but %s", (int)sharing,
            !sums                      ? "threads copy its operands"
            : !gpu_has(gpu, "cluster") ? "the description lists no clusters"
            : !gpu_has(gpu, "mbarrier")
                ? "the description lists no mbarriers, on which they would wait for each other"
                : "the description has smaller clusters only");
  return false;
}

static void find_take(IrOp *op, void *data)
{
  const void **take = data; /* a channel's name, and an op that takes it */
  if (op->code == OP_TAKE && g_str_equal(op->operands[0]->name, take[0])) take[1] = op;
}

/* Who fills a channel waits for those who take it. */
static bool check_taken(const Split *split, const GPtrArray *channels, GError **error)
{
  for (unsigned i = 0; i < channels->len; i++) {
    const IrOp *channel = channels->pdata[i];
    const void *take[2] = {channel->symbol, NULL};
    bool taken = false;
    for (unsigned j = 0; j < split->graph.n; j++)
      taken |= g_hash_table_contains(split->graph.nodes[j].takes, channel);
    if (!split->graph.n) ir_region_visit(split->kernel->body, find_take, take);
    if (taken || take[1]) continue;
    error_set(error, ERROR_INPUT, &channel->mark, "untaken", "take it, or do not fill it",
              "`@%s` is filled, and nothing reads its slots", channel->symbol);
    return false;
  }
  return true;
}

bool pass_split_roles(IrModule *module, const IrPassContext *context, GError **error)
{
  IrFunction *kernel = ir_kernel(module);
  if (!kernel) return true;
  open_left_loops(kernel);
  g_autoptr(GHashTable) maps = g_hash_table_new(NULL, NULL);
  g_autoptr(GPtrArray) channels = g_ptr_array_new();
  g_autoptr(GPtrArray) fills = g_ptr_array_new();
  g_autoptr(GPtrArray) shared = g_ptr_array_new();
  g_autoptr(GPtrArray) tiles = g_ptr_array_new();
  Survey survey = {channels, fills, shared, tiles, NULL};
  ir_region_visit(kernel->body, survey_op, &survey);
  Split split = {.context = context, .module = module, .kernel = kernel, .maps = maps, .error = error};
  ir_region_visit(kernel->body, find_load, &split);
  if (tiles->len > 1) {
    error_set(error, ERROR_UNSUPPORTED, &((IrOp *)tiles->pdata[1])->mark, "two-schedules", NULL,
              "a kernel may have one tile loop");
    return false;
  }
  if (tiles->len && !scheduler_check(module, tiles->pdata[0], error)) return false;
  split.by_lanes = tiles->len && scheduler_asks_lanes(scheduler_of(module, tiles->pdata[0]));
  if (!check_sharing(&survey, context->gpu, error) || !role_graph_read(kernel, &split.graph, error))
    return false;
  const IrOp *walk = tiles->len ? tiles->pdata[0] : NULL;
  bool possible = check_taken(&split, channels, error) && role_check_values(&split, walk, error) &&
                  (!walk || cluster_check_stores(kernel, walk, error));
  if (possible) split_kernel(&split, &survey);
  role_graph_clear(&split.graph);
  if (!possible) return false;
  if (tiles->len) scheduler_forget(module, tiles->pdata[0]);
  module->level = IR_STAGED;
  return !split.failed;
}
