/* Nodes of an ONNX model: attributes as the builder takes them, functions of the model's own in the place of their calls,
 * Constant nodes as constants. */
#include "generator/front/read_onnx.h"
#include <string.h>

#define MAX_NODES     (1u << 20)
#define MAX_CALLS     32   /* of functions within functions */
#define MAX_DEPTH     4096 /* of functions and graphs within one another that are counted */
#define DEEP_CALLS    "functions within functions, %d deep, are not supported"
#define CONSTANT_NODE "Constant"

/* ---- values of attributes ---- */

typedef enum { VALUE_INTEGER, VALUE_NUMBER, VALUE_TEXT, VALUE_LIST, VALUE_OTHER } ValueKind;

static const char *const value_words[] = {"an integer", "a number", "a text", "a list",
                                          "of a kind that is not read"};

typedef struct Value {
  ValueKind kind;
  Mark mark;
  int64_t integer;
  double number;
  const char *text;
  const struct Value *items;
  unsigned n;
} Value;

static bool is_kind(const Value *value, ValueKind kind, GError **error)
{
  if (value->kind == kind) return true;
  error_add(error, ERROR_INPUT, SEVERITY_ERROR, &value->mark, "type", NULL, "%s is expected here; this is %s",
            value_words[kind], value_words[value->kind]);
  return false;
}

static bool value_integer(const void *value, int64_t *result, GError **error)
{
  *result = ((const Value *)value)->integer;
  return is_kind(value, VALUE_INTEGER, error);
}

static bool value_number(const void *memory, double *result, GError **error)
{
  const Value *value = memory;
  *result = value->kind == VALUE_INTEGER ? (double)value->integer : value->number;
  return value->kind == VALUE_INTEGER || is_kind(value, VALUE_NUMBER, error);
}

static bool value_string(const void *value, const char **result, GError **error)
{
  *result = ((const Value *)value)->text;
  return is_kind(value, VALUE_TEXT, error);
}

static bool value_list(const void *value, const char *what, unsigned *n, GError **error)
{
  (void)what;
  *n = ((const Value *)value)->n;
  return is_kind(value, VALUE_LIST, error);
}

static const void *value_item(const void *value, unsigned i)
{
  return &((const Value *)value)->items[i];
}

static bool value_is_number(const void *value)
{
  return ((const Value *)value)->kind == VALUE_INTEGER;
}

static Mark value_mark(const void *value)
{
  return ((const Value *)value)->mark;
}

const GraphValueFormat onnx_value_format = {value_integer, value_number,    value_string, value_list,
                                            value_item,    value_is_number, value_mark};

/* AttributeProto.AttributeType; files of the first version leave it out. */
typedef enum {
  TYPE_NONE,
  TYPE_FLOAT,
  TYPE_INT,
  TYPE_STRING,
  TYPE_TENSOR,
  TYPE_GRAPH,
  TYPE_FLOATS,
  TYPE_INTS,
  TYPE_STRINGS
} AttributeType;

static AttributeType type_of(const OnnxMessage *attribute)
{
  static const struct {
    OnnxField field;
    AttributeType type;
  } by_field[] = {{ONNX_Attribute_f, TYPE_FLOAT},   {ONNX_Attribute_i, TYPE_INT},
                  {ONNX_Attribute_s, TYPE_STRING},  {ONNX_Attribute_t, TYPE_TENSOR},
                  {ONNX_Attribute_g, TYPE_GRAPH},   {ONNX_Attribute_floats, TYPE_FLOATS},
                  {ONNX_Attribute_ints, TYPE_INTS}, {ONNX_Attribute_strings, TYPE_STRINGS}};
  if (onnx_has(attribute, ONNX_Attribute_type))
    return (AttributeType)CLAMP(onnx_integer(attribute, ONNX_Attribute_type), 0, G_MAXINT);
  for (unsigned i = 0; i < G_N_ELEMENTS(by_field); i++)
    if (onnx_has(attribute, by_field[i].field)) return by_field[i].type;
  return TYPE_NONE;
}

