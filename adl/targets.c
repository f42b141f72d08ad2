/* What the target has: target, PTX version, families and instruction shapes against adl/targets.yaml, since
 * the assembler would only say so of generated text, and of a line that nobody wrote. Needs: all sections
 * read without a fault. */
#include "adl/build.h"
#include "base/data.h"
#include <string.h>

#define TABLE "adl/targets.yaml"

typedef struct {
  Build *build;
  Node *root;
  const Entry *target, *ptx;
  GPtrArray *names; /* of all targets, NULL-terminated */
} Table;

static Node *member(Node *map, const char *key)
{
  return map && map->kind == NODE_MAPPING ? node_get(map, key) : NULL;
}

/* sm_NNa -> NN */
static unsigned target_number(const char *target)
{
  return (unsigned)g_ascii_strtoull(target + strcspn(target, "0123456789"), NULL, 10);
}

static bool list_has(const Node *list, const char *text)
{
  if (!list) return false;
  if (list->kind == NODE_SCALAR) return !strcmp(list->text, text);
  for (unsigned i = 0; list->kind == NODE_SEQUENCE && i < list->n; i++)
    if (list->items[i]->kind == NODE_SCALAR && !strcmp(list->items[i]->text, text)) return true;
  return false;
}

/* Does the target have what the row is about? A row names the targets (`only`) or the first of them (`from`).
 */
static bool row_admits(Node *row, const char *target)
{
  Node *only = member(row, "only"), *from = member(row, "from");
  if (only) return list_has(only, target);
  return from && from->kind == NODE_SCALAR && target_number(target) >= target_number(from->text);
}

/* "NAME and later", or the names */
static char *row_targets(Node *row)
{
  Node *only = member(row, "only"), *from = member(row, "from");
  if (!only) return g_strdup_printf("%s and later", from && from->text ? from->text : "?");
  g_autoptr(GString) text = g_string_new(NULL);
  for (unsigned i = 0; i < only->n; i++)
    g_string_append_printf(text, "%s%s", i ? ", " : "", only->items[i]->text);
  return g_string_free(g_steal_pointer(&text), FALSE);
}

/* A version of the table, major * 10 + minor; 0: the row has none. */
static double row_version(Table *table, Node *row, const char *key)
{
  Node *node = member(row, key);
  if (node && node->kind == NODE_MAPPING) node = member(node, "value");
  double version = 0;
  if (node) build_version(table->build, node, &version);
  return version;
}

static char *names_text(const Table *table, const char *oldest)
{
  g_autoptr(GString) text = g_string_new(NULL);
  for (guint i = 0; i + 1 < table->names->len; i++)
    if (target_number(table->names->pdata[i]) >= target_number(oldest))
      g_string_append_printf(text, "%s%s", text->len ? ", " : "", (const char *)table->names->pdata[i]);
  return g_string_free(g_steal_pointer(&text), FALSE);
}

/* ---- target and version ---- */

static const char *oldest_target(const Table *table)
{
  Node *oldest = member(table->root, "oldest");
  return oldest && oldest->kind == NODE_SCALAR ? oldest->text : "";
}

static bool check_target(Table *table)
{
  const Entry *target = table->target;
  const char *oldest = oldest_target(table);
  bool known = g_strv_contains((const char *const *)table->names->pdata, target->text);
  if (known && target_number(target->text) >= target_number(oldest)) return true;
  const char *near = known ? NULL : nearest_name(target->text, (const char *const *)table->names->pdata);
  if (near && target_number(near) < target_number(oldest)) near = NULL;
  g_autofree char *list = names_text(table, oldest);
  g_autofree char *hint =
      near ? g_strdup_printf("did you mean `%s`? Known: %s", near, list) : g_strdup_printf("known: %s", list);
  if (known)
    build_error(table->build, &target->mark, "target", hint,
                "adlgen generates nothing for %s: %s is the oldest", target->text, oldest);
  else
    build_error(table->build, &target->mark, "target", hint, "no target is called `%s`", target->text);
  return false;
}

/* The two sides of a fault: the one nearest to the named file is shown, the other named. */
static void report_pair(Table *table, const Entry *one, const Entry *other, const char *hint,
                        const char *message)
{
  const Entry *shown = build_culprit(table->build, (const Entry *const[]){one, other}, 2);
  build_error(table->build, &shown->mark, "contradiction", hint, "%s", message);
  build_given(table->build, shown == one ? other : one);
}

/* What asks for the highest PTX version, and which. */
typedef struct {
  double version;
  const Entry *entry;
  char *what;
} Demand;

static void demand(Demand *highest, double version, const Entry *entry, const char *format, const char *name)
{
  if (version <= highest->version) return;
  g_free(highest->what);
  highest->what = g_strdup_printf(format, name);
  highest->version = version;
  highest->entry = entry;
}

