/* From a group of graph nodes to the program of their kernel. */
#pragma once
#include "generator/program/program.h"

/* Of a product's result its kernel reduces so many to one value: columns of a row, or rows of a column, which
 * are those that one warp has of it. */
#define REDUCED_COLUMNS 64
#define REDUCED_ROWS    16
/* Rows at least that a block of row programs takes one after the other, whose sums of columns it keeps: as many values leave it as a
 * row has, four bytes each. */
#define SUMMED_ROWS 32
/* Inputs of a product from here on: factors of its result (fusion/quantize.c), NULL or as far as they go. */
#define PRODUCT_SCALES 3
#define PRODUCT_ZERO   (PRODUCT_SCALES + 2) /* of the right operand, where it is narrow */

/* Does the scale or zero point of the right operand have an element for each group of rows? Results do not tell which is whose: it is
 * indexed as the operand is, which it lies as. */
bool program_varies_by_group(const GraphNode *product, unsigned operand, const GraphTensor *of_whole);

typedef struct ProgramGroup {
  Arena *arena;
  const Graph *graph;
  const char *name; /* the program's; may be NULL */
  GraphNode *const
      *nodes; /* in topological order: at most two matrix products, or row operators of one shape along
                              the same axes; of a product's result row operators reduce parts */
  unsigned n;
  bool chained;    /* of the two products the second takes what is computed from the first one's result */
  int64_t mean_of; /* the row operator's sum is divided by so many elements; 0: it is not */
  bool (*leaves)(const GraphTensor *tensor, void *data); /* what other groups, or the graph, want of it */
  void *data;
} ProgramGroup;

/* Does a view of what the node gathers show rows of pages, one page behind the other, by a table of two dimensions? Then both go into
 * a program of two products as an operand (build_pages.c). */
bool program_shows_pages(Arena *arena, const GraphNode *gather, const GraphTensor *view);
/* Does the row operator leave sums over some rows each, of every column? Beside operators of whole rows its parts
 * are summed as they are written. */
bool program_sums_rows(const GraphNode *node);
/* Over how many rows each: as few as make so many parts of known rows, else SUMMED_ROWS. */
int64_t program_summed_rows(const GraphNode *node);
/* Does the product's right operand, a view of what the node widens from 8 bits to 16, tell where its elements and their scales were?
 * Then the node goes into a program of two products with it (build_widened.c). gathered: these lie in pages; weighed: scales may vary
 * along what is contracted. */
bool program_shows_widened(Arena *arena, const GraphNode *node, const GraphNode *product, bool gathered,
                           bool weighed);
/* The same of its left operand, which a Cast widens. */
bool program_shows_widened_queries(Arena *arena, const GraphNode *node, const GraphNode *product);
/* Does the product's right operand, or what `widener` widens to it (NULL: nobody does), show a cache that the node (AppendRows) puts one row of
 * each batch into? Then the node goes into a program of two products, which read that row where it comes from (build_joined.c). gather: what
 * is multiplied or widened is gathered of the cache's pages; NULL: it lies there. */
bool program_shows_joined(Arena *arena, const GraphNode *node, const GraphNode *product,
                          const GraphNode *widener, const GraphNode *gather);
Program *program_build(const ProgramGroup *group);
