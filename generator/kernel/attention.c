/* The attention template's part that only the graph knows: operands' strides, steps over scores, and what is stored. */
#include "generator/kernel/attention.h"
#include "generator/kernel/kernel.h"
#include "generator/kernel/steps.h"

#define ATTENTION_OPERANDS 3 /* of the template: queries, keys, values */

/* ---- tensors ---- */

/* The template's Q, K and V take the graph's strides; what repeats has one index. page: elements of one, of keys or values [page, head, row
 * of the page, element]; NULL: [batch, head, row or key, element]. */
static void describe_operand(KernelBuild *build, unsigned parameter, const AttentionOperand *operand,
                             const Symbolic *page)
{
  IrModule *module = build->module;
  IrValue *value = build->kernel->parameters[parameter];
  const GraphTensor *tensor = build->op->inputs[operand->input].tensor;
  static const char *const hints[ATTENTION_RANK] = {"batch", "head", "row", "element"};
  value->type.align = choice_align(build->choice, tensor);
  for (unsigned d = 0; d < ATTENTION_RANK; d++) {
    char *hint = arena_printf(module->arena, "%s_%s", value->name, page && !d ? "page" : hints[d]);
    const Symbolic *stride = page && !d ? page : operand->strides[d];
    value->type.strides[d] = kernel_dim(build, stride, hint, NUMBER_S64);
    if (symbolic_equals(stride, 0)) value->type.dims[d] = ir_int(module, 1);
  }
  const AttentionPages *pages = &attention_of(build->op)->pages;
  if (page) value->type.dims[0] = kernel_dim(build, pages->count, "PAGES", NUMBER_S32);
  if (page) value->type.dims[2] = ir_int(module, pages->rows);
  g_hash_table_insert(build->tensors, (gpointer)value->name, (gpointer)tensor);
}

/* A coordinate along a dimension of extent 1 is 0; but that of a page, which may be none of the cache's. */
static void read_at_zero(IrOp *op, void *data)
{
  const KernelBuild *build = data;
  if (op->code != OP_FILL || op->operands[1]->kind != EXPR_INDEX) return; /* filled with values */
  IrExpr *access = op->operands[1];
  const IrValue *tensor = access->items[0]->value;
  bool pages = attention_of(build->op)->pages.rows && tensor != build->kernel->parameters[0];
  for (unsigned d = pages; d < 2; d++) {
    int64_t extent;
    if (ir_expr_is_int(tensor->type.dims[d], &extent) && extent == 1)
      access->items[d + 1] = ir_int(build->module, 0);
  }
}

/* Inputs of steps over scores lie over keys, all else over columns. */
static IrValue *add_tensor(KernelBuild *build, const char *side, unsigned position, const GraphTensor *tensor,
                           const Symbolic *const *strides)
{
  const FusedOperator *op = build->op;
  unsigned inner = symbolic_equals(strides[ATTENTION_KEY], 0) ? ATTENTION_COLUMN : ATTENTION_KEY;
  const unsigned dims[ATTENTION_RANK] = {ATTENTION_BATCH, ATTENTION_HEAD, ATTENTION_ROW, inner};
  const Symbolic *own_dims[ATTENTION_RANK], *own_strides[ATTENTION_RANK];
  for (unsigned d = 0; d < ATTENTION_RANK; d++) {
    own_dims[d] = op->dims[dims[d]];
    own_strides[d] = strides[dims[d]];
  }
  return kernel_add_tensor(build, side, position, tensor, ATTENTION_RANK, own_dims, own_strides);
}

/* What is loaded for each sequence: [sequence, 1, 1, 1], of as many as there are elements. */
static IrValue *add_list(KernelBuild *build, unsigned position, const Symbolic *step)
{
  const GraphTensor *list = build->op->inputs[position].tensor;
  const Symbolic *none = symbolic_constant(build->expressions, 0);
  const Symbolic *dims[ATTENTION_RANK] = {list->shape[0], none, none, none},
                 *strides[ATTENTION_RANK] = {step, none, none, none};
  return kernel_add_tensor(build, KERNEL_INPUT, position, list, ATTENTION_RANK, dims, strides);
}

