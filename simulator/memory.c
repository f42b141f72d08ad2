/* Where an address points, and whether it may. */
#include "simulator/machine.h"
#include "simulator/race.h"
#include <string.h>

Buffer *memory_buffer(const Run *run, uint64_t address)
{
  uint64_t index = (address >> BUFFER_SHIFT) - 1;
  if (index < run->n_buffers) return &run->buffers[index];
  if (index - VARIABLE_BUFFER < run->n_variables) return &run->variables[index - VARIABLE_BUFFER];
  return NULL;
}

Block *memory_block(Warp *w, uint32_t shared_address, uint32_t *offset)
{
  uint32_t rank = shared_address >> RANK_SHIFT;
  *offset = shared_address & ((1u << RANK_SHIFT) - 1);
  if (!rank) return w->block;
  Cluster *c = w->block->cluster;
  return rank - 1 < c->n_blocks ? &c->blocks[rank - 1] : NULL;
}

static const char *const space_names[] = {"generic", "global",    "shared",  "cluster shared",
                                          "local",   "parameter", "constant"};

static const char *kind_name(AccessKind kind)
{
  return kind == ACCESS_READ                           ? "read"
         : kind == ACCESS_WRITE || kind == ACCESS_SAME ? "write"
                                                       : "atomic access";
}

static Place refuse_global(Warp *w, const Inst *in, unsigned lane, uint64_t address, unsigned bytes,
                           AccessKind kind)
{
  const Run *run = w->block->cluster->run;
  uint64_t index = (address >> BUFFER_SHIFT) - 1;
  Buffer *near = memory_buffer(run, address);
  /* a small negative offset lands in the region before */
  if (!near || address < near->address) {
    Buffer *next = memory_buffer(run, address + (1ull << 32));
    if (next) near = next;
  }
  if (near) {
    int64_t offset = (int64_t)(address - near->address);
    fault(w, in, lane, SIM_FAULT_BOUNDS, address,
          "%s of %u bytes at byte %lld of buffer '%s', which has %llu bytes", kind_name(kind), bytes,
          (long long)offset, near->name, (unsigned long long)near->bytes);
  } else {
    fault(w, in, lane, SIM_FAULT_BOUNDS, address,
          "%s of %u bytes at global address 0x%llx, where no buffer is", kind_name(kind), bytes,
          (unsigned long long)address);
  }
  (void)index;
  return (Place){0};
}

void memory_peer(Warp *w, const Inst *in, unsigned lane, const Block *b, uint64_t address, AccessKind kind)
{
  bool started = b->check ? race_knows_start(w, b) : w->block->cluster->barrier.generation != 0;
  if (b->live_warps && started) return;
  fault(w, in, lane, SIM_FAULT_CLUSTER, address, "%s of a peer's shared memory %s", kind_name(kind),
        b->live_warps ? "that nothing orders behind the peer's start, such as the wait at a cluster barrier"
                      : "after the peer has ended");
}

static Place shared_place(Warp *w, const Inst *in, unsigned lane, bool cluster, uint64_t address,
                          unsigned bytes, AccessKind kind)
{
  uint32_t offset;
  Block *b = address >> 32 ? NULL : memory_block(w, (uint32_t)address, &offset);
  if (!b || (!cluster && b != w->block)) {
    fault(w, in, lane, b ? SIM_FAULT_CLUSTER : SIM_FAULT_BOUNDS, address,
          "%s of %u bytes at shared address 0x%llx, which is not in this %s", kind_name(kind), bytes,
          (unsigned long long)address, b ? "block" : "cluster");
    return (Place){0};
  }
  uint64_t base = w->block->cluster->run->kernel->shared_base;
  if (offset < base || offset + (uint64_t)bytes > b->shared_bytes) {
    fault(w, in, lane, SIM_FAULT_BOUNDS, address,
          "%s of %u bytes at shared address 0x%x; the block's shared memory is 0x%llx to 0x%llx",
          kind_name(kind), bytes, offset, (unsigned long long)base, (unsigned long long)b->shared_bytes);
    return (Place){0};
  }
  if (b != w->block) memory_peer(w, in, lane, b, address, kind);
  return (Place){.at = b->shared + offset, .block = b, .offset = offset, .defined = b->defined};
}

