/* Integer arithmetic. Each operation is an expression per type; a grid of handlers is indexed by both. */
#include "simulator/exec.h"
#include "simulator/lanes.h"
#include <string.h>

enum { K_U16, K_S16, K_U32, K_S32, K_U64, K_S64, K_COUNT };

#define INTEGERS(op, M, E)                                                                                   \
  M(op##_u16, uint32_t, uint16_t, uint16_t, E)                                                               \
  M(op##_s16, uint32_t, int16_t, uint16_t, E)                                                                \
  M(op##_u32, uint32_t, uint32_t, uint32_t, E)                                                               \
  M(op##_s32, uint32_t, int32_t, uint32_t, E)                                                                \
  M(op##_u64, uint64_t, uint64_t, uint64_t, E)                                                               \
  M(op##_s64, uint64_t, int64_t, uint64_t, E)
#define GRID(op)                                                                                             \
  {                                                                                                          \
    op##_u16, op##_s16, op##_u32, op##_s32, op##_u64, op##_s64                                               \
  }

INTEGERS(add, BINARY, (uint64_t)a + (uint64_t)b)
INTEGERS(sub, BINARY, (uint64_t)a - (uint64_t)b)
INTEGERS(mul, BINARY, (uint64_t)a *(uint64_t)b)
INTEGERS(mad, TERNARY, (uint64_t)a *(uint64_t)b + (uint64_t)c)
INTEGERS(min, BINARY, a < b ? a : b)
INTEGERS(max, BINARY, a > b ? a : b)
/* division by zero gives all ones; the most negative number by -1 gives itself */
INTEGERS(div, BINARY,
         b == 0                                              ? (__typeof__(a))-1
         : (b == (__typeof__(a))-1 && (__typeof__(a))-1 < 0) ? 0 - (uint64_t)a
                                                             : (uint64_t)(a / b))
INTEGERS(rem, BINARY,
         b == 0                                              ? (uint64_t)-1
         : (b == (__typeof__(a))-1 && (__typeof__(a))-1 < 0) ? 0
                                                             : (uint64_t)(a % b))
INTEGERS(abs, UNARY, a < 0 ? 0 - (uint64_t)a : (uint64_t)a)
INTEGERS(neg, UNARY, 0 - (uint64_t)a)
INTEGERS(and, BINARY, a &b)
INTEGERS(or, BINARY, a | b)
INTEGERS(xor, BINARY, a ^ b)
INTEGERS(not, UNARY, ~a)
INTEGERS(cnot, UNARY, a == 0)
INTEGERS(sad, TERNARY, (uint64_t)c + (a < b ? (uint64_t)b - (uint64_t)a : (uint64_t)a - (uint64_t)b))

static inline uint64_t high_u64(uint64_t a, uint64_t b)
{
  return (uint64_t)((unsigned __int128)a * b >> 64);
}
static inline uint64_t high_s64(int64_t a, int64_t b)
{
  return (uint64_t)((__int128)a * b >> 64);
}
BINARY(mulhi_u16, uint32_t, uint16_t, uint16_t, (uint32_t)a *b >> 16)
BINARY(mulhi_s16, uint32_t, int16_t, uint16_t, (int32_t)a *b >> 16)
BINARY(mulhi_u32, uint32_t, uint32_t, uint32_t, (uint64_t)a *b >> 32)
BINARY(mulhi_s32, uint32_t, int32_t, uint32_t, (int64_t)a *b >> 32)
BINARY(mulhi_u64, uint64_t, uint64_t, uint64_t, high_u64(a, b))
BINARY(mulhi_s64, uint64_t, int64_t, uint64_t, high_s64(a, b))
TERNARY(madhi_u16, uint32_t, uint16_t, uint16_t, ((uint32_t)a * b >> 16) + c)
TERNARY(madhi_s16, uint32_t, int16_t, uint16_t, ((int32_t)a * b >> 16) + c)
TERNARY(madhi_u32, uint32_t, uint32_t, uint32_t, ((uint64_t)a * b >> 32) + c)
TERNARY(madhi_s32, uint32_t, int32_t, uint32_t, ((int64_t)a * b >> 32) + c)
TERNARY(madhi_u64, uint64_t, uint64_t, uint64_t, high_u64(a, b) + c)
TERNARY(madhi_s64, uint64_t, int64_t, uint64_t, high_s64(a, b) + (uint64_t)c)

/* widening products: destination (and addend) have twice the width */
#define WIDE(name, C, T, D, W)                                                                               \
  static Step mulwide_##name(Warp *w, const Inst *in, uint32_t mask)                                         \
  {                                                                                                          \
    const C *pa = operand(w, in->a[0]), *pb = operand(w, in->a[1]);                                          \
    D *pd = operand(w, in->d[0]);                                                                            \
    EACH_LANE(pd[l] = (D)((W)(T)pa[l] * (W)(T)pb[l]));                                                       \
    return STEP_NEXT;                                                                                        \
  }                                                                                                          \
  static Step madwide_##name(Warp *w, const Inst *in, uint32_t mask)                                         \
  {                                                                                                          \
    const C *pa = operand(w, in->a[0]), *pb = operand(w, in->a[1]);                                          \
    const D *pc = operand(w, in->a[2]);                                                                      \
    D *pd = operand(w, in->d[0]);                                                                            \
    EACH_LANE(pd[l] = (D)((W)(T)pa[l] * (W)(T)pb[l] + (W)pc[l]));                                            \
    return STEP_NEXT;                                                                                        \
  }
WIDE(u16, uint32_t, uint16_t, uint32_t, uint32_t)
WIDE(s16, uint32_t, int16_t, uint32_t, int32_t)
WIDE(u32, uint32_t, uint32_t, uint64_t, uint64_t)
WIDE(s32, uint32_t, int32_t, uint64_t, int64_t)

static inline int64_t clamp32(int64_t x)
{
  return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : x;
}
BINARY(addsat, uint32_t, int32_t, uint32_t, clamp32((int64_t)a + b))
BINARY(subsat, uint32_t, int32_t, uint32_t, clamp32((int64_t)a - b))
TERNARY(madhisat, uint32_t, int32_t, uint32_t, clamp32(((int64_t)a * b >> 32) + c))
#define S24(x) ((int64_t)((int32_t)((uint32_t)(x) << 8) >> 8))
#define U24(x) ((uint64_t)((x)&0xffffff))
BINARY(mul24_u, uint32_t, uint32_t, uint32_t, U24(a) * U24(b))
BINARY(mul24_s, uint32_t, uint32_t, uint32_t, S24(a) * S24(b))
BINARY(mul24hi_u, uint32_t, uint32_t, uint32_t, U24(a) * U24(b) >> 16)
BINARY(mul24hi_s, uint32_t, uint32_t, uint32_t, S24(a) * S24(b) >> 16)
TERNARY(mad24hi_u, uint32_t, uint32_t, uint32_t, (U24(a) * U24(b) >> 16) + c)
TERNARY(mad24hi_s, uint32_t, uint32_t, uint32_t, (uint64_t)(S24(a) * S24(b) >> 16) + c)
TERNARY(mad24hisat, uint32_t, uint32_t, uint32_t, clamp32((S24(a) * S24(b) >> 16) + (int32_t)c))
BINARY(minrelu, uint32_t, int32_t, uint32_t, MAX(MIN(a, b), 0))
BINARY(maxrelu, uint32_t, int32_t, uint32_t, MAX(MAX(a, b), 0))
TERNARY(mad24_u, uint32_t, uint32_t, uint32_t, U24(a) * U24(b) + c)
TERNARY(mad24_s, uint32_t, uint32_t, uint32_t, S24(a) * S24(b) + c)

/* shifts: the amount is 32 bits wide and clamped */
#define SHIFT(name, C, T, R, E)                                                                              \
  VECTORISED static Step name(Warp *w, const Inst *in, uint32_t mask)                                        \
  {                                                                                                          \
    const C *pa = operand(w, in->a[0]);                                                                      \
    const uint32_t *pb = operand(w, in->a[1]);                                                               \
    C *pd = operand(w, in->d[0]);                                                                            \
    EACH_LANE(T a = (T)pa[l]; uint32_t b = pb[l]; pd[l] = (C)(R)(E));                                        \
    return STEP_NEXT;                                                                                        \
  }
INTEGERS(shl, SHIFT, b >= sizeof(a) * 8 ? 0 : (uint64_t)a << b)
INTEGERS(shr, SHIFT, b >= sizeof(a) * 8 ? (a < 0 ? -1 : 0) : a >> b)

static const Handler grid[OP_COUNT][K_COUNT] = {GRID(add), GRID(sub),   GRID(mul),   GRID(mad),  GRID(min),
                                                GRID(max), GRID(div),   GRID(rem),   GRID(abs),  GRID(neg),
                                                GRID(and), GRID(or),    GRID(xor),   GRID(not ), GRID(cnot),
                                                GRID(sad), GRID(mulhi), GRID(madhi), GRID(shl),  GRID(shr)};

static int kind_of(PtxType type)
{
  switch (type) {
  case TYPE_U16:
  case TYPE_B16: return K_U16;
  case TYPE_S16: return K_S16;
  case TYPE_U32:
  case TYPE_B32: return K_U32;
  case TYPE_S32: return K_S32;
  case TYPE_U64:
  case TYPE_B64: return K_U64;
  case TYPE_S64: return K_S64;
  default: return -1;
  }
}

static void operands(Decoder *d, PtxType result, PtxType type, unsigned n)
{
  d->in->d[0] = destination_at(d, 0, result);
  for (unsigned i = 0; i < n; i++)
    d->in->a[i] = source_at(d, i + 1, type);
}

/* two 16-bit integers in one register */
static Step run_pair16(Warp *w, const Inst *in, uint32_t mask)
{
  for_lanes(l, mask)
  {
    uint32_t a = lane_u32(w, in->a[0], l), b = lane_u32(w, in->a[1], l), r = 0;
    for (unsigned h = 0; h < 32; h += 16) {
      int32_t x = in->type == TYPE_S16X2 ? (int16_t)(a >> h) : (uint16_t)(a >> h);
      int32_t y = in->type == TYPE_S16X2 ? (int16_t)(b >> h) : (uint16_t)(b >> h);
      int32_t v = in->operation == OP_ADD ? x + y : (x < y) == (in->operation == OP_MIN) ? x : y;
      if (in->saturate && v < 0) v = 0; /* .relu */
      r |= (uint32_t)(uint16_t)v << h;
    }
    ((uint32_t *)operand(w, in->d[0]))[l] = r;
  }
  return STEP_NEXT;
}

static void decode_multiply(Decoder *d, PtxType type, bool has_addend)
{
  Inst *in = d->in;
  int k = kind_of(type);
  if (take(d, "wide")) {
    static const Handler wide[2][4] = {{mulwide_u16, mulwide_s16, mulwide_u32, mulwide_s32},
                                       {madwide_u16, madwide_s16, madwide_u32, madwide_s32}};
    if (k > K_S32) {
      decode_wrong(d, "64-bit widening products do not exist");
      return;
    }
    PtxType result = k < K_U32 ? TYPE_U32 : TYPE_U64;
    operands(d, result, type, 2);
    if (has_addend) in->a[2] = source_at(d, 3, result);
    in->run = wide[has_addend][k];
    return;
  }
  bool high = take(d, "hi");
  take(d, "lo");
  operands(d, type, type, has_addend ? 3 : 2);
  in->run = grid[has_addend ? (high ? OP_MADHI : OP_MAD) : (high ? OP_MULHI : OP_MUL)][k];
  if (high && has_addend && take(d, "sat")) in->run = madhisat;
}

/* Arithmetic whose type decides between integers and floats: add, sub, mul, min, ... argument: INT_* */
bool decode_integer(Decoder *d, int operation, PtxType type)
{
  Inst *in = d->in;
  if (type == TYPE_U16X2 || type == TYPE_S16X2) {
    in->operation = (uint8_t)operation;
    in->type = (uint8_t)type;
    in->saturate = take(d, "relu");
    operands(d, type, type, 2);
    if (operation == OP_ADD || operation == OP_MIN || operation == OP_MAX) in->run = run_pair16;
    return true;
  }
  int k = kind_of(type);
  if (k < 0) return false;
  switch (operation) {
  case OP_MUL: decode_multiply(d, type, false); return true;
  case OP_MAD: decode_multiply(d, type, true); return true;
  case OP_SHL:
  case OP_SHR:
    in->d[0] = destination_at(d, 0, type);
    in->a[0] = source_at(d, 1, type);
    in->a[1] = source_at(d, 2, TYPE_U32);
    break;
  case OP_ABS:
  case OP_NEG:
  case OP_NOT:
  case OP_CNOT: operands(d, type, type, 1); break;
  case OP_SAD: operands(d, type, type, 3); break;
  default: operands(d, type, type, 2); break;
  }
  in->run = grid[operation][k];
  if (k == K_S32 && operation == OP_ADD && take(d, "sat")) in->run = addsat;
  if (k == K_S32 && operation == OP_MIN && take(d, "relu")) in->run = minrelu;
  if (k == K_S32 && operation == OP_MAX && take(d, "relu")) in->run = maxrelu;
  if (k == K_S32 && operation == OP_SUB && take(d, "sat")) in->run = subsat;
  return true;
}

static Step run_logic_predicate(Warp *w, const Inst *in, uint32_t mask)
{
  uint32_t a = predicate(w, in->a[0]), b = in->a[1] == OPERAND_NONE ? 0 : predicate(w, in->a[1]);
  uint32_t r = in->operation == OP_AND   ? a & b
               : in->operation == OP_OR  ? a | b
               : in->operation == OP_XOR ? a ^ b
                                         : ~a;
  if (w->undefined) {
    /* an operand that decides alone makes the other's value irrelevant */
    uint32_t ua = undefined_lanes(w, in->a[0]), ub = undefined_lanes(w, in->a[1]), u = ua | ub;
    if (in->operation == OP_AND) u = (ua & ub) | (ua & b) | (ub & a);
    if (in->operation == OP_OR) u = (ua & ub) | (ua & ~b) | (ub & ~a);
    set_undefined(w, in->d[0], mask, u);
  }
  set_predicate(w, in->d[0], mask, r);
  return STEP_NEXT;
}

void decode_logic(Decoder *d, int operation)
{
  PtxType type = need_type(d);
  if (type == TYPE_PRED) {
    operands(d, type, type, operation == OP_NOT ? 1 : 2);
    d->in->operation = (uint8_t)operation;
    d->in->flags |= INST_CUSTOM;
    d->in->run = run_logic_predicate;
  } else if (!decode_integer(d, operation, type)) {
    decode_fail(d, "type '%s'", ptx_type_name(type));
  }
}

void decode_mul24(Decoder *d, int has_addend)
{
  bool high = take(d, "hi");
  take(d, "lo");
  PtxType type = need_type(d);
  bool s = type == TYPE_S32;
  operands(d, type, type, has_addend ? 3 : 2);
  if (!has_addend)
    d->in->run = high ? (s ? mul24hi_s : mul24hi_u) : (s ? mul24_s : mul24_u);
  else if (high)
    d->in->run = !s ? mad24hi_u : take(d, "sat") ? mad24hisat : mad24hi_s;
  else
    d->in->run = s ? mad24_s : mad24_u;
}

/* --- carries: one flag per lane, kept in slot 1 --- */

static Step run_carry(Warp *w, const Inst *in, uint32_t mask)
{
  uint32_t *carry = operand(w, 1);
  for_lanes(l, mask)
  {
    bool is64 = in->bytes == 8;
    uint64_t a = is64 ? lane_u64(w, in->a[0], l) : lane_u32(w, in->a[0], l);
    uint64_t b = is64 ? lane_u64(w, in->a[1], l) : lane_u32(w, in->a[1], l);
    uint64_t c = in->a[2] == OPERAND_NONE ? 0 : is64 ? lane_u64(w, in->a[2], l) : lane_u32(w, in->a[2], l);
    unsigned in_bit = in->wide ? *carry >> l & 1 : 0;
    if (in->a[2] != OPERAND_NONE) { /* mad: product part, then the addend */
      bool s = in->type == TYPE_S32 || in->type == TYPE_S64;
      unsigned __int128 p = s ? (unsigned __int128)((__int128)(is64 ? (int64_t)a : (int32_t)a) *
                                                    (is64 ? (int64_t)b : (int32_t)b))
                              : (unsigned __int128)a * b;
      a = (uint64_t)(in->negate ? p >> (in->bytes * 8) : p);
      if (!is64) a = (uint32_t)a;
      b = c;
    }
    if (in->operation == OP_SUB) {
      b = is64 ? ~b : (uint32_t)~b;
      if (!in->wide) in_bit = 1; /* the flag is the carry of a + ~b + 1: no borrow sets it, as on hardware */
    }
    unsigned __int128 sum = (unsigned __int128)a + b + in_bit;
    unsigned out = (unsigned)(sum >> (in->bytes * 8)) & 1;
    if (is64)
      ((uint64_t *)operand(w, in->d[0]))[l] = (uint64_t)sum;
    else
      ((uint32_t *)operand(w, in->d[0]))[l] = (uint32_t)sum;
    if (in->saturate) *carry = (*carry & ~(1u << l)) | out << l;
  }
  return STEP_NEXT;
}

bool decode_carry(Decoder *d, int operation, PtxType type, bool carry_in, bool carry_out)
{
  Inst *in = d->in;
  in->operation = operation == OP_SUB ? OP_SUB : OP_ADD;
  in->type = (uint8_t)type;
  in->bytes = (uint8_t)ptx_type_bytes(type);
  in->wide = carry_in;
  in->saturate = carry_out;
  if (operation == OP_MAD) {
    in->negate = take(d, "hi");
    take(d, "lo");
  }
  operands(d, type, type, operation == OP_MAD ? 3 : 2);
  in->run = run_carry;
  return true;
}

void decode_with_carry(Decoder *d, int operation)
{
  bool out = take(d, "cc");
  decode_carry(d, operation, need_type(d), true, out);
}

/* --- bits --- */

#define BITS(name, T, C, E)                                                                                  \
  VECTORISED static Step name(Warp *w, const Inst *in, uint32_t mask)                                        \
  {                                                                                                          \
    const C *pa = operand(w, in->a[0]);                                                                      \
    uint32_t *pd = operand(w, in->d[0]);                                                                     \
    EACH_LANE(T a = (T)pa[l]; pd[l] = (uint32_t)(E));                                                        \
    return STEP_NEXT;                                                                                        \
  }
BITS(popc32, uint32_t, uint32_t, __builtin_popcount(a))
BITS(popc64, uint64_t, uint64_t, __builtin_popcountll(a))
BITS(clz32, uint32_t, uint32_t, a ? __builtin_clz(a) : 32)
BITS(clz64, uint64_t, uint64_t, a ? __builtin_clzll(a) : 64)
BITS(shift_s32, int32_t, uint32_t, (a < 0 ? ~a : a) ? __builtin_clz((uint32_t)(a < 0 ? ~a : a)) : -1)
BITS(shift_s64, int64_t, uint64_t, (a < 0 ? ~a : a) ? __builtin_clzll((uint64_t)(a < 0 ? ~a : a)) : -1)
BITS(shift32, uint32_t, uint32_t, a ? __builtin_clz(a) : -1)
BITS(shift64, uint64_t, uint64_t, a ? __builtin_clzll(a) : -1)
BITS(bfind_u32, uint32_t, uint32_t, a ? 31 - __builtin_clz(a) : -1)
BITS(bfind_u64, uint64_t, uint64_t, a ? 63 - __builtin_clzll(a) : -1)
BITS(bfind_s32, int32_t, uint32_t, (a < 0 ? ~a : a) ? 31 - __builtin_clz((uint32_t)(a < 0 ? ~a : a)) : -1)
BITS(bfind_s64, int64_t, uint64_t, (a < 0 ? ~a : a) ? 63 - __builtin_clzll((uint64_t)(a < 0 ? ~a : a)) : -1)

static inline uint64_t reverse(uint64_t x, unsigned bits)
{
  uint64_t r = 0;
  for (unsigned i = 0; i < bits; i++)
    r |= (x >> i & 1) << (bits - 1 - i);
  return r;
}
UNARY(brev32, uint32_t, uint32_t, uint32_t, reverse(a, 32))
UNARY(brev64, uint64_t, uint64_t, uint64_t, reverse(a, 64))

void decode_bits(Decoder *d, int operation)
{
  bool shift = operation == BIT_BFIND && take(d, "shiftamt");
  PtxType type = need_type(d);
  bool is64 = ptx_type_bytes(type) == 8;
  operands(d, operation == BIT_BREV ? type : TYPE_U32, type, 1);
  bool s = type == TYPE_S32 || type == TYPE_S64;
  switch (operation) {
  case BIT_POPC: d->in->run = is64 ? popc64 : popc32; break;
  case BIT_CLZ: d->in->run = is64 ? clz64 : clz32; break;
  case BIT_BREV: d->in->run = is64 ? brev64 : brev32; break;
  default: d->in->run = s ? (is64 ? bfind_s64 : bfind_s32) : (is64 ? bfind_u64 : bfind_u32); break;
  }
  if (!shift) return;
  d->in->run = s      ? (is64 ? shift_s64 : shift_s32)
               : is64 ? shift64
                      : shift32; /* distance of the highest one from the top: no bit gives 32, as all ones */
}

static uint64_t extract(uint64_t a, uint32_t position, uint32_t length, unsigned bits, bool is_signed)
{
  if (bits == 32) { /* the 64-bit form looks at all bits of position and length */
    position &= 255;
    length &= 255;
  }
  position = MIN(position, 1u << 16);
  length = MIN(length, 1u << 16);
  uint64_t top = position + length - 1 > bits - 1 ? bits - 1 : position + length - 1;
  uint64_t sign = is_signed && length ? a >> top & 1 : 0, r = 0;
  for (unsigned i = 0; i < bits; i++)
    r |= (i < length && position + i < bits ? a >> (position + i) & 1 : sign) << i;
  return r;
}

static uint64_t insert(uint64_t a, uint64_t b, uint32_t position, uint32_t length, unsigned bits)
{
  if (bits == 32) {
    position &= 255;
    length &= 255;
  }
  position = MIN(position, 1u << 16);
  length = MIN(length, 1u << 16);
  for (unsigned i = 0; i < length && position + i < bits; i++)
    b = (b & ~(1ull << (position + i))) | (a >> i & 1) << (position + i);
  return b;
}

static uint32_t permute(uint32_t a, uint32_t b, uint32_t c, int mode)
{
  uint64_t both = (uint64_t)b << 32 | a;
  uint32_t r = 0;
  for (unsigned i = 0; i < 4; i++) {
    unsigned n = c & 3, s;
    switch (mode) {
    case 1: s = n + i; break;                 /* f4e */
    case 2: s = (8 + n - i) & 7; break;       /* b4e */
    case 3: s = n; break;                     /* rc8 */
    case 4: s = i > n ? i : n; break;         /* ecl */
    case 5: s = i < n ? i : n; break;         /* ecr */
    case 6: s = (n & 1) * 2 + (i & 1); break; /* rc16 */
    default: s = c >> (4 * i) & 15; break;
    }
    uint32_t byte = (uint32_t)(both >> ((s & 7) * 8)) & 0xff;
    if (mode == 0 && s & 8) byte = byte & 0x80 ? 0xff : 0;
    r |= byte << (8 * i);
  }
  return r;
}

static uint32_t funnel(uint32_t a, uint32_t b, uint32_t c, bool left, bool wrap)
{
  uint64_t both = (uint64_t)b << 32 | a;
  uint32_t n = wrap ? c & 31 : MIN(c, 32);
  return left ? (uint32_t)(both << n >> 32) : (uint32_t)(both >> n);
}

static uint32_t lookup3(uint32_t a, uint32_t b, uint32_t c, unsigned table)
{
  uint32_t r = 0;
  for (unsigned i = 0; i < 8; i++)
    if (table >> i & 1) r |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
  return r;
}

static uint32_t dot(const Inst *in, uint32_t a, uint32_t b, uint32_t c)
{
  bool sa = in->type == TYPE_S32, sb = in->type2 == TYPE_S32;
  for (unsigned i = 0; i < (in->operation == FIELD_DP4A ? 4u : 2u); i++) {
    unsigned byte = in->operation == FIELD_DP4A ? i : i + (in->negate ? 2 : 0);
    int32_t y = sb ? (int8_t)(b >> (8 * byte)) : (uint8_t)(b >> (8 * byte));
    int32_t x = in->operation == FIELD_DP4A ? (sa ? (int8_t)(a >> (8 * i)) : (uint8_t)(a >> (8 * i)))
                                            : (sa ? (int16_t)(a >> (16 * i)) : (uint16_t)(a >> (16 * i)));
    c += (uint32_t)(x * y);
  }
  return c;
}

VECTORISED static Step run_lop3(Warp *w, const Inst *in, uint32_t mask)
{
  const uint32_t *pa = operand(w, in->a[0]), *pb = operand(w, in->a[1]), *pc = operand(w, in->a[2]);
  uint32_t *pd = operand(w, in->d[0]);
  unsigned t = (unsigned)in->immediate;
  uint32_t k[8];
  for (unsigned i = 0; i < 8; i++)
    k[i] = t >> i & 1 ? FULL : 0;
  EACH_LANE(uint32_t a = pa[l]; uint32_t b = pb[l]; uint32_t c = pc[l];
            pd[l] = (k[0] & ~a & ~b & ~c) | (k[1] & ~a & ~b & c) | (k[2] & ~a & b & ~c) |
                    (k[3] & ~a & b & c) | (k[4] & a & ~b & ~c) | (k[5] & a & ~b & c) | (k[6] & a & b & ~c) |
                    (k[7] & a & b & c));
  return STEP_NEXT;
}

/* lop3.or and lop3.and: the word, and whether any of its bits is set, combined with a predicate */
static Step run_lop3_predicate(Warp *w, const Inst *in, uint32_t mask)
{
  uint32_t p = predicate(w, in->a[3]), q = 0;
  if (in->negate) p = ~p;
  for_lanes(l, mask)
  {
    uint32_t r = lookup3(lane_u32(w, in->a[0], l), lane_u32(w, in->a[1], l), lane_u32(w, in->a[2], l),
                         (unsigned)in->immediate);
    if (in->d[0]) ((uint32_t *)operand(w, in->d[0]))[l] = r;
    q |= (uint32_t)(r != 0) << l;
  }
  set_predicate(w, in->d[1], mask, in->operation == OP_OR ? q | p : q & p);
  return STEP_NEXT;
}

static void decode_lop3_predicate(Decoder *d, bool is_or)
{
  Inst *in = d->in;
  const PtxOperand *o = operand_at(d, 0);
  if (!take(d, "b32") || o->kind != OPERAND_PAIR) {
    decode_wrong(d, "the destination must be register|predicate");
    return;
  }
  in->operation = is_or ? OP_OR : OP_AND;
  in->d[0] = destination(d, &o->items[0], TYPE_B32);
  in->d[1] = destination(d, &o->items[1], TYPE_PRED);
  for (unsigned i = 0; i < 3; i++)
    in->a[i] = source_at(d, i + 1, TYPE_B32);
  in->immediate = immediate_at(d, 4) & 0xff;
  in->a[3] = source_at(d, 5, TYPE_PRED);
  in->negate = operand_at(d, 5)->negated;
  in->run = run_lop3_predicate;
}

static Step run_field(Warp *w, const Inst *in, uint32_t mask)
{
  bool is64 = in->bytes == 8;
  unsigned bits = in->bytes * 8u;
  bool s = in->type == TYPE_S32 || in->type == TYPE_S64;
  for_lanes(l, mask)
  {
    uint64_t a = is64 ? lane_u64(w, in->a[0], l) : lane_u32(w, in->a[0], l);
    uint64_t b = is64 && in->operation == FIELD_BFI ? lane_u64(w, in->a[1], l) : lane_u32(w, in->a[1], l);
    uint32_t c = in->a[2] == OPERAND_NONE ? 0 : lane_u32(w, in->a[2], l);
    uint32_t e = in->a[3] == OPERAND_NONE ? 0 : lane_u32(w, in->a[3], l);
    uint64_t r = 0;
    switch (in->operation) {
    case FIELD_BFE: r = extract(a, (uint32_t)b, c, bits, s); break;
    case FIELD_BFI: r = insert(a, b, c, e, bits); break;
    case FIELD_PRMT: r = permute((uint32_t)a, (uint32_t)b, c, (int)in->immediate); break;
    case FIELD_SHF: r = funnel((uint32_t)a, (uint32_t)b, c, in->negate, in->saturate); break;
    case FIELD_LOP3: r = lookup3((uint32_t)a, (uint32_t)b, c, (unsigned)in->immediate); break;
    case FIELD_BMSK: {
      uint32_t p = in->saturate ? (uint32_t)a & 31 : MIN((uint32_t)a, 32);
      uint32_t n = in->saturate ? (uint32_t)b & 31 : MIN((uint32_t)b, 32);
      r = (uint32_t)(((1ull << n) - 1) << p);
      break;
    }
    case FIELD_SZEXT: {
      uint32_t n = in->saturate ? (uint32_t)b & 31 : MIN((uint32_t)b, 32);
      r = n == 0    ? 0
          : n >= 32 ? a
          : s       ? (uint64_t)(int64_t)((int32_t)((uint32_t)a << (32 - n)) >> (32 - n))
                    : a & ((1ull << n) - 1);
      break;
    }
    case FIELD_FNS: {
      int32_t offset = (int32_t)c, at = (int32_t)b;
      r = FULL;
      if (offset == 0) {
        if (at < 32 && (uint32_t)a >> at & 1) r = (uint32_t)at;
      } else {
        int step = offset > 0 ? 1 : -1;
        int64_t left = offset > 0 ? offset : -(int64_t)offset;
        for (int p = at; p >= 0 && p < 32; p += step)
          if ((uint32_t)a >> p & 1 && --left == 0) {
            r = (uint32_t)p;
            break;
          }
      }
      break;
    }
    default: r = dot(in, (uint32_t)a, (uint32_t)b, c); break;
    }
    if (is64)
      ((uint64_t *)operand(w, in->d[0]))[l] = r;
    else
      ((uint32_t *)operand(w, in->d[0]))[l] = (uint32_t)r;
  }
  return STEP_NEXT;
}

void decode_field(Decoder *d, int operation)
{
  static const char *const modes[] = {"none", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16", NULL};
  Inst *in = d->in;
  int mode = 0;
  bool is_or = operation == FIELD_LOP3 && take(d, "or");
  if (is_or || (operation == FIELD_LOP3 && take(d, "and"))) {
    decode_lop3_predicate(d, is_or);
    return;
  }
  if (operation == FIELD_LOP3 && operand_count(d) != 5) decode_wrong(d, "%u operands", operand_count(d));
  if (operation == FIELD_PRMT) {
    PtxType type = need_type(d);
    in->bytes = (uint8_t)ptx_type_bytes(type);
    take_one(d, modes, &mode);
    in->immediate = mode;
  } else {
    in->negate = take(d, "l") || (operation == FIELD_DP2A && take(d, "hi"));
    take(d, "r");
    take(d, "lo");
    in->saturate = take(d, "wrap");
    take(d, "clamp");
    in->type = (uint8_t)need_type(d);
    in->bytes = (uint8_t)ptx_type_bytes((PtxType)in->type);
  }
  in->operation = (uint8_t)operation;
  in->run = run_field;
  PtxType type = in->bytes == 8 ? TYPE_U64 : TYPE_U32;
  in->d[0] = destination_at(d, 0, type);
  in->a[0] = source_at(d, 1, type);
  in->a[1] = source_at(d, 2, operation == FIELD_BFI ? type : TYPE_U32);
  if (operation == FIELD_DP4A || operation == FIELD_DP2A) {
    PtxType second = take_type(d);
    in->type2 = (uint8_t)(second == TYPE_NONE ? in->type : second);
  }
  if (operand_count(d) >= 4) in->a[2] = source_at(d, 3, TYPE_U32);
  if (operation == FIELD_BFI) in->a[3] = source_at(d, 4, TYPE_U32);
  if (operation == FIELD_LOP3) {
    in->immediate = immediate_at(d, 4) & 0xff;
    in->run = run_lop3;
  }
}
