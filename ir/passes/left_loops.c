#include "ir/passes/left_loops.h"

const IrOp *loop_around(const IrOp *op)
{
  const IrOp *owner = op->parent->owner;
  while (owner && owner->code != OP_LOOP && owner->code != OP_FOR)
    owner = owner->parent->owner;
  return owner;
}

typedef struct {
  const IrOp *loop;
  bool found;
} Exit;

static void find_exit(IrOp *op, void *data)
{
  Exit *exit = data;
  exit->found |= op->code == OP_BREAK_IF && loop_around(op) == exit->loop;
}

bool loop_is_left(const IrOp *loop)
{
  Exit exit = {.loop = loop};
  ir_region_visit(loop->regions[0], find_exit, &exit);
  return exit.found;
}

static void collect(IrOp *op, void *data)
{
  if (op->code == OP_FOR && loop_is_left(op)) g_ptr_array_add(data, op);
}

static void open_loop(IrOp *loop)
{
  IrModule *module = loop->parent->function->module;
  IrRegion *body = loop->regions[0];
  IrValue *index = body->arguments[0];
  IrExpr *step = loop->n_operands > 2 ? loop->operands[2] : ir_int(module, 1);
  IrBuilder builder = ir_builder_before(loop);
  builder.mark = loop->mark;
  IrExpr *high = ir_emit_value(&builder, OP_LET, index->type, "end", 1, loop->operands[1]);
  IrExpr *at = ir_emit_value(&builder, OP_VAR, index->type, index->name, 1, loop->operands[0]);
  at->value->variable = true;
  IrRegion *opened = ir_region_add(ir_emit(&builder, OP_LOOP, 0));
  IrBuilder inner = ir_builder_at_end(opened);
  inner.mark = loop->mark;
  ir_emit(&inner, OP_BREAK_IF, 1, ir_binary(module, OPERATOR_GE, at, high));
  for (IrOp *op = body->first, *next; op; op = next) {
    next = op->next;
    ir_op_move(op, opened, NULL);
  }
  ir_replace_uses(opened, index, at);
  inner = ir_builder_at_end(opened);
  inner.mark = loop->mark;
  ir_emit(&inner, OP_SET, 2, at, ir_binary(module, OPERATOR_ADD, at, step));
  ir_op_remove(loop);
}

void open_left_loops(IrFunction *kernel)
{
  g_autoptr(GPtrArray) loops = g_ptr_array_new();
  ir_region_visit(kernel->body, collect, loops);
  for (unsigned i = 0; i < loops->len; i++)
    open_loop(loops->pdata[i]);
}
