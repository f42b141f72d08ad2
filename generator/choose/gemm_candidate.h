/* Ways to compute a matrix product: mechanism, tile, and how blocks share the work; which are legal, and what
 * the cost model says of them. Everything comes from the fused operator and the GPU's description.
 *
 * Functions of a Problem only read it: threads may share one. */
#pragma once
#include "generator/choose/cost.h"
#include "generator/choose/problem.h"

#define MOST_THIN    64 /* columns of a tile of swapped operands (swap-AB) that streams A past them */
#define SWAPPED_ROWS 64 /* of such a tile: 128 are no faster, and fewer blocks */

typedef struct GemmCandidate {
  bool group;            /* TMA copies and warpgroup MMAs; else threads copy and warps multiply */
  unsigned bm, bn, bk;   /* elements */
  unsigned stages;       /* slots of the ring */
  unsigned pingpong;     /* warpgroups that take tiles in turn (ping-pong); 1: they share each tile */
  unsigned cluster_m;    /* blocks that take tiles below one another and share copies; 1: none */
  unsigned cluster_n;    /* and beside one another; 1: none */
  unsigned split_k;      /* blocks of a cluster that take parts of k of one tile; 1: none */
  unsigned reuse;        /* 1: what blocks of a split tile send comes to lie in the ring */
  unsigned once;         /* 1: a block has one tile, so its results may be staged in the ring's slots */
  unsigned blocks;       /* that share an SM; 0 and 1: each has one for itself */
  unsigned swapped;      /* 1: computes D^T = B^T A^T: bm are columns of D, bn rows */
  unsigned raster;       /* rows of tiles that are walked together; 0: as many as usual */
  unsigned stream_k;     /* blocks a tile at most whose k steps are divided among all blocks; 1: none */
  unsigned stream_steps; /* k steps of a portion that streaming does not divide */
  unsigned slices;       /* blocks, no cluster, that take parts of k of each tile; 0 and 1: none */
  bool askew;            /* rows start at no multiples of 16 bytes, so no variant copies faster than this */
  bool promote;          /* each step's sum is added to the accumulator by ordinary instructions */
  unsigned warpgroups_n; /* warpgroups that share 64 rows, each with columns of its own; 1: none */
} GemmCandidate;

typedef struct PricedCandidate {
  GemmCandidate candidate;
  CostReport cost;
} PricedCandidate;

/* The operator whose A, B and D the candidate's tile speaks of: the problem's, or its transpose. */
const FusedOperator *gemm_candidate_operator(const Problem *problem, const GemmCandidate *candidate);
/* Bytes of an element of the result; products that a tile's columns are divided among. */
unsigned gemm_out_bytes(const FusedOperator *op);
unsigned gemm_products(const Problem *problem);
/* Does A reach the product through registers, since it lies across k and is not of 16 bits? */
bool gemm_through_registers(const Problem *problem, const GemmCandidate *candidate);
/* Of the blocks that share a tile, how many finish a part of its columns: as many as these have whole pieces
 * (fragments or, where TMA stores them, sectors). 0: they have none. */
unsigned gemm_candidate_owners(const Problem *problem, const GemmCandidate *candidate);
/* Can warpgroup MMAs read the operands as they lie: A from shared memory or through registers, B from shared
 * memory? */
bool gemm_group_reads(const Problem *problem, const FusedGemm *gemm);
/* Can the GPU multiply the operands as they lie, with warpgroup MMAs, with warp MMAs? */
bool gemm_group_possible(const Problem *problem);
bool gemm_warp_possible(const Problem *problem);
/* Products of 8-bit floats whose sums are to be kept in f32, by the graph or the options. */
bool gemm_sums_exactly(const Problem *problem);
/* Is each step's sum added by ordinary instructions (GemmCandidate.promote)? */
bool gemm_promotes(const Problem *problem, bool group);
/* A tile for few rows: operands swapped (swap-AB), D's rows in at most 32 columns. */
bool gemm_candidate_is_thin(const GemmCandidate *candidate);
/* Is it worth a ring of its own if rows start at no multiples of 16 bytes? Measured for batches of 16-bit elements;
 * single products are copied instead. */
