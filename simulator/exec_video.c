/* Video instructions: arithmetic on bytes, halves and words that are picked out of registers, with
 * saturation, merging into a third operand or a second operation (vadd, vsub, vabsdiff, vmin, vmax, vshl,
 * vshr, vmad, vset), and their forms on two halves or four bytes at once (vadd2, vadd4, ...; vavrg2, vavrg4).
 */
#include "simulator/exec.h"
#include <string.h>

enum {
  VIDEO_ADD,
  VIDEO_SUB,
  VIDEO_ABSDIFF,
  VIDEO_MIN,
  VIDEO_MAX,
  VIDEO_SHL,
  VIDEO_SHR,
  VIDEO_AVERAGE,
  VIDEO_SET,
  VIDEO_MAD
};

/* Part of a register. Scalar forms: part 'b' or 'h' and its index, 0: the word. Forms of n parts: which byte
 * or half of a and b together each part is. */
typedef struct Selection {
  char part;
  uint8_t index[4];
} Selection;

typedef struct Video {
  int operation, second, comparison; /* second: VIDEO_ADD, MIN or MAX applied with c, -1: none */
  unsigned n;                        /* 1, 2 or 4 parts */
  bool signed_a, signed_b, signed_d, saturate, wrap, plus_one, negate_product, negate_c;
  unsigned shift;        /* of vmad: 0, 7 or 15 */
  uint8_t written;       /* of n parts: bit per part of d that is written */
  Selection a, b, merge; /* merge.part: the result goes into this part of c */
} Video;

static int64_t part_of(uint64_t v, unsigned bits, unsigned index, bool is_signed)
{
  uint64_t x = v >> (index * bits) & ((1ull << bits) - 1);
  return is_signed && x >> (bits - 1) & 1 ? (int64_t)(x | ~0ull << bits) : (int64_t)x;
}

static int64_t pick(uint32_t v, const Selection *s, bool is_signed)
{
  unsigned bits = s->part == 'b' ? 8 : s->part == 'h' ? 16 : 32;
  return part_of(v, bits, s->index[0], is_signed);
}

static int64_t saturated(int64_t x, unsigned bits, bool is_signed)
{
  int64_t low = is_signed ? -((int64_t)1 << (bits - 1)) : 0;
  int64_t high = is_signed ? ((int64_t)1 << (bits - 1)) - 1 : ((int64_t)1 << bits) - 1;
  return CLAMP(x, low, high);
}

static bool compares(int comparison, int64_t a, int64_t b)
{
  switch (comparison) {
  case 0: return a == b;
  case 1: return a != b;
  case 2: return a < b;
  case 3: return a <= b;
  case 4: return a > b;
  default: return a >= b;
  }
}

static int64_t combine(const Video *v, int64_t a, int64_t b)
{
  uint64_t amount = (uint64_t)b & 0xffffffff;
  switch (v->operation) {
  case VIDEO_ADD: return a + b;
  case VIDEO_SUB: return a - b;
  case VIDEO_ABSDIFF: return a > b ? a - b : b - a;
  case VIDEO_MIN: return MIN(a, b);
  case VIDEO_MAX: return MAX(a, b);
  case VIDEO_SHL: amount = v->wrap ? amount & 31 : MIN(amount, 32); return (int64_t)((uint64_t)a << amount);
  case VIDEO_SHR: amount = v->wrap ? amount & 31 : MIN(amount, 32); return a >> amount;
  case VIDEO_AVERAGE: return (a + b + (a + b >= 0)) >> 1;
  default: return compares(v->comparison, a, b);
  }
}

static uint32_t second_operation(const Video *v, int64_t r, uint32_t c)
{
  int64_t other = v->signed_d ? (int64_t)(int32_t)c : (int64_t)c;
  switch (v->second) {
  case VIDEO_ADD: return (uint32_t)(r + other);
  case VIDEO_MIN: return (uint32_t)MIN(r, other);
  default: return (uint32_t)MAX(r, other);
  }
}

