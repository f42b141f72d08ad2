#include "base/number.h"
#include <math.h>
#include <string.h>

static const struct {
  const char *name;
  unsigned bits;
  NumberClass class;
} types[] = {
#define X(id, name_, bits_, class_) {name_, bits_, NUMBER_##class_},
    NUMBER_TYPES(X)
#undef X
};

/* ONNX writes "float16" or "FLOAT16", safetensors "F16" and "F8_E4M3"; compared without regard to case. */
static const struct {
  const char *name;
  NumberType type;
} aliases[] = {
    {"double", NUMBER_F64},
    {"float64", NUMBER_F64},
    {"float", NUMBER_F32},
    {"float32", NUMBER_F32},
    {"tensorfloat32", NUMBER_TF32},
    {"half", NUMBER_F16},
    {"float16", NUMBER_F16},
    {"bfloat16", NUMBER_BF16},
    {"float8e4m3fn", NUMBER_E4M3},
    {"float8_e4m3fn", NUMBER_E4M3},
    {"f8_e4m3", NUMBER_E4M3},
    {"f8_e4m3fn", NUMBER_E4M3},
    {"e4m3fn", NUMBER_E4M3},
    {"int4", NUMBER_S4},
    {"i4", NUMBER_S4},
    {"uint4", NUMBER_U4},
    {"float4e2m1", NUMBER_E2M1},
    {"float4_e2m1", NUMBER_E2M1},
    {"float4_e2m1fn", NUMBER_E2M1},
    {"fp4", NUMBER_E2M1},
    {"f4", NUMBER_E2M1},
    {"float8e8m0", NUMBER_E8M0},
    {"float8_e8m0fnu", NUMBER_E8M0},
    {"f8_e8m0", NUMBER_E8M0},
    {"float8e5m2", NUMBER_E5M2},
    {"float8_e5m2", NUMBER_E5M2},
    {"f8_e5m2", NUMBER_E5M2},
    {"int8", NUMBER_S8},
    {"i8", NUMBER_S8},
    {"uint8", NUMBER_U8},
    {"int16", NUMBER_S16},
    {"i16", NUMBER_S16},
    {"uint16", NUMBER_U16},
    {"int32", NUMBER_S32},
    {"i32", NUMBER_S32},
    {"uint32", NUMBER_U32},
    {"int64", NUMBER_S64},
    {"i64", NUMBER_S64},
    {"uint64", NUMBER_U64},
};

const char *number_name(NumberType type)
{
  return types[type].name;
}

unsigned number_bits(NumberType type)
{
  return types[type].bits;
}

/* A silent 0 of a packed type would make tiles of no bytes: who asks for one element's is told at once. */
unsigned number_bytes(NumberType type)
{
  unsigned bits = types[type].bits;
  g_assert(bits >= 8);
  return bits / 8;
}

uint64_t number_bytes_of(NumberType type, uint64_t elements)
{
  unsigned bits = types[type].bits;
  return bits % CHAR_BIT == 0 ? elements * (bits / CHAR_BIT) : (elements * bits + CHAR_BIT - 1) / CHAR_BIT;
}

unsigned number_elements(NumberType type, unsigned bytes)
{
  return bytes * 8 / types[type].bits;
}

NumberClass number_class(NumberType type)
{
  return types[type].class;
}

bool number_is_small_float(NumberType type)
{
  return type == NUMBER_E4M3 || type == NUMBER_E5M2;
}

bool number_is_unserved(const char *name)
{
  static const char *const names[] = {"b4", "s2", "u2", "int2", "uint2", "e2m3", "e3m2"};
  for (unsigned i = 0; i < G_N_ELEMENTS(names); i++)
    if (!g_ascii_strcasecmp(name, names[i])) return true;
  return false;
}

