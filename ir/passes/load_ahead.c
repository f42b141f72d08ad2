/* load_ahead: what a loop loads from memory for rows or columns of its tiles comes an iteration ahead.
 *
 * needs  STAGED, roles with waits, loops split
 * gives  in loops of roles that take slots one after the other: a row or a column of a tile that is loaded from a tensor which nobody
 *        writes, at a place that the iteration's number tells, or a number that such a tensor has there, lies in a variable; so does, where the
 *        engine's copies start, a number that tells their places: the loop begins with what the iteration
 *        before has loaded and asks for what the next one needs, if there is one; in front of the loop stands the first load
 * breaks nothing; loops whose products take slots that the engine fills stay as they are: they wait for products meanwhile
 *
 * Tiles come through rings, whole iterations ahead; scales of their rows were asked for where they multiply, so that roles that widen
 * keys and values of 8 bits, and the one that multiplies what these put into a ring of their own, waited for memory in each
 * iteration. So did who starts copies for the page that keys lie in, while slots were free. */
#include "ir/facts.h"
#include "ir/mechanism.h"
#include "ir/pass.h"

typedef struct {
  IrModule *module;
  const CostModel *model;
  const IrFunction *kernel;
  IrOp *loop;
  IrRegion *body;
  const IrValue *index;
} Ahead;

typedef struct {
  const IrValue *tensor;
  bool written;
} Writes;

/* ---- Which loads ---- */

static const IrValue *tensor_of(const IrExpr *access)
{
  const IrExpr *base = access->kind == EXPR_INDEX ? access->items[0] : access;
  bool tensor = base->kind == EXPR_VALUE && base->value->type.kind == TYPE_TENSOR;
  return tensor ? base->value : NULL;
}

static void find_write(IrOp *op, void *data)
{
  Writes *writes = data;
  if (!(ir_op_effects(op->code) & EFFECT_WRITE)) return;
  for (unsigned i = 0; i < op->n_operands; i++)
    writes->written |= tensor_of(op->operands[i]) == writes->tensor;
}

static bool is_only_read(const IrFunction *kernel, const IrValue *tensor)
{
  Writes writes = {tensor, false};
  ir_region_visit(kernel->body, find_write, &writes);
  return !writes.written;
}

typedef struct {
  const Ahead *ahead;
  bool known;
} Place;

static void check_place(const IrExpr *expr, void *data);

/* A number that is computed, or loaded from what nobody writes, as a page of a table is. */
static bool is_number(const Ahead *ahead, const IrOp *op)
{
  if (op->code == OP_LET) return true;
  const IrValue *tensor = op->code == OP_LOAD ? tensor_of(op->operands[0]) : NULL;
  return tensor && op->results[0]->type.kind == TYPE_SCALAR && is_only_read(ahead->kernel, tensor);
}

/* Numbers that follow from the loop's index, and from what stands in front of it. */
static bool is_known(const Ahead *ahead, const IrOp *op)
{
  Place place = {ahead, true};
  for (unsigned i = 0; i < op->n_operands; i++)
    ir_expr_visit(op->operands[i], check_place, &place);
  for (unsigned i = 0; i < op->n_attributes; i++)
    if (op->attributes[i].value) ir_expr_visit(op->attributes[i].value, check_place, &place);
  return place.known;
}

static void check_place(const IrExpr *expr, void *data)
{
  Place *place = data;
  const IrValue *value = expr->kind == EXPR_VALUE ? expr->value : NULL;
  const IrOp *def = value ? value->def : NULL;
  if (!value || value->type.kind == TYPE_TENSOR || value == place->ahead->index) return;
  if (value->variable || value->type.kind != TYPE_SCALAR) place->known = false;
  if (def && def->parent == place->ahead->body)
    place->known &= is_number(place->ahead, def) && is_known(place->ahead, def);
}

/* Elements of 4 bits and powers of two are cast where they are loaded: no variable has them. */
static bool may_wait(const IrType *tile)
{
  return tile->kind == TYPE_TILE && tile->layout && !number_is_packed(tile->element) &&
         tile->element != NUMBER_E8M0;
}

/* A number that tells where copies begin: whoever starts these has nothing else to do while it comes. */
static bool tells_copies(const Ahead *ahead, const IrOp *op)
{
  return op->code == OP_LOAD && is_number(ahead, op) && is_known(ahead, op);
}

static bool comes_ahead(const Ahead *ahead, const IrOp *op)
{
  if (op->code != OP_LOAD || !may_wait(&op->results[0]->type)) return false;
  const IrType *tile = &op->results[0]->type;
  const IrValue *tensor = tensor_of(op->operands[0]);
  unsigned longer = 0;
  for (unsigned i = 0; i < tile->rank; i++)
    longer += ir_tile_extent(tile, i) != 1;
  unsigned registers = ir_tile_registers(tile, ir_attribute_int(op, ATTR_VECTOR, 1));
  return longer == 1 && tensor && registers <= ahead->model->ahead_registers && is_known(ahead, op) &&
         is_only_read(ahead->kernel, tensor);
}

