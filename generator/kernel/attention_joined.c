/* A new row of keys and values in the template of few queries: every row of the tile sees it, so one product of each with it, in f32, joins
 * what the keys of the cache came to, and the row goes into the cache once that has been read: of what is behind its keys only the last tile's
 * copy brings something, which the same block has waited for. Of several parts the last one does all this. */
#include "generator/kernel/attention.h"
#include <math.h>

static const AttentionJoined *joined_of(const StepScope *scope)
{
  return &attention_of(scope->build->op)->joined;
}

static void add_head(StepScope *scope)
{
  AttentionPlace *place = scope->data;
  place->at[ATTENTION_BATCH] = attention_number(scope, "batch");
  place->at[ATTENTION_HEAD] = attention_number(scope, "head");
}

static void add_place(StepScope *scope, IrExpr **others)
{
  add_head(scope);
  *others = attention_number(scope, "others"); /* 0 for the last part */
  scope_add_tensors(scope);
}

static IrExpr *at_row(StepScope *scope, const IrValue *tensor, IrExpr *row)
{
  const AttentionPlace *place = scope->data;
  IrModule *module = scope->build->module;
  IrExpr *at[ATTENTION_RANK] = {place->at[ATTENTION_BATCH], place->at[ATTENTION_HEAD], row,
                                ir_int(module, 0)};
  for (unsigned d = 0; d < ATTENTION_ROW; d++) { /* what batches or heads share has one of them */
    int64_t stride;
    if (ir_expr_is_int(tensor->type.strides[d], &stride) && !stride) at[d] = ir_int(module, 0);
  }
  return ir_index_array(module, ir_value(module, (IrValue *)tensor), ATTENTION_RANK, at);
}

static IrExpr *load_row(StepScope *scope, unsigned i, int64_t columns)
{
  const int64_t extent[2] = {1, columns};
  unsigned input = joined_of(scope)->rows[i];
  return scope_load_tile(scope, input, at_row(scope, scope->tensors[input], ir_int(scope->build->module, 0)),
                         extent);
}

/* The same in the type of products. */
static IrExpr *load_wide_row(StepScope *scope, unsigned i, int64_t columns)
{
  const FusedAttention *attention = attention_of(scope->build->op);
  IrExpr *row = load_row(scope, i, columns);
  return attention->stored == attention->type
             ? row
             : attention_emit(scope, OP_CAST, attention->type, 1, columns, row, NULL);
}

/* What was loaded for the batch and head in an input. */
static IrExpr *load_of_head(StepScope *scope, unsigned input)
{
  const AttentionPlace *place = scope->data;
  IrModule *module = scope->build->module;
  IrValue *list = scope->tensors[input];
  IrExpr *zero = ir_int(module, 0),
         *at[ATTENTION_RANK] = {place->at[ATTENTION_BATCH], place->at[ATTENTION_HEAD], zero, zero};
  for (unsigned d = 0; d < ATTENTION_RANK; d++) {
    int64_t extent;
    if (ir_expr_is_int(list->type.dims[d], &extent) && extent == 1) at[d] = zero;
  }
  return attention_load_number(
      scope, "place", ir_index_array(module, ir_value(module, list), ATTENTION_RANK, at), list->type.element);
}

/* Is the new row seen, as far as the bound says? */
static IrExpr *is_within(StepScope *scope, const AttentionBound *bound, IrExpr *place)
{
  IrModule *module = scope->build->module;
  IrExpr *end = kernel_dim(scope->build, bound->number, "BOUND", NUMBER_S32);
  if (bound->limit.kind == OPERAND_INPUT)
    end = ir_binary(module, OPERATOR_ADD, load_of_head(scope, bound->limit.index), end);
  return ir_binary(module, bound->least ? OPERATOR_GE : OPERATOR_LE, place, end);
}

