/* Who runs next: groups of lanes within warps, warps within a cluster; and what happens when nobody can. */
#include "simulator/check.h"
#include "simulator/copy.h"
#include "simulator/machine.h"
#include <string.h>

#define QUANTUM    256
#define SPIN_LIMIT 64 /* rounds in which every spinning warp polls once and nothing changes */

uint32_t cluster_random(Cluster *c)
{
  c->random = c->random * 6364136223846793005ull + 1442695040888963407ull;
  return (uint32_t)(c->random >> 33);
}

void cluster_progress(Cluster *c)
{
  c->progress++;
  if (c->run->session->ordered) c->run->session->progress++; /* clusters share one thread */
  c->spins = 0;
}

Group *current_group(Warp *w)
{
  return &w->groups[w->next_group];
}

Step wait_for(Warp *w, WaitKind kind, Block *block, uint32_t id, uint64_t value, Step step)
{
  current_group(w)->wait = (Wait){.kind = kind, .block = block, .id = id, .value = value};
  return step;
}

/* Do two groups wait at the same meeting? Those of one instruction do, if they name the same members; a
 * barrier of the warp counts wherever in the text it stands. */
static bool meets_with(const Warp *w, const Group *a, const Group *b)
{
  const Inst *code = w->block->cluster->run->kernel->code, *x = &code[a->pc], *y = &code[b->pc];
  if (a->wait.kind != WAIT_LANES || b->wait.kind != WAIT_LANES) return false;
  if (x->flags & INST_MEMBERS && a->wait.needed != b->wait.needed) return false;
  return a->pc == b->pc || (x->flags & INST_ANYWHERE && x->run == y->run);
}

/* Are the lanes here that the group waits for? Those that have exited are waited for no longer. */
static bool all_met(const Warp *w, const Group *g)
{
  uint32_t together = 0, needed = g->wait.needed & w->live;
  for (unsigned i = 0; i < w->n_groups; i++)
    if (meets_with(w, g, &w->groups[i])) together |= w->groups[i].mask;
  return (together & needed) == needed;
}

static bool wait_over(Warp *w, const Group *g)
{
  Cluster *c = w->block->cluster;
  switch (g->wait.kind) {
  case WAIT_NONE: return true;
  case WAIT_BARRIER: return w->block->barriers[g->wait.id].generation != g->wait.value;
  case WAIT_CLUSTER: return c->barrier.generation != g->wait.value;
  case WAIT_MBARRIER:
    for (unsigned i = 0; i < g->wait.block->mbarriers->len; i++) {
      Mbarrier *m = &g_array_index(g->wait.block->mbarriers, Mbarrier, i);
      if (m->offset == g->wait.id) return !m->live || m->phase != g->wait.value;
    }
    return true;
  case WAIT_MEMORY: return poll_changed(w, g->wait.id, g->wait.needed);
  case WAIT_LAUNCH: return launches_before_ended(c->run);
  case WAIT_SPIN:
    if (c->run->session->ordered) return c->run->session->progress != g->wait.value;
    return c->progress != g->wait.value;
  case WAIT_PRODUCT:
  case WAIT_POOL: return c->progress != g->wait.value;
  case WAIT_LANES: return all_met(w, g);
  case WAIT_JOIN: return false;
  }
  return false;
}

/* Lanes arrive at the place where their group meets the others; false: the group is gone. */
static bool meet(Warp *w)
{
  Group *g = current_group(w);
  while (g->join >= 0 && w->joins[g->join].pc == g->pc && w->joins[g->join].frame == g->frame) {
    Join *j = &w->joins[g->join];
    j->arrived |= g->mask;
    if ((j->arrived & w->live) != (j->expected & w->live)) {
      *g = w->groups[--w->n_groups];
      return false;
    }
    g->mask = j->arrived & w->live;
    g->join = j->parent;
    j->used = false;
  }
  return true;
}

/* Lanes have exited: somebody may have waited for them only. */
static void recheck_joins(Warp *w)
{
  for (unsigned i = 0; i < w->n_joins; i++) {
    Join *j = &w->joins[i];
    if (!j->used || (j->arrived & w->live) != (j->expected & w->live)) continue;
    j->used = false;
    if (!(j->arrived & w->live)) continue;
    w->groups[w->n_groups++] =
        (Group){.mask = j->arrived & w->live, .pc = j->pc, .frame = j->frame, .join = j->parent};
  }
}

static bool release_join(Warp *w)
{
  for (unsigned i = 0; i < w->n_joins; i++) {
    Join *j = &w->joins[i];
    if (!j->used || !(j->arrived & w->live)) continue;
    w->groups[w->n_groups++] =
        (Group){.mask = j->arrived & w->live, .pc = j->pc, .frame = j->frame, .join = j->parent};
    j->expected &= ~j->arrived;
    j->arrived = 0;
    return true;
  }
  return false;
}

