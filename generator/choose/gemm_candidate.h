/* Ways to compute a matrix product: mechanism, tile, and how blocks share the work; which are legal, and what
 * the cost model says of them. Everything comes from the fused operator and the GPU's description.
 *
 * Functions of a Problem only read it: threads may share one. */
#pragma once
#include "generator/choose/candidate.h"
#include "generator/choose/cost.h"
#include "generator/program/gemm.h"

#define MOST_THIN    64 /* columns of a tile of swapped operands (swap-AB) that streams A past them */
#define SWAPPED_ROWS 64 /* of such a tile: 128 are no faster, and fewer blocks */

#define GEMM_EXTRAS 4 /* axes that the templates' key has and gemm_axes.def has not */

/* A candidate of a product. Its values have names; its space is known once it is completed. */
typedef struct GemmCandidate {
  union {
    Candidate of;
    struct {
      const Space *space;
#define GEMM_AXIS(name, ...) unsigned name;
#include "generator/choose/gemm_axes.def"
      int extra[GEMM_EXTRAS];
    };
  };
  bool warpgroups; /* TMA copies and warpgroup MMAs; else threads copy and warps multiply */
  bool askew;      /* rows start at no multiples of 16 bytes, so no variant copies faster than this */
  bool once;       /* a block has one tile, so its results may be staged in the ring's slots */
  unsigned
      most_stages; /* that the passes leave it (gemm_settle); 0: nobody asked them, or it has as many as fit */
} GemmCandidate;

_Static_assert(sizeof(Candidate) >= offsetof(GemmCandidate, extra) + sizeof((GemmCandidate){0}.extra),
               "a candidate has slots for all axes of products and GEMM_EXTRAS more (SPACE_SLOTS)");

typedef struct PricedCandidate {
  GemmCandidate candidate;
  CostReport cost;
  bool settled; /* the passes were asked (gemm_settle) */
} PricedCandidate;

/* The operator whose A, B and D the candidate's tile speaks of: the problem's, or its transpose. */
const FusedOperator *gemm_candidate_operator(const Problem *problem, const GemmCandidate *candidate);
/* The template that computes it. */
const char *gemm_candidate_template(const Problem *problem, const GemmCandidate *candidate);
/* Bytes of an element of the result; products that a tile's columns are divided among. */
/* Do the scales of an operand, A or B, come through the ring of a kernel of warpgroup MMAs? And the bytes that these take of
 * a slot. */
bool gemm_scales_in_ring(const Problem *problem, bool of_b);
/* How many scales of each row of narrow weights a ring of their own brings beside a step's elements; 0: each is loaded by threads. */
unsigned gemm_scales_beside(const Problem *problem, const GemmCandidate *candidate);
unsigned gemm_scale_bytes(const Problem *problem, const GemmCandidate *candidate);
unsigned gemm_out_bytes(const FusedOperator *op);
unsigned gemm_products(const Problem *problem);
/* The warpgroup MMA of the operands' types; NULL: there is none. */
const GpuProduct *gemm_warpgroup_product(const Gpu *gpu, const FusedGemm *gemm);
/* Does A reach the product through registers, since it lies across k and is not of 16 bits? */
bool gemm_through_registers(const Problem *problem, const GemmCandidate *candidate);
/* Of the blocks that share a tile, how many finish a part of its columns: as many as these have whole pieces
 * (fragments or, where TMA stores them, sectors). 0: they have none. */
unsigned gemm_candidate_owners(const Problem *problem, const GemmCandidate *candidate);
/* Can warpgroup MMAs read the operands as they lie: A from shared memory or through registers, B from shared
 * memory? */
bool gemm_warpgroups_read(const Problem *problem, const FusedGemm *gemm);
/* Can the GPU multiply the operands as they lie, with warpgroup MMAs, with warp MMAs? */
bool gemm_warpgroups_possible(const Problem *problem);
bool gemm_warp_possible(const Problem *problem);
/* Products of 8-bit floats whose sums are to be kept in f32, by the graph or the options. */
bool gemm_sums_exactly(const Problem *problem);
/* Have a tile's columns one scale of B along a step of k, or those of two blocks of B, whole chunks of 16 columns of each
 * (templates/gemm_blocks.ir)? */
bool gemm_scales_fit(const FusedGemm *gemm, const GemmCandidate *candidate);
/* Is each step's sum added by ordinary instructions (GemmCandidate.promote)? */
bool gemm_promotes(const Problem *problem, const GemmCandidate *tile, bool warpgroups);
/* Do scales multiply its narrow weights, and not sums of a block (parameter `rounded`)? */
bool gemm_rounds_weights(const Problem *problem, const GemmCandidate *tile);
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
/* Elements of the right operand, of all batches and both products. */
double gemm_right_elements(const Problem *problem);
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
/* The same of what gemm_candidate_within() made of it. */
CostReport gemm_candidate_cost_within(const Problem *problem, const GemmCandidate *within, int64_t m);
/* All that are legal for m rows, by the order of enumeration: small tiles first. `bounded`: M cannot be more.
 * Elements are PricedCandidate; the caller owns the array. */
GArray *gemm_candidates(const Problem *problem, bool warpgroups, int64_t m, bool bounded);
/* Adds to the list what only those try who measure. */
void gemm_candidates_measured(const Problem *problem, bool warpgroups, int64_t m, bool bounded, GArray *list);
/* Rows of a group that a tile is chosen for: as many as are expected, or an even part of all. */
int64_t gemm_rows_of_group(const Problem *problem);
/* SMs that the kernel may use. */
unsigned gemm_candidate_sms(const Problem *problem);
/* The tile, completed and priced, if it is legal and may pay. */
void gemm_candidate_append(const Problem *problem, GArray *list, GemmCandidate tile, int64_t m);
/* Is it among the list's? */
bool gemm_candidate_listed(const GArray *list, const GemmCandidate *candidate);
/* As gemm_candidate_append() one that is to be measured, if it is legal and not in the list. */
void gemm_candidate_append_measured(const Problem *problem, GArray *list, GemmCandidate tile, int64_t m);
/* Do both compute the same way, by the key (gemm_axes.def)? How tiles are walked (raster) does not count. */
bool gemm_candidate_same(const GemmCandidate *a, const GemmCandidate *b);
/* Of a list of gemm_candidates() for m rows the cheapest of those that the passes take, or a small tile if it has none;
 * notes how it was found. What the passes refuse leaves the list, and what they take with fewer slots is priced anew. */
GemmCandidate gemm_cheapest(Chooser *chooser, bool warpgroups, GArray *list, int64_t m);
/* The cheapest for m rows; notes how it was found. */
GemmCandidate gemm_best_candidate(Chooser *chooser, bool warpgroups, int64_t m, bool bounded);
/* The range of rows whose variant serves m: what is measured at m answers for them. Beyond the last range, an
 * eighth of m to both sides. */
void gemm_range(int64_t m, int64_t *least, int64_t *most);
