/* AppendRows: rows that go where a list says, into caches that stay where they are. A point is an element of the rows.
 *
 *   %0 = read slots[i0]; %1 = page of it, %2 = what is behind the page's first
 *   %3 = read rows[i0, i1, i2]
 *   write cache[%1, %2, i1, i2] skip = %3
 */
#include "generator/front/append.h"
#include "generator/program/build_private.h"
#include <string.h>

typedef struct {
  ProgramBuilder *at;
  const GraphNode *node;
  ProgramIndex place[GRAPH_MAX_RANK]; /* of the point in a cache */
} Append;

static ProgramValue map(Append *append, OperatorId op, NumberType type, ProgramValue a, ProgramValue b)
{
  return program_add_map(append->at, append->node, op, type, type, (ProgramValue[]){a, b}, 2);
}

static ProgramValue whole(Append *append, OperatorId op, ProgramValue a, ProgramValue b)
{
  return map(append, op, NUMBER_S32, a, b);
}

static const Symbolic *along(const Append *append, unsigned d)
{
  return append->at->program->axes[append->at->point[d]].symbol;
}

/* In 32 bits as it is: beyond them there is no place. */
static ProgramValue load_place(Append *append)
{
  ProgramAccess access = {.tensor = append->node->inputs[APPEND_PLACES]};
  access.at[0] = (ProgramIndex){along(append, 0), PROGRAM_NONE};
  ProgramValue place = program_add_read(append->at, append->node, access);
  if (access.tensor->type == NUMBER_S32) return place;
  place = map(append, ONNX_Min, NUMBER_S64, place, program_immediate(G_MAXINT32, NUMBER_S64));
  return map(append, ONNX_Max, NUMBER_S64, place, program_immediate(G_MININT32, NUMBER_S64));
}

/* Slots count through the pages. A negative one is in no page, or behind none's beginning, as quotients are cut off. */
static void place_slots(Append *append, unsigned rank)
{
  ProgramBuilder *at = append->at;
  const GraphTensor *cache = append_cache(append->node, 0);
  ProgramValue slot = load_place(append);
  append->place[0] = program_index_of(at, slot);
  if (cache->rank > rank) {
    ProgramValue rows = program_add_index(at, append->node, cache->shape[1]);
    ProgramValue page = whole(append, ONNX_Div, slot, rows);
    append->place[0] = program_index_of(at, page);
    append->place[1] =
        program_index_of(at, whole(append, ONNX_Sub, slot, whole(append, ONNX_Mul, page, rows)));
  }
  for (unsigned d = 1; d < rank; d++)
    append->place[d + cache->rank - rank] = (ProgramIndex){along(append, d), PROGRAM_NONE};
}

/* A negative place is in no page, or in front of the first one's rows, as quotients are cut off. */
ProgramIndex program_append_page(ProgramBuilder *at, const GraphNode *node, const Symbolic *batch,
                                 ProgramValue place, NumberType type, ProgramIndex *row)
{
  const GraphTensor *table = append_table(node), *cache = append_cache(node, 0);
  ProgramValue rows = program_add_index(at, node, cache->shape[__builtin_ctz(node->axes)]),
               page = program_add_map(at, node, ONNX_Div, type, type, (ProgramValue[]){place, rows}, 2),
               first = program_add_map(at, node, ONNX_Mul, type, type, (ProgramValue[]){page, rows}, 2);
  *row = program_index_of(at,
                          program_add_map(at, node, ONNX_Sub, type, type, (ProgramValue[]){place, first}, 2));
  ProgramAccess access = {.tensor = table, .outside = OUTSIDE_FILL, .fill = G_MININT32}; /* no page */
  access.at[0] = (ProgramIndex){batch, PROGRAM_NONE};
  access.at[1] = program_index_of(at, page);
  return program_index_of(at,
                          program_from_end(at, node, program_read_once(at, node, access), cache->shape[0]));
}

/* Row t of a batch is in the page that the table has at t / rows. */
static void place_in_pages(Append *append, unsigned axis)
{
  ProgramBuilder *at = append->at;
  ProgramValue place = program_add_index(at, append->node, along(append, axis));
  if (append->node->inputs[APPEND_PLACES]) place = whole(append, ONNX_Add, load_place(append), place);
  append->place[0] =
      program_append_page(at, append->node, along(append, 0), place, NUMBER_S32, &append->place[axis]);
}

static void place_behind_begins(Append *append, unsigned rank)
{
  ProgramBuilder *at = append->at;
  const GraphNode *node = append->node;
  unsigned axis = (unsigned)__builtin_ctz(node->axes);
  bool circular = !strcmp(graph_attribute(node, "mode")->text, "circular");
  for (unsigned d = 0; d < rank; d++)
    append->place[d] = (ProgramIndex){along(append, d), PROGRAM_NONE};
  if (append_table(node)) {
    place_in_pages(append, axis);
    return;
  }
  if (!node->inputs[APPEND_PLACES]) return;
  ProgramValue begin = load_place(append);
  append->place[axis].node = program_index_of(at, begin).node;
  if (!circular) return;
  ProgramValue row = program_add_index(at, node, along(append, axis)),
               extent = program_add_index(at, node, append_cache(node, 0)->shape[axis]);
  append->place[axis] =
      program_index_of(at, whole(append, ONNX_Mod, whole(append, ONNX_Add, begin, row), extent));
}

static void move(Append *append, unsigned i)
{
  ProgramBuilder *at = append->at;
  const GraphTensor *rows = append_rows(append->node, i), *cache = append->node->outputs[i];
  ProgramAccess from = {.tensor = rows}, to = {.tensor = cache, .outside = OUTSIDE_SKIP};
  if (!cache) return;
  for (unsigned d = 0; d < rows->rank; d++)
    from.at[d] = (ProgramIndex){along(append, d), PROGRAM_NONE};
  memcpy(to.at, append->place, cache->rank * sizeof *to.at);
  ProgramValue value = program_add_read(at, append->node, from);
  ProgramNode write = {
      .kind = NODE_WRITE, .source = append->node, .type = cache->type, .compute = cache->type, .access = to};
  program_add_node(at, write, &value, 1, cache->type);
}

void program_append_rows(ProgramBuilder *at, const GraphNode *node)
{
  Append append = {.at = at, .node = node};
  const GraphTensor *rows = append_rows(node, 0);
  for (unsigned d = 0; d < rows->rank; d++)
    at->point[d] = program_add_axis(at, 'i', rows->rank > 1 ? (int)d : -1, rows->shape[d]);
  at->point_rank = rows->rank;
  if (append_places(node) == APPEND_AT_SLOTS)
    place_slots(&append, rows->rank);
  else
    place_behind_begins(&append, rows->rank);
  for (unsigned i = 0; i < node->n_outputs; i++)
    move(&append, i);
}
