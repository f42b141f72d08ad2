/* The inner loops of matrix products. This file is compiled once per instruction set (meson.build), with
 * PRODUCT_KERNELS naming the table it defines; nothing in it may be visible under another name. */
#include "simulator/product.h"
#include "simulator/simd.h"

#define LARGEST_EXPONENT 125 /* larger exponents could overflow f32 */

/* --- spreading operands out --- */

static inline int32_t integer_element(PtxType type, uint32_t bits)
{
  switch (type) {
  case TYPE_S8: return (int8_t)bits;
  case TYPE_U8: return (uint8_t)bits;
  case TYPE_S4: return (int32_t)(bits << 28) >> 28;
  default: return (int32_t)(bits & 15);
  }
}

static unsigned per_register(PtxType type)
{
  switch (type) {
  case TYPE_TF32: return 1;
  case TYPE_F16:
  case TYPE_BF16: return 2;
  case TYPE_S4:
  case TYPE_U4: return 8;
  default: return 4;
  }
}

/* Bits [shift, shift + width) of n registers' lanes as floats, or as integers. */
static void elements_of(const ProductFormat *format, const uint32_t *restrict v, unsigned n, unsigned shift,
                        uint32_t *restrict out)
{
  PtxType type = format->type;
  if (format->integer) {
    for (unsigned l = 0; l < n; l++)
      out[l] = (uint32_t)integer_element(type, v[l] >> shift);
    return;
  }
  if (type == TYPE_BF16) {
    for (unsigned l = 0; l < n; l++)
      out[l] = v[l] >> shift << 16;
  } else if (type == TYPE_F16) {
    for (unsigned l = 0; l < n; l++)
      out[l] = float_bits(half_float((uint16_t)(v[l] >> shift)));
  } else if (type == TYPE_TF32) {
    for (unsigned l = 0; l < n; l++)
      out[l] = float_bits(tf32_float(v[l]));
  } else {
    const float *table = type == TYPE_E4M3 ? e4m3_table : e5m2_table;
    for (unsigned l = 0; l < n; l++)
      out[l] = float_bits(table[v[l] >> shift & 255]);
  }
  if (format->negate)
    for (unsigned l = 0; l < n; l++)
      out[l] ^= 0x80000000u;
}

/* Exponents of n floats; returns the bits of all magnitudes together. */
static uint32_t exponents_of(const uint32_t *restrict f, unsigned n, int lowest, int16_t *restrict out,
                             bool *special)
{
  uint32_t any = 0, largest = 0;
  for (unsigned l = 0; l < n; l++) {
    uint32_t magnitude = f[l] & 0x7fffffff, e = magnitude >> 23;
    int32_t x = (int32_t)e - 127;
    x = x > lowest ? x : lowest; /* the subnormals of the type among them */
    out[l] = (int16_t)(magnitude ? x : NO_EXPONENT);
    any |= magnitude;
    largest = largest > e ? largest : e;
  }
  *special |= largest == 255;
  return any;
}

/* Element (row l / 4, k) is needed by every lane of that row: columns base, base + stride, ... of k. */
static void spread_values(float (*to)[LANES], unsigned base, unsigned stride, const float *f)
{
  for (unsigned l = 0; l < LANES; l += SIMD_WIDTH) {
    const Floats x = *(const Floats *)(f + l);
    *(Floats *)&to[base][l] = simd_spread(x, 0);
    *(Floats *)&to[base + stride][l] = simd_spread(x, 1);
    *(Floats *)&to[base + 2 * stride][l] = simd_spread(x, 2);
    *(Floats *)&to[base + 3 * stride][l] = simd_spread(x, 3);
  }
}

