/* Vectors of the instruction set a file is compiled for; see product_kernel.c, which is compiled once for
 * each.
 *
 * Floats is as wide as the machine's registers, SIMD_WIDTH lanes of 32 bits; Shorts has as many bytes and
 * twice the lanes. Everything the compilers' vector types express is written with them; what they compile
 * badly stands here. Nothing rounds differently from one instruction set to another, simd_fused excepted. */
#pragma once
#include <stdint.h>
#include <string.h>

#if defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#include <immintrin.h>
#define SIMD_NAME  "AVX-512"
#define SIMD_WIDTH 16
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#define SIMD_NAME  "AVX2"
#define SIMD_WIDTH 8
#elif defined(__SSE2__)
#include <emmintrin.h>
#define SIMD_NAME  "SSE2"
#define SIMD_WIDTH 4
#else
#define SIMD_NAME  "generic"
#define SIMD_WIDTH 4
#endif

typedef float Floats __attribute__((vector_size(SIMD_WIDTH * 4)));
typedef int32_t Ints __attribute__((vector_size(SIMD_WIDTH * 4)));
typedef int16_t Shorts __attribute__((vector_size(SIMD_WIDTH * 4)));
typedef double Doubles __attribute__((vector_size(SIMD_WIDTH * 4)));
typedef int64_t Longs __attribute__((vector_size(SIMD_WIDTH * 4)));

#define SIMD_INLINE static inline __attribute__((always_inline))

/* Four floats again and again; p is aligned to 16 bytes. */
SIMD_INLINE Floats simd_repeat(const float *p)
{
#if SIMD_WIDTH == 16
  return (Floats)_mm512_broadcast_f32x4(_mm_load_ps(p));
#elif SIMD_WIDTH == 8
  return (Floats)_mm256_broadcast_ps((const __m128 *)p);
#else
  return *(const Floats *)p;
#endif
}

/* Four 16-bit integers again and again; p is aligned to 8 bytes. */
SIMD_INLINE Shorts simd_repeat_shorts(const int16_t *p)
{
#if SIMD_WIDTH == 16
  return (Shorts)_mm512_broadcastq_epi64(_mm_loadl_epi64((const __m128i *)p));
#elif SIMD_WIDTH == 8
  return (Shorts)_mm256_broadcastq_epi64(_mm_loadl_epi64((const __m128i *)p));
#else
  int16_t both[8];
  memcpy(both, p, 8);
  memcpy(both + 4, p, 8);
  Shorts result;
  memcpy(&result, both, sizeof result);
  return result;
#endif
}

/* Lane q of every four in all four; q is a constant. */
#if SIMD_WIDTH == 16
#define simd_spread(x, q) ((Floats)_mm512_permute_ps((__m512)(x), (q)*0x55))
#define simd_spread_shorts(x, q)                                                                             \
  ((Shorts)_mm512_shufflehi_epi16(_mm512_shufflelo_epi16((__m512i)(x), (q)*0x55), (q)*0x55))
#elif SIMD_WIDTH == 8
#define simd_spread(x, q) ((Floats)_mm256_permute_ps((__m256)(x), (q)*0x55))
#define simd_spread_shorts(x, q)                                                                             \
  ((Shorts)_mm256_shufflehi_epi16(_mm256_shufflelo_epi16((__m256i)(x), (q)*0x55), (q)*0x55))
#else
#define simd_spread(x, q)        __builtin_shufflevector(x, x, q, q, q, q)
#define simd_spread_shorts(x, q) __builtin_shufflevector(x, x, q, q, q, q, (q) + 4, (q) + 4, (q) + 4, (q) + 4)
#endif

/* Four rows of four floats into columns. */
SIMD_INLINE void simd_transpose(const float *const rows[4], float *const columns[4])
{
  typedef float Four __attribute__((vector_size(16)));
  Four r[4], t[4];
  for (unsigned i = 0; i < 4; i++)
    memcpy(&r[i], rows[i], sizeof r[i]);
  t[0] = __builtin_shufflevector(r[0], r[2], 0, 4, 1, 5);
  t[1] = __builtin_shufflevector(r[0], r[2], 2, 6, 3, 7);
  t[2] = __builtin_shufflevector(r[1], r[3], 0, 4, 1, 5);
  t[3] = __builtin_shufflevector(r[1], r[3], 2, 6, 3, 7);
  r[0] = __builtin_shufflevector(t[0], t[2], 0, 4, 1, 5);
  r[1] = __builtin_shufflevector(t[0], t[2], 2, 6, 3, 7);
  r[2] = __builtin_shufflevector(t[1], t[3], 0, 4, 1, 5);
  r[3] = __builtin_shufflevector(t[1], t[3], 2, 6, 3, 7);
  for (unsigned i = 0; i < 4; i++)
    memcpy(columns[i], &r[i], sizeof r[i]);
}

