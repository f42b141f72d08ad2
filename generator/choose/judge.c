/* The judge of programs that fusion asks (generator/program/judge.h): families' matchers say what is taken, the
 * cost model what it takes. */
#include "generator/choose/choose.h"
#include "generator/choose/verdict.h"

typedef struct {
  const Graph *graph;
  const Gpu *gpu;
  const CompileOptions *options;
  DryRunFunction run; /* NULL: nobody runs passes */
  void *data;
} Target;

static void (*const judges[FAMILY_COUNT])(const Problem *problem, bool priced, ProgramVerdict *verdict) = {
#define FAMILY(name, ...) judge_##name,
#include "generator/program/families.def"
#undef FAMILY
};

static ProgramVerdict judge_program(const Program *program, bool priced, const Target *target)
{
  ProgramVerdict verdict = {.taken = true};
  const FusedOperator *fused = family_take(program, &verdict.why);
  if (!fused) return (ProgramVerdict){.why = verdict.why};
  Problem problem = problem_of(fused, target->graph, target->gpu, target->options, program->arena);
  g_autoptr(DryRuns) dry = target->run ? dry_runs_new(fused, target->graph, target->run, target->data) : NULL;
  problem.judged = dry;
  verdict = (ProgramVerdict){.taken = true, .name = fused->family->name};
  judges[fused->family->index](&problem, priced, &verdict);
  verdict.last = verdict.clocks;
  return verdict;
}

/* ProgramJudge */
static ProgramVerdict judge(const Program *const *programs, unsigned n, bool priced, void *data)
{
  const Target *target = data;
  double before = 0;
  bool known = true;
  ProgramVerdict verdict = {.taken = true};
  for (unsigned i = 0; i < n; i++) {
    before += verdict.clocks + (i ? target->gpu->model->next_kernel : 0);
    verdict = judge_program(programs[i], priced, target);
    if (!verdict.taken) return verdict;
    known &= verdict.priced;
  }
  verdict.priced = known;
  verdict.clocks += before;
  return verdict;
}

Fusion *choose_fusion(const Graph *graph, const Gpu *gpu, const CompileOptions *options, GError **error)
{
  return choose_fusion_dry(graph, gpu, options, NULL, NULL, error);
}

Fusion *choose_fusion_dry(const Graph *graph, const Gpu *gpu, const CompileOptions *options,
                          DryRunFunction run, void *data, GError **error)
{
  Target target = {graph, gpu, options, run, data};
  FusionOptions fusion_options = {.skip = options ? options->skip : NULL, .judge = judge, .data = &target};
  return fusion_build(graph, &fusion_options, error);
}
