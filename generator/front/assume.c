#include "generator/front/assume.h"
#include <string.h>

Assumptions *assumptions_new(void)
{
  Assumptions *assumptions = g_new0(Assumptions, 1);
  assumptions->arena = arena_new();
  assumptions->list = g_array_new(FALSE, TRUE, sizeof(Assumption));
  return assumptions;
}

void assumptions_free(Assumptions *assumptions)
{
  if (!assumptions) return;
  g_array_unref(assumptions->list);
  arena_free(assumptions->arena);
  g_free(assumptions);
}

/* ---- one symbol of an expression ---- */

typedef struct {
  Arena *arena;
  const char *name;
  const Symbolic *value;
  unsigned n; /* times that it was met */
} Replacement;

static const Symbolic *replace(const Symbolic *leaf, void *data)
{
  Replacement *r = data;
  if (leaf->kind != SYMBOLIC_SYMBOL || strcmp(leaf->name, r->name)) return NULL;
  r->n++;
  return r->value;
}

static const Symbolic *with(Arena *arena, const Symbolic *expression, const char *name, const Symbolic *value)
{
  Replacement r = {arena, name, value, 0};
  return symbolic_substitute(arena, expression, replace, &r);
}

static bool has(Arena *arena, const Symbolic *expression, const char *name)
{
  Replacement r = {arena, name, symbolic_constant(arena, 0), 0};
  symbolic_substitute(arena, expression, replace, &r);
  return r.n > 0;
}

/* expression = factor * symbol + rest, where the rest does not name the symbol. */
static bool is_linear(Arena *arena, const Symbolic *expression, const char *name, int64_t *factor,
                      const Symbolic **rest)
{
  const Symbolic *symbol = symbolic_symbol(arena, name);
  *rest = with(arena, expression, name, symbolic_constant(arena, 0));
  const Symbolic *one = with(arena, expression, name, symbolic_constant(arena, 1));
  if (!symbolic_is_constant(symbolic_sub(arena, one, *rest), factor) || !*factor) return false;
  const Symbolic *again =
      symbolic_add(arena, *rest, symbolic_mul(arena, symbolic_constant(arena, *factor), symbol));
  return symbolic_same(again, expression) && !has(arena, *rest, name);
}

static void note_name(const Symbolic *leaf, void *data)
{
  if (leaf->kind == SYMBOLIC_SYMBOL) g_ptr_array_add(data, (void *)leaf->name);
}

/* ---- what is taken for granted ---- */

typedef struct {
  Assumptions *assumptions;
  const SymbolicFacts *facts;
  bool solving; /* a symbol may be replaced, or become a number */
} Assuming;

/* false: it was known when the reading began, and was of no help. */
static bool add(Assuming *at, const char *name, int64_t min, int64_t max, const Symbolic *equals)
{
  GArray *list = at->assumptions->list;
  for (unsigned i = 0; i < list->len; i++) {
    const Assumption *made = &g_array_index(list, Assumption, i);
    if (strcmp(made->name, name)) continue;
    bool same = made->equals && equals ? symbolic_same(made->equals, equals) : made->equals == equals;
    if (same && made->min == min && made->max == max) return i >= at->assumptions->known;
  }
  Arena *arena = at->assumptions->arena;
  Assumption made = {arena_strdup(arena, name), min, max, symbolic_copy(arena, equals)};
  g_array_append_val(list, made);
  return true;
}

/* 0 = expression: the symbol that stands last and that the others give, or a number. */
static bool solve(Assuming *at, const Symbolic *expression)
{
  g_autoptr(Arena) arena = arena_new();
  g_autoptr(GPtrArray) names = g_ptr_array_new();
  symbolic_visit(expression, note_name, names);
  for (unsigned i = names->len; i-- > 0;) {
    const Symbolic *rest;
    int64_t factor, value, least, most;
    if (!is_linear(arena, expression, names->pdata[i], &factor, &rest)) continue;
    if (symbolic_is_constant(rest, &value)) {
      int64_t number = -(value / factor);
      if (value % factor || number < 0 || number > SYMBOLIC_DIMENSION_MAX) return false;
      return add(at, names->pdata[i], number, number, NULL);
    }
    if (factor != 1 && factor != -1) continue;
    const Symbolic *equals = symbolic_mul(arena, rest, symbolic_constant(arena, -factor));
    symbolic_range(equals, at->facts, &least, &most);
    if (least >= 0) return add(at, names->pdata[i], 0, SYMBOLIC_DIMENSION_MAX, equals);
  }
  return false;
}

