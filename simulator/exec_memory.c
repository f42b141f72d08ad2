/* Loads, stores, atomics, address conversions. */
#include "simulator/check.h"
#include "simulator/exec.h"
#include "simulator/place.h"
#include "simulator/race.h"
#include <string.h>

#define MORE_LOCAL_SIZE (1u << 20)

static inline uint64_t lane_address(const Warp *w, const Inst *in, unsigned lane)
{
  if (in->wide) return lane_u64(w, in->a[0], lane) + (uint64_t)in->immediate;
  return (uint32_t)(lane_u32(w, in->a[0], lane) + (uint32_t)in->immediate);
}

static inline uint64_t read_element(const uint8_t *at, unsigned bytes, bool is_signed)
{
  uint64_t v = 0;
  switch (bytes) {
  case 1: return is_signed ? (uint64_t)(int64_t) * (const int8_t *)at : *at;
  case 2: memcpy(&v, at, 2); return is_signed ? (uint64_t)(int64_t)(int16_t)v : v;
  case 4: memcpy(&v, at, 4); return is_signed ? (uint64_t)(int64_t)(int32_t)v : v;
  default: memcpy(&v, at, 8); return v;
  }
}

/* Lanes whose bytes lie one behind the other are looked at together for races, those that read what the lane
 * before them reads not again: a reader is remembered by its warp. */
typedef struct ReadRun {
  Place p; /* of the first lane; at NULL: empty */
  unsigned lane, lanes;
  uint64_t last; /* offset of the latest lane's bytes */
} ReadRun;

static void end_run(Warp *w, const Inst *in, ReadRun *run, unsigned bytes)
{
  if (run->p.at && run->lanes > 1)
    race_check_lanes(w, in, run->lane, &run->p, run->lanes * bytes, bytes, ACCESS_READ, 0);
  else if (run->p.at)
    race_access(w, in, run->lane, &run->p, bytes, ACCESS_READ, false);
  run->p.at = NULL;
}

static inline void extend_run(Warp *w, const Inst *in, ReadRun *run, unsigned lane, const Place *p,
                              unsigned bytes)
{
  bool watched = p->block ? p->block->check != NULL : p->buffer && p->buffer->check;
  if (!watched) return;
  bool near = run->p.at && run->p.block == p->block && run->p.buffer == p->buffer;
  if (near && p->offset == run->last) return;
  run->last = p->offset;
  if (near && lane == run->lane + run->lanes && p->at == run->p.at + run->lanes * bytes && bytes >= 4 &&
      (!p->block || p->block == w->block)) {
    run->lanes++;
    return;
  }
  end_run(w, in, run, bytes);
  run->p = *p;
  run->lane = lane;
  run->lanes = 1;
}

/* Of a vector whose bytes are not all written, the elements that are stay defined. A register of more than 32
 * bits has several slots. */
static void set_undefined_elements(Warp *w, const Inst *in, uint32_t mask, const uint32_t *undefined)
{
  for (unsigned i = 0; w->undefined && i < in->n_writes; i++) {
    unsigned owner = 0;
    for (unsigned e = 1; e < in->n_list; e++) {
      bool nearer = in->list[e] > in->list[owner] || in->list[owner] > in->writes[i];
      if (in->list[e] <= in->writes[i] && nearer) owner = e;
    }
    /* which bytes of a lane are undefined is known already */
    set_undefined(w, in->writes[i], in->bytes > 8 ? mask : mask & ~undefined[owner], undefined[owner]);
  }
}

/* A register that is wider than the element takes its sign. */
static void note_undefined(Warp *w, const Inst *in, const Place *place, unsigned lane, uint32_t *undefined)
{
  Place p = *place;
  for (unsigned e = 0; e < in->n_list; e++, p.offset += in->bytes) {
    if (is_defined_near(&p, in->bytes)) continue;
    undefined[e] |= 1u << lane;
    if (in->bytes > 8 || in->list[e] < 4) continue;
    uint64_t bits = memory_unknown(&p, in->bytes);
    if (in->negate && in->bytes < 8 && bits >> (in->bytes * 8 - 1) & 1) bits |= ~0ull << in->bytes * 8;
    set_unknown(w, in->list[e], lane, in->operation ? 8 : 4, bits);
  }
}

