/* Fragments: what a warp MMA takes of a tile in shared memory, as 32-bit registers.
 *
 * They come by 8x8 matrices of 16-bit cells: rows of 16 bytes. An operand of any element size that is
 * contiguous along k fits as it is; a 16-bit one that is contiguous along m or n is transposed on the way;
 * others are read element by element. */
#include "ir/lower/lower.h"

typedef struct Operand {
  LowerShared shared;
  const LowerMap *warps; /* the warps' part of the coordinates */
  unsigned k_dim;        /* dimension of the tile along k: 1 of A, 0 of B */
  unsigned per;          /* elements in a 32-bit register */
} Operand;

#define MOST_SUMS 144 /* registers: beside more, the few that keep lanes apart would spill */

/* Are lanes' places kept apart from the slot's start? It costs registers, and saves most where the load
 * itself adds the start. Beside an operand that comes element by element it gained nothing. */
static bool is_apart(const Lower *lower)
{
  bool added = gpu_fact(lower->context->gpu, "matrix_load.uniform_offset") == 1;
  return !lower->plain && (added || lower->sums <= MOST_SUMS);
}

static Operand operand_of(const Lower *lower, const LowerShared *shared, const LowerMap *warps,
                          unsigned k_dim)
{
  Operand operand = {*shared, warps, k_dim, number_elements(shared->element, 4)};
  operand.shared.apart = is_apart(lower);
  return operand;
}

/* NULL: the GPU has none. */
static const Mechanism *matrix_loads(const Lower *lower)
{
  const Mechanism *loads = ir_mechanism_issued(lower->module, MECHANISM_GET, ISSUE_WARP);
  return loads && !loads->missing && loads->matrices ? loads : NULL;
}

/* `matrices` of them, by instructions for as many or fewer, if the GPU has such. */
static bool is_matrix_loadable(Lower *lower, const Operand *operand, unsigned matrices)
{
  unsigned inner = lower_shared_inner(&operand->shared), bytes = number_bytes(operand->shared.element);
  const Mechanism *loads = matrix_loads(lower);
  if (!loads || !mechanism_matrices(loads, matrices)) return false;
  if (inner != operand->k_dim && (bytes != 2 || !loads->transposes)) return false;
  return lower_shared_vector(&operand->shared, inner) * bytes >= 16;
}

/* Matrix i lies `k_first` ? (i & 1) : (i >> 1) steps along k and the other bit along m or n: what bit `bit` of i
 * moves. */
static unsigned matrix_step(const Operand *operand, bool k_first, unsigned bit, unsigned *dim)
{
  bool along_k = k_first == (bit == 0);
  *dim = along_k ? operand->k_dim : 1 - operand->k_dim;
  return along_k ? 4 * operand->per : 8;
}

/* So many matrices from number `first` on in one instruction: lanes 8 i .. 8 i + 7 give the rows of the i-th. */
static void load_some(Lower *lower, const Operand *operand, bool k_first, unsigned first, unsigned matrices,
                      const unsigned *at, IrExpr **out)
{
  unsigned k_dim = operand->k_dim, start[LAYOUT_MAX_DIMS] = {at[0], at[1]}, dim;
  LowerMap map = *operand->warps;
  bool transposed = lower_shared_inner(&operand->shared) != k_dim;
  lower_map_add(&map, SOURCE_LANE, 1, 8, 32, transposed ? k_dim : 1 - k_dim, 1);
  for (unsigned bit = 0; bit < 2; bit++) {
    unsigned step = matrix_step(operand, k_first, bit, &dim);
    if (first >> bit & 1) start[dim] += step;
    if (matrices > 1u << bit) lower_map_add(&map, SOURCE_LANE, 8u << bit, 2, 32, dim, step);
  }
  LowerAddress address = lower_shared_at(lower, &operand->shared, &map, start);
  IrOp *load = lower_emit(lower, OP_LOAD_MATRIX, 1, lower_address(lower, address));
  for (unsigned i = 0; i < matrices; i++)
    out[i] = lower_result(lower, load, "x", ir_scalar(NUMBER_B32));
  if (transposed) ir_attribute_set(load, ATTR_TRANSPOSED, NULL);
}

