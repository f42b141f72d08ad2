/* Rewrite join_appends: rows that go into a cache where a list says are put there by the kernel that computes them: keys that are turned by
 * their positions, beside queries that are, and the values that come with them.
 *
 *   A: write qk[t, h, c] = %7; write qk#2[t, h, c] = %11    h: heads of queries, and behind them those of keys
 *   B: write cache[%1(t), %3(t), g, e] skip = read qk[t, 32 + g, e]
 *   becomes A with write cache[%1(t), %3(t), h - 32, c] skip = %7; write cache[.., h - 32, 64 + c] skip = %11
 *
 * B's points are those of A moved: of each element that A computes, it is known which of B's it is; where it is none, an index lies
 * outside, which stores nothing. What else B moves goes with these points. */
#include "generator/fusion/compose.h"
#include <string.h>

typedef struct {
  Fuser *fuser;
  const Program *rows, *append; /* A, B */
  unsigned memory;              /* of the tensor that A computes and B reads */
  const ProgramAccess *read;    /* B's, of it */
  Composition whole;
  double points,
      wanted; /* of B that A's points are, and of all that are known: where an extent is open it is the same for both */
} Joining;

/* Where an element that A writes lies along B's dimensions: its indices, and how far the views begin from each other. */
typedef struct {
  const Symbolic *indices[GRAPH_MAX_RANK];
  int64_t shift[GRAPH_MAX_RANK];
  bool leaves[GRAPH_MAX_RANK];
  double points;
} Shift;

static const ProgramAccess *read_of(const Joining *j)
{
  const ProgramAccess *found = NULL;
  for (unsigned i = 0; i < j->append->n_nodes; i++) {
    const ProgramNode *node = &j->append->nodes[i];
    if (node->kind != NODE_READ || compose_memory(node->access.tensor) != j->memory) continue;
    if (found || node->access.outside != OUTSIDE_NEVER) return NULL;
    found = &node->access;
  }
  return found;
}

/* B reads the element at its point. */
static bool reads_points(const Joining *j)
{
  const Program *append = j->append;
  uint32_t axes = 0;
  for (unsigned d = 0; d < j->read->tensor->rank; d++) {
    const ProgramIndex *at = &j->read->at[d];
    if (at->node != PROGRAM_NONE) return false;
    for (unsigned i = 0; i < append->n_axes; i++)
      if (symbolic_same(at->of_axes, append->axes[i].symbol)) axes |= 1u << i;
    if (!(program_axes_in(append, at->of_axes) & axes)) return false;
  }
  return axes == (1u << append->n_axes) - 1;
}

static bool beginning_of(const GraphTensor *tensor, int64_t *begins)
{
  *begins = 0;
  return !tensor->begins || symbolic_is_constant(tensor->begins, begins);
}

/* Indices 0 .. n - 1, moved, of 0 .. all - 1: how many there are; extents that are open are to be the same and not moved. */
static bool overlap(const Symbolic *n, const Symbolic *all, int64_t shift, double *points, bool *leaves)
{
  int64_t some, most;
  *leaves = false;
  *points = 1;
  if (symbolic_same(n, all) && !shift) {
    if (symbolic_is_constant(all, &most)) *points = (double)most;
    return true;
  }
  if (!symbolic_is_constant(n, &some) || !symbolic_is_constant(all, &most)) return false;
  *points = (double)(MIN(some + shift, most) - MAX(shift, 0));
  *leaves = shift < 0 || some + shift > most;
  return *points > 0;
}

/* Elements from the beginning of B's view to that of A's, as indices: of each dimension in turn, from the one of the largest stride on. */
static bool part_shift(const Joining *j, const GraphTensor *from, int64_t behind, uint32_t done, Shift *shift)
{
  const GraphTensor *to = j->read->tensor;
  int64_t largest = -1, stride;
  int d = -1;
  for (unsigned i = 0; i < to->rank; i++) {
    if (done >> i & 1) continue;
    if (!symbolic_is_constant(to->strides[i], &stride))
      stride = G_MAXINT64; /* of rows of an open size: not moved */
    if (stride > largest) largest = stride, d = (int)i;
  }
  if (d < 0) return !behind;
  int own = -1; /* A's dimension */
  for (unsigned i = 0; i < from->rank; i++)
    if (symbolic_same(from->strides[i], to->strides[d]) && !symbolic_equals(from->shape[i], 1)) own = (int)i;
  const Symbolic *extent = own >= 0 ? from->shape[own] : symbolic_constant(j->fuser->arena, 1);
  int64_t first = largest == G_MAXINT64 || !largest ? 0 : behind / largest - (behind % largest < 0);
  for (int64_t i = first; i <= first + 1; i++) {
    double points;
    int64_t rest;
    if (largest == G_MAXINT64 && i) break;
    if (!overlap(extent, to->shape[d], i, &points, &shift->leaves[d])) continue;
    bool leaves = shift->leaves[d];
    rest = largest == G_MAXINT64 ? behind : behind - i * largest;
    if (!part_shift(j, from, rest, done | 1u << d, shift)) continue;
    shift->shift[d] = i;
    shift->leaves[d] = leaves;
    shift->points *= points;
    return true;
  }
  return false;
}