/* in->list: destinations; in->operation: destination registers are 64 bits wide; in->negate: sign-extend */
static Step run_load(Warp *w, const Inst *in, uint32_t mask)
{
  unsigned n = in->n_list, bytes = in->bytes, total = n * bytes;
  if (mask == FULL && load_span(w, in)) return STEP_NEXT;
  if (w->undefined) check_value(w, in, in->a[0], mask, "the address of a load");
  void *out[8];
  for (unsigned e = 0; e < n; e++)
    out[e] = operand(w, in->list[e]);
  uint32_t undefined[8] = {0};
  bool polls = in->order != ORDER_WEAK && in->space != SPACE_LOCAL, same = true;
  bool word = n == 1 && bytes == 4 && !in->operation;
  ReadRun run = {{0}};
  for_lanes(l, mask)
  {
    uint64_t address = lane_address(w, in, l);
    Place p = place_at(w, in, l, (Space)in->space, address, total, ACCESS_READ);
    if (p.at) {
      if (polls) same &= poll_same(w, in, l, &p, total);
      if (in->order == ORDER_WEAK)
        extend_run(w, in, &run, l, &p, total);
      else
        race_access(w, in, l, &p, total, ACCESS_READ, true);
      if (!is_defined_near(&p, total)) note_undefined(w, in, &p, l, undefined);
    }
    /* what was refused is reported already: go on with zeros */
    if (word) {
      uint32_t v = 0;
      if (p.at) memcpy(&v, p.at, 4);
      ((uint32_t *)out[0])[l] = v;
      continue;
    }
    for (unsigned e = 0; e < n; e++) {
      if (bytes == 16) {
        memcpy((uint8_t *)out[e] + l * 16, p.at ? p.at : (const uint8_t[16]){0}, 16);
        continue;
      }
      uint64_t v = p.at ? read_element(p.at + e * bytes, bytes, in->negate) : 0;
      if (in->operation)
        ((uint64_t *)out[e])[l] = v;
      else
        ((uint32_t *)out[e])[l] = (uint32_t)v & in->more;
    }
  }
  end_run(w, in, &run, total);
  set_undefined_elements(w, in, mask, undefined);
  return polls ? session_switch(w, poll_end(w, in, mask, same)) : STEP_NEXT;
}

/* Is one of the bytes that the lane stores undefined? */
static bool stores_unknown(const Warp *w, const Inst *in, unsigned lane)
{
  for (unsigned e = 0; e < in->n_list; e++)
    if (in->bytes > 8 ? undefined_lanes(w, in->list[e]) >> lane & 1
                      : unknown_bits(w, in->list[e], lane, in->bytes) != 0)
      return true;
  return false;
}

static Step run_store(Warp *w, const Inst *in, uint32_t mask)
{
  unsigned n = in->n_list, bytes = in->bytes, total = n * bytes;
  if (mask == FULL && store_span(w, in)) return STEP_NEXT;
  if (w->undefined) check_value(w, in, in->a[0], mask, "the address of a store");
  const uint8_t *values[8];
  unsigned stride = in->operation ? 8 : 4;
  uint32_t undefined = 0;
  for (unsigned e = 0; e < n; e++) {
    values[e] = operand(w, in->list[e]);
    undefined |= undefined_lanes(w, in->list[e]);
  }
  if (bytes == 16) stride = 16;
  for_lanes(l, mask)
  {
    uint64_t address = lane_address(w, in, l);
    Place p = place_at(w, in, l, (Space)in->space, address, total, ACCESS_WRITE);
    if (!p.at) continue;
    bool same = true;
    for (unsigned e = 0; e < n && same; e++)
      same = memcmp(p.at + e * bytes, values[e] + l * stride, bytes) == 0;
    race_access(w, in, l, &p, total, same ? ACCESS_SAME : ACCESS_WRITE, in->order != ORDER_WEAK);
    for (unsigned e = 0; e < n; e++)
      memcpy(p.at + e * bytes, values[e] + l * stride, bytes);
    if (p.defined) {
      memory_define(&p, total, true);
      for (unsigned e = 0; e < n && undefined >> l & 1; e++) {
        Place q = p;
        q.offset += e * bytes;
        if (bytes <= 8)
          memory_define_known(&q, bytes, unknown_bits(w, in->list[e], l, bytes));
        else if (undefined_lanes(w, in->list[e]) >> l & 1)
          memory_define(&q, bytes, false);
      }
    }
    if (undefined >> l & 1 && p.buffer && !p.buffer->carries && stores_unknown(w, in, l))
      fault(w, in, l, SIM_FAULT_UNDEFINED, address, "a value nobody has written is stored to buffer '%s'",
            p.buffer->name);
  }
  if (in->space != SPACE_LOCAL) cluster_progress(w->block->cluster);
  return in->order != ORDER_WEAK ? session_switch(w, STEP_NEXT) : STEP_NEXT;
}

