/* The GEMM template's part that only the graph knows: operands' strides, batches and the epilogue. */
#include "generator/program/gemm.h"
#include "generator/kernel/gemm_groups.h"
#include "generator/kernel/kernel.h"
#include "generator/kernel/steps.h"
#include "generator/program/times.h"
#include "ir/facts.h"
#include <math.h>

#define NARROW_LEAD                                                                                          \
  4 /* where the template of narrow weights has operands of a product that leads: behind scales and zero points */

typedef struct {
  IrExpr *at[FUSED_MAX_RANK + 2]; /* where the tile starts: batches, row, column */
  unsigned rank;                  /* batches + 2; a product without batches has one of extent 1 */
  int64_t bm, bn;
  unsigned grouped; /* dim of the tile that groups' rows are: 0, or 1 where operands have changed places */
  IrExpr *own;      /* rows of the tile that are stored; NULL: all that there are */
} Place;

/* Tile of a tensor over [batches..., M, N]; a broadcast dimension has extent 1 and is read at 0. */
static IrExpr *corner(StepScope *scope, IrValue *tensor, int64_t *extent)
{
  const Place *place = scope->data;
  IrModule *module = scope->build->module;
  int64_t tile[2] = {place->bm, place->bn}, stride;
  IrExpr **items = arena_new_array(module->arena, IrExpr *, place->rank + 1);
  items[0] = ir_value(module, tensor);
  for (unsigned d = 0; d < place->rank; d++) {
    bool broadcast = ir_expr_is_int(tensor->type.strides[d], &stride) && stride == 0;
    items[d + 1] = broadcast ? ir_int(module, 0) : place->at[d];
    if (broadcast && d + 2 >= place->rank) tile[d + 2 - place->rank] = 1;
  }
  extent[0] = tile[0];
  extent[1] = tile[1];
  return ir_index_array(module, items[0], place->rank, items + 1);
}

/* Of an operator over the times of a loop the batch is the time: where the tensor lies then. */
static void begin_at_time(StepScope *scope, IrExpr *access, const GraphTensor *tensor)
{
  const Place *place = scope->data;
  const FusedOperator *op = scope->build->op;
  const GraphTime *time = op->times ? graph_time_of(op->times, tensor) : NULL;
  if (!time) return;
  IrModule *module = scope->build->module;
  IrExpr *at = place->at[0], *one = ir_int(module, 1), *two = ir_int(module, 2);
  switch (time->kind) {
  case GRAPH_TIME_ELEMENT: break;
  case GRAPH_TIME_REVERSED:
    at = ir_binary(
        module, OPERATOR_SUB,
        ir_binary(module, OPERATOR_SUB, kernel_dim(scope->build, op->dims[0], "G", NUMBER_S32), one), at);
    break;
  case GRAPH_TIME_STATE: at = ir_binary(module, OPERATOR_MOD, at, two); break;
  case GRAPH_TIME_NEXT:
    at = ir_binary(module, OPERATOR_MOD, ir_binary(module, OPERATOR_ADD, at, one), two);
    break;
  }
  access->items[1] = at;
}

/* A thread reads only what it writes of an input that may be an output: one row or column is no broadcast
 * then, but a tile of which all else lies outside of the tensor. */
static IrExpr *load_input(StepScope *scope, unsigned input)
{
  const Place *place = scope->data;
  int64_t extent[2];
  IrExpr *access = corner(scope, scope->tensors[input], extent);
  if (kernel_may_share_memory(scope->build->op, scope->build->op->inputs[input].tensor)) {
    for (unsigned d = place->rank - 2; d < place->rank; d++)
      access->items[d + 1] = place->at[d];
    extent[0] = place->bm;
    extent[1] = place->bn;
  }
  begin_at_time(scope, access, scope->build->op->inputs[input].tensor);
  return scope_load_tile(scope, input, access, extent);
}

/* Do blocks that share a tile finish a part of its columns each? */
static bool shares_columns(const Choice *choice)
{
  return choice_int(choice, "split_k", 1) > 1 || choice_int(choice, "slices", 1) > 1;
}

/* Of an output of one column only the block whose part begins at 0 has any: the others' parts begin outside
 * of it, which a coordinate of 0 would hide. */
