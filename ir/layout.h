/* Layouts: where each element of a tile lives.
 *
 * A layout is a list of modes. Each mode takes a digit of one hardware index (register, lane, warp, block of the
 * cluster; or byte offset in shared memory, counted in elements) and moves the coordinate along one tile dimension:
 *
 *     register 2:c1 2:r8 32:c8 | lane 4:c2 8:r1 | warp 4:r16          (an m64n256 f32 accumulator)
 *
 * reads: the lowest digit of the register index (base 2) steps the column by 1, the next the row by 8, then 32 steps
 * of 8 columns, and so on. A mode with dimension NONE replicates ("4:-"): all those places hold the same element.
 * Shared-memory layouts have OFFSET modes only, plus at most one xor swizzle of the byte address. Not bit matrices:
 * extents such as 112, 160, 176 are first-class. Immutable; safe from several threads. */
#pragma once
#include "base/arena.h"
#include "base/number.h"
#include <stdbool.h>
#include <stdint.h>

#define LAYOUT_MAX_MODES  24
#define LAYOUT_MAX_DIMS   4
#define LAYOUT_REPLICATED (-1)

typedef enum {
  PLACE_REGISTER,
  PLACE_LANE,
  PLACE_WARP,
  PLACE_BLOCK,
  PLACE_OFFSET,
  PLACE_CELL,
  PLACE_COUNT
} LayoutPlace;

typedef struct LayoutMode {
  LayoutPlace place;
  unsigned size; /* digits 0 .. size-1; fastest mode of a place first */
  int dim;       /* tile dimension it moves, or LAYOUT_REPLICATED */
  unsigned step; /* elements per digit along dim */
} LayoutMode;

typedef struct Layout {
  unsigned rank;
  unsigned extent[LAYOUT_MAX_DIMS];
  unsigned n;
  LayoutMode modes[LAYOUT_MAX_MODES];
  /* PLACE_OFFSET only: byte address bits [base, base+bits) ^= bits [base+shift, ...): 0 bits = none.
   * The 128-byte swizzle is bits 3, base 4, shift 3; 64-byte 2,4,3; 32-byte 1,4,3. */
  unsigned swizzle_bits, swizzle_base, swizzle_shift;
  unsigned row_pad; /* PLACE_OFFSET only: unused elements after each run of the first mode */
  const char *name; /* constructor text for printing, e.g. "group.d(2)"; NULL prints the modes */
} Layout;

/* Constructors, a closed set named by instruction families. `warps_m`/`warps_n` split the tile over the warps
 * of the role (groups of four warps for the warpgroup MMA); each warp has one block of consecutive rows and
 * columns, and warp = row of warps + warps_m * column of warps. All return NULL if the extents do not fit the
 * constructor. Names:
 *   "mma.a" "mma.b" "mma.c"   warp MMA operands and accumulator; k of one instruction x 1
 *   "mma.a_runs"              the same operand with k in another order
 *   "group.d" "group.a"       warpgroup MMA accumulator, register operand
 *   "blocked"                 contiguous vectors: register vec, lanes, warps along the last dimension first */
const Layout *layout_mma_a(Arena *arena, NumberType type, unsigned m, unsigned k, unsigned warps_m,
                           unsigned warps_n);
/* The same fragments with k in another order, which the other operand has to have too: the four lanes of a row have a
 * run of `run` elements each, a multiple of eight, behind one another, and of each eight a register's two are four
 * apart: elements of 4 bits in the same place of both halves of a word. */
const Layout *layout_mma_a_runs(Arena *arena, unsigned m, unsigned k, unsigned run, unsigned warps_m,
                                unsigned warps_n);
const Layout *layout_mma_b(Arena *arena, NumberType type, unsigned k, unsigned n, unsigned warps_m,
                           unsigned warps_n);
const Layout *layout_mma_c(Arena *arena, unsigned m, unsigned n, unsigned warps_m, unsigned warps_n);
/* The same where each warp has its share of every `part` columns: what is cut along them are registers of all warps. */
const Layout *layout_mma_b_parts(Arena *arena, NumberType type, unsigned k, unsigned n, unsigned warps_m,
                                 unsigned warps_n, unsigned part);
