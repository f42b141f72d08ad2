/* mma.sync element by element: what the fast path of exec_matrix.c does not take. Saturating integer
 * products, 4-bit and single-bit elements, double precision of all shapes, m8n8k4 of f16, structured sparsity
 * of A.
 *
 * Fragments are described by where an element is: register and lane of row and column. Floats are added with
 * the width of the executing GPU where its description tells it, else in double and rounded once. */
#include "simulator/exec.h"
#include "simulator/product.h"
#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_K 256

typedef enum { MMA_PRODUCT, MMA_XOR, MMA_AND } MmaOperation;

typedef struct GeneralProduct {
  unsigned m, n, k, stored_k; /* stored_k: columns of A in its registers; half of k if it is sparse */
  PtxType a, b, c, d;
  unsigned na, nb, nc, nd, bits; /* registers; bits of an element of A and B */
  bool column_a, row_b;          /* m8n8k4 of f16 only */
  bool quad_pairs;               /* m8n8k4 of f16: four products at once */
  bool saturate, sparse;
  MmaOperation operation;
  uint8_t rounding;
  uint32_t metadata;
  unsigned selector;
  ProductModel model;
} GeneralProduct;

static double element_value(PtxType type, uint64_t bits)
{
  switch (type) {
  case TYPE_F64: return bits_double(bits);
  case TYPE_S8: return (int8_t)bits;
  case TYPE_U8: return (uint8_t)bits;
  case TYPE_S4: return (int)(bits & 15) - (bits & 8 ? 16 : 0);
  case TYPE_U4: return (double)(bits & 15);
  case TYPE_B1: return (double)(bits & 1);
  case TYPE_S32: return (int32_t)bits;
  default: return product_float(type, (uint32_t)bits);
  }
}

/* Element i of the lane's register r of a list of 32-bit registers (64-bit ones for f64). */
static uint64_t part(const Warp *w, const uint32_t *list, PtxType type, unsigned bits, unsigned r, unsigned i,
                     unsigned lane)
{
  if (type == TYPE_F64) return lane_u64(w, list[r], lane);
  uint32_t v = lane_u32(w, list[r], lane) >> (i * bits % 32);
  return bits == 32 ? v : v & ((1u << bits) - 1);
}

/* Row and column of element i of register r. */
static void place_a(const GeneralProduct *s, unsigned r, unsigned i, unsigned lane, unsigned *row,
                    unsigned *column)
{
  unsigned per = s->bits >= 32 ? 1 : 32 / s->bits, block = s->m == 16 ? r >> 1 : r;
  *row = lane / 4 + (s->m == 16 ? 8 * (r & 1) : 0);
  *column = (4 * block + lane % 4) * per + i;
  if (!s->quad_pairs) return;
  unsigned e = 2 * r + i, high = lane >= 16 ? 4 : 0;
  *row = s->column_a ? e + high : lane % 4 + high;
  *column = s->column_a ? lane % 4 : e;
}

static void place_b(const GeneralProduct *s, unsigned r, unsigned i, unsigned lane, unsigned *row,
                    unsigned *column)
{
  unsigned per = s->bits >= 32 ? 1 : 32 / s->bits;
  *row = (4 * r + lane % 4) * per + i;
  *column = lane / 4;
  if (!s->quad_pairs) return;
  unsigned e = 2 * r + i, high = lane >= 16 ? 4 : 0;
  *row = s->row_b ? lane % 4 : e;
  *column = s->row_b ? e + high : lane % 4 + high;
}

/* e: element of the lane's accumulators, in order */
static void place_c(const GeneralProduct *s, PtxType type, unsigned e, unsigned lane, unsigned *row,
                    unsigned *column)
{
  *row = lane / 4 + 8 * (e >> 1);
  *column = 2 * (lane % 4) + (e & 1);
  if (!s->quad_pairs) return;
  unsigned high = lane >= 16 ? 4 : 0;
  *row = type == TYPE_F16 ? lane % 4 + high : (lane & 1) + (e & 2) + high;
  *column = type == TYPE_F16 ? e : (e & 4) + (lane & 2) + (e & 1);
}

