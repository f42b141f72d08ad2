/* widen_accesses: results of 16 bits leave, and residuals come, 16 bytes a thread.
 *
 * needs  STAGED with stores staged; accumulators whose lanes hold pairs of columns
 * gives  each such store behind a `convert` to a layout in which a thread has 8 columns side by side, and
 *        each such load in front of one from it; both with vectors of 8; `pace` of the launch where many long
 *        chains end in such a store
 * breaks nothing
 *
 * The four lanes of a row hold columns 2 q and 2 q + 1 of each piece of 8: memory would see 16 bytes at a
 * time, half a sector, in four accesses of which each begins anew. Where the lanes exchange what they have of
 * four pieces, each has all of one: four lanes then write 64 bytes of a row. Stores that TMA takes
 * out of shared memory need none of this. Many long chains in front of the exchange are paced (pace_results). */
#include "ir/facts.h"
#include "ir/mechanism.h"
#include "ir/pass.h"

#define PIECES 4 /* of 8 columns, among the lanes of a row */
#define PAIR   2 /* columns of a lane in a piece */
#define WIDE   (PIECES * PAIR)

typedef struct {
  const IrPassContext *context;
  IrModule *module;
  IrFunction *kernel;
  unsigned widened;
} Widening;

static bool is_mode(const LayoutMode *mode, LayoutPlace place, unsigned size, unsigned step)
{
  return mode->place == place && mode->size == size && mode->dim == 1 && mode->step == step;
}

/* `layout` with the four pieces of each 32 columns and the four lanes of a row exchanged; NULL if lanes do
 * not hold pairs of columns, or fewer pieces. */
static const Layout *widened(Arena *arena, const Layout *layout)
{
  if (layout->rank != 2 || layout->n + 1 > LAYOUT_MAX_MODES ||
      !is_mode(&layout->modes[0], PLACE_REGISTER, PAIR, 1))
    return NULL;
  Layout *wide = arena_new_object(arena, Layout);
  *wide = *layout;
  wide->name = NULL;
  wide->n = 0;
  bool lanes = false, rows = false, pieces = false;
  for (unsigned i = 0; i < layout->n; i++) {
    LayoutMode mode = layout->modes[i];
    if (!rows && is_mode(&mode, PLACE_LANE, PIECES, PAIR)) {
      lanes = true;
      mode.step = WIDE;
    } else if (lanes && mode.place == PLACE_LANE && mode.size == 32 / PIECES && mode.dim == 0 &&
               mode.step == 1) {
      rows = true; /* of the other lanes; a vector has them replicated */
    } else if (mode.place == PLACE_REGISTER && mode.dim == 1 && mode.step == WIDE &&
               mode.size % PIECES == 0) {
      pieces = true;
      mode.size /= PIECES;
      mode.step *= PIECES;
    }
    if (mode.size > 1) wide->modes[wide->n++] = mode;
    if (i == 0) wide->modes[wide->n++] = (LayoutMode){PLACE_REGISTER, PIECES, 1, PAIR};
  }
  return lanes && rows && pieces ? wide : NULL;
}

/* The wide layout of a tile that is accessed at `access`, if the tensor allows 16 bytes a time. */
static const Layout *wide_layout(Widening *widening, const IrExpr *access, const IrType *tile)
{
  const IrExpr *base = access->kind == EXPR_INDEX ? access->items[0] : access;
  if (tile->kind != TYPE_TILE || !tile->layout || base->kind != EXPR_VALUE ||
      base->value->type.kind != TYPE_TENSOR || number_class(tile->element) != NUMBER_FLOAT ||
      !number_has_bytes(tile->element, 2))
    return NULL;
  const IrType *tensor = &base->value->type;
  if (access->kind != EXPR_INDEX || access->n != tensor->rank + 1 ||
      ir_contiguous_dim(tensor) != (int)tensor->rank - 1 ||
      ir_access_vector(widening->kernel, tensor, access->items + 1, 16) < WIDE)
    return NULL;
  return widened(widening->module->arena, tile->layout);
}

static IrExpr *convert(Widening *widening, IrBuilder *builder, IrExpr *tile, const IrType *type)
{
  IrOp *op = ir_emit(builder, OP_CONVERT, 1, tile);
  ir_mechanism_set(op, ir_mechanism_issued(widening->module, MECHANISM_CONVERT, ISSUE_WARP));
  return ir_value(widening->module, ir_result(op, tile->value->name, *type));
}