/* A text as C has it: other bytes are no value of any attribute that we know. */
static Value text_value(OnnxReader *reader, Mark mark, const OnnxValue *bytes)
{
  bool ok = !memchr(bytes->at, 0, bytes->length) &&
            g_utf8_validate((const char *)bytes->at, (gssize)bytes->length, NULL);
  char *text = arena_strndup(reader->arena, (const char *)bytes->at, bytes->length);
  return (Value){.kind = ok ? VALUE_TEXT : VALUE_OTHER, .mark = mark, .text = text};
}

static Value list_value(OnnxReader *reader, Mark mark, const OnnxMessage *attribute, AttributeType type)
{
  size_t n = 0;
  const int64_t *integers = NULL;
  const double *numbers = NULL;
  OnnxValues texts = onnx_values(attribute, ONNX_Attribute_strings);
  if (type == TYPE_INTS) integers = onnx_integers(reader->arena, attribute, ONNX_Attribute_ints, &n);
  if (type == TYPE_FLOATS) numbers = onnx_numbers(reader->arena, attribute, ONNX_Attribute_floats, &n);
  if (type == TYPE_STRINGS) n = texts.n;
  Value *items = arena_new_array(reader->arena, Value, n);
  for (size_t i = 0; i < n; i++)
    items[i] = integers  ? (Value){.kind = VALUE_INTEGER, .mark = mark, .integer = integers[i]}
               : numbers ? (Value){.kind = VALUE_NUMBER, .mark = mark, .number = numbers[i]}
                         : text_value(reader, mark, &texts.items[i]);
  return (Value){.kind = VALUE_LIST, .mark = mark, .items = items, .n = (unsigned)n};
}

static Value make_value(OnnxReader *reader, const OnnxMessage *attribute)
{
  Mark mark = onnx_mark(reader->source, attribute->at);
  AttributeType type = type_of(attribute);
  OnnxValues text = onnx_values(attribute, ONNX_Attribute_s);
  static const OnnxValue empty = {.at = (const uint8_t *)""};
  switch ((int)type) {
  case TYPE_FLOAT:
    return (Value){.kind = VALUE_NUMBER, .mark = mark, .number = onnx_number(attribute, ONNX_Attribute_f)};
  case TYPE_INT:
    return (Value){.kind = VALUE_INTEGER, .mark = mark, .integer = onnx_integer(attribute, ONNX_Attribute_i)};
  case TYPE_STRING: return text_value(reader, mark, text.n ? &text.items[text.n - 1] : &empty);
  case TYPE_FLOATS:
  case TYPE_INTS:
  case TYPE_STRINGS: return list_value(reader, mark, attribute, type);
  default: return (Value){.kind = VALUE_OTHER, .mark = mark};
  }
}

/* ---- functions ---- */

static const OnnxMessage *find_attribute(OnnxValues attributes, const char *name)
{
  for (unsigned i = 0; i < attributes.n; i++)
    if (!strcmp(onnx_text(attributes.items[i].message, ONNX_Attribute_name), name))
      return attributes.items[i].message;
  return NULL;
}

/* What holds the value: an attribute of a body may stand for one of the call's. NULL: it is absent. `scope` becomes that of who wrote
 * it, whose names a graph has. */
static const OnnxMessage *resolve_in(const OnnxMessage *attribute, const OnnxScope **scope)
{
  const char *formal = attribute ? onnx_text(attribute, ONNX_Attribute_ref_attr_name) : "";
  const OnnxScope *at = *scope;
  if (!*formal || !at) return attribute;
  const OnnxMessage *actual = find_attribute(onnx_values(at->call, ONNX_Node_attribute), formal);
  if (!actual) return find_attribute(onnx_values(at->function, ONNX_Function_attribute_proto), formal);
  *scope = at->outer;
  return resolve_in(actual, scope);
}

static const OnnxMessage *resolve_attribute(const OnnxMessage *attribute, const OnnxScope *scope)
{
  return resolve_in(attribute, &scope);
}

/* The graph's name of a tensor of the body. */
static const char *name_of(OnnxReader *reader, const char *name, const OnnxScope *scope)
{
  if (!scope || !*name) return name;
  const char *known = g_hash_table_lookup(scope->names, name);
  if (known) return known;
  const char *made = arena_printf(reader->arena, "%s/%s", scope->prefix, name);
  g_hash_table_insert(scope->names, (void *)name, (void *)made);
  return made;
}