static void begin_own_part(StepScope *scope, IrExpr *access)
{
  const Place *place = scope->data;
  const FusedOperator *op = scope->build->op;
  if (shares_columns(scope->build->choice) && symbolic_equals(op->dims[op->rank - 1], 1))
    access->items[place->rank] = place->at[place->rank - 1];
}

/* ---- Outputs that are reduced by parts of the columns or rows ---- */

/* What does not change the result; a tile's columns outside of the tensor count as it. */
static IrExpr *identity_of(IrModule *module, OperatorId reduction, NumberType type)
{
  bool is_float = number_class(type) == NUMBER_FLOAT;
  if (reduction == ONNX_ReduceSum) return is_float ? ir_float(module, -0.0) : ir_int(module, 0);
  bool max = reduction == ONNX_ReduceMax;
  if (is_float) return ir_float(module, max ? -INFINITY : INFINITY);
  return ir_int(module, max ? G_MININT32 : G_MAXINT32);
}

/* A tile of the same elements that is a value of its own. */
static IrExpr *unchanged(StepScope *scope, IrExpr *value, IrExpr *identity, OperatorId reduction)
{
  const Place *place = scope->data;
  int64_t all[2] = {place->bm, place->bn};
  NumberType element = value->value->type.element;
  IrType type = ir_tile(scope->build->module, element, 2, all, NULL);
  if (reduction == ONNX_ReduceSum)
    return ir_emit_value(&scope->builder, OP_ADD, type, "x", 2, value, identity);
  IrOpcode code = reduction == ONNX_ReduceMax ? OP_MAX : OP_MIN;
  IrExpr *same = ir_emit_value(&scope->builder, code, type, "x", 2, value, identity);
  if (number_class(element) == NUMBER_FLOAT) ir_attribute_set(same->value->def, ATTR_NAN, NULL);
  return same;
}

/* The value where the tensor has columns. Without such columns it is still an operation: what is reduced must
 * be a tile of its own. */
static IrExpr *inside_columns(StepScope *scope, IrExpr *value, IrExpr *identity, OperatorId reduction)
{
  const Place *place = scope->data;
  IrModule *module = scope->build->module;
  IrBuilder *builder = &scope->builder;
  NumberType element = value->value->type.element;
  int64_t row[2] = {1, place->bn}, all[2] = {place->bm, place->bn};
  IrExpr *columns = kernel_dim(scope->build, gemm_of(scope->build->op)->n, "N", NUMBER_S32);
  IrType type = ir_tile(module, element, 2, all, NULL);
  if (ir_known_multiple(scope->build->kernel, columns, REDUCED_COLUMNS) == REDUCED_COLUMNS)
    return unchanged(scope, value, identity, reduction);
  IrExpr *number = ir_emit_value(builder, OP_IOTA, ir_tile(module, NUMBER_S32, 2, row, NULL), "number", 0);
  ir_attribute_set(number->value->def, ATTR_DIM, ir_int(module, 1));
  IrExpr *left = ir_binary(module, OPERATOR_SUB, columns, place->at[place->rank - 1]);
  IrExpr *inside =
      ir_emit_value(builder, OP_LT, ir_tile(module, NUMBER_BOOL, 2, row, NULL), "inside", 2, number, left);
  return ir_emit_value(builder, OP_SELECT, type, "x", 3, inside, value, identity);
}

static const char *reduction_name(OperatorId reduction)
{
  return reduction == ONNX_ReduceSum ? "sum" : reduction == ONNX_ReduceMax ? "max" : "min";
}

/* One value a row and part. */
static void store_reduced_columns(StepScope *scope, const FusedOutput *output, IrValue *tensor, IrExpr *value)
{
  Place *place = scope->data;
  IrModule *module = scope->build->module;
  NumberType element = tensor->type.element;
  IrExpr *identity = identity_of(module, output->reduction, element);
  value = inside_columns(scope, value, identity, output->reduction);
  int64_t extent[2] = {place->bm, 1}, ignored[2];
  IrExpr *result =
      ir_emit_value(&scope->builder, OP_REDUCE, ir_tile(module, element, 2, extent, NULL), "part", 1, value);
  ir_attribute_set(result->value->def, ATTR_WITH, ir_name(module, reduction_name(output->reduction)));
  ir_attribute_set(result->value->def, ATTR_DIM, ir_int(module, 1));
  IrExpr **column = &place->at[place->rank - 1], *kept = *column;
  *column = ir_binary(module, OPERATOR_DIV, kept, ir_int(module, REDUCED_COLUMNS));
  ir_emit(&scope->builder, OP_STORE, 2, corner(scope, tensor, ignored), result);
  *column = kept;
}

