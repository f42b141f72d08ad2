/* The cost model's constants, from the file that a description names and those it extends, base first. Every
 * row of model.def needs a value and a meaning, and a run that it was fitted in unless the file says why the
 * number is a guess. */
#include "adl/model.h"
#include "adl/build.h"
#include "adl/quantity.h"
#include "base/data.h"
#include <string.h>

#define FORMAT_VERSION 1
#define MAX_CHAIN      16

typedef enum { CONSTANT_CYCLES, CONSTANT_RATE, CONSTANT_TIMES, CONSTANT_PART, CONSTANT_COUNT } ConstantKind;

typedef struct {
  const char *name, *unit;
  ConstantKind kind;
  size_t offset; /* in CostModel */
} ConstantRule;

static const ConstantRule constant_rules[] = {
#define MODEL(kind, name, unit) {#name, unit, CONSTANT_##kind, offsetof(CostModel, name)},
#include "adl/model.def"
#undef MODEL
};
static const char *const kind_names[] = {"cycles", "rate", "times", "part", "count"};
#define N_CONSTANTS G_N_ELEMENTS(constant_rules)

typedef struct {
  Build *build;
  CostModel *model;
  CostConstant *constants; /* in the order of the rules; name NULL: not given yet */
  Node *root;              /* of the file that was named */
  GPtrArray *ids;          /* of the files read so far, to see cycles; paths or data paths */
} ModelLoader;

static const char **constant_names(void)
{
  const char **names = g_new0(const char *, N_CONSTANTS + 1);
  for (unsigned i = 0; i < N_CONSTANTS; i++)
    names[i] = constant_rules[i].name;
  return names;
}

/* ---- one constant ---- */

static bool out_of_range(Build *build, const ConstantRule *rule, const Mark *mark, const char *range)
{
  build_error(build, mark, "out-of-range", NULL, "`%s` must be %s", rule->name, range);
  return false;
}

/* Counts that size kernels: what kernels are written for. */
static const struct {
  const char *names; /* apart by blanks */
  unsigned least, most;
  bool power;
} count_ranges[] = {
    {"most_slots warp_slots thin_slots thin_warp_slots forced_slots few_slots together_slots", 2, 64, false},
    {"element_threads lone_threads vector_threads across_threads online_least online_most row_least", 32,
     1024, true},
    {"guarded_side gathered_side askew_side askew_columns", 32, 256, true},
    {"element_vectors copy_accesses lone_vectors patch_side", 1, 16, true},
    {"short_row top_picked", 32, 1024, true},
    {"longest_row long_row", 1024, 32768, true},
    {"online_chunk", 128, 8192, true},
    {"top_words", 2, 64, true},
    {"top_chunk top_joined top_whole", 1024, 16384, true},
    {"top_share top_blocks", 1, 16, false},
    {"online_elements", 1, 64, true},
    {"order_chunk", 128, 65536, true},
    {"order_elements", 1, 64, true},
    {"row_warps sums_warps", 1, 32, true},
    {"row_registers", 16, 128, false},
    {"row_bytes", 16, 512, true},
    {"row_blocks row_cluster_blocks row_together", 1, 32, false},
    {"lone_rows sums_share row_sums_share", 1, 8, true},
    {"row_sums", 1, 1 << 16, false},
    {"row_slots", 2, 16, false},
    {"producer_registers", 24, 128, false},
    {"attention_heads attention_many_heads", 1, 64, false},
    {"attention_rows", 128, 65536, false},
    {"attention_narrow attention_wide", 8, 256, false},
    {"attention_three_over attention_three_wide attention_even_wide", 8, 256, false},
    {"attention_claims_narrow attention_claims_over attention_claims_wide", 8, 256, false},
    {"attention_parts", 2, 256, false},
    {"attention_part_keys attention_claimed_keys", 16, 65536, false},
    {"sums_blocks short_blocks", 1, 32, false},
    {"across_wide across_parts", 1, 32, true},
    {"sums_deep dots_deep", 1, 64, true},
    {"vector_columns vector_depth vector_depth_across across_chunk", 1, 4096, true},
    {"narrow_columns", 16, 128, true},
    {"usual_raster", 1, 1024, false},
    {"few_batches_ranges", 1, 8, false},
};
#define COUNT_MOST (1 << 24) /* of the others */

