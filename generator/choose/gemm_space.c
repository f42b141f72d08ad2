#include "generator/choose/gemm_space.h"
#include <string.h>

const GemmSpace *gemm_space(const Problem *problem, const char *template_name)
{
  for (unsigned i = 0; problem->spaces && i < GEMM_TEMPLATES; i++)
    if (!strcmp(problem->spaces->of[i].template_name, template_name)) return &problem->spaces->of[i];
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

void gemm_extra_set(const GemmSpace *space, GemmCandidate *candidate, unsigned parameter, int64_t value)
{
  for (unsigned i = 0; i < space->n_extra; i++)
    if (space->extra[i] == &space->head->parameters[parameter])
      candidate->extra[i] = (int)(value - gemm_extra_default(space, i));
}

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
static bool keeps_condition(const At *at, const IrParameter *parameter, int64_t value)
{
  int64_t holds, otherwise;
  if (!parameter->condition || (ir_expr_is_int(parameter->value, &otherwise) && value == otherwise))
    return true;
  return ir_expr_evaluate(parameter->condition, lookup, (void *)at, &holds) && holds;
}

typedef bool (*ValueCheck)(const At *at, const IrParameter *parameter, int64_t value);

static bool admits(const At *at, const IrParameter *parameter, int64_t value)
{
  return ir_domain_has(parameter->domain, value) && keeps_condition(at, parameter, value);
}

/* The first parameter of the key whose value fails the check, or NULL. */
static const IrParameter *first_failing(const At *at, ValueCheck passes, int64_t *value)
{
  unsigned n;
  const GemmAxis *axes = gemm_key_axes(&n);
  const GemmSpace *space = at->space;
  for (unsigned i = 0; i < n; i++) {
    if (!space->axes[i]) continue;
    *value = value_of(space->axes[i], at->candidate, &axes[i]);
    if (!passes(at, space->axes[i], *value)) return space->axes[i];
  }
  for (unsigned i = 0; i < space->n_extra; i++) {
    *value = gemm_extra_default(space, i) + at->candidate->extra[i];
    if (!passes(at, space->extra[i], *value)) return space->extra[i];
  }
  return NULL;
}

bool gemm_space_has(const GemmSpace *space, const GemmCandidate *candidate)
{
  const At at = {space, candidate};
  int64_t value;
  return !space || !first_failing(&at, admits, &value);
}

bool gemm_space_keeps(const GemmSpace *space, const GemmCandidate *candidate, GError **error)
{
  const At at = {space, candidate};
  int64_t value, otherwise = 0;
  const IrParameter *failing = space ? first_failing(&at, keeps_condition, &value) : NULL;
  if (!failing) return true;
  ir_expr_is_int(failing->value, &otherwise);
  ir_parameter_refuse(failing, otherwise, value, error);
  return false;
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
  const GemmSpace *space = problem->spaces ? &problem->spaces->of[0] : NULL;
  for (unsigned i = 0; space && i < space->n_extra; i++)
    forced |= choose_forced(problem, space->extra[i]->name, NULL);
  return forced && !sums;
}
