/* Passes: one door runs them all.
 *
 * ir_run_passes() runs the list of ir/pipeline.c in order: run, verify (naming the pass), report to the
 * caller, who may print the module. A pass can be skipped by name for bisection where that leaves a legal
 * module. Each pass is one file whose head says what it needs, gives and breaks. Thread-safe: all state is in
 * the arguments. */
#pragma once
#include "adl/gpu.h"
#include "ir/ir.h"

typedef struct IrPassContext {
  const Gpu *gpu;
  const struct Mechanism *mechanisms; /* rows to choose from; NULL: those of ir/mechanisms.def on this GPU */
  unsigned n_mechanisms;
  bool fast_math;     /* --math fast: approximations of the hardware are allowed */
  unsigned sm_budget; /* SMs the kernel may use at most; 0 = all of the GPU */
  GString *remarks; /* what was chosen and what was rejected, with the reason, a line each: --explain; may be
                       NULL */
} IrPassContext;

typedef struct IrPass {
  const char *name;     /* "choose_mechanisms": also its file name in ir/passes/ */
  IrLevel needs, gives; /* level before and after */
  bool optional;        /* may be skipped */
  bool (*run)(IrModule *module, const IrPassContext *context, GError **error);
  const char *doc;
} IrPass;

const IrPass *ir_pass_list(unsigned *n);

typedef struct IrPassReport {
  const IrPass *pass;
  unsigned index; /* 1-based place in the list */
  double seconds; /* of the pass alone */
  size_t arena_bytes;
} IrPassReport;

typedef struct IrRunOptions {
  const char
      *start_after; /* continue after this pass; NULL: after module->after_pass, or where the level begins */
  const char *stop_after;  /* stop after this pass */
  const char *const *skip; /* NULL-terminated names, or NULL */
  /* Verify what passes from THREAD to THREAD leave once, behind the last of them, instead of after each: that
   * is most of the work of verifying. A fault then names the last. */
  bool verify_threads_once;
  bool unverified; /* verify nothing, name nothing anew: for those who throw the module away */
  void (*report)(const IrPassReport *report, IrModule *module, void *data); /* may be NULL */
  void *data;
} IrRunOptions;

bool ir_run_passes(IrModule *module, const IrPassContext *context, const IrRunOptions *options,
                   GError **error);

/* The passes, each in ir/passes/NAME.c. */
bool pass_place_rows(IrModule *module, const IrPassContext *context, GError **error);
bool pass_divide_reductions(IrModule *module, const IrPassContext *context, GError **error);
bool pass_choose_mechanisms(IrModule *module, const IrPassContext *context, GError **error);
bool pass_choose_layouts(IrModule *module, const IrPassContext *context, GError **error);
bool pass_split_roles(IrModule *module, const IrPassContext *context, GError **error);
bool pass_split_instances(IrModule *module, const IrPassContext *context, GError **error);
bool pass_load_operands(IrModule *module, const IrPassContext *context, GError **error);
bool pass_derive_barriers(IrModule *module, const IrPassContext *context, GError **error);
bool pass_derive_waits(IrModule *module, const IrPassContext *context, GError **error);
bool pass_fuse_exponents(IrModule *module, const IrPassContext *context, GError **error);
bool pass_defer_sums(IrModule *module, const IrPassContext *context, GError **error);
bool pass_overlap_products(IrModule *module, const IrPassContext *context, GError **error);
bool pass_split_loops(IrModule *module, const IrPassContext *context, GError **error);
bool pass_skip_steps(IrModule *module, const IrPassContext *context, GError **error);
bool pass_skip_idle(IrModule *module, const IrPassContext *context, GError **error);
bool pass_skip_maxima(IrModule *module, const IrPassContext *context, GError **error);
bool pass_skip_rescales(IrModule *module, const IrPassContext *context, GError **error);
bool pass_write_pipelines(IrModule *module, const IrPassContext *context, GError **error);
bool pass_overlap_sums(IrModule *module, const IrPassContext *context, GError **error);
bool pass_overlap_widening(IrModule *module, const IrPassContext *context, GError **error);
bool pass_pipeline_fragments(IrModule *module, const IrPassContext *context, GError **error);
bool pass_overlap_tiles(IrModule *module, const IrPassContext *context, GError **error);
bool pass_combine_blocks(IrModule *module, const IrPassContext *context, GError **error);
bool pass_combine_streams(IrModule *module, const IrPassContext *context, GError **error);
bool pass_reduce_clusters(IrModule *module, const IrPassContext *context, GError **error);
bool pass_stage_stores(IrModule *module, const IrPassContext *context, GError **error);
bool pass_defer_stores(IrModule *module, const IrPassContext *context, GError **error);
bool pass_widen_accesses(IrModule *module, const IrPassContext *context, GError **error);
bool pass_hoist_loads(IrModule *module, const IrPassContext *context, GError **error);
bool pass_load_ahead(IrModule *module, const IrPassContext *context, GError **error);
bool pass_clip_copies(IrModule *module, const IrPassContext *context, GError **error);
bool pass_overlap_launches(IrModule *module, const IrPassContext *context, GError **error);
bool pass_allocate_resources(IrModule *module, const IrPassContext *context, GError **error);
bool pass_budget_registers(IrModule *module, const IrPassContext *context, GError **error);
bool pass_check_protocol(IrModule *module, const IrPassContext *context, GError **error);
bool pass_lower(IrModule *module, const IrPassContext *context, GError **error);
bool pass_fold_constants(IrModule *module, const IrPassContext *context, GError **error);
bool pass_join_loads(IrModule *module, const IrPassContext *context, GError **error);
bool pass_induce_addresses(IrModule *module, const IrPassContext *context, GError **error);
bool pass_shorten_live_ranges(IrModule *module, const IrPassContext *context, GError **error);
bool pass_lead_loads(IrModule *module, const IrPassContext *context, GError **error);
bool pass_pace_results(IrModule *module, const IrPassContext *context, GError **error);
bool pass_remove_dead_code(IrModule *module, const IrPassContext *context, GError **error);
bool pass_spread_loads(IrModule *module, const IrPassContext *context, GError **error);
bool pass_measure_pressure(IrModule *module, const IrPassContext *context, GError **error);

/* Adds a line to the context's remarks, if it collects any. */
void ir_remark(const IrPassContext *context, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* Arguments of a kernel in launch order: every tensor's pointer, then every dim, then every tensor map, each
 * in order of appearance. The back end declares them so, the plan fills them so. */
typedef enum { ARGUMENT_POINTER, ARGUMENT_SCALAR, ARGUMENT_MAP } IrArgumentKind;
typedef struct IrArgument {
  IrArgumentKind kind;
  const char *name;      /* tensor, dim or map */
  NumberType type;       /* scalar */
  const IrValue *tensor; /* pointer and map: the parameter */
  const IrOp *map;       /* map: its declaration */
} IrArgument;
IrArgument *ir_kernel_arguments(const IrFunction *kernel, unsigned *n); /* in the module's arena */
