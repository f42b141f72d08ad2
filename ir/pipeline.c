/* The pass list and the one door that runs every pass.
 *
 *   TILE    place_rows  divide_reductions  choose_mechanisms  choose_layouts  split_roles
 *   STAGED  split_instances  load_operands  fuse_exponents  defer_sums  overlap_products  skip_steps  overlap_sums
 *         overlap_widening  pipeline_fragments  write_pipelines  derive_waits  split_loops  skip_maxima  skip_rescales
 *         combine_blocks  combine_streams  reduce_clusters  clip_copies  stage_stores  overlap_tiles  defer_stores  write_tile_pipelines  derive_barriers
 *         skip_idle  widen_accesses  hoist_loads  load_ahead  overlap_launches
 *         allocate_resources  check_protocol  budget_registers  lower
 *   THREAD  induce_addresses  fold_constants  join_loads  remove_dead_code  shorten_live_ranges  lead_loads  pace_results
 *         spread_loads  measure_pressure
 *
 * A new pass is a file in ir/passes/ that opens with what it needs, gives and breaks, and a row here. */
#include "ir/mechanism.h"
#include "ir/pass.h"
#include <string.h>

/* In this order. Name, level before, level after, may be skipped, what runs, what it does. */
static const IrPass passes[] = {
    {"place_rows", IR_TILE, IR_TILE, false, pass_place_rows,
     "rows get constant extents, masks, and the way in which they stay"},
    {"divide_reductions", IR_TILE, IR_TILE, false, pass_divide_reductions,
     "blocks of a cluster that reduce a tile together get a part each"},
    {"choose_mechanisms", IR_TILE, IR_TILE, false, pass_choose_mechanisms,
     "which of the GPU's mechanisms moves each tile and takes each product"},
    {"choose_layouts", IR_TILE, IR_TILE, false, pass_choose_layouts,
     "where every element of every tile lives"},
    {"split_roles", IR_TILE, IR_STAGED, false, pass_split_roles,
     "tile loops become schedules, channels rings, warps roles"},
    {"split_instances", IR_STAGED, IR_STAGED, true, pass_split_instances,
     "warpgroups that multiply get rows of their own"},
    {"load_operands", IR_STAGED, IR_STAGED, false, pass_load_operands,
     "operands that lie across k pass through registers"},
    {"fuse_exponents", IR_STAGED, IR_STAGED, true, pass_fuse_exponents,
     "differences in front of exponentials become fused multiply-adds"},
    {"defer_sums", IR_STAGED, IR_STAGED, true, pass_defer_sums,
     "sums of rows that a loop carries meet behind it"},
    {"overlap_products", IR_STAGED, IR_STAGED, true, pass_overlap_products,
     "a loop's first product runs an iteration ahead of its second"},
    {"skip_steps", IR_STAGED, IR_STAGED, true, pass_skip_steps,
     "instances skip the steps in which none of their rows counts"},
    {"overlap_sums", IR_STAGED, IR_STAGED, true, pass_overlap_sums,
     "a step's sum is added while the next one is multiplied"},
    {"overlap_widening", IR_STAGED, IR_STAGED, true, pass_overlap_widening,
     "weights of a step are widened while the step before is multiplied"},
    {"pipeline_fragments", IR_STAGED, IR_STAGED, true, pass_pipeline_fragments,
     "operands of warp MMAs are loaded a step ahead, across the barrier too"},
    {"write_pipelines", IR_STAGED, IR_STAGED, false, pass_write_pipelines,
     "loops whose operations have stages become prologue, steady state and epilogue"},
    {"derive_waits", IR_STAGED, IR_STAGED, false, pass_derive_waits,
     "groups are closed, waited for and fenced; slots released behind the wait"},
    {"split_loops", IR_STAGED, IR_STAGED, true, pass_split_loops,
     "iterations in which a mask is known run in loops of their own, without it"},
    {"skip_maxima", IR_STAGED, IR_STAGED, true, pass_skip_maxima,
     "a softmax's maxima are looked for where sums of its weights say that one has risen"},
    {"skip_rescales", IR_STAGED, IR_STAGED, true, pass_skip_rescales,
     "sums that a row's number rescales are left alone where all of a warp's are 1"},
    {"combine_blocks", IR_STAGED, IR_STAGED, false, pass_combine_blocks,
     "blocks that share a tile add up what each has of it"},
    {"combine_streams", IR_STAGED, IR_STAGED, false, pass_combine_streams,
     "where blocks leave and find the sums of parts of a tile"},
    {"reduce_clusters", IR_STAGED, IR_STAGED, false, pass_reduce_clusters,
     "what blocks of a cluster have reduced crosses to their peers"},
    {"clip_copies", IR_STAGED, IR_STAGED, true, pass_clip_copies,
     "at the edge of a tensor only rows that exist are fetched"},
    {"stage_stores", IR_STAGED, IR_STAGED, true, pass_stage_stores,
     "results leave through shared memory and TMA"},
    {"overlap_tiles", IR_STAGED, IR_STAGED, true, pass_overlap_tiles,
     "a ring that threads fill runs on from one tile to the next"},
    {"defer_stores", IR_STAGED, IR_STAGED, true, pass_defer_stores,
     "the last results of a tile leave while the next one's first products run"},
    {"write_tile_pipelines", IR_STAGED, IR_STAGED, false, pass_write_pipelines,
     "loops of tiles whose operations have stages become such loops, too"},
    {"derive_barriers", IR_STAGED, IR_STAGED, false, pass_derive_barriers,
     "where threads, the engine and other blocks meet over shared memory"},
    {"skip_idle", IR_STAGED, IR_STAGED, true, pass_skip_idle,
     "instances whose rows nobody needs keep step alone"},
    {"widen_accesses", IR_STAGED, IR_STAGED, true, pass_widen_accesses,
     "lanes of a row exchange columns, so that each moves 16 bytes"},
    {"hoist_loads", IR_STAGED, IR_STAGED, true, pass_hoist_loads,
     "numbers that an epilogue reads are loaded before the first products"},
    {"load_ahead", IR_STAGED, IR_STAGED, true, pass_load_ahead,
     "what a loop loads for rows or columns of its tiles comes an iteration ahead"},
    {"overlap_launches", IR_STAGED, IR_STAGED, true, pass_overlap_launches,
     "what needs nothing of the kernel before comes before the wait for it"},
    {"allocate_resources", IR_STAGED, IR_STAGED, false, pass_allocate_resources, "one map of shared memory"},
    {"check_protocol", IR_STAGED, IR_STAGED, true, pass_check_protocol,
     "runs the tokens of all roles: deadlock, overwrite, counts, exits"},
    {"budget_registers", IR_STAGED, IR_STAGED, false, pass_budget_registers,
     "registers a thread of each role may have"},
    {"lower", IR_STAGED, IR_THREAD, false, pass_lower,
     "tiles become registers, roles branches, accesses addresses"},
    {"induce_addresses", IR_THREAD, IR_THREAD, true, pass_induce_addresses,
     "addresses that a loop recomputes become registers that step"},
    {"fold_constants", IR_THREAD, IR_THREAD, true, pass_fold_constants,
     "constants and copies through registers, identities, decided branches"},
    {"join_loads", IR_THREAD, IR_THREAD, true, pass_join_loads,
     "loads of single elements side by side become one"},
    {"remove_dead_code", IR_THREAD, IR_THREAD, true, pass_remove_dead_code, "what nothing reads"},
    {"shorten_live_ranges", IR_THREAD, IR_THREAD, true, pass_shorten_live_ranges,
     "what is computed for one store is computed right before it"},
    {"lead_loads", IR_THREAD, IR_THREAD, true, pass_lead_loads,
     "loads are asked for in front of the meeting that they stand behind"},
    {"pace_results", IR_THREAD, IR_THREAD, true, pass_pace_results,
     "beside another warpgroup's products few results are computed at a time"},
    {"spread_loads", IR_THREAD, IR_THREAD, true, pass_spread_loads,
     "fragments and copies lie among the products that they run ahead of"},
    {"measure_pressure", IR_THREAD, IR_THREAD, true, pass_measure_pressure,
     "live registers of the kernel and its roles, against what they may have"},
};

