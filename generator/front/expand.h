/* Functions: operators that are defined by a body of other operators, as ONNX defines many of its own. A node of such a one
 * is expanded while the graph is read, in topological order, so that types and shapes of its inputs are known: the
 * body's nodes take its place, and no later part of the program knows of it. They have its mark, its inputs' marks and its name,
 * and what they give is called RESULT.PART after its first result.
 *
 * An operator of that kind is a row of operators.def (class, type and shape rule FUNCTION), a row of expand.def, and a
 * function that checks what ONNX asks for beyond the types of inputs and writes the body:
 *
 *   void expand_mean_square(Expansion *at)
 *   {
 *     GraphTensor *x = expand_input(at, 0);
 *     GraphTensor *square = expand(at, ONNX_Mul, "square", x, x);
 *     GraphTensor *axes = expand_integers(at, "axes", (int64_t[]){1}, 1);
 *     expand_give(at, 0, expand_node(at, &(ExpandNode){ONNX_ReduceMean, "mean", 2, {square, axes},
 *                                                      .attributes = {{"keepdims", .integer = 0}}}));
 *   }
 *
 * Once a step has failed (and was reported) the others do nothing and give NULL, so that a body need not look at each. */
#pragma once
#include "generator/front/infer_private.h"

#define EXPAND_MAX_INPUTS 11
#define EXPAND_AT_ONCE    9 /* of them, of nodes that take as many as there are */

typedef struct Expansion Expansion;

typedef struct ExpandAttribute {
  const char *name; /* NULL behind the last */
  int64_t integer;  /* also a NumberType */
  double number;
  const char *text;
  const int64_t *integers; /* copied */
  unsigned n;
} ExpandAttribute;

typedef struct ExpandNode {
  OperatorId op; /* in its newest version, whatever the graph's opset; functions too */
  const char *part;
  unsigned n_inputs;
  GraphTensor *inputs[EXPAND_MAX_INPUTS]; /* NULL: absent */
  ExpandAttribute attributes[OPERATOR_MAX_ATTRIBUTES + 1];
  GraphTensor **further; /* results behind the first, put here */
  unsigned n_further;
} ExpandNode;

/* Puts the body of at->node behind the nodes that were inferred. */
bool expand_function(Inference *at);

/* Is it a ScatterND, or ScatterElements, that is expanded? Others have a kernel. Its inputs have shapes that fit. */
bool expand_scatters_parts(const GraphNode *node, const SymbolicFacts *facts);
bool expand_scatters_elements(const GraphNode *node, const SymbolicFacts *facts);

/* Is it a reduction of one number, or a mean of integers? The same. */
bool expand_reduces_number(const GraphNode *node);

/* Is it a TensorScatter whose result lies in the memory of its cache? The same. */
bool expand_inserts_in_place(const GraphNode *node);

/* Is it a GroupedMatMul whose rows of no group become 0? */
bool expand_clears_rows(const GraphNode *node);

/* ---- for the bodies ---- */

/* The node as it is written, for its attributes and marks. */
const GraphNode *expand_written(const Expansion *at);
Arena *expand_arena(const Expansion *at);
/* NULL: absent. */
GraphTensor *expand_input(const Expansion *at, unsigned i);
/* Somebody reads the node's output i, or it is the graph's. */
bool expand_wants(const Expansion *at, unsigned i);
/* It has a name. */
bool expand_has_output(const Expansion *at, unsigned i);
const SymbolicFacts *expand_facts(const Expansion *at);
const Graph *expand_graph(const Expansion *at);
/* infer_same() of the node. */
bool expand_same(Expansion *at, const Symbolic *a, const Symbolic *b);
/* Of the graph. */
unsigned expand_opset(const Expansion *at);
/* Reports at the node's input i (or at the node, if there is none), and fails. */
void expand_refuse(Expansion *at, ErrorCode code, unsigned input, const char *id, const char *hint,
                   const char *format, ...) G_GNUC_PRINTF(6, 7);
/* The same at an attribute. */
void expand_refuse_attribute(Expansion *at, ErrorCode code, const char *attribute, const char *hint,
                             const char *format, ...) G_GNUC_PRINTF(5, 6);
bool expand_failed(const Expansion *at);
/* Fails because of what was reported before. */
void expand_fail(Expansion *at);

GraphTensor *expand_node(Expansion *at, const ExpandNode *spec);
/* A node like one of a GraphBody, with these inputs; puts as many results as it has into `outputs`, NULL where it has none. */
bool expand_copy(Expansion *at, const GraphNode *of, GraphTensor *const *inputs, GraphTensor **outputs);
/* Of one or two (b not NULL) inputs and no attributes. */
GraphTensor *expand(Expansion *at, OperatorId op, const char *part, GraphTensor *a, GraphTensor *b);
/* a where the condition holds, else b. */
GraphTensor *expand_where(Expansion *at, const char *part, GraphTensor *condition, GraphTensor *a,
                          GraphTensor *b);
/* x itself if it has the type. */
GraphTensor *expand_cast(Expansion *at, const char *part, GraphTensor *x, NumberType type);
/* A constant of one element, rank 0. */
GraphTensor *expand_number(Expansion *at, const char *part, NumberType type, double value);
/* A constant list of s64: axes, shapes, sizes. */
GraphTensor *expand_integers(Expansion *at, const char *part, const int64_t *items, unsigned n);
/* The same of expressions; rank 0: one number. */
GraphTensor *expand_known(Expansion *at, const char *part, const Symbolic *const *values, unsigned n,
                          unsigned rank);
/* A constant matrix of elements as they lie in memory. */
GraphTensor *expand_table(Expansion *at, const char *part, NumberType type, size_t rows, size_t columns,
                          const void *data);
/* The index of each element along an axis of a shape, s32. */
GraphTensor *expand_index(Expansion *at, const char *part, const Symbolic *const *shape, unsigned rank,
                          unsigned axis);
GraphTensor *expand_reshape(Expansion *at, const char *part, GraphTensor *x, const Symbolic *const *shape,
                            unsigned rank);
/* Elements from..to along an axis, as Slice counts them. */
GraphTensor *expand_slice(Expansion *at, const char *part, GraphTensor *x, int64_t axis, int64_t from,
                          int64_t to);
GraphTensor *expand_squeeze(Expansion *at, const char *part, GraphTensor *x, int64_t axis);
GraphTensor *expand_unsqueeze(Expansion *at, const char *part, GraphTensor *x, int64_t axis);
/* perm as Transpose has it. */
GraphTensor *expand_transpose(Expansion *at, const char *part, GraphTensor *x, const int64_t *perm);
/* Nodes from here on are carried out so many times, until the loop ends. None is open. */
void expand_open_loop(Expansion *at, const Symbolic *count);
void expand_close_loop(Expansion *at);
bool expand_in_loop(const Expansion *at);
/* In such a loop: x[t] of its t-th time, or from the last on. */
GraphTensor *expand_element(Expansion *at, const char *part, GraphTensor *x, bool reverse);
/* x of each time behind one another. */
GraphTensor *expand_stack(Expansion *at, const char *part, GraphTensor *x, bool reverse);
/* The node's output i is this tensor, of the body or an input. Does nothing where nobody wants it. */
void expand_give(Expansion *at, unsigned i, GraphTensor *tensor);
/* By the operator's definition output i lies in the memory of an input: as if the description said so. Fails where they are no output
 * and input of the graph. */
void expand_share(Expansion *at, unsigned i, unsigned input);
