#include "generator/front/operators.h"
#include <limits.h>
#include <string.h>

/* ---- attributes: arrays named as in operators.def ---- */

#define INT(name, value)                                                                                     \
  {                                                                                                          \
    name, ATTRIBUTE_INT, false, value, 0, NULL, NULL                                                         \
  }
#define REQUIRED_INT(name)                                                                                   \
  {                                                                                                          \
    name, ATTRIBUTE_INT, true, 0, 0, NULL, NULL                                                              \
  }
#define REQUIRED_INTS(name)                                                                                  \
  {                                                                                                          \
    name, ATTRIBUTE_INTS, true, 0, 0, NULL, NULL                                                             \
  }
#define FLOAT(name, value)                                                                                   \
  {                                                                                                          \
    name, ATTRIBUTE_FLOAT, false, 0, value, NULL, NULL                                                       \
  }
#define INTS(name)                                                                                           \
  {                                                                                                          \
    name, ATTRIBUTE_INTS, false, 0, 0, NULL, NULL                                                            \
  }
#define FLOATS_OF(name)                                                                                      \
  {                                                                                                          \
    name, ATTRIBUTE_FLOATS, false, 0, 0, NULL, NULL                                                          \
  }
#define TEXTS_OF(name)                                                                                       \
  {                                                                                                          \
    name, ATTRIBUTE_STRINGS, false, 0, 0, NULL, NULL                                                         \
  }
#define GRAPH_OF(name)                                                                                       \
  {                                                                                                          \
    name, ATTRIBUTE_GRAPH, true, 0, 0, NULL, NULL                                                            \
  }
#define CHOICE(name, value, choices)                                                                         \
  {                                                                                                          \
    name, ATTRIBUTE_STRING, (value) == NULL, 0, 0, value, choices                                            \
  }
#define TEXT(name)                                                                                           \
  {                                                                                                          \
    name, ATTRIBUTE_STRING, true, 0, 0, NULL, NULL                                                           \
  }
#define TYPE(name)                                                                                           \
  {                                                                                                          \
    name, ATTRIBUTE_TYPE, true, 0, 0, NULL, NULL                                                             \
  }

#define OPTIONAL_TYPE(name)                                                                                  \
  {                                                                                                          \
    name, ATTRIBUTE_TYPE, false, OPERATOR_NO_TYPE, 0, NULL, NULL                                             \
  }

