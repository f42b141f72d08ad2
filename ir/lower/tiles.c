/* Register tiles: one register an element, numbered by the layout; packing between elements and memory words.
 */
#include "ir/lower/lower.h"
#include "ir/mechanism.h"
#include <string.h>

NumberType lower_register_type(NumberType element)
{
  switch (element) {
  case NUMBER_TF32: return NUMBER_F32;
  case NUMBER_S4: /* the number; of e2m1 and e8m0 its bits */
  case NUMBER_U4:
  case NUMBER_E2M1:
  case NUMBER_E8M0:
  case NUMBER_S8:
  case NUMBER_U8:
  case NUMBER_S16:
  case NUMBER_U16: return NUMBER_S32;
  default: return element;
  }
}

static IrType register_of(NumberType element)
{
  return element == NUMBER_BOOL ? ir_predicate() : ir_scalar(lower_register_type(element));
}

LowerTile *lower_tile_new(Lower *lower, NumberType element, const Layout *layout)
{
  LowerTile *tile = arena_new_object(lower->arena, LowerTile);
  if (layout_size(layout, PLACE_WARP) > lower->role->instance_warps)
    lower_fail(lower, ERROR_INPUT, "too-few-warps", NULL, "a tile in %s is spread over %u warps; here are %u",
               layout_text(lower->arena, layout), layout_size(layout, PLACE_WARP),
               lower->role->instance_warps);
  tile->layout = layout;
  tile->element = element;
  tile->n = layout_registers(layout);
  tile->reg = arena_new_array(lower->arena, IrExpr *, tile->n);
  return tile;
}

unsigned lower_tile_words(const LowerTile *tile)
{
  return (unsigned)number_bytes_of(tile->element, tile->n) / 4;
}

static IrExpr *integer_at(Lower *lower, IrExpr *word, NumberType element, unsigned index);

LowerTile *lower_tile_read(Lower *lower, LowerTile *tile)
{
  if (!tile || !tile->packed) return tile;
  LowerTile *now = lower_tile_new(lower, tile->element, tile->layout);
  for (unsigned i = 0; i < tile->n && number_has_bytes(tile->element, 4); i++)
    now->reg[i] =
        lower_value(lower, OP_BITCAST, ir_scalar(lower_register_type(tile->element)), "x", 1, tile->pair[i]);
  if (number_has_bytes(tile->element, 4)) return now;
  bool pairs = number_has_bytes(tile->element, 2);
  if (pairs) lower_make_pairs(lower, now);
  bool floats = number_is_small_float(tile->element);
  for (unsigned i = 0; i < tile->n && !pairs && !floats; i++)
    now->reg[i] = integer_at(lower, tile->pair[i / 4], tile->element, i % 4);
  for (unsigned i = 0; i < tile->n && floats; i += 4) {
    IrOp *unpack = lower_emit(lower, OP_UNPACK, 1, tile->pair[i / 4]);
    for (unsigned j = i; j < i + 4; j++)
      now->reg[j] = lower_result(lower, unpack, "x", ir_scalar(tile->element));
  }
  for (unsigned i = 0; i < tile->n / 2 && pairs; i++) {
    now->pair[i] = tile->pair[i];
    IrOp *unpack = lower_emit(lower, OP_UNPACK, 1, tile->pair[i]);
    now->reg[2 * i] = lower_result(lower, unpack, "x", ir_scalar(tile->element));
    now->reg[2 * i + 1] = lower_result(lower, unpack, "x", ir_scalar(tile->element));
  }
  return now;
}

LowerTile *lower_tile_as_kept(Lower *lower, const IrExpr *expr)
{
  LowerTile *tile = expr->kind == EXPR_VALUE ? g_hash_table_lookup(lower->tiles, expr->value) : NULL;
  if (!tile)
    lower_fail(lower, ERROR_UNSUPPORTED, "tile-operand", NULL, "'%s' is no tile in registers",
               ir_expr_text(lower->module, expr));
  return tile;
}

