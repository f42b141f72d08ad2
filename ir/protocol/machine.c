/* Agents, schedules, deadlock, and what must hold when a block exits. */
#include "ir/protocol/protocol.h"

/* ---- Reports ---- */

char *agent_name(const Machine *m, const Agent *agent)
{
  GString *name = g_string_new(NULL);
  if (agent->home_role == G_MAXUINT) {
    g_string_append(name, "the block's threads");
  } else {
    const Role *role = &g_array_index(m->program->roles, Role, agent->home_role);
    g_string_append_printf(name, "@%s", role->op->symbol);
    if (role->instances > 1) g_string_append_printf(name, " instance %u", agent->home_instance);
  }
  if (m->blocks > 1) g_string_append_printf(name, " of block %u", agent->block);
  return g_string_free(name, FALSE);
}

void machine_fault(Machine *m, const Agent *agent, const Step *step, const char *code, const char *hint,
                   const char *format, ...)
{
  if (m->failed) return;
  m->failed = true;
  va_list arguments;
  va_start(arguments, format);
  g_autofree char *text = g_strdup_vprintf(format, arguments);
  va_end(arguments);
  error_add(m->error, ERROR_INPUT, SEVERITY_ERROR,
            step && step->op ? &step->op->mark : &m->program->kernel->mark, code, hint, "%s", text);
}

void fault_note(Machine *m, unsigned step, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  g_autofree char *text = g_strdup_vprintf(format, arguments);
  va_end(arguments);
  const IrOp *op = program_step(m->program, step)->op;
  error_add(m->error, ERROR_INPUT, SEVERITY_NOTE, op ? &op->mark : NULL, "protocol-note", NULL, "%s", text);
}

/* ---- Setting up ---- */

static void agent_new(Machine *m, unsigned block, unsigned first, unsigned threads, unsigned role,
                      unsigned role_low, unsigned role_threads, unsigned instance)
{
  if (!threads) return;
  Agent *agent = &m->agents[m->n_agents];
  agent->index = m->n_agents++; /* the rest is zero */
  agent->block = block;
  agent->warp_low = first / 32;
  agent->lane_low = first % 32;
  agent->threads = threads;
  agent->role = -1;
  agent->role_threads = m->program->threads;
  agent->home_role = role;
  agent->home_low = role_low;
  agent->home_threads = role_threads;
  agent->home_instance = instance;
  mask_fill(&agent->masks[0], m->program->threads);
}

/* The first warp and the others; of a single warp the first lane and the others. */
static void split_agents(Machine *m, unsigned block, unsigned low, unsigned warps, unsigned role,
                         unsigned instance)
{
  unsigned first = warps > 1 ? 32 : 1, threads = warps * 32;
  agent_new(m, block, low * 32, first, role, low * 32, threads, instance);
  agent_new(m, block, low * 32 + first, threads - first, role, low * 32, threads, instance);
}

static void make_block(Machine *m, unsigned block)
{
  const Program *program = m->program;
  for (unsigned warp = 0, warps = program->threads / 32; warp < warps;) {
    unsigned next = warps, chosen = G_MAXUINT;
    for (unsigned i = 0; i < program->roles->len; i++) {
      const Role *role = &g_array_index(program->roles, Role, i);
      if (role->low == warp)
        chosen = MIN(chosen, i);
      else if (role->low > warp)
        next = MIN(next, role->low);
    }
    if (chosen == G_MAXUINT) { /* warps without a role */
      split_agents(m, block, warp, next - warp, G_MAXUINT, 0);
      warp = next;
      continue;
    }
    const Role *role = &g_array_index(program->roles, Role, chosen);
    unsigned each = (role->high - role->low) / role->instances;
    for (unsigned i = 0; i < role->instances; i++)
      split_agents(m, block, role->low + i * each, each, chosen, i);
    warp = role->high;
  }
}

static void make_agents(Machine *m)
{
  const Program *program = m->program;
  unsigned most = 2;
  for (unsigned i = 0; i < program->roles->len; i++)
    most += 2 * g_array_index(program->roles, Role, i).instances + 2;
  m->agents = arena_new_array(m->arena, Agent, most * m->blocks);
  for (unsigned block = 0; block < m->blocks; block++)
    make_block(m, block);
  m->width = m->n_agents + m->blocks * program->n_barriers;
  for (unsigned i = 0; i < m->n_agents; i++) {
    Agent *agent = &m->agents[i];
    agent->values = arena_new_array(m->arena, int64_t, 2 * program->n_values + 2);
    agent->known = arena_new_array(m->arena, bool, program->n_values + 1);
    agent->rounds = arena_new_array(m->arena, unsigned, program->steps->len);
    agent->clock = arena_new_array(m->arena, Tick, m->width);
    agent->fence_clock = arena_new_array(m->arena, Tick, m->width);
    agent->accumulates = arena_new_array(m->arena, unsigned, program->n_values + 1);
    agent->operand = arena_new_array(m->arena, unsigned, program->n_values + 1);
    agent->touched = arena_new_array(m->arena, unsigned, program->n_values + 1);
    agent->touched_at = arena_new_array(m->arena, Tick, program->n_values + 1);
    agent->pending = g_array_new(FALSE, TRUE, sizeof(Pending));
    agent->clock[i] = 1;
  }
}

