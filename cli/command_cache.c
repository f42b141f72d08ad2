/* adlgen cache: where it is, how large it is, and emptying it. */
#include "cli/cli.h"
#include "runtime/cache.h"
#include <string.h>

static json_t *usage_json(const Cache *cache, CacheUsage usage)
{
  return json_pack("{s:i, s:s?, s:I, s:I, s:I}", "version", 1, "folder", cache_folder(cache), "entries",
                   (json_int_t)usage.entries, "bytes", (json_int_t)usage.bytes, "limit",
                   (json_int_t)cache_limit(cache));
}

static bool clear(const Cli *cli, Cache *cache, GError **error)
{
  CacheUsage removed = {0, 0};
  if (!cache_clear(cache, &removed, error)) return false;
  if (cli->json)
    cli_print_json(usage_json(cache, removed));
  else
    printf("removed %" G_GUINT64_FORMAT " entries, %" G_GUINT64_FORMAT " bytes\n", removed.entries,
           removed.bytes);
  return true;
}

static void show(const Cli *cli, Cache *cache)
{
  CacheUsage usage = cache_usage(cache);
  if (cli->json)
    cli_print_json(usage_json(cache, usage));
  else
    printf("%s: %" G_GUINT64_FORMAT " entries, %.1f MiB of at most %.0f MiB\n", cache_folder(cache),
           usage.entries, (double)usage.bytes / (1 << 20), (double)cache_limit(cache) / (1 << 20));
}

bool command_cache(const Cli *cli, const Arguments *arguments, GError **error)
{
  const char *action = argument_action(arguments);
  g_autoptr(Cache) cache = cache_open(NULL, 0);
  if (!cache_folder(cache)) {
    error_set(error, ERROR_INPUT, NULL, "no-cache", "set one of them", "%s", cache_warning(cache));
    return false;
  }
  if (cache_warning(cache)) fprintf(stderr, "warning: %s\n", cache_warning(cache));
  if (action && !strcmp(action, "clear")) return clear(cli, cache, error);
  if (action && !strcmp(action, "path") && !cli->json)
    puts(cache_folder(cache));
  else
    show(cli, cache);
  return true;
}