LowerTile *lower_tile(Lower *lower, const IrExpr *expr)
{
  return lower_tile_read(lower, lower_tile_as_kept(lower, expr));
}

static IrExpr *value_now(Lower *lower, IrExpr *x, IrType type)
{
  const IrExpr *base = x->kind == EXPR_INDEX ? x->items[0] : x;
  if (base->kind != EXPR_VALUE || !base->value->variable) return x;
  return lower_value(lower, OP_MOVE, type, base->value->name, 1, x);
}

static IrExpr *word_of(Lower *lower, LowerTile *from, unsigned i);

/* What an asynchronous product takes becomes words where it is computed: behind the fence in front of the product nothing may write
 * its registers. */
static void keep_words(Lower *lower, LowerTile *tile)
{
  bool pairs = number_has_bytes(tile->element, 2);
  unsigned words = lower_tile_words(tile);
  IrExpr **word = arena_new_array(lower->arena, IrExpr *, words);
  for (unsigned i = 0; i < words && !lower->failed; i++)
    word[i] = word_of(lower, tile, i);
  tile->pair = word;
  tile->packed = !pairs;
}

void lower_find_fenced(IrOp *op, void *data)
{
  const IrExpr *operand = ir_is_asynchronous_product(op) ? op->operands[1] : NULL;
  if (operand && operand->kind == EXPR_VALUE) g_hash_table_add(data, operand->value);
}

void lower_tile_bind(Lower *lower, const IrValue *value, LowerTile *tile)
{
  bool fenced =
      !tile->packed && !tile->array && g_hash_table_contains(lower->fenced, value) &&
      (layout_is_left_operand(tile->layout, tile->element) || layout_is_paired_operand(tile->layout)) &&
      number_bits(tile->element) <= 16;
  for (unsigned r = 0; r < tile->n && !tile->packed && !lower->failed; r++)
    tile->reg[r] = value_now(lower, tile->reg[r], register_of(tile->element));
  for (unsigned i = 0; tile->packed && i < lower_tile_words(tile) && !lower->failed; i++)
    tile->pair[i] = value_now(lower, tile->pair[i], ir_scalar(NUMBER_B32));
  if (fenced) keep_words(lower, tile);
  g_hash_table_insert(lower->tiles, (gpointer)value, tile);
}

void lower_scalar_bind(Lower *lower, const IrValue *value, IrExpr *x)
{
  const IrType *type = &value->type;
  bool truth = type->kind == TYPE_PREDICATE || type->element == NUMBER_BOOL;
  g_hash_table_insert(lower->scalars, (gpointer)value,
                      value_now(lower, x, truth ? ir_predicate() : ir_scalar(type->element)));
}

/* ---- Constants ---- */

IrExpr *lower_constant(Lower *lower, NumberType element, double value)
{
  if (element == NUMBER_E2M1 || element == NUMBER_E8M0) { /* held as their bits */
    uint8_t bits;
    number_from_double(element, value, true, &bits);
    return lower_int(lower, bits);
  }
  if (number_class(element) == NUMBER_FLOAT) return ir_float(lower->module, value);
  return lower_int(lower, element == NUMBER_BOOL ? value != 0 : (int64_t)value);
}

IrExpr *lower_literal(Lower *lower, const IrExpr *expr, NumberType element)
{
  if (expr->kind == EXPR_INT && number_class(element) != NUMBER_FLOAT) return (IrExpr *)expr;
  double value = expr->kind == EXPR_INT ? (double)expr->integer : expr->number;
  return lower_constant(lower, element, value);
}

/* ---- Pairs ---- */

void lower_make_pairs(Lower *lower, LowerTile *tile)
{
  if (!tile->pair) tile->pair = arena_new_array(lower->arena, IrExpr *, (tile->n + 1) / 2);
}

