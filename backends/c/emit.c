#include "backends/c/emit.h"
#include "base/version.h"
#include "plan/tensor_map.h"
#include <string.h>

/* ---- names ---- */

/* Of C and C++, and what the header uses. */
static const char *const keywords[] = {"auto",          "break",
                                       "case",          "char",
                                       "const",         "continue",
                                       "default",       "do",
                                       "double",        "else",
                                       "enum",          "extern",
                                       "float",         "for",
                                       "goto",          "if",
                                       "inline",        "int",
                                       "long",          "register",
                                       "restrict",      "return",
                                       "short",         "signed",
                                       "sizeof",        "static",
                                       "struct",        "switch",
                                       "typedef",       "union",
                                       "unsigned",      "void",
                                       "volatile",      "while",
                                       "bool",          "true",
                                       "false",         "class",
                                       "new",           "delete",
                                       "this",          "private",
                                       "public",        "protected",
                                       "and",           "or",
                                       "not",           "xor",
                                       "bitand",        "bitor",
                                       "compl",         "and_eq",
                                       "or_eq",         "xor_eq",
                                       "not_eq",        "template",
                                       "typename",      "namespace",
                                       "using",         "operator",
                                       "virtual",       "friend",
                                       "explicit",      "mutable",
                                       "try",           "catch",
                                       "throw",         "asm",
                                       "export",        "typeid",
                                       "wchar_t",       "char8_t",
                                       "char16_t",      "char32_t",
                                       "const_cast",    "static_cast",
                                       "dynamic_cast",  "reinterpret_cast",
                                       "alignas",       "alignof",
                                       "constexpr",     "consteval",
                                       "constinit",     "decltype",
                                       "noexcept",      "nullptr",
                                       "static_assert", "thread_local",
                                       "concept",       "requires",
                                       "co_await",      "co_return",
                                       "co_yield",      "typeof",
                                       "typeof_unqual", "int8_t",
                                       "int16_t",       "int32_t",
                                       "int64_t",       "uint8_t",
                                       "uint16_t",      "uint32_t",
                                       "uint64_t",      "intptr_t",
                                       "uintptr_t",     NULL};

char *emit_c_identifier(const char *name)
{
  GString *text = g_string_new(*name && !g_ascii_isdigit(*name) ? NULL : "_");
  for (; *name; name++)
    g_string_append_c(text, g_ascii_isalnum(*name) ? *name : '_');
  if (g_strv_contains(keywords, text->str)) g_string_append_c(text, '_');
  return g_string_free(text, FALSE);
}

char *emit_c_prefix(const Plan *plan)
{
  g_autofree char *name = g_strdup_printf("%s_%s", plan->name, plan->gpu_name);
  return emit_c_identifier(name);
}

/* What may stand in a comment: on one line, and not its end; g_free. */
static char *comment(const char *text)
{
  GString *out = g_string_new(NULL);
  for (; *text; text++) {
    g_string_append_c(out, g_ascii_iscntrl(*text) ? ' ' : *text);
    if ((*text == '*' && text[1] == '/') || (*text == '/' && text[1] == '*')) g_string_append_c(out, ' ');
  }
  return g_string_free(out, FALSE);
}

/* One emission: the plan and the C names of what the caller passes. */
typedef struct Emitter {
  const Plan *plan;
  char *prefix;       /* of everything that is visible outside */
  char *upper;        /* the same in capitals */
  char **symbols;     /* C field of each symbol */
  char **tensors;     /* C field of each tensor; NULL for those in the workspace */
  GPtrArray *kernels; /* distinct kernels: const PlanVariant *, the first of each */
  GString *out;
} Emitter;

static char *unique_field(GHashTable *taken, const char *name)
{
  char *field = emit_c_identifier(name);
  for (unsigned n = 2; g_hash_table_contains(taken, field); n++) {
    g_autofree char *base = emit_c_identifier(name);
    g_free(field);
    field = g_strdup_printf("%s_%u", base, n);
  }
  g_hash_table_add(taken, field);
  return field;
}

static void name_fields(Emitter *emitter)
{
  const Plan *plan = emitter->plan;
  g_autoptr(GHashTable) taken = g_hash_table_new(g_str_hash, g_str_equal);
  g_hash_table_add(taken, (char *)"workspace");
  emitter->symbols = g_new0(char *, plan->n_symbols + 1);
  emitter->tensors = g_new0(char *, plan->n_tensors + 1);
  for (unsigned i = 0; i < plan->n_symbols; i++)
    emitter->symbols[i] = unique_field(taken, plan->symbols[i].name);
  for (unsigned i = 0; i < plan->n_tensors; i++)
    if (plan->tensors[i]->kind != PLAN_WORKSPACE)
      emitter->tensors[i] = unique_field(taken, plan->tensors[i]->name);
}