/* A dimension of one index whose stride, which says nothing, is another one's. */
static bool is_idle(const GraphTensor *tensor, unsigned d)
{
  for (unsigned i = 0; i < tensor->rank && symbolic_equals(tensor->shape[d], 1); i++)
    if (i != d && !symbolic_equals(tensor->shape[i], 1) &&
        symbolic_same(tensor->strides[i], tensor->strides[d]))
      return true;
  return false;
}

/* Points of A at which the write is one of B's; false: it cannot be told. */
static bool find_shift(const Joining *j, const ProgramNode *write, Shift *shift)
{
  int64_t a, b;
  const GraphTensor *from = write->access.tensor, *to = j->read->tensor;
  *shift = (Shift){.points = 1};
  if (!beginning_of(from, &a) || !beginning_of(to, &b)) return false;
  /* strides say which dimension is which: indices as if nothing were moved, of as many as A has */
  GraphTensor like = *to;
  uint32_t idle = 0;
  for (unsigned d = 0; d < to->rank; d++)
    if (is_idle(to, d)) idle |= 1u << d;
  for (unsigned d = 0; d < to->rank; d++)
    for (unsigned i = 0; i < from->rank && !(idle >> d & 1); i++)
      if (symbolic_same(from->strides[i], to->strides[d]) && !symbolic_equals(from->shape[i], 1))
        like.shape[d] = from->shape[i];
  return compose_indices(j->fuser->arena, &write->access, &like, shift->indices) &&
         part_shift(j, from, a - b, idle, shift);
}

/* B's nodes at the points of a write of A. */
static bool add_points(Joining *j, const ProgramNode *write, ProgramValue value, const Shift *shift)
{
  Arena *arena = j->fuser->arena;
  Part part = composition_part(&j->whole, j->append);
  for (unsigned axis = 0; axis < j->append->n_axes; axis++) {
    part.own[axis] = -1;
    for (unsigned d = 0; d < j->read->tensor->rank; d++) {
      if (!symbolic_same(j->read->at[d].of_axes, j->append->axes[axis].symbol)) continue;
      part.at[axis] = symbolic_add(arena, shift->indices[d], symbolic_constant(arena, shift->shift[d]));
      if (shift->leaves[d]) part.leaves |= 1u << axis;
      for (unsigned i = 0; i < j->rows->n_axes && !shift->leaves[d]; i++) {
        const ProgramAxis *own = &j->whole.whole->axes[i];
        bool fewer = symbolic_same(shift->indices[d], own->symbol) &&
                     !symbolic_same(own->extent, j->append->axes[axis].extent);
        if (!fewer) continue;
        part.part_of[axis] = own;
        part.first[axis] = symbolic_constant(arena, shift->shift[d]);
      }
    }
  }
  for (unsigned i = 0; i < j->append->n_nodes; i++) {
    const ProgramNode *node = &j->append->nodes[i];
    if (node->kind == NODE_READ && &node->access == j->read)
      part.values[i] = value;
    else if (!composition_add(&part, i))
      return false;
  }
  return true;
}

/* What A stores is rounded to the tensor's type, be it by being stored. */
static bool is_rounded(const Program *rows, const ProgramNode *write)
{
  const ProgramValue *value = &write->operands[0];
  const ProgramNode *node = value->kind == VALUE_NODE ? &rows->nodes[value->node] : NULL;
  return node && node->kind == NODE_MAP && node->op == ONNX_Cast && node->type == write->access.tensor->type;
}

/* What B reads of A it stores as it is: rounded as A would have. */
static bool only_moves(const Joining *j)
{
  for (unsigned i = 0; i < j->append->n_nodes; i++) {
    const ProgramNode *node = &j->append->nodes[i];
    for (unsigned k = 0; k < node->n_operands; k++) {
      const ProgramValue *value = &node->operands[k];
      bool taken = value->kind == VALUE_NODE && &j->append->nodes[value->node].access == j->read;
      if (taken && (node->kind != NODE_WRITE || node->access.tensor->type != j->read->tensor->type))
        return false;
    }
  }
  return true;
}

/* Nobody else reads what A leaves in the tensor. */
static bool is_unread(const Joining *j, const Group *append)
{
  const GPtrArray *readers = j->fuser->readers[j->memory];
  const GraphTensor *tensor = j->fuser->tensors->pdata[j->memory];
  bool unread = !tensor->is_output;
  for (unsigned i = 0; readers && i < readers->len; i++)
    unread = unread && fuser_group(j->fuser, readers->pdata[i]) == append;
  return unread;
}