static const char *const scope_names[] = {"cta", "cluster", "gpu", "sys", "gl", NULL};
static const uint8_t scope_values[] = {SCOPE_BLOCK, SCOPE_CLUSTER, SCOPE_GPU, SCOPE_GPU, SCOPE_GPU};

void take_order(Decoder *d, MemoryOrder otherwise)
{
  static const char *const orders[] = {"weak", "relaxed",  "acquire", "release", "acq_rel",
                                       "sc",   "volatile", "mmio",    NULL};
  static const uint8_t map[] = {ORDER_WEAK, ORDER_RELAXED, ORDER_ACQUIRE, ORDER_RELEASE,
                                ORDER_BOTH, ORDER_BOTH,    ORDER_RELAXED, ORDER_RELAXED};
  Inst *in = d->in;
  int which;
  in->order = (uint8_t)otherwise;
  while (take_one(d, orders, &which))
    in->order = map[which];
  in->scope = in->order == ORDER_WEAK ? SCOPE_NONE : SCOPE_GPU;
  while (take_one(d, scope_names, &which))
    if (in->order != ORDER_WEAK) in->scope = scope_values[which];
}

Space take_space(Decoder *d)
{
  static const char *const names[] = {"global", "shared",       "shared::cta", "shared::cluster", "local",
                                      "param",  "param::entry", "param::func", "const",           NULL};
  static const Space map[] = {SPACE_GLOBAL, SPACE_SHARED, SPACE_SHARED, SPACE_CLUSTER, SPACE_LOCAL,
                              SPACE_PARAM,  SPACE_PARAM,  SPACE_PARAM,  SPACE_CONST};
  int which;
  return take_one(d, names, &which) ? map[which] : SPACE_GENERIC;
}

static void decode_address(Decoder *d, unsigned i)
{
  Space space = d->in->space;
  bool wide;
  d->in->a[0] = address(d, operand_at(d, i), &d->in->immediate, &wide, &space);
  d->in->wide = wide;
  d->in->space = (uint8_t)space;
}

static unsigned take_vector(Decoder *d)
{
  static const char *const names[] = {"v2", "v4", "v8", NULL};
  int which;
  return take_one(d, names, &which) ? 2u << which : 1;
}