/* [batch, head, 1, page of the sequence] */
static IrValue *add_table(KernelBuild *build, unsigned position)
{
  const AttentionPages *pages = &attention_of(build->op)->pages;
  const FusedInput *table = &build->op->inputs[position];
  const Symbolic *none = symbolic_constant(build->expressions, 0);
  const Symbolic *dims[ATTENTION_RANK] = {build->op->dims[ATTENTION_BATCH], none, none, pages->columns},
                 *strides[ATTENTION_RANK] = {table->strides[ATTENTION_BATCH], none, none, pages->step};
  return kernel_add_tensor(build, KERNEL_INPUT, position, table->tensor, ATTENTION_RANK, dims, strides);
}

/* [batch, head, key, 1] */
static IrValue *add_scales(KernelBuild *build, unsigned position)
{
  const FusedInput *scales = &build->op->inputs[position];
  const Symbolic *none = symbolic_constant(build->expressions, 0), *const *all = build->op->dims;
  const Symbolic *dims[ATTENTION_RANK] = {all[ATTENTION_BATCH], all[ATTENTION_HEAD], all[ATTENTION_KEY],
                                          none},
                 *strides[ATTENTION_RANK] = {scales->strides[ATTENTION_BATCH],
                                             scales->strides[ATTENTION_HEAD], scales->strides[ATTENTION_KEY],
                                             none};
  return kernel_add_tensor(build, KERNEL_INPUT, position, scales->tensor, ATTENTION_RANK, dims, strides);
}

/* [page, head, row of the page, 1] */
static IrValue *add_paged_scales(KernelBuild *build, unsigned position, const Symbolic *page)
{
  const AttentionPages *pages = &attention_of(build->op)->pages;
  const FusedInput *scales = &build->op->inputs[position];
  const Symbolic *none = symbolic_constant(build->expressions, 0);
  const Symbolic *dims[ATTENTION_RANK] = {pages->count, build->op->dims[ATTENTION_HEAD],
                                          symbolic_constant(build->expressions, pages->rows), none},
                 *strides[ATTENTION_RANK] = {page, scales->strides[ATTENTION_HEAD],
                                             scales->strides[ATTENTION_KEY], none};
  return kernel_add_tensor(build, KERNEL_INPUT, position, scales->tensor, ATTENTION_RANK, dims, strides);
}

static void add_tensors(KernelBuild *build)
{
  const FusedOperator *op = build->op;
  const AttentionPages *pages = &attention_of(op)->pages;
  const AttentionSequences *sequences = &attention_of(op)->sequences;
  for (unsigned i = 0; i < op->n_inputs; i++)
    if ((sequences->packed && i == sequences->unread) || attention_is_unread(attention_of(op), i))
      continue;
    else if (sequences->packed && (i == sequences->ends || i == sequences->lengths))
      build->inputs[i] =
          add_list(build, i, i == sequences->ends ? sequences->of_ends : sequences->of_lengths);
    else if (attention_of(op)->tree.taken && i == attention_of(op)->tree.input)
      build->inputs[i] = attention_add_tree(build, i);
    else if (pages->rows && i == pages->table)
      build->inputs[i] = add_table(build, i);
    else if (pages->scales[0] && i == attention_of(op)->key_scale_input)
      build->inputs[i] = add_paged_scales(build, i, pages->scales[0]);
    else if (attention_of(op)->scaled && i == attention_of(op)->scale_input)
      build->inputs[i] =
          pages->scales[1] ? add_paged_scales(build, i, pages->scales[1]) : add_scales(build, i);
    else if (attention_of(op)->joined.taken && i == attention_of(op)->joined.rows[0])
      build->inputs[i] = attention_add_joined(build, 0, false);
    else if (attention_of(op)->joined.taken && i == attention_of(op)->joined.rows[1])
      build->inputs[i] = attention_add_joined(build, 1, false);
    else if (!fused_is_contracted(op, i))
      build->inputs[i] = add_tensor(build, KERNEL_INPUT, i, op->inputs[i].tensor,
                                    (const Symbolic *const *)op->inputs[i].strides);
  for (unsigned i = 0; i < op->n_outputs; i++)
    if (attention_is_cache(attention_of(op), i))
      build->outputs[i] = attention_add_joined(build, i == attention_of(op)->joined.caches[1], true);
    else
      build->outputs[i] = add_tensor(build, KERNEL_OUTPUT, i, op->outputs[i].tensor,
                                     (const Symbolic *const *)op->outputs[i].strides);
}

