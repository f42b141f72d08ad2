/* skip_maxima: the maxima of an online softmax are looked for only where a sum of weights says that one has risen.
 *
 * needs  STAGED, exponents fused, sums of rows deferred, waits derived, loops split
 * gives  in loops of roles, and of kernels without roles: weights are exponentials of what scores lie above the maxima so far; where one of
 *        the sums of them that a warp's lanes have exceeds the factor at which maxima follow, an `if` computes maxima, weights, sums and
 *        the rescaling as they stood there. A product that waits for the weights behind it takes them from a variable
 * breaks nothing: (maxima may follow so far below the highest score that its weight is more than 1, as operands of 8 bits want it) no weight exceeds a sum that it is part of, so without the `if` no maximum would have followed. In it maxima follow whatever
 *        rise there is, or the same sums would exceed the factor again; sums and products are relative to them, so results are the same but for rounding
 *
 * Scores stay in registers until the sums are there; so they have to be products, or computed of products and of numbers of rows, columns and places by arithmetic: what loads a number for each
 * score, or masks it, wants registers too. What computes them is kept in front of the wait for the other product, which the assembler would do first (`fence order`). What is saved is a
 * comparison an element, the exchange between lanes, and that exponentials wait for both. Where threads wait for products and the scores' operands still lie in their slots, the `if` multiplies once more,
 * so that weights may have the registers of their scores: they are what limits a warp's rows and keys. */
#include "ir/mechanism.h"
#include "ir/pass.h"
#include <math.h>

typedef struct {
  IrRegion *scope; /* the role's body */
  IrOp *high;      /* the rows' maxima of scores */
  IrOp *top;       /* what all scores of a row have in common put back; or the same */
  IrOp *
      score; /* scores of what exponents are of and what a thread's columns have in common, or NULL: they are it */
  const IrValue *core;      /* what exponents are of */
  IrOp *rise, *climb, *far; /* how far they lie above those so far, in powers of two; whether too far */
  IrOp *
      start; /* of maxima that follow: so far below the highest score, which then has a larger weight; NULL: they are it */
  double lift;                /* that weight */
  IrOp *pick, *keep;          /* what is subtracted then, and what sets the variable to it */
  IrOp *fell, *fall, *shrink; /* what is left of sums so far */
  IrOp *total, *set;          /* the rows' sum, and what sets it */
  const IrValue *peak;        /* the variable: maxima so far */
  double factor;              /* at which they follow */
  GPtrArray *slice;           /* IrOp*: what of the body depends on the maxima, in its order */
  IrOp *
      product; /* what multiplies the weights behind it, where threads wait for products; NULL: another iteration does */
} Softmax;

static bool is_value(const IrExpr *expr, const IrValue *value)
{
  return expr->kind == EXPR_VALUE && expr->value == value;
}

/* `8 * 1.0`, as templates make a number of a parameter. */
static bool read_number(const IrExpr *expr, double *number)
{
  if (expr->kind == EXPR_FLOAT) *number = expr->number;
  if (expr->kind == EXPR_INT) *number = (double)expr->integer;
  if (expr->kind != EXPR_BINARY) return expr->kind == EXPR_FLOAT || expr->kind == EXPR_INT;
  double left, right;
  if (expr->operator_ != OPERATOR_MUL || !read_number(expr->items[0], &left) ||
      !read_number(expr->items[1], &right))
    return false;
  *number = left * right;
  return true;
}

/* What defines the operand, if it is an operation of that kind in the same region whose result `user` alone reads. */
static IrOp *only_source(const Softmax *softmax, const IrOp *user, unsigned operand, IrOpcode code)
{
  const IrExpr *expr = user->operands[operand];
  IrOp *op = expr->kind == EXPR_VALUE ? expr->value->def : NULL;
  bool only = op && op->code == code && op->parent == user->parent &&
              ir_region_count_uses(softmax->scope, expr->value, NULL) == 1;
  return only ? op : NULL;
}

