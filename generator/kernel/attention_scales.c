/* Operands of 8 bits in attention's templates: what is subtracted of scores whose weights are of 8 bits, and keys and values that are widened: tiles in the type that they are multiplied in, each key's by its scale where keys have one. */
#include "generator/kernel/attention.h"
#include "generator/kernel/steps.h"

/* The head of keys that a place's head is of, as the input counts them. */
static IrExpr *head_of(StepScope *scope, unsigned input)
{
  const AttentionPlace *place = scope->data;
  KernelBuild *build = scope->build;
  IrExpr *head = place->at[ATTENTION_HEAD];
  if (!attention_is_by_group(attention_of(build->op), input) || attention_is_grouped(build)) return head;
  return ir_binary(build->module, OPERATOR_DIV, head, attention_group(build));
}

/* A column of numbers at offsets of a tensor, 0 where nothing is `within`. */
static IrExpr *gather_column(StepScope *scope, const IrValue *tensor, IrExpr *offset, IrExpr *within)
{
  const AttentionPlace *place = scope->data;
  IrModule *module = scope->build->module;
  int64_t extent[2] = {place->rows, 1};
  NumberType element = tensor->type.element;
  IrExpr *column = ir_emit_value(&scope->builder, OP_GATHER, ir_tile(module, element, 2, extent, NULL),
                                 tensor->name, 2, ir_value(module, (IrValue *)tensor), offset);
  ir_attribute_set(column->value->def, ATTR_WHERE, within);
  ir_attribute_set(column->value->def, ATTR_FILL,
                   number_class(element) == NUMBER_FLOAT ? ir_float(module, 0) : ir_int(module, 0));
  return column;
}

/* Of a tile's keys: a scale each, which lies in a page as the key does; 0 of keys from `seen` on and of what is no page. */
static IrExpr *paged_scales(StepScope *scope, unsigned input, IrExpr *seen)
{
  const AttentionPlace *place = scope->data;
  KernelBuild *build = scope->build;
  IrModule *module = build->module;
  const AttentionPages *pages = &attention_of(build->op)->pages;
  const IrValue *table = scope->tensors[pages->table], *scales = scope->tensors[input];
  IrExpr *const *strides = scales->type.strides, *rows = ir_int(module, pages->rows),
                *count = kernel_dim(build, pages->count, "PAGES", NUMBER_S32);
  int64_t n = place->rows;
#define COLUMN(code, type, ...) attention_emit(scope, code, NUMBER_##type, n, 1, __VA_ARGS__)
  IrExpr *key = attention_numbers(scope, 0, place->at[ATTENTION_KEY]);
  IrExpr *within = COLUMN(OP_LT, BOOL, key, seen), *number = COLUMN(OP_DIV, S32, key, rows);
  IrExpr *behind = COLUMN(OP_SUB, S32, key, COLUMN(OP_MUL, S32, number, rows));
  IrExpr *first = ir_binary(module, OPERATOR_MUL, place->at[ATTENTION_BATCH], table->type.strides[0]);
  IrExpr *entry = COLUMN(
      OP_ADD, S64, COLUMN(OP_MUL, S64, COLUMN(OP_CAST, S64, number, NULL), table->type.strides[3]), first);
  IrExpr *page = gather_column(scope, table, entry, within);
  page = COLUMN(OP_CAST, S64, page, NULL);
  IrExpr *turned = COLUMN(OP_ADD, S64, page, count), *below = COLUMN(OP_LT, BOOL, page, ir_int(module, 0));
  int64_t extent[2] = {n, 1};
  page = ir_emit_value(&scope->builder, OP_SELECT, ir_tile(module, NUMBER_S64, 2, extent, NULL), "page", 3,
                       below, turned, page);
  within = COLUMN(OP_AND, BOOL, within, COLUMN(OP_GE, BOOL, page, ir_int(module, 0)));
  within = COLUMN(OP_AND, BOOL, within, COLUMN(OP_LT, BOOL, page, count));
  IrExpr *head = ir_binary(module, OPERATOR_MUL, head_of(scope, input), strides[1]);
  IrExpr *row =
      COLUMN(OP_ADD, S64, COLUMN(OP_MUL, S64, COLUMN(OP_CAST, S64, behind, NULL), strides[2]), head);
  IrExpr *offset = COLUMN(OP_ADD, S64, COLUMN(OP_MUL, S64, page, strides[0]), row);
#undef COLUMN
  return gather_column(scope, scales, offset, within);
}