void decode_load_store(Decoder *d, int is_store)
{
  Inst *in = d->in;
  take_order(d, ORDER_WEAK);
  in->space = (uint8_t)take_space(d);
  take(d, "unified");
  in->read_only = take(d, "nc");
  take_hints(d);
  in->vector = (uint8_t)take_vector(d);
  PtxType type = need_type(d);
  in->type = (uint8_t)type;
  in->bytes = (uint8_t)ptx_type_bytes(type);
  decode_address(d, is_store ? 0 : 1);
  if (in->order != ORDER_WEAK && (in->space == SPACE_GLOBAL || in->space == SPACE_GENERIC))
    d->kernel->global_order = true;
  const PtxOperand *items;
  unsigned n = elements(operand_at(d, is_store ? 1 : 0), &items), bytes = 0;
  if (n != in->vector) {
    decode_wrong(d, "%u registers for .v%u", n, in->vector);
    return;
  }
  if (type == TYPE_PRED) decode_wrong(d, "predicates cannot be in memory");
  in->negate = type == TYPE_S8 || type == TYPE_S16 || type == TYPE_S32;
  uint32_t *list = new_list(d, n);
  for (unsigned i = 0; i < n; i++) {
    unsigned b;
    bool sink = items[i].kind == OPERAND_SINK;
    list[i] = is_store ? source_wide(d, &items[i], type, &b) : destination_wide(d, &items[i], type, &b);
    if (sink) continue;
    if (b < in->bytes) decode_wrong(d, "a register is narrower than %u bits", in->bytes * 8);
    if (bytes && MAX(b, 4) != MAX(bytes, 4)) decode_wrong(d, "registers of different width");
    bytes = b;
  }
  if (!bytes) bytes = in->bytes;
  in->operation = bytes > 4;
  in->more = bytes == 2 ? 0xffff : 0xffffffff; /* bits a destination of at most 32 bits holds */
  in->flags |= INST_CUSTOM;
  in->run = is_store ? run_store : run_load;
  if (in->bytes * n > 32) decode_fail(d, "more than 32 bytes per lane");
  if (operand_count(d) > 2 && operand_at(d, 2)->kind == OPERAND_REGISTER)
    source_at(d, 2, TYPE_B64); /* cache policy */
}

/* --- atomics --- */

static const char *const atomic_names[] = {"add",  "min", "max", "and", "or", "xor",
                                           "exch", "cas", "inc", "dec", NULL};

static uint16_t half_operation(PtxType type, int operation, uint16_t a, uint16_t b)
{
  bool bf = type == TYPE_BF16 || type == TYPE_BF16X2;
  float x = bf ? bfloat_float(a) : half_float(a), y = bf ? bfloat_float(b) : half_float(b);
  float r = operation == ATOM_ADD                                          ? x + y
            : isnan(x)                                                     ? y
            : isnan(y)                                                     ? x
            : (operation == ATOM_MIN) == (x < y || (x == y && signbit(x))) ? x
                                                                           : y;
  return bf ? float_bfloat(r) : float_half(r);
}

uint64_t atomic_value(PtxType type, int operation, uint64_t a, uint64_t b, uint64_t c)
{
  bool is_signed = type == TYPE_S32 || type == TYPE_S64, is32 = ptx_type_bytes(type) == 4;
  int64_t sa = is32 ? (int32_t)a : (int64_t)a, sb = is32 ? (int32_t)b : (int64_t)b;
  switch (operation) {
  case ATOM_ADD:
    if (type == TYPE_F32) {
      float r = bits_float((uint32_t)a) + bits_float((uint32_t)b);
      return isnan(r) ? 0x7fffffff : float_bits(r);
    }
    if (type == TYPE_F64 && isnan(bits_double(a))) return a;
    if (type == TYPE_F64) return double_bits(bits_double(a) + bits_double(b));
    break;
  case ATOM_EXCH: return b;
  case ATOM_CAS: return a == b ? c : a;
  case ATOM_AND: return a & b;
  case ATOM_OR: return a | b;
  case ATOM_XOR: return a ^ b;
  case ATOM_INC: return (uint32_t)a >= (uint32_t)b ? 0 : a + 1;
  case ATOM_DEC: return a == 0 || (uint32_t)a > (uint32_t)b ? b : a - 1;
  default: break;
  }
  if (type == TYPE_F16 || type == TYPE_BF16) return half_operation(type, operation, (uint16_t)a, (uint16_t)b);
  if (type == TYPE_F16X2 || type == TYPE_BF16X2)
    return half_operation(type, operation, (uint16_t)a, (uint16_t)b) |
           (uint32_t)half_operation(type, operation, (uint16_t)(a >> 16), (uint16_t)(b >> 16)) << 16;
  if (operation == ATOM_ADD) return a + b;
  bool less = is_signed ? sa < sb : a < b;
  return less == (operation == ATOM_MIN) ? a : b;
}

