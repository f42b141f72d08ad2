/* Liveness by one backward walk over the regions; loops are walked until nothing more is live at their head.
 */
#include "ir/liveness.h"
#include <string.h>

/* Registers are numbered: a value's first, arrays one each. A set of live ones knows what its members cost,
 * so that measuring at every op takes no look at them. */
typedef struct Set {
  unsigned units, predicates;
  uint64_t words[];
} Set;

/* Registers behind one another. */
typedef struct Span {
  unsigned first, n;
} Span;

/* What the walk needs to know of an op, found out once: bodies of loops are walked several times. */
typedef struct Node {
  const IrOp *op;
  Span results, written;      /* written: what it writes without reading it; none: n is 0 */
  unsigned first_use, n_uses; /* spans that an op without regions reads */
  unsigned first_body;        /* of its regions' */
  bool held;                  /* its results occupy their registers from here on */
  bool conditional;
} Node;

typedef struct Body {
  const IrRegion *region;
  unsigned first_node, n_nodes;
} Body;

typedef struct Live {
  unsigned *first; /* by value id: number of its first register + 1; 0: it has none */
  GArray *nodes, *bodies,
      *uses;         /* Node, those of a body behind one another; Body, those of an op likewise; Span */
  GArray *units;     /* unsigned char: what each register costs */
  unsigned words;    /* of a set */
  GArray *pressures; /* IrPressure */
  GArray *exits;     /* Set*: live sets where break_if goes to, innermost last */
  bool measuring;    /* false while a loop is still being iterated */
} Live;

#define FREE      0 /* what a register costs: nothing */
#define PREDICATE 255

/* Arguments of the kernel lie in constant memory, which instructions read as they read registers. */
static unsigned char cost_of(const IrValue *value)
{
  if (value->type.kind == TYPE_PREDICATE || value->type.element == NUMBER_BOOL) return PREDICATE;
  if (value->def != NULL && (value->def->code == OP_PARAMETER || value->def->code == OP_ADDRESS)) return FREE;
  return number_bits(value->type.element) == 64 ? 2 : 1;
}

static void number_value(Live *live, const IrValue *value)
{
  unsigned n = MAX(value->type.count, 1);
  unsigned char units = cost_of(value);
  live->first[value->id] = live->units->len + 1;
  for (unsigned i = 0; i < n; i++)
    g_array_append_val(live->units, units);
}

static void number_region(Live *live, const IrRegion *region)
{
  for (unsigned i = 0; i < region->n_arguments; i++)
    number_value(live, region->arguments[i]);
  bool role = region->owner == NULL; /* what the kernel itself hands over is no role's */
  for (const IrOp *op = region->first; op != NULL; op = op->next) {
    for (unsigned i = 0; i < op->n_results; i++)
      number_value(live, op->results[i]);
    if (op->code == OP_REGISTERS && !role) {
      IrPressure part = {.role = op};
      ir_expr_is_int(op->operands[0], &part.granted);
      g_array_append_val(live->pressures, part);
      role = true;
    }
    for (unsigned i = 0; i < op->n_regions; i++)
      number_region(live, op->regions[i]);
  }
}

static size_t set_size(const Live *live)
{
  return sizeof(Set) + live->words * sizeof(uint64_t);
}

static Set *set_new(const Live *live, const Set *copy)
{
  return copy != NULL ? g_memdup2(copy, set_size(live)) : g_malloc0(set_size(live));
}

static void set_clear(const Live *live, Set *set)
{
  memset(set, 0, set_size(live));
}

static void count(const Live *live, Set *set, unsigned number, bool alive)
{
  unsigned char one = g_array_index(live->units, unsigned char, number);
  unsigned *sum = one == PREDICATE ? &set->predicates : &set->units;
  unsigned cost = one == PREDICATE ? 1 : one;
  *sum = alive ? *sum + cost : *sum - cost;
}