IrExpr *lower_pair(Lower *lower, LowerTile *tile, unsigned low, unsigned high)
{
  if (tile->pair && low % 2 == 0 && high == low + 1 && tile->pair[low / 2]) return tile->pair[low / 2];
  IrExpr *operands[2] = {tile->reg[low], tile->reg[high]};
  if (lower_register_type(tile->element) == NUMBER_S32) /* two 16-bit integers */
    return lower_value(lower, OP_PERMUTE, ir_scalar(NUMBER_B32), "pair", 3, operands[0], operands[1],
                       lower_int(lower, 0x5410));
  for (unsigned i = 0; i < 2; i++) /* a constant takes its type from a register */
    if (operands[i]->kind == EXPR_INT || operands[i]->kind == EXPR_FLOAT)
      operands[i] = lower_value(lower, OP_MOVE, ir_scalar(tile->element), "constant", 1, operands[i]);
  return lower_value(lower, OP_PACK, ir_scalar(NUMBER_B32), "pair", 2, operands[0], operands[1]);
}

/* An 8-bit element as a 32-bit integer whose low byte is the element's. */
static IrExpr *byte_of(Lower *lower, LowerTile *tile, unsigned reg)
{
  IrExpr *x = tile->reg[reg];
  if (tile->element == NUMBER_BOOL) {
    int64_t constant;
    if (lower_is_int(x, &constant)) return lower_value(lower, OP_MOVE, ir_scalar(NUMBER_S32), "byte", 1, x);
    return lower_value(lower, OP_SELECT, ir_scalar(NUMBER_S32), "byte", 3, x, lower_int(lower, 1),
                       lower_int(lower, 0));
  }
  if (x->kind == EXPR_INT || x->kind == EXPR_FLOAT)
    x = lower_value(lower, OP_MOVE, register_of(tile->element), "constant", 1, x);
  return x;
}

/* A register of two 8-bit floats that is there already; else NULL. */
static IrExpr *twin_of(const LowerTile *tile, const unsigned *reg)
{
  return tile->twin && reg[0] % 2 == 0 && reg[1] == reg[0] + 1 ? tile->twin[reg[0] / 2] : NULL;
}

IrExpr *lower_byte_quad(Lower *lower, LowerTile *tile, const unsigned *reg)
{
  IrExpr *low = twin_of(tile, reg), *high = twin_of(tile, reg + 2);
  if (low && high) return lower_value(lower, OP_PACK, ir_scalar(NUMBER_B32), "quad", 2, low, high);
  IrExpr *byte[4];
  for (unsigned i = 0; i < 4; i++)
    byte[i] = byte_of(lower, tile, reg[i]);
  return lower_value(lower, OP_PACK, ir_scalar(NUMBER_B32), "quad", 4, byte[0], byte[1], byte[2], byte[3]);
}

/* ---- Variables ---- */

static IrExpr *element_of(Lower *lower, IrValue *array, unsigned i)
{
  if (array->type.count <= 1) return ir_value(lower->module, array);
  return ir_index(lower->module, ir_value(lower->module, array), 1, lower_int(lower, i));
}

static IrExpr *word_constant(Lower *lower, const IrExpr *start, NumberType element)
{
  if (!start) return NULL;
  uint64_t bits = 0, word = 0;
  number_from_double(element, start->kind == EXPR_FLOAT ? start->number : (double)start->integer, false,
                     &bits);
  for (unsigned at = 0; at < 32; at += number_bits(element))
    word |= bits << at;
  return lower_int(lower, (int64_t)(uint32_t)word);
}

static IrExpr *word_of(Lower *lower, LowerTile *from, unsigned i)
{
  if (number_has_bytes(from->element, 2)) return lower_pair(lower, from, 2 * i, 2 * i + 1);
  return lower_byte_quad(lower, from, (unsigned[4]){4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3});
}

/* Do elements share 32-bit registers, as instructions want them? Pairs of halves, and bytes of fragments. */
static bool is_packed_variable(const LowerTile *tile)
{
  NumberType element = tile->element;
  if (element == NUMBER_F16 || element == NUMBER_BF16) return tile->n % 2 == 0;
  return (element == NUMBER_S8 || element == NUMBER_U8 || number_is_small_float(element)) &&
         tile->n % 4 == 0 &&
         (lower_is_fragment(element, tile->layout) || layout_is_paired_operand(tile->layout));
}

