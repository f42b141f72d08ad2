/* Keys and values in pages: a product's operand that is a view of gathered pages, `cache[table[b, p], row, ...]` with p and row as
 * one dimension, is read where it lies, at `cache[%i, t % rows, ...]` behind `%i = table[b, t / rows]`. */
#include "generator/program/build_private.h"

enum { PAGE, ROW, REST }; /* dimensions of the cache */

static bool is_paging(const GraphNode *node)
{
  return node->op->id == ONNX_Gather && node->axes == 1u && node->inputs[1]->rank == 2 &&
         node->inputs[0]->rank > REST;
}

const GraphNode *program_pages_of(const ProgramBuilder *at, const GraphTensor *tensor)
{
  for (unsigned i = 0; at->second && i < at->group->n; i++) {
    const GraphNode *node = at->group->nodes[i];
    if (is_paging(node) && node->outputs[0]->index == tensor->index) return node;
  }
  return NULL;
}

bool program_gathers_pages(const ProgramBuilder *at, const GraphNode *node)
{
  return at->second && is_paging(node);
}

bool program_index_along(const GraphTensor *gathered, unsigned dim, const ProgramAccess *access,
                         const Symbolic *extent, const Symbolic **index)
{
  for (unsigned d = 0; d < access->tensor->rank; d++) {
    if (!symbolic_same(access->tensor->strides[d], gathered->strides[dim]) ||
        !symbolic_same(access->tensor->shape[d], extent))
      continue;
    *index = access->at[d].of_axes;
    return true;
  }
  return symbolic_equals(extent, 1);
}

/* The page's number: negative ones count from the end, as Gather's do. */
static ProgramIndex page_index(ProgramBuilder *at, const GraphNode *node, const GraphTensor *table,
                               const Symbolic *pages, const Symbolic *batch, const Symbolic *page)
{
  ProgramAccess access = {.tensor = table};
  access.at[0] = (ProgramIndex){batch, PROGRAM_NONE};
  access.at[1] = (ProgramIndex){page, PROGRAM_NONE};
  return program_index_of(at, program_from_end(at, node, program_read_once(at, node, access), pages));
}

ProgramAccess program_page_access(ProgramBuilder *at, const GraphNode *node, const GraphTensor *cache,
                                  const GraphTensor *table, const Symbolic *batch, const Symbolic *key)
{
  Arena *arena = at->program->arena;
  const Symbolic *rows = cache->shape[ROW];
  ProgramAccess page = {.tensor = cache, .outside = OUTSIDE_FILL};
  page.at[PAGE] =
      page_index(at, node, table, cache->shape[PAGE], batch, symbolic_binary(arena, SYMBOLIC_DIV, key, rows));
  page.at[ROW] = (ProgramIndex){symbolic_binary(arena, SYMBOLIC_MOD, key, rows), PROGRAM_NONE};
  return page;
}

ProgramAccess program_gathered_point(ProgramBuilder *at, const GraphNode *gather, const ProgramAccess *access)
{
  Arena *arena = at->program->arena;
  const GraphTensor *cache = gather->inputs[0], *gathered = gather->outputs[0];
  const Symbolic *index[GRAPH_MAX_RANK], *keys = symbolic_mul(arena, gathered->shape[1], cache->shape[ROW]);
  ProgramAccess point = {.tensor = cache};
  for (unsigned d = 0; d < gathered->rank; d++)
    index[d] = symbolic_constant(arena, 0);
  /* dimensions of what was gathered: batch, page, row, others; page and row are one in the view */
  program_index_along(gathered, 0, access, gathered->shape[0], &index[0]);
  program_index_along(gathered, 2, access, keys, &index[2]);
  for (unsigned d = 3; d < gathered->rank; d++)
    program_index_along(gathered, d, access, gathered->shape[d], &index[d]);
  for (unsigned d = 0; d < cache->rank; d++)
    point.at[d] = (ProgramIndex){index[d ? d + 1 : 0], PROGRAM_NONE};
  return point;
}

ProgramValue program_read_page_of(ProgramBuilder *at, const GraphNode *gather, const GraphTensor *cache,
                                  const ProgramAccess *access)
{
  ProgramAccess point = program_gathered_point(at, gather, access);
  ProgramAccess page = program_page_access(at, gather, cache, gather->inputs[1], point.at[PAGE].of_axes,
                                           point.at[ROW].of_axes);
  for (unsigned d = REST; d < cache->rank; d++)
    page.at[d] = point.at[d];
  return program_add_read(at, gather, page);
}

ProgramValue program_read_page(ProgramBuilder *at, const GraphNode *gather, const ProgramAccess *access)
{
  return program_read_page_of(at, gather, gather->inputs[0], access);
}

bool program_shows_pages(Arena *arena, const GraphNode *gather, const GraphTensor *view)
{
  const GraphTensor *cache = gather->inputs[0], *gathered = gather->outputs[0];
  ProgramAccess access = {.tensor = view};
  const Symbolic *index;
  if (!is_paging(gather) || (view->begins && !symbolic_equals(view->begins, 0)) ||
      !symbolic_is_constant(cache->shape[ROW], NULL))
    return false;
  const Symbolic *keys = symbolic_mul(arena, gathered->shape[1], cache->shape[ROW]);
  for (unsigned d = 0; d < view->rank; d++)
    access.at[d] = (ProgramIndex){keys, PROGRAM_NONE};
  bool shows = program_index_along(gathered, 0, &access, gathered->shape[0], &index) &&
               program_index_along(gathered, 2, &access, keys, &index);
  for (unsigned d = 3; shows && d < gathered->rank; d++)
    shows = program_index_along(gathered, d, &access, gathered->shape[d], &index);
  return shows;
}
