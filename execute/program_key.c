#include "execute/program_key.h"
#include "base/data.h"
#include "base/version.h"
#include "execute/build_id.h"
#include "generator/choose/tuned.h"
#include <string.h>
#include <sys/stat.h>

/* ---- files ---- */

/* A file with other content has another number, size or time. */
static json_t *file_identity(const char *path)
{
  struct stat status;
  if (stat(path, &status)) return NULL;
  return json_pack("[sIIIII]", path, (json_int_t)status.st_dev, (json_int_t)status.st_ino,
                   (json_int_t)status.st_size, (json_int_t)status.st_mtim.tv_sec,
                   (json_int_t)status.st_mtim.tv_nsec);
}

json_t *program_files(const Graph *graph)
{
  g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
  json_t *files = json_array();
  for (unsigned i = 0; i < graph->n_tensors; i++) {
    const char *path = graph->tensors[i]->file;
    if (!path || !g_hash_table_add(seen, (void *)path)) continue;
    json_t *identity = file_identity(path);
    if (!identity) {
      json_decref(files);
      return NULL;
    }
    json_array_append_new(files, identity);
  }
  return files;
}

bool program_files_same(const json_t *files)
{
  for (size_t i = 0; i < json_array_size(files); i++) {
    json_t *was = json_array_get(files, i);
    const char *path = json_string_value(json_array_get(was, 0));
    json_t *now = path ? file_identity(path) : NULL;
    bool same = now && json_equal(was, now);
    json_decref(now);
    if (!same) return false;
  }
  return json_is_array(files);
}

/* ---- the key ---- */

bool program_add_texts(GString *text, const char *folder)
{
  g_auto(GStrv) names = data_list(folder);
  for (char **name = names; *name; name++) {
    g_autofree char *path = g_build_filename(folder, *name, NULL);
    if (!data_on_disk(path)) continue;
    g_autoptr(Source) source = data_load(path, NULL);
    if (!source) return false;
    char hash[CACHE_KEY_LENGTH + 1];
    cache_key(hash, source->text, NULL);
    g_string_append_printf(text, "%s %s\n", *name, hash);
  }
  return true;
}

static void add_list(GString *text, const char *title, const char *const *list)
{
  g_string_append_printf(text, "%s\n", title);
  for (; list && *list; list++)
    g_string_append_printf(text, "%zu %s\n", strlen(*list), *list);
}

/* Hashing takes a second for some hundred megabytes. */
#define MOST_HASHED (64u << 20)

/* Models have zeros in them, and may hold weights beside nodes: a large one is known as a file. */
static bool add_source(GString *text, const Source *source)
{
  if (source->length <= MOST_HASHED) {
    g_autofree char *hash =
        g_compute_checksum_for_data(G_CHECKSUM_SHA256, (const guchar *)source->text, source->length);
    g_string_append_printf(text, "graph %s\n", hash);
  } else {
    json_t *identity = source->mapped ? file_identity(source->name) : NULL;
    if (!identity) return false;
    char *line = json_dumps(identity, JSON_COMPACT);
    g_string_append_printf(text, "graph %s\n", line);
    free(line);
    json_decref(identity);
  }
  /* what the text names is beside it */
  g_autofree char *folder = g_path_get_dirname(source->name);
  g_string_append_printf(text, "folder %s\n", folder);
  return true;
}

bool program_key(const char *kind, const ProgramInput *input, char key[CACHE_KEY_LENGTH + 1])
{
  const CompileOptions *compile = input->compile;
  const Gpu *gpu = input->gpu;
  g_autofree char *build = build_id();
  g_autoptr(GString) options = g_string_new(NULL);
  /* Templates may come from the user's folders, which the build's identity does not cover. */
  if (!build || (compile->skip && *compile->skip) || !program_add_texts(options, "templates") ||
      !add_source(options, input->source))
    return false;
  add_list(options, "dims", input->dims);
  add_list(options, "sets", compile->sets);
  if (input->no_tuned)
    g_string_append(options, "no tuned\n");
  else if (!tuned_database_digest(gpu->name, input->tuned, options))
    return false;
  g_string_append_printf(options, "fast %d accumulate %d sms %u\n", compile->fast_math, compile->accumulate,
                         compile->sm_budget);
  cache_key(key, kind, ADLGEN_VERSION, build, gpu->name, gpu->hash, gpu->model->hash, gpu->target,
            options->str, NULL);
  return true;
}
