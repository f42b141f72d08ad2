/* Registers and operands: which PTX registers a value has, and what an operand expression means. */
#include "backends/ptx/internal.h"
#include <string.h>

const char *const register_prefix[CLASS_COUNT] = {"%r", "%rd", "%f", "%fd", "%h", "%p"};
const char *const register_type[CLASS_COUNT] = {".b32", ".b64", ".f32", ".f64", ".b16", ".pred"};

RegisterClass register_class(const IrType *type)
{
  if (type->kind == TYPE_PREDICATE || type->element == NUMBER_BOOL) return CLASS_PREDICATE;
  if (type->element == NUMBER_F32) return CLASS_F32;
  if (type->element == NUMBER_F64) return CLASS_F64;
  switch (number_bits(type->element)) {
  case 64: return CLASS_B64;
  case 32: return CLASS_B32;
  default: return CLASS_B16; /* 8-bit values are held in 16-bit registers */
  }
}

Register register_new(Emitter *e, RegisterClass class_, NumberType type)
{
  return (Register){.class_ = class_, .type = type, .index = e->used[class_]++};
}

#define REGISTER_MAX (NUMBER_DECIMAL_MAX + 4) /* as long as any prefix */

static size_t register_write(Register reg, char *text)
{
  size_t prefix = strlen(register_prefix[reg.class_]);
  memcpy(text, register_prefix[reg.class_], prefix);
  return prefix + number_decimal(reg.index, text + prefix);
}

const char *register_text(Emitter *e, Register reg)
{
  char text[REGISTER_MAX];
  return arena_strndup(e->arena, text, register_write(reg, text));
}

void register_put(GString *out, Register reg)
{
  char text[REGISTER_MAX];
  text_put(out, text, register_write(reg, text));
}

Register *registers_of_value(Emitter *e, const IrValue *value)
{
  Register *found = e->values[value->id];
  if (found != NULL) return found;
  unsigned n = MAX(value->type.count, 1);
  NumberType type = value->type.kind == TYPE_PREDICATE ? NUMBER_BOOL : value->type.element;
  found = arena_new_array(e->arena, Register, n);
  for (unsigned i = 0; i < n; i++)
    found[i] = register_new(e, register_class(&value->type), type);
  return e->values[value->id] = found;
}

static bool bad_operand(Emitter *e, const IrOp *op, const IrExpr *expr, const char *why)
{
  if (!e->failed)
    error_set(e->error, ERROR_UNSUPPORTED, expr->mark.line ? &expr->mark : &op->mark, "bad-operand", NULL,
              "%s: an operand %s", ir_op_info(op->code)->name, why);
  e->failed = true;
  return false;
}

static bool resolve_value(Emitter *e, const IrOp *op, const IrExpr *expr, Operand *operand)
{
  const IrType *type = &expr->value->type;
  if (type->kind == TYPE_TENSOR) {
    *operand = (Operand){.kind = OPERAND_TENSOR, .name = expr->value->name};
    return true;
  }
  if (type->kind != TYPE_SCALAR && type->kind != TYPE_PREDICATE)
    return bad_operand(e, op, expr, "is neither a register nor a constant");
  operand->kind = OPERAND_REGISTERS;
  operand->registers = registers_of_value(e, expr->value);
  operand->n = MAX(type->count, 1);
  return true;
}

/* %acc[3] and %acc[0 .. 4] */
static bool resolve_index(Emitter *e, const IrOp *op, const IrExpr *expr, Operand *operand)
{
  Operand base = {0};
  if (expr->n != 2) return bad_operand(e, op, expr, "has more than one index");
  if (!operand_resolve(e, op, expr->items[0], &base)) return false;
  const IrExpr *index = expr->items[1];
  int64_t low, high;
  if (index->kind == EXPR_RANGE) {
    if (!ir_expr_is_int(index->items[0], &low) || !ir_expr_is_int(index->items[1], &high))
      return bad_operand(e, op, expr, "has a range that is not constant");
  } else {
    if (!ir_expr_is_int(index, &low)) return bad_operand(e, op, expr, "has an index that is not constant");
    high = low + 1;
  }
  if (base.kind != OPERAND_REGISTERS || low < 0 || high > base.n || low >= high)
    return bad_operand(e, op, expr, "lies outside its register array");
  *operand = base;
  operand->registers += low;
  operand->n = (unsigned)(high - low);
  return true;
}