/* expression >= 0, of one symbol. */
static bool assume_not_negative(Assuming *at, const Symbolic *expression)
{
  g_autoptr(Arena) arena = arena_new();
  g_autoptr(GPtrArray) names = g_ptr_array_new();
  const Symbolic *rest;
  int64_t factor, number, least, most;
  symbolic_range(expression, at->facts, &least, &most);
  if (least >= 0) return true;
  symbolic_visit(expression, note_name, names);
  if (most < 0 || !names->len || !is_linear(arena, expression, names->pdata[0], &factor, &rest) ||
      !symbolic_is_constant(rest, &number))
    return false;
  if (factor < 0) /* the symbol is at most number / -factor */
    return number >= 0 && add(at, names->pdata[0], 0, number / -factor, NULL);
  return add(at, names->pdata[0], MAX(0, (factor - 1 - number) / factor), SYMBOLIC_DIMENSION_MAX, NULL);
}

/* ---- the smaller and the larger of two ---- */

#define MAX_CHOICES 4 /* one after the other */

/* One of which no operand is one. */
static const Symbolic *find_choice(const Symbolic *expression)
{
  if (!expression) return NULL;
  const Symbolic *inner = find_choice(expression->a);
  if (!inner) inner = find_choice(expression->b);
  bool choice = expression->kind == SYMBOLIC_MIN || expression->kind == SYMBOLIC_MAX;
  return inner ? inner : choice ? expression : NULL;
}

static const Symbolic *chosen(Arena *arena, const Symbolic *expression, const Symbolic *choice,
                              const Symbolic *by)
{
  if (symbolic_same(expression, choice)) return by;
  if (!expression->a || !expression->b) return expression;
  return symbolic_binary(arena, expression->kind, chosen(arena, expression->a, choice, by),
                         chosen(arena, expression->b, choice, by));
}

static bool are_equal(Assuming *at, const Symbolic *a, const Symbolic *b, unsigned choices);

/* Equal if the choice falls on `by`. */
static bool are_equal_by(Assuming *at, const Symbolic *const pair[2], const Symbolic *choice,
                         const Symbolic *by, unsigned choices)
{
  g_autoptr(Arena) arena = arena_new();
  const Symbolic *other = by == choice->a ? choice->b : choice->a;
  bool least = choice->kind == SYMBOLIC_MIN;
  const Symbolic *excess = symbolic_sub(arena, least ? other : by, least ? by : other);
  /* an extent that is max(0, x) is x if x is one: no extent is negative */
  bool extent = !least && symbolic_equals(other, 0) && (choice == pair[0] || choice == pair[1]);
  unsigned before = at->assumptions->list->len;
  if (are_equal(at, chosen(arena, pair[0], choice, by), chosen(arena, pair[1], choice, by), choices - 1) &&
      (extent || assume_not_negative(at, excess)))
    return true;
  g_array_set_size(at->assumptions->list, before);
  return false;
}

static bool are_equal(Assuming *at, const Symbolic *a, const Symbolic *b, unsigned choices)
{
  if (symbolic_same(a, b)) return true;
  if (symbolic_is_constant(a, NULL) && symbolic_is_constant(b, NULL)) return false;
  g_autoptr(Arena) arena = arena_new();
  const Symbolic *const pair[2] = {a, b}, *choice = find_choice(a);
  if (!choice) choice = find_choice(b);
  if (!choice) return at->solving && solve(at, symbolic_sub(arena, a, b));
  return choices && (are_equal_by(at, pair, choice, choice->a, choices) ||
                     are_equal_by(at, pair, choice, choice->b, choices));
}

/* Bounds of symbols come before values: they leave more to the launch. */
bool assume_equal(Assumptions *assumptions, const SymbolicFacts *facts, const Symbolic *a, const Symbolic *b)
{
  Assuming bounds = {assumptions, facts, false}, values = {assumptions, facts, true};
  return are_equal(&bounds, a, b, MAX_CHOICES) || are_equal(&values, a, b, MAX_CHOICES);
}

bool assume_one(Assumptions *assumptions, const SymbolicFacts *facts, const Symbolic *extent)
{
  Assuming bounds = {assumptions, facts, false};
  return find_choice(extent) &&
         are_equal(&bounds, extent, symbolic_constant(assumptions->arena, 1), MAX_CHOICES);
}

const Symbolic *assumptions_apply(const Assumptions *assumptions, Arena *arena, const Symbolic *expression)
{
  for (unsigned i = 0; assumptions && i < assumptions->list->len; i++) {
    const Assumption *made = &g_array_index(assumptions->list, Assumption, i);
    if (made->equals) expression = with(arena, expression, made->name, symbolic_copy(arena, made->equals));
  }
  return expression;
}