static void bind_names(OnnxReader *reader, OnnxScope *body, OnnxField formals, OnnxField actuals)
{
  OnnxValues formal = onnx_values(body->function, formals), actual = onnx_values(body->call, actuals);
  for (unsigned i = 0; i < formal.n; i++) {
    const char *name = i < actual.n ? name_of(reader, actual.items[i].text, body->outer) : "";
    bool output = formals == ONNX_Function_output;
    if (*name || !output) g_hash_table_insert(body->names, (void *)formal.items[i].text, (void *)name);
  }
}

/* Why a function cannot stand in the place of a call; NULL: it can. g_free. */
static char *refuse_call(const OnnxReader *reader, const OnnxMessage *function, const OnnxScope *scope,
                         ErrorCode *code)
{
  const char *name = onnx_text(function, ONNX_Function_name);
  OnnxValues imports = onnx_values(function, ONNX_Function_opset_import);
  *code = ERROR_INPUT;
  for (const OnnxScope *at = scope; at; at = at->outer)
    if (at->function == function) return g_strdup_printf("function `%s` calls itself", name);
  *code = ERROR_UNSUPPORTED;
  if (scope && scope->depth >= MAX_CALLS) return g_strdup_printf(DEEP_CALLS, MAX_CALLS);
  for (unsigned i = 0; i < imports.n; i++) {
    const OnnxMessage *import = imports.items[i].message;
    const char *domain = onnx_text(import, ONNX_Opset_domain);
    int64_t version = onnx_integer(import, ONNX_Opset_version);
    if ((*domain && strcmp(domain, "ai.onnx")) || version == reader->opset) continue;
    return g_strdup_printf("function `%s` is of opset %" G_GINT64_FORMAT ", the graph of %" G_GINT64_FORMAT,
                           name, version, reader->opset);
  }
  return NULL;
}

static const OnnxMessage *find_function(const OnnxReader *reader, const OnnxMessage *node)
{
  if (!g_hash_table_size(reader->functions)) return NULL;
  g_autofree char *key =
      g_strjoin("\n", onnx_text(node, ONNX_Node_domain), onnx_text(node, ONNX_Node_op_type),
                onnx_text(node, ONNX_Node_overload), NULL);
  return g_hash_table_lookup(reader->functions, key);
}

/* ---- how many nodes there will be ---- */

typedef struct Count {
  const OnnxReader *reader;
  GHashTable
      *known;      /* OnnxMessage of a function -> its nodes with those of what it calls; 0: being counted */
  unsigned looked; /* at so many nodes */
  bool deep;       /* some are deeper than is looked */
} Count;

/* `given`: nodes of each graph that the call gives as an attribute; NULL: none. */
static unsigned count_nodes(Count *count, OnnxValues nodes, GHashTable *given, unsigned depth);

/* Nodes of an attribute that is a graph, written or given by the call around it; 0: it is none. */
static unsigned count_attribute(Count *count, const OnnxMessage *attribute, GHashTable *given, unsigned depth)
{
  const OnnxMessage *graph = onnx_message(attribute, ONNX_Attribute_g);
  const char *formal = onnx_text(attribute, ONNX_Attribute_ref_attr_name);
  if (*formal) return given ? GPOINTER_TO_UINT(g_hash_table_lookup(given, formal)) : 0;
  return graph ? count_nodes(count, onnx_values(graph, ONNX_Graph_node), given, depth + 1) : 0;
}

/* Of a call without graphs a function has as many each time; each graph that is given may stand in the body more than once. */
static unsigned count_call(Count *count, const OnnxMessage *function, OnnxValues attributes,
                           GHashTable *given, unsigned depth)
{
  OnnxValues nodes = onnx_values(function, ONNX_Function_node);
  g_autoptr(GHashTable) gives = g_hash_table_new(g_str_hash, g_str_equal);
  gpointer known;
  for (unsigned j = 0; j < attributes.n; j++) {
    const OnnxMessage *attribute = attributes.items[j].message;
    unsigned n = count_attribute(count, attribute, given, depth);
    if (n) g_hash_table_insert(gives, (void *)onnx_text(attribute, ONNX_Attribute_name), GUINT_TO_POINTER(n));
  }
  if (g_hash_table_size(gives)) return count_nodes(count, nodes, gives, depth + 1);
  if (g_hash_table_lookup_extended(count->known, function, NULL, &known)) return GPOINTER_TO_UINT(known);
  g_hash_table_insert(count->known, (void *)function, GUINT_TO_POINTER(0));
  unsigned n = count_nodes(count, nodes, NULL, depth + 1);
  g_hash_table_insert(count->known, (void *)function, GUINT_TO_POINTER(n));
  return n;
}

