/* A graph as an ONNX model. What ONNX has no place for stands in the model's metadata (`adlgen.dim.NAME`, `adlgen.align.INPUT`,
 * `adlgen.in_place.OUTPUT`), which the reader of models knows. */
#include "cli/emit_graph.h"
#include "execute/evaluate.h"
#include "generator/front/onnx.h"
#include "generator/front/onnx_model.h"
#include <errno.h>
#include <glib/gstdio.h>
#include <string.h>

#define MODEL_FILE  "model.onnx"
#define DATA_FILE   "model.data"
#define PRODUCER    2    /* the field producer_name of a model, for people */
#define DATA_ALIGN  64   /* bytes */
#define SHORT_BYTES 1024 /* of constants in the model itself */
/* Of the format: the one in which there are functions and integers of 4 bits, and the one that knows every type. */
#define IR_VERSION        10
#define IR_VERSION_NEWEST 13

/* ---- the wire format ---- */

typedef enum { WIRE_VARINT = 0, WIRE_LENGTH = 2, WIRE_FOUR = 5 } WireType;

static void put_varint(GByteArray *to, uint64_t value)
{
  for (;;) {
    uint8_t byte = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
    g_byte_array_append(to, &byte, 1);
    if (value <= 0x7f) return;
    value >>= 7;
  }
}

static void put_key(GByteArray *to, unsigned field, WireType type)
{
  put_varint(to, (uint64_t)field << 3 | type);
}

static void put_integer(GByteArray *to, unsigned field, int64_t value)
{
  put_key(to, field, WIRE_VARINT);
  put_varint(to, (uint64_t)value);
}

static void put_float(GByteArray *to, unsigned field, double value)
{
  float number = (float)value;
  uint32_t bits;
  memcpy(&bits, &number, sizeof bits);
  const uint8_t bytes[] = {(uint8_t)bits, (uint8_t)(bits >> 8), (uint8_t)(bits >> 16), (uint8_t)(bits >> 24)};
  put_key(to, field, WIRE_FOUR);
  g_byte_array_append(to, bytes, sizeof bytes);
}

static void put_bytes(GByteArray *to, unsigned field, const void *bytes, size_t n)
{
  put_key(to, field, WIRE_LENGTH);
  put_varint(to, n);
  for (size_t done = 0; done < n;) { /* a byte array takes less than 4 GiB at once */
    guint part = (guint)MIN(n - done, 1u << 30);
    g_byte_array_append(to, (const uint8_t *)bytes + done, part);
    done += part;
  }
}

static void put_text(GByteArray *to, unsigned field, const char *text)
{
  put_bytes(to, field, text, strlen(text));
}

/* Takes the message. */
static void put_message(GByteArray *to, unsigned field, GByteArray *message)
{
  put_bytes(to, field, message->data, message->len);
  g_byte_array_unref(message);
}

static void put_entry(GByteArray *to, unsigned field, const char *key, const char *value)
{
  GByteArray *entry = g_byte_array_new();
  put_text(entry, ONNX_NUMBER_Entry_key, key);
  put_text(entry, ONNX_NUMBER_Entry_value, value);
  put_message(to, field, entry);
}

/* ---- the model ---- */

#define KNOWN ".known" /* what a reader adds to the name of a computed tensor whose values it knows */

typedef struct Emission {
  const Graph *graph;
  Output *output;
  GByteArray *model, *nodes, *constants;
  FILE *data;  /* NULL: no constant is there yet */
  uint64_t at; /* bytes in it */
  unsigned n_values, opset;
  GHashTable *renamed; /* GraphTensor -> its name in the model, owned, of those that have another one there */
  GHashTable
      *extents; /* text of an expression -> name of the tensor of one element that has it; both owned */
  GError **error;
} Emission;

static GByteArray *type_of(const GraphTensor *tensor)
{
  GByteArray *shape = g_byte_array_new(), *of = g_byte_array_new(), *type = g_byte_array_new();
  for (unsigned d = 0; d < tensor->rank; d++) {
    GByteArray *dimension = g_byte_array_new();
    int64_t extent;
    g_autofree char *text = symbolic_text(tensor->shape[d]);
    if (symbolic_is_constant(tensor->shape[d], &extent))
      put_integer(dimension, ONNX_NUMBER_Dimension_dim_value, extent);
    else
      put_text(dimension, ONNX_NUMBER_Dimension_dim_param, text);
    put_message(shape, ONNX_NUMBER_Shape_dim, dimension);
  }
  put_integer(of, ONNX_NUMBER_TensorType_elem_type, onnx_type_number(tensor->type));
  put_message(of, ONNX_NUMBER_TensorType_shape, shape);
  put_message(type, ONNX_NUMBER_Type_tensor_type, of);
  return type;
}

