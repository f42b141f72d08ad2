#include "generator/compile/dry_run.h"
#include "ir/mechanism.h"
#include "ir/pass.h"
#include <string.h>

#define LAST_PASS "budget_registers"

static unsigned launch_int(const IrFunction *kernel, IrAttributeKey key, unsigned otherwise)
{
  int64_t value;
  IrExpr *expr = ir_launch_get(kernel, key);
  return expr && ir_expr_is_int(expr, &value) ? (unsigned)value : otherwise;
}

/* Stores of tiles that no mechanism takes through shared memory. */
static void count_direct(IrOp *op, void *data)
{
  bool tile = op->code == OP_STORE && op->operands[1]->kind == EXPR_VALUE &&
              op->operands[1]->value->type.kind == TYPE_TILE;
  if (tile && !ir_attribute(op, ATTR_VIA)) ++*(unsigned *)data;
}

static void add_sums(IrOp *op, void *data)
{
  unsigned *registers = data;
  for (unsigned i = 0; op->code == OP_VAR && i < op->n_results; i++) {
    const IrType *type = &op->results[i]->type;
    if (type->kind == TYPE_TILE && type->layout)
      *registers += layout_registers(type->layout) * MAX(1, number_bits(type->element) / 32);
  }
}

/* Of variable tiles: what products, and then their threads, add up in. */
static unsigned registers_of_sums(IrRegion *region)
{
  unsigned registers = 0;
  ir_region_visit(region, add_sums, &registers);
  return registers;
}

/* Of the role that has the most, or the kernel without roles. */
static void read_sums(const IrFunction *kernel, DrySummary *summary)
{
  for (IrOp *op = kernel->body->first; op; op = op->next)
    if (op->code == OP_ROLE) summary->sums = MAX(summary->sums, registers_of_sums(op->regions[0]));
  if (!summary->sums) summary->sums = registers_of_sums(kernel->body);
}

/* What passes leave of what is asked for where the mechanisms do not have it. */
static void note_products(IrOp *op, void *data)
{
  DrySummary *summary = data;
  if (op->code == OP_MMA) summary->waits |= !ir_is_asynchronous_product(op);
  if (op->code == OP_TILES) summary->pingpong = (unsigned)ir_attribute_int(op, ATTR_PINGPONG, 1);
}

/* Sums are counted before passes keep some of them twice where registers are left for it. */
static void watch_pass(const IrPassReport *report, IrModule *module, void *data)
{
  DrySummary *summary = data;
  if (!strcmp(report->pass->name, "choose_mechanisms"))
    ir_region_visit(ir_kernel(module)->body, count_direct, &summary->direct_stores);
  if (!strcmp(report->pass->name, "choose_layouts"))
    ir_region_visit(ir_kernel(module)->body, note_products, summary);
  if (!strcmp(report->pass->name, "load_operands")) read_sums(ir_kernel(module), summary);
}

/* Of a thread of a role that has sums, all of which get as many. */
static unsigned most_registers(const IrFunction *kernel, const Gpu *gpu)
{
  unsigned entry = launch_int(kernel, ATTR_ENTRY_REGISTERS, gpu->registers_per_thread), most = 0;
  for (IrOp *op = kernel->body->first; op; op = op->next)
    if (op->code == OP_ROLE) most = MAX(most, (unsigned)ir_attribute_int(op, ATTR_REGISTERS, entry));
  return MIN(most ? most : entry, gpu->registers_per_thread); /* a hand-over gives whole steps */
}

static bool run(IrModule *module, const DryRunner *runner, bool exact, DrySummary *summary, GError **error)
{
  IrPassContext context = {
      .gpu = runner->gpu, .mechanisms = runner->mechanisms, .n_mechanisms = MECHANISM_COUNT};
  const char *const *skipped = runner->options ? runner->options->skip : NULL;
  unsigned n = skipped ? g_strv_length((char **)skipped) : 0;
  g_autofree const char **skip = g_new0(const char *, n + 2);
  if (n) memcpy(skip, skipped, n * sizeof *skip);
  skip[n] = "check_protocol"; /* it finds faults of passes, not what is wrong with a choice */
  if (runner->options) {
    context.fast_math = runner->options->fast_math;
    context.sm_budget = runner->options->sm_budget;
  }
  const IrRunOptions options = {.stop_after = exact ? NULL : LAST_PASS,
                                .skip = skip,
                                .unverified = true,
                                .report = watch_pass,
                                .data = summary};
  return ir_run_passes(module, &context, &options, error);
}

void compile_dry_run(const FusedOperator *op, const Graph *graph, const Choice *choice, DrySummary *summary,
                     void *data)
{
  const DryRunner *runner = data;
  g_autoptr(GError) error = NULL;
  Arena *expressions = arena_new();
  g_autoptr(KernelBuild) build =
      kernel_build(op, graph, choice, "dry_run", runner->libraries, expressions, &error);
  bool sound = build && (!choice->exact || ir_verify(build->module, NULL, &error));
  summary->legal = sound && run(build->module, runner, choice->exact, summary, &error);
  if (summary->legal) {
    const IrFunction *kernel = ir_kernel(build->module);
    summary->shared_bytes = launch_int(kernel, ATTR_SHARED_BYTES, 0);
    summary->threads = launch_int(kernel, ATTR_THREADS, 0);
    summary->registers = most_registers(kernel, runner->gpu);
  } else {
    const GPtrArray *diagnostics = error_diagnostics(error);
    const Diagnostic *first = diagnostics && diagnostics->len ? diagnostics->pdata[0] : NULL;
    summary->crowded = first && !g_strcmp0(first->code, "shared-memory");
    summary->why = g_strdup(error->message);
  }
  arena_free(expressions);
}
