/* What is known of other clusters: which of their accesses have happened before.
 *
 * Within a cluster clocks are plain vectors (race_clock.h). Across clusters they travel as Knowledge: a table
 * with one Snapshot of a cluster's vector per cluster, both counted and never changed once shared. Clusters
 * are numbered through all launches that may overlap (their uid). Only the ordered mode, which has one
 * thread, makes any: nothing here is safe for several. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A cluster's vector at one release. partial: the releasing warp's other lanes, whose writes from `synced` on
 * are not released (the release was one lane's). */
typedef struct Snapshot {
  int references;
  uint32_t length, warps;                  /* of v; of the cluster */
  uint32_t agent, clock, synced, excluded; /* excluded 0: nothing is left out */
  uint32_t v[];
} Snapshot;

typedef struct Knowledge {
  int references;
  uint32_t n;    /* entries, by uid */
  Snapshot **of; /* NULL: nothing; SNAPSHOT_ALL: the cluster has ended and everything of it is known */
} Knowledge;

extern const Snapshot snapshot_all; /* never written */
#define SNAPSHOT_ALL ((Snapshot *)&snapshot_all)

Snapshot *snapshot_new(const uint32_t *v, uint32_t length, uint32_t warps); /* copies; one reference */
Snapshot *snapshot_ref(Snapshot *s);
void snapshot_unref(Snapshot *s);

Knowledge *knowledge_ref(Knowledge *k); /* NULL stays NULL, here and below: nothing is known */
void knowledge_unref(Knowledge *k);
/* Takes over `into` and gives the union. */
Knowledge *knowledge_join(Knowledge *into, Knowledge *from);
/* The same with one cluster's snapshot, which it takes over. */
Knowledge *knowledge_add(Knowledge *into, uint32_t uid, Snapshot *s);

static inline Snapshot *knowledge_of(const Knowledge *k, uint32_t uid)
{
  return k && uid < k->n ? k->of[uid] : NULL;
}
