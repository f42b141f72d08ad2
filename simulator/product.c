/* The inner loop of all matrix products. Vector types keep the compiler honest about the shape of the loop.
 */
#include "simulator/product.h"
#include "simulator/lanes.h"
#include <math.h>
#include <string.h>

typedef float Floats __attribute__((vector_size(64)));
typedef int32_t Ints __attribute__((vector_size(64)));

#define SPREAD(p)                                                                                            \
  {                                                                                                          \
    (p)[0], (p)[1], (p)[2], (p)[3], (p)[0], (p)[1], (p)[2], (p)[3], (p)[0], (p)[1], (p)[2], (p)[3], (p)[0],  \
        (p)[1], (p)[2], (p)[3]                                                                               \
  }

VECTORISED static void run_single(uint32_t *const *acc, const ProductOperands *p, unsigned tiles,
                                  unsigned halves, unsigned k)
{
  for (unsigned t = 0; t < tiles; t++) {
    uint32_t *const *c = acc + 4 * t;
    unsigned h = 2 * (halves - 1);
    Floats *d[4] = {(Floats *)c[0], (Floats *)c[1], (Floats *)c[h], (Floats *)c[h + 1]};
    Floats s00 = d[0][0], s01 = d[0][1], s10 = d[1][0], s11 = d[1][1];
    Floats u00 = d[2][0], u01 = d[2][1], u10 = d[3][0], u11 = d[3][1];
    for (unsigned i = 0; i < k; i++) {
      const float *q = p->b.f[t][0][i], *r = p->b.f[t][1][i];
      const Floats b0 = SPREAD(q), b1 = SPREAD(r);
      const Floats *a0 = (const Floats *)p->a.f[0][i], *a1 = (const Floats *)p->a.f[1][i];
      s00 += a0[0] * b0;
      s01 += a0[1] * b0;
      s10 += a0[0] * b1;
      s11 += a0[1] * b1;
      u00 += a1[0] * b0;
      u01 += a1[1] * b0;
      u10 += a1[0] * b1;
      u11 += a1[1] * b1;
    }
    if (halves == 2) {
      d[2][0] = u00;
      d[2][1] = u01;
      d[3][0] = u10;
      d[3][1] = u11;
    }
    d[0][0] = s00;
    d[0][1] = s01;
    d[1][0] = s10;
    d[1][1] = s11;
  }
}

VECTORISED static void run_integer(uint32_t *const *acc, const ProductOperands *p, unsigned tiles,
                                   unsigned halves, unsigned k)
{
  for (unsigned t = 0; t < tiles; t++)
    for (unsigned parity = 0; parity < 2; parity++)
      for (unsigned h = 0; h < halves; h++) {
        Ints *d = (Ints *)acc[4 * t + 2 * h + parity];
        Ints s0 = d[0], s1 = d[1];
        for (unsigned i = 0; i < k; i++) {
          const int32_t *q = p->b.i[t][parity][i];
          const Ints b = SPREAD(q);
          const Ints *a = (const Ints *)p->a.i[h][i];
          s0 += a[0] * b;
          s1 += a[1] * b;
        }
        d[0] = s0;
        d[1] = s1;
      }
}

VECTORISED static void run_exact(uint32_t *const *acc, const ProductOperands *p, unsigned tiles,
                                 unsigned halves, unsigned k)
{
  for (unsigned t = 0; t < tiles; t++)
    for (unsigned parity = 0; parity < 2; parity++)
      for (unsigned h = 0; h < halves; h++) {
        float *d = (float *)acc[4 * t + 2 * h + parity];
        double s[LANES];
        for (unsigned l = 0; l < LANES; l++)
          s[l] = 0;
        for (unsigned i = 0; i < k; i++)
          for (unsigned l = 0; l < LANES; l++)
            s[l] += (double)p->a.f[h][i][l] * (double)p->b.f[t][parity][i][l & 3];
        for (unsigned l = 0; l < LANES; l++)
          d[l] = (float)(s[l] + (double)d[l]);
      }
}

/* Exponents as the adder sees them; zero has none. */
static int exponent_of(float x)
{
  if (x == 0) return -1000;
  unsigned e = float_bits(x) >> 23 & 255;
  return e ? (int)e - 127 : ilogbf(x);
}

typedef double Doubles __attribute__((vector_size(64)));
typedef int64_t Longs __attribute__((vector_size(64)));
typedef int32_t Halves __attribute__((vector_size(32)));

#define REPEAT(p)                                                                                            \
  {                                                                                                          \
    (p)[0], (p)[1], (p)[2], (p)[3], (p)[0], (p)[1], (p)[2], (p)[3]                                           \
  }

