/* Gradients of attention in parts: a block of keys walks the rows of all heads that share them, so few keys of few heads are few blocks. Then
 * these heads, or the rows, are divided: each part's blocks leave its sums in f32, which kernels add in the order of the parts. So are the keys
 * that few rows see, for gradients of queries.
 *
 *   %1 = reduce dot {g, m} %0, Q[b, h*G + g, m, c]     becomes     %1 = reduce dot {g, m} %0, Q[b, h*G + p*(G / 2) + g, m, c]
 *   write dK[b, h, t, c] = %1                                      write sums[p, b, h, t, c] = %1
 *
 *   and   %2 = read sums[0, b, h, t, c]   %3 = read sums[1, b, h, t, c]   %4 = Add(%2, %3)   write dK[b, h, t, c] = %4
 *
 * How many parts are worth it follows from the GPU: the judge tells. */
#include "generator/program/attention_grad.h"
#include "generator/program/bind.h"
#include "generator/program/division.h"
#include "generator/program/family.h"
#include <string.h>

#define MOST_SUMS    DIVISION_TENSORS
#define MOST_PARTS   16
#define MOST_SHARED  4 /* of them, of two sums in one kernel, which reads all before it adds */
#define PARTS_SUFFIX "_parts"
#define SUMS_SUFFIX  "_sums"

typedef struct {
  const Program *program;
  unsigned sums[MOST_SUMS], n_sums; /* nodes: contractions along rows */
  int row, group;                   /* axes that they are along; PROGRAM_NONE */
  bool of_queries;                  /* they are along keys, which `row` is then */
  unsigned axis;                    /* that is divided */
  int64_t parts;
  const Symbolic *moved; /* what stands for the axis: where its part begins, and its own index */
  ProgramAxis part;
  GraphTensor *tensors[MOST_SUMS];
} Gradient;

/* ---- what is divided ---- */

static bool is_sum(const Program *program, unsigned i)
{
  const ProgramNode *node = &program->nodes[i];
  return node->kind == NODE_REDUCE && node->reduction == REDUCTION_DOT &&
         (bind_read_of(program, node->operands[0]) < 0 || bind_read_of(program, node->operands[1]) < 0);
}

static bool find_sums(Gradient *at)
{
  const Program *program = at->program;
  for (unsigned i = 0; i < program->n_nodes; i++) {
    if (!is_sum(program, i)) continue;
    if (at->n_sums == MOST_SUMS ||
        program->nodes[i].axes != program->nodes[at->n_sums ? at->sums[0] : i].axes)
      return false;
    at->sums[at->n_sums++] = i;
  }
  return at->n_sums > 0;
}

/* Rows have log-sum-exps, which are subtracted; so have heads that share keys. Sums along keys are those of queries. */
static bool find_rows(Gradient *at)
{
  const Program *program = at->program;
  uint32_t along = program->nodes[at->sums[0]].axes;
  at->row = at->group = PROGRAM_NONE;
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    int read = node->kind == NODE_MAP && node->op == ONNX_Sub ? bind_read_of(program, node->operands[1])
                                                              : PROGRAM_NONE;
    if (read < 0 || along & ~program->varies[read]) continue;
    const ProgramAccess *access = &program->nodes[read].access;
    uint32_t rows = along & program_axes_in(program, access->at[access->tensor->rank - 1].of_axes),
             others = along & ~rows;
    if (__builtin_popcount(rows) != 1 || __builtin_popcount(others) > 1) return false;
    at->row = __builtin_ctz(rows);
    if (others) at->group = __builtin_ctz(others);
    return true;
  }
  at->of_queries = true;
  at->row = __builtin_ctz(along);
  return __builtin_popcount(along) == 1;
}

