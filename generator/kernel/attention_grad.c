/* What templates of attention's gradients leave to the graph: operands' strides, steps over scores, and what is stored. */
#include "generator/program/attention_grad.h"
#include "generator/kernel/kernel.h"
#include "generator/kernel/steps.h"
#include <math.h>

/* Dimensions of inputs of steps, and of results: batch, head, which of those that share keys, and the tile's two. */
enum { TILE_ROWS = GRAD_GROUP + 1, TILE_COLUMNS, RANK };
enum { GRAD, QUERIES, KEYS, VALUES, SUMS, DELTA }; /* the templates' tensors */

typedef struct {
  IrExpr *at[GRAD_DIMS]; /* where the tile begins, by dim */
  unsigned beside;       /* the third dim: heads that share keys, or parts */
  unsigned dims[2];      /* which these are */
  int64_t extent[2];
} Place;

/* ---- tensors ---- */

/* The template's tensor takes the graph's strides along `dims`; what repeats has one index. */
static void describe_along(KernelBuild *build, unsigned parameter, unsigned input, uint32_t dims)
{
  IrModule *module = build->module;
  IrValue *value = build->kernel->parameters[parameter];
  const FusedInput *from = &build->op->inputs[input];
  static const char *const hints[GRAD_DIMS] = {"batch", "head", "group", "row", "key", "", ""};
  unsigned n = 0;
  value->type.align = choice_align(build->choice, from->tensor);
  for (unsigned d = 0; d < GRAD_DIMS; d++) {
    if (!(dims >> d & 1)) continue;
    char *hint = arena_printf(module->arena, "%s_%s", value->name, hints[d]);
    value->type.strides[n] = kernel_dim(build, from->strides[d], hint, NUMBER_S64);
    if (symbolic_equals(from->strides[d], 0)) value->type.dims[n] = ir_int(module, 1);
    n++;
  }
  if (n < value->type.rank) value->type.strides[n] = ir_int(module, 1);
  g_hash_table_insert(build->tensors, (gpointer)value->name, (gpointer)from->tensor);
}

/* A tensor that this kernel does not read stands for another. */
static void describe_operand(KernelBuild *build, unsigned parameter, unsigned input, unsigned otherwise)
{
  const uint32_t heads = 1u << GRAD_BATCH | 1u << GRAD_HEAD, keys = heads | 1u << GRAD_KEY,
                 rows = heads | 1u << GRAD_GROUP | 1u << GRAD_ROW;
  describe_along(build, parameter, input == G_MAXUINT ? otherwise : input,
                 parameter == KEYS || parameter == VALUES ? keys : rows);
}

/* A coordinate along a dimension of extent 1 is 0. */
static void read_at_zero(IrOp *op, void *data)
{
  const KernelBuild *build = data;
  if (op->code != OP_FILL && op->code != OP_LOAD) return;
  IrExpr *access = op->operands[op->code == OP_FILL];
  const IrValue *tensor = access->items[0]->value;
  for (unsigned d = 0; d < tensor->type.rank; d++) {
    int64_t extent;
    if (ir_expr_is_int(tensor->type.dims[d], &extent) && extent == 1)
      access->items[d + 1] = ir_int(build->module, 0);
  }
}

/* Of all parts; parts of keys are those of each of the heads that share them. */
static const Symbolic *extent_of(KernelBuild *build, unsigned dim)
{
  const FusedOperator *op = build->op;
  const FusedAttentionGrad *grad = attention_grad_of(op);
  switch (dim) {
  case GRAD_GROUP: return grad->group;
  case GRAD_ROW: return grad->rows;
  case GRAD_KEY: return grad->keys;
  case GRAD_PART:
    return grad->of_rows ? symbolic_mul(build->expressions, grad->group, op->dims[dim]) : op->dims[dim];
  default: return op->dims[dim];
  }
}