/* 128 bits: exch and cas. list[0] compare value of cas or new value; a[2] new value of cas */
static Step run_atomic128(Warp *w, const Inst *in, uint32_t mask)
{
  if (w->undefined) check_value(w, in, in->a[0], mask, "the address of an atomic");
  bool cas = in->operation == ATOM_CAS;
  uint32_t undefined = 0;
  for_lanes(l, mask)
  {
    Place p = memory_place(w, in, l, in->space, lane_address(w, in, l), 16, ACCESS_ATOMIC);
    if (!p.at) continue;
    race_access(w, in, l, &p, 16, ACCESS_ATOMIC, true);
    if (!memory_is_defined(&p, 16)) undefined |= 1u << l;
    uint8_t old[16];
    const uint8_t *first = (const uint8_t *)operand(w, in->list[0]) + (size_t)l * 16;
    memcpy(old, p.at, 16);
    if (!cas)
      memcpy(p.at, first, 16);
    else if (memcmp(old, first, 16) == 0)
      memcpy(p.at, (const uint8_t *)operand(w, in->a[2]) + (size_t)l * 16, 16);
    if (in->d[0] != OPERAND_NONE) memcpy((uint8_t *)operand(w, in->d[0]) + (size_t)l * 16, old, 16);
  }
  for (unsigned i = 0; i < in->n_writes; i++)
    set_undefined(w, in->writes[i], mask, undefined);
  cluster_progress(w->block->cluster);
  return session_switch(w, STEP_NEXT);
}

/* list: values (vector of in->vector); a[1]: compare value of cas is list[0], new value a[2] */
static Step run_atomic(Warp *w, const Inst *in, uint32_t mask)
{
  unsigned n = in->vector, bytes = in->bytes;
  if (w->undefined) check_value(w, in, in->a[0], mask, "the address of an atomic");
  for (unsigned e = 0; e < n && w->undefined; e++)
    check_value(w, in, in->list[e], mask, "the operand of an atomic");
  bool changed = false, same = true;
  uint32_t undefined = 0;
  for_lanes(l, mask)
  {
    uint64_t address = lane_address(w, in, l);
    Place p = memory_place(w, in, l, in->space, address, bytes * n, ACCESS_ATOMIC);
    if (!p.at) continue;
    race_access(w, in, l, &p, bytes * n, ACCESS_ATOMIC, true);
    if (!memory_is_defined(&p, bytes * n)) undefined |= 1u << l;
    for (unsigned e = 0; e < n; e++) {
      uint64_t old = read_element(p.at + e * bytes, bytes, false);
      uint64_t b = bytes == 8 ? lane_u64(w, in->list[e], l) : lane_u32(w, in->list[e], l);
      uint64_t c = in->a[2] == OPERAND_NONE ? 0
                   : bytes == 8             ? lane_u64(w, in->a[2], l)
                                            : lane_u32(w, in->a[2], l);
      if (bytes == 2) b &= 0xffff;
      uint64_t value = atomic_value((PtxType)in->type, in->operation, old, b, c);
      /* seen on hardware: sums of f32 in global memory flush subnormals, those in shared memory do not */
      if (in->type == TYPE_F32 && in->operation == ATOM_ADD && p.buffer)
        value = float_bits(flush(bits_float(
            (uint32_t)atomic_value(TYPE_F32, ATOM_ADD, float_bits(flush(bits_float((uint32_t)old))),
                                   float_bits(flush(bits_float((uint32_t)b))), 0))));
      memcpy(p.at + e * bytes, &value, bytes);
      changed |= memcmp(&old, &value, bytes) != 0;
      if (in->d[0] == OPERAND_NONE) continue;
      void *out = operand(w, in->n_list > n ? in->list[n + e] : in->d[0]);
      if (bytes == 8)
        ((uint64_t *)out)[l] = old;
      else
        ((uint32_t *)out)[l] = (uint32_t)old;
    }
    if (in->d[0] != OPERAND_NONE) same &= poll_same(w, in, l, &p, bytes * n);
  }
  for (unsigned i = 0; i < in->n_writes; i++)
    set_undefined(w, in->writes[i], mask, undefined);
  if (changed || in->d[0] == OPERAND_NONE) {
    cluster_progress(w->block->cluster);
    return session_switch(w, STEP_NEXT);
  }
  return poll_end(w, in, mask, same);
}

