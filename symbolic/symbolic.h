/* Integer expressions over symbols: shapes, strides, guards and launch arguments.
 *
 * One text grammar everywhere (shape entries such as "2*M", plan.json, guards):
 *
 *   or     := and { "||" and }              and   := compare { "&&" compare }
 *   compare:= sum [ ("<" | "<=" | ">" | ">=" | "==" | "!=") sum ]
 *   sum    := term { ("+" | "-") term }     term  := unary { ("*" | "/" | "%") unary }
 *   unary  := "-" unary | "!" unary | primary
 *   primary:= INTEGER | NAME | "(" or ")" | ("ceil_div" | "min" | "max") "(" or "," or ")"
 *           | "align" "(" NAME ")"
 *
 * Arithmetic is signed, 64 bits, exact: an overflow or a division by zero is an error of the evaluation. "/"
 * and "%" truncate towards zero; comparisons and logic give 0 or 1 ("&&" and "||" stop early). align(A) is
 * the largest power of two that divides the address of pointer A (at most 4096).
 *
 * Expressions are immutable, live in an arena and are always in normal form (a sum of products, sorted), so
 * two that are equal as polynomials have the same text. */
#pragma once
#include "base/arena.h"
#include "base/diagnostic.h"
#include <stdbool.h>
#include <stdint.h>

typedef enum {
  SYMBOLIC_CONSTANT,
  SYMBOLIC_SYMBOL, /* a dimension, or any other named number of the context */
  SYMBOLIC_ALIGN,  /* align(name) */
  SYMBOLIC_ADD,
  SYMBOLIC_SUB, /* only in texts: the normal form adds the negated term */
  SYMBOLIC_MUL,
  SYMBOLIC_DIV,
  SYMBOLIC_MOD,
  SYMBOLIC_CEIL_DIV,
  SYMBOLIC_MIN,
  SYMBOLIC_MAX,
  SYMBOLIC_LT,
  SYMBOLIC_LE,
  SYMBOLIC_GT,
  SYMBOLIC_GE,
  SYMBOLIC_EQ,
  SYMBOLIC_NE,
  SYMBOLIC_AND,
  SYMBOLIC_OR,
  SYMBOLIC_NOT,
} SymbolicKind;

typedef struct Symbolic Symbolic;
struct Symbolic {
  SymbolicKind kind;
  int64_t value;         /* constant */
  const char *name;      /* symbol, align */
  const Symbolic *a, *b; /* operands; NOT has only a */
};

const Symbolic *symbolic_constant(Arena *arena, int64_t value);
const Symbolic *symbolic_symbol(Arena *arena, const char *name);
const Symbolic *symbolic_align(Arena *arena, const char *name);
/* Simplified. An operation whose constant value cannot be computed (overflow, division by 0) stays as
 * written, but for a difference, which is the sum with the negated term. */
const Symbolic *symbolic_binary(Arena *arena, SymbolicKind kind, const Symbolic *a, const Symbolic *b);
const Symbolic *symbolic_not(Arena *arena, const Symbolic *a);
#define symbolic_add(arena, a, b)      symbolic_binary((arena), SYMBOLIC_ADD, (a), (b))
#define symbolic_sub(arena, a, b)      symbolic_binary((arena), SYMBOLIC_SUB, (a), (b))
#define symbolic_mul(arena, a, b)      symbolic_binary((arena), SYMBOLIC_MUL, (a), (b))
#define symbolic_ceil_div(arena, a, b) symbolic_binary((arena), SYMBOLIC_CEIL_DIV, (a), (b))

/* Reads a text; at: place of its first character (may be NULL). ERROR_INPUT "expression" with the column. */
const Symbolic *symbolic_parse(Arena *arena, const char *text, const Mark *at, GError **error);
/* Text that symbolic_parse reads back to the same expression; g_free. */
char *symbolic_text(const Symbolic *expression);

bool symbolic_is_constant(const Symbolic *expression, int64_t *value); /* value may be NULL */
bool symbolic_equals(const Symbolic *expression, int64_t value);
/* Equal for all values of their symbols, as far as the normal form can tell. */
bool symbolic_same(const Symbolic *a, const Symbolic *b);

/* Value of a leaf (SYMBOL or ALIGN); false if unknown. */
typedef bool (*SymbolicLookup)(const Symbolic *leaf, int64_t *value, void *data);
bool symbolic_evaluate(const Symbolic *expression, SymbolicLookup lookup, void *data, int64_t *value,
                       GError **error);
/* The expression with symbols replaced; `replace` gives NULL to keep a leaf. */
typedef const Symbolic *(*SymbolicReplace)(const Symbolic *leaf, void *data);
const Symbolic *symbolic_substitute(Arena *arena, const Symbolic *expression, SymbolicReplace replace,
                                    void *data);
/* An expression that is nowhere below either: of each product of factors the larger coefficient. NULL if one of the factors may be
 * negative. */
const Symbolic *symbolic_above(Arena *arena, const Symbolic *a, const Symbolic *b,
                               bool (*may_be_negative)(const Symbolic *factor, void *data), void *data);
/* A copy of which nothing is shared: expressions otherwise share parts with what they were built from. NULL
 * gives NULL. */
const Symbolic *symbolic_copy(Arena *arena, const Symbolic *expression);
/* Every leaf, left to right, with repetitions. */
void symbolic_visit(const Symbolic *expression, void (*visit)(const Symbolic *leaf, void *data), void *data);

/* ---- Facts ---- */

/* What is known of a symbol, or of a pointer (then `multiple` is its alignment in bytes, and it stands for
 * align(name)). */
typedef struct SymbolicFact {
  const char *name;
  bool pointer;
  int64_t min, max; /* symbol: inclusive */
  int64_t multiple; /* >= 1 */
} SymbolicFact;

typedef struct SymbolicFacts {
  const SymbolicFact *facts;
  unsigned n;
} SymbolicFacts;

#define SYMBOLIC_DIMENSION_MAX ((int64_t)2147483647) /* coordinates are 32-bit */

/* Bounds of the value under the facts; an unbounded side is INT64_MIN or INT64_MAX. A symbol without a fact
 * is a dimension: 0 .. SYMBOLIC_DIMENSION_MAX. */
void symbolic_range(const Symbolic *expression, const SymbolicFacts *facts, int64_t *min, int64_t *max);
/* The largest number known to divide the value always; 0 if the value is always 0. */
int64_t symbolic_multiple(const Symbolic *expression, const SymbolicFacts *facts);
/* The largest number that divides both; of 0 and a number that number. */
int64_t symbolic_common_factor(int64_t a, int64_t b);
bool symbolic_divisible(const Symbolic *expression, int64_t divisor, const SymbolicFacts *facts);
/* What the facts say of a condition. */
typedef enum { SYMBOLIC_FALSE, SYMBOLIC_TRUE, SYMBOLIC_UNDECIDED } SymbolicTruth;
SymbolicTruth symbolic_decide(const Symbolic *condition, const SymbolicFacts *facts);
