#include "generator/front/expand_body.h"

/* Where what a body captured stands among its node's inputs. */
static unsigned first_captured(const GraphNode *node, const GraphBody *body)
{
  unsigned first = node->n_inputs - node->n_captured;
  for (unsigned i = 0; node->attributes[i].body != body; i++)
    if (node->attributes[i].body) first += node->attributes[i].body->captured->len;
  return first;
}

static bool check_number(Expansion *x, const char *attribute, const char *what, unsigned has, unsigned wants)
{
  if (has != wants)
    expand_refuse_attribute(x, ERROR_INPUT, attribute, NULL, "the graph `%s` of this %s has %u %s, not %u",
                            attribute, expand_written(x)->op->name, wants, what, has);
  return has == wants;
}

bool expand_open_body(ExpandBody *b, Expansion *x, const char *attribute, unsigned n_inputs,
                      unsigned n_outputs)
{
  const GraphNode *node = expand_written(x);
  const GraphBody *body = graph_attribute(node, attribute)->body;
  *b = (ExpandBody){.x = x, .body = body};
  if (body->faulty) {
    expand_fail(x);
    return false;
  }
  if (!check_number(x, attribute, "inputs", body->inputs->len, n_inputs) ||
      !check_number(x, attribute, "outputs", body->outputs->len, n_outputs))
    return false;
  b->fixed = g_hash_table_new(NULL, NULL);
  b->placed = g_new0(bool, body->nodes->len + 1);
  unsigned first = first_captured(node, body);
  for (unsigned i = 0; i < body->captured->len; i++)
    g_hash_table_insert(b->fixed, body->captured->pdata[i], node->inputs[first + i]);
  return true;
}

void expand_close_body(ExpandBody *b)
{
  if (b->fixed) g_hash_table_unref(b->fixed);
  g_free(b->placed);
}

static GraphTensor *in_place_of(const ExpandBody *b, GHashTable *time, GraphTensor *tensor)
{
  GraphTensor *found = time && tensor ? g_hash_table_lookup(time, tensor) : NULL;
  return found || !tensor ? found : g_hash_table_lookup(b->fixed, tensor);
}

static void copy_node(const ExpandBody *b, GHashTable *time, const GraphNode *node)
{
  g_autofree GraphTensor **inputs = g_new0(GraphTensor *, node->n_inputs + 1),
                         **outputs = g_new0(GraphTensor *, node->n_outputs + 1);
  for (unsigned i = 0; i < node->n_inputs; i++)
    inputs[i] = in_place_of(b, time, node->inputs[i]);
  if (!expand_copy(b->x, node, inputs, outputs)) return;
  for (unsigned i = 0; i < node->n_outputs; i++)
    if (node->outputs[i]) g_hash_table_insert(time ? time : b->fixed, node->outputs[i], outputs[i]);
}

static bool is_fixed(const ExpandBody *b, const GraphNode *node)
{
  OperatorClass class = node->op->class_;
  if (class == OPERATOR_VIEW || class == OPERATOR_ELEMENTWISE) return false;
  for (unsigned i = 0; i < node->n_inputs; i++)
    if (node->inputs[i] && !in_place_of(b, NULL, node->inputs[i])) return false;
  return true;
}

void expand_body_once(ExpandBody *b)
{
  for (unsigned i = 0; i < b->body->nodes->len && !expand_failed(b->x); i++) {
    const GraphNode *node = b->body->nodes->pdata[i];
    b->placed[i] = is_fixed(b, node);
    if (b->placed[i]) copy_node(b, NULL, node);
  }
}

void expand_body(ExpandBody *b, GraphTensor *const *inputs, GraphTensor **outputs)
{
  const GraphBody *body = b->body;
  g_autoptr(GHashTable) time = g_hash_table_new(NULL, NULL);
  for (unsigned i = 0; i < body->inputs->len; i++)
    g_hash_table_insert(time, body->inputs->pdata[i], inputs[i]);
  for (unsigned i = 0; i < body->nodes->len && !expand_failed(b->x); i++)
    if (!b->placed[i]) copy_node(b, time, body->nodes->pdata[i]);
  for (unsigned i = 0; i < body->outputs->len; i++)
    outputs[i] = in_place_of(b, time, body->outputs->pdata[i]);
}

/* ---- what must be known ---- */

static bool must_know(const GraphBody *body, GHashTable *varying);

/* A graph within varies by what its node is given. */
static bool must_know_within(const GraphNode *node, bool varies, GHashTable *varying)
{
  for (unsigned i = 0; node->n_captured && i < node->op->n_attributes; i++) {
    const GraphBody *body = node->attributes[i].body;
    for (unsigned j = 0; body && varies && j < body->inputs->len; j++)
      g_hash_table_add(varying, body->inputs->pdata[j]);
    if (body && must_know(body, varying)) return true;
  }
  return false;
}

static bool must_know(const GraphBody *body, GHashTable *varying)
{
  for (unsigned i = 0; i < body->nodes->len; i++) {
    const GraphNode *node = body->nodes->pdata[i];
    bool varies = false;
    for (unsigned j = 0; j < node->n_inputs; j++) {
      if (!node->inputs[j] || !g_hash_table_contains(varying, node->inputs[j])) continue;
      if (infer_must_know(node, j)) return true;
      varies = true;
    }
    if (must_know_within(node, varies, varying)) return true;
    bool extents = node->op->id == ONNX_Shape || node->op->id == ONNX_Size; /* which do not vary */
    for (unsigned j = 0; varies && !extents && j < node->n_outputs; j++)
      g_hash_table_add(varying, node->outputs[j]);
  }
  return false;
}

bool expand_body_must_know(const ExpandBody *b, const bool *varies)
{
  g_autoptr(GHashTable) varying = g_hash_table_new(NULL, NULL);
  for (unsigned i = 0; i < b->body->inputs->len; i++)
    if (varies[i]) g_hash_table_add(varying, b->body->inputs->pdata[i]);
  return must_know(b->body, varying);
}