static Space classify(uint64_t *address)
{
  static const struct {
    uint64_t window;
    Space space;
  } windows[] = {{WINDOW_SHARED, SPACE_CLUSTER},
                 {WINDOW_LOCAL, SPACE_LOCAL},
                 {WINDOW_PARAM, SPACE_PARAM},
                 {WINDOW_CONST, SPACE_CONST}};
  for (unsigned i = 0; i < G_N_ELEMENTS(windows); i++)
    if (*address >> 32 == windows[i].window >> 32) {
      *address -= windows[i].window;
      return windows[i].space;
    }
  return SPACE_GLOBAL;
}

Place memory_place(Warp *w, const Inst *in, unsigned lane, Space space, uint64_t address, unsigned bytes,
                   AccessKind kind)
{
  Run *run = w->block->cluster->run;
  if (address & (bytes - 1) && (bytes & (bytes - 1)) == 0) {
    fault(w, in, lane, SIM_FAULT_ALIGNMENT, address, "%s of %u bytes at address 0x%llx, which is not aligned",
          kind_name(kind), bytes, (unsigned long long)address);
    return (Place){0};
  }
  bool generic = space == SPACE_GENERIC;
  if (generic) space = classify(&address);
  uint8_t *base = NULL;
  uint64_t limit = 0;
  switch (space) {
  case SPACE_GLOBAL: {
    Buffer *b = memory_buffer(run, address);
    uint64_t offset = b ? address - b->address : 0;
    if (!b || offset >= b->bytes || b->bytes - offset < bytes)
      return refuse_global(w, in, lane, address, bytes, kind);
    return (Place){.at = b->data + offset, .buffer = b, .offset = offset, .defined = b->defined};
  }
  case SPACE_SHARED: return shared_place(w, in, lane, false, address, bytes, kind);
  case SPACE_CLUSTER: return shared_place(w, in, lane, true, address, bytes, kind);
  case SPACE_LOCAL:
    base = w->local + lane * run->kernel->local_bytes;
    limit = run->kernel->local_bytes;
    break;
  case SPACE_PARAM:
    base = run->parameters;
    limit = kind == ACCESS_READ ? run->parameter_bytes : 0;
    break;
  default:
    base = run->constants;
    limit = kind == ACCESS_READ ? run->constant_bytes : 0;
    break;
  }
  if (address < limit && limit - address >= bytes) return (Place){.at = base + address, .offset = address};
  fault(w, in, lane, SIM_FAULT_BOUNDS, address, "%s of %u bytes at %s address 0x%llx; %llu bytes are there",
        kind_name(kind), bytes, space_names[space], (unsigned long long)address, (unsigned long long)limit);
  return (Place){0};
}

bool memory_is_defined(const Place *p, unsigned bytes)
{
  if (!p->defined) return true;
  for (unsigned i = 0; i < bytes;) {
    uint64_t bit = p->offset + i;
    unsigned n = MIN(bytes - i, 64 - (unsigned)(bit & 63));
    uint64_t want = n == 64 ? ~0ull : (1ull << n) - 1;
    if ((p->defined[bit >> 6] >> (bit & 63) & want) != want) return false;
    i += n;
  }
  return true;
}

void memory_define(const Place *p, unsigned bytes, bool defined)
{
  if (!p->defined) return;
  for (unsigned i = 0; i < bytes;) {
    uint64_t bit = p->offset + i;
    unsigned n = MIN(bytes - i, 64 - (unsigned)(bit & 63));
    uint64_t mask = (n == 64 ? ~0ull : (1ull << n) - 1) << (bit & 63), *word = &p->defined[bit >> 6];
    if (n == 64)
      *word = defined ? mask : 0;
    else if (!p->block && defined) /* another thread's cluster may write the word's other bytes */
      __atomic_fetch_or(word, mask, __ATOMIC_RELAXED);
    else if (!p->block)
      __atomic_fetch_and(word, ~mask, __ATOMIC_RELAXED);
    else
      *word = defined ? *word | mask : *word & ~mask;
    i += n;
  }
}
