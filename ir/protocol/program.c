/* Kernel -> steps. Control flow becomes branches; ops without tokens (arithmetic on tiles) are left out
 * unless they touch registers that asynchronous products use. */
#include "ir/protocol/protocol.h"

static void refuse(Program *program, const Mark *mark, const char *code, const char *format, ...)
    G_GNUC_PRINTF(4, 5);
static void refuse(Program *program, const Mark *mark, const char *code, const char *format, ...)
{
  if (program->error) return;
  va_list arguments;
  va_start(arguments, format);
  g_autofree char *text = g_strdup_vprintf(format, arguments);
  va_end(arguments);
  error_set(&program->error, ERROR_INPUT, mark, code, NULL, "%s", text);
}

/* ---- Declarations ---- */

static Family *family_new(Program *program, const IrOp *op, const char *name, unsigned count,
                          int64_t arrivals, int64_t at)
{
  Family *family = arena_new_object(program->arena, Family);
  family->name = name;
  family->op = op;
  family->count = count;
  family->declared = arrivals > 0;
  family->arrivals = (unsigned)MAX(arrivals, 0);
  family->bytes = -1;
  family->at = at;
  family->first = program->n_barriers;
  program->n_barriers += count;
  g_ptr_array_add(program->families, family);
  g_hash_table_insert(program->symbols, (gpointer)name, family);
  return family;
}

static int64_t tile_bytes(const IrType *type)
{
  if (type->layout) return (int64_t)layout_bytes(type->layout, type->element);
  return (int64_t)number_bytes_of(type->element, (uint64_t)ir_tile_elements(type));
}

static void tile_new(Program *program, const IrOp *op, const char *name, unsigned slots, bool channel)
{
  Tile *tile = arena_new_object(program->arena, Tile);
  *tile = (Tile){.name = name, .op = op, .type = op->declared, .slots = slots, .channel = channel};
  tile->bytes = tile_bytes(op->declared);
  for (unsigned d = 0; d < PROTOCOL_MAX_RANK; d++)
    tile->extent[d] = d < tile->type->rank ? (int32_t)ir_tile_extent(tile->type, d) : 1;
  tile->at = ir_attribute_int(op, ATTR_AT, -1);
  tile->first = program->n_places;
  program->n_places += slots;
  g_ptr_array_add(program->tiles, tile);
  g_hash_table_insert(program->symbols, (gpointer)name, tile);
}

static unsigned constant(const IrOp *op, IrAttributeKey key, unsigned otherwise)
{
  int64_t value = otherwise;
  const IrExpr *expr = ir_attribute_value(op, key);
  if (expr) ir_expr_is_int(expr, &value);
  return (unsigned)CLAMP(value, 1, 4096);
}

static void declare_channel(Program *program, const IrOp *op)
{
  unsigned slots = constant(op, ATTR_SLOTS, 1);
  int64_t full = ir_attribute_int(op, ATTR_FULL_ARRIVALS, 0),
          empty = ir_attribute_int(op, ATTR_EMPTY_ARRIVALS, 0);
  Family *family = family_new(program, op, arena_printf(program->arena, "@%s.full", op->symbol), slots, full,
                              ir_attribute_int(op, ATTR_FULL_AT, -1));
  family->bytes = ir_attribute_int(op, ATTR_FULL_BYTES, -1);
  family_new(program, op, arena_printf(program->arena, "@%s.empty", op->symbol), slots, empty,
             ir_attribute_int(op, ATTR_EMPTY_AT, -1));
  for (const IrOp *slot = op->n_regions ? op->regions[0]->first : NULL; slot; slot = slot->next)
    if (slot->code == OP_SLOT)
      tile_new(program, slot, arena_printf(program->arena, "@%s.%s", op->symbol, slot->symbol), slots, true);
}

static void declare_role(Program *program, const IrOp *op)
{
  const IrExpr *range = ir_attribute_value(op, ATTR_WARPS);
  int64_t low = 0, high = 0;
  if (!range || range->n != 2 || !ir_expr_is_int(range->items[0], &low) ||
      !ir_expr_is_int(range->items[1], &high)) {
    refuse(program, &op->mark, "role-warps", "role @%s has no constant range of warps", op->symbol);
    return;
  }
  Role role = {op, (unsigned)low, (unsigned)high, constant(op, ATTR_INSTANCES, 1)};
  if (low < 0 || high <= low || high * 32 > PROTOCOL_MAX_THREADS || (high - low) % role.instances)
    refuse(program, &op->mark, "role-warps",
           "warps %" G_GINT64_FORMAT " .. %" G_GINT64_FORMAT
           " of role @%s do not exist or do not divide among its instances",
           low, high, op->symbol);
  for (unsigned i = 0; i < program->roles->len; i++) {
    const Role *other = &g_array_index(program->roles, Role, i);
    bool same = other->low == role.low && other->high == role.high && other->instances == role.instances;
    if (!same && role.low < other->high && other->low < role.high)
      refuse(program, &op->mark, "role-warps", "roles @%s and @%s share warps", other->op->symbol,
             op->symbol);
  }
  g_array_append_val(program->roles, role);
}