/* First rows, then heads, in many parts, then in fewer. false: there are no more ways. */
static bool choose_way(Gradient *at, unsigned way, bool *applies)
{
  int64_t extent, unit;
  int axis = way < MOST_PARTS ? at->row : at->group;
  *applies = false;
  if (way >= 2 * MOST_PARTS) return false;
  at->parts = MOST_PARTS - way % MOST_PARTS;
  if (at->parts == 1 || axis < 0) return true;
  at->axis = (unsigned)axis;
  unit = at->parts * (axis == at->row ? GRAD_ROWS_OF_PART : 1);
  *applies =
      symbolic_is_constant(at->program->axes[axis].extent, &extent) && extent > 0 && extent % unit == 0;
  return true;
}

static void make_part(Gradient *at)
{
  Arena *arena = at->program->arena;
  const ProgramAxis *axis = &at->program->axes[at->axis];
  at->part = program_part_axis(at->program, symbolic_constant(arena, at->parts));
  const Symbolic *each = symbolic_binary(arena, SYMBOLIC_DIV, axis->extent, at->part.extent);
  at->moved = symbolic_add(arena, symbolic_mul(arena, at->part.symbol, each), axis->symbol);
}

/* ---- sums ---- */

/* Axes that a sum varies along, and the parts', which is PROGRAM_NONE: the first, of queries behind the heads, whose parts lie side by side. */
static unsigned axes_of(const Gradient *at, unsigned sum, int *axes)
{
  uint32_t varies = at->program->varies[at->sums[sum]];
  unsigned n = 0, before = at->of_queries ? (unsigned)__builtin_popcount(varies) - 2 : 0;
  for (unsigned i = 0; i < at->program->n_axes; i++) {
    if (!(varies >> i & 1)) continue;
    if (n == before) axes[n++] = PROGRAM_NONE;
    axes[n++] = (int)i;
  }
  return n;
}

static bool make_tensor(Gradient *at, unsigned sum)
{
  const Program *program = at->program;
  Arena *arena = program->arena;
  const ProgramNode *reduce = &program->nodes[at->sums[sum]];
  GraphTensor *tensor = arena_new_object(arena, GraphTensor);
  int axes[PROGRAM_MAX_AXES + 1];
  *tensor = (GraphTensor){
      .name = "sums", .kind = TENSOR_COMPUTED, .type = reduce->compute, .align = 16, .mark = reduce->mark};
  tensor->rank = axes_of(at, sum, axes);
  if (tensor->rank > GRAPH_MAX_RANK) return false;
  const Symbolic *stride = symbolic_constant(arena, 1);
  for (unsigned d = tensor->rank; d-- > 0;) {
    tensor->shape[d] = axes[d] == PROGRAM_NONE ? at->part.extent : program->axes[axes[d]].extent;
    tensor->strides[d] = stride;
    stride = symbolic_mul(arena, stride, tensor->shape[d]);
  }
  at->tensors[sum] = tensor;
  return true;
}

static ProgramAccess access_sums(const Gradient *at, unsigned sum, const Symbolic *part)
{
  ProgramAccess access = {.tensor = at->tensors[sum]};
  int axes[PROGRAM_MAX_AXES + 1];
  unsigned n = axes_of(at, sum, axes);
  for (unsigned d = 0; d < n; d++)
    access.at[d] =
        (ProgramIndex){axes[d] == PROGRAM_NONE ? part : at->program->axes[axes[d]].symbol, PROGRAM_NONE};
  return access;
}

/* ---- expressions ---- */

typedef struct {
  const Symbolic *from, *to;
} Renamed;

static const Symbolic *rename_leaf(const Symbolic *leaf, void *data)
{
  const Renamed *renamed = data;
  return leaf->kind == SYMBOLIC_SYMBOL && symbolic_same(leaf, renamed->from) ? renamed->to : NULL;
}

static void rename_node(Program *program, ProgramNode *node, Renamed renamed)
{
  bool accesses = node->kind == NODE_READ || node->kind == NODE_WRITE;
  for (unsigned d = 0; accesses && d < node->access.tensor->rank; d++)
    node->access.at[d].of_axes =
        symbolic_substitute(program->arena, node->access.at[d].of_axes, rename_leaf, &renamed);
  if (node->kind == NODE_INDEX)
    node->index = symbolic_substitute(program->arena, node->index, rename_leaf, &renamed);
}

/* ---- the programs ---- */

