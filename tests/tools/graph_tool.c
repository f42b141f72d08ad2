/* Reads an op description and prints what the front of the generator makes of it:
 *
 *   graph_tool check|graph|fusion|programs|evaluate|verify FILE [M=4096]...
 *   graph_tool plan FILE     reads a plan and writes it
 *   graph_tool program FILE  reads a fused operator's program and says which family takes it
 *   graph_tool operators
 *
 * check prints nothing but errors. fusion groups the nodes, programs prints what each group computes. evaluate prints what the reference makes of the
 * default data: per output the sum, the sum of squares and the first elements. verify carries out the fused
 * operators and compares them with the reference. operators prints
 * docs/operators.md. */
#include "execute/evaluate.h"
#include "generator/front/cut.h"
#include "generator/fusion/fusion.h"
#include "generator/program/family.h"
#include "plan/plan.h"
#include "tests/tools/interpret.h"
#include <math.h>
#include <string.h>

static void print_value(const char *name, const Value *value)
{
  double sum = 0, squares = 0;
  for (size_t i = 0; i < value->n; i++) {
    double x = value->floats ? value->floats[i] : (double)value->integers[i];
    sum += x;
    squares += x * x;
  }
  printf("%s: %s", name, number_name(value->type));
  for (unsigned i = 0; i < value->rank; i++)
    printf("%s%" G_GINT64_FORMAT, i ? " x " : " ", value->shape[i]);
  /* Sums that cancel out are 0 up to rounding. */
  if (fabs(sum) < 1e-9 * (double)value->n) sum = 0;
  printf(" sum %.6g squares %.6g first", sum, squares);
  for (size_t i = 0; i < value->n && i < 4; i++)
    printf(" %.6g", value->floats ? value->floats[i] : (double)value->integers[i]);
  printf("\n");
}

static int evaluate(const Graph *graph, GError **error)
{
  g_autoptr(GPtrArray) inputs = g_ptr_array_new_with_free_func((GDestroyNotify)tensor_free);
  for (unsigned i = 0; i < graph->n_inputs; i++) {
    Tensor *tensor = evaluate_default_input(graph, i, 1, 0, error);
    if (!tensor) return 1;
    g_ptr_array_add(inputs, tensor);
  }
  g_autoptr(GPtrArray) outputs = evaluate_graph(graph, (Tensor *const *)inputs->pdata, error);
  if (!outputs) return 1;
  for (unsigned i = 0; i < outputs->len; i++)
    print_value(graph->outputs[i]->name, outputs->pdata[i]);
  return 0;
}

static int verify(const Fusion *fusion, GError **error)
{
  double difference;
  if (!interpret_fusion(fusion, 0, &difference, error)) return 1;
  if (difference < 1e-9) return 0;
  error_set(error, ERROR_VERIFY, NULL, "fusion", NULL, "the fused operators differ from the graph by %.3g",
            difference);
  return 1;
}

static int rewrite_plan(Source *source, GError **error)
{
  g_autoptr(Plan) plan = plan_read(source, error);
  if (!plan) return 1;
  g_autofree char *text = plan_text(plan);
  fputs(text, stdout);
  return 0;
}

/* The program's text, which must read back to itself, and the family that takes it. */
static int show_program(const Program *program, GError **error)
{
  g_autofree char *text = program_print(program), *again = NULL;
  g_autoptr(Arena) arena = arena_new();
  g_autoptr(Source) source = source_new("<program>", text, strlen(text));
  const Program *back = program_read(arena, source, error);
  fputs(text, stdout);
  if (!back) return 1;
  again = program_print(back);
  if (!strcmp(text, again)) return 0;
  printf("reads back as\n%s", again);
  return 1;
}

static int read_program(Source *source, GError **error)
{
  g_autoptr(Arena) arena = arena_new();
  const Program *program = program_read(arena, source, error);
  if (!program || show_program(program, error)) return 1;
  FusedOperator *fused = family_match(program, error);
  if (!fused) return 1;
  fused->name = program->name;
  if (fused->program != program) {
    puts("bound as");
    if (show_program(fused->program, error)) return 1;
  }
  g_autofree char *text = fused_dump(fused);
  printf("family %s: %s\n%s", fused->family->name, fused->family->computes, text);
  return 0;
}

static int show_programs(const Fusion *fusion, GError **error)
{
  for (unsigned i = 0; i < fusion->n; i++)
    if (show_program(fusion->operators[i]->program, error)) return 1;
  return 0;
}

/* Nothing is fused across the edges of loops. */
static int check_parts(const Graph *graph, GError **error)
{
  g_autoptr(GPtrArray) parts = graph_cut(graph);
  for (unsigned i = 0; i < parts->len; i++) {
    g_autoptr(Fusion) fusion = fusion_build(((const GraphPart *)parts->pdata[i])->graph, NULL, error);
    if (!fusion) return 1;
  }
  return 0;
}

