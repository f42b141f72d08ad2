#include "ir/passes/role_graph.h"
#include "ir/facts.h"
#include "ir/mechanism.h"
#include "ir/passes/left_loops.h"
#include "ir/resources.h"

/* ---- What fills a channel ---- */

bool role_fills_slot(const IrFunction *kernel, const IrOp *op, IrOp **channel)
{
  return op->code == OP_PUT && ir_slot_of(kernel, op->operands[0], channel);
}

typedef struct {
  const IrFunction *kernel;
  const IrOp *slot;
  bool found;
} SlotFill;

static void find_engine_fill(IrOp *op, void *data)
{
  SlotFill *fill = data;
  if (op->code == OP_FILL) fill->found |= ir_slot_of(fill->kernel, op->operands[0], NULL) == fill->slot;
}

int64_t role_copied_bytes(const IrFunction *kernel, const IrOp *channel)
{
  uint64_t bytes = 0;
  for (const IrOp *slot = channel->regions[0]->first; slot; slot = slot->next) {
    SlotFill fill = {.kernel = kernel, .slot = slot};
    ir_region_visit(kernel->body, find_engine_fill, &fill);
    if (fill.found)
      bytes += number_bytes_of(slot->declared->element, (uint64_t)ir_tile_elements(slot->declared));
  }
  return (int64_t)bytes;
}

/* ---- What a role does ---- */

typedef struct {
  IrFunction *kernel;
  GPtrArray *ops;     /* IrOp*, all of the kernel in order */
  GHashTable *writes; /* IrValue* of a variable -> GPtrArray of the ops that write it */
  RoleNode *node;
  GPtrArray *left; /* IrOp*, whose operands nobody has followed yet */
} Closure;

static void keep(Closure *closure, IrOp *op)
{
  if (op && g_hash_table_add(closure->node->does, op)) g_ptr_array_add(closure->left, op);
}

static void follow_leaf(const IrExpr *expr, void *data)
{
  Closure *closure = data;
  IrOp *channel = NULL;
  if (expr->kind == EXPR_FIELD && ir_slot_of(closure->kernel, expr, &channel))
    g_hash_table_add(closure->node->takes, channel);
  if (expr->kind != EXPR_VALUE) return;
  const IrValue *value = expr->value;
  keep(closure, value->def ? value->def : value->argument_of ? value->argument_of->owner : NULL);
  const GPtrArray *writers = g_hash_table_lookup(closure->writes, value);
  for (unsigned i = 0; writers && i < writers->len; i++)
    keep(closure, writers->pdata[i]);
}

/* What the op reads, the loops and conditions that it stands in, and what leaves them. */
static void follow(Closure *closure, const IrOp *op)
{
  bool fills = role_fills_slot(closure->kernel, op, NULL);
  for (unsigned i = fills ? 1 : 0; i < op->n_operands; i++)
    if (op->code != OP_TAKE) ir_expr_visit(op->operands[i], follow_leaf, closure);
  for (unsigned i = 0; i < op->n_attributes; i++)
    if (op->attributes[i].value) ir_expr_visit(op->attributes[i].value, follow_leaf, closure);
  keep(closure, op->parent->owner);
}

/* A role that takes a channel takes each of its slots, and leaves its loops when all do. */
static void keep_control(Closure *closure)
{
  const RoleNode *node = closure->node;
  for (unsigned i = 0; i < closure->ops->len; i++) {
    IrOp *op = closure->ops->pdata[i];
    bool taken = op->code == OP_TAKE && op->operands[0]->kind == EXPR_SYMBOL &&
                 g_hash_table_contains(node->takes, ir_symbol_find(closure->kernel, op->operands[0]->name));
    bool leaves = op->code == OP_BREAK_IF && g_hash_table_contains(node->does, loop_around(op));
    if (taken || leaves) keep(closure, op);
  }
}

static void close_over(Closure *closure)
{
  do {
    while (closure->left->len)
      follow(closure, g_ptr_array_remove_index_fast(closure->left, closure->left->len - 1));
    keep_control(closure);
  } while (closure->left->len);
}

/* ---- The graph ---- */

static void collect(IrOp *op, void *data)
{
  g_ptr_array_add(data, op);
}

static const IrValue *written(const IrOp *op)
{
  const IrExpr *target = op->n_operands ? op->operands[0] : NULL;
  while (target && target->kind == EXPR_INDEX)
    target = target->items[0];
  return target && target->kind == EXPR_VALUE ? target->value : NULL;
}

static void free_writers(gpointer writers)
{
  g_ptr_array_unref(writers);
}

