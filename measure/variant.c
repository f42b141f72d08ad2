/* --variant: a way to compile a case, in words. */
#include "measure/bench.h"
#include <string.h>

static bool refuse(const char *text, const char *what, GError **error)
{
  error_set(error, ERROR_USAGE, NULL, "bad-variant",
            "NAME:key=value,... with the keys gpu, plan, sms, fixed, tuned, skip, or template parameters "
            "such as bm",
            "--variant %s: %s", text, what);
  return false;
}

static bool read_number(const char *text, const char *value, unsigned *number, GError **error)
{
  guint64 wide = 0;
  if (!g_ascii_string_to_unsigned(value, 10, 0, G_MAXUINT32, &wide, NULL))
    return refuse(text, "a number is wanted", error);
  *number = (unsigned)wide;
  return true;
}

static bool read_pair(BenchVariant *variant, GStrvBuilder *sets, GStrvBuilder *skips, const char *text,
                      const char *pair, GError **error)
{
  const char *sign = strchr(pair, '=');
  if (!sign || sign == pair || !sign[1]) return refuse(text, "what is not key=value", error);
  g_autofree char *key = g_strndup(pair, (gsize)(sign - pair));
  unsigned flag = 0;
  if (!strcmp(key, "gpu")) {
    g_free(variant->gpu);
    variant->gpu = g_strdup(sign + 1);
  } else if (!strcmp(key, "plan")) {
    g_free(variant->plan);
    variant->plan = g_strdup(sign + 1);
  } else if (!strcmp(key, "skip")) {
    g_strv_builder_add(skips, sign + 1);
  } else if (!strcmp(key, "sms")) {
    return read_number(text, sign + 1, &variant->sms, error);
  } else if (!strcmp(key, "fixed")) {
    if (!read_number(text, sign + 1, &flag, error)) return false;
    variant->fixed = flag != 0;
  } else if (!strcmp(key, "tuned")) {
    if (!read_number(text, sign + 1, &flag, error)) return false;
    variant->untuned = !flag;
  } else {
    g_strv_builder_add(sets, pair);
  }
  return true;
}

BenchVariant *bench_variant_parse(const char *text, GError **error)
{
  g_autoptr(BenchVariant) variant = g_new0(BenchVariant, 1);
  g_autoptr(GStrvBuilder) sets = g_strv_builder_new(), skips = g_strv_builder_new();
  const char *colon = strchr(text, ':'), *sign = strchr(text, '=');
  bool named = colon && (!sign || colon < sign);
  const char *rest = named ? colon + 1 : text;
  variant->name = named ? g_strndup(text, (gsize)(colon - text)) : g_strdup(text);
  if (!*variant->name) {
    refuse(text, "it has no name", error);
    return NULL;
  }
  g_auto(GStrv) pairs = g_strsplit(rest, ",", -1);
  for (unsigned i = 0; pairs[i]; i++)
    if (!read_pair(variant, sets, skips, text, pairs[i], error)) return NULL;
  variant->sets = g_strv_builder_end(sets);
  variant->skips = g_strv_builder_end(skips);
  if (variant->plan && (variant->gpu || variant->sms || variant->fixed || variant->untuned ||
                        variant->sets[0] || variant->skips[0])) {
    refuse(text, "plan=DIR is compiled already, so nothing else can be set", error);
    return NULL;
  }
  return g_steal_pointer(&variant);
}

void bench_variant_free(BenchVariant *variant)
{
  if (!variant) return;
  g_free(variant->name);
  g_free(variant->gpu);
  g_free(variant->plan);
  g_strfreev(variant->sets);
  g_strfreev(variant->skips);
  g_free(variant);
}
