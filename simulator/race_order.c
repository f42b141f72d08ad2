/* Order through global memory: a release (or a fence and then a strong write) and an acquire (or a strong
 * read and then a fence) at the same word, as in the memory model of the PTX ISA, "release and acquire
 * patterns".
 *
 * What a release publishes is kept at the word, apart for readers in the same block, in the same cluster and
 * anywhere: each side's scope must include the other side. An atomic adds to what is there, as release
 * sequences do; a plain store replaces it. One deliberate leniency: a relaxed atomic that returns a value and
 * then a barrier of the block count as an acquire, since programs of many years rely on it ("thread 0 takes a
 * ticket, barrier, the last block reads"). */
#include "simulator/race_clock.h"
#include <string.h>

typedef struct Location {
  Knowledge *gpu;     /* released at the GPU's or a wider scope */
  GHashTable *narrow; /* at a narrower scope: block or cluster -> Knowledge; NULL: never */
} Location;

static void location_free(void *data)
{
  Location *l = data;
  knowledge_unref(l->gpu);
  if (l->narrow) g_hash_table_destroy(l->narrow);
  g_free(l);
}

static void *narrow_key(const Clocks *k, const Warp *w, MemoryScope scope)
{
  uintptr_t rank = scope == SCOPE_BLOCK ? w->block->rank + 1 : 0; /* 0: the cluster */
  return (void *)((uintptr_t)k->uid << 5 | rank);
}

void order_init(Cluster *c)
{
  Clocks *k = c->check;
  k->orders = g_new0(WarpOrder, k->warps);
}

void order_free(Cluster *c)
{
  Clocks *k = c->check;
  for (unsigned i = 0; i < k->warps; i++) {
    WarpOrder *o = &k->orders[i];
    for (unsigned s = 0; s < 3; s++) {
      clock_free(o->released[s]);
      knowledge_unref(o->pending[s]);
    }
    clock_free(o->met);
    knowledge_unref(o->exchanged);
  }
  g_free(k->orders);
}

static Location *location_of(const Warp *w, const Place *p, bool make)
{
  GHashTable *all = w->block->cluster->run->session->locations;
  void *key = (void *)((uintptr_t)p->at & ~(uintptr_t)3);
  Location *l = g_hash_table_lookup(all, key);
  if (l || !make) return l;
  l = g_new0(Location, 1);
  g_hash_table_insert(all, key, l);
  return l;
}

/* --- acquire --- */

static void learn(Clocks *k, const Warp *w, Knowledge *what)
{
  if (!what) return;
  Clock *own = clock_of(k, agent_of(k, w));
  const Snapshot *mine = knowledge_of(what, k->uid);
  for (unsigned i = 0; mine && mine != SNAPSHOT_ALL && i < k->length; i++)
    own->v[i] = MAX(own->v[i], mine->v[i]);
  own->foreign = knowledge_join(own->foreign, what);
}

static Knowledge *visible(const Clocks *k, const Warp *w, const Location *l, MemoryScope scope)
{
  if (scope == SCOPE_GPU) return l->gpu;
  return l->narrow ? g_hash_table_lookup(l->narrow, narrow_key(k, w, scope)) : NULL;
}

static void acquire(Clocks *k, Warp *w, const Inst *in, const Location *l, bool is_atomic)
{
  bool now = in->order == ORDER_ACQUIRE || in->order == ORDER_BOTH;
  WarpOrder *o = &k->orders[agent_of(k, w)];
  /* a narrow acquire of what the own cluster has released widely: its own accesses */
  Snapshot *mine = in->scope == SCOPE_GPU ? NULL : snapshot_ref(knowledge_of(l->gpu, k->uid));
  if (mine) {
    Knowledge *own = knowledge_add(NULL, k->uid, mine);
    if (now) learn(k, w, own);
    if (!now) o->pending[0] = knowledge_join(o->pending[0], own);
    knowledge_unref(own);
  }
  for (MemoryScope s = SCOPE_BLOCK; s <= (MemoryScope)in->scope; s++) {
    Knowledge *what = visible(k, w, l, s);
    if (now)
      learn(k, w, what);
    else
      o->pending[s - 1] = knowledge_join(o->pending[s - 1], what);
    if (!now && is_atomic) o->exchanged = knowledge_join(o->exchanged, what);
  }
}

