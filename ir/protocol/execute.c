/* What one step does to the tokens. */
#include "ir/protocol/protocol.h"

static void set_value(Agent *agent, int id, int64_t value, bool known)
{
  agent->values[2 * id] = value;
  agent->known[id] = known;
}

/* ---- Control ---- */

static Frame *frame_push(Agent *agent, const Step *step)
{
  g_assert(agent->depth < PROTOCOL_MAX_DEPTH);
  Frame *frame = &agent->frames[agent->depth++]; /* `rest` is of those that set `both` */
  frame->kind = step->kind;
  frame->step = step->index;
  frame->depth = agent->mask;
  frame->both = false;
  return frame;
}

static void mask_push(Agent *agent, const Mask *mask)
{
  g_assert(agent->mask + 1 < PROTOCOL_MAX_DEPTH);
  agent->masks[++agent->mask] = *mask;
}

/* What the program cannot know (data) is true every other time. */
static bool condition_holds(Machine *m, Agent *agent, const Step *step)
{
  bool known = true;
  unsigned thread = agent->role_low + mask_first(agent_mask(agent));
  int64_t value = evaluate(m, agent, step->scalar[0], thread, &known);
  return known ? value != 0 : agent->rounds[step->index] % 2;
}

/* Where an inner loop's iterations count from: parts of one follow one another, and what begins at a number follows iterations that
 * stand alone. */
static int64_t walk_on(Agent *agent, const Step *step, int64_t low, int64_t high)
{
  bool follows = step->index > agent->walk.step && low == agent->walk.end;
  bool number = step->scalar[0]->kind == SCALAR_INT;
  agent->walk.begin = number ? 0 : follows ? agent->walk.begin : low;
  agent->walk.end = MAX(low, high);
  agent->walk.step = step->index;
  return agent->walk.begin;
}

static void execute_for(Machine *m, Agent *agent, const Step *step)
{
  int64_t low = evaluate_uniform(m, agent, step->scalar[0], 0), first;
  int64_t high = evaluate_uniform(m, agent, step->scalar[1], low + 2);
  int64_t by = evaluate_uniform(m, agent, step->scalar[2], 1);
  if (program_may_cut(m->program, step, &first)) high = MIN(high, first + m->scenario->turns * by);
  if (m->scenario->partials && program_is_inner_loop(step)) {
    int64_t begin = walk_on(agent, step, low, high);
    high = MIN(high, begin + m->scenario->turns * by);
  }
  if (low >= high || by < 1) {
    agent->step = step->target;
    return;
  }
  int64_t trips = (high - low + by - 1) / by;
  if (step->walk && m->scenario->tiles && trips > m->scenario->tiles) m->walked = trips;
  Frame *frame = frame_push(agent, step);
  frame->i = low;
  frame->high = high;
  frame->by = by;
  set_value(agent, step->value, low, true);
  agent->step++;
}

static void execute_again(Agent *agent)
{
  Frame *frame = &agent->frames[agent->depth - 1];
  agent->step = frame->step + 1;
  agent->mask = frame->depth;
  agent->age++;
  if (frame->kind == STEP_LOOP) return;
  frame->i += frame->by;
}

static void leave_loop(Machine *m, Agent *agent)
{
  while (agent->depth) {
    const Frame *frame = &agent->frames[--agent->depth];
    agent->mask = frame->depth;
    if (frame->kind == STEP_IF) continue;
    agent->step = program_step(m->program, frame->step)->target;
    return;
  }
}

static void execute_if(Machine *m, Agent *agent, const Step *step)
{
  const Scalar *condition = step->scalar[0];
  Frame *frame;
  if (!condition->varies) {
    bool yes = condition_holds(m, agent, step);
    frame = frame_push(agent, step);
    agent->step = yes ? step->index + 1 : step->target;
    return;
  }
  Mask taken, rest;
  mask_branch(m, agent, condition, &taken, &rest);
  frame = frame_push(agent, step);
  mask_push(agent, &taken);
  bool here = active_threads(agent) > 0;
  agent->mask--;
  mask_push(agent, &rest);
  bool there = active_threads(agent) > 0;
  agent->mask--;
  frame->both = here && there;
  if (frame->both) frame->rest = rest;
  mask_push(agent, here ? &taken : &rest);
  agent->step = here ? step->index + 1 : step->target;
}

