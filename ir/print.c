/* The printer. Canonical: one statement a line, parentheses only where needed, attributes in the table's
 * order, value names unique in their function; reading the text back and printing it gives the same bytes. */
#include "ir/format.h"
#include <math.h>
#include <string.h>

/* ---- Expressions ---- */

/* Binding strength, weakest first. */
enum { BIND_RANGE, BIND_SELECT, BIND_BINARY, BIND_UNARY = 20, BIND_POSTFIX, BIND_PRIMARY };

static const struct {
  const char *text;
  unsigned strength;
} operators[OPERATOR_COUNT] = {
    [OPERATOR_NEG] = {"-", BIND_UNARY},        [OPERATOR_NOT] = {"~", BIND_UNARY},
    [OPERATOR_LNOT] = {"!", BIND_UNARY},       [OPERATOR_LOR] = {"||", BIND_BINARY},
    [OPERATOR_LAND] = {"&&", BIND_BINARY + 1}, [OPERATOR_OR] = {"|", BIND_BINARY + 2},
    [OPERATOR_XOR] = {"^", BIND_BINARY + 3},   [OPERATOR_AND] = {"&", BIND_BINARY + 4},
    [OPERATOR_EQ] = {"==", BIND_BINARY + 5},   [OPERATOR_NE] = {"!=", BIND_BINARY + 5},
    [OPERATOR_LT] = {"<", BIND_BINARY + 6},    [OPERATOR_LE] = {"<=", BIND_BINARY + 6},
    [OPERATOR_GT] = {">", BIND_BINARY + 6},    [OPERATOR_GE] = {">=", BIND_BINARY + 6},
    [OPERATOR_SHL] = {"<<", BIND_BINARY + 7},  [OPERATOR_SHR] = {">>", BIND_BINARY + 7},
    [OPERATOR_ADD] = {"+", BIND_BINARY + 8},   [OPERATOR_SUB] = {"-", BIND_BINARY + 8},
    [OPERATOR_MUL] = {"*", BIND_BINARY + 9},   [OPERATOR_DIV] = {"/", BIND_BINARY + 9},
    [OPERATOR_MOD] = {"%", BIND_BINARY + 9},
};

const char *ir_operator_text(IrOperator op)
{
  return operators[op].text;
}

static unsigned strength_of(const IrExpr *expr)
{
  switch (expr->kind) {
  case EXPR_RANGE: return BIND_RANGE;
  case EXPR_SELECT: return BIND_SELECT;
  case EXPR_UNARY:
  case EXPR_BINARY: return operators[expr->operator_].strength;
  case EXPR_INT: return expr->integer < 0 ? BIND_UNARY : BIND_PRIMARY;
  case EXPR_FLOAT: return signbit(expr->number) && !isnan(expr->number) ? BIND_UNARY : BIND_PRIMARY;
  case EXPR_FIELD:
  case EXPR_INDEX:
  case EXPR_TRANSPOSED: return BIND_POSTFIX;
  default: return BIND_PRIMARY;
  }
}

/* The shortest text that reads back as the same number and is seen to be a float. */
static void print_float(GString *out, double number)
{
  if (isnan(number)) {
    g_string_append(out, "nan");
  } else if (isinf(number)) {
    g_string_append(out, number < 0 ? "-inf" : "inf");
  } else {
    char text[G_ASCII_DTOSTR_BUF_SIZE];
    static const char *const formats[] = {"%.9g", "%.15g", "%.16g", "%.17g"};
    for (unsigned i = 0; i < G_N_ELEMENTS(formats); i++) {
      g_ascii_formatd(text, sizeof text, formats[i], number);
      if (g_ascii_strtod(text, NULL) == number) break;
    }
    g_string_append(out, text);
    if (!strpbrk(text, ".e")) g_string_append(out, ".0");
  }
}

/* After `^` the word T would read as the transposition sign. */
static bool starts_with_t(const IrExpr *expr)
{
  while (expr->kind == EXPR_FIELD || expr->kind == EXPR_INDEX || expr->kind == EXPR_TRANSPOSED ||
         expr->kind == EXPR_BINARY)
    expr = expr->items[0];
  if (expr->kind == EXPR_VALUE)
    return expr->value->type.kind == TYPE_TENSOR && !strcmp(expr->value->name, "T");
  return (expr->kind == EXPR_DIM || expr->kind == EXPR_NAME) && !strcmp(expr->name, "T");
}

static void print_expr(GString *out, const IrExpr *expr, unsigned least);