/* `matrices` 8x8 matrices, `at` the coordinate of the first, by as few instructions as the GPU has them for. */
static void load_matrices(Lower *lower, const Operand *operand, bool k_first, unsigned matrices,
                          const unsigned *at, IrExpr **out)
{
  unsigned together = mechanism_matrices(matrix_loads(lower), matrices);
  for (unsigned first = 0; first < matrices; first += together)
    load_some(lower, operand, k_first, first, together, at, out + first);
}

/* Do the elements of a register lie side by side, at a multiple of its bytes? */
static bool is_word(const Operand *operand)
{
  unsigned inner = lower_shared_inner(&operand->shared);
  return operand->per > 1 && inner == operand->k_dim &&
         lower_shared_vector(&operand->shared, inner) % operand->per == 0;
}

/* One 32-bit register, whole or element by element: rows (columns of B) lane / 4, k from per * (lane % 4). */
static IrExpr *load_elements(Lower *lower, const Operand *operand, const unsigned *at)
{
  LowerMap map = *operand->warps;
  lower_map_add(&map, SOURCE_LANE, 1, 4, 32, operand->k_dim, operand->per);
  lower_map_add(&map, SOURCE_LANE, 4, 8, 32, 1 - operand->k_dim, 1);
  if (is_word(operand)) {
    LowerAddress address = lower_shared_at(lower, &operand->shared, &map, at);
    IrOp *load = lower_emit(lower, OP_LOAD_SHARED, 1, lower_address(lower, address));
    return lower_result(lower, load, "x", ir_scalar(NUMBER_B32));
  }
  LowerTile tile = {.element = operand->shared.element, .n = operand->per};
  unsigned reg[4] = {0, 1, 2, 3};
  tile.reg = arena_new_array(lower->arena, IrExpr *, 4);
  for (unsigned i = 0; i < operand->per; i++) {
    unsigned here[LAYOUT_MAX_DIMS] = {at[0], at[1]};
    here[operand->k_dim] += i;
    lower_load_vector(lower, OP_LOAD_SHARED, lower_shared_at(lower, &operand->shared, &map, here), &tile,
                      &reg[i], 1, NULL, NULL, NULL);
  }
  if (operand->per == 1) return tile.reg[0];
  return operand->per == 2 ? lower_pair(lower, &tile, 0, 1) : lower_byte_quad(lower, &tile, reg);
}

void lower_fragment_a(Lower *lower, const LowerShared *shared, const LowerMap *warps, unsigned row,
                      unsigned k, IrExpr **out)
{
  Operand operand = operand_of(lower, shared, warps, 1);
  if (is_matrix_loadable(lower, &operand, 4)) {
    load_matrices(lower, &operand, false, 4, (unsigned[LAYOUT_MAX_DIMS]){row, k}, out);
    return;
  }
  for (unsigned r = 0; r < 4; r++)
    out[r] = load_elements(lower, &operand,
                           (unsigned[LAYOUT_MAX_DIMS]){row + r % 2 * 8, k + r / 2 * 4 * operand.per});
}

void lower_fragment_b(Lower *lower, const LowerShared *shared, const LowerMap *warps, unsigned k,
                      unsigned column, unsigned pieces, IrExpr **out)
{
  Operand operand = operand_of(lower, shared, warps, 0);
  if (is_matrix_loadable(lower, &operand, 2 * pieces)) {
    load_matrices(lower, &operand, true, 2 * pieces, (unsigned[LAYOUT_MAX_DIMS]){k, column}, out);
    return;
  }
  for (unsigned i = 0; i < 2 * pieces; i++)
    out[i] = load_elements(lower, &operand,
                           (unsigned[LAYOUT_MAX_DIMS]){k + i % 2 * 4 * operand.per, column + i / 2 * 8});
}

