/* Barriers: in memory (arrivals, bytes, phases), named ones of the block, the cluster's. Each hands on
 * clocks. */
#include "ir/protocol/protocol.h"

/* What an agent did so far becomes known to who sees `into`; what it does next does not. */
void agent_release(Machine *m, Agent *agent, Tick *into)
{
  clock_join(into, agent->clock, m->width);
  agent->clock[agent->index]++;
}

void remote_note(Machine *m, Agent *agent, const Step *step, unsigned block)
{
  if (block == agent->block) return;
  m->remotes[agent->index * m->blocks + block] =
      (Remote){agent->clock[agent->index], step->index, agent->rounds[step->index]};
}

/* ---- Mbarriers ---- */

Barrier *barrier_at(Machine *m, Agent *agent, const BarrierReference *reference, unsigned block,
                    const Step *step)
{
  const Family *family = reference->family;
  int64_t index = evaluate_uniform(m, agent, reference->index, 0);
  g_autofree char *name = NULL;
  if (index < 0 || index >= family->count || block >= m->blocks) {
    name = agent_name(m, agent);
    machine_fault(m, agent, step, "no-barrier", NULL,
                  "%s uses %s[%" G_GINT64_FORMAT "] of block %u, which does not exist", name, family->name,
                  index, block);
    return NULL;
  }
  Barrier *barrier = &m->barriers[block * m->program->n_barriers + family->first + (unsigned)index];
  if (barrier->initialised && agent->clock[barrier->init_agent] >= barrier->init_tick) return barrier;
  name = agent_name(m, agent);
  if (!family->declared)
    machine_fault(m, agent, step, "no-barrier", "give the channel an arrival count", "%s has no barriers",
                  family->name);
  else
    machine_fault(m, agent, step, "before-init",
                  block == agent->block ? "init_barriers, then a sync"
                                        : "init_barriers, then a barrier of the cluster",
                  "%s uses %s[%u] of block %u before its initialisation is known", name, family->name,
                  (unsigned)index, block);
  return NULL;
}

bool barrier_passed(const Barrier *barrier, unsigned parity)
{
  return (barrier->phase & 1) != (parity & 1);
}

/* Who waits is woken by the phase that it waits for, even if the next one completes before it runs again. */
static void wake(Machine *m, const Barrier *barrier)
{
  for (unsigned i = 0; i < m->n_agents; i++) {
    Agent *agent = &m->agents[i];
    if (agent->waits != WAIT_BARRIER || &m->barriers[agent->wait_object] != barrier) continue;
    if (agent->woken || !barrier_passed(barrier, agent->wait_parity)) continue;
    clock_join(agent->clock, barrier->last, m->width);
    agent->woken = true;
  }
}

static void complete_phase(Machine *m, Barrier *barrier)
{
  barrier->phase++;
  barrier->pending = barrier->family->arrivals;
  memcpy(barrier->last, barrier->gathering, m->width * sizeof(Tick));
  barrier->last[barrier->component] = barrier->phase;
  if (barrier->carries) barrier->last_bytes = barrier->phase;
  barrier->carries = false;
  memset(barrier->gathering, 0, m->width * sizeof(Tick));
  m->advances[barrier->family->first]++;
  wake(m, barrier);
}

/* Whoever counts towards a phase must know that the one before is over, else its count may go to that one. */
static bool phase_known(Machine *m, const Agent *agent, const Step *step, const Barrier *barrier,
                        const char *what)
{
  if (agent->clock[barrier->component] >= barrier->phase) return true;
  g_autofree char *name = agent_name(m, agent);
  const char *hint = barrier->family->bytes >= 0 || barrier->carries
                         ? "more arrivals or bytes than announced, or no wait in between"
                         : "more arrivals than the barrier counts, or no wait in between";
  machine_fault(m, agent, step, "arrival-count", hint,
                "%s %s %s[%u] of block %u in iteration %u though it cannot know that phase %u is over: "
                "the barrier counts %u arrivals a phase",
                name, what, barrier->family->name, barrier->index, barrier->block, agent->rounds[step->index],
                barrier->phase - 1, barrier->family->arrivals);
  if (barrier->expect_step >= 0 && barrier->expect_step != (int)step->index)
    fault_note(m, (unsigned)barrier->expect_step, "its bytes are announced here");
  return false;
}

