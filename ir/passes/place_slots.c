/* Tiles of channels: rows as wide as the swizzle of what reads them. */
#include "ir/passes/place_slots.h"
#include "ir/facts.h"
#include "ir/mechanism.h"
#include "ir/resources.h"

typedef struct {
  IrModule *module;
  IrFunction *kernel;
  const GPtrArray *ops;
} Slots;

static int inner_dim_of_fill(const IrOp *fill)
{
  const IrType *tensor = &ir_access_base(fill->operands[1])->value->type;
  int inner = ir_contiguous_dim(tensor) - ((int)tensor->rank - 2);
  return inner < 0 ? 1 : inner;
}

typedef enum {
  READ_SWIZZLED,  /* by matrices, or by a warpgroup MMA */
  READ_COLUMNS,   /* by scalar products: down columns, element by element */
  READ_ROWS,      /* loaded into registers by the rows of each warpgroup (load_operands) */
  READ_FRAGMENTS, /* 32-bit elements across k: four rows of k, eight elements of each at once */
  READ_OPERAND, /* by arithmetic whose result a product takes from registers: eight rows of the slot at once */
  READ_PAIRED, /* by warpgroup MMAs whose left operand of 8 bits is computed from a sum: in the order that this has it in */
  READ_TURNED, /* by matrices that turn it around on its way to another slot */
  READ_VALUES, /* by arithmetic alone */
} SlotReader;

static unsigned common(unsigned a, unsigned b)
{
  while (b) {
    unsigned rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

unsigned slot_run(const IrFunction *kernel, const IrOp *fill, unsigned inner, unsigned run)
{
  const IrExpr *filled = fill->operands[0];
  IrType piece = ir_expr_type(kernel, filled);
  int64_t low;
  run = common(run, (unsigned)ir_tile_extent(&piece, inner));
  const IrExpr *range = filled->kind == EXPR_INDEX && inner + 1 < filled->n ? filled->items[inner + 1] : NULL;
  bool begins = range && range->kind == EXPR_RANGE && ir_expr_is_int(range->items[0], &low);
  return begins ? common(run, (unsigned)low) : run;
}

/* Elements of a row that all pieces which an engine brings are multiples of. */
static unsigned engine_run(const Slots *slots, const IrOp *slot, unsigned inner, unsigned run)
{
  for (unsigned i = 0; i < slots->ops->len; i++) {
    const IrOp *fill = slots->ops->pdata[i];
    if (fill->code == OP_FILL && ir_is_engine_copy(fill) &&
        ir_slot_of(slots->kernel, fill->operands[0], NULL) == slot)
      run = slot_run(slots->kernel, fill, inner, run);
  }
  return run;
}

/* Rows that are read element by element are padded instead of swizzled: the next row starts behind the banks
 * of the elements that are read together. */
static void place_slot(Slots *slots, IrOp *slot, unsigned inner, SlotReader reader, unsigned swizzles)
{
  unsigned extent[2];
  for (unsigned d = 0; d < 2; d++)
    extent[d] = (unsigned)ir_tile_extent(slot->declared, d);
  NumberType element = slot->declared->element;
  /* a warpgroup's rows are whole panels */
  unsigned wide = reader == READ_ROWS ? extent[inner] / warpgroups_of_rows(extent[inner]) : extent[inner];
  wide = engine_run(slots, slot, inner, wide);
  bool swizzled = reader == READ_SWIZZLED || reader == READ_ROWS || reader == READ_OPERAND ||
                  reader == READ_PAIRED || reader == READ_TURNED;
  unsigned swizzle = swizzled ? swizzle_widest(swizzles, (unsigned)number_bytes_of(element, wide)) : 0;
  unsigned pad = reader == READ_COLUMNS ? number_elements(element, 16) : reader == READ_FRAGMENTS ? 8 : 0;
  const Layout *paired = reader == READ_PAIRED
                             ? layout_shared_paired(slots->module->arena, extent, inner, element, swizzle)
                             : NULL;
  slot->declared->layout =
      paired ? paired : layout_shared(slots->module->arena, 2, extent, inner, element, swizzle, pad);
}

/* Is the value computed, element by element, from what lies in the slot? A value is looked at once, however often it is read. */
static bool comes_from(const IrFunction *kernel, const IrExpr *operand, const IrOp *slot, GHashTable *seen)
{
  const IrOp *def = operand->kind == EXPR_VALUE ? operand->value->def : NULL;
  if (!def || !g_hash_table_add(seen, operand->value)) return false;
  if (def->code == OP_GET) return ir_slot_of(kernel, def->operands[0], NULL) == slot;
  bool from = false;
  for (unsigned i = 0; ir_op_is_elementwise(def->code) && i < def->n_operands && !from; i++)
    from = ir_slot_of(kernel, def->operands[i], NULL) == slot ||
           comes_from(kernel, def->operands[i], slot, seen);
  return from;
}

bool slot_makes(const IrFunction *kernel, const IrExpr *operand, const IrOp *slot)
{
  g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL);
  return comes_from(kernel, operand, slot, seen);
}

/* Is the value computed, element by element, from a product's sum? */
static bool comes_from_sum(const Slots *slots, const IrExpr *operand, GHashTable *seen)
{
  if (operand->kind != EXPR_VALUE || !g_hash_table_add(seen, operand->value)) return false;
  for (unsigned i = 0; i < slots->ops->len; i++) {
    const IrOp *op = slots->ops->pdata[i];
    if (op->code == OP_MMA && op->operands[0]->value == operand->value) return true;
  }
  const IrOp *def = operand->value->def;
  bool from = false;
  bool same = def && (ir_op_is_elementwise(def->code) || def->code == OP_VAR);
  for (unsigned i = 0; same && i < def->n_operands && !from; i++)
    from = comes_from_sum(slots, def->operands[i], seen);
  return from;
}

/* Do threads fill the slot, and is it only ever the right operand of warpgroup MMAs whose left one is such a value of 8 bits? */
static bool is_paired(const Slots *slots, const IrOp *slot, unsigned inner)
{
  bool paired = number_bits(slot->declared->element) == 8, multiplied = false;
  for (unsigned i = 0; i < slots->ops->len && paired; i++) {
    const IrOp *op = slots->ops->pdata[i];
    if (op->code == OP_FILL || op->code == OP_GET)
      paired = ir_slot_of(slots->kernel, op->operands[0], NULL) != slot;
    if (op->code != OP_MMA) continue;
    bool right = ir_slot_of(slots->kernel, op->operands[2], NULL) == slot;
    paired = ir_slot_of(slots->kernel, op->operands[1], NULL) != slot;
    if (!right || !paired) continue;
    const IrExpr *b = op->operands[2];
    unsigned k = b->kind == EXPR_TRANSPOSED ? 1 : 0;
    g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL);
    paired = ir_is_grouped_product(op) && k == inner && comes_from_sum(slots, op->operands[1], seen);
    multiplied = true;
  }
  return paired && multiplied;
}

