/* A part of write_pipelines: a stage that runs apart from its iteration, from within loops of it too.
 *
 * With `ahead guarded` stage 0 is that of the next iteration, if there is one; in front of the loop stands that of the first.
 * With `behind` stage 1 is that of the iteration before, if there was one; behind the loop stands that of the last. What
 * runs apart stands in any number of places of the body and of loops in it that name no stage themselves: beside whatever
 * steps it is to overlap with. Where it stands alone such a loop has nothing else in it and counts from 0, if its bounds are
 * known; what asks for one of the steps (`if %k == 64`) is written out.
 *
 * Numbers without a stage are computed again for the next iteration. What crosses to a later one lies in variables: set
 * behind what computes it and the last that reads the one before; what was a variable, where the iteration ends. */
#include "ir/affine.h"
#include "ir/passes/pipelines.h"

typedef struct {
  IrModule *module;
  IrOp *loop;
  const IrValue *index;
  int64_t apart;       /* the stage that runs apart */
  GPtrArray *crossing; /* IrValue*: of the body, read by stage 1 an iteration later */
  GPtrArray *kept;     /* IrExpr*: the variables in which they lie */
  GHashTable *here;    /* IrValue* -> IrExpr*, of the iteration at hand */
  GHashTable *there;   /* the same of the iteration that what runs apart belongs to */
} Nested;

static void find_stage(IrOp *op, void *data)
{
  *(bool *)data |= ir_attribute(op, ATTR_STAGE) != NULL;
}

/* A loop in whose body operations name the stages of the loop around it. */
static bool holds_stages(const IrOp *op)
{
  bool found = false;
  if (op->code != OP_FOR || ir_attribute(op, ATTR_STAGE) || ir_attribute(op, ATTR_PIPELINED)) return false;
  ir_region_visit(op->regions[0], find_stage, &found);
  return found;
}

bool pipeline_is_nested(const IrOp *loop)
{
  bool nested = ir_attribute(loop, ATTR_BEHIND) != NULL;
  for (const IrOp *op = loop->regions[0]->first; op && !nested; op = op->next)
    nested = holds_stages(op);
  return nested;
}

/* ---- Who reads what ---- */

typedef struct {
  const IrValue *value;
  bool found;
} Mention;

static void find_mention(const IrExpr *expr, void *data)
{
  Mention *mention = data;
  mention->found |= expr->kind == EXPR_VALUE && expr->value == mention->value;
}

/* Does an op itself, or one in its regions, read the value in a stage? One without a stage reads it in both. */
static bool reads_in(const IrOp *op, const IrValue *value, int64_t stage)
{
  if (pipeline_stage(op) != NO_STAGE) return pipeline_stage(op) == stage && ir_op_uses((IrOp *)op, value);
  if (!holds_stages(op)) return ir_op_uses((IrOp *)op, value);
  Mention mention = {value, false};
  for (unsigned i = 0; i < op->n_operands; i++)
    ir_expr_visit(op->operands[i], find_mention, &mention);
  for (const IrOp *inner = op->regions[0]->first; inner && !mention.found; inner = inner->next)
    mention.found = reads_in(inner, value, stage);
  return mention.found;
}

typedef struct {
  Nested *nested;
  int64_t stage;     /* of who reads */
  const IrOp *outer; /* who names it: `op`, or what that stands in */
  const IrOp *op;    /* who reads */
  GError **error;
  bool failed;
} Reading;

static void refuse(Reading *reading, const char *what)
{
  if (!reading->failed) pipeline_refuse(reading->op, what, reading->error);
  reading->failed = true;
}

/* What runs apart in a loop within belongs to another iteration than what else is computed there. */
static void read_within(Reading *reading, int64_t from)
{
  bool both = from == NO_STAGE && reading->stage != reading->nested->apart;
  if (reading->stage != from && !both) refuse(reading, "what a loop in it computes another stage reads");
}

static void read_ahead(Reading *reading, const IrOp *def)
{
  int64_t from = pipeline_stage(def);
  if (from == 0 && reading->stage != 0)
    refuse(reading, "a value that both stages read can be kept in another form of pipeline only");
  if (from == NO_STAGE && reading->stage == 0 && def->code != OP_LET)
    refuse(reading, "what runs ahead reads what is computed once for both iterations");
}

static void read_behind(Reading *reading, IrValue *value)
{
  GPtrArray *crossing = reading->nested->crossing;
  int64_t from = pipeline_stage(value->def);
  if (reading->stage == 0 || from == 1 || (from == NO_STAGE && reading->stage == NO_STAGE)) return;
  if (value->type.kind == TYPE_CURSOR)
    refuse(reading, "a cursor that both stages move has to be declared in front of it");
  if (!g_ptr_array_find(crossing, value, NULL)) g_ptr_array_add(crossing, value);
}

