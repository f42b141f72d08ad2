/* cvt: between all widths and formats, with PTX's rounding, saturation and NaN rules. */
#include "simulator/check.h"
#include "simulator/exec.h"
#include "simulator/lanes.h"
#include <math.h>
#include <string.h>

typedef enum { CLASS_UNSIGNED, CLASS_SIGNED, CLASS_FLOAT } NumberKind;

static NumberKind class_of(PtxType type)
{
  switch (type) {
  case TYPE_S8:
  case TYPE_S16:
  case TYPE_S32:
  case TYPE_S64: return CLASS_SIGNED;
  case TYPE_F16:
  case TYPE_BF16:
  case TYPE_F32:
  case TYPE_TF32:
  case TYPE_F64: return CLASS_FLOAT;
  default: return CLASS_UNSIGNED;
  }
}

static double float_value(PtxType type, uint64_t bits)
{
  switch (type) {
  case TYPE_F16: return half_float((uint16_t)bits);
  case TYPE_BF16: return bfloat_float((uint16_t)bits);
  case TYPE_F64: return bits_double(bits);
  default: return bits_float((uint32_t)bits);
  }
}

static double round_integral(double x, Rounding r)
{
  switch (r) {
  case ROUND_ZERO: return trunc(x);
  case ROUND_DOWN: return floor(x);
  case ROUND_UP: return ceil(x);
  default: return nearbyint(x);
  }
}

static uint64_t to_integer(double x, PtxType type, Rounding rounding)
{
  unsigned bits = ptx_type_bytes(type) * 8;
  x = round_integral(x, rounding);
  if (class_of(type) == CLASS_SIGNED) {
    double top = ldexp(1, (int)bits - 1);
    if (x >= top) return (1ull << (bits - 1)) - 1;
    if (x < -top) return 0 - (1ull << (bits - 1));
    return (uint64_t)(int64_t)x;
  }
  if (x <= 0) return 0;
  if (x >= ldexp(1, (int)bits)) return bits == 64 ? ~0ull : (1ull << bits) - 1;
  return (uint64_t)x;
}

static uint64_t integer_to_integer(int64_t v, bool source_signed, PtxType type, bool saturate)
{
  unsigned bits = ptx_type_bytes(type) * 8;
  bool to_signed = class_of(type) == CLASS_SIGNED;
  if (saturate) {
    int64_t low = to_signed ? (int64_t)(0 - (1ull << (bits - 1))) : 0;
    uint64_t high = to_signed ? (1ull << (bits - 1)) - 1 : bits == 64 ? ~0ull : (1ull << bits) - 1;
    if (source_signed && v < low) return (uint64_t)low;
    if (!(source_signed && v < 0) && (uint64_t)v > high) return high;
  }
  uint64_t u = (uint64_t)v;
  if (bits == 64) return u;
  u &= (1ull << bits) - 1;
  if (to_signed && u >> (bits - 1)) u |= ~0ull << bits;
  return u;
}

/* Integer of up to 64 bits to f32 with one rounding, through a double that keeps what is lost as a sticky
 * bit. */
static double integer_value(int64_t v, bool is_signed)
{
  uint64_t m = is_signed && v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
  if (m >> 53) {
    bool sticky = m & 0x7ff;
    m = (m & ~0x7ffull) | (sticky ? 0x800 : 0);
    if (sticky && (m & 0x800) == 0) m |= 0x800;
  }
  double x = (double)m;
  return is_signed && v < 0 ? -x : x;
}

/* long double holds every 64-bit integer */
static double exact_to_double(long double x, Rounding rounding)
{
  double d = (double)x;
  if ((long double)d == x) return d;
  bool above = (long double)d > x;
  if (rounding == ROUND_ZERO) rounding = x > 0 ? ROUND_DOWN : ROUND_UP;
  if (rounding == ROUND_DOWN && above) return nextafter(d, -INFINITY);
  if (rounding == ROUND_UP && !above) return nextafter(d, INFINITY);
  return d;
}