/* ---- sub-kernels ---- */

/* Of a tile's grouped rows: where each lies in a tensor of these steps from row to row and from head to head, s64. */
static IrExpr *grouped_offsets(StepScope *scope, IrExpr *begin, const IrValue *tensor)
{
  const AttentionPlace *place = scope->data;
  IrModule *module = scope->build->module;
  IrExpr *first = ir_binary(module, OPERATOR_MUL, place->at[ATTENTION_HEAD], attention_group(scope->build));
  IrExpr *row = attention_grouped_row(scope, place->at[ATTENTION_ROW]),
         *head = attention_grouped_head(scope, place->at[ATTENTION_ROW]);
  IrExpr *parts[] = {attention_emit(scope, OP_ADD, NUMBER_S32, place->rows, 1, row, begin),
                     attention_emit(scope, OP_ADD, NUMBER_S32, place->rows, 1, head, first)};
  IrExpr *steps[] = {tensor->type.strides[ATTENTION_ROW], tensor->type.strides[ATTENTION_HEAD]};
  for (unsigned i = 0; i < G_N_ELEMENTS(parts); i++) {
    parts[i] = attention_emit(scope, OP_CAST, NUMBER_S64, place->rows, 1, parts[i], NULL);
    parts[i] = attention_emit(scope, OP_MUL, NUMBER_S64, place->rows, 1, parts[i], steps[i]);
  }
  return attention_emit(scope, OP_ADD, NUMBER_S64, place->rows, 1, parts[0], parts[1]);
}

/* Elements that lie side by side and may be moved at once, wherever a grouped row begins. */
static int64_t side_by_side(const KernelBuild *build, const GraphTensor *tensor, const Symbolic *row,
                            const Symbolic *head)
{
  const SymbolicFacts *facts = &build->graph->facts;
  int64_t elements = choice_align(build->choice, tensor) * CHAR_BIT / number_bits(tensor->type);
  while (elements > 1 &&
         (symbolic_multiple(row, facts) % elements || symbolic_multiple(head, facts) % elements))
    elements /= 2;
  return MAX(elements, 1);
}

/* Rows of the tile in front of `end`: of another sequence are those behind it. */
static IrExpr *own_rows(StepScope *scope, IrExpr *end)
{
  const AttentionPlace *place = scope->data;
  IrExpr *first = place->at[ATTENTION_ROW], *number;
  if (attention_rows_of_head(scope->build)) {
    end = ir_binary(scope->build->module, OPERATOR_DIV, end, attention_group(scope->build));
    number = attention_grouped_row(scope, first);
  } else {
    number = attention_numbers(scope, 0, first);
  }
  return attention_emit(scope, OP_LT, NUMBER_BOOL, place->rows, 1, number, end);
}

/* Do several blocks share a head's columns? */
static bool shares_columns(const StepScope *scope)
{
  return choice_int(scope->build->choice, "columns", 1) > 1;
}

/* Where the block with the first ones alone comes. */
static IrBuilder in_first_columns(StepScope *scope)
{
  const AttentionPlace *place = scope->data;
  IrModule *module = scope->build->module;
  IrExpr *first = ir_binary(module, OPERATOR_EQ, place->at[ATTENTION_COLUMN], ir_int(module, 0));
  IrBuilder builder = ir_builder_at_end(ir_region_add(ir_emit(&scope->builder, OP_IF, 1, first)));
  builder.mark = scope->builder.mark;
  return builder;
}

/* Where a tile's elements are within its rows' own and no column behind the last: [rows, 1], or of tiles wider than what there is
 * [rows, columns]. */
static IrExpr *own_elements(StepScope *scope, IrExpr *own, const Symbolic *width)
{
  const AttentionPlace *place = scope->data;
  IrModule *module = scope->build->module;
  int64_t columns = place->columns;
  symbolic_is_constant(width, &columns);
  if (columns >= place->columns) return own;
  IrExpr *within = attention_emit(scope, OP_LT, NUMBER_BOOL, 1, place->columns,
                                  attention_numbers(scope, 1, ir_int(module, 0)), ir_int(module, columns));
  return attention_emit(scope, OP_AND, NUMBER_BOOL, place->rows, place->columns, own, within);
}