/* MAX_NODES + 1 is any number above. */
static unsigned count_nodes(Count *count, OnnxValues nodes, GHashTable *given, unsigned depth)
{
  unsigned n = 0;
  count->deep = count->deep || depth > MAX_DEPTH;
  for (unsigned i = 0; i < nodes.n && n <= MAX_NODES && !count->deep; i++) {
    const OnnxMessage *node = nodes.items[i].message, *function = find_function(count->reader, node);
    OnnxValues attributes = onnx_values(node, ONNX_Node_attribute);
    n += 1;
    if (count->looked++ > MAX_NODES) return MAX_NODES + 1;
    if (function) n += count_call(count, function, attributes, given, depth);
    for (unsigned j = 0; !function && j < attributes.n && n <= MAX_NODES; j++)
      n += count_attribute(count, attributes.items[j].message, given, depth);
  }
  return MIN(n, MAX_NODES + 1);
}

static void refuse_size(OnnxReader *reader, const OnnxMessage *at)
{
  Mark mark = onnx_mark(reader->source, at->at);
  graph_builder_report(reader->builder, ERROR_UNSUPPORTED, &mark, "too-large", NULL,
                       "a graph of more than %u nodes, with those of its functions at every call, is not "
                       "supported",
                       MAX_NODES);
}

bool onnx_check_size(OnnxReader *reader, const OnnxMessage *graph)
{
  g_autoptr(GHashTable) known = g_hash_table_new(NULL, NULL);
  Count count = {.reader = reader, .known = known};
  bool ok = count_nodes(&count, onnx_values(graph, ONNX_Graph_node), NULL, 0) <= MAX_NODES;
  Mark mark = onnx_mark(reader->source, graph->at);
  if (!ok)
    refuse_size(reader, graph);
  else if (count.deep)
    graph_builder_report(reader->builder, ERROR_UNSUPPORTED, &mark, "function", NULL, DEEP_CALLS, MAX_CALLS);
  return ok && !count.deep;
}

/* ---- calls ---- */

/* The body in the place of the call. Its tensors are named after the call. */
static void read_call(OnnxReader *reader, const OnnxMessage *node, const OnnxMessage *function,
                      const OnnxScope *scope)
{
  g_autoptr(GHashTable) names = g_hash_table_new(g_str_hash, g_str_equal);
  const char *name = onnx_text(node, ONNX_Node_name), *outer = scope ? scope->prefix : "";
  OnnxScope body = {scope, function, node, names, NULL, scope ? scope->depth + 1 : 1};
  body.prefix = arena_printf(reader->arena, "%s%s%s.%u", outer, *outer ? "/" : "",
                             *name ? name : onnx_text(function, ONNX_Function_name), reader->n_nodes);
  bind_names(reader, &body, ONNX_Function_input, ONNX_Node_input);
  bind_names(reader, &body, ONNX_Function_output, ONNX_Node_output);
  onnx_read_nodes(reader, onnx_values(function, ONNX_Function_node), &body);
}

/* ---- nodes ---- */