static void declare_turn(Program *program, const IrOp *op)
{
  Turn *turn = arena_new_object(program->arena, Turn);
  turn->op = op;
  turn->instances = constant(op, ATTR_INSTANCES, 1);
  const IrExpr *ids = ir_attribute_value(op, ATTR_IDS);
  for (unsigned i = 0; ids && i < ids->n && i < PROTOCOL_NAMED; i++)
    turn->ids[turn->n_ids++] = scalar_new(program, ids->items[i]);
  for (unsigned i = 0; i < turn->n_ids; i++)
    if (turn->ids[i]->kind == SCALAR_INT && (turn->ids[i]->number < 1 || turn->ids[i]->number > 15))
      refuse(program, &op->mark, "barrier-id",
             "turn @%s uses named barrier %" G_GINT64_FORMAT
             ": a block has 0 .. 15, and 0 is the whole block's",
             op->symbol, turn->ids[i]->number);
  if (ids && turn->n_ids != turn->instances)
    refuse(program, &op->mark, "barrier-id", "turn @%s has %u instances and %u named barriers", op->symbol,
           turn->instances, turn->n_ids);
  g_ptr_array_add(program->turns, turn);
  g_hash_table_insert(program->symbols, arena_printf(program->arena, "@%s", op->symbol), turn);
}

static void declare(IrOp *op, void *data)
{
  Program *program = data;
  switch (op->code) {
  case OP_CHANNEL: declare_channel(program, op); break;
  case OP_SHARED: tile_new(program, op, arena_printf(program->arena, "@%s", op->symbol), 1, false); break;
  case OP_BARRIER:
    family_new(program, op, arena_printf(program->arena, "@%s", op->symbol), constant(op, ATTR_COUNT, 1),
               ir_attribute_int(op, ATTR_ARRIVALS, 1), ir_attribute_int(op, ATTR_AT, -1));
    break;
  case OP_ROLE: declare_role(program, op); break;
  case OP_TURN: declare_turn(program, op); break;
  case OP_MMA:
    if (!ir_is_asynchronous_product(op)) break;
    for (unsigned i = 0; i < 2 && i < op->n_operands; i++)
      if (op->operands[i]->kind == EXPR_VALUE) program->registers[op->operands[i]->value->id] = true;
    break;
  default: break;
  }
}

/* ---- Steps ---- */

static Step *step_add(Program *program, StepKind kind, const IrOp *op)
{
  Step step = {.kind = kind, .op = op, .index = program->steps->len, .value = -1, .role = -1};
  g_array_append_val(program->steps, step);
  return program_step(program, step.index);
}

static const Scalar *attribute_scalar(Program *program, const IrOp *op, IrAttributeKey key)
{
  const IrExpr *expr = ir_attribute_value(op, key);
  return expr ? scalar_new(program, expr) : NULL;
}

typedef struct {
  Program *program;
  GArray *reads;
} Reads;

static void collect_read(const IrExpr *expr, void *data)
{
  Reads *reads = data;
  if (expr->kind != EXPR_VALUE || !reads->program->registers[expr->value->id]) return;
  int id = (int)expr->value->id;
  g_array_append_val(reads->reads, id);
}

/* Registers of products that the op touches, results included. */
static void note_registers(Program *program, Step *step, const IrOp *op)
{
  g_autoptr(GArray) found = g_array_new(FALSE, FALSE, sizeof(int));
  Reads reads = {program, found};
  for (unsigned i = 0; i < op->n_operands; i++)
    ir_expr_visit(op->operands[i], collect_read, &reads);
  for (unsigned i = 0; i < op->n_attributes; i++)
    if (op->attributes[i].value) ir_expr_visit(op->attributes[i].value, collect_read, &reads);
  for (unsigned i = 0; i < op->n_results; i++) {
    int id = (int)op->results[i]->id;
    if (program->registers[id]) g_array_append_val(found, id);
  }
  step->n_reads = found->len;
  if (found->len) step->reads = arena_memdup(program->arena, found->data, found->len * sizeof(int));
}

/* Tiles of shared memory among the operands, in order. */
static void note_places(Program *program, Step *step, const IrOp *op)
{
  Reference references[4];
  for (unsigned i = 0; i < op->n_operands && step->n_places < G_N_ELEMENTS(references); i++)
    if (place_reference(program, op->operands[i], &references[step->n_places])) step->n_places++;
  if (step->n_places)
    step->places = arena_memdup(program->arena, references, step->n_places * sizeof *references);
}

