/* See knowledge.h. */
#include "simulator/knowledge.h"
#include <glib.h>
#include <string.h>

const Snapshot snapshot_all = {.references = 1};

Snapshot *snapshot_new(const uint32_t *v, uint32_t length, uint32_t warps)
{
  Snapshot *s = g_malloc(sizeof *s + length * sizeof(uint32_t));
  *s = (Snapshot){.references = 1, .length = length, .warps = warps};
  memcpy(s->v, v, length * sizeof(uint32_t));
  return s;
}

Snapshot *snapshot_ref(Snapshot *s)
{
  if (s && s != SNAPSHOT_ALL) s->references++;
  return s;
}

void snapshot_unref(Snapshot *s)
{
  if (s && s != SNAPSHOT_ALL && !--s->references) g_free(s);
}

static bool covers(const Snapshot *a, const Snapshot *b)
{
  for (uint32_t i = 0; i < a->length; i++)
    if (a->v[i] < b->v[i]) return false;
  return true;
}

/* A reference to what a and b say together. Of two partial releases the newer one's exclusion stays. */
static Snapshot *snapshot_union(Snapshot *a, Snapshot *b)
{
  if (a == SNAPSHOT_ALL || b == SNAPSHOT_ALL) return SNAPSHOT_ALL;
  if (!a || !b || a == b) return snapshot_ref(a ? a : b);
  bool more = covers(a, b), less = covers(b, a);
  if (more && less) return snapshot_ref(a->excluded ? b : a);
  if (more || less) return snapshot_ref(more ? a : b);
  Snapshot *s = snapshot_new(a->v, a->length, a->warps);
  for (uint32_t i = 0; i < s->length; i++)
    s->v[i] = MAX(s->v[i], b->v[i]);
  const Snapshot *partial = a->excluded && s->v[a->agent] == a->clock ? a : b;
  if (partial->excluded && s->v[partial->agent] == partial->clock) {
    s->agent = partial->agent;
    s->clock = partial->clock;
    s->synced = partial->synced;
    s->excluded = partial->excluded;
  }
  return s;
}

Knowledge *knowledge_ref(Knowledge *k)
{
  if (k) k->references++;
  return k;
}

void knowledge_unref(Knowledge *k)
{
  if (!k || --k->references) return;
  for (uint32_t i = 0; i < k->n; i++)
    snapshot_unref(k->of[i]);
  g_free(k->of);
  g_free(k);
}

/* One that may be written and has room for n entries; takes k over. */
static Knowledge *writable(Knowledge *k, uint32_t n)
{
  if (k && k->references == 1) {
    if (n <= k->n) return k;
    k->of = g_renew(Snapshot *, k->of, n);
    memset(k->of + k->n, 0, (n - k->n) * sizeof(Snapshot *));
    k->n = n;
    return k;
  }
  Knowledge *own = g_new0(Knowledge, 1);
  own->references = 1;
  own->n = MAX(n, k ? k->n : 0);
  own->of = g_new0(Snapshot *, own->n);
  for (uint32_t i = 0; k && i < k->n; i++)
    own->of[i] = snapshot_ref(k->of[i]);
  knowledge_unref(k);
  return own;
}

Knowledge *knowledge_join(Knowledge *into, Knowledge *from)
{
  if (!from || into == from) return into;
  if (!into) return knowledge_ref(from);
  for (uint32_t i = 0; i < from->n; i++) {
    if (!from->of[i] || knowledge_of(into, i) == from->of[i]) continue;
    Snapshot *s = snapshot_union(knowledge_of(into, i), from->of[i]);
    if (s == knowledge_of(into, i)) {
      snapshot_unref(s);
      continue;
    }
    into = writable(into, from->n);
    snapshot_unref(into->of[i]);
    into->of[i] = s;
  }
  return into;
}

Knowledge *knowledge_add(Knowledge *into, uint32_t uid, Snapshot *s)
{
  Snapshot *sum = snapshot_union(knowledge_of(into, uid), s);
  snapshot_unref(s);
  into = writable(into, uid + 1);
  snapshot_unref(into->of[uid]);
  into->of[uid] = sum;
  return into;
}