#define ATTRIBUTES(array, ...)                                                                               \
  static const OperatorAttribute attributes_##array[] = {__VA_ARGS__};                                       \
  enum { COUNT_##array = G_N_ELEMENTS(attributes_##array) };

#define attributes_none NULL
enum { COUNT_none = 0 };

static const char *const ways[] = {"forward", "reverse", "bidirectional", NULL};
static const char *const directions[] = {"LEFT", "RIGHT", NULL};
static const char *const accumulations[] = {"default", "fast", "exact", NULL};
static const char *const group_kinds[] = {"ends", "index", "counts", NULL};
static const char *const scorings[] = {"softmax", "sigmoid", NULL};
static const char *const group_scores[] = {"max", "top2", NULL};
static const char *const quantised_caches[] = {"NONE", "PER_TENSOR", "PER_CHANNEL", NULL};
static const char *const row_places[] = {"slots", "begins", NULL};
static const char *const gradients[] = {"queries", "keys", "values", NULL};
static const char *const ends[] = {"begin", "end", NULL};
static const char *const masked_rows[] = {"nan", "zero", NULL};
static const char *const weight_types[] = {"own", "e4m3", NULL};
/* Of float8e8m0, which there are no kernels for. */
static const char *const round_modes[] = {"up", "down", "nearest", NULL};
static const char *const pad_modes[] = {"constant", "reflect", "edge", "wrap", NULL};
static const char *const pad_modes_2[] = {"constant", "reflect", "edge", NULL};
static const char *const loss_reductions[] = {"none", "sum", "mean", NULL};
static const char *const approximations[] = {"none", "tanh", NULL};

static const char *const auto_pads[] = {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", NULL};

static const char *const block_modes[] = {"DCR", "CRD", NULL};

static const char *const combinations[] = {"none", "add", "mul", "max", "min", NULL};
static const char *const segment_combinations[] = {"add", "mul", "max", "min", NULL};
static const char *const cache_modes[] = {"linear", "circular", NULL};

static const char *const coordinates[] = {"half_pixel",
                                          "half_pixel_symmetric",
                                          "pytorch_half_pixel",
                                          "align_corners",
                                          "asymmetric",
                                          "tf_crop_and_resize",
                                          NULL};
static const char *const interpolations[] = {"nearest", "linear", "cubic", NULL};
static const char *const interpolations_7[] = {"nearest", "linear", NULL};
static const char *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", NULL};
static const char *const ratio_policies[] = {"stretch", "not_larger", "not_smaller", NULL};

/* clang-format off */
#define INTERPOLATION CHOICE("coordinate_transformation_mode", "half_pixel", coordinates), FLOAT("cubic_coeff_a", -0.75), INT("exclude_outside", 0), FLOAT("extrapolation_value", 0)
ATTRIBUTES(resize, INT("antialias", 0), INTS("axes"), INTERPOLATION, CHOICE("keep_aspect_ratio_policy", "stretch", ratio_policies), CHOICE("mode", "nearest", interpolations), CHOICE("nearest_mode", "round_prefer_floor", roundings))
ATTRIBUTES(resize_11, INTERPOLATION, CHOICE("mode", "nearest", interpolations), CHOICE("nearest_mode", "round_prefer_floor", roundings))
#undef INTERPOLATION
ATTRIBUTES(upsample, CHOICE("mode", "nearest", interpolations_7))
#define RECURRENT FLOATS_OF("activation_alpha"), FLOATS_OF("activation_beta"), TEXTS_OF("activations"), FLOAT("clip", 0), CHOICE("direction", "forward", ways), INT("hidden_size", 0)
ATTRIBUTES(rnn, RECURRENT, INT("layout", 0))
ATTRIBUTES(rnn_7, RECURRENT)
ATTRIBUTES(gru, RECURRENT, INT("layout", 0), INT("linear_before_reset", 0))
ATTRIBUTES(gru_7, RECURRENT, INT("linear_before_reset", 0))
ATTRIBUTES(lstm, RECURRENT, INT("input_forget", 0), INT("layout", 0))
ATTRIBUTES(lstm_7, RECURRENT, INT("input_forget", 0))
ATTRIBUTES(loop_way, INT("reverse", 0))
ATTRIBUTES(branches, GRAPH_OF("else_branch"), GRAPH_OF("then_branch"))
ATTRIBUTES(loop_body, GRAPH_OF("body"))
ATTRIBUTES(scan_8, GRAPH_OF("body"), INTS("directions"), REQUIRED_INT("num_scan_inputs"))
ATTRIBUTES(scan, GRAPH_OF("body"), REQUIRED_INT("num_scan_inputs"), INTS("scan_input_axes"), INTS("scan_input_directions"), INTS("scan_output_axes"), INTS("scan_output_directions"))
ATTRIBUTES(resample, REQUIRED_INTS("axes"), FLOAT("fill", 0), INT("inside", 0))
ATTRIBUTES(gather_nd, INT("batch_dims", 0))
ATTRIBUTES(scatter_elements, INT("axis", 0), CHOICE("reduction", "none", combinations))
ATTRIBUTES(scatter_nd, CHOICE("reduction", "none", combinations))
ATTRIBUTES(segments, CHOICE("reduction", "add", segment_combinations))
ATTRIBUTES(tensor_scatter, INT("axis", -2), CHOICE("mode", "linear", cache_modes))
ATTRIBUTES(tally_keys, REQUIRED_INT("experts"), INT("part", 4096))
ATTRIBUTES(tally_magnitudes, INT("above", 0), REQUIRED_INT("experts"), INT("part", 4096), INT("shift", 0))
ATTRIBUTES(place_magnitudes, REQUIRED_INT("count"), INT("part", 4096), INT("shift", 0))
ATTRIBUTES(place_keys, INT("align", 1), REQUIRED_INT("experts"), INT("part", 4096))
ATTRIBUTES(append_rows, INT("axis", -2), CHOICE("mode", "linear", cache_modes), CHOICE("places", "slots", row_places))
ATTRIBUTES(reverse_sequence, INT("batch_axis", 1), INT("time_axis", 0))
ATTRIBUTES(depth_to_space, REQUIRED_INT("blocksize"), CHOICE("mode", "DCR", block_modes))
ATTRIBUTES(block_size, REQUIRED_INT("blocksize"))
#define WINDOW CHOICE("auto_pad", "NOTSET", auto_pads), INT("ceil_mode", 0)
ATTRIBUTES(max_pool, WINDOW, INTS("dilations"), REQUIRED_INTS("kernel_shape"), INTS("pads"), INT("storage_order", 0), INTS("strides"))
ATTRIBUTES(max_pool_7, WINDOW, INTS("dilations"), REQUIRED_INTS("kernel_shape"), INTS("pads"), INTS("strides"))
ATTRIBUTES(max_unpool, REQUIRED_INTS("kernel_shape"), INTS("pads"), INTS("strides"))
ATTRIBUTES(average_pool, WINDOW, INT("count_include_pad", 0), INTS("dilations"), REQUIRED_INTS("kernel_shape"), INTS("pads"), INTS("strides"))
ATTRIBUTES(lp_pool, WINDOW, INTS("dilations"), REQUIRED_INTS("kernel_shape"), INT("p", 2), INTS("pads"), INTS("strides"))
ATTRIBUTES(global_lp_pool, INT("p", 2))
#undef WINDOW
ATTRIBUTES(matmul, CHOICE("accumulate", "default", accumulations), FLOAT("alpha", 1))
ATTRIBUTES(gemm, CHOICE("accumulate", "default", accumulations), FLOAT("alpha", 1), FLOAT("beta", 1), INT("transA", 0), INT("transB", 0))
ATTRIBUTES(broadcast_6, INT("axis", INT64_MAX), INT("broadcast", 0))
ATTRIBUTES(grouped, CHOICE("accumulate", "default", accumulations), INT("align", 1), INT("clear", 0), INT("expected", 0), CHOICE("groups", NULL, group_kinds), INT("transB", 0))
ATTRIBUTES(gemm_6, FLOAT("alpha", 1), FLOAT("beta", 1), INT("broadcast", 0), INT("transA", 0), INT("transB", 0))
ATTRIBUTES(mod, INT("fmod", 0))
ATTRIBUTES(cumulative, INT("exclusive", 0), INT("reverse", 0))
ATTRIBUTES(is_inf, INT("detect_negative", 1), INT("detect_positive", 1))
ATTRIBUTES(bit_shift, CHOICE("direction", NULL, directions))
ATTRIBUTES(clip, FLOAT("max", 3.4028234663852886e38), FLOAT("min", -3.4028234663852886e38))
ATTRIBUTES(leaky_relu, FLOAT("alpha", 0.01))
ATTRIBUTES(alpha_1, FLOAT("alpha", 1))
ATTRIBUTES(selu, FLOAT("alpha", 1.67326319217681884765625), FLOAT("gamma", 1.05070102214813232421875))
ATTRIBUTES(hard_sigmoid, FLOAT("alpha", 0.2), FLOAT("beta", 0.5))
ATTRIBUTES(gelu, CHOICE("approximate", "none", approximations))
ATTRIBUTES(shrink, FLOAT("bias", 0), FLOAT("lambd", 0.5))
ATTRIBUTES(cast, CHOICE("round_mode", "up", round_modes), INT("saturate", 1), TYPE("to"))
ATTRIBUTES(bit_cast, TYPE("to"))
ATTRIBUTES(mask, CHOICE("diagonal", "begin", ends))
ATTRIBUTES(attention, INT("is_causal", 0), INT("kv_num_heads", 0), INT("left_window_size", -1), INT("q_num_heads", 0), INT("qk_matmul_output_mode", 0), INT("right_window_size", -1), FLOAT("scale", 0), FLOAT("softcap", 0), OPTIONAL_TYPE("softmax_precision"))
ATTRIBUTES(own_attention, CHOICE("accumulate", "default", accumulations), INT("is_causal", 0), INT("kv_num_heads", 0), INT("left_window_size", -1), OPTIONAL_TYPE("output_dtype"), INT("q_num_heads", 0), INT("qk_matmul_output_mode", 0), INT("right_window_size", -1), FLOAT("scale", 0), FLOAT("softcap", 0), OPTIONAL_TYPE("softmax_precision"))
ATTRIBUTES(attention_24, INT("is_causal", 0), INT("kv_num_heads", 0), INT("q_num_heads", 0), INT("qk_matmul_output_mode", 0), FLOAT("scale", 0), FLOAT("softcap", 0), OPTIONAL_TYPE("softmax_precision"))
ATTRIBUTES(attention_grad, INT("is_causal", 0), INT("left_window_size", -1), INT("right_window_size", -1), FLOAT("scale", 0), FLOAT("softcap", 0))
ATTRIBUTES(attention_grad_part, INT("is_causal", 0), INT("left_window_size", -1), CHOICE("of", NULL, gradients), INT("right_window_size", -1), FLOAT("scale", 0), FLOAT("softcap", 0))
ATTRIBUTES(varlen, CHOICE("diagonal", "end", ends), INT("is_causal", 0), INT("left_window_size", -1), INT("right_window_size", -1), FLOAT("scale", 0), FLOAT("softcap", 0))
ATTRIBUTES(group_query, INT("do_rotary", 0), CHOICE("k_quant_type", "NONE", quantised_caches), INT("kv_cache_bit_width", 0), REQUIRED_INT("kv_num_heads"), INT("local_window_size", -1), REQUIRED_INT("num_heads"), INT("qk_output", 0), INT("rotary_interleaved", 0), FLOAT("scale", 0), INT("smooth_softmax", 0), FLOAT("softcap", 0), CHOICE("v_quant_type", "NONE", quantised_caches))
ATTRIBUTES(multi_head, FLOAT("mask_filter_value", -10000), REQUIRED_INT("num_heads"), FLOAT("scale", 0), INT("unidirectional", 0))
ATTRIBUTES(packed_multi_head, FLOAT("mask_filter_value", -10000), REQUIRED_INT("num_heads"), FLOAT("scale", 0))
ATTRIBUTES(paged, INT("do_rotary", 0), CHOICE("k_quant_type", "NONE", quantised_caches), REQUIRED_INT("kv_num_heads"), INT("local_window_size", -1), REQUIRED_INT("num_heads"), INT("rotary_interleaved", 0), FLOAT("scale", 0), FLOAT("softcap", 0), CHOICE("v_quant_type", "NONE", quantised_caches))
ATTRIBUTES(microsoft_rotary, INT("interleaved", 0), INT("is_packed_batching", 0), INT("num_heads", 0), INT("rotary_embedding_dim", 0), FLOAT("scale", 1))
ATTRIBUTES(skip_norm, FLOAT("epsilon", 1e-12))
ATTRIBUTES(quick_gelu, FLOAT("alpha", 1.702))
ATTRIBUTES(fused_matmul, FLOAT("alpha", 1), INT("transA", 0), INT("transB", 0), INT("transBatchA", 0), INT("transBatchB", 0))
ATTRIBUTES(matmul_nbits, REQUIRED_INT("K"), REQUIRED_INT("N"), INT("accuracy_level", 0), INT("bits", 4), REQUIRED_INT("block_size"), INT("weight_prepacked", 0))
ATTRIBUTES(shape, INT("end", INT64_MAX), INT("start", 0))
ATTRIBUTES(cast_like, CHOICE("round_mode", "up", round_modes), INT("saturate", 1))
ATTRIBUTES(axis_first, INT("axis", 0))
ATTRIBUTES(split, INT("axis", 0), INT("num_outputs", 0))
ATTRIBUTES(split_sizes, INT("axis", 0), INTS("split"))
ATTRIBUTES(transpose, INTS("perm"))
ATTRIBUTES(slice_7, INTS("axes"), REQUIRED_INTS("ends"), REQUIRED_INTS("starts"))
ATTRIBUTES(pad, CHOICE("mode", "constant", pad_modes))
ATTRIBUTES(pad_2, CHOICE("mode", "constant", pad_modes_2), REQUIRED_INTS("pads"), FLOAT("value", 0))
ATTRIBUTES(pad_11, CHOICE("mode", "constant", pad_modes_2))
ATTRIBUTES(trilu, INT("upper", 1))
ATTRIBUTES(reshape, INT("allowzero", 0))
ATTRIBUTES(axes, INTS("axes"))
ATTRIBUTES(required_axes, REQUIRED_INTS("axes"))
ATTRIBUTES(concat, REQUIRED_INT("axis"))
ATTRIBUTES(axis_last, INT("axis", -1))
ATTRIBUTES(place, INT("axis", -1), INT("dims", 1))
ATTRIBUTES(softmax, INT("axis", -1), CHOICE("masked_rows", "nan", masked_rows), CHOICE("weights", "own", weight_types))
ATTRIBUTES(axis_1, INT("axis", 1))
ATTRIBUTES(norm, INT("axis", -1), FLOAT("epsilon", 1e-5), INT("stash_type", 1))
ATTRIBUTES(reduce, INT("keepdims", 1), INT("noop_with_empty_axes", 0))
ATTRIBUTES(reduce_axes, INTS("axes"), INT("keepdims", 1))
ATTRIBUTES(eye_like, OPTIONAL_TYPE("dtype"), INT("k", 0))
ATTRIBUTES(dropout, INT("seed", 0))
ATTRIBUTES(dropout_7, FLOAT("ratio", 0.5))
ATTRIBUTES(route, FLOAT("factor", 1), CHOICE("group_score", "max", group_scores), REQUIRED_INT("k"), INT("n_group", 1), INT("normalize", 0), CHOICE("scoring", "softmax", scorings), INT("topk_group", 0))
ATTRIBUTES(sample, INT("candidates", 0))
ATTRIBUTES(unpack_groups, INT("align", 1))
ATTRIBUTES(permute, INT("align", 1), REQUIRED_INT("experts"))
ATTRIBUTES(top, INT("axis", -1), INT("largest", 1), INT("sorted", 1))
ATTRIBUTES(top_7, INT("axis", -1), REQUIRED_INT("k"))
ATTRIBUTES(top_rows, REQUIRED_INT("k"), INT("largest", 1), INT("wide", 1))
ATTRIBUTES(arg, INT("axis", 0), INT("dims", 1), INT("keepdims", 1), INT("select_last_index", 0))
ATTRIBUTES(arg_7, INT("axis", 0), INT("keepdims", 1))
ATTRIBUTES(lp_norm, INT("axis", -1), INT("p", 2))
ATTRIBUTES(epsilon, FLOAT("epsilon", 1e-5))
ATTRIBUTES(batch_norm, FLOAT("epsilon", 1e-5), FLOAT("momentum", 0.9), INT("training_mode", 0))
ATTRIBUTES(batch_norm_9, FLOAT("epsilon", 1e-5), FLOAT("momentum", 0.9))
ATTRIBUTES(batch_norm_7, FLOAT("epsilon", 1e-5), FLOAT("momentum", 0.9), INT("spatial", 1))
ATTRIBUTES(batch_norm_6, FLOAT("epsilon", 1e-5), INT("is_test", 0), FLOAT("momentum", 0.9), INT("spatial", 1))
ATTRIBUTES(window, OPTIONAL_TYPE("output_datatype"), INT("periodic", 1))
ATTRIBUTES(affine_grid, INT("align_corners", 0))
ATTRIBUTES(einsum, TEXT("equation"))
ATTRIBUTES(non_zero, INT("size", 0))
ATTRIBUTES(largest, INT("k", 0), FLOAT("share", 0))
ATTRIBUTES(decompress, REQUIRED_INTS("shape"), OPTIONAL_TYPE("to"))
ATTRIBUTES(compress, INT("axis", INT64_MAX))
ATTRIBUTES(range, INT("stash_type", 1))
ATTRIBUTES(group_norm, FLOAT("epsilon", 1e-5), REQUIRED_INT("num_groups"), INT("stash_type", 1))
ATTRIBUTES(loss, INT("ignore_index", 0), CHOICE("reduction", "mean", loss_reductions))
ATTRIBUTES(norm_gradient, INT("axis", -1), FLOAT("epsilon", 1e-5))
ATTRIBUTES(rotary, INT("interleaved", 0), INT("num_heads", 0), INT("rotary_embedding_dim", 0))
ATTRIBUTES(quantized_axis, INT("axis", 1))
ATTRIBUTES(quantize_19, INT("axis", 1), INT("saturate", 1))
ATTRIBUTES(quantize_21, INT("axis", 1), INT("block_size", 0), OPTIONAL_TYPE("output_dtype"), INT("saturate", 1))
ATTRIBUTES(quantize, INT("axis", 1), INT("block_size", 0), OPTIONAL_TYPE("output_dtype"), OPTIONAL_TYPE("precision"), INT("saturate", 1))
ATTRIBUTES(dequantize_21, INT("axis", 1), INTS("block_shape"), INT("block_size", 0))
ATTRIBUTES(dequantize, INT("axis", 1), INTS("block_shape"), INT("block_size", 0), OPTIONAL_TYPE("output_dtype"))
/* clang-format on */

/* ---- type sets ---- */

#define FLOATS         (TYPE_BIT(F64) | TYPE_BIT(F32) | TYPE_BIT(TF32) | TYPE_BIT(F16) | TYPE_BIT(BF16))
#define SIGNED_SET     (TYPE_BIT(S8) | TYPE_BIT(S32) | TYPE_BIT(S64))
#define INTEGERS       OPERATOR_INTEGERS
#define UNSIGNED       TYPE_BIT(U8)
#define TRUTH          TYPE_BIT(BOOL)
#define NUMBERS        (FLOATS | INTEGERS)
#define SIGNED_NUMBERS (FLOATS | SIGNED_SET)
#define SUMS           (FLOATS | TYPE_BIT(S32) | TYPE_BIT(S64))
#define ANY            (NUMBERS | TRUTH)
#define SMALL_FLOATS   (TYPE_BIT(E4M3) | TYPE_BIT(E5M2))
#define CASTS          (ANY | SMALL_FLOATS)
#define BYTES          (TYPE_BIT(S8) | TYPE_BIT(U8))
#define PRODUCTS       (FLOATS | INTEGERS | SMALL_FLOATS)
#define HALF_FLOATS    (TYPE_BIT(F16) | TYPE_BIT(BF16) | SMALL_FLOATS)
#define GROUPED_FLOATS (HALF_FLOATS | TYPE_BIT(F32))
#define QUANTIZED      (BYTES | SMALL_FLOATS | TYPE_BIT(S32) | OPERATOR_PACKED)
#define QUANTIZABLE    (TYPE_BIT(F32) | TYPE_BIT(F16) | TYPE_BIT(BF16) | TYPE_BIT(S32))
/* What kernels exist for. */
#define GENERATED_FLOATS   (TYPE_BIT(F32) | TYPE_BIT(TF32) | TYPE_BIT(F16) | TYPE_BIT(BF16))
#define GENERATED_INTEGERS (TYPE_BIT(S8) | TYPE_BIT(U8) | TYPE_BIT(S32))
#define GENERATED_NUMBERS  (GENERATED_FLOATS | GENERATED_INTEGERS)
#define GENERATED_SIGNED   (GENERATED_FLOATS | TYPE_BIT(S8) | TYPE_BIT(S32))
#define GENERATED_SUMS     (GENERATED_FLOATS | TYPE_BIT(S32))
#define GENERATED_ANY      (GENERATED_NUMBERS | TRUTH)
#define GENERATED_CASTS    (GENERATED_ANY | SMALL_FLOATS)
#define GENERATED_PRODUCTS (FLOATS | BYTES | SMALL_FLOATS)

/* ---- the table ---- */

#define NAMED(id_, name_, domain_, since_, class__, min_in, max_in, min_out, max_out, types_, generated_,    \
              type_, shape_, array_, formula_)                                                               \
  {.id = id_,                                                                                                \
   .name = name_,                                                                                            \
   .domain = domain_,                                                                                        \
   .since = since_,                                                                                          \
   .class_ = OPERATOR_##class__,                                                                             \
   .min_inputs = min_in,                                                                                     \
   .max_inputs = max_in,                                                                                     \
   .min_outputs = min_out,                                                                                   \
   .max_outputs = max_out,                                                                                   \
   .types = types_,                                                                                          \
   .generated = generated_,                                                                                  \
   .type_rule = TYPE_RULE_##type_,                                                                           \
   .shape_rule = SHAPE_RULE_##shape_,                                                                        \
   .attributes = attributes_##array_,                                                                        \
   .n_attributes = COUNT_##array_,                                                                           \
   .formula = formula_},
#define OPERATOR(name, ...) NAMED(ONNX_##name, #name, __VA_ARGS__)
#define VERSION             OPERATOR

static const Operator table[] = {
#include "generator/front/operators.def"
};
#undef OPERATOR
#undef VERSION
#undef NAMED

static const char *const names[] = {
#define OPERATOR(name, ...) #name,
#define VERSION(name, ...)
#define NAMED(id, name, ...) /* never meant by a name without a domain */
#include "generator/front/operators.def"
#undef OPERATOR
#undef VERSION
#undef NAMED
    NULL,
};

const Operator *operator_table(unsigned *n)
{
  *n = G_N_ELEMENTS(table);
  return table;
}

const Operator *operator_find(const char *domain, const char *name, unsigned opset, const Operator **newer)
{
  *newer = NULL;
  /* "ai.onnx" is the long name of ONNX's own domain. */
  if (!strcmp(domain, "ai.onnx")) domain = "";
  for (unsigned i = 0; i < G_N_ELEMENTS(table); i++) { /* newest version first */
    if (strcmp(table[i].name, name) || strcmp(table[i].domain, domain)) continue;
    if (table[i].since <= opset) return &table[i];
    *newer = &table[i];
  }
  return NULL;
}

const Operator *operator_of(OperatorId id)
{
  for (unsigned i = 0; i < G_N_ELEMENTS(table); i++)
    if (table[i].id == id) return &table[i];
  g_error("operator %d has no row", (int)id);
}

const char *const *operator_names(void)
{
  return names;
}

int operator_attribute_index(const Operator *row, const char *name)
{
  for (unsigned i = 0; i < row->n_attributes; i++)
    if (!strcmp(row->attributes[i].name, name)) return (int)i;
  return -1;
}

char *operator_kernels_text(const Operator *op)
{
  GString *list = g_string_new(op->generated ? "kernels exist for "
                                             : "it is for lists that are known while the graph is read");
  const char *separator = "";
  for (unsigned i = 0; i < NUMBER_TYPE_COUNT; i++)
    if (op->generated >> i & 1) {
      g_string_append_printf(list, "%s%s", separator, number_name(i));
      separator = ", ";
    }
  return g_string_free(list, FALSE);
}
