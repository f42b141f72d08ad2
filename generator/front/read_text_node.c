/* Nodes of an op description's document, with faults noted in the builder. */
#include "generator/front/read_text.h"

bool text_finish(GraphBuilder *b, Node *mapping, const char *const *known)
{
  return graph_builder_note(b, node_finish(mapping, known, graph_builder_error(b)));
}

bool text_string(GraphBuilder *b, Node *node, const char **value)
{
  return graph_builder_note(b, node_string(node, value, graph_builder_error(b)));
}

bool text_integer(GraphBuilder *b, Node *node, int64_t *value)
{
  return graph_builder_note(b, node_integer(node, value, graph_builder_error(b)));
}

bool text_is(GraphBuilder *b, Node *node, NodeKind kind, const char *what)
{
  return graph_builder_note(b, node_kind_is(node, kind, what, graph_builder_error(b)));
}
