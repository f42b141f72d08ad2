/* What is known of a kernel's run-time scalars and pointers: divisibility and bounds, from its dims
 * (`multiple`, `maximum`) and tensors (`align`). The variant's guard has checked them at launch, so passes
 * may rely on them. */
#pragma once
#include "ir/ir.h"

/* The largest power of two up to `limit` (a power of two) that is known to divide an integer expression. */
unsigned ir_known_multiple(const IrFunction *function, const IrExpr *expr, unsigned limit);
/* The same, of a kernel whose walks of tiles are still one op each, and of what their sub-kernels give too. */
unsigned ir_walked_multiple(const IrFunction *function, const IrExpr *expr, unsigned limit);
/* An upper bound of a non-negative integer expression, or INT64_MAX. */
int64_t ir_known_maximum(const IrFunction *function, const IrExpr *expr);
/* Is an integer expression never below 0, whatever its dims and places are? */
bool ir_is_non_negative(const IrExpr *expr);
/* The dimension of a tensor whose stride is the constant 1, or -1. */
int ir_contiguous_dim(const IrType *tensor);
/* How many consecutive elements along the contiguous dimension an access that starts at `corner` (one
 * expression a dimension) may move at once: the address is then aligned to them, and they lie inside the
 * tensor together or outside together. At most 16 bytes; 1 when nothing is known. `step` (a power of two) is
 * the multiple at which accesses start within the tile. */
unsigned ir_access_vector(const IrFunction *function, const IrType *tensor, IrExpr *const *corner,
                          unsigned step);
/* true if a tensor map of this engine can describe the tensor: base and strides of the multiples it asks for, a
 * contiguous dimension, no more dimensions than it has. (Bounds may be anything: TMA clips.) */
bool ir_tensor_map_possible(const IrFunction *function, const IrType *tensor, const struct Mechanism *engine);
#define TENSOR_MAP_RANK 5 /* dimensions of a tensor map in the text, the plan and the driver */
/* An operand without the `^T` behind it. */
const IrExpr *ir_untransposed(const IrExpr *expr);
/* `%x` behind an operand that names a tile of a channel or a tensor: the base of EXPR_INDEX / EXPR_FIELD /
 * transposed. */
const IrExpr *ir_access_base(const IrExpr *access);
/* Does a warpgroup MMA's A lie across k in its slot although it is not of 16 bits, so that it has to pass
 * through registers? The slot has its layout. */
bool ir_passes_registers(const IrFunction *function, const IrOp *mma);
/* The dimension along which a slot that threads fill with values lies contiguously for the product that has it as its
 * operand 1 or 2: rows, where the mechanism reads 16-bit operands and the like either way; else along k. */
unsigned ir_computed_inner(const IrFunction *function, const IrOp *mma, unsigned operand,
                           const struct Mechanism *product);
/* Are a tensor map's boxes rectangles of the tensor? Else they are pixels and channels that a convolution reads. */
bool ir_map_is_tiled(const IrOp *map);
/* Bytes of a channel's slot: of all its tiles. */
int64_t ir_slot_bytes(const IrOp *channel);
/* Is it the extent of a row, or so many elements of it to one: `C`, `C / 128`, `ceil_div(C, 128)`? `every` may be NULL. */
bool ir_row_extent(const IrExpr *extent, const IrExpr *row, int64_t *every);
/* Threads of the launch; of a kernel that nobody has asked yet, one warpgroup. */
unsigned ir_launch_threads(const IrFunction *kernel);
/* Warps of a role, or 0 if its range is not constant. */
unsigned ir_role_warps(const IrOp *role);
/* Iterations of a FOR whose bounds and step are constants; 0: none, or nobody knows. */
int64_t ir_trip_count(const IrOp *loop);
/* The cursor under which an access to a channel's slot lies, or NULL. */
IrExpr *ir_slot_cursor(const IrExpr *access);
/* Does an expression follow from a leaf that `is` picks: one of its own, or of what the operations read that define its values,
 * and the loops and walks that count them? */
bool ir_follows(const IrExpr *expr, bool (*is)(const IrExpr *leaf, const void *data), const void *data);
/* Does the op bring the cursor to its next slot? */
bool ir_steps_cursor(const IrOp *op, const IrValue *cursor);
/* How many ops of the region do, those of regions within not among them. */
unsigned ir_count_steps(const IrRegion *region, const IrValue *cursor);
/* The SLOT op that `@channel.field` (with or without an index) names, or NULL. */
IrOp *ir_slot_of(const IrFunction *function, const IrExpr *access, IrOp **channel);
/* Registers of a thread that a tile in registers takes, of which `vector` elements arrive together. */
unsigned ir_tile_registers(const IrType *type, int64_t vector);
