/* Tensor stores that lie wholly outside of their tensor.
 *
 * The tile at the end of a tensor is stored in part: boxes of it that lie beyond are not stored at all, and blocks of a
 * cluster that have no tile of their own left, but copy for the others, store nothing else. Each such box stands
 * behind another one of its cluster, box by box, back to one that begins inside. A box that stands behind none
 * has a wrong coordinate. When a cluster has ended, all its boxes are known. */
#include "simulator/copy.h"
#include <string.h>

/* A store whose box reaches the end of the tensor, or lies behind it; or where such a box ends: boxes of a row may be of
 * several widths. */
typedef struct EdgeStore {
  uint64_t tensor; /* its address */
  int32_t at[5];   /* coordinates */
  uint32_t ends;   /* 0: the box begins there; d + 1: it ends there along dimension d */
  Warp *warp;
  const Inst *in;
  unsigned lane;
  TensorMap map;
} EdgeStore;
#define KEY_BYTES (sizeof(uint64_t) + 5 * sizeof(int32_t) + sizeof(uint32_t))

static unsigned edge_hash(const void *key)
{
  const uint8_t *bytes = key;
  uint32_t h = 2166136261u;
  for (size_t i = 0; i < KEY_BYTES; i++)
    h = (h ^ bytes[i]) * 16777619u;
  return h;
}

static gboolean edge_equal(const void *a, const void *b)
{
  return memcmp(a, b, KEY_BYTES) == 0;
}

static bool is_outside(const EdgeStore *e, unsigned dimension)
{
  return (int64_t)e->at[dimension] > (int64_t)e->map.dims[dimension];
}

void store_edge_note(const BulkOperation *op)
{
  const TensorMap *map = &op->map;
  Cluster *c = op->base.warp->block->cluster;
  bool edge = false;
  for (unsigned i = 0; i < map->rank; i++)
    edge |= (int64_t)op->coordinates[i] + map->box[i] > (int64_t)map->dims[i];
  if (!edge) return;
  EdgeStore key = {.tensor = map->address};
  memcpy(key.at, op->coordinates, map->rank * sizeof key.at[0]);
  if (!c->edge_stores) c->edge_stores = g_hash_table_new_full(edge_hash, edge_equal, g_free, NULL);
  if (g_hash_table_contains(c->edge_stores, &key)) return;
  EdgeStore *e = g_memdup2(&key, sizeof key);
  e->warp = op->base.warp;
  e->in = op->base.in;
  e->lane = op->base.lane;
  e->map = *map;
  g_hash_table_add(c->edge_stores, e);
  for (unsigned i = 0; i < map->rank; i++) {
    EdgeStore *end = g_memdup2(e, sizeof *e);
    end->ends = i + 1;
    end->at[i] += (int32_t)map->box[i];
    g_hash_table_add(c->edge_stores, end);
  }
}

/* The first dimension in which the box stands outside and behind no other; the rank: there is none. */
static unsigned stray_dimension(GHashTable *stores, const EdgeStore *e)
{
  for (unsigned i = 0; i < e->map.rank; i++) {
    if (!is_outside(e, i)) continue;
    EdgeStore before = *e;
    before.ends = i + 1;
    if (!g_hash_table_contains(stores, &before)) return i;
  }
  return e->map.rank;
}

/* Reports do not depend on the order of a table. */
static int compare(const void *a, const void *b)
{
  const EdgeStore *x = *(EdgeStore *const *)a, *y = *(EdgeStore *const *)b;
  int order = x->in < y->in ? -1 : x->in > y->in;
  for (unsigned i = 5; i-- > 0 && !order;)
    order = x->at[i] < y->at[i] ? -1 : x->at[i] > y->at[i];
  return order ? order : x->tensor < y->tensor ? -1 : x->tensor > y->tensor;
}

void store_edge_check(Cluster *c)
{
  if (!c->edge_stores) return;
  g_autoptr(GPtrArray) stray = g_ptr_array_new();
  GHashTableIter iter;
  void *key = NULL;
  g_hash_table_iter_init(&iter, c->edge_stores);
  while (g_hash_table_iter_next(&iter, &key, NULL)) {
    const EdgeStore *e = key;
    if (!e->ends && stray_dimension(c->edge_stores, e) < e->map.rank) g_ptr_array_add(stray, key);
  }
  g_ptr_array_sort(stray, compare);
  for (unsigned i = 0; i < stray->len; i++) {
    const EdgeStore *e = stray->pdata[i];
    unsigned d = stray_dimension(c->edge_stores, e);
    fault_party(
        e->warp, e->in, e->lane, SIM_FAULT_BOUNDS, !c->run->ours, e->tensor, NULL,
        "the box of a tensor store begins at %d of dimension %u, which has %llu, and behind no other box: "
        "nothing is stored",
        e->at[d], d, (unsigned long long)e->map.dims[d] + 1);
  }
}

void store_edge_free(Cluster *c)
{
  if (c->edge_stores) g_hash_table_destroy(c->edge_stores);
  c->edge_stores = NULL;
}
