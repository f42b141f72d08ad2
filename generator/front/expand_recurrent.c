/* RNN, GRU and LSTM: for each direction the input's products of all steps as one, then a loop over the steps.
 *
 *   products[T, B, G H] = X W' + biases
 *   loop T:  p = products[t] + H R'     H = gates(p)
 *
 * Sums are added up, and cells kept, in f32 (f64 of f64). Gates of f16 have its type, though nothing is rounded to it where one kernel computes them:
 * of their functions the forms for results of so many bits do. Of bf16 the sigmoid is f16's, of sums of f32 rounded to f16: the form for results of bf16 would let a cell decay 1 % too fast. Tanh, whose results
 * are as small as its sums, is bf16's: f16 has not its range. The other direction walks from the last step on: sequences that are
 * shorter keep their initial state until their own last step comes, which is the same as turning them round. */
#include "generator/front/expand.h"
#include <string.h>

enum { X, W, R, BIASES, LENGTHS, STATE, CELL, PEEPHOLES };
enum { ALL, LAST_STATE, LAST_CELL };
enum { MOST_GATES = 4, MOST_DIRECTIONS = 2 };

typedef struct {
  Expansion *x;
  unsigned gates, directions;
  bool turned; /* layout: batches stand first */
  const Symbolic *steps, *batch;
  int64_t hidden;
  NumberType type, wide, gate, function; /* gate: of a gate's sum; of its function */
  GraphTensor *input;                    /* [T, B, I] */
} Recurrence;

/* One of the directions. */
typedef struct {
  Recurrence *of;
  unsigned index;
  bool reverse;
  GraphTensor *products, *valid; /* of this step: [B, G H]; [B, 1], or NULL where all are */
  GraphTensor *state;            /* before this step: [B, H] */
  GraphTensor *last[2], *all;    /* state and cell behind the last step; states of all */
} Direction;

/* ---- what there is ---- */

/* An operand's part of the direction. */
static GraphTensor *part_of(const Direction *d, const char *part, unsigned input, unsigned axis)
{
  Expansion *x = d->of->x;
  GraphTensor *of = expand_input(x, input);
  if (d->of->directions > 1) of = expand_slice(x, part, of, axis, d->index, d->index + 1);
  return expand_squeeze(x, part, of, axis);
}

static GraphTensor *add(Expansion *x, const char *part, GraphTensor *a, GraphTensor *b)
{
  return b ? expand(x, ONNX_Add, part, a, b) : a;
}

static GraphTensor *mul(Expansion *x, const char *part, GraphTensor *a, GraphTensor *b)
{
  return expand(x, ONNX_Mul, part, a, b);
}

/* Columns of gate g, and of as many gates as are wanted. */
static GraphTensor *gates_of(const Direction *d, const char *part, GraphTensor *of, unsigned g, unsigned n)
{
  int64_t hidden = d->of->hidden;
  return expand_slice(d->of->x, part, of, of->rank - 1, g * hidden, (g + n) * hidden);
}

/* The input's product of gate g. */
static GraphTensor *input_of(const Direction *d, unsigned g)
{
  GraphTensor *part = d->of->gates > 1 ? gates_of(d, "input", d->products, g, 1) : d->products;
  return expand_cast(d->of->x, "input", part, d->of->gate);
}

/* Biases of inputs (half 0) or of states, of some gates; NULL: there are none. */
static GraphTensor *biases_of(const Direction *d, const char *part, unsigned half, unsigned g, unsigned n)
{
  Expansion *x = d->of->x;
  if (!expand_input(x, BIASES)) return NULL;
  return gates_of(d, part, part_of(d, part, BIASES, 0), half * d->of->gates + g, n);
}

/* ---- shapes ---- */

