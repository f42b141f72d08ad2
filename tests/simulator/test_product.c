/* The inner loops of matrix products: every instruction set this machine has, against a sum written down in
 * integers. Random operands of every type, also subnormal, huge, zero, infinite and NaN. */
#include "simulator/product.h"
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
// clang-format on
#include <stdio.h>

#define TILES  2
#define KINDS  8
#define ROUNDS (8 * KINDS)

static const ProductKernels *const all_kernels[] = {
    &product_kernels_base,
#ifdef __x86_64__
    &product_kernels_avx2,
    &product_kernels_avx512,
#endif
};

static uint64_t state;

static uint32_t chance(void)
{
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return (uint32_t)(state >> 32);
}

/* --- one element, in integers --- */

typedef __int128 Wide;

/* x = *mantissa * 2^result */
static int split(float x, int64_t *mantissa)
{
  int e;
  float m = frexpf(x, &e);
  *mantissa = (int64_t)ldexpf(m, 24);
  return e - 24;
}

/* mantissa * 2^exponent in units of 2^unit, cut towards zero */
static int64_t aligned(Wide mantissa, int exponent, int unit)
{
  if (mantissa == 0) return 0;
  Wide magnitude = mantissa < 0 ? -mantissa : mantissa;
  int shift = exponent - unit;
  magnitude = shift >= 0 ? magnitude << shift : shift > -100 ? magnitude >> -shift : 0;
  return (int64_t)(mantissa < 0 ? -magnitude : magnitude);
}

static int leading(float x)
{
  int e;
  frexpf(x, &e);
  return e - 1;
}

static float expected_step(const float *a, const float *b, float c, unsigned n, const ProductModel *model)
{
  const unsigned bits = model->bits;
  double plain = c;
  bool finite = isfinite(c), zero = c == 0;
  int top = c == 0 ? -10000 : MAX(leading(c), -126);
  for (unsigned i = 0; i < n; i++) {
    plain += (double)a[i] * (double)b[i];
    finite &= isfinite(a[i]) && isfinite(b[i]);
    if (!finite || a[i] == 0 || b[i] == 0) continue;
    zero = false;
    top = MAX(top, MAX(leading(a[i]), model->lowest_a) + MAX(leading(b[i]), model->lowest_b));
  }
  if (!finite) return isnan(plain) ? bits_float(0x7fffffff) : (float)plain;
  if (zero) return 0;
  int unit = top - (int)bits;
  int64_t m, ma, mb;
  int e = split(c, &m);
  int64_t sum = aligned(m, e, unit);
  for (unsigned i = 0; i < n; i++) {
    int ea = split(a[i], &ma), eb = split(b[i], &mb);
    sum += aligned((Wide)ma * mb, ea + eb, unit);
  }
  uint64_t magnitude = (uint64_t)(sum < 0 ? -sum : sum);
  unsigned width = magnitude ? 64 - (unsigned)__builtin_clzll(magnitude) : 0, keep = model->significand;
  if (width > keep) {
    bool lost = magnitude & ((UINT64_C(1) << (width - keep)) - 1);
    magnitude = magnitude >> (width - keep) << (width - keep);
    if (lost && model->odd) magnitude |= UINT64_C(1) << (width - keep);
  }
  float result = (float)ldexp((double)magnitude, unit);
  return sum < 0 ? -result : result;
}

static float expected(const float *a, const float *b, float c, unsigned k, ProductModel model)
{
  unsigned step = model.step && model.step < k ? model.step : k;
  for (unsigned first = 0; first < k; first += step)
    c = expected_step(a + first, b + first, c, MIN(step, k - first), &model);
  return c;
}

/* --- operands by chance --- */

typedef struct Form {
  PtxType type;
  unsigned k, bits, step;
  bool half; /* the accumulator is f16 */
} Form;

static const Form forms[] = {
    {TYPE_F16, 16, 25, 0},        {TYPE_BF16, 16, 25, 0},  {TYPE_BF16, 16, 24, 8},
    {TYPE_F16, 8, 24, 0},         {TYPE_TF32, 8, 25, 0},   {TYPE_TF32, 8, 24, 4},
    {TYPE_E4M3, 32, 13, 0},       {TYPE_E5M2, 32, 13, 16}, {TYPE_BF16, 16, 26, 0},
    {TYPE_E4M3, 32, 25, 0},       {TYPE_TF32, 32, 26, 16}, {TYPE_F16, 16, 25, 0, true},
    {TYPE_E5M2, 32, 13, 0, true},
};