/* register + constant, in any nesting */
static bool resolve_sum(Emitter *e, const IrOp *op, const IrExpr *expr, Operand *operand)
{
  int64_t offset;
  const IrExpr *base = expr->items[0], *other = expr->items[1];
  if (expr->operator_ == OPERATOR_ADD && ir_expr_is_int(base, &offset)) {
    const IrExpr *swap = base;
    base = other;
    other = swap;
  }
  if ((expr->operator_ != OPERATOR_ADD && expr->operator_ != OPERATOR_SUB) || !ir_expr_is_int(other, &offset))
    return bad_operand(e, op, expr, "may only be register + constant");
  if (!operand_resolve(e, op, base, operand)) return false;
  if (operand->kind == OPERAND_REGISTERS && operand->n != 1)
    return bad_operand(e, op, expr, "adds a constant to a register array");
  if (operand->kind != OPERAND_REGISTERS && operand->kind != OPERAND_INT && operand->kind != OPERAND_SHARED)
    return bad_operand(e, op, expr, "adds a constant to what is no register");
  uint64_t sum = (uint64_t)operand->integer;
  operand->integer =
      (int64_t)(expr->operator_ == OPERATOR_ADD ? sum + (uint64_t)offset : sum - (uint64_t)offset);
  operand->sum = operand->integer != 0;
  return true;
}

static bool resolve_list(Emitter *e, const IrOp *op, const IrExpr *expr, Operand *operand)
{
  g_autoptr(GArray) parts = g_array_new(false, false, sizeof(Register));
  for (unsigned i = 0; i < expr->n; i++) {
    Operand part = {0};
    if (!operand_resolve(e, op, expr->items[i], &part)) return false;
    if (part.kind != OPERAND_REGISTERS || part.sum || part.negated)
      return bad_operand(e, op, expr, "lists what is no register");
    g_array_append_vals(parts, part.registers, part.n);
  }
  operand->kind = OPERAND_REGISTERS;
  operand->n = parts->len;
  operand->registers = arena_memdup(e->arena, parts->data, sizeof(Register) * parts->len);
  return true;
}

bool operand_resolve(Emitter *e, const IrOp *op, const IrExpr *expr, Operand *operand)
{
  *operand = (Operand){0};
  switch (expr->kind) {
  case EXPR_INT: *operand = (Operand){.kind = OPERAND_INT, .integer = expr->integer}; return true;
  case EXPR_FLOAT: *operand = (Operand){.kind = OPERAND_FLOAT, .number = expr->number}; return true;
  case EXPR_NAME:
    *operand = (Operand){.kind = strcmp(expr->name, "shared") == 0 ? OPERAND_SHARED : OPERAND_NAME,
                         .name = expr->name};
    return true;
  case EXPR_DIM: *operand = (Operand){.kind = OPERAND_DIM, .name = expr->name}; return true;
  case EXPR_SYMBOL: *operand = (Operand){.kind = OPERAND_MAP, .name = expr->name}; return true;
  case EXPR_VALUE: return resolve_value(e, op, expr, operand);
  case EXPR_INDEX: return resolve_index(e, op, expr, operand);
  case EXPR_BINARY: return resolve_sum(e, op, expr, operand);
  case EXPR_LIST: return resolve_list(e, op, expr, operand);
  case EXPR_CALL:
    operand->kind = OPERAND_INT;
    return encoded_constant(expr, &operand->integer) ||
           bad_operand(e, op, expr, "is a call that is no constant of the encoding");
  case EXPR_UNARY:
    if (!operand_resolve(e, op, expr->items[0], operand)) return false;
    if (expr->operator_ == OPERATOR_LNOT && operand->kind == OPERAND_INT) {
      operand->integer = !operand->integer;
      return true;
    }
    if (expr->operator_ == OPERATOR_LNOT && operand->kind == OPERAND_REGISTERS && operand->n == 1 &&
        operand->registers[0].class_ == CLASS_PREDICATE) {
      operand->negated = !operand->negated;
      return true;
    }
    if (expr->operator_ == OPERATOR_NEG && operand->kind <= OPERAND_FLOAT &&
        operand->kind != OPERAND_REGISTERS) {
      operand->integer = (int64_t)(0 - (uint64_t)operand->integer);
      operand->number = -operand->number;
      return true;
    }
    return bad_operand(e, op, expr, "is an expression; only constants and !predicate may carry an operator");
  default: return bad_operand(e, op, expr, "is an expression that no register holds");
  }
}