static bool settle(Machine *m, const Agent *agent, const Step *step, Barrier *barrier)
{
  if (barrier->pending || barrier->bytes) return true;
  if (barrier->flying) {
    machine_fault(m, agent, step, "byte-count", "`expect` must announce what the copies bring",
                  "%s[%u] of block %u completes while %u of its copies are still on their way",
                  barrier->family->name, barrier->index, barrier->block, barrier->flying);
    if (barrier->expect_step >= 0 && (!step || barrier->expect_step != (int)step->index))
      fault_note(m, (unsigned)barrier->expect_step, "its bytes are announced here");
    return false;
  }
  complete_phase(m, barrier);
  return true;
}

bool barrier_arrive(Machine *m, Agent *agent, const Step *step, Barrier *barrier, unsigned count,
                    int64_t bytes)
{
  if (!count) return true;
  if (!phase_known(m, agent, step, barrier, "arrives at")) return false;
  if (count > barrier->pending) {
    g_autofree char *name = agent_name(m, agent);
    machine_fault(m, agent, step, "arrival-count", "who arrives, and does the declaration count them all?",
                  "%s arrives %u times at %s[%u] of block %u, which lacks only %d of %u arrivals", name,
                  count, barrier->family->name, barrier->index, barrier->block, (int)barrier->pending,
                  barrier->family->arrivals);
    return false;
  }
  barrier->bytes += bytes;
  barrier->pending -= count;
  if (bytes) {
    barrier->carries = true;
    barrier->expect_step = (int)step->index;
  }
  remote_note(m, agent, step, barrier->block);
  clock_join(barrier->gathering, agent->clock, m->width);
  return settle(m, agent, step, barrier);
}

bool barrier_flight(Machine *m, Agent *agent, const Step *step, Barrier *barrier, unsigned place,
                    int64_t bytes, unsigned copy)
{
  if (!phase_known(m, agent, step, barrier, "sends bytes to")) return false;
  Flight flight = {.barrier = (unsigned)(barrier - m->barriers),
                   .place = place,
                   .copy = copy,
                   .bytes = bytes,
                   .step = step->index};
  flight.clock = arena_memdup(m->arena, agent->clock, m->width * sizeof(Tick));
  barrier->flying++;
  g_array_append_val(m->flights, flight);
  return true;
}

/* One copy lands. */
bool barrier_land(Machine *m, unsigned index)
{
  Flight flight = g_array_index(m->flights, Flight, index);
  g_array_remove_index(m->flights, index);
  Barrier *barrier = &m->barriers[flight.barrier];
  barrier->flying--;
  barrier->carries = true;
  barrier->bytes -= flight.bytes;
  clock_join(barrier->gathering, flight.clock, m->width);
  memory_land(m, &flight, barrier->component, barrier->phase + 1);
  if (!barrier->pending && barrier->bytes < 0) {
    machine_fault(m, NULL, program_step(m->program, flight.step), "byte-count",
                  "`expect` must announce what the copies bring",
                  "copies bring %" G_GINT64_FORMAT " bytes more to %s[%u] of block %u than were announced",
                  -barrier->bytes, barrier->family->name, barrier->index, barrier->block);
    if (barrier->expect_step >= 0)
      fault_note(m, (unsigned)barrier->expect_step, "its bytes are announced here");
    return false;
  }
  return settle(m, NULL, program_step(m->program, flight.step), barrier);
}

/* ---- Named barriers ---- */