/* What alone reads the op's result, if it is an operation of that kind in the same region. */
static IrOp *only_user(const Softmax *softmax, const IrOp *op, IrOpcode code)
{
  IrOp *user;
  bool only = op && ir_region_count_uses(softmax->scope, op->results[0], &user) == 1 && user->code == code &&
              user->parent == op->parent;
  return only ? user : NULL;
}

static IrOp *find_user_behind(const IrOp *behind, const IrOp *op, IrOpcode code)
{
  for (IrOp *user = behind->next; user; user = user->next)
    if (user->code == code && ir_op_uses(user, op->results[0])) return user;
  return NULL;
}

static IrOp *find_user(const IrOp *op, IrOpcode code)
{
  return find_user_behind(op, op, code);
}

/* start = high - number */
static IrOp *find_start(const IrOp *high, double *number)
{
  IrOp *user = find_user(high, OP_SUB);
  while (user && !(is_value(user->operands[0], high->results[0]) && read_number(user->operands[1], number))) {
    IrOp *next = user->next;
    while (next && !(next->code == OP_SUB && ir_op_uses(next, high->results[0])))
      next = next->next;
    user = next;
  }
  return user;
}

/* pick = select (high - peak) c > lag, high or start, peak; peak <- pick */
static bool match_maxima(Softmax *softmax)
{
  const IrValue *high = softmax->top->results[0];
  double below = 0;
  softmax->start = find_start(softmax->top, &below);
  const IrOp *top = softmax->start ? softmax->start : softmax->top;
  IrOp *pick = softmax->pick = find_user(top, OP_SELECT);
  if (!pick || !is_value(pick->operands[1], top->results[0]) || pick->operands[2]->kind != EXPR_VALUE ||
      !pick->operands[2]->value->variable)
    return false;
  softmax->peak = pick->operands[2]->value;
  softmax->far = only_source(softmax, pick, 0, OP_GT);
  softmax->climb = softmax->far ? only_source(softmax, softmax->far, 0, OP_MUL) : NULL;
  softmax->rise = softmax->climb ? only_source(softmax, softmax->climb, 0, OP_SUB) : NULL;
  softmax->keep = find_user(pick, OP_SET);
  double lag;
  if (!softmax->rise || !softmax->keep || !read_number(softmax->far->operands[1], &lag)) return false;
  softmax->factor = exp2(lag);
  double c;
  if (softmax->start && (!read_number(softmax->climb->operands[1], &c) ||
                         ir_region_count_uses(softmax->scope, top->results[0], NULL) != 1))
    return false;
  softmax->lift = softmax->start ? exp2(below * c) : 1;
  return is_value(softmax->rise->operands[0], high) && is_value(softmax->rise->operands[1], softmax->peak) &&
         is_value(softmax->keep->operands[0], softmax->peak) &&
         ir_region_count_uses(softmax->scope, high, NULL) == 2;
}

static bool is_factor(const IrExpr *expr, double factor)
{
  return expr->kind == EXPR_FLOAT && expr->number == factor;
}

/* high is `times` the maximum, and more: an operation that alone reads it; 0: it is something else. */
static double find_top(Softmax *softmax)
{
  IrOp *high = softmax->high, *user;
  softmax->top = high;
  if (ir_region_count_uses(softmax->scope, high->results[0], &user) != 1 || user->parent != high->parent)
    return 1;
  bool scaled = user->code == OP_MUL || user->code == OP_FMA;
  if ((!scaled && user->code != OP_ADD) || !is_value(user->operands[0], high->results[0])) return 0;
  if (scaled && user->operands[1]->kind != EXPR_FLOAT) return 0;
  softmax->top = user;
  return scaled ? user->operands[1]->number : 1;
}

