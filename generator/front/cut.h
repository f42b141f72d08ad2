/* A graph with loops taken apart into graphs without: the bodies of its loops, and what lies between them.
 *
 * The parts stand in an order in which each comes behind those whose results it reads. What goes from one part to another is an
 * output of the one and an input of the other; GraphPartTensor says what each is in the whole. States pass between two places in
 * turn: at the t-th time a body reads place t % 2 and writes the other. */
#pragma once
#include "generator/front/graph.h"

typedef enum {
  GRAPH_PART_WHOLE, /* the tensor `of` itself */
  GRAPH_PART_ELEMENT, /* of a body: element t of `of` along its first dimension; from the last on if `reverse` */
  GRAPH_PART_FIRST, /* the state `of` (what a LoopState gives) before the loop: an output of what lies in front */
  GRAPH_PART_STATE, /* of a body: the same at the t-th time: an input */
  GRAPH_PART_NEXT,  /* of a body: the same at the next time: an output */
  GRAPH_PART_LAST,  /* the same behind the loop: an input */
} GraphPartRole;

typedef struct GraphPartTensor {
  const GraphTensor *own; /* of the part */
  GraphPartRole role;
  const GraphTensor *of; /* of the whole */
  bool reverse;
} GraphPartTensor;

typedef struct GraphPart {
  Graph *graph;
  const GraphLoop *loop; /* whose body it is; NULL: it is carried out once */
  GArray *tensors;       /* GraphPartTensor: its inputs and outputs, but constants */
} GraphPart;

#define GRAPH_PART_ALIGN 256 /* bytes, of what passes from part to part and is none of the caller's */

bool graph_has_loops(const Graph *graph);
/* GraphPart *, which the graph must outlive; free with g_ptr_array_unref. */
GPtrArray *graph_cut(const Graph *graph);
/* The count of the loop whose state it is. */
const GraphLoop *graph_state_loop(const GraphTensor *state);
/* Bytes from an element along the first dimension to the next, of a tensor that loops walk along. */
const Symbolic *graph_step_bytes(Arena *arena, const GraphTensor *tensor);
/* The largest power of two, up to GRAPH_PART_ALIGN, that is known to divide them. */
unsigned graph_step_align(const Graph *graph, const GraphTensor *tensor);
