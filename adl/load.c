/* From files to a Gpu: resolves the chain of `extends`, lays the files over one another, base first, and has
 * the result checked. Nothing here knows a key of the hardware; those stand in schema.c. */
#include "adl/build.h"
#include "base/data.h"
#include <stdlib.h>
#include <string.h>

#define FORMAT_VERSION 1
#define MAX_CHAIN      16

/* Keys that say what a file is. They hold for this file alone and are not inherited, but for `model`. */
static const char *const identity_keys[] = {"adl",     "name", "product", "architecture", "aliases",
                                            "extends", "arch", "model",   "sources",      NULL};

typedef struct {
  Document *document; /* owned by GpuPrivate.documents */
  Node *root;
  const char *id;     /* what makes it the same file: for cycles */
  const char *folder; /* paths in `extends` start here */
  bool is_arch;
  const char *name; /* NULL if missing or wrong */
  const char *product;
} File;

typedef struct {
  Build build;
  GArray *files; /* of File, the one that was named first, its base next, ... */
  bool by_alias; /* the last base was called by an alias */
  Mark alias;
  const char *alias_text;
} Loader;

static bool is_path(const char *text)
{
  return strchr(text, '/') || g_str_has_suffix(text, ".yaml") || g_str_has_suffix(text, ".yml") ||
         g_str_has_suffix(text, ".json");
}

/* ---- finding ---- */

static char *data_path(const char *kind, const char *name)
{
  return g_strdup_printf("adl/%s/%s.yaml", kind, name);
}

