/* If, Loop and Scan: copies of the bodies in their nodes' place.
 *
 * A body that is carried out several times becomes a loop, whose launches a plan repeats (cut.h), with states and elements as
 * LSTM has them. It is written out one time after the other instead where that takes nothing more, where it stands in a loop, and
 * where some operator must know a number that each time has another: which element a Slice begins with.
 *
 * Data that only the GPU knows decide nothing on the host: a Loop whose condition is computed runs as often as its trip count
 * allows, and keeps its states from where the condition fails; of an If whose condition is computed both branches are. */
#include "generator/front/expand_body.h"
#include <string.h>

#define MOST_TIMES   (1 << 20) /* of a loop; what models without a bound give is far more */
#define MOST_WRITTEN 64        /* times that are written out */

typedef struct {
  GraphTensor *of; /* of elements or stacks: along the first dimension */
  bool turned;     /* the last one first */
} Walk;

/* Scan or Loop, or Scan of one batch. */
typedef struct {
  Expansion *x;
  ExpandBody body;
  const Symbolic *count;
  bool is_loop;       /* with numbers of times, and a condition: */
  GraphTensor *alive; /* computed, of no dimension; NULL: it is true */
  bool is_computed;   /* it was not known to be true in front of some time */
  unsigned n_states, n_elements, n_stacks;
  GraphTensor **states; /* initial ones, then the last ones */
  Walk *elements, *stacks;
} Repeated;

static void repeated_close(Repeated *r)
{
  expand_close_body(&r->body);
  g_free(r->states);
  g_free(r->elements);
  g_free(r->stacks);
}

/* Where states begin among inputs and outputs of the body. */
static unsigned lead_in(const Repeated *r)
{
  return r->is_loop ? 2 : 0;
}

static unsigned lead_out(const Repeated *r)
{
  return r->is_loop ? 1 : 0;
}

static bool open_repeated(Repeated *r, Expansion *x, unsigned n_states, unsigned n_elements,
                          unsigned n_stacks, bool is_loop)
{
  *r = (Repeated){.x = x,
                  .is_loop = is_loop,
                  .n_states = n_states,
                  .n_elements = n_elements,
                  .n_stacks = n_stacks,
                  .states = g_new0(GraphTensor *, n_states + 1),
                  .elements = g_new0(Walk, n_elements + 1),
                  .stacks = g_new0(Walk, n_stacks + 1)};
  return expand_open_body(&r->body, x, "body", lead_in(r) + n_states + n_elements,
                          lead_out(r) + n_states + n_stacks);
}

/* ---- what is known ---- */

static const Symbolic *known_number(const GraphTensor *tensor)
{
  return tensor && tensor->values && tensor->n_elements == 1 ? tensor->values[0] : NULL;
}

static bool known_truth(const GraphTensor *tensor, bool *truth)
{
  int64_t value;
  const Symbolic *known = known_number(tensor);
  if (!known || !symbolic_is_constant(known, &value)) return false;
  *truth = value != 0;
  return true;
}

static bool is_true(const GraphTensor *tensor)
{
  bool truth = false;
  return known_truth(tensor, &truth) && truth;
}

/* A condition without dimensions. */
static GraphTensor *condition(Expansion *x, GraphTensor *tensor)
{
  if (expand_failed(x) || !tensor->rank) return tensor;
  return expand_reshape(x, "condition", tensor, NULL, 0);
}

static GraphTensor *chosen(Expansion *x, const char *part, GraphTensor *condition, GraphTensor *a,
                           GraphTensor *b)
{
  if (a == b) return a;
  return expand_where(x, part, condition, a, b);
}

/* ---- one time ---- */

/* A state keeps its type. */
static void check_state(Repeated *r, unsigned i, const GraphTensor *from, const GraphTensor *to)
{
  if (expand_failed(r->x) || from->type == to->type) return;
  expand_refuse_attribute(r->x, ERROR_INPUT, "body", NULL, "state %u of %s is %s, and its next value %s", i,
                          expand_written(r->x)->op->name, number_name(from->type), number_name(to->type));
}

