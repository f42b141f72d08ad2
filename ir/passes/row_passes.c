/* Rows that are read in passes: a loop over chunks for each phase.
 *
 * A phase ends at the reductions that later operations need. Its loop computes what its reductions and stores need, from the
 * tensors again; a reduction's state is a tile of its own, as wide as the threads of a row with a vector each, which
 * merges with each piece of a chunk element by element; or one number a vector, which a chunk changes once, where the reducer
 * has parts for that (ir/reducer.h). Threads meet once a phase, behind the loop. Every other phase walks backwards, since the
 * end of the row is what is still in L2. */
#include "ir/facts.h"
#include "ir/passes/combiner.h"
#include "ir/passes/rows.h"
#include "ir/reducer.h"

typedef struct {
  Rows *rows;
  IrRegion *body;
  GPtrArray *ops;    /* IrOp*: the body's, in order */
  GHashTable *phase; /* IrOp* -> its phase */
  GHashTable *wide;  /* IrOp*: those of tiles as wide as the row */
  unsigned phases;
  IrExpr *whole;  /* columns in whole chunks */
  int64_t pieces; /* of a chunk */
  int64_t vector; /* elements of a piece that a thread has side by side; 1: it is not known */
} Passes;

typedef struct { /* of a reduction in the phase at hand */
  IrOp *reduce;
  IrExpr *state[COMBINER_MAX];
  const IrFunction *raise, *share; /* NULL: states merge with each element */
} Running;

typedef struct {
  Passes *passes;
  unsigned phase;
  GHashTable *needed; /* IrOp* */
  GArray *running;    /* Running */
} Phase;

static bool refuse(const Passes *passes, const IrOp *op)
{
  error_set(passes->rows->error, ERROR_UNSUPPORTED, &op->mark, "row", "`hold registers`",
            "`%s` of a row that is read in passes", ir_op_info(op->code)->name);
  return false;
}

/* ---- Phases ---- */

static bool is_wide_type(const Passes *passes, const IrType *type)
{
  int64_t every;
  return rows_part(passes->rows, type, &every);
}

static bool is_wide(const Passes *passes, const IrOp *op)
{
  for (unsigned i = 0; i < op->n_results; i++)
    if (is_wide_type(passes, &op->results[i]->type)) return true;
  for (unsigned i = 0; i < op->n_operands; i++) {
    IrType type = ir_expr_type(passes->rows->kernel, op->operands[i]);
    if (is_wide_type(passes, &type)) return true;
  }
  return false;
}

static void find_wide(IrOp *op, void *data)
{
  gpointer *search = data;
  if (!search[1] && is_wide(search[0], op)) search[1] = op;
}

static bool is_known(const IrOp *op)
{
  switch (op->code) {
  case OP_LOAD:
  case OP_STORE:
  case OP_REDUCE:
  case OP_SPREAD:
  case OP_SPLAT:
  case OP_IOTA: return true;
  default: return ir_op_is_elementwise(op->code);
  }
}

static unsigned phase_of(const Passes *passes, const IrOp *op)
{
  return GPOINTER_TO_UINT(g_hash_table_lookup(passes->phase, op));
}

static bool find_phases(Passes *passes)
{
  for (IrOp *op = passes->body->first; op; op = op->next) {
    gpointer search[2] = {passes, NULL};
    if (is_wide(passes, op)) g_hash_table_add(passes->wide, op);
    for (unsigned i = 0; i < op->n_regions && !search[1]; i++)
      ir_region_visit(op->regions[i], find_wide, search);
    if (search[1] || (g_hash_table_contains(passes->wide, op) && !is_known(op)))
      return refuse(passes, search[1] ? search[1] : op);
    unsigned phase = 0;
    for (unsigned i = 0; i < passes->ops->len; i++) {
      IrOp *before = passes->ops->pdata[i];
      for (unsigned r = 0; r < before->n_results; r++)
        if (ir_op_uses(op, before->results[r]))
          phase = MAX(phase, phase_of(passes, before) + rows_reduces(passes->rows, before));
    }
    g_hash_table_insert(passes->phase, op, GUINT_TO_POINTER(phase));
    passes->phases = MAX(passes->phases, phase + 1);
    g_ptr_array_add(passes->ops, op);
  }
  return true;
}

