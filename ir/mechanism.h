/* Mechanisms: the ways of a GPU to move a tile or to take a product, as rows of properties.
 *
 * The rows stand in ir/mechanisms.def; what they are on one GPU comes from its description. `via` in the text names a
 * row. Passes, lowering and verifier ask a row for a property (who issues it, how it completes, where its operands
 * lie) and never for its name, so that a new mechanism is a new row and its lowering. Rows are immutable; safe from
 * several threads. */
#pragma once
#include "adl/gpu.h"
#include "ir/ir.h"

#define WARP_LANES          32 /* of layouts, masks and shuffles; the description may say nothing else */
#define WARPGROUP_WARPS     4  /* warps that issue a warpgroup's product together */
#define NAMED_BARRIER_FIRST 1 /* of those that passes give out; 0 is the one at which the whole block meets */
#define FRAGMENT_ROWS                                                                                        \
  16 /* of a product that a warp keeps in its registers, its own or its share of a group's */
#define OVERLAY_BARRIERS                                                                                     \
  1 /* at which a role meets before results take the place of its ring (stage_stores) */
#define SWIZZLE_ROWS         8 /* after which a swizzle repeats */
#define MECHANISM_NOT_LISTED "the description lists none"
#define MECHANISM_SIZES_MOST 16 /* bytes, of one access of a thread */

typedef enum {
  MECHANISM_FILL,
  MECHANISM_DRAIN,
  MECHANISM_PRODUCT,
  MECHANISM_PUT,
  MECHANISM_GET,
  MECHANISM_CONVERT
} MechanismKind;

typedef enum {
  ISSUE_THREAD,
  ISSUE_LANE,
  ISSUE_WARP,
  ISSUE_WARPGROUP,
  ISSUE_BLOCK,
  ISSUE_CLUSTER,
  ISSUE_GRID
} MechanismIssue;

typedef enum {
  COMPLETES_RESULT,
  COMPLETES_THREAD_GROUP,
  COMPLETES_WARPGROUP_GROUP,
  COMPLETES_BARRIER_BYTES,
  COMPLETES_BARRIER_PHASE,
  COMPLETES_IMMEDIATE,
  COMPLETES_KERNEL_END
} MechanismCompletion;

/* Where a value is; a set of bits where a mechanism takes it from several places. */
typedef enum {
  IN_REGISTERS = 1,
  IN_SHARED = 2,
  IN_PEER_SHARED = 4, /* shared memory of another block of the cluster */
  IN_GLOBAL = 8,
  IN_ACCUMULATORS = 16, /* memory of the product unit, which keeps sums there */
} IrPlace;

/* The layout that a product gives its accumulator. */
typedef enum {
  ACCUMULATOR_NONE,
  ACCUMULATOR_WARP,      /* mma.c */
  ACCUMULATOR_WARPGROUP, /* group.d */
  ACCUMULATOR_THREAD,    /* fma.c */
  ACCUMULATOR_MEMORY     /* cells: rows in lanes, columns in cells of accumulator memory */
} MechanismAccumulator;

typedef struct Mechanism {
  const char *name, *family, *pieces, *label;
  MechanismKind kind;
  const char *missing; /* why this GPU has no such mechanism; NULL: it has */
  MechanismIssue issue;
  unsigned warps; /* that issue one operation together; 0: each thread its own */
  unsigned
      blocks; /* of a cluster that take one product together, each the rows of its own sum, or, where A lies in peers'
                      shared memory too, its columns; 0: one */
  MechanismCompletion completion;
  /* products */
  IrPlace a, b,
      acc; /* where operands may lie; where the accumulator does; what several blocks take and that lies in
                        peers' shared memory too, each block has a part of */
  MechanismAccumulator accumulator;
  const GpuProduct *shapes; /* of all families */
  unsigned n_shapes;
  unsigned groups_in_flight; /* that a wait may leave pending */
  /* transfers */
  IrPlace reads, writes;
  unsigned sizes;    /* bytes that one access of a thread may move: the sum of these powers of two; 0: any */
  unsigned matrices; /* 8x8 matrices of one instruction: the sum of these powers of two */
  bool transposes;   /* it may transpose what it moves */
  bool multicasts;   /* one fill may reach several blocks of a cluster */
  /* of tiles in shared memory */
  unsigned swizzles; /* widths in bytes: the sum of these powers of two */
  unsigned alignment, swizzle_alignment;
  unsigned
      run_multiple; /* bytes of one piece of memory that it moves without a tensor map; 0: it needs one */
  /* of tensor maps */
  unsigned address_multiple, stride_multiple, row_multiple; /* bytes */
  unsigned box_max, rank_max;
} Mechanism;

enum {
#define MECHANISM(id, ...) MECHANISM_##id,
#include "ir/mechanisms.def"
#undef MECHANISM
  MECHANISM_COUNT
};

