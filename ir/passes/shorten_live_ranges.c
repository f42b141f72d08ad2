/* shorten_live_ranges: what is computed for one store is computed right before it.
 *
 * needs  THREAD
 * gives  the same operations, pure ones as late as the first operation that needs them
 * breaks nothing
 *
 * Lowering writes elementwise code tile operation by tile operation, so a chain of ten operations on a
 * 128-register accumulator would keep several such tiles alive. Here each straight-line stretch is rewritten
 * in the order of demand: operations with effects keep their places and pull their operand trees in front of
 * themselves, depth first (the order of Sethi and Ullman, "The generation of optimal code for arithmetic
 * expressions", 1970, without its register counts). Global loads move too, but in groups: those that the next
 * STORES_A_GROUP stores need are issued together, for their number in flight is what hides memory latency. (A
 * tensor may be updated in place, element by element: each chain reads its element before it writes it.)
 * Everything still pending goes in front of an operation that synchronises, writes a variable or owns
 * regions, so no value is read after it changed: chain by chain too, each up to a value that nothing else
 * there needs (what is put into shared memory behind a barrier, say). */
#include "ir/pass.h"

#define STORES_A_GROUP                                                                                       \
  16 /* a thread has this many chains in flight; more cost registers, fewer leave memory idle */

typedef struct {
  GHashTable *pending; /* IrOp* that wait for a use -> whether the loads they need have been issued */
  GPtrArray *order;    /* the same, oldest first; emitted ones stay in the array */
  GPtrArray *stores;   /* of the group being gathered */
} Stretch;

static bool is_movable(const IrOp *op)
{
  if (op->code == OP_LOAD_GLOBAL) return true;
  return op->n_results && !op->n_regions && op->code != OP_VAR && !ir_op_effects(op->code);
}

static bool is_wall(const IrOp *op)
{
  return op->n_regions || op->code == OP_VAR ||
         (ir_op_effects(op->code) & (EFFECT_SYNC | EFFECT_UPDATE | EFFECT_CONTROL | EFFECT_DECLARE));
}

static void place_before(Stretch *stretch, IrOp *op, IrOp *before);

static void place_operand(Stretch *stretch, const IrExpr *expr, IrOp *before)
{
  if (expr->kind == EXPR_VALUE && expr->value->def &&
      g_hash_table_contains(stretch->pending, expr->value->def))
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
  g_hash_table_remove(stretch->pending, op);
  place_operands(stretch, op, before);
  ir_op_move(op, before->parent, before);
}

/* Issues the global loads that an op's operand trees need. */
static void place_loads(Stretch *stretch, const IrOp *op, IrOp *before);