static bool set_join(const Live *live, Set *into, const Set *other)
{
  bool grown = false;
  for (unsigned i = 0; i < live->words; i++) {
    uint64_t more = other->words[i] & ~into->words[i];
    into->words[i] |= more;
    grown |= more != 0;
    for (; more != 0; more &= more - 1)
      count(live, into, i * 64 + (unsigned)__builtin_ctzll(more), true);
  }
  return grown;
}

/* ---- Uses and definitions ---- */

/* Registers of one word of the set. */
static inline void mark_word(const Live *live, Set *set, unsigned word, uint64_t bits, bool alive)
{
  uint64_t change = bits & (alive ? ~set->words[word] : set->words[word]);
  set->words[word] ^= change;
  for (; change != 0; change &= change - 1)
    count(live, set, word * 64 + (unsigned)__builtin_ctzll(change), alive);
}

static inline void mark(const Live *live, Set *set, unsigned first, unsigned n, bool alive)
{
  if (n == 1) {
    mark_word(live, set, first / 64, 1ull << first % 64, alive);
    return;
  }
  for (unsigned end = first + n; first < end; first = (first / 64 + 1) * 64)
    mark_word(live, set, first / 64, ~0ull << first % 64 & ~0ull >> (63 - MIN(end - 1, first | 63) % 64),
              alive);
}

/* Registers of a value, or of a constant part of an array; false if the expression is none. */
static bool registers_of(const Live *live, const IrExpr *expr, unsigned *first, unsigned *n)
{
  int64_t low, high;
  const IrExpr *base = expr->kind == EXPR_INDEX ? expr->items[0] : expr;
  if (base->kind != EXPR_VALUE) return false;
  unsigned number = live->first[base->value->id];
  if (number == 0) return false; /* a tensor */
  *first = number - 1;
  *n = MAX(base->value->type.count, 1);
  if (expr->kind != EXPR_INDEX || expr->n != 2) return true;
  const IrExpr *index = expr->items[1];
  bool range = index->kind == EXPR_RANGE;
  if (!ir_expr_is_int(range ? index->items[0] : index, &low)) return true;
  high = low + 1;
  if (range && !ir_expr_is_int(index->items[1], &high)) return true;
  if (low < 0 || high <= low || high > *n) return true;
  *first += (unsigned)low;
  *n = (unsigned)(high - low);
  return true;
}

static void use(const Live *live, const IrExpr *expr, Set *set, bool alive)
{
  unsigned first, n;
  if (registers_of(live, expr, &first, &n)) {
    mark(live, set, first, n, alive);
    return;
  }
  for (unsigned i = 0; i < expr->n; i++)
    use(live, expr->items[i], set, alive);
}

/* ---- What is walked ---- */

/* An op that writes operand 0 without reading it: `set`, and a product that starts from zero. */
static bool overwrites(const IrOp *op)
{
  int64_t keep;
  const IrExpr *accumulate = ir_attribute_value(op, ATTR_ACCUMULATE);
  return op->code == OP_SET || (accumulate != NULL && ir_expr_is_int(accumulate, &keep) && keep == 0);
}

static void collect_uses(Live *live, const IrExpr *expr)
{
  Span span;
  if (registers_of(live, expr, &span.first, &span.n)) {
    if (g_array_index(live->units, unsigned char, span.first) != FREE) g_array_append_val(live->uses, span);
    return;
  }
  for (unsigned i = 0; i < expr->n; i++)
    collect_uses(live, expr->items[i]);
}