static bool compose(Joining *j, bool unread)
{
  Part own = composition_part(&j->whole, j->rows);
  bool moves = only_moves(j);
  for (unsigned i = 0; i < j->append->n_axes; i++) {
    int64_t extent;
    j->wanted *= symbolic_is_constant(j->append->axes[i].extent, &extent) ? (double)extent : 1;
  }
  for (unsigned i = 0; i < j->rows->n_nodes; i++) {
    const ProgramNode *write = &j->rows->nodes[i];
    bool gives = write->kind == NODE_WRITE && compose_memory(write->access.tensor) == j->memory;
    if (!(gives && unread) && !composition_add(&own, i)) return false;
    if (!gives) continue;
    Shift shift;
    ProgramValue value = write->operands[0];
    if (write->combines || write->access.outside != OUTSIDE_NEVER || value.kind != VALUE_NODE) return false;
    if (!moves && !is_rounded(j->rows, write)) return false;
    if (unread && !composition_add(&own, value.node)) return false;
    ProgramValue whole = own.values[value.node];
    whole.result += value.result;
    whole.type = value.type;
    if (!find_shift(j, write, &shift)) continue; /* others' elements: all of B's are counted */
    j->points += shift.points;
    if (!add_points(j, write, whole, &shift)) return false;
  }
  return j->points == j->wanted;
}

static bool writes(const Program *program, unsigned memory)
{
  for (unsigned i = 0; i < program->n_nodes; i++)
    if (program->nodes[i].kind == NODE_WRITE && compose_memory(program->nodes[i].access.tensor) == memory)
      return true;
  return false;
}

/* B reads another tensor that A computes, such as values beside keys: other points of A may have its elements, which nobody waits for. */
static bool reads_another(const Joining *j)
{
  for (unsigned i = 0; i < j->append->n_nodes; i++) {
    const ProgramNode *node = &j->append->nodes[i];
    if (node->kind == NODE_READ && &node->access != j->read &&
        writes(j->rows, compose_memory(node->access.tensor)))
      return true;
  }
  return false;
}

/* Is all else that B reads there before A is computed? */
static bool is_ready(Fuser *fuser, const Group *append, const Group *rows)
{
  for (unsigned i = 0; i < append->nodes->len; i++) {
    const GraphNode *node = append->nodes->pdata[i];
    for (unsigned k = 0; k < node->n_inputs; k++)
      for (unsigned l = 0; l < fuser_n_writers(node->inputs[k]); l++) {
        const GraphNode *producer = fuser_writer(fuser, node->inputs[k], l);
        Group *other = producer ? fuser_group(fuser, producer) : NULL;
        if (other && other != rows && other != append && fuser_waits_for(fuser, other, rows)) return false;
      }
  }
  return true;
}

static bool join(Fuser *fuser, Group *append, Group *rows, unsigned memory)
{
  if (rows->absorbed || rows->anchor || rows->chained) return false;
  Joining j = {.fuser = fuser,
               .rows = composed_program(fuser, rows),
               .append = composed_program(fuser, append),
               .memory = memory,
               .wanted = 1};
  j.read = j.rows && j.append ? read_of(&j) : NULL;
  if (!j.read || !reads_points(&j) || reads_another(&j) || !is_ready(fuser, append, rows)) return false;
  for (unsigned i = 0; i < j.rows->n_axes; i++)
    if (j.rows->axes[i].length != PROGRAM_NONE) return false;
  j.whole = composition_open(fuser, j.rows, 4 * (j.rows->n_nodes + j.append->n_nodes));
  if (!compose(&j, is_unread(&j, append)) || !composition_exists(&j.whole)) return false;
  fuser_note(fuser, "rows of `%s` go into the cache where they are computed",
             ((GraphTensor *)fuser->tensors->pdata[memory])->name);
  composition_close(&j.whole, rows, append, "with rows that go into a cache");
  return true;
}

/* Of what is put into caches, the first that a kernel computes which can put all of it there: that kernel, or NULL. */
static Group *join_append(Fuser *fuser, Group *group)
{
  for (unsigned n = 0; n < group->nodes->len; n++) {
    const GraphNode *node = group->nodes->pdata[n];
    for (unsigned i = 0; i < node->n_inputs; i++)
      for (unsigned k = 0; k < fuser_n_writers(node->inputs[i]); k++) {
        const GraphNode *producer = fuser_writer(fuser, node->inputs[i], k);
        Group *rows = producer ? fuser_group(fuser, producer) : NULL;
        if (rows && rows != group && join(fuser, group, rows, compose_memory(node->inputs[i]))) return rows;
      }
  }
  return NULL;
}

static bool appends(const Group *group)
{
  bool any = false;
  for (unsigned i = 0; i < group->nodes->len; i++)
    any |= ((GraphNode *)group->nodes->pdata[i])->op->id == ONNX_AppendRows;
  return any;
}

/* Rows that are quantised in front of the cache: that kernel may join the one in front of it in turn. */
void fusion_join_appends(Fuser *fuser)
{
  unsigned n = fuser->groups->len;
  for (unsigned i = 0; i < n; i++) {
    Group *group = fuser->groups->pdata[i];
    if (!group->absorbed && appends(group))
      while ((group = join_append(fuser, group)))
        ;
  }
}