/* The text that is emitted carries one version, which must cover the target, every family and every shape. */
static Demand highest_demand(Table *table)
{
  Demand highest = {0};
  const GPtrArray *entries = table->build->private->entries;
  Node *families = member(table->root, "families");
  demand(&highest, row_version(table, member(table->root, "targets"), table->target->text), table->target,
         "the first version that has target %s", table->target->text);
  for (guint i = 0; i < entries->len; i++) {
    const Entry *entry = entries->pdata[i];
    if (entry->kind == RULE_VERSION && entry != table->ptx)
      demand(&highest, entry->number, entry, "as %s says", entry->path);
  }
  for (unsigned i = 0; i < families->n; i++) {
    const Entry *family = build_family_entry(table->build, families->keys[i]);
    if (family)
      demand(&highest, row_version(table, families->items[i], "emitted"), family,
             "which what adlgen emits for family `%s` needs", families->keys[i]);
  }
  return highest;
}

static void check_version(Table *table)
{
  const Entry *ptx = table->ptx;
  Node *versions = member(table->root, "versions");
  g_autofree char *own = g_strdup_printf("%.1f", ptx->number / 10);
  if (versions && !list_has(versions, own)) {
    build_error(table->build, &ptx->mark, "target",
                "6.0 to 9.0 are known; an older one runs with more drivers",
                "there is no PTX version %s that this program knows", own);
    return;
  }
  Demand highest = highest_demand(table);
  if (ptx->number < highest.version) {
    g_autofree char *hint =
        g_strdup_printf("`ptx: %.1f` covers target, families and shapes", highest.version / 10);
    g_autofree char *message =
        g_strdup_printf("ptx %s is below %.1f, %s", own, highest.version / 10, highest.what);
    report_pair(table, ptx, highest.entry, hint, message);
  }
  g_free(highest.what);
}

/* An architecture that is called by a target's name is that target's. */
static void check_name(Table *table, const char *architecture)
{
  if (!architecture || !g_strv_contains((const char *const *)table->names->pdata, architecture)) return;
  if (!strcmp(architecture, table->target->text)) return;
  bool own = build_distance(table->build, &table->target->mark) == 0;
  g_autofree char *hint = g_strdup_printf("target: %s", architecture);
  build_error(table->build, own ? &table->target->mark : &table->build->end, "contradiction", hint,
              "architecture %s has target %s", architecture, table->target->text);
  if (!own) build_given(table->build, table->target);
}

/* ---- families ---- */

/* Targets that have all families of the description, for a hint; NULL: none. */
static char *targets_for_all(Table *table)
{
  Node *families = member(table->root, "families");
  g_autoptr(GString) text = g_string_new(NULL);
  for (guint i = 0; i + 1 < table->names->len; i++) {
    const char *target = table->names->pdata[i];
    bool all = target_number(target) >= target_number(oldest_target(table));
    for (unsigned k = 0; k < families->n && all; k++)
      all = !build_family_entry(table->build, families->keys[k]) || row_admits(families->items[k], target);
    if (all) g_string_append_printf(text, "%s%s", text->len ? ", " : "", target);
  }
  return text->len ? g_string_free(g_steal_pointer(&text), FALSE) : NULL;
}

typedef struct {
  GString *names, *nulls; /* of families that the target lacks and a base lists */
  const Source *last;
  const Entry *first;
  unsigned n;
} Lacking;

static void add_lacking(Lacking *lacking, const Entry *entry, const char *family)
{
  g_string_append_printf(lacking->names, "%s%s (%s:%u)", lacking->n ? ", " : "", family,
                         lacking->last == entry->mark.source ? "" : entry->mark.source->name,
                         entry->mark.line);
  g_string_append_printf(lacking->nulls, "%s%s: null", lacking->n ? ", " : "", family);
  lacking->last = entry->mark.source;
  if (!lacking->n++) lacking->first = entry;
}

static char *lacking_hint(Table *table, const char *nulls)
{
  g_autofree char *able = targets_for_all(table);
  return able ? g_strdup_printf("`families: {%s}` removes them; %s has all that is listed", nulls, able)
              : g_strdup_printf("`families: {%s}` removes them", nulls);
}

