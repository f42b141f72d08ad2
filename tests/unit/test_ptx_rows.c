/* Every row of the PTX back end, once with and once without its optional attributes, in each of its types:
 * emitted for each target and given to the assembler, if there is one. */
#include "backends/ptx/internal.h"
#include "base/data.h"
#include "base/document.h"
#include <glib/gstdio.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#define VARIANTS 3

static const struct {
  const char *token;
  NumberType types[VARIANTS];
} token_types[] = {
    {"s32", {NUMBER_S32, NUMBER_S32, NUMBER_S32}},     {"s64", {NUMBER_S64, NUMBER_S64, NUMBER_S64}},
    {"f32", {NUMBER_F32, NUMBER_F32, NUMBER_F32}},     {"f64", {NUMBER_F64, NUMBER_F64, NUMBER_F64}},
    {"f16", {NUMBER_F16, NUMBER_F16, NUMBER_F16}},     {"bf16", {NUMBER_BF16, NUMBER_BF16, NUMBER_BF16}},
    {"tf32", {NUMBER_TF32, NUMBER_TF32, NUMBER_TF32}}, {"i8", {NUMBER_S8, NUMBER_U8, NUMBER_S8}},
    {"f8", {NUMBER_E4M3, NUMBER_E5M2, NUMBER_E4M3}},   {"i16", {NUMBER_S16, NUMBER_U16, NUMBER_B16}},
    {"i32", {NUMBER_S32, NUMBER_U32, NUMBER_B32}},     {"i64", {NUMBER_S64, NUMBER_U64, NUMBER_B64}},
    {"int", {NUMBER_S8, NUMBER_U32, NUMBER_S64}},      {"b16", {NUMBER_BF16, NUMBER_S16, NUMBER_B16}},
    {"b32", {NUMBER_F32, NUMBER_S32, NUMBER_B32}},     {"b64", {NUMBER_F64, NUMBER_S64, NUMBER_B64}},
};

typedef struct Sample {
  IrModule *module;
  IrFunction *kernel;
  IrBuilder builder;
  const PtxRow *row;
  unsigned variant;
  bool optional;
} Sample;

static IrExpr *new_variable(Sample *s, IrType type, const char *name)
{
  IrOp *op = ir_emit(&s->builder, OP_VAR, 0);
  IrValue *value = ir_result(op, name, type);
  value->variable = true;
  return ir_value(s->module, value);
}

static IrType type_of_token(const Sample *s, const char *token)
{
  if (strcmp(token, "pred") == 0) return ir_predicate();
  if (strcmp(token, "shared") == 0) return ir_scalar(NUMBER_U32);
  if (strcmp(token, "global") == 0) return ir_scalar(NUMBER_U64);
  for (unsigned i = 0; i < G_N_ELEMENTS(token_types); i++)
    if (strcmp(token_types[i].token, token) == 0) return ir_scalar(token_types[i].types[s->variant]);
  return (IrType){.kind = TYPE_NONE};
}

static bool row_has(const PtxRow *row, const char *text)
{
  return strstr(row->attributes, text) != NULL;
}

/* Shape and types of a product's sample: m, n, k, a, b, accumulator, registers of the accumulator, of A, of
 * B. */
typedef struct ProductSample {
  int m, n, k;
  const char *a, *acc;
  NumberType register_acc;
  unsigned n_acc, n_a, n_b;
} ProductSample;

static const ProductSample *product_sample(const PtxRow *row)
{
  static const ProductSample warp = {16, 8, 16, "bf16", "f32", NUMBER_F32, 4, 4, 2};
  static const ProductSample sixteen = {64, 64, 16, "bf16", "f32", NUMBER_F32, 32, 4, 0};
  static const ProductSample integer = {64, 64, 32, "s8", "s32", NUMBER_S32, 32, 4, 0};
  static const ProductSample other = {64, 64, 8, "tf32", "f32", NUMBER_F32, 32, 4, 0};
  if (row->code == OP_PRODUCT_WARP) return &warp;
  return row_has(row, "types=16") ? &sixteen : row_has(row, "types=integer") ? &integer : &other;
}

