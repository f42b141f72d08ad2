/* stage_stores: results leave through shared memory, by TMA or row by row.
 *
 * needs  STAGED with instances split and waits derived; `via tma` or `via shared` on the stores that may
 *        go this way
 * gives  for each store `via tma` a channel of two small tiles (of one, narrower, where the ring of a
 *        kernel whose instances take turns leaves no more; of as many as a tile has parts where they share
 *        it and there is room: then the first part claims all of them), a tensor map, and in the role, part by part:
 *        what the part's value is computed from, the put into a slot, the copy out of it, the step of the ring; for
 *        each store `via shared` the same without map: put, get with lanes along the part's rows, and the store of
 *        that; with `overlay` the small tiles lie in that channel's slots
 * breaks nothing; says only what is put where and what takes it from there: who meets, waits and fences is
 *        derive_barriers', once everything has its place
 *
 * Registers hold a result in pairs of columns, which would reach memory as 16-byte pieces of 32-byte sectors.
 * A part is as wide as the swizzle, so that puts have no bank conflicts and the engine writes whole lines
 * (where columns are left for which there is no such width, a last part is narrower and has a ring of its
 * own), clips at the tensor's end, and goes on while the next tile's products run. Rows that start or end
 * beside 16 bytes are not for the engine: a warp then writes neighbouring elements of a row, so that memory
 * sees whole sectors but for the ends. Arithmetic and loads in
 * front of a store are done for one part at a time, back to the accumulator, so that few of their results
 * live at once; stores behind one another share them. Loads come one part ahead (not where instances take
 * turns). A tensor that is contiguous along the tile's rows (its operands have changed places) is staged as
 * it lies: matrices are put transposed, and a part is some columns of all rows. */
#include "ir/facts.h"
#include "ir/mechanism.h"
#include "ir/pass.h"
#include "ir/passes/division.h"
#include "ir/resources.h"
#include "ir/staging.h"

typedef struct {
  const IrPassContext *context;
  IrModule *module;
  IrFunction *kernel;
  unsigned long room; /* bytes of shared memory that a store may take for itself */
  StagingRules rules;
  bool turns; /* instances take tiles in turn: one's epilogue runs while the other multiplies */
} Staging;

/* Stores of one shape that follow one another; they are cut into the same columns. */
typedef struct {
  Staging *staging;
  IrOp *role;
  int64_t rows, columns; /* of an instance's tile */
  int64_t width, common; /* columns of the part at hand; of all but a narrower last one */
  int64_t instances, threads;
  unsigned slots;    /* parts of a store that there is room for */
  unsigned claims;   /* of the first part: slots of all of a tile's, where there is room for them; else 0 */
  unsigned stores;   /* of the tile, which has rows or columns in each; 0: not of one tensor alone */
  bool first;        /* of these: no part of the tensor was staged before */
  bool across;       /* the tensors are contiguous along the tile's rows */
  bool kept;         /* the epilogue is in parts already: values are cut, not computed anew */
  GHashTable *parts; /* IrValue* -> IrExpr* of its part at hand */
  GHashTable *ahead; /* the same of what has been loaded for the next part */
  GPtrArray *originals; /* IrOp* whose parts have been computed */
} Parts;

/* Where parts of one width of a tensor's stores of a role are staged. */
typedef struct {
  const char *channel, *map;
  IrExpr *cursor;
} Stage;

/* A tensor's: the parts of the common width, and a last, narrower one. */
typedef struct {
  Stage parts, rest;
} Stages;

typedef struct {
  Parts *parts;
  IrOp *store;
  Stages *stages;
  Stage *stage; /* of the part at hand */
} Store;

/* The instance's threads write the rows; else TMA does. */
static bool by_threads(const IrOp *store)
{
  const Mechanism *mechanism = ir_mechanism_of(store);
  return mechanism && !mechanism_is_asynchronous(mechanism);
}

static void collect_stores(IrOp *op, void *data)
{
  if (op->code == OP_STORE && ir_mechanism_of(op)) g_ptr_array_add(data, op);
}

static void find_turns(IrOp *op, void *data)
{
  *(bool *)data |= op->code == OP_TURN;
}

static IrExpr *instance_rows(const Parts *parts)
{
  IrModule *module = parts->staging->module;
  if (parts->instances == 1) return ir_int(module, 0);
  return ir_binary(module, OPERATOR_MUL, ir_call(module, "instance", 0), ir_int(module, parts->rows));
}

/* ---- Declarations ---- */

