/* lead_loads: loads whose place is known are asked for before the meeting that they stand behind, not after it.
 *
 * needs  THREAD, loads right in front of what needs them (shorten_live_ranges)
 * gives  loads of global memory, with what computes their addresses, in front of the meeting that they follow: of a reduction's exchange
 *        between the warps of a block or the blocks of a cluster, or of the making of barriers at the kernel's beginning
 * breaks nothing: loads alone move, over what writes no global memory and waits for no other kernel, as long as no more registers are
 *        alive than the kernel may have
 *
 * Whoever waits for others' sums has registers left, since what was summed is done with; scale and bias of a norm, asked for there, are at
 * hand when the sum is. Behind the exchange they cost a whole latency of L2 (docs/performance-log.md). */
#include "ir/facts.h"
#include "ir/liveness.h"
#include "ir/pass.h"
#include "ir/resources.h"

/* Where something stood. */
typedef struct {
  IrOp *op, *next;
} Step;

typedef struct {
  IrOp *first;      /* of the meeting at hand; NULL: there is none yet */
  bool lanes;       /* it begins with an exchange of a warp's lanes */
  bool closed;      /* others than lanes have met: what follows may lead it */
  unsigned room;    /* registers for what leads exchanges */
  GHashTable *from; /* IrOp* from the first on */
  GArray *steps;    /* Step, in this order */
} Meeting;

static bool is_pure(const IrOp *op)
{
  return op->n_results && !op->n_regions && op->code != OP_VAR && !ir_op_effects(op->code);
}

static bool is_exchange(const IrOp *op)
{
  return op->code == OP_SHUFFLE && !ir_attribute_is(op, ATTR_MODE, "index");
}

/* Threads meet here, or make what they meet at, and nothing of global memory is written or waited for. */
static bool is_wall(const IrOp *op)
{
  switch (op->code) {
  case OP_SYNC:
  case OP_CLUSTER_ARRIVE:
  case OP_CLUSTER_WAIT:
  case OP_BARRIER_INIT:
  case OP_BARRIER_ARRIVE:
  case OP_BARRIER_EXPECT:
  case OP_BARRIER_WAIT:
  case OP_STORE_SHARED:
  case OP_STORE_PEER:
  case OP_FENCE: return true;
  case OP_IF:
    for (unsigned i = 0; i < op->n_regions; i++)
      for (const IrOp *inner = op->regions[i]->first; inner; inner = inner->next)
        if (!is_pure(inner) && !is_wall(inner)) return false;
    return true;
  default: return false;
  }
}

/* No meeting, but loads move over it too. */
static bool is_passed(const IrOp *op)
{
  return is_pure(op) || op->code == OP_LOAD_GLOBAL || op->code == OP_LOAD_SHARED || op->code == OP_ELECT ||
         op->code == OP_SHUFFLE || op->code == OP_DEPENDENT_LAUNCH;
}

static void meet(Meeting *meeting, IrOp *op)
{
  bool lanes = is_exchange(op);
  if (!lanes && !is_wall(op)) return;
  if (!meeting->first || (lanes && (meeting->closed || !meeting->lanes))) {
    g_hash_table_remove_all(meeting->from);
    meeting->first = op;
    meeting->lanes = lanes;
    meeting->closed = false;
  }
  meeting->closed |= !lanes;
}

typedef struct {
  const Meeting *meeting;
  GPtrArray *moved; /* IrOp*: operands before users */
  bool possible;
} Lead;

static void gather(IrOp *op, Lead *lead);

static void gather_value(const IrExpr *expr, void *data)
{
  Lead *lead = data;
  IrOp *def = expr->kind == EXPR_VALUE ? expr->value->def : NULL;
  if (!def || !g_hash_table_contains(lead->meeting->from, def)) return;
  if (is_pure(def))
    gather(def, lead);
  else
    lead->possible = false;
}

static void gather(IrOp *op, Lead *lead)
{
  if (g_ptr_array_find(lead->moved, op, NULL)) return;
  for (unsigned i = 0; i < op->n_operands; i++)
    ir_expr_visit(op->operands[i], gather_value, lead);
  for (unsigned i = 0; i < op->n_attributes; i++)
    if (op->attributes[i].value) ir_expr_visit(op->attributes[i].value, gather_value, lead);
  g_ptr_array_add(lead->moved, op);
}

static void lead_load(Meeting *meeting, IrOp *load)
{
  g_autoptr(GPtrArray) moved = g_ptr_array_new();
  if (meeting->lanes && meeting->room < load->n_results) return;
  Lead lead = {meeting, moved, true};
  gather(load, &lead);
  if (meeting->lanes && lead.possible) meeting->room -= load->n_results;
  for (unsigned i = 0; i < moved->len && lead.possible; i++) {
    IrOp *op = moved->pdata[i];
    Step step = {op, op->next};
    g_array_append_val(meeting->steps, step);
    g_hash_table_remove(meeting->from, op);
    ir_op_move(op, meeting->first->parent, meeting->first);
  }
}

/* As long as nothing has been written: what one thread wrote another may load behind a meeting only. */
static void lead_all(Meeting *meeting, IrRegion *region)
{
  for (IrOp *op = region->first, *next; op; op = next) {
    next = op->next;
    if (op->code == OP_DEPENDENT_WAIT) { /* loads stay behind it */
      meeting->first = NULL;
      continue;
    }
    if (!is_passed(op) && !is_wall(op)) return;
    meet(meeting, op);
    if (meeting->first) g_hash_table_add(meeting->from, op);
    if (op->code == OP_LOAD_GLOBAL && meeting->first && meeting->closed) lead_load(meeting, op);
  }
}

static unsigned alive(const IrFunction *kernel)
{
  unsigned parts;
  g_autofree IrPressure *pressure = ir_pressure(kernel, &parts);
  return ir_pressure_registers(pressure);
}

/* The last steps first, until no more are alive than there are registers, or than there were. */
static void take_back(const Meeting *meeting, const IrFunction *kernel, unsigned most)
{
  for (unsigned left = meeting->steps->len; left && alive(kernel) > most;)
    for (unsigned until = left / 2; left > until;) {
      const Step *step = &g_array_index(meeting->steps, Step, --left);
      ir_op_move(step->op, step->next ? step->next->parent : step->op->parent, step->next);
    }
}

bool pass_lead_loads(IrModule *module, const IrPassContext *context, GError **error)
{
  IrFunction *kernel = ir_kernel(module);
  if (!kernel) return true;
  int64_t threads = ir_launch_threads(kernel), blocks = 1;
  const IrExpr *least = ir_launch_get(kernel, ATTR_MIN_BLOCKS);
  if (threads < 1 || (least && !ir_expr_is_int(least, &blocks))) return true;
  g_autoptr(GHashTable) from = g_hash_table_new(NULL, NULL);
  g_autoptr(GArray) steps = g_array_new(false, false, sizeof(Step));
  const unsigned room = context->gpu->model->lead_registers;
  Meeting meeting = {.room = room, .from = from, .steps = steps};
  unsigned most = MAX(alive(kernel) + room / 2,
                      entry_registers(context->gpu, (unsigned)threads, (unsigned)MAX(1, blocks)));
  lead_all(&meeting, kernel->body);
  take_back(&meeting, kernel, most);
  return true;
}