static IrExpr *sample_operand(Sample *s, const char *token, unsigned index)
{
  const ProductSample *product = product_sample(s->row);
  bool shared = strcmp(token, "shared") == 0;
  if (strcmp(token, "list") == 0) {
    IrType type = ir_registers(index ? NUMBER_B32 : product->register_acc, index == 0   ? product->n_acc
                                                                           : index == 1 ? product->n_a
                                                                                        : product->n_b);
    return new_variable(s, type, "list");
  }
  if (strcmp(token, "map") == 0) return ir_symbol(s->module, "map_A");
  if (strcmp(token, "tensor") == 0) return ir_value(s->module, s->kernel->parameters[0]);
  if (strcmp(token, "dim") == 0) {
    static const char *const names[] = {"M", "L", "F", "D"};
    g_auto(GStrv) words = g_strsplit(s->row->signature, " ", 2);
    NumberType type = type_of_token(s, words[0]).element;
    return ir_dim(s->module, names[type == NUMBER_F64   ? 3
                                   : type == NUMBER_F32 ? 2
                                                        : number_bits(type) == 64]);
  }
  if (s->row->code == OP_ADDRESS && shared) return ir_name(s->module, "shared");
  if (s->row->code == OP_REGISTERS) return ir_int(s->module, 64);
  IrType type = type_of_token(s, token);
  if (type.kind == TYPE_NONE) return ir_name(s->module, token); /* a keyword */
  IrExpr *value = new_variable(s, type, "x");
  return shared || strcmp(token, "global") == 0
             ? ir_binary(s->module, OPERATOR_ADD, value, ir_int(s->module, 16))
             : value;
}

static IrExpr *int_list(Sample *s, int a, int b, int c)
{
  IrExpr *items[] = {ir_int(s->module, a), ir_int(s->module, b), ir_int(s->module, c)};
  return ir_list(s->module, 3, items);
}

static IrExpr *attribute_sample(Sample *s, IrAttributeKey key)
{
  const ProductSample *product = product_sample(s->row);
  switch (key) {
  case ATTR_SHAPE: return int_list(s, product->m, product->n, product->k);
  case ATTR_TYPES: {
    IrExpr *items[] = {ir_name(s->module, product->a), ir_name(s->module, product->a),
                       ir_name(s->module, product->acc)};
    return ir_list(s->module, 3, items);
  }
  case ATTR_BARRIER:
    return ir_binary(s->module, OPERATOR_ADD, new_variable(s, ir_scalar(NUMBER_U32), "b"),
                     ir_int(s->module, 8));
  case ATTR_VALID: return new_variable(s, ir_scalar(NUMBER_U32), "v");
  case ATTR_ACCUMULATE: return new_variable(s, ir_predicate(), "p");
  case ATTR_MULTICAST: return ir_int(s->module, 3);
  case ATTR_BYTES: return ir_int(s->module, 8);
  case ATTR_THREADS: return ir_int(s->module, 64);
  case ATTR_PENDING:
  case ATTR_FILL: return ir_int(s->module, 0);
  case ATTR_COUNT:
  case ATTR_ID:
  case ATTR_PEER: return ir_int(s->module, 1);
  case ATTR_WIDTH: return ir_int(s->module, 16);
  case ATTR_CACHE: return ir_name(s->module, "evict_first");
  case ATTR_ROUND: return ir_name(s->module, "down");
  case ATTR_MODE: return ir_name(s->module, s->variant ? "up" : "xor");
  case ATTR_REDUCE: return ir_name(s->module, "add");
  case ATTR_TYPE: /* the narrowest that the register can hold */
    return ir_name(s->module, strstr(s->row->signature, "b16") != NULL   ? "b16"
                              : strstr(s->row->signature, "b64") != NULL ? "s64"
                              : s->variant == 0                          ? "f32"
                                                                         : "u8");
  default: return NULL; /* a flag */
  }
}

static void sample_attributes(Sample *s, IrOp *op)
{
  g_auto(GStrv) words = g_strsplit(s->row->attributes, " ", -1);
  for (unsigned i = 0; words[i] != NULL; i++) {
    char *word = words[i], *equals = strchr(word, '=');
    bool optional = *word != '\0' && word[strlen(word) - 1] == '?';
    IrAttributeKey key;
    if (*word == '\0' || (optional && !s->optional)) continue;
    size_t length = equals != NULL ? (size_t)(equals - word) : strlen(word) - optional;
    assert_true(attribute_key_parse(word, length, &key));
    IrExpr *value = attribute_sample(s, key);
    if (equals != NULL && key != ATTR_TYPES)
      value = g_ascii_isdigit(equals[1]) ? ir_int(s->module, g_ascii_strtoll(equals + 1, NULL, 10))
                                         : ir_name(s->module, equals + 1);
    ir_attribute_set(op, key, value);
  }
}