static unsigned group_family(const IrOp *op)
{
  const char *name = op->n_operands && op->operands[0]->name ? op->operands[0]->name : "";
  return !strcmp(name, "copies") ? 0 : !strcmp(name, "products") ? 1 : 2;
}

static By by_of(const IrOp *op)
{
  if (ir_attribute_is(op, ATTR_BY, "warp") || ir_attribute_is(op, ATTR_BY, "lane")) return BY_WARP;
  if (ir_attribute_is(op, ATTR_BY, "warpgroup")) return BY_WARPGROUP;
  return ir_attribute_is(op, ATTR_BY, "role") ? BY_ROLE : BY_THREAD;
}

static void want_barrier(Program *program, Step *step, const IrExpr *expr)
{
  if (!expr || !barrier_reference(program, expr, &step->barrier))
    refuse(program, expr ? &expr->mark : &step->op->mark, "no-barrier", "%s takes an mbarrier",
           ir_op_info(step->op->code)->name);
}

/* A TMA copy moves whole boxes: what it counts is recomputed from the tile, never taken from an attribute. A bulk
 * copy, which has no map, moves the tile. */
static void check_box(Program *program, const IrOp *op, const Reference *place)
{
  const IrExpr *name = ir_attribute_value(op, ATTR_MAP);
  const IrOp *map = name && name->kind == EXPR_SYMBOL ? ir_symbol_find(program->kernel, name->name) : NULL;
  const IrExpr *box = map ? ir_attribute_value(map, ATTR_BOX) : NULL;
  if (!box) {
    refuse(program, &op->mark, "no-map", "a TMA copy needs a tensor map");
    return;
  }
  const IrType *type = place->tile->type;
  for (unsigned d = 0; d < type->rank; d++) {
    int64_t extent = ir_tile_extent(type, d), low, high, side = 1;
    int from_end = (int)box->n - (int)type->rank + (int)d;
    if (place->high[d] && place->low[d]->kind == SCALAR_INT && place->high[d]->kind == SCALAR_INT) {
      low = place->low[d]->number;
      high = place->high[d]->number;
      extent = high - low;
    }
    if (from_end >= 0 && !ir_expr_is_int(box->items[from_end], &side)) continue;
    if (!place->high[d] && (side < 1 || extent % side))
      refuse(program, &op->mark, "box",
             "%" G_GINT64_FORMAT " along dimension %u of %s are not a multiple of the box's %" G_GINT64_FORMAT
             ": the copy would write beyond",
             extent, d, place->tile->name, side);
  }
  int64_t swizzle = ir_attribute_int(map, ATTR_SWIZZLE, 0);
  int64_t stored = type->layout && type->layout->swizzle_bits ? 16 << type->layout->swizzle_bits : 0;
  if (type->layout && swizzle != stored)
    refuse(program, &op->mark, "swizzle",
           "the map swizzles %" G_GINT64_FORMAT " bytes, %s is laid out with %" G_GINT64_FORMAT, swizzle,
           place->tile->name, stored);
}

static void note_clipped(Program *program, const Step *step)
{
  for (unsigned i = 0; i < program->families->len; i++) {
    Family *family = program->families->pdata[i];
    if (family == step->barrier.family) family->clipped = true;
  }
}

/* At the edge a copy moves the box of another map, which has fewer rows. */
static void compile_edge(Program *program, Step *step, const IrExpr *edge)
{
  const IrOp *map =
      edge->items[1]->kind == EXPR_SYMBOL ? ir_symbol_find(program->kernel, edge->items[1]->name) : NULL;
  const IrExpr *box = map ? ir_attribute_value(map, ATTR_BOX) : NULL,
               *whole = ir_attribute_value(
                   ir_symbol_find(program->kernel, ir_attribute_value(step->op, ATTR_MAP)->name), ATTR_BOX);
  int64_t side;
  for (unsigned d = 0; box && whole && d < box->n && d < whole->n; d++) {
    if (ir_expr_equal(box->items[d], whole->items[d]) || !ir_expr_is_int(whole->items[d], &side)) continue;
    step->scalar[1] = scalar_new(program, edge->items[0]);
    step->scalar[2] = scalar_new(program, box->items[d]);
    step->bytes = side;
    note_clipped(program, step);
    return;
  }
  refuse(program, &step->op->mark, "edge", "the copy's second map is none, or has the box of the first");
}

