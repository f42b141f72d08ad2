/* The spaces of products, read off their templates' heads. */
#include "generator/choose/gemm_facts.h"
#include "generator/choose/gemm_space.h"
#include <string.h>

static const struct {
  const char *name;
  bool dual;
} templates[GEMM_TEMPLATES] = {{"gemm", false}, {"gemm_dual", true}, {"gemm_dual_swapped", true}};

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
  space->head = head;
  space->axis_of = g_new0(const GemmAxis *, head->n_parameters);
  for (unsigned i = 0; i < head->n_parameters; i++)
    space->axis_of[i] = gemm_axis_find(head->parameters[i].name);
  space->tries = tries_resolve(head, gemm_fact_names(), error);
  return space->tries != NULL;
}

GemmSpaces *gemm_spaces_read(GError **error)
{
  g_autoptr(GemmSpaces) all = g_new0(GemmSpaces, 1);
  all->spaces = spaces_read(true, error);
  if (!all->spaces) return NULL;
  for (unsigned i = 0; i < GEMM_TEMPLATES; i++) {
    all->of[i].template_name = templates[i].name;
    all->of[i].dual = templates[i].dual;
    if (!fill(&all->of[i], spaces_head(all->spaces, templates[i].name), error)) return NULL;
  }
  return g_steal_pointer(&all);
}

void gemm_spaces_free(GemmSpaces *spaces)
{
  if (!spaces) return;
  for (unsigned i = 0; i < GEMM_TEMPLATES; i++) {
    tries_free(spaces->of[i].tries);
    g_free(spaces->of[i].axis_of);
    g_free(spaces->of[i].axes);
  }
  spaces_free(spaces->spaces);
  g_free(spaces);
}