typedef struct {
  bool takes;  /* slots */
  bool copied; /* products take such as the engine fills */
  bool brings; /* the engine's copies start here */
  bool leaves;
} Contents;

static void find_contents(IrOp *op, void *data)
{
  Contents *contents = data;
  IrOp *ring = NULL;
  contents->takes |= op->code == OP_AWAIT;
  contents->leaves |= op->code == OP_BREAK_IF;
  contents->brings |= op->code == OP_COPY && ir_is_engine_copy(op);
  if (op->code == OP_MMA)
    contents->copied |= !ir_slot_of(op->parent->function, ir_untransposed(op->operands[2]), &ring) ||
                        ir_attribute(ring, ATTR_FULL_BYTES);
}

/* ---- Ahead ---- */

/* The load in an iteration, with the numbers that it follows from. */
static IrExpr *load_at(const Ahead *ahead, IrBuilder *builder, const IrOp *load, IrExpr *index)
{
  g_autoptr(GHashTable) map = g_hash_table_new(NULL, NULL);
  g_hash_table_insert(map, (gpointer)ahead->index, index);
  for (const IrOp *op = ahead->body->first; op != load; op = op->next)
    if (is_number(ahead, op) && is_known(ahead, op)) ir_op_clone(builder, op, map);
  IrOp *copy = ir_op_clone(builder, load, map);
  return ir_value(ahead->module, copy->results[0]);
}

/* If there is an iteration of that number. */
static void load_if(const Ahead *ahead, IrBuilder *builder, const IrOp *load, IrExpr *index, IrExpr *variable)
{
  IrExpr *there = ir_binary(ahead->module, OPERATOR_LT, index, ahead->loop->operands[1]);
  IrBuilder inner = ir_builder_at_end(ir_region_add(ir_emit(builder, OP_IF, 1, there)));
  inner.mark = load->mark;
  ir_emit(&inner, OP_SET, 2, variable, load_at(ahead, &inner, load, index));
}

static IrExpr *declare(IrBuilder *builder, const char *name, IrType type)
{
  IrValue *value = ir_result(ir_emit(builder, OP_VAR, 0), name, type);
  value->variable = true;
  return ir_value(builder->module, value);
}

static void bring_ahead(const Ahead *ahead, IrOp *load)
{
  IrModule *module = ahead->module;
  IrType type = load->results[0]->type;
  IrExpr *step = ahead->loop->n_operands > 2 ? ahead->loop->operands[2] : ir_int(module, 1);
  IrBuilder before = ir_builder_before(ahead->loop), start = ir_builder_before(ahead->body->first);
  before.mark = start.mark = load->mark;
  IrExpr *next = declare(&before, "ahead", type);
  load_if(ahead, &before, load, ahead->loop->operands[0], next);
  IrExpr *here = declare(&start, load->results[0]->name, type);
  ir_emit(&start, OP_SET, 2, here, next);
  load_if(ahead, &start, load,
          ir_binary(module, OPERATOR_ADD, ir_value(module, (IrValue *)ahead->index), step), next);
  ir_replace_uses(ahead->body, load->results[0], here);
  ir_op_remove(load);
}

#define OF_A_NUMBER 4 /* registers: it, the next one, and where that lies */

/* Where a tile has many pages who starts copies has no registers for their numbers: they come as they did. */
static bool are_too_many(const Ahead *ahead)
{
  int64_t registers = 0;
  for (const IrOp *op = ahead->body->first; op; op = op->next)
    registers += tells_copies(ahead, op) ? OF_A_NUMBER : 0;
  return registers > ahead->model->ahead_registers;
}

static unsigned visit_loop(const Ahead *ahead)
{
  Contents contents = {0};
  unsigned n = 0;
  ir_region_visit(ahead->body, find_contents, &contents);
  if (!contents.takes || contents.copied || contents.leaves) return 0;
  if (contents.brings && are_too_many(ahead)) return 0;
  for (IrOp *op = ahead->body->first, *next; op; op = next) {
    next = op->next;
    if (!(contents.brings ? tells_copies(ahead, op) : comes_ahead(ahead, op))) continue;
    bring_ahead(ahead, op);
    n++;
  }
  return n;
}

static unsigned visit_region(const IrFunction *kernel, const IrPassContext *context, IrRegion *region)
{
  unsigned n = 0;
  for (IrOp *op = region->first; op; op = op->next) {
    for (unsigned i = 0; i < op->n_regions; i++)
      n += visit_region(kernel, context, op->regions[i]);
    if (op->code != OP_FOR) continue;
    Ahead ahead = {kernel->module, context->gpu->model,         kernel, op,
                   op->regions[0], op->regions[0]->arguments[0]};
    n += visit_loop(&ahead);
  }
  return n;
}

bool pass_load_ahead(IrModule *module, const IrPassContext *context, GError **error)
{
  (void)error;
  IrFunction *kernel = ir_kernel(module);
  unsigned n = 0;
  for (IrOp *op = kernel ? kernel->body->first : NULL; op; op = op->next)
    if (op->code == OP_ROLE) n += visit_region(kernel, context, op->regions[0]);
  if (n) ir_remark(context, "loads: %u of rows or columns come an iteration ahead", n);
  return true;
}
