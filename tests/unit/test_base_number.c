#include "base/number.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_names(void **state)
{
  for (NumberType i = 0; i < NUMBER_TYPE_COUNT; i++) {
    NumberType type;
    assert_true(number_parse(number_name(i), &type));
    assert_int_equal(type, i);
    if (!number_is_packed(i)) assert_int_equal(number_bytes(i) * 8, number_bits(i));
    assert_int_equal(number_bytes_of(i, 7), (7 * number_bits(i) + 7) / 8);
    assert_int_equal(number_elements(i, 32) * number_bits(i), 256);
  }
  static const struct {
    const char *name;
    NumberType type;
  } spellings[] = {{"FLOAT16", NUMBER_F16},  {"float", NUMBER_F32},         {"BF16", NUMBER_BF16},
                   {"F8_E4M3", NUMBER_E4M3}, {"FLOAT8E5M2", NUMBER_E5M2},   {"int8", NUMBER_S8},
                   {"I64", NUMBER_S64},      {"float8e4m3fn", NUMBER_E4M3}, {"BOOL", NUMBER_BOOL},
                   {"INT4", NUMBER_S4},      {"uint4", NUMBER_U4},          {"float4e2m1", NUMBER_E2M1},
                   {"F4", NUMBER_E2M1},      {"FLOAT8E8M0", NUMBER_E8M0}};
  for (unsigned i = 0; i < G_N_ELEMENTS(spellings); i++) {
    NumberType type;
    assert_true(number_parse(spellings[i].name, &type));
    assert_int_equal(type, spellings[i].type);
  }
  NumberType type;
  assert_false(number_parse("float8e4m3fnuz", &type));
  assert_false(number_parse("", &type));
}

/* Every bit pattern of a small float comes back as itself. */
static void round_trip(NumberType type)
{
  unsigned count = 1u << number_bits(type);
  for (unsigned bits = 0; bits < count; bits++) {
    uint32_t in = bits, out = 0;
    double value = number_to_double(type, &in);
    number_from_double(type, value, false, &out);
    if (isnan(value))
      assert_true(isnan(number_to_double(type, &out)));
    else
      assert_int_equal(in, out);
  }
}

static void test_round_trip(void **state)
{
  round_trip(NUMBER_F16);
  round_trip(NUMBER_BF16);
  round_trip(NUMBER_E4M3);
  round_trip(NUMBER_E5M2);
}

/* All codes of 4 bits, and their places: the first of two in the low half of a byte, and no other is touched. */
static void test_packed(void **state)
{
  static const double e2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  static const NumberType types[] = {NUMBER_S4, NUMBER_U4, NUMBER_E2M1};
  for (unsigned t = 0; t < G_N_ELEMENTS(types); t++)
    for (unsigned code = 0; code < 16; code++) {
      double wanted = types[t] == NUMBER_U4   ? code
                      : types[t] == NUMBER_S4 ? (code < 8 ? (double)code : (double)code - 16)
                                              : e2m1[code & 7] * (code < 8 ? 1 : -1);
      uint8_t bytes[3] = {0x5a, 0x5a, 0x5a};
      for (unsigned place = 0; place < 5; place++) {
        number_write(types[t], wanted, true, bytes, place);
        assert_int_equal(number_get_bits(types[t], bytes, place), code);
        assert_true(number_read(types[t], bytes, place) == wanted);
      }
      assert_int_equal(bytes[0], code * 0x11);
      assert_int_equal(bytes[2], 0x50 | code);
    }
  uint8_t byte = 0;
  number_write(NUMBER_E2M1, 5, true, &byte, 0); /* between 4 and 6: the even one */
  number_write(NUMBER_E2M1, -1e9, true, &byte, 1);
  assert_int_equal(byte, 0xf6);
  number_write(NUMBER_S4, -9, true, &byte, 0);
  number_write(NUMBER_U4, 99, true, &byte, 1);
  assert_int_equal(byte, 0xf8);
}

static void test_powers(void **state)
{
  for (unsigned code = 0; code < 255; code++) {
    uint8_t bits = (uint8_t)code, back = 0;
    double value = number_to_double(NUMBER_E8M0, &bits);
    assert_true(value == ldexp(1, (int)code - 127));
    number_from_double(NUMBER_E8M0, value, true, &back);
    assert_int_equal(back, code);
  }
  uint8_t none = 0xff;
  assert_true(isnan(number_to_double(NUMBER_E8M0, &none)));
}