/* Where it runs apart a stage stands in conditions, which nothing leaves. */
static void read_apart(Reading *reading, const IrOp *def)
{
  while (def && def != reading->outer && pipeline_stage(def) == reading->stage)
    def = def->next;
  if (def != reading->outer) refuse(reading, "what runs apart is computed in one place, and read in another");
}

static void read_value(const IrExpr *expr, void *data)
{
  Reading *reading = data;
  const IrOp *def = expr->kind == EXPR_VALUE ? expr->value->def : NULL;
  if (!def || !def->parent->owner) return;
  bool apart = reading->stage == reading->nested->apart && pipeline_stage(def) == reading->stage;
  if (apart) read_apart(reading, def);
  if (def->parent->owner != reading->nested->loop) {
    if (holds_stages(def->parent->owner)) read_within(reading, pipeline_stage(def));
    return;
  }
  if (pipeline_stage(def) == 1 && reading->stage != 1)
    refuse(reading, "what one stage computes an earlier one reads");
  if (reading->nested->apart)
    read_behind(reading, expr->value);
  else
    read_ahead(reading, def);
}

static void read_operands(IrOp *op, void *data)
{
  Reading *reading = data;
  reading->op = op;
  for (unsigned i = 0; i < op->n_operands; i++)
    ir_expr_visit(op->operands[i], read_value, reading);
  for (unsigned i = 0; i < op->n_attributes; i++)
    if (op->attributes[i].value) ir_expr_visit(op->attributes[i].value, read_value, reading);
}

/* Notes what stage 1 reads an iteration later; false where what one stage computes the other cannot have. */
static bool find_crossing(Nested *nested, const IrRegion *region, GError **error)
{
  for (IrOp *op = region->first; op; op = op->next) {
    Reading reading = {.nested = nested, .stage = pipeline_stage(op), .outer = op, .error = error};
    read_operands(op, &reading);
    for (unsigned i = 0; i < op->n_regions && !holds_stages(op); i++)
      ir_region_visit(op->regions[i], read_operands, &reading);
    if (reading.failed) return false;
    if (holds_stages(op) && !find_crossing(nested, op->regions[0], error)) return false;
  }
  return true;
}

/* ---- What stands alone: in front of the loop, or behind it ---- */

static void forget_stage(IrOp *op, void *data)
{
  (void)data;
  ir_attribute_remove(op, ATTR_STAGE);
}

static IrOp *emit(IrBuilder *builder, const IrOp *op, GHashTable *map)
{
  builder->mark = op->mark;
  IrOp *copy = ir_op_clone(builder, op, map);
  forget_stage(copy, NULL);
  for (unsigned i = 0; i < copy->n_regions; i++)
    ir_region_visit(copy->regions[i], forget_stage, NULL);
  return copy;
}

static IrExpr *mapped(const IrExpr *leaf, void *map)
{
  return leaf->kind == EXPR_VALUE ? g_hash_table_lookup(map, leaf->value) : NULL;
}

/* An empty loop of the bounds of another, its index known to both maps; returns where its body goes. */
static IrBuilder open_loop(IrBuilder *builder, const IrOp *loop, GHashTable *map, GHashTable *other)
{
  IrModule *module = builder->module;
  builder->mark = loop->mark;
  IrExpr *bounds[3];
  for (unsigned i = 0; i < loop->n_operands; i++)
    bounds[i] = ir_expr_map(module, loop->operands[i], mapped, map);
  IrOp *copy = ir_emit_array(builder, OP_FOR, loop->n_operands, bounds);
  for (unsigned i = 0; i < loop->n_attributes; i++)
    ir_attribute_set(copy, loop->attributes[i].key, loop->attributes[i].value);
  const IrValue *index = loop->regions[0]->arguments[0];
  IrRegion *region = ir_region_add(copy);
  IrExpr *own = ir_value(module, ir_argument_add(region, index->name, index->type));
  g_hash_table_insert(map, (gpointer)index, own);
  if (other) g_hash_table_insert(other, (gpointer)index, own);
  IrBuilder inner = ir_builder_at_end(region);
  inner.mark = builder->mark;
  return inner;
}

/* Bounds and step of a loop, if all are known. */
static bool known_bounds(const IrOp *loop, int64_t *low, int64_t *high, int64_t *step)
{
  *step = 1;
  return ir_expr_is_int(loop->operands[0], low) && ir_expr_is_int(loop->operands[1], high) &&
         (loop->n_operands < 3 || ir_expr_is_int(loop->operands[2], step)) && *step >= 1;
}

