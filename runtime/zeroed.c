/* Memory that kernels find zero and leave zero: tensors of the plan marked `zero`.
 *
 * They have a place in the workspace, but that is the caller's, who may use it for other things between two
 * launches and need not clear it. So the executable has such memory of its own: a block for each workspace it
 * has seen. Launches that may run at the same time have two workspaces (include/adlgen/adlgen.h), hence two
 * blocks. Some are made when the executable is, since memory cannot be had while a stream is captured. */
#include "runtime/executable_private.h"

#define BLOCKS_AT_START 4

static bool add_block(Executable *x, GError **error)
{
  const Driver *driver = &x->context->driver;
  ZeroedBlock block = {0};
  g_autofree void *zeros = g_malloc0(x->zeroed_bytes);
  if (!driver_check(driver, driver->allocate(&block.address, x->zeroed_bytes),
                    "cannot make room for flags on the GPU", error))
    return false;
  g_array_append_val(x->zeroed, block);
  return driver_check(driver, driver->write_now(block.address, zeros, x->zeroed_bytes),
                      "cannot clear flags on the GPU", error);
}

bool zeroed_init(Executable *x, GError **error)
{
  g_mutex_init(&x->zeroed_lock);
  x->zeroed = g_array_new(FALSE, FALSE, sizeof(ZeroedBlock));
  x->zeroed_offsets = arena_new_array(x->arena, uint64_t, x->plan->n_tensors);
  for (unsigned i = 0; i < x->plan->n_tensors; i++) {
    const PlanTensor *tensor = x->plan->tensors[i];
    if (!tensor->zero) continue;
    int64_t bytes = number_bytes(tensor->type), extent;
    x->zeroed_offsets[i] = x->zeroed_bytes;
    for (unsigned d = 0; d < tensor->rank; d++) {
      if (!symbolic_is_constant(tensor->shape[d], &extent)) {
        error_set(error, ERROR_UNSUPPORTED, NULL, "zero", NULL,
                  "%s, which is zero between launches, has no constant shape", tensor->name);
        return false;
      }
      bytes *= extent;
    }
    x->zeroed_bytes += ((uint64_t)bytes + 255) / 256 * 256;
  }
  if (!x->zeroed_bytes) return true;
  bool pushed = false, ok = context_enter(x->context, &pushed, error);
  if (!ok) return false;
  for (unsigned i = 0; ok && i < BLOCKS_AT_START; i++)
    ok = add_block(x, error);
  context_leave(x->context, pushed);
  return ok;
}

void zeroed_clear(Executable *x)
{
  const Driver *driver = &x->context->driver;
  for (unsigned i = 0; x->zeroed && i < x->zeroed->len; i++)
    driver->release(g_array_index(x->zeroed, ZeroedBlock, i).address);
}

bool zeroed_block(Executable *x, const void *workspace, uint64_t *address, GError **error)
{
  bool found = false, ok = true;
  *address = 0;
  if (!x->zeroed_bytes) return true;
  g_mutex_lock(&x->zeroed_lock);
  for (unsigned i = 0; ok && !found; i++) {
    if (i == x->zeroed->len) ok = add_block(x, error);
    if (!ok) break;
    ZeroedBlock *block = &g_array_index(x->zeroed, ZeroedBlock, i);
    found = !block->workspace || block->workspace == workspace;
    if (!found) continue;
    block->workspace = workspace;
    *address = block->address;
  }
  g_mutex_unlock(&x->zeroed_lock);
  return ok;
}