static unsigned kernel_index(Emitter *emitter, const PlanVariant *variant)
{
  for (guint i = 0; i < emitter->kernels->len; i++) {
    const PlanVariant *known = emitter->kernels->pdata[i];
    if (!strcmp(known->kernel, variant->kernel) && !strcmp(known->entry, variant->entry)) return i;
  }
  g_ptr_array_add(emitter->kernels, (void *)variant);
  return emitter->kernels->len - 1;
}

static void emitter_init(Emitter *emitter, const Plan *plan)
{
  *emitter = (Emitter){.plan = plan, .prefix = emit_c_prefix(plan), .kernels = g_ptr_array_new()};
  emitter->upper = g_ascii_strup(emitter->prefix, -1);
  emitter->out = g_string_new(NULL);
  name_fields(emitter);
  for (unsigned i = 0; i < plan->n_launches; i++)
    for (unsigned j = 0; j < plan->launches[i]->n_variants; j++)
      kernel_index(emitter, plan->launches[i]->variants[j]);
}

static char *emitter_finish(Emitter *emitter)
{
  g_free(emitter->prefix);
  g_free(emitter->upper);
  g_strfreev(emitter->symbols);
  for (unsigned i = 0; i < emitter->plan->n_tensors; i++)
    g_free(emitter->tensors[i]);
  g_free(emitter->tensors);
  g_ptr_array_unref(emitter->kernels);
  return g_string_free(emitter->out, FALSE);
}

#define put(emitter, ...) g_string_append_printf((emitter)->out, __VA_ARGS__)

/* ---- expressions ---- */

static const char *const infix[] = {
    [SYMBOLIC_ADD] = "+", [SYMBOLIC_SUB] = "-",  [SYMBOLIC_MUL] = "*", [SYMBOLIC_LT] = "<",
    [SYMBOLIC_LE] = "<=", [SYMBOLIC_GT] = ">",   [SYMBOLIC_GE] = ">=", [SYMBOLIC_EQ] = "==",
    [SYMBOLIC_NE] = "!=", [SYMBOLIC_AND] = "&&", [SYMBOLIC_OR] = "||", [SYMBOLIC_NOT] = NULL,
};
static const char *const calls[] = {
    [SYMBOLIC_DIV] = "quotient", [SYMBOLIC_MOD] = "remainder_of", [SYMBOLIC_CEIL_DIV] = "ceil_quotient",
    [SYMBOLIC_MIN] = "smaller",  [SYMBOLIC_MAX] = "larger",
};

static void append_address(const Emitter *emitter, GString *text, const PlanTensor *tensor);

static void append_expression(const Emitter *emitter, GString *text, const Symbolic *x)
{
  if (!x) {
    g_string_append(text, "0");
  } else if (x->kind == SYMBOLIC_CONSTANT) {
    g_string_append_printf(text,
                           x->value > INT32_MAX || x->value < -INT32_MAX ? "INT64_C(%" G_GINT64_FORMAT ")"
                                                                         : "%" G_GINT64_FORMAT,
                           x->value);
  } else if (x->kind == SYMBOLIC_SYMBOL) {
    for (unsigned i = 0; i < emitter->plan->n_symbols; i++)
      if (!strcmp(emitter->plan->symbols[i].name, x->name))
        g_string_append_printf(text, "a->%s", emitter->symbols[i]);
    for (unsigned i = 0; i < emitter->plan->n_repeats; i++)
      if (!strcmp(emitter->plan->repeats[i].counter, x->name)) {
        g_string_append(text, "counter");
        break;
      }
  } else if (x->kind == SYMBOLIC_ALIGN) {
    g_string_append(text, "alignment_of(");
    append_address(emitter, text, plan_tensor(emitter->plan, x->name));
    g_string_append(text, ")");
  } else if (x->kind == SYMBOLIC_NOT) {
    g_string_append(text, "!");
    append_expression(emitter, text, x->a);
  } else {
    bool is_call = x->kind < G_N_ELEMENTS(calls) && calls[x->kind];
    g_string_append_printf(text, "%s(", is_call ? calls[x->kind] : "");
    append_expression(emitter, text, x->a);
    g_string_append_printf(text, is_call ? ", " : " %s ", infix[x->kind]);
    append_expression(emitter, text, x->b);
    g_string_append(text, ")");
  }
}

