/* Rows that arrive in shared memory: a ring of slots, each for one tile's rows, filled while those before are computed with. */
#include "ir/facts.h"
#include "ir/passes/rows.h"

typedef struct {
  Rows *rows;
  IrRegion *body;
  IrOp *channel;
  IrRegion *fields;
  IrBuilder fills, gets; /* where they go */
} Ring;

static IrExpr *slot_tile(const Ring *ring, const char *field)
{
  IrModule *module = ring->rows->module;
  return ir_field(module, ir_symbol(module, ring->channel->symbol), field);
}

/* Does the expression name the tile at hand, itself or by what is computed of it? */
static void find_index(const IrExpr *expr, void *data)
{
  gpointer *search = data;
  const IrValue *index = search[0];
  if (expr->kind != EXPR_VALUE) return;
  if (expr->value == index) search[1] = GINT_TO_POINTER(true);
  const IrOp *def = expr->value->def;
  for (unsigned i = 0; def && def->parent == index->argument_of && i < def->n_operands; i++)
    ir_expr_visit(def->operands[i], find_index, data);
}

/* Whole rows that differ from tile to tile: what all tiles read stays a load, and comes from a cache. */
static bool arrives(const Ring *ring, const IrOp *op)
{
  const Rows *rows = ring->rows;
  if (op->code != OP_LOAD || op->operands[0]->kind != EXPR_INDEX || op->n_attributes) return false;
  const IrType *type = &op->results[0]->type;
  gpointer search[2] = {ring->body->arguments[0], NULL};
  ir_expr_visit(op->operands[0], find_index, search);
  return search[1] && type->rank == 2 && ir_tile_extent(type, 1) == rows->extent;
}

static void add_slot(Ring *ring, IrOp *load)
{
  IrModule *module = ring->rows->module;
  const IrValue *tile = load->results[0];
  IrBuilder inner = ir_builder_at_end(ring->fields);
  inner.mark = load->mark;
  IrOp *slot = ir_emit(&inner, OP_SLOT, 0);
  slot->symbol = arena_strdup(module->arena, tile->name);
  IrType *declared = arena_new_object(module->arena, IrType);
  *declared = tile->type;
  slot->declared = declared;
  ring->fills.mark = ring->gets.mark = load->mark;
  ir_emit(&ring->fills, OP_FILL, 2, slot_tile(ring, slot->symbol), load->operands[0]);
  IrExpr *got = ir_emit_value(&ring->gets, OP_GET, tile->type, tile->name, 1, slot_tile(ring, slot->symbol));
  ir_replace_uses(ring->rows->kernel->body, tile, got);
  ir_op_remove(load);
}

/* ---- Read again: what a later phase computes of a row comes from its slot once more, not from registers ---- */

typedef struct {
  const Ring *ring;
  IrRegion *taken;
  GHashTable *phases; /* IrOp* -> its phase */
  GHashTable *made;   /* IrValue* -> IrExpr*: the same once more, in the phase at hand */
} Again;

static unsigned phase_of(const Again *again, const IrOp *op)
{
  return GPOINTER_TO_UINT(g_hash_table_lookup(again->phases, op));
}

/* The operation of this phase's row whose result an operand is, or NULL. */
static IrOp *wide_definition(const Again *again, const IrExpr *operand)
{
  IrOp *def = operand->kind == EXPR_VALUE ? operand->value->def : NULL;
  if (!def || def->parent != again->taken || def->n_results != 1) return NULL;
  const IrType *type = &operand->value->type;
  bool wide = type->kind == TYPE_TILE && ir_tile_extent(type, type->rank - 1) == again->ring->rows->extent;
  return wide ? def : NULL;
}

static bool is_quick(IrOpcode code)
{
  switch (code) {
  case OP_GET:
  case OP_CAST:
  case OP_BITCAST:
  case OP_ADD:
  case OP_SUB:
  case OP_MUL:
  case OP_FMA:
  case OP_NEG:
  case OP_ABS:
  case OP_MIN:
  case OP_MAX:
  case OP_SHL:
  case OP_SELECT: return true;
  default: return false;
  }
}

/* Operations that it takes to have it again; false: too many, or one that is slow or a load. */
static bool is_cheap(const Again *again, const IrOp *op, GHashTable *counted)
{
  if (!g_hash_table_add(counted, (gpointer)op)) return true;
  unsigned most = again->ring->rows->context->gpu->model->row_again;
  bool cheap = is_quick(op->code) && g_hash_table_size(counted) <= most;
  for (unsigned i = 0; i < op->n_operands && cheap; i++) {
    const IrOp *def = wide_definition(again, op->operands[i]);
    cheap = !def || is_cheap(again, def, counted);
  }
  return cheap;
}

static void compute_again(Again *again, IrOp *op, unsigned phase, IrOp *before)
{
  if (g_hash_table_contains(again->made, op->results[0])) return;
  for (unsigned i = 0; i < op->n_operands; i++) {
    IrOp *def = wide_definition(again, op->operands[i]);
    if (def) compute_again(again, def, phase, before);
  }
  IrBuilder builder = ir_builder_before(before);
  builder.mark = op->mark;
  IrOp *copy = ir_op_clone(&builder, op, again->made);
  g_hash_table_insert(again->phases, copy, GUINT_TO_POINTER(phase));
}