/* End of a taken branch: the other threads' part, or past it. */
static void execute_else(Agent *agent, const Step *step)
{
  Frame *frame = &agent->frames[agent->depth - 1];
  if (!frame->both) {
    agent->step = step->target;
    return;
  }
  frame->both = false;
  agent->mask = frame->depth;
  mask_push(agent, &frame->rest);
  agent->step++;
}

static void enter_role(Machine *m, Agent *agent, const Step *step)
{
  const Role *role = &g_array_index(m->program->roles, Role, step->role);
  if (agent->warp_low < role->low || agent->warp_low >= role->high) {
    agent->step = step->target;
    return;
  }
  agent->role = step->role;
  agent->age++;
  agent->instance = agent->home_instance;
  agent->role_low = agent->home_low;
  agent->role_threads = agent->home_threads;
  Mask mask;
  mask_fill(&mask, agent->role_threads);
  mask_push(agent, &mask);
  agent->step++;
}

static void leave_role(Machine *m, Agent *agent)
{
  agent->role = -1;
  agent->instance = 0;
  agent->role_low = 0;
  agent->role_threads = m->program->threads;
  agent->mask = 0;
  agent->step++;
}

/* ---- One thread for many ---- */

static bool check_single(Machine *m, Agent *agent, const Step *step)
{
  unsigned count = step->by == BY_ROLE ? 1 : agent_mask(agent)->count;
  if (count == 1) return true;
  g_autofree char *name = agent_name(m, agent);
  machine_fault(m, agent, step, "one-thread", "put it under `if elected()`", "%u threads of %s %s; one must",
                count, name, ir_op_info(step->op->code)->name);
  return false;
}

/* ---- Copies ---- */

/* At the tensor's edge a copy brings the rows that exist. */
static int64_t copied_bytes(Machine *m, Agent *agent, const Step *step, const Region *region)
{
  int64_t bytes = region_bytes(region);
  if (step->scalar[3]) return bytes / step->bytes * evaluate_uniform(m, agent, step->scalar[3], step->bytes);
  if (!step->scalar[1] || !evaluate_uniform(m, agent, step->scalar[1], 0)) return bytes;
  return bytes / step->bytes * evaluate_uniform(m, agent, step->scalar[2], step->bytes);
}

static bool tensor_load(Machine *m, Agent *agent, const Step *step)
{
  uint64_t mask = (uint64_t)1 << agent->block;
  if (step->scalar[0]) mask = (uint64_t)evaluate_uniform(m, agent, step->scalar[0], (int64_t)mask);
  if (!mask || mask >> m->blocks) {
    machine_fault(m, agent, step, "multicast", NULL,
                  "multicast mask %" G_GUINT64_FORMAT " names blocks that the cluster of %u "
                  "does not have",
                  mask, m->blocks);
    return false;
  }
  for (unsigned block = 0; block < m->blocks; block++) {
    if (!(mask >> block & 1)) continue;
    Barrier *barrier = barrier_at(m, agent, &step->barrier, block, step);
    if (!barrier) return false;
    Region region = region_of(m, agent, &step->places[0], block);
    m->copies++;
    if (!memory_access(m, agent, step, &region, ACCESS_WRITE, HOW_TENSOR, true)) return false;
    remote_note(m, agent, step, block);
    if (!barrier_flight(m, agent, step, barrier, region.place, copied_bytes(m, agent, step, &region),
                        m->copies))
      return false;
  }
  while (!m->scenario->late && m->flights->len)
    if (!barrier_land(m, 0)) return false;
  return true;
}

static bool execute_copy(Machine *m, Agent *agent, const Step *step)
{
  if (!step->n_places) return true;
  if (step->how == HOW_TENSOR) {
    if (step->by == BY_ROLE && !agent_leads(agent)) return true;
    if (!check_single(m, agent, step)) return false;
    if (step->flag) return tensor_load(m, agent, step);
    Region region = region_of(m, agent, &step->places[0], agent->block);
    return memory_access(m, agent, step, &region, ACCESS_READ, HOW_STORE, true);
  }
  for (unsigned i = 0; i < step->n_places; i++) {
    Region region = region_of(m, agent, &step->places[i], agent->block);
    AccessKind kind = step->flag && !i ? ACCESS_WRITE : ACCESS_READ;
    if (!memory_access(m, agent, step, &region, kind, kind == ACCESS_WRITE ? step->how : HOW_THREADS, true))
      return false;
  }
  return true;
}

