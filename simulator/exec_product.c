/* wgmma: products of a warpgroup with operands in shared memory. Each of the four warps makes its own 16
 * rows, so a warp executes its share alone; that all four issue the same product is checked beside it. */
#include "simulator/check.h"
#include "simulator/exec.h"
#include "simulator/lanes.h"
#include "simulator/place.h"
#include "simulator/product.h"
#include "simulator/race.h"
#include <string.h>

typedef struct GroupProduct {
  unsigned n, k, bytes; /* bytes of an element of A and B */
  PtxType a, b, d;
  bool a_in_registers, transpose_a, transpose_b, negate_a, negate_b;
  Accumulation mode;
  ProductModel model;
  unsigned registers; /* of D */
} GroupProduct;

/* The shared-memory descriptor, taken apart. */
typedef struct MatrixDescriptor {
  uint32_t start, leading, stride, base_offset, width; /* width: swizzle in bytes, 16: none */
} MatrixDescriptor;

static MatrixDescriptor read_descriptor(uint64_t d)
{
  static const uint32_t widths[] = {16, 128, 64, 32};
  return (MatrixDescriptor){.start = (uint32_t)(d & 0x3fff) << 4,
                            .leading = (uint32_t)(d >> 16 & 0x3fff) << 4,
                            .stride = (uint32_t)(d >> 32 & 0x3fff) << 4,
                            .base_offset = (uint32_t)(d >> 49 & 7),
                            .width = widths[d >> 62]};
}

static uint32_t swizzled(const MatrixDescriptor *m, uint32_t address)
{
  uint32_t bits = m->width == 16 ? 0 : m->width - 16;
  return address ^ ((address - (m->base_offset << 7)) >> 3 & bits);
}

/* Rows 8 * group ... of an operand stored along K: 16 bytes of each, chunk 0 or 1 of the 32 an instruction
 * takes. */
static void chunks_along_k(const MatrixDescriptor *m, unsigned group, unsigned chunk, uint32_t out[8])
{
  uint32_t offset = m->start + group * m->stride + chunk * (m->width == 16 ? m->leading : 16);
  for (unsigned r = 0; r < 8; r++)
    out[r] = swizzled(m, offset + r * m->width);
}

/* Eight 16-bit elements of M or N, beginning with 8 * group, for every one of n values of k: 16 bytes each.
 */
static void chunks_across_k(const MatrixDescriptor *m, unsigned group, unsigned n, uint32_t *out)
{
  uint32_t outer = m->stride, offset = m->start; /* outer: between eights of k */
  if (m->width == 16) {
    offset += group * m->stride;
    outer = m->leading;
  } else {
    unsigned per_atom = m->width / 16;
    offset += group / per_atom * m->leading + group % per_atom * 16;
  }
  for (unsigned k = 0; k < n; k++)
    out[k] = swizzled(m, offset + k / 8 * outer + k % 8 * m->width);
}

typedef struct Loader {
  Warp *w;
  const Inst *in;
  const Product *product;
  bool reported, check; /* check: races are looked for, at the issue */
  uint32_t width;       /* the swizzle that the descriptor names */
  bool gaps;            /* its rows do not lie side by side */
  uint32_t home;        /* the first piece of the operand, 0: none yet */
} Loader;

static void refuse_chunk(Loader *q, uint32_t address)
{
  const Block *b = q->w->block;
  if (!q->reported)
    fault(q->w, q->in, 0, SIM_FAULT_BOUNDS, address,
          "a product reads shared address 0x%x; the block's shared memory is 0x%llx to 0x%llx", address,
          (unsigned long long)b->shared_base, (unsigned long long)b->shared_bytes);
  q->reported = true;
}

/* What a descriptor says that can hardly be meant: of an operand stored along k in a swizzled pattern of eight rows,
 * groups of rows that overlap, and a start in the middle of a pattern, as after a step along k beyond the pattern. */
static void begin_operand(Loader *q, const MatrixDescriptor *m, bool along_k, unsigned rows)
{
  const Run *run = q->w->block->cluster->run;
  const uint32_t pattern = 8 * m->width;
  q->width = m->width;
  q->home = 0;
  q->gaps = along_k && m->stride != pattern;
  if (!q->check || !along_k || m->width == 16) return;
  if (m->start % pattern >= m->width && !m->base_offset)
    fault_party(q->w, q->in, 0, SIM_FAULT_WGMMA, !run->ours, m->start, NULL,
                "an operand begins at %s, in row %u of a swizzle pattern of 8 rows, and the descriptor has "
                "no base offset",
                shared_name(q->w->block, m->start).text, m->start % pattern / m->width);
  if (m->stride < pattern && rows > 8)
    fault_party(q->w, q->in, 0, SIM_FAULT_WGMMA, !run->ours, m->start, NULL,
                "groups of 8 rows of an operand overlap: they take %u bytes each and are %u apart", pattern,
                (unsigned)m->stride);
}