/* One value a column and part. A value that is the accumulator itself goes through an operation: passes take
 * what is stored of it apart. */
static void store_reduced_rows(StepScope *scope, const FusedOutput *output, IrValue *tensor, IrExpr *value)
{
  IrModule *module = scope->build->module;
  NumberType element = tensor->type.element;
  IrExpr *identity = identity_of(module, output->reduction, element);
  IrExpr *rows = kernel_dim(scope->build, gemm_of(scope->build->op)->m, "M", NUMBER_S32);
  int64_t ignored[2];
  if (output->value.kind == OPERAND_ANCHOR) value = unchanged(scope, value, identity, output->reduction);
  IrOp *store = ir_emit(&scope->builder, OP_STORE_REDUCED, 2, corner(scope, tensor, ignored), value);
  ir_attribute_set(store, ATTR_WITH, ir_name(module, reduction_name(output->reduction)));
  ir_attribute_set(store, ATTR_EVERY, ir_int(module, REDUCED_ROWS));
  if (ir_known_multiple(scope->build->kernel, rows, REDUCED_ROWS) == REDUCED_ROWS) return;
  ir_attribute_set(store, ATTR_ROWS, rows);
  ir_attribute_set(store, ATTR_FILL, identity);
}

static bool store_outputs(StepScope *scope)
{
  KernelBuild *build = scope->build;
  const Place *place = scope->data;
  for (unsigned i = 0; i < build->op->n_outputs; i++) {
    const FusedOutput *output = &build->op->outputs[i];
    IrValue *tensor = scope->tensors[build->op->n_inputs + i];
    int64_t extent[2];
    IrExpr *value = scope_stored(scope, i, scope_operand(scope, &output->value));
    if (output->reduced) {
      (output->by_rows ? store_reduced_rows : store_reduced_columns)(scope, output, tensor, value);
      continue;
    }
    IrExpr *access = corner(scope, tensor, extent);
    begin_own_part(scope, access);
    begin_at_time(scope, access, output->tensor);
    IrOp *store = ir_emit(&scope->builder, OP_STORE, 2, access, value);
    if (place->own) ir_attribute_set(store, ATTR_WHERE, place->own);
  }
  return true;
}

/* Steps and stores of a tile's own rows, in a region: once more, so nothing of what was computed elsewhere is taken. */
static bool write_rows(StepScope *scope, IrRegion *region, IrExpr *end)
{
  const FusedOperator *op = scope->build->op;
  Place *place = scope->data;
  IrBuilder outer = scope->builder;
  scope_enter(scope, region);
  if (end) {
    IrExpr *sizes = ir_value(scope->build->module, scope->tensors[gemm_of(op)->sizes]);
    place->own = groups_rows(&scope->builder, op, sizes, place->at[0], place->at[1 + place->grouped], end,
                             place->grouped, place->grouped ? place->bn : place->bm);
  }
  bool ok = scope_write_steps(scope, false) && store_outputs(scope);
  place->own = NULL;
  scope->builder = outer;
  return ok;
}

/* Tiles that lie in their group leave whole, by whatever copies whole tiles; of one that is cut its own rows are stored. */
static bool write_grouped(StepScope *scope, IrExpr *end)
{
  const Place *place = scope->data;
  IrModule *module = scope->build->module;
  int64_t rows = place->grouped ? place->bn : place->bm;
  IrExpr *behind = ir_binary(module, OPERATOR_ADD, place->at[1 + place->grouped], ir_int(module, rows));
  IrOp *whole = ir_emit(&scope->builder, OP_IF, 1, ir_binary(module, OPERATOR_LE, behind, end));
  IrRegion *all = ir_region_add(whole), *cut = ir_region_add(whole);
  return write_rows(scope, all, NULL) && write_rows(scope, cut, end);
}