static bool is_any(const IrExpr *leaf, void *data)
{
  (void)leaf;
  (void)data;
  return true;
}

/* Sums over the loop's index, coordinates above all, lose what cancels out. */
static IrExpr *simplified(IrModule *module, IrExpr *expr, const IrValue *index)
{
  Mention mention = {index, false};
  Affine form = {0};
  ir_expr_visit(expr, find_mention, &mention);
  if (!mention.found || expr->kind == EXPR_VALUE) return expr;
  if (expr->kind == EXPR_BINARY && affine_of(expr, is_any, NULL, &form)) return affine_expr(module, &form, 1);
  if (expr->kind != EXPR_INDEX) return expr;
  IrExpr **items = arena_new_array(module->arena, IrExpr *, expr->n);
  for (unsigned i = 1; i < expr->n; i++)
    items[i - 1] = simplified(module, expr->items[i], index);
  return ir_index_array(module, expr->items[0], expr->n - 1, items);
}

/* A loop's iterations counted from 0, where its bounds are known: nothing else in it says that they are those of another. */
static IrBuilder open_from_zero(IrBuilder *builder, const IrOp *loop, GHashTable *map)
{
  IrModule *module = builder->module;
  int64_t low, high, step;
  if (!known_bounds(loop, &low, &high, &step)) return open_loop(builder, loop, map, NULL);
  builder->mark = loop->mark;
  int64_t trips = MAX(0, (high - low) / step + ((high - low) % step > 0));
  IrOp *copy = ir_emit(builder, OP_FOR, 3, ir_int(module, 0), ir_int(module, trips), ir_int(module, 1));
  const IrValue *index = loop->regions[0]->arguments[0];
  IrBuilder inner = ir_builder_at_end(ir_region_add(copy));
  inner.mark = builder->mark;
  IrExpr *from_zero = ir_value(module, ir_argument_add(inner.region, index->name, index->type));
  IrExpr *far = ir_binary(module, OPERATOR_MUL, from_zero, ir_int(module, step));
  g_hash_table_insert(map, (gpointer)index, ir_binary(module, OPERATOR_ADD, far, ir_int(module, low)));
  return inner;
}

static bool has_stage(const IrRegion *region, int64_t stage)
{
  for (const IrOp *op = region->first; op; op = op->next)
    if (pipeline_stage(op) == stage || (holds_stages(op) && has_stage(op->regions[0], stage))) return true;
  return false;
}

/* `if %index == 64`: the step that it asks for. */
static bool asks_for_step(const IrOp *loop, const IrOp *op, int64_t *step)
{
  const IrExpr *condition = op->code == OP_IF && op->n_regions == 1 ? op->operands[0] : NULL;
  return condition && condition->kind == EXPR_BINARY && condition->operator_ == OPERATOR_EQ &&
         condition->items[0]->kind == EXPR_VALUE &&
         condition->items[0]->value == loop->regions[0]->arguments[0] &&
         ir_expr_is_int(condition->items[1], step);
}

typedef struct {
  const IrOp *op;
  int64_t step;
} Single;

static int by_step(const void *a, const void *b)
{
  const Single *x = a, *y = b;
  return (x->step > y->step) - (x->step < y->step);
}

/* Does every op of the stage in the loop ask for one step, and is there no other? Then `singles` (Single) has them in the order
 * in which they run. */
static bool runs_in_single_steps(const Nested *nested, const IrOp *loop, GArray *singles)
{
  int64_t low, high, step, at;
  if (!known_bounds(loop, &low, &high, &step)) return false;
  for (const IrOp *op = loop->regions[0]->first; op; op = op->next) {
    int64_t stage = pipeline_stage(op);
    if (stage == 1 - nested->apart) continue;
    if (stage == NO_STAGE || !asks_for_step(loop, op, &at)) return false;
    if (at >= low && at < high && (at - low) % step == 0) g_array_append_val(singles, ((Single){op, at}));
  }
  g_array_sort(singles, by_step);
  return true;
}

static void simplify(IrOp *op)
{
  const IrRegion *body = op->parent;
  if (!body->owner || body->owner->code != OP_FOR) return;
  for (unsigned i = 0; i < op->n_operands; i++)
    op->operands[i] = simplified(body->function->module, op->operands[i], body->arguments[0]);
}