static int compare_names(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Names of the descriptions of a kind ("gpu", "arch"), sorted. */
static char **description_names(const char *kind)
{
  g_autofree char *folder = g_strconcat("adl/", kind, NULL);
  char **names = data_list(folder);
  unsigned kept = 0;
  for (unsigned i = 0; names[i]; i++) {
    char *name = names[i];
    if (g_str_has_suffix(name, ".yaml")) {
      name[strlen(name) - strlen(".yaml")] = 0;
      names[kept++] = name;
    } else {
      g_free(name);
    }
  }
  names[kept] = NULL;
  qsort(names, kept, sizeof *names, compare_names); /* without the suffix, the order is another */
  return names;
}

char **gpu_names(void)
{
  return description_names("gpu");
}

/* true if an architecture file lists the alias. Its own faults are not ours to report here. */
static bool has_alias(const char *name, const char *alias)
{
  g_autofree char *path = data_path("arch", name);
  g_autoptr(Source) source = data_load(path, NULL);
  g_autoptr(Document) document = source ? document_parse(source, NULL) : NULL;
  Node *aliases = document ? node_get(document_root(document), "aliases") : NULL;
  if (!aliases || aliases->kind != NODE_SEQUENCE) return false;
  for (unsigned i = 0; i < aliases->n; i++)
    if (aliases->items[i]->kind == NODE_SCALAR && !g_ascii_strcasecmp(aliases->items[i]->text, alias))
      return true;
  return false;
}

static char *find_alias(const char *alias)
{
  g_auto(GStrv) names = description_names("arch");
  for (char **name = names; *name; name++)
    if (has_alias(*name, alias)) return data_path("arch", *name);
  return NULL;
}

/* Data path of a GPU, an architecture, or an architecture's alias. */
static char *find_base(const char *name, bool *by_alias)
{
  *by_alias = false;
  static const char *const kinds[] = {"gpu", "arch"};
  for (unsigned i = 0; i < G_N_ELEMENTS(kinds); i++) {
    g_autofree char *path = data_path(kinds[i], name);
    if (data_exists(path)) return g_steal_pointer(&path);
  }
  *by_alias = true;
  return find_alias(name);
}

static char *hint_of_names(const char *name, const char *const *kinds)
{
  g_autoptr(GPtrArray) all = g_ptr_array_new_with_free_func(g_free);
  for (; *kinds; kinds++) {
    g_auto(GStrv) names = description_names(*kinds);
    for (char **item = names; *item; item++)
      g_ptr_array_add(all, g_strdup(*item));
  }
  g_ptr_array_add(all, NULL);
  const char *near = nearest_name(name, (const char *const *)all->pdata);
  g_autofree char *list = g_strjoinv(", ", (char **)all->pdata);
  return near ? g_strdup_printf("did you mean `%s`?", near) : g_strdup_printf("known: %s", list);
}

/* ---- reading one file ---- */

static bool valid_name(const char *name)
{
  static const char *const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return g_ascii_isalnum(name[0]) && strspn(name, allowed) == strlen(name) && strlen(name) <= 64;
}

static void read_format_version(Loader *loader, File *file)
{
  Node *node = node_get(file->root, "adl");
  int64_t version;
  if (!node)
    build_error(&loader->build, &file->root->mark, "missing-key",
                "`adl: 1` says which version of the format this is", "missing key `adl`");
  else if (node_integer(node, &version, &loader->build.error) && version != FORMAT_VERSION)
    build_error(&loader->build, &node->mark, "version", "this program reads version 1",
                "version %" G_GINT64_FORMAT " of the format is not known", version);
}

static void read_name(Loader *loader, File *file)
{
  const char *key = file->is_arch ? "architecture" : "name";
  Node *node = node_get(file->root, key);
  const char *name;
  if (!node) {
    build_error(&loader->build, &file->root->mark, "missing-key",
                "by which the GPU is called, and its output folder", "missing key `name`");
  } else if (node_string(node, &name, &loader->build.error)) {
    if (valid_name(name))
      file->name = name;
    else
      build_error(&loader->build, &node->mark, "out-of-range", "letters, digits, `.`, `_` and `-`",
                  "`%.80s` cannot be a name", name);
  }
}

static void read_identity(Loader *loader, File *file)
{
  Build *build = &loader->build;
  read_format_version(loader, file);
  file->is_arch = node_get(file->root, "architecture") != NULL;
  read_name(loader, file);
  Node *product = node_get(file->root, "product"), *aliases = node_get(file->root, "aliases");
  Node *name = node_get(file->root, "name");
  if (product) node_string(product, &file->product, &build->error);
  if (file->is_arch && name)
    build_error(build, &name->mark, "contradiction",
                "`name` is for products, `architecture` for what they extend",
                "a file describes a product or an architecture, not both");
  if (aliases && !file->is_arch)
    build_error(build, &aliases->mark, "contradiction", NULL, "only an architecture has `aliases`");
  if (aliases && node_kind_is(aliases, NODE_SEQUENCE, "aliases", &build->error))
    for (unsigned i = 0; i < aliases->n; i++) {
      const char *alias;
      node_string(aliases->items[i], &alias, &build->error);
    }
}

/* Families by what they are called now. Both names in one file are one family twice. */
static void rename_former_families(Loader *loader, Node *families)
{
  if (!families || families->kind != NODE_MAPPING) return;
  for (unsigned i = 0; i < families->n; i++)
    for (unsigned j = 0; j < schema_n_sections; j++) {
      const Section *section = &schema_sections[j];
      if (!section->former || strcmp(families->keys[i], section->former)) continue;
      for (unsigned k = 0; k < families->n; k++)
        if (!strcmp(families->keys[k], section->name))
          build_error(&loader->build, &families->key_marks[i], "duplicate-key", NULL,
                      "`%s` is the former name of `%s`, which is given too", section->former, section->name);
      families->keys[i] = section->name;
    }
}

/* Adds a file to the chain. false if it cannot be read at all. id, folder: arena. */
static bool add_file(Loader *loader, Source *source, const char *id, const char *folder)
{
  Document *document = document_parse(source, &loader->build.error);
  if (!document) return false;
  g_ptr_array_add(loader->build.private->documents, document);
  File file = {.document = document, .root = document_root(document), .id = id, .folder = folder};
  if (!node_kind_is(file.root, NODE_MAPPING, "a description", &loader->build.error)) return false;
  read_identity(loader, &file);
  rename_former_families(loader, node_get(file.root, "families"));
  g_array_append_val(loader->files, file);
  return true;
}

/* ---- the chain ---- */

static Node *base_node(Loader *loader, const File *file)
{
  Node *extends = node_get(file->root, "extends"), *arch = node_get(file->root, "arch");
  if (extends && arch)
    build_error(&loader->build, &arch->mark, "contradiction", "`arch` is another word for `extends`",
                "`extends` is given already");
  return extends ? extends : arch;
}

static const char *file_name(const File *file)
{
  return file->root->mark.source->name;
}

static bool is_cycle(Loader *loader, const char *id, const Mark *mark)
{
  for (guint i = 0; i < loader->files->len; i++) {
    if (strcmp(g_array_index(loader->files, File, i).id, id)) continue;
    g_autoptr(GString) chain = g_string_new(NULL);
    for (guint j = i; j < loader->files->len; j++)
      g_string_append_printf(chain, "%s -> ", file_name(&g_array_index(loader->files, File, j)));
    g_string_append(chain, file_name(&g_array_index(loader->files, File, i)));
    build_error(&loader->build, mark, "extends-cycle", chain->str, "`extends` comes back to where it was");
    return true;
  }
  if (loader->files->len < MAX_CHAIN) return false;
  build_error(&loader->build, mark, "extends-cycle", NULL, "a chain of more than %d files", MAX_CHAIN);
  return true;
}

static bool add_base_by_path(Loader *loader, const File *file, const char *text, const Mark *mark)
{
  Arena *arena = loader->build.arena;
  if (!file->folder) {
    build_error(&loader->build, mark, "unknown-base", "extend by name",
                "a text in memory cannot extend a file");
    return false;
  }
  /* A file next to the named one keeps its short name in messages. */
  while (g_str_has_prefix(text, "./"))
    text += 2;
  bool as_is = g_path_is_absolute(text) || !strcmp(file->folder, ".");
  g_autofree char *joined = as_is ? g_strdup(text) : g_build_filename(file->folder, text, NULL);
  g_autofree char *id = g_canonicalize_filename(joined, NULL);
  if (is_cycle(loader, id, mark)) return false;
  g_autoptr(GError) error = NULL;
  g_autoptr(Source) source = source_load(joined, &error);
  g_autofree char *folder = g_path_get_dirname(joined);
  if (source) return add_file(loader, source, arena_strdup(arena, id), arena_strdup(arena, folder));
  build_error(&loader->build, mark, "unknown-base", NULL, "%s", error->message);
  return false;
}

static bool add_base_by_name(Loader *loader, const char *name, const Mark *mark)
{
  static const char *const kinds[] = {"gpu", "arch", NULL};
  g_autofree char *path = find_base(name, &loader->by_alias);
  if (!path) {
    g_autofree char *hint = hint_of_names(name, kinds);
    build_error(&loader->build, mark, "unknown-base", hint, "no description is called `%.80s`", name);
    return false;
  }
  if (is_cycle(loader, path, mark)) return false;
  g_autoptr(Source) source = data_load(path, &loader->build.error);
  if (!source) return false;
  g_autofree char *folder = g_path_get_dirname(source->name);
  return add_file(loader, source, arena_strdup(loader->build.arena, path),
                  arena_strdup(loader->build.arena, folder));
}

/* Adds the bases of the last file. false if one cannot be found or read: without it nothing else can be
 * judged. */
static bool add_bases(Loader *loader)
{
  for (;;) {
    const File *last = &g_array_index(loader->files, File, loader->files->len - 1);
    Node *node = base_node(loader, last);
    const char *text;
    if (!node && last->is_arch) return true;
    if (!node) {
      static const char *const kinds[] = {"arch", NULL};
      g_autofree char *names = hint_of_names("", kinds);
      g_autofree char *hint = g_strdup_printf("an architecture, or a GPU that differs little; %s", names);
      build_error(&loader->build, &last->root->mark, "missing-key", hint, "missing key `extends`");
      return false;
    }
    if (!node_string(node, &text, &loader->build.error)) return false;
    bool was_arch = last->is_arch;
    loader->by_alias = false;
    bool added = is_path(text) ? add_base_by_path(loader, last, text, &node->mark)
                               : add_base_by_name(loader, text, &node->mark);
    if (!added) return false;
    if (loader->by_alias) {
      loader->alias = node->mark;
      loader->alias_text = text;
    }
    if (was_arch && !g_array_index(loader->files, File, loader->files->len - 1).is_arch) {
      build_error(&loader->build, &node->mark, "contradiction", NULL,
                  "an architecture extends an architecture, but `%.80s` is a product", text);
      return false;
    }
  }
}

/* ---- resolving ---- */

static void read_sources(Loader *loader, const File *file, GHashTable *sources)
{
  Node *node = node_get(file->root, "sources");
  if (!node || !node_kind_is(node, NODE_MAPPING, "names of sources", &loader->build.error)) return;
  for (unsigned i = 0; i < node->n; i++) {
    const char *text;
    if (strchr(node->keys[i], ' '))
      build_error(&loader->build, &node->key_marks[i], "out-of-range", NULL,
                  "the name of a source is one word");
    if (node_string(node->items[i], &text, &loader->build.error))
      g_hash_table_insert(sources, (void *)node->keys[i], (void *)text);
  }
}

/* All files laid over one another, the last base first. */
static Value *merge_files(Loader *loader)
{
  Build *build = &loader->build;
  g_autoptr(GHashTable) sources = g_hash_table_new(g_str_hash, g_str_equal);
  Value *merged = arena_new_object(build->arena, Value);
  merged->kind = VALUE_MAP;
  for (guint i = loader->files->len; i-- > 0;) {
    const File *file = &g_array_index(loader->files, File, i);
    read_sources(loader, file, sources);
    Value *value = value_build(build->arena, file->root, identity_keys, sources, &build->error);
    value_merge(merged, value, &build->error);
    merged->mark = value->mark;
  }
  return merged;
}

static int compare_entries(const void *a, const void *b)
{
  return strcmp((*(const Entry *const *)a)->path, (*(const Entry *const *)b)->path);
}

static void hash_entry(GChecksum *sum, const Entry *entry)
{
  g_autoptr(GString) line = g_string_new(entry->path);
  if (entry->unknown) g_string_append(line, " unknown");
  double own_clock = entry->kind == RULE_NUMBER ? entry->clock : FACT_UNKNOWN;
  if (fact_known(own_clock)) g_string_append_printf(line, " at %.0f", own_clock);
  if (fact_known(entry->number)) {
    char number[G_ASCII_DTOSTR_BUF_SIZE];
    g_string_append_printf(line, " %s", g_ascii_dtostr(number, sizeof number, entry->number));
  }
  for (unsigned i = 0; i < entry->n; i++) {
    char number[G_ASCII_DTOSTR_BUF_SIZE];
    g_string_append_printf(line, " %s",
                           entry->texts ? entry->texts[i]
                                        : g_ascii_dtostr(number, sizeof number, entry->numbers[i]));
  }
  g_string_append_printf(line, " %s\n", entry->text ? entry->text : "");
  g_checksum_update(sum, (const guchar *)line->str, (gssize)line->len);
}

/* Over what is so, not over who says so: no sources, comments, names or order of keys. */
static void set_hash(Build *build)
{
  g_autoptr(GPtrArray) sorted = g_ptr_array_copy(build->private->entries, NULL, NULL);
  g_ptr_array_set_free_func(sorted, NULL);
  g_ptr_array_sort(sorted, compare_entries);
  g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_SHA256);
  for (guint i = 0; i < sorted->len; i++)
    hash_entry(sum, sorted->pdata[i]);
  g_strlcpy(build->gpu->hash, g_checksum_get_string(sum), sizeof build->gpu->hash);
}

