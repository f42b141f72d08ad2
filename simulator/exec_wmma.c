/* wmma.load, wmma.mma, wmma.store: PTX leaves the layout of the fragments open, so here element e of a matrix
 * (row by row) is item e / 32 of lane e % 32; a fragment with room for more holds the elements again. */
#include "simulator/check.h"
#include "simulator/exec.h"
#include "simulator/product.h"
#include "simulator/race.h"
#include <math.h>
#include <string.h>

typedef struct Fragment {
  unsigned rows, columns, registers;
  PtxType type;
  unsigned per_register;
} Fragment;

#define MAX_DEPTH 128
typedef enum { COMBINE_PRODUCT, COMBINE_XOR, COMBINE_AND } Combination; /* the latter two: of single bits */

typedef struct WmmaData {
  Fragment a, b, c, d; /* load and store use d */
  Combination combination;
  bool saturate;
  bool column_major;
  uint32_t stride;
  Space space;
  ProductModel model;
} WmmaData;

static unsigned items_per_register(PtxType type)
{
  switch (type) {
  case TYPE_F16:
  case TYPE_BF16: return 2;
  case TYPE_S8:
  case TYPE_U8: return 4;
  case TYPE_S4:
  case TYPE_U4: return 8;
  case TYPE_B1: return 32;
  default: return 1;
  }
}

static bool decode_shape(Decoder *d, unsigned *m, unsigned *n, unsigned *k)
{
  for (unsigned i = 1; i < d->source->n_parts; i++)
    if (sscanf(d->source->parts[i], "m%un%uk%u", m, n, k) == 3) {
      d->taken |= 1ull << i;
      return *m <= 32 && *n <= 32 && *k <= MAX_DEPTH;
    }
  return false;
}

/* which: 'a', 'b' or the accumulator */
static Fragment fragment(Decoder *d, char which, PtxType type, unsigned m, unsigned n, unsigned k)
{
  Fragment f = {.type = type, .per_register = items_per_register(type)};
  f.rows = which == 'b' ? k : m;
  f.columns = which == 'a' ? k : n;
  f.registers = MAX(f.rows * f.columns / 32 / f.per_register, 1);
  if (type == TYPE_F16 && (which == 'a' || which == 'b')) f.registers = 8;
  if (type == TYPE_TF32 || (type == TYPE_F32 && k == 8 && which != 'c')) f.registers = 4;
  if (type == TYPE_F64) f.registers = MAX(f.rows * f.columns / 32, 1);
  return f;
}

static uint64_t get_item(const Warp *w, const Fragment *f, const uint32_t *list, unsigned element)
{
  unsigned lane = element % 32, item = element / 32;
  if (f->type == TYPE_F64) return lane_u64(w, list[item], lane);
  uint32_t v = lane_u32(w, list[item / f->per_register], lane);
  unsigned bits = 32 / f->per_register;
  return bits == 32 ? v : v >> (item % f->per_register * bits) & ((1u << bits) - 1);
}

static void set_item(Warp *w, const Fragment *f, const uint32_t *list, unsigned element, uint64_t value)
{
  unsigned lane = element % 32, total = f->registers * f->per_register,
           step = MAX(f->rows * f->columns / 32, 1);
  for (unsigned item = element / 32; item < total; item += step) {
    if (f->type == TYPE_F64) {
      ((uint64_t *)operand(w, list[item]))[lane] = value;
      continue;
    }
    uint32_t *v = (uint32_t *)operand(w, list[item / f->per_register]) + lane;
    unsigned bits = 32 / f->per_register, shift = item % f->per_register * bits;
    uint32_t keep = bits == 32 ? 0 : ~(((1u << bits) - 1) << shift);
    *v = (*v & keep) | (uint32_t)value << shift;
  }
}