bool gemm_candidate_may_be_askew(const Problem *problem);
/* Completes depth and stages. `fast`: with copies that need guards. */
GemmCandidate gemm_candidate(const Problem *problem, GemmCandidate tile, bool fast);
/* Does each block take tiles one after the other, as many blocks as SMs? */
bool gemm_candidate_walks(const Problem *problem, const GemmCandidate *candidate);
/* The most rows that the variant's guard admits; rows up to which the variants so far serve. */
int64_t gemm_most_rows(const Problem *problem, const Choice *choice);
int64_t gemm_rows_taken(const Chooser *chooser);
/* Tiles of the product with so many rows, all of its batches. */
double gemm_candidate_tiles(const Problem *problem, const GemmCandidate *candidate, int64_t rows);
/* The same tile where there are so many rows at most: if each block then has one of its own, and that leaves
 * room for more slots, `once` and the stages say so. */
GemmCandidate gemm_candidate_within(const Problem *problem, GemmCandidate candidate, int64_t rows);
bool gemm_candidate_legal(const Problem *problem, const GemmCandidate *candidate);
/* Do its ring and what its blocks exchange fit into shared memory? */
bool gemm_candidate_fits(const Problem *problem, const GemmCandidate *candidate);
/* generator/choose/gemm_forced.c: what --set left open in a choice of a tile is made to fit what it set. */
void gemm_fit_forced(Chooser *chooser, Choice *choice);
/* Rows of tiles that are walked together (GemmCandidate.raster). */
unsigned gemm_candidate_raster(const Problem *problem, const GemmCandidate *candidate, int64_t m);
/* Slots of its ring for up to m rows: those there is room for, or fewer where they are faster. */
unsigned gemm_candidate_slots(const Problem *problem, const GemmCandidate *candidate, int64_t m);
/* Results that a thread computes together where warpgroups take turns (pace_results); 0: as fast as it can. */
unsigned gemm_candidate_pace(const Problem *problem, const GemmCandidate *candidate, int64_t m);
/* The product as the cost model sees it, but for the rows: its m, or n where operands are exchanged, is 0. */
CostGemm gemm_operator_shape(const Problem *problem, bool swapped);
CostReport gemm_candidate_cost(const Problem *problem, const GemmCandidate *candidate, int64_t m);
/* All that are legal for m rows, by the order of enumeration: small tiles first. `bounded`: M cannot be more.
 * Elements are PricedCandidate; the caller owns the array. */
GArray *gemm_candidates(const Problem *problem, bool group, int64_t m, bool bounded);
/* SMs that the kernel may use. */
unsigned gemm_candidate_sms(const Problem *problem);
/* The tile, completed and priced, if it is legal and may pay. */
void gemm_candidate_append(const Problem *problem, GArray *list, GemmCandidate tile, int64_t m);
/* What tells candidates apart (generator/choose/gemm_fields.c): names as in files of measured choices, and the value
 * in an entry that does not name it, as in one older than the field. `field` counts from 0. */
unsigned gemm_fields(void);
const char *gemm_field_name(unsigned field);
unsigned gemm_field_absent(unsigned field);
unsigned gemm_field_value(const GemmCandidate *candidate, unsigned field);
void gemm_field_set(GemmCandidate *candidate, unsigned field, unsigned value);
/* Do both compute the same way, by these fields? How tiles are walked (raster) does not count. */
bool gemm_candidate_same(const GemmCandidate *a, const GemmCandidate *b);
/* Of a list of gemm_candidates() for m rows the cheapest, or a small tile if it has none; notes how it was
 * found. */
GemmCandidate gemm_cheapest(Chooser *chooser, bool group, const GArray *list, int64_t m);
/* The cheapest for m rows; notes how it was found. */
GemmCandidate gemm_best_candidate(Chooser *chooser, bool group, int64_t m, bool bounded);
/* The range of rows whose variant serves m: what is measured at m answers for them. Beyond the last range, an
 * eighth of m to both sides. */
void gemm_range(int64_t m, int64_t *least, int64_t *most);