static void widen_store(Widening *widening, IrOp *store)
{
  IrExpr *value = store->operands[1];
  if (value->kind != EXPR_VALUE || ir_attribute(store, ATTR_WHERE) || ir_is_engine_copy(store)) return;
  const Layout *layout = wide_layout(widening, store->operands[0], &value->value->type);
  if (!layout) return;
  IrBuilder builder = ir_builder_before(store);
  builder.mark = store->mark;
  IrType type = value->value->type;
  type.layout = layout;
  store->operands[1] = convert(widening, &builder, value, &type);
  ir_attribute_set(store, ATTR_VECTOR, ir_int(widening->module, WIDE));
  widening->widened++;
}

/* Rows that lie wherever their offsets say, in runs that allow 16 bytes a time. */
static void widen_scatter(Widening *widening, IrOp *scatter)
{
  IrExpr *value = scatter->operands[2];
  const IrExpr *where = ir_attribute_value(scatter, ATTR_WHERE);
  const IrType *type = value->kind == EXPR_VALUE ? &value->value->type : NULL;
  bool rows = !where || (where->kind == EXPR_VALUE && where->value->type.kind == TYPE_TILE &&
                         ir_tile_extent(&where->value->type, 1) == 1);
  if (!type || type->kind != TYPE_TILE || !type->layout || !rows ||
      number_class(type->element) != NUMBER_FLOAT || !number_has_bytes(type->element, 2) ||
      ir_attribute_int(scatter, ATTR_ALIGNED, 1) % WIDE)
    return;
  IrType wide = *type;
  wide.layout = widened(widening->module->arena, type->layout);
  if (!wide.layout) return;
  IrBuilder builder = ir_builder_before(scatter);
  builder.mark = scatter->mark;
  scatter->operands[2] = convert(widening, &builder, value, &wide);
  ir_attribute_set(scatter, ATTR_VECTOR, ir_int(widening->module, WIDE));
  widening->widened++;
}

/* The loaded value keeps its name and layout; what is loaded is a new one in front of it. */
static void widen_load(Widening *widening, IrOp *load)
{
  IrValue *result = load->results[0];
  const Layout *layout = wide_layout(widening, load->operands[0], &result->type);
  if (!layout || ir_attribute(load, ATTR_WHERE)) return;
  IrBuilder builder = ir_builder_before(load);
  builder.mark = load->mark;
  IrOp *wide = ir_emit(&builder, OP_LOAD, 1, load->operands[0]);
  for (unsigned i = 0; i < load->n_attributes; i++)
    ir_attribute_set(wide, load->attributes[i].key, load->attributes[i].value);
  ir_attribute_set(wide, ATTR_VECTOR, ir_int(widening->module, WIDE));
  IrType type = result->type;
  type.layout = layout;
  IrExpr *loaded = ir_value(widening->module, ir_result(wide, result->name, type));
  IrExpr *narrow = convert(widening, &builder, loaded, &result->type);
  ir_replace_uses(widening->kernel->body, result, narrow);
  ir_op_remove(load);
  widening->widened++;
}

static void collect(IrOp *op, void *data)
{
  if (op->code == OP_LOAD || op->code == OP_STORE || op->code == OP_SCATTER) g_ptr_array_add(data, op);
}

static void count_operation(IrOp *op, void *data)
{
  const IrType *type = op->n_results ? &op->results[0]->type : NULL;
  bool whole = type && type->kind == TYPE_TILE && type->rank == 2 && ir_tile_extent(type, 0) > 1;
  if (whole && !ir_op_effects(op->code)) ++*(unsigned *)data;
}

/* 32-bit registers of a tile that is spread over the block. */
static unsigned tile_registers(const IrType *type)
{
  if (type->kind != TYPE_TILE || !type->layout) return 0;
  return (unsigned)number_bytes_of(type->element, layout_registers(type->layout)) / 4;
}

/* Of the largest accumulator: what is stored may be a part of it, as of two products in one. */
static void note_accumulator(IrOp *op, void *data)
{
  unsigned *most = data;
  if (op->code == OP_MMA && op->operands[0]->kind == EXPR_VALUE && op->operands[0]->value->type.layout)
    *most = MAX(*most, layout_registers(op->operands[0]->value->type.layout));
}

