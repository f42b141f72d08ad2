/* Events and graphs of the driver. */
#include "measure/gpu_private.h"

enum { CAPTURE_RELAXED = 2, EVENT_EXTERNAL = 1 };

struct BenchEvent {
  BenchGpu *gpu;
  void *handle;
};

struct BenchGraph {
  BenchGpu *gpu;
  void *graph, *exec;
};

BenchEvent *bench_event_new(BenchGpu *gpu, GError **error)
{
  void *handle = NULL;
  if (!bench_driver_check(gpu, gpu->driver.event_create(&handle, 0), "cannot make an event", error))
    return NULL;
  BenchEvent *event = g_new0(BenchEvent, 1);
  event->gpu = gpu;
  event->handle = handle;
  return event;
}

void bench_event_free(BenchEvent *event)
{
  if (!event) return;
  event->gpu->driver.event_destroy(event->handle);
  g_free(event);
}

bool bench_event_record(BenchEvent *event, GError **error)
{
  int status = event->gpu->driver.event_record(event->handle, device_stream(event->gpu->device));
  return bench_driver_check(event->gpu, status, "cannot record an event", error);
}

bool bench_event_record_node(BenchEvent *event, GError **error)
{
  int status =
      event->gpu->driver.event_record_as(event->handle, device_stream(event->gpu->device), EVENT_EXTERNAL);
  return bench_driver_check(event->gpu, status, "cannot record an event in a graph", error);
}

bool bench_event_elapsed(const BenchEvent *from, const BenchEvent *to, double *us, GError **error)
{
  float ms = 0;
  int status = from->gpu->driver.event_elapsed(&ms, from->handle, to->handle);
  *us = (double)ms * 1e3;
  return bench_driver_check(from->gpu, status, "cannot read an event", error);
}

bool bench_graph_begin(BenchGpu *gpu, GError **error)
{
  int status = gpu->driver.capture_begin(device_stream(gpu->device), CAPTURE_RELAXED);
  return bench_driver_check(gpu, status, "cannot record a graph", error);
}

BenchGraph *bench_graph_end(BenchGpu *gpu, GError **error)
{
  g_autoptr(BenchGraph) graph = g_new0(BenchGraph, 1);
  graph->gpu = gpu;
  void *stream = device_stream(gpu->device);
  if (!bench_driver_check(gpu, gpu->driver.capture_end(stream, &graph->graph), "cannot record a graph",
                          error) ||
      !bench_driver_check(gpu, gpu->driver.graph_instantiate(&graph->exec, graph->graph, 0),
                          "cannot make a graph", error) ||
      !bench_driver_check(gpu, gpu->driver.graph_upload(graph->exec, stream), "cannot upload a graph", error))
    return NULL;
  return g_steal_pointer(&graph);
}

void bench_graph_abandon(BenchGpu *gpu)
{
  void *graph = NULL;
  gpu->driver.capture_end(device_stream(gpu->device), &graph);
  if (graph) gpu->driver.graph_destroy(graph);
}

bool bench_graph_queue(BenchGraph *graph, GError **error)
{
  int status = graph->gpu->driver.graph_launch(graph->exec, device_stream(graph->gpu->device));
  return bench_driver_check(graph->gpu, status, "cannot launch a graph", error);
}

void bench_graph_free(BenchGraph *graph)
{
  if (!graph) return;
  if (graph->exec) graph->gpu->driver.graph_exec_destroy(graph->exec);
  if (graph->graph) graph->gpu->driver.graph_destroy(graph->graph);
  g_free(graph);
}
