/* Placeholders that are computed: types, operands in PTX spelling, and what attributes turn into. */
#include "backends/ptx/internal.h"
#include <string.h>

/* ---- Types ---- */

static bool operand_type(const Operand *operand, NumberType *type)
{
  if (operand->kind != OPERAND_REGISTERS || operand->n == 0) return false;
  *type = operand->registers[0].type;
  return true;
}

static NumberType default_type(const char *token)
{
  NumberType type;
  if (strcmp(token, "i32") == 0 || strcmp(token, "int") == 0) return NUMBER_S32;
  if (strcmp(token, "i64") == 0) return NUMBER_S64;
  if (strcmp(token, "i16") == 0) return NUMBER_S16;
  if (strcmp(token, "i8") == 0) return NUMBER_S8;
  if (strcmp(token, "f8") == 0) return NUMBER_E4M3;
  if (strcmp(token, "pred") == 0) return NUMBER_BOOL;
  return number_parse(token, &type) ? type : NUMBER_B32;
}

NumberType match_type(const RowMatch *match, unsigned token)
{
  NumberType type;
  const char *name = match->tokens[token].name;
  for (unsigned i = 0; i < match->tokens[token].n; i++)
    if (operand_type(&match->tokens[token].operands[i], &type)) return type;
  for (unsigned t = 0; t < match->n_tokens; t++) /* a constant takes the type of its neighbours */
    for (unsigned i = 0; i < match->tokens[t].n && strcmp(match->tokens[t].name, name) == 0; i++)
      if (operand_type(&match->tokens[t].operands[i], &type)) return type;
  const IrExpr *given = ir_attribute_value(match->op, ATTR_TYPE);
  bool stored =
      match->n_results == 0 && given != NULL && given->name != NULL; /* a number alone, of as many bits */
  if (stored && number_parse(given->name, &type) && number_bits(type) == 64) return type;
  NumberType otherwise = default_type(name),
             result = match->n_results > 0 ? match->results[0].type : otherwise;
  bool same_kind = (number_class(result) == NUMBER_FLOAT) == (number_class(otherwise) == NUMBER_FLOAT);
  return same_kind && otherwise != NUMBER_BOOL && number_bits(result) == number_bits(otherwise) ? result
                                                                                                : otherwise;
}

/* A type as instructions spell it: bits count as unsigned in arithmetic. */
static const char *type_text(NumberType type)
{
  switch (type) {
  case NUMBER_B16: return "u16";
  case NUMBER_B32: return "u32";
  case NUMBER_B64: return "u64";
  default: return number_name(type);
  }
}

/* Type of an access to memory: the attribute `type`, or the register's own. */
static const char *memory_type(const RowMatch *match)
{
  const IrExpr *given = ir_attribute_value(match->op, ATTR_TYPE);
  NumberType type = match->n_results > 0 ? match->results[0].type : match_type(match, match->n_tokens - 1);
  if (given != NULL && given->name != NULL) number_parse(given->name, &type);
  switch (type) {
  case NUMBER_F32: return "f32";
  case NUMBER_F64: return "f64";
  case NUMBER_S8: return "s8";
  case NUMBER_S16: return "s16";
  case NUMBER_BOOL: return "u8";
  default: break;
  }
  switch (number_bits(type)) {
  case 8: return "u8";
  case 16: return given != NULL ? "u16" : "b16";
  case 64: return "b64";
  default: return "b32";
  }
}

/* ---- Operands ---- */

static const char *scratch_move(Emitter *e, RegisterClass class_, NumberType type, const char *format,
                                const char *value)
{
  const char *name = register_text(e, register_new(e, class_, type));
  text_line(e->body, "", arena_printf(e->arena, format, name, value));
  return name;
}

/* base, base+16, base+-16 */
static const char *offset_text(Emitter *e, const char *base, int64_t offset)
{
  if (offset == 0) return base;
  size_t at = strlen(base);
  char *text = arena_alloc(e->arena, at + 2 + NUMBER_DECIMAL_MAX);
  memcpy(text, base, at);
  text[at++] = '+';
  if (offset < 0) text[at++] = '-';
  number_decimal(offset < 0 ? 0 - (uint64_t)offset : (uint64_t)offset, text + at);
  return text;
}