/* What runs apart, and what has no stage, of a region, by itself. */
static void write_alone(const Nested *nested, IrBuilder *builder, const IrRegion *region, GHashTable *map)
{
  for (const IrOp *op = region->first; op; op = op->next) {
    g_autoptr(GArray) singles = g_array_new(FALSE, FALSE, sizeof(Single));
    if (pipeline_stage(op) == 1 - nested->apart ||
        (holds_stages(op) && !has_stage(op->regions[0], nested->apart)))
      continue;
    if (!holds_stages(op)) {
      simplify(emit(builder, op, map));
    } else if (runs_in_single_steps(nested, op, singles)) {
      for (unsigned i = 0; i < singles->len; i++) {
        const Single *single = &g_array_index(singles, Single, i);
        g_hash_table_insert(map, op->regions[0]->arguments[0], ir_int(nested->module, single->step));
        for (const IrOp *inner = single->op->regions[0]->first; inner; inner = inner->next)
          emit(builder, inner, map);
      }
    } else {
      IrBuilder inner = open_from_zero(builder, op, map);
      write_alone(nested, &inner, op->regions[0], map);
    }
  }
}

/* ---- The loop ---- */

static IrBuilder open_if(IrBuilder *builder, IrExpr *condition)
{
  IrBuilder inner = ir_builder_at_end(ir_region_add(ir_emit(builder, OP_IF, 1, condition)));
  inner.mark = builder->mark;
  return inner;
}

/* Is there an iteration that what runs apart belongs to? */
static IrExpr *has_other(const Nested *nested)
{
  const IrOp *loop = nested->loop;
  IrExpr *index = g_hash_table_lookup(nested->apart ? nested->here : nested->there, nested->index);
  return ir_binary(nested->module, nested->apart ? OPERATOR_NE : OPERATOR_LT, index,
                   loop->operands[nested->apart ? 0 : 1]);
}

/* The next iteration's index, and the numbers that are computed of it. */
static void compute_next(const Nested *nested, IrBuilder *builder, const IrOp *until)
{
  if (g_hash_table_contains(nested->there, nested->index)) return;
  builder->mark = nested->loop->mark;
  IrExpr *index = g_hash_table_lookup(nested->here, nested->index);
  IrExpr *sum = ir_binary(nested->module, OPERATOR_ADD, index, pipeline_step(nested->loop));
  g_hash_table_insert(nested->there, (gpointer)nested->index,
                      ir_emit_value(builder, OP_LET, nested->index->type, "next", 1, sum));
  for (const IrOp *op = nested->loop->regions[0]->first; op != until; op = op->next)
    if (op->code == OP_LET && pipeline_stage(op) == NO_STAGE) emit(builder, op, nested->there);
}

static void set_kept(const Nested *nested, IrBuilder *builder, unsigned i)
{
  ir_emit(builder, OP_SET, 2, (IrExpr *)nested->kept->pdata[i],
          (IrExpr *)g_hash_table_lookup(nested->here, nested->crossing->pdata[i]));
}

/* The last op of the body that gives a value, or reads the one before of it. */
static const IrOp *last_reader(const IrValue *value)
{
  const IrOp *last = value->def;
  for (const IrOp *op = last->next; op; op = op->next)
    if (pipeline_stage(op) != 0 && reads_in(op, value, 1)) last = op;
  return last;
}

static bool stands_behind(const IrOp *op, const IrOp *other)
{
  for (op = op->previous; op && op != other;)
    op = op->previous;
  return op != NULL;
}

/* Behind which op of the body a value is kept: numbers together with the tile that is read in front of them, whose registers
 * are what it is about. */
static const IrOp *place_of(const Nested *nested, unsigned i)
{
  const IrValue *value = nested->crossing->pdata[i], *tile = value;
  const IrOp *last = last_reader(value);
  while (tile->type.kind != TYPE_TILE && i > 0)
    tile = nested->crossing->pdata[--i];
  if (tile == value || tile->type.kind != TYPE_TILE || tile->variable) return last;
  const IrOp *with = last_reader(tile);
  return stands_behind(with, last) ? with : last;
}

static void keep_behind(const Nested *nested, IrBuilder *builder, const IrOp *op)
{
  for (unsigned i = 0; i < nested->crossing->len; i++) {
    const IrValue *value = nested->crossing->pdata[i];
    if (!value->variable && place_of(nested, i) == op) set_kept(nested, builder, i);
  }
}