/* ---- One piece ---- */

static void need(Phase *phase, IrOp *op);

static void need_leaf(const IrExpr *expr, void *data)
{
  Phase *phase = data;
  IrOp *def = expr->kind == EXPR_VALUE ? expr->value->def : NULL;
  if (def && g_hash_table_contains(phase->passes->wide, def) && !rows_reduces(phase->passes->rows, def))
    need(phase, def);
}

static void need(Phase *phase, IrOp *op)
{
  if (!g_hash_table_add(phase->needed, op)) return;
  for (unsigned i = 0; i < op->n_operands; i++)
    ir_expr_visit(op->operands[i], need_leaf, phase);
  for (unsigned i = 0; i < op->n_attributes; i++)
    if (op->attributes[i].value) ir_expr_visit(op->attributes[i].value, need_leaf, phase);
}

typedef struct { /* of so many columns, from `first` on */
  IrExpr *first;
  bool masked;
  GHashTable *map; /* IrValue* of the body -> the piece's */
} Piece;

static IrExpr *first_of(const Passes *passes, const Piece *piece, int64_t every)
{
  IrModule *module = passes->rows->module;
  return every == 1 ? piece->first : ir_binary(module, OPERATOR_DIV, piece->first, ir_int(module, every));
}

/* The corner of a tensor, moved to the piece. */
static bool move_corner(const Passes *passes, const Piece *piece, IrOp *op, const IrType *tile)
{
  IrModule *module = passes->rows->module;
  IrExpr *access = op->operands[0];
  int64_t every;
  if (!rows_part(passes->rows, tile, &every)) return true;
  if (access->kind != EXPR_INDEX || access->n < 2) return refuse(passes, op);
  IrExpr **corner = arena_new_array(module->arena, IrExpr *, access->n);
  for (unsigned i = 1; i < access->n; i++)
    corner[i - 1] = access->items[i];
  corner[access->n - 2] =
      ir_binary(module, OPERATOR_ADD, first_of(passes, piece, every), corner[access->n - 2]);
  op->operands[0] = ir_index_array(module, access->items[0], access->n - 1, corner);
  return true;
}

static void count_from(const Passes *passes, Piece *piece, IrBuilder *builder, IrOp *iota,
                       const IrValue *whole)
{
  IrModule *module = passes->rows->module;
  IrValue *local = iota->results[0];
  int64_t every;
  if (!rows_part(passes->rows, &local->type, &every) ||
      ir_attribute_int(iota, ATTR_DIM, -1) != (int64_t)local->type.rank - 1)
    return;
  IrExpr *column = ir_emit_value(builder, OP_ADD, local->type, local->name, 2, ir_value(module, local),
                                 first_of(passes, piece, every));
  g_hash_table_insert(piece->map, (gpointer)whole, column);
}

static bool copy(const Passes *passes, Piece *piece, IrBuilder *builder, const IrOp *op)
{
  builder->mark = op->mark;
  IrOp *made = ir_op_clone(builder, op, piece->map);
  if (op->code == OP_LOAD) return move_corner(passes, piece, made, &made->results[0]->type);
  if (op->code == OP_STORE) {
    IrType tile = ir_expr_type(passes->rows->kernel, made->operands[1]);
    return move_corner(passes, piece, made, &tile);
  }
  if (op->code == OP_IOTA) count_from(passes, piece, builder, made, op->results[0]);
  if (op->code == OP_REDUCE && piece->masked) return rows_mask(passes->rows, made, piece->first);
  return true;
}