/* n pieces of 16 bytes, at most 16; what is outside of shared memory reads as zero. Bit per piece that holds
 * undefined bytes. */
static uint32_t load_chunks(Loader *q, const uint32_t *addresses, unsigned n, void *to)
{
  Block *b = q->w->block;
  const uint64_t base = b->shared_base, limit = b->shared_bytes;
  uint32_t undefined = 0, inside[16], n_inside = 0;
  for (unsigned i = 0; i < n; i++) {
    uint32_t address = addresses[i] & 0x3fff0;
    if (address < base || address + 16ull > limit) {
      refuse_chunk(q, address);
      memset((uint8_t *)to + 16 * (size_t)i, 0, 16);
      continue;
    }
    memcpy((uint8_t *)to + 16 * (size_t)i, b->shared + address, 16);
    undefined |= (uint32_t)!is_defined16(b->defined, address) << i;
    inside[n_inside++] = address;
  }
  if (q->check && b->check)
    race_product_read(q->w, q->in, q->product, q->width, inside, n_inside, &q->home, q->gaps);
  return undefined;
}

static void mark_rows(uint64_t *bad, unsigned first, unsigned count)
{
  for (unsigned i = first; i < first + count; i++)
    bad[i >> 6] |= 1ull << (i & 63);
}

/* A register of an operand stored along k: 16 bytes of each of eight rows. bad: bit per row that holds
 * undefined bytes. */
static void gather_along(Loader *q, const MatrixDescriptor *m, unsigned group, unsigned chunk,
                         uint32_t v[LANES], uint64_t *bad, unsigned bad_first)
{
  uint32_t addresses[8];
  chunks_along_k(m, group, chunk, addresses);
  bad[bad_first >> 6] |= (uint64_t)load_chunks(q, addresses, 8, v) << (bad_first & 63);
}

static ProductFormat format_of(const GroupProduct *s, bool is_a, Accumulation mode)
{
  return (ProductFormat){.type = is_a ? s->a : s->b,
                         .integer = mode == ACCUMULATE_INTEGER,
                         .negate = is_a ? s->negate_a : s->negate_b,
                         .exponents = mode == ACCUMULATE_HARDWARE,
                         .lowest = is_a ? s->model.lowest_a : s->model.lowest_b};
}

/* The rows of A that belong to the warp, as the four registers in which they would be an operand. */
static void gather_rows(Loader *q, const GroupProduct *s, uint32_t v[4][LANES], uint64_t *bad)
{
  MatrixDescriptor m = read_descriptor(q->product->a);
  begin_operand(q, &m, !s->transpose_a, 64);
  unsigned first = 2 * (q->w->id & 3);
  for (unsigned r = 0; r < 4 && !s->transpose_a; r++)
    gather_along(q, &m, first + (r & 1), r >> 1, v[r], bad, 8 * (r & 1));
  for (unsigned g = 0; g < 2 && s->transpose_a; g++) {
    uint32_t addresses[16];
    uint16_t rows[16][8];
    chunks_across_k(&m, first + g, s->k, addresses);
    if (load_chunks(q, addresses, s->k, rows)) mark_rows(bad, 8 * g, 8);
    for (unsigned k = 0; k < s->k; k++)
      for (unsigned i = 0; i < 8; i++)
        ((uint16_t *)v[(k >> 3) * 2 + g])[8 * i + (k & 7)] = rows[k][i];
  }
}

static void load_columns(Loader *q, const GroupProduct *s, Accumulation mode, ProductTile *tiles,
                         uint64_t *bad)
{
  const ProductKernels *kernels = product_kernels();
  const ProductFormat format = format_of(s, false, mode);
  MatrixDescriptor m = read_descriptor(q->product->b);
  begin_operand(q, &m, !s->transpose_b, s->n);
  uint32_t v[LANES] __attribute__((aligned(64))), words[16][4] __attribute__((aligned(64))), addresses[16];
  for (unsigned t = 0; t < s->n / 8; t++) {
    tiles[t].special = false;
    if (s->transpose_b) {
      chunks_across_k(&m, t, s->k, addresses);
      if (load_chunks(q, addresses, s->k, words)) mark_rows(bad, 8 * t, 8);
      kernels->load_tile_across(&tiles[t], format, words[0], s->k);
      continue;
    }
    for (unsigned c = 0; c < 2; c++) {
      gather_along(q, &m, t, c, v, bad, 8 * t);
      kernels->load_tile(&tiles[t], format, v, c * 16 / s->bytes);
    }
  }
}

