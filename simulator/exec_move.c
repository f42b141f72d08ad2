/* mov, pack and unpack, selp, slct, setp, set, and what reads clocks. */
#include "simulator/check.h"
#include "simulator/exec.h"
#include "simulator/lanes.h"
#include <math.h>
#include <string.h>

UNARY(move32, uint32_t, uint32_t, uint32_t, a)
UNARY(move64, uint64_t, uint64_t, uint64_t, a)

static Step run_move_predicate(Warp *w, const Inst *in, uint32_t mask)
{
  uint32_t value = predicate(w, in->a[0]);
  set_predicate(w, in->d[0], mask, in->negate ? ~value : value);
  return STEP_NEXT;
}

/* two words of 32 bits into one of 64, and back */
VECTORISED static void pack_words(const uint32_t *low, const uint32_t *high, uint64_t *out)
{
  uint64_t v[LANES];
  for (unsigned l = 0; l < LANES; l++)
    v[l] = low[l] | (uint64_t)high[l] << 32;
  memcpy(out, v, sizeof v); /* out may overlap a source */
}

VECTORISED static void unpack_words(const uint64_t *from, uint32_t *low, uint32_t *high)
{
  uint32_t a[LANES], b[LANES];
  for (unsigned l = 0; l < LANES; l++) {
    a[l] = (uint32_t)from[l];
    b[l] = (uint32_t)(from[l] >> 32);
  }
  memcpy(low, a, sizeof a);
  memcpy(high, b, sizeof b);
}

static bool is_word_pair(const Inst *in, uint32_t mask)
{
  return mask == FULL && in->bytes == 8 && in->n_list == 2;
}

static void pack_definedness(Warp *w, const Inst *in, uint32_t mask, unsigned part)
{
  uint32_t u = 0;
  PackedPart parts[8];
  for (unsigned i = 0; i < in->n_list; i++) {
    parts[i] = (PackedPart){in->list[i], part};
    u |= undefined_lanes(w, in->list[i]);
  }
  for (unsigned i = 0; i < in->n_writes; i++)
    set_undefined(w, in->writes[i], mask, u);
  if (u & mask && in->bytes <= 8) pack_unknown(w, in, mask, parts, in->n_list, part);
}

/* a wide register from parts, lowest first; list: parts */
static Step run_pack(Warp *w, const Inst *in, uint32_t mask)
{
  unsigned part = in->bytes / in->n_list;
  if (w->undefined) pack_definedness(w, in, mask, part);
  if (is_word_pair(in, mask)) {
    pack_words(operand(w, in->list[0]), operand(w, in->list[1]), operand(w, in->d[0]));
    return STEP_NEXT;
  }
  for_lanes(l, mask)
  {
    uint64_t v[2] = {0, 0};
    for (unsigned i = 0; i < in->n_list; i++) {
      uint64_t x = part == 8 ? lane_u64(w, in->list[i], l) : lane_u32(w, in->list[i], l);
      memcpy((uint8_t *)v + i * part, &x, part);
    }
    if (in->bytes == 16)
      memcpy((uint8_t *)operand(w, in->d[0]) + l * 16, v, 16);
    else if (in->bytes == 8)
      ((uint64_t *)operand(w, in->d[0]))[l] = v[0];
    else
      ((uint32_t *)operand(w, in->d[0]))[l] = (uint32_t)v[0];
  }
  return STEP_NEXT;
}

static Step run_unpack(Warp *w, const Inst *in, uint32_t mask)
{
  unsigned part = in->bytes / in->n_list;
  if (undefined_lanes(w, in->a[0]) & mask && in->bytes <= 8)
    unpack_unknown(w, in, mask, part);
  else if (w->undefined)
    for (unsigned i = 0; i < in->n_writes; i++)
      set_undefined(w, in->writes[i], mask, undefined_lanes(w, in->a[0]));
  if (is_word_pair(in, mask) && in->list[0] >= 4 && in->list[1] >= 4) {
    unpack_words(operand(w, in->a[0]), operand(w, in->list[0]), operand(w, in->list[1]));
    return STEP_NEXT;
  }
  for_lanes(l, mask)
  {
    uint64_t v[2] = {0, 0};
    if (in->bytes == 16)
      memcpy(v, (uint8_t *)operand(w, in->a[0]) + l * 16, 16);
    else
      v[0] = in->bytes == 8 ? lane_u64(w, in->a[0], l) : lane_u32(w, in->a[0], l);
    for (unsigned i = 0; i < in->n_list; i++) {
      if (in->list[i] < 4) continue; /* sink */
      uint64_t x = 0;
      memcpy(&x, (uint8_t *)v + i * part, part);
      if (part == 8)
        ((uint64_t *)operand(w, in->list[i]))[l] = x;
      else
        ((uint32_t *)operand(w, in->list[i]))[l] = (uint32_t)x;
    }
  }
  return STEP_NEXT;
}

