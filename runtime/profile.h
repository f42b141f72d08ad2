/* How long each launch of a plan takes on the GPU.
 *
 * One graph has an event in front of each launch and one behind the last: what lies between two events is the launch, its start
 * and the event's own. A launch so never overlaps with the one before it, as it may without events, so all of them take longer
 * than the whole, which is timed without events beside them. */
#pragma once
#include "runtime/executable.h"
#include "runtime/record.h"

/* Queues all launches on the recorder's device, as executable_launch_observed() does. */
typedef bool (*ProfileQueue)(const ExecutableObserver *observer, void *data, GError **error);

typedef struct LaunchTimes {
  unsigned n;   /* launches that are not empty, each repetition of a loop by itself */
  double *us;   /* of each, in order: medians of several replays; g_free */
  double whole; /* us of one graph of them all */
} LaunchTimes;

/* Nothing else runs on the device meanwhile; the launches run many times over. false: `times` is empty. */
bool profile_launches(DeviceRecorder *recorder, ProfileQueue queue, void *data, LaunchTimes *times,
                      GError **error);
