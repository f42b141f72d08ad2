#include "generator/front/cut.h"
#include "generator/front/private.h"
#include <string.h>

bool graph_has_loops(const Graph *graph)
{
  for (unsigned i = 0; i < graph->n_nodes; i++)
    if (graph->nodes[i]->loop) return true;
  return false;
}

static bool is_op(const GraphNode *node, OperatorId id)
{
  return node && node->op->id == id;
}

const GraphLoop *graph_state_loop(const GraphTensor *state)
{
  return state->producer->loop;
}

const Symbolic *graph_step_bytes(Arena *arena, const GraphTensor *tensor)
{
  return symbolic_mul(arena, tensor->strides[0],
                      symbolic_constant(arena, (int64_t)number_bytes_of(tensor->type, 1)));
}

unsigned graph_step_align(const Graph *graph, const GraphTensor *tensor)
{
  g_autoptr(Arena) arena = arena_new();
  const Symbolic *bytes = graph_step_bytes(arena, tensor);
  unsigned align = GRAPH_PART_ALIGN;
  while (align > 1 && !symbolic_divisible(bytes, align, &graph->facts))
    align /= 2;
  return align;
}

/* ---- which part ---- */

typedef struct {
  const Graph *graph;
  GPtrArray *loops; /* const GraphLoop * */
  unsigned *levels; /* by nodes: of what lies between loops; those of a loop have its own */
  unsigned most;
} Levels;

/* The level from which on a tensor can be read. */
static unsigned level_of(const Levels *l, const GraphTensor *tensor, const GraphLoop *reader)
{
  const GraphNode *producer = tensor ? tensor->producer : NULL;
  if (!producer || (reader && producer->loop == reader)) return 0;
  return l->levels[producer->index] + (producer->loop ? 1 : 0);
}

/* Nodes of a loop have one level, the highest that one of them needs. */
static bool raise_levels(Levels *l)
{
  const Graph *graph = l->graph;
  bool changed = false;
  g_autofree unsigned *of_loops = g_new0(unsigned, l->loops->len + 1);
  for (unsigned i = 0; i < graph->n_nodes; i++) {
    const GraphNode *node = graph->nodes[i];
    unsigned level = l->levels[i], index = 0;
    for (unsigned j = 0; j < node->n_inputs; j++)
      level = MAX(level, level_of(l, node->inputs[j], node->loop));
    if (node->loop && g_ptr_array_find(l->loops, node->loop, &index))
      of_loops[index] = MAX(of_loops[index], level);
    changed |= !node->loop && level != l->levels[i];
    if (!node->loop) l->levels[i] = level;
    l->most = MAX(l->most, level + 1);
  }
  for (unsigned i = 0; i < graph->n_nodes; i++) {
    unsigned index = 0;
    if (!graph->nodes[i]->loop || !g_ptr_array_find(l->loops, graph->nodes[i]->loop, &index)) continue;
    changed |= of_loops[index] != l->levels[i];
    l->levels[i] = of_loops[index];
  }
  return changed;
}

static void find_levels(Levels *l, const Graph *graph)
{
  *l = (Levels){.graph = graph, .loops = g_ptr_array_new(), .levels = g_new0(unsigned, graph->n_nodes + 1)};
  for (unsigned i = 0; i < graph->n_nodes; i++)
    if (graph->nodes[i]->loop && !g_ptr_array_find(l->loops, graph->nodes[i]->loop, NULL))
      g_ptr_array_add(l->loops, (void *)graph->nodes[i]->loop);
  while (raise_levels(l)) {
  }
}

/* ---- a part's graph ---- */

typedef struct {
  const Levels *levels;
  const Graph *whole;
  GraphPart *part;
  unsigned level;
  GHashTable *copies; /* GraphTensor of the whole -> of the part */
  GPtrArray *inputs, *constants, *nodes, *outputs;
} Cut;

static bool is_inside(const Cut *c, const GraphNode *node)
{
  return node && node->loop == c->part->loop && c->levels->levels[node->index] == c->level;
}

static GraphTensor *copy_tensor(Cut *c, const GraphTensor *of, const char *name, GraphTensorKind kind)
{
  Arena *arena = c->part->graph->arena;
  GraphTensor *copy = arena_memdup(arena, of, sizeof *of);
  copy->name = arena_strdup(arena, name);
  copy->kind = kind;
  copy->is_output = false;
  copy->blocks = NULL;
  copy->memory = NULL;
  copy->producer = NULL;
  copy->consumers = NULL;
  copy->n_consumers = 0;
  return copy;
}