static void declare_channel(Store *store, IrBuilder *builder, NumberType element)
{
  const Parts *parts = store->parts;
  IrModule *module = parts->staging->module;
  int64_t extent[2] = {parts->rows * parts->instances, parts->width};
  unsigned shape[2] = {(unsigned)extent[0], (unsigned)extent[1]};
  const StagingRules *rules = &parts->staging->rules;
  unsigned row_bytes = (unsigned)number_bytes_of(element, (uint64_t)parts->width);
  unsigned swizzle = parts->across ? rules->panel : staging_swizzle(rules, row_bytes);
  IrOp *channel = ir_emit(builder, OP_CHANNEL, 0);
  channel->symbol = ir_symbol_unique(parts->staging->kernel, "out");
  ir_attribute_set(channel, ATTR_SLOTS, ir_int(module, parts->slots));
  if (ir_attribute(store->store, ATTR_OVERLAY))
    ir_attribute_set(channel, ATTR_OVERLAY, ir_attribute_value(store->store, ATTR_OVERLAY));
  IrBuilder inner = ir_builder_at_end(ir_region_add(channel));
  inner.mark = builder->mark;
  IrOp *slot = ir_emit(&inner, OP_SLOT, 0);
  slot->symbol = "part";
  slot->declared = arena_new_object(module->arena, IrType);
  *slot->declared =
      ir_tile(module, element, 2, extent,
              layout_shared(module->arena, 2, shape, parts->across ? 0 : 1, element, swizzle, 0));
  store->stage->channel = channel->symbol;
}

static void declare_map(Store *store, IrBuilder *builder, const IrValue *tensor)
{
  const Parts *parts = store->parts;
  IrModule *module = parts->staging->module;
  const IrType *type = &tensor->type;
  IrExpr *box[IR_MAX_RANK];
  const StagingRules *rules = &parts->staging->rules;
  const Mechanism *engine = ir_mechanism_of(store->store);
  int64_t rows = parts->across ? (int64_t)number_elements(type->element, rules->panel)
                               : (int64_t)tensor_box_side((unsigned)parts->rows, engine->box_max);
  unsigned row_bytes = (unsigned)number_bytes_of(type->element, (uint64_t)parts->width);
  for (unsigned d = 0; d < type->rank; d++)
    box[d] = ir_int(module, d + 2 == type->rank ? rows : d + 1 == type->rank ? parts->width : 1);
  IrOp *map = ir_emit(builder, OP_MAP, 1, ir_value(module, (IrValue *)tensor));
  map->symbol = ir_symbol_unique(parts->staging->kernel, arena_printf(module->arena, "map_%s", tensor->name));
  ir_attribute_set(map, ATTR_BOX, ir_list(module, type->rank, box));
  ir_attribute_set(map, ATTR_SWIZZLE,
                   ir_int(module, parts->across ? rules->panel : staging_swizzle(rules, row_bytes)));
  store->stage->map = map->symbol;
}

static void declare_cursor(Store *store)
{
  IrModule *module = store->parts->staging->module;
  IrRegion *body = store->parts->role->regions[0];
  IrBuilder builder = body->first ? ir_builder_before(body->first) : ir_builder_at_end(body);
  builder.mark = store->store->mark;
  IrOp *op = ir_emit(&builder, OP_CURSOR, 1, ir_symbol(module, store->stage->channel));
  IrType type = {.kind = TYPE_CURSOR, .count = 1};
  IrValue *value = ir_result(op, "staged", type);
  value->variable = true;
  store->stage->cursor = ir_value(module, value);
}

static void declare(Store *store)
{
  Staging *staging = store->parts->staging;
  const IrValue *tensor = ir_access_base(store->store->operands[0])->value;
  IrBuilder builder = ir_builder_before(staging->kernel->body->first);
  builder.mark = store->store->mark;
  if (!by_threads(store->store)) declare_map(store, &builder, tensor);
  declare_channel(store, &builder, tensor->type.element);
  declare_cursor(store);
}

/* Of a width: the common one, or what is left. */
static void declare_stage(Store *store, Stage *stage, int64_t width)
{
  store->parts->width = width;
  store->stage = stage;
  declare(store);
}

static void declare_stages(Store *store)
{
  Parts *parts = store->parts;
  int64_t width = parts->width, rest = parts->columns % width;
  const char *name = ir_access_base(store->store->operands[0])->value->name;
  declare_stage(store, &store->stages->parts, width);
  if (rest) declare_stage(store, &store->stages->rest, rest);
  parts->width = width;
  ir_remark(parts->staging->context, "stores of %s: through shared memory, %d x %d at a time, by the %s",
            name, (int)parts->rows, (int)width, by_threads(store->store) ? "threads, row by row" : "TMA");
}

