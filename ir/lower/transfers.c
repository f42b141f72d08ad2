/* put, get, convert: register tiles to shared memory and back, or from one layout to another. */
#include "ir/lower/lower.h"

/* All threads of the role or instance meet. */
void lower_block_barrier(Lower *lower, const IrOp *op)
{
  const IrExpr *id = ir_attribute_value(op, ATTR_ID), *threads = ir_attribute_value(op, ATTR_THREADS);
  if (!id && lower->role->whole_block) {
    lower_emit(lower, OP_SYNC, 0);
    return;
  }
  if (!id) {
    lower_fail(lower, ERROR_INPUT, "named-barrier", NULL, "%s in a role needs a named barrier (id)",
               ir_op_info(op->code)->name);
    return;
  }
  IrExpr *number = lower_s32(lower, id);
  IrExpr *count =
      threads ? lower_s32(lower, threads) : lower_int(lower, (int64_t)lower->role->instance_warps * 32);
  IrOp *sync = lower_emit(lower, OP_SYNC, 0);
  ir_attribute_set(sync, ATTR_ID, number);
  ir_attribute_set(sync, ATTR_THREADS, count);
}

#define QUAD 4 /* lanes that hold a row of an accumulator, two columns each of every 8 */

/* ---- Runs of registers that are contiguous in shared memory ---- */

/* So many registers of every thread follow one another in shared memory, aligned, whatever dimensions they go
 * along. */
static bool runs_on(Lower *lower, const LowerTile *tile, const LowerShared *shared, const LowerMap *map,
                    unsigned width)
{
  if (number_is_packed(tile->element)) return false;
  int64_t bytes = number_bytes(tile->element), run = bytes * width;
  const unsigned *at = lower_registers(lower, tile->layout);
  if (tile->n % width || shared->layout->swizzle_bits || lower_shared_step(shared, map) % run) return false;
  int64_t first = 0;
  for (unsigned r = 0; r < tile->n; r++) {
    int64_t offset = lower_shared_linear(shared, at + (size_t)r * LAYOUT_MAX_DIMS);
    if (r % width == 0) first = offset;
    if (first % run || offset != first + r % width * bytes) return false;
  }
  return true;
}

static unsigned run_width(Lower *lower, const LowerTile *tile, const LowerShared *shared, const LowerMap *map)
{
  unsigned inner = lower_shared_inner(shared), width = lower_shared_vector(shared, inner);
  width = MIN(width, layout_vector(tile->layout, inner));
  while (tile->n % width)
    width /= 2;
  width = MAX(1, width);
  for (unsigned wider = number_elements(tile->element, 16); wider > width; wider /= 2)
    if (runs_on(lower, tile, shared, map, wider)) return wider;
  return width;
}

static bool fits(Lower *lower, const LowerTile *tile, const LowerShared *shared)
{
  for (unsigned d = 0; d < shared->rank && tile->layout->rank == shared->rank; d++)
    if (tile->layout->extent[d] != shared->extent[d]) {
      lower_fail(lower, ERROR_INPUT, "shapes-disagree", NULL,
                 "register tile and shared tile differ in dimension %u", d);
      return false;
    }
  if (tile->layout->rank == shared->rank) return true;
  lower_fail(lower, ERROR_INPUT, "shapes-disagree", NULL, "register tile and shared tile differ in rank");
  return false;
}

/* barrier: address of the peer's, which counts the bytes; NULL: none does */
static void put_plain(Lower *lower, LowerTile *tile, const LowerShared *shared, IrOpcode code,
                      IrExpr *barrier)
{
  LowerMap map = lower_map_of(tile->layout);
  unsigned width = run_width(lower, tile, shared, &map);
  IrExpr *owner = lower_map_owner(lower, tile->layout);
  const unsigned *at = lower_registers(lower, tile->layout);
  unsigned reg[16];
  for (unsigned r = 0; r < tile->n && !lower->failed; r += width) {
    for (unsigned i = 0; i < width; i++)
      reg[i] = r + i;
    LowerAddress address = lower_shared_at(lower, shared, &map, at + (size_t)r * LAYOUT_MAX_DIMS);
    IrOp *store = lower_store_vector(lower, code, address, tile, reg, width, owner, NULL);
    if (barrier) ir_attribute_set(store, ATTR_BARRIER, barrier);
  }
}

