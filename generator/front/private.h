/* Between the files graph*.c only. */
#pragma once
#include "base/document.h"
#include "generator/front/graph.h"
#include "generator/front/onnx.h"

/* Type of a tensor whose inference failed: what depends on it is not reported again. */
#define TYPE_UNKNOWN NUMBER_TYPE_COUNT

/* A tensor of the graph; added to graph->tensors by the caller. */
GraphTensor *graph_tensor_new(Graph *graph, const char *name, GraphTensorKind kind, Mark mark);
void graph_row_major(Arena *arena, GraphTensor *tensor);
void graph_collect_facts(Graph *graph);
/* Types and shapes of the outputs of every node, in order. false if something was reported. */
bool graph_infer(Graph *graph, GError **error);
/* "[M, 4096]"; g_free. */
char *graph_shape_text(const Symbolic *const *shape, unsigned rank);

/* State of reading an op description. */
typedef struct {
  Graph *graph;
  GHashTable *tensors; /* name -> GraphTensor */
  GArray *dims;        /* GraphDim in order of appearance */
  GPtrArray *inputs, *constants, *computed, *nodes, *outputs;
  GPtrArray *unsupported; /* nodes whose operators only ONNX has */
  const GraphBinding *bindings;
  unsigned n_bindings;
  GError **error;
  bool failed;
} Reader;

void reader_report(Reader *reader, ErrorCode code, const Mark *mark, const char *id, const char *hint,
                   const char *format, ...) G_GNUC_PRINTF(6, 7);
/* "did you mean `x`?" for the nearest of a NULL-terminated list, else otherwise (which may be NULL); g_free.
 */
char *reader_suggest(const char *name, const char *const *candidates, const char *otherwise);
/* The document's helpers, with faults noted in the reader. */
bool reader_finish(Reader *reader, Node *mapping, const char *const *known);
bool reader_string(Reader *reader, Node *node, const char **value);
bool reader_integer(Reader *reader, Node *node, int64_t *value);
bool reader_is(Reader *reader, Node *node, NodeKind kind, const char *what);
Node *reader_require(Reader *reader, Node *mapping, const char *key); /* NULL: reported */
bool reader_type(Reader *reader, Node *node, NumberType *type);
/* Puts a tensor into a list and the table of names. */
void reader_define(Reader *reader, GraphTensor *tensor, GPtrArray *list);
/* Every known tensor name, NULL-terminated, for did-you-mean; g_free the array only. */
const char **reader_tensor_names(Reader *reader);
/* graph_nodes.c: the nodes, linked to their tensors and brought into topological order; the graph's outputs.
 */
void reader_nodes(Reader *reader, Node *node);
void reader_outputs(Reader *reader, Node *node);
/* graph_onnx.c: what ONNX's definition says beside ours. Of a node whose operator we lack: what is wrong with its
 * attributes (NULL: none) is wrong, not unsupported. */
void reader_check_attributes(Reader *reader, Node *attributes, const Node *node, const OnnxOperator *op);
/* Reports an attribute that ONNX has in other versions of the node's operator only, and gives true. */
bool reader_refuse_attribute_of_version(Reader *reader, const GraphNode *node, const char *name,
                                        const Mark *mark);
/* The types of inputs, where they are known, of nodes that inference leaves out: with operators or types that we
 * lack. */
void reader_check_types(Reader *reader);
/* graph_data.c: type, shape and data of a constant. */
void reader_data(Reader *reader, Node *node, GraphTensor *tensor);
/* graph_unused.c: fills graph->warnings. */
void graph_warn_of_unused(Graph *graph);
