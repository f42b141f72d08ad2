/* overlap_widening: weights of a step are widened while the products of the step before run.
 *
 * needs  STAGED without waits: a k loop that asks for it (`early 1`), whose warpgroup MMA takes from registers what ordinary instructions compute of a slot, and adds
 *        to a sum that lives on, or to one of the step, which other instructions scale and add
 * gives  the loop `pipelined` in runs: all up to the product is stage 0, what follows it and the step that frees its slot, by a
 *        cursor that trails the reader's, stage 1. So the registers of the next step's operand are written, and its product
 *        issued, before this one's is waited for; loads from memory stand in front of the wait for the slot
 * breaks nothing; loops of any other form stay as they are, as do those whose operands of two steps do not fit a thread's registers
 *
 * Without this a warpgroup waits for its slot, widens, multiplies and waits, one after the other, and only another one keeps the tensor cores
 * busy meanwhile. Beside few rows of activations an SM has as many warpgroups as want it, beside 64 it has two: who writes the loop knows. */
#include "ir/facts.h"
#include "ir/mechanism.h"
#include "ir/pass.h"
#include "ir/passes/role_registers.h"
#include "ir/passes/trailing.h"

/* Steps that are written out: nothing is in flight from run to run (overlap_sums). */
#define RUN 4

typedef struct {
  IrModule *module;
  const IrPassContext *context;
  const IrFunction *kernel;
  IrOp *role;
  IrOp *loop;
  IrOp *product;
  IrOp *behind; /* the reader's step to the next slot, which ends the body */
  bool part;    /* the product's sum is one of the step */
} Widening;

/* ---- Which loops ---- */

static bool is_plain(const IrOp *op)
{
  switch (op->code) {
  case OP_VAR:
  case OP_GET:
  case OP_LOAD:
  case OP_CAST:
  case OP_SUB:
  case OP_MUL:
  case OP_ADD:
  case OP_FMA:
  case OP_SET: return !op->n_regions;
  default: return false;
  }
}

/* Takes note of an op of the body; false: it is not of the form. */
static bool take(Widening *widening, IrOp *op)
{
  if (widening->behind) return false;
  /* floats of 8 bits are widened by few instructions; theirs took 1.04 of the time */
  if (op->code == OP_GET && op->n_results && number_is_small_float(op->results[0]->type.element))
    return false;
  if (ir_is_grouped_product(op)) {
    bool first = !widening->product;
    widening->product = op;
    return first;
  }
  if (op->code != OP_ADVANCE || !widening->product) return is_plain(op);
  widening->behind = op;
  return true;
}

/* Is the operand computed in the step, not as it lies in the slot? */
static bool computes_operand(const Widening *widening)
{
  const IrExpr *operand = widening->product->operands[1];
  const IrOp *source = operand->kind == EXPR_VALUE ? operand->value->def : NULL;
  return source && source->parent == widening->product->parent && source->code != OP_GET &&
         !operand->value->variable;
}

static bool match(Widening *widening)
{
  IrRegion *body = widening->loop->regions[0];
  for (IrOp *op = body->first; op; op = op->next)
    if (!take(widening, op)) return false;
  if (!widening->behind || !computes_operand(widening)) return false;
  const IrExpr *cursor = ir_slot_cursor(ir_untransposed(widening->product->operands[2]));
  if (!cursor || cursor->value != widening->behind->operands[0]->value) return false;
  const IrValue *sum = widening->product->operands[0]->value;
  widening->part = sum->def->parent == body;
  for (IrOp *op = body->first; op && !widening->part; op = op->next)
    if (op != widening->product && ir_op_uses(op, sum)) return false;
  return true;
}

/* Two operands of the product are alive, of which the second takes the place of the words that it is widened from, and of sums one, or two
 * beside the one that lives on. Of room besides as much again as sums that overlap want: in three blocks an SM, and beside 200 columns and more,
 * steps that wait are as fast or faster. */
static bool registers_fit(const Widening *widening)
{
  const IrType *sum = &widening->product->operands[0]->value->type;
  const IrType *operand = &widening->product->operands[1]->value->type;
  if (!sum->layout || !operand->layout) return false;
  unsigned words =
      (unsigned)(number_bytes_of(operand->element, layout_registers(operand->layout)) / sizeof(uint32_t));
  unsigned sums = layout_registers(sum->layout) * (widening->part ? 3 : 1);
  return sums + 2 * (words + widening->context->gpu->model->overlap_registers) <=
         role_registers(widening->kernel, widening->context->gpu, widening->role);
}

/* ---- The form that write_pipelines takes ---- */

static void set_stages(const Widening *widening)
{
  IrModule *module = widening->module;
  IrOp *product = widening->product;
  IrRegion *body = product->parent;
  IrExpr *free = trailing_cursor(module, widening->behind->operands[0]);
  IrBuilder builder = ir_builder_after(product);
  builder.mark = widening->behind->mark;
  ir_emit(&builder, OP_ADVANCE, 1, free);
  IrOp *first = body->first;
  for (IrOp *op = first, *next; op; op = next) {
    next = op->next;
    if (op->code == OP_LOAD && op != first) ir_op_move(op, body, first);
  }
  bool ahead = true;
  for (IrOp *op = body->first; op; op = op->next) {
    bool now = ahead || op == widening->behind;
    ir_attribute_set(op, ATTR_STAGE, ir_int(module, now ? 0 : 1));
    if (op == product) ahead = false;
  }
  ir_attribute_set(widening->loop, ATTR_PIPELINED, ir_int(module, RUN));
  ir_attribute_set(widening->loop, ATTR_AHEAD, ir_name(module, "loads"));
}

static void visit_region(const Widening *kernel, IrRegion *region)
{
  for (IrOp *op = region->first, *next; op; op = next) {
    next = op->next;
    Widening widening = *kernel;
    if (op->code == OP_ROLE) widening.role = op;
    for (unsigned i = 0; i < op->n_regions; i++)
      visit_region(&widening, op->regions[i]);
    widening.loop = op;
    if (op->code != OP_FOR || !widening.role || ir_attribute(op, ATTR_PIPELINED)) continue;
    if (ir_attribute_int(op, ATTR_EARLY, 0) != 1) continue;
    if (!match(&widening) || !registers_fit(&widening)) continue;
    set_stages(&widening);
    ir_remark(widening.context, "products: a step's operand is widened while the step before is multiplied");
  }
}

bool pass_overlap_widening(IrModule *module, const IrPassContext *context, GError **error)
{
  (void)error;
  IrFunction *kernel = ir_kernel(module);
  Widening widening = {.module = module, .context = context, .kernel = kernel};
  if (kernel) visit_region(&widening, kernel->body);
  return true;
}