typedef struct Matrices {
  double a[16][MAX_K], b[MAX_K][8], c[16][8];
  bool modelled;             /* added as the GPU's description says */
  uint8_t column[16][MAX_K]; /* of the k-th stored element of a row of A: its row of B */
} Matrices;

/* --- structured sparsity: which of the columns a stored element of A belongs to --- */

/* Bits of the row's metadata, lowest column first. How many lanes of each four hold some depends on how many
 * bits a row has: one (rows g and g + 8 in its halves), two or all. */
static uint64_t row_metadata(const Warp *w, const GeneralProduct *s, unsigned row)
{
  unsigned group = row % 8 * 4, high = row / 8;
  unsigned per_row = s->a == TYPE_TF32 ? 4 * s->stored_k : s->bits == 4 ? s->stored_k : 2 * s->stored_k;
  uint64_t out = 0;
  if (s->bits >= 16) { /* 16 bits of a row in each lane that contributes */
    unsigned lanes = per_row / 16, first = lanes == 1 ? s->selector : s->selector * lanes;
    for (unsigned i = 0; i < lanes; i++)
      out |= (uint64_t)(lane_u32(w, s->metadata, group + first + i) >> (16 * high) & 0xffff) << (16 * i);
    return out;
  }
  unsigned words = per_row / 32, first = words == 1 ? s->selector * 2 : 0; /* 32 bits of a row in each lane */
  for (unsigned i = 0; i < words; i++)
    out |= (uint64_t)lane_u32(w, s->metadata, group + first + 2 * i + high) << (32 * i);
  return out;
}

static unsigned sparse_column(const GeneralProduct *s, uint64_t metadata, unsigned column)
{
  if (s->a == TYPE_TF32) return 2 * column + ((metadata >> (4 * column) & 3) >> 1);
  if (s->bits == 4) { /* pairs of elements: two of four pairs are stored */
    unsigned pair = column / 2;
    return pair / 2 * 8 + 2 * (unsigned)(metadata >> (2 * pair) & 3) + column % 2;
  }
  return column / 2 * 4 + (unsigned)(metadata >> (2 * column) & 3);
}

/* What is not stored takes no part: an infinity in B does not meet a zero there. */
static void place_columns(const Warp *w, const GeneralProduct *s, Matrices *x)
{
  for (unsigned r = 0; r < s->m; r++) {
    uint64_t metadata = s->sparse ? row_metadata(w, s, r) : 0;
    for (unsigned c = 0; c < s->stored_k; c++)
      x->column[r][c] = (uint8_t)(s->sparse ? sparse_column(s, metadata, c) % s->k : c);
  }
}

/* --- one product --- */

static bool takes_part(const GeneralProduct *s, unsigned pair, unsigned lane)
{
  return !s->quad_pairs || lane % 16 / 4 == pair;
}

static unsigned elements_per_register(const GeneralProduct *s)
{
  return s->bits >= 32 ? 1 : 32 / s->bits;
}

/* list: C, A, B, D registers */
static void load(const Warp *w, const Inst *in, const GeneralProduct *s, unsigned pair, Matrices *x)
{
  const uint32_t *lc = in->list, *la = lc + s->nc, *lb = la + s->na;
  unsigned row, column, per = elements_per_register(s);
  for (unsigned l = 0; l < LANES; l++) {
    if (!takes_part(s, pair, l)) continue;
    for (unsigned e = 0; e < s->na * per; e++) {
      place_a(s, e / per, e % per, l, &row, &column);
      x->a[row][column] = element_value(s->a, part(w, la, s->a, s->bits, e / per, e % per, l));
    }
    for (unsigned e = 0; e < s->nb * per; e++) {
      place_b(s, e / per, e % per, l, &row, &column);
      x->b[row][column] = element_value(s->b, part(w, lb, s->b, s->bits, e / per, e % per, l));
    }
    unsigned halves = s->c == TYPE_F16 ? 2 : 1;
    for (unsigned e = 0; e < s->nc * halves; e++) {
      place_c(s, s->c, e, l, &row, &column);
      x->c[row][column] =
          element_value(s->c, part(w, lc, s->c, halves == 2 ? 16 : 32, e / halves, e % halves, l));
    }
  }
}

