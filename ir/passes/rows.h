/* What the files of place_rows share: what a row is (rows.c), and what is done to reductions along it. */
#pragma once
#include "ir/pass.h"

typedef struct Rows {
  const IrPassContext *context;
  IrModule *module;
  IrFunction *kernel;
  IrOp *tiles; /* the loop whose tiles have rows */
  IrRegion *
      body; /* what is done for one tile: of the loop in which a block takes several in turn, or of `tiles` */
  const IrExpr *row; /* its `row`: a dim or a constant */
  IrExpr *columns;   /* the same as a value: a constant where it is known */
  int64_t width;     /* elements of a row, 0 where only the launch knows */
  int64_t extent;    /* of a tile in place of the row's; of a chunk, where rows are read in passes */
  IrExpr *begin;     /* column of a tile's first element, 0 or less; NULL: tiles begin with the row */
  int64_t lead;      /* 0, or: a tile begins less than so many elements in front of the row */
  GHashTable *
      inside; /* columns for one of the row's -> IrExpr*: what lies in the row, of tiles that begin with it */
  GArray *every; /* int64_t: so many elements become one somewhere */
  GError **error;
} Rows;

/* Is the type's last extent the row's, or so many elements of it to one? */
bool rows_part(const Rows *rows, const IrType *type, int64_t *every);
/* The operation reduces the row to one element. */
bool rows_reduces(const Rows *rows, const IrOp *op);
/* Elements of a row of which every so many became one. */
IrExpr *rows_columns(const Rows *rows, int64_t every);

/* Constant extents in place of the row's, of all results. */
void rows_set_extents(const Rows *rows, const GPtrArray *ops);

/* ---- row_lead.c ---- */

/* Tiles of rows that begin anywhere begin in front of them, with whole vectors, where threads would access `vector` elements at once
 * otherwise; sets `begin` and `lead`, or leaves all as it is. */
void rows_find_lead(Rows *rows, int64_t vector);

/* ---- row_reductions.c ---- */

/* Elements become states, and reducers that have a form for rows that stay take it, if `stay`. */
bool rows_write_reducers(Rows *rows, bool stay);
/* The identity of what a reduction's operand i holds, a literal; NULL and an error: its reducer has none. */
IrExpr *rows_identity(const Rows *rows, const IrOp *reduce, unsigned i);
/* Of the operand what lies inside: elements from `columns` on count as the identity. `first`: of the tile's columns;
 * NULL: it begins with the row. */
bool rows_mask(const Rows *rows, IrOp *reduce, IrExpr *first);

/* ---- row_exchanges.c ---- */

/* Reductions of one phase, of tiles of one shape, become one of a tuple. */
void rows_share_exchanges(Rows *rows);

/* ---- row_ring.c ---- */

/* Rows, placed as those in registers, arrive in so many slots of shared memory. */
bool rows_place_ring(Rows *rows, int64_t slots);

/* ---- row_products.c ---- */

/* Products that are added or taken off become one operation with that. */
void rows_join_products(Rows *rows);

/* ---- row_passes.c ---- */

/* Rows are read in chunks, once for each phase. */
bool rows_place_passes(Rows *rows);
