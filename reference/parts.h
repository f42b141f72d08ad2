/* Between operators that are computed from others: their values in between, and how far each element of them may be off, so that errors are
 * those of the steps. */
#pragma once
#include "reference/private.h"

/* A value and its errors; it is its holder's. */
typedef struct Part {
  Value *value;
  Errors errors;
} Part;

typedef struct Parts {
  const ReferenceCall *call;
  const Errors *inputs; /* NULL: errors are not asked for */
  const ErrorModel *model;
  GError **error;
  bool ok; /* once it is false, nothing more is computed */
} Parts;

void part_clear(Part *part);
Part part_copy(Parts *at, const Part *part);
/* One element, f32. */
Part part_number(Parts *at, double value);
/* One of the operators, whose result kernels hold in the type; a and b (which may be nothing) are used up. */
Part part_step(Parts *at, const char *op, Part a, Part b, const ReferenceAttribute *attributes, unsigned n,
               NumberType held);
/* The same without attributes, held in f32. */
Part part_of(Parts *at, const char *op, Part a, Part b);
/* Products as scores: times `scale` (0: what follows from Q's columns), bent by `softcap`. *bent: its tanh, or nothing; NULL: not
 * wanted. */
Part part_scores(Parts *at, Part product, const Value *queries, Part *bent);
/* The call's `scale`, or what follows from Q's columns. */
double part_scale(const ReferenceCall *call, const Value *queries);
/* Keys that a row sees by `is_causal` and the windows: key - row is within [least, most]. */
typedef struct PartWindow {
  int64_t least, most;
} PartWindow;
PartWindow part_window(const ReferenceCall *call);