static void print_items(GString *out, const IrExpr *expr, unsigned first)
{
  for (unsigned i = first; i < expr->n; i++) {
    if (i > first) g_string_append(out, ", ");
    print_expr(out, expr->items[i], BIND_RANGE);
  }
}

static void print_binary(GString *out, const IrExpr *expr)
{
  unsigned strength = operators[expr->operator_].strength;
  const IrExpr *right = expr->items[1];
  print_expr(out, expr->items[0], strength);
  g_string_append_c(out, ' ');
  g_string_append(out, operators[expr->operator_].text);
  g_string_append_c(out, ' ');
  bool hide = expr->operator_ == OPERATOR_XOR && starts_with_t(right);
  print_expr(out, right, hide ? BIND_PRIMARY + 1 : strength + 1);
}

static void print_int(GString *out, int64_t number)
{
  char text[NUMBER_DECIMAL_MAX];
  if (number < 0) g_string_append_c(out, '-');
  number_decimal((uint64_t)(number < 0 ? -number : number), text);
  g_string_append(out, text);
}

static void print_node(GString *out, const IrExpr *expr)
{
  switch (expr->kind) {
  case EXPR_INT:
    if (expr->integer == INT64_MIN)
      g_string_append(out, "-9223372036854775807 - 1");
    else
      print_int(out, expr->integer);
    break;
  case EXPR_FLOAT: print_float(out, expr->number); break;
  case EXPR_VALUE:
    if (expr->value->type.kind != TYPE_TENSOR) g_string_append_c(out, '%');
    g_string_append(out, expr->value->name);
    break;
  case EXPR_SYMBOL: g_string_append_printf(out, "@%s", expr->name); break;
  case EXPR_PARAMETER: g_string_append_printf(out, "$%s", expr->name); break;
  case EXPR_DIM:
  case EXPR_NAME: g_string_append(out, expr->name); break;
  case EXPR_UNARY:
    g_string_append(out, operators[expr->operator_].text);
    print_expr(out, expr->items[0], BIND_UNARY + 1);
    break;
  case EXPR_BINARY: print_binary(out, expr); break;
  case EXPR_SELECT:
    print_expr(out, expr->items[0], BIND_SELECT + 1);
    g_string_append(out, " ? ");
    print_expr(out, expr->items[1], BIND_SELECT);
    g_string_append(out, " : ");
    print_expr(out, expr->items[2], BIND_SELECT);
    break;
  case EXPR_CALL:
    g_string_append_printf(out, "%s(", expr->name);
    print_items(out, expr, 0);
    g_string_append_c(out, ')');
    break;
  case EXPR_FIELD:
    print_expr(out, expr->items[0], BIND_POSTFIX);
    g_string_append_printf(out, ".%s", expr->name);
    break;
  case EXPR_INDEX:
    print_expr(out, expr->items[0], BIND_POSTFIX);
    g_string_append_c(out, '[');
    print_items(out, expr, 1);
    g_string_append_c(out, ']');
    break;
  case EXPR_RANGE:
    print_expr(out, expr->items[0], BIND_SELECT);
    g_string_append(out, " .. ");
    print_expr(out, expr->items[1], BIND_SELECT);
    break;
  case EXPR_LIST:
    g_string_append_c(out, '[');
    print_items(out, expr, 0);
    g_string_append_c(out, ']');
    break;
  case EXPR_TRANSPOSED:
    print_expr(out, expr->items[0], BIND_POSTFIX);
    g_string_append(out, "^T");
    break;
  }
}

static void print_expr(GString *out, const IrExpr *expr, unsigned least)
{
  bool lowest = expr->kind == EXPR_INT && expr->integer == INT64_MIN;
  bool parentheses = lowest || strength_of(expr) < least;
  if (parentheses) g_string_append_c(out, '(');
  print_node(out, expr);
  if (parentheses) g_string_append_c(out, ')');
}

const char *ir_expr_text(IrModule *module, const IrExpr *expr)
{
  GString *out = g_string_new(NULL);
  print_expr(out, expr, BIND_RANGE);
  const char *text = arena_strndup(module->arena, out->str, out->len);
  g_string_free(out, TRUE);
  return text;
}

/* ---- Types ---- */

static void print_extents(GString *out, IrExpr *const *extents, unsigned n)
{
  g_string_append_c(out, '[');
  for (unsigned i = 0; i < n; i++) {
    if (i) g_string_append(out, ", ");
    print_expr(out, extents[i], BIND_SELECT);
  }
  g_string_append_c(out, ']');
}

