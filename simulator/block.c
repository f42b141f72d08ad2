/* Clusters, blocks and warps: their memory and their first state. */
#include "simulator/copy.h"
#include "simulator/product.h"
#include "simulator/race.h"
#include <string.h>

static uint32_t special_value(const Block *b, const Warp *w, unsigned lane, const char *name)
{
  const Run *run = b->cluster->run;
  unsigned axis = name[strlen(name) - 1] - 'x', t = w->id * LANES + lane;
  const uint32_t *ntid = run->block;
  uint32_t tid[3] = {t % ntid[0], t / ntid[0] % ntid[1], t / ntid[0] / ntid[1]};
  uint32_t eq = 1u << lane;
  if (g_str_has_prefix(name, "%tid.")) return tid[axis];
  if (g_str_has_prefix(name, "%ntid.")) return ntid[axis];
  if (g_str_has_prefix(name, "%ctaid.")) return b->id[axis];
  if (g_str_has_prefix(name, "%nctaid.")) return run->grid[axis];
  if (g_str_has_prefix(name, "%clusterid.")) return b->cluster->id[axis];
  if (g_str_has_prefix(name, "%nclusterid.")) return run->grid[axis] / run->cluster[axis];
  if (g_str_has_prefix(name, "%cluster_ctaid.")) return b->id[axis] % run->cluster[axis];
  if (g_str_has_prefix(name, "%cluster_nctaid.")) return run->cluster[axis];
  if (strcmp(name, "%cluster_ctarank") == 0) return b->rank;
  if (strcmp(name, "%cluster_nctarank") == 0) return b->cluster->n_blocks;
  if (strcmp(name, "%laneid") == 0) return lane;
  if (strcmp(name, "%warpid") == 0) return w->id;
  if (strcmp(name, "%nwarpid") == 0) return b->n_warps;
  if (strcmp(name, "%lanemask_eq") == 0) return eq;
  if (strcmp(name, "%lanemask_lt") == 0) return eq - 1;
  if (strcmp(name, "%lanemask_le") == 0) return eq | (eq - 1);
  if (strcmp(name, "%lanemask_gt") == 0) return ~(eq | (eq - 1));
  if (strcmp(name, "%lanemask_ge") == 0) return ~(eq - 1);
  if (strcmp(name, "%dynamic_smem_size") == 0) return (uint32_t)run->dynamic_shared;
  if (strcmp(name, "%total_smem_size") == 0) return (uint32_t)b->shared_bytes;
  if (strcmp(name, "%envreg2") == 0) return (uint32_t)run->workspace;
  if (strcmp(name, "%envreg1") == 0) return (uint32_t)(run->workspace >> 32);
  if (g_str_has_prefix(name, "%reserved_smem_offset_"))
    return strcmp(name, "%reserved_smem_offset_begin") ? (uint32_t)run->kernel->shared_base : 0;
  if (strcmp(name, "%aggr_smem_size") == 0) return (uint32_t)b->shared_bytes;
  if (strcmp(name, "%nsmid") == 0) return run->sm_count;
  if (strcmp(name, "%smid") == 0)
    return (b->id[0] + run->grid[0] * (b->id[1] + run->grid[1] * b->id[2])) % run->sm_count;
  return 0;
}

static void set_specials(Block *b, Warp *w)
{
  const Kernel *k = b->cluster->run->kernel;
  for (unsigned i = 0; i < k->n_specials; i++) {
    const SpecialUse *use = &k->specials[i];
    if (w->undefined) memset(w->undefined + use->slot, 0, (ptx_type_bytes(use->type) > 4 ? 2 : 1) * 4);
    if (use->type == TYPE_PRED) {
      *(uint32_t *)operand(w, use->slot) = b->cluster->n_blocks > 1 ? FULL : 0;
      continue;
    }
    bool of_lane = g_str_has_prefix(use->name, "%tid.") || g_str_has_prefix(use->name, "%lane");
    uint32_t v = 0;
    for (unsigned l = 0; l < LANES; l++) {
      if (of_lane || l == 0) v = special_value(b, w, l, use->name);
      if (ptx_type_bytes(use->type) == 8)
        ((uint64_t *)operand(w, use->slot))[l] = v;
      else
        ((uint32_t *)operand(w, use->slot))[l] = v;
    }
  }
}

