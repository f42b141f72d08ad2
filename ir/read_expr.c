/* The reader's expressions and types. */
#include "ir/calls.h"
#include "ir/reader.h"
#include <math.h>
#include <string.h>

/* ---- Small helpers ---- */

bool read_fail(Reader *reader, const Mark *mark, const char *code, const char *hint, const char *format, ...)
{
  if (reader->failed) return false;
  reader->failed = true;
  va_list arguments;
  va_start(arguments, format);
  g_autofree char *message = g_strdup_vprintf(format, arguments);
  va_end(arguments);
  error_set(reader->error, ERROR_INPUT, mark, code, hint, "%s", message);
  return false;
}

bool read_expected(Reader *reader, const char *what)
{
  const Token *token = &reader->lexer.token;
  if (token->kind == TOKEN_BAD)
    return read_fail(reader, &token->mark, "bad-token", NULL, "%s", token->problem);
  if (token->kind == TOKEN_END || token->kind == TOKEN_NEWLINE)
    return read_fail(reader, &token->mark, "syntax", NULL, "expected %s, found the end of the %s", what,
                     token->kind == TOKEN_END ? "text" : "line");
  const char *sigil = token->kind == TOKEN_VALUE       ? "%"
                      : token->kind == TOKEN_SYMBOL    ? "@"
                      : token->kind == TOKEN_PARAMETER ? "$"
                                                       : "";
  int length = token->kind == TOKEN_INT || token->kind == TOKEN_FLOAT ? (int)(reader->lexer.at - token->text)
                                                                      : (int)token->length;
  return read_fail(reader, &token->mark, "syntax", NULL, "expected %s, found `%s%.*s`", what, sigil, length,
                   token->text);
}

bool read_at(const Reader *reader, const char *token)
{
  return token_is(&reader->lexer.token, token);
}

void read_next(Reader *reader)
{
  lexer_next(&reader->lexer);
}

bool read_accept(Reader *reader, const char *token)
{
  if (!read_at(reader, token)) return false;
  read_next(reader);
  return true;
}

bool read_expect(Reader *reader, const char *token)
{
  if (read_accept(reader, token)) return true;
  g_autofree char *what = g_strdup_printf("`%s`", token);
  return read_expected(reader, what);
}

const char *read_text(Reader *reader)
{
  return arena_strndup(reader->module->arena, reader->lexer.token.text, reader->lexer.token.length);
}

char *read_nearest(const char *name, const char *const *candidates)
{
  const char *nearest = nearest_name(name, candidates);
  return nearest ? g_strdup_printf("did you mean `%s`?", nearest) : NULL;
}

static IrExpr *fail_expr(Reader *reader, const Mark *mark, const char *code, const char *message)
{
  read_fail(reader, mark, code, NULL, "%s", message);
  return NULL;
}

/* Expressions are shared once folded, so a node keeps the first place it was given. */
static IrExpr *placed(IrExpr *expr, const Mark *mark)
{
  if (!expr->mark.source) expr->mark = *mark;
  return expr;
}

/* ---- Names ---- */

static IrExpr *unknown_name(Reader *reader, const char *sigil, const char *name, GHashTable *table,
                            const Mark *mark, const char *what)
{
  const char *nearest = nearest_key(name, table);
  g_autofree char *hint = nearest ? g_strdup_printf("did you mean `%s%s`?", sigil, nearest) : NULL;
  read_fail(reader, mark, "undefined", hint, "`%s%s` is %s", sigil, name, what);
  return NULL;
}

IrExpr *read_unknown_value(Reader *reader, const char *name, const Mark *mark)
{
  return unknown_name(reader, "%", name, reader->values, mark, "not defined here");
}

/* The order of a pipelined loop is that of its steady state: a value may be named before it is computed. */
static IrExpr *read_ahead(Reader *reader, const char *name, const Mark *mark)
{
  IrValue *value = arena_new_object(reader->module->arena, IrValue);
  value->name = name;
  IrExpr *expr = placed(ir_value(reader->module, value), mark);
  g_ptr_array_add(reader->ahead, expr);
  return expr;
}