#define PASS_COUNT (sizeof passes / sizeof *passes)

const IrPass *ir_pass_list(unsigned *n)
{
  *n = PASS_COUNT;
  return passes;
}

/* Place of a pass in the list; PASS_COUNT and an error if there is none of that name. */
static unsigned find_pass(const char *name, GError **error)
{
  const char *names[PASS_COUNT + 1];
  for (unsigned i = 0; i < PASS_COUNT; i++) {
    if (!strcmp(passes[i].name, name)) return i;
    names[i] = passes[i].name;
  }
  names[PASS_COUNT] = NULL;
  const char *nearest = nearest_name(name, names);
  g_autofree char *all = g_strjoinv(" ", (char **)names);
  g_autofree char *hint =
      nearest ? g_strdup_printf("did you mean `%s`?", nearest) : g_strdup_printf("passes: %s", all);
  error_set(error, ERROR_INPUT, NULL, "unknown-pass", hint, "there is no pass `%s`", name);
  return PASS_COUNT;
}

static const char *level_name(IrLevel level)
{
  return level == IR_TILE ? "tile" : level == IR_STAGED ? "staged" : "thread";
}

static void name_values(IrModule *module)
{
  for (unsigned i = 0; i < module->n_functions; i++)
    ir_name_values(module->functions[i]);
}

