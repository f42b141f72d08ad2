/* shorten_live_ranges: what is computed for one store is computed right before it.
 *
 * needs  THREAD
 * gives  the same operations, pure ones as late as the first operation that needs them; dead ones at the end
 * breaks nothing
 *
 * Lowering writes elementwise code tile operation by tile operation, so a chain of ten operations on a
 * 128-register accumulator would keep several such tiles alive. Here each straight-line stretch is rewritten
 * in the order of demand: operations with effects keep their places and pull their operand trees in front of
 * themselves, depth first (the order of Sethi and Ullman, "The generation of optimal code for arithmetic
 * expressions", 1970, without its register counts). Global loads move too, but in groups: those that the next
 * `stores_a_group` stores (of the cost model) need are issued together, for their number in flight is what
 * hides memory latency; fewer where threads have few registers, down to those of one store, which are issued in front of the one before
 * it where that takes all registers. (A tensor may be updated in place, element by element: each chain reads its element before it writes it.)
 * Everything still pending goes in front of an operation that synchronises, writes a variable or owns
 * regions, so no value is read after it changed: chain by chain too, each up to a value that nothing else
 * there needs (what is put into shared memory behind a barrier, say). In front of the wait for the kernel before
 * this one, results are computed while that one ends; of a kernel that keeps too many alive so only what is loaded stays there. */
#include "ir/facts.h"
#include "ir/liveness.h"
#include "ir/pass.h"
#include "ir/resources.h"
#include <string.h>

#define FEW 2 /* values in front of a wall that have an order */

typedef enum { PLACED, WAITING, ISSUED /* waits, and the loads that it needs have been issued */ } State;

/* By the id of an op's first result: */
typedef struct {
  unsigned char *states; /* State: does the op wait for a use? */
  unsigned *indices;     /* 1 + its index among those in front of a wall; 0: it is none of them */
} Ops;

typedef struct {
  Ops ops;
  GPtrArray *order;  /* IrOp* that wait, oldest first; emitted ones stay in the array */
  GPtrArray *stores; /* of the group being gathered */
  GPtrArray *before; /* of the group in front of it, where that is not computed yet */
  bool ahead;        /* it is not until this one's loads have been issued */
} Stretch;

static bool is_movable(const IrOp *op)
{
  if (!op->n_results) return false;
  return op->code == OP_LOAD_GLOBAL || (!op->n_regions && op->code != OP_VAR && !ir_op_effects(op->code));
}

static unsigned op_id(const IrOp *op)
{
  return op->results[0]->id;
}

static bool is_wall(const IrOp *op)
{
  return op->n_regions || op->code == OP_VAR ||
         (ir_op_effects(op->code) & (EFFECT_SYNC | EFFECT_UPDATE | EFFECT_CONTROL | EFFECT_DECLARE));
}

static void place_before(Stretch *stretch, IrOp *op, IrOp *before);

static void place_operand(Stretch *stretch, const IrExpr *expr, IrOp *before)
{
  if (expr->kind == EXPR_VALUE && expr->value->def && stretch->ops.states[op_id(expr->value->def)] != PLACED)
    place_before(stretch, expr->value->def, before);
  for (unsigned i = 0; i < expr->n; i++)
    place_operand(stretch, expr->items[i], before);
}

static void place_operands(Stretch *stretch, const IrOp *op, IrOp *before)
{
  for (unsigned i = 0; i < op->n_operands; i++)
    place_operand(stretch, op->operands[i], before);
  for (unsigned i = 0; i < op->n_attributes; i++)
    if (op->attributes[i].value) place_operand(stretch, op->attributes[i].value, before);
}

static void place_before(Stretch *stretch, IrOp *op, IrOp *before)
{
  stretch->ops.states[op_id(op)] = PLACED;
  place_operands(stretch, op, before);
  ir_op_move(op, before->parent, before);
}

/* Issues the global loads that an op's operand trees need. */
static void place_loads(Stretch *stretch, const IrOp *op, IrOp *before);

