/* Names and values of a family's facts, for `try` lines of its templates: those of its list and the model's counts. Whoever
 * includes it defines FACTS, the list; FACT_NAMES, the array of names; FACT_ARGUMENTS, what values are computed of, among it
 * a Problem; and FACT_LOCALS, what else their expressions name. */
FACT_NAMES[] = {
#define FACT(name, meaning, value) #name,
#include FACTS
#define MODEL_FACT(name) "model." #name,
#include "generator/choose/model_facts.def"
    NULL};

/* As many values; g_free. */
static int64_t *fact_values(FACT_ARGUMENTS)
{
  FACT_LOCALS;
  const CostModel *model = problem->gpu->model;
  const int64_t values[] = {
#define FACT(name, meaning, value) (int64_t)(value),
#include FACTS
#define MODEL_FACT(name) model->name,
#include "generator/choose/model_facts.def"
  };
  return g_memdup2(values, sizeof values);
}
#undef FACTS
#undef FACT_NAMES
#undef FACT_ARGUMENTS
#undef FACT_LOCALS
