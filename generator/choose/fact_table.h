/* Names and values of a family's facts, for `try` lines of its templates and conditions of their parameters: those of its list
 * and the model's counts. Whoever includes it defines FACTS, the list; FACT_NAMES and FACT_TRIED_NAMES, the arrays of names, all and those of what is tried; FACT_ARGUMENTS, what values
 * are computed of, among it a Problem; and FACT_LOCALS, what else their expressions name, which follows from the problem. It gets
 * fact_values(), and for its SpaceKind problem_fact(). */
FACT_NAMES[] = {
#define FACT(name, meaning, value)       #name,
#define FACT_TRIED(name, meaning, value) #name,
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
#define FACT(name, meaning, value)       (int64_t)(value),
#define FACT_TRIED(name, meaning, value) (int64_t)(value),
#include FACTS
#define MODEL_FACT(name) model->name,
#include "generator/choose/model_facts.def"
  };
  return g_memdup2(values, sizeof values);
}

/* Those of what is tried. */
FACT_TRIED_NAMES[] = {
#define FACT(name, meaning, value)
#define FACT_TRIED(name, meaning, value) #name,
#include FACTS
    NULL};

/* One of the others, whatever is tried. */
static int64_t problem_fact(const Problem *problem, unsigned index)
{
  FACT_LOCALS;
  const CostModel *model = problem->gpu->model;
  unsigned at = 0;
#define FACT(name, meaning, value)                                                                           \
  if (at++ == index) return (int64_t)(value);
#define FACT_TRIED(name, meaning, value) at++;
#include FACTS
#define MODEL_FACT(name)                                                                                     \
  if (at++ == index) return model->name;
#include "generator/choose/model_facts.def"
  return 0;
}
#undef FACTS
#undef FACT_NAMES
#undef FACT_TRIED_NAMES
#undef FACT_ARGUMENTS
#undef FACT_LOCALS
