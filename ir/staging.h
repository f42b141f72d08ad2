/* How results pass through shared memory on their way out: numbers that the generator, which counts bytes
 * before there is a kernel, and the passes choose_mechanisms and stage_stores must agree on.
 * Pure functions; thread-safe. */
#pragma once
#include "adl/gpu.h"

#define STAGING_SLOTS 2 /* parts of a tile: one is read by TMA while the next is written */

/* What a GPU's description says about it: ir/mechanism.h. */
typedef struct {
  unsigned swizzles; /* widths in bytes that TMA has: the sum of these powers of two */
  unsigned sector;   /* bytes that an access to global memory moves at least */
  unsigned panel;    /* bytes of a panel of what is stored across, the widest swizzle; 0: nothing is */
  unsigned box;      /* elements of a box along a side at most */
} StagingRules;
StagingRules staging_rules(const Gpu *gpu);
extern const StagingRules staging_usual; /* of every GPU known so far: prices are for these */

/* Columns of a part. A tile has `rows` rows (of all instances) and `columns` columns; `narrow` and `wide` are
 * the bytes of the narrowest and the widest element that is stored from it. The parts have one width, but for
 * a last one of what columns are left, which has slots of its own; rows of a part are multiples of 16 bytes.
 * 0 if there is no such width. */
unsigned staging_width(const StagingRules *rules, unsigned rows, unsigned columns, unsigned narrow,
                       unsigned wide);
/* The same, where `room` bytes of shared memory are left for the store: rows as long as fit. Not narrower. */
unsigned staging_width_in(const StagingRules *rules, unsigned rows, unsigned columns, unsigned narrow,
                          unsigned wide, unsigned long room);
/* The swizzle of a part whose rows have so many bytes; 0 where its rows lie one behind the other. */
unsigned staging_swizzle(const StagingRules *rules, unsigned row_bytes);
/* Shared memory for one store of the tile. */
unsigned staging_bytes(const StagingRules *rules, unsigned rows, unsigned columns, unsigned element_bytes);

/* The least that stores by TMA can do with, for a ring that gains a slot: rows of two sectors,
 * and one part instead of STAGING_SLOTS, which has been read before the next is written. Only where instances
 * take turns, so that one's products hide the other's waits. 0 if the tile divides into no such parts. */
unsigned staging_width_least(const StagingRules *rules, unsigned columns, unsigned element_bytes);
unsigned staging_bytes_least(const StagingRules *rules, unsigned rows, unsigned columns,
                             unsigned element_bytes);

/* The same of tensors that are contiguous along the tile's rows (swapped operands (swap-AB)): a part is some columns,
 * each a row of panels as wide as the swizzle. 0: such a tile goes straight from registers, since it has few
 * columns, or its rows are no whole panels. */
unsigned staging_width_across(const StagingRules *rules, unsigned rows, unsigned columns,
                              unsigned element_bytes);
unsigned staging_bytes_across(const StagingRules *rules, unsigned rows, unsigned columns,
                              unsigned element_bytes);