static void spread_exponents(int16_t (*to)[LANES], unsigned base, unsigned stride, const int16_t *e)
{
  for (unsigned l = 0; l < LANES; l += 2 * SIMD_WIDTH) {
    const Shorts x = *(const Shorts *)(e + l);
    *(Shorts *)&to[base][l] = simd_spread_shorts(x, 0);
    *(Shorts *)&to[base + stride][l] = simd_spread_shorts(x, 1);
    *(Shorts *)&to[base + 2 * stride][l] = simd_spread_shorts(x, 2);
    *(Shorts *)&to[base + 3 * stride][l] = simd_spread_shorts(x, 3);
  }
}

static void load_rows(ProductRows *p, ProductFormat format, const uint32_t *v, unsigned half, unsigned base)
{
  unsigned e = per_register(format.type);
  uint32_t f[LANES] __attribute__((aligned(64)));
  int16_t x[LANES] __attribute__((aligned(64)));
  for (unsigned h = 0; h < e; h++) {
    elements_of(&format, v, LANES, h * (32 / e), f);
    spread_values(p->f[half], base + h, e, (const float *)f);
    if (!format.exponents) continue;
    p->any[half] |= exponents_of(f, LANES, format.lowest, x, &p->special);
    spread_exponents(p->exponents[half], base + h, e, x);
  }
}

static void load_tile(ProductTile *p, ProductFormat format, const uint32_t *v, unsigned base)
{
  unsigned e = per_register(format.type);
  float f[LANES] __attribute__((aligned(64)));
  for (unsigned h = 0; h < e; h++) {
    elements_of(&format, v, LANES, h * (32 / e), (uint32_t *)f);
    for (unsigned parity = 0; parity < 2; parity++) {
      /* column 2 * i + parity of the tile is row i here */
      const float *const rows[4] = {f + 4 * parity, f + 8 + 4 * parity, f + 16 + 4 * parity,
                                    f + 24 + 4 * parity};
      float(*to)[4] = &p->f[parity][base + h];
      float *const columns[4] = {to[0], to[e], to[2 * e], to[3 * e]};
      simd_transpose(rows, columns);
    }
  }
  for (unsigned parity = 0; format.exponents && parity < 2; parity++)
    exponents_of((const uint32_t *)p->i[parity][base], 16 * e, format.lowest, p->exponents[parity][base],
                 &p->special);
}

static void load_tile_across(ProductTile *p, ProductFormat format, const uint32_t *words, unsigned k)
{
  for (unsigned parity = 0; parity < 2; parity++) {
    uint32_t *f = (uint32_t *)p->i[parity];
    elements_of(&format, words, 4 * k, 16 * parity, f);
    if (format.exponents) exponents_of(f, 4 * k, format.lowest, p->exponents[parity][0], &p->special);
  }
}

/* --- f32 and integers --- */

static void run_single(uint32_t *const *acc, const ProductRows *a, const ProductTile *b, unsigned tiles,
                       unsigned halves, unsigned k)
{
  for (unsigned t = 0; t < tiles; t++)
    for (unsigned h = 0; h < halves; h++)
      for (unsigned c = 0; c < LANES; c += 2 * SIMD_WIDTH) {
        Floats *even = (Floats *)(acc[4 * t + 2 * h] + c), *odd = (Floats *)(acc[4 * t + 2 * h + 1] + c);
        Floats s0 = even[0], s1 = even[1], s2 = odd[0], s3 = odd[1];
        for (unsigned i = 0; i < k; i++) {
          const Floats b0 = simd_repeat(b[t].f[0][i]), b1 = simd_repeat(b[t].f[1][i]);
          const Floats *row = (const Floats *)&a->f[h][i][c];
          s0 = simd_fused(row[0], b0, s0);
          s1 = simd_fused(row[1], b0, s1);
          s2 = simd_fused(row[0], b1, s2);
          s3 = simd_fused(row[1], b1, s3);
        }
        even[0] = s0;
        even[1] = s1;
        odd[0] = s2;
        odd[1] = s3;
      }
}

