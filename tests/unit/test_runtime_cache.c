/* The cache on disk: what it refuses, what it survives, what it removes. */
#include "runtime/cache.h"
#include <fcntl.h>
#include <glib/gstdio.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define HEADER 88 /* bytes before an entry's content */

static char *folder; /* new for each test */

static int set_up(void **state)
{
  folder = g_dir_make_tmp("adlgen-cache-XXXXXX", NULL);
  return folder ? 0 : -1;
}

static void remove_tree(const char *path)
{
  GDir *dir = g_dir_open(path, 0, NULL);
  for (const char *name; dir && (name = g_dir_read_name(dir));) {
    g_autofree char *inner = g_build_filename(path, name, NULL);
    if (g_file_test(inner, G_FILE_TEST_IS_DIR)) remove_tree(inner);
    g_unlink(inner);
  }
  if (dir) g_dir_close(dir);
  g_rmdir(path);
}

static int tear_down(void **state)
{
  remove_tree(folder);
  g_clear_pointer(&folder, g_free);
  return 0;
}

static void key_of(unsigned i, char key[CACHE_KEY_LENGTH + 1])
{
  g_autofree char *number = g_strdup_printf("%u", i);
  cache_key(key, "test", number, NULL);
}

static void put(Cache *cache, unsigned i, const char *text)
{
  char key[CACHE_KEY_LENGTH + 1];
  key_of(i, key);
  g_autoptr(GBytes) content = g_bytes_new(text, strlen(text));
  cache_put(cache, key, content);
}

static bool has(Cache *cache, unsigned i, const char *text)
{
  char key[CACHE_KEY_LENGTH + 1];
  key_of(i, key);
  g_autoptr(GBytes) content = cache_get(cache, key);
  gsize size = 0;
  const char *data = content ? g_bytes_get_data(content, &size) : NULL;
  return data && size == strlen(text) && !memcmp(data, text, size);
}

static char *path_of(unsigned i)
{
  char key[CACHE_KEY_LENGTH + 1];
  key_of(i, key);
  return g_strdup_printf("%s/%.2s/%s.entry", folder, key, key + 2);
}

static void keys_tell_parts_apart(void **state)
{
  static const char *const parts[][2] = {{"ab", "c"}, {"a", "bc"}, {"abc", ""}, {"", "abc"}};
  char keys[4][CACHE_KEY_LENGTH + 1];
  for (unsigned i = 0; i < 4; i++)
    cache_key(keys[i], "k", parts[i][0], parts[i][1], NULL);
  for (unsigned i = 0; i < 4; i++)
    for (unsigned j = 0; j < i; j++)
      assert_string_not_equal(keys[i], keys[j]);
}

static void keeps_entries(void **state)
{
  Cache *cache = cache_open(folder, 0);
  assert_false(has(cache, 1, "one"));
  put(cache, 1, "one");
  put(cache, 2, "");
  assert_true(has(cache, 1, "one"));
  assert_false(has(cache, 3, "one"));
  put(cache, 1, "another");
  assert_true(has(cache, 1, "another"));
  CacheUsage usage = cache_usage(cache);
  assert_int_equal(usage.entries, 2);
  assert_null(cache_warning(cache));
  cache_close(cache);
  cache = cache_open(folder, 0);
  assert_true(has(cache, 1, "another"));
  cache_close(cache);
}

/* Every byte of an entry counts, and so does its length. */
static void notices_damage(void **state)
{
  g_autoptr(Cache) cache = cache_open(folder, 0);
  g_autofree char *path = path_of(1), *file = NULL;
  gsize size = 0;
  put(cache, 1, "content");
  assert_true(g_file_get_contents(path, &file, &size, NULL));
  for (gsize i = 0; i < size; i++) {
    file[i] ^= 0x20;
    assert_true(g_file_set_contents(path, file, (gssize)size, NULL));
    file[i] ^= 0x20;
    assert_false(has(cache, 1, "content"));
    assert_false(g_file_test(path, G_FILE_TEST_EXISTS)); /* removed, so that it is made anew */
  }
  for (gsize length = 0; length < size; length++) {
    assert_true(g_file_set_contents(path, file, (gssize)length, NULL));
    assert_false(has(cache, 1, "content"));
  }
  put(cache, 1, "content");
  assert_true(has(cache, 1, "content"));
  /* An entry under another's name is none. */
  g_autofree char *other = path_of(2), *other_folder = g_path_get_dirname(other);
  g_mkdir_with_parents(other_folder, 0700);
  assert_int_equal(g_rename(path, other), 0);
  assert_false(has(cache, 2, "content"));
}

