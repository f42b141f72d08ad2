/* Instructions between the lanes of a warp: shfl, vote, match, redux, elect. */
#include "simulator/definedness.h"
#include "simulator/exec.h"
#include "simulator/race.h"
#include <string.h>

/* The lanes named by the instruction take part; in->target is that operand (INST_MEMBERS). */
static void members(Decoder *d, unsigned i)
{
  d->in->target = source_at(d, i, TYPE_B32);
  d->in->flags |= INST_MEMBERS;
}

enum { SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_BFLY, SHUFFLE_IDX };

static Step run_shuffle(Warp *w, const Inst *in, uint32_t mask)
{
  uint32_t value[LANES], found = 0, undefined = 0, source_undefined = undefined_lanes(w, in->a[0]);
  uint8_t from[LANES];
  uint64_t bits[LANES];
  memcpy(value, operand(w, in->a[0]), sizeof value);
  if (source_undefined) gather_unknown(w, in->a[0], bits);
  uint32_t *out = operand(w, in->d[0]);
  for_lanes(l, mask)
  {
    int b = (int)(lane_u32(w, in->a[1], l) & 31), lane = (int)l;
    uint32_t c = lane_u32(w, in->a[2], l);
    int segment = (int)(c >> 8 & 31), clamp = (int)(c & 31);
    int low = lane & segment, top = low | (clamp & ~segment), j;
    bool ok;
    switch (in->operation) {
    case SHUFFLE_UP:
      j = lane - b;
      ok = j >= top;
      break;
    case SHUFFLE_DOWN:
      j = lane + b;
      ok = j <= top;
      break;
    case SHUFFLE_BFLY:
      j = lane ^ b;
      ok = j <= top;
      break;
    default:
      j = low | (b & ~segment);
      ok = j <= top;
      break;
    }
    if (!ok) j = lane;
    out[l] = value[j & 31];
    from[l] = (uint8_t)(j & 31);
    found |= (uint32_t)ok << l;
    bool absent = !(mask >> (j & 31) & 1);
    if (absent || source_undefined >> (j & 31) & 1) undefined |= 1u << l;
  }
  if (in->d[1] != OPERAND_NONE) {
    set_predicate(w, in->d[1], mask, found);
    set_undefined(w, in->d[1], mask, undefined_lanes(w, in->a[1]));
  }
  uint32_t astray = undefined_lanes(w, in->a[1]) & mask;
  set_undefined(w, in->d[0], mask, undefined | astray);
  if (source_undefined) shuffle_unknown(w, in->d[0], mask & ~astray, from, bits);
  return STEP_NEXT;
}

void decode_shuffle(Decoder *d, int argument)
{
  static const char *const modes[] = {"up", "down", "bfly", "idx", NULL};
  Inst *in = d->in;
  int mode = 0;
  if (!take_one(d, modes, &mode)) decode_wrong(d, "the mode is missing");
  in->operation = (uint8_t)mode;
  bool sync = take(d, "sync");
  take(d, "b32");
  const PtxOperand *o = operand_at(d, 0);
  if (o->kind == OPERAND_PAIR) {
    in->d[0] = destination(d, &o->items[0], TYPE_B32);
    in->d[1] = destination(d, &o->items[1], TYPE_PRED);
  } else {
    in->d[0] = destination(d, o, TYPE_B32);
  }
  for (unsigned i = 0; i < 3; i++)
    in->a[i] = source_at(d, i + 1, TYPE_B32);
  if (sync) members(d, 4);
  in->flags |= INST_CUSTOM;
  in->run = run_shuffle;
}

enum { VOTE_ALL, VOTE_ANY, VOTE_UNI, VOTE_BALLOT };

static Step run_vote(Warp *w, const Inst *in, uint32_t mask)
{
  uint32_t p = predicate(w, in->a[0]), u = undefined_lanes(w, in->a[0]) & mask ? FULL : 0;
  if (in->negate) p = ~p;
  p &= mask;
  if (in->operation == VOTE_BALLOT) {
    uint32_t *out = operand(w, in->d[0]);
    for_lanes(l, mask) out[l] = p;
  } else {
    bool r = in->operation == VOTE_ALL ? p == mask : in->operation == VOTE_ANY ? p != 0 : p == 0 || p == mask;
    set_predicate(w, in->d[0], mask, r ? FULL : 0);
  }
  set_undefined(w, in->d[0], mask, u);
  return STEP_NEXT;
}

void decode_vote(Decoder *d, int argument)
{
  static const char *const modes[] = {"all", "any", "uni", "ballot", NULL};
  Inst *in = d->in;
  int mode = 0;
  if (!take_one(d, modes, &mode)) decode_wrong(d, "the mode is missing");
  in->operation = (uint8_t)mode;
  bool sync = take(d, "sync");
  PtxType type = need_type(d);
  in->d[0] = destination_at(d, 0, type);
  in->a[0] = source_at(d, 1, TYPE_PRED);
  in->negate = operand_at(d, 1)->negated;
  if (sync) members(d, 2);
  in->flags |= INST_CUSTOM;
  in->run = run_vote;
}

