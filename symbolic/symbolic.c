#include "symbolic/symbolic.h"
#include <string.h>

/* The normal form is a sum of terms; a term is a coefficient times sorted factors; a factor is anything that
 * is neither a sum, a product nor a number. Beyond these sizes an expression is kept as it was written. */
#define MAX_TERMS   64
#define MAX_FACTORS 32

typedef struct {
  int64_t coefficient;
  unsigned n;
  const Symbolic **factors;
} Term;

typedef struct {
  Term *terms;
  unsigned n;
} Polynomial;

static const Symbolic *new_node(Arena *arena, SymbolicKind kind, const Symbolic *a, const Symbolic *b)
{
  Symbolic *node = arena_new_object(arena, Symbolic);
  *node = (Symbolic){.kind = kind, .a = a, .b = b};
  return node;
}

const Symbolic *symbolic_constant(Arena *arena, int64_t value)
{
  Symbolic *node = arena_new_object(arena, Symbolic);
  *node = (Symbolic){.kind = SYMBOLIC_CONSTANT, .value = value};
  return node;
}

static const Symbolic *named(Arena *arena, SymbolicKind kind, const char *name)
{
  Symbolic *node = arena_new_object(arena, Symbolic);
  *node = (Symbolic){.kind = kind, .name = arena_strdup(arena, name)};
  return node;
}

const Symbolic *symbolic_symbol(Arena *arena, const char *name)
{
  return named(arena, SYMBOLIC_SYMBOL, name);
}

const Symbolic *symbolic_align(Arena *arena, const char *name)
{
  return named(arena, SYMBOLIC_ALIGN, name);
}

bool symbolic_is_constant(const Symbolic *expression, int64_t *value)
{
  if (expression->kind != SYMBOLIC_CONSTANT) return false;
  if (value) *value = expression->value;
  return true;
}

bool symbolic_equals(const Symbolic *expression, int64_t value)
{
  return expression->kind == SYMBOLIC_CONSTANT && expression->value == value;
}

/* A total order on structure: equal only if the same. */
static int compare(const Symbolic *a, const Symbolic *b)
{
  if (a == b) return 0;
  if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
  switch (a->kind) {
  case SYMBOLIC_CONSTANT: return (a->value > b->value) - (a->value < b->value);
  case SYMBOLIC_SYMBOL:
  case SYMBOLIC_ALIGN: return strcmp(a->name, b->name);
  case SYMBOLIC_NOT: return compare(a->a, b->a);
  default: break;
  }
  int first = compare(a->a, b->a);
  return first ? first : compare(a->b, b->b);
}

/* ---- polynomials ---- */

/* Terms of higher degree first, so that the number comes last. */
static int compare_terms(const Term *a, const Term *b)
{
  if (a->n != b->n) return a->n > b->n ? -1 : 1;
  for (unsigned i = 0; i < a->n; i++) {
    int order = compare(a->factors[i], b->factors[i]);
    if (order) return order;
  }
  return 0;
}

/* Sorts, merges terms of the same factors, drops zeros. false on overflow. */
static bool normalise(Polynomial *polynomial)
{
  for (unsigned i = 1; i < polynomial->n; i++) {
    Term moving = polynomial->terms[i];
    unsigned at = i;
    for (; at > 0 && compare_terms(&polynomial->terms[at - 1], &moving) > 0; at--)
      polynomial->terms[at] = polynomial->terms[at - 1];
    polynomial->terms[at] = moving;
  }
  unsigned n = 0;
  for (unsigned i = 0; i < polynomial->n; i++) {
    Term *term = &polynomial->terms[i];
    if (n && !compare_terms(&polynomial->terms[n - 1], term)) {
      int64_t *sum = &polynomial->terms[n - 1].coefficient;
      if (__builtin_add_overflow(*sum, term->coefficient, sum)) return false;
      if (!*sum) n--;
    } else if (term->coefficient) {
      polynomial->terms[n++] = *term;
    }
  }
  polynomial->n = n;
  return true;
}

static bool multiply_terms(Arena *arena, const Term *a, const Term *b, Term *product)
{
  product->n = a->n + b->n;
  if (product->n > MAX_FACTORS) return false;
  if (__builtin_mul_overflow(a->coefficient, b->coefficient, &product->coefficient)) return false;
  product->factors = arena_new_array(arena, const Symbolic *, product->n);
  unsigned i = 0, j = 0;
  for (unsigned k = 0; k < product->n; k++)
    product->factors[k] = j == b->n || (i < a->n && compare(a->factors[i], b->factors[j]) <= 0)
                              ? a->factors[i++]
                              : b->factors[j++];
  return true;
}