/* Constant: a tensor, or numbers. Others of its attributes are refused as such. */
static bool read_constant(OnnxReader *reader, const OnnxMessage *node, const OnnxScope *scope)
{
  static const struct {
    const char *name;
    OnnxField field;
  } forms[] = {{"value", ONNX_Attribute_t},
               {"value_int", ONNX_Attribute_i},
               {"value_ints", ONNX_Attribute_ints},
               {"value_float", ONNX_Attribute_f},
               {"value_floats", ONNX_Attribute_floats}};
  OnnxValues outputs = onnx_values(node, ONNX_Node_output),
             attributes = onnx_values(node, ONNX_Node_attribute);
  if (*onnx_text(node, ONNX_Node_domain) && strcmp(onnx_text(node, ONNX_Node_domain), "ai.onnx"))
    return false;
  if (strcmp(onnx_text(node, ONNX_Node_op_type), CONSTANT_NODE) || outputs.n != 1) return false;
  const char *name = name_of(reader, outputs.items[0].text, scope);
  for (unsigned i = 0; i < G_N_ELEMENTS(forms); i++) {
    const OnnxMessage *attribute = resolve_attribute(find_attribute(attributes, forms[i].name), scope);
    if (!attribute) continue;
    const OnnxMessage *tensor = i ? NULL : onnx_message(attribute, ONNX_Attribute_t);
    if (!i && !tensor) return false;
    if (i)
      onnx_read_numbers(reader, name, attribute, forms[i].field);
    else
      onnx_read_tensor(reader, name, tensor);
    return true;
  }
  return false;
}

/* ConstantOfShape is one number, expanded: NAME.value, f32 0 where the node does not say. */
static bool read_constant_of_shape(OnnxReader *reader, const OnnxMessage *node, const OnnxScope *scope)
{
  OnnxValues inputs = onnx_values(node, ONNX_Node_input), outputs = onnx_values(node, ONNX_Node_output);
  const char *domain = onnx_text(node, ONNX_Node_domain);
  if ((*domain && strcmp(domain, "ai.onnx")) ||
      strcmp(onnx_text(node, ONNX_Node_op_type), "ConstantOfShape") || inputs.n != 1 || outputs.n != 1)
    return false;
  const OnnxMessage *attribute =
      resolve_attribute(find_attribute(onnx_values(node, ONNX_Node_attribute), "value"), scope);
  const OnnxMessage *tensor = attribute ? onnx_message(attribute, ONNX_Attribute_t) : NULL;
  Mark mark = onnx_mark(reader->source, node->at);
  const char *result = name_of(reader, outputs.items[0].text, scope);
  const GraphNameSpec value = {arena_printf(reader->arena, "%s.value", result), mark}, out = {result, mark};
  if (tensor)
    onnx_read_tensor(reader, value.name, tensor);
  else
    onnx_read_zero(reader, value.name, &mark);
  const GraphNameSpec in[] = {value, {name_of(reader, inputs.items[0].text, scope), mark}};
  graph_builder_open_node(reader->builder);
  graph_builder_close_node(reader->builder, &(GraphNodeSpec){.mark = mark,
                                                             .op = "Expand",
                                                             .domain = "",
                                                             .name = onnx_text(node, ONNX_Node_name),
                                                             .op_mark = mark,
                                                             .inputs = in,
                                                             .outputs = &out,
                                                             .n_inputs = 2,
                                                             .n_outputs = 1,
                                                             .inputs_mark = mark,
                                                             .outputs_mark = mark});
  return true;
}

static GraphNameSpec *read_names(OnnxReader *reader, OnnxValues names, const OnnxScope *scope)
{
  GraphNameSpec *list = g_new0(GraphNameSpec, names.n + 1);
  for (unsigned i = 0; i < names.n; i++)
    list[i] = (GraphNameSpec){name_of(reader, names.items[i].text, scope),
                              onnx_mark(reader->source, names.items[i].at)};
  return list;
}