/* ---- 8x8 matrices ---- */

/* Where the eight rows of the accumulator's 16 x 8 pieces lie, lane / 4 of which each lane has a pair of
 * columns, lane % 4: what each bit of the row moves, and from a thread's row to its other. */
typedef struct Pieces {
  unsigned bit[3], second;
} Pieces;

static bool is_fragment(const LowerTile *tile, Pieces *pieces)
{
  const Layout *layout = tile->layout;
  unsigned at[LAYOUT_MAX_DIMS];
  if (layout->rank != 2 || !number_has_bytes(tile->element, 2) || layout_vector(layout, 1) < 2) return false;
  for (unsigned bit = 0; bit < 3; bit++) {
    layout_at(layout, 0, 0, 4u << bit, 0, at);
    pieces->bit[bit] = at[0];
  }
  layout_at(layout, 0, 0, 0, 2, at);
  pieces->second = at[0];
  for (unsigned lane = 0; lane < 32; lane++) {
    layout_at(layout, 0, 0, lane, 0, at);
    unsigned row = 0;
    for (unsigned bit = 0; bit < 3; bit++)
      row += (lane / 4 >> bit & 1) * pieces->bit[bit];
    if (at[0] != row || at[1] != lane % 4 * 2) return false;
  }
  return pieces->second == 8 || pieces->second == 1;
}

/* Row-major tiles take the matrices as they are, column-major ones transposed. Lane j gives the address of
 * row j % 8 of matrix j / 8; the four matrices are rows 0 and 8 of columns 0 and 8, or of two there are
 * only those of column 0. */
static bool put_matrix(Lower *lower, LowerTile *tile, const LowerShared *shared)
{
  unsigned inner = lower_shared_inner(shared);
  Pieces pieces;
  const Mechanism *stores = ir_mechanism_issued(lower->module, MECHANISM_PUT, ISSUE_WARP);
  if (!is_fragment(tile, &pieces) || !stores || stores->missing || lower_shared_vector(shared, inner) < 8 ||
      (inner == 0 && !stores->transposes) || mechanism_matrices(stores, 2) < 2)
    return false;
  LowerMap map = lower_map_of_warps(tile->layout);
  if (inner == 1) {
    for (unsigned bit = 0; bit < 3; bit++)
      lower_map_add(&map, SOURCE_LANE, 1u << bit, 2, 32, 0, pieces.bit[bit]);
    lower_map_add(&map, SOURCE_LANE, 8, 2, 32, 0, pieces.second);
    lower_map_add(&map, SOURCE_LANE, 16, 2, 32, 1, 8);
  } else {
    if (pieces.second != 8) return false;
    lower_map_add(&map, SOURCE_LANE, 1, 8, 32, 1, 1);
    lower_map_add(&map, SOURCE_LANE, 8, 2, 32, 0, 8);
    lower_map_add(&map, SOURCE_LANE, 16, 2, 32, 1, 8);
  }
  const unsigned *at = lower_registers(lower, tile->layout);
  for (unsigned r = 0; r < tile->n && !lower->failed; r++) {
    unsigned row = at[(size_t)r * LAYOUT_MAX_DIMS], column = at[(size_t)r * LAYOUT_MAX_DIMS + 1];
    if (row % (2 * pieces.second) || column % 16) continue;
    IrExpr *operands[5] = {NULL};
    bool more = lower_register_at(lower, tile->layout, row, column + 8) < tile->n; /* the last may be alone */
    unsigned matrices = more ? 4 : 2, together = mechanism_matrices(stores, matrices);
    for (unsigned first = 0; first < matrices; first += together) {
      for (unsigned i = first; i < first + together; i++) {
        unsigned reg =
            lower_register_at(lower, tile->layout, row + i % 2 * pieces.second, column + i / 2 * 8);
        operands[1 + i - first] = lower_pair(lower, tile, reg, reg + 1);
      }
      unsigned start[LAYOUT_MAX_DIMS] = {row, column + first / 2 * 8};
      operands[0] = lower_address(lower, lower_shared_at(lower, shared, &map, start));
      IrOp *store = lower_emit_array(lower, OP_STORE_MATRIX, 1 + together, operands);
      if (inner == 0) ir_attribute_set(store, ATTR_TRANSPOSED, NULL);
    }
  }
  return true;
}

