/* Asynchronous operations: when they land, bulk groups, the movement of the bytes. */
#include "simulator/copy.h"
#include "simulator/definedness.h"
#include "simulator/exec.h"
#include "simulator/place.h"
#include "simulator/race.h"
#include <string.h>

void async_submit(PendingOperation *p)
{
  Cluster *c = p->warp->block->cluster;
  SimLanding landing = c->run->landing;
  if (landing == SIM_LAND_EARLY || (landing == SIM_LAND_RANDOM && cluster_random(c) & 1)) {
    p->land(p);
    return;
  }
  g_queue_push_tail(&c->pending, p);
}

bool async_land_one(Cluster *c)
{
  unsigned n = c->pending.length;
  if (!n) return false;
  unsigned which = c->run->landing == SIM_LAND_RANDOM ? cluster_random(c) % n : 0;
  PendingOperation *p = g_queue_pop_nth(&c->pending, which);
  p->land(p);
  cluster_progress(c);
  return true;
}

/* --- the bytes of a bulk operation --- */

typedef struct Mover {
  BulkOperation *op;
  Block *block;
  bool reported; /* once an operation: bytes outside the buffer, undefined bytes */
  bool beyond;   /* and bytes beyond a row */
} Mover;

static Place piece_place(Mover *m, uint64_t global, unsigned bytes, AccessKind kind)
{
  BulkOperation *op = m->op;
  return memory_place(op->base.warp, op->base.in, op->base.lane, SPACE_GLOBAL, global, bytes, kind);
}

/* The row's bytes in global memory, if one buffer holds them all. */
static bool row_place(const Mover *m, uint64_t global, unsigned bytes, Place *p)
{
  Buffer *b = memory_buffer(m->op->base.warp->block->cluster->run, global);
  uint64_t offset = b ? global - b->address : 0;
  if (bytes % 16 || !b || offset >= b->bytes || b->bytes - offset < bytes) return false;
  *p = (Place){.at = b->data + offset, .buffer = b, .offset = offset, .defined = b->defined};
  return true;
}

/* What a load does to the words of a tensor of type tf32, as recorded on the hardware: round to nearest, ties
 * to even; subnormals stay, every NaN becomes one. Maps of type tf32.ftz do the same; stores leave the words
 * alone. */
static void round_to_tf32(uint8_t *at, unsigned bytes)
{
  for (unsigned i = 0; i < bytes; i += 4) {
    uint32_t u;
    memcpy(&u, at + i, 4);
    u = (u & 0x7fffffff) > 0x7f800000 ? 0x7fffe000 : (u + 0xfff + (u >> 13 & 1)) & ~0x1fffu;
    memcpy(at + i, &u, 4);
  }
}

static bool load_row(void *user, uint32_t offset, uint64_t global, unsigned bytes)
{
  Mover *m = user;
  Place p;
  if (!row_place(m, global, bytes, &p) || !memory_is_defined(&p, bytes)) return false;
  race_async_global(m->op, &p, bytes, ACCESS_READ);
  for (unsigned i = 0; i < bytes; i += 16) {
    uint32_t to = tensormap_swizzle(&m->op->map, offset + i);
    memcpy(m->block->shared + to, p.at + i, 16);
    if (m->op->map.type == NUMBER_TF32) round_to_tf32(m->block->shared + to, 16);
    define16(m->block->defined, to, true);
  }
  return true;
}

static bool store_row(void *user, uint32_t offset, uint64_t global, unsigned bytes)
{
  Mover *m = user;
  Place p;
  if (m->op->reduction >= 0 || !row_place(m, global, bytes, &p)) return false;
  for (unsigned i = 0; i < bytes; i += 16)
    if (!is_defined16(m->block->defined, tensormap_swizzle(&m->op->map, offset + i))) return false;
  race_async_global(m->op, &p, bytes, ACCESS_WRITE);
  for (unsigned i = 0; i < bytes; i += 16)
    memcpy(p.at + i, m->block->shared + tensormap_swizzle(&m->op->map, offset + i), 16);
  memory_define(&p, bytes, true);
  return true;
}