/* The states behind this time, which stay from where the condition fails. from: in front of it. */
static void hold_states(Repeated *r, GraphTensor *const *from, GraphTensor **out)
{
  for (unsigned i = 0; i < r->n_states; i++) {
    GraphTensor **to = &out[lead_out(r) + i];
    check_state(r, i, from[i], *to);
    if (expand_failed(r->x)) return;
    if (r->alive && !graph_same_shape(from[i], *to))
      expand_refuse_attribute(
          r->x, ERROR_UNSUPPORTED, "body", NULL,
          "a Loop whose condition is computed and whose state %u changes its shape is not "
          "supported",
          i);
    if (r->alive && !expand_failed(r->x)) *to = chosen(r->x, "held", r->alive, *to, from[i]);
  }
}

/* Whether there is a time behind this one; true, where that is known. */
static GraphTensor *goes_on(Repeated *r, GraphTensor *next)
{
  next = condition(r->x, next);
  if (expand_failed(r->x) || is_true(next)) return r->alive;
  return r->alive ? expand(r->x, ONNX_And, "alive", r->alive, next) : next;
}

static GraphTensor *true_constant(Expansion *x)
{
  return expand_number(x, "true", NUMBER_BOOL, 1);
}

/* ---- written out ---- */

static GraphTensor *element_at(Expansion *x, const Walk *walk, int64_t time, int64_t times)
{
  int64_t at = walk->turned ? times - 1 - time : time;
  return expand_squeeze(x, "element", expand_slice(x, "element", walk->of, 0, at, at + 1), 0);
}

/* Behind one another along a new first dimension; by parts, as a node has few inputs. */
static GraphTensor *stack_of(Expansion *x, GPtrArray *items, bool turned)
{
  g_autoptr(GPtrArray) rows = g_ptr_array_new();
  for (unsigned i = 0; i < items->len; i++)
    g_ptr_array_add(rows, expand_unsqueeze(x, "row", items->pdata[turned ? items->len - 1 - i : i], 0));
  while (rows->len > 1 && !expand_failed(x)) {
    GPtrArray *joined = g_ptr_array_new();
    for (unsigned i = 0; i < rows->len; i += EXPAND_AT_ONCE) {
      ExpandNode node = {ONNX_Concat, "stack", MIN(rows->len - i, EXPAND_AT_ONCE)};
      memcpy(node.inputs, rows->pdata + i, node.n_inputs * sizeof(GraphTensor *));
      g_ptr_array_add(joined, node.n_inputs > 1 ? expand_node(x, &node) : rows->pdata[i]);
    }
    g_ptr_array_unref(rows);
    rows = joined;
  }
  return rows->len ? rows->pdata[0] : NULL;
}

/* One more time; false: none is left. */
static bool write_time(Repeated *r, int64_t time, int64_t times, GPtrArray *const *rows)
{
  Expansion *x = r->x;
  bool stays = true;
  g_autofree GraphTensor **in = g_new0(GraphTensor *, r->body.body->inputs->len + 1),
                         **out = g_new0(GraphTensor *, r->body.body->outputs->len + 1);
  const Symbolic *number = symbolic_constant(expand_arena(x), time);
  if (r->is_loop) {
    in[0] = expand_known(x, "time", &number, 1, 0);
    in[1] = true_constant(x);
  }
  memcpy(in + lead_in(r), r->states, r->n_states * sizeof *in);
  for (unsigned i = 0; i < r->n_elements; i++)
    in[lead_in(r) + r->n_states + i] = element_at(x, &r->elements[i], time, times);
  expand_body(&r->body, in, out);
  if (expand_failed(x)) return false;
  r->is_computed |= r->alive != NULL;
  hold_states(r, in + lead_in(r), out);
  if (r->is_loop && (!known_truth(out[0], &stays) || stays)) r->alive = goes_on(r, out[0]);
  memcpy(r->states, out + lead_out(r), r->n_states * sizeof *out);
  for (unsigned i = 0; i < r->n_stacks; i++)
    g_ptr_array_add(rows[i], out[lead_out(r) + r->n_states + i]);
  return stays;
}

