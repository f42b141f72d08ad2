/* Scalars are evaluated with chosen dims; what memory holds is chosen too. Conditions on thread identity
 * split the threads of a role. */
#include "ir/protocol/protocol.h"

/* ---- Expressions to scalars ---- */

static Scalar *scalar_make(Program *program, ScalarKind kind, int64_t number)
{
  Scalar *scalar = arena_new_object(program->arena, Scalar);
  scalar->kind = kind;
  scalar->number = number;
  scalar->varies = kind >= SCALAR_THREAD;
  return scalar;
}

static const Scalar *combine(Program *program, ScalarKind kind, IrOperator op, const Scalar *a,
                             const Scalar *b, const Scalar *c)
{
  Scalar *scalar = scalar_make(program, kind, 0);
  scalar->operator_ = op;
  scalar->a = a;
  scalar->b = b;
  scalar->c = c;
  scalar->varies = (a && a->varies) || (b && b->varies) || (c && c->varies);
  return scalar;
}

static int dim_index(const Program *program, const char *name)
{
  for (unsigned i = 0; i < program->kernel->n_dims; i++)
    if (!strcmp(program->kernel->dims[i].name, name)) return (int)i;
  return -1;
}

typedef struct {
  Program *program;
  int64_t granule;
} Granule;

static void grow_granule(const IrExpr *expr, void *data)
{
  Granule *granule = data;
  int dim = expr->kind == EXPR_DIM ? dim_index(granule->program, expr->name) : -1;
  if (dim >= 0) granule->program->granule[dim] = MAX(granule->program->granule[dim], granule->granule);
}

/* `ceil_div(M, 128)` and `(M + 127) / 128`: tiles of 128 along M. */
static void note_granule(Program *program, const IrExpr *dividend, const IrExpr *divisor)
{
  int64_t value;
  if (!ir_expr_is_int(divisor, &value) || value < 2 || value > 65536) return;
  Granule granule = {program, value};
  ir_expr_visit(dividend, grow_granule, &granule);
}

static const Scalar *special(Program *program, const IrExpr *expr)
{
  static const struct {
    const char *name;
    ScalarKind kind;
  } rows[] = {{"block", SCALAR_BLOCK},       {"blocks", SCALAR_BLOCKS},     {"cluster_rank", SCALAR_RANK},
              {"cluster_size", SCALAR_SIZE}, {"instance", SCALAR_INSTANCE}, {"thread", SCALAR_THREAD},
              {"lane", SCALAR_LANE},         {"warp", SCALAR_WARP},         {"role_warp", SCALAR_ROLE_WARP},
              {"elected", SCALAR_ELECTED}};
  if (!strcmp(expr->name, "ceil_div")) note_granule(program, expr->items[0], expr->items[1]);
  ScalarKind kind = !strcmp(expr->name, "ceil_div") ? SCALAR_CEIL_DIV
                    : !strcmp(expr->name, "min")    ? SCALAR_MIN
                    : !strcmp(expr->name, "max")    ? SCALAR_MAX
                                                    : SCALAR_UNKNOWN;
  if (kind != SCALAR_UNKNOWN && expr->n == 2)
    return combine(program, kind, 0, scalar_new(program, expr->items[0]), scalar_new(program, expr->items[1]),
                   NULL);
  int64_t number = 0;
  if (expr->n) ir_expr_is_int(expr->items[0], &number);
  for (unsigned i = 0; i < G_N_ELEMENTS(rows); i++)
    if (!strcmp(rows[i].name, expr->name)) return scalar_make(program, rows[i].kind, number);
  return scalar_make(program, SCALAR_UNKNOWN, 0);
}

static const Scalar *field(Program *program, const IrExpr *expr)
{
  const IrExpr *base = expr->items[0];
  if (base->kind != EXPR_VALUE) return scalar_make(program, SCALAR_UNKNOWN, 0);
  return scalar_make(program, strcmp(expr->name, "phase") ? SCALAR_SLOT : SCALAR_PHASE, base->value->id);
}

static const Scalar *value(Program *program, const IrExpr *expr)
{
  const Scalar *let = g_hash_table_lookup(program->lets, expr->value);
  if (let) return let;
  if (expr->value->type.kind == TYPE_CURSOR) return scalar_make(program, SCALAR_SLOT, expr->value->id);
  if (expr->value->type.kind == TYPE_SCALAR) return scalar_make(program, SCALAR_VALUE, expr->value->id);
  return scalar_make(program, SCALAR_UNKNOWN, 0);
}