/* Is the word one of a list, between blanks? */
static bool has_word(const char *list, const char *word)
{
  size_t length = strlen(word);
  for (const char *at = list; (at = strstr(at, word)); at += length)
    if ((at == list || at[-1] == ' ') && (!at[length] || at[length] == ' ')) return true;
  return false;
}

static bool check_count(Build *build, const ConstantRule *rule, const Mark *mark, double number)
{
  unsigned least = 1, most = COUNT_MOST;
  bool power = false;
  for (unsigned i = 0; i < G_N_ELEMENTS(count_ranges); i++) {
    if (!has_word(count_ranges[i].names, rule->name)) continue;
    least = count_ranges[i].least;
    most = count_ranges[i].most;
    power = count_ranges[i].power;
  }
  bool whole = number >= least && number <= most && number == (unsigned)number;
  if (whole && !(power && ((unsigned)number & ((unsigned)number - 1)))) return true;
  g_autofree char *range =
      g_strdup_printf("%s from %u to %u", power ? "a power of two" : "a whole number", least, most);
  return out_of_range(build, rule, mark, range);
}

/* The value of a node into a number of the rule's unit. */
static bool read_value(Build *build, const ConstantRule *rule, Node *node, double *number)
{
  bool plain = rule->kind == CONSTANT_TIMES || rule->kind == CONSTANT_PART;
  if (!(plain ? node_number(node, number, &build->error)
              : quantity_read(node, rule->unit, number, &build->error)))
    return false;
  switch (rule->kind) {
  case CONSTANT_CYCLES: return true;
  case CONSTANT_RATE:
  case CONSTANT_TIMES: return *number > 0 || out_of_range(build, rule, &node->mark, "more than 0");
  case CONSTANT_PART:
    return (*number >= 0 && *number <= 1) || out_of_range(build, rule, &node->mark, "from 0 to 1");
  case CONSTANT_COUNT: return check_count(build, rule, &node->mark, *number);
  }
  g_assert_not_reached();
}

static bool is_date(const char *text)
{
  static const char form[] = "dddd-dd-dd";
  for (unsigned i = 0; i < sizeof form; i++)
    if (form[i] == 'd' ? !g_ascii_isdigit(text[i]) : text[i] != form[i]) return false;
  return true;
}

/* Every entry of `runs`, used or not. false: none can be used. */
static bool check_runs(Build *build, Node *runs)
{
  static const char *const known[] = {"date", "source", NULL};
  if (!runs) return true;
  if (!node_kind_is(runs, NODE_MAPPING, "runs", &build->error)) return false;
  for (unsigned i = 0; i < runs->n; i++) {
    Node *run = runs->items[i];
    const char *text;
    if (!node_kind_is(run, NODE_MAPPING, "date and source of a run", &build->error)) return false;
    Node *date = node_require(run, "date", &build->error),
         *source = node_require(run, "source", &build->error);
    if (date && node_string(date, &text, &build->error) && !is_date(text))
      build_error(build, &date->mark, "wrong-type", "such as 2026-11-21", "expected a date, found `%.60s`",
                  text);
    if (source) node_string(source, &text, &build->error);
    node_finish(run, known, &build->error);
  }
  return true;
}

