#include "runtime/cache.h"
#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define DEFAULT_LIMIT (UINT64_C(1) << 30)
#define SUFFIX        ".entry"
#define ASIDE         ".part" /* being written */
/* Entries written between two looks at the folder's size. */
#define WRITES_PER_PRUNE 64
/* Seconds after which a file aside is what a stopped process left behind. */
#define ABANDONED 3600
/* What pruning leaves, so that the next entry does not prune again. */
#define KEPT(limit) ((limit) / 10 * 9)

struct Cache {
  char *folder; /* NULL: no cache */
  uint64_t limit;
  GMutex lock; /* of what follows */
  char *warning;
  bool read_only; /* writing failed once */
  unsigned writes;
};

/* What stands before the content. */
typedef struct Header {
  char magic[8];
  char key[CACHE_KEY_LENGTH];
  uint64_t size;
  uint64_t sum; /* CRC-32: a start from the cache reads everything, and SHA-256 took half its time */
} Header;

static const char magic[8] = "ADLGEN2\n";

/* ---- where ---- */

/* `warning`: set if the environment asks for what is no number. */
static uint64_t default_limit(char **warning)
{
  const char *text = g_getenv("ADLGEN_CACHE_LIMIT");
  guint64 mib;
  if (!text || !*text) return DEFAULT_LIMIT;
  if (g_ascii_string_to_unsigned(text, 10, 1, UINT64_MAX >> 20, &mib, NULL)) return (uint64_t)mib << 20;
  *warning = g_strdup_printf("ADLGEN_CACHE_LIMIT=%s is no number of MiB from 1 on; the cache keeps to %d MiB",
                             text, (int)(DEFAULT_LIMIT >> 20));
  return DEFAULT_LIMIT;
}

static char *default_folder(void)
{
  const char *named = g_getenv("ADLGEN_CACHE_DIR"), *xdg = g_getenv("XDG_CACHE_HOME");
  const char *home = g_getenv("HOME");
  if (named && *named) return g_strdup(named);
  if (xdg && g_path_is_absolute(xdg)) return g_build_filename(xdg, "adlgen", NULL);
  if (home && g_path_is_absolute(home)) return g_build_filename(home, ".cache", "adlgen", NULL);
  return NULL;
}

Cache *cache_open(const char *folder, uint64_t limit)
{
  Cache *cache = g_new0(Cache, 1);
  g_mutex_init(&cache->lock);
  cache->limit = limit ? limit : default_limit(&cache->warning);
  if (folder && !*folder) return cache;
  cache->folder = folder ? g_strdup(folder) : default_folder();
  if (!cache->folder) {
    g_free(cache->warning); /* without a folder nobody asks for the limit */
    cache->warning = g_strdup("no cache: neither ADLGEN_CACHE_DIR, XDG_CACHE_HOME nor HOME names a folder");
  }
  return cache;
}

const char *cache_folder(const Cache *cache)
{
  return cache->folder;
}

uint64_t cache_limit(const Cache *cache)
{
  return cache->limit;
}

const char *cache_warning(Cache *cache)
{
  g_mutex_lock(&cache->lock);
  const char *warning = cache->warning; /* once set it stays */
  g_mutex_unlock(&cache->lock);
  return warning;
}

/* Keeps the first. */
static void warn(Cache *cache, const char *what, const char *path, int system_error)
{
  g_mutex_lock(&cache->lock);
  if (!cache->warning)
    cache->warning =
        g_strdup_printf("the cache is not used: cannot %s %s: %s", what, path, g_strerror(system_error));
  cache->read_only = true;
  g_mutex_unlock(&cache->lock);
}

/* ---- keys ---- */

void cache_key(char key[CACHE_KEY_LENGTH + 1], const char *kind, ...)
{
  g_autoptr(GChecksum) checksum = g_checksum_new(G_CHECKSUM_SHA256);
  va_list texts;
  va_start(texts, kind);
  for (const char *text = kind; text; text = va_arg(texts, const char *))
    g_checksum_update(checksum, (const guchar *)text, (gssize)strlen(text) + 1);
  va_end(texts);
  memcpy(key, g_checksum_get_string(checksum), CACHE_KEY_LENGTH + 1);
}

