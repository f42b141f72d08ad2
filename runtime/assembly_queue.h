/* Kernels on their way to machine code, behind the back of a program that already launches some of them.
 *
 * Half of the queue's threads assemble kernels in the order in which they were added, the others those that
 * somebody asked for; a thread that has the choice takes the latter. Whoever takes a kernel that nobody has
 * begun assembles it himself. Each is assembled once, whether that goes well or not. Thread-safe, except
 * assembly_queue_add(), _start() and _free(). */
#pragma once
#include "runtime/assembler.h"

typedef struct AssemblyQueue AssemblyQueue;

/* The assembler must outlive the queue. threads: 0 = one per processor. */
AssemblyQueue *assembly_queue_new(const Assembler *assembler, const char *target, unsigned threads);
/* Drops what nobody has begun and stops what is being assembled. Nobody may be waiting. */
void assembly_queue_free(AssemblyQueue *queue);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(AssemblyQueue, assembly_queue_free)

/* Adds kernel number n, from 0 on, before anything is asked of the queue: texts are copied. With machine code
 * (cubin, of which a reference is taken) there is nothing left to do for it; ptx is then ignored. */
void assembly_queue_add(AssemblyQueue *queue, const char *name, const char *ptx, GBytes *cubin);
/* Begins with all kernels that are not there. `first` is called once, from one of the threads, before they
 * take kernels; `data` is freed with the queue, not before the call. Both may be NULL. */
void assembly_queue_start(AssemblyQueue *queue, void (*first)(void *data), void *data,
                          GDestroyNotify free_data);
/* Begins with one kernel before all that nobody has asked for. */
void assembly_queue_want(AssemblyQueue *queue, unsigned kernel);
/* Machine code of a kernel, of which the caller gets a reference; waits for it. NULL with the assembler's
 * error. */
GBytes *assembly_queue_take(AssemblyQueue *queue, unsigned kernel, GError **error);
/* Kernels that the assembler was run for, so far. */
unsigned assembly_queue_assembled(AssemblyQueue *queue);