/* Date and source of a run that was checked. */
static void take_run(ModelLoader *loader, Node *runs, Node *name, CostConstant *constant)
{
  Build *build = loader->build;
  if (!node_string(name, &constant->run, &build->error)) return;
  Node *run = runs ? node_get(runs, constant->run) : NULL;
  if (run) {
    Node *date = node_get(run, "date"), *source = node_get(run, "source");
    constant->date = date ? date->text : NULL;
    constant->source = source ? source->text : NULL;
    return;
  }
  g_autofree const char **names = g_new0(const char *, (runs ? runs->n : 0) + 1);
  if (runs) memcpy(names, runs->keys, runs->n * sizeof *names);
  const char *near = nearest_name(constant->run, names);
  g_autofree char *list = g_strjoinv(", ", (char **)names);
  g_autofree char *hint = near ? g_strdup_printf("did you mean `%s`?", near)
                               : g_strdup_printf("`runs` of this file has: %s", *list ? list : "nothing");
  build_error(build, &name->mark, "unknown-run", hint, "unknown run `%.80s`", constant->run);
}

/* ---- facts that a constant follows ---- */

static const Rule *fact_rule(const char *path)
{
  const char *dot = strchr(path, '.');
  for (unsigned i = 0; dot && i < schema_n_rules; i++) {
    const Rule *rule = &schema_rules[i];
    size_t length = strlen(rule->section);
    if (rule->kind == RULE_NUMBER && length == (size_t)(dot - path) &&
        !strncmp(path, rule->section, length) && !strcmp(rule->key, dot + 1) &&
        strcmp(rule->section, "shape"))
      return rule;
  }
  return NULL;
}

static void refuse_fact(Build *build, const char *path, const Mark *mark)
{
  g_autoptr(GPtrArray) paths = g_ptr_array_new_with_free_func(g_free);
  for (unsigned i = 0; i < schema_n_rules; i++)
    if (schema_rules[i].kind == RULE_NUMBER && strcmp(schema_rules[i].section, "shape"))
      g_ptr_array_add(paths, g_strdup_printf("%s.%s", schema_rules[i].section, schema_rules[i].key));
  g_ptr_array_add(paths, NULL);
  const char *near = nearest_name(path, (const char *const *)paths->pdata);
  g_autofree char *hint = near ? g_strdup_printf("did you mean `%s`?", near)
                               : g_strdup("a number of a description, such as latency.shared_load");
  build_error(build, mark, "unknown-fact", hint, "`%.80s` is no number of a description", path);
}

/* `grows_with: {tma.latency: 367 cycles}`. */
static void read_facts(Build *build, const ConstantRule *rule, Node *node, CostFacts *facts)
{
  if (!node_kind_is(node, NODE_MAPPING, "facts and their values", &build->error)) return;
  if (node->n && (rule->kind == CONSTANT_PART || rule->kind == CONSTANT_COUNT)) {
    build_error(build, &node->mark, "contradiction", "times, rates and factors follow facts",
                "`%s` is a %s, which follows nothing", rule->name, kind_names[rule->kind]);
    return;
  }
  CostFact *list = arena_new_array(build->arena, CostFact, node->n);
  bool rates = false;
  for (unsigned i = 0; i < node->n; i++) {
    const Rule *fact = fact_rule(node->keys[i]);
    node->taken[i] = true;
    list[i].path = node->keys[i];
    if (!fact)
      refuse_fact(build, node->keys[i], &node->key_marks[i]);
    else if (quantity_read(node->items[i], fact->unit, &list[i].at, &build->error) && !(list[i].at > 0))
      out_of_range(build, rule, &node->items[i]->mark, "fitted at more than 0");
    if (!fact) continue;
    bool rate = strchr(fact->unit, '/');
    if (i && rate != rates)
      build_error(build, &node->key_marks[i], "contradiction", NULL, "times and rates cannot be added up");
    rates = rate;
  }
  *facts = (CostFacts){list, node->n, rates};
}

/* How much more the facts are than where the constant was fitted, exactly 1 where they are the same. Rates are
 * added up as the times that one operation of each takes. */