/* Of the boxes side by side only those inside of the tensor are moved. */
static void compile_boxes(Program *program, Step *step, const IrExpr *boxes)
{
  const IrType *type = step->places[0].tile->type;
  const IrOp *map = ir_symbol_find(program->kernel, ir_attribute_value(step->op, ATTR_MAP)->name);
  const IrExpr *box = map ? ir_attribute_value(map, ATTR_BOX) : NULL;
  int64_t dim, side, low = 0, high;
  if (!box || boxes->kind != EXPR_LIST || boxes->n != 2 || !ir_expr_is_int(boxes->items[0], &dim) ||
      dim < 0 || dim >= type->rank ||
      !ir_expr_is_int(box->items[box->n - type->rank + (unsigned)dim], &side)) {
    refuse(program, &step->op->mark, "boxes", "boxes takes a dimension of the tile and a count");
    return;
  }
  const Reference *place = &step->places[0];
  high = ir_tile_extent(type, (unsigned)dim);
  if (place->high[dim] && place->low[dim]->kind == SCALAR_INT && place->high[dim]->kind == SCALAR_INT) {
    low = place->low[dim]->number;
    high = place->high[dim]->number;
  }
  step->scalar[3] = scalar_new(program, boxes->items[1]);
  step->bytes = (high - low) / side;
  note_clipped(program, step);
}

static void compile_copy(Program *program, Step *step, const IrOp *op)
{
  if (!step->n_places) return;
  Reference ignored;
  step->flag = place_reference(program, op->operands[0], &ignored);
  step->how = ir_is_engine_copy(op) ? HOW_TENSOR : ir_is_grouped_copy(op) ? HOW_ASYNC : HOW_THREADS;
  if (step->how != HOW_TENSOR) return;
  bool runs = step->flag && ir_mechanism_of(op)->run_multiple && !ir_attribute(op, ATTR_MAP);
  if (!runs) check_box(program, op, &step->places[0]);
  if (step->flag) want_barrier(program, step, ir_attribute_value(op, ATTR_BARRIER));
  step->scalar[0] = attribute_scalar(program, op, ATTR_MULTICAST);
  const IrExpr *edge = ir_attribute_value(op, ATTR_EDGE);
  const IrExpr *boxes = ir_attribute_value(op, ATTR_BOXES);
  if (edge && step->barrier.family) compile_edge(program, step, edge);
  if (boxes && step->barrier.family) compile_boxes(program, step, boxes);
}

/* The cursor that an op moves, and how many slots its ring has; false if it is none. */
static bool find_cursor(const Program *program, Step *step)
{
  const IrExpr *cursor = step->op->operands[0];
  if (cursor->kind != EXPR_VALUE) return false;
  step->value = (int)cursor->value->id;
  step->slots = 1;
  const IrOp *def = cursor->value->def;
  const IrExpr *channel = def && def->n_operands ? def->operands[0] : cursor;
  const IrOp *declared = channel->kind == EXPR_SYMBOL ? ir_symbol_find(program->kernel, channel->name) : NULL;
  const IrExpr *slots = declared ? ir_attribute_value(declared, ATTR_SLOTS) : NULL;
  step->ring = declared && declared->code == OP_CHANNEL ? declared : NULL;
  if (slots) ir_expr_is_int(slots, &step->slots);
  return step->value >= 0;
}

static void compile_turn(Program *program, Step *step, const IrOp *op)
{
  const IrExpr *name = op->operands[0];
  for (unsigned i = 0; i < program->turns->len; i++) {
    const Turn *turn = program->turns->pdata[i];
    if (name->kind == EXPR_SYMBOL && !strcmp(turn->op->symbol, name->name)) {
      step->family = i;
      step->scalar[0] = scalar_new(program, op->operands[1]);
      return;
    }
  }
  refuse(program, &op->mark, "no-turn", "%s takes a turn", ir_op_info(op->code)->name);
}

static Fence fence_of(const IrOp *op)
{
  static const struct {
    const char *what;
    Fence fence;
  } rows[] = {{"products", FENCE_PRODUCTS},
              {"async_shared", FENCE_ASYNC_SHARED},
              {"cluster", FENCE_CLOCK},
              {"barrier_init", FENCE_CLOCK},
              {"memory", FENCE_CLOCK}};
  const char *what = op->operands[0]->name;
  for (unsigned i = 0; what && i < G_N_ELEMENTS(rows); i++)
    if (!strcmp(what, rows[i].what)) return rows[i].fence;
  return FENCE_OTHER;
}

