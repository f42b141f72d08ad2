/* Deadlocks: who waits for what, the cause first.
 *
 * Of all that wait, some wait for what can never come, whoever else goes on: a barrier with too few threads left, bytes
 * that nobody copies, registers that nobody gives back. Others wait for these. The report begins with the former. */
#include "simulator/machine.h"

#define MOST_LINES 64

/* Smaller: nearer to the cause. */
typedef enum { RANK_NEVER, RANK_LEFT, RANK_POLLS, RANK_LANES, RANK_OTHERS, RANK_LAUNCH } Rank;

typedef struct Waiting {
  Warp *warp;
  unsigned group;
  Rank rank;
  char *what;
} Waiting;

/* The instruction that made the group wait: most waits leave it behind. */
static const Inst *waiting_instruction(const Warp *w, const Group *g)
{
  const Inst *in = &w->block->cluster->run->kernel->code[g->pc];
  bool behind = g->wait.kind == WAIT_BARRIER || g->wait.kind == WAIT_SPIN || g->wait.kind == WAIT_MEMORY;
  return behind && g->pc ? in - 1 : in;
}

/* Threads of the block that do not wait at the barrier, and could still come to it. */
static unsigned threads_elsewhere(const Block *b, unsigned barrier)
{
  unsigned n = 0;
  for (unsigned i = 0; i < b->n_warps; i++) {
    const Warp *w = &b->warps[i];
    uint32_t here = 0;
    for (unsigned k = 0; k < w->n_groups; k++)
      if (w->groups[k].wait.kind == WAIT_BARRIER && w->groups[k].wait.id == barrier)
        here |= w->groups[k].mask;
    n += w->live & ~here ? LANES : 0; /* a warp counts as a whole */
  }
  return n;
}

static Rank describe_barrier(GString *out, const Warp *w, const Group *g)
{
  const Barrier *b = &w->block->barriers[g->wait.id];
  unsigned more = threads_elsewhere(w->block, g->wait.id);
  g_string_append_printf(out, "barrier %u, %u of %u threads have arrived", g->wait.id, b->arrived,
                         b->expected);
  if (b->full || b->arrived + more >= b->expected) return RANK_OTHERS;
  g_string_append_printf(out, "; only %u more are left in the block", more);
  return RANK_NEVER;
}

static const Mbarrier *mbarrier_at(const Block *b, uint32_t offset)
{
  for (unsigned i = 0; i < b->mbarriers->len; i++) {
    const Mbarrier *m = &g_array_index(b->mbarriers, Mbarrier, i);
    if (m->offset == offset) return m;
  }
  return NULL;
}

/* Nothing is in flight any more: bytes that are missing were never copied. */
static Rank describe_mbarrier(GString *out, const Warp *w, const Group *g)
{
  const Mbarrier *m = mbarrier_at(g->wait.block, g->wait.id);
  g_string_append_printf(out, "phase %llu of the mbarrier at %s", (unsigned long long)g->wait.value,
                         shared_name(g->wait.block, g->wait.id).text);
  if (!m) return RANK_OTHERS;
  if (m->pending) g_string_append_printf(out, ", %u of %u arrivals are missing", m->pending, m->count);
  if (m->transactions > 0)
    g_string_append_printf(out, ", %lld bytes more are expected than were copied",
                           (long long)m->transactions);
  if (m->transactions < 0)
    g_string_append_printf(out, ", %lld bytes more were copied than are expected",
                           (long long)-m->transactions);
  if (m->left_out && m->transactions > 0)
    g_string_append_printf(out,
                           "; the multicast copy at line %u has the mask 0x%x, without this block (rank %u)",
                           m->left_out->source->mark.line, m->left_out_mask, g->wait.block->rank);
  /* arrivals may carry the announcement of bytes that have come already */
  if (!m->pending) return RANK_NEVER;
  if (m->left_out && m->transactions > 0) return RANK_NEVER;
  if (m->transactions || m->pending < m->count) return RANK_LEFT;
  if (!m->last_arrival || !m->last_arrival->live) {
    g_string_append(out, m->last_arrival ? "; who arrived there last has ended"
                                         : "; nobody has ever arrived there");
    return RANK_LEFT;
  }
  return RANK_OTHERS;
}

static Rank describe_pool(GString *out, const Warp *w, const Inst *in)
{
  const Run *run = w->block->cluster->run;
  int64_t need = (in->immediate - w->registers_owned) * LANES;
  g_string_append_printf(
      out,
      "setmaxnreg.inc to %lld needs %lld registers more for the warp, and the block's pool has %lld: "
      "%u registers at entry for each of %llu threads, less what others have taken, and given back",
      (long long)in->immediate, (long long)need, (long long)w->block->register_pool,
      run->registers_per_thread, (unsigned long long)run->threads);
  return RANK_NEVER;
}