/* ---- What a part is computed from ---- */

static bool is_wide(const Parts *parts, const IrType *type)
{
  return type->kind == TYPE_TILE && type->rank == 2 && ir_tile_extent(type, 1) == parts->columns;
}

/* An access to a tensor, its last coordinate moved. */
static IrExpr *moved_corner(const Parts *parts, const IrExpr *access, int64_t column)
{
  IrModule *module = parts->staging->module;
  return division_corner(module, access, 1, 0, ir_int(module, column));
}

static bool can_recompute(const IrOp *op)
{
  return op && op->n_results == 1 && (ir_op_is_elementwise(op->code) || op->code == OP_LOAD);
}

/* Columns `column` .. + width of what is itself a part of a register tile, such as one half of an
 * accumulator. */
static IrExpr *part_of_part(const Parts *parts, IrExpr *operand, int64_t column)
{
  IrModule *module = parts->staging->module;
  int64_t low, extent;
  bool wide = operand->n == 3 && operand->items[0]->kind == EXPR_VALUE &&
              operand->items[0]->value->type.kind == TYPE_TILE &&
              ir_range_extent(operand->items[2], &extent) && extent == parts->columns &&
              ir_expr_is_int(operand->items[2]->items[0], &low);
  if (!wide) return operand;
  IrExpr *columns =
      ir_range(module, ir_int(module, low + column), ir_int(module, low + column + parts->width));
  return ir_index(module, operand->items[0], 2, operand->items[1], columns);
}

/* The layout of a part of a value that is computed anew for each; NULL: it is cut. */
static const Layout *part_layout(const Parts *parts, const IrValue *value)
{
  unsigned shape[2] = {(unsigned)ir_tile_extent(&value->type, 0), (unsigned)parts->width};
  if (parts->kept || value->variable || !can_recompute(value->def)) return NULL;
  return layout_part(parts->staging->module->arena, value->type.layout, shape);
}

/* What gave a value, for columns `column` .. + width alone. */
static IrExpr *repeat(Parts *parts, IrBuilder *builder, const IrValue *value, const Layout *layout,
                      IrExpr *const *operands, int64_t column)
{
  IrModule *module = parts->staging->module;
  const IrOp *op = value->def;
  int64_t extent[2] = {ir_tile_extent(&value->type, 0), parts->width};
  builder->mark = op->mark;
  IrOp *copy = ir_emit_array(builder, op->code, op->n_operands, (IrExpr **)operands);
  for (unsigned i = 0; i < op->n_attributes; i++)
    ir_attribute_set(copy, op->attributes[i].key, op->attributes[i].value);
  if (column == 0) g_ptr_array_add(parts->originals, (gpointer)op);
  return ir_value(module,
                  ir_result(copy, value->name, ir_tile(module, value->type.element, 2, extent, layout)));
}

/* Loads that a part at `column` is computed from go in front of the part before it, whose barriers and stores
 * they so do not wait for. Values that several others read are entered once: an epilogue can have more paths
 * than any memory. */
static void load_ahead(Parts *parts, IrBuilder *builder, const IrExpr *operand, int64_t column)
{
  if (operand->kind != EXPR_VALUE || !is_wide(parts, &operand->value->type)) return;
  const IrValue *value = operand->value;
  const Layout *layout = part_layout(parts, value);
  if (!layout || g_hash_table_contains(parts->ahead, value)) return;
  const IrOp *op = value->def;
  if (op->code == OP_LOAD) {
    IrExpr *corner = moved_corner(parts, op->operands[0], column);
    g_hash_table_insert(parts->ahead, (gpointer)value,
                        repeat(parts, builder, value, layout, &corner, column));
    return;
  }
  g_hash_table_insert(parts->ahead, (gpointer)value, NULL); /* seen, and still to be computed */
  for (unsigned i = 0; i < op->n_operands; i++)
    load_ahead(parts, builder, op->operands[i], column);
}

typedef struct {
  const IrValue *value;
  bool found;
} Factor;

static void find_factor(IrOp *op, void *data)
{
  Factor *factor = data;
  factor->found |= (op->code == OP_CONVERT || op->code == OP_MMA) && ir_op_uses(op, factor->value);
}

/* Does a product take the value, too? Then it is there as a whole. */
static bool is_multiplied(const Parts *parts, const IrValue *value)
{
  Factor factor = {.value = value};
  ir_region_visit(parts->role->regions[0], find_factor, &factor);
  return factor.found;
}