static uint32_t scalar(const Video *v, uint32_t ra, uint32_t rb, uint32_t rc)
{
  int64_t r = combine(v, pick(ra, &v->a, v->signed_a), pick(rb, &v->b, v->signed_b));
  unsigned bits = v->merge.part == 'b' ? 8 : v->merge.part == 'h' ? 16 : 32;
  if (v->saturate) r = saturated(r, bits, v->signed_d);
  if (v->merge.part) {
    uint32_t keep = ~(((1u << bits) - 1) << (v->merge.index[0] * bits));
    return (rc & keep) |
           ((uint32_t)r & ~(keep >> (v->merge.index[0] * bits) | (bits == 8 ? ~0xffu : ~0xffffu)))
               << (v->merge.index[0] * bits);
  }
  if (v->second < 0) return (uint32_t)r;
  r = v->signed_d ? (int64_t)(int32_t)r : (int64_t)(uint32_t)r;
  return second_operation(v, r, rc);
}

static uint32_t several(const Video *v, uint32_t ra, uint32_t rb, uint32_t rc)
{
  unsigned bits = 32 / v->n;
  uint64_t both = (uint64_t)rb << 32 | ra;
  uint32_t mask = (1u << bits) - 1, out = v->second >= 0 ? 0 : rc;
  int64_t sum = 0;
  for (unsigned i = 0; i < v->n; i++) {
    int64_t r = combine(v, part_of(both, bits, v->a.index[i], v->signed_a),
                        part_of(both, bits, v->b.index[i], v->signed_b));
    if (v->saturate) r = saturated(r, bits, v->signed_d);
    if (!(v->written >> i & 1)) continue;
    if (v->second >= 0)
      sum += r;
    else
      out = (out & ~(mask << (i * bits))) | ((uint32_t)r & mask) << (i * bits);
  }
  return v->second >= 0 ? (uint32_t)(sum + (v->signed_d ? (int64_t)(int32_t)rc : (int64_t)rc)) : out;
}

static uint32_t multiply(const Video *v, uint32_t ra, uint32_t rb, uint32_t rc)
{
  int64_t a = pick(ra, &v->a, v->signed_a), b = pick(rb, &v->b, v->signed_b);
  bool is_signed = v->signed_a || v->signed_b || v->negate_product || v->negate_c;
  __int128 r = (__int128)a * b;
  if (v->negate_product) r = -r;
  __int128 c = is_signed ? (__int128)(int32_t)rc : (__int128)rc;
  if (v->negate_c) c = -c;
  r += c;
  if (v->plus_one) r += 1;
  r >>= v->shift;
  if (v->saturate) {
    __int128 low = is_signed ? (__int128)INT32_MIN : 0, high = is_signed ? INT32_MAX : UINT32_MAX;
    r = r < low ? low : r > high ? high : r;
  }
  return (uint32_t)r;
}

static Step run_video(Warp *w, const Inst *in, uint32_t mask)
{
  const Video *v = in->data;
  uint32_t *out = operand(w, in->d[0]);
  for_lanes(l, mask)
  {
    uint32_t a = lane_u32(w, in->a[0], l), b = lane_u32(w, in->a[1], l);
    uint32_t c = in->a[2] == OPERAND_NONE ? 0 : lane_u32(w, in->a[2], l);
    out[l] = v->operation == VIDEO_MAD ? multiply(v, a, b, c)
             : v->n == 1               ? scalar(v, a, b, c)
                                       : several(v, a, b, c);
  }
  return STEP_NEXT;
}

/* --- decoding --- */

/* "b2", "h1" */
static bool one_part(const char *text, Selection *out)
{
  *out = (Selection){0};
  if (!text) return true;
  out->part = text[0];
  if ((text[0] != 'b' && text[0] != 'h') || !g_ascii_isdigit(text[1]) || text[2]) return false;
  out->index[0] = (uint8_t)(text[1] - '0');
  return out->index[0] < (text[0] == 'b' ? 4 : 2);
}