/* Is what the pass leaves verified, being followed by pass `last` at the latest? */
static bool is_verified(const IrPass *pass, const IrPass *last, const IrRunOptions *options)
{
  if (options && options->unverified) return false;
  return !options || !options->verify_threads_once || pass->needs != IR_THREAD || pass == last;
}

/* Level before, the pass, level after, verification; from then on the module is what its dump says. */
static bool run_pass(IrModule *module, const IrPass *pass, const IrPass *last, const IrPassContext *context,
                     const IrRunOptions *options, GError **error)
{
  if (module->level != pass->needs) {
    error_set(error, ERROR_INPUT, NULL, "level", NULL, "pass %s needs a module of level %s; this one's is %s",
              pass->name, level_name(pass->needs), level_name(module->level));
    return false;
  }
  gint64 start = g_get_monotonic_time();
  if (!pass->run(module, context, error)) {
    g_assert(!error || *error);
    return false;
  }
  double seconds = (double)(g_get_monotonic_time() - start) * 1e-6;
  if (module->level != pass->gives) {
    error_set(error, ERROR_INTERNAL, NULL, "level", NULL, "pass %s left a module of level %s instead of %s",
              pass->name, level_name(module->level), level_name(pass->gives));
    return false;
  }
  if (is_verified(pass, last, options) && !ir_verify(module, pass->name, error)) return false;
  if (!(options && options->unverified)) name_values(module);
  module->after_pass = pass->name;
  if (options && options->report) {
    IrPassReport report = {pass, (unsigned)(pass - passes) + 1, seconds, arena_used(module->arena)};
    options->report(&report, module, options->data);
  }
  return true;
}

/* Which passes to run: first .. last. */
static bool choose_range(const IrModule *module, const IrRunOptions *options, unsigned *first, unsigned *last,
                         GError **error)
{
  const char *start = options && options->start_after ? options->start_after : module->after_pass;
  /* A text written by hand enters where its level begins. */
  for (*first = 0; *first < PASS_COUNT && passes[*first].needs != module->level;)
    ++*first;
  *last = PASS_COUNT;
  if (start) {
    *first = find_pass(start, error) + 1;
    if (*first > PASS_COUNT) return false;
  }
  if (options && options->stop_after) {
    *last = find_pass(options->stop_after, error) + 1;
    if (*last > PASS_COUNT) return false;
  }
  for (const char *const *name = options ? options->skip : NULL; name && *name; name++) {
    unsigned at = find_pass(*name, error);
    if (at == PASS_COUNT) return false;
    if (!passes[at].optional) {
      error_set(error, ERROR_INPUT, NULL, "skip", NULL, "pass %s cannot be skipped: later passes need it",
                *name);
      return false;
    }
  }
  return true;
}

static bool is_skipped(const IrPass *pass, const IrRunOptions *options)
{
  return options && options->skip && g_strv_contains(options->skip, pass->name);
}