static void put_value(GByteArray *graph, unsigned field, const GraphTensor *tensor)
{
  GByteArray *value = g_byte_array_new();
  put_text(value, ONNX_NUMBER_ValueInfo_name, tensor->name);
  put_message(value, ONNX_NUMBER_ValueInfo_type, type_of(tensor));
  put_message(graph, field, value);
}

/* ---- constants ---- */

static GByteArray *tensor_new_message(const char *name, NumberType type, const int64_t *shape, unsigned rank)
{
  GByteArray *tensor = g_byte_array_new();
  for (unsigned d = 0; d < rank; d++)
    put_integer(tensor, ONNX_NUMBER_Tensor_dims, shape[d]);
  put_integer(tensor, ONNX_NUMBER_Tensor_data_type, onnx_type_number(type));
  put_text(tensor, ONNX_NUMBER_Tensor_name, name);
  return tensor;
}

static void put_integers(Emission *e, const char *name, const int64_t *values, int64_t n, unsigned rank)
{
  GByteArray *tensor = tensor_new_message(name, NUMBER_S64, &n, rank);
  for (int64_t i = 0; i < n; i++)
    put_integer(tensor, ONNX_NUMBER_Tensor_int64_data, values[i]);
  put_message(e->constants, ONNX_NUMBER_Graph_initializer, tensor);
}

static bool write_data(Emission *e, const Tensor *constant)
{
  static const uint8_t gap[DATA_ALIGN];
  uint64_t before = (DATA_ALIGN - e->at % DATA_ALIGN) % DATA_ALIGN;
  if (!e->data) {
    g_autofree char *path = output_path(e->output, DATA_FILE, e->error);
    if (!path) return false;
    e->data = g_fopen(path, "wb");
  }
  bool ok = e->data && fwrite(gap, 1, before, e->data) == before &&
            fwrite(constant->data, 1, constant->bytes, e->data) == constant->bytes;
  e->at += before;
  if (!ok)
    error_set(e->error, ERROR_INPUT, NULL, "unwritable", NULL, "cannot write %s: %s", DATA_FILE,
              g_strerror(errno));
  return ok;
}

static bool put_constant(Emission *e, unsigned index)
{
  const GraphTensor *constant = e->graph->constants[index];
  g_autoptr(Tensor) value = evaluate_constant(e->graph, index, e->error);
  if (!value) return false;
  GByteArray *tensor = tensor_new_message(constant->name, constant->type, value->shape, value->rank);
  if (value->bytes <= SHORT_BYTES) {
    put_bytes(tensor, ONNX_NUMBER_Tensor_raw_data, value->data, value->bytes);
  } else {
    if (!write_data(e, value)) {
      g_byte_array_unref(tensor);
      return false;
    }
    g_autofree char *offset = g_strdup_printf("%" G_GUINT64_FORMAT, e->at),
                    *length = g_strdup_printf("%zu", value->bytes);
    put_entry(tensor, ONNX_NUMBER_Tensor_external_data, "location", DATA_FILE);
    put_entry(tensor, ONNX_NUMBER_Tensor_external_data, "offset", offset);
    put_entry(tensor, ONNX_NUMBER_Tensor_external_data, "length", length);
    put_integer(tensor, ONNX_NUMBER_Tensor_data_location, 1);
    e->at += value->bytes;
  }
  put_message(e->constants, ONNX_NUMBER_Graph_initializer, tensor);
  return true;
}

/* ---- nodes ---- */

enum {
  ATTRIBUTE_TYPE_FLOAT = 1,
  ATTRIBUTE_TYPE_INT = 2,
  ATTRIBUTE_TYPE_STRING = 3,
  ATTRIBUTE_TYPE_FLOATS = 6,
  ATTRIBUTE_TYPE_INTS = 7,
  ATTRIBUTE_TYPE_STRINGS = 8
};

