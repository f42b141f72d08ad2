#include "plan/launch_set.h"
#include <string.h>

static uint8_t byte_at(const LaunchSet *set, unsigned i)
{
  unsigned first = set->full / 8;
  if (i < first) return 0xff;
  uint8_t below = i == first ? (uint8_t)((1u << set->full % 8) - 1) : 0;
  return below | (i - first < set->n ? set->bits[i - first] : 0);
}

/* Bytes behind which there are none of the set. */
static unsigned end_of(const LaunchSet *set)
{
  return set->full / 8 + MAX(set->n, set->full % 8 ? 1 : 0);
}

bool launch_set_has(const LaunchSet *set, unsigned launch)
{
  return launch < set->full || (byte_at(set, launch / 8) >> launch % 8 & 1);
}

/* Bits that follow `full` count as what is below it, and whole bytes of these go. */
static void settle(LaunchSet *set)
{
  unsigned gone = 0;
  while (gone < set->n && set->bits[gone] >> set->full % 8 & 1)
    if (++set->full % 8 == 0) gone++;
  if (!gone) return;
  set->n -= gone;
  memmove(set->bits, set->bits + gone, set->n);
}

void launch_set_add(LaunchSet *set, unsigned launch)
{
  if (launch_set_has(set, launch)) return;
  unsigned at = launch / 8 - set->full / 8;
  if (at >= set->n) {
    set->bits = g_realloc(set->bits, at + 1);
    memset(set->bits + set->n, 0, at + 1 - set->n);
    set->n = at + 1;
  }
  set->bits[at] |= (uint8_t)(1u << launch % 8);
  settle(set);
}

static void combine(LaunchSet *set, const LaunchSet *with, bool both)
{
  LaunchSet result = {.full = both ? MIN(set->full, with->full) : MAX(set->full, with->full)};
  unsigned first = result.full / 8,
           end = both ? MIN(end_of(set), end_of(with)) : MAX(end_of(set), end_of(with));
  result.n = end > first ? end - first : 0;
  result.bits = g_malloc(result.n);
  for (unsigned i = 0; i < result.n; i++) {
    uint8_t a = byte_at(set, first + i), b = byte_at(with, first + i);
    result.bits[i] = both ? a & b : a | b;
  }
  settle(&result);
  g_free(set->bits);
  *set = result;
}

void launch_set_unite(LaunchSet *set, const LaunchSet *with)
{
  combine(set, with, false);
}

void launch_set_intersect(LaunchSet *set, const LaunchSet *with)
{
  combine(set, with, true);
}

void launch_set_clear(LaunchSet *set)
{
  g_free(set->bits);
  *set = (LaunchSet){0};
}
