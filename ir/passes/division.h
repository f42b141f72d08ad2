/* Work that is divided along a dimension of a tile: among blocks of a cluster, instances of a role, slices of k or parts of a
 * result. Whoever divides says how large a part is and whose it is; what a part is of a tensor's corner, of a slot and of a
 * sum that several have stands here. Pure functions on the kernel's IR; not thread-safe for one module. */
#pragma once
#include "ir/ir.h"

/* Where the part of the one at `place` begins; parts are of `part` elements. */
IrExpr *division_begin(IrModule *module, IrExpr *place, int64_t part);
/* A tensor at a corner, EXPR_INDEX, moved by so much along dimension `dim` of the tile of `rank` dimensions that lies there: along
 * the tensor's last ones. */
IrExpr *division_corner(IrModule *module, const IrExpr *access, unsigned rank, unsigned dim, IrExpr *by);
/* `part` elements of a tile of two dimensions along `dim`, from `begin` on; all along the other one. */
IrExpr *division_part(IrModule *module, IrExpr *tile, const IrType *type, unsigned dim, IrExpr *begin,
                      int64_t part);
/* The tile's type with `part` elements along `dim`; in the module's arena. */
IrType *division_type(IrModule *module, const IrType *whole, unsigned dim, int64_t part);

/* What a `combine` of a tile that several have gives: the first of them add up a share of its columns each. */
typedef struct CombineShares {
  int64_t columns; /* of one share */
  int64_t owners;  /* those who have one */
  int64_t parts;   /* that an owner gets of its share, one from each other who has the tile */
} CombineShares;

/* false: so many divide no such tile among them. */
bool division_shares(const IrOp *combine, int64_t sharers, CombineShares *shares);
/* The numbers of a part, from what counts its elements: the uses of `iota` in the region become that, of `type`, and where
 * the part begins. */
void division_count(IrRegion *region, IrOp *iota, const IrType *type, IrExpr *begin);