static void append_address(const Emitter *emitter, GString *text, const PlanTensor *tensor)
{
  if (tensor->kind != PLAN_WORKSPACE) {
    g_string_append_printf(text, "a->%s", emitter->tensors[tensor->index]);
    return;
  }
  g_string_append(text, "(a->workspace + (uint64_t)");
  append_expression(emitter, text, tensor->offset);
  g_string_append(text, ")");
}

static char *expression(const Emitter *emitter, const Symbolic *x)
{
  GString *text = g_string_new(NULL);
  append_expression(emitter, text, x);
  return g_string_free(text, FALSE);
}

static char *address(const Emitter *emitter, const PlanTensor *tensor, const Symbolic *offset)
{
  GString *text = g_string_new(NULL);
  append_address(emitter, text, tensor);
  if (offset && !symbolic_equals(offset, 0)) {
    g_string_append(text, " + (uint64_t)");
    append_expression(emitter, text, offset);
  }
  return g_string_free(text, FALSE);
}

/* ---- header ---- */

static const char *const tensor_words[] = {[PLAN_INPUT] = "input",
                                           [PLAN_CONSTANT] = "constant",
                                           [PLAN_OUTPUT] = "output",
                                           [PLAN_WORKSPACE] = "workspace"};

static void put_shape(Emitter *emitter, const PlanTensor *tensor)
{
  put(emitter, "%s %s[", tensor_words[tensor->kind], number_name(tensor->type));
  for (unsigned i = 0; i < tensor->rank; i++) {
    g_autofree char *extent = symbolic_text(tensor->shape[i]);
    put(emitter, "%s%s", i ? ", " : "", extent);
  }
  put(emitter, "]");
}

/* A name that was changed, and what a constant holds side by side, so that a caller can give other values. */
static void put_origin(Emitter *emitter, unsigned i)
{
  const PlanTensor *tensor = emitter->plan->tensors[i];
  g_autofree char *name = comment(tensor->name);
  if (strcmp(tensor->name, emitter->tensors[i])) put(emitter, "; `%s`", name);
  for (unsigned j = 0; j < tensor->n_stacks; j++) {
    g_autofree char *part = comment(tensor->stacks[j].name);
    put(emitter, "%s %" G_GINT64_FORMAT " columns of `%s`", j ? "," : ":", tensor->stacks[j].columns, part);
  }
}

static void put_arguments_struct(Emitter *emitter)
{
  const Plan *plan = emitter->plan;
  put(emitter,
      "/* Addresses are those of device memory; strides are those the graph was compiled for. */\n"
      "typedef struct %s_arguments {\n",
      emitter->prefix);
  for (unsigned i = 0; i < plan->n_symbols; i++) {
    const PlanSymbol *symbol = &plan->symbols[i];
    put(emitter,
        "  int64_t %s; /* %" G_GINT64_FORMAT " .. %" G_GINT64_FORMAT ", a multiple of %" G_GINT64_FORMAT
        " */\n",
        emitter->symbols[i], symbol->min, symbol->max, symbol->multiple);
  }
  for (unsigned i = 0; i < plan->n_tensors; i++) {
    const PlanTensor *tensor = plan->tensors[i];
    if (tensor->kind == PLAN_WORKSPACE) continue;
    put(emitter, "  uint64_t %s; /* ", emitter->tensors[i]);
    put_shape(emitter, tensor);
    put(emitter, ", aligned to %u bytes", tensor->align);
    put_origin(emitter, i);
    g_autofree char *file = tensor->file ? comment(tensor->file) : NULL;
    if (file) put(emitter, "; its data are in %s", file);
    g_autofree char *memory = tensor->memory ? comment(tensor->memory->name) : NULL;
    if (memory) put(emitter, "; in the memory of %s: the same address", memory);
    put(emitter, " */\n");
  }
  put(emitter, "  uint64_t workspace; /* %s_workspace_bytes() bytes, aligned to 256 */\n} %s_arguments;\n\n",
      emitter->prefix, emitter->prefix);
}