static double facts_ratio(const Build *build, const CostFacts *facts)
{
  double now = 0, then = 0;
  if (!facts->n) return 1;
  for (unsigned i = 0; i < facts->n; i++) {
    const Entry *entry = build_entry(build, facts->facts[i].path);
    double at = facts->facts[i].at, own = entry && fact_known(entry->number) ? entry->number : at;
    now += facts->rates ? 1 / own : own;
    then += facts->rates ? 1 / at : at;
  }
  return facts->rates ? then / now : now / then;
}

/* ---- one file's constants ---- */

/* Lays an entry of `constants` upon what a base gave. */
static void read_constant(ModelLoader *loader, unsigned i, Node *runs, Node *node)
{
  static const char *const known[] = {"value", "run", "guess", "meaning", "grows_with", "shrinks_with", NULL};
  const ConstantRule *rule = &constant_rules[i];
  Build *build = loader->build;
  CostConstant *constant = &loader->constants[i];
  if (!node_kind_is(node, NODE_MAPPING, rule->name, &build->error)) return;
  Node *value = node_require(node, "value", &build->error), *run = node_get(node, "run");
  Node *guess = node_get(node, "guess"), *meaning = node_get(node, "meaning"),
       *grows = node_get(node, "grows_with"), *shrinks = node_get(node, "shrinks_with");
  if (value) read_value(build, rule, value, &constant->fitted);
  if (grows) read_facts(build, rule, grows, &constant->grows);
  if (shrinks) read_facts(build, rule, shrinks, &constant->shrinks);
  constant->run = constant->date = constant->source = NULL;
  if (run) take_run(loader, runs, run, constant);
  if (guess) node_string(guess, &constant->source, &build->error);
  if (run && guess)
    build_error(build, &guess->mark, "contradiction",
                "a constant was fitted in a run, or says why it may hold", "`%s` has `run` and `guess`",
                rule->name);
  if (meaning) node_string(meaning, &constant->meaning, &build->error);
  if (!constant->meaning)
    build_error(build, &node->mark, "missing-key", "what it stands for, in its unit", "`%s` has no `meaning`",
                rule->name);
  if (!run && !guess && !loader->model->guess)
    build_error(build, &node->mark, "missing-source",
                "`run: NAME` of an entry of `runs`, or `guess: REASON` for it or for the whole file",
                "`%s` has no `run` that it was fitted in", rule->name);
  constant->name = rule->name;
  constant->kind = kind_names[rule->kind];
  constant->unit = rule->unit;
  constant->guess = !run;
  node_finish(node, known, &build->error);
}

/* More than a hundred names are known: a hint gives the nearest only. */
static void refuse_unknown(Build *build, Node *constants)
{
  g_autofree const char **names = constant_names();
  for (unsigned i = 0; i < constants->n; i++) {
    if (g_strv_contains(names, constants->keys[i])) continue;
    const char *near = nearest_name(constants->keys[i], names);
    g_autofree char *hint = near ? g_strdup_printf("did you mean `%s`?", near)
                                 : g_strdup("docs/adl.md lists them, and so does `adlgen gpus show`");
    build_error(build, &constants->key_marks[i], "unknown-key", hint, "unknown constant `%.80s`",
                constants->keys[i]);
  }
}

/* A file's constants over those of its base, which are guesses from there on: they were fitted elsewhere. */
static void read_constants(ModelLoader *loader, Node *root)
{
  Build *build = loader->build;
  for (unsigned i = 0; i < N_CONSTANTS; i++)
    loader->constants[i].guess = true;
  Node *runs = node_get(root, "runs"), *constants = node_get(root, "constants");
  if (!check_runs(build, runs)) return;
  if (!constants || !node_kind_is(constants, NODE_MAPPING, "constants", &build->error)) return;
  for (unsigned i = 0; i < N_CONSTANTS; i++) {
    Node *node = node_get(constants, constant_rules[i].name);
    if (node) read_constant(loader, i, runs, node);
  }
  refuse_unknown(build, constants);
}

/* ---- files ---- */