bool operand_concat(Emitter *e, const IrOp *op, IrExpr *const *exprs, unsigned n, GArray *operands)
{
  unsigned at = operands->len;
  g_array_set_size(operands, at + n);
  for (unsigned i = 0; i < n; i++, at++) {
    Operand *operand = &g_array_index(operands, Operand, at);
    if (!operand_resolve(e, op, exprs[i], operand)) return false;
    if (operand->kind != OPERAND_REGISTERS || operand->n <= 1) continue;
    const Operand list = *operand;
    g_array_set_size(operands, operands->len + list.n - 1);
    for (unsigned k = 0; k < list.n; k++)
      g_array_index(operands, Operand, at + k) =
          (Operand){.kind = OPERAND_REGISTERS, .registers = list.registers + k, .n = 1};
    at += list.n - 1;
  }
  return true;
}

/* Exactly n digits. */
static const char *hexadecimal(Emitter *e, const char *prefix, uint64_t bits, unsigned n)
{
  size_t at = strlen(prefix);
  char *text = arena_alloc(e->arena, at + n + 1);
  memcpy(text, prefix, at);
  for (unsigned i = 0; i < n; i++)
    text[at + i] = "0123456789ABCDEF"[bits >> (n - 1 - i) * 4 & 15];
  return text;
}

static const char *float_text(Emitter *e, double number, NumberType type)
{
  switch (type) {
  case NUMBER_F64: {
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return hexadecimal(e, "0d", bits, 16);
  }
  case NUMBER_F32: {
    uint32_t bits;
    number_from_double(NUMBER_F32, number, false, &bits);
    return hexadecimal(e, "0f", bits, 8);
  }
  default: {
    uint64_t bits = 0;
    number_from_double(type, number, false, &bits);
    return hexadecimal(e, "0x", bits, number_bits(type) / 4);
  }
  }
}

const char *constant_text(Emitter *e, const Operand *operand, NumberType type)
{
  bool as_float = number_class(type) == NUMBER_FLOAT;
  if (operand->kind == OPERAND_FLOAT && as_float) return float_text(e, operand->number, type);
  if (operand->kind == OPERAND_FLOAT) /* a float where bits are asked for: those of an f32 (or f64) */
    return float_text(e, operand->number, number_bits(type) == 64 ? NUMBER_F64 : NUMBER_F32);
  if (as_float) return float_text(e, (double)operand->integer, type);
  int64_t value = operand->integer;
  /* Text that fits the width: an s32 written as 0xFFFFFFFF and a u32 written as -1 are both fine constants.
   */
  if (number_bits(type) == 32 && value > INT32_MAX && number_class(type) == NUMBER_SIGNED)
    value = (int32_t)value;
  if (number_bits(type) == 32 && number_class(type) != NUMBER_SIGNED && value < 0) value = (uint32_t)value;
  if (value > UINT32_MAX || value == INT64_MIN) /* descriptors and masks */
    return arena_printf(e->arena, "0x%" G_GINT64_MODIFIER "X", (guint64)value);
  char text[1 + NUMBER_DECIMAL_MAX] = "-";
  size_t digits = number_decimal((uint64_t)(value < 0 ? -value : value), text + 1);
  return arena_strndup(e->arena, value < 0 ? text : text + 1, digits + (value < 0));
}

/* Something computed once at entry, however often the body asks for it. */
static Register computed_once(Emitter *e, RegisterClass class_, NumberType type, const char *key,
                              const char *mnemonic, const char *source)
{
  Register *found = g_hash_table_lookup(e->once, key);
  if (found != NULL) return *found;
  found = arena_new_object(e->arena, Register);
  *found = register_new(e, class_, type);
  g_hash_table_insert(e->once, (gpointer)key, found);
  text_line(e->prologue, "",
            arena_printf(e->arena, "%s %s, %s;", mnemonic, register_text(e, *found), source));
  return *found;
}

Register register_policy(Emitter *e, const char *cache)
{
  e->version = MAX(e->version, 74);
  const char *mnemonic = arena_printf(e->arena, "createpolicy.fractional.L2::%s.b64", cache);
  return computed_once(e, CLASS_B64, NUMBER_B64, cache, mnemonic, "0f3F800000");
}

Register register_map(Emitter *e, const char *map)
{
  e->version = MAX(e->version, 77);
  const char *name = arena_printf(e->arena, "arg_%s", map);
  Register *found = g_hash_table_lookup(e->once, name);
  if (found != NULL) return *found;
  Register address = register_new(e, CLASS_B64, NUMBER_U64);
  text_line(e->prologue, "", arena_printf(e->arena, "mov.b64 %s, %s;", register_text(e, address), name));
  return computed_once(e, CLASS_B64, NUMBER_U64, name, "cvta.param.u64", register_text(e, address));
}

Register register_true(Emitter *e, bool value)
{
  return computed_once(e, CLASS_PREDICATE, NUMBER_BOOL, value ? "true" : "false", "mov.pred",
                       value ? "1" : "0");
}