/* Is a slot of 8 bits read but across its rows, to be put into another one? */
static bool is_turned(const Slots *slots, const IrOp *slot, unsigned inner)
{
  bool turned = number_bits(slot->declared->element) == 8, read = false;
  for (unsigned i = 0; i < slots->ops->len && turned; i++) {
    const IrOp *op = slots->ops->pdata[i];
    if (op->code == OP_MMA)
      turned = ir_slot_of(slots->kernel, op->operands[1], NULL) != slot &&
               ir_slot_of(slots->kernel, op->operands[2], NULL) != slot;
    if (op->code != OP_GET || ir_slot_of(slots->kernel, op->operands[0], NULL) != slot) continue;
    read = true;
    turned = inner == 1 && op->operands[0]->kind == EXPR_TRANSPOSED;
  }
  return turned && read;
}

/* How the product that takes the slot reads it; `inner`: the slot's contiguous dimension. */
static SlotReader reader_of(Slots *slots, const IrOp *slot, unsigned inner)
{
  bool multiplied = false, whole = ir_tile_extent(slot->declared, 1 - inner) > 1;
  if (is_paired(slots, slot, inner)) return READ_PAIRED;
  if (is_turned(slots, slot, inner)) return READ_TURNED;
  for (unsigned i = 0; i < slots->ops->len; i++) {
    const IrOp *op = slots->ops->pdata[i];
    if (op->code != OP_MMA) continue;
    if (inner == 1 && whole && slot_makes(slots->kernel, op->operands[1], slot)) return READ_OPERAND;
    multiplied |= ir_slot_of(slots->kernel, op->operands[1], NULL) == slot ||
                  ir_slot_of(slots->kernel, op->operands[2], NULL) == slot;
    const Mechanism *mechanism = ir_mechanism_of(op);
    if (mechanism->accumulator == ACCUMULATOR_THREAD) return READ_COLUMNS;
    bool group = ir_is_grouped_product(op) && !number_has_bytes(slot->declared->element, 2);
    bool turned = op->operands[1]->kind == EXPR_TRANSPOSED;
    if (group && inner == 0 && !turned && ir_slot_of(slots->kernel, op->operands[1], NULL) == slot)
      return READ_ROWS;
    bool warp = mechanism->accumulator == ACCUMULATOR_WARP && number_has_bytes(slot->declared->element, 4);
    for (unsigned k = 0; k < 2 && warp; k++) { /* k is dimension 1 of A, 0 of B */
      const IrExpr *operand = op->operands[2 - k];
      unsigned lies = operand->kind == EXPR_TRANSPOSED ? 1 - inner : inner;
      if (ir_slot_of(slots->kernel, operand, NULL) == slot && lies != k) return READ_FRAGMENTS;
    }
  }
  return multiplied ? READ_SWIZZLED : READ_VALUES;
}