char *build_model_names(void)
{
  g_auto(GStrv) names = data_list("adl/model");
  for (char **name = names; *name; name++)
    if (g_str_has_suffix(*name, ".yaml")) (*name)[strlen(*name) - strlen(".yaml")] = 0;
  return g_strjoinv(", ", names);
}

/* A model's source. id: what tells it from others; folder: where paths in it start, NULL: names only. */
static Source *find_model(Build *build, const char *text, const char *folder, const Mark *mark, char **id)
{
  g_autoptr(GError) error = NULL;
  bool is_path = strchr(text, '/') || g_str_has_suffix(text, ".yaml");
  if (is_path && !folder) {
    build_error(build, mark, "unknown-model", "name a model", "a text in memory cannot name a file");
    return NULL;
  }
  while (g_str_has_prefix(text, "./"))
    text += 2; /* a file next to the one that names it keeps its short name in messages */
  bool as_is = g_path_is_absolute(text) || !g_strcmp0(folder, ".");
  g_autofree char *path = !is_path ? g_strdup_printf("adl/model/%s.yaml", text)
                          : as_is  ? g_strdup(text)
                                   : g_build_filename(folder, text, NULL);
  Source *source = is_path ? source_load(path, &error) : data_exists(path) ? data_load(path, &error) : NULL;
  if (!source) {
    g_autofree char *list = build_model_names();
    g_auto(GStrv) names = g_strsplit(list, ", ", -1);
    const char *near = nearest_name(text, (const char *const *)names);
    g_autofree char *hint =
        near ? g_strdup_printf("did you mean `%s`?", near) : g_strdup_printf("known: %s", list);
    build_error(build, mark, "unknown-model", hint, "no cost model is called `%.80s`%s%s", text,
                error ? ": " : "", error ? error->message : "");
    return NULL;
  }
  *id = is_path ? g_canonicalize_filename(path, NULL) : g_strdup(path);
  return source;
}

/* `gpu` or `guess`: of the file that was named these are the model's, of a base its constants'. */
static void read_head(ModelLoader *loader, Node *root, const char **name)
{
  Build *build = loader->build;
  CostModel *model = loader->model;
  Node *version = node_require(root, "adl", &build->error),
       *model_node = node_require(root, "model", &build->error);
  Node *gpu = node_get(root, "gpu"), *guess = node_get(root, "guess");
  int64_t number;
  if (version && node_integer(version, &number, &build->error) && number != FORMAT_VERSION)
    build_error(build, &version->mark, "version", "this program reads version 1",
                "version %" G_GINT64_FORMAT " of the format is not known", number);
  *name = NULL;
  if (model_node) node_string(model_node, name, &build->error);
  if (!gpu == !guess)
    build_error(build, &root->mark, gpu ? "contradiction" : "missing-key",
                "a model is fitted on one GPU, or says why its numbers may hold without",
                "a cost model needs `gpu: NAME` or `guess: REASON`%s", gpu ? ", not both" : "");
  model->gpu = model->guess = NULL;
  if (gpu) node_string(gpu, &model->gpu, &build->error);
  if (guess) node_string(guess, &model->guess, &build->error);
}

static bool read_file(ModelLoader *loader, const char *text, const char *folder, const Mark *mark);

static bool read_base(ModelLoader *loader, Node *extends, const char *folder)
{
  const char *base;
  return node_string(extends, &base, &loader->build->error) &&
         read_file(loader, base, folder, &extends->mark);
}

static bool is_cycle(ModelLoader *loader, const char *id, const Mark *mark)
{
  if (g_ptr_array_find_with_equal_func(loader->ids, id, g_str_equal, NULL))
    build_error(loader->build, mark, "extends-cycle", NULL, "`extends` comes back to where it was");
  else if (loader->ids->len >= MAX_CHAIN)
    build_error(loader->build, mark, "extends-cycle", NULL, "a chain of more than %d files", MAX_CHAIN);
  else
    return false;
  return true;
}