/* One op that fits the row. A star becomes two registers (coordinates: three). */
static void sample_op(Sample *s)
{
  g_auto(GStrv) words = g_strsplit(s->row->signature, " ", -1);
  g_autoptr(GPtrArray) operands = g_ptr_array_new();
  g_autoptr(GPtrArray) results = g_ptr_array_new();
  bool arrow = false;
  for (unsigned i = 0, operand = 0; words[i] != NULL; i++) {
    if (strcmp(words[i], "<-") == 0) {
      arrow = true;
      continue;
    }
    size_t length = strlen(words[i]);
    bool star = words[i][length - 1] == '*';
    if (star) words[i][length - 1] = '\0';
    unsigned n = !star ? 1 : strcmp(words[i], "i32") == 0 ? 3 : 2;
    for (unsigned k = 0; k < n; k++) {
      if (arrow)
        g_ptr_array_add(operands, sample_operand(s, words[i], operand));
      else
        g_ptr_array_add(results, words[i]);
    }
    operand += arrow;
  }
  IrOp *op = ir_emit_array(&s->builder, s->row->code, operands->len, (IrExpr *const *)operands->pdata);
  for (unsigned i = 0; i < results->len; i++)
    ir_result(op, "r", type_of_token(s, results->pdata[i]));
  sample_attributes(s, op);
  if (s->variant == VARIANTS - 1) { /* the last one predicated */
    IrBuilder before = ir_builder_before(op);
    IrOp *guard = ir_emit(&before, OP_VAR, 0);
    IrValue *predicate = ir_result(guard, "guard", ir_predicate());
    predicate->variable = true;
    ir_attribute_set(op, ATTR_WHEN, ir_value(s->module, predicate));
  }
}

static void sample_map(Sample *s)
{
  IrOp *map = ir_emit(&s->builder, OP_MAP, 1, ir_value(s->module, s->kernel->parameters[0]));
  map->symbol = "map_A";
  ir_attribute_set(map, ATTR_BOX, int_list(s, 8, 8, 64));
}

static void add_kernel(IrModule *module, const PtxRow *row, unsigned variant, bool optional, unsigned index)
{
  g_autofree char *name = g_strdup_printf("row_%u", index);
  Sample s = {.module = module,
              .kernel = ir_function_new(module, name, true),
              .row = row,
              .variant = variant,
              .optional = optional};
  IrType tensor = {.kind = TYPE_TENSOR, .element = NUMBER_BF16, .count = 1, .rank = 1};
  tensor.dims[0] = ir_int(module, 1024);
  ir_parameter_new(s.kernel, "A", tensor);
  ir_dim_new(s.kernel, "M", NUMBER_S32);
  ir_dim_new(s.kernel, "L", NUMBER_S64);
  ir_dim_new(s.kernel, "F", NUMBER_F32);
  ir_dim_new(s.kernel, "D", NUMBER_F64);
  ir_launch_set(s.kernel, ATTR_THREADS, ir_int(module, 128));
  s.builder = ir_builder_at_end(s.kernel->body);
  if (*row->family != '\0') sample_map(&s);
  sample_op(&s);
}

static char *find_assembler(void)
{
  const char *given = g_getenv("ADLGEN_PTXAS");
  if (given != NULL) return g_strdup(given);
  char *found = g_find_program_in_path("ptxas");
  if (found == NULL && g_file_test("/usr/local/cuda/bin/ptxas", G_FILE_TEST_IS_EXECUTABLE))
    found = g_strdup("/usr/local/cuda/bin/ptxas");
  return found;
}

static void assemble(const char *ptx, const char *target)
{
  g_autofree char *assembler = find_assembler();
  if (assembler == NULL) {
    print_message("no assembler: text only\n");
    return;
  }
  g_autofree char *folder = g_dir_make_tmp("adlgen-rows-XXXXXX", NULL);
  g_autofree char *file = g_build_filename(folder, "rows.ptx", NULL),
                  *out = g_build_filename(folder, "rows.cubin", NULL);
  g_autofree char *arch = g_strdup_printf("-arch=%s", target);
  g_autofree char *messages = NULL;
  const char *argv[] = {assembler, arch, file, "-o", out, NULL};
  int status = -1;
  assert_true(g_file_set_contents(file, ptx, -1, NULL));
  assert_true(
      g_spawn_sync(NULL, (char **)argv, NULL, G_SPAWN_DEFAULT, NULL, NULL, NULL, &messages, &status, NULL));
  if (status != 0) {
    g_auto(GStrv) lines = g_strsplit(messages, "\n", 40);
    for (unsigned i = 0; lines[i] != NULL && i < 30; i++) {
      const char *number = strstr(lines[i], "line ");
      g_auto(GStrv) text = g_strsplit(ptx, "\n", -1);
      gint64 line = number != NULL ? g_ascii_strtoll(number + 5, NULL, 10) : 0;
      print_message("%s\n      %s\n", lines[i],
                    line > 0 && line <= g_strv_length(text) ? text[line - 1] : "");
    }
  }
  g_unlink(file);
  g_unlink(out);
  g_rmdir(folder);
  assert_int_equal(status, 0);
}