static void write_out(Repeated *r, int64_t times)
{
  g_autofree GPtrArray **rows = g_new0(GPtrArray *, r->n_stacks + 1);
  for (unsigned i = 0; i < r->n_stacks; i++)
    rows[i] = g_ptr_array_new();
  for (int64_t time = 0; time < times && !expand_failed(r->x); time++)
    if (!write_time(r, time, times, rows)) break;
  for (unsigned i = 0; i < r->n_stacks; i++) {
    r->stacks[i].of = expand_failed(r->x) ? NULL : stack_of(r->x, rows[i], r->stacks[i].turned);
    g_ptr_array_unref(rows[i]);
  }
}

/* ---- a loop ---- */

/* The number of each time. */
static GraphTensor *time_of(Repeated *r)
{
  GraphTensor *all = expand_index(r->x, "times", &r->count, 1, 0);
  return expand_cast(r->x, "times", all, NUMBER_S64);
}

static void repeat(Repeated *r)
{
  Expansion *x = r->x;
  g_autofree GraphTensor **in = g_new0(GraphTensor *, r->body.body->inputs->len + 1),
                         **out = g_new0(GraphTensor *, r->body.body->outputs->len + 1);
  GraphTensor *times = r->is_loop ? time_of(r) : NULL, *was = NULL;
  expand_body_once(&r->body);
  expand_open_loop(x, r->count);
  if (r->is_loop) {
    in[0] = expand_element(x, "time", times, false);
    in[1] = true_constant(x);
    was = expand(x, ONNX_LoopState, "alive", r->alive ? r->alive : true_constant(x), NULL);
  }
  for (unsigned i = 0; i < r->n_states; i++)
    in[lead_in(r) + i] = expand(x, ONNX_LoopState, "state", r->states[i], NULL);
  for (unsigned i = 0; i < r->n_elements; i++)
    in[lead_in(r) + r->n_states + i] = expand_element(x, "element", r->elements[i].of, r->elements[i].turned);
  expand_body(&r->body, in, out);
  if (expand_failed(x)) return;
  r->is_computed = r->alive || (r->is_loop && !is_true(out[0]));
  r->alive = r->is_computed ? was : NULL;
  hold_states(r, in + lead_in(r), out);
  if (r->is_computed) expand(x, ONNX_LoopNext, "lived", goes_on(r, out[0]), was);
  for (unsigned i = 0; i < r->n_states; i++)
    r->states[i] = expand(x, ONNX_LoopNext, "last", out[lead_out(r) + i], in[lead_in(r) + i]);
  for (unsigned i = 0; i < r->n_stacks; i++)
    r->stacks[i].of = expand_stack(x, "stack", out[lead_out(r) + r->n_states + i], r->stacks[i].turned);
  expand_close_loop(x);
}

/* Each time has another of these numbers, if it is known at all: the body's inputs. */
static bool must_know_times(const Repeated *r)
{
  g_autofree bool *varies = g_new0(bool, r->body.body->inputs->len + 1);
  varies[0] = r->is_loop;
  for (unsigned i = 0; i < r->n_states; i++)
    varies[lead_in(r) + i] = r->states[i]->values != NULL;
  return expand_body_must_know(&r->body, varies);
}

/* false: reported. */
static bool carry_out(Repeated *r)
{
  int64_t times = -1;
  bool number = symbolic_is_constant(r->count, &times), few = number && times <= MOST_WRITTEN,
       within = expand_in_loop(r->x), must_know = must_know_times(r);
  if (few && (times <= 1 || within || must_know) && (times || !r->n_stacks)) {
    write_out(r, times);
  } else if (must_know) {
    g_autofree char *count = symbolic_text(r->count);
    expand_refuse(r->x, ERROR_UNSUPPORTED, 0, "loop", "see docs/graph.md, control flow",
                  "%s of %s times is not supported: some node must know a number that each time has another "
                  "of, and %d times are written out at most",
                  expand_written(r->x)->op->name, count, MOST_WRITTEN);
  } else {
    repeat(r);
  }
  return !expand_failed(r->x);
}

/* ---- Scan ---- */

/* Item i of a list attribute, 0 where it is absent. */
static int64_t item_of(Expansion *x, const char *attribute, unsigned i, unsigned n)
{
  const GraphAttribute *list = graph_attribute_find(expand_written(x), attribute);
  if (!list || !list->given) return 0;
  if (list->n != n)
    expand_refuse_attribute(x, ERROR_INPUT, attribute, NULL, "%u numbers in `%s` for %u tensors", list->n,
                            attribute, n);
  return list->n == n ? list->integers[i] : 0;
}

