/* Rewrite walk_times: the body of a loop that is one kernel need not be launched again for each time: a kernel that walks all of them does the loop, if
 * its family has such (generator/choose/gemm_times.c says which have). What each time reads of the one before then passes from block to block within
 * the launch. */
#include "generator/fusion/private.h"

void fusion_walk_times(Fuser *fuser)
{
  unsigned kernels = 0;
  for (unsigned i = 0; i < fuser->groups->len; i++)
    kernels += !((const Group *)fuser->groups->pdata[i])->absorbed;
  fuser->walks = fuser->graph->times && kernels == 1;
  if (fuser->walks)
    fuser_note(
        fuser,
        "the loop's body is one kernel: where its family has one that walks all times, that does the loop");
}