/* Which samples the GPU can do: what it lacks must be said so. */
static bool can_emit(const Gpu *gpu, const PtxRow *row, unsigned variant, bool optional)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(IrModule) module = ir_module_new(IR_THREAD);
  add_kernel(module, row, variant, optional, 0);
  g_autofree char *text = ptx_emit(module, gpu, &error);
  if (text != NULL) return true;
  const Diagnostic *diagnostic = error_diagnostics(error)->pdata[0];
  if (strcmp(diagnostic->code, "missing-family") != 0 && strcmp(diagnostic->code, "no-product") != 0) {
    g_autofree char *message = error_to_text(error, false);
    fail_msg("row '%s' of %s: %s", row->signature, ir_op_info(row->code)->name, message);
  }
  return false;
}

/* Emits what the GPU can do, assembles it, and marks the rows. */
static void check_gpu(const Gpu *gpu, bool *seen)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(IrModule) module = ir_module_new(IR_THREAD);
  unsigned n, emitted = 0, index = 0;
  const PtxRow *rows = ptx_rows(&n);
  for (unsigned i = 0; i < n; i++) {
    bool any = false;
    for (unsigned variant = 0; variant < VARIANTS; variant++)
      for (unsigned optional = 0; optional < 2; optional++) {
        if (!can_emit(gpu, &rows[i], variant, optional)) continue;
        add_kernel(module, &rows[i], variant, optional, index++);
        any = true;
      }
    emitted += any;
    seen[i] |= any;
  }
  g_autofree char *ptx = ptx_emit(module, gpu, &error);
  if (ptx == NULL) fail_msg("%s", error->message);
  print_message("%s: %u of %u rows\n", gpu->target, emitted, n);
  assemble(ptx, gpu->target);
}

/* One GPU of each target that there is a description for; together they have to reach every row. */
static void test_rows(void **state)
{
  g_auto(GStrv) names = gpu_names();
  g_autoptr(GHashTable) targets = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  unsigned n;
  const PtxRow *rows = ptx_rows(&n);
  g_autofree bool *seen = g_new0(bool, n);
  for (unsigned i = 0; names[i] != NULL; i++) {
    g_autoptr(GError) error = NULL;
    g_autoptr(Gpu) gpu = gpu_load(names[i], &error);
    if (gpu == NULL) fail_msg("%s", error->message);
    if (g_hash_table_add(targets, g_strdup(gpu->target))) check_gpu(gpu, seen);
  }
  for (unsigned i = 0; i < n; i++)
    if (!seen[i])
      fail_msg("no GPU reaches row '%s' of %s", rows[i].signature, ir_op_info(rows[i].code)->name);
}

/* adl/targets.yaml says what PTX version the rows of a family need, so that a description whose version is
 * older is refused when it is read. Rows of no family are those of ordinary accesses and arithmetic. */
static void test_versions(void **state)
{
  g_autoptr(Source) source = data_load("adl/targets.yaml", NULL);
  g_autoptr(Document) document = document_parse(source, NULL);
  Node *families = node_get(document_root(document), "families");
  unsigned n;
  const PtxRow *rows = ptx_rows(&n);
  for (unsigned i = 0; i < n; i++) {
    if (!strcmp(rows[i].family, "float8")) continue; /* the versions of its products are higher */
    Node *family = node_get(families, *rows[i].family ? rows[i].family : "copy_plain");
    assert_non_null(family);
    unsigned emitted = (unsigned)(10 * g_ascii_strtod(node_get(family, "emitted")->text, NULL) + 0.5);
    if (rows[i].version > emitted)
      fail_msg("row '%s' needs PTX %u, but adl/targets.yaml has %u for %s", rows[i].signature,
               rows[i].version, emitted, rows[i].family);
  }
}

static void test_table(void **state)
{
  g_autofree char *fault = ptx_check_rows();
  if (fault != NULL) fail_msg("%s", fault);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_table), cmocka_unit_test(test_versions),
                                     cmocka_unit_test(test_rows)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
