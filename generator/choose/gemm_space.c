#include "generator/choose/gemm_space.h"
#include "generator/choose/spaces.h"
#include <string.h>

static const char *const templates[] = {"gemm", "gemm_dual", "gemm_dual_swapped"};

struct GemmSpaces {
  Spaces *spaces;
  GemmSpace of[G_N_ELEMENTS(templates)];
};

static bool in_key(const IrModule *head, const char *name)
{
  for (unsigned i = 0; i < head->n_key; i++)
    if (!strcmp(head->key[i], name)) return true;
  return false;
}

/* An axis tells kernels apart by gemm_axes.def if and only if it does by the template. */
static bool check_axis(const IrModule *head, const IrParameter *parameter, bool key, GError **error)
{
  if (!parameter || in_key(head, parameter->name) == key) return true;
  error_set(
      error, ERROR_UNSUPPORTED, &parameter->mark, "key",
      "the key of a template of products; generator/choose/gemm_axes.def has what choosing takes it for",
      key ? "`%s` tells kernels apart, but the template's key lacks it"
          : "`%s` follows from other parameters, but the template's key has it",
      parameter->name);
  return false;
}

static bool add_extra(GemmSpace *space, const IrParameter *parameter, GError **error)
{
  if (space->n_extra < GEMM_EXTRAS && parameter->domain) {
    space->extra[space->n_extra++] = parameter;
    return true;
  }
  error_set(error, ERROR_UNSUPPORTED, &parameter->mark, "key", NULL,
            parameter->domain
                ? "`%s` is one too many: a key has at most %d parameters that no price knows"
                : "`%s` has no domain: a parameter that no price knows is tried with each value "
                  "of it (%d such parameters at most)",
            parameter->name, GEMM_EXTRAS);
  return false;
}

static bool fill(GemmSpace *space, const IrModule *head, GError **error)
{
  unsigned n, n_keys;
  const GemmAxis *axes = gemm_axes(&n);
  gemm_key_axes(&n_keys);
  space->axes = g_new0(const IrParameter *, n);
  for (unsigned i = 0; i < n; i++) {
    space->axes[i] = ir_parameter_find(head, axes[i].name);
    if (!check_axis(head, space->axes[i], i < n_keys, error)) return false;
  }
  for (unsigned i = 0; i < head->n_key; i++)
    if (!gemm_axis_find(head->key[i]) && !add_extra(space, ir_parameter_find(head, head->key[i]), error))
      return false;
  return true;
}

GemmSpaces *gemm_spaces_read(GError **error)
{
  g_autoptr(GemmSpaces) all = g_new0(GemmSpaces, 1);
  all->spaces = spaces_read(true, error);
  if (!all->spaces) return NULL;
  for (unsigned i = 0; i < G_N_ELEMENTS(templates); i++) {
    all->of[i].template_name = templates[i];
    if (!fill(&all->of[i], spaces_head(all->spaces, templates[i]), error)) return NULL;
  }
  return g_steal_pointer(&all);
}

void gemm_spaces_free(GemmSpaces *spaces)
{
  if (!spaces) return;
  for (unsigned i = 0; i < G_N_ELEMENTS(templates); i++)
    g_free(spaces->of[i].axes);
  spaces_free(spaces->spaces);
  g_free(spaces);
}

const GemmSpace *gemm_space(const Problem *problem, const char *template_name)
{
  for (unsigned i = 0; problem->spaces && i < G_N_ELEMENTS(templates); i++)
    if (!strcmp(templates[i], template_name)) return &problem->spaces->of[i];
  return NULL;
}

const GemmSpace *gemm_candidate_space(const Problem *problem, const GemmCandidate *candidate)
{
  return gemm_space(problem, gemm_candidate_template(problem, candidate));
}

int64_t gemm_extra_default(const GemmSpace *space, unsigned extra)
{
  int64_t value = 0;
  return ir_expr_is_int(space->extra[extra]->value, &value) ? value : 0;
}

/* ---- values ---- */

typedef struct At {
  const GemmSpace *space;
  const GemmCandidate *candidate;
} At;

/* What a template's default stands for is not said again by a candidate: 0 and 1 are one. */
static int64_t value_of(const IrParameter *parameter, const GemmCandidate *candidate, const GemmAxis *axis)
{
  int64_t value = gemm_axis_value(candidate, axis), otherwise;
  bool silent = value == axis->absent && ir_expr_is_int(parameter->value, &otherwise);
  return silent && axis->absent <= 1 && otherwise <= 1 ? otherwise : value;
}

static bool lookup(const IrExpr *leaf, int64_t *value, void *data)
{
  const At *at = data;
  if (leaf->kind != EXPR_PARAMETER) return false;
  unsigned n;
  const GemmAxis *axes = gemm_axes(&n);
  for (unsigned i = 0; i < n; i++)
    if (at->space->axes[i] && !strcmp(axes[i].name, leaf->name)) {
      *value = value_of(at->space->axes[i], at->candidate, &axes[i]);
      return true;
    }
  for (unsigned i = 0; i < at->space->n_extra; i++)
    if (!strcmp(at->space->extra[i]->name, leaf->name)) {
      *value = gemm_extra_default(at->space, i) + at->candidate->extra[i];
      return true;
    }
  return false;
}

/* Where a condition does not hold, or hangs on what is not known yet, only the default may stand. */
static bool admits(const At *at, const IrParameter *parameter, int64_t value)
{
  int64_t holds, otherwise;
  if (!ir_domain_has(parameter->domain, value)) return false;
  if (!parameter->condition) return true;
  if (ir_expr_evaluate(parameter->condition, lookup, (void *)at, &holds) && holds) return true;
  return ir_expr_is_int(parameter->value, &otherwise) && value == otherwise;
}

bool gemm_space_has(const GemmSpace *space, const GemmCandidate *candidate)
{
  unsigned n;
  const GemmAxis *axes = gemm_key_axes(&n);
  const At at = {space, candidate};
  if (!space) return true;
  for (unsigned i = 0; i < n; i++)
    if (space->axes[i] && !admits(&at, space->axes[i], value_of(space->axes[i], candidate, &axes[i])))
      return false;
  for (unsigned i = 0; i < space->n_extra; i++)
    if (!admits(&at, space->extra[i], gemm_extra_default(space, i) + candidate->extra[i])) return false;
  return true;
}

const char *gemm_extra_suffix(const GemmSpace *space, const GemmCandidate *candidate, Arena *arena)
{
  const char *suffix = "";
  for (unsigned i = 0; space && i < space->n_extra; i++)
    if (candidate->extra[i])
      suffix = arena_printf(arena, "%s_%s%d", suffix, space->extra[i]->name,
                            (int)gemm_extra_default(space, i) + candidate->extra[i]);
  return suffix;
}

bool gemm_tile_forced(const Problem *problem)
{
  unsigned n;
  const GemmAxis *axes = gemm_axes(&n);
  bool forced = false, sums = choose_forced(problem, "deep", NULL);
  for (unsigned i = 0; i < n; i++)
    forced |= axes[i].tile && choose_forced(problem, axes[i].name, NULL);
  const GemmSpace *space = gemm_space(problem, templates[0]);
  for (unsigned i = 0; space && i < space->n_extra; i++)
    forced |= choose_forced(problem, space->extra[i]->name, NULL);
  return forced && !sums;
}