static bool knows(const Machine *m, const Agent *agent, const Tick *clock)
{
  for (unsigned i = 0; i < m->n_agents; i++)
    if (agent->clock[i] < clock[i]) return false;
  return true;
}

static bool named_fault(Machine *m, const Agent *agent, const Step *step, const Named *named,
                        const char *code, const char *hint, const char *what, unsigned id)
{
  g_autofree char *name = agent_name(m, agent);
  if (id < PROTOCOL_NAMED)
    machine_fault(m, agent, step, code, hint, "%s, iteration %u: %s on named barrier %u", name,
                  agent->rounds[step->index], what, id);
  else
    machine_fault(m, agent, step, code, hint, "%s, iteration %u: %s", name, agent->rounds[step->index], what);
  if (named->step >= 0 && named->step != (int)step->index)
    fault_note(m, (unsigned)named->step, "who else uses it");
  return false;
}

bool named_arrive(Machine *m, Agent *agent, const Step *step, unsigned id, unsigned threads, unsigned needed,
                  bool wait)
{
  Named *named = &m->named[agent->block * m->n_named + id];
  bool turn = step->op->code == OP_TURN_PASS || step->op->code == OP_TURN_WAIT;
  if (named->generation && !knows(m, agent, named->last)) {
    const char *what = !turn  ? "arrives while others may still be"
                       : wait ? "waits for a turn that is not its own"
                              : "passes a turn that it does not have";
    return named_fault(m, agent, step, named, turn ? "turn" : "barrier-id",
                       turn ? "wait for the own turn before it is passed on"
                            : "do two groups of threads share the id?",
                       what, id);
  }
  if (named->arrived && named->needed != needed)
    return named_fault(m, agent, step, named, "barrier-id", "do two groups of threads share the id?",
                       "counts other threads than who arrived before", id);
  named->needed = needed;
  named->arrived += threads;
  named->waiter |= wait;
  if (named->arrived == threads) named->step = (int)step->index;
  if (named->arrived > needed)
    return named_fault(m, agent, step, named, "arrival-count", "`threads` must count all who meet there",
                       "more threads arrive than are counted", id);
  agent_release(m, agent, named->gathering);
  if (named->arrived < needed) return true;
  if (!named->waiter)
    return named_fault(m, agent, step, named, turn ? "turn" : "arrival-count",
                       turn ? "wait for the turn before it is passed on" : NULL,
                       turn ? "passes a turn that nobody has taken" : "completes though nobody waits", id);
  memcpy(named->last, named->gathering, m->width * sizeof(Tick));
  memset(named->gathering, 0, m->width * sizeof(Tick));
  named->generation++;
  named->arrived = 0;
  named->waiter = false;
  return true;
}

/* ---- The cluster's barrier: all threads that have not exited ---- */

void cluster_complete(Machine *m)
{
  bool any = false;
  for (unsigned i = 0; i < m->n_agents; i++) {
    if (!m->agents[i].done && !m->agents[i].cluster_arrived) return;
    any |= !m->agents[i].done;
  }
  if (!any) return;
  memcpy(m->cluster_last, m->cluster_gathering, m->width * sizeof(Tick));
  memset(m->cluster_gathering, 0, m->width * sizeof(Tick));
  m->cluster_generation++;
  for (unsigned i = 0; i < m->n_agents; i++)
    m->agents[i].cluster_arrived = false;
}

bool cluster_arrive(Machine *m, Agent *agent, const Step *step, bool relaxed)
{
  if (agent->cluster_arrived || agent->cluster_generation != m->cluster_generation) {
    g_autofree char *name = agent_name(m, agent);
    machine_fault(m, agent, step, "arrival-count", "cluster_wait comes between",
                  "%s arrives twice at the cluster's barrier", name);
    return false;
  }
  agent->cluster_arrived = true;
  clock_join(m->cluster_gathering, relaxed ? agent->fence_clock : agent->clock, m->width);
  agent->clock[agent->index]++;
  cluster_complete(m);
  return true;
}
