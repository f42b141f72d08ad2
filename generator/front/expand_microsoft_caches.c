/* Caches of 8 bits of operators of com.microsoft: new rows are quantised in front of them, and what is in them is dequantised behind, which
 * the attention's kernel does on its way. One scale for a whole cache: of elements of a head (PER_CHANNEL) there is none yet. */
#include "generator/front/expand_microsoft.h"
#include "generator/front/sequences.h"
#include <string.h>

ExpandCache expand_cache(Expansion *at, unsigned input, const char *attribute, unsigned scale,
                         const char *scale_name)
{
  ExpandCache cache = {.memory = expand_input(at, input)};
  if (expand_failed(at) || !cache.memory) return cache;
  const char *kind = graph_attribute(expand_written(at), attribute)->text;
  GraphTensor *factor = expand_input(at, scale);
  bool plain = !strcmp(kind, "NONE"), narrow = graph_is_narrow(cache.memory->type);
  cache.type = expand_input(at, 0)->type;
  if (!plain && strcmp(kind, "PER_TENSOR") != 0)
    expand_refuse_attribute(at, ERROR_UNSUPPORTED, attribute, "PER_TENSOR",
                            "a scale for each element of a head is not supported");
  else if (plain && factor)
    expand_refuse(at, ERROR_INPUT, scale, "scale", NULL, "`%s` goes with `%s` PER_TENSOR", scale_name,
                  attribute);
  else if (!plain && !factor)
    expand_refuse(at, ERROR_INPUT, input, "missing-input", NULL, "`%s` PER_TENSOR needs `%s`", attribute,
                  scale_name);
  else if (plain ? cache.memory->type != cache.type : !narrow)
    expand_refuse(at, ERROR_INPUT, input, "type",
                  plain ? "caches of 8 bits have `k_quant_type` and `v_quant_type` PER_TENSOR" : "s8 or e4m3",
                  "the cache `%s` is %s, its `%s` %s", cache.memory->name, number_name(cache.memory->type),
                  attribute, kind);
  else if (factor && !graph_has_one_element(factor))
    expand_refuse(at, ERROR_INPUT, scale, "shape", NULL, "`%s` is one number", scale_name);
  if (factor && !expand_failed(at)) cache.scale = expand_reshape(at, "scale", factor, NULL, 0);
  return cache;
}

GraphTensor *expand_cache_rows(Expansion *at, const ExpandCache *cache, const char *part, GraphTensor *rows)
{
  if (!cache->scale || expand_failed(at)) return rows;
  return expand_node(at, &(ExpandNode){ONNX_QuantizeLinear,
                                       part,
                                       2,
                                       {rows, cache->scale},
                                       .attributes = {{"output_dtype", cache->memory->type}}});
}

GraphTensor *expand_cache_widened(Expansion *at, const ExpandCache *cache, const char *part, GraphTensor *x)
{
  if (!cache->scale || expand_failed(at)) return x;
  return expand_node(
      at,
      &(ExpandNode){
          ONNX_DequantizeLinear, part, 2, {x, cache->scale}, .attributes = {{"output_dtype", cache->type}}});
}
