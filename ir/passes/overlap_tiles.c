/* overlap_tiles: a ring that threads fill runs on from one tile to the next.
 *
 * needs  STAGED from pipeline_fragments: a tile loop whose k loop ends with one that copies nothing, of as
 *        many steps as the ring is ahead
 * gives  cursors that live as long as the tile loop, which becomes `pipelined`, ahead: the copies of its first slots are
 *        stage 0 in the last steps of k, everything else stage 1 but for the tile's coordinates, and the groups of copies,
 *        which both have
 * breaks nothing; tile loops of any other form stay as they are, as does a kernel whose blocks have one tile
 *
 * So a tile's results are stored while the next one's operands are on their way, and its first product does
 * not wait for memory. What kept the ring's order within a tile keeps it here: a slot is filled again behind
 * the barrier of the step after the one that read it, the first slots of the next tile behind those of the
 * last steps. */
#include "ir/facts.h"
#include "ir/mechanism.h"
#include "ir/pass.h"

typedef struct Overlap {
  IrModule *module;
  IrOp *tiles;         /* the loop over tiles */
  IrOp *write, *read;  /* its cursors */
  IrOp *early;         /* the loop that fills the first slots */
  IrOp *steady, *last; /* k loops, with and without copies */
  IrOp *drain;         /* the wait for all copies behind them */
  int64_t depth;       /* steps of k in elements: K */
} Overlap;

/* ---- Which loops ---- */

/* low .. high step, all known. */
static bool constant_loop(const IrOp *loop, int64_t *low, int64_t *high, int64_t *step)
{
  *step = 1;
  return loop && loop->code == OP_FOR && ir_expr_is_int(loop->operands[0], low) &&
         ir_expr_is_int(loop->operands[1], high) &&
         (loop->n_operands < 3 || ir_expr_is_int(loop->operands[2], step)) && *step >= 1;
}

static bool moves(const IrOp *op, const IrOp *cursor)
{
  return ir_steps_cursor(op, cursor->results[0]);
}

/* Copies, one group, one step of the cursor. */
static bool fills(const Overlap *overlap, const IrOp *loop)
{
  unsigned groups = 0, steps = 0;
  for (const IrOp *op = loop->regions[0]->first; op; op = op->next) {
    if (op->code == OP_COPY && !ir_is_grouped_copy(op)) return false;
    if (op->code == OP_COMMIT)
      groups++;
    else if (moves(op, overlap->write))
      steps++;
    else if (op->code != OP_COPY)
      return false;
  }
  return groups == 1 && steps == 1;
}

static const IrOp *find_op(const IrOp *loop, IrOpcode code)
{
  for (const IrOp *op = loop->regions[0]->first; op; op = op->next)
    if (op->code == code) return op;
  return NULL;
}

static IrOp *skip_codes(IrOp *op, const IrOpcode *codes, unsigned n)
{
  for (; op; op = op->next) {
    unsigned i = 0;
    while (i < n && op->code != codes[i])
      i++;
    if (i == n) break;
  }
  return op;
}

/* Accumulators and the two cursors, in any order. */
static IrOp *match_cursors(Overlap *overlap, IrOp *op)
{
  for (; op && (op->code == OP_VAR || op->code == OP_CURSOR); op = op->next) {
    if (op->code != OP_CURSOR) continue;
    if (overlap->read) return NULL;
    *(overlap->write ? &overlap->read : &overlap->write) = op;
  }
  return overlap->read ? op : NULL;
}

/* The k loops: the ring is `ahead` steps ahead in the first, and the second has as many. */
static bool match_steps(Overlap *overlap, int64_t ahead)
{
  int64_t low, end, from, step, last_step;
  if (!constant_loop(overlap->steady, &low, &end, &step) ||
      !constant_loop(overlap->last, &from, &overlap->depth, &last_step))
    return false;
  const IrOp *product = find_op(overlap->last, OP_MMA);
  return low == 0 && from == end && step == last_step && overlap->depth - end == ahead * step &&
         find_op(overlap->steady, OP_COPY) && product && !find_op(overlap->last, OP_COPY) &&
         find_op(overlap->last, OP_COMMIT);
}

/* let..., accumulators and cursors, early copies, first fragments, k loops, wait: then whatever the tile does
 * with its result. */
