/* Values that nobody has written, byte by byte.
 *
 * A register is a lane mask of those in which it has undefined bytes (Warp.undefined), which is all that the common case
 * looks at, and a lane mask for each of its bytes (Warp.unknown), which counts where the first one is set: no byte of a
 * lane set there means that the register has never been written. Instructions that move bytes or bits move these exactly
 * (Spread); of all others every byte of the result is undefined if some byte of a source is. */
#pragma once
#include "simulator/machine.h"

/* Finds in->spread; the instruction is decoded otherwise. */
void spread_decode(Inst *in);
/* undefined: lanes in which some source has undefined bytes. */
void spread_undefined(Warp *w, const Inst *in, uint32_t mask, uint32_t undefined);

/* Bits (whole bytes) of the lowest `bytes` of a register that are undefined. */
uint64_t unknown_bits(const Warp *w, uint32_t id, unsigned lane, unsigned bytes);
void set_unknown(Warp *w, uint32_t id, unsigned lane, unsigned bytes, uint64_t bits);
bool never_written(const Warp *w, uint32_t id, unsigned lane);

typedef struct PackedPart {
  uint32_t id;
  unsigned bytes; /* of it */
} PackedPart;
/* in->d[0] becomes n parts of `unit` bytes, lowest first. */
void pack_unknown(Warp *w, const Inst *in, uint32_t mask, const PackedPart *parts, unsigned n, unsigned unit);
/* in->list become parts of in->a[0]. */
void unpack_unknown(Warp *w, const Inst *in, uint32_t mask, unsigned unit);
/* in->d[0] becomes in->a[0] in the lanes `first`, in->a[1] in the others; in->a[2] decided that. */
void select_unknown(Warp *w, const Inst *in, uint32_t mask, uint32_t first);
/* What a register holds in all lanes; and then the lanes of `to` that are undefined take what their source lane had. */
void gather_unknown(const Warp *w, uint32_t id, uint64_t bits[LANES]);
void shuffle_unknown(Warp *w, uint32_t to, uint32_t mask, const uint8_t source[LANES],
                     const uint64_t bits[LANES]);

/* The same of memory; at most 8 bytes. */
uint64_t memory_unknown(const Place *p, unsigned bytes);
void memory_define_known(const Place *p, unsigned bytes, uint64_t unknown);
/* Any number of bytes: defined where the source is. */
void memory_define_as(const Place *to, const Place *from, uint64_t bytes);