static const char *address_text(Emitter *e, const Operand *operand)
{
  bool near = operand->integer >= INT32_MIN && operand->integer <= INT32_MAX;
  if (operand->kind == OPERAND_SHARED) {
    e->uses_shared = true;
    return offset_text(e, "shared_memory", operand->integer);
  }
  if (operand->kind == OPERAND_INT)
    return scratch_move(e, CLASS_B32, NUMBER_U32, "mov.u32 %s, %s;",
                        arena_printf(e->arena, "%" G_GINT64_FORMAT, operand->integer));
  const char *base = register_text(e, operand->registers[0]);
  if (near) return offset_text(e, base, operand->integer);
  const char *sum = arena_printf(e->arena, "%s, %" G_GINT64_FORMAT, base, operand->integer);
  return scratch_move(e, CLASS_B64, NUMBER_U64, "add.s64 %s, %s;", sum);
}

static const char *predicate_text(Emitter *e, const Operand *operand)
{
  if (operand->kind == OPERAND_INT) return register_text(e, register_true(e, operand->integer != 0));
  const char *name = register_text(e, operand->registers[0]);
  return operand->negated ? scratch_move(e, CLASS_PREDICATE, NUMBER_BOOL, "not.pred %s, %s;", name) : name;
}

static const char *sum_text(Emitter *e, const Operand *operand)
{
  const char *sum = arena_printf(e->arena, "%s, %" G_GINT64_FORMAT, register_text(e, operand->registers[0]),
                                 operand->integer);
  if (operand->registers[0].class_ == CLASS_B64)
    return scratch_move(e, CLASS_B64, NUMBER_S64, "add.s64 %s, %s;", sum);
  return scratch_move(e, CLASS_B32, NUMBER_S32, "add.s32 %s, %s;", sum);
}

const char *operand_text(Emitter *e, const Operand *operand, const char *token, NumberType hint)
{
  if (operand_is_plain(operand)) return register_text(e, operand->registers[0]);
  if (strcmp(token, "shared") == 0 || strcmp(token, "global") == 0) return address_text(e, operand);
  if (strcmp(token, "pred") == 0) return predicate_text(e, operand);
  switch (operand->kind) {
  case OPERAND_NAME: return operand->name;
  case OPERAND_TENSOR:
  case OPERAND_DIM: return arena_printf(e->arena, "arg_%s", operand->name);
  case OPERAND_MAP: return register_text(e, register_map(e, operand->name));
  case OPERAND_SHARED:
    return scratch_move(e, CLASS_B32, NUMBER_U32, "mov.u32 %s, %s;", address_text(e, operand));
  case OPERAND_REGISTERS:
    if (operand->sum) return sum_text(e, operand);
    return register_text(e, operand->registers[0]);
  default: break;
  }
  const char *constant = constant_text(e, operand, hint);
  /* 16-bit float arithmetic takes no immediates. */
  if (strcmp(token, "f16") == 0 || strcmp(token, "bf16") == 0)
    return scratch_move(e, CLASS_B16, hint, "mov.b16 %s, %s;", constant);
  return constant;
}

/* ---- Attributes ---- */

static const char *attribute_name(const RowMatch *match, IrAttributeKey key)
{
  const IrExpr *value = ir_attribute_value(match->op, key);
  return value != NULL ? value->name : NULL;
}

static const char *rounding(Emitter *e, RowMatch *match)
{
  static const char *const names[][2] = {{"nearest", ".rn"}, {"down", ".rm"}, {"up", ".rp"}, {"zero", ".rz"}};
  const char *name = attribute_name(match, ATTR_ROUND);
  for (unsigned i = 0; i < G_N_ELEMENTS(names); i++)
    if (name == NULL || strcmp(names[i][0], name) == 0) return names[i][1];
  return NULL;
}

static const char *rounding_integer(Emitter *e, RowMatch *match)
{
  if (attribute_name(match, ATTR_ROUND) == NULL) return ".rzi";
  const char *float_rounding = rounding(e, match);
  return float_rounding == NULL               ? NULL
         : strcmp(float_rounding, ".rn") == 0 ? ".rni"
                                              : arena_printf(e->arena, "%si", float_rounding);
}

