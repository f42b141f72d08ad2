/* Variants that launch one kernel.
 *
 * Ranges of rows often get the same tile, not always side by side. What is left of a range in a kernel's text
 * is what the passes know of M's size; the kernel that knows only the largest bound of all serves each of
 * them, and the guards stay in the plan. A kernel less is some milliseconds of the generator and some hundred
 * of the assembler. */
#include "generator/choose/choose.h"

static const Assumption *find_assumption(const Choice *choice, const Symbolic *expression)
{
  for (unsigned i = 0; i < choice->n_assumptions; i++)
    if (symbolic_same(choice->assumptions[i].expression, expression)) return &choice->assumptions[i];
  return NULL;
}

/* Whatever `a` assumes to be a multiple, `b` does too. */
static bool assumes_multiples(const Choice *a, const Choice *b)
{
  for (unsigned i = 0; i < a->n_assumptions; i++) {
    const Assumption *assumption = &a->assumptions[i], *other = find_assumption(b, assumption->expression);
    if (assumption->multiple != (other ? other->multiple : 1)) return false;
  }
  return true;
}

static bool same_parameters(const Choice *a, const Choice *b)
{
  if (a->n_parameters != b->n_parameters) return false;
  for (unsigned i = 0; i < a->n_parameters; i++) {
    const ChoiceParameter *x = &a->parameters[i], *y = choice_parameter(b, x->name);
    bool same = y && x->kind == y->kind && x->integer == y->integer && x->own == y->own &&
                !g_strcmp0(x->text, y->text) && !(x->number < y->number) && !(x->number > y->number);
    if (!same) return false;
  }
  return true;
}

/* Does `b` know of each tensor as much as `a`? */
static bool aligned_alike(const Choice *a, const Choice *b)
{
  for (const ChoiceAlign *known = a->aligned; known; known = known->next)
    if (choice_align(a, known->tensor) != choice_align(b, known->tensor)) return false;
  return true;
}

/* The same kernel but for what it may know of sizes. */
static bool same_kernel(const Choice *a, const Choice *b)
{
  return g_str_equal(a->template_name, b->template_name) && same_parameters(a, b) && aligned_alike(a, b) &&
         aligned_alike(b, a) && a->ragged == b->ragged && a->single == b->single && a->keep_a == b->keep_a &&
         !a->direct == !b->direct && a->alone == b->alone && a->narrow == b->narrow &&
         a->vector == b->vector && assumes_multiples(a, b) && assumes_multiples(b, a);
}

/* Leaves `choice` only what holds for `other` too. */
static void weaken(Choice *choice, const Choice *other)
{
  for (unsigned i = 0; i < choice->n_assumptions; i++) {
    Assumption *assumption = &choice->assumptions[i];
    const Assumption *weaker = find_assumption(other, assumption->expression);
    bool bounded = weaker && weaker->maximum > 0 && assumption->maximum > 0;
    assumption->maximum = bounded ? MAX(assumption->maximum, weaker->maximum) : 0;
  }
}

void choose_shared_kernels(Chooser *chooser)
{
  for (unsigned i = 0; i < chooser->n; i++) {
    Choice *choice = &chooser->variants[i];
    choice->kernel_of = i;
    for (unsigned j = 0; j < i && choice->kernel_of == i; j++) {
      Choice *before = &chooser->variants[j];
      if (before->kernel_of != j || !same_kernel(choice, before)) continue;
      choice->kernel_of = j;
      weaken(before, choice);
    }
  }
}
