/* What passes take of a GPU's resources by a rule of their own, which the generator, counting before there is
 * a kernel, must know too. (Parts of results in shared memory: ir/staging.h.) */
#pragma once
#include "adl/gpu.h"

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

/* Clusters of so many blocks, one block an SM, that run at once on `sms` SMs; at least 1. Not every SM has
 * partners: where the description does not say how many clusters of more than two fit, a tenth is left out. A
 * persistent grid of more would begin its last clusters when the first are through with everything. */
unsigned resident_clusters(const Gpu *gpu, unsigned blocks, unsigned sms);

/* Registers of a thread at entry, of blocks of so many of which `blocks` share an SM. */
unsigned entry_registers(const Gpu *gpu, unsigned threads, unsigned blocks);
/* Then of each of `receivers` threads of a block whose others only start copies and give back what they do
 * not need (budget_registers writes it down). */
unsigned granted_registers(const Gpu *gpu, unsigned threads, unsigned receivers, unsigned blocks);