/* Does a thread compute many results for this store, which leave it wide? Each is a chain of its own. */
static bool ends_many_chains(const CostModel *model, const IrOp *op)
{
  if (op->code != OP_STORE || ir_attribute_int(op, ATTR_VECTOR, 1) != WIDE) return false;
  const IrExpr *value = op->operands[1];
  return value->kind == EXPR_VALUE && value->value->type.layout &&
         layout_registers(value->value->type.layout) >= model->many_chains;
}

/* The first operation of the straight line that leads to this one. */
static IrOp *stretch_start(IrOp *op)
{
  while (op->previous && !op->previous->n_regions && op->previous->code != OP_SYNC &&
         op->previous->code != OP_FENCE)
    op = op->previous;
  return op;
}

/* pace_results paces what follows a fence. */
static void pace_chains(const Widening *widening, IrOp *store)
{
  IrModule *module = widening->module;
  unsigned group = widening->context->gpu->model->chains_a_group;
  IrOp *start = stretch_start(store);
  if (start->previous && start->previous->code == OP_FENCE) return; /* of another store */
  IrBuilder builder = ir_builder_before(start);
  builder.mark = store->mark;
  ir_emit(&builder, OP_FENCE, 1, ir_name(module, "schedule"));
  ir_launch_set(widening->kernel, ATTR_PACE, ir_int(module, group));
  ir_remark(widening->context, "accesses: what the lanes exchange is computed %u results at a time", group);
}

/* Loads of tiles and the largest accumulator, alive at once in the worst case since loads are issued before the
 * first exchange, and what is computed of them: in as many chains as a thread stores results, of which two products in one
 * have half as many as sums. */
static bool fits(const CostModel *model, const GPtrArray *accesses, unsigned operations, unsigned accumulator)
{
  unsigned loaded = 0, chains = 0;
  for (unsigned i = 0; i < accesses->len; i++) {
    const IrOp *op = accesses->pdata[i];
    if (op->code == OP_LOAD) loaded += tile_registers(&op->results[0]->type);
    if (op->code == OP_STORE && op->operands[1]->kind == EXPR_VALUE && op->operands[1]->value->type.layout)
      chains = MAX(chains, layout_registers(op->operands[1]->value->type.layout));
  }
  accumulator = MAX(accumulator, chains);
  bool long_chains = (loaded ? accumulator : chains) >= model->widen_sums;
  return loaded + accumulator <= model->widen_registers &&
         (!long_chains || operations <= model->widen_operations);
}

bool pass_widen_accesses(IrModule *module, const IrPassContext *context, GError **error)
{
  Widening widening = {.context = context, .module = module, .kernel = ir_kernel(module)};
  g_autoptr(GPtrArray) accesses = g_ptr_array_new();
  if (!widening.kernel) return true;
  const CostModel *model = context->gpu->model;
  ir_region_visit(widening.kernel->body, collect, accesses);
  unsigned operations = 0, accumulator = 0;
  ir_region_visit(widening.kernel->body, count_operation, &operations);
  ir_region_visit(widening.kernel->body, note_accumulator, &accumulator);
  if (!fits(model, accesses, operations, accumulator)) return true;
  for (unsigned i = 0; i < accesses->len; i++) {
    IrOp *op = accesses->pdata[i];
    if (op->code == OP_STORE) widen_store(&widening, op);
    if (op->code == OP_SCATTER && op->operands[0]->value->type.kind == TYPE_TENSOR)
      widen_scatter(&widening, op);
  }
  bool stores = widening.widened; /* wide loads alone took registers of kernels whose stores stay narrow */
  for (unsigned i = 0; i < accesses->len && operations > model->widen_operations; i++)
    if (ends_many_chains(model, accesses->pdata[i])) pace_chains(&widening, accesses->pdata[i]);
  for (unsigned i = 0; i < accesses->len && stores; i++) {
    IrOp *op = accesses->pdata[i];
    if (op->code == OP_LOAD && op->results[0]->type.kind == TYPE_TILE) widen_load(&widening, op);
  }
  if (widening.widened)
    ir_remark(context, "accesses: lanes of a row exchange columns, so that %u %s 16 bytes a thread",
              widening.widened, widening.widened > 1 ? "tensors move" : "tensor moves");
  return true;
}