/* Does a tile count the row's columns? What broadcasts it may be added to nothing. */
static bool counts_columns(const IrExpr *x)
{
  const IrOp *def = x->kind == EXPR_VALUE && !x->value->variable ? x->value->def : NULL;
  int64_t nothing;
  if (!def) return false;
  if (def->code == OP_IOTA) return ir_attribute_int(def, ATTR_DIM, -1) == (int64_t)x->value->type.rank - 1;
  if (def->code != OP_ADD || def->operands[0]->kind != EXPR_VALUE) return false;
  const IrOp *blank = def->operands[0]->value->def;
  return blank && blank->code == OP_SPLAT && ir_expr_is_int(blank->operands[0], &nothing) && !nothing &&
         counts_columns(def->operands[1]);
}

/* Do pieces that follow one another have places in the same order? */
static bool is_in_order(const IrOp *reduce, bool forward)
{
  return forward && counts_columns(reduce->operands[reduce->n_operands - 1]);
}

/* What merged places in their order gives of the whole row. */
static bool settle(const Passes *passes, IrOp *reduce)
{
  IrModule *module = passes->rows->module;
  const IrExpr *with = ir_attribute_value(reduce, ATTR_WITH);
  const IrFunction *settled =
      with->kind == EXPR_SYMBOL ? ir_reducer_part(module, with->name, REDUCER_SETTLED) : NULL;
  IrExpr *state[COMBINER_MAX], *results[COMBINER_MAX];
  if (!settled || !ir_reducer_part(module, with->name, REDUCER_BEHIND)) return true;
  IrOp *behind = reduce->next;
  IrBuilder builder = ir_builder_after(reduce);
  builder.mark = reduce->mark;
  for (unsigned i = 0; i < reduce->n_results; i++)
    state[i] = ir_value(module, reduce->results[i]);
  const IrOp *wrong = ir_reducer_apply(&builder, settled, &reduce->results[0]->type, state, results);
  if (wrong) return refuse(passes, wrong);
  for (unsigned i = 0; i < reduce->n_results; i++) {
    if (ir_expr_equal(results[i], state[i])) continue;
    ir_replace_uses(passes->body, reduce->results[i], results[i]);
    for (IrOp *op = reduce->next; op != behind; op = op->next) /* what settles it takes it as it was */
      for (unsigned j = 0; j < op->n_operands; j++)
        if (ir_expr_equal(op->operands[j], results[i])) op->operands[j] = state[i];
  }
  return true;
}

/* The state and the piece become the state. `forward`: pieces follow one another. */
static bool merge(const Passes *passes, Piece *piece, IrBuilder *builder, const Running *running,
                  bool forward)
{
  Rows *rows = passes->rows;
  IrExpr *state[COMBINER_MAX], *part[COMBINER_MAX];
  builder->mark = running->reduce->mark;
  IrOp *local = ir_op_clone(builder, running->reduce, piece->map); /* for its operands alone */
  if (piece->masked && !rows_mask(rows, local, piece->first)) return false;
  for (unsigned i = 0; i < local->n_operands; i++) {
    part[i] = local->operands[i];
    state[i] = running->state[i];
  }
  IrType shape = ir_expr_type(rows->kernel, part[0]);
  ir_op_remove(local);
  bool behind = is_in_order(running->reduce, forward);
  if (!combiner_apply(builder, running->reduce, &shape, behind, state, part, rows->error)) return false;
  for (unsigned i = 0; i < running->reduce->n_operands; i++)
    ir_emit(builder, OP_SET, 2, running->state[i], state[i]);
  return true;
}

/* ---- States that change once a chunk ---- */

/* The type of one number for each vector of a piece. */
static IrType joint_type(const Passes *passes, const IrType *wide)
{
  IrType type = *wide;
  type.dims[type.rank - 1] = ir_int(passes->rows->module, passes->rows->extent / passes->vector);
  return type;
}