/* The rows as the description fills them; gpu NULL: as the texts of any GPU mean them. `rows` has MECHANISM_COUNT. */
void mechanisms_read(const Gpu *gpu, Mechanism *rows);
/* Rows of a module: those of the run at hand (ir_run_passes), else those of any GPU. */
const Mechanism *ir_mechanisms(const IrModule *module, unsigned *n);
/* The first row of a kind with a name, whether this GPU has it or not; NULL: no row is called so. */
const Mechanism *ir_mechanism_named(const IrModule *module, MechanismKind kind, const char *name);
/* The first row of a kind that completes so and that this GPU has; NULL: none. */
const Mechanism *ir_mechanism_usable(const IrModule *module, MechanismKind kind,
                                     MechanismCompletion completion);
/* The row that an op's `via` names; NULL: it has none, or its kind of op takes none. */
const Mechanism *ir_mechanism_of(const IrOp *op);
/* The first row that fills shared memory by an engine that counts bytes, by tensor maps or without; NULL: none. */
const Mechanism *ir_mechanism_engine(const IrModule *module, bool maps);
/* The best row of a kind, whether this GPU has it or not: lowering does by single accesses what it lacks. */
const Mechanism *ir_mechanism_first(const IrModule *module, MechanismKind kind);
/* The first row of a kind that these issue. */
const Mechanism *ir_mechanism_issued(const IrModule *module, MechanismKind kind, MechanismIssue issue);
void ir_mechanism_set(IrOp *op, const Mechanism *mechanism); /* its `via` */
/* The keyword of `by`: who does it. */
const char *mechanism_issue_name(MechanismIssue issue);
/* The kind of mechanism that an opcode's `via` names; false: it takes none. A copy out of shared memory drains. */
bool ir_mechanism_kind(const IrOp *op, MechanismKind *kind);

/* ---- Questions ---- */

/* Does the product, or the transfer, go on while its threads do? */
bool mechanism_is_asynchronous(const Mechanism *mechanism);
/* A product that its threads commit and wait for in groups. */
bool ir_is_grouped_product(const IrOp *op);
/* Does the op name a mechanism that completes so? */
bool ir_completes(const IrOp *op, MechanismCompletion completion);
/* A product that goes on while its threads do, however they learn of its end. */
bool ir_is_asynchronous_product(const IrOp *op);
/* A copy that each thread commits and waits for in groups. */
bool ir_is_grouped_copy(const IrOp *op);
/* Does the op pass through shared memory, so that all warps of its role meet in it? */
bool ir_meets(const IrOp *op);
/* A fill or copy of an engine that counts bytes on a barrier or is named by a tensor map: one thread starts it. */
bool ir_is_engine_copy(const IrOp *op);
/* Blocks that take one product together, at least 1. */
static inline unsigned mechanism_blocks(const Mechanism *mechanism)
{
  return MAX(1, mechanism->blocks);
}
/* Blocks that take the product together, as its text says. */
unsigned ir_product_blocks(const IrOp *mma);
/* Does one of them issue it for all (ISSUE_CLUSTER)? It reads the operands of each in its own shared memory, and writes its sum. */
bool ir_product_is_led(const IrOp *mma);
#define PRODUCT_LEADER 0 /* the place of that one in the cluster */
/* The operand, 1 or 2, of which they have a part each, in their shared memory; 0: each block has all of both. */
unsigned ir_product_divided(const IrOp *mma);
/* The shape of a product of these types; NULL: it does not take them. */
const GpuProduct *mechanism_product(const Mechanism *mechanism, NumberType a, NumberType b, NumberType acc);
/* The widest of a set of swizzles, in bytes, that rows of so many bytes are a multiple of; 0: none. */
unsigned swizzle_widest(unsigned swizzles, unsigned row_bytes);
#define SWIZZLES_ALL (32u | 64u | 128u)
/* Swizzles that both have, for tiles of a type that the one writes, in boxes whose rows are no longer than it can,
 * and the other reads; either may be NULL. A thread computes any. */
unsigned mechanism_swizzles(const Mechanism *writer, const Mechanism *reader, NumberType type);
/* The largest access up to `bytes` that the mechanism has; 0: none. */
unsigned mechanism_size(const Mechanism *mechanism, unsigned bytes);
/* The longest side up to `most` of boxes that divide `extent` rows: whole patterns of a swizzle where there are several
 * boxes. 0: no box does. */
unsigned tensor_box_side(unsigned extent, unsigned most);
/* The most matrices up to `wanted`, a power of two, that one instruction moves; 0: none. */
unsigned mechanism_matrices(const Mechanism *mechanism, unsigned wanted);
/* Where the elements of a tile type with a layout are. */
IrPlace ir_place_of(const IrType *type);
/* The lowest number from which on no op of the kernel names a barrier of the block: what a pass may give out, if the GPU has so many. */
int64_t named_barrier_free(const IrFunction *kernel);
