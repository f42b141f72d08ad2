/* spread_loads: loads of fragments and copies stand among the products that they run ahead of.
 *
 * needs  THREAD, operations in their last order
 * gives  the same operations; where many warp MMAs follow loads that none of them needs, the loads lie
 *        evenly among the products
 * breaks nothing; loads that a product of the run needs stay in front of it, and so does the whole run where
 *        an order would change what memory or a variable shows
 *
 * Fragments loaded a step ahead live from their load on, those of the step at hand until their last product:
 * written in front of the run, both are alive at once. Spread out, a load takes the registers that finished
 * products leave, which is what lets tiles of 192x192 keep everything in registers. The assembler has an
 * order of its own, but ours gained 1 to 3 % of bf16 products (docs/performance-log.md). Where fragments are
 * rounded between products it lost as much, and it can lose where a scheduler has one warp, whose loads
 * nobody else's products hide: there only runs whose registers are short are changed. */
#include "ir/passes/thread.h"

typedef struct Run {
  GPtrArray *before; /* IrOp*: in front of the run, behind whatever nothing may pass */
  GPtrArray *ops;    /* IrOp*: products, and what is computed for them in between */
  unsigned products;
  unsigned least;      /* products of a run worth the trouble */
  unsigned last;       /* of these, behind its last load: it must arrive before the next run */
  GHashTable *needed;  /* IrValue* that the run reads, and what it reads is computed from */
  GHashTable *written; /* IrValue* of variables that it writes */
} Run;

static bool is_pure(const IrOp *op)
{
  return op->n_results && !op->n_regions && op->code != OP_VAR && !ir_op_effects(op->code);
}

static bool is_load(const IrOp *op)
{
  return op->code == OP_LOAD_MATRIX || op->code == OP_COPY_ASYNC;
}

/* May stand in front of a run and move: the order among those that move stays. */
static bool is_movable(const IrOp *op)
{
  return is_pure(op) || is_load(op) || op->code == OP_COMMIT || op->code == OP_SET;
}

static void note_needed(const IrExpr *expr, void *data)
{
  if (expr->kind == EXPR_VALUE) g_hash_table_add(data, expr->value);
}

static void note_operands(const IrOp *op, GHashTable *set)
{
  for (unsigned i = 0; i < op->n_operands; i++)
    ir_expr_visit(op->operands[i], note_needed, set);
  for (unsigned i = 0; i < op->n_attributes; i++)
    if (op->attributes[i].value) ir_expr_visit(op->attributes[i].value, note_needed, set);
}

static bool gives_any(const IrOp *op, GHashTable *set)
{
  for (unsigned i = 0; i < op->n_results; i++)
    if (g_hash_table_contains(set, op->results[i])) return true;
  return false;
}

static void note_any(const IrExpr *expr, void *data)
{
  GHashTable **sets = data; /* searched, and where what is found goes */
  if (expr->kind == EXPR_VALUE && g_hash_table_contains(sets[0], expr->value))
    g_hash_table_add(sets[1], expr->value);
}

static bool reads_any(const IrOp *op, GHashTable *set)
{
  g_autoptr(GHashTable) found = g_hash_table_new(NULL, NULL);
  GHashTable *sets[] = {set, found};
  for (unsigned i = 0; i < op->n_operands; i++)
    ir_expr_visit(op->operands[i], note_any, sets);
  for (unsigned i = 0; i < op->n_attributes; i++)
    if (op->attributes[i].value) ir_expr_visit(op->attributes[i].value, note_any, sets);
  return g_hash_table_size(found) > 0;
}

/* ---- What moves ---- */

/* What the run needs keeps its place: `moving` gets the rest. false if the two cannot be told apart without
 * changing what memory or a variable holds. */
static bool divide(Run *run, GPtrArray *moving)
{
  for (unsigned i = 0; i < run->ops->len; i++) {
    const IrOp *op = run->ops->pdata[i];
    note_operands(op, run->needed);
    IrValue *variable = ir_written_variable(op);
    if (variable) g_hash_table_add(run->written, variable);
  }
  for (unsigned i = run->before->len; i-- > 0;) { /* from the run upwards: users before what they use */
    IrOp *op = run->before->pdata[i];
    if (gives_any(op, run->needed)) {
      if (!is_pure(op)) return false;
      note_operands(op, run->needed);
    } else {
      g_ptr_array_insert(moving, 0, op);
    }
  }
  for (unsigned i = 0; i < moving->len; i++) {
    const IrOp *op = moving->pdata[i];
    const IrValue *variable = ir_written_variable(op);
    if ((variable && g_hash_table_contains(run->needed, variable)) || reads_any(op, run->written))
      return false;
  }
  return true;
}

