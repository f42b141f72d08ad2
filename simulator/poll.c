/* Loops that poll: a group that reads the same from the same places again and again waits until one of them
 * changes. */
#include "simulator/machine.h"
#include <string.h>

#define SITES      4  /* polling instructions remembered per warp */
#define ROUNDS     4  /* reads of the same before a group waits */
#define ROUNDS_ALL 16 /* the same over several instructions in turn */

typedef struct Poll {
  const Block *block; /* NULL: global memory */
  const Buffer *buffer;
  const uint8_t *at;
  uint64_t offset, seen;
  unsigned bytes;
} Poll;

typedef struct Site {
  const Inst *in;
  unsigned count;
  Poll lanes[LANES];
} Site;

typedef struct Polls {
  Site sites[SITES];
  unsigned next;
  const Site *last;
  unsigned idle; /* reads of the same in a row, whichever instruction made them */
  const Inst *other;
  uint64_t progress;
} Polls;

static Polls *polls_of(Warp *w)
{
  if (!w->polls) w->polls = g_new0(Polls, 1);
  return w->polls;
}

static uint64_t digest(const uint8_t *at, unsigned bytes)
{
  uint64_t v = 0;
  if (bytes <= 8) {
    memcpy(&v, at, bytes);
    return v;
  }
  for (unsigned i = 0; i < bytes; i++)
    v = (v ^ at[i]) * 1099511628211ull; /* FNV-1a */
  return v;
}

static Site *site_of(Polls *p, const Inst *in)
{
  for (unsigned i = 0; i < SITES; i++)
    if (p->sites[i].in == in) return &p->sites[i];
  Site *s = &p->sites[p->next++ % SITES];
  *s = (Site){.in = in};
  return s;
}

bool poll_same(Warp *w, const Inst *in, unsigned lane, const Place *p, unsigned bytes)
{
  Poll *l = &site_of(polls_of(w), in)->lanes[lane];
  Poll now = {p->block, p->buffer, p->at, p->offset, digest(p->at, bytes), bytes};
  bool same = l->at == now.at && l->seen == now.seen;
  *l = now;
  return same;
}

static uint64_t progress_of(const Cluster *c)
{
  return c->run->session->ordered ? c->run->session->progress : c->progress;
}

Step poll_end(Warp *w, const Inst *in, uint32_t mask, bool same)
{
  Polls *p = polls_of(w);
  Site *s = site_of(p, in);
  if (p->last != s) s->count = 0;
  p->last = s;
  s->count = same ? s->count + 1 : 0;
  p->idle = same ? p->idle + 1 : 0;
  if (s->count >= ROUNDS) {
    Step step = wait_for(w, WAIT_MEMORY, NULL, (uint32_t)(s - p->sites), 0, STEP_WAIT_NEXT);
    current_group(w)->wait.needed = mask;
    return step;
  }
  if (p->idle < ROUNDS_ALL) return STEP_NEXT;
  return wait_for(w, WAIT_SPIN, NULL, 0, progress_of(w->block->cluster), STEP_WAIT_NEXT);
}

bool poll_changed(const Warp *w, uint32_t id, uint32_t mask)
{
  const Site *s = &w->polls->sites[id];
  for_lanes(l, mask)
  {
    const Poll *p = &s->lanes[l];
    if (p->at && digest(p->at, p->bytes) != p->seen) return true;
  }
  return false;
}

void poll_describe(GString *out, const Warp *w, uint32_t id, uint32_t mask)
{
  const Poll *p = &w->polls->sites[id].lanes[first_lane(mask)];
  if (p->buffer)
    g_string_append_printf(out, "a change of byte %llu of buffer '%s', which stays 0x%llx",
                           (unsigned long long)p->offset, p->buffer->name, (unsigned long long)p->seen);
  else
    g_string_append_printf(out, "a change of shared 0x%llx, which stays 0x%llx",
                           (unsigned long long)p->offset, (unsigned long long)p->seen);
}

void poll_free(Warp *w)
{
  g_free(w->polls);
}

Step poll_again(Warp *w, const Inst *in)
{
  Polls *p = polls_of(w);
  uint64_t progress = progress_of(w->block->cluster);
  if (p->other != in || p->progress != progress) {
    p->other = in;
    p->progress = progress;
    p->idle = 0;
  }
  if (++p->idle < ROUNDS) return STEP_NEXT;
  return wait_for(w, WAIT_SPIN, NULL, 0, progress, STEP_WAIT_NEXT);
}
