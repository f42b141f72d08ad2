/* Rewrite read_through: what a small kernel computes for one other kernel, which reads it at other points than its own, that kernel computes
 * where it reads it: rows of a table of angles that loaded positions name, the sequence of a token. A launch, and the
 * time until its results are there, cost more than the few instructions.
 *
 *   A: write angles[t, c] = read cos[%place(t), c]      B: read angles[t, c], for each head h
 *
 * Two readers, such as queries and keys that are turned, compute it each. So it is for elements that are read and for integers: who computes these again finds
 * the same; and for rows that are put into a cache as they are. Elements that A reduces
 * (a count of few) B does only for each of its own points once. */
#include "generator/fusion/compose.h"
#include <string.h>

#define MOST_NODES   32  /* of a kernel whose values are computed again */
#define MOST_READERS 2   /* that compute the same */
#define MOST_REDUCED 512 /* elements that a thread walks through, where rows were a kernel's */

typedef struct {
  Fuser *fuser;
  const Program *producer, *reader;
  Composition whole;
  int reduced
      [PROGRAM_MAX_AXES]; /* by the producer's axis: the whole's that it became, of those it reduces; -1: none yet */
} Through;

static bool is_whole(NumberType type)
{
  return number_class(type) == NUMBER_SIGNED || number_class(type) == NUMBER_UNSIGNED || type == NUMBER_BOOL;
}

/* Who puts rows into a cache only moves them: they are rounded as they would have been in front of it. */
static bool moves(const GraphNode *reader)
{
  return reader->op->id == ONNX_AppendRows;
}

/* May who reads the tensor have the value itself? What is rounded on its way to memory is not what it was. */
static bool is_exact(const Program *program, const ProgramNode *write, bool moved)
{
  const ProgramValue *value = &write->operands[0];
  const GraphTensor *tensor = write->access.tensor;
  if (value->kind != VALUE_NODE || value->result) return false;
  if (moved) return true;
  if (value->type != tensor->type) return false;
  return program->nodes[value->node].kind == NODE_READ || is_whole(tensor->type);
}

/* Each of its points gives the elements at the point, and nothing else. */
static bool is_plain_write(const Program *program, const ProgramNode *write)
{
  const GraphTensor *tensor = write->access.tensor;
  uint32_t axes = 0;
  if (write->combines || write->access.outside != OUTSIDE_NEVER || tensor->whole || tensor->n_parts ||
      tensor->is_output || tensor->kind != TENSOR_COMPUTED)
    return false;
  for (unsigned d = 0; d < tensor->rank; d++) {
    const ProgramIndex *at = &write->access.at[d];
    uint32_t along = program_axes_in(program, at->of_axes);
    bool plain = at->node == PROGRAM_NONE && (along || symbolic_equals(at->of_axes, 0));
    for (unsigned i = 0; i < program->n_axes; i++)
      plain = plain && (!(along >> i & 1) || symbolic_same(at->of_axes, program->axes[i].symbol));
    if (!plain || axes & along) return false;
    axes |= along;
  }
  return true;
}

/* Does it look up an element for each of those that lie side by side? Its reader, which reads these together, would do the same. */
static bool looks_up_elements(const Program *program, const ProgramNode *write)
{
  const ProgramAccess *access = &write->access;
  unsigned rank = access->tensor->rank;
  if (rank < 2 || symbolic_equals(access->tensor->shape[rank - 1], 1)) return false;
  uint32_t beside = program_axes_in(program, access->at[rank - 1].of_axes);
  for (unsigned i = 0; i < program->n_nodes; i++)
    for (unsigned d = 0; program->nodes[i].kind == NODE_READ && d < program->nodes[i].access.tensor->rank;
         d++) {
      int loaded = program->nodes[i].access.at[d].node;
      if (loaded != PROGRAM_NONE && program->varies[loaded] & beside) return true;
    }
  return false;
}

static bool is_small(const Program *program, bool moved)
{
  unsigned n = 0;
  for (unsigned i = 0; i < program->n_axes; i++)
    if (program->axes[i].length != PROGRAM_NONE) return false;
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    if (node->kind == NODE_SCAN) return false;
    if (node->kind == NODE_REDUCE && (node->reduction != REDUCTION_SUM || !is_whole(node->compute)))
      return false;
    if (node->kind == NODE_WRITE && looks_up_elements(program, node)) return false;
    if (node->kind == NODE_WRITE && !(is_plain_write(program, node) && is_exact(program, node, moved)))
      return false;
    n++;
  }
  return n <= MOST_NODES;
}

/* ---- the producer's nodes in the reader ---- */

static const ProgramNode *write_of(const Program *program, const GraphTensor *tensor)
{
  for (unsigned i = 0; i < program->n_nodes; i++)
    if (program->nodes[i].kind == NODE_WRITE && program->nodes[i].access.tensor->index == tensor->index)
      return &program->nodes[i];
  return NULL;
}

