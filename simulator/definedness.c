/* Which bytes of registers nobody has written. See definedness.h. */
#include "simulator/definedness.h"
#include "simulator/decode.h"
#include <string.h>

/* --- how an instruction spreads them: by its name and its last type --- */

#define TABLE_AND 0xc0 /* truth tables of three inputs as for lop3, the first is the highest bit */
#define TABLE_OR  0xfc
#define TABLE_XOR 0x3c
#define TABLE_NOT 0x0f

static const struct {
  const char *name;
  SpreadKind kind;
  uint8_t table;
} rows[] = {
    {"mov", SPREAD_COPY, 0},          {"and", SPREAD_LOGIC, TABLE_AND}, {"or", SPREAD_LOGIC, TABLE_OR},
    {"xor", SPREAD_LOGIC, TABLE_XOR}, {"not", SPREAD_LOGIC, TABLE_NOT}, {"lop3", SPREAD_LOGIC, 0},
    {"shl", SPREAD_LEFT, 0},          {"shr", SPREAD_RIGHT, 0},         {"shf", SPREAD_FUNNEL, 0},
    {"bfe", SPREAD_EXTRACT, 0},       {"bfi", SPREAD_INSERT, 0},        {"prmt", SPREAD_PERMUTE, 0},
    {"cvt", SPREAD_CONVERT, 0}};

static bool is_integer(PtxType type)
{
  const char *name = ptx_type_name(type);
  return strchr("usb", name[0]) && !strchr(name, 'x');
}

static unsigned packed_unit(PtxType type)
{
  if (type == TYPE_F32X2) return 4;
  return type == TYPE_F16X2 || type == TYPE_BF16X2 || type == TYPE_U16X2 || type == TYPE_S16X2 ? 2 : 0;
}

void spread_decode(Inst *in)
{
  const PtxInstruction *source = in->source;
  PtxType types[2] = {TYPE_NONE, TYPE_NONE}; /* the last, and the one before */
  for (unsigned i = 1; i < source->n_parts; i++) {
    PtxType type = ptx_type_parse(source->parts[i]);
    if (type == TYPE_NONE) continue;
    types[1] = types[0];
    types[0] = type;
  }
  PtxType to = types[1] == TYPE_NONE ? types[0] : types[1];
  bool one = in->d[0] != OPERAND_NONE && in->n_writes == (ptx_type_bytes(to) == 8 ? 2 : 1);
  if (in->flags & INST_CUSTOM || types[0] == TYPE_NONE || types[0] == TYPE_PRED || !one) return;
  Spread s = {.bytes = (uint8_t)ptx_type_bytes(to), .from = (uint8_t)ptx_type_bytes(types[0])};
  s.is_signed = ptx_type_name(types[0])[0] == 's';
  for (unsigned i = 0; i < G_N_ELEMENTS(rows); i++)
    if (strcmp(rows[i].name, source->parts[0]) == 0) {
      s.kind = rows[i].kind;
      s.table = rows[i].table;
    }
  if (s.kind == SPREAD_WHOLE) s.unit = (uint8_t)packed_unit(types[0]);
  if (s.unit) s.kind = SPREAD_PARTS;
  if (strcmp(source->parts[0], "lop3") == 0) s.table = (uint8_t)in->immediate;
  bool plain = is_integer(types[0]) && is_integer(to) && !in->saturate;
  if (s.kind == SPREAD_CONVERT && !plain) s.kind = SPREAD_WHOLE;
  if (s.kind == SPREAD_PERMUTE && in->immediate) s.kind = SPREAD_WHOLE;
  if (s.bytes <= 8 && s.from <= 8) in->spread = s;
}

/* --- one lane --- */

static uint64_t low(unsigned bits)
{
  return bits >= 64 ? ~0ull : (1ull << bits) - 1;
}

static uint64_t value_of(const Warp *w, uint32_t id, unsigned lane, unsigned bytes)
{
  if (id == OPERAND_NONE) return 0;
  return bytes == 8 ? lane_u64(w, id, lane) : lane_u32(w, id, lane) & low(bytes * 8);
}

uint64_t unknown_bits(const Warp *w, uint32_t id, unsigned lane, unsigned bytes)
{
  if (!(undefined_lanes(w, id) >> lane & 1)) return 0;
  uint64_t found = 0;
  for (unsigned i = 0; i < MAX(bytes, 4); i++)
    found |= (uint64_t)(w->unknown[id + i / 4][i % 4] >> lane & 1 ? 0xff : 0) << 8 * i;
  return (found ? found : ~0ull) & low(bytes * 8); /* no byte: the register has never been written */
}

