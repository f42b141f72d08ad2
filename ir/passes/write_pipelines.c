/* write_pipelines: the one place that writes prologue, steady state and epilogue of a loop.
 *
 * needs  STAGED; a `pipelined` loop, each of whose operations says its stage: 0 that of the iteration at hand, 1 that of
 *        the iteration before. Their order is that of the steady state
 * gives  a prologue (stage 0 of the first iteration), a loop (stage 0 of an iteration, stage 1 of the one before) and an
 *        epilogue (stage 1 of the last). What stage 0 computes for stage 1 lies in variables. Operations without a stage,
 *        such as turns, stand in all three. In runs (`pipelined 4`) the iterations are written out and a tile that is
 *        declared in the loop and read by both stages becomes two tiles in turn, since registers cannot be indexed;
 *        nothing is in flight from run to run; without a stage 1 iterations are written out as they are. Where their number is not known, what is left of whole runs are runs of one. `ahead`: stage 0 stands in one place, and in each iteration is that of the next
 *        one; the prologue has that of the first, and there is no epilogue. `behind`: stage 1 is that of the iteration
 *        before, and the epilogue has that of the last. In both stages may stand in loops of the body (nested_stages.c)
 * breaks nothing
 *
 * It runs twice: over the loops of what a tile is computed of, and, as write_tile_pipelines, over loops of tiles once it
 * is known how these begin and end.
 *
 * (Software pipelining: Lam 1988. Which stage an operation has is for the passes before: overlap_sums, overlap_products,
 * pipeline_fragments, overlap_tiles, defer_stores; what the bounds of the steady state decide, such as the mask of a diagonal,
 * is for split_loops.) */
#include "ir/facts.h"
#include "ir/mechanism.h"
#include "ir/pass.h"
#include "ir/passes/left_loops.h"
#include "ir/passes/pipelines.h"
#include "ir/passes/trailing.h"

typedef struct {
  IrModule *module;
  IrOp *loop;
  IrRegion *body;
  const IrValue *index;
  GPtrArray *crossing; /* IrValue*: computed by stage 0, read by stage 1 */
  GPtrArray *kept;     /* IrExpr*: the variables in which they lie; in runs two each, in turn */
  bool runs;
  bool late; /* operations have stage 1 */
  GError **error;
  bool failed;
} Pipeline;

static bool refuse(Pipeline *pipeline, const IrOp *op, const char *what)
{
  if (!pipeline->failed) pipeline_refuse(op, what, pipeline->error);
  pipeline->failed = true;
  return false;
}

/* ---- What crosses from stage to stage ---- */

static bool uses_in_stage(const Pipeline *pipeline, const IrValue *value, int64_t stage)
{
  for (IrOp *op = pipeline->body->first; op; op = op->next) {
    if (pipeline_stage(op) != stage) continue;
    if (ir_op_uses(op, value)) return true;
    for (unsigned i = 0; i < op->n_regions; i++)
      if (ir_region_uses(op->regions[i], value)) return true;
  }
  return false;
}

/* What is read where it is not: nothing without a stage waits for one, and each part has its own of what has none. */
static void check_readers(Pipeline *pipeline, const IrOp *op, const IrValue *value)
{
  int64_t stage = pipeline_stage(op);
  int64_t apart = ir_attribute(pipeline->loop, ATTR_AHEAD) ? 0 : 1;
  if (stage == 1 && uses_in_stage(pipeline, value, 0))
    refuse(pipeline, op, "what one stage computes an earlier one reads");
  if (stage != NO_STAGE && uses_in_stage(pipeline, value, NO_STAGE))
    refuse(pipeline, op, "an operation without a stage reads what one of them computes");
  if (stage == NO_STAGE && !pipeline->runs && uses_in_stage(pipeline, value, apart))
    refuse(pipeline, op, "what is computed without a stage is read of another iteration");
}

