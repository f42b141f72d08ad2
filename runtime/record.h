/* Events and graphs of the driver on a device's stream: what timing launches needs.
 *
 * A recorder belongs to the thread of its device, which outlives it; events and graphs do not outlive the recorder. */
#pragma once
#include "runtime/driver.h"

typedef struct DeviceRecorder DeviceRecorder;

/* ERROR_MISSING_TOOL "no-driver" if the driver lacks a function. */
DeviceRecorder *device_recorder_new(Device *device, GError **error);
void device_recorder_free(DeviceRecorder *recorder);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(DeviceRecorder, device_recorder_free)
Device *device_recorder_device(const DeviceRecorder *recorder);

typedef struct DeviceEvent DeviceEvent;
DeviceEvent *device_event_new(DeviceRecorder *recorder, GError **error);
void device_event_free(DeviceEvent *event);
bool device_event_record(DeviceEvent *event, GError **error);
/* As a node of the graph that is recorded: happens at each replay. */
bool device_event_record_node(DeviceEvent *event, GError **error);
/* Both must have happened (device_wait). */
bool device_event_elapsed(const DeviceEvent *from, const DeviceEvent *to, double *us, GError **error);

typedef struct DeviceGraph DeviceGraph;
/* Between begin and end everything that is queued is recorded and not run. */
bool device_graph_begin(DeviceRecorder *recorder, GError **error);
DeviceGraph *device_graph_end(DeviceRecorder *recorder, GError **error);
/* Ends a recording that went wrong. */
void device_graph_abandon(DeviceRecorder *recorder);
bool device_graph_queue(DeviceGraph *graph, GError **error);
void device_graph_free(DeviceGraph *graph);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(DeviceGraph, device_graph_free)