/* Rows of a tile that lie wherever their heads are, those in front of `end`. */
static void store_grouped(StepScope *scope, unsigned output, IrExpr *value, IrExpr *begin, IrExpr *own)
{
  const FusedOperator *op = scope->build->op;
  IrModule *module = scope->build->module;
  const FusedOutput *to = &op->outputs[output];
  const Symbolic *const *strides = (const Symbolic *const *)to->strides;
  IrValue *tensor = scope->tensors[op->n_inputs + output];
  bool each = symbolic_equals(strides[ATTENTION_COLUMN], 0);
  if (!each) own = own_elements(scope, own, attention_of(op)->width);
  IrOp *store = ir_emit(&scope->builder, OP_SCATTER, 3, ir_value(module, tensor),
                        grouped_offsets(scope, begin, tensor), value);
  ir_attribute_set(store, ATTR_WHERE, own);
  int64_t beside = side_by_side(scope->build, to->tensor, strides[ATTENTION_ROW], strides[ATTENTION_HEAD]);
  if (!each) ir_attribute_set(store, ATTR_ALIGNED, ir_int(module, beside));
}

/* Steps and stores, in a region if there is one. begin: of grouped rows, where the sequence's begin. */
static bool write_rows(StepScope *scope, IrRegion *region, IrExpr *end, IrExpr *begin)
{
  const FusedOperator *op = scope->build->op;
  IrBuilder outer = scope->builder;
  if (region) scope_enter(scope, region);
  IrExpr *own = end ? own_rows(scope, end) : NULL;
  if (!scope_write_steps(scope, false)) return false;
  for (unsigned i = 0; i < op->n_outputs; i++) {
    if (attention_is_cache(attention_of(op), i)) continue;
    IrValue *tensor = scope->tensors[op->n_inputs + i];
    int64_t extent[2];
    IrExpr *value = scope_stored(scope, i, scope_operand(scope, &op->outputs[i].value));
    if (begin) {
      store_grouped(scope, i, value, begin, own);
      continue;
    }
    IrExpr *to = attention_corner(scope, tensor, extent, true);
    IrBuilder builder = scope->builder;
    if (shares_columns(scope) && symbolic_equals(op->outputs[i].strides[ATTENTION_COLUMN], 0))
      builder = in_first_columns(scope); /* all who share a head know it */
    IrOp *store = ir_emit(&builder, OP_STORE, 2, to, value);
    if (own) ir_attribute_set(store, ATTR_WHERE, own);
  }
  if (region) scope->builder = outer;
  return true;
}

/* Tiles of a sequence's rows leave whole, by whatever copies whole tiles; of the last one its own rows are stored. */
static bool write_sequence(StepScope *scope, IrExpr *end)
{
  const AttentionPlace *place = scope->data;
  IrModule *module = scope->build->module;
  IrExpr *behind = ir_binary(module, OPERATOR_ADD, place->at[ATTENTION_ROW], ir_int(module, place->rows));
  IrOp *whole = ir_emit(&scope->builder, OP_IF, 1, ir_binary(module, OPERATOR_LE, behind, end));
  IrRegion *all = ir_region_add(whole), *cut = ir_region_add(whole);
  return write_rows(scope, all, NULL, NULL) && write_rows(scope, cut, end, NULL);
}

static bool write_epilogue(KernelBuild *build)
{
  StepScope scope = {0};
  bool divided = choice_int(build->choice, "divided", 0); /* then it gets what blocks have added up */
  AttentionPlace place = {.rows = choice_int(build->choice, divided ? "chunk" : "rows", 0),
                          .columns = choice_int(build->choice, "dv_tile", 0),
                          .inner = ATTENTION_COLUMN};
  scope_open(&scope, build, "epilogue");
  scope.data = &place;
  scope.load = attention_load;
  scope.anchors[1] = attention_add_tile(&scope, "result", place.rows, place.columns);
  scope.anchors[2] = attention_add_tile(&scope, "lse", place.rows, 1);
  attention_add_place(&scope, &place, false);
  if (shares_columns(&scope))
    place.at[ATTENTION_COLUMN] =
        ir_value(build->module, ir_parameter_new(scope.function, "column", ir_scalar(NUMBER_S32)));
  IrExpr *end = attention_of(build->op)->sequences.packed
                    ? ir_value(build->module, ir_parameter_new(scope.function, "end", ir_scalar(NUMBER_S32)))
                    : NULL;
  IrExpr *begin = attention_is_grouped(build) ? attention_number(&scope, "begin") : NULL;
  scope_add_tensors(&scope);
  if (end && !begin ? !write_sequence(&scope, end) : !write_rows(&scope, NULL, end, begin)) return false;
  scope_close(&scope, NULL);
  return true;
}

