/* What each operator means: one node at a time, in double precision (integers exactly), with nothing taken
 * from the generator. Values are not rounded to their type except by Cast. Thread-safe. */
#pragma once
#include "reference/tensor.h"

/* A tensor as the reference holds it: floats in double; integers and truth values in 64 bits, wrapped to
 * their type. */
typedef struct Value {
  NumberType type;
  unsigned rank;
  int64_t shape[TENSOR_MAX_RANK];
  size_t n;
  double *floats;    /* type is a float */
  int64_t *integers; /* otherwise */
} Value;

Value *value_new(NumberType type, unsigned rank, const int64_t *shape, GError **error);
void value_free(Value *value);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Value, value_free)
bool value_is_float(const Value *value);
Value *value_from_tensor(const Tensor *tensor, GError **error);
/* Rounded to the type. */
Tensor *value_to_tensor(const Value *value, const char *name, GError **error);

typedef struct ReferenceAttribute {
  const char *name;
  int64_t integer; /* also a NumberType, for `to` */
  double number;
  const char *text;
  const int64_t *integers;
  unsigned n;
} ReferenceAttribute;

typedef struct ReferenceCall {
  const char *op; /* ONNX's name */
  unsigned opset;
  const Value *const *inputs; /* NULL: an optional input that is absent */
  unsigned n_inputs;
  const ReferenceAttribute *attributes; /* all the operator has, defaults filled in */
  unsigned n_attributes;
  NumberType result; /* type of output 0, as the graph has it */
  const int64_t *
      shape; /* of output 0, as the graph has it; NULL: not told. Reshape of no elements does not say what -1 is */
} ReferenceCall;

/* Computes outputs[0] and, where asked for by n_outputs, the further ones; the caller frees them.
 * ERROR_UNSUPPORTED for an operator it does not know, ERROR_INPUT for shapes that do not fit. */
bool reference_run(const ReferenceCall *call, Value **outputs, unsigned n_outputs, GError **error);
/* true if reference_run knows the operator. */
bool reference_knows(const char *op);

/* ---- comparison ---- */

typedef struct Comparison {
  double
      error; /* ||out - ref|| / ||ref|| of elements that are determined, or of all if few are; ||out - ref||
                   if the reference is zero; integers: elements that differ */
  double max_abs; /* largest |out - ref| of those, where both are finite */
  double limit;
  double plain;        /* the limit before errors raised it */
  double widest;       /* limit that proves anything */
  size_t misplaced;    /* NaN or infinities that are not in place */
  size_t outliers;     /* elements that are further off than any right one should be */
  size_t wrong_blocks; /* parts of rows that are */
  size_t undetermined; /* elements of which the limit could not prove anything */
  size_t worst; /* the first misplaced element, or the outlier that is furthest off, or that of max_abs */
  bool ok;      /* within the limits, whatever they are */
  bool wide;    /* but these prove nothing: above `widest`; integers: too many may be another */
} Comparison;

/* The limit for a type. coarse_products: some product was taken in tf32, or of 8-bit floats, which results of
 * f32 show; fast_sums: of 8-bit floats with fast accumulation, 13 bits on the way, which results of 16 bits
 * show too; longest_sum: k of the longest product of 16-bit floats, or 0. */
double comparison_limit(NumberType type, bool coarse_products, bool fast_sums, int64_t longest_sum);
/* The widest limit that proves anything, for a type whose own is `plain`. */
double comparison_widest(double plain);
/* out holds what a kernel wrote; both have the same shape. Outliers and wrong blocks are counted by the limit
 * and the size of the reference's elements around them, but do not count for `ok`: where results cancel, or
 * follow several roundings, right ones can be among them and beyond the limit. */
Comparison compare_values(const Tensor *out, const Value *reference, double limit);
/* The same where the reference's errors are known (reference/errors.h; NULL: it is exact). The limit is
 * raised to what they amount to, but not above `most`; ok only if there are no outliers and wrong blocks. */
Comparison compare_with_errors(const Tensor *out, const Value *reference, const double *errors, double limit,
                               double widest, double most);
/* The limit that errors lead to, in units of the widest one that proves anything: a tensor above 1 is wide. 0
 * for integers. */
double comparison_width(const Value *reference, const double *errors, double limit, double widest);
