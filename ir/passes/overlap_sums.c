/* overlap_sums: a step's sum is added while the next one is multiplied.
 *
 * needs  STAGED without waits: a k loop whose warpgroup MMA goes to a tile of its own and is added by ordinary
 *        instructions, multiplied by scales of the step or not. What is read of the step for that, in slots or memory, is read
 *        in front of the product. Unscaled, the loop's length is known
 * gives  the loop `pipelined` in runs: the product is stage 0, its addition and the step that frees its slot, by a cursor
 *        that trails the reader's, stage 1; so there are two such tiles in turn, and the next step's product is issued before
 *        this one's is waited for
 *        Where three sums and the scales do not fit a thread's registers, or a step has several products, steps are written
 *        out, so that what the next one waits for and computes first stands among this one's additions
 * breaks nothing; loops of any other form stay as they are
 *
 * Without this a warpgroup multiplies, waits, adds and asks for the next slot, one after the other; only
 * other warpgroups' products fill the tensor cores meanwhile. */
#include "ir/facts.h"
#include "ir/mechanism.h"
#include "ir/pass.h"
#include "ir/passes/role_registers.h"
#include "ir/passes/trailing.h"

/* Steps that are written out. The last one's product is waited for before the loop goes round: ptxas does not follow what
 * is in flight from one iteration to the next, and then serialises all products (C7514). */
#define RUN 4

typedef struct {
  IrModule *module;
  const IrPassContext *context;
  const IrFunction *kernel;
  IrOp *role;
  IrOp *loop;
  IrOp *part; /* declares the tile that a step's sum goes to */
  IrOp *product;
  unsigned reads; /* registers of what is read for the addition */
  IrOp *scaled;   /* an operation on the sum other than its addition; NULL: none */
  IrOp *behind;   /* the reader's step to the next slot, which ends the body */
} Sums;

/* ---- Which loops ---- */

/* What an addition wants beside the sum: read, and combined with what else was read. */
static bool reads_scales(const Sums *sums, IrOp *op)
{
  bool reads = op->code == OP_GET || op->code == OP_LOAD || op->code == OP_MUL || op->code == OP_CAST;
  if (!reads || op->n_results != 1 || op->results[0]->variable) return false;
  if (op->results[0]->type.kind == TYPE_TILE && !op->results[0]->type.layout) return false;
  return !sums->part || !ir_op_uses(op, sums->part->results[0]);
}

/* Takes note of an op of the body; false: it is not of the form. */
static bool take(Sums *sums, IrOp *op)
{
  if (op->n_regions || sums->behind) return false;
  if (op->code == OP_VAR && !sums->product && !sums->part && !op->n_operands)
    sums->part = op;
  else if (!sums->product && ir_is_grouped_product(op))
    sums->product = op;
  else if (reads_scales(sums, op))
    sums->reads += op->results[0]->type.kind == TYPE_TILE ? layout_registers(op->results[0]->type.layout) : 1;
  else if (op->code == OP_ADVANCE && sums->product)
    sums->behind = op;
  else if (sums->product && (op->code == OP_MUL || op->code == OP_FMA))
    sums->scaled = op;
  else
    return sums->product && (op->code == OP_ADD || op->code == OP_SET);
  return true;
}

static bool match(Sums *sums)
{
  IrRegion *body = sums->loop->regions[0];
  for (IrOp *op = body->first; op; op = op->next)
    if (!take(sums, op)) return false;
  /* sums that nobody scales gained where the length is known; elsewhere nobody has measured it */
  if (!sums->scaled && (ir_trip_count(sums->loop) < 2 || sums->reads)) return false;
  const IrExpr *cursor = sums->behind ? ir_slot_cursor(sums->product->operands[1]) : NULL;
  return sums->part && cursor && cursor->value == sums->behind->operands[0]->value;
}