/* A tile whose words can be taken as they are; NULL otherwise. */
static LowerTile *packed_source(Lower *lower, const IrExpr *expr, const Layout *layout)
{
  LowerTile *kept = expr->kind == EXPR_VALUE ? g_hash_table_lookup(lower->tiles, expr->value) : NULL;
  return kept && kept->packed && layout_equal(kept->layout, layout) ? kept : NULL;
}

static void set_words(Lower *lower, LowerTile *tile, LowerTile *from)
{
  for (unsigned i = 0; i < lower_tile_words(tile) && !lower->failed; i++)
    lower_set(lower, tile->pair[i], from->packed ? from->pair[i] : word_of(lower, from, i));
}

static void packed_variable(Lower *lower, const IrValue *value, LowerTile *tile, const IrExpr *start,
                            LowerTile *from)
{
  tile->packed = true;
  unsigned words = lower_tile_words(tile);
  tile->pair = arena_new_array(lower->arena, IrExpr *, words);
  tile->array = lower_variable(lower, value->name, ir_registers(NUMBER_B32, words),
                               word_constant(lower, start, tile->element));
  for (unsigned i = 0; i < words; i++)
    tile->pair[i] = element_of(lower, tile->array, i);
  if (from) set_words(lower, tile, from);
}

/* A register array; truth values have a variable each, since predicates form no arrays. */
void lower_tile_var(Lower *lower, IrOp *op)
{
  const IrValue *value = op->results[0];
  LowerTile *tile = lower_tile_new(lower, value->type.element, value->type.layout), *from = NULL;
  const IrExpr *initial = op->n_operands ? op->operands[0] : NULL;
  bool constant = initial && (initial->kind == EXPR_INT || initial->kind == EXPR_FLOAT);
  IrExpr *start = constant ? lower_literal(lower, initial, tile->element) : NULL;
  if (initial && !constant && is_packed_variable(tile)) from = packed_source(lower, initial, tile->layout);
  if (initial && !constant && !from) from = lower_spread_tile(lower, initial, tile->layout, tile->element);
  if (tile->element == NUMBER_BOOL) {
    for (unsigned i = 0; i < tile->n; i++)
      tile->reg[i] = ir_value(
          lower->module, lower_variable(lower, value->name, ir_predicate(), from ? from->reg[i] : start));
  } else if (is_packed_variable(tile)) {
    packed_variable(lower, value, tile, start, from);
  } else {
    IrType type = ir_registers(lower_register_type(tile->element), tile->n);
    tile->array = lower_variable(lower, value->name, type, start);
    for (unsigned i = 0; i < tile->n; i++) {
      tile->reg[i] = element_of(lower, tile->array, i);
      if (from) lower_set(lower, tile->reg[i], from->reg[i]);
    }
  }
  g_hash_table_insert(lower->tiles, (gpointer)value, tile);
}

void lower_tile_set(Lower *lower, IrOp *op)
{
  LowerTile *tile = g_hash_table_lookup(lower->tiles, op->operands[0]->value);
  if (!tile) {
    lower_tile(lower, op->operands[0]);
    return;
  }
  const IrExpr *value = op->operands[1];
  LowerTile *from = tile->packed ? packed_source(lower, value, tile->layout) : NULL;
  if (!from) from = lower_spread_tile(lower, value, tile->layout, tile->element);
  if (tile->packed) set_words(lower, tile, from);
  for (unsigned i = 0; i < tile->n && !tile->packed && !lower->failed; i++)
    lower_set(lower, tile->reg[i], from->reg[i]);
}

/* ---- Memory words ---- */

/* How `count` elements travel: as `words` registers of one type. */
typedef struct Words {
  NumberType type;   /* register that holds a word */
  NumberType memory; /* type in memory where it differs, else the same */
  unsigned n, per;   /* words, elements a word */
} Words;

