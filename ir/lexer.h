/* Tokens of the IR text. A Lexer is a plain value: copying it saves the place. */
#pragma once
#include "base/diagnostic.h"
#include <stdbool.h>
#include <stdint.h>

typedef enum {
  TOKEN_END,
  TOKEN_NEWLINE,
  TOKEN_WORD,      /* bare identifier */
  TOKEN_VALUE,     /* %name */
  TOKEN_SYMBOL,    /* @name */
  TOKEN_PARAMETER, /* $name */
  TOKEN_INT,
  TOKEN_FLOAT,
  TOKEN_PUNCTUATION,
  TOKEN_BAD,
} TokenKind;

typedef struct Token {
  TokenKind kind;
  const char *text; /* in the source; names without the sigil */
  unsigned length;
  int64_t integer;
  double number;
  const char *problem; /* TOKEN_BAD: what is wrong; static */
  Mark mark;
} Token;

typedef struct Lexer {
  Source *source;
  const char *at, *end, *line_start;
  unsigned line;
  unsigned nesting; /* open ( and [: newlines inside do not count */
  bool free_form;   /* newlines never count: between a function's name and its body */
  Token token;      /* the current one */
} Lexer;

void lexer_init(Lexer *lexer, Source *source); /* stands on the first token */
void lexer_next(Lexer *lexer);
bool token_is(const Token *token, const char *punctuation_or_word);
/* Raw text from the current token to the end of a layout: a word with dots and its parentheses, or braces.
 * The lexer then stands behind it. false if the brackets do not close on the line. */
bool lexer_take_layout(Lexer *lexer, const char **text, unsigned *length);