static Step run_match(Warp *w, const Inst *in, uint32_t mask)
{
  uint64_t v[LANES];
  bool same = true;
  unsigned first = first_lane(mask);
  for_lanes(l, mask)
  {
    v[l] = in->bytes == 8 ? lane_u64(w, in->a[0], l) : lane_u32(w, in->a[0], l);
    same &= v[l] == v[first];
  }
  uint32_t *out = operand(w, in->d[0]);
  for_lanes(l, mask)
  {
    uint32_t r = 0;
    for_lanes(k, mask) r |= (uint32_t)(v[k] == v[l]) << k;
    out[l] = in->operation ? (same ? mask : 0) : r;
  }
  if (in->d[1] != OPERAND_NONE) set_predicate(w, in->d[1], mask, same ? FULL : 0);
  return STEP_NEXT;
}

void decode_match(Decoder *d, int argument)
{
  Inst *in = d->in;
  in->operation = take(d, "all");
  take(d, "any");
  take(d, "sync");
  PtxType type = need_type(d);
  in->bytes = (uint8_t)ptx_type_bytes(type);
  const PtxOperand *o = operand_at(d, 0);
  if (o->kind == OPERAND_PAIR) {
    in->d[0] = destination(d, &o->items[0], TYPE_B32);
    in->d[1] = destination(d, &o->items[1], TYPE_PRED);
  } else {
    in->d[0] = destination(d, o, TYPE_B32);
  }
  in->a[0] = source_at(d, 1, type);
  members(d, 2);
  in->run = run_match;
}

enum { REDUX_ADD, REDUX_MIN, REDUX_MAX, REDUX_AND, REDUX_OR, REDUX_XOR };

static Step run_redux(Warp *w, const Inst *in, uint32_t mask)
{
  uint32_t r = lane_u32(w, in->a[0], first_lane(mask));
  uint32_t u = undefined_lanes(w, in->a[0]) & mask ? FULL : 0;
  for_lanes(l, mask & (mask - 1))
  {
    uint32_t v = lane_u32(w, in->a[0], l);
    bool less = in->type == TYPE_S32 ? (int32_t)v < (int32_t)r : v < r;
    switch (in->operation) {
    case REDUX_ADD: r += v; break;
    case REDUX_MIN: r = less ? v : r; break;
    case REDUX_MAX: r = less ? r : v; break;
    case REDUX_AND: r &= v; break;
    case REDUX_OR: r |= v; break;
    default: r ^= v; break;
    }
  }
  uint32_t *out = operand(w, in->d[0]);
  for_lanes(l, mask) out[l] = r;
  set_undefined(w, in->d[0], mask, u);
  return STEP_NEXT;
}

void decode_redux(Decoder *d, int argument)
{
  static const char *const names[] = {"add", "min", "max", "and", "or", "xor", NULL};
  Inst *in = d->in;
  int operation = 0;
  take(d, "sync");
  if (!take_one(d, names, &operation)) decode_wrong(d, "the operation is missing");
  in->operation = (uint8_t)operation;
  PtxType type = need_type(d);
  if (type != TYPE_U32 && type != TYPE_S32 && type != TYPE_B32)
    decode_fail(d, "type '%s'", ptx_type_name(type));
  in->type = (uint8_t)type;
  in->d[0] = destination_at(d, 0, type);
  in->a[0] = source_at(d, 1, type);
  members(d, 2);
  in->flags |= INST_CUSTOM;
  in->run = run_redux;
}

static Step run_elect(Warp *w, const Inst *in, uint32_t mask)
{
  unsigned leader = first_lane(mask);
  uint32_t *out = operand(w, in->d[0]);
  for_lanes(l, mask) out[l] = leader;
  set_predicate(w, in->d[1], mask, 1u << leader);
  return STEP_NEXT;
}

void decode_elect(Decoder *d, int argument)
{
  const PtxOperand *o = operand_at(d, 0);
  if (o->kind != OPERAND_PAIR) {
    decode_wrong(d, "the destination must be register|predicate");
    return;
  }
  d->in->d[0] = destination(d, &o->items[0], TYPE_B32);
  d->in->d[1] = destination(d, &o->items[1], TYPE_PRED);
  members(d, 1);
  d->in->run = run_elect;
}

static Step run_activemask(Warp *w, const Inst *in, uint32_t mask)
{
  uint32_t *out = operand(w, in->d[0]);
  for_lanes(l, mask) out[l] = mask;
  return STEP_NEXT;
}

void decode_activemask(Decoder *d, int argument)
{
  take(d, "b32");
  d->in->d[0] = destination_at(d, 0, TYPE_B32);
  d->in->run = run_activemask;
}

static Step run_warp_barrier(Warp *w, const Inst *in, uint32_t mask)
{
  race_warp_barrier(w);
  return STEP_NEXT;
}

void decode_warp_barrier(Decoder *d, int argument)
{
  members(d, 0);
  d->in->flags |= INST_ANYWHERE;
  d->in->run = run_warp_barrier;
}