static void run_integer(uint32_t *const *acc, const ProductRows *a, const ProductTile *b, unsigned tiles,
                        unsigned halves, unsigned k)
{
  for (unsigned t = 0; t < tiles; t++)
    for (unsigned r = 0; r < 2 * halves; r++)
      for (unsigned c = 0; c < LANES; c += SIMD_WIDTH) {
        Ints *d = (Ints *)(acc[4 * t + r] + c), s = *d;
        for (unsigned i = 0; i < k; i++)
          s += *(const Ints *)&a->i[r >> 1][i][c] * (Ints)simd_repeat(b[t].f[r & 1][i]);
        *d = s;
      }
}

/* --- as wide as the hardware adds --- */

/* 2 * SIMD_WIDTH lanes of the two accumulators of a half. */
typedef struct AlignedBlock {
  const ProductRows *a;
  const ProductTile *b;
  unsigned half, lane; /* lane: the first */
  unsigned first, n;   /* values of k */
  const ProductModel *model;
} AlignedBlock;

/* The largest exponent of the products of every lane. */
SIMD_INLINE void largest_exponents(const AlignedBlock *x, Ints top[2][2])
{
  Shorts even = (Shorts){} + 2 * NO_EXPONENT, odd = even;
  for (unsigned i = x->first; i < x->first + x->n; i++) {
    const Shorts a = *(const Shorts *)&x->a->exponents[x->half][i][x->lane];
    even = simd_larger_shorts(even, a + simd_repeat_shorts(x->b->exponents[0][i]));
    odd = simd_larger_shorts(odd, a + simd_repeat_shorts(x->b->exponents[1][i]));
  }
  simd_widen_shorts(even, top[0]);
  simd_widen_shorts(odd, top[1]);
}

/* Exponents of accumulators, whose subnormals count as the smallest normal ones. */
SIMD_INLINE Ints accumulator_exponents(Ints c)
{
  Ints e = simd_larger(c >> 23 & 255, (Ints){} + 1) - 127, zero = (c & 0x7fffffff) == 0;
  return (e & ~zero) | (zero & NO_EXPONENT);
}

/* Cuts the sum to the result's precision and scales it back. Clearing low bits of the mantissa cuts the whole
 * number towards zero. */
SIMD_INLINE Floats cut(const Doubles sum[2], Ints top, const ProductModel *model)
{
  const int64_t mask = ~(((int64_t)1 << (53 - model->significand)) - 1);
  Doubles back[2], result[2];
  simd_widen_floats((Floats)((top - (int32_t)model->bits + 127) << 23), back);
  for (unsigned i = 0; i < 2; i++) {
    Longs whole = (Longs)sum[i], kept = whole & mask;
    if (model->odd) kept |= (kept != whole) & (mask & -mask);
    result[i] = (Doubles)kept * back[i];
  }
  return simd_narrow(result);
}

/* The lanes marked in bad are out of range: one by one. */
static __attribute__((noinline)) Floats repair(const AlignedBlock *x, Ints bad, Floats before, Floats after,
                                               unsigned parity, unsigned vector)
{
  for (unsigned l = 0; l < SIMD_WIDTH; l++) {
    unsigned lane = x->lane + vector * SIMD_WIDTH + l;
    if (bad[l])
      after[l] = product_element(&x->a->f[x->half][x->first][lane], LANES,
                                 &x->b->f[parity][x->first][lane & 3], 4, before[l], x->n, x->model);
  }
  return after;
}

