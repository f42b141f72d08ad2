/* hoist_loads: numbers that an epilogue reads are loaded while the first products still wait for their tiles.
 *
 * needs  STAGED, roles and copies final
 * gives  loads of one element at a constant place (scales of 8-bit floats) at the start of their role, where
 *        they stood in a loop or behind one
 * breaks nothing; a kernel that writes the tensor, or has one role only, stays as it is
 *
 * Behind the products such a load costs its whole latency, once a tile: the first time that of device memory,
 * as much as several k steps of a product of few rows. In front of them it costs a register. Where one role
 * does everything, products take all registers. */
#include "ir/facts.h"
#include "ir/pass.h"

#define MOST_LOADS 4 /* registers that a role can spare */

typedef struct {
  GPtrArray *loads;
  unsigned roles;
} Kernel;

/* The tensor that is read at a place known now, one element of it; NULL for other ops. */
static const IrValue *loaded_scalar(const IrOp *op)
{
  if (op->code != OP_LOAD || ir_attribute(op, ATTR_WHERE)) return NULL;
  const IrExpr *access = op->operands[0];
  const IrType *tile = &op->results[0]->type;
  if (access->kind != EXPR_INDEX || access->items[0]->kind != EXPR_VALUE || tile->kind != TYPE_TILE)
    return NULL;
  for (unsigned i = 1; i < access->n; i++)
    if (access->items[i]->kind != EXPR_INT) return NULL;
  for (unsigned i = 0; i < tile->rank; i++)
    if (ir_tile_extent(tile, i) != 1) return NULL;
  return access->items[0]->value;
}

static void collect(IrOp *op, void *data)
{
  Kernel *kernel = data;
  if (op->code == OP_ROLE) kernel->roles++;
  if (loaded_scalar(op)) g_ptr_array_add(kernel->loads, op);
}

typedef struct {
  const IrValue *tensor;
  bool other; /* something else than loads of one element uses it */
} Use;

static void note_use(const IrExpr *expr, void *data)
{
  Use *use = data;
  use->other |= expr->kind == EXPR_VALUE && expr->value == use->tensor;
}

static void find_uses(IrOp *op, void *data)
{
  if (loaded_scalar(op) == ((Use *)data)->tensor) return;
  for (unsigned i = 0; i < op->n_operands; i++)
    ir_expr_visit(op->operands[i], note_use, data);
}

static bool only_read(const IrFunction *kernel, const IrValue *tensor)
{
  Use use = {.tensor = tensor};
  ir_region_visit(kernel->body, find_uses, &use);
  return !use.other;
}

/* The role of an op that stands in a loop or behind one; NULL if it runs once and early already. */
static IrOp *role_behind_loop(const IrOp *op)
{
  bool late = false;
  for (IrRegion *region = op->parent; region; op = region->owner, region = op->parent) {
    for (const IrOp *before = op->previous; before; before = before->previous)
      late |= before->code == OP_FOR;
    IrOp *owner = region->owner;
    if (!owner) return NULL;
    if (owner->code == OP_ROLE) return late ? owner : NULL;
    late |= owner->code == OP_FOR;
  }
  return NULL;
}

bool pass_hoist_loads(IrModule *module, const IrPassContext *context, GError **error)
{
  IrFunction *function = ir_kernel(module);
  g_autoptr(GPtrArray) loads = g_ptr_array_new();
  Kernel kernel = {.loads = loads};
  unsigned hoisted = 0;
  if (!function) return true;
  ir_region_visit(function->body, collect, &kernel);
  if (kernel.roles < 2 || loads->len > MOST_LOADS) return true;
  for (unsigned i = loads->len; i-- > 0;) {
    IrOp *load = loads->pdata[i], *role = role_behind_loop(load);
    if (!role || !only_read(function, loaded_scalar(load))) continue;
    ir_op_move(load, role->regions[0], role->regions[0]->first);
    hoisted++;
  }
  if (hoisted)
    ir_remark(context, "loads: %u %s before the first products", hoisted,
              hoisted > 1 ? "numbers come" : "number comes");
  return true;
}