/* As the hardware adds; see ProductModel. */
static double modelled_element(const GeneralProduct *s, const Matrices *x, unsigned row, unsigned column)
{
  float a[MAX_K], b[MAX_K], sum = (float)x->c[row][column];
  for (unsigned k = 0; k < s->stored_k; k++) {
    a[k] = (float)x->a[row][k];
    b[k] = (float)x->b[x->column[row][k]][column];
  }
  unsigned step = s->model.step ? s->model.step : s->stored_k;
  for (unsigned k = 0; k < s->stored_k; k += step)
    sum = product_element(a + k, 1, b + k, 1, sum, MIN(step, s->stored_k - k), &s->model);
  return sum;
}

static double element_of(const GeneralProduct *s, const Matrices *x, unsigned row, unsigned column)
{
  double sum = x->c[row][column];
  if (s->a == TYPE_F64) {
    for (unsigned k = 0; k < s->k; k++)
      sum = fma(x->a[row][k], x->b[k][column], sum);
    return sum;
  }
  if (x->modelled) return modelled_element(s, x, row, column);
  double products = 0; /* exact for integers */
  for (unsigned k = 0; k < s->stored_k; k++) {
    double p = x->a[row][k], q = x->b[x->column[row][k]][column];
    products += s->operation == MMA_XOR ? (double)(p != q) : p * q;
  }
  sum += products;
  if (s->c != TYPE_S32) return sum;
  if (s->saturate) return CLAMP(sum, INT32_MIN, INT32_MAX);
  return (double)(int32_t)(uint32_t)(int64_t)sum;
}

static void store(Warp *w, const Inst *in, const GeneralProduct *s, unsigned pair, const Matrices *x)
{
  const uint32_t *ld = in->list + s->nc + s->na + s->nb;
  unsigned row, column, halves = s->d == TYPE_F16 ? 2 : 1;
  for (unsigned l = 0; l < LANES; l++) {
    if (!takes_part(s, pair, l)) continue;
    for (unsigned e = 0; e < s->nd * halves; e++) {
      place_c(s, s->d, e, l, &row, &column);
      double v = element_of(s, x, row, column);
      if (s->d == TYPE_F64) {
        ((double *)operand(w, ld[e]))[l] = v;
        continue;
      }
      uint32_t *out = (uint32_t *)operand(w, ld[e / halves]) + l;
      if (s->d == TYPE_S32)
        *out = (uint32_t)(int64_t)v;
      else if (s->d == TYPE_F32)
        *out = isnan(v) ? 0x7fffffff : float_bits((float)v);
      else
        *out = e & 1 ? (*out & 0xffff) | (uint32_t)float_half((float)v) << 16 : float_half((float)v);
    }
  }
}

static Step run_general(Warp *w, const Inst *in, uint32_t mask)
{
  static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  const GeneralProduct *s = in->data;
  uint32_t undefined = 0;
  for (unsigned i = 0; i < in->n_reads; i++)
    undefined |= undefined_lanes(w, in->reads[i]);
  int saved = fegetround();
  if (s->a == TYPE_F64) fesetround(modes[s->rounding & 3]);
  g_autofree Matrices *x = g_new0(Matrices, s->quad_pairs ? 4 : 1);
  for (unsigned pair = 0; pair < (s->quad_pairs ? 4u : 1u); pair++) {
    load(w, in, s, pair, &x[pair]);
    place_columns(w, s, &x[pair]);
    x[pair].modelled = s->model.bits && s->c != TYPE_S32 &&
                       w->block->cluster->run->options->arithmetic == SIM_ARITHMETIC_HARDWARE;
  }
  for (unsigned pair = 0; pair < (s->quad_pairs ? 4u : 1u); pair++)
    store(w, in, s, pair, &x[pair]);
  fesetround(saved);
  for (unsigned i = 0; i < in->n_writes; i++)
    set_undefined(w, in->writes[i], FULL, undefined ? FULL : 0);
  return STEP_NEXT;
}

