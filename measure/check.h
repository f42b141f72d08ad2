/* What the files of the check share. */
#pragma once
#include "measure/bench.h"

typedef struct Cut { /* a symbol's places that are kept, ascending */
  const char *symbol;
  unsigned n;
  int64_t *places;
} Cut;

typedef struct Sample {
  Graph *plain; /* nothing bound: shapes name their symbols */
  Graph *graph; /* bound to the cut sizes; NULL: the description does not allow them */
  Cut cuts[4];
  unsigned n_cuts;
} Sample;

/* Keeps `rows` places of the outputs' last axis but one, `columns` of the last and `batches` of each of up to
 * two before them, where they can be cut. */
bool sample_make(Sample *sample, const BenchCase *c, unsigned batches, unsigned rows, unsigned columns,
                 GError **error);
void sample_clear(Sample *sample);
/* The kept elements of a tensor (set 0), dense. */
Tensor *sample_read(const Sample *sample, const BenchTensors *tensors, unsigned index, GError **error);

/* D x against A (B x) for random signs x, over all batches. error: norm of the difference over that of A (B
 * x); worst: the largest difference of a row over the root mean square of A (B x). */
bool project_product(BenchGpu *gpu, const BenchTensors *tensors, double *error_norm, double *worst,
                     GError **error);