bool never_written(const Warp *w, uint32_t id, unsigned lane)
{
  if (!(undefined_lanes(w, id) >> lane & 1)) return false;
  const uint32_t *bytes = w->unknown[id];
  return !((bytes[0] | bytes[1] | bytes[2] | bytes[3]) >> lane & 1);
}

void set_unknown(Warp *w, uint32_t id, unsigned lane, unsigned bytes, uint64_t bits)
{
  uint32_t one = 1u << lane;
  for (unsigned slot = 0; slot < (bytes > 4 ? 2u : 1u); slot++) {
    w->undefined[id + slot] = bits ? w->undefined[id + slot] | one : w->undefined[id + slot] & ~one;
    for (unsigned i = 0; i < 4; i++) {
      bool unknown = bits >> (slot * 4 + i) * 8 & 0xff;
      uint32_t *lanes = &w->unknown[id + slot][i];
      *lanes = unknown ? *lanes | one : *lanes & ~one;
    }
  }
}

static uint64_t shift_right(uint64_t a, uint64_t n, unsigned bits, bool is_signed)
{
  if (n >= bits) return is_signed && a >> (bits - 1) & 1 ? low(bits) : 0;
  uint64_t r = a >> n;
  return is_signed && a >> (bits - 1) & 1 ? r | (low(bits) & ~low(bits - (unsigned)n)) : r;
}

/* A bit is unknown if the operands' unknown bits can make it both. */
static uint64_t by_table(unsigned table, const uint64_t v[3], const uint64_t u[3])
{
  uint64_t can[2] = {0, 0};
  for (unsigned i = 0; i < 8; i++)
    can[table >> i & 1] |=
        ((i & 4 ? v[0] : ~v[0]) | u[0]) & ((i & 2 ? v[1] : ~v[1]) | u[1]) & ((i & 1 ? v[2] : ~v[2]) | u[2]);
  return can[0] & can[1];
}

static uint64_t by_permutation(uint64_t a, uint64_t b, uint64_t selector)
{
  uint64_t both = b << 32 | a, r = 0;
  for (unsigned i = 0; i < 4; i++) {
    unsigned s = selector >> 4 * i & 15;
    r |= (both >> 8 * (s & 7) & 0xff) << 8 * i;
  }
  return r;
}

static uint64_t by_parts(uint64_t any, unsigned unit, unsigned bytes)
{
  uint64_t r = 0;
  for (unsigned i = 0; i < bytes; i += unit)
    if (any >> 8 * i & low(unit * 8)) r |= low(unit * 8) << 8 * i;
  return r;
}

/* Unknown bits of the result in a lane that has some in its sources. */
static uint64_t spread_lane(const Warp *w, const Inst *in, unsigned l)
{
  const Spread *s = &in->spread;
  unsigned bits = s->bytes * 8u;
  bool narrow_second = s->kind != SPREAD_LOGIC && s->kind != SPREAD_INSERT && s->kind != SPREAD_PARTS;
  uint64_t u[4], v[4];
  for (unsigned i = 0; i < 4; i++) { /* counts and positions have 32 bits */
    unsigned bytes = (i && narrow_second) || (s->kind == SPREAD_INSERT && i > 1) ? 4 : s->from;
    u[i] = unknown_bits(w, in->a[i], l, bytes);
    v[i] = value_of(w, in->a[i], l, bytes);
  }
  switch (s->kind) {
  case SPREAD_COPY: return u[0];
  case SPREAD_LOGIC: return by_table(s->table, v, u) & low(bits);
  case SPREAD_PARTS: return by_parts(u[0] | u[1] | u[2], s->unit, s->bytes);
  case SPREAD_LEFT:
    if (u[1]) break;
    return v[1] >= bits ? 0 : u[0] << v[1] & low(bits);
  case SPREAD_RIGHT:
    if (u[1]) break;
    return shift_right(u[0], v[1], bits, s->is_signed);
  case SPREAD_FUNNEL: {
    if (u[2]) break;
    uint64_t both = u[1] << 32 | u[0];
    unsigned n = (unsigned)(in->saturate ? v[2] & 31 : MIN(v[2], 32));
    return (in->negate ? both << n >> 32 : both >> n) & low(32);
  }
  case SPREAD_EXTRACT: {
    if (u[1] | u[2]) break;
    unsigned at = (unsigned)(v[1] & 255), n = (unsigned)(v[2] & 255);
    uint64_t r = at >= bits ? 0 : u[0] >> at & low(n);
    return (s->is_signed && r ? r | ~low(n) : r) & low(bits);
  }
  case SPREAD_INSERT: {
    if (u[2] | u[3]) break;
    unsigned at = (unsigned)(v[2] & 255), n = (unsigned)(v[3] & 255);
    uint64_t field = at >= bits ? 0 : low(n) << at & low(bits);
    return (u[1] & ~field) | (at >= bits ? 0 : u[0] << at & field);
  }
  case SPREAD_PERMUTE:
    if (u[2]) break;
    return by_permutation(u[0], u[1], v[2]);
  case SPREAD_CONVERT: {
    bool extended = s->is_signed && u[0] >> (s->from * 8 - 1) & 1;
    return (extended ? u[0] | ~low(s->from * 8u) : u[0]) & low(bits);
  }
  default: break;
  }
  return low(bits);
}