static void put_tile(Lower *lower, LowerTile *tile, const LowerShared *shared, bool matrix)
{
  if (matrix && put_matrix(lower, tile, shared)) return;
  put_plain(lower, tile, shared, OP_STORE_SHARED, NULL);
}

/* %x, or a part of it, %x[a .. b, c .. d], in what is left of its layout. */
static LowerTile *register_operand(Lower *lower, const IrExpr *operand)
{
  if (operand->kind != EXPR_INDEX || operand->items[0]->kind != EXPR_VALUE) return lower_tile(lower, operand);
  LowerTile *whole = lower_tile(lower, operand->items[0]);
  unsigned extent[LAYOUT_MAX_DIMS] = {0};
  int64_t n;
  for (unsigned d = 0; whole && d + 1 < operand->n && d < LAYOUT_MAX_DIMS; d++)
    extent[d] = ir_range_extent(operand->items[d + 1], &n) ? (unsigned)n : 0;
  const Layout *layout = whole ? layout_part(lower->arena, whole->layout, extent) : NULL;
  if (layout) return lower_spread_tile(lower, operand, layout, whole->element);
  if (whole)
    lower_fail(lower, ERROR_INPUT, "sub-tile", NULL, "'%s' cuts through the lanes of its layout",
               ir_expr_text(lower->module, operand));
  return NULL;
}

/* The same place in another block of the cluster. */
static IrExpr *peer_address(Lower *lower, IrExpr *address, IrExpr *block)
{
  return lower_scalar(lower, OP_PEER_ADDRESS, ir_scalar(NUMBER_U32), "peer", 2, address, block);
}

bool lower_by_warp(const IrOp *op)
{
  const Mechanism *mechanism = ir_mechanism_of(op);
  return mechanism && mechanism->issue == ISSUE_WARP;
}

/* ---- Numbers ---- */

/* A tile of one element has no swizzle, and no thread has a part of it. */
static bool number_fits(Lower *lower, const LowerShared *shared, const IrType *type)
{
  bool one = shared->element == NUMBER_S32 && type->element == NUMBER_S32;
  for (unsigned d = 0; d < shared->rank; d++)
    one &= shared->extent[d] == 1;
  if (!one)
    lower_fail(lower, ERROR_INPUT, "number", NULL, "a number, s32, lies in a tile of one such element");
  return one;
}

static IrExpr *number_address(Lower *lower, const LowerShared *shared)
{
  return lower_address(lower, (LowerAddress){shared->base, shared->offset});
}

static void put_number(Lower *lower, const IrExpr *value, const LowerShared *shared)
{
  if (!number_fits(lower, shared, &value->value->type)) return;
  IrExpr *number = lower_value(lower, OP_MOVE, value->value->type, "number", 1, lower_s32(lower, value));
  lower_emit(lower, OP_STORE_SHARED, 2, number_address(lower, shared), number);
}

static void get_number(Lower *lower, IrValue *result, const LowerShared *shared)
{
  if (!number_fits(lower, shared, &result->type)) return;
  IrExpr *number =
      lower_value(lower, OP_LOAD_SHARED, result->type, "number", 1, number_address(lower, shared));
  g_hash_table_insert(lower->scalars, result, number);
}

static bool is_number(const IrExpr *operand)
{
  return operand->kind == EXPR_VALUE && operand->value->type.kind == TYPE_SCALAR;
}

void lower_put(Lower *lower, IrOp *op)
{
  LowerShared shared;
  if (is_number(op->operands[1]) && lower_shared_operand(lower, op->operands[0], &shared)) {
    put_number(lower, op->operands[1], &shared);
    return;
  }
  LowerTile *tile = register_operand(lower, op->operands[1]);
  if (!tile) return;
  if (!lower_shared_operand(lower, op->operands[0], &shared)) {
    lower_fail(lower, ERROR_INPUT, "put", NULL, "put writes a tile of shared memory");
    return;
  }
  if (!fits(lower, tile, &shared)) return;
  const IrExpr *peer = ir_attribute_value(op, ATTR_PEER);
  if (!peer && lower_by_warp(op) && op->operands[1]->kind == EXPR_VALUE &&
      lower_put_turned(lower, lower_tile_as_kept(lower, op->operands[1]), &shared))
    return;
  if (peer) {
    const IrExpr *counter = ir_attribute_value(op, ATTR_BARRIER);
    IrExpr *block = lower_s32(lower, peer), *barrier = NULL;
    if (counter)
      barrier = peer_address(lower, lower_address_register(lower, lower_barrier(lower, counter), NUMBER_U32),
                             block);
    shared.base = peer_address(lower, shared.base, block);
    put_plain(lower, tile, &shared, OP_STORE_PEER, barrier);
    return;
  }
  put_tile(lower, tile, &shared, lower_by_warp(op));
}

