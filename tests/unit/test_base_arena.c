#include "base/arena.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_memory_is_zeroed_and_aligned(void **state)
{
  g_autoptr(Arena) arena = arena_new();
  for (size_t size = 0; size < 3000; size += 7) {
    unsigned char *memory = arena_alloc(arena, size);
    assert_int_equal((uintptr_t)memory % _Alignof(max_align_t), 0);
    for (size_t i = 0; i < size; i++)
      assert_int_equal(memory[i], 0);
    memset(memory, 0xff, size);
  }
}

static void test_allocations_do_not_overlap(void **state)
{
  g_autoptr(Arena) arena = arena_new();
  enum { COUNT = 500 };
  unsigned *blocks[COUNT];
  for (unsigned i = 0; i < COUNT; i++) {
    /* Small ones and ones above the chunk size, in turn. */
    size_t n = i % 50 == 0 ? 40000 : 1 + i % 13;
    blocks[i] = arena_new_array(arena, unsigned, n);
    for (size_t j = 0; j < n; j++)
      blocks[i][j] = i;
  }
  for (unsigned i = 0; i < COUNT; i++)
    assert_int_equal(blocks[i][0], i);
}

static void test_size_zero_is_unique(void **state)
{
  g_autoptr(Arena) arena = arena_new();
  void *a = arena_alloc(arena, 0), *b = arena_alloc(arena, 0);
  assert_non_null(a);
  assert_ptr_not_equal(a, b);
}

static void test_strings(void **state)
{
  g_autoptr(Arena) arena = arena_new();
  assert_null(arena_strdup(arena, NULL));
  assert_string_equal(arena_strdup(arena, "tile"), "tile");
  assert_string_equal(arena_strndup(arena, "tile", 2), "ti");
  assert_string_equal(arena_printf(arena, "r%d", 7), "r7");
  assert_true(arena_used(arena) > 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_memory_is_zeroed_and_aligned),
      cmocka_unit_test(test_allocations_do_not_overlap),
      cmocka_unit_test(test_size_zero_is_unique),
      cmocka_unit_test(test_strings),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