/* NULL: the attribute is no graph. */
static const GraphBody *read_body(OnnxReader *reader, const OnnxMessage *attribute, const OnnxScope *scope)
{
  const OnnxMessage *graph =
      type_of(attribute) == TYPE_GRAPH ? onnx_message(attribute, ONNX_Attribute_g) : NULL;
  if (!graph) return NULL;
  OnnxValues inputs = onnx_values(graph, ONNX_Graph_input), outputs = onnx_values(graph, ONNX_Graph_output),
             constants = onnx_values(graph, ONNX_Graph_initializer);
  Mark mark = onnx_mark(reader->source, graph->at);
  graph_builder_open_body(reader->builder);
  for (unsigned i = 0; i < inputs.n; i++) {
    const OnnxMessage *input = inputs.items[i].message;
    Mark at = onnx_mark(reader->source, input->at);
    graph_builder_body_input(reader->builder, name_of(reader, onnx_text(input, ONNX_ValueInfo_name), scope),
                             &at);
  }
  for (unsigned i = 0; i < constants.n; i++)
    onnx_read_tensor(reader, name_of(reader, onnx_text(constants.items[i].message, ONNX_Tensor_name), scope),
                     constants.items[i].message);
  if (onnx_has(graph, ONNX_Graph_sparse_initializer))
    graph_builder_report(reader->builder, ERROR_UNSUPPORTED, &mark, "sparse", NULL,
                         "sparse initializers are not supported");
  onnx_read_nodes(reader, onnx_values(graph, ONNX_Graph_node), scope);
  for (unsigned i = 0; i < outputs.n; i++) {
    const OnnxMessage *output = outputs.items[i].message;
    Mark at = onnx_mark(reader->source, output->at);
    graph_builder_output(reader->builder, name_of(reader, onnx_text(output, ONNX_ValueInfo_name), scope),
                         &at);
  }
  return graph_builder_close_body(reader->builder);
}

static GraphAttributeSpec *read_attributes(OnnxReader *reader, OnnxValues attributes, const OnnxScope *scope,
                                           unsigned *n)
{
  GraphAttributeSpec *list = g_new0(GraphAttributeSpec, attributes.n + 1);
  *n = 0;
  for (unsigned i = 0; i < attributes.n; i++) {
    const OnnxScope *own = scope;
    const OnnxMessage *written = attributes.items[i].message, *attribute = resolve_in(written, &own);
    if (!attribute) continue;
    const Value value = make_value(reader, attribute);
    list[(*n)++] = (GraphAttributeSpec){.name = onnx_text(written, ONNX_Attribute_name),
                                        .name_mark = value.mark,
                                        .value = arena_memdup(reader->arena, &value, sizeof value),
                                        .body = read_body(reader, attribute, own)};
  }
  return list;
}

/* fault: why its operator, a function, is refused; NULL: it is none. */
static void read_node(OnnxReader *reader, const OnnxMessage *node, const OnnxScope *scope, const char *fault,
                      ErrorCode code)
{
  OnnxValues inputs = onnx_values(node, ONNX_Node_input), outputs = onnx_values(node, ONNX_Node_output);
  Mark mark = onnx_mark(reader->source, node->at);
  GraphNodeSpec spec = {.mark = mark,
                        .op = fault ? NULL : onnx_text(node, ONNX_Node_op_type),
                        .domain = onnx_text(node, ONNX_Node_domain),
                        .name = onnx_text(node, ONNX_Node_name),
                        .op_mark = mark,
                        .n_inputs = inputs.n,
                        .n_outputs = outputs.n,
                        .inputs_mark = mark,
                        .outputs_mark = mark};
  g_autofree GraphAttributeSpec *attributes =
      read_attributes(reader, onnx_values(node, ONNX_Node_attribute), scope, &spec.n_attributes);
  graph_builder_open_node(reader->builder);
  if (fault) graph_builder_report(reader->builder, code, &mark, "function", NULL, "%s", fault);
  g_autofree GraphNameSpec *in = read_names(reader, inputs, scope), *out = read_names(reader, outputs, scope);
  spec.inputs = in;
  spec.outputs = out;
  spec.attributes = attributes;
  graph_builder_close_node(reader->builder, &spec);
}

void onnx_read_nodes(OnnxReader *reader, OnnxValues nodes, const OnnxScope *scope)
{
  for (unsigned i = 0; i < nodes.n; i++) {
    const OnnxMessage *node = nodes.items[i].message, *function = find_function(reader, node);
    if (reader->n_nodes++ == MAX_NODES) refuse_size(reader, node);
    if (reader->n_nodes > MAX_NODES) return;
    ErrorCode code = ERROR_INPUT;
    g_autofree char *fault = function ? refuse_call(reader, function, scope, &code) : NULL;
    if (function && !fault)
      read_call(reader, node, function, scope);
    else if (function ||
             (!read_constant(reader, node, scope) && !read_constant_of_shape(reader, node, scope)))
      read_node(reader, node, scope, fault, code);
  }
}