static bool write_epilogue(KernelBuild *build, int64_t bm, int64_t bn)
{
  StepScope scope = {0};
  scope_open(&scope, build, "epilogue");
  IrModule *module = build->module;
  int64_t extent[2] = {bm, bn};
  IrType accumulator = ir_tile(module, gemm_of(build->op)->acc_type, 2, extent, NULL);
  for (unsigned i = 0; i < gemm_of(build->op)->products; i++) {
    const char *name = i ? arena_printf(module->arena, "acc%u", i + 1) : "acc";
    scope.anchors[i] = ir_value(module, ir_parameter_new(scope.function, name, accumulator));
  }
  unsigned batches = MAX(1, gemm_of(build->op)->n_batch);
  bool swapped = choice_int(build->choice, "swapped", 0) != 0;
  Place place = {.bm = bm, .bn = bn, .rank = batches + 2, .grouped = swapped};
  for (unsigned d = 0; d < place.rank; d++) {
    const char *name = d < batches ? "batch" : d == batches ? "row" : "column";
    if (batches > 1 && d < batches) name = arena_printf(module->arena, "batch%u", d);
    place.at[d] = ir_value(module, ir_parameter_new(scope.function, name, ir_scalar(NUMBER_S32)));
  }
  IrExpr *end = gemm_groups_rows(gemm_of(build->op))
                    ? ir_value(module, ir_parameter_new(scope.function, "end", ir_scalar(NUMBER_S32)))
                    : NULL;
  scope.load = load_input;
  scope.data = &place;
  scope_add_tensors(&scope);
  if (end ? !write_grouped(&scope, end) : !scope_write_steps(&scope, false) || !store_outputs(&scope))
    return false;
  scope_close(&scope, NULL);
  return true;
}

/* ---- An epilogue for each part of the columns ---- */

typedef struct {
  KernelBuild *build;
  int64_t bm, bn, width; /* of the accumulator; columns of a part */
} PartedCall;

/* The accumulator's columns, of which each product has a part. */
static IrExpr *take_columns(const PartedCall *parted, IrExpr *accumulator, unsigned product, int64_t column)
{
  IrModule *module = parted->build->module;
  int64_t low = column;
  if (accumulator->kind == EXPR_INDEX) {
    accumulator = accumulator->items[0];
    low += product * (parted->bn / gemm_of(parted->build->op)->products);
  }
  return ir_index(module, accumulator, 2, ir_range(module, ir_int(module, 0), ir_int(module, parted->bm)),
                  ir_range(module, ir_int(module, low), ir_int(module, low + parted->width)));
}

/* Reduced outputs need results in parts: the call becomes one for each. */
static void part_call(const PartedCall *parted, IrOp *op)
{
  IrModule *module = parted->build->module;
  unsigned accumulators = gemm_of(parted->build->op)->products, last = op->n_operands - 1;
  int64_t columns = parted->bn / accumulators;
  if (columns == parted->width && accumulators == 1) return;
  IrExpr **whole = arena_memdup(module->arena, op->operands, op->n_operands * sizeof *op->operands);
  for (int64_t column = columns - parted->width; column >= 0; column -= parted->width) {
    IrExpr **operands = arena_memdup(module->arena, whole, op->n_operands * sizeof *whole);
    for (unsigned i = 1; i <= accumulators; i++)
      operands[i] = take_columns(parted, whole[i], i - 1, column);
    operands[last] = ir_binary(module, OPERATOR_ADD, whole[last], ir_int(module, column));
    if (column == 0) {
      op->operands = operands;
      return;
    }
    IrBuilder builder = ir_builder_after(op);
    builder.mark = op->mark;
    ir_emit_array(&builder, OP_CALL, op->n_operands, operands);
  }
}

static void collect_calls(IrOp *op, void *data)
{
  if (op->code == OP_CALL && op->operands[0]->kind == EXPR_PARAMETER) g_ptr_array_add(data, op);
}

/* Columns that a call of the epilogue has. */
static int64_t part_calls(KernelBuild *build, int64_t bm, int64_t bn, int64_t columns)
{
  if (!fused_is_reduced(build->op)) return columns;
  PartedCall parted = {build, bm, bn, REDUCED_COLUMNS};
  g_autoptr(GPtrArray) calls = g_ptr_array_new();
  ir_region_visit(build->kernel->body, collect_calls, calls);
  for (unsigned i = 0; i < calls->len; i++)
    part_call(&parted, calls->pdata[i]);
  return REDUCED_COLUMNS;
}

