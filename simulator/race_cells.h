/* What the race checker remembers of a block's shared memory. */
#pragma once
#include "simulator/race_clock.h"

typedef struct CellPage CellPage;

typedef struct Access {
  Warp *warp; /* who issues it */
  const Inst *in;
  unsigned lane;
  unsigned lane_bytes; /* 0: all bytes are this lane's, else that many are and the next lane's follow */
  uint32_t same;       /* with lane_bytes: lanes whose write leaves what is there */
  Block *block;
  uint32_t offset, bytes;
  AccessKind kind;
  Proxy proxy;
  unsigned agent;
  uint32_t clock;
} Access;

/* block->check */
CellPage **cells_new(uint64_t shared_bytes);
void cells_free(CellPage **pages, uint64_t shared_bytes);
/* Checks the access against what is remembered, reports, and remembers it. */
void cells_touch(const Clocks *k, const Access *a, bool atomic);
/* The same for rows of 16 bytes that an asynchronous agent reads through the async proxy, or that the lanes from a->lane on read,
 * one each, in an instruction of the whole warp. */
void cells_read_rows(const Clocks *k, const Access *a, const uint32_t *offsets, unsigned n);
/* Who wrote the byte last: its agent in *agent. NULL if nobody has. */
const Inst *cells_writer(const Warp *w, const Block *b, uint32_t offset, unsigned *agent);

/* layout.c: boxes that were loaded with one swizzle and are read by products with another, and products that leave them */
typedef struct LoadedBox LoadedBox;
void layout_loaded(Block *b, const BulkOperation *op);
/* Pieces of one operand; *home: its first one, 0: these are. gaps: its rows do not lie side by side. */
void layout_product(Warp *w, const Inst *in, uint32_t width, const uint32_t *offsets, unsigned n,
                    uint32_t *home, bool gaps);

static inline const Inst *instruction_at(const Warp *w, uint16_t pc)
{
  const Kernel *k = w->block->cluster->run->kernel;
  return pc < k->n_code ? &k->code[pc] : NULL;
}

/* saturated */
static inline uint16_t index_of(const Warp *w, const Inst *in)
{
  size_t i = (size_t)(in - w->block->cluster->run->kernel->code);
  return (uint16_t)MIN(i, 65535);
}