/* Between any two neighbours: just below the middle goes down, just above up, the middle to the even one. */
static void nearest_even(NumberType type, unsigned last)
{
  for (uint32_t bits = 0; bits < last; bits++) {
    uint32_t above = bits + 1, out = 0;
    double low = number_to_double(type, &bits), high = number_to_double(type, &above);
    double middle = (low + high) / 2;
    number_from_double(type, middle, false, &out);
    assert_int_equal(out, bits & 1 ? above : bits);
    number_from_double(type, nextafter(middle, 0), false, &out);
    assert_int_equal(out, bits);
    number_from_double(type, nextafter(middle, INFINITY), false, &out);
    assert_int_equal(out, above);
  }
}

static void test_rounding(void **state)
{
  nearest_even(NUMBER_F16, 0x7bff);
  nearest_even(NUMBER_BF16, 0x7f7f);
  nearest_even(NUMBER_E4M3, 0x7e);
  nearest_even(NUMBER_E5M2, 0x7b);
}

/* The compiler's own _Float16 is the second opinion; older clang has none for this machine. */
#if !defined(__clang__) || __clang_major__ >= 15
static void test_f16_against_the_compiler(void **state)
{
  uint64_t seed = 1;
  for (unsigned i = 0; i < 100000; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    double value = ldexp((double)(int64_t)seed / 9.3e18, (int)(seed >> 20) % 30);
    uint16_t ours, theirs;
    _Float16 converted = (_Float16)value;
    memcpy(&theirs, &converted, 2);
    number_from_double(NUMBER_F16, value, false, &ours);
    assert_int_equal(ours, theirs);
  }
}
#else
static void test_f16_against_the_compiler(void **state)
{
  skip();
}
#endif

static unsigned encode(NumberType type, double value, bool saturate)
{
  uint32_t out = 0;
  number_from_double(type, value, saturate, &out);
  return out;
}

static void test_overflow(void **state)
{
  assert_int_equal(encode(NUMBER_E4M3, 464, false), 0x7e); /* halfway: to even, which is 448 */
  assert_int_equal(encode(NUMBER_E4M3, 465, false), 0x7f);
  assert_int_equal(encode(NUMBER_E4M3, -465, false), 0xff);
  assert_int_equal(encode(NUMBER_E4M3, -1e9, true), 0xfe);
  assert_int_equal(encode(NUMBER_E4M3, INFINITY, true), 0x7e);
  assert_int_equal(encode(NUMBER_E4M3, NAN, true), 0x7f);
  assert_int_equal(encode(NUMBER_E5M2, 1e9, false), 0x7c);
  assert_int_equal(encode(NUMBER_E5M2, 1e9, true), 0x7b);
  assert_int_equal(encode(NUMBER_F16, 65519, false), 0x7bff);
  assert_int_equal(encode(NUMBER_F16, 65520, true), 0x7c00); /* only 8-bit floats saturate */
  assert_int_equal(encode(NUMBER_BF16, -1e39, false), 0xff80);
  assert_int_equal(encode(NUMBER_F16, -0.0, false), 0x8000);
  assert_int_equal(encode(NUMBER_E4M3, 1e-300, false), 0);
}

static void test_integers(void **state)
{
  assert_int_equal((int8_t)encode(NUMBER_S8, 2.5, false), 2);
  assert_int_equal((int8_t)encode(NUMBER_S8, -3.5, false), -4);
  assert_int_equal((int8_t)encode(NUMBER_S8, 1e9, false), 127);
  assert_int_equal((int8_t)encode(NUMBER_S8, -1e9, false), -128);
  assert_int_equal(encode(NUMBER_U8, -1, false), 0);
  assert_int_equal(encode(NUMBER_U8, 255.5, false), 255);
  assert_int_equal(encode(NUMBER_S32, NAN, false), 0);
  assert_int_equal(encode(NUMBER_BOOL, 0.25, false), 1);
  int64_t wide;
  number_from_double(NUMBER_S64, 1e30, false, &wide);
  assert_true(wide == INT64_MAX);
  number_from_double(NUMBER_S64, -INFINITY, false, &wide);
  assert_true(wide == INT64_MIN);
  uint64_t unsigned_wide;
  number_from_double(NUMBER_U64, 1e30, false, &unsigned_wide);
  assert_true(unsigned_wide == UINT64_MAX);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_names),    cmocka_unit_test(test_round_trip),
      cmocka_unit_test(test_packed),   cmocka_unit_test(test_powers),
      cmocka_unit_test(test_rounding), cmocka_unit_test(test_f16_against_the_compiler),
      cmocka_unit_test(test_overflow), cmocka_unit_test(test_integers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
