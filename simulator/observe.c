#include "simulator/observe.h"

static Step run_observed(Warp *w, const Inst *in, uint32_t mask)
{
  Run *run = w->block->cluster->run;
  const Observed *o = &run->observed[in - run->kernel->code];
  /* An instruction that waited runs again: it was seen the first time. */
  if (!current_group(w)->resumed && run->schedule == 0) {
    if (o->access) counts_see(o->access, w, in, mask);
    if (o->stops) stops_see(run->watched, o->which, w, in, mask);
  }
  return o->run(w, in, mask);
}

static Observed *observe(Run *run, Kernel *kernel, uint32_t i)
{
  Inst *in = &kernel->code[i];
  if (!run->observed) run->observed = g_new0(Observed, kernel->n_code);
  Observed *o = &run->observed[i];
  if (!o->run) {
    o->run = in->run;
    in->run = run_observed;
  }
  return o;
}

static bool begin_stops(Run *run, Kernel *kernel, GError **error)
{
  run->watched = stops_new(run, kernel, error);
  for (uint32_t i = 0; run->watched && i < kernel->n_code; i++) {
    int which = stops_find(run->watched, &kernel->code[i]);
    if (which < 0) continue;
    Observed *o = observe(run, kernel, i);
    o->stops = true;
    o->which = (unsigned)which;
  }
  return run->watched != NULL;
}

bool observe_begin(Run *run, Kernel *kernel, const Gpu *gpu, GError **error)
{
  run->gpu = gpu;
  for (uint32_t i = 0; run->options->counts && i < kernel->n_code; i++)
    if (counts_apply(&kernel->code[i])) observe(run, kernel, i)->access = g_new0(AccessCount, 1);
  return !run->options->breaks || !*run->options->breaks || begin_stops(run, kernel, error);
}

void observe_end(Run *run)
{
  if (run->observed) counts_result(run, run->session->result);
  if (run->watched) stops_result(run->watched, run->session->result);
  for (uint32_t i = 0; run->observed && i < run->kernel->n_code; i++)
    g_free(run->observed[i].access);
  g_clear_pointer(&run->observed, g_free);
  g_clear_pointer(&run->watched, stops_free);
}
