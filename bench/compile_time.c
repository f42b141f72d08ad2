/* Description to PTX, in a warm process: compile_time GRAPH.json GPU [RUNS]
 *
 * Reads the graph and compiles it RUNS times (default 50; the first five are not counted), and prints the
 * medians of processor time and elapsed time, the spread, the IR arena of the largest kernel, and the largest
 * memory the process had. Fails if the median of processor time is over 10 ms or the memory over 64 MiB: a
 * compilation is one thread that waits for nothing, so on an idle machine both times are the same, and on a
 * busy one elapsed time would measure the others. */
#include "generator/compile/compile.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#define WARM_UP   5
#define LIMIT_MS  10.0
#define LIMIT_KIB (64 * 1024L)
#define MIB       (1024.0 * 1024.0)

typedef struct {
  double processor, elapsed; /* ms */
  size_t arena;              /* bytes of the largest kernel's IR */
} Run;

static double clock_ms(clockid_t clock)
{
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static int compare_doubles(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* One compilation, reading included. */
static bool compile_once(Source *source, const Gpu *gpu, Run *run, GError **error)
{
  double processor = clock_ms(CLOCK_THREAD_CPUTIME_ID), elapsed = clock_ms(CLOCK_MONOTONIC);
  g_autoptr(Graph) graph = graph_read(source, NULL, 0, error);
  CompileOptions options = {.threads = 1, .drop_ir = true, .drop_notes = true}; /* whose time is measured */
  g_autoptr(CompileResult) result = graph ? generator_compile(graph, gpu, &options, error) : NULL;
  if (!result) return false;
  run->processor = clock_ms(CLOCK_THREAD_CPUTIME_ID) - processor;
  run->elapsed = clock_ms(CLOCK_MONOTONIC) - elapsed;
  run->arena = 0;
  for (unsigned i = 0; i < result->kernels->len; i++)
    run->arena = MAX(run->arena, ((const CompiledKernel *)result->kernels->pdata[i])->arena_bytes);
  return true;
}

static int fail(GError *error)
{
  int code = error_exit_code(error);
  error_print(error, stderr, false);
  g_error_free(error);
  return code;
}

int main(int argc, char **argv)
{
  GError *error = NULL;
  unsigned runs = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 50;
  if (argc < 3 || runs == 0) {
    fputs("usage: compile_time GRAPH.json GPU [RUNS]\n", stderr);
    return ERROR_USAGE;
  }
  g_autoptr(Source) source = source_load(argv[1], &error);
  g_autoptr(Gpu) gpu = source ? gpu_load(argv[2], &error) : NULL;
  if (!gpu) return fail(error);
  g_autofree double *processor = g_new0(double, runs);
  g_autofree double *elapsed = g_new0(double, runs);
  Run run = {0};
  for (unsigned i = 0; i < runs + WARM_UP; i++) {
    if (!compile_once(source, gpu, &run, &error)) return fail(error);
    if (i < WARM_UP) continue;
    processor[i - WARM_UP] = run.processor;
    elapsed[i - WARM_UP] = run.elapsed;
  }
  qsort(processor, runs, sizeof *processor, compare_doubles);
  qsort(elapsed, runs, sizeof *elapsed, compare_doubles);
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  printf("%s for %s, %u runs: median %.2f ms of processor time (%.2f to %.2f), %.2f ms elapsed; largest "
         "kernel's "
         "IR %.1f MiB, peak memory %.1f MiB\n",
         argv[1], gpu->name, runs, processor[runs / 2], processor[0], processor[runs - 1], elapsed[runs / 2],
         (double)run.arena / MIB, (double)usage.ru_maxrss / 1024);
  return processor[runs / 2] > LIMIT_MS || usage.ru_maxrss > LIMIT_KIB;
}