/* ---- Elements of 4 bits as a product takes them ---- */

enum { WORD_QUARTERS = 8, WORDS = 4 }; /* elements of a word, words of a load */

/* The map without the lanes that share the words of a row; NULL: no product's operand, or no rows in whole loads. */
static bool shares_words(const LowerTile *tile, const LowerShared *shared, LowerMap *map)
{
  if (!number_is_packed(tile->element) || !layout_is_left_operand(tile->layout, NUMBER_F16) ||
      lower_shared_inner(shared) != 1 || lower_shared_vector(shared, 1) < WORD_QUARTERS * WORDS)
    return false;
  for (unsigned i = 0; i < map->n; i++)
    if (map->digit[i].source == SOURCE_LANE && map->digit[i].step[1]) map->digit[i].step[1] = 0;
  return true;
}

/* Of each 8 elements of a row the four lanes that hold it have two each, a byte of one word: a lane loads four words at once, the same
 * as its neighbours, and takes its byte of each where it is converted. Single bytes would be as many loads as words. */
static bool get_quarters(Lower *lower, LowerTile *tile, const LowerShared *shared, LowerMap *map)
{
  LowerMap rows = *map;
  if (!shares_words(tile, shared, &rows)) return false;
  const unsigned *at = lower_registers(lower, tile->layout);
  IrExpr *lane = lower_bits(lower, OP_AND, NUMBER_S32, lower->lane, lower_int(lower, QUAD - 1));
  IrExpr *byte = lower_mul(lower, NUMBER_S32, lane, lower_int(lower, LOWER_NEXT_BYTE));
  tile->picked = lower_add(lower, NUMBER_S32, byte, lower_int(lower, LOWER_FIRST_BYTE));
  tile->loaded = arena_new_array(lower->arena, IrExpr *, tile->n / 2);
  for (unsigned r = 0; r < tile->n && !lower->failed; r++) {
    const unsigned *here = at + (size_t)r * LAYOUT_MAX_DIMS;
    if (here[1] % (WORD_QUARTERS * WORDS)) continue;
    IrOp *load = lower_emit(lower, OP_LOAD_SHARED, 1,
                            lower_address(lower, lower_shared_at(lower, shared, &rows, here)));
    for (unsigned w = 0; w < WORDS; w++) {
      IrExpr *word = lower_result(lower, load, "word", ir_scalar(NUMBER_B32));
      unsigned reg = lower_register_at(lower, tile->layout, here[0], here[1] + w * WORD_QUARTERS);
      tile->loaded[reg / 2] = word;
      IrExpr *own = lower_value(lower, OP_PERMUTE, ir_scalar(NUMBER_B32), "own", 3, word, lower_int(lower, 0),
                                tile->picked);
      for (unsigned i = 0; i < 2; i++)
        tile->reg[reg + i] = lower_quarter(lower, own, tile->element, lower_int(lower, (int64_t)(4 * i)));
    }
  }
  return true;
}

/* Have lanes whole words of a row, whose elements are paired with those four further on (mma.a_runs)? */
static bool has_runs(Lower *lower, const LowerTile *tile, const LowerShared *shared, const LowerMap *map)
{
  const unsigned *at = lower_registers(lower, tile->layout);
  bool runs = number_is_packed(tile->element) && tile->layout->rank == 2 && tile->n % WORD_QUARTERS == 0 &&
              lower_shared_inner(shared) == 1 && lower_shared_vector(shared, 1) >= WORD_QUARTERS;
  for (unsigned i = 0; i < map->n; i++)
    runs &= map->digit[i].step[1] % WORD_QUARTERS == 0;
  for (unsigned r = 0; runs && r < tile->n; r += 2) {
    const unsigned *low = at + (size_t)r * LAYOUT_MAX_DIMS, *high = low + LAYOUT_MAX_DIMS;
    runs = low[0] == high[0] && high[1] == low[1] + WORD_QUARTERS / 2;
  }
  return runs;
}

