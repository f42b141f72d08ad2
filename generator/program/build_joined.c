/* New rows of caches: an operand of two products that is a view of a cache which a node of their group (AppendRows) puts one new row of
 * each batch into, and which nobody else reads. What stands at the row's place is read of the new rows, all else of the cache as it was.
 *
 *   %0 = read begins[b0]                    %3 = read rows[b0, b1, 0, d]
 *   %1 = index t   %2 = map Equal(%1, %0)   %4 = read cache[b0, b1, t, d]   %5 = map Where(%2, %3, %4)
 *   write cache[b0, b1, %0, d] skip = %3
 */
#include "generator/front/append.h"
#include "generator/program/build_private.h"
#include <string.h>

static bool appends_row(const GraphNode *node)
{
  if (node->op->id != ONNX_AppendRows || !node->inputs[APPEND_PLACES] || !node->axes) return false;
  unsigned axis = (unsigned)__builtin_ctz(node->axes);
  bool linear = !strcmp(graph_attribute(node, "mode")->text, "linear");
  return append_places(node) == APPEND_AT_BEGINS && linear && axis > 0 &&
         symbolic_equals(append_rows(node, 0)->shape[axis], 1);
}

static unsigned output_of(const GraphNode *node, const GraphTensor *view)
{
  unsigned output = 0;
  while (output < node->n_outputs && (!node->outputs[output] || node->outputs[output]->index != view->index))
    output++;
  return output;
}

const GraphNode *program_joiner_of(const ProgramBuilder *at, const GraphTensor *tensor)
{
  for (unsigned i = 0; at->second && i < at->group->n; i++) {
    const GraphNode *node = at->group->nodes[i];
    if (program_joins_rows(at, node) && output_of(node, tensor) < node->n_outputs) return node;
  }
  return NULL;
}

bool program_joins_rows(const ProgramBuilder *at, const GraphNode *node)
{
  return at->second && appends_row(node);
}

/* Where the view's point lies along each dimension of the cache. */
static bool find_indices(Arena *arena, const GraphTensor *cache, const ProgramAccess *access,
                         const Symbolic **index)
{
  for (unsigned d = 0; d < cache->rank; d++) {
    index[d] = symbolic_constant(arena, 0);
    if (!program_index_along(cache, d, access, cache->shape[d], &index[d])) return false;
  }
  return true;
}

bool program_shows_joined(Arena *arena, const GraphNode *node, const GraphNode *product,
                          const GraphNode *widener)
{
  const GraphTensor *view = product->inputs[1], *stored = widener ? widener->inputs[0] : view;
  const Symbolic *index[GRAPH_MAX_RANK];
  ProgramAccess access = {.tensor = view};
  unsigned output = output_of(node, stored);
  bool begins = (view->begins && !symbolic_equals(view->begins, 0)) ||
                (stored->begins && !symbolic_equals(stored->begins, 0));
  if (!appends_row(node) || output == node->n_outputs || begins) return false;
  for (unsigned d = 0; d < view->rank; d++)
    access.at[d] = (ProgramIndex){symbolic_constant(arena, 0), PROGRAM_NONE};
  if (widener) access = program_access_widened(arena, widener, &access);
  return find_indices(arena, node->outputs[output], &access, index);
}

/* The view's elements as they are in another tensor that lies like the cache. */
static GraphTensor *view_of_memory(Arena *arena, const GraphTensor *view, const GraphTensor *memory)
{
  GraphTensor *same = arena_memdup(arena, memory, sizeof *memory);
  same->rank = view->rank;
  memcpy(same->shape, view->shape, sizeof same->shape);
  memcpy(same->strides, view->strides, sizeof same->strides);
  return same;
}

static ProgramValue read_place(ProgramBuilder *at, const GraphNode *node, const Symbolic *batch)
{
  ProgramAccess access = {.tensor = node->inputs[APPEND_PLACES]};
  access.at[0] = (ProgramIndex){batch, PROGRAM_NONE};
  return program_read_once(at, node, access);
}

/* The new row's element at a point of the cache. */
static ProgramValue read_row(ProgramBuilder *at, const GraphNode *node, unsigned output,
                             const Symbolic *const *index)
{
  unsigned axis = (unsigned)__builtin_ctz(node->axes);
  ProgramAccess access = {.tensor = append_rows(node, output)};
  for (unsigned d = 0; d < access.tensor->rank; d++)
    access.at[d] =
        (ProgramIndex){d == axis ? symbolic_constant(at->program->arena, 0) : index[d], PROGRAM_NONE};
  return program_read_once(at, node, access);
}

ProgramValue program_read_joined(ProgramBuilder *at, const GraphNode *node, const ProgramAccess *access)
{
  unsigned output = output_of(node, access->tensor), axis = (unsigned)__builtin_ctz(node->axes);
  const GraphTensor *cache = node->outputs[output];
  const Symbolic *index[GRAPH_MAX_RANK];
  find_indices(at->program->arena, cache, access, index);
  const ProgramValue sides[] = {program_add_index(at, node, index[axis]), read_place(at, node, index[0])};
  ProgramAccess before = *access;
  before.tensor = view_of_memory(at->program->arena, access->tensor, append_cache(node, output));
  const ProgramValue parts[] = {
      program_add_map(at, node, ONNX_Equal, NUMBER_BOOL, NUMBER_S64, sides, G_N_ELEMENTS(sides)),
      read_row(at, node, output, index), program_add_read(at, node, before)};
  return program_add_map(at, node, ONNX_Where, cache->type, cache->type, parts, G_N_ELEMENTS(parts));
}

void program_write_joined(ProgramBuilder *at, const GraphNode *node, unsigned output)
{
  const GraphTensor *cache = node->outputs[output];
  const GraphNode *widener = program_widener_of(at, at->anchor->inputs[1]), *product = at->anchor;
  if ((widener ? widener->inputs[0] : product->inputs[1])->index != cache->index) {
    product = at->second;
    widener = program_widener_of(at, product->inputs[1]);
  }
  const Symbolic *index[GRAPH_MAX_RANK];
  unsigned axis = (unsigned)__builtin_ctz(node->axes);
  program_stand_at(at, product->outputs[0]);
  ProgramAccess access = program_matrix_access(at, product, product->inputs[1], true);
  if (widener) access = program_access_widened(at->program->arena, widener, &access);
  find_indices(at->program->arena, cache, &access, index);
  ProgramAccess to = {.tensor = cache, .outside = OUTSIDE_SKIP};
  for (unsigned d = 0; d < cache->rank; d++)
    to.at[d] = d == axis ? program_index_of(at, read_place(at, node, index[0]))
                         : (ProgramIndex){index[d], PROGRAM_NONE};
  const ProgramValue row = read_row(at, node, output, index);
  ProgramNode write = {
      .kind = NODE_WRITE, .source = node, .type = cache->type, .compute = cache->type, .access = to};
  program_add_node(at, write, &row, 1, cache->type);
}
