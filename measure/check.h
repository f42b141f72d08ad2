/* What the files of the check share. */
#pragma once
#include "measure/bench.h"

typedef struct Cut { /* places that are kept along some dimensions, ascending */
  unsigned class_;   /* of these dimensions */
  unsigned n;
  int64_t whole; /* so many there are */
  bool moves;    /* the places follow one another: a sample for each of several blocks of them */
  int64_t *places;
} Cut;

typedef struct SampleSize {
  /* Places of the first output's last axis, the last but one, and of each before them: where these can be cut, and have more. */
  unsigned columns, rows, batches;
  unsigned block; /* which of n_blocks */
} SampleSize;

typedef struct Sample {
  Graph *graph; /* all bound, with extents as they are cut */
  Cut cuts[GRAPH_MAX_RANK];
  unsigned n_cuts;
  uint8_t *cut_of; /* for sample_cut() */
  unsigned n_blocks;
} Sample;

bool sample_make(Sample *sample, const BenchCase *c, const SampleSize *size, GError **error);
/* Of its matrix products. */
double sample_flops(const Sample *sample);
/* Of its inputs, which the reference holds. */
double sample_elements(const Sample *sample);
/* How a dimension of the case's or the sample's tensor is cut; NULL: not at all. */
const Cut *sample_cut(const Sample *sample, const GraphTensor *tensor, unsigned d);
void sample_clear(Sample *sample);
/* The kept elements of a tensor (set 0), dense. */
Tensor *sample_read(const Sample *sample, const BenchTensors *tensors, unsigned index, GError **error);

/* cuts.c, for sample_make(): finds what can be cut of the sample's graph, which is the case's yet; cuts it. */
void sample_find_cuts(Sample *sample, const SampleSize *size);
void sample_cut_graph(Sample *sample);

/* D x against A (B x) for random signs x, over all batches. error: norm of the difference over that of A (B
 * x); worst: the largest difference of a row over the root mean square of A (B x). */
bool project_product(BenchGpu *gpu, const BenchTensors *tensors, double *error_norm, double *worst,
                     GError **error);