static void use_again(Again *again, IrOp *op, unsigned phase)
{
  for (unsigned i = 0; i < op->n_operands; i++) {
    IrOp *def = wide_definition(again, op->operands[i]);
    g_autoptr(GHashTable) counted = g_hash_table_new(NULL, NULL);
    if (!def || phase_of(again, def) >= phase || !is_cheap(again, def, counted)) continue;
    compute_again(again, def, phase, op);
    op->operands[i] = g_hash_table_lookup(again->made, def->results[0]);
  }
}

static void read_again(const Ring *ring, IrRegion *taken)
{
  g_autoptr(GHashTable) phases = g_hash_table_new(NULL, NULL);
  Again again = {ring, taken, phases, NULL};
  unsigned last = 0;
  g_autoptr(GPtrArray) ops = g_ptr_array_new();
  for (IrOp *op = taken->first; op; op = op->next) {
    unsigned phase = 0;
    for (unsigned i = 0; i < op->n_operands; i++) {
      const IrOp *def = op->operands[i]->kind == EXPR_VALUE ? op->operands[i]->value->def : NULL;
      if (def && def->parent == taken) phase = MAX(phase, phase_of(&again, def) + (def->code == OP_REDUCE));
    }
    g_hash_table_insert(phases, op, GUINT_TO_POINTER(phase));
    g_ptr_array_add(ops, op);
    last = MAX(last, phase);
  }
  for (unsigned phase = 1; phase <= last; phase++) {
    again.made = g_hash_table_new(NULL, NULL);
    for (unsigned i = 0; i < ops->len; i++)
      if (phase_of(&again, ops->pdata[i]) == phase) use_again(&again, ops->pdata[i], phase);
    g_hash_table_unref(again.made);
  }
}

/* ---- The ring ---- */

/* What can be computed before a row has arrived: scalars of scalars. */
static bool is_scalar(const Ring *ring, GPtrArray *scalars, IrOp *op)
{
  for (unsigned i = 0; i < op->n_results; i++)
    if (op->results[i]->type.kind == TYPE_TILE) return false;
  for (IrOp *other = ring->body->first; other != op; other = other->next)
    for (unsigned r = 0; r < other->n_results; r++)
      if (ir_op_uses(op, other->results[r]) && !g_ptr_array_find(scalars, other, NULL)) return false;
  return op->n_results && !op->n_regions && !ir_op_effects(op->code);
}

bool rows_place_ring(Rows *rows, int64_t slots)
{
  IrModule *module = rows->module;
  Ring ring = {.rows = rows, .body = rows->body};
  g_autoptr(GPtrArray) scalars = g_ptr_array_new();
  g_autoptr(GPtrArray) loads = g_ptr_array_new();
  g_autoptr(GPtrArray) rest = g_ptr_array_new();
  for (IrOp *op = ring.body->first; op; op = op->next)
    g_ptr_array_add(is_scalar(&ring, scalars, op) ? scalars : arrives(&ring, op) ? loads : rest, op);
  if (!loads->len) return true; /* nothing to wait for */
  IrBuilder outside = ir_builder_before(rows->tiles);
  outside.mark = rows->tiles->mark;
  ring.channel = ir_emit(&outside, OP_CHANNEL, 0);
  ring.channel->symbol = ir_symbol_unique(rows->kernel, "rows");
  ir_attribute_set(ring.channel, ATTR_SLOTS, ir_int(module, slots));
  ring.fields = ir_region_add(ring.channel);
  for (unsigned i = 0; i < scalars->len; i++)
    ir_op_move(scalars->pdata[i], ring.body, NULL);
  ring.fills = ir_builder_at_end(ring.body);
  for (unsigned i = 0; i < loads->len; i++)
    ir_op_move(loads->pdata[i], ring.body, NULL);
  IrBuilder end = ir_builder_at_end(ring.body);
  end.mark = rows->tiles->mark;
  IrOp *take = ir_emit(&end, OP_TAKE, 1, ir_symbol(module, ring.channel->symbol));
  IrRegion *taken = ir_region_add(take);
  ring.fills = ir_builder_before(take);
  ring.gets = ir_builder_at_end(taken);
  for (unsigned i = 0; i < loads->len; i++)
    add_slot(&ring, loads->pdata[i]);
  for (unsigned i = 0; i < rest->len; i++)
    ir_op_move(rest->pdata[i], taken, NULL);
  if (ring.body != rows->tiles->regions[0]) {
    ir_attribute_set(ring.body->owner, ATTR_AHEAD, ir_name(module, "guarded"));
  } else { /* with sums of columns beside the row, what reads it again takes longer than registers are worth */
    read_again(&ring, taken);
    if (slots > 1) ir_attribute_set(rows->tiles, ATTR_PERSISTENT, ir_int(module, 1));
  }
  ir_remark(rows->context, "%u tensors' rows arrive in shared memory, %d at once", loads->len, (int)slots);
  return true;
}