/* One fault for all families that the file's own target lacks, one for each that the file lists itself. */
static void check_families(Table *table)
{
  Node *families = member(table->root, "families");
  Lacking lacking = {.names = g_string_new(NULL), .nulls = g_string_new(NULL)};
  for (unsigned i = 0; i < families->n; i++) {
    const Entry *entry = build_family_entry(table->build, families->keys[i]);
    if (!entry || row_admits(families->items[i], table->target->text)) continue;
    if (build_distance(table->build, &table->target->mark) < build_distance(table->build, &entry->mark)) {
      add_lacking(&lacking, entry, families->keys[i]);
      continue;
    }
    g_autofree char *able = row_targets(families->items[i]);
    g_autofree char *hint = g_strdup_printf("%s have it", able);
    g_autofree char *message =
        g_strdup_printf("target %s lacks the family `%s`", table->target->text, families->keys[i]);
    report_pair(table, entry, table->target, hint, message);
  }
  if (lacking.n) {
    g_autofree char *hint = lacking_hint(table, lacking.nulls->str);
    build_error(table->build, &table->target->mark, "contradiction", hint,
                "target %s lacks what the description inherits: %s", table->target->text, lacking.names->str);
  }
  g_string_free(lacking.names, TRUE);
  g_string_free(lacking.nulls, TRUE);
}

static void check_family_versions(Table *table)
{
  Node *families = member(table->root, "families");
  for (unsigned i = 0; i < families->n; i++) {
    g_autofree char *path = g_strconcat(families->keys[i], ".ptx", NULL);
    const Entry *own = build_entry(table->build, path);
    double first = row_version(table, families->items[i], "first");
    if (own && own->number < first)
      build_error(table->build, &own->mark, "contradiction", NULL,
                  "%s (%.1f) is below %.1f, the first PTX version that has the family", path,
                  own->number / 10, first / 10);
  }
}

/* Does the target have the family that a path begins with? Where it has not, that is told, and enough. */
static bool family_admitted(Table *table, const char *path)
{
  g_autofree char *family = g_strndup(path, strcspn(path, "."));
  Node *row = member(member(table->root, "families"), family);
  return row && row_admits(row, table->target->text);
}

/* Flags that only some targets may set. */
static void check_flags(Table *table)
{
  Node *flags = member(table->root, "flags");
  for (unsigned i = 0; flags && flags->kind == NODE_MAPPING && i < flags->n; i++) {
    const Entry *entry = build_entry(table->build, flags->keys[i]);
    if (!entry || entry->number != 1 || !family_admitted(table, entry->path)) continue;
    if (row_admits(flags->items[i], table->target->text)) continue;
    g_autofree char *able = row_targets(flags->items[i]);
    g_autofree char *hint = g_strdup_printf("`false` says so; %s may say `true`", able);
    g_autofree char *message = g_strdup_printf("target %s has no %s", table->target->text, flags->keys[i]);
    report_pair(table, entry, table->target, hint, message);
  }
}

/* ---- shapes ---- */

static const Entry *shape_part(const Table *table, const char *shape, const char *key)
{
  g_autofree char *path = g_strconcat(shape, ".", key, NULL);
  return build_entry(table->build, path);
}

static Node *row_of(Node *rows, const char *a, const char *b, const char *acc)
{
  for (unsigned i = 0; i < rows->n; i++) {
    Node *row = rows->items[i];
    if (list_has(member(row, "a"), a) && list_has(member(row, "b"), b) && list_has(member(row, "acc"), acc))
      return row;
  }
  return NULL;
}

/* A whole number of a row, or the numbers that a shape may have there. */
static void check_extent(Table *table, Node *row, const char *shape, const char *key)
{
  const Rule *rule = shape_part(table, shape, key)->rule;
  const Entry *entry = shape_part(table, shape, key);
  Entry legal = {0};
  if (!build_value(table->build, rule, member(row, key), &legal)) return;
  double one = entry->number, has = legal.number;
  const double *numbers = entry->numbers ? entry->numbers : &one, *may = legal.numbers ? legal.numbers : &has;
  unsigned n = entry->numbers ? entry->n : 1, n_may = legal.numbers ? legal.n : 1;
  bool same = n == n_may && !memcmp(numbers, may, n * sizeof *numbers);
  if (same) return;
  g_autofree char *hint =
      g_strdup_printf("%s: %s", key, member(row, key)->text ? member(row, key)->text : "[8]");
  build_error(table->build, &entry->mark, "contradiction", member(row, key)->text ? hint : NULL,
              n > 1 || n_may > 1 ? "%s are not those of the instruction"
                                 : "%s is not that of the instruction",
              entry->path);
}

/* Operands that the instruction takes transposed, and no others, are those that the row names. */
static void check_transpose(Table *table, Node *row, const char *shape)
{
  static const char *const operands[] = {"a", "b"};
  const Entry *own = shape_part(table, shape, "transpose");
  for (unsigned i = 0; i < G_N_ELEMENTS(operands) && own; i++) {
    bool may = list_has(member(row, "transpose"), operands[i]);
    if (may == (own->texts && g_strv_contains(own->texts, operands[i]))) continue;
    build_error(table->build, &own->mark, "contradiction", NULL,
                may ? "%s lacks `%s`, which the instruction may take transposed"
                    : "%s has `%s`, which the instruction cannot take transposed",
                own->path, operands[i]);
    return;
  }
}