/* ---- Batches that do not merge into one ---- */

typedef struct {
  KernelBuild *build;
  IrValue *merged;  /* the template's one batch coordinate */
  IrExpr **batches; /* what replaces it */
  unsigned n;
} BatchExpansion;

static bool mentions(const IrExpr *expr, const IrValue *value)
{
  if (expr->kind == EXPR_VALUE) return expr->value == value;
  for (unsigned i = 0; i < expr->n; i++)
    if (mentions(expr->items[i], value)) return true;
  return false;
}

/* Where a template's op reads A or B; NULL: it does not. */
static IrExpr **operand_read(IrOp *op)
{
  IrExpr **read = op->code == OP_FILL ? &op->operands[1] : op->code == OP_LOAD ? &op->operands[0] : NULL;
  return read && (*read)->kind == EXPR_INDEX ? read : NULL; /* slots may be filled with values too */
}

/* Operands that are the batch, or index by it, become one for each batch. */
static void expand_list(BatchExpansion *expansion, IrExpr ***items, unsigned *n)
{
  IrExpr **longer = arena_new_array(expansion->build->module->arena, IrExpr *, *n + expansion->n);
  unsigned count = 0;
  for (unsigned i = 0; i < *n; i++) {
    if ((*items)[i]->kind != EXPR_INDEX && mentions((*items)[i], expansion->merged)) {
      for (unsigned j = 0; j < expansion->n; j++)
        longer[count++] = expansion->batches[j];
    } else {
      longer[count++] = (*items)[i];
    }
  }
  *items = longer;
  *n = count;
}

static void expand_op(IrOp *op, void *data)
{
  BatchExpansion *expansion = data;
  if (op->code == OP_CALL) expand_list(expansion, &op->operands, &op->n_operands);
  IrExpr **read = operand_read(op);
  if (!read) return;
  IrExpr *access = arena_memdup(expansion->build->module->arena, *read, sizeof *access);
  expand_list(expansion, &access->items, &access->n);
  *read = access;
}

/* The template walks [G, M, N]; with several batches the walk has a dimension for each. */
static void expand_batches(KernelBuild *build)
{
  const FusedOperator *op = build->op;
  IrModule *module = build->module;
  unsigned n = gemm_of(op)->n_batch;
  IrOp *tiles = kernel_tiles(build);
  IrRegion *region = tiles->regions[0];
  IrExpr **extents = arena_new_array(module->arena, IrExpr *, n + 3);
  IrExpr **batches = arena_new_array(module->arena, IrExpr *, n);
  unsigned others = region->n_arguments - 1; /* row, column, and what of k the block takes */
  IrValue **arguments = arena_new_array(module->arena, IrValue *, n + others);
  extents[0] = tiles->operands[0];
  for (unsigned i = 0; i < n; i++) {
    extents[i + 1] = kernel_dim(build, op->dims[i], "G", NUMBER_S32);
    arguments[i] = ir_argument_add(region, arena_printf(module->arena, "g%u", i), ir_scalar(NUMBER_S32));
    batches[i] = ir_value(module, arguments[i]);
  }
  BatchExpansion expansion = {build, region->arguments[0], batches, n};
  ir_region_visit(region, expand_op, &expansion);
  for (unsigned i = 0; i < 2; i++)
    extents[n + 1 + i] = tiles->operands[2 + i];
  for (unsigned i = 0; i < others; i++)
    arguments[n + i] = region->arguments[1 + i];
  tiles->operands = extents;
  tiles->n_operands = n + 3;
  region->arguments = arguments;
  region->n_arguments = n + others;
}

/* The template's A and B take the graph's strides; without a batch of its own an operand is read at batch 0.
 */
