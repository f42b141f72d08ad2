/* Breaks: which instructions, whose warp, what is kept of each stop. */
#include "simulator/observe.h"
#include "simulator/watch.h"
#include <stdlib.h>
#include <string.h>

struct Stops {
  GArray *breaks;  /* Break */
  GArray *watches; /* Watch */
  bool has_warp;
  uint32_t block[3], warp;
  json_t *list;
};

static bool usage(GError **error, const char *code, const char *hint, const char *format, ...)
    G_GNUC_PRINTF(4, 5);
static bool usage(GError **error, const char *code, const char *hint, const char *format, ...)
{
  va_list list;
  va_start(list, format);
  g_autofree char *text = g_strdup_vprintf(format, list);
  va_end(list);
  error_set(error, ERROR_USAGE, NULL, code, hint, "%s", text);
  return false;
}

static const char *base_name(const char *path)
{
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* --- what is asked for --- */

bool sim_break_parse(const char *text, char **file, unsigned *line, GError **error)
{
  const char *colon = strrchr(text, ':'), *number = colon ? colon + 1 : text;
  char *end = NULL;
  guint64 value = g_ascii_strtoull(number, &end, 10);
  if (!g_ascii_isdigit(*number) || *end || value < 1 || value > G_MAXINT)
    return usage(error, "bad-break", "such as kernel.ptx:120", "--break %s: no line", text);
  *file = colon ? g_strndup(text, (gsize)(colon - text)) : NULL;
  *line = (unsigned)value;
  return true;
}

static bool parse_warp(Stops *stops, const char *text, GError **error)
{
  if (!text) return true;
  g_auto(GStrv) halves = g_strsplit(text, ":", -1);
  g_auto(GStrv) block = g_strsplit(halves[0] ? halves[0] : "", ",", -1);
  unsigned n = g_strv_length(block);
  bool ok = g_strv_length(halves) == 2 && n >= 1 && n <= 3;
  for (unsigned i = 0; ok && i <= n; i++) {
    const char *number = i < n ? block[i] : halves[1];
    char *end = NULL;
    guint64 value = g_ascii_strtoull(number, &end, 10);
    ok = g_ascii_isdigit(*number) && !*end && value <= G_MAXUINT32;
    *(i < n ? &stops->block[i] : &stops->warp) = (uint32_t)value;
  }
  stops->has_warp = true;
  return ok || usage(error, "bad-warp", "BLOCK:WARP, such as 0:3, or 1,2,0:3 for block (1,2,0)",
                     "--warp %s: no block and warp", text);
}

/* The first line at or behind the one asked for that has an instruction; 0: there is none. */
static unsigned line_with_code(const Kernel *kernel, unsigned line)
{
  unsigned found = 0;
  for (uint32_t i = 0; i < kernel->n_code; i++) {
    unsigned at = kernel->code[i].source ? kernel->code[i].source->mark.line : 0;
    if (at >= line && (!found || at < found)) found = at;
  }
  return found;
}

static bool add_break(Stops *stops, const Kernel *kernel, const char *text, GError **error)
{
  g_autofree char *file = NULL;
  Break b = {.text = text};
  if (!sim_break_parse(text, &file, &b.line, error)) return false;
  if (file && strcmp(base_name(file), base_name(kernel->module->source->name)) != 0) return true;
  unsigned line = line_with_code(kernel, b.line);
  if (!line)
    return usage(error, "bad-break", NULL, "--break %s: %s has no instruction at or behind line %u", text,
                 kernel->function->name, b.line);
  b.line = line;
  g_array_append_val(stops->breaks, b);
  return true;
}

Stops *stops_new(const Run *run, const Kernel *kernel, GError **error)
{
  const SimOptions *options = run->options;
  Stops *stops = g_new0(Stops, 1);
  stops->breaks = g_array_new(FALSE, FALSE, sizeof(Break));
  stops->watches = g_array_new(FALSE, FALSE, sizeof(Watch));
  g_array_set_clear_func(stops->watches, watch_clear);
  stops->list = json_array();
  bool ok = parse_warp(stops, options->warp, error);
  for (const char *const *text = options->breaks; ok && *text; text++)
    ok = add_break(stops, kernel, *text, error);
  for (const char *const *text = options->watches; ok && stops->breaks->len && text && *text; text++) {
    Watch watch;
    ok = watch_parse(run, kernel, *text, &watch, error);
    g_array_append_val(stops->watches, watch);
  }
  if (ok) return stops;
  stops_free(stops);
  return NULL;
}

void stops_free(Stops *stops)
{
  if (!stops) return;
  g_array_free(stops->breaks, TRUE);
  g_array_free(stops->watches, TRUE);
  json_decref(stops->list);
  g_free(stops);
}

int stops_find(const Stops *stops, const Inst *in)
{
  for (guint i = 0; in->source && i < stops->breaks->len; i++)
    if (g_array_index(stops->breaks, Break, i).line == in->source->mark.line) return (int)i;
  return -1;
}

/* --- a stop --- */

static bool is_chosen(const Stops *stops, Break *b, const Warp *w)
{
  if (!b->chosen) {
    memcpy(b->block, stops->has_warp ? stops->block : w->block->id, sizeof b->block);
    b->warp = stops->has_warp ? stops->warp : w->id;
    b->chosen = true;
  }
  return b->warp == w->id && !memcmp(b->block, w->block->id, sizeof b->block);
}

static json_t *values(const Stops *stops, const Warp *w, const Inst *in, unsigned lane)
{
  json_t *list = json_array();
  for (guint i = 0; i < stops->watches->len; i++)
    json_array_append_new(list, watch_value(&g_array_index(stops->watches, Watch, i), w, lane));
  if (stops->watches->len) return list;
  Watch own = {.text = "registers of the instruction",
               .registers = g_array_new(FALSE, FALSE, sizeof(WatchRegister))};
  watch_registers_of(w->block->cluster->run->kernel, in->source, own.registers);
  json_array_append_new(list, watch_value(&own, w, lane));
  watch_clear(&own);
  return list;
}

void stops_see(Stops *stops, unsigned which, Warp *w, const Inst *in, uint32_t mask)
{
  Run *run = w->block->cluster->run;
  Break *b = &g_array_index(stops->breaks, Break, which);
  g_mutex_lock(&run->session->lock);
  if (is_chosen(stops, b, w)) {
    b->hits++;
    if (!run->options->hits || b->hits <= run->options->hits) {
      json_t *stop = json_pack("{s:s, s:i, s:s, s:I, s:[i,i,i], s:i, s:I, s:o}", "file",
                               base_name(run->kernel->module->source->name), "line", (int)b->line,
                               "instruction", in->source->text, "hit", (json_int_t)b->hits, "block",
                               (int)b->block[0], (int)b->block[1], (int)b->block[2], "warp", (int)b->warp,
                               "lanes", (json_int_t)mask, "values", values(stops, w, in, first_lane(mask)));
      if (run->name) json_object_set_new(stop, "launch", json_string(run->name));
      json_array_append_new(stops->list, stop);
    }
  }
  g_mutex_unlock(&run->session->lock);
}

void stops_result(const Stops *stops, SimResult *result)
{
  if (!result->breaks) {
    result->breaks = json_array();
    result->stops = json_array();
  }
  for (guint i = 0; i < stops->breaks->len; i++) {
    const Break *b = &g_array_index(stops->breaks, Break, i);
    json_array_append_new(result->breaks, json_pack("{s:s, s:i, s:I}", "break", b->text, "line", (int)b->line,
                                                    "hits", (json_int_t)b->hits));
  }
  json_array_extend(result->stops, stops->list);
}