/* score = core + beside, or core times + beside, for the maximum alone. */
static void find_core(Softmax *softmax, double *times)
{
  IrOp *def = softmax->high->operands[0]->value->def;
  softmax->core = softmax->high->operands[0]->value;
  softmax->score = NULL;
  bool sum = def && (def->code == OP_ADD || def->code == OP_FMA) && def->operands[0]->kind == EXPR_VALUE &&
             def->operands[0]->value->type.kind == TYPE_TILE &&
             ir_region_count_uses(softmax->scope, softmax->core, NULL) == 1;
  if (!sum || (def->code == OP_FMA && def->operands[1]->kind != EXPR_FLOAT)) return;
  softmax->core = def->operands[0]->value;
  softmax->score = def;
  if (def->code == OP_FMA) *times *= def->operands[1]->number;
}

/* weights = exp2(scores c - pick c); shrink = exp2((peak - pick) c); sum <- sum shrink + part */
static bool match_weights(Softmax *softmax, double times)
{
  const IrOp *pick = softmax->pick;
  IrOp *base = find_user(pick, OP_MUL), *fell = softmax->fell = find_user(pick, OP_SUB);
  if (!base && fell && is_value(fell->operands[0], pick->results[0])) { /* (pick - more - beside) c */
    const IrOp *above = fell, *next;
    while ((next = only_user(softmax, above, OP_SUB)) != NULL)
      above = next;
    base = only_user(softmax, above, OP_MUL);
    fell = softmax->fell = find_user_behind(fell, pick, OP_SUB);
  }
  if (!base || !fell || ir_region_count_uses(softmax->scope, pick->results[0], NULL) != 3 ||
      softmax->climb->operands[1]->kind != EXPR_FLOAT)
    return false;
  double factor = softmax->climb->operands[1]->number;
  const IrOp *above = only_user(softmax, base, OP_FMA);
  softmax->fall = only_user(softmax, fell, OP_MUL);
  softmax->shrink = only_user(softmax, softmax->fall, OP_EXP2);
  if (!softmax->shrink || !only_user(softmax, above, OP_EXP2)) return false;
  IrOp *total = softmax->total = find_user(softmax->shrink, OP_FMA);
  softmax->set = only_user(softmax, total, OP_SET);
  return factor > 0 && is_factor(base->operands[1], -factor) &&
         is_factor(above->operands[1], factor * times) && is_factor(softmax->fall->operands[1], factor) &&
         is_value(above->operands[0], softmax->core) && is_value(fell->operands[0], softmax->peak) &&
         softmax->set && is_value(total->operands[1], softmax->shrink->results[0]) &&
         total->operands[2]->kind == EXPR_VALUE &&
         is_value(softmax->set->operands[0], total->operands[0]->value);
}

/* A sum of products times `shrink`, which goes back to it. */
static bool is_rescaling(const Softmax *softmax, const IrOp *op)
{
  if (op->code != OP_MUL || !is_value(op->operands[1], softmax->shrink->results[0])) return false;
  const IrOp *set = only_user(softmax, op, OP_SET);
  return set && op->operands[0]->kind == EXPR_VALUE && is_value(set->operands[0], op->operands[0]->value);
}

/* A product that takes weights from registers and is waited for where it stands. */
static bool takes_weights(const Softmax *softmax, const IrOp *op)
{
  return !softmax->product && op->code == OP_MMA && !ir_is_asynchronous_product(op) &&
         op->operands[1]->kind == EXPR_VALUE;
}

/* All that depends on the maxima computes or sets variables, and only rescalings and the rows' sum read `shrink`; a product may follow. */
static bool find_slice(Softmax *softmax)
{
  if (softmax->score) g_ptr_array_add(softmax->slice, softmax->score);
  g_ptr_array_add(softmax->slice, softmax->high);
  for (IrOp *op = softmax->high->next; op; op = op->next) {
    bool depends = false;
    for (unsigned i = 0; i < softmax->slice->len && !depends; i++) {
      const IrOp *source = softmax->slice->pdata[i];
      depends = source->n_results && ir_op_uses(op, source->results[0]);
    }
    if (!depends) continue;
    if (takes_weights(softmax, op)) {
      softmax->product = op;
      continue;
    }
    if (softmax->product) return false;
    if (!ir_op_is_elementwise(op->code) && op->code != OP_CONVERT && op->code != OP_SET) return false;
    if (op != softmax->total && ir_op_uses(op, softmax->shrink->results[0]) && !is_rescaling(softmax, op))
      return false;
    g_ptr_array_add(softmax->slice, op);
  }
  return true;
}

