/* Description to PTX, in a warm process: compile_time GRAPH.json GPU [RUNS]
 *
 * Reads the graph and compiles it RUNS times (default 50; the first five are not counted), and prints the
 * median, the spread, and the largest memory the process had. Fails if the median is over 10 ms or the memory
 * over 64 MiB. */
#include "generator/compile.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#define WARM_UP         5
#define LIMIT_MS        10.0
#define LIMIT_KIB       (64 * 1024L)
#define MICROSECONDS_MS 1e3

static int compare_doubles(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Milliseconds of one compilation, reading included; -1 on failure. */
static double compile_once(Source *source, const Gpu *gpu, GError **error)
{
  gint64 start = g_get_monotonic_time();
  g_autoptr(Graph) graph = graph_read(source, NULL, 0, error);
  CompileOptions options = {0};
  g_autoptr(CompileResult) result = graph ? generator_compile(graph, gpu, &options, error) : NULL;
  return result ? (double)(g_get_monotonic_time() - start) / MICROSECONDS_MS : -1;
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
  g_autofree double *times = g_new0(double, runs);
  for (unsigned i = 0; i < runs + WARM_UP; i++) {
    double time = compile_once(source, gpu, &error);
    if (time < 0) return fail(error);
    if (i >= WARM_UP) times[i - WARM_UP] = time;
  }
  qsort(times, runs, sizeof *times, compare_doubles);
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  printf("%s for %s, %u runs: median %.2f ms, from %.2f to %.2f ms; peak memory %.1f MiB\n", argv[1],
         gpu->name, runs, times[runs / 2], times[0], times[runs - 1], (double)usage.ru_maxrss / 1024);
  return times[runs / 2] > LIMIT_MS || usage.ru_maxrss > LIMIT_KIB;
}
