#include "cli/constants.h"
#include "execute/evaluate.h"

bool constants_write(const Graph *graph, Plan *plan, Output *output, const char *folder, GError **error)
{
  g_autoptr(GPtrArray) tensors = g_ptr_array_new_with_free_func((GDestroyNotify)tensor_free);
  for (unsigned i = 0; i < plan->n_tensors; i++) {
    PlanTensor *constant = plan->tensors[i];
    if (constant->kind != PLAN_CONSTANT) continue;
    Tensor *tensor = evaluate_plan_constant(graph, constant, error);
    if (!tensor) return false;
    g_ptr_array_add(tensors, tensor);
    g_free(tensor->name); /* one of a file may have another there */
    tensor->name = g_strdup(constant->name);
    constant->file = CONSTANTS_FILE;
  }
  if (!tensors->len) return true;
  g_autofree char *name = g_build_filename(folder, CONSTANTS_FILE, NULL);
  g_autofree char *path = output_path(output, name, error);
  return path && tensors_save(tensors, path, error);
}