/* Those of keys from `seen` on, which hold anything, are 0. */
static IrExpr *scales_in_front(StepScope *scope, IrExpr *scale, IrExpr *key, IrExpr *seen)
{
  const AttentionPlace *place = scope->data;
  int64_t extent[2] = {place->rows, 1};
  IrModule *module = scope->build->module;
  IrExpr *there =
      attention_emit(scope, OP_LT, NUMBER_BOOL, place->rows, 1, attention_numbers(scope, 0, key), seen);
  IrType type = ir_tile(module, NUMBER_F32, 2, extent, NULL);
  return ir_emit_value(&scope->builder, OP_SELECT, type, "scale", 3, there, scale, ir_float(module, 0));
}

/* Those of a tile whose keys lie in one page: rows of it that follow one another. */
static IrExpr *scales_of_page(StepScope *scope, unsigned input, IrExpr *key, IrExpr *seen)
{
  AttentionPlace *place = scope->data;
  KernelBuild *build = scope->build;
  IrModule *module = build->module;
  const AttentionPages *pages = &attention_of(build->op)->pages;
  StepWriter writer = kernel_steps(build, &scope->builder);
  FusedOperand operand = {.kind = OPERAND_INPUT, .index = input};
  IrExpr *count = kernel_dim(build, pages->count, "PAGES", NUMBER_S32), *zero = ir_int(module, 0),
         *batch = place->at[ATTENTION_BATCH];
  IrExpr *page = ir_emit_value(&scope->builder, OP_LET, ir_scalar(NUMBER_S32), "slab", 1,
                               attention_page(scope, batch, key, seen));
  IrExpr *there = ir_binary(module, OPERATOR_LT, page, count);
  place->at[ATTENTION_BATCH] = ir_select(module, there, page, zero);
  place->at[ATTENTION_ROW] =
      pages->rows == place->rows ? zero : ir_binary(module, OPERATOR_MOD, key, ir_int(module, pages->rows));
  IrExpr *scale = step_convert(&writer, scope_operand(scope, &operand), NUMBER_F32);
  place->at[ATTENTION_BATCH] = batch;
  return scales_in_front(scope, scale, key, ir_select(module, there, seen, zero));
}

/* Values, which 8 bits hold, times f32 scales, rounded once, as DequantizeLinear says: a scale that were rounded too would move all of a key's score one
 * way. Two numbers of bf16, which has f32's range, are a scale but for 2^-17 of it, and cost one multiplication more for two elements; other
 * types lose small scales, and multiply in f32, as infinite values of e5m2 do, of which the second part would make no numbers. */