static IrExpr *emit_every(const Passes *passes, IrBuilder *builder, IrExpr *x, const char *with)
{
  IrModule *module = passes->rows->module;
  IrType wide = ir_expr_type(passes->rows->kernel, x), type = joint_type(passes, &wide);
  IrExpr *result = ir_emit_value(builder, OP_REDUCE, type, with, 1, x);
  ir_attribute_set(result->value->def, ATTR_WITH, ir_name(module, with));
  ir_attribute_set(result->value->def, ATTR_DIM, ir_int(module, type.rank - 1));
  ir_attribute_set(result->value->def, ATTR_EVERY, ir_int(module, passes->vector));
  return result;
}

static IrExpr *emit_spread(const Passes *passes, IrBuilder *builder, IrExpr *x, const IrType *wide)
{
  IrModule *module = passes->rows->module;
  IrExpr *result = ir_emit_value(builder, OP_SPREAD, *wide, "base", 1, x);
  ir_attribute_set(result->value->def, ATTR_DIM, ir_int(module, wide->rank - 1));
  ir_attribute_set(result->value->def, ATTR_EVERY, ir_int(module, passes->vector));
  return result;
}

/* What a reduction takes of a piece, with nothing beyond the row. NULL: *error. */
static IrExpr *element_of(const Passes *passes, Piece *piece, IrBuilder *builder, const Running *running)
{
  IrOp *local = ir_op_clone(builder, running->reduce, piece->map); /* for its operands alone */
  bool ok = !piece->masked || rows_mask(passes->rows, local, piece->first);
  IrExpr *x = local->operands[0];
  ir_op_remove(local);
  return ok ? x : NULL;
}

/* The largest of all pieces' elements that a thread has as vectors of the same place, then one change of the state, then what they all add. */
static bool join(const Passes *passes, Piece *pieces, int64_t n, IrBuilder *builder, const Running *running)
{
  g_autofree IrExpr **x = g_new0(IrExpr *, n);
  IrExpr *most = NULL, *sum = NULL, *raised[3], *arguments[3];
  builder->mark = running->reduce->mark;
  for (int64_t i = 0; i < n; i++)
    if (!(x[i] = element_of(passes, &pieces[i], builder, running))) return false;
  IrType wide = ir_expr_type(passes->rows->kernel, x[0]), narrow = joint_type(passes, &wide);
  for (int64_t i = 0; i < n; i++) {
    most = most ? ir_emit_value(builder, OP_MAX, wide, "most", 2, most, x[i]) : x[i];
    if (i) ir_attribute_set(most->value->def, ATTR_NAN, NULL);
  }
  arguments[0] = running->state[0];
  arguments[1] = running->state[1];
  arguments[2] = emit_every(passes, builder, most, "max");
  const IrOp *wrong = ir_reducer_apply(builder, running->raise, &narrow, arguments, raised);
  IrExpr *base = wrong ? NULL : emit_spread(passes, builder, raised[2], &wide);
  for (int64_t i = 0; i < n && !wrong; i++) {
    IrExpr *share, *of[] = {x[i], base};
    wrong = ir_reducer_apply(builder, running->share, &wide, of, &share);
    if (!wrong) sum = sum ? ir_emit_value(builder, OP_ADD, wide, "sum", 2, sum, share) : share;
  }
  if (wrong) return refuse(passes, wrong);
  IrExpr *more = emit_every(passes, builder, sum, "sum");
  more = ir_emit_value(builder, OP_ADD, narrow, "sum", 2, raised[1], more);
  ir_emit(builder, OP_SET, 2, running->state[0], raised[0]);
  ir_emit(builder, OP_SET, 2, running->state[1], more);
  return true;
}

static const Running *running_of(const Phase *phase, const IrOp *reduce)
{
  for (unsigned i = 0; i < phase->running->len; i++) {
    const Running *running = &g_array_index(phase->running, Running, i);
    if (running->reduce == reduce) return running;
  }
  return NULL;
}

/* Pieces of a chunk, or fewer, of which some have columns that do not lie in the row, from `masked` on, and the first where `begins`: what
 * is loaded for all of them comes first. */
