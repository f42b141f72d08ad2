/* What fusion asks the judge of programs (generator/program/judge.h). */
#include "generator/fusion/private.h"

ProgramVerdict fuser_judge_all(const Fuser *fuser, const Program *const *programs, unsigned n, bool priced)
{
  const FusionOptions *options = fuser->options;
  return options && options->judge ? options->judge(programs, n, priced, options->data)
                                   : program_judge_families(programs, n, priced, NULL);
}

ProgramVerdict fuser_judge(Fuser *fuser, const Group *group, const GraphTensor *result, bool priced)
{
  const Program *program = fuser_group_program(fuser, group, result, NULL);
  return fuser_judge_all(fuser, &program, 1, priced);
}

bool fuser_takes_reduction(Fuser *fuser, const Group *group, GPtrArray *before, GraphNode *parts,
                           const char *what)
{
  Group trial = *group;
  trial.nodes = g_ptr_array_copy(group->nodes, NULL, NULL);
  g_ptr_array_extend(trial.nodes, before, NULL, NULL);
  fuser_sort(trial.nodes);
  g_ptr_array_add(trial.nodes, parts);
  ProgramVerdict verdict = fuser_judge(fuser, &trial, parts->outputs[0], false);
  g_ptr_array_unref(trial.nodes);
  if (!verdict.taken) fuser_note(fuser, "%s has a kernel of its own: %s", what, verdict.why);
  return verdict.taken;
}

const Program *fuser_program(Fuser *fuser, GraphNode *node, const GraphTensor *result)
{
  g_autoptr(GPtrArray) nodes = g_ptr_array_new();
  g_ptr_array_add(nodes, node);
  Group group = {.nodes = nodes};
  return fuser_group_program(fuser, &group, result, NULL);
}
