#include "catalog/cases.h"
#include "execute/execute.h"
#include <stdlib.h>
#include <string.h>

#define MAX_SYMBOLS 8
#define MAX_VALUES  32

/* How far beyond its tile a size may lie until the guard admits the kernel: one for many rows starts where
 * those for fewer end. */
#define MAX_TILES 40

typedef struct Chooser {
  const Plan *plan;
  const CompiledKernel *kernel;
  Arena *arena;
  unsigned tile[MAX_SYMBOLS];
  int64_t bound[MAX_SYMBOLS]; /* the largest value that the kernel's guard admits; 0: it names none */
  int64_t base[MAX_SYMBOLS];
  unsigned base_skew;
  GArray *cases; /* CatalogCase */
} Chooser;

/* ---- what the plan says ---- */

unsigned catalog_tensor_skew(const PlanTensor *tensor, unsigned skew)
{
  return skew ? MAX(skew, MAX(tensor->align, (unsigned)number_bytes_of(tensor->type, 1))) : 0;
}

bool catalog_case_launches(const Plan *plan, const CompiledKernel *kernel, const CatalogCase *c)
{
  g_autofree uint64_t *addresses = g_new0(uint64_t, plan->n_tensors + 1);
  for (unsigned i = 0; i < plan->n_tensors; i++)
    addresses[i] = EXECUTION_SIMULATED_BASE;
  for (unsigned i = 0; i < plan->n_tensors; i++)
    if (plan->tensors[i]->kind != PLAN_WORKSPACE)
      addresses[i] += catalog_tensor_skew(plan->tensors[i], c->skew);
  const PlanBindings bindings = {c->symbols, addresses};
  if (!plan_check_bindings(plan, &bindings, NULL)) return false;
  for (unsigned i = 0; i < plan->n_launches; i++) {
    const PlanVariant *variant = plan_choose(plan, plan->launches[i], &bindings, NULL);
    if (variant && !strcmp(variant->kernel, kernel->name)) return true;
  }
  return false;
}

char *catalog_case_text(const Plan *plan, const CatalogCase *c)
{
  GString *text = g_string_new(NULL);
  for (unsigned i = 0; i < plan->n_symbols; i++)
    g_string_append_printf(text, "%s%s=%" G_GINT64_FORMAT, i ? " " : "", plan->symbols[i].name,
                           c->symbols[i]);
  if (c->skew) g_string_append_printf(text, "%sskew=%u", text->len ? " " : "", c->skew);
  return g_string_free(text, FALSE);
}

/* ---- tiles ---- */

/* A tile text names the sizes of M, N and K, of M and N, or of N: the names that catalog.json uses. A word may stand in front of a
 * number, which says how a row is read (passes4096). */
static void read_tiles(Chooser *c)
{
  static const char *const names[] = {"M", "N", "K"};
  g_auto(GStrv) parts = g_strsplit(c->kernel->tile_text ? c->kernel->tile_text : "", "x", -1);
  unsigned n = g_strv_length(parts);
  for (unsigned i = 0; i < c->plan->n_symbols; i++) {
    c->tile[i] = 1;
    for (unsigned k = 0; k < n && k < G_N_ELEMENTS(names); k++)
      if (!strcmp(c->plan->symbols[i].name, names[n == 1 ? 1 : k]))
        c->tile[i] = MAX((unsigned)strtoul(parts[k] + strcspn(parts[k], "0123456789"), NULL, 10), 1);
  }
}

static void read_bound(Chooser *c, const Symbolic *guard)
{
  int64_t limit;
  if (!guard) return;
  if (guard->kind == SYMBOLIC_AND) {
    read_bound(c, guard->a);
    read_bound(c, guard->b);
  }
  if (guard->kind != SYMBOLIC_LE || guard->a->kind != SYMBOLIC_SYMBOL ||
      !symbolic_is_constant(guard->b, &limit))
    return;
  for (unsigned i = 0; i < c->plan->n_symbols; i++)
    if (!strcmp(c->plan->symbols[i].name, guard->a->name)) c->bound[i] = limit;
}

/* A kernel for rows up to a length that is no multiple of its tile is launched between that of the one before it and its own. */
static void read_bounds(Chooser *c)
{
  for (unsigned i = 0; i < c->plan->n_launches; i++) {
    const PlanLaunch *launch = c->plan->launches[i];
    for (unsigned v = 0; v < launch->n_variants; v++)
      if (!strcmp(launch->variants[v]->kernel, c->kernel->name)) read_bound(c, launch->variants[v]->guard);
  }
}

