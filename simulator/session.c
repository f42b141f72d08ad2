/* Who is on the machine: launches that may start, clusters that fit at once, and whose turn it is; one run
 * per schedule. Lanes, warps and the blocks of one cluster are schedule.c's. */
#include "simulator/machine.h"
#include "simulator/race.h"
#include "simulator/sparse_copy.h"
#include <string.h>

#define SHARE       (1u << 14) /* warp-instructions a cluster runs before another one's turn */
#define SMALL_SHARE 2048       /* ... at most, where the order is random */
#define LONG        (1u << 20) /* ... before it is asked whether it has done anything visible */
#define SWITCHES    4096       /* times that a cluster gives way at an access that synchronises */
#define WINDOW      32         /* clusters that are there before any runs, if they fit */
#define PARKED      64         /* clusters of one thread that have run long without doing anything visible */

static uint32_t session_random(Session *s, uint32_t n)
{
  s->random = s->random * 6364136223846793005ull + 1442695040888963407ull;
  return (uint32_t)(s->random >> 33) % n;
}

/* --- launches --- */

static const Run *run_at(const Session *s, unsigned index)
{
  for (unsigned i = 0; i < s->n_runs; i++)
    if (s->runs[i].index == index) return &s->runs[i];
  return NULL; /* of an earlier group: long ended */
}

static bool has_ended(const Run *run)
{
  return run->ended_clusters == run->clusters;
}

/* It and everything it had to wait for, by itself or not. */
static bool all_ended(const Run *run)
{
  bool ended = has_ended(run);
  for (unsigned i = 0; i < run->n_after && ended; i++) {
    const Run *before = run_at(run->session, run->after[i].launch);
    ended = !before || all_ended(before);
  }
  return ended;
}

static uint64_t blocks_of(const Run *run)
{
  return run->clusters * run->cluster[0] * run->cluster[1] * run->cluster[2];
}

static bool may_start(const Run *run)
{
  for (unsigned i = 0; i < run->n_after; i++) {
    const Run *before = run_at(run->session, run->after[i].launch);
    if (!before) continue;
    bool ready = !run->after[i].dependent ? all_ended(before)
                 : run->starts_late       ? has_ended(before)
                                          : before->triggered == blocks_of(before);
    if (!ready) return false;
  }
  return true;
}

bool launches_before_ended(const Run *run)
{
  for (unsigned i = 0; i < run->n_after; i++) {
    const Run *before = run_at(run->session, run->after[i].launch);
    if (before && run->after[i].dependent && !has_ended(before)) return false;
  }
  return true;
}

void launch_triggered(Block *b)
{
  Run *run = b->cluster->run;
  if (b->triggered) return;
  b->triggered = true;
  if (!run->session->ordered) return;
  if (++run->triggered == blocks_of(run)) b->cluster->give_way = run->session->may_start = true;
}

Step session_switch(Warp *w, Step step)
{
  Cluster *c = w->block->cluster;
  Session *s = c->run->session;
  if (!s->ordered || s->schedule == 1 || step != STEP_NEXT || c->switches > SWITCHES) return step;
  c->switches++;
  if (session_random(s, 2)) return step;
  c->give_way = true;
  return wait_for(w, WAIT_NONE, NULL, 0, 0, STEP_WAIT_NEXT);
}

/* --- clusters in one thread, in an order that the schedule decides --- */

/* Launches that overlap share the machine: each cluster takes its part of it. */
static bool fits(const Run *run)
{
  const Session *s = run->session;
  double used = 0;
  for (unsigned i = 0; i < s->n_runs; i++)
    if (s->runs[i].fitting) used += (double)s->runs[i].active / (double)s->runs[i].fitting;
  return !run->fitting || used == 0 || used + 1.0 / (double)run->fitting < 1 + 1e-9;
}

/* The latest launch that may start goes first: as early as it may. */
static Run *next_to_start(Session *s)
{
  for (unsigned i = s->n_runs; i-- > 0;) {
    Run *run = &s->runs[i];
    if (run->next_cluster < run->clusters && may_start(run) && fits(run)) return run;
  }
  return NULL;
}

static bool start_one(Session *s, GPtrArray *active)
{
  Run *run = next_to_start(s);
  if (!run) return false;
  if (!run->next_cluster && run->track_races) race_launch_start(run);
  run->active++;
  g_ptr_array_add(active, cluster_new(run, run->next_cluster++));
  return true;
}

static void end_cluster(Cluster *c)
{
  Run *run = c->run;
  race_cluster_end(c);
  run->active--;
  run->ended_clusters++;
  run->session->progress++;
  cluster_free(c);
}

