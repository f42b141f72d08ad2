/* The GEMM template's part that only the graph knows: operands' strides, batches and the epilogue. */
#include "generator/kernel.h"
#include "generator/steps.h"

typedef struct {
  IrExpr *batch, *row, *column; /* where the tile starts */
  int64_t bm, bn;
} Place;

/* Tile of a rank-3 tensor over [batch, M, N]; a broadcast dimension has extent 1 and is read at 0. */
static IrExpr *corner(StepScope *scope, IrValue *tensor, int64_t *extent)
{
  const Place *place = scope->data;
  IrModule *module = scope->build->module;
  IrExpr *zero = ir_int(module, 0), *at[3] = {place->batch, place->row, place->column};
  int64_t tile[3] = {1, place->bm, place->bn}, stride;
  for (unsigned d = 0; d < 3; d++)
    if (ir_expr_is_int(tensor->type.strides[d], &stride) && stride == 0) {
      at[d] = zero;
      tile[d] = 1;
    }
  extent[0] = tile[1];
  extent[1] = tile[2];
  return ir_index(module, ir_value(module, tensor), 3, at[0], at[1], at[2]);
}

static IrExpr *load_input(StepScope *scope, unsigned input)
{
  IrModule *module = scope->build->module;
  int64_t extent[2];
  IrValue *tensor = scope->tensors[input];
  IrExpr *access = corner(scope, tensor, extent);
  return ir_emit_value(&scope->builder, OP_LOAD, ir_tile(module, tensor->type.element, 2, extent, NULL),
                       tensor->name, 1, access);
}

static bool store_outputs(StepScope *scope)
{
  KernelBuild *build = scope->build;
  StepWriter writer = {&scope->builder, build->math, build->fast, build->error};
  for (unsigned i = 0; i < build->op->n_outputs; i++) {
    IrValue *tensor = scope->tensors[build->op->n_inputs + i];
    int64_t extent[2];
    IrExpr *access = corner(scope, tensor, extent);
    IrExpr *value = scope_operand(scope, &build->op->outputs[i].value);
    value = step_convert(&writer, value, tensor->type.element);
    ir_emit(&scope->builder, OP_STORE, 2, access, value);
  }
  return true;
}

static bool write_epilogue(KernelBuild *build, int64_t bm, int64_t bn)
{
  StepScope scope = {0};
  scope_open(&scope, build, "epilogue");
  IrModule *module = build->module;
  int64_t extent[2] = {bm, bn};
  IrValue *acc =
      ir_parameter_new(scope.function, "acc", ir_tile(module, build->op->gemm.acc_type, 2, extent, NULL));
  Place place = {.bm = bm, .bn = bn};
  place.batch = ir_value(module, ir_parameter_new(scope.function, "batch", ir_scalar(NUMBER_S32)));
  place.row = ir_value(module, ir_parameter_new(scope.function, "row", ir_scalar(NUMBER_S32)));
  place.column = ir_value(module, ir_parameter_new(scope.function, "column", ir_scalar(NUMBER_S32)));
  scope.anchor = ir_value(module, acc);
  scope.load = load_input;
  scope.data = &place;
  scope_add_tensors(&scope);
  if (!scope_write_steps(&scope, false) || !store_outputs(&scope)) return false;
  scope_close(&scope, NULL);
  return true;
}

/* The template's A and B take the graph's strides; without a batch of its own an operand is read at batch 0.
 */
static void describe_operand(KernelBuild *build, unsigned parameter, const GraphTensor *tensor,
                             const Symbolic *batch, const Symbolic *row, const Symbolic *column,
                             const char *batch_parameter)
{
  IrValue *value = build->kernel->parameters[parameter];
  IrModule *module = build->module;
  value->type.align = MAX(tensor->align, build->choice->align);
  const ChoiceParameter *batched = choice_parameter(build->choice, batch_parameter);
  if (batched && batched->integer == 0) value->type.dims[0] = ir_int(module, 1);
  const Symbolic *strides[3] = {batch, row, column};
  static const char *const hints[3] = {"batch", "row", "column"};
  for (unsigned d = 0; d < 3; d++)
    value->type.strides[d] = kernel_dim(
        build, strides[d], arena_printf(module->arena, "%s_%s", value->name, hints[d]), NUMBER_S64);
  g_hash_table_insert(build->tensors, (gpointer)value->name, (gpointer)tensor);
}

bool kernel_write_gemm(KernelBuild *build)
{
  const FusedOperator *op = build->op;
  const FusedGemm *gemm = &op->gemm;
  Arena *arena = build->expressions;
  const Symbolic *one = symbolic_constant(arena, 1), *zero = symbolic_constant(arena, 0);
  if (gemm->n_batch > 1) {
    error_set(build->error, ERROR_UNSUPPORTED, &op->anchor->mark, "batches", NULL,
              "a product whose batches do not merge into one dimension is not supported");
    return false;
  }
  kernel_bind_dim(build, "M", gemm->m);
  kernel_bind_dim(build, "N", gemm->n);
  kernel_bind_dim(build, "K", gemm->k);
  kernel_bind_dim(build, "G", gemm->n_batch ? op->dims[0] : one);
  describe_operand(build, 0, op->inputs[gemm->a].tensor, gemm->n_batch ? gemm->a_batch[0] : zero, gemm->a_m,
                   gemm->a_k, "a_batch");
  describe_operand(build, 1, op->inputs[gemm->b].tensor, gemm->n_batch ? gemm->b_batch[0] : zero, gemm->b_k,
                   gemm->b_n, "b_batch");
  /* an operand that the epilogue reads too is a tensor of its own there */
  kernel_add_operands(build, gemm->a, gemm->b, 1 - gemm->n_batch);
  return write_epilogue(build, choice_parameter(build->choice, "bm")->integer,
                        choice_parameter(build->choice, "bn")->integer);
}