/* Barriers, groups, turns and fences. Returns false if it is none of these. */
static bool compile_meeting(Program *program, Step *step, const IrOp *op)
{
  switch (op->code) {
  case OP_AWAIT:
    want_barrier(program, step, op->operands[0]);
    step->scalar[0] = attribute_scalar(program, op, ATTR_PARITY);
    return true;
  case OP_ARRIVE:
    want_barrier(program, step, op->operands[0]);
    step->scalar[0] = attribute_scalar(program, op, ATTR_COUNT);
    step->flag = ir_attribute_is(op, ATTR_PEER, "all");
    step->across = (unsigned)ir_attribute_int(op, ATTR_CLUSTER_N, 0);
    if (!step->flag) step->scalar[1] = attribute_scalar(program, op, ATTR_PEER);
    return true;
  case OP_EXPECT:
    want_barrier(program, step, op->operands[0]);
    step->scalar[0] = attribute_scalar(program, op, ATTR_BYTES);
    return true;
  case OP_COMMIT:
  case OP_WAIT_GROUP:
    step->family = group_family(op);
    step->bytes = ir_attribute_int(op, ATTR_PENDING, 0);
    step->flag = ir_attribute(op, ATTR_READ) != NULL || ir_attribute_is(op, ATTR_PEER, "all");
    if (ir_attribute(op, ATTR_BARRIER)) want_barrier(program, step, ir_attribute_value(op, ATTR_BARRIER));
    return true;
  case OP_SYNC:
  case OP_SYNC_ARRIVE:
    step->scalar[0] = attribute_scalar(program, op, ATTR_ID);
    step->scalar[1] = attribute_scalar(program, op, ATTR_THREADS);
    return true;
  case OP_TURN_WAIT:
  case OP_TURN_PASS: compile_turn(program, step, op); return true;
  case OP_CLUSTER_ARRIVE: step->flag = ir_attribute(op, ATTR_RELAXED) != NULL; return true;
  case OP_SYNC_WARP:
  case OP_CLUSTER_WAIT:
  case OP_INIT_BARRIERS: return true;
  case OP_FENCE: step->family = fence_of(op); return true;
  default: return false;
  }
}

/* What each op's step needs besides the general parts. Returns false if it has no tokens. */
static bool compile_op(Program *program, Step *step, const IrOp *op)
{
  step->by = by_of(op);
  if (compile_meeting(program, step, op)) return true;
  switch (op->code) {
  case OP_COPY: compile_copy(program, step, op); return true;
  case OP_CURSOR:
    step->value = (int)op->results[0]->id;
    step->scalar[0] = attribute_scalar(program, op, ATTR_SLOT);
    step->scalar[1] = attribute_scalar(program, op, ATTR_PHASE);
    return true;
  case OP_SKIP:
    for (unsigned i = 0; i < 3; i++) /* bounds and step of the loop, and how many runs of it */
      step->scalar[i] = scalar_new(program, op->operands[2 + i]);
    step->scalar[3] = scalar_new(program, op->operands[1]);
    return find_cursor(program, step);
  case OP_ADVANCE: return find_cursor(program, step);
  case OP_PUT:
  case OP_GET:
    if (!ir_attribute_is(op, ATTR_PEER, "all")) step->scalar[0] = attribute_scalar(program, op, ATTR_PEER);
    if (ir_attribute(op, ATTR_BARRIER)) want_barrier(program, step, ir_attribute_value(op, ATTR_BARRIER));
    if (op->code == OP_PUT && op->operands[1]->kind != EXPR_FLOAT)
      step->scalar[1] = scalar_new(program, op->operands[1]);
    if (op->n_results && op->results[0]->type.kind == TYPE_SCALAR) step->value = (int)op->results[0]->id;
    return true;
  case OP_CLAIM:
    step->value = (int)op->results[0]->id;
    step->scalar[0] = scalar_new(program, op->operands[0]);
    return true;
  case OP_ADD_PARTIAL:
    step->scalar[1] = scalar_new(program, op->operands[2]);
    step->scalar[2] = attribute_scalar(program, op, ATTR_COUNT);
    step->scalar[0] = scalar_new(program, op->operands[1]);
    return true;
  case OP_AWAIT_POSTS: step->scalar[1] = scalar_new(program, op->operands[1]); /* fall through */
  case OP_POST: step->scalar[0] = scalar_new(program, op->operands[0]); return true;
  case OP_STORE_PARTIAL:
    step->scalar[1] = attribute_scalar(program, op, ATTR_COUNT);
    step->scalar[0] = scalar_new(program, op->operands[1]);
    return true;
  case OP_MMA:
    step->how = ir_is_asynchronous_product(op) ? HOW_PRODUCT : HOW_THREADS;
    step->span = ir_product_divided(op) ? ir_product_blocks(op) : 1;
    step->spread = ir_product_divided(op) == 1 ? 0 : step->n_places - 1;
    step->led = ir_product_is_led(op) ? ir_product_blocks(op) : 0;
    return step->n_places || step->n_reads;
  case OP_REDUCE:
  case OP_SCAN:
  case OP_SORT:
  case OP_PICK:
  case OP_COUNT: return ir_attribute(op, ATTR_EXCHANGE) != NULL || step->n_reads;
  case OP_CONVERT: return ir_meets(op) || step->n_reads;
  default: return step->n_places || step->n_reads;
  }
}