static void make_barriers(Machine *m)
{
  const Program *program = m->program;
  m->barriers = arena_new_array(m->arena, Barrier, m->blocks * program->n_barriers + 1);
  for (unsigned block = 0; block < m->blocks; block++)
    for (unsigned f = 0; f < program->families->len; f++) {
      const Family *family = program->families->pdata[f];
      for (unsigned i = 0; i < family->count; i++) {
        unsigned at = block * program->n_barriers + family->first + i;
        m->barriers[at] = (Barrier){.family = family,
                                    .block = block,
                                    .index = i,
                                    .component = m->n_agents + at,
                                    .pending = family->arrivals,
                                    .expect_step = -1};
        m->barriers[at].gathering = arena_new_array(m->arena, Tick, m->width);
        m->barriers[at].last = arena_new_array(m->arena, Tick, m->width);
      }
    }
  m->n_named = PROTOCOL_NAMED + 1 + program->threads / 32;
  for (unsigned i = 0; i < program->turns->len; i++)
    m->n_named += ((const Turn *)program->turns->pdata[i])->instances;
  m->named = arena_new_array(m->arena, Named, m->blocks * m->n_named);
  for (unsigned i = 0; i < m->blocks * m->n_named; i++)
    m->named[i] = (Named){.step = -1,
                          .turn = -1,
                          .gathering = arena_new_array(m->arena, Tick, m->width),
                          .last = arena_new_array(m->arena, Tick, m->width)};
  m->cluster_gathering = arena_new_array(m->arena, Tick, m->width);
  m->cluster_last = arena_new_array(m->arena, Tick, m->width);
}

/* Turns own the named barriers they list. */
static bool claim_turns(Machine *m)
{
  for (unsigned i = 0; i < m->program->turns->len; i++) {
    const Turn *turn = m->program->turns->pdata[i];
    for (unsigned k = 0; k < turn->n_ids; k++) {
      int64_t id = turn->ids[k]->kind == SCALAR_INT ? turn->ids[k]->number : 0;
      for (unsigned block = 0; block < m->blocks && id > 0 && id < PROTOCOL_NAMED; block++) {
        Named *named = &m->named[block * m->n_named + id];
        if (named->turn >= 0) {
          m->failed = true;
          error_add(m->error, ERROR_INPUT, SEVERITY_ERROR, &turn->op->mark, "barrier-id", NULL,
                    "turn @%s uses named barrier %d twice", turn->op->symbol, (int)id);
          return false;
        }
        named->turn = (int)i;
      }
    }
  }
  return true;
}

static void make_places(Machine *m)
{
  m->places = arena_new_array(m->arena, Place, m->blocks * m->program->n_places + 1);
  for (unsigned i = 0; i < m->blocks * m->program->n_places; i++)
    m->places[i].records = g_array_new(FALSE, TRUE, sizeof(Record));
}

static void machine_clear(Machine *m)
{
  for (unsigned i = 0; i < m->n_agents; i++)
    g_array_unref(m->agents[i].pending);
  for (unsigned i = 0; i < m->blocks * m->program->n_places; i++)
    g_array_unref(m->places[i].records);
  g_array_unref(m->flights);
  arena_free(m->arena);
}

/* ---- Deadlock ---- */

static char *waits_at(Machine *m, const Agent *agent)
{
  if (agent->waits == WAIT_BARRIER) {
    const Barrier *barrier = &m->barriers[agent->wait_object];
    GString *text = g_string_new(NULL);
    g_string_append_printf(text, "%s[%u], phase %u:", barrier->family->name, barrier->index, barrier->phase);
    if (barrier->pending)
      g_string_append_printf(text, " %d of %u arrivals are missing", (int)barrier->pending,
                             barrier->family->arrivals);
    if (barrier->bytes)
      g_string_append_printf(text, "%s %" G_GINT64_FORMAT " bytes are missing", barrier->pending ? "," : "",
                             barrier->bytes);
    return g_string_free(text, FALSE);
  }
  if (agent->waits == WAIT_CLUSTER) return g_strdup("the cluster's barrier");
  if (agent->waits == WAIT_PRODUCT)
    return g_strdup("a product that the other warps of its warpgroup have not started");
  const Named *named = &m->named[agent->wait_object];
  unsigned id = agent->wait_object % m->n_named;
  if (id < PROTOCOL_NAMED)
    return g_strdup_printf("named barrier %u: %u of %u threads are there", id, named->arrived, named->needed);
  return g_strdup_printf("%s: %u of %u threads are there",
                         ir_op_info(program_step(m->program, agent->step)->op->code)->name, named->arrived,
                         named->needed);
}