/* Bytes that the agent's threads hold of a tile of registers: each a share, but the first thread all of what all have. */
static int64_t held_bytes(const Agent *agent, const Step *step, int64_t all)
{
  const IrExpr *tile = step->op->operands[1];
  const Layout *layout = tile->kind == EXPR_VALUE ? tile->value->type.layout : NULL;
  bool same = layout != NULL;
  for (unsigned i = 0; layout && i < layout->n; i++)
    same &= layout->modes[i].place == PLACE_REGISTER || layout->modes[i].dim < 0;
  int64_t threads = MAX(1, agent->home_threads),
          first = (int64_t)agent->warp_low * 32 + agent->lane_low - agent->home_low;
  if (same) return first == 0 ? all : 0;
  return all * (first + agent->threads) / threads - all * first / threads;
}

/* Registers to a tile or back; perhaps in another block. */
static bool execute_transfer(Machine *m, Agent *agent, const Step *step)
{
  unsigned block = agent->block;
  if (step->scalar[0]) block = (unsigned)evaluate_uniform(m, agent, step->scalar[0], agent->block);
  if (block >= m->blocks) {
    machine_fault(m, agent, step, "peer", NULL, "block %u is not in the cluster of %u", block, m->blocks);
    return false;
  }
  if (!product_untouched(m, agent, step) || !step->n_places) return !m->failed;
  bool put = step->op->code == OP_PUT;
  Region region = region_of(m, agent, &step->places[0], block);
  bool counted = put && step->barrier.family;
  Barrier *barrier = counted ? barrier_at(m, agent, &step->barrier, block, step) : NULL;
  if (counted && !barrier) return false;
  int64_t bytes = counted ? held_bytes(agent, step, region_bytes(&region)) : 0;
  if (counted && !bytes) return true;
  if (counted) m->copies++;
  if (!memory_access(m, agent, step, &region, put ? ACCESS_WRITE : ACCESS_READ,
                     counted                        ? HOW_TENSOR
                     : put && block != agent->block ? HOW_PEER
                                                    : HOW_THREADS,
                     true))
    return false;
  remote_note(m, agent, step, block);
  if (counted && !barrier_flight(m, agent, step, barrier, region.place, bytes, m->copies)) return false;
  while (counted && !m->scenario->late && m->flights->len)
    if (!barrier_land(m, 0)) return false;
  Place *place = &m->places[region.place];
  if (put) {
    place->known = step->scalar[1] != NULL;
    if (step->scalar[1]) place->content = evaluate(m, agent, step->scalar[1], agent->role_low, &place->known);
  } else if (step->value >= 0) {
    set_value(agent, step->value, place->content, place->known);
  }
  return true;
}

/* ---- Groups ---- */

/* Four warps take a warpgroup MMA together: it is not over before all of them have started it. */
static bool warpgroup_issued(Machine *m, Agent *agent, unsigned group)
{
  for (unsigned i = 0; i < m->n_agents; i++) {
    const Agent *other = &m->agents[i];
    if (other == agent || other->block != agent->block || other->home_low != agent->home_low || other->done)
      continue;
    if (other->committed[1] >= group) continue;
    agent->waits = WAIT_PRODUCT;
    agent->wait_object = i;
    return false;
  }
  return true;
}

static bool execute_wait_group(Machine *m, Agent *agent, const Step *step)
{
  static const How hows[] = {HOW_ASYNC, HOW_PRODUCT, HOW_STORE};
  unsigned family = step->family, pending = (unsigned)MAX(0, step->bytes);
  unsigned done = agent->committed[family] > pending ? agent->committed[family] - pending : 0;
  if (done <= agent->completed[family]) return true;
  if (family == 1 && !warpgroup_issued(m, agent, done)) return false;
  agent->completed[family] = done;
  memory_complete(m, agent, hows[family], done);
  return true;
}

/* ---- Mbarriers ---- */