/* x with that dimension first, or the first one there. */
static GraphTensor *move_axis(Expansion *x, const char *attribute, GraphTensor *of, int64_t axis, bool back)
{
  int64_t perm[GRAPH_MAX_RANK], rank = of->rank, at = axis < 0 ? axis + rank : axis;
  if (at < 0 || at >= rank) {
    expand_refuse_attribute(x, ERROR_INPUT, attribute, NULL, "`%s` has no dimension %" G_GINT64_FORMAT,
                            of->name, axis);
    return NULL;
  }
  if (!at) return of;
  for (int64_t d = 0; d < rank; d++)
    perm[d] = back ? (d < at ? d + 1 : d == at ? 0 : d) : (d == 0 ? at : d <= at ? d - 1 : d);
  return expand_transpose(x, "moved", of, perm);
}

static bool take_elements(Repeated *r, GraphTensor *const *inputs, const char *axes, const char *ways)
{
  Expansion *x = r->x;
  for (unsigned i = 0; i < r->n_elements && !expand_failed(x); i++) {
    GraphTensor *of = inputs[i];
    if (!of->rank) {
      expand_refuse_attribute(x, ERROR_INPUT, "num_scan_inputs", NULL,
                              "`%s` has no dimension to be scanned along", of->name);
      return false;
    }
    of = move_axis(x, axes, of, item_of(x, axes, i, r->n_elements), false);
    if (expand_failed(x)) return false;
    r->elements[i] = (Walk){of, item_of(x, ways, i, r->n_elements) != 0};
    if (!i) r->count = of->shape[0];
    if (!expand_same(x, of->shape[0], r->count))
      expand_refuse_attribute(x, ERROR_INPUT, "num_scan_inputs", NULL,
                              "`%s` and `%s` are scanned together, and do not have as many elements",
                              inputs[0]->name, inputs[i]->name);
  }
  return !expand_failed(x);
}

/* States, then elements; results: the last states, then stacks. */
static void scan(Expansion *x, GraphTensor *const *inputs, unsigned n_states, unsigned n_elements,
                 unsigned n_stacks, GraphTensor **results)
{
  bool former = graph_attribute_find(expand_written(x), "directions") != NULL;
  Repeated r;
  if (open_repeated(&r, x, n_states, n_elements, n_stacks, false)) {
    memcpy(r.states, inputs, n_states * sizeof *inputs);
    for (unsigned i = 0; i < n_stacks; i++)
      r.stacks[i].turned = item_of(x, "scan_output_directions", i, n_stacks) != 0;
    if (take_elements(&r, inputs + n_states, "scan_input_axes",
                      former ? "directions" : "scan_input_directions") &&
        carry_out(&r))
      for (unsigned i = 0; i < n_states + n_stacks; i++)
        results[i] = i < n_states ? r.states[i]
                                  : move_axis(x, "scan_output_axes", r.stacks[i - n_states].of,
                                              item_of(x, "scan_output_axes", i - n_states, n_stacks), true);
  }
  repeated_close(&r);
}

/* The first version walks along the second dimension, for each batch of the first. */
static void scan_batches(Expansion *x, GraphTensor *const *inputs, unsigned n_states, unsigned n_elements,
                         unsigned n_stacks, GraphTensor **results)
{
  unsigned n = n_states + n_elements, n_results = n_states + n_stacks;
  int64_t batches = 0;
  for (unsigned i = 0; i < n; i++)
    if (!inputs[i]->rank || !symbolic_is_constant(inputs[i]->shape[0], &batches) || batches > MOST_WRITTEN ||
        batches < 1 || !expand_same(x, inputs[i]->shape[0], inputs[0]->shape[0])) {
      expand_refuse(x, ERROR_UNSUPPORTED, 1 + i, "loop", "Scan of opset 9 has no batches",
                    "Scan of opset 8 has the same number of batches everywhere, 1 to %d: `%s` has not",
                    MOST_WRITTEN, inputs[i]->name);
      return;
    }
  g_autofree GraphTensor **of = g_new0(GraphTensor *, n + 1), **last = g_new0(GraphTensor *, n_results + 1);
  g_autofree GPtrArray **rows = g_new0(GPtrArray *, n_results + 1);
  for (unsigned i = 0; i < n_results; i++)
    rows[i] = g_ptr_array_new();
  for (int64_t batch = 0; batch < batches && !expand_failed(x); batch++) {
    for (unsigned i = 0; i < n; i++)
      of[i] = element_at(x, &(Walk){inputs[i], false}, batch, batches);
    if (expand_failed(x)) break;
    scan(x, of, n_states, n_elements, n_stacks, last);
    for (unsigned i = 0; i < n_results; i++)
      g_ptr_array_add(rows[i], last[i]);
  }
  for (unsigned i = 0; i < n_results; i++) {
    results[i] = expand_failed(x) ? NULL : stack_of(x, rows[i], false);
    g_ptr_array_unref(rows[i]);
  }
}

