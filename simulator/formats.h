/* Number formats as the executed instructions see them: bit patterns to float and back.
 *
 * Written apart from base/number.c on purpose: the judge does not share the code of the judged. */
#pragma once
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef enum {
  ROUND_NEAREST,
  ROUND_ZERO,
  ROUND_DOWN,
  ROUND_UP,
  ROUND_AWAY
} Rounding; /* AWAY: ties away (rna) */

static inline uint32_t float_bits(float x)
{
  uint32_t u;
  memcpy(&u, &x, 4);
  return u;
}

static inline float bits_float(uint32_t u)
{
  float x;
  memcpy(&x, &u, 4);
  return x;
}

static inline uint64_t double_bits(double x)
{
  uint64_t u;
  memcpy(&u, &x, 8);
  return u;
}

static inline double bits_double(uint64_t u)
{
  double x;
  memcpy(&x, &u, 8);
  return x;
}

/* f16 -> f32 without a branch, so that loops over it vectorise: the scaling by 2^112 also normalises
 * subnormals. */
static inline float half_float(uint16_t h)
{
  uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13, sign = (uint32_t)(h & 0x8000) << 16;
  float scaled = bits_float(magnitude) * 0x1p112f;
  uint32_t bits = (h & 0x7c00) == 0x7c00 ? magnitude | 0x7f800000 : float_bits(scaled);
  return bits_float(bits | sign);
}

static inline float bfloat_float(uint16_t b)
{
  return bits_float((uint32_t)b << 16);
}

/* Nearest f16; NaN becomes the canonical 0x7fff as PTX's cvt does. Branch-light for vectorisation. */
static inline uint16_t float_half(float x)
{
  uint32_t u = float_bits(x), sign = u >> 16 & 0x8000, magnitude = u & 0x7fffffff;
  uint32_t normal = (magnitude + 0xfff + (magnitude >> 13 & 1) - (112u << 23)) >> 13;
  uint32_t small = float_bits(bits_float(magnitude) + 0.5f) - 0x3f000000u; /* adding 0.5 rounds at 2^-24 */
  uint32_t result = magnitude < 0x38800000u ? small : normal;
  result = magnitude >= 0x477ff000u ? 0x7c00 : result;
  result = magnitude > 0x7f800000u ? 0x7fff : result;
  return (uint16_t)(magnitude > 0x7f800000u ? 0x7fff : sign | result);
}

static inline uint16_t float_bfloat(float x)
{
  uint32_t u = float_bits(x);
  uint32_t r = (u + 0x7fff + (u >> 16 & 1)) >> 16;
  return (uint16_t)((u & 0x7fffffff) > 0x7f800000u ? 0x7fff : r);
}

static inline float flush(float x)
{
  uint32_t u = float_bits(x);
  return bits_float((u & 0x7f800000) == 0 ? u & 0x80000000 : u);
}

static inline float tf32_float(uint32_t bits)
{
  return bits_float(bits & 0xffffe000u); /* the tensor cores read the upper 19 bits */
}

/* A narrow float: e exponent bits, m mantissa bits; fn: no infinities, all-ones is NaN (e4m3). */
typedef struct NarrowFormat {
  int exponent, mantissa;
  bool finite_only;
} NarrowFormat;

extern const NarrowFormat format_f16, format_bf16, format_e4m3, format_e5m2, format_tf32;

/* Rounds x to the format; saturate clamps to the largest finite value. NaN gives the canonical NaN. */
uint32_t narrow_from_double(const NarrowFormat *f, double x, Rounding rounding, bool saturate);
double narrow_to_double(const NarrowFormat *f, uint32_t bits);

extern const float e4m3_table[256], e5m2_table[256];

/* a * b + c rounded once to odd in double: rounding it again to 24 bits or fewer is then exact. */
double fma_to_odd(double a, double b, double c);
float double_to_float(double x, Rounding rounding);
