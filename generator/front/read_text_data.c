/* Values of constants written in an op description. */
#include "generator/front/private.h"
#include "generator/front/read_text.h"
#include <math.h>
#include <string.h>

typedef struct {
  GraphBuilder *builder;
  GraphTensor *tensor;
  guint8 *bytes;
  size_t n, capacity; /* elements */
  bool ok;
} DataReader;

static void bad_value(DataReader *data, Node *node)
{
  data->ok = false;
  graph_builder_report(data->builder, ERROR_INPUT, &node->mark, "out-of-range", NULL,
                       "%s does not fit into %s", node->text, number_name(data->tensor->type));
}

static bool read_special_float(const Node *node, double *value)
{
  static const struct {
    const char *text;
    double value;
  } specials[] = {{"nan", NAN}, {"inf", INFINITY}, {"-inf", -INFINITY}};
  for (unsigned i = 0; node->kind == NODE_SCALAR && i < G_N_ELEMENTS(specials); i++)
    if (!g_ascii_strcasecmp(node->text, specials[i].text)) {
      *value = specials[i].value;
      return true;
    }
  return false;
}

static void read_integer_element(DataReader *data, Node *node, size_t place)
{
  int64_t value;
  unsigned bits = number_bits(data->tensor->type);
  if (!text_integer(data->builder, node, &value)) {
    data->ok = false;
    return;
  }
  bool is_signed = number_class(data->tensor->type) == NUMBER_SIGNED;
  int64_t max = bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - is_signed)) - 1;
  int64_t min = is_signed ? -max - 1 : 0;
  if (value < min || value > max) {
    bad_value(data, node);
    return;
  }
  number_set_bits(data->tensor->type, (uint64_t)value, data->bytes, place);
}

static void read_element(DataReader *data, Node *node)
{
  NumberType type = data->tensor->type;
  double number = 0;
  if (data->n == data->capacity) {
    data->n++; /* one too many: counted, not stored */
    return;
  }
  size_t place = data->n++;
  if (number_class(type) == NUMBER_SIGNED || number_class(type) == NUMBER_UNSIGNED) {
    read_integer_element(data, node, place);
    return;
  }
  bool truth = false, ok;
  if (number_class(type) == NUMBER_BOOLEAN) {
    ok = node_boolean(node, &truth, graph_builder_error(data->builder));
    number_set_bits(type, truth, data->bytes, place);
  } else {
    ok = read_special_float(node, &number) || node_number(node, &number, graph_builder_error(data->builder));
    if (ok) number_write(type, number, false, data->bytes, place);
    bool beyond = ok && number_is_packed(type) && fabs(number_read(type, data->bytes, place) - number) > 1;
    if (ok && isfinite(number) && (beyond || !isfinite(number_read(type, data->bytes, place))))
      bad_value(data, node);
  }
  if (!graph_builder_note(data->builder, ok)) data->ok = false;
}

/* Flat, or nested as the shape says. */
static void read_elements(DataReader *data, Node *node, unsigned depth)
{
  int64_t extent;
  const GraphTensor *tensor = data->tensor;
  if (node->kind != NODE_SEQUENCE) {
    read_element(data, node);
    return;
  }
  bool nested = node->n && node->items[0]->kind == NODE_SEQUENCE;
  bool checked = nested || depth > 0;
  if (checked &&
      (depth >= tensor->rank || !symbolic_is_constant(tensor->shape[depth], &extent) || extent != node->n)) {
    graph_builder_report(data->builder, ERROR_INPUT, &node->mark, "shape", NULL,
                         "a list of %u does not fit the shape at depth %u", node->n, depth + 1);
    data->ok = false;
    return;
  }
  for (unsigned i = 0; i < node->n && data->ok && data->n <= data->capacity; i++) {
    if (nested != (node->items[i]->kind == NODE_SEQUENCE)) {
      text_is(data->builder, node->items[i], nested ? NODE_SEQUENCE : NODE_SCALAR, NULL);
      data->ok = false;
      return;
    }
    read_elements(data, node->items[i], depth + 1);
  }
}

/* Has a flat list of integers an entry that is none: an expression of symbols? */
static bool has_expressions(const Node *list, const GraphTensor *tensor)
{
  bool integers = tensor->type == NUMBER_S64 || tensor->type == NUMBER_S32;
  for (unsigned i = 0; integers && list->kind == NODE_SEQUENCE && i < list->n; i++)
    if (list->items[i]->kind == NODE_SCALAR && list->items[i]->quoted) return true;
  return false;
}

/* Known as what shapes are, for who must know them and for kernels as an argument. */
static void read_expressions(GraphBuilder *b, Node *list, GraphTensor *tensor)
{
  const Symbolic **values = arena_new_array(graph_builder_arena(b), const Symbolic *, list->n + 1);
  if (list->n != tensor->n_elements || list->n > KNOWN_INTEGERS_MAX || tensor->rank > 1) {
    graph_builder_report(b, ERROR_INPUT, &list->mark, "shape", NULL,
                         "%u values, expressions among them, for %zu elements of rank %u: they are at most "
                         "%d, of a list or a number",
                         list->n, tensor->n_elements, tensor->rank, KNOWN_INTEGERS_MAX);
    return;
  }
  for (unsigned i = 0; i < list->n; i++) {
    int64_t number;
    bool expression = list->items[i]->kind == NODE_SCALAR && list->items[i]->quoted;
    if (expression)
      values[i] = text_extent(b, list->items[i], INT64_MAX);
    else
      values[i] =
          text_integer(b, list->items[i], &number) ? symbolic_constant(graph_builder_arena(b), number) : NULL;
    if (!values[i]) return;
  }
  tensor->values = values;
}

void text_data(GraphBuilder *b, Node *node, GraphTensor *tensor)
{
  if (has_expressions(node, tensor)) {
    read_expressions(b, node, tensor);
    return;
  }
  /* A document cannot hold more elements than it has characters. */
  size_t capacity = MIN(tensor->n_elements, node->mark.source->length);
  DataReader data = {b, tensor, NULL, 0, capacity, true};
  data.bytes = arena_alloc(graph_builder_arena(b), number_bytes_of(tensor->type, capacity) + 1);
  read_elements(&data, node, 0);
  if (!data.ok) return;
  if (data.n != tensor->n_elements)
    graph_builder_report(b, ERROR_INPUT, &node->mark, "shape", NULL,
                         "%s values for a constant of %zu elements",
                         data.n > tensor->n_elements ? "too many" : "too few", tensor->n_elements);
  tensor->data = data.bytes;
}