static bool has_shape(const Recurrence *r, unsigned input, unsigned rank, const Symbolic *a,
                      const Symbolic *b, const Symbolic *c)
{
  static const char *const words[] = {"X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P"};
  const GraphTensor *tensor = expand_input(r->x, input);
  const Symbolic *want[] = {a, b, c};
  if (!tensor || expand_failed(r->x)) return true;
  bool ok = tensor->rank == rank;
  for (unsigned d = 0; ok && d < rank; d++)
    ok = expand_same(r->x, tensor->shape[d], want[d]);
  if (ok) return true;
  g_autoptr(GString) text = g_string_new("[");
  for (unsigned d = 0; d < rank; d++) {
    g_autofree char *extent = symbolic_text(want[d]);
    g_string_append_printf(text, "%s%s", d ? ", " : "", extent);
  }
  expand_refuse(r->x, ERROR_INPUT, input, "shape", NULL, "%s of %s is %s], `%s` is not", words[input],
                expand_written(r->x)->op->name, text->str, tensor->name);
  return false;
}

static bool check_shapes(Recurrence *r)
{
  Arena *arena = expand_arena(r->x);
  const GraphTensor *in = expand_input(r->x, X);
  const Symbolic *ways = symbolic_constant(arena, r->directions),
                 *hidden = symbolic_constant(arena, r->hidden),
                 *rows = symbolic_constant(arena, r->gates * r->hidden),
                 *both = symbolic_constant(arena, 2 * r->gates * r->hidden),
                 *holes = symbolic_constant(arena, 3 * r->hidden);
  const Symbolic *outer = r->turned ? r->batch : ways, *inner = r->turned ? ways : r->batch;
  return has_shape(r, W, 3, ways, rows, in->shape[2]) && has_shape(r, R, 3, ways, rows, hidden) &&
         has_shape(r, BIASES, 2, ways, both, NULL) && has_shape(r, LENGTHS, 1, r->batch, NULL, NULL) &&
         has_shape(r, STATE, 3, outer, inner, hidden) && has_shape(r, CELL, 3, outer, inner, hidden) &&
         has_shape(r, PEEPHOLES, 2, ways, holes, NULL);
}

/* Numbers of attributes, and peepholes that see the cell, are not to be rounded. */
static void set_gate_types(Recurrence *r)
{
  const GraphNode *node = expand_written(r->x);
  static const char *const names[] = {"clip", "activations", "activation_alpha", "activation_beta"};
  bool plain = r->type == NUMBER_F16 || r->type == NUMBER_BF16;
  for (unsigned i = 0; i < G_N_ELEMENTS(names); i++)
    plain = plain && !graph_attribute(node, names[i])->given;
  if (node->op->id == ONNX_LSTM && expand_input(r->x, PEEPHOLES)) plain = false;
  r->gate = plain && r->type == NUMBER_F16 ? r->type : r->wide;
  r->function = plain ? NUMBER_F16 : r->wide;
}

static bool open_recurrence(Recurrence *r, Expansion *x, unsigned gates)
{
  const GraphNode *node = expand_written(x);
  const GraphAttribute *layout = graph_attribute_find(node, "layout"),
                       *size = graph_attribute(node, "hidden_size");
  const GraphTensor *in = expand_input(x, X), *weights = expand_input(x, R);
  *r = (Recurrence){.x = x, .gates = gates, .directions = 1, .type = in->type};
  r->wide = r->type == NUMBER_F64 ? NUMBER_F64 : NUMBER_F32;
  set_gate_types(r);
  r->turned = layout && layout->integer;
  if (!strcmp(graph_attribute(node, "direction")->text, "bidirectional")) r->directions = 2;
  if (in->rank != 3 || weights->rank != 3) {
    expand_refuse(x, ERROR_INPUT, in->rank == 3 ? R : X, "shape", NULL, "X and R of %s have three dimensions",
                  node->op->name);
    return false;
  }
  r->steps = in->shape[r->turned ? 1 : 0];
  r->batch = in->shape[r->turned ? 0 : 1];
  if (!symbolic_is_constant(weights->shape[2], &r->hidden)) {
    expand_refuse(x, ERROR_UNSUPPORTED, R, "shape", "bind the symbol: --dim",
                  "%s of a hidden size that is a symbol is not supported", node->op->name);
    return false;
  }
  if (size->given && size->integer != r->hidden) {
    expand_refuse_attribute(x, ERROR_INPUT, "hidden_size", NULL,
                            "`hidden_size` is %" G_GINT64_FORMAT ", and R has %" G_GINT64_FORMAT " columns",
                            size->integer, r->hidden);
    return false;
  }
  if (!check_shapes(r)) return false;
  r->input = expand_input(x, X);
  if (r->turned) r->input = expand_transpose(x, "by_step", r->input, (const int64_t[]){1, 0, 2});
  return !expand_failed(x);
}

