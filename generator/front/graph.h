/* The graph: an op description after reading, inference and checking.
 *
 * Everything lives in the graph's arena and is immutable after graph_read(), so it may be shared between
 * threads. Nodes are in topological order (the file's order wherever that is one). */
#pragma once
#include "base/arena.h"
#include "base/diagnostic.h"
#include "base/number.h"
#include "generator/front/operators.h"
#include "symbolic/symbolic.h"
#include <stdbool.h>
#include <stdint.h>

#define GRAPH_MAX_RANK     8
#define GRAPH_TEXT_VERSION 1

typedef struct GraphNode GraphNode;

typedef enum { TENSOR_INPUT, TENSOR_CONSTANT, TENSOR_COMPUTED } GraphTensorKind;

/* A matrix of elements of a type that lie in a dense tensor of any shape, and of another type of which each byte is theirs: so many
 * of them from row to row. `of`: NULL: nothing of that kind is known. */
typedef struct GraphPacked {
  const struct GraphTensor *of;
  NumberType type;
  int64_t row;
} GraphPacked;

/* What a tensor is known to be: x, each element times the scale of its block. A dimension's index divided by its `sizes` is
 * the scale's (1: an index has its own). */
typedef struct GraphBlocks {
  struct GraphTensor *x, *scale, *zero; /* of the same rank; zero: of integers, subtracted before; NULL: 0 */
  int64_t sizes[GRAPH_MAX_RANK];
  GraphPacked x_in, scale_in, zero_in; /* where x, scale and zero come out of, for who reads them there */
} GraphBlocks;

typedef struct GraphTensor {
  const char *name;
  GraphTensorKind kind;
  bool is_output; /* of the graph; a graph's output is always COMPUTED */
  bool written;   /* INPUT of a part of a graph (cut.h), which launches of other parts write */
  unsigned index; /* in graph->tensors */
  NumberType type;
  unsigned foreign; /* while it is read: ONNX's number of a type that we lack; 0: none */
  unsigned rank;
  const Symbolic *shape[GRAPH_MAX_RANK];
  const Symbolic *strides[GRAPH_MAX_RANK]; /* elements; row-major unless the description says otherwise */
  unsigned align;                          /* bytes its address is known to be a multiple of */
  /* Of a view, which fusion makes and which has the index and name of the tensor whose elements it shows: how
   * many of them lie before its first one. NULL: none, and it is no part of a tensor that the graph computes.
   */
  const Symbolic *begins;
  /* Of a tensor that fusion has written in parts by several nodes: these, which are views with indices of
   * their own. NULL: one node gives it. */
  const struct GraphTensor *const *parts;
  unsigned n_parts;
  const struct GraphTensor *whole; /* of such a part: the tensor it belongs to */
  const GraphBlocks *blocks;       /* NULL: nothing of that kind is known */
  const struct GraphTensor
      *memory;           /* of an output: the input whose memory it lies in; NULL: it has its own */
  GraphNode *producer;   /* COMPUTED */
  GraphNode **consumers; /* in node order, one entry per use */
  unsigned n_consumers;
  /* Integers that are known while the graph is read, of a constant or computed from shapes: n_elements expressions; NULL: they
   * are not, or too many. */
  const Symbolic *const *values;
  int64_t indexed;   /* elements that it holds indices of for functions, whose nodes are gone; 0: for none */
  bool offered;      /* known by a GraphOffer only, or computed from such: for those who must know */
  const void *data;  /* CONSTANT written in the description: row-major, as in memory; else NULL */
  size_t n_elements; /* CONSTANT: its shape is known */
  const char *file;  /* CONSTANT in a file: path, relative ones already joined to the description's folder */
  bool
      file_is_raw; /* the file's bytes from file_offset on are its elements, row-major; else a file of tensors */
  uint64_t file_offset;
  Mark mark; /* where it is declared or produced */
} GraphTensor;

/* Nodes that are carried out `count` times. What comes in from outside is a LoopElement (one more at each time), a LoopState (what
 * LoopNext of the time before was given) or any other tensor (the same each time); what goes out is what LoopNext gives (the last
 * state) or LoopStack (of all times). */
typedef struct GraphLoop {
  const Symbolic *count;
} GraphLoop;

/* How a tensor of a loop's body lies from one time to the next. */
typedef enum {
  GRAPH_TIME_ELEMENT,  /* one further, */
  GRAPH_TIME_REVERSED, /* or back from the last */
  GRAPH_TIME_STATE,    /* in the place of two that the time before has written, */
  GRAPH_TIME_NEXT,     /* or in the other one */
} GraphTimeKind;

typedef struct GraphTime {
  const char *tensor;
  GraphTimeKind kind;
  const char *state;      /* STATE, NEXT: which */
  const Symbolic *stride; /* elements: from time to time, or from place to place */
} GraphTime;

/* Of a graph that is a loop's body: what is not listed is the same at all times. */
typedef struct GraphTimes {
  const Symbolic *count;
  const GraphTime *of;
  unsigned n;
} GraphTimes;

/* A graph that an attribute holds (private.h): of nodes that are written, while the graph is read. */
typedef struct GraphBody GraphBody;

/* A node's attributes stand in the order of op->attributes; absent ones hold the default. */
typedef struct GraphAttribute {
  bool given;
  int64_t integer;          /* INT; TYPE: a NumberType */
  double number;            /* FLOAT */
  const char *text;         /* STRING */
  const int64_t *integers;  /* INTS */
  const double *numbers;    /* FLOATS */
  const char *const *texts; /* STRINGS */
  const GraphBody *body;    /* GRAPH */
  unsigned n;
  Mark mark;
} GraphAttribute;