static void single(Arena *arena, const Symbolic *expression, Polynomial *polynomial)
{
  polynomial->terms = arena_new_array(arena, Term, 1);
  polynomial->n = 1;
  if (expression->kind == SYMBOLIC_CONSTANT) {
    polynomial->terms[0].coefficient = expression->value;
    polynomial->n = expression->value != 0;
    return;
  }
  polynomial->terms[0] = (Term){1, 1, arena_new_array(arena, const Symbolic *, 1)};
  polynomial->terms[0].factors[0] = expression;
}

static Polynomial polynomial_of(Arena *arena, const Symbolic *expression);

static bool combine(Arena *arena, SymbolicKind kind, const Symbolic *x, const Symbolic *y, Polynomial *result)
{
  Polynomial a = polynomial_of(arena, x), b = polynomial_of(arena, y);
  if (kind == SYMBOLIC_MUL) {
    if (a.n * b.n > MAX_TERMS) return false;
    result->n = 0;
    result->terms = arena_new_array(arena, Term, a.n * b.n);
    for (unsigned i = 0; i < a.n; i++)
      for (unsigned j = 0; j < b.n; j++)
        if (!multiply_terms(arena, &a.terms[i], &b.terms[j], &result->terms[result->n++])) return false;
    return normalise(result);
  }
  if (a.n + b.n > MAX_TERMS) return false;
  result->n = a.n + b.n;
  result->terms = arena_new_array(arena, Term, result->n);
  if (a.n) memcpy(result->terms, a.terms, a.n * sizeof(Term));
  for (unsigned i = 0; i < b.n; i++) {
    Term *term = &result->terms[a.n + i];
    *term = b.terms[i];
    if (kind == SYMBOLIC_SUB && __builtin_sub_overflow((int64_t)0, term->coefficient, &term->coefficient))
      return false;
  }
  return normalise(result);
}

static Polynomial polynomial_of(Arena *arena, const Symbolic *expression)
{
  Polynomial polynomial;
  if ((expression->kind == SYMBOLIC_ADD || expression->kind == SYMBOLIC_MUL) &&
      combine(arena, expression->kind, expression->a, expression->b, &polynomial))
    return polynomial;
  single(arena, expression, &polynomial);
  return polynomial;
}

static const Symbolic *term_tree(Arena *arena, const Term *term)
{
  const Symbolic *tree = NULL;
  if (!term->n || term->coefficient != 1) tree = symbolic_constant(arena, term->coefficient);
  for (unsigned i = 0; i < term->n; i++)
    tree = tree ? new_node(arena, SYMBOLIC_MUL, tree, term->factors[i]) : term->factors[i];
  return tree;
}

static const Symbolic *tree_of(Arena *arena, const Polynomial *polynomial)
{
  if (!polynomial->n) return symbolic_constant(arena, 0);
  const Symbolic *tree = term_tree(arena, &polynomial->terms[0]);
  for (unsigned i = 1; i < polynomial->n; i++)
    tree = new_node(arena, SYMBOLIC_ADD, tree, term_tree(arena, &polynomial->terms[i]));
  return tree;
}

const Symbolic *symbolic_above(Arena *arena, const Symbolic *a, const Symbolic *b,
                               bool (*may_be_negative)(const Symbolic *factor, void *data), void *data)
{
  Polynomial x = polynomial_of(arena, a), y = polynomial_of(arena, b), above = {NULL, 0};
  if (x.n + y.n > MAX_TERMS) return NULL;
  above.terms = arena_new_array(arena, Term, x.n + y.n);
  for (unsigned i = 0, j = 0; i < x.n || j < y.n;) { /* both are sorted; what a sum lacks it has 0 times */
    int order = i == x.n ? 1 : j == y.n ? -1 : compare_terms(&x.terms[i], &y.terms[j]);
    Term term = order <= 0 ? x.terms[i] : y.terms[j];
    int64_t other = order ? 0 : y.terms[j].coefficient;
    term.coefficient = MAX(term.coefficient, other);
    for (unsigned k = 0; k < term.n; k++)
      if (may_be_negative(term.factors[k], data)) return NULL;
    if (term.coefficient) above.terms[above.n++] = term;
    i += order <= 0;
    j += order >= 0;
  }
  return tree_of(arena, &above);
}

/* ---- building ---- */