const Layout *layout_mma_c_parts(Arena *arena, unsigned m, unsigned n, unsigned warps_m, unsigned warps_n,
                                 unsigned part);
const Layout *layout_group_d(Arena *arena, unsigned m, unsigned n, unsigned warpgroups);
/* The accumulator of warpgroups beside one another: each has all rows and a part of the columns. */
const Layout *layout_group_d_beside(Arena *arena, unsigned m, unsigned n, unsigned warpgroups);
const Layout *layout_group_a(Arena *arena, NumberType type, unsigned m, unsigned k, unsigned warpgroups);
/* Elements of 8 bits that the product takes in another order of k: of each 16 those that a lane has of an accumulator, so that a
 * sum becomes an operand in the registers where it is. B lies in that order, too (layout_shared_paired). */
const Layout *layout_group_a_paired(Arena *arena, NumberType type, unsigned m, unsigned k,
                                    unsigned warpgroups);
/* The same where A lies across k in shared memory, in elements of `bytes` 1 or 4, and reaches the product
 * through registers: what these are loaded in without conflicts of banks decides which rows a thread has, of
 * A and so of the accumulator: two side by side. */
const Layout *layout_group_d_across(Arena *arena, unsigned bytes, unsigned m, unsigned n,
                                    unsigned warpgroups);
const Layout *layout_group_a_across(Arena *arena, NumberType type, unsigned m, unsigned k,
                                    unsigned warpgroups);
/* Spreads a tile [rows, columns] (or [columns]) over `warps` warps: each thread holds vectors of `vector`
 * contiguous elements of the last dimension; lanes first fill a row (as many as row_lanes), then rows; what
 * is left repeats in registers. row_warps warps share a row. */
const Layout *layout_blocked(Arena *arena, unsigned rank, const unsigned *extents, unsigned vector,
                             unsigned row_lanes, unsigned row_warps, unsigned warps);
/* The same where each warp has `whole` elements side by side, its lanes' vectors several times. */
const Layout *layout_blocked_whole(Arena *arena, const unsigned *extents, unsigned vector, unsigned row_lanes,
                                   unsigned whole, unsigned row_warps, unsigned warps);
/* Each thread holds squares of `vector` rows and columns, a warp 8 rows of 4 of them: vectors along both
 * dimensions. */
const Layout *layout_patches(Arena *arena, unsigned rows, unsigned columns, unsigned vector, unsigned warps);
/* Lanes below one another, `vector` rows each; of a row a warp has columns side by side, all in one thread, and the next warp those
 * behind them. */
const Layout *layout_upright(Arena *arena, unsigned rows, unsigned columns, unsigned vector, unsigned warps);
/* Any tile of one or two dimensions: lanes and warps that it does not divide among have what others have. */
const Layout *layout_replicated(Arena *arena, unsigned rank, const unsigned *extents, unsigned warps);
/* Scalar products: each thread holds a rectangle of tm x tn elements, `group` (or, if tn is no multiple of
 * it, fewer) columns side by side. */
const Layout *layout_fma_c(Arena *arena, unsigned m, unsigned n, unsigned tm, unsigned tn, unsigned group,
                           unsigned threads_n, unsigned threads);
/* Shared memory: dimension `inner` is contiguous; rows of `row_elements` (a panel as wide as the swizzle;
 * panels follow one another), swizzle_bytes 0, 32, 64 or 128. row_pad: unused elements after each row (only
 * unswizzled). */
const Layout *layout_shared(Arena *arena, unsigned rank, const unsigned *extents, unsigned inner,
                            NumberType type, unsigned swizzle_bytes, unsigned row_pad);
/* The same, swizzled, of elements of 8 bits with each 16 of a row in the order of k that layout_group_a_paired has: 0 1 8 9, 2 3 10
 * 11 ... */
const Layout *layout_shared_paired(Arena *arena, const unsigned *extents, unsigned inner, NumberType type,
                                   unsigned swizzle_bytes);
/* Registers through which a tile of 8 bits is turned around by 8x8 matrices: a word has four columns of a row in that order, and the
 * next word the same of the next row. */
const Layout *layout_turned(Arena *arena, NumberType type, unsigned rows, unsigned columns, unsigned warps);
/* Accumulator memory: lane l of warp w has row 32 w + l, its cells the columns; and the registers into which
 * each lane loads its own row. */
