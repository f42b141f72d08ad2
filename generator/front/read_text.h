/* Between the files read_text*.c only: an op description's document, its faults noted in the builder. */
#pragma once
#include "base/document.h"
#include "generator/front/builder.h"

bool text_finish(GraphBuilder *builder, Node *mapping, const char *const *known);
bool text_string(GraphBuilder *builder, Node *node, const char **value);
bool text_integer(GraphBuilder *builder, Node *node, int64_t *value);
bool text_is(GraphBuilder *builder, Node *node, NodeKind kind, const char *what);
/* One entry of a shape or of strides: a number or an expression. NULL: reported. */
const Symbolic *text_extent(GraphBuilder *builder, Node *node, int64_t max);
/* read_text_data.c: values of a constant whose type and number of elements are known. */
void text_data(GraphBuilder *builder, Node *node, GraphTensor *tensor);