static void describe_operand(KernelBuild *build, unsigned parameter, const GraphTensor *tensor,
                             const Symbolic *const *batches, const Symbolic *row, const Symbolic *column)
{
  const FusedOperator *op = build->op;
  IrValue *value = build->kernel->parameters[parameter];
  IrModule *module = build->module;
  const FusedGemm *gemm = gemm_of(op);
  unsigned lead = MAX(1, gemm->n_batch);
  const Symbolic *outer = gemm->summed, *const *extents = outer ? &outer : op->dims;
  if (op->times) {
    outer = fused_time_extent(build->expressions, op, tensor);
    extents = &outer;
  }
  if (!gemm->n_batch && !gemm->summed) batches = NULL;
  IrExpr *rows = value->type.dims[1], *columns = value->type.dims[2];
  value->type.align = choice_align(build->choice, tensor);
  value->type.rank = lead + 2;
  for (unsigned d = 0; d < lead + 2; d++) {
    const Symbolic *stride = d == lead ? row : d > lead ? column : NULL;
    if (d < lead) stride = batches ? batches[d] : symbolic_constant(build->expressions, 0);
    char *hint = d < lead ? arena_printf(module->arena, "%s_batch", value->name)
                          : arena_printf(module->arena, "%s_%s", value->name, d == lead ? "row" : "column");
    bool alone = d < lead && symbolic_equals(stride, 0);
    value->type.strides[d] = kernel_dim(build, stride, hint, NUMBER_S64);
    value->type.dims[d] = d == lead  ? rows
                          : d > lead ? columns
                          : alone    ? ir_int(module, 1)
                                     : kernel_dim(build, extents[d], "G", NUMBER_S32);
  }
  g_hash_table_insert(build->tensors, (gpointer)value->name, (gpointer)tensor);
}

/* The other operands of further products; of the template's, which has some for the most there can be, the rest is spare. */
static void describe_more(KernelBuild *build, bool swapped)
{
  const FusedOperator *op = build->op;
  const FusedGemm *gemm = gemm_of(op);
  for (unsigned i = 1; i < gemm->products; i++) {
    const GraphTensor *tensor = op->inputs[gemm->more[i - 1]].tensor;
    if (swapped)
      describe_operand(build, i + 1, tensor, gemm->a_batch, gemm->a_m, gemm->a_k);
    else
      describe_operand(build, i + 1, tensor, gemm->b_batch, gemm->b_k, gemm->b_n);
  }
  if (swapped) return;
  for (unsigned i = gemm->products; i < GEMM_MOST_PRODUCTS; i++) {
    IrValue *spare = build->kernel->parameters[i + 1];
    spare->type = build->kernel->parameters[gemm->products]->type; /* reads of it have as many indices */
    g_hash_table_insert(build->tensors, (gpointer)spare->name, NULL);
  }
  g_hash_table_insert(build->bindings, "products", ir_int(build->module, gemm->products));
}

/* Scales of blocks, with the strides from block to block. */
static void describe_scales(KernelBuild *build)
{
  const FusedGemm *gemm = gemm_of(build->op);
  const FusedInput *a = &build->op->inputs[gemm->a_scale], *b = &build->op->inputs[gemm->b_scale];
  unsigned row = gemm->n_batch;
  describe_operand(build, 2, a->tensor, a->strides, a->strides[row], gemm->a_scale_k);
  describe_operand(build, 3, b->tensor, b->strides, gemm->b_scale_k, b->strides[row + 1]);
}

/* Scales and zero points of narrow weights, which are the template's A. */
static void describe_weights(KernelBuild *build)
{
  const FusedOperator *op = build->op;
  const GemmWeights *weights = &gemm_of(op)->weights;
  const FusedInput *scale = &op->inputs[weights->scale], *zero = &op->inputs[weights->zero];
  describe_operand(build, 2, scale->tensor, scale->strides, weights->scale_row, weights->scale_k);
  describe_operand(build, 3, zero->tensor, zero->strides, weights->zero_row, weights->zero_k);
}

/* A coordinate along a dimension of extent 1 is 0. */
static void read_at_zero(IrOp *op, void *data)
{
  IrModule *module = data;
  IrExpr **read = operand_read(op);
  if (!read) return;
  IrExpr *access = *read;
  const IrType *tensor = &access->items[0]->value->type;
  for (unsigned d = 0; d + 2 < tensor->rank; d++) {
    int64_t extent;
    if (ir_expr_is_int(tensor->dims[d], &extent) && extent == 1) access->items[d + 1] = ir_int(module, 0);
  }
}