static Step run_wmma_memory(Warp *w, const Inst *in, uint32_t mask)
{
  const WmmaData *x = in->data;
  const Fragment *f = &x->d;
  unsigned bits = f->type == TYPE_F64 ? 64 : 32 / f->per_register, bytes = MAX(bits / 8, 1);
  uint64_t base = in->wide ? lane_u64(w, in->a[0], 0) + (uint64_t)in->immediate
                           : (uint32_t)(lane_u32(w, in->a[0], 0) + (uint32_t)in->immediate);
  uint32_t stride =
      x->stride == OPERAND_NONE ? (x->column_major ? f->rows : f->columns) : lane_u32(w, x->stride, 0);
  uint32_t undefined = 0;
  for (unsigned e = 0; e < f->rows * f->columns; e++) {
    unsigned r = e / f->columns, c = e % f->columns;
    uint64_t offset = x->column_major ? (uint64_t)c * stride + r : (uint64_t)r * stride + c;
    AccessKind kind = in->operation ? ACCESS_WRITE : ACCESS_READ;
    Place p = memory_place(w, in, e % 32, x->space, base + offset * bits / 8, bytes, kind);
    if (!p.at) continue;
    race_access(w, in, e % 32, &p, bytes, kind, false);
    uint64_t v = 0;
    if (in->operation) {
      v = get_item(w, f, in->list, e);
      memcpy(p.at, &v, bytes);
      memory_define(&p, bytes, true);
    } else {
      memcpy(&v, p.at, bytes);
      if (bits < 8) v = v >> (offset * bits % 8) & ((1u << bits) - 1);
      set_item(w, f, in->list, e, v);
      if (!memory_is_defined(&p, bytes)) undefined |= 1u << e % 32;
    }
  }
  for (unsigned i = 0; i < in->n_writes; i++)
    set_undefined(w, in->writes[i], FULL, undefined);
  if (in->operation) cluster_progress(w->block->cluster);
  return STEP_NEXT;
}

static double value_of_item(PtxType type, uint64_t bits)
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

static uint64_t result_item(PtxType type, double sum)
{
  switch (type) {
  case TYPE_F16: return product_half((float)sum);
  case TYPE_S32: return (uint32_t)(int64_t)sum;
  case TYPE_F64: return double_bits(sum);
  default: return float_bits((float)sum);
  }
}

/* As wide as the hardware adds. */
static void run_wmma_model(Warp *w, const Inst *in)
{
  const WmmaData *x = in->data;
  const uint32_t *ld = in->list, *la = ld + x->d.registers, *lb = la + x->a.registers,
                 *lc = lb + x->b.registers;
  float a[32][16], b[16][32];
  unsigned n = x->d.columns, depth = x->a.columns, step = x->model.step ? MIN(x->model.step, depth) : depth;
  for (unsigned e = 0; e < x->d.rows * depth; e++)
    a[e / depth][e % depth] = product_float(x->a.type, (uint32_t)get_item(w, &x->a, la, e));
  for (unsigned e = 0; e < depth * n; e++)
    b[e / n][e % n] = product_float(x->b.type, (uint32_t)get_item(w, &x->b, lb, e));
  for (unsigned e = 0; e < x->d.rows * n; e++) {
    float sum = product_float(x->c.type, (uint32_t)get_item(w, &x->c, lc, e));
    for (unsigned k = 0; k < depth; k += step)
      sum = product_element(&a[e / n][k], 1, &b[k][e % n], 32, sum, step, &x->model);
    set_item(w, &x->d, ld, e, result_item(x->d.type, sum));
  }
}

/* list: D, A, B, C */
static Step run_wmma(Warp *w, const Inst *in, uint32_t mask)
{
  const WmmaData *x = in->data;
  if (accumulation(w, ACCUMULATE_SINGLE, x->model) == ACCUMULATE_HARDWARE) {
    run_wmma_model(w, in);
    return STEP_NEXT;
  }
  const uint32_t *ld = in->list, *la = ld + x->d.registers, *lb = la + x->a.registers,
                 *lc = lb + x->b.registers;
  double a[32][MAX_DEPTH], b[MAX_DEPTH][32];
  unsigned m = x->d.rows, n = x->d.columns, depth = x->a.columns;
  for (unsigned e = 0; e < m * depth; e++)
    a[e / depth][e % depth] = value_of_item(x->a.type, get_item(w, &x->a, la, e));
  for (unsigned e = 0; e < depth * n; e++)
    b[e / n][e % n] = value_of_item(x->b.type, get_item(w, &x->b, lb, e));
  for (unsigned e = 0; e < m * n; e++) {
    double sum = value_of_item(x->c.type, get_item(w, &x->c, lc, e));
    for (unsigned k = 0; k < depth; k++) {
      double p = a[e / n][k], q = b[k][e % n];
      if (x->combination == COMBINE_XOR)
        sum += p != q;
      else if (x->d.type == TYPE_F64)
        sum = fma(p, q, sum);
      else
        sum += p * q;
    }
    if (x->saturate) sum = CLAMP(sum, INT32_MIN, INT32_MAX);
    set_item(w, &x->d, ld, e, result_item(x->d.type, sum));
  }
  return STEP_NEXT;
}

static PtxType register_type(const Fragment *f)
{
  return f->type == TYPE_F64 ? TYPE_F64 : TYPE_B32;
}

