/* Scores of attention's templates: steps over a tile of products, by place too, and bounds beyond which keys are hidden. */
#include "generator/kernel/attention.h"
#include <math.h>

/* Of a tile's rows: which row of the sequence each is, and `more`. */
static IrExpr *row_numbers(StepScope *scope, IrExpr *more)
{
  const AttentionPlace *place = scope->data;
  IrModule *module = scope->build->module;
  if (!attention_is_grouped(scope->build))
    return attention_numbers(scope, 0, ir_binary(module, OPERATOR_ADD, place->at[ATTENTION_ROW], more));
  IrExpr *number = attention_grouped_row(scope, place->at[ATTENTION_ROW]);
  if (place->shift) more = ir_binary(module, OPERATOR_ADD, place->shift, more);
  return attention_emit(scope, OP_ADD, NUMBER_S32, place->rows, 1, number, more);
}

/* A number of 32 bits as a tile of one element. */
static IrExpr *as_tile(StepScope *scope, IrExpr *number, NumberType element)
{
  int64_t one[2] = {1, 1};
  IrType type = ir_tile(scope->build->module, NUMBER_S32, 2, one, NULL);
  IrExpr *tile = ir_emit_value(&scope->builder, OP_SPLAT, type, "place", 1, number);
  return element == NUMBER_S32 ? tile : attention_emit(scope, OP_CAST, element, 1, 1, tile, NULL);
}

/* The rows of a tile whose rows are heads too, as they count in their sequence; NULL: others' are. */
static IrExpr *grouped_numbers(StepScope *scope, NumberType element)
{
  const AttentionPlace *place = scope->data;
  if (!attention_is_grouped(scope->build)) return NULL;
  IrExpr *numbers = row_numbers(scope, ir_int(scope->build->module, 0));
  return element == NUMBER_S32 ? numbers
                               : attention_emit(scope, OP_CAST, element, place->rows, 1, numbers, NULL);
}

/* Where scores lie, as a step takes it: the number, and multiples of row and key. */
static IrExpr *place_index(StepScope *scope, unsigned value)
{
  const AttentionPlace *place = scope->data;
  KernelBuild *build = scope->build;
  const AttentionIndex *index = &attention_of(build->op)->indices[value];
  const Symbolic *const steps[] = {index->row, index->key};
  NumberType element = index->type;
  IrExpr *sum = as_tile(scope, kernel_dim(build, index->number, "INDEX", NUMBER_S32), element);
  int64_t extent[2] = {1, 1};
  for (unsigned d = 0; d < G_N_ELEMENTS(steps); d++) {
    if (symbolic_equals(steps[d], 0)) continue;
    int64_t own[2] = {d ? 1 : place->rows, d ? place->columns : 1};
    IrExpr *number = d ? NULL : grouped_numbers(scope, element);
    if (!number) { /* whole: passes that divide tiles add where a part begins to what counts */
      IrExpr *first = as_tile(scope, place->at[d ? ATTENTION_KEY : ATTENTION_ROW], NUMBER_S32);
      number = attention_numbers(scope, d, first);
      if (element != NUMBER_S32)
        number = attention_emit(scope, OP_CAST, element, own[0], own[1], number, NULL);
    }
    if (!symbolic_equals(steps[d], 1)) {
      IrExpr *step = as_tile(scope, kernel_dim(build, steps[d], "STEP", NUMBER_S32), element);
      number = attention_emit(scope, OP_MUL, element, own[0], own[1], number, step);
    }
    bool lone = extent[0] * extent[1] == 1 && symbolic_equals(index->number, 0);
    for (unsigned e = 0; e < G_N_ELEMENTS(extent); e++)
      extent[e] = MAX(extent[e], own[e]);
    sum = lone ? number : attention_emit(scope, OP_ADD, element, extent[0], extent[1], number, sum);
  }
  return sum;
}