/* First the latest comers, who depend on the others and must wait for them; then the opposite; then any. */
static GPtrArray *turns(Session *s, const GPtrArray *active)
{
  GPtrArray *order = g_ptr_array_new();
  unsigned n = active->len, first = s->schedule > 1 && n ? session_random(s, n) : 0;
  for (unsigned i = 0; i < n; i++)
    g_ptr_array_add(order, active->pdata[s->schedule == 0 ? n - 1 - i : (first + i) % n]);
  return order;
}

/* Every cluster has a turn. Gives whether anything ran; *spent: somebody has used up its share. */
static bool run_round(Session *s, GPtrArray *active, bool *spent)
{
  g_autoptr(GPtrArray) order = turns(s, active);
  bool moved = false;
  *spent = s->may_start = false;
  for (unsigned i = 0; i < order->len && !g_atomic_int_get(&s->stop); i++) {
    Cluster *c = order->pdata[i];
    uint64_t before = c->instructions;
    ClusterState state = cluster_run(c, s->schedule > 1 ? 1 + session_random(s, SMALL_SHARE) : SHARE);
    moved |= c->instructions != before || state == CLUSTER_FINISHED;
    *spent |= state == CLUSTER_YIELD && !c->give_way;
    if (state == CLUSTER_FINISHED) {
      g_ptr_array_remove(active, c);
      end_cluster(c);
    }
    if (s->may_start) break;
  }
  return moved;
}

static void stuck(Session *s, const GPtrArray *active)
{
  g_autofree char *note = NULL;
  for (unsigned i = 0; i < s->n_runs && !note; i++) {
    const Run *run = &s->runs[i];
    if (run->fitting && run->next_cluster && run->next_cluster < run->clusters)
      note = g_strdup_printf(
          "%llu blocks of %llu have ended, %llu fit on the GPU at once, the others wait for a place",
          (unsigned long long)(run->ended_clusters * (blocks_of(run) / run->clusters)),
          (unsigned long long)blocks_of(run),
          (unsigned long long)(run->fitting * (blocks_of(run) / run->clusters)));
  }
  report_deadlock((Cluster **)active->pdata, active->len, note);
  g_atomic_int_set(&s->stop, 1);
}

static void run_ordered(Session *s)
{
  g_autoptr(GPtrArray) active = g_ptr_array_new();
  while (!g_atomic_int_get(&s->stop)) {
    while (active->len < (s->schedule == 1 ? 1 : WINDOW) && start_one(s, active))
      ;
    if (!active->len) break;
    bool spent, moved = run_round(s, active, &spent);
    /* further clusters start when these cannot go on, which keeps few alive, or by chance */
    bool more = !moved || spent || (s->schedule > 1 && session_random(s, 2));
    if ((more && start_one(s, active)) || moved || g_atomic_int_get(&s->stop)) continue;
    bool unblocked = false;
    for (unsigned i = 0; i < active->len; i++)
      unblocked |= cluster_unblock(active->pdata[i]);
    if (!unblocked && active->len) stuck(s, active);
  }
  for (unsigned i = 0; i < active->len; i++)
    cluster_free(active->pdata[i]);
}

/* --- clusters that do not talk to each other: any number of threads takes one after the other --- */

/* false: it has run long without doing anything that others could see, and may wait for them after all */
static bool run_alone(Cluster *c, bool may_park)
{
  Run *run = c->run;
  for (;;) {
    uint64_t progress = c->progress;
    ClusterState state = cluster_run(c, LONG);
    if (state == CLUSTER_YIELD && may_park && c->progress == progress) return false;
    if (state == CLUSTER_YIELD || (state == CLUSTER_STALLED && cluster_unblock(c))) continue;
    if (state == CLUSTER_STALLED) {
      report_deadlock(&c, 1, NULL);
      g_atomic_int_set(&run->session->stop, 1);
    }
    cluster_free(c);
    return true;
  }
}

static void *worker(void *data)
{
  Run *run = data;
  g_autoptr(GPtrArray) parked = g_ptr_array_new();
  while (!g_atomic_int_get(&run->session->stop)) {
    uint64_t index = run->clusters;
    if (parked->len < PARKED) index = __atomic_fetch_add(&run->next_cluster, 1, __ATOMIC_RELAXED);
    if (index >= run->clusters && !parked->len) break;
    Cluster *c = index < run->clusters ? cluster_new(run, index) : g_ptr_array_steal_index(parked, 0);
    if (!run_alone(c, run->clusters > 1)) g_ptr_array_add(parked, c);
  }
  for (unsigned i = 0; i < parked->len; i++)
    cluster_free(parked->pdata[i]);
  return NULL;
}