static IrExpr *read_value(Reader *reader)
{
  const char *name = read_text(reader);
  Mark mark = reader->lexer.token.mark;
  IrValue *value = g_hash_table_lookup(reader->values, name);
  if (!value && !reader->pipelined) return read_unknown_value(reader, name, &mark);
  read_next(reader);
  if (!value) return read_ahead(reader, name, &mark);
  return placed(ir_value(reader->module, value), &mark);
}

static IrExpr *read_call(Reader *reader, const char *name, const Mark *mark)
{
  const IrCallInfo *info = ir_call_info(name);
  if (!info || (info->tried && !reader->facts_allowed)) {
    g_autofree char *hint =
        info ? g_strdup("it stands in `try` lines only") : read_nearest(name, ir_call_names());
    read_fail(reader, mark, "unknown-function", hint, "`%s` is not a function of expressions", name);
    return NULL;
  }
  IrExpr *arguments[4];
  unsigned n = 0;
  read_next(reader);
  bool words = reader->words_allowed;
  reader->words_allowed = false;
  while (!read_at(reader, ")")) {
    IrExpr *argument = read_expr(reader);
    if (!argument) return NULL;
    if (n < G_N_ELEMENTS(arguments)) arguments[n] = argument;
    n++;
    if (!read_at(reader, ")") && !read_expect(reader, ",")) return NULL;
  }
  read_next(reader);
  reader->words_allowed = words;
  if (n != info->arguments) {
    read_fail(reader, mark, "argument-count", NULL, "`%s` takes %u argument%s, not %u", name, info->arguments,
              info->arguments == 1 ? "" : "s", n);
    return NULL;
  }
  return placed(ir_call_array(reader->module, name, n, arguments), mark);
}

static IrExpr *read_word(Reader *reader)
{
  const char *name = read_text(reader);
  Mark mark = reader->lexer.token.mark;
  read_next(reader);
  if (read_at(reader, "(")) return read_call(reader, name, &mark);
  const IrExpr *known = g_hash_table_lookup(reader->names, name);
  if (known && known->kind == EXPR_VALUE) return placed(ir_value(reader->module, known->value), &mark);
  if (known) return placed(ir_dim(reader->module, name), &mark);
  if (!strcmp(name, "inf")) return placed(ir_float(reader->module, INFINITY), &mark);
  if (!strcmp(name, "nan")) return placed(ir_float(reader->module, (double)NAN), &mark);
  if (reader->facts_allowed) return placed(ir_dim(reader->module, name), &mark);
  if (reader->dim_uses) {
    DimUse use = {name, mark};
    g_array_append_val(reader->dim_uses, use);
    return placed(ir_dim(reader->module, name), &mark);
  }
  NumberType type;
  if (reader->words_allowed || number_parse(name, &type)) return placed(ir_name(reader->module, name), &mark);
  return unknown_name(reader, "", name, reader->names, &mark, "neither a tensor nor a dim of this kernel");
}

/* ---- Expressions, by precedence ---- */

static bool enter(Reader *reader)
{
  if (++reader->depth <= READ_MAX_DEPTH) return true;
  return read_fail(reader, &reader->lexer.token.mark, "too-deep", NULL,
                   "the expression is nested deeper than %d", READ_MAX_DEPTH);
}

static bool count_node(Reader *reader)
{
  if (++reader->nodes <= READ_MAX_NODES) return true;
  return read_fail(reader, &reader->lexer.token.mark, "too-long", NULL,
                   "the expression has more than %d operators", READ_MAX_NODES);
}

static IrExpr *read_select(Reader *reader);

static IrExpr *read_index_item(Reader *reader)
{
  IrExpr *low = read_select(reader);
  if (!low || !read_accept(reader, "..")) return low;
  IrExpr *high = read_select(reader);
  return high ? placed(ir_range(reader->module, low, high), &low->mark) : NULL;
}

/* Items up to `close`, which is stepped over. */
static bool read_items(Reader *reader, const char *close, GPtrArray *items)
{
  if (!enter(reader)) return false;
  while (!read_at(reader, close)) {
    IrExpr *item = read_index_item(reader);
    if (!item) return false;
    g_ptr_array_add(items, item);
    if (!read_at(reader, close) && !read_expect(reader, ",")) return false;
  }
  reader->depth--;
  read_next(reader);
  return true;
}

