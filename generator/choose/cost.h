/* What a GEMM tile is expected to take, from the GPU's description and its cost model (adl/model.h). Pure functions; thread-safe. */
#pragma once
#include "adl/gpu.h"

typedef struct CostGemm { /* extents; batches merge into one number */
  int64_t batches, m, n, k;
  double a_bytes, b_bytes; /* of an element */
  unsigned out_bytes;
  NumberType type;               /* of the operands: which peak counts */
  NumberType through;            /* what instructions of warps take, which threads may widen operands to */
  unsigned sms;                  /* SMs the kernel may use */
  bool a_straddles, b_straddles; /* rows of the operand start beside multiples of a sector, */
  bool out_straddles;            /* and those of the result */
  bool uneven_m, uneven_n;       /* batches are groups, whose rows, along m or n, are so many on average */
  unsigned a_lines, b_lines;     /* what rows begin at multiples of, up to a line of 128 bytes */
  double operations;             /* of the epilogue, for each output (steps_operations) */
} CostGemm;

typedef struct CostTile {
  unsigned bm, bn, bk, stages;
  unsigned pingpong;     /* warpgroups that take tiles in turn; 0 and 1: they share each */
  unsigned split_k;      /* blocks of a cluster that share a tile, each a part of k; 0 and 1: none */
  unsigned reducers;     /* of these, those that finish a part of its columns */
  bool streamed;         /* the `split_k` blocks are no cluster: they add up through device memory */
  unsigned stream_steps; /* then k steps of a portion; 0: a part of `split_k` */
  bool sliced; /* so are these; those of one part of k are neighbours, and all parts are added at once */
  unsigned cluster_m;     /* blocks that take tiles below one another and share copies of B; 0 and 1: none */
  unsigned cluster_n;     /* and beside one another, which share copies of A */
  unsigned blocks;        /* that share an SM; 0 and 1: each has one for itself */
  bool walks;             /* each block takes tiles one after the other; so far only asked of warp MMAs */
  bool threads_copy;      /* and warps multiply; else TMA and warpgroup MMAs */
  unsigned copy_bytes;    /* that a thread copies at a time; 0: 16 */
  bool through_registers; /* so A passes between the slot and the product */
  bool widens;            /* A has 8 bits or 4, and is widened there */
  bool widens_across;     /* and it lies across k */
  bool by_warps;          /* TMA copies, and warps multiply */
  unsigned k_parts;       /* such that have a part of each step's k; 0 and 1: all have all of it */
  bool promote;           /* each step's sum is added to the accumulator by ordinary instructions */
  bool two_scales;        /* columns of the tile lie in two blocks of B that have scales of their own, */
  bool short_chunks;      /* by chunks of fewer than 64 columns */
  unsigned parts_m;       /* of the tile's rows that a step multiplies one after the other; 0 and 1: none */
  unsigned warpgroups_n;  /* warpgroups that share 64 rows, each with columns of its own; 0 and 1: none */
  bool exchanged;         /* rows of the result lie along bm, not along bn */
  bool clips_rows, clips_columns; /* copies of A, of B end with the tensor (clip_copies) */
} CostTile;

typedef struct CostReport {             /* clocks */
  double tensor, shared, copy, latency; /* of one k step, each alone */
  double alone;  /* of one k step, beside `tensor`, where no other block shares the SM */
  double step;   /* of one k step: the slowest of these, or what a step costs at least */
  double tiles;  /* of the output */
  double waves;  /* tiles that the busiest SM works on */
  double memory; /* of all bytes through device memory, each once */
  double total;  /* of the kernel, launch excluded */
} CostReport;

/* Tiles and waves alone, as the functions below count them: `parts` blocks take a tile, `resident` share an SM.
 * What is given up for these need not be priced. */
CostReport cost_waves(const CostModel *model, const CostGemm *gemm, const CostTile *tile, unsigned parts,
                      unsigned resident);
/* A kernel of TMA copies and warpgroup MMAs, persistent, its stores by TMA. */
CostReport cost_warpgroup_gemm(const Gpu *gpu, const CostGemm *gemm, const CostTile *tile);
/* Has the epilogue enough operations that the assembler would interleave those of many results? */
bool cost_has_arithmetic(const CostModel *model, const CostGemm *gemm);
/* Of warpgroups that take turns: is it better that an epilogue's arithmetic keeps out of the way of the
 * other's products (pace_results) than that it is done as fast as it can be? */
bool cost_paces(const Gpu *gpu, const CostGemm *gemm, const CostTile *tile);
/* Slots of a ring beyond which the tile is no faster, or slower; G_MAXUINT: none are known. */
unsigned cost_slots(const Gpu *gpu, const CostGemm *gemm, const CostTile *tile);
/* The same with few columns (bn), its results straight from registers: it lives from streaming A. */
CostReport cost_stream_gemm(const Gpu *gpu, const CostGemm *gemm, const CostTile *tile);
/* A kernel of per-thread copies and warp MMAs; only the order of totals means something. */
CostReport cost_warp_gemm(const Gpu *gpu, const CostGemm *gemm, const CostTile *tile);
/* Sums along k: a lane loads `vector` elements at a time; a block has so many columns of the result, a warp
 * so many rows of B. All of A passes for each warp, so it is for few rows. */
double cost_sums(const Gpu *gpu, const CostGemm *gemm, unsigned vector, unsigned columns, unsigned rows);
/* Steps whose loads such a lane has on their way together, of m rows of A. */
unsigned cost_sums_deep(const CostModel *model, unsigned vector, unsigned rows, unsigned m);
/* A few results, each a sum to which all threads of the blocks of a cluster add. */
typedef struct CostDots {
  int64_t rows, columns, k; /* of the result; a block takes `bm` rows and one column */
  unsigned bytes;           /* of an element */
  unsigned vector;          /* elements that a thread loads at a time */
  unsigned threads, split_k, bm;
  bool rows_across, columns_across; /* elements along k are as far apart as the operand has rows */
} CostDots;
/* Steps whose loads such a thread has on their way together. */
unsigned cost_dots_deep(const CostModel *model, const CostDots *dots);
double cost_dots(const Gpu *gpu, const CostDots *dots);
/* Rows of tiles that are best walked together, so that the fewest bytes of operands come from device memory.
 */
unsigned cost_raster(const Gpu *gpu, const CostGemm *gemm, const CostTile *tile);