static bool compute(SymbolicKind kind, int64_t a, int64_t b, int64_t *value)
{
  bool divides = kind == SYMBOLIC_DIV || kind == SYMBOLIC_MOD || kind == SYMBOLIC_CEIL_DIV;
  if (divides && (b == 0 || (a == INT64_MIN && b == -1))) return false;
  switch (kind) {
  case SYMBOLIC_ADD: return !__builtin_add_overflow(a, b, value);
  case SYMBOLIC_SUB: return !__builtin_sub_overflow(a, b, value);
  case SYMBOLIC_MUL: return !__builtin_mul_overflow(a, b, value);
  case SYMBOLIC_DIV: *value = a / b; return true;
  case SYMBOLIC_MOD: *value = a % b; return true;
  case SYMBOLIC_CEIL_DIV: *value = a / b + (a % b != 0 && (a < 0) == (b < 0)); return true;
  case SYMBOLIC_MIN: *value = MIN(a, b); return true;
  case SYMBOLIC_MAX: *value = MAX(a, b); return true;
  case SYMBOLIC_LT: *value = a < b; return true;
  case SYMBOLIC_LE: *value = a <= b; return true;
  case SYMBOLIC_GT: *value = a > b; return true;
  case SYMBOLIC_GE: *value = a >= b; return true;
  case SYMBOLIC_EQ: *value = a == b; return true;
  case SYMBOLIC_NE: *value = a != b; return true;
  case SYMBOLIC_AND: *value = a && b; return true;
  case SYMBOLIC_OR: *value = a || b; return true;
  default: return false;
  }
}

/* a / d, ceil_div(a, d) and a % d where d divides every coefficient of a. */
static const Symbolic *exact_quotient(Arena *arena, SymbolicKind kind, const Symbolic *a, int64_t d)
{
  Polynomial polynomial = polynomial_of(arena, a);
  if (d <= 0) return NULL;
  for (unsigned i = 0; i < polynomial.n; i++)
    if (polynomial.terms[i].coefficient % d) return NULL;
  if (kind == SYMBOLIC_MOD) return symbolic_constant(arena, 0);
  for (unsigned i = 0; i < polynomial.n; i++)
    polynomial.terms[i].coefficient /= d;
  return tree_of(arena, &polynomial);
}

static bool is_truth(const Symbolic *x)
{
  return x->kind >= SYMBOLIC_LT || symbolic_equals(x, 0) || symbolic_equals(x, 1);
}

/* What follows from a constant difference, or from one constant side of a logical operation; NULL: nothing.
 */
static const Symbolic *fold(Arena *arena, SymbolicKind kind, const Symbolic *a, const Symbolic *b)
{
  int64_t difference, value;
  if (kind == SYMBOLIC_AND || kind == SYMBOLIC_OR) {
    bool stops = kind == SYMBOLIC_OR; /* the value of a that decides */
    if (symbolic_is_constant(a, &value)) {
      if ((value != 0) == stops) return symbolic_constant(arena, stops);
      return is_truth(b) ? b : NULL;
    }
    return symbolic_is_constant(b, &value) && (value != 0) != stops && is_truth(a) ? a : NULL;
  }
  if (kind < SYMBOLIC_MIN || kind > SYMBOLIC_NE) return NULL;
  Polynomial polynomial;
  if (!combine(arena, SYMBOLIC_SUB, a, b, &polynomial)) return NULL;
  if (polynomial.n > 1 || (polynomial.n && polynomial.terms[0].n)) return NULL;
  difference = polynomial.n ? polynomial.terms[0].coefficient : 0;
  if (kind == SYMBOLIC_MIN) return difference <= 0 ? a : b;
  if (kind == SYMBOLIC_MAX) return difference >= 0 ? a : b;
  return compute(kind, difference, 0, &value) ? symbolic_constant(arena, value) : NULL;
}

const Symbolic *symbolic_binary(Arena *arena, SymbolicKind kind, const Symbolic *a, const Symbolic *b)
{
  int64_t x, y, value;
  if (symbolic_is_constant(a, &x) && symbolic_is_constant(b, &y) && compute(kind, x, y, &value))
    return symbolic_constant(arena, value);
  if (kind == SYMBOLIC_ADD || kind == SYMBOLIC_SUB || kind == SYMBOLIC_MUL) {
    Polynomial polynomial;
    if (combine(arena, kind, a, b, &polynomial)) return tree_of(arena, &polynomial);
    if (kind != SYMBOLIC_SUB) return new_node(arena, kind, a, b);
    /* one tree for `a - 3` and `a + -3`, also where they cannot be added */
    const Symbolic *negated = symbolic_binary(arena, SYMBOLIC_MUL, symbolic_constant(arena, -1), b);
    return symbolic_binary(arena, SYMBOLIC_ADD, a, negated);
  }
  if (kind == SYMBOLIC_DIV || kind == SYMBOLIC_MOD || kind == SYMBOLIC_CEIL_DIV) {
    const Symbolic *exact = symbolic_is_constant(b, &y) ? exact_quotient(arena, kind, a, y) : NULL;
    return exact ? exact : new_node(arena, kind, a, b);
  }
  const Symbolic *folded = fold(arena, kind, a, b);
  if (folded) return folded;
  bool swaps = (kind == SYMBOLIC_MIN || kind == SYMBOLIC_MAX) && compare(a, b) > 0;
  return swaps ? new_node(arena, kind, b, a) : new_node(arena, kind, a, b);
}