char *emit_c_header(const Plan *plan)
{
  Emitter emitter;
  emitter_init(&emitter, plan);
  const char *p = emitter.prefix;
  g_autofree char *name = comment(plan->name), *gpu = comment(plan->gpu_name);
  put(&emitter, "/* %s for %s (%s), generated by adlgen %s.\n *\n", name, gpu, plan->gpu_target,
      ADLGEN_VERSION);
  put(&emitter,
      " * Needs the CUDA driver alone: link with -lcuda. A context must be current in every call. Functions\n"
      " * return 0, a CUresult, or one of the negative codes below. Thread-safe: a loaded module is not "
      "written.\n"
      " * For C99, C11 and C++; the source is C11. */\n"
      "#ifndef %s_H\n#define %s_H\n#include <stdint.h>\n\n"
      "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n",
      emitter.upper, emitter.upper);
  put(&emitter,
      "#define %s_ERROR_SYMBOL (-1) /* a symbol is outside its range or not a multiple */\n"
      "#define %s_ERROR_ALIGN  (-2) /* an address is not aligned as the graph says */\n"
      "#define %s_ERROR_SIZE   (-3) /* a launch argument does not fit its type */\n\n",
      emitter.upper, emitter.upper, emitter.upper);
  unsigned n = MAX(emitter.kernels->len, 1);
  put(&emitter, "typedef struct %s_module {\n  void *modules[%u], *functions[%u];\n} %s_module;\n\n", p, n, n,
      p);
  put_arguments_struct(&emitter);
  put(&emitter, "int %s_load(%s_module *module);\nvoid %s_unload(%s_module *module);\n", p, p, p, p);
  put(&emitter, "int64_t %s_workspace_bytes(const %s_arguments *arguments);\n", p, p);
  put(&emitter,
      "/* Launches everything on a stream (a CUstream; NULL is the default one) and does not wait. */\n"
      "int %s_launch(const %s_module *module, const %s_arguments *arguments, void *stream);\n\n",
      p, p, p);
  put(&emitter, "#ifdef __cplusplus\n}\n#endif\n#endif\n");
  return emitter_finish(&emitter);
}

/* ---- source: what it needs of the driver, and helpers ---- */

static const char driver_text[] =
    "/* The few functions and constants of the driver that are needed, as cuda.h has them. */\n"
    "extern int cuModuleLoadData(void **module, const void *image);\n"
    "extern int cuModuleUnload(void *module);\n"
    "extern int cuModuleGetFunction(void **function, void *module, const char *name);\n"
    "extern int cuFuncSetAttribute(void *function, int attribute, int value);\n"
    "extern int cuLaunchKernelEx(const void *config, void *function, void **arguments, void **extra);\n"
    "enum { MAX_DYNAMIC_SHARED = 8, NON_PORTABLE_CLUSTER = 14 };\n"
    "enum { COOPERATIVE = 2, CLUSTER_DIMENSION = 4, PROGRAMMATIC_SERIALIZATION = 6 };\n"
    "typedef struct launch_attribute {\n  int id, padding;\n  union {\n    unsigned cluster[3];\n    int "
    "allowed;\n"
    "    char bytes[64];\n  } value;\n} launch_attribute;\n"
    "typedef struct launch_config {\n  unsigned grid[3], block[3], shared;\n  void *stream;\n"
    "  launch_attribute *attributes;\n  unsigned n_attributes;\n} launch_config;\n\n";

/* Helpers, each written only if the text that follows calls it. */
static const struct {
  const char *call, *text;
} helpers[] = {
    {"cuMemsetD8Async(",
     "extern int cuMemsetD8Async(uint64_t address, unsigned char value, size_t n, void *stream);\n\n"},
    {"cuTensorMapEncodeTiled(",
     "typedef struct tensor_map {\n  _Alignas(64) uint64_t words[16];\n} tensor_map;\n"
     "extern int cuTensorMapEncodeTiled(tensor_map *map, int type, uint32_t rank, void *address, const "
     "uint64_t *dims,\n"
     "                                  const uint64_t *strides, const uint32_t *box, const uint32_t "
     "*steps,\n"
     "                                  int interleave, int swizzle, int l2_promotion, int fill);\n\n"},
    {"quotient(", "static int64_t quotient(int64_t a, int64_t b)\n{\n  return b ? a / b : 0;\n}\n\n"},
    {"remainder_of(", "static int64_t remainder_of(int64_t a, int64_t b)\n{\n  return b ? a % b : 0;\n}\n\n"},
    {"ceil_quotient(", "static int64_t ceil_quotient(int64_t a, int64_t b)\n{\n  return b ? a / b + (a % b "
                       "!= 0 && (a < 0) == (b < 0)) : 0;\n}\n\n"},
    {"smaller(", "static int64_t smaller(int64_t a, int64_t b)\n{\n  return a < b ? a : b;\n}\n\n"},
    {"larger(", "static int64_t larger(int64_t a, int64_t b)\n{\n  return a > b ? a : b;\n}\n\n"},
    {"alignment_of(",
     "/* The largest power of two that divides an address, at most 4096. */\n"
     "static int64_t alignment_of(uint64_t address)\n{\n  int64_t n = 1;\n"
     "  while (n < 4096 && address % (uint64_t)(2 * n) == 0)\n    n *= 2;\n  return n;\n}\n\n"},
    {"divisor_of(",
     "/* n / d == (mulhi(n, multiplier) + n) >> shift for 0 <= n < 2^31. */\n"
     "typedef struct divisor {\n  uint32_t multiplier, shift;\n} divisor;\n"
     "static divisor divisor_of(int64_t d)\n{\n  divisor result = {0, 0};\n"
     "  while ((INT64_C(1) << result.shift) < d)\n    result.shift++;\n"
     "  uint64_t excess = (UINT64_C(1) << result.shift) - (uint64_t)d;\n"
     "  result.multiplier = (uint32_t)((excess << 32) / (uint64_t)d + 1);\n  return result;\n}\n\n"},
};

