/* hoist_loads: numbers that an epilogue reads are loaded while the first products still wait for their tiles.
 *
 * needs  STAGED, roles and copies final
 * gives  loads of one element at a constant place (scales of 8-bit floats) at the start of their role, where
 *        they stood in a loop or behind one; loads of a row or a column of a tile (a bias), and of tiles that take a thread few
 *        registers (what a recurrent cell adds to its gates), in front of the loop of its products, or of these where they are written out, where
 *        registers are left
 * breaks nothing; a kernel that writes the tensor, or has one role only, stays as it is
 *
 * Behind the products such a load costs its whole latency, once a tile: the first time that of device memory,
 * as much as several k steps of a product of few rows. In front of them it costs registers: the assembler
 * waits for it where it is used. Where one role does everything, products take all registers. */
#include "ir/facts.h"
#include "ir/pass.h"
#include "ir/resources.h"

typedef struct {
  const Gpu *gpu;
  GPtrArray *loads, *vectors;
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

/* The tensor of which a row or a column of a tile is read, or a small tile, without conditions; NULL for other ops. */
static const IrValue *loaded_part(const IrOp *op, const Gpu *gpu)
{
  if (op->code != OP_LOAD || ir_attribute(op, ATTR_WHERE)) return NULL;
  const IrExpr *access = op->operands[0];
  const IrType *tile = &op->results[0]->type;
  unsigned longer = 0;
  if (access->kind != EXPR_INDEX || access->items[0]->kind != EXPR_VALUE || tile->kind != TYPE_TILE ||
      !tile->layout)
    return NULL;
  for (unsigned i = 0; i < tile->rank; i++)
    longer += ir_tile_extent(tile, i) != 1;
  bool small = ir_tile_registers(tile, ir_attribute_int(op, ATTR_VECTOR, 1)) <= gpu->model->hoist_tile;
  return longer == 1 || (longer > 1 && small) ? access->items[0]->value : NULL;
}

static void collect(IrOp *op, void *data)
{
  Kernel *kernel = data;
  if (op->code == OP_ROLE) kernel->roles++;
  if (loaded_scalar(op))
    g_ptr_array_add(kernel->loads, op);
  else if (loaded_part(op, kernel->gpu))
    g_ptr_array_add(kernel->vectors, op);
}

typedef struct {
  const Gpu *gpu;
  const IrValue *tensor;
  bool other; /* something else than such loads uses it */
} Use;

static void note_use(const IrExpr *expr, void *data)
{
  Use *use = data;
  use->other |= expr->kind == EXPR_VALUE && expr->value == use->tensor;
}

static void find_uses(IrOp *op, void *data)
{
  const Use *use = data;
  if (loaded_scalar(op) == use->tensor || loaded_part(op, use->gpu) == use->tensor) return;
  for (unsigned i = 0; i < op->n_operands; i++)
    ir_expr_visit(op->operands[i], note_use, data);
}

static bool only_read(const IrFunction *kernel, const Gpu *gpu, const IrValue *tensor)
{
  Use use = {.gpu = gpu, .tensor = tensor};
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

/* ---- Rows and columns of a tile ---- */

static bool has_product(const IrOp *loop)
{
  for (const IrOp *op = loop->regions[0]->first; op; op = op->next)
    if (op->code == OP_MMA) return true;
  return false;
}

/* The loop of the tile's products, which the op stands behind, the last of them if defer_stores has divided
 * it; NULL if there is none, or another loop. */
static IrOp *products_before(const IrOp *op)
{
  IrOp *found = NULL;
  for (IrOp *before = op->previous; before; before = before->previous) {
    if (before->code != OP_FOR) continue;
    if (!has_product(before)) return NULL;
    if (!found) found = before;
  }
  return found;
}

/* Products of known steps of k may be written out in place of a loop: the first of them that the op stands behind. */
static IrOp *first_product(const IrOp *op)
{
  IrOp *found = NULL;
  for (IrOp *before = op->previous; before; before = before->previous)
    if (before->code == OP_MMA) found = before;
  return found;
}

/* In front of what it waits for. */
static IrOp *wait_for(IrOp *product)
{
  IrOp *at = product;
  while (at->previous && (at->previous->code == OP_VAR || ir_op_effects(at->previous->code) & EFFECT_SYNC))
    at = at->previous;
  return at;
}

static bool stands_behind(const IrOp *op, const IrOp *loop)
{
  if (!op || op->parent != loop->parent) return false;
  while (op && op != loop)
    op = op->previous;
  return op == loop;
}

typedef struct {
  IrOp *loop;
  GPtrArray *moved; /* what has to stand in front of the loop, users behind what they use */
  bool possible;
} Move;

static void gather(IrOp *op, Move *move);

static void gather_value(const IrExpr *expr, void *data)
{
  Move *move = data;
  IrOp *def = expr->kind == EXPR_VALUE ? expr->value->def : NULL;
  if (!def) return;
  if (stands_behind(def, move->loop) && def->code == OP_LET)
    gather(def, move);
  else /* the loop may change what is a variable */
    move->possible &= !stands_behind(def, move->loop) && def->code != OP_VAR && def->code != OP_CURSOR;
}

/* Places are computed of what the tile's number tells; anything else stays where it is. */
static void gather(IrOp *op, Move *move)
{
  if (g_ptr_array_find(move->moved, op, NULL)) return;
  for (unsigned i = 0; i < op->n_operands; i++)
    ir_expr_visit(op->operands[i], gather_value, move);
  g_ptr_array_add(move->moved, op);
}

typedef struct {
  IrOp *loop; /* of the products */
  unsigned sum;
} Accumulators;

/* Results that are held from tile to tile (defer_stores) have left when the loop begins. */
static void add_accumulator(IrOp *op, void *data)
{
  Accumulators *all = data;
  if (op->code != OP_VAR || op->results[0]->type.kind != TYPE_TILE || !op->results[0]->type.layout) return;
  if (ir_op_uses(all->loop, op->results[0])) all->sum += ir_tile_registers(&op->results[0]->type, 1);
}

/* Registers of a thread of the role that neither accumulators nor addresses take: what other roles, which
 * hold no tiles, leave of the block's (budget_registers). */
static int64_t spare_registers(const IrFunction *kernel, const Gpu *gpu, const IrOp *role, IrOp *loop)
{
  int64_t threads = 0, blocks = 1, mine = (int64_t)gpu->warp_size * ir_role_warps(role);
  Accumulators accumulators = {.loop = loop};
  IrExpr *launch = ir_launch_get(kernel, ATTR_THREADS), *resident = ir_launch_get(kernel, ATTR_MIN_BLOCKS);
  if (!launch || !ir_expr_is_int(launch, &threads) || mine < 1 || threads < mine) return 0;
  if (resident) ir_expr_is_int(resident, &blocks);
  int64_t each = gpu->registers_per_sm / (threads * MAX(1, blocks));
  if (gpu_has(gpu, "register_reallocation"))
    each = (each * threads - producer_registers(gpu) * (threads - mine)) / mine;
  each = MIN(each, (int64_t)gpu->registers_per_thread);
  ir_region_visit(role->regions[0], add_accumulator, &accumulators);
  return each - (int64_t)accumulators.sum - gpu->model->hoist_registers;
}

static IrOp *role_of(const IrOp *op)
{
  for (IrRegion *region = op->parent; region && region->owner; region = region->owner->parent)
    if (region->owner->code == OP_ROLE) return region->owner;
  return NULL;
}

static bool hoist_vector(IrFunction *kernel, const Gpu *gpu, IrOp *load, int64_t *taken)
{
  IrOp *role = role_of(load), *loop = products_before(load), *first = loop ? NULL : first_product(load),
       *products = loop ? loop : first;
  if (first) loop = wait_for(first);
  if (!role || !loop || !only_read(kernel, gpu, loaded_part(load, gpu))) return false;
  g_autoptr(GPtrArray) moved = g_ptr_array_new();
  Move move = {.loop = loop, .moved = moved, .possible = true};
  gather(load, &move);
  int64_t registers = ir_tile_registers(&load->results[0]->type, ir_attribute_int(load, ATTR_VECTOR, 1));
  if (!move.possible || *taken + registers > spare_registers(kernel, gpu, role, products)) return false;
  *taken += registers;
  for (unsigned i = 0; i < moved->len; i++)
    ir_op_move(moved->pdata[i], loop->parent, loop);
  return true;
}

bool pass_hoist_loads(IrModule *module, const IrPassContext *context, GError **error)
{
  IrFunction *function = ir_kernel(module);
  g_autoptr(GPtrArray) loads = g_ptr_array_new(), vectors = g_ptr_array_new();
  Kernel kernel = {.gpu = context->gpu, .loads = loads, .vectors = vectors};
  unsigned hoisted = 0, rows = 0;
  int64_t taken = 0;
  if (!function) return true;
  ir_region_visit(function->body, collect, &kernel);
  if (kernel.roles < 2) return true;
  for (unsigned i = 0; i < vectors->len; i++)
    rows += hoist_vector(function, context->gpu, vectors->pdata[i], &taken);
  if (rows)
    ir_remark(context, "loads: %u of rows, columns or small tiles come before their tile's products", rows);
  for (unsigned i = loads->len <= context->gpu->model->hoist_loads ? loads->len : 0; i-- > 0;) {
    IrOp *load = loads->pdata[i], *role = role_behind_loop(load);
    if (!role || !only_read(function, context->gpu, loaded_scalar(load))) continue;
    ir_op_move(load, role->regions[0], role->regions[0]->first);
    hoisted++;
  }
  if (hoisted)
    ir_remark(context, "loads: %u %s before the first products", hoisted,
              hoisted > 1 ? "numbers come" : "number comes");
  return true;
}