static void print_element(GString *out, const IrType *type)
{
  if (type->element_parameter)
    print_expr(out, type->element_parameter, BIND_PRIMARY);
  else
    g_string_append(out, number_name(type->element));
}

static void print_layout(GString *out, const Layout *layout)
{
  Arena *arena = arena_new();
  g_string_append_printf(out, " in %s", layout_text(arena, layout));
  arena_free(arena);
}

static void print_type(GString *out, const IrType *type)
{
  switch (type->kind) {
  case TYPE_NONE: g_string_append(out, "none"); break;
  case TYPE_PREDICATE: g_string_append(out, "predicate"); break;
  case TYPE_CURSOR: g_string_append(out, "cursor"); break;
  case TYPE_SCALAR:
    print_element(out, type);
    if (type->count > 1) g_string_append_printf(out, "[%u]", type->count);
    break;
  case TYPE_TILE:
  case TYPE_TENSOR:
    g_string_append(out, type->kind == TYPE_TILE ? "tile<" : "tensor<");
    print_element(out, type);
    g_string_append_c(out, '>');
    print_extents(out, type->dims, type->rank);
    if (type->kind == TYPE_TENSOR && type->rank && type->strides[0]) {
      g_string_append(out, " strides ");
      print_extents(out, type->strides, type->rank);
    }
    if (type->align) g_string_append_printf(out, " align %u", type->align);
    if (type->constant) g_string_append(out, " constant");
    if (type->layout) print_layout(out, type->layout);
    break;
  }
}

char *ir_type_text(const IrType *type)
{
  GString *out = g_string_new(NULL);
  print_type(out, type);
  return g_string_free(out, FALSE);
}

/* ---- Operations ---- */

static void print_region(GString *out, const IrRegion *region, unsigned indent);

static void print_indent(GString *out, unsigned indent)
{
  for (unsigned i = 0; i < indent; i++)
    g_string_append(out, "  ");
}

/* `%a, %b: f32, %i: s32`: neighbours of one type share it. */
static void print_values(GString *out, IrValue *const *values, unsigned n, const IrType *hidden)
{
  for (unsigned i = 0; i < n; i++) {
    g_string_append(out, i ? ", %" : "%");
    g_string_append(out, values[i]->name);
    const IrType *type = &values[i]->type;
    if (i + 1 < n && ir_type_equal(type, &values[i + 1]->type)) continue;
    if (hidden && ir_type_equal(type, hidden)) continue;
    g_string_append(out, ": ");
    print_type(out, type);
  }
}

static void print_operand_list(GString *out, const IrOp *op, unsigned from, unsigned n)
{
  for (unsigned i = 0; i < n; i++) {
    if (i) g_string_append(out, ", ");
    print_expr(out, op->operands[from + i], BIND_SELECT);
  }
}

static void print_symbol(GString *out, const IrOp *op, bool typed)
{
  g_string_append_printf(out, " @%s", op->symbol ? op->symbol : "?");
  if (!typed || !op->declared) return;
  g_string_append(out, ": ");
  print_type(out, op->declared);
}

static void print_arguments(GString *out, const IrOp *op)
{
  const IrRegion *body = op->n_regions ? op->regions[0] : NULL;
  if (!body) return;
  IrType usual = ir_scalar(NUMBER_S32);
  g_string_append_c(out, ' ');
  print_values(out, body->arguments, body->n_arguments, &usual);
}

static void print_call(GString *out, const IrOp *op, unsigned from, unsigned n)
{
  if (!n) return;
  g_string_append_c(out, ' ');
  print_expr(out, op->operands[from], BIND_PRIMARY);
  g_string_append_c(out, '(');
  print_operand_list(out, op, from + 1, n - 1);
  g_string_append_c(out, ')');
}

/* One item of the row's format; *next is the first operand not printed yet. */
static void print_item(GString *out, const IrOp *op, const OpFormat *format, unsigned at, unsigned *next)
{
  const FormatItem *item = &format->items[at];
  unsigned n = format_operands(format, item, op->n_operands), from = *next;
  n = MIN(n, op->n_operands - MIN(from, op->n_operands));
  *next += n;
  switch (item->kind) {
  case FORMAT_LITERAL: {
    /* The comma before an empty list goes with it. */
    bool comma = !strcmp(item->text, ",");
    bool empty = at + 1 < format->n_items && format->items[at + 1].kind == FORMAT_LIST &&
                 op->n_operands <= format->fixed;
    if (comma && empty) break;
    if (!comma) g_string_append_c(out, ' ');
    g_string_append(out, item->text);
    break;
  }
  case FORMAT_SYMBOL:
  case FORMAT_TYPED_SYMBOL: print_symbol(out, op, item->kind == FORMAT_TYPED_SYMBOL); break;
  case FORMAT_ARGUMENTS: print_arguments(out, op); break;
  case FORMAT_CALL: print_call(out, op, from, n); break;
  case FORMAT_DEFAULTED:
    if (!n || (op->operands[from]->kind == EXPR_INT && op->operands[from]->integer == item->otherwise)) break;
    g_string_append_printf(out, " %s ", item->text);
    print_expr(out, op->operands[from], BIND_SELECT);
    break;
  default:
    if (!n) break;
    g_string_append_c(out, ' ');
    if (item->kind == FORMAT_POSTFIX)
      print_expr(out, op->operands[from], BIND_POSTFIX);
    else
      print_operand_list(out, op, from, n);
  }
}