void expand_scan(Expansion *x)
{
  const GraphNode *node = expand_written(x);
  bool former = graph_attribute_find(node, "directions") != NULL; /* with lengths in front */
  unsigned first = former ? 1 : 0, n = node->n_inputs - node->n_captured;
  int64_t elements = graph_attribute(node, "num_scan_inputs")->integer;
  if (elements < 1 || elements > (int64_t)n - first ||
      (int64_t)n - first - elements > (int64_t)node->n_outputs) {
    expand_refuse_attribute(x, ERROR_INPUT, "num_scan_inputs", NULL,
                            "%" G_GINT64_FORMAT " scanned inputs of %u, and %u outputs, are no Scan",
                            elements, n - first, node->n_outputs);
    return;
  }
  for (unsigned i = first; i < n; i++)
    if (!node->inputs[i]) {
      expand_refuse(x, ERROR_INPUT, i, "missing-input", NULL, "input %u of Scan is required", i + 1);
      return;
    }
  if (former && node->inputs[0]) {
    expand_refuse(x, ERROR_UNSUPPORTED, 0, "unsupported-input", NULL,
                  "`sequence_lens` of Scan is not supported");
    return;
  }
  unsigned n_states = n - first - (unsigned)elements;
  g_autofree GraphTensor **results = g_new0(GraphTensor *, node->n_outputs + 1);
  (former ? scan_batches : scan)(x, node->inputs + first, n_states, (unsigned)elements,
                                 node->n_outputs - n_states, results);
  for (unsigned i = 0; i < node->n_outputs && !expand_failed(x); i++)
    expand_give(x, i, results[i]);
}

/* ---- Loop ---- */

/* How often it is carried out at most; NULL: reported. */
static const Symbolic *trip_count(Expansion *x)
{
  GraphTensor *written = expand_input(x, 0);
  const Symbolic *known = known_number(written);
  Arena *arena = expand_arena(x);
  int64_t number;
  if (written && !known) {
    expand_refuse(x, ERROR_UNSUPPORTED, 0, "loop", "make it a constant, or compute it from shapes",
                  "a Loop whose trip count `%s` only data tell is not supported", written->name);
    return NULL;
  }
  bool constant = known && symbolic_is_constant(known, &number);
  if (!known || (constant && number > MOST_TIMES)) {
    expand_refuse(x, ERROR_UNSUPPORTED, 0, "loop", "give it a trip count",
                  "a Loop that its condition alone ends, or that is carried out more than %d times, is not "
                  "supported",
                  MOST_TIMES);
    return NULL;
  }
  if (constant) return symbolic_constant(arena, MAX(number, 0));
  return infer_larger(expand_graph(x), known, symbolic_constant(arena, 0));
}

/* What a computed condition would make of unknown length. */
static bool check_stacks(const Repeated *r)
{
  for (unsigned i = 0; i < r->n_stacks; i++)
    if (expand_wants(r->x, r->n_states + i)) {
      expand_refuse_attribute(r->x, ERROR_UNSUPPORTED, "body", NULL,
                              "a Loop whose condition is computed and that stacks `%s` is not supported: how "
                              "many rows that has only data tell",
                              expand_written(r->x)->outputs[r->n_states + i]->name);
      return false;
    }
  return true;
}

static void open_condition(Repeated *r, GraphTensor *written)
{
  bool truth = true;
  if (!written || known_truth(written, &truth)) {
    if (!truth) r->count = symbolic_constant(expand_arena(r->x), 0);
    return;
  }
  r->alive = condition(r->x, written);
}