const Scalar *scalar_new(Program *program, const IrExpr *expr)
{
  const Scalar *parts[3] = {NULL};
  switch (expr->kind) {
  case EXPR_INT: return scalar_make(program, SCALAR_INT, expr->integer);
  case EXPR_VALUE: return value(program, expr);
  case EXPR_DIM: {
    int dim = dim_index(program, expr->name);
    return scalar_make(program, dim < 0 ? SCALAR_UNKNOWN : SCALAR_DIM, dim);
  }
  case EXPR_NAME:
    if (!strcmp(expr->name, "true") || !strcmp(expr->name, "false"))
      return scalar_make(program, SCALAR_INT, expr->name[0] == 't');
    return scalar_make(program, SCALAR_UNKNOWN, 0);
  case EXPR_UNARY:
  case EXPR_BINARY:
  case EXPR_SELECT:
    for (unsigned i = 0; i < 3 && i < expr->n; i++)
      parts[i] = scalar_new(program, expr->items[i]);
    if (expr->kind == EXPR_BINARY && expr->operator_ == OPERATOR_DIV)
      note_granule(program, expr->items[0], expr->items[1]);
    return combine(program, expr->kind == EXPR_SELECT ? SCALAR_SELECT : SCALAR_OPERATOR, expr->operator_,
                   parts[0], parts[1], parts[2]);
  case EXPR_CALL: return special(program, expr);
  case EXPR_FIELD: return field(program, expr);
  default: return scalar_make(program, SCALAR_UNKNOWN, 0);
  }
}

const Scalar *scalar_of_lanes(Program *program, const Scalar *varying)
{
  Scalar *scalar = scalar_make(program, SCALAR_EACH_LANE, 0);
  scalar->a = varying;
  scalar->varies = true;
  scalar->lanes = arena_new_object(program->arena, Lanes);
  return scalar;
}

/* Of a scan each lane has another number; a count, and what lies in a lane that all name, all have. */
static const Scalar *across_lanes(Program *program, const IrOp *op, const Scalar *const parts[2])
{
  ScalarKind kind = op->code == OP_SCAN_LANES    ? SCALAR_SCAN_LANES
                    : op->code == OP_COUNT_LANES ? SCALAR_COUNT_LANES
                                                 : SCALAR_OF_LANE;
  Scalar *scalar = scalar_make(program, kind, ir_attribute_is(op, ATTR_WITH, "sum"));
  scalar->a = parts[0];
  scalar->b = kind == SCALAR_OF_LANE ? parts[1] : NULL;
  scalar->varies = kind == SCALAR_SCAN_LANES || (scalar->b && scalar->b->varies);
  if (kind == SCALAR_SCAN_LANES) scalar->lanes = arena_new_object(program->arena, Lanes);
  return scalar;
}