/* list: D registers, then the four A registers if A is there */
static void load_rows(Loader *q, const GroupProduct *s, Accumulation mode, ProductRows *p, uint64_t *bad)
{
  const ProductKernels *kernels = product_kernels();
  const ProductFormat format = format_of(s, true, mode);
  const Warp *w = q->w;
  uint32_t v[4][LANES] __attribute__((aligned(64)));
  if (!s->a_in_registers) gather_rows(q, s, v, bad);
  p->any[0] = p->any[1] = 0;
  p->special = false;
  for (unsigned r = 0; r < 4; r++) {
    if (s->a_in_registers) {
      uint32_t slot = q->in->list[s->registers + r], u = undefined_lanes(w, slot);
      memcpy(v[r], operand(w, slot), sizeof v[r]);
      for_lanes(l, u) mark_rows(bad, l / 4 + 8 * (r & 1), 1);
    }
    kernels->load_rows(p, format, v[r], r & 1, (r >> 1) * 16 / s->bytes);
  }
}

static void mark_undefined(Warp *w, const Inst *in, const GroupProduct *s, bool scale_d, uint64_t rows,
                           const uint64_t *columns)
{
  if (!w->undefined) return;
  bool any = rows || columns[0] || columns[1] || columns[2] || columns[3];
  unsigned per = s->d == TYPE_F16 ? 2 : 1;
  for (unsigned i = 0; i < s->registers; i++) {
    uint32_t u = scale_d ? undefined_lanes(w, in->list[i]) : 0;
    for (unsigned l = 0; any && l < LANES; l++)
      for (unsigned h = 0; h < per; h++) {
        unsigned acc = i * per + h, row = l / 4 + 8 * (acc >> 1 & 1),
                 column = 8 * (acc >> 2) + 2 * (l % 4) + (acc & 1);
        if (rows >> row & 1 || columns[column >> 6] >> (column & 63) & 1) u |= 1u << l;
      }
    set_undefined(w, in->list[i], FULL, u);
  }
}

static ProductCache *product_cache(const Warp *w)
{
  ProductCache **cache = &w->block->product_cache[w->id / 4];
  if (!*cache) {
    *cache = g_aligned_alloc(1, sizeof(ProductCache), 64);
    (*cache)->in = NULL;
  }
  return *cache;
}

static void land_product(Warp *w, Product *product, bool at_issue)
{
  const Inst *in = product->in;
  const GroupProduct *s = in->data;
  ProductCache *cache = product_cache(w);
  Loader q = {.w = w, .in = in, .product = product, .check = at_issue};
  uint64_t rows = 0;
  Accumulation mode = accumulation(w, s->mode, s->model);
  load_rows(&q, s, mode, &cache->rows, &rows);
  if (cache->in != in || cache->index != product->index || cache->b != product->b) {
    memset(cache->columns, 0, sizeof cache->columns);
    load_columns(&q, s, mode, cache->tiles, cache->columns);
    cache->in = in;
    cache->index = product->index;
    cache->b = product->b;
  }
  mark_undefined(w, in, s, product->scale_d, rows, cache->columns);
  uint32_t *pointers[PRODUCT_MAX_N / 2];
  unsigned n = s->n / 2;
  uint32_t(*scratch)[LANES] = NULL;
  if (s->d == TYPE_F16) scratch = g_aligned_alloc(n, sizeof scratch[0], 64);
  for (unsigned i = 0; i < n; i++) {
    uint32_t *d = operand(w, in->list[scratch ? i / 2 : i]);
    pointers[i] = scratch ? scratch[i] : d;
    for (unsigned l = 0; scratch && l < LANES; l++)
      scratch[i][l] = product->scale_d ? float_bits(half_float((uint16_t)(d[l] >> (i & 1) * 16))) : 0;
    if (!scratch && !product->scale_d) memset(d, 0, SLOT_BYTES);
  }
  product_run(pointers, &cache->rows, cache->tiles, s->n / 8, 2, s->k, mode, s->model);
  for (unsigned i = 0; scratch && i < n; i += 2) {
    uint32_t *d = operand(w, in->list[i / 2]);
    for (unsigned l = 0; l < LANES; l++)
      d[l] = product_half(bits_float(scratch[i][l])) | (uint32_t)product_half(bits_float(scratch[i + 1][l]))
                                                           << 16;
  }
  g_aligned_free(scratch);
  product->landed = true;
}

