/* An entry is a line of JSON, {plan, explain: length of its text, kernels: [row, ...], files}, and the texts behind it one after the
 * other: plan, explanation, then text and pseudo-assembly of each kernel. A text that was not wanted has the length -1. */
#include "execute/keep_result.h"
#include "execute/program_key.h"
#include "runtime/assembler.h"
#include <string.h>

/* ---- writing ---- */

static json_int_t add_text(GByteArray *bytes, const char *text)
{
  if (!text) return -1;
  size_t length = strlen(text);
  g_byte_array_append(bytes, (const guint8 *)text, (guint)length);
  return (json_int_t)length;
}

/* Strings that are absent are null. */
static json_t *kernel_row(const CompiledKernel *kernel, GByteArray *texts)
{
  json_int_t text = add_text(texts, kernel->text), ir = add_text(texts, kernel->ir);
  char hash[CACHE_KEY_LENGTH + 1];
  ptx_hash(kernel->text, hash);
  return json_pack("[s,s,s,s?,s?,s?,s?,i,i,i,i,i,I,b,b,I,I,s]", kernel->name, kernel->entry,
                   kernel->backend->name, kernel->template_name, kernel->tile_text, kernel->mechanism,
                   kernel->roles, (int)kernel->stages, (int)kernel->threads, (int)kernel->cluster,
                   (int)kernel->shared_bytes, (int)kernel->predicted_registers,
                   (json_int_t)kernel->arena_bytes, kernel->waits, kernel->together, text, ir, hash);
}

void result_keep(Cache *cache, const char *key, const CompileResult *result, const json_t *files)
{
  g_autoptr(GByteArray) texts = g_byte_array_new();
  g_autofree char *plan = plan_text(result->plan);
  json_int_t plan_length = add_text(texts, plan), explain_length = add_text(texts, result->explain);
  json_t *kernels = json_array();
  for (guint i = 0; i < result->kernels->len; i++)
    json_array_append_new(kernels, kernel_row(result->kernels->pdata[i], texts));
  json_t *head = json_pack("{s:I, s:I, s:o, s:O}", "plan", plan_length, "explain", explain_length, "kernels",
                           kernels, "files", files);
  g_autofree char *line = json_dumps(head, JSON_COMPACT);
  json_decref(head);
  g_autoptr(GByteArray) entry = g_byte_array_new();
  add_text(entry, line);
  add_text(entry, "\n");
  g_byte_array_append(entry, texts->data, texts->len);
  g_autoptr(GBytes) content = g_byte_array_free_to_bytes(g_steal_pointer(&entry));
  cache_put(cache, key, content);
}

/* ---- reading ---- */

typedef struct Texts {
  const char *at;
  size_t left;
} Texts;

/* false: there are not so many bytes. */
static bool take_text(Texts *texts, json_int_t length, char **text)
{
  *text = NULL;
  if (length < 0) return true;
  if ((size_t)length > texts->left) return false;
  *text = g_strndup(texts->at, (size_t)length);
  texts->at += length;
  texts->left -= (size_t)length;
  return true;
}

static const Backend *find_backend(const char *name)
{
  const Backend *backend = backends;
  while (backend->name && strcmp(backend->name, name))
    backend++;
  return backend->name ? backend : NULL;
}

static bool read_kernel(json_t *row, Texts *texts, CompiledKernel *kernel)
{
  const char *name, *entry, *backend, *hash;
  json_t *template_name, *tile, *mechanism, *roles;
  int stages, threads, cluster, shared, registers, waits, together;
  json_int_t arena, text, ir;
  if (json_unpack(row, "[s,s,s,o,o,o,o,i,i,i,i,i,I,b,b,I,I,s]", &name, &entry, &backend, &template_name,
                  &tile, &mechanism, &roles, &stages, &threads, &cluster, &shared, &registers, &arena, &waits,
                  &together, &text, &ir, &hash))
    return false;
  *kernel = (CompiledKernel){.name = g_strdup(name),
                             .entry = g_strdup(entry),
                             .backend = find_backend(backend),
                             .text_hash = g_strdup(hash),
                             .template_name = g_strdup(json_string_value(template_name)),
                             .tile_text = g_strdup(json_string_value(tile)),
                             .mechanism = g_strdup(json_string_value(mechanism)),
                             .roles = g_strdup(json_string_value(roles)),
                             .stages = (unsigned)stages,
                             .threads = (unsigned)threads,
                             .cluster = (unsigned)cluster,
                             .shared_bytes = (unsigned)shared,
                             .predicted_registers = (unsigned)registers,
                             .arena_bytes = (size_t)arena,
                             .waits = waits,
                             .together = together};
  return kernel->backend && take_text(texts, text, &kernel->text) && kernel->text &&
         take_text(texts, ir, &kernel->ir);
}

static void kernel_destroy(void *kernel)
{
  compiled_kernel_free(kernel);
}

static bool read_result(json_t *head, Texts *texts, CompileResult *result)
{
  json_int_t plan_length, explain_length;
  json_t *kernels, *files;
  g_autofree char *plan = NULL;
  if (json_unpack(head, "{s:I, s:I, s:o, s:o}", "plan", &plan_length, "explain", &explain_length, "kernels",
                  &kernels, "files", &files) ||
      !program_files_same(files) || !take_text(texts, plan_length, &plan) || !plan ||
      !take_text(texts, explain_length, &result->explain))
    return false;
  for (size_t i = 0; i < json_array_size(kernels); i++) {
    CompiledKernel *kernel = g_new0(CompiledKernel, 1);
    g_ptr_array_add(result->kernels, kernel);
    if (!read_kernel(json_array_get(kernels, i), texts, kernel)) return false;
  }
  g_autoptr(Source) source = source_new("<cache>/plan.json", plan, strlen(plan));
  result->plan = plan_read(source, NULL);
  return result->plan != NULL;
}

CompileResult *result_recall(Cache *cache, const char *key)
{
  g_autoptr(GBytes) content = cache_get(cache, key);
  gsize size = 0;
  const char *data = content ? g_bytes_get_data(content, &size) : NULL;
  const char *end = data ? memchr(data, '\n', size) : NULL;
  if (!end) return NULL;
  json_t *head = json_loadb(data, (size_t)(end - data), 0, NULL);
  Texts texts = {end + 1, size - (size_t)(end + 1 - data)};
  g_autoptr(CompileResult) result = g_new0(CompileResult, 1);
  result->kernels = g_ptr_array_new_with_free_func(kernel_destroy);
  bool ok = read_result(head, &texts, result);
  json_decref(head);
  return ok ? g_steal_pointer(&result) : NULL;
}
