#include "generator/program/family.h"
#include <string.h>

#define FAMILY(kind, name, ...)                                                                              \
  bool match_##name(const Program *program, FusedOperator *fused, const char **why);
#include "generator/program/families.def"
#undef FAMILY

static const Family families[FUSED_KIND_COUNT] = {
#define FAMILY(kind, name, computes, templates) [FUSED_##kind] = {#name, computes, templates, match_##name},
#include "generator/program/families.def"
#undef FAMILY
};

const Family *family_of(FusedKind kind)
{
  return &families[kind];
}

bool family_has_template(const Family *family, const char *name)
{
  size_t length = strlen(name);
  for (const char *at = family->templates; (at = strstr(at, name)); at += length)
    if ((at == family->templates || at[-1] == ' ') && (at[length] == ' ' || !at[length])) return true;
  return false;
}

FusedOperator *family_match(const Program *program, GError **error)
{
  g_autoptr(GString) reasons = g_string_new(NULL);
  for (FusedKind kind = 0; kind < FUSED_KIND_COUNT; kind++) {
    FusedOperator *fused = arena_new_object(program->arena, FusedOperator);
    const char *why = NULL;
    fused->program = program;
    fused->kind = kind;
    if (families[kind].match(program, fused, &why)) return fused;
    g_string_append_printf(reasons, "%s%s: %s", reasons->len ? "; " : "", families[kind].name, why);
  }
  const ProgramNode *place;
  const char *what = program_describe(program, &place);
  error_set(error, ERROR_UNSUPPORTED, place ? &place->mark : NULL, "no-family", reasons->str,
            "no family matches %s", what);
  return NULL;
}