static bool match(Overlap *overlap)
{
  static const IrOpcode lets[] = {OP_LET}, fragments[] = {OP_WAIT_GROUP, OP_SYNC, OP_GET, OP_VAR};
  IrOp *op = skip_codes(overlap->tiles->regions[0]->first, lets, 1);
  overlap->early = match_cursors(overlap, op);
  int64_t low, ahead, step;
  if (!overlap->early || !constant_loop(overlap->early, &low, &ahead, &step) || low != 0 || step != 1 ||
      !fills(overlap, overlap->early))
    return false;
  overlap->steady = skip_codes(overlap->early->next, fragments, G_N_ELEMENTS(fragments));
  overlap->last = overlap->steady ? overlap->steady->next : NULL;
  if (!match_steps(overlap, ahead)) return false;
  overlap->drain = overlap->last->next;
  return overlap->drain && overlap->drain->code == OP_WAIT_GROUP && overlap->drain->next &&
         overlap->drain->next->code == OP_SYNC;
}

/* ---- The ring, carried over ---- */

static void set_stage(IrOp *op, IrModule *module, int stage)
{
  ir_attribute_set(op, ATTR_STAGE, ir_int(module, stage));
}

/* In the last steps the ring goes on with the next tile: the copies of the steady loop, K less. */
static void fill_next(const Overlap *overlap)
{
  IrModule *module = overlap->module;
  IrOp *commit = (IrOp *)find_op(overlap->last, OP_COMMIT);
  for (IrOp *op = overlap->last->regions[0]->first; op; op = op->next)
    if (op != commit) set_stage(op, module, 1);
  g_autoptr(GHashTable) map = g_hash_table_new(NULL, NULL);
  IrExpr *k = ir_value(module, overlap->last->regions[0]->arguments[0]);
  g_hash_table_insert(map, overlap->steady->regions[0]->arguments[0],
                      ir_binary(module, OPERATOR_SUB, k, ir_int(module, overlap->depth)));
  IrBuilder builder = ir_builder_before(commit);
  builder.mark = overlap->last->mark;
  for (const IrOp *op = overlap->steady->regions[0]->first; op; op = op->next)
    if (op->code == OP_COPY || moves(op, overlap->write))
      set_stage(ir_op_clone(&builder, op, map), module, 0);
}

/* What copied the first slots goes; the cursors do not begin anew. */
static void carry_ring(const Overlap *overlap)
{
  IrModule *module = overlap->module;
  ir_op_move(overlap->write, overlap->tiles->parent, overlap->tiles);
  ir_op_move(overlap->read, overlap->tiles->parent, overlap->tiles);
  ir_op_remove(overlap->early);
  /* the last step had no next slot to go on to */
  IrBuilder builder = ir_builder_before(overlap->drain);
  builder.mark = overlap->last->mark;
  ir_emit(&builder, OP_ADVANCE, 1, ir_value(module, overlap->read->results[0]));
  ir_op_remove(overlap->drain);
}

/* The tile's coordinates, with which it begins, are both stages'. */
static void set_stages(const Overlap *overlap)
{
  IrModule *module = overlap->module;
  IrOp *op = overlap->tiles->regions[0]->first;
  while (op->code == OP_LET)
    op = op->next;
  for (; op; op = op->next)
    if (op != overlap->last) set_stage(op, module, 1);
  ir_attribute_set(overlap->tiles, ATTR_PIPELINED, ir_int(module, 1));
  ir_attribute_set(overlap->tiles, ATTR_AHEAD, ir_name(module, "guarded"));
}

static void visit_region(IrModule *module, const IrPassContext *context, IrRegion *region)
{
  for (IrOp *op = region->first; op; op = op->next) {
    for (unsigned i = 0; i < op->n_regions; i++)
      visit_region(module, context, op->regions[i]);
    Overlap overlap = {.module = module, .tiles = op};
    if (op->code != OP_FOR || op->n_operands < 3 || !match(&overlap)) continue;
    fill_next(&overlap);
    carry_ring(&overlap);
    set_stages(&overlap);
    ir_remark(context, "tiles: the ring runs on from one to the next");
  }
}

bool pass_overlap_tiles(IrModule *module, const IrPassContext *context, GError **error)
{
  IrFunction *kernel = ir_kernel(module);
  if (kernel) visit_region(module, context, kernel->body);
  return true;
}