/* A tree may reach an operation along many ways; its loads are issued the first time. */
static void place_loads_of(Stretch *stretch, const IrExpr *expr, IrOp *before)
{
  IrOp *definition = expr->kind == EXPR_VALUE ? expr->value->def : NULL;
  if (definition && stretch->ops.states[op_id(definition)] == WAITING) {
    if (definition->code == OP_LOAD_GLOBAL) {
      place_before(stretch, definition, before);
    } else {
      stretch->ops.states[op_id(definition)] = ISSUED;
      place_loads(stretch, definition, before);
    }
  }
  for (unsigned i = 0; i < expr->n; i++)
    place_loads_of(stretch, expr->items[i], before);
}

static void place_loads(Stretch *stretch, const IrOp *op, IrOp *before)
{
  for (unsigned i = 0; i < op->n_operands; i++)
    place_loads_of(stretch, op->operands[i], before);
  for (unsigned i = 0; i < op->n_attributes; i++)
    if (op->attributes[i].value) place_loads_of(stretch, op->attributes[i].value, before);
}

static void place_chains(Stretch *stretch, GPtrArray *stores)
{
  for (unsigned i = 0; i < stores->len; i++)
    place_operands(stretch, stores->pdata[i], stores->pdata[i]);
  g_ptr_array_set_size(stores, 0);
}

static void place_group(Stretch *stretch)
{
  GPtrArray *stores = stretch->stores, *before = stretch->before;
  for (unsigned i = 0; i < stores->len; i++)
    place_loads(stretch, stores->pdata[i], before->len ? before->pdata[0] : stores->pdata[0]);
  place_chains(stretch, before);
  if (!stretch->ahead) {
    place_chains(stretch, stores);
    return;
  }
  for (unsigned i = 0; i < stores->len; i++)
    g_ptr_array_add(before, stores->pdata[i]);
  g_ptr_array_set_size(stores, 0);
}

/* No group is under way any more. */
static void place_groups(Stretch *stretch)
{
  place_group(stretch);
  place_chains(stretch, stretch->before);
}

/* ---- In front of a wall: two orders, of which the one that keeps fewer values alive is taken ---- */

/* Operations that wait, by index, and which of them each needs. */
typedef struct {
  GPtrArray *ops;    /* IrOp*, as written */
  unsigned *indices; /* of Ops */
  GArray *needs;     /* unsigned: indices that operation i needs, from first[i] up to first[i + 1] */
  unsigned *first;
} Waiting;

static void note_need(const IrExpr *expr, void *data)
{
  Waiting *waiting = data;
  if (expr->kind != EXPR_VALUE || !expr->value->def) return;
  unsigned found = waiting->indices[op_id(expr->value->def)];
  if (!found) return;
  found--;
  g_array_append_val(waiting->needs, found);
}

static void survey(Waiting *waiting)
{
  for (unsigned i = 0; i < waiting->ops->len; i++)
    waiting->indices[op_id(waiting->ops->pdata[i])] = i + 1;
  for (unsigned i = 0; i < waiting->ops->len; i++) {
    const IrOp *op = waiting->ops->pdata[i];
    waiting->first[i] = waiting->needs->len;
    for (unsigned j = 0; j < op->n_operands; j++)
      ir_expr_visit(op->operands[j], note_need, waiting);
    for (unsigned j = 0; j < op->n_attributes; j++)
      if (op->attributes[j].value) ir_expr_visit(op->attributes[j].value, note_need, waiting);
  }
  waiting->first[waiting->ops->len] = waiting->needs->len;
  for (unsigned i = 0; i < waiting->ops->len; i++)
    waiting->indices[op_id(waiting->ops->pdata[i])] = 0;
}

static unsigned need(const Waiting *waiting, unsigned i)
{
  return g_array_index(waiting->needs, unsigned, i);
}