static bool execute_arrive(Machine *m, Agent *agent, const Step *step)
{
  unsigned count = active_by(agent, step->by);
  count *= (unsigned)evaluate_uniform(m, agent, step->scalar[0], 1);
  if (!count) return true;
  unsigned low = agent->block, high = agent->block + 1;
  if (step->flag) {
    low = 0;
    high = m->blocks;
  } else if (step->scalar[1]) {
    low = (unsigned)evaluate_uniform(m, agent, step->scalar[1], agent->block);
    high = low + 1;
  }
  for (unsigned block = low; block < high; block++) {
    unsigned across = step->flag ? step->across : 0;
    if (across && block / across != agent->block / across && block % across != agent->block % across)
      continue;
    Barrier *barrier = barrier_at(m, agent, &step->barrier, block, step);
    if (!barrier || !barrier_arrive(m, agent, step, barrier, count, 0)) return false;
  }
  agent->clock[agent->index]++;
  return true;
}

static bool execute_expect(Machine *m, Agent *agent, const Step *step)
{
  if (step->by == BY_ROLE && !agent_leads(agent)) return true;
  if (!check_single(m, agent, step)) return false;
  Barrier *barrier = barrier_at(m, agent, &step->barrier, agent->block, step);
  if (!barrier) return false;
  /* where sizes are not known copies are whole, too: see copied_bytes() */
  int64_t whole = barrier->family->clipped ? barrier->family->bytes : 0;
  int64_t bytes = evaluate_uniform(m, agent, step->scalar[0], whole);
  bool fewer = barrier->family->clipped && bytes >= 0 && bytes < barrier->family->bytes;
  if (barrier->family->bytes >= 0 && bytes != barrier->family->bytes && !fewer) {
    machine_fault(m, agent, step, "byte-count", NULL,
                  "%" G_GINT64_FORMAT " bytes are announced, the channel declares %" G_GINT64_FORMAT, bytes,
                  barrier->family->bytes);
    return false;
  }
  if (!barrier_arrive(m, agent, step, barrier, 1, bytes)) return false;
  agent->clock[agent->index]++;
  return true;
}

/* Closes a group. */
static bool execute_commit(Machine *m, Agent *agent, const Step *step)
{
  if (step->by != BY_ROLE || agent_leads(agent)) agent->committed[step->family]++;
  if (!step->barrier.family) return true;
  unsigned low = step->flag ? 0 : agent->block, high = step->flag ? m->blocks : low + 1;
  for (unsigned block = low; block < high; block++)
    if (!product_commit(m, agent, step, block)) return false;
  agent->clock[agent->index]++;
  return true;
}

static bool execute_await(Machine *m, Agent *agent, const Step *step)
{
  Barrier *barrier = barrier_at(m, agent, &step->barrier, agent->block, step);
  if (!barrier) return true;
  unsigned parity = (unsigned)evaluate_uniform(m, agent, step->scalar[0], 0) & 1;
  if (agent->woken) {
    agent->woken = false;
    product_complete(m, agent, barrier);
    return true;
  }
  if (!barrier_passed(barrier, parity)) {
    agent->waits = WAIT_BARRIER;
    agent->wait_object = (unsigned)(barrier - m->barriers);
    agent->wait_parity = parity;
    return false;
  }
  clock_join(agent->clock, barrier->last, m->width);
  product_complete(m, agent, barrier);
  return true;
}

static void init_barriers(Machine *m, Agent *agent)
{
  if (!agent_leads(agent)) return;
  unsigned n = m->program->n_barriers;
  for (unsigned i = 0; i < n; i++) {
    Barrier *barrier = &m->barriers[agent->block * n + i];
    if (!barrier->family->declared) continue;
    barrier->initialised = true;
    barrier->init_agent = agent->index;
    barrier->init_tick = agent->clock[agent->index];
  }
  memcpy(agent->fence_clock, agent->clock, m->width * sizeof(Tick));
}

/* ---- Barriers of threads ---- */