/* ---- few queries ---- */

/* Which page a key lies in. Negative numbers count from the end; what is no page then, and the page of a key that no row sees, is the one
 * behind the last: its rows are zeros, and nothing is read. */
static void write_slab(KernelBuild *build)
{
  static const char *const names[] = {"batch", "head", "key", "seen"};
  const AttentionPages *pages = &attention_of(build->op)->pages;
  IrModule *module = build->module;
  StepScope scope = {0};
  IrExpr *given[G_N_ELEMENTS(names)];
  scope_open(&scope, build, "slab");
  for (unsigned i = 0; i < G_N_ELEMENTS(names); i++)
    given[i] = ir_value(module, ir_parameter_new(scope.function, names[i], ir_scalar(NUMBER_S32)));
  scope_add_tensors(&scope);
  IrExpr *slab = pages->rows ? attention_page(&scope, given[0], given[2], given[3]) : ir_int(module, 0);
  scope_close(&scope, ir_emit_value(&scope.builder, OP_LET, ir_scalar(NUMBER_S32), "slab", 1, slab));
}

/* A sequence's entry in what is loaded of sequences, no less than 0 and no more than there are keys. */
static IrExpr *load_entry(StepScope *scope, IrExpr *sequence, int64_t more)
{
  KernelBuild *build = scope->build;
  IrModule *module = build->module;
  const FusedAttention *attention = attention_of(build->op);
  IrValue *list = scope->tensors[attention->sequences.lengths];
  IrExpr *zero = ir_int(module, 0),
         *at[ATTENTION_RANK] = {ir_binary(module, OPERATOR_ADD, sequence, ir_int(module, more)), zero, zero,
                                zero};
  IrExpr *loaded = attention_load_number(
      scope, "entry", ir_index_array(module, ir_value(module, list), ATTENTION_RANK, at), list->type.element);
  IrExpr *keys = kernel_dim(build, attention->keys, "KEYS", NUMBER_S32);
  return ir_call(module, "max", 2, ir_call(module, "min", 2, loaded, keys), zero);
}

static IrExpr *load_limit(StepScope *scope, const AttentionBound *bound)
{
  IrValue *tensor = scope->tensors[bound->limit.index];
  int64_t extent[2];
  return attention_load_number(scope, "limit", attention_corner(scope, tensor, extent, false),
                               tensor->type.element);
}

/* From which key on no row sees any: what is loaded for the batch and head, or all keys. */
static void write_seen(KernelBuild *build)
{
  const FusedAttention *attention = attention_of(build->op);
  IrModule *module = build->module;
  StepScope scope = {0};
  AttentionPlace place = {.rows = 1, .columns = 1, .inner = ATTENTION_KEY};
  scope_open(&scope, build, "seen");
  scope.data = &place;
  for (unsigned d = 0; d < ATTENTION_ROW; d++)
    place.at[d] =
        ir_value(module, ir_parameter_new(scope.function, d ? "head" : "batch", ir_scalar(NUMBER_S32)));
  place.at[ATTENTION_ROW] = place.at[ATTENTION_KEY] = ir_int(module, 0);
  scope_add_tensors(&scope);
  IrExpr *seen = kernel_dim(build, attention->keys, "KEYS", NUMBER_S32);
  bool asks = attention->pages.rows || choice_int(build->choice, "places", 0) ||
              choice_int(build->choice, "cleared", 0);
  if (attention->sequences.packed_keys)
    seen = ir_binary(module, OPERATOR_SUB, load_entry(&scope, place.at[ATTENTION_BATCH], 1),
                     load_entry(&scope, place.at[ATTENTION_BATCH], 0));
  else if (attention->sequences.packed && !attention->sequences.own)
    seen = load_entry(&scope, place.at[ATTENTION_BATCH], 0);
  for (unsigned i = 0; asks && i < attention->n_bounds; i++) {
    const AttentionBound *bound = &attention->bounds[i];
    if (!attention_bound_ends(bound)) continue;
    const Symbolic *more = bound->from_row ? attention->rows : symbolic_constant(build->expressions, 1);
    if (attention->joined.taken && i == attention->joined.bound)
      more = symbolic_constant(build->expressions, 0); /* of the cache what is in front of the new row */
    more = symbolic_add(build->expressions, bound->number, more);
    IrExpr *end = kernel_dim(build, more, "BOUND", NUMBER_S32);
    if (bound->limit.kind == OPERAND_INPUT)
      end = ir_binary(module, OPERATOR_ADD, load_limit(&scope, bound), end);
    seen = ir_call(module, "min", 2, seen, end);
  }
  scope_close(&scope, ir_emit_value(&scope.builder, OP_LET, ir_scalar(NUMBER_S32), "seen", 1, seen));
}

