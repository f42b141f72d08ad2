/* The clock of bench: candidates in turn, round after round. */
#include "base/quantile.h"
#include "measure/bench.h"
#include <string.h>

/* Launches timed in one round: more for short kernels, within these bounds. */
#define LEAST_REPEATS   2
#define MOST_REPEATS    20
#define ROUND_TARGET_US 2000.0
/* Bursts: after a kernel longer than this the GPU rests for REST times its time, so that power does not lower
 * the clock.
 */
#define REST_ABOVE_US 50
#define REST          8

const char *bench_mode_name(BenchMode mode)
{
  static const char *const names[] = {"cold", "warm", "sustained", "dirty"};
  return names[mode];
}

/* ---- numbers ---- */

double bench_ratio(const BenchTimings *timings, unsigned a, unsigned b)
{
  g_autofree double *ratios = g_new(double, timings->n_rounds);
  for (unsigned i = 0; i < timings->n_rounds; i++)
    ratios[i] = timings->of[b].rounds[i] / timings->of[a].rounds[i];
  return median(ratios, timings->n_rounds);
}

static BenchTimings *timings_new(unsigned n, unsigned rounds)
{
  BenchTimings *timings = g_new0(BenchTimings, 1);
  timings->n = n;
  timings->n_rounds = rounds;
  timings->of = g_new0(BenchTiming, n + 1);
  for (unsigned i = 0; i < n; i++) {
    timings->of[i].rounds = g_new0(double, rounds + 1);
    timings->of[i].clock_mhz = timings->of[i].clock_low_mhz = timings->of[i].watts = NAN;
  }
  return timings;
}

void bench_timings_free(BenchTimings *timings)
{
  if (!timings) return;
  for (unsigned i = 0; i < timings->n; i++)
    g_free(timings->of[i].rounds);
  g_free(timings->of);
  g_free(timings);
}

static void summarise(BenchTimings *timings)
{
  for (unsigned i = 0; i < timings->n; i++) {
    BenchTiming *t = &timings->of[i];
    t->median = median(t->rounds, timings->n_rounds);
    t->spread =
        (quantile(t->rounds, timings->n_rounds, 0.75) - quantile(t->rounds, timings->n_rounds, 0.25)) /
        t->median;
  }
}

/* ---- one measurement ---- */

typedef struct Timer {
  BenchGpu *gpu;
  BenchCandidate *const *candidates;
  unsigned n, n_sets, repeats;
  double slowest; /* us, of one launch */
  BenchMode mode;
  const BenchTimingOptions *options;
  DeviceEvent *events[2 * MOST_REPEATS];
  BenchTimings *timings;
} Timer;

static bool make_events(Timer *t, GError **error)
{
  for (unsigned i = 0; i < G_N_ELEMENTS(t->events); i++)
    if (!(t->events[i] = device_event_new(bench_gpu_recorder(t->gpu), error))) return false;
  return true;
}

/* Time of whatever is queued between two events, once it is done. */
static bool elapsed(Timer *t, double *us, GError **error)
{
  return device_wait(bench_gpu_device(t->gpu), error) &&
         device_event_elapsed(t->events[0], t->events[1], us, error);
}

static unsigned contenders(const Timer *t)
{
  unsigned n = t->options->contenders;
  return n && n < t->n ? n : t->n;
}

/* One launch of each, so that nothing is loaded or decided while it is timed; gives the slowest and fastest
 * time. */
static bool estimate(Timer *t, double *fastest, GError **error)
{
  *fastest = INFINITY;
  t->slowest = 0;
  for (unsigned i = 0; i < t->n; i++)
    for (unsigned j = 0; j < 3; j++) {
      double us = 0;
      if (!device_event_record(t->events[0], error) || !t->candidates[i]->queue(t->candidates[i], 0, error) ||
          !device_event_record(t->events[1], error) || !elapsed(t, &us, error))
        return false;
      if (j == 0) continue;
      if (i < contenders(t)) *fastest = MIN(*fastest, us);
      t->slowest = MAX(t->slowest, us);
    }
  return true;
}

/* What a mode does before every launch. */
static bool flush(Timer *t, GError **error)
{
  if (t->mode == BENCH_COLD) return bench_gpu_flush(t->gpu, error);
  return t->mode != BENCH_DIRTY || bench_gpu_overwrite(t->gpu, error);
}