/* Axes that are reduced are the whole's own, the same for all that is read. */
static bool add_reduced(Through *t, Part *part)
{
  uint32_t axes = 0;
  for (unsigned i = 0; i < t->producer->n_nodes; i++)
    if (t->producer->nodes[i].kind == NODE_REDUCE) axes |= t->producer->nodes[i].axes;
  for (unsigned axis = 0; axis < t->producer->n_axes; axis++) {
    int64_t extent;
    const ProgramAxis *own = &t->producer->axes[axis];
    if (!(axes >> axis & 1)) continue;
    if (symbolic_is_constant(own->extent, &extent) && extent > MOST_REDUCED) return false;
    if (t->reduced[axis] < 0) t->reduced[axis] = composition_add_axis(&t->whole, own);
    if (t->reduced[axis] < 0) return false;
    part->own[axis] = t->reduced[axis];
    part->at[axis] = t->whole.whole->axes[t->reduced[axis]].symbol;
  }
  return true;
}

/* What a thread walks through is no row's, whose elements threads share. */
static void walk(Through *t, const GraphNode *source)
{
  for (unsigned i = 0; i < t->whole.whole->n_nodes; i++) {
    ProgramNode *node = &t->whole.whole->nodes[i];
    if (node->kind == NODE_REDUCE && node->source && node->source->op->class_ == OPERATOR_ROW)
      node->source = source;
  }
}

/* Each of the reader's points has its own, and so would be reduced once. */
static bool is_reduced_once(const Through *t, const Symbolic *const *places)
{
  uint32_t axes = 0;
  int first;
  for (unsigned i = 0; i < t->producer->n_axes; i++)
    if (places[i]) axes |= program_axes_in(t->reader, places[i]);
  for (first = 0; first < (int)t->producer->n_nodes && t->producer->nodes[first].kind != NODE_REDUCE;)
    first++;
  for (unsigned i = 0; i < t->reader->n_axes && first < (int)t->producer->n_nodes; i++)
    if (!(axes >> i & 1) && !symbolic_equals(t->reader->axes[i].extent, 1)) return false;
  return true;
}

/* The value that the read finds, where it is read; *part holds the producer's nodes as they are added. */
static bool take(Through *t, const ProgramNode *read, Part *part, ProgramValue *value)
{
  const ProgramNode *write = write_of(t->producer, read->access.tensor);
  const GraphTensor *from = read->access.tensor, *to = write->access.tensor;
  const Symbolic *indices[GRAPH_MAX_RANK], *places[PROGRAM_MAX_AXES] = {NULL};
  bool begins =
      (from->begins && !symbolic_equals(from->begins, 0)) || (to->begins && !symbolic_equals(to->begins, 0));
  if (begins || from->type != to->type || read->access.outside != OUTSIDE_NEVER ||
      !compose_indices(t->fuser->arena, &read->access, to, indices))
    return false;
  for (unsigned d = 0; d < to->rank; d++)
    for (unsigned axis = 0; axis < t->producer->n_axes; axis++)
      if (symbolic_same(write->access.at[d].of_axes, t->producer->axes[axis].symbol))
        places[axis] = indices[d];
  if (!is_reduced_once(t, places)) return false;
  *part = composition_part(&t->whole, t->producer);
  for (unsigned axis = 0; axis < PROGRAM_MAX_AXES; axis++) {
    part->own[axis] = -1;
    part->at[axis] =
        places[axis] ? places[axis] : symbolic_constant(t->fuser->arena, 0); /* it has one index */
  }
  if (!add_reduced(t, part)) return false;
  unsigned node = write->operands[0].node;
  if (!composition_add(part, node)) return false;
  walk(t, read->source);
  *value = part->values[node];
  value->type = write->operands[0].type;
  return true;
}

static bool compose(Through *t)
{
  Part own = composition_part(&t->whole, t->reader), taken;
  bool any = false;
  for (unsigned i = 0; i < t->reader->n_nodes; i++) {
    const ProgramNode *node = &t->reader->nodes[i];
    bool through = node->kind == NODE_READ && write_of(t->producer, node->access.tensor);
    if (through && !take(t, node, &taken, &own.values[i])) return false;
    if (!through && !composition_add(&own, i)) return false;
    any |= through;
  }
  return any;
}

/* ---- groups ---- */

/* Who reads the tensors that the group gives, each once; *moved: all of them only move them. False: some reader could not compute them, or there are many. */
static bool find_readers(const Fuser *fuser, const Group *group, GPtrArray *found, bool *moved)
{
  *moved = true;
  for (unsigned i = 0; i < group->nodes->len; i++) {
    const GraphNode *node = group->nodes->pdata[i];
    for (unsigned k = 0; k < node->n_outputs; k++) {
      const GraphTensor *tensor = node->outputs[k];
      const GPtrArray *readers = tensor ? fuser->readers[tensor->index] : NULL;
      if (tensor && tensor->is_output) return false;
      for (unsigned j = 0; readers && j < readers->len; j++) {
        Group *other = fuser_group(fuser, readers->pdata[j]);
        if (other == group) continue;
        *moved = *moved && moves(readers->pdata[j]);
        if (g_ptr_array_find(found, other, NULL)) continue;
        if (!other || other->absorbed || found->len == MOST_READERS) return false;
        if (other->anchor && !moves(other->anchor)) return false;
        g_ptr_array_add(found, other);
      }
    }
  }
  return found->len > 0;
}