static uint64_t float_result(const Inst *in, double x, PtxType type, Rounding rounding)
{
  if (in->saturate) x = !(x > 0) ? 0 : x > 1 ? 1 : x;
  if (in->negate && x <= 0) x = 0; /* .relu: negative and -0 become 0, NaN stays */
  switch (type) {
  case TYPE_F64: return double_bits(x);
  case TYPE_F32: {
    float f = double_to_float(x, rounding);
    if (in->ftz) f = flush(f);
    return isnan(f) ? 0x7fffffff : float_bits(f);
  }
  case TYPE_TF32:
    return isnan(x) ? 0x7fffffff : narrow_from_double(&format_tf32, x, rounding, in->more) << 13;
  case TYPE_F16: return narrow_from_double(&format_f16, x, rounding, in->more);
  case TYPE_BF16: return narrow_from_double(&format_bf16, x, rounding, in->more);
  default: return 0;
  }
}

/* From f64 a NaN keeps its sign and the upper bits of its payload; otherwise it becomes the canonical one. */
static uint64_t nan_result(const Inst *in, PtxType from, PtxType to, uint64_t bits)
{
  static const double nan = NAN;
  if (in->saturate) return float_result(in, nan, to, ROUND_NEAREST);
  if (from == TYPE_F64 && to == TYPE_F32)
    return (uint32_t)(bits >> 63) << 31 | 0x7fc00000 | (uint32_t)(bits >> 29 & 0x3fffff);
  if (from == to && ptx_type_bytes(to) >= 4 && !in->operation && !in->ftz) return bits;
  if (from == TYPE_BF16 && to == TYPE_F32 && !in->ftz) return bits << 16;
  if (from == TYPE_F64 && to == TYPE_BF16)
    return (uint32_t)(bits >> 63) << 15 | 0x7fc0 | (uint32_t)(bits >> 45 & 0x3f);
  if (from == TYPE_BF16 && to == TYPE_F64)
    return (bits >> 15 & 1) << 63 | 0x7ff8000000000000ull | (bits & 0x7f) << 45;
  if (from == TYPE_F64 && to == TYPE_F16)
    return (uint32_t)(bits >> 63) << 15 | 0x7e00 | (uint32_t)(bits >> 42 & 0x1ff);
  if (to == TYPE_F64) {
    if (from == TYPE_F64) return bits | 1ull << 51;
    if (from == TYPE_F16) return (bits >> 15) << 63 | 0x7ff8000000000000ull | (bits & 0x3ff) << 42;
    if (in->ftz || from != TYPE_F32) return 0x7fffffffe0000000ull;
    return (bits >> 31) << 63 | 0x7ff8000000000000ull | (bits & 0x7fffff) << 29;
  }
  if (to == TYPE_TF32) return in->rounding == ROUND_AWAY ? bits & 0xffffe000 : 0x7fffe000;
  return float_result(in, nan, to, ROUND_NEAREST);
}

static uint64_t convert_lane(const Inst *in, uint64_t bits)
{
  PtxType from = (PtxType)in->type, to = (PtxType)in->type2;
  NumberKind a = class_of(from), b = class_of(to);
  Rounding rounding = (Rounding)in->rounding;
  if (a == CLASS_FLOAT) {
    double x = float_value(from, bits);
    if (in->ftz && from == TYPE_F32 && to != TYPE_F16) x = flush((float)x);
    bool wide = from == TYPE_F64 || ptx_type_bytes(to) == 8;
    if (b != CLASS_FLOAT && isnan(x)) {
      uint64_t top = 1ull << (ptx_type_bytes(to) * 8 - 1);
      return !wide ? 0 : b == CLASS_SIGNED ? 0 - top : top;
    }
    if (b != CLASS_FLOAT) return to_integer(x, to, rounding);
    if (isnan(x)) return nan_result(in, from, to, bits);
    if (in->operation && !isnan(x)) x = round_integral(x, rounding); /* .rni and the like between floats */
    return float_result(in, x, to, in->operation ? ROUND_NEAREST : rounding);
  }
  unsigned width = ptx_type_bytes(from) * 8;
  int64_t v = (int64_t)bits;
  if (width < 64)
    v = a == CLASS_SIGNED ? (int64_t)(bits << (64 - width)) >> (64 - width)
                          : (int64_t)(bits & ((1ull << width) - 1));
  if (b != CLASS_FLOAT) return integer_to_integer(v, a == CLASS_SIGNED, to, in->saturate);
  if (to == TYPE_F64 && in->saturate) return double_bits(v <= 0 && a == CLASS_SIGNED ? 0 : v ? 1 : 0);
  if (to == TYPE_F64) {
    if (rounding == ROUND_NEAREST) return double_bits(a == CLASS_SIGNED ? (double)v : (double)(uint64_t)v);
    return double_bits(
        exact_to_double(a == CLASS_SIGNED ? (long double)v : (long double)(uint64_t)v, rounding));
  }
  return float_result(in, integer_value(v, a == CLASS_SIGNED), to, rounding);
}