void spread_undefined(Warp *w, const Inst *in, uint32_t mask, uint32_t undefined)
{
  if (in->spread.kind == SPREAD_WHOLE) {
    for (unsigned i = 0; i < in->n_writes; i++)
      set_undefined(w, in->writes[i], mask, undefined);
    return;
  }
  for_lanes(l, mask)
  {
    uint64_t bits = undefined >> l & 1 ? spread_lane(w, in, l) : 0;
    set_unknown(w, in->d[0], l, in->spread.bytes, bits);
  }
}

/* --- registers made of parts, and moves between lanes --- */

void pack_unknown(Warp *w, const Inst *in, uint32_t mask, const PackedPart *parts, unsigned n, unsigned unit)
{
  bool ours = w->block->cluster->run->ours;
  for_lanes(l, mask)
  {
    /* compilers leave upper parts that nobody uses without a value, and pack them beside what is used */
    bool lenient = !ours && !(parts[0].id & OPERAND_CONSTANT) && !(undefined_lanes(w, parts[0].id) >> l & 1);
    uint64_t bits = 0;
    for (unsigned i = 0; i < n; i++) {
      uint64_t part = unknown_bits(w, parts[i].id, l, parts[i].bytes);
      if (lenient && i && never_written(w, parts[i].id, l)) part = 0;
      if (parts[i].bytes != unit && part) part = low(unit * 8); /* it has been converted */
      bits |= part << 8 * unit * i;
    }
    set_unknown(w, in->d[0], l, unit * n, bits);
  }
}

void unpack_unknown(Warp *w, const Inst *in, uint32_t mask, unsigned unit)
{
  for_lanes(l, mask)
  {
    uint64_t bits = unknown_bits(w, in->a[0], l, in->bytes);
    for (unsigned i = 0; i < in->n_list; i++)
      if (in->list[i] >= 4) set_unknown(w, in->list[i], l, unit, bits >> 8 * unit * i & low(unit * 8));
  }
}

void select_unknown(Warp *w, const Inst *in, uint32_t mask, uint32_t first)
{
  for_lanes(l, mask)
  {
    uint64_t bits = unknown_bits(w, in->a[first >> l & 1 ? 0 : 1], l, in->bytes);
    if (undefined_lanes(w, in->a[2]) >> l & 1) bits = low(in->bytes * 8u);
    set_unknown(w, in->d[0], l, in->bytes, bits);
  }
}

void shuffle_unknown(Warp *w, uint32_t to, uint32_t mask, const uint8_t source[LANES],
                     const uint64_t bits[LANES])
{
  for_lanes(l, mask) if (undefined_lanes(w, to) >> l & 1 && bits[source[l]])
      set_unknown(w, to, l, 4, bits[source[l]]);
}

void gather_unknown(const Warp *w, uint32_t id, uint64_t bits[LANES])
{
  for (unsigned l = 0; l < LANES; l++)
    bits[l] = unknown_bits(w, id, l, 4);
}

/* --- memory --- */

uint64_t memory_unknown(const Place *p, unsigned bytes)
{
  uint64_t r = 0;
  for (unsigned i = 0; i < bytes && p->defined; i++) {
    uint64_t at = p->offset + i;
    if (!(p->defined[at >> 6] >> (at & 63) & 1)) r |= 0xffull << 8 * i;
  }
  return r;
}

void memory_define_known(const Place *p, unsigned bytes, uint64_t unknown)
{
  memory_define(p, bytes, true);
  for (unsigned i = 0; i < bytes && unknown; i++)
    if (unknown >> 8 * i & 0xff)
      memory_define(&(Place){.offset = p->offset + i, .defined = p->defined}, 1, false);
}

void memory_define_as(const Place *to, const Place *from, uint64_t bytes)
{
  if (bytes < G_MAXUINT && memory_is_defined(from, (unsigned)bytes)) {
    memory_define(to, (unsigned)bytes, true);
    return;
  }
  for (uint64_t i = 0; i < bytes && to->defined; i += 8) {
    Place a = *to, b = *from;
    unsigned n = (unsigned)MIN(bytes - i, 8);
    a.offset += i;
    b.offset += i;
    memory_define_known(&a, n, memory_unknown(&b, n));
  }
}