/* acc: even and odd accumulator, at the block's first lane. special: some values are not finite. */
static void add_aligned(const AlignedBlock *x, float *const acc[2], bool special)
{
  const unsigned bits = x->model->bits;
  const int32_t lowest = (int32_t)bits - 126; /* scales are normal numbers then */
  Ints top[2][2], bad[2][2];
  Floats scale[2][2], before[2][2];
  Doubles sum[2][2][2];
  largest_exponents(x, top);
  for (unsigned p = 0; p < 2; p++)
    for (unsigned u = 0; u < 2; u++) {
      before[p][u] = ((const Floats *)acc[p])[u];
      Ints t = simd_larger(top[p][u], accumulator_exponents((Ints)before[p][u]));
      /* all products and the accumulator zero: any scale will do */
      bad[p][u] = (t > LARGEST_EXPONENT) | ((t < lowest) & (t > NO_EXPONENT / 2));
      if (special) bad[p][u] = ~(Ints){};
      t = simd_larger(t, (Ints){} + lowest);
      t = (t & (t <= LARGEST_EXPONENT)) | (LARGEST_EXPONENT & (t > LARGEST_EXPONENT));
      top[p][u] = t;
      scale[p][u] = (Floats)(((int32_t)bits + 127 - t) << 23);
      simd_widen_ints(__builtin_convertvector(before[p][u] * scale[p][u], Ints), sum[p][u]);
    }
  /* Conversion to integers cuts towards zero. A product is below 2^(bits + 2) then. */
  const unsigned at_once = 1u << (29 - bits);
  const float(*rows)[LANES] = x->a->f[x->half];
  for (unsigned start = x->first; start < x->first + x->n; start += at_once) {
    Ints s00 = {}, s01 = {}, s10 = {}, s11 = {};
    const unsigned end = MIN(start + at_once, x->first + x->n);
    for (unsigned i = start; i < end; i++) {
      const Floats *a = (const Floats *)&rows[i][x->lane];
      const Floats b0 = simd_repeat(x->b->f[0][i]), b1 = simd_repeat(x->b->f[1][i]);
      s00 += __builtin_convertvector(a[0] * b0 * scale[0][0], Ints);
      s01 += __builtin_convertvector(a[1] * b0 * scale[0][1], Ints);
      s10 += __builtin_convertvector(a[0] * b1 * scale[1][0], Ints);
      s11 += __builtin_convertvector(a[1] * b1 * scale[1][1], Ints);
    }
    const Ints part[2][2] = {{s00, s01}, {s10, s11}};
    for (unsigned p = 0; p < 2; p++)
      for (unsigned u = 0; u < 2; u++) {
        Doubles wide[2];
        simd_widen_ints(part[p][u], wide);
        sum[p][u][0] += wide[0];
        sum[p][u][1] += wide[1];
      }
  }
  for (unsigned p = 0; p < 2; p++)
    for (unsigned u = 0; u < 2; u++) {
      Floats after = cut(sum[p][u], top[p][u], x->model);
      if (simd_any(bad[p][u])) after = repair(x, bad[p][u], before[p][u], after, p, u);
      ((Floats *)acc[p])[u] = after;
    }
}

static void run_hardware(uint32_t *const *acc, const ProductRows *a, const ProductTile *b, unsigned tiles,
                         unsigned halves, unsigned k, ProductModel model)
{
  AlignedBlock x = {.a = a, .model = &model};
  unsigned step = model.step && model.step < k ? model.step : k;
  for (unsigned t = 0; t < tiles; t++)
    for (unsigned h = 0; h < halves; h++) {
      bool special = a->special || b[t].special;
      /* rows of zeros, as beyond a tensor's edge, change nothing */
      if (!a->any[h] && !special && model.bits >= 24) continue;
      x.b = &b[t];
      x.half = h;
      for (unsigned c = 0; c < LANES; c += 2 * SIMD_WIDTH)
        for (unsigned first = 0; first < k; first += step) {
          float *const at[2] = {(float *)acc[4 * t + 2 * h] + c, (float *)acc[4 * t + 2 * h + 1] + c};
          x.lane = c;
          x.first = first;
          x.n = MIN(step, k - first);
          add_aligned(&x, at, special);
        }
    }
}

static bool supported(void)
{
#if SIMD_WIDTH == 16
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#elif SIMD_WIDTH == 8
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return true;
#endif
}

const ProductKernels PRODUCT_KERNELS = {
    .name = SIMD_NAME,
    .supported = supported,
    .load_rows = load_rows,
    .load_tile = load_tile,
    .load_tile_across = load_tile_across,
    .single = run_single,
    .integer = run_integer,
    .hardware = run_hardware,
};