/* Points of a kernel, or elements of rows that are reduced. */
static bool may_be_taken(const Group *group)
{
  return !group->absorbed && !group->chained && !group->mean_of && group->nodes->len <= MOST_NODES &&
         (!group->anchor || group_is_row(group));
}

/* What an output is stored over may be other than it was, once the reader runs. */
static bool reads_memory(const Fuser *fuser, const Program *program)
{
  for (unsigned i = 0; i < program->n_nodes; i++)
    for (unsigned j = 0; j < fuser->graph->n_outputs && program->nodes[i].kind == NODE_READ; j++) {
      const GraphTensor *memory = fuser->graph->outputs[j]->memory;
      if (memory && memory->index == program->nodes[i].access.tensor->index) return true;
    }
  return false;
}

/* The reader's program with what it reads computed in it. */
static bool compose_reader(Fuser *fuser, const Program *program, Group *reader, Composition *whole)
{
  Through t = {.fuser = fuser, .producer = program, .reader = composed_program(fuser, reader)};
  if (!t.reader) return false;
  memset(t.reduced, -1, sizeof t.reduced);
  t.whole = composition_open(fuser, t.reader, t.reader->n_nodes + 4 * MOST_NODES);
  if (!compose(&t) || !composition_pays(&t.whole, program, t.reader)) return false;
  *whole = t.whole;
  return true;
}

/* The tensor of other kernels that the group reads; *several: there are more. */
static GraphTensor *source_of(const Fuser *fuser, const Group *group, bool *several)
{
  GraphTensor *found = NULL;
  *several = false;
  for (unsigned i = 0; i < group->nodes->len; i++) {
    const GraphNode *node = group->nodes->pdata[i];
    for (unsigned k = 0; k < node->n_inputs; k++)
      for (unsigned l = 0; l < fuser_n_writers(node->inputs[k]); l++) {
        const GraphNode *producer = fuser_writer(fuser, node->inputs[k], l);
        if (!producer || fuser_group(fuser, producer) == group) continue;
        *several = *several || (found && found != node->inputs[k]);
        found = node->inputs[k];
      }
  }
  return found;
}

static int by_place(gconstpointer a, gconstpointer b)
{
  const GraphNode *x = *(GraphNode *const *)a, *y = *(GraphNode *const *)b;
  return (x->index > y->index) - (x->index < y->index);
}

/* A reader's nodes read what the group reads in place of what it gives, for those who ask which kernel waits for which. */
static void wait_for_source(Fuser *fuser, const Group *group, Group *reader, GraphTensor *source)
{
  for (unsigned i = 0; i < reader->nodes->len; i++) {
    GraphNode *node = reader->nodes->pdata[i];
    for (unsigned k = 0; k < node->n_inputs; k++) {
      const GraphTensor *given = node->inputs[k];
      const GraphNode *producer = given && !given->n_parts ? fuser_writer(fuser, given, 0) : NULL;
      if (!producer || fuser_group(fuser, producer) != group) continue;
      node->inputs = arena_memdup(fuser->arena, node->inputs, node->n_inputs * sizeof *node->inputs);
      node->inputs[k] = source;
      g_ptr_array_remove(fuser->readers[given->index], node);
      GPtrArray *readers = fuser->readers[source->index];
      if (g_ptr_array_find(readers, node, NULL)) continue;
      g_ptr_array_add(readers, node);
      g_ptr_array_sort(readers, by_place);
    }
  }
}

static void read_through(Fuser *fuser, Group *group)
{
  bool several, moved;
  g_autoptr(GPtrArray) readers = g_ptr_array_new();
  Composition wholes[MOST_READERS];
  if (!may_be_taken(group) || !find_readers(fuser, group, readers, &moved)) return;
  const Program *program = composed_program(fuser, group);
  if (!program || !is_small(program, moved) || reads_memory(fuser, program)) return;
  GraphTensor *source = source_of(fuser, group, &several);
  if (readers->len > 1 && several) return;
  if (!source) source = ((GraphNode *)group->nodes->pdata[0])->inputs[0]; /* it waits for nobody */
  if (readers->len > 1 && !source) return;
  for (unsigned i = 0; i < readers->len; i++) {
    if (!compose_reader(fuser, program, readers->pdata[i], &wholes[i])) return;
    for (unsigned k = 0; k < i; k++)
      if (!fuser_are_apart(fuser, readers->pdata[k], readers->pdata[i])) return;
  }
  for (unsigned i = 0; i < readers->len; i++) {
    Group *reader = readers->pdata[i];
    fuser_note(fuser, "`%s` is computed where `%s` is, which reads it", group_shape(group)->name,
               group_shape(reader)->name);
    if (i + 1 < readers->len) wait_for_source(fuser, group, reader, source);
    composition_close(&wholes[i], reader, i + 1 < readers->len ? NULL : group, "with what it reads");
  }
}

void fusion_read_through(Fuser *fuser)
{
  unsigned n = fuser->groups->len;
  for (unsigned i = 0; i < n; i++)
    read_through(fuser, fuser->groups->pdata[i]);
}