static ProductModel model_of(const Form *form)
{
  return product_model_of(form->bits, form->step, form->type, form->type, form->half ? TYPE_F16 : TYPE_F32);
}

static unsigned width_of(PtxType type)
{
  return type == TYPE_TF32 ? 32 : type == TYPE_F16 || type == TYPE_BF16 ? 16 : 8;
}

/* kind 0: near one; 1: any bits but infinities and NaN; 2: any bits at all; 3: subnormal; 4: huge; 5: mostly
 * zero; 6: all mantissa bits set, so that sums are as large as they can be; 7: so small or large that the
 * exponents pass through the limits of the fast loops */
static uint32_t element(PtxType type, unsigned kind)
{
  static const uint32_t full[] = {0x3fffe000, 0x3fff, 0x3fff, 0x3f, 0x3f};
  unsigned which = type == TYPE_TF32   ? 0
                   : type == TYPE_F16  ? 1
                   : type == TYPE_BF16 ? 2
                   : type == TYPE_E4M3 ? 3
                                       : 4;
  if (kind == 6) return full[which];
  if (kind == 7 && width_of(type) == 16 && type == TYPE_BF16)
    return (64 + 12 * (chance() & 1) + chance() % 8) << 7 | chance() % 128;
  for (;;) {
    uint32_t bits = chance() & (uint32_t)((1ull << width_of(type)) - 1);
    float f = product_float(type, bits);
    bool ok = kind == 2 || isfinite(f);
    if (kind == 0) ok = ok && fabsf(f) < 4 && fabsf(f) > 0.01f;
    if (kind == 3)
      bits &= type == TYPE_TF32   ? 0x807fffff
              : type == TYPE_BF16 ? 0x807f
              : type == TYPE_F16  ? 0x83ff
              : type == TYPE_E4M3 ? 0x87
                                  : 0x83;
    if (kind == 4 && type != TYPE_E4M3) ok = ok && fabsf(f) >= 16384;
    if (kind == 5 && chance() % 4) return 0;
    if (ok || kind == 3) return bits;
  }
}

static float start(unsigned kind)
{
  float f = bits_float(chance());
  if (kind == 2) return f;
  if (kind == 6) return bits_float(0x3f7fffff);
  if (kind == 7) return bits_float((16 + chance() % 40) << 23 | chance() % (1 << 23));
  if (kind == 5) return chance() & 1 ? 0.0f : -0.0f;
  if (kind == 3) return bits_float(chance() & 0x80ffffff);
  while (!isfinite(f) || (kind == 0 && fabsf(f) > 64))
    f = bits_float(chance());
  return f;
}

typedef struct Operands {
  float a[16][PRODUCT_MAX_K], b[8 * TILES][PRODUCT_MAX_K], c[16][8 * TILES];
  uint32_t va[2][8][LANES], vb[TILES][8][LANES], across[TILES][PRODUCT_MAX_K][4]; /* registers */
} Operands;

static void put(uint32_t *v, unsigned shift, uint32_t bits)
{
  *v |= bits << shift;
}

static void fill(Operands *o, const Form *form, unsigned kind)
{
  unsigned width = width_of(form->type), e = 32 / width;
  *o = (Operands){0};
  for (unsigned k = 0; k < form->k; k++) {
    unsigned reg = k / (4 * e), q = k % (4 * e) / e, shift = k % e * width;
    for (unsigned r = 0; r < 16; r++) {
      uint32_t bits = element(form->type, kind == 5 && r < 8 ? 0 : kind);
      if (kind == 5 && r >= 8) bits = 0; /* half of A is zero */
      o->a[r][k] = product_float(form->type, bits);
      put(&o->va[r / 8][reg][4 * (r % 8) + q], shift, bits);
    }
    for (unsigned n = 0; n < 8 * TILES; n++) {
      uint32_t bits = element(form->type, kind);
      o->b[n][k] = product_float(form->type, bits);
      put(&o->vb[n / 8][reg][4 * (n % 8) + q], shift, bits);
      if (width == 16) put(&o->across[n / 8][k][n % 8 / 2], 16 * (n & 1), bits);
    }
  }
  for (unsigned r = 0; r < 16; r++)
    for (unsigned n = 0; n < 8 * TILES; n++)
      o->c[r][n] = start(kind);
}

typedef struct Loaded {
  ProductRows rows;
  ProductTile tiles[TILES];
  uint32_t acc[4 * TILES][LANES] __attribute__((aligned(64)));
  uint32_t *pointers[4 * TILES];
} Loaded;