/* Starts a wait at a named barrier, or continues one; true when it is over. */
static bool meet(Machine *m, Agent *agent, const Step *step, unsigned id, unsigned threads, unsigned needed)
{
  Named *named = &m->named[agent->block * m->n_named + id];
  if (agent->waits != WAIT_NAMED) {
    unsigned generation = named->generation;
    if (!named_arrive(m, agent, step, id, threads, needed, true)) return true;
    agent->waits = WAIT_NAMED;
    agent->wait_object = agent->block * m->n_named + id;
    agent->wait_generation = generation;
  }
  if (named->generation == agent->wait_generation) return false;
  agent->waits = WAIT_NONE;
  clock_join(agent->clock, named->last, m->width);
  return true;
}

/* Barriers take whole warps. */
static bool check_whole_warps(Machine *m, Agent *agent, const Step *step)
{
  const Mask *mask = agent_mask(agent);
  for (unsigned warp = 0; warp < agent->role_threads / 32; warp++) {
    uint32_t lanes = (uint32_t)(mask->bits[warp / 2] >> (warp % 2 * 32));
    if (!lanes || lanes == UINT32_MAX) continue;
    g_autofree char *name = agent_name(m, agent);
    machine_fault(m, agent, step, "split-warp", "move it out of the condition",
                  "only some threads of a warp of %s reach a barrier", name);
    return false;
  }
  return true;
}

static bool execute_sync(Machine *m, Agent *agent, const Step *step)
{
  if (agent->waits != WAIT_NAMED && !check_whole_warps(m, agent, step)) return true;
  int64_t id = evaluate_uniform(m, agent, step->scalar[0], 0);
  int64_t needed = evaluate_uniform(m, agent, step->scalar[1], m->program->threads);
  if (id < 0 || id >= PROTOCOL_NAMED || needed < 32 || needed % 32) {
    machine_fault(m, agent, step, "barrier-id",
                  "a block has named barriers 0 .. 15; threads come in warps of 32",
                  "named barrier %" G_GINT64_FORMAT " of %" G_GINT64_FORMAT " threads", id, needed);
    return true;
  }
  int owner = m->named[agent->block * m->n_named + id].turn;
  if (owner >= 0) {
    const Turn *turn = m->program->turns->pdata[owner];
    machine_fault(m, agent, step, "barrier-id", NULL,
                  "named barrier %" G_GINT64_FORMAT " belongs to turn @%s", id, turn->op->symbol);
    return true;
  }
  unsigned threads = active_threads(agent);
  if (step->op->code == OP_SYNC_ARRIVE) {
    named_arrive(m, agent, step, (unsigned)id, threads, (unsigned)needed, false);
    return true;
  }
  return meet(m, agent, step, (unsigned)id, threads, (unsigned)needed);
}

/* A turn is a named barrier between who passes it and who takes it. The first instance has it at first. */
static bool execute_turn(Machine *m, Agent *agent, const Step *step)
{
  const Turn *turn = m->program->turns->pdata[step->family];
  unsigned id = PROTOCOL_NAMED, wait = step->op->code == OP_TURN_WAIT;
  int64_t instance = evaluate_uniform(m, agent, step->scalar[0], 0);
  for (unsigned i = 0; i < step->family; i++)
    id += ((const Turn *)m->program->turns->pdata[i])->instances;
  if (instance < 0 || instance >= turn->instances) {
    machine_fault(m, agent, step, "turn", NULL, "turn @%s has %u instances, none is number %" G_GINT64_FORMAT,
                  turn->op->symbol, turn->instances, instance);
    return true;
  }
  id += (unsigned)(wait ? instance : (instance + 1) % turn->instances);
  Named *named = &m->named[agent->block * m->n_named + id];
  unsigned needed = 2 * agent->role_threads;
  if (wait && instance == 0 && !named->generation && !named->needed) { /* nobody passed it: it is there */
    named->needed = needed;
    named->arrived = agent->role_threads;
  }
  if (wait) return meet(m, agent, step, id, active_threads(agent), needed);
  named_arrive(m, agent, step, id, active_threads(agent), needed, false);
  return true;
}

/* Where those of a role meet without a named barrier of the block. */
static unsigned own_meeting(const Machine *m, const Agent *agent)
{
  return m->n_named - 1 - (agent->role < 0 ? 0 : 1 + agent->role_low / 32);
}