static const char *sat_narrow(Emitter *e, RowMatch *match)
{
  return number_bits(match->results[0].type) < 32 ? ".sat" : "";
}

static const char *sat_change(Emitter *e, RowMatch *match)
{
  bool same = strcmp(type_text(match->results[0].type), type_text(match_type(match, 0))) == 0;
  return ir_attribute(match->op, ATTR_SATURATE) != NULL && !same ? ".sat" : "";
}

/* An L2 policy is asked for by evict_first, evict_last and evict_normal; a hint may be ignored where there is
 * none. */
static bool wants_policy(Emitter *e, const RowMatch *match)
{
  const char *cache = attribute_name(match, ATTR_CACHE);
  return cache != NULL && g_str_has_prefix(cache, "evict_") && gpu_has(e->gpu, "cache_hint");
}

static const char *cache(Emitter *e, RowMatch *match)
{
  const char *name = attribute_name(match, ATTR_CACHE);
  if (name == NULL) return "";
  if (strcmp(name, "streaming") == 0) return ".cs";
  if (strcmp(name, "no_allocate") == 0) return ".L1::no_allocate";
  if (strcmp(name, "ahead") == 0) return ".L2::256B";
  if (!wants_policy(e, match)) return "";
  /* What is not to stay in L2 has no business in L1 either. */
  return strcmp(name, "evict_first") == 0 ? ".L1::no_allocate.L2::cache_hint" : ".L2::cache_hint";
}

static const char *cache_tensor(Emitter *e, RowMatch *match)
{
  return wants_policy(e, match) ? ".L2::cache_hint" : "";
}

static const char *cache_line(Emitter *e, RowMatch *match)
{
  return wants_policy(e, match) ? ".L2::cache_hint.L2::128B" : ".L2::128B";
}

static const char *policy(Emitter *e, RowMatch *match)
{
  if (!wants_policy(e, match)) return "";
  return arena_printf(e->arena, ", %s",
                      register_text(e, register_policy(e, attribute_name(match, ATTR_CACHE))));
}

static const char *attribute_operand(Emitter *e, RowMatch *match, IrAttributeKey key, Operand *operand)
{
  const IrExpr *value = ir_attribute_value(match->op, key);
  return value != NULL && operand_resolve(e, match->op, value, operand) ? "" : NULL;
}

static const char *valid(Emitter *e, RowMatch *match)
{
  Operand operand;
  if (ir_attribute(match->op, ATTR_VALID) == NULL) return "";
  if (attribute_operand(e, match, ATTR_VALID, &operand) == NULL) return NULL;
  return arena_printf(e->arena, ", %s", operand_text(e, &operand, "i32", NUMBER_U32));
}

/* Blocks that receive a copy: a 16-bit mask. */
static const char *mask(Emitter *e, RowMatch *match)
{
  Operand operand;
  if (ir_attribute(match->op, ATTR_MULTICAST) == NULL) return "";
  if (attribute_operand(e, match, ATTR_MULTICAST, &operand) == NULL) return NULL;
  const char *text = operand_text(e, &operand, "i32", NUMBER_U16);
  if (operand.kind == OPERAND_INT)
    text = scratch_move(e, CLASS_B16, NUMBER_U16, "mov.b16 %s, %s;", text);
  else if (operand.registers[0].class_ == CLASS_B32)
    text = scratch_move(e, CLASS_B16, NUMBER_U16, "cvt.u16.u32 %s, %s;", text);
  return arena_printf(e->arena, ", %s", text);
}

static const char *rank(Emitter *e, RowMatch *match)
{
  for (unsigned i = 0; i < match->n_tokens; i++)
    if (strcmp(match->tokens[i].name, "i32") == 0) return arena_printf(e->arena, ".%ud", match->tokens[i].n);
  return NULL;
}

static unsigned vector_size(const RowMatch *match)
{
  return match->n_results > 0 ? match->n_results : match->tokens[match->n_tokens - 1].n;
}

static const char *v(Emitter *e, RowMatch *match)
{
  unsigned n = vector_size(match);
  return n > 1 ? arena_printf(e->arena, ".v%u", n) : "";
}