static void place(unsigned reg, unsigned lane, unsigned *row, unsigned *column)
{
  *row = lane / 4 + 8 * (reg >> 1 & 1);
  *column = 8 * (reg >> 2) + 2 * (lane % 4) + (reg & 1);
}

static void load(Loaded *x, const Operands *o, const Form *form, const ProductKernels *kernels, bool across)
{
  ProductFormat format = {.type = form->type, .exponents = true, .lowest = model_of(form).lowest_a};
  unsigned per = 4 * (32 / width_of(form->type));
  memset(x, 0xa5, sizeof *x); /* what is not loaded must not matter */
  x->rows.any[0] = x->rows.any[1] = 0;
  x->rows.special = false;
  for (unsigned r = 0; r < form->k / per; r++)
    for (unsigned half = 0; half < 2; half++)
      kernels->load_rows(&x->rows, format, o->va[half][r], half, per * r);
  for (unsigned t = 0; t < TILES; t++) {
    x->tiles[t].special = false;
    for (unsigned r = 0; r < form->k / per && !across; r++)
      kernels->load_tile(&x->tiles[t], format, o->vb[t][r], per * r);
    if (across) kernels->load_tile_across(&x->tiles[t], format, o->across[t][0], form->k);
  }
  for (unsigned i = 0; i < 4 * TILES; i++) {
    x->pointers[i] = x->acc[i];
    for (unsigned l = 0; l < LANES; l++) {
      unsigned row, column;
      place(i, l, &row, &column);
      x->acc[i][l] = float_bits(o->c[row][column]);
    }
  }
}

static void compare(const Loaded *x, const Operands *o, const Form *form, const char *name, unsigned kind)
{
  const ProductModel model = model_of(form);
  for (unsigned i = 0; i < 4 * TILES; i++)
    for (unsigned l = 0; l < LANES; l++) {
      unsigned row, column;
      place(i, l, &row, &column);
      float want = expected(o->a[row], o->b[column], o->c[row][column], form->k, model);
      uint32_t got = x->acc[i][l];
      /* rows of zeros leave the accumulator as it is, its sign and its NaN included */
      bool kept = kind == 5 && row >= 8 && got == float_bits(o->c[row][column]);
      if (got == float_bits(want) || kept) continue;
      fail_msg("%s, %s, %u bits, kind %u, register %u lane %u: %08x instead of %08x", name,
               ptx_type_name(form->type), form->bits, kind, i, l, got, float_bits(want));
    }
}

static void test_hardware_width(void **unused)
{
  Operands *o = g_new(Operands, 1);
  Loaded *x = g_aligned_alloc(1, sizeof(Loaded), 64);
  state = 20260101;
  for (unsigned f = 0; f < G_N_ELEMENTS(forms); f++)
    for (unsigned round = 0; round < ROUNDS; round++) {
      const Form *form = &forms[f];
      unsigned kind = round % KINDS;
      fill(o, form, kind);
      for (unsigned i = 0; i < G_N_ELEMENTS(all_kernels); i++) {
        if (!all_kernels[i]->supported()) continue;
        bool across = width_of(form->type) == 16 && round & 1;
        load(x, o, form, all_kernels[i], across);
        all_kernels[i]->hardware(x->pointers, &x->rows, x->tiles, TILES, 2, form->k, model_of(form));
        compare(x, o, form, all_kernels[i]->name, kind);
      }
    }
  g_aligned_free(x);
  g_free(o);
}

/* The scalar path must be the same function, not only the one that catches what the loops leave. */
static void test_scalar_path(void **unused)
{
  Operands *o = g_new(Operands, 1);
  Loaded *x = g_aligned_alloc(1, sizeof(Loaded), 64);
  state = 7;
  for (unsigned f = 0; f < G_N_ELEMENTS(forms); f++)
    for (unsigned kind = 0; kind < KINDS; kind += kind == 4 ? 2 : 1) {
      const Form *form = &forms[f];
      fill(o, form, kind);
      load(x, o, form, &product_kernels_base, false);
      for (unsigned l = 0; l < LANES; l++) {
        const ProductModel model = model_of(form);
        float got = product_element(&x->rows.f[0][0][l], LANES, &x->tiles[0].f[1][0][l & 3], 4, o->c[0][0],
                                    form->k, &model);
        float want = expected_step(o->a[l / 4], o->b[2 * (l % 4) + 1], o->c[0][0], form->k, &model);
        assert_int_equal(float_bits(got), float_bits(want));
      }
    }
  g_aligned_free(x);
  g_free(o);
}