/* Columns `column` .. + width of an operand: recomputed where arithmetic or a load gave it, else a part of
 * it.
 */
static IrExpr *part_of(Parts *parts, IrBuilder *builder, IrExpr *operand, int64_t column)
{
  IrModule *module = parts->staging->module;
  if (operand->kind == EXPR_INDEX) return part_of_part(parts, operand, column);
  if (operand->kind != EXPR_VALUE || !is_wide(parts, &operand->value->type)) return operand;
  IrValue *value = operand->value;
  IrExpr *known = g_hash_table_lookup(parts->parts, value);
  if (known) return known;
  if (parts->width == parts->columns && (parts->kept || is_multiplied(parts, value))) return operand;
  const Layout *layout = part_layout(parts, value);
  IrExpr *part;
  if (layout) {
    const IrOp *op = value->def;
    IrExpr **operands = arena_new_array(module->arena, IrExpr *, MAX(1, op->n_operands));
    for (unsigned i = 0; i < op->n_operands; i++)
      operands[i] = op->code == OP_LOAD ? moved_corner(parts, op->operands[i], column)
                                        : part_of(parts, builder, op->operands[i], column);
    part = repeat(parts, builder, value, layout, operands, column);
  } else {
    part = ir_index(module, operand, 2,
                    ir_range(module, ir_int(module, 0), ir_int(module, ir_tile_extent(&value->type, 0))),
                    ir_range(module, ir_int(module, column), ir_int(module, column + parts->width)));
  }
  g_hash_table_insert(parts->parts, value, part);
  return part;
}

/* ---- One part ---- */

/* The instance's rows of the slot under the cursor. */
static IrExpr *slot_rows(const Store *store)
{
  const Parts *parts = store->parts;
  IrModule *module = parts->staging->module;
  IrExpr *slot = ir_index(module, ir_field(module, ir_symbol(module, store->stage->channel), "part"), 1,
                          store->stage->cursor);
  if (parts->instances == 1) return slot;
  IrExpr *low = instance_rows(parts);
  IrExpr *rows = ir_range(module, low, ir_binary(module, OPERATOR_ADD, low, ir_int(module, parts->rows)));
  return ir_index(module, slot, 2, rows, ir_range(module, ir_int(module, 0), ir_int(module, parts->width)));
}

static IrOp *emit_put(const Store *store, IrBuilder *builder, IrExpr *part)
{
  IrModule *module = store->parts->staging->module;
  IrOp *put = ir_emit(builder, OP_PUT, 2, slot_rows(store), part);
  ir_mechanism_set(put, ir_mechanism_first(module, MECHANISM_PUT));
  return put;
}

/* Lanes along the rows, as many as their elements divide into. */
static const Layout *row_layout(const Parts *parts, unsigned vector)
{
  unsigned shape[2] = {(unsigned)parts->rows, (unsigned)parts->width}, lanes = 32;
  while (lanes > 1 && shape[1] % (lanes * vector))
    lanes /= 2;
  return layout_blocked(parts->staging->module->arena, 2, shape, vector, lanes, 1,
                        (unsigned)parts->threads / WARP_LANES);
}

static void emit_part_by_threads(const Store *store, IrBuilder *builder, int64_t column, IrExpr *part)
{
  Parts *parts = store->parts;
  IrModule *module = parts->staging->module;
  IrExpr *access = moved_corner(parts, store->store->operands[0], column);
  const IrType *tensor = &ir_access_base(access)->value->type;
  unsigned vector = ir_access_vector(parts->staging->kernel, tensor, access->items + 1,
                                     number_elements(tensor->element, 16));
  while (parts->width % vector)
    vector /= 2;
  int64_t extent[2] = {parts->rows, parts->width};
  emit_put(store, builder, part);
  IrOp *get = ir_emit(builder, OP_GET, 1, slot_rows(store));
  IrType type = ir_tile(module, tensor->element, 2, extent, row_layout(parts, vector));
  IrOp *rows = ir_emit(builder, OP_STORE, 2, access, ir_value(module, ir_result(get, "rows", type)));
  ir_attribute_set(rows, ATTR_VECTOR, ir_int(module, vector));
  if (ir_attribute(store->store, ATTR_CACHE))
    ir_attribute_set(rows, ATTR_CACHE, ir_attribute_value(store->store, ATTR_CACHE));
  ir_emit(builder, OP_ADVANCE, 1, store->stage->cursor);
}