/* Who shows best what is wrong: bytes that nobody sends, then arrivals that are half complete. */
static unsigned severity(const Machine *m, const Agent *agent)
{
  if (agent->done) return 0;
  if (agent->waits == WAIT_NAMED) return m->named[agent->wait_object].arrived ? 2 : 1;
  if (agent->waits != WAIT_BARRIER) return 1;
  const Barrier *barrier = &m->barriers[agent->wait_object];
  if (!barrier->pending && barrier->bytes) return 4;
  return barrier->pending < barrier->family->arrivals ? 3 : 1;
}

/* Does somebody wait for a slot to be free? */
static bool lacks_slots(const Machine *m)
{
  bool lacks = false;
  for (unsigned i = 0; i < m->n_agents; i++) {
    const Agent *agent = &m->agents[i];
    if (agent->done || agent->waits != WAIT_BARRIER) continue;
    const Family *family = m->barriers[agent->wait_object].family;
    lacks |= family->op->code == OP_CHANNEL && g_str_has_suffix(family->name, ".empty");
  }
  return lacks;
}

static void report_deadlock(Machine *m)
{
  const Agent *worst = NULL;
  for (unsigned i = 0; i < m->n_agents; i++)
    if (severity(m, &m->agents[i]) > (worst ? severity(m, worst) : 0)) worst = &m->agents[i];
  if (!worst) return;
  const Step *step = program_step(m->program, worst->step);
  g_autofree char *name = agent_name(m, worst), *at = waits_at(m, worst);
  bool bytes = severity(m, worst) == 4;
  machine_fault(m, worst, step, bytes ? "byte-count" : "deadlock",
                bytes            ? "`expect` announces more than the copies bring"
                : lacks_slots(m) ? "a channel needs as many `slots` as are filled before one of them is taken"
                                 : NULL,
                "deadlock: %s waits in iteration %u at %s", name, worst->rounds[step->index], at);
  unsigned said = worst->step;
  for (unsigned i = 0; i < m->n_agents; i++) {
    const Agent *agent = &m->agents[i];
    if (agent->done || agent == worst || agent->step == said) continue;
    g_autofree char *other = agent_name(m, agent), *there = waits_at(m, agent);
    fault_note(m, agent->step, "%s waits in iteration %u at %s", other, agent->rounds[agent->step], there);
    said = agent->step;
  }
}

/* ---- Exit ---- */

/* What the op that is in flight is called and waited for by; NULL: nothing that outlives its issue. */
static const char *flight_name(How how, const char **hint)
{
  switch (how) {
  case HOW_PRODUCT: *hint = "wait_group products before the end"; return "product";
  case HOW_STORE: *hint = "wait_group stores before the end"; return "store";
  case HOW_ASYNC: *hint = "wait_group copies before the end"; return "copy";
  default: return NULL;
  }
}

static bool check_agent_exit(Machine *m, const Agent *agent)
{
  for (unsigned i = 0; i < agent->pending->len; i++) {
    const Pending *pending = &g_array_index(agent->pending, Pending, i);
    const GArray *records = m->places[pending->place].records;
    for (unsigned j = 0; j < records->len; j++) {
      const Record *record = &g_array_index(records, Record, j);
      const char *hint = NULL, *what = flight_name(record->how, &hint);
      if (record->agent != agent->index || !record->pending || !what) continue;
      g_autofree char *name = agent_name(m, agent);
      machine_fault(m, agent, program_step(m->program, record->step), "missing-drain", hint,
                    "%s ends while the %s of iteration %u still %s shared memory", name, what, record->round,
                    record->how == HOW_ASYNC ? "writes" : "reads");
      return false;
    }
  }
  return true;
}

/* Shared memory lives until the block's last thread has gone: what peers do to it must be known to have
 * happened. */
