/* Shapes of pooling: a window of elements for each element of the result. node->firsts has the index at which each dimension's
 * first window begins, node->sizes what is padded behind it, and node->steps the windows' distances. */
#include "generator/front/infer_private.h"
#include <string.h>

#define FIRST_SPATIAL 2 /* behind batch and channels */

/* A list of `n` numbers of at least `least`, or `otherwise` where it is absent. */
static bool read_window_list(Inference *at, const char *name, unsigned n, int64_t least, int64_t otherwise,
                             int64_t *items)
{
  const GraphAttribute *attribute = graph_attribute(at->node, name);
  for (unsigned i = 0; i < n; i++)
    items[i] = otherwise;
  if (!attribute->given) return true;
  if (attribute->n != n)
    return infer_refuse(at, ERROR_INPUT, &attribute->mark, "bad-attribute", NULL,
                        "`%s` has %u numbers: `%s` has %u dimensions behind batch and channels", name,
                        attribute->n, at->node->inputs[0]->name, at->node->inputs[0]->rank - FIRST_SPATIAL);
  for (unsigned i = 0; i < n; i++) {
    items[i] = attribute->integers[i];
    if (items[i] < least || items[i] > SYMBOLIC_DIMENSION_MAX)
      return infer_refuse(at, ERROR_INPUT, &attribute->mark, "bad-attribute", NULL,
                          "%" G_GINT64_FORMAT " does not do in `%s`", items[i], name);
  }
  return true;
}

typedef struct {
  unsigned n;
  int64_t kernel[GRAPH_MAX_RANK], strides[GRAPH_MAX_RANK], dilations[GRAPH_MAX_RANK],
      pads[2 * GRAPH_MAX_RANK];
  bool ceil;
  char mode; /* of auto_pad: N(OTSET), V(ALID), U(pper), L(ower) */
} Window;

static bool read_window(Inference *at, Window *window)
{
  const GraphNode *node = at->node;
  const GraphTensor *input = node->inputs[0];
  if (input->rank <= FIRST_SPATIAL)
    return infer_refuse(at, ERROR_INPUT, &node->input_marks[0], "rank",
                        "behind batch and channels there is at least one dimension",
                        "%s takes tensors of rank 3 and more: `%s` has rank %u", node->op->name, input->name,
                        input->rank);
  const char *mode = graph_attribute(node, "auto_pad")->text;
  window->n = input->rank - FIRST_SPATIAL;
  window->ceil = graph_attribute(node, "ceil_mode")->integer != 0;
  window->mode = strcmp(mode, "SAME_UPPER") == 0 ? 'U' : strcmp(mode, "SAME_LOWER") == 0 ? 'L' : mode[0];
  return read_window_list(at, "kernel_shape", window->n, 1, 1, window->kernel) &&
         read_window_list(at, "strides", window->n, 1, 1, window->strides) &&
         read_window_list(at, "dilations", window->n, 1, 1, window->dilations) &&
         read_window_list(at, "pads", 2 * window->n, 0, 0, window->pads);
}

static const Symbolic *number(const Inference *at, int64_t value)
{
  return symbolic_constant(at->graph->arena, value);
}

/* So that there is a window for every so many elements, one more in front or behind where their number is odd. */
static const Symbolic *windows_of_all(Inference *at, const Window *window, unsigned i, const Symbolic *extent)
{
  Arena *arena = at->graph->arena;
  int64_t span = (window->kernel[i] - 1) * window->dilations[i] + 1;
  const Symbolic *stride = number(at, window->strides[i]);
  const Symbolic *n = symbolic_ceil_div(arena, extent, stride);
  const Symbolic *last = symbolic_mul(arena, symbolic_sub(arena, n, number(at, 1)), stride);
  const Symbolic *pad = symbolic_sub(arena, symbolic_add(arena, last, number(at, span)), extent);
  pad = symbolic_binary(arena, SYMBOLIC_MAX, pad, number(at, 0));
  const Symbolic *less = symbolic_binary(arena, SYMBOLIC_DIV, pad, number(at, 2));
  const Symbolic *more = symbolic_sub(arena, pad, less);
  at->node->firsts[i] = symbolic_sub(arena, number(at, 0), window->mode == 'L' ? more : less);
  at->node->sizes[i] = window->mode == 'L' ? less : more;
  return n;
}

/* Those that begin inside of what is padded; the last one may end behind it if `ceil` says so, but not begin there. */
static const Symbolic *windows_inside(Inference *at, const Window *window, unsigned i, const Symbolic *extent)
{
  Arena *arena = at->graph->arena;
  bool none = window->mode == 'V';
  int64_t front = none ? 0 : window->pads[i], behind = none ? 0 : window->pads[window->n + i];
  int64_t span = (window->kernel[i] - 1) * window->dilations[i] + 1;
  const Symbolic *stride = number(at, window->strides[i]), *one = number(at, 1);
  const Symbolic *rest = symbolic_add(arena, extent, number(at, front + behind - span));
  int64_t least, most;
  at->node->firsts[i] = number(at, -front);
  at->node->sizes[i] = number(at, behind);
  symbolic_range(rest, &at->graph->facts, &least, &most);
  if (most < 0) return NULL;
  if (!window->ceil) return symbolic_add(arena, symbolic_binary(arena, SYMBOLIC_DIV, rest, stride), one);
  const Symbolic *all = symbolic_add(arena, symbolic_ceil_div(arena, rest, stride), one);
  const Symbolic *last = symbolic_add(arena, extent, number(at, front - 1));
  const Symbolic *begin = symbolic_add(arena, symbolic_binary(arena, SYMBOLIC_DIV, last, stride), one);
  return symbolic_binary(arena, SYMBOLIC_MIN, all, begin);
}

bool infer_window(Inference *at, Shape *shape)
{
  GraphNode *node = at->node;
  Window window;
  if (!read_window(at, &window)) return false;
  node->firsts = arena_new_array(at->graph->arena, const Symbolic *, window.n);
  node->sizes = arena_new_array(at->graph->arena, const Symbolic *, window.n);
  *shape = infer_shape_of(node->inputs[0]);
  for (unsigned i = 0; i < window.n; i++) {
    const Symbolic **extent = &shape->dims[FIRST_SPATIAL + i];
    node->steps[i] = window.strides[i];
    bool all = window.mode == 'U' || window.mode == 'L';
    *extent = all ? windows_of_all(at, &window, i, *extent) : windows_inside(at, &window, i, *extent);
    if (!*extent)
      return infer_refuse(at, ERROR_INPUT, &graph_attribute(node, "kernel_shape")->mark, "shape", NULL,
                          "the window is larger than dimension %u of `%s` with its pads", FIRST_SPATIAL + i,
                          node->inputs[0]->name);
  }
  return true;
}
