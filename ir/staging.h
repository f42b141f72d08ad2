/* How results pass through shared memory on their way out: numbers that the generator, which counts bytes
 * before there is a kernel, and the passes choose_mechanisms and stage_stores must agree on.
 * Pure functions; thread-safe. */
#pragma once

#define STAGING_SLOTS 2 /* parts of a tile: one is read by the copy engine while the next is written */

/* Columns of a part. A tile has `rows` rows (of all instances) and `columns` columns; `narrow` and `wide` are
 * the bytes of the narrowest and the widest element that is stored from it. The parts have one width, but for
 * a last one of what columns are left, which has slots of its own; rows of a part are multiples of 16 bytes.
 * 0 if there is no such width. */
unsigned staging_width(unsigned rows, unsigned columns, unsigned narrow, unsigned wide);
/* The same, where `room` bytes of shared memory are left for the store: rows as long as fit. Not narrower. */
unsigned staging_width_in(unsigned rows, unsigned columns, unsigned narrow, unsigned wide,
                          unsigned long room);
/* The swizzle of a part whose rows have so many bytes; 0 where its rows lie one behind the other. */
unsigned staging_swizzle(unsigned row_bytes);
/* Shared memory for one store of the tile. */
unsigned staging_bytes(unsigned rows, unsigned columns, unsigned element_bytes);

/* The least that stores by the copy engine can do with, for a ring that gains a slot: rows of two sectors,
 * and one part instead of STAGING_SLOTS, which has been read before the next is written. Only where instances
 * take turns, so that one's products hide the other's waits. 0 if the tile divides into no such parts. */
unsigned staging_width_least(unsigned columns, unsigned element_bytes);
unsigned staging_bytes_least(unsigned rows, unsigned columns, unsigned element_bytes);

/* The same of tensors that are contiguous along the tile's rows (exchanged operands): a part is some columns,
 * each a row of panels as wide as the swizzle. 0: such a tile goes straight from registers, since it has few
 * columns, or its rows are no whole panels. */
#define STAGING_PANEL 128 /* bytes; the swizzle too */
unsigned staging_width_across(unsigned rows, unsigned columns, unsigned element_bytes);
unsigned staging_bytes_across(unsigned rows, unsigned columns, unsigned element_bytes);
