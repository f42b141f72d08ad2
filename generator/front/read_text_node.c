/* Nodes of an op description's document, with faults noted in the builder. */
#include "generator/front/read_text.h"
#include <string.h>

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

const Symbolic *text_extent(GraphBuilder *b, Node *node, int64_t max)
{
  Arena *arena = graph_builder_arena(b);
  if (node->kind == NODE_SCALAR && !node->quoted &&
      (g_ascii_isdigit(node->text[0]) || node->text[0] == '-') &&
      strspn(node->text + 1, "0123456789xXabcdefABCDEF") == strlen(node->text + 1)) {
    int64_t value;
    if (!text_integer(b, node, &value)) return NULL;
    if (value >= 0 && value <= max) return symbolic_constant(arena, value);
    if (value < 0)
      graph_builder_report(b, ERROR_INPUT, &node->mark, "out-of-range", NULL,
                           "%" G_GINT64_FORMAT " is negative", value);
    else
      graph_builder_report(
          b, ERROR_UNSUPPORTED, &node->mark, "too-large", NULL,
          "a dimension of %" G_GINT64_FORMAT " is not supported: the most is %" G_GINT64_FORMAT, value, max);
    return NULL;
  }
  const char *text;
  if (!text_string(b, node, &text)) return NULL;
  Mark mark = node->mark;
  mark.column += node->quoted;
  const Symbolic *extent = symbolic_parse(arena, text, &mark, graph_builder_error(b));
  graph_builder_note(b, extent != NULL);
  return extent;
}