/* Reads a file after its bases. false: without it nothing can be said of the rest. */
static bool read_file(ModelLoader *loader, const char *text, const char *folder, const Mark *mark)
{
  static const char *const known[] = {"adl", "model", "gpu", "guess", "extends", "runs", "constants", NULL};
  Build *build = loader->build;
  g_autofree char *id = NULL;
  g_autoptr(Source) source = find_model(build, text, folder, mark, &id);
  if (!source || is_cycle(loader, id, mark)) return false;
  Document *document = document_parse(source, &build->error);
  if (!document) return false;
  g_ptr_array_add(build->private->documents, document);
  g_ptr_array_add(loader->ids, g_strdup(id));
  Node *root = document_root(document);
  if (!node_kind_is(root, NODE_MAPPING, "a cost model", &build->error)) return false;
  Node *extends = node_get(root, "extends");
  g_autofree char *own_folder = strstr(id, "adl/model/") == id ? NULL : g_path_get_dirname(source->name);
  if (extends && !read_base(loader, extends, own_folder)) return false;
  const char *name;
  read_head(loader, root, &name);
  if (name && !own_folder && strcmp(name, text))
    build_error(build, &root->mark, "name-mismatch", "a cost model is found by its file's name",
                "the file of `%s` calls itself `%s`", text, name);
  read_constants(loader, root);
  node_finish(root, known, &build->error);
  loader->model->name = name;
  loader->model->file = arena_strdup(build->arena, source->name);
  loader->root = root;
  return true;
}

/* ---- the whole ---- */

static void finish_model(ModelLoader *loader)
{
  CostModel *model = loader->model;
  g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_SHA256);
  const char *first_missing = NULL;
  for (unsigned i = 0; i < N_CONSTANTS; i++) {
    const ConstantRule *rule = &constant_rules[i];
    CostConstant *constant = &loader->constants[i];
    char *member = (char *)model + rule->offset, number[G_ASCII_DTOSTR_BUF_SIZE];
    if (!constant->name) {
      first_missing = first_missing ? first_missing : rule->name;
      continue;
    }
    constant->value = constant->fitted * (facts_ratio(loader->build, &constant->grows) /
                                          facts_ratio(loader->build, &constant->shrinks));
    if (rule->kind == CONSTANT_COUNT)
      *(unsigned *)(void *)member = (unsigned)constant->value;
    else
      *(double *)(void *)member = constant->value;
    g_ascii_dtostr(number, sizeof number, constant->value);
    g_checksum_update(sum, (const guchar *)rule->name, -1);
    g_checksum_update(sum, (const guchar *)number, -1);
  }
  if (first_missing)
    build_error(loader->build, &loader->root->mark, "missing-key",
                "`extends: NAME` takes over another model's", "constants are missing, `%s` the first of them",
                first_missing);
  g_strlcpy(model->hash, g_checksum_get_string(sum), sizeof model->hash);
  model->constants = loader->constants;
  model->n_constants = N_CONSTANTS;
}

void build_model(Build *build, const char *name, const char *folder, const Mark *mark)
{
  ModelLoader loader = {.build = build,
                        .model = arena_new_object(build->arena, CostModel),
                        .constants = arena_new_array(build->arena, CostConstant, N_CONSTANTS),
                        .ids = g_ptr_array_new_with_free_func(g_free)};
  if (read_file(&loader, name, folder, mark)) finish_model(&loader);
  g_ptr_array_unref(loader.ids);
  build->gpu->model = loader.model;
}

char *model_to_markdown(void)
{
  GString *text = g_string_new("| constant | kind | unit |\n|---|---|---|\n");
  for (unsigned i = 0; i < N_CONSTANTS; i++)
    g_string_append_printf(text, "| `%s` | %s | %s |\n", constant_rules[i].name,
                           kind_names[constant_rules[i].kind], constant_rules[i].unit);
  return g_string_free(text, FALSE);
}