/* Where keys of a sequence begin: at 0, or behind those of others. */
static void write_behind(KernelBuild *build)
{
  IrModule *module = build->module;
  StepScope scope = {0};
  if (choice_int(build->choice, "places", 0)) return; /* few queries: their template asks nobody */
  scope_open(&scope, build, "behind");
  IrExpr *sequence = ir_value(module, ir_parameter_new(scope.function, "sequence", ir_scalar(NUMBER_S32)));
  scope_add_tensors(&scope);
  bool packed = attention_of(build->op)->sequences.packed_keys;
  IrExpr *behind = packed ? load_entry(&scope, sequence, 0) : ir_int(module, 0);
  scope_close(&scope, ir_emit_value(&scope.builder, OP_LET, ir_scalar(NUMBER_S32), "behind", 1, behind));
}

/* Which row of its sequence each of a tile's rows is, from that of the first on. */
static void write_down(KernelBuild *build)
{
  IrModule *module = build->module;
  StepScope scope = {0};
  AttentionPlace place = {.rows = choice_int(build->choice, "rows", 0)};
  if (choice_int(build->choice, "places", 0)) return; /* few queries: their template asks nobody */
  scope_open(&scope, build, "down");
  scope.data = &place;
  IrExpr *tile = attention_number(&scope, "tile"), *down, *first;
  scope_add_tensors(&scope);
  first = ir_binary(module, OPERATOR_MOD, ir_binary(module, OPERATOR_MUL, tile, ir_int(module, place.rows)),
                    attention_group(build));
  if (attention_rows_of_head(build)) first = ir_int(module, 0); /* whole rows of all heads are in front */
  down = attention_is_grouped(build) ? attention_grouped_row(&scope, first)
                                     : attention_counted(&scope, 0, NUMBER_S32);
  down->value->name = "down";
  scope_close(&scope, down);
}

/* Queries of a tile's grouped rows, those in front of `end`; zeros behind. */
static IrExpr *gather_queries(StepScope *scope, IrValue *queries, IrExpr *begin, IrExpr *end, IrType type)
{
  const KernelBuild *build = scope->build;
  const FusedAttention *attention = attention_of(build->op);
  const AttentionOperand *operand = &attention->queries;
  IrModule *module = build->module;
  IrExpr *own = own_elements(scope, own_rows(scope, end), attention->depth);
  int64_t beside = side_by_side(build, build->op->inputs[operand->input].tensor,
                                operand->strides[ATTENTION_ROW], operand->strides[ATTENTION_HEAD]);
  IrExpr *tile = ir_emit_value(&scope->builder, OP_GATHER, type, "heads", 2, ir_value(module, queries),
                               grouped_offsets(scope, begin, queries));
  ir_attribute_set(tile->value->def, ATTR_WHERE, own);
  ir_attribute_set(tile->value->def, ATTR_FILL, ir_float(module, 0));
  ir_attribute_set(tile->value->def, ATTR_ALIGNED, ir_int(module, beside));
  return tile;
}