/* ---- activations ---- */

typedef struct {
  const char *name;
  OperatorId op;
  bool alpha, beta;
  double default_alpha, default_beta;
} Activation;

static const Activation activations[] = {{"Relu", ONNX_Relu},
                                         {"Tanh", ONNX_Tanh},
                                         {"Sigmoid", ONNX_Sigmoid},
                                         {"Affine", ONNX_Identity, true, true, 1, 0},
                                         {"LeakyRelu", ONNX_LeakyRelu, true, false, 0.01},
                                         {"ThresholdedRelu", ONNX_ThresholdedRelu, true, false, 1},
                                         {"ScaledTanh", ONNX_Tanh, true, true, 1, 1},
                                         {"HardSigmoid", ONNX_HardSigmoid, true, true, 0.2, 0.5},
                                         {"Elu", ONNX_Elu, true, false, 1},
                                         {"Softsign", ONNX_Softsign},
                                         {"Softplus", ONNX_Softplus}};

static const Activation *find_activation(Expansion *x, unsigned i, const char *otherwise)
{
  const GraphAttribute *list = graph_attribute(expand_written(x), "activations");
  const char *name = list->given && i < list->n ? list->texts[i] : otherwise;
  for (unsigned k = 0; k < G_N_ELEMENTS(activations); k++)
    if (!g_ascii_strcasecmp(activations[k].name, name)) return &activations[k];
  expand_refuse_attribute(x, ERROR_INPUT, "activations", NULL, "`%s` is no activation of %s", name,
                          expand_written(x)->op->name);
  return NULL;
}

/* The numbers of an attribute go to those functions, in their order, that have one. */
static double number_of(Expansion *x, const char *attribute, unsigned taken, double otherwise)
{
  const GraphAttribute *list = graph_attribute(expand_written(x), attribute);
  return list->given && taken < list->n ? list->numbers[taken] : otherwise;
}

/* Function f of the direction's, each direction having `n`; `defaults`: their names. */
static GraphTensor *activate(const Direction *d, const char *part, GraphTensor *value, unsigned f, unsigned n,
                             const char *const *defaults)
{
  Expansion *x = d->of->x;
  unsigned alphas = 0, betas = 0, at = d->index * n + f;
  const Activation *function = NULL;
  for (unsigned i = 0; i <= at; i++) {
    if (function) alphas += function->alpha;
    if (function) betas += function->beta;
    function = find_activation(x, i, defaults[i % n]);
    if (!function) return NULL;
  }
  double alpha = number_of(x, "activation_alpha", alphas, function->default_alpha),
         beta = number_of(x, "activation_beta", betas, function->default_beta);
  bool scaled = !strcmp(function->name, "ScaledTanh"), affine = function->op == ONNX_Identity;
  if (affine || scaled) {
    GraphTensor *first = expand_number(x, "alpha", d->of->wide, alpha),
                *second = expand_number(x, "beta", d->of->wide, beta);
    if (affine) return add(x, part, mul(x, part, value, first), second);
    return mul(x, part, expand(x, ONNX_Tanh, part, mul(x, part, value, second), NULL), first);
  }
  ExpandNode node = {function->op, part, 1, {value}};
  if (function->alpha) node.attributes[0] = (ExpandAttribute){"alpha", .number = alpha};
  if (function->beta) node.attributes[1] = (ExpandAttribute){"beta", .number = beta};
  return expand_node(x, &node);
}

/* What goes into a gate's function. */
static GraphTensor *clipped(const Direction *d, GraphTensor *value)
{
  Expansion *x = d->of->x;
  const GraphAttribute *clip = graph_attribute(expand_written(x), "clip");
  if (!clip->given || !(clip->number > 0)) return value;
  value = expand(x, ONNX_Min, "clipped", value, expand_number(x, "most", d->of->wide, clip->number));
  return expand(x, ONNX_Max, "clipped", value, expand_number(x, "least", d->of->wide, -clip->number));
}

