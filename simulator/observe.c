#include "simulator/observe.h"

static Step run_observed(Warp *w, const Inst *in, uint32_t mask)
{
  Run *run = w->block->cluster->run;
  const Observed *o = &run->observed[in - run->kernel->code];
  /* An instruction that waited runs again: it was seen the first time. */
  if (!current_group(w)->resumed && o->access && run->schedule == 0) counts_see(o->access, w, in, mask);
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

void observe_begin(Run *run, Kernel *kernel, const Gpu *gpu)
{
  run->gpu = gpu;
  if (!run->options->counts) return;
  for (uint32_t i = 0; i < kernel->n_code; i++)
    if (counts_apply(&kernel->code[i])) observe(run, kernel, i)->access = g_new0(AccessCount, 1);
}

void observe_end(Run *run)
{
  if (!run->observed) return;
  counts_result(run, run->session->result);
  for (uint32_t i = 0; i < run->kernel->n_code; i++)
    g_free(run->observed[i].access);
  g_clear_pointer(&run->observed, g_free);
}
