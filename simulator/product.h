/* Matrix products: fragments of a warp, the inner loops, and what is in flight of a warpgroup. */
#pragma once
#include "simulator/machine.h"

#define PRODUCT_MAX_K 32
#define PRODUCT_MAX_N 256
#define NO_EXPONENT   (-1000) /* of zero */

/* Operands of one warp's product, spread out for the inner loops, which go over the lanes of an accumulator
 * register without any gather. Exponents (base 2, of the leading bit) are there for the widths of the
 * hardware only. */
typedef struct __attribute__((aligned(64))) ProductRows { /* A: element (row lane / 4 + 8 * half, k) */
  union {
    float f[2][PRODUCT_MAX_K][LANES];
    int32_t i[2][PRODUCT_MAX_K][LANES];
  };
  int16_t exponents[2][PRODUCT_MAX_K][LANES];
  uint32_t any[2]; /* bits of all magnitudes: 0 if the half is zero */
  bool special;    /* there are infinities or NaN */
} ProductRows;

typedef struct __attribute__((aligned(64)))
ProductTile { /* eight columns of B: element (k, 2 * q + parity) for q = lane % 4 */
  union {
    float f[2][PRODUCT_MAX_K][4];
    int32_t i[2][PRODUCT_MAX_K][4];
  };
  int16_t exponents[2][PRODUCT_MAX_K][4];
  bool special;
} ProductTile;

typedef enum { ACCUMULATE_SINGLE, ACCUMULATE_EXACT, ACCUMULATE_INTEGER, ACCUMULATE_HARDWARE } Accumulation;

/* How the executing GPU adds: products and accumulator of `step` values of k are aligned to the largest
 * exponent (the sum of the factors' exponents), cut off `bits` places behind it, added exactly, and cut to
 * `significand` bits. A subnormal factor counts with the smallest exponent of its type, since nothing
 * normalises it before the alignment. Agrees bit for bit with what was recorded on hardware
 * (tests/recordings). bits 0: not known. */
typedef struct ProductModel {
  unsigned bits, step;    /* bits at most 26; step 0: all of k */
  unsigned significand;   /* at most 24, the leading bit included */
  int lowest_a, lowest_b; /* the smallest exponents of the factors */
  bool odd; /* an inexact cut makes the last bit 1: a later rounding to fewer bits is then exact */
} ProductModel;
/* The model of a width for factors of types a and b. An f16 accumulator is rounded once, to nearest, from the
 * sum as it is, an f32 accumulator has no more than `bits` places. */
ProductModel product_model_of(unsigned bits, unsigned step, PtxType a, PtxType b, PtxType acc);
ProductModel product_model(const Gpu *gpu, const char *family, PtxType a, PtxType b, PtxType acc);
void product_bind(Inst *in, const Gpu *gpu);         /* exec_matrix.c: mma.sync */
void product_bind_wmma(Inst *in, const Gpu *gpu);    /* exec_wmma.c */
void product_bind_group(Inst *in, const Gpu *gpu);   /* exec_product.c: wgmma */
void product_bind_general(Inst *in, const Gpu *gpu); /* exec_mma_general.c */

/* What operands are made of. */
typedef struct ProductFormat {
  PtxType type;
  bool integer, negate; /* negate: floats only */
  bool exponents;       /* are needed: the mode is ACCUMULATE_HARDWARE */
  int lowest;           /* then: the smallest exponent, see ProductModel */
} ProductFormat;

/* One instruction set's version of the loops. All give the same bits but for `single`, which rounds once per
 * multiply-add where the machine can. Vectors of registers are 32 lanes of 32 bits, aligned to 64 bytes;
 * accumulators are acc[4 * tile + 2 * half + parity]; halves is 1 or 2. */
typedef struct ProductKernels {
  const char *name;
  bool (*supported)(void); /* by the running machine */
  /* A register of A, B: lane 4 * r + q holds the elements k = base + e * q ... of row r (of the half), with e
   * elements per register. Before the first of an operand, rows->any and special are cleared. */
  void (*load_rows)(ProductRows *p, ProductFormat format, const uint32_t *v, unsigned half, unsigned base);
  void (*load_tile)(ProductTile *p, ProductFormat format, const uint32_t *v, unsigned base);
  /* 16-bit elements stored across k: words[4 * k + q] holds columns 2 * q and 2 * q + 1. */
  void (*load_tile_across)(ProductTile *p, ProductFormat format, const uint32_t *words, unsigned k);
  void (*single)(uint32_t *const *acc, const ProductRows *a, const ProductTile *b, unsigned tiles,
                 unsigned halves, unsigned k);
  void (*integer)(uint32_t *const *acc, const ProductRows *a, const ProductTile *b, unsigned tiles,
                  unsigned halves, unsigned k);
  void (*hardware)(uint32_t *const *acc, const ProductRows *a, const ProductTile *b, unsigned tiles,
                   unsigned halves, unsigned k, ProductModel model);
} ProductKernels;

extern const ProductKernels product_kernels_base;
#ifdef __x86_64__
extern const ProductKernels product_kernels_avx2, product_kernels_avx512;
#endif
/* The fastest the machine can run. */
const ProductKernels *product_kernels(void);

/* acc += a * b for every tile. */
void product_run(uint32_t *const *acc, const ProductRows *a, const ProductTile *b, unsigned tiles,
                 unsigned halves, unsigned k, Accumulation mode, ProductModel model);

/* One element by plain arithmetic: c + the n products a[0], a[step_a], ... times b[0], b[step_b], ... For
 * values beyond the range of the fast loops, infinities and NaN. */
float product_element(const float *a, unsigned step_a, const float *b, unsigned step_b, float c, unsigned n,
                      const ProductModel *model);

static inline Accumulation accumulation(const Warp *w, Accumulation mode, ProductModel model)
{
  if (mode != ACCUMULATE_SINGLE) return mode;
  switch (w->block->cluster->run->options->arithmetic) {
  case SIM_ARITHMETIC_EXACT: return ACCUMULATE_EXACT;
  case SIM_ARITHMETIC_FAST: return ACCUMULATE_SINGLE;
  default: return model.bits ? ACCUMULATE_HARDWARE : ACCUMULATE_SINGLE;
  }
}

/* One element of an operand as a float. */
float product_float(PtxType type, uint32_t bits);

/* Sums that become zero are +0, those that are rounded to it among them. */
static inline uint16_t product_half(float sum)
{
  uint16_t h = float_half(sum);
  return h == 0x8000 ? 0 : h;
}

typedef struct Product {
  const Inst *in;
  uint64_t a, b; /* descriptors; a unused with register A */
  bool scale_d, landed;
  uint8_t token;
  uint32_t group, index; /* index: counts the warp's products, the same in all four warps */
} Product;

/* B of the product a warpgroup works on, spread out once for its four warps. */
typedef struct ProductCache {
  ProductTile tiles[PRODUCT_MAX_N / 8];
  ProductRows rows; /* of the warp at work */
  const Inst *in;   /* NULL: empty */
  uint32_t index;
  uint64_t b, columns[4]; /* columns: those with undefined bytes */
} ProductCache;

/* The instruction whose registers carry the token, NULL if it is gone. */
const Inst *product_of_token(const Warp *w, uint8_t token);
