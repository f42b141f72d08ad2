/* Names beside shared addresses: the variable, and the slot of a ring of mbarriers. */
#include "simulator/machine.h"
#include <string.h>

static const SharedVariable *variable_at(const Kernel *k, uint64_t address)
{
  for (unsigned i = 0; i < k->n_shared_variables; i++) {
    const SharedVariable *v = &k->shared_variables[i];
    if (address >= v->begin && address < v->end) return v;
  }
  return NULL;
}

static const Mbarrier *live_at(const Block *b, uint64_t offset)
{
  for (unsigned i = 0; i < b->mbarriers->len; i++) {
    const Mbarrier *m = &g_array_index(b->mbarriers, Mbarrier, i);
    if (m->live && m->offset == offset) return m;
  }
  return NULL;
}

/* Mbarriers side by side with the same count are a ring. */
static unsigned neighbours(const Block *b, const Mbarrier *m, int step)
{
  unsigned n = 0;
  for (int64_t at = (int64_t)m->offset + step; at >= 0; at += step, n++) {
    const Mbarrier *o = live_at(b, (uint64_t)at);
    if (!o || o->count != m->count) break;
  }
  return n;
}

SharedName shared_name(const Block *b, uint64_t offset)
{
  SharedName name;
  const SharedVariable *v = variable_at(b->cluster->run->kernel, offset);
  int n = g_snprintf(name.text, sizeof name.text, "shared 0x%llx", (unsigned long long)offset);
  unsigned long long inside = v ? offset - v->begin : 0;
  if (v && inside)
    n += g_snprintf(name.text + n, sizeof name.text - (size_t)n, " (%.40s+%llu)", v->name, inside);
  else if (v)
    n += g_snprintf(name.text + n, sizeof name.text - (size_t)n, " (%.40s)", v->name);
  const Mbarrier *m = live_at(b, offset);
  unsigned before = m ? neighbours(b, m, -8) : 0, behind = m ? neighbours(b, m, 8) : 0;
  if (before + behind)
    g_snprintf(name.text + n, sizeof name.text - (size_t)n, ", slot %u of %u", before, before + behind + 1);
  return name;
}