static void note_tensor(Cut *c, GraphTensor *own, GraphPartRole role, const GraphTensor *of, bool reverse)
{
  const GraphPartTensor tensor = {own, role, of, reverse};
  g_array_append_val(c->part->tensors, tensor);
}

/* What is known of the address of a tensor of the whole. */
static unsigned align_of(const GraphTensor *of)
{
  return of->producer && !of->is_output ? GRAPH_PART_ALIGN : of->align;
}

static GraphTensor *add_input(Cut *c, const GraphTensor *key, GraphPartRole role, const GraphTensor *of,
                              bool reverse)
{
  GraphTensor *copy = copy_tensor(c, key, key->name, TENSOR_INPUT);
  copy->align = GRAPH_PART_ALIGN;
  copy->written = of->producer != NULL;
  if (role == GRAPH_PART_WHOLE) copy->align = align_of(of);
  if (role == GRAPH_PART_ELEMENT) {
    copy->align = MIN(align_of(of), graph_step_align(c->whole, of));
    for (unsigned d = 0; d < copy->rank; d++)
      copy->strides[d] = of->strides[d + 1];
  }
  copy->align = MAX(copy->align, (unsigned)number_bytes_of(copy->type, 1));
  g_ptr_array_add(c->inputs, copy);
  g_hash_table_insert(c->copies, (void *)key, copy);
  note_tensor(c, copy, role, of, reverse);
  return copy;
}

static const GraphBlocks *copy_blocks(const Cut *c, const GraphBlocks *blocks)
{
  if (!blocks) return NULL;
  GraphTensor *const from[] = {blocks->x, blocks->scale, blocks->zero};
  const GraphTensor *const in[] = {blocks->x_in.of, blocks->scale_in.of, blocks->zero_in.of};
  for (unsigned i = 0; i < G_N_ELEMENTS(from); i++)
    if ((from[i] && !g_hash_table_contains(c->copies, from[i])) ||
        (in[i] && !g_hash_table_contains(c->copies, in[i])))
      return NULL;
  GraphBlocks *copy = arena_memdup(c->part->graph->arena, blocks, sizeof *blocks);
  copy->x = g_hash_table_lookup(c->copies, blocks->x);
  copy->scale = g_hash_table_lookup(c->copies, blocks->scale);
  if (copy->zero) copy->zero = g_hash_table_lookup(c->copies, blocks->zero);
  if (copy->x_in.of) copy->x_in.of = g_hash_table_lookup(c->copies, blocks->x_in.of);
  if (copy->scale_in.of) copy->scale_in.of = g_hash_table_lookup(c->copies, blocks->scale_in.of);
  if (copy->zero_in.of) copy->zero_in.of = g_hash_table_lookup(c->copies, blocks->zero_in.of);
  return copy;
}

/* The part's tensor in the place of one that a node of it reads. */
static GraphTensor *operand(Cut *c, const GraphTensor *of)
{
  GraphTensor *copy = of ? g_hash_table_lookup(c->copies, of) : NULL;
  if (copy || !of) return copy;
  if (of->kind == TENSOR_CONSTANT) {
    copy = copy_tensor(c, of, of->name, TENSOR_CONSTANT);
    g_ptr_array_add(c->constants, copy);
    g_hash_table_insert(c->copies, (void *)of, copy);
    return copy;
  }
  if (is_op(of->producer, ONNX_LoopNext))
    return add_input(c, of, GRAPH_PART_LAST, of->producer->inputs[1], false);
  return add_input(c, of, GRAPH_PART_WHOLE, of, false);
}

static GraphTensor *result(Cut *c, GraphNode *node, const GraphTensor *of)
{
  GraphTensor *copy = copy_tensor(c, of, of->name, TENSOR_COMPUTED);
  copy->producer = node;
  copy->blocks = copy_blocks(c, of->blocks);
  g_hash_table_insert(c->copies, (void *)of, copy);
  return copy;
}

static GraphNode *copy_node(Cut *c, const GraphNode *of)
{
  Arena *arena = c->part->graph->arena;
  GraphNode *node = arena_memdup(arena, of, sizeof *of);
  node->loop = NULL;
  node->inputs = arena_new_array(arena, GraphTensor *, of->n_inputs);
  node->outputs = arena_new_array(arena, GraphTensor *, of->n_outputs);
  for (unsigned i = 0; i < of->n_inputs; i++)
    node->inputs[i] = operand(c, of->inputs[i]);
  for (unsigned i = 0; i < of->n_outputs; i++)
    if (of->outputs[i]) node->outputs[i] = result(c, node, of->outputs[i]);
  g_ptr_array_add(c->nodes, node);
  return node;
}

/* ---- what leaves a part ---- */

