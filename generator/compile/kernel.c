/* A TILE module, or one of a later level, to PTX; and what people are told of the kernel. */
#include "generator/compile/kernel.h"
#include "backends/backend.h"
#include "generator/kernel/kernel.h"
#include "ir/mechanism.h"
#include <string.h>

/* ---- What a kernel turned out to be, gathered while its passes run ---- */

typedef struct {
  const CompileOptions *options;
  CompiledKernel *kernel;
} Watch;

static void watch_mechanism(IrOp *op, void *data)
{
  GString *text = data;
  const IrExpr *via = ir_attribute_value(op, ATTR_VIA);
  if ((op->code != OP_FILL && op->code != OP_MMA) || !via) return;
  if (strstr(text->str, via->name)) return;
  g_string_append_printf(text, "%s%s", text->len ? "+" : "", via->name);
}

static void note_mechanism(CompiledKernel *kernel, const IrModule *module)
{
  g_autoptr(GString) text = g_string_new(NULL);
  ir_region_visit(ir_kernel(module)->body, watch_mechanism, text);
  g_free(kernel->mechanism);
  kernel->mechanism = g_strdup(text->len ? text->str : "plain");
}

static void note_roles(CompiledKernel *kernel, const IrModule *module)
{
  g_autoptr(GString) text = g_string_new(NULL);
  for (const IrOp *op = ir_kernel(module)->body->first; op; op = op->next) {
    int64_t first, last;
    if (op->code != OP_ROLE) continue;
    const IrExpr *warps = ir_attribute_value(op, ATTR_WARPS);
    if (!ir_expr_is_int(warps->items[0], &first) || !ir_expr_is_int(warps->items[1], &last)) continue;
    g_string_append_printf(text, "%s%d %s", text->len ? " + " : "", (int)(last - first), op->symbol);
  }
  g_free(kernel->roles);
  kernel->roles = g_strdup(text->str);
}

static void watch_pass(const IrPassReport *report, IrModule *module, void *data)
{
  Watch *watch = data;
  if (g_str_equal(report->pass->name, "choose_mechanisms")) note_mechanism(watch->kernel, module);
  if (g_str_equal(report->pass->name, "split_roles")) note_roles(watch->kernel, module);
  if (watch->options && watch->options->report)
    watch->options->report(watch->kernel->name, report, module, watch->options->data);
}

static void note_wait(IrOp *op, void *data)
{
  *(bool *)data |= op->code == OP_DEPENDENT_WAIT;
}

static unsigned launch_int(const IrFunction *kernel, IrAttributeKey key, unsigned otherwise)
{
  int64_t value;
  IrExpr *expr = ir_launch_get(kernel, key);
  return expr && ir_expr_is_int(expr, &value) ? (unsigned)value : otherwise;
}

static void note_resources(CompiledKernel *kernel, const IrModule *module)
{
  const IrFunction *function = ir_kernel(module);
  kernel->threads = launch_int(function, ATTR_THREADS, 128);
  kernel->cluster = launch_int(function, ATTR_CLUSTER, 1);
  kernel->shared_bytes = launch_int(function, ATTR_SHARED_BYTES, 0);
  kernel->together = launch_int(function, ATTR_TOGETHER, 0) > 0;
  kernel->arena_bytes = arena_used(module->arena);
  ir_region_visit(function->body, note_wait, &kernel->waits);
  kernel->predicted_registers = module->registers;
}

void compiled_kernel_free(CompiledKernel *kernel)
{
  if (!kernel) return;
  g_free(kernel->name);
  g_free(kernel->entry);
  g_free(kernel->ir);
  g_free(kernel->tile);
  g_free(kernel->text);
  g_free(kernel->text_hash);
  g_free(kernel->template_name);
  g_free(kernel->tile_text);
  g_free(kernel->mechanism);
  g_free(kernel->roles);
  g_free(kernel);
}

bool compile_kernel(CompiledKernel *kernel, IrModule *module, const Gpu *gpu, const char *start_after,
                    const CompileOptions *options, const Mechanism *mechanisms, GString *remarks,
                    GError **error)
{
  IrPassContext context = {
      .gpu = gpu, .mechanisms = mechanisms, .n_mechanisms = MECHANISM_COUNT, .remarks = remarks};
  if (options) {
    context.fast_math = options->fast_math;
    context.sm_budget = options->sm_budget;
  }
  Watch watch = {options, kernel};
  IrRunOptions run = {.start_after = start_after,
                      .skip = options ? options->skip : NULL,
                      .verify_threads_once = !options || (!options->report && !options->verify_each),
                      .report = watch_pass,
                      .data = &watch};
  if (!ir_run_passes(module, &context, &run, error)) return false;
  note_resources(kernel, module);
  if (!options || !options->drop_ir) kernel->ir = ir_print(module);
  kernel->backend = options && options->backend ? options->backend : &backends[0];
  kernel->text = kernel->backend->emit(module, gpu, error);
  return kernel->text != NULL;
}

CompiledKernel *generator_compile_ir(Source *source, const Gpu *gpu, const char *start_after,
                                     const CompileOptions *options, GError **error)
{
  g_autoptr(IrModule) module = ir_read(source, error);
  if (!module) return NULL;
  const IrFunction *function = ir_kernel(module);
  if (!function) {
    error_set(error, ERROR_INPUT, NULL, "no-kernel", NULL, "%s holds no kernel", source->name);
    return NULL;
  }
  g_autoptr(CompiledKernel) kernel = g_new0(CompiledKernel, 1);
  kernel->name = g_strdup(function->name);
  kernel->entry = g_strdup(function->name);
  kernel->template_name = g_strdup("-");
  kernel->tile_text = g_strdup("-");
  kernel->mechanism = g_strdup("-");
  kernel->roles = g_strdup("-");
  if (module->level == IR_TILE && !kernel_link_text(module, options && options->fast_math, error))
    return NULL;
  if (!compile_kernel(kernel, module, gpu, start_after, options, NULL, NULL, error)) return NULL;
  return g_steal_pointer(&kernel);
}