IrExpr *read_list(Reader *reader)
{
  Mark mark = reader->lexer.token.mark;
  if (!read_expect(reader, "[")) return NULL;
  g_autoptr(GPtrArray) items = g_ptr_array_new();
  if (!read_items(reader, "]", items)) return NULL;
  return placed(ir_list(reader->module, items->len, (IrExpr **)items->pdata), &mark);
}

static IrExpr *read_primary(Reader *reader)
{
  const Token *token = &reader->lexer.token;
  Mark mark = token->mark;
  IrExpr *expr = NULL;
  switch (token->kind) {
  case TOKEN_INT: expr = ir_int(reader->module, token->integer); break;
  case TOKEN_FLOAT: expr = ir_float(reader->module, token->number); break;
  case TOKEN_SYMBOL: expr = ir_symbol(reader->module, read_text(reader)); break;
  case TOKEN_PARAMETER: expr = ir_parameter(reader->module, read_text(reader)); break;
  case TOKEN_VALUE: return read_value(reader);
  case TOKEN_WORD: return read_word(reader);
  default:
    if (read_at(reader, "[")) return read_list(reader);
    if (!read_accept(reader, "(")) {
      read_expected(reader, "an expression");
      return NULL;
    }
    if (!enter(reader)) return NULL;
    expr = read_select(reader);
    reader->depth--;
    return expr && read_expect(reader, ")") ? expr : NULL;
  }
  read_next(reader);
  return placed(expr, &mark);
}

static bool at_transposition(const Reader *reader)
{
  if (!read_at(reader, "^")) return false;
  Lexer ahead = reader->lexer;
  lexer_next(&ahead);
  return token_is(&ahead.token, "T");
}

static IrExpr *read_subscript(Reader *reader, IrExpr *base)
{
  g_autoptr(GPtrArray) items = g_ptr_array_new();
  Mark mark = reader->lexer.token.mark;
  read_next(reader);
  if (!read_items(reader, "]", items)) return NULL;
  if (!items->len) return fail_expr(reader, &mark, "syntax", "an index is missing between the brackets");
  return ir_index_array(reader->module, base, items->len, (IrExpr **)items->pdata);
}

IrExpr *read_postfix(Reader *reader)
{
  Mark mark = reader->lexer.token.mark;
  IrExpr *expr = read_primary(reader);
  while (expr) {
    if (read_at(reader, "[")) {
      expr = read_subscript(reader, expr);
    } else if (read_accept(reader, ".")) {
      if (reader->lexer.token.kind != TOKEN_WORD) {
        read_expected(reader, "a field's name");
        return NULL;
      }
      expr = ir_field(reader->module, expr, read_text(reader));
      read_next(reader);
    } else if (at_transposition(reader)) {
      read_next(reader);
      read_next(reader);
      expr = ir_transposed(reader->module, expr);
    } else {
      break;
    }
    if (!expr || !count_node(reader)) return NULL;
    placed(expr, &mark);
  }
  return expr;
}

static IrExpr *read_unary(Reader *reader)
{
  static const struct {
    const char *token;
    IrOperator op;
  } rows[] = {{"-", OPERATOR_NEG}, {"~", OPERATOR_NOT}, {"!", OPERATOR_LNOT}};
  for (unsigned i = 0; i < G_N_ELEMENTS(rows); i++) {
    if (!read_at(reader, rows[i].token)) continue;
    Mark mark = reader->lexer.token.mark;
    read_next(reader);
    bool group = read_at(reader, "("); /* counts itself: `!!x`, printed as `!(!x)`, is as deep */
    if (!group && !enter(reader)) return NULL;
    IrExpr *x = read_unary(reader);
    if (!group) reader->depth--;
    return x ? placed(ir_unary(reader->module, rows[i].op, x), &mark) : NULL;
  }
  return read_postfix(reader);
}

