/* MaxUnpool: elements go back to where MaxPool found them, as updates of a tensor of zeros. */
#include "generator/front/expand_rows.h"

#define SPATIAL 2 /* the first dimension behind batch and channels */

typedef struct {
  Expansion *at;
  GraphTensor *x;
  const Symbolic *shape[GRAPH_MAX_RANK]; /* of the result, without input 2 */
} Unpool;

/* Number i of a list, which has so many; `otherwise` where it is absent. false: it has another length, or the number does not do. */
static bool read_number(const Unpool *s, const char *name, unsigned n, unsigned i, int64_t least,
                        int64_t *number)
{
  const GraphAttribute *list = graph_attribute(expand_written(s->at), name);
  if (!list->given) return true;
  if (list->n != n) {
    expand_refuse_attribute(s->at, ERROR_INPUT, name, NULL,
                            "`%s` has %u numbers, %u are needed for `%s` of rank %u", name, list->n, n,
                            s->x->name, s->x->rank);
    return false;
  }
  *number = list->integers[i];
  if (*number >= least && *number <= SYMBOLIC_DIMENSION_MAX) return true;
  expand_refuse_attribute(s->at, ERROR_INPUT, name, NULL, "%" G_GINT64_FORMAT " does not do in `%s`", *number,
                          name);
  return false;
}

static bool read_shape(Unpool *s)
{
  Arena *arena = expand_arena(s->at);
  unsigned n = s->x->rank - SPATIAL;
  s->shape[0] = s->x->shape[0];
  s->shape[1] = s->x->shape[1];
  for (unsigned i = 0; i < n; i++) {
    int64_t kernel = 1, stride = 1, before = 0, behind = 0, known;
    if (!read_number(s, "kernel_shape", n, i, 1, &kernel) || !read_number(s, "strides", n, i, 1, &stride) ||
        !read_number(s, "pads", 2 * n, i, 0, &before) || !read_number(s, "pads", 2 * n, n + i, 0, &behind))
      return false;
    const Symbolic *extent = symbolic_mul(arena, s->x->shape[SPATIAL + i], symbolic_constant(arena, stride));
    extent = symbolic_add(arena, extent, symbolic_constant(arena, kernel - stride - before - behind));
    s->shape[SPATIAL + i] = extent;
    if (symbolic_is_constant(extent, &known) && known < 0) {
      expand_refuse_attribute(s->at, ERROR_INPUT, "pads", NULL, "nothing is left of dimension %u of `%s`",
                              SPATIAL + i, s->x->name);
      return false;
    }
  }
  return true;
}

/* The shape that input 2 wants: zeros behind the others. */
static GraphTensor *widen(const Unpool *s, GraphTensor *y)
{
  const GraphTensor *wanted = expand_input(s->at, 2);
  int64_t pads[2 * GRAPH_MAX_RANK] = {0};
  bool list = wanted->rank == 1 && symbolic_equals(wanted->shape[0], s->x->rank);
  for (unsigned d = 0; d < s->x->rank; d++) {
    int64_t size = 0, extent = 0;
    bool known = list && wanted->values && symbolic_is_constant(wanted->values[d], &size) &&
                 symbolic_is_constant(s->shape[d], &extent);
    if (!known || size < extent) {
      expand_refuse(s->at, list && !known ? ERROR_UNSUPPORTED : ERROR_INPUT, 2, "sizes",
                    list && !known ? "put it under `constants`, with `data`, and bind symbols: --dim" : NULL,
                    list && !known
                        ? "a shape that is not known while the graph is read is not supported: `%s`"
                        : "`%s` is no shape that holds the result",
                    wanted->name);
      return NULL;
    }
    pads[s->x->rank + d] = size - extent;
  }
  return expand(s->at, ONNX_Pad, "padded", y, expand_integers(s->at, "pads", pads, 2 * s->x->rank));
}

void expand_max_unpool(Expansion *at)
{
  Unpool s = {.at = at, .x = expand_input(at, 0)};
  GraphTensor *places = expand_input(at, 1);
  Arena *arena = expand_arena(at);
  if (s.x->rank <= SPATIAL || !graph_same_shape(s.x, places) || places->type != NUMBER_S64) {
    expand_refuse(
        at, ERROR_INPUT, s.x->rank <= SPATIAL ? 0 : 1, "shape",
        "what MaxPool gives: elements behind batch and channels, and their places, s64, in one shape",
        "`%s` and `%s` are no elements and places of them", s.x->name, places->name);
    return;
  }
  if (!read_shape(&s)) return;
  const Symbolic *n = symbolic_constant(arena, 1), *all = n;
  for (unsigned d = 0; d < s.x->rank; d++) {
    n = symbolic_mul(arena, n, s.x->shape[d]);
    all = symbolic_mul(arena, all, s.shape[d]);
  }
  GraphTensor *zeros = expand(at, ONNX_Expand, "zeros", expand_number(at, "zero", s.x->type, 0),
                              expand_known(at, "elements", &all, 1, 1));
  GraphTensor *y = expand_node(at, &(ExpandNode){ONNX_ScatterElements,
                                                 "placed",
                                                 3,
                                                 {zeros, expand_reshape(at, "places", places, &n, 1),
                                                  expand_reshape(at, "flat", s.x, &n, 1)},
                                                 .attributes = {{"axis", 0}}});
  y = expand_reshape(at, "image", y, s.shape, s.x->rank);
  if (!expand_failed(at) && expand_input(at, 2)) y = widen(&s, y);
  if (!expand_failed(at)) expand_give(at, 0, y);
}
