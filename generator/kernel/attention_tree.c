/* Trees in attention's template: which of the keys that a sequence's rows brought along, its last ones, each row sees. In front of them nothing
 * is asked: split_loops finds where that is so. */
#include "generator/front/sequences.h"
#include "generator/kernel/attention.h"
#include <math.h>

IrValue *attention_add_tree(KernelBuild *build, unsigned position)
{
  const GraphTensor *tree = build->op->inputs[position].tensor;
  const Symbolic *none = symbolic_constant(build->expressions, 0);
  const Symbolic *dims[ATTENTION_RANK] = {tree->shape[0], none, none, tree->shape[1]},
                 *strides[ATTENTION_RANK] = {tree->strides[0], none, none, tree->strides[1]};
  return kernel_add_tensor(build, KERNEL_INPUT, position, tree, ATTENTION_RANK, dims, strides);
}

static IrExpr *scalar(StepScope *scope, const char *name, IrExpr *value)
{
  return ir_emit_value(&scope->builder, OP_LET, ir_scalar(NUMBER_S32), name, 1, value);
}

/* Which of the sequence's rows each of the tile's is. */
static IrExpr *rows_of(StepScope *scope, IrExpr *tile)
{
  const AttentionPlace *place = scope->data;
  IrModule *module = scope->build->module;
  IrExpr *first = ir_binary(module, OPERATOR_MUL, tile, ir_int(module, place->rows));
  return attention_is_grouped(scope->build) ? attention_grouped_row(scope, first)
                                            : attention_numbers(scope, 0, first);
}

/* Word `number` of each row's bits: 0 behind the last one, of rows of no sequence, and in front of the first. */
static IrExpr *load_word(StepScope *scope, IrExpr *offsets, IrExpr *rows, IrExpr *number)
{
  const AttentionPlace *place = scope->data;
  KernelBuild *build = scope->build;
  IrModule *module = build->module;
  const FusedAttention *attention = attention_of(build->op);
  IrValue *tree = scope->tensors[attention->tree.input];
  int64_t extent[2] = {place->rows, 1};
  IrExpr *words =
      kernel_dim(build, build->op->inputs[attention->tree.input].tensor->shape[1], "WORDS", NUMBER_S32);
  IrExpr *there = ir_binary(module, OPERATOR_AND, ir_binary(module, OPERATOR_GE, number, ir_int(module, 0)),
                            ir_binary(module, OPERATOR_LT, number, words));
  IrExpr *within = attention_emit(scope, OP_AND, NUMBER_BOOL, place->rows, 1, rows, there);
  IrExpr *more = ir_binary(module, OPERATOR_MUL, number, tree->type.strides[ATTENTION_RANK - 1]);
  IrExpr *offset = attention_emit(scope, OP_ADD, NUMBER_S64, place->rows, 1, offsets, more);
  IrExpr *word =
      ir_emit_value(&scope->builder, OP_GATHER, ir_tile(module, tree->type.element, 2, extent, NULL), "word",
                    2, ir_value(module, tree), offset);
  ir_attribute_set(word->value->def, ATTR_WHERE, within);
  ir_attribute_set(word->value->def, ATTR_FILL, ir_int(module, 0));
  return word;
}

/* The word in which each key's bit is, and which of its bits that is (*bits). The tile's first key is `first` of those that the rows brought along,
 * below 0 in front of them. Keys of a tile begin anywhere in a word, so they are in one more than they fill. */
static IrExpr *words_of(StepScope *scope, const AttentionOwn *own, IrExpr *first, IrExpr **bits)
{
  const AttentionPlace *place = scope->data;
  IrModule *module = scope->build->module;
  const IrValue *tree = scope->tensors[attention_of(scope->build->op)->tree.input];
  int64_t words = (place->columns + SEQUENCES_WORD - 1) / SEQUENCES_WORD, rows = place->rows;
  IrExpr *width = ir_int(module, SEQUENCES_WORD), *row = rows_of(scope, own->tile);
  IrExpr *valid = attention_emit(scope, OP_LT, NUMBER_BOOL, rows, 1, row, own->length);
  IrExpr *offsets = attention_emit(scope, OP_ADD, NUMBER_S32, rows, 1, row, own->begin);
  offsets = attention_emit(scope, OP_CAST, NUMBER_S64, rows, 1, offsets, NULL);
  offsets = attention_emit(scope, OP_MUL, NUMBER_S64, rows, 1, offsets, tree->type.strides[0]);
  /* counted from so many words in front that it is not negative where any key of the tile has a bit */
  IrExpr *from = ir_binary(module, OPERATOR_ADD, first, ir_int(module, words * SEQUENCES_WORD));
  from = scalar(scope, "from", ir_call(module, "max", 2, from, ir_int(module, 0)));
  IrExpr *number = scalar(
      scope, "first_word",
      ir_binary(module, OPERATOR_SUB, ir_binary(module, OPERATOR_DIV, from, width), ir_int(module, words)));
  IrExpr *place_of = attention_numbers(scope, 1, ir_binary(module, OPERATOR_MOD, from, width));
  IrExpr *word = NULL;
  for (int64_t i = words; i >= 0; i--) {
    IrExpr *next =
        load_word(scope, offsets, valid, ir_binary(module, OPERATOR_ADD, number, ir_int(module, i)));
    int64_t extent[2] = {rows, place->columns};
    IrExpr *before = word ? attention_emit(scope, OP_LT, NUMBER_BOOL, 1, place->columns, place_of,
                                           ir_int(module, SEQUENCES_WORD * (i + 1)))
                          : NULL;
    word = word ? ir_emit_value(&scope->builder, OP_SELECT, ir_tile(module, NUMBER_S32, 2, extent, NULL),
                                "word", 3, before, next, word)
                : next;
  }
  *bits = attention_emit(scope, OP_AND, NUMBER_S32, 1, place->columns, place_of,
                         ir_int(module, SEQUENCES_WORD - 1));
  return word;
}

IrExpr *attention_branched(StepScope *scope, const AttentionOwn *own, IrExpr *scores)
{
  const AttentionPlace *place = scope->data;
  IrModule *module = scope->build->module;
  int64_t rows = place->rows, columns = place->columns, extent[2] = {rows, columns};
  if (!attention_of(scope->build->op)->tree.taken) return scores;
  IrExpr *first = ir_binary(module, OPERATOR_SUB, place->at[ATTENTION_KEY], own->more);
  IrExpr *front = attention_emit(scope, OP_LT, NUMBER_BOOL, 1, columns, attention_numbers(scope, 1, first),
                                 ir_int(module, 0));
  IrExpr *bits, *word = words_of(scope, own, first, &bits);
  IrExpr *bit = attention_emit(scope, OP_SHR, NUMBER_S32, rows, columns, word, bits);
  bit = attention_emit(scope, OP_AND, NUMBER_S32, rows, columns, bit, ir_int(module, 1));
  IrExpr *set = attention_emit(scope, OP_GT, NUMBER_BOOL, rows, columns, bit, ir_int(module, 0));
  IrExpr *seen = attention_emit(scope, OP_OR, NUMBER_BOOL, rows, columns, set, front);
  return ir_emit_value(&scope->builder, OP_SELECT, ir_tile(module, NUMBER_F32, 2, extent, NULL), "shown", 3,
                       seen, scores, ir_float(module, -INFINITY));
}