static void put_attribute(GByteArray *node, const OperatorAttribute *row, const GraphAttribute *attribute)
{
  if (row->kind == ATTRIBUTE_GRAPH) return; /* of functions alone, which reading has expanded */
  GByteArray *to = g_byte_array_new();
  int64_t type = 0;
  put_text(to, ONNX_NUMBER_Attribute_name, row->name);
  switch (row->kind) {
  case ATTRIBUTE_INT:
    put_integer(to, ONNX_NUMBER_Attribute_i, attribute->integer);
    type = ATTRIBUTE_TYPE_INT;
    break;
  case ATTRIBUTE_TYPE:
    put_integer(to, ONNX_NUMBER_Attribute_i, onnx_type_number((NumberType)attribute->integer));
    type = ATTRIBUTE_TYPE_INT;
    break;
  case ATTRIBUTE_FLOAT:
    put_float(to, ONNX_NUMBER_Attribute_f, attribute->number);
    type = ATTRIBUTE_TYPE_FLOAT;
    break;
  case ATTRIBUTE_STRING:
    put_text(to, ONNX_NUMBER_Attribute_s, attribute->text);
    type = ATTRIBUTE_TYPE_STRING;
    break;
  case ATTRIBUTE_INTS:
    for (unsigned i = 0; i < attribute->n; i++)
      put_integer(to, ONNX_NUMBER_Attribute_ints, attribute->integers[i]);
    type = ATTRIBUTE_TYPE_INTS;
    break;
  case ATTRIBUTE_FLOATS:
    for (unsigned i = 0; i < attribute->n; i++)
      put_float(to, ONNX_NUMBER_Attribute_floats, attribute->numbers[i]);
    type = ATTRIBUTE_TYPE_FLOATS;
    break;
  case ATTRIBUTE_STRINGS:
    for (unsigned i = 0; i < attribute->n; i++)
      put_text(to, ONNX_NUMBER_Attribute_strings, attribute->texts[i]);
    type = ATTRIBUTE_TYPE_STRINGS;
    break;
  case ATTRIBUTE_GRAPH: break;
  }
  put_integer(to, ONNX_NUMBER_Attribute_type, type);
  put_message(node, ONNX_NUMBER_Node_attribute, to);
}

static const char *name_of(const Emission *e, const GraphTensor *tensor)
{
  const char *other = g_hash_table_lookup(e->renamed, tensor);
  return other ? other : tensor->name;
}

static void put_names(const Emission *e, GByteArray *to, unsigned field, GraphTensor *const *tensors,
                      unsigned n)
{
  while (n && !tensors[n - 1])
    n--;
  for (unsigned i = 0; i < n; i++)
    put_text(to, field, tensors[i] ? name_of(e, tensors[i]) : "");
}

static void put_opset(GByteArray *to, unsigned field, const char *domain, int64_t version)
{
  GByteArray *opset = g_byte_array_new();
  put_text(opset, ONNX_NUMBER_Opset_domain, domain);
  put_integer(opset, ONNX_NUMBER_Opset_version, version);
  put_message(to, field, opset);
}

/* ---- the opset ---- */

static bool has_default(const OperatorAttribute *row, const GraphAttribute *attribute)
{
  switch (row->kind) {
  case ATTRIBUTE_INT:
  case ATTRIBUTE_TYPE: return attribute->integer == row->integer;
  case ATTRIBUTE_FLOAT: return attribute->number == row->number;
  case ATTRIBUTE_STRING: return !g_strcmp0(attribute->text, row->text);
  case ATTRIBUTE_INTS:
  case ATTRIBUTE_FLOATS:
  case ATTRIBUTE_STRINGS:
  case ATTRIBUTE_GRAPH: break;
  }
  return false;
}

/* ONNX has the attribute in other opsets alone. */
static bool is_foreign(const GraphNode *node, unsigned attribute, unsigned opset)
{
  const OnnxOperator *onnx = onnx_find(node->op->domain, node->op->name, opset);
  const char *name = node->op->attributes[attribute].name;
  return onnx && onnx_attribute_since(onnx, name) && !onnx_attribute(onnx, name, NULL);
}

/* Bodies of functions give attributes that older opsets lack: left out where they hold their defaults. */
static bool is_written(const GraphNode *node, unsigned attribute, unsigned opset)
{
  return emit_has_attribute(node, attribute) &&
         !(is_foreign(node, attribute, opset) &&
           has_default(&node->op->attributes[attribute], &node->attributes[attribute]));
}

/* Is it the same operator there, with what it is given? */
static bool fits(const GraphNode *node, unsigned opset)
{
  const Operator *newer;
  if (*node->op->domain) return true;
  if (operator_find("", node->op->name, opset, &newer) != node->op) return false;
  for (unsigned i = 0; i < node->op->n_attributes; i++)
    if (is_written(node, i, opset) && is_foreign(node, i, opset)) return false;
  return true;
}

