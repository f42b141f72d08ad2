/* Reader and printer of the expression grammar of symbolic.h. */
#include "symbolic/symbolic.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define MAX_TEXT    8192
#define MAX_NESTING 64 /* of parentheses, calls and signs */

/* ---- printing ---- */

typedef struct {
  GString *text;
  unsigned depth, deepest; /* as the reader counts nesting */
} Printer;

static void nest(Printer *printer, char opening)
{
  g_string_append_c(printer->text, opening);
  printer->depth++;
  printer->deepest = MAX(printer->deepest, printer->depth);
}

/* closing: 0 for a sign, which has none. */
static void leave(Printer *printer, char closing)
{
  if (closing) g_string_append_c(printer->text, closing);
  printer->depth--;
}

typedef enum { LEVEL_OR, LEVEL_AND, LEVEL_COMPARE, LEVEL_SUM, LEVEL_TERM, LEVEL_UNARY } Level;

static const struct {
  const char *text;
  Level level; /* of the operation; operands on the left may have it too */
} operations[] = {
    [SYMBOLIC_ADD] = {" + ", LEVEL_SUM},     [SYMBOLIC_SUB] = {" - ", LEVEL_SUM},
    [SYMBOLIC_MUL] = {"*", LEVEL_TERM},      [SYMBOLIC_DIV] = {" / ", LEVEL_TERM},
    [SYMBOLIC_MOD] = {" % ", LEVEL_TERM},    [SYMBOLIC_LT] = {" < ", LEVEL_COMPARE},
    [SYMBOLIC_LE] = {" <= ", LEVEL_COMPARE}, [SYMBOLIC_GT] = {" > ", LEVEL_COMPARE},
    [SYMBOLIC_GE] = {" >= ", LEVEL_COMPARE}, [SYMBOLIC_EQ] = {" == ", LEVEL_COMPARE},
    [SYMBOLIC_NE] = {" != ", LEVEL_COMPARE}, [SYMBOLIC_AND] = {" && ", LEVEL_AND},
    [SYMBOLIC_OR] = {" || ", LEVEL_OR},
};

static const char *call_name(SymbolicKind kind)
{
  return kind == SYMBOLIC_MIN ? "min" : kind == SYMBOLIC_MAX ? "max" : "ceil_div";
}

static bool is_name_character(char c, bool first)
{
  return g_ascii_isalpha(c) || c == '_' || (!first && (g_ascii_isdigit(c) || c == '.'));
}

static void print_name(GString *text, const char *name)
{
  bool plain = is_name_character(name[0], true);
  for (const char *at = name; *at; at++)
    plain = plain && is_name_character(*at, false);
  if (plain) {
    g_string_append(text, name);
    return;
  }
  g_string_append_c(text, '"');
  for (; *name; name++) {
    if (*name == '"' || *name == '\\') g_string_append_c(text, '\\');
    g_string_append_c(text, *name);
  }
  g_string_append_c(text, '"');
}

/* x is one term of a sum as the normal form has it, and its coefficient is negative: `a - 3*x` is read as the sum with it.
 * A product that could not be multiplied out keeps its sign: taken apart, it would be read as another tree. */
static bool is_negative_term(const Symbolic *x)
{
  for (; x->kind == SYMBOLIC_MUL; x = x->a) {
    SymbolicKind factor = x->b->kind;
    if (factor == SYMBOLIC_CONSTANT || factor == SYMBOLIC_ADD || factor == SYMBOLIC_MUL) return false;
  }
  return x->kind == SYMBOLIC_CONSTANT && x->value < 0 && x->value != INT64_MIN;
}

static void print(Printer *printer, const Symbolic *x, Level outer, bool positive);

/* negated: print the term with the opposite sign of its leading coefficient (which is negative). */
static void print_product(Printer *printer, const Symbolic *x, bool negated)
{
  if (x->kind != SYMBOLIC_MUL) {
    print(printer, x, x->kind == SYMBOLIC_CONSTANT ? LEVEL_TERM : LEVEL_UNARY, negated);
    return;
  }
  if (negated && symbolic_equals(x->a, -1)) {
    print(printer, x->b, LEVEL_UNARY, false);
    return;
  }
  print_product(printer, x->a, negated);
  g_string_append_c(printer->text, '*');
  print(printer, x->b, LEVEL_UNARY, false);
}

static void print_binary(Printer *printer, const Symbolic *x)
{
  Level level = operations[x->kind].level;
  if (x->kind == SYMBOLIC_MUL) {
    print_product(printer, x, false);
    return;
  }
  Level left = level == LEVEL_COMPARE ? LEVEL_SUM : level; /* comparisons do not chain */
  print(printer, x->a, left, false);
  if (x->kind == SYMBOLIC_ADD && is_negative_term(x->b)) {
    g_string_append(printer->text, " - ");
    print_product(printer, x->b, true);
    return;
  }
  g_string_append(printer->text, operations[x->kind].text);
  print(printer, x->b, level + 1, false);
}

