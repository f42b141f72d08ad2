/* Tiles that lie along rows for some of their accesses and along columns for others, and cannot move whole vectors either way. */
#pragma once
#include "ir/ir.h"

/* Lanes along a row first, then rows; warps beyond what the rows take share rows. whole: columns that a thread has all of. NULL: the
 * extents do not divide so. */
const Layout *crossed_spread(Arena *arena, unsigned rank, const unsigned *extent, unsigned rows,
                             unsigned columns, unsigned vector, unsigned warps, unsigned whole);
/* Gives each access of such a tile the layout it likes: a loaded value that of its load (`fixed`), what is stored that of its store
 * (`wanted`, IrOp* -> const Layout*). Others stay as they are. bank: bytes of one of shared memory. */
void crossed_place(IrFunction *kernel, const GPtrArray *ops, unsigned bank, GHashTable *fixed,
                   GHashTable *wanted);