static void find_crossing(Pipeline *pipeline)
{
  for (IrOp *op = pipeline->body->first; op; op = op->next)
    for (unsigned i = 0; i < op->n_results; i++) {
      const IrValue *value = op->results[i];
      check_readers(pipeline, op, value);
      if (pipeline->runs && !pipeline->late && op->code == OP_VAR && !op->n_operands)
        g_ptr_array_add(pipeline->crossing, (gpointer)value); /* all iterations have the same registers */
      if (pipeline_stage(op) != 0 || !uses_in_stage(pipeline, value, 1)) continue;
      if (pipeline->runs && !value->variable) continue; /* each written iteration has its own */
      bool tile = value->type.kind == TYPE_TILE;
      if (pipeline->runs ? !tile : value->variable)
        refuse(pipeline, op, "a value that both stages read can be kept in another form of pipeline only");
      g_ptr_array_add(pipeline->crossing, (gpointer)value);
    }
}

static int crossing_at(const Pipeline *pipeline, const IrValue *value)
{
  for (unsigned i = 0; i < pipeline->crossing->len; i++)
    if (pipeline->crossing->pdata[i] == value) return (int)i;
  return -1;
}

/* ---- One stage of one iteration ---- */

static void mark_late(IrOp *op, void *data)
{
  const Pipeline *pipeline = data;
  ir_attribute_remove(op, ATTR_STAGE);
  if ((pipeline->late || !pipeline->runs) && ir_is_grouped_product(op)) ir_attribute_set(op, ATTR_LATE, NULL);
}

static IrOp *emit(const Pipeline *pipeline, IrBuilder *builder, const IrOp *op, GHashTable *map)
{
  IrOp *copy = ir_op_clone(builder, op, map);
  mark_late(copy, (void *)pipeline);
  for (unsigned i = 0; i < copy->n_regions; i++)
    ir_region_visit(copy->regions[i], mark_late, (void *)pipeline);
  return copy;
}

/* ---- As a loop ---- */

static void declare_variables(Pipeline *pipeline, IrBuilder *builder)
{
  for (unsigned i = 0; i < pipeline->crossing->len; i++) {
    const IrValue *value = pipeline->crossing->pdata[i];
    IrOp *op = ir_emit(builder, OP_VAR, 0);
    IrValue *variable = ir_result(op, value->name, value->type);
    variable->variable = true;
    g_ptr_array_add(pipeline->kept, ir_value(pipeline->module, variable));
  }
}

/* The last operation of stage 1 that reads a value, if that stands behind the one that computes it. */
static const IrOp *last_reader(const IrOp *definition, const IrValue *value)
{
  const IrOp *last = definition;
  for (IrOp *op = definition->next; op; op = op->next) {
    bool reads = ir_op_uses(op, value);
    for (unsigned i = 0; i < op->n_regions; i++)
      reads |= ir_region_uses(op->regions[i], value);
    if (reads && pipeline_stage(op) == 1) last = op;
  }
  return last;
}

/* Behind `op`: what crosses is kept for the next iteration once this one's stage 1 has read what the last one kept. */
static void keep_behind(const Pipeline *pipeline, IrBuilder *builder, const IrOp *op, GHashTable *ahead)
{
  for (unsigned i = 0; i < pipeline->crossing->len; i++) {
    const IrValue *value = pipeline->crossing->pdata[i];
    if (last_reader(value->def, value) != op) continue;
    ir_emit(builder, OP_SET, 2, (IrExpr *)pipeline->kept->pdata[i],
            (IrExpr *)g_hash_table_lookup(ahead, value));
  }
}

static void read_kept(const Pipeline *pipeline, GHashTable *map)
{
  for (unsigned i = 0; i < pipeline->crossing->len; i++)
    g_hash_table_insert(map, pipeline->crossing->pdata[i], pipeline->kept->pdata[i]);
}

/* Stage 0 at `now`, stage 1 at `before`; either may be NULL. */
static void write_iteration(const Pipeline *pipeline, IrBuilder *builder, IrExpr *now, IrExpr *before)
{
  g_autoptr(GHashTable) ahead = g_hash_table_new(NULL, NULL);
  g_autoptr(GHashTable) behind = g_hash_table_new(NULL, NULL);
  g_hash_table_insert(ahead, (gpointer)pipeline->index, now ? now : before);
  g_hash_table_insert(behind, (gpointer)pipeline->index, before);
  read_kept(pipeline, behind);
  for (const IrOp *op = pipeline->body->first; op; op = op->next) {
    int64_t stage = pipeline_stage(op);
    if (stage == 1 ? before != NULL : now || stage == NO_STAGE)
      emit(pipeline, builder, op, stage == 1 ? behind : ahead);
    if (now) keep_behind(pipeline, builder, op, ahead);
  }
}