/* Behind how many keys the row stands; *there: it has a place in the cache, and the part is the last one; *seen: rows see it, too. */
static IrExpr *load_place(StepScope *scope, IrExpr *others, IrExpr **there, IrExpr **seen)
{
  const FusedAttention *attention = attention_of(scope->build->op);
  IrModule *module = scope->build->module;
  IrExpr *zero = ir_int(module, 0), *number = load_of_head(scope, attention->joined.place);
  IrExpr *keys = kernel_dim(scope->build, attention->keys, "KEYS", NUMBER_S32);
  *there = ir_binary(module, OPERATOR_AND, ir_binary(module, OPERATOR_GE, number, zero),
                     ir_binary(module, OPERATOR_LT, number, keys));
  *there = ir_binary(module, OPERATOR_AND, *there, ir_binary(module, OPERATOR_EQ, others, zero));
  *seen = *there;
  for (unsigned i = 0; i < attention->n_bounds; i++)
    if (i != attention->joined.bound)
      *seen = ir_binary(module, OPERATOR_AND, *seen, is_within(scope, &attention->bounds[i], number));
  return number;
}

static IrExpr *select_there(StepScope *scope, int64_t columns, IrExpr *there, IrExpr *value, double otherwise)
{
  const AttentionPlace *place = scope->data;
  IrModule *module = scope->build->module;
  int64_t extent[2] = {place->rows, columns};
  return ir_emit_value(&scope->builder, OP_SELECT,
                       ir_tile(module, step_element(value, NUMBER_F32), 2, extent, NULL), "there", 3, there,
                       value, ir_float(module, otherwise));
}

/* Scores of the queries and the new key, -infinity where it is not seen. What steps load of a key is that of one the cache has. */
static bool write_own(KernelBuild *build)
{
  IrModule *module = build->module;
  StepScope scope = {0};
  AttentionPlace place = {.rows = choice_int(build->choice, "rows", 0),
                          .columns = choice_int(build->choice, "d_tile", 0)};
  int64_t extent[2] = {place.rows, place.columns}, whole[2] = {place.rows, 1};
  IrExpr *others, *there, *seen;
  scope_open(&scope, build, "own");
  scope.data = &place;
  IrValue *queries = ir_parameter_new(scope.function, "queries", build->kernel->parameters[0]->type);
  add_place(&scope, &others);
  IrType type = ir_tile(module, attention_of(build->op)->type, 2, extent, NULL);
  IrExpr *key = attention_emit(&scope, OP_CAST, NUMBER_F32, 1, place.columns,
                               load_wide_row(&scope, 0, place.columns), NULL);
  IrExpr *query =
      ir_emit_value(&scope.builder, OP_LOAD, type, "query", 1, at_row(&scope, queries, ir_int(module, 0)));
  query = attention_emit(&scope, OP_CAST, NUMBER_F32, place.rows, place.columns, query, NULL);
  IrExpr *each = attention_emit(&scope, OP_MUL, NUMBER_F32, place.rows, place.columns, query, key);
  IrExpr *dot =
      ir_emit_value(&scope.builder, OP_REDUCE, ir_tile(module, NUMBER_F32, 2, whole, NULL), "dot", 1, each);
  ir_attribute_set(dot->value->def, ATTR_WITH, ir_name(module, "sum"));
  ir_attribute_set(dot->value->def, ATTR_DIM, ir_int(module, 1));
  IrExpr *number = load_place(&scope, others, &there, &seen), *zero = ir_int(module, 0);
  IrExpr *last =
      ir_binary(module, OPERATOR_SUB, kernel_dim(build, attention_of(build->op)->keys, "KEYS", NUMBER_S32),
                ir_int(module, 1));
  place.at[ATTENTION_ROW] = place.at[ATTENTION_COLUMN] = zero;
  place.at[ATTENTION_KEY] = ir_call(module, "max", 2, ir_call(module, "min", 2, number, last), zero);
  place.inner = ATTENTION_KEY;
  place.columns = 1;
  scope.anchors[0] = dot;
  IrExpr *score = attention_write_scores(&scope);
  if (score) scope_close(&scope, select_there(&scope, 1, seen, score, -INFINITY));
  return score != NULL;
}