static Node node_of(Live *live, const IrOp *op)
{
  Node node = {.op = op, .first_use = live->uses->len};
  if (op->n_results > 0) node.results.first = live->first[op->results[0]->id] - 1;
  for (unsigned i = 0; i < op->n_results; i++) /* numbered one behind the other */
    node.results.n += MAX(op->results[i]->type.count, 1);
  node.held = op->code != OP_VAR || op->n_operands > 0;
  node.conditional = ir_attribute(op, ATTR_WHEN) != NULL;
  bool writes = overwrites(op);
  if (writes && !registers_of(live, op->operands[0], &node.written.first, &node.written.n))
    node.written.n = 0;
  if (op->code == OP_FOR || op->code == OP_LOOP || op->code == OP_IF) return node;
  for (unsigned i = writes; i < op->n_operands; i++)
    collect_uses(live, op->operands[i]);
  for (unsigned i = 0; i < op->n_attributes; i++)
    if (op->attributes[i].value != NULL) collect_uses(live, op->attributes[i].value);
  node.n_uses = live->uses->len - node.first_use;
  return node;
}

/* Fills body number `at` in. */
static void collect_body(Live *live, unsigned at, const IrRegion *region)
{
  Body body = {.region = region, .first_node = live->nodes->len};
  for (const IrOp *op = region->first; op != NULL; op = op->next)
    body.n_nodes++;
  g_array_set_size(live->nodes, body.first_node + body.n_nodes);
  Node *node = &g_array_index(live->nodes, Node, body.first_node);
  for (const IrOp *op = region->first; op != NULL; op = op->next)
    *node++ = node_of(live, op);
  g_array_index(live->bodies, Body, at) = body;
  for (unsigned i = body.first_node; i < body.first_node + body.n_nodes; i++) {
    const IrOp *op = g_array_index(live->nodes, Node, i).op;
    if (op->n_regions == 0) continue;
    unsigned first = live->bodies->len;
    g_array_index(live->nodes, Node, i).first_body = first;
    g_array_set_size(live->bodies, first + op->n_regions);
    for (unsigned k = 0; k < op->n_regions; k++)
      collect_body(live, first + k, op->regions[k]);
  }
}

/* ---- The walk ---- */

static void walk_body(Live *live, unsigned at, Set *set, unsigned part);

static void measure(Live *live, const IrOp *op, const Set *set, unsigned part)
{
  IrPressure *pressure = &g_array_index(live->pressures, IrPressure, part);
  if (set->units > pressure->peak || pressure->at == NULL) {
    pressure->peak = set->units;
    pressure->at = op;
  }
  pressure->predicates = MAX(pressure->predicates, set->predicates);
}

/* A region that hands registers over is a role: a part of its own. */
static unsigned part_of_region(const Live *live, const IrRegion *region, unsigned part)
{
  for (unsigned i = 1; i < live->pressures->len; i++)
    if (g_array_index(live->pressures, IrPressure, i).role->parent == region) return i;
  return part;
}

static void walk_loop(Live *live, const Node *node, Set *set, unsigned part)
{
  const IrOp *op = node->op;
  bool measuring = live->measuring;
  g_autofree Set *after = set_new(live, set);
  g_autofree Set *head = set_new(live, set);
  if (op->code == OP_LOOP) set_clear(live, head);                /* left by break_if only */
  for (unsigned i = op->code == OP_FOR; i < op->n_operands; i++) /* bound and step are read every iteration */
    use(live, op->operands[i], head, true);
  for (unsigned i = 0; i < op->regions[0]->n_arguments; i++) {
    unsigned first = live->first[op->regions[0]->arguments[i]->id] - 1;
    mark(live, head, first, 1, true);
  }
  g_array_append_val(live->exits, after);
  live->measuring = false;
  for (bool again = true; again;) {
    g_autofree Set *body = set_new(live, head);
    walk_body(live, node->first_body, body, part);
    again = set_join(live, head, body);
  }
  live->measuring = measuring;
  if (measuring) { /* everything live at the head is known */
    g_autofree Set *body = set_new(live, head);
    walk_body(live, node->first_body, body, part);
  }
  g_array_set_size(live->exits, live->exits->len - 1);
  set_join(live, set, head);
  for (unsigned i = 0; i < op->regions[0]->n_arguments; i++) {
    unsigned first = live->first[op->regions[0]->arguments[i]->id] - 1;
    mark(live, set, first, 1, false);
  }
  for (unsigned i = 0; i < op->n_operands; i++)
    use(live, op->operands[i], set, true);
}

