/* budget_registers: how many registers a thread of each role may have.
 *
 * needs  STAGED with roles
 * gives  `entry_registers` of the launch and, where registers can move between warpgroups, `registers` on
 *        each role
 * breaks nothing; refuses accumulators that cannot fit, and tiles that could not be written out
 *
 * All threads enter with the same count: what an SM has, shared by the block's threads. A producer that only
 * issues copies needs few, and fewer where a role asks for more than it then gets; what it gives back goes to the consumers,
 * by what their tiles need where several roles compute. The hand-over works on whole warpgroups, in steps and between bounds that
 * the description states, and the sum must not exceed what the block entered with. */
#include "ir/facts.h"
#include "ir/mechanism.h"
#include "ir/pass.h"
#include "ir/passes/live_tiles.h"
#include "ir/resources.h"

typedef struct {
  IrOp *role;
  unsigned warps;
  unsigned tile_registers; /* 32-bit registers a thread's largest variable tile takes */
  unsigned live;           /* of the tiles that are alive at once */
  unsigned asked;          /* that a thread asks for: 0 if it makes do with what it gets */
  unsigned registers;      /* that a thread gets */
  bool multiplies;         /* and so keeps a sum from step to step */
} RoleBudget;

static unsigned tile_registers(const IrType *type)
{
  if (type->kind != TYPE_TILE || !type->layout) return 0;
  return layout_registers(type->layout) * MAX(1, number_bits(type->element) / 32);
}

static void largest_variable(IrOp *op, void *data)
{
  unsigned *largest = data;
  for (unsigned i = 0; op->code == OP_VAR && i < op->n_results; i++)
    *largest = MAX(*largest, tile_registers(&op->results[i]->type));
}

static void find_product(IrOp *op, void *found)
{
  *(bool *)found |= op->code == OP_MMA;
}

/* A tile is written out element by element: many times what a thread may have only takes long, and is then refused. */
#define MOST_OF_A_TILE 16

typedef struct {
  const Gpu *gpu;
  const IrOp *op; /* whose result is too large; NULL: none */
} Largest;

static void find_too_large(IrOp *op, void *data)
{
  Largest *largest = data;
  for (unsigned i = 0; i < op->n_results && !largest->op; i++)
    if (tile_registers(&op->results[i]->type) > MOST_OF_A_TILE * largest->gpu->registers_per_thread)
      largest->op = op;
}

static bool check_tiles(const IrFunction *kernel, const Gpu *gpu, GError **error)
{
  Largest largest = {gpu, NULL};
  ir_region_visit(kernel->body, find_too_large, &largest);
  if (!largest.op) return true;
  const IrValue *value = largest.op->results[0];
  error_set(error, ERROR_UNSUPPORTED, &largest.op->mark, "registers", "a smaller tile, or more warps",
            "%%%s takes %u registers a thread, of the %u that it may have", value->name ? value->name : "?",
            tile_registers(&value->type), gpu->registers_per_thread);
  return false;
}

static unsigned round_up(unsigned registers, unsigned step)
{
  return (registers + step - 1) / step * step;
}

/* More than a producer and a consumer: does a role compute, and keep no sum from step to step? */
static bool fills_slots(const RoleBudget *roles, unsigned n)
{
  unsigned computing = 0;
  for (unsigned i = 0; i < n; i++)
    computing += roles[i].live > 0;
  return n > 2 && computing > 1;
}

static unsigned taken(const RoleBudget *roles, unsigned n)
{
  unsigned registers = 0;
  for (unsigned i = 0; i < n; i++)
    registers += roles[i].registers * roles[i].warps * WARP_LANES;
  return registers;
}

/* A step more for each role that fulfils the condition while there is something left; false: nobody got one. */
static bool share_step(RoleBudget *roles, unsigned n, bool sums, const Gpu *gpu, unsigned pool)
{
  unsigned step = handover_step(gpu);
  bool given = false;
  for (unsigned i = 0; i < n; i++) {
    if (!roles[i].live || (sums && !roles[i].multiplies)) continue;
    unsigned more = consumer_registers(gpu, roles[i].registers + step);
    if (more <= roles[i].registers || taken(roles, n) + step * roles[i].warps * WARP_LANES > pool) continue;
    roles[i].registers = more;
    given = true;
  }
  return given;
}

/* Several roles compute: each gets what its tiles need beside addresses and counters, the producer the least of the
 * hand-over where that is not there otherwise, and who multiplies nothing as much as half of its tiles need, which it can have part by part;
 * what is left goes to those that multiply, then to all. */
static void divide_among(IrModule *module, const IrPassContext *context, RoleBudget *roles, unsigned n,
                         unsigned entry, unsigned threads)
{
  const Gpu *gpu = context->gpu;
  unsigned pool = entry * threads, step = handover_step(gpu);
  for (unsigned i = 0; i < n; i++) {
    unsigned needed = round_up(roles[i].live + gpu->model->producer_registers, step);
    roles[i].registers = roles[i].live ? consumer_registers(gpu, needed) : producer_registers(gpu);
  }
  for (unsigned i = 0; i < n && taken(roles, n) > pool; i++)
    if (!roles[i].live) roles[i].registers = handover_least(gpu);
  for (unsigned i = 0; i < n && taken(roles, n) > pool; i++) {
    unsigned needed = round_up(roles[i].live / 2 + gpu->model->producer_registers, step);
    if (roles[i].live && !roles[i].multiplies) roles[i].registers = consumer_registers(gpu, needed);
  }
  while (taken(roles, n) > pool) { /* the assembler has to make do with less: first where most is */
    unsigned most = 0;
    for (unsigned i = 1; i < n; i++)
      if (roles[i].registers > roles[most].registers) most = i;
    roles[most].registers -= step;
  }
  while (share_step(roles, n, true, gpu, pool))
    ;
  while (share_step(roles, n, false, gpu, pool))
    ;
  for (unsigned i = 0; i < n; i++) {
    ir_attribute_set(roles[i].role, ATTR_REGISTERS, ir_int(module, roles[i].registers));
    ir_remark(context, "registers: %u a thread of role %s, whose tiles take %u (%u at entry)",
              roles[i].registers, roles[i].role->symbol, roles[i].live, entry);
  }
}