static const struct {
  const char *token;
  IrOperator op;
  unsigned strength;
} infix[] = {
    {"||", OPERATOR_LOR, 1}, {"&&", OPERATOR_LAND, 2}, {"|", OPERATOR_OR, 3},  {"^", OPERATOR_XOR, 4},
    {"&", OPERATOR_AND, 5},  {"==", OPERATOR_EQ, 6},   {"!=", OPERATOR_NE, 6}, {"<", OPERATOR_LT, 7},
    {"<=", OPERATOR_LE, 7},  {">", OPERATOR_GT, 7},    {">=", OPERATOR_GE, 7}, {"<<", OPERATOR_SHL, 8},
    {">>", OPERATOR_SHR, 8}, {"+", OPERATOR_ADD, 9},   {"-", OPERATOR_SUB, 9}, {"*", OPERATOR_MUL, 10},
    {"/", OPERATOR_DIV, 10}, {"%", OPERATOR_MOD, 10},
};

/* Precedence climbing: infix operators at least as strong as `least`. */
static IrExpr *read_binary(Reader *reader, unsigned least)
{
  IrExpr *left = read_unary(reader);
  while (left) {
    unsigned i = 0;
    while (i < G_N_ELEMENTS(infix) && !read_at(reader, infix[i].token))
      i++;
    if (i == G_N_ELEMENTS(infix) || infix[i].strength < least) return left;
    Mark mark = reader->lexer.token.mark;
    read_next(reader);
    /* What a parameter is compared with may be a keyword: `$order == row_major`. */
    bool words = reader->words_allowed;
    reader->words_allowed |= infix[i].op == OPERATOR_EQ || infix[i].op == OPERATOR_NE;
    IrExpr *right = count_node(reader) ? read_binary(reader, infix[i].strength + 1) : NULL;
    reader->words_allowed = words;
    left = right ? placed(ir_binary(reader->module, infix[i].op, left, right), &mark) : NULL;
  }
  return NULL;
}

static IrExpr *read_select(Reader *reader)
{
  IrExpr *condition = read_binary(reader, 0);
  if (!condition || !read_at(reader, "?")) return condition;
  Mark mark = reader->lexer.token.mark;
  read_next(reader);
  if (!enter(reader)) return NULL;
  IrExpr *a = read_select(reader);
  if (!a || !read_expect(reader, ":")) return NULL;
  IrExpr *b = read_select(reader);
  reader->depth--;
  return b ? placed(ir_select(reader->module, condition, a, b), &mark) : NULL;
}

IrExpr *read_expr(Reader *reader)
{
  if (!enter(reader)) return NULL;
  IrExpr *expr = read_select(reader);
  reader->depth--;
  return expr;
}

IrExpr *read_range(Reader *reader)
{
  IrExpr *low = read_expr(reader);
  if (!low || !read_expect(reader, "..")) return NULL;
  IrExpr *high = read_expr(reader);
  return high ? placed(ir_range(reader->module, low, high), &low->mark) : NULL;
}

/* ---- Types ---- */

static bool read_element(Reader *reader, IrType *type)
{
  const Token *token = &reader->lexer.token;
  if (token->kind == TOKEN_PARAMETER) {
    type->element_parameter = placed(ir_parameter(reader->module, read_text(reader)), &token->mark);
  } else if (token->kind == TOKEN_WORD) {
    const char *name = read_text(reader);
    if (!number_parse(name, &type->element) || strcmp(name, number_name(type->element))) {
      const char *candidates[NUMBER_TYPE_COUNT + 5];
      for (unsigned i = 0; i < NUMBER_TYPE_COUNT; i++)
        candidates[i] = number_name(i);
      static const char *const others[] = {"tile", "tensor", "predicate", "cursor", NULL};
      memcpy(candidates + NUMBER_TYPE_COUNT, others, sizeof others);
      g_autofree char *hint = number_is_unserved(name)
                                  ? g_strdup("of types whose elements share bytes only s4, u4 and e2m1 are "
                                             "supported: u8 moves the bytes as they are")
                                  : read_nearest(name, candidates);
      return read_fail(reader, &token->mark, "unknown-type", hint, "`%s` is not a type", name);
    }
  } else {
    return read_expected(reader, "a type");
  }
  read_next(reader);
  return true;
}

