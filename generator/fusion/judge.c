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

const Program *fuser_program(Fuser *fuser, GraphNode *node, const GraphTensor *result)
{
  g_autoptr(GPtrArray) nodes = g_ptr_array_new();
  g_ptr_array_add(nodes, node);
  Group group = {.nodes = nodes};
  return fuser_group_program(fuser, &group, result, NULL);
}
