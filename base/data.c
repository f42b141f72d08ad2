#include "base/data.h"
#include "data-resource.h"
#include <gio/gio.h>
#include <string.h>

#define RESOURCE_ROOT "/adlgen/"

/* The folders on disk, NULL-terminated. An empty variable counts as unset. */
static char **data_folders(void)
{
  g_autoptr(GStrvBuilder) folders = g_strv_builder_new();
  const char *own = g_getenv("ADLGEN_DATA_DIR"), *xdg = g_getenv("XDG_DATA_HOME");
  if (own && *own) g_strv_builder_add(folders, own);
  g_autofree char *user = xdg && *xdg ? g_build_filename(xdg, "adlgen", NULL)
                                      : g_build_filename(g_get_home_dir(), ".local", "share", "adlgen", NULL);
  g_strv_builder_add(folders, user);
  return g_strv_builder_end(folders);
}

/* A relative path must stay inside the data folder: names come from users' files. */
static bool is_inside(const char *relative_path)
{
  if (!*relative_path || *relative_path == '/') return false;
  g_auto(GStrv) parts = g_strsplit(relative_path, "/", -1);
  return !g_strv_contains((const char *const *)parts, "..");
}

static char *find_on_disk(const char *relative_path)
{
  g_auto(GStrv) folders = data_folders();
  for (char **folder = folders; *folder; folder++) {
    g_autofree char *path = g_build_filename(*folder, relative_path, NULL);
    if (g_file_test(path, G_FILE_TEST_IS_REGULAR)) return g_steal_pointer(&path);
  }
  return NULL;
}

static GBytes *find_embedded(const char *relative_path)
{
  g_autofree char *path = g_strconcat(RESOURCE_ROOT, relative_path, NULL);
  return g_resource_lookup_data(adlgen_data_get_resource(), path, G_RESOURCE_LOOKUP_FLAGS_NONE, NULL);
}

bool data_exists(const char *relative_path)
{
  if (!is_inside(relative_path)) return false;
  g_autofree char *path = find_on_disk(relative_path);
  if (path) return true;
  g_autoptr(GBytes) bytes = find_embedded(relative_path);
  return bytes != NULL;
}

bool data_on_disk(const char *relative_path)
{
  g_autofree char *path = is_inside(relative_path) ? find_on_disk(relative_path) : NULL;
  return path != NULL;
}

Source *data_load(const char *relative_path, GError **error)
{
  if (is_inside(relative_path)) {
    g_autofree char *path = find_on_disk(relative_path);
    if (path) return source_load(path, error);
    g_autoptr(GBytes) bytes = find_embedded(relative_path);
    if (bytes) {
      g_autofree char *name = g_strconcat("<embedded>/", relative_path, NULL);
      gsize length;
      const char *text = g_bytes_get_data(bytes, &length);
      return source_new(name, text, length);
    }
  }
  g_auto(GStrv) folders = data_folders();
  g_autofree char *places = g_strjoinv(", ", folders);
  g_autofree char *hint = g_strdup_printf("looked in %s and among the embedded files", places);
  error_add(error, ERROR_INPUT, SEVERITY_ERROR, NULL, "no-such-file", hint, "no data file `%s`",
            relative_path);
  return NULL;
}

static void add_folder(const char *path, GHashTable *names)
{
  g_autoptr(GDir) folder = g_dir_open(path, 0, NULL);
  const char *name;
  while (folder && (name = g_dir_read_name(folder))) {
    g_autofree char *file = g_build_filename(path, name, NULL);
    if (g_file_test(file, G_FILE_TEST_IS_REGULAR)) g_hash_table_add(names, g_strdup(name));
  }
}

static int compare_names(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

char **data_list(const char *folder)
{
  g_autoptr(GHashTable) names = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  if (is_inside(folder)) {
    g_auto(GStrv) places = data_folders();
    for (char **place = places; *place; place++) {
      g_autofree char *path = g_build_filename(*place, folder, NULL);
      add_folder(path, names);
    }
    g_autofree char *path = g_strconcat(RESOURCE_ROOT, folder, NULL);
    g_auto(GStrv) embedded =
        g_resource_enumerate_children(adlgen_data_get_resource(), path, G_RESOURCE_LOOKUP_FLAGS_NONE, NULL);
    for (char **name = embedded; name && *name; name++)
      if (!g_str_has_suffix(*name, "/")) g_hash_table_add(names, g_strdup(*name));
  }
  g_autoptr(GPtrArray) sorted = g_ptr_array_new();
  GHashTableIter iterator;
  void *name;
  g_hash_table_iter_init(&iterator, names);
  while (g_hash_table_iter_next(&iterator, &name, NULL))
    g_ptr_array_add(sorted, g_strdup(name));
  g_ptr_array_sort(sorted, compare_names);
  g_ptr_array_add(sorted, NULL);
  return (char **)g_ptr_array_free(g_steal_pointer(&sorted), FALSE);
}
