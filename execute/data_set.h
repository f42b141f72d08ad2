/* Inputs of a run and what it is to give, as ONNX keeps them beside its test models: a folder with input_0.pb, input_1.pb, ...
 * and output_0.pb, ..., one tensor each, in the order of the graph's inputs and outputs. */
#pragma once
#include "execute/data.h"

typedef struct DataSet {
  char *folder;
  GPtrArray *inputs, *outputs; /* Tensor */
} DataSet;

DataSet *data_set_load(const char *folder, GError **error);
void data_set_free(DataSet *set);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(DataSet, data_set_free)
/* The one tensor of a .pb file. */
Tensor *data_set_tensor(const char *path, GError **error);
/* What inputs hold, as reading a graph takes it; as set->inputs, with their data; g_free. */
GraphOffer *data_set_offers(const DataSet *set);
/* Symbols that stand alone as a dimension of an input, with what the data have there; in the graph's arena. */
GraphBinding *data_set_bindings(const DataSet *set, const Graph *graph, unsigned *n);
/* Paths (char *) by the names of the graph's inputs, as run_data_new takes them; NULL: more or fewer than the graph has. */
GHashTable *data_set_files(const DataSet *set, const Graph *graph, GError **error);

/* An output beside what it is to be, as numpy.testing.assert_allclose has it: |out - wanted| <= atol + rtol |wanted|, NaN
 * where NaN is, infinities alike; integers by the same rule. */
typedef struct DataSetComparison {
  bool ok;
  const char *other; /* "type" or "shape", if that differs; NULL: the same */
  size_t n_wrong, worst;
  double out, wanted; /* at the worst */
  double max_abs;     /* of what is finite */
  double error;       /* ||out - wanted|| / ||wanted||, of what is finite; 0 / 0 is 0 */
} DataSetComparison;

DataSetComparison data_set_compare(const Tensor *out, const Tensor *wanted, double rtol, double atol);