static Step run_convert(Warp *w, const Inst *in, uint32_t mask)
{
  bool wide_in = in->bytes == 8, wide_out = in->vector == 8;
  uint32_t keep = in->vector == 2 ? 0xffff : FULL;
  for_lanes(l, mask)
  {
    uint64_t bits = wide_in ? lane_u64(w, in->a[0], l) : lane_u32(w, in->a[0], l);
    uint64_t r = convert_lane(in, bits);
    if (wide_out)
      ((uint64_t *)operand(w, in->d[0]))[l] = r;
    else
      ((uint32_t *)operand(w, in->d[0]))[l] = (uint32_t)r & keep;
  }
  return STEP_NEXT;
}

#define QUICK(name, CA, CD, E)                                                                               \
  VECTORISED static Step name(Warp *w, const Inst *in, uint32_t mask)                                        \
  {                                                                                                          \
    const CA *pa = operand(w, in->a[0]);                                                                     \
    CD *pd = operand(w, in->d[0]);                                                                           \
    EACH_LANE(CA a = pa[l]; pd[l] = (CD)(E));                                                                \
    return STEP_NEXT;                                                                                        \
  }
QUICK(half_from_float, float, uint32_t, float_half(a))
QUICK(bfloat_from_float, float, uint32_t, float_bfloat(a))
QUICK(float_from_half, uint32_t, uint32_t,
      (a & 0x7fff) > 0x7c00 ? 0x7fffffff : float_bits(half_float((uint16_t)a)))
QUICK(float_from_bfloat, uint32_t, float, bfloat_float((uint16_t)a))
QUICK(float_from_s32, int32_t, float, a)
QUICK(float_from_u32, uint32_t, float, a)

#define WIDEN(name, CA, CD, E)                                                                               \
  VECTORISED static Step name(Warp *w, const Inst *in, uint32_t mask)                                        \
  {                                                                                                          \
    CA pa[LANES];                                                                                            \
    memcpy(pa, operand(w, in->a[0]), sizeof pa);                                                             \
    CD *pd = operand(w, in->d[0]);                                                                           \
    EACH_LANE(CA a = pa[l]; pd[l] = (CD)(E));                                                                \
    return STEP_NEXT;                                                                                        \
  }
WIDEN(u64_from_u32, uint32_t, uint64_t, a)
WIDEN(s64_from_s32, int32_t, int64_t, a)
WIDEN(u32_from_u64, uint64_t, uint32_t, a)

static Handler quick_convert(PtxType to, PtxType from)
{
  static const struct {
    PtxType to, from;
    Handler run;
  } table[] = {{TYPE_F16, TYPE_F32, half_from_float}, {TYPE_BF16, TYPE_F32, bfloat_from_float},
               {TYPE_F32, TYPE_F16, float_from_half}, {TYPE_F32, TYPE_BF16, float_from_bfloat},
               {TYPE_F32, TYPE_S32, float_from_s32},  {TYPE_F32, TYPE_U32, float_from_u32},
               {TYPE_U64, TYPE_U32, u64_from_u32},    {TYPE_S64, TYPE_S32, s64_from_s32},
               {TYPE_U32, TYPE_U64, u32_from_u64},    {TYPE_S32, TYPE_S64, u32_from_u64},
               {TYPE_U32, TYPE_S64, u32_from_u64},    {TYPE_S32, TYPE_U64, u32_from_u64}};
  for (unsigned i = 0; i < G_N_ELEMENTS(table); i++)
    if (table[i].to == to && table[i].from == from) return table[i].run;
  return NULL;
}

/* --- packed conversions --- */

static uint32_t narrow8(PtxType to, double x, bool relu)
{
  if (relu && x <= 0) x = 0;
  return narrow_from_double(to == TYPE_E4M3X2 ? &format_e4m3 : &format_e5m2, x, ROUND_NEAREST, true);
}