static IrValue *add_tensor(KernelBuild *build, const char *side, unsigned position, const GraphTensor *tensor,
                           const Symbolic *const *strides, unsigned beside, const unsigned *tile)
{
  const unsigned dims[RANK] = {GRAD_BATCH, GRAD_HEAD, beside, tile[0], tile[1]};
  const Symbolic *own_dims[RANK], *own_strides[RANK];
  for (unsigned d = 0; d < RANK; d++) {
    own_dims[d] = extent_of(build, dims[d]);
    own_strides[d] = strides[dims[d]];
  }
  return kernel_add_tensor(build, side, position, tensor, RANK, own_dims, own_strides);
}

/* What changes with products: keys by rows. */
static void add_changes(KernelBuild *build)
{
  const FusedOperator *op = build->op;
  unsigned i = attention_grad_of(op)->gives_changes;
  const unsigned tile[] = {GRAD_KEY, GRAD_ROW};
  if (i == G_MAXUINT) return;
  build->outputs[i] = add_tensor(build, KERNEL_OUTPUT, i, op->outputs[i].tensor,
                                 (const Symbolic *const *)op->outputs[i].strides, GRAD_GROUP, tile);
}

static unsigned columns_of(const FusedOutput *output)
{
  return output->value.index == GRAD_OF_DEPTH ? GRAD_DEPTH : GRAD_WIDTH;
}

/* What results have beside tiles: heads that share keys, or parts. */
static unsigned beside_results(const FusedAttentionGrad *grad)
{
  return grad->parts > 1 ? GRAD_PART : GRAD_GROUP;
}

static void add_tensors(KernelBuild *build)
{
  const FusedOperator *op = build->op;
  const FusedAttentionGrad *grad = attention_grad_of(op);
  const unsigned tile[] = {grad->of_rows ? GRAD_ROW : GRAD_KEY, grad->of_rows ? GRAD_KEY : GRAD_ROW};
  for (unsigned i = 0; i < op->n_inputs; i++)
    if (!grad->of_changes && !fused_is_contracted(op, i) && i != grad->sums && i != grad->delta)
      build->inputs[i] = add_tensor(build, KERNEL_INPUT, i, op->inputs[i].tensor,
                                    (const Symbolic *const *)op->inputs[i].strides, GRAD_GROUP, tile);
  add_changes(build);
  for (unsigned i = 0; i < op->n_outputs; i++) {
    const unsigned result[] = {tile[0], columns_of(&op->outputs[i])};
    if (i != grad->gives_changes)
      build->outputs[i] =
          add_tensor(build, KERNEL_OUTPUT, i, op->outputs[i].tensor,
                     (const Symbolic *const *)op->outputs[i].strides, beside_results(grad), result);
  }
}

/* ---- sub-kernels ---- */

static IrExpr *corner(StepScope *scope, IrValue *tensor, int64_t *extent)
{
  const Place *place = scope->data;
  IrModule *module = scope->build->module;
  const unsigned dims[RANK] = {GRAD_BATCH, GRAD_HEAD, place->beside, place->dims[0], place->dims[1]};
  IrExpr *at[RANK];
  for (unsigned d = 0; d < RANK; d++) {
    int64_t stride;
    bool still = ir_expr_is_int(tensor->type.strides[d], &stride) && !stride;
    at[d] = still ? ir_int(module, 0) : place->at[dims[d]];
    if (d >= TILE_ROWS) extent[d - TILE_ROWS] = still ? 1 : place->extent[d - TILE_ROWS];
  }
  return ir_index_array(module, ir_value(module, tensor), RANK, at);
}

static IrExpr *load_input(StepScope *scope, unsigned input)
{
  int64_t extent[2];
  IrExpr *access = corner(scope, scope->tensors[input], extent);
  return scope_load_tile(scope, input, access, extent);
}

static IrExpr *add_tile(StepScope *scope, const char *name, const int64_t *extent)
{
  IrModule *module = scope->build->module;
  IrType type = ir_tile(module, NUMBER_F32, 2, extent, NULL);
  return ir_value(module, ir_parameter_new(scope->function, name, type));
}