static uint32_t guard_mask(const Warp *w, const Inst *in, uint32_t mask)
{
  if (in->guard == OPERAND_NONE) return mask;
  uint32_t p = predicate(w, in->guard);
  return mask & (in->guard_negated ? ~p : p);
}

/* An instruction that needs lanes of other groups: runs once for all groups that stand at it, when they are
 * enough. Each group keeps its own way afterwards. */
static Step run_together(Warp *w, const Inst *in, uint32_t needed)
{
  const Inst *code = w->block->cluster->run->kernel->code;
  Group *g = current_group(w);
  unsigned n = 0, own = w->next_group, members[LANES];
  uint32_t together = 0, running = 0;
  g->wait = (Wait){.kind = WAIT_LANES, .needed = needed};
  if (!all_met(w, g)) return STEP_WAIT;
  for (unsigned i = 0; i < w->n_groups; i++) {
    Group *o = &w->groups[i];
    if (!meets_with(w, g, o)) continue;
    members[n++] = i;
    together |= o->mask;
    running |= guard_mask(w, &code[o->pc], o->mask);
  }
  if (running != (together & needed & w->live) && in->flags & (INST_ALIGNED | INST_MEMBERS))
    fault(w, in, first_lane(together), SIM_FAULT_CONVERGENCE, 0,
          "lanes %08x of %08x skip an instruction that all of these must execute",
          together & needed & ~running, needed & w->live);
  g->wait = (Wait){0};
  Step step = running ? in->run(w, in, running) : STEP_NEXT;
  Wait wait = w->groups[own].wait;
  for (unsigned i = 0; i < n; i++) {
    Group *o = &w->groups[members[i]];
    o->wait = step == STEP_WAIT || step == STEP_WAIT_NEXT ? wait : (Wait){0};
    if (members[i] != own && (step == STEP_NEXT || step == STEP_WAIT_NEXT)) o->pc++;
    o->resumed = step == STEP_WAIT;
  }
  return step;
}

/* Lanes of one group may name different members (tiles of a warp): then each set goes through the instruction
 * by itself, and they meet again behind it. Returns the members of the current group's lanes. */
static uint32_t members_of(Warp *w, const Inst *in)
{
  Group *g = current_group(w);
  uint32_t members = lane_u32(w, in->target, first_lane(g->mask)), same = 0;
  if (in->target & OPERAND_CONSTANT) return members;
  for_lanes(l, g->mask) same |= (uint32_t)(lane_u32(w, in->target, l) == members) << l;
  if (same == g->mask) return members;
  g->join = flow_join(w, g->pc + 1, g->mask, g->join, g->frame);
  Group other = *g;
  other.mask = g->mask & ~same;
  g->mask = same;
  w->groups[w->n_groups++] = other;
  return members;
}

/* Runs the current group until it waits, goes or has used its share. Returns instructions executed. */
static unsigned run_group(Warp *w, unsigned share)
{
  Cluster *c = w->block->cluster;
  Run *run = c->run;
  const Inst *code = run->kernel->code;
  bool checks = w->undefined != NULL;
  unsigned count = 0;
  Group *g = current_group(w);
  g->wait = (Wait){0};
  while (count < share) {
    if (g->join >= 0 && !meet(w)) return count + 1;
    const Inst *in = &code[g->pc];
    count++;
    uint32_t needed = in->flags & INST_ALIGNED ? w->live : 0;
    if (in->flags & INST_MEMBERS) needed = members_of(w, in);
    uint32_t mask = guard_mask(w, in, g->mask);
    Step step;
    if (checks) check_guard(w, in, g->mask);
    if (in->flags & INST_MEMBERS && mask & ~needed)
      fault(w, in, first_lane(mask & ~needed), SIM_FAULT_CONVERGENCE, 0,
            "lanes %08x execute this without being named in its member mask %08x", mask & ~needed, needed);
    if (needed) w->collectives++;
    if (needed & w->live & ~mask) {
      /* a uniformly false guard skips it; anything else must come together */
      if (!mask && !(g->mask & ~needed) && g->mask == w->live) {
        g->pc++;
        continue;
      }
      if (!mask && in->flags & INST_MEMBERS) {
        g->pc++;
        continue;
      }
      step = run_together(w, in, needed);
    } else if (!mask) {
      g->pc++;
      continue;
    } else {
      if (checks) check_before(w, in, mask);
      step = in->run(w, in, mask);
    }
    switch (step) {
    case STEP_NEXT:
      g->pc++;
      g->resumed = false;
      continue;
    case STEP_JUMP: continue;
    case STEP_WAIT: g->resumed |= g->wait.kind != WAIT_LANES; return count;
    case STEP_WAIT_NEXT:
      g->pc++;
      g->resumed = false;
      return count;
    case STEP_GONE: recheck_joins(w); return count;
    case STEP_STOP:
      c->stopped = true;
      g_atomic_int_set(&run->session->stop, 1);
      return count;
    }
  }
  return count;
}