/* ---- events: for kernels that are long beside the gap between two launches ---- */

static bool rest(Timer *t, GError **error)
{
  /* The long memset of DIRTY is rest enough, and all that DeepGEMM's own benchmark gives. */
  if (t->slowest < REST_ABOVE_US || t->mode == BENCH_DIRTY) return true;
  if (!device_wait(bench_gpu_device(t->gpu), error)) return false;
  g_usleep((gulong)(REST * t->slowest));
  return true;
}

static bool queue_with_events(Timer *t, BenchCandidate *candidate, GError **error)
{
  for (unsigned i = 0; i < t->repeats; i++) {
    if (!rest(t, error)) return false;
    if (!flush(t, error) || !device_event_record(t->events[2 * i], error) ||
        !candidate->queue(candidate, 0, error) || !device_event_record(t->events[2 * i + 1], error))
      return false;
  }
  return device_wait(bench_gpu_device(t->gpu), error);
}

/* All rounds of the candidates from `first` to before `end`. */
static bool event_rounds(Timer *t, unsigned first, unsigned end, GError **error)
{
  double us[MOST_REPEATS];
  for (unsigned round = 0; round < t->options->rounds; round++)
    for (unsigned i = first; i < end; i++) {
      if (!queue_with_events(t, t->candidates[i], error)) return false;
      for (unsigned j = 0; j < t->repeats; j++)
        if (!device_event_elapsed(t->events[2 * j], t->events[2 * j + 1], &us[j], error)) return false;
      t->timings->of[i].rounds[round] = median(us, t->repeats);
    }
  return true;
}

static bool time_by_events(Timer *t, GError **error)
{
  t->timings->method = "events";
  return event_rounds(t, 0, contenders(t), error) && event_rounds(t, contenders(t), t->n, error);
}

/* ---- graphs: repeats launches in one, less the same graph without them ---- */

static DeviceGraph *record(Timer *t, BenchCandidate *candidate, unsigned n_sets, unsigned repeats,
                           GError **error)
{
  if (!device_graph_begin(bench_gpu_recorder(t->gpu), error)) return NULL;
  for (unsigned i = 0; i < repeats; i++)
    if (!flush(t, error) || (candidate && !candidate->queue(candidate, i % n_sets, error))) {
      device_graph_abandon(bench_gpu_recorder(t->gpu));
      return NULL;
    }
  return device_graph_end(bench_gpu_recorder(t->gpu), error);
}

static bool replay(Timer *t, DeviceGraph *graph, double *us, GError **error)
{
  return device_event_record(t->events[0], error) && device_graph_queue(graph, error) &&
         device_event_record(t->events[1], error) && elapsed(t, us, error);
}

static bool replay_rounds(Timer *t, DeviceGraph *const *graphs, DeviceGraph *empty, unsigned first,
                          unsigned end, GError **error)
{
  double base = 0, us = 0;
  for (unsigned i = first; i < end; i++) /* once each for nothing */
    if (!replay(t, graphs[i], &us, error)) return false;
  for (unsigned round = 0; round < t->options->rounds; round++) {
    if (empty && !replay(t, empty, &base, error)) return false;
    for (unsigned i = first; i < end; i++) {
      if (!replay(t, graphs[i], &us, error)) return false;
      t->timings->of[i].rounds[round] = (us - base) / t->repeats;
    }
  }
  return true;
}

static bool time_by_graphs(Timer *t, GError **error)
{
  g_autofree DeviceGraph **graphs = g_new0(DeviceGraph *, t->n + 1);
  bool ok = true;
  t->timings->method = "graph";
  for (unsigned i = 0; ok && i < t->n; i++)
    ok = (graphs[i] = record(t, t->candidates[i], 1, t->repeats, error)) != NULL;
  /* Without a flush there is nothing to take off: a graph of nothing has no time worth the name. */
  DeviceGraph *empty = ok && t->mode == BENCH_COLD ? record(t, NULL, 1, t->repeats, error) : NULL;
  ok = ok && (empty || t->mode != BENCH_COLD) && replay_rounds(t, graphs, empty, 0, contenders(t), error) &&
       replay_rounds(t, graphs, empty, contenders(t), t->n, error);
  for (unsigned i = 0; i < t->n; i++)
    device_graph_free(graphs[i]);
  device_graph_free(empty);
  return ok;
}