static Step run_clock(Warp *w, const Inst *in, uint32_t mask)
{
  /* instructions of the warp stand in for cycles, and for nanoseconds: reproducible */
  uint64_t now = w->block->cluster->instructions + w->instructions + ++w->clock;
  for_lanes(l, mask)
  {
    if (in->bytes == 8)
      ((uint64_t *)operand(w, in->d[0]))[l] = now;
    else
      ((uint32_t *)operand(w, in->d[0]))[l] = (uint32_t)(in->operation ? now >> 32 : now);
  }
  return STEP_NEXT;
}

static bool decode_clock(Decoder *d, const PtxOperand *o, PtxType type)
{
  if (o->kind != OPERAND_REGISTER || !o->symbol->is_special) return false;
  if (strncmp(o->name, "%clock", 6) && strncmp(o->name, "%globaltimer", 12)) return false;
  d->in->bytes = (uint8_t)ptx_type_bytes(type);
  d->in->operation = g_str_has_suffix(o->name, "_hi");
  d->in->d[0] = destination_at(d, 0, type);
  d->in->run = run_clock;
  return true;
}

static void decode_pack(Decoder *d, PtxType type, const PtxOperand *vector, bool unpack)
{
  Inst *in = d->in;
  in->bytes = (uint8_t)ptx_type_bytes(type);
  unsigned n = vector->n;
  if (n < 2 || n > 8 || in->bytes % n) {
    decode_wrong(d, "%u parts of a %u-bit value", n, in->bytes * 8);
    return;
  }
  static const PtxType parts[] = {TYPE_NONE, TYPE_B8,   TYPE_B16,  TYPE_NONE, TYPE_B32,
                                  TYPE_NONE, TYPE_NONE, TYPE_NONE, TYPE_B64};
  PtxType part = in->bytes / n <= 8 ? parts[in->bytes / n] : TYPE_NONE;
  uint32_t *list = new_list(d, n);
  unsigned bytes;
  for (unsigned i = 0; i < n && part != TYPE_NONE; i++) {
    list[i] = unpack ? destination_wide(d, &vector->items[i], part, &bytes)
                     : source_wide(d, &vector->items[i], part, &bytes);
    if (vector->items[i].kind == OPERAND_REGISTER && MAX(bytes, 4) != MAX(in->bytes / n, 4))
      decode_wrong(d, "part %u has %u bits", i + 1, bytes * 8);
  }
  if (part == TYPE_NONE) decode_wrong(d, "parts of %u bits", in->bytes / n * 8);
  if (unpack)
    in->a[0] = source_at(d, 1, type);
  else
    in->d[0] = destination_at(d, 0, type);
  in->flags |= INST_CUSTOM;
  in->run = unpack ? run_unpack : run_pack;
}

void decode_mov(Decoder *d, int argument)
{
  Inst *in = d->in;
  PtxType type = need_type(d);
  const PtxOperand *to = operand_at(d, 0), *from = operand_at(d, 1);
  if (decode_clock(d, from, type)) return;
  if (to->kind == OPERAND_VECTOR || from->kind == OPERAND_VECTOR) {
    decode_pack(d, type, to->kind == OPERAND_VECTOR ? to : from, to->kind == OPERAND_VECTOR);
    return;
  }
  uint64_t offset;
  if (stack_variable(d, from, &offset)) {
    decode_local_address(d, offset, type);
    return;
  }
  in->d[0] = destination(d, to, type);
  in->a[0] = source(d, from, type);
  in->flags |= INST_COPY;
  in->negate = from->negated;
  if (type == TYPE_PRED)
    in->run = run_move_predicate;
  else if (type == TYPE_B128)
    decode_fail(d, "128-bit moves other than pack and unpack");
  else
    in->run = ptx_type_bytes(type) == 8 ? move64 : move32;
}