void order_barrier(Warp *w)
{
  Clocks *k = clocks_of(w);
  WarpOrder *o = &k->orders[agent_of(k, w)];
  learn(k, w, o->exchanged);
  knowledge_unref(g_steal_pointer(&o->exchanged));
}

/* --- release --- */

static Knowledge *published(const Clocks *k, const Warp *w, const Clock *what, uint32_t lanes)
{
  unsigned agent = agent_of(k, w);
  Snapshot *s = snapshot_new(what->v, k->length, k->warps);
  s->agent = agent;
  s->clock = what->v[agent];
  s->synced = k->synced[agent];
  s->excluded = w->live & ~lanes;
  return knowledge_add(knowledge_ref(what->foreign), k->uid, s);
}

static void put(const Clocks *k, const Warp *w, Location *l, MemoryScope scope, Knowledge *what)
{
  if (scope == SCOPE_GPU) {
    l->gpu = knowledge_join(l->gpu, what);
    return;
  }
  void *key = narrow_key(k, w, scope);
  if (!l->narrow) l->narrow = g_hash_table_new_full(NULL, NULL, NULL, (GDestroyNotify)knowledge_unref);
  Knowledge *old = knowledge_ref(g_hash_table_lookup(l->narrow, key));
  g_hash_table_insert(l->narrow, key, knowledge_join(old, what));
}

/* A strong write publishes, scope by scope, what it may: its own clock if it is a release, else that of the
 * last fence that reaches as far. */
static void release(Clocks *k, Warp *w, const Inst *in, unsigned lane, const Place *p, bool replace)
{
  unsigned agent = agent_of(k, w);
  Clock *own = clock_of(k, agent);
  bool now = in->order == ORDER_RELEASE || in->order == ORDER_BOTH;
  WarpOrder *o = &k->orders[agent];
  Location *l = location_of(w, p, now || o->released[0]);
  if (!l) return;
  if (replace) {
    knowledge_unref(g_steal_pointer(&l->gpu));
    if (l->narrow) g_hash_table_remove_all(l->narrow);
  }
  const Clock *last = NULL;
  Knowledge *what = NULL;
  for (MemoryScope s = (MemoryScope)in->scope; s >= SCOPE_BLOCK; s--) {
    const Clock *c = now ? own : o->released[s - 1];
    if (!c || c == last) continue;
    if (last && c->v[agent] <= last->v[agent]) break; /* nothing that the wider scope has not */
    knowledge_unref(what);
    what = published(k, w, c, 1u << lane);
    clock_partial(k, w, c->v[agent], 1u << lane);
    last = c;
    put(k, w, l, s, what);
  }
  knowledge_unref(what);
  if (now) own->v[agent]++;
}

void order_access(Warp *w, const Inst *in, unsigned lane, const Place *p, AccessKind kind)
{
  Clocks *k = clocks_of(w);
  if (in->order == ORDER_WEAK) return;
  bool reads = kind == ACCESS_READ || (kind == ACCESS_ATOMIC && in->d[0] != OPERAND_NONE);
  if (reads && g_hash_table_size(w->block->cluster->run->session->locations)) {
    const Location *l = location_of(w, p, false);
    if (l) acquire(k, w, in, l, kind == ACCESS_ATOMIC);
  }
  if (kind != ACCESS_READ) release(k, w, in, lane, p, kind != ACCESS_ATOMIC);
}

/* --- fences --- */

