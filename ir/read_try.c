/* `try { ... }` in the head of a template: which values of its key are tried together, and in which order. Lines nest:
 * each one says of what the lines above it gave which values go on, so the last parameter's values change fastest. */
#include "ir/calls.h"
#include "ir/reader.h"
#include <string.h>

#define MOST_NAMES 4 /* that one line gives values together */

typedef struct Open {
  Reader *reader;
  IrTry *block;
  GArray *lines; /* IrTryLine */
} Open;

/* Is the leaf known before there is a kernel? */
static void check_leaf(const IrExpr *expr, void *data)
{
  Reader *reader = data;
  const IrModule *module = reader->module;
  const IrCallInfo *call = expr->kind == EXPR_CALL ? ir_call_info(expr->name) : NULL;
  bool strange = expr->kind == EXPR_SYMBOL || expr->kind == EXPR_FLOAT || expr->kind == EXPR_NAME ||
                 expr->kind == EXPR_INDEX || expr->kind == EXPR_TRANSPOSED;
  if (strange || (call && (!call->constant || call->arguments != 2)))
    read_fail(reader, &expr->mark, "try", NULL,
              "what is tried is computed of whole numbers, parameters and facts");
  if (expr->kind != EXPR_PARAMETER) return;
  const IrParameter *parameter = ir_parameter_find(module, expr->name);
  if (parameter && strcmp(parameter->kind, "int"))
    read_fail(reader, &expr->mark, "try", NULL, "`%s` is no int", expr->name);
  if (parameter) return;
  g_autofree const char **all = g_new0(const char *, module->n_parameters + 1);
  for (unsigned i = 0; i < module->n_parameters; i++)
    all[i] = module->parameters[i].name;
  g_autofree char *hint = read_nearest(expr->name, all);
  read_fail(reader, &expr->mark, "undefined", hint, "no parameter above is called `%s`", expr->name);
}

/* An expression of parameters and of facts: bare words, which whoever walks the space knows. */
static IrExpr *read_fact_expr(Reader *reader)
{
  reader->nodes = 0;
  reader->facts_allowed = true;
  IrExpr *expr = read_expr(reader);
  reader->facts_allowed = false;
  if (expr) ir_expr_visit(expr, check_leaf, reader);
  return reader->failed ? NULL : expr;
}

/* Lists have no place in arithmetic. */
static bool check_number(Reader *reader, const IrExpr *expr)
{
  if (expr->kind == EXPR_LIST || expr->kind == EXPR_RANGE)
    return read_fail(reader, &expr->mark, "try", NULL, "a number is wanted here, not several");
  for (unsigned i = 0; i < expr->n; i++)
    if (expr->kind != EXPR_FIELD && !check_number(reader, expr->items[i])) return false;
  return true;
}

static bool read_number(Reader *reader, IrExpr **number)
{
  *number = read_fact_expr(reader);
  return *number && check_number(reader, *number);
}

/* ---- what a line names ---- */

static bool is_given(const Open *open, const char *name)
{
  for (unsigned i = 0; i < open->lines->len; i++) {
    const IrTryLine *line = &g_array_index(open->lines, IrTryLine, i);
    for (unsigned j = 0; j < line->n; j++)
      if (!strcmp(line->names[j], name)) return true;
  }
  return false;
}

/* Kernels that differ in a parameter that is tried have different names. */
static bool check_tried(const Open *open, const char *const *names, unsigned n, const char *name)
{
  const IrModule *module = open->reader->module;
  const Mark *mark = &open->reader->lexer.token.mark;
  bool key = false, twice = is_given(open, name);
  for (unsigned i = 0; i < n; i++)
    twice |= !strcmp(names[i], name);
  for (unsigned i = 0; i < module->n_key; i++)
    key |= !strcmp(module->key[i], name);
  if (twice)
    return read_fail(open->reader, mark, "redefined", NULL, "`%s` is given a value in this block already",
                     name);
  if (key) return true;
  if (ir_parameter_find(module, name))
    return read_fail(open->reader, mark, "try", "name it in `key`, which stands above",
                     "`%s` is not in the key: kernels that differ in it would have one name", name);
  g_autofree const char **all = g_new0(const char *, module->n_key + 1);
  memcpy(all, module->key, module->n_key * sizeof *all);
  g_autofree char *hint = read_nearest(name, all);
  return read_fail(open->reader, mark, "undefined", hint, "no parameter of a key above is called `%s`", name);
}

/* NAME[, NAME]... of parameters */
static bool read_names(Open *open, IrTryLine *line)
{
  Reader *reader = open->reader;
  const char *names[MOST_NAMES];
  do {
    if (reader->lexer.token.kind != TOKEN_WORD) return read_expected(reader, "a parameter's name");
    const char *name = read_text(reader);
    if (line->n == MOST_NAMES)
      return read_fail(reader, &reader->lexer.token.mark, "try", NULL,
                       "a line gives values to %d parameters at most", MOST_NAMES);
    if (!check_tried(open, names, line->n, name)) return false;
    names[line->n++] = name;
    read_next(reader);
  } while (read_accept(reader, ","));
  line->names = arena_memdup(reader->module->arena, names, line->n * sizeof *names);
  return true;
}

/* ---- what values ---- */

static bool check_value(Reader *reader, const char *name, const IrExpr *value)
{
  const IrParameter *parameter = ir_parameter_find(reader->module, name);
  int64_t number;
  if (!check_number(reader, value)) return false;
  if (!ir_expr_is_int(value, &number) || ir_domain_has(parameter->domain, number)) return true;
  g_autofree char *text = ir_domain_text(parameter->domain);
  return read_fail(reader, &value->mark, "domain", NULL, "`%s` is %s, not %" G_GINT64_FORMAT, name, text,
                   number);
}

