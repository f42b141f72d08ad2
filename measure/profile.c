/* Where the time of a candidate of ours goes, launch by launch. */
#include "runtime/profile.h"
#include "measure/case_run.h"

static bool queue(const ExecutableObserver *observer, void *data, GError **error)
{
  BenchCandidate *candidate = data;
  return candidate->queue_observed(candidate, 0, observer, error);
}

static json_t *profile_json(const BenchCandidate *candidate, const LaunchTimes *times)
{
  json_t *launches = json_array(), *kernels = json_object_get(candidate->facts, "kernels");
  for (unsigned i = 0; i < times->n; i++) {
    json_t *kernel = json_array_get(kernels, i);
    json_array_append_new(launches, json_pack("{s:O, s:O, s:f}", "launch", json_object_get(kernel, "launch"),
                                              "kernel", json_object_get(kernel, "name"), "us", times->us[i]));
  }
  return json_pack("{s:f, s:o}", "us", times->whole, "launches", launches);
}

bool case_profile(CaseRun *run, GError **error)
{
  if (!run->session->profile || !run->n_ours) return true;
  BenchCandidate *candidate = run->candidates->pdata[0];
  LaunchTimes times;
  if (!profile_launches(bench_gpu_recorder(run->session->gpu), queue, candidate, &times, error)) return false;
  json_t *profile = profile_json(candidate, &times);
  g_free(times.us);
  json_object_set_new(run->json, "profile", profile);
  return !run->session->profiled || run->session->profiled(run->c, profile, run->session->data, error);
}