/* Operands of one tile as the adder takes them: values, and exponents beside them. */
typedef struct Aligned {
  double a[2][PRODUCT_MAX_K][LANES], b[2][PRODUCT_MAX_K][4];
  int64_t xa[2][PRODUCT_MAX_K][LANES], xb[2][PRODUCT_MAX_K][4];
  bool finite_a, finite_b, zero_a[2];
} Aligned __attribute__((aligned(64)));

static inline __attribute__((always_inline)) Longs larger(Longs a, Longs b)
{
  Longs first = a > b;
  return (a & first) | (b & ~first);
}

/* One accumulator register: sums of `n` products each with what was there. All values are finite. */
VECTORISED static void add_aligned(const Aligned *x, float *acc, unsigned h, unsigned parity, unsigned first,
                                   unsigned n, unsigned bits)
{
  const int64_t mask = ~(((int64_t)1 << (53 - MIN(24, bits + 1))) - 1);
  const Longs kept = {mask, mask, mask, mask, mask, mask, mask, mask};
  for (unsigned c = 0; c < LANES; c += 8) {
    double start[8];
    int64_t exponent[8];
    for (unsigned l = 0; l < 8; l++) {
      uint32_t u = float_bits(acc[c + l]);
      start[l] = (double)acc[c + l];
      exponent[l] = (u & 0x7fffffff) == 0 ? -1000 : MAX((int64_t)(u >> 23 & 255), 1) - 127;
    }
    Longs top;
    Doubles initial;
    memcpy(&top, exponent, sizeof top);
    memcpy(&initial, start, sizeof initial);
    for (unsigned i = first; i < first + n; i++) {
      const Longs xb = REPEAT(x->xb[parity][i]);
      Longs e = *(const Longs *)&x->xa[h][i][c] + xb;
      top = larger(e, top);
    }
    Longs up = (int64_t)bits - top, limit = (Longs){} + 1000;
    up = -larger(-up, -limit);
    Doubles scale = (Doubles)((up + 1023) << 52), back = (Doubles)((1023 - up) << 52);
    Doubles sum = __builtin_convertvector(__builtin_convertvector(initial * scale, Halves), Doubles);
    /* conversion to integers cuts towards zero; eight terms below 2^28 cannot overflow */
    for (unsigned group = first; group < first + n; group += 8) {
      Halves part = {0};
      for (unsigned i = group; i < MIN(group + 8, first + n); i++) {
        const Doubles b = REPEAT(x->b[parity][i]);
        part += __builtin_convertvector(*(const Doubles *)&x->a[h][i][c] * b * scale, Halves);
      }
      sum += __builtin_convertvector(part, Doubles);
    }
    /* clearing low bits of the mantissa cuts the whole number towards zero */
    Doubles result = (Doubles)((Longs)sum & kept) * back;
    for (unsigned l = 0; l < 8; l++)
      acc[c + l] = (float)result[l];
  }
}

/* Infinities and NaN: order and width do not matter. */
static void add_special(const ProductOperands *p, float *acc, unsigned t, unsigned h, unsigned parity,
                        unsigned k)
{
  for (unsigned l = 0; l < LANES; l++) {
    double sum = acc[l];
    for (unsigned i = 0; i < k; i++)
      sum += (double)p->a.f[h][i][l] * (double)p->b.f[t][parity][i][l & 3];
    acc[l] = isnan(sum) ? bits_float(0x7fffffff) : (float)sum;
  }
}

static void run_hardware(uint32_t *const *acc, const ProductOperands *p, unsigned tiles, unsigned halves,
                         unsigned k, ProductModel model)
{
  Aligned x; /* large: only what is used is set */
  x.finite_a = true;
  for (unsigned h = 0; h < halves; h++) {
    uint32_t any = 0;
    for (unsigned i = 0; i < k; i++)
      for (unsigned l = 0; l < LANES; l += 4) {
        float a = p->a.f[h][i][l]; /* the same in the four lanes of a row */
        int64_t e = exponent_of(a);
        for (unsigned q = 0; q < 4; q++) {
          x.a[h][i][l + q] = a;
          x.xa[h][i][l + q] = e;
        }
        any |= float_bits(a) << 1;
        x.finite_a &= (float_bits(a) & 0x7f800000) != 0x7f800000;
      }
    x.zero_a[h] = !any;
  }
  unsigned step = model.step && model.step < k ? model.step : k;
  for (unsigned t = 0; t < tiles; t++) {
    x.finite_b = true;
    for (unsigned parity = 0; parity < 2; parity++)
      for (unsigned i = 0; i < k; i++)
        for (unsigned q = 0; q < 4; q++) {
          float b = p->b.f[t][parity][i][q];
          x.b[parity][i][q] = b;
          x.xb[parity][i][q] = exponent_of(b);
          x.finite_b &= (float_bits(b) & 0x7f800000) != 0x7f800000;
        }
    for (unsigned r = 0; r < 2 * halves; r++) {
      float *c = (float *)acc[4 * t + r];
      bool finite = x.finite_a && x.finite_b;
      /* rows of zeros, as beyond a tensor's edge, change nothing */
      if (x.zero_a[r >> 1] && finite && model.bits >= 24) continue;
      for (unsigned l = 0; l < LANES; l++)
        finite &= (float_bits(c[l]) & 0x7f800000) != 0x7f800000;
      if (!finite) {
        add_special(p, c, t, r >> 1, r & 1, k);
        continue;
      }
      for (unsigned first = 0; first < k; first += step)
        add_aligned(&x, c, r >> 1, r & 1, first, MIN(step, k - first), model.bits);
    }
  }
}