static void warp_init(Block *b, unsigned id, uint8_t *registers)
{
  Run *run = b->cluster->run;
  const Kernel *k = run->kernel;
  Warp *w = &b->warps[id];
  unsigned lanes = MIN(LANES, b->threads - id * LANES);
  w->registers = registers;
  w->constants = k->constants;
  w->block = b;
  w->id = id;
  w->live = lanes == LANES ? FULL : (1u << lanes) - 1;
  w->groups[0] = (Group){.mask = w->live, .join = -1};
  w->n_groups = 1;
  w->time = 1;
  w->copies = async_copies_new();
  w->bulk = g_ptr_array_new();
  w->products = g_array_new(FALSE, FALSE, sizeof(Product));
  w->registers_owned = run->registers_per_thread;
  if (k->local_bytes) w->local = g_malloc0(k->local_bytes * LANES);
  if (run->track_undefined) {
    w->undefined = g_new(uint32_t, k->n_slots);
    memset(w->undefined, 0xff, k->n_slots * sizeof(uint32_t));
    memset(w->undefined, 0, 4 * sizeof(uint32_t)); /* the sink */
    w->unknown = g_malloc0(k->n_slots * sizeof w->unknown[0]);
    if (k->has_products) {
      w->in_flight = g_new0(uint8_t, k->n_slots);
      w->write_time = g_new0(uint32_t, k->n_slots);
    }
  }
  set_specials(b, w);
  if (!k->stack_top) return;
  for (unsigned l = 0; l < LANES; l++)
    ((uint64_t *)operand(w, k->stack_top))[l] = k->stack_start;
  set_undefined(w, k->stack_top, FULL, 0);
}

/* ---- Registers and shared memory ---- */

#define ALIGNMENT 128

/* What a block that has ended leaves is cleared and goes to the next one: fresh pages for each would cost more than the
 * work of a small block. In front of the memory stands what it is part of. */
typedef struct Memory {
  void *whole;
  uint64_t bytes;
} Memory;

static Memory *memory_of(uint8_t *bytes)
{
  return (Memory *)(void *)bytes - 1;
}

/* Among what blocks have left, the latest that is large enough; if all are too small, one of them goes. */
static uint8_t *take_left(Session *s, uint64_t bytes)
{
  unsigned n = s->left->len, i = n;
  while (i > 0 && memory_of(s->left->pdata[i - 1])->bytes < bytes)
    i--;
  return n ? g_ptr_array_steal_index_fast(s->left, i > 0 ? i - 1 : n - 1) : NULL;
}

static uint8_t *take_memory(Session *s, uint64_t bytes)
{
  g_mutex_lock(&s->lock);
  uint8_t *left = take_left(s, bytes);
  g_mutex_unlock(&s->lock);
  if (left && memory_of(left)->bytes >= bytes) return memset(left, 0, bytes);
  if (left) g_free(memory_of(left)->whole);
  uint8_t *whole = g_malloc0(bytes + sizeof(Memory) +
                             ALIGNMENT); /* large: pages that are touched at their first use only */
  uint8_t *memory = whole + sizeof(Memory);
  memory += -(uintptr_t)memory % ALIGNMENT;
  *memory_of(memory) = (Memory){whole, bytes};
  return memory;
}

static void leave_memory(Session *s, uint8_t *memory)
{
  g_mutex_lock(&s->lock);
  g_ptr_array_add(s->left, memory);
  g_mutex_unlock(&s->lock);
}

void block_memory_free(Session *s)
{
  for (unsigned i = 0; i < s->left->len; i++)
    g_free(memory_of(s->left->pdata[i])->whole);
  g_ptr_array_free(s->left, TRUE);
}