void product_bind_general(Inst *in, const Gpu *gpu)
{
  if (in->run != run_general) return;
  GeneralProduct *s = in->data;
  if (s->a != TYPE_F64) s->model = product_model(gpu, "warp_mma", s->a, s->b, s->d);
}

/* --- decoding --- */

static unsigned bits_of(PtxType type)
{
  switch (type) {
  case TYPE_B1: return 1;
  case TYPE_S4:
  case TYPE_U4: return 4;
  case TYPE_TF32: return 32;
  default: return ptx_type_bytes(type) * 8;
  }
}

/* X(type of A, bits of its kind, m, k) of products without sparsity; all have n = 8 */
static bool shape_exists(const GeneralProduct *s)
{
  static const struct {
    unsigned bits, m, k;
  } shapes[] = {{64, 8, 4},   {64, 16, 4}, {64, 16, 8},  {64, 16, 16}, {8, 8, 16},  {8, 16, 16},
                {8, 16, 32},  {4, 8, 32},  {4, 16, 32},  {4, 16, 64},  {1, 8, 128}, {1, 16, 128},
                {1, 16, 256}, {16, 16, 8}, {16, 16, 16}, {32, 16, 4},  {32, 16, 8}};
  if (s->quad_pairs) return s->m == 8 && s->k == 4;
  for (unsigned i = 0; i < G_N_ELEMENTS(shapes); i++)
    if (shapes[i].bits == s->bits && shapes[i].m == s->m && shapes[i].k == s->stored_k) return true;
  return false;
}

static bool types_exist(const GeneralProduct *s)
{
  switch (s->a) {
  case TYPE_F64: return s->b == TYPE_F64 && s->c == TYPE_F64 && s->d == TYPE_F64 && !s->sparse;
  case TYPE_S8:
  case TYPE_U8:
  case TYPE_S4:
  case TYPE_U4:
    return bits_of(s->b) == s->bits && s->b != TYPE_E4M3 && s->b != TYPE_E5M2 && s->c == TYPE_S32 &&
           s->d == TYPE_S32;
  case TYPE_B1: return s->b == TYPE_B1 && s->c == TYPE_S32 && s->d == TYPE_S32 && !s->sparse;
  case TYPE_F16:
    return s->b == TYPE_F16 && (s->c == TYPE_F16 || s->c == TYPE_F32) &&
           (s->d == TYPE_F16 || s->d == TYPE_F32);
  case TYPE_BF16:
  case TYPE_TF32: return s->b == s->a && s->c == TYPE_F32 && s->d == TYPE_F32;
  case TYPE_E4M3:
  case TYPE_E5M2:
    return (s->b == TYPE_E4M3 || s->b == TYPE_E5M2) && s->c == s->d && (s->c == TYPE_F16 || s->c == TYPE_F32);
  default: return false;
  }
}

static bool count_registers(GeneralProduct *s)
{
  s->bits = bits_of(s->a);
  s->stored_k = s->sparse ? s->k / 2 : s->k;
  s->quad_pairs = s->a == TYPE_F16 && s->m == 8;
  if (s->n != 8 || !types_exist(s) || !shape_exists(s)) return false;
  if (!s->quad_pairs && (s->column_a || s->row_b)) return false;
  unsigned per = elements_per_register(s);
  s->na = s->quad_pairs ? 2 : s->m * s->stored_k / (32 * per);
  s->nb = s->quad_pairs ? 2 : s->k * 8 / (32 * per);
  unsigned elements = s->quad_pairs ? 8 : s->m / 4;
  s->nc = s->c == TYPE_F16 ? elements / 2 : elements;
  s->nd = s->d == TYPE_F16 ? elements / 2 : elements;
  return true;
}