static void set_facts(Build *build)
{
  g_autoptr(GArray) facts = g_array_new(FALSE, FALSE, sizeof(GpuFact));
  for (guint i = 0; i < build->private->entries->len; i++) {
    const Entry *entry = build->private->entries->pdata[i];
    if (entry->kind != RULE_NUMBER && entry->kind != RULE_FLAG && entry->kind != RULE_VERSION) continue;
    GpuFact fact = {entry->path, entry->number, entry->unit, entry->source, entry->guess, entry->effect};
    g_array_append_val(facts, fact);
  }
  build->gpu->n_facts = facts->len;
  build->gpu->facts = arena_memdup(build->arena, facts->data, facts->len * sizeof(GpuFact));
}

static void set_names(Loader *loader)
{
  Gpu *gpu = loader->build.gpu;
  const File *named = &g_array_index(loader->files, File, 0);
  gpu->name = named->name;
  gpu->file = arena_strdup(loader->build.arena, named->root->mark.source->name);
  for (guint i = 0; i < loader->files->len; i++) {
    const File *file = &g_array_index(loader->files, File, i);
    if (!gpu->product) gpu->product = file->product;
    if (!gpu->arch && file->is_arch) gpu->arch = file->name;
  }
  if (!gpu->product) gpu->product = gpu->name;
  const Entry *target = build_entry(&loader->build, "target");
  gpu->target = target ? target->text : NULL;
}