static void prepend_helpers(Emitter *emitter, const char *body)
{
  for (unsigned i = 0; i < G_N_ELEMENTS(helpers); i++) {
    /* "quotient(" must not be found inside "ceil_quotient(". */
    bool used = false;
    for (const char *at = body; !used && (at = strstr(at, helpers[i].call)); at++)
      used = at == body || !(g_ascii_isalnum(at[-1]) || at[-1] == '_');
    if (used) g_string_append(emitter->out, helpers[i].text);
  }
}

static void put_cubin(Emitter *emitter, unsigned index, GBytes *cubin)
{
  gsize size = 0;
  const unsigned char *bytes = g_bytes_get_data(cubin, &size);
  put(emitter, "static const _Alignas(64) unsigned char cubin_%u[%zu] = {", index, size);
  for (gsize i = 0; i < size; i++)
    put(emitter, "%s%u,", i % 24 ? "" : "\n  ", bytes[i]);
  put(emitter, "\n};\n\n");
}

/* ---- source: one launch ---- */

static void put_list(Emitter *emitter, const char *declaration, unsigned n, const Symbolic *const *values,
                     const char *cast)
{
  put(emitter, "  const %s = {", declaration);
  for (unsigned i = 0; i < n; i++) {
    g_autofree char *value = expression(emitter, values[i]);
    put(emitter, "%s%s%s", i ? ", " : "", cast, value);
  }
  put(emitter, n ? "};\n" : "0};\n");
}

static void put_tensor_map(Emitter *emitter, unsigned i, const PlanArgument *argument)
{
  const PlanTensorMap *map = &argument->map;
  g_autofree char *dims = g_strdup_printf("uint64_t dims_%u[]", i),
                  *strides = g_strdup_printf("uint64_t strides_%u[]", i),
                  *box = g_strdup_printf("uint32_t box_%u[]", i);
  put_list(emitter, dims, map->rank, map->dims, "(uint64_t)");
  put_list(emitter, strides, map->rank - 1, map->strides, "(uint64_t)");
  put_list(emitter, box, map->rank, map->box, "(uint32_t)");
  put(emitter, "  const uint32_t steps_%u[] = {", i);
  for (unsigned d = 0; d < map->rank; d++)
    put(emitter, "%s%u", d ? ", " : "", MAX(map->element_strides[d], 1));
  g_autofree char *base = address(emitter, argument->tensor, argument->offset);
  put(emitter,
      "};\n  tensor_map argument_%u;\n  status = cuTensorMapEncodeTiled(&argument_%u, %d, %u, "
      "(void *)(uintptr_t)(%s),\n                                  dims_%u, strides_%u, box_%u, steps_%u, "
      "%d, %d, %d, %d);\n"
      "  if (status) return status;\n",
      i, i, plan_map_type(map->element), map->rank, base, i, i, i, i, (int)map->interleave,
      plan_map_code(map->swizzle, 32), plan_map_code(map->l2_promotion, 64), (int)map->fill);
}

static const char *scalar_type(NumberType type)
{
  switch (type) {
  case NUMBER_F32: return "float";
  case NUMBER_F64: return "double";
  case NUMBER_S32: return "int32_t";
  case NUMBER_U32: return "uint32_t";
  case NUMBER_U64: return "uint64_t";
  default: return "int64_t";
  }
}

