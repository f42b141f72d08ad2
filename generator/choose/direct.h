/* Products of operands that are read where they lie, without copies that were inserted: the operator, what sums along
 * k by warps (template gemv_few) cost, and what would run instead. Functions of a Problem only read it. */
#pragma once
#include "generator/choose/problem.h"
#include "generator/program/gemm.h"

#define MOST_SUMS 8 /* rows of A */

/* Can sums along k be taken of the operands where they lie? A budget of SMs is kept by walks, which these
 * kernels have not. And by warps, which read both operands along k? */
bool direct_possible(const Problem *problem);
/* Sums of a warp for each row of B were measured of 16-bit operands. */
bool direct_sums_take(const FusedGemm *gemm);
bool direct_sums_possible(const Problem *problem);
/* The product of operands as they lie, without copies that were inserted, in the problem's arena; NULL: sums
 * along k are not for it. `odd`: some rows are known to start at no multiples of 16 bytes. */
const FusedOperator *direct_operator(const Problem *problem, bool *odd);
/* Elements of `direct` that a lane may load at a time, as far as is known. */
unsigned direct_vector(const Problem *problem, const FusedOperator *direct);
/* Rows of B that a warp has, for m rows of A. */
unsigned direct_sums_share(const Problem *problem, int64_t m);
/* Clocks of sums along k by warps, `vector` elements a load; and of an operator as it lies, or a negative number: they
 * are not for so many rows. */
double direct_sums_clocks(const Problem *problem, int64_t m, unsigned vector);
double direct_sums_clocks_of(const Problem *problem, const FusedOperator *direct, int64_t m);
/* The problem with operands as they lie, read by so many bytes: without wide copies nothing changes places. */
Problem direct_in_place(const Problem *problem, unsigned bytes);
/* The cheapest tile's clocks for m rows, `bounded`: known to be no more; or a negative number if there is
 * none. In place, tiles are as those of a variant that assumes nothing. */
double direct_tile_clocks(const Problem *problem, bool in_place, int64_t m, bool bounded);
/* Clocks of a kernel of its own that moves so many bytes. */
double direct_bytes_clocks(const Problem *problem, double bytes);
/* Clocks of the kernels that copy A (of m rows) and B, or one of them. */
double direct_copy_clocks(const Problem *problem, const bool *copied, int64_t m);
/* Clocks of what would run otherwise for m rows, `odd` as direct_operator() says; operands that threads copy are
 * copied by so many bytes. */
double direct_others_clocks(const Problem *problem, int64_t m, bool odd, unsigned bytes);
