/* New rows of caches: an operand of two products that is a view of a cache which a node of their group (AppendRows) puts one new row of
 * each batch into, and which nobody else reads. What stands at the row's place is read of the new rows, all else of the cache as it was.
 *
 *   %0 = read begins[b0]                    %3 = read rows[b0, b1, 0, d]
 *   %1 = index t   %2 = map Equal(%1, %0)   %4 = read cache[b0, b1, t, d]   %5 = map Where(%2, %3, %4)
 *   write cache[b0, b1, %0, d] skip = %3
 *
 * Of a cache in pages the view is of what was gathered of them, by the table that the rows go by: %4 = read cache[%p, t % rows, b1, d] as
 * build_pages.c has it, and the row goes to the page that the table has at %0 / rows.
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

/* The cache, or the view of it whose pages are gathered for the operand. */
static const GraphTensor *stored_of(const ProgramBuilder *at, const GraphTensor *operand)
{
  const GraphNode *gather = program_pages_of(at, operand);
  return gather ? gather->inputs[0] : operand;
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
    if (program_joins_rows(at, node) && output_of(node, stored_of(at, tensor)) < node->n_outputs) return node;
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

/* Do the pages that are gathered of the view show the cache's, by the table that rows go by? */
static bool shows_pages(Arena *arena, const GraphNode *node, const GraphNode *gather)
{
  const GraphTensor *view = gather->inputs[0], *table = append_table(node);
  unsigned output = output_of(node, view), axis = (unsigned)__builtin_ctz(node->axes);
  const Symbolic *index[GRAPH_MAX_RANK];
  ProgramAccess access = {.tensor = view};
  if (!table || output == node->n_outputs || gather->inputs[1] != table || view->rank < 2) return false;
  const GraphTensor *cache = node->outputs[output];
  const unsigned dims[] = {0, axis};
  for (unsigned i = 0; i < G_N_ELEMENTS(dims); i++)
    if (!symbolic_same(view->strides[i], cache->strides[dims[i]]) ||
        !symbolic_same(view->shape[i], cache->shape[dims[i]]))
      return false;
  for (unsigned d = 0; d < view->rank; d++)
    access.at[d] = (ProgramIndex){symbolic_constant(arena, 0), PROGRAM_NONE};
  return (!view->begins || symbolic_equals(view->begins, 0)) && find_indices(arena, cache, &access, index);
}

bool program_shows_joined(Arena *arena, const GraphNode *node, const GraphNode *product,
                          const GraphNode *widener, const GraphNode *gather)
{
  if (gather) return appends_row(node) && shows_pages(arena, node, gather);
  const GraphTensor *view = product->inputs[1], *stored = widener ? widener->inputs[0] : view;
  const Symbolic *index[GRAPH_MAX_RANK];
  ProgramAccess access = {.tensor = view};
  unsigned output = output_of(node, stored);
  bool begins = (view->begins && !symbolic_equals(view->begins, 0)) ||
                (stored->begins && !symbolic_equals(stored->begins, 0));
  if (!appends_row(node) || append_table(node) || output == node->n_outputs || begins) return false;
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

/* Where a point of the operand is in the cache, as if its batches stood side by side and their pages behind one another. */
static void find_point(ProgramBuilder *at, const GraphNode *node, const ProgramAccess *access,
                       const Symbolic **index)
{
  const GraphNode *gather = program_pages_of(at, access->tensor);
  unsigned axis = (unsigned)__builtin_ctz(node->axes);
  ProgramAccess point = *access;
  if (gather) point = program_gathered_point(at, gather, access);
  find_indices(at->program->arena, node->outputs[output_of(node, point.tensor)], &point, index);
  if (!gather) return;
  index[0] = point.at[0].of_axes;
  index[axis] = point.at[1].of_axes;
}

/* The element as it is in the cache in front of the new row. */
static ProgramValue read_before(ProgramBuilder *at, const GraphNode *node, const ProgramAccess *access)
{
  const GraphNode *gather = program_pages_of(at, access->tensor);
  const GraphTensor *stored = gather ? gather->inputs[0] : access->tensor;
  const GraphTensor *memory =
      view_of_memory(at->program->arena, stored, append_cache(node, output_of(node, stored)));
  ProgramAccess before = *access;
  before.tensor = memory;
  return gather ? program_read_page_of(at, gather, memory, access) : program_add_read(at, node, before);
}

ProgramValue program_read_joined(ProgramBuilder *at, const GraphNode *node, const ProgramAccess *access)
{
  unsigned output = output_of(node, stored_of(at, access->tensor)),
           axis = (unsigned)__builtin_ctz(node->axes);
  const GraphTensor *cache = node->outputs[output];
  const Symbolic *index[GRAPH_MAX_RANK];
  find_point(at, node, access, index);
  const ProgramValue sides[] = {program_add_index(at, node, index[axis]), read_place(at, node, index[0])};
  const ProgramValue parts[] = {
      program_add_map(at, node, ONNX_Equal, NUMBER_BOOL, NUMBER_S64, sides, G_N_ELEMENTS(sides)),
      read_row(at, node, output, index), read_before(at, node, access)};
  return program_add_map(at, node, ONNX_Where, cache->type, cache->type, parts, G_N_ELEMENTS(parts));
}

/* The product whose operand is the cache, and what widens it. */
static const GraphNode *reader_of(const ProgramBuilder *at, const GraphTensor *cache,
                                  const GraphNode **widener)
{
  const GraphNode *product = at->anchor;
  *widener = program_widener_of(at, product->inputs[1]);
  if (stored_of(at, *widener ? (*widener)->inputs[0] : product->inputs[1])->index == cache->index)
    return product;
  *widener = program_widener_of(at, at->second->inputs[1]);
  return at->second;
}

void program_write_joined(ProgramBuilder *at, const GraphNode *node, unsigned output)
{
  const GraphTensor *cache = node->outputs[output];
  const GraphNode *widener, *product = reader_of(at, cache, &widener);
  const Symbolic *index[GRAPH_MAX_RANK];
  unsigned axis = (unsigned)__builtin_ctz(node->axes);
  program_stand_at(at, product->outputs[0]);
  ProgramAccess access = program_matrix_access(at, product, product->inputs[1], true);
  if (widener) access = program_access_widened(at->program->arena, widener, &access);
  find_point(at, node, &access, index);
  ProgramAccess to = {.tensor = cache, .outside = OUTSIDE_SKIP};
  ProgramValue place = read_place(at, node, index[0]);
  for (unsigned d = 0; d < cache->rank; d++)
    to.at[d] = (ProgramIndex){index[d], PROGRAM_NONE};
  if (append_table(node))
    to.at[0] = program_append_page(at, node, index[0], place, NUMBER_S64, &to.at[axis]);
  else
    to.at[axis] = program_index_of(at, place);
  const ProgramValue row = read_row(at, node, output, index);
  ProgramNode write = {
      .kind = NODE_WRITE, .source = node, .type = cache->type, .compute = cache->type, .access = to};
  program_add_node(at, write, &row, 1, cache->type);
}