/* The value an op gives, if it is a scalar's: sums, comparisons, loads. */
const Scalar *scalar_of_op(Program *program, const IrOp *op)
{
  static const struct {
    IrOpcode code;
    IrOperator operator_;
  } rows[] = {{OP_ADD, OPERATOR_ADD}, {OP_SUB, OPERATOR_SUB}, {OP_MUL, OPERATOR_MUL}, {OP_DIV, OPERATOR_DIV},
              {OP_REM, OPERATOR_MOD}, {OP_AND, OPERATOR_AND}, {OP_OR, OPERATOR_OR},   {OP_XOR, OPERATOR_XOR},
              {OP_SHL, OPERATOR_SHL}, {OP_SHR, OPERATOR_SHR}, {OP_LT, OPERATOR_LT},   {OP_LE, OPERATOR_LE},
              {OP_GT, OPERATOR_GT},   {OP_GE, OPERATOR_GE},   {OP_EQ, OPERATOR_EQ},   {OP_NE, OPERATOR_NE},
              {OP_NEG, OPERATOR_NEG}};
  const Scalar *parts[3] = {NULL};
  if (number_class(op->results[0]->type.element) == NUMBER_FLOAT && op->code != OP_LET && op->code != OP_VAR)
    return scalar_make(program, SCALAR_UNKNOWN, 0);
  if (op->code == OP_LOAD) {
    const IrExpr *access = op->operands[0];
    Scalar *load = scalar_make(program, SCALAR_LOAD, access->kind == EXPR_INDEX ? 1 : 0);
    load->a = access->n > 1 ? scalar_new(program, access->items[1]) : NULL;
    load->b = access->n > 2 ? scalar_new(program, access->items[2]) : NULL;
    load->c = access->n > 3 ? scalar_new(program, access->items[3]) : NULL;
    load->varies =
        (load->a && load->a->varies) || (load->b && load->b->varies) || (load->c && load->c->varies);
    return load;
  }
  for (unsigned i = 0; i < 3 && i < op->n_operands; i++)
    parts[i] = scalar_new(program, op->operands[i]);
  switch (op->code) {
  case OP_LET:
  case OP_CAST:
  case OP_BITCAST: return parts[0];
  case OP_VAR: return parts[0] ? parts[0] : scalar_make(program, SCALAR_UNKNOWN, 0);
  case OP_SELECT: return combine(program, SCALAR_SELECT, 0, parts[0], parts[1], parts[2]);
  case OP_MIN: return combine(program, SCALAR_MIN, 0, parts[0], parts[1], NULL);
  case OP_MAX: return combine(program, SCALAR_MAX, 0, parts[0], parts[1], NULL);
  case OP_FMA:
    return combine(program, SCALAR_OPERATOR, OPERATOR_ADD,
                   combine(program, SCALAR_OPERATOR, OPERATOR_MUL, parts[0], parts[1], NULL), parts[2], NULL);
  case OP_SCAN_LANES:
  case OP_COUNT_LANES:
  case OP_OF_LANE: return across_lanes(program, op, parts);
  default: break;
  }
  for (unsigned i = 0; i < G_N_ELEMENTS(rows); i++)
    if (rows[i].code == op->code)
      return combine(program, SCALAR_OPERATOR, rows[i].operator_, parts[0], parts[1], NULL);
  bool meets = op->code == OP_REDUCE || op->code == OP_SCAN || op->code == OP_SORT || op->code == OP_PICK ||
               op->code == OP_COUNT;
  return meets ? NULL : scalar_make(program, SCALAR_UNKNOWN, 0);
}

/* ---- Values ---- */

static int64_t apply(IrOperator op, int64_t a, int64_t b, bool *known)
{
  switch (op) {
  case OPERATOR_NEG: return -a;
  case OPERATOR_NOT: return ~a;
  case OPERATOR_LNOT: return !a;
  case OPERATOR_ADD: return (int64_t)((uint64_t)a + (uint64_t)b);
  case OPERATOR_SUB: return (int64_t)((uint64_t)a - (uint64_t)b);
  case OPERATOR_MUL: return (int64_t)((uint64_t)a * (uint64_t)b);
  case OPERATOR_DIV:
  case OPERATOR_MOD:
    if (!b || (a == INT64_MIN && b == -1)) return *known = false;
    return op == OPERATOR_DIV ? a / b : a % b;
  case OPERATOR_AND: return a & b;
  case OPERATOR_OR: return a | b;
  case OPERATOR_XOR: return a ^ b;
  case OPERATOR_SHL: return b < 0 || b > 62 ? 0 : (int64_t)((uint64_t)a << b);
  case OPERATOR_SHR: return b < 0 || b > 62 ? 0 : a >> b;
  case OPERATOR_LT: return a < b;
  case OPERATOR_LE: return a <= b;
  case OPERATOR_GT: return a > b;
  case OPERATOR_GE: return a >= b;
  case OPERATOR_EQ: return a == b;
  case OPERATOR_NE: return a != b;
  case OPERATOR_LAND: return a && b;
  case OPERATOR_LOR: return a || b;
  default: return *known = false;
  }
}

/* What memory holds where a kernel asks: 1, some rows of a tile, none, a few tiles. The same place always
 * holds the same, whoever reads it. */
static int64_t loaded(Machine *m, const Agent *agent, const Scalar *scalar, unsigned thread, bool *known)
{
  static const int64_t values[] = {129, 0, 1, 300, 128};
  uint64_t at = 0;
  const Scalar *indices[] = {scalar->a, scalar->b, scalar->c};
  for (unsigned i = 0; i < 3; i++)
    if (indices[i]) at = at * 31 + (uint64_t)evaluate(m, agent, indices[i], thread, known);
  return values[at % G_N_ELEMENTS(values)];
}

