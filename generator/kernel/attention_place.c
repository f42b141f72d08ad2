/* What sub-kernels of attention's templates are made of: parameters, places of a tile, operations on tiles. */
#include "generator/kernel/attention.h"

bool attention_is_grouped(const KernelBuild *build)
{
  return choice_int(build->choice, "grouped", 0);
}

int64_t attention_rows_of_head(const KernelBuild *build)
{
  return choice_int(build->choice, "each", 0);
}

IrExpr *attention_grouped_row(StepScope *scope, IrExpr *first)
{
  const AttentionPlace *place = scope->data;
  IrModule *module = scope->build->module;
  int64_t each = attention_rows_of_head(scope->build),
          turn = each * choice_int(scope->build->choice, "sides", 1);
  IrExpr *group = attention_group(scope->build);
  if (!each)
    return attention_emit(scope, OP_DIV, NUMBER_S32, place->rows, 1, attention_numbers(scope, 0, first),
                          group);
  IrExpr *number = attention_counted(scope, 0, NUMBER_S32);
  IrExpr *row = attention_emit(scope, OP_REM, NUMBER_S32, place->rows, 1, number, ir_int(module, each));
  if (turn < place->rows) {
    IrExpr *turns = attention_emit(scope, OP_DIV, NUMBER_S32, place->rows, 1, number, ir_int(module, turn));
    turns = attention_emit(scope, OP_MUL, NUMBER_S32, place->rows, 1, turns, ir_int(module, each));
    row = attention_emit(scope, OP_ADD, NUMBER_S32, place->rows, 1, row, turns);
  }
  return attention_emit(scope, OP_ADD, NUMBER_S32, place->rows, 1, row,
                        ir_binary(module, OPERATOR_DIV, first, group));
}

IrExpr *attention_grouped_head(StepScope *scope, IrExpr *first)
{
  const AttentionPlace *place = scope->data;
  int64_t each = attention_rows_of_head(scope->build);
  IrExpr *number = attention_numbers(
      scope, 0, first); /* what follows from the thread alone would be kept through all loops */
  if (each)
    number =
        attention_emit(scope, OP_DIV, NUMBER_S32, place->rows, 1, number, ir_int(scope->build->module, each));
  return attention_emit(scope, OP_REM, NUMBER_S32, place->rows, 1, number, attention_group(scope->build));
}

IrExpr *attention_corner(StepScope *scope, IrValue *tensor, int64_t *extent, bool result)
{
  const AttentionPlace *place = scope->data;
  IrModule *module = scope->build->module;
  const FusedAttention *attention = attention_of(scope->build->op);
  IrExpr *at[ATTENTION_RANK] = {place->at[ATTENTION_BATCH], place->at[ATTENTION_HEAD],
                                place->at[ATTENTION_ROW], place->at[place->inner]};
  for (unsigned i = 0; i < scope->build->op->n_inputs; i++)
    if (attention_is_by_group(attention, i) && !attention_is_grouped(scope->build) &&
        tensor == scope->tensors[i])
      at[ATTENTION_HEAD] = ir_binary(module, OPERATOR_DIV, at[ATTENTION_HEAD],
                                     kernel_dim(scope->build, attention->group, "GROUP", NUMBER_S32));
  extent[0] = place->rows;
  extent[1] = place->columns;
  for (unsigned d = 0; d < ATTENTION_RANK; d++) {
    int64_t stride;
    if (!ir_expr_is_int(tensor->type.strides[d], &stride) || stride) continue;
    if (result && d == ATTENTION_ROW && choice_int(scope->build->choice, "cluster_n", 1) > 1) continue;
    at[d] = ir_int(module, 0);
    if (d >= ATTENTION_RANK - 2) extent[d + 2 - ATTENTION_RANK] = 1;
  }
  return ir_index_array(module, ir_value(module, tensor), ATTENTION_RANK, at);
}

/* One number for each head, where the heads of a group are rows of a tile. */
static IrExpr *load_of_heads(StepScope *scope, unsigned input)
{
  const AttentionPlace *place = scope->data;
  IrModule *module = scope->build->module;
  IrValue *tensor = scope->tensors[input];
  IrExpr *const *steps = tensor->type.strides;
  IrExpr *first = ir_binary(module, OPERATOR_MUL, place->at[ATTENTION_HEAD], attention_group(scope->build));
  IrExpr *head = attention_grouped_head(scope, place->at[ATTENTION_ROW]);
  head = attention_emit(scope, OP_ADD, NUMBER_S32, place->rows, 1, head, first);
  head = attention_emit(scope, OP_CAST, NUMBER_S64, place->rows, 1, head, NULL);
  head = attention_emit(scope, OP_MUL, NUMBER_S64, place->rows, 1, head, steps[ATTENTION_HEAD]);
  IrExpr *of_batch = ir_binary(module, OPERATOR_MUL, place->at[ATTENTION_BATCH], steps[ATTENTION_BATCH]);
  head = attention_emit(scope, OP_ADD, NUMBER_S64, place->rows, 1, head, of_batch);
  int64_t extent[2] = {place->rows, 1};
  IrType type = ir_tile(module, tensor->type.element, 2, extent, NULL);
  return ir_emit_value(&scope->builder, OP_GATHER, type, tensor->name, 2, ir_value(module, tensor), head);
}