void decode_atomic(Decoder *d, int is_reduction)
{
  Inst *in = d->in;
  int operation;
  take_order(d, ORDER_RELAXED);
  take(d, "noftz");
  in->space = (uint8_t)take_space(d);
  take_hints(d);
  if (!take_one(d, atomic_names, &operation)) {
    decode_wrong(d, "unknown atomic operation");
    return;
  }
  in->vector = (uint8_t)take_vector(d);
  PtxType type = need_type(d);
  in->type = (uint8_t)type;
  in->bytes = (uint8_t)ptx_type_bytes(type);
  in->operation = (uint8_t)operation;
  bool known = in->bytes == 2 || in->bytes == 4 || in->bytes == 8;
  bool small =
      type == TYPE_F16 || type == TYPE_BF16 || type == TYPE_B16 || type == TYPE_U16 || type == TYPE_S16;
  bool wide = type == TYPE_B128 && (operation == ATOM_CAS || operation == ATOM_EXCH) && in->vector == 1;
  if (!(known || wide) || (in->bytes == 2 && !small)) decode_fail(d, "type '%s'", ptx_type_name(type));
  decode_address(d, is_reduction ? 0 : 1);
  if (in->space == SPACE_GLOBAL || in->space == SPACE_GENERIC) d->kernel->global_order = true;
  unsigned first = is_reduction ? 1 : 2;
  const PtxOperand *items, *results = NULL;
  unsigned n = elements(operand_at(d, first), &items);
  if (n != in->vector) decode_wrong(d, "%u registers for .v%u", n, in->vector);
  unsigned m = is_reduction ? 0 : elements(operand_at(d, 0), &results);
  uint32_t *list = new_list(d, n + m);
  for (unsigned i = 0; i < n; i++)
    list[i] = source(d, &items[i], type);
  if (m && results->kind != OPERAND_SINK) {
    for (unsigned i = 0; i < m; i++)
      list[n + i] = destination(d, &results[i], type);
    in->d[0] = list[n];
  } else {
    in->n_list = (uint16_t)n;
  }
  if (operation == ATOM_CAS) in->a[2] = source_at(d, first + 1, type);
  in->flags |= INST_CUSTOM;
  in->run = wide ? run_atomic128 : run_atomic;
}

/* --- addresses --- */

static uint64_t window_of(Space space)
{
  switch (space) {
  case SPACE_SHARED:
  case SPACE_CLUSTER: return WINDOW_SHARED;
  case SPACE_LOCAL: return WINDOW_LOCAL;
  case SPACE_PARAM: return WINDOW_PARAM;
  case SPACE_CONST: return WINDOW_CONST;
  default: return 0;
  }
}

static Step run_cvta(Warp *w, const Inst *in, uint32_t mask)
{
  for_lanes(l, mask)
  {
    uint64_t a = in->bytes == 8 ? lane_u64(w, in->a[0], l) : lane_u32(w, in->a[0], l);
    a += in->more;
    if (in->operation)
      ((uint64_t *)operand(w, in->d[0]))[l] = a;
    else
      ((uint32_t *)operand(w, in->d[0]))[l] = (uint32_t)a;
  }
  return STEP_NEXT;
}

void decode_cvta(Decoder *d, int argument)
{
  Inst *in = d->in;
  bool to = take(d, "to");
  Space space = take_space(d);
  PtxType type = need_type(d);
  unsigned bytes, out;
  in->d[0] = destination_wide(d, operand_at(d, 0), type, &out);
  in->a[0] = source_wide(d, operand_at(d, 1), type, &bytes);
  in->bytes = (uint8_t)MAX(bytes, 4);
  in->operation = out == 8;
  uint64_t window = window_of(space);
  in->more = to ? 0 - window : window;
  in->run = run_cvta;
}

