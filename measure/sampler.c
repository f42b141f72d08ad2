/* SM clock and power while something runs, from NVIDIA's management library, opened when there is one. */
#include "base/quantile.h"
#include "measure/bench.h"
#include "measure/gpu_private.h"
#include <dlfcn.h>

enum { CLOCK_SM = 1 };
#define INTERVAL_US 5000
#define MAX_SAMPLES 4096

typedef struct Management {
  int (*initialize)(void);
  int (*device)(const char *bus_id, void **device);
  int (*clock)(void *device, int kind, unsigned *mhz);
  int (*power)(void *device, unsigned *milliwatts);
} Management;

struct BenchSampler {
  Management library;
  void *device;
  GThread *thread;
  gint stop;
  unsigned n;
  double mhz[MAX_SAMPLES], watts;
};

static bool open_library(BenchSampler *sampler, const BenchGpu *gpu)
{
  static const char *const names[] = {"libnvidia-ml.so.1", "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
                                      "/usr/lib/wsl/lib/libnvidia-ml.so.1"};
  void *library = NULL;
  for (unsigned i = 0; !library && i < G_N_ELEMENTS(names); i++)
    library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  if (!library) return false;
  Management *m = &sampler->library;
  *(void **)&m->initialize = dlsym(library, "nvmlInit_v2");
  *(void **)&m->device = dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2");
  *(void **)&m->clock = dlsym(library, "nvmlDeviceGetClockInfo");
  *(void **)&m->power = dlsym(library, "nvmlDeviceGetPowerUsage");
  return m->initialize && m->device && m->clock && m->power && !m->initialize() &&
         !m->device(gpu->bus_id, &sampler->device);
}

static gpointer sample(gpointer data)
{
  BenchSampler *sampler = data;
  while (!g_atomic_int_get(&sampler->stop)) {
    unsigned mhz = 0, milliwatts = 0;
    if (sampler->n < MAX_SAMPLES && !sampler->library.clock(sampler->device, CLOCK_SM, &mhz))
      sampler->mhz[sampler->n++] = mhz;
    if (!sampler->library.power(sampler->device, &milliwatts))
      sampler->watts = MAX(sampler->watts, (double)milliwatts / 1e3);
    g_usleep(INTERVAL_US);
  }
  return NULL;
}

BenchSampler *bench_sampler_start(BenchGpu *gpu)
{
  BenchSampler *sampler = g_new0(BenchSampler, 1);
  if (!open_library(sampler, gpu)) {
    g_free(sampler);
    return NULL;
  }
  sampler->thread = g_thread_new("clock", sample, sampler);
  return sampler;
}

BenchClock bench_sampler_stop(BenchSampler *sampler)
{
  BenchClock clock = {NAN, NAN, NAN};
  if (!sampler) return clock;
  g_atomic_int_set(&sampler->stop, 1);
  g_thread_join(sampler->thread);
  if (sampler->n) {
    clock.median_mhz = median(sampler->mhz, sampler->n);
    clock.low_mhz = sampler->mhz[0];
    for (unsigned i = 1; i < sampler->n; i++)
      clock.low_mhz = MIN(clock.low_mhz, sampler->mhz[i]);
  }
  if (sampler->watts > 0) clock.watts = sampler->watts;
  g_free(sampler);
  return clock;
}