static unsigned append_chain(const Waiting *waiting, unsigned op, bool *placed, unsigned *order, unsigned n)
{
  placed[op] = true;
  for (unsigned i = waiting->first[op]; i < waiting->first[op + 1]; i++)
    if (!placed[need(waiting, i)]) n = append_chain(waiting, need(waiting, i), placed, order, n);
  order[n] = op;
  return n + 1;
}

/* Chain by chain: each operation that nothing else here needs, behind all that it needs. Loads come first,
 * since their number in flight is what hides memory latency. */
static void chain_order(const Waiting *waiting, unsigned *order)
{
  unsigned count = waiting->ops->len, n = 0;
  g_autofree bool *used = g_new0(bool, count + 1);
  g_autofree bool *placed = g_new0(bool, count + 1);
  for (unsigned i = 0; i < waiting->needs->len; i++)
    used[need(waiting, i)] = true;
  for (unsigned i = 0; i < count; i++)
    if (((IrOp *)waiting->ops->pdata[i])->code == OP_LOAD_GLOBAL && !placed[i])
      n = append_chain(waiting, i, placed, order, n);
  for (unsigned i = 0; i < count; i++)
    if (!placed[i] && !used[i]) n = append_chain(waiting, i, placed, order, n);
}

/* Most values alive at once; those without a user in the sequence live on. */
static unsigned peak(const Waiting *waiting, const unsigned *order)
{
  unsigned count = waiting->ops->len, alive = 0, most = 0;
  g_autofree unsigned *last = g_new0(unsigned, count + 1); /* 1 + place of the last user; 0: none */
  g_autofree unsigned *ending = g_new0(unsigned, count + 1);
  for (unsigned at = 0; at < count; at++)
    for (unsigned i = waiting->first[order[at]]; i < waiting->first[order[at] + 1]; i++)
      last[need(waiting, i)] = at + 1;
  for (unsigned i = 0; i < count; i++)
    ending[last[i]]++;
  for (unsigned at = 0; at < count; at++) {
    alive++;
    most = MAX(most, alive);
    alive -= ending[at + 1];
  }
  return most;
}

static void place_in_order(const Waiting *waiting, unsigned *order)
{
  unsigned count = waiting->ops->len;
  g_autofree unsigned *chains = g_new(unsigned, count + 1);
  chain_order(waiting, chains);
  if (peak(waiting, chains) < peak(waiting, order)) memcpy(order, chains, count * sizeof *order);
}

/* before NULL: at the region's end. */
static void place_all(Stretch *stretch, IrRegion *region, IrOp *before)
{
  g_autoptr(GPtrArray) ops = g_ptr_array_new();
  for (unsigned i = 0; i < stretch->order->len; i++)
    if (stretch->ops.states[op_id(stretch->order->pdata[i])] != PLACED)
      g_ptr_array_add(ops, stretch->order->pdata[i]);
  g_autofree unsigned *order = g_new(unsigned, ops->len + 1);
  g_autofree unsigned *first = g_new(unsigned, ops->len + 1);
  for (unsigned i = 0; i < ops->len; i++)
    order[i] = i;
  if (ops->len >= FEW) {
    g_autoptr(GArray) needs = g_array_new(false, false, sizeof(unsigned));
    Waiting waiting = {ops, stretch->ops.indices, needs, first};
    survey(&waiting);
    place_in_order(&waiting, order);
  }
  for (unsigned i = 0; i < ops->len; i++) {
    IrOp *op = ops->pdata[order[i]];
    stretch->ops.states[op_id(op)] = PLACED;
    ir_op_move(op, region, before);
  }
  g_ptr_array_set_size(stretch->order, 0);
}

/* Loads in front of a wall that only memory makes one; what is computed from them waits on. */
static void place_pending_loads(Stretch *stretch, IrOp *before)
{
  for (unsigned i = 0; i < stretch->order->len; i++) {
    IrOp *op = stretch->order->pdata[i];
    if (op->code == OP_LOAD_GLOBAL && stretch->ops.states[op_id(op)] != PLACED)
      place_before(stretch, op, before);
  }
}

