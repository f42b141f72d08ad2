/* See keep_launch.h. */
#include "execute/keep_launch.h"

static json_t *numbers(const uint64_t *v, unsigned n)
{
  json_t *list = json_array();
  for (unsigned i = 0; i < n; i++)
    json_array_append_new(list, json_integer((json_int_t)v[i]));
  return list;
}

static json_t *small_numbers(const unsigned *v, unsigned n)
{
  json_t *list = json_array();
  for (unsigned i = 0; i < n; i++)
    json_array_append_new(list, json_integer(v[i]));
  return list;
}

static json_t *map_json(const SimLaunch *launch, const SimTensorMap *map)
{
  return json_pack("{s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:i, s:s}", "buffer",
                   launch->buffers[map->buffer].name, "type", number_name(map->type), "offset",
                   (json_int_t)map->buffer_offset, "dims", numbers(map->dims, map->rank), "strides",
                   numbers(map->strides, map->rank - 1), "box", small_numbers(map->box, map->rank),
                   "element_strides", small_numbers(map->element_strides, map->rank), "swizzle",
                   (int)map->swizzle, "oob", map->fill_nan ? "nan" : "zero");
}

static json_t *argument_json(const SimLaunch *launch, const SimArgument *argument)
{
  if (argument->kind == SIM_ARG_TENSORMAP)
    return json_pack("{s:s}", "tensormap", launch->tensormaps[argument->index].name);
  if (argument->kind == SIM_ARG_BYTES) {
    json_t *list = json_array();
    for (unsigned i = 0; i < argument->n_bytes; i++)
      json_array_append_new(list, json_integer(argument->bytes[i]));
    return json_pack("{s:o}", "bytes", list);
  }
  json_t *object = json_pack("{s:s}", "buffer", launch->buffers[argument->index].name);
  if (argument->offset) json_object_set_new(object, "offset", json_integer((json_int_t)argument->offset));
  return object;
}

static bool keep_buffers(Output *output, const char *name, const SimLaunch *launch, json_t *buffers,
                         json_t *outputs, GError **error)
{
  for (unsigned i = 0; i < launch->n_buffers; i++) {
    const SimBuffer *b = &launch->buffers[i];
    json_t *object = json_pack("{s:I, s:I}", "bytes", (json_int_t)b->bytes, "offset", (json_int_t)b->offset);
    json_object_set_new(buffers, b->name, object);
    if (b->undefined)
      json_object_set_new(object, "written", json_string(b->written == SIM_WRITTEN_WHOLE ? "whole" : "part"));
    if (b->undefined) {
      g_autofree char *file = g_strdup_printf("%s.%s.out.bin", name, b->name);
      json_object_set_new(object, "fill", json_string("none"));
      json_object_set_new(outputs, b->name, json_string(file));
      continue;
    }
    g_autofree char *file = g_strdup_printf("%s.%s.bin", name, b->name);
    json_object_set_new(object, "file", json_string(file));
    if (!output_write(output, file, b->data, b->bytes, error)) return false;
  }
  return true;
}

bool keep_launch(Output *output, const char *name, const SimLaunch *launch, const CompiledKernel *kernel,
                 GError **error)
{
  json_t *buffers = json_object(), *outputs = json_object(), *maps = json_object(), *arguments = json_array();
  for (unsigned i = 0; i < launch->n_tensormaps; i++)
    json_object_set_new(maps, launch->tensormaps[i].name, map_json(launch, &launch->tensormaps[i]));
  for (unsigned i = 0; i < launch->n_arguments; i++)
    json_array_append_new(arguments, argument_json(launch, &launch->arguments[i]));
  bool ok = keep_buffers(output, name, launch, buffers, outputs, error);
  json_t *root =
      json_pack("{s:i, s:s, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o}", "version", 1, "entry", launch->entry,
                "grid", small_numbers(launch->grid, 3), "block", small_numbers(launch->block, 3), "cluster",
                small_numbers(launch->cluster, 3), "shared", (json_int_t)launch->shared, "args", arguments,
                "buffers", buffers, "tensormaps", maps, "outputs", outputs);
  char *text = json_dumps(root, JSON_INDENT(1));
  g_autofree char *whole = g_strconcat(text, "\n", NULL);
  g_autofree char *launch_file = g_strconcat(name, ".launch.json", NULL);
  g_autofree char *text_file = g_strconcat(name, ".", kernel->backend->suffix, NULL);
  ok = ok && output_write_text(output, launch_file, whole, error) &&
       output_write_text(output, text_file, kernel->text, error);
  free(text);
  json_decref(root);
  return ok;
}