static void put_scalar(Emitter *emitter, unsigned i, const PlanArgument *argument)
{
  const char *type = scalar_type(argument->type);
  if (number_class(argument->type) == NUMBER_FLOAT) {
    char digits[G_ASCII_DTOSTR_BUF_SIZE];
    put(emitter, "  %s argument_%u = (%s)%s;\n", type, i, type,
        g_ascii_dtostr(digits, sizeof digits, argument->number));
    return;
  }
  g_autofree char *value = expression(emitter, argument->value);
  put(emitter, "  int64_t value_%u = %s;\n  %s argument_%u = (%s)value_%u;\n", i, value, type, i, type, i);
  if (number_bytes_of(argument->type, 1) < 8)
    put(emitter, "  if ((int64_t)argument_%u != value_%u) return %s_ERROR_SIZE;\n", i, i, emitter->upper);
}

static void put_argument(Emitter *emitter, unsigned i, const PlanArgument *argument)
{
  if (argument->name) put(emitter, "  /* %s */\n", argument->name);
  switch (argument->kind) {
  case PLAN_ARGUMENT_POINTER: {
    g_autofree char *base = address(emitter, argument->tensor, argument->offset);
    put(emitter, "  uint64_t argument_%u = %s;\n", i, base);
    break;
  }
  case PLAN_ARGUMENT_SCALAR: put_scalar(emitter, i, argument); break;
  case PLAN_ARGUMENT_TENSOR_MAP: put_tensor_map(emitter, i, argument); break;
  case PLAN_ARGUMENT_DIVISOR: {
    g_autofree char *value = expression(emitter, argument->value);
    put(emitter, "  divisor argument_%u = divisor_of(%s);\n", i, value);
    break;
  }
  }
}

/* May it start before the launch before it has ended? What is cleared in between would have to wait. */
static bool is_dependent(const PlanLaunch *launch, const PlanVariant *variant)
{
  if (launch->n_zero || !variant->waits) return false;
  for (unsigned i = 0; i < launch->n_depends; i++)
    if (launch->depends_on[i].dependent) return true;
  return false;
}

static void put_variant(Emitter *emitter, const PlanLaunch *launch, unsigned index)
{
  const PlanVariant *variant = launch->variants[index];
  put(emitter, "/* %s: %s%s%s */\n", launch->name, variant->kernel, variant->note ? ", " : "",
      variant->note ? variant->note : "");
  put(emitter,
      "static int launch_%u_%u(const %s_module *m, const %s_arguments *a, %svoid *stream, int *follows)\n{\n",
      launch->index, index, emitter->prefix, emitter->prefix,
      plan_repeat_of(emitter->plan, launch->index) ? "int64_t counter, " : "");
  put(emitter, "  int status = 0;\n  (void)a;\n");
  if (plan_repeat_of(emitter->plan, launch->index)) put(emitter, "  (void)counter;\n");
  put_list(emitter, "int64_t grid[]", 3, variant->grid, "");
  if (is_dependent(launch, variant)) put(emitter, "  int after = *follows;\n");
  put(emitter, "  *follows = grid[0] && grid[1] && grid[2];\n");
  put(emitter, "  if (!*follows) return 0; /* nothing to do */\n");
  for (unsigned i = 0; i < variant->n_arguments; i++)
    put_argument(emitter, i, &variant->arguments[i]);
  put(emitter, "  void *arguments[] = {");
  for (unsigned i = 0; i < variant->n_arguments; i++)
    put(emitter, "%s&argument_%u", i ? ", " : "", i);
  put(emitter, variant->n_arguments ? "};\n" : "0};\n");
  put(emitter, "  launch_config config = {.block = {%u, %u, %u}, .shared = %u, .stream = stream};\n",
      variant->block[0], variant->block[1], variant->block[2], variant->shared);
  put(emitter, "  const unsigned cluster[] = {%u, %u, %u};\n", variant->cluster[0], variant->cluster[1],
      variant->cluster[2]);
  put(emitter,
      "  status = start(m->functions[%u], &config, grid, cluster, %s, %d, arguments);\n  return "
      "status;\n}\n\n",
      kernel_index(emitter, variant), is_dependent(launch, variant) ? "after" : "0", variant->together);
}

/* The caller may use the workspace for other things between two calls, so what kernels expect to be zero is
 * cleared in each. */
static void put_zeroed(Emitter *emitter, const PlanTensor *tensor)
{
  if (!tensor->zero) return;
  g_autofree char *where = address(emitter, tensor, NULL);
  put(emitter, "  if ((status = cuMemsetD8Async(%s, 0, (size_t)%u", where, number_bytes(tensor->type));
  for (unsigned d = 0; d < tensor->rank; d++) {
    g_autofree char *extent = expression(emitter, tensor->shape[d]);
    put(emitter, " * (size_t)%s", extent);
  }
  put(emitter, ", stream))) return status;\n");
}