SIMD_INLINE Shorts simd_larger_shorts(Shorts a, Shorts b)
{
#if SIMD_WIDTH == 16
  return (Shorts)_mm512_max_epi16((__m512i)a, (__m512i)b);
#elif SIMD_WIDTH == 8
  return (Shorts)_mm256_max_epi16((__m256i)a, (__m256i)b);
#else
  Shorts first = a > b;
  return (a & first) | (b & ~first);
#endif
}

SIMD_INLINE Ints simd_larger(Ints a, Ints b)
{
  Ints first = a > b;
  return (a & first) | (b & ~first);
}

/* Is any bit of any lane set? */
SIMD_INLINE int simd_any(Ints a)
{
#if SIMD_WIDTH == 16
  return _mm512_test_epi32_mask((__m512i)a, (__m512i)a) != 0;
#elif SIMD_WIDTH == 8
  return !_mm256_testz_si256((__m256i)a, (__m256i)a);
#else
  int32_t or = 0;
  for (unsigned i = 0; i < SIMD_WIDTH; i++)
    or |= a[i];
  return or != 0;
#endif
}

/* a * b + c, rounded once where the machine can: the one function whose result depends on the instruction
 * set. */
SIMD_INLINE Floats simd_fused(Floats a, Floats b, Floats c)
{
#if SIMD_WIDTH == 16
  return (Floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif SIMD_WIDTH == 8
  return (Floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
  return a * b + c;
#endif
}

/* The two halves of a vector, widened; and back. */
SIMD_INLINE void simd_widen_shorts(Shorts x, Ints out[2])
{
#if SIMD_WIDTH == 16
  out[0] = (Ints)_mm512_cvtepi16_epi32(_mm512_castsi512_si256((__m512i)x));
  out[1] = (Ints)_mm512_cvtepi16_epi32(_mm512_extracti64x4_epi64((__m512i)x, 1));
#elif SIMD_WIDTH == 8
  out[0] = (Ints)_mm256_cvtepi16_epi32(_mm256_castsi256_si128((__m256i)x));
  out[1] = (Ints)_mm256_cvtepi16_epi32(_mm256_extracti128_si256((__m256i)x, 1));
#else
  for (unsigned i = 0; i < 2 * SIMD_WIDTH; i++)
    out[i / SIMD_WIDTH][i % SIMD_WIDTH] = x[i];
#endif
}

SIMD_INLINE void simd_widen_ints(Ints x, Doubles out[2])
{
#if SIMD_WIDTH == 16
  out[0] = (Doubles)_mm512_cvtepi32_pd(_mm512_castsi512_si256((__m512i)x));
  out[1] = (Doubles)_mm512_cvtepi32_pd(_mm512_extracti64x4_epi64((__m512i)x, 1));
#elif SIMD_WIDTH == 8
  out[0] = (Doubles)_mm256_cvtepi32_pd(_mm256_castsi256_si128((__m256i)x));
  out[1] = (Doubles)_mm256_cvtepi32_pd(_mm256_extracti128_si256((__m256i)x, 1));
#else
  for (unsigned i = 0; i < SIMD_WIDTH; i++)
    out[i / 2][i % 2] = x[i];
#endif
}

SIMD_INLINE void simd_widen_floats(Floats x, Doubles out[2])
{
#if SIMD_WIDTH == 16
  out[0] = (Doubles)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)x));
  out[1] = (Doubles)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)x, 1));
#elif SIMD_WIDTH == 8
  out[0] = (Doubles)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)x));
  out[1] = (Doubles)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)x, 1));
#else
  for (unsigned i = 0; i < SIMD_WIDTH; i++)
    out[i / 2][i % 2] = x[i];
#endif
}

SIMD_INLINE Floats simd_narrow(const Doubles x[2])
{
#if SIMD_WIDTH == 16
  __m512 low = _mm512_castps256_ps512(_mm512_cvtpd_ps((__m512d)x[0]));
  return (Floats)_mm512_insertf32x8(low, _mm512_cvtpd_ps((__m512d)x[1]), 1);
#elif SIMD_WIDTH == 8
  return (Floats)_mm256_set_m128(_mm256_cvtpd_ps((__m256d)x[1]), _mm256_cvtpd_ps((__m256d)x[0]));
#else
  return (Floats){(float)x[0][0], (float)x[0][1], (float)x[1][0], (float)x[1][1]};
#endif
}