static bool read_extents(Reader *reader, IrExpr **extents, unsigned *rank)
{
  Mark mark = reader->lexer.token.mark;
  if (!read_expect(reader, "[")) return false;
  for (*rank = 0; !read_at(reader, "]");) {
    if (*rank == IR_MAX_RANK)
      return read_fail(reader, &mark, "rank", NULL, "more than %d dimensions", IR_MAX_RANK);
    if (!(extents[(*rank)++] = read_expr(reader))) return false;
    if (!read_at(reader, "]") && !read_expect(reader, ",")) return false;
  }
  read_next(reader);
  return true;
}

/* `in LAYOUT` after a tile type. */
static bool read_layout(Reader *reader, IrType *type)
{
  Mark mark = reader->lexer.token.mark;
  unsigned extents[IR_MAX_RANK], length;
  for (unsigned i = 0; i < type->rank; i++) {
    int64_t extent;
    if (!ir_expr_is_int(type->dims[i], &extent) || extent < 1 || extent > G_MAXINT32)
      return read_fail(reader, &mark, "layout", NULL, "a tile with a layout needs constant extents");
    extents[i] = (unsigned)extent;
  }
  if (type->element_parameter)
    return read_fail(reader, &mark, "layout", NULL, "a tile with a layout needs a constant element type");
  const char *raw, *message = NULL;
  if (!lexer_take_layout(&reader->lexer, &raw, &length))
    return read_fail(reader, &mark, "layout", NULL, "expected a layout such as group.d(2) or {register ...}");
  g_autofree char *text = g_strndup(raw, length);
  type->layout = layout_parse(reader->module->arena, text, type->element, type->rank, extents, &message);
  if (type->layout) return true;
  return read_fail(reader, &mark, "layout", NULL, "layout `%s`: %s", text, message ? message : "not valid");
}

static bool read_align(Reader *reader, IrType *type)
{
  const Token *token = &reader->lexer.token;
  if (token->kind != TOKEN_INT) return read_expected(reader, "bytes");
  if (token->integer < 1 || token->integer > 4096 || (token->integer & (token->integer - 1)))
    return read_fail(reader, &token->mark, "align", NULL, "an alignment is a power of two up to 4096 bytes");
  type->align = (unsigned)token->integer;
  read_next(reader);
  return true;
}

static bool read_tile(Reader *reader, IrType *type)
{
  if (!read_expect(reader, "<") || !read_element(reader, type) || !read_expect(reader, ">")) return false;
  if (!read_extents(reader, type->dims, &type->rank)) return false;
  if (type->kind == TYPE_TILE && read_accept(reader, "in")) return read_layout(reader, type);
  if (type->kind == TYPE_TENSOR && read_at(reader, "strides")) {
    Mark mark = reader->lexer.token.mark;
    unsigned n;
    read_next(reader);
    if (!read_extents(reader, type->strides, &n)) return false;
    if (n != type->rank)
      return read_fail(reader, &mark, "rank", NULL, "%u strides for %u dimensions", n, type->rank);
  }
  if (type->kind != TYPE_TENSOR) return true;
  if (read_accept(reader, "align") && !read_align(reader, type)) return false;
  type->constant = read_accept(reader, "constant");
  return true;
}

bool read_type(Reader *reader, IrType *type)
{
  *type = (IrType){.count = 1};
  if (read_accept(reader, "predicate")) {
    *type = ir_predicate();
    return true;
  }
  if (read_accept(reader, "cursor")) {
    type->kind = TYPE_CURSOR;
    return true;
  }
  bool tile = read_at(reader, "tile");
  if (tile || read_at(reader, "tensor")) {
    type->kind = tile ? TYPE_TILE : TYPE_TENSOR;
    read_next(reader);
    return read_tile(reader, type);
  }
  type->kind = TYPE_SCALAR;
  if (!read_element(reader, type)) return false;
  if (!read_accept(reader, "[")) return true;
  const Token *token = &reader->lexer.token;
  if (token->kind != TOKEN_INT) return read_expected(reader, "the number of registers");
  if (token->integer < 1 || token->integer > 1024)
    return read_fail(reader, &token->mark, "type", NULL, "a register array has 1 to 1024 registers");
  type->count = (unsigned)token->integer;
  read_next(reader);
  return read_expect(reader, "]");
}
