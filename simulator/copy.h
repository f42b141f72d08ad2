/* Asynchronous copies: what an issued copy remembers until it lands. */
#pragma once
#include "simulator/machine.h"

/* Our own 128-byte form of a tensor map: kernels may copy it and patch it, so it lives in memory as bytes. */
typedef struct TensorMap {
  uint32_t magic;
  uint8_t type, rank, swizzle_log, fill_nan; /* swizzle_log: 0 none, 1 = 32, 2 = 64, 3 = 128 bytes */
  uint64_t address;
  uint64_t strides[4];
  uint32_t dims[5]; /* size - 1, so that 2^32 fits */
  uint16_t box[5];
  uint8_t element_strides[5];
  uint8_t interleave;
  uint8_t ftz; /* reductions flush subnormals to zero */
} TensorMap;
#define TENSORMAP_MAGIC 0x54536d61u
G_STATIC_ASSERT(sizeof(TensorMap) <= 128);

typedef enum { COPY_GLOBAL_TO_SHARED, COPY_SHARED_TO_SHARED, COPY_SHARED_TO_GLOBAL } CopyDirection;

typedef struct BulkOperation {
  PendingOperation base;
  CopyDirection direction;
  bool tensor, done;
  int reduction;        /* ATOM_*, -1: plain copy */
  uint8_t element_type; /* of a reduction */
  TensorMap map;
  int32_t coordinates[5];
  uint64_t global, bytes, extent; /* extent: bytes of shared memory it covers */
  Block *from, *to;               /* shared memory source and destination */
  uint32_t from_offset, to_offset;
  uint32_t mask; /* multicast: blocks, 0: only *to */
  Block *barrier_block;
  uint32_t barrier_offset;
  uint32_t group; /* bulk group of the issuing thread */
  uint64_t id;
  uint32_t agent, agent_clock; /* of a load, for the race checker */
} BulkOperation;

/* What a lane of cp.async (not bulk) copies: shared destination, global source, bytes read from there. */
void copy_addresses(const Warp *w, const Inst *in, unsigned lane, uint32_t *to, uint64_t *from,
                    unsigned *bytes);

/* tensormap.c */
bool tensormap_read(Warp *w, const Inst *in, unsigned lane, uint64_t address, unsigned rank, TensorMap *map);
uint64_t tensormap_box_bytes(const TensorMap *map);    /* what the transfer counts */
uint64_t tensormap_shared_bytes(const TensorMap *map); /* what it covers in shared memory */
/* Walks the box in 16-byte pieces of shared memory. Where a whole row of it is inside the tensor, `row` is
 * asked first, with the row's place in shared memory before the swizzle: true, and its pieces are skipped. */
typedef void (*BoxPiece)(void *user, uint32_t shared_offset, uint64_t global, uint32_t valid,
                         unsigned element_bytes);
typedef bool (*BoxRow)(void *user, uint32_t shared_offset, uint64_t global, unsigned bytes);
void tensormap_walk(const TensorMap *map, const int32_t coordinates[5], uint32_t shared_offset, BoxRow row,
                    BoxPiece piece, void *user);
uint32_t tensormap_swizzle(const TensorMap *map, uint32_t address);

/* store_edge.c: boxes of stores that lie outside of their tensor, and behind no other of their cluster */
void store_edge_note(const BulkOperation *op); /* at its issue */
void store_edge_check(Cluster *c);             /* when the cluster has ended */
void store_edge_free(Cluster *c);

void bulk_land(PendingOperation *p);
void bulk_wait(Warp *w, uint32_t mask, uint32_t keep);