/* A scalar's op: its value is evaluated where it stands. */
static bool compile_scalar(Program *program, const IrOp *op)
{
  if (op->code == OP_SET) {
    if (op->operands[0]->kind != EXPR_VALUE || op->operands[0]->value->type.kind != TYPE_SCALAR) return false;
    const Scalar *from = scalar_new(program, op->operands[1]);
    Step *step = step_add(program, STEP_SET, op);
    step->value = (int)op->operands[0]->value->id;
    step->scalar[0] = from;
    return true;
  }
  if (op->n_results != 1 || op->results[0]->type.kind != TYPE_SCALAR || op->code == OP_GET ||
      op->code == OP_CLAIM)
    return false;
  const Scalar *from = scalar_of_op(program, op);
  if (!from) return false;
  if (op->code != OP_VAR && from->varies) { /* differs between threads: evaluated where it is used */
    g_hash_table_insert(program->lets, op->results[0], (gpointer)scalar_of_lanes(program, from));
    return true;
  }
  Step *step = step_add(program, STEP_SET, op);
  step->value = (int)op->results[0]->id;
  step->scalar[0] = from;
  return true;
}

static void compile_region(Program *program, const IrRegion *region);

static void compile_if(Program *program, const IrOp *op)
{
  const Scalar *condition = scalar_new(program, op->operands[0]);
  unsigned begin = step_add(program, STEP_IF, op)->index;
  program_step(program, begin)->scalar[0] = condition;
  compile_region(program, op->regions[0]);
  unsigned middle = step_add(program, STEP_ELSE, op)->index;
  program_step(program, begin)->target = middle + 1;
  if (op->n_regions > 1) compile_region(program, op->regions[1]);
  unsigned end = step_add(program, STEP_END_IF, op)->index;
  program_step(program, middle)->target = end;
}

static bool mentions_blocks(const Scalar *scalar)
{
  if (!scalar) return false;
  return scalar->kind == SCALAR_BLOCKS || mentions_blocks(scalar->a) || mentions_blocks(scalar->b) ||
         mentions_blocks(scalar->c);
}

static void compile_loop(Program *program, const IrOp *op)
{
  const Scalar *bounds[3] = {NULL};
  for (unsigned i = 0; op->code == OP_FOR && i < 3 && i < op->n_operands; i++)
    bounds[i] = scalar_new(program, op->operands[i]);
  if (bounds[1] && bounds[1]->kind == SCALAR_DIM) {
    int64_t step = bounds[2] && bounds[2]->kind == SCALAR_INT ? bounds[2]->number : 1;
    program->inner[bounds[1]->number] = true;
    program->granule[bounds[1]->number] = MAX(program->granule[bounds[1]->number], step);
  }
  unsigned begin = step_add(program, op->code == OP_FOR ? STEP_FOR : STEP_LOOP, op)->index;
  Step *step = program_step(program, begin);
  memcpy(step->scalar, bounds, sizeof bounds);
  step->walk = mentions_blocks(bounds[2]);
  if (op->code == OP_FOR) step->value = (int)op->regions[0]->arguments[0]->id;
  compile_region(program, op->regions[0]);
  unsigned end = step_add(program, STEP_AGAIN, op)->index;
  program_step(program, end)->target = begin;
  program_step(program, begin)->target = end + 1;
}

static void compile_role(Program *program, const IrOp *op)
{
  unsigned begin = step_add(program, STEP_ROLE, op)->index;
  for (unsigned i = 0; i < program->roles->len; i++)
    if (g_array_index(program->roles, Role, i).op == op) program_step(program, begin)->role = (int)i;
  compile_region(program, op->regions[0]);
  unsigned end = step_add(program, STEP_END_ROLE, op)->index;
  program_step(program, begin)->target = end + 1;
}

static void compile_statement(Program *program, const IrOp *op)
{
  switch (op->code) {
  case OP_FOR:
  case OP_LOOP: compile_loop(program, op); return;
  case OP_IF: compile_if(program, op); return;
  case OP_ROLE: compile_role(program, op); return;
  case OP_BREAK_IF: {
    const Scalar *condition = scalar_new(program, op->operands[0]);
    step_add(program, STEP_BREAK, op)->scalar[0] = condition;
    return;
  }
  case OP_CHANNEL:
  case OP_SHARED:
  case OP_BARRIER:
  case OP_TURN:
  case OP_MAP:
  case OP_PREFETCH_MAP: return;
  default: break;
  }
  if (compile_scalar(program, op)) return;
  Step made = {.op = op, .value = -1, .role = -1};
  note_registers(program, &made, op);
  note_places(program, &made, op);
  if (!compile_op(program, &made, op)) return;
  made.index = program->steps->len;
  g_array_append_val(program->steps, made);
}

static void compile_region(Program *program, const IrRegion *region)
{
  for (const IrOp *op = region->first; op && !program->error; op = op->next)
    compile_statement(program, op);
}