static void add_place(StepScope *scope, Place *place)
{
  static const char *const names[] = {"batch", "head", "group", "row", "key"};
  IrModule *module = scope->build->module;
  for (unsigned d = GRAD_BATCH; d <= GRAD_KEY; d++)
    place->at[d] = ir_value(module, ir_parameter_new(scope->function, names[d], ir_scalar(NUMBER_S32)));
  place->at[GRAD_DEPTH] = place->at[GRAD_WIDTH] = ir_int(module, 0);
  place->at[GRAD_PART] = place->at[GRAD_GROUP];
}

static IrExpr *emit(StepScope *scope, IrOpcode code, NumberType element, const int64_t *extent, IrExpr *a,
                    IrExpr *b)
{
  IrType type = ir_tile(scope->build->module, element, 2, extent, NULL);
  return b ? ir_emit_value(&scope->builder, code, type, "place", 2, a, b)
           : ir_emit_value(&scope->builder, code, type, "place", 1, a);
}

/* Where the tile's rows, or keys, are, and `more`. */
static IrExpr *numbers(StepScope *scope, unsigned of, IrExpr *more)
{
  const Place *place = scope->data;
  IrModule *module = scope->build->module;
  unsigned dim = place->dims[1] == of;
  int64_t extent[2] = {1, 1};
  extent[dim] = place->extent[dim];
  IrType type = ir_tile(module, NUMBER_S32, 2, extent, NULL);
  IrExpr *number = ir_emit_value(&scope->builder, OP_IOTA, type, "number", 0);
  ir_attribute_set(number->value->def, ATTR_DIM, ir_int(module, dim));
  IrExpr *first = place->at[of];
  if (more) first = ir_binary(module, OPERATOR_ADD, first, more);
  return emit(scope, OP_ADD, NUMBER_S32, extent, number, first);
}

/* What the bound lets be, else -infinity. */
static IrExpr *within(StepScope *scope, const AttentionBound *bound, IrExpr *score)
{
  const Place *place = scope->data;
  IrModule *module = scope->build->module;
  IrExpr *number = kernel_dim(scope->build, bound->number, "BOUND", NUMBER_S32);
  IrExpr *key = numbers(scope, GRAD_KEY, NULL);
  IrExpr *end = bound->from_row ? numbers(scope, GRAD_ROW, number) : number;
  int64_t extent[2] = {place->extent[0], place->extent[1]};
  if (!bound->from_row) extent[place->dims[0] == GRAD_ROW ? 0 : 1] = 1;
  IrExpr *seen = emit(scope, bound->least ? OP_GE : OP_LE, NUMBER_BOOL, extent, key, end);
  return ir_emit_value(&scope->builder, OP_SELECT, ir_tile(module, NUMBER_F32, 2, place->extent, NULL),
                       "seen", 3, seen, score, ir_float(module, -INFINITY));
}

/* The step and those that it is computed from. */
static bool write_step(StepScope *scope, const FusedOperand *operand)
{
  if (operand->kind != OPERAND_STEP || scope->step_values[operand->index]) return true;
  const FusedStep *step = &scope->build->op->steps[operand->index];
  for (unsigned i = 0; i < step->n_operands; i++)
    if (!write_step(scope, &step->operands[i])) return false;
  return scope_write_step(scope, operand->index);
}

static void open_scores(StepScope *scope, KernelBuild *build, Place *place, const char *name)
{
  bool of_rows = attention_grad_of(build->op)->of_rows;
  int64_t rows = choice_int(build->choice, "rows", 0), keys = choice_int(build->choice, "keys", 0);
  *place = (Place){.beside = GRAD_GROUP,
                   .dims = {of_rows ? GRAD_ROW : GRAD_KEY, of_rows ? GRAD_KEY : GRAD_ROW},
                   .extent = {of_rows ? rows : keys, of_rows ? keys : rows}};
  *scope = (StepScope){0};
  scope_open(scope, build, name);
  scope->data = place;
  scope->load = load_input;
  scope->approximate =
      true; /* as weights' exponentials are, and as the attention's own steps, whose log-sum-exps these are of */
  scope->least = step_precision(attention_grad_of(build->op)->type);
}