static bool is_loaded(const IrExpr *leaf, const void *data)
{
  (void)data;
  return leaf->kind == EXPR_VALUE &&
         (leaf->value->variable || (leaf->value->def && leaf->value->def->code == OP_LOAD));
}

/* A walk's own coordinates begin inside of the tensor; those that memory gives, in a tile scheduler or by a load, need not. */
static bool may_begin_outside(const IrExpr *access)
{
  for (unsigned i = 1; i < access->n; i++)
    if (ir_follows(access->items[i], is_loaded, NULL)) return true;
  return false;
}

/* Boxes of a part that begin inside of the tensor: the others are left out. */
static void leave_out_boxes(const Store *store, IrOp *copy)
{
  IrModule *module = store->parts->staging->module;
  const IrExpr *access = copy->operands[0];
  const IrType *tensor = &ir_access_base(access)->value->type;
  unsigned last = tensor->rank - 1;
  IrExpr *inside = NULL;
  if (!may_begin_outside(access)) return;
  for (unsigned d = 0; d < last; d++) {
    IrExpr *here = ir_binary(module, OPERATOR_LT, access->items[d + 1], tensor->dims[d]);
    inside = inside ? ir_binary(module, OPERATOR_LAND, inside, here) : here;
  }
  IrExpr *left = ir_binary(module, OPERATOR_SUB, tensor->dims[last], access->items[last + 1]),
         *count = ir_call(module, "ceil_div", 2, left, ir_int(module, store->parts->width));
  IrExpr *items[2] = {ir_int(module, 1), ir_select(module, inside, count, ir_int(module, 0))};
  ir_attribute_set(copy, ATTR_BOXES, ir_list(module, 2, items));
}

/* The products that are issued right behind a store: what meets and waits between its put and its copy does so while they run. NULL: none are. */
static IrOp *behind_products(const Store *store)
{
  const Parts *parts = store->parts;
  IrOp *behind = NULL;
  bool one = parts->width == parts->columns && parts->common == parts->columns;
  for (IrOp *op = store->store->next; one && op; op = op->next) {
    bool issues = op->code == OP_MMA || op->code == OP_COMMIT || op->code == OP_FENCE,
         computes = op->code == OP_CONVERT || op->code == OP_LET || ir_op_is_elementwise(op->code);
    if (op->code == OP_MMA && !ir_is_grouped_product(op)) return NULL;
    if (!issues && !computes) break;
    if (op->code == OP_COMMIT) behind = op->next;
  }
  return behind;
}

static void emit_part(const Store *store, IrBuilder *builder, int64_t column)
{
  Parts *parts = store->parts;
  IrModule *module = parts->staging->module;
  IrExpr *part = part_of(parts, builder, store->store->operands[1], column);
  builder->mark = store->store->mark;
  if (by_threads(store->store)) {
    emit_part_by_threads(store, builder, column, part);
    return;
  }
  IrOp *put = emit_put(store, builder, part);
  if (parts->claims)
    ir_attribute_set(put, ATTR_CLAIMS, ir_int(module, column || !parts->first ? 0 : parts->claims));
  IrOp *behind = behind_products(store);
  IrBuilder later = behind ? ir_builder_before(behind) : *builder;
  later.mark = builder->mark;
  builder = &later;
  IrOp *copy =
      ir_emit(builder, OP_COPY, 2, moved_corner(parts, store->store->operands[0], column), slot_rows(store));
  ir_mechanism_set(copy, ir_mechanism_of(store->store));
  ir_attribute_set(copy, ATTR_MAP, ir_symbol(module, store->stage->map));
  leave_out_boxes(store, copy);
  if (ir_attribute(store->store, ATTR_CACHE))
    ir_attribute_set(copy, ATTR_CACHE, ir_attribute_value(store->store, ATTR_CACHE));
  ir_emit(builder, OP_ADVANCE, 1, store->stage->cursor);
}

/* ---- The kernel ---- */

/* What was recomputed part by part and nobody reads as a whole. Users were entered behind what they use. */
static void remove_originals(Parts *parts)
{
  for (unsigned i = parts->originals->len; i-- > 0;) {
    IrOp *op = parts->originals->pdata[i];
    if (!ir_region_uses(parts->role->regions[0], op->results[0])) ir_op_remove(op);
  }
}

static int64_t common_width(const Parts *parts, IrOp *const *stores, unsigned n)
{
  unsigned narrow = 16, wide = 1;
  for (unsigned i = 0; i < n; i++) {
    unsigned bytes = number_bytes(stores[i]->operands[1]->value->type.element);
    narrow = MIN(narrow, bytes);
    wide = MAX(wide, bytes);
  }
  if (parts->across)
    return staging_width_across(&parts->staging->rules, (unsigned)(parts->rows * parts->instances),
                                (unsigned)parts->columns, narrow);
  return staging_width_in(&parts->staging->rules, (unsigned)(parts->rows * parts->instances),
                          (unsigned)parts->columns, narrow, wide, parts->staging->room);
}

