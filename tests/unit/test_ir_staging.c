/* The widths in which results pass through shared memory, against the banks counted once more here. */
#include "ir/staging.h"
#include <glib.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static const StagingRules all = {.swizzles = 32 | 64 | 128, .sector = 32, .panel = 128, .box = 256};

/* Accesses to the busiest bank when eight rows of 16 bytes are written, the swizzle applied byte by byte. */
static unsigned busiest_bank(unsigned row_bytes)
{
  unsigned hits[32] = {0}, most = 0, swizzle = staging_swizzle(&all, row_bytes);
  for (unsigned row = 0; row < 8; row++)
    for (unsigned byte = 0; byte < 16; byte += 4) {
      unsigned at = row * row_bytes + byte;
      if (swizzle) at ^= (at >> 7 & (swizzle / 16 - 1)) << 4;
      unsigned n = ++hits[at / 4 % 32];
      most = MAX(most, n);
    }
  return most;
}

static void test_widths(void **state)
{
  static const unsigned rows[] = {64, 128, 192, 256};
  for (unsigned r = 0; r < G_N_ELEMENTS(rows); r++)
    for (unsigned columns = 16; columns <= 256; columns += 16)
      for (unsigned bytes = 2; bytes <= 4; bytes *= 2) {
        unsigned width = staging_width(&all, rows[r], columns, bytes, bytes);
        assert_true(width && width * bytes % 16 == 0 && columns % width * bytes % 32 == 0);
        assert_true(width * bytes <= 224);
        if (columns % 32 == 0) assert_true(width * bytes >= 64);
        assert_true(width == columns || width * bytes % 32 == 0);
        if (columns % 16 == 0 && width * bytes >= 64) assert_true(busiest_bank(width * bytes) <= 4);
        if (columns % width) assert_true(width * bytes >= 64); /* else there is nothing to gain */
        assert_int_equal(staging_bytes(&all, rows[r], columns, bytes),
                         2 * rows[r] * (width + columns % width) * bytes);
      }
}

static void test_known(void **state)
{
  assert_int_equal(staging_width(&all, 128, 256, 2, 2), 64);
  assert_int_equal(staging_width(&all, 128, 144, 2, 2), 48);
  assert_int_equal(staging_width(&all, 256, 160, 2, 2), 32);
  /* 16 would divide them: five parts of 32 and one of 16 */
  assert_int_equal(staging_width(&all, 256, 176, 2, 2), 32);
  assert_int_equal(staging_width(&all, 128, 208, 2, 2), 32);
  assert_int_equal(staging_width(&all, 256, 192, 2, 2), 32);
  /* a narrow and a wide output of one tile have the same columns in a part */
  unsigned both = staging_width(&all, 128, 256, 1, 4);
  assert_true(both % 16 == 0 && both * 4 <= 224);
  assert_int_equal(staging_width(&all, 128, 8, 1, 1), 0);
}

/* One part of two sectors a row; a rest of whole sectors, or none such. */
static void test_least(void **state)
{
  assert_int_equal(staging_width_least(&all, 176, 2), 32);
  assert_int_equal(staging_bytes_least(&all, 256, 176, 2), 256 * (32 + 16) * 2);
  assert_int_equal(staging_bytes_least(&all, 256, 192, 2), 256 * 32 * 2);
  assert_int_equal(staging_bytes_least(&all, 256, 192, 4), 256 * 16 * 4);
  assert_int_equal(staging_bytes_least(&all, 256, 192, 1), 256 * 64);
  assert_int_equal(staging_bytes_least(&all, 256, 168, 2), 0);
  assert_int_equal(staging_bytes_least(&all, 256, 32, 2), 0);
}

/* Sectors wider than what is left of a row, and boxes narrower than the widest part. */
static void test_changed(void **state)
{
  StagingRules rules = all;
  for (rules.sector = 32; rules.sector <= 128; rules.sector *= 2)
    for (unsigned columns = 16; columns <= 256; columns += 16) {
      unsigned width = staging_width_in(&rules, 256, columns, 2, 2, 100 << 10);
      assert_true(width <= columns);
    }
  rules.sector = 32;
  for (rules.box = 8; rules.box <= 64; rules.box += 8)
    for (unsigned columns = 16; columns <= 256; columns += 16) {
      assert_true(staging_width(&rules, 64, columns, 2, 2) <= rules.box);
      assert_true(staging_width_least(&rules, columns, 2) <= rules.box);
      assert_true(staging_width_across(&rules, 64, columns, 2) <= rules.box);
    }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_widths), cmocka_unit_test(test_known),
                                     cmocka_unit_test(test_least), cmocka_unit_test(test_changed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
