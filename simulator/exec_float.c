/* Floating-point arithmetic: f32, f64, f16, bf16 and packed halves. The common forms are vector loops;
 * roundings other than to nearest, saturation and flushing go through one careful function per lane. */
#include "simulator/exec.h"
#include "simulator/lanes.h"
#include <fenv.h>
#include <math.h>
#include <string.h>

enum {
  FLOAT_FMA = OP_COUNT,
  FLOAT_RCP,
  FLOAT_SQRT,
  FLOAT_RSQRT,
  FLOAT_EX2,
  FLOAT_LG2,
  FLOAT_SIN,
  FLOAT_COS,
  FLOAT_TANH
};

/* every NaN that arithmetic in f32 makes is 0x7fffffff */
static inline float canonical(float x)
{
  uint32_t u = float_bits(x);
  return bits_float((u & 0x7fffffff) > 0x7f800000 ? 0x7fffffff : u);
}

BINARY(add_f32, float, float, float, canonical(a + b))
BINARY(sub_f32, float, float, float, canonical(a - b))
BINARY(mul_f32, float, float, float, canonical(a *b))
TERNARY(fma_f32, float, float, float, canonical(__builtin_fmaf(a, b, c)))
/* of two NaNs the second is the result, made quiet */
#define TWO_NANS(a, b) (isnan(a) && isnan(b))
BINARY(add_f64, double, double, double, TWO_NANS(a, b) ? b + b : a + b)
BINARY(sub_f64, double, double, double, TWO_NANS(a, b) ? b + b : a - b)
BINARY(mul_f64, double, double, double, TWO_NANS(a, b) ? b + b : a *b)
TERNARY(fma_f64, double, double, double, __builtin_fma(a, b, c))
BINARY(div_f32, float, float, float, canonical(a / b))
BINARY(div_f64, double, double, double, a / b)
/* one NaN gives the other operand; -0 < +0 */
#define LESS(a, b) ((a) < (b) || ((a) == (b) && signbit(a) && !signbit(b)))
BINARY(min_f32, float, float, float, a != a ? canonical(b) : b != b ? a : LESS(a, b) ? a : b)
BINARY(max_f32, float, float, float, a != a ? canonical(b) : b != b ? a : LESS(a, b) ? b : a)
#define NAN32(a) (((a)&0x7fffffff) > 0x7f800000)
UNARY(neg_f32, uint32_t, uint32_t, uint32_t, NAN32(a) ? 0x7fffffff : a ^ 0x80000000u)
UNARY(abs_f32, uint32_t, uint32_t, uint32_t, NAN32(a) ? 0x7fffffff : a & 0x7fffffffu)
/* a NaN becomes a quiet one, with the sign it had */
#define NAN64(a)   (((a)&0x7fffffffffffffffull) > 0x7ff0000000000000ull)
#define QUIET64(a) ((a) | 0x0008000000000000ull)
UNARY(neg_f64, uint64_t, uint64_t, uint64_t, NAN64(a) ? QUIET64(a) : a ^ 0x8000000000000000ull)
UNARY(abs_f64, uint64_t, uint64_t, uint64_t, NAN64(a) ? QUIET64(a) : a & 0x7fffffffffffffffull)
/* sign operations on halves make a NaN canonical, too */
#define SIGN16(a, limit, E) (((a)&0x7fff) > (limit) ? 0x7fffu : (E))
#define SIGNS(name, limit)                                                                                   \
  UNARY(neg_##name, uint32_t, uint32_t, uint16_t, SIGN16(a, limit, (a ^ 0x8000u) & 0xffff))                  \
  UNARY(abs_##name, uint32_t, uint32_t, uint16_t, SIGN16(a, limit, a & 0x7fffu))                             \
  UNARY(neg_##name##2, uint32_t, uint32_t, uint32_t,                                                         \
        SIGN16(a & 0xffff, limit, (a ^ 0x8000u) & 0xffff) | SIGN16(a >> 16, limit, (a >> 16) ^ 0x8000u)      \
                                                                << 16)                                       \
  UNARY(abs_##name##2, uint32_t, uint32_t, uint32_t,                                                         \
        SIGN16(a & 0xffff, limit, a & 0x7fffu) | SIGN16(a >> 16, limit, a >> 16 & 0x7fffu) << 16)
SIGNS(half, 0x7c00)
SIGNS(bfloat, 0x7f80)
UNARY(ex2_f32, float, float, float, canonical((float)exp2((double)a)))
UNARY(rcp_f32, float, float, float, canonical(1.0f / a))
UNARY(sqrt_f32, float, float, float, canonical(__builtin_sqrtf(a)))

/* An inexact double becomes odd, so that a second rounding sees on which side the truth lies. */
static double make_odd(double value, double error)
{
  if (error == 0 || !isfinite(value) || double_bits(value) & 1) return value;
  return bits_double(double_bits(value) + ((error > 0) == (value > 0) ? 1 : (uint64_t)-1));
}

static float odd_to_float(double x)
{
  float f = (float)x;
  if ((double)f == x || isnan(x) || isinf(f)) return f;
  uint32_t u = float_bits(f);
  if (fabs((double)f) > fabs(x)) u--;
  return bits_float(u | 1);
}

static double function(int operation, double a)
{
  switch (operation) {
  case FLOAT_EX2: return exp2(a);
  case FLOAT_LG2: return log2(a);
  case FLOAT_SIN: return sin(a);
  case FLOAT_COS: return cos(a);
  case FLOAT_TANH: return tanh(a);
  case FLOAT_RSQRT: return 1 / sqrt(a);
  default: return NAN;
  }
}

/* the result, odd where it is inexact: exact information for the final rounding to at most 24 bits */
static double single_value(int operation, double a, double b, double c)
{
  double q;
  switch (operation) {
  case OP_ADD: return fma_to_odd(a, 1, b);
  case OP_SUB: return fma_to_odd(a, 1, -b);
  case OP_MUL: return a * b;
  case FLOAT_FMA: return fma_to_odd(a, b, c);
  case OP_DIV:
    q = a / b;
    return isfinite(q) && b != 0 && isfinite(b) ? make_odd(q, fma(-q, b, a) * (b > 0 ? 1 : -1)) : q;
  case FLOAT_RCP:
    q = 1 / a;
    return isfinite(q) && a != 0 && isfinite(a) ? make_odd(q, fma(-q, a, 1) * (a > 0 ? 1 : -1)) : q;
  case FLOAT_SQRT: q = sqrt(a); return isfinite(q) ? make_odd(q, fma(-q, q, a)) : q;
  case OP_MIN: return isnan(a) ? b : isnan(b) ? a : LESS(a, b) ? a : b;
  case OP_MAX: return isnan(a) ? b : isnan(b) ? a : LESS(a, b) ? b : a;
  case OP_NEG: return -a;
  case OP_ABS: return fabs(a);
  default: return function(operation, a);
  }
}

/* A sum that cancels exactly is -0 when rounding down. */
static double signed_zero(const Inst *in, double r, const float v[3])
{
  if (r != 0 || in->rounding != ROUND_DOWN) return r;
  double x = v[0], y = v[1];
  if (in->operation == FLOAT_FMA) {
    x = (double)v[0] * v[1];
    y = v[2];
  } else if (in->operation == OP_SUB) {
    y = -y;
  } else if (in->operation != OP_ADD) {
    return r;
  }
  return x == 0 && y == 0 && signbit(x) == signbit(y) ? x : -0.0;
}

/* rounding of Inst, ftz, saturate (0..1), negate: .relu, more bit 0: .NaN, bit 1: .xorsign.abs */
static Step run_single(Warp *w, const Inst *in, uint32_t mask)
{
  for_lanes(l, mask)
  {
    float v[3] = {0, 0, 0};
    for (unsigned i = 0; i < 3 && in->a[i] != OPERAND_NONE; i++) {
      v[i] = bits_float(lane_u32(w, in->a[i], l));
      if (in->ftz) v[i] = flush(v[i]);
    }
    double r;
    if (in->more & 1 && (isnan(v[0]) || isnan(v[1])))
      r = NAN;
    else if (in->more & 2)
      r = copysign(single_value(in->operation, fabsf(v[0]), fabsf(v[1]), 0),
                   !signbit(v[0]) != !signbit(v[1]) ? -1.0 : 1.0); /* a NaN's sign counts too */
    else
      r = signed_zero(in, single_value(in->operation, v[0], v[1], v[2]), v);
    float f = double_to_float(r, (Rounding)in->rounding);
    /* fma is flushed after rounding, products and quotients before; sums cannot be inexact there */
    if (in->ftz && in->operation != FLOAT_FMA && fabs(r) < 0x1p-126) f = copysignf(0, (float)r);
    if (in->ftz) f = flush(f);
    if (in->saturate) f = !(f > 0) ? 0 : f > 1 ? 1 : f;
    if (in->negate && !(f > 0) && !isnan(f)) f = 0;
    uint32_t bits = isnan(f) ? 0x7fffffff : float_bits(f);
    ((uint32_t *)operand(w, in->d[0]))[l] = bits;
  }
  return STEP_NEXT;
}

static Step run_double(Warp *w, const Inst *in, uint32_t mask)
{
  static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  int saved = fegetround();
  fesetround(modes[in->rounding & 3]);
  for_lanes(l, mask)
  {
    volatile double a = bits_double(lane_u64(w, in->a[0], l)), b = 0, c = 0, r;
    if (in->a[1] != OPERAND_NONE) b = bits_double(lane_u64(w, in->a[1], l));
    if (in->a[2] != OPERAND_NONE) c = bits_double(lane_u64(w, in->a[2], l));
    bool nans = TWO_NANS(a, b);
    switch (in->operation) {
    case OP_ADD: r = nans ? b + b : a + b; break;
    case OP_SUB: r = nans ? b + b : a - b; break;
    case OP_MUL: r = nans ? b + b : a * b; break;
    case OP_DIV: r = a / b; break;
    case FLOAT_FMA: r = fma(a, b, c); break;
    case FLOAT_RCP: r = 1 / a; break;
    case FLOAT_SQRT: r = sqrt(a); break;
    case OP_MIN: r = nans ? b + b : isnan(a) ? b : isnan(b) ? a : LESS(a, b) ? a : b; break;
    case OP_MAX: r = nans ? b + b : isnan(a) ? b : isnan(b) ? a : LESS(a, b) ? b : a; break;
    default: r = function(in->operation, a); break;
    }
    ((double *)operand(w, in->d[0]))[l] = r;
  }
  fesetround(saved);
  return STEP_NEXT;
}

static uint16_t half_lane(const Inst *in, bool bf, const uint16_t v[3])
{
  float x[3];
  for (unsigned i = 0; i < 3; i++) {
    x[i] = bf ? bfloat_float(v[i]) : half_float(v[i]);
    if (in->ftz && !bf && (v[i] & 0x7c00) == 0) x[i] = copysignf(0, x[i]);
  }
  /* .oob: the NaN that fills what is outside of a tensor makes the result 0 */
  if (in->more & 4 && ((v[0] & 0x7fff) == 0x7ff7 || (v[1] & 0x7fff) == 0x7ff7)) return 0;
  if (in->more & 1 && (isnan(x[0]) || isnan(x[1]))) return 0x7fff;
  float r;
  if (in->more & 2)
    r = copysignf((float)single_value(in->operation, fabsf(x[0]), fabsf(x[1]), 0),
                  signbit(x[0]) != signbit(x[1]) ? -1.0f : 1.0f);
  else
    r = odd_to_float(single_value(in->operation, x[0], x[1], x[2]));
  if (in->saturate) r = !(r > 0) ? 0 : r > 1 ? 1 : r;
  if (in->negate && r <= 0) r = 0;
  uint16_t out = bf ? float_bfloat(r) : float_half(r);
  if (in->ftz && !bf && (out & 0x7c00) == 0) out &= 0x8000;
  return out;
}

static Step run_half(Warp *w, const Inst *in, uint32_t mask)
{
  bool bf = in->type == TYPE_BF16 || in->type == TYPE_BF16X2, packed = in->bytes == 4;
  for_lanes(l, mask)
  {
    uint32_t v[3] = {0, 0, 0};
    for (unsigned i = 0; i < 3 && in->a[i] != OPERAND_NONE; i++)
      v[i] = lane_u32(w, in->a[i], l);
    uint16_t low[3] = {(uint16_t)v[0], (uint16_t)v[1], (uint16_t)v[2]};
    uint16_t high[3] = {(uint16_t)(v[0] >> 16), (uint16_t)(v[1] >> 16), (uint16_t)(v[2] >> 16)};
    uint32_t r = half_lane(in, bf, low);
    if (packed) r |= (uint32_t)half_lane(in, bf, high) << 16;
    ((uint32_t *)operand(w, in->d[0]))[l] = r;
  }
  return STEP_NEXT;
}

static bool is_half(PtxType type)
{
  return type == TYPE_F16 || type == TYPE_BF16 || type == TYPE_F16X2 || type == TYPE_BF16X2;
}

static Handler quick(int operation, PtxType type)
{
  switch (type) {
  case TYPE_F32:
    switch (operation) {
    case OP_ADD: return add_f32;
    case OP_SUB: return sub_f32;
    case OP_MUL: return mul_f32;
    case OP_MIN: return min_f32;
    case OP_MAX: return max_f32;
    case OP_DIV: return div_f32;
    case FLOAT_FMA: return fma_f32;
    case FLOAT_EX2: return ex2_f32;
    case FLOAT_RCP: return rcp_f32;
    case FLOAT_SQRT: return sqrt_f32;
    default: return run_single;
    }
  case TYPE_F64:
    switch (operation) {
    case OP_ADD: return add_f64;
    case OP_SUB: return sub_f64;
    case OP_MUL: return mul_f64;
    case OP_DIV: return div_f64;
    case FLOAT_FMA: return fma_f64;
    default: return run_double;
    }
  default: return run_half;
  }
}

static Step run_packed_single(Warp *w, const Inst *in, uint32_t mask)
{
  for_lanes(l, mask)
  {
    uint64_t r = 0;
    for (unsigned h = 0; h < 64; h += 32) {
      float v[3] = {0, 0, 0};
      for (unsigned i = 0; i < 3 && in->a[i] != OPERAND_NONE; i++) {
        v[i] = bits_float((uint32_t)(lane_u64(w, in->a[i], l) >> h));
        if (in->ftz) v[i] = flush(v[i]);
      }
      float f = double_to_float(single_value(in->operation, v[0], v[1], v[2]), (Rounding)in->rounding);
      if (in->ftz) f = flush(f);
      r |= (uint64_t)float_bits(f) << h;
    }
    ((uint64_t *)operand(w, in->d[0]))[l] = r;
  }
  return STEP_NEXT;
}

static Handler sign_handler(int operation, PtxType type)
{
  bool neg = operation == OP_NEG;
  switch (type) {
  case TYPE_F64: return neg ? neg_f64 : abs_f64;
  case TYPE_F32: return neg ? neg_f32 : abs_f32;
  case TYPE_F16: return neg ? neg_half : abs_half;
  case TYPE_BF16: return neg ? neg_bfloat : abs_bfloat;
  case TYPE_F16X2: return neg ? neg_half2 : abs_half2;
  default: return neg ? neg_bfloat2 : abs_bfloat2;
  }
}

static void decode_float(Decoder *d, int operation, PtxType type, unsigned n)
{
  Inst *in = d->in;
  if (type != TYPE_F32 && type != TYPE_F64 && type != TYPE_F32X2 && !is_half(type)) {
    decode_fail(d, "type '%s'", ptx_type_name(type));
    return;
  }
  in->type = (uint8_t)type;
  in->bytes = (uint8_t)ptx_type_bytes(type);
  in->operation = (uint8_t)operation;
  in->d[0] = destination_at(d, 0, type);
  for (unsigned i = 0; i < n; i++)
    in->a[i] = source_at(d, i + 1, type);
  if (operation == OP_NEG || operation == OP_ABS) {
    in->run = in->ftz ? run_single : sign_handler(operation, type);
    if (in->ftz && type != TYPE_F32) in->run = run_half;
    return;
  }
  bool plain = !in->ftz && !in->saturate && !in->negate && !in->more && in->rounding == ROUND_NEAREST;
  if (type == TYPE_F32X2)
    in->run = run_packed_single;
  else if (plain)
    in->run = quick(operation, type);
  else
    in->run = type == TYPE_F32 ? run_single : type == TYPE_F64 ? run_double : run_half;
}

static void take_float_modifiers(Decoder *d)
{
  Inst *in = d->in;
  in->rounding = (uint8_t)take_rounding(d, ROUND_NEAREST);
  if (in->rounding == ROUND_AWAY) decode_wrong(d, "rounding .rna");
  in->ftz = take(d, "ftz");
  in->saturate = take(d, "sat");
  in->negate = take(d, "relu");
  if (take(d, "NaN")) in->more |= 1;
  if (strcmp(d->source->parts[0], "fma") == 0 && take(d, "oob")) in->more |= 4;
  if (take(d, "xorsign") && take(d, "abs")) in->more |= 2;
  take(d, "approx");
  take(d, "full");
}

/* add, sub, mul, mad, min, max, div, rem, abs, neg, fma: the type tells integer from float */
void decode_arithmetic(Decoder *d, int operation)
{
  Inst *in = d->in;
  bool carry = take(d, "cc");
  PtxType type = TYPE_NONE;
  for (unsigned i = 1; i < d->source->n_parts && type == TYPE_NONE; i++)
    type = ptx_type_parse(d->source->parts[i]);
  if (carry) {
    decode_carry(d, operation, need_type(d), false, true);
    return;
  }
  if (type != TYPE_NONE && (ptx_type_name(type)[0] == 'u' || ptx_type_name(type)[0] == 's' ||
                            (ptx_type_name(type)[0] == 'b' && !is_half(type)))) {
    need_type(d);
    decode_integer(d, operation, type);
    return;
  }
  take_float_modifiers(d);
  type = need_type(d);
  unsigned n = operation == OP_ABS || operation == OP_NEG ? 1 : operation == OP_MAD ? 3 : 2;
  if (operand_count(d) == 4 && (operation == OP_MIN || operation == OP_MAX)) decode_fail(d, "three inputs");
  decode_float(d, operation == OP_MAD ? FLOAT_FMA : operation, type, n);
  (void)in;
}

static const int function_operation[] = {FLOAT_RCP, FLOAT_SQRT, FLOAT_RSQRT, FLOAT_EX2,
                                         FLOAT_LG2, FLOAT_SIN,  FLOAT_COS,   FLOAT_TANH};

void decode_function(Decoder *d, int which)
{
  take_float_modifiers(d);
  PtxType type = need_type(d);
  if (type == TYPE_F64) d->in->ftz = false; /* rcp.approx.ftz.f64: more exact here than on the hardware */
  decode_float(d, function_operation[which], type, 1);
}

static Step run_copysign(Warp *w, const Inst *in, uint32_t mask)
{
  for_lanes(l, mask)
  {
    if (in->bytes == 8) {
      uint64_t s = 1ull << 63;
      ((uint64_t *)operand(w, in->d[0]))[l] =
          (lane_u64(w, in->a[1], l) & ~s) | (lane_u64(w, in->a[0], l) & s);
    } else {
      uint32_t s = 1u << 31;
      ((uint32_t *)operand(w, in->d[0]))[l] =
          (lane_u32(w, in->a[1], l) & ~s) | (lane_u32(w, in->a[0], l) & s);
    }
  }
  return STEP_NEXT;
}

void decode_copysign(Decoder *d, int argument)
{
  PtxType type = need_type(d);
  d->in->bytes = (uint8_t)ptx_type_bytes(type);
  d->in->d[0] = destination_at(d, 0, type);
  d->in->a[0] = source_at(d, 1, type);
  d->in->a[1] = source_at(d, 2, type);
  d->in->run = run_copysign;
}

static Step run_testp(Warp *w, const Inst *in, uint32_t mask)
{
  uint32_t result = 0;
  for_lanes(l, mask)
  {
    double v = in->bytes == 8 ? bits_double(lane_u64(w, in->a[0], l)) : bits_float(lane_u32(w, in->a[0], l));
    bool subnormal = in->bytes == 8 ? fpclassify(v) == FP_SUBNORMAL : v != 0 && fabs(v) < 0x1p-126;
    bool r;
    switch (in->operation) {
    case 0: r = isfinite(v); break;
    case 1: r = isinf(v); break;
    case 2: r = !isnan(v); break;
    case 3: r = isnan(v); break;
    case 4: r = isfinite(v) && !subnormal; break;
    default: r = subnormal; break;
    }
    result |= (uint32_t)r << l;
  }
  set_predicate(w, in->d[0], mask, result);
  return STEP_NEXT;
}

void decode_testp(Decoder *d, int argument)
{
  static const char *const names[] = {"finite", "infinite",  "number", "notanumber",
                                      "normal", "subnormal", NULL};
  int which = 0;
  if (!take_one(d, names, &which)) decode_wrong(d, "what to test for is missing");
  PtxType type = need_type(d);
  d->in->operation = (uint8_t)which;
  d->in->bytes = (uint8_t)ptx_type_bytes(type);
  d->in->d[0] = destination_at(d, 0, TYPE_PRED);
  d->in->a[0] = source_at(d, 1, type);
  d->in->run = run_testp;
}