static void removes_what_was_used_longest_ago(void **state)
{
  enum { ENTRIES = 20, SIZE = 1000 };
  char text[SIZE + 1];
  memset(text, 'x', SIZE);
  text[SIZE] = 0;
  Cache *cache = cache_open(folder, 12 * (SIZE + HEADER));
  for (unsigned i = 0; i < ENTRIES; i++) {
    put(cache, i, text);
    g_autofree char *path = path_of(i);
    const struct timespec times[2] = {{1000 + i, 0}, {1000 + i, 0}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
  }
  assert_true(has(cache, 0, text)); /* a use counts */
  cache_close(cache);
  cache = cache_open(folder, 0);
  CacheUsage usage = cache_usage(cache);
  assert_true(usage.bytes <= 12 * (SIZE + HEADER) && usage.entries >= 9);
  assert_true(has(cache, 0, text));
  assert_false(has(cache, 1, text));
  assert_true(has(cache, ENTRIES - 1, text));
  cache_close(cache);
}

static void clears_its_own_files_only(void **state)
{
  g_autoptr(Cache) cache = cache_open(folder, 0);
  put(cache, 1, "one");
  put(cache, 2, "two");
  g_autofree char *path = path_of(1), *inner = g_path_get_dirname(path);
  g_autofree char *foreign = g_build_filename(inner, "notes.txt", NULL);
  assert_true(g_file_set_contents(foreign, "mine", -1, NULL));
  CacheUsage removed;
  assert_true(cache_clear(cache, &removed, NULL));
  assert_int_equal(removed.entries, 2);
  assert_int_equal(cache_usage(cache).entries, 0);
  assert_true(g_file_test(foreign, G_FILE_TEST_EXISTS));
}

static void finds_its_folder(void **state)
{
  static const struct {
    const char *dir, *xdg, *home, *found;
  } cases[] = {{"/a/b", "/c", "/d", "/a/b"},
               {NULL, "/c", "/d", "/c/adlgen"},
               {"", "relative", "/d", "/d/.cache/adlgen"},
               {NULL, NULL, "/d", "/d/.cache/adlgen"},
               {NULL, NULL, NULL, NULL},
               {NULL, NULL, "", NULL}};
  static const char *const names[] = {"ADLGEN_CACHE_DIR", "XDG_CACHE_HOME", "HOME"};
  for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
    const char *const values[] = {cases[i].dir, cases[i].xdg, cases[i].home};
    for (unsigned j = 0; j < 3; j++)
      if (values[j])
        g_setenv(names[j], values[j], TRUE);
      else
        g_unsetenv(names[j]);
    g_autoptr(Cache) cache = cache_open(NULL, 0);
    if (cases[i].found)
      assert_string_equal(cache_folder(cache), cases[i].found);
    else {
      assert_null(cache_folder(cache));
      assert_string_equal(cache_warning(cache),
                          "no cache: neither ADLGEN_CACHE_DIR, XDG_CACHE_HOME nor HOME names a folder");
      put(cache, 1, "nothing happens");
      assert_false(has(cache, 1, "nothing happens"));
    }
  }
  g_autoptr(Cache) none = cache_open("", 0);
  assert_null(cache_folder(none));
  assert_null(cache_warning(none)); /* as asked for */
  g_setenv("ADLGEN_CACHE_LIMIT", "3", TRUE);
  g_autoptr(Cache) limited = cache_open("/a", 0);
  assert_int_equal(cache_limit(limited), 3 << 20);
  g_setenv("ADLGEN_CACHE_LIMIT", "3x", TRUE);
  g_autoptr(Cache) unlimited = cache_open("/a", 0);
  assert_int_equal(cache_limit(unlimited), 1 << 30);
  g_unsetenv("ADLGEN_CACHE_LIMIT");
}

/* A folder that cannot be made or written: one warning, no more tries, reading still works. */
static void does_without_a_folder(void **state)
{
  g_autofree char *file = g_build_filename(folder, "file", NULL),
                  *below = g_build_filename(file, "cache", NULL);
  assert_true(g_file_set_contents(file, "", 0, NULL));
  const char *const places[] = {below, "/proc/adlgen-cache"};
  for (unsigned i = 0; i < G_N_ELEMENTS(places); i++) {
    g_autoptr(Cache) cache = cache_open(places[i], 0);
    assert_false(has(cache, 1, "one"));
    assert_null(cache_warning(cache));
    put(cache, 1, "one");
    assert_non_null(strstr(cache_warning(cache), "the cache is not used: cannot make "));
    g_autofree char *first = g_strdup(cache_warning(cache));
    put(cache, 2, "two");
    assert_string_equal(cache_warning(cache), first);
    assert_false(has(cache, 1, "one"));
    assert_int_equal(cache_usage(cache).entries, 0);
  }
}

