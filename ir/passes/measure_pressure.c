/* measure_pressure: the registers a kernel and its roles need, against what they may have.
 *
 * needs  THREAD
 * gives  IrModule.registers; a remark a part; an error if more registers are live at once than it can get
 * breaks nothing
 *
 * A kernel without roles may use what its launch facts leave (entry_registers, or min_blocks of its threads
 * on an SM); a role what its `registers` op asks for. The count is of the code in its order; the assembler
 * reorders it, recomputes values, and needs some registers of its own. Of the catalogue's kernels its version
 * 13.0 fits the best into 36 % fewer than are live at once, without a spill (docs/registers.md): chains of
 * elementwise operations on a tile, which it takes element by element. So a kernel is refused only when twice
 * as many are live as there are: that it cannot make up for. */
#include "ir/liveness.h"
#include "ir/passes/thread.h"

static int64_t launch_int(const IrFunction *kernel, IrAttributeKey key, int64_t otherwise)
{
  const IrExpr *value = ir_launch_get(kernel, key);
  int64_t number;
  return value != NULL && ir_expr_is_int(value, &number) ? number : otherwise;
}

/* Registers a thread may have: what is given at entry, or what the blocks of an SM leave each thread. */
static int64_t register_limit(const IrFunction *kernel, const Gpu *gpu)
{
  int64_t given = launch_int(kernel, ATTR_ENTRY_REGISTERS, 0);
  int64_t threads = launch_int(kernel, ATTR_THREADS, 1) * launch_int(kernel, ATTR_MIN_BLOCKS, 1);
  if (given > 0) return given;
  int64_t share = gpu->registers_per_sm / MAX(threads, 1) / 8 * 8; /* registers come by eight a thread */
  return MIN(share, gpu->registers_per_thread);
}

static bool check_part(const IrFunction *kernel, const IrPressure *part, unsigned n,
                       const IrPassContext *context, GError **error)
{
  int64_t limit = part->role != NULL ? part->granted : register_limit(kernel, context->gpu);
  ir_remark(context, "%s: %s needs %u of %d registers, %u predicates", kernel->name,
            part->role != NULL ? "role"
            : n > 1            ? "before its roles it"
                               : "it",
            part->peak, (int)limit, part->predicates);
  if (part->peak <= 2 * limit || limit == 0) return true;
  error_set(error, ERROR_UNSUPPORTED, part->at != NULL ? &part->at->mark : NULL, "register-pressure",
            "a smaller tile, more warps or fewer blocks an SM leave more registers",
            "kernel %s keeps %u registers alive here, %u more than the %d it can have", kernel->name,
            part->peak, part->peak - (unsigned)limit, (int)limit);
  return false;
}

bool pass_measure_pressure(IrModule *module, const IrPassContext *context, GError **error)
{
  for (unsigned i = 0; i < module->n_functions; i++) {
    const IrFunction *kernel = module->functions[i];
    unsigned n;
    if (!kernel->is_kernel || context->gpu == NULL) continue;
    g_autofree IrPressure *parts = ir_pressure(kernel, &n);
    for (unsigned k = 0; k < n; k++)
      module->registers = MAX(module->registers, n > 1 ? parts[k].peak : ir_pressure_registers(&parts[k]));
    for (unsigned k = 0; k < n; k++)
      if (!check_part(kernel, &parts[k], n, context, error)) return false;
  }
  return true;
}