bool number_parse(const char *name, NumberType *type)
{
  for (unsigned i = 0; i < NUMBER_TYPE_COUNT; i++)
    if (!g_ascii_strcasecmp(name, types[i].name)) {
      *type = (NumberType)i;
      return true;
    }
  for (unsigned i = 0; i < G_N_ELEMENTS(aliases); i++)
    if (!g_ascii_strcasecmp(name, aliases[i].name)) {
      *type = aliases[i].type;
      return true;
    }
  return false;
}

/* ---- small floats: sign, exponent, fraction; value = fraction * 2^(exponent - bias) as in IEEE 754 ---- */

typedef struct {
  int fraction_bits, exponent_bits, smallest_exponent; /* of normal numbers */
  double largest;
  bool has_infinity;
  unsigned nan; /* the NaN that conversions produce */
  bool may_saturate;
} SmallFloat;

static const SmallFloat small_f16 = {10, 5, -14, 65504, true, 0x7fff, false};
static const SmallFloat small_bf16 = {7, 8, -126, 0x1.fep127, true, 0x7fff, false};
static const SmallFloat small_e4m3 = {3, 4, -6, 448, false, 0x7f, true};
static const SmallFloat small_e5m2 = {2, 5, -14, 57344, true, 0x7f, true};

static const SmallFloat *small_float(NumberType type)
{
  switch (type) {
  case NUMBER_F16: return &small_f16;
  case NUMBER_BF16: return &small_bf16;
  case NUMBER_E4M3: return &small_e4m3;
  case NUMBER_E5M2: return &small_e5m2;
  default: return NULL;
  }
}

