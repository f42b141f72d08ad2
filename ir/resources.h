/* What passes take of a GPU's resources by a rule of their own, which the generator, counting before there is
 * a kernel, must know too. (Parts of results in shared memory: ir/staging.h.) */
#pragma once

/* Shared memory left to barriers and to what alignment loses. */
#define RESERVED_SHARED_BYTES 2048
/* Registers move between warpgroups in steps of so many. */
#define HANDOVER_STEP 8
/* Of a thread that only starts copies: enough for addresses, coordinates and loop counters of several. */
#define PRODUCER_REGISTERS 40

/* Warpgroups that share a tile of so many rows, each with some of them. */
static inline unsigned warpgroups_of_rows(unsigned rows)
{
  return rows % 128 == 0 ? 2 : rows % 192 == 0 ? 3 : 1;
}