/* Ops that lower to exchanges between the warps of a role contain its barriers. */
static bool execute_rendezvous(Machine *m, Agent *agent, const Step *step)
{
  if (agent->waits != WAIT_NAMED && !product_untouched(m, agent, step)) return true;
  bool meets = ir_attribute(step->op, ATTR_EXCHANGE) || ir_meets(step->op);
  if (!meets || agent_mask(agent)->count <= 32) return true;
  if (agent->waits != WAIT_NAMED && !check_whole_warps(m, agent, step)) return true;
  return meet(m, agent, step, own_meeting(m, agent), active_threads(agent), agent_mask(agent)->count);
}

/* The lanes of a warp meet. Only a role of one warp has two agents there (split_agents): every other warp's lanes are one. */
static bool execute_sync_warp(Machine *m, Agent *agent, const Step *step)
{
  if (agent->home_threads > 32) return true;
  if (agent->waits != WAIT_NAMED && !check_whole_warps(m, agent, step)) return true;
  return meet(m, agent, step, own_meeting(m, agent), active_threads(agent), 32);
}

static bool execute_cluster_wait(Machine *m, Agent *agent)
{
  if (agent->cluster_generation == m->cluster_generation) {
    agent->waits = WAIT_CLUSTER;
    return false;
  }
  agent->waits = WAIT_NONE;
  agent->cluster_generation = m->cluster_generation;
  clock_join(agent->clock, m->cluster_last, m->width);
  return true;
}

static void execute_fence(Machine *m, Agent *agent, const Step *step)
{
  switch ((Fence)step->family) {
  case FENCE_OTHER: break;
  case FENCE_PRODUCTS: agent->product_fence = agent->operations; break;
  case FENCE_ASYNC_SHARED: memory_fence(m, agent); break;
  case FENCE_CLOCK: memcpy(agent->fence_clock, agent->clock, m->width * sizeof(Tick)); break;
  }
}

/* What somebody else takes in so many runs of a loop, cut as execute_for cuts it. */
static int64_t skipped(Machine *m, Agent *agent, const Step *step)
{
  int64_t low = evaluate_uniform(m, agent, step->scalar[0], 0),
          high = evaluate_uniform(m, agent, step->scalar[1], low),
          by = MAX(1, evaluate_uniform(m, agent, step->scalar[2], 1)), first;
  if (program_may_cut(m->program, step, &first)) high = MIN(high, first + m->scenario->turns * by);
  return high > low ? (high - low + by - 1) / by * evaluate_uniform(m, agent, step->scalar[3], 0) : 0;
}

/* advance: one slot on; skip: so many */
static void execute_advance(Machine *m, Agent *agent, const Step *step)
{
  int64_t n = step->slots, *cursor = &agent->values[2 * step->value];
  agent->age++;
  cursor[0] += step->op->code == OP_SKIP ? skipped(m, agent, step) : 1;
  cursor[1] ^= cursor[0] / n & 1;
  cursor[0] %= n;
}

/* The launch's counter, as the blocks that run see it: nobody else claims. */
static void execute_claim(Machine *m, Agent *agent, const Step *step)
{
  if (!check_single(m, agent, step)) return;
  int64_t most = evaluate_uniform(m, agent, step->scalar[0], 0);
  set_value(agent, step->value, m->claimed, true);
  m->claimed = m->claimed + 1 < most ? m->claimed + 1 : 0;
}

/* ---- Dispatch ---- */