static void print_constant(Printer *printer, int64_t value, bool parentheses)
{
  if (parentheses) nest(printer, '(');
  if (value >= 0 || value == INT64_MIN) {
    g_string_append_printf(printer->text, "%" PRId64, value);
  } else {
    nest(printer, '-');
    g_string_append_printf(printer->text, "%" PRId64, -value);
    leave(printer, 0);
  }
  if (parentheses) leave(printer, ')');
}

/* positive: a negative number is printed without its sign. */
static void print(Printer *printer, const Symbolic *x, Level outer, bool positive)
{
  switch (x->kind) {
  case SYMBOLIC_CONSTANT:
    print_constant(printer, positive ? -x->value : x->value, outer == LEVEL_UNARY && x->value < 0);
    return;
  case SYMBOLIC_SYMBOL: print_name(printer->text, x->name); return;
  case SYMBOLIC_ALIGN:
    g_string_append(printer->text, "align(");
    print_name(printer->text, x->name);
    g_string_append_c(printer->text, ')');
    return;
  case SYMBOLIC_NOT:
    nest(printer, '!');
    print(printer, x->a, LEVEL_UNARY, false);
    leave(printer, 0);
    return;
  case SYMBOLIC_CEIL_DIV:
  case SYMBOLIC_MIN:
  case SYMBOLIC_MAX:
    g_string_append(printer->text, call_name(x->kind));
    nest(printer, '(');
    print(printer, x->a, LEVEL_OR, false);
    g_string_append(printer->text, ", ");
    print(printer, x->b, LEVEL_OR, false);
    leave(printer, ')');
    return;
  default: break;
  }
  bool parentheses = operations[x->kind].level < outer;
  if (parentheses) nest(printer, '(');
  print_binary(printer, x);
  if (parentheses) leave(printer, ')');
}

char *symbolic_text(const Symbolic *expression)
{
  Printer printer = {.text = g_string_new(NULL)};
  print(&printer, expression, LEVEL_OR, false);
  return g_string_free(printer.text, FALSE);
}

/* Whether the printed form, which can nest deeper than what was read (`a / b*2` is `2*(a / b)`), is read back. */
static bool prints_readable(const Symbolic *expression)
{
  Printer printer = {.text = g_string_new(NULL)};
  print(&printer, expression, LEVEL_OR, false);
  bool readable = printer.deepest <= MAX_NESTING && printer.text->len <= MAX_TEXT;
  g_string_free(printer.text, TRUE);
  return readable;
}

/* ---- reading ---- */

typedef struct {
  Arena *arena;
  const char *text, *at;
  const Mark *mark;
  unsigned depth; /* of nesting */
  GError **error;
} Parser;

static const Symbolic *refuse(Parser *parser, const char *message)
{
  Mark mark = parser->mark ? *parser->mark : (Mark){0};
  if (parser->mark) mark.column += (unsigned)(parser->at - parser->text);
  g_autofree char *shown = g_utf8_make_valid(parser->text, (gssize)MIN(strlen(parser->text), 80));
  error_add(parser->error, ERROR_INPUT, SEVERITY_ERROR, parser->mark ? &mark : NULL, "expression",
            "an expression is made of numbers, symbols, + - * / %, comparisons, && || !, ceil_div(a, b), "
            "min(a, b), max(a, b) and align(tensor)",
            "%s in the expression `%s`", message, shown);
  return NULL;
}

static void skip_blanks(Parser *parser)
{
  while (*parser->at == ' ' || *parser->at == '\t')
    parser->at++;
}

static bool accept(Parser *parser, const char *token)
{
  skip_blanks(parser);
  size_t length = strlen(token);
  if (strncmp(parser->at, token, length)) return false;
  parser->at += length;
  return true;
}

static const Symbolic *parse_level(Parser *parser, Level level);

static const Symbolic *parse_number(Parser *parser)
{
  char *end;
  errno = 0;
  int64_t value = g_ascii_strtoll(parser->at, &end, 10);
  if (errno == ERANGE) return refuse(parser, "a number beyond 64 bits");
  if (is_name_character(*end, false)) return refuse(parser, "a malformed number");
  parser->at = end;
  return symbolic_constant(parser->arena, value);
}

/* A plain or quoted name; NULL if there is none (reported). */
static char *parse_name(Parser *parser)
{
  skip_blanks(parser);
  g_autoptr(GString) name = g_string_new(NULL);
  if (*parser->at == '"') {
    const char *at = parser->at + 1;
    for (; *at && *at != '"'; at++) {
      if (*at == '\\' && at[1]) at++;
      g_string_append_c(name, *at);
    }
    if (!*at || !name->len) {
      refuse(parser, "a malformed quoted name");
      return NULL;
    }
    parser->at = at + 1;
  } else {
    if (!is_name_character(*parser->at, true)) {
      refuse(parser, *parser->at ? "an unexpected character" : "something is missing at the end");
      return NULL;
    }
    while (is_name_character(*parser->at, false))
      g_string_append_c(name, *parser->at++);
  }
  return g_string_free(g_steal_pointer(&name), FALSE);
}

/* One level deeper: parentheses, a call or a sign. Whoever enters counts back. */
static bool enter(Parser *parser)
{
  if (++parser->depth <= MAX_NESTING) return true;
  refuse(parser, "too deep nesting");
  return false;
}