static void run_threads(Session *s, unsigned jobs)
{
  Run *run = &s->runs[0];
  if (jobs <= 1) {
    worker(run);
    return;
  }
  g_autofree GThread **threads = g_new0(GThread *, jobs);
  for (unsigned i = 0; i < jobs; i++)
    threads[i] = g_thread_new("simulator", worker, run);
  for (unsigned i = 0; i < jobs; i++)
    g_thread_join(threads[i]);
}

/* --- groups of launches --- */

static void run_together(Session *s, Run *runs, unsigned n)
{
  uint64_t uid = 0;
  unsigned jobs = s->options->jobs ? s->options->jobs : g_get_num_processors();
  s->runs = runs;
  s->n_runs = n;
  s->ordered = n > 1;
  for (unsigned i = 0; i < n; i++) {
    Run *run = &runs[i];
    run->next_cluster = run->active = run->ended_clusters = run->triggered = 0;
    run->first_uid = (uint32_t)uid;
    uid += run->clusters;
    s->ordered |= run->kernel->global_order;
    run->starts_late = s->schedule == 1 || (s->schedule > 1 && session_random(s, 2));
  }
  jobs = s->ordered ? 1 : (unsigned)MIN(jobs, runs[0].clusters);
  s->threads = jobs > 1;
  race_global_init(s);
  if (s->ordered)
    run_ordered(s);
  else
    run_threads(s, jobs);
  race_global_free(s);
  for (unsigned i = 0; i < n; i++)
    race_launch_free(&runs[i]);
}

/* before[i * n + j]: launch j has ended when launch i starts. done: launch j has ended when launch i and
 * everything it waited for have. */
static bool *ended_before(const Run *runs, unsigned n)
{
  bool *before = g_new0(bool, (size_t)n *n);
  g_autofree bool *done = g_new0(bool, (size_t)n *n);
  for (unsigned i = 0; i < n; i++) {
    done[i * n + i] = true;
    for (unsigned e = 0; e < runs[i].n_after; e++) {
      const SimEdge *edge = &runs[i].after[e];
      for (unsigned j = 0; j < n; j++) {
        before[i * n + j] |= edge->dependent ? before[edge->launch * n + j] : done[edge->launch * n + j];
        done[i * n + j] |= done[edge->launch * n + j];
      }
    }
  }
  return before;
}

static void run_schedule(Session *s, Run *runs, unsigned n)
{
  g_autofree bool *before = ended_before(runs, n);
  unsigned first = 0;
  for (unsigned i = 1; i <= n && !g_atomic_int_get(&s->stop); i++) {
    bool alone = true; /* everything before has ended when launch i starts */
    for (unsigned j = 0; j < i && i < n; j++)
      alone &= before[i * n + j];
    if (!alone) continue;
    run_together(s, runs + first, i - first);
    first = i;
  }
}

/* Every schedule starts from the same memory. */
typedef struct MemorySnapshot {
  SparseCopy *data, *defined;
} MemorySnapshot;

static void keep(const Session *s, MemorySnapshot *all)
{
  for (unsigned i = 0; i < s->memory->len; i++) {
    const Buffer *b = s->memory->pdata[i];
    if (b->data) all[i].data = sparse_copy_new(b->data, b->bytes);
    if (b->data && b->defined) all[i].defined = sparse_copy_new(b->defined, SIM_DEFINED_BYTES(b->bytes));
  }
}

static void restore(const Session *s, const MemorySnapshot *all)
{
  for (unsigned i = 0; i < s->memory->len; i++) {
    const Buffer *b = s->memory->pdata[i];
    if (all[i].data) sparse_copy_restore(all[i].data, b->data);
    if (all[i].defined) sparse_copy_restore(all[i].defined, b->defined);
  }
}

void session_run(Session *s, Run *runs, unsigned n)
{
  unsigned schedules = MAX(s->options->schedules, 1);
  g_autofree MemorySnapshot *all = g_new0(MemorySnapshot, s->memory->len + 1);
  if (schedules > 1) keep(s, all);
  for (unsigned i = 0; i < schedules && !g_atomic_int_get(&s->stop); i++) {
    if (i) restore(s, all);
    s->heap_used = 0;
    s->schedule = i;
    s->random = s->options->seed * 0x9e3779b97f4a7c15ull + i;
    for (unsigned r = 0; r < n; r++) {
      runs[r].schedule = i;
      runs[r].seed = s->options->seed + i;
      runs[r].landing = i == 0 ? SIM_LAND_EARLY : i == 1 ? SIM_LAND_LATE : SIM_LAND_RANDOM;
    }
    run_schedule(s, runs, n);
    if (!g_atomic_int_get(&s->stop)) report_outputs(&runs[n - 1]);
  }
  for (unsigned i = 0; i < s->memory->len; i++) {
    sparse_copy_free(all[i].data);
    sparse_copy_free(all[i].defined);
  }
}