ProductModel product_model(const Gpu *gpu, const char *family, PtxType a, PtxType b, PtxType acc)
{
  ProductModel none = {0};
  NumberType na, nb, nc;
  if (!gpu || !number_parse(ptx_type_name(a), &na) || !number_parse(ptx_type_name(b), &nb) ||
      !number_parse(ptx_type_name(acc), &nc))
    return none;
  const GpuProduct *p = gpu_product(gpu, family, na, nb, nc);
  if (!p || !fact_known(p->accumulator_bits) || p->accumulator_bits > 26) return none;
  if (!p->accumulator_rounding || strcmp(p->accumulator_rounding, "truncate")) return none;
  return (ProductModel){(unsigned)p->accumulator_bits,
                        fact_known(p->accumulator_k) ? (unsigned)p->accumulator_k : 0};
}

void product_run(uint32_t *const *acc, const ProductOperands *p, unsigned tiles, unsigned halves, unsigned k,
                 Accumulation mode, ProductModel model)
{
  switch (mode) {
  case ACCUMULATE_INTEGER: run_integer(acc, p, tiles, halves, k); break;
  case ACCUMULATE_HARDWARE: run_hardware(acc, p, tiles, halves, k, model); break;
  case ACCUMULATE_EXACT: run_exact(acc, p, tiles, halves, k); break;
  default: run_single(acc, p, tiles, halves, k); break;
  }
}

float product_float(PtxType type, uint32_t bits)
{
  switch (type) {
  case TYPE_F16: return half_float((uint16_t)bits);
  case TYPE_BF16: return bfloat_float((uint16_t)bits);
  case TYPE_TF32: return tf32_float(bits);
  case TYPE_E4M3: return e4m3_table[bits & 255];
  case TYPE_E5M2: return e5m2_table[bits & 255];
  default: return bits_float(bits);
  }
}

static int32_t integer_element(PtxType type, uint32_t bits)
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

/* One element of each lane's register: bits [shift, shift + width) as a float, or as an integer. */
VECTORISED static void elements_of(PtxType type, bool integer, const uint32_t *v, unsigned shift,
                                   uint32_t *out)
{
  if (integer) {
    for (unsigned l = 0; l < LANES; l++)
      out[l] = (uint32_t)integer_element(type, v[l] >> shift);
  } else if (type == TYPE_BF16) {
    for (unsigned l = 0; l < LANES; l++)
      out[l] = v[l] >> shift << 16;
  } else if (type == TYPE_F16) {
    for (unsigned l = 0; l < LANES; l++)
      out[l] = float_bits(half_float((uint16_t)(v[l] >> shift)));
  } else {
    for (unsigned l = 0; l < LANES; l++)
      out[l] = float_bits(product_float(type, v[l] >> shift));
  }
}

/* element (row l/4, k) is needed by every lane of that row */
VECTORISED static void spread_rows(const uint32_t *f, unsigned q, uint32_t *out)
{
  for (unsigned l = 0; l < LANES; l += 4)
    out[l] = out[l + 1] = out[l + 2] = out[l + 3] = f[l + q];
}

void product_load_a(ProductOperands *p, PtxType type, bool integer, bool negate, const uint32_t *v,
                    unsigned half, unsigned base)
{
  unsigned e = per_register(type);
  uint32_t f[LANES];
  for (unsigned h = 0; h < e; h++) {
    elements_of(type, integer, v, h * (32 / e), f);
    for (unsigned l = 0; negate && l < LANES; l++)
      f[l] ^= 0x80000000u;
    for (unsigned q = 0; q < 4; q++)
      spread_rows(f, q, (uint32_t *)p->a.i[half][base + e * q + h]);
  }
}

void product_load_b(ProductOperands *p, PtxType type, bool integer, const uint32_t *v, unsigned base)
{
  unsigned e = per_register(type);
  uint32_t f[LANES];
  for (unsigned h = 0; h < e; h++) {
    elements_of(type, integer, v, h * (32 / e), f);
    for (unsigned q = 0; q < 4; q++)
      for (unsigned n = 0; n < 8; n++)
        p->b.i[0][n & 1][base + e * q + h][n >> 1] = (int32_t)f[4 * n + q];
  }
}
