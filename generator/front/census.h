/* How many nodes a graph has of each operator, and whether adlgen has it: what there is to know of a model before anything is
 * compiled, also of one that cannot be read. */
#pragma once
#include "generator/front/assume.h"
#include "generator/front/graph.h"

typedef struct GraphCensusRow {
  const char *domain, *op; /* as the model writes them */
  unsigned nodes;
  bool supported; /* the operator: attributes, types and shapes of a node may still be refused */
} GraphCensusRow;

typedef struct GraphCensus {
  GHashTable *rows; /* "domain\nop" -> GraphCensusRow */
} GraphCensus;

GraphCensus *graph_census_new(void);
void graph_census_free(GraphCensus *census);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(GraphCensus, graph_census_free)
void graph_census_count(GraphCensus *census, const char *domain, const char *op, bool supported);
/* Those that lack support first, then by number of nodes and by name; g_ptr_array_unref; rows are the census's. */
GPtrArray *graph_census_sorted(const GraphCensus *census);

/* What a graph is read with; zeros and NULLs stand for nothing. */
typedef struct GraphReading {
  const GraphBinding *bindings;
  unsigned n_bindings;
  const GraphOffer *offers; /* in the order of the inputs */
  unsigned n_offers;
  GraphCensus *census; /* counts the nodes as well, whether reading succeeds or not */
  /* Called behind each pass of the reading (graph_passes), with the graph as it is then; NULL: nobody wants to know. A graph that is
   * read several times over (assume.h) begins anew with the first pass. */
  void (*report)(unsigned pass, const Graph *graph, void *data);
  void *data;
  /* Of readers only, see assume.h: what earlier readings of the graph made, with which this one begins, and where it puts
   * what it makes. */
  Assumptions *assumptions;
} GraphReading;

/* The passes of a reading, in order. */
typedef struct GraphPass {
  const char *name, *does;
} GraphPass;
typedef enum { GRAPH_PASS_READ, GRAPH_PASS_INFER, GRAPH_PASS_EXPAND, GRAPH_PASS_COUNT } GraphPassNumber;
extern const GraphPass graph_passes[GRAPH_PASS_COUNT];

Graph *graph_read_with(Source *source, const GraphReading *reading, GError **error);
/* The one tensor of a file of ONNX's (.pb), as the constant of a graph without nodes. */
Graph *graph_read_tensor(Source *source, GError **error);