static IrExpr *multiply_once(StepScope *scope, IrExpr *values, IrExpr *scale)
{
  const AttentionPlace *place = scope->data;
  IrModule *module = scope->build->module;
  const int64_t extent[2] = {place->rows, place->columns};
  NumberType held = values->value->type.element;
#define COLUMN(code, type, ...) attention_emit(scope, code, type, place->rows, 1, __VA_ARGS__)
#define TILE(code, type, name, ...)                                                                          \
  ir_emit_value(&scope->builder, code, ir_tile(module, type, 2, extent, NULL), name, __VA_ARGS__)
  if (held != NUMBER_BF16 || attention_of(scope->build->op)->stored == NUMBER_E5M2) {
    IrExpr *exact = TILE(OP_CAST, NUMBER_F32, "exact", 1, values);
    return TILE(OP_CAST, held, "scaled", 1, TILE(OP_MUL, NUMBER_F32, "product", 2, exact, scale));
  }
  IrExpr *high = COLUMN(OP_CAST, held, scale, NULL);
  IrExpr *rest = COLUMN(OP_SUB, NUMBER_F32, scale, COLUMN(OP_CAST, NUMBER_F32, high, NULL));
  IrExpr *less = TILE(OP_MUL, held, "less", 2, values, COLUMN(OP_CAST, held, rest, NULL));
  return TILE(OP_FMA, held, "scaled", 3, values, high, less);
#undef TILE
#undef COLUMN
}

void attention_write_widened(KernelBuild *build, const char *name, NumberType element, const char *columns,
                             bool scaled, bool paged, unsigned input)
{
  static const char *const names[] = {"batch", "head", "key"};
  const FusedAttention *attention = attention_of(build->op);
  IrModule *module = build->module;
  StepScope scope = {0};
  AttentionPlace place = {.rows = choice_int(build->choice, "keys", 0),
                          .columns = choice_int(build->choice, columns, 0),
                          .inner = ATTENTION_COLUMN};
  int64_t extent[2] = {place.rows, place.columns};
  scope_open(&scope, build, name);
  scope.data = &place;
  scope.load = attention_load;
  IrType type = ir_tile(module, element, 2, extent, NULL);
  IrExpr *values = ir_value(module, ir_parameter_new(scope.function, "wide", type));
  for (unsigned d = 0; d < G_N_ELEMENTS(names); d++)
    place.at[d] = attention_number(&scope, names[d]);
  IrExpr *key = place.at[G_N_ELEMENTS(names) - 1], *seen = attention_number(&scope, "seen");
  place.at[ATTENTION_COLUMN] = ir_int(module, 0);
  scope_add_tensors(&scope);
  if (scaled) {
    FusedOperand operand = {.kind = OPERAND_INPUT, .index = input};
    StepWriter writer = kernel_steps(build, &scope.builder);
    bool one = paged && attention->pages.rows % place.rows == 0; /* page of a tile's keys */
    place.at[ATTENTION_KEY] = key;
    IrExpr *scale = one     ? scales_of_page(&scope, input, key, seen)
                    : paged ? paged_scales(&scope, input, seen)
                            : NULL;
    place.at[ATTENTION_ROW] = key; /* keys are rows of this tile */
    scale = step_convert(&writer, scale ? scale : scope_operand(&scope, &operand), NUMBER_F32);
    if (!paged && choice_int(build->choice, "cleared", 0)) scale = scales_in_front(&scope, scale, key, seen);
    values = multiply_once(&scope, values, scale);
  }
  scope_close(&scope, values);
}

#define LIFT                                                                                                 \
  2 /* power of two: a row's largest weight is so much when it is found, and those that follow 2^lag at most */

void attention_write_start(KernelBuild *build)
{
  const FusedAttention *attention = attention_of(build->op);
  int64_t extent[2] = {choice_int(build->choice, "rows", 0), 1};
  IrModule *module = build->module;
  StepScope scope = {0};
  if (choice_int(build->choice, "places", 0)) return; /* few queries: their template asks nobody */
  scope_open(&scope, build, "start");
  IrType type = ir_tile(module, NUMBER_F32, 2, extent, NULL);
  IrExpr *start = ir_value(module, ir_parameter_new(scope.function, "high", type));
  double powers = (attention_scales_steps(attention) ? G_LN2 : attention->scale) / G_LN2;
  scope_add_tensors(&scope);
  if (number_has_bytes(attention->type, 1))
    start = ir_emit_value(&scope.builder, OP_SUB, type, "start", 2, start, ir_float(module, LIFT / powers));
  scope_close(&scope, start);
}