/* Elements of 4 bits; of one the byte that it shares. */
static Words packed_words(unsigned count)
{
  if (count >= 8) return (Words){NUMBER_B32, NUMBER_B32, count / 8, 8};
  return (Words){NUMBER_S32, count == 4 ? NUMBER_U16 : NUMBER_U8, 1, count};
}

static Words words_of(NumberType element, unsigned count)
{
  if (number_is_packed(element)) return packed_words(count);
  unsigned bytes = number_bytes(element);
  NumberType reg = lower_register_type(element);
  if (bytes >= 4) return (Words){reg, reg, count, 1};
  if (bytes == 2) {
    if (count == 1) return (Words){reg, element, 1, 1};
    return (Words){NUMBER_B32, NUMBER_B32, count / 2, 2};
  }
  if (count >= 4) return (Words){NUMBER_B32, NUMBER_B32, count / 4, 4};
  bool eight = element == NUMBER_E4M3 || element == NUMBER_E5M2;
  if (count == 2)
    return eight ? (Words){NUMBER_B16, NUMBER_B16, 1, 2} : (Words){NUMBER_S32, NUMBER_U16, 1, 2};
  return eight ? (Words){element, element, 1, 1}
               : (Words){NUMBER_S32, element == NUMBER_BOOL || element == NUMBER_E8M0 ? NUMBER_U8 : element,
                         1, 1};
}

/* The bits of a word all of whose elements are `fill`. */
static IrExpr *fill_word(Lower *lower, const Words *words, NumberType element, double fill)
{
  if (words->per == 1 && words->type == lower_register_type(element))
    return lower_constant(lower, element, fill);
  uint64_t bits = 0, word = 0;
  number_from_double(element == NUMBER_BOOL ? NUMBER_U8 : element, fill, true, &bits);
  for (unsigned i = 0; i < words->per; i++)
    word |= bits << (i * number_bits(element));
  return lower_int(lower, (int64_t)word);
}

static IrExpr *truth_of(Lower *lower, IrExpr *byte)
{
  return lower_value(lower, OP_NE, ir_predicate(), "true", 2, byte, lower_int(lower, 0));
}

IrExpr *lower_quarter(Lower *lower, IrExpr *word, NumberType element, IrExpr *bit)
{
  const IrType whole = ir_scalar(NUMBER_S32);
  if (number_class(element) != NUMBER_SIGNED) {
    IrExpr *low = lower_value(lower, OP_SHR, ir_scalar(NUMBER_U32), "x", 2, word, bit);
    return lower_value(lower, OP_AND, whole, "x", 2, low, lower_int(lower, 15));
  }
  /* to the top, then back with its sign */
  IrExpr *up = lower_sub(lower, NUMBER_S32, lower_int(lower, 28), bit);
  IrExpr *top = lower_value(lower, OP_SHL, whole, "x", 2, word, up);
  return lower_value(lower, OP_SHR, whole, "x", 2, top, lower_int(lower, 28));
}

static IrExpr *integer_at(Lower *lower, IrExpr *word, NumberType element, unsigned index)
{
  if (number_is_packed(element)) return lower_quarter(lower, word, element, lower_int(lower, 4 * index));
  static const int selector[2][4] = {{0x4440, 0x4441, 0x4442, 0x4443}, {0x8880, 0x9991, 0xAAA2, 0xBBB3}};
  static const int half[2][2] = {{0x4410, 0x4432}, {0x9910, 0xBB32}};
  bool is_signed = number_class(element) == NUMBER_SIGNED;
  int64_t pick = number_has_bytes(element, 1) ? selector[is_signed][index] : half[is_signed][index];
  return lower_value(lower, OP_PERMUTE, ir_scalar(NUMBER_S32), "x", 3, word, lower_int(lower, 0),
                     lower_int(lower, pick));
}

