/* Loads and stores of a whole warp whose lanes' bytes lie side by side, which is most of them: one look at
 * bounds, definedness and races, and one move of all bytes. What does not fit goes lane by lane, as do all
 * faults: nothing here reports. */
#include "simulator/exec.h"
#include "simulator/lanes.h"
#include "simulator/race.h"
#include <string.h>

#define MOST_BYTES 16 /* of a lane */

/* --- where --- */

VECTORISED static bool step_wide(const uint64_t *a, unsigned bytes)
{
  uint64_t off = 0;
  for (unsigned l = 0; l < LANES; l++)
    off |= a[l] - a[0] - (uint64_t)l * bytes;
  return !off;
}

VECTORISED static bool step_narrow(const uint32_t *a, unsigned bytes)
{
  uint32_t off = 0;
  for (unsigned l = 0; l < LANES; l++)
    off |= a[l] - a[0] - l * bytes;
  return !off;
}

/* Lane 0's address, if every other lane's is `bytes` behind the one before. */
static bool first_address(const Warp *w, const Inst *in, unsigned bytes, uint64_t *address)
{
  const void *a = operand(w, in->a[0]);
  if (undefined_lanes(w, in->a[0])) return false;
  if (in->wide) {
    *address = *(const uint64_t *)a + (uint64_t)in->immediate;
    return step_wide(a, bytes);
  }
  *address = *(const uint32_t *)a + (uint32_t)in->immediate;
  return step_narrow(a, bytes);
}

static bool shared_span(const Warp *w, uint64_t address, unsigned bytes, Place *p)
{
  Block *b = w->block;
  if (address < b->shared_base || address >= b->shared_bytes || b->shared_bytes - address < bytes)
    return false;
  *p = (Place){.at = b->shared + address, .block = b, .offset = address, .defined = b->defined};
  return true;
}

static bool global_span(const Warp *w, uint64_t address, unsigned bytes, Place *p)
{
  Buffer *b = memory_buffer(w->block->cluster->run, address);
  uint64_t offset = b ? address - b->address : 0;
  if (!b || offset >= b->bytes || b->bytes - offset < bytes) return false;
  *p = (Place){.at = b->data + offset, .buffer = b, .offset = offset, .defined = b->defined};
  return true;
}

/* The bytes of all lanes in the own block's shared memory or in one buffer. */
static bool find_span(const Warp *w, const Inst *in, unsigned bytes, Place *p)
{
  uint64_t address;
  if (!first_address(w, in, bytes, &address) || address & (bytes - 1)) return false;
  switch (in->space) {
  case SPACE_SHARED:
  case SPACE_CLUSTER: return shared_span(w, address, bytes * LANES, p);
  case SPACE_GLOBAL: return global_span(w, address, bytes * LANES, p);
  case SPACE_GENERIC:
    if (address >> 32 == WINDOW_SHARED >> 32)
      return shared_span(w, address - WINDOW_SHARED, bytes * LANES, p);
    return address < WINDOW_CONST && global_span(w, address, bytes * LANES, p);
  default: return false;
  }
}

static bool is_watched(const Place *p)
{
  return p->block ? p->block->check != NULL : p->buffer->check != NULL;
}

/* --- the bytes --- */

/* n elements of type T a lane into registers of type D, and back. n is a constant where it is called. */
#define LOADS(name, T, D)                                                                                    \
  static inline __attribute__((always_inline)) void load_##name##_n(const T *from, unsigned n,               \
                                                                    void *const *out, D more)                \
  {                                                                                                          \
    for (unsigned e = 0; e < n; e++)                                                                         \
      for (unsigned l = 0; l < LANES; l++)                                                                   \
        ((D *)out[e])[l] = (D)from[l * n + e] & more;                                                        \
  }                                                                                                          \
  VECTORISED static void load_##name(const void *from, unsigned n, void *const *out, D more)                 \
  {                                                                                                          \
    if (n == 1) load_##name##_n(from, 1, out, more);                                                         \
    if (n == 2) load_##name##_n(from, 2, out, more);                                                         \
    if (n == 4) load_##name##_n(from, 4, out, more);                                                         \
    if (n == 8) load_##name##_n(from, 8, out, more);                                                         \
  }