static uint32_t pack_lane(const Inst *in, uint32_t a, uint32_t b)
{
  PtxType from = (PtxType)in->type, to = (PtxType)in->type2;
  double high, low;
  if (from == TYPE_F32) {
    high = bits_float(a);
    low = bits_float(b);
  } else if (from == TYPE_F16X2) {
    high = half_float((uint16_t)(a >> 16));
    low = half_float((uint16_t)a);
  } else if (from == TYPE_BF16X2) {
    high = bfloat_float((uint16_t)(a >> 16));
    low = bfloat_float((uint16_t)a);
  } else {
    const float *table = from == TYPE_E4M3X2 ? e4m3_table : e5m2_table;
    high = table[a >> 8 & 255];
    low = table[a & 255];
  }
  if (to == TYPE_E4M3X2 || to == TYPE_E5M2X2)
    return narrow8(to, high, in->negate) << 8 | narrow8(to, low, in->negate);
  PtxType half = to == TYPE_F16X2 ? TYPE_F16 : TYPE_BF16;
  Rounding r = (Rounding)in->rounding;
  return (uint32_t)float_result(in, high, half, r) << 16 | (uint32_t)float_result(in, low, half, r);
}

static void pack_undefined(Warp *w, const Inst *in, uint32_t mask)
{
  if (!w->undefined) return;
  uint32_t u = undefined_lanes(w, in->a[0]) | undefined_lanes(w, in->a[1]);
  set_undefined(w, in->d[0], mask, u);
  if (!(u & mask) || in->a[1] == OPERAND_NONE) return;
  bool bytes = in->type2 == TYPE_E4M3X2 || in->type2 == TYPE_E5M2X2;
  const PackedPart parts[] = {{in->a[1], 4}, {in->a[0], 4}};
  pack_unknown(w, in, mask, parts, 2, bytes ? 1 : 2);
}

static Step run_pack_convert(Warp *w, const Inst *in, uint32_t mask)
{
  pack_undefined(w, in, mask);
  for_lanes(l, mask)
  {
    uint32_t a = lane_u32(w, in->a[0], l), b = in->a[1] == OPERAND_NONE ? 0 : lane_u32(w, in->a[1], l);
    ((uint32_t *)operand(w, in->d[0]))[l] = pack_lane(in, a, b);
  }
  return STEP_NEXT;
}

#define PACK2(name, F)                                                                                       \
  VECTORISED static Step name(Warp *w, const Inst *in, uint32_t mask)                                        \
  {                                                                                                          \
    const float *pa = operand(w, in->a[0]), *pb = operand(w, in->a[1]);                                      \
    uint32_t *pd = operand(w, in->d[0]);                                                                     \
    pack_undefined(w, in, mask);                                                                             \
    EACH_LANE(pd[l] = (uint32_t)F(pa[l]) << 16 | F(pb[l]));                                                  \
    return STEP_NEXT;                                                                                        \
  }
PACK2(pack_half, float_half)
PACK2(pack_bfloat, float_bfloat)

static bool is_packed(PtxType type)
{
  return type == TYPE_F16X2 || type == TYPE_BF16X2 || type == TYPE_E4M3X2 || type == TYPE_E5M2X2;
}

static void decode_packed(Decoder *d, PtxType to, PtxType from)
{
  Inst *in = d->in;
  bool narrow = to == TYPE_E4M3X2 || to == TYPE_E5M2X2;
  if (narrow && !in->more) decode_wrong(d, ".satfinite is missing");
  if (from != TYPE_F32 && !is_packed(from)) decode_fail(d, "from '%s'", ptx_type_name(from));
  in->d[0] = destination_at(d, 0, narrow ? TYPE_B16 : TYPE_B32);
  in->a[0] = source_at(d, 1, from == TYPE_E4M3X2 || from == TYPE_E5M2X2 ? TYPE_B16 : from);
  if (from == TYPE_F32) in->a[1] = source_at(d, 2, from);
  in->flags |= INST_CUSTOM;
  in->run = run_pack_convert;
  bool plain = in->rounding == ROUND_NEAREST && !in->saturate && !in->negate && !in->more && from == TYPE_F32;
  if (plain && to == TYPE_F16X2) in->run = pack_half;
  if (plain && to == TYPE_BF16X2) in->run = pack_bfloat;
}

