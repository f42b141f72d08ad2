/* A folder of results that cost time to make, found again by a hash of everything they were made from.
 *
 * An entry is a file named by its key that holds a checksum of its content, so one that was cut off or
 * altered is noticed, removed and made anew. It is written aside and renamed, so several processes may fill
 * one folder. When the folder outgrows its limit the entries used longest ago are removed. Nothing here is an
 * error: where the folder cannot be read or written there is no cache, and cache_warning() says why.
 * Thread-safe.
 *
 * Whoever can write to the folder decides what code is run: it is made readable by its owner only. */
#pragma once
#include "base/diagnostic.h"
#include <stdint.h>

#define CACHE_KEY_LENGTH 64 /* hexadecimal digits */

typedef struct Cache Cache;

/* folder NULL: $ADLGEN_CACHE_DIR, else $XDG_CACHE_HOME/adlgen, else $HOME/.cache/adlgen; "": no cache. It is
 * made when the first entry is written. limit in bytes, 0: $ADLGEN_CACHE_LIMIT in MiB, else 1 GiB. Never
 * NULL. */
Cache *cache_open(const char *folder, uint64_t limit);
/* Removes what is over the limit, if anything was written. */
void cache_close(Cache *cache);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Cache, cache_close)

/* The key of an entry: SHA-256 over the texts, NULL-terminated, and over where each ends. */
void cache_key(char key[CACHE_KEY_LENGTH + 1], const char *kind, ...) G_GNUC_NULL_TERMINATED;

GBytes *cache_get(Cache *cache, const char *key); /* NULL: there is none */
void cache_put(Cache *cache, const char *key, GBytes *content);
void cache_remove(Cache *cache, const char *key); /* if it is there */

/* Where the entries are; NULL: nowhere. */
const char *cache_folder(const Cache *cache);
uint64_t cache_limit(const Cache *cache); /* bytes */
/* The first thing that went wrong, for people; NULL: nothing. Lives as long as the cache. */
const char *cache_warning(Cache *cache);

typedef struct CacheUsage {
  uint64_t entries, bytes;
} CacheUsage;
CacheUsage cache_usage(Cache *cache);
/* Removes every entry, and nothing else: files of other names stay. ERROR_INPUT "unwritable" if one could not
 * be removed. removed (may be NULL): what was. */
bool cache_clear(Cache *cache, CacheUsage *removed, GError **error);