static const char *x(Emitter *e, RowMatch *match)
{
  return arena_printf(e->arena, ".x%u", vector_size(match));
}

static const char *m(Emitter *e, RowMatch *match)
{
  return memory_type(match);
}

static const char *td(Emitter *e, RowMatch *match)
{
  return match->n_results > 0 ? type_text(match->results[0].type) : NULL;
}

static const char *ta(Emitter *e, RowMatch *match)
{
  return type_text(match_type(match, 0));
}

static const char *tb(Emitter *e, RowMatch *match)
{
  return match->n_tokens > 1 ? type_text(match_type(match, 1)) : NULL;
}

/* Extends a byte as the 8-bit result does. */
static const char *sign16(Emitter *e, RowMatch *match)
{
  return match->results[0].type == NUMBER_S8 ? "s16" : "u16";
}

/* ---- 8-bit floats without saturation: beyond the last midpoint comes NaN (e4m3) or infinity (e5m2) ---- */

static bool is_e4m3(const RowMatch *match)
{
  return match->results[0].type == NUMBER_E4M3;
}

static const char *float8_compare(Emitter *e, RowMatch *match)
{
  return is_e4m3(match) ? "gt" : "ge"; /* ties go to the even neighbour: 448, infinity */
}

static const char *float8_limit(Emitter *e, RowMatch *match)
{
  Operand limit = {.kind = OPERAND_FLOAT, .number = is_e4m3(match) ? 464.0 : 61440.0};
  return constant_text(e, &limit, NUMBER_F32);
}

static const char *float8_overflow(Emitter *e, RowMatch *match)
{
  return is_e4m3(match) ? "0x7F" : "0x7C";
}

static const char *float8_mask(Emitter *e, RowMatch *match)
{
  return is_e4m3(match) ? "0xFF" : "0xFC";
}

/* ---- Lanes ---- */

static const char *lanes(Emitter *e, RowMatch *match)
{
  static const char *const names[][2] = {{"xor", "bfly"}, {"up", "up"}, {"down", "down"}, {"index", "idx"}};
  const char *name = attribute_name(match, ATTR_MODE);
  for (unsigned i = 0; name != NULL && i < G_N_ELEMENTS(names); i++)
    if (strcmp(names[i][0], name) == 0) return names[i][1];
  return NULL;
}

/* Upper bits: lanes beyond the width keep to their segment; lower: the last lane (the first when going up).
 */
static const char *clamp(Emitter *e, RowMatch *match)
{
  int64_t width = ir_attribute_int(match->op, ATTR_WIDTH, 32);
  bool up = ir_attribute_is(match->op, ATTR_MODE, "up");
  if (width < 1 || width > 32 || (width & (width - 1)) != 0) return NULL;
  return arena_printf(e->arena, "0x%X", (unsigned)(32 - width) << 8 | (up ? 0u : 31u));
}

/* ---- Products ---- */

static int64_t list_int(const IrOp *op, IrAttributeKey key, unsigned i)
{
  const IrExpr *list = ir_attribute_value(op, key);
  int64_t value;
  return list != NULL && i < list->n && ir_expr_is_int(list->items[i], &value) ? value : -1;
}

static const char *list_name(const IrOp *op, IrAttributeKey key, unsigned i)
{
  const IrExpr *list = ir_attribute_value(op, key);
  return list != NULL && i < list->n ? list->items[i]->name : NULL;
}

static const char *mnk(Emitter *e, RowMatch *match)
{
  return arena_printf(e->arena, "m%dn%dk%d", (int)list_int(match->op, ATTR_SHAPE, 0),
                      (int)list_int(match->op, ATTR_SHAPE, 1), (int)list_int(match->op, ATTR_SHAPE, 2));
}

static const char *t_a(Emitter *e, RowMatch *match)
{
  return list_name(match->op, ATTR_TYPES, 0);
}

static const char *t_b(Emitter *e, RowMatch *match)
{
  return list_name(match->op, ATTR_TYPES, 1);
}

static const char *t_acc(Emitter *e, RowMatch *match)
{
  return list_name(match->op, ATTR_TYPES, 2);
}

