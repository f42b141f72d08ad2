/* Between the files of front/ only. */
#pragma once
#include "generator/front/builder.h"
#include "generator/front/onnx.h"

/* Type of a tensor whose inference failed: what depends on it is not reported again. */
#define TYPE_UNKNOWN NUMBER_TYPE_COUNT

/* A tensor of the graph; added to graph->tensors by the caller. */
GraphTensor *graph_tensor_new(Graph *graph, const char *name, GraphTensorKind kind, Mark mark);
void graph_row_major(Arena *arena, GraphTensor *tensor);
#define KNOWN_INTEGERS_MAX 1024
/* Sets `values` of a constant of integers with data, if they are not too many. */
void graph_know_integers(Arena *arena, GraphTensor *tensor);
void graph_collect_facts(Graph *graph);
/* "[M, 4096]"; g_free. */
char *graph_shape_text(const Symbolic *const *shape, unsigned rank);

/* An output of the graph, looked up when all tensors are known. */
typedef struct {
  const char *name;
  Mark mark;
} BuilderOutput;

/* An output of the graph that lies in the memory of an input. */
typedef struct {
  const char *output, *input;
  Mark mark;
} BuilderSharing;

/* Nodes as they are read. */
typedef struct {
  GPtrArray *all;         /* faulty ones too, */
  GPtrArray *input_names; /* and const char ** of each, NULL: not known; */
  GPtrArray *formed;      /* those without a fault, in the format's order */
} BuilderNodes;

/* A graph that an attribute holds. What is defined in it is known in it only, and it knows what stands around it. Its nodes are none of
 * the graph's: control flow makes copies of them while types are inferred (expand_body.h), so that they have no types themselves. */
struct GraphBody {
  GraphBody *outer;    /* that it stands in; NULL: the graph itself */
  GHashTable *tensors; /* name -> GraphTensor */
  BuilderNodes read;
  GPtrArray *inputs, *constants, *results;
  GPtrArray *nodes;   /* in topological order */
  GArray *wanted;     /* BuilderOutput */
  GPtrArray *outputs; /* GraphTensor *: of nodes, or any other that it knows */
  GPtrArray *
      captured; /* GraphTensor *: what else its nodes and outputs are, inputs at the end of the node that has it */
  bool faulty; /* which was reported */
};

struct GraphBuilder {
  Graph *graph;
  const GraphValueFormat *format;
  GHashTable *tensors; /* name -> GraphTensor */
  GArray *dims;        /* GraphDim in order of appearance */
  GArray *wanted;      /* BuilderOutput */
  GArray *sharing;     /* BuilderSharing */
  GArray *claims;      /* GraphClaim */
  GPtrArray *inputs, *constants, *computed, *outputs;
  BuilderNodes read;
  GPtrArray *bodies;      /* GraphBody *, each behind those that stand in it */
  GraphBody *body;        /* that is being read; NULL: the graph itself */
  unsigned n_copies;      /* of nodes of bodies */
  GHashTable *numbers;    /* name -> the number that was last found free behind it */
  GPtrArray *nodes;       /* those without a fault in topological order; */
  GPtrArray *expanded;    /* these with what they are defined by in the place of functions */
  GPtrArray *unsupported; /* nodes whose operators only ONNX has */
  GHashTable *refused;    /* operators that we lack and that were reported: "domain\nop" */
  unsigned n_written; /* constants of the description; those behind them are made while types are inferred */
  GraphReading reading;
  bool trusting; /* extents that must be equal are: what ONNX models take for granted */
  GError **error;
  bool failed, failed_before;
};

/* "did you mean `x`?" for the nearest of a NULL-terminated list, else otherwise (which may be NULL); g_free.
 */
char *builder_suggest(const char *name, const char *const *candidates, const char *otherwise);
/* Puts a tensor into a list and the table of names. */
void builder_define(GraphBuilder *builder, GraphTensor *tensor, GPtrArray *list);
/* The tensor of that name as the body (NULL: the graph itself) knows it; NULL: none. */
GraphTensor *builder_find(const GraphBuilder *builder, const GraphBody *body, const char *name);
/* A name of the graph's that is free: it, or with the first number behind it from 2 on. In the graph's arena. */
const char *builder_free_name(GraphBuilder *builder, const char *name, const char *separator);
void builder_report_undefined(GraphBuilder *builder, const GraphBody *body, const char *name,
                              const Mark *mark);
/* Every tensor name that is known there, NULL-terminated, for did-you-mean; g_free the array only. */
const char **builder_tensor_names(const GraphBuilder *builder, const GraphBody *body);
/* builder_dims.c: dimensions that inputs name by themselves; then, when all is known: every symbol is defined and used,
 * bindings hold, shapes are settled; and the order in which kernels take them. */
void builder_declare_plain_symbols(GraphBuilder *builder, const GraphTensor *tensor, const Mark *marks);
void builder_settle_dims(GraphBuilder *builder);
void builder_order_dims(GraphBuilder *builder);
/* builder_body.c: links the nodes of all bodies and brings them into order; their constants, under names of their own, become the
 * graph's; frees one. */
void builder_link_bodies(GraphBuilder *builder);
void builder_take_constants(GraphBuilder *builder);
void builder_free_body(void *body);
/* builder_nodes.c: links nodes of a body (NULL: of the graph itself) to their tensors; puts them into `order`. */
void builder_link_nodes(GraphBuilder *builder, const BuilderNodes *nodes, const GraphBody *body,
                        GPtrArray *order);
void builder_open_nodes(BuilderNodes *nodes);
void builder_free_nodes(const BuilderNodes *nodes);
/* Links the graph's nodes to their tensors and brings them into topological order; finds the outputs. */
void builder_link(GraphBuilder *builder);
/* Who reads each tensor, of these nodes; their indices. */
void builder_index(GraphBuilder *builder, GPtrArray *nodes);
/* infer.c: types and shapes of the outputs of every node, in order; fills `expanded`. false if something was reported. */
bool builder_infer(GraphBuilder *builder);
/* builder_onnx.c: what ONNX's definition says beside ours. Of a node whose operator we lack: what is wrong with its
 * attributes is wrong, not unsupported. */
void builder_check_attributes(GraphBuilder *builder, const GraphNodeSpec *spec, const OnnxOperator *op);
/* Reports an attribute that ONNX has in other versions of the node's operator only, and gives true. */
bool builder_refuse_attribute_of_version(GraphBuilder *builder, const GraphNode *node, const char *name,
                                         const Mark *mark);
/* An input that must be there: some of ONNX's stand in front of others and may be absent all the same. */
bool builder_requires(const GraphNode *node, unsigned input);
/* The types of inputs, where they are known, of nodes that inference leaves out: with operators or types that we
 * lack. */
void builder_check_types(GraphBuilder *builder);
/* Those of one node by the newest version of its operator; false: reported. */
bool builder_check_node_types(GraphBuilder *builder, const GraphNode *node);
/* builder_claims.c: what is said of outputs holds. */
void builder_check_claims(GraphBuilder *builder);
/* unused.c: which nodes, in topological order, have an output that is the graph's or is read by a node that has such a one,
 * and so on; g_free. */
bool *graph_find_live(GraphNode *const *nodes, unsigned n);
/* Fills graph->warnings. */
void graph_warn_of_unused(Graph *graph);