/* Two bytes, or two elements of one, may be converted as they came. */
static void keep_loaded(Lower *lower, IrExpr *word, const Words *words, LowerTile *tile, const unsigned *reg)
{
  bool bytes = number_bits(tile->element) <= 8 && tile->element != NUMBER_BOOL;
  bool four = bytes && words->per == 4 && number_has_bytes(tile->element, 1) && reg[0] % 4 == 0;
  for (unsigned i = 1; four && i < 4; i++)
    four = reg[i] == reg[0] + i;
  if (four && tile->n % 4 == 0) {
    if (!tile->quads) tile->quads = arena_new_array(lower->arena, IrExpr *, tile->n / 4);
    tile->quads[reg[0] / 4] = word;
  }
  if (!bytes || words->per != 2 || reg[0] % 2 || reg[1] != reg[0] + 1) return;
  if (!tile->loaded) tile->loaded = arena_new_array(lower->arena, IrExpr *, tile->n / 2);
  tile->loaded[reg[0] / 2] = word;
}

/* Elements of one word into the tile's registers. */
static void split_word(Lower *lower, IrExpr *word, const Words *words, LowerTile *tile, const unsigned *reg)
{
  NumberType element = tile->element;
  keep_loaded(lower, word, words, tile, reg);
  if (words->per == 1) {
    tile->reg[reg[0]] = element == NUMBER_BOOL ? truth_of(lower, word) : word;
    return; /* of a packed element the byte: lower_load_vector's caller picks */
  }
  if (element == NUMBER_BOOL || lower_register_type(element) == NUMBER_S32) {
    for (unsigned i = 0; i < words->per; i++) {
      IrExpr *x = integer_at(lower, word, element == NUMBER_BOOL ? NUMBER_U8 : element, i);
      tile->reg[reg[i]] = element == NUMBER_BOOL ? truth_of(lower, x) : x;
    }
    return;
  }
  IrOp *op = lower_emit(lower, OP_UNPACK, 1, word);
  for (unsigned i = 0; i < words->per; i++)
    tile->reg[reg[i]] = lower_result(lower, op, "x", ir_scalar(element));
  if (words->per == 2 && words->type == NUMBER_B32 && reg[0] % 2 == 0 && reg[1] == reg[0] + 1) {
    lower_make_pairs(lower, tile);
    tile->pair[reg[0] / 2] = word;
  }
}

static void set_memory_type(Lower *lower, IrOp *op, const Words *words)
{
  if (words->memory != words->type)
    ir_attribute_set(op, ATTR_TYPE, ir_name(lower->module, number_name(words->memory)));
}

void lower_load_vector(Lower *lower, IrOpcode code, LowerAddress address, LowerTile *tile,
                       const unsigned *reg, unsigned count, IrExpr *when, const IrExpr *fill,
                       const IrExpr *cache)
{
  Words words = words_of(tile->element, count);
  double value = !fill ? 0 : fill->kind == EXPR_FLOAT ? fill->number : (double)fill->integer;
  IrExpr *word[4];
  int64_t constant;
  g_assert(words.n <= 4);
  if (when && lower_is_int(when, &constant) && !constant) { /* never: nothing but the fill */
    for (unsigned i = 0; i < count; i++)
      tile->reg[reg[i]] = lower_constant(lower, tile->element, value);
    return;
  }
  IrOp *op = lower_emit(lower, code, 1, lower_address(lower, address));
  for (unsigned i = 0; i < words.n; i++)
    word[i] = lower_result(lower, op, "x", ir_scalar(words.type));
  set_memory_type(lower, op, &words);
  if (cache && code == OP_LOAD_GLOBAL) ir_attribute_set(op, ATTR_CACHE, (IrExpr *)cache);
  if (when) {
    lower_when(op, when);
    if (ir_attribute(op, ATTR_WHEN))
      ir_attribute_set(op, ATTR_FILL, fill_word(lower, &words, tile->element, value));
  }
  for (unsigned i = 0; i < words.n; i++)
    split_word(lower, word[i], &words, tile, reg + (size_t)i * words.per);
}