/* Every fault of a file is shown with that file; a fault that only shows in the sum of files may lie in a
 * base. */
static bool concerns_named_file(const Loader *loader)
{
  const GPtrArray *diagnostics = error_diagnostics(loader->build.error);
  for (guint i = 0; i < diagnostics->len; i++)
    if (((Diagnostic *)diagnostics->pdata[i])->source == loader->build.end.source) return true;
  return false;
}

static void add_notes(Loader *loader)
{
  const File *base = &g_array_index(loader->files, File, loader->files->len - 1);
  if (loader->alias_text && base->name)
    build_note(&loader->build, &loader->alias, "alias", "`%s` is the architecture %s", loader->alias_text,
               base->name);
  if (loader->build.end.source && !concerns_named_file(loader))
    build_note(&loader->build, &loader->build.end, "context", "found while checking this description");
}

/* The cost model that the file names which is nearest to the one that was named. */
static void read_model(Loader *loader)
{
  Build *build = &loader->build;
  for (guint i = 0; i < loader->files->len; i++) {
    const File *file = &g_array_index(loader->files, File, i);
    Node *node = node_get(file->root, "model");
    const char *name;
    if (!node) continue;
    if (node_string(node, &name, &build->error)) build_model(build, name, file->folder, &node->mark);
    return;
  }
  g_autofree char *names = build_model_names();
  g_autofree char *hint = g_strdup_printf("whose fitted constants hold; known: %s", names);
  build_error(build, &build->end, "missing-key", hint, "missing key `model`");
}

