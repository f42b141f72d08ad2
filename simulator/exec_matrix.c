/* Matrix instructions of one warp: ldmatrix, stmatrix, movmatrix, mma.sync. */
#include "simulator/check.h"
#include "simulator/exec.h"
#include "simulator/place.h"
#include "simulator/product.h"
#include "simulator/race.h"
#include <string.h>

/* --- 8x8 matrices of 16-bit elements --- */

static uint64_t row_address(const Warp *w, const Inst *in, unsigned lane)
{
  return in->wide ? lane_u64(w, in->a[0], lane) + (uint64_t)in->immediate
                  : (uint32_t)(lane_u32(w, in->a[0], lane) + (uint32_t)in->immediate);
}

typedef uint16_t Row __attribute__((vector_size(16))); /* eight elements */

/* Transposes an 8x8 matrix in three rounds of interleaving rows that are 4, 2, 1 apart. */
static void transpose8(Row m[8])
{
  Row t[8];
  for (unsigned round = 0; round < 3; round++) {
    for (unsigned i = 0; i < 4; i++) {
      t[2 * i] = __builtin_shufflevector(m[i], m[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
      t[2 * i + 1] = __builtin_shufflevector(m[i], m[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
    }
    memcpy(m, t, sizeof t);
  }
}

/* One matrix into a register: lane 4 * r + q has the elements 2 * q and 2 * q + 1 of row r, so a row is 16
 * bytes of it. */
static void load_matrix(Warp *w, const Inst *in, unsigned matrix, uint32_t *out, uint8_t *undefined)
{
  Row rows[8];
  uint16_t missing[8] = {0}; /* per row: bytes nobody has written */
  bool bad = false;
  Place places[8];
  uint32_t offsets[8], n = 0;
  for (unsigned r = 0; r < 8; r++) {
    unsigned lane = matrix * 8 + r;
    places[r] = place_at(w, in, lane, (Space)in->space, row_address(w, in, lane), 16, ACCESS_READ);
    if (places[r].block == w->block) offsets[n++] = (uint32_t)places[r].offset;
  }
  if (n == 8) race_read_rows(w, in, matrix * 8, offsets, n);
  for (unsigned r = 0; r < 8; r++) {
    const Place p = places[r];
    if (!p.at) {
      rows[r] = (Row){0};
      continue;
    }
    if (n != 8) race_access(w, in, matrix * 8 + r, &p, 16, ACCESS_READ, false);
    memcpy(&rows[r], p.at, 16);
    if (memory_is_defined(&p, 16)) continue;
    missing[r] = (uint16_t) ~(p.defined[p.offset >> 6] >> (p.offset & 63));
    bad = true;
  }
  if (in->negate) transpose8(rows);
  memcpy(out, rows, sizeof rows);
  memset(undefined, 0, LANES);
  for (unsigned l = 0; bad && l < LANES; l++) {
    const unsigned r = l / 4, q = l % 4;
    undefined[l] =
        (uint8_t)(in->negate ? (missing[2 * q] >> 2 * r & 3) | (missing[2 * q + 1] >> 2 * r & 3) << 2
                             : missing[r] >> 4 * q & 15);
  }
}

/* undefined: bytes of each lane's register */
static void define_loaded(Warp *w, uint32_t id, const uint8_t *undefined)
{
  set_undefined(w, id, FULL, 0);
  for (unsigned l = 0; l < LANES && w->undefined; l++) {
    uint64_t bits = 0;
    for (unsigned i = 0; i < 4; i++)
      if (undefined[l] >> i & 1) bits |= 0xffull << 8 * i;
    if (bits) set_unknown(w, id, l, 4, bits);
  }
}

/* negate: transposed */
static Step run_ldmatrix(Warp *w, const Inst *in, uint32_t mask)
{
  if (w->undefined)
    check_value(w, in, in->a[0], in->n_list == 4 ? FULL : (1u << (8 * in->n_list)) - 1, "a row address");
  /* a destination may hold addresses of rows */
  uint32_t result[4][LANES];
  uint8_t undefined[4][LANES];
  for (unsigned m = 0; m < in->n_list; m++)
    load_matrix(w, in, m, result[m], undefined[m]);
  for (unsigned m = 0; m < in->n_list; m++) {
    memcpy(operand(w, in->list[m]), result[m], sizeof result[m]);
    define_loaded(w, in->list[m], undefined[m]);
  }
  return STEP_NEXT;
}

static void store_matrix(Warp *w, const Inst *in, unsigned matrix)
{
  const uint32_t *v = operand(w, in->list[matrix]);
  uint32_t undefined = undefined_lanes(w, in->list[matrix]);
  Row rows[8];
  memcpy(rows, v, sizeof rows);
  if (in->negate) transpose8(rows);
  for (unsigned r = 0; r < 8; r++) {
    unsigned lane = matrix * 8 + r;
    Place p = place_at(w, in, lane, (Space)in->space, row_address(w, in, lane), 16, ACCESS_WRITE);
    if (!p.at) continue;
    race_access(w, in, lane, &p, 16, ACCESS_WRITE, false);
    memcpy(p.at, &rows[r], 16);
    memory_define(&p, 16, true);
    for (unsigned c = 0; undefined && p.defined && c < 8; c++) {
      unsigned from = in->negate ? c * 4 + r / 2 : r * 4 + c / 2, half = (in->negate ? r : c) & 1;
      Place q = p;
      q.offset += 2 * c;
      uint64_t bits = unknown_bits(w, in->list[matrix], from, 4);
      memory_define_known(&q, 2, bits >> 16 * half & 0xffff);
    }
  }
}

static Step run_stmatrix(Warp *w, const Inst *in, uint32_t mask)
{
  for (unsigned m = 0; m < in->n_list; m++)
    store_matrix(w, in, m);
  cluster_progress(w->block->cluster);
  return STEP_NEXT;
}

void decode_matrix_move(Decoder *d, int is_store)
{
  static const char *const counts[] = {"x1", "x2", "x4", NULL};
  Inst *in = d->in;
  int which = 0;
  bool wide;
  if (!take(d, "sync") || !take(d, "aligned") || !take(d, "m8n8") || !take_one(d, counts, &which))
    decode_fail(d, "only .sync.aligned.m8n8.x1/.x2/.x4 of .b16 are supported");
  in->negate = take(d, "trans");
  in->space = (uint8_t)take_space(d);
  if (!take(d, "b16")) decode_wrong(d, "element type .b16 is missing");
  Space space = in->space;
  in->a[0] = address(d, operand_at(d, is_store ? 0 : 1), &in->immediate, &wide, &space);
  in->wide = wide;
  in->space = (uint8_t)space;
  const PtxOperand *items;
  unsigned n = elements(operand_at(d, is_store ? 1 : 0), &items);
  if (n != 1u << which) {
    decode_wrong(d, "%u registers for %u matrices", n, 1u << which);
    return;
  }
  uint32_t *list = new_list(d, n);
  for (unsigned i = 0; i < n; i++)
    list[i] = is_store ? source(d, &items[i], TYPE_B32) : destination(d, &items[i], TYPE_B32);
  in->flags |= INST_ALIGNED | INST_CUSTOM;
  in->run = is_store ? run_stmatrix : run_ldmatrix;
}

static Step run_movmatrix(Warp *w, const Inst *in, uint32_t mask)
{
  uint32_t v[LANES];
  memcpy(v, operand(w, in->a[0]), sizeof v);
  uint32_t *out = operand(w, in->d[0]);
  for (unsigned l = 0; l < LANES; l++) {
    unsigned r = l / 4, c = 2 * (l % 4);
    uint32_t low = v[c * 4 + r / 2] >> (r & 1) * 16 & 0xffff,
             high = v[(c + 1) * 4 + r / 2] >> (r & 1) * 16 & 0xffff;
    out[l] = low | high << 16;
  }
  return STEP_NEXT;
}

void decode_movmatrix(Decoder *d, int argument)
{
  if (!take(d, "sync") || !take(d, "aligned") || !take(d, "m8n8") || !take(d, "trans") || !take(d, "b16"))
    decode_wrong(d, "only .sync.aligned.m8n8.trans.b16 exists");
  d->in->d[0] = destination_at(d, 0, TYPE_B32);
  d->in->a[0] = source_at(d, 1, TYPE_B32);
  d->in->flags |= INST_ALIGNED;
  d->in->run = run_movmatrix;
}

/* --- mma.sync --- */

typedef struct WarpProduct {
  unsigned m, n, k, per_register; /* elements of A and B in one 32-bit register */
  PtxType a, b, acc, result;
  unsigned na, nb, nc; /* registers */
  Accumulation mode;
  ProductModel model;
  bool expanded; /* FP8 on a GPU that has no such warp MMA, see run_expanded */
} WarpProduct;

/* Operands already spread out. Instructions in a row share them, so they are kept and found by what the
 * registers hold; which place is looked at is the first register's choice. */
#define CACHED_ROWS  4
#define CACHED_TILES 16

typedef struct CachedRows {
  ProductRows spread;
  uint32_t registers[4][LANES];
  ProductFormat format;
  unsigned m, k; /* 0: empty */
} CachedRows;

typedef struct CachedTile {
  ProductTile spread;
  uint32_t registers[2][LANES];
  ProductFormat format;
  unsigned k;
} CachedTile;

typedef struct OperandCache {
  CachedRows rows[CACHED_ROWS];
  CachedTile tiles[CACHED_TILES];
} OperandCache;

static OperandCache *operand_cache(Cluster *c)
{
  if (c->operands) return c->operands;
  c->operands = g_aligned_alloc(1, sizeof(OperandCache), 64);
  for (unsigned i = 0; i < CACHED_ROWS; i++)
    c->operands->rows[i].k = 0;
  for (unsigned i = 0; i < CACHED_TILES; i++)
    c->operands->tiles[i].k = 0;
  return c->operands;
}

static bool same_format(ProductFormat a, ProductFormat b)
{
  return a.type == b.type && a.integer == b.integer && a.negate == b.negate && a.exponents == b.exponents &&
         a.lowest == b.lowest;
}

/* Copies registers into `kept`; false: they hold it already. */
static bool take_registers(const Warp *w, const uint32_t *list, unsigned n, uint32_t (*kept)[LANES])
{
  uint64_t different = 0;
  for (unsigned r = 0; r < n; r++) {
    const uint64_t *v = operand(w, list[r]);
    uint64_t *to = (uint64_t *)kept[r];
    for (unsigned l = 0; l < LANES / 2; l++) {
      different |= v[l] ^ to[l];
      to[l] = v[l];
    }
  }
  return different != 0;
}

static const ProductRows *spread_rows(Warp *w, const Inst *in, const WarpProduct *s, ProductFormat format)
{
  const uint32_t *list = in->list + s->nc;
  CachedRows *c = &operand_cache(w->block->cluster)->rows[list[0] / 4 % CACHED_ROWS];
  bool fresh = c->k != s->k || c->m != s->m || !same_format(c->format, format);
  if (!take_registers(w, list, s->na, c->registers) && !fresh) return &c->spread;
  const ProductKernels *kernels = product_kernels();
  unsigned e = s->per_register;
  c->spread.any[0] = c->spread.any[1] = 0;
  c->spread.special = false;
  for (unsigned r = 0; r < s->na; r++) {
    unsigned half = s->m == 16 ? r & 1 : 0, base = s->m == 16 ? 4 * e * (r >> 1) : 4 * e * r;
    kernels->load_rows(&c->spread, format, c->registers[r], half, base);
  }
  c->format = format;
  c->m = s->m;
  c->k = s->k;
  return &c->spread;
}

static const ProductTile *spread_tile(Warp *w, const Inst *in, const WarpProduct *s, ProductFormat format)
{
  const uint32_t *list = in->list + s->nc + s->na;
  CachedTile *c = &operand_cache(w->block->cluster)->tiles[list[0] / 2 % CACHED_TILES];
  bool fresh = c->k != s->k || !same_format(c->format, format);
  if (!take_registers(w, list, s->nb, c->registers) && !fresh) return &c->spread;
  c->spread.special = false;
  for (unsigned r = 0; r < s->nb; r++)
    product_kernels()->load_tile(&c->spread, format, c->registers[r], 4 * s->per_register * r);
  c->format = format;
  c->k = s->k;
  return &c->spread;
}

/* Row of A and column of B make an element of D undefined. */
static void spread_products(Warp *w, const Inst *in, const WarpProduct *s)
{
  if (!w->undefined) return;
  uint32_t rows = 0, columns = 0, any = 0;
  for (unsigned r = 0; r < s->na; r++) {
    uint32_t u = undefined_lanes(w, in->list[s->nc + r]);
    any |= u;
    for_lanes(l, u) rows |= 1u << (l / 4 + (s->m == 16 ? 8 * (r & 1) : 0));
  }
  for (unsigned r = 0; r < s->nb; r++) {
    uint32_t u = undefined_lanes(w, in->list[s->nc + s->na + r]);
    any |= u;
    for_lanes(l, u) columns |= 1u << (l / 4);
  }
  unsigned nd = in->n_list - s->nc - s->na - s->nb;
  for (unsigned i = 0; i < nd; i++) {
    uint32_t u = undefined_lanes(w, in->list[i < s->nc ? i : 0]);
    unsigned half = nd == 4 ? i >> 1 : nd == 2 && s->m == 16 ? i : 0;
    if (any)
      for (unsigned l = 0; l < LANES; l++) {
        bool column =
            nd == 2 && s->m == 16 ? columns >> (2 * (l % 4)) & 3 : columns >> (2 * (l % 4) + (i & 1)) & 1;
        if (rows >> (l / 4 + 8 * half) & 1 || column) u |= 1u << l;
      }
    set_undefined(w, in->list[s->nc + s->na + s->nb + i], FULL, u);
  }
}

/* FP8 where the GPU has products of f16 only: ptxas turns the elements into f16 and makes two products, the
 * first of the elements k with k / 2 even, into a sum of its own, to which C is added last. */
static void run_expanded(uint32_t *const *acc, const ProductRows *a, const ProductTile *b,
                         const WarpProduct *s)
{
  ProductRows rows = *a;
  ProductTile tile = *b;
  unsigned half_k = s->k / 2;
  for (unsigned i = 0; i < s->k; i++) {
    unsigned j = i % half_k, from = j / 2 * 4 + (j & 1) + (i < half_k ? 0 : 2);
    for (unsigned h = 0; h < 2; h++) {
      memcpy(rows.f[h][i], a->f[h][from], sizeof a->f[h][from]);
      memcpy(rows.exponents[h][i], a->exponents[h][from], sizeof a->exponents[h][from]);
      memcpy(tile.f[h][i], b->f[h][from], sizeof b->f[h][from]);
      memcpy(tile.exponents[h][i], b->exponents[h][from], sizeof b->exponents[h][from]);
    }
  }
  uint32_t sums[4][LANES] __attribute__((aligned(64))) = {{0}}, *pointers[4];
  for (unsigned i = 0; i < s->m / 4; i++)
    pointers[i] = sums[i];
  product_run(pointers, &rows, &tile, 1, s->m / 8, s->k, ACCUMULATE_HARDWARE, s->model);
  for (unsigned i = 0; i < s->m / 4; i++)
    for (unsigned l = 0; l < LANES; l++) {
      float sum = bits_float(sums[i][l]) + bits_float(acc[i][l]);
      acc[i][l] = isnan(sum) ? 0x7fffffff : float_bits(sum);
    }
}

/* list: C, A, B, D registers */
static Step run_mma(Warp *w, const Inst *in, uint32_t mask)
{
  const WarpProduct *s = in->data;
  Accumulation mode = accumulation(w, s->mode, s->model);
  ProductFormat format = {.type = s->a,
                          .integer = mode == ACCUMULATE_INTEGER,
                          .exponents = mode == ACCUMULATE_HARDWARE,
                          .lowest = s->model.lowest_a};
  const ProductRows *a = spread_rows(w, in, s, format);
  format.type = s->b;
  format.lowest = s->model.lowest_b;
  const ProductTile *b = spread_tile(w, in, s, format);
  spread_products(w, in, s);
  unsigned halves = s->m / 8;
  uint32_t acc[4][LANES] __attribute__((aligned(64))), *pointers[4];
  const uint32_t *list = in->list + s->nc + s->na + s->nb;
  if (s->acc != TYPE_F16 && s->result != TYPE_F16) { /* in place: A and B are spread out already */
    for (unsigned i = 0; i < 2 * halves; i++) {
      pointers[i] = operand(w, list[i]);
      if (list[i] != in->list[i]) memcpy(pointers[i], operand(w, in->list[i]), SLOT_BYTES);
    }
    if (s->expanded && mode == ACCUMULATE_HARDWARE) {
      run_expanded(pointers, a, b, s);
      return STEP_NEXT;
    }
    product_run(pointers, a, b, 1, halves, s->k, mode, s->model);
    return STEP_NEXT;
  }
  for (unsigned i = 0; i < 2 * halves; i++) {
    const uint32_t *c = operand(w, in->list[s->acc == TYPE_F16 ? i / 2 : i]);
    for (unsigned l = 0; l < LANES; l++)
      acc[i][l] = s->acc == TYPE_F16 ? float_bits(half_float((uint16_t)(c[l] >> (i & 1) * 16))) : c[l];
    pointers[i] = acc[i];
  }
  product_run(pointers, a, b, 1, halves, s->k, mode, s->model);
  for (unsigned i = 0; i < (s->result == TYPE_F16 ? halves : 2 * halves); i++) {
    uint32_t *d = operand(w, list[i]);
    for (unsigned l = 0; s->result == TYPE_F16 && l < LANES; l++)
      d[l] = product_half(bits_float(acc[2 * i][l])) | (uint32_t)product_half(bits_float(acc[2 * i + 1][l]))
                                                           << 16;
    if (s->result != TYPE_F16) memcpy(d, acc[i], sizeof acc[i]);
  }
  return STEP_NEXT;
}

/* f64 products: one element per register in all operands */
static Step run_mma_double(Warp *w, const Inst *in, uint32_t mask)
{
  const WarpProduct *s = in->data;
  double a[16][16], b[16][8], d[4][LANES];
  for (unsigned r = 0; r < s->na; r++)
    for (unsigned l = 0; l < LANES; l++)
      a[l / 4 + (s->m == 16 ? 8 * (r & 1) : 0)][l % 4 + 4 * (s->m == 16 ? r >> 1 : r)] =
          bits_double(lane_u64(w, in->list[s->nc + r], l));
  for (unsigned r = 0; r < s->nb; r++)
    for (unsigned l = 0; l < LANES; l++)
      b[l % 4 + 4 * r][l / 4] = bits_double(lane_u64(w, in->list[s->nc + s->na + r], l));
  for (unsigned i = 0; i < s->nc; i++)
    for (unsigned l = 0; l < LANES; l++) {
      double sum = bits_double(lane_u64(w, in->list[i], l));
      for (unsigned k = 0; k < s->k; k++)
        sum = fma(a[l / 4 + 8 * (i >> 1)][k], b[k][2 * (l % 4) + (i & 1)], sum);
      d[i][l] = sum;
    }
  for (unsigned i = 0; i < s->nc; i++)
    memcpy(operand(w, in->list[s->nc + s->na + s->nb + i]), d[i], sizeof d[i]);
  return STEP_NEXT;
}

static bool is_integer(PtxType type)
{
  return type == TYPE_S8 || type == TYPE_U8 || type == TYPE_S4 || type == TYPE_U4;
}

static unsigned element_bits(PtxType type)
{
  return type == TYPE_S4 || type == TYPE_U4 ? 4 : type == TYPE_TF32 ? 32 : ptx_type_bytes(type) * 8;
}

static void mma_lists(Decoder *d, WarpProduct *s)
{
  PtxType part = s->a == TYPE_F64 ? TYPE_F64 : TYPE_B32;
  PtxType acc = s->a == TYPE_F64 ? TYPE_F64 : TYPE_B32;
  const PtxOperand *items[4];
  unsigned n[4];
  for (unsigned i = 0; i < 4; i++)
    n[i] = elements(operand_at(d, i), &items[i]);
  unsigned nd = s->result == TYPE_F16 ? s->m / 8 : s->m / 4;
  if (n[0] != nd || n[1] != s->na || n[2] != s->nb || n[3] != s->nc) {
    decode_wrong(d, "%u, %u, %u, %u registers; the shape needs %u, %u, %u, %u", n[0], n[1], n[2], n[3], nd,
                 s->na, s->nb, s->nc);
    return;
  }
  uint32_t *list = new_list(d, n[0] + n[1] + n[2] + n[3]);
  unsigned at = 0;
  for (unsigned i = 0; i < n[3]; i++)
    list[at++] = source(d, &items[3][i], acc);
  for (unsigned i = 0; i < n[1]; i++)
    list[at++] = source(d, &items[1][i], part);
  for (unsigned i = 0; i < n[2]; i++)
    list[at++] = source(d, &items[2][i], part);
  for (unsigned i = 0; i < n[0]; i++)
    list[at++] = destination(d, &items[0][i], acc);
}

/* Forms that are rare or have no loop of their own here. */
static bool needs_general(const Decoder *d)
{
  static const char *const rare[] = {"satfinite", "b1", "rn", "rz", "rm", "rp", "m8n8k4", "m16n8k64", NULL};
  bool found = false, doubles = false;
  for (unsigned i = 1; i < d->source->n_parts; i++) {
    found |= g_strv_contains(rare, d->source->parts[i]);
    doubles |= strcmp(d->source->parts[i], "f64") == 0;
  }
  return found && !(doubles && d->source->n_parts == 10);
}

void decode_mma(Decoder *d, int argument)
{
  if (needs_general(d)) {
    decode_mma_general(d, 0);
    return;
  }
  Inst *in = d->in;
  WarpProduct *s = arena_new_object(d->kernel->arena, WarpProduct);
  bool shape = false;
  for (unsigned i = 1; i < d->source->n_parts && !shape; i++)
    if (sscanf(d->source->parts[i], "m%un%uk%u", &s->m, &s->n, &s->k) == 3) {
      d->taken |= 1ull << i;
      shape = true;
    }
  if (!shape || !take(d, "sync") || !take(d, "aligned") || !take(d, "row") || !take(d, "col")) {
    decode_fail(d, "only .sync.aligned with .row.col is supported");
    return;
  }
  bool saturate = take(d, "satfinite");
  s->result = need_type(d);
  s->a = need_type(d);
  s->b = need_type(d);
  s->acc = need_type(d);
  unsigned bits = element_bits(s->a);
  bool small = (s->m == 8 || s->m == 16) && s->n == 8 && s->k >= 4 && s->k <= PRODUCT_MAX_K;
  bool floats = (s->a == TYPE_F16 || s->a == TYPE_BF16 || s->a == TYPE_TF32 || s->a == TYPE_E4M3 ||
                 s->a == TYPE_E5M2) &&
                (s->acc == TYPE_F32 || s->acc == TYPE_F16);
  bool integers = is_integer(s->a) && is_integer(s->b) && s->acc == TYPE_S32 && s->result == TYPE_S32;
  bool doubles = s->a == TYPE_F64 && s->b == TYPE_F64 && s->acc == TYPE_F64;
  if (!small || saturate || !(floats || integers || doubles) || element_bits(s->b) != bits ||
      s->k % (128 / MIN(bits, 32)) || (s->m == 8 && !doubles && !integers)) {
    decode_fail(d, "this shape and these types are not supported");
    return;
  }
  s->per_register = bits >= 32 ? 1 : 32 / bits;
  unsigned groups = s->k / (4 * s->per_register); /* of k per register */
  if (groups > 2 && !doubles) {
    decode_wrong(d, "this shape and these types do not exist");
    return;
  }
  s->na = groups * (s->m / 8);
  s->nb = groups;
  s->nc = s->acc == TYPE_F16 ? s->m / 8 : s->m / 4;
  s->mode = integers ? ACCUMULATE_INTEGER : ACCUMULATE_SINGLE;
  mma_lists(d, s);
  in->data = s;
  in->flags |= INST_ALIGNED | (doubles ? 0 : INST_CUSTOM);
  in->run = doubles ? run_mma_double : run_mma;
}

void product_bind(Inst *in, const Gpu *gpu)
{
  if (in->run != run_mma) return;
  WarpProduct *s = in->data;
  s->model = product_model(gpu, "warp_mma", s->a, s->b, s->result);
  if (s->model.bits || ptx_type_bytes(s->a) != 1 || s->result != TYPE_F32) return;
  ProductModel wide = product_model(gpu, "warp_mma", TYPE_F16, TYPE_F16, TYPE_F32);
  s->expanded = wide.bits != 0;
  if (s->expanded) s->model = product_model_of(wide.bits, wide.step, TYPE_F16, TYPE_F16, TYPE_F32);
}