void lower_fragment_run(Lower *lower, const LowerShared *shared, const LowerMap *warps, unsigned run,
                        unsigned k, unsigned column, IrExpr **out)
{
  Operand operand = operand_of(lower, shared, warps, 0);
  LowerMap map = *warps;
  unsigned words = LOWER_RUN_WORDS;
  lower_map_add(&map, SOURCE_LANE, 1, 4, 32, 0, run);
  lower_map_add(&map, SOURCE_LANE, 4, 8, 32, 1, 1);
  while (words > 1 && lower_shared_vector(shared, 0) < words * operand.per)
    words /= 2;
  if (!is_word(&operand)) {
    lower_fail(lower, ERROR_INPUT, "mma", NULL, "an operand that meets runs along k lies across k");
    return;
  }
  for (unsigned w = 0; w < LOWER_RUN_WORDS && !lower->failed; w += words) {
    unsigned at[LAYOUT_MAX_DIMS] = {k + w * operand.per, column};
    LowerAddress address = lower_shared_at(lower, &operand.shared, &map, at);
    IrOp *load = lower_emit(lower, OP_LOAD_SHARED, 1, lower_address(lower, address));
    for (unsigned i = 0; i < words; i++)
      out[w + i] = lower_result(lower, load, "x", ir_scalar(NUMBER_B32));
  }
}

/* A word into the registers that start at a coordinate. */
static void set_word(Lower *lower, LowerTile *tile, unsigned per, unsigned row, unsigned column, IrExpr *word)
{
  unsigned reg = lower_register_at(lower, tile->layout, row, column);
  if (reg >= tile->n) {
    lower_fail(lower, ERROR_INPUT, "get", NULL, "the tile is not made of whole fragments");
    return;
  }
  NumberType type = lower_register_type(tile->element);
  if (tile->packed)
    tile->pair[reg / per] = word;
  else
    tile->reg[reg] = word->kind == EXPR_VALUE && word->value->type.element == type
                         ? word
                         : lower_value(lower, OP_BITCAST, ir_scalar(type), "x", 1, word);
}

/* ---- Bytes across k ---- */

/* A matrix transposed gives a lane, of one pair of rows m, m + 1, the k of two of the matrix's rows: four
 * bytes. An operand's register wants four k of one m, so two matrices make two registers, of m and of m + 1.
 * Lanes with q = lane % 4 want k = 4 q .. 4 q + 3: rows 2 q and 2 q + 1 of the one matrix are the first two
 * of these where q < 2 and the last two elsewhere. So the eight rows of a matrix are different modulo 8, and
 * no two of them meet in a bank of a swizzled tile. */
static void load_crossed(Lower *lower, const LowerShared *shared, const LowerMap *warps, const unsigned *at,
                         IrExpr **out)
{
  LowerMap map = *warps;
  lower_map_add(&map, SOURCE_LANE, 1, 2, 32, 1, 1);
  lower_map_add(&map, SOURCE_LANE, 2, 2, 32, 1, 4);
  lower_map_add(&map, SOURCE_LANE, 4, 2, 32, 1, 8);
  lower_map_add(&map, SOURCE_LANE_CROSSED, 1, 2, 32, 1, 2);
  lower_map_add(&map, SOURCE_LANE, 16, 2, 32, 1, 16);
  LowerAddress address = lower_shared_at(lower, shared, &map, at);
  IrOp *load = lower_emit(lower, OP_LOAD_MATRIX, 1, lower_address(lower, address));
  ir_attribute_set(load, ATTR_TRANSPOSED, NULL);
  IrExpr *x[4];
  for (unsigned i = 0; i < 4; i++)
    x[i] = lower_result(lower, load, "x", ir_scalar(NUMBER_B32));
  /* bytes 0 and 2 of the first, then of the second; the other way round in lanes with q >= 2 */
  IrExpr *late = lower_bits(lower, OP_AND, NUMBER_S32, lower->lane, lower_int(lower, 2));
  IrExpr *swap = lower_mul(lower, NUMBER_S32, late, lower_int(lower, 0x4444 / 2));
  IrExpr *even = lower_bits(lower, OP_XOR, NUMBER_S32, swap, lower_int(lower, 0x6420));
  IrExpr *odd = lower_bits(lower, OP_XOR, NUMBER_S32, swap, lower_int(lower, 0x7531));
  for (unsigned i = 0; i < 4; i++)
    out[i] = lower_value(lower, OP_PERMUTE, ir_scalar(NUMBER_B32), "x", 3, x[i / 2 * 2], x[i / 2 * 2 + 1],
                         i % 2 ? odd : even);
}