static void print_attributes(GString *out, const IrAttribute *attributes, unsigned n)
{
  for (unsigned i = 0; i < n; i++) {
    g_string_append_c(out, ' ');
    g_string_append(out, ir_attribute_name(attributes[i].key));
    if (!attributes[i].value) continue;
    g_string_append_c(out, ' ');
    print_expr(out, attributes[i].value, BIND_RANGE);
  }
}

static void print_head(GString *out, const IrOp *op)
{
  if (op->n_results) {
    print_values(out, op->results, op->n_results, NULL);
    g_string_append(out, " = ");
  }
  const OpFormat *format = op_format(op->code);
  g_string_append(out, ir_op_info(op->code)->name);
  unsigned next = 0;
  for (unsigned i = 0; i < format->n_items; i++)
    print_item(out, op, format, i, &next);
  print_attributes(out, op->attributes, op->n_attributes);
}

static void print_op(GString *out, const IrOp *op, unsigned indent)
{
  print_indent(out, indent);
  print_head(out, op);
  for (unsigned i = 0; i < op->n_regions; i++) {
    g_string_append(out, i ? " else {\n" : " {\n");
    print_region(out, op->regions[i], indent + 1);
    print_indent(out, indent);
    g_string_append_c(out, '}');
  }
  g_string_append_c(out, '\n');
}

static void print_region(GString *out, const IrRegion *region, unsigned indent)
{
  for (const IrOp *op = region->first; op; op = op->next)
    print_op(out, op, indent);
}

char *ir_print_op(const IrOp *op)
{
  GString *out = g_string_new(NULL);
  print_head(out, op);
  return g_string_free(out, FALSE);
}

/* ---- Functions and the module ---- */

static void print_signature(GString *out, const IrFunction *function)
{
  g_string_append_printf(out, "%s %s(", function->is_kernel ? "kernel" : "func", function->name);
  for (unsigned i = 0; i < function->n_parameters; i++) {
    const IrValue *value = function->parameters[i];
    g_string_append_printf(out, "%s%s%s: ", i ? ", " : "", value->type.kind == TYPE_TENSOR ? "" : "%",
                           value->name);
    print_type(out, &value->type);
  }
  g_string_append_c(out, ')');
  for (unsigned i = 0; i < function->n_results; i++) {
    g_string_append(out, i ? ", " : " -> ");
    print_type(out, &function->results[i]);
  }
}

/* A sub-kernel's dims are the bare names of its signature; only a kernel declares them. */
static void print_dims(GString *out, const IrFunction *function)
{
  for (unsigned i = 0; i < function->n_dims && function->is_kernel; i++) {
    const IrDim *dim = &function->dims[i];
    g_string_append_printf(out, "%s%s: %s", i ? ", " : "\n    dims ", dim->name, number_name(dim->type));
    if (dim->multiple) g_string_append_printf(out, " multiple %" G_GINT64_FORMAT, dim->multiple);
    if (dim->maximum) g_string_append_printf(out, " maximum %" G_GINT64_FORMAT, dim->maximum);
    if (!dim->launch) continue;
    g_string_append(out, " = ");
    print_expr(out, dim->launch, BIND_SELECT);
  }
}

static int by_key(gconstpointer a, gconstpointer b)
{
  const IrAttribute *x = a, *y = b;
  return (int)x->key - (int)y->key;
}

static void print_function(GString *out, const IrFunction *function)
{
  g_string_append_c(out, '\n');
  print_signature(out, function);
  print_dims(out, function);
  if (function->n_launch) {
    g_autofree IrAttribute *sorted =
        g_memdup2(function->launch, function->n_launch * sizeof *function->launch);
    qsort(sorted, function->n_launch, sizeof *sorted, by_key);
    g_string_append(out, "\n    launch");
    print_attributes(out, sorted, function->n_launch);
  }
  bool own_line = function->is_kernel && (function->n_dims || function->n_launch);
  g_string_append(out, own_line ? "\n{\n" : " {\n");
  print_region(out, function->body, 1);
  g_string_append(out, "}\n");
}