/* A word's eight elements: register pairs are those at the same bit of both of its halves. */
static void set_quarters(Lower *lower, LowerTile *tile, unsigned row, unsigned column, IrExpr *word)
{
  for (unsigned i = 0; i < WORD_QUARTERS / 2; i++) {
    unsigned reg = lower_register_at(lower, tile->layout, row, column + i);
    tile->loaded[reg / 2] = word;
    tile->bits[reg / 2] = 4 * i;
    for (unsigned j = 0; j < 2; j++)
      tile->reg[reg + j] =
          lower_quarter(lower, word, tile->element, lower_int(lower, (int64_t)(4 * i + 16 * j)));
  }
}

/* Each lane loads the words of its own runs, up to four at once. */
static bool get_runs(Lower *lower, LowerTile *tile, const LowerShared *shared, const LowerMap *map)
{
  if (!has_runs(lower, tile, shared, map)) return false;
  const unsigned *at = lower_registers(lower, tile->layout);
  unsigned most = MIN(WORDS, lower_shared_vector(shared, 1) / WORD_QUARTERS);
  tile->loaded = arena_new_array(lower->arena, IrExpr *, tile->n / 2);
  tile->bits = arena_new_array(lower->arena, unsigned, tile->n / 2);
  for (unsigned r = 0; r < tile->n && !lower->failed; r += 2) {
    unsigned row = at[(size_t)r * LAYOUT_MAX_DIMS], column = at[(size_t)r * LAYOUT_MAX_DIMS + 1],
             words = most;
    if (tile->loaded[r / 2]) continue;
    while (words > 1 &&
           (column % (words * WORD_QUARTERS) ||
            lower_register_at(lower, tile->layout, row, column + (words - 1) * WORD_QUARTERS) >= tile->n))
      words /= 2;
    unsigned here[LAYOUT_MAX_DIMS] = {row, column};
    IrOp *load =
        lower_emit(lower, OP_LOAD_SHARED, 1, lower_address(lower, lower_shared_at(lower, shared, map, here)));
    for (unsigned w = 0; w < words; w++)
      set_quarters(lower, tile, row, column + w * WORD_QUARTERS,
                   lower_result(lower, load, "word", ir_scalar(NUMBER_B32)));
  }
  return true;
}

static LowerTile *get_tile(Lower *lower, NumberType element, const Layout *layout, const LowerShared *shared,
                           IrOpcode code)
{
  LowerTile *tile = lower_tile_new(lower, element, layout);
  if (!fits(lower, tile, shared)) return tile;
  LowerMap map = lower_map_of(layout);
  if (code == OP_LOAD_SHARED &&
      (get_quarters(lower, tile, shared, &map) || get_runs(lower, tile, shared, &map)))
    return tile;
  unsigned width = run_width(lower, tile, shared, &map), reg[32];
  const unsigned *at = lower_registers(lower, layout);
  for (unsigned r = 0; r < tile->n && !lower->failed; r += width) {
    for (unsigned i = 0; i < width; i++)
      reg[i] = r + i;
    LowerAddress address = lower_shared_at(lower, shared, &map, at + (size_t)r * LAYOUT_MAX_DIMS);
    lower_load_vector(lower, code, address, tile, reg, width, NULL, NULL, NULL);
  }
  return tile;
}

/* Products take operands of 32 bits from registers of no type: they become such here, since between the
 * fence in front of a product and the product nothing may write its registers. */
static void keep_bits(Lower *lower, LowerTile *tile)
{
  tile->packed = true;
  tile->pair = arena_new_array(lower->arena, IrExpr *, tile->n);
  for (unsigned r = 0; r < tile->n && !lower->failed; r++)
    tile->pair[r] = lower_value(lower, OP_BITCAST, ir_scalar(NUMBER_B32), "x", 1, tile->reg[r]);
}