const Symbolic *symbolic_not(Arena *arena, const Symbolic *a)
{
  if (a->kind == SYMBOLIC_CONSTANT) return symbolic_constant(arena, !a->value);
  return new_node(arena, SYMBOLIC_NOT, a, NULL);
}

bool symbolic_same(const Symbolic *a, const Symbolic *b)
{
  return !compare(a, b);
}

/* ---- walking ---- */

static bool fail(GError **error, const char *message)
{
  error_set(error, ERROR_INPUT, NULL, "expression", NULL, "%s", message);
  return false;
}

bool symbolic_evaluate(const Symbolic *expression, SymbolicLookup lookup, void *data, int64_t *value,
                       GError **error)
{
  int64_t a, b;
  switch (expression->kind) {
  case SYMBOLIC_CONSTANT: *value = expression->value; return true;
  case SYMBOLIC_SYMBOL:
  case SYMBOLIC_ALIGN:
    if (lookup && lookup(expression, value, data)) return true;
    error_set(error, ERROR_INPUT, NULL, "unbound-symbol", NULL,
              expression->kind == SYMBOLIC_SYMBOL ? "symbol `%s` has no value" : "pointer `%s` is not known",
              expression->name);
    return false;
  case SYMBOLIC_NOT:
    if (!symbolic_evaluate(expression->a, lookup, data, &a, error)) return false;
    *value = !a;
    return true;
  default: break;
  }
  if (!symbolic_evaluate(expression->a, lookup, data, &a, error)) return false;
  bool stops = (expression->kind == SYMBOLIC_AND && a == 0) || (expression->kind == SYMBOLIC_OR && a != 0);
  if (stops) {
    *value = a != 0;
    return true;
  }
  if (!symbolic_evaluate(expression->b, lookup, data, &b, error)) return false;
  if (compute(expression->kind, a, b, value)) return true;
  bool divides = expression->kind >= SYMBOLIC_DIV && expression->kind <= SYMBOLIC_CEIL_DIV;
  return fail(error, divides && b == 0 ? "division by zero" : "the value does not fit into 64 bits");
}

const Symbolic *symbolic_substitute(Arena *arena, const Symbolic *expression, SymbolicReplace replace,
                                    void *data)
{
  const Symbolic *leaf;
  switch (expression->kind) {
  case SYMBOLIC_CONSTANT: return expression;
  case SYMBOLIC_SYMBOL:
  case SYMBOLIC_ALIGN: leaf = replace(expression, data); return leaf ? leaf : expression;
  case SYMBOLIC_NOT: return symbolic_not(arena, symbolic_substitute(arena, expression->a, replace, data));
  default: break;
  }
  const Symbolic *a = symbolic_substitute(arena, expression->a, replace, data);
  const Symbolic *b = symbolic_substitute(arena, expression->b, replace, data);
  return a == expression->a && b == expression->b ? expression
                                                  : symbolic_binary(arena, expression->kind, a, b);
}

const Symbolic *symbolic_copy(Arena *arena, const Symbolic *expression)
{
  if (!expression) return NULL;
  Symbolic *copy = arena_memdup(arena, expression, sizeof *expression);
  copy->name = arena_strdup(arena, expression->name);
  copy->a = symbolic_copy(arena, expression->a);
  copy->b = symbolic_copy(arena, expression->b);
  return copy;
}

void symbolic_visit(const Symbolic *expression, void (*visit)(const Symbolic *, void *), void *data)
{
  if (expression->kind == SYMBOLIC_SYMBOL || expression->kind == SYMBOLIC_ALIGN) visit(expression, data);
  if (expression->a) symbolic_visit(expression->a, visit, data);
  if (expression->b) symbolic_visit(expression->b, visit, data);
}