static void program_launch(Program *program)
{
  int64_t threads = 0, cluster = 1;
  IrExpr *expr = ir_launch_get(program->kernel, ATTR_THREADS);
  if (expr) ir_expr_is_int(expr, &threads);
  expr = ir_launch_get(program->kernel, ATTR_CLUSTER);
  if (expr) ir_expr_is_int(expr, &cluster);
  for (unsigned i = 0; i < program->roles->len; i++) {
    const Role *role = &g_array_index(program->roles, Role, i);
    if (threads && role->high * 32 > threads)
      refuse(program, &role->op->mark, "role-warps", "role @%s has warps up to %u, the block %u",
             role->op->symbol, role->high, (unsigned)threads / 32);
    program->threads = MAX(program->threads, role->high * 32);
  }
  program->threads = MAX(program->threads, (unsigned)CLAMP(threads, 0, PROTOCOL_MAX_THREADS));
  if (!program->threads) program->threads = 128;
  program->threads = (program->threads + 31) / 32 * 32;
  program->blocks = (unsigned)CLAMP(cluster, 1, PROTOCOL_MAX_BLOCKS);
}

/* ---- Long loops ---- */

static bool constant_loop(const Step *step, int64_t *trips)
{
  for (unsigned i = 0; i < 3; i++)
    if (!step->scalar[i] ? i < 2 : step->scalar[i]->kind != SCALAR_INT) return false;
  int64_t by = step->scalar[2] ? step->scalar[2]->number : 1;
  *trips = by > 0 ? (step->scalar[1]->number - step->scalar[0]->number) / by : 0;
  return true;
}

static int64_t step_of(const Step *loop)
{
  return loop->scalar[2] ? loop->scalar[2]->number : 1;
}

static bool is_number(const Scalar *scalar, int64_t number)
{
  return scalar ? scalar->kind == SCALAR_INT && scalar->number == number : number == 1;
}

/* The same loop, or its rest: one that begins later, and has its end and step. */
static bool ends_alike(const Step *loop, const Step *longest)
{
  return is_number(loop->scalar[1], longest->scalar[1]->number) &&
         is_number(loop->scalar[2], step_of(longest));
}

static bool is_loop_variable(const Program *program, const Scalar *scalar)
{
  if (scalar->kind != SCALAR_VALUE) return false;
  bool counts = false;
  for (unsigned i = 0; i < program->steps->len; i++) {
    const Step *step = program_step(program, i);
    if (step->value != (int)scalar->number) continue;
    if (step->kind != STEP_FOR) return false;
    counts = true;
  }
  return counts;
}

static bool compares(IrOperator op)
{
  return op == OPERATOR_EQ || op == OPERATOR_NE || op == OPERATOR_LT || op == OPERATOR_LE ||
         op == OPERATOR_GT || op == OPERATOR_GE;
}

#define MOST_NAMES 6 /* through which a condition is followed; behind them anything is possible */

/* Does the scalar follow a variable of loops that end like the longest, by its name or through others'? */
static bool counts_along(const Program *program, const Scalar *scalar, const Step *longest, unsigned names)
{
  if (!scalar) return false;
  if (names == MOST_NAMES) return true;
  for (unsigned i = 0; scalar->kind == SCALAR_VALUE && i < program->steps->len; i++) {
    const Step *step = program_step(program, i);
    if (step->value != (int)scalar->number) continue;
    if (step->kind == STEP_FOR && ends_alike(step, longest)) return true;
    if (step->kind == STEP_SET && counts_along(program, step->scalar[0], longest, names + 1)) return true;
  }
  return counts_along(program, scalar->a, longest, names) ||
         counts_along(program, scalar->b, longest, names) || counts_along(program, scalar->c, longest, names);
}

/* Up to which value of a loop's variable a condition may tell iterations apart: what it compares a variable
 * with. INT64_MAX where a number stands in it in another way, as in a remainder: nobody knows then. */
static int64_t tells_apart(const Program *program, const Scalar *scalar, const Step *longest, unsigned names)
{
  if (!scalar) return 0;
  if (names == MOST_NAMES) return INT64_MAX;
  bool plain = scalar->kind == SCALAR_OPERATOR && compares(scalar->operator_);
  if (plain && scalar->b->kind == SCALAR_INT && is_loop_variable(program, scalar->a))
    return scalar->b->number;
  if (scalar->kind == SCALAR_INT) return scalar->number > 1 || scalar->number < 0 ? INT64_MAX : 0;
  int64_t most = 0;
  bool named = scalar->kind == SCALAR_VALUE;
  for (unsigned i = 0; named && most < INT64_MAX && i < program->steps->len; i++) {
    const Step *step = program_step(program, i);
    if (step->kind == STEP_SET && step->value == (int)scalar->number &&
        counts_along(program, step->scalar[0], longest, names))
      most = MAX(most, tells_apart(program, step->scalar[0], longest, names + 1));
  }
  const Scalar *parts[] = {scalar->a, scalar->b, scalar->c};
  for (unsigned i = 0; most < INT64_MAX && i < G_N_ELEMENTS(parts); i++) /* more than that nothing is */
    most = MAX(most, tells_apart(program, parts[i], longest, names));
  return most;
}

