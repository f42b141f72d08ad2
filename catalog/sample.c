/* Which of a kernel's cases run where not all of them do. */
#include "catalog/cases.h"

/* Elements of the tensors of all cases of a sample, beyond the first two: a kernel for one large N, say, moves as many in a
 * single case as others in thirty. */
#define MOST_ELEMENTS (8.0 * 1024 * 1024)

/* Cases beyond which a sample's size is looked at. */
#define LEAST_CASES 2

static double elements_of(const Plan *plan, const CatalogCase *c)
{
  const PlanBindings bindings = {c->symbols, NULL};
  double sum = 0;
  for (unsigned i = 0; i < plan->n_tensors; i++) {
    const PlanTensor *tensor = plan->tensors[i];
    double elements = 1;
    for (unsigned d = 0; d < tensor->rank; d++) {
      int64_t size = 0;
      if (plan_evaluate(plan, tensor->shape[d], &bindings, &size, NULL)) elements *= (double)size;
    }
    sum += elements;
  }
  return sum;
}

typedef struct Sample {
  const Plan *plan;
  CatalogCase *cases;
  unsigned n, most, taken;
  double elements;
  bool *is_taken; /* [n] */
} Sample;

static void take(Sample *s, unsigned index)
{
  if (s->is_taken[index] || s->taken >= s->most) return;
  double elements = elements_of(s->plan, &s->cases[index]);
  if (s->taken >= LEAST_CASES && s->elements + elements > MOST_ELEMENTS) return;
  s->is_taken[index] = true;
  s->taken++;
  s->elements += elements;
}

/* Takes as many as there is room for of those that add this, evenly from the seed on. */
static void take_evenly(Sample *s, CatalogAdds adds, unsigned seed)
{
  unsigned count = 0;
  g_autofree unsigned *index = g_new(unsigned, s->n + 1);
  for (unsigned i = 0; i < s->n; i++)
    if (s->cases[i].adds == adds) index[count++] = i;
  unsigned room = MIN(s->most - s->taken, count);
  for (unsigned i = 0; i < room; i++)
    take(s, index[(seed + (size_t)i * count / room) % count]);
}

unsigned catalog_sample(const Plan *plan, const CompiledKernel *kernel, CatalogCase *cases, unsigned n,
                        unsigned most)
{
  if (!most || n <= most) return n;
  g_autofree bool *is_taken = g_new0(bool, n);
  Sample s = {.plan = plan, .cases = cases, .n = n, .most = most, .is_taken = is_taken};
  unsigned seed = g_str_hash(kernel->text);
  for (CatalogAdds adds = CATALOG_SEVERAL; adds <= CATALOG_SINGLE; adds++)
    take_evenly(&s, adds, seed);
  unsigned kept = 0;
  for (unsigned i = 0; i < n; i++)
    if (is_taken[i]) cases[kept++] = cases[i];
  return kept;
}