void lower_get(Lower *lower, IrOp *op)
{
  LowerShared shared;
  IrValue *result = op->results[0];
  if (!lower_shared_operand(lower, op->operands[0], &shared)) {
    lower_fail(lower, ERROR_INPUT, "get", NULL, "get reads a tile of shared memory");
    return;
  }
  if (result->type.kind == TYPE_SCALAR) {
    get_number(lower, result, &shared);
    return;
  }
  const IrExpr *peer = ir_attribute_value(op, ATTR_PEER);
  if (peer) shared.base = peer_address(lower, shared.base, lower_s32(lower, peer));
  const Layout *layout = result->type.layout;
  bool matrix = !peer && lower_by_warp(op);
  bool fragments = matrix && lower_is_fragment(result->type.element, layout);
  LowerTile *tile = NULL;
  if (matrix && lower_is_crossed(result->type.element, layout))
    tile = lower_crossed(lower, result->type.element, layout, &shared);
  if (matrix && layout_is_turned(layout))
    tile = lower_get_turned(lower, result->type.element, layout, &shared);
  if (!tile)
    tile = fragments
               ? lower_fragments(lower, result->type.element, layout, &shared)
               : get_tile(lower, result->type.element, layout, &shared, peer ? OP_LOAD_PEER : OP_LOAD_SHARED);
  if (matrix && !fragments && number_has_bytes(result->type.element, 4)) keep_bits(lower, tile);
  lower_tile_bind(lower, result, tile);
}

/* ---- Convert ---- */

/* Two registers of two numbers each become the word that a product takes. */
static void keep_quads(Lower *lower, LowerTile *tile)
{
  tile->pair = arena_new_array(lower->arena, IrExpr *, tile->n / 4);
  for (unsigned i = 0; i < tile->n / 4; i++)
    tile->pair[i] = lower_byte_quad(lower, tile, (unsigned[4]){4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3});
  tile->packed = true;
}

/* The same registers of the same threads in another order. */
static LowerTile *rename_registers(Lower *lower, LowerTile *from, const Layout *layout)
{
  const unsigned *map =
      layout_registers(layout) == from->n ? lower_correspondence(lower, from->layout, layout) : NULL;
  if (!map) return NULL;
  LowerTile *tile = lower_tile_new(lower, from->element, layout);
  for (unsigned r = 0; r < tile->n; r++)
    tile->reg[r] = from->reg[map[r]];
  for (unsigned r = 0; from->pair && r + 1 < tile->n; r += 2) {
    if (map[r] % 2 || map[r + 1] != map[r] + 1 || !from->pair[map[r] / 2]) continue;
    lower_make_pairs(lower, tile);
    tile->pair[r / 2] = from->pair[map[r] / 2];
  }
  if (from->twin) tile->twin = arena_new_array(lower->arena, IrExpr *, tile->n / 2);
  for (unsigned r = 0; from->twin && r + 1 < tile->n; r += 2)
    if (map[r] % 2 == 0 && map[r + 1] == map[r] + 1) tile->twin[r / 2] = from->twin[map[r] / 2];
  if (tile->twin && layout_is_paired_operand(layout)) keep_quads(lower, tile);
  return tile;
}

/* A layout in which the lanes of a row hold pairs of columns, `step` columns apart. */
static bool lanes_hold_pairs(const Layout *layout, unsigned step)
{
  unsigned next[LAYOUT_MAX_DIMS], below[LAYOUT_MAX_DIMS];
  if (layout->rank != 2 || layout_size(layout, PLACE_LANE) != 32 || layout_vector(layout, 1) < 2)
    return false;
  layout_at(layout, 0, 0, 1, 0, next);
  layout_at(layout, 0, 0, QUAD, 0, below);
  return next[0] == 0 && next[1] == step && below[0] == 1 && below[1] == 0;
}

/* word[i] of lane q becomes word[q] of lane i. Neighbours first, then lanes two apart: of each two words a
 * lane sends the one that is not its own. */
static void transpose_quad(Lower *lower, IrExpr **word)
{
  IrType type = ir_scalar(NUMBER_B32);
  for (unsigned bit = 1; bit < QUAD; bit *= 2) {
    IrExpr *own = lower_bits(lower, OP_AND, NUMBER_S32, lower->lane, lower_int(lower, bit));
    IrExpr *upper = lower_compare(lower, OP_NE, own, lower_int(lower, 0));
    for (unsigned i = 0; i < QUAD; i++) {
      if (i & bit) continue;
      IrExpr *low = word[i], *high = word[i | bit];
      IrExpr *sent = lower_value(lower, OP_SELECT, type, "sent", 3, upper, low, high);
      IrExpr *got = lower_value(lower, OP_SHUFFLE, type, "got", 2, sent, lower_int(lower, bit));
      ir_attribute_set(got->value->def, ATTR_MODE, ir_name(lower->module, "xor"));
      word[i] = lower_value(lower, OP_SELECT, type, "word", 3, upper, got, low);
      word[i | bit] = lower_value(lower, OP_SELECT, type, "word", 3, upper, high, got);
    }
  }
}