typedef struct {
  unsigned stores; /* whose chains are in flight together */
  bool ahead;      /* the loads of one such group are in flight while the group in front of it is computed */
  bool lean; /* nothing is computed in front of a wait for another kernel that only what is behind it needs */
} Groups;

static void reorder(IrRegion *region, Ops ops, Groups groups)
{
  g_autoptr(GPtrArray) order = g_ptr_array_new();
  g_autoptr(GPtrArray) stores = g_ptr_array_new();
  g_autoptr(GPtrArray) before = g_ptr_array_new();
  Stretch stretch = {ops, order, stores, before, groups.ahead};
  for (IrOp *op = region->first; op; op = op->next) {
    if (is_movable(op)) {
      ops.states[op_id(op)] = WAITING;
      g_ptr_array_add(order, op);
      continue;
    }
    bool store = op->code == OP_STORE_GLOBAL || op->code == OP_STORE_SHARED;
    if (store) g_ptr_array_add(stores, op);
    if (!store) place_groups(&stretch);
    if (stores->len == groups.stores) place_group(&stretch);
    if (groups.lean && op->code == OP_DEPENDENT_WAIT)
      place_pending_loads(&stretch, op);
    else if (is_wall(op))
      place_all(&stretch, region, op);
    else if (!store)
      place_operands(&stretch, op, op);
    for (unsigned i = 0; i < op->n_regions; i++) /* a wall: nothing waits */
      reorder(op->regions[i], ops, groups);
  }
  place_groups(&stretch);
  /* Nothing reads what is left here, but it may read what was moved. */
  place_all(&stretch, region, NULL);
}

static void reorder_all(IrFunction *kernel, Groups groups)
{
  unsigned n = ir_give_ids(kernel);
  g_autofree unsigned char *states = g_new0(unsigned char, n);
  g_autofree unsigned *indices = g_new0(unsigned, n);
  reorder(kernel->body, (Ops){states, indices}, groups);
}

/* Does a kernel that asks for blocks on an SM keep more alive than so many blocks leave each thread? `free`: and than leaves a
 * quarter of few registers free. */
static bool is_too_wide(const IrFunction *kernel, const Gpu *gpu, bool free)
{
  int64_t threads = ir_launch_threads(kernel), blocks = 0;
  const IrExpr *least = ir_launch_get(kernel, ATTR_MIN_BLOCKS);
  if (!least || !ir_expr_is_int(least, &blocks) || threads < 1) return false;
  unsigned parts, limit = entry_registers(gpu, (unsigned)threads, (unsigned)MAX(1, blocks));
  g_autofree IrPressure *pressure = ir_pressure(kernel, &parts);
  if (free && limit <= gpu->model->tight_registers) limit -= limit / 4;
  return parts == 1 && ir_pressure_registers(pressure) > limit;
}

static void count_store(IrOp *op, void *data)
{
  *(unsigned *)data += op->code == OP_STORE_GLOBAL;
}

/* Few stores have few loads each to wait for, which others hide that run beside. */
static bool has_many_stores(const IrFunction *kernel, unsigned group)
{
  unsigned stores = 0;
  ir_region_visit(kernel->body, count_store, &stores);
  return stores >= group / 2;
}

bool pass_shorten_live_ranges(IrModule *module, const IrPassContext *context, GError **error)
{
  IrFunction *kernel = ir_kernel(module);
  if (!kernel) return true;
  unsigned most = context->gpu->model->stores_a_group;
  Groups groups = {most};
  reorder_all(kernel, groups);
  for (; groups.stores > 1 && is_too_wide(kernel, context->gpu, true); reorder_all(kernel, groups))
    groups.stores /= 2;
  groups.ahead =
      groups.stores == 1 && has_many_stores(kernel, most) && is_too_wide(kernel, context->gpu, false);
  if (groups.ahead) reorder_all(kernel, groups); /* no more blocks fit, however few it takes */
  groups.lean = is_too_wide(kernel, context->gpu, false);
  if (groups.lean) reorder_all(kernel, groups);
  return true;
}