static bool write_pieces(const Phase *phase, IrBuilder *builder, IrExpr *first, int64_t n, int64_t masked,
                         bool begins)
{
  const Passes *passes = phase->passes;
  IrModule *module = passes->rows->module;
  g_autofree Piece *pieces = g_new0(Piece, n);
  bool ok = true;
  for (int64_t i = 0; i < n; i++)
    pieces[i] = (Piece){ir_binary(module, OPERATOR_ADD, first, ir_int(module, i * passes->rows->extent)),
                        i >= masked || (begins && !i), g_hash_table_new(NULL, NULL)};
  for (int64_t i = 0; i < n && ok; i++)
    for (unsigned j = 0; j < passes->ops->len && ok; j++) {
      IrOp *op = passes->ops->pdata[j];
      if (op->code == OP_LOAD && g_hash_table_contains(phase->needed, op))
        ok = copy(passes, &pieces[i], builder, op);
    }
  for (int64_t i = 0; i < n && ok; i++)
    for (unsigned j = 0; j < passes->ops->len && ok; j++) {
      IrOp *op = passes->ops->pdata[j];
      const Running *running = running_of(phase, op);
      if (op->code == OP_LOAD || !g_hash_table_contains(phase->needed, op)) continue;
      if (running && running->raise) continue;
      ok = running ? merge(passes, &pieces[i], builder, running, phase->phase % 2 == 0)
                   : copy(passes, &pieces[i], builder, op);
    }
  for (unsigned j = 0; j < phase->running->len && ok; j++) {
    const Running *running = &g_array_index(phase->running, Running, j);
    if (running->raise) ok = join(passes, pieces, n, builder, running);
  }
  for (int64_t i = 0; i < n; i++)
    g_hash_table_unref(pieces[i].map);
  return ok;
}

/* ---- The loop of a phase ---- */

/* Rows that begin anywhere: a tile begins in front of them, so that the first chunk is no whole one. */
static bool is_led(const Passes *passes)
{
  return passes->rows->begin && passes->rows->begin->kind == EXPR_VALUE;
}

static int64_t chunk_of(const Passes *passes)
{
  return passes->pieces * passes->rows->extent;
}

static bool write_begin(const Phase *phase, IrBuilder *builder)
{
  const Passes *passes = phase->passes;
  const Rows *rows = passes->rows;
  return !is_led(passes) || write_pieces(phase, builder, ir_int(rows->module, 0), passes->pieces,
                                         rows->width / rows->extent, true);
}

static bool write_whole_chunks(const Phase *phase, IrBuilder *builder)
{
  const Passes *passes = phase->passes;
  IrModule *module = passes->rows->module;
  int64_t chunk = chunk_of(passes), low = is_led(passes) ? chunk : 0, whole;
  bool backwards = phase->phase % 2;
  if (ir_expr_is_int(passes->whole, &whole) && whole <= low + chunk)
    return whole <= low ||
           write_pieces(phase, builder, ir_int(module, low), passes->pieces, passes->pieces, false);
  IrOp *loop = ir_emit(builder, OP_FOR, 3, ir_int(module, low), passes->whole, ir_int(module, chunk));
  IrRegion *region = ir_region_add(loop);
  IrExpr *at = ir_value(module, ir_argument_add(region, "at", ir_scalar(NUMBER_S32)));
  IrBuilder inner = ir_builder_at_end(region);
  inner.mark = builder->mark;
  IrExpr *last = ir_binary(module, OPERATOR_SUB, passes->whole, ir_int(module, chunk - low));
  return write_pieces(phase, &inner, backwards ? ir_binary(module, OPERATOR_SUB, last, at) : at,
                      passes->pieces, passes->pieces, false);
}