const Layout *layout_cells(Arena *arena, unsigned m, unsigned n, unsigned warps);
const Layout *layout_rows(Arena *arena, unsigned m, unsigned n, unsigned warps);

/* Shared memory that holds `copies` tiles of a register layout, one behind the other along dimension 0, in
 * the order of threads: vectors of `vector` registers of a thread lie side by side, then those of the next
 * lane. A thread that has the same place in another tile of that layout finds what this one wrote, each warp
 * in whole lines. NULL where a place repeats, or registers are no multiple of the vector. */
const Layout *layout_by_threads(Arena *arena, const Layout *layout, unsigned vector, unsigned copies);

/* Operations. */
/* Do threads hold the elements as the fragments in which a product takes its left operand from registers? */
bool layout_is_left_operand(const Layout *layout, NumberType type);
/* Is it of layout_group_a_paired, layout_shared_paired, layout_turned? */
bool layout_is_paired_operand(const Layout *layout);
bool layout_is_shared_paired(const Layout *layout);
bool layout_is_turned(const Layout *layout);
bool layout_equal(const Layout *a, const Layout *b); /* same map, whatever the modes look like */
/* Does every thread that holds an element in `to` hold it in `from` too, all in registers of the same numbers? Then a
 * conversion only renames registers. */
bool layout_same_threads(const Layout *from, const Layout *to);
/* The layout of a row (keep = 1) or column (keep = 0) vector that belongs to a 2-D layout: the other
 * dimension has extent 1 and its modes replicate. Register modes that only replicate are dropped. */
const Layout *layout_slice(Arena *arena, const Layout *layout, unsigned keep);
/* The layout of a tile that has one element for each `every` of a 2-D layout's along dim: digits that stay within
 * these replicate, those of registers and lanes in part, too; registers that only do so are dropped. NULL where a
 * digit does not. */
const Layout *layout_every(Arena *arena, const Layout *layout, unsigned dim, unsigned every);
/* The layout of a part of a tile with the extents given, starting where a register begins a new piece: what
 * is cut off are registers. NULL where lanes or warps would go. */
const Layout *layout_part(Arena *arena, const Layout *layout, const unsigned *extents);
/* Exchanges the two dimensions. */
const Layout *layout_transposed(Arena *arena, const Layout *layout);
unsigned layout_size(const Layout *layout, LayoutPlace place); /* product of the place's mode sizes */
unsigned layout_registers(const Layout *layout);               /* elements a thread holds */
/* Coordinates of the element at (block, warp, lane, register), or at an element offset, which `reg` then
 * gives (PLACE_OFFSET layouts; the padding has no element and gives the one it follows). */
void layout_at(const Layout *layout, unsigned block, unsigned warp, unsigned lane, unsigned reg,
               unsigned *coordinate);
/* Byte offset of an element in a shared layout, swizzle applied relative to an aligned base. */
uint64_t layout_byte_offset(const Layout *layout, NumberType type, const unsigned *coordinate);
uint64_t layout_bytes(const Layout *layout,
                      NumberType type); /* extent of a shared layout in bytes, padding included */
/* Longest run of registers that are contiguous along dim for every thread (vector width), a power of two. */
unsigned layout_vector(const Layout *layout, unsigned dim);
/* Elements that a thread holds side by side along dim, wherever their registers are; a power of two. */
unsigned layout_side_by_side(const Layout *layout, unsigned dim);

/* Text after `in` in a tile type: a constructor with its arguments, `group.d(2)`, `mma.c(2, 4)`,
 * `blocked(vector 8, lanes 32, row_warps 1, warps 4)`, `shared(inner 1, swizzle 128, pad 0)`, or the modes
 * themselves,
 * `{register 2:1.1 2:0.8 | lane 4:1.2 8:0.1 | warp 4:-}` (size:dim.step; `-` replicates). The extents and the
 * element type come from the tile type around it. On failure NULL, and *message (arena) says why. */
const char *layout_text(Arena *arena, const Layout *layout);
const Layout *layout_parse(Arena *arena, const char *text, NumberType type, unsigned rank,
                           const unsigned *extents, const char **message);