/* valid elements of the piece come from global memory, the others are filled */
static void load_piece(void *user, uint32_t offset, uint64_t global, uint32_t valid, unsigned element)
{
  Mover *m = user;
  BulkOperation *op = m->op;
  uint8_t piece[16] = {0};
  Place to = {
      .at = m->block->shared + offset, .block = m->block, .offset = offset, .defined = m->block->defined};
  unsigned n = 16 / element;
  memory_define(&to, 16, true); /* what is filled counts as written */
  if (op->map.fill_nan)         /* the hardware's pattern, for f64 as well */
    for (unsigned i = 0; i < 16; i++)
      piece[i] = i & 1 ? 0x7f : 0xf7;
  bool whole = valid == (n == 32 ? FULL : (1u << n) - 1);
  Buffer *b = valid ? memory_buffer(op->base.warp->block->cluster->run, global) : NULL;
  if (whole && b && global - b->address + 16 <= b->bytes) {
    Place p = {.buffer = b, .offset = global - b->address, .defined = b->defined};
    memcpy(piece, b->data + p.offset, 16);
    if (op->map.type == NUMBER_TF32) round_to_tf32(piece, 16);
    memory_define_as(&to, &p, 16);
    race_async_global(op, &p, 16, ACCESS_READ);
  } else {
    for (unsigned i = 0; i < n; i++) {
      if (!(valid >> i & 1)) continue;
      Place q = to, p = memory_place(op->base.warp, op->base.in, op->base.lane, SPACE_GLOBAL,
                                     global + i * element, 1, ACCESS_READ);
      if (p.at && p.buffer->bytes - p.offset >= element) {
        memcpy(piece + i * element, p.at, element);
        if (op->map.type == NUMBER_TF32) round_to_tf32(piece + i * element, element);
        q.offset += i * element;
        memory_define_as(&q, &p, element);
        race_async_global(op, &p, element, ACCESS_READ);
      } else if (p.at) {
        piece_place(m, global + i * element, element, ACCESS_READ);
      }
    }
  }
  memcpy(to.at, piece, 16);
}

static void reduce_bytes(BulkOperation *op, uint8_t *to, const uint8_t *from, unsigned bytes)
{
  PtxType type = (PtxType)op->element_type;
  unsigned size = ptx_type_bytes(type);
  for (unsigned i = 0; i < bytes; i += size) {
    uint64_t a = 0, b = 0;
    memcpy(&a, to + i, size);
    memcpy(&b, from + i, size);
    if (op->map.ftz) {
      a = float_bits(flush(bits_float((uint32_t)a)));
      b = float_bits(flush(bits_float((uint32_t)b)));
    }
    a = atomic_value(type, op->reduction, a, b, 0);
    if (op->map.ftz) a = float_bits(flush(bits_float((uint32_t)a)));
    memcpy(to + i, &a, size);
  }
}

/* Observed on the hardware: stores and reductions write 16 bytes where the tensor's row ends within them. */
static void store_beyond(Mover *m, uint64_t global, uint32_t valid, unsigned element)
{
  BulkOperation *op = m->op;
  Warp *w = op->base.warp;
  const unsigned beyond = 16 - element * (unsigned)__builtin_popcount(valid);
  if (!beyond || m->beyond) return;
  m->beyond = true;
  fault_party(
      w, op->base.in, op->base.lane, SIM_FAULT_BOUNDS, !w->block->cluster->run->ours, global + 16 - beyond,
      NULL,
      "the box ends with the tensor's row, but a tensor store writes whole 16 bytes: %u bytes beyond the "
      "row, whose %llu bytes are no multiple of 16",
      beyond, (unsigned long long)(op->map.dims[0] + 1ull) * element);
}

static void store_piece(void *user, uint32_t offset, uint64_t global, uint32_t valid, unsigned element)
{
  Mover *m = user;
  BulkOperation *op = m->op;
  if (!valid) return;
  store_beyond(m, global, valid, element);
  for (unsigned i = 0; i < 16 / element; i++) {
    Place from = {.at = m->block->shared + offset + i * element,
                  .offset = offset + i * element,
                  .defined = m->block->defined};
    Buffer *b = memory_buffer(op->base.warp->block->cluster->run, global + i * element);
    if (!b || global + i * element - b->address + element > b->bytes) {
      if (!m->reported) piece_place(m, global + i * element, element, ACCESS_WRITE);
      m->reported = true;
      continue;
    }
    Place p = {.buffer = b, .offset = global + i * element - b->address, .defined = b->defined};
    p.at = b->data + p.offset;
    race_async_global(op, &p, element, op->reduction >= 0 ? ACCESS_ATOMIC : ACCESS_WRITE);
    bool defined = memory_is_defined(&from, element);
    if (op->reduction >= 0)
      reduce_bytes(op, p.at, from.at, element);
    else
      memcpy(p.at, from.at, element);
    if (!defined && !m->reported && !b->carries) {
      fault(op->base.warp, op->base.in, op->base.lane, SIM_FAULT_UNDEFINED, from.offset,
            "bytes of shared memory that nobody has written are copied to buffer '%s'", b->name);
      m->reported = true;
    }
    memory_define(&p, element, defined);
  }
}