/* x of x times a number, which joins the factor. */
static IrExpr *without_factor(IrExpr *score, double *factor)
{
  const IrOp *op = score->kind == EXPR_VALUE ? score->value->def : NULL;
  bool times = op && op->code == OP_MUL && op->operands[1]->kind == EXPR_FLOAT;
  double both = times ? *factor * op->operands[1]->number : 0;
  if (!times || !isnormal((float)both)) return score;
  *factor = both;
  return op->operands[0];
}

/* Exponents of 2: scores, less what rows sum up to. */
static bool write_power(KernelBuild *build)
{
  const FusedAttentionGrad *grad = attention_grad_of(build->op);
  IrModule *module = build->module;
  StepScope scope;
  Place place;
  open_scores(&scope, build, &place, "power");
  scope.anchors[0] = add_tile(&scope, "product", place.extent);
  int64_t rows[2] = {grad->of_rows ? place.extent[0] : 1, grad->of_rows ? 1 : place.extent[1]};
  IrExpr *base = add_tile(&scope, "base", rows);
  add_place(&scope, &place);
  scope_add_tensors(&scope);
  if (!write_step(&scope, &grad->score)) return false;
  StepWriter writer = kernel_steps(build, &scope.builder);
  double factor = grad->scale / G_LN2;
  IrExpr *score = step_convert(&writer, scope_operand(&scope, &grad->score), NUMBER_F32);
  score = without_factor(score, &factor);
  IrExpr *power = ir_emit_value(&scope.builder, OP_FMA, ir_tile(module, NUMBER_F32, 2, place.extent, NULL),
                                "power", 3, score, ir_float(module, factor), base);
  for (unsigned i = 0; i < grad->n_bounds; i++)
    power = within(&scope, &grad->bounds[i], power);
  scope_close(&scope, power);
  return true;
}

static bool write_slope(KernelBuild *build)
{
  const FusedAttentionGrad *grad = attention_grad_of(build->op);
  StepScope scope;
  Place place;
  open_scores(&scope, build, &place, "slope");
  scope.anchors[1] = add_tile(&scope, "of_scores", place.extent);
  scope.anchors[0] = add_tile(&scope, "product", place.extent);
  add_place(&scope, &place);
  scope_add_tensors(&scope);
  if (!write_step(&scope, &grad->slope)) return false;
  StepWriter writer = kernel_steps(build, &scope.builder);
  bool bends = grad->slope.kind == OPERAND_STEP;
  scope_close(&scope, bends ? step_convert(&writer, scope_operand(&scope, &grad->slope), NUMBER_F32)
                            : scope.anchors[1]);
  return true;
}

/* Stores the results of one kind. */
static void write_epilogue(KernelBuild *build, const char *name, unsigned anchor)
{
  const FusedOperator *op = build->op;
  bool of_rows = attention_grad_of(op)->of_rows, depth = anchor == GRAD_OF_DEPTH;
  StepScope scope = {0};
  Place place = {.beside = beside_results(attention_grad_of(op)),
                 .dims = {of_rows ? GRAD_ROW : GRAD_KEY, depth ? GRAD_DEPTH : GRAD_WIDTH},
                 .extent = {choice_int(build->choice, of_rows ? "rows" : "keys", 0),
                            choice_int(build->choice, depth ? "d_tile" : "dv_tile", 0)}};
  scope_open(&scope, build, name);
  scope.data = &place;
  scope.anchors[2] = add_tile(&scope, "result", place.extent);
  add_place(&scope, &place);
  scope_add_tensors(&scope);
  for (unsigned i = 0; i < op->n_outputs; i++) {
    if (i == attention_grad_of(op)->gives_changes || op->outputs[i].value.index != anchor) continue;
    int64_t extent[2];
    IrExpr *value = scope_stored(&scope, i, scope.anchors[2]);
    ir_emit(&scope.builder, OP_STORE, 2, corner(&scope, scope.tensors[op->n_inputs + i], extent), value);
  }
  scope_close(&scope, NULL);
}