/* Sums of a few small integers are exact in any order and width. */
static void test_single(void **unused)
{
  static const Form form = {TYPE_F16, 16, 25, 0};
  Operands *o = g_new(Operands, 1);
  Loaded *x = g_aligned_alloc(1, sizeof(Loaded), 64);
  state = 3;
  fill(o, &form, 5);
  for (unsigned half = 0; half < 2; half++)
    for (unsigned r = 0; r < 2; r++)
      for (unsigned l = 0; l < LANES; l++)
        for (unsigned h = 0; h < 2; h++) {
          int v = (int)(chance() % 17) - 8;
          unsigned k = 8 * r + 2 * (l % 4) + h;
          o->a[8 * half + l / 4][k] = (float)v;
          ((uint16_t *)&o->va[half][r][l])[h] = float_half((float)v);
          for (unsigned t = 0; t < TILES; t++) {
            v = (int)(chance() % 17) - 8;
            o->b[8 * t + l / 4][k] = (float)v;
            ((uint16_t *)&o->vb[t][r][l])[h] = float_half((float)v);
          }
        }
  for (unsigned i = 0; i < G_N_ELEMENTS(all_kernels); i++) {
    if (!all_kernels[i]->supported()) continue;
    load(x, o, &form, all_kernels[i], false);
    all_kernels[i]->single(x->pointers, &x->rows, x->tiles, TILES, 2, form.k);
    for (unsigned r = 0; r < 4 * TILES; r++)
      for (unsigned l = 0; l < LANES; l++) {
        unsigned row, column;
        place(r, l, &row, &column);
        float want = o->c[row][column];
        for (unsigned k = 0; k < 16; k++)
          want += o->a[row][k] * o->b[column][k];
        assert_true(bits_float(x->acc[r][l]) == want);
      }
  }
  g_aligned_free(x);
  g_free(o);
}

/* S8 times U8 and negated operands. */
static void test_integer_and_sign(void **unused)
{
  uint32_t va[LANES] __attribute__((aligned(64))), vb[LANES] __attribute__((aligned(64)));
  Loaded *x = g_aligned_alloc(1, sizeof(Loaded), 64);
  state = 11;
  for (unsigned l = 0; l < LANES; l++) {
    va[l] = chance();
    vb[l] = chance();
  }
  for (unsigned i = 0; i < G_N_ELEMENTS(all_kernels); i++) {
    const ProductKernels *kernels = all_kernels[i];
    if (!kernels->supported()) continue;
    memset(x, 0, sizeof *x);
    kernels->load_rows(&x->rows, (ProductFormat){.type = TYPE_S8, .integer = true}, va, 0, 0);
    kernels->load_tile(x->tiles, (ProductFormat){.type = TYPE_U8, .integer = true}, vb, 0);
    for (unsigned r = 0; r < 4; r++)
      x->pointers[r] = x->acc[r];
    kernels->integer(x->pointers, &x->rows, x->tiles, 1, 1, 16);
    for (unsigned l = 0; l < LANES; l++) {
      int32_t want = 0;
      for (unsigned k = 0; k < 16; k++)
        want += (int8_t)(va[l / 4 * 4 + k / 4] >> k % 4 * 8) *
                (uint8_t)(vb[4 * (2 * (l % 4) + 1) + k / 4] >> k % 4 * 8);
      assert_int_equal((int32_t)x->acc[1][l], want);
    }
    kernels->load_rows(&x->rows, (ProductFormat){.type = TYPE_BF16, .negate = true}, va, 1, 8);
    for (unsigned l = 0; l < LANES; l++)
      assert_int_equal(float_bits(x->rows.f[1][8 + 3][l]), (va[l / 4 * 4 + 1] & 0xffff0000) ^ 0x80000000u);
  }
  g_aligned_free(x);
}

static void test_names(void **unused)
{
  assert_true(product_kernels()->supported());
  for (unsigned i = 0; i < G_N_ELEMENTS(all_kernels); i++)
    print_message("%s: %s\n", all_kernels[i]->name, all_kernels[i]->supported() ? "tested" : "not here");
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_hardware_width),
                                     cmocka_unit_test(test_scalar_path), cmocka_unit_test(test_single),
                                     cmocka_unit_test(test_integer_and_sign), cmocka_unit_test(test_names)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