static void set_roles(IrModule *module, const IrPassContext *context, RoleBudget *roles, unsigned n,
                      unsigned entry, unsigned threads)
{
  const Gpu *gpu = context->gpu;
  unsigned pool = entry * threads, producers = 0, consumers = 0, asked = 0, kept = producer_registers(gpu);
  for (unsigned i = 0; i < n; i++) {
    *(roles[i].tile_registers ? &consumers : &producers) += roles[i].warps * WARP_LANES;
    if (roles[i].tile_registers) asked = MAX(asked, roles[i].asked);
  }
  if (!consumers || producers * kept >= pool) return;
  unsigned each = consumer_registers(gpu, (pool - producers * kept) / consumers);
  for (unsigned less = kept; asked > each && less >= handover_least(gpu) + handover_step(gpu);) {
    less -= handover_step(gpu);
    unsigned more = consumer_registers(gpu, (pool - producers * less) / consumers);
    if (more > each) kept = less;
    each = more;
  }
  for (unsigned i = 0; i < n; i++) {
    unsigned registers = roles[i].tile_registers ? each : kept;
    ir_attribute_set(roles[i].role, ATTR_REGISTERS, ir_int(module, registers));
    ir_remark(context, "registers: %u a thread of role %s (%u at entry)", registers, roles[i].role->symbol,
              entry);
  }
}

/* An SM that cannot take the blocks would run them one after another, and the assembler would not say so. */
static bool check_blocks(const IrFunction *kernel, const Gpu *gpu, int64_t blocks, int64_t threads,
                         GError **error)
{
  unsigned most = resident_blocks(gpu, (unsigned)threads);
  if (blocks <= 1 || blocks <= most) return true;
  error_set(
      error, ERROR_UNSUPPORTED, &kernel->mark, "blocks", "fewer blocks, or a smaller tile",
      "%d blocks of %d threads are to share an SM, but one of %s takes %u: it has %u warps and %u blocks",
      (int)blocks, (int)threads, gpu->name, most, gpu->warps_per_sm, gpu->blocks_per_sm);
  return false;
}

bool pass_budget_registers(IrModule *module, const IrPassContext *context, GError **error)
{
  IrFunction *kernel = ir_kernel(module);
  if (!kernel) return true;
  const Gpu *gpu = context->gpu;
  unsigned threads = ir_launch_threads(kernel);
  RoleBudget roles[8];
  unsigned n = 0;
  for (IrOp *op = kernel->body->first; op && n < G_N_ELEMENTS(roles); op = op->next) {
    if (op->code != OP_ROLE) continue;
    roles[n] = (RoleBudget){.role = op, .warps = ir_role_warps(op)};
    ir_region_visit(op->regions[0], largest_variable, &roles[n].tile_registers);
    ir_region_visit(op->regions[0], find_product, &roles[n].multiplies);
    roles[n].live = live_tile_registers(op->regions[0]);
    roles[n].asked = (unsigned)ir_attribute_int(op, ATTR_REGISTERS, 0);
    n++;
  }
  int64_t blocks = 1; /* of an SM at once */
  if (ir_launch_get(kernel, ATTR_MIN_BLOCKS)) ir_expr_is_int(ir_launch_get(kernel, ATTR_MIN_BLOCKS), &blocks);
  if (!check_blocks(kernel, gpu, blocks, threads, error) || !check_tiles(kernel, gpu, error)) return false;
  unsigned entry = entry_registers(gpu, threads, (unsigned)MAX(1, blocks));
  for (unsigned i = 0; i < n; i++)
    if (roles[i].tile_registers > gpu->registers_per_thread) {
      error_set(
          error, ERROR_UNSUPPORTED, &roles[i].role->mark, "registers", "a smaller tile, or more warps",
          "an accumulator of role '%s' takes %u registers a thread, %u more than the %u a thread may have",
          roles[i].role->symbol, roles[i].tile_registers, roles[i].tile_registers - gpu->registers_per_thread,
          gpu->registers_per_thread);
      return false;
    }
  if (n < 2 || !may_hand_over(gpu, entry)) return true;
  for (unsigned i = 0; i < n; i++)
    if (roles[i].warps % WARPGROUP_WARPS) return true;
  ir_launch_set(kernel, ATTR_ENTRY_REGISTERS, ir_int(module, entry));
  ir_launch_set(kernel, ATTR_MIN_BLOCKS, ir_int(module, blocks));
  if (fills_slots(roles, n))
    divide_among(module, context, roles, n, entry, threads);
  else
    set_roles(module, context, roles, n, entry, threads);
  return true;
}