void decode_convert(Decoder *d, int argument)
{
  static const char *const integral[] = {"rni", "rzi", "rmi", "rpi", NULL};
  Inst *in = d->in;
  int which = 0;
  in->operation = take_one(d, integral, &which);
  in->rounding = in->operation ? (uint8_t)which : (uint8_t)take_rounding(d, ROUND_NEAREST);
  in->ftz = take(d, "ftz");
  in->saturate = take(d, "sat");
  in->more = take(d, "satfinite");
  in->negate = take(d, "relu");
  PtxType to = need_type(d), from = need_type(d);
  in->type = (uint8_t)from;
  in->type2 = (uint8_t)to;
  if (is_packed(to) || is_packed(from)) {
    decode_packed(d, to, from);
    return;
  }
  unsigned out, bytes;
  in->d[0] = destination_wide(d, operand_at(d, 0), to, &out);
  in->a[0] = source_wide(d, operand_at(d, 1), from, &bytes);
  if (out < ptx_type_bytes(to) || bytes < ptx_type_bytes(from)) decode_wrong(d, "a register is too narrow");
  in->vector = (uint8_t)out;
  in->bytes = (uint8_t)bytes;
  in->run = run_convert;
  bool plain = !in->operation && !in->ftz && !in->saturate && !in->more && !in->negate &&
               in->rounding == ROUND_NEAREST;
  bool exact_width =
      MAX(out, 4) == MAX(ptx_type_bytes(to), 4) && MAX(bytes, 4) == MAX(ptx_type_bytes(from), 4);
  Handler quick = plain && exact_width ? quick_convert(to, from) : NULL;
  if (quick) in->run = quick;
}

/* cvt.pack.sat.u8.s32.b32 d, a, b, c: two saturated values, the rest from c */
static Step run_convert_pack(Warp *w, const Inst *in, uint32_t mask)
{
  unsigned bits = in->type2 == TYPE_U16 || in->type2 == TYPE_S16 ? 16 : 8;
  if (in->bytes) bits = in->bytes;
  for_lanes(l, mask)
  {
    int64_t a = (int32_t)lane_u32(w, in->a[0], l), b = (int32_t)lane_u32(w, in->a[1], l);
    if (in->type == TYPE_U32) {
      a = (uint32_t)a;
      b = (uint32_t)b;
    }
    uint32_t m = (1u << bits) - 1;
    bool is_signed = class_of((PtxType)in->type2) == CLASS_SIGNED;
    int64_t least = is_signed ? -(1 << (bits - 1)) : 0, most = (1 << (bits - is_signed)) - 1;
    uint32_t high = (uint32_t)CLAMP(a, least, most) & m, low = (uint32_t)CLAMP(b, least, most) & m;
    uint32_t rest = in->a[2] == OPERAND_NONE ? 0 : lane_u32(w, in->a[2], l);
    ((uint32_t *)operand(w, in->d[0]))[l] = (bits == 16 ? 0 : rest << (2 * bits)) | high << bits | low;
  }
  return STEP_NEXT;
}

void decode_convert_pack(Decoder *d, int argument)
{
  Inst *in = d->in;
  static const char *const narrow[] = {"u4", "s4", "u2", "s2", NULL};
  int which;
  take(d, "sat");
  if (take_one(d, narrow, &which)) {
    in->type2 = which & 1 ? TYPE_S8 : TYPE_U8;
    in->bytes = which < 2 ? 4 : 2; /* bits of a part */
  } else {
    in->type2 = (uint8_t)need_type(d);
  }
  in->type = (uint8_t)need_type(d);
  take(d, "b32");
  in->d[0] = destination_at(d, 0, TYPE_B32);
  in->a[0] = source_at(d, 1, TYPE_B32);
  in->a[1] = source_at(d, 2, TYPE_B32);
  if (operand_count(d) > 3) in->a[2] = source_at(d, 3, TYPE_B32);
  unsigned bytes = ptx_type_bytes((PtxType)in->type2);
  if (bytes > 2 || in->type2 == TYPE_S4 || in->type2 == TYPE_U4)
    decode_fail(d, "type '%s'", ptx_type_name((PtxType)in->type2));
  in->run = run_convert_pack;
}
