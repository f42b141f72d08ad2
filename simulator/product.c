/* Matrix products apart from their inner loops, which are in product_kernel.c. */
#include "simulator/product.h"
#include <math.h>
#include <string.h>

static void run_exact(uint32_t *const *acc, const ProductRows *a, const ProductTile *b, unsigned tiles,
                      unsigned halves, unsigned k)
{
  for (unsigned t = 0; t < tiles; t++)
    for (unsigned r = 0; r < 2 * halves; r++) {
      float *d = (float *)acc[4 * t + r];
      double s[LANES] = {0};
      for (unsigned i = 0; i < k; i++)
        for (unsigned l = 0; l < LANES; l++)
          s[l] += (double)a->f[r >> 1][i][l] * (double)b[t].f[r & 1][i][l & 3];
      for (unsigned l = 0; l < LANES; l++)
        d[l] = (float)(s[l] + (double)d[l]);
    }
}

/* Exponents as the adder sees them; zero has none. */
static int exponent_of(float x, int lowest)
{
  return x == 0 ? NO_EXPONENT : MAX(ilogbf(x), lowest);
}

float product_element(const float *a, unsigned step_a, const float *b, unsigned step_b, float c, unsigned n,
                      const ProductModel *model)
{
  const unsigned bits = model->bits;
  int top = exponent_of(c, -126);
  bool finite = isfinite(c);
  double plain = c;
  for (unsigned i = 0; i < n; i++) {
    float x = a[(size_t)i * step_a], y = b[(size_t)i * step_b];
    finite &= isfinite(x) && isfinite(y);
    plain += (double)x * (double)y;
    if (isfinite(x) && isfinite(y))
      top = MAX(top, exponent_of(x, model->lowest_a) + exponent_of(y, model->lowest_b));
  }
  /* infinities and NaN: order and width do not matter */
  if (!finite) return isnan(plain) ? bits_float(0x7fffffff) : (float)plain;
  int up = MIN((int)bits - top, -NO_EXPONENT);
  int64_t sum = (int64_t)ldexp(c, up);
  for (unsigned i = 0; i < n; i++)
    sum += (int64_t)ldexp((double)a[(size_t)i * step_a] * (double)b[(size_t)i * step_b], up);
  /* clearing low bits of the mantissa cuts the number towards zero */
  uint64_t kept = ~((UINT64_C(1) << (53 - model->significand)) - 1);
  uint64_t whole = double_bits((double)sum), cut = whole & kept;
  if (model->odd && cut != whole) cut |= ~kept + 1;
  double result = ldexp(bits_double(cut), -up);
  if (fabs(result) < 0x1p-126) result = trunc(result * 0x1p149) * 0x1p-149;
  return result == 0 ? 0 : (float)result;
}

const ProductKernels *product_kernels(void)
{
#ifdef __x86_64__
  if (product_kernels_avx512.supported()) return &product_kernels_avx512;
  if (product_kernels_avx2.supported()) return &product_kernels_avx2;
#endif
  return &product_kernels_base;
}

/* The smallest exponent of a type's normal numbers. */
static int lowest_exponent(PtxType type)
{
  switch (type) {
  case TYPE_F16:
  case TYPE_E5M2: return -14;
  case TYPE_E4M3: return -6;
  default: return -126;
  }
}

ProductModel product_model_of(unsigned bits, unsigned step, PtxType a, PtxType b, PtxType acc)
{
  return (ProductModel){.bits = bits,
                        .step = step,
                        .significand = acc == TYPE_F16 ? 24 : MIN(24, bits + 1),
                        .lowest_a = lowest_exponent(a),
                        .lowest_b = lowest_exponent(b),
                        .odd = acc == TYPE_F16};
}

ProductModel product_model(const Gpu *gpu, const char *family, PtxType a, PtxType b, PtxType acc)
{
  ProductModel none = {0};
  NumberType na, nb, nc;
  if (!gpu || !number_parse(ptx_type_name(a), &na) || !number_parse(ptx_type_name(b), &nb) ||
      !number_parse(ptx_type_name(acc), &nc))
    return none;
  const GpuProduct *p = gpu_product(gpu, family, na, nb, nc);
  if (!p || p->widened || !fact_known(p->accumulator_bits) || p->accumulator_bits > 26) return none;
  if (!p->accumulator_rounding || strcmp(p->accumulator_rounding, "truncate")) return none;
  return product_model_of((unsigned)p->accumulator_bits,
                          fact_known(p->accumulator_k) ? (unsigned)p->accumulator_k : 0, a, b, acc);
}

void product_run(uint32_t *const *acc, const ProductRows *a, const ProductTile *b, unsigned tiles,
                 unsigned halves, unsigned k, Accumulation mode, ProductModel model)
{
  const ProductKernels *kernels = product_kernels();
  switch (mode) {
  case ACCUMULATE_INTEGER: kernels->integer(acc, a, b, tiles, halves, k); break;
  case ACCUMULATE_HARDWARE: kernels->hardware(acc, a, b, tiles, halves, k, model); break;
  case ACCUMULATE_EXACT: run_exact(acc, a, b, tiles, halves, k); break;
  default: kernels->single(acc, a, b, tiles, halves, k); break;
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