static void print_domain(GString *out, const IrDomain *domain)
{
  if (!domain->values)
    g_string_append_printf(out, " in %" G_GINT64_FORMAT " .. %" G_GINT64_FORMAT, domain->least, domain->most);
  if (domain->step > 1) g_string_append_printf(out, " step %" G_GINT64_FORMAT, domain->step);
  for (unsigned i = 0; i < domain->n; i++)
    g_string_append_printf(out, "%s%" G_GINT64_FORMAT "%s", i ? ", " : " in [", domain->values[i],
                           i + 1 < domain->n ? "" : "]");
}

static void print_parameters(GString *out, const char *word, const IrParameter *parameters, unsigned n)
{
  for (unsigned i = 0; i < n; i++) {
    const IrParameter *parameter = &parameters[i];
    g_string_append_printf(out, "%s %s: %s", parameter->outside ? "axis" : word, parameter->name,
                           parameter->kind);
    if (parameter->value) {
      g_string_append(out, " = ");
      print_expr(out, parameter->value, BIND_SELECT);
    }
    if (parameter->domain) print_domain(out, parameter->domain);
    if (parameter->condition) {
      g_string_append(out, " if ");
      print_expr(out, parameter->condition, BIND_SELECT);
    }
    if (parameter->decided_by) g_string_append_printf(out, " by %s", parameter->decided_by);
    g_string_append_c(out, '\n');
  }
}

static void print_names(GString *out, const char *word, const char *const *names, unsigned n)
{
  for (unsigned i = 0; i < n; i++)
    g_string_append_printf(out, "%s %s%s", i ? "" : word, names[i], i + 1 < n ? "" : "\n");
}

static void print_clause(GString *out, const char *word, const IrExpr *expr)
{
  if (!expr) return;
  g_string_append_printf(out, "%s", word);
  print_expr(out, expr, BIND_SELECT);
}

char *ir_try_line_text(const IrTryLine *line)
{
  GString *out = g_string_new(line->kind == TRY_LET ? "let " : line->kind == TRY_IF ? "if " : "");
  for (unsigned i = 0; i < line->n; i++)
    g_string_append_printf(out, "%s%s", i ? ", " : "", line->names[i]);
  if (line->values) {
    g_string_append(out, line->kind == TRY_VALUES ? " in " : " = ");
    print_expr(out, line->values, line->values->kind == EXPR_RANGE ? BIND_RANGE : BIND_SELECT);
  }
  print_clause(out, " step ", line->step);
  print_clause(out, line->kind == TRY_IF ? "" : " if ", line->condition);
  print_clause(out, " most ", line->most);
  return g_string_free(out, FALSE);
}

static void print_tries(GString *out, const IrModule *module)
{
  for (unsigned i = 0; i < module->n_tries; i++) {
    g_string_append(out, module->tries[i].measured ? "try measured {\n" : "try {\n");
    for (unsigned j = 0; j < module->tries[i].n; j++) {
      g_autofree char *line = ir_try_line_text(&module->tries[i].lines[j]);
      g_string_append_printf(out, "  %s\n", line);
    }
    g_string_append(out, "}\n");
  }
}

static const char *level_name(IrLevel level)
{
  return level == IR_TILE ? "tile" : level == IR_STAGED ? "staged" : "thread";
}

char *ir_print(const IrModule *module)
{
  GString *out = g_string_new(NULL);
  g_string_append_printf(out, "adlgen-ir %d %s\n", IR_TEXT_VERSION, level_name(module->level));
  if (module->gpu)
    g_string_append_printf(out, "gpu %s%s%s\n", module->gpu, module->gpu_hash ? " " : "",
                           module->gpu_hash ? module->gpu_hash : "");
  if (module->after_pass) g_string_append_printf(out, "after %s\n", module->after_pass);
  print_parameters(out, "bound", module->bound, module->n_bound);
  print_parameters(out, "param", module->parameters, module->n_parameters);
  print_names(out, "key", module->key, module->n_key);
  print_names(out, "alike", module->alike, module->n_alike);
  print_tries(out, module);
  for (unsigned i = 0; i < module->n_functions; i++) {
    ir_name_values(module->functions[i]);
    print_function(out, module->functions[i]);
  }
  return g_string_free(out, FALSE);
}
