#include "runtime/assembly_queue.h"

typedef enum { KERNEL_WAITS, KERNEL_WANTED, KERNEL_BEGUN, KERNEL_DONE } KernelState;

typedef struct QueuedKernel {
  char *name, *ptx;
  KernelState state;
  GBytes *cubin; /* NULL: not yet, or there is an error */
  GError *error;
} QueuedKernel;

struct AssemblyQueue {
  const Assembler *assembler;
  char *target;
  GPtrArray *kernels; /* QueuedKernel *; changes only before the first task */
  GThreadPool *ahead; /* a task is: assemble whatever is next */
  GThreadPool
      *wanted; /* a task is: assemble a kernel that somebody waits for; NULL: one thread is all there is */
  GCancellable *stop;
  GMutex lock; /* of what follows, and of the kernels' states and results */
  GCond changed;
  unsigned n_done, n_assembled;
  void (*first)(void *data); /* NULL once a thread has taken it */
  void *data;
  GDestroyNotify free_data;
};

static void kernel_free(void *memory)
{
  QueuedKernel *kernel = memory;
  g_free(kernel->name);
  g_free(kernel->ptx);
  if (kernel->cubin) g_bytes_unref(kernel->cubin);
  g_clear_error(&kernel->error);
  g_free(kernel);
}

/* Assembles a kernel that this thread has marked as begun. */
static void assemble(AssemblyQueue *queue, QueuedKernel *kernel)
{
  GError *error = NULL;
  g_autoptr(Assembly) assembly =
      assembler_run_until(queue->assembler, kernel->name, kernel->ptx, queue->target, queue->stop, &error);
  g_mutex_lock(&queue->lock);
  kernel->cubin = assembly ? g_bytes_ref(assembly->cubin) : NULL;
  kernel->error = error;
  kernel->state = KERNEL_DONE;
  g_clear_pointer(&kernel->ptx, g_free);
  queue->n_done++;
  queue->n_assembled += assembly && !assembly->recalled;
  g_cond_broadcast(&queue->changed);
  g_mutex_unlock(&queue->lock);
}

/* The next kernel, marked as begun: one that is wanted, or else, if `any`, the first that waits. NULL: there
 * is none. */
static QueuedKernel *begin_next(AssemblyQueue *queue, bool any)
{
  QueuedKernel *next = NULL;
  g_mutex_lock(&queue->lock);
  for (guint i = 0; i < queue->kernels->len && (!next || next->state != KERNEL_WANTED); i++) {
    QueuedKernel *kernel = queue->kernels->pdata[i];
    if (kernel->state == KERNEL_WANTED || (any && kernel->state == KERNEL_WAITS && !next)) next = kernel;
  }
  if (next) next->state = KERNEL_BEGUN;
  g_mutex_unlock(&queue->lock);
  return next;
}

static void run_next(AssemblyQueue *queue, bool any)
{
  QueuedKernel *kernel = g_cancellable_is_cancelled(queue->stop) ? NULL : begin_next(queue, any);
  if (kernel) assemble(queue, kernel);
}

static void run_wanted(void *task, void *data)
{
  run_next(data, false);
}

static void run_ahead(void *task, void *data)
{
  AssemblyQueue *queue = data;
  g_mutex_lock(&queue->lock);
  void (*first)(void *) = queue->first;
  queue->first = NULL;
  g_mutex_unlock(&queue->lock);
  if (first) first(queue->data); /* even if the queue is to stop */
  run_next(queue, true);
}

/* Half of the threads work ahead. The others are kept for kernels that a launch waits for: among as many
 * assemblers as there are processors it would wait for one of them to end first. */
AssemblyQueue *assembly_queue_new(const Assembler *assembler, const char *target, unsigned threads)
{
  AssemblyQueue *queue = g_new0(AssemblyQueue, 1);
  queue->assembler = assembler;
  queue->target = g_strdup(target);
  queue->kernels = g_ptr_array_new_with_free_func(kernel_free);
  queue->stop = g_cancellable_new();
  g_mutex_init(&queue->lock);
  g_cond_init(&queue->changed);
  if (!threads) threads = g_get_num_processors();
  queue->ahead = g_thread_pool_new(run_ahead, queue, (int)((threads + 1) / 2), FALSE, NULL);
  if (threads > 1) queue->wanted = g_thread_pool_new(run_wanted, queue, (int)(threads / 2), FALSE, NULL);
  return queue;
}

void assembly_queue_free(AssemblyQueue *queue)
{
  if (!queue) return;
  g_cancellable_cancel(queue->stop);
  /* Tasks that are left find that they shall stop. */
  g_thread_pool_free(queue->ahead, FALSE, TRUE);
  if (queue->wanted) g_thread_pool_free(queue->wanted, FALSE, TRUE);
  if (queue->free_data) queue->free_data(queue->data);
  g_ptr_array_unref(queue->kernels);
  g_object_unref(queue->stop);
  g_cond_clear(&queue->changed);
  g_mutex_clear(&queue->lock);
  g_free(queue->target);
  g_free(queue);
}

void assembly_queue_add(AssemblyQueue *queue, const char *name, const char *ptx, GBytes *cubin)
{
  QueuedKernel *kernel = g_new0(QueuedKernel, 1);
  kernel->name = g_strdup(name);
  kernel->ptx = cubin ? NULL : g_strdup(ptx);
  kernel->cubin = cubin ? g_bytes_ref(cubin) : NULL;
  kernel->state = cubin ? KERNEL_DONE : KERNEL_WAITS;
  queue->n_done += cubin != NULL;
  g_ptr_array_add(queue->kernels, kernel);
}

void assembly_queue_start(AssemblyQueue *queue, void (*first)(void *data), void *data,
                          GDestroyNotify free_data)
{
  queue->first = first;
  queue->data = data;
  queue->free_data = free_data;
  for (guint i = queue->n_done; i < queue->kernels->len; i++)
    g_thread_pool_push(queue->ahead, queue, NULL); /* a task must not be NULL */
}

void assembly_queue_want(AssemblyQueue *queue, unsigned i)
{
  QueuedKernel *kernel = queue->kernels->pdata[i];
  g_mutex_lock(&queue->lock);
  bool begin = kernel->state == KERNEL_WAITS;
  if (begin) kernel->state = KERNEL_WANTED;
  g_mutex_unlock(&queue->lock);
  if (begin) g_thread_pool_push(queue->wanted ? queue->wanted : queue->ahead, queue, NULL);
}

GBytes *assembly_queue_take(AssemblyQueue *queue, unsigned i, GError **error)
{
  QueuedKernel *kernel = queue->kernels->pdata[i];
  g_mutex_lock(&queue->lock);
  bool mine = kernel->state < KERNEL_BEGUN;
  if (mine) kernel->state = KERNEL_BEGUN;
  while (!mine && kernel->state != KERNEL_DONE)
    g_cond_wait(&queue->changed, &queue->lock);
  g_mutex_unlock(&queue->lock);
  if (mine) assemble(queue, kernel);
  /* what is done stays as it is */
  if (!kernel->cubin && error) *error = g_error_copy(kernel->error);
  return kernel->cubin ? g_bytes_ref(kernel->cubin) : NULL;
}

unsigned assembly_queue_assembled(AssemblyQueue *queue)
{
  g_mutex_lock(&queue->lock);
  unsigned n = queue->n_assembled;
  g_mutex_unlock(&queue->lock);
  return n;
}
