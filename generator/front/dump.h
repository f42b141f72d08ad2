/* Parts of graph_dump(), for who prints nodes at work on a graph. */
#pragma once
#include "generator/front/graph.h"

/* What a tensor is called in a text. */
typedef const char *(*GraphTensorName)(const GraphTensor *tensor, void *data);

/* "output", or the tensor's kind. */
const char *graph_dump_kind(const GraphTensor *tensor);
/* A line each; name NULL: the tensors' own. */
void graph_dump_tensor(GString *text, const GraphTensor *tensor, const char *kind, const char *name);
void graph_dump_node(GString *text, const GraphNode *node, GraphTensorName name, void *data);