/* The first of the stores, as many as have a width in common. */
static unsigned with_common_width(Parts *parts, IrOp *const *stores, unsigned n)
{
  while ((parts->width = common_width(parts, stores, n)) == 0 && n > 1)
    n--;
  return n;
}

static const IrValue *stored_tensor(const IrOp *store)
{
  return ir_access_base(store->operands[0])->value;
}

/* Is the tensor contiguous along the tile's rows? */
static bool is_across(const IrOp *store)
{
  const IrType *tensor = &stored_tensor(store)->type;
  return ir_contiguous_dim(tensor) == (int)tensor->rank - 2;
}

/* Is a tensor of the tile's shape read for it? `seen`: values that have been looked at. */
static bool loads_tile(const Parts *parts, const IrExpr *operand, GHashTable *seen)
{
  if (operand->kind != EXPR_VALUE || !is_wide(parts, &operand->value->type)) return false;
  if (!g_hash_table_add(seen, operand->value)) return false;
  const IrOp *op = operand->value->def;
  if (!can_recompute(op)) return false;
  if (op->code == OP_LOAD) return ir_tile_extent(&operand->value->type, 0) > 1;
  for (unsigned i = 0; i < op->n_operands; i++)
    if (loads_tile(parts, op->operands[i], seen)) return true;
  return false;
}

/* What a part reads is loaded at its start. Where an epilogue of many operations (`pace`) has few registers
 * beside the accumulator, parts of half the columns keep them from memory. */
static void narrow_parts(Parts *parts, IrOp *const *stores, unsigned n)
{
  const CostModel *model = parts->staging->context->gpu->model;
  unsigned narrow = model->narrow_columns;
  bool many = parts->rows * parts->columns >= model->narrow_registers * parts->threads;
  bool paced = parts->staging->turns && ir_launch_get(parts->staging->kernel, ATTR_PACE);
  if (!many || !paced || parts->kept || parts->width <= narrow || parts->columns % narrow) return;
  g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL);
  for (unsigned i = 0; i < n; i++)
    if (loads_tile(parts, stores[i]->operands[1], seen)) parts->width = narrow;
}

/* Of all of the tile's stores. */
static unsigned part_count(const Parts *parts)
{
  return parts->stores * (unsigned)((parts->columns + parts->width - 1) / parts->width);
}

/* A store by the engine whose waits no other instance's products hide. */
static bool waits_for_engine(const Parts *parts, const IrOp *store)
{
  return !parts->staging->turns && parts->stores && !by_threads(store) && !ir_attribute(store, ATTR_OVERLAY);
}

/* Slots that a tile's parts fill without waiting for the engine to read the first ones, as many as there is
 * room for: instances that share a tile have nobody's products beside such a wait. `slot`: bytes of one. */
static unsigned spare_slots(const Parts *parts, const IrOp *store, unsigned long slot)
{
  const Staging *staging = parts->staging;
  bool alone = !ir_launch_get(staging->kernel, ATTR_MIN_BLOCKS); /* on its SM */
  bool waits = waits_for_engine(parts, store);
  if (!waits || !alone) return STAGING_SLOTS;
  /* warpgroups beside one another (mma ... beside) have twice the rows that choose_mechanisms counted */
  if (slot <= staging->room && staging->room < STAGING_SLOTS * slot) return 1;
  return MAX(STAGING_SLOTS, MIN(part_count(parts), (unsigned)(staging->room / slot)));
}

/* Where the ring leaves no room for two parts, one of narrow rows. */
static void find_slots(Parts *parts, IrOp *const *stores, unsigned n)
{
  unsigned bytes = number_bytes(stored_tensor(stores[0])->type.element);
  unsigned long rows = (unsigned long)(parts->rows * parts->instances);
  int64_t columns = parts->width + parts->columns % MAX(1, parts->width);
  bool alone = n == 1 && parts->staging->turns && !parts->across && !by_threads(stores[0]);
  parts->slots =
      n == 1 ? spare_slots(parts, stores[0], rows * (unsigned long)columns * bytes) : STAGING_SLOTS;
  if (!alone || STAGING_SLOTS * rows * (unsigned long)columns * bytes <= parts->staging->room) return;
  unsigned width = staging_width_least(&parts->staging->rules, (unsigned)parts->columns, bytes);
  if (!width) return;
  parts->width = width;
  parts->slots = 1;
}

