#include "base/output.h"
#include <errno.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utime.h>

struct Output {
  char *folder; /* the user's */
  char *aside;  /* new files are under aside/new, replaced ones under aside/old until all is in place */
  GPtrArray *names;
  GPtrArray *same;       /* files of the user's folder that need no new ones */
  GHashTable *known;     /* names, and the folders below aside that there are */
  GPtrArray *made_order; /* folders made by commit, to be removed again if it fails */
};

static void unwritable(GError **error, const char *path, int code)
{
  error_set(error, ERROR_INPUT, NULL, "unwritable", NULL, "cannot write %s: %s", path, g_strerror(code));
}

void remove_folder(const char *path)
{
  GStatBuf status;
  if (g_lstat(path, &status) != 0) return;
  if (!S_ISDIR(status.st_mode)) {
    g_unlink(path);
    return;
  }
  g_autoptr(GDir) folder = g_dir_open(path, 0, NULL);
  const char *name = NULL;
  while (folder && (name = g_dir_read_name(folder))) {
    g_autofree char *child = g_build_filename(path, name, NULL);
    remove_folder(child);
  }
  g_rmdir(path);
}

/* The nearest folder above a path that exists. */
static char *existing_parent(const char *path)
{
  char *parent = g_path_get_dirname(path);
  while (!g_file_test(parent, G_FILE_TEST_EXISTS)) {
    char *above = g_path_get_dirname(parent);
    g_free(parent);
    parent = above;
  }
  return parent;
}

Output *output_new(const char *folder, GError **error)
{
  g_autofree char *path = g_canonicalize_filename(folder, NULL);
  bool exists = g_file_test(path, G_FILE_TEST_EXISTS);
  if (exists && !g_file_test(path, G_FILE_TEST_IS_DIR)) {
    unwritable(error, folder, ENOTDIR);
    return NULL;
  }
  g_autofree char *parent = exists ? g_strdup(path) : existing_parent(path);
  g_autofree char *aside = g_build_filename(parent, ".adlgen-XXXXXX", NULL);
  if (!g_mkdtemp_full(aside, 0755)) {
    unwritable(error, folder, errno);
    return NULL;
  }
  Output *output = g_new0(Output, 1);
  output->folder = g_steal_pointer(&path);
  output->aside = g_steal_pointer(&aside);
  output->names = g_ptr_array_new_with_free_func(g_free);
  output->same = g_ptr_array_new_with_free_func(g_free);
  output->known = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  output->made_order = g_ptr_array_new_with_free_func(g_free);
  return output;
}

void output_free(Output *output)
{
  if (!output) return;
  remove_folder(output->aside);
  g_free(output->folder);
  g_free(output->aside);
  g_ptr_array_unref(output->names);
  g_ptr_array_unref(output->same);
  g_hash_table_unref(output->known);
  g_ptr_array_unref(output->made_order);
  g_free(output);
}

/* A folder of ours; hundreds of files lie in one, which is asked for once. */
static bool make_aside(Output *output, const char *path)
{
  if (g_hash_table_contains(output->known, path)) return true;
  if (g_mkdir_with_parents(path, 0755) != 0) return false;
  return g_hash_table_add(output->known, g_strdup(path));
}

char *output_path(Output *output, const char *name, GError **error)
{
  bool is_new = g_hash_table_add(output->known, g_strdup(name));
  g_assert(is_new);
  g_autofree char *path = g_build_filename(output->aside, "new", name, NULL);
  g_autofree char *parent = g_path_get_dirname(path);
  if (!make_aside(output, parent)) {
    unwritable(error, name, errno);
    return NULL;
  }
  g_ptr_array_add(output->names, g_strdup(name));
  return g_steal_pointer(&path);
}

/* A compile from the cache writes what lies there: most of its time went into making the files and removing the old ones. */
static bool lies_there(const Output *output, const char *name, const void *data, size_t size)
{
  g_autofree char *path = g_build_filename(output->folder, name, NULL);
  GStatBuf status;
  if (g_lstat(path, &status) != 0 || !S_ISREG(status.st_mode) || (size_t)status.st_size != size) return false;
  g_autofree char *text = NULL;
  gsize length = 0;
  return g_file_get_contents(path, &text, &length, NULL) && length == size && memcmp(text, data, size) == 0;
}

bool output_write(Output *output, const char *name, const void *data, size_t size, GError **error)
{
  if (lies_there(output, name, data, size)) {
    bool is_new = g_hash_table_add(output->known, g_strdup(name));
    g_assert(is_new);
    g_ptr_array_add(output->same, g_build_filename(output->folder, name, NULL));
    return true;
  }
  g_autofree char *path = output_path(output, name, error);
  if (!path) return false;
  g_autoptr(GError) system = NULL;
  /* nobody sees the folder before all is written: the file needs no other name meanwhile */
  if (g_file_set_contents_full(path, data, (gssize)size, G_FILE_SET_CONTENTS_NONE, 0666, &system))
    return true;
  error_set(error, ERROR_INPUT, NULL, "unwritable", NULL, "cannot write %s: %s", name, system->message);
  return false;
}

bool output_write_text(Output *output, const char *name, const char *text, GError **error)
{
  return output_write(output, name, text, strlen(text), error);
}

/* ---- commit ---- */

/* Makes a folder and those above it, remembering each that was new. */
static bool make_folders(Output *output, const char *path, GError **error)
{
  if (g_file_test(path, G_FILE_TEST_IS_DIR)) return true;
  g_autofree char *parent = g_path_get_dirname(path);
  if (!make_folders(output, parent, error)) return false;
  if (g_mkdir(path, 0755) != 0) {
    unwritable(error, path, errno);
    return false;
  }
  g_ptr_array_add(output->made_order, g_strdup(path));
  return true;
}

static bool move_one(Output *output, const char *name, GError **error)
{
  g_autofree char *from = g_build_filename(output->aside, "new", name, NULL);
  g_autofree char *to = g_build_filename(output->folder, name, NULL);
  g_autofree char *old = g_build_filename(output->aside, "old", name, NULL);
  g_autofree char *folder = g_path_get_dirname(to), *old_folder = g_path_get_dirname(old);
  if (!make_folders(output, folder, error)) return false;
  GStatBuf status;
  bool exists = g_stat(to, &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) {
    unwritable(error, to, EISDIR);
    return false;
  }
  if (exists && (!make_aside(output, old_folder) || g_rename(to, old) != 0)) {
    unwritable(error, to, errno);
    return false;
  }
  if (g_rename(from, to) == 0) return true;
  unwritable(error, to, errno);
  g_rename(old, to);
  return false;
}

static void move_back(Output *output, guint n)
{
  for (guint i = n; i > 0; i--) {
    const char *name = output->names->pdata[i - 1];
    g_autofree char *to = g_build_filename(output->folder, name, NULL);
    g_autofree char *old = g_build_filename(output->aside, "old", name, NULL);
    g_unlink(to);
    if (g_file_test(old, G_FILE_TEST_EXISTS)) g_rename(old, to);
  }
  for (guint i = output->made_order->len; i > 0; i--)
    g_rmdir(output->made_order->pdata[i - 1]);
}

bool output_commit(Output *output, GError **error)
{
  if (!make_folders(output, output->folder, error)) {
    move_back(output, 0);
    return false;
  }
  for (guint i = 0; i < output->names->len; i++) {
    if (move_one(output, output->names->pdata[i], error)) continue;
    move_back(output, i);
    return false;
  }
  /* they are as new as the others: who makes files by their times would compile again each time */
  for (guint i = 0; i < output->same->len; i++)
    g_utime(output->same->pdata[i], NULL);
  return true;
}
