/* Rows in parts: few long rows are few blocks, so each row's parts are reduced by blocks of their own, which leave what
 * they have in the workspace, and a second kernel reduces that, in the order of the parts.
 *
 *   %1 = reduce sum {c} %0      becomes      write parts[c / 4096, r] sum= %0
 *   write y[r] = %1                          %2 = read parts[p, r]    %3 = reduce sum {p} %2    write y[r] = %3
 *
 * Of several axes that a reduction takes together one is divided; of those outside of it every index has parts of its
 * own, and those inside of it stay whole. */
#include "generator/program/division.h"
#include "generator/program/family.h"

#define WIDTH_STEP   2  /* widths of parts are tried as powers of 4 */
#define MOST_WIDTHS  12 /* up to 4^11 indices */
#define PARTS_SUFFIX "_parts"

typedef struct {
  const Program *program;
  unsigned reduce; /* the node */
  unsigned axis;   /* that is divided */
  int64_t width;
  uint32_t outer; /* reduced axes outside of it */
  ProgramAxis part;
  ProgramReduction combine;
  GraphTensor *parts;
} Rows;

static bool is_plain(const ProgramNode *node)
{
  bool accesses = node->kind == NODE_READ || node->kind == NODE_WRITE;
  for (unsigned d = 0; accesses && d < node->access.tensor->rank; d++)
    if (node->access.at[d].node != PROGRAM_NONE) return false;
  return !node->combines && node->kind != NODE_SCAN && node->kind != NODE_INDEX;
}

static int64_t constant_extent(const Program *program, uint32_t axes)
{
  int64_t product = 1, extent;
  for (unsigned i = 0; i < program->n_axes; i++) {
    if (!(axes >> i & 1)) continue;
    if (!symbolic_is_constant(program->axes[i].extent, &extent)) return 0;
    product *= extent;
  }
  return product;
}

/* One reduction that parts can be taken of; a mean divides by a number that must be known here. */
static bool find_reduction(Rows *rows)
{
  const Program *program = rows->program;
  unsigned n = 0;
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    if (!is_plain(node)) return false;
    if (node->kind != NODE_REDUCE) continue;
    rows->reduce = i;
    n++;
  }
  for (unsigned i = 0; i < program->n_axes; i++)
    if (program->axes[i].length != PROGRAM_NONE) return false;
  const ProgramNode *node = &program->nodes[rows->reduce];
  if (n != 1 || !node->axes || node->operands[0].kind != VALUE_NODE) return false;
  switch (node->reduction) {
  case REDUCTION_SUM:
  case REDUCTION_MAX:
  case REDUCTION_MIN: rows->combine = node->reduction; return true;
  case REDUCTION_MEAN: rows->combine = REDUCTION_SUM; return constant_extent(program, node->axes) > 0;
  case REDUCTION_PROD:
  case REDUCTION_ARG_MAX:
  case REDUCTION_ARG_MIN:
  case REDUCTION_DOT:
  case REDUCTION_MOMENTS:
  case REDUCTION_MAX_SUM:
  case REDUCTION_LARGEST:
  case REDUCTION_SMALLEST:
  case REDUCTION_BEGINS:
  case REDUCTION_LENGTHS:
  case REDUCTION_FIRST_OF:
  case REDUCTION_COUNT_OF:
  case REDUCTION_TALLY:
  case REDUCTION_TALLY_MAGNITUDES:
  case REDUCTION_TAKEN:
  case REDUCTION_PLACES:
  case REDUCTION_ENDS_OF:
  case REDUCTION_SOURCE_OF:
  case REDUCTION_COUNT: break;
  }
  return false;
}

/* Behind the reduction nothing varies along its axes any more. */
static bool ends(const Rows *rows)
{
  const Program *program = rows->program;
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    bool behind = (node->kind == NODE_MAP || node->kind == NODE_WRITE) && !program->in_front[i];
    if (behind && program->varies[i] & program->nodes[rows->reduce].axes) return false;
  }
  return true;
}

