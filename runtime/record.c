#include "runtime/record.h"

enum { CAPTURE_RELAXED = 2, EVENT_EXTERNAL = 1 };

/* Functions of the driver beside those that every run needs. X(field, symbol, parameters) */
#define RECORDER_FUNCTIONS(X)                                                                                \
  X(event_create, "cuEventCreate", (void **event, unsigned flags))                                           \
  X(event_destroy, "cuEventDestroy_v2", (void *event))                                                       \
  X(event_record, "cuEventRecord", (void *event, void *stream))                                              \
  X(event_record_as, "cuEventRecordWithFlags", (void *event, void *stream, unsigned flags))                  \
  X(event_elapsed, "cuEventElapsedTime", (float *ms, void *from, void *to))                                  \
  X(capture_begin, "cuStreamBeginCapture_v2", (void *stream, int mode))                                      \
  X(capture_end, "cuStreamEndCapture", (void *stream, void **graph))                                         \
  X(graph_instantiate, "cuGraphInstantiateWithFlags", (void **exec, void *graph, unsigned long long flags))  \
  X(graph_launch, "cuGraphLaunch", (void *exec, void *stream))                                               \
  X(graph_upload, "cuGraphUpload", (void *exec, void *stream))                                               \
  X(graph_exec_destroy, "cuGraphExecDestroy", (void *exec))                                                  \
  X(graph_destroy, "cuGraphDestroy", (void *graph))

struct DeviceRecorder {
  Device *device;
#define X(field, symbol, parameters) int(*field) parameters;
  RECORDER_FUNCTIONS(X)
#undef X
};

struct DeviceEvent {
  DeviceRecorder *recorder;
  void *handle;
};

struct DeviceGraph {
  DeviceRecorder *recorder;
  void *graph, *exec;
};

DeviceRecorder *device_recorder_new(Device *device, GError **error)
{
  g_autoptr(DeviceRecorder) recorder = g_new0(DeviceRecorder, 1);
  recorder->device = device;
  const char *missing = NULL;
#define X(field, symbol, parameters)                                                                         \
  *(void **)&recorder->field = device_symbol(device, symbol);                                                \
  if (!recorder->field) missing = symbol;
  RECORDER_FUNCTIONS(X)
#undef X
  if (!missing) return g_steal_pointer(&recorder);
  error_set(error, ERROR_MISSING_TOOL, NULL, "no-driver", "a driver of CUDA 12 or newer is needed",
            "the CUDA driver has no %s", missing);
  return NULL;
}

void device_recorder_free(DeviceRecorder *recorder)
{
  g_free(recorder);
}

static bool check(const DeviceRecorder *recorder, int status, const char *what, GError **error)
{
  return device_check(recorder->device, status, what, error);
}

Device *device_recorder_device(const DeviceRecorder *recorder)
{
  return recorder->device;
}

DeviceEvent *device_event_new(DeviceRecorder *recorder, GError **error)
{
  void *handle = NULL;
  if (!check(recorder, recorder->event_create(&handle, 0), "cannot make an event", error)) return NULL;
  DeviceEvent *event = g_new0(DeviceEvent, 1);
  event->recorder = recorder;
  event->handle = handle;
  return event;
}

void device_event_free(DeviceEvent *event)
{
  if (!event) return;
  event->recorder->event_destroy(event->handle);
  g_free(event);
}

bool device_event_record(DeviceEvent *event, GError **error)
{
  int status = event->recorder->event_record(event->handle, device_stream(event->recorder->device));
  return check(event->recorder, status, "cannot record an event", error);
}

bool device_event_record_node(DeviceEvent *event, GError **error)
{
  int status =
      event->recorder->event_record_as(event->handle, device_stream(event->recorder->device), EVENT_EXTERNAL);
  return check(event->recorder, status, "cannot record an event in a graph", error);
}

bool device_event_elapsed(const DeviceEvent *from, const DeviceEvent *to, double *us, GError **error)
{
  float ms = 0;
  int status = from->recorder->event_elapsed(&ms, from->handle, to->handle);
  *us = (double)ms * 1e3;
  return check(from->recorder, status, "cannot read an event", error);
}

bool device_graph_begin(DeviceRecorder *recorder, GError **error)
{
  int status = recorder->capture_begin(device_stream(recorder->device), CAPTURE_RELAXED);
  return check(recorder, status, "cannot record a graph", error);
}

DeviceGraph *device_graph_end(DeviceRecorder *recorder, GError **error)
{
  g_autoptr(DeviceGraph) graph = g_new0(DeviceGraph, 1);
  graph->recorder = recorder;
  void *stream = device_stream(recorder->device);
  if (!check(recorder, recorder->capture_end(stream, &graph->graph), "cannot record a graph", error) ||
      !check(recorder, recorder->graph_instantiate(&graph->exec, graph->graph, 0), "cannot make a graph",
             error) ||
      !check(recorder, recorder->graph_upload(graph->exec, stream), "cannot upload a graph", error))
    return NULL;
  return g_steal_pointer(&graph);
}

void device_graph_abandon(DeviceRecorder *recorder)
{
  void *graph = NULL;
  recorder->capture_end(device_stream(recorder->device), &graph);
  if (graph) recorder->graph_destroy(graph);
}

bool device_graph_queue(DeviceGraph *graph, GError **error)
{
  int status = graph->recorder->graph_launch(graph->exec, device_stream(graph->recorder->device));
  return check(graph->recorder, status, "cannot launch a graph", error);
}

void device_graph_free(DeviceGraph *graph)
{
  if (!graph) return;
  if (graph->exec) graph->recorder->graph_exec_destroy(graph->exec);
  if (graph->graph) graph->recorder->graph_destroy(graph->graph);
  g_free(graph);
}