/* Is it the sum of a product that stands in front, which nothing changes from there on? */
static bool is_product(const Softmax *softmax, const IrValue *value)
{
  bool multiplied = false;
  for (const IrOp *op = softmax->high; op && !multiplied; op = op->previous)
    multiplied = op->code == OP_MMA && is_value(op->operands[0], value);
  for (const IrOp *op = softmax->high; op; op = op->next)
    if (ir_op_effects(op->code) & EFFECT_UPDATE && is_value(op->operands[0], value)) return false;
  return multiplied;
}

/* By adding and multiplying alone: masks' predicates want the registers that scores keep, and what special functions compute is done with the
 * maxima while the other product is on its way (softcaps took 1.03 of the time without). */
static bool is_arithmetic(IrOpcode code)
{
  return code == OP_ADD || code == OP_SUB || code == OP_MUL || code == OP_FMA || code == OP_NEG ||
         code == OP_CAST;
}

/* Are they products, or computed of such without a number for each that is loaded? *product: of products, not of places alone. */
static bool is_computed(const Softmax *softmax, const IrExpr *expr, int64_t elements, bool *product)
{
  const IrValue *value = expr->kind == EXPR_VALUE ? expr->value : NULL;
  if (!value || value->type.kind != TYPE_TILE || ir_tile_elements(&value->type) < elements) return true;
  if (value->variable && is_product(softmax, value)) return *product = true;
  const IrOp *def = value->def;
  bool copied = def && def->code == OP_VAR && def->n_operands;
  for (const IrOp *op = softmax->high; op && copied; op = op->next)
    copied = !(ir_op_effects(op->code) & EFFECT_UPDATE && is_value(op->operands[0], value));
  if (!copied &&
      (!def || value->variable || def->parent != softmax->high->parent || !is_arithmetic(def->code)))
    return false;
  for (unsigned i = 0; i < def->n_operands; i++)
    if (!is_computed(softmax, def->operands[i], elements, product)) return false;
  return true;
}

static bool is_of_products(const Softmax *softmax, const IrExpr *scores)
{
  bool product = false;
  return scores->kind == EXPR_VALUE && scores->value->type.kind == TYPE_TILE &&
         is_computed(softmax, scores, ir_tile_elements(&scores->value->type), &product) && product;
}

static bool match(Softmax *softmax)
{
  const IrOp *high = softmax->high;
  if (!high->parent->owner || high->parent->owner->code != OP_FOR || high->n_operands != 1 ||
      !ir_attribute_is(high, ATTR_WITH, "max") || !is_of_products(softmax, high->operands[0]))
    return false;
  double times = find_top(softmax);
  find_core(softmax, &times);
  if (!(times > 0) || !match_maxima(softmax) || !match_weights(softmax, times)) return false;
  /* A sum of so many weights as large as they begin would exceed the factor. */
  int64_t together = ir_tile_elements(&high->operands[0]->value->type) /
                     ir_tile_elements(&softmax->total->operands[2]->value->type);
  return softmax->factor > softmax->lift * (double)together && find_slice(softmax) &&
         (!softmax->product ||
          softmax->core->def->code ==
              OP_VAR); /* computed scores were timed beside asynchronous products alone */
}

