#include "ir/passes/place_sums.h"
#include "ir/mechanism.h"

typedef struct {
  IrModule *module;
  IrValue *sum;
  const Layout *registers; /* what a read of it has */
  IrExpr *read;            /* in the place of the sum in the op at hand, or NULL */
} Sum;

static void find_sum(const IrExpr *expr, void *data)
{
  Sum *sum = data;
  if (expr->kind == EXPR_VALUE && expr->value == sum->sum) sum->read = ir_value(sum->module, sum->sum);
}

static IrExpr *replace(const IrExpr *leaf, void *data)
{
  const Sum *sum = data;
  return leaf->kind == EXPR_VALUE && leaf->value == sum->sum ? sum->read : NULL;
}

/* Products and the declaration take the sum where it is; so does what writes it as a whole. */
static unsigned first_read(const IrOp *op)
{
  return op->code == OP_MMA || op->code == OP_SET ? 1 : 0;
}

static void read_in_front(Sum *sum, IrOp *op)
{
  sum->read = NULL;
  for (unsigned i = first_read(op); i < op->n_operands; i++)
    ir_expr_visit(op->operands[i], find_sum, sum);
  if (!sum->read) return;
  IrBuilder builder = ir_builder_before(op);
  builder.mark = op->mark;
  IrOp *get = ir_emit(&builder, OP_GET, 1, sum->read);
  IrType type = sum->sum->type;
  type.layout = sum->registers;
  sum->read = ir_value(sum->module, ir_result(get, sum->sum->name, type));
  for (unsigned i = first_read(op); i < op->n_operands; i++)
    op->operands[i] = ir_expr_map(sum->module, op->operands[i], replace, sum);
}

/* A sum that is overwritten is put back. */
static void write_back(IrOp *op, const IrValue *sum)
{
  if (op->code == OP_SET && op->operands[0]->kind == EXPR_VALUE && op->operands[0]->value == sum)
    op->code = OP_PUT;
}

void place_sums(IrModule *module, const GPtrArray *ops)
{
  for (unsigned i = 0; i < ops->len; i++) {
    const IrOp *product = ops->pdata[i];
    const Mechanism *mechanism = product->code == OP_MMA ? ir_mechanism_of(product) : NULL;
    if (!mechanism || mechanism->accumulator != ACCUMULATOR_MEMORY) continue;
    IrValue *value = product->operands[0]->value;
    if (ir_place_of(&value->type) == IN_ACCUMULATORS) continue; /* another product's too */
    Sum sum = {.module = module, .sum = value, .registers = value->type.layout};
    for (unsigned j = 0; j < ops->len; j++) {
      read_in_front(&sum, ops->pdata[j]);
      write_back(ops->pdata[j], value);
    }
    value->type.layout = layout_cells(module->arena, (unsigned)ir_tile_extent(&value->type, 0),
                                      (unsigned)ir_tile_extent(&value->type, 1), mechanism->warps);
  }
}