static const char *keep(Emitter *e, RowMatch *match)
{
  Operand operand = {.kind = OPERAND_INT, .integer = 1};
  if (ir_attribute(match->op, ATTR_ACCUMULATE) != NULL &&
      attribute_operand(e, match, ATTR_ACCUMULATE, &operand) == NULL)
    return NULL;
  return predicate_text(e, &operand);
}

static const char *sign_a(Emitter *e, RowMatch *match)
{
  return ir_attribute(match->op, ATTR_NEGATE_A) != NULL ? "-1" : "1";
}

static const char *sign_b(Emitter *e, RowMatch *match)
{
  return ir_attribute(match->op, ATTR_NEGATE_B) != NULL ? "-1" : "1";
}

static const char *bit_a(Emitter *e, RowMatch *match)
{
  return ir_attribute(match->op, ATTR_TRANSPOSE_A) != NULL ? "1" : "0";
}

static const char *bit_b(Emitter *e, RowMatch *match)
{
  return ir_attribute(match->op, ATTR_TRANSPOSE_B) != NULL ? "1" : "0";
}

/* Shape and types of a product must be one of the description's. */
bool products_check(Emitter *e, const IrOp *op)
{
  const char *family = op->code == OP_PRODUCT_WARP ? "warp_mma" : "warpgroup_mma";
  int64_t size[3];
  NumberType types[3];
  for (unsigned i = 0; i < 3; i++) {
    const char *name = list_name(op, ATTR_TYPES, i);
    size[i] = list_int(op, ATTR_SHAPE, i);
    if (name == NULL || !number_parse(name, &types[i])) types[i] = NUMBER_TYPE_COUNT;
  }
  for (unsigned i = 0; i < e->gpu->n_products; i++) {
    const GpuProduct *product = &e->gpu->products[i];
    if (product->widened || strcmp(product->family, family) != 0 || product->a != types[0] ||
        product->b != types[1] || product->acc != types[2] || product->m != size[0] || product->k != size[2])
      continue;
    for (unsigned n = 0; n < product->n_count; n++)
      if (product->n[n] == size[1]) {
        e->version = MAX(e->version, product->ptx_version);
        return true;
      }
  }
  e->failed = true;
  error_set(e->error, ERROR_UNSUPPORTED, &op->mark, "no-product",
            "the description's list of products says what there is",
            "%s's description lists no %s of m%d n%d k%d, %s x %s -> %s", e->gpu->name, family, (int)size[0],
            (int)size[1], (int)size[2], list_name(op, ATTR_TYPES, 0), list_name(op, ATTR_TYPES, 1),
            list_name(op, ATTR_TYPES, 2));
  return false;
}

/* ---- The list ---- */

#define FIELD(name)                                                                                          \
  {                                                                                                          \
#name, name                                                                                              \
  }
static const struct {
  const char *name;
  const char *(*text)(Emitter *e, RowMatch *match);
} computed[] = {FIELD(v),
                FIELD(x),
                FIELD(m),
                FIELD(td),
                FIELD(ta),
                FIELD(tb),
                FIELD(sign16),
                FIELD(rounding),
                FIELD(rounding_integer),
                FIELD(sat_narrow),
                FIELD(sat_change),
                FIELD(cache),
                FIELD(cache_tensor),
                FIELD(cache_line),
                FIELD(policy),
                FIELD(valid),
                FIELD(mask),
                FIELD(rank),
                FIELD(float8_compare),
                FIELD(float8_limit),
                FIELD(float8_overflow),
                FIELD(float8_mask),
                FIELD(lanes),
                FIELD(clamp),
                FIELD(mnk),
                FIELD(t_a),
                FIELD(t_b),
                FIELD(t_acc),
                FIELD(keep),
                FIELD(sign_a),
                FIELD(sign_b),
                FIELD(bit_a),
                FIELD(bit_b)};

unsigned field_find(const char *name)
{
  for (unsigned i = 0; i < G_N_ELEMENTS(computed); i++)
    if (strcmp(computed[i].name, name) == 0) return i;
  return FIELD_UNKNOWN;
}

const char *field_text(Emitter *e, RowMatch *match, unsigned field)
{
  return computed[field].text(e, match);
}
