/* Matrix products: fragments of a warp, the inner loop, and what is in flight of a warpgroup. */
#pragma once
#include "simulator/machine.h"

/* Operands of one warp's product, spread out for the inner loop:
 *   a[half][k][lane]: element (row lane / 4 + 8 * half, k)
 *   b[tile][parity][k][4]: element (k, column 8 * tile + 2 * q + parity) for q = lane % 4
 * so that accumulator register i of tile t, 4 * t + 2 * half + parity, is a loop over lanes without any
 * gather. */
#define PRODUCT_MAX_K 32
#define PRODUCT_MAX_N 256
typedef struct ProductOperands {
  union {
    float f[2][PRODUCT_MAX_K][LANES];
    int32_t i[2][PRODUCT_MAX_K][LANES];
  } a __attribute__((aligned(64)));
  union {
    float f[PRODUCT_MAX_N / 8][2][PRODUCT_MAX_K][4];
    int32_t i[PRODUCT_MAX_N / 8][2][PRODUCT_MAX_K][4];
  } b __attribute__((aligned(64)));
} ProductOperands;

typedef enum { ACCUMULATE_SINGLE, ACCUMULATE_EXACT, ACCUMULATE_INTEGER, ACCUMULATE_HARDWARE } Accumulation;

/* How the executing GPU adds: products and accumulator of `step` values of k are aligned to the largest
 * exponent (the sum of the factors' exponents), cut off `bits` places behind it, added exactly, and cut to
 * the result's precision. Agrees bit for bit with what was recorded on hardware. bits 0: not known. */
typedef struct ProductModel {
  unsigned bits, step;
} ProductModel;
ProductModel product_model(const Gpu *gpu, const char *family, PtxType a, PtxType b, PtxType acc);
void product_bind(Inst *in, const Gpu *gpu);       /* exec_matrix.c: mma.sync */
void product_bind_group(Inst *in, const Gpu *gpu); /* exec_product.c: wgmma */

/* acc[4 * tile + 2 * half + parity] += a * b for every tile; halves: 1 or 2. */
void product_run(uint32_t *const *acc, const ProductOperands *p, unsigned tiles, unsigned halves, unsigned k,
                 Accumulation mode, ProductModel model);

static inline Accumulation accumulation(const Warp *w, Accumulation mode, ProductModel model)
{
  if (mode != ACCUMULATE_SINGLE) return mode;
  switch (w->block->cluster->run->options->arithmetic) {
  case SIM_ARITHMETIC_EXACT: return ACCUMULATE_EXACT;
  case SIM_ARITHMETIC_FAST: return ACCUMULATE_SINGLE;
  default: return model.bits ? ACCUMULATE_HARDWARE : ACCUMULATE_SINGLE;
  }
}

/* One element of an operand as a float (or integer) for the loop above. */
float product_float(PtxType type, uint32_t bits);

/* Registers of a warp-level operand into the form above: half and base say where the register's elements
 * belong. */
void product_load_a(ProductOperands *p, PtxType type, bool integer, bool negate, const uint32_t *v,
                    unsigned half, unsigned base);
void product_load_b(ProductOperands *p, PtxType type, bool integer, const uint32_t *v, unsigned base);

typedef struct Product {
  const Inst *in;
  uint64_t a, b; /* descriptors; a unused with register A */
  bool scale_d, landed;
  uint8_t token;
  uint32_t group, index; /* index: counts the warp's products, the same in all four warps */
} Product;

/* B of the product a warpgroup works on, spread out once for its four warps. */
typedef struct ProductCache {
  ProductOperands operands;
  const Inst *in; /* NULL: empty */
  uint32_t index;
  uint64_t b, columns[4]; /* columns: those with undefined bytes */
} ProductCache;

/* The instruction whose registers carry the token, NULL if it is gone. */
const Inst *product_of_token(const Warp *w, uint8_t token);
