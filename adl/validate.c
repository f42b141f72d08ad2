/* A description's tree against the schema: every key is known, every required key is there, every value has
 * its type, unit and source. Needs: the merged tree. Gives: entries, and the plain members of Gpu. */
#include "adl/build.h"
#include "adl/quantity.h"
#include <math.h>
#include <string.h>

const Entry *build_entry(const Build *build, const char *path)
{
  return g_hash_table_lookup(build->private->by_path, path);
}

/* ---- one value ---- */

static bool power_of_two(double value)
{
  if (!(value >= 1 && value <= G_MAXUINT32)) return false;
  uint64_t whole = (uint64_t)value;
  return (double)whole == value && !(whole & (whole - 1));
}

static bool read_number(Build *build, const Rule *rule, Node *node, double *number)
{
  if (!quantity_read(node, rule->unit, number, &build->error)) return false;
  if ((rule->flags & RULE_POWER_OF_TWO) && !power_of_two(*number)) {
    build_error(build, &node->mark, "out-of-range", NULL, "`%s` must be a power of two, not %s", rule->key,
                node->text);
    return false;
  }
  if ((rule->flags & RULE_POSITIVE) && *number <= 0) {
    build_error(build, &node->mark, "out-of-range", NULL, "`%s` must be more than 0", rule->key);
    return false;
  }
  if (rule->field == FIELD_UNSIGNED && (*number > G_MAXUINT32 || *number != floor(*number))) {
    build_error(build, &node->mark, "out-of-range", NULL, "`%s` must be a whole number of %s", rule->key,
                rule->unit);
    return false;
  }
  return true;
}

static bool read_choice(Build *build, const Rule *rule, Node *node, const char **text)
{
  if (!node_string(node, text, &build->error)) return false;
  g_auto(GStrv) choices = g_strsplit(rule->choices, " ", -1);
  if (g_strv_contains((const char *const *)choices, *text)) return true;
  const char *near = nearest_name(*text, (const char *const *)choices);
  g_autofree char *list = g_strjoinv(", ", choices);
  g_autofree char *hint =
      near ? g_strdup_printf("did you mean `%s`? One of %s", near, list) : g_strdup_printf("one of %s", list);
  build_error(build, &node->mark, "unknown-value", hint, "`%s` cannot be `%.60s`", rule->key, *text);
  return false;
}

static bool read_type(Build *build, const Rule *rule, Node *node, const char **text)
{
  NumberType type;
  if (!node_string(node, text, &build->error)) return false;
  if (number_parse(*text, &type)) {
    *text = number_name(type);
    return true;
  }
  build_error(build, &node->mark, "unknown-type",
              "f64 f32 tf32 f16 bf16 e4m3 e5m2 s8 u8 s16 u16 s32 u32 s64 u64", "`%.60s` is not a number type",
              *text);
  return false;
}

/* "8.4" -> 84. Read from the text: as a number, 8.10 and 8.1 would be the same. */
bool build_version(Build *build, Node *node, double *number)
{
  const char *text = node->kind == NODE_SCALAR ? node->text : "";
  if (g_ascii_isdigit(text[0]) && text[1] == '.' && g_ascii_isdigit(text[2]) && !text[3]) {
    *number = (text[0] - '0') * 10 + (text[2] - '0');
    return true;
  }
  build_error(build, &node->mark, "wrong-type", "such as 8.0", "expected a PTX version, found `%.60s`", text);
  return false;
}