IrExpr *attention_load(StepScope *scope, unsigned input)
{
  const FusedAttention *attention = attention_of(scope->build->op);
  const Symbolic *of_head = scope->build->op->inputs[input].strides[ATTENTION_HEAD];
  bool of_heads = attention_is_grouped(scope->build) && !attention_is_by_group(attention, input) &&
                  !symbolic_equals(of_head, 0);
  if (of_heads) return load_of_heads(scope, input);
  int64_t extent[2];
  IrExpr *access = attention_corner(scope, scope->tensors[input], extent, false);
  return scope_load_tile(scope, input, access, extent);
}

IrExpr *attention_number(StepScope *scope, const char *name)
{
  return ir_value(scope->build->module, ir_parameter_new(scope->function, name, ir_scalar(NUMBER_S32)));
}

IrExpr *attention_emit(StepScope *scope, IrOpcode code, NumberType element, int64_t rows, int64_t columns,
                       IrExpr *a, IrExpr *b)
{
  int64_t extent[2] = {rows, columns};
  IrType type = ir_tile(scope->build->module, element, 2, extent, NULL);
  return b ? ir_emit_value(&scope->builder, code, type, "place", 2, a, b)
           : ir_emit_value(&scope->builder, code, type, "place", 1, a);
}

IrExpr *attention_counted(StepScope *scope, unsigned dim, NumberType element)
{
  const AttentionPlace *place = scope->data;
  int64_t extent[2] = {dim ? 1 : place->rows, dim ? place->columns : 1};
  IrModule *module = scope->build->module;
  IrType type = ir_tile(module, element, 2, extent, NULL);
  IrExpr *number = ir_emit_value(&scope->builder, OP_IOTA, type, "number", 0);
  ir_attribute_set(number->value->def, ATTR_DIM, ir_int(module, dim));
  return number;
}

IrExpr *attention_numbers(StepScope *scope, unsigned dim, IrExpr *first)
{
  const AttentionPlace *place = scope->data;
  int64_t rows = dim ? 1 : place->rows, columns = dim ? place->columns : 1;
  return attention_emit(scope, OP_ADD, NUMBER_S32, rows, columns, attention_counted(scope, dim, NUMBER_S32),
                        first);
}

IrExpr *attention_group(KernelBuild *build)
{
  return kernel_dim(build, attention_of(build->op)->group, "GROUP", NUMBER_S32);
}

IrExpr *attention_load_number(StepScope *scope, const char *name, IrExpr *access, NumberType element)
{
  IrModule *module = scope->build->module;
  IrBuilder *builder = &scope->builder;
  IrType type = ir_scalar(element);
  IrExpr *number = ir_emit_value(builder, OP_LOAD, type, name, 1, access);
  if (element == NUMBER_S32) return number;
  if (number_bits(element) > number_bits(NUMBER_S32)) {
    number = ir_emit_value(builder, OP_MIN, type, name, 2, number, ir_int(module, G_MAXINT32 / 2));
    number = ir_emit_value(builder, OP_MAX, type, name, 2, number, ir_int(module, G_MININT32 / 2));
  }
  return ir_emit_value(builder, OP_CAST, ir_scalar(NUMBER_S32), name, 1, number);
}

IrExpr *attention_page(StepScope *scope, IrExpr *batch, IrExpr *key, IrExpr *seen)
{
  const AttentionPages *pages = &attention_of(scope->build->op)->pages;
  IrModule *module = scope->build->module;
  IrValue *table = scope->tensors[pages->table];
  int64_t step;
  IrExpr *zero = ir_int(module, 0);
  bool still = ir_expr_is_int(table->type.strides[0], &step) && !step;
  IrExpr *at[ATTENTION_RANK] = {still ? zero : batch, zero, zero,
                                ir_binary(module, OPERATOR_DIV, key, ir_int(module, pages->rows))};
  IrExpr *count = kernel_dim(scope->build, pages->count, "PAGES", NUMBER_S32);
  IrExpr *loaded = attention_load_number(scope, "page",
                                         ir_index_array(module, ir_value(module, table), ATTENTION_RANK, at),
                                         table->type.element);
  IrExpr *behind = ir_binary(module, OPERATOR_ADD, loaded,
                             ir_select(module, ir_binary(module, OPERATOR_LT, loaded, zero), count, zero));
  IrExpr *page = ir_emit_value(&scope->builder, OP_LET, ir_scalar(NUMBER_S32), "place", 1, behind);
  IrExpr *within = ir_binary(module, OPERATOR_AND, ir_binary(module, OPERATOR_LT, key, seen),
                             ir_binary(module, OPERATOR_GE, page, zero));
  within = ir_binary(module, OPERATOR_AND, within, ir_binary(module, OPERATOR_LT, page, count));
  return ir_select(module, within, page, count);
}

IrExpr *attention_add_tile(StepScope *scope, const char *name, int64_t rows, int64_t columns)
{
  int64_t extent[2] = {rows, columns};
  IrModule *module = scope->build->module;
  return ir_value(module,
                  ir_parameter_new(scope->function, name, ir_tile(module, NUMBER_F32, 2, extent, NULL)));
}

void attention_add_place(StepScope *scope, AttentionPlace *place, bool keys)
{
  static const char *const names[] = {"batch", "head", "row", "key"};
  for (unsigned d = 0; d < (keys ? 4 : 3); d++)
    place->at[d] = attention_number(scope, names[d]);
  place->at[ATTENTION_COLUMN] = ir_int(scope->build->module, 0);
}
