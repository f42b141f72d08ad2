/* What starting and launching cost, and whether launches give the same results by every way:
 *
 *   launch GRAPH GPU DIMS DEPENDENT [THREADS]
 *
 * GRAPH: an op description, GPU: a name, or - for the one nearest to the device, DIMS: a value for all open
 * dimensions, DEPENDENT: bench/dependent, THREADS: that compile and assemble, by default one a processor.
 * Needs a GPU. Prints a line a figure; exits with 1 if a result differs.
 *
 * Launches are timed on the host, in batches short enough not to fill the driver's queue: the executable's,
 * and in turn with them a bare call of the driver with the same configuration and arguments, taken from the
 * executable's slot. */
#include "execute/jit.h"
#include "plan/resolve.h"
#include "runtime/executable_private.h"
#include <glib/gstdio.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BATCHES 100
#define BATCH   50 /* launches */
/* Bytes behind each tensor, so that it can be read at somewhat larger addresses too. */
#define SLACK 65536

typedef int (*CaptureBegin)(void *stream, int mode);
typedef int (*CaptureEnd)(void *stream, void **graph);
typedef int (*Instantiate)(void **exec, void *graph, unsigned long long flags);
typedef int (*GraphLaunch)(void *exec, void *stream);
typedef int (*StreamCreate)(void **stream, unsigned flags);
typedef int (*StreamWait)(void *stream);

/* One graph on the GPU. */
typedef struct Bench {
  Device *device;
  Source *source;
  const char *gpu_name; /* NULL: the nearest */
  unsigned threads;     /* 0: one a processor */
  int64_t dims[8];
  Loaded *loaded;
  const void **tensors;
  uint64_t *bytes; /* of each tensor */
  unsigned n;
  void *workspace;
  uint64_t workspace_bytes;
  unsigned n_wrong;
} Bench;