static bool pick_group(Warp *w)
{
  for (unsigned i = 0; i < w->n_groups; i++) {
    unsigned k = (w->next_group + 1 + i) % w->n_groups;
    if (!wait_over(w, &w->groups[k])) continue;
    w->next_group = k;
    return true;
  }
  return false;
}

static bool wake_polling(Cluster *c)
{
  bool polling = false;
  for (unsigned b = 0; b < c->n_blocks; b++)
    for (unsigned i = 0; i < c->blocks[b].n_warps; i++) {
      Warp *w = &c->blocks[b].warps[i];
      for (unsigned k = 0; k < w->n_groups; k++)
        if (w->groups[k].wait.kind == WAIT_SPIN || w->groups[k].wait.kind == WAIT_MEMORY) {
          polling = true;
          w->groups[k].wait = (Wait){0};
        }
    }
  return polling;
}

bool cluster_unblock(Cluster *c)
{
  if (async_land_one(c)) return true;
  bool polling = c->spins < SPIN_LIMIT && wake_polling(c);
  /* lanes parked at the end of a branch go on alone before a spin is called endless */
  bool released = false;
  if (!polling || c->spins > 16)
    for (unsigned b = 0; b < c->n_blocks; b++)
      for (unsigned i = 0; i < c->blocks[b].n_warps; i++)
        released |= release_join(&c->blocks[b].warps[i]);
  c->spins += polling;
  return released || polling;
}

static bool over_limit(Cluster *c, uint64_t executed)
{
  Run *run = c->run;
  c->instructions += executed;
  uint64_t total = __atomic_add_fetch(&run->session->instructions, executed, __ATOMIC_RELAXED);
  bool many = run->options->max_instructions && total > run->options->max_instructions;
  bool late = run->session->deadline && g_get_monotonic_time() > run->session->deadline;
  if (!many && !late) return g_atomic_int_get(&run->session->stop);
  if (!g_atomic_int_compare_and_exchange(&run->session->stop, 0, 1)) return true;
  Warp *found = &c->blocks[0].warps[0]; /* when all have just ended: any of them */
  for (unsigned b = 0; b < c->n_blocks && !found->n_groups; b++)
    for (unsigned i = 0; i < c->blocks[b].n_warps && !found->n_groups; i++)
      if (c->blocks[b].warps[i].n_groups) found = &c->blocks[b].warps[i];
  const Group *g = found->n_groups ? &found->groups[0] : NULL;
  found->next_group = 0;
  fault(found, &run->kernel->code[g ? g->pc : run->kernel->n_code - 1], g ? first_lane(g->mask) : 0,
        SIM_FAULT_LIMIT, 0,
        many ? "the limit of %llu warp-instructions is reached: the kernel may never end"
             : "the time limit is reached",
        (unsigned long long)run->options->max_instructions);
  return true;
}

/* Instructions until the limit is exceeded, by one; other clusters that run meanwhile do not know. */
static uint64_t instructions_left(const Run *run)
{
  uint64_t most = run->options->max_instructions,
           done = __atomic_load_n(&run->session->instructions, __ATOMIC_RELAXED);
  if (!most) return UINT64_MAX;
  return most >= done ? most - done + 1 : 1;
}

ClusterState cluster_run(Cluster *c, uint64_t share)
{
  bool shuffled = c->run->schedule > 1;
  unsigned total = c->n_blocks * c->blocks[0].n_warps;
  uint64_t used = 0;
  c->give_way = false;
  while (!c->stopped && c->live_blocks) {
    uint64_t executed = 0, left = instructions_left(c->run);
    unsigned start = shuffled ? cluster_random(c) % total : 0;
    for (unsigned i = 0; i < total && !c->stopped && executed < left; i++) {
      unsigned k = (start + i) % total;
      Warp *w = &c->blocks[k / c->blocks[0].n_warps].warps[k % c->blocks[0].n_warps];
      if (!w->n_groups || !pick_group(w)) continue;
      unsigned quantum = shuffled ? 1 + cluster_random(c) % QUANTUM : QUANTUM;
      unsigned n = run_group(w, (unsigned)MIN(quantum, left - executed));
      w->instructions += n;
      executed += n;
    }
    if (!executed) return CLUSTER_STALLED;
    if (over_limit(c, executed)) return CLUSTER_STOPPED;
    used += executed;
    if ((share && used > share) || c->give_way) break;
  }
  if (c->stopped) return CLUSTER_STOPPED;
  if (c->live_blocks) return CLUSTER_YIELD;
  store_edge_check(c);
  return CLUSTER_FINISHED;
}