/* Entries lie in folders of two digits, so that none grows large. */
static char *path_of(const Cache *cache, const char *key, const char *suffix)
{
  const char first[3] = {key[0], key[1], 0};
  return g_strconcat(cache->folder, G_DIR_SEPARATOR_S, first, G_DIR_SEPARATOR_S, key + 2, suffix, NULL);
}

/* ---- entries ---- */

static void fill_header(Header *header, const char *key, const void *data, size_t size)
{
  memset(header, 0, sizeof *header);
  memcpy(header->magic, magic, sizeof magic);
  memcpy(header->key, key, sizeof header->key);
  header->size = size;
  header->sum = crc32_z(crc32(0, NULL, 0), data, size);
}

static bool is_whole(const char *file, size_t size, const char *key)
{
  Header expected;
  if (size < sizeof expected) return false;
  fill_header(&expected, key, file + sizeof expected, size - sizeof expected);
  return !memcmp(file, &expected, sizeof expected);
}

GBytes *cache_get(Cache *cache, const char *key)
{
  if (!cache->folder) return NULL;
  g_autofree char *path = path_of(cache, key, SUFFIX);
  g_autofree char *file = NULL;
  gsize size = 0;
  if (!g_file_get_contents(path, &file, &size, NULL)) return NULL;
  if (!is_whole(file, size, key)) {
    g_unlink(path);
    return NULL;
  }
  /* The time of the last use is what pruning goes by; a folder that cannot be written needs none. */
  utimensat(AT_FDCWD, path, NULL, 0);
  GBytes *whole = g_bytes_new_take(g_steal_pointer(&file), size);
  GBytes *content = g_bytes_new_from_bytes(whole, sizeof(Header), size - sizeof(Header));
  g_bytes_unref(whole);
  return content;
}

static bool write_all(int file, const void *data, size_t size)
{
  for (const char *at = data; size;) {
    ssize_t n = write(file, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      if (n == 0) errno = ENOSPC;
      return false;
    }
    at += n;
    size -= (size_t)n;
  }
  return true;
}

static bool write_file(const char *path, const Header *header, GBytes *content)
{
  gsize size = 0;
  const void *data = g_bytes_get_data(content, &size);
  int file = g_open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return false;
  bool ok = write_all(file, header, sizeof *header) && write_all(file, data, size);
  int reason = errno;
  if (close(file) && ok) {
    reason = errno;
    ok = false;
  }
  if (!ok) g_unlink(path);
  errno = reason;
  return ok;
}

static bool may_write(Cache *cache)
{
  g_mutex_lock(&cache->lock);
  bool may = cache->folder && !cache->read_only;
  g_mutex_unlock(&cache->lock);
  return may;
}

static void prune(Cache *cache);

void cache_put(Cache *cache, const char *key, GBytes *content)
{
  if (!may_write(cache)) return;
  gsize size = 0;
  const void *data = g_bytes_get_data(content, &size);
  Header header;
  fill_header(&header, key, data, size);
  g_autofree char *suffix =
      g_strdup_printf(".%d-%p-%08x" ASIDE, (int)getpid(), (void *)&header, g_random_int());
  g_autofree char *path = path_of(cache, key, SUFFIX), *aside = path_of(cache, key, suffix);
  g_autofree char *folder = g_path_get_dirname(path);
  if (g_mkdir_with_parents(folder, 0700)) {
    warn(cache, "make", folder, errno);
    return;
  }
  if (!write_file(aside, &header, content)) {
    warn(cache, "write", aside, errno);
    return;
  }
  if (g_rename(aside, path)) {
    warn(cache, "write", path, errno);
    g_unlink(aside);
    return;
  }
  g_mutex_lock(&cache->lock);
  bool look = ++cache->writes % WRITES_PER_PRUNE == 0;
  g_mutex_unlock(&cache->lock);
  if (look) prune(cache);
}

void cache_remove(Cache *cache, const char *key)
{
  if (!may_write(cache)) return;
  g_autofree char *path = path_of(cache, key, SUFFIX);
  g_unlink(path);
}

void cache_close(Cache *cache)
{
  if (!cache) return;
  if (cache->writes % WRITES_PER_PRUNE) prune(cache);
  g_mutex_clear(&cache->lock);
  g_free(cache->folder);
  g_free(cache->warning);
  g_free(cache);
}

