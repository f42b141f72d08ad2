/* Where the time of a candidate of ours goes, launch by launch.
 *
 * One graph has an event in front of each launch and one behind the last: what lies between two events is the launch, its start
 * and the event's own. A launch so never overlaps with the one before it, as it may without events, so all of them take longer
 * than the whole, which is timed without events beside them. */
#include "measure/case_run.h"
#include <math.h>

#define ROUNDS  15 /* replays, of whose times each launch gets the median */
#define WARM_UP 3

typedef struct Profile {
  BenchGpu *gpu;
  BenchCandidate *candidate;
  BenchEvent **events;
  unsigned n; /* launches */
  unsigned at;
  double *us; /* [launch * ROUNDS + round] */
} Profile;

static bool mark(unsigned launch, void *data, GError **error)
{
  Profile *p = data;
  g_assert(p->at < p->n);
  return bench_event_record_node(p->events[p->at++], error);
}

static BenchGraph *record(Profile *p, const ExecutableObserver *observer, GError **error)
{
  if (!bench_graph_begin(p->gpu, error)) return NULL;
  bool ok = p->candidate->queue_observed(p->candidate, 0, observer, error) &&
            (!observer || bench_event_record_node(p->events[p->n], error));
  if (ok) return bench_graph_end(p->gpu, error);
  bench_graph_abandon(p->gpu);
  return NULL;
}

static bool time_launches(Profile *p, GError **error)
{
  const ExecutableObserver observer = {mark, p};
  g_autoptr(BenchGraph) graph = record(p, &observer, error);
  bool ok = graph != NULL;
  for (unsigned i = 0; ok && i < WARM_UP + ROUNDS; i++) {
    ok = bench_graph_queue(graph, error) && device_wait(bench_gpu_device(p->gpu), error);
    for (unsigned j = 0; ok && i >= WARM_UP && j < p->n; j++)
      ok = bench_event_elapsed(p->events[j], p->events[j + 1], &p->us[j * ROUNDS + i - WARM_UP], error);
  }
  return ok;
}

static bool time_whole(Profile *p, double *us, GError **error)
{
  double rounds[ROUNDS];
  g_autoptr(BenchGraph) graph = record(p, NULL, error);
  bool ok = graph != NULL;
  for (unsigned i = 0; ok && i < WARM_UP + ROUNDS; i++)
    ok = bench_event_record(p->events[0], error) && bench_graph_queue(graph, error) &&
         bench_event_record(p->events[1], error) && device_wait(bench_gpu_device(p->gpu), error) &&
         bench_event_elapsed(p->events[0], p->events[1], &rounds[i < WARM_UP ? 0 : i - WARM_UP], error);
  *us = ok ? bench_median(rounds, ROUNDS) : NAN;
  return ok;
}

static json_t *profile_json(const Profile *p, double whole)
{
  json_t *launches = json_array(), *kernels = json_object_get(p->candidate->facts, "kernels");
  for (unsigned i = 0; i < p->n; i++) {
    json_t *kernel = json_array_get(kernels, i);
    json_array_append_new(launches, json_pack("{s:O, s:O, s:f}", "launch", json_object_get(kernel, "launch"),
                                              "kernel", json_object_get(kernel, "name"), "us",
                                              bench_median(&p->us[i * ROUNDS], ROUNDS)));
  }
  return json_pack("{s:f, s:o}", "us", whole, "launches", launches);
}

bool case_profile(CaseRun *run, GError **error)
{
  if (!run->session->profile || !run->n_ours) return true;
  Profile p = {.gpu = run->session->gpu, .candidate = run->candidates->pdata[0]};
  p.n = (unsigned)json_array_size(json_object_get(p.candidate->facts, "kernels"));
  p.events = g_new0(BenchEvent *, MAX(p.n + 1, 2));
  p.us = g_new0(double, (size_t)p.n *ROUNDS + 1);
  bool ok = true;
  for (unsigned i = 0; ok && i < MAX(p.n + 1, 2); i++)
    ok = (p.events[i] = bench_event_new(p.gpu, error)) != NULL;
  double whole = 0;
  ok = ok && time_whole(&p, &whole, error) && time_launches(&p, error);
  if (ok) {
    json_t *profile = profile_json(&p, whole);
    json_object_set_new(run->json, "profile", profile);
    ok = !run->session->profiled || run->session->profiled(run->c, profile, run->session->data, error);
  }
  for (unsigned i = 0; i < MAX(p.n + 1, 2); i++)
    bench_event_free(p.events[i]);
  g_free(p.events);
  g_free(p.us);
  return ok;
}