static bool take_operand(Decoder *d, unsigned i, const Fragment *f, uint32_t *list, unsigned *at,
                         bool written)
{
  const PtxOperand *items;
  unsigned n = elements(operand_at(d, i), &items);
  if (n != f->registers) {
    decode_wrong(d, "operand %u has %u registers, not %u", i + 1, n, f->registers);
    return false;
  }
  for (unsigned k = 0; k < n; k++)
    list[(*at)++] =
        written ? destination(d, &items[k], register_type(f)) : source(d, &items[k], register_type(f));
  return true;
}

void decode_wmma_memory(Decoder *d, int is_store)
{
  Inst *in = d->in;
  WmmaData *x = arena_new_object(d->kernel->arena, WmmaData);
  unsigned m, n, k;
  char which = take(d, "a") ? 'a' : take(d, "b") ? 'b' : 'c';
  if (which == 'c') take(d, is_store ? "d" : "c");
  bool row = take(d, "row");
  x->column_major = take(d, "col");
  if (!take(d, "sync") || !take(d, "aligned") || row == x->column_major || !decode_shape(d, &m, &n, &k)) {
    decode_fail(d, "this form is not supported");
    return;
  }
  x->space = take_space(d);
  x->d = fragment(d, which, need_type(d), m, n, k);
  bool wide;
  in->a[0] = address(d, operand_at(d, is_store ? 0 : 1), &in->immediate, &wide, &x->space);
  in->wide = wide;
  in->operation = (uint8_t)is_store;
  uint32_t *list = new_list(d, x->d.registers);
  unsigned at = 0;
  if (!take_operand(d, is_store ? 1 : 0, &x->d, list, &at, !is_store)) return;
  x->stride = operand_count(d) > 2 ? source_at(d, 2, TYPE_U32) : OPERAND_NONE;
  in->data = x;
  in->flags |= INST_ALIGNED | INST_CUSTOM;
  in->run = run_wmma_memory;
}

void decode_wmma(Decoder *d, int argument)
{
  static const char *const layouts[] = {"row", "col", NULL};
  Inst *in = d->in;
  WmmaData *x = arena_new_object(d->kernel->arena, WmmaData);
  unsigned m, n, k;
  /* the fragments hold elements, not memory: their layouts matter to load and store only */
  bool two = take_one(d, layouts, NULL);
  two = two && take_one(d, layouts, NULL);
  if (!take(d, "sync") || !take(d, "aligned") || !two || !decode_shape(d, &m, &n, &k)) {
    decode_fail(d, "this form is not supported");
    return;
  }
  PtxType types[4];
  unsigned count = 0;
  for (PtxType t; count < 4 && (t = take_type(d)) != TYPE_NONE; count++)
    types[count] = t;
  if (count != 2 && count != 4) {
    decode_fail(d, "%u types", count);
    return;
  }
  x->saturate = take(d, "satfinite");
  static const char *const bit_operations[] = {"xor", "and", NULL};
  int which = -1;
  if (take_one(d, bit_operations, &which)) x->combination = which ? COMBINE_AND : COMBINE_XOR;
  bool bits = count == 4 && types[1] == TYPE_B1 && types[2] == TYPE_B1;
  if (bits != (which >= 0) || bits != take(d, "popc")) decode_fail(d, "these types");
  if (types[0] == TYPE_F64 && take_rounding(d, ROUND_NEAREST) != ROUND_NEAREST)
    decode_fail(d, "rounding other than .rn");
  x->d = fragment(d, 'c', types[0], m, n, k);
  x->c = fragment(d, 'c', types[count - 1], m, n, k);
  x->a = fragment(d, 'a', count == 2 ? TYPE_F16 : types[1], m, n, k);
  x->b = fragment(d, 'b', count == 2 ? TYPE_F16 : types[2], m, n, k);
  uint32_t *list = new_list(d, x->a.registers + x->b.registers + x->c.registers + x->d.registers);
  unsigned at = 0;
  if (!take_operand(d, 0, &x->d, list, &at, true) || !take_operand(d, 1, &x->a, list, &at, false) ||
      !take_operand(d, 2, &x->b, list, &at, false) || !take_operand(d, 3, &x->c, list, &at, false))
    return;
  in->data = x;
  in->flags |= INST_ALIGNED;
  in->run = run_wmma;
}

void product_bind_wmma(Inst *in, const Gpu *gpu)
{
  if (in->run != run_wmma) return;
  WmmaData *x = in->data;
  x->model = product_model(gpu, "warp_mma", x->a.type, x->b.type, x->d.type);
  /* ptxas makes two products of k 4 of the one of 8 */
  if (x->a.type == TYPE_TF32) x->model.step = 4;
}