/* ---- First states ---- */

static void block_init(Cluster *c, unsigned rank)
{
  Run *run = c->run;
  const Kernel *k = run->kernel;
  Block *b = &c->blocks[rank];
  b->cluster = c;
  b->rank = rank;
  unsigned in[3] = {rank % run->cluster[0], rank / run->cluster[0] % run->cluster[1],
                    rank / run->cluster[0] / run->cluster[1]};
  for (unsigned i = 0; i < 3; i++)
    b->id[i] = c->id[i] * run->cluster[i] + in[i];
  b->threads = run->block[0] * run->block[1] * run->block[2];
  b->n_warps = b->live_warps = (b->threads + LANES - 1) / LANES;
  b->shared_bytes = run->shared_end;
  b->shared_base = k->shared_base;
  b->shared = take_memory(run->session, b->shared_bytes + 16);
  if (run->track_undefined) b->defined = g_new0(uint64_t, b->shared_bytes / 64 + 2);
  b->warps = g_new0(Warp, b->n_warps);
  b->mbarriers = g_array_new(FALSE, TRUE, sizeof(Mbarrier));
  size_t bytes = (size_t)k->n_slots * SLOT_BYTES;
  b->memory = take_memory(run->session, b->n_warps * bytes);
  b->register_pool = 0;
  if (k->has_products) b->product_cache = g_new0(ProductCache *, b->n_warps / 4 + 1);
  if (k->has_products) b->product_log = g_malloc0((b->n_warps / 4 + 1) * sizeof b->product_log[0]);
  for (unsigned i = 0; i < b->n_warps; i++)
    warp_init(b, i, b->memory + i * bytes);
}

Cluster *cluster_new(Run *run, uint64_t index)
{
  Cluster *c = g_new0(Cluster, 1);
  c->run = run;
  c->index = index;
  uint64_t nx = run->grid[0] / run->cluster[0], ny = run->grid[1] / run->cluster[1];
  c->id[0] = (uint32_t)(index % nx);
  c->id[1] = (uint32_t)(index / nx % ny);
  c->id[2] = (uint32_t)(index / nx / ny);
  c->n_blocks = c->live_blocks = run->cluster[0] * run->cluster[1] * run->cluster[2];
  c->blocks = g_new0(Block, c->n_blocks);
  c->random = run->seed * 0x9e3779b97f4a7c15ull + index * 2 + 1;
  g_queue_init(&c->pending);
  for (unsigned i = 0; i < c->n_blocks; i++)
    block_init(c, i);
  c->barrier.expected = c->n_blocks * c->blocks[0].threads;
  race_cluster_init(c);
  return c;
}

void cluster_free(Cluster *c)
{
  __atomic_fetch_add(&c->run->instructions, c->instructions, __ATOMIC_RELAXED);
  print_finish_cluster(c);
  race_cluster_free(c);
  for (unsigned i = 0; i < c->n_blocks; i++) {
    Block *b = &c->blocks[i];
    for (unsigned k = 0; k < b->n_warps; k++) {
      Warp *w = &b->warps[k];
      async_warp_free(w);
      call_warp_free(w);
      poll_free(w);
      g_free(w->undefined);
      g_free(w->unknown);
      g_free(w->in_flight);
      g_free(w->write_time);
      g_free(w->joins);
      g_free(w->local);
    }
    g_free(b->warps);
    g_free(b->defined);
    g_free(b->layouts);
    if (b->boxes) g_array_free(b->boxes, TRUE);
    for (unsigned k = 0; b->product_cache && k <= b->n_warps / 4; k++)
      g_aligned_free(b->product_cache[k]);
    g_free(b->product_cache);
    g_free(b->product_log);
    g_array_free(b->mbarriers, TRUE);
    leave_memory(c->run->session, b->shared);
    leave_memory(c->run->session, b->memory);
  }
  g_queue_clear_full(&c->pending, g_free);
  g_free(c->blocks);
  g_aligned_free(c->operands);
  store_edge_free(c);
  g_free(c);
}