/* Both stages of a region. */
static void write_both(const Nested *nested, IrBuilder *builder, const IrRegion *region)
{
  bool outer = region == nested->loop->regions[0];
  for (const IrOp *op = region->first, *next; op; op = next) {
    bool apart = pipeline_stage(op) == nested->apart;
    if (outer && !nested->apart && (apart || (holds_stages(op) && has_stage(op->regions[0], 0))))
      compute_next(nested, builder, op);
    next = op->next;
    builder->mark = op->mark;
    if (apart) {
      IrBuilder guarded = open_if(builder, has_other(nested));
      for (next = op; next && pipeline_stage(next) == nested->apart; next = next->next)
        emit(&guarded, next, nested->there);
    } else if (holds_stages(op)) {
      IrBuilder inner = open_loop(builder, op, nested->here, nested->there);
      write_both(nested, &inner, op->regions[0]);
    } else {
      emit(builder, op, nested->here);
    }
    for (; outer && op != next; op = op->next)
      keep_behind(nested, builder, op);
  }
}

static void declare_kept(Nested *nested)
{
  IrBuilder builder = ir_builder_before(nested->loop);
  builder.mark = nested->loop->mark;
  for (unsigned i = 0; i < nested->crossing->len; i++) {
    const IrValue *value = nested->crossing->pdata[i];
    bool tile = value->type.kind == TYPE_TILE;
    IrOp *op = tile ? ir_emit(&builder, OP_VAR, 0) : ir_emit(&builder, OP_VAR, 1, ir_int(nested->module, 0));
    IrValue *variable = ir_result(op, "held", value->type);
    variable->variable = true;
    g_ptr_array_add(nested->kept, ir_value(nested->module, variable));
  }
}

static void write_steady(Nested *nested)
{
  IrModule *module = nested->module;
  IrOp *loop = nested->loop;
  IrBuilder builder = ir_builder_before(loop);
  builder.mark = loop->mark;
  IrOp *steady = ir_emit(&builder, OP_FOR, 3, loop->operands[0], loop->operands[1], pipeline_step(loop));
  IrRegion *region = ir_region_add(steady);
  IrExpr *index = ir_value(module, ir_argument_add(region, nested->index->name, nested->index->type));
  g_hash_table_insert(nested->here, (gpointer)nested->index, index);
  if (nested->apart)
    g_hash_table_insert(nested->there, (gpointer)nested->index,
                        ir_binary(module, OPERATOR_SUB, index, pipeline_step(loop)));
  for (unsigned i = 0; i < nested->crossing->len; i++)
    g_hash_table_insert(nested->there, nested->crossing->pdata[i], nested->kept->pdata[i]);
  IrBuilder inner = ir_builder_at_end(region);
  inner.mark = loop->mark;
  write_both(nested, &inner, loop->regions[0]);
  for (unsigned i = 0; i < nested->crossing->len; i++)
    if (((const IrValue *)nested->crossing->pdata[i])->variable) set_kept(nested, &inner, i);
}

static void write_peeled(Nested *nested)
{
  IrModule *module = nested->module;
  IrOp *loop = nested->loop;
  g_autoptr(GHashTable) map = g_hash_table_new(NULL, NULL);
  IrBuilder builder = ir_builder_before(loop);
  builder.mark = loop->mark;
  g_hash_table_insert(map, (gpointer)nested->index, nested->apart ? pipeline_last(loop) : loop->operands[0]);
  for (unsigned i = 0; i < nested->crossing->len; i++)
    g_hash_table_insert(map, nested->crossing->pdata[i], nested->kept->pdata[i]);
  if (nested->apart)
    builder = open_if(&builder, ir_binary(module, OPERATOR_LT, loop->operands[0], loop->operands[1]));
  write_alone(nested, &builder, loop->regions[0], map);
}

bool pipeline_write_nested(IrModule *module, IrOp *loop, GError **error)
{
  g_autoptr(GPtrArray) crossing = g_ptr_array_new();
  g_autoptr(GPtrArray) kept = g_ptr_array_new();
  g_autoptr(GHashTable) here = g_hash_table_new(NULL, NULL), there = g_hash_table_new(NULL, NULL);
  bool behind = ir_attribute(loop, ATTR_BEHIND) != NULL;
  Nested nested = {.module = module,
                   .loop = loop,
                   .index = loop->regions[0]->arguments[0],
                   .apart = behind ? 1 : 0,
                   .crossing = crossing,
                   .kept = kept,
                   .here = here,
                   .there = there};
  if (ir_attribute_int(loop, ATTR_PIPELINED, 1) != 1 ||
      behind == ir_attribute_is(loop, ATTR_AHEAD, "guarded"))
    return pipeline_refuse(
        loop, "stages in a loop of it need `pipelined 1` and either `ahead guarded` or `behind`", error);
  if (!find_crossing(&nested, loop->regions[0], error)) return false;
  if (!behind) write_peeled(&nested);
  declare_kept(&nested);
  write_steady(&nested);
  if (behind) write_peeled(&nested);
  ir_op_remove(loop);
  return true;
}