/* --- selection --- */

#define SELECT(name, C)                                                                                      \
  VECTORISED static Step name(Warp *w, const Inst *in, uint32_t mask)                                        \
  {                                                                                                          \
    const C *pa = operand(w, in->a[0]), *pb = operand(w, in->a[1]);                                          \
    C *pd = operand(w, in->d[0]);                                                                            \
    uint32_t p = predicate(w, in->a[2]);                                                                     \
    EACH_LANE(pd[l] = p >> l & 1 ? pa[l] : pb[l]);                                                           \
    return STEP_NEXT;                                                                                        \
  }
SELECT(select32, uint32_t)
SELECT(select64, uint64_t)

/* the value chosen decides what is undefined, not the one left */
static Step run_select(Warp *w, const Inst *in, uint32_t mask)
{
  if (w->undefined) {
    uint32_t p = predicate(w, in->a[2]), u = undefined_lanes(w, in->a[2]);
    u |= (undefined_lanes(w, in->a[0]) & p) | (undefined_lanes(w, in->a[1]) & ~p);
    if (u & mask)
      select_unknown(w, in, mask, p);
    else
      for (unsigned i = 0; i < in->n_writes; i++)
        set_undefined(w, in->writes[i], mask, 0);
  }
  return in->bytes == 8 ? select64(w, in, mask) : select32(w, in, mask);
}

void decode_selp(Decoder *d, int argument)
{
  Inst *in = d->in;
  PtxType type = need_type(d);
  in->bytes = (uint8_t)ptx_type_bytes(type);
  in->d[0] = destination_at(d, 0, type);
  in->a[0] = source_at(d, 1, type);
  in->a[1] = source_at(d, 2, type);
  in->a[2] = source_at(d, 3, TYPE_PRED);
  in->flags |= INST_CUSTOM;
  in->run = run_select;
}

static Step run_slct(Warp *w, const Inst *in, uint32_t mask)
{
  for_lanes(l, mask)
  {
    uint32_t c = lane_u32(w, in->a[2], l);
    bool first = in->type2 == TYPE_F32 ? bits_float(c) >= 0 || (in->ftz && flush(bits_float(c)) >= 0)
                                       : (int32_t)c >= 0;
    if (in->bytes == 8)
      ((uint64_t *)operand(w, in->d[0]))[l] = lane_u64(w, in->a[first ? 0 : 1], l);
    else
      ((uint32_t *)operand(w, in->d[0]))[l] = lane_u32(w, in->a[first ? 0 : 1], l);
  }
  return STEP_NEXT;
}

void decode_slct(Decoder *d, int argument)
{
  Inst *in = d->in;
  in->ftz = take(d, "ftz");
  PtxType type = need_type(d);
  in->type2 = (uint8_t)need_type(d);
  in->bytes = (uint8_t)ptx_type_bytes(type);
  in->d[0] = destination_at(d, 0, type);
  in->a[0] = source_at(d, 1, type);
  in->a[1] = source_at(d, 2, type);
  in->a[2] = source_at(d, 3, (PtxType)in->type2);
  in->run = run_slct;
}

/* --- comparison --- */

static const char *const comparisons[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "lo",  "ls",  "hi", "hs",
                                          "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan", NULL};
enum {
  CMP_EQ,
  CMP_NE,
  CMP_LT,
  CMP_LE,
  CMP_GT,
  CMP_GE,
  CMP_LO,
  CMP_LS,
  CMP_HI,
  CMP_HS,
  CMP_EQU,
  CMP_NEU,
  CMP_LTU,
  CMP_LEU,
  CMP_GTU,
  CMP_GEU,
  CMP_NUM,
  CMP_NAN
};

#define COMPARE_LOOP(E)                                                                                      \
  for (unsigned l = 0; l < LANES; l++) {                                                                     \
    __typeof__(pa[0]) a = pa[l], b = pb[l];                                                                  \
    out[l] = (uint8_t)(E);                                                                                   \
  }                                                                                                          \
  break