static IrExpr *join_word(Lower *lower, const Words *words, LowerTile *tile, const unsigned *reg)
{
  if (words->per == 1)
    return number_has_bytes(tile->element, 1) && words->type == NUMBER_S32 ? byte_of(lower, tile, reg[0])
                                                                           : tile->reg[reg[0]];
  if (words->per == 4) return lower_byte_quad(lower, tile, reg);
  if (number_has_bytes(tile->element, 2)) return lower_pair(lower, tile, reg[0], reg[1]);
  IrExpr *twin = twin_of(tile, reg);
  if (twin) return twin;
  IrExpr *low = byte_of(lower, tile, reg[0]), *high = byte_of(lower, tile, reg[1]);
  if (words->type == NUMBER_B16)
    return lower_value(lower, OP_PACK, ir_scalar(NUMBER_B16), "pair", 2, low, high);
  return lower_value(lower, OP_PERMUTE, ir_scalar(NUMBER_S32), "pair", 3, low, high,
                     lower_int(lower, 0x7740));
}

IrOp *lower_store_vector(Lower *lower, IrOpcode code, LowerAddress address, LowerTile *tile,
                         const unsigned *reg, unsigned count, IrExpr *when, const IrExpr *cache)
{
  Words words = words_of(tile->element, count);
  IrExpr *operands[5] = {NULL};
  g_assert(words.n <= 4);
  for (unsigned i = 0; i < words.n; i++) {
    IrExpr *word = join_word(lower, &words, tile, reg + (size_t)i * words.per);
    if (word->kind == EXPR_INT || word->kind == EXPR_FLOAT)
      word = lower_value(lower, OP_MOVE, ir_scalar(words.type), "constant", 1, word);
    operands[1 + i] = word;
  }
  operands[0] = lower_address(lower, address);
  IrOp *op = lower_emit_array(lower, code, 1 + words.n, operands);
  set_memory_type(lower, op, &words);
  if (cache && code == OP_STORE_GLOBAL) ir_attribute_set(op, ATTR_CACHE, (IrExpr *)cache);
  lower_when(op, when);
  return op;
}

/* ---- Vectors that may reach over the ends of a row ---- */

void lower_load_edge(Lower *lower, const LowerTile *tile, LowerEdge *edge, const IrExpr *fill,
                     const IrExpr *cache)
{
  Words words = words_of(tile->element, edge->count);
  double value = !fill ? 0 : fill->kind == EXPR_FLOAT ? fill->number : (double)fill->integer;
  IrOp *op = lower_emit(lower, OP_LOAD_GLOBAL, 1, lower_address(lower, edge->address));
  for (unsigned i = 0; i < words.n; i++)
    edge->word[i] = lower_result(lower, op, "x", ir_scalar(words.type));
  set_memory_type(lower, op, &words);
  if (cache) ir_attribute_set(op, ATTR_CACHE, (IrExpr *)cache);
  lower_when(op, edge->whole);
  if (ir_attribute(op, ATTR_WHEN))
    ir_attribute_set(op, ATTR_FILL, fill_word(lower, &words, tile->element, value));
  for (unsigned i = 0; i < words.n; i++)
    edge->word[i] =
        ir_value(lower->module, lower_variable(lower, "edge", ir_scalar(words.type), edge->word[i]));
}

static LowerAddress edge_element(const LowerTile *tile, const LowerEdge *edge, unsigned i)
{
  return (LowerAddress){edge->address.base,
                        edge->address.offset + (int64_t)number_bytes_of(tile->element, i)};
}

void lower_load_edge_elements(Lower *lower, LowerTile *tile, const LowerEdge *edge, const IrExpr *fill,
                              const IrExpr *cache)
{
  for (unsigned i = 0; i < edge->count && !lower->failed; i++)
    lower_load_vector(lower, OP_LOAD_GLOBAL, edge_element(tile, edge, i), tile, edge->reg + i, 1,
                      lower_edge_inside(lower, edge, i), fill, cache);
}