/* Does a loop take in fewer, wider steps what the long one takes, or most of it (overlap_sums)? Then neither
 * may be cut. */
static bool walks_wider(const Step *step, const Step *longest)
{
  int64_t trips, by = step_of(longest);
  int64_t span = longest->scalar[1]->number - longest->scalar[0]->number;
  if (step->kind != STEP_FOR || !constant_loop(step, &trips) || !step->scalar[2]) return false;
  return step->scalar[2]->number > by && 2 * (step->scalar[1]->number - step->scalar[0]->number) >= span;
}

/* The first of the longest loops; NULL if there is none, or some that end at different numbers. */
static const Step *longest_of(const Program *program, int64_t most)
{
  const Step *longest = NULL;
  for (unsigned i = 0; i < program->steps->len; i++) {
    const Step *step = program_step(program, i);
    int64_t trips;
    if (step->kind != STEP_FOR || !constant_loop(step, &trips) || trips <= most) continue;
    if (longest && !ends_alike(step, longest)) return NULL;
    if (!longest || step->scalar[0]->number < longest->scalar[0]->number) longest = step;
  }
  return longest;
}

/* Over a constant K of thousands a loop of hundreds of iterations shows nothing that a few do not, if all
 * roles end it together and behind the last iteration that a condition picks, or that another part of the
 * loop begins with, enough are left. */
static void find_long_loop(Program *program)
{
  program->long_loop = -1;
  unsigned most = 8;
  for (unsigned i = 0; i < program->tiles->len; i++)
    most = MAX(most, 2 * ((const Tile *)program->tiles->pdata[i])->slots + 6);
  const Step *longest = longest_of(program, most);
  if (!longest) return;
  int64_t from = longest->scalar[0]->number;
  for (unsigned i = 0; i < program->steps->len; i++) {
    const Step *step = program_step(program, i);
    if (walks_wider(step, longest)) return;
    if (step->kind == STEP_IF || step->kind == STEP_BREAK)
      from = MAX(from, tells_apart(program, step->scalar[0], longest, 0));
    bool rest = step->kind == STEP_FOR && ends_alike(step, longest);
    if (rest && step->scalar[0]->kind == SCALAR_INT) from = MAX(from, step->scalar[0]->number);
  }
  if (from >= longest->scalar[1]->number) return;
  program->long_loop = (int)longest->index;
  program->long_from = from;
  program->long_kept = (from - longest->scalar[0]->number) / step_of(longest);
}

bool program_may_cut(const Program *program, const Step *step, int64_t *first)
{
  if (program->long_loop < 0) return false;
  *first = program->long_from;
  return ends_alike(step, program_step(program, (unsigned)program->long_loop));
}

Program *program_new(IrModule *module, GError **error)
{
  g_autoptr(Program) program = g_new0(Program, 1);
  program->arena = arena_new();
  program->module = module;
  IrFunction *kernel = ir_kernel(module);
  program->kernel = kernel;
  program->steps = g_array_new(FALSE, TRUE, sizeof(Step));
  program->families = g_ptr_array_new();
  program->tiles = g_ptr_array_new();
  program->turns = g_ptr_array_new();
  program->roles = g_array_new(FALSE, TRUE, sizeof(Role));
  program->lets = g_hash_table_new(NULL, NULL);
  program->symbols = g_hash_table_new(g_str_hash, g_str_equal);
  program->n_values = ir_number_values(kernel);
  program->registers = arena_new_array(program->arena, bool, program->n_values + 1);
  program->granule = arena_new_array(program->arena, int64_t, kernel->n_dims + 1);
  program->inner = arena_new_array(program->arena, bool, kernel->n_dims + 1);
  ir_region_visit(kernel->body, declare, program);
  if (!program->error) program_launch(program);
  if (!program->error) compile_region(program, kernel->body);
  step_add(program, STEP_END, NULL);
  find_long_loop(program);
  if (program->error) {
    g_propagate_error(error, g_steal_pointer(&program->error));
    return NULL;
  }
  return layout_resources(program, error) ? g_steal_pointer(&program) : NULL;
}

void program_free(Program *program)
{
  if (!program) return;
  g_array_unref(program->steps);
  g_ptr_array_unref(program->families);
  g_ptr_array_unref(program->tiles);
  g_ptr_array_unref(program->turns);
  g_array_unref(program->roles);
  g_hash_table_unref(program->lets);
  g_hash_table_unref(program->symbols);
  g_clear_error(&program->error);
  arena_free(program->arena);
  g_free(program);
}
