/* The plain case of memory_place without a call: the own block's shared memory and buffers in global memory,
 * inside their bounds and aligned. Whatever else goes to memory_place, which knows what to report. */
#pragma once
#include "simulator/machine.h"

static inline bool is_aligned(uint64_t address, unsigned bytes)
{
  return !(address & (bytes - 1)); /* bytes: a power of two */
}

/* bytes: a power of two */
static inline Place place_at(Warp *w, const Inst *in, unsigned lane, Space space, uint64_t address,
                             unsigned bytes, AccessKind kind)
{
  if (space == SPACE_SHARED || space == SPACE_CLUSTER) {
    Block *b = w->block;
    if (address >= b->shared_base && address < b->shared_bytes && b->shared_bytes - address >= bytes &&
        is_aligned(address, bytes))
      return (Place){.at = b->shared + address, .block = b, .offset = address, .defined = b->defined};
  } else if (space == SPACE_GLOBAL) {
    const Run *run = w->block->cluster->run;
    uint64_t index = (address >> BUFFER_SHIFT) - 1;
    if (index < run->n_buffers && is_aligned(address, bytes)) {
      Buffer *b = &run->buffers[index];
      uint64_t offset = address - b->address;
      if (offset < b->bytes && b->bytes - offset >= bytes)
        return (Place){.at = b->data + offset, .buffer = b, .offset = offset, .defined = b->defined};
    }
  }
  return memory_place(w, in, lane, space, address, bytes, kind);
}

/* memory_is_defined for bytes that do not straddle 64 of them, as aligned accesses never do. */
static inline bool is_defined_near(const Place *p, unsigned bytes)
{
  unsigned at = (unsigned)(p->offset & 63);
  if (!p->defined) return true;
  if (at + bytes > 63) return memory_is_defined(p, bytes);
  uint64_t want = (1ull << bytes) - 1;
  return (p->defined[p->offset >> 6] >> at & want) == want;
}

/* Whether 16 bytes at an offset that is a multiple of 16 have been written; defined: a bit per byte. */
static inline bool is_defined16(const uint64_t *defined, uint64_t offset)
{
  return !defined || (uint16_t)(defined[offset >> 6] >> (offset & 63)) == 0xffff;
}

static inline void define16(uint64_t *defined, uint64_t offset, bool value)
{
  uint64_t bits = (uint64_t)0xffff << (offset & 63);
  if (!defined) return;
  if (value)
    defined[offset >> 6] |= bits;
  else
    defined[offset >> 6] &= ~bits;
}