/* A tree may reach an operation along many ways; its loads are issued the first time. */
static void place_loads_of(Stretch *stretch, const IrExpr *expr, IrOp *before)
{
  IrOp *definition = expr->kind == EXPR_VALUE ? expr->value->def : NULL;
  gpointer issued;
  if (definition && g_hash_table_lookup_extended(stretch->pending, definition, NULL, &issued) && !issued) {
    if (definition->code == OP_LOAD_GLOBAL) {
      place_before(stretch, definition, before);
    } else {
      g_hash_table_insert(stretch->pending, definition, GUINT_TO_POINTER(true));
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

static void place_group(Stretch *stretch)
{
  for (unsigned i = 0; i < stretch->stores->len; i++)
    place_loads(stretch, stretch->stores->pdata[i], stretch->stores->pdata[0]);
  for (unsigned i = 0; i < stretch->stores->len; i++)
    place_operands(stretch, stretch->stores->pdata[i], stretch->stores->pdata[i]);
  g_ptr_array_set_size(stretch->stores, 0);
}

/* ---- In front of a wall: two orders, of which the one that keeps fewer values alive is taken ---- */

static void note_used(const IrExpr *expr, void *data)
{
  if (expr->kind == EXPR_VALUE && expr->value->def) g_hash_table_add(data, expr->value->def);
}

static void visit_operands(const IrOp *op, void (*visit)(const IrExpr *, void *), void *data)
{
  for (unsigned i = 0; i < op->n_operands; i++)
    ir_expr_visit(op->operands[i], visit, data);
  for (unsigned i = 0; i < op->n_attributes; i++)
    if (op->attributes[i].value) ir_expr_visit(op->attributes[i].value, visit, data);
}

typedef struct {
  GHashTable *waiting; /* of the stretch's operations, those not in the sequence yet */
  GPtrArray *sequence;
} Chain;

static void append_chain(Chain *chain, IrOp *op);

static void append_definition(const IrExpr *expr, void *data)
{
  Chain *chain = data;
  if (expr->kind == EXPR_VALUE && expr->value->def && g_hash_table_contains(chain->waiting, expr->value->def))
    append_chain(chain, expr->value->def);
}

static void append_chain(Chain *chain, IrOp *op)
{
  g_hash_table_remove(chain->waiting, op);
  visit_operands(op, append_definition, chain);
  g_ptr_array_add(chain->sequence, op);
}

/* Chain by chain: each operation that nothing else here needs, behind all that it needs. Loads come first,
 * since their number in flight is what hides memory latency. */
static GPtrArray *chain_order(const GPtrArray *pending)
{
  g_autoptr(GHashTable) used = g_hash_table_new(NULL, NULL);
  g_autoptr(GHashTable) waiting = g_hash_table_new(NULL, NULL);
  GPtrArray *sequence = g_ptr_array_new();
  Chain chain = {waiting, sequence};
  for (unsigned i = 0; i < pending->len; i++) {
    g_hash_table_add(waiting, pending->pdata[i]);
    visit_operands(pending->pdata[i], note_used, used);
  }
  for (unsigned i = 0; i < pending->len; i++) {
    IrOp *op = pending->pdata[i];
    if (op->code == OP_LOAD_GLOBAL && g_hash_table_contains(waiting, op)) append_chain(&chain, op);
  }
  for (unsigned i = 0; i < pending->len; i++)
    if (g_hash_table_contains(waiting, pending->pdata[i]) && !g_hash_table_contains(used, pending->pdata[i]))
      append_chain(&chain, pending->pdata[i]);
  return sequence;
}

typedef struct {
  GHashTable *last; /* IrOp* -> 1 + place of its last user in the sequence */
  unsigned at;
} Liveness;

static void note_last(const IrExpr *expr, void *data)
{
  Liveness *liveness = data;
  if (expr->kind == EXPR_VALUE && expr->value->def)
    g_hash_table_insert(liveness->last, expr->value->def, GUINT_TO_POINTER(liveness->at + 1));
}

/* Most values alive at once; those without a user in the sequence live on. */
static unsigned peak(const GPtrArray *sequence)
{
  g_autoptr(GHashTable) last = g_hash_table_new(NULL, NULL);
  Liveness liveness = {last, 0};
  for (; liveness.at < sequence->len; liveness.at++)
    visit_operands(sequence->pdata[liveness.at], note_last, &liveness);
  g_autofree unsigned *ending = g_new0(unsigned, sequence->len + 1);
  for (unsigned i = 0; i < sequence->len; i++)
    ending[GPOINTER_TO_UINT(g_hash_table_lookup(last, sequence->pdata[i]))]++; /* 0: never */
  unsigned alive = 0, most = 0;
  for (unsigned i = 0; i < sequence->len; i++) {
    alive++;
    most = MAX(most, alive);
    alive -= ending[i + 1];
  }
  return most;
}

static void place_all(Stretch *stretch, IrOp *before)
{
  g_autoptr(GPtrArray) written = g_ptr_array_new();
  for (unsigned i = 0; i < stretch->order->len; i++)
    if (g_hash_table_contains(stretch->pending, stretch->order->pdata[i]))
      g_ptr_array_add(written, stretch->order->pdata[i]);
  g_autoptr(GPtrArray) chains = chain_order(written);
  const GPtrArray *order = peak(chains) < peak(written) ? chains : written;
  for (unsigned i = 0; i < order->len; i++) {
    g_hash_table_remove(stretch->pending, order->pdata[i]);
    ir_op_move(order->pdata[i], before->parent, before);
  }
  g_ptr_array_set_size(stretch->order, 0);
}

static void reorder(IrRegion *region)
{
  g_autoptr(GHashTable) pending = g_hash_table_new(NULL, NULL);
  g_autoptr(GPtrArray) order = g_ptr_array_new();
  g_autoptr(GPtrArray) stores = g_ptr_array_new();
  Stretch stretch = {pending, order, stores};
  for (IrOp *op = region->first; op; op = op->next) {
    for (unsigned i = 0; i < op->n_regions; i++)
      reorder(op->regions[i]);
    if (is_movable(op)) {
      g_hash_table_insert(pending, op, NULL);
      g_ptr_array_add(order, op);
      continue;
    }
    bool store = op->code == OP_STORE_GLOBAL || op->code == OP_STORE_SHARED;
    if (store) g_ptr_array_add(stores, op);
    if (!store || stores->len == STORES_A_GROUP) place_group(&stretch);
    if (is_wall(op))
      place_all(&stretch, op);
    else if (!store)
      place_operands(&stretch, op, op);
  }
  place_group(&stretch);
  /* what no effect of this region needs keeps its place: outer regions may */
}

bool pass_shorten_live_ranges(IrModule *module, const IrPassContext *context, GError **error)
{
  IrFunction *kernel = ir_kernel(module);
  if (kernel) reorder(kernel->body);
  return true;
}
