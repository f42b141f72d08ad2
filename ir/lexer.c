#include "ir/lexer.h"
#include <glib.h>
#include <math.h>
#include <string.h>

static bool is_name_start(char c)
{
  return g_ascii_isalpha(c) || c == '_';
}

static bool is_name(char c)
{
  return g_ascii_isalnum(c) || c == '_';
}

void lexer_init(Lexer *lexer, Source *source)
{
  *lexer = (Lexer){source, source->text, source->text + source->length, source->text, 1, 0, false, {0}};
  lexer_next(lexer);
}

/* Blanks and comments, and newlines where they do not count. */
static void skip_blank(Lexer *lexer)
{
  for (; lexer->at < lexer->end; lexer->at++) {
    char c = *lexer->at;
    if (c == ';') {
      while (lexer->at + 1 < lexer->end && lexer->at[1] != '\n')
        lexer->at++;
    } else if (c == '\n') {
      if (!lexer->nesting && !lexer->free_form) return;
      lexer->line++;
      lexer->line_start = lexer->at + 1;
    } else if (c != ' ' && c != '\t' && c != '\r') {
      return;
    }
  }
}

static void bad(Token *token, const char *problem)
{
  token->kind = TOKEN_BAD;
  token->problem = problem;
}

static void lex_integer(Token *token, const char *digits, const char *end, unsigned base)
{
  uint64_t value = 0;
  for (const char *c = digits; c < end; c++) {
    unsigned digit = (unsigned)g_ascii_xdigit_value(*c);
    if (__builtin_mul_overflow(value, (uint64_t)base, &value) ||
        __builtin_add_overflow(value, (uint64_t)digit, &value)) {
      bad(token, "the number does not fit 64 bits");
      return;
    }
  }
  if (base == 10 && value > INT64_MAX) {
    bad(token, "the number does not fit 64 bits");
    return;
  }
  token->kind = TOKEN_INT;
  token->integer = (int64_t)value;
}

static void lex_number(Lexer *lexer, Token *token)
{
  const char *start = lexer->at, *at = start, *end = lexer->end;
  if (*at == '0' && at + 1 < end && (at[1] == 'x' || at[1] == 'X')) {
    const char *digits = at += 2;
    while (at < end && g_ascii_isxdigit(*at))
      at++;
    lexer->at = at;
    if (at == digits)
      bad(token, "digits are missing after 0x");
    else
      lex_integer(token, digits, at, 16);
    return;
  }
  while (at < end && g_ascii_isdigit(*at))
    at++;
  bool is_float = false;
  if (at + 1 < end && *at == '.' && g_ascii_isdigit(at[1])) {
    is_float = true;
    for (at++; at < end && g_ascii_isdigit(*at);)
      at++;
  }
  if (at < end && (*at == 'e' || *at == 'E')) {
    const char *digits = at + 1 < end && (at[1] == '+' || at[1] == '-') ? at + 2 : at + 1;
    if (digits < end && g_ascii_isdigit(*digits)) {
      is_float = true;
      for (at = digits; at < end && g_ascii_isdigit(*at);)
        at++;
    }
  }
  lexer->at = at;
  if (!is_float) {
    lex_integer(token, start, at, 10);
    return;
  }
  token->kind = TOKEN_FLOAT;
  token->number = g_ascii_strtod(start, NULL);
  if (isinf(token->number)) bad(token, "the number is too large");
}

static void lex_name(Lexer *lexer, Token *token, TokenKind kind)
{
  token->kind = kind;
  token->text = lexer->at;
  while (lexer->at < lexer->end && is_name(*lexer->at))
    lexer->at++;
  token->length = (unsigned)(lexer->at - token->text);
}

static void lex_punctuation(Lexer *lexer, Token *token)
{
  static const char *const pairs[] = {"..", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "<-", "->", "+="};
  token->kind = TOKEN_PUNCTUATION;
  token->text = lexer->at;
  token->length = 1;
  for (unsigned i = 0; i < G_N_ELEMENTS(pairs) && lexer->at + 1 < lexer->end; i++)
    if (!memcmp(lexer->at, pairs[i], 2)) token->length = 2;
  if (!strchr("+-*/%&|^<>=!~?:.,()[]{}", *lexer->at)) bad(token, "this character means nothing here");
  if (*lexer->at == '(' || *lexer->at == '[') lexer->nesting++;
  if ((*lexer->at == ')' || *lexer->at == ']') && lexer->nesting) lexer->nesting--;
  lexer->at += token->length;
}

void lexer_next(Lexer *lexer)
{
  skip_blank(lexer);
  Token *token = &lexer->token;
  *token = (Token){.text = lexer->at,
                   .mark = {lexer->source, lexer->line, (unsigned)(lexer->at - lexer->line_start) + 1}};
  if (lexer->at >= lexer->end) {
    token->kind = TOKEN_END;
    return;
  }
  char c = *lexer->at, after = lexer->at + 1 < lexer->end ? lexer->at[1] : 0;
  if (c == '\n') {
    token->kind = TOKEN_NEWLINE;
    token->length = 1;
    lexer->at++;
    lexer->line++;
    lexer->line_start = lexer->at;
  } else if (is_name_start(c)) {
    lex_name(lexer, token, TOKEN_WORD);
  } else if (g_ascii_isdigit(c)) {
    lex_number(lexer, token);
  } else if ((c == '%' || c == '@' || c == '$') && is_name(after)) {
    lexer->at++;
    lex_name(lexer, token, c == '%' ? TOKEN_VALUE : c == '@' ? TOKEN_SYMBOL : TOKEN_PARAMETER);
  } else {
    lex_punctuation(lexer, token);
  }
}

bool token_is(const Token *token, const char *text)
{
  return (token->kind == TOKEN_PUNCTUATION || token->kind == TOKEN_WORD) && strlen(text) == token->length &&
         !memcmp(token->text, text, token->length);
}

bool lexer_take_layout(Lexer *lexer, const char **text, unsigned *length)
{
  const char *start = lexer->token.text, *at = start;
  while (at < lexer->end && (is_name(*at) || *at == '.'))
    at++;
  unsigned depth = 0;
  for (; at < lexer->end && *at != '\n'; at++) {
    if (*at == '(' || *at == '{') depth++;
    if (*at == ')' || *at == '}') {
      if (!depth) break;
      if (--depth) continue;
      at++;
      break;
    }
    if (!depth) break;
  }
  if (depth || at == start) return false;
  *text = start;
  *length = (unsigned)(at - start);
  /* The current token may have opened a bracket, which the text has closed. */
  if (*start == '(' || *start == '[') lexer->nesting--;
  lexer->at = at;
  lexer_next(lexer);
  return true;
}