static const GraphNode *first_misfit(const Graph *graph, unsigned opset)
{
  for (unsigned i = 0; i < graph->n_nodes; i++)
    if (!fits(graph->nodes[i], opset)) return graph->nodes[i];
  return NULL;
}

/* A model is of one opset: the graph's, or the next that has all nodes, as functions' bodies are of newer ones. 0: there is none. */
static unsigned opset_for(const Graph *graph)
{
  unsigned opset = graph->opset;
  while (opset <= onnx_opset() && first_misfit(graph, opset))
    opset++;
  return opset <= onnx_opset() ? opset : 0;
}

static GByteArray *node_of(const Emission *e, const GraphNode *node)
{
  GByteArray *to = g_byte_array_new();
  put_names(e, to, ONNX_NUMBER_Node_input, node->inputs, node->n_inputs);
  put_names(e, to, ONNX_NUMBER_Node_output, node->outputs, node->n_outputs);
  /* Nodes of a function's body have the name of the node that stood there, and models want names that differ. */
  if (*node->name && !node->written) put_text(to, ONNX_NUMBER_Node_name, node->name);
  put_text(to, ONNX_NUMBER_Node_op_type, node->op->name);
  if (*node->op->domain) put_text(to, ONNX_NUMBER_Node_domain, node->op->domain);
  for (unsigned i = 0; i < node->op->n_attributes; i++) {
    if (is_written(node, i, e->opset)) put_attribute(to, &node->op->attributes[i], &node->attributes[i]);
  }
  return to;
}

/* ---- integers that follow from extents: nodes compute them, for readers to know them ---- */

static char *new_name(Emission *e)
{
  return g_strdup_printf("adlgen.extent.%u", ++e->n_values);
}

static const OperatorAttribute axis_row = {.name = "axis", .kind = ATTRIBUTE_INT},
                               to_row = {.name = "to", .kind = ATTRIBUTE_TYPE};

/* Takes a node of the model's opset that has its inputs; row: its attribute, or NULL. */
static void put_node(Emission *e, GByteArray *node, const char *op, const char *output,
                     const OperatorAttribute *row, int64_t value)
{
  put_text(node, ONNX_NUMBER_Node_output, output);
  put_text(node, ONNX_NUMBER_Node_op_type, op);
  if (row) put_attribute(node, row, &(GraphAttribute){.given = true, .integer = value});
  put_message(e->nodes, ONNX_NUMBER_Graph_node, node);
}

/* Of one or two (b not NULL) inputs. */
static void put_plain(Emission *e, const char *op, const char *a, const char *b, const char *output,
                      const OperatorAttribute *row, int64_t value)
{
  GByteArray *node = g_byte_array_new();
  put_text(node, ONNX_NUMBER_Node_input, a);
  if (b) put_text(node, ONNX_NUMBER_Node_input, b);
  put_node(e, node, op, output, row, value);
}

static bool put_symbol(Emission *e, const char *symbol, const char *name)
{
  for (unsigned i = 0; i < e->graph->n_inputs; i++) {
    const GraphTensor *input = e->graph->inputs[i];
    for (unsigned d = 0; d < input->rank; d++) {
      if (input->shape[d]->kind != SYMBOLIC_SYMBOL || strcmp(input->shape[d]->name, symbol) != 0) continue;
      g_autofree char *shape = new_name(e), *place = new_name(e);
      const int64_t at = d;
      put_integers(e, place, &at, 1, 1);
      put_plain(e, "Shape", input->name, NULL, shape, NULL, 0);
      put_plain(e, "Gather", shape, place, name, &axis_row, 0);
      return true;
    }
  }
  error_set(e->error, ERROR_UNSUPPORTED, NULL, "symbol", "bind it: --dim",
            "no input has the extent %s alone, and a model has no other place for it", symbol);
  return false;
}

/* The operator of a sum or product; NULL: ONNX has none of integers. Extents are not negative, so that quotients round alike. */
static const char *operator_for(SymbolicKind kind)
{
  switch (kind) {
  case SYMBOLIC_ADD: return "Add";
  case SYMBOLIC_SUB: return "Sub";
  case SYMBOLIC_MUL: return "Mul";
  case SYMBOLIC_DIV: return "Div";
  case SYMBOLIC_MOD: return "Mod";
  case SYMBOLIC_MIN: return "Min";
  case SYMBOLIC_MAX: return "Max";
  default: return NULL;
  }
}