static bool execute_op(Machine *m, Agent *agent, const Step *step)
{
  switch (step->op->code) {
  case OP_AWAIT: return execute_await(m, agent, step);
  case OP_ARRIVE: execute_arrive(m, agent, step); return true;
  case OP_EXPECT: execute_expect(m, agent, step); return true;
  case OP_COPY: execute_copy(m, agent, step); return true;
  case OP_PUT:
  case OP_GET: execute_transfer(m, agent, step); return true;
  case OP_MMA: product_start(m, agent, step); return true;
  case OP_COMMIT: execute_commit(m, agent, step); return true;
  case OP_WAIT_GROUP: return execute_wait_group(m, agent, step);
  case OP_SYNC:
  case OP_SYNC_ARRIVE: return execute_sync(m, agent, step);
  case OP_SYNC_WARP: return execute_sync_warp(m, agent, step);
  case OP_TURN_WAIT:
  case OP_TURN_PASS: return execute_turn(m, agent, step);
  case OP_CLUSTER_ARRIVE: cluster_arrive(m, agent, step, step->flag); return true;
  case OP_CLUSTER_WAIT: return execute_cluster_wait(m, agent);
  case OP_INIT_BARRIERS: init_barriers(m, agent); return true;
  case OP_FENCE: execute_fence(m, agent, step); return true;
  case OP_ADVANCE:
    if (step->ring) memory_step(m, agent, step->ring, (unsigned)agent->values[2 * step->value]);
    G_GNUC_FALLTHROUGH;
  case OP_SKIP: execute_advance(m, agent, step); return true;
  case OP_CURSOR:
    agent->values[2 * step->value] = evaluate_uniform(m, agent, step->scalar[0], 0);
    agent->values[2 * step->value + 1] = evaluate_uniform(m, agent, step->scalar[1], 0) & 1;
    agent->known[step->value] = true;
    return true;
  case OP_REDUCE:
  case OP_SCAN:
  case OP_SORT:
  case OP_PICK:
  case OP_COUNT:
  case OP_CONVERT: return execute_rendezvous(m, agent, step);
  case OP_CLAIM: execute_claim(m, agent, step); return true;
  case OP_STORE_PARTIAL:
  case OP_ADD_PARTIAL:
    if (!product_untouched(m, agent, step)) return true;
    (step->op->code == OP_STORE_PARTIAL ? partial_store : partial_add)(m, agent, step);
    return true;
  case OP_POST: partial_post(m, agent, step); return true;
  case OP_AWAIT_POSTS: partial_await(m, agent, step); return true;
  default: break;
  }
  if (!product_untouched(m, agent, step)) return true;
  for (unsigned i = 0; i < step->n_places; i++) { /* any other op that names a shared tile reads it */
    Region region = region_of(m, agent, &step->places[i], agent->block);
    if (!memory_access(m, agent, step, &region, ACCESS_READ, HOW_THREADS, true)) return true;
  }
  if (step->op->code == OP_CLEAR) memory_fence(m, agent); /* its own */
  return true;
}

static void execute_set(Machine *m, Agent *agent, const Step *step)
{
  bool known = true;
  int64_t value = 0;
  if (step->scalar[0])
    value = evaluate(m, agent, step->scalar[0], agent->warp_low * 32 + agent->lane_low, &known);
  set_value(agent, step->value, value, known && !step->scalar[0]->varies);
  agent->age += step->op->code == OP_SET || step->op->code == OP_VAR;
}

bool execute_step(Machine *m, Agent *agent)
{
  const Step *step = program_step(m->program, agent->step);
  if (agent->waits == WAIT_NONE) agent->operations++;
  switch (step->kind) {
  case STEP_SET: execute_set(m, agent, step); break;
  case STEP_FOR: execute_for(m, agent, step); return true;
  case STEP_LOOP:
    frame_push(agent, step);
    agent->step++;
    return true;
  case STEP_AGAIN: {
    execute_again(agent);
    const Frame *frame = &agent->frames[agent->depth - 1];
    if (frame->kind == STEP_FOR && frame->i >= frame->high) {
      leave_loop(m, agent);
      return true;
    }
    if (frame->kind == STEP_FOR)
      set_value(agent, program_step(m->program, frame->step)->value, frame->i, true);
    return true;
  }
  case STEP_BREAK: {
    bool leaves = condition_holds(m, agent, step);
    agent->rounds[step->index]++;
    if (leaves)
      leave_loop(m, agent);
    else
      agent->step++;
    return true;
  }
  case STEP_IF:
    execute_if(m, agent, step);
    agent->rounds[step->index]++;
    return true;
  case STEP_ELSE: execute_else(agent, step); return true;
  case STEP_END_IF: agent->mask = agent->frames[--agent->depth].depth; break;
  case STEP_ROLE: enter_role(m, agent, step); return true;
  case STEP_END_ROLE: leave_role(m, agent); return true;
  case STEP_END: agent->done = true; return true;
  case STEP_OP:
    if (!execute_op(m, agent, step)) return false;
    agent->waits = WAIT_NONE;
    agent->rounds[step->index]++;
    break;
  }
  agent->step++;
  return true;
}
