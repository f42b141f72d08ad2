/* Conversions to narrow formats with every rounding; see formats.h. */
#include "simulator/formats.h"

const NarrowFormat format_f16 = {5, 10, false};
const NarrowFormat format_bf16 = {8, 7, false};
const NarrowFormat format_e4m3 = {4, 3, true};
const NarrowFormat format_e5m2 = {5, 2, false};
const NarrowFormat format_tf32 = {8, 10, false};

/* Rounds to an integer; double holds every intermediate exactly, since 2^53 exceeds all mantissas here. */
static double round_integer(double x, Rounding rounding)
{
  switch (rounding) {
  case ROUND_ZERO: return trunc(x);
  case ROUND_DOWN: return floor(x);
  case ROUND_UP: return ceil(x);
  case ROUND_AWAY: return round(x);
  default: {
    double f = floor(x), d = x - f;
    if (d != 0.5) return d < 0.5 ? f : f + 1;
    return fmod(f, 2) == 0 ? f : f + 1;
  }
  }
}

uint32_t narrow_from_double(const NarrowFormat *f, double x, Rounding rounding, bool saturate)
{
  uint32_t sign = (uint32_t)signbit(x) << (f->exponent + f->mantissa);
  uint32_t all = (1u << f->exponent) - 1, bias = all >> 1;
  uint32_t infinity = all << f->mantissa;
  uint32_t largest = f->finite_only ? infinity + (1u << f->mantissa) - 2 : infinity - 1;
  uint32_t nan = f->finite_only ? largest + 1 : infinity | ((1u << f->mantissa) - 1);
  if (isnan(x)) return nan;
  if (isinf(x)) return saturate ? sign | largest : sign | (f->finite_only ? nan : infinity);
  if (x == 0) return sign;
  int e;
  frexp(x, &e);
  e--; /* x = 1.m * 2^e */
  int smallest = 1 - (int)bias;
  if (e < smallest) e = smallest;
  double scaled = round_integer(ldexp(x, f->mantissa - e), rounding);
  uint64_t m = (uint64_t)fabs(scaled);
  /* a carry out of the mantissa moves into the exponent by itself */
  uint64_t bits = m < (1ull << f->mantissa)
                      ? m
                      : ((uint64_t)(e + (int)bias) << f->mantissa) + (m - (1ull << f->mantissa));
  if (bits <= largest) return sign | (uint32_t)bits;
  if (saturate) return sign | largest;
  bool towards_zero =
      rounding == ROUND_ZERO || (rounding == ROUND_DOWN && !sign) || (rounding == ROUND_UP && sign);
  if (towards_zero) return sign | largest;
  return f->finite_only ? sign | nan : sign | infinity;
}

double narrow_to_double(const NarrowFormat *f, uint32_t bits)
{
  uint32_t all = (1u << f->exponent) - 1, bias = all >> 1;
  uint32_t e = bits >> f->mantissa & all, m = bits & ((1u << f->mantissa) - 1);
  double sign = bits >> (f->exponent + f->mantissa) & 1 ? -1.0 : 1.0;
  if (e == all && !f->finite_only) return m ? NAN : sign * INFINITY;
  if (e == all && m == (1u << f->mantissa) - 1) return NAN;
  if (e == 0) return sign * ldexp(m, 1 - (int)bias - f->mantissa);
  return sign * ldexp(m + (1u << f->mantissa), (int)e - (int)bias - f->mantissa);
}

double fma_to_odd(double a, double b, double c)
{
  double p = a * b; /* exact: the operands have at most 24 significant bits */
  double s = p + c;
  if (!isfinite(s)) return s;
  double t = s - p, error = (p - (s - t)) + (c - t);
  if (error == 0 || (double_bits(s) & 1)) return s;
  /* s is inexact and even: move one unit towards the true sum, which makes it odd */
  bool up = (error > 0) == (s > 0);
  return bits_double(double_bits(s) + (up ? 1 : -1));
}

float double_to_float(double x, Rounding rounding)
{
  float f = (float)x;
  if (rounding == ROUND_NEAREST || isnan(x) || (double)f == x) return f;
  bool above = (double)f > x;
  if (rounding == ROUND_ZERO) rounding = x > 0 ? ROUND_DOWN : ROUND_UP;
  if (rounding == ROUND_DOWN && above) return nextafterf(f, -INFINITY);
  if (rounding == ROUND_UP && !above) return nextafterf(f, INFINITY);
  return f;
}

#define T4(s, e)                                                                                             \
  (s) * (e), (s) * (e)*1.125f, (s) * (e)*1.25f, (s) * (e)*1.375f, (s) * (e)*1.5f, (s) * (e)*1.625f,          \
      (s) * (e)*1.75f, (s) * (e)*1.875f
#define E4M3_HALF(s)                                                                                         \
  (s) * 0.0f, (s)*0x1p-9f, (s)*0x2p-9f, (s)*0x3p-9f, (s)*0x4p-9f, (s)*0x5p-9f, (s)*0x6p-9f, (s)*0x7p-9f,     \
      T4(s, 0x1p-6f), T4(s, 0x1p-5f), T4(s, 0x1p-4f), T4(s, 0x1p-3f), T4(s, 0x1p-2f), T4(s, 0x1p-1f),        \
      T4(s, 1.0f), T4(s, 2.0f), T4(s, 4.0f), T4(s, 8.0f), T4(s, 16.0f), T4(s, 32.0f), T4(s, 64.0f),          \
      T4(s, 128.0f), (s)*256.0f, (s)*288.0f, (s)*320.0f, (s)*352.0f, (s)*384.0f, (s)*416.0f, (s)*448.0f, NAN

const float e4m3_table[256] = {E4M3_HALF(1.0f), E4M3_HALF(-1.0f)};

#define T5(s, e) (s) * (e), (s) * (e)*1.25f, (s) * (e)*1.5f, (s) * (e)*1.75f
#define E5M2_HALF(s)                                                                                         \
  (s) * 0.0f, (s)*0x1p-16f, (s)*0x2p-16f, (s)*0x3p-16f, T5(s, 0x1p-14f), T5(s, 0x1p-13f), T5(s, 0x1p-12f),   \
      T5(s, 0x1p-11f), T5(s, 0x1p-10f), T5(s, 0x1p-9f), T5(s, 0x1p-8f), T5(s, 0x1p-7f), T5(s, 0x1p-6f),      \
      T5(s, 0x1p-5f), T5(s, 0x1p-4f), T5(s, 0x1p-3f), T5(s, 0x1p-2f), T5(s, 0x1p-1f), T5(s, 1.0f),           \
      T5(s, 2.0f), T5(s, 4.0f), T5(s, 8.0f), T5(s, 16.0f), T5(s, 32.0f), T5(s, 64.0f), T5(s, 128.0f),        \
      T5(s, 256.0f), T5(s, 512.0f), T5(s, 1024.0f), T5(s, 2048.0f), T5(s, 4096.0f), T5(s, 8192.0f),          \
      T5(s, 16384.0f), T5(s, 32768.0f), (s)*INFINITY, NAN, NAN, NAN

const float e5m2_table[256] = {E5M2_HALF(1.0f), E5M2_HALF(-1.0f)};