/* Of function f of n: where gates are of several functions, the first one's results are shares of 1. */
static NumberType type_of_function(const Recurrence *r, unsigned f, unsigned n)
{
  bool share = !f && n > 1;
  return r->function == NUMBER_F16 && !share ? r->type : r->function;
}

/* A gate of its sum. */
static GraphTensor *open_gate(const Direction *d, const char *part, GraphTensor *sum, unsigned f, unsigned n,
                              const char *const *defaults)
{
  Expansion *x = d->of->x;
  sum = expand_cast(x, part, clipped(d, sum), type_of_function(d->of, f, n));
  return expand_cast(x, part, activate(d, part, sum, f, n, defaults), d->of->gate);
}

/* ---- a loop ---- */

static GraphTensor *initial(const Direction *d, unsigned input, NumberType type)
{
  Expansion *x = d->of->x;
  const Symbolic *shape[] = {d->of->batch, symbolic_constant(expand_arena(x), d->of->hidden)};
  if (expand_input(x, input))
    return expand_cast(x, "initial", part_of(d, "initial", input, d->of->turned), type);
  return expand(x, ONNX_Expand, "initial", expand_number(x, "zero", type, 0),
                expand_known(x, "shape", shape, 2, 1));
}

static GraphTensor *open_state(const Direction *d, const char *part, GraphTensor *first)
{
  return expand(d->of->x, ONNX_LoopState, part, first, NULL);
}

/* Of sequences that have ended, or not begun, what there was. */
static GraphTensor *where_valid(const Direction *d, const char *part, GraphTensor *value,
                                GraphTensor *otherwise)
{
  if (!d->valid) return value;
  return expand_where(d->of->x, part, d->valid, value, otherwise);
}

/* state W' of some gates. */
static GraphTensor *multiply(const Direction *d, const char *part, GraphTensor *state, unsigned g, unsigned n)
{
  Expansion *x = d->of->x;
  GraphTensor *weights = part_of(d, "weights", R, 0);
  if (n < d->of->gates)
    weights = expand_slice(x, "weights", weights, 0, g * d->of->hidden, (g + n) * d->of->hidden);
  weights = expand_transpose(x, "weights", weights, (const int64_t[]){1, 0});
  return expand_cast(x, part, expand(x, ONNX_MatMul, part, state, weights), d->of->gate);
}

/* Products of the input of all steps, with the biases that are added to them whatever the gates do; then the loop is open. */
static void open_direction(Direction *d, Recurrence *r, unsigned index, bool state_biases)
{
  Expansion *x = r->x;
  const char *way = graph_attribute(expand_written(x), "direction")->text;
  *d = (Direction){.of = r, .index = index, .reverse = index || !strcmp(way, "reverse")};
  GraphTensor *weights =
      expand_transpose(x, "input_weights", part_of(d, "input_weights", W, 0), (const int64_t[]){1, 0});
  GraphTensor *all = expand(x, ONNX_MatMul, "products", r->input, weights),
              *lengths = expand_input(x, LENGTHS);
  all = add(x, "products", all, biases_of(d, "biases", 0, 0, r->gates));
  if (state_biases) all = add(x, "products", all, biases_of(d, "biases", 1, 0, r->gates));
  GraphTensor *places = lengths ? expand_index(x, "step", &r->steps, 1, 0) : NULL;
  GraphTensor *first = initial(d, STATE, r->type);
  if (expand_failed(x)) return;
  d->state = first;
  d->valid = places;
  d->products = all;
}

static void open_loop(Direction *d)
{
  Expansion *x = d->of->x;
  if (expand_failed(x)) return;
  expand_open_loop(x, d->of->steps);
  d->products = expand_element(x, "product", d->products, d->reverse);
  d->state = open_state(d, "state", d->state);
  if (!d->valid) return;
  GraphTensor *step = expand_element(x, "step", d->valid, d->reverse);
  d->valid = expand(x, ONNX_Less, "valid", step, expand_unsqueeze(x, "length", expand_input(x, LENGTHS), 1));
}

