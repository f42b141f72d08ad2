/* Sums of integers times unknowns: what passes compare bounds, corners and masks with. An unknown is an expression that
 * stands for itself: a dim, `block(0)`, a value that is no sum. Reads the module, makes nothing but expressions in its arena;
 * not thread-safe for one module. */
#pragma once
#include "ir/ir.h"

#define AFFINE_TERMS 8

typedef struct {
  int64_t constant;
  unsigned n;
  struct {
    const IrExpr *unknown;
    int64_t factor; /* not 0 */
  } terms[AFFINE_TERMS];
} Affine;

/* Which values are unknowns of their own; what it refuses has no affine form. */
typedef bool (*AffineKnown)(const IrExpr *leaf, void *data);

/* The form of an integer expression; `let`s are followed as far as they are sums. false: it has none. */
bool affine_of(const IrExpr *expr, AffineKnown known, void *data, Affine *form);
/* sum += factor * other; false if it has too many terms or a number does not fit. */
bool affine_add(Affine *sum, const Affine *other, int64_t factor);
/* Takes the term of a value out of the form: its factor, 0 if it has none. */
int64_t affine_take(Affine *form, const IrValue *value);
/* Is it no less than 0 whatever the unknowns are? Coordinates, dims and quotients of these are not negative. */
bool affine_is_non_negative(const Affine *form);
/* Does the number divide the constant and all factors? */
bool affine_is_multiple(const Affine *form, int64_t of);
/* The form divided by a number that affine_is_multiple() of, as an expression. */
IrExpr *affine_expr(IrModule *module, const Affine *form, int64_t divided_by);