void lower_ask_edge_part(Lower *lower, const LowerTile *tile, LowerEdge *edge, const IrExpr *fill,
                         const IrExpr *cache)
{
  edge->own = lower_tile_new(lower, tile->element, tile->layout);
  for (unsigned i = 0; i < edge->count && !lower->failed; i++)
    lower_load_vector(lower, OP_LOAD_GLOBAL, edge_element(tile, edge, i), edge->own, edge->reg + i, 1,
                      lower_and(lower, edge->part, lower_edge_inside(lower, edge, i)), fill, cache);
}

void lower_take_edge_part(Lower *lower, LowerTile *tile, LowerEdge *edge)
{
  Words words = words_of(tile->element, edge->count);
  IrOp *branch = lower_emit(lower, OP_IF, 1, edge->part);
  lower_scope_open(lower, branch, ir_region_add(branch), false);
  for (unsigned i = 0; i < words.n && !lower->failed; i++)
    lower_set(lower, edge->word[i], join_word(lower, &words, edge->own, edge->reg + (size_t)i * words.per));
  lower_scope_close(lower);
  for (unsigned i = 0; i < words.n; i++) {
    IrExpr *word = lower_value(lower, OP_MOVE, ir_scalar(words.type), "x", 1, edge->word[i]);
    split_word(lower, word, &words, tile, edge->reg + (size_t)i * words.per);
  }
}

void lower_store_edge_part(Lower *lower, LowerTile *tile, const LowerEdge *edge, const IrExpr *cache)
{
  IrOp *branch = lower_emit(lower, OP_IF, 1, edge->part);
  lower_scope_open(lower, branch, ir_region_add(branch), false);
  for (unsigned i = 0; i < edge->count && !lower->failed; i++)
    lower_store_vector(lower, OP_STORE_GLOBAL, edge_element(tile, edge, i), tile, edge->reg + i, 1,
                       lower_edge_inside(lower, edge, i), cache);
  lower_scope_close(lower);
}

/* Words from `by` on, of so many as come out, by the digits of a number. */
static unsigned slide_words(Lower *lower, IrExpr **word, unsigned n, unsigned left, unsigned out, IrExpr *by,
                            IrType type)
{
  for (unsigned step = out / 2; step; step /= 2) {
    IrExpr *digit = lower_bits(lower, OP_AND, NUMBER_S32, by, lower_int(lower, step));
    IrExpr *slides = lower_compare(lower, OP_NE, digit, lower_int(lower, 0));
    n -= step;
    for (unsigned i = 0; i < MIN(n, left + step - 1); i++)
      word[i] = lower_value(lower, OP_SELECT, type, "x", 3, slides, word[i + step], word[i]);
  }
  return n;
}

void lower_slide_vector(Lower *lower, LowerTile *tile, const unsigned *reg, unsigned count,
                        LowerTile *const pair[2], IrExpr *from)
{
  Words words = words_of(tile->element, count);
  IrType type = ir_scalar(words.type);
  IrExpr *word[8];
  for (unsigned i = 0; i < 2 * words.n; i++)
    word[i] = join_word(lower, &words, pair[i / words.n], reg + (size_t)(i % words.n) * words.per);
  unsigned per = words.per, left = words.n + (per > 1); /* words that are wanted in the end */
  IrExpr *by = per > 1 ? lower_shr(lower, NUMBER_S32, from, g_bit_storage(per) - 1) : from;
  slide_words(lower, word, 2 * words.n, left, words.n, by, type);
  IrExpr *within = lower_bits(lower, OP_AND, NUMBER_S32, from, lower_int(lower, per - 1));
  IrExpr *picked = lower_add(
      lower, NUMBER_S32, lower_mul(lower, NUMBER_S32, within, lower_int(lower, per == 2 ? 0x2222 : 0x1111)),
      lower_int(lower, 0x3210));
  for (unsigned i = 0; i < words.n; i++) {
    IrExpr *x =
        per > 1 ? lower_value(lower, OP_PERMUTE, type, "x", 3, word[i], word[i + 1], picked) : word[i];
    split_word(lower, x, &words, tile, reg + (size_t)i * words.per);
  }
}