/* ---- The three parts ---- */

/* A loop that may have no iteration has no prologue then. */
static IrBuilder open_guard(const Pipeline *pipeline)
{
  IrModule *module = pipeline->module;
  IrOp *loop = pipeline->loop;
  IrBuilder builder = ir_builder_before(loop);
  builder.mark = loop->mark;
  if (ir_trip_count(loop) > 0) return builder;
  IrOp *any =
      ir_emit(&builder, OP_IF, 1, ir_binary(module, OPERATOR_GT, loop->operands[1], loop->operands[0]));
  IrBuilder inner = ir_builder_at_end(ir_region_add(any));
  inner.mark = loop->mark;
  return inner;
}

static void write_loop(Pipeline *pipeline)
{
  IrModule *module = pipeline->module;
  IrOp *loop = pipeline->loop;
  IrExpr *low = loop->operands[0], *step = pipeline_step(loop);
  IrBuilder declarations = ir_builder_before(loop);
  declarations.mark = loop->mark;
  declare_variables(pipeline, &declarations);
  IrBuilder builder = open_guard(pipeline);
  write_iteration(pipeline, &builder, low, NULL);
  IrOp *steady =
      ir_emit(&builder, OP_FOR, 3, ir_binary(module, OPERATOR_ADD, low, step), loop->operands[1], step);
  IrRegion *region = ir_region_add(steady);
  IrExpr *index = ir_value(module, ir_argument_add(region, pipeline->index->name, pipeline->index->type));
  IrBuilder inner = ir_builder_at_end(region);
  inner.mark = loop->mark;
  write_iteration(pipeline, &inner, index, ir_binary(module, OPERATOR_SUB, index, step));
  write_iteration(pipeline, &builder, NULL, pipeline_last(pipeline->loop));
  ir_op_remove(loop);
}

/* ---- Ahead ---- */

/* Does anything behind the loop name the cursor? */
static bool is_used_behind(const Pipeline *pipeline, const IrValue *cursor)
{
  for (IrOp *op = pipeline->loop->next; op; op = op->next) {
    if (ir_op_uses(op, cursor)) return true;
    for (unsigned i = 0; i < op->n_regions; i++)
      if (ir_region_uses(op->regions[i], cursor)) return true;
  }
  return false;
}

/* A step to the slot of the next iteration, which is taken only if there is one. */
static bool steps_ahead(const Pipeline *pipeline, const IrOp *op)
{
  for (; op && op->code == OP_ADVANCE && pipeline_stage(op) == 1; op = op->next)
    if (is_used_behind(pipeline, op->operands[0]->value)) return false;
  return op && pipeline_stage(op) == 0;
}

/* What stage 0 gives, into its variables: everything that reads them has stood in front. */
static void keep_run(Pipeline *pipeline, IrBuilder *builder, GHashTable *ahead)
{
  for (unsigned i = 0; i < pipeline->crossing->len; i++) {
    const IrValue *value = pipeline->crossing->pdata[i];
    if (last_reader(value->def, value) != value->def)
      refuse(pipeline, value->def, "what reads the iteration before stands behind what the next one keeps");
    ir_emit(builder, OP_SET, 2, (IrExpr *)pipeline->kept->pdata[i],
            (IrExpr *)g_hash_table_lookup(ahead, value));
  }
}