/* What was loaded of a bound, in 32 bits: beyond them nothing changes. */
static IrExpr *limit_of(StepScope *scope, const AttentionBound *bound)
{
  IrModule *module = scope->build->module;
  IrExpr *limit = scope_operand(scope, &bound->limit);
  NumberType type = step_element(limit, NUMBER_S32);
  if (type == NUMBER_S64) {
    limit = attention_emit(scope, OP_MIN, type, 1, 1, limit, ir_int(module, G_MAXINT32 / 2));
    limit = attention_emit(scope, OP_MAX, type, 1, 1, limit, ir_int(module, G_MININT32 / 2));
  }
  return type == NUMBER_S32 ? limit : attention_emit(scope, OP_CAST, NUMBER_S32, 1, 1, limit, NULL);
}

/* The scores where the bound lets them be, else -infinity. */
static IrExpr *within(StepScope *scope, const AttentionBound *bound, IrExpr *score)
{
  const AttentionPlace *place = scope->data;
  IrModule *module = scope->build->module;
  IrExpr *number = kernel_dim(scope->build, bound->number, "BOUND", NUMBER_S32);
  IrExpr *key = attention_numbers(scope, 1, place->at[ATTENTION_KEY]), *end = number;
  int64_t rows = bound->from_row ? place->rows : 1;
  if (bound->from_row) end = row_numbers(scope, number);
  if (bound->limit.kind != OPERAND_IMMEDIATE)
    end = attention_emit(scope, OP_ADD, NUMBER_S32, rows, 1, limit_of(scope, bound), end);
  IrExpr *seen =
      attention_emit(scope, bound->least ? OP_GE : OP_LE, NUMBER_BOOL, rows, place->columns, key, end);
  int64_t extent[2] = {place->rows, place->columns};
  return ir_emit_value(&scope->builder, OP_SELECT, ir_tile(module, NUMBER_F32, 2, extent, NULL), "seen", 3,
                       seen, score, ir_float(module, -INFINITY));
}

/* Does the bound say where keys end for all rows of a template that takes none behind that (write_seen)? It hides them in the last tile. */
static bool is_end_of_keys(const KernelBuild *build, const AttentionBound *bound)
{
  const Choice *choice = build->choice;
  bool walks = choice_int(choice, "places", 0) || choice_int(choice, "cleared", 0);
  return walks && !bound->from_row && attention_bound_ends(bound);
}

IrExpr *attention_write_scores(StepScope *scope)
{
  const AttentionPlace *place = scope->data;
  const FusedAttention *attention = attention_of(scope->build->op);
  scope->load = attention_load;
  scope->index = place_index;
  scope->approximate = true; /* as exponentials are; weights are rounded to the operands' type */
  scope->least = step_precision(attention->type);
  if (!scope_write_steps(scope, true)) return NULL;
  StepWriter writer = kernel_steps(scope->build, &scope->builder);
  IrExpr *score = step_convert(&writer, scope_operand(scope, &attention->score), NUMBER_F32);
  if (!attention_scales_steps(attention)) return score;
  return attention_emit(scope, OP_MUL, NUMBER_F32, place->rows, place->columns, score,
                        ir_float(scope->build->module, attention->scale / G_LN2));
}

bool attention_write_score(KernelBuild *build)
{
  StepScope scope = {0};
  AttentionPlace place = {.rows = choice_int(build->choice, "rows", 0),
                          .columns = choice_int(build->choice, "keys", 0),
                          .inner = ATTENTION_KEY};
  scope_open(&scope, build, "score");
  scope.data = &place;
  scope.anchors[0] = attention_add_tile(&scope, "product", place.rows, place.columns);
  attention_add_place(&scope, &place, true);
  AttentionOwn own = {0};
  if (!choice_int(build->choice, "places", 0)) { /* few queries: their template has no sequences */
    place.shift = attention_number(&scope, "shift");
    own.tile = attention_number(&scope, "tile");
    own.more = attention_number(&scope, "more");
    own.begin = attention_number(&scope, "begin");
    own.length = attention_number(&scope, "length");
  }
  scope_add_tensors(&scope);
  const FusedAttention *attention = attention_of(build->op);
  IrExpr *score = attention_write_scores(&scope);
  if (!score) return false;
  for (unsigned i = 0; i < attention->n_bounds; i++)
    if (!is_end_of_keys(build, &attention->bounds[i])) score = within(&scope, &attention->bounds[i], score);
  scope_close(&scope, attention_branched(&scope, &own, score));
  return true;
}