static void put_launch(Emitter *emitter, const PlanLaunch *launch)
{
  for (unsigned i = 0; i < launch->n_zero; i++) {
    g_autofree char *offset = expression(emitter, launch->zero[i].offset);
    g_autofree char *bytes = expression(emitter, launch->zero[i].bytes);
    put(emitter,
        "  if ((status = cuMemsetD8Async(a->workspace + (uint64_t)%s, 0, (size_t)%s, stream))) return "
        "status;\n",
        offset, bytes);
  }
  for (unsigned i = 0; i < launch->n_variants; i++) {
    const Symbolic *guard = launch->variants[i]->guard;
    g_autofree char *condition = expression(emitter, guard);
    if (guard)
      put(emitter, "  %sif (%s)\n    ", i ? "else " : "", condition);
    else
      put(emitter, i ? "  else\n    " : "  ");
    put(emitter, "status = launch_%u_%u(m, a, %sstream, &follows);\n", launch->index, i,
        plan_repeat_of(emitter->plan, launch->index) ? "counter, " : "");
  }
  put(emitter, "  if (status) return status;\n");
}

/* The head of the loop in front of a repeat's first launch, its end behind the last. */
static void put_repeat(Emitter *emitter, unsigned launch, bool end)
{
  const PlanRepeat *repeat = plan_repeat_of(emitter->plan, launch);
  if (!repeat || launch != (end ? repeat->first + repeat->n - 1 : repeat->first)) return;
  if (end) {
    put(emitter, "  }\n");
    return;
  }
  g_autofree char *count = expression(emitter, repeat->count);
  put(emitter, "  for (int64_t counter = 0; counter < %s; counter++) {\n", count);
}

/* ---- source: the functions the header declares ---- */

static const char start_text[] =
    "static int start(void *function, launch_config *config, const int64_t *grid, const unsigned *cluster, "
    "int dependent,\n"
    "                 int together, void **arguments)\n{\n"
    "  launch_attribute attributes[3] = {{0}};\n"
    "  for (int i = 0; i < 3; i++) {\n"
    "    if (grid[i] <= 0 || grid[i] > INT32_MAX) return ERROR_SIZE;\n"
    "    config->grid[i] = (unsigned)grid[i];\n"
    "  }\n"
    "  config->attributes = attributes;\n"
    "  if (cluster[0] * cluster[1] * cluster[2] > 1) {\n"
    "    launch_attribute *attribute = &attributes[config->n_attributes++];\n"
    "    attribute->id = CLUSTER_DIMENSION;\n"
    "    memcpy(attribute->value.cluster, cluster, sizeof attribute->value.cluster);\n"
    "  }\n"
    "  if (dependent) {\n"
    "    launch_attribute *attribute = &attributes[config->n_attributes++];\n"
    "    attribute->id = PROGRAMMATIC_SERIALIZATION;\n"
    "    attribute->value.allowed = 1;\n"
    "  }\n"
    "  if (together) {\n"
    "    launch_attribute *attribute = &attributes[config->n_attributes++];\n"
    "    attribute->id = COOPERATIVE;\n"
    "    attribute->value.allowed = 1;\n"
    "  }\n"
    "  return cuLaunchKernelEx(config, function, arguments, 0);\n}\n\n";

static void put_start(Emitter *emitter)
{
  g_auto(GStrv) parts = g_strsplit(start_text, "ERROR_SIZE", -1);
  g_autofree char *name = g_strconcat(emitter->upper, "_ERROR_SIZE", NULL), *start = g_strjoinv(name, parts);
  g_string_append(emitter->out, start);
}

static void put_load(Emitter *emitter)
{
  const char *p = emitter->prefix;
  put(emitter, "int %s_load(%s_module *module)\n{\n  int status = 0;\n  memset(module, 0, sizeof *module);\n",
      p, p);
  for (guint i = 0; i < emitter->kernels->len; i++) {
    const PlanVariant *variant = emitter->kernels->pdata[i];
    unsigned blocks = variant->cluster[0] * variant->cluster[1] * variant->cluster[2];
    put(emitter,
        "  if (!status) status = cuModuleLoadData(&module->modules[%u], cubin_%u);\n"
        "  if (!status) status = cuModuleGetFunction(&module->functions[%u], module->modules[%u], \"%s\");\n",
        i, i, i, i, variant->entry);
    put(emitter,
        "  if (!status) status = cuFuncSetAttribute(module->functions[%u], MAX_DYNAMIC_SHARED, %u);\n", i,
        variant->shared);
    if (blocks > 8)
      put(emitter,
          "  if (!status) status = cuFuncSetAttribute(module->functions[%u], NON_PORTABLE_CLUSTER, 1);\n", i);
  }
  put(emitter, "  if (status) %s_unload(module);\n  return status;\n}\n\n", p);
  put(emitter,
      "void %s_unload(%s_module *module)\n{\n"
      "  for (unsigned i = 0; i < sizeof module->modules / sizeof *module->modules; i++)\n"
      "    if (module->modules[i]) cuModuleUnload(module->modules[i]);\n"
      "  memset(module, 0, sizeof *module);\n}\n\n",
      p, p);
}