static int run(const char *command, const char *path, char **bindings_text, int n, GError **error)
{
  g_autoptr(Arena) arena = arena_new();
  g_autofree GraphBinding *bindings = g_new0(GraphBinding, n + 1);
  for (int i = 0; i < n; i++)
    if (!graph_binding_parse(arena, bindings_text[i], &bindings[i], error)) return 1;
  g_autoptr(Source) source = source_load(path, error);
  if (!source) return 1;
  if (!strcmp(command, "plan")) return rewrite_plan(source, error);
  if (!strcmp(command, "program")) return read_program(source, error);
  g_autoptr(Graph) graph = graph_read(source, bindings, (unsigned)n, error);
  if (!graph) return 1;
  if (!strcmp(command, "graph")) {
    g_autofree char *text = graph_dump(graph);
    fputs(text, stdout);
    return 0;
  }
  if (!strcmp(command, "evaluate")) return evaluate(graph, error);
  if (!strcmp(command, "check") && graph_has_loops(graph)) return check_parts(graph, error);
  g_autoptr(Fusion) fusion = fusion_build(graph, NULL, error);
  if (!fusion) return 1;
  if (!strcmp(command, "check")) return 0;
  if (!strcmp(command, "programs")) return show_programs(fusion, error);
  if (!strcmp(command, "verify")) return verify(fusion, error);
  g_autofree char *text = fusion_dump(fusion);
  fputs(text, stdout);
  return 0;
}

static void print_types(TypeMask mask)
{
  const char *separator = "";
  for (unsigned i = 0; i < NUMBER_TYPE_COUNT; i++)
    if (mask >> i & 1) {
      printf("%s%s", separator, number_name(i));
      separator = " ";
    }
}

static void print_attributes(const Operator *row)
{
  static const char *const kinds[] = {"int", "float", "ints", "string", "type", "floats", "strings", "graph"};
  for (unsigned i = 0; i < row->n_attributes; i++) {
    const OperatorAttribute *attribute = &row->attributes[i];
    printf("%s`%s` %s", i ? ", " : "", attribute->name, kinds[attribute->kind]);
    if (attribute->required)
      printf(" (required)");
    else if (attribute->kind == ATTRIBUTE_INT)
      printf(" = %" G_GINT64_FORMAT, attribute->integer);
    else if (attribute->kind == ATTRIBUTE_FLOAT)
      printf(" = %.9g", attribute->number);
    else if (attribute->kind == ATTRIBUTE_STRING)
      printf(" = %s", attribute->text);
  }
}

static void print_operators(void)
{
  static const char *const classes[] = {"elementwise", "matrix product", "row",  "view",
                                        "index",       "sequences",      "loop", "function"};
  unsigned n;
  const Operator *rows = operator_table(&n);
  printf(
      "# Operators\n\nPrinted from the operator table (`generator/front/operators.def`). Names and meanings "
      "are "
      "ONNX's. `since` is the first opset with\nthese inputs; a graph's opset picks the newest version that "
      "is not newer. An attribute that ONNX added later is wrong\nbefore; a type that it added later is "
      "taken "
      "in every opset. Kernels exist for the types in the column of that name;\nfurther ones that a "
      "description may name are understood, checked and evaluated by the reference, but refused with exit\n"
      "code 3 by `compile`. So is what only ONNX has: operators, attributes, types, and everything of other "
      "domains. What ONNX's\nown definitions (`generator/front/onnx.def`) do not admit is wrong, exit code "
      "1, but "
      "for these extensions: operands s8, u8, e4m3\nand e5m2 of MatMul and Gemm, s8 of PRelu, bf16 of "
      "Shrink, e4m3 and e5m2 of Split, Slice and Concat, tf32 wherever\nthere is f32, the attributes "
      "`accumulate`, `alpha` of MatMul (f32), `block_shape` and `masked_rows`, and the domain `adlgen`. "
      "Operators of kind "
      "`function` are\ndefined by others, which take their place while the graph is read.\n\n"
      "| operator | since | kind | inputs | outputs | kernels for | further types | attributes | result |\n"
      "|---|---|---|---|---|---|---|---|---|\n");
  for (unsigned i = 0; i < n; i++) {
    const Operator *row = &rows[i];
    if (row->class_ == OPERATOR_LOOP) continue; /* no description has it */
    printf("| %s%s%s | %u | %s | %u", row->domain, *row->domain ? "." : "", row->name, row->since,
           classes[row->class_], row->min_inputs);
    if (row->max_inputs == G_MAXUINT)
      printf("+");
    else if (row->max_inputs != row->min_inputs)
      printf("-%u", row->max_inputs);
    printf(" | %u", MIN(row->min_outputs, 1));
    if (row->max_outputs == G_MAXUINT)
      printf("+");
    else if (row->max_outputs > 1)
      printf("-%u", row->max_outputs);
    printf(" | ");
    print_types(row->generated);
    printf(" | ");
    print_types(row->types & ~row->generated);
    printf(" | ");
    print_attributes(row);
    printf(" | ");
    for (const char *at = row->formula; *at; at++)
      printf("%s%c", *at == '|' ? "\\" : "", *at);
    printf(" |\n");
  }
}

int main(int argc, char **argv)
{
  g_autoptr(GError) error = NULL;
  if (argc == 2 && !strcmp(argv[1], "operators")) {
    print_operators();
    return 0;
  }
  if (argc < 3) return ERROR_USAGE;
  if (!run(argv[1], argv[2], argv + 3, argc - 3, &error)) return 0;
  error_print(error, stderr, false);
  return error_exit_code(error);
}