static void walk_if(Live *live, const Node *node, Set *set, unsigned part)
{
  g_autofree Set *after = set_new(live, set);
  walk_body(live, node->first_body, set, part);
  if (node->op->n_regions > 1) walk_body(live, node->first_body + 1, after, part);
  set_join(live, set, after);
  use(live, node->op->operands[0], set, true);
}

static void walk_node(Live *live, const Node *node, Set *set, unsigned part)
{
  const IrOp *op = node->op;
  if (op->code == OP_FOR || op->code == OP_LOOP) {
    walk_loop(live, node, set, part);
    return;
  }
  if (op->code == OP_IF) {
    walk_if(live, node, set, part);
    return;
  }
  if (op->code == OP_BREAK_IF && live->exits->len > 0)
    set_join(live, set, g_array_index(live->exits, Set *, live->exits->len - 1));
  if (op->code == OP_EXIT && !node->conditional) set_clear(live, set);
  /* a result occupies its register even if nothing reads it */
  if (node->held) mark(live, set, node->results.first, node->results.n, true);
  if (node->written.n > 0) mark(live, set, node->written.first, node->written.n, true);
  if (live->measuring) measure(live, op, set, part);
  if (node->written.n > 0 && !node->conditional) mark(live, set, node->written.first, node->written.n, false);
  mark(live, set, node->results.first, node->results.n, false);
  const Span *uses = &g_array_index(live->uses, Span, node->first_use);
  for (unsigned i = 0; i < node->n_uses; i++)
    mark(live, set, uses[i].first, uses[i].n, true);
  if (live->measuring) measure(live, op, set, part);
}

static void walk_body(Live *live, unsigned at, Set *set, unsigned part)
{
  const Body *body = &g_array_index(live->bodies, Body, at);
  const Node *nodes = &g_array_index(live->nodes, Node, body->first_node);
  part = part_of_region(live, body->region, part);
  for (unsigned i = body->n_nodes; i-- > 0;)
    walk_node(live, &nodes[i], set, part);
}

IrPressure *ir_pressure(const IrFunction *kernel, unsigned *n)
{
  IrPressure whole = {0};
  Live live = {.first = g_new0(unsigned, ir_give_ids(kernel)), .measuring = true};
  live.units = g_array_new(false, false, 1);
  live.pressures = g_array_new(false, true, sizeof(IrPressure));
  live.exits = g_array_new(false, false, sizeof(Set *));
  live.nodes = g_array_new(false, false, sizeof(Node));
  live.bodies = g_array_new(false, false, sizeof(Body));
  live.uses = g_array_new(false, false, sizeof(Span));
  g_array_append_val(live.pressures, whole);
  number_region(&live, kernel->body);
  live.words = live.units->len / 64 + 1;
  g_array_set_size(live.bodies, 1);
  collect_body(&live, 0, kernel->body);
  g_autofree Set *set = set_new(&live, NULL);
  walk_body(&live, 0, set, 0);
  *n = live.pressures->len;
  g_free(live.first);
  g_array_unref(live.units);
  g_array_unref(live.exits);
  g_array_unref(live.nodes);
  g_array_unref(live.bodies);
  g_array_unref(live.uses);
  return (IrPressure *)(void *)g_array_free(live.pressures, false);
}

/* A line through what assembler 13.0 allocated for the kernels of the catalogue (scripts/check-pressure): it
 * needs registers of its own and issues loads early, which shows in small kernels, and recomputes and
 * reorders more where more is live. */
unsigned ir_pressure_registers(const IrPressure *kernel)
{
  return kernel->peak + 10 - kernel->peak * 3 / 32;
}