static void linear_to_shared(BulkOperation *op, Block *to)
{
  Warp *w = op->base.warp;
  Place q = {.at = to->shared + op->to_offset, .block = to, .offset = op->to_offset, .defined = to->defined};
  if (op->direction == COPY_SHARED_TO_SHARED) {
    Place p = {
        .at = op->from->shared + op->from_offset, .offset = op->from_offset, .defined = op->from->defined};
    if (op->reduction >= 0)
      reduce_bytes(op, q.at, p.at, (unsigned)op->bytes);
    else
      memmove(q.at, p.at, op->bytes);
    memory_define_as(&q, &p, op->bytes);
    return;
  }
  Place p = memory_place(w, op->base.in, op->base.lane, SPACE_GLOBAL, op->global, 1, ACCESS_READ);
  if (!p.at) return;
  if (p.buffer->bytes - p.offset < op->bytes) {
    fault(w, op->base.in, op->base.lane, SIM_FAULT_BOUNDS, op->global,
          "a bulk copy of %llu bytes at byte %llu of buffer '%s', which has %llu bytes",
          (unsigned long long)op->bytes, (unsigned long long)p.offset, p.buffer->name,
          (unsigned long long)p.buffer->bytes);
    return;
  }
  race_async_global(op, &p, (unsigned)op->bytes, ACCESS_READ);
  memcpy(q.at, p.at, op->bytes);
  memory_define_as(&q, &p, op->bytes);
}

static void linear_to_global(BulkOperation *op)
{
  Mover m = {.op = op, .block = op->from};
  for (uint64_t i = 0; i < op->bytes; i += 16) {
    unsigned element = op->reduction >= 0 ? ptx_type_bytes((PtxType)op->element_type) : 8;
    store_piece(&m, (uint32_t)(op->from_offset + i), op->global + i, (1u << (16 / element)) - 1, element);
  }
}

static void complete_barrier(BulkOperation *op, Block *b)
{
  Warp *w = op->base.warp;
  if (!b->live_warps) {
    fault(w, op->base.in, op->base.lane, SIM_FAULT_BULK, op->to_offset,
          "the copy lands in a block that has ended: nobody has waited for it");
    return;
  }
  Mbarrier *m = mbarrier_find(w, op->base.in, op->base.lane, b, op->barrier_offset);
  if (!m) return;
  mbarrier_transactions(w, op->base.in, m, b, -(int64_t)op->bytes);
}

static void move_bytes(BulkOperation *op, Block *to)
{
  if (op->direction == COPY_SHARED_TO_GLOBAL) {
    Mover m = {.op = op, .block = op->from};
    if (op->tensor)
      tensormap_walk(&op->map, op->coordinates, op->from_offset, store_row, store_piece, &m);
    else
      linear_to_global(op);
  } else if (op->tensor) {
    Mover m = {.op = op, .block = to};
    tensormap_walk(&op->map, op->coordinates, op->to_offset, load_row, load_piece, &m);
  } else {
    linear_to_shared(op, to);
  }
}

/* For the report if the block waits for these bytes in vain. */
static void note_left_out(const BulkOperation *op, Block *b)
{
  for (unsigned i = 0; i < b->mbarriers->len; i++) {
    Mbarrier *m = &g_array_index(b->mbarriers, Mbarrier, i);
    if (m->offset != op->barrier_offset) continue;
    m->left_out = op->base.in;
    m->left_out_mask = op->mask;
  }
}

void bulk_land(PendingOperation *p)
{
  BulkOperation *op = (BulkOperation *)p;
  if (op->done) return;
  op->done = true;
  if (op->direction == COPY_SHARED_TO_GLOBAL) {
    move_bytes(op, NULL);
    return;
  }
  Cluster *c = p->warp->block->cluster;
  for (unsigned i = 0; i < c->n_blocks; i++) {
    Block *b = &c->blocks[i];
    if (op->mask && !(op->mask >> i & 1)) note_left_out(op, b);
    if (op->mask ? !(op->mask >> i & 1) : b != op->to) continue;
    move_bytes(op, b);
    complete_barrier(op, op->mask ? b : op->barrier_block);
  }
  g_free(op);
}

/* Lanes wait until at most `keep` of their latest groups are unfinished. */
void bulk_wait(Warp *w, uint32_t mask, uint32_t keep)
{
  for (unsigned i = 0; i < w->bulk->len; i++) {
    BulkOperation *op = g_ptr_array_index(w->bulk, i);
    unsigned l = op->base.lane;
    if (!(mask >> l & 1) || op->group + keep >= w->bulk_groups[l]) continue;
    bulk_land(&op->base);
    g_free(op);
    g_ptr_array_remove_index(w->bulk, i--);
  }
}

void async_block_exit(Block *b)
{
  for (unsigned i = 0; i < b->n_warps; i++) {
    Warp *w = &b->warps[i];
    for (unsigned k = 0; k < w->bulk->len; k++) {
      BulkOperation *op = g_ptr_array_index(w->bulk, k);
      fault(w, op->base.in, op->base.lane, SIM_FAULT_BULK, op->from_offset,
            "the block ends while this copy still reads its shared memory: no wait_group.read");
      bulk_land(&op->base);
      g_free(op);
    }
    g_ptr_array_set_size(w->bulk, 0);
  }
}

void async_warp_free(Warp *w)
{
  for (unsigned k = 0; k < w->bulk->len; k++)
    g_free(g_ptr_array_index(w->bulk, k));
  g_ptr_array_free(w->bulk, TRUE);
  g_array_free(w->copies, TRUE);
  g_array_free(w->products, TRUE);
}
