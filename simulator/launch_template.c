/* A launch file to start from, made of what an entry declares. */
#include "simulator/ptx.h"
#include "simulator/simulator.h"
#include <string.h>

#define GUESSED_THREADS  128
#define GUESSED_SHARED   16384
#define GUESSED_ELEMENTS 4096

static const PtxFunction *choose_entry(const PtxModule *module, const char *name, GError **error)
{
  const PtxFunction *found = NULL;
  g_autoptr(GString) names = g_string_new("entries:");
  unsigned n = 0;
  for (unsigned i = 0; i < module->n_functions; i++) {
    const PtxFunction *f = module->functions[i];
    if (!f->is_entry || !f->has_body) continue;
    g_string_append_printf(names, " %s", f->name);
    n++;
    if (!name || !strcmp(name, f->name)) found = f;
  }
  if (found && (name || n == 1)) return found;
  const Mark mark = {module->source, 1, 1};
  error_set(error, ERROR_INPUT, &mark, "ptx-entry", n ? names->str : NULL,
            name ? "there is no entry '%s'" : "%s",
            name ? name
            : n  ? "there are several entries; --entry names one"
                 : "there is no entry");
  return NULL;
}

static json_t *dims(const unsigned *sizes, unsigned otherwise)
{
  bool given = sizes && sizes[0];
  return json_pack("[i,i,i]", given ? (int)sizes[0] : (int)otherwise, given ? (int)MAX(sizes[1], 1) : 1,
                   given ? (int)MAX(sizes[2], 1) : 1);
}

static bool has_dynamic_shared(const PtxModule *module)
{
  for (unsigned i = 0; i < module->n_variables; i++)
    if (module->variables[i]->space == SPACE_SHARED && module->variables[i]->is_extern) return true;
  return false;
}

/* A tensor map of 128 bytes over a buffer of its own. */
static json_t *tensormap_argument(const char *name, json_t *buffers, json_t *maps)
{
  g_autofree char *buffer = g_strdup_printf("%s_data", name);
  json_object_set_new(buffers, buffer,
                      json_pack("{s:s, s:[i,i], s:s}", "type", "bf16", "shape", 64, 64, "fill", "random"));
  json_object_set_new(maps, name,
                      json_pack("{s:s, s:s, s:[i,i], s:[i], s:[i,i], s:i, s:s}", "buffer", buffer, "type",
                                "bf16", "dims", 64, 64, "strides", 128, "box", 64, 64, "swizzle", 128, "oob",
                                "zero"));
  return json_pack("{s:s}", "tensormap", name);
}

static json_t *bytes_argument(uint64_t n)
{
  json_t *bytes = json_array();
  for (uint64_t i = 0; i < n; i++)
    json_array_append_new(bytes, json_integer(0));
  return json_pack("{s:o}", "bytes", bytes);
}

static json_t *argument(const PtxSymbol *p, json_t *buffers, json_t *maps)
{
  bool is_array = p->bytes != ptx_type_bytes(p->type);
  bool is_pointer = p->bytes == 8 && !is_array && (p->type == TYPE_U64 || p->type == TYPE_B64);
  if (p->bytes == 128 && p->align >= 64) return tensormap_argument(p->name, buffers, maps);
  if (is_pointer) {
    json_object_set_new(
        buffers, p->name,
        json_pack("{s:s, s:[i], s:s}", "type", "f32", "shape", GUESSED_ELEMENTS, "fill", "random"));
    return json_pack("{s:s}", "buffer", p->name);
  }
  if (!is_array && p->type == TYPE_F32) return json_pack("{s:f}", "f32", 1.0);
  if (!is_array && p->type == TYPE_S32) return json_pack("{s:i}", "s32", 1);
  if (!is_array && (p->type == TYPE_U32 || p->type == TYPE_B32)) return json_pack("{s:i}", "u32", 1);
  return bytes_argument(p->bytes);
}

json_t *sim_launch_template(const SimModule *module, const char *entry, GError **error)
{
  const PtxFunction *f = choose_entry(module, entry, error);
  if (!f) return NULL;
  json_t *args = json_array(), *buffers = json_object(), *maps = json_object();
  for (unsigned i = 0; i < f->n_parameters; i++)
    json_array_append_new(args, argument(f->parameters[i], buffers, maps));
  json_t *launch =
      json_pack("{s:i, s:s, s:o, s:o}", "version", 1, "entry", f->name, "grid", dims(f->cluster, 1), "block",
                dims(f->required_threads[0] ? f->required_threads : f->max_threads, GUESSED_THREADS));
  if (f->cluster[0]) json_object_set_new(launch, "cluster", dims(f->cluster, 1));
  if (has_dynamic_shared(module)) json_object_set_new(launch, "shared", json_integer(GUESSED_SHARED));
  json_object_set_new(launch, "args", args);
  json_object_set_new(launch, "buffers", buffers);
  if (json_object_size(maps))
    json_object_set_new(launch, "tensormaps", maps);
  else
    json_decref(maps);
  return launch;
}