static bool run_range(IrModule *module, unsigned first, unsigned last, const IrPassContext *context,
                      const IrRunOptions *options, GError **error)
{
  const IrPass *final = NULL;
  for (unsigned i = first; i < last; i++)
    if (!is_skipped(&passes[i], options)) final = &passes[i];
  for (unsigned i = first; i < last; i++)
    if (!is_skipped(&passes[i], options) && !run_pass(module, &passes[i], final, context, options, error))
      return false;
  return true;
}

static void find_templated(IrOp *op, void *data)
{
  bool several = op->code == OP_VAR && ir_attribute(op, ATTR_COUNT);
  if (op->code == OP_WHEN || op->code == OP_REPEAT || op->code == OP_CALL || several) *(bool *)data = true;
}

/* Has the text anything that instantiation writes out? It may, without parameters. */
static bool is_template(const IrModule *module)
{
  bool found = false;
  for (unsigned i = 0; ir_kernel(module) && module->level != IR_THREAD && i < module->n_functions; i++)
    ir_region_visit(module->functions[i]->body, find_templated, &found);
  return found;
}

bool ir_run_passes(IrModule *module, const IrPassContext *context, const IrRunOptions *options,
                   GError **error)
{
  unsigned first, last;
  if (!choose_range(module, options, &first, &last, error)) return false;
  if (module->n_parameters) {
    error_set(
        error, ERROR_INPUT, &module->parameters[0].mark, "template",
        "the generator fills templates in: compile a graph, and --set gives parameters of its kernels; in a "
        "kernel of your own write the value and take the parameter out",
        "parameter `%s` is not bound: this is a template", module->parameters[0].name);
    return false;
  }
  if (!(options && options->unverified) && !ir_verify(module, NULL, error)) return false;
  if (is_template(module) && (!ir_instantiate(module, NULL, error) || !ir_verify(module, NULL, error)))
    return false;
  if (context->gpu) {
    module->gpu = arena_strdup(module->arena, context->gpu->name);
    module->gpu_hash = arena_strdup(module->arena, context->gpu->hash);
  }
  name_values(module);
  Mechanism rows[MECHANISM_COUNT];
  if (!context->mechanisms) mechanisms_read(context->gpu, rows);
  module->mechanisms = context->mechanisms ? context->mechanisms : rows;
  module->n_mechanisms = context->mechanisms ? context->n_mechanisms : MECHANISM_COUNT;
  bool done = run_range(module, first, last, context, options, error);
  module->mechanisms = NULL;
  return done;
}

/* ---- Arguments ---- */

static unsigned collect_maps(const IrRegion *region, IrArgument *arguments)
{
  unsigned n = 0;
  for (const IrOp *op = region->first; op; op = op->next) {
    if (op->code == OP_MAP) {
      const IrExpr *tensor = op->operands[0];
      if (arguments)
        arguments[n] = (IrArgument){.kind = ARGUMENT_MAP,
                                    .name = op->symbol,
                                    .tensor = tensor->kind == EXPR_VALUE ? tensor->value : NULL,
                                    .map = op};
      n++;
    }
    for (unsigned i = 0; i < op->n_regions; i++)
      n += collect_maps(op->regions[i], arguments ? arguments + n : NULL);
  }
  return n;
}

IrArgument *ir_kernel_arguments(const IrFunction *kernel, unsigned *n)
{
  unsigned most = kernel->n_parameters + kernel->n_dims + collect_maps(kernel->body, NULL);
  IrArgument *arguments = arena_new_array(kernel->module->arena, IrArgument, most);
  *n = 0;
  for (unsigned i = 0; i < kernel->n_parameters; i++) {
    const IrValue *value = kernel->parameters[i];
    if (value->type.kind == TYPE_TENSOR)
      arguments[(*n)++] = (IrArgument){.kind = ARGUMENT_POINTER, .name = value->name, .tensor = value};
  }
  for (unsigned i = 0; i < kernel->n_dims; i++)
    arguments[(*n)++] =
        (IrArgument){.kind = ARGUMENT_SCALAR, .name = kernel->dims[i].name, .type = kernel->dims[i].type};
  *n += collect_maps(kernel->body, arguments + *n);
  return arguments;
}
