#include "execute/data_set.h"
#include "execute/evaluate.h"
#include "generator/front/census.h"
#include <math.h>
#include <string.h>

/* ---- from files ---- */

Tensor *data_set_tensor(const char *path, GError **error)
{
  g_autoptr(Source) source = source_load(path, error);
  g_autoptr(Graph) graph = source ? graph_read_tensor(source, error) : NULL;
  return graph ? evaluate_constant(graph, 0, error) : NULL;
}

/* input_0.pb and so on, up to the first that is not there. */
static GPtrArray *load_all(const char *folder, const char *what, GError **error)
{
  g_autoptr(GPtrArray) list = g_ptr_array_new_with_free_func((GDestroyNotify)tensor_free);
  for (unsigned i = 0;; i++) {
    g_autofree char *name = g_strdup_printf("%s_%u.pb", what, i),
                    *path = g_build_filename(folder, name, NULL);
    if (!g_file_test(path, G_FILE_TEST_EXISTS)) return g_steal_pointer(&list);
    Tensor *tensor = data_set_tensor(path, error);
    if (!tensor) return NULL;
    g_ptr_array_add(list, tensor);
  }
}

DataSet *data_set_load(const char *folder, GError **error)
{
  g_autoptr(DataSet) set = g_new0(DataSet, 1);
  set->folder = g_strdup(folder);
  set->inputs = load_all(folder, "input", error);
  set->outputs = set->inputs ? load_all(folder, "output", error) : NULL;
  if (!set->outputs) return NULL;
  if (set->outputs->len) return g_steal_pointer(&set);
  error_set(error, ERROR_INPUT, NULL, "no-data",
            "ONNX's test_data_set_0 has input_0.pb, ... and output_0.pb, ...", "%s: there is no output_0.pb",
            folder);
  return NULL;
}

void data_set_free(DataSet *set)
{
  if (!set) return;
  g_free(set->folder);
  g_clear_pointer(&set->inputs, g_ptr_array_unref);
  g_clear_pointer(&set->outputs, g_ptr_array_unref);
  g_free(set);
}

/* ---- for a graph ---- */

GraphOffer *data_set_offers(const DataSet *set)
{
  GraphOffer *offers = g_new0(GraphOffer, set->inputs->len + 1);
  for (unsigned i = 0; i < set->inputs->len; i++) {
    const Tensor *tensor = set->inputs->pdata[i];
    offers[i] = (GraphOffer){tensor->type, tensor->n, tensor->data};
  }
  return offers;
}

GraphBinding *data_set_bindings(const DataSet *set, const Graph *graph, unsigned *n)
{
  GraphBinding *bindings = arena_new_array(graph->arena, GraphBinding, graph->n_dims);
  *n = 0;
  for (unsigned k = 0; k < graph->n_dims; k++)
    for (unsigned i = 0; i < MIN(graph->n_inputs, set->inputs->len); i++) {
      const GraphTensor *input = graph->inputs[i];
      const Tensor *tensor = set->inputs->pdata[i];
      for (unsigned d = 0; d < MIN(input->rank, tensor->rank); d++) {
        const Symbolic *extent = input->shape[d];
        if (extent->kind != SYMBOLIC_SYMBOL || strcmp(extent->name, graph->dims[k].name)) continue;
        if (!*n || bindings[*n - 1].name != graph->dims[k].name)
          bindings[(*n)++] = (GraphBinding){graph->dims[k].name, tensor->shape[d]};
      }
    }
  return bindings;
}

GHashTable *data_set_files(const DataSet *set, const Graph *graph, GError **error)
{
  if (set->inputs->len != graph->n_inputs || set->outputs->len != graph->n_outputs) {
    error_set(error, ERROR_INPUT, NULL, "no-data", NULL,
              "%s has %u inputs and %u outputs, the graph %u and %u", set->folder, set->inputs->len,
              set->outputs->len, graph->n_inputs, graph->n_outputs);
    return NULL;
  }
  GHashTable *files = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
  for (unsigned i = 0; i < graph->n_inputs; i++) {
    g_autofree char *name = g_strdup_printf("input_%u.pb", i);
    g_hash_table_insert(files, g_strdup(graph->inputs[i]->name), g_build_filename(set->folder, name, NULL));
  }
  return files;
}

/* ---- comparison ---- */

static bool same_shape(const Tensor *a, const Tensor *b)
{
  return a->rank == b->rank && (!a->rank || !memcmp(a->shape, b->shape, a->rank * sizeof *a->shape));
}

static bool is_close(double out, double wanted, double rtol, double atol)
{
  if (isnan(out) || isnan(wanted)) return isnan(out) && isnan(wanted);
  if (isinf(out) || isinf(wanted)) return out == wanted;
  return fabs(out - wanted) <= atol + rtol * fabs(wanted);
}

DataSetComparison data_set_compare(const Tensor *out, const Tensor *wanted, double rtol, double atol)
{
  DataSetComparison c = {.ok = true};
  if (out->type != wanted->type && !(out->type == NUMBER_TF32 && wanted->type == NUMBER_F32))
    c.other = "type";
  if (!same_shape(out, wanted)) c.other = "shape";
  if (c.other) return (DataSetComparison){.other = c.other};
  /* Two units in the last place of the type, as ONNX's runner has it. */
  if (out->type == NUMBER_BF16) rtol = fmax(rtol, 0x1p-6);
  double distance = 0, size = 0;
  for (size_t i = 0; i < out->n; i++) {
    double a = number_read(out->type, out->data, i), b = number_read(wanted->type, wanted->data, i),
           off = fabs(a - b);
    bool close = is_close(a, b, rtol, atol), further = isfinite(off) && off > c.max_abs;
    if (further) c.max_abs = off;
    if (isfinite(off)) {
      distance += off * off;
      size += b * b;
    }
    if (close) continue;
    if (!c.n_wrong++ || further) {
      c.worst = i;
      c.out = a;
      c.wanted = b;
    }
  }
  c.ok = !c.n_wrong;
  c.error = distance > 0 ? sqrt(distance / size) : 0;
  return c;
}
