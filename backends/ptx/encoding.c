/* Constants of the encoding: the two words that name a warpgroup product's operand in shared memory (PTX ISA,
 * "Matrix descriptor").
 *
 *   bits  0..13  start, in 16 bytes          bits 32..45  from 8 rows to the next, in 16 bytes
 *   bits 16..29  from a panel to the next    bits 62..63  swizzle: 1 128 bytes, 2 64, 3 32 */
#include "backends/ptx/internal.h"
#include <string.h>

#define REACH   0x3FFFF /* bytes that 14 bits of 16 bytes reach */
#define UNIT    4       /* bits */
#define PANELS  16
#define SWIZZLE 30 /* of the upper word */

bool encoded_constant(const IrExpr *call, int64_t *value)
{
  int64_t bytes = 0, swizzle = 0;
  if ((call->n > 0 && !ir_expr_is_int(call->items[0], &bytes)) ||
      (call->n > 1 && !ir_expr_is_int(call->items[1], &swizzle)))
    return false;
  if (!strcmp(call->name, "operand_reach")) return *value = REACH, true;
  if (!strcmp(call->name, "operand_unit")) return *value = UNIT, true;
  if (!strcmp(call->name, "operand_panels")) return *value = bytes >> UNIT << PANELS, true;
  if (strcmp(call->name, "operand_rows")) return false;
  int64_t kind = swizzle == 128 ? 1 : swizzle == 64 ? 2 : swizzle == 32 ? 3 : 0;
  *value = kind << SWIZZLE | bytes >> UNIT;
  return true;
}