static const Symbolic *parse_call(Parser *parser, const char *name)
{
  if (!strcmp(name, "align")) {
    g_autofree char *tensor = parse_name(parser);
    if (!tensor) return NULL;
    if (!accept(parser, ")")) return refuse(parser, "`)` is missing");
    return symbolic_align(parser->arena, tensor);
  }
  SymbolicKind kind = !strcmp(name, "min")        ? SYMBOLIC_MIN
                      : !strcmp(name, "max")      ? SYMBOLIC_MAX
                      : !strcmp(name, "ceil_div") ? SYMBOLIC_CEIL_DIV
                                                  : SYMBOLIC_CONSTANT;
  if (kind == SYMBOLIC_CONSTANT) return refuse(parser, "an unknown function");
  const Symbolic *a = enter(parser) ? parse_level(parser, LEVEL_OR) : NULL;
  if (!a) return NULL;
  if (!accept(parser, ",")) return refuse(parser, "`,` is missing");
  const Symbolic *b = parse_level(parser, LEVEL_OR);
  if (!b) return NULL;
  if (!accept(parser, ")")) return refuse(parser, "`)` is missing");
  parser->depth--;
  return symbolic_binary(parser->arena, kind, a, b);
}

static const Symbolic *parse_primary(Parser *parser)
{
  skip_blanks(parser);
  if (g_ascii_isdigit(*parser->at)) return parse_number(parser);
  if (accept(parser, "(")) {
    const Symbolic *inner = enter(parser) ? parse_level(parser, LEVEL_OR) : NULL;
    if (!inner) return NULL;
    parser->depth--;
    return accept(parser, ")") ? inner : refuse(parser, "`)` is missing");
  }
  g_autofree char *name = parse_name(parser);
  if (!name) return NULL;
  return accept(parser, "(") ? parse_call(parser, name) : symbolic_symbol(parser->arena, name);
}

static const Symbolic *parse_unary(Parser *parser)
{
  skip_blanks(parser);
  bool negative = *parser->at == '-', not = *parser->at == '!' && parser->at[1] != '=';
  if (!negative && !not ) return parse_primary(parser);
  /* The most negative number has no positive counterpart to negate. */
  static const char lowest[] = "-9223372036854775808";
  if (accept(parser, lowest)) return symbolic_constant(parser->arena, INT64_MIN);
  parser->at++;
  const Symbolic *x = enter(parser) ? parse_unary(parser) : NULL;
  if (!x) return NULL;
  parser->depth--;
  if (not ) return symbolic_not(parser->arena, x);
  return symbolic_mul(parser->arena, symbolic_constant(parser->arena, -1), x);
}

/* The operation at this place that belongs to the level, or SYMBOLIC_CONSTANT. */
static SymbolicKind accept_operation(Parser *parser, Level level)
{
  static const struct {
    const char *text;
    SymbolicKind kind;
  } tokens[] = {
      {"||", SYMBOLIC_OR}, {"&&", SYMBOLIC_AND}, {"<=", SYMBOLIC_LE}, {">=", SYMBOLIC_GE},
      {"==", SYMBOLIC_EQ}, {"!=", SYMBOLIC_NE},  {"<", SYMBOLIC_LT},  {">", SYMBOLIC_GT},
      {"+", SYMBOLIC_ADD}, {"-", SYMBOLIC_SUB},  {"*", SYMBOLIC_MUL}, {"/", SYMBOLIC_DIV},
      {"%", SYMBOLIC_MOD},
  };
  for (unsigned i = 0; i < G_N_ELEMENTS(tokens); i++)
    if (operations[tokens[i].kind].level == level && accept(parser, tokens[i].text)) return tokens[i].kind;
  return SYMBOLIC_CONSTANT;
}

static const Symbolic *parse_level(Parser *parser, Level level)
{
  if (level == LEVEL_UNARY) return parse_unary(parser);
  const Symbolic *left = parse_level(parser, level + 1);
  while (left) {
    SymbolicKind kind = accept_operation(parser, level);
    if (kind == SYMBOLIC_CONSTANT) break;
    const Symbolic *right = parse_level(parser, level + 1);
    left = right ? symbolic_binary(parser->arena, kind, left, right) : NULL;
    if (level == LEVEL_COMPARE) break;
  }
  return left;
}

const Symbolic *symbolic_parse(Arena *arena, const char *text, const Mark *at, GError **error)
{
  Parser parser = {.arena = arena, .text = text, .at = text, .mark = at, .error = error};
  if (strlen(text) > MAX_TEXT) return refuse(&parser, "more than " G_STRINGIFY(MAX_TEXT) " characters");
  const Symbolic *expression = parse_level(&parser, LEVEL_OR);
  if (!expression) return NULL;
  skip_blanks(&parser);
  if (*parser.at) return refuse(&parser, "an unexpected character");
  /* An operation opens two levels at most (a parenthesis and a sign): what is short needs no look. */
  if (parser.at - text > MAX_NESTING / 2 && !prints_readable(expression))
    return refuse(&parser, "too deep nesting");
  return expression;
}