static bool registers_fit(const Sums *sums)
{
  const IrType *tile = &sums->part->results[0]->type;
  unsigned few = MIN(sums->reads, sums->context->gpu->model->overlap_scales);
  return tile->layout && 3 * layout_registers(tile->layout) + sums->reads - few +
                                 sums->context->gpu->model->overlap_registers <=
                             role_registers(sums->kernel, sums->context->gpu, sums->role);
}

/* ---- The form that write_pipelines takes ---- */

/* What a step reads of its slot it reads before its product runs: the slot is free when that has ended. Memory is read while
 * the slot fills. */
static void read_ahead(const Sums *sums)
{
  IrRegion *body = sums->product->parent;
  IrOp *first = body->first;
  for (IrOp *op = first, *next; op; op = next) {
    next = op->next;
    if (op->code == OP_LOAD && op != first) ir_op_move(op, body, first);
  }
  for (IrOp *op = sums->product->next, *next; op; op = next) {
    next = op->next;
    if (op->code == OP_GET) ir_op_move(op, body, sums->product);
  }
}

/* The product of a step runs ahead; what frees its slot, a step of a cursor that trails, and adds its sum is a step behind. */
static void set_stages(const Sums *sums)
{
  IrModule *module = sums->module;
  IrOp *product = sums->product;
  IrExpr *free = trailing_cursor(module, sums->behind->operands[0]);
  IrBuilder builder = ir_builder_after(product);
  builder.mark = sums->behind->mark;
  ir_emit(&builder, OP_ADVANCE, 1, free);
  read_ahead(sums);
  bool ahead = true;
  for (IrOp *op = product->parent->first; op; op = op->next) {
    ir_attribute_set(op, ATTR_STAGE, ir_int(module, ahead || op == sums->behind ? 0 : 1));
    if (op == product) ahead = false;
  }
  ir_attribute_set(sums->loop, ATTR_PIPELINED, ir_int(module, RUN));
}

/* ---- Steps one after the other ---- */

/* Does a step multiply into tiles of its own that are scaled and added, with no way but straight through it? Where it fills the
 * slot itself, nothing can be had of the next one; with scales that threads load from memory, four steps of 128 x 128 spilled 616
 * bytes. */
static bool adds_scaled(const IrRegion *body)
{
  unsigned products = 0;
  bool scales = false;
  for (const IrOp *op = body->first; op; op = op->next) {
    const IrOp *sum = ir_is_grouped_product(op) ? op->operands[0]->value->def : NULL;
    if (op->n_regions || op->code == OP_BREAK_IF || op->code == OP_PUT || op->code == OP_LOAD ||
        (sum && sum->parent != body))
      return false;
    products += sum != NULL;
    scales |= products && op->code == OP_FMA;
  }
  return scales && body->last->code == OP_ADVANCE;
}

static void visit_region(const Sums *kernel, IrRegion *region)
{
  IrModule *module = kernel->module;
  for (IrOp *op = region->first, *next; op; op = next) {
    next = op->next;
    Sums sums = *kernel;
    if (op->code == OP_ROLE) sums.role = op;
    for (unsigned i = 0; i < op->n_regions; i++)
      visit_region(&sums, op->regions[i]);
    sums.loop = op;
    if (op->code != OP_FOR || !sums.role || ir_attribute(op, ATTR_PIPELINED)) continue;
    if (match(&sums) && registers_fit(&sums)) {
      set_stages(&sums);
      ir_remark(sums.context, "sums: a step's is added while the next one is multiplied");
    } else if (adds_scaled(op->regions[0])) {
      ir_attribute_set(op, ATTR_PIPELINED, ir_int(module, RUN));
      ir_remark(sums.context, "sums: %d steps of them are written out", RUN);
    }
  }
}

bool pass_overlap_sums(IrModule *module, const IrPassContext *context, GError **error)
{
  IrFunction *kernel = ir_kernel(module);
  Sums sums = {.module = module, .context = context, .kernel = kernel};
  if (kernel) visit_region(&sums, kernel->body);
  return true;
}
