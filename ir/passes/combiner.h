/* What combines the values of a reduction, applied to tiles (reduce_clusters). Not thread-safe for one module. */
#pragma once
#include "ir/ir.h"

#define COMBINER_MAX 8 /* values that are combined together */

/* `behind`: places of `part` stand behind those of `sum` (REDUCER_BEHIND). Emits what the `with` of a reduction does to sum[i] and part[i], tiles of the shape, and leaves what it gives in sum. false and an error: its sub-kernel does what has no meaning for tiles. */
bool combiner_apply(IrBuilder *builder, const IrOp *reduce, const IrType *shape, bool behind, IrExpr **sum,
                    IrExpr *const *part, GError **error);
