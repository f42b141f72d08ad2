/* What the THREAD passes share. */
#pragma once
#include "ir/pass.h"

/* The register of an address operand `%p` or `%p + c` (in any nesting) and its offset; NULL if there is none.
 */
IrValue *ir_address_base(const IrExpr *expr, int64_t *offset);
/* true if operand i may be register + constant. */
bool ir_operand_is_address(const IrOp *op, unsigned i);
/* Variables that any op of the region (nested ones too) writes after their declaration, as a set. */
GHashTable *ir_written_variables(const IrRegion *region);
/* The variable an op writes through operand 0, or NULL. */
IrValue *ir_written_variable(const IrOp *op);
