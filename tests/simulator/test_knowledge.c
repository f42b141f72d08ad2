/* What clusters know of each other: unions, and tables that do not outgrow the clusters they are about. */
#include "simulator/knowledge.h"
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
// clang-format on

static Snapshot *at(uint32_t a, uint32_t b)
{
  return snapshot_new((const uint32_t[]){a, b}, 2, 1);
}

static void unions(void **state)
{
  Knowledge *k = knowledge_add(NULL, 3, at(1, 5));
  Knowledge *shared = knowledge_ref(k);
  k = knowledge_add(k, 3, at(2, 4));
  assert_int_equal(knowledge_of(k, 3)->v[0], 2);
  assert_int_equal(knowledge_of(k, 3)->v[1], 5);
  assert_int_equal(knowledge_of(shared, 3)->v[0], 1); /* what others hold does not change */
  k = knowledge_add(k, 3, SNAPSHOT_ALL);
  k = knowledge_join(k, shared);
  assert_ptr_equal(knowledge_of(k, 3), SNAPSHOT_ALL);
  assert_null(knowledge_of(k, 2));
  assert_null(knowledge_of(k, 4));
  knowledge_unref(k);
  knowledge_unref(shared);
}

/* A lock goes from cluster to cluster: each takes what is known there and adds its own. */
static void handovers(void **state)
{
  Knowledge *lock = NULL;
  for (uint32_t uid = 0; uid < 400; uid++) {
    Knowledge *own = knowledge_join(NULL, lock);
    own = knowledge_add(own, uid, at(uid + 1, 1));
    lock = knowledge_join(lock, own);
    knowledge_unref(own);
    assert_int_equal(lock->n, uid + 1);
  }
  for (uint32_t uid = 0; uid < 400; uid++)
    assert_int_equal(knowledge_of(lock, uid)->v[0], uid + 1);
  knowledge_unref(lock);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(unions), cmocka_unit_test(handovers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