/* Name of the tensor [1] with the value; NULL: reported. */
static const char *put_extent(Emission *e, const Symbolic *extent)
{
  g_autofree char *text = symbolic_text(extent);
  const char *known = g_hash_table_lookup(e->extents, text);
  if (known) return known;
  g_autofree char *name = new_name(e);
  const char *op = operator_for(extent->kind);
  int64_t value;
  if (symbolic_is_constant(extent, &value)) {
    put_integers(e, name, &value, 1, 1);
  } else if (extent->kind == SYMBOLIC_SYMBOL) {
    if (!put_symbol(e, extent->name, name)) return NULL;
  } else if (op) {
    const char *a = put_extent(e, extent->a), *b = a ? put_extent(e, extent->b) : NULL;
    if (!b) return NULL;
    put_plain(e, op, a, b, name, NULL, 0);
  } else {
    error_set(e->error, ERROR_UNSUPPORTED, NULL, "symbol", "bind its symbols: --dim",
              "a model cannot say the extent %s", text);
    return NULL;
  }
  const char *kept = name;
  g_hash_table_insert(e->extents, g_steal_pointer(&text), g_steal_pointer(&name));
  return kept;
}

/* The reader calls it as it is called here again, if that name is free. */
static const char *name_known(Emission *e, const GraphTensor *constant)
{
  g_autofree char *name = g_strdup(constant->name);
  if (!g_str_has_suffix(name, KNOWN)) return constant->name;
  name[strlen(name) - strlen(KNOWN)] = 0;
  if (graph_tensor(e->graph, name)) return constant->name;
  const char *kept = name;
  g_hash_table_insert(e->renamed, (GraphTensor *)constant, g_steal_pointer(&name));
  return kept;
}

static bool put_known(Emission *e, const GraphTensor *constant)
{
  g_autofree char *all = new_name(e), *whole = new_name(e), *shape = new_name(e);
  const char *name = name_known(e, constant);
  bool wide = constant->type == NUMBER_S64, ok = true;
  int64_t extents[GRAPH_MAX_RANK] = {0};
  for (unsigned d = 0; d < constant->rank; d++)
    symbolic_is_constant(constant->shape[d], &extents[d]);
  if (!constant->n_elements) {
    put_message(e->constants, ONNX_NUMBER_Graph_initializer,
                tensor_new_message(name, constant->type, extents, constant->rank));
    return true;
  }
  GByteArray *parts = g_byte_array_new();
  for (size_t i = 0; ok && i < constant->n_elements; i++) {
    const char *part = put_extent(e, constant->values[i]);
    if (part) put_text(parts, ONNX_NUMBER_Node_input, part);
    ok = part != NULL;
  }
  put_node(e, parts, "Concat", all, &axis_row, 0);
  put_integers(e, shape, extents, constant->rank, 1);
  put_plain(e, "Reshape", all, shape, wide ? name : whole, NULL, 0);
  if (!wide) put_plain(e, "Cast", whole, NULL, name, &to_row, constant->type);
  return ok;
}

/* ---- the whole ---- */

static void put_metadata(Emission *e)
{
  const Graph *graph = e->graph;
  for (unsigned i = 0; i < graph->n_dims; i++) {
    const GraphDim *dim = &graph->dims[i];
    if (dim->bound) continue;
    g_autofree char *key = g_strconcat("adlgen.dim.", dim->name, NULL);
    g_autofree char *value = g_strdup_printf("%" G_GINT64_FORMAT " %" G_GINT64_FORMAT " %" G_GINT64_FORMAT,
                                             dim->min, dim->max, dim->multiple);
    put_entry(e->model, ONNX_NUMBER_Model_metadata_props, key, value);
  }
  for (unsigned i = 0; i < graph->n_inputs; i++) {
    g_autofree char *key = g_strconcat("adlgen.align.", graph->inputs[i]->name, NULL);
    g_autofree char *value = g_strdup_printf("%u", graph->inputs[i]->align);
    put_entry(e->model, ONNX_NUMBER_Model_metadata_props, key, value);
  }
  for (unsigned i = 0; i < graph->n_outputs; i++) {
    if (!graph->outputs[i]->memory) continue;
    g_autofree char *key = g_strconcat("adlgen.in_place.", graph->outputs[i]->name, NULL);
    put_entry(e->model, ONNX_NUMBER_Model_metadata_props, key, graph->outputs[i]->memory->name);
  }
}