/* A tile of queries that lie in several places: of grouped rows, the heads of each side by side. Others have none, and nobody asks for them. */
static void write_gathered(KernelBuild *build)
{
  const FusedAttention *attention = attention_of(build->op);
  IrModule *module = build->module;
  StepScope scope = {0};
  AttentionPlace place = {.rows = choice_int(build->choice, "rows", 0),
                          .columns = choice_int(build->choice, "d_tile", 0)};
  int64_t extent[2] = {place.rows, place.columns};
  IrType type = ir_tile(module, attention->type, 2, extent, NULL);
  if (choice_int(build->choice, "places", 0)) return; /* few queries: their template asks nobody */
  scope_open(&scope, build, "gathered");
  scope.data = &place;
  IrValue *queries = ir_parameter_new(scope.function, "queries", build->kernel->parameters[0]->type);
  place.at[ATTENTION_HEAD] = attention_number(&scope, "head");
  place.at[ATTENTION_ROW] = attention_number(&scope, "row");
  IrExpr *begin = attention_number(&scope, "begin"), *end = attention_number(&scope, "end");
  scope_add_tensors(&scope);
  scope_close(&scope, attention_is_grouped(build) && !attention_rows_of_head(build)
                          ? gather_queries(&scope, queries, begin, end, type)
                          : ir_emit_value(&scope.builder, OP_SPLAT, type, "none", 1, ir_float(module, 0)));
}

/* Heads that have tiles of their own. */
static const Symbolic *heads_of_tiles(const KernelBuild *build)
{
  const FusedAttention *attention = attention_of(build->op);
  return attention_is_grouped(build)
             ? symbolic_binary(build->expressions, SYMBOLIC_DIV, attention->heads, attention->group)
             : attention->heads;
}

/* Are keys of sequences of few rows divided among blocks? */
static bool divides_keys(const KernelBuild *build)
{
  return choice_int(build->choice, "shares", 1) > 1;
}

/* What blocks leave one another has a place in the signature where they do; the two tensors are the template's last. */
static void drop_parts(KernelBuild *build)
{
  if (choice_int(build->choice, "places", 0) || divides_keys(build)) return;
  for (unsigned i = ATTENTION_OPERANDS; i < build->kernel->n_parameters; i++)
    g_hash_table_insert(build->tensors, (gpointer)build->kernel->parameters[i]->name, NULL);
}

/* A block asks the scheduler for its tiles in place of the raster, which follows from the shape alone. */
static void schedule_sequences(KernelBuild *build)
{
  const FusedAttention *attention = attention_of(build->op);
  IrModule *module = build->module;
  const bool divides = divides_keys(build);
  const char *name = divides ? "sequence_parts" : "sequence_rows";
  IrOp *tiles = kernel_tiles(build);
  if (!attention->sequences.packed) return;
  g_autoptr(GPtrArray) operands = g_ptr_array_new();
  g_ptr_array_add(operands, ir_symbol(module, name));
  g_ptr_array_add(operands, ir_value(module, build->inputs[attention->sequences.ends]));
  if (divides) g_ptr_array_add(operands, ir_value(module, build->inputs[attention->sequences.lengths]));
  g_ptr_array_add(operands, kernel_dim(build, attention->batches, "B", NUMBER_S32));
  g_ptr_array_add(operands, kernel_dim(build, attention->rows, "M", NUMBER_S32));
  g_ptr_array_add(operands, kernel_dim(build, heads_of_tiles(build), "H", NUMBER_S32));
  g_ptr_array_add(operands, ir_int(module, choice_int(build->choice, "rows", 0)));
  g_ptr_array_add(operands, ir_int(module, choice_int(build->choice, "heads", 1)));
  g_ptr_array_add(operands, attention_is_grouped(build) ? attention_group(build) : ir_int(module, 1));
  if (divides) g_ptr_array_add(operands, kernel_dim(build, attention->keys, "KEYS", NUMBER_S32));
  static const char *const of_parts[] = {"few", "per", "shares"};
  for (unsigned i = 0; divides && i < G_N_ELEMENTS(of_parts); i++)
    g_ptr_array_add(operands, ir_int(module, choice_int(build->choice, of_parts[i], 1)));
  tiles->operands = arena_memdup(module->arena, operands->pdata, operands->len * sizeof *operands->pdata);
  tiles->n_operands = operands->len;
}