/* Widths of swizzles that what fills the slot writes and what multiplies from it reads. */
static unsigned swizzles_of(Slots *slots, const IrOp *fill, const IrOp *slot)
{
  NumberType element = slot->declared->element;
  const Mechanism *writer = fill->code == OP_FILL ? ir_mechanism_of(fill) : NULL; /* threads write any */
  unsigned swizzles = mechanism_swizzles(writer, NULL, element);
  for (unsigned i = 0; i < slots->ops->len; i++) {
    const IrOp *op = slots->ops->pdata[i];
    bool reads = op->code == OP_MMA && (ir_slot_of(slots->kernel, op->operands[1], NULL) == slot ||
                                        ir_slot_of(slots->kernel, op->operands[2], NULL) == slot);
    if (reads) swizzles &= mechanism_swizzles(NULL, ir_mechanism_of(op), element);
  }
  return swizzles;
}

/* Of a slot that is filled with values, as the product that reads it likes it; what arithmetic alone reads lies in rows. */
static unsigned inner_dim_of_put(Slots *slots, const IrOp *slot)
{
  for (unsigned i = 0; i < slots->ops->len; i++) {
    const IrOp *op = slots->ops->pdata[i];
    for (unsigned k = 1; op->code == OP_MMA && k < 3; k++)
      if (ir_slot_of(slots->kernel, op->operands[k], NULL) == slot)
        return ir_computed_inner(slots->kernel, op, k, ir_mechanism_of(op));
  }
  return 1;
}

void place_slots(IrFunction *kernel, const GPtrArray *ops)
{
  Slots slots = {kernel->module, kernel, ops};
  for (unsigned i = 0; i < ops->len; i++) {
    IrOp *op = ops->pdata[i];
    if (op->code != OP_FILL && op->code != OP_PUT) continue;
    IrOp *slot = ir_slot_of(kernel, op->operands[0], NULL);
    if (!slot) continue;
    unsigned inner = op->code == OP_FILL ? (unsigned)inner_dim_of_fill(op) : inner_dim_of_put(&slots, slot);
    place_slot(&slots, slot, inner, reader_of(&slots, slot, inner), swizzles_of(&slots, op, slot));
  }
}

/* The slot into which the value is put as it is; NULL: there is none. */
static const IrOp *put_into(IrFunction *kernel, const GPtrArray *ops, const IrValue *value)
{
  for (unsigned i = 0; i < ops->len; i++) {
    const IrOp *op = ops->pdata[i];
    if (op->code == OP_PUT && op->operands[1]->kind == EXPR_VALUE && op->operands[1]->value == value)
      return ir_slot_of(kernel, op->operands[0], NULL);
  }
  return NULL;
}

/* Bytes that go from a slot to one that lies the other way round pass through registers by matrices. */
void place_turned(IrFunction *kernel, const GPtrArray *ops)
{
  unsigned warps = ir_launch_threads(kernel) / WARP_LANES;
  const Mechanism *loads = ir_mechanism_issued(kernel->module, MECHANISM_GET, ISSUE_WARP),
                  *stores = ir_mechanism_issued(kernel->module, MECHANISM_PUT, ISSUE_WARP);
  if (!loads || loads->missing || !loads->transposes || !stores || stores->missing) return;
  for (unsigned i = 0; i < ops->len; i++) {
    IrOp *op = ops->pdata[i];
    if (op->code != OP_GET || op->operands[0]->kind != EXPR_TRANSPOSED ||
        op->results[0]->type.kind != TYPE_TILE)
      continue;
    IrType *type = &op->results[0]->type;
    const IrOp *to = put_into(kernel, ops, op->results[0]);
    if (!to || !layout_is_shared_paired(to->declared->layout)) continue;
    const Layout *layout =
        layout_turned(kernel->module->arena, type->element, (unsigned)ir_tile_extent(type, 0),
                      (unsigned)ir_tile_extent(type, 1), warps);
    if (!layout) continue;
    type->layout = layout;
    ir_mechanism_set(op, loads);
  }
}

const Layout *place_left_operand(IrFunction *kernel, const IrOp *mma, unsigned warpgroups)
{
  Arena *arena = kernel->module->arena;
  const IrType *type = &mma->operands[1]->value->type;
  const IrOp *b = ir_slot_of(kernel, mma->operands[2], NULL);
  unsigned m = (unsigned)ir_tile_extent(type, 0), k = (unsigned)ir_tile_extent(type, 1);
  if (b && layout_is_shared_paired(b->declared->layout))
    return layout_group_a_paired(arena, type->element, m, k, warpgroups);
  return layout_group_a(arena, type->element, m, k, warpgroups);
}
