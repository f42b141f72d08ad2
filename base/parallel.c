#include "base/parallel.h"
#include <glib.h>
#include <stdatomic.h>

typedef struct Loop {
  unsigned n;
  void (*work)(unsigned i, void *data);
  void *data;
  atomic_uint next;
} Loop;

static void run(Loop *loop)
{
  for (unsigned i; (i = atomic_fetch_add(&loop->next, 1)) < loop->n;)
    loop->work(i, loop->data);
}

static void run_in_pool(void *loop, void *data)
{
  run(loop);
}

void parallel_for(unsigned n, unsigned threads, void (*work)(unsigned i, void *data), void *data)
{
  Loop loop = {.n = n, .work = work, .data = data};
  threads = MIN(threads ? threads : g_get_num_processors(), n);
  GThreadPool *others = threads > 1 ? g_thread_pool_new(run_in_pool, NULL, -1, FALSE, NULL) : NULL;
  for (unsigned i = 1; i < threads; i++)
    g_thread_pool_push(others, &loop, NULL);
  run(&loop);
  if (others) g_thread_pool_free(others, FALSE, TRUE);
}
