#include "generator/program/family.h"
#include "generator/program/judge.h"
#include "generator/program/times.h"
#include <string.h>

#define FAMILY(name, ...)                                                                                    \
  FamilyMatch match_##name(const Program *program, FusedOperator *fused, const char **why);                  \
  void visit_##name(const FusedOperator *op, const BindingVisitor *visitor);                                 \
  void describe_##name(const FusedOperator *op, GString *text);                                              \
  unsigned types_##name(const FusedOperator *op, NumberType *types);                                         \
  unsigned extents_##name(const FusedOperator *op, FamilyExtent *extents);                                   \
  const FusedOperator *turned_##name(Arena *arena, const FusedOperator *op);
#include "generator/program/families.def"
#undef FAMILY

bool divide_row(const Program *program, unsigned way, ProgramDivision *division);
bool divide_gradient(const Program *program, unsigned way, ProgramDivision *division);

static const Family families[FAMILY_COUNT] = {
/* clang-format off */
#define FAMILY(name, ranges, divide, in_times, computes, templates)                                          \
  {FAMILY_NUMBER_##name, #name,        computes,        templates,    ranges,         divide, in_times,      \
   match_##name,         visit_##name, describe_##name, types_##name, extents_##name, turned_##name},
/* clang-format on */
#include "generator/program/families.def"
#undef FAMILY
};

const Family *family_at(unsigned index)
{
  return &families[index];
}

bool family_has_template(const Family *family, const char *name)
{
  size_t length = strlen(name);
  for (const char *at = family->templates; (at = strstr(at, name)); at += length)
    if ((at == family->templates || at[-1] == ' ') && (at[length] == ' ' || !at[length])) return true;
  return false;
}

/* `reasons`: of all families that do not take it; *nearest: of the last that nearly does, or NULL. */
static FusedOperator *match_families(const Program *program, GString *reasons, const char **nearest)
{
  *nearest = NULL;
  for (unsigned i = 0; i < FAMILY_COUNT; i++) {
    FusedOperator *fused = arena_new_object(program->arena, FusedOperator);
    const char *why = NULL;
    fused->program = program;
    fused->family = &families[i];
    FamilyMatch match = families[i].match(program, fused, &why);
    if (match == MATCH_TAKEN) return fused;
    if (match == MATCH_NEARLY) *nearest = why;
    if (why) g_string_append_printf(reasons, "%s%s: %s", reasons->len ? "; " : "", families[i].name, why);
  }
  return NULL;
}

FusedOperator *family_match(const Program *program, GError **error)
{
  g_autoptr(GString) reasons = g_string_new(NULL);
  const char *nearest;
  FusedOperator *fused = match_families(program, reasons, &nearest);
  if (fused) return fused;
  const ProgramNode *place;
  const char *what = program_describe(program, &place);
  error_set(error, ERROR_UNSUPPORTED, place ? &place->mark : NULL, "no-family", reasons->str,
            "no family matches %s", what);
  return NULL;
}

FusedOperator *family_take(const Program *program, const char **why)
{
  g_autoptr(GString) reasons = g_string_new(NULL);
  FusedOperator *fused = match_families(program, reasons, why);
  if (!fused && !*why) *why = arena_strdup(program->arena, reasons->str);
  return fused;
}

ProgramVerdict program_judge_families(const Program *const *programs, unsigned n, bool priced, void *data)
{
  ProgramVerdict verdict = {.taken = true};
  for (unsigned i = 0; i < n && verdict.taken; i++) {
    const FusedOperator *fused = family_take(programs[i], &verdict.why);
    verdict.taken = fused != NULL;
    verdict.name = fused ? fused->family->name : NULL;
  }
  if (verdict.taken) verdict.why = NULL;
  return verdict;
}