/* Does it only say what maxima have become, or rescale what they were subtracted from? Where none has risen there is nothing to do. */
static bool is_of_risen(const Softmax *softmax, const IrOp *op)
{
  const IrOp *of[] = {softmax->score, softmax->high,   softmax->top,   softmax->rise, softmax->climb,
                      softmax->far,   softmax->start,  softmax->pick,  softmax->keep, softmax->fell,
                      softmax->fall,  softmax->shrink, softmax->total, softmax->set};
  for (unsigned i = 0; i < G_N_ELEMENTS(of); i++)
    if (op == of[i]) return true;
  const IrExpr *last = op->n_operands ? op->operands[op->n_operands - 1] : NULL;
  return is_rescaling(softmax, op) || (op->code == OP_SET && last->kind == EXPR_VALUE && last->value->def &&
                                       is_rescaling(softmax, last->value->def));
}

/* Where threads wait for products and nothing has been said of slots since, the scores' operands still lie there. */
static bool may_multiply_again(const Softmax *softmax)
{
  const IrOp *scores = softmax->high->operands[0]->value->def;
  if (!softmax->product || scores->code != OP_VAR || !scores->n_operands)
    return false;                            /* a copy of the product */
  const IrExpr *first = scores->operands[0]; /* a number, where scores are the product itself */
  const IrOp *product = first->kind == EXPR_VALUE ? first->value->def : NULL;
  const IrOp *end = softmax->slice->pdata[softmax->slice->len - 1];
  if (!product || product->code != OP_VAR || product->parent != scores->parent) return false;
  for (const IrOp *op = product; op != end; op = op->next)
    if (!op || op->n_regions || ir_op_effects(op->code) & ~EFFECT_UPDATE) return false;
  return true;
}

/* The scores multiplied once more, so that the registers in which they were are free for their weights. */
static IrExpr *multiply_again(const Softmax *softmax, IrRegion *inside)
{
  const IrOp *scores = softmax->high->operands[0]->value->def, *product = scores->operands[0]->value->def;
  g_autoptr(GHashTable) map = g_hash_table_new(NULL, NULL);
  IrBuilder builder = ir_builder_at_end(inside);
  builder.mark = scores->mark;
  for (const IrOp *op = product; op != scores->next; op = op->next)
    if (op == product || op == scores ||
        (op->code == OP_MMA && is_value(op->operands[0], product->results[0])))
      ir_op_clone(&builder, op, map);
  return g_hash_table_lookup(map, scores->results[0]);
}

/* What stands in the `if`: maxima follow, sums are relative to them. `part`: the variable that has what is added to the rows' sum. */
static void follow(const Softmax *softmax, IrRegion *inside, IrExpr *part)
{
  IrModule *module = inside->function->module;
  for (unsigned i = 0; i < softmax->slice->len; i++)
    ir_op_move(softmax->slice->pdata[i], inside, NULL);
  IrOp *pick = softmax->pick, *total = softmax->total;
  const IrOp *top = softmax->start ? softmax->start : softmax->top;
  IrBuilder builder = ir_builder_before(pick);
  builder.mark = pick->mark;
  IrExpr *higher =
      ir_emit_value(&builder, OP_MAX, pick->results[0]->type, pick->results[0]->name, 2,
                    ir_value(module, (IrValue *)softmax->peak), ir_value(module, top->results[0]));
  ir_replace_uses(softmax->scope, pick->results[0], higher);
  builder = ir_builder_before(total);
  builder.mark = total->mark;
  softmax->set->operands[1] =
      ir_emit_value(&builder, OP_MUL, total->results[0]->type, total->results[0]->name, 2, total->operands[0],
                    total->operands[1]);
  ir_emit(&builder, OP_SET, 2, part, total->operands[2]);
  IrOp *gone[] = {pick, softmax->far, softmax->climb, softmax->rise, total};
  for (unsigned i = 0; i < G_N_ELEMENTS(gone); i++)
    ir_op_remove(gone[i]);
}

static IrValue *variable(IrBuilder *builder, const char *name, IrExpr *first)
{
  IrValue *value = ir_result(ir_emit(builder, OP_VAR, 1, first), name, first->value->type);
  value->variable = true;
  return value;
}

