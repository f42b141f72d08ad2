#include "ir/passes/value_loads.h"
#include "ir/facts.h"

typedef struct {
  const IrFunction *kernel;
  const IrOp *channel;
  bool in_turn;
  unsigned takes, seen; /* of the text; behind a fill, in its region */
} Turns;

static bool takes(const IrOp *op, const IrOp *channel)
{
  return op->code == OP_TAKE && g_str_equal(op->operands[0]->name, channel->symbol);
}

static bool fills(const Turns *turns, const IrOp *op)
{
  IrOp *channel = NULL;
  return op->code == OP_FILL && ir_slot_of(turns->kernel, op->operands[0], &channel) &&
         channel == turns->channel;
}

/* How often the op takes the channel whenever it runs: itself, or in what it takes. */
static unsigned takes_within(const IrOp *op, const IrOp *channel)
{
  unsigned n = takes(op, channel);
  for (const IrOp *inner = op->code == OP_TAKE ? op->regions[0]->first : NULL; inner; inner = inner->next)
    n += takes_within(inner, channel);
  return n;
}

/* In the region of a fill: a run of fills, a take, and so on. */
static void check_region(Turns *turns, const IrRegion *region)
{
  bool full = false;
  for (const IrOp *op = region->first; op; op = op->next) {
    unsigned n = takes_within(op, turns->channel);
    if (fills(turns, op)) {
      turns->in_turn &= !full || (op->previous && fills(turns, op->previous));
      full = true;
    } else if (n) {
      turns->in_turn &= full && n == 1;
      turns->seen += n;
      full = false;
    }
  }
  turns->in_turn &= !full;
}

static void visit(IrOp *op, void *data)
{
  Turns *turns = data;
  const IrOp *before = op->previous;
  turns->takes += takes(op, turns->channel);
  while (before && !fills(turns, before))
    before = before->previous;
  if (fills(turns, op) && !before) check_region(turns, op->parent);
}

bool channel_in_turn(const IrFunction *kernel, const IrOp *channel)
{
  Turns turns = {kernel, channel, true, 0, 0};
  ir_region_visit(kernel->body, visit, &turns);
  return turns.in_turn && turns.takes == turns.seen;
}

IrOp *fill_with_loaded(IrOp *fill)
{
  IrBuilder builder = ir_builder_before(fill);
  builder.mark = fill->mark;
  IrType type = ir_expr_type(fill->parent->function, fill->operands[0]);
  type.layout = NULL;
  IrExpr *loaded = ir_emit_value(&builder, OP_LOAD, type, "loaded", 1, fill->operands[1]);
  IrOp *value = ir_emit(&builder, OP_FILL, 2, fill->operands[0], loaded);
  ir_op_remove(fill);
  return value;
}
