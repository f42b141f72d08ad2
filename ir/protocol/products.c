/* Products: what they read and write, of several blocks too, and when they are done. */
#include "ir/protocol/protocol.h"

bool product_untouched(Machine *m, Agent *agent, const Step *step)
{
  for (unsigned i = 0; i < step->n_reads; i++) {
    int id = step->reads[i];
    bool result = false;
    for (unsigned r = 0; r < step->op->n_results; r++)
      result |= (int)step->op->results[r]->id == id;
    bool writes = result || (step->op->code == OP_SET && step->op->operands[0]->kind == EXPR_VALUE &&
                             (int)step->op->operands[0]->value->id == id);
    unsigned group = agent->accumulates[id];
    if (writes) group = MAX(group, agent->operand[id]);
    if (group > agent->completed[1]) {
      g_autofree char *name = agent_name(m, agent);
      machine_fault(m, agent, step, "product-in-flight", "`wait_group products` must cover the product first",
                    "%s touches a register tile in iteration %u while a product still %s it", name,
                    agent->rounds[step->index],
                    agent->accumulates[id] > agent->completed[1] ? "writes" : "reads");
      return false;
    }
    agent->touched[id] = agent->operations;
    agent->touched_at[id] = agent->clock[agent->index];
  }
  return true;
}

static bool product_registers(Machine *m, Agent *agent, const Step *step)
{
  const IrOp *op = step->op;
  for (unsigned i = 0; i < 2; i++) {
    if (op->operands[i]->kind != EXPR_VALUE) continue;
    unsigned id = op->operands[i]->value->id;
    bool fenced = agent->product_fence && agent->touched[id] <= agent->product_fence;
    if (!fenced && ir_place_of(&op->operands[i]->value->type) != IN_ACCUMULATORS) {
      g_autofree char *name = agent_name(m, agent);
      machine_fault(
          m, agent, step, "missing-fence", "`fence products` between ordinary instructions and the product",
          "%s starts a product in iteration %u on registers that ordinary instructions touched since the "
          "last fence",
          name, agent->rounds[step->index]);
      return false;
    }
    unsigned *group = i ? agent->operand : agent->accumulates;
    group[id] = agent->committed[1] + 1;
  }
  return true;
}

/* The agent of another block that stands for the same threads. */
static Agent *counterpart(const Machine *m, const Agent *agent, unsigned block)
{
  unsigned each = m->n_agents / m->blocks;
  return &m->agents[block * each + agent->index % each];
}

/* A product that one block issues for all writes the sums of the others, too, who must have said that they are done with them. */
static bool product_leads(Machine *m, Agent *agent, const Step *step)
{
  unsigned id = step->op->operands[0]->value->id;
  g_autofree char *name = agent_name(m, agent);
  if (agent->block % step->led != PRODUCT_LEADER || agent->block + step->led > m->blocks) {
    machine_fault(m, agent, step, "peer", "put it under `if cluster_rank() == 0`",
                  "%s issues a product that the first of %u blocks issues for all", name, step->led);
    return false;
  }
  for (unsigned block = agent->block + 1; block < agent->block + step->led; block++) {
    Agent *peer = counterpart(m, agent, block);
    if (agent->clock[peer->index] < peer->touched_at[id]) {
      machine_fault(
          m, agent, step, "overwrite", "that block must say that it is done with it",
          "%s starts a product in iteration %u that adds to `%%%s` of block %u, which may still use it", name,
          agent->rounds[step->index], step->op->operands[0]->value->name, block);
      return false;
    }
    peer->accumulates[id] = peer->committed[1] + 1;
  }
  return true;
}

/* What a product reads of a tile: where several blocks have parts of it, or one issues it for all, that of all of them, at the
 * same place. */
static bool product_reads(Machine *m, Agent *agent, const Step *step, unsigned place, bool keeps)
{
  bool divided = step->span > 1 && place == step->spread;
  unsigned span = step->led ? step->led : divided ? step->span : 1;
  unsigned low = agent->block / span * span, high = low + span;
  for (unsigned block = low; block < high; block++) {
    if (block >= m->blocks) {
      machine_fault(m, agent, step, "peer", "`cluster` of the launch",
                    "a product of %u blocks reads from block %u, which is not in the cluster of %u", span,
                    block, m->blocks);
      return false;
    }
    Region region = region_of(m, agent, &step->places[place], block);
    if (!memory_access(m, agent, step, &region, ACCESS_READ, step->how, keeps)) return false;
    remote_note(m, agent, step, block);
  }
  return true;
}

bool product_start(Machine *m, Agent *agent, const Step *step)
{
  bool group = step->how == HOW_PRODUCT;
  if (group ? !product_registers(m, agent, step) : !product_untouched(m, agent, step)) return false;
  if (step->led && !product_leads(m, agent, step)) return false;
  bool keeps = !group || active_by(agent, BY_WARPGROUP) > 0;
  for (unsigned i = 0; i < step->n_places; i++)
    if (!product_reads(m, agent, step, i, keeps)) return false;
  return true;
}

void product_complete(Machine *m, Agent *agent, const Barrier *barrier)
{
  unsigned done = (unsigned)MIN((Tick)agent->committed[1], barrier->phase);
  if (agent->product_barrier != barrier || done <= agent->completed[1]) return;
  agent->completed[1] = done;
  memory_complete(m, agent, HOW_PRODUCT, done);
}

bool product_commit(Machine *m, Agent *agent, const Step *step, unsigned block)
{
  unsigned count = active_by(agent, step->by);
  Barrier *barrier = barrier_at(m, agent, &step->barrier, block, step);
  if (!barrier || !count) return barrier != NULL;
  Agent *waits = counterpart(m, agent, block);
  waits->product_barrier = barrier;
  if (waits != agent) waits->committed[step->family]++;
  if (step->flag) memory_promise(m, agent, block, barrier->component, barrier->phase + 1);
  return barrier_arrive(m, agent, step, barrier, count, 0);
}