static bool check_exits(Machine *m)
{
  Tick *clock = arena_new_array(m->arena, Tick, m->width);
  for (unsigned block = 0; block < m->blocks; block++) {
    memset(clock, 0, m->width * sizeof(Tick));
    for (unsigned i = 0; i < m->n_agents; i++)
      if (m->agents[i].block == block) clock_join(clock, m->agents[i].clock, m->width);
    for (unsigned i = 0; i < m->n_agents; i++) {
      const Remote *remote = &m->remotes[i * m->blocks + block];
      if (!remote->tick || clock[i] >= remote->tick) continue;
      g_autofree char *name = agent_name(m, &m->agents[i]);
      const Step *step = program_step(m->program, remote->step);
      machine_fault(
          m, &m->agents[i], step, "exit",
          "the block must wait for its peers before it exits: await its own barriers, or a cluster barrier",
          "block %u may have exited before %s, iteration %u, %s its shared memory", block, name,
          remote->round, step->op->code == OP_GET ? "reads" : "reaches");
      return false;
    }
    for (unsigned i = 0; i < m->program->n_barriers; i++) {
      const Barrier *barrier = &m->barriers[block * m->program->n_barriers + i];
      if (clock[barrier->component] >= barrier->last_bytes) continue;
      machine_fault(m, NULL,
                    barrier->expect_step >= 0 ? program_step(m->program, (unsigned)barrier->expect_step)
                                              : NULL,
                    "missing-drain", "every copy must be awaited before the block exits",
                    "block %u exits without having waited for the bytes of phase %u of %s[%u]", block,
                    barrier->last_bytes - 1, barrier->family->name, barrier->index);
      return false;
    }
  }
  return true;
}

static void agent_exit(Machine *m, const Agent *agent)
{
  if (check_agent_exit(m, agent)) cluster_complete(m);
}

/* ---- Running ---- */

/* It would find what it found when it began to wait. */
static bool still_waits(const Machine *m, const Agent *agent)
{
  return agent->waits == WAIT_BARRIER && !agent->woken &&
         !barrier_passed(&m->barriers[agent->wait_object], agent->wait_parity);
}

/* Runs an agent until it must wait; false if it could do nothing. */
static bool run_agent(Machine *m, Agent *agent, unsigned quantum)
{
  bool moved = false;
  if (still_waits(m, agent)) return false;
  while (!agent->done && !m->failed && !m->walked && quantum--) {
    if (!execute_step(m, agent)) break;
    moved = true;
    if (++m->steps > m->scenario->step_limit) break;
    if (agent->done) agent_exit(m, agent);
  }
  return moved;
}

static bool all_done(const Machine *m)
{
  for (unsigned i = 0; i < m->n_agents; i++)
    if (!m->agents[i].done) return false;
  return true;
}

static bool run_round(Machine *m)
{
  bool moved = false;
  Order order = m->scenario->order;
  for (unsigned i = 0; i < m->n_agents && !m->failed && !m->walked; i++) {
    unsigned next = order == ORDER_CONSUMER_FIRST ? m->n_agents - 1 - i : i;
    bool ran = run_agent(m, &m->agents[next], order == ORDER_ROUND_ROBIN ? 1 : G_MAXUINT);
    moved |= ran;
    if (m->steps > m->scenario->step_limit) break;
  }
  return moved;
}

/* Nobody can go on: copies land, one after the other, until that lets somebody pass a barrier. */
static void land_until_passed(Machine *m)
{
  bool passed = false;
  while (!passed && !m->failed && m->flights->len) {
    const Barrier *barrier = &m->barriers[g_array_index(m->flights, Flight, 0).barrier];
    Tick phase = barrier->phase;
    barrier_land(m, 0);
    passed = barrier->phase != phase;
  }
}

/* Runs one scenario. phases (per barrier of a block): how often it completed, all blocks together. */
bool machine_run(Program *program, const Scenario *scenario, unsigned *phases, Ending *ending, GError **error)
{
  Machine m = {.program = program,
               .scenario = scenario,
               .blocks = program->blocks,
               .error = error,
               .advances = phases};
  m.arena = arena_new();
  program->runs++;
  m.flights = g_array_new(FALSE, TRUE, sizeof(Flight));
  make_agents(&m);
  make_barriers(&m);
  make_places(&m);
  m.remotes = arena_new_array(m.arena, Remote, m.n_agents * m.blocks);
  memset(phases, 0, (program->n_barriers + 1) * sizeof *phases);
  claim_turns(&m);
  while (!m.failed && !m.walked && !all_done(&m) && m.steps <= scenario->step_limit) {
    if (run_round(&m)) continue;
    if (m.flights->len)
      land_until_passed(&m);
    else
      report_deadlock(&m);
  }
  bool ended = !m.failed && !m.walked && m.steps <= scenario->step_limit;
  *ending = (Ending){ended, m.walked};
  while (!m.failed && ended && m.flights->len)
    barrier_land(&m, 0);
  if (ended && !m.failed) check_exits(&m);
  bool good = !m.failed;
  machine_clear(&m);
  return good;
}