void expand_loop(Expansion *x)
{
  const GraphNode *node = expand_written(x);
  unsigned n = node->n_inputs - node->n_captured;
  if (n < 2 || n - 2 > node->n_outputs) {
    expand_refuse(
        x, ERROR_INPUT, n, "arity", NULL,
        "a Loop of %u inputs and %u outputs is none: a trip count, a condition, and states, each of "
        "which is an output too",
        n, node->n_outputs);
    return;
  }
  for (unsigned i = 2; i < n; i++)
    if (!node->inputs[i]) {
      expand_refuse(x, ERROR_INPUT, i, "missing-input", NULL, "input %u of Loop is required", i + 1);
      return;
    }
  Repeated r;
  bool ok = open_repeated(&r, x, n - 2, 0, node->n_outputs - (n - 2), true);
  if (ok) {
    memcpy(r.states, node->inputs + 2, r.n_states * sizeof *r.states);
    r.count = trip_count(x);
  }
  if (ok && r.count) {
    open_condition(&r, expand_input(x, 1));
    if (carry_out(&r) && (!r.is_computed || check_stacks(&r)))
      for (unsigned i = 0; i < node->n_outputs; i++)
        expand_give(x, i, i < r.n_states ? r.states[i] : r.stacks[i - r.n_states].of);
  }
  repeated_close(&r);
}

/* ---- If ---- */

/* Both have results of one type and shape. */
static bool fit(Expansion *x, const GraphTensor *a, const GraphTensor *b)
{
  bool same = a->type == b->type && a->rank == b->rank;
  for (unsigned d = 0; same && d < a->rank; d++)
    same = expand_same(x, a->shape[d], b->shape[d]);
  return same;
}

static void give_branch(Expansion *x, GraphTensor *const *results)
{
  for (unsigned i = 0; i < expand_written(x)->n_outputs && !expand_failed(x); i++)
    expand_give(x, i, results[i]);
}

static void give_chosen(Expansion *x, GraphTensor *const *then, GraphTensor *const *otherwise)
{
  const GraphNode *node = expand_written(x);
  GraphTensor *which = condition(x, expand_input(x, 0));
  for (unsigned i = 0; i < node->n_outputs && !expand_failed(x); i++) {
    if (!fit(x, then[i], otherwise[i])) {
      expand_refuse(
          x, ERROR_UNSUPPORTED, 0, "branches", "see docs/graph.md, control flow",
          "an If whose condition is computed, and whose branches give output %u in different shapes "
          "or types, is not supported",
          i);
      return;
    }
    if (expand_wants(x, i)) expand_give(x, i, chosen(x, "chosen", which, then[i], otherwise[i]));
  }
}

/* offered: a condition that somebody says will hold decides only between branches that cannot both be computed. */
static bool are_apart(Expansion *x, GraphTensor *const *then, GraphTensor *const *otherwise)
{
  for (unsigned i = 0; i < expand_written(x)->n_outputs && !expand_failed(x); i++)
    if (then[i]->type != otherwise[i]->type || !graph_same_shape(then[i], otherwise[i])) return true;
  return false;
}

void expand_if(Expansion *x)
{
  const GraphNode *node = expand_written(x);
  const GraphTensor *which = expand_input(x, 0);
  static const char *const branches[] = {"else_branch", "then_branch"};
  g_autofree GraphTensor **then = g_new0(GraphTensor *, node->n_outputs + 1),
                         **otherwise = g_new0(GraphTensor *, node->n_outputs + 1);
  GraphTensor **const results[] = {otherwise, then};
  bool truth = false, known = known_truth(which, &truth), decided = known && !which->offered;
  for (unsigned i = 0; i < G_N_ELEMENTS(branches); i++) {
    ExpandBody body;
    if (decided && truth != (i == 1)) continue;
    if (expand_open_body(&body, x, branches[i], 0, node->n_outputs)) expand_body(&body, NULL, results[i]);
    expand_close_body(&body);
  }
  if (expand_failed(x)) return;
  if (decided || (known && are_apart(x, then, otherwise)))
    give_branch(x, results[truth]);
  else
    give_chosen(x, then, otherwise);
}
