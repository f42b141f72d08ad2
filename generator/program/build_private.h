/* Between build*.c only: build_values.c is below, build_operators.c between, build.c above. */
#pragma once
#include "generator/program/build.h"

typedef struct ProgramBuilder {
  const ProgramGroup *group;
  Program *program;
  GHashTable *values;      /* tensor -> ProgramValue of what the group computes */
  GArray *nodes;           /* ProgramNode */
  const GraphNode *anchor; /* the first product, else a row operator; NULL: neither */
  bool product;
  const GraphNode *second;   /* a product of what is computed from the anchor's result; NULL: there is none */
  GHashTable *behind;        /* then tensors that are computed from its result, and this */
  int point[GRAPH_MAX_RANK]; /* axis of each dimension of elementwise values; PROGRAM_NONE: its extent is 1 */
  unsigned point_rank;
  int whole
      [GRAPH_MAX_RANK]; /* rows: the point of their elements, and that of one value a row without its dimensions */
  int left[GRAPH_MAX_RANK];
  unsigned whole_rank, left_rank;
  uint32_t reduced; /* axes that row operators take together */
  /* of two products one behind the other: the second's point is `left`, the first's `whole` */
  int m, n, k; /* of a product; m, n: PROGRAM_NONE for vectors */
  int batch;   /* axis of the batches over which a product is summed; PROGRAM_NONE: over none */
  int groups;  /* axis of the groups whose rows m counts, or whose parts of k; PROGRAM_NONE: all are of one */
  int counted; /* that axis, m or k; PROGRAM_NONE as `groups` */
  int begin;   /* node that loads where a group begins along it; PROGRAM_NONE: at 0 */
  int keys, width,
      depth; /* of two products: what the second contracts, its columns, what the first contracts */
  const GraphTensor
      *row_sums; /* of two products: one value a row, without the dimension of keys; NULL: there is none */
} ProgramBuilder;

/* build_values.c */
/* A tensor that broadcasts to the point's shape: aligned with its last dimensions. */
ProgramAccess program_point_access(const ProgramBuilder *at, const GraphTensor *tensor);
/* Parts of a product's result: one index for so many rows or columns, whatever the extents. */
ProgramAccess program_parts_access(const ProgramBuilder *at, const GraphNode *node,
                                   const GraphTensor *tensor);
/* The first of a row that is in order: points behind the tensor's end are left out. */
ProgramAccess program_first_access(const ProgramBuilder *at, const GraphNode *node,
                                   const GraphTensor *tensor);
/* Operands of the node are copied. `held`: the value's type. */
ProgramValue program_add_node(ProgramBuilder *at, ProgramNode node, const ProgramValue *operands, unsigned n,
                              NumberType held);
ProgramValue program_add_map(ProgramBuilder *at, const GraphNode *source, OperatorId op, NumberType type,
                             NumberType compute, const ProgramValue *operands, unsigned n);
ProgramValue program_add_read(ProgramBuilder *at, const GraphNode *reader, ProgramAccess access);
/* The same read, if there is one already. */
ProgramValue program_read_once(ProgramBuilder *at, const GraphNode *reader, ProgramAccess access);
ProgramValue program_immediate(double value, NumberType type);
/* A tensor's value at the point: computed, an immediate, or read. */
ProgramValue program_operand(ProgramBuilder *at, const GraphNode *reader, const GraphTensor *tensor);
/* An operand of a product, along rows (or columns: `is_b`) and k. */
ProgramAccess program_matrix_access(const ProgramBuilder *at, const GraphNode *node,
                                    const GraphTensor *tensor, bool is_b);
/* The scale or zero point of a product's operand, whose index is the operand's divided by the blocks' extents. */
ProgramValue program_block_value(ProgramBuilder *at, const GraphNode *node, unsigned operand,
                                 const GraphTensor *of_blocks);