/* The target goes into emitted text and onto a command line. */
static bool read_text(Build *build, Node *node, const char **text)
{
  if (!node_string(node, text, &build->error)) return false;
  if (strspn(*text, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(*text)) return true;
  build_error(build, &node->mark, "out-of-range", "lower-case letters, digits and _",
              "`%.60s` is not a target name", *text);
  return false;
}

/* ---- lists ---- */

/* `8..256 step 8` and plain numbers. */
static bool read_range(Build *build, const Rule *rule, Node *node, GArray *numbers)
{
  unsigned first, last, step = 1;
  int used = 0;
  const char *text = node->kind == NODE_SCALAR ? node->text : "";
  bool is_range = strstr(text, "..");
  if (!is_range) {
    double number;
    if (!read_number(build, rule, node, &number)) return false;
    g_array_append_val(numbers, number);
    return true;
  }
  bool ok = strlen(text) < 60 &&
            sscanf(text, "%u..%u%n step %u%n", &first, &last, &used, &step, &used) >= 2 && !text[used];
  if (!ok || !first || first > last || !step || last > 4096 || (last - first) % step) {
    build_error(build, &node->mark, "wrong-type", "such as `8..256 step 8`, where the last number is reached",
                "`%.60s` is not a range of %s", text, rule->unit);
    return false;
  }
  for (unsigned value = first; value <= last; value += step) {
    double number = value;
    g_array_append_val(numbers, number);
  }
  return true;
}

static bool ascending(const GArray *numbers)
{
  for (guint i = 1; i < numbers->len; i++)
    if (g_array_index(numbers, double, i - 1) >= g_array_index(numbers, double, i)) return false;
  return true;
}

static bool read_numbers(Build *build, const Rule *rule, Node *node, Entry *entry)
{
  g_autoptr(GArray) numbers = g_array_new(FALSE, FALSE, sizeof(double));
  bool ok = true;
  if (rule->kind == RULE_RANGES && node->kind == NODE_SCALAR) {
    ok = read_range(build, rule, node, numbers);
  } else {
    if (!node_kind_is(node, NODE_SEQUENCE, rule->key, &build->error)) return false;
    for (unsigned i = 0; i < node->n && ok; i++) {
      double number;
      if (rule->kind == RULE_RANGES)
        ok = read_range(build, rule, node->items[i], numbers);
      else if ((ok = read_number(build, rule, node->items[i], &number)))
        g_array_append_val(numbers, number);
    }
  }
  if (ok && !numbers->len && (rule->flags & RULE_POSITIVE)) {
    build_error(build, &node->mark, "out-of-range", NULL, "`%s` is empty", rule->key);
    return false;
  }
  if (ok && !ascending(numbers)) {
    build_error(build, &node->mark, "out-of-range", NULL, "`%s` must be ascending, each number once",
                rule->key);
    return false;
  }
  entry->n = numbers->len;
  entry->numbers = arena_memdup(build->arena, numbers->data, numbers->len * sizeof(double));
  return ok;
}

static bool read_text_item(Build *build, const Rule *rule, Node *node, const char **text)
{
  return rule->kind == RULE_TYPES ? read_type(build, rule, node, text) : read_choice(build, rule, node, text);
}

static bool read_texts(Build *build, const Rule *rule, Node *node, Entry *entry)
{
  bool alone = rule->kind == RULE_TYPES && node->kind == NODE_SCALAR;
  if (!alone && !node_kind_is(node, NODE_SEQUENCE, rule->key, &build->error)) return false;
  unsigned n = alone ? 1 : node->n;
  if (!n && (rule->flags & RULE_REQUIRED)) {
    build_error(build, &node->mark, "out-of-range", NULL, "`%s` is empty", rule->key);
    return false;
  }
  entry->texts = arena_new_array(build->arena, const char *, n + 1);
  for (unsigned i = 0; i < n; i++) {
    Node *item = alone ? node : node->items[i];
    if (!read_text_item(build, rule, item, &entry->texts[i])) return false;
    for (unsigned j = 0; j < i; j++)
      if (!strcmp(entry->texts[i], entry->texts[j])) {
        build_error(build, &item->mark, "out-of-range", NULL, "`%s` twice in `%s`", entry->texts[i],
                    rule->key);
        return false;
      }
  }
  entry->n = n;
  return true;
}

/* ---- one key ---- */

bool build_value(Build *build, const Rule *rule, Node *node, Entry *entry)
{
  bool flag;
  switch (rule->kind) {
  case RULE_NUMBER: return read_number(build, rule, node, &entry->number);
  case RULE_NUMBERS:
  case RULE_RANGES: return read_numbers(build, rule, node, entry);
  case RULE_FLAG:
    if (!node_boolean(node, &flag, &build->error)) return false;
    entry->number = flag;
    return true;
  case RULE_CHOICE: return read_choice(build, rule, node, &entry->text);
  case RULE_CHOICES:
  case RULE_TYPES: return read_texts(build, rule, node, entry);
  case RULE_TYPE: return read_type(build, rule, node, &entry->text);
  case RULE_TEXT: return read_text(build, node, &entry->text);
  case RULE_VERSION: return build_version(build, node, &entry->number);
  }
  g_assert_not_reached();
}

static bool is_unknown(const Node *node)
{
  return node->kind == NODE_SCALAR && !node->quoted && !strcmp(node->text, "unknown");
}

static void check_source(Build *build, const Rule *rule, const Value *value, const Entry *entry)
{
  bool is_number = rule->kind == RULE_NUMBER || rule->kind == RULE_NUMBERS || rule->kind == RULE_RANGES;
  if (!is_number || entry->unknown || value->source) return;
  build_error(build, &value->mark, "missing-source",
              "add `source: ...` to it or to a mapping around it, or `guess: true` if it is from memory",
              "`%s` has no source", entry->path);
}

static void read_clock(Build *build, const Rule *rule, const Value *value, Entry *entry)
{
  entry->clock = FACT_UNKNOWN;
  if (!value->clock) return;
  if (!strcmp(rule->section, "peaks"))
    quantity_read(value->clock, "MHz", &entry->clock, &build->error);
  else
    build_error(build, &value->clock->mark, "unknown-key", NULL, "only a peak has a `clock`");
}

static void set_field(Build *build, const Rule *rule, const Entry *entry)
{
  char *member = (char *)build->gpu + rule->offset;
  if (rule->field == FIELD_UNSIGNED)
    *(unsigned *)(void *)member = (unsigned)entry->number;
  else if (rule->field == FIELD_DOUBLE)
    *(double *)(void *)member = entry->number;
}

static void add_entry(Build *build, const Rule *rule, const Value *value, Entry entry)
{
  Entry *kept = arena_memdup(build->arena, &entry, sizeof entry);
  g_ptr_array_add(build->private->entries, kept);
  g_hash_table_insert(build->private->by_path, (void *)kept->path, kept);
  if (rule->field != FIELD_NONE) set_field(build, rule, kept);
}

static void read_key(Build *build, const Rule *rule, Value *value, const char *path)
{
  Entry entry = {.rule = rule,
                 .path = path,
                 .kind = rule->kind,
                 .unit = rule->unit,
                 .number = FACT_UNKNOWN,
                 .source = value->source,
                 .guess = value->guess,
                 .mark = value->mark};
  value->taken = true;
  if (value->kind != VALUE_LEAF) {
    build_error(build, &value->mark, "wrong-type", NULL, "expected the value of `%s`, found a mapping", path);
    return;
  }
  if (is_unknown(value->node)) {
    entry.unknown = true;
    if (!(rule->flags & RULE_MAY_BE_UNKNOWN)) {
      build_error(build, &value->mark, "unknown-value", NULL, "`%s` must be known", path);
      return;
    }
  } else if (!build_value(build, rule, value->node, &entry)) {
    return;
  }
  read_clock(build, rule, value, &entry);
  check_source(build, rule, value, &entry);
  add_entry(build, rule, value, entry);
}

/* An optional double that is not given holds FACT_UNKNOWN, not 0. */
static void set_absent(Build *build, const Rule *rule)
{
  Entry absent = {.number = rule->field == FIELD_DOUBLE ? FACT_UNKNOWN : 0};
  set_field(build, rule, &absent);
}

void build_rules(Build *build, Value *map, const char *section, const char *prefix)
{
  for (unsigned i = 0; i < schema_n_rules; i++) {
    const Rule *rule = &schema_rules[i];
    if (strcmp(rule->section, section)) continue;
    const char *path = *prefix ? arena_printf(build->arena, "%s.%s", prefix, rule->key) : rule->key;
    Value *value = value_child(map, rule->key);
    if (value) {
      read_key(build, rule, value, path);
      continue;
    }
    set_absent(build, rule);
    if (!(rule->flags & RULE_REQUIRED)) continue;
    g_autofree char *hint =
        rule->flags & RULE_MAY_BE_UNKNOWN
            ? g_strdup_printf("%s%swrite `unknown` if it is not known", rule->doc, *rule->doc ? "; " : "")
        : *rule->doc ? g_strdup(rule->doc)
                     : NULL;
    build_error(build, map && *prefix ? &map->mark : &build->end, "missing-key", hint, "missing key `%s`",
                path);
  }
}

/* ---- the whole tree ---- */

static void build_family(Build *build, Value *family)
{
  const Section *section = schema_section(family->key);
  if (!section || !section->is_family) return; /* value_finish reports it */
  family->taken = true;
  if (family->kind != VALUE_MAP) {
    build_error(build, &family->mark, "wrong-type", NULL, "expected the properties of `%s` (a mapping)",
                family->key);
    return;
  }
  build_rules(build, family, family->key, family->key);
  Value *shapes = value_child(family, "shapes");
  if (shapes) shapes->taken = true; /* build_products reads them, or says that this family has none */
  g_autofree const char **keys = schema_keys(family->key);
  value_finish(family, keys, "key", &build->error);
}

static void build_families(Build *build, Value *root)
{
  Value *families = value_child(root, "families");
  if (!families || families->kind != VALUE_MAP) {
    build_error(build, families ? &families->mark : &build->end, "missing-key", NULL,
                "missing key `families`");
    if (families) families->taken = true;
    return;
  }
  families->taken = true;
  build->families = families;
  for (Value *family = families->first; family; family = family->next)
    if (family->kind != VALUE_REMOVED) build_family(build, family);
  for (unsigned i = 0; i < schema_n_sections; i++)
    if (schema_sections[i].is_family && schema_sections[i].required &&
        !value_child(families, schema_sections[i].name))
      build_error(build, &families->mark, "missing-key", schema_sections[i].doc, "missing family `%s`",
                  schema_sections[i].name);
  g_autofree const char **names = schema_keys("families");
  value_finish(families, names, "instruction family", &build->error);
  build_products(build, families);
}

static void build_section(Build *build, const Section *section, Value *root)
{
  Value *map = *section->name ? value_child(root, section->name) : root;
  bool needed = section->required && (build->is_product || !section->of_product);
  if (map) map->taken = true;
  if (map && map->kind != VALUE_MAP) {
    build_error(build, &map->mark, "wrong-type", NULL, "expected the keys of `%s` (a mapping)",
                section->name);
    return;
  }
  if (!map && !needed) {
    for (unsigned i = 0; i < schema_n_rules; i++)
      if (!strcmp(schema_rules[i].section, section->name)) set_absent(build, &schema_rules[i]);
    return;
  }
  build_rules(build, map, section->name, section->name);
  if (!map || !*section->name) return;
  g_autofree const char **keys = schema_keys(section->name);
  value_finish(map, keys, "key", &build->error);
}

void build_sections(Build *build, Value *root)
{
  static const char *const known[] = {"adl",     "name",     "product", "architecture", "aliases",  "extends",
                                      "arch",    "model",    "target",  "ptx",          "source",   "guess",
                                      "sources", "limits",   "latency", "throughput",   "families", "chip",
                                      "peaks",   "measured", NULL};
  for (unsigned i = 0; i < schema_n_sections; i++)
    if (!schema_sections[i].is_family && strcmp(schema_sections[i].name, "shape"))
      build_section(build, &schema_sections[i], root);
  build_families(build, root);
  value_finish(root, known, "key", &build->error);
}