static Rank describe_lanes(GString *out, const Warp *w, const Group *g)
{
  uint32_t missing = g->wait.needed & w->live;
  const Inst *elsewhere = NULL;
  for (unsigned k = 0; k < w->n_groups; k++) {
    const Group *o = &w->groups[k];
    if (o->pc == g->pc)
      missing &= ~o->mask;
    else if (!elsewhere && o->mask & g->wait.needed)
      elsewhere = waiting_instruction(w, o);
  }
  g_string_append_printf(out, "the other lanes of the warp (%08x needed, %08x missing", g->wait.needed,
                         missing);
  if (elsewhere) g_string_append_printf(out, ", which are at line %u", elsewhere->source->mark.line);
  g_string_append_c(out, ')');
  return RANK_LANES;
}

static Rank describe_wait(GString *out, const Warp *w, const Group *g)
{
  const Inst *in = waiting_instruction(w, g);
  g_string_append_printf(out, "block (%u,%u,%u) warp %u lanes %08x at line %u: ", w->block->id[0],
                         w->block->id[1], w->block->id[2], w->id, g->mask, in->source->mark.line);
  const ClusterBarrier *cluster = &w->block->cluster->barrier;
  switch (g->wait.kind) {
  case WAIT_BARRIER: return describe_barrier(out, w, g);
  case WAIT_MBARRIER: return describe_mbarrier(out, w, g);
  case WAIT_POOL: return describe_pool(out, w, in);
  case WAIT_LANES: return describe_lanes(out, w, g);
  case WAIT_CLUSTER:
    g_string_append_printf(out, "the cluster barrier, %u of %u threads have arrived", cluster->arrived,
                           cluster->expected);
    return RANK_OTHERS;
  case WAIT_SPIN: g_string_append(out, "polls something that does not change"); return RANK_POLLS;
  case WAIT_MEMORY: poll_describe(out, w, g->wait.id, g->wait.needed); return RANK_POLLS;
  case WAIT_LAUNCH: g_string_append(out, "the end of the launches before"); return RANK_LAUNCH;
  case WAIT_PRODUCT:
    g_string_append(out, "the other warps of the warpgroup, which have not issued the same products");
    return RANK_LEFT;
  default: g_string_append(out, "the other lanes at the end of a branch"); return RANK_OTHERS;
  }
}

static void waiting_clear(void *data)
{
  g_free(((Waiting *)data)->what);
}

static int by_rank(const void *a, const void *b, void *first)
{
  const Waiting *x = a, *y = b;
  if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
  return 0; /* g_array_sort_with_data is stable */
}

static GArray *list_waiting(Cluster **clusters, unsigned n)
{
  GArray *list = g_array_new(FALSE, TRUE, sizeof(Waiting));
  g_array_set_clear_func(list, waiting_clear);
  for (unsigned i = 0; i < n; i++)
    for (unsigned b = 0; b < clusters[i]->n_blocks; b++)
      for (unsigned k = 0; k < clusters[i]->blocks[b].n_warps; k++) {
        Warp *w = &clusters[i]->blocks[b].warps[k];
        for (unsigned g = 0; g < w->n_groups; g++) {
          GString *what = g_string_new(NULL);
          Waiting x = {w, g, RANK_OTHERS, NULL};
          x.rank = describe_wait(what, w, &w->groups[g]);
          x.what = g_string_free(what, FALSE);
          g_array_append_val(list, x);
        }
      }
  g_array_sort_with_data(list, by_rank, NULL);
  return list;
}

void report_deadlock(Cluster **clusters, unsigned n, const char *note)
{
  g_autoptr(GArray) list = list_waiting(clusters, n);
  if (!list->len) return;
  g_autoptr(GString) text = g_string_new("nobody can go on");
  if (note) g_string_append_printf(text, "; %s", note);
  for (unsigned i = 0; i < MIN(list->len, MOST_LINES); i++) {
    const Waiting *x = &g_array_index(list, Waiting, i);
    bool cause = x->rank <= RANK_LEFT, after = i && g_array_index(list, Waiting, i - 1).rank <= RANK_LEFT;
    if (!cause && after) g_string_append(text, "\n  others wait:");
    g_string_append_printf(text, "\n  %s%s", x->rank == RANK_NEVER ? "never comes: " : "", x->what);
  }
  if (list->len > MOST_LINES) g_string_append_printf(text, "\n  and %u more", list->len - MOST_LINES);
  const Waiting *first = &g_array_index(list, Waiting, 0);
  first->warp->next_group = first->group;
  const Group *g = &first->warp->groups[first->group];
  fault(first->warp, waiting_instruction(first->warp, g), first_lane(g->mask), SIM_FAULT_DEADLOCK, 0, "%s",
        text->str);
}