/* What computes scores of products is done while the other product is on its way: the assembler would wait for that first. */
static void order_scores(const Softmax *softmax)
{
  const IrOp *def = softmax->core->def;
  if (!def || !ir_op_is_elementwise(def->code)) return;
  IrBuilder builder = ir_builder_before(softmax->score ? softmax->score : softmax->high);
  builder.mark = softmax->high->mark;
  ir_emit(&builder, OP_FENCE, 1, ir_name(builder.module, "order"));
}

static void guard(Softmax *softmax)
{
  IrModule *module = softmax->scope->function->module;
  order_scores(softmax);
  g_autoptr(GHashTable) map = g_hash_table_new(NULL, NULL);
  g_hash_table_insert(map, softmax->pick->results[0], ir_value(module, (IrValue *)softmax->peak));
  IrExpr *carried = softmax->total->operands[0], *any = NULL, *part = NULL;
  for (unsigned i = 0; i < softmax->slice->len; i++) {
    IrOp *op = softmax->slice->pdata[i];
    IrBuilder builder = ir_builder_before(op);
    builder.mark = op->mark;
    if (op == softmax->total) {
      part = g_hash_table_lookup(map, op->operands[2]->value);
      IrType truth = part->value->type;
      truth.element = NUMBER_BOOL;
      IrExpr *risen =
          ir_emit_value(&builder, OP_GT, truth, "risen", 2, part, ir_float(module, softmax->factor));
      any = ir_emit_value(&builder, OP_SOME, ir_predicate(), "any", 1, risen);
    }
    if (!is_of_risen(softmax, op)) ir_op_clone(&builder, op, map);
  }
  IrBuilder builder = ir_builder_after(softmax->slice->pdata[softmax->slice->len - 1]);
  builder.mark = softmax->high->mark;
  IrValue *added = variable(&builder, "added", part);
  IrExpr *weights = softmax->product ? softmax->product->operands[1] : NULL, *kept = NULL;
  if (weights) {
    kept =
        ir_value(module, variable(&builder, weights->value->name, g_hash_table_lookup(map, weights->value)));
    softmax->product->operands[1] = kept;
  }
  IrRegion *inside = ir_region_add(ir_emit(&builder, OP_IF, 1, any));
  IrExpr *next = ir_emit_value(&builder, OP_ADD, carried->value->type, softmax->total->results[0]->name, 2,
                               carried, ir_value(module, added));
  ir_emit(&builder, OP_SET, 2, carried, next);
  IrExpr *again = may_multiply_again(softmax) ? multiply_again(softmax, inside) : NULL;
  const IrValue *scores = softmax->high->operands[0]->value;
  follow(softmax, inside, ir_value(module, added));
  if (again) ir_replace_uses(inside, scores, again);
  builder = ir_builder_at_end(inside);
  builder.mark = softmax->high->mark;
  if (weights) ir_emit(&builder, OP_SET, 2, kept, weights);
}

static void collect(IrOp *op, void *data)
{
  if (op->code == OP_REDUCE) g_ptr_array_add(data, op);
}

static void skip_in(IrRegion *scope, const IrPassContext *context)
{
  g_autoptr(GPtrArray) reductions = g_ptr_array_new();
  ir_region_visit(scope, collect, reductions);
  for (unsigned i = 0; i < reductions->len; i++) {
    g_autoptr(GPtrArray) slice = g_ptr_array_new();
    Softmax softmax = {.scope = scope, .high = reductions->pdata[i], .slice = slice};
    if (!match(&softmax)) continue;
    guard(&softmax);
    ir_remark(context, "maxima: looked for where a lane's sum of weights exceeds %g", softmax.factor);
  }
}

bool pass_skip_maxima(IrModule *module, const IrPassContext *context, GError **error)
{
  (void)error;
  IrFunction *kernel = ir_kernel(module);
  bool roles = false;
  for (IrOp *op = kernel ? kernel->body->first : NULL; op; op = op->next) {
    roles |= op->code == OP_ROLE;
    if (op->code == OP_ROLE) skip_in(op->regions[0], context);
  }
  if (kernel && !roles) skip_in(kernel->body, context);
  return true;
}
