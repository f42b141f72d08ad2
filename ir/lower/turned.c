/* Tiles of 8 bits that are turned around on their way from one slot to another.
 *
 * Products take elements of 8 bits contiguous along k alone, and matrices move cells of two bytes. A matrix that is transposed as it
 * is loaded gives a lane two neighbouring columns c, c + 1 of two rows; of two such matrices, 8 rows apart, bytes 0 and 2 are
 * four rows of column c, bytes 1 and 3 of column c + 1. These words, stored as matrices, are rows of the turned tile, with the rows of
 * the first one in the order of layout_shared_paired. (FlashAttention-3 does the same for its values: Shah et al., 2024.) */
#include "ir/lower/lower.h"

enum { ROWS = 16, COLUMNS = 32, MATRICES = 4 }; /* of the turned tile in one instruction */

static const Mechanism *matrices_of(const Lower *lower, MechanismKind kind)
{
  const Mechanism *moves = ir_mechanism_issued(lower->module, kind, ISSUE_WARP);
  bool four = moves && !moves->missing && mechanism_matrices(moves, MATRICES) == MATRICES;
  return four ? moves : NULL;
}

/* Words of the two rows that a lane has of 16, of the first and of the second 16 columns. */
static unsigned word_at(Lower *lower, const Layout *layout, const unsigned *at, unsigned row, unsigned half)
{
  return lower_register_at(lower, layout, at[0] + row, at[1] + half * COLUMNS / 2) / 4;
}

LowerTile *lower_get_turned(Lower *lower, NumberType element, const Layout *layout, const LowerShared *shared)
{
  const Mechanism *loads = matrices_of(lower, MECHANISM_GET);
  if (!loads || !loads->transposes || lower_shared_inner(shared) != 0 || lower_shared_vector(shared, 0) < 16)
    return NULL;
  LowerTile *tile = lower_tile_new(lower, element, layout);
  LowerMap map = lower_map_of_warps(layout);
  const unsigned *at = lower_registers(lower, layout);
  tile->packed = true;
  tile->pair = arena_new_array(lower->arena, IrExpr *, tile->n / 4);
  lower_map_add(&map, SOURCE_LANE, 1, 32, 32, 1, 1);
  for (unsigned r = 0; r < tile->n && !lower->failed; r++) {
    const unsigned *here = at + (size_t)r * LAYOUT_MAX_DIMS;
    if (here[0] % ROWS || here[1] % COLUMNS) continue;
    LowerAddress address = lower_shared_at(lower, shared, &map, here);
    IrOp *load = lower_emit(lower, OP_LOAD_MATRIX, 1, lower_address(lower, address));
    ir_attribute_set(load, ATTR_TRANSPOSED, NULL);
    IrExpr *x[MATRICES];
    for (unsigned i = 0; i < MATRICES; i++)
      x[i] = lower_result(lower, load, "x", ir_scalar(NUMBER_B32));
    for (unsigned i = 0; i < MATRICES; i++)
      tile->pair[word_at(lower, layout, here, i % 2, i / 2)] =
          lower_value(lower, OP_PERMUTE, ir_scalar(NUMBER_B32), "turned", 3, x[i / 2 * 2], x[i / 2 * 2 + 1],
                      lower_int(lower, i % 2 ? 0x7531 : 0x6420));
  }
  return tile;
}

/* Of eight lanes in a column, the first four have a matrix's even rows, the others odd ones, so that its rows are different modulo 8
 * and no two of them meet in a bank of a swizzled tile; the next matrix has the rest. */
bool lower_put_turned(Lower *lower, LowerTile *tile, const LowerShared *shared)
{
  const Mechanism *stores = matrices_of(lower, MECHANISM_PUT);
  if (!stores || !layout_is_turned(tile->layout) || !layout_is_shared_paired(shared->layout) ||
      lower_shared_inner(shared) != 1 || !tile->packed)
    return false;
  LowerMap map = lower_map_of_warps(tile->layout);
  const unsigned *at = lower_registers(lower, tile->layout);
  lower_map_add(&map, SOURCE_LANE, 1, 4, 32, 0, 2);
  lower_map_add(&map, SOURCE_LANE, 4, 2, 32, 0, 8);
  lower_map_add(&map, SOURCE_LANE_CROSSED, 1, 2, 32, 0, 1);
  lower_map_add(&map, SOURCE_LANE, 16, 2, 32, 1, COLUMNS / 2);
  IrExpr *bit = lower_bits(lower, OP_AND, NUMBER_S32, lower->lane, lower_int(lower, 16));
  IrExpr *early = lower_compare(lower, OP_EQ, bit, lower_int(lower, 0));
  for (unsigned r = 0; r < tile->n && !lower->failed; r++) {
    const unsigned *here = at + (size_t)r * LAYOUT_MAX_DIMS;
    if (here[0] % ROWS || here[1] % COLUMNS) continue;
    IrExpr *operands[1 + MATRICES];
    for (unsigned i = 0; i < MATRICES; i++) {
      IrExpr *even = tile->pair[word_at(lower, tile->layout, here, 0, i / 2)],
             *odd = tile->pair[word_at(lower, tile->layout, here, 1, i / 2)];
      operands[1 + i] = lower_value(lower, OP_SELECT, ir_scalar(NUMBER_B32), "row", 3, early,
                                    i % 2 ? odd : even, i % 2 ? even : odd);
    }
    operands[0] = lower_address(lower, lower_shared_at(lower, shared, &map, here));
    lower_emit_array(lower, OP_STORE_MATRIX, 1 + MATRICES, operands);
  }
  return true;
}