/* 2^exponent, which must be a normal number. */
static double power_of_two(int exponent)
{
  uint64_t bits = (uint64_t)(exponent + 1023) << 52;
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* e2m1 without its sign: neither infinity nor NaN. */
static const double e2m1_values[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

static double e2m1_decode(unsigned bits)
{
  double value = e2m1_values[bits & 7];
  return bits & 8 ? -value : value;
}

/* The nearest, of two as near the even one; what is beyond the largest is that one, and NaN the largest, as in ONNX's Cast. */
static unsigned e2m1_encode(double value)
{
  const unsigned last = G_N_ELEMENTS(e2m1_values) - 1;
  if (isnan(value)) return last;
  double magnitude = fabs(value);
  unsigned bits = 0;
  while (bits < last) {
    double middle = (e2m1_values[bits] + e2m1_values[bits + 1]) / 2;
    if (magnitude < middle || (magnitude == middle && bits % 2 == 0)) break;
    bits++;
  }
  return bits | (signbit(value) ? 8u : 0);
}

enum { E8M0_BIAS = 127, E8M0_NAN = 0xff };

/* The nearest power of two in its logarithm's sense; what is none, or negative, is NaN. */
static unsigned e8m0_encode(double value)
{
  if (!(value > 0) || isinf(value)) return value == 0 ? 0 : E8M0_NAN;
  int exponent;
  double fraction = frexp(value, &exponent); /* 0.5 .. 1 */
  exponent += E8M0_BIAS - (fraction < M_SQRT1_2);
  return (unsigned)CLAMP(exponent, 0, E8M0_NAN - 1);
}

static double small_decode(const SmallFloat *format, unsigned bits)
{
  unsigned exponent_mask = (1u << format->exponent_bits) - 1,
           fraction_mask = (1u << format->fraction_bits) - 1;
  unsigned exponent = bits >> format->fraction_bits & exponent_mask, fraction = bits & fraction_mask;
  bool negative = bits >> (format->fraction_bits + format->exponent_bits) & 1;
  double value;
  if (exponent == exponent_mask && format->has_infinity)
    value = fraction ? NAN : INFINITY;
  else if (exponent == exponent_mask && fraction == fraction_mask)
    value = NAN;
  else if (exponent == 0)
    value = fraction * power_of_two(format->smallest_exponent - format->fraction_bits);
  else
    value = (fraction + fraction_mask + 1) *
            power_of_two((int)exponent - 1 + format->smallest_exponent - format->fraction_bits);
  return negative ? -value : value;
}

/* Of a positive finite number; subnormals of double count as the smallest normal one. */
static int exponent_of(double value)
{
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return MAX((int)(bits >> 52), 1) - 1023;
}

static unsigned small_encode(const SmallFloat *format, double value, bool saturate)
{
  if (isnan(value)) return format->nan;
  unsigned sign = signbit(value) ? 1u << (format->fraction_bits + format->exponent_bits) : 0;
  unsigned one = 1u << format->fraction_bits; /* the hidden bit */
  value = fabs(value);
  bool overflow = isinf(value);
  unsigned bits = 0;
  if (!overflow && value != 0) {
    int exponent = MAX(exponent_of(value), format->smallest_exponent);
    /* Scaling by a power of two is exact, so this is the only rounding. A carry into the next power of two
     * comes out right by itself, because the exponent field follows the fraction. */
    double fraction = value * power_of_two(format->fraction_bits - exponent);
    fraction = fraction + 0x1p52 - 0x1p52; /* to nearest even: what is below 2^52 has room for no more */
    overflow = fraction * power_of_two(exponent - format->fraction_bits) > format->largest;
    if (fraction >= one)
      bits = ((unsigned)(exponent - format->smallest_exponent + 1) << format->fraction_bits) +
             (unsigned)(fraction - one);
    else
      bits = (unsigned)fraction;
  }
  if (!overflow) return sign | bits;
  if (saturate && format->may_saturate) return sign | small_encode(format, format->largest, false);
  if (!format->has_infinity) return sign | format->nan;
  return sign | ((1u << format->exponent_bits) - 1) << format->fraction_bits;
}

/* ---- memory ---- */

#define LOAD(ctype)                                                                                          \
  ({                                                                                                         \
    ctype loaded_;                                                                                           \
    memcpy(&loaded_, memory, sizeof loaded_);                                                                \
    loaded_;                                                                                                 \
  })
#define STORE(ctype, value_)                                                                                 \
  do {                                                                                                       \
    ctype stored_ = (ctype)(value_);                                                                         \
    memcpy(memory, &stored_, sizeof stored_);                                                                \
  } while (0)

size_t number_decimal(uint64_t number, char *text)
{
  char digits[NUMBER_DECIMAL_MAX];
  size_t n = 0;
  do
    digits[n++] = (char)('0' + number % 10);
  while ((number /= 10) != 0);
  for (size_t i = 0; i < n; i++)
    text[i] = digits[n - 1 - i];
  text[n] = '\0';
  return n;
}

double number_to_double(NumberType type, const void *memory)
{
  switch (type) {
  case NUMBER_F64: return LOAD(double);
  case NUMBER_F32:
  case NUMBER_TF32: return LOAD(float);
  case NUMBER_F16:
  case NUMBER_BF16: return small_decode(small_float(type), LOAD(uint16_t));
  case NUMBER_E4M3:
  case NUMBER_E5M2: return small_decode(small_float(type), LOAD(uint8_t));
  case NUMBER_E2M1: return e2m1_decode(LOAD(uint8_t));
  case NUMBER_E8M0: {
    unsigned bits = LOAD(uint8_t);
    return bits == E8M0_NAN ? NAN : ldexp(1, (int)bits - E8M0_BIAS);
  }
  case NUMBER_S4: return (int8_t)(LOAD(uint8_t) << 4) >> 4;
  case NUMBER_U4: return LOAD(uint8_t) & 15;
  case NUMBER_S8: return LOAD(int8_t);
  case NUMBER_U8: return LOAD(uint8_t);
  case NUMBER_S16: return LOAD(int16_t);
  case NUMBER_U16:
  case NUMBER_B16: return LOAD(uint16_t);
  case NUMBER_S32: return LOAD(int32_t);
  case NUMBER_U32:
  case NUMBER_B32: return LOAD(uint32_t);
  case NUMBER_S64: return (double)LOAD(int64_t);
  case NUMBER_U64:
  case NUMBER_B64: return (double)LOAD(uint64_t);
  case NUMBER_BOOL: return LOAD(uint8_t) != 0;
  case NUMBER_TYPE_COUNT: break;
  }
  g_error("number_to_double: no such type: %d", (int)type);
}

static int64_t to_signed(double value, unsigned bits)
{
  if (isnan(value)) return 0;
  double limit = ldexp(1, (int)bits - 1);
  value = nearbyint(value);
  if (value < -limit) value = -limit;
  if (value >= limit) return (int64_t)((UINT64_C(1) << (bits - 1)) - 1);
  return (int64_t)value;
}

static uint64_t to_unsigned(double value, unsigned bits)
{
  if (!(value > 0)) return 0; /* NaN too */
  value = nearbyint(value);
  if (value >= ldexp(1, (int)bits)) return UINT64_MAX >> (64 - bits);
  return (uint64_t)value;
}

void number_from_double(NumberType type, double value, bool saturate, void *memory)
{
  unsigned bits = number_bits(type);
  switch (type) {
  case NUMBER_F64: STORE(double, value); return;
  case NUMBER_F32:
  case NUMBER_TF32: STORE(float, value); return;
  case NUMBER_F16:
  case NUMBER_BF16: STORE(uint16_t, small_encode(small_float(type), value, saturate)); return;
  case NUMBER_E4M3:
  case NUMBER_E5M2: STORE(uint8_t, small_encode(small_float(type), value, saturate)); return;
  case NUMBER_E2M1: STORE(uint8_t, e2m1_encode(value)); return;
  case NUMBER_E8M0: STORE(uint8_t, e8m0_encode(value)); return;
  case NUMBER_S4: STORE(uint8_t, to_signed(value, bits) & 15); return;
  case NUMBER_U4:
  case NUMBER_U8: STORE(uint8_t, to_unsigned(value, bits)); return;
  case NUMBER_S8: STORE(int8_t, to_signed(value, bits)); return;
  case NUMBER_S16: STORE(int16_t, to_signed(value, bits)); return;
  case NUMBER_S32: STORE(int32_t, to_signed(value, bits)); return;
  case NUMBER_S64: STORE(int64_t, to_signed(value, bits)); return;
  case NUMBER_U16:
  case NUMBER_B16: STORE(uint16_t, to_unsigned(value, bits)); return;
  case NUMBER_U32:
  case NUMBER_B32: STORE(uint32_t, to_unsigned(value, bits)); return;
  case NUMBER_U64:
  case NUMBER_B64: STORE(uint64_t, to_unsigned(value, bits)); return;
  case NUMBER_BOOL: STORE(uint8_t, value != 0); return; /* NaN is true, as in ONNX Cast */
  case NUMBER_TYPE_COUNT: break;
  }
  g_error("number_from_double: no such type: %d", (int)type);
}

uint64_t number_get_bits(NumberType type, const void *elements, uint64_t index)
{
  const uint8_t *bytes = elements;
  if (number_is_packed(type)) return bytes[index / 2] >> (index % 2 * 4) & 15;
  uint64_t bits = 0;
  memcpy(&bits, bytes + index * number_bytes(type), number_bytes(type));
  return bits;
}

void number_set_bits(NumberType type, uint64_t bits, void *elements, uint64_t index)
{
  uint8_t *bytes = elements;
  if (number_is_packed(type)) {
    unsigned at = index % 2 * 4;
    bytes[index / 2] = (uint8_t)((bytes[index / 2] & ~(15u << at)) | (bits & 15) << at);
  } else {
    memcpy(bytes + index * number_bytes(type), &bits, number_bytes(type));
  }
}

double number_read(NumberType type, const void *elements, uint64_t index)
{
  uint64_t bits = number_get_bits(type, elements, index);
  return number_to_double(type, &bits);
}

void number_write(NumberType type, double value, bool saturate, void *elements, uint64_t index)
{
  uint64_t bits = 0;
  number_from_double(type, value, saturate, &bits);
  number_set_bits(type, bits, elements, index);
}