static void keep_a(IrOp *op, void *data)
{
  const KernelBuild *build = data;
  IrExpr **read = operand_read(op);
  if (op->code == OP_FILL && read && (*read)->items[0]->value == build->kernel->parameters[0])
    ir_attribute_set(op, ATTR_CACHE, ir_name(build->module, "evict_last"));
}

/* ---- A product that the sum begins with ---- */

static IrOp *find_op(const IrRegion *region, IrOpcode code)
{
  for (IrOp *op = region->first; op; op = op->next)
    if (op->code == code) return op;
  return NULL;
}

/* The loop over k of a product that is not summed over batches: what a `when` has otherwise. */
static IrOp *find_loop(const IrRegion *region)
{
  IrOp *loop = find_op(region, OP_FOR);
  for (IrOp *op = region->first; op && !loop; op = op->next)
    if (op->code == OP_WHEN && op->n_regions > 1) loop = find_loop(op->regions[1]);
  return loop;
}

/* The template's operand once more, along the other axis that is contracted. */
static IrValue *add_leading(KernelBuild *build, unsigned parameter, IrExpr *depth)
{
  IrType type = build->kernel->parameters[parameter]->type;
  kernel_replace_dim(build, NULL, &type, "K", depth);
  return ir_parameter_new(build->kernel, parameter ? "B2" : "A2", type);
}

/* Beside narrow weights the template has the leading product's loop. Where none leads, nobody reads what stands for its operands. */
static void bind_lead(KernelBuild *build)
{
  const FusedGemm *gemm = gemm_of(build->op);
  if (!gemm->narrow) return;
  kernel_bind_dim(build, "K2", gemm->lead ? gemm->lead->k : symbolic_constant(build->expressions, 1));
  if (!gemm->lead) {
    for (unsigned i = 0; i < 2; i++)
      g_hash_table_insert(build->tensors, (gpointer)build->kernel->parameters[NARROW_LEAD + i]->name, NULL);
    return;
  }
  g_hash_table_insert(build->bindings, "lead", ir_int(build->module, gemm_lead_step(gemm)));
  g_hash_table_insert(build->bindings, "scaled", ir_int(build->module, gemm->lead->factor != 1));
  g_hash_table_insert(build->bindings, "factor", ir_float(build->module, gemm->lead->factor));
}

/* The loop over k, of the leading product, in front of the template's own: slots of the same ring, the same sums. What they then are is
 * multiplied by a number. While dims are the template's. */
static void write_lead(KernelBuild *build)
{
  const GemmLead *lead = gemm_of(build->op)->lead;
  IrModule *module = build->module;
  IrRegion *body = kernel_tiles(build)->regions[0];
  IrOp *loop = find_loop(body);
  IrExpr *depth = kernel_dim(build, lead->k, "K2", NUMBER_S32);
  IrBuilder builder = ir_builder_before(loop);
  builder.mark = loop->mark;
  g_autoptr(GHashTable) others = g_hash_table_new(NULL, NULL);
  for (unsigned i = 0; i < 2; i++)
    g_hash_table_insert(others, build->kernel->parameters[i], ir_value(module, add_leading(build, i, depth)));
  kernel_replace_dim(build, ir_op_clone(&builder, loop, others), NULL, "K", depth);
  if (lead->factor == 1) return;
  IrValue *sum = find_op(body, OP_VAR)->results[0];
  IrExpr *scaled = ir_emit_value(&builder, OP_MUL, sum->type, "scaled", 2, ir_value(module, sum),
                                 ir_float(module, lead->factor));
  ir_emit(&builder, OP_SET, 2, ir_value(module, sum), scaled);
}

static void describe_lead(KernelBuild *build)
{
  const FusedOperator *op = build->op;
  const GemmLead *lead = gemm_of(op)->lead;
  unsigned first = gemm_of(op)->narrow ? NARROW_LEAD : 2;
  describe_operand(build, first, op->inputs[lead->a].tensor, lead->a_batch, lead->a_m, lead->a_k);
  describe_operand(build, first + 1, op->inputs[lead->b].tensor, lead->b_batch, lead->b_k, lead->b_n);
}

static void bind_type(KernelBuild *build, const char *name, NumberType type)
{
  g_hash_table_insert(build->bindings, (gpointer)name, ir_name(build->module, number_name(type)));
}