static GraphTensor *next(const Direction *d, GraphTensor *value, GraphTensor *state)
{
  return expand(d->of->x, ONNX_LoopNext, "last", where_valid(d, "kept", value, state), state);
}

/* The state behind this step; the loop is closed. */
static void close_loop(Direction *d, GraphTensor *state)
{
  Expansion *x = d->of->x;
  state = expand_cast(x, "next", state, d->of->type);
  GraphTensor *zero = d->valid ? expand_number(x, "zero", d->of->type, 0) : NULL;
  d->last[0] = next(d, state, d->state);
  GraphTensor *row = expand_unsqueeze(x, "row", where_valid(d, "row", state, zero), d->of->turned);
  d->all = expand_stack(x, "all", row, d->reverse);
  expand_close_loop(x);
}

/* ---- results ---- */

static GraphTensor *join(Recurrence *r, const char *part, GraphTensor *const *of, int64_t axis)
{
  if (r->directions == 1) return of[0];
  return expand_node(r->x,
                     &(ExpandNode){ONNX_Concat, part, 2, {of[0], of[1]}, .attributes = {{"axis", axis}}});
}

static void give_results(Recurrence *r, Direction *d)
{
  Expansion *x = r->x;
  if (expand_failed(x)) return;
  if (expand_wants(x, ALL)) {
    GraphTensor *const all[] = {d[0].all, d[1].all};
    GraphTensor *y = join(r, "joined", all, r->turned ? 2 : 1);
    if (r->turned) y = expand_transpose(x, "by_batch", y, (const int64_t[]){1, 0, 2, 3});
    expand_give(x, ALL, y);
  }
  for (unsigned i = 0; i < 2; i++) {
    GraphTensor *last[MOST_DIRECTIONS] = {NULL};
    if (!expand_wants(x, LAST_STATE + i)) continue;
    for (unsigned k = 0; k < r->directions; k++)
      last[k] = expand_unsqueeze(x, "last_row", expand_cast(x, "last", d[k].last[i], r->type), r->turned);
    expand_give(x, LAST_STATE + i, join(r, "last_rows", last, r->turned));
  }
}

/* ---- the three ---- */

void expand_rnn(Expansion *x)
{
  static const char *const functions[] = {"Tanh"};
  Recurrence r;
  Direction d[MOST_DIRECTIONS] = {{0}};
  if (!open_recurrence(&r, x, 1)) return;
  for (unsigned i = 0; i < r.directions && !expand_failed(x); i++) {
    open_direction(&d[i], &r, i, true);
    open_loop(&d[i]);
    GraphTensor *sum = add(x, "sum", multiply(&d[i], "product", d[i].state, 0, 1), input_of(&d[i], 0));
    close_loop(&d[i], open_gate(&d[i], "next", sum, 0, 1, functions));
  }
  give_results(&r, d);
}

/* Gates z, r, h. */
static GraphTensor *gru_step(const Direction *d, bool reset_after)
{
  static const char *const functions[] = {"Sigmoid", "Tanh"};
  Expansion *x = d->of->x;
  NumberType gate = d->of->gate;
  unsigned together = reset_after ? 3 : 2;
  GraphTensor *product = multiply(d, "product", d->state, 0, together), *gates[2];
  for (unsigned g = 0; g < 2; g++) {
    GraphTensor *sum = add(x, "sum", input_of(d, g), gates_of(d, "part", product, g, 1));
    GraphTensor *bias = reset_after ? biases_of(d, "bias", 1, g, 1) : NULL;
    if (bias) sum = add(x, "sum", sum, expand_cast(x, "bias", bias, gate));
    gates[g] = open_gate(d, "gate", sum, 0, 2, functions);
  }
  GraphTensor *old = expand_cast(x, "old", d->state, gate), *fresh = NULL;
  if (reset_after) {
    GraphTensor *bias = biases_of(d, "bias", 1, 2, 1);
    fresh = gates_of(d, "part", product, 2, 1);
    if (bias) fresh = add(x, "fresh", fresh, expand_cast(x, "bias", bias, gate));
    fresh = mul(x, "fresh", gates[1], fresh);
  } else {
    GraphTensor *reset = expand_cast(x, "reset", mul(x, "reset", gates[1], old), d->of->type);
    fresh = multiply(d, "fresh", reset, 2, 1);
  }
  fresh = add(x, "fresh", fresh, input_of(d, 2));
  fresh = open_gate(d, "fresh", fresh, 1, 2, functions);
  GraphTensor *rest = expand(x, ONNX_Sub, "rest", expand_number(x, "one", gate, 1), gates[0]);
  return add(x, "next", mul(x, "new", rest, fresh), mul(x, "kept", gates[0], old));
}