/* Stage 0 of the first iteration; what it gives are the variables' first values. */
static void write_first(Pipeline *pipeline, IrBuilder *builder, GHashTable *map)
{
  g_hash_table_insert(map, (gpointer)pipeline->index, pipeline->loop->operands[0]);
  for (const IrOp *op = pipeline->body->first; op; op = op->next) {
    if (pipeline_stage(op) == 1) continue;
    emit(pipeline, builder, op, map);
    if (!op->n_results || crossing_at(pipeline, op->results[0]) < 0) continue;
    const IrValue *value = op->results[0];
    IrOp *start = ir_emit(builder, OP_VAR, 1, (IrExpr *)g_hash_table_lookup(map, value));
    IrValue *variable = ir_result(start, value->name, value->type);
    variable->variable = true;
    g_ptr_array_add(pipeline->kept, ir_value(pipeline->module, variable));
  }
}

/* A run of stage 0, of the next iteration; returns its last operation. */
static const IrOp *write_next(Pipeline *pipeline, IrBuilder *builder, const IrOp *op, IrExpr *next,
                              bool guarded)
{
  IrModule *module = pipeline->module;
  g_autoptr(GHashTable) ahead = g_hash_table_new(NULL, NULL);
  g_hash_table_insert(ahead, (gpointer)pipeline->index, next);
  IrBuilder inner = *builder;
  if (guarded) {
    inner = ir_builder_at_end(ir_region_add(
        ir_emit(builder, OP_IF, 1, ir_binary(module, OPERATOR_LT, next, pipeline->loop->operands[1]))));
    inner.mark = builder->mark;
  }
  const IrOp *last = op;
  for (; op && (pipeline_stage(op) == 0 || steps_ahead(pipeline, op)); op = op->next) {
    emit(pipeline, &inner, op, ahead);
    last = op;
  }
  keep_run(pipeline, &inner, ahead);
  return last;
}

/* All iterations: stage 1, and where stage 0 stands that of the next one. There is no epilogue. */
static void write_ahead(Pipeline *pipeline)
{
  IrModule *module = pipeline->module;
  IrOp *loop = pipeline->loop;
  IrBuilder builder = ir_builder_before(loop);
  builder.mark = loop->mark;
  g_autoptr(GHashTable) first = g_hash_table_new(NULL, NULL);
  g_autoptr(GHashTable) behind = g_hash_table_new(NULL, NULL);
  write_first(pipeline, &builder, first);
  if (pipeline->kept->len != pipeline->crossing->len)
    refuse(pipeline, loop, "several results of one operation cannot be kept");
  if (pipeline->failed) return;
  IrOp *all =
      ir_emit(&builder, OP_FOR, 3, loop->operands[0], loop->operands[1], pipeline_step(pipeline->loop));
  IrRegion *region = ir_region_add(all);
  IrExpr *index = ir_value(module, ir_argument_add(region, pipeline->index->name, pipeline->index->type));
  IrExpr *next = ir_binary(module, OPERATOR_ADD, index, pipeline_step(pipeline->loop));
  IrBuilder inner = ir_builder_at_end(region);
  unsigned runs = 0;
  g_hash_table_insert(behind, (gpointer)pipeline->index, index);
  read_kept(pipeline, behind);
  for (const IrOp *op = pipeline->body->first; op; op = op->next) {
    inner.mark = op->mark;
    bool ahead = pipeline_stage(op) == 0 || steps_ahead(pipeline, op);
    if (ahead) op = write_next(pipeline, &inner, op, next, ir_attribute_is(loop, ATTR_AHEAD, "guarded"));
    if (!ahead) emit(pipeline, &inner, op, behind);
    runs += ahead;
  }
  if (runs != 1) refuse(pipeline, loop, "what runs ahead has to stand in one place");
  ir_op_remove(loop);
}

/* ---- In runs ---- */

static void declare_instances(Pipeline *pipeline, IrBuilder *builder)
{
  for (unsigned i = 0; i < pipeline->crossing->len; i++)
    for (unsigned instance = 0; instance < 2; instance++) {
      g_autoptr(GHashTable) map = g_hash_table_new(NULL, NULL);
      const IrValue *value = pipeline->crossing->pdata[i];
      IrOp *copy = instance && !pipeline->late ? NULL : emit(pipeline, builder, value->def, map);
      g_ptr_array_add(pipeline->kept, copy ? ir_value(pipeline->module, copy->results[0])
                                           : (IrExpr *)pipeline->kept->pdata[2 * i]);
    }
}