static void put_checks(Emitter *emitter)
{
  const Plan *plan = emitter->plan;
  for (unsigned i = 0; i < plan->n_symbols; i++) {
    const PlanSymbol *symbol = &plan->symbols[i];
    const char *field = emitter->symbols[i];
    put(emitter, "  if (a->%s < INT64_C(%" G_GINT64_FORMAT ") || a->%s > INT64_C(%" G_GINT64_FORMAT ")",
        field, symbol->min, field, symbol->max);
    if (symbol->multiple > 1) put(emitter, " || a->%s %% %" G_GINT64_FORMAT, field, symbol->multiple);
    put(emitter, ") return %s_ERROR_SYMBOL;\n", emitter->upper);
  }
  for (unsigned i = 0; i < plan->n_tensors; i++)
    if (emitter->tensors[i] && plan->tensors[i]->align > 1)
      put(emitter, "  if (a->%s %% %u) return %s_ERROR_ALIGN;\n", emitter->tensors[i],
          plan->tensors[i]->align, emitter->upper);
}

static void put_functions(Emitter *emitter)
{
  const Plan *plan = emitter->plan;
  const char *p = emitter->prefix;
  for (unsigned i = 0; i < plan->n_launches; i++)
    for (unsigned j = 0; j < plan->launches[i]->n_variants; j++)
      put_variant(emitter, plan->launches[i], j);
  put_load(emitter);
  g_autofree char *bytes = expression(emitter, plan->workspace_bytes);
  put(emitter, "int64_t %s_workspace_bytes(const %s_arguments *a)\n{\n  (void)a;\n  return %s;\n}\n\n", p, p,
      bytes);
  put(emitter,
      "int %s_launch(const %s_module *m, const %s_arguments *a, void *stream)\n{\n  int status = 0;\n%s", p,
      p, p,
      plan->n_launches
          ? "  int follows = 0; /* the kernel before on the stream is ours, so that one may start "
            "before its end */\n"
          : "  (void)m;\n  (void)stream;\n");
  put_checks(emitter);
  put(emitter, "  if (%s_workspace_bytes(a) > 0 && a->workspace %% 256) return %s_ERROR_ALIGN;\n", p,
      emitter->upper);
  for (unsigned i = 0; i < plan->n_tensors; i++)
    put_zeroed(emitter, plan->tensors[i]);
  for (unsigned i = 0; i < plan->n_launches; i++) {
    put_repeat(emitter, i, false);
    put_launch(emitter, plan->launches[i]);
    put_repeat(emitter, i, true);
  }
  put(emitter, "  return status;\n}\n");
}

char *emit_c_source(const Plan *plan, GBytes *(*cubin)(const char *kernel, void *data), void *data)
{
  Emitter emitter;
  emitter_init(&emitter, plan);
  put_functions(&emitter);
  g_autofree char *body = g_string_free(emitter.out, FALSE);
  emitter.out = g_string_new(NULL);
  g_autofree char *graph = comment(plan->name), *gpu = comment(plan->gpu_name);
  put(&emitter,
      "/* %s for %s (%s), generated by adlgen %s; see the header. */\n"
      "#if !defined __STDC_VERSION__ || __STDC_VERSION__ < 201112L\n"
      "#error \"%s.c is C11: compile it as C, with -std=c11 or a newer standard\"\n#endif\n"
      "#include \"%s.h\"\n#include <stddef.h>\n#include <string.h>\n\n",
      graph, gpu, plan->gpu_target, ADLGEN_VERSION, emitter.prefix, emitter.prefix);
  g_string_append(emitter.out, driver_text);
  prepend_helpers(&emitter, body);
  if (plan->n_launches) put_start(&emitter);
  for (guint i = 0; i < emitter.kernels->len; i++)
    put_cubin(&emitter, i, cubin(((const PlanVariant *)emitter.kernels->pdata[i])->kernel, data));
  g_string_append(emitter.out, body);
  return emitter_finish(&emitter);
}