struct GraphNode {
  const Operator *op;
  const struct OnnxOperator *onnx; /* the same in ONNX's table; NULL in nodes that fusion makes */
  const Operator *written;         /* that the description has in its place (expand.h); NULL: op itself */
  bool lacks_type;                 /* while it is read: ONNX admits the type of an input, ours does not */
  const char *name;                /* "" if not given */
  unsigned index;                  /* in graph->nodes */
  const GraphLoop *loop;           /* that it is carried out in; NULL: none */
  GraphTensor **inputs;            /* NULL: an optional input that is absent; n_inputs >= op->min_inputs */
  unsigned n_inputs;
  unsigned n_captured;   /* the last ones of them: what bodies of its attributes take from around it */
  GraphTensor **outputs; /* NULL: not asked for */
  unsigned n_outputs;
  GraphAttribute *attributes; /* op->n_attributes */
  const Mark *input_marks;    /* where each input is named */
  /* Resolved by inference: */
  uint32_t axes; /* ROW: bit per normalised or reduced axis; 0: nothing is reduced. Split, Concat: one */
  bool keepdims; /* ROW, reductions */
  const Symbolic **sizes;         /* Split: of each output along the axis in `axes` */
  unsigned order[GRAPH_MAX_RANK]; /* Transpose: the input's dimension that is the output's i-th */
  const Symbolic **firsts;        /* Slice: of each dimension the first index, */
  int64_t steps[GRAPH_MAX_RANK];  /* and from one to the next, never 0 */
  const GraphBlocks *blocks
      [2]; /* products, where fusion says so: of each operand, whose scale is a further input; or NULL */
  Mark mark;
};

typedef struct GraphDim {
  const char *name;
  int64_t min, max, multiple;
  bool bound;    /* by a binding: min == max, and shapes hold the number */
  bool declared; /* under `dims` */
  Mark mark;
} GraphDim;

typedef struct Graph {
  Arena *arena;
  Source *source;
  const char *name;
  unsigned opset;
  GraphDim *dims; /* in order of appearance */
  unsigned n_dims;
  GraphTensor **tensors; /* inputs, constants, then computed ones in node order */
  unsigned n_tensors;
  GraphTensor **inputs; /* in order of appearance */
  unsigned n_inputs;
  GraphTensor **constants;
  unsigned n_constants;
  GraphTensor **outputs; /* in the order of `outputs` */
  unsigned n_outputs;
  GraphNode **nodes;
  unsigned n_nodes;
  SymbolicFacts facts;     /* of dims and of the pointers of all tensors */
  const GraphTimes *times; /* NULL: it is carried out once */
  GError *warnings;        /* what has no effect: nodes, inputs, constants that no output needs; NULL: none */
} Graph;

/* --dim M=4096 */
typedef struct GraphBinding {
  const char *name;
  int64_t value;
} GraphBinding;
/* Reads "M=4096"; the name is put into the arena. ERROR_USAGE if it is not of that form. */
bool graph_binding_parse(Arena *arena, const char *text, GraphBinding *binding, GError **error);

/* What an input will hold. Nodes that must know it while the graph is read (a shape, axes) take it as a constant, as if the
 * description had it; the others read the input. */
typedef struct GraphOffer {
  NumberType type;
  size_t n;         /* elements */
  const void *data; /* row-major; NULL: not offered */
} GraphOffer;

/* Reads JSON or YAML, binds, infers types and shapes, checks everything. Reports every fault it can find at
 * once. */
Graph *graph_read(Source *source, const GraphBinding *bindings, unsigned n_bindings, GError **error);
void graph_free(Graph *graph);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Graph, graph_free)

GraphTensor *graph_tensor(const Graph *graph, const char *name);   /* NULL if there is none */
bool graph_same_shape(const GraphTensor *a, const GraphTensor *b); /* whatever the symbols are bound to */
/* Some product is taken in tf32, or of 8-bit floats: their sums or operands have fewer bits than f32. */
bool graph_has_coarse_products(const Graph *graph);
/* Some product may take the weights of a softmax in e4m3. */
bool graph_rounds_weights(const Graph *graph);
/* Some product of 8-bit floats keeps its sums as the hardware does: its attribute says fast, or, where it
 * says nothing, `by_default`. */
bool graph_has_fast_sums(const Graph *graph, bool by_default);
/* The longest sum of a product of 16-bit floats; lookup (may be NULL) gives what dimensions that are open
 * have. 0 if there is no such product. */
int64_t graph_longest_sum(const Graph *graph, SymbolicLookup lookup, void *data);
/* The operator as the description names it. */
const Operator *graph_written_operator(const GraphNode *node);
/* Attribute of a node by name; breaks on a name the operator does not have, _find() gives NULL. */
const GraphAttribute *graph_attribute(const GraphNode *node, const char *name);
const GraphAttribute *graph_attribute_find(const GraphNode *node, const char *name);
/* Value of a constant of one element whose data are known; false otherwise. */
bool graph_scalar(const GraphTensor *tensor, double *value);
/* The fewest elements that some Gather or GatherElements takes by the tensor's values, or by what it looks like elsewhere; 0:
 * none does, or their number is not known. */
int64_t graph_indexed_elements(const GraphTensor *tensor);
/* Remembers them for the inputs of a node that a function's body takes the place of. */
void graph_note_indices(const GraphNode *node);
/* Elements lie row by row, side by side. */
bool graph_is_row_major(const GraphTensor *tensor);
/* Do rows and columns of a product's operand change places? */
bool graph_is_transposed(const GraphNode *product, unsigned operand);
/* Do its elements lie one behind the other? */
bool graph_is_row_major(const GraphTensor *tensor);
/* Is every extent 1, whatever the rank? */
bool graph_has_one_element(const GraphTensor *tensor);
/* The graph as text, for tests and --explain; g_free. */
char *graph_dump(const Graph *graph);
