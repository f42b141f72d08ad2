/* Graphs that attributes hold: their scopes, and what they take from around them. */
#include "generator/front/private.h"
#include <string.h>

void graph_builder_open_body(GraphBuilder *b)
{
  GraphBody *body = arena_new_object(b->graph->arena, GraphBody);
  *body = (GraphBody){.outer = b->body,
                      .tensors = g_hash_table_new(g_str_hash, g_str_equal),
                      .inputs = g_ptr_array_new(),
                      .constants = g_ptr_array_new(),
                      .results = g_ptr_array_new(),
                      .nodes = g_ptr_array_new(),
                      .outputs = g_ptr_array_new(),
                      .captured = g_ptr_array_new(),
                      .wanted = g_array_new(FALSE, TRUE, sizeof(BuilderOutput))};
  builder_open_nodes(&body->read);
  b->body = body;
}

void graph_builder_body_input(GraphBuilder *b, const char *name, const Mark *mark)
{
  GraphTensor *tensor = graph_tensor_new(b->graph, name, TENSOR_COMPUTED, *mark);
  if (!*name) graph_builder_report(b, ERROR_INPUT, mark, "bad-name", NULL, "a tensor needs a name");
  builder_define(b, tensor, b->body->inputs);
}

const GraphBody *graph_builder_close_body(GraphBuilder *b)
{
  GraphBody *body = b->body;
  b->body = body->outer;
  g_ptr_array_add(b->bodies, body);
  return body;
}

void builder_free_body(void *memory)
{
  const GraphBody *body = memory;
  GPtrArray *const lists[] = {body->inputs, body->constants, body->results,
                              body->nodes,  body->outputs,   body->captured};
  for (unsigned i = 0; i < G_N_ELEMENTS(lists); i++)
    g_ptr_array_unref(lists[i]);
  builder_free_nodes(&body->read);
  g_array_unref(body->wanted);
  g_hash_table_unref(body->tensors);
}

/* ---- what they take from around them ---- */

static void capture(GraphBody *body, GHashTable *known, GraphTensor *tensor)
{
  if (tensor && g_hash_table_add(known, tensor)) g_ptr_array_add(body->captured, tensor);
}

/* Every tensor that neither the body's inputs nor its nodes are; its own constants too, so that somebody reads them. */
static void capture_tensors(GraphBody *body)
{
  g_autoptr(GHashTable) known = g_hash_table_new(NULL, NULL);
  for (unsigned i = 0; i < body->inputs->len; i++)
    g_hash_table_add(known, body->inputs->pdata[i]);
  for (unsigned i = 0; i < body->nodes->len; i++) {
    const GraphNode *node = body->nodes->pdata[i];
    for (unsigned j = 0; j < node->n_outputs; j++)
      g_hash_table_add(known, node->outputs[j]);
  }
  for (unsigned i = 0; i < body->nodes->len; i++) {
    const GraphNode *node = body->nodes->pdata[i];
    for (unsigned j = 0; j < node->n_inputs; j++)
      capture(body, known, node->inputs[j]);
  }
  for (unsigned i = 0; i < body->outputs->len; i++)
    capture(body, known, body->outputs->pdata[i]);
}

static void link_outputs(GraphBuilder *b, GraphBody *body)
{
  for (unsigned i = 0; i < body->wanted->len; i++) {
    const BuilderOutput *output = &g_array_index(body->wanted, BuilderOutput, i);
    GraphTensor *tensor = builder_find(b, body, output->name);
    g_ptr_array_add(body->outputs, tensor);
    if (tensor) continue;
    body->faulty = true;
    builder_report_undefined(b, body, output->name, &output->mark);
  }
}

static void link_body(GraphBuilder *b, GraphBody *body)
{
  bool failed = b->failed;
  b->failed = false;
  body->faulty = body->read.formed->len < body->read.all->len;
  builder_link_nodes(b, &body->read, body, body->nodes);
  link_outputs(b, body);
  body->faulty = body->faulty || b->failed;
  b->failed = b->failed || failed;
  if (!body->faulty) capture_tensors(body);
}

void builder_link_bodies(GraphBuilder *b)
{
  /* Those within were closed before. */
  for (unsigned i = 0; i < b->bodies->len; i++)
    link_body(b, b->bodies->pdata[i]);
}

void builder_take_constants(GraphBuilder *b)
{
  for (unsigned i = 0; i < b->bodies->len; i++) {
    const GraphBody *body = b->bodies->pdata[i];
    for (unsigned j = 0; j < body->constants->len; j++) {
      GraphTensor *constant = body->constants->pdata[j];
      constant->name = builder_free_name(b, constant->name, ".");
      if (constant->type != TYPE_UNKNOWN) graph_row_major(b->graph->arena, constant);
      builder_define(b, constant, b->constants);
      graph_know_integers(b->graph->arena, constant);
    }
  }
}