static bool same_shape(const IrOp *a, const IrOp *b)
{
  const IrType *x = &a->operands[1]->value->type, *y = &b->operands[1]->value->type;
  return a->parent == b->parent && ir_tile_extent(x, 0) == ir_tile_extent(y, 0) &&
         ir_tile_extent(x, 1) == ir_tile_extent(y, 1) && is_across(a) == is_across(b);
}

/* What the stores' parts at `column` load, if there are such parts. */
static void load_for(Parts *parts, IrBuilder *builder, IrOp *const *stores, unsigned n, int64_t column)
{
  int64_t width = parts->width;
  parts->width = MIN(parts->common, parts->columns - column);
  for (unsigned i = 0; column < parts->columns && i < n; i++)
    load_ahead(parts, builder, stores[i]->operands[1], column);
  parts->width = width;
}

/* Parts stay apart, or the assembler would compute all of them before the first is stored; each loads for the
 * next. Measured: 1 to 2 % of a product whose warpgroups share a tile. Where they take turns, which hide the
 * latencies, as much is lost, since fewer operations are then independent. */
static void begin_part(Parts *parts, IrBuilder *builder, IrOp *const *stores, unsigned n, int64_t column)
{
  if (column) ir_emit(builder, OP_FENCE, 1, ir_name(parts->staging->module, "schedule"));
  load_for(parts, builder, stores, n, column + parts->width);
}

/* Returns how many of the n stores were taken. `times`: stores of the tile (Parts). */
static unsigned stage_together(Staging *staging, IrOp *role, GHashTable *stages, IrOp *const *ops, unsigned n,
                               bool kept, unsigned times)
{
  g_autoptr(GHashTable) memo = g_hash_table_new(NULL, NULL), ahead = g_hash_table_new(NULL, NULL);
  g_autoptr(GPtrArray) originals = g_ptr_array_new();
  const IrType *tile = &ops[0]->operands[1]->value->type;
  Parts parts = {.staging = staging,
                 .role = role,
                 .rows = ir_tile_extent(tile, 0),
                 .columns = ir_tile_extent(tile, 1),
                 .instances = ir_attribute_int(role, ATTR_INSTANCES, 1),
                 .across = is_across(ops[0]),
                 .kept = kept,
                 .stores = times,
                 .first = !g_hash_table_lookup(stages, stored_tensor(ops[0])),
                 .parts = memo,
                 .ahead = ahead,
                 .originals = originals};
  parts.threads = (int64_t)ir_role_warps(role) * WARP_LANES / parts.instances;
  n = with_common_width(&parts, ops, n);
  narrow_parts(&parts, ops, n);
  if (kept && parts.columns <= parts.width)
    parts.stores = 0; /* each is a part, behind a reduction: not measured */
  find_slots(&parts, ops, n);
  unsigned count = part_count(&parts);
  parts.claims = n == 1 && waits_for_engine(&parts, ops[0]) && parts.slots >= count ? count : 0;
  parts.common = parts.width;
  Store **stores = arena_new_array(staging->module->arena, Store *, n);
  for (unsigned i = 0; i < n; i++) {
    stores[i] = arena_new_object(staging->module->arena, Store);
    *stores[i] = (Store){.parts = &parts, .store = ops[i]};
    stores[i]->stages = g_hash_table_lookup(stages, stored_tensor(ops[i]));
  }
  for (unsigned i = 0; i < n; i++) {
    if (stores[i]->stages) continue;
    stores[i]->stages = arena_new_object(staging->module->arena, Stages);
    declare_stages(stores[i]);
    g_hash_table_insert(stages, (gpointer)stored_tensor(ops[i]), stores[i]->stages);
  }
  IrBuilder builder = ir_builder_before(ops[n - 1]);
  if (!staging->turns) load_for(&parts, &builder, ops, n, 0);
  for (int64_t column = 0; column < parts.columns; column += parts.common) {
    bool last = column + parts.common > parts.columns;
    parts.width = MIN(parts.common, parts.columns - column);
    GHashTable *loaded = parts.ahead;
    parts.ahead = parts.parts;
    parts.parts = loaded;
    g_hash_table_remove_all(parts.ahead);
    if (!staging->turns) begin_part(&parts, &builder, ops, n, column);
    for (unsigned i = 0; i < n; i++) {
      stores[i]->stage = last ? &stores[i]->stages->rest : &stores[i]->stages->parts;
      emit_part(stores[i], &builder, column);
    }
  }
  for (unsigned i = 0; i < n; i++)
    ir_op_remove(ops[i]);
  remove_originals(&parts);
  return n;
}