static Step run_isspacep(Warp *w, const Inst *in, uint32_t mask)
{
  uint32_t result = 0;
  for_lanes(l, mask)
  {
    uint64_t a = lane_u64(w, in->a[0], l);
    bool inside;
    if (in->space == SPACE_GLOBAL) {
      inside = a >> BUFFER_SHIFT && a < WINDOW_CONST;
    } else {
      inside = a >> 32 == window_of(in->space) >> 32;
      uint32_t rank = (uint32_t)a >> RANK_SHIFT;
      if (inside && in->space == SPACE_SHARED) inside = !rank || rank - 1 == w->block->rank;
    }
    result |= (uint32_t)inside << l;
  }
  set_predicate(w, in->d[0], mask, result);
  return STEP_NEXT;
}

void decode_isspacep(Decoder *d, int argument)
{
  d->in->space = (uint8_t)take_space(d);
  d->in->d[0] = destination_at(d, 0, TYPE_PRED);
  d->in->a[0] = source_at(d, 1, TYPE_U64);
  d->in->run = run_isspacep;
}

/* mapa: the same variable in a peer block; getctarank: whose is it. operation: the address is generic, 64
 * bits */
static Step run_mapa(Warp *w, const Inst *in, uint32_t mask)
{
  for_lanes(l, mask)
  {
    uint64_t a = in->bytes == 8 ? lane_u64(w, in->a[0], l) : lane_u32(w, in->a[0], l);
    uint64_t window = in->operation ? WINDOW_SHARED : 0;
    uint32_t local = (uint32_t)(a - window), rank = local >> RANK_SHIFT;
    uint32_t offset = local & ((1u << RANK_SHIFT) - 1);
    if (in->negate) {
      ((uint32_t *)operand(w, in->d[0]))[l] = rank ? rank - 1 : w->block->rank;
      continue;
    }
    uint32_t target = lane_u32(w, in->a[1], l);
    if (target >= w->block->cluster->n_blocks)
      fault(w, in, l, SIM_FAULT_CLUSTER, a, "block %u of a cluster of %u blocks", target,
            w->block->cluster->n_blocks);
    uint64_t result = window + ((uint64_t)(target + 1) << RANK_SHIFT | offset);
    if (in->bytes == 8)
      ((uint64_t *)operand(w, in->d[0]))[l] = result;
    else
      ((uint32_t *)operand(w, in->d[0]))[l] = (uint32_t)result;
  }
  return STEP_NEXT;
}

void decode_mapa(Decoder *d, int is_rank)
{
  Inst *in = d->in;
  Space space = take_space(d);
  PtxType type = need_type(d);
  in->negate = is_rank;
  in->operation = space == SPACE_GENERIC;
  in->bytes = (uint8_t)ptx_type_bytes(type);
  in->d[0] = destination_at(d, 0, is_rank ? TYPE_U32 : type);
  in->a[0] = source_at(d, 1, type);
  if (!is_rank) in->a[1] = source_at(d, 2, TYPE_U32);
  in->run = run_mapa;
}

Step run_nop(Warp *w, const Inst *in, uint32_t mask)
{
  return STEP_NEXT;
}

static Step run_policy(Warp *w, const Inst *in, uint32_t mask)
{
  for_lanes(l, mask)((uint64_t *)operand(w, in->d[0]))[l] = in->more;
  return STEP_NEXT;
}

/* Hints: prefetches and policies change no result. */
void decode_hint(Decoder *d, int argument)
{
  d->taken = ~0ull;
  d->in->flags |= INST_CUSTOM;
  d->in->run = run_nop;
  if (strcmp(d->source->parts[0], "createpolicy") == 0) {
    d->in->d[0] = destination_at(d, 0, TYPE_B64);
    d->in->more = 1ull << 60;
    d->in->run = run_policy;
    d->in->flags = 0;
  }
}