/* The row's place among those of all pages, -1 if its page is none: rows of a page lie behind those of the one before. */
static IrExpr *place_in_pages(StepScope *scope, IrExpr *row)
{
  const AttentionPages *pages = &attention_of(scope->build->op)->pages;
  const AttentionPlace *place = scope->data;
  IrModule *module = scope->build->module;
  IrValue *table = scope->tensors[pages->table];
  IrExpr *zero = ir_int(module, 0), *rows = ir_int(module, pages->rows),
         *at[ATTENTION_RANK] = {zero, zero, zero, zero};
  IrExpr *count = kernel_dim(scope->build, pages->count, "PAGES", NUMBER_S32);
  int64_t step;
  if (!ir_expr_is_int(table->type.strides[0], &step) || step) at[0] = place->at[ATTENTION_BATCH];
  at[ATTENTION_RANK - 1] = ir_binary(module, OPERATOR_DIV, ir_call(module, "max", 2, row, zero), rows);
  IrExpr *page = attention_load_number(scope, "page",
                                       ir_index_array(module, ir_value(module, table), ATTENTION_RANK, at),
                                       table->type.element);
  page = ir_binary(module, OPERATOR_ADD, page,
                   ir_select(module, ir_binary(module, OPERATOR_LT, page, zero), count, zero));
  page = ir_emit_value(&scope->builder, OP_LET, ir_scalar(NUMBER_S32), "page", 1, page);
  IrExpr *there = ir_binary(module, OPERATOR_AND, ir_binary(module, OPERATOR_GE, page, zero),
                            ir_binary(module, OPERATOR_LT, page, count));
  there = ir_binary(module, OPERATOR_AND, there, ir_binary(module, OPERATOR_GE, row, zero));
  IrExpr *behind = ir_binary(module, OPERATOR_ADD, ir_binary(module, OPERATOR_MUL, page, rows),
                             ir_binary(module, OPERATOR_MOD, row, rows));
  return ir_select(module, there, behind, ir_int(module, -1));
}

/* Where the new row goes in the cache; -1: nowhere, or the part is not the last one. */
static void write_place(KernelBuild *build)
{
  StepScope scope = {0};
  AttentionPlace place = {.rows = 1};
  IrExpr *others, *there, *seen;
  scope_open(&scope, build, "place");
  scope.data = &place;
  add_place(&scope, &others);
  IrExpr *row = load_place(&scope, others, &there, &seen);
  row = ir_select(build->module, there, row, ir_int(build->module, -1));
  if (attention_of(build->op)->pages.rows) {
    row = ir_emit_value(&scope.builder, OP_LET, ir_scalar(NUMBER_S32), "stand", 1, row);
    row = place_in_pages(&scope, row);
  }
  scope_close(&scope, ir_emit_value(&scope.builder, OP_LET, ir_scalar(NUMBER_S32), "row", 1, row));
}

/* The new row's values, 0 where it is not seen. */
static void write_value(KernelBuild *build)
{
  StepScope scope = {0};
  AttentionPlace place = {.rows = 1, .columns = choice_int(build->choice, "dv_tile", 0)};
  IrExpr *others, *there, *seen;
  scope_open(&scope, build, "value");
  scope.data = &place;
  add_place(&scope, &others);
  load_place(&scope, others, &there, &seen);
  IrExpr *row = load_wide_row(&scope, 1, place.columns);
  scope_close(&scope, select_there(&scope, place.columns, seen, row, 0));
}

static void write_row(KernelBuild *build, const char *name, unsigned i, const char *columns)
{
  StepScope scope = {0};
  AttentionPlace place = {.rows = 1};
  scope_open(&scope, build, name);
  scope.data = &place;
  add_head(&scope);
  scope_add_tensors(&scope);
  scope_close(&scope, load_row(&scope, i, choice_int(build->choice, columns, 0)));
}

static void write_new_key(KernelBuild *build)
{
  write_row(build, "new_key", 0, "d_tile");
}

static void write_new_value(KernelBuild *build)
{
  write_row(build, "new_value", 1, "dv_tile");
}