/* Among how many blocks the keys are divided follows from the shape alone. Where a block has all keys of a head the
 * workspace stays in the signature: the plan has it for the variant that divides them. */
static void bind_parts(KernelBuild *build)
{
  const Choice *choice = build->choice;
  int64_t places = choice_int(choice, "places", 0), most = choice_int(choice, "most", 1),
          least = choice_int(choice, "least", 1);
  bool divided = choice_int(choice, "divided", 0);
  if (!places) return;
  places /= choice_int(choice, "columns", 1);
  const Symbolic *parts = attention_parts(attention_of(build->op), build->expressions, places, most, least);
  kernel_bind_dim(build, "PARTS", divided ? parts : symbolic_constant(build->expressions, 1));
}

/* 1: each block of a persistent grid would have tiles of the same rows in every round, as the grid is a multiple of the tiles
 * of those heads that are walked together. */
static const Symbolic *is_alike(const KernelBuild *build)
{
  const FusedAttention *attention = attention_of(build->op);
  Arena *arena = build->expressions;
  int64_t heads = choice_int(build->choice, "heads", 1),
          rows = choice_int(build->choice, "rows", 1) * choice_int(build->choice, "cluster_n", 1);
  int64_t blocks = choice_int(build->choice, "sms", 1) / choice_int(build->choice, "cluster_n", 1);
  const Symbolic *together = symbolic_binary(arena, SYMBOLIC_MIN, symbolic_constant(arena, heads),
                                             symbolic_mul(arena, attention->batches, attention->heads));
  const Symbolic *tiles = symbolic_mul(
      arena, together, symbolic_ceil_div(arena, attention->rows, symbolic_constant(arena, rows)));
  tiles = symbolic_binary(arena, SYMBOLIC_MAX, tiles, symbolic_constant(arena, 1)); /* without rows */
  return symbolic_binary(arena, SYMBOLIC_EQ,
                         symbolic_binary(arena, SYMBOLIC_MOD, symbolic_constant(arena, blocks), tiles),
                         symbolic_constant(arena, 0));
}

bool kernel_write_attention(KernelBuild *build)
{
  const FusedAttention *attention = attention_of(build->op);
  bind_parts(build);
  drop_parts(build);
  kernel_bind_dim(build, "B", attention->batches);
  kernel_bind_dim(build, "H", heads_of_tiles(build));
  kernel_bind_dim(build, "G", attention->group);
  kernel_bind_dim(build, "M", attention->rows);
  kernel_bind_dim(build, "N", attention->keys);
  kernel_bind_dim(build, "DIAGONAL", attention->diagonal);
  if (!choice_int(build->choice, "places", 0)) kernel_bind_dim(build, "ALIKE", is_alike(build));
  const Symbolic *lowest = attention_lowest(attention);
  if (choice_parameter(build->choice, "window"))
    kernel_bind_dim(build, "LOWEST", lowest ? lowest : symbolic_constant(build->expressions, 0));
  const Symbolic *const *pages = attention->pages.strides; /* NULL: keys do not lie in pages */
  describe_operand(build, 0, &attention->queries, NULL);
  describe_operand(build, 1, &attention->key_matrix, pages[0]);
  describe_operand(build, 2, &attention->values, pages[1]);
  for (unsigned i = 1; attention_is_grouped(build) && i < 3;
       i++) /* heads of tiles are those of keys and values */
    build->kernel->parameters[i]->type.dims[1] = kernel_dim(build, heads_of_tiles(build), "H", NUMBER_S32);
  if (attention_is_grouped(build))
    build->kernel->parameters[0]->type.dims[1] = kernel_dim(build, attention->heads, "HEADS", NUMBER_S32);
  ir_region_visit(build->kernel->body, read_at_zero, build);
  add_tensors(build);
  schedule_sequences(build);
  write_seen(build);
  write_behind(build);
  write_down(build);
  attention_write_start(build);
  write_gathered(build);
  write_slab(build);
  attention_write_widened(build, "keyed", attention->type, "d_tile", attention->pages.scales[0], true,
                          attention->key_scale_input);
  attention_write_widened(build, "values", attention_value_type(attention), "dv_tile", attention->scaled,
                          attention->pages.scales[1], attention->scale_input);
  return attention_write_joined(build) && attention_write_score(build) && write_epilogue(build);
}