static void reads_a_folder_it_may_not_write(void **state)
{
  if (geteuid() == 0) skip(); /* whom no mode stops */
  Cache *cache = cache_open(folder, 0);
  put(cache, 1, "one");
  cache_close(cache);
  g_autofree char *path = path_of(1), *inner = g_path_get_dirname(path);
  assert_int_equal(chmod(inner, 0500) || chmod(folder, 0500), 0);
  cache = cache_open(folder, 0);
  assert_true(has(cache, 1, "one"));
  put(cache, 2, "two");
  assert_non_null(strstr(cache_warning(cache), "Permission denied"));
  cache_close(cache);
  assert_int_equal(chmod(folder, 0700) || chmod(inner, 0700), 0);
}

/* Waits for a process that is to end with 0. */
static void assert_ends(pid_t process)
{
  int status = 0;
  assert_int_equal(waitpid(process, &status, 0), process);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

/* Writing stops within an entry, as on a full disk: nothing of it stays, and what was there does. */
static void survives_a_full_disk(void **state)
{
  Cache *cache = cache_open(folder, 0);
  put(cache, 1, "one");
  cache_close(cache);
  pid_t process = fork();
  if (!process) {
    signal(SIGXFSZ, SIG_IGN);
    const struct rlimit limit = {150, 150};
    setrlimit(RLIMIT_FSIZE, &limit);
    cache = cache_open(folder, 0);
    g_autofree char *large = g_strnfill(10000, 'x');
    put(cache, 2, large);
    bool good = cache_warning(cache) && strstr(cache_warning(cache), "cannot write") &&
                has(cache, 1, "one") && !has(cache, 2, large) && cache_usage(cache).entries == 1 &&
                cache_usage(cache).bytes < 200;
    cache_close(cache);
    _exit(good ? 0 : 1);
  }
  assert_ends(process);
}

/* Processes write the same entries over and over while others read them. */
static void is_filled_by_several_processes(void **state)
{
  enum { PROCESSES = 4, ENTRIES = 20, ROUNDS = 6 };
  g_autofree char *text = g_strnfill(20000, 'y');
  pid_t processes[PROCESSES];
  for (unsigned p = 0; p < PROCESSES; p++) {
    processes[p] = fork();
    if (processes[p]) continue;
    Cache *cache = cache_open(folder, 0);
    unsigned lost = 0;
    for (unsigned i = 0; i < ROUNDS * ENTRIES; i++) {
      put(cache, i % ENTRIES, text);
      lost += !has(cache, i % ENTRIES, text);
    }
    bool good = !lost && !cache_warning(cache);
    cache_close(cache);
    _exit(good ? 0 : 1);
  }
  for (unsigned p = 0; p < PROCESSES; p++)
    assert_ends(processes[p]);
  g_autoptr(Cache) cache = cache_open(folder, 0);
  CacheUsage usage = cache_usage(cache);
  assert_int_equal(usage.entries, ENTRIES);
  assert_int_equal(usage.bytes, ENTRIES * (20000 + HEADER)); /* nothing is left aside */
  for (unsigned i = 0; i < ENTRIES; i++)
    assert_true(has(cache, i, text));
}

/* What a process that was stopped left aside goes with the next that writes. */
static void removes_what_was_abandoned(void **state)
{
  Cache *cache = cache_open(folder, 0);
  put(cache, 1, "one");
  g_autofree char *path = path_of(1);
  path[strlen(path) - strlen(".entry")] = 0;
  g_autofree char *old = g_strconcat(path, ".1-x.part", NULL), *new = g_strconcat(path, ".2-x.part", NULL);
  assert_true(g_file_set_contents(old, "half", -1, NULL) && g_file_set_contents(new, "half", -1, NULL));
  const struct timespec times[2] = {{1000, 0}, {1000, 0}};
  assert_int_equal(utimensat(AT_FDCWD, old, times, 0), 0);
  cache_close(cache);
  assert_false(g_file_test(old, G_FILE_TEST_EXISTS));
  assert_true(g_file_test(new, G_FILE_TEST_EXISTS)); /* it may still be being written */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(keys_tell_parts_apart),
      TEST(keeps_entries),
      TEST(notices_damage),
      TEST(removes_what_was_used_longest_ago),
      TEST(clears_its_own_files_only),
      TEST(finds_its_folder),
      TEST(does_without_a_folder),
      TEST(reads_a_folder_it_may_not_write),
      TEST(survives_a_full_disk),
      TEST(is_filled_by_several_processes),
      TEST(removes_what_was_abandoned),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