void program_set_value(ProgramBuilder *at, const GraphTensor *tensor, ProgramValue value);
/* From here on values belong to the tensor's points: of rows' elements or, with dimensions gone, to whole rows. */
void program_stand_at(ProgramBuilder *at, const GraphTensor *tensor);
/* An axis beside those of the points: its letter, and its number where there are several (else -1). */
int program_add_axis(ProgramBuilder *at, char letter, int number, const Symbolic *extent);
/* A reduction along such axes, of as many operands as it has. */
ProgramValue program_add_reduction(ProgramBuilder *at, const GraphNode *node, ProgramReduction reduction,
                                   uint32_t axes, NumberType compute, const ProgramValue *operands);
/* An expression of axes as a value: an immediate where it is constant. */
ProgramValue program_add_index(ProgramBuilder *at, const GraphNode *node, const Symbolic *index);
/* Negative indices count from the end. `index` is loaded. */
ProgramValue program_from_end(ProgramBuilder *at, const GraphNode *node, ProgramValue index,
                              const Symbolic *extent);
/* A value as an index. */
ProgramIndex program_index_of(ProgramBuilder *at, ProgramValue value);

/* build_index.c */
/* Where an element lies in its row: an index, over all columns. */
ProgramValue program_column(ProgramBuilder *at, const GraphNode *node);
void program_add_indexed(ProgramBuilder *at, const GraphNode *node);
/* build_pages.c: a Gather of the group that gathers whole pages of an operand of its products, by a table of two dimensions, of
 * which the tensor is a view; or NULL. */
const GraphNode *program_pages_of(const ProgramBuilder *at, const GraphTensor *tensor);
/* Does the node only gather pages for products? */
bool program_gathers_pages(const ProgramBuilder *at, const GraphNode *node);
/* The operand's element out of its page: `access` is that of the view. */
ProgramValue program_read_page(ProgramBuilder *at, const GraphNode *gather, const ProgramAccess *access);
/* The same of the cache as it lies in other memory. */
ProgramValue program_read_page_of(ProgramBuilder *at, const GraphNode *gather, const GraphTensor *cache,
                                  const ProgramAccess *access);
/* Batch, key and what else of the cache that the view's point is in: the key where a page's row would be. */
ProgramAccess program_gathered_point(ProgramBuilder *at, const GraphNode *gather,
                                     const ProgramAccess *access);
/* The access of row `key` of a sequence in its page, by the table; further dimensions are the caller's. */
ProgramAccess program_page_access(ProgramBuilder *at, const GraphNode *node, const GraphTensor *cache,
                                  const GraphTensor *table, const Symbolic *batch, const Symbolic *key);
/* Where the access of a view lies along a dimension of the tensor, if the view walks along it: the one of that stride. */
bool program_index_along(const GraphTensor *tensor, unsigned dim, const ProgramAccess *access,
                         const Symbolic *extent, const Symbolic **index);
/* build_widened.c: a node of the group of two products that widens elements of 8 bits, of which the tensor is a view; or NULL. */
const GraphNode *program_widener_of(const ProgramBuilder *at, const GraphTensor *tensor);
/* Does the node only widen operands of products? */
bool program_is_widener(const ProgramBuilder *at, const GraphNode *node);
/* The element before it is widened, and what multiplies it: `access` is that of the view. The latter is absent where there is none, or
 * where it does not vary along what is contracted (along), or does. */
ProgramAccess program_access_widened(Arena *arena, const GraphNode *node, const ProgramAccess *access);
ProgramValue program_read_widened(ProgramBuilder *at, const GraphNode *node, const ProgramAccess *access);
ProgramValue program_widened_scale(ProgramBuilder *at, const GraphNode *node, const ProgramAccess *access,
                                   bool along);
/* build_append.c: the page, and in it the row, that a batch's place is in; a batch that has no such page: one that is in no cache. */
ProgramIndex program_append_page(ProgramBuilder *at, const GraphNode *node, const Symbolic *batch,
                                 ProgramValue place, NumberType type, ProgramIndex *row);