static void add_output(Cut *c, GraphTensor *own, GraphPartRole role, const GraphTensor *of, bool reverse)
{
  own->is_output = true;
  if (role == GRAPH_PART_WHOLE)
    own->align = align_of(of);
  else if (role == GRAPH_PART_ELEMENT)
    own->align = MIN(align_of(of), graph_step_align(c->whole, of));
  else
    own->align = GRAPH_PART_ALIGN;
  own->align = MAX(own->align, (unsigned)number_bytes_of(own->type, 1));
  g_ptr_array_add(c->outputs, own);
  note_tensor(c, own, role, of, reverse);
}

/* A copy of x that is called so. */
static GraphTensor *add_copy(Cut *c, const GraphNode *like, GraphTensor *x, const GraphTensor *named)
{
  Arena *arena = c->part->graph->arena;
  GraphNode *node = arena_memdup(arena, like, sizeof *like);
  node->op = operator_of(ONNX_Identity);
  node->onnx = NULL;
  node->loop = NULL;
  node->attributes = NULL;
  node->n_inputs = node->n_outputs = 1;
  node->inputs = arena_memdup(arena, &x, sizeof x);
  GraphTensor *y = copy_tensor(c, x, named->name, TENSOR_COMPUTED);
  y->producer = node;
  y->values = NULL;
  graph_row_major(arena, y);
  node->outputs = arena_memdup(arena, &y, sizeof y);
  g_ptr_array_add(c->nodes, node);
  return y;
}

/* What a loop keeps or stacks: the tensor itself, if its kernel has one place to write it to. */
static GraphTensor *leaving(Cut *c, const GraphNode *node)
{
  GraphTensor *x = operand(c, node->inputs[0]);
  if (x->kind == TENSOR_COMPUTED && !x->is_output) return x;
  return add_copy(c, node, x, node->outputs[0]);
}

static void cut_body_node(Cut *c, const GraphNode *node)
{
  const GraphAttribute *reverse = graph_attribute_find(node, "reverse");
  bool turned = reverse && reverse->integer;
  switch ((unsigned)node->op->id) {
  case ONNX_LoopElement: add_input(c, node->outputs[0], GRAPH_PART_ELEMENT, node->inputs[0], turned); return;
  case ONNX_LoopState: add_input(c, node->outputs[0], GRAPH_PART_STATE, node->outputs[0], false); return;
  case ONNX_LoopNext: add_output(c, leaving(c, node), GRAPH_PART_NEXT, node->inputs[1], false); return;
  case ONNX_LoopStack: add_output(c, leaving(c, node), GRAPH_PART_ELEMENT, node->outputs[0], turned); return;
  default: copy_node(c, node); return;
  }
}

static bool is_read_outside(const Cut *c, const GraphTensor *tensor)
{
  for (unsigned i = 0; i < tensor->n_consumers; i++)
    if (!is_inside(c, tensor->consumers[i]) && !is_op(tensor->consumers[i], ONNX_LoopState)) return true;
  return false;
}

static void cut_plain_node(Cut *c, const GraphNode *node)
{
  const GraphNode *copy = copy_node(c, node);
  for (unsigned i = 0; i < node->n_outputs; i++) {
    const GraphTensor *tensor = node->outputs[i];
    if (!tensor || !(tensor->is_output || is_read_outside(c, tensor))) continue;
    if (tensor->memory) copy->outputs[i]->memory = g_hash_table_lookup(c->copies, tensor->memory);
    add_output(c, copy->outputs[i], GRAPH_PART_WHOLE, tensor, false);
  }
}

/* First states of loops behind the part, where they are known for the first time, and results of the graph that are states of loops in front of it. */
static void cut_states(Cut *c)
{
  for (unsigned i = 0; i < c->whole->n_nodes; i++) {
    const GraphNode *node = c->whole->nodes[i];
    unsigned level = c->levels->levels[i];
    if (is_op(node, ONNX_LoopState) && level_of(c->levels, node->inputs[0], NULL) == c->level) {
      GraphTensor *first = add_copy(c, node, operand(c, node->inputs[0]), node->outputs[0]);
      add_output(c, first, GRAPH_PART_FIRST, node->outputs[0], false);
    } else if (is_op(node, ONNX_LoopNext) && level + 1 == c->level && node->outputs[0]->is_output) {
      const GraphTensor *last = node->outputs[0];
      GraphTensor *own = operand(c, last);
      own->name = arena_printf(c->part->graph->arena, "%s.last", last->name);
      add_output(c, add_copy(c, node, own, last), GRAPH_PART_WHOLE, last, false);
    }
  }
}

/* ---- the whole ---- */

