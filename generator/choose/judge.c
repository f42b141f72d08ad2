/* The judge of programs that fusion asks (generator/program/judge.h): families' matchers say what is taken, the
 * cost model what it takes. */
#include "generator/choose/choose.h"
#include "generator/choose/gemm_space.h"
#include "generator/choose/verdict.h"
#include "generator/fusion/operator_key.h"

typedef struct {
  const Graph *graph;
  const Gpu *gpu;
  const CompileOptions *options;
  DryRunFunction run; /* NULL: nobody runs passes */
  void *data;
  Spaces *spaces;    /* of the families that were judged and try what their templates say */
  GError *fault;     /* of templates that cannot be read */
  GHashTable *known; /* ProgramVerdict *, by operator's key, like operators are judged once */
} Target;

static void verdict_free(void *memory)
{
  ProgramVerdict *verdict = memory;
  g_free((char *)verdict->why);
  g_free(verdict);
}

static void (*const judges[FAMILY_COUNT])(const Problem *problem, bool priced, ProgramVerdict *verdict) = {
#define FAMILY(name, ...) judge_##name,
#include "generator/program/families.def"
#undef FAMILY
};

static const SpaceKind *(*const kinds[FAMILY_COUNT])(void) = {
#define FAMILY(name, ...) space_kind_##name,
#include "generator/program/families.def"
#undef FAMILY
};

/* What is tried stands in the family's templates. */
static bool read_spaces(Target *target, const Family *family)
{
  const SpaceKind *kind = kinds[family->index]();
  return !kind || (!target->fault && spaces_add(target->spaces, family, kind, &target->fault));
}

Spaces *choose_spaces(GError **error)
{
  g_autoptr(Spaces) spaces = spaces_new();
  for (unsigned i = 0; i < FAMILY_COUNT; i++)
    if (!spaces_add(spaces, family_at(i), kinds[i](), error)) return NULL;
  return g_steal_pointer(&spaces);
}

static ProgramVerdict judge_operator(const FusedOperator *fused, bool priced, const Target *target,
                                     Arena *arena)
{
  Problem problem = problem_of(fused, target->graph, target->gpu, target->options, arena);
  problem.spaces = target->spaces;
  g_autoptr(DryRuns) dry = target->run ? dry_runs_new(fused, target->graph, target->run, target->data) : NULL;
  problem.judged = dry;
  ProgramVerdict verdict = {.taken = true, .name = fused->family->name};
  judges[fused->family->index](&problem, priced, &verdict);
  verdict.last = verdict.clocks;
  return verdict;
}

static ProgramVerdict judge_program(const Program *program, bool priced, Target *target)
{
  const char *why = NULL;
  const FusedOperator *fused = family_take(program, &why);
  if (!fused) return (ProgramVerdict){.why = why};
  if (!read_spaces(target, fused->family))
    return (ProgramVerdict){.why = "the family's templates cannot be read"};
  g_autoptr(OperatorKey) key = operator_key(fused, target->graph);
  g_autofree char *text = g_strdup_printf("%d %s", priced, key->text);
  const ProgramVerdict *known = g_hash_table_lookup(target->known, text);
  if (!known) {
    ProgramVerdict *kept = g_new(ProgramVerdict, 1);
    *kept = judge_operator(fused, priced, target, program->arena);
    kept->why = g_strdup(kept->why);
    g_hash_table_insert(target->known, g_steal_pointer(&text), kept);
    known = kept;
  }
  ProgramVerdict verdict = *known;
  verdict.why = known->why ? arena_strdup(program->arena, known->why) : NULL;
  return verdict;
}

/* ProgramJudge */
static ProgramVerdict judge(const Program *const *programs, unsigned n, bool priced, void *data)
{
  Target *target = data;
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

Fusion *choose_fusion(const Graph *graph, const Gpu *gpu, const CompileOptions *options, Spaces **spaces,
                      GError **error)
{
  return choose_fusion_dry(graph, gpu, options, NULL, NULL, spaces, error);
}

Fusion *choose_fusion_dry(const Graph *graph, const Gpu *gpu, const CompileOptions *options,
                          DryRunFunction run, void *data, Spaces **spaces, GError **error)
{
  g_autoptr(GHashTable) known = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, verdict_free);
  Target target = {graph, gpu, options, run, data, spaces_new(), NULL, known};
  FusionOptions fusion_options = {.skip = options ? options->skip : NULL, .judge = judge, .data = &target};
  if (options) fusion_options.report = options->report_rewrite;
  if (options) fusion_options.report_data = options->data;
  Fusion *fusion = fusion_build(graph, &fusion_options, error);
  for (unsigned i = 0; fusion && i < fusion->n && spaces; i++)
    read_spaces(&target, fusion->operators[i]->family);
  if (target.fault) {
    fusion_free(fusion);
    g_clear_error(error);
    g_propagate_error(error, target.fault);
    fusion = NULL;
  }
  if (spaces)
    *spaces = target.spaces;
  else
    spaces_free(target.spaces);
  return fusion;
}