/* The operations of an iteration that have a stage, or none, with its instances of what crosses. */
static void write_stage(const Pipeline *pipeline, IrBuilder *builder, const IrOp *op, int64_t iteration,
                        GHashTable *maps[2])
{
  if (op->n_results && crossing_at(pipeline, op->results[0]) >= 0) return;
  emit(pipeline, builder, op, maps[iteration % 2]);
}

/* Does an operation read nothing that those in front of it, from `first` on, give? */
static bool stands_alone(IrOp *op, const IrOp *first)
{
  for (const IrOp *other = first; other && other != op; other = other->next)
    for (unsigned i = 0; i < other->n_results; i++)
      if (ir_op_uses(op, other->results[i])) return false;
  return true;
}

/* What iterations read of memory is asked for in front of all of them (`ahead loads`), up to `end`: one wait for several. */
static void loads_first(IrOp *first, const IrOp *end)
{
  for (IrOp *op = first, *next; op && op != end; op = next) {
    next = op->next;
    if (op->code == OP_LOAD && op != first && stands_alone(op, first)) ir_op_move(op, first->parent, first);
  }
}

/* `steps` iterations, one behind the other, the first at `low`, without the last one's stage 1. */
static void write_run(const Pipeline *pipeline, IrBuilder *builder, IrExpr *low, int64_t steps,
                      GHashTable *maps[2])
{
  IrModule *module = pipeline->module;
  IrExpr *stride = pipeline_step(pipeline->loop);
  IrOp *before = builder->before ? builder->before->previous : builder->region->last;
  for (int64_t i = 0; i < steps; i++) {
    IrExpr *ahead = ir_binary(module, OPERATOR_MUL, stride, ir_int(module, i));
    IrExpr *index = i ? ir_binary(module, OPERATOR_ADD, low, ahead) : low;
    for (const IrOp *op = pipeline->body->first; op; op = op->next) {
      if (pipeline_stage(op) == 1 && i) write_stage(pipeline, builder, op, i - 1, maps);
      if (pipeline_stage(op) == 1) continue;
      g_hash_table_insert(maps[i % 2], (gpointer)pipeline->index, index);
      write_stage(pipeline, builder, op, i, maps);
    }
  }
  IrOp *first = before ? before->next : builder->region->first;
  if (ir_attribute_is(pipeline->loop, ATTR_AHEAD, "loads")) loads_first(first, builder->before);
}

static void write_end(const Pipeline *pipeline, IrBuilder *builder, int64_t steps, GHashTable *maps[2])
{
  for (const IrOp *op = pipeline->body->first; op; op = op->next)
    if (pipeline_stage(op) == 1) write_stage(pipeline, builder, op, steps - 1, maps);
}

/* A loop of runs, each with its end. */
static void loop_of_runs(const Pipeline *pipeline, IrBuilder *builder, IrExpr *low, IrExpr *high, int64_t run,
                         GHashTable *maps[2])
{
  IrModule *module = pipeline->module;
  IrExpr *stride = ir_binary(module, OPERATOR_MUL, pipeline_step(pipeline->loop), ir_int(module, run));
  IrOp *all = ir_emit(builder, OP_FOR, 3, low, high, stride);
  IrBuilder inner = ir_builder_at_end(ir_region_add(all));
  inner.mark = pipeline->loop->mark;
  IrExpr *first =
      ir_value(module, ir_argument_add(all->regions[0], pipeline->index->name, pipeline->index->type));
  write_run(pipeline, &inner, first, run, maps);
  write_end(pipeline, &inner, run, maps);
}

/* Of a known number of iterations the last run's end goes behind the turn that is passed there; without an end the last run is
 * as the others. */