#define STORES(name, T, D)                                                                                   \
  static inline                                                                                              \
      __attribute__((always_inline)) void store_##name##_n(T *to, unsigned n, const void *const *values)     \
  {                                                                                                          \
    for (unsigned e = 0; e < n; e++)                                                                         \
      for (unsigned l = 0; l < LANES; l++)                                                                   \
        to[l * n + e] = (T)((const D *)values[e])[l];                                                        \
  }                                                                                                          \
  VECTORISED static void store_##name(void *to, unsigned n, const void *const *values)                       \
  {                                                                                                          \
    if (n == 1) store_##name##_n(to, 1, values);                                                             \
    if (n == 2) store_##name##_n(to, 2, values);                                                             \
    if (n == 4) store_##name##_n(to, 4, values);                                                             \
    if (n == 8) store_##name##_n(to, 8, values);                                                             \
  }
LOADS(s8, int8_t, uint32_t)
LOADS(s16, int16_t, uint32_t)
LOADS(u8, uint8_t, uint32_t)
LOADS(u16, uint16_t, uint32_t)
LOADS(u32, uint32_t, uint32_t)
LOADS(u64, uint64_t, uint64_t)
STORES(u8, uint8_t, uint32_t)
STORES(u16, uint16_t, uint32_t)
STORES(u32, uint32_t, uint32_t)
STORES(u64, uint64_t, uint64_t)

static void move_in(const Inst *in, const void *from, void *const *out)
{
  uint32_t more = (uint32_t)in->more;
  switch (in->bytes) {
  case 1: (in->negate ? load_s8 : load_u8)(from, in->n_list, out, more); break;
  case 2: (in->negate ? load_s16 : load_u16)(from, in->n_list, out, more); break;
  case 4: load_u32(from, in->n_list, out, more); break;
  default: load_u64(from, in->n_list, out, UINT64_MAX); break;
  }
}

static void move_out(const Inst *in, void *to, const void *const *values)
{
  switch (in->bytes) {
  case 1: store_u8(to, in->n_list, values); break;
  case 2: store_u16(to, in->n_list, values); break;
  case 4: store_u32(to, in->n_list, values); break;
  default: store_u64(to, in->n_list, values); break;
  }
}

/* Registers as wide as the handlers above take them. */
static bool is_plain(const Inst *in)
{
  unsigned bytes = in->bytes * in->n_list;
  return in->order == ORDER_WEAK && bytes <= MOST_BYTES && !(bytes & (bytes - 1)) &&
         in->operation == (in->bytes == 8);
}

bool load_span(Warp *w, const Inst *in)
{
  unsigned bytes = in->bytes * in->n_list;
  Place p;
  if (!is_plain(in) || !find_span(w, in, bytes, &p)) return false;
  bool watched = is_watched(&p);
  if ((watched && bytes < 4) || !memory_is_defined(&p, bytes * LANES)) return false;
  if (watched) race_check_lanes(w, in, 0, &p, bytes * LANES, bytes, ACCESS_READ, 0);
  void *out[8];
  for (unsigned e = 0; e < in->n_list; e++)
    out[e] = operand(w, in->list[e]);
  move_in(in, p.at, out);
  for (unsigned i = 0; w->undefined && i < in->n_writes; i++)
    w->undefined[in->writes[i]] = 0;
  return true;
}

/* Lanes whose bytes are there already. */
static uint32_t same_lanes(const uint8_t *a, const uint8_t *b, unsigned bytes)
{
  if (memcmp(a, b, (size_t)bytes * LANES) == 0) return FULL;
  uint32_t same = 0;
  for (unsigned l = 0; l < LANES; l++)
    same |= (uint32_t)(memcmp(a + (size_t)l * bytes, b + (size_t)l * bytes, bytes) == 0) << l;
  return same;
}

bool store_span(Warp *w, const Inst *in)
{
  unsigned bytes = in->bytes * in->n_list;
  uint8_t values[MOST_BYTES * LANES] __attribute__((aligned(64)));
  const void *from[8];
  Place p;
  if (!is_plain(in) || !find_span(w, in, bytes, &p)) return false;
  bool watched = is_watched(&p);
  if (watched && bytes < 4) return false;
  for (unsigned e = 0; e < in->n_list; e++) {
    if (undefined_lanes(w, in->list[e])) return false;
    from[e] = operand(w, in->list[e]);
  }
  move_out(in, values, from);
  if (watched) {
    uint32_t same = same_lanes(values, p.at, bytes);
    if (p.buffer && same && same != FULL) return false;
    AccessKind kind = p.buffer && same == FULL ? ACCESS_SAME : ACCESS_WRITE;
    race_check_lanes(w, in, 0, &p, bytes * LANES, bytes, kind, same);
  }
  memcpy(p.at, values, (size_t)bytes * LANES);
  memory_define(&p, bytes * LANES, true);
  cluster_progress(w->block->cluster);
  return true;
}