static GHashTable *find_writers(const GPtrArray *ops)
{
  GHashTable *writes = g_hash_table_new_full(NULL, NULL, NULL, free_writers);
  for (unsigned i = 0; i < ops->len; i++) {
    IrOp *op = ops->pdata[i];
    const IrValue *value = ir_op_effects(op->code) & EFFECT_UPDATE ? written(op) : NULL;
    if (!value) continue;
    GPtrArray *writers = g_hash_table_lookup(writes, value);
    if (!writers) g_hash_table_insert(writes, (gpointer)value, writers = g_ptr_array_new());
    g_ptr_array_add(writers, op);
  }
  return writes;
}

static RoleNode *node_new(RoleGraph *graph, const char *name)
{
  RoleNode *node = &graph->nodes[graph->n++];
  *node = (RoleNode){.name = name,
                     .does = g_hash_table_new(NULL, NULL),
                     .takes = g_hash_table_new(NULL, NULL),
                     .fills = g_ptr_array_new()};
  return node;
}

static void node_clear(RoleNode *node)
{
  g_hash_table_unref(node->does);
  g_hash_table_unref(node->takes);
  g_ptr_array_unref(node->fills);
}

void role_graph_clear(RoleGraph *graph)
{
  for (unsigned i = 0; i < graph->n; i++)
    node_clear(&graph->nodes[i]);
  graph->n = 0;
}

/* Of a role: what fills its channels, and all that needs. */
static void close_node(Closure *closure, RoleNode *node)
{
  closure->node = node;
  for (unsigned i = 0; i < closure->ops->len; i++) {
    IrOp *op = closure->ops->pdata[i], *channel = NULL;
    if (role_fills_slot(closure->kernel, op, &channel) && g_ptr_array_find(node->fills, channel, NULL))
      keep(closure, op);
  }
  close_over(closure);
}

static bool gives_tiles(const IrOp *op)
{
  if (ir_op_effects(op->code) & EFFECT_UPDATE) {
    const IrValue *value = written(op);
    return value && value->type.kind == TYPE_TILE;
  }
  for (unsigned i = 0; i < op->n_results; i++)
    if (op->results[i]->type.kind == TYPE_TILE) return true;
  return false;
}

/* Tiles that every role may compute for itself: what takes no variable and leaves nothing behind. */
static bool is_copied(const IrOp *op)
{
  if (op->code == OP_VAR || ir_op_effects(op->code) & (EFFECT_UPDATE | EFFECT_WRITE | EFFECT_SYNC))
    return false;
  return gives_tiles(op);
}

/* The first op that both do and that no role can have for itself, or NULL. */
static const IrOp *common_work(const Closure *closure, const RoleNode *a, const RoleNode *b)
{
  for (unsigned i = 0; i < closure->ops->len; i++) {
    const IrOp *op = closure->ops->pdata[i];
    if (gives_tiles(op) && !is_copied(op) && g_hash_table_contains(a->does, op) &&
        g_hash_table_contains(b->does, op))
      return op;
  }
  return NULL;
}

static bool take_alike(const RoleNode *a, const RoleNode *b)
{
  GHashTableIter iterator;
  gpointer channel;
  g_hash_table_iter_init(&iterator, a->takes);
  while (g_hash_table_iter_next(&iterator, &channel, NULL))
    if (g_hash_table_contains(b->takes, channel)) return true;
  return false;
}

/* The channels of one become another's. */
static void join(RoleGraph *graph, unsigned into, unsigned from)
{
  RoleNode *node = &graph->nodes[into], *other = &graph->nodes[from];
  for (unsigned i = 0; i < other->fills->len; i++)
    g_ptr_array_add(node->fills, other->fills->pdata[i]);
  node_clear(other);
  for (unsigned i = from; i + 1 < graph->n; i++)
    graph->nodes[i] = graph->nodes[i + 1];
  graph->n--;
}

/* Do several warpgroups multiply, the rows of a sum divided among them? */
static bool multiply_side_by_side(const Closure *closure)
{
  for (unsigned i = 0; i < closure->ops->len; i++) {
    const IrOp *op = closure->ops->pdata[i];
    const Mechanism *mechanism = op->code == OP_MMA ? ir_mechanism_of(op) : NULL;
    if (!mechanism || mechanism->accumulator != ACCUMULATOR_WARPGROUP) continue;
    if (warpgroups_of_rows((unsigned)ir_tile_extent(&op->operands[0]->value->type, 0)) > 1) return true;
  }
  return false;
}

/* Does the role only bring tiles that lie in slots into another form? */
static bool converts(const Closure *closure, const RoleNode *node)
{
  bool multiplies = false;
  for (unsigned i = 0; i < closure->ops->len; i++) {
    const IrOp *op = closure->ops->pdata[i];
    multiplies |= op->code == OP_MMA && g_hash_table_contains(node->does, op);
  }
  return !multiplies && g_hash_table_size(node->takes) > 0;
}