/* The product in front of which the load goes. */
static IrOp *place(const Run *run, unsigned load, unsigned loads)
{
  unsigned product = load * (run->products - run->last) / loads;
  for (unsigned i = 0; i < run->ops->len; i++) {
    IrOp *op = run->ops->pdata[i];
    if (op->code == OP_PRODUCT_WARP && product-- == 0) return op;
  }
  return NULL;
}

/* Each load with what is computed for it; what follows the last one goes behind the run. */
static bool spread(Run *run)
{
  g_autoptr(GPtrArray) moving = g_ptr_array_new();
  unsigned loads = 0, load = 0;
  bool rounded = run->products < run->ops->len;
  if (run->products < run->least || run->products <= run->last || rounded || !divide(run, moving))
    return false;
  for (unsigned i = 0; i < moving->len; i++)
    loads += is_load(moving->pdata[i]);
  if (loads < 2) return false;
  IrOp *last = run->ops->pdata[run->ops->len - 1], *behind = last->next;
  for (unsigned i = 0; i < moving->len; i++) {
    IrOp *op = moving->pdata[i];
    ir_op_move(op, last->parent, load < loads ? place(run, load, loads) : behind);
    load += is_load(op);
  }
  return true;
}

/* ---- Runs ---- */

static void forget(Run *run)
{
  g_ptr_array_set_size(run->before, 0);
  g_ptr_array_set_size(run->ops, 0);
  g_hash_table_remove_all(run->needed);
  g_hash_table_remove_all(run->written);
  run->products = 0;
}

/* The run that has ended: what is computed behind its last product is in front of the next one. */
static unsigned finish(Run *run)
{
  g_autoptr(GPtrArray) tail = g_ptr_array_new();
  while (run->ops->len && ((IrOp *)run->ops->pdata[run->ops->len - 1])->code != OP_PRODUCT_WARP)
    g_ptr_array_insert(tail, 0, g_ptr_array_steal_index(run->ops, run->ops->len - 1));
  unsigned done = run->products ? spread(run) : 0;
  forget(run);
  g_ptr_array_extend(run->before, tail, NULL, NULL);
  return done;
}

static unsigned visit_region(IrRegion *region, unsigned least, unsigned last)
{
  g_autoptr(GPtrArray) before = g_ptr_array_new();
  g_autoptr(GPtrArray) ops = g_ptr_array_new();
  g_autoptr(GHashTable) needed = g_hash_table_new(NULL, NULL);
  g_autoptr(GHashTable) written = g_hash_table_new(NULL, NULL);
  Run run = {before, ops, 0, least, last, needed, written};
  unsigned done = 0;
  for (IrOp *op = region->first, *next; op; op = next) {
    next = op->next;
    for (unsigned i = 0; i < op->n_regions; i++)
      done += visit_region(op->regions[i], least, last);
    bool product = op->code == OP_PRODUCT_WARP;
    if (product || (run.products && is_pure(op))) {
      g_ptr_array_add(ops, op);
      run.products += product;
      continue;
    }
    if (run.products) done += finish(&run);
    if (is_movable(op))
      g_ptr_array_add(before, op);
    else
      forget(&run);
  }
  if (run.products) done += finish(&run);
  return done;
}

/* Has each scheduler of an SM two warps of the block at least? */
static bool has_company(const IrFunction *kernel, const Gpu *gpu)
{
  int64_t threads = 0;
  const IrExpr *launch = ir_launch_get(kernel, ATTR_THREADS);
  double schedulers = gpu_fact(gpu, "limits.schedulers");
  return launch && ir_expr_is_int(launch, &threads) && schedulers > 0 &&
         (double)threads >= 2 * schedulers * gpu->warp_size;
}

bool pass_spread_loads(IrModule *module, const IrPassContext *context, GError **error)
{
  IrFunction *kernel = ir_kernel(module);
  if (!kernel || !context->gpu) return true;
  const CostModel *model = context->gpu->model;
  unsigned least = has_company(kernel, context->gpu) ? model->spread_least : model->spread_lone;
  unsigned done = visit_region(kernel->body, least, model->spread_last);
  if (done) ir_remark(context, "loads: spread among %u runs of products", done);
  return true;
}