static double now_us(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static int compare_doubles(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *values, unsigned n)
{
  qsort(values, n, sizeof *values, compare_doubles);
  return values[n / 2];
}

/* Takes the address, since arguments are evaluated in any order. */
static void must(bool ok, GError **error)
{
  if (ok) return;
  error_print(*error, stderr, false);
  exit(error_exit_code(*error));
}

static void expect(Bench *bench, bool ok, const char *what)
{
  printf("%-58s %s\n", what, ok ? "same" : "DIFFERS");
  bench->n_wrong += !ok;
}

static void *pointer_of(uint64_t address)
{
  return (void *)(uintptr_t)address; // NOLINT: of the device
}

static void *symbol(Bench *bench, const char *name)
{
  void *function = device_symbol(bench->device, name);
  if (function) return function;
  fprintf(stderr, "the driver has no %s\n", name);
  exit(ERROR_MISSING_TOOL);
}

/* ---- starting ---- */

static Loaded *start(const Bench *bench, const char *cache, bool nvjitlink, double *ms)
{
  GError *error = NULL;
  double begin = now_us();
  g_autoptr(Gpu) gpu = bench->gpu_name ? gpu_load(bench->gpu_name, &error) : NULL;
  must(gpu || !bench->gpu_name, &error);
  const JitOptions options = {.cache_dir = cache, .nvjitlink = nvjitlink, .jobs = bench->threads};
  Loaded *loaded = jit_source(bench->source, gpu, &options, &error);
  *ms = (now_us() - begin) / 1e3;
  must(loaded != NULL, &error);
  return loaded;
}

/* ---- memory ---- */

static void fill_tensor(Bench *bench, unsigned i, const PlanTensor *plan, uint32_t seed)
{
  uint64_t bytes = bench->bytes[i];
  g_autofree uint8_t *data = g_malloc0(bytes + 8);
  g_autoptr(GRand) random = g_rand_new_with_seed(seed + i);
  unsigned size = number_bytes(plan->type);
  for (uint64_t at = 0; at + size <= bytes; at += size)
    number_from_double(plan->type, g_rand_double_range(random, -1, 1), true, data + at);
  GError *error = NULL;
  must(device_write(bench->device, (uint64_t)(uintptr_t)bench->tensors[i], data, bytes, &error), &error);
}

static void make_memory(Bench *bench)
{
  GError *error = NULL;
  Executable *x = bench->loaded->executable;
  const Plan *plan = executable_plan(x);
  const PlanBindings bindings = {bench->dims, NULL};
  bench->n = executable_tensor_count(x);
  bench->tensors = g_new0(const void *, bench->n);
  bench->bytes = g_new0(uint64_t, bench->n);
  for (unsigned i = 0; i < bench->n; i++) {
    ResolvedTensor resolved;
    const PlanTensor *tensor = executable_tensor(x, i);
    must(plan_resolve_tensor(plan, tensor, &bindings, &resolved, &error), &error);
    bench->bytes[i] = resolved.bytes;
    uint64_t address = device_allocate(bench->device, resolved.bytes + SLACK, &error);
    must(address != 0, &error);
    bench->tensors[i] = pointer_of(address);
    fill_tensor(bench, i, tensor, 7);
  }
  must(executable_workspace(x, bench->dims, &bench->workspace_bytes, &error), &error);
  bench->workspace = pointer_of(device_allocate(bench->device, bench->workspace_bytes, &error));
  must(bench->workspace != NULL, &error);
}

static void launch(Bench *bench, void *stream)
{
  GError *error = NULL;
  must(executable_launch(bench->loaded->executable, stream, bench->tensors, bench->dims, bench->workspace,
                         bench->workspace_bytes, &error),
       &error);
}

static void wait_for(Bench *bench)
{
  GError *error = NULL;
  must(device_wait(bench->device, &error), &error);
}

/* ---- the time of a start ---- */

/* One start: until the caller has the executable, until the first launch is queued, until all kernels are
 * loaded, each in milliseconds from the beginning. */
typedef struct StartTimes {
  double ready, launched, loaded;
} StartTimes;

static unsigned start_once(Bench *bench, const char *cache, bool nvjitlink, StartTimes *times)
{
  GError *error = NULL;
  double begin = now_us();
  bench->loaded = start(bench, cache, nvjitlink, &times->ready);
  launch(bench, device_stream(bench->device));
  times->launched = (now_us() - begin) / 1e3;
  must(executable_load(bench->loaded->executable, NULL, &error), &error);
  times->loaded = (now_us() - begin) / 1e3;
  wait_for(bench);
  unsigned assembled = assembly_queue_assembled(bench->loaded->queue);
  g_clear_pointer(&bench->loaded, loaded_free);
  return assembled;
}

static double median_of(const StartTimes *times, unsigned n, size_t field)
{
  double values[16];
  for (unsigned i = 0; i < n; i++)
    values[i] = *(const double *)((const char *)&times[i] + field);
  return median(values, n);
}

static void print_starts(const char *what, const StartTimes *times, unsigned n, unsigned assembled)
{
  printf("%s start, %2u kernels assembled: executable %8.2f ms, first launch %8.2f ms, all loaded %8.2f ms\n",
         what, assembled, median_of(times, n, offsetof(StartTimes, ready)),
         median_of(times, n, offsetof(StartTimes, launched)),
         median_of(times, n, offsetof(StartTimes, loaded)));
}

static void time_start(Bench *bench, bool nvjitlink)
{
  enum { COLD = 3, WARM = 9 };
  StartTimes cold[COLD], warm[WARM];
  unsigned assembled = 0, again = 0;
  for (unsigned i = 0; i < COLD; i++) {
    g_autofree char *folder = g_dir_make_tmp("adlgen-launch-XXXXXX", NULL);
    assembled = start_once(bench, folder, nvjitlink, &cold[i]);
    for (unsigned j = 0; j < WARM / COLD; j++)
      again += start_once(bench, folder, nvjitlink, &warm[i * (WARM / COLD) + j]);
    g_autoptr(Cache) cache = cache_open(folder, 0);
    cache_clear(cache, NULL, NULL);
  }
  printf("assembled by %s\n", nvjitlink ? "nvJitLink" : "ptxas");
  print_starts("cold", cold, COLD, assembled);
  print_starts("warm", warm, WARM, again);
}

/* The outputs' bytes, one behind the other; then fills the outputs with a value. g_free. */
static uint8_t *take_outputs(Bench *bench, uint64_t *size)
{
  GError *error = NULL;
  GByteArray *all = g_byte_array_new();
  for (unsigned i = 0; i < bench->n; i++) {
    if (executable_tensor(bench->loaded->executable, i)->kind != PLAN_OUTPUT) continue;
    uint64_t address = (uint64_t)(uintptr_t)bench->tensors[i];
    g_autofree uint8_t *data = g_malloc(bench->bytes[i] + 1);
    must(device_read(bench->device, data, address, bench->bytes[i], &error) &&
             device_fill(bench->device, address, 0xff, bench->bytes[i], &error),
         &error);
    g_byte_array_append(all, data, (guint)bench->bytes[i]);
  }
  wait_for(bench);
  *size = all->len;
  return g_byte_array_free(all, FALSE);
}

/* ---- the cost of a launch ---- */

/* The slot that holds what was launched last. */
static Slot *filled_slot(Executable *x)
{
  Slot *last = NULL;
  for (unsigned i = 0; i < EXECUTABLE_SLOTS; i++)
    if (x->slots[i].valid && (!last || x->slots[i].age > last->age)) last = &x->slots[i];
  return last;
}

static int bare_launch(const Executable *x, const SlotLaunch *launch, void *stream)
{
  const PlanVariant *plan = launch->variant->plan;
  const LaunchConfig config = {{launch->grid[0], launch->grid[1], launch->grid[2]},
                               {plan->block[0], plan->block[1], plan->block[2]},
                               plan->shared,
                               stream,
                               (LaunchAttribute *)launch->attributes,
                               launch->n_attributes};
  return x->context->driver.launch(&config, launch->variant->kernel->function, launch->parameters, NULL);
}

typedef enum { BARE, SAME, OTHER_ADDRESS, WAYS } Way;

static void launch_by(Bench *bench, Way way, const Slot *slot, unsigned i)
{
  const Executable *x = bench->loaded->executable;
  const void *first = bench->tensors[0];
  if (way == BARE) {
    for (unsigned j = 0; j < x->plan->n_launches; j++)
      if (bare_launch(x, &slot->launches[j], device_stream(bench->device))) exit(1);
    return;
  }
  if (way == OTHER_ADDRESS) bench->tensors[0] = (const char *)first + 256 * (1 + i % 97);
  launch(bench, device_stream(bench->device));
  bench->tensors[0] = first;
}

static void time_launches(Bench *bench)
{
  static const char *const names[WAYS] = {"bare cuLaunchKernelEx, same arguments",
                                          "launch, arguments seen before",
                                          "launch, another address each time"};
  double *times[WAYS];
  launch(bench, device_stream(bench->device));
  const Slot *slot = filled_slot(bench->loaded->executable);
  for (unsigned way = 0; way < WAYS; way++)
    times[way] = g_new0(double, BATCHES);
  for (unsigned batch = 0; batch < BATCHES; batch++)
    for (unsigned way = 0; way < WAYS; way++) {
      launch(bench, device_stream(bench->device));
      wait_for(bench);
      slot = filled_slot(bench->loaded->executable);
      double begin = now_us();
      for (unsigned i = 0; i < BATCH; i++)
        launch_by(bench, way, slot, i);
      times[way][batch] = (now_us() - begin) / BATCH;
      wait_for(bench);
    }
  unsigned kernels = executable_plan(bench->loaded->executable)->n_launches;
  for (unsigned way = 0; way < WAYS; way++) {
    double value = median(times[way], BATCHES);
    printf("%-42s %u kernels  %8.3f us (fastest %.3f)\n", names[way], kernels, value, times[way][0]);
    g_free(times[way]);
  }
}

/* ---- the same results by every way ---- */

/* A launch, captured in the strictest mode, as a graph to replay; NULL: the driver refused. */
static void *capture_launch(Bench *bench)
{
  CaptureBegin begin = (CaptureBegin)symbol(bench, "cuStreamBeginCapture_v2");
  CaptureEnd end = (CaptureEnd)symbol(bench, "cuStreamEndCapture");
  Instantiate instantiate = (Instantiate)symbol(bench, "cuGraphInstantiateWithFlags");
  void *stream = device_stream(bench->device), *graph = NULL, *exec = NULL;
  if (begin(stream, 0)) exit(1);
  launch(bench, stream);
  return !end(stream, &graph) && graph && !instantiate(&exec, graph, 0) ? exec : NULL;
}

static void check_capture(Bench *bench, const uint8_t *expected, uint64_t size)
{
  GraphLaunch replay = (GraphLaunch)symbol(bench, "cuGraphLaunch");
  void *stream = device_stream(bench->device), *exec = capture_launch(bench);
  uint64_t again = 0;
  bool ok = exec != NULL;
  /* What is captured is held by value: other launches in between do not matter. */
  const void *first = bench->tensors[0];
  for (unsigned i = 1; ok && i < 4 * EXECUTABLE_SLOTS; i++) {
    bench->tensors[0] = (const char *)first + 16 * i;
    launch(bench, stream);
  }
  bench->tensors[0] = first;
  for (unsigned i = 0; ok && i < 3; i++) {
    g_free(take_outputs(bench, &again));
    ok = !replay(exec, stream);
    wait_for(bench);
    g_autofree uint8_t *data = take_outputs(bench, &again);
    ok = ok && again == size && !memcmp(data, expected, size);
  }
  expect(bench, ok, "replay of a captured graph, three times");
}

/* A kernel is loaded while the stream that launches it first is being captured. */
static void check_capture_first(Bench *bench, const uint8_t *expected, uint64_t size)
{
  GraphLaunch replay = (GraphLaunch)symbol(bench, "cuGraphLaunch");
  void *stream = device_stream(bench->device);
  Loaded *kept = bench->loaded;
  double ms = 0;
  uint64_t again = 0;
  bench->loaded = start(bench, NULL, false, &ms);
  void *exec = capture_launch(bench);
  g_free(take_outputs(bench, &again));
  bool ok = exec && !replay(exec, stream);
  wait_for(bench);
  g_autofree uint8_t *data = take_outputs(bench, &again);
  expect(bench, ok && again == size && !memcmp(data, expected, size), "first launch while being captured");
  loaded_free(bench->loaded);
  bench->loaded = kept;
}

typedef struct Worker {
  Bench *bench;
  void *stream;
} Worker;

static void *work(void *data)
{
  Worker *worker = data;
  for (unsigned i = 0; i < 100; i++)
    launch(worker->bench, worker->stream);
  return NULL;
}

/* A copy of the bench with outputs and a workspace of its own. */
static Bench other_outputs(const Bench *bench)
{
  GError *error = NULL;
  Bench copy = *bench;
  copy.tensors = g_memdup2(bench->tensors, bench->n * sizeof *bench->tensors);
  for (unsigned i = 0; i < bench->n; i++)
    if (executable_tensor(bench->loaded->executable, i)->kind == PLAN_OUTPUT)
      copy.tensors[i] = pointer_of(device_allocate(bench->device, bench->bytes[i], &error));
  copy.workspace = pointer_of(device_allocate(bench->device, bench->workspace_bytes, &error));
  must(!error && copy.workspace, &error);
  return copy;
}

static void check_threads(Bench *bench, const uint8_t *expected, uint64_t size)
{
  enum { THREADS = 4 };
  StreamCreate create = (StreamCreate)symbol(bench, "cuStreamCreate");
  StreamWait wait = (StreamWait)symbol(bench, "cuStreamSynchronize");
  Bench benches[THREADS];
  Worker workers[THREADS];
  GThread *threads[THREADS];
  bool ok = true;
  for (unsigned i = 0; i < THREADS; i++) {
    benches[i] = other_outputs(bench);
    workers[i].bench = &benches[i];
    if (create(&workers[i].stream, 1)) exit(1);
  }
  for (unsigned i = 0; i < THREADS; i++)
    threads[i] = g_thread_new(NULL, work, &workers[i]);
  for (unsigned i = 0; i < THREADS; i++) {
    uint64_t again = 0;
    g_thread_join(threads[i]);
    ok = ok && !wait(workers[i].stream);
    g_autofree uint8_t *data = take_outputs(&benches[i], &again);
    ok = ok && again == size && !memcmp(data, expected, size);
  }
  expect(bench, ok, "four threads without a context, a stream each");
}

/* Both kernels are in one piece of machine code. */
static GBytes *take_dependent(void *data, unsigned kernel, GError **error)
{
  return g_bytes_ref(data);
}

/* Two kernels of which the second may start early, with a region of the workspace cleared before the first.
 */
static void check_dependent(Bench *bench, const char *folder)
{
  enum { N = 100000 };
  GError *error = NULL;
  g_autofree char *plan_path = g_build_filename(folder, "plan.json", NULL);
  g_autofree char *ptx_path = g_build_filename(folder, "dependent.ptx", NULL);
  g_autoptr(Source) plan_source = source_load(plan_path, &error), ptx = source_load(ptx_path, NULL);
  Plan *plan = plan_source && ptx ? plan_read(plan_source, &error) : NULL;
  must(plan != NULL, &error);
  g_autoptr(Assembler) assembler = assembler_find(NULL, NULL, &error);
  g_autofree char *target = device_target(bench->device, plan->gpu_target, &error);
  must(target != NULL, &error);
  Assembly *assembly = assembler ? assembler_run(assembler, "dependent", ptx->text, target, &error) : NULL;
  must(assembly != NULL, &error);
  const ExecutableKernel kernels[] = {{"first", "first"}, {"second", "second"}};
  const KernelSource code = {.take = take_dependent, .data = assembly->cubin};
  Executable *x = executable_new(plan, context_open(0, NULL), kernels, 2, &code, &error);
  must(x != NULL, &error);
  const int64_t dims[] = {N};
  void *workspace = pointer_of(device_allocate(bench->device, 4 * N, &error));
  const void *tensors[] = {pointer_of(device_allocate(bench->device, 4 * N, &error))};
  must(!error, &error);
  g_autofree int32_t *result = g_new0(int32_t, N);
  bool ok = true;
  for (unsigned round = 0; round < 20; round++) {
    must(executable_launch(x, device_stream(bench->device), tensors, dims, workspace, 4 * N, &error) &&
             device_read(bench->device, result, (uint64_t)(uintptr_t)tensors[0], 4 * N, &error),
         &error);
    for (int i = 0; i < N; i++)
      ok = ok && result[i] == 3 * i + 1;
  }
  bool early = filled_slot(x)->launches[1].n_attributes == 1;
  expect(bench, ok && early, "programmatic dependent launch, 20 times");
  executable_free(x);
  assembly_free(assembly);
}

int main(int argc, char **argv)
{
  if (argc != 5 && argc != 6) {
    fputs("launch GRAPH GPU DIMS DEPENDENT [THREADS]\n", stderr);
    return ERROR_USAGE;
  }
  setvbuf(stdout, NULL, _IOLBF, 0);
  GError *error = NULL;
  Bench bench = {.gpu_name = strcmp(argv[2], "-") ? argv[2] : NULL};
  bench.device = device_open(0, &error);
  must(bench.device != NULL, &error);
  bench.source = source_load(argv[1], &error);
  must(bench.source != NULL, &error);
  for (unsigned i = 0; i < G_N_ELEMENTS(bench.dims); i++)
    bench.dims[i] = g_ascii_strtoll(argv[3], NULL, 10);
  bench.threads = argc == 6 ? (unsigned)g_ascii_strtoull(argv[5], NULL, 10) : 0;
  double ms = 0;
  bench.loaded = start(&bench, "", false, &ms);
  printf("%s on %s, for %s\n", argv[1], device_name(bench.device), bench.loaded->gpu);
  for (guint i = 0; i < bench.loaded->warnings->len; i++)
    printf("warning: %s\n", (const char *)bench.loaded->warnings->pdata[i]);
  make_memory(&bench);
  g_clear_pointer(&bench.loaded, loaded_free);
  time_start(&bench, false);
  if (g_getenv("LAUNCH_NVJITLINK")) time_start(&bench, true);
  bench.loaded = start(&bench, "", false, &ms);
  uint64_t size = 0;
  g_free(take_outputs(&bench, &size));
  launch(&bench, device_stream(bench.device));
  wait_for(&bench);
  g_autofree uint8_t *expected = take_outputs(&bench, &size);
  const Slot *slot = filled_slot(bench.loaded->executable);
  for (unsigned i = 0; i < executable_plan(bench.loaded->executable)->n_launches; i++) {
    const PlanVariant *variant = slot->launches[i].variant->plan;
    printf("  %s, cluster %u\n", variant->kernel,
           variant->cluster[0] * variant->cluster[1] * variant->cluster[2]);
  }
  time_launches(&bench);
  check_capture(&bench, expected, size);
  check_capture_first(&bench, expected, size);
  check_threads(&bench, expected, size);
  check_dependent(&bench, argv[4]);
  loaded_free(bench.loaded);
  return bench.n_wrong ? 1 : 0;
}