bool lower_is_crossed(NumberType element, const Layout *layout)
{
  unsigned k[LAYOUT_MAX_DIMS], row[LAYOUT_MAX_DIMS];
  if (!number_has_bytes(element, 1) || layout->rank != 2 || layout_size(layout, PLACE_LANE) != 32 ||
      layout_vector(layout, 1) < 4)
    return false;
  layout_at(layout, 0, 0, 1, 0, k);
  layout_at(layout, 0, 0, 4, 0, row);
  return k[1] == 4 && !k[0] && row[0] == 2 && !row[1];
}

LowerTile *lower_crossed(Lower *lower, NumberType element, const Layout *layout, const LowerShared *shared)
{
  const Mechanism *loads = matrix_loads(lower);
  if (!loads || !loads->transposes || mechanism_matrices(loads, 4) < 4 || lower_shared_inner(shared) != 0 ||
      lower_shared_vector(shared, 0) < 16)
    return NULL;
  LowerTile *tile = lower_tile_new(lower, element, layout);
  LowerMap warps = lower_map_of_warps(layout);
  const unsigned *at = lower_registers(lower, layout);
  tile->packed = true;
  tile->pair = arena_new_array(lower->arena, IrExpr *, tile->n / 4);
  for (unsigned r = 0; r < tile->n && !lower->failed; r++) {
    const unsigned *here = at + (size_t)r * LAYOUT_MAX_DIMS;
    IrExpr *x[4];
    if (here[0] % 2 || here[1] % 32) continue;
    load_crossed(lower, shared, &warps, here, x);
    for (unsigned i = 0; i < 4; i++)
      set_word(lower, tile, 4, here[0] + i % 2, here[1] + i / 2 * 16, x[i]);
  }
  return tile;
}

/* ---- Whole tiles ---- */

/* The dimension of a fragment layout along k, in which neighbouring lanes are a register's elements apart;
 * -1 of any other layout. */
static int fragment_k_dim(const Layout *layout, unsigned per)
{
  unsigned next[LAYOUT_MAX_DIMS], below[LAYOUT_MAX_DIMS];
  if (layout->rank != 2 || layout_size(layout, PLACE_LANE) != 32) return -1;
  layout_at(layout, 0, 0, 1, 0, next);
  layout_at(layout, 0, 0, 4, 0, below);
  for (unsigned k = 0; k < 2; k++) {
    bool lanes = next[k] == per && next[1 - k] == 0 && below[k] == 0 && below[1 - k] == 1;
    if (lanes && (per == 1 || layout_vector(layout, k) >= per)) return (int)k;
  }
  return -1;
}

bool lower_is_fragment(NumberType element, const Layout *layout)
{
  unsigned bytes = number_bytes(element);
  return (bytes == 1 || bytes == 2 || bytes == 4) && fragment_k_dim(layout, 4 / bytes) >= 0;
}

LowerTile *lower_fragments(Lower *lower, NumberType element, const Layout *layout, const LowerShared *shared)
{
  unsigned per = number_elements(element, 4), k_step = 8 * per;
  LowerTile *tile = lower_tile_new(lower, element, layout);
  LowerMap warps = lower_map_of_warps(layout);
  const unsigned *at = lower_registers(lower, layout);
  bool is_a = fragment_k_dim(layout, per) == 1;
  tile->packed = per > 1;
  if (tile->packed) tile->pair = arena_new_array(lower->arena, IrExpr *, tile->n / per);
  for (unsigned r = 0; r < tile->n && !lower->failed; r++) {
    unsigned row = at[(size_t)r * LAYOUT_MAX_DIMS], column = at[(size_t)r * LAYOUT_MAX_DIMS + 1];
    IrExpr *x[4];
    if (is_a && row % 16 == 0 && column % k_step == 0) {
      lower_fragment_a(lower, shared, &warps, row, column, x);
      for (unsigned i = 0; i < 4; i++)
        set_word(lower, tile, per, row + i % 2 * 8, column + i / 2 * 4 * per, x[i]);
    }
    if (is_a || row % k_step || column % 8) continue;
    bool two = lower_register_at(lower, layout, row, column ^ 8) < tile->n;
    if (two && column % 16) continue; /* came with the piece before it */
    lower_fragment_b(lower, shared, &warps, row, column, two ? 2 : 1, x);
    for (unsigned i = 0; i < (two ? 4 : 2); i++)
      set_word(lower, tile, per, row + i % 2 * 4 * per, column + i / 2 * 8, x[i]);
  }
  return tile;
}
