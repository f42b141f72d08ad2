/* The inner loop of all matrix products. Vector types keep the compiler honest about the shape of the loop.
 */
#include "simulator/product.h"
#include <string.h>

typedef float Floats __attribute__((vector_size(64)));
typedef int32_t Ints __attribute__((vector_size(64)));
typedef double Doubles __attribute__((vector_size(128)));

#define SPREAD(p)                                                                                            \
  {                                                                                                          \
    (p)[0], (p)[1], (p)[2], (p)[3], (p)[0], (p)[1], (p)[2], (p)[3], (p)[0], (p)[1], (p)[2], (p)[3], (p)[0],  \
        (p)[1], (p)[2], (p)[3]                                                                               \
  }

static void run_single(uint32_t *const *acc, const ProductOperands *p, unsigned tiles, unsigned halves,
                       unsigned k)
{
  for (unsigned t = 0; t < tiles; t++)
    for (unsigned parity = 0; parity < 2; parity++) {
      Floats *d0 = (Floats *)acc[4 * t + parity], *d1 = (Floats *)acc[4 * t + 2 * (halves - 1) + parity];
      Floats s00 = d0[0], s01 = d0[1], s10 = d1[0], s11 = d1[1];
      for (unsigned i = 0; i < k; i++) {
        const float *q = p->b.f[t][parity][i];
        const Floats b = SPREAD(q);
        const Floats *a0 = (const Floats *)p->a.f[0][i], *a1 = (const Floats *)p->a.f[1][i];
        s00 += a0[0] * b;
        s01 += a0[1] * b;
        s10 += a1[0] * b;
        s11 += a1[1] * b;
      }
      if (halves == 2) {
        d1[0] = s10;
        d1[1] = s11;
      }
      d0[0] = s00;
      d0[1] = s01;
    }
}

static void run_integer(uint32_t *const *acc, const ProductOperands *p, unsigned tiles, unsigned halves,
                        unsigned k)
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

static void run_exact(uint32_t *const *acc, const ProductOperands *p, unsigned tiles, unsigned halves,
                      unsigned k)
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

void product_run(uint32_t *const *acc, const ProductOperands *p, unsigned tiles, unsigned halves, unsigned k,
                 Accumulation mode)
{
  switch (mode) {
  case ACCUMULATE_INTEGER: run_integer(acc, p, tiles, halves, k); break;
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