bool kernel_write_gemm(KernelBuild *build)
{
  bool swapped = choice_int(build->choice, "swapped", 0) != 0;
  if (swapped) build->op = gemm_transposed(build->module->arena, build->op);
  const FusedOperator *op = build->op;
  const FusedGemm *gemm = gemm_of(op);
  const Symbolic *one = symbolic_constant(build->expressions, 1);
  if (gemm->n_batch + 2 > IR_MAX_RANK) {
    error_set(build->error, ERROR_UNSUPPORTED, &op->anchor->mark, "batches", NULL,
              "a product with %u batch dimensions that do not merge; at most %u are supported", gemm->n_batch,
              IR_MAX_RANK - 2);
    return false;
  }
  bind_type(build, "ta", gemm_stored(gemm, false));
  bind_type(build, "tb", gemm_stored(gemm, true));
  if (gemm_groups_rows(gemm)) g_hash_table_insert(build->bindings, "grouped", ir_int(build->module, 1));
  if (gemm->groups == GEMM_DEPTHS)
    g_hash_table_insert(build->bindings, "tail",
                        ir_int(build->module, (int64_t)number_elements(gemm->a_type, GEMM_TAIL)));
  if (gemm->summed) g_hash_table_insert(build->bindings, "summed", ir_int(build->module, 1));
  if (gemm->lead && !gemm->narrow) write_lead(build);
  bind_lead(build);
  kernel_bind_dim(build, "M", gemm->m);
  kernel_bind_dim(build, "N", gemm->n);
  kernel_bind_dim(build, "K", gemm->k);
  kernel_bind_dim(build, "G", gemm->summed ? gemm->summed : gemm->n_batch == 1 ? op->dims[0] : one);
  if (gemm->n_batch > 1) expand_batches(build);
  /* sums along k take the operand that they step along by vectors with k as the other one has it */
  const char *template = build->choice->template_name;
  bool a_by_k = g_str_equal(template, "gemv_columns"), b_by_n = g_str_equal(template, "gemv_rows") ||
                                                                g_str_equal(template, "gemv_few") ||
                                                                g_str_equal(template, "gemv_split");
  describe_operand(build, 0, op->inputs[gemm->a].tensor, gemm->summed ? &gemm->a_summed : gemm->a_batch,
                   a_by_k ? gemm->a_k : gemm->a_m, a_by_k ? gemm->a_m : gemm->a_k);
  describe_operand(build, 1, op->inputs[gemm->b].tensor, gemm->summed ? &gemm->b_summed : gemm->b_batch,
                   b_by_n ? gemm->b_n : gemm->b_k, b_by_n ? gemm->b_k : gemm->b_n);
  if (gemm_has_several(gemm) || op->times) describe_more(build, swapped);
  if (gemm->lead) describe_lead(build);
  if (gemm->scaled) describe_scales(build);
  if (gemm->narrow) describe_weights(build);
  ir_region_visit(build->kernel->body, read_at_zero, build->module);
  if (build->choice->keep_a) ir_region_visit(build->kernel->body, keep_a, build);
  /* an operand that the epilogue reads too is a tensor of its own there */
  kernel_add_operands(build, gemm->n_batch ? 0 : 1);
  int64_t blocks = choice_int(build->choice, "blocks", 1);
  if (blocks > 1) ir_launch_set(build->kernel, ATTR_MIN_BLOCKS, ir_int(build->module, blocks));
  int64_t pace = choice_int(build->choice, "pace", 0);
  if (pace > 0) ir_launch_set(build->kernel, ATTR_PACE, ir_int(build->module, pace));
  /* owners of a tile that blocks share have a part of its columns each; several products have a part of them each,
   * or, exchanged, tiles of their own */
  int64_t columns = choice_int(build->choice, "bn", 0);
  if (shares_columns(build->choice)) columns /= MAX(1, choice_int(build->choice, "reducers", 1));
  int64_t bm = choice_int(build->choice, "bm", 0), bn = choice_int(build->choice, "bn", 0);
  if (gemm->groups) groups_schedule(build, bm, bn);
  bm /= MAX(1, choice_int(build->choice, "parts_m", 1));
  columns = part_calls(build, bm, bn, swapped ? columns : columns / gemm->products);
  return write_epilogue(build, bm, columns);
}
