/* Between the files fusion*.c only. */
#pragma once
#include "generator/fusion/fusion.h"

/* A group of nodes on its way to a fused operator. */
typedef struct {
  FusedKind kind;
  GraphNode *anchor; /* NULL for ELEMENTWISE */
  GraphNode *second; /* dual GEMM: the other product */
  GPtrArray *nodes;  /* GraphNode, in topological order */
  bool absorbed;     /* its nodes went into another group */
  double work;       /* operations of its elementwise nodes, for each element */
  unsigned level;    /* above those of all groups it reads from */
  unsigned seen;     /* the search that came by last */
  int64_t mean_of; /* ROW: its sum is divided by so many elements, of which parts were summed before; or 0 */
} Group;

typedef struct {
  Arena *arena;
  const Graph *graph;
  GPtrArray
      *nodes; /* copies of the live nodes, with the copies that anchors need inserted; index = place here */
  GPtrArray *tensors; /* by GraphTensor.index: the graph's, then inserted ones */
  GPtrArray *groups;
  Group **group_of; /* by node index */
  GPtrArray *
      *readers; /* by tensor index: nodes that read it or a view of it, once each; NULL: before grouping */
  GPtrArray *notes;
  unsigned max_steps, max_tensors;
  double max_work;
  bool none;
  const FusionOptions *options; /* may be NULL */
} Fuser;

void fuser_note(Fuser *fuser, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* ---- copies: copy.c ---- */

/* A tensor for a copy of `source`, whose elements lie side by side along dimension `inner`, in rows of a
 * multiple of so many elements, at addresses of as many; not inserted yet. */
GraphTensor *fuser_make_copy(Fuser *fuser, const GraphNode *reader, const GraphTensor *source,
                             const Symbolic *const *shape, unsigned rank, unsigned inner, unsigned multiple);
/* A node that copies for another one; not inserted. */
GraphNode *fuser_copy_node(Fuser *fuser, const GraphNode *for_, GraphTensor *from, GraphTensor *to);
/* The node that copies, in front of its reader, which is not in fuser->nodes yet. */
void fuser_insert_copy(Fuser *fuser, const GraphNode *reader, GraphTensor *source, GraphTensor *copy,
                       const char *why);

/* prepare.c: copies the live nodes and inserts Identity nodes where an anchor cannot read its input in
 * place. Refuses what no kernel exists for. */
bool fuser_prepare(Fuser *fuser, GError **error);

/* ---- rows of row operators: rows.c ---- */

/* Of what a row operator reads or gives, broadcast to its input: the reduced dims merge into one, and so do
 * the others. */
bool fuser_walks_rows(Fuser *fuser, const GraphTensor *tensor, const GraphNode *node);
/* Operands whose rows are not evenly spaced are copied. */
void fuser_copy_rows(Fuser *fuser, GraphNode *node);
/* A result as large as its operand whose rows are not evenly spaced, because the axes are not the last: it is
 * made where they are, and a copy brings it to its place. Returns that, or NULL. */
GraphNode *fuser_move_rows(Fuser *fuser, GraphNode *node);

/* ---- views: fusion_view.c ---- */

/* Removes Split, Slice, Transpose and Concat from the live nodes: who reads the outputs of the first three
 * reads their input instead, through tensors with strides and a beginning of their own; outputs of the graph
 * are copied. A Concat's inputs are copied to parts of its output. */
void fuser_make_views(Fuser *fuser, GPtrArray *live);
/* Part of a tensor along a dimension: `extent` indices from `first` on. */
GraphTensor *fuser_part_of(Fuser *fuser, const GraphTensor *tensor, unsigned dimension, const Symbolic *first,
                           const Symbolic *extent);
/* Is the tensor a view of what the graph computes or is given? It is read from memory, whatever group its
 * reader is in. */
bool fuser_is_view(const GraphTensor *tensor);
/* Some node, done or among `live` (which may be NULL), reads the tensor through a view. */
bool fuser_is_viewed(const Fuser *fuser, const GPtrArray *live, const GraphTensor *tensor);

/* fusion_split.c: a product of which a Split takes two halves that meet again, as in silu(gate) * up, becomes
 * two products with the halves of its right operand, for which there is one kernel (fusion_dual.c). They take
 * the Split's place among the live nodes, in which what comes before it is no view any more. false: it is no
 * such Split. */
bool fuser_split_product(Fuser *fuser, GPtrArray *live, GraphNode *split);
/* The same of two Slices, one of which stands at this place of the live nodes and the other behind it. */
bool fuser_slice_product(Fuser *fuser, GPtrArray *live, unsigned place);

/* fusion_align.c: operands whose rows do not start at multiples of 16 bytes, which wide copies need, are
 * copied to rows that do where the judge's prices say that it pays; intermediates get such rows
 * themselves. `live`: all nodes, in order. */
void fuser_align_operands(Fuser *fuser, const GPtrArray *live, GraphNode *node);

/* fusion_wide.c: nodes of more tensors than a kernel can read at once become several. `live` is rewritten. */
void fuser_split_wide(Fuser *fuser, GPtrArray *live);

/* fusion_zero.c: MatMulInteger with zero points becomes nodes without. `live` is rewritten. */
void fuser_expand_zero_points(Fuser *fuser, GPtrArray *live);

/* fusion_quantize.c: a vector of scales becomes a view that broadcasts along the axis it is for. The node is
 * the fuser's copy. ERROR_UNSUPPORTED if the vector is computed by the graph itself. */
bool fuser_place_scales(Fuser *fuser, GraphNode *node, GError **error);
/* Products whose operands were dequantised take what was quantised, and multiply the result by the scales.
 * nodes: the live ones in order; dequantising nodes that nobody reads any more are removed. */
void fuser_take_scales(Fuser *fuser, GPtrArray *nodes);

/* ---- two products of one operand: fusion_dual.c ---- */

/* Lets product groups of which one reads the other's result become one, where they have the same A and are
 * otherwise alike. Groups are complete. */
void fuser_pair_products(Fuser *fuser);

/* ---- reductions of a product's result: fusion_reduce.c ---- */

/* Lets the kernels of products reduce parts of their results that a row group reduces. Adds tensors and
 * nodes; groups are complete. */
void fuser_reduce_products(Fuser *fuser);

/* ---- programs and their judge: judge.c ---- */

/* The program of a node alone; `result` leaves it even if nobody is known to read it yet. */
const Program *fuser_program(Fuser *fuser, GraphNode *node, const GraphTensor *result);
/* The judge's verdict on programs that would run one behind the other, and on the program of a group, of which
 * `result` (may be NULL) leaves in any case. */
ProgramVerdict fuser_judge_all(const Fuser *fuser, const Program *const *programs, unsigned n, bool priced);
ProgramVerdict fuser_judge(Fuser *fuser, const Group *group, const GraphTensor *result, bool priced);

/* ---- fused operators: assemble.c ---- */

/* The program of a group, called `name` (may be NULL), of which `result` (may be NULL) leaves in any case. */
Program *fuser_group_program(Fuser *fuser, const Group *group, const GraphTensor *result, const char *name);

/* The fused operator of a group, its program called `name` (may be NULL). NULL and *error if no family takes the
 * program: then it may not be grouped so. */
FusedOperator *fuser_assemble(Fuser *fuser, const Group *group, const char *name, GError **error);