/* Numbers that differ between lanes are asked for by many others: each is found once, until something changes. */
static int64_t lanes_value(Machine *m, const Agent *agent, const Scalar *x, unsigned thread, bool *known)
{
  Lanes *lanes = x->lanes;
  unsigned warp = thread / 32, own = thread % 32, first = x->kind == SCALAR_SCAN_LANES ? 0 : own;
  if (lanes->agent != agent || lanes->run != m->program->runs || lanes->age != agent->age ||
      lanes->warp != warp)
    *lanes = (Lanes){.agent = agent, .run = m->program->runs, .age = agent->age, .warp = warp};
  for (unsigned lane = first; lane <= own; lane++) {
    if (lanes->done >> lane & 1) continue;
    bool all = lane == first || lanes->known >> (lane - 1) & 1;
    int64_t value = evaluate(m, agent, x->a, warp * 32 + lane, &all);
    if (lane > first)
      value = x->number ? lanes->values[lane - 1] + value : MAX(lanes->values[lane - 1], value);
    lanes->values[lane] = value;
    lanes->known |= (uint32_t)all << lane;
    lanes->done |= (uint32_t)1 << lane;
  }
  *known &= lanes->known >> own & 1;
  return lanes->values[own];
}

static int64_t counted(Machine *m, const Agent *agent, const Scalar *x, unsigned thread, bool *known)
{
  int64_t count = 0;
  for (unsigned lane = 0; lane < 32; lane++)
    count += evaluate(m, agent, x->a, thread / 32 * 32 + lane, known) != 0;
  return count;
}

int64_t evaluate(Machine *m, const Agent *agent, const Scalar *x, unsigned thread, bool *known)
{
  switch (x->kind) {
  case SCALAR_INT: return x->number;
  case SCALAR_VALUE:
  case SCALAR_SLOT: *known &= agent->known[x->number]; return agent->values[2 * x->number];
  case SCALAR_PHASE: return agent->values[2 * x->number + 1];
  case SCALAR_DIM: return m->scenario->dims[x->number];
  case SCALAR_OPERATOR: {
    int64_t a = evaluate(m, agent, x->a, thread, known);
    if (x->operator_ == OPERATOR_LAND && *known && !a) return 0;
    if (x->operator_ == OPERATOR_LOR && *known && a) return 1;
    int64_t b = x->b ? evaluate(m, agent, x->b, thread, known) : 0;
    return apply(x->operator_, a, b, known);
  }
  case SCALAR_SELECT:
    return evaluate(m, agent, evaluate(m, agent, x->a, thread, known) ? x->b : x->c, thread, known);
  case SCALAR_CEIL_DIV:
  case SCALAR_MIN:
  case SCALAR_MAX: {
    int64_t a = evaluate(m, agent, x->a, thread, known), b = evaluate(m, agent, x->b, thread, known);
    if (x->kind == SCALAR_MIN) return MIN(a, b);
    if (x->kind == SCALAR_MAX) return MAX(a, b);
    if (b > 0) return (a + b - 1) / b;
    return *known = false;
  }
  case SCALAR_LOAD: return loaded(m, agent, x, thread, known);
  case SCALAR_EACH_LANE:
  case SCALAR_SCAN_LANES: return lanes_value(m, agent, x, thread, known);
  case SCALAR_COUNT_LANES: return counted(m, agent, x, thread, known);
  case SCALAR_OF_LANE: {
    unsigned lane = (unsigned)evaluate(m, agent, x->b, thread, known) % 32;
    return evaluate(m, agent, x->a, thread / 32 * 32 + lane, known);
  }
  case SCALAR_BLOCK: return x->number ? 0 : (int64_t)m->scenario->first + agent->block;
  case SCALAR_BLOCKS: return x->number ? 1 : (int64_t)m->blocks * m->scenario->clusters;
  case SCALAR_RANK: return agent->block;
  case SCALAR_SIZE: return m->blocks;
  case SCALAR_INSTANCE: return agent->instance;
  case SCALAR_THREAD: return thread;
  case SCALAR_LANE: return thread % 32;
  case SCALAR_WARP: return thread / 32;
  case SCALAR_ROLE_WARP: return (thread - agent->role_low) / 32;
  case SCALAR_ELECTED: return thread == agent->role_low;
  case SCALAR_UNKNOWN: break;
  }
  return *known = false;
}