const Inst *product_of_token(const Warp *w, uint8_t token)
{
  for (unsigned i = 0; i < w->products->len; i++) {
    const Product *p = &g_array_index(w->products, Product, i);
    if (p->token == token) return p->in;
  }
  return NULL;
}

static void check_fence(Warp *w, const Inst *in, const GroupProduct *s)
{
  if (!w->write_time) return;
  unsigned n = s->registers + (s->a_in_registers ? 4 : 0);
  bool missing = !w->fence_time;
  for (unsigned i = 0; i < n && !missing; i++)
    missing = w->write_time[in->list[i]] > w->fence_time;
  if (missing)
    fault(w, in, 0, SIM_FAULT_WGMMA, 0,
          "registers of this product were written by other instructions after the last wgmma.fence");
}

/* What the other warps of the warpgroup have issued as their n-th product must be the same. */
static void check_same(Warp *w, const Inst *in, const Product *p)
{
  ProductLog *log = &w->block->product_log[w->id / 4][w->product_count % PRODUCT_LOG];
  if (log->count == w->product_count + 1 && log->in) {
    const GroupProduct *s = in->data;
    if (log->in != in || log->b != p->b || (!s->a_in_registers && log->a != p->a) ||
        log->scale_d != p->scale_d)
      fault_other(
          w, in, 0, SIM_FAULT_WGMMA, 0, log->in, w,
          "the warps of the warpgroup issue different products: descriptors %016llx %016llx here, %016llx "
          "%016llx in another warp",
          (unsigned long long)p->a, (unsigned long long)p->b, (unsigned long long)log->a,
          (unsigned long long)log->b);
  }
  *log = (ProductLog){w->product_count + 1, in, p->a, p->b, p->scale_d};
  w->product_count++;
}

static uint64_t uniform(Warp *w, const Inst *in, uint32_t id, const char *what)
{
  uint64_t v = lane_u64(w, id, 0);
  for (unsigned l = 1; l < LANES; l++)
    if (lane_u64(w, id, l) != v) {
      fault(w, in, l, SIM_FAULT_WGMMA, 0, "the lanes give different %s descriptors", what);
      break;
    }
  return v;
}

/* a[0] descriptor of A, a[1] of B, a[2] scale-d */
static Step run_group_product(Warp *w, const Inst *in, uint32_t mask)
{
  const GroupProduct *s = in->data;
  if (mask != FULL || w->block->n_warps < (w->id | 3) + 1) {
    fault(w, in, 0, SIM_FAULT_CONVERGENCE, 0,
          "a product needs four whole warps, the first with a rank divisible by 4");
    return STEP_STOP;
  }
  if (w->undefined) {
    if (!s->a_in_registers) check_value(w, in, in->a[0], mask, "a descriptor");
    check_value(w, in, in->a[1], mask, "a descriptor");
    check_value(w, in, in->a[2], mask, "scale-d");
  }
  Product p = {.in = in, .group = w->product_groups};
  if (!s->a_in_registers) p.a = uniform(w, in, in->a[0], "A");
  p.b = uniform(w, in, in->a[1], "B");
  uint32_t scale = predicate(w, in->a[2]);
  p.scale_d = scale != 0;
  if (scale != 0 && scale != FULL) fault(w, in, 0, SIM_FAULT_WGMMA, 0, "scale-d differs between lanes");
  check_fence(w, in, s);
  p.index = w->product_count;
  check_same(w, in, &p);
  p.token = (uint8_t)(1 + w->product_count % 255);
  Cluster *c = w->block->cluster;
  SimLanding landing = c->run->landing;
  if (landing == SIM_LAND_EARLY ||
      (landing == SIM_LAND_RANDOM && cluster_random(c) & 1 && w->products->len == 0))
    land_product(w, &p, true);
  if (w->in_flight) {
    unsigned n = s->registers + (s->a_in_registers ? 4 : 0);
    for (unsigned i = 0; i < n; i++) {
      uint32_t slot = in->list[i];
      if (!(slot & OPERAND_CONSTANT)) w->in_flight[slot] = p.token;
    }
  }
  g_array_append_val(w->products, p);
  cluster_progress(c);
  return STEP_NEXT;
}