/* Stores a tile of what changes with products, if that is asked for. */
static void write_changes(KernelBuild *build)
{
  const FusedAttentionGrad *grad = attention_grad_of(build->op);
  StepScope scope = {0};
  Place place = {.beside = GRAD_GROUP,
                 .dims = {GRAD_KEY, GRAD_ROW},
                 .extent = {choice_int(build->choice, "keys", 0), choice_int(build->choice, "rows", 0)}};
  int64_t extent[2];
  scope_open(&scope, build, "changes");
  scope.data = &place;
  IrType type = ir_tile(build->module, grad->type, 2, place.extent, NULL);
  IrExpr *tile = ir_value(build->module, ir_parameter_new(scope.function, "changes", type));
  add_place(&scope, &place);
  scope_add_tensors(&scope);
  if (grad->gives_changes != G_MAXUINT) {
    IrValue *tensor = scope.tensors[build->op->n_inputs + grad->gives_changes];
    ir_emit(&scope.builder, OP_STORE, 2, corner(&scope, tensor, extent), tile);
  }
  scope_close(&scope, NULL);
}

static void bind_dims(KernelBuild *build, const FusedAttentionGrad *grad)
{
  kernel_bind_dim(build, "B", grad->batches);
  kernel_bind_dim(build, "H", grad->heads);
  kernel_bind_dim(build, "G", grad->group);
  kernel_bind_dim(build, "M", grad->rows);
  kernel_bind_dim(build, "N", grad->keys);
  kernel_bind_dim(build, "DIAGONAL", grad->diagonal);
}

/* dQ of what changes with products. */
static bool write_of_changes(KernelBuild *build)
{
  const FusedAttentionGrad *grad = attention_grad_of(build->op);
  enum { CHANGES, KEYS_OF };
  bind_dims(build, grad);
  describe_along(build, CHANGES, grad->changes,
                 1u << GRAD_BATCH | 1u << GRAD_HEAD | 1u << GRAD_GROUP | 1u << GRAD_KEY);
  describe_along(build, KEYS_OF, grad->key_matrix, 1u << GRAD_BATCH | 1u << GRAD_HEAD | 1u << GRAD_KEY);
  ir_region_visit(build->kernel->body, read_at_zero, build);
  add_tensors(build);
  write_epilogue(build, "rows_epilogue", GRAD_OF_DEPTH);
  return true;
}

bool kernel_write_attention_grad(KernelBuild *build)
{
  const FusedAttentionGrad *grad = attention_grad_of(build->op);
  if (grad->of_changes) return write_of_changes(build);
  const Symbolic *lowest = attention_grad_lowest(grad);
  bind_dims(build, grad);
  kernel_bind_dim(build, "LOWEST", lowest ? lowest : symbolic_constant(build->expressions, 0));
  describe_operand(build, GRAD, grad->grad, grad->grad);
  describe_operand(build, QUERIES, grad->queries, grad->queries);
  describe_operand(build, KEYS, grad->key_matrix, grad->key_matrix);
  describe_operand(build, VALUES, grad->values, grad->key_matrix);
  describe_operand(build, SUMS, grad->sums, grad->sums);
  describe_operand(build, DELTA, grad->delta, grad->sums);
  ir_region_visit(build->kernel->body, read_at_zero, build);
  add_tensors(build);
  if (!write_power(build) || !write_slope(build)) return false;
  if (grad->of_rows) {
    write_epilogue(build, "rows_epilogue", GRAD_OF_DEPTH);
  } else {
    write_epilogue(build, "keys_epilogue", GRAD_OF_DEPTH);
    write_epilogue(build, "values_epilogue", GRAD_OF_WIDTH);
    write_changes(build);
  }
  return true;
}