/* Does the text say how many threads it has? Such a role stays one of its own. */
static bool says_threads(const RoleNode *node)
{
  return ir_attribute_int(node->fills->pdata[0], ATTR_THREADS, 0) > 0;
}

/* Are both to be one role? Those that convert for several warpgroups are: a warpgroup for each of them would leave those that multiply
 * too few registers, and one is enough where so many products are computed with what it gives. */
static bool are_one(const Closure *closure, const RoleNode *a, const RoleNode *b)
{
  if (take_alike(a, b) || common_work(closure, a, b)) return true;
  return converts(closure, a) && converts(closure, b) && multiply_side_by_side(closure) &&
         !(says_threads(a) && says_threads(b));
}

static bool join_any(RoleGraph *graph, Closure *closure)
{
  for (unsigned i = 0; i < graph->n; i++)
    for (unsigned j = i + 1; j < graph->n; j++) {
      const RoleNode *a = &graph->nodes[i], *b = &graph->nodes[j];
      if (!are_one(closure, a, b)) continue;
      join(graph, i, j);
      close_node(closure, &graph->nodes[i]);
      return true;
    }
  return false;
}

static bool begin_nodes(RoleGraph *graph, Closure *closure, GError **error)
{
  for (unsigned i = 0; i < closure->ops->len; i++) {
    IrOp *op = closure->ops->pdata[i], *channel = NULL;
    bool known = false;
    if (!role_fills_slot(closure->kernel, op, &channel)) continue;
    for (unsigned j = 0; j < graph->n; j++)
      known |= g_ptr_array_find(graph->nodes[j].fills, channel, NULL);
    if (known) continue;
    if (graph->n + 1 == ROLE_NODES_MOST) {
      error_set(error, ERROR_UNSUPPORTED, &op->mark, "roles", "fill several tiles of one channel",
                "more than %d channels are filled with values", ROLE_NODES_MOST - 1);
      return false;
    }
    const char *name = arena_printf(closure->kernel->module->arena, "fills_%s", channel->symbol);
    g_ptr_array_add(node_new(graph, ir_symbol_unique(closure->kernel, name))->fills, channel);
  }
  return true;
}

/* What the kernel leaves behind: whatever writes memory and fills no slot. */
static void close_consumer(RoleGraph *graph, Closure *closure)
{
  closure->node = node_new(graph, "consumer");
  for (unsigned i = 0; i < closure->ops->len; i++) {
    IrOp *op = closure->ops->pdata[i];
    bool leaves = ir_op_effects(op->code) & (EFFECT_WRITE | EFFECT_SYNC) && op->code != OP_FILL &&
                  op->code != OP_ORDER && !role_fills_slot(closure->kernel, op, NULL);
    if (leaves) keep(closure, op);
  }
  close_over(closure);
}

/* Does a role fill slots that it takes itself, and another takes too? */
static bool shares_own_slots(const RoleNode *role, const RoleNode *other)
{
  for (unsigned i = 0; i < role->fills->len; i++)
    if (g_hash_table_contains(role->takes, role->fills->pdata[i]) &&
        g_hash_table_contains(other->takes, role->fills->pdata[i]))
      return true;
  return false;
}

typedef struct {
  const IrFunction *kernel;
  GPtrArray *channels;
  bool found;
} OtherTake;

static void find_other_take(IrOp *op, void *data)
{
  OtherTake *other = data;
  other->found |=
      op->code == OP_TAKE && op->operands[0]->kind == EXPR_SYMBOL &&
      !g_ptr_array_find(other->channels, ir_symbol_find(other->kernel, op->operands[0]->name), NULL);
}

/* Are the role's slots taken where no other channel is, and do their values come from memory alone? Then nobody multiplies
 * anything else meanwhile, and warps of their own would only take registers from those that do. */
static bool has_nobody_beside(const Closure *closure, const RoleNode *role)
{
  OtherTake other = {closure->kernel, role->fills, g_hash_table_size(role->takes) > 0};
  for (unsigned i = 0; i < closure->ops->len && !other.found; i++) {
    IrOp *op = closure->ops->pdata[i], *channel = NULL;
    if (!role_fills_slot(closure->kernel, op, &channel) || !g_ptr_array_find(role->fills, channel, NULL))
      continue;
    const IrOp *loop = loop_around(op);
    other.found |= !loop || loop->code != OP_FOR;
    if (loop) ir_region_visit(loop->regions[0], find_other_take, &other);
  }
  return !other.found;
}

/* Does the consumer need what another role computes, or slots that this one goes on from, or would nobody work beside it?
 * Then it fills that one's channels itself. */