/* A product ends for the warpgroup as a whole: all four warps must have issued it. */
static bool land_group(Warp *w, uint32_t index)
{
  Warp *first = &w->block->warps[w->id & ~3u];
  for (unsigned i = 0; i < 4; i++)
    if (first[i].product_count <= index) return false;
  for (unsigned i = 0; i < 4; i++)
    for (unsigned k = 0; k < first[i].products->len; k++) {
      Product *p = &g_array_index(first[i].products, Product, k);
      if (p->index == index && !p->landed) land_product(&first[i], p, false);
    }
  return true;
}

/* Registers that carry the token, be it by a copy, are free again. */
VECTORISED static void clear_token(uint8_t *restrict in_flight, uint32_t n_slots, uint8_t token)
{
  for (uint32_t k = 0; k < n_slots; k++)
    in_flight[k] = in_flight[k] == token ? 0 : in_flight[k];
}

/* false: some warp of the warpgroup has not come so far */
static bool finish_products(Warp *w, uint32_t keep)
{
  for (unsigned i = 0; i < w->products->len; i++) {
    const Product *p = &g_array_index(w->products, Product, i);
    if (p->group + keep < w->product_groups && !land_group(w, p->index)) return false;
  }
  unsigned out = 0;
  uint32_t n_slots = w->block->cluster->run->kernel->n_slots;
  for (unsigned i = 0; i < w->products->len; i++) {
    Product *p = &g_array_index(w->products, Product, i);
    if (p->group + keep >= w->product_groups) {
      if (out != i) g_array_index(w->products, Product, out) = *p;
      out++;
      continue;
    }
    if (w->in_flight) clear_token(w->in_flight, n_slots, p->token);
  }
  g_array_set_size(w->products, out);
  return true;
}

enum { PRODUCT_FENCE, PRODUCT_COMMIT, PRODUCT_WAIT };

static Step run_product_group(Warp *w, const Inst *in, uint32_t mask)
{
  switch (in->operation) {
  case PRODUCT_FENCE: w->fence_time = w->time++; break;
  case PRODUCT_COMMIT: w->product_groups++; break;
  default:
    if (!finish_products(w, (uint32_t)in->immediate))
      return wait_for(w, WAIT_PRODUCT, NULL, 0, w->block->cluster->progress, STEP_WAIT);
    race_product_wait(w, (uint32_t)in->immediate);
    break;
  }
  return STEP_NEXT;
}

void decode_product_group(Decoder *d, int operation)
{
  take(d, "sync");
  take(d, "aligned");
  d->in->operation = (uint8_t)operation;
  if (operation == PRODUCT_WAIT) d->in->immediate = immediate_at(d, 0);
  d->in->flags |= INST_ALIGNED | INST_CUSTOM;
  d->in->run = run_product_group;
}

static bool decode_shape(Decoder *d, GroupProduct *s)
{
  unsigned m = 0;
  for (unsigned i = 1; i < d->source->n_parts; i++)
    if (sscanf(d->source->parts[i], "m%un%uk%u", &m, &s->n, &s->k) == 3) d->taken |= 1ull << i;
  if (m != 64 || s->n < 8 || s->n > 256 || s->n % 8) return false;
  s->d = need_type(d);
  s->a = need_type(d);
  s->b = need_type(d);
  bool integer = (s->a == TYPE_S8 || s->a == TYPE_U8) && (s->b == TYPE_S8 || s->b == TYPE_U8);
  bool eight = (s->a == TYPE_E4M3 || s->a == TYPE_E5M2) && (s->b == TYPE_E4M3 || s->b == TYPE_E5M2);
  bool sixteen = (s->a == TYPE_F16 || s->a == TYPE_BF16) && s->a == s->b;
  bool tf32 = s->a == TYPE_TF32 && s->b == TYPE_TF32;
  s->bytes = sixteen ? 2 : tf32 ? 4 : 1;
  s->mode = integer ? ACCUMULATE_INTEGER : ACCUMULATE_SINGLE;
  bool result =
      integer ? s->d == TYPE_S32 : s->d == TYPE_F32 || (s->d == TYPE_F16 && (eight || s->a == TYPE_F16));
  if (integer && s->n > 32 && s->n % 16) return false;
  s->registers = s->d == TYPE_F16 ? s->n / 4 : s->n / 2;
  return (integer || eight || sixteen || tf32) && result && s->k == 32 / s->bytes;
}

