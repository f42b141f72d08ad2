/* The verifier's rules for walks of tiles, and for tile schedulers that are sub-kernels. */
#include "ir/verifier.h"

/* How a grid walks tiles that are known at launch. */
static const IrAttributeKey walks[] = {ATTR_RASTER,   ATTR_CLUSTER_M, ATTR_CLUSTER_N, ATTR_SPLIT_K,
                                       ATTR_STREAM_K, ATTR_PINGPONG,  ATTR_CONSUMERS};

void verify_walk(Verifier *verifier, const IrOp *tiles)
{
  for (unsigned i = 0; i < G_N_ELEMENTS(walks); i++)
    if (ir_attribute_int(tiles, walks[i], 1) < 1)
      verify_fault(verifier, &tiles->mark, "count", NULL, "`%s` counts: 1 is the least",
                   ir_attribute_name(walks[i]));
  if (ir_attribute_int(tiles, ATTR_STREAM_K, 1) > 1 && !ir_attribute(tiles, ATTR_STEPS))
    verify_fault(verifier, &tiles->mark, "steps", "such as steps ceil_div(K, 64)",
                 "`stream_k` divides `steps`, which are missing");
  int64_t dynamic = ir_attribute_int(tiles, ATTR_DYNAMIC, 0);
  if (dynamic < 0 || dynamic > 1)
    verify_fault(verifier, &tiles->mark, "dynamic", NULL,
                 "`dynamic` is 1 or 0: blocks claim their tiles, or walk them in a fixed order");
  else if (dynamic && ir_attribute_int(tiles, ATTR_PERSISTENT, 0) < 1)
    verify_fault(verifier, &tiles->mark, "dynamic", "such as persistent 1",
                 "`dynamic` needs `persistent`: a block that has one tile claims no other");
}

/* A scheduler keeps what stands in front of all it does, and starts as a number. */
void verify_kept(Verifier *verifier, const IrOp *op)
{
  int64_t start;
  bool starts = op->n_operands && ir_expr_is_int(op->operands[0], &start);
  if (!op->parent->owner && starts && op->results[0]->type.kind == TYPE_SCALAR) return;
  verify_fault(verifier, &op->mark, "kept", NULL,
               "a variable that is kept stands in a tile scheduler's own body, and starts as a number");
}

/* Numbers of the lanes of a warp: all must be there, which only who writes roles can see to. */
void verify_lanes(Verifier *verifier, const IrOp *op)
{
  const IrModule *module = verifier->module;
  bool flag = op->code == OP_COUNT_LANES;
  for (unsigned i = 0; i < op->n_operands; i++) {
    IrType type = ir_expr_type(op->parent->function, op->operands[i]);
    bool number = type.kind == TYPE_SCALAR && number_class(type.element) != NUMBER_FLOAT;
    if (type.kind != TYPE_NONE && !number)
      verify_fault(verifier, &op->mark, "element-type", NULL, "`%s` takes %s", ir_op_info(op->code)->name,
                   flag ? "a condition" : "numbers, s32");
  }
  if (module->level == IR_TILE && op->parent->function == ir_kernel(module))
    verify_fault(verifier, &op->mark, "scheduler", "a sub-kernel that `tiles` names",
                 "`%s` stands in tile schedulers, which all lanes of a warp ask", ir_op_info(op->code)->name);
}

/* A sub-kernel as scheduler: (index, arguments) -> (whether there is such a tile, coordinates). */
void verify_scheduler(Verifier *verifier, const IrOp *op, const IrFunction *scheduler)
{
  unsigned coordinates = op->regions[0]->n_arguments;
  if (scheduler->n_parameters != op->n_operands)
    verify_fault(verifier, &op->mark, "scheduler", NULL,
                 "`@%s` has %u parameters: the index of a tile, and what `tiles` gives it, %u here",
                 scheduler->name, scheduler->n_parameters, op->n_operands - 1);
  else if (scheduler->parameters[0]->type.kind != TYPE_SCALAR)
    verify_fault(verifier, &op->mark, "scheduler", NULL,
                 "the first parameter of `@%s` is the index of a tile, an s32", scheduler->name);
  if (scheduler->n_results != coordinates + 1 || coordinates > IR_MAX_RANK)
    verify_fault(verifier, &op->mark, "scheduler", NULL,
                 "`@%s` has to give a bool, whether there is such a tile, and %u coordinates",
                 scheduler->name, coordinates);
  else
    for (unsigned i = 0; i < scheduler->n_results; i++)
      if (scheduler->results[i].kind != TYPE_SCALAR ||
          (number_class(scheduler->results[i].element) == NUMBER_BOOLEAN) != (i == 0))
        verify_fault(verifier, &op->mark, "scheduler", NULL, "result %u of `@%s` is to be %s", i + 1,
                     scheduler->name, i ? "a coordinate, s32" : "a bool");
  if (!ir_attribute(op, ATTR_PERSISTENT))
    verify_fault(verifier, &op->mark, "scheduler", NULL,
                 "the tiles of a sub-kernel need `persistent`: their number is not known at launch");
  for (unsigned i = 0; i < G_N_ELEMENTS(walks); i++)
    if (ir_attribute_int(op, walks[i], 1) > 1)
      verify_fault(verifier, &op->mark, "scheduler", NULL,
                   "`%s` needs raster or linear: `@%s` gives tiles one by one", ir_attribute_name(walks[i]),
                   scheduler->name);
}
