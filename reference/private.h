/* Between the files of reference/ only. */
#pragma once
#include "reference/errors.h"

const ReferenceAttribute *reference_attribute(const ReferenceCall *call,
                                              const char *name); /* NULL: not there */
double reference_number(const ReferenceCall *call, const char *name);
int64_t reference_integer(const ReferenceCall *call, const char *name);
/* The value reduced modulo 2^bits into the range of an integer type; bool: 0 or 1. */
int64_t reference_wrap(NumberType type, int64_t value);
bool reference_refuse(GError **error, const ReferenceCall *call, const char *message);

/* Families. Each tells by *known whether the operator is one of its own. */
Value *reference_elementwise(const ReferenceCall *call, bool *known, GError **error); /* elementwise.c */
bool reference_is_elementwise(const char *op);
Value *reference_quantization(const ReferenceCall *call, GError **error); /* quantize.c */
bool reference_is_quantization(const char *op);
bool reference_is_product(const char *op);
Value *reference_product(const ReferenceCall *call, GError **error); /* product.c */
Value *reference_grouped(const ReferenceCall *call, GError **error); /* grouped.c */
bool reference_is_row(const char *op);                               /* the reductions are among them */
bool reference_rows(const ReferenceCall *call, Value **outputs, unsigned n_outputs,
                    GError **error); /* rows.c */

bool reference_is_gradient(const char *op);
bool reference_gradient(const ReferenceCall *call, Value **outputs, unsigned n_outputs,
                        GError **error); /* gradient.c */
bool reference_is_sequences(const char *op);
bool reference_sequences(const ReferenceCall *call, Value **outputs, unsigned n_outputs,
                         GError **error); /* sequences.c */
/* As reference_rounds_to(): keys that a scale of their own multiplies are rounded to the queries' type in front of a log-sum-exp. */
NumberType reference_sequences_round_to(const ReferenceCall *call, const Value *out);

bool reference_is_view(const char *op);
bool reference_views(const ReferenceCall *call, Value **outputs, unsigned n_outputs,
                     GError **error); /* views.c */

bool reference_is_reshape(const char *op);
Value *reference_reshape(const ReferenceCall *call, GError **error); /* reshape.c */

bool reference_is_window(const char *op);
bool reference_windows(const ReferenceCall *call, Value **outputs, unsigned n_outputs,
                       GError **error); /* windows.c */

bool reference_is_scatter(const char *op);
bool reference_is_places(const char *op); /* TallyKeys, PlaceKeys: places.c */
bool reference_places(const ReferenceCall *call, Value **outputs, unsigned n_outputs, GError **error);
bool reference_is_append(const char *op);
bool reference_append(const ReferenceCall *call, Value **outputs, unsigned n_outputs, GError **error);
Value *reference_scatter(const ReferenceCall *call, GError **error); /* scatter.c */

bool reference_is_resample(const char *op);
Value *reference_resample(const ReferenceCall *call, GError **error); /* resample.c */

bool reference_is_index(const char *op);
Value *reference_index(const ReferenceCall *call, GError **error); /* index.c */

#define REFERENCE_NOWHERE SIZE_MAX
/* The element of x at `at`, an index for each dimension; REFERENCE_NOWHERE if one of them is outside. */
size_t reference_element(const Value *x, const int64_t *at);

/* Element offsets under broadcasting: stride of each dim of `shape` within the value, 0 where it is repeated.
 * false if the value does not broadcast. */
bool reference_strides(const Value *value, unsigned rank, const int64_t *shape, int64_t *strides);

/* Of ArgMax, ArgMin and Hardmax: offsets of the elements of input 0, row by row. NULL: there is no such axis; g_free. */
size_t *reference_row_elements(const ReferenceCall *call, size_t *n_rows, size_t *n_columns);