/* What is left of the row behind its whole chunks: as many columns more as the first chunk has in front of the row. */
static bool write_led_rest(const Phase *phase, IrBuilder *builder)
{
  const Passes *passes = phase->passes;
  const Rows *rows = passes->rows;
  IrModule *module = rows->module;
  int64_t chunk = chunk_of(passes), extent = rows->extent;
  if (rows->width) {
    int64_t first = MAX(rows->width / chunk, 1) * chunk, rest = rows->width + rows->lead - 1 - first;
    return rest <= 0 ||
           write_pieces(phase, builder, ir_int(module, first), (rest + extent - 1) / extent, 0, false);
  }
  IrExpr *first = ir_call(module, "max", 2, passes->whole, ir_int(module, chunk));
  IrExpr *left = ir_binary(module, OPERATOR_SUB, rows->columns, rows->begin);
  IrOp *some = ir_emit(builder, OP_IF, 1, ir_binary(module, OPERATOR_LT, first, left));
  IrBuilder inner = ir_builder_at_end(ir_region_add(some));
  inner.mark = builder->mark;
  return write_pieces(phase, &inner, first, passes->pieces + 1, 0, false);
}

/* What is left of the row behind its whole chunks. */
static bool write_rest(const Phase *phase, IrBuilder *builder)
{
  const Passes *passes = phase->passes;
  const Rows *rows = passes->rows;
  int64_t extent = rows->extent;
  if (is_led(passes)) return write_led_rest(phase, builder);
  if (rows->width) {
    int64_t rest = rows->width % (passes->pieces * extent);
    return !rest ||
           write_pieces(phase, builder, passes->whole, (rest + extent - 1) / extent, rest / extent, false);
  }
  IrOp *some = ir_emit(builder, OP_IF, 1, ir_binary(rows->module, OPERATOR_LT, passes->whole, rows->columns));
  IrBuilder inner = ir_builder_at_end(ir_region_add(some));
  inner.mark = builder->mark;
  return write_pieces(phase, &inner, passes->whole, passes->pieces, 0, false);
}

/* Reductions whose states a whole chunk may change at once, where threads have whole vectors. */
static void find_joint(const Passes *passes, Running *running)
{
  const IrExpr *with = ir_attribute_value(running->reduce, ATTR_WITH);
  const Rows *rows = passes->rows;
  if (with->kind != EXPR_SYMBOL || running->reduce->n_operands != 2 || passes->vector < 2) return;
  if (rows->width == rows->extent / passes->vector) return; /* which would be a row's extent */
  const IrFunction *raise = ir_reducer_part(rows->module, with->name, REDUCER_RAISE),
                   *share = ir_reducer_part(rows->module, with->name, REDUCER_SHARE);
  if (!raise || !share || raise->n_parameters != 3 || raise->n_results != 3 || share->n_parameters != 2)
    return;
  running->raise = raise;
  running->share = share;
}

static bool declare_state(Phase *phase, IrBuilder *builder, IrOp *reduce)
{
  const Passes *passes = phase->passes;
  const Rows *rows = passes->rows;
  Running running = {.reduce = reduce};
  find_joint(passes, &running);
  if (reduce->n_operands > COMBINER_MAX || ir_attribute(reduce, ATTR_SCOPE))
    return refuse(phase->passes, reduce);
  builder->mark = reduce->mark;
  for (unsigned i = 0; i < reduce->n_operands; i++) {
    IrExpr *identity = rows_identity(rows, reduce, i);
    if (!identity) return false;
    IrType type = ir_expr_type(rows->kernel, reduce->operands[i]);
    if (running.raise) type = joint_type(passes, &type);
    running.state[i] = ir_emit_value(builder, OP_VAR, type, reduce->results[i]->name, 1, identity);
    running.state[i]->value->variable = true;
  }
  g_array_append_val(phase->running, running);
  return true;
}