void expand_gru(Expansion *x)
{
  Recurrence r;
  Direction d[MOST_DIRECTIONS] = {{0}};
  bool reset_after = graph_attribute(expand_written(x), "linear_before_reset")->integer != 0;
  if (!open_recurrence(&r, x, 3)) return;
  if (!reset_after) r.gate = r.function = r.wide; /* what passes from kernel to kernel is not rounded */
  for (unsigned i = 0; i < r.directions && !expand_failed(x); i++) {
    open_direction(&d[i], &r, i, !reset_after);
    open_loop(&d[i]);
    if (!expand_failed(x)) close_loop(&d[i], gru_step(&d[i], reset_after));
  }
  give_results(&r, d);
}

/* Gates i, o, f, c; the function's index among f, g, h. peephole: its place among i, o, f, or -1. */
static GraphTensor *lstm_gate(const Direction *d, GraphTensor *product, unsigned g, unsigned function,
                              int peephole, GraphTensor *cell)
{
  static const char *const functions[] = {"Sigmoid", "Tanh", "Tanh"};
  Expansion *x = d->of->x;
  GraphTensor *sum = add(x, "sum", gates_of(d, "part", product, g, 1), input_of(d, g));
  if (peephole >= 0 && expand_input(x, PEEPHOLES)) {
    GraphTensor *weights =
        gates_of(d, "peephole", part_of(d, "peephole", PEEPHOLES, 0), (unsigned)peephole, 1);
    sum = add(x, "sum", sum, mul(x, "seen", expand_cast(x, "peephole", weights, d->of->wide), cell));
  }
  return expand_cast(x, "gate", open_gate(d, "gate", sum, function, 3, functions), d->of->wide);
}

static void lstm_step(Direction *d, GraphTensor *cell)
{
  static const char *const functions[] = {"Sigmoid", "Tanh", "Tanh"};
  Expansion *x = d->of->x;
  bool coupled = graph_attribute(expand_written(x), "input_forget")->integer != 0;
  GraphTensor *product = multiply(d, "product", d->state, 0, 4);
  GraphTensor *in = lstm_gate(d, product, 0, 0, 0, cell), *forget = NULL;
  if (coupled)
    forget = expand(x, ONNX_Sub, "forget", expand_number(x, "one", d->of->wide, 1), in);
  else
    forget = lstm_gate(d, product, 2, 0, 2, cell);
  GraphTensor *fresh = lstm_gate(d, product, 3, 1, -1, cell);
  GraphTensor *now = add(x, "cell", mul(x, "kept", forget, cell), mul(x, "new", in, fresh));
  GraphTensor *out = lstm_gate(d, product, 1, 0, 1, now);
  GraphTensor *state = mul(x, "next", out, activate(d, "shown", now, 2, 3, functions));
  d->last[1] = next(d, now, cell);
  close_loop(d, state);
}

void expand_lstm(Expansion *x)
{
  Recurrence r;
  Direction d[MOST_DIRECTIONS] = {{0}};
  if (!open_recurrence(&r, x, 4)) return;
  for (unsigned i = 0; i < r.directions && !expand_failed(x); i++) {
    open_direction(&d[i], &r, i, true);
    GraphTensor *first = initial(&d[i], CELL, r.wide);
    open_loop(&d[i]);
    GraphTensor *cell = open_state(&d[i], "cell", first);
    if (!expand_failed(x)) lstm_step(&d[i], cell);
  }
  give_results(&r, d);
}