/* ---- sustained: back to back for seconds ---- */

/* Queues the graph until the time is over, at most two ahead, so that the stream is never empty and ends
 * soon. */
static bool run_for(Timer *t, DeviceGraph *graph, double seconds, unsigned launches, double *us,
                    GError **error)
{
  gint64 end = g_get_monotonic_time() + (gint64)(seconds * 1e6);
  unsigned replays = 0;
  if (!device_event_record(t->events[0], error)) return false;
  do {
    for (unsigned i = 0; i < 2; i++, replays++)
      if (!device_graph_queue(graph, error)) return false;
    if (!device_event_record(t->events[1], error) || !device_wait(bench_gpu_device(t->gpu), error))
      return false;
  } while (g_get_monotonic_time() < end);
  if (!device_event_elapsed(t->events[0], t->events[1], us, error)) return false;
  *us /= (double)replays * launches;
  return true;
}

static bool time_sustained(Timer *t, GError **error)
{
  /* A graph of about 50 ms: the wait between two pairs of them is a thousandth. */
  unsigned launches = (unsigned)CLAMP(50e3 / t->slowest, 4, 4000);
  launches = (launches + t->n_sets - 1) / t->n_sets * t->n_sets;
  t->timings->method = "back to back";
  for (unsigned round = 0; round < t->options->rounds; round++)
    for (unsigned i = 0; i < t->n; i++) {
      BenchTiming *timing = &t->timings->of[i];
      g_autoptr(DeviceGraph) graph = record(t, t->candidates[i], t->n_sets, launches, error);
      double us = 0;
      if (!graph || !run_for(t, graph, t->options->seconds / 6, launches, &us, error))
        return false; /* to heat up */
      BenchSampler *sampler = bench_sampler_start(t->gpu);
      bool ok = run_for(t, graph, t->options->seconds, launches, &us, error);
      BenchClock clock = bench_sampler_stop(sampler);
      if (!ok) return false;
      timing->rounds[round] = us;
      timing->clock_mhz = clock.median_mhz;
      timing->clock_low_mhz = clock.low_mhz;
      timing->watts = clock.watts;
    }
  return true;
}

static bool time_burst(Timer *t, double fastest, GError **error)
{
  BenchSampler *sampler = bench_sampler_start(t->gpu);
  /* Beside milliseconds of memset the difference of two graphs would be noise. */
  bool graphs = t->mode == BENCH_WARM || (t->mode == BENCH_COLD && fastest < t->options->short_us);
  bool ok = graphs ? time_by_graphs(t, error) : time_by_events(t, error);
  BenchClock clock = bench_sampler_stop(sampler);
  for (unsigned i = 0; i < t->n; i++) {
    t->timings->of[i].clock_mhz = clock.median_mhz;
    t->timings->of[i].clock_low_mhz = clock.low_mhz;
    t->timings->of[i].watts = clock.watts;
  }
  return ok;
}

BenchTimings *bench_time(BenchGpu *gpu, BenchCandidate *const *candidates, unsigned n, unsigned n_sets,
                         BenchMode mode, const BenchTimingOptions *options, GError **error)
{
  Timer t = {
      .gpu = gpu, .candidates = candidates, .n = n, .n_sets = n_sets, .mode = mode, .options = options};
  double fastest = 0;
  t.timings = timings_new(n, options->rounds);
  bool ok = make_events(&t, error) && estimate(&t, &fastest, error);
  double round_us = options->round_us > 0 ? options->round_us : ROUND_TARGET_US;
  t.repeats = (unsigned)CLAMP(round_us / MAX(t.slowest, 1), LEAST_REPEATS, MOST_REPEATS);
  ok = ok && (mode == BENCH_SUSTAINED ? time_sustained(&t, error) : time_burst(&t, fastest, error));
  for (unsigned i = 0; i < G_N_ELEMENTS(t.events); i++)
    device_event_free(t.events[i]);
  if (ok) summarise(t.timings);
  if (!ok) g_clear_pointer(&t.timings, bench_timings_free);
  return t.timings;
}