/* build_joined.c: a node of the group of two products that puts a row of each batch into a cache, of which the tensor is a view; or NULL. */
const GraphNode *program_joiner_of(const ProgramBuilder *at, const GraphTensor *tensor);
/* Does the node only put rows into caches that products read? */
bool program_joins_rows(const ProgramBuilder *at, const GraphNode *node);
/* The operand's element, of the new row or of the cache: `access` is that of the view. */
ProgramValue program_read_joined(ProgramBuilder *at, const GraphNode *node, const ProgramAccess *access);
/* Stores the row in the cache that is the node's output. */
void program_write_joined(ProgramBuilder *at, const GraphNode *node, unsigned output);
/* build_scores.c: what attention and its gradients are built of. A step on f32 values; b may be absent. */
ProgramValue program_add_number(ProgramBuilder *at, const GraphNode *node, OperatorId op, ProgramValue a,
                                ProgramValue b);
/* Where(seen, scores, -infinity) */
ProgramValue program_hidden_but(ProgramBuilder *at, const GraphNode *node, ProgramValue seen,
                                ProgramValue scores);
/* A sum of products, in f32. */
ProgramValue program_add_dot(ProgramBuilder *at, const GraphNode *node, ProgramValue a, ProgramValue b,
                             uint32_t axes);
/* The node's `scale`; 0: what follows from the queries' elements. */
double program_score_scale(const GraphNode *node, const GraphTensor *queries);
/* Products times the scale, bent by `softcap`. *bent: its tanh, or absent; NULL: not wanted. */
ProgramValue program_scores(ProgramBuilder *at, const GraphNode *node, ProgramValue product, double scale,
                            ProgramValue *bent);
/* Scores of the keys that the node's windows let a row see: key - row is bounded, as counted from the last key and row (which are
 * loaded), or from the first ones (keys: absent). */
ProgramValue program_windowed(ProgramBuilder *at, const GraphNode *node, ProgramValue scores, int row,
                              int key, ProgramValue keys, ProgramValue rows);
/* Stores the node's result where it is wanted. */
void program_write(ProgramBuilder *at, const GraphNode *node, ProgramAccess access, ProgramValue value);
/* build_sequences.c: VarlenAttention, which is a group of its own: its axes, nodes and what it writes. */
void program_add_sequences(ProgramBuilder *at, const GraphNode *node);
/* build_append.c: AppendRows, which is a group of its own as well. */
void program_append_rows(ProgramBuilder *at, const GraphNode *node);
/* build_places.c: a counting sort of keys: the same. */
bool program_is_places(const GraphNode *node); /* it counts keys, or puts them in order */
void program_add_places(ProgramBuilder *at, const GraphNode *node);
/* build_gradient.c: a part of attention's gradients: the same. */
void program_add_gradient(ProgramBuilder *at, const GraphNode *node);
/* build_scatter.c: ScatterElements and ScatterND, ReduceSegments, TensorScatter, ReverseSequence. */
ProgramValue program_add_scatter(ProgramBuilder *at, const GraphNode *node);
ProgramValue program_add_segments(ProgramBuilder *at, const GraphNode *node);
ProgramValue program_add_insertion(ProgramBuilder *at, const GraphNode *node);
ProgramValue program_add_reversal(ProgramBuilder *at, const GraphNode *node);

/* build_groups.c: of a grouped product where each group's rows begin, and how many it has; before anything is read along them. */
void program_add_groups(ProgramBuilder *at, const GraphNode *node);

/* build_window.c */
ProgramValue program_add_window(ProgramBuilder *at, const GraphNode *node);

/* build_resample.c */
ProgramValue program_add_resample(ProgramBuilder *at, const GraphNode *node);

/* build_operators.c */
void program_add_elementwise(ProgramBuilder *at, const GraphNode *node);
void program_add_product(ProgramBuilder *at, const GraphNode *node);
void program_add_row(ProgramBuilder *at, const GraphNode *node);
ProgramReduction program_reduction_of(OperatorId op);
/* e^(x - largest) / sum; `largest` and the sum are the results of a max_sum. guarded: 0 where it is -infinity. */
ProgramValue program_add_weights(ProgramBuilder *at, const GraphNode *node, NumberType compute,
                                 ProgramValue x, ProgramValue largest, ProgramValue sum, bool guarded);
/* largest + ln total; of rows whose largest is infinite the largest */
ProgramValue program_add_log_sum(ProgramBuilder *at, const GraphNode *node, NumberType compute,
                                 ProgramValue largest, ProgramValue total);