/* The axis and the width of the way. false: there are no more ways. *applies: to this program. */
static bool choose_way(Rows *rows, unsigned way, bool *applies)
{
  const Program *program = rows->program;
  uint32_t reduced = program->nodes[rows->reduce].axes;
  unsigned before = way / MOST_WIDTHS;
  int64_t extent;
  *applies = false;
  for (unsigned i = 0; i < program->n_axes; i++) {
    if (!(reduced >> i & 1)) continue;
    if (before) {
      rows->outer |= 1u << i;
      before--;
      continue;
    }
    rows->axis = i;
    rows->width = (int64_t)1 << WIDTH_STEP * (way % MOST_WIDTHS);
    bool known = symbolic_is_constant(program->axes[i].extent, &extent);
    *applies = rows->width > 1 && (!known || rows->width < extent);
    return true;
  }
  return false;
}

/* ---- the parts ---- */

/* Axes that are left of a value along which it has parts: what a part's place is made of. */
static uint32_t places(const Rows *rows)
{
  const ProgramNode *reduce = &rows->program->nodes[rows->reduce];
  return (rows->program->varies[reduce->operands[0].node] & ~reduce->axes) | rows->outer;
}

/* Parts, then rows: rows of the second kernel lie side by side. */
static bool make_tensor(Rows *rows)
{
  const Program *program = rows->program;
  Arena *arena = program->arena;
  const ProgramNode *reduce = &program->nodes[rows->reduce];
  GraphTensor *parts = arena_new_object(arena, GraphTensor);
  *parts = (GraphTensor){
      .name = "parts", .kind = TENSOR_COMPUTED, .type = reduce->compute, .align = 16, .mark = reduce->mark};
  parts->shape[parts->rank++] = rows->part.extent;
  for (unsigned i = 0; i < program->n_axes; i++) {
    if (!(places(rows) >> i & 1)) continue;
    if (parts->rank == GRAPH_MAX_RANK) return false;
    parts->shape[parts->rank++] = program->axes[i].extent;
  }
  const Symbolic *stride = symbolic_constant(arena, 1);
  for (unsigned i = parts->rank; i-- > 0;) {
    parts->strides[i] = stride;
    stride = symbolic_mul(arena, stride, parts->shape[i]);
  }
  rows->parts = parts;
  return true;
}

static ProgramAccess access_parts(const Rows *rows, const Symbolic *part)
{
  ProgramAccess access = {.tensor = rows->parts};
  unsigned d = 0;
  access.at[d++] = (ProgramIndex){part, PROGRAM_NONE};
  for (unsigned i = 0; i < rows->program->n_axes; i++)
    if (places(rows) >> i & 1) access.at[d++] = (ProgramIndex){rows->program->axes[i].symbol, PROGRAM_NONE};
  return access;
}

/* ---- the programs ---- */

static Program *open_program(const Rows *rows, unsigned more)
{
  Program *program = arena_memdup(rows->program->arena, rows->program, sizeof *program);
  program->nodes = arena_new_array(program->arena, ProgramNode, program->n_nodes + more);
  program->n_nodes = 0;
  return program;
}

static Program *first_program(const Rows *rows)
{
  const Program *whole = rows->program;
  const ProgramNode *reduce = &whole->nodes[rows->reduce];
  Program *program = open_program(rows, 1);
  g_autofree unsigned *place = g_new0(unsigned, whole->n_nodes + 1);
  const ProgramAxis *axis = &whole->axes[rows->axis];
  const Symbolic *part = symbolic_binary(program->arena, SYMBOLIC_DIV, axis->symbol,
                                         symbolic_constant(program->arena, rows->width));
  for (unsigned i = 0; i < rows->reduce; i++) {
    if (!whole->in_front[i]) continue;
    place[i] = program->n_nodes;
    program->nodes[program->n_nodes++] = program_moved(whole, &whole->nodes[i], place, program->arena);
  }
  ProgramNode write = program_moved(whole, reduce, place, program->arena);
  write.kind = NODE_WRITE;
  write.access = access_parts(rows, part);
  write.combines = true;
  write.reduction = rows->combine;
  write.axes = 0;
  write.type = rows->parts->type;
  program->nodes[program->n_nodes++] = write;
  program_settle(program);
  return program;
}

/* Nodes that what is written is computed from, but for what is in front of the reduction. */
static bool *nodes_behind(const Rows *rows)
{
  const Program *whole = rows->program;
  bool *behind = g_new0(bool, whole->n_nodes + 1);
  for (unsigned i = whole->n_nodes; i-- > 0;) {
    const ProgramNode *node = &whole->nodes[i];
    behind[i] |= node->kind == NODE_WRITE;
    for (unsigned j = 0; behind[i] && i != rows->reduce && j < node->n_operands; j++)
      if (node->operands[j].kind == VALUE_NODE) behind[node->operands[j].node] = true;
  }
  return behind;
}