/* false: something was said. */
static bool check_pair(Table *table, Node *rows, const char *shape, const char *a, const char *b)
{
  const Entry *acc = shape_part(table, shape, "acc"), *ptx = shape_part(table, shape, "ptx");
  const Entry *types = build_culprit(
      table->build, (const Entry *const[]){shape_part(table, shape, "a"), shape_part(table, shape, "b"), acc},
      3);
  Node *row = row_of(rows, a, b, acc->text);
  if (!row) {
    build_error(table->build, &types->mark, "contradiction", NULL,
                "%s: adlgen knows no such instruction for %s x %s into %s", shape, a, b, acc->text);
    return false;
  }
  double first = row_version(table, row, "first");
  if (ptx->number < first)
    build_error(table->build, &ptx->mark, "contradiction", NULL,
                "%s (%.1f) is below %.1f, the first PTX version that multiplies %s x %s into %s", ptx->path,
                ptx->number / 10, first / 10, a, b, acc->text);
  bool admitted = row_admits(row, table->target->text);
  if (!admitted && family_admitted(table, shape)) {
    g_autofree char *able = row_targets(row);
    g_autofree char *hint = g_strdup_printf("%s: null removes it; %s may list it", shape, able);
    g_autofree char *message = g_strdup_printf("%s: target %s has no products of %s x %s into %s", shape,
                                               table->target->text, a, b, acc->text);
    report_pair(table, types, table->target, hint, message);
  }
  return admitted && ptx->number >= first;
}

/* shape: "warp_mma.shapes.NAME" */
static void check_shape(Table *table, const char *shape)
{
  g_autofree char *family = g_strndup(shape, strcspn(shape, "."));
  Node *rows = member(member(table->root, "products"), family);
  const Entry *a = shape_part(table, shape, "a"), *b = shape_part(table, shape, "b"),
              *acc = shape_part(table, shape, "acc");
  if (!rows || !a || !b || !acc || !shape_part(table, shape, "ptx")) return;
  bool right = true;
  for (unsigned i = 0; i < a->n; i++)
    for (unsigned j = 0; j < b->n && right; j++)
      right = check_pair(table, rows, shape, a->texts[i], b->texts[j]);
  Node *row = row_of(rows, a->texts[0], b->texts[0], acc->text);
  static const char *const extents[] = {"m", "n", "k"};
  for (unsigned i = 0; row && i < G_N_ELEMENTS(extents); i++)
    check_extent(table, row, shape, extents[i]);
  if (row) check_transpose(table, row, shape);
}

static void check_shapes(Table *table)
{
  const GPtrArray *entries = table->build->private->entries;
  for (guint i = 0; i < entries->len; i++) {
    const Entry *entry = entries->pdata[i];
    if (strcmp(entry->rule->section, "shape") || strcmp(entry->rule->key, "acc")) continue;
    g_autofree char *shape = g_strndup(entry->path, strlen(entry->path) - strlen(".acc"));
    check_shape(table, shape);
  }
}

/* ---- the table ---- */

static bool table_whole(Table *table)
{
  static const char *const parts[] = {"targets", "families", "products"};
  for (unsigned i = 0; i < G_N_ELEMENTS(parts); i++) {
    Node *part = node_require(table->root, parts[i], &table->build->error);
    if (!part || !node_kind_is(part, NODE_MAPPING, parts[i], &table->build->error)) return false;
  }
  Node *targets = member(table->root, "targets");
  for (unsigned i = 0; i < targets->n; i++)
    if (g_str_has_prefix(targets->keys[i], "sm_")) g_ptr_array_add(table->names, (void *)targets->keys[i]);
  g_ptr_array_add(table->names, NULL);
  return true;
}

static void check_all(Table *table, const char *architecture)
{
  if (!check_target(table)) return;
  check_version(table);
  check_name(table, architecture);
  check_families(table);
  check_family_versions(table);
  check_flags(table);
  check_shapes(table);
}

void build_targets(Build *build)
{
  g_autoptr(Source) source = data_load(TABLE, &build->error);
  g_autoptr(Document) document = source ? document_parse(source, &build->error) : NULL;
  if (!document) return;
  g_autoptr(GPtrArray) names = g_ptr_array_new();
  Table table = {.build = build,
                 .root = document_root(document),
                 .names = names,
                 .target = build_entry(build, "target"),
                 .ptx = build_entry(build, "ptx")};
  if (!table.target || !table.ptx || !node_kind_is(table.root, NODE_MAPPING, TABLE, &build->error)) return;
  if (table_whole(&table)) check_all(&table, build->is_product ? NULL : build->architecture);
}