static void resolve(Loader *loader)
{
  Build *build = &loader->build;
  const File *named = &g_array_index(loader->files, File, 0);
  build->is_product = !named->is_arch;
  build->architecture = named->is_arch ? named->name : NULL;
  build->end = named->root->mark;
  build->n_chain = loader->files->len;
  build->chain = arena_new_array(build->arena, const Source *, build->n_chain);
  for (unsigned i = 0; i < build->n_chain; i++)
    build->chain[i] = g_array_index(loader->files, File, i).root->mark.source;
  build_sections(build, merge_files(loader));
  read_model(loader);
  if (!build->error) {
    build_targets(build);
    build_bounds(build);
    build_checks(build);
  }
  if (build->error) return;
  set_names(loader);
  set_facts(build);
  build_answers(build);
  set_hash(build);
}

/* ---- doors ---- */

/* Choosing kernels asks for facts a million times: eight characters at once. */
static unsigned hash_path(const void *path)
{
  const char *at = path;
  uint64_t hash = 0;
  for (size_t left = strlen(at); left > 0;) {
    uint64_t word = 0;
    size_t n = MIN(left, sizeof word);
    memcpy(&word, at, n);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u; /* 2^64 / the golden ratio: Knuth's multiplicative hashing */
    hash ^= hash >> 32;
    at += n;
    left -= n;
  }
  return (unsigned)hash;
}