static void *take(const Cut *c, const GPtrArray *list, unsigned *n)
{
  *n = list->len;
  return arena_memdup(c->part->graph->arena, list->pdata, list->len * sizeof(void *));
}

static void index_tensors(const Cut *c)
{
  Graph *graph = c->part->graph;
  g_autoptr(GPtrArray) all = g_ptr_array_new();
  g_ptr_array_extend(all, c->inputs, NULL, NULL);
  g_ptr_array_extend(all, c->constants, NULL, NULL);
  for (unsigned i = 0; i < graph->n_nodes; i++)
    for (unsigned j = 0; j < graph->nodes[i]->n_outputs; j++)
      if (graph->nodes[i]->outputs[j]) g_ptr_array_add(all, graph->nodes[i]->outputs[j]);
  graph->tensors = take(c, all, &graph->n_tensors);
  for (unsigned i = 0; i < graph->n_tensors; i++)
    graph->tensors[i]->index = i;
}

static void index_readers(const Graph *graph)
{
  for (unsigned i = 0; i < graph->n_nodes; i++) {
    graph->nodes[i]->index = i;
    for (unsigned j = 0; j < graph->nodes[i]->n_inputs; j++)
      if (graph->nodes[i]->inputs[j]) graph->nodes[i]->inputs[j]->n_consumers++;
  }
  for (unsigned i = 0; i < graph->n_tensors; i++) {
    graph->tensors[i]->consumers = arena_new_array(graph->arena, GraphNode *, graph->tensors[i]->n_consumers);
    graph->tensors[i]->n_consumers = 0;
  }
  for (unsigned i = 0; i < graph->n_nodes; i++)
    for (unsigned j = 0; j < graph->nodes[i]->n_inputs; j++) {
      GraphTensor *input = graph->nodes[i]->inputs[j];
      if (input) input->consumers[input->n_consumers++] = graph->nodes[i];
    }
}

static Graph *open_graph(const Graph *whole)
{
  Arena *arena = arena_new();
  Graph *graph = arena_new_object(arena, Graph);
  *graph = (Graph){.arena = arena,
                   .source = source_ref(whole->source),
                   .name = whole->name,
                   .opset = whole->opset,
                   .dims = whole->dims,
                   .n_dims = whole->n_dims};
  return graph;
}

static void part_free(void *memory)
{
  GraphPart *part = memory;
  graph_free(part->graph);
  g_array_unref(part->tensors);
  g_free(part);
}

/* NULL: there is nothing in it. */
static GraphPart *cut_part(const Levels *levels, unsigned level, const GraphLoop *loop)
{
  GraphPart *part = g_new0(GraphPart, 1);
  *part = (GraphPart){open_graph(levels->graph), loop, g_array_new(FALSE, FALSE, sizeof(GraphPartTensor))};
  g_autoptr(GHashTable) copies = g_hash_table_new(NULL, NULL);
  g_autoptr(GPtrArray) inputs = g_ptr_array_new(), constants = g_ptr_array_new(), nodes = g_ptr_array_new(),
                       outputs = g_ptr_array_new();
  Cut c = {levels, levels->graph, part, level, copies, inputs, constants, nodes, outputs};
  for (unsigned i = 0; i < c.whole->n_nodes; i++) {
    const GraphNode *node = c.whole->nodes[i];
    if (!is_inside(&c, node)) continue;
    if (loop)
      cut_body_node(&c, node);
    else
      cut_plain_node(&c, node);
  }
  if (!loop) cut_states(&c);
  Graph *graph = part->graph;
  graph->inputs = take(&c, inputs, &graph->n_inputs);
  graph->constants = take(&c, constants, &graph->n_constants);
  graph->outputs = take(&c, outputs, &graph->n_outputs);
  graph->nodes = take(&c, nodes, &graph->n_nodes);
  index_tensors(&c);
  index_readers(graph);
  graph_collect_facts(graph);
  if (nodes->len) return part;
  part_free(part);
  return NULL;
}

GPtrArray *graph_cut(const Graph *graph)
{
  GPtrArray *parts = g_ptr_array_new_with_free_func(part_free);
  Levels levels;
  find_levels(&levels, graph);
  for (unsigned level = 0; level <= levels.most; level++) {
    GraphPart *between = cut_part(&levels, level, NULL);
    if (between) g_ptr_array_add(parts, between);
    for (unsigned i = 0; i < levels.loops->len; i++) {
      GraphPart *body = cut_part(&levels, level, levels.loops->pdata[i]);
      if (body) g_ptr_array_add(parts, body);
    }
  }
  g_ptr_array_unref(levels.loops);
  g_free(levels.levels);
  return parts;
}