/* Stores from `first` on that are staged together: of one shape, each of another tensor. */
static unsigned count_together(const GPtrArray *ops, unsigned first)
{
  unsigned n = 1;
  for (; first + n < ops->len && same_shape(ops->pdata[first], ops->pdata[first + n]); n++)
    for (unsigned i = 0; i < n; i++)
      if (stored_tensor(ops->pdata[first + i]) == stored_tensor(ops->pdata[first + n])) return n;
  return n;
}

/* Some tensor is stored several times: what comes before is written out for each part. */
static bool is_in_parts(const GPtrArray *ops)
{
  for (unsigned i = 1; i < ops->len; i++)
    if (stored_tensor(ops->pdata[i]) == stored_tensor(ops->pdata[0])) return true;
  return false;
}

typedef struct {
  unsigned long ring, overlay, others; /* bytes of slots, of tiles that lie in them, of other tiles */
} SharedUse;

static void add_shared(IrOp *op, void *data)
{
  SharedUse *use = data;
  unsigned long slots = 1;
  if (op->code != OP_SLOT && op->code != OP_SHARED) return;
  const IrOp *channel = op->parent->owner;
  if (op->code == OP_SLOT && channel) slots = (unsigned long)ir_attribute_int(channel, ATTR_SLOTS, 1);
  const Layout *layout = op->declared->layout;
  unsigned long bytes =
      slots * (layout ? layout_bytes(layout, op->declared->element)
                      : number_bytes_of(op->declared->element, (uint64_t)ir_tile_elements(op->declared)));
  *(op->code == OP_SLOT              ? &use->ring
    : ir_attribute(op, ATTR_OVERLAY) ? &use->overlay
                                     : &use->others) += bytes;
}

/* What the ring leaves is divided among the stores; choose_mechanisms has seen to it that the least they need
 * is there. */
static void find_room(Staging *staging, const GPtrArray *stores)
{
  unsigned tensors = 0;
  for (unsigned i = 0; i < stores->len; i++) {
    bool again = false;
    for (unsigned j = 0; j < i; j++)
      again |= stored_tensor(stores->pdata[j]) == stored_tensor(stores->pdata[i]);
    tensors += !again;
  }
  SharedUse use = {0};
  ir_region_visit(staging->kernel->body, add_shared, &use);
  unsigned long most = staging->context->gpu->shared_per_block;
  unsigned long used = reserved_shared_bytes(staging->context->gpu) + MAX(use.ring, use.overlay) + use.others;
  staging->room = used < most ? (most - used) / tensors : 0;
  for (unsigned i = 0; i < stores->len; i++)
    if (ir_attribute(stores->pdata[i], ATTR_OVERLAY)) staging->room = use.ring / tensors;
}

/* How often the role stores the one tensor, by parts of one shape and width; 0: it stores others, too. */
static unsigned times_stored(const GPtrArray *ops)
{
  for (unsigned i = 1; i < ops->len; i++)
    if (stored_tensor(ops->pdata[i]) != stored_tensor(ops->pdata[0]) ||
        !same_shape(ops->pdata[0], ops->pdata[i]))
      return 0;
  return ops->len;
}

static void stage_role(Staging *staging, IrOp *role)
{
  g_autoptr(GPtrArray) ops = g_ptr_array_new();
  g_autoptr(GHashTable) stages = g_hash_table_new(NULL, NULL);
  ir_region_visit(role->regions[0], collect_stores, ops);
  if (!ops->len) return;
  find_room(staging, ops);
  bool kept = is_in_parts(ops);
  unsigned times = kept ? times_stored(ops) : 1;
  for (unsigned first = 0, n; first < ops->len; first += n) {
    n = count_together(ops, first);
    n = stage_together(staging, role, stages, (IrOp *const *)(ops->pdata + first), n, kept, times);
  }
}

bool pass_stage_stores(IrModule *module, const IrPassContext *context, GError **error)
{
  IrFunction *kernel = ir_kernel(module);
  if (!kernel) return true;
  Staging staging = {
      .context = context, .module = module, .kernel = kernel, .rules = staging_rules(context->gpu)};
  ir_region_visit(kernel->body, find_turns, &staging.turns);
  for (IrOp *op = kernel->body->first, *next; op; op = next) {
    next = op->next;
    if (op->code == OP_ROLE) stage_role(&staging, op);
  }
  return true;
}