static void loader_init(Loader *loader)
{
  *loader = (Loader){0};
  loader->build.arena = arena_new();
  loader->build.gpu = arena_new_object(loader->build.arena, Gpu);
  GpuPrivate *private = arena_new_object(loader->build.arena, GpuPrivate);
  private->arena = loader->build.arena;
  private->documents = g_ptr_array_new_with_free_func((GDestroyNotify)document_free);
  private->entries = g_ptr_array_new();
  private->by_path = g_hash_table_new(hash_path, g_str_equal);
  loader->build.private = loader->build.gpu->private_data = private;
  loader->files = g_array_new(FALSE, TRUE, sizeof(File));
}

/* The description of a source, or NULL with every fault found. requested: the name it was asked for by, or
 * NULL. */
static Gpu *load_source(Source *source, const char *id, const char *folder, const char *requested,
                        bool may_be_arch, GError **error)
{
  Loader loader;
  loader_init(&loader);
  Build *build = &loader.build;
  if (add_file(&loader, source, arena_strdup(build->arena, id), arena_strdup(build->arena, folder))) {
    const File *named = &g_array_index(loader.files, File, 0);
    if (named->is_arch && !may_be_arch)
      build_error(build, &named->root->mark, "not-a-gpu", "name a GPU that extends it",
                  "this describes an architecture, not a GPU");
    if (requested && named->name && strcmp(requested, named->name))
      build_error(build, &named->root->mark, "name-mismatch", "a description is found by its file's name",
                  "the file of `%s` calls itself `%s`", requested, named->name);
    if (add_bases(&loader)) resolve(&loader);
  }
  if (build->error && loader.files->len) add_notes(&loader);
  g_array_unref(loader.files);
  if (!build->error) return build->gpu;
  g_propagate_error(error, build->error);
  gpu_free(build->gpu);
  return NULL;
}

static Gpu *load_path(const char *path, bool may_be_arch, GError **error)
{
  g_autoptr(Source) source = source_load(path, error);
  if (!source) return NULL;
  g_autofree char *id = g_canonicalize_filename(path, NULL);
  g_autofree char *folder = g_path_get_dirname(path);
  return load_source(source, id, folder, NULL, may_be_arch, error);
}

static Gpu *load_name(const char *kind, const char *name, bool may_be_arch, GError **error)
{
  g_autofree char *path = data_path(kind, name);
  g_autoptr(Source) source = data_load(path, error);
  return source ? load_source(source, path, ".", name, may_be_arch, error) : NULL;
}

static bool data_has(const char *kind, const char *name)
{
  g_autofree char *path = data_path(kind, name);
  return data_exists(path);
}

Gpu *gpu_load(const char *name_or_path, GError **error)
{
  static const char *const kinds[] = {"gpu", NULL};
  if (is_path(name_or_path)) return load_path(name_or_path, false, error);
  if (data_has("gpu", name_or_path)) return load_name("gpu", name_or_path, false, error);
  if (data_has("arch", name_or_path)) return load_name("arch", name_or_path, false, error);
  g_autofree char *hint = hint_of_names(name_or_path, kinds);
  error_set(error, ERROR_INPUT, NULL, "unknown-gpu", hint, "unknown GPU `%.80s`", name_or_path);
  return NULL;
}

Gpu *gpu_parse(Source *source, GError **error)
{
  return load_source(source, "", NULL, NULL, false, error);
}

Gpu *gpu_load_description(const char *path, GError **error)
{
  bool exists = is_path(path) || !strcmp(path, "-") || g_file_test(path, G_FILE_TEST_EXISTS);
  if (!exists && data_has("gpu", path)) return load_name("gpu", path, true, error);
  if (!exists && data_has("arch", path)) return load_name("arch", path, true, error);
  return load_path(path, true, error);
}

bool gpu_check(const char *path, GError **error)
{
  g_autoptr(Gpu) gpu = gpu_load_description(path, error);
  return gpu != NULL;
}

void gpu_free(Gpu *gpu)
{
  if (!gpu) return;
  GpuPrivate *private = gpu->private_data;
  g_ptr_array_unref(private->documents);
  g_ptr_array_unref(private->entries);
  g_hash_table_unref(private->by_path);
  arena_free(private->arena); /* gpu and private live in it */
}
