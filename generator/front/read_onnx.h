/* Between the files read_onnx*.c only: an ONNX model whose messages have been read, on its way into a builder. */
#pragma once
#include "generator/front/builder.h"
#include "generator/front/onnx_model.h"

typedef struct OnnxReader {
  GraphBuilder *builder;
  Source *source;
  Arena *arena; /* of the graph */
  const OnnxMessage *model;
  GHashTable *functions; /* domain, name, overload -> OnnxMessage */
  int64_t opset;
  unsigned n_nodes; /* with those of functions at every place that calls them */
} OnnxReader;

/* A function's body at one place that calls it; NULL stands for the graph itself. */
typedef struct OnnxScope {
  const struct OnnxScope *outer;
  const OnnxMessage *function, *call;
  GHashTable *names; /* of tensors in the body -> in the graph */
  const char *prefix;
  unsigned depth;
} OnnxScope;

/* read_onnx_tensor.c: a constant of that name from a tensor's type, extents and data, inline or in a file beside the model. */
void onnx_read_tensor(OnnxReader *reader, const char *name, const OnnxMessage *tensor);
/* A constant that an attribute holds as numbers: of no dimension, or of one. */
void onnx_read_numbers(OnnxReader *reader, const char *name, const OnnxMessage *attribute, OnnxField field);
/* An f32 0 of no dimension. */
void onnx_read_zero(OnnxReader *reader, const char *name, const Mark *mark);
/* Sets the type by ONNX's number; false: reported. */
bool onnx_read_type(OnnxReader *reader, int64_t number, const Mark *mark, GraphTensorSpec *spec);

/* read_onnx_node.c: the nodes of the graph, or of a function's body. */
void onnx_read_nodes(OnnxReader *reader, OnnxValues nodes, const OnnxScope *scope);
/* Before them, so that functions which call one another twice, and so on, cost nothing. false: there are too many, which is reported. */
bool onnx_check_size(OnnxReader *reader, const OnnxMessage *graph);
extern const GraphValueFormat onnx_value_format;