/* One set of values: a number, or of several parameters a list with one of each. */
static bool check_item(Reader *reader, const IrTryLine *line, const IrExpr *item)
{
  if (line->n == 1) return check_value(reader, line->names[0], item);
  if (item->kind != EXPR_LIST || item->n != line->n)
    return read_fail(reader, &item->mark, "try", NULL, "%u parameters take lists of %u values", line->n,
                     line->n);
  for (unsigned i = 0; i < item->n; i++)
    if (!check_value(reader, line->names[i], item->items[i])) return false;
  return true;
}

/* A list, or a choice between lists. */
static bool check_list(Reader *reader, const IrTryLine *line, const IrExpr *list)
{
  if (list->kind == EXPR_SELECT)
    return check_number(reader, list->items[0]) && check_list(reader, line, list->items[1]) &&
           check_list(reader, line, list->items[2]);
  if (list->kind != EXPR_LIST || !list->n)
    return read_fail(reader, &list->mark, "try", "such as `bm in [64, 128]` or `bn in 16 .. 256 step 16`",
                     "values are wanted here: a list, or LOW .. HIGH");
  for (unsigned i = 0; i < list->n; i++)
    if (!check_item(reader, line, list->items[i])) return false;
  return true;
}

/* LOW .. HIGH [step STEP], both ends too */
static bool read_steps(Reader *reader, IrTryLine *line)
{
  const char *name = line->names[0];
  IrExpr *high = read_fact_expr(reader);
  if (!high) return false;
  if (line->n > 1)
    return read_fail(reader, &line->values->mark, "try", NULL, "%u parameters take lists of %u values",
                     line->n, line->n);
  if (!check_value(reader, name, line->values) || !check_value(reader, name, high)) return false;
  line->values = ir_range(reader->module, line->values, high);
  if (!read_accept(reader, "step")) return true;
  int64_t step;
  if (!read_number(reader, &line->step)) return false;
  if (!ir_expr_is_int(line->step, &step) || step >= 1) return true;
  return read_fail(reader, &line->step->mark, "try", NULL, "a step is 1 or more");
}

static bool read_values(Open *open, IrTryLine *line)
{
  Reader *reader = open->reader;
  line->kind = TRY_VALUES;
  if (!(line->values = read_fact_expr(reader))) return false;
  if (!(read_accept(reader, "..") ? read_steps(reader, line) : check_list(reader, line, line->values)))
    return false;
  if (read_accept(reader, "if") && !read_number(reader, &line->condition)) return false;
  return !read_accept(reader, "most") || read_number(reader, &line->most);
}

/* ---- lines ---- */

/* let NAME = VALUE: a word for what follows */
static bool read_let(Open *open, IrTryLine *line)
{
  Reader *reader = open->reader;
  line->kind = TRY_LET;
  if (reader->lexer.token.kind != TOKEN_WORD) return read_expected(reader, "a name");
  const char *name = read_text(reader);
  if (is_given(open, name) || ir_parameter_find(reader->module, name))
    return read_fail(reader, &reader->lexer.token.mark, "redefined", NULL, "`%s` is taken already", name);
  line->names = arena_memdup(reader->module->arena, &name, sizeof name);
  line->n = 1;
  read_next(reader);
  return read_expect(reader, "=") && read_number(reader, &line->values);
}

static bool read_line(Open *open)
{
  Reader *reader = open->reader;
  IrTryLine line = {.kind = TRY_IF, .mark = reader->lexer.token.mark};
  if (read_accept(reader, "if")) {
    if (!read_number(reader, &line.condition)) return false;
  } else if (read_accept(reader, "let")) {
    if (!read_let(open, &line)) return false;
  } else {
    if (!read_names(open, &line)) return false;
    if (line.n == 1 && read_accept(reader, "=")) {
      line.kind = TRY_SET;
      if (!(line.values = read_fact_expr(reader)) || !check_value(reader, line.names[0], line.values))
        return false;
    } else if (!read_expect(reader, "in") || !read_values(open, &line)) {
      return false;
    }
  }
  if (reader->lexer.token.kind != TOKEN_NEWLINE && !read_at(reader, "}"))
    return read_expected(reader, "the end of the line");
  g_array_append_val(open->lines, line);
  return true;
}

/* To the end of a block that nobody asks for. */
static bool skip_block(Reader *reader)
{
  if (!read_expect(reader, "{")) return false;
  while (!read_at(reader, "}")) {
    if (reader->lexer.token.kind == TOKEN_END) return read_expected(reader, "`}`");
    read_next(reader);
  }
  read_next(reader);
  return true;
}

bool read_try(Reader *reader)
{
  bool measured = read_accept(reader, "measured");
  if (reader->tries_skipped) return skip_block(reader);
  IrModule *module = reader->module;
  IrTry block = {.measured = measured, .mark = reader->lexer.token.mark};
  g_autoptr(GArray) lines = g_array_new(FALSE, FALSE, sizeof(IrTryLine));
  Open open = {reader, &block, lines};
  if (!read_expect(reader, "{")) return false;
  for (;;) {
    while (reader->lexer.token.kind == TOKEN_NEWLINE)
      read_next(reader);
    if (read_at(reader, "}")) break;
    if (!read_line(&open)) return false;
  }
  if (!lines->len)
    return read_fail(reader, &block.mark, "try", NULL, "the block says nothing of what is tried");
  read_next(reader);
  block.n = lines->len;
  block.lines = arena_memdup(module->arena, lines->data, lines->len * sizeof(IrTryLine));
  IrTry *larger = arena_new_array(module->arena, IrTry, module->n_tries + 1);
  if (module->n_tries) memcpy(larger, module->tries, module->n_tries * sizeof *larger);
  larger[module->n_tries++] = block;
  module->tries = larger;
  return true;
}