static Program *open_program(const Gradient *at, unsigned more)
{
  Program *program = arena_memdup(at->program->arena, at->program, sizeof *program);
  program->nodes = arena_new_array(program->arena, ProgramNode, program->n_nodes + more);
  program->n_nodes = 0;
  return program;
}

static ProgramValue add(Program *program, ProgramNode node, const ProgramValue *operands, unsigned n)
{
  node.operands = arena_memdup(program->arena, operands, n * sizeof *operands);
  node.n_operands = n;
  program->nodes[program->n_nodes] = node;
  return (ProgramValue){VALUE_NODE, program->n_nodes++, 0, 0, node.type};
}

/* By node: is it computed from the sum, or the sum itself? g_free. */
static bool *nodes_of(const Program *program, unsigned sum)
{
  bool *of = g_new0(bool, program->n_nodes + 1);
  of[sum] = true;
  for (unsigned i = sum + 1; i < program->n_nodes; i++)
    for (unsigned j = 0; j < program->nodes[i].n_operands; j++) {
      const ProgramValue *operand = &program->nodes[i].operands[j];
      of[i] |= operand->kind == VALUE_NODE && of[operand->node];
    }
  return of;
}

/* All that is computed up to the sums, of one part. */
static Program *parts_program(const Gradient *at)
{
  const Program *whole = at->program;
  Program *program = open_program(at, MOST_SUMS);
  g_autofree unsigned *place = g_new0(unsigned, whole->n_nodes + 1);
  g_autofree bool *behind = g_new0(bool, whole->n_nodes + 1);
  for (unsigned s = 0; s < at->n_sums; s++) {
    g_autofree bool *of = nodes_of(whole, at->sums[s]);
    for (unsigned i = 0; i < whole->n_nodes; i++)
      behind[i] |= of[i] && i != at->sums[s];
  }
  program->axes[at->axis].extent =
      symbolic_binary(program->arena, SYMBOLIC_DIV, whole->axes[at->axis].extent, at->part.extent);
  program->axes[program->n_axes++] = at->part;
  for (unsigned i = 0; i < whole->n_nodes; i++) {
    if (behind[i]) continue;
    place[i] = program->n_nodes;
    ProgramNode moved = program_moved(whole, &whole->nodes[i], place, program->arena);
    rename_node(program, &moved, (Renamed){whole->axes[at->axis].symbol, at->moved});
    program->nodes[program->n_nodes++] = moved;
  }
  for (unsigned s = 0; s < at->n_sums; s++) {
    ProgramNode write = whole->nodes[at->sums[s]];
    ProgramValue value = {VALUE_NODE, place[at->sums[s]], 0, 0, write.type};
    write = (ProgramNode){.kind = NODE_WRITE,
                          .source = write.source,
                          .mark = write.mark,
                          .type = write.compute,
                          .compute = write.compute,
                          .access = access_sums(at, s, at->part.symbol)};
    add(program, write, &value, 1);
  }
  program_settle(program);
  return program;
}

/* One sum's parts, in their order. */
static unsigned add_parts(const Gradient *at, Program *program, unsigned sum)
{
  const ProgramNode *reduce = &at->program->nodes[at->sums[sum]];
  NumberType type = at->tensors[sum]->type;
  ProgramValue value = {0};
  for (int64_t part = 0; part < at->parts; part++) {
    ProgramNode node = {
        .kind = NODE_READ, .source = reduce->source, .mark = reduce->mark, .type = type, .compute = type};
    node.access = access_sums(at, sum, symbolic_constant(program->arena, part));
    ProgramValue read = add(program, node, NULL, 0);
    ProgramNode more = {.kind = NODE_MAP,
                        .source = reduce->source,
                        .mark = reduce->mark,
                        .type = type,
                        .compute = type,
                        .op = ONNX_Add};
    value = part ? add(program, more, (ProgramValue[]){value, read}, 2) : read;
  }
  return value.node;
}

