/* griddepcontrol: programmatic dependent launch. */
#include "simulator/exec.h"
#include "simulator/race.h"

/* Waits until the launches that this one may overlap with have ended; their results are visible then. */
static Step run_wait(Warp *w, const Inst *in, uint32_t mask)
{
  if (!launches_before_ended(w->block->cluster->run)) return wait_for(w, WAIT_LAUNCH, NULL, 0, 0, STEP_WAIT);
  race_launch_wait(w);
  return STEP_NEXT;
}

/* One thread speaks for its block; a block that ends without it speaks by its end. */
static Step run_trigger(Warp *w, const Inst *in, uint32_t mask)
{
  launch_triggered(w->block);
  return STEP_NEXT;
}

void decode_dependency(Decoder *d, int argument)
{
  bool wait = take(d, "wait");
  if (!wait && !take(d, "launch_dependents")) decode_wrong(d, ".wait or .launch_dependents is missing");
  d->in->flags |= INST_CUSTOM;
  d->in->run = wait ? run_wait : run_trigger;
}