#define COMPARE(name, C, FLOATING)                                                                           \
  VECTORISED static uint32_t name(const void *va, const void *vb, int operation)                             \
  {                                                                                                          \
    const C *pa = va, *pb = vb;                                                                              \
    uint8_t out[LANES];                                                                                      \
    switch (operation) {                                                                                     \
    case CMP_EQ: COMPARE_LOOP(a == b);                                                                       \
    case CMP_NE: COMPARE_LOOP(FLOATING ? a<b || a> b : a != b);                                              \
    case CMP_LT:                                                                                             \
    case CMP_LO: COMPARE_LOOP(a < b);                                                                        \
    case CMP_LE:                                                                                             \
    case CMP_LS: COMPARE_LOOP(a <= b);                                                                       \
    case CMP_GT:                                                                                             \
    case CMP_HI: COMPARE_LOOP(a > b);                                                                        \
    case CMP_GE:                                                                                             \
    case CMP_HS: COMPARE_LOOP(a >= b);                                                                       \
    case CMP_EQU: COMPARE_LOOP(!(a < b || a > b));                                                           \
    case CMP_NEU: COMPARE_LOOP(a != b);                                                                      \
    case CMP_LTU: COMPARE_LOOP(!(a >= b));                                                                   \
    case CMP_LEU: COMPARE_LOOP(!(a > b));                                                                    \
    case CMP_GTU: COMPARE_LOOP(!(a <= b));                                                                   \
    case CMP_GEU: COMPARE_LOOP(!(a < b));                                                                    \
    case CMP_NUM: COMPARE_LOOP(a == a && b == b);                                                            \
    default: COMPARE_LOOP(!(a == a && b == b));                                                              \
    }                                                                                                        \
    return pack_mask(out);                                                                                   \
  }
COMPARE(compare_u32, uint32_t, 0)
COMPARE(compare_s32, int32_t, 0)
COMPARE(compare_u64, uint64_t, 0)
COMPARE(compare_s64, int64_t, 0)
COMPARE(compare_f32, float, 1)
COMPARE(compare_f64, double, 1)

static uint32_t compare_lanes(Warp *w, const Inst *in, unsigned half)
{
  const void *a = operand(w, in->a[0]), *b = operand(w, in->a[1]);
  float fa[LANES], fb[LANES];
  int32_t sa[LANES], sb[LANES];
  switch (in->type) {
  case TYPE_U64:
  case TYPE_B64: return compare_u64(a, b, in->operation);
  case TYPE_S64: return compare_s64(a, b, in->operation);
  case TYPE_F64: return compare_f64(a, b, in->operation);
  case TYPE_S32: return compare_s32(a, b, in->operation);
  case TYPE_S16:
    for (unsigned l = 0; l < LANES; l++) {
      sa[l] = (int16_t)((const uint32_t *)a)[l];
      sb[l] = (int16_t)((const uint32_t *)b)[l];
    }
    return compare_s32(sa, sb, in->operation);
  case TYPE_F32:
    if (!in->ftz) return compare_f32(a, b, in->operation);
    for (unsigned l = 0; l < LANES; l++) {
      fa[l] = flush(((const float *)a)[l]);
      fb[l] = flush(((const float *)b)[l]);
    }
    return compare_f32(fa, fb, in->operation);
  case TYPE_F16:
  case TYPE_F16X2:
    for (unsigned l = 0; l < LANES; l++) {
      uint16_t x = (uint16_t)(((const uint32_t *)a)[l] >> half),
               y = (uint16_t)(((const uint32_t *)b)[l] >> half);
      fa[l] = half_float(in->ftz && !(x & 0x7c00) ? x & 0x8000 : x);
      fb[l] = half_float(in->ftz && !(y & 0x7c00) ? y & 0x8000 : y);
    }
    return compare_f32(fa, fb, in->operation);
  case TYPE_BF16:
  case TYPE_BF16X2:
    for (unsigned l = 0; l < LANES; l++) {
      fa[l] = bfloat_float((uint16_t)(((const uint32_t *)a)[l] >> half));
      fb[l] = bfloat_float((uint16_t)(((const uint32_t *)b)[l] >> half));
    }
    return compare_f32(fa, fb, in->operation);
  default: return compare_u32(a, b, in->operation);
  }
}

static uint32_t combine(const Inst *in, uint32_t value, uint32_t with)
{
  return in->vector == 1   ? value & with
         : in->vector == 2 ? value | with
         : in->vector == 3 ? value ^ with
                           : value;
}