/* Between an accumulator's layout, in which a lane has two columns of each 8, and the one in which it has 8
 * of each 32 (widen_accesses). NULL if the layouts are not these two. */
static LowerTile *exchange_columns(Lower *lower, LowerTile *from, const Layout *layout)
{
  bool spread = lanes_hold_pairs(from->layout, 2) && lanes_hold_pairs(layout, 2 * QUAD);
  bool gathered = lanes_hold_pairs(from->layout, 2 * QUAD) && lanes_hold_pairs(layout, 2);
  if (!number_has_bytes(from->element, 2) || number_class(from->element) != NUMBER_FLOAT ||
      layout_registers(layout) != from->n || !(spread || gathered))
    return NULL;
  unsigned here = spread ? 2 * QUAD : 2, there = spread ? 2 : 2 * QUAD; /* columns from word to word */
  LowerTile *tile = lower_tile_new(lower, from->element, layout);
  tile->packed = true;
  tile->pair = arena_new_array(lower->arena, IrExpr *, tile->n / 2);
  const unsigned *at = lower_registers(lower, layout);
  for (unsigned r = 0; r < tile->n && !lower->failed; r++) {
    unsigned row = at[(size_t)r * LAYOUT_MAX_DIMS], column = at[(size_t)r * LAYOUT_MAX_DIMS + 1];
    if (column % (2 * QUAD * QUAD)) continue;
    IrExpr *word[QUAD];
    unsigned to[QUAD];
    for (unsigned i = 0; i < QUAD; i++) {
      unsigned reg = lower_register_at(lower, from->layout, row, column + i * here);
      to[i] = lower_register_at(lower, layout, row, column + i * there);
      if (reg + 1 >= from->n || to[i] >= tile->n || reg % 2 || to[i] % 2) return NULL;
      word[i] = lower_pair(lower, from, reg, reg + 1);
    }
    transpose_quad(lower, word);
    for (unsigned i = 0; i < QUAD; i++)
      tile->pair[to[i] / 2] = word[i];
  }
  for (unsigned i = 0; i < tile->n / 2; i++)
    if (!tile->pair[i]) return NULL;
  return tile;
}

/* The tile that is converted; of `x^T` the same registers, which hold other elements. */
static LowerTile *converted_operand(Lower *lower, const IrExpr *operand)
{
  if (operand->kind != EXPR_TRANSPOSED) return lower_tile(lower, operand);
  LowerTile *tile = lower_tile(lower, operand->items[0]);
  if (!tile || tile->layout->rank != 2) return tile;
  LowerTile *turned = arena_memdup(lower->arena, tile, sizeof *tile);
  turned->layout = layout_transposed(lower->arena, tile->layout);
  return turned;
}

void lower_convert(Lower *lower, IrOp *op)
{
  IrValue *result = op->results[0];
  LowerTile *from = converted_operand(lower, op->operands[0]);
  if (!from) return;
  LowerTile *tile = rename_registers(lower, from, result->type.layout);
  if (!tile && lower_by_warp(op)) tile = exchange_columns(lower, from, result->type.layout);
  if (tile) {
    lower_tile_bind(lower, result, tile);
    return;
  }
  LowerShared shared;
  const IrExpr *exchange = ir_attribute_value(op, ATTR_EXCHANGE);
  if (!exchange || !lower_shared_operand(lower, exchange, &shared)) {
    lower_fail(lower, ERROR_INPUT, "convert", NULL,
               "this conversion moves data between threads: it needs an exchange tile");
    return;
  }
  lower_block_barrier(lower, op); /* whoever still reads the exchange tile is done */
  put_tile(lower, from, &shared, lower_by_warp(op));
  lower_block_barrier(lower, op);
  lower_tile_bind(lower, result,
                  get_tile(lower, from->element, result->type.layout, &shared, OP_LOAD_SHARED));
}