static void take_registers(Decoder *d, const GeneralProduct *s)
{
  const PtxOperand *items[4];
  const unsigned wanted[4] = {s->nd, s->na, s->nb, s->nc};
  for (unsigned i = 0; i < 4; i++) {
    unsigned n = elements(operand_at(d, i), &items[i]);
    if (n != wanted[i]) {
      decode_wrong(d, "%u registers in operand %u; the shape needs %u", n, i + 1, wanted[i]);
      return;
    }
  }
  uint32_t *list = new_list(d, s->nc + s->na + s->nb + s->nd);
  PtxType type = s->a == TYPE_F64 ? TYPE_F64 : TYPE_B32;
  for (unsigned i = 0; i < s->nc; i++)
    *list++ = source(d, &items[3][i], type);
  for (unsigned i = 0; i < s->na; i++)
    *list++ = source(d, &items[1][i], type);
  for (unsigned i = 0; i < s->nb; i++)
    *list++ = source(d, &items[2][i], type);
  for (unsigned i = 0; i < s->nd; i++)
    *list++ = destination(d, &items[0][i], type);
}

static void take_metadata(Decoder *d, GeneralProduct *s)
{
  s->metadata = source_at(d, 4, TYPE_B32);
  s->selector = (unsigned)immediate_at(d, 5);
  unsigned per_row = s->a == TYPE_TF32 ? 4 * s->stored_k : s->bits == 4 ? s->stored_k : 2 * s->stored_k;
  if (s->selector >= 64 / per_row) decode_wrong(d, "sparsity selector %u", s->selector);
}

static bool take_shape(Decoder *d, GeneralProduct *s)
{
  for (unsigned i = 1; i < d->source->n_parts; i++)
    if (sscanf(d->source->parts[i], "m%un%uk%u", &s->m, &s->n, &s->k) == 3) {
      d->taken |= 1ull << i;
      return true;
    }
  return false;
}

void decode_mma_general(Decoder *d, int is_sparse)
{
  static const char *const layouts[] = {"row", "col", NULL};
  static const char *const bit_operations[] = {"xor", "and", NULL};
  Inst *in = d->in;
  GeneralProduct *s = arena_new_object(d->kernel->arena, GeneralProduct);
  int a = 0, b = 1, which = -1;
  s->sparse = is_sparse;
  /* .row.col: the first stands for A, so they are taken in order */
  bool whole = take_shape(d, s) && take(d, "sync") && take(d, "aligned");
  for (unsigned i = 1, seen = 0; i < d->source->n_parts; i++)
    for (int k = 0; k < 2; k++)
      if (strcmp(d->source->parts[i], layouts[k]) == 0) {
        *(seen++ ? &b : &a) = k;
        d->taken |= 1ull << i;
      }
  s->column_a = a == 1;
  s->row_b = b == 0;
  s->saturate = take(d, "satfinite");
  if (take_one(d, bit_operations, &which)) s->operation = which ? MMA_AND : MMA_XOR;
  s->rounding = (uint8_t)take_rounding(d, ROUND_NEAREST);
  s->d = need_type(d);
  s->a = need_type(d);
  s->b = need_type(d);
  s->c = need_type(d);
  bool bits = s->a == TYPE_B1;
  if (!whole || !count_registers(s) || bits != (which >= 0) || bits != take(d, "popc") ||
      operand_count(d) != (s->sparse ? 6 : 4) || (s->saturate && s->c != TYPE_S32)) {
    decode_fail(d, "this shape and these types are not supported");
    return;
  }
  take_registers(d, s);
  if (s->sparse) take_metadata(d, s);
  in->data = s;
  in->flags |= INST_ALIGNED | INST_CUSTOM;
  in->run = run_general;
}
