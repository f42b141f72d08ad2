#include "runtime/profile.h"
#include "base/quantile.h"
#include <string.h>

#define ROUNDS  15 /* replays, of whose times each launch gets the median */
#define WARM_UP 3

typedef struct Profile {
  DeviceRecorder *recorder;
  ProfileQueue queue;
  void *data;
  DeviceEvent **events;
  unsigned n; /* launches */
  unsigned at;
  double *us; /* [launch * ROUNDS + round] */
} Profile;

static bool count(unsigned launch, void *data, GError **error)
{
  (void)launch;
  (void)error;
  ((Profile *)data)->n++;
  return true;
}

static bool mark(unsigned launch, void *data, GError **error)
{
  Profile *p = data;
  (void)launch;
  g_assert(p->at < p->n);
  return device_event_record_node(p->events[p->at++], error);
}

static DeviceGraph *record(Profile *p, const ExecutableObserver *observer, GError **error)
{
  if (!device_graph_begin(p->recorder, error)) return NULL;
  bool ok =
      p->queue(observer, p->data, error) && (!observer || device_event_record_node(p->events[p->n], error));
  if (ok) return device_graph_end(p->recorder, error);
  device_graph_abandon(p->recorder);
  return NULL;
}

static bool wait(const Profile *p, GError **error)
{
  return device_wait(device_recorder_device(p->recorder), error);
}

static bool time_launches(Profile *p, GError **error)
{
  const ExecutableObserver observer = {mark, p};
  g_autoptr(DeviceGraph) graph = record(p, &observer, error);
  bool ok = graph != NULL;
  for (unsigned i = 0; ok && i < WARM_UP + ROUNDS; i++) {
    ok = device_graph_queue(graph, error) && wait(p, error);
    for (unsigned j = 0; ok && i >= WARM_UP && j < p->n; j++)
      ok = device_event_elapsed(p->events[j], p->events[j + 1], &p->us[j * ROUNDS + i - WARM_UP], error);
  }
  return ok;
}

static bool time_whole(Profile *p, double *us, GError **error)
{
  double rounds[ROUNDS] = {0};
  g_autoptr(DeviceGraph) graph = record(p, NULL, error);
  bool ok = graph != NULL;
  for (unsigned i = 0; ok && i < WARM_UP + ROUNDS; i++)
    ok = device_event_record(p->events[0], error) && device_graph_queue(graph, error) &&
         device_event_record(p->events[1], error) && wait(p, error) &&
         device_event_elapsed(p->events[0], p->events[1], &rounds[i < WARM_UP ? 0 : i - WARM_UP], error);
  *us = median(rounds, ROUNDS);
  return ok;
}

bool profile_launches(DeviceRecorder *recorder, ProfileQueue queue, void *data, LaunchTimes *times,
                      GError **error)
{
  Profile p = {.recorder = recorder, .queue = queue, .data = data};
  *times = (LaunchTimes){0};
  /* Also makes what the first launch of each kernel makes, which a recording may not. */
  bool ok = queue(&(ExecutableObserver){count, &p}, data, error) && wait(&p, error);
  unsigned n_events = MAX(p.n + 1, 2);
  p.events = g_new0(DeviceEvent *, n_events);
  p.us = g_new0(double, (size_t)p.n *ROUNDS + 1);
  for (unsigned i = 0; ok && i < n_events; i++)
    ok = (p.events[i] = device_event_new(recorder, error)) != NULL;
  ok = ok && time_whole(&p, &times->whole, error) && time_launches(&p, error);
  if (ok) {
    times->n = p.n;
    times->us = g_new(double, p.n + 1);
    for (unsigned i = 0; i < p.n; i++)
      times->us[i] = median(&p.us[(size_t)i * ROUNDS], ROUNDS);
  }
  for (unsigned i = 0; i < n_events; i++)
    device_event_free(p.events[i]);
  g_free(p.events);
  g_free(p.us);
  return ok;
}