void order_fence(Warp *w, const Inst *in, uint32_t mask)
{
  Clocks *k = clocks_of(w);
  unsigned agent = agent_of(k, w);
  WarpOrder *o = &k->orders[agent];
  Clock *own = clock_of(k, agent);
  for (MemoryScope s = SCOPE_BLOCK; s <= (MemoryScope)in->scope && in->order != ORDER_RELEASE; s++) {
    learn(k, w, o->pending[s - 1]);
    knowledge_unref(g_steal_pointer(&o->pending[s - 1]));
  }
  if (o->met && in->order != ORDER_RELEASE) {
    clock_join(k, own, o->met);
    clock_free(g_steal_pointer(&o->met));
  }
  if (in->order == ORDER_ACQUIRE) return;
  for (MemoryScope s = SCOPE_BLOCK; s <= (MemoryScope)in->scope; s++) {
    Clock **c = &o->released[s - 1];
    if (!*c) *c = clock_new(k);
    knowledge_unref((*c)->foreign);
    memcpy(*c, own, k->stride);
    knowledge_ref((*c)->foreign);
  }
  own->v[agent]++;
}

const Clock *order_fenced(const Clocks *k, const Warp *w, MemoryScope scope)
{
  return k->orders[agent_of(k, w)].released[scope - 1];
}

void order_met(const Clocks *k, const Warp *w, const Clock *what)
{
  WarpOrder *o = &k->orders[agent_of(k, w)];
  if (!o->met) o->met = clock_new(k);
  clock_join(k, o->met, what);
}

/* --- proxies --- */

/* What is known becomes visible to the async proxy: own writes before, and those of others that were met. */
void order_proxy_fence(const Clocks *k, Clock *own)
{
  for (unsigned i = 0; i < k->warps; i++)
    own->v[global_fence(k, i)] = own->v[i];
  for (uint32_t uid = 0; own->foreign && uid < own->foreign->n; uid++) {
    const Snapshot *s = own->foreign->of[uid];
    if (!s || s == SNAPSHOT_ALL || uid == k->uid) continue;
    uint32_t warps = s->warps, first = s->length - warps;
    if (memcmp(s->v, s->v + first, warps * sizeof(uint32_t)) == 0) continue;
    Snapshot *seen = snapshot_new(s->v, s->length, warps);
    memcpy(seen->v + first, s->v, warps * sizeof(uint32_t));
    own->foreign = knowledge_add(own->foreign, uid, seen);
  }
}

/* --- a session --- */

void order_session_init(Session *session)
{
  session->locations = g_hash_table_new_full(NULL, NULL, NULL, location_free);
}

void order_session_free(Session *session)
{
  g_clear_pointer(&session->locations, g_hash_table_destroy);
}

/* --- launches that overlap --- */

void race_launch_wait(Warp *w)
{
  Clocks *k = clocks_of(w);
  const Run *run = w->block->cluster->run;
  const Session *session = run->session;
  for (unsigned i = 0; k && i < run->n_after; i++)
    for (unsigned r = 0; r < session->n_runs && run->after[i].dependent; r++)
      if (session->runs[r].index == run->after[i].launch) learn(k, w, session->runs[r].ended);
}

void race_cluster_end(Cluster *c)
{
  Clocks *k = c->check;
  Run *run = c->run;
  if (!k || run->session->n_runs < 2) return;
  for (unsigned i = 0; i < k->warps; i++)
    run->ended = knowledge_join(run->ended, clock_of(k, i)->foreign);
  run->ended = knowledge_add(run->ended, k->uid, SNAPSHOT_ALL);
}

/* Launches that have ended before: also those that they have not waited for themselves. */
static void know_end(Run *run, const Run *before)
{
  const Session *session = run->session;
  run->known_at_start = knowledge_join(run->known_at_start, before->ended);
  for (unsigned i = 0; i < before->n_after; i++)
    for (unsigned r = 0; r < session->n_runs; r++)
      if (session->runs[r].index == before->after[i].launch) know_end(run, &session->runs[r]);
}

void race_launch_start(Run *run)
{
  const Session *session = run->session;
  for (unsigned i = 0; i < run->n_after; i++)
    for (unsigned r = 0; r < session->n_runs; r++) {
      const Run *before = &session->runs[r];
      if (before->index != run->after[i].launch) continue;
      if (run->after[i].dependent)
        run->known_at_start = knowledge_join(run->known_at_start, before->known_at_start);
      else
        know_end(run, before);
    }
}

void race_launch_free(Run *run)
{
  knowledge_unref(g_steal_pointer(&run->known_at_start));
  knowledge_unref(g_steal_pointer(&run->ended));
}