/* The rows go to their place in both caches. */
static void write_kept(KernelBuild *build)
{
  StepScope scope = {0};
  static const char *const names[] = {"key", "value"}, *const widths[] = {"d_tile", "dv_tile"};
  AttentionPlace place = {.rows = 1};
  IrExpr *rows[G_N_ELEMENTS(names)];
  scope_open(&scope, build, "kept");
  scope.data = &place;
  add_head(&scope);
  IrExpr *row = attention_number(&scope, "place");
  int64_t page = attention_of(build->op)->pages.rows;
  for (unsigned i = 0; i < G_N_ELEMENTS(names); i++) {
    int64_t extent[2] = {1, choice_int(build->choice, widths[i], 0)};
    IrType type = ir_tile(build->module, attention_of(build->op)->stored, 2, extent, NULL);
    rows[i] = ir_value(build->module, ir_parameter_new(scope.function, names[i], type));
  }
  scope_add_tensors(&scope);
  if (page) {
    place.at[ATTENTION_BATCH] = ir_binary(build->module, OPERATOR_DIV, row, ir_int(build->module, page));
    row = ir_binary(build->module, OPERATOR_MOD, row, ir_int(build->module, page));
  }
  for (unsigned i = 0; i < G_N_ELEMENTS(names); i++) {
    const IrValue *cache = scope.tensors[build->op->n_inputs + joined_of(&scope)->caches[i]];
    ir_emit(&scope.builder, OP_STORE, 2, at_row(&scope, cache, row), rows[i]);
  }
  scope_close(&scope, NULL);
}

/* Who has no such rows has sub-kernels that nobody calls. */
static void write_nothing(KernelBuild *build, const char *name)
{
  StepScope scope = {0};
  scope_open(&scope, build, name);
  scope_close(&scope, NULL);
}

bool attention_write_joined(KernelBuild *build)
{
  static const struct {
    const char *name;
    void (*write)(KernelBuild *build);
  } functions[] = {{"value", write_value},
                   {"place", write_place},
                   {"new_key", write_new_key},
                   {"new_value", write_new_value},
                   {"kept", write_kept}};
  if (!choice_int(build->choice, "places", 0))
    return true; /* many queries: their template has no such rows */
  bool taken = attention_of(build->op)->joined.taken;
  for (unsigned i = 0; i < G_N_ELEMENTS(functions); i++)
    if (taken)
      functions[i].write(build);
    else
      write_nothing(build, functions[i].name);
  if (taken) return write_own(build);
  write_nothing(build, "own");
  return true;
}

IrValue *attention_add_joined(KernelBuild *build, unsigned i, bool cache)
{
  const FusedAttention *attention = attention_of(build->op);
  const Symbolic *one = symbolic_constant(build->expressions, 1),
                 *none = symbolic_constant(build->expressions, 0);
  const AttentionOperand *keys = i ? &attention->values : &attention->key_matrix;
  unsigned position = cache ? attention->joined.caches[i] : attention->joined.rows[i];
  const Symbolic *const *strides =
      cache ? keys->strides : (const Symbolic *const *)build->op->inputs[position].strides;
  const AttentionPages *pages = &attention->pages;
  const Symbolic *keys_of =
      pages->rows ? symbolic_constant(build->expressions, pages->rows) : attention->keys;
  bool paged = cache && pages->rows;
  const Symbolic *dims[ATTENTION_RANK] = {paged ? pages->count : attention->batches, attention->heads,
                                          cache ? keys_of : none, i ? attention->width : attention->depth},
                 *own[ATTENTION_RANK] = {paged ? pages->strides[i] : strides[0], strides[1],
                                         cache ? strides[2] : none, one};
  const GraphTensor *tensor =
      cache ? build->op->outputs[position].tensor : build->op->inputs[position].tensor;
  IrValue *added = kernel_add_tensor(build, cache ? KERNEL_OUTPUT : KERNEL_INPUT, position, tensor,
                                     ATTENTION_RANK, dims, own);
  added->type.element = attention->stored; /* floats of 8 bits also where steps take bytes for them */
  return added;
}