static bool write_phase(Phase *phase, IrBuilder *builder)
{
  Passes *passes = phase->passes;
  bool some = false;
  for (unsigned i = 0; i < passes->ops->len; i++) {
    IrOp *op = passes->ops->pdata[i];
    if (phase_of(passes, op) != phase->phase) continue;
    bool wide = g_hash_table_contains(passes->wide, op), reduces = rows_reduces(passes->rows, op);
    if (!wide) ir_op_move(op, passes->body, NULL);
    if (!wide || !(reduces || op->code == OP_STORE)) continue;
    some = true;
    need(phase, op);
    if (reduces && !declare_state(phase, builder, op)) return false;
  }
  if (!some) return true;
  bool backwards = phase->phase % 2;
  if (backwards ? !write_rest(phase, builder) : !write_begin(phase, builder)) return false;
  if (!write_whole_chunks(phase, builder)) return false;
  if (backwards ? !write_begin(phase, builder) : !write_rest(phase, builder)) return false;
  for (unsigned i = 0; i < phase->running->len; i++) {
    const Running *running = &g_array_index(phase->running, Running, i);
    bool in_order = is_in_order(running->reduce, !backwards);
    ir_op_move(running->reduce, passes->body, NULL);
    g_hash_table_remove(passes->wide, running->reduce); /* it takes states, perhaps of many elements each */
    for (unsigned j = 0; j < running->reduce->n_operands; j++)
      running->reduce->operands[j] = running->state[j];
    if (in_order && !settle(passes, running->reduce)) return false;
  }
  return true;
}

static bool write_phases(Passes *passes)
{
  IrBuilder builder = ir_builder_at_end(passes->body);
  builder.mark = passes->rows->tiles->mark;
  bool ok = true;
  for (unsigned p = 0; p < passes->phases && ok; p++) {
    Phase phase = {passes, p, g_hash_table_new(NULL, NULL), g_array_new(false, false, sizeof(Running))};
    ok = write_phase(&phase, &builder);
    g_hash_table_unref(phase.needed);
    g_array_unref(phase.running);
  }
  for (unsigned i = 0; i < passes->ops->len && ok; i++) {
    IrOp *op = passes->ops->pdata[i];
    if (g_hash_table_contains(passes->wide, op) && !rows_reduces(passes->rows, op)) ir_op_remove(op);
  }
  return ok;
}

/* Columns in whole chunks: a constant, or a value in front of everything. */
static void open_chunks(Passes *passes)
{
  Rows *rows = passes->rows;
  IrModule *module = rows->module;
  int64_t wanted = ir_attribute_int(rows->tiles, ATTR_CHUNK, 1);
  passes->pieces = MAX(1, wanted / rows->extent);
  int64_t threads = ir_launch_threads(rows->kernel);
  passes->vector = rows->extent % threads || rows->every->len ? 1 : rows->extent / threads;
  IrExpr *chunk = ir_int(module, passes->pieces * rows->extent);
  IrExpr *count = ir_binary(module, OPERATOR_DIV, rows->columns, chunk);
  passes->whole = ir_binary(module, OPERATOR_MUL, count, chunk);
  if (rows->width) return;
  IrBuilder builder = ir_builder_before(rows->tiles);
  builder.mark = rows->tiles->mark;
  passes->whole = ir_emit_value(&builder, OP_LET, ir_scalar(NUMBER_S32), "whole", 1, passes->whole);
}

static void collect(IrOp *op, void *data)
{
  g_ptr_array_add(data, op);
}

bool rows_place_passes(Rows *rows)
{
  if (!rows_write_reducers(rows, false)) return false;
  g_autoptr(GPtrArray) ops = g_ptr_array_new();
  g_autoptr(GHashTable) phase = g_hash_table_new(NULL, NULL);
  g_autoptr(GHashTable) wide = g_hash_table_new(NULL, NULL);
  Passes passes = {.rows = rows, .body = rows->tiles->regions[0], .ops = ops, .phase = phase, .wide = wide};
  if (!find_phases(&passes)) return false;
  open_chunks(&passes);
  if (!write_phases(&passes)) return false;
  g_autoptr(GPtrArray) all = g_ptr_array_new();
  ir_region_visit(passes.body, collect, all);
  rows_set_extents(rows, all);
  ir_remark(rows->context, "rows are read in %u passes, by chunks of %d elements", passes.phases,
            (int)(passes.pieces * rows->extent));
  return true;
}
