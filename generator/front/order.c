#include "generator/front/order.h"

/* Edges by what is waited for: those of i are at begin[i] .. begin[i + 1]. */
typedef struct {
  unsigned *begin, *waiting, *missing; /* missing[i]: edges to i whose first is not taken */
  unsigned *round;
} Edges;

static void index_edges(Edges *e, unsigned n, const OrderEdge *edges, unsigned n_edges)
{
  for (unsigned i = 0; i < n_edges; i++) {
    e->begin[edges[i].first + 1]++;
    e->missing[edges[i].second]++;
  }
  for (unsigned i = 0; i < n; i++)
    e->begin[i + 1] += e->begin[i];
  g_autofree unsigned *filled = g_new0(unsigned, n + 1);
  for (unsigned i = 0; i < n_edges; i++) {
    unsigned first = edges[i].first;
    e->waiting[e->begin[first] + filled[first]++] = edges[i].second;
  }
}

/* Which time the list is gone over each is taken: in the round of the last that it waits for, or in the next one
 * if that stands behind it. Returns how many are taken; `taken` holds them. */
static unsigned find_rounds(Edges *e, unsigned n, unsigned *taken)
{
  unsigned n_taken = 0;
  for (unsigned i = 0; i < n; i++)
    if (!e->missing[i]) taken[n_taken++] = i;
  for (unsigned next = 0; next < n_taken; next++) {
    unsigned first = taken[next];
    for (unsigned i = e->begin[first]; i < e->begin[first + 1]; i++) {
      unsigned second = e->waiting[i];
      e->round[second] = MAX(e->round[second], e->round[first] + (second < first));
      if (!--e->missing[second]) taken[n_taken++] = second;
    }
  }
  return n_taken;
}

unsigned order_by_rounds(unsigned n, const OrderEdge *edges, unsigned n_edges, unsigned *order)
{
  g_autofree unsigned *begin = g_new0(unsigned, n + 2), *waiting = g_new0(unsigned, n_edges + 1);
  g_autofree unsigned *missing = g_new0(unsigned, n + 1), *round = g_new0(unsigned, n + 1);
  g_autofree unsigned *taken = g_new0(unsigned, n + 1), *at = g_new0(unsigned, n + 2);
  g_autofree gboolean *is_taken = g_new0(gboolean, n + 1);
  Edges e = {begin, waiting, missing, round};
  index_edges(&e, n, edges, n_edges);
  unsigned n_taken = find_rounds(&e, n, taken);
  for (unsigned i = 0; i < n_taken; i++) {
    is_taken[taken[i]] = TRUE;
    at[round[taken[i]] + 1]++;
  }
  for (unsigned i = 0; i < n; i++)
    at[i + 1] += at[i];
  for (unsigned i = 0; i < n; i++) /* within a round as listed */
    if (is_taken[i]) order[at[round[i]]++] = i;
  return n_taken;
}
