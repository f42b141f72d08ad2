/* GraphBuilder: the only way to make a graph. A reader of some format hands over what it finds, in any order of the
 * format's own; the builder resolves names, binds dimensions, brings nodes into order, infers types and shapes, and
 * reports what is wrong at the marks that it was given.
 *
 * Faults are collected: after one, a reader goes on, so that a run shows them all. What follows from an earlier fault
 * only is not reported. Names and arrays of specifications are copied; values of attributes are read inside of the
 * call. One thread at a time. */
#pragma once
#include "generator/front/census.h"

typedef struct GraphBuilder GraphBuilder;

/* How a format writes values of attributes. `value` is what the reader put into its specification, or an item of a list;
 * each function reports what the value is not. */
typedef struct GraphValueFormat {
  bool (*integer)(const void *value, int64_t *result, GError **error);
  bool (*number)(const void *value, double *result, GError **error);
  bool (*string)(const void *value, const char **result, GError **error);
  bool (*list)(const void *value, const char *what, unsigned *n, GError **error);
  const void *(*item)(const void *value, unsigned i);
  bool (*is_number)(const void *value); /* where a type may be ONNX's number or a name */
  Mark (*mark)(const void *value);
} GraphValueFormat;

/* The source is for marks and for what constants' paths are relative to. error must not be NULL. */
GraphBuilder *graph_builder_new(Source *source, const GraphValueFormat *format, const GraphReading *reading,
                                GError **error);
/* The graph, inferred and checked, or NULL if anything was reported. Frees the builder. */
Graph *graph_builder_finish(GraphBuilder *builder);

/* Extents that operators need equal are taken to be: for formats that cannot say so (assume.h). */
void graph_builder_trust(GraphBuilder *builder);

/* ---- what a reader reports by itself ---- */

Arena *graph_builder_arena(GraphBuilder *builder); /* of the graph */
void graph_builder_report(GraphBuilder *builder, ErrorCode code, const Mark *mark, const char *id,
                          const char *hint, const char *format, ...) G_GNUC_PRINTF(6, 7);
/* Where a reader's helpers report, and the word that one did: gives `ok`. */
GError **graph_builder_error(GraphBuilder *builder);
bool graph_builder_note(GraphBuilder *builder, bool ok);

/* ---- the graph ---- */

void graph_builder_name(GraphBuilder *builder, const char *name, const Mark *mark);
/* Before any node. Without it: OPERATOR_OPSET_DEFAULT. */
void graph_builder_opset(GraphBuilder *builder, int64_t opset, const Mark *mark);

typedef struct GraphDimSpec {
  const char *name;
  Mark name_mark, mark;
  int64_t min, max, multiple; /* 0 <= min, max <= SYMBOLIC_DIMENSION_MAX, 1 <= multiple */
} GraphDimSpec;
/* A dimension that is declared. A symbol that stands alone as a dimension of an input needs no declaration. */
void graph_builder_dim(GraphBuilder *builder, const GraphDimSpec *spec);

/* The type of that name. false: reported; *foreign is then ONNX's number of a type that we lack, or 0. */
bool graph_builder_type(GraphBuilder *builder, const char *name, const Mark *mark, NumberType *type,
                        unsigned *foreign);

#define GRAPH_RANK_UNKNOWN G_MAXUINT

typedef struct GraphTensorSpec {
  const char *name;
  Mark mark, shape_mark;
  bool has_type;
  NumberType type;
  unsigned foreign; /* without a type: see graph_builder_type() */
  unsigned rank;    /* GRAPH_RANK_UNKNOWN: a fault was reported */
  const Symbolic *shape[GRAPH_MAX_RANK];
  Mark extent_marks[GRAPH_MAX_RANK];
  /* Of inputs: */
  unsigned n_strides; /* GRAPH_RANK_UNKNOWN: row-major, or a fault was reported */
  const Symbolic *strides[GRAPH_MAX_RANK];
  Mark strides_mark;
  const int64_t *align; /* NULL: that of an element */
  Mark align_mark;
} GraphTensorSpec;

void graph_builder_input(GraphBuilder *builder, const GraphTensorSpec *spec);
/* NULL: the reader need not look for data, as the constant is faulty. Else its type, shape and n_elements hold, and the
 * reader sets `data` or `file` of what it gets. */
GraphTensor *graph_builder_constant(GraphBuilder *builder, const GraphTensorSpec *spec);
/* A path as a description writes it, joined to its folder; in the graph's arena. */
const char *graph_builder_path(GraphBuilder *builder, const char *path);

/* ---- nodes ---- */

typedef struct GraphNameSpec {
  const char *name; /* "": absent; NULL: a fault was reported */
  Mark mark;
} GraphNameSpec;

typedef struct GraphAttributeSpec {
  const char *name;
  Mark name_mark;
  const void *value;
  const GraphBody *body; /* of one that is a graph; else NULL */
} GraphAttributeSpec;

typedef struct GraphNodeSpec {
  Mark mark;
  const char *op, *domain, *name; /* op NULL: a fault was reported; domain and name are never NULL */
  unsigned opset;                 /* whose operator it is; 0: the graph's */
  Mark op_mark;
  const GraphNameSpec *inputs, *outputs; /* NULL: a fault was reported */
  unsigned n_inputs, n_outputs;
  Mark inputs_mark, outputs_mark;
  const GraphAttributeSpec *attributes;
  unsigned n_attributes;
  bool attributes_faulty; /* a fault was reported, and they were not read */
} GraphNodeSpec;

/* A node that a fault keeps out of the graph; its outputs are known all the same. Between the two calls every fault,
 * also the reader's own, is one of this node. */
void graph_builder_open_node(GraphBuilder *builder);
void graph_builder_close_node(GraphBuilder *builder, const GraphNodeSpec *spec);
/* A graph that an attribute of a node holds, before that node is opened: constants, nodes and outputs from here on are its own until it
 * is closed, and know those around it. Its inputs have the types that the node gives them. */
void graph_builder_open_body(GraphBuilder *builder);
void graph_builder_body_input(GraphBuilder *builder, const char *name, const Mark *mark);
const GraphBody *graph_builder_close_body(GraphBuilder *builder);
/* A name that no tensor has so far: this one, or with a number behind it. In the graph's arena. */
const char *graph_builder_free_name(GraphBuilder *builder, const char *name);
/* A tensor that the graph, or the body that is open, gives back. */
void graph_builder_output(GraphBuilder *builder, const char *name, const Mark *mark);
/* What a format says of a tensor that the graph gives back. */
typedef struct GraphClaim {
  const char *name;   /* in messages */
  const char *tensor; /* that it is of */
  Mark mark;
  const char *kind;       /* "a sequence", of what is no tensor; NULL: a tensor */
  unsigned type;          /* ONNX's number; 0: open */
  unsigned rank;          /* GRAPH_RANK_UNKNOWN: open */
  const int64_t *extents; /* below 0: open */
} GraphClaim;
/* It must be so, where what nodes give is known. */
void graph_builder_claim(GraphBuilder *builder, const GraphClaim *claim);
/* Such a one lies in the memory of an input. */
void graph_builder_share(GraphBuilder *builder, const char *output, const char *input, const Mark *mark);