static bool decode_sign(Decoder *d, unsigned i)
{
  int64_t v = immediate_at(d, i);
  if (v != 1 && v != -1) decode_wrong(d, "a scale of %lld", (long long)v);
  return v == -1;
}

void decode_group_product(Decoder *d, int argument)
{
  Inst *in = d->in;
  GroupProduct *s = arena_new_object(d->kernel->arena, GroupProduct);
  if (!take(d, "sync") || !take(d, "aligned") || !decode_shape(d, s)) {
    decode_wrong(d, "this shape and these types do not exist");
    return;
  }
  const PtxOperand *items, *a_items;
  unsigned n = elements(operand_at(d, 0), &items);
  if (n != s->registers) {
    decode_wrong(d, "%u accumulator registers; the shape has %u", n, s->registers);
    return;
  }
  s->a_in_registers = operand_at(d, 1)->kind == OPERAND_VECTOR;
  unsigned n_a = s->a_in_registers ? elements(operand_at(d, 1), &a_items) : 0;
  if (s->a_in_registers && n_a != 4) decode_wrong(d, "%u registers for A, which has 4", n_a);
  uint32_t *list = new_list(d, n + n_a);
  for (unsigned i = 0; i < n; i++)
    list[i] = destination(d, &items[i], TYPE_B32);
  for (unsigned i = 0; i < n_a && n_a == 4; i++)
    list[n + i] = source(d, &a_items[i], TYPE_B32);
  if (!s->a_in_registers) in->a[0] = source_at(d, 1, TYPE_B64);
  in->a[1] = source_at(d, 2, TYPE_B64);
  in->a[2] = source_at(d, 3, TYPE_PRED);
  unsigned count = operand_count(d);
  if (s->mode != ACCUMULATE_INTEGER && count >= 6) {
    s->negate_a = decode_sign(d, 4);
    s->negate_b = decode_sign(d, 5);
    unsigned i = 6;
    if (s->bytes == 2 && !s->a_in_registers && count > i) s->transpose_a = immediate_at(d, i++) != 0;
    if (s->bytes == 2 && count > i) s->transpose_b = immediate_at(d, i++) != 0;
    if (count != i) decode_wrong(d, "%u operands", count);
  } else if (count != 4) {
    decode_wrong(d, "%u operands", count);
  }
  d->kernel->has_products = true;
  in->data = s;
  in->flags |= INST_ALIGNED | INST_CUSTOM | INST_ASYNC;
  in->run = run_group_product;
}

void product_bind_group(Inst *in, const Gpu *gpu)
{
  if (in->run != run_group_product) return;
  GroupProduct *s = in->data;
  s->model = product_model(gpu, "warpgroup_mma", s->a, s->b, s->d);
}

/* --- setmaxnreg --- */

static Step run_setmaxnreg(Warp *w, const Inst *in, uint32_t mask)
{
  Block *b = w->block;
  uint32_t wanted = (uint32_t)in->immediate;
  if (!w->registers_owned) return STEP_NEXT; /* the number at entry is not known */
  if (in->operation ? wanted < w->registers_owned : wanted > w->registers_owned) {
    fault(w, in, 0, SIM_FAULT_REGISTERS, 0, "setmaxnreg.%s to %u from %u registers",
          in->operation ? "inc" : "dec", wanted, w->registers_owned);
    return STEP_NEXT;
  }
  int64_t need = ((int64_t)wanted - w->registers_owned) * LANES;
  if (need > b->register_pool) return wait_for(w, WAIT_POOL, NULL, 0, b->cluster->progress, STEP_WAIT);
  b->register_pool -= need;
  w->registers_owned = wanted;
  cluster_progress(b->cluster);
  return STEP_NEXT;
}

void decode_setmaxnreg(Decoder *d, int argument)
{
  take(d, "sync");
  take(d, "aligned");
  take(d, "u32");
  d->in->operation = take(d, "inc");
  if (!d->in->operation && !take(d, "dec")) decode_wrong(d, ".inc or .dec is missing");
  int64_t n = immediate_at(d, 0);
  if (n < 24 || n > 256 || n % 8)
    decode_wrong(d, "%lld registers; 24 to 256 in steps of 8 are possible", (long long)n);
  d->in->immediate = n;
  d->in->flags |= INST_ALIGNED | INST_CUSTOM;
  d->in->run = run_setmaxnreg;
}