static bool is_prime(int64_t x)
{
  for (int64_t i = 2; i * i <= x; i++)
    if (x % i == 0) return false;
  return x > 1;
}

static int64_t prime_from(int64_t x)
{
  while (!is_prime(x))
    x++;
  return x;
}

/* ---- choosing ---- */

static CatalogCase make_case(const Chooser *c, const int64_t *symbols, unsigned skew, CatalogAdds adds)
{
  CatalogCase out = {arena_new_array(c->arena, int64_t, c->plan->n_symbols + 1), skew, adds};
  memcpy(out.symbols, symbols, c->plan->n_symbols * sizeof *symbols);
  return out;
}

static bool launches(const Chooser *c, const int64_t *symbols, unsigned skew)
{
  const CatalogCase probe = {.symbols = (int64_t *)symbols, .skew = skew};
  return catalog_case_launches(c->plan, c->kernel, &probe);
}

static void add_case(Chooser *c, const int64_t *symbols, unsigned skew, CatalogAdds adds)
{
  if (!launches(c, symbols, skew)) return;
  for (guint i = 0; i < c->cases->len; i++) {
    CatalogCase *known = &g_array_index(c->cases, CatalogCase, i);
    if (known->skew != skew || memcmp(known->symbols, symbols, c->plan->n_symbols * sizeof *symbols) != 0)
      continue;
    known->adds = MIN(known->adds, adds);
    return;
  }
  CatalogCase out = make_case(c, symbols, skew, adds);
  g_array_append_val(c->cases, out);
}

/* Sizes of a dimension at which a kernel may be launched, the smallest first; the last one is what its guard names. */
static const unsigned tiles[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 17, 20, 24, 28, 32, 33, 40};
#define BASES (2 + G_N_ELEMENTS(tiles) + 1)

static int64_t base_value(const Chooser *c, unsigned symbol, unsigned k)
{
  int64_t m = MAX(c->plan->symbols[symbol].multiple, 1), least = c->plan->symbols[symbol].min;
  if (k == BASES - 1) return c->bound[symbol] / m * m;
  int64_t value = k == 0 ? 1 : k == 1 ? 16 : (int64_t)tiles[k - 2] * c->tile[symbol];
  return (MAX(value, least) + m - 1) / m * m;
}

/* The first size, counted up along all dimensions, at which the kernel is launched. */
static bool find_base(Chooser *c)
{
  static const unsigned skews[] = {0, 1};
  unsigned n = c->plan->n_symbols, total = 1;
  for (unsigned i = 0; i < n; i++)
    total *= BASES;
  for (unsigned s = 0; s < G_N_ELEMENTS(skews); s++)
    for (unsigned index = 0; index < total; index++) {
      for (unsigned i = 0, rest = index; i < n; i++, rest /= BASES)
        c->base[i] = base_value(c, i, rest % BASES);
      c->base_skew = skews[s];
      if (launches(c, c->base, c->base_skew)) return true;
    }
  return false;
}

static bool launches_with(const Chooser *c, unsigned symbol, int64_t value)
{
  int64_t symbols[MAX_SYMBOLS];
  memcpy(symbols, c->base, sizeof symbols);
  symbols[symbol] = value;
  return value > 0 && launches(c, symbols, c->base_skew);
}

/* A multiple of the tile and what lies right beside it: one element, a step where the graph asks for
 * multiples, and a vector of 16 where the guard may. True if it was crossed from both sides. */
static bool cross_tile(const Chooser *c, unsigned symbol, int64_t at, int64_t *values, unsigned *n)
{
  int64_t m = MAX(c->plan->symbols[symbol].multiple, 1);
  const int64_t steps[] = {m, m < 16 && c->tile[symbol] > 16 ? 16 : 0};
  bool below = false, above = false;
  if (launches_with(c, symbol, at)) values[(*n)++] = at;
  for (unsigned i = 0; i < G_N_ELEMENTS(steps) && steps[i]; i++) {
    if (launches_with(c, symbol, at - steps[i])) below = (values[(*n)++] = at - steps[i]) != 0;
    if (launches_with(c, symbol, at + steps[i])) above = (values[(*n)++] = at + steps[i]) != 0;
  }
  return below && above;
}