int64_t evaluate_uniform(Machine *m, Agent *agent, const Scalar *scalar, int64_t otherwise)
{
  if (!scalar) return otherwise;
  if (scalar->kind == SCALAR_INT) return scalar->number;
  bool known = true;
  unsigned thread = agent->warp_low * 32 + agent->lane_low;
  int64_t value = evaluate(m, agent, scalar, thread, &known);
  return known ? value : otherwise;
}

/* ---- Masks ---- */

bool mask_has(const Mask *mask, unsigned thread)
{
  return mask->bits[thread / 64] >> (thread % 64) & 1;
}

unsigned mask_first(const Mask *mask)
{
  for (unsigned i = 0; i < G_N_ELEMENTS(mask->bits); i++)
    if (mask->bits[i]) return i * 64 + (unsigned)__builtin_ctzll(mask->bits[i]);
  return PROTOCOL_MAX_THREADS;
}

void mask_fill(Mask *mask, unsigned threads)
{
  memset(mask->bits, 0, sizeof mask->bits);
  memset(mask->bits, 0xff, threads / 64 * sizeof *mask->bits);
  if (threads % 64) mask->bits[threads / 64] = ((uint64_t)1 << (threads % 64)) - 1;
  mask->count = threads;
}

static void mask_add(Mask *mask, unsigned thread)
{
  mask->bits[thread / 64] |= (uint64_t)1 << (thread % 64);
  mask->count++;
}

/* The threads of the scope that take a branch, and those that do not. */
void mask_branch(Machine *m, Agent *agent, const Scalar *condition, Mask *taken, Mask *rest)
{
  const Mask *mask = agent_mask(agent);
  memset(taken, 0, sizeof *taken);
  *rest = *mask;
  if (condition->kind == SCALAR_ELECTED) {
    if (!mask_has(mask, 0)) return;
    mask_add(taken, 0);
    rest->bits[0] &= ~(uint64_t)1;
    rest->count--;
    return;
  }
  if (!condition->varies) {
    bool known = true, yes = evaluate(m, agent, condition, agent->role_low, &known) != 0;
    if (!yes || !known) return;
    *taken = *mask;
    memset(rest, 0, sizeof *rest);
    return;
  }
  memset(rest, 0, sizeof *rest);
  for (unsigned i = 0; i < agent->role_threads; i++) {
    bool known = true;
    if (!mask_has(mask, i)) continue;
    bool yes = evaluate(m, agent, condition, agent->role_low + i, &known) != 0;
    mask_add(yes && known ? taken : rest, i);
  }
}

unsigned active_threads(const Agent *agent)
{
  const Mask *mask = agent_mask(agent);
  if (mask->count == agent->role_threads) return agent->threads;
  unsigned first = agent->warp_low * 32 + agent->lane_low - agent->role_low, last = first + agent->threads;
  unsigned count = 0;
  for (unsigned word = first / 64; word * 64 < last; word++) {
    uint64_t bits = mask->bits[word];
    if (word == first / 64) bits &= UINT64_MAX << (first % 64);
    if (last - word * 64 < 64) bits &= ((uint64_t)1 << (last % 64)) - 1;
    count += (unsigned)__builtin_popcountll(bits);
  }
  return count;
}

/* How many threads of this agent perform an op that one of several does for all. */
unsigned active_by(const Agent *agent, By by)
{
  if (by == BY_THREAD) return active_threads(agent);
  if (by == BY_ROLE) return agent_leads(agent);
  const Mask *mask = agent_mask(agent);
  unsigned first = agent->warp_low * 32 + agent->lane_low - agent->role_low, last = first + agent->threads;
  unsigned unit = by == BY_WARP ? 32 : 128, count = 0;
  for (unsigned thread = (first + unit - 1) / unit * unit; thread < last; thread += unit) {
    unsigned warp = thread / 32 % 2 ? 32 : 0; /* any thread of that warp active? */
    count += (uint32_t)(mask->bits[thread / 64] >> warp) != 0;
  }
  return count;
}

bool agent_leads(const Agent *agent)
{
  unsigned leader = mask_first(agent_mask(agent)) + agent->role_low;
  unsigned first = agent->warp_low * 32 + agent->lane_low;
  return leader >= first && leader < first + agent->threads;
}