/* The parts' axis first: it is the outermost of those that are reduced. Others that are reduced are gone. */
static uint32_t set_axes(const Rows *rows, Program *program)
{
  const Program *whole = rows->program;
  uint32_t gone = whole->nodes[rows->reduce].axes & ~rows->outer, reduced = 1;
  program->n_axes = 0;
  program->axes[program->n_axes++] = rows->part;
  for (unsigned i = 0; i < whole->n_axes; i++) {
    if (gone >> i & 1) continue;
    if (rows->outer >> i & 1) reduced |= 1u << program->n_axes;
    program->axes[program->n_axes++] = whole->axes[i];
  }
  return reduced;
}

static unsigned add(Program *program, ProgramNode node, const ProgramValue *operands, unsigned n)
{
  node.operands = arena_memdup(program->arena, operands, n * sizeof *operands);
  node.n_operands = n;
  program->nodes[program->n_nodes] = node;
  return program->n_nodes++;
}

/* Reads the parts and reduces them; a mean's sum is divided. */
static unsigned add_rest(const Rows *rows, Program *program, uint32_t reduced)
{
  const ProgramNode *whole = &rows->program->nodes[rows->reduce];
  NumberType type = rows->parts->type;
  ProgramNode read = {.kind = NODE_READ,
                      .source = whole->source,
                      .mark = whole->mark,
                      .type = type,
                      .compute = type,
                      .access = access_parts(rows, rows->part.symbol)};
  ProgramNode reduce = *whole;
  reduce.reduction = rows->combine;
  reduce.axes = reduced;
  ProgramValue value = {VALUE_NODE, add(program, read, NULL, 0), 0, 0, type};
  value.node = add(program, reduce, &value, 1);
  if (rows->combine == whole->reduction) return value.node;
  double count = (double)constant_extent(rows->program, whole->axes);
  ProgramNode quotient = {.kind = NODE_MAP,
                          .source = whole->source,
                          .mark = whole->mark,
                          .type = whole->type,
                          .compute = type,
                          .op = ONNX_Div};
  return add(program, quotient, (ProgramValue[]){value, {VALUE_IMMEDIATE, 0, 0, count, type}}, 2);
}

static Program *second_program(const Rows *rows)
{
  const Program *whole = rows->program;
  Program *program = open_program(rows, 3);
  g_autofree unsigned *place = g_new0(unsigned, whole->n_nodes + 1);
  g_autofree bool *behind = nodes_behind(rows);
  uint32_t reduced = set_axes(rows, program);
  for (unsigned i = 0; i < whole->n_nodes; i++) {
    if (!behind[i]) continue;
    if (i == rows->reduce) {
      place[i] = add_rest(rows, program, reduced);
      continue;
    }
    place[i] = program->n_nodes;
    program->nodes[program->n_nodes++] = program_moved(whole, &whole->nodes[i], place, program->arena);
  }
  program_settle(program);
  return program;
}

bool divide_row(const Program *program, unsigned way, ProgramDivision *division)
{
  Rows rows = {.program = program};
  bool applies;
  *division = (ProgramDivision){.n_programs = 0};
  if (!find_reduction(&rows) || !ends(&rows) || !choose_way(&rows, way, &applies)) return false;
  if (!applies) return true;
  rows.part = program_part_axis(program, symbolic_ceil_div(program->arena, program->axes[rows.axis].extent,
                                                           symbolic_constant(program->arena, rows.width)));
  if (!make_tensor(&rows) || program->n_axes == PROGRAM_MAX_AXES) return true;
  division->programs[0] = first_program(&rows);
  division->programs[1] = second_program(&rows);
  division->suffixes[0] = PARTS_SUFFIX;
  division->suffixes[1] = "";
  division->workspace[0] = rows.parts;
  division->n_programs = 2;
  division->n_workspace = 1;
  division->how =
      arena_printf(program->arena, "in parts of %d along %s", (int)rows.width, program->axes[rows.axis].name);
  return true;
}
