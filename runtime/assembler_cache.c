/* What assemblers said and made, in the cache. */
#include "runtime/assembler_private.h"
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>

/* ---- the tool ---- */

static bool tool_key(const Assembler *assembler, char key[CACHE_KEY_LENGTH + 1])
{
  struct stat status;
  if (stat(assembler->path, &status)) return false;
  g_autofree char *identity = g_strdup_printf(
      "%" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT " %" G_GINT64_FORMAT ".%09ld", (uint64_t)status.st_ino,
      (uint64_t)status.st_size, (int64_t)status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
  cache_key(key, "tool version", assembler->path, identity, NULL);
  return true;
}

bool tool_recall(Cache *cache, Assembler *assembler)
{
  char key[CACHE_KEY_LENGTH + 1];
  g_autoptr(GBytes) content = cache && tool_key(assembler, key) ? cache_get(cache, key) : NULL;
  if (!content) return false;
  gsize size = 0;
  const char *data = g_bytes_get_data(content, &size);
  if (!size) return false;
  assembler->version = g_strndup(data, size);
  return true;
}

void tool_remember(Cache *cache, const Assembler *assembler)
{
  char key[CACHE_KEY_LENGTH + 1];
  if (!cache || !tool_key(assembler, key)) return;
  g_autoptr(GBytes) content = g_bytes_new(assembler->version, strlen(assembler->version));
  cache_put(cache, key, content);
}

/* ---- machine code ---- */

static void assembly_key(const Assembler *assembler, const char *hash, const char *target,
                         char key[CACHE_KEY_LENGTH + 1])
{
  cache_key(key, "cubin", assembler->tool, assembler->version, target, hash, NULL);
}

void ptx_hash(const char *ptx, char hash[CACHE_KEY_LENGTH + 1])
{
  cache_key(hash, "ptx", ptx, NULL);
}

static void text_key(const char *hash, char key[CACHE_KEY_LENGTH + 1])
{
  cache_key(key, "text", hash, NULL);
}

void ptx_remember(const Assembler *assembler, const char *hash, const char *ptx)
{
  char key[CACHE_KEY_LENGTH + 1];
  text_key(hash, key);
  g_autoptr(GBytes) content = g_bytes_new_static(ptx, strlen(ptx));
  if (assembler->cache) cache_put(assembler->cache, key, content);
}

char *ptx_recall(const Assembler *assembler, const char *hash)
{
  char key[CACHE_KEY_LENGTH + 1];
  text_key(hash, key);
  g_autoptr(GBytes) content = assembler->cache ? cache_get(assembler->cache, key) : NULL;
  gsize size = 0;
  const char *text = content ? g_bytes_get_data(content, &size) : NULL;
  return text ? g_strndup(text, size) : NULL;
}

/* An entry is the length of the log as eight bytes, the log, the cubin. */
Assembly *assembly_recall(const Assembler *assembler, const char *hash, const char *target)
{
  char key[CACHE_KEY_LENGTH + 1];
  assembly_key(assembler, hash, target, key);
  g_autoptr(GBytes) content = assembler->cache ? cache_get(assembler->cache, key) : NULL;
  if (!content) return NULL;
  gsize size = 0;
  const char *data = g_bytes_get_data(content, &size);
  uint64_t log = 0;
  if (size < sizeof log) return NULL;
  memcpy(&log, data, sizeof log);
  if (log > size - sizeof log) return NULL;
  gsize start = sizeof log + (gsize)log;
  Assembly *assembly =
      assembly_new(g_bytes_new(data + start, size - start), g_strndup(data + sizeof log, (gsize)log));
  assembly->recalled = true;
  return assembly;
}

void assembly_remember(const Assembler *assembler, const char *hash, const char *target,
                       const Assembly *assembly)
{
  if (!assembler->cache) return;
  char key[CACHE_KEY_LENGTH + 1];
  assembly_key(assembler, hash, target, key);
  uint64_t log = strlen(assembly->log);
  g_autoptr(GByteArray) bytes = g_byte_array_new();
  gsize size = 0;
  const guint8 *cubin = g_bytes_get_data(assembly->cubin, &size);
  g_byte_array_append(bytes, (const guint8 *)&log, sizeof log);
  g_byte_array_append(bytes, (const guint8 *)assembly->log, (guint)log);
  g_byte_array_append(bytes, cubin, (guint)size);
  g_autoptr(GBytes) content = g_bytes_new(bytes->data, bytes->len);
  cache_put(assembler->cache, key, content);
  text_key(hash, key);
  cache_remove(assembler->cache, key);
}
