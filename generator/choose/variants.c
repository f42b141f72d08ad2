/* Variants of an operator: the model's, then what was measured of it, then kernels that several of them can launch. */
#include "generator/choose/choose.h"
#include "generator/choose/tuned_operator.h"

bool choose_variants(Chooser *chooser)
{
  if (!choose_by_model(chooser)) return false;
  tuned_operator_take(chooser);
  choose_shared_kernels(chooser);
  for (unsigned i = 0; i < chooser->n; i++) {
    const Choice *choice = &chooser->variants[i];
    g_autofree char *guard = choice->guard ? symbolic_text(choice->guard) : g_strdup("always");
    g_autofree char *shared =
        choice->kernel_of < i ? g_strdup_printf(", kernel of variant %u", choice->kernel_of + 1) : NULL;
    choose_note(chooser, "variant %u: template %s, tile %s, guard: %s%s", i + 1, choice->template_name,
                choice->tile_text, guard, shared ? shared : "");
  }
  return true;
}
