/* Rewrite divide_programs: a kernel becomes several where its family has a way to and all of them together, launches
 * included, take less. What they hand each other is memory of theirs alone. */
#include "generator/fusion/private.h"
#include "generator/program/family.h"

typedef struct {
  ProgramDivision division;
  double clocks;
} Best;

/* Of two that take as long the later way, which has fewer parts. */
static void try_way(Fuser *fuser, const ProgramDivision *division, Best *best)
{
  ProgramVerdict verdict =
      fuser_judge_all(fuser, (const Program *const *)division->programs, division->n_programs, true);
  if (!verdict.taken || !verdict.priced || verdict.clocks > best->clocks) return;
  best->division = *division;
  best->clocks = verdict.clocks;
}

/* The cheapest way, if one is cheaper than the whole: group->division. */
static void divide_program(Fuser *fuser, Group *group)
{
  const Program *whole = fuser_group_program(fuser, group, NULL, NULL);
  const char *why;
  const FusedOperator *fused = family_take(whole, &why);
  ProgramDivision division;
  if (!fused || !fused->family->divide || !fused->family->divide(whole, 0, &division)) return;
  ProgramVerdict verdict = fuser_judge_all(fuser, &whole, 1, true);
  if (!verdict.taken || !verdict.priced || verdict.even) return;
  Best best = {.clocks = verdict.clocks};
  for (unsigned way = 0; fused->family->divide(whole, way, &division); way++)
    if (division.n_programs) try_way(fuser, &division, &best);
  if (!best.division.n_programs) return;
  group->division = arena_memdup(fuser->arena, &best.division, sizeof best.division);
  fuser_note(fuser, "%s of `%s` %s: %u kernels of about %.0f clocks together, one takes %.0f",
             group->anchor->op->name, group->anchor->inputs[0]->name, best.division.how,
             best.division.n_programs, best.clocks, verdict.clocks);
}

/* Names and numbers of its own for what the kernels hand each other. */
static void add_workspace(Fuser *fuser, const Group *group)
{
  for (unsigned i = 0; i < group->division->n_workspace; i++) {
    GraphTensor *tensor = group->division->workspace[i];
    tensor->index = fuser->tensors->len;
    tensor->name =
        arena_printf(fuser->arena, "%s.%s%u", group->anchor->inputs[0]->name, tensor->name, tensor->index);
    g_ptr_array_add(fuser->tensors, tensor);
  }
}

void fusion_divide_programs(Fuser *fuser)
{
  for (unsigned i = 0; i < fuser->groups->len; i++) {
    Group *group = fuser->groups->pdata[i];
    if (!group->absorbed && group->anchor) divide_program(fuser, group);
  }
  fuser_unindex(fuser); /* tensors join */
  for (unsigned i = 0; i < fuser->groups->len; i++) {
    const Group *group = fuser->groups->pdata[i];
    if (!group->absorbed && group->division) add_workspace(fuser, group);
  }
  fuser_index(fuser);
}