static bool can_say(const Graph *graph, unsigned opset, GError **error)
{
  if (!opset) {
    const GraphNode *node = first_misfit(graph, onnx_opset());
    error_set(error, ERROR_UNSUPPORTED, &node->mark, "onnx", "--emit graph has an opset for each node",
              "no opset from %u on has all nodes: %s is one of opset %u", graph->opset, node->op->name,
              node->op->since);
    return false;
  }
  if (!emit_without_loops(graph, "--emit onnx does not write", error)) return false;
  for (unsigned i = 0; i < graph->n_tensors; i++) {
    const GraphTensor *tensor = graph->tensors[i];
    bool strided = tensor->kind == TENSOR_INPUT && !graph_is_row_major(tensor);
    if (tensor->type != NUMBER_TF32 && !strided) continue;
    error_set(error, ERROR_UNSUPPORTED, &tensor->mark, "onnx", "--emit graph has both",
              strided ? "`%s` has strides, which a model cannot say"
                      : "`%s` is tf32, a type that ONNX does not have",
              tensor->name);
    return false;
  }
  return true;
}

static int64_t ir_version(const Graph *graph)
{
  for (unsigned i = 0; i < graph->n_tensors; i++)
    if (graph->tensors[i]->type == NUMBER_E2M1 || graph->tensors[i]->type == NUMBER_E8M0)
      return IR_VERSION_NEWEST;
  return IR_VERSION;
}

static GByteArray *graph_of(Emission *e)
{
  const Graph *graph = e->graph;
  GByteArray *to = g_byte_array_new();
  g_byte_array_append(to, e->nodes->data, e->nodes->len);
  put_text(to, ONNX_NUMBER_Graph_name, graph->name);
  g_byte_array_append(to, e->constants->data, e->constants->len);
  for (unsigned i = 0; i < graph->n_inputs; i++)
    put_value(to, ONNX_NUMBER_Graph_input, graph->inputs[i]);
  for (unsigned i = 0; i < graph->n_outputs; i++)
    put_value(to, ONNX_NUMBER_Graph_output, graph->outputs[i]);
  return to;
}

static bool put_all(Emission *e)
{
  const Graph *graph = e->graph;
  for (unsigned i = 0; i < graph->n_constants; i++) {
    const GraphTensor *constant = graph->constants[i];
    bool known = constant->values && !constant->data && !constant->file;
    if (constant->n_consumers && !(known ? put_known(e, constant) : put_constant(e, i))) return false;
  }
  for (unsigned i = 0; i < graph->n_nodes; i++)
    put_message(e->nodes, ONNX_NUMBER_Graph_node, node_of(e, graph->nodes[i]));
  put_integer(e->model, ONNX_NUMBER_Model_ir_version, ir_version(graph));
  put_text(e->model, PRODUCER, "adlgen");
  put_opset(e->model, ONNX_NUMBER_Model_opset_import, "", e->opset);
  static const char *const domains[] = {"adlgen", "com.microsoft"};
  for (unsigned i = 0; i < G_N_ELEMENTS(domains); i++)
    put_opset(e->model, ONNX_NUMBER_Model_opset_import, domains[i], 1);
  put_metadata(e);
  put_message(e->model, ONNX_NUMBER_Model_graph, graph_of(e));
  return output_write(e->output, MODEL_FILE, e->model->data, e->model->len, e->error);
}

bool emit_onnx(const Graph *graph, Output *output, GError **error)
{
  Emission e = {.graph = graph,
                .output = output,
                .model = g_byte_array_new(),
                .nodes = g_byte_array_new(),
                .constants = g_byte_array_new(),
                .renamed = g_hash_table_new_full(NULL, NULL, NULL, g_free),
                .extents = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free),
                .error = error};
  e.opset = opset_for(graph);
  bool ok = can_say(graph, e.opset, error) && put_all(&e);
  if (e.data && fclose(e.data) && ok) {
    error_set(error, ERROR_INPUT, NULL, "unwritable", NULL, "cannot write %s: %s", DATA_FILE,
              g_strerror(errno));
    ok = false;
  }
  g_byte_array_unref(e.model);
  g_byte_array_unref(e.nodes);
  g_byte_array_unref(e.constants);
  g_hash_table_unref(e.renamed);
  g_hash_table_unref(e.extents);
  return ok;
}