/* Lanes whose combination is undefined: an operand that decides alone makes the other's value irrelevant. */
static uint32_t combined_undefined(const Inst *in, uint32_t ua, uint32_t a, uint32_t ub, uint32_t b)
{
  if (in->vector == 1) return (ua & ub) | (ua & b) | (ub & a);
  if (in->vector == 2) return (ua & ub) | (ua & ~b) | (ub & ~a);
  return ua | ub;
}

static Step run_setp(Warp *w, const Inst *in, uint32_t mask)
{
  uint32_t r = compare_lanes(w, in, 0), with = 0;
  if (in->a[2] != OPERAND_NONE) with = in->negate ? ~predicate(w, in->a[2]) : predicate(w, in->a[2]);
  bool packed = in->type == TYPE_F16X2 || in->type == TYPE_BF16X2;
  uint32_t second = packed ? compare_lanes(w, in, 16) : ~r;
  if (w->undefined) {
    uint32_t u = undefined_lanes(w, in->a[0]) | undefined_lanes(w, in->a[1]), first = u, other = u;
    uint32_t p = undefined_lanes(w, in->a[2]);
    if (in->a[2] != OPERAND_NONE) {
      first = combined_undefined(in, u, r, p, with);
      other = combined_undefined(in, u, second, p, with);
    }
    set_undefined(w, in->d[0], mask, first);
    set_undefined(w, in->d[1], mask, other);
  }
  set_predicate(w, in->d[0], mask, combine(in, r, with));
  if (in->d[1] != OPERAND_NONE) set_predicate(w, in->d[1], mask, combine(in, second, with));
  return STEP_NEXT;
}

static Step run_set(Warp *w, const Inst *in, uint32_t mask)
{
  uint32_t r = compare_lanes(w, in, 0), with = 0, high = 0;
  if (in->a[2] != OPERAND_NONE) with = in->negate ? ~predicate(w, in->a[2]) : predicate(w, in->a[2]);
  r = combine(in, r, with);
  bool packed = in->type == TYPE_F16X2 || in->type == TYPE_BF16X2;
  if (packed) high = combine(in, compare_lanes(w, in, 16), with);
  for_lanes(l, mask)
  {
    uint32_t yes = FULL;
    if (in->type2 == TYPE_F32) yes = 0x3f800000;
    if (in->type2 == TYPE_F16 || in->type2 == TYPE_F16X2) yes = 0x3c00;
    if (in->type2 == TYPE_BF16 || in->type2 == TYPE_BF16X2) yes = 0x3f80;
    uint32_t v = r >> l & 1 ? yes : 0;
    if (packed) v = (v & 0xffff) | (high >> l & 1 ? (yes & 0xffff) << 16 : 0);
    if (ptx_type_bytes((PtxType)in->type2) == 2) v &= 0xffff;
    ((uint32_t *)operand(w, in->d[0]))[l] = v;
  }
  return STEP_NEXT;
}

void decode_compare(Decoder *d, int is_set)
{
  static const char *const booleans[] = {"and", "or", "xor", NULL};
  Inst *in = d->in;
  int operation, boolean = -1;
  if (!take_one(d, comparisons, &operation)) {
    decode_wrong(d, "the comparison is missing");
    return;
  }
  take_one(d, booleans, &boolean);
  in->ftz = take(d, "ftz");
  in->operation = (uint8_t)operation;
  in->vector = (uint8_t)(boolean + 1);
  if (is_set) in->type2 = (uint8_t)need_type(d);
  PtxType type = need_type(d);
  in->type = (uint8_t)type;
  if (is_set) {
    in->d[0] = destination_at(d, 0, (PtxType)in->type2);
  } else if (operand_at(d, 0)->kind == OPERAND_PAIR) {
    in->d[0] = destination(d, &operand_at(d, 0)->items[0], TYPE_PRED);
    in->d[1] = destination(d, &operand_at(d, 0)->items[1], TYPE_PRED);
  } else {
    in->d[0] = destination_at(d, 0, TYPE_PRED);
  }
  in->a[0] = source_at(d, 1, type);
  in->a[1] = source_at(d, 2, type);
  if (boolean >= 0) {
    in->a[2] = source_at(d, 3, TYPE_PRED);
    in->negate = operand_at(d, 3)->negated;
  }
  if (!is_set) in->flags |= INST_CUSTOM;
  in->run = is_set ? run_set : run_setp;
}