/* Sizes worth trying along one dimension. */
static unsigned candidates(const Chooser *c, unsigned symbol, int64_t *values)
{
  int64_t m = MAX(c->plan->symbols[symbol].multiple, 1), tile = c->tile[symbol];
  int64_t prime = prime_from(tile + tile / 4 + 2), ring = (2 * (int64_t)c->kernel->stages + 1) * tile;
  bool is_k = !strcmp(c->plan->symbols[symbol].name, "K");
  unsigned n = 0;
  values[n++] = 1;
  values[n++] = prime;
  values[n++] = 16 * prime_from(prime / 16 + 1); /* odd in steps of 16, where vectors are asked for */
  if (is_k) values[n++] = (ring + 16) / m * m;
  if (c->bound[symbol] % tile) cross_tile(c, symbol, c->bound[symbol] / m * m, values, &n);
  for (int64_t k = 1; k <= MAX_TILES && n + 5 <= MAX_VALUES; k++)
    if (cross_tile(c, symbol, k * tile, values, &n)) break;
  return n;
}

/* Dimensions that cross together: an edge in each, all of them odd, and several tiles with a last one that is
 * not full, at more steps along k than the ring has stages. */
static void add_combined(Chooser *c, const int64_t *crossing, const int64_t *odd, const int64_t *largest)
{
  int64_t several[MAX_SYMBOLS];
  for (unsigned i = 0; i < c->plan->n_symbols; i++) {
    bool is_k = !strcmp(c->plan->symbols[i].name, "K");
    int64_t more = is_k ? 2 * (int64_t)c->kernel->stages : 1;
    several[i] = c->tile[i] > 1 ? crossing[i] + more * c->tile[i] : crossing[i];
    if (!launches_with(c, i, several[i])) several[i] = largest[i];
  }
  add_case(c, several, c->base_skew, CATALOG_SEVERAL);
  static const unsigned skews[] = {0, 1, 16};
  for (unsigned s = 0; s < G_N_ELEMENTS(skews); s++) {
    if (skews[s]) add_case(c, c->base, skews[s], CATALOG_SINGLE);
    add_case(c, crossing, skews[s], CATALOG_COMBINED);
  }
  add_case(c, odd, c->base_skew, CATALOG_SINGLE);
}

static double volume(const Chooser *c, const CatalogCase *x)
{
  double product = 1;
  for (unsigned i = 0; i < c->plan->n_symbols; i++)
    product *= (double)x->symbols[i];
  return product;
}

static int compare_volumes(const void *a, const void *b, void *data)
{
  double x = volume(data, a), y = volume(data, b);
  return x < y ? -1 : x > y;
}

static void choose(Chooser *c)
{
  int64_t crossing[MAX_SYMBOLS], odd[MAX_SYMBOLS], largest[MAX_SYMBOLS];
  memcpy(crossing, c->base, sizeof crossing);
  memcpy(odd, c->base, sizeof odd);
  memcpy(largest, c->base, sizeof largest);
  add_case(c, c->base, c->base_skew, CATALOG_SINGLE);
  for (unsigned i = 0; i < c->plan->n_symbols; i++) {
    int64_t values[MAX_VALUES], symbols[MAX_SYMBOLS];
    unsigned n = candidates(c, i, values);
    for (unsigned v = 0; v < n; v++) {
      memcpy(symbols, c->base, sizeof symbols);
      symbols[i] = values[v];
      if (!launches(c, symbols, c->base_skew)) continue;
      add_case(c, symbols, c->base_skew, CATALOG_SINGLE);
      largest[i] = MAX(largest[i], values[v]);
      bool beyond = values[v] > c->tile[i] && values[v] % c->tile[i];
      if (beyond && (crossing[i] == c->base[i] || values[v] < crossing[i])) crossing[i] = values[v];
      if (v == 1 || (v == 2 && odd[i] == c->base[i])) odd[i] = values[v];
    }
  }
  add_combined(c, crossing, odd, largest);
  g_array_sort_with_data(c->cases, compare_volumes, c);
  CatalogCase *largest_case = &g_array_index(c->cases, CatalogCase, c->cases->len - 1);
  largest_case->adds = CATALOG_SEVERAL;
}

CatalogCase *catalog_cases(const Plan *plan, const CompiledKernel *kernel, Arena *arena, unsigned *n)
{
  *n = 0;
  if (plan->n_symbols > MAX_SYMBOLS) return NULL;
  Chooser c = {.plan = plan, .kernel = kernel, .arena = arena};
  read_tiles(&c);
  read_bounds(&c);
  if (!find_base(&c)) return NULL;
  c.cases = g_array_new(FALSE, FALSE, sizeof(CatalogCase));
  choose(&c);
  CatalogCase *out = arena_new_array(arena, CatalogCase, c.cases->len);
  memcpy(out, c.cases->data, c.cases->len * sizeof(CatalogCase));
  *n = c.cases->len;
  g_array_free(c.cases, TRUE);
  return out;
}