/* What is computed of a sum. */
static void add_sum(const Gradient *at, Program *program, unsigned sum)
{
  const Program *whole = at->program;
  g_autofree unsigned *place = g_new0(unsigned, whole->n_nodes + 1);
  g_autofree bool *of = nodes_of(whole, at->sums[sum]);
  place[at->sums[sum]] = add_parts(at, program, sum);
  for (unsigned i = at->sums[sum] + 1; i < whole->n_nodes; i++) {
    if (!of[i]) continue;
    place[i] = program->n_nodes;
    program->nodes[program->n_nodes++] = program_moved(whole, &whole->nodes[i], place, program->arena);
  }
}

/* Sums of as many columns share a kernel: those of the second are the first's. */
static bool share_columns(const Gradient *at, Renamed *renamed)
{
  const Program *whole = at->program;
  if (at->n_sums < 2) return false;
  uint32_t first = whole->varies[at->sums[0]], second = whole->varies[at->sums[1]], own = first & ~second,
           other = second & ~first;
  if (__builtin_popcount(own) != 1 || __builtin_popcount(other) != 1) return false;
  const ProgramAxis *to = &whole->axes[__builtin_ctz(own)], *from = &whole->axes[__builtin_ctz(other)];
  *renamed = (Renamed){from->symbol, to->symbol};
  return symbolic_same(from->extent, to->extent) && at->parts <= MOST_SHARED;
}

static Program *sums_program(const Gradient *at, unsigned sum, const Renamed *second)
{
  const Program *whole = at->program;
  Program *program = open_program(at, 4 * (unsigned)at->parts);
  program->n_axes = 0;
  for (unsigned i = 0; i < whole->n_axes; i++)
    if (whole->varies[at->sums[sum]] >> i & 1) program->axes[program->n_axes++] = whole->axes[i];
  add_sum(at, program, sum);
  if (second) {
    unsigned from = program->n_nodes;
    add_sum(at, program, 1);
    for (unsigned i = from; i < program->n_nodes; i++)
      rename_node(program, &program->nodes[i], *second);
  }
  program_settle(program);
  return program;
}

/* What is behind a sum is of it alone, and varies along its axes. */
static bool ends(const Gradient *at)
{
  const Program *program = at->program;
  for (unsigned s = 0; s < at->n_sums; s++) {
    g_autofree bool *of = nodes_of(program, at->sums[s]);
    for (unsigned i = at->sums[s] + 1; i < program->n_nodes; i++) {
      const ProgramNode *node = &program->nodes[i];
      if (!of[i]) continue;
      if ((node->kind != NODE_MAP && node->kind != NODE_WRITE) || node->combines) return false;
      for (unsigned j = 0; j < node->n_operands; j++)
        if (node->operands[j].kind == VALUE_NODE && !of[node->operands[j].node]) return false;
    }
  }
  return true;
}

bool divide_gradient(const Program *program, unsigned way, ProgramDivision *division)
{
  Gradient at = {.program = program};
  Renamed second;
  bool applies;
  *division = (ProgramDivision){.n_programs = 0};
  if (!find_sums(&at) || !find_rows(&at) || !ends(&at) || !choose_way(&at, way, &applies)) return false;
  if (!applies || program->n_axes == PROGRAM_MAX_AXES) return true;
  make_part(&at);
  for (unsigned s = 0; s < at.n_sums; s++)
    if (!make_tensor(&at, s)) return true;
  division->programs[0] = parts_program(&at);
  division->suffixes[0] = PARTS_SUFFIX;
  division->n_programs = 1;
  bool shared = share_columns(&at, &second);
  for (unsigned s = 0; s < (shared ? 1 : at.n_sums); s++) {
    division->suffixes[division->n_programs] = SUMS_SUFFIX;
    division->programs[division->n_programs++] = sums_program(&at, s, shared ? &second : NULL);
  }
  memcpy(division->workspace, at.tensors, sizeof at.tensors);
  division->n_workspace = at.n_sums;
  division->how = arena_printf(program->arena, "in %d parts of its %s", (int)at.parts,
                               (int)at.axis != at.row ? "heads that share keys"
                               : at.of_queries        ? "keys"
                                                      : "rows");
  return true;
}