/* ---- the folder as a whole ---- */

typedef struct Entry {
  char *path;
  uint64_t bytes;
  struct timespec used;
  bool aside;
} Entry;

static void entry_free(void *memory)
{
  Entry *entry = memory;
  g_free(entry->path);
  g_free(entry);
}

/* Is the name one that this file gave, in a folder of two digits? */
static bool is_hexadecimal(const char *text, size_t length)
{
  size_t n = strspn(text, "0123456789abcdef");
  return n >= length;
}

static void add_entry(GPtrArray *entries, const char *folder, const char *name)
{
  bool aside = g_str_has_suffix(name, ASIDE);
  if (!is_hexadecimal(name, CACHE_KEY_LENGTH - 2) || (!aside && !g_str_has_suffix(name, SUFFIX))) return;
  char *path = g_build_filename(folder, name, NULL);
  struct stat status;
  if (lstat(path, &status) || !S_ISREG(status.st_mode)) {
    g_free(path);
    return;
  }
  Entry *entry = g_new0(Entry, 1);
  *entry = (Entry){path, (uint64_t)status.st_size, status.st_mtim, aside};
  g_ptr_array_add(entries, entry);
}

/* Every entry (Entry *). */
static GPtrArray *list_entries(const Cache *cache)
{
  GPtrArray *entries = g_ptr_array_new_with_free_func(entry_free);
  g_autoptr(GDir) top = cache->folder ? g_dir_open(cache->folder, 0, NULL) : NULL;
  for (const char *name; top && (name = g_dir_read_name(top));) {
    if (strlen(name) != 2 || !is_hexadecimal(name, 2)) continue;
    g_autofree char *folder = g_build_filename(cache->folder, name, NULL);
    g_autoptr(GDir) inner = g_dir_open(folder, 0, NULL);
    for (const char *file; inner && (file = g_dir_read_name(inner));)
      add_entry(entries, folder, file);
  }
  return entries;
}

static int compare_use(const void *a, const void *b)
{
  const Entry *x = *(Entry *const *)a, *y = *(Entry *const *)b;
  if (x->used.tv_sec != y->used.tv_sec) return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
  return (x->used.tv_nsec > y->used.tv_nsec) - (x->used.tv_nsec < y->used.tv_nsec);
}

static void prune(Cache *cache)
{
  g_autoptr(GPtrArray) entries = list_entries(cache);
  uint64_t bytes = 0;
  gint64 now = g_get_real_time() / G_USEC_PER_SEC;
  for (guint i = 0; i < entries->len; i++) {
    const Entry *entry = entries->pdata[i];
    if (entry->aside && now - entry->used.tv_sec > ABANDONED) g_unlink(entry->path);
    if (!entry->aside) bytes += entry->bytes;
  }
  if (bytes <= cache->limit) return;
  qsort(entries->pdata, entries->len, sizeof(void *), compare_use);
  for (guint i = 0; i < entries->len && bytes > KEPT(cache->limit); i++) {
    const Entry *entry = entries->pdata[i];
    if (entry->aside) continue;
    /* Another process may have been quicker; a reader that has it open keeps it. */
    g_unlink(entry->path);
    bytes -= entry->bytes;
  }
}

CacheUsage cache_usage(Cache *cache)
{
  g_autoptr(GPtrArray) entries = list_entries(cache);
  CacheUsage usage = {0, 0};
  for (guint i = 0; i < entries->len; i++) {
    const Entry *entry = entries->pdata[i];
    usage.entries += !entry->aside;
    usage.bytes += entry->bytes;
  }
  return usage;
}

bool cache_clear(Cache *cache, CacheUsage *removed, GError **error)
{
  g_autoptr(GPtrArray) entries = list_entries(cache);
  CacheUsage usage = {0, 0};
  for (guint i = 0; i < entries->len; i++) {
    const Entry *entry = entries->pdata[i];
    if (g_unlink(entry->path) && errno != ENOENT) {
      error_set(error, ERROR_INPUT, NULL, "unwritable", NULL, "cannot remove %s: %s", entry->path,
                g_strerror(errno));
      return false;
    }
    usage.entries += !entry->aside;
    usage.bytes += entry->bytes;
  }
  if (removed) *removed = usage;
  return true;
}