static bool absorb_any(RoleGraph *graph, Closure *closure)
{
  unsigned consumer = graph->n - 1;
  for (unsigned i = 0; i < consumer; i++) {
    if (!common_work(closure, &graph->nodes[i], &graph->nodes[consumer]) &&
        !shares_own_slots(&graph->nodes[i], &graph->nodes[consumer]) &&
        !has_nobody_beside(closure, &graph->nodes[i]))
      continue;
    join(graph, consumer, i);
    close_node(closure, &graph->nodes[graph->n - 1]);
    return true;
  }
  return false;
}

static bool has_engine_fill(const GPtrArray *ops)
{
  bool engine = false;
  for (unsigned i = 0; i < ops->len; i++)
    engine |= ((IrOp *)ops->pdata[i])->code == OP_FILL && ir_is_engine_copy(ops->pdata[i]);
  return engine;
}

/* Rows of a slot are cleared by the first role that takes it: who reads it, too, waits for what that role fills. */
static void keep_clear(RoleGraph *graph, Closure *closure, IrOp *clear)
{
  IrOp *channel = NULL;
  ir_slot_of(closure->kernel, clear->operands[0], &channel);
  for (unsigned i = 0; i < graph->n; i++) {
    if (!g_hash_table_contains(graph->nodes[i].takes, channel)) continue;
    closure->node = &graph->nodes[i];
    keep(closure, clear);
    close_over(closure);
    return;
  }
}

static bool read_nodes(RoleGraph *graph, Closure *closure, GError **error)
{
  if (!begin_nodes(graph, closure, error)) return false;
  if (!graph->n) return true;
  for (unsigned i = 0; i < graph->n; i++)
    close_node(closure, &graph->nodes[i]);
  while (join_any(graph, closure))
    ;
  close_consumer(graph, closure);
  while (absorb_any(graph, closure))
    ;
  for (unsigned i = 0; i < closure->ops->len; i++)
    if (((IrOp *)closure->ops->pdata[i])->code == OP_CLEAR)
      keep_clear(graph, closure, closure->ops->pdata[i]);
  return true;
}

bool role_graph_read(IrFunction *kernel, RoleGraph *graph, GError **error)
{
  g_autoptr(GPtrArray) ops = g_ptr_array_new();
  g_autoptr(GPtrArray) left = g_ptr_array_new();
  ir_region_visit(kernel->body, collect, ops);
  graph->n = 0;
  if (!has_engine_fill(ops)) return true;
  g_autoptr(GHashTable) writes = find_writers(ops);
  Closure closure = {.kernel = kernel, .ops = ops, .writes = writes, .left = left};
  return read_nodes(graph, &closure, error);
}

/* ---- Tiles of one role each ---- */

typedef struct {
  IrFunction *kernel;
  RoleNode *node;
  GHashTable *map; /* IrValue* -> IrExpr* of the role's own */
} Parting;

static IrExpr *own_leaf(const IrExpr *leaf, void *map)
{
  return leaf->kind == EXPR_VALUE ? g_hash_table_lookup(map, leaf->value) : NULL;
}

static void use_own(const Parting *parting, IrOp *op)
{
  IrModule *module = parting->kernel->module;
  for (unsigned i = 0; i < op->n_operands; i++)
    op->operands[i] = ir_expr_map(module, op->operands[i], own_leaf, parting->map);
  for (unsigned i = 0; i < op->n_attributes; i++)
    if (op->attributes[i].value)
      op->attributes[i].value = ir_expr_map(module, op->attributes[i].value, own_leaf, parting->map);
}

/* A role's ops in order: what a later role does too is done once more in front of it. */
static void part_node(Parting *parting, const GPtrArray *ops, const RoleGraph *graph, unsigned at)
{
  for (unsigned i = 0; i < ops->len; i++) {
    IrOp *op = ops->pdata[i];
    bool shared = false;
    if (!g_hash_table_contains(parting->node->does, op)) continue;
    for (unsigned j = at + 1; j < graph->n; j++)
      shared |= g_hash_table_contains(graph->nodes[j].does, op);
    if (shared && is_copied(op)) {
      IrBuilder builder = ir_builder_before(op);
      IrOp *own = ir_op_clone(&builder, op, parting->map);
      own->mark = op->mark;
      g_hash_table_remove(parting->node->does, op);
      g_hash_table_add(parting->node->does, own);
    } else if (!shared) {
      use_own(parting, op);
    }
  }
}

void role_graph_part(IrFunction *kernel, RoleGraph *graph)
{
  g_autoptr(GPtrArray) ops = g_ptr_array_new();
  ir_region_visit(kernel->body, collect, ops);
  for (unsigned i = 0; i + 1 < graph->n; i++) {
    g_autoptr(GHashTable) map = g_hash_table_new(NULL, NULL);
    Parting parting = {kernel, &graph->nodes[i], map};
    part_node(&parting, ops, graph, i);
  }
}