static void write_known_runs(const Pipeline *pipeline, IrBuilder *builder, int64_t run, GHashTable *maps[2])
{
  IrModule *module = pipeline->module;
  IrOp *loop = pipeline->loop;
  int64_t steps = ir_trip_count(loop), low, stride = 1, runs = (steps - pipeline->late) / run;
  ir_expr_is_int(loop->operands[0], &low);
  ir_expr_is_int(pipeline_step(pipeline->loop), &stride);
  IrExpr *rest = ir_int(module, low + run * stride * runs);
  if (runs) loop_of_runs(pipeline, builder, ir_int(module, low), rest, run, maps);
  write_run(pipeline, builder, rest, steps - run * runs, maps);
  IrBuilder after = trailing_place(loop);
  write_end(pipeline, &after, steps - run * runs, maps);
}

static void write_open_runs(const Pipeline *pipeline, IrBuilder *builder, int64_t run, GHashTable *maps[2])
{
  IrModule *module = pipeline->module;
  IrExpr *low = pipeline->loop->operands[0], *high = pipeline->loop->operands[1];
  IrExpr *length = ir_binary(module, OPERATOR_MUL, pipeline_step(pipeline->loop), ir_int(module, run));
  IrExpr *whole = ir_binary(module, OPERATOR_DIV, ir_binary(module, OPERATOR_SUB, high, low), length);
  IrExpr *rest = ir_binary(module, OPERATOR_ADD, low, ir_binary(module, OPERATOR_MUL, whole, length));
  loop_of_runs(pipeline, builder, low, rest, run, maps);
  loop_of_runs(pipeline, builder, rest, high, 1, maps);
}

static void write_runs(Pipeline *pipeline, int64_t run)
{
  IrOp *loop = pipeline->loop;
  IrBuilder builder = ir_builder_before(loop);
  builder.mark = loop->mark;
  declare_instances(pipeline, &builder);
  GHashTable *maps[2];
  for (unsigned i = 0; i < 2; i++) {
    maps[i] = g_hash_table_new(NULL, NULL);
    for (unsigned j = 0; j < pipeline->crossing->len; j++)
      g_hash_table_insert(maps[i], pipeline->crossing->pdata[j], pipeline->kept->pdata[2 * j + i]);
  }
  if (ir_trip_count(loop))
    write_known_runs(pipeline, &builder, run, maps);
  else
    write_open_runs(pipeline, &builder, run, maps);
  ir_op_remove(loop);
  for (unsigned i = 0; i < 2; i++)
    g_hash_table_unref(maps[i]);
}

static bool write_pipeline(IrModule *module, IrOp *loop, GError **error)
{
  g_autoptr(GPtrArray) crossing = g_ptr_array_new();
  g_autoptr(GPtrArray) kept = g_ptr_array_new();
  int64_t run = ir_attribute_int(loop, ATTR_PIPELINED, 1);
  if (loop_is_left(loop)) return pipeline_refuse(loop, "a `break_if` leaves it in the middle", error);
  if (pipeline_is_nested(loop)) return pipeline_write_nested(module, loop, error);
  Pipeline pipeline = {.module = module,
                       .loop = loop,
                       .body = loop->regions[0],
                       .index = loop->regions[0]->arguments[0],
                       .crossing = crossing,
                       .kept = kept,
                       .runs = run > 1,
                       .error = error};
  for (const IrOp *op = pipeline.body->first; op; op = op->next)
    pipeline.late |= pipeline_stage(op) == 1;
  find_crossing(&pipeline);
  if (pipeline.failed) return false;
  if (pipeline.runs)
    write_runs(&pipeline, run);
  else if (ir_attribute(loop, ATTR_AHEAD))
    write_ahead(&pipeline);
  else
    write_loop(&pipeline);
  return !pipeline.failed;
}

static void collect(IrOp *op, void *data)
{
  if (op->code == OP_FOR && ir_attribute(op, ATTR_PIPELINED)) g_ptr_array_add(data, op);
}

bool pass_write_pipelines(IrModule *module, const IrPassContext *context, GError **error)
{
  (void)context;
  IrFunction *kernel = ir_kernel(module);
  g_autoptr(GPtrArray) loops = g_ptr_array_new();
  if (kernel) ir_region_visit(kernel->body, collect, loops);
  for (unsigned i = 0; i < loops->len; i++)
    if (!write_pipeline(module, loops->pdata[i], error)) return false;
  return true;
}