/* "h10", "b7654": highest part first; parts of b come behind those of a */
static bool many_parts(const char *text, unsigned n, bool is_b, Selection *out)
{
  for (unsigned i = 0; i < n; i++)
    out->index[i] = (uint8_t)(i + (is_b ? n : 0));
  if (!text) return true;
  if (text[0] != (n == 2 ? 'h' : 'b') || strlen(text) != n + 1) return false;
  for (unsigned i = 0; i < n; i++) {
    unsigned x = (unsigned)(text[n - i] - '0');
    if (x >= 2 * n) return false;
    out->index[i] = (uint8_t)x;
  }
  return true;
}

/* which parts of d are written: "h1", "b20" */
static bool written_parts(const char *text, unsigned n, uint8_t *out)
{
  *out = (uint8_t)((1u << n) - 1);
  if (!text) return true;
  if (text[0] != (n == 2 ? 'h' : 'b')) return false;
  *out = 0;
  for (const char *p = text + 1; *p; p++) {
    if (*p < '0' || *p >= (char)('0' + n)) return false;
    *out |= (uint8_t)(1u << (*p - '0'));
  }
  return *out != 0;
}

static bool video_types(Decoder *d, Video *v)
{
  bool *const signs[] = {&v->signed_d, &v->signed_a, &v->signed_b};
  for (unsigned i = v->operation == VIDEO_SET; i < 3; i++) {
    PtxType type = need_type(d);
    if (type != TYPE_S32 && type != TYPE_U32) return false;
    *signs[i] = type == TYPE_S32;
  }
  return true;
}

static void mad_modifiers(Decoder *d, Video *v)
{
  v->plus_one = take(d, "po");
  v->shift = take(d, "shr7") ? 7 : take(d, "shr15") ? 15 : 0;
  const PtxOperand *a = operand_at(d, 1), *b = operand_at(d, 2), *c = operand_at(d, 3);
  v->negate_product = a->negated != b->negated;
  v->negate_c = c->negated;
}

/* argument: operation * 8 + parts */
void decode_video(Decoder *d, int argument)
{
  static const char *const seconds[] = {"add", "min", "max", NULL};
  static const int second_of[] = {VIDEO_ADD, VIDEO_MIN, VIDEO_MAX};
  static const char *const comparisons[] = {"eq", "ne", "lt", "le", "gt", "ge", NULL};
  Inst *in = d->in;
  Video *v = arena_new_object(d->kernel->arena, Video);
  v->operation = argument / 8;
  v->n = (unsigned)argument % 8;
  v->second = -1;
  int which = 0;
  if (!video_types(d, v)) decode_fail(d, "types other than .s32 and .u32");
  v->saturate = take(d, "sat");
  v->wrap = take(d, "wrap");
  take(d, "clamp");
  if (v->operation == VIDEO_SET && !take_one(d, comparisons, &v->comparison))
    decode_wrong(d, "the comparison is missing");
  if (take_one(d, seconds, &which)) v->second = second_of[which];
  if (v->operation == VIDEO_MAD) mad_modifiers(d, v);
  d->takes_selectors = true;
  const PtxOperand *to = operand_at(d, 0), *a = operand_at(d, 1), *b = operand_at(d, 2);
  bool ok =
      v->n == 1
          ? one_part(to->selector, &v->merge) && one_part(a->selector, &v->a) && one_part(b->selector, &v->b)
          : written_parts(to->selector, v->n, &v->written) && many_parts(a->selector, v->n, false, &v->a) &&
                many_parts(b->selector, v->n, true, &v->b);
  if (!ok) decode_fail(d, "these parts of registers");
  in->d[0] = destination(d, to, TYPE_U32);
  in->a[0] = source(d, a, TYPE_U32);
  in->a[1] = source(d, b, TYPE_U32);
  bool needs_c = v->n > 1 || v->second >= 0 || v->merge.part || v->operation == VIDEO_MAD;
  if (needs_c != (operand_count(d) == 4)) decode_wrong(d, "%u operands", operand_count(d));
  if (needs_c) in->a[2] = source_at(d, 3, TYPE_U32);
  in->data = v;
  in->run = run_video;
}
